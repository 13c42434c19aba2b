// Lowers constants, iotas and broadcasts, ops that move data, and linear algebra.
#include "mlir/to_hlo/to_hlo.h"

#include <string.h>

// --- Constants, iotas, broadcasts ------------------------------------------------------------------

// Bits of the layout that a constant was written with: MHLO made from HLO says it.
static HlInst *with_layout(MlLower *l, const HlMlOp *op, HlInst *inst) {
  const HlMlAttr *attr = ml_attr(op, ML_A_RESULT_LAYOUT);
  if (!inst || !attr || attr->kind != HL_ML_A_DENSE || !hl_shape_is_array(inst->shape))
    return inst;
  HlI64s order = hl_ml_ints(l->m->arena, attr);
  if (order.n == inst->shape->rank)
    hl_set_shape(inst, hl_shape_with_layout(l->m->shapes, inst->shape, ml_layout(l, order)));
  return inst;
}

// Constants have no names, places or frontend attributes in XLA's HLO; but one of many equal elements is made by an
// op that has a name and a place.
static void name_spread(MlLower *l, const HlBuild *b, HlInst *inst) {
  hl_remove_attr(inst->operands[0],
                 HL_A_SHARDING);  // what stands at a constant is meant for all of it
  if (hl_shape_elements(inst->shape) < ML_MANY_EQUAL)
    return;
  HlAttr metadata = {.key = HL_A_METADATA, .ptr = b->metadata};
  if (b->metadata)
    hl_set_attr(inst, &metadata);
  if (b->name)
    hl_set_name(inst, hl_fresh_name(l->m, b->name));
}

// constant({...}): the verifier has said so.
static HlLiteral *elided(MlLower *l, const HlMlOp *op) {
  const HlShape *shape = ml_result_shape(l, op);
  return shape ? hl_literal_new_elided(l->cx, shape) : NULL;
}

// One of many equal elements is never written out.
static HlInst *make_constant(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlAttr *value) {
  const HlMlType *type = value->type;
  const bool is_splat =
      value->kind == HL_ML_A_DENSE && value->n_elements == 1 && hl_ml_elements(type) > 1;
  HlMlAttr element = *value;
  if (is_splat)
    element.type = hl_ml_tensor_type(l->tree, 0, NULL, type->element[0], NULL);
  HlLiteral *literal =
      ml_is_elided(value) ? elided(l, op) : hl_ml_literal(l->cx, hl_ml_pos(l->tree, op), &element);
  HlInst *inst = literal ? hl_b_constant(b, literal) : NULL;
  hl_literal_unref(literal);
  return inst && is_splat ? hl_b_broadcast(b, inst, type->rank, type->dim, (HlI64s){0}) : inst;
}

bool ml_lower_constant(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  if (!value || (value->kind != HL_ML_A_DENSE && value->kind != HL_ML_A_RESOURCE))
    return ml_unsupported(l, op, "%s without a dense value cannot be carried to HLO",
                          op->name->text);
  HlBuild own = *b;
  own.name = NULL;
  own.metadata = NULL;
  own.frontend = (HlDict){0};
  HlInst *inst = with_layout(l, op, make_constant(l, &own, op, value));
  if (inst && inst->op == HL_OP_BROADCAST)
    name_spread(l, b, inst);
  return ml_set_results(l, b, op, inst);
}

// XLA makes an iota of several dimensions from one of a single dimension.
bool ml_lower_iota(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlShape *shape = ml_result_shape(l, op);
  if (!shape)
    return false;
  int64_t dim = ml_attr_int(op, ML_A_IOTA_DIMENSION, 0);
  if (dim < 0 || dim >= shape->rank)
    return ml_bad(l, op, "iota counts along dimension %lld of %s", (long long)dim,
                  hl_shape_text(l->cx, shape));
  if (shape->rank == 1) {
    HlAttr attr = {.key = HL_A_IOTA_DIMENSION, .i = 0};
    return ml_set_results(l, b, op, hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &attr, 0, NULL));
  }
  HlInst *line = hl_b_iota(b, shape->dtype, 1, &shape->dim[dim], 0);
  if (hl_shape_elements(shape) == shape->dim[dim])
    return ml_set_results(l, b, op, hl_b_reshape(b, line, shape->rank, shape->dim));
  return ml_set_results(l, b, op,
                        hl_b_broadcast(b, line, shape->rank, shape->dim, (HlI64s){&dim, 1}));
}

