// spmd/partition_gather.c: gather and scatter.
//
// Three kinds of dimensions can be cut without a word between devices: those of slices taken whole,
// those of the indices, and batch dimensions. Where the operand is cut along a dimension that
// indices point into, one element at a time (rows of a table), a device looks up what lies in its
// own part: the indices become local; a gather has zeros for the others and an all-reduce adds up,
// a scatter drops what is outside anyway. Where a scatter's indices are cut but not its operand,
// each device folds its own updates in, and an all-reduce folds the devices' results.

#include "spmd/parallel.h"
#include "spmd/partition.h"

enum { OPERAND, INDICES, SLICES };  // SLICES: a gather's result, a scatter's updates

// The attributes of both by one set of names.
typedef struct Indexing {
  HlI64s window_dims;  // of SLICES: offset_dims, update_window_dims
  HlI64s collapsed;    // of OPERAND: collapsed_slice_dims, inserted_window_dims
  HlI64s index_map;    // of OPERAND: start_index_map, scatter_dims_to_operand_dims
  HlI64s operand_batch, index_batch;
  int64_t vector_dim;
  // By dimension of OPERAND, the one of INDICES along which its index counts; -1.
  const int *counted;
} Indexing;

// Indices that count take each element of the dimension once, in order.
static const int *counted_dims(Part *pt, const HlInst *inst, HlI64s collapsed) {
  const HlInst *operand = hl_operand(inst, OPERAND),
               *indices =
                   hl_operand(inst, inst->op == HL_OP_GATHER ? 1 : (int)inst->n_operands / 2);
  int *dims = sp_parallel_dims(pt->arena, inst, indices);
  bool *taken = HL_ARRAY(pt->arena, bool, indices->shape->rank + 1);
  for (int d = 0; d < operand->shape->rank; d++) {
    const int i = dims[d];
    const bool fits = i >= 0 && !taken[i] && hl_i64s_find(collapsed, d) >= 0 &&
                      operand->shape->dim[d] == indices->shape->dim[i] &&
                      indices->shape->dtype != HL_U64;
    dims[d] = fits ? i : -1;
    if (fits)
      taken[i] = true;
  }
  return dims;
}

static Indexing indexing_of(Part *pt, const HlInst *inst) {
  const bool is_gather = inst->op == HL_OP_GATHER;
  const HlI64s collapsed =
      hl_attr_ints(inst, is_gather ? HL_A_COLLAPSED_SLICE_DIMS : HL_A_INSERTED_WINDOW_DIMS);
  return (Indexing){
      hl_attr_ints(inst, is_gather ? HL_A_OFFSET_DIMS : HL_A_UPDATE_WINDOW_DIMS),
      collapsed,
      hl_attr_ints(inst, is_gather ? HL_A_START_INDEX_MAP : HL_A_SCATTER_DIMS_TO_OPERAND_DIMS),
      hl_attr_ints(inst, is_gather ? HL_A_OPERAND_BATCHING_DIMS : HL_A_INPUT_BATCHING_DIMS),
      hl_attr_ints(inst, is_gather ? HL_A_START_INDICES_BATCHING_DIMS
                                   : HL_A_SCATTER_INDICES_BATCHING_DIMS),
      hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM),
      counted_dims(pt, inst, collapsed)};
}

static PartLoop loop_of(Part *pt, const Indexing *ix, int result, const HlShape *operand,
                        const HlShape *indices, const HlShape *slices) {
  PartLoop loop = part_loop(pt, result, operand, indices, slices);
  for (int d = 0, w = 0; d < operand->rank; d++) {
    if (hl_i64s_find(ix->operand_batch, d) >= 0)
      continue;
    if (hl_i64s_find(ix->collapsed, d) >= 0) {
      if (hl_i64s_find(ix->index_map, d) >= 0 && ix->counted[d] < 0)
        part_loop_add(&loop, d, -1, -1);
      continue;
    }
    const int64_t o = ix->window_dims.at[w++];
    if (slices->dim[o] == operand->dim[d])
      part_loop_add(&loop, d, -1, o);
  }
  for (int i = 0, o = 0; i < indices->rank; i++) {
    if (i == ix->vector_dim)
      continue;
    while (hl_i64s_find(ix->window_dims, o) >= 0)
      o++;
    const int batch = hl_i64s_find(ix->index_batch, i);
    int64_t d = batch >= 0 ? ix->operand_batch.at[batch] : -1;
    for (int k = 0; d < 0 && k < operand->rank; k++)
      d = ix->counted[k] == i ? k : -1;
    part_loop_add(&loop, d, i, o++);
  }
  return loop;
}

