// op/build_shape.c: makes instructions that move data or fold dimensions.

#include "hilo/build.h"

#include <assert.h>
#include <string.h>

#include "op/build_check.h"

static HlI64s keep(HlBuild *b, HlI64s list) {
  return hl_i64s_copy(hl_b_module(b)->arena, list);
}

static HlInst *with_ints(HlBuild *b, HlOp op, const HlShape *shape, HlInst *x, HlAttrKey key,
                         HlI64s value) {
  HlAttr attr = {.key = key, .ints = keep(b, value)};
  return hl_b_op(b, op, shape, 1, &x, 1, &attr, 0, NULL);
}

static bool is_identity(HlI64s list) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] != k)
      return false;
  return true;
}

// --- Broadcasts ---------------------------------------------------------------------------------

// A dimension that comes from a dynamic one is dynamic.
static const HlShape *broadcast_shape(HlBuild *b, const HlShape *x, int rank, const int64_t *dim,
                                      HlI64s dimensions) {
  HlShapes *shapes = hl_b_module(b)->shapes;
  if (!hl_shape_is_dynamic(x))
    return hl_shape_array(shapes, x->dtype, rank, dim);
  HlArena *scratch = hl_cx_scratch(b->cx);
  HlMark mark = hl_arena_mark(scratch);
  bool *dynamic = HL_ARRAY(scratch, bool, rank + 1);
  for (int k = 0; k < dimensions.n && k < x->rank; k++)
    if (dimensions.at[k] >= 0 && dimensions.at[k] < rank)
      dynamic[dimensions.at[k]] = x->dynamic[k];
  const HlShape *plain = hl_shape_array(shapes, x->dtype, rank, dim);
  const HlShape *shape = hl_shape_array_full(shapes, x->dtype, rank, dim, dynamic, plain->layout);
  hl_arena_release(scratch, mark);
  return shape;
}

HlInst *hl_b_broadcast(HlBuild *b, HlInst *x, int rank, const int64_t *dim, HlI64s dimensions) {
  if (!build_is_array(b, x))
    return NULL;
  const HlShape *shape = broadcast_shape(b, x->shape, rank, dim, dimensions);
  return with_ints(b, HL_OP_BROADCAST, shape, x, HL_A_DIMENSIONS, dimensions);
}

static bool check_broadcast(HlBuild *b, const HlShape *x, int rank, const int64_t *dim,
                            HlI64s dimensions) {
  HlPos pos = {hl_b_module(b)->source, b->loc};
  if (dimensions.n != x->rank)
    return hl_error(b->cx, pos, "broadcast_in_dim of %s has %d dimensions, expected %d",
                    hl_shape_text(b->cx, x), dimensions.n, x->rank);
  for (int k = 0; k < dimensions.n; k++) {
    int64_t d = dimensions.at[k];
    if (d < 0 || d >= rank || hl_i64s_find((HlI64s){dimensions.at, k}, d) >= 0)
      return hl_error(b->cx, pos,
                      "broadcast_in_dim of %s has dimension %lld, expected distinct ones below %d",
                      hl_shape_text(b->cx, x), (long long)d, rank);
    if (x->dim[k] != 1 && x->dim[k] != dim[d])
      return hl_error(b->cx, pos,
                      "broadcast_in_dim cannot make dimension %lld of size %lld from dimension %d "
                      "of %s",
                      (long long)d, (long long)dim[d], k, hl_shape_text(b->cx, x));
  }
  return true;
}

static int64_t count_elements(int rank, const int64_t *dim) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(n, dim[d], &n))
      return INT64_MAX;
  return n;
}

static bool is_ascending(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k] <= list.at[k - 1])
      return false;
  return true;
}

// Sorts the dimensions into `sorted`, and notes where each came from.
static void sort_dimensions(HlI64s dimensions, int64_t *sorted, int64_t *from) {
  for (int k = 0; k < dimensions.n; k++) {
    int at = k;
    for (; at > 0 && sorted[at - 1] > dimensions.at[k]; at--) {
      sorted[at] = sorted[at - 1];
      from[at] = from[at - 1];
    }
    sorted[at] = dimensions.at[k];
    from[at] = k;
  }
}

// Whether a permutation keeps the order of all dimensions but those of size 1.
static bool moves_only_ones(const HlShape *x, HlI64s permutation) {
  int64_t last = -1;
  for (int k = 0; k < permutation.n; k++) {
    if (x->dim[permutation.at[k]] == 1)
      continue;
    if (permutation.at[k] < last)
      return false;
    last = permutation.at[k];
  }
  return true;
}

