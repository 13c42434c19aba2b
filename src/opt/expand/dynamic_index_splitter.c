// opt/expand/dynamic_index_splitter.c: start indices of dynamic slices and updates as scalars.
//
// dynamic-index-splitter. An old form gives all start indices as one vector; it is taken apart.
// Slices of scalars are the scalar itself, updates of scalars the update.
//
//   d = dynamic-slice(x, i), i = s32[2]
//   =>   d = dynamic-slice(x, reshape(i[0:1]), reshape(i[1:2]))

#include "hilo/edit.h"
#include "opt/passes.h"

static int first_index(const HlInst *inst) {
  return inst->op == HL_OP_DYNAMIC_SLICE ? 1 : 2;
}

static HlInst *of_scalar(HlPass *p, HlBuild *b, HlInst *inst) {
  if (hl_operand(inst, 0)->shape->rank > 0)
    return NULL;
  return hl_operand(inst, inst->op == HL_OP_DYNAMIC_SLICE ? 0 : 1);
}

static HlInst *split(HlPass *p, HlBuild *b, HlInst *inst) {
  int first = first_index(inst), rank = hl_operand(inst, 0)->shape->rank;
  if (rank == 0 || (uint32_t)first >= inst->n_operands || hl_operand(inst, first)->shape->rank != 1)
    return NULL;
  HlInst *index = hl_operand(inst, first);
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, first + rank);
  for (int k = 0; k < first; k++)
    operands[k] = hl_operand(inst, k);
  for (int k = 0; k < rank; k++)
    operands[first + k] = hl_b_reshape(b, hl_b_slice_dim(b, index, 0, k, k + 1), 0, NULL);
  return hl_inst_copy(b->comp, inst, NULL, first + rank, operands);
}

const HlRule dynamic_index_splitter_rules[] = {
    {HL_OP_DYNAMIC_SLICE, of_scalar, "scalar", "dynamic-slice(x) => x", "x is a scalar"},
    {HL_OP_DYNAMIC_UPDATE_SLICE, of_scalar, "scalar", "dynamic-update-slice(x, u) => u",
     "x is a scalar"},
    {HL_OP_DYNAMIC_SLICE, split, "split",
     "dynamic-slice(x, i) => dynamic-slice(x, i[0], i[1], ...)", "i is a vector"},
    {HL_OP_DYNAMIC_UPDATE_SLICE, split, "split",
     "dynamic-update-slice(x, u, i) => dynamic-update-slice(x, u, i[0], i[1], ...)",
     "i is a vector"},
    {0},
};
