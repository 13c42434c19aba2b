// Verifies MLIR trees: reductions and their regions, scatters, sorts, maps, loops and branches.
#include "mlir/verify/verify.h"

const HlMlOp *mv_return(const HlMlBlock *block) {
  return block->last;
}

// --- Reduction regions --------------------------------------------------------------------------

static bool are_floats(const HlMlType *a, const HlMlType *b) {
  return a->kind == HL_ML_FLOAT && b->kind == HL_ML_FLOAT;
}

// Compatible shapes; element types equal, or floats of any precision.
static bool is_like(const HlMlType *a, const HlMlType *b) {
  const HlMlType *x = hl_ml_element(a), *y = hl_ml_element(b);
  return mv_shapes_agree(a, b) && mv_is_shaped(a) && (x == y || are_floats(x, y));
}

// Whether elements of one type can be accumulated in another: of the same kind, and as wide; floats
// of any width.
static bool is_promotable(const HlMlType *from, const HlMlType *to) {
  from = hl_ml_element(from);
  to = hl_ml_element(to);
  if (from->kind != to->kind)
    return false;
  switch (from->kind) {
  case HL_ML_FLOAT: return true;
  case HL_ML_INT:
  case HL_ML_COMPLEX: return mv_bits(from) <= mv_bits(to);
  case HL_ML_QUANT:
    return from->quant->expressed == to->quant->expressed && mv_bits(from) <= mv_bits(to);
  default: return false;
  }
}

static bool init_agrees(const MlFold *fold, int k, const HlMlType *type) {
  if (fold->init && fold->init[k])
    return mv_shapes_agree(fold->init[k], type);
  return mv_is_shaped(type) && (!mv_is_ranked(type) || type->rank == 0);
}

// The dimensions of an argument have, in order, sizes among the allowed.
static bool sizes_allowed(HlI64s allowed, const HlMlType *type) {
  int at = 0;
  for (int k = 0; k < allowed.n && at < type->rank; k++)
    at += mv_sizes_agree(allowed.at[k], type->dim[at]);
  return at == type->rank;
}

static bool check_folded(MlVerify *v, const HlMlOp *op, const HlMlBlock *body, const MlFold *fold,
                         int k) {
  const HlMlType *result = mv_in(mv_return(body), k);
  const HlMlType *element = fold->init && fold->init[k] ? fold->init[k] : fold->init_element[k];
  const int at[2] = {k, fold->n + k};
  if (!mv_is_shaped(result))
    return mv_bad(v, op, "its region should return tensors, but returns '%s'", mv_text(v, result));
  // An accumulator has the type it is returned as; what is folded into it may be a float of another
  // precision.
  for (int side = 0; side < 2; side++) {
    const HlMlType *arg = body->args[at[side]]->type;
    const bool is_same =
        side == 0 ? mv_shapes_agree(result, arg) && hl_ml_element(result) == hl_ml_element(arg)
                  : is_like(result, arg);
    if (!is_same)
      return mv_bad(v, op,
                    "parameter %d of its region has another type than result %d: '%s' vs '%s'",
                    at[side], k, mv_text(v, arg), mv_text(v, result));
  }
  if (!init_agrees(fold, k, result))
    return mv_bad(v, op, "result %d of its region, '%s', has another shape than the initial value",
                  k, mv_text(v, result));
  if (!is_promotable(element, result))
    return mv_bad(
        v, op,
        "the initial value's element type '%s' cannot be promoted to result %d of its region, '%s'",
        mv_text(v, hl_ml_element(element)), k, mv_text(v, result));
  const HlMlType *arg = body->args[fold->n + k]->type;
  if (!is_promotable(fold->input[k], arg))
    return mv_bad(
        v, op,
        "the input's element type '%s' cannot be promoted to parameter %d of its region, '%s'",
        mv_text(v, hl_ml_element(fold->input[k])), fold->n + k, mv_text(v, arg));
  if (arg->rank > fold->allowed.n)
    return mv_bad(v, op, "parameter %d of its region should have a rank of at most %d, but has %d",
                  fold->n + k, fold->allowed.n, arg->rank);
  if (!sizes_allowed(fold->allowed, arg))
    return mv_bad(v, op,
                  "the shape of parameter %d of its region does not agree with input %d: '%s'",
                  fold->n + k, k, mv_text(v, arg));
  return true;
}

