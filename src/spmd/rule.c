// The rules of all ops: dimensions by factors.
#include "spmd/rule.h"

#include <stdlib.h>
#include <string.h>

// --- Writing rules -----------------------------------------------------------------------------------

static int new_factor(SpRule *rule, int64_t size) {
  if (rule->n_factors == rule->capacity) {
    const int capacity = rule->capacity ? 2 * rule->capacity : 8;
    int64_t *sizes = HL_ARRAY(rule->arena, int64_t, capacity);
    bool *special = HL_ARRAY(rule->arena, bool, capacity);
    if (rule->n_factors > 0) {
      memcpy(sizes, rule->size, (size_t)rule->n_factors * sizeof *sizes);
      memcpy(special, rule->special, (size_t)rule->n_factors * sizeof *special);
    }
    rule->size = sizes;
    rule->special = special;
    rule->capacity = capacity;
  }
  rule->size[rule->n_factors] = size;
  return rule->n_factors++;
}

static int new_special(SpRule *rule, int64_t size) {
  const int factor = new_factor(rule, size);
  rule->special[factor] = true;
  return factor;
}

// Of two sizes that go together: special when they differ.
static int new_between(SpRule *rule, int64_t a, int64_t b) {
  return a == b ? new_factor(rule, a) : new_special(rule, a > b ? a : b);
}

// Appends the factor to a dimension of a tensor.
static void put(SpRule *rule, int tensor, int64_t dim, int factor) {
  SpFactors *list = &rule->tensor[tensor].dim[dim];
  int *at = HL_ARRAY(rule->arena, int, list->n + 1);
  if (list->n > 0)
    memcpy(at, list->at, (size_t)list->n * sizeof *at);
  at[list->n] = factor;
  *list = (SpFactors){list->n + 1, at};
}

static int rank_of(const SpRule *rule, int tensor) {
  return rule->tensor[tensor].rank;
}

static void set_tensor(SpRule *rule, int tensor, const HlShape *shape) {
  const bool array = shape && hl_shape_is_array(shape);
  rule->tensor[tensor] = (SpTensor){array ? shape->rank : -1, NULL};
  if (array)
    rule->tensor[tensor].dim = HL_ARRAY(rule->arena, SpFactors, shape->rank + 1);
}

const HlShape *sp_leaf_shape(const HlShape *shape, int64_t k) {
  if (!hl_shape_is_tuple(shape))
    return k == 0 ? shape : NULL;
  for (int e = 0; e < shape->rank; e++) {
    const int64_t n = hl_shape_is_tuple(shape->element[e]) ? hl_shape_leaves(shape->element[e]) : 1;
    if (k < n)
      return sp_leaf_shape(shape->element[e], k);
    k -= n;
  }
  return NULL;
}

static void start(HlArena *arena, const HlInst *inst, SpRule *rule) {
  const int n = (int)inst->n_operands, n_results = (int)hl_shape_leaves(inst->shape);
  *rule = (SpRule){.arena = arena, .n_operands = n, .n_results = n_results};
  rule->tensor = HL_ARRAY(arena, SpTensor, n + n_results + 1);
  for (int k = 0; k < n; k++)
    set_tensor(rule, k, inst->operands[k]->shape);
  for (int k = 0; k < n_results; k++)
    set_tensor(rule, n + k, sp_leaf_shape(inst->shape, k));
}

void sp_rule_identity(HlArena *arena, const HlShape *shape, int n, int n_results, SpRule *rule) {
  *rule = (SpRule){.arena = arena, .n_operands = n - n_results, .n_results = n_results};
  rule->tensor = HL_ARRAY(arena, SpTensor, n + 1);
  for (int k = 0; k < n; k++)
    set_tensor(rule, k, shape);
  for (int d = 0; d < shape->rank; d++) {
    const int factor = new_factor(rule, shape->dim[d]);
    for (int k = 0; k < n; k++)
      put(rule, k, d, factor);
  }
}

// --- Elementwise and what moves dimensions ------------------------------------------------------------

