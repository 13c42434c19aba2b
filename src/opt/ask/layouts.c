// opt/ask/layouts.c: when moving dimensions moves no bytes: reshapes, transposes that are bitcasts.
//
// A reshape falls into groups of neighbouring dimensions with equal products, as small as possible:
//
//   [7, 9, 2, 15] -> [63, 6, 5]   =   [7, 9] -> [63]   and   [2, 15] -> [6, 5]
//
// Inside a group that is not one dimension to one dimension an element keeps its place only where
// both sides lie in row-major order without gaps; the groups themselves may lie in any order, the
// same on both sides. So a shape is described, for this question, by the sequence of its groups
// from minor to major. Dimensions of size 1 say nothing about places and are left out.

#include "opt/ask/layouts.h"

#include <assert.h>
#include <string.h>

enum { MAX_RANK = 64 };  // beyond it nothing is found to be a bitcast

// --- What can be compared at all -----------------------------------------------------------------

// A layout whose order is a permutation of the dimensions, and elements one after the other.
static bool is_dense(const HlShape *shape) {
  if (!hl_shape_is_array(shape) || !shape->layout || hl_shape_is_dynamic(shape))
    return false;
  const HlLayoutExtra *extra = shape->layout->extra;
  if (extra && (extra->n_tiles > 0 || extra->n_splits > 0 || extra->dynamic_metadata_bytes > 0))
    return false;
  HlI64s order = shape->layout->minor_to_major;
  if (order.n != shape->rank || order.n > MAX_RANK)
    return false;
  uint64_t seen = 0;
  for (int k = 0; k < order.n; k++) {
    if (order.at[k] < 0 || order.at[k] >= order.n || (seen >> order.at[k] & 1))
      return false;
    seen |= (uint64_t)1 << order.at[k];
  }
  return true;
}

static int64_t element_bits(const HlShape *shape) {
  return shape->layout->extra ? shape->layout->extra->element_bits : 0;
}

static bool in_one_place(const HlShape *from, const HlShape *to) {
  return hl_memory_space(from) == hl_memory_space(to) && element_bits(from) == element_bits(to);
}

// --- Groups --------------------------------------------------------------------------------------

// Multiplies `product` by the next dimension of a side, which joins the group.
static bool take(const HlShape *side, int *next, int64_t *product, int group, int *of) {
  if (*next == side->rank)
    return false;
  int d = (*next)++;
  of[d] = side->dim[d] == 1 ? -1 : group;
  return !__builtin_mul_overflow(*product, side->dim[d], product);
}

static void skip_ones(const HlShape *side, int *next, int *of) {
  while (*next < side->rank && side->dim[*next] == 1)
    of[(*next)++] = -1;
}

// The group of every dimension of both sides, counted from the major end; -1 for sizes of 1. False
// where the numbers of elements differ. There are no empty dimensions.
static bool find_groups(const HlShape *from, const HlShape *to, int *of_from, int *of_to) {
  int i = 0, j = 0;
  for (int group = 0;; group++) {
    skip_ones(from, &i, of_from);
    skip_ones(to, &j, of_to);
    if (i == from->rank && j == to->rank)
      return true;
    int64_t left = 1, right = 1;
    if (!take(from, &i, &left, group, of_from) || !take(to, &j, &right, group, of_to))
      return false;
    while (left != right)
      if (left < right ? !take(from, &i, &left, group, of_from)
                       : !take(to, &j, &right, group, of_to))
        return false;
  }
}

// The groups from minor to major into `list`, as many as returned; -1 where the dimensions of some
// group are not row-major neighbours in memory.
static int group_order(const HlShape *shape, const int *of, int n_dims, int *list) {
  int n = 0, last = -1;
  int64_t below = 0;  // the dimension met last, which must be the next one of its group
  uint64_t closed = 0;
  for (int k = 0; k < n_dims; k++) {
    int64_t d = shape->layout->minor_to_major.at[k];
    if (of[d] < 0)
      continue;
    if (of[d] == last) {
      for (int64_t between = d + 1; between < below; between++)
        if (of[between] >= 0)
          return -1;
      if (d > below)
        return -1;
    } else {
      if (closed >> of[d] & 1)
        return -1;
      closed |= (uint64_t)1 << of[d];
      list[n++] = last = of[d];
    }
    below = d;
  }
  return n;
}

static bool is_empty(const HlShape *shape) {
  return hl_shape_elements(shape) == 0;
}

bool hl_reshape_is_bitcast(const HlShape *from, const HlShape *to) {
  if (!is_dense(from) || !is_dense(to) || from->dtype != to->dtype || !in_one_place(from, to))
    return false;
  if (is_empty(from) || is_empty(to))
    return is_empty(from) && is_empty(to);
  int of_from[MAX_RANK], of_to[MAX_RANK], from_list[MAX_RANK], to_list[MAX_RANK];
  if (!find_groups(from, to, of_from, of_to))
    return false;
  int n = group_order(from, of_from, from->rank, from_list);
  return n >= 0 && n == group_order(to, of_to, to->rank, to_list) &&
         memcmp(from_list, to_list, sizeof *from_list * (size_t)n) == 0;
}