bool mv_check_fold(MlVerify *v, const HlMlOp *op, const HlMlBlock *body, const MlFold *fold) {
  if (body->n_args != 2 * fold->n)
    return mv_bad(v, op, "its region should take %d parameters, but takes %d", 2 * fold->n,
                  body->n_args);
  const uint32_t given = mv_return(body)->n_operands;
  if (given != (uint32_t)fold->n)
    return mv_bad(v, op, "its region should return %d values, but returns %u", fold->n, given);
  for (int k = 0; k < fold->n; k++)
    if (!check_folded(v, op, body, fold, k))
      return false;
  return true;
}

bool mv_check_inputs_fold(MlVerify *v, const HlMlOp *op, int n, HlI64s allowed) {
  const HlMlType **input = HL_ARRAY(v->arena, const HlMlType *, 2 * n), **init = input + n;
  for (int k = 0; k < n; k++) {
    input[k] = mv_in(op, k);
    init[k] = mv_in(op, n + k);
  }
  const MlFold fold = {.n = n, .input = input, .init = init, .allowed = allowed};
  return mv_check_fold(v, op, hl_ml_body(op, 0), &fold);
}

const HlMlType *mv_accumulator(const HlMlBlock *body, int k, const HlMlType *otherwise) {
  const HlMlOp *end = mv_return(body);
  const HlMlType *type = (uint32_t)k < end->n_operands ? mv_in(end, k) : otherwise;
  return hl_ml_element(type);
}

// --- reduce -------------------------------------------------------------------------------------

static bool check_reduced(MlVerify *v, const HlMlOp *op, MlRange inputs, HlI64s dims) {
  const HlMlType *first = mv_in(op, 0);
  for (int k = 1; k < inputs.n; k++)
    if (!mv_shapes_agree(first, mv_in(op, k)))
      return mv_bad(v, op, "inputs 0 and %d have incompatible shapes: '%s' vs '%s'", k,
                    mv_text(v, first), mv_text(v, mv_in(op, k)));
  if (!mv_in_range(v, op, dims, first->rank, ML_A_DIMENSIONS, "the rank of the inputs"))
    return false;
  if (!mv_is_unique(v, dims))
    return mv_bad(v, op, "dimensions should not repeat, but are [%s]", mv_ints_text(v, dims));
  return true;
}

bool mv_rule_reduce(MlVerify *v, const HlMlOp *op) {
  const MlRange inputs = mv_operands(v, op, 0);
  const HlI64s dims = mv_attr_ints(v, op, ML_A_DIMENSIONS);
  if (inputs.n == 0)
    return mv_bad(v, op, "requires at least 1 input");
  if (!check_reduced(v, op, inputs, dims))
    return false;
  const HlMlType *first = mv_in(op, 0);
  const HlI64s bounds = hl_ml_bounds(first);
  MlShape shape = {.dim = HL_ARRAY(v->arena, int64_t, first->rank + 1)};
  if (bounds.n > 0)
    shape.bound = HL_ARRAY(v->arena, int64_t, first->rank + 1);
  const bool *is_reduced = mv_members(v, first->rank, dims, (HlI64s){0});
  for (int d = 0; d < first->rank; d++) {
    if (is_reduced[d])
      continue;
    shape.dim[shape.rank] = first->dim[d];
    if (shape.bound)
      shape.bound[shape.rank] = bounds.at[d];
    shape.rank++;
  }
  if (!mv_check_inputs_fold(v, op, inputs.n, (HlI64s){shape.dim, shape.rank}) ||
      !mv_has_results(v, op, inputs.n))
    return false;
  for (int k = 0; k < inputs.n; k++) {
    shape.element = mv_accumulator(hl_ml_body(op, 0), k, mv_in(op, k));
    if (!mv_result_is(v, op, k, &shape))
      return false;
  }
  return true;
}

