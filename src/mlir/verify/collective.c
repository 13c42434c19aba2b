// Verifies MLIR trees: communication: replica groups, collectives, sends and receives, asynchronous
// pairs.
#include "mlir/verify/verify.h"

#include <string.h>

// --- Replica groups -----------------------------------------------------------------------------

// A table of the ids seen; ids that no list of this length can have without leaving one out are not
// in it.
typedef struct Seen {
  bool *at;
  int64_t n, count;
} Seen;

static Seen seen_new(MlVerify *v, int64_t n) {
  return (Seen){HL_ARRAY(v->arena, bool, n + 1), n, 0};
}

// False if it was there already.
static bool seen_add(Seen *seen, int64_t id) {
  if (id < 0 || id >= seen->n)
    return true;
  const bool is_new = !seen->at[id];
  seen->at[id] = true;
  seen->count += is_new;
  return is_new;
}

static bool check_mesh_groups(MlVerify *v, const HlMlOp *op, const HlMlAttr *groups) {
  const HlMlAttr *mesh = ml_field(groups, ML_A_MESH), *axes = ml_field(groups, ML_A_AXES);
  if (mesh && mesh->kind == HL_ML_A_SYMBOL) {
    if (mesh->sym && mv_symbol(v, mesh->sym) == NULL)
      return mv_bad(v, op, "replica_groups: there is no mesh '%s'", mesh->sym->text);
    return true;
  }
  const HlMlAttr *mesh_axes = mesh ? ml_field(mesh, ML_A_AXES) : NULL;
  if (mesh_axes == NULL || mesh_axes->kind != HL_ML_A_ARRAY)
    return mv_bad(v, op, "replica_groups: mesh must be a symbol or a mesh");
  for (int k = 0; axes && axes->kind == HL_ML_A_ARRAY && k < axes->n; k++) {
    const HlMlAttr *name = ml_field(axes->list[k], ML_A_NAME);
    bool is_found = false;
    for (int i = 0; i < mesh_axes->n && name && !is_found; i++) {
      const HlMlAttr *own = ml_field(mesh_axes->list[i], ML_A_NAME);
      is_found = own && own->sym == name->sym;
    }
    if (!is_found)
      return mv_bad(v, op, "replica_groups: axis '%s' is not in the mesh",
                    name && name->sym ? name->sym->text : "?");
  }
  return true;
}

// `equal`: all groups have the same size, so no padding by -1; `size` if it is given, else -1.
static bool check_groups(MlVerify *v, const HlMlOp *op, bool equal, bool use_global, int64_t size) {
  const HlMlAttr *groups = ml_attr(op, ML_A_REPLICA_GROUPS);
  if (groups && groups->kind == HL_ML_A_STRUCT)
    return check_mesh_groups(v, op, groups);
  if (groups == NULL || groups->type == NULL || groups->type->kind != HL_ML_TENSOR)
    return true;
  if (groups->type->rank != 2)
    return mv_bad(v, op, "replica groups should be a tensor of rank 2, but are '%s'",
                  mv_text(v, groups->type));
  const HlI64s ids = hl_ml_ints(v->arena, groups);
  if (use_global && ids.n == 0)
    return mv_bad(v, op, "replica groups cannot be empty with use_global_device_ids");
  Seen seen = seen_new(v, ids.n);
  int64_t n_real = 0;
  for (int k = 0; k < ids.n; k++) {
    if (ids.at[k] == -1 && !equal)
      continue;
    if (ids.at[k] == -1)
      return mv_bad(v, op, "invalid replica id -1");
    if (!seen_add(&seen, ids.at[k]))
      return mv_bad(v, op, "replica id %lld is seen more than once", (LL)ids.at[k]);
    n_real++;
  }
  for (int64_t k = 0; k < n_real; k++)
    if (!seen.at[k])
      return mv_bad(v, op, "replica id %lld is not seen in the replica groups", (LL)k);
  if (equal && size >= 0 && (groups->type->dim[0] == 0 || groups->type->dim[1] != size))
    return mv_bad(v, op, "replica groups should have size %lld, but have %lld", (LL)size,
                  (LL)groups->type->dim[1]);
  return true;
}

static int64_t channel_of(const HlMlOp *op) {
  const HlMlAttr *channel = ml_attr(op, ML_A_CHANNEL_HANDLE);
  return channel ? ml_field_int(channel, ML_A_HANDLE, 0) : 0;
}

