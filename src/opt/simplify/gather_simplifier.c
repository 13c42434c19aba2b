// opt/simplify/gather_simplifier.c: brings gathers into one form: indices [n, k], result [n, slice...] with
// no dimension collapsed.
//
// Collapsed dimensions are reshaped away after it, rows become the dimensions that the indices had,
// and a transpose puts the slice's dimensions where the result had them.
//
//   g = f32[5,8] gather(f32[9,8] x, s32[5] i),      i' = s32[5,1] reshape(i)
//     offset_dims={1}, collapsed_slice_dims={0}  =>  g' = f32[5,1,8] gather(x, i')
//                                                  g  = f32[5,8] reshape(g')
#include "opt/ask/gathers.h"

typedef struct Gather {
  HlI64s offset, collapsed, map, sizes;
  int64_t index_dim;
} Gather;

static Gather read_gather(const HlInst *gather) {
  return (Gather){
      hl_attr_ints(gather, HL_A_OFFSET_DIMS), hl_attr_ints(gather, HL_A_COLLAPSED_SLICE_DIMS),
      hl_attr_ints(gather, HL_A_START_INDEX_MAP), hl_attr_ints(gather, HL_A_SLICE_SIZES),
      hl_attr_int(gather, HL_A_INDEX_VECTOR_DIM)};
}

static bool is_simple(const HlInst *gather, const Gather *g) {
  if (gather->operands[1]->shape->rank != 2 || g->index_dim != 1 || g->collapsed.n > 0)
    return false;
  for (int k = 0; k < g->offset.n; k++)
    if (g->offset.at[k] != k + 1)
      return false;
  return true;
}

static HlInst *simple_gather(HlBuild *b, const HlInst *gather, const Gather *g, HlInst *indices) {
  HlArena *arena = hl_b_module(b)->arena;
  HlInst *operands[] = {gather->operands[0], indices};
  HlAttr attrs[] = {
      {.key = HL_A_OFFSET_DIMS, .ints = dims_from(arena, 1, g->sizes.n)},
      {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = {0}},
      {.key = HL_A_START_INDEX_MAP, .ints = g->map},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = 1},
      {.key = HL_A_SLICE_SIZES, .ints = g->sizes},
      {.key = HL_A_INDICES_ARE_SORTED, .i = hl_attr_int(gather, HL_A_INDICES_ARE_SORTED)},
  };
  return hl_b_op(b, HL_OP_GATHER, NULL, 2, operands, HL_COUNT_OF(attrs), attrs, 0, NULL);
}

// From [n, slice...] to the dimensions of the old result.
static HlInst *restore(HlPass *p, HlBuild *b, const HlInst *gather, const Gather *g, HlInst *out) {
  int64_t *collapsed = HL_ARRAY(p->arena, int64_t, g->collapsed.n + 1);
  for (int k = 0; k < g->collapsed.n; k++)
    collapsed[k] = g->collapsed.at[k] + 1;
  out = dims_dropped(p, b, out, (HlI64s){collapsed, g->collapsed.n});
  if (!out)
    return NULL;
  HlI64s batch = gather_batch_sizes(p->arena, gather->operands[1]->shape, g->index_dim);
  HlI64s window = {out->shape->dim + 1, out->shape->rank - 1};
  HlI64s sizes = dims_joined(p->arena, batch, window);
  out = hl_b_reshape(b, out, sizes.n, sizes.at);
  // Offset dimensions stand where the result has them, batch dimensions in between.
  int64_t *place = HL_ARRAY(p->arena, int64_t, sizes.n + 1);
  int next_batch = 0, next_offset = batch.n;
  for (int d = 0; d < sizes.n; d++)
    place[d] = hl_i64s_find(g->offset, d) >= 0 ? next_offset++ : next_batch++;
  return dims_moved(b, out, (HlI64s){place, sizes.n});
}

static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *gather) {
  Gather g = read_gather(gather);
  if (is_simple(gather, &g) || hl_attr_ints(gather, HL_A_OPERAND_BATCHING_DIMS).n > 0 ||
      !all_static(gather))
    return NULL;
  if (hl_i64s_find(g.sizes, 0) >= 0)
    return hl_b_full(b, gather->shape->dtype, gather->shape->rank, gather->shape->dim, 0);
  HlInst *indices = gather_flat_indices(p, b, gather->operands[1], g.index_dim);
  HlInst *out = indices ? simple_gather(b, gather, &g, indices) : NULL;
  return out ? restore(p, b, gather, &g, out) : NULL;
}

const HlRule gather_simplifier_rules[] = {
    {HL_OP_GATHER, simplify, "gather_simplifier",
     "gather(x, i) => transpose(reshape(gather(x, reshape(i))))",
     "indices that are not [n, k], a result that is not [n, slice...], or collapsed dimensions"},
    {0},
};
