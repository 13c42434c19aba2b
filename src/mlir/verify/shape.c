// Verifies MLIR trees: constants, reshapes, broadcasts, slices, padding, gathers, tuples.
#include "mlir/verify/verify.h"

// Elements of a quantised constant are given as what they are stored as.
static bool is_stored(const HlMlType *value, const HlMlType *type) {
  const HlMlType *own = hl_ml_element(value), *element = hl_ml_element(type);
  return element->kind == HL_ML_QUANT && mv_shapes_agree(value, type) && own->kind == HL_ML_INT &&
         own->sign == HL_ML_SIGNLESS && own->width == element->quant->storage->width;
}

// A constant of the type its attribute has; of the check ops, what the operand is compared with.
bool mv_rule_constant(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  if (value == NULL || value->type == NULL)
    return true;
  if (value->type->kind != HL_ML_TENSOR)
    return mv_bad(v, op, "the value should be a tensor, but is '%s'", mv_text(v, value->type));
  if (op->n_results == 1)
    return is_stored(value->type, mv_out(op, 0)) || mv_result_is_type(v, op, 0, value->type);
  if (!is_stored(value->type, mv_in(op, 0)) && !mv_types_agree(mv_in(op, 0), value->type))
    return mv_bad(v, op, "compares '%s' with a value of type '%s'", mv_text(v, mv_in(op, 0)),
                  mv_text(v, value->type));
  return true;
}

bool mv_rule_arith_constant(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  if (value == NULL || value->type == NULL || value->kind == HL_ML_A_TYPE ||
      value->type == mv_out(op, 0))
    return true;
  return mv_bad(v, op, "the value is '%s', but the result '%s'", mv_text(v, value->type),
                mv_text(v, mv_out(op, 0)));
}

bool mv_rule_iota(MlVerify *v, const HlMlOp *op) {
  const int64_t dimension = ml_attr_int(op, ML_A_IOTA_DIMENSION, 0);
  const HlMlType *out = mv_out(op, 0);
  if (out->rank == 0)
    return mv_bad(v, op, "does not support scalars");
  if (dimension >= out->rank)
    return mv_bad(v, op, "iota_dimension %lld is not below the rank %d of the result",
                  (LL)dimension, out->rank);
  return true;
}

bool mv_rule_scalar(MlVerify *v, const HlMlOp *op) {
  if (mv_out(op, 0)->rank != 0)
    return mv_bad(v, op, "result #0 should be a scalar, but is '%s'", mv_text(v, mv_out(op, 0)));
  return true;
}

bool mv_rule_reshape(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  if (!hl_ml_is_static(in) || !hl_ml_is_static(out))
    return true;
  if (hl_ml_elements(in) != hl_ml_elements(out))
    return mv_bad(v, op, "the result has %lld elements, but the operand has %lld",
                  (LL)hl_ml_elements(out), (LL)hl_ml_elements(in));
  return mv_check_quant_reshape(v, op);
}

// --- Broadcasts ---------------------------------------------------------------------------------

