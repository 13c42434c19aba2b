// op/infer_control.c: shape rules of tuples, calls, loops, branches, tokens (hlo.md 4.1).

#include "op/infer.h"

#include <inttypes.h>

// Takes the parts of a shape, itself included, from a budget; stops once it is spent.
static void spend(const HlShape *shape, int64_t *budget) {
  if (--*budget < 0 || !hl_shape_is_tuple(shape))
    return;
  for (int k = 0; k < shape->rank && *budget >= 0; k++)
    spend(shape->element[k], budget);
}

// Tuples of tuples share their shapes, so that a few lines can ask for a tree without end.
const HlShape *infer_tuple(const HlInfer *q) {
  const int64_t limit = hl_cx_limits(q->cx)->tuple_leaves;
  int64_t budget = limit;
  for (int k = 0; k < q->n && budget >= 0; k++)
    spend(q->in[k], &budget);
  if (budget < 0) {
    hl_error_kind(q->cx, HL_LIMIT, hl_pos(q->inst),
                  "a tuple has more than %" PRId64 " parts (limit tuple_leaves)", limit);
    return NULL;
  }
  return hl_shape_tuple(q->shapes, q->n, q->in);
}

const HlShape *infer_get_tuple_element(const HlInfer *q) {
  const HlShape *tuple = q->in[0];
  int64_t index = hl_attr_int(q->inst, HL_A_INDEX);
  if (!hl_shape_is_tuple(tuple))
    return hl_infer_error(q, "cannot infer shape: attempting to index into non-tuple: %s",
                          infer_text(q, tuple));
  if (index < 0 || index >= tuple->rank)
    return hl_infer_error(q,
                          "cannot infer shape: attempt to index out of tuple bounds: index %" PRId64
                          ", but %s has %d elements",
                          index, infer_text(q, tuple), tuple->rank);
  return tuple->element[index];
}

const HlShape *infer_tuple_select(const HlInfer *q) {
  const HlShape *pred = q->in[0];
  if (!hl_shape_is_scalar(pred) || pred->dtype != HL_PRED)
    return hl_infer_error(q, "tuple-select's pred operand must be pred[]; got %s",
                          infer_text(q, pred));
  if (!hl_shape_is_tuple(q->in[1]) || !hl_shape_compatible(q->in[1], q->in[2]))
    return hl_infer_error(q, "operands to tuple-select must be tuples of the same shape; got %s",
                          infer_shapes(q, 1, 2));
  return q->in[1];
}

const HlShape *infer_token(const HlInfer *q) {
  return hl_shape_token(q->shapes);
}

const HlShape *infer_device_id(const HlInfer *q) {
  return hl_shape_scalar(q->shapes, HL_U32);
}

// --- Calls --------------------------------------------------------------------------------------

const HlShape *infer_called(const HlInfer *q) {
  InferComp comp;
  if (!infer_comp(q, 0, &comp))
    return NULL;
  if (comp.n_params != q->n)
    return hl_infer_error(
        q,
        "%s applied function arity must match number of arguments; got: arity: %d "
        "(computation %s), arguments: %d",
        infer_op(q), comp.n_params, comp.comp->name->text, q->n);
  for (int k = 0; k < comp.n_params; k++) {
    const HlShape *param = infer_param(&comp, k);
    if (q->in[k] != param && !hl_shape_compatible(q->in[k], param))
      return hl_infer_error(
          q,
          "%s parameter must match argument; got parameter %d shape: %s, argument "
          "shape: %s",
          infer_op(q), k, infer_text(q, param), infer_text(q, q->in[k]));
  }
  return comp.result;
}

static bool map_operands(const HlInfer *q, const HlShape **full) {
  if (q->n == 0) {
    hl_infer_error(q, "map expects at least one argument");
    return false;
  }
  *full = q->in[0];
  for (int k = 0; k < q->n; k++) {
    const HlShape *x = q->in[k];
    if (!infer_array(q, k, "operand of map"))
      return false;
    if (x->rank == (*full)->rank && hl_shape_same_dims(x, *full))
      continue;
    bool same_kind = infer_same_kind(x->dtype, (*full)->dtype);
    if (same_kind && x->rank == 0)
      continue;
    if (!same_kind || (*full)->rank != 0) {
      hl_infer_error(q, "map operation requires all operands to have the same shape; got: %s",
                     infer_shapes(q, 0, q->n));
      return false;
    }
    *full = x;
  }
  return true;
}

