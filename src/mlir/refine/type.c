// Result types of dynamic programs from the types of operands.
//
// Each rule fills in the sizes of one result; HL_UNBOUNDED stays where an operand's size is not known. Ops without a
// rule keep the types they have.
#include "hilo/custom_calls.h"
#include "mlir/refine/refine.h"

#include <string.h>

// --- Types that meet ----------------------------------------------------------------------------------------

const HlMlType *refine_meet(Refine *r, const HlMlType *a, const HlMlType *b) {
  if (a == b)
    return a;
  if (a->kind == HL_ML_UNRANKED || b->kind == HL_ML_UNRANKED)
    return a->kind == HL_ML_UNRANKED ? b : a;
  if (a->kind == HL_ML_TUPLE && b->kind == HL_ML_TUPLE && a->n == b->n) {
    const HlMlType **element = HL_ARRAY(r->arena, const HlMlType *, a->n + 1);
    for (int k = 0; k < a->n; k++)
      if (!(element[k] = refine_meet(r, a->element[k], b->element[k])))
        return NULL;
    return hl_ml_list_type(r->tree, HL_ML_TUPLE, a->n, element);
  }
  if (!hl_ml_is_tensor(a) || !hl_ml_is_tensor(b) || a->rank != b->rank ||
      hl_ml_element(a) != hl_ml_element(b))
    return NULL;
  int64_t *dim = HL_ARRAY(r->arena, int64_t, a->rank + 1);
  bool is_dynamic = false;
  for (int k = 0; k < a->rank; k++) {
    dim[k] = a->dim[k] == HL_UNBOUNDED ? b->dim[k] : a->dim[k];
    if (b->dim[k] != HL_UNBOUNDED && b->dim[k] != dim[k])
      return NULL;
    is_dynamic = is_dynamic || dim[k] == HL_UNBOUNDED;
  }
  const HlMlAttr *encoding = a->encoding ? a->encoding : b->encoding;
  return hl_ml_tensor_type(r->tree, a->rank, dim, hl_ml_element(a), is_dynamic ? encoding : NULL);
}

bool refine_set_type(Refine *r, const HlMlOp *op, HlMlValue *value, const HlMlType *type) {
  const HlMlType *met = refine_meet(r, value->type, type);
  if (!met)
    return refine_error(r, op, "has the type %s, but %s follows from its operands",
                        hl_ml_type_text(r->cx, value->type), hl_ml_type_text(r->cx, type));
  value->type = met;
  return true;
}

// --- Sizes ----------------------------------------------------------------------------------------------------

typedef struct Sizes {
  int rank;
  int64_t *dim;
} Sizes;

// What is too large for 64 bits is not known.
static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  return a == HL_UNBOUNDED || b == HL_UNBOUNDED || __builtin_add_overflow(a, b, &sum) ? HL_UNBOUNDED
                                                                                      : sum;
}

static const HlMlType *operand(const HlMlOp *op, uint32_t k) {
  return k < op->n_operands && hl_ml_is_tensor(op->operands[k]->type) ? op->operands[k]->type
                                                                      : NULL;
}

static Sizes new_sizes(Refine *r, int rank) {
  return (Sizes){rank, HL_ARRAY(r->arena, int64_t, rank + 1)};
}

static Sizes sizes_of(Refine *r, const HlMlType *type) {
  Sizes s = new_sizes(r, type->rank);
  if (type->rank > 0)
    memcpy(s.dim, type->dim, (size_t)type->rank * sizeof *s.dim);
  return s;
}

static HlI64s ints(Refine *r, const HlMlOp *op, MlName name) {
  return ml_attr_ints(r->arena, op, name);
}

static HlI64s field(Refine *r, const HlMlAttr *attr, MlName name) {
  return ml_field_ints(r->arena, attr, name);
}

// --- Rules ----------------------------------------------------------------------------------------------------

// Fills in the sizes of result k; false: nothing is known.
typedef bool Rule(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out);

