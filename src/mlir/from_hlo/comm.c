// Writes HLO as StableHLO or MHLO: collectives, channels, the host, custom calls.
#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "mlir/from_hlo/from_hlo.h"

// --- Collectives -----------------------------------------------------------------------------------------

// One collective of some operands (and behind them its root, where that is one); its region, if it has one, is the
// computation of the instruction.
static bool put_collective(Fh *f, const HlInst *inst, int like, int n, HlMlValue *const *in,
                           const HlMlType *const *types, HlMlValue **out) {
  const int n_roots = hl_attr_int(inst, HL_A_HAS_DYNAMIC_ROOT) != 0;
  const MlOpRow *row = ml_row(f->row[like]);
  int n_regions = row->regions[0] ? inst->n_calls : 0;
  HlMlOp *op = fh_op(f, (HlMlRow)f->row[like], n + n_roots, in, n, types, n_regions);
  for (int k = 0; k < n; k++)
    out[k] = &op->results[k];
  if (!fh_fill(f, op, inst))
    return false;
  if (!n_regions)
    return true;
  const HlComp *comp = inst->calls[0].comp;
  if (comp->n_params != 2 || hl_shape_leaves(comp->root->shape) != 1)
    return hl_inst_error(f->cx, inst, "'%s' is not of two scalars", comp->name->text);
  const HlMlType *scalar = fh_tensor(f, 0, NULL, hl_ml_element(in[0]->type)), *const args[2] = {
                                                                                  scalar, scalar};
  return fh_region(f, op, 0, comp, args, args);
}

// All of one element type go together; else each goes alone, its region in its own type.
static bool put_reduction(Fh *f, const HlInst *inst, int like, bool alone, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types)
    return false;
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  const bool has_root = hl_attr_int(inst, HL_A_HAS_DYNAMIC_ROOT) != 0;
  if (in.n != n + has_root || out->n != n)
    return hl_inst_error(f->cx, inst, "%d operands, %lld results", in.n, (long long)n);
  if (has_root)
    return put_collective(f, inst, like, (int)n, in.at, types, out->at);
  for (int k = 1; k < in.n; k++)
    alone |= hl_ml_element(in.at[k]->type) != hl_ml_element(in.at[0]->type);
  if (!alone)
    return put_collective(f, inst, like, in.n, in.at, types, out->at);
  for (int k = 0; k < in.n; k++)
    if (!put_collective(f, inst, like, 1, &in.at[k], &types[k], &out->at[k]))
      return false;
  return true;
}

bool fh_rule_all_reduce(Fh *f, const HlInst *inst, FhValue *out) {
  if (inst->op == HL_OP_ALL_REDUCE_START)
    fh_lose(f, FH_LOSS_ASYNC, inst);
  return put_reduction(f, inst, HL_OP_ALL_REDUCE, false, out);
}

bool fh_rule_collective_reduce(Fh *f, const HlInst *inst, FhValue *out) {
  return put_reduction(f, inst, HL_OP_COLLECTIVE_REDUCE, false, out);
}

bool fh_rule_reduce_scatter(Fh *f, const HlInst *inst, FhValue *out) {
  return put_reduction(f, inst, HL_OP_REDUCE_SCATTER, true, out);
}

// The result of a start is (operands, results, ...).
static bool started(Fh *f, const HlInst *inst, bool starts, FhValue in, const HlMlType ***types,
                    FhValue *results, FhValue *out) {
  int64_t n;
  *types = fh_leaf_types(f, inst->shape, &n);
  if (!*types)
    return false;
  if (!starts) {
    *results = *out;
    return in.n == n || hl_inst_error(f->cx, inst, "%d operands, %lld results", in.n, (long long)n);
  }
  fh_lose(f, FH_LOSS_ASYNC, inst);
  if (n < 2 * in.n)
    return hl_inst_error(f->cx, inst, "%d operands, %lld leaves", in.n, (long long)n);
  fh_copy(out, in);
  *types += in.n;
  *results = (FhValue){out->at + in.n, in.n};
  return true;
}

bool fh_rule_all_gather(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands), results;
  const HlMlType **types;
  return started(f, inst, inst->op == HL_OP_ALL_GATHER_START, in, &types, &results, out) &&
         put_collective(f, inst, HL_OP_ALL_GATHER, in.n, in.at, types, results.at);
}

