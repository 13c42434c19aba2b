// proto/wire.h: the wire format itself: fields one after the other, walks with bounds, framing.
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "hilo/base.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

// One field of a message: `bytes` is the payload (of a varint and fixed ones: their encoding).
typedef struct WireField {
  uint32_t number;
  int type;
  HlStr bytes;
  uint64_t value;     // varints and fixed ones
  const char *start;  // of the tag
} WireField;

// Reads the field at the front of *rest and moves on. False at the end (rest empty) and on damage
// (rest not empty).
bool wire_next(HlStr *rest, WireField *out);
// Reads the number at the front of *rest and moves on; false at the end and on damage.
bool wire_varint(HlStr *rest, uint64_t *out);
// The first field of a number and type; false if there is none before the end or the first damage.
bool wire_find(HlStr message, uint32_t number, int type, WireField *out);

// Walks a message and all messages in it by their descriptor, without recursion: everything well
// formed, nesting within the limit. Reports at the byte where it is not. `base` is where the source's
// bytes start.
bool wire_check(HlCx *cx, const HlSource *source, HlStr message,
                const ProtobufCMessageDescriptor *type);

void wire_put_varint(HlBuf *out, uint64_t value);
void wire_put_tag(HlBuf *out, uint32_t number, int type);
// Appends a length-delimited field.
void wire_put_bytes(HlBuf *out, uint32_t number, const void *bytes, size_t n);
// Appends a message as it packs, and as a length-delimited field.
void wire_put_packed(HlBuf *out, const ProtobufCMessage *message);
void wire_put_message(HlBuf *out, uint32_t number, const ProtobufCMessage *message);

// Unpacks a checked message into the arena; NULL after reporting.
ProtobufCMessage *wire_unpack(HlCx *cx, const HlSource *source, HlArena *arena, HlStr message,
                              const ProtobufCMessageDescriptor *type);
// sniff.c: the message and the arguments of a packed snapshot (packed.c); false if the bytes are none.
bool packed_split(HlStr bytes, HlStr *message, HlStr *arguments);
HlPos wire_pos(const HlSource *source, const char *at);

#endif
