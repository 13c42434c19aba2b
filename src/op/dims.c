// op/dims.c: which dimensions of an instruction's operands and results go together: the column `dims` of ops.def.

#include "op/dims.h"

#include <string.h>

// --- Writing rules -----------------------------------------------------------------------------------

int hl_factors_add(HlFactors *rule, int64_t size, HlFactorKind kind) {
  if (rule->n == rule->capacity) {
    const int capacity = rule->capacity ? 2 * rule->capacity : 8;
    HlFactor *grown = HL_ARRAY(rule->arena, HlFactor, capacity);
    if (rule->n > 0)
      memcpy(grown, rule->factor, (size_t)rule->n * sizeof *grown);
    rule->factor = grown;
    rule->capacity = capacity;
  }
  rule->factor[rule->n] = (HlFactor){size, kind};
  return rule->n++;
}

// Appends the factor to a dimension of a tensor.
void hl_factors_put(HlFactors *rule, int tensor, int64_t dim, int factor) {
  HlDimFactors *list = &rule->tensor[tensor].dim[dim];
  int *at = HL_ARRAY(rule->arena, int, list->n + 1);
  if (list->n > 0)
    memcpy(at, list->at, (size_t)list->n * sizeof *at);
  at[list->n] = factor;
  *list = (HlDimFactors){list->n + 1, at};
}

static void set_tensor(HlFactors *rule, int tensor, const HlShape *shape) {
  const bool array = shape && hl_shape_is_array(shape);
  rule->tensor[tensor] = (HlTensorFactors){array ? shape->rank : -1, NULL};
  if (array)
    rule->tensor[tensor].dim = HL_ARRAY(rule->arena, HlDimFactors, shape->rank + 1);
}

const HlShape *hl_leaf_shape(const HlShape *shape, int64_t k) {
  if (!hl_shape_is_tuple(shape))
    return k == 0 ? shape : NULL;
  for (int e = 0; e < shape->rank; e++) {
    const int64_t n = hl_shape_is_tuple(shape->element[e]) ? hl_shape_leaves(shape->element[e]) : 1;
    if (k < n)
      return hl_leaf_shape(shape->element[e], k);
    k -= n;
  }
  return NULL;
}

void hl_factors_start(HlArena *arena, const HlInst *inst, HlFactors *rule) {
  const int n = (int)inst->n_operands, n_results = (int)hl_shape_leaves(inst->shape);
  *rule = (HlFactors){.arena = arena, .n_operands = n, .n_results = n_results};
  rule->tensor = HL_ARRAY(arena, HlTensorFactors, n + n_results + 1);
  for (int k = 0; k < n; k++)
    set_tensor(rule, k, inst->operands[k]->shape);
  for (int k = 0; k < n_results; k++)
    set_tensor(rule, n + k, hl_leaf_shape(inst->shape, k));
}

void hl_factors_same(HlArena *arena, const HlShape *shape, int n, int n_results, HlFactors *rule) {
  *rule = (HlFactors){.arena = arena, .n_operands = n - n_results, .n_results = n_results};
  rule->tensor = HL_ARRAY(arena, HlTensorFactors, n + 1);
  for (int k = 0; k < n; k++)
    set_tensor(rule, k, shape);
  for (int d = 0; d < shape->rank; d++) {
    const int factor = dims_passed(rule, shape->dim[d]);
    for (int k = 0; k < n; k++)
      hl_factors_put(rule, k, d, factor);
  }
}

// --- Elementwise and what moves dimensions ------------------------------------------------------------

bool hl_factors_like_result(const HlInst *inst, HlFactors *rule) {
  const HlShape *shape = hl_leaf_shape(inst->shape, 0);
  if (!shape || !hl_shape_is_array(shape))
    return false;
  for (int d = 0; d < shape->rank; d++) {
    const int factor = dims_passed(rule, shape->dim[d]);
    for (int k = 0; k < rule->n_operands + rule->n_results; k++)
      if (dims_rank(rule, k) == shape->rank)
        hl_factors_put(rule, k, d, factor);
  }
  return true;
}

