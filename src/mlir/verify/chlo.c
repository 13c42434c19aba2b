// Verifies MLIR trees: CHLO: broadcasting ops, top_k, ragged_dot, scan.
#include "mlir/verify/verify.h"

// --- Broadcasting -------------------------------------------------------------------------------

// The size of two that are broadcast: 1 gives way, the unknown to what is known (but to 1). False
// if they do not fit.
static bool broadcast_size(int64_t a, int64_t b, int64_t *out) {
  *out = a == 1 ? b : b == 1 ? a : mv_is_dynamic_size(a) ? b : a;
  return a == 1 || b == 1 || mv_sizes_agree(a, b);
}

// Shapes aligned at their ends. Sizes that do not fit make the result's unknown: that is for the
// broadcast itself.
static bool broadcast_shapes(MlVerify *v, int n, const HlMlType *const *types, MlShape *out) {
  int rank = 0;
  for (int k = 0; k < n; k++) {
    if (types[k]->kind != HL_ML_TENSOR)
      return false;
    rank = types[k]->rank > rank ? types[k]->rank : rank;
  }
  *out = mv_shape_new(v, rank, NULL);
  for (int d = 0; d < rank; d++) {
    int64_t size = 1;
    for (int k = 0; k < n; k++) {
      const int at = d - (rank - types[k]->rank);
      if (at >= 0 && !broadcast_size(size, types[k]->dim[at], &size))
        return false;
    }
    out->dim[d] = size;
  }
  return true;
}

// The shape of two operands, the smaller of which stands at the given dimensions of the larger.
static bool broadcast_at(MlVerify *v, const HlMlType *lhs, const HlMlType *rhs, HlI64s dims,
                         MlShape *out) {
  if (lhs->kind != HL_ML_TENSOR || rhs->kind != HL_ML_TENSOR)
    return false;
  const HlMlType *large = lhs->rank > rhs->rank ? lhs : rhs, *small = large == lhs ? rhs : lhs;
  if (dims.n != small->rank)
    return false;
  *out = mv_shape_of(v, large);
  out->bound = NULL;
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] < 0 || dims.at[k] >= large->rank ||
        !broadcast_size(small->dim[k], large->dim[dims.at[k]], &out->dim[dims.at[k]]))
      return false;
  return true;
}

// `element` NULL: `dtype`.
static bool check_broadcast(MlVerify *v, const HlMlOp *op, const HlMlType *element, HlDtype dtype) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  const HlMlAttr *dims = ml_attr(op, ML_A_BROADCAST_DIMENSIONS);
  if (!mv_elements_agree(lhs, rhs))
    return mv_bad(v, op, "lhs and rhs should have the same element type: '%s' vs '%s'",
                  mv_text(v, lhs), mv_text(v, rhs));
  MlShape shape;
  const bool is_known = dims ? broadcast_at(v, lhs, rhs, hl_ml_ints(v->arena, dims), &shape)
                             : broadcast_shapes(v, 2, (const HlMlType *[]){lhs, rhs}, &shape);
  if (!is_known) {
    const HlMlType *out = hl_ml_element(mv_out(op, 0));
    if (element ? !mv_elements_agree(out, element) : out->dtype != dtype)
      return mv_bad(v, op, "the result has the wrong element type: '%s'",
                    mv_text(v, mv_out(op, 0)));
    return true;
  }
  shape.element = element;
  shape.dtype = dtype;
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_broadcasting(MlVerify *v, const HlMlOp *op) {
  return check_broadcast(v, op, hl_ml_element(mv_in(op, 0)), HL_NO_DTYPE);
}

bool mv_rule_broadcasting_compare(MlVerify *v, const HlMlOp *op) {
  return check_broadcast(v, op, NULL, HL_PRED);
}

bool mv_rule_broadcasting_complex(MlVerify *v, const HlMlOp *op) {
  const HlDtype part = hl_ml_dtype(mv_in(op, 0));
  if (part != HL_F32 && part != HL_F64)
    return mv_bad(v, op, "takes f32 or f64, but is given '%s'", mv_text(v, mv_in(op, 0)));
  return check_broadcast(v, op, NULL, part == HL_F32 ? HL_C64 : HL_C128);
}

