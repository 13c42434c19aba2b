// opt/simplify/transpose_folding.c: a dot reads its operand untransposed.
//
// Where an operand of a dot is a transpose that swaps the one free and the one contracting
// dimension and leaves the batch dimensions where they are, the dot contracts the other dimension
// instead: matrix products do that for free. With any_batch the batch dimensions may have moved as well, as long as
// the operand can be read as matrices, in which the batch isn't the dimension that lies closest together, with any_dims whatever
// moved but the order of free ones; without `dots` dots are left as they are. A convolution names the dimensions of what was transposed, whichever they are.
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

static bool reads_as_matrices(HlPass *p, const HlInst *x, DotDims d, int side) {
  if (x->op != HL_OP_TRANSPOSE)
    return false;
  const HlI64s moved = hl_dims(x);
  const DotGroups groups = {{dims_mapped(p->arena, d.batch[side], moved.at),
                             dims_mapped(p->arena, d.contract[side], moved.at),
                             dims_mapped(p->arena, d.free[side], moved.at)}};
  return dot_forms_matrix(&groups, dims_in_memory(p->arena, x->operands[0]->shape));
}

// The result has the free dimensions in the operand's order.
static bool keeps_order(HlPass *p, const HlInst *x, HlI64s free) {
  if (x->op != HL_OP_TRANSPOSE)
    return false;
  const HlI64s before = dims_mapped(p->arena, free, hl_dims(x).at);
  for (int k = 1; k < before.n; k++)
    if (before.at[k] < before.at[k - 1])
      return false;
  return true;
}

static bool folds(HlPass *p, const HlInst *x, DotDims d, int side) {
  if (hl_pass_flag(p, "any_dims"))
    return keeps_order(p, x, d.free[side]);
  return hl_pass_flag(p, "any_batch") ? reads_as_matrices(p, x, d, side)
                                      : swaps_rows_and_columns(x, d.batch[side], d.contract[side]);
}

static HlInst *fold(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (!hl_pass_flag(p, "dots"))
    return NULL;
  if (!hl_pass_flag(p, "any_batch") && !hl_pass_flag(p, "any_dims") &&
      !hl_i64s_equal(d.batch[0], d.batch[1]))
    return NULL;
  HlInst *operands[2] = {dot->operands[0], dot->operands[1]};
  bool found = false;
  for (int side = 0; side < 2; side++) {
    HlInst *x = operands[side];
    if (!folds(p, x, d, side))
      continue;
    d.batch[side] = dims_mapped(p->arena, d.batch[side], hl_dims(x).at);
    d.contract[side] = dims_mapped(p->arena, d.contract[side], hl_dims(x).at);
    operands[side] = x->operands[0];
    found = true;
  }
  return found ? dot_of(b, dot, operands[0], operands[1], d) : NULL;
}

// The operand's dimensions that the transpose made the named ones of.
static void name_before(HlPass *p, const HlInst *transpose, int64_t *const one[2],
                        HlI64s *spatial) {
  const int64_t *of = hl_dims(transpose).at;
  *one[0] = of[*one[0]];
  *one[1] = of[*one[1]];
  *spatial = dims_mapped(p->m->arena, *spatial, of);
}

static HlInst *fold_into_convolution(HlPass *p, HlBuild *b, HlInst *conv) {
  const HlDimLabels *old = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  if (!hl_pass_flag(p, "convolutions") || !old ||
      (conv->operands[0]->op != HL_OP_TRANSPOSE && conv->operands[1]->op != HL_OP_TRANSPOSE))
    return NULL;
  HlDimLabels *labels = HL_NEW(p->m->arena, HlDimLabels);
  *labels = *old;
  int64_t *const input[2] = {&labels->input_batch, &labels->input_feature};
  int64_t *const kernel[2] = {&labels->kernel_input, &labels->kernel_output};
  HlInst *operands[2] = {conv->operands[0], conv->operands[1]};
  if (operands[0]->op == HL_OP_TRANSPOSE) {
    name_before(p, operands[0], input, &labels->input_spatial);
    operands[0] = operands[0]->operands[0];
  }
  if (operands[1]->op == HL_OP_TRANSPOSE) {
    name_before(p, operands[1], kernel, &labels->kernel_spatial);
    operands[1] = operands[1]->operands[0];
  }
  HlInst *made = hl_inst_copy(b->comp, conv, NULL, 2, operands);
  hl_set_attr(made, &(HlAttr){.key = HL_A_DIM_LABELS, .ptr = labels});
  return made;
}

const HlRule transpose_folding_rules[] = {
    {HL_OP_DOT, fold, "transpose-folding",
     "dot(transpose(x), y) => dot(x, y) over the other dimension",
     "the transpose keeps the batch dimensions in place, or any_batch, or any_dims; either side"},
    {HL_OP_CONVOLUTION, fold_into_convolution, "convolution",
     "convolution(transpose(x), k) => convolution(x, k) with other labels",
     "convolutions; either side"},
    {0},
};
