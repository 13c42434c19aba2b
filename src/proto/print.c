// Prints messages from the wire as text protos and as JSON, by their descriptors.
//
// Packed lists print one entry a line in text protos, as protobuf's own printer does. The message
// types that stand for maps (their names end in MapEntry) become objects in JSON.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "proto/message.h"

typedef ProtobufCFieldDescriptor Field;

// The wire type a field's values have outside packed lists.
static int wire_type(const Field *f) {
  switch (f->type) {
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_FLOAT: return WIRE_FIXED32;
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_SFIXED64:
  case PROTOBUF_C_TYPE_DOUBLE: return WIRE_FIXED64;
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES:
  case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
  default: return WIRE_VARINT;
  }
}

static bool is_packed_run(const Field *f, const WireField *w) {
  return f->label == PROTOBUF_C_LABEL_REPEATED && w->type == WIRE_BYTES &&
         wire_type(f) != WIRE_BYTES;
}

// The next value of a packed run.
static bool next_packed(const Field *f, HlStr *run, uint64_t *value) {
  size_t width = wire_type(f) == WIRE_FIXED32 ? 4 : wire_type(f) == WIRE_FIXED64 ? 8 : 0;
  *value = 0;
  if (width) {
    if (run->n < width)
      return false;
    memcpy(value, run->at, width);
    *run = (HlStr){run->at + width, run->n - width};
    return true;
  }
  for (int shift = 0; run->n > 0 && shift < 70; shift += 7) {
    unsigned char byte = (unsigned char)run->at[0];
    *run = (HlStr){run->at + 1, run->n - 1};
    if (shift < 64)
      *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128)
      return true;
  }
  return false;
}

// In few digits if they say it all, else in as many as always do; as protobuf does it.
static void put_digits(HlBuf *out, double x, bool single) {
  char text[32];
  base_snprintf(text, sizeof text, "%.*g", single ? 6 : 15, x);
  const double back = single ? (double)base_read_float(text, NULL) : base_read_double(text, NULL);
  if (back == x)
    hl_buf_puts(out, text);
  else
    hl_buf_printf(out, "%.*g", single ? 9 : 17, x);
}

static void put_real(HlBuf *out, double x, bool single, bool json) {
  if (isnan(x))
    hl_buf_puts(out, json ? "\"NaN\"" : "nan");
  else if (isinf(x))
    hl_buf_puts(out, json ? (x > 0 ? "\"Infinity\"" : "\"-Infinity\"") : x > 0 ? "inf" : "-inf");
  else
    put_digits(out, x, single);
}

static void put_base64(HlBuf *out, HlStr s) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  hl_buf_putc(out, '"');
  for (size_t k = 0; k < s.n; k += 3) {
    uint32_t block = (uint32_t)(unsigned char)s.at[k] << 16;
    block |= k + 1 < s.n ? (uint32_t)(unsigned char)s.at[k + 1] << 8 : 0;
    block |= k + 2 < s.n ? (uint32_t)(unsigned char)s.at[k + 2] : 0;
    hl_buf_putc(out, digits[block >> 18]);
    hl_buf_putc(out, digits[block >> 12 & 63]);
    hl_buf_putc(out, k + 1 < s.n ? digits[block >> 6 & 63] : '=');
    hl_buf_putc(out, k + 2 < s.n ? digits[block & 63] : '=');
  }
  hl_buf_putc(out, '"');
}

static void put_enum(const Field *f, int64_t value, HlBuf *out, bool json) {
  const ProtobufCEnumValue *word = protobuf_c_enum_descriptor_get_value(f->descriptor, (int)value);
  if (word && json)
    hl_buf_printf(out, "\"%s\"", word->name);
  else if (word)
    hl_buf_puts(out, word->name);
  else
    hl_buf_i64(out, value);
}

