// opt/layout/move_copy_to_users.c: changes the order of dimensions as late as possible.
//
// move_copy_to_users. An op that reads a copy into another layout can as well read what was copied,
// and its result be copied: further down the copy is often smaller, or meets its reverse.
//
//   c = f32[8,9]{0,1} copy(f32[8,9]{1,0} x)        s = f32[2,9]{1,0} slice(x)
//   s = f32[2,9]{0,1} slice(c)               =>    r = f32[2,9]{0,1} copy(s)
//
// Reductions need no copy behind them.

#include "hilo/edit.h"
#include "opt/ask/layouts.h"
#include "opt/passes.h"

// What the first n operands are copies of, all in one order; NULL: they are not. Others stay.
static HlInst **before_copies(HlPass *p, const HlInst *inst, uint32_t n) {
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = operands[k] = inst->operands[k];
    if (k >= n)
      continue;
    if (x->op != HL_OP_COPY || !hl_shape_is_array(x->shape) || !x->operands[0]->shape->layout)
      return NULL;
    operands[k] = x->operands[0];
    if (!hl_i64s_equal(operands[k]->shape->layout->minor_to_major,
                       operands[0]->shape->layout->minor_to_major))
      return NULL;
  }
  return n > 0 ? operands : NULL;
}

static HlInst *later(HlPass *p, HlBuild *b, HlInst *inst, uint32_t n) {
  HlInst **operands = before_copies(p, inst, n);
  if (!operands || !hl_shape_is_array(inst->shape) || operands[0]->shape->rank != inst->shape->rank)
    return NULL;
  HlLayout layout = {operands[0]->shape->layout->minor_to_major,
                     inst->shape->layout ? inst->shape->layout->extra : NULL};
  const HlShape *shape = hl_shape_with_layout(p->m->shapes, inst->shape, &layout);
  HlInst *early = hl_inst_copy(b->comp, inst, shape, (int)inst->n_operands, operands);
  HlInst *copy = hl_b_unary(b, HL_OP_COPY, early);
  if (copy)
    hl_set_shape(copy, inst->shape);
  return copy;
}

static HlInst *of_first(HlPass *p, HlBuild *b, HlInst *inst) {
  return later(p, b, inst, 1);
}

static HlInst *of_all(HlPass *p, HlBuild *b, HlInst *inst) {
  return later(p, b, inst, inst->n_operands);
}

static HlInst *of_elementwise(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!(hl_op_info[inst->op].traits & HL_T_ELEMENTWISE) || inst->n_operands > 2 ||
      inst->op == HL_OP_REDUCE_PRECISION || inst->op == HL_OP_STOCHASTIC_CONVERT)
    return NULL;
  if (inst->op == HL_OP_CONVERT && hl_one_user(inst) &&
      inst->first_use->user->op == HL_OP_CONVOLUTION)
    return NULL;
  return later(p, b, inst, inst->n_operands);
}

static HlInst *of_reduce(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst **operands = inst->n_operands == 2 ? before_copies(p, inst, 1) : NULL;
  return operands ? hl_inst_copy(b->comp, inst, NULL, 2, operands) : NULL;
}

static HlInst *of_window(HlPass *p, HlBuild *b, HlInst *inst) {
  return inst->n_operands == 2 ? later(p, b, inst, 1) : NULL;
}

const HlRule move_copy_to_users_rules[] = {
    {HL_OP_PAD, of_first, "pad", "pad(copy(x), v) => copy(pad(x, v))", ""},
    {HL_OP_SLICE, of_first, "slice", "slice(copy(x)) => copy(slice(x))", ""},
    {HL_OP_DYNAMIC_SLICE, of_first, "dynamic-slice",
     "dynamic-slice(copy(x), i) => copy(dynamic-slice(x, i))", ""},
    {HL_OP_REVERSE, of_first, "reverse", "reverse(copy(x)) => copy(reverse(x))", ""},
    {HL_OP_REDUCE_WINDOW, of_window, "reduce-window",
     "reduce-window(copy(x)) => copy(reduce-window(x))", "one array"},
    {HL_OP_REDUCE, of_reduce, "reduce", "reduce(copy(x)) => reduce(x)", "one array"},
    {HL_OP_CONCATENATE, of_all, "concatenate",
     "concatenate(copy(x), copy(y)) => copy(concatenate(x, y))", "x and y in one order"},
    {HL_OP_COUNT, of_elementwise, "elementwise", "f(copy(x), copy(y)) => copy(f(x, y))",
     "x and y in one order; not a convert that only a convolution reads"},
    {0},
};
