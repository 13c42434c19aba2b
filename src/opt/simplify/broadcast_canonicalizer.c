// opt/simplify/broadcast_canonicalizer.c: broadcasts whose dimensions are out of order become a broadcast in
// order and a transpose.
//
//   b = f32[4,8,2] broadcast(f32[2,4] x),      b' = f32[2,8,4] broadcast(x), dimensions={0,2}
//     dimensions={2,0}                     =>  b  = f32[4,8,2] transpose(b'), dimensions={2,1,0}
#include "opt/ask/dots.h"

static HlInst *canonicalize(HlPass *p, HlBuild *b, HlInst *broadcast) {
  HlI64s dims = hl_dims(broadcast), sorted = dims_sorted(p->arena, dims);
  if (hl_i64s_equal(dims, sorted) || !all_static(broadcast))
    return NULL;
  const HlShape *shape = broadcast->shape;
  int64_t *back =
      HL_ARRAY(p->arena, int64_t, shape->rank);  // result dimension -> of the new broadcast
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, shape->rank);
  for (int d = 0; d < shape->rank; d++)
    back[d] = d;
  for (int k = 0; k < dims.n; k++)
    back[dims.at[k]] = sorted.at[k];
  for (int d = 0; d < shape->rank; d++)
    sizes[back[d]] = shape->dim[d];
  HlInst *in_order = hl_b_broadcast(b, broadcast->operands[0], shape->rank, sizes, sorted);
  return in_order ? hl_b_transpose(b, in_order, (HlI64s){back, shape->rank}) : NULL;
}

const HlRule broadcast_canonicalizer_rules[] = {
    {HL_OP_BROADCAST, canonicalize, "broadcast_canonicalizer",
     "broadcast(x), dimensions={2,0} => transpose(broadcast(x), dimensions={0,2})",
     "dimensions out of order"},
    {0},
};
