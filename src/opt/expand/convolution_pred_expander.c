// opt/expand/convolution_pred_expander.c: convolutions of truth values as convolutions of small floats.
//
// convolution-pred-expander. Libraries have no convolution of pred; sums of ones are exact enough
// in f16 to tell zero from more.
//
//   c = pred convolution(x, k)
//   =>   c = pred convert(f16 convolution(f16 convert(x), f16 convert(k)))

#include "opt/passes.h"

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int k = 0; k < 2; k++)
    if (hl_operand(inst, k)->shape->dtype != HL_PRED)
      return NULL;
  if (inst->shape->dtype != HL_PRED)
    return NULL;
  HlInst *operands[] = {hl_b_convert(b, hl_operand(inst, 0), HL_F16),
                        hl_b_convert(b, hl_operand(inst, 1), HL_F16)};
  const HlShape *shape = hl_shape_with_dtype(p->m->shapes, inst->shape, HL_F16);
  return hl_b_convert(b, hl_inst_copy(b->comp, inst, shape, 2, operands), HL_PRED);
}

const HlRule convolution_pred_expander_rules[] = {
    {HL_OP_CONVOLUTION, expand, "convolution-pred-expander",
     "convolution(x, k) => pred(convolution(f16(x), f16(k)))", "all of type pred"},
    {0},
};