// All tensors of the rank of the first result have its dimensions; scalars beside them have none.
static bool pointwise(const HlInst *inst, SpRule *rule) {
  const HlShape *shape = sp_leaf_shape(inst->shape, 0);
  if (!shape)
    return false;
  for (int d = 0; d < shape->rank; d++) {
    const int factor = new_factor(rule, shape->dim[d]);
    for (int k = 0; k < rule->n_operands + rule->n_results; k++)
      if (rank_of(rule, k) == shape->rank)
        put(rule, k, d, factor);
  }
  return true;
}

static bool broadcast(const HlInst *inst, SpRule *rule) {
  const HlI64s dims = hl_dims(inst);
  for (int d = 0; d < inst->shape->rank; d++) {
    const int factor = new_factor(rule, inst->shape->dim[d]), from = hl_i64s_find(dims, d);
    put(rule, 1, d, factor);
    if (from >= 0)
      put(rule, 0, from, factor);
  }
  return true;
}

static bool transpose(const HlInst *inst, SpRule *rule) {
  const HlI64s dims = hl_dims(inst);
  for (int d = 0; d < inst->shape->rank; d++) {
    const int factor = new_factor(rule, inst->shape->dim[d]);
    put(rule, 0, dims.at[d], factor);
    put(rule, 1, d, factor);
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

// Both shapes are taken apart from the major end as long as what is left of two dimensions has a common divisor.
static bool reshape(const HlInst *inst, SpRule *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  int i = 0, j = 0;
  int64_t a = 1, b = 1;
  if (hl_shape_elements(to) == 0 || hl_shape_is_dynamic(from) || hl_shape_is_dynamic(to))
    return false;
  for (;;) {
    while (a == 1 && i < from->rank)
      a = from->dim[i++];
    while (b == 1 && j < to->rank)
      b = to->dim[j++];
    if (a == 1 || b == 1)
      return true;
    const int64_t common = gcd(a, b);
    if (common > 1) {
      const int factor = new_factor(rule, common);
      put(rule, 0, i - 1, factor);
      put(rule, 1, j - 1, factor);
      a /= common;
      b /= common;
    } else {  // 6x4 as 4x6: from here to where both meet again nothing agrees
      put(rule, 0, i - 1, new_factor(rule, a));
      put(rule, 1, j - 1, new_factor(rule, b));
      while (a != b)
        if (a < b) {
          put(rule, 0, i, new_factor(rule, from->dim[i]));
          a *= from->dim[i++];
        } else {
          put(rule, 1, j, new_factor(rule, to->dim[j]));
          b *= to->dim[j++];
        }
      a = b = 1;
    }
  }
}

static bool bitcast_convert(const HlInst *inst, SpRule *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  for (int d = 0; d < from->rank && d < to->rank; d++) {
    if (from->dim[d] != to->dim[d])
      return false;
    const int factor = new_factor(rule, to->dim[d]);
    put(rule, 0, d, factor);
    put(rule, 1, d, factor);
  }
  return true;
}

// Dimensions of operand 0 and the result (or the two tensors named) by number, of different sizes, too: the
// partitioner exchanges what lies across the borders.
static void same_dims(const HlShape *a, const HlShape *b, int at_a, int at_b, SpRule *rule) {
  for (int d = 0; d < a->rank; d++) {
    const int factor = new_between(rule, a->dim[d], b->dim[d]);
    put(rule, at_a, d, factor);
    put(rule, at_b, d, factor);
  }
}

static bool window_like(const HlInst *inst, SpRule *rule) {
  same_dims(inst->operands[0]->shape, inst->shape, 0, rule->n_operands, rule);
  return true;
}

// Same dimensions everywhere, of which these are not simply passed on.
static bool pointwise_but(const HlInst *inst, HlI64s dims, SpRule *rule) {
  if (!pointwise(inst, rule))
    return false;
  for (int k = 0; k < dims.n; k++)  // factors are numbered as dimensions are
    rule->special[dims.at[k]] = true;
  return true;
}

static bool dynamic_slice(const HlInst *inst, SpRule *rule) {
  const HlShape *from = inst->operands[0]->shape;
  for (int d = 0; d < from->rank; d++) {
    const int factor = new_factor(rule, from->dim[d]);
    put(rule, 0, d, factor);
    put(rule, rule->n_operands, d,
        from->dim[d] == inst->shape->dim[d] ? factor : new_factor(rule, inst->shape->dim[d]));
  }
  return true;
}

static bool dynamic_update_slice(const HlInst *inst, SpRule *rule) {
  const HlShape *update = inst->operands[1]->shape;
  for (int d = 0; d < update->rank; d++) {
    const int factor = new_between(rule, inst->shape->dim[d], update->dim[d]);
    put(rule, 0, d, factor);
    put(rule, rule->n_operands, d, factor);
    put(rule, 1, d,
        update->dim[d] == inst->shape->dim[d] ? factor : new_factor(rule, update->dim[d]));
  }
  return true;
}

// All dimensions but those from `end` on go together.
static bool leading(const HlInst *inst, int end, SpRule *rule) {
  for (int k = 0; k < rule->n_operands + rule->n_results; k++)
    if (rank_of(rule, k) >= 0 && rank_of(rule, k) < end)
      return false;
  for (int d = 0; d < end; d++) {
    const int factor = new_factor(rule, inst->operands[0]->shape->dim[d]);
    for (int k = 0; k < rule->n_operands + rule->n_results; k++)
      if (rank_of(rule, k) >= end)
        put(rule, k, d, factor);
  }
  return end > 0;
}

// --- Sums ---------------------------------------------------------------------------------------------

static bool reduce(const HlInst *inst, SpRule *rule) {
  const HlShape *shape = inst->operands[0]->shape;
  const HlI64s dims = hl_dims(inst);
  const int n = (int)inst->n_operands / 2;
  for (int d = 0, to = 0; d < shape->rank; d++) {
    const bool gone = hl_i64s_find(dims, d) >= 0;
    const int factor = gone ? new_special(rule, shape->dim[d]) : new_factor(rule, shape->dim[d]);
    for (int k = 0; k < n; k++)
      put(rule, k, d, factor);
    if (gone)
      continue;
    for (int k = 0; k < rule->n_results; k++)
      put(rule, rule->n_operands + k, to, factor);
    to++;
  }
  return true;
}

static bool reduce_window(const HlInst *inst, SpRule *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = sp_leaf_shape(inst->shape, 0);
  const int n = (int)inst->n_operands / 2;
  for (int d = 0; d < from->rank; d++) {
    const int factor = new_between(rule, from->dim[d], to->dim[d]);
    for (int k = 0; k < n; k++)
      put(rule, k, d, factor);
    for (int k = 0; k < rule->n_results; k++)
      put(rule, rule->n_operands + k, d, factor);
  }
  return true;
}

static bool select_and_scatter(const HlInst *inst, SpRule *rule) {
  for (int d = 0; d < inst->shape->rank; d++) {
    const int64_t size = inst->shape->dim[d], source = inst->operands[1]->shape->dim[d];
    const int factor = new_between(rule, size, source);
    put(rule, 0, d, factor);
    put(rule, 1, d, size == source ? factor : new_factor(rule, source));
    put(rule, 3, d, factor);
  }
  return true;
}

static bool dot(const HlInst *inst, SpRule *rule) {
  const HlShape *lhs = inst->operands[0]->shape, *rhs = inst->operands[1]->shape;
  const HlI64s lb = hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS);
  const HlI64s rb = hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS);
  const HlI64s lc = hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS);
  const HlI64s rc = hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS);
  int to = 0;
  for (int k = 0; k < lb.n; k++, to++) {
    const int factor = new_factor(rule, lhs->dim[lb.at[k]]);
    put(rule, 0, lb.at[k], factor);
    put(rule, 1, rb.at[k], factor);
    put(rule, 2, to, factor);
  }
  for (int side = 0; side < 2; side++) {
    const HlShape *shape = side ? rhs : lhs;
    for (int d = 0; d < shape->rank; d++) {
      if (hl_i64s_find(side ? rb : lb, d) >= 0 || hl_i64s_find(side ? rc : lc, d) >= 0)
        continue;
      const int factor = new_factor(rule, shape->dim[d]);
      put(rule, side, d, factor);
      put(rule, 2, to++, factor);
    }
  }
  for (int k = 0; k < lc.n; k++) {
    const int factor = new_special(rule, lhs->dim[lc.at[k]]);
    put(rule, 0, lc.at[k], factor);
    put(rule, 1, rc.at[k], factor);
  }
  return true;
}