static bool uses_global(const HlMlOp *op) {
  return ml_attr_int(op, ML_A_USE_GLOBAL_DEVICE_IDS, 0) != 0;
}

static bool check_channel(MlVerify *v, const HlMlOp *op, int64_t least) {
  if (uses_global(op) && channel_of(op) < least)
    return mv_bad(v, op,
                  "use_global_device_ids needs a channel id of at least %lld, but it is %lld",
                  (LL)least, (LL)channel_of(op));
  return true;
}

// --- Collectives --------------------------------------------------------------------------------

static bool check_gathered(MlVerify *v, const HlMlOp *op, int k, int64_t dimension) {
  const HlMlType *in = mv_in(op, k), *out = mv_out(op, k);
  if (dimension >= in->rank)
    return mv_bad(v, op, "all_gather_dim %lld is not a dimension of '%s'", (LL)dimension,
                  mv_text(v, in));
  if (in->dim[dimension] == 0)
    return mv_bad(v, op, "the operand has size 0 in all_gather_dim");
  if (in->rank != out->rank)
    return mv_bad(v, op, "operand and result must have the same rank: '%s' vs '%s'", mv_text(v, in),
                  mv_text(v, out));
  for (int d = 0; d < in->rank; d++)
    if (d != dimension && !mv_sizes_agree(in->dim[d], out->dim[d]))
      return mv_bad(v, op, "operand and result should differ in all_gather_dim only: '%s' vs '%s'",
                    mv_text(v, in), mv_text(v, out));
  const int64_t from = in->dim[dimension], to = out->dim[dimension];
  if (!mv_is_dynamic_size(from) && !mv_is_dynamic_size(to) && to % from != 0)
    return mv_bad(v, op,
                  "the result has size %lld in all_gather_dim, no multiple of the operand's %lld",
                  (LL)to, (LL)from);
  return true;
}

bool mv_rule_all_gather(MlVerify *v, const HlMlOp *op) {
  if (!check_groups(v, op, true, uses_global(op), -1) || !check_channel(v, op, 0))
    return false;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!check_gathered(v, op, (int)k, ml_attr_int(op, ML_A_ALL_GATHER_DIM, 0)))
      return false;
  return true;
}

// The region folds scalars of the type of operand k.
static bool check_scalar_fold(MlVerify *v, const HlMlOp *op, int k) {
  const HlMlType *type = mv_in(op, k), *element = hl_ml_element(type);
  const MlFold fold = {.n = 1, .input = &type, .init_element = &element};
  return mv_check_fold(v, op, hl_ml_body(op, 0), &fold);
}

static bool check_folded_results(MlVerify *v, const HlMlOp *op, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (!check_scalar_fold(v, op, (int)k))
      return false;
  if (n != op->n_results)
    return mv_bad(v, op, "has %u operands, but %u results", n, op->n_results);
  for (uint32_t k = 0; k < n; k++) {
    MlShape shape = mv_shape_of(v, mv_in(op, (int)k));
    shape.element = mv_accumulator(hl_ml_body(op, 0), 0, mv_in(op, (int)k));
    if (!mv_result_is(v, op, (int)k, &shape))
      return false;
  }
  return true;
}

bool mv_rule_all_reduce(MlVerify *v, const HlMlOp *op) {
  return check_groups(v, op, false, uses_global(op), -1) && check_channel(v, op, 1) &&
         check_folded_results(v, op, op->n_operands);
}

