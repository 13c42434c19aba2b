// op/movement.c: kernels that only move elements: broadcast, transpose, slice, pad and their kin.

#include <string.h>

#include "op/elementwise.h"
#include "op/kernel.h"

// Strides of a row-major array, in the scratch arena.
static int64_t *strides_of(HlCx *cx, const HlShape *shape) {
  int64_t *stride = HL_ARRAY(hl_cx_scratch(cx), int64_t, shape->rank + 1);
  hl_strides(shape->rank, shape->dim, stride);
  return stride;
}

static int64_t *numbers(HlCx *cx, int n) {
  return HL_ARRAY(hl_cx_scratch(cx), int64_t, n + 1);
}

static bool bad(HlEval *ev, const HlInst *inst) {
  return hl_inst_error(ev->cx, inst, "%s: operands, attributes and result do not fit together",
                       hl_op_text((HlOp)inst->op));
}

static int bytes_of(const HlLiteral *literal) {
  return hl_dtype_bytes(literal->shape->dtype);
}

// Are all elements of literals of one type, and the operand's elements as many as the result's?
static bool same_elements(const HlLiteral *in, const HlLiteral *out) {
  return in->n == out->n && bytes_of(in) == bytes_of(out);
}

static void copy_all(const HlLiteral *in, HlLiteral *out) {
  if (out->n > 0)
    memcpy(out->data, in->data, (size_t)out->n * (size_t)bytes_of(out));
}

bool eval_reshape(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  if (!same_elements(in[0], out))
    return bad(ev, inst);
  copy_all(in[0], out);
  return true;
}

bool eval_dynamic_reshape(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                          HlLiteral *out) {
  return eval_reshape(ev, inst, in, out);
}

// Copies `out` from a view of the operand: strides per result dimension, from an offset in
// elements.
static void gather_view(HlEval *ev, const HlLiteral *in, int64_t offset, const int64_t *stride,
                        HlLiteral *out) {
  const int size = bytes_of(out);
  const Side to = {out->data, strides_of(ev->cx, out->shape)},
             from = {in->data ? (char *)in->data + offset * size : NULL, stride};
  if (out->n > 0)
    move_box(ev->cx, size, out->shape->rank, out->shape->dim, to, from);
}

static bool broadcast_converted(HlEval *ev, const HlInst *inst, const HlLiteral *in,
                                HlLiteral *out) {
  HlLiteral *converted = hl_literal_convert(ev->cx, in, out->shape->dtype);
  const HlLiteral *operand = converted;
  const bool ok = converted && eval_broadcast(ev, inst, &operand, out);
  hl_literal_unref(converted);
  return ok;
}

bool eval_broadcast(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  if (in[0]->shape->dtype != out->shape->dtype)
    return broadcast_converted(ev, inst, in[0], out);
  const HlI64s dims = hl_dims(inst);
  const HlShape *from = in[0]->shape, *to = out->shape;
  if (in[0]->n == 1 && bytes_of(in[0]) == bytes_of(out)) {
    fill_elements(out->data, out->n, in[0]->data, bytes_of(out));
    return true;
  }
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  const int64_t *stride = strides_of(ev->cx, from);
  int64_t *view = numbers(ev->cx, to->rank);
  bool good = dims.n == from->rank && bytes_of(in[0]) == bytes_of(out);
  for (int d = 0; good && d < dims.n; d++) {
    good = dims.at[d] >= 0 && dims.at[d] < to->rank && to->dim[dims.at[d]] == from->dim[d];
    if (good)
      view[dims.at[d]] += stride[d];
  }
  if (good)
    gather_view(ev, in[0], 0, view, out);
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return good || bad(ev, inst);
}

bool eval_transpose(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlI64s dims = hl_dims(inst);
  const HlShape *from = in[0]->shape, *to = out->shape;
  if (from->rank != to->rank || dims.n != to->rank)
    return bad(ev, inst);
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  const int64_t *stride = strides_of(ev->cx, from);
  int64_t *view = numbers(ev->cx, to->rank);
  bool good = same_elements(in[0], out);
  for (int d = 0; good && d < to->rank; d++) {
    good = dims.at[d] >= 0 && dims.at[d] < from->rank && to->dim[d] == from->dim[dims.at[d]];
    if (good)
      view[d] = stride[dims.at[d]];
  }
  if (good)
    gather_view(ev, in[0], 0, view, out);
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return good || bad(ev, inst);
}

