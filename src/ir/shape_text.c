// shape_text.c: how shapes and layouts are spelt (hlo.md 2.2).

#include "ir/put.h"

static void put_tile(HlBuf *out, HlI64s tile) {
  put_char(out, '(');
  for (int k = 0; k < tile.n; k++) {
    if (k)
      put_char(out, ',');
    if (tile.at[k] == HL_TILE_COMBINE)
      put_char(out, '*');
    else
      put_i64(out, tile.at[k]);
  }
  put_char(out, ')');
}

static void put_number_item(HlBuf *out, char letter, int64_t value) {
  put_char(out, letter);
  put_char(out, '(');
  put_i64(out, value);
  put_char(out, ')');
}

static void put_type_item(HlBuf *out, char sign, HlDtype type) {
  put_char(out, sign);
  put_char(out, '(');
  put_text(out, hl_dtype_text(type));
  put_char(out, ')');
}

// The items after the colon, in the one order that reads back.
static void put_layout_items(HlBuf *out, const HlLayoutExtra *extra) {
  if (extra->n_tiles)
    put_char(out, 'T');
  for (int k = 0; k < extra->n_tiles; k++)
    put_tile(out, extra->tiles[k]);
  if (extra->tail_padding_alignment != 1)
    put_number_item(out, 'L', extra->tail_padding_alignment);
  if (extra->index_type != HL_NO_DTYPE)
    put_type_item(out, '#', extra->index_type);
  if (extra->pointer_type != HL_NO_DTYPE)
    put_type_item(out, '*', extra->pointer_type);
  if (extra->element_bits)
    put_number_item(out, 'E', extra->element_bits);
  if (extra->memory_space)
    put_number_item(out, 'S', extra->memory_space);
  if (extra->n_splits)
    PUT(out, "SC");
  for (int k = 0; k < extra->n_splits; k++) {
    put_char(out, '(');
    put_i64(out, extra->splits[k].dimension);
    put_char(out, ':');
    put_ints(out, extra->splits[k].split_indices);
    put_char(out, ')');
  }
  if (extra->dynamic_metadata_bytes > 0)
    put_number_item(out, 'M', extra->dynamic_metadata_bytes);
}

// Whether an extra says anything at all.
static bool extra_shows(const HlLayoutExtra *extra) {
  return extra->n_tiles || extra->tail_padding_alignment != 1 || extra->index_type != HL_NO_DTYPE ||
         extra->pointer_type != HL_NO_DTYPE || extra->element_bits || extra->memory_space ||
         extra->n_splits || extra->dynamic_metadata_bytes > 0;
}

static void put_layout(HlBuf *out, const HlLayout *layout, int rank) {
  const bool items = layout->extra && extra_shows(layout->extra);
  if (rank == 0 && layout->minor_to_major.n == 0 && !items)
    return;
  put_char_hot(out, '{');
  put_ints(out, layout->minor_to_major);
  if (items) {
    put_char_hot(out, ':');
    put_layout_items(out, layout->extra);
  }
  put_char_hot(out, '}');
}

static void put_dim(HlBuf *out, const HlShape *shape, int k) {
  if (shape->dim[k] == HL_UNBOUNDED) {
    put_char_hot(out, '?');
    return;
  }
  if (shape->dynamic && shape->dynamic[k])
    PUT_HOT(out, "<=");
  put_i64(out, shape->dim[k]);
}

static void put_array(HlBuf *out, const HlShape *shape, bool with_layout) {
  const char *type = hl_dtype_text(shape->dtype);
  put_hot(out, type, strlen(type));
  put_char_hot(out, '[');
  for (int k = 0; k < shape->rank; k++) {
    if (k)
      put_char_hot(out, ',');
    put_dim(out, shape, k);
  }
  put_char_hot(out, ']');
  if (with_layout && shape->layout)
    put_layout(out, shape->layout, shape->rank);
}

void put_shape(HlBuf *out, const HlShape *shape, bool with_layout) {
  switch (shape->dtype) {
  case HL_TUPLE:
    put_char(out, '(');
    for (int k = 0; k < shape->rank; k++) {
      if (k)
        put_comma(out, k);
      put_shape(out, shape->element[k], with_layout);
    }
    put_char(out, ')');
    break;
  case HL_BUFFER:
    PUT(out, "b(");
    if (shape->rank)
      put_shape(out, shape->element[0], with_layout);
    put_char(out, ')');
    break;
  case HL_TOKEN: PUT(out, "token[]"); break;
  case HL_OPAQUE: PUT(out, "opaque[]"); break;
  case HL_NO_DTYPE: PUT(out, "invalid"); break;
  default: put_array(out, shape, with_layout);
  }
}

void hl_shape_print(HlBuf *out, const HlShape *shape, bool with_layout) {
  put_shape(out, shape, with_layout);
  put_end(out);
}

const char *hl_shape_text(HlCx *cx, const HlShape *shape) {
  HlBuf buf = {0};
  hl_shape_print(&buf, shape, true);
  char *text = hl_arena_strndup(hl_cx_scratch(cx), buf.at, buf.n);
  hl_buf_free(&buf);
  return text;
}

void hl_shape_print_index(HlBuf *out, const HlShape *shape, int64_t k) {
  int64_t below = 1;  // elements in one step along the dimension
  for (int d = 0; d < shape->rank; d++)
    below *= shape->dim[d];
  hl_buf_putc(out, '[');
  for (int d = 0; d < shape->rank; d++) {
    below /= shape->dim[d];
    hl_buf_puts(out, d ? "," : "");
    hl_buf_i64(out, k / below);
    k %= below;
  }
  hl_buf_putc(out, ']');
}