// --- scatter ------------------------------------------------------------------------------------

typedef struct Scatter {
  HlI64s window, inserted, batch, indices_batch, to_operand;
  int64_t vector;
  MlRange inputs, updates;
  HlI64s indices;  // the shape of scatter_indices, with index_vector_dim
} Scatter;

static Scatter scatter_of(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_SCATTER_DIMENSION_NUMBERS);
  return (Scatter){.window = mv_field_ints(v, numbers, ML_A_UPDATE_WINDOW_DIMS),
                   .inserted = mv_field_ints(v, numbers, ML_A_INSERTED_WINDOW_DIMS),
                   .batch = mv_field_ints(v, numbers, ML_A_INPUT_BATCHING_DIMS),
                   .indices_batch = mv_field_ints(v, numbers, ML_A_SCATTER_INDICES_BATCHING_DIMS),
                   .to_operand = mv_field_ints(v, numbers, ML_A_SCATTER_DIMS_TO_OPERAND_DIMS),
                   .vector = ml_field_int(numbers, ML_A_INDEX_VECTOR_DIM, 0),
                   .inputs = mv_operands(v, op, 0),
                   .updates = mv_operands(v, op, 2)};
}

static bool range_agrees(MlVerify *v, const HlMlOp *op, MlRange range, const char *what) {
  for (int k = 1; k < range.n; k++)
    if (!mv_shapes_agree(mv_in(op, range.first), mv_in(op, range.first + k)))
      return mv_bad(v, op, "not all %s have compatible shapes: '%s' vs '%s'", what,
                    mv_text(v, mv_in(op, range.first)), mv_text(v, mv_in(op, range.first + k)));
  return true;
}

static bool check_indices(MlVerify *v, const HlMlOp *op, Scatter *s) {
  const HlMlType *indices = mv_in(op, s->inputs.n);
  if (s->vector < 0 || s->vector > indices->rank)
    return mv_bad(v, op,
                  "index_vector_dim %lld is not in the range [0, %d], the rank of scatter_indices",
                  (LL)s->vector, indices->rank);
  int64_t *dim = HL_ARRAY(v->arena, int64_t, indices->rank + 1);
  for (int k = 0; k < indices->rank; k++)
    dim[k] = indices->dim[k];
  dim[indices->rank] = 1;
  s->indices = (HlI64s){dim, indices->rank + (s->vector == indices->rank)};
  return true;
}

static bool check_scatter_region(MlVerify *v, const HlMlOp *op, const Scatter *s) {
  const int n = s->inputs.n;
  const HlMlType **input = HL_ARRAY(v->arena, const HlMlType *, 2 * n);
  const HlMlType **element = input + n;
  for (int k = 0; k < n; k++) {
    input[k] = mv_in(op, k);
    element[k] = hl_ml_element(mv_in(op, s->updates.first + k));
  }
  const MlFold fold = {.n = n, .input = input, .init_element = element};
  return mv_check_fold(v, op, hl_ml_body(op, 0), &fold);
}

