// opt/expand/real_imag_expander.c: real_imag_expander: parts of numbers that are not complex.
//
//   r = f32[4] real(f32[4] x)   =>   x
//   i = f32[4] imag(f32[4] x)   =>   broadcast(0)

#include "opt/passes.h"

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *x = inst->operands[0];
  if (hl_is_complex(x->shape->dtype) || hl_shape_is_dynamic(x->shape))
    return NULL;
  return inst->op == HL_OP_REAL ? x : hl_b_like(b, x, 0);
}

const HlRule real_imag_rules[] = {
    {HL_OP_REAL, rewrite, "real_imag_expander", "real(x) => x", "x is not complex"},
    {HL_OP_IMAG, rewrite, "real_imag_expander", "imag(x) => 0", "x is not complex"},
    {0},
};