bool ml_lower_broadcast(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlShape *shape = ml_result_shape(l, op);
  if (!x || !shape)
    return false;
  int64_t *dims = HL_ARRAY(l->arena, int64_t, x->shape->rank + 1);
  for (int k = 0; k < x->shape->rank; k++)
    dims[k] = shape->rank - x->shape->rank + k;
  HlI64s list = {dims, x->shape->rank};
  return ml_set_results(l, b, op, hl_b_broadcast(b, x, shape->rank, shape->dim, list));
}

bool ml_lower_broadcast_in_dim(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlShape *shape = ml_result_shape(l, op);
  if (!x || !shape)
    return false;
  HlI64s dims = ml_attr_ints(l->m->arena, op, ML_A_BROADCAST_DIMENSIONS);
  HlInst *inst = hl_b_broadcast_in_dim(b, x, shape->rank, shape->dim, dims);
  return ml_set_results(l, b, op, with_layout(l, op, inst));
}

// --- Movement ---------------------------------------------------------------------------------------------

static bool same_length(MlLower *l, const HlMlOp *op, int rank, HlI64s a, HlI64s b, HlI64s c) {
  if (a.n == rank && b.n == rank && c.n == rank)
    return true;
  return ml_bad(l, op, "%s wants %d numbers in each of its lists, one for each dimension",
                op->name->text, rank);
}

bool ml_lower_slice(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  HlI64s start = ml_attr_ints(l->m->arena, op, ML_A_START_INDICES),
         limit = ml_attr_ints(l->m->arena, op, ML_A_LIMIT_INDICES);
  HlI64s stride = ml_attr_ints(l->m->arena, op, ML_A_STRIDES);
  return same_length(l, op, x->shape->rank, start, limit, stride) &&
         ml_set_results(l, b, op, hl_b_slice(b, x, start.at, limit.at, stride.at));
}

bool ml_lower_pad(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  HlI64s low = ml_attr_ints(l->m->arena, op, ML_A_EDGE_PADDING_LOW),
         high = ml_attr_ints(l->m->arena, op, ML_A_EDGE_PADDING_HIGH);
  HlI64s interior = ml_attr_ints(l->m->arena, op, ML_A_INTERIOR_PADDING);
  return same_length(l, op, in[0]->shape->rank, low, high, interior) &&
         ml_set_results(l, b, op, hl_b_pad(b, in[0], in[1], low.at, high.at, interior.at));
}

static int gather_attrs(MlLower *l, const HlMlOp *op, HlAttr *out) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  int n = 0;
  out[n++] = (HlAttr){.key = HL_A_OFFSET_DIMS,
                      .ints = ml_field_ints(l->m->arena, numbers, ML_A_OFFSET_DIMS)};
  out[n++] = (HlAttr){.key = HL_A_COLLAPSED_SLICE_DIMS,
                      .ints = ml_field_ints(l->m->arena, numbers, ML_A_COLLAPSED_SLICE_DIMS)};
  out[n++] = (HlAttr){.key = HL_A_START_INDEX_MAP,
                      .ints = ml_field_ints(l->m->arena, numbers, ML_A_START_INDEX_MAP)};
  HlI64s batch = ml_field_ints(l->m->arena, numbers, ML_A_OPERAND_BATCHING_DIMS);
  if (batch.n > 0) {
    out[n++] = (HlAttr){.key = HL_A_OPERAND_BATCHING_DIMS, .ints = batch};
    out[n++] =
        (HlAttr){.key = HL_A_START_INDICES_BATCHING_DIMS,
                 .ints = ml_field_ints(l->m->arena, numbers, ML_A_START_INDICES_BATCHING_DIMS)};
  }
  out[n++] =
      (HlAttr){.key = HL_A_INDEX_VECTOR_DIM, .i = ml_field_int(numbers, ML_A_INDEX_VECTOR_DIM, 0)};
  out[n++] =
      (HlAttr){.key = HL_A_SLICE_SIZES, .ints = ml_attr_ints(l->m->arena, op, ML_A_SLICE_SIZES)};
  out[n++] =
      (HlAttr){.key = HL_A_INDICES_ARE_SORTED, .i = ml_attr_true(op, ML_A_INDICES_ARE_SORTED)};
  return n;
}