bool mv_rule_broadcast(MlVerify *v, const HlMlOp *op) {
  const HlI64s sizes = mv_attr_ints(v, op, ML_A_BROADCAST_SIZES);
  const HlMlType *in = mv_in(op, 0);
  for (int k = 0; k < sizes.n; k++)
    if (sizes.at[k] < 0)
      return mv_bad(v, op, "broadcast with negative dimension size %lld", (LL)sizes.at[k]);
  MlShape shape = mv_shape_new(v, sizes.n + in->rank, hl_ml_element(in));
  for (int k = 0; k < shape.rank; k++)
    shape.dim[k] = k < sizes.n ? sizes.at[k] : in->dim[k - sizes.n];
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_broadcast_in_dim(MlVerify *v, const HlMlOp *op) {
  const HlI64s dims = mv_attr_ints(v, op, ML_A_BROADCAST_DIMENSIONS);
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  if (!mv_check_quant_same(v, op))
    return false;
  if (dims.n != in->rank)
    return mv_bad(v, op, "broadcast_dimensions has %d entries, but the operand has rank %d", dims.n,
                  in->rank);
  if (!mv_is_unique(v, dims))
    return mv_bad(v, op, "broadcast_dimensions should not have duplicates: [%s]",
                  mv_ints_text(v, dims));
  for (int k = 0; k < dims.n; k++) {
    const int64_t to = dims.at[k];
    if (to < 0 || to >= out->rank)
      return mv_bad(v, op,
                    "broadcast_dimensions contains the invalid value %lld for a result of rank %d",
                    (LL)to, out->rank);
    if (!mv_is_dynamic_size(in->dim[k]) && in->dim[k] != 1 && in->dim[k] != out->dim[to])
      return mv_bad(v, op,
                    "size %lld of operand dimension %d is neither 1 nor the size of result "
                    "dimension %lld (%s)",
                    (LL)in->dim[k], k, (LL)to, mv_ints_text(v, (HlI64s){&out->dim[to], 1}));
  }
  return mv_check_quant_broadcast(v, op, dims);
}

bool mv_rule_transpose(MlVerify *v, const HlMlOp *op) {
  const HlI64s permutation = mv_attr_ints(v, op, ML_A_PERMUTATION);
  const HlMlType *in = mv_in(op, 0);
  if (permutation.n != in->rank)
    return mv_bad(v, op, "permutation has %d entries, but the operand has rank %d", permutation.n,
                  in->rank);
  bool is_permutation = mv_is_unique(v, permutation);
  for (int k = 0; k < permutation.n; k++)
    is_permutation &= permutation.at[k] >= 0 && permutation.at[k] < in->rank;
  if (!is_permutation)
    return mv_bad(v, op, "permutation must permute the %d dimensions, but is [%s]", in->rank,
                  mv_ints_text(v, permutation));
  MlShape shape = mv_shape_of(v, in);
  const HlI64s bounds = hl_ml_bounds(in);
  for (int k = 0; k < shape.rank; k++) {
    shape.dim[k] = in->dim[permutation.at[k]];
    if (shape.bound)
      shape.bound[k] = bounds.at[permutation.at[k]];
  }
  return mv_result_is(v, op, 0, &shape) && mv_check_quant_transpose(v, op, permutation);
}

bool mv_rule_reverse(MlVerify *v, const HlMlOp *op) {
  const HlI64s dims = mv_attr_ints(v, op, ML_A_DIMENSIONS);
  const HlMlType *in = mv_in(op, 0);
  if (!mv_is_unique(v, dims))
    return mv_bad(v, op, "dimensions should be unique, but are [%s]", mv_ints_text(v, dims));
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] < 0 || dims.at[k] >= in->rank)
      return mv_bad(v, op, "dimension %lld is not in the range [0, %d)", (LL)dims.at[k], in->rank);
  return mv_result_is_type(v, op, 0, in);
}

// --- Concatenation ------------------------------------------------------------------------------

// Adds a size to the running one: static sizes add up, bounds too, the unknown swallows both.
static void add_size(int64_t *size, int64_t *bound, int64_t other_size, int64_t other_bound) {
  const int64_t a = mv_is_dynamic_size(*size) ? *bound : *size;
  const int64_t b = mv_is_dynamic_size(other_size) ? other_bound : other_size;
  const bool are_static = !mv_is_dynamic_size(*size) && !mv_is_dynamic_size(other_size);
  int64_t sum = HL_UNBOUNDED;
  if (mv_is_dynamic_size(a) || mv_is_dynamic_size(b) || __builtin_add_overflow(a, b, &sum))
    sum = HL_UNBOUNDED;
  *size = are_static ? sum : HL_UNBOUNDED;
  *bound = are_static ? HL_UNBOUNDED : sum;
}

static bool operands_join(MlVerify *v, const HlMlOp *op, int64_t dimension) {
  const HlMlType *first = mv_in(op, 0);
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlMlType *type = mv_in(op, (int)k);
    if (type->rank != first->rank)
      return mv_bad(v, op, "operands 0 and %u do not match in rank: %d vs %d", k, first->rank,
                    type->rank);
    for (int d = 0; d < type->rank; d++)
      if (d != dimension && !mv_sizes_agree(type->dim[d], first->dim[d]))
        return mv_bad(v, op, "operands 0 and %u are not compatible in dimension %d: '%s' vs '%s'",
                      k, d, mv_text(v, first), mv_text(v, type));
  }
  return true;
}