static bool like_operand(Refine *r, const HlMlOp *op, uint32_t number, Sizes *out) {
  const HlMlType *type = operand(op, number);
  if (type)
    *out = sizes_of(r, type);
  return type != NULL;
}

static bool like_first(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  (void)k;
  return like_operand(r, op, 0, out);
}
static bool like_second(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  (void)k;
  return like_operand(r, op, 1, out);
}
static bool like_same(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  return like_operand(r, op, k, out);
}

// The known sizes of all operands together.
static bool elementwise(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  if (!like_operand(r, op, op->row == ML_STABLEHLO_SELECT || op->row == ML_STABLEHLO_CLAMP ? 1 : 0,
                    out))
    return false;
  (void)k;
  for (uint32_t i = 0; i < op->n_operands; i++)
    for (int d = 0; operand(op, i) && operand(op, i)->rank == out->rank && d < out->rank; d++)
      if (out->dim[d] == HL_UNBOUNDED)
        out->dim[d] = operand(op, i)->dim[d];
  return true;
}

// NumPy's broadcasting of two operands, or along broadcast_dimensions of the smaller one.
static bool broadcasts(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlMlType *a = operand(op, op->n_operands - 2), *b = operand(op, op->n_operands - 1);
  (void)k;
  if (!a || !b)
    return false;
  const HlMlType *large = a->rank >= b->rank ? a : b, *small = large == a ? b : a;
  const HlI64s dims = ints(r, op, ML_A_BROADCAST_DIMENSIONS);
  *out = sizes_of(r, large);
  for (int d = 0; d < small->rank; d++) {
    const int64_t to = dims.n == small->rank ? dims.at[d] : large->rank - small->rank + d;
    if (to < 0 || to >= large->rank)
      return false;
    if (small->dim[d] == HL_UNBOUNDED && out->dim[to] == 1)
      out->dim[to] = HL_UNBOUNDED;
    else if (small->dim[d] != 1 && small->dim[d] != HL_UNBOUNDED)
      out->dim[to] = small->dim[d];
  }
  return true;
}

static bool transpose(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlI64s permutation = ints(r, op, ML_A_PERMUTATION);
  const HlMlType *type = operand(op, 0);
  (void)k;
  if (!type || permutation.n != type->rank)
    return false;
  *out = new_sizes(r, type->rank);
  for (int d = 0; d < type->rank; d++)
    out->dim[d] = permutation.at[d] >= 0 && permutation.at[d] < type->rank
                      ? type->dim[permutation.at[d]]
                      : HL_UNBOUNDED;
  return true;
}

static bool concatenate(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const int64_t d = ml_attr_int(op, ML_A_DIMENSION, -1);
  if (!elementwise(r, op, k, out) || d < 0 || d >= out->rank)
    return false;
  out->dim[d] = 0;
  for (uint32_t i = 0; i < op->n_operands; i++) {
    if (!operand(op, i) || operand(op, i)->rank != out->rank)
      return false;
    out->dim[d] = plus(out->dim[d], operand(op, i)->dim[d]);
  }
  return true;
}

static bool pad(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlI64s low = ints(r, op, ML_A_EDGE_PADDING_LOW), high = ints(r, op, ML_A_EDGE_PADDING_HIGH);
  const HlI64s interior = ints(r, op, ML_A_INTERIOR_PADDING);
  (void)k;
  if (!like_operand(r, op, 0, out) || low.n != out->rank || high.n != out->rank ||
      interior.n != out->rank)
    return false;
  for (int d = 0; d < out->rank; d++)
    if (out->dim[d] != HL_UNBOUNDED)
      out->dim[d] +=
          low.at[d] + high.at[d] + (out->dim[d] > 1 ? (out->dim[d] - 1) * interior.at[d] : 0);
  return true;
}