bool mv_rule_broadcasting_select(MlVerify *v, const HlMlOp *op) {
  const HlMlType *types[] = {mv_in(op, 0), mv_in(op, 1), mv_in(op, 2)};
  if (hl_ml_element(types[1]) != hl_ml_element(types[2]))
    return mv_bad(v, op, "on_true and on_false should have the same element type: '%s' vs '%s'",
                  mv_text(v, types[1]), mv_text(v, types[2]));
  MlShape shape;
  if (!broadcast_shapes(v, 3, types, &shape))
    return true;
  shape.element = hl_ml_element(types[1]);
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_predicate(MlVerify *v, const HlMlOp *op) {
  if (mv_in(op, 0)->kind != HL_ML_TENSOR)
    return true;
  MlShape shape = mv_shape_of(v, mv_in(op, 0));
  shape.element = NULL;
  shape.dtype = HL_PRED;
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_constant_like(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  if (value && value->type && value->type != hl_ml_element(mv_out(op, 0)))
    return mv_bad(v, op, "the value is '%s', but the result '%s'", mv_text(v, value->type),
                  mv_text(v, mv_out(op, 0)));
  return true;
}

// --- top_k --------------------------------------------------------------------------------------

bool mv_rule_top_k(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0);
  const int64_t k = ml_attr_int(op, ML_A_K, 0);
  if (in->kind != HL_ML_TENSOR)
    return true;
  if (in->rank < 1)
    return mv_bad(v, op, "the operand should have a rank of at least 1, but is '%s'",
                  mv_text(v, in));
  const int64_t last = in->dim[in->rank - 1];
  if (!mv_is_dynamic_size(last) && last < k)
    return mv_bad(v, op,
                  "the operand's last dimension should have a size of at least %lld, but has %lld",
                  (LL)k, (LL)last);
  MlShape shape = mv_shape_of(v, in);
  shape.dim[in->rank - 1] = k;
  if (shape.bound)
    shape.bound[in->rank - 1] = HL_UNBOUNDED;
  if (!mv_result_is(v, op, 0, &shape))
    return false;
  shape.element = NULL;
  shape.dtype = HL_S32;
  return mv_result_is(v, op, 1, &shape);
}

// --- ragged_dot ---------------------------------------------------------------------------------

typedef struct Ragged {
  MlDot dot;
  HlI64s ragged, group;
  int64_t dimension;  // the ragged one of lhs
  bool is_batch, is_contracting;
} Ragged;

// The sizes of lhs in front of the ragged dimension, in the order of batch, contracting or free
// dimensions.
static HlI64s prefix_sizes(MlVerify *v, const HlMlOp *op, const Ragged *r) {
  const HlMlType *lhs = mv_in(op, 0);
  int64_t *sizes = HL_ARRAY(v->arena, int64_t, 2 * lhs->rank + 1);
  int n = 0;
  const HlI64s batch = r->dot.lhs_batch, contracting = r->dot.lhs_contracting;
  for (int k = 0; k < batch.n && !(r->is_batch && batch.at[k] == r->dimension); k++)
    sizes[n++] = lhs->dim[batch.at[k]];
  for (int k = 0; r->is_contracting && k < contracting.n && contracting.at[k] != r->dimension; k++)
    sizes[n++] = lhs->dim[contracting.at[k]];
  const bool *is_used = mv_members(v, lhs->rank, batch, contracting);
  for (int k = 0; !r->is_batch && !r->is_contracting && k < r->dimension; k++)
    if (!is_used[k])
      sizes[n++] = lhs->dim[k];
  return (HlI64s){sizes, n};
}

static bool check_group_sizes(MlVerify *v, const HlMlOp *op, const Ragged *r) {
  const HlMlType *sizes = mv_in(op, 2);
  const HlI64s prefix = prefix_sizes(v, op, r);
  if (sizes->rank == 1)
    return true;
  bool is_right = sizes->rank == prefix.n + 1;
  for (int k = 0; is_right && k < prefix.n; k++)
    is_right = sizes->dim[k] == prefix.at[k];
  if (is_right)
    return true;
  return mv_bad(v, op, "group_sizes should have the shape [%s%sgroups], but is '%s'",
                mv_ints_text(v, prefix), prefix.n ? ", " : "", mv_text(v, sizes));
}

static bool check_groups(MlVerify *v, const HlMlOp *op, const Ragged *r, int64_t n_groups) {
  const HlMlType *rhs = mv_in(op, 1);
  if (!mv_in_range(v, op, r->group, rhs->rank, ML_A_RHS_GROUP_DIMENSIONS, "the rank of rhs") ||
      !mv_distinct(v, op, r->group, r->dot.rhs_batch, ML_A_RHS_GROUP_DIMENSIONS,
                   ML_A_RHS_BATCHING_DIMENSIONS) ||
      !mv_distinct(v, op, r->group, r->dot.rhs_contracting, ML_A_RHS_GROUP_DIMENSIONS,
                   ML_A_RHS_CONTRACTING_DIMENSIONS))
    return false;
  const int want = r->is_batch || r->is_contracting ? 0 : 1;
  if (r->group.n != want)
    return mv_bad(
        v, op, "rhs should have %s group dimension when the ragged dimension is %s, but has %d",
        want ? "exactly one" : "no", want ? "free" : "batching or contracting", r->group.n);
  if (want == 1 && !mv_sizes_agree(n_groups, rhs->dim[r->group.at[0]]))
    return mv_bad(v, op, "the group dimension of rhs should have size %lld, but has %lld",
                  (LL)n_groups, (LL)rhs->dim[r->group.at[0]]);
  return true;
}

static bool check_ragged_result(MlVerify *v, const HlMlOp *op, const Ragged *r, int64_t n_groups) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  MlShape shape = {.dim = HL_ARRAY(v->arena, int64_t, lhs->rank + rhs->rank + 1)};
  if (r->is_contracting)
    shape.dim[shape.rank++] = n_groups;
  for (int k = 0; k < r->dot.lhs_batch.n; k++)
    shape.dim[shape.rank++] = lhs->dim[r->dot.lhs_batch.at[k]];
  const bool *lhs_used = mv_members(v, lhs->rank, r->dot.lhs_batch, r->dot.lhs_contracting);
  const bool *rhs_used = mv_members(v, rhs->rank, r->dot.rhs_batch, r->dot.rhs_contracting);
  const bool *is_group = mv_members(v, rhs->rank, r->group, (HlI64s){0});
  for (int k = 0; k < lhs->rank; k++)
    if (!lhs_used[k])
      shape.dim[shape.rank++] = lhs->dim[k];
  for (int k = 0; k < rhs->rank; k++)
    if (!rhs_used[k] && !is_group[k])
      shape.dim[shape.rank++] = rhs->dim[k];
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_ragged_dot(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_RAGGED_DOT_DIMENSION_NUMBERS);
  const HlMlType *lhs = mv_in(op, 0), *sizes = mv_in(op, 2);
  // MHLO keeps the numbers of the plain dot product in a field of their own.
  const HlMlAttr *own = numbers ? ml_field(numbers, ML_A_DOT_DIMENSION_NUMBERS) : NULL;
  const HlMlAttr *dot = own ? own : numbers;
  Ragged r = {.dot = {.lhs_batch = mv_field_ints(v, dot, ML_A_LHS_BATCHING_DIMENSIONS),
                      .rhs_batch = mv_field_ints(v, dot, ML_A_RHS_BATCHING_DIMENSIONS),
                      .lhs_contracting = mv_field_ints(v, dot, ML_A_LHS_CONTRACTING_DIMENSIONS),
                      .rhs_contracting = mv_field_ints(v, dot, ML_A_RHS_CONTRACTING_DIMENSIONS)},
              .ragged = mv_field_ints(v, numbers, ML_A_LHS_RAGGED_DIMENSIONS),
              .group = mv_field_ints(v, numbers, ML_A_RHS_GROUP_DIMENSIONS)};
  if (numbers && numbers->kind == HL_ML_A_OTHER)
    return true;
  if (lhs->kind != HL_ML_TENSOR || mv_in(op, 1)->kind != HL_ML_TENSOR)
    return mv_bad(v, op, "lhs and rhs should be ranked tensors");
  if (!mv_check_dot(v, op, &r.dot))
    return false;
  if (r.ragged.n != 1)
    return mv_bad(v, op, "lhs should have exactly one ragged dimension, but has %d", r.ragged.n);
  if (!mv_in_range(v, op, r.ragged, lhs->rank, ML_A_LHS_RAGGED_DIMENSIONS, "the rank of lhs"))
    return false;
  if (sizes->rank == 0)
    return mv_bad(v, op, "group_sizes should have a rank of at least 1");
  r.dimension = r.ragged.at[0];
  r.is_batch = hl_i64s_find(r.dot.lhs_batch, r.dimension) >= 0;
  r.is_contracting = !r.is_batch && hl_i64s_find(r.dot.lhs_contracting, r.dimension) >= 0;
  const int64_t n_groups = sizes->dim[sizes->rank - 1];
  return check_group_sizes(v, op, &r) && check_groups(v, op, &r, n_groups) &&
         check_ragged_result(v, op, &r, n_groups);
}