bool mv_rule_concatenate(MlVerify *v, const HlMlOp *op) {
  const int64_t dimension = ml_attr_int(op, ML_A_DIMENSION, 0);
  const HlMlType *first = mv_in(op, 0);
  if (first->rank == 0)
    return mv_bad(v, op, "rank-0 values cannot be concatenated");
  if (dimension >= first->rank)
    return mv_bad(v, op, "dimension %lld is out of bounds for operands of rank %d", (LL)dimension,
                  first->rank);
  if (!operands_join(v, op, dimension))
    return false;
  MlShape shape = mv_shape_new(v, first->rank, hl_ml_element(first));
  shape.bound = mv_shape_new(v, first->rank, NULL).dim;
  shape.dim[dimension] = 0;
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlMlType *type = mv_in(op, (int)k);
    const HlI64s bounds = hl_ml_bounds(type);
    for (int d = 0; d < type->rank; d++) {
      const int64_t bound = d < bounds.n ? bounds.at[d] : HL_UNBOUNDED;
      if (d == dimension)
        add_size(&shape.dim[d], &shape.bound[d], type->dim[d], bound);
      else if (!mv_merge_size(v, op, d, &shape.dim[d], &shape.bound[d], type->dim[d], bound))
        return false;
    }
  }
  return mv_result_is(v, op, 0, &shape);
}

// --- Slices -------------------------------------------------------------------------------------

bool mv_rule_slice(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0);
  const HlI64s starts = mv_attr_ints(v, op, ML_A_START_INDICES),
               limits = mv_attr_ints(v, op, ML_A_LIMIT_INDICES);
  const HlI64s strides = mv_attr_ints(v, op, ML_A_STRIDES), bounds = hl_ml_bounds(in);
  if (starts.n != limits.n || starts.n != strides.n)
    return mv_bad(v, op, "start_indices, limit_indices and strides differ in length: %d, %d and %d",
                  starts.n, limits.n, strides.n);
  if (starts.n != in->rank)
    return mv_bad(v, op, "start_indices has %d entries, but the operand has rank %d", starts.n,
                  in->rank);
  MlShape shape = mv_shape_new(v, in->rank, hl_ml_element(in));
  for (int k = 0; k < in->rank; k++) {
    const int64_t start = starts.at[k], limit = limits.at[k], stride = strides.at[k];
    const bool is_static = !mv_is_dynamic_size(in->dim[k]);
    const int64_t size = is_static ? in->dim[k] : k < bounds.n ? bounds.at[k] : HL_UNBOUNDED;
    if (start < 0)
      return mv_bad(v, op, "negative start index %lld in dimension %d", (LL)start, k);
    if (!mv_is_dynamic_size(size) && limit > size)
      return mv_bad(v, op, "limit index %lld is larger than the %s %lld of dimension %d", (LL)limit,
                    is_static ? "size" : "bound", (LL)size, k);
    if (start > limit)
      return mv_bad(v, op, "start index %lld is larger than limit index %lld in dimension %d",
                    (LL)start, (LL)limit, k);
    if (stride <= 0)
      return mv_bad(v, op, "stride must be positive, but is %lld in dimension %d", (LL)stride, k);
    shape.dim[k] = (limit - start) / stride + ((limit - start) % stride != 0);
  }
  return mv_result_is(v, op, 0, &shape);
}

static bool indices_agree(MlVerify *v, const HlMlOp *op, uint32_t first) {
  for (uint32_t k = first + 1; k < op->n_operands; k++)
    if (hl_ml_element(mv_in(op, (int)k)) != hl_ml_element(mv_in(op, (int)first)))
      return mv_bad(v, op, "start indices must have the same element type: '%s' vs '%s'",
                    mv_text(v, mv_in(op, (int)first)), mv_text(v, mv_in(op, (int)k)));
  return true;
}