bool dims_pointwise(const HlInst *inst, HlFactors *rule) {
  return hl_shape_is_array(inst->shape) && hl_factors_like_result(inst, rule);
}

bool dims_broadcast(const HlInst *inst, HlFactors *rule) {
  const HlI64s dims = hl_dims(inst);
  for (int d = 0; d < inst->shape->rank; d++) {
    const int factor = dims_passed(rule, inst->shape->dim[d]), from = hl_i64s_find(dims, d);
    hl_factors_put(rule, 1, d, factor);
    if (from >= 0)
      hl_factors_put(rule, 0, from, factor);
  }
  return true;
}

bool dims_transpose(const HlInst *inst, HlFactors *rule) {
  const HlI64s dims = hl_dims(inst);
  for (int d = 0; d < inst->shape->rank; d++) {
    const int factor = dims_passed(rule, inst->shape->dim[d]);
    hl_factors_put(rule, 0, dims.at[d], factor);
    hl_factors_put(rule, 1, d, factor);
  }
  return true;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

// A shape with its dimensions from major to minor.
typedef struct Order {
  const HlShape *shape;
  const int64_t *minor_to_major;  // NULL: as they are numbered
} Order;

static int dim_at(const Order *o, int k) {
  return o->minor_to_major ? (int)o->minor_to_major[o->shape->rank - 1 - k] : k;
}

// Both shapes are taken apart from the major end as long as what is left of two dimensions has a common divisor.
static bool take_apart(HlFactors *rule, Order from, Order to) {
  int i = 0, j = 0, from_dim = 0, to_dim = 0;
  int64_t a = 1, b = 1;
  for (;;) {
    while (a == 1 && i < from.shape->rank)
      a = from.shape->dim[from_dim = dim_at(&from, i++)];
    while (b == 1 && j < to.shape->rank)
      b = to.shape->dim[to_dim = dim_at(&to, j++)];
    if (a == 1 || b == 1)
      return true;
    const int64_t common = gcd(a, b);
    if (common > 1) {
      const int factor = dims_passed(rule, common);
      hl_factors_put(rule, 0, from_dim, factor);
      hl_factors_put(rule, 1, to_dim, factor);
      a /= common;
      b /= common;
    } else {  // 6x4 as 4x6: from here to where both meet again nothing agrees
      hl_factors_put(rule, 0, from_dim, dims_passed(rule, a));
      hl_factors_put(rule, 1, to_dim, dims_passed(rule, b));
      while (a != b) {
        const bool left = a < b;
        const int dim = left ? dim_at(&from, i++) : dim_at(&to, j++);
        const int64_t size = (left ? from : to).shape->dim[dim];
        hl_factors_put(rule, left ? 0 : 1, dim, dims_passed(rule, size));
        *(left ? &a : &b) *= size;
      }
      a = b = 1;
    }
  }
}

static bool is_fixed(const HlShape *shape) {
  return hl_shape_is_array(shape) && hl_shape_elements(shape) > 0 && !hl_shape_is_dynamic(shape);
}

bool dims_reshape(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape;
  return is_fixed(from) && is_fixed(inst->shape) &&
         take_apart(rule, (Order){from, NULL}, (Order){inst->shape, NULL});
}

// A reshape of dimensions as they lie in memory; tiles are not looked into.
bool dims_bitcast(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  if (!is_fixed(from) || !is_fixed(to) || from->dtype != to->dtype ||
      (from->layout && from->layout->extra) || (to->layout && to->layout->extra))
    return false;
  return take_apart(rule, (Order){from, from->layout ? from->layout->minor_to_major.at : NULL},
                    (Order){to, to->layout ? to->layout->minor_to_major.at : NULL});
}

bool dims_bitcast_convert(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  for (int d = 0; d < from->rank && d < to->rank; d++) {
    if (from->dim[d] != to->dim[d])
      return false;
    const int factor = dims_passed(rule, to->dim[d]);
    hl_factors_put(rule, 0, d, factor);
    hl_factors_put(rule, 1, d, factor);
  }
  return true;
}

// Dimensions of operand 0 and the result by number, of different sizes, too: what is near goes together.
bool dims_window(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  for (int d = 0; d < from->rank; d++) {
    const int factor = dims_between(rule, from->dim[d], to->dim[d], HL_FACTOR_NEAR);
    hl_factors_put(rule, 0, d, factor);
    hl_factors_put(rule, rule->n_operands, d, factor);
  }
  return true;
}

// Same dimensions everywhere, of which these are not simply passed on.
static bool pointwise_but(const HlInst *inst, HlI64s dims, HlFactors *rule) {
  if (!hl_factors_like_result(inst, rule))
    return false;
  for (int k = 0; k < dims.n; k++)  // factors are numbered as dimensions are
    rule->factor[dims.at[k]].kind = HL_FACTOR_MIXED;
  return true;
}

bool dims_reverse(const HlInst *inst, HlFactors *rule) {
  return pointwise_but(inst, hl_dims(inst), rule);
}

bool dims_along(const HlInst *inst, HlFactors *rule) {
  const int64_t dim = hl_dim(inst);
  return pointwise_but(inst, (HlI64s){&dim, 1}, rule);
}

bool dims_dynamic_slice(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape;
  for (int d = 0; d < from->rank; d++) {
    const int factor = dims_passed(rule, from->dim[d]);
    hl_factors_put(rule, 0, d, factor);
    hl_factors_put(rule, rule->n_operands, d,
                   from->dim[d] == inst->shape->dim[d] ? factor
                                                       : dims_passed(rule, inst->shape->dim[d]));
  }
  return true;
}

bool dims_dynamic_update_slice(const HlInst *inst, HlFactors *rule) {
  const HlShape *update = inst->operands[1]->shape;
  for (int d = 0; d < update->rank; d++) {
    const int factor = dims_between(rule, inst->shape->dim[d], update->dim[d], HL_FACTOR_PASSED);
    hl_factors_put(rule, 0, d, factor);
    hl_factors_put(rule, rule->n_operands, d, factor);
    hl_factors_put(rule, 1, d,
                   update->dim[d] == inst->shape->dim[d] ? factor
                                                         : dims_passed(rule, update->dim[d]));
  }
  return true;
}

// All dimensions but those from `end` on go together.
bool hl_factors_leading(const HlInst *inst, int end, HlFactors *rule) {
  for (int k = 0; k < rule->n_operands + rule->n_results; k++)
    if (dims_rank(rule, k) >= 0 && dims_rank(rule, k) < end)
      return false;
  for (int d = 0; d < end; d++) {
    const int factor = dims_passed(rule, inst->operands[0]->shape->dim[d]);
    for (int k = 0; k < rule->n_operands + rule->n_results; k++)
      if (dims_rank(rule, k) >= end)
        hl_factors_put(rule, k, d, factor);
  }
  return end > 0;
}

// --- Sums ---------------------------------------------------------------------------------------------

bool dims_reduce(const HlInst *inst, HlFactors *rule) {
  const HlShape *shape = inst->operands[0]->shape;
  const HlI64s dims = hl_dims(inst);
  const int n = (int)inst->n_operands / 2;
  for (int d = 0, to = 0; d < shape->rank; d++) {
    const bool gone = hl_i64s_find(dims, d) >= 0;
    const int factor = gone ? dims_summed(rule, shape->dim[d]) : dims_passed(rule, shape->dim[d]);
    for (int k = 0; k < n; k++)
      hl_factors_put(rule, k, d, factor);
    if (gone)
      continue;
    for (int k = 0; k < rule->n_results; k++)
      hl_factors_put(rule, rule->n_operands + k, to, factor);
    to++;
  }
  return true;
}

bool dims_reduce_window(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = hl_leaf_shape(inst->shape, 0);
  const int n = (int)inst->n_operands / 2;
  for (int d = 0; d < from->rank; d++) {
    const int factor = dims_between(rule, from->dim[d], to->dim[d], HL_FACTOR_NEAR);
    for (int k = 0; k < n; k++)
      hl_factors_put(rule, k, d, factor);
    for (int k = 0; k < rule->n_results; k++)
      hl_factors_put(rule, rule->n_operands + k, d, factor);
  }
  return true;
}

bool dims_select_and_scatter(const HlInst *inst, HlFactors *rule) {
  for (int d = 0; d < inst->shape->rank; d++) {
    const int64_t size = inst->shape->dim[d], source = inst->operands[1]->shape->dim[d];
    const int factor = dims_between(rule, size, source, HL_FACTOR_NEAR);
    hl_factors_put(rule, 0, d, factor);
    hl_factors_put(rule, 1, d, size == source ? factor : dims_passed(rule, source));
    hl_factors_put(rule, 3, d, factor);
  }
  return true;
}

bool dims_batch_norm(const HlInst *inst, HlFactors *rule) {
  const HlShape *shape = inst->operands[0]->shape;
  const int64_t feature = hl_attr_int(inst, HL_A_FEATURE_INDEX);
  const bool by_element =
      inst->op == HL_OP_BATCH_NORM_INFERENCE;  // the others take means over the batch
  for (int d = 0; d < shape->rank; d++) {
    const int factor = d == feature || by_element ? dims_passed(rule, shape->dim[d])
                                                  : dims_mixed(rule, shape->dim[d]);
    for (int k = 0; k < rule->n_operands + rule->n_results; k++) {
      if (dims_rank(rule, k) == shape->rank && shape->rank > 1)
        hl_factors_put(rule, k, d, factor);
      else if (dims_rank(rule, k) == 1 && (d == feature || shape->rank == 1))
        hl_factors_put(rule, k, 0, factor);
    }
  }
  return true;
}

// --- Gather and scatter ----------------------------------------------------------------------------------

static bool has(HlI64s list, int64_t value) {
  return hl_i64s_find(list, value) >= 0;
}

bool dims_gather(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *index = inst->operands[1]->shape;
  const HlI64s offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS);
  const HlI64s collapsed = hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS);
  const HlI64s batch = hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS);
  const HlI64s of_index = hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS);
  const HlI64s sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES);
  const int64_t vector = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  for (int d = 0, to = 0; d < inst->shape->rank; d++) {  // the index's dimensions
    if (has(offset, d))
      continue;
    to += to == vector;
    const int factor = dims_passed(rule, inst->shape->dim[d]);
    hl_factors_put(rule, 1, to, factor);
    hl_factors_put(rule, 2, d, factor);
    const int k = hl_i64s_find(of_index, to);
    if (k >= 0)
      hl_factors_put(rule, 0, batch.at[k], factor);
    to++;
  }
  if (vector < index->rank)
    hl_factors_put(rule, 1, vector, dims_passed(rule, index->dim[vector]));
  for (int d = 0, k = 0; d < from->rank; d++) {  // the window's
    if (has(batch, d))
      continue;
    const int factor = dims_passed(rule, from->dim[d]);
    hl_factors_put(rule, 0, d, factor);
    if (has(collapsed, d))
      continue;
    hl_factors_put(rule, 2, offset.at[k++],
                   sizes.at[d] == from->dim[d] ? factor : dims_passed(rule, sizes.at[d]));
  }
  return true;
}