// Broadcast in which dimensions of size 1 grow: the array is put in its place with the sizes it
// has, loses the dimensions that are to grow, and is broadcast without them.
static HlInst *broadcast_growing(HlBuild *b, HlInst *x, int rank, const int64_t *dim,
                                 HlI64s dimensions) {
  HlArena *scratch = hl_cx_scratch(b->cx);
  int64_t *in_place = HL_ARRAY(scratch, int64_t, rank + 1);
  int64_t *kept = HL_ARRAY(scratch, int64_t, rank + 1),
          *sizes = HL_ARRAY(scratch, int64_t, rank + 1);
  if (rank > 0)
    memcpy(in_place, dim, sizeof *dim * (size_t)rank);
  for (int k = 0; k < dimensions.n; k++)
    in_place[dimensions.at[k]] = x->shape->dim[k];
  int n_kept = 0;
  for (int d = 0; d < rank; d++)
    if (in_place[d] == dim[d]) {
      kept[n_kept] = d;
      sizes[n_kept++] = dim[d];
    }
  HlInst *placed = hl_b_broadcast(b, x, rank, in_place, dimensions);
  if (n_kept == rank)
    return placed;
  HlInst *shrunk = hl_b_reshape(b, placed, n_kept, sizes);
  return hl_b_broadcast(b, shrunk, rank, dim, (HlI64s){kept, n_kept});
}

static HlInst *broadcast_unsorted(HlBuild *b, HlInst *x, int rank, const int64_t *dim,
                                  HlI64s dimensions) {
  HlArena *scratch = hl_cx_scratch(b->cx);
  int64_t *sorted = HL_ARRAY(scratch, int64_t, dimensions.n + 1);
  int64_t *from = HL_ARRAY(scratch, int64_t, dimensions.n + 1);
  sort_dimensions(dimensions, sorted, from);
  HlI64s permutation = {from, dimensions.n};
  bool is_whole =
      rank == x->shape->rank && hl_shape_elements(x->shape) == count_elements(rank, dim);
  if (is_whole && moves_only_ones(x->shape, permutation))
    return hl_b_reshape(b, x, rank, dim);
  HlInst *moved = hl_b_transpose(b, x, permutation);
  if (is_whole || !moved)
    return moved;
  return broadcast_growing(b, moved, rank, dim, (HlI64s){sorted, dimensions.n});
}

HlInst *hl_b_broadcast_in_dim(HlBuild *b, HlInst *x, int rank, const int64_t *dim,
                              HlI64s dimensions) {
  if (!build_is_array(b, x) || !check_broadcast(b, x->shape, rank, dim, dimensions))
    return NULL;
  bool is_static = !hl_shape_is_dynamic(x->shape);
  bool same_count = is_static && hl_shape_elements(x->shape) == count_elements(rank, dim);
  bool sorted = is_ascending(dimensions);
  if (same_count && sorted && rank == x->shape->rank)
    return x;
  if (same_count && sorted && rank > 0)
    return hl_b_reshape(b, x, rank, dim);
  HlArena *scratch = hl_cx_scratch(b->cx);
  HlMark mark = hl_arena_mark(scratch);
  HlInst *out = sorted ? broadcast_growing(b, x, rank, dim, dimensions)
                       : broadcast_unsorted(b, x, rank, dim, dimensions);
  hl_arena_release(scratch, mark);
  return out;
}

// --- Reordering ---------------------------------------------------------------------------------

HlInst *hl_b_reshape(HlBuild *b, HlInst *x, int rank, const int64_t *dim) {
  if (!build_is_array(b, x))
    return NULL;
  bool same = x->shape->rank == rank;
  for (int d = 0; same && d < rank; d++)
    same = x->shape->dim[d] == dim[d];
  if (same)
    return x;
  const HlShape *shape = hl_shape_array(hl_b_module(b)->shapes, x->shape->dtype, rank, dim);
  return hl_b_op(b, HL_OP_RESHAPE, shape, 1, &x, 0, NULL, 0, NULL);
}

HlInst *hl_b_transpose(HlBuild *b, HlInst *x, HlI64s permutation) {
  if (!build_is_array(b, x))
    return NULL;
  if (permutation.n == x->shape->rank && is_identity(permutation))
    return x;
  return with_ints(b, HL_OP_TRANSPOSE, NULL, x, HL_A_DIMENSIONS, permutation);
}

HlInst *hl_b_reverse(HlBuild *b, HlInst *x, HlI64s dimensions) {
  return with_ints(b, HL_OP_REVERSE, NULL, x, HL_A_DIMENSIONS, dimensions);
}

// --- Parts and joins ----------------------------------------------------------------------------

// Triples of three lists, one a dimension; a missing third list is of `fill`.
static HlI64s triples(HlBuild *b, int rank, const int64_t *first, const int64_t *second,
                      const int64_t *third, int64_t fill) {
  int64_t *list = HL_ARRAY(hl_b_module(b)->arena, int64_t, 3 * rank + 1);
  for (int d = 0; d < rank; d++) {
    list[3 * d] = first[d];
    list[3 * d + 1] = second[d];
    list[3 * d + 2] = third ? third[d] : fill;
  }
  return (HlI64s){list, 3 * rank};
}

HlInst *hl_b_slice(HlBuild *b, HlInst *x, const int64_t *start, const int64_t *limit,
                   const int64_t *stride) {
  if (!build_is_array(b, x))
    return NULL;
  HlAttr attr = {.key = HL_A_SLICE, .ints = triples(b, x->shape->rank, start, limit, stride, 1)};
  return hl_b_op(b, HL_OP_SLICE, NULL, 1, &x, 1, &attr, 0, NULL);
}