static void put_number(const Field *f, uint64_t bits, HlBuf *out, bool json) {
  float f32;
  double f64;
  uint32_t low = (uint32_t)bits;
  switch (f->type) {
  case PROTOBUF_C_TYPE_BOOL: hl_buf_puts(out, bits ? "true" : "false"); break;
  case PROTOBUF_C_TYPE_ENUM: put_enum(f, (int64_t)bits, out, json); break;
  case PROTOBUF_C_TYPE_FLOAT:
    memcpy(&f32, &low, sizeof f32);
    put_real(out, (double)f32, true, json);
    break;
  case PROTOBUF_C_TYPE_DOUBLE:
    memcpy(&f64, &bits, sizeof f64);
    put_real(out, f64, false, json);
    break;
  case PROTOBUF_C_TYPE_INT32: hl_buf_i64(out, (int32_t)low); break;
  case PROTOBUF_C_TYPE_UINT32: hl_buf_u64(out, low); break;
  case PROTOBUF_C_TYPE_UINT64:
    hl_buf_printf(out, json ? "\"%" PRIu64 "\"" : "%" PRIu64, bits);
    break;
  default: hl_buf_printf(out, json ? "\"%" PRId64 "\"" : "%" PRId64, (int64_t)bits); break;
  }
}

static void put_bytes(const Field *f, HlStr s, HlBuf *out, bool json) {
  if (json && f->type == PROTOBUF_C_TYPE_BYTES) {
    put_base64(out, s);
  } else if (json) {
    hl_buf_json_string(out, s.at, s.n);
  } else {
    hl_buf_putc(out, '"');
    hl_buf_c_escape(out, s.at, s.n);
    hl_buf_putc(out, '"');
  }
}

// --- Text protos -----------------------------------------------------------------------------------------

static void indent(HlBuf *out, int depth) {
  for (int k = 0; k < depth; k++)
    hl_buf_puts(out, "  ");
}

static void text_number(const Field *f, uint64_t bits, int depth, HlBuf *out) {
  indent(out, depth);
  hl_buf_printf(out, "%s: ", f->name);
  put_number(f, bits, out, false);
  hl_buf_putc(out, '\n');
}

static void text_field(const Field *f, const WireField *w, int depth, HlBuf *out) {
  if (is_packed_run(f, w)) {
    uint64_t value;
    for (HlStr run = w->bytes; next_packed(f, &run, &value);)
      text_number(f, value, depth, out);
  } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
    indent(out, depth);
    hl_buf_printf(out, "%s {\n", f->name);
  } else if (wire_type(f) == WIRE_BYTES) {
    indent(out, depth);
    hl_buf_printf(out, "%s: ", f->name);
    put_bytes(f, w->bytes, out, false);
    hl_buf_putc(out, '\n');
  } else {
    text_number(f, w->value, depth, out);
  }
}

// Depth is bounded by what our own writer nests (shapes and shardings of a module already read).
static void text_message(HlStr message, const ProtobufCMessageDescriptor *type, int depth,
                         HlBuf *out) {
  WireField w;
  while (wire_next(&message, &w)) {
    const Field *f = protobuf_c_message_descriptor_get_field(type, w.number);
    if (!f)
      continue;
    text_field(f, &w, depth, out);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
      text_message(w.bytes, f->descriptor, depth + 1, out);
      indent(out, depth);
      hl_buf_puts(out, "}\n");
    }
  }
}

void wire_to_pbtxt(HlStr message, const ProtobufCMessageDescriptor *type, HlBuf *out) {
  text_message(message, type, 0, out);
}

// --- JSON ------------------------------------------------------------------------------------------------

static bool is_map(const Field *f) {
  const char *name = f->type == PROTOBUF_C_TYPE_MESSAGE
                         ? ((const ProtobufCMessageDescriptor *)f->descriptor)->short_name
                         : "";
  size_t n = strlen(name);
  return n > 8 && strcmp(name + n - 8, "MapEntry") == 0;
}

