// Tells which proto bytes are, by a look at the wire: the forms share field numbers but not what
// stands under them. A module is recognised by its first instruction having an opcode.
#include <ctype.h>
#include <string.h>

#include "hilo/proto.h"
#include "proto/wire.h"

static bool is_word(HlStr s) {
  if (s.n == 0 || s.n > 200)
    return false;
  for (size_t k = 0; k < s.n; k++)
    if (!isalnum((unsigned char)s.at[k]) && !strchr("-_.", s.at[k]))
      return false;
  return true;
}

// Whether a message is an HloModuleProto: computations (3) with instructions (2) with opcodes (2).
static bool has_computations(HlStr message) {
  WireField comp, inst, opcode;
  HlStr rest = message;
  while (wire_next(&rest, &comp)) {
    if (comp.number != 3 || comp.type != WIRE_BYTES)
      continue;
    if (wire_find(comp.bytes, 2, WIRE_BYTES, &inst) && wire_find(inst.bytes, 2, WIRE_BYTES, &opcode) &&
        is_word(opcode.bytes))
      return true;
  }
  return false;
}

// A config has more fields than the arguments of an unoptimised snapshot.
static bool is_config(HlStr message) {
  WireField f;
  while (wire_next(&message, &f))
    if (f.number > 2 || (f.number == 2 && f.type == WIRE_VARINT))
      return true;
  return false;
}

static HlProtoForm holder_of_module(HlStr bytes) {
  WireField f;
  HlProtoForm form = HL_PROTO_HLO;
  while (wire_next(&bytes, &f)) {
    if (f.number == 3 && f.type == WIRE_VARINT)
      return HL_PROTO_UNOPTIMIZED_SNAPSHOT;
    if (f.number == 2 && f.type == WIRE_BYTES)
      form = is_config(f.bytes) ? HL_PROTO_WITH_CONFIG : HL_PROTO_UNOPTIMIZED_SNAPSHOT;
  }
  return form;
}

// A text proto of one of the forms starts with a field's name.
static bool looks_like_pbtxt(HlStr s) {
  static const char *const starts[] = {"name:", "entry_computation_name:", "computations", "hlo_module", "hlo ", "hlo{",
                                       "hlo:", "id:", "partitions", "config"};
  while (s.n > 0 && (isspace((unsigned char)s.at[0]) || s.at[0] == '#')) {
    const char *end = s.at[0] == '#' ? memchr(s.at, '\n', s.n) : s.at;
    size_t skip = end ? (size_t)(end - s.at) + 1 : s.n;
    s = (HlStr){s.at + skip, s.n - skip};
  }
  for (int k = 0; k < HL_COUNT_OF(starts); k++)
    if (s.n > strlen(starts[k]) && memcmp(s.at, starts[k], strlen(starts[k])) == 0)
      return memchr(s.at, '\0', s.n < 4096 ? s.n : 4096) == NULL;
  return false;
}

static bool has_field(HlStr s, const char *name) {
  return memmem(s.at, s.n, name, strlen(name)) != NULL;
}

static HlProtoForm form_of_pbtxt(HlStr s) {
  HlStr head = {s.at, s.n < 65536 ? s.n : 65536};
  const char *hlo = memmem(head.at, head.n, "hlo ", 4), *module = memmem(head.at, head.n, "hlo_module", 10);
  const char *comps = memmem(head.at, head.n, "computations", 12);
  if (hlo && module && hlo < module && (!comps || module < comps))
    return HL_PROTO_SNAPSHOT;
  if (!module || (comps && comps < module))
    return HL_PROTO_MODULE;
  if (has_field(s, "\npartitions"))
    return HL_PROTO_UNOPTIMIZED_SNAPSHOT;
  return has_field(s, "\nconfig") ? HL_PROTO_WITH_CONFIG : HL_PROTO_HLO;
}

HlProtoForm hl_proto_sniff(HlStr bytes, bool *is_text) {
  WireField outer, inner;
  *is_text = looks_like_pbtxt(bytes);
  if (*is_text)
    return form_of_pbtxt(bytes);
  if (has_computations(bytes))
    return HL_PROTO_MODULE;
  if (!wire_find(bytes, 1, WIRE_BYTES, &outer))
    return HL_PROTO_NONE;
  if (has_computations(outer.bytes))
    return holder_of_module(bytes);
  if (wire_find(outer.bytes, 1, WIRE_BYTES, &inner) && has_computations(inner.bytes))
    return HL_PROTO_SNAPSHOT;
  return HL_PROTO_NONE;
}
