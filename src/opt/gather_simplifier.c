// opt/gather_simplifier.c: brings gathers into one form: indices [n, k], the k parts of an index
// vector for the first k dimensions of the operand, result [n, slice...] with no dimension collapsed.
//
// The operand is transposed so that the indexed dimensions come first; collapsed dimensions are
// reshaped away, and what the result's dimensions were is restored by a transpose.
//
//   g = f32[5,8] gather(f32[9,8] x, s32[5] i),         i' = s32[5,1] reshape(i)
//     offset_dims={1}, collapsed_slice_dims={0},  =>   g' = f32[5,1,8] gather(x, i'), offset_dims={1,2}
//     index_vector_dim=1                               g  = f32[5,8] reshape(g')
#include "opt/gathers.h"

typedef struct Gather {
  HlI64s offset, collapsed, map, sizes;
  int64_t index_dim;
} Gather;

static Gather read_gather(const HlInst *gather) {
  return (Gather){hl_attr_ints(gather, HL_A_OFFSET_DIMS),
                  hl_attr_ints(gather, HL_A_COLLAPSED_SLICE_DIMS),
                  hl_attr_ints(gather, HL_A_START_INDEX_MAP),
                  hl_attr_ints(gather, HL_A_SLICE_SIZES),
                  hl_attr_int(gather, HL_A_INDEX_VECTOR_DIM)};
}

static bool is_simple(const HlInst *gather, const Gather *g) {
  if (gather->operands[1]->shape->rank != 2 || g->index_dim != 1 || !dims_are_iota(g->map) ||
      g->collapsed.n > 0)
    return false;
  for (int k = 0; k < g->offset.n; k++)
    if (g->offset.at[k] != k + 1)
      return false;
  return true;
}

static HlInst *simple_gather(HlPass *p, HlBuild *b, const HlInst *gather, const Gather *g,
                             HlInst *x, HlInst *indices, HlI64s sizes) {
  HlArena *arena = hl_b_module(b)->arena;
  HlInst *operands[] = {x, indices};
  HlAttr attrs[] = {
      {.key = HL_A_OFFSET_DIMS, .ints = dims_from(arena, 1, sizes.n)},
      {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = {0}},
      {.key = HL_A_START_INDEX_MAP, .ints = dims_from(arena, 0, g->map.n)},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = 1},
      {.key = HL_A_SLICE_SIZES, .ints = hl_i64s_copy(arena, sizes)},
      {.key = HL_A_INDICES_ARE_SORTED, .i = hl_attr_int(gather, HL_A_INDICES_ARE_SORTED)},
  };
  (void)p;
  return hl_b_op(b, HL_OP_GATHER, NULL, 2, operands, HL_COUNT_OF(attrs), attrs, 0, NULL);
}

// From [n, slice in the new order] to the dimensions of the old result.
static HlInst *restore(HlPass *p, HlBuild *b, const HlInst *gather, const Gather *g, HlInst *out,
                       HlI64s order) {
  HlI64s back = dims_inverse(p->arena, order);
  int64_t *with_row = HL_ARRAY(p->arena, int64_t, back.n + 1);
  for (int k = 0; k < back.n; k++)
    with_row[k + 1] = back.at[k] + 1;
  out = moved(b, out, (HlI64s){with_row, back.n + 1});
  if (!out)
    return NULL;
  // Rows become the batch dimensions again, collapsed dimensions go.
  HlI64s batch = index_batch(p->arena, gather->operands[1]->shape, g->index_dim);
  HlI64s window = dims_except(p->arena, g->sizes.n, g->collapsed, (HlI64s){0});
  HlI64s sizes = dims_joined(p->arena, batch, dims_mapped(p->arena, window, g->sizes.at));
  out = hl_b_reshape(b, out, sizes.n, sizes.at);
  // Offset dimensions stand where the result has them, batch dimensions in between.
  int64_t *place = HL_ARRAY(p->arena, int64_t, sizes.n + 1);
  int next_batch = 0, next_offset = batch.n;
  for (int d = 0; d < sizes.n; d++)
    place[d] = hl_i64s_find(g->offset, d) >= 0 ? next_offset++ : next_batch++;
  return moved(b, out, (HlI64s){place, sizes.n});
}

static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *gather) {
  Gather g = read_gather(gather);
  if (is_simple(gather, &g) || hl_attr_ints(gather, HL_A_OPERAND_BATCHING_DIMS).n > 0 ||
      !all_static(gather))
    return NULL;
  if (hl_i64s_find(g.sizes, 0) >= 0)
    return hl_b_full(b, gather->shape->dtype, gather->shape->rank, gather->shape->dim, 0);
  HlI64s order = indexed_first(p->arena, g.map, g.sizes.n);
  HlInst *x = moved(b, gather->operands[0], order);
  HlInst *indices = flat_indices(p, b, gather->operands[1], g.index_dim);
  HlInst *out = simple_gather(p, b, gather, &g, x, indices,
                              dims_mapped(p->arena, order, g.sizes.at));
  return restore(p, b, gather, &g, out, order);
}

const HlRule gather_simplifier_rules[] = {
    {HL_OP_GATHER, simplify, "gather_simplifier",
     "gather(x, i) => transpose(reshape(gather(transpose(x), reshape(i))))",
     "indices that are not [n, k], or k not of the first dimensions, or collapsed dimensions"},
    {0},
};