static bool slice(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlI64s start = ints(r, op, ML_A_START_INDICES), limit = ints(r, op, ML_A_LIMIT_INDICES),
               by = ints(r, op, ML_A_STRIDES);
  (void)k;
  if (limit.n != start.n || by.n != start.n)
    return false;
  *out = new_sizes(r, start.n);
  for (int d = 0; d < start.n; d++)
    out->dim[d] =
        by.at[d] > 0 ? (limit.at[d] - start.at[d] + by.at[d] - 1) / by.at[d] : HL_UNBOUNDED;
  return true;
}

static bool broadcast(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlI64s sizes = ints(r, op, ML_A_BROADCAST_SIZES);
  const HlMlType *type = operand(op, 0);
  (void)k;
  if (!type)
    return false;
  *out = new_sizes(r, sizes.n + type->rank);
  for (int d = 0; d < out->rank; d++)
    out->dim[d] = d < sizes.n ? sizes.at[d] : type->dim[d - sizes.n];
  return true;
}

static bool reduce(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlI64s dims = ints(r, op, ML_A_DIMENSIONS);
  const HlMlType *type = operand(op, k);
  if (!type)
    return false;
  *out = new_sizes(r, type->rank);
  out->rank = 0;
  for (int d = 0; d < type->rank; d++)
    if (hl_i64s_find(dims, d) < 0)
      out->dim[out->rank++] = type->dim[d];
  return true;
}

static int64_t dilated(int64_t size, int64_t dilation) {
  int64_t gaps;
  if (size == 0 || size == HL_UNBOUNDED)
    return size;
  return __builtin_mul_overflow(size - 1, dilation, &gaps) ? HL_UNBOUNDED : plus(gaps, 1);
}

// The number of places of a window along a dimension.
static int64_t places(int64_t size, int64_t low, int64_t high, int64_t base, int64_t window,
                      int64_t dilation, int64_t stride) {
  if (size == HL_UNBOUNDED || window == HL_UNBOUNDED || stride < 1)
    return HL_UNBOUNDED;
  int64_t padded = dilated(size, base);
  const int64_t reach = dilated(window, dilation);
  if (padded == HL_UNBOUNDED || reach == HL_UNBOUNDED ||
      __builtin_add_overflow(padded, low, &padded) || __builtin_add_overflow(padded, high, &padded))
    return HL_UNBOUNDED;
  return padded < reach || reach <= 0 ? 0 : (padded - reach) / stride + 1;
}

static int64_t or_else(HlI64s list, int k, int64_t absent) {
  return k < list.n ? list.at[k] : absent;
}

static bool reduce_window(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlI64s window = ints(r, op, ML_A_WINDOW_DIMENSIONS),
               stride = ints(r, op, ML_A_WINDOW_STRIDES);
  const HlI64s base = ints(r, op, ML_A_BASE_DILATIONS),
               dilation = ints(r, op, ML_A_WINDOW_DILATIONS);
  const HlI64s padding = ints(r, op, ML_A_PADDING);
  if (!like_operand(r, op, k, out) || window.n != out->rank)
    return false;
  for (int d = 0; d < out->rank; d++)
    out->dim[d] =
        places(out->dim[d], or_else(padding, 2 * d, 0), or_else(padding, 2 * d + 1, 0),
               or_else(base, d, 1), window.at[d], or_else(dilation, d, 1), or_else(stride, d, 1));
  return true;
}

static bool at_dim(const HlMlType *type, int64_t d, int64_t *out) {
  if (d < 0 || d >= type->rank)
    return false;
  *out = type->dim[d];
  return true;
}