bool ml_lower_gather(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  HlAttr attrs[8];
  int n = gather_attrs(l, op, attrs);
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_GATHER, NULL, 2, in, n, attrs, 0, NULL));
}

// out[b.., i.., rest] = operand[b.., index[b.., i..], rest]: a gather of slices of one place along `dim`.
bool ml_lower_index_select(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  const HlShape *x = in[0]->shape, *index = in[1]->shape;
  int64_t dim = ml_attr_int(op, ML_A_DIM, 0), batch = ml_attr_int(op, ML_A_BATCH_DIMS, 0);
  if (dim < 0)
    dim += x->rank;
  if (batch < 0)
    batch += index->rank;
  if (dim < 0 || dim >= x->rank || batch < 0 || batch > dim || batch > index->rank)
    return ml_bad(l, op, "torch_index_select along dimension %lld with %lld batch dimensions of %s",
                  (long long)dim, (long long)batch, hl_shape_text(l->cx, x));
  HlArena *arena = l->m->arena;
  int64_t *batching = HL_ARRAY(arena, int64_t, batch + 1),
          *sizes = HL_ARRAY(arena, int64_t, x->rank + 1);
  int64_t *offset = HL_ARRAY(arena, int64_t, x->rank + 1), *at = HL_ARRAY(arena, int64_t, 1);
  int n_offset = 0;
  *at = dim;
  for (int k = 0; k < batch; k++)
    batching[k] = k;
  for (int k = 0; k < x->rank; k++) {
    sizes[k] = k < batch || k == dim ? 1 : x->dim[k];
    if (k >= batch && k != dim)
      offset[n_offset++] = k < dim ? k : k - 1 + index->rank - batch;
  }
  HlI64s batching_dims = {batching, (int)batch};
  HlAttr attrs[] = {{.key = HL_A_OFFSET_DIMS, .ints = {offset, n_offset}},
                    {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = {at, 1}},
                    {.key = HL_A_START_INDEX_MAP, .ints = {at, 1}},
                    {.key = HL_A_OPERAND_BATCHING_DIMS, .ints = batching_dims},
                    {.key = HL_A_START_INDICES_BATCHING_DIMS, .ints = batching_dims},
                    {.key = HL_A_INDEX_VECTOR_DIM, .i = index->rank},
                    {.key = HL_A_SLICE_SIZES, .ints = {sizes, x->rank}}};
  return ml_set_results(l, b, op,
                        hl_b_op(b, HL_OP_GATHER, NULL, 2, in, HL_COUNT_OF(attrs), attrs, 0, NULL));
}

bool ml_lower_set_dimension_size(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  const HlShape *shape = ml_result_shape(l, op);
  if (!in || !shape)
    return false;
  HlAttr attr = {.key = HL_A_DIMENSION, .i = ml_attr_int(op, ML_A_DIMENSION, 0)};
  HlInst *inst = hl_b_op(b, HL_OP_SET_DIMENSION_SIZE, NULL, 2, in, 1, &attr, 0, NULL);
  if (inst && hl_shape_same_dims(inst->shape, shape))
    hl_set_shape(inst, shape);
  return ml_set_results(l, b, op, inst);
}