// camelCase of a field's name, quoted.
static void json_name(const char *name, HlBuf *out) {
  hl_buf_putc(out, '"');
  for (; *name; name++) {
    if (name[0] == '_' && name[1] >= 'a' && name[1] <= 'z')
      hl_buf_putc(out, (char)(*++name - 'a' + 'A'));
    else if (name[0] != '_')
      hl_buf_putc(out, *name);
  }
  hl_buf_putc(out, '"');
}

static void json_message(HlStr message, const ProtobufCMessageDescriptor *type, int depth,
                         HlBuf *out);

static void json_map_entry(const WireField *w, const ProtobufCMessageDescriptor *type, int depth,
                           HlBuf *out) {
  WireField key = {0}, value = {0};
  const Field *f = protobuf_c_message_descriptor_get_field(type, 2);
  const Field *kf = protobuf_c_message_descriptor_get_field(type, 1);
  bool has_key = wire_find(w->bytes, 1, wire_type(kf), &key);
  if (kf->type == PROTOBUF_C_TYPE_STRING)
    hl_buf_json_string(out, has_key ? key.bytes.at : "", has_key ? key.bytes.n : 0);
  else
    hl_buf_printf(out, "\"%" PRId64 "\"", (int64_t)key.value);
  hl_buf_puts(out, ": ");
  bool has_value = wire_find(w->bytes, 2, WIRE_BYTES, &value);
  if (f->type == PROTOBUF_C_TYPE_MESSAGE)
    json_message(value.bytes, f->descriptor, depth + 1, out);
  else
    hl_buf_json_string(out, has_value ? value.bytes.at : "", has_value ? value.bytes.n : 0);
}

static void json_value(const Field *f, const WireField *w, int depth, bool *first, HlBuf *out) {
  uint64_t value;
  if (is_packed_run(f, w)) {
    for (HlStr run = w->bytes; next_packed(f, &run, &value); *first = false) {
      hl_buf_puts(out, *first ? "" : ", ");
      put_number(f, value, out, true);
    }
    return;
  }
  hl_buf_puts(out, *first ? "" : ", ");
  *first = false;
  if (is_map(f))
    json_map_entry(w, f->descriptor, depth, out);
  else if (f->type == PROTOBUF_C_TYPE_MESSAGE)
    json_message(w->bytes, f->descriptor, depth + 1, out);
  else if (wire_type(f) == WIRE_BYTES)
    put_bytes(f, w->bytes, out, true);
  else
    put_number(f, w->value, out, true);
}

static void json_line(HlBuf *out, int depth) {
  hl_buf_putc(out, '\n');
  indent(out, depth);
}

// Entries of a repeated field stand together in what our writer packs, but for fields split around
// the instructions, which are not repeated.
static void json_message(HlStr message, const ProtobufCMessageDescriptor *type, int depth,
                         HlBuf *out) {
  WireField w;
  const Field *open = NULL;
  bool any = false, first = true;
  hl_buf_putc(out, '{');
  while (wire_next(&message, &w)) {
    const Field *f = protobuf_c_message_descriptor_get_field(type, w.number);
    if (!f)
      continue;
    bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
    if (open && open != f) {
      hl_buf_puts(out, is_map(open) ? "}" : "]");
      open = NULL;
    }
    if (open != f) {
      hl_buf_puts(out, any ? "," : "");
      json_line(out, depth + 1);
      json_name(f->name, out);
      hl_buf_puts(out, list ? (is_map(f) ? ": {" : ": [") : ": ");
      first = true;
      any = true;
    }
    open = list ? f : NULL;
    json_value(f, &w, depth + 1, &first, out);
  }
  if (open)
    hl_buf_puts(out, is_map(open) ? "}" : "]");
  if (any)
    json_line(out, depth);
  hl_buf_putc(out, '}');
}

void wire_to_json(HlStr message, const ProtobufCMessageDescriptor *type, HlBuf *out) {
  json_message(message, type, 0, out);
  hl_buf_putc(out, '\n');
}