static bool convolution(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlMlAttr *n = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  const HlMlType *x = operand(op, 0), *y = operand(op, 1);
  const HlI64s xs = field(r, n, ML_A_INPUT_SPATIAL_DIMENSIONS),
               ys = field(r, n, ML_A_KERNEL_SPATIAL_DIMENSIONS);
  const HlI64s os = field(r, n, ML_A_OUTPUT_SPATIAL_DIMENSIONS);
  const HlI64s stride = ints(r, op, ML_A_WINDOW_STRIDES), padding = ints(r, op, ML_A_PADDING);
  const HlI64s base = ints(r, op, ML_A_LHS_DILATION), dilation = ints(r, op, ML_A_RHS_DILATION);
  const int64_t groups = ml_attr_int(op, ML_A_BATCH_GROUP_COUNT, 1);
  int64_t batch, features, size, window;
  (void)k;
  if (!n || !x || !y || xs.n != ys.n || os.n != xs.n || groups < 1)
    return false;
  *out = new_sizes(r, x->rank);
  const int64_t ob = ml_field_int(n, ML_A_OUTPUT_BATCH_DIMENSION, 0);
  const int64_t of = ml_field_int(n, ML_A_OUTPUT_FEATURE_DIMENSION, 0);
  if (!at_dim(x, ml_field_int(n, ML_A_INPUT_BATCH_DIMENSION, 0), &batch) ||
      !at_dim(y, ml_field_int(n, ML_A_KERNEL_OUTPUT_FEATURE_DIMENSION, 0), &features) || ob < 0 ||
      ob >= out->rank || of < 0 || of >= out->rank)
    return false;
  out->dim[ob] = batch == HL_UNBOUNDED ? batch : batch / groups;
  out->dim[of] = features;
  for (int d = 0; d < xs.n; d++) {
    if (!at_dim(x, xs.at[d], &size) || !at_dim(y, ys.at[d], &window) || os.at[d] < 0 ||
        os.at[d] >= out->rank)
      return false;
    out->dim[os.at[d]] =
        places(size, or_else(padding, 2 * d, 0), or_else(padding, 2 * d + 1, 0),
               or_else(base, d, 1), window, or_else(dilation, d, 1), or_else(stride, d, 1));
  }
  return true;
}

static void add_free(const HlMlType *type, HlI64s batch, HlI64s contract, Sizes *out) {
  for (int d = 0; d < type->rank; d++)
    if (hl_i64s_find(batch, d) < 0 && hl_i64s_find(contract, d) < 0)
      out->dim[out->rank++] = type->dim[d];
}

static bool dot_general(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlMlAttr *n = ml_attr(op, ML_A_DOT_DIMENSION_NUMBERS);
  const HlMlType *x = operand(op, 0), *y = operand(op, 1);
  (void)k;
  if (!n || !x || !y)
    return false;
  const HlI64s xb = field(r, n, ML_A_LHS_BATCHING_DIMENSIONS),
               yb = field(r, n, ML_A_RHS_BATCHING_DIMENSIONS);
  *out = new_sizes(r, x->rank + y->rank);
  out->rank = 0;
  for (int d = 0; d < xb.n; d++) {
    int64_t size;
    if (!at_dim(x, xb.at[d], &size) || d >= yb.n)
      return false;
    if (size == HL_UNBOUNDED && !at_dim(y, yb.at[d], &size))
      return false;
    out->dim[out->rank++] = size;
  }
  add_free(x, xb, field(r, n, ML_A_LHS_CONTRACTING_DIMENSIONS), out);
  add_free(y, yb, field(r, n, ML_A_RHS_CONTRACTING_DIMENSIONS), out);
  return true;
}

static bool dot(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlMlType *x = operand(op, 0), *y = operand(op, 1);
  (void)k;
  if (!x || !y || x->rank < 1 || y->rank < 1)
    return false;
  *out = new_sizes(r, x->rank + y->rank);
  const int64_t last = x->rank - 1, first = 0;
  out->rank = 0;
  add_free(x, (HlI64s){0}, (HlI64s){&last, 1}, out);
  add_free(y, (HlI64s){0}, (HlI64s){&first, 1}, out);
  return true;
}