bool mv_rule_dynamic_slice(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0);
  const HlI64s sizes = mv_attr_ints(v, op, ML_A_SLICE_SIZES);
  const int n = (int)op->n_operands - 1;
  if (hl_ml_element(in) != hl_ml_element(mv_out(op, 0)))
    return mv_bad(v, op, "requires the same element type for operand and result: '%s' vs '%s'",
                  mv_text(v, in), mv_text(v, mv_out(op, 0)));
  if (n != sizes.n)
    return mv_bad(v, op, "has %d slice sizes, but %d start indices", sizes.n, n);
  if (n != in->rank)
    return mv_bad(v, op, "has %d start indices, but the operand has rank %d", n, in->rank);
  if (!indices_agree(v, op, 1))
    return false;
  MlShape shape = mv_shape_new(v, n, hl_ml_element(in));
  for (int k = 0; k < n; k++) {
    if (sizes.at[k] < 0)
      return mv_bad(v, op, "negative slice size %lld in dimension %d", (LL)sizes.at[k], k);
    if (!mv_is_dynamic_size(in->dim[k]) && sizes.at[k] > in->dim[k])
      return mv_bad(v, op, "slice size %lld is greater than the size %lld of dimension %d",
                    (LL)sizes.at[k], (LL)in->dim[k], k);
    shape.dim[k] = sizes.at[k];
  }
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_dynamic_update_slice(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *update = mv_in(op, 1);
  const HlMlType *e = hl_ml_element(in);
  if (e != hl_ml_element(update) || e != hl_ml_element(mv_out(op, 0)))
    return mv_bad(v, op, "requires the same element type for operand, update and result");
  if (update->rank != in->rank)
    return mv_bad(v, op, "the update has rank %d, but the operand has rank %d", update->rank,
                  in->rank);
  if ((int)op->n_operands - 2 != in->rank)
    return mv_bad(v, op, "has %d start indices, but the operand has rank %d",
                  (int)op->n_operands - 2, in->rank);
  if (!indices_agree(v, op, 2))
    return false;
  for (int k = 0; k < in->rank; k++)
    if (!mv_is_dynamic_size(update->dim[k]) && !mv_is_dynamic_size(in->dim[k]) &&
        update->dim[k] > in->dim[k])
      return mv_bad(v, op, "size %lld of dimension %d of the update is not in the range [0, %lld]",
                    (LL)update->dim[k], k, (LL)in->dim[k]);
  return mv_result_is_type(v, op, 0, in);
}

// --- Padding ------------------------------------------------------------------------------------

// size + low + high + max(size - 1, 0) * interior; HL_UNBOUNDED when that does not fit.
static int64_t padded(int64_t size, int64_t low, int64_t high, int64_t interior) {
  int64_t sum = size, gaps;
  if (__builtin_add_overflow(sum, low, &sum) || __builtin_add_overflow(sum, high, &sum) ||
      __builtin_mul_overflow(size > 0 ? size - 1 : 0, interior, &gaps) ||
      __builtin_add_overflow(sum, gaps, &sum))
    return HL_UNBOUNDED;
  return sum;
}

bool mv_rule_pad(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0);
  const HlI64s low = mv_attr_ints(v, op, ML_A_EDGE_PADDING_LOW),
               high = mv_attr_ints(v, op, ML_A_EDGE_PADDING_HIGH);
  const HlI64s interior = mv_attr_ints(v, op, ML_A_INTERIOR_PADDING), bounds = hl_ml_bounds(in);
  if (low.n != high.n || low.n != interior.n)
    return mv_bad(
        v, op,
        "edge_padding_low, edge_padding_high and interior_padding differ in length: %d, %d and %d",
        low.n, high.n, interior.n);
  if (low.n != in->rank)
    return mv_bad(v, op, "edge_padding_low has %d entries, but the operand has rank %d", low.n,
                  in->rank);
  MlShape shape = mv_shape_new(v, in->rank, hl_ml_element(in));
  if (bounds.n > 0)
    shape.bound = mv_shape_new(v, in->rank, NULL).dim;
  for (int k = 0; k < in->rank; k++) {
    if (interior.at[k] < 0)
      return mv_bad(v, op, "interior padding cannot be negative: %lld in dimension %d",
                    (LL)interior.at[k], k);
    const bool is_static = !mv_is_dynamic_size(in->dim[k]);
    const int64_t size = is_static ? in->dim[k] : k < bounds.n ? bounds.at[k] : HL_UNBOUNDED;
    if (mv_is_dynamic_size(size))
      continue;
    const int64_t result = padded(size, low.at[k], high.at[k], interior.at[k]);
    if (result < 0)
      return mv_bad(v, op, "padding gives dimension %d a negative %s", k,
                    is_static ? "size" : "bound");
    (is_static ? shape.dim : shape.bound)[k] = result;
  }
  return mv_result_is(v, op, 0, &shape);
}

