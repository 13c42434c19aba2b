// opt/simplify/batch_dot_simplification.c: drops batch dimensions of size 1 from dots.
//
//   d = f32[1,3,7] dot(x[1,3,5], y[1,5,7]),        d' = f32[3,7] dot(reshape(x), reshape(y)),
//     batch 0, contracting 2 with 1           =>        contracting 1 with 0
//                                                  d  = f32[1,3,7] reshape(d')
#include "opt/ask/dots.h"
#include "opt/ask/frontend.h"
#include "opt/ask/layouts.h"

static HlInst *without_leading(HlPass *p, HlBuild *b, HlInst *x, HlI64s drop) {
  const HlShape *smaller = hl_without_dims(p->arena, hl_b_module(b)->shapes, x->shape, drop);
  HlInst *made = hl_b_op(b, HL_OP_RESHAPE, smaller, 1, &x, 0, NULL, 0, NULL);
  if (made)
    frontend_keep(made, x);
  return made;
}

static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (!hl_i64s_equal(d.batch[0], d.batch[1]) || !dims_are_iota(d.batch[0]) ||
      d.contract[0].n != 1 || !all_static(dot))
    return NULL;
  int64_t *ones = HL_ARRAY(p->arena, int64_t, d.batch[0].n + 1);
  int n = 0;
  for (int k = 0; k < d.batch[0].n; k++)
    if (dot->operands[0]->shape->dim[k] == 1)
      ones[n++] = k;
  if (n == 0)
    return NULL;
  HlInst *x = without_leading(p, b, dot->operands[0], (HlI64s){ones, n});
  HlInst *y = without_leading(p, b, dot->operands[1], (HlI64s){ones, n});
  HlI64s batch = dims_from(p->arena, 0, d.batch[0].n - n);
  HlI64s x_contract = dims_from(p->arena, d.contract[0].at[0] - n, 1);
  HlI64s y_contract = dims_from(p->arena, d.contract[1].at[0] - n, 1);
  HlInst *smaller = dot_like(b, dot, x, y, batch, batch, x_contract, y_contract);
  return made_reshape(b, smaller, (HlI64s){dot->shape->dim, dot->shape->rank});
}

const HlRule batch_dot_simplification_rules[] = {
    {HL_OP_DOT, simplify, "batch-dot-simplification",
     "dot(x, y) => reshape(dot(reshape(x), reshape(y)))",
     "leading batch dimensions, some of size 1, and one contracting dimension"},
    {0},
};