// Groups are a factor of their own before the channels: they run along the features (or, in groups of the batch, along
// the batch) of the input, and along the output features of kernel and result.
static bool convolution(const HlInst *inst, SpRule *rule) {
  const HlDimLabels *at = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlShape *w = inst->operands[1]->shape, *y = inst->shape;
  const int64_t groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT);
  const int64_t batches = hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT);
  if (!at || (groups > 1 && batches > 1))
    return false;
  const int64_t n_groups = groups > 1 ? groups : batches;
  if (n_groups > 1) {
    const int group = new_factor(rule, n_groups);
    put(rule, 0, groups > 1 ? at->input_feature : at->input_batch, group);
    put(rule, 1, at->kernel_output, group);
    put(rule, 2, at->output_feature, group);
  }
  const int batch = new_factor(rule, y->dim[at->output_batch]);
  put(rule, 0, at->input_batch, batch);
  put(rule, 2, at->output_batch, batch);
  for (int k = 0; k < at->input_spatial.n; k++) {
    const int64_t out = y->dim[at->output_spatial.at[k]];
    const int space = new_special(rule, out);
    put(rule, 0, at->input_spatial.at[k], space);
    put(rule, 2, at->output_spatial.at[k], space);
  }
  const int output = new_factor(rule, w->dim[at->kernel_output] / n_groups);
  put(rule, 1, at->kernel_output, output);
  put(rule, 2, at->output_feature, output);
  const int input = new_special(rule, w->dim[at->kernel_input]);
  put(rule, 0, at->input_feature, input);
  put(rule, 1, at->kernel_input, input);
  return true;
}