// A slice of known size whose place is not known: HLO's dynamic-slice, which keeps it inside.
static bool lower_moving_slice(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  const HlShape *shape = ml_result_shape(l, op);
  if (!in || !shape)
    return false;
  if (shape->rank != in[0]->shape->rank || in[1]->shape->rank != 1 ||
      in[1]->shape->dim[0] != shape->rank)
    return ml_bad(l, op, "%s wants a start for each dimension", op->name->text);
  HlInst **start = HL_ARRAY(l->arena, HlInst *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    start[k] = hl_b_reshape(b, hl_b_slice_dim(b, in[1], 0, k, k + 1), 0, NULL);
  return ml_set_results(l, b, op, hl_b_dynamic_slice(b, in[0], start, shape->dim));
}

static bool steps_by_one(const HlMlOp *op) {
  const HlMlValue *strides = op->operands[3];
  const HlMlAttr *value =
      strides->def && ml_is_constant(strides->def) ? ml_attr(strides->def, ML_A_VALUE) : NULL;
  const int64_t one = 1;
  return value && value->kind == HL_ML_A_DENSE && value->n_elements == 1 &&
         memcmp(value->data, &one, (size_t)hl_dtype_bytes(hl_ml_dtype(value->type))) == 0;
}

bool ml_lower_dynamic(MlLower *l, HlBuild *b, const HlMlOp *op) {
  if (op->row == ML_STABLEHLO_REAL_DYNAMIC_SLICE && op->n_operands == 4 &&
      hl_ml_is_static(op->results[0].type) && steps_by_one(op))
    return lower_moving_slice(l, b, op);
  return ml_unsupported(l, op,
                        "%s has no counterpart in HLO unless its shape operands are constants",
                        op->name->text);
}

// Sizes within bounds: HLO's dynamic-reshape takes them as scalars.
bool ml_lower_dynamic_reshape(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  const HlShape *shape = ml_result_shape(l, op);
  if (!in || !shape)
    return false;
  HlInst **operands = HL_ARRAY(l->arena, HlInst *, shape->rank + 1);
  operands[0] = in[0];
  for (int k = 0; k < shape->rank; k++)
    operands[k + 1] = hl_b_reshape(b, hl_b_slice_dim(b, in[1], 0, k, k + 1), 0, NULL);
  return ml_set_results(
      l, b, op,
      hl_b_op(b, HL_OP_DYNAMIC_RESHAPE, shape, shape->rank + 1, operands, 0, NULL, 0, NULL));
}

// --- Linear algebra -----------------------------------------------------------------------------------------

// The algorithms of HLO by what StableHLO says of them.
typedef struct Algorithm {
  HlDtype in, out;
  int64_t n_lhs, n_rhs, n_ops;
  bool fast;
  int value;
} Algorithm;

enum { TF32 = HL_DTYPE_COUNT };

static const Algorithm algorithms[] = {
    {HL_F16, HL_F16, 1, 1, 1, false, HL_WORD_dot_algorithm_F16_F16_F16},
    {HL_F16, HL_F32, 1, 1, 1, false, HL_WORD_dot_algorithm_F16_F16_F32},
    {HL_BF16, HL_BF16, 1, 1, 1, false, HL_WORD_dot_algorithm_BF16_BF16_BF16},
    {HL_BF16, HL_F32, 1, 1, 1, false, HL_WORD_dot_algorithm_BF16_BF16_F32},
    {HL_BF16, HL_F32, 1, 1, 3, false, HL_WORD_dot_algorithm_BF16_BF16_F32_X3},
    {HL_BF16, HL_F32, 1, 1, 6, false, HL_WORD_dot_algorithm_BF16_BF16_F32_X6},
    {HL_BF16, HL_F32, 1, 1, 9, false, HL_WORD_dot_algorithm_BF16_BF16_F32_X9},
    {(HlDtype)TF32, HL_F32, 1, 1, 1, false, HL_WORD_dot_algorithm_TF32_TF32_F32},
    {(HlDtype)TF32, HL_F32, 1, 1, 3, false, HL_WORD_dot_algorithm_TF32_TF32_F32_X3},
    {HL_F32, HL_F32, 1, 1, 1, false, HL_WORD_dot_algorithm_F32_F32_F32},
    {HL_F64, HL_F64, 1, 1, 1, false, HL_WORD_dot_algorithm_F64_F64_F64},
};

static HlDtype algorithm_type(const HlMlAttr *attr, MlName name) {
  const HlMlAttr *field = ml_field(attr, name);
  const HlMlType *type = field && field->kind == HL_ML_A_TYPE ? field->type : NULL;
  if (!type)
    return HL_NO_DTYPE;
  return type->kind == HL_ML_FLOAT && strcmp(type->text->text, "tf32") == 0 ? (HlDtype)TF32
                                                                            : type->dtype;
}

static bool is_f8(HlDtype t) {
  return t < HL_DTYPE_COUNT && hl_is_float(t) && hl_dtype_info[t].bits == 8;
}

// HL_WORD_dot_algorithm_*, or -1 after reporting.
static int find_algorithm(MlLower *l, const HlMlOp *op, const HlMlAttr *attr) {
  HlDtype lhs = algorithm_type(attr, ML_A_LHS_PRECISION_TYPE),
          rhs = algorithm_type(attr, ML_A_RHS_PRECISION_TYPE);
  HlDtype out = algorithm_type(attr, ML_A_ACCUMULATION_TYPE);
  const HlMlAttr *fast = ml_field(attr, ML_A_ALLOW_IMPRECISE_ACCUMULATION);
  bool is_fast = fast && fast->i;
  if (is_f8(lhs) && is_f8(rhs) && out == HL_F32)
    return is_fast ? HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32_FAST_ACCUM
                   : HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32;
  for (int k = 0; k < HL_COUNT_OF(algorithms); k++) {
    const Algorithm *a = &algorithms[k];
    if (a->in == lhs && a->in == rhs && a->out == out &&
        a->n_lhs == ml_field_int(attr, ML_A_LHS_COMPONENT_COUNT, 1) &&
        a->n_rhs == ml_field_int(attr, ML_A_RHS_COMPONENT_COUNT, 1) &&
        a->n_ops == ml_field_int(attr, ML_A_NUM_PRIMITIVE_OPERATIONS, 1) && a->fast == is_fast)
      return a->value;
  }
  ml_unsupported(l, op, "HLO has no dot algorithm with these properties");
  return -1;
}

static bool lower_dot(MlLower *l, HlBuild *b, const HlMlOp *op, HlAttr *attrs, int n) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  const HlShape *shape = ml_result_shape(l, op);
  if (!in || !shape)
    return false;
  n += ml_precision(l, op, attrs + n);
  const HlMlAttr *algorithm = ml_attr(op, ML_A_ALGORITHM);
  if (algorithm && algorithm->kind == HL_ML_A_STRUCT) {
    int value = find_algorithm(l, op, algorithm);
    if (value < 0)
      return false;
    attrs[n++] = (HlAttr){.key = HL_A_ALGORITHM, .i = value};
  }
  // The element type of the result is the one to accumulate in.
  HlInst *inst = hl_b_op(b, HL_OP_DOT, NULL, 2, in, n, attrs, 0, NULL);
  if (inst && inst->shape->dtype != shape->dtype)
    hl_set_shape(inst, hl_shape_with_dtype(l->m->shapes, inst->shape, shape->dtype));
  return ml_set_results(l, b, op, inst);
}

