// The protobuf wire format: fields one after the other, bounded walks, framing.
#include "proto/wire.h"

#include <string.h>

bool wire_varint(HlStr *rest, uint64_t *out) {
  uint64_t value = 0;
  for (int k = 0; k < 10 && (size_t)k < rest->n; k++) {
    unsigned char byte = (unsigned char)rest->at[k];
    value |= (uint64_t)(byte & 127) << (7 * k);
    if (byte < 128) {
      *rest = (HlStr){rest->at + k + 1, rest->n - (size_t)k - 1};
      *out = value;
      return true;
    }
  }
  return false;
}

static bool take(HlStr *rest, uint64_t n, HlStr *out) {
  if (n > rest->n)
    return false;
  *out = (HlStr){rest->at, (size_t)n};
  *rest = (HlStr){rest->at + n, rest->n - (size_t)n};
  return true;
}

static uint64_t little_endian(HlStr bytes) {
  uint64_t value = 0;
  for (size_t k = bytes.n; k-- > 0;)
    value = value << 8 | (unsigned char)bytes.at[k];
  return value;
}

static bool read_payload(HlStr *rest, WireField *out) {
  const char *start = rest->at;
  uint64_t n;
  switch (out->type) {
  case WIRE_VARINT:
    if (!wire_varint(rest, &out->value))
      return false;
    out->bytes = (HlStr){start, (size_t)(rest->at - start)};
    return true;
  case WIRE_BYTES: return wire_varint(rest, &n) && take(rest, n, &out->bytes);
  case WIRE_FIXED32:
  case WIRE_FIXED64:
    if (!take(rest, out->type == WIRE_FIXED32 ? 4 : 8, &out->bytes))
      return false;
    out->value = little_endian(out->bytes);
    return true;
  default: return false;
  }
}

bool wire_next(HlStr *rest, WireField *out) {
  HlStr at = *rest;
  uint64_t tag;
  *out = (WireField){.start = rest->at};
  if (at.n == 0 || !wire_varint(&at, &tag) || tag >> 3 == 0 || tag >> 3 > 536870911)
    return false;
  out->number = (uint32_t)(tag >> 3);
  out->type = (int)(tag & 7);
  if (!read_payload(&at, out))
    return false;
  *rest = at;
  return true;
}

bool wire_find(HlStr message, uint32_t number, int type, WireField *out) {
  while (wire_next(&message, out))
    if (out->number == number && out->type == type)
      return true;
  return false;
}

HlPos wire_pos(const HlSource *source, const char *at) {
  const char *base = hl_source_bytes(source).at;
  size_t n = hl_source_bytes(source).n;
  if (at < base || at > base + n)
    return (HlPos){source, 0};
  return (HlPos){source, (HlLoc)(at - base + 1)};
}

typedef struct Level {
  HlStr rest;
  const ProtobufCMessageDescriptor *type;
} Level;

bool wire_check(HlCx *cx, const HlSource *source, HlStr message,
                const ProtobufCMessageDescriptor *type) {
  int limit = hl_cx_limits(cx)->nesting, depth = 0;
  HlArena *arena = hl_arena_new();
  Level *stack = HL_ARRAY(arena, Level, limit + 1);
  stack[depth++] = (Level){message, type};
  bool ok = true;
  while (ok && depth > 0) {
    Level *level = &stack[depth - 1];
    WireField field;
    if (!wire_next(&level->rest, &field)) {
      if (level->rest.n > 0)
        ok = hl_error(cx, wire_pos(source, level->rest.at),
                      "damaged proto: a field of %s cannot be read", level->type->name);
      depth--;
      continue;
    }
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(level->type, field.number);
    if (!known || known->type != PROTOBUF_C_TYPE_MESSAGE || field.type != WIRE_BYTES)
      continue;
    if (depth >= limit)
      ok = hl_error_kind(cx, HL_LIMIT, wire_pos(source, field.start),
                         "messages are nested deeper than %d (limit nesting)", limit);
    else
      stack[depth++] = (Level){field.bytes, known->descriptor};
  }
  hl_arena_free(arena);
  return ok;
}

void wire_put_varint(HlBuf *out, uint64_t value) {
  while (value > 127) {
    hl_buf_putc(out, (char)(value | 128));
    value >>= 7;
  }
  hl_buf_putc(out, (char)value);
}

void wire_put_tag(HlBuf *out, uint32_t number, int type) {
  wire_put_varint(out, (uint64_t)number << 3 | (uint64_t)type);
}

void wire_put_bytes(HlBuf *out, uint32_t number, const void *bytes, size_t n) {
  wire_put_tag(out, number, WIRE_BYTES);
  wire_put_varint(out, n);
  hl_buf_add(out, bytes, n);
}

void wire_put_packed(HlBuf *out, const ProtobufCMessage *message) {
  size_t n = protobuf_c_message_get_packed_size(message);
  hl_buf_grow(out, n);
  protobuf_c_message_pack(message, (uint8_t *)out->at + out->n);
  out->n += n;
  out->at[out->n] = 0;
}

void wire_put_message(HlBuf *out, uint32_t number, const ProtobufCMessage *message) {
  wire_put_tag(out, number, WIRE_BYTES);
  wire_put_varint(out, protobuf_c_message_get_packed_size(message));
  wire_put_packed(out, message);
}

static void *arena_alloc(void *data, size_t size) {
  return hl_arena_alloc(data, size ? size : 1);
}

static void arena_free(void *data, void *pointer) {
}

static ProtobufCAllocator wire_allocator(HlArena *arena) {
  return (ProtobufCAllocator){.alloc = arena_alloc, .free = arena_free, .allocator_data = arena};
}

ProtobufCMessage *wire_unpack(HlCx *cx, const HlSource *source, HlArena *arena, HlStr message,
                              const ProtobufCMessageDescriptor *type) {
  ProtobufCAllocator allocator = wire_allocator(arena);
  ProtobufCMessage *out =
      protobuf_c_message_unpack(type, &allocator, message.n, (const uint8_t *)message.at);
  if (!out)
    hl_error(cx, wire_pos(source, message.at), "damaged proto: cannot unpack %s", type->name);
  return out;
}
