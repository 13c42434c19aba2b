// opt/ragged_all_to_all.c
//
// ragged-all-to-all-canonicalizer: offsets and sizes as 64-bit integers, the one type that kernels
// read.
//
//   y = ragged-all-to-all(x, out, o, s, t, r)   =>   y = ragged-all-to-all(x, out, s64 o, s64 s, s64 t, s64 r)

#include "opt/collectives.h"

extern const HlRule ragged_all_to_all_rules[];

static HlInst *widen_offsets(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (inst->n_operands != 6)
    return NULL;
  HlInst *operands[6] = {inst->operands[0], inst->operands[1]};
  bool changes = false;
  for (int k = 2; k < 6; k++) {
    const HlDtype dtype = inst->operands[k]->shape->dtype;
    if (!hl_is_integral(dtype))
      return NULL;
    changes |= dtype != HL_S64;
    operands[k] = hl_b_convert(b, inst->operands[k], HL_S64);
    if (!operands[k])
      return NULL;
  }
  return changes ? hl_inst_copy(b->comp, inst, NULL, 6, operands) : NULL;
}

const HlRule ragged_all_to_all_rules[] = {
    {HL_OP_RAGGED_ALL_TO_ALL, widen_offsets, "ragged-all-to-all-canonicalizer",
     "ragged-all-to-all(x, y, o...) => ragged-all-to-all(x, y, convert(o)...)",
     "offsets of less than 64 bits"},
    {0}};