static const HlShape *with_order(HlShapes *shapes, const HlShape *from, const HlShape *to,
                                 const int64_t *order) {
  const HlLayout layout = {{order, to->rank}, from->layout->extra};
  return hl_shape_with_layout(shapes, to, &layout);
}

const HlShape *hl_align_layouts(HlShapes *shapes, const HlShape *from, const HlShape *to) {
  if (!is_dense(from) || !hl_shape_is_array(to) || hl_shape_is_dynamic(to) || to->rank > MAX_RANK ||
      is_empty(from))
    return NULL;
  int of_from[MAX_RANK], of_to[MAX_RANK], list[MAX_RANK];
  if (!find_groups(from, to, of_from, of_to))
    return NULL;
  int n = group_order(from, of_from, from->rank, list), n_order = 0;
  if (n < 0)
    return NULL;
  int64_t order[MAX_RANK];
  int end[MAX_RANK];  // of each group in `to`: one past its last dimension
  for (int d = 0; d < to->rank; d++)
    if (of_to[d] >= 0)
      end[of_to[d]] = d + 1;
  for (int k = 0; k < n; k++)
    for (int d = end[list[k]] - 1; d >= 0 && (of_to[d] < 0 || of_to[d] == list[k]); d--)
      if (of_to[d] >= 0)
        order[n_order++] = d;
  for (int d = to->rank - 1; d >= 0; d--)
    if (of_to[d] < 0)
      order[n_order++] = d;
  assert(n_order == to->rank);
  return with_order(shapes, from, to, order);
}

// --- Transposes ----------------------------------------------------------------------------------

static bool is_permutation(HlI64s dims, int rank) {
  if (dims.n != rank || rank > MAX_RANK)
    return false;
  uint64_t seen = 0;
  for (int k = 0; k < rank; k++) {
    if (dims.at[k] < 0 || dims.at[k] >= rank || (seen >> dims.at[k] & 1))
      return false;
    seen |= (uint64_t)1 << dims.at[k];
  }
  return true;
}

// The dimensions of `from` from minor to major, seen through the transpose from `to`'s side, must
// be those of `from`, sizes of 1 aside.
bool hl_transpose_is_bitcast(const HlShape *from, const HlShape *to, HlI64s dims) {
  if (!is_dense(from) || !is_dense(to) || from->dtype != to->dtype || !in_one_place(from, to) ||
      from->rank != to->rank || !is_permutation(dims, from->rank))
    return false;
  const int64_t *in = from->layout->minor_to_major.at, *out = to->layout->minor_to_major.at;
  int i = 0, j = 0, rank = from->rank;
  for (;;) {
    while (i < rank && from->dim[in[i]] == 1)
      i++;
    while (j < rank && to->dim[out[j]] == 1)
      j++;
    if (i == rank || j == rank)
      return i == j;
    if (in[i++] != dims.at[out[j++]])
      return false;
  }
}

const HlShape *hl_align_transpose(HlShapes *shapes, const HlShape *from, const HlShape *to,
                                  HlI64s dims) {
  if (!is_dense(from) || from->rank != to->rank || !is_permutation(dims, from->rank))
    return NULL;
  int64_t order[MAX_RANK];
  for (int k = 0; k < dims.n; k++)
    order[k] = hl_i64s_find(dims, from->layout->minor_to_major.at[k]);
  return with_order(shapes, from, to, order);
}

const HlShape *hl_without_dims(HlArena *arena, HlShapes *shapes, const HlShape *shape,
                               HlI64s dims) {
  int64_t *size = HL_ARRAY(arena, int64_t, shape->rank + 1),
          *to = HL_ARRAY(arena, int64_t, shape->rank + 1),
          *order = HL_ARRAY(arena, int64_t, shape->rank + 1);
  bool *dynamic = HL_ARRAY(arena, bool, shape->rank + 1);
  int n = 0;
  for (int d = 0; d < shape->rank; d++) {
    to[d] = hl_i64s_find(dims, d) >= 0 ? -1 : n;
    if (to[d] >= 0) {
      size[n] = shape->dim[d];
      dynamic[n++] = shape->dynamic && shape->dynamic[d];
    }
  }
  const HlI64s all = shape->layout ? shape->layout->minor_to_major : (HlI64s){0};
  int k = 0;
  for (int j = 0; j < all.n && k < n; j++)
    if (all.at[j] >= 0 && all.at[j] < shape->rank && to[all.at[j]] >= 0)
      order[k++] = to[all.at[j]];
  const HlLayout layout = {{order, n}, NULL};
  return hl_shape_array_full(shapes, shape->dtype, n, size, shape->dynamic ? dynamic : NULL,
                             k == n ? &layout : NULL);
}
