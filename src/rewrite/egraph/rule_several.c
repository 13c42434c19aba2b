// rewrite/egraph/rule_several.c: own rules of several roots: values that share an operand, computed at once (of dots: rule_dot.c).

#include "rewrite/egraph/rules.h"

bool eg_cut_apart(HlBuild *b, HlInst *all, int64_t dim, int n, HlInst *const *roots, HlInst **by) {
  int64_t at = 0;
  for (int k = 0; k < n; k++) {
    const int64_t size = roots[k]->shape->dim[dim];
    by[k] = all ? hl_b_slice_dim(b, all, (int)dim, at, at + size) : NULL;
    at += size;
  }
  return all;
}

// --- Convolutions -------------------------------------------------------------------------------------------------

static bool is_one_group(const HlInst *inst) {
  return hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT) <= 1 &&
         hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) <= 1;
}

// The same convolution of the same array by kernels of the same sizes but for their outputs.
static bool goes_with(const HlInst *x, const HlInst *y, const HlDimLabels *labels) {
  const HlShape *k = x->operands[1]->shape, *l = y->operands[1]->shape;
  if (x->operands[0] != y->operands[0] || !eg_same_kind(x, y) || k->dtype != l->dtype ||
      k->rank != l->rank || x->shape->dtype != y->shape->dtype)
    return false;
  for (int64_t d = 0; d < k->rank; d++)
    if (d != labels->kernel_output && k->dim[d] != l->dim[d])
      return false;
  return true;
}

bool eg_convolutions_beside(HlBuild *b, int n, HlInst *const *roots, HlInst **by) {
  HlInst *kernel[EG_MOST_SIDE_BY_SIDE];
  const HlInst *first = roots[0];
  const HlDimLabels *labels = hl_attr_ptr(first, HL_A_DIM_LABELS);
  if (!labels || !is_one_group(first) || first->n_operands != 2)
    return false;
  int64_t dim[64], outputs = 0;
  for (int k = 0; k < n; k++) {
    if (!goes_with(first, roots[k], labels))
      return false;
    kernel[k] = roots[k]->operands[1];
    outputs += roots[k]->shape->dim[labels->output_feature];
  }
  HlInst *all = hl_b_concatenate(b, n, kernel, labels->kernel_output);
  if (!all || first->shape->rank > HL_COUNT_OF(dim))
    return false;
  for (int64_t d = 0; d < first->shape->rank; d++)
    dim[d] = d == labels->output_feature ? outputs : first->shape->dim[d];
  const HlShape *shape =
      hl_shape_array(hl_b_module(b)->shapes, first->shape->dtype, first->shape->rank, dim);
  return eg_cut_apart(b, eg_like(b, first, shape, 2, (HlInst *[]){first->operands[0], all}),
                      labels->output_feature, n, roots, by);
}

// --- Divisions ----------------------------------------------------------------------------------------------------

bool eg_divisions_beside(HlBuild *b, int n, HlInst *const *roots, HlInst **by) {
  HlInst *z = roots[0]->operands[1];
  if (!hl_is_float(z->shape->dtype) || !eg_is_plain(roots[0]))
    return false;
  for (int k = 0; k < n; k++)
    if (roots[k]->operands[1] != z || !eg_is_plain(roots[k]))
      return false;
  HlInst *inverse = hl_b_binary(b, HL_OP_DIVIDE, hl_b_like(b, z, 1), z);
  for (int k = 0; k < n; k++)
    by[k] = hl_b_binary(b, HL_OP_MULTIPLY, roots[k]->operands[0], inverse);
  return true;
}