bool eval_reverse(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlI64s dims = hl_dims(inst);
  const HlShape *shape = in[0]->shape;
  if (!same_elements(in[0], out) || (dims.n > 0 && !hl_shape_same_dims(shape, out->shape)))
    return bad(ev, inst);
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  int64_t *view = strides_of(ev->cx, shape), offset = 0;
  bool good = true;
  for (int d = 0; good && d < dims.n; d++) {
    const int64_t at = dims.at[d];
    good = at >= 0 && at < shape->rank && view[at] >= 0;
    if (good) {
      offset += view[at] * (shape->dim[at] - 1);
      view[at] = -view[at];
    }
  }
  if (good)
    gather_view(ev, in[0], offset, view, out);
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return good || bad(ev, inst);
}

bool eval_slice(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlI64s slice = hl_attr_ints(inst, HL_A_SLICE);
  const HlShape *from = in[0]->shape, *to = out->shape;
  if (slice.n != 3 * from->rank || from->rank != to->rank || bytes_of(in[0]) != bytes_of(out))
    return bad(ev, inst);
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  int64_t *view = strides_of(ev->cx, from), offset = 0;
  bool good = true;
  for (int d = 0; good && d < from->rank; d++) {
    const int64_t start = slice.at[3 * d], step = slice.at[3 * d + 2], n = to->dim[d];
    good = start >= 0 && step > 0 && start <= from->dim[d] &&
           (n == 0 || (from->dim[d] - 1 - start) / step >= n - 1);
    good = good && (n == 0 || start < from->dim[d]);
    offset += start * view[d];
    view[d] *= step;
  }
  if (good)
    gather_view(ev, in[0], offset, view, out);
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return good || bad(ev, inst);
}

bool eval_concatenate(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const int64_t along = hl_dim(inst);
  const HlShape *to = out->shape;
  if (along < 0 || along >= to->rank)
    return bad(ev, inst);
  int64_t outer = 1, inner = bytes_of(out), place = 0;
  for (int d = 0; d < to->rank; d++)
    if (d < along)
      outer *= to->dim[d];
    else if (d > along)
      inner *= to->dim[d];
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *from = in[k]->shape;
    bool good = from->rank == to->rank && bytes_of(in[k]) == bytes_of(out);
    for (int d = 0; good && d < to->rank; d++)
      good = d == along ? from->dim[d] <= to->dim[d] - place : from->dim[d] == to->dim[d];
    if (!good)
      return bad(ev, inst);
    const int64_t run = from->dim[along] * inner, row = to->dim[along] * inner;
    for (int64_t i = 0; run > 0 && i < outer; i++)
      memcpy((char *)out->data + i * row + place * inner, (const char *)in[k]->data + i * run,
             (size_t)run);
    place += from->dim[along];
  }
  return place == to->dim[along] || bad(ev, inst);
}

// --- pad ----------------------------------------------------------------------------------------

typedef struct PadDim {
  int64_t first, n, place;  // the operand's elements that stay, and where the first of them goes
} PadDim;

// Element i of n goes to low + i * step; those outside [0, size) are cropped.
static PadDim pad_dim(int64_t n, int64_t size, int64_t low, int64_t step) {
  PadDim p = {0, 0, 0};
  p.first = low < 0 ? (-low + step - 1) / step : 0;
  const int64_t end = size - 1 - low < 0 ? 0 : (size - 1 - low) / step + 1;
  p.n = (end < n ? end : n) - p.first;
  p.place = low + p.first * step;
  return p;
}