static bool check_scatter_batch(MlVerify *v, const HlMlOp *op, const Scatter *s,
                                const HlMlType *operand) {
  if (hl_i64s_find(s->indices_batch, s->vector) >= 0)
    return mv_bad(v, op, "scatter_indices_batching_dims includes index_vector_dim %lld",
                  (LL)s->vector);
  if (s->batch.n != s->indices_batch.n)
    return mv_bad(
        v, op, "input_batching_dims and scatter_indices_batching_dims differ in length: %d vs %d",
        s->batch.n, s->indices_batch.n);
  for (int k = 0; k < s->batch.n; k++) {
    const int64_t a = operand->dim[s->batch.at[k]], b = s->indices.at[s->indices_batch.at[k]];
    if (!mv_sizes_agree(a, b))
      return mv_bad(
          v, op,
          "input_batching_dims[%d] and scatter_indices_batching_dims[%d] have sizes %lld and %lld",
          k, k, (LL)a, (LL)b);
  }
  return true;
}

static bool check_scatter_numbers(MlVerify *v, const HlMlOp *op, const Scatter *s,
                                  const HlMlType *operand, const HlMlType *update) {
  if (s->window.n + s->inserted.n + s->batch.n != operand->rank)
    return mv_bad(v, op,
                  "update_window_dims, inserted_window_dims and input_batching_dims have %d + %d + "
                  "%d entries, but "
                  "the operand has rank %d",
                  s->window.n, s->inserted.n, s->batch.n, operand->rank);
  if (!mv_check_sorted(v, op, s->window, ML_A_UPDATE_WINDOW_DIMS) ||
      !mv_check_unique(v, op, s->window, ML_A_UPDATE_WINDOW_DIMS) ||
      !mv_in_range(v, op, s->window, update->rank, ML_A_UPDATE_WINDOW_DIMS,
                   "the rank of the updates") ||
      !mv_distinct(v, op, s->inserted, s->batch, ML_A_INSERTED_WINDOW_DIMS,
                   ML_A_INPUT_BATCHING_DIMS) ||
      !mv_check_sorted(v, op, s->inserted, ML_A_INSERTED_WINDOW_DIMS) ||
      !mv_in_range(v, op, s->inserted, operand->rank, ML_A_INSERTED_WINDOW_DIMS,
                   "the operand's rank") ||
      !mv_check_sorted(v, op, s->batch, ML_A_INPUT_BATCHING_DIMS) ||
      !mv_in_range(v, op, s->batch, operand->rank, ML_A_INPUT_BATCHING_DIMS,
                   "the operand's rank") ||
      !mv_check_unique(v, op, s->indices_batch, ML_A_SCATTER_INDICES_BATCHING_DIMS) ||
      !mv_in_range(v, op, s->indices_batch, s->indices.n, ML_A_SCATTER_INDICES_BATCHING_DIMS,
                   "the rank of scatter_indices") ||
      !check_scatter_batch(v, op, s, operand))
    return false;
  if (!mv_sizes_agree(s->indices.at[s->vector], s->to_operand.n))
    return mv_bad(v, op,
                  "scatter_dims_to_operand_dims has %d entries, but dimension %lld of "
                  "scatter_indices has size %lld",
                  s->to_operand.n, (LL)s->vector, (LL)s->indices.at[s->vector]);
  return mv_distinct(v, op, s->to_operand, s->batch, ML_A_SCATTER_DIMS_TO_OPERAND_DIMS,
                     ML_A_INPUT_BATCHING_DIMS) &&
         mv_in_range(v, op, s->to_operand, operand->rank, ML_A_SCATTER_DIMS_TO_OPERAND_DIMS,
                     "the operand's rank");
}

// The window dimensions of an update fit into the operand, the others are those of the indices.
static bool check_update_sizes(MlVerify *v, const HlMlOp *op, const Scatter *s,
                               const HlMlType *operand, const HlMlType *update) {
  const bool *is_window = mv_members(v, update->rank, s->window, (HlI64s){0});
  const bool *is_outside = mv_members(v, operand->rank, s->inserted, s->batch);
  int of_operand = 0, of_indices = 0;
  for (int k = 0; k < update->rank; k++) {
    const int64_t size = update->dim[k];
    if (is_window[k]) {
      while (is_outside[of_operand])
        of_operand++;
      const int64_t most = operand->dim[of_operand++];
      if (!mv_is_dynamic_size(size) && !mv_is_dynamic_size(most) && size > most)
        return mv_bad(
            v, op, "window dimension %d of the updates has size %lld, but the operand there %lld",
            k, (LL)size, (LL)most);
      continue;
    }
    if (of_indices == s->vector)
      of_indices++;
    const int64_t want = s->indices.at[of_indices++];
    if (!mv_sizes_agree(size, want))
      return mv_bad(v, op,
                    "scatter dimension %d of the updates has size %lld, but scatter_indices %lld",
                    k, (LL)size, (LL)want);
  }
  return true;
}