bool fh_rule_collective_permute(Fh *f, const HlInst *inst, FhValue *out) {
  if (hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES))
    return fh_error(f, inst, "a permutation in place");
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands), results;
  const HlMlType **types;
  if (!started(f, inst, inst->op == HL_OP_COLLECTIVE_PERMUTE_START, in, &types, &results, out))
    return false;
  for (int k = 0; k < in.n; k++)
    if (!put_collective(f, inst, HL_OP_COLLECTIVE_PERMUTE, 1, &in.at[k], &types[k], &results.at[k]))
      return false;
  return true;
}

// The devices that exchange: without groups all, which the op wants to see. Channels are between partitions.
static const HlMlAttr *exchange_groups(Fh *f, const HlInst *inst, int64_t *size) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  HlI64Lists lists = groups ? hl_groups_lists(f->arena, groups) : (HlI64Lists){0};
  if (lists.n) {
    *size = lists.at[0].n;
    return fh_groups(f, inst);
  }
  bool is_partitioned =
      hl_has_attr(inst, HL_A_CHANNEL_ID) && hl_attr_int(inst, HL_A_CHANNEL_ID) > 0;
  *size = is_partitioned ? f->m->num_partitions : f->m->replica_count;
  if (*size > hl_cx_limits(f->cx)->tuple_leaves) {
    hl_error_kind(f->cx, HL_LIMIT, hl_pos(inst), "%lld devices (limit devices)", (long long)*size);
    return NULL;
  }
  int64_t *ids = HL_ARRAY(f->arena, int64_t, *size + 1);
  for (int64_t k = 0; k < *size; k++)
    ids[k] = k;
  return fh_i64s_2d(f, 1, *size, ids);
}

// NULL after reporting.
static HlMlValue *put_all_to_all(Fh *f, const HlInst *inst, HlMlValue *in, const HlMlType *type,
                                 int64_t dim) {
  int64_t n;
  const HlMlAttr *groups = exchange_groups(f, inst, &n);
  if (!groups)
    return NULL;
  HlMlOp *op = fh_op(f, ML_STABLEHLO_ALL_TO_ALL, 1, &in, 1, &type, 0);
  fh_set(f, op, ML_A_SPLIT_DIMENSION, hl_ml_i64(f->tree, dim));
  fh_set(f, op, ML_A_CONCAT_DIMENSION, hl_ml_i64(f->tree, dim));
  fh_set(f, op, ML_A_SPLIT_COUNT, hl_ml_i64(f->tree, n));
  bool ok = fh_fill(f, op, inst);
  fh_set(f, op, ML_A_REPLICA_GROUPS, groups);
  return ok ? &op->results[0] : NULL;
}

// The k-th slice of a new first dimension, without it.
static HlMlValue *take(Fh *f, HlMlValue *all, int64_t k, const HlMlType *type) {
  int rank = all->type->rank;
  int64_t *start = HL_ARRAY(f->arena, int64_t, rank), *limit = HL_ARRAY(f->arena, int64_t, rank);
  int64_t *stride = HL_ARRAY(f->arena, int64_t, rank), *dim = HL_ARRAY(f->arena, int64_t, rank);
  for (int d = 0; d < rank; d++) {
    stride[d] = 1;
    limit[d] = dim[d] = all->type->dim[d];
  }
  start[0] = k;
  limit[0] = k + 1;
  dim[0] = 1;
  HlMlValue *cut =
      fh_make(f, ML_STABLEHLO_SLICE, 1, &all, fh_tensor(f, rank, dim, hl_ml_element(type)));
  fh_set(f, cut->def, ML_A_START_INDICES, fh_ints(f, (HlI64s){start, rank}));
  fh_set(f, cut->def, ML_A_LIMIT_INDICES, fh_ints(f, (HlI64s){limit, rank}));
  fh_set(f, cut->def, ML_A_STRIDES, fh_ints(f, (HlI64s){stride, rank}));
  return fh_make(f, ML_STABLEHLO_RESHAPE, 1, &cut, type);
}