static bool batch_norm(const HlInst *inst, SpRule *rule) {
  const HlShape *shape = inst->operands[0]->shape;
  const int64_t feature = hl_attr_int(inst, HL_A_FEATURE_INDEX);
  for (int d = 0; d < shape->rank; d++) {
    const int factor = new_factor(rule, shape->dim[d]);
    for (int k = 0; k < rule->n_operands + rule->n_results; k++) {
      if (rank_of(rule, k) == shape->rank && shape->rank > 1)
        put(rule, k, d, factor);
      else if (rank_of(rule, k) == 1 && (d == feature || shape->rank == 1))
        put(rule, k, 0, factor);
    }
  }
  return true;
}

// --- Gather and scatter ----------------------------------------------------------------------------------

static bool has(HlI64s list, int64_t value) {
  return hl_i64s_find(list, value) >= 0;
}

static bool gather(const HlInst *inst, SpRule *rule) {
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
    const int factor = new_factor(rule, inst->shape->dim[d]);
    put(rule, 1, to, factor);
    put(rule, 2, d, factor);
    const int k = hl_i64s_find(of_index, to);
    if (k >= 0)
      put(rule, 0, batch.at[k], factor);
    to++;
  }
  if (vector < index->rank)
    put(rule, 1, vector, new_factor(rule, index->dim[vector]));
  for (int d = 0, k = 0; d < from->rank; d++) {  // the window's
    if (has(batch, d))
      continue;
    const int factor = new_factor(rule, from->dim[d]);
    put(rule, 0, d, factor);
    if (has(collapsed, d))
      continue;
    put(rule, 2, offset.at[k++],
        sizes.at[d] == from->dim[d] ? factor : new_factor(rule, sizes.at[d]));
  }
  return true;
}