const HlShape *infer_map(const HlInfer *q) {
  const HlShape *full;
  InferComp comp;
  HlI64s at = hl_dims(q->inst);
  if (!map_operands(q, &full) || !infer_comp(q, 0, &comp))
    return NULL;
  bool all = !hl_has_attr(q->inst, HL_A_DIMENSIONS) || at.n == full->rank;
  for (int k = 0; k < at.n; k++)
    all &= at.at[k] == k;
  if (!all)
    return hl_infer_error(
        q,
        "map applied to a subset of dimensions currently not supported: expected every "
        "dimension of %s in order, got {%s}",
        infer_text(q, full), infer_ints(q, at));
  if (comp.n_params != q->n)
    return hl_infer_error(
        q,
        "map applied function arity must match number of arguments; got: arity: %d, "
        "arguments: %d",
        comp.n_params, q->n);
  if (!hl_shape_is_scalar(comp.result))
    return hl_infer_error(q, "mapped computation's result has to be a scalar; got: %s",
                          infer_text(q, comp.result));
  for (int k = 0; k < q->n; k++) {
    const HlShape *param = infer_param(&comp, k);
    if (!hl_shape_is_scalar(param))
      return hl_infer_error(
          q,
          "mapped computation's parameter has to be a scalar; got parameter %d shape: "
          "%s",
          k, infer_text(q, param));
    if (!infer_same_kind(param->dtype, q->in[k]->dtype))
      return hl_infer_error(
          q,
          "mapped computation's parameter type has to match argument element type; got "
          "parameter %d shape: %s, argument shape: %s",
          k, infer_text(q, param), infer_text(q, q->in[k]));
  }
  InferDims dims = infer_dims_of(q, full);
  return infer_make(q, comp.result->dtype, &dims);
}

// --- Loops and branches -------------------------------------------------------------------------

const HlShape *infer_while(const HlInfer *q) {
  InferComp body, condition;
  if (!infer_comp(q, 0, &body) || !infer_comp(q, 1, &condition))
    return NULL;
  const HlShape *init = q->in[0];
  if (condition.n_params != 1)
    return hl_infer_error(q, "condition must take 1 arguments; got %d", condition.n_params);
  if (body.n_params != 1)
    return hl_infer_error(q, "body must take 1 arguments; got %d", body.n_params);
  if (!hl_shape_is_scalar(condition.result) || condition.result->dtype != HL_PRED)
    return hl_infer_error(q, "condition must return a boolean; got %s",
                          infer_text(q, condition.result));
  const HlShape *of_condition = infer_param(&condition, 0), *of_body = infer_param(&body, 0);
  if (!hl_shape_compatible(body.result, init) || !hl_shape_compatible(body.result, of_condition) ||
      !hl_shape_compatible(body.result, of_body))
    return hl_infer_error(
        q,
        "the parameter of condition and body, the result of the body, and init must all "
        "have the same shape; got condition: %s, body: %s -> %s, init: %s",
        infer_text(q, of_condition), infer_text(q, of_body), infer_text(q, body.result),
        infer_text(q, init));
  return init;
}

// Dynamic where either is, deep; `a` and `b` are compatible.
static const HlShape *dynamic_where_either(const HlInfer *q, const HlShape *a, const HlShape *b) {
  if (a == b)
    return a;
  if (hl_shape_is_tuple(a)) {
    const HlShape **element = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, a->rank + 1);
    for (int k = 0; k < a->rank; k++)
      element[k] = dynamic_where_either(q, a->element[k], b->element[k]);
    return hl_shape_tuple(q->shapes, a->rank, element);
  }
  if (!hl_is_array_dtype(a->dtype))
    return a;
  InferDims dims = infer_dims_of(q, a);
  for (int d = 0; d < a->rank; d++)
    dims.dynamic[d] |= infer_dynamic(b, d);
  return infer_with_dynamism(q, a, dims.dynamic);
}

