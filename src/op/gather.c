// op/gather.c: gather: collects boxes of the operand from run-time places, kept inside by clamping.

#include "op/fold.h"

typedef struct Gather {
  HlI64s offset_dims, start_map, batching, indices_batching;
  HlI64s batch_dims;   // of the result: those not in offset_dims
  HlI64s window_dims;  // of the operand: neither collapsed nor batching
  int64_t index_dim;
  HlI64s sizes;
} Gather;

static bool read_gather(HlEval *ev, const HlInst *inst, const HlShape *operand,
                        const HlShape *indices, const HlShape *result, Gather *g) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlI64s collapsed = hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS);
  *g = (Gather){.offset_dims = hl_attr_ints(inst, HL_A_OFFSET_DIMS),
                .start_map = hl_attr_ints(inst, HL_A_START_INDEX_MAP),
                .batching = hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS),
                .indices_batching = hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS),
                .index_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM),
                .sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES)};
  if (!kernel_check_dims(ev, inst, g->offset_dims, result->rank) ||
      !kernel_check_dims(ev, inst, collapsed, operand->rank) ||
      !kernel_check_dims(ev, inst, g->start_map, operand->rank) ||
      !kernel_check_dims(ev, inst, g->batching, operand->rank) ||
      !kernel_check_dims(ev, inst, g->indices_batching, indices->rank))
    return false;
  g->batch_dims = kernel_other_dims(arena, result->rank, g->offset_dims, (HlI64s){0});
  g->window_dims = kernel_other_dims(arena, operand->rank, collapsed, g->batching);
  const int64_t index_size = g->index_dim == indices->rank ? 1
                             : g->index_dim >= 0 && g->index_dim < indices->rank
                                 ? indices->dim[g->index_dim]
                                 : -1;
  if (g->sizes.n != operand->rank || g->window_dims.n != g->offset_dims.n ||
      index_size != g->start_map.n || g->batching.n != g->indices_batching.n ||
      g->batch_dims.n != indices->rank - (g->index_dim < indices->rank ? 1 : 0))
    return hl_inst_error(ev->cx, inst, "the dimension numbers of gather do not fit its operands");
  for (int d = 0; d < operand->rank; d++)
    if (g->sizes.at[d] < 0 || (g->sizes.at[d] > operand->dim[d]))
      return hl_inst_error(ev->cx, inst, "slice size %lld does not fit dimension %d of the operand",
                           (long long)g->sizes.at[d], d);
  for (int k = 0; k < g->batching.n; k++)
    if (indices->dim[g->indices_batching.at[k]] > operand->dim[g->batching.at[k]])
      return hl_inst_error(ev->cx, inst, "the batching dimensions of gather differ in size");
  for (int k = 0; k < g->window_dims.n; k++)
    if (result->dim[g->offset_dims.at[k]] != g->sizes.at[g->window_dims.at[k]])
      return hl_inst_error(ev->cx, inst, "the result does not have the slice sizes of gather");
  return true;
}

// An index as a signed number; an unsigned one too large for that is far outside all the same.
static int64_t index_at(const HlLiteral *indices, int64_t at) {
  const int64_t value = slot_load(indices->shape->dtype, indices->data, at).i;
  return indices->shape->dtype == HL_U64 && value < 0 ? INT64_MAX : value;
}

// Everything about the walk over batches and the box copied for each.
typedef struct Boxes {
  HlWalk walk;        // over batches; streams: the result, the index vectors
  int64_t *batch_of;  // indices dimension -> walk dimension
  int64_t *operand_stride;
  int64_t vector_step;       // between the parts of an index vector
  int64_t *box, *to, *from;  // sizes; strides in the result and the operand
} Boxes;

static void set_up(HlArena *arena, const Gather *g, const HlShape *operand, const HlShape *indices,
                   const HlShape *result, Boxes *b) {
  const int most = operand->rank + indices->rank + result->rank + 1;
  int64_t *indices_stride = HL_ARRAY(arena, int64_t, most);
  int64_t *result_stride = HL_ARRAY(arena, int64_t, most);
  b->operand_stride = HL_ARRAY(arena, int64_t, most);
  hl_strides(operand->rank, operand->dim, b->operand_stride);
  hl_strides(indices->rank, indices->dim, indices_stride);
  hl_strides(result->rank, result->dim, result_stride);
  b->vector_step = g->index_dim < indices->rank ? indices_stride[g->index_dim] : 0;
  b->batch_of = HL_ARRAY(arena, int64_t, most);
  int64_t *dim = HL_ARRAY(arena, int64_t, most), *to = HL_ARRAY(arena, int64_t, most);
  int64_t *from = HL_ARRAY(arena, int64_t, most);
  for (int k = 0, d = 0; k < g->batch_dims.n; k++, d++) {
    if (d == g->index_dim)
      d++;
    dim[k] = result->dim[g->batch_dims.at[k]];
    to[k] = result_stride[g->batch_dims.at[k]];
    from[k] = indices_stride[d];
    b->batch_of[d] = k;
  }
  const int64_t *const strides[] = {to, from};
  hl_walk_start(&b->walk, arena, g->batch_dims.n, dim, 2, strides);
  b->box = HL_ARRAY(arena, int64_t, most);
  b->to = HL_ARRAY(arena, int64_t, most);
  b->from = HL_ARRAY(arena, int64_t, most);
  for (int k = 0; k < g->window_dims.n; k++) {
    b->box[k] = result->dim[g->offset_dims.at[k]];
    b->to[k] = result_stride[g->offset_dims.at[k]];
    b->from[k] = b->operand_stride[g->window_dims.at[k]];
  }
}

// Where the box of the walk's batch starts in the operand.
static int64_t find_box(const Gather *g, const Boxes *b, const HlShape *operand,
                        const HlLiteral *indices) {
  int64_t at = 0;
  for (int k = 0; k < g->start_map.n; k++) {
    const int64_t d = g->start_map.at[k], size = g->sizes.at[d];
    const int64_t last = operand->dim[d] - (size > 0 ? size : 1);  // a collapsed 0 still reads one
    const int64_t start = index_at(indices, b->walk.offset[1] + k * b->vector_step);
    at += (start < 0 ? 0 : start > last ? last : start) * b->operand_stride[d];
  }
  for (int k = 0; k < g->batching.n; k++)
    at += b->walk.index[b->batch_of[g->indices_batching.at[k]]] *
          b->operand_stride[g->batching.at[k]];
  return at;
}

bool eval_gather(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const HlShape *operand = in[0]->shape;
  const int size = hl_dtype_bytes(operand->dtype);
  Gather g;
  Boxes b;
  bool ok = read_gather(ev, inst, operand, in[1]->shape, out->shape, &g);
  if (ok && out->n > 0 && in[0]->n > 0) {
    set_up(arena, &g, operand, in[1]->shape, out->shape, &b);
    for (; !b.walk.done; hl_walk_next(&b.walk))
      move_box(ev->cx, size, g.window_dims.n, b.box,
               (Side){(char *)out->data + b.walk.offset[0] * size, b.to},
               (Side){(char *)in[0]->data + find_box(&g, &b, operand, in[1]) * size, b.from});
  }
  hl_arena_release(arena, mark);
  return ok;
}