static bool scatter(const HlInst *inst, SpRule *rule) {
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
    factor_of[d] = new_factor(rule, from->dim[d]);
    for (int k = 0; k < n; k++) {
      put(rule, k, d, factor_of[d]);
      put(rule, results + k, d, factor_of[d]);
    }
  }
  for (int d = 0, to = 0; d < update->rank; d++) {
    if (has(window, d))
      continue;
    to += to == vector;
    const int b = hl_i64s_find(of_index, to);
    const int factor = b >= 0 ? factor_of[batch.at[b]] : new_special(rule, update->dim[d]);
    put(rule, n, to++, factor);
    for (int k = 0; k < n; k++)
      put(rule, n + 1 + k, d, factor);
  }
  if (vector < index->rank)
    put(rule, n, vector, new_factor(rule, index->dim[vector]));
  for (int d = 0, w = 0; d < from->rank; d++) {
    if (has(batch, d) || has(inserted, d))
      continue;
    const int64_t to = window.at[w++];
    const int factor =
        update->dim[to] == from->dim[d] ? factor_of[d] : new_factor(rule, update->dim[to]);
    for (int k = 0; k < n; k++)
      put(rule, n + 1 + k, to, factor);
  }
  return true;
}

// --- All ops ------------------------------------------------------------------------------------------------

static bool custom_call(const HlInst *inst, SpRule *rule) {
  static const char *const same[] = {"Sharding",
                                     "xla.sdy.FuncResultSharding",
                                     "annotate_device_placement",
                                     "MoveToHost",
                                     "MoveToDevice",
                                     "X64Combine",
                                     "ShardBarrierFrom",
                                     "ShardBarrierTo",
                                     "xla.sdy.PropagationBarrier"};
  const char *target = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, "xla.sdy.sharding_rule") == 0)
      return sp_rule_read(dict->value[k]->text, rule);
  for (int k = 0; dict && k < dict->n; k++)  // a call for each matrix of a batch
    if (strcmp(dict->key[k]->text, "num_batch_dims") == 0 && inst->n_operands > 0)
      return leading(inst, atoi(dict->value[k]->text), rule);
  for (int k = 0; k < HL_COUNT_OF(same); k++)
    if (strcmp(target, same[k]) == 0 && inst->n_operands >= 1 && hl_shape_is_array(inst->shape) &&
        inst->operands[0]->shape->rank == inst->shape->rank)
      return pointwise(inst, rule);
  if (strcmp(target, "TopK") == 0 && inst->operands[0]->shape->rank > 0)
    return leading(inst, inst->operands[0]->shape->rank - 1, rule);
  return false;
}

bool sp_rule_of(HlArena *arena, const HlInst *inst, SpRule *rule) {
  start(arena, inst, rule);
  rule->elementwise = hl_op_info[inst->op].traits & HL_T_ELEMENTWISE || inst->op == HL_OP_MAP;
  if (rule->elementwise)
    return pointwise(inst, rule);
  switch ((HlOp)inst->op) {
  case HL_OP_COPY: return pointwise(inst, rule);
  case HL_OP_SET_DIMENSION_SIZE:
  case HL_OP_ADD_DEPENDENCY: return hl_shape_is_array(inst->shape) && pointwise(inst, rule);
  case HL_OP_BITCAST_CONVERT: return bitcast_convert(inst, rule);
  case HL_OP_BROADCAST: return broadcast(inst, rule);
  case HL_OP_TRANSPOSE: return transpose(inst, rule);
  case HL_OP_RESHAPE: return reshape(inst, rule);
  case HL_OP_REVERSE: return pointwise_but(inst, hl_dims(inst), rule);
  case HL_OP_SLICE:
  case HL_OP_PAD: return window_like(inst, rule);
  case HL_OP_SORT:
  case HL_OP_CONCATENATE: {
    const int64_t dim = hl_dim(inst);
    return pointwise_but(inst, (HlI64s){&dim, 1}, rule);
  }
  case HL_OP_DYNAMIC_SLICE: return dynamic_slice(inst, rule);
  case HL_OP_DYNAMIC_UPDATE_SLICE: return dynamic_update_slice(inst, rule);
  case HL_OP_TOPK: return leading(inst, inst->operands[0]->shape->rank - 1, rule);
  case HL_OP_REDUCE: return reduce(inst, rule);
  case HL_OP_REDUCE_WINDOW: return reduce_window(inst, rule);
  case HL_OP_SELECT_AND_SCATTER: return select_and_scatter(inst, rule);
  case HL_OP_DOT: return dot(inst, rule);
  case HL_OP_CONVOLUTION: return convolution(inst, rule);
  case HL_OP_BATCH_NORM_TRAINING:
  case HL_OP_BATCH_NORM_INFERENCE:
  case HL_OP_BATCH_NORM_GRAD: return batch_norm(inst, rule);
  case HL_OP_GATHER: return gather(inst, rule);
  case HL_OP_SCATTER: return scatter(inst, rule);
  case HL_OP_FFT:
    return leading(inst, inst->shape->rank - hl_attr_ints(inst, HL_A_FFT_LENGTH).n, rule);
  case HL_OP_CHOLESKY:
  case HL_OP_TRIANGULAR_SOLVE: return leading(inst, inst->shape->rank - 2, rule);
  case HL_OP_CUSTOM_CALL: return custom_call(inst, rule);
  default: return false;
  }
}