// --- Local indices --------------------------------------------------------------------------------

typedef struct Local {
  HlInst *indices;  // of the device's own part
  HlInst *outside;  // pred of the indices' batch: some index is not in it; only of gathers
} Local;

// A dimension of the operand that single elements are taken from, which is cut. Where the indices
// count along it, and are cut alike, all are inside.
static bool is_cut_by_index(const Indexing *ix, const HlTiles *operand, int component) {
  const int64_t d = ix->index_map.at[component];
  return hl_i64s_find(ix->collapsed, d) >= 0 && operand->parts[d] > 1;
}
static bool may_be_outside(const Indexing *ix, const HlTiles *operand, int component) {
  return is_cut_by_index(ix, operand, component) && ix->counted[ix->index_map.at[component]] < 0;
}

// One scalar for each component of the index vectors, everywhere.
static HlInst *vector(PartComp *c, HlInst *like, int64_t dim, int n, HlInst **scalar) {
  const int64_t one = 1;
  const HlShape *shape = like->shape;
  if (dim == shape->rank)
    return hl_b_broadcast(&c->b, scalar[0], shape->rank, shape->dim, (HlI64s){0});
  for (int k = 0; k < n; k++)
    scalar[k] = hl_b_reshape(&c->b, scalar[k], 1, &one);
  HlInst *all = n == 1 ? scalar[0] : hl_b_concatenate(&c->b, n, scalar, 0);
  return hl_b_broadcast(&c->b, all, shape->rank, shape->dim, (HlI64s){&dim, 1});
}

static HlDtype wide_enough(HlDtype t) {
  return t == HL_U32 || t == HL_S64 ? HL_S64 : HL_S32;
}

static HlInst *any_component(PartComp *c, HlInst *x, int64_t dim) {
  if (!x || dim == x->shape->rank)
    return x;
  HlInst *no = hl_b_scalar_int(&c->b, HL_PRED, 0);
  return hl_b_reduce(&c->b, HL_OP_OR, x, no, (HlI64s){&dim, 1});
}

// The last place along each component's dimension, everywhere.
static HlInst *last_places(PartComp *c, const Indexing *ix, HlInst *like, const HlShape *operand) {
  const int n = ix->index_map.n;
  int64_t *last = HL_ARRAY(c->pt->arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    last[k] = operand->dim[ix->index_map.at[k]] - 1;
  const HlShape *shape = like->shape;
  if (ix->vector_dim == shape->rank)
    return hl_b_broadcast(&c->b, hl_b_scalar_int(&c->b, shape->dtype, last[0]), shape->rank,
                          shape->dim, (HlI64s){0});
  return hl_b_broadcast(&c->b, part_table(c, shape->dtype, last, n), shape->rank, shape->dim,
                        (HlI64s){&ix->vector_dim, 1});
}

// Those of a scatter and those that count are not outside, or nobody minds: then there are no masks. Others are brought into the
// operand first, as a gather does; what is not tested is inside then.
static Local local_indices(PartComp *c, const Indexing *ix, HlInst *x, const HlShape *operand,
                           const HlTiles *t, bool masks) {
  HlBuild *b = &c->b;
  const int n = ix->index_map.n;
  const HlDtype type = wide_enough(x->shape->dtype);
  HlInst **begin = HL_ARRAY(c->pt->arena, HlInst *, n + 1),
         **low = HL_ARRAY(c->pt->arena, HlInst *, n + 1),
         **high = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  bool all_tested = true;
  for (int k = 0; k < n; k++) {
    const int64_t d = ix->index_map.at[k], size = operand->dim[d];
    const bool is_cut = is_cut_by_index(ix, t, k), tested = may_be_outside(ix, t, k);
    begin[k] = is_cut ? part_offset(c, type, t, (int)d, size) : hl_b_scalar_int(b, type, 0);
    low[k] = tested ? begin[k] : hl_b_scalar_int(b, type, 0);
    high[k] = tested ? hl_b_binary(b, HL_OP_ADD, begin[k],
                                   hl_b_scalar_int(b, type, hl_tile_size(size, t->parts[d]) - 1))
                     : hl_b_scalar_int(b, type, size);
    all_tested = all_tested && tested == is_cut;
  }
  x = hl_b_convert(b, x, type);
  if (!x)
    return (Local){0};
  HlInst *from = vector(c, x, ix->vector_dim, n, begin);
  if (!masks)
    return (Local){hl_b_binary(b, HL_OP_SUBTRACT, x, from), NULL};
  HlInst *inside = hl_b_clamp(b, hl_b_like_int(b, x, 0), x, last_places(c, ix, x, operand));
  HlInst *below = hl_b_compare(b, HL_WORD_direction_LT, inside,
                               all_tested ? from : vector(c, x, ix->vector_dim, n, low));
  HlInst *above =
      hl_b_compare(b, HL_WORD_direction_GT, inside, vector(c, x, ix->vector_dim, n, high));
  HlInst *outside = hl_b_binary(b, HL_OP_OR, below, above);
  return (Local){hl_b_binary(b, HL_OP_SUBTRACT, inside, from),
                 any_component(c, outside, ix->vector_dim)};
}

static bool indexes_cut(const Indexing *ix, const HlTiles *operand) {
  for (int k = 0; k < ix->index_map.n; k++)
    if (is_cut_by_index(ix, operand, k))
      return true;
  return false;
}

static bool any_outside(const Indexing *ix, const HlTiles *operand) {
  for (int k = 0; k < ix->index_map.n; k++)
    if (may_be_outside(ix, operand, k))
      return true;
  return false;
}

static bool same_manual(PartComp *c, const HlInst *inst, const HlTiles *own) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlTiles *t = part_tiles_now(c, hl_operand(inst, (int)k));
    if (t->manual != own->manual || t->unreduced > 1 ||
        hl_shape_is_dynamic(hl_operand(inst, (int)k)->shape))
      return false;
  }
  return own->unreduced == 1 && !hl_shape_is_dynamic(inst->shape);
}

