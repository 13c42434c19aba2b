// opt/gpu/gemv_rewriter.c: products of a matrix and a vector as products of matrices, one of them a
// single row or column.
//
//   d = f32[32] dot(f32[64] v, f32[64,32] m)   =>   d' = f32[1,32] dot(reshape(v) [64,1], m)
//                                                   d  = f32[32] reshape(d')
//
// The arrays lie row-major; where layouts count the reshapes are bitcasts, and the matrix may lie as it likes.
#include "opt/ask/dots.h"

static HlInst *reshaped(HlPass *p, HlBuild *b, HlInst *x, HlI64s sizes) {
  if (!x || !hl_pass_flag(p, "layout_sensitive"))
    return made_reshape(b, x, sizes);
  const HlShape *shape = hl_shape_array(p->m->shapes, x->shape->dtype, sizes.n, sizes.at);
  return hl_b_op(b, HL_OP_BITCAST, shape, 1, &x, 0, NULL, 0, NULL);
}

static bool is_row_major(const HlInst *x) {
  return !x->shape->layout || hl_layout_is_default(x->shape->layout);
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (d.free[0].n + d.free[1].n != 1 || d.contract[0].n != 1 || !all_static(dot))
    return NULL;
  int side = d.free[0].n == 0 ? 0 : 1;
  HlInst *x[2] = {dot->operands[0], dot->operands[1]};
  const int64_t one = 1;
  if (!is_row_major(x[side]) || !is_row_major(dot) ||
      (!hl_pass_flag(p, "layout_sensitive") && !is_row_major(x[1 - side])))
    return NULL;
  const HlShape *vector = x[side]->shape;
  x[side] = reshaped(p, b, x[side],
                     dims_joined(p->arena, (HlI64s){vector->dim, vector->rank}, (HlI64s){&one, 1}));
  HlInst *wide = dot_of(b, dot, x[0], x[1], d);
  return reshaped(p, b, wide, (HlI64s){dot->shape->dim, dot->shape->rank});
}

const HlRule gemv_rewriter_rules[] = {
    {HL_OP_DOT, rewrite, "gemv-rewriter", "dot(vector, m) => reshape(dot(reshape(vector), m))",
     "one side has only batch and contracting dimensions; either side"},
    {0},
};
