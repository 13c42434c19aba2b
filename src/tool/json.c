// tool/json.c: values as JSON.
#include "tool/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void separate(HlBuf *out) {
  const char last = out->n > 0 ? out->at[out->n - 1] : '[';
  if (last != '{' && last != '[' && last != ' ')
    hl_buf_puts(out, ", ");
}

void json_key(HlBuf *out, const char *key) {
  separate(out);
  if (key)
    hl_buf_printf(out, "\"%s\": ", key);
}

void json_open(HlBuf *out, const char *key, char bracket) {
  json_key(out, key);
  hl_buf_putc(out, bracket);
}

void json_close(HlBuf *out, char bracket) {
  hl_buf_putc(out, bracket);
}

void json_bytes(HlBuf *out, const char *key, const char *value, size_t n) {
  json_key(out, key);
  hl_buf_json_string(out, value, n);
}

void json_text(HlBuf *out, const char *key, const char *value) {
  json_bytes(out, key, value, strlen(value));
}

void json_int(HlBuf *out, const char *key, int64_t value) {
  json_key(out, key);
  hl_buf_printf(out, "%" PRId64, value);
}

void json_number(HlBuf *out, const char *key, double value) {
  json_key(out, key);
  if (isfinite(value))
    hl_buf_printf(out, "%.9g", value);
  else
    hl_buf_printf(out, "\"%s\"", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

void json_count(HlBuf *out, const char *key, double value) {
  json_key(out, key);
  hl_buf_printf(out, "%.0f", value);
}

void json_bool(HlBuf *out, const char *key, bool value) {
  json_key(out, key);
  hl_buf_puts(out, value ? "true" : "false");
}

void json_nothing(HlBuf *out, const char *key) {
  json_key(out, key);
  hl_buf_puts(out, "null");
}