// --- Sizes of dimensions ------------------------------------------------------------------------

static bool dimension_fits(MlVerify *v, const HlMlOp *op, int64_t *dimension) {
  *dimension = ml_attr_int(op, ML_A_DIMENSION, 0);
  if (*dimension < 0 || *dimension >= mv_in(op, 0)->rank)
    return mv_bad(v, op, "dimension %lld is not in the range [0, %d)", (LL)*dimension,
                  mv_in(op, 0)->rank);
  return true;
}

bool mv_rule_get_dimension_size(MlVerify *v, const HlMlOp *op) {
  int64_t dimension;
  return dimension_fits(v, op, &dimension) && mv_rule_scalar(v, op);
}

bool mv_rule_set_dimension_size(MlVerify *v, const HlMlOp *op) {
  int64_t dimension;
  if (mv_in(op, 1)->rank != 0)
    return mv_bad(v, op, "the size should be a scalar, but is '%s'", mv_text(v, mv_in(op, 1)));
  if (!dimension_fits(v, op, &dimension))
    return false;
  MlShape shape = mv_shape_of(v, mv_in(op, 0));
  if (shape.bound == NULL)
    shape.bound = mv_shape_new(v, shape.rank, NULL).dim;
  if (!mv_is_dynamic_size(shape.dim[dimension]))
    shape.bound[dimension] = shape.dim[dimension];
  shape.dim[dimension] = HL_UNBOUNDED;
  HlI64s size;
  if (mv_constant_ints(v, op->operands[1], &size) && size.n == 1 &&
      size.at[0] == shape.bound[dimension]) {
    shape.dim[dimension] = size.at[0];
    shape.bound[dimension] = HL_UNBOUNDED;
  }
  return mv_result_is(v, op, 0, &shape);
}

// --- Gathers ------------------------------------------------------------------------------------

typedef struct Gather {
  HlI64s offset, collapsed, operand_batch, indices_batch, index_map;
  int64_t vector;  // index_vector_dim
} Gather;

static Gather gather_of(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  return (Gather){.offset = mv_field_ints(v, numbers, ML_A_OFFSET_DIMS),
                  .collapsed = mv_field_ints(v, numbers, ML_A_COLLAPSED_SLICE_DIMS),
                  .operand_batch = mv_field_ints(v, numbers, ML_A_OPERAND_BATCHING_DIMS),
                  .indices_batch = mv_field_ints(v, numbers, ML_A_START_INDICES_BATCHING_DIMS),
                  .index_map = mv_field_ints(v, numbers, ML_A_START_INDEX_MAP),
                  .vector = ml_field_int(numbers, ML_A_INDEX_VECTOR_DIM, 0)};
}

static bool check_index_vector(MlVerify *v, const HlMlOp *op, const Gather *g) {
  const HlMlType *indices = mv_in(op, 1);
  if (g->vector < 0 || g->vector > indices->rank)
    return mv_bad(v, op,
                  "index_vector_dim %lld is not in the range [0, %d], the rank of start_indices",
                  (LL)g->vector, indices->rank);
  const int64_t size = g->vector == indices->rank ? 1 : indices->dim[g->vector];
  if (!mv_sizes_agree(size, g->index_map.n))
    return mv_bad(
        v, op, "start_index_map has %d entries, but dimension %lld of start_indices has size %lld",
        g->index_map.n, (LL)g->vector, (LL)size);
  return true;
}