HlInst *hl_b_slice_dim(HlBuild *b, HlInst *x, int dim, int64_t start, int64_t limit) {
  if (!build_is_array(b, x))
    return NULL;
  HlArena *scratch = hl_cx_scratch(b->cx);
  HlMark mark = hl_arena_mark(scratch);
  int rank = x->shape->rank;
  assert(dim >= 0 && dim < rank);
  int64_t *starts = HL_ARRAY(scratch, int64_t, rank + 1);
  int64_t *limits = HL_ARRAY(scratch, int64_t, rank + 1);
  if (rank > 0)
    memcpy(limits, x->shape->dim, sizeof *limits * (size_t)rank);
  starts[dim] = start;
  limits[dim] = limit;
  HlInst *out = hl_b_slice(b, x, starts, limits, NULL);
  hl_arena_release(scratch, mark);
  return out;
}

// One operand list: x, what is between, then one start index a dimension.
static HlInst *with_starts(HlBuild *b, HlOp op, HlInst *x, HlInst *update, HlInst *const *start,
                           int n_attrs, const HlAttr *attrs) {
  HlArena *scratch = hl_cx_scratch(b->cx);
  HlMark mark = hl_arena_mark(scratch);
  HlInst **operands = HL_ARRAY(scratch, HlInst *, x->shape->rank + 2);
  int n = 0;
  operands[n++] = x;
  if (update)
    operands[n++] = update;
  for (int d = 0; d < x->shape->rank; d++)
    operands[n++] = start[d];
  HlInst *out = hl_b_op(b, op, NULL, n, operands, n_attrs, attrs, 0, NULL);
  hl_arena_release(scratch, mark);
  return out;
}

HlInst *hl_b_dynamic_slice(HlBuild *b, HlInst *x, HlInst *const *start, const int64_t *sizes) {
  if (!build_is_array(b, x))
    return NULL;
  HlAttr attr = {.key = HL_A_DYNAMIC_SLICE_SIZES, .ints = keep(b, (HlI64s){sizes, x->shape->rank})};
  return with_starts(b, HL_OP_DYNAMIC_SLICE, x, NULL, start, 1, &attr);
}

HlInst *hl_b_dynamic_update_slice(HlBuild *b, HlInst *x, HlInst *update, HlInst *const *start) {
  if (!update || !build_is_array(b, x))
    return NULL;
  return with_starts(b, HL_OP_DYNAMIC_UPDATE_SLICE, x, update, start, 0, NULL);
}

HlInst *hl_b_concatenate(HlBuild *b, int n, HlInst *const *x, int64_t dim) {
  HlAttr attr = {.key = HL_A_DIMENSION, .i = dim};
  return hl_b_op(b, HL_OP_CONCATENATE, NULL, n, x, 1, &attr, 0, NULL);
}

HlInst *hl_b_pad(HlBuild *b, HlInst *x, HlInst *value, const int64_t *low, const int64_t *high,
                 const int64_t *interior) {
  if (!build_is_array(b, x))
    return NULL;
  HlInst *operands[] = {x, value};
  HlAttr attr = {.key = HL_A_PADDING, .ints = triples(b, x->shape->rank, low, high, interior, 0)};
  return hl_b_op(b, HL_OP_PAD, NULL, 2, operands, 1, &attr, 0, NULL);
}

// --- Folding ------------------------------------------------------------------------------------

HlInst *hl_b_reduce(HlBuild *b, HlOp op, HlInst *x, HlInst *init, HlI64s dimensions) {
  if (!init || !build_is_array(b, x))
    return NULL;
  HlComp *comp = hl_b_scalar_comp(b, op, x->shape->dtype);
  HlInst *operands[] = {x, init};
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = keep(b, dimensions)};
  return comp ? hl_b_op(b, HL_OP_REDUCE, NULL, 2, operands, 1, &attr, 1, &comp) : NULL;
}

HlInst *hl_b_dot(HlBuild *b, HlInst *x, HlInst *y, HlI64s x_batch, HlI64s y_batch,
                 HlI64s x_contract, HlI64s y_contract, HlDtype preferred) {
  HlInst *operands[] = {x, y};
  HlAttr attrs[4] = {{.key = HL_A_LHS_CONTRACTING_DIMS, .ints = keep(b, x_contract)},
                     {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = keep(b, y_contract)}};
  int n = 2;
  if (x_batch.n > 0)
    attrs[n++] = (HlAttr){.key = HL_A_LHS_BATCH_DIMS, .ints = keep(b, x_batch)};
  if (y_batch.n > 0)
    attrs[n++] = (HlAttr){.key = HL_A_RHS_BATCH_DIMS, .ints = keep(b, y_batch)};
  HlInst *dot = hl_b_op(b, HL_OP_DOT, NULL, 2, operands, n, attrs, 0, NULL);
  if (dot && preferred != HL_NO_DTYPE)
    hl_set_shape(dot, hl_shape_with_dtype(hl_b_module(b)->shapes, dot->shape, preferred));
  return dot;
}