static bool gather(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlMlAttr *n = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  const HlMlType *indices = operand(op, 1);
  const HlI64s offset = field(r, n, ML_A_OFFSET_DIMS),
               collapsed = field(r, n, ML_A_COLLAPSED_SLICE_DIMS);
  const HlI64s batching = field(r, n, ML_A_OPERAND_BATCHING_DIMS),
               sizes = ints(r, op, ML_A_SLICE_SIZES);
  const int64_t vector = ml_field_int(n, ML_A_INDEX_VECTOR_DIM, 0);
  (void)k;
  if (!n || !indices || sizes.n == 0)
    return false;
  *out = new_sizes(r, offset.n + indices->rank);
  out->rank = offset.n + indices->rank - (vector < indices->rank);
  int next_index = 0, next_size = 0;
  for (int d = 0; d < out->rank; d++) {
    if (hl_i64s_find(offset, d) >= 0) {
      while (next_size < sizes.n &&
             (hl_i64s_find(collapsed, next_size) >= 0 || hl_i64s_find(batching, next_size) >= 0))
        next_size++;
      out->dim[d] = next_size < sizes.n ? sizes.at[next_size++] : HL_UNBOUNDED;
    } else {
      next_index += next_index == vector;
      out->dim[d] = next_index < indices->rank ? indices->dim[next_index++] : HL_UNBOUNDED;
    }
  }
  return true;
}

static bool fft(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const int64_t type = ml_attr_int(op, ML_A_FFT_TYPE, 0);
  const HlI64s length = ints(r, op, ML_A_FFT_LENGTH);
  (void)k;
  if (!like_operand(r, op, 0, out))
    return false;
  if (out->rank > 0 && length.n > 0 && type >= 2)
    out->dim[out->rank - 1] = type == 2 ? length.at[length.n - 1] / 2 + 1 : length.at[length.n - 1];
  return true;
}

// A change of width adds or takes the last dimension; its size is in the written type.
static bool bitcast_convert(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlMlType *from = operand(op, 0), *to = op->results[k].type;
  if (!from || !hl_ml_is_tensor(to))
    return false;
  *out = new_sizes(r, to->rank);
  for (int d = 0; d < to->rank; d++)
    out->dim[d] = d < from->rank ? from->dim[d] : to->dim[d];
  return true;
}

static bool top_k(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  (void)k;
  if (!like_operand(r, op, 0, out) || out->rank < 1)
    return false;
  out->dim[out->rank - 1] = ml_attr_int(op, ML_A_K, HL_UNBOUNDED);
  return true;
}

// JAX wraps operands so that their uses keep the old type; Sharding and others pass their operand on.
static bool custom_call(Refine *r, const HlMlOp *op, uint32_t k, Sizes *out) {
  const HlSym *target = ml_attr_sym(op, ML_A_CALL_TARGET_NAME);
  const HlCallTarget known = target ? hl_call_named(target->text) : HL_CALL_OTHER;
  if (k == 0 && (known == HL_CALL_REFINEMENT_OPERAND || known == HL_CALL_SHARDING))
    return like_operand(r, op, 0, out);
  const HlI64s which = ints(r, op, ML_A_INDICES_OF_SHAPE_OPERANDS);
  const Known *sizes = (int)k < which.n && which.at[k] >= 0 && which.at[k] < (int64_t)op->n_operands
                           ? refine_known(r, op->operands[which.at[k]])
                           : NULL;
  if (!sizes)
    return false;
  *out = new_sizes(r, sizes->at.n);
  memcpy(out->dim, sizes->at.at, (size_t)sizes->at.n * sizeof *out->dim);
  return true;
}