static bool check_batching(MlVerify *v, const HlMlOp *op, const Gather *g) {
  const HlMlType *operand = mv_in(op, 0), *indices = mv_in(op, 1);
  if (hl_i64s_find(g->indices_batch, g->vector) >= 0)
    return mv_bad(v, op, "start_indices_batching_dims includes index_vector_dim %lld",
                  (LL)g->vector);
  if (g->operand_batch.n != g->indices_batch.n)
    return mv_bad(
        v, op, "operand_batching_dims and start_indices_batching_dims differ in length: %d vs %d",
        g->operand_batch.n, g->indices_batch.n);
  for (int k = 0; k < g->operand_batch.n; k++) {
    const int64_t a = operand->dim[g->operand_batch.at[k]],
                  b = indices->dim[g->indices_batch.at[k]];
    if (!mv_sizes_agree(a, b))
      return mv_bad(
          v, op,
          "operand_batching_dims[%d] and start_indices_batching_dims[%d] have sizes %lld and %lld",
          k, k, (LL)a, (LL)b);
  }
  return true;
}

// `n_sizes`: entries of slice_sizes.
static bool check_gather(MlVerify *v, const HlMlOp *op, const Gather *g, int64_t n_sizes) {
  const HlMlType *operand = mv_in(op, 0), *indices = mv_in(op, 1);
  if (g->offset.n + g->collapsed.n + g->operand_batch.n != operand->rank)
    return mv_bad(v, op,
                  "offset_dims, collapsed_slice_dims and operand_batching_dims have %d + %d + %d "
                  "entries, but the "
                  "operand has rank %d",
                  g->offset.n, g->collapsed.n, g->operand_batch.n, operand->rank);
  if (!check_index_vector(v, op, g) || !mv_check_sorted(v, op, g->offset, ML_A_OFFSET_DIMS) ||
      !mv_check_unique(v, op, g->offset, ML_A_OFFSET_DIMS) ||
      !mv_distinct(v, op, g->collapsed, g->operand_batch, ML_A_COLLAPSED_SLICE_DIMS,
                   ML_A_OPERAND_BATCHING_DIMS) ||
      !mv_check_sorted(v, op, g->collapsed, ML_A_COLLAPSED_SLICE_DIMS) ||
      !mv_in_range(v, op, g->collapsed, operand->rank, ML_A_COLLAPSED_SLICE_DIMS,
                   "the operand's rank") ||
      !mv_check_sorted(v, op, g->operand_batch, ML_A_OPERAND_BATCHING_DIMS) ||
      !mv_in_range(v, op, g->operand_batch, operand->rank, ML_A_OPERAND_BATCHING_DIMS,
                   "the operand's rank") ||
      !mv_check_unique(v, op, g->indices_batch, ML_A_START_INDICES_BATCHING_DIMS) ||
      !mv_in_range(v, op, g->indices_batch, indices->rank, ML_A_START_INDICES_BATCHING_DIMS,
                   "the rank of start_indices") ||
      !check_batching(v, op, g) ||
      !mv_distinct(v, op, g->index_map, g->operand_batch, ML_A_START_INDEX_MAP,
                   ML_A_OPERAND_BATCHING_DIMS) ||
      !mv_in_range(v, op, g->index_map, operand->rank, ML_A_START_INDEX_MAP, "the operand's rank"))
    return false;
  if (!mv_sizes_agree(n_sizes, operand->rank))
    return mv_bad(v, op, "slice_sizes has %lld entries, but the operand has rank %d", (LL)n_sizes,
                  operand->rank);
  return true;
}

static bool check_slices(MlVerify *v, const HlMlOp *op, const Gather *g, HlI64s sizes) {
  const HlI64s lists[] = {g->collapsed, g->operand_batch};
  const MlName names[] = {ML_A_COLLAPSED_SLICE_DIMS, ML_A_OPERAND_BATCHING_DIMS};
  for (int l = 0; l < 2; l++)
    for (int k = 0; k < lists[l].n; k++)
      if (sizes.at[lists[l].at[k]] > 1)
        return mv_bad(v, op, "slice_sizes at the %s should be at most 1, but one is %lld",
                      ml_name_text[names[l]], (LL)sizes.at[lists[l].at[k]]);
  const HlMlType *operand = mv_in(op, 0);
  for (int k = 0; k < sizes.n; k++)
    if (sizes.at[k] < 0 || (!mv_is_dynamic_size(operand->dim[k]) && sizes.at[k] > operand->dim[k]))
      return mv_bad(
          v, op, "slice size %lld is out of bounds for dimension %d of the operand, of size %lld",
          (LL)sizes.at[k], k, (LL)operand->dim[k]);
  return true;
}