// Which of the loop's arrays operand k is.
static int array_of(const HlInst *inst, int k) {
  if (inst->op == HL_OP_GATHER)
    return k;
  const int half = (int)inst->n_operands / 2;
  return k < half ? OPERAND : k == half ? INDICES : SLICES;
}

// XLA makes the exchanges first, to see what they cost, each with a channel.
static void spend_channels(PartComp *c, const HlInst *inst, const PartLoop *loop, const HlTiles *t,
                           const HlTiles *const *own) {
  PartCost cost = {0};
  for (uint32_t k = 0; k < inst->n_operands; k++)
    part_operand_cost(c, inst, (int)k, part_loop_array(c->pt, loop, array_of(inst, (int)k), t),
                      &cost);
  for (int k = 0; k < loop->rank; k++)
    cost.n += part_loop_sums(loop, k) && t->parts[k] > 1;
  part_reshard_cost(c, loop->shape[loop->result], part_loop_array(c->pt, loop, loop->result, t),
                    own[0], &cost);
  c->pt->next_channel += cost.n;
}

// --- Gather ---------------------------------------------------------------------------------------

static HlI64s local_slice_sizes(PartComp *c, const HlInst *inst, const PartLoop *loop,
                                const HlTiles *operand) {
  const HlI64s sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES);
  int64_t *own = hl_arena_copy(c->pt->arena, sizes.at, sizeof *own * (size_t)sizes.n);
  for (int k = 0; k < loop->rank; k++) {
    const int d = loop->dim[OPERAND][k];
    if (d >= 0 && loop->dim[SLICES][k] >= 0 && loop->dim[INDICES][k] < 0)
      own[d] = hl_tile_size(sizes.at[d], operand->parts[d]);
  }
  return (HlI64s){own, sizes.n};
}

static HlInst *zeros_outside(PartComp *c, const HlInst *inst, const Indexing *ix, HlInst *x,
                             HlInst *outside) {
  if (!x || !outside)
    return NULL;
  int64_t *dims = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank + 1);
  int n = 0;
  for (int k = 0; k < inst->shape->rank; k++)
    if (hl_i64s_find(ix->window_dims, k) < 0)
      dims[n++] = k;
  outside = hl_b_broadcast(&c->b, outside, x->shape->rank, x->shape->dim, (HlI64s){dims, n});
  return hl_b_select(&c->b, outside, hl_b_like_int(&c->b, x, 0), x);
}

static HlInst *add_up(PartComp *c, const PartLoop *loop, HlInst *x, const HlTiles *t, HlOp op) {
  for (int k = loop->rank - 1; x && k >= 0; k--)
    if (part_loop_sums(loop, k) && t->parts[k] > 1)
      x = part_all_reduce_op(
          c, x, op, part_loop_groups(c, loop, loop->dim[OPERAND][k] < 0 ? INDICES : OPERAND, t, k));
  return x;
}

