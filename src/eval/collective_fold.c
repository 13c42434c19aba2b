// eval/collective_fold.c: folding the values of a group by a collective's computation.

#include "eval/collective.h"

#include <string.h>

// A reducer that is one elementwise operation of its two parameters runs as that kernel, on values of
// any element type: combined collectives fold several types by one computation.
static const HlInst *single_operation(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (!root || root->n_operands != 2 || comp->n_params != 2 ||
      !(hl_op_info[root->op].traits & HL_T_ELEMENTWISE) || !hl_kernel((HlOp)root->op) ||
      root->shape->dtype != root->operands[0]->shape->dtype)
    return NULL;
  for (int k = 0; k < 2; k++)
    if (root->operands[k]->op != HL_OP_PARAMETER)
      return NULL;
  return root;
}

static HlLiteral *fold_two_by_kernel(Interp *in, const HlInst *inst, const HlInst *root,
                                     const HlLiteral *a, const HlLiteral *b, const HlShape *shape) {
  const HlLiteral *pair[2] = {a, b};
  const HlLiteral *arg[2];
  for (int k = 0; k < 2; k++)
    arg[k] = pair[hl_parameter_number(root->operands[k]) == 1];
  HlLiteral *out = interp_new(in, inst, shape);
  if (out && !hl_kernel((HlOp)root->op)(&in->ev, root, arg, out)) {
    interp_drop(in, out);
    return NULL;
  }
  return out;
}

static HlLiteral *copy_as(Interp *in, const HlInst *inst, const HlLiteral *from,
                          const HlShape *shape) {
  HlLiteral *out = interp_new(in, inst, shape);
  if (out && from->n)
    memcpy(out->data, from->data, (size_t)from->n * (size_t)hl_dtype_bytes(shape->dtype));
  return out;
}

// One step on vectors, by the interpreter's way of running scalar computations.
static HlLiteral *fold_two_by_call(Interp *in, const HlInst *inst, const HlLiteral *a,
                                   const HlLiteral *b, const HlShape *shape) {
  const HlShape vector = {.dtype = a->shape->dtype, .rank = 1, .dim = &a->n};
  HlLiteral *arg[2] = {copy_as(in, inst, a, &vector), copy_as(in, inst, b, &vector)};
  HlLiteral *sum = NULL, *out = NULL;
  if (arg[0] && arg[1] &&
      in->ev.call_scalar(&in->ev, hl_to_apply(inst), (const HlLiteral *const *)arg, 2, &sum, 1)) {
    if (sum->shape->dtype != shape->dtype || sum->n != a->n)
      hl_inst_error(in->ev.cx, inst, "the computation gives %s for %s",
                    hl_shape_text(in->ev.cx, sum->shape), hl_shape_text(in->ev.cx, shape));
    else
      out = copy_as(in, inst, sum, shape);
  }
  interp_drop(in, sum);
  interp_drop(in, arg[0]);
  interp_drop(in, arg[1]);
  return out;
}

static bool check_reducer(Interp *in, const HlInst *inst, HlDtype dtype) {
  const HlComp *comp = hl_to_apply(inst);
  bool good = comp->n_params == 2;
  for (int k = 0; good && k < 2; k++)
    good = comp->params[k] && comp->params[k]->shape->dtype == dtype;
  return good ||
         hl_inst_error(in->ev.cx, inst, "the computation %s does not fold values of type %s",
                       comp->name->text, hl_dtype_text(dtype));
}

HlLiteral *collective_fold(Interp *in, const HlInst *inst, HlLiteral *const *value, int n,
                           int stride, const HlShape *shape) {
  HlLiteral *sum = collective_shaped(in, inst, value[0], shape);
  if (!sum || n == 1 || value[0]->n == 0)
    return sum;
  const HlInst *root = inst->n_calls > 0 ? single_operation(hl_to_apply(inst)) : NULL;
  if (inst->n_calls == 0 || (!root && !check_reducer(in, inst, shape->dtype))) {
    interp_drop(in, sum);
    return NULL;
  }
  for (int k = 1; sum && k < n; k++) {
    const HlLiteral *next = value[(int64_t)k * stride];
    HlLiteral *both = root ? fold_two_by_kernel(in, inst, root, sum, next, shape)
                           : fold_two_by_call(in, inst, sum, next, shape);
    interp_drop(in, sum);
    sum = both;
  }
  return sum;
}