bool dims_scatter(const HlInst *inst, HlFactors *rule) {
  const int n = ((int)inst->n_operands - 1) / 2;  // inputs, index, updates
  const HlShape *from = inst->operands[0]->shape, *index = inst->operands[n]->shape;
  const HlShape *update = inst->operands[n + 1]->shape;
  const HlI64s window = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS);
  const HlI64s inserted = hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS);
  const HlI64s batch = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS);
  const HlI64s of_index = hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS);
  const int64_t vector = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  const int results = rule->n_operands;
  int *factor_of = HL_ARRAY(rule->arena, int, from->rank + 1);
  for (int d = 0; d < from->rank; d++) {
    factor_of[d] = dims_passed(rule, from->dim[d]);
    for (int k = 0; k < n; k++) {
      hl_factors_put(rule, k, d, factor_of[d]);
      hl_factors_put(rule, results + k, d, factor_of[d]);
    }
  }
  for (int d = 0, to = 0; d < update->rank; d++) {
    if (has(window, d))
      continue;
    to += to == vector;
    const int b = hl_i64s_find(of_index, to);
    const int factor = b >= 0 ? factor_of[batch.at[b]] : dims_summed(rule, update->dim[d]);
    hl_factors_put(rule, n, to++, factor);
    for (int k = 0; k < n; k++)
      hl_factors_put(rule, n + 1 + k, d, factor);
  }
  if (vector < index->rank)
    hl_factors_put(rule, n, vector, dims_passed(rule, index->dim[vector]));
  for (int d = 0, w = 0; d < from->rank; d++) {
    if (has(batch, d) || has(inserted, d))
      continue;
    const int64_t to = window.at[w++];
    const int factor =
        update->dim[to] == from->dim[d] ? factor_of[d] : dims_passed(rule, update->dim[to]);
    for (int k = 0; k < n; k++)
      hl_factors_put(rule, n + 1 + k, to, factor);
  }
  return true;
}