bool mv_rule_reduce_scatter(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  const int64_t dimension = ml_attr_int(op, ML_A_SCATTER_DIMENSION, 0);
  if (!check_groups(v, op, true, uses_global(op), -1) || !check_scalar_fold(v, op, 0))
    return false;
  if (in->rank != out->rank)
    return mv_bad(v, op, "operand and result should have the same rank: '%s' vs '%s'",
                  mv_text(v, in), mv_text(v, out));
  if (dimension >= in->rank)
    return mv_bad(v, op, "scatter_dimension %lld is not below the rank %d", (LL)dimension,
                  in->rank);
  if (!check_channel(v, op, 1))
    return false;
  const int64_t from = in->dim[dimension], to = out->dim[dimension];
  if (mv_is_dynamic_size(from) || mv_is_dynamic_size(to))
    return true;
  if (from == 0 || to == 0)
    return mv_bad(v, op, "the size in scatter_dimension cannot be zero: '%s' and '%s'",
                  mv_text(v, in), mv_text(v, out));
  if (from % to != 0)
    return mv_bad(
        v, op, "the operand has size %lld in scatter_dimension, no multiple of the result's %lld",
        (LL)from, (LL)to);
  for (int d = 0; d < in->rank; d++)
    if (d != dimension && !mv_sizes_agree(in->dim[d], out->dim[d]))
      return mv_bad(v, op,
                    "operand and result should differ in scatter_dimension only: '%s' vs '%s'",
                    mv_text(v, in), mv_text(v, out));
  const HlMlType *element = mv_accumulator(hl_ml_body(op, 0), 0, in);
  if (hl_ml_element(out) != element)
    return mv_bad(v, op, "the result should have the element type '%s', but is '%s'",
                  mv_text(v, element), mv_text(v, out));
  return true;
}

static bool check_exchanged(MlVerify *v, const HlMlOp *op, int k) {
  const int64_t split = ml_attr_int(op, ML_A_SPLIT_DIMENSION, 0),
                concat = ml_attr_int(op, ML_A_CONCAT_DIMENSION, 0);
  const int64_t count = ml_attr_int(op, ML_A_SPLIT_COUNT, 1);
  const HlMlType *in = mv_in(op, k);
  if (split >= in->rank || concat >= in->rank)
    return mv_bad(v, op,
                  "split_dimension %lld or concat_dimension %lld is out of bounds for rank %d",
                  (LL)split, (LL)concat, in->rank);
  MlShape shape = mv_shape_of(v, in);
  int64_t *lists[] = {shape.dim, shape.bound};
  if (!mv_is_dynamic_size(shape.dim[split]) && shape.dim[split] % count != 0)
    return mv_bad(v, op, "split_dimension has size %lld, no multiple of split_count %lld",
                  (LL)shape.dim[split], (LL)count);
  for (int l = 0; l < 2 && lists[l]; l++) {
    if (!mv_is_dynamic_size(lists[l][split]))
      lists[l][split] /= count;
    if (!mv_is_dynamic_size(lists[l][concat]) &&
        __builtin_mul_overflow(lists[l][concat], count, &lists[l][concat]))
      return mv_bad(v, op, "concat_dimension has too large a size");
  }
  return mv_result_is(v, op, k, &shape);
}

bool mv_rule_all_to_all(MlVerify *v, const HlMlOp *op) {
  if (ml_attr(op, ML_A_SPLIT_COUNT) == NULL)  // MHLO's form of tuples
    return check_groups(v, op, true, false, -1);
  if (!check_groups(v, op, true, false, ml_attr_int(op, ML_A_SPLIT_COUNT, 1)))
    return false;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!check_exchanged(v, op, (int)k))
      return false;
  return true;
}

static bool check_pairs(MlVerify *v, const HlMlOp *op, const HlMlAttr *pairs) {
  if (pairs == NULL || pairs->type == NULL || pairs->type->kind != HL_ML_TENSOR)
    return true;
  if (pairs->type->rank != 2 || pairs->type->dim[1] != 2)
    return mv_bad(v, op, "source_target_pairs should have the shape (N, 2), but are '%s'",
                  mv_text(v, pairs->type));
  const HlI64s ids = hl_ml_ints(v->arena, pairs);
  int64_t *side[2] = {HL_ARRAY(v->arena, int64_t, ids.n / 2 + 1),
                      HL_ARRAY(v->arena, int64_t, ids.n / 2 + 1)};
  for (int k = 0; k < ids.n; k++) {
    if (ids.at[k] < 0)
      return mv_bad(v, op, "replica ids in source_target_pairs must not be negative: %lld",
                    (LL)ids.at[k]);
    side[k % 2][k / 2] = ids.at[k];
  }
  if (!mv_is_unique(v, (HlI64s){side[0], ids.n / 2}))
    return mv_bad(v, op, "source_target_pairs has duplicate sources");
  if (!mv_is_unique(v, (HlI64s){side[1], ids.n / 2}))
    return mv_bad(v, op, "source_target_pairs has duplicate targets");
  return true;
}

