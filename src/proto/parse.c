// Parses text protos into the wire format, by descriptors.
//
// message = { name [":"] ( scalar | "[" scalar,.. "]" | "{" message "}" | "<" message ">" ) [","|";"] }
//
// Messages nest on an explicit stack, each level with a buffer of its own that is appended to its
// parent, with its length, when it closes. Unknown fields are skipped with a warning.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "proto/message.h"

typedef ProtobufCFieldDescriptor Field;

typedef struct Level {
  const ProtobufCMessageDescriptor *type;  // NULL: inside an unknown message, which is skipped
  const Field *field;                      // of the parent that this message is
  char close;
  HlBuf bytes;
} Level;

typedef struct TextParser {
  HlCx *cx;
  HlSource *source;
  const char *at, *end;
  Level *stack;
  int depth, limit;
} TextParser;

static HlPos here(const TextParser *p) {
  return (HlPos){p->source, (HlLoc)(p->at - hl_source_bytes(p->source).at + 1)};
}

static bool wrong(TextParser *p, const char *expected) {
  if (p->at >= p->end)
    return hl_error(p->cx, here(p), "the text ends where %s was expected", expected);
  return hl_error(p->cx, here(p), "expected %s, found '%.*s'", expected, 1, p->at);
}

static void skip_blanks(TextParser *p) {
  while (p->at < p->end) {
    if (*p->at == '#') {
      const char *line = memchr(p->at, '\n', (size_t)(p->end - p->at));
      p->at = line ? line : p->end;
    } else if (strchr(" \t\r\n", *p->at) && *p->at) {
      p->at++;
    } else {
      break;
    }
  }
}

static bool eat(TextParser *p, char c) {
  skip_blanks(p);
  if (p->at >= p->end || *p->at != c)
    return false;
  p->at++;
  return true;
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

static HlStr word(TextParser *p) {
  skip_blanks(p);
  const char *start = p->at;
  while (p->at < p->end && is_word_char(*p->at))
    p->at++;
  return (HlStr){start, (size_t)(p->at - start)};
}

// --- Strings -------------------------------------------------------------------------------------------

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c = (char)(c | 32);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One escape after the backslash.
static void escape(TextParser *p, HlBuf *out) {
  static const char from[] = "abfnrtv\\'\"?", to[] = "\a\b\f\n\r\t\v\\'\"?";
  char c = *p->at++;
  const char *plain = strchr(from, c);
  if (plain && c) {
    hl_buf_putc(out, to[plain - from]);
    return;
  }
  int value = 0;
  if (c >= '0' && c <= '7') {
    value = c - '0';
    for (int k = 0; k < 2 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; k++)
      value = value * 8 + (*p->at++ - '0');
    hl_buf_putc(out, (char)value);
  } else if (c == 'x' || c == 'X') {
    for (int k = 0; k < 2 && p->at < p->end && hex_digit(*p->at) >= 0; k++)
      value = value * 16 + hex_digit(*p->at++);
    hl_buf_putc(out, (char)value);
  } else {
    hl_buf_putc(out, c);
  }
}

static bool quoted(TextParser *p, HlBuf *out) {
  skip_blanks(p);
  if (p->at >= p->end || (*p->at != '"' && *p->at != '\''))
    return wrong(p, "a string");
  while (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
    char quote = *p->at++;
    while (p->at < p->end && *p->at != quote) {
      if (*p->at == '\\' && p->at + 1 < p->end) {
        p->at++;
        escape(p, out);
      } else {
        hl_buf_putc(out, *p->at++);
      }
    }
    if (p->at >= p->end)
      return wrong(p, "the end of a string");
    p->at++;
    skip_blanks(p);
  }
  return true;
}

// --- Scalars -------------------------------------------------------------------------------------------

static bool read_integer(HlStr text, uint64_t *out) {
  char copy[64], *end;
  if (text.n == 0 || text.n >= sizeof copy)
    return false;
  memcpy(copy, text.at, text.n);
  copy[text.n] = 0;
  errno = 0;
  *out = copy[0] == '-' ? (uint64_t)strtoll(copy, &end, 0) : strtoull(copy, &end, 0);
  return *end == 0 && errno == 0;
}

static bool read_real(HlStr text, double *out) {
  char copy[512], *end;
  if (text.n == 0 || text.n >= sizeof copy)
    return false;
  memcpy(copy, text.at, text.n);
  copy[text.n] = 0;
  *out = base_read_double(copy, &end);
  return *end == 0 || (end > copy && strcmp(end, "f") == 0);
}

static bool read_varint(TextParser *p, const Field *f, HlStr text, uint64_t *out) {
  if (f->type == PROTOBUF_C_TYPE_BOOL && (hl_str_is(text, "true") || hl_str_is(text, "false"))) {
    *out = text.at[0] == 't';
    return true;
  }
  if (f->type == PROTOBUF_C_TYPE_ENUM && text.n > 0 && text.n < 100 && hex_digit(text.at[0]) != 0) {
    char name[100];
    memcpy(name, text.at, text.n);
    name[text.n] = 0;
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, name);
    if (value) {
      *out = (uint64_t)(int64_t)value->value;
      return true;
    }
  }
  return read_integer(text, out) ||
         hl_error(p->cx, here(p), "'%.*s' is no value for the field '%s'",
                  (int)(text.n < 80 ? text.n : 80), text.at, f->name);
}

