// opt/simplify/dot_strength_reduction.c: dots of two vectors as a multiplication and a sum, which fuse.
//
//   d = f32[] dot(x [5], y [5])    =>    d = f32[] reduce(multiply(x, y), 0), to_apply=add
#include "opt/ask/dots.h"

static HlInst *reduce_strength(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!all_static(dot))
    return NULL;
  DotDims d = dot_dims(p->arena, dot);
  bool vectors = d.free[0].n == 0 && d.free[1].n == 0;
  bool one_vector = d.free[0].n == 0 || d.free[1].n == 0;
  if (d.contract[0].n == 0 || !(hl_pass_flag(p, "matrix_vector") ? one_vector : vectors))
    return NULL;
  return dot_as_sum(p->arena, b, dot, d);
}

const HlRule dot_strength_reduction_rules[] = {
    {HL_OP_DOT, reduce_strength, "dot-strength-reduction", "dot(x, y) => reduce(multiply(x, y))",
     "both sides have only batch and contracting dimensions; one of them, with matrix_vector"},
    {0},
};
