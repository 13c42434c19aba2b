// opt/float/convolution_type_canonicalizer.c: products of floats come out as floats.
//
// ConvolutionTypeCanonicalizer. A convolution or dot of floats with a result of an integer type is
// computed in f32 and converted.
//
//   c = s32 convolution(f32 x, f32 k)   =>   c = s32 convert(f32 convolution(x, k))

#include "opt/passes.h"

static HlInst *canonicalize(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *operands[] = {hl_operand(inst, 0), hl_operand(inst, 1)};
  if (!hl_is_float(operands[0]->shape->dtype) || !hl_is_float(operands[1]->shape->dtype) ||
      !hl_is_integral(inst->shape->dtype) || inst->n_operands != 2)
    return NULL;
  const HlShape *shape = hl_shape_with_dtype(p->m->shapes, inst->shape, HL_F32);
  return hl_b_convert(b, hl_inst_copy(b->comp, inst, shape, 2, operands), inst->shape->dtype);
}

static const char when[] = "x and y floats, the result integers";

const HlRule convolution_type_canonicalizer_rules[] = {
    {HL_OP_CONVOLUTION, canonicalize, "convolution",
     "convolution(x, y) => convert(convolution(x, y))", when},
    {HL_OP_DOT, canonicalize, "dot", "dot(x, y) => convert(dot(x, y))", when},
    {0},
};
