// opt/layout/reduce_decomposer.c: reductions whose result lies the way the kept dimensions do in the
// operand.
//
// reduce-decomposer. A reduction that also changes the order of the kept dimensions becomes one
// that does not, and a copy; the operands of a variadic reduction get one common order first.
//
//   r = f32[2,3]{0,1} reduce(f32[2,3,4]{2,1,0} x), dims={2}
//   =>   s = f32[2,3]{1,0} reduce(x), dims={2}
//        r = f32[2,3]{0,1} copy(s)
//
// Where the only user converts the result to another type, the copy follows the conversion, so that
// a fusion may take both in one. On GPUs the kernel of a reduction by blocks writes in any order: it keeps its result's
// (option "blocks").

#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/block_reductions.h"
#include "opt/ask/layouts.h"
#include "opt/passes.h"

// --- The layout that the operand gives ------------------------------------------------------------

// The array in the order in which its dimensions lie in the operand, of which `reduced` are gone.
static const HlShape *in_kept_order(HlPass *p, const HlShape *array, const HlShape *operand,
                                    HlI64s reduced) {
  HlI64s order = operand->layout->minor_to_major;
  int64_t *number = HL_ARRAY(p->arena, int64_t, operand->rank + 1);
  int64_t *kept = HL_ARRAY(p->arena, int64_t, operand->rank + 1);
  for (int k = 0; k < reduced.n; k++)
    number[reduced.at[k]] = -1;
  int n = 0;
  for (int k = 0; k < operand->rank; k++)
    if (number[k] == 0)
      number[k] = n++;
  n = 0;
  for (int k = 0; k < order.n; k++)
    if (number[order.at[k]] >= 0)
      kept[n++] = number[order.at[k]];
  HlLayout layout = {{kept, n}, array->layout ? array->layout->extra : NULL};
  return hl_shape_with_layout(p->m->shapes, array, &layout);
}

static bool is_laid_out(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands / 2; k++)
    if (!inst->operands[k]->shape->layout || hl_shape_is_dynamic(inst->operands[k]->shape))
      return false;
  return inst->n_operands > 0;
}

// The shape with the layouts that a reduction gives by itself; NULL: it has it, or nothing can be
// said.
static const HlShape *natural_shape(HlPass *p, const HlInst *inst) {
  if (!is_laid_out(inst) || (hl_pass_flag(p, "blocks") &&
                             is_block_reduction(hl_target_of_kind(p->target, HL_TARGET_GPU), inst)))
    return NULL;
  const HlShape *shape;
  if (inst->shape->dtype != HL_TUPLE) {
    shape = in_kept_order(p, inst->shape, inst->operands[0]->shape, hl_dims(inst));
  } else {
    int n = inst->shape->rank;
    const HlShape **element = HL_ARRAY(p->arena, const HlShape *, n);
    for (int k = 0; k < n; k++)
      element[k] =
          in_kept_order(p, inst->shape->element[k], inst->operands[k]->shape, hl_dims(inst));
    shape = hl_shape_tuple(p->m->shapes, n, element);
  }
  return hl_shape_same_order(shape, inst->shape) ? NULL : shape;
}

// --- Rules --------------------------------------------------------------------------------------

static HlInst *copy(HlBuild *b, HlInst *x, const HlShape *shape) {
  HlInst *made = hl_b_unary(b, HL_OP_COPY, x);
  if (made)
    hl_set_shape(made, shape);
  return made;
}

static HlInst *equal_operands(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->shape->dtype != HL_TUPLE || !is_laid_out(inst))
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  const HlShape *first = inst->operands[0]->shape;
  bool changed = false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = operands[k] = inst->operands[k];
    if (k >= inst->n_operands / 2 || hl_shape_same_order(x->shape, first))
      continue;
    operands[k] = copy(b, x, hl_shape_with_layout(p->m->shapes, x->shape, first->layout));
    changed = true;
  }
  return changed ? hl_inst_copy(b->comp, inst, NULL, (int)inst->n_operands, operands) : NULL;
}

static bool is_followed_by_convert(const HlInst *inst) {
  return hl_one_user(inst) && inst->first_use->user->op == HL_OP_CONVERT;
}

static HlInst *copy_result(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlShape *shape = natural_shape(p, inst);
  if (!shape || is_followed_by_convert(inst))
    return NULL;
  HlInst *reduce = hl_inst_copy(b->comp, inst, shape, (int)inst->n_operands, inst->operands);
  if (shape->dtype != HL_TUPLE)
    return copy(b, reduce, inst->shape);
  HlInst **element = HL_ARRAY(p->arena, HlInst *, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    element[k] = copy(b, hl_b_element(b, reduce, k), inst->shape->element[k]);
  return hl_b_tuple(b, shape->rank, element);
}

static HlInst *copy_converted(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *old = hl_operand(inst, 0);
  if (old->op != HL_OP_REDUCE || !is_followed_by_convert(old) || hl_has_control(old))
    return NULL;
  const HlShape *shape = natural_shape(p, old);
  if (!shape)
    return NULL;
  HlInst *reduce = hl_inst_copy(b->comp, old, shape, (int)old->n_operands, old->operands);
  return copy(b, hl_b_convert(b, reduce, inst->shape->dtype), inst->shape);
}

const HlRule reduce_decomposer_rules[] = {
    {HL_OP_REDUCE, equal_operands, "equal-operands", "reduce(x, y) => reduce(x, copy(y))",
     "several operands in different orders"},
    {HL_OP_REDUCE, copy_result, "copy", "reduce(x) => copy(reduce(x))",
     "the result lies otherwise than the kept dimensions of x"},
    {HL_OP_CONVERT, copy_converted, "convert-copy",
     "convert(reduce(x)) => copy(convert(reduce(x)))",
     "the same, where a conversion is the only user"},
    {0},
};

static bool run_some(HlPass *p, int first, int n) {
  HlRule some[4] = {{0}};
  memcpy(some, reduce_decomposer_rules + first, sizeof *some * (size_t)n);
  return hl_run_rules(p, some, 1);
}

bool pass_reduce_decomposer(HlPass *p) {
  return run_some(p, 0, 1) && run_some(p, 1, 2);
}