static bool branch_index(const HlInfer *q, int n_branches) {
  const HlShape *index = q->n > 0 ? q->in[0] : NULL;
  if (index == NULL || !hl_shape_is_scalar(index) ||
      (index->dtype != HL_PRED && index->dtype != HL_S32)) {
    hl_infer_error(q, "the first operand of conditional must be pred[] or s32[]; got %s",
                   index == NULL ? "none" : infer_text(q, index));
    return false;
  }
  if (index->dtype == HL_PRED && n_branches != 2) {
    hl_infer_error(q, "a conditional on pred[] has 2 branches, got %d", n_branches);
    return false;
  }
  if (n_branches < 1 || q->n != n_branches + 1) {
    hl_infer_error(q, "expected %d operands for conditional instruction with %d branches, got %d",
                   n_branches + 1, n_branches, q->n);
    return false;
  }
  return true;
}

const HlShape *infer_conditional(const HlInfer *q) {
  int n = q->inst->n_calls;
  const HlShape *result = NULL;
  if (!branch_index(q, n))
    return NULL;
  for (int k = 0; k < n; k++) {
    InferComp branch;
    if (!infer_comp(q, k, &branch))
      return NULL;
    if (branch.n_params != 1)
      return hl_infer_error(q, "branch computation %d must take 1 argument; got %d", k,
                            branch.n_params);
    const HlShape *param = infer_param(&branch, 0);
    if (!hl_shape_compatible(param, q->in[k + 1]))
      return hl_infer_error(
          q,
          "branch operand %d must match the shape of the only parameter of branch "
          "computation %d: got operand: %s; parameter: %s",
          k, k, infer_text(q, q->in[k + 1]), infer_text(q, param));
    if (result != NULL && !hl_shape_compatible(result, branch.result))
      return hl_infer_error(
          q,
          "the result of branch 0 computation and branch %d computation must have the "
          "same shape: got %s and %s",
          k, infer_text(q, result), infer_text(q, branch.result));
    result = result == NULL ? branch.result : dynamic_where_either(q, result, branch.result);
  }
  return result;
}

// --- Copies, channels ---------------------------------------------------------------------------

const HlShape *infer_copy_start(const HlInfer *q) {
  const HlShape *three[3] = {q->in[0], q->in[0], hl_shape_scalar(q->shapes, HL_U32)};
  return hl_shape_tuple(q->shapes, 3, three);
}

static bool tuple_of_at_least(const HlInfer *q, int n) {
  const HlShape *x = q->in[0];
  if (hl_shape_is_tuple(x) && x->rank >= n)
    return true;
  hl_infer_error(q, "the operand of %s must be a tuple of at least %d elements, got %s",
                 infer_op(q), n, infer_text(q, x));
  return false;
}

const HlShape *infer_copy_done(const HlInfer *q) {
  if (!tuple_of_at_least(q, 2))
    return NULL;
  const HlShape *to = q->in[0]->element[0], *from = q->in[0]->element[1];
  if (!hl_shape_compatible(to, from))
    return hl_infer_error(
        q,
        "source and destination buffers in copy-done arguments need to be the same "
        "shape, found %s and %s",
        infer_text(q, to), infer_text(q, from));
  return to;
}

const HlShape *infer_second_of_tuple(const HlInfer *q) {
  return tuple_of_at_least(q, 2) ? q->in[0]->element[1] : NULL;
}

const HlShape *infer_send(const HlInfer *q) {
  const HlShape *three[3] = {q->in[0], hl_shape_scalar(q->shapes, HL_U32),
                             hl_shape_token(q->shapes)};
  return hl_shape_tuple(q->shapes, 3, three);
}

const HlShape *infer_recv_done(const HlInfer *q) {
  if (!tuple_of_at_least(q, 1))
    return NULL;
  const HlShape *two[2] = {q->in[0]->element[0], hl_shape_token(q->shapes)};
  return hl_shape_tuple(q->shapes, 2, two);
}