static Rule *const rules[ML_ROW_COUNT] = {
    [ML_STABLEHLO_TRANSPOSE] = transpose,
    [ML_STABLEHLO_CONCATENATE] = concatenate,
    [ML_STABLEHLO_PAD] = pad,
    [ML_STABLEHLO_SLICE] = slice,
    [ML_STABLEHLO_BROADCAST] = broadcast,
    [ML_STABLEHLO_REDUCE] = reduce,
    [ML_STABLEHLO_REDUCE_WINDOW] = reduce_window,
    [ML_STABLEHLO_CONVOLUTION] = convolution,
    [ML_STABLEHLO_DOT_GENERAL] = dot_general,
    [ML_STABLEHLO_DOT] = dot,
    [ML_STABLEHLO_GATHER] = gather,
    [ML_STABLEHLO_FFT] = fft,
    [ML_STABLEHLO_BITCAST_CONVERT] = bitcast_convert,
    [ML_STABLEHLO_CUSTOM_CALL] = custom_call,
    [ML_STABLEHLO_TRIANGULAR_SOLVE] = like_second,
    [ML_STABLEHLO_REVERSE] = like_first,
    [ML_STABLEHLO_CHOLESKY] = like_first,
    [ML_STABLEHLO_DYNAMIC_UPDATE_SLICE] = like_first,
    [ML_STABLEHLO_SELECT_AND_SCATTER] = like_first,
    [ML_STABLEHLO_BATCH_NORM_INFERENCE] = like_first,
    [ML_STABLEHLO_UNIFORM_QUANTIZE] = like_first,
    [ML_STABLEHLO_UNIFORM_DEQUANTIZE] = like_first,
    [ML_STABLEHLO_COLLECTIVE_PERMUTE] = like_first,
    [ML_STABLEHLO_CROSS_REPLICA_SUM] = like_first,
    [ML_STABLEHLO_MAP] = like_first,
    [ML_TENSOR_CAST] = like_first,
    [ML_SDY_SHARDING_CONSTRAINT] = like_first,
    [ML_STABLEHLO_SORT] = like_same,
    [ML_STABLEHLO_SCATTER] = like_same,
    [ML_STABLEHLO_ALL_REDUCE] = like_same,
    [ML_STABLEHLO_COLLECTIVE_BROADCAST] = like_same,
    [ML_STABLEHLO_OPTIMIZATION_BARRIER] = like_same,
    [ML_CHLO_CONSTANT_LIKE] = like_first,
    [ML_CHLO_TOP_K] = top_k,
};

static Rule *rule_of(const HlMlOp *op) {
  const MlOpRow *row = ml_row_of(op);
  if (rules[op->row])
    return rules[op->row];
  if (row->hlo != HL_OP_NO && (hl_op_info[row->hlo].traits & HL_T_ELEMENTWISE))
    return elementwise;
  if (op->dialect == HL_ML_CHLO)
    return strncmp(row->name, "chlo.broadcast_", 15) == 0 ? broadcasts
           : op->n_operands > 0                           ? elementwise
                                                          : NULL;
  return NULL;
}

static bool tuple_types(Refine *r, HlMlOp *op) {
  if (op->row == ML_STABLEHLO_TUPLE) {
    const HlMlType **element = HL_ARRAY(r->arena, const HlMlType *, op->n_operands + 1);
    for (uint32_t k = 0; k < op->n_operands; k++)
      element[k] = op->operands[k]->type;
    return refine_set_type(r, op, &op->results[0],
                           hl_ml_list_type(r->tree, HL_ML_TUPLE, (int)op->n_operands, element));
  }
  const HlMlType *tuple = op->operands[0]->type;
  const int64_t k = ml_attr_int(op, ML_A_INDEX, -1);
  return tuple->kind != HL_ML_TUPLE || k < 0 || k >= tuple->n ||
         refine_set_type(r, op, &op->results[0], tuple->element[k]);
}

bool refine_types(Refine *r, HlMlOp *op) {
  Rule *rule = rule_of(op);
  if ((op->row == ML_STABLEHLO_TUPLE || op->row == ML_STABLEHLO_GET_TUPLE_ELEMENT) &&
      op->n_results == 1)
    return tuple_types(r, op);
  for (uint32_t k = 0; rule && k < op->n_results; k++) {
    Sizes sizes;
    const HlMlType *type = op->results[k].type;
    if (!(hl_ml_is_tensor(type) || type->kind == HL_ML_UNRANKED) || !rule(r, op, k, &sizes))
      continue;
    const HlMlType *inferred =
        hl_ml_tensor_type(r->tree, sizes.rank, sizes.dim, hl_ml_element(type), NULL);
    if (!refine_set_type(r, op, &op->results[k], inferred))
      return false;
  }
  return true;
}