bool mv_rule_collective_permute(MlVerify *v, const HlMlOp *op) {
  return check_pairs(v, op, ml_attr(op, ML_A_SOURCE_TARGET_PAIRS)) &&
         mv_result_is_type(v, op, 0, mv_in(op, 0));
}

// A root that is an operand: one i32 per operand of data.
static bool check_root(MlVerify *v, const HlMlOp *op, uint32_t *n_data) {
  const bool is_dynamic = ml_attr_int(op, ML_A_HAS_DYNAMIC_ROOT, 0) != 0;
  *n_data = op->n_operands - (is_dynamic && op->n_operands > 0);
  if (!is_dynamic && op->n_operands == 0)
    return mv_bad(v, op, "requires at least one operand");
  if (!is_dynamic)
    return true;
  if (op->n_operands < 2)
    return mv_bad(v, op, "has_dynamic_root requires at least two operands, data and root");
  const HlMlType *root = mv_in(op, (int)op->n_operands - 1);
  if (root->kind != HL_ML_TENSOR || root->rank != 1 || !mv_is_int(root, 32))
    return mv_bad(v, op, "the last operand should be the root, of rank 1 and i32, but is '%s'",
                  mv_text(v, root));
  if (root->dim[0] != *n_data)
    return mv_bad(v, op, "the root has %lld elements, but there are %u operands of data",
                  (LL)root->dim[0], *n_data);
  return true;
}

bool mv_rule_collective_broadcast(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *groups = ml_attr(op, ML_A_REPLICA_GROUPS);
  uint32_t n;
  if (groups && groups->kind == HL_ML_A_STRUCT) {
    if (!check_mesh_groups(v, op, groups))
      return false;
  } else if (groups && groups->type && groups->type->kind == HL_ML_TENSOR) {
    if (groups->type->rank != 2)
      return mv_bad(v, op, "replica groups should be a tensor of rank 2, but are '%s'",
                    mv_text(v, groups->type));
    const HlI64s ids = hl_ml_ints(v->arena, groups);
    for (int k = 0; k < ids.n; k++)
      if (ids.at[k] < 0)
        return mv_bad(v, op, "replica ids must not be negative: %lld", (LL)ids.at[k]);
    if (!mv_is_unique(v, ids))
      return mv_bad(v, op, "a replica id is seen more than once in the replica groups");
  }
  if (!check_root(v, op, &n))
    return false;
  if (n != op->n_results)
    return mv_bad(v, op, "has %u operands of data, but %u results", n, op->n_results);
  for (uint32_t k = 0; k < n; k++)
    if (!mv_result_is_type(v, op, (int)k, mv_in(op, (int)k)))
      return false;
  return true;
}

bool mv_rule_collective_reduce(MlVerify *v, const HlMlOp *op) {
  uint32_t n;
  return check_groups(v, op, false, uses_global(op), -1) && check_channel(v, op, 1) &&
         check_root(v, op, &n) && check_folded_results(v, op, n);
}

// --- Send, receive, feeds -----------------------------------------------------------------------

enum { DEVICE_TO_DEVICE = 1, DEVICE_TO_HOST = 2, HOST_TO_DEVICE = 3 };

static bool check_channel_type(MlVerify *v, const HlMlOp *op, int64_t host, const char *word) {
  const HlMlAttr *channel = ml_attr(op, ML_A_CHANNEL_HANDLE);
  const int64_t type = channel ? ml_field_int(channel, ML_A_TYPE, 0) : 0;
  const bool is_host = ml_attr_int(op, ML_A_IS_HOST_TRANSFER, 0) != 0;
  if (!is_host && type != DEVICE_TO_DEVICE)
    return mv_bad(
        v, op,
        "the channel type should be DEVICE_TO_DEVICE (1) without is_host_transfer, but is %lld",
        (LL)type);
  if (is_host && type != host)
    return mv_bad(v, op, "the channel type should be %s (%lld) with is_host_transfer, but is %lld",
                  word, (LL)host, (LL)type);
  return true;
}

bool mv_rule_send(MlVerify *v, const HlMlOp *op) {
  return check_channel_type(v, op, DEVICE_TO_HOST, "DEVICE_TO_HOST");
}