// `sizes` are empty when they are not known.
static bool check_gather_result(MlVerify *v, const HlMlOp *op, const Gather *g, HlI64s sizes) {
  const HlMlType *operand = mv_in(op, 0), *indices = mv_in(op, 1);
  const int indices_rank = indices->rank + (g->vector == indices->rank);
  MlShape shape = mv_shape_new(v, g->offset.n + indices_rank - 1, hl_ml_element(operand));
  if (!mv_in_range(v, op, g->offset, shape.rank, ML_A_OFFSET_DIMS, "the rank of the result"))
    return false;
  const HlI64s bounds = hl_ml_bounds(indices);
  if (bounds.n > 0)
    shape.bound = mv_shape_new(v, shape.rank, NULL).dim;
  const bool *is_offset = mv_members(v, shape.rank, g->offset, (HlI64s){0});
  const bool *is_outside = mv_members(v, operand->rank, g->collapsed, g->operand_batch);
  int of_operand = 0, of_indices = 0;
  for (int k = 0; k < shape.rank; k++) {
    if (is_offset[k]) {
      while (is_outside[of_operand])
        of_operand++;
      if (of_operand < sizes.n)
        shape.dim[k] = sizes.at[of_operand];
      of_operand++;
      continue;
    }
    if (of_indices == g->vector)
      of_indices++;
    if (of_indices < indices->rank) {
      shape.dim[k] = indices->dim[of_indices];
      if (shape.bound)
        shape.bound[k] = bounds.at[of_indices];
    }
    of_indices++;
  }
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_gather(MlVerify *v, const HlMlOp *op) {
  const Gather g = gather_of(v, op);
  const HlI64s sizes = mv_attr_ints(v, op, ML_A_SLICE_SIZES);
  if (hl_ml_element(mv_in(op, 0)) != hl_ml_element(mv_out(op, 0)))
    return mv_bad(v, op, "requires the same element type for operand and result");
  return check_gather(v, op, &g, sizes.n) && check_slices(v, op, &g, sizes) &&
         check_gather_result(v, op, &g, sizes);
}

bool mv_rule_dynamic_gather(MlVerify *v, const HlMlOp *op) {
  const Gather g = gather_of(v, op);
  HlI64s sizes = {0};
  if (!check_gather(v, op, &g, mv_in(op, 2)->dim[0]))
    return false;
  if (mv_constant_ints(v, op->operands[2], &sizes) && sizes.n == mv_in(op, 0)->rank) {
    if (!check_slices(v, op, &g, sizes))
      return false;
  } else {
    sizes.n = 0;
  }
  return check_gather_result(v, op, &g, sizes);
}

// --- Tuples -------------------------------------------------------------------------------------

bool mv_rule_tuple(MlVerify *v, const HlMlOp *op) {
  const HlMlType *out = mv_out(op, 0);
  if (out->n != (int)op->n_operands)
    return mv_bad(v, op, "makes a tuple of %d elements of %u operands", out->n, op->n_operands);
  for (int k = 0; k < out->n; k++)
    if (out->element[k] != mv_in(op, k))
      return mv_bad(v, op, "element %d of the tuple should be '%s', but is '%s'", k,
                    mv_text(v, mv_in(op, k)), mv_text(v, out->element[k]));
  return true;
}

bool mv_rule_get_tuple_element(MlVerify *v, const HlMlOp *op) {
  const int64_t index = ml_attr_int(op, ML_A_INDEX, 0);
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  if (in->kind != HL_ML_TUPLE)
    return true;
  if (index >= in->n)
    return mv_bad(v, op, "index %lld is out of bounds of a tuple of %d", (LL)index, in->n);
  if (!mv_types_agree(in->element[index], out))
    return mv_bad(v, op, "element %lld of the tuple is '%s', but the result is '%s'", (LL)index,
                  mv_text(v, in->element[index]), mv_text(v, out));
  return true;
}
