// opt/float/fp_conversions.c: simplify-fp-conversions: a chain of converts between floats is one convert.
//
//   a = bf16[4] convert(x), x: f32[4]
//   b = f32[4] convert(a)                    =>   x
//
// What the types between would have rounded away is kept: this is for programs that allow excess
// precision, as they do unless --xla_allow_excess_precision=false.

#include "hilo/pass.h"

static bool makes_float(const HlInst *inst) {
  return inst->op == HL_OP_CONVERT && hl_is_float(inst->shape->dtype);
}

static HlInst *shorten_chain(HlPass *p, HlBuild *b, HlInst *convert) {
  if (p->keeps_rounding || !makes_float(convert) || !makes_float(convert->operands[0]))
    return NULL;
  HlInst *source = convert->operands[0];
  while (makes_float(source))
    source = source->operands[0];
  return hl_b_convert(b, source, convert->shape->dtype);
}

const HlRule fp_conversions_rules[] = {
    {HL_OP_CONVERT, shorten_chain, "simplify-fp-conversions", "convert(convert(x)) => convert(x)",
     "both give floats, unless excess precision is off"},
    {0},
};
