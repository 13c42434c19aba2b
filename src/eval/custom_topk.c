// eval/custom_topk.c: TopK and ApproxTopK, by the kernels of topk and sort.

#include "base/memory.h"
#include "eval/custom.h"

#include <string.h>

bool custom_topk_smallest(const HlInst *inst) {
  if (inst->n_calls == 0)
    return custom_int(inst, "largest", 1) == 0;
  const HlInst *at = hl_called(inst, 0)->root;
  for (int depth = 0; at && depth < 8; depth++) {
    if (at->op == HL_OP_COMPARE) {
      const int64_t direction = hl_attr_int(at, HL_A_DIRECTION);
      return direction == HL_WORD_direction_LT || direction == HL_WORD_direction_LE;
    }
    at = at->n_operands ? at->operands[at->n_operands - 1] : NULL;
  }
  return false;
}

bool custom_topk(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  if (!custom_counts(in, inst, 1, out, 2))
    return false;
  const HlShape *shape = operand[0]->shape;
  for (int k = 0; k < 2; k++) {
    const HlShape *result = out->element[k]->shape;
    bool good = hl_shape_is_array(shape) && shape->rank > 0 && result->rank == shape->rank &&
                (k ? hl_is_integral(result->dtype) : result->dtype == shape->dtype);
    for (int d = 0; good && d < shape->rank; d++)
      good = d == shape->rank - 1 ? result->dim[d] == out->element[0]->shape->dim[d]
                                  : result->dim[d] == shape->dim[d];
    if (!good)
      return hl_inst_error(in->ev.cx, inst, "expected values and indices of %s",
                           hl_shape_text(in->ev.cx, shape));
  }
  const HlAttr attrs[] = {{.key = HL_A_LARGEST, .i = !custom_topk_smallest(inst)}};
  const HlInst topk =
      hl_inst_as(inst, (HlOp)inst->op, (int)inst->n_operands, HL_COUNT_OF(attrs), attrs);
  return hl_kernel(HL_OP_TOPK)(&in->ev, &topk, operand, out);
}

// --- ApproxTopK: exact, which is as near as one can get ------------------------------------------

// Copies the first steps of dimension d.
static bool take_first(Interp *in, const HlInst *inst, const HlLiteral *from, HlLiteral *to,
                       int64_t d) {
  const HlShape *a = from->shape, *b = to->shape;
  bool good = a->dtype == b->dtype && a->rank == b->rank;
  for (int k = 0; good && k < a->rank; k++)
    good = k == d ? b->dim[k] <= a->dim[k] : b->dim[k] == a->dim[k];
  if (!good)
    return hl_inst_error(in->ev.cx, inst, "%s cannot be the best of %s",
                         hl_shape_text(in->ev.cx, b), hl_shape_text(in->ev.cx, a));
  size_t inner = (size_t)hl_dtype_bytes(a->dtype);
  for (int k = (int)d + 1; k < a->rank; k++)
    inner *= (size_t)a->dim[k];
  const size_t bytes = inner * (size_t)b->dim[d], step = inner * (size_t)a->dim[d];
  uint32_t steps = 0;
  for (size_t at = 0, line = 0; bytes && at < (size_t)to->n * (size_t)hl_dtype_bytes(a->dtype);
       at += bytes, line++) {
    base_look_often(&steps);
    memcpy((char *)to->data + at, (const char *)from->data + line * step, bytes);
  }
  return true;
}

bool custom_approx_topk(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                        HlLiteral *out) {
  const int n = (int)inst->n_operands / 2;  // values, then where their reduction starts
  const int64_t d = custom_int(inst, "reduction_dim", -1);
  if (n == 0 || !custom_counts(in, inst, 2 * n, out, n))
    return false;
  if (inst->n_calls == 0 || d < 0 || d >= operand[0]->shape->rank)
    return hl_inst_error(in->ev.cx, inst,
                         "ApproxTopK needs a comparator and a reduction_dim in range");
  for (int k = 1; k < n; k++)
    if (!hl_shape_is_array(operand[k]->shape) ||
        !hl_shape_same_dims(operand[k]->shape, operand[0]->shape))
      return hl_inst_error(in->ev.cx, inst, "the operands of ApproxTopK must have equal sizes");
  const HlMark mark = hl_arena_mark(in->frames);
  const HlShape **shapes = HL_ARRAY(in->frames, const HlShape *, n);
  for (int k = 0; k < n; k++)
    shapes[k] = operand[k]->shape;
  const HlShape tuple = {.dtype = HL_TUPLE, .rank = n, .element = shapes};
  HlLiteral *sorted = interp_new(in, inst, n == 1 ? shapes[0] : &tuple);
  const HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = d}, {.key = HL_A_IS_STABLE, .i = 1}};
  const HlInst sort = hl_inst_as(inst, (HlOp)inst->op, n, HL_COUNT_OF(attrs), attrs);
  bool good = sorted && hl_kernel(HL_OP_SORT)(&in->ev, &sort, operand, sorted);
  for (int k = 0; good && k < n; k++)
    good = take_first(in, inst, custom_result(sorted, k), custom_result(out, k), d);
  interp_drop(in, sorted);
  hl_arena_release(in->frames, mark);
  return good;
}
