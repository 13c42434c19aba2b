// opt/expand/scaled_dot_rewriter.c
//
// scaled-dot-rewriter: a scaled-dot is a dot of operands that are multiplied by their scales first.
//
//   r = bf16[m,n] scaled-dot(f8e5m2[m,64] x, f8e5m2[64,n] y, f8e8m0fnu[m,2] s, f8e8m0fnu[2,n] t)
//   =>  x' = bf16[m,64] multiply(convert(x), reshape(broadcast(convert(s), [m,2,32])))
//       r = dot(x', y')
//
// The scale of an operand divides it into blocks; a scalar scale means none.

#include "opt/ask/dots.h"
#include "opt/passes.h"

// Each element of the scale for a whole block of x.
static HlInst *stretched(HlPass *p, HlBuild *b, HlInst *scale, const HlShape *x) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, 2 * x->rank + 1);
  int64_t *from = HL_ARRAY(p->arena, int64_t, x->rank + 1);
  int n = 0;
  for (int d = 0; d < x->rank; d++) {
    const int64_t blocks = scale->shape->dim[d];
    from[d] = n;
    dim[n++] = blocks;
    if (blocks != x->dim[d])
      dim[n++] = x->dim[d] / blocks;
  }
  return hl_b_reshape(b, hl_b_broadcast(b, scale, n, dim, (HlI64s){from, x->rank}), x->rank,
                      x->dim);
}

bool dot_scale_fits(const HlInst *scale, const HlShape *x) {
  if (scale->shape->rank == 0)
    return true;
  bool fits = scale->shape->rank == x->rank;
  for (int d = 0; fits && d < x->rank; d++)
    fits = scale->shape->dim[d] > 0 && x->dim[d] % scale->shape->dim[d] == 0;
  return fits;
}

HlInst *dot_scaled(HlPass *p, HlBuild *b, HlInst *x, HlInst *scale, HlDtype dtype) {
  HlInst *value = hl_b_convert(b, x, dtype);
  if (scale->shape->rank == 0)
    return value;
  HlInst *factor = hl_b_convert(b, scale, dtype);
  return factor ? hl_b_binary(b, HL_OP_MULTIPLY, value, stretched(p, b, factor, x->shape)) : NULL;
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *dot) {
  HlInst *const *in = dot->operands;
  const HlDtype dtype = dot->shape->dtype;
  if (!all_static(dot) || !hl_is_float(dtype) || !dot_scale_fits(in[2], in[0]->shape) ||
      !dot_scale_fits(in[3], in[1]->shape))
    return NULL;
  DotDims dims = dot_dims(p->arena, dot);
  HlInst *x = dot_scaled(p, b, in[0], in[2], dtype), *y = dot_scaled(p, b, in[1], in[3], dtype);
  return dot_of(b, dot, x, y, dims);
}

const HlRule scaled_dot_rules[] = {
    {HL_OP_SCALED_DOT, rewrite, "scaled-dot-rewriter",
     "scaled-dot(x, y, s, t) => dot(x * broadcast(s), y * broadcast(t))",
     "static shapes of floats"},
    {0},
};
