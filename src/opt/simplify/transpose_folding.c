// opt/simplify/transpose_folding.c: a dot reads its operand untransposed.
//
// Where an operand of a dot is a transpose that swaps the one free and the one contracting
// dimension and leaves the batch dimensions where they are, the dot contracts the other dimension
// instead: matrix products do that for free.
//
//   t = f32[5,3] transpose(w), dimensions={1,0}
//   d = dot(x, t), contracting 1 with 0          =>   d = dot(x, w), contracting 1 with 1
#include "opt/ask/dots.h"

static bool swaps_rows_and_columns(const HlInst *x, HlI64s batch, HlI64s contract) {
  if (x->op != HL_OP_TRANSPOSE || contract.n != 1 || batch.n != x->shape->rank - 2)
    return false;
  HlI64s moved = hl_dims(x);
  for (int k = 0; k < batch.n; k++)
    if (moved.at[batch.at[k]] != batch.at[k])
      return false;
  return true;
}

static HlInst *fold(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (!hl_i64s_equal(d.batch[0], d.batch[1]))
    return NULL;
  HlInst *operands[2] = {dot->operands[0], dot->operands[1]};
  bool found = false;
  for (int side = 0; side < 2; side++) {
    HlInst *x = operands[side];
    if (!swaps_rows_and_columns(x, d.batch[side], d.contract[side]))
      continue;
    d.contract[side] = dims_mapped(p->arena, d.contract[side], hl_dims(x).at);
    operands[side] = x->operands[0];
    found = true;
  }
  return found ? dot_of(b, dot, operands[0], operands[1], d) : NULL;
}

const HlRule transpose_folding_rules[] = {
    {HL_OP_DOT, fold, "transpose-folding",
     "dot(transpose(x), y) => dot(x, y) over the other dimension",
     "the transpose keeps the batch dimensions in place; either side"},
    {0},
};
