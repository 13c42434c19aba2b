// opt/simplify/dot_decomposer.c: brings every dot into the form libraries take: leading batch dimensions,
// then at most one free and exactly one contracting dimension on each side.
//
// Free dimensions are merged into one by transposing and reshaping each operand, contracting ones
// likewise; the result is reshaped back. A merged free dimension of size 1 is left out.
//
//   d = f32[2,3,7] dot(x[2,3,5], w[5,7]),         x' = reshape(transpose(x)), [2,3,5] -> [6,5]
//     contracting 2 with 0                   =>   d' = f32[6,7] dot(x', reshape(transpose(w)))
//                                                 d  = f32[2,3,7] reshape(d')
#include "opt/ask/dots.h"

static bool is_canonical(DotDims d) {
  if (d.contract[0].n != 1 || d.free[0].n > 1 || d.free[1].n > 1)
    return false;
  return dims_are_iota(d.batch[0]) && dims_are_iota(d.batch[1]);
}

// The operand with its dimensions in the order batch, first, second, the last two merged into one
// each; the free one (first of the left operand, second of the right one) only if it is not of size
// 1.
static HlInst *canonical_operand(HlPass *p, HlBuild *b, HlInst *x, DotDims d, int side,
                                 int64_t free, int64_t contract) {
  HlI64s merged = side == 0 ? dims_joined(p->arena, d.free[0], d.contract[0])
                            : dims_joined(p->arena, d.contract[1], d.free[1]);
  HlInst *moved = made_transpose(b, x, dims_joined(p->arena, d.batch[side], merged));
  if (!moved)
    return NULL;
  if (x->shape->layout)  // the operand's, not yet chosen for the other order
    hl_set_shape(moved, hl_shape_array_full(p->m->shapes, x->shape->dtype, x->shape->rank,
                                            moved->shape->dim, NULL, x->shape->layout));
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, d.batch[side].n + 2);
  int n = 0;
  for (; n < d.batch[side].n; n++)
    sizes[n] = moved->shape->dim[n];
  if (side == 0 && free != 1)
    sizes[n++] = free;
  sizes[n++] = contract;
  if (side == 1 && free != 1)
    sizes[n++] = free;
  return made_reshape(b, moved, (HlI64s){sizes, n});
}

static HlInst *decompose(HlPass *p, HlBuild *b, HlInst *dot) {
  HlInst *x = dot->operands[0], *y = dot->operands[1];
  DotDims d = dot_dims(p->arena, dot);
  if (is_canonical(d) || !all_static(dot))
    return NULL;
  int64_t contract = dims_product(x->shape, d.contract[0]);
  int64_t x_free = dims_product(x->shape, d.free[0]), y_free = dims_product(y->shape, d.free[1]);
  HlInst *left = canonical_operand(p, b, x, d, 0, x_free, contract);
  HlInst *right = canonical_operand(p, b, y, d, 1, y_free, contract);
  int n_batch = d.batch[0].n;
  HlI64s batch = dims_from(p->arena, 0, n_batch);
  HlI64s x_contract = dims_from(p->arena, n_batch + (x_free != 1), 1);
  HlI64s y_contract = dims_from(p->arena, n_batch, 1);
  HlInst *flat = dot_like(b, dot, left, right, batch, batch, x_contract, y_contract);
  return made_reshape(b, flat, (HlI64s){dot->shape->dim, dot->shape->rank});
}

const HlRule dot_decomposer_rules[] = {
    {HL_OP_DOT, decompose, "dot_decomposer",
     "dot(x, y) => reshape(dot(reshape(transpose(x)), reshape(transpose(y))))",
     "more than one contracting or free dimension on a side, or batch dimensions not in front"},
    {0},
};