// --- scan ---------------------------------------------------------------------------------------

// A parameter of the body is the input without the scanned dimension, or the initial value.
static bool check_scan_arg(MlVerify *v, const HlMlOp *op, int k, bool is_input, int64_t dimension) {
  const HlMlType *type = mv_in(op, k), *arg = hl_ml_body(op, 0)->args[k]->type;
  bool is_right = mv_elements_agree(type, arg) && arg->kind == HL_ML_TENSOR &&
                  arg->rank == type->rank - (is_input ? 1 : 0);
  for (int d = 0; is_right && d < arg->rank; d++)
    is_right = mv_sizes_agree(arg->dim[d], type->dim[d + (is_input && d >= dimension)]);
  if (is_right)
    return true;
  return mv_bad(v, op, "operand %d, '%s', and the parameter of its body, '%s', do not fit", k,
                mv_text(v, type), mv_text(v, arg));
}

static bool check_scan_sizes(MlVerify *v, const HlMlOp *op, int n_inputs, int64_t dimension,
                             int64_t *size) {
  const int64_t given = ml_attr_int(op, ML_A_SCAN_DIM_SIZE, HL_UNBOUNDED);
  *size = given;
  for (int k = 0; k < n_inputs; k++) {
    const HlMlType *type = mv_in(op, k);
    if (dimension >= type->rank)
      return mv_bad(v, op, "dimension %lld is out of bounds for operand %d, '%s'", (LL)dimension, k,
                    mv_text(v, type));
    if (!mv_sizes_agree(*size, type->dim[dimension]))
      return mv_bad(v, op,
                    "operand %d has size %lld in the scanned dimension, but %lld is expected", k,
                    (LL)type->dim[dimension], (LL)*size);
    if (mv_is_dynamic_size(*size))
      *size = type->dim[dimension];
  }
  return true;
}