bool mv_rule_scatter(MlVerify *v, const HlMlOp *op) {
  Scatter s = scatter_of(v, op);
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (s.inputs.n == 0)
    return mv_bad(v, op, "requires at least 1 input");
  if (!range_agrees(v, op, s.inputs, "inputs") || !range_agrees(v, op, s.updates, "updates") ||
      !check_indices(v, op, &s) || !check_scatter_region(v, op, &s))
    return false;
  for (int k = 0; k < s.updates.n; k++) {
    const int rank = mv_in(op, s.updates.first + k)->rank, want = s.indices.n - 1 + s.window.n;
    if (rank != want)
      return mv_bad(v, op,
                    "the updates should have rank %d, that of scatter_indices without "
                    "index_vector_dim and of "
                    "update_window_dims, but have %d",
                    want, rank);
  }
  for (int k = 0; k < s.inputs.n; k++) {
    const HlMlType *operand = mv_in(op, k), *update = mv_in(op, s.updates.first + k);
    if (!check_scatter_numbers(v, op, &s, operand, update) ||
        !check_update_sizes(v, op, &s, operand, update))
      return false;
  }
  if (!mv_has_results(v, op, s.inputs.n))
    return false;
  for (int k = 0; k < s.inputs.n; k++) {
    MlShape shape = mv_shape_of(v, mv_in(op, k));
    shape.element = mv_accumulator(body, k, mv_in(op, k));
    if (!mv_result_is(v, op, k, &shape))
      return false;
  }
  return true;
}

// --- sort, map ----------------------------------------------------------------------------------

static bool returns_i1(MlVerify *v, const HlMlOp *op, const HlMlBlock *body, const char *what) {
  const HlMlOp *end = mv_return(body);
  if (end->n_operands != 1)
    return mv_bad(v, op, "the %s should return a single value, but returns %u", what,
                  end->n_operands);
  const HlMlType *type = mv_in(end, 0);
  if (type->kind != HL_ML_TENSOR || type->rank != 0 || !mv_is_i1(type))
    return mv_bad(v, op, "the %s should return 'tensor<i1>', but returns '%s'", what,
                  mv_text(v, type));
  return true;
}

bool mv_rule_sort(MlVerify *v, const HlMlOp *op) {
  const int64_t dimension = ml_attr_int(op, ML_A_DIMENSION, -1);
  const HlMlBlock *body = hl_ml_body(op, 0);
  const int rank = mv_in(op, 0)->rank;
  if (dimension < -rank || dimension >= rank)
    return mv_bad(v, op, "dimension %lld is not in the range [-%d, %d)", (LL)dimension, rank, rank);
  if ((uint32_t)body->n_args != 2 * op->n_operands)
    return mv_bad(v, op, "the comparator should take %u parameters, but takes %d",
                  2 * op->n_operands, body->n_args);
  for (int k = 0; k < body->n_args; k++) {
    const HlMlType *type = body->args[k]->type, *element = hl_ml_element(mv_in(op, k / 2));
    if (type->kind != HL_ML_TENSOR || type->rank != 0 || hl_ml_element(type) != element)
      return mv_bad(v, op, "parameter %d of the comparator should be 'tensor<%s>', but is '%s'", k,
                    mv_text(v, element), mv_text(v, type));
  }
  if (!returns_i1(v, op, body, "comparator"))
    return false;
  if (op->n_results != op->n_operands)
    return mv_bad(v, op, "sorts %u inputs, but has %u results", op->n_operands, op->n_results);
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!mv_result_is_type(v, op, (int)k, mv_in(op, (int)k)))
      return false;
  return true;
}