bool eval_pad(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlI64s padding = hl_attr_ints(inst, HL_A_PADDING);
  const HlShape *from = in[0]->shape, *to = out->shape;
  const int size = bytes_of(out);
  if (padding.n != 3 * from->rank || from->rank != to->rank || bytes_of(in[0]) != size ||
      bytes_of(in[1]) != size || in[1]->n != 1)
    return bad(ev, inst);
  fill_elements(out->data, out->n, in[1]->data, size);
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  int64_t *to_stride = strides_of(ev->cx, to), *from_stride = strides_of(ev->cx, from),
          *dim = numbers(ev->cx, to->rank);
  int64_t to_at = 0, from_at = 0;
  bool good = true, empty = out->n == 0;
  for (int d = 0; good && d < to->rank; d++) {
    const int64_t low = padding.at[3 * d], step = padding.at[3 * d + 2] + 1;
    good = step > 0 && low > -(INT64_C(1) << 60) && low < (INT64_C(1) << 60) &&
           step < (INT64_C(1) << 60);
    if (!good)
      break;
    const PadDim p = pad_dim(from->dim[d], to->dim[d], low, step);
    empty = empty || p.n <= 0;
    dim[d] = p.n;
    to_at += empty ? 0 : p.place * to_stride[d];
    from_at += empty ? 0 : p.first * from_stride[d];
    to_stride[d] = empty ? 0 : to_stride[d] * step;
  }
  if (good && !empty)
    move_box(ev->cx, size, to->rank, dim, (Side){(char *)out->data + to_at * size, to_stride},
             (Side){(char *)in[0]->data + from_at * size, from_stride});
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return good || bad(ev, inst);
}

// --- iota ---------------------------------------------------------------------------------------

bool eval_iota(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const int64_t along = hl_attr_int(inst, HL_A_IOTA_DIMENSION);
  const HlShape *to = out->shape;
  if (along < 0 || along >= to->rank)
    return bad(ev, inst);
  if (out->n == 0)
    return true;
  const int size = bytes_of(out);
  int64_t inner = 1;
  for (int d = to->rank - 1; d > along; d--)
    inner *= to->dim[d];
  const int64_t block = inner * to->dim[along];
  for (int64_t k = 0; k < to->dim[along]; k++) {
    char element[16], *place = (char *)out->data + k * inner * size;
    hl_convert_elements(to->dtype, element, HL_S64, &k, 1);
    fill_elements(place, inner, element, size);
  }
  for (int64_t at = block; at < out->n; at += block)
    memcpy((char *)out->data + at * size, out->data, (size_t)(block * size));
  return true;
}

// --- dynamic-slice, dynamic-update-slice --------------------------------------------------------

// Start index d, from one scalar per dimension or (the old form) one vector, kept so that a box of
// `size` fits into `dim`. Unsigned numbers are read as unsigned.
static int64_t start_index(const HlLiteral *const *index, int n, int d, int64_t dim, int64_t size) {
  const HlLiteral *literal = n == 1 && index[0]->shape->rank == 1 ? index[0] : index[d];
  const int64_t at = hl_literal_i64(literal, literal->shape->rank == 1 ? d : 0);
  const int64_t last = dim - size;
  if (at < 0)
    return hl_is_unsigned(literal->shape->dtype) ? last : 0;
  return at > last ? last : at;
}

// Finds a box of the sizes of `box` in `whole` at run-time starts: its offset in elements.
static bool find_box(HlEval *ev, const HlInst *inst, const HlShape *whole, const HlShape *box,
                     const HlLiteral *const *index, int n, int64_t *offset) {
  const bool vector = n == 1 && index[0]->shape->rank == 1;
  if (whole->rank != box->rank || (vector ? index[0]->n : n) != whole->rank ||
      whole->dtype != box->dtype)
    return bad(ev, inst);
  *offset = 0;
  int64_t stride = 1;
  for (int d = whole->rank - 1; d >= 0; d--) {
    if (box->dim[d] > whole->dim[d] || (!vector && index[d]->n != 1) ||
        !hl_is_integral(index[vector ? 0 : d]->shape->dtype))
      return bad(ev, inst);
    *offset += stride * start_index(index, n, d, whole->dim[d], box->dim[d]);
    stride *= whole->dim[d];
  }
  return true;
}