static bool check_scan_results(MlVerify *v, const HlMlOp *op, int n_inits, int64_t dimension,
                               int64_t size) {
  const HlMlOp *end = mv_return(hl_ml_body(op, 0));
  if (end->n_operands < (uint32_t)n_inits)
    return mv_bad(v, op, "its body must return at least its %d carries, but returns %u values",
                  n_inits, end->n_operands);
  if (end->n_operands != op->n_results)
    return mv_bad(v, op, "its body returns %u values, but it has %u results", end->n_operands,
                  op->n_results);
  const int n_outputs = (int)end->n_operands - n_inits;
  for (int k = 0; k < (int)end->n_operands; k++) {
    const HlMlType *type = mv_in(end, k);
    if (type->kind != HL_ML_TENSOR)
      return mv_bad(v, op, "value %d that its body returns is not a ranked tensor: '%s'", k,
                    mv_text(v, type));
    const bool is_output = k < n_outputs;
    if (is_output && dimension > type->rank)
      return mv_bad(v, op, "dimension %lld is out of bounds for output %d", (LL)dimension, k);
    MlShape shape = mv_shape_new(v, type->rank + is_output, hl_ml_element(type));
    for (int d = 0, from = 0; d < shape.rank; d++)
      shape.dim[d] = is_output && d == dimension ? size : type->dim[from++];
    if (!mv_result_is(v, op, k, &shape))
      return false;
  }
  return true;
}

bool mv_rule_scan(MlVerify *v, const HlMlOp *op) {
  const MlRange inputs = mv_operands(v, op, 0), inits = mv_operands(v, op, 1);
  const int64_t dimension = ml_attr_int(op, ML_A_DIMENSION, 0);
  const HlMlBlock *body = hl_ml_body(op, 0);
  int64_t size;
  if (inputs.n == 0 && op->n_results == (uint32_t)inits.n)
    return mv_bad(v, op, "needs at least one input or output");
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (mv_in(op, (int)k)->kind != HL_ML_TENSOR)
      return mv_bad(v, op, "operand %u is not a ranked tensor: '%s'", k,
                    mv_text(v, mv_in(op, (int)k)));
  if (!check_scan_sizes(v, op, inputs.n, dimension, &size))
    return false;
  if ((uint32_t)body->n_args != op->n_operands)
    return mv_bad(v, op, "its body should take %u parameters, but takes %d", op->n_operands,
                  body->n_args);
  for (int k = 0; k < body->n_args; k++)
    if (!check_scan_arg(v, op, k, k < inputs.n, dimension))
      return false;
  return check_scan_results(v, op, inits.n, dimension, size);
}
