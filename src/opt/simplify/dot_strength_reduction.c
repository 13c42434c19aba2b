// opt/simplify/dot_strength_reduction.c: dots of two vectors as a multiplication and a sum, which fuse.
//
//   d = f32[] dot(x [5], y [5])    =>    d = f32[] reduce(multiply(x, y), 0), to_apply=add
//
// Of two numbers it is their product. A product of a matrix and a vector, too, with matrix_vector; with small_matrix_vector where reading it takes
// no tiles of a product of matrices, or those cannot compute it.
#include "opt/ask/dots.h"

enum { SMALL_PRODUCT = 10000000 };  // elements that are read for each of a batch

// Floats of 16 bits and f32 in the precision that is usual.
static bool has_tiles(const HlInst *dot) {
  const HlDtype dtype = dot->shape->dtype;
  const HlI64s precision = hl_attr_ints(dot, HL_A_OPERAND_PRECISION);
  for (int k = 0; k < precision.n; k++)
    if (precision.at[k] != HL_WORD_precision_DEFAULT)
      return false;
  return dtype == HL_F32 || dtype == HL_BF16 || dtype == HL_F16;
}

static bool is_small(const HlInst *dot, DotDims d) {
  int64_t n_free = 0;
  for (int k = 0; k < 2; k++)
    n_free += dims_product(dot->operands[k]->shape, d.free[k]);
  return dims_product(dot->operands[0]->shape, d.contract[0]) * n_free < SMALL_PRODUCT;
}

static bool reduces_matrix(HlPass *p, const HlInst *dot, DotDims d) {
  if (hl_pass_flag(p, "matrix_vector"))
    return true;
  return hl_pass_flag(p, "small_matrix_vector") && (is_small(dot, d) || !has_tiles(dot));
}

static HlInst *reduce_strength(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!all_static(dot))
    return NULL;
  DotDims d = dot_dims(p->arena, dot);
  bool vectors = d.free[0].n == 0 && d.free[1].n == 0;
  bool one_vector = d.free[0].n == 0 || d.free[1].n == 0;
  if (!vectors && !(one_vector && d.contract[0].n > 0 && reduces_matrix(p, dot, d)))
    return NULL;
  hl_keep_layout(p);
  return dot_as_sum(p->arena, b, dot, d);
}

const HlRule dot_strength_reduction_rules[] = {
    {HL_OP_DOT, reduce_strength, "dot-strength-reduction", "dot(x, y) => reduce(multiply(x, y))",
     "both sides have only batch and contracting dimensions; one of them, with matrix_vector, and "
     "with "
     "small_matrix_vector where it is small or no tiles compute it"},
    {0},
};