// --- What is left whole before the last dimensions -------------------------------------------------------

bool dims_topk(const HlInst *inst, HlFactors *rule) {
  return hl_factors_leading(inst, inst->operands[0]->shape->rank - 1, rule);
}

// What is transformed is of the whole dimension; of real values and back the last one changes its length.
bool dims_fft(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  const int end = to->rank - hl_attr_ints(inst, HL_A_FFT_LENGTH).n;
  bool any = hl_factors_leading(inst, end, rule);
  for (int d = end < 0 ? 0 : end; d < to->rank && d < from->rank; d++) {
    if (from->dim[d] != to->dim[d])
      continue;
    const int factor = dims_mixed(rule, to->dim[d]);
    hl_factors_put(rule, 0, d, factor);
    hl_factors_put(rule, 1, d, factor);
    any = true;
  }
  return any;
}

bool dims_matrices(const HlInst *inst, HlFactors *rule) {
  return hl_factors_leading(inst, inst->shape->rank - 2, rule);
}

// Only the dimension that is walked along is known of: what is carried reaches every place behind it.
bool dims_scan(const HlInst *inst, HlFactors *rule) {
  const int64_t d = hl_dim(inst), n_carries = hl_attr_int(inst, HL_A_NUM_CARRIES);
  int factor = -1;
  for (int k = 0; k < rule->n_operands + rule->n_results; k++) {
    const bool result = k >= rule->n_operands;
    const int64_t n = (result ? rule->n_results : rule->n_operands) - n_carries;
    if ((result ? k - rule->n_operands : k) >= n || dims_rank(rule, k) <= d)
      continue;
    if (factor < 0)
      factor = dims_mixed(rule, (result ? hl_leaf_shape(inst->shape, k - rule->n_operands)
                                        : inst->operands[k]->shape)
                                    ->dim[d]);
    hl_factors_put(rule, k, d, factor);
  }
  return factor >= 0;
}

// --- All ops -----------------------------------------------------------------------------------------------

bool dims_none(const HlInst *inst, HlFactors *rule) {
  return false;
}

static DimsFn *const rule_of[HL_OP_COUNT] = {
#define OP(id, text, in, traits, shape, dims, ...) [HL_OP_##id] = dims_##dims,
#include "hilo/ops.def"
};

bool hl_factors_of(HlArena *arena, const HlInst *inst, HlFactors *rule) {
  hl_factors_start(arena, inst, rule);
  return rule_of[inst->op](inst, rule);
}