// One operand per device: stacked, exchanged, and taken apart.
static bool exchange_list(Fh *f, const HlInst *inst, FhValue in, FhValue *out) {
  const HlMlType *type = in.at[0]->type;
  int64_t *dim = HL_ARRAY(f->arena, int64_t, type->rank + 1);
  memcpy(dim + 1, type->dim, (size_t)type->rank * sizeof *dim);
  dim[0] = 1;
  for (int k = 0; k < in.n; k++) {
    if (in.at[k]->type != type)
      return fh_error(f, inst, "operands of different types");
    in.at[k] = fh_make(f, ML_STABLEHLO_RESHAPE, 1, &in.at[k],
                       fh_tensor(f, type->rank + 1, dim, hl_ml_element(type)));
  }
  dim[0] = in.n;
  const HlMlType *stacked = fh_tensor(f, type->rank + 1, dim, hl_ml_element(type));
  HlMlValue *all = fh_make(f, ML_STABLEHLO_CONCATENATE, in.n, in.at, stacked);
  fh_set(f, all->def, ML_A_DIMENSION, hl_ml_i64(f->tree, 0));
  all = put_all_to_all(f, inst, all, stacked, 0);
  for (int k = 0; all && k < in.n; k++)
    out->at[k] = take(f, all, k, type);
  return all != NULL;
}

bool fh_rule_all_to_all(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  const HlAttr *dim = hl_attr(inst, HL_A_DIMENSION);
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || in.n != n || !n)
    return types && hl_inst_error(f->cx, inst, "%d operands, %lld results", in.n, (long long)n);
  if (dim && n > 1)
    return fh_error(f, inst, "a dimension and %lld operands", (long long)n);
  if (dim)
    return (out->at[0] = put_all_to_all(f, inst, in.at[0], types[0], dim->i)) != NULL;
  if (!f->mhlo)
    return exchange_list(f, inst, in, out);
  HlMlOp *op = fh_op(f, ML_STABLEHLO_ALL_TO_ALL, in.n, in.at, (int)n, types, 0);
  fh_set(f, op, ML_A_REPLICA_GROUPS, fh_groups(f, inst));
  fh_results(op, out);
  return true;
}

bool fh_rule_ragged_all_to_all(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  HlMlOp *op = fh_op(f, ML_STABLEHLO_CUSTOM_CALL, in.n, in.at, 1, &type, 0);
  // XLA wants a channel; 0 is none.
  int64_t channel = hl_has_attr(inst, HL_A_CHANNEL_ID) ? hl_attr_int(inst, HL_A_CHANNEL_ID) : 0;
  const HlMlNamed config[2] = {fh_named(f, ML_A_REPLICA_GROUPS, fh_groups(f, inst)),
                               fh_named(f, ML_A_CHANNEL_ID, hl_ml_i64(f->tree, channel))};
  fh_set(f, op, ML_A_CALL_TARGET_NAME, fh_text(f, hl_call_info[HL_CALL_RAGGED_ALL_TO_ALL].name));
  fh_set(f, op, ML_A_API_VERSION, fh_i32(f, HL_WORD_api_version_TYPED_FFI));
  fh_set(f, op, ML_A_BACKEND_CONFIG, hl_ml_dict(f->tree, 2, config));
  out->at[0] = &op->results[0];
  return true;
}

// --- Channels and the host ----------------------------------------------------------------------------------

// Pairs are a frontend attribute in HLO: {{0,1},{1,2}}.
static void set_pairs(Fh *f, HlMlOp *op, const HlInst *inst) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++) {
    if (strcmp(dict->key[k]->text, "_xla_send_recv_source_target_pairs") != 0)
      continue;
    const HlSym *text = dict->value[k];
    int64_t *ids = HL_ARRAY(f->arena, int64_t, text->n + 1);
    int n = 0;
    for (const char *at = text->text; *at;) {
      char *end;
      ids[n] = strtoll(at, &end, 10);
      n += end != at;
      at = end == at ? at + 1 : end;
    }
    if (n && n % 2 == 0)
      fh_set(f, op, ML_A_SOURCE_TARGET_PAIRS, fh_i64s_2d(f, n / 2, 2, ids));
  }
}

// Results: the data, ..., a token.
bool fh_rule_send(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || n < 2)
    return types && hl_inst_error(f->cx, inst, "a send without a token");
  FhValue in = fh_operands(f, inst, 0, 2);
  HlMlOp *op = fh_op(f, ML_STABLEHLO_SEND, in.n, in.at, 1, &types[n - 1], 0);
  fh_copy(out, fh_operand(f, inst, 0));
  out->at[n - 1] = &op->results[0];
  bool ok = fh_fill(f, op, inst);
  ml_set_attr(f->tree, op, ML_A_SOURCE_TARGET_PAIRS, NULL);
  set_pairs(f, op, inst);
  return ok;
}