static bool scalar(TextParser *p, const Field *f, HlBuf *out) {
  if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES) {
    HlBuf text = {0};
    bool ok = quoted(p, &text);
    if (ok)
      wire_put_bytes(out, f->id, text.at ? text.at : "", text.n);
    hl_buf_free(&text);
    return ok;
  }
  HlStr text = word(p);
  if (f->type == PROTOBUF_C_TYPE_FLOAT || f->type == PROTOBUF_C_TYPE_DOUBLE) {
    double value;
    if (!read_real(text, &value))
      return wrong(p, "a number");
    float narrow = (float)value;
    bool wide = f->type == PROTOBUF_C_TYPE_DOUBLE;
    wire_put_tag(out, f->id, wide ? WIRE_FIXED64 : WIRE_FIXED32);
    hl_buf_add(out, wide ? (void *)&value : (void *)&narrow, wide ? 8 : 4);
    return true;
  }
  uint64_t value = 0;
  if (!read_varint(p, f, text, &value))
    return false;
  wire_put_tag(out, f->id, WIRE_VARINT);
  wire_put_varint(out, value);
  return true;
}

// --- Fields and messages ---------------------------------------------------------------------------------

static bool open_message(TextParser *p, const Field *f, char close) {
  if (p->depth >= p->limit)
    return hl_error_kind(p->cx, HL_LIMIT, here(p),
                         "messages are nested deeper than %d (limit nesting)", p->limit);
  p->stack[p->depth++] = (Level){.type = f ? f->descriptor : NULL, .field = f, .close = close};
  return true;
}

static void close_message(TextParser *p) {
  Level *level = &p->stack[--p->depth];
  if (level->field)
    wire_put_bytes(&p->stack[p->depth - 1].bytes, level->field->id,
                   level->bytes.at ? level->bytes.at : "", level->bytes.n);
  hl_buf_free(&level->bytes);
}

static bool skip_scalar(TextParser *p) {
  skip_blanks(p);
  if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
    HlBuf unused = {0};
    bool ok = quoted(p, &unused);
    hl_buf_free(&unused);
    return ok;
  }
  return word(p).n > 0 || wrong(p, "a value");
}

static bool list(TextParser *p, const Field *f, HlBuf *out) {
  if (eat(p, ']'))
    return true;
  do {
    if (!(f ? scalar(p, f, out) : skip_scalar(p)))
      return false;
  } while (eat(p, ','));
  return eat(p, ']') || wrong(p, "',' or ']'");
}

static const Field *field_named(TextParser *p, HlStr name) {
  const ProtobufCMessageDescriptor *type = p->stack[p->depth - 1].type;
  char text[100];
  if (!type)
    return NULL;
  if (name.n < sizeof text) {
    memcpy(text, name.at, name.n);
    text[name.n] = 0;
    const Field *f = protobuf_c_message_descriptor_get_field_by_name(type, text);
    if (f)
      return f;
  }
  hl_warn(p->cx, here(p), "unknown field '%.*s' of %s is skipped", (int)(name.n < 80 ? name.n : 80),
          name.at, type->short_name);
  return NULL;
}

// [type.googleapis.com/package.Message]: the last part, as far as there is a bracket that closes.
static HlStr type_name(TextParser *p) {
  HlStr part = {p->at, 0};
  for (; p->at < p->end && (is_word_char(*p->at) || *p->at == '/'); p->at++)
    if (*p->at == '.' || *p->at == '/')
      part.at = p->at + 1;
  part.n = (size_t)(p->at - part.at);
  return eat(p, ']') ? part : (HlStr){0};
}

static bool field(TextParser *p) {
  HlStr name = eat(p, '[') ? type_name(p) : word(p);
  if (name.n == 0)
    return wrong(p, "a field's name");
  const Field *f = field_named(p, name);
  bool colon = eat(p, ':');
  bool may_nest = !f || f->type == PROTOBUF_C_TYPE_MESSAGE;
  if (may_nest && eat(p, '{'))
    return open_message(p, f, '}');
  if (may_nest && eat(p, '<'))
    return open_message(p, f, '>');
  if (f && f->type == PROTOBUF_C_TYPE_MESSAGE)
    return wrong(p, "'{'");
  if (!colon)
    return wrong(p, "':'");
  HlBuf *out = &p->stack[p->depth - 1].bytes;
  if (eat(p, '['))
    return list(p, f, out);
  return f ? scalar(p, f, out) : skip_scalar(p);
}

static bool parse(TextParser *p) {
  for (;;) {
    skip_blanks(p);
    if (p->at >= p->end)
      return p->depth == 1 || wrong(p, "the end of a message");
    if (p->depth > 1 && *p->at == p->stack[p->depth - 1].close) {
      p->at++;
      close_message(p);
    } else if (!field(p)) {
      return false;
    }
    if (!eat(p, ','))
      eat(p, ';');
  }
}

bool pbtxt_to_wire(HlCx *cx, HlSource *source, const ProtobufCMessageDescriptor *type, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlStr text = hl_source_bytes(source);
  TextParser p = {.cx = cx,
                  .source = source,
                  .at = text.at,
                  .end = text.at + text.n,
                  .limit = hl_cx_limits(cx)->nesting};
  p.stack = HL_ARRAY(arena, Level, p.limit + 1);
  p.stack[p.depth++] = (Level){.type = type};
  bool ok = parse(&p);
  if (ok) {
    *out = p.stack[0].bytes;
    p.stack[0].bytes = (HlBuf){0};
  }
  for (int k = 0; k < p.depth; k++)
    hl_buf_free(&p.stack[k].bytes);
  hl_arena_free(arena);
  return ok;
}
