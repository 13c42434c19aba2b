// Tells which proto bytes are, by a look at the wire: the forms share field numbers but not what
// stands under them. A module is recognised by its first instruction having an opcode.
#include <string.h>

#include "base/ascii.h"
#include "hilo/proto.h"
#include "proto/wire.h"

static bool is_word(HlStr s) {
  if (s.n == 0 || s.n > 200)
    return false;
  for (size_t k = 0; k < s.n; k++)
    if (!is_alnum(s.at[k]) && !strchr("-_.", s.at[k]))
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
    if (wire_find(comp.bytes, 2, WIRE_BYTES, &inst) &&
        wire_find(inst.bytes, 2, WIRE_BYTES, &opcode) && is_word(opcode.bytes))
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

// The text without blanks and comments in front.
static HlStr skip_comments(HlStr s) {
  while (s.n > 0 && (is_space(s.at[0]) || s.at[0] == '#')) {
    const char *end = s.at[0] == '#' ? memchr(s.at, '\n', s.n) : s.at;
    size_t skip = end ? (size_t)(end - s.at) + 1 : s.n;
    s = (HlStr){s.at + skip, s.n - skip};
  }
  return s;
}

static HlStr first_word(HlStr s) {
  size_t n = 0;
  while (n < s.n && (is_alnum(s.at[n]) || s.at[n] == '_'))
    n++;
  return (HlStr){s.at, n};
}

static bool has_field(HlStr s, const char *name) {
  return memmem(s.at, s.n, name, strlen(name)) != NULL;
}

// A text proto starts with the name of a field, which tells the form, and ':' or a message.
static HlProtoForm form_of_pbtxt(HlStr s) {
  static const struct {
    const char *word;
    HlProtoForm form;
  } starts[] = {{"hlo", HL_PROTO_SNAPSHOT},
                {"arguments", HL_PROTO_SNAPSHOT},
                {"hlo_module", HL_PROTO_HLO},
                {"partitions", HL_PROTO_UNOPTIMIZED_SNAPSHOT},
                {"config", HL_PROTO_WITH_CONFIG},
                {"name", HL_PROTO_MODULE},
                {"entry_computation_name", HL_PROTO_MODULE},
                {"computations", HL_PROTO_MODULE},
                {"id", HL_PROTO_MODULE}};
  s = skip_comments(s);
  HlStr word = first_word(s);
  HlStr rest = skip_comments((HlStr){s.at + word.n, s.n - word.n});
  if (rest.n == 0 || !strchr(":{<", rest.at[0]) || memchr(s.at, '\0', s.n < 4096 ? s.n : 4096))
    return HL_PROTO_NONE;
  for (int k = 0; k < HL_COUNT_OF(starts); k++) {
    if (!hl_str_is(word, starts[k].word))
      continue;
    if (starts[k].form != HL_PROTO_HLO)
      return starts[k].form;
    return has_field(s, "\npartitions") ? HL_PROTO_UNOPTIMIZED_SNAPSHOT
           : has_field(s, "\nconfig")   ? HL_PROTO_WITH_CONFIG
                                        : HL_PROTO_HLO;
  }
  return HL_PROTO_NONE;
}

bool packed_split(HlStr bytes, HlStr *message, HlStr *arguments) {
  uint64_t length = 0;
  size_t k = 0;
  do {
    if (k >= bytes.n || k > 8)
      return false;
    length |= (uint64_t)((unsigned char)bytes.at[k] & 127) << (7 * k);
  } while ((unsigned char)bytes.at[k++] & 128);
  WireField module;
  if (length == 0 || length > bytes.n - k)
    return false;
  *message = (HlStr){bytes.at + k, (size_t)length};
  *arguments = (HlStr){message->at + length, bytes.n - k - (size_t)length};
  return wire_find(*message, 1, WIRE_BYTES, &module) && has_computations(module.bytes);
}

HlProtoForm hl_proto_sniff(HlStr bytes, bool *is_text) {
  WireField outer, inner;
  HlProtoForm form = form_of_pbtxt(bytes);
  *is_text = form != HL_PROTO_NONE;
  if (*is_text)
    return form;
  if (has_computations(bytes))
    return HL_PROTO_MODULE;
  HlStr message, arguments;
  if (packed_split(bytes, &message, &arguments))
    return HL_PROTO_UNOPTIMIZED_SNAPSHOT;
  if (!wire_find(bytes, 1, WIRE_BYTES, &outer))
    return HL_PROTO_NONE;
  if (has_computations(outer.bytes))
    return holder_of_module(bytes);
  if (wire_find(outer.bytes, 1, WIRE_BYTES, &inner) && has_computations(inner.bytes))
    return HL_PROTO_SNAPSHOT;
  return HL_PROTO_NONE;
}
