// The table of plain fields, made from the `field` column of attrs.def: NONE there gives an empty row.
#include "proto/plain.h"

#include "proto/message.h"

#define PROBE_NONE ~, 1
#define SECOND(a, b, ...) b
#define IS_NONE_(...) SECOND(__VA_ARGS__, 0, 0)
#define IS_NONE(field) IS_NONE_(PROBE_##field)
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define FIELD_INT(f) \
  { _Generic(((InstMsg *)0)->f, int64_t : PROTO_I64, default : PROTO_I32), offsetof(InstMsg, f), 0 }
#define FIELD_BOOL(f) \
  { PROTO_I32, offsetof(InstMsg, f), 0 }
#define FIELD_TEXT(f) \
  { PROTO_TEXT, offsetof(InstMsg, f), 0 }
#define FIELD_INTS(f) \
  { PROTO_INTS, offsetof(InstMsg, f), offsetof(InstMsg, n_##f) }
#define ROW_0(kind, f) FIELD_##kind(f)
#define ROW_1(kind, f) \
  { PROTO_NONE, 0, 0 }
#define ATTR(id, text, kind, more, def, field) [HL_A_##id] = CAT(ROW_, IS_NONE(field))(kind, field),
const ProtoPlain proto_plain[HL_ATTR_COUNT] = {
#include "hilo/attrs.def"
};
#undef PROBE_NONE
#undef SECOND
#undef IS_NONE_
#undef IS_NONE
#undef CAT_
#undef CAT
#undef FIELD_INT
#undef FIELD_BOOL
#undef FIELD_TEXT
#undef FIELD_INTS
#undef ROW_0
#undef ROW_1
#undef ATTR
