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

// --- A row, by vectors of indices as XLA has it -----------------------------------------------------

static HlInst *one_element(HlBuild *b, HlInst *scalar) {
  return hl_b_broadcast(b, scalar, 1, (const int64_t[]){1}, (HlI64s){0});
}

// Element k of a vector as a vector of one.
static HlInst *element(HlBuild *b, HlInst *vector, int k) {
  const int64_t one = 1;
  const HlShape *shape = hl_shape_array(hl_b_module(b)->shapes, vector->shape->dtype, 1, &one);
  int64_t *range = HL_ARRAY(hl_b_module(b)->arena, int64_t, 3);
  range[0] = k, range[1] = k + 1, range[2] = 1;
  HlAttr attr = {.key = HL_A_SLICE, .ints = {range, 3}};
  return hl_b_op(b, HL_OP_SLICE, shape, 1, &vector, 1, &attr, 0, NULL);
}

// The elements of a vector as scalars.
static bool elements(HlBuild *b, HlInst *vector, int n, HlInst **out) {
  for (int k = 0; vector && k < n; k++)
    if (!(out[k] = hl_b_reshape(b, element(b, vector, k), 0, NULL)))
      return false;
  return vector != NULL;
}

// The vector of one element with n zeros behind it.
static HlInst *with_zeros(HlBuild *b, HlInst *vector, int64_t n) {
  if (n == 0)
    return vector;
  return hl_b_pad(b, vector, gather_zero(b, vector->shape->dtype), (const int64_t[]){0},
                  (const int64_t[]){n}, NULL);
}

// The index vector of row i, of which `at` is a vector.
static HlInst *index_vector(HlPass *p, HlBuild *b, HlInst *indices, HlInst *at) {
  const int64_t sizes[] = {1, indices->shape->dim[1]};
  HlInst *starts[2];
  if (!elements(b, with_zeros(b, at, 1), 2, starts))
    return NULL;
  HlInst *row = hl_b_dynamic_slice(b, indices, starts, sizes);
  return row ? made_reshape(b, row, (HlI64s){sizes + 1, 1}) : NULL;
}

static HlInst *zero_vector(HlBuild *b, HlDtype dtype) {
  const int64_t one = 1;
  HlLiteral *value = hl_literal_new(b->cx, hl_shape_array(hl_b_module(b)->shapes, dtype, 1, &one));
  if (!value)
    return NULL;
  hl_literal_set_i64(value, 0, 0);
  HlInst *made = hl_b_constant(b, value);
  hl_literal_unref(value);
  return made;
}

// Where in the operand the slice of row i starts, as a vector.
static HlInst *slice_start(HlPass *p, HlBuild *b, const Gather *g, HlInst *vector, HlInst *i) {
  HlInst **part = HL_ARRAY(p->arena, HlInst *, g->sizes.n + 1);
  const HlDtype dtype = vector->shape->dtype;
  HlInst *zero = zero_vector(b, dtype);
  for (int d = 0; d < g->sizes.n; d++) {
    const int k = hl_i64s_find(g->map, d), row = hl_i64s_find(g->batching, d);
    part[d] = zero;
    if (k >= 0) {
      part[d] = element(b, vector, k);
    } else if (row >= 0) {
      const int64_t at = g->indices_batching.at[row];
      const int c = (int)(at > g->index_dim ? at - 1 : at);
      part[d] = one_element(b, hl_b_convert(b, gather_row_coordinate(b, i, g->batch, c), dtype));
    }
  }
  return g->sizes.n == 1 ? part[0] : hl_b_concatenate(b, g->sizes.n, part, 0);
}

// State: operand, indices [n, k], result [n, window...].
static bool gather_row(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user) {
  const Gather *g = user;
  HlInst *acc = state[2], *at = one_element(b, i);
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, g->sizes.n + 1);
  HlInst **to = HL_ARRAY(p->arena, HlInst *, acc->shape->rank);
  HlInst *vector = index_vector(p, b, state[1], at);
  if (!vector || !elements(b, slice_start(p, b, g, vector, i), g->sizes.n, starts))
    return false;
  HlInst *slice = made_reshape(b, hl_b_dynamic_slice(b, state[0], starts, g->sizes.at), g->window);
  const HlI64s one_row = dims_joined(p->arena, (HlI64s){(const int64_t[]){1}, 1}, g->window);
  if (!slice || !elements(b, with_zeros(b, at, g->window.n), acc->shape->rank, to))
    return false;
  state[2] = hl_b_dynamic_update_slice(b, acc, made_reshape(b, slice, one_row), to);
  return state[2];
}

// [n, window...] or [window...] to the result's dimensions.
static HlInst *unflatten(HlPass *p, HlBuild *b, const Gather *g, HlInst *rows) {
  if (!rows)
    return NULL;
  HlI64s sizes = dims_joined(p->arena, g->batch, g->window);
  HlInst *out = made_reshape(b, rows, sizes);
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
  HlInst *indices = gather_flat_indices(p, b, g->inst->operands[1], g->index_dim);
  if (indices == g->inst->operands[1])
    indices = made_reshape(b, indices, (HlI64s){indices->shape->dim, indices->shape->rank});
  HlInst *state[] = {g->inst->operands[0], indices,
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