bool ml_lower_dot_general(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_DOT_DIMENSION_NUMBERS);
  HlAttr attrs[8] = {
      {.key = HL_A_LHS_BATCH_DIMS,
       .ints = ml_field_ints(l->m->arena, numbers, ML_A_LHS_BATCHING_DIMENSIONS)},
      {.key = HL_A_LHS_CONTRACTING_DIMS,
       .ints = ml_field_ints(l->m->arena, numbers, ML_A_LHS_CONTRACTING_DIMENSIONS)},
      {.key = HL_A_RHS_BATCH_DIMS,
       .ints = ml_field_ints(l->m->arena, numbers, ML_A_RHS_BATCHING_DIMENSIONS)},
      {.key = HL_A_RHS_CONTRACTING_DIMS,
       .ints = ml_field_ints(l->m->arena, numbers, ML_A_RHS_CONTRACTING_DIMENSIONS)}};
  return lower_dot(l, b, op, attrs, 4);
}

bool ml_lower_dot(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  if (in[0]->shape->rank < 1 || in[1]->shape->rank < 1)
    return ml_bad(l, op, "dot wants operands with dimensions");
  int64_t *dims = HL_ARRAY(l->m->arena, int64_t, 2);
  dims[0] = in[0]->shape->rank - 1;
  HlAttr attrs[6] = {{.key = HL_A_LHS_CONTRACTING_DIMS, .ints = {dims, 1}},
                     {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = {dims + 1, 1}}};
  return lower_dot(l, b, op, attrs, 2);
}