bool eval_dynamic_slice(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                        HlLiteral *out) {
  int64_t offset;
  if (!find_box(ev, inst, in[0]->shape, out->shape, in + 1, (int)inst->n_operands - 1, &offset))
    return false;
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  gather_view(ev, in[0], offset, strides_of(ev->cx, in[0]->shape), out);
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return true;
}

// Where `out` shares its data with operand 0 (the interpreter does so when nobody else holds it),
// only the box is written.
bool eval_dynamic_update_slice(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                               HlLiteral *out) {
  int64_t offset;
  const HlLiteral *update = in[1];
  if (!same_elements(in[0], out))
    return bad(ev, inst);
  if (!find_box(ev, inst, out->shape, update->shape, in + 2, (int)inst->n_operands - 2, &offset))
    return false;
  if (out->data != in[0]->data)
    copy_all(in[0], out);
  if (update->n == 0)
    return true;
  const int size = bytes_of(out);
  const HlMark mark = hl_arena_mark(hl_cx_scratch(ev->cx));
  move_box(ev->cx, size, out->shape->rank, update->shape->dim,
           (Side){(char *)out->data + offset * size, strides_of(ev->cx, out->shape)},
           (Side){update->data, strides_of(ev->cx, update->shape)});
  hl_arena_release(hl_cx_scratch(ev->cx), mark);
  return true;
}

// --- bitcast: the bytes as they lie in memory ---------------------------------------------------

// The dimensions from slowest to fastest and the strides of each, both in physical order, of a
// row-major array that has this layout in memory. False when nothing moves: the layout is the
// default one.
static bool physical_order(HlCx *cx, const HlShape *array, const HlLayout *layout, int64_t **dim,
                           int64_t **stride) {
  const int rank = array->rank;
  if (!layout || layout->minor_to_major.n != rank)
    return false;
  const int64_t *logical = strides_of(cx, array);
  bool *seen = HL_ARRAY(hl_cx_scratch(cx), bool, rank + 1), moves = false;
  *dim = numbers(cx, rank);
  *stride = numbers(cx, rank);
  for (int k = 0; k < rank; k++) {
    const int64_t d = layout->minor_to_major.at[rank - 1 - k];
    if (d < 0 || d >= rank || seen[d])
      return false;
    seen[d] = true;
    moves = moves || d != k;
    (*dim)[k] = array->dim[d];
    (*stride)[k] = logical[d];
  }
  return moves;
}

static const HlLayout *layout_of(const HlShape *declared) {
  return hl_is_array_dtype(declared->dtype) ? declared->layout : NULL;
}

bool eval_bitcast(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const int from_size = bytes_of(in[0]), to_size = bytes_of(out);
  const int64_t bytes = out->n * to_size;
  if (in[0]->n * from_size != bytes)
    return bad(ev, inst);
  if (bytes == 0)
    return true;
  HlCx *cx = ev->cx;
  const HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  int64_t *dim, *stride;
  char *memory = in[0]->data;
  if (physical_order(cx, in[0]->shape, layout_of(inst->operands[0]->shape), &dim, &stride)) {
    const int rank = in[0]->shape->rank;
    int64_t *dense = numbers(cx, rank);
    hl_strides(rank, dim, dense);
    memory = hl_arena_alloc(hl_cx_scratch(cx), (size_t)bytes);
    move_box(cx, from_size, rank, dim, (Side){memory, dense}, (Side){in[0]->data, stride});
  }
  if (physical_order(cx, out->shape, layout_of(inst->shape), &dim, &stride)) {
    const int rank = out->shape->rank;
    int64_t *dense = numbers(cx, rank);
    hl_strides(rank, dim, dense);
    move_box(cx, to_size, rank, dim, (Side){out->data, stride}, (Side){memory, dense});
  } else {
    memcpy(out->data, memory, (size_t)bytes);
  }
  if (hl_dtype_info[out->shape->dtype].bits < 8 && out->shape->dtype != HL_PRED &&
      in[0]->shape->dtype != out->shape->dtype)
    ew_recast_sub_byte(out->shape->dtype, out->data, out->data, out->n);
  hl_arena_release(hl_cx_scratch(cx), mark);
  return true;
}
