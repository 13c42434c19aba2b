// opt/expand/gather_expander.c: gathers as loops that slice out one box after the other.
//
// simple: only gathers of one index vector, whose loop runs once and is then inlined, and gathers
// whose slices are the whole operand, where no index can matter, since starts are clamped.
//
//   g = f32[2,8] gather(f32[9,8] x, s32[2,1] i),      acc = zeros [2,8]
//     slice_sizes={1,8}, collapsed {0}            =>  for r in 0..2:
//                                                       s = dynamic-slice(x, i[r], 0), sizes {1,8}
//                                                       acc[r] = reshape(s)
#include "opt/ask/gathers.h"

typedef struct Gather {
  const HlInst *inst;
  HlI64s offset, lost, map,
      sizes;  // lost: collapsed and batching dimensions, which the result lacks
  HlI64s batching, indices_batching;
  int64_t index_dim;
  HlI64s batch;   // sizes of what counts index vectors
  HlI64s window;  // sizes of what a slice leaves in the result
} Gather;

static Gather read_gather(HlPass *p, const HlInst *inst) {
  Gather g = {.inst = inst,
              .offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS),
              .map = hl_attr_ints(inst, HL_A_START_INDEX_MAP),
              .sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES),
              .batching = hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS),
              .indices_batching = hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS),
              .index_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM)};
  g.lost = dims_joined(p->arena, hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS), g.batching);
  g.batch = gather_batch_sizes(p->arena, inst->operands[1]->shape, g.index_dim);
  HlI64s kept = dims_except(p->arena, g.sizes.n, g.lost, (HlI64s){0});
  g.window = dims_mapped(p->arena, kept, g.sizes.at);
  return g;
}

static int64_t product(HlI64s sizes) {
  int64_t n = 1;
  for (int k = 0; k < sizes.n; k++)
    n *= sizes.at[k];
  return n;
}

static bool is_whole_operand(const HlInst *gather) {
  HlI64s sizes = hl_attr_ints(gather, HL_A_SLICE_SIZES);
  const HlShape *x = gather->operands[0]->shape;
  return hl_i64s_equal(sizes, (HlI64s){x->dim, x->rank});
}

// Where in the operand the slice of row i starts: a scalar for each dimension.
static bool slice_starts(HlPass *p, HlBuild *b, const Gather *g, HlInst *indices, HlInst *i,
                         HlInst **starts) {
  HlInst **vector = HL_ARRAY(p->arena, HlInst *, g->map.n + 1);
  if (!gather_index_vector(p, b, indices, i, vector))
    return false;
  HlDtype dtype = indices->shape->dtype;
  for (int d = 0; d < g->sizes.n; d++) {
    int part = hl_i64s_find(g->map, d), row = hl_i64s_find(g->batching, d);
    if (part >= 0) {
      starts[d] = vector[part];
      continue;
    }
    if (row < 0) {
      starts[d] = gather_zero(b, dtype);
      continue;
    }
    int64_t at = g->indices_batching.at[row];
    int k = (int)(at > g->index_dim ? at - 1 : at);
    starts[d] = hl_b_convert(b, gather_row_coordinate(b, i, g->batch, k), dtype);
  }
  return true;
}

// State: operand, indices [n, k], result [n, window...].
static bool gather_row(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user) {
  const Gather *g = user;
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, g->sizes.n + 1);
  if (!slice_starts(p, b, g, state[1], i, starts))
    return false;
  HlInst *slice = hl_b_dynamic_slice(b, state[0], starts, g->sizes.at);
  if (!slice)
    return false;
  HlInst *acc = state[2];
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, acc->shape->rank);
  HlInst **to = HL_ARRAY(p->arena, HlInst *, acc->shape->rank);
  for (int d = 0; d < acc->shape->rank; d++) {
    sizes[d] = d == 0 ? 1 : acc->shape->dim[d];
    to[d] = d == 0 ? i : gather_zero(b, HL_S32);
  }
  state[2] = hl_b_dynamic_update_slice(b, acc, hl_b_reshape(b, slice, acc->shape->rank, sizes), to);
  return state[2];
}

// [n, window...] or [window...] to the result's dimensions.
static HlInst *unflatten(HlPass *p, HlBuild *b, const Gather *g, HlInst *rows) {
  if (!rows)
    return NULL;
  HlI64s sizes = dims_joined(p->arena, g->batch, g->window);
  HlInst *out = hl_b_reshape(b, rows, sizes.n, sizes.at);
  int64_t *place = HL_ARRAY(p->arena, int64_t, sizes.n + 1);
  int next_batch = 0, next_offset = g->batch.n;
  for (int d = 0; d < sizes.n; d++)
    place[d] = hl_i64s_find(g->offset, d) >= 0 ? next_offset++ : next_batch++;
  return dims_moved(b, out, (HlI64s){place, sizes.n});
}

static HlInst *expand_whole(HlPass *p, HlBuild *b, const Gather *g) {
  HlInst *x = dims_dropped(p, b, g->inst->operands[0], g->lost);
  const HlShape *out = g->inst->shape;
  return x ? hl_b_broadcast(b, x, out->rank, out->dim, dims_sorted(p->arena, g->offset)) : NULL;
}

static HlInst *expand_loop(HlPass *p, HlBuild *b, Gather *g, int64_t n) {
  HlI64s acc = dims_joined(p->arena, (HlI64s){&n, 1}, g->window);
  HlInst *state[] = {g->inst->operands[0],
                     gather_flat_indices(p, b, g->inst->operands[1], g->index_dim),
                     hl_b_full(b, g->inst->shape->dtype, acc.n, acc.at, 0)};
  HlInst *loop = counted_loop(p, b, "gather", n, 3, state, gather_row, g);
  return loop ? unflatten(p, b, g, hl_b_element(b, loop, 3)) : NULL;
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *gather) {
  if (!all_static(gather) || hl_shape_elements(gather->shape) == 0)
    return NULL;
  Gather g = read_gather(p, gather);
  int64_t n = product(g.batch);
  bool whole = is_whole_operand(gather) && g.batching.n == 0;
  if (n > INT32_MAX || (hl_pass_flag(p, "simple") && n != 1 && !whole))
    return NULL;
  return whole ? expand_whole(p, b, &g) : expand_loop(p, b, &g, n);
}

const HlRule gather_expander_rules[] = {
    {HL_OP_GATHER, expand, "gather_expander",
     "gather(x, i) => while: dynamic-slice, dynamic-update-slice",
     "simple: one index vector, or slices that are the whole operand"},
    {0},
};
