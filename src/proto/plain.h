// proto/plain.h: the attributes that are one field of an instruction's message (a column of attrs.def).
#ifndef PROTO_PLAIN_H
#define PROTO_PLAIN_H

#include <stddef.h>

#include "hilo/ir.h"

typedef enum ProtoPlainType {
  PROTO_NONE,
  PROTO_I64,
  PROTO_I32,
  PROTO_TEXT,
  PROTO_INTS
} ProtoPlainType;
typedef struct ProtoPlain {
  ProtoPlainType type;
  size_t at, count_at;  // offsets in InstMsg
} ProtoPlain;
extern const ProtoPlain proto_plain[HL_ATTR_COUNT];

#endif