static HlWindow conv_window(MlLower *l, const HlMlOp *op, const HlShape *kernel, HlI64s spatial) {
  HlWindowDim *dim = HL_ARRAY(l->m->arena, HlWindowDim, spatial.n + 1);
  HlI64s strides = ml_attr_ints(l->m->arena, op, ML_A_WINDOW_STRIDES),
         padding = ml_pairs(l, op, ML_A_PADDING);
  HlI64s lhs = ml_attr_ints(l->m->arena, op, ML_A_LHS_DILATION),
         rhs = ml_attr_ints(l->m->arena, op, ML_A_RHS_DILATION);
  HlI64s reversal = ml_attr_ints(l->m->arena, op, ML_A_WINDOW_REVERSAL);
  for (int k = 0; k < spatial.n; k++) {
    int64_t at = spatial.at[k];
    dim[k] = (HlWindowDim){.size = at >= 0 && at < kernel->rank ? kernel->dim[at] : 1,
                           .stride = k < strides.n ? strides.at[k] : 1,
                           .pad_low = 2 * k + 1 < padding.n ? padding.at[2 * k] : 0,
                           .pad_high = 2 * k + 1 < padding.n ? padding.at[2 * k + 1] : 0,
                           .lhs_dilate = k < lhs.n ? lhs.at[k] : 1,
                           .rhs_dilate = k < rhs.n ? rhs.at[k] : 1,
                           .reversal = k < reversal.n && reversal.at[k]};
  }
  return (HlWindow){dim, spatial.n};
}

bool ml_lower_convolution(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  const HlShape *shape = ml_result_shape(l, op);
  const HlMlAttr *numbers = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  if (!in || !shape)
    return false;
  HlDimLabels *labels = HL_NEW(l->m->arena, HlDimLabels);
  *labels = (HlDimLabels){
      .input_batch = ml_field_int(numbers, ML_A_INPUT_BATCH_DIMENSION, 0),
      .input_feature = ml_field_int(numbers, ML_A_INPUT_FEATURE_DIMENSION, 0),
      .kernel_input = ml_field_int(numbers, ML_A_KERNEL_INPUT_FEATURE_DIMENSION, 0),
      .kernel_output = ml_field_int(numbers, ML_A_KERNEL_OUTPUT_FEATURE_DIMENSION, 0),
      .output_batch = ml_field_int(numbers, ML_A_OUTPUT_BATCH_DIMENSION, 0),
      .output_feature = ml_field_int(numbers, ML_A_OUTPUT_FEATURE_DIMENSION, 0),
      .input_spatial = ml_field_ints(l->m->arena, numbers, ML_A_INPUT_SPATIAL_DIMENSIONS),
      .kernel_spatial = ml_field_ints(l->m->arena, numbers, ML_A_KERNEL_SPATIAL_DIMENSIONS),
      .output_spatial = ml_field_ints(l->m->arena, numbers, ML_A_OUTPUT_SPATIAL_DIMENSIONS)};
  HlAttr attrs[6];
  int n = 0;
  HlWindow window = conv_window(l, op, in[1]->shape, labels->kernel_spatial);
  if (window.n > 0)
    attrs[n++] = (HlAttr){.key = HL_A_WINDOW, .window = window};
  attrs[n++] = (HlAttr){.key = HL_A_DIM_LABELS, .ptr = labels};
  attrs[n++] =
      (HlAttr){.key = HL_A_FEATURE_GROUP_COUNT, .i = ml_attr_int(op, ML_A_FEATURE_GROUP_COUNT, 1)};
  attrs[n++] =
      (HlAttr){.key = HL_A_BATCH_GROUP_COUNT, .i = ml_attr_int(op, ML_A_BATCH_GROUP_COUNT, 1)};
  n += ml_precision(l, op, attrs + n);
  HlInst *inst = hl_b_op(b, HL_OP_CONVOLUTION, NULL, 2, in, n, attrs, 0, NULL);
  if (inst && inst->shape->dtype != shape->dtype)
    hl_set_shape(inst, hl_shape_with_dtype(l->m->shapes, inst->shape, shape->dtype));
  return ml_set_results(l, b, op, inst);
}

