// Literals as protos, both ways. In protos elements stand in the order of the literal's layout, in
// Hilo's literals in row-major order; sub-byte integers take a byte each with the high bits clear.
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "proto/message.h"

// Where the elements of a type stand in a message. One row per type; complex numbers count pairs.
typedef enum Storage { IN_BOOLS, IN_BYTES, IN_S32S, IN_S64S, IN_FLOATS, IN_DOUBLES } Storage;
typedef struct Column {
  Storage storage;
  size_t count_at, data_at;  // offsets of the count (or of the ProtobufCBinaryData) and the pointer
} Column;
#define LIST(storage, field) \
  { storage, offsetof(LiteralMsg, n_##field), offsetof(LiteralMsg, field) }
#define LIST_BOOLS(field) LIST(IN_BOOLS, field)
#define LIST_BYTES(field) \
  { IN_BYTES, offsetof(LiteralMsg, field), 0 }
#define LIST_S32S(field) LIST(IN_S32S, field)
#define LIST_S64S(field) LIST(IN_S64S, field)
#define LIST_FLOATS(field) LIST(IN_FLOATS, field)
#define LIST_DOUBLES(field) LIST(IN_DOUBLES, field)
#define LIST_NONE(field) \
  { 0 }
static const Column columns[HL_DTYPE_COUNT] = {
#define DTYPE(id, text, proto, bits, kind, name, mlir, list, field) [HL_##id] = LIST_##list(field),
#include "hilo/dtypes.def"
};
#undef LIST
#undef LIST_BOOLS
#undef LIST_BYTES
#undef LIST_S32S
#undef LIST_S64S
#undef LIST_FLOATS
#undef LIST_DOUBLES
#undef LIST_NONE

// Bytes that one item of a storage takes in the message's memory.
static size_t item_bytes(Storage storage) {
  static const size_t bytes[] = {[IN_BOOLS] = sizeof(protobuf_c_boolean),
                                 [IN_BYTES] = 1,
                                 [IN_S32S] = 4,
                                 [IN_S64S] = 8,
                                 [IN_FLOATS] = 4,
                                 [IN_DOUBLES] = 8};
  return bytes[storage];
}

// The row-major element number that stands at each place of the layout's order, one after the other.
typedef struct Order {
  int rank;
  int64_t index[64], stride[64];
  const HlShape *shape;
  HlI64s minor_to_major;
  int64_t at;
} Order;

static bool is_permutation(HlI64s list) {
  uint64_t seen = 0;
  for (int k = 0; k < list.n; k++) {
    if (list.at[k] < 0 || list.at[k] >= list.n || list.n > 63)
      return false;
    seen |= 1ULL << list.at[k];
  }
  return seen == (1ULL << list.n) - 1;
}

// False when the order is row-major anyway (or makes no sense).
static bool order_start(Order *o, const HlShape *shape, const HlLayout *layout) {
  *o = (Order){.rank = shape->rank, .shape = shape};
  if (!layout || layout->minor_to_major.n != shape->rank || !is_permutation(layout->minor_to_major))
    return false;
  o->minor_to_major = layout->minor_to_major;
  bool descending = true;
  int64_t stride = 1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    o->stride[d] = stride;
    stride *= shape->dim[d];
    descending &= o->minor_to_major.at[shape->rank - 1 - d] == d;
  }
  return !descending;
}

static int64_t order_next(Order *o) {
  int64_t now = o->at;
  for (int k = 0; k < o->rank; k++) {
    int64_t d = o->minor_to_major.at[k];
    o->at += o->stride[d];
    if (++o->index[d] < o->shape->dim[d])
      break;
    o->at -= o->stride[d] * o->index[d];
    o->index[d] = 0;
  }
  return now;
}

// --- Reading -----------------------------------------------------------------------------------------

static void widen_sub_byte(HlLiteral *lit) {
  int bits = hl_dtype_info[lit->shape->dtype].bits;
  uint8_t *data = lit->data;
  if (bits >= 8 || lit->shape->dtype == HL_PRED)
    return;
  for (int64_t k = 0; k < lit->n; k++) {
    uint8_t low = (uint8_t)(data[k] & ((1 << bits) - 1));
    bool negative = hl_is_signed(lit->shape->dtype) && low >> (bits - 1);
    data[k] = negative ? (uint8_t)(low | (0xff << bits)) : low;
  }
}

static void copy_in(HlLiteral *lit, Storage storage, const void *from) {
  size_t size = (size_t)hl_dtype_bytes(lit->shape->dtype);
  Order order;
  bool ordered = order_start(&order, lit->shape, lit->shape->layout);
  if (storage == IN_BOOLS) {
    for (int64_t k = 0; k < lit->n; k++)
      ((uint8_t *)lit->data)[ordered ? order_next(&order) : k] =
          ((const protobuf_c_boolean *)from)[k] != 0;
  } else if (!ordered) {
    memcpy(lit->data, from, size * (size_t)lit->n);
  } else {
    for (int64_t k = 0; k < lit->n; k++)
      memcpy((char *)lit->data + (size_t)order_next(&order) * size,
             (const char *)from + (size_t)k * size, size);
  }
  widen_sub_byte(lit);
}

static HlLiteral *read_array(ProtoReader *r, HlPos pos, const LiteralMsg *from,
                             const HlShape *shape) {
  const Column *column = &columns[shape->dtype];
  const char *message = (const char *)from;
  size_t have, need_items = 1;
  const void *data;
  if (column->storage == IN_BYTES) {
    const ProtobufCBinaryData *bytes = (const void *)(message + column->count_at);
    have = bytes->len;
    data = bytes->data;
    need_items = (size_t)hl_dtype_bytes(shape->dtype);
  } else {
    memcpy(&have, message + column->count_at, sizeof have);
    memcpy(&data, message + column->data_at, sizeof data);
    need_items = hl_is_complex(shape->dtype) ? 2 : 1;
  }
  int64_t n = hl_shape_elements(shape);
  if (n == INT64_MAX || n > (int64_t)(SIZE_MAX / 32) || have != (size_t)n * need_items) {
    hl_error(r->cx, pos, "a literal of %s holds %zu numbers, expected %" PRId64,
             hl_shape_text(r->cx, shape), have / need_items, n);
    return NULL;
  }
  r->literal_bytes += n * hl_dtype_bytes(shape->dtype);
  if (r->literal_bytes > hl_cx_limits(r->cx)->literal_bytes) {
    hl_error_kind(r->cx, HL_LIMIT, pos,
                  "the constants take more than %" PRId64 " bytes (limit literal_bytes)",
                  hl_cx_limits(r->cx)->literal_bytes);
    return NULL;
  }
  HlLiteral *out = hl_literal_new(r->cx, shape);
  if (out && n > 0)
    copy_in(out, column->storage, data);
  return out;
}

static HlLiteral *read_literal(ProtoReader *r, HlPos pos, const LiteralMsg *from,
                               const HlShape *shape);

static HlLiteral *read_tuple(ProtoReader *r, HlPos pos, const LiteralMsg *from,
                             const HlShape *shape) {
  if (from->n_tuple_literals != (size_t)shape->rank) {
    hl_error(r->cx, pos, "a tuple literal has %zu elements, expected %d", from->n_tuple_literals,
             shape->rank);
    return NULL;
  }
  HlArena *arena = hl_arena_new();
  HlLiteral **element = HL_ARRAY(arena, HlLiteral *, shape->rank + 1);
  int made = 0;
  while (made < shape->rank &&
         (element[made] = read_literal(r, pos, from->tuple_literals[made], shape->element[made])))
    made++;
  HlLiteral *out = made == shape->rank ? hl_literal_tuple(r->cx, made, element) : NULL;
  for (int k = 0; k < made; k++)
    hl_literal_unref(element[k]);
  hl_arena_free(arena);
  return out;
}

// Recursion is as deep as the message, which wire_check has bounded.
static HlLiteral *read_literal(ProtoReader *r, HlPos pos, const LiteralMsg *from,
                               const HlShape *shape) {
  if (shape->dtype == HL_TUPLE)
    return read_tuple(r, pos, from, shape);
  return hl_is_array_dtype(shape->dtype) ? read_array(r, pos, from, shape)
                                         : hl_literal_new(r->cx, shape);
}

HlLiteral *proto_read_literal(ProtoReader *r, HlPos pos, const LiteralMsg *from) {
  const HlShape *shape = proto_read_shape(r, pos, from->shape);
  if (!shape)
    return NULL;
  return read_literal(r, pos, from, hl_shape_static(r->m->shapes, shape));
}

// --- As XLA keeps them in memory -----------------------------------------------------------------------

// Elements smaller than a byte share one, the first in the low bits.
static int raw_bits(HlDtype dtype) {
  int bits = hl_dtype_info[dtype].bits;
  return bits < 8 && 8 % bits == 0 ? bits : 8 * (int)hl_dtype_bytes(dtype);
}

static int64_t raw_bytes(const HlShape *shape, int64_t n) {
  int bits = raw_bits(shape->dtype);
  return bits < 8 ? (n * bits + 7) / 8 : n * (bits / 8);
}

static const char *take(HlStr *rest, int64_t n) {
  if (n < 0 || (size_t)n > rest->n)
    return NULL;
  const char *at = rest->at;
  *rest = (HlStr){at + n, rest->n - (size_t)n};
  return at;
}

static HlLiteral *raw_damaged(ProtoReader *r, const HlStr *rest) {
  hl_error(r->cx, wire_pos(r->source, rest->at), "damaged snapshot: an argument cannot be read");
  return NULL;
}

static HlLiteral *read_raw_array(ProtoReader *r, HlStr *rest, const HlShape *shape) {
  int64_t n = hl_shape_elements(shape);
  if (n == INT64_MAX || n > (int64_t)rest->n * 8)
    return raw_damaged(r, rest);
  if (hl_shape_is_dynamic(shape) && !take(rest, 4 * (int64_t)shape->rank))  // sizes at run time
    return raw_damaged(r, rest);
  const char *from = take(rest, raw_bytes(shape, n));
  HlLiteral *out = from ? hl_literal_new(r->cx, hl_shape_static(r->m->shapes, shape)) : NULL;
  if (!from)
    return raw_damaged(r, rest);
  int bits = raw_bits(shape->dtype);
  if (!out || n == 0)
    return out;
  if (bits >= 8) {
    copy_in(out, IN_BYTES, from);
    return out;
  }
  HlMark mark = hl_arena_mark(r->arena);
  char *wide = hl_arena_alloc(r->arena, (size_t)n);
  for (int64_t k = 0; k < n; k++)
    wide[k] = (char)((unsigned char)from[k * bits / 8] >> (k * bits % 8) & ((1 << bits) - 1));
  copy_in(out, IN_BYTES, wide);
  hl_arena_release(r->arena, mark);
  return out;
}

static HlLiteral *read_raw(ProtoReader *r, HlStr *rest, const HlShape *shape) {
  if (hl_is_array_dtype(shape->dtype))
    return read_raw_array(r, rest, shape);
  if (shape->dtype != HL_TUPLE)
    return hl_literal_new(r->cx, shape);
  HlLiteral **element = base_alloc(((size_t)shape->rank + 1) * sizeof *element);
  int made = 0;
  while (made < shape->rank && (element[made] = read_raw(r, rest, shape->element[made])))
    made++;
  HlLiteral *out = made == shape->rank ? hl_literal_tuple(r->cx, made, element) : NULL;
  for (int k = 0; k < made; k++)
    hl_literal_unref(element[k]);
  base_free(element);
  return out;
}

HlLiteral *proto_read_raw(ProtoReader *r, HlStr *rest) {
  const char *length = take(rest, 8);
  uint64_t n = 0;
  for (int k = 7; length && k >= 0; k--)
    n = n << 8 | (unsigned char)length[k];
  const char *at = length && n <= rest->n ? take(rest, (int64_t)n) : NULL;
  if (!at)
    return raw_damaged(r, rest);
  HlStr bytes = {at, (size_t)n};
  HlMark mark = hl_arena_mark(r->arena);
  const ProtobufCMessageDescriptor *type = &xla__shape_proto__descriptor;
  const ShapeMsg *msg = wire_check(r->cx, r->source, bytes, type)
                            ? (const ShapeMsg *)wire_unpack(r->cx, r->source, r->arena, bytes, type)
                            : NULL;
  const HlShape *shape = msg ? proto_read_shape(r, wire_pos(r->source, at), msg) : NULL;
  hl_arena_release(r->arena, mark);
  return shape ? read_raw(r, rest, shape) : NULL;
}

// --- Writing -----------------------------------------------------------------------------------------

static void copy_out(const HlLiteral *lit, const HlShape *shape, Storage storage, void *to) {
  size_t size = (size_t)hl_dtype_bytes(lit->shape->dtype);
  Order order;
  bool ordered = order_start(&order, lit->shape, shape->layout);
  for (int64_t k = 0; k < lit->n; k++) {
    int64_t at = ordered ? order_next(&order) : k;
    if (storage == IN_BOOLS)
      ((protobuf_c_boolean *)to)[k] = ((const uint8_t *)lit->data)[at];
    else
      memcpy((char *)to + (size_t)k * size, (const char *)lit->data + (size_t)at * size, size);
  }
  int bits = hl_dtype_info[lit->shape->dtype].bits;
  if (storage == IN_BYTES && bits < 8)
    for (int64_t k = 0; k < lit->n; k++)
      ((uint8_t *)to)[k] &= (uint8_t)((1 << bits) - 1);
}

static void write_array(ProtoWriter *w, const HlLiteral *lit, const HlShape *shape,
                        LiteralMsg *out) {
  const Column *column = &columns[lit->shape->dtype];
  size_t element = column->storage == IN_BOOLS ? sizeof(protobuf_c_boolean)
                                               : (size_t)hl_dtype_bytes(lit->shape->dtype);
  void *data = hl_arena_alloc(w->arena, element * (size_t)lit->n + 1);
  copy_out(lit, shape, column->storage, data);
  char *message = (char *)out;
  if (column->storage == IN_BYTES) {
    *(ProtobufCBinaryData *)(void *)(message + column->count_at) =
        (ProtobufCBinaryData){element * (size_t)lit->n, data};
    return;
  }
  size_t items = element * (size_t)lit->n / item_bytes(column->storage);
  memcpy(message + column->count_at, &items, sizeof items);
  memcpy(message + column->data_at, &data, sizeof data);
}

LiteralMsg *proto_literal(ProtoWriter *w, const HlLiteral *literal, const HlShape *shape) {
  LiteralMsg *out = HL_NEW(w->arena, LiteralMsg);
  xla__literal_proto__init(out);
  out->shape = proto_shape(w, shape);
  if (literal->shape->dtype == HL_TUPLE) {
    out->n_tuple_literals = (size_t)literal->shape->rank;
    out->tuple_literals = HL_ARRAY(w->arena, LiteralMsg *, literal->shape->rank);
    for (int k = 0; k < literal->shape->rank; k++)
      out->tuple_literals[k] = proto_literal(w, literal->element[k], shape->element[k]);
  } else if (hl_is_array_dtype(literal->shape->dtype) && literal->data) {
    write_array(w, literal, shape, out);
  }
  return out;
}

static void put_raw(HlArena *arena, const HlLiteral *literal, const HlShape *shape, HlBuf *out) {
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    put_raw(arena, literal->element[k], shape->element[k], out);
  if (!hl_is_array_dtype(shape->dtype))
    return;
  for (int k = 0; hl_shape_is_dynamic(shape) && k < shape->rank; k++) {
    int32_t size = (int32_t)(literal->extent ? literal->extent[k] : shape->dim[k]);
    hl_buf_add(out, &size, sizeof size);
  }
  HlMark mark = hl_arena_mark(arena);
  unsigned char *wide =
      hl_arena_alloc(arena, (size_t)(literal->n * hl_dtype_bytes(shape->dtype)) + 1);
  copy_out(literal, shape, IN_BYTES, wide);
  int bits = raw_bits(shape->dtype);
  int64_t n = raw_bytes(shape, literal->n);
  for (int64_t k = 0; bits < 8 && k < literal->n; k++) {
    unsigned char element = wide[k];
    if (k * bits % 8 == 0)
      wide[k * bits / 8] = 0;
    wide[k * bits / 8] |= (unsigned char)(element << (k * bits % 8));
  }
  hl_buf_add(out, wide, (size_t)n);
  hl_arena_release(arena, mark);
}

void proto_put_raw(HlCx *cx, const HlLiteral *literal, HlBuf *out) {
  ProtoWriter w = {.cx = cx, .arena = hl_arena_new()};
  HlBuf shape = {0};
  wire_put_packed(&shape, &proto_shape(&w, literal->shape)->base);
  for (int k = 0; k < 8; k++)
    hl_buf_putc(out, (char)((uint64_t)shape.n >> (8 * k)));
  hl_buf_add(out, shape.at, shape.n);
  put_raw(w.arena, literal, literal->shape, out);
  hl_buf_free(&shape);
  hl_arena_free(w.arena);
}