bool part_gather(PartComp *c, HlInst *inst) {
  Part *pt = c->pt;
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || !same_manual(c, inst, own[0]))
    return own && part_default(c, inst);
  const HlShape *operand = hl_operand(inst, OPERAND)->shape,
                *indices = hl_operand(inst, INDICES)->shape;
  const Indexing ix = indexing_of(pt, inst);
  const PartLoop loop = loop_of(pt, &ix, SLICES, operand, indices, inst->shape);
  const HlTiles *t = part_loop_tiles(pt, &loop, SLICES, own[0], PART_ALL_DIMS);
  const HlTiles *rows = part_loop_tiles(pt, &loop, OPERAND,
                                        part_tiles_now(c, hl_operand(inst, OPERAND)), PART_SUMMED);
  if (hl_tiles_is_cut(rows) && indices->dtype != HL_U64) {
    const bool smaller = hl_shape_elements(inst->shape) <= hl_shape_elements(operand);
    t = part_merged_or(pt, t, rows, smaller ? rows : t);
  }
  if (indices->dtype != HL_U64)
    t = part_cheaper_loop(c, inst, &loop, t, own[0]);
  const HlTiles *of_operand = part_loop_array(pt, &loop, OPERAND, t),
                *of_result = part_loop_array(pt, &loop, SLICES, t);
  spend_channels(c, inst, &loop, t, own);
  HlInst *x[] = {part_operand(c, inst, OPERAND, of_operand),
                 part_operand(c, inst, INDICES, part_loop_array(pt, &loop, INDICES, t))};
  Local local = {x[1], NULL};
  const bool crosses = x[0] && x[1] && any_outside(&ix, of_operand);
  if (x[0] && x[1] && indexes_cut(&ix, of_operand))
    local = local_indices(c, &ix, x[1], operand, of_operand, crosses);
  x[1] = local.indices;
  HlInst *out = part_copy_anew(c, inst, part_local_shape(pt, inst->shape, &of_result), 2, x);
  if (out)
    hl_set_ints(out, HL_A_SLICE_SIZES, local_slice_sizes(c, inst, &loop, of_operand));
  if (out && crosses) {
    out = zeros_outside(c, inst, &ix, out, local.outside);
    out = add_up(c, &loop, out, t, inst->shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD);
  }
  return part_set(c, inst, out, of_result);
}

// --- Scatter --------------------------------------------------------------------------------------

// By which fold the devices' results can be put together; HL_OP_COUNT: none.
static HlOp fold_of(const HlInst *inst) {
  const HlOp op = inst->n_operands == 3 ? hl_reducer(hl_to_apply(inst)) : HL_OP_COUNT;
  const HlDtype dtype = hl_operand(inst, 0)->shape->dtype;
  const bool has_neutral = hl_neutral_of(op) != HL_KNOWN_NONE &&
                           (op != HL_OP_ADD || hl_dtype_has_zero(dtype)) &&
                           (op != HL_OP_MULTIPLY || !hl_is_complex(dtype));
  return has_neutral && op != HL_OP_XOR ? op : HL_OP_COUNT;
}

// The first of the devices along cut indices starts from the operand, the others from what changes
// nothing.
static HlInst *once(PartComp *c, const PartLoop *loop, HlInst *x, const HlTiles *t, HlOp op) {
  if (!x)
    return NULL;
  int64_t *place = HL_ARRAY(c->pt->arena, int64_t, t->n),
          *at = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1);
  for (int64_t d = 0; d < t->n; d++) {
    hl_tiles_at(t, d, at);
    for (int k = 0; k < loop->rank; k++)
      if (part_loop_sums(loop, k))
        place[d] = place[d] * t->parts[k] + at[k];
  }
  HlInst *number = part_number(c, HL_U32, place);
  HlInst *is_other = number ? hl_b_convert(&c->b, number, HL_PRED) : NULL;
  HlInst *neutral = hl_b_neutral(&c->b, op, x->shape->dtype);
  neutral =
      neutral ? hl_b_broadcast(&c->b, neutral, x->shape->rank, x->shape->dim, (HlI64s){0}) : NULL;
  return hl_b_select(&c->b, is_other, neutral, x);
}

static bool sums_cut(const PartLoop *loop, const HlTiles *t) {
  for (int k = 0; k < loop->rank; k++)
    if (part_loop_sums(loop, k) && t->parts[k] > 1)
      return true;
  return false;
}

