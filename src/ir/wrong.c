// ir/wrong.c: shapes that are none: orders that are no permutation of the dimensions, tiles without extent, splits outside the
// array, more elements than can be counted. XLA refuses them when it reads a proto.

#include "ir/wrong.h"

// --- The parts of a layout --------------------------------------------------------------------------

static bool is_permutation(HlI64s order, int rank) {
  if (order.n != rank)
    return false;
  for (int k = 0; k < rank; k++)
    if (order.at[k] < 0 || order.at[k] >= rank ||
        hl_i64s_find((HlI64s){order.at, k}, order.at[k]) >= 0)
      return false;
  return true;
}

static const char *wrong_tiles(const HlLayoutExtra *extra) {
  for (int k = 0; k < extra->n_tiles; k++) {
    const HlI64s tile = extra->tiles[k];
    if (tile.n == 0)
      return "has a tile without dimensions";
    for (int d = 0; d < tile.n; d++)
      if (tile.at[d] <= 0 && tile.at[d] != HL_TILE_COMBINE)
        return "has a tile dimension that is neither positive nor *";
  }
  return NULL;
}

static const char *wrong_splits(const HlLayoutExtra *extra, const HlShape *shape) {
  for (int k = 0; k < extra->n_splits; k++) {
    const HlSplitConfig *split = &extra->splits[k];
    if (split->dimension < 0 || split->dimension >= shape->rank)
      return "splits a dimension that the shape does not have";
    const int64_t size =
        shape->dim[shape->layout->minor_to_major.at[shape->rank - 1 - split->dimension]];
    for (int i = 0; i < split->split_indices.n; i++) {
      const int64_t before = i > 0 ? split->split_indices.at[i - 1] : 0;
      if (split->split_indices.at[i] <= before || split->split_indices.at[i] >= size)
        return "has a split index outside the dimension, or not above the one before it";
    }
  }
  return NULL;
}

static const char *wrong_extra(const HlLayoutExtra *extra, const HlShape *shape) {
  if (extra->tail_padding_alignment < 1)
    return "has a tail padding alignment below 1";
  if (extra->element_bits < 0)
    return "has a negative element size";
  if (extra->memory_space < 0 || extra->memory_space > INT32_MAX)
    return "has a memory space that is negative or beyond 31 bits";
  if (extra->index_type != HL_NO_DTYPE || extra->pointer_type != HL_NO_DTYPE)
    return "has index or pointer types, but is not a sparse array";
  const char *wrong = wrong_tiles(extra);
  return wrong != NULL ? wrong : wrong_splits(extra, shape);
}

// --- Shapes -------------------------------------------------------------------------------------------

static bool is_countable(const HlShape *shape) {
  int64_t n = hl_dtype_bytes(shape->dtype);
  for (int d = 0; d < shape->rank; d++) {
    const int64_t size = shape->dim[d] == HL_UNBOUNDED ? 1 : shape->dim[d];
    if (size < 0 || __builtin_mul_overflow(n, size, &n))
      return false;
  }
  return true;
}

static const char *wrong_array(const HlShape *shape) {
  if (!is_countable(shape))
    return "has more bytes than can be counted";
  const HlLayout *layout = shape->layout;
  if (layout == NULL)
    return NULL;
  if (!is_permutation(layout->minor_to_major, shape->rank))
    return "has a layout that is not a permutation of its dimensions";
  return layout->extra != NULL ? wrong_extra(layout->extra, shape) : NULL;
}

const char *ir_wrong_shape(const HlShape *shape, const HlShape **where) {
  if (hl_is_array_dtype(shape->dtype)) {
    *where = shape;
    return wrong_array(shape);
  }
  const bool has_parts = hl_shape_is_tuple(shape) || shape->dtype == HL_BUFFER;
  for (int k = 0; has_parts && k < shape->rank; k++) {
    const char *wrong = ir_wrong_shape(shape->element[k], where);
    if (wrong != NULL)
      return wrong;
  }
  return NULL;
}