bool ml_lower_triangular_solve(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  HlAttr attrs[] = {{.key = HL_A_LEFT_SIDE, .i = ml_attr_true(op, ML_A_LEFT_SIDE)},
                    {.key = HL_A_LOWER, .i = ml_attr_true(op, ML_A_LOWER)},
                    {.key = HL_A_UNIT_DIAGONAL, .i = ml_attr_true(op, ML_A_UNIT_DIAGONAL)},
                    {.key = HL_A_TRANSPOSE_A, .i = ml_attr_int(op, ML_A_TRANSPOSE_A, 1)}};
  return ml_set_results(l, b, op,
                        hl_b_op(b, HL_OP_TRIANGULAR_SOLVE, NULL, 2, in, 4, attrs, 0, NULL));
}

// --- Einsum ----------------------------------------------------------------------------------------------------

typedef struct Einsum {
  const char *lhs, *rhs, *out;  // letters, one for each dimension
  int n_lhs, n_rhs, n_out;
} Einsum;

static int find_letter(const char *letters, int n, char c) {
  for (int k = 0; k < n; k++)
    if (letters[k] == c)
      return k;
  return -1;
}

static bool all_letters(const char *s, int n) {
  for (int k = 0; k < n; k++)
    if (!((s[k] >= 'a' && s[k] <= 'z') || (s[k] >= 'A' && s[k] <= 'Z')) ||
        find_letter(s, k, s[k]) >= 0)
      return false;
  return true;
}

// "ab,bc->ac"; of one operand "ab->a".
static bool read_einsum(MlLower *l, const HlMlOp *op, Einsum *e) {
  const HlSym *config = ml_attr_sym(op, ML_A_EINSUM_CONFIG);
  const char *text = config ? config->text : "", *arrow = strstr(text, "->");
  const char *comma = strchr(text, ',');
  if (!arrow || (comma && comma > arrow) || (op->n_operands == 2) != (comma != NULL))
    return ml_bad(l, op, "cannot read the einsum '%s'", text);
  e->lhs = text;
  e->n_lhs = (int)((comma ? comma : arrow) - text);
  e->rhs = comma ? comma + 1 : arrow;
  e->n_rhs = (int)(arrow - e->rhs);
  e->out = arrow + 2;
  e->n_out = (int)strlen(e->out);
  if (!all_letters(e->lhs, e->n_lhs) || !all_letters(e->rhs, e->n_rhs) ||
      !all_letters(e->out, e->n_out))
    return ml_unsupported(l, op, "the einsum '%s' repeats letters within an operand or has '...'",
                          text);
  return true;
}

// Sums away the dimensions whose letters stand neither in the result nor in the other operand.
static HlInst *sum_unused(MlLower *l, HlBuild *b, HlInst *x, const Einsum *e, char *letters, int *n,
                          const char *other, int n_other) {
  int64_t *dims = HL_ARRAY(l->arena, int64_t, *n + 1);
  int n_dims = 0, kept = 0;
  for (int k = 0; k < *n; k++) {
    if (find_letter(e->out, e->n_out, letters[k]) < 0 &&
        find_letter(other, n_other, letters[k]) < 0)
      dims[n_dims++] = k;
    else
      letters[kept++] = letters[k];
  }
  *n = kept;
  if (n_dims == 0)
    return x;
  return hl_b_reduce(b, HL_OP_ADD, x, hl_b_scalar(b, x->shape->dtype, 0), (HlI64s){dims, n_dims});
}

static HlInst *transpose_to(MlLower *l, HlBuild *b, const HlMlOp *op, HlInst *x, const char *have,
                            int n, const Einsum *e) {
  int64_t *perm = HL_ARRAY(l->arena, int64_t, n + 1);
  bool moved = false;
  if (n != e->n_out) {
    ml_bad(l, op, "the result of the einsum has letters that no operand has");
    return NULL;
  }
  for (int k = 0; k < n; k++) {
    int at = find_letter(have, n, e->out[k]);
    if (at < 0) {
      ml_bad(l, op, "the letter '%c' of the result stands in no operand", e->out[k]);
      return NULL;
    }
    perm[k] = at;
    moved |= at != k;
  }
  return moved ? hl_b_transpose(b, x, (HlI64s){perm, n}) : x;
}