bool mv_rule_map(MlVerify *v, const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  const HlI64s dims = mv_attr_ints(v, op, ML_A_DIMENSIONS);
  if ((uint32_t)body->n_args != op->n_operands)
    return mv_bad(v, op, "the computation takes %d parameters, but there are %u operands",
                  body->n_args, op->n_operands);
  for (int k = 0; k < body->n_args; k++) {
    const HlMlType *type = body->args[k]->type;
    if (type->kind != HL_ML_TENSOR || type->rank != 0)
      return mv_bad(v, op, "parameter %d of the computation should be a scalar, but is '%s'", k,
                    mv_text(v, type));
    if (hl_ml_element(type) != hl_ml_element(mv_in(op, k)))
      return mv_bad(v, op, "parameter %d of the computation is '%s', but operand %d is '%s'", k,
                    mv_text(v, type), k, mv_text(v, mv_in(op, k)));
  }
  const HlMlOp *end = mv_return(body);
  if (end->n_operands != 1)
    return mv_bad(v, op, "the computation should return a single value, but returns %u",
                  end->n_operands);
  const HlMlType *type = mv_in(end, 0);
  if (type->kind != HL_ML_TENSOR || type->rank != 0)
    return mv_bad(v, op, "the computation should return a scalar, but returns '%s'",
                  mv_text(v, type));
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return mv_bad(v, op, "dimensions should count up from 0, but are [%s]",
                    mv_ints_text(v, dims));
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (mv_in(op, (int)k)->rank != dims.n)
      return mv_bad(v, op, "dimensions has %d entries, but operand %u has rank %d", dims.n, k,
                    mv_in(op, (int)k)->rank);
  MlShape shape = mv_shape_of(v, mv_in(op, (int)op->n_operands - 1));
  shape.bound = NULL;
  shape.element = hl_ml_element(type);
  return mv_result_is(v, op, 0, &shape);
}

// --- while, if, case ----------------------------------------------------------------------------

static bool args_agree(MlVerify *v, const HlMlOp *op, const HlMlBlock *block, const char *what) {
  if ((uint32_t)block->n_args != op->n_operands)
    return mv_bad(v, op, "the %s takes %d parameters, but there are %u operands", what,
                  block->n_args, op->n_operands);
  for (int k = 0; k < block->n_args; k++)
    if (!mv_types_agree(block->args[k]->type, mv_in(op, k)))
      return mv_bad(v, op, "parameter %d of the %s is '%s', but the operand is '%s'", k, what,
                    mv_text(v, block->args[k]->type), mv_text(v, mv_in(op, k)));
  return true;
}

bool mv_rule_while(MlVerify *v, const HlMlOp *op) {
  const HlMlBlock *condition = hl_ml_body(op, 0), *body = hl_ml_body(op, 1);
  if (!args_agree(v, op, condition, "condition") || !args_agree(v, op, body, "body"))
    return false;
  const HlMlOp *end = mv_return(body);
  if (end->n_operands != op->n_operands)
    return mv_bad(v, op, "the body returns %u values, but there are %u operands", end->n_operands,
                  op->n_operands);
  for (uint32_t k = 0; k < end->n_operands; k++)
    if (!mv_types_agree(mv_in(end, (int)k), mv_in(op, (int)k)))
      return mv_bad(v, op, "value %u that the body returns is '%s', but the operand is '%s'", k,
                    mv_text(v, mv_in(end, (int)k)), mv_text(v, mv_in(op, (int)k)));
  if (!returns_i1(v, op, condition, "condition"))
    return false;
  if (op->n_results != op->n_operands)
    return mv_bad(v, op, "has %u operands, but %u results", op->n_operands, op->n_results);
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!mv_result_is_type(v, op, (int)k, mv_in(op, (int)k)))
      return false;
  return true;
}