bool fh_rule_recv(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || n < 3)
    return types && hl_inst_error(f->cx, inst, "a recv without data and token");
  HlMlValue *token = fh_in(f, inst, 0);
  int n_data = (int)n - 2;
  types[n_data] = types[n - 1];
  HlMlOp *op = fh_op(f, ML_STABLEHLO_RECV, 1, &token, n_data + 1, types, 0);
  for (int k = 0; k < n_data; k++)
    out->at[k] = &op->results[k];
  out->at[n - 1] = &op->results[n_data];
  bool ok = fh_fill(f, op, inst);
  ml_set_attr(f->tree, op, ML_A_SOURCE_TARGET_PAIRS, NULL);
  set_pairs(f, op, inst);
  return ok;
}

bool fh_rule_recv_done(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operand(f, inst, 0);
  if (in.n < out->n || out->n < 1)
    return hl_inst_error(f->cx, inst, "a recv-done without a token");
  fh_copy(out, in);
  out->at[out->n - 1] = in.at[in.n - 1];
  return true;
}

static void add_infeed_layouts(Fh *f, const HlShape *shape, const HlMlAttr **list, int *n,
                               bool *any) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      add_infeed_layouts(f, shape->element[k], list, n, any);
    return;
  }
  if (!hl_shape_is_array(shape))
    return;
  const HlMlAttr **order = HL_ARRAY(f->arena, const HlMlAttr *, shape->rank + 1);
  bool is_set = shape->layout && shape->layout->minor_to_major.n == shape->rank;
  for (int k = 0; k < shape->rank; k++)
    order[k] =
        hl_ml_i64(f->tree, is_set ? shape->layout->minor_to_major.at[k] : shape->rank - 1 - k);
  *any |= shape->layout && !hl_layout_is_default(shape->layout);
  list[(*n)++] = hl_ml_array(f->tree, shape->rank, order);
}

bool fh_rule_infeed(Fh *f, const HlInst *inst, FhValue *out) {
  if (!fh_default(f, inst, out))
    return false;
  const HlMlAttr **list = HL_ARRAY(f->arena, const HlMlAttr *, out->n + 1);
  int n = 0;
  bool any = false;
  add_infeed_layouts(f, inst->shape, list, &n, &any);
  if (any && out->n)
    fh_set(f, out->at[0]->def, ML_A_LAYOUT, hl_ml_array(f->tree, n, list));
  return true;
}

// --- Custom calls -------------------------------------------------------------------------------------------