bool ml_lower_einsum(MlLower *l, HlBuild *b, const HlMlOp *op) {
  Einsum e;
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in || !read_einsum(l, op, &e))
    return false;
  if (in[0]->shape->rank != e.n_lhs || (op->n_operands == 2 && in[1]->shape->rank != e.n_rhs))
    return ml_bad(l, op, "the einsum names another number of dimensions than its operands have");
  char *lhs = hl_arena_strndup(l->arena, e.lhs, (size_t)e.n_lhs),
       *rhs = hl_arena_strndup(l->arena, e.rhs, (size_t)e.n_rhs);
  HlInst *x = sum_unused(l, b, in[0], &e, lhs, &e.n_lhs, rhs, e.n_rhs);
  if (op->n_operands == 1)
    return x && ml_set_results(l, b, op, transpose_to(l, b, op, x, lhs, e.n_lhs, &e));
  HlInst *y = sum_unused(l, b, in[1], &e, rhs, &e.n_rhs, lhs, e.n_lhs);
  int64_t *dims = HL_ARRAY(l->arena, int64_t, 4 * (e.n_lhs + 1));
  int64_t *x_batch = dims, *y_batch = x_batch + e.n_lhs, *x_sum = y_batch + e.n_lhs,
          *y_sum = x_sum + e.n_lhs;
  char *have = HL_ARRAY(l->arena, char, e.n_lhs + e.n_rhs + 1);
  int n_batch = 0, n_sum = 0, n_have = 0;
  for (int k = 0; k < e.n_lhs; k++) {
    int at = find_letter(rhs, e.n_rhs, lhs[k]);
    if (at < 0)
      continue;
    if (find_letter(e.out, e.n_out, lhs[k]) >= 0) {
      x_batch[n_batch] = k;
      y_batch[n_batch++] = at;
      have[n_have++] = lhs[k];
    } else {
      x_sum[n_sum] = k;
      y_sum[n_sum++] = at;
    }
  }
  for (int k = 0; k < e.n_lhs; k++)
    if (find_letter(rhs, e.n_rhs, lhs[k]) < 0)
      have[n_have++] = lhs[k];
  for (int k = 0; k < e.n_rhs; k++)
    if (find_letter(lhs, e.n_lhs, rhs[k]) < 0)
      have[n_have++] = rhs[k];
  HlInst *dot = hl_b_dot(b, x, y, (HlI64s){x_batch, n_batch}, (HlI64s){y_batch, n_batch},
                         (HlI64s){x_sum, n_sum}, (HlI64s){y_sum, n_sum}, HL_NO_DTYPE);
  return dot && ml_set_results(l, b, op, transpose_to(l, b, op, dot, have, n_have, &e));
}

// --- Random numbers ----------------------------------------------------------------------------------------------

bool ml_lower_rng(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in =
      ml_ins(l, b, op, 0, 2);  // the third operand says the shape, which the result's type does too
  const HlShape *shape = ml_result_shape(l, op);
  if (!in || !shape)
    return false;
  HlAttr attr = {.key = HL_A_DISTRIBUTION, .i = ml_attr_int(op, ML_A_RNG_DISTRIBUTION, 1)};
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_RNG, shape, 2, in, 1, &attr, 0, NULL));
}

bool ml_lower_rng_bit_generator(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *state = ml_in(l, b, op, 0);
  const HlShape *shape = ml_result_shape(l, op);
  if (!state || !shape)
    return false;
  HlAttr attr = {.key = HL_A_RNG_ALGORITHM, .i = ml_attr_int(op, ML_A_RNG_ALGORITHM, 0)};
  return ml_set_results(l, b, op,
                        hl_b_op(b, HL_OP_RNG_BIT_GENERATOR, shape, 1, &state, 1, &attr, 0, NULL));
}