// The results are tensors and, last, a token.
static bool ends_with_token(MlVerify *v, const HlMlOp *op) {
  if (op->n_results == 0)
    return mv_bad(v, op, "needs at least 1 result, but has none");
  for (uint32_t k = 0; k < op->n_results; k++) {
    const HlMlType *type = mv_out(op, (int)k);
    const bool is_last = k + 1 == op->n_results;
    if (is_last ? type->kind != HL_ML_TOKEN : type->kind != HL_ML_TENSOR)
      return mv_bad(v, op, "result #%u should be a %s, but is '%s'", k,
                    is_last ? "token" : "tensor", mv_text(v, type));
  }
  return true;
}

bool mv_rule_recv(MlVerify *v, const HlMlOp *op) {
  return check_channel_type(v, op, HOST_TO_DEVICE, "HOST_TO_DEVICE") && ends_with_token(v, op);
}

static bool check_layouts(MlVerify *v, const HlMlOp *op, const HlMlAttr *layouts) {
  if (layouts->kind != HL_ML_A_ARRAY)
    return mv_bad(v, op, "layout should be an array");
  if ((uint32_t)layouts->n != op->n_results - 1)
    return mv_bad(v, op, "layout should have an entry per result but the token, %u, but has %d",
                  op->n_results - 1, layouts->n);
  for (int k = 0; k < layouts->n; k++) {
    const HlMlAttr *one = layouts->list[k];
    if (one->kind != HL_ML_A_ARRAY)
      return mv_bad(v, op, "entry %d of layout should be an array", k);
    for (int i = 0; i < one->n; i++)
      if (one->list[i]->kind != HL_ML_A_INT)
        return mv_bad(v, op, "entry %d of layout should hold integers", k);
  }
  return true;
}

bool mv_rule_infeed(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *layouts = ml_attr(op, ML_A_LAYOUT);
  return ends_with_token(v, op) && (layouts == NULL || check_layouts(v, op, layouts));
}

// --- Asynchronous pairs -------------------------------------------------------------------------

static bool may_be_async(const HlMlOp *op) {
  switch (op->row) {
  case ML_STABLEHLO_ALL_GATHER:
  case ML_STABLEHLO_ALL_REDUCE:
  case ML_STABLEHLO_ALL_TO_ALL:
  case ML_STABLEHLO_COLLECTIVE_BROADCAST:
  case ML_STABLEHLO_COLLECTIVE_PERMUTE:
  case ML_STABLEHLO_COLLECTIVE_REDUCE:
  case ML_STABLEHLO_DYNAMIC_SLICE:
  case ML_STABLEHLO_DYNAMIC_UPDATE_SLICE:
  case ML_STABLEHLO_REDUCE_SCATTER:
  case ML_STABLEHLO_SLICE: return true;
  default: return false;
  }
}

bool mv_rule_async_start(MlVerify *v, const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (body->first == NULL || body->first->next != body->last || body->first == body->last)
    return mv_bad(v, op, "its region must hold exactly one op and a return");
  if (!may_be_async(body->first))
    return mv_bad(v, op, "its region must hold a collective or a slice, but holds '%s'",
                  body->first->name->text);
  if ((uint32_t)body->n_args != op->n_operands)
    return mv_bad(v, op, "has %u operands, but its region takes %d", op->n_operands, body->n_args);
  for (int k = 0; k < body->n_args; k++)
    if (body->args[k]->type != mv_in(op, k))
      return mv_bad(v, op, "operand %d is '%s', but the parameter of its region is '%s'", k,
                    mv_text(v, mv_in(op, k)), mv_text(v, body->args[k]->type));
  const HlMlOp *end = mv_return(body);
  if (end->n_operands != 1)
    return mv_bad(v, op, "its region must return exactly one value, but returns %u",
                  end->n_operands);
  const HlMlType *future = mv_out(op, 0);
  if (future->n != 1 || future->element[0] != mv_in(end, 0))
    return mv_bad(v, op, "the result should be a future of '%s', but is '%s'",
                  mv_text(v, mv_in(end, 0)), mv_text(v, future));
  return true;
}

bool mv_rule_async_done(MlVerify *v, const HlMlOp *op) {
  const HlMlType *future = mv_in(op, 0);
  if (future->kind != HL_ML_FUTURE)
    return true;
  if (future->n != 1)
    return mv_bad(v, op, "the future should be of exactly one type, but is '%s'",
                  mv_text(v, future));
  return mv_result_is_type(v, op, 0, future->element[0]);
}
