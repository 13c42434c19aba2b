// ir/shape_query.c: questions about shapes: compatibility, sizes, leaves, bytes.

#include "hilo/ir.h"

// a * b, INT64_MAX where it does not fit or a size is not known.
static int64_t times(int64_t a, int64_t b) {
  int64_t product;
  if (a == 0 || b == 0)
    return 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
    return INT64_MAX;
  return product;
}

static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t round_up(int64_t value, int64_t to) {
  if (to <= 1 || value < 0 || value == INT64_MAX)
    return value < 0 ? INT64_MAX : value;
  int64_t rest = value % to;
  return rest == 0 ? value : plus(value, to - rest);
}

static bool same_type(HlDtype a, HlDtype b, bool any_float) {
  return a == b || (any_float && hl_is_float(a) && hl_is_float(b));
}

static bool compatible(const HlShape *a, const HlShape *b, bool any_float) {
  if (a == b)
    return true;
  if (!same_type(a->dtype, b->dtype, any_float) || a->rank != b->rank)
    return false;
  if (hl_is_array_dtype(a->dtype))
    return hl_shape_same_dims(a, b);
  for (int k = 0; k < a->rank; k++)
    if (!compatible(a->element[k], b->element[k], any_float))
      return false;
  return true;
}

bool hl_shape_compatible(const HlShape *a, const HlShape *b) {
  return compatible(a, b, false);
}

bool hl_shape_compatible_ignoring_precision(const HlShape *a, const HlShape *b) {
  return compatible(a, b, true);
}

bool hl_shape_same_order(const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (a->dtype == HL_TUPLE || b->dtype == HL_TUPLE) {
    if (a->dtype != b->dtype || a->rank != b->rank)
      return false;
    for (int k = 0; k < a->rank; k++)
      if (!hl_shape_same_order(a->element[k], b->element[k]))
        return false;
    return true;
  }
  if (!a->layout || !b->layout)
    return a->layout == b->layout;
  return hl_i64s_equal(a->layout->minor_to_major, b->layout->minor_to_major);
}

bool hl_shape_same_dims(const HlShape *a, const HlShape *b) {
  if (a->rank != b->rank)
    return false;
  for (int k = 0; k < a->rank; k++)
    if (a->dim[k] != b->dim[k])
      return false;
  return true;
}

bool hl_shape_is_dynamic(const HlShape *shape) {
  if (hl_is_array_dtype(shape->dtype)) {
    for (int k = 0; k < shape->rank; k++)
      if (shape->dim[k] == HL_UNBOUNDED)
        return true;
    for (int k = 0; shape->dynamic && k < shape->rank; k++)
      if (shape->dynamic[k])
        return true;
    return false;
  }
  for (int k = 0; k < shape->rank; k++)
    if (hl_shape_is_dynamic(shape->element[k]))
      return true;
  return false;
}

bool hl_shape_is_unbounded(const HlShape *shape) {
  for (int k = 0; k < shape->rank; k++)
    if (hl_is_array_dtype(shape->dtype) ? shape->dim[k] == HL_UNBOUNDED
                                        : hl_shape_is_unbounded(shape->element[k]))
      return true;
  return false;
}

int64_t hl_shape_elements(const HlShape *shape) {
  if (!hl_is_array_dtype(shape->dtype))
    return 0;
  int64_t n = 1;
  for (int k = 0; k < shape->rank; k++) {
    if (shape->dim[k] == 0)
      return 0;
    n = times(n, shape->dim[k]);
  }
  return n;
}

int64_t hl_shape_leaves(const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return 1;
  int64_t n = 0;
  for (int k = 0; k < shape->rank; k++)
    n = plus(n, hl_shape_leaves(shape->element[k]));
  return n;
}

// Size of the k-th most minor dimension, 1 beyond the rank; layouts are not trusted.
static int64_t minor_dim(const HlShape *shape, int k) {
  if (k >= shape->rank)
    return 1;
  int64_t d = shape->rank - 1 - k;
  if (shape->layout && k < shape->layout->minor_to_major.n)
    d = shape->layout->minor_to_major.at[k];
  return d >= 0 && d < shape->rank ? shape->dim[d] : 1;
}

// Elements with every dimension under the first tile rounded up to it; inner tiles divide it. A `*`
// joins its dimension with the next minor one before rounding.
static int64_t tiled_elements(const HlShape *shape, HlI64s tile) {
  int64_t n = 1;
  int k = 0;
  while (k < tile.n) {
    int64_t to = tile.at[tile.n - 1 - k];
    int64_t size = minor_dim(shape, k++);
    while (k < tile.n && tile.at[tile.n - 1 - k] == HL_TILE_COMBINE)
      size = times(size, minor_dim(shape, k++));
    n = times(n, round_up(size, to));
  }
  for (; k < shape->rank; k++)
    n = times(n, minor_dim(shape, k));
  return n;
}

static int64_t array_bytes(const HlShape *shape) {
  const HlLayoutExtra *extra = shape->layout ? shape->layout->extra : NULL;
  int64_t n = hl_shape_elements(shape);
  if (!extra || n == 0)
    return times(n, hl_dtype_bytes(shape->dtype));
  if (extra->n_tiles > 0)
    n = tiled_elements(shape, extra->tiles[0]);
  n = round_up(n, extra->tail_padding_alignment);
  if (extra->element_bits > 0 && extra->element_bits < 8) {
    int64_t bits = times(n, extra->element_bits);
    return bits == INT64_MAX ? bits : (bits / 8) + (bits % 8 != 0);
  }
  return times(n, hl_dtype_bytes(shape->dtype));
}

int64_t hl_shape_buffer_bytes(const HlShape *shape, int pointer_bytes) {
  switch (shape->dtype) {
  case HL_TUPLE: return times(shape->rank, pointer_bytes);
  case HL_BUFFER:
    return shape->rank == 1 ? hl_shape_buffer_bytes(shape->element[0], pointer_bytes) : 0;
  case HL_OPAQUE: return pointer_bytes;
  default: return hl_is_array_dtype(shape->dtype) ? array_bytes(shape) : 0;
  }
}

const HlShape *hl_shape_at(const HlShape *shape, HlI64s index) {
  for (int k = 0; k < index.n; k++) {
    if (shape->dtype != HL_TUPLE || index.at[k] < 0 || index.at[k] >= shape->rank)
      return NULL;
    shape = shape->element[index.at[k]];
  }
  return shape;
}

bool hl_layout_is_default(const HlLayout *layout) {
  if (layout->extra)
    return false;
  for (int k = 0; k < layout->minor_to_major.n; k++)
    if (layout->minor_to_major.at[k] != layout->minor_to_major.n - 1 - k)
      return false;
  return true;
}