// --- Rules as Shardy spells them ------------------------------------------------------------------------------

static void skip_spaces(const char **at) {
  while (**at == ' ')
    (*at)++;
}

static bool eat(const char **at, char c) {
  skip_spaces(at);
  if (**at != c)
    return false;
  (*at)++;
  return true;
}

// A factor's name: i ... z, then z_1, z_2, ...
static int read_factor(const char **at, SpRule *rule) {
  skip_spaces(at);
  if (**at < 'i' || **at > 'z')
    return -1;
  long number = *(*at)++ - 'i';
  if (**at == '_') {
    char *end;
    number += strtol(*at + 1, &end, 10);
    *at = end;
  }
  if (number > 1000)
    return -1;
  while (rule->n_factors <= number)
    new_factor(rule, 1);
  return (int)number;
}

// ([i, jk], [*]) of n tensors from the first on.
static bool read_tensors(const char **at, SpRule *rule, int first, int n) {
  if (!eat(at, '('))
    return false;
  for (int k = first; k < first + n; k++) {
    if ((k > first && !eat(at, ',')) || !eat(at, '['))
      return false;
    for (int d = 0; !eat(at, ']'); d++) {
      if ((d > 0 && !eat(at, ',')) || d >= rank_of(rule, k))
        return false;
      if (eat(at, '*'))
        continue;
      for (int factor; (factor = read_factor(at, rule)) >= 0;)
        put(rule, k, d, factor);
    }
  }
  return eat(at, ')');
}

// Factors of the list pass nothing: their tensors get factors of their own.
static bool read_sizes(const char **at, SpRule *rule) {
  if (!eat(at, '{'))
    return false;
  while (!eat(at, '}')) {
    const int factor = read_factor(at, rule);
    if (factor < 0 || !eat(at, '='))
      return false;
    char *end;
    skip_spaces(at);
    rule->size[factor] = strtoll(*at, &end, 10);
    *at = end;
    eat(at, ',');
  }
  return true;
}

static void block(SpRule *rule, int factor) {
  for (int k = 0; k < rule->n_operands + rule->n_results; k++)
    for (int d = 0; d < rank_of(rule, k); d++) {
      const SpFactors *list = &rule->tensor[k].dim[d];
      int *at = HL_ARRAY(rule->arena, int, list->n + 1);
      for (int f = 0; f < list->n; f++)
        at[f] = list->at[f] == factor ? new_factor(rule, rule->size[factor]) : list->at[f];
      rule->tensor[k].dim[d] = (SpFactors){list->n, at};
    }
}

bool sp_rule_read(const char *text, SpRule *rule) {
  const char *at = strchr(text, '<');
  if (!at)
    return false;
  at++;
  if (!read_tensors(&at, rule, 0, rule->n_operands) || !eat(&at, '-') || !eat(&at, '>') ||
      !read_tensors(&at, rule, rule->n_operands, rule->n_results) || !read_sizes(&at, rule))
    return false;
  static const char *const special[] = {"reduction={", "need_replication={", "permutation={",
                                        "blocked_propagation={"};
  for (int k = 0; k < HL_COUNT_OF(special); k++) {
    const char *list = strstr(at, special[k]);
    if (!list)
      continue;
    list += strlen(special[k]);
    for (int factor; (factor = read_factor(&list, rule)) >= 0; eat(&list, ',')) {
      rule->special[factor] = true;
      if (special[k][0] == 'b')
        block(rule, factor);
    }
  }
  return true;
}