// Indices beyond the end of an uneven tile are garbage. Those of most types can say that they point to
// nothing; of others such a cut is dropped.
static bool can_point_nowhere(const Indexing *ix, const HlShape *indices) {
  return indices->dtype != HL_U64 && ix->index_map.n > 0;
}

static const HlTiles *even_sums(PartComp *c, const PartLoop *loop, const HlTiles *t) {
  bool *drop = HL_ARRAY(c->pt->arena, bool, t->rank + 1);
  for (int k = 0; k < t->rank; k++)
    drop[k] =
        part_loop_sums(loop, k) && loop->shape[INDICES]->dim[loop->dim[INDICES][k]] % t->parts[k];
  return part_without(c, t, drop);
}

// Batches of the operand's are the exception: what is beyond the end stays there.
static HlInst *nowhere_beyond(PartComp *c, const PartLoop *loop, const Indexing *ix, HlInst *x,
                              const HlTiles *t) {
  bool *dims = HL_ARRAY(c->pt->arena, bool, t->rank + 1), uneven = false;
  for (int k = 0; k < loop->rank; k++) {
    const int i = loop->dim[INDICES][k], d = loop->dim[OPERAND][k];
    if (i < 0 || (d >= 0 && ix->counted[d] != i))
      continue;
    dims[i] = true;
    uneven = uneven || loop->shape[INDICES]->dim[i] % t->parts[i] != 0;
  }
  if (!x || !uneven || !can_point_nowhere(ix, loop->shape[INDICES]))
    return x;
  x = hl_b_convert(&c->b, x, wide_enough(x->shape->dtype));
  return x ? part_mask(c, x, loop->shape[INDICES], t, dims,
                       hl_b_scalar_int(&c->b, x->shape->dtype, -1))
           : NULL;
}

bool part_scatter(PartComp *c, HlInst *inst) {
  Part *pt = c->pt;
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || !same_manual(c, inst, own[0]))
    return own && part_default(c, inst);
  const int n = (int)inst->n_operands, half = n / 2;
  const HlShape *operand = hl_operand(inst, 0)->shape, *indices = hl_operand(inst, half)->shape;
  const HlShape *updates = hl_operand(inst, half + 1)->shape;
  const Indexing ix = indexing_of(pt, inst);
  const PartLoop loop = loop_of(pt, &ix, OPERAND, operand, indices, updates);
  const HlTiles *t = part_loop_tiles(pt, &loop, OPERAND, own[0], PART_ALL_DIMS);
  const HlOp op = fold_of(inst);
  const HlTiles *by_index = part_loop_tiles(
      pt, &loop, SLICES, part_tiles_now(c, hl_operand(inst, half + 1)), PART_SUMMED);
  if (!can_point_nowhere(&ix, indices))
    by_index = even_sums(c, &loop, by_index);
  if (op != HL_OP_COUNT && hl_tiles_is_cut(by_index))
    t = part_merged_or(pt, t, by_index, hl_tiles_is_cut(t) ? t : by_index);
  const HlTiles *of_operand = part_loop_array(pt, &loop, OPERAND, t);
  if (indices->dtype == HL_U64 && indexes_cut(&ix, of_operand))
    return part_default(c, inst);
  spend_channels(c, inst, &loop, t, own);
  HlInst **x = HL_ARRAY(pt->arena, HlInst *, n + 1);
  for (int k = 0; k < half; k++) {
    x[k] = part_operand(c, inst, k, of_operand);
    x[half + 1 + k] = part_operand(c, inst, half + 1 + k, part_loop_array(pt, &loop, SLICES, t));
  }
  const HlTiles *of_indices = part_loop_array(pt, &loop, INDICES, t);
  x[half] = part_operand(c, inst, half, of_indices);
  if (x[half] && indexes_cut(&ix, of_operand))
    x[half] = local_indices(c, &ix, x[half], operand, of_operand, false).indices;
  x[half] = nowhere_beyond(c, &loop, &ix, x[half], of_indices);
  const bool folds = sums_cut(&loop, t);
  if (folds)
    x[0] = once(c, &loop, x[0], t, op);
  const HlTiles **tiles = HL_ARRAY(pt->arena, const HlTiles *, half + 1);
  for (int k = 0; k < half; k++)
    tiles[k] = of_operand;
  HlInst *out = part_copy_anew(c, inst, part_local_shape(pt, inst->shape, tiles), n, x);
  return part_set_leaves(c, inst, out && folds ? add_up(c, &loop, out, t, op) : out, tiles);
}
