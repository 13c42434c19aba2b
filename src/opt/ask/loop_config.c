// opt/ask/loop_config.c: fields of the JSON object that is a while's backend config.
//
//   loop_config_with("{\"a\":1,\"c\":{}}", "b", "2") is {"a":1,"b":2,"c":{}}

#include <string.h>

#include "opt/ask/loops.h"

// One field of a JSON object, as it stands in its text.
typedef struct Field {
  HlStr name, value;
} Field;

// Where a JSON value that starts at `at` ends: at a comma or closing brace of its own level.
static const char *value_end(const char *at) {
  int depth = 0;
  for (; *at; at++) {
    if (*at == '"') {
      for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
      if (!*at)
        return at;
    } else if (*at == '{' || *at == '[') {
      depth++;
    } else if ((*at == '}' || *at == ']' || *at == ',') && depth == 0) {
      return at;
    } else if (*at == '}' || *at == ']') {
      depth--;
    }
  }
  return at;
}

// The fields of an object; -1: the text is not one.
static int read_fields(HlPass *p, const char *config, Field **out) {
  int capacity = 2;
  for (const char *at = config; *at; at++)
    capacity += *at == ',';
  *out = HL_ARRAY(p->arena, Field, capacity);
  const char *at = config + strspn(config, " \n\t");
  if (!*at)
    return 0;
  if (*at++ != '{')
    return -1;
  int n = 0;
  for (;;) {
    at += strspn(at, " \n\t,");
    if (*at != '"')
      return *at == '}' ? n : -1;
    const char *end = strchr(at + 1, '"');
    if (!end)
      return -1;
    Field *field = &(*out)[n++];
    field->name = (HlStr){at + 1, (size_t)(end - at - 1)};
    at = end + 1 + strspn(end + 1, " \n\t");
    if (*at != ':')
      return -1;
    at += 1 + strspn(at + 1, " \n\t");
    end = value_end(at);
    field->value = (HlStr){at, (size_t)(end - at)};
    at = end;
  }
}

const char *loop_config_field(HlPass *p, const char *config, const char *field) {
  Field *fields;
  int n = read_fields(p, config, &fields);
  for (int k = 0; k < n; k++)
    if (hl_str_is(fields[k].name, field))
      return hl_arena_strndup(p->arena, fields[k].value.at, fields[k].value.n);
  return NULL;
}

static void put_field(HlBuf *out, HlStr name, HlStr value) {
  hl_buf_puts(out, out->n > 1 ? ",\"" : "\"");
  hl_buf_add(out, name.at, name.n);
  hl_buf_puts(out, "\":");
  hl_buf_add(out, value.at, value.n);
}

const char *loop_config_with(HlPass *p, const char *config, const char *field, const char *value) {
  Field *fields;
  int n = read_fields(p, config, &fields);
  if (n < 0)
    return config;
  bool done = !value;
  HlBuf out = {0};
  hl_buf_putc(&out, '{');
  for (int k = 0; k < n; k++) {
    const bool same = hl_str_is(fields[k].name, field);
    const char *name = hl_arena_strndup(p->arena, fields[k].name.at, fields[k].name.n);
    if (!done && strcmp(field, name) <= 0) {
      put_field(&out, hl_str(field), hl_str(value));
      done = true;
    }
    if (!same)
      put_field(&out, fields[k].name, fields[k].value);
  }
  if (!done)
    put_field(&out, hl_str(field), hl_str(value));
  hl_buf_putc(&out, '}');
  const char *text = out.n == 2 ? "" : hl_arena_strndup(p->arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}