// Sizes and bounds of a result that may come from either branch.
static bool join_sizes(MlVerify *v, const HlMlOp *op, MlShape *shape, const HlMlType *type) {
  const HlI64s bounds = hl_ml_bounds(type);
  if (type->rank != shape->rank)
    return mv_bad(v, op, "its branches return ranks %d and %d", shape->rank, type->rank);
  for (int d = 0; d < shape->rank; d++) {
    const int64_t a = shape->dim[d], b = type->dim[d];
    const int64_t x = mv_is_dynamic_size(a) ? shape->bound[d] : a;
    const int64_t y = !mv_is_dynamic_size(b) ? b : d < bounds.n ? bounds.at[d] : HL_UNBOUNDED;
    if (!mv_is_dynamic_size(a) && !mv_is_dynamic_size(b)) {
      if (a != b)
        return mv_bad(v, op, "its branches return sizes %lld and %lld in dimension %d", (LL)a,
                      (LL)b, d);
      continue;
    }
    shape->dim[d] = HL_UNBOUNDED;
    shape->bound[d] = mv_is_dynamic_size(x) || mv_is_dynamic_size(y) ? HL_UNBOUNDED : x > y ? x : y;
  }
  return true;
}

static bool check_branch(MlVerify *v, const HlMlOp *op, int k) {
  const HlMlBlock *block = hl_ml_body(op, k);
  const HlMlOp *first = mv_return(hl_ml_body(op, 0)), *end = mv_return(block);
  if (block->n_args != 0)
    return mv_bad(v, op, "branch %d must have no parameters, but has %d", k, block->n_args);
  if (first->n_operands != end->n_operands)
    return mv_bad(v, op, "branches 0 and %d return %u and %u values", k, first->n_operands,
                  end->n_operands);
  for (uint32_t i = 0; i < end->n_operands; i++)
    if (!mv_types_agree(mv_in(first, (int)i), mv_in(end, (int)i)))
      return mv_bad(v, op, "branches 0 and %d return different types: '%s' vs '%s'", k,
                    mv_text(v, mv_in(first, (int)i)), mv_text(v, mv_in(end, (int)i)));
  return true;
}

static bool check_branch_result(MlVerify *v, const HlMlOp *op, int k) {
  const HlMlType *type = mv_in(mv_return(hl_ml_body(op, 0)), k);
  if (type->kind != HL_ML_TENSOR)
    return mv_result_is_type(v, op, k, type);
  MlShape shape = mv_shape_of(v, type);
  if (shape.bound == NULL)
    shape.bound = mv_shape_new(v, shape.rank, NULL).dim;
  for (int b = 1; b < (int)op->n_regions; b++)
    if (!join_sizes(v, op, &shape, mv_in(mv_return(hl_ml_body(op, b)), k)))
      return false;
  return mv_result_is(v, op, k, &shape);
}

bool mv_rule_if(MlVerify *v, const HlMlOp *op) {
  if (mv_in(op, 0)->rank != 0)
    return mv_bad(v, op, "operand should be a scalar, but is '%s'", mv_text(v, mv_in(op, 0)));
  if (op->n_regions == 0)
    return mv_bad(v, op, "needs at least one branch");
  for (int k = 0; k < (int)op->n_regions; k++)
    if (!check_branch(v, op, k))
      return false;
  const uint32_t n = mv_return(hl_ml_body(op, 0))->n_operands;
  if (n != op->n_results)
    return mv_bad(v, op, "its branches return %u values, but it has %u results", n, op->n_results);
  for (uint32_t k = 0; k < n; k++)
    if (!check_branch_result(v, op, (int)k))
      return false;
  return true;
}