static HlMlValue *as_tuple(Fh *f, const HlShape *shape, HlMlValue ***leaves) {
  if (!hl_shape_is_tuple(shape))
    return *(*leaves)++;
  HlMlValue **element = HL_ARRAY(f->arena, HlMlValue *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = as_tuple(f, shape->element[k], leaves);
  const HlMlType *type = fh_type(f, shape);
  return fh_make(f, ML_STABLEHLO_TUPLE, shape->rank, element, type);
}

static void take_tuple_apart(Fh *f, const HlShape *shape, HlMlValue *value, HlMlValue ***leaves) {
  if (!hl_shape_is_tuple(shape)) {
    *(*leaves)++ = value;
    return;
  }
  for (int k = 0; k < shape->rank; k++) {
    HlMlValue *element =
        fh_make(f, ML_STABLEHLO_GET_TUPLE_ELEMENT, 1, &value, fh_type(f, shape->element[k]));
    fh_set(f, element->def, ML_A_INDEX, fh_i32(f, k));
    take_tuple_apart(f, shape->element[k], element, leaves);
  }
}

// A tuple of several results is several results, a tuple of one stays a tuple.
static bool splits(const HlShape *shape) {
  return hl_shape_is_tuple(shape) && shape->rank != 1;
}

static bool has_inner_tuple(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (hl_shape_is_tuple(inst->operands[k]->shape))
      return true;
  const HlShape *shape = inst->shape;
  if (hl_shape_is_tuple(shape) && !splits(shape))
    return true;
  for (int k = 0; splits(shape) && k < shape->rank; k++)
    if (hl_shape_is_tuple(shape->element[k]))
      return true;
  return false;
}

static bool has_call_attrs(const HlInst *inst) {
  static const HlAttrKey keys[] = {HL_A_WINDOW,
                                   HL_A_DIM_LABELS,
                                   HL_A_FEATURE_GROUP_COUNT,
                                   HL_A_BATCH_GROUP_COUNT,
                                   HL_A_OPERAND_PRECISION,
                                   HL_A_PADDING_TYPE,
                                   HL_A_SCHEDULE,
                                   HL_A_ALGORITHM};
  for (int k = 0; k < HL_COUNT_OF(keys); k++)
    if (hl_has_attr(inst, keys[k]))
      return true;
  return false;
}

static void set_call_tilings(Fh *f, HlMlOp *op, const HlInst *inst) {
  const HlMlAttr **list = HL_ARRAY(f->arena, const HlMlAttr *, op->n_results + 1);
  bool has_tiles = false;
  for (uint32_t k = 0; k < op->n_results; k++) {
    list[k] = fh_tiles(f, splits(inst->shape) ? inst->shape->element[k] : inst->shape);
    has_tiles |= list[k]->n > 0;
  }
  if (has_tiles)
    fh_set(f, op, ML_A_RESULT_TILINGS, hl_ml_array(f->tree, (int)op->n_results, list));
}

static void set_call_layouts(Fh *f, HlMlOp *op, const HlInst *inst) {
  const HlAttr *constraints = hl_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
  if (!constraints)
    return;
  if (has_inner_tuple(inst) || constraints->shapes.n != (int)inst->n_operands) {
    fh_lose(f, FH_LOSS_CALL_LAYOUTS, inst);
    return;
  }
  const HlMlAttr **list =
      HL_ARRAY(f->arena, const HlMlAttr *, inst->n_operands + op->n_results + 1);
  for (int k = 0; k < constraints->shapes.n; k++)
    list[k] = fh_layout(f, constraints->shapes.at[k]);
  fh_set(f, op, ML_A_OPERAND_LAYOUTS, hl_ml_array(f->tree, constraints->shapes.n, list));
  for (uint32_t k = 0; k < op->n_results; k++)
    list[k] = fh_layout(f, splits(inst->shape) ? inst->shape->element[k] : inst->shape);
  fh_set(f, op, ML_A_RESULT_LAYOUTS, hl_ml_array(f->tree, (int)op->n_results, list));
  set_call_tilings(f, op, inst);
}

static void set_call_aliases(Fh *f, HlMlOp *op, const HlInst *inst) {
  const HlAttr *attr = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  if (!attr || !attr->aliases.n)
    return;
  const HlMlAttr **list = HL_ARRAY(f->arena, const HlMlAttr *, attr->aliases.n);
  for (int k = 0; k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    const HlMlNamed field[3] = {
        fh_named(f, ML_A_OUTPUT_TUPLE_INDICES, hl_ml_dense_i64s(f->tree, alias->output)),
        fh_named(f, ML_A_OPERAND_INDEX, hl_ml_i64(f->tree, alias->number)),
        fh_named(f, ML_A_OPERAND_TUPLE_INDICES, hl_ml_dense_i64s(f->tree, alias->index))};
    list[k] = fh_struct(f, ML_D_ALIAS, 3, field);
  }
  fh_set(f, op, ML_A_OUTPUT_OPERAND_ALIASES, hl_ml_array(f->tree, attr->aliases.n, list));
}

// The typed interface has a dictionary, written as text in HLO.
static bool set_call_config(Fh *f, HlMlOp *op, const HlInst *inst) {
  int64_t version = hl_attr_int(inst, HL_A_API_VERSION);
  const HlAttr *config = hl_attr(inst, HL_A_BACKEND_CONFIG);
  fh_set(f, op, ML_A_API_VERSION, fh_i32(f, version));
  if (version != HL_WORD_api_version_TYPED_FFI) {
    if (config)
      fh_set(f, op, ML_A_BACKEND_CONFIG, hl_ml_string(f->tree, config->sym->text, config->sym->n));
    return true;
  }
  const HlMlAttr *dict = config && config->sym->n
                             ? fh_parse_attr(f, config->sym->text, config->sym->n)
                             : hl_ml_dict(f->tree, 0, NULL);
  if (!dict || dict->kind != HL_ML_A_DICT)
    return fh_error(f, inst, "its backend_config is not a dictionary: %.200s", config->sym->text);
  fh_set(f, op, ML_A_BACKEND_CONFIG, dict);
  return true;
}

static void set_called(Fh *f, HlMlOp *op, const HlInst *inst) {
  if (!inst->n_calls)
    return;
  const HlMlAttr **list = HL_ARRAY(f->arena, const HlMlAttr *, inst->n_calls);
  for (int k = 0; k < inst->n_calls; k++)
    list[k] = hl_ml_symbol(f->tree, fh_function(f, inst->calls[k].comp));
  fh_set(f, op, ML_A_CALLED_COMPUTATIONS, hl_ml_array(f->tree, inst->n_calls, list));
}

static HlMlOp *put_call(Fh *f, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  int n_results = splits(shape) ? shape->rank : 1;
  const HlMlType **types = HL_ARRAY(f->arena, const HlMlType *, n_results + 1);
  for (int k = 0; k < n_results; k++)
    if (!(types[k] = fh_type(f, splits(shape) ? shape->element[k] : shape)))
      return NULL;
  HlMlValue **in = HL_ARRAY(f->arena, HlMlValue *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlMlValue **leaves = fh_operand(f, inst, (int)k).at;
    in[k] = as_tuple(f, inst->operands[k]->shape, &leaves);
  }
  return fh_op(f, ML_STABLEHLO_CUSTOM_CALL, (int)inst->n_operands, in, n_results, types, 0);
}

// Checks and probes are ops of their own, whose attributes stand in the config.
static bool put_check(Fh *f, const HlInst *inst, HlMlRow row, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  const HlAttr *config = hl_attr(inst, HL_A_BACKEND_CONFIG);
  const HlMlAttr *dict =
      config && config->sym->n ? fh_parse_attr(f, config->sym->text, config->sym->n) : NULL;
  if (!types)
    return false;
  if (config && config->sym->n && (!dict || dict->kind != HL_ML_A_DICT))
    return fh_error(f, inst, "its backend_config is not a dictionary: %.200s", config->sym->text);
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  HlMlOp *op = fh_op(f, row, in.n, in.at, (int)n, types, 0);
  for (int k = 0; dict && k < dict->n; k++)
    hl_ml_set(f->tree, op, dict->dict[k].name->text, dict->dict[k].value);
  fh_results(op, out);
  return true;
}

// The row of a check or probe that a target names; ML_NONE: another.
static HlMlRow check_row(const HlSym *target) {
  HlMlDialect dialect;
  HlMlRow row = ml_find_row((HlStr){target->text, target->n}, &dialect);
  return row == ML_INTERPRETER_PROBE || row == ML_INTERPRETER_PRINT || dialect == HL_ML_CHECK
             ? row
             : ML_NONE;
}

bool fh_rule_custom_call(Fh *f, const HlInst *inst, FhValue *out) {
  const HlShape *shape = inst->shape;
  const HlAttr *target = hl_attr(inst, HL_A_CUSTOM_CALL_TARGET);
  if (!target)
    return hl_inst_error(f->cx, inst, "a custom call without a target");
  const HlMlRow check = check_row(target->sym);
  if (check != ML_NONE)
    return put_check(f, inst, check, out);
  HlMlOp *op = put_call(f, inst);
  if (!op)
    return false;
  fh_set(f, op, ML_A_CALL_TARGET_NAME, hl_ml_string(f->tree, target->sym->text, target->sym->n));
  fh_set(f, op, ML_A_HAS_SIDE_EFFECT,
         hl_ml_bool(f->tree, hl_attr_int(inst, HL_A_HAS_SIDE_EFFECT) == 1));
  set_call_layouts(f, op, inst);
  set_call_aliases(f, op, inst);
  set_called(f, op, inst);
  const HlLiteral *literal = hl_attr_ptr(inst, HL_A_LITERAL);
  if (literal && !hl_literal_is_elided(literal) && hl_shape_is_array(literal->shape))
    fh_set(f, op, ML_A_MHLO_LITERAL, hl_ml_dense_of(f->tree, literal));
  if (has_call_attrs(inst))
    fh_lose(f, FH_LOSS_CALL_ATTRS, inst);
  HlMlValue **leaves = out->at;
  for (uint32_t k = 0; k < op->n_results; k++)
    take_tuple_apart(f, splits(shape) ? shape->element[k] : shape, &op->results[k], &leaves);
  return set_call_config(f, op, inst);
}
