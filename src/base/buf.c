// buf.c: a byte buffer that grows, and what is printed into it.

#include "base/compiler.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/put.h"

#include <stdio.h>

void hl_buf_free(HlBuf *buf) {
  base_free(buf->at);
  *buf = (HlBuf){.owner = buf->owner};
}

bool base_buf_try_grow(HlBuf *buf, size_t more) {
  if (more < buf->capacity && buf->n < buf->capacity - more)
    return true;
  if (more > PTRDIFF_MAX / 4 || buf->n > PTRDIFF_MAX / 4)
    return false;
  const size_t need = buf->n + more + 1;
  size_t capacity = buf->capacity + buf->capacity / 2;
  if (capacity < need)
    capacity = need;
  if (capacity < 64)
    capacity = 64;
  char *at = base_try_realloc(buf->at, capacity);
  if (!at)
    return false;
  if (!buf->at) {
    at[0] = 0;
    if (buf->owner)
      base_give(at, buf->owner);
  }
  buf->at = at;
  buf->capacity = capacity;
  return true;
}

void hl_buf_grow(HlBuf *buf, size_t more) {
  if (!base_buf_try_grow(buf, more))
    base_out_of_memory(more);
}

void hl_buf_add(HlBuf *buf, const void *bytes, size_t n) {
  hl_buf_grow(buf, n);
  if (n)
    memcpy(buf->at + buf->n, bytes, n);
  buf->n += n;
  buf->at[buf->n] = 0;
}

void hl_buf_puts(HlBuf *buf, const char *text) {
  hl_buf_add(buf, text, strlen(text));
}

void hl_buf_putc(HlBuf *buf, char c) {
  hl_buf_grow(buf, 1);
  buf->at[buf->n++] = c;
  buf->at[buf->n] = 0;
}

void hl_buf_u64(HlBuf *buf, uint64_t value) {
  put_u64(buf, value);
  put_end(buf);
}

void hl_buf_i64(HlBuf *buf, int64_t value) {
  put_i64(buf, value);
  put_end(buf);
}

void hl_buf_printf(HlBuf *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(buf, format, args);
  va_end(args);
}

void hl_buf_vprintf(HlBuf *buf, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  hl_buf_grow(buf, 64);
  const int n = base_vsnprintf(buf->at + buf->n, buf->capacity - buf->n, format, args);
  if (n >= 0 && (size_t)n >= buf->capacity - buf->n) {
    hl_buf_grow(buf, (size_t)n);
    base_vsnprintf(buf->at + buf->n, buf->capacity - buf->n, format, again);
  }
  va_end(again);
  if (n > 0)
    buf->n += (size_t)n;
  buf->at[buf->n] = 0;
}

// The letter after the backslash of a two-character escape, or 0.
static char escape_letter(char c) {
  switch (c) {
  case '\n': return 'n';
  case '\r': return 'r';
  case '\t': return 't';
  case '"': return '"';
  case '\'': return '\'';
  case '\\': return '\\';
  default: return 0;
  }
}

static void add_escaped(HlBuf *buf, char c) {
  const char letter = escape_letter(c);
  const unsigned byte = (unsigned char)c;
  const char octal[4] = {'\\', (char)('0' + (byte >> 6)), (char)('0' + (byte >> 3 & 7)),
                         (char)('0' + (byte & 7))};
  if (letter)
    hl_buf_add(buf, (char[2]){'\\', letter}, 2);
  else
    hl_buf_add(buf, octal, 4);
}

static bool is_plain(char c) {
  return c >= 0x20 && c < 0x7f && c != '"' && c != '\'' && c != '\\';
}

// The same of eight bytes at once: the top bit of a byte says that it is not, or that a lower one is not.
static bool are_plain(uint64_t bytes) {
  const uint64_t ones = 0x0101010101010101;
#define BELOW(word, c) (((word)-ones * (c)) & ~(word))
#define IS(c) BELOW(bytes ^ ones * (c), 1)
  const uint64_t others = bytes | BELOW(bytes, 0x20) | IS(0x7f) | IS('"') | IS('\'') | IS('\\');
#undef IS
#undef BELOW
  return (others & ones * 0x80) == 0;
}

static size_t plain_run(const char *bytes, size_t n) {
  size_t k = 0;
  while (n - k >= 8 && are_plain(hl_load_u64(bytes + k)))
    k += 8;
  while (k < n && is_plain(bytes[k]))
    k++;
  return k;
}

void hl_buf_c_escape(HlBuf *buf, const char *bytes, size_t n) {
  hl_buf_grow(buf, n);
  for (size_t run; run = plain_run(bytes, n), run < n; bytes += run + 1, n -= run + 1) {
    hl_buf_add(buf, bytes, run);
    add_escaped(buf, bytes[run]);
  }
  hl_buf_add(buf, bytes, n);
}

// The length of the UTF-8 character at `p`, of which `n` bytes are there; 0 if it is none. Overlong
// forms, surrogates and what lies beyond U+10FFFF are none.
static size_t utf8_length(const unsigned char *p, size_t n) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  const size_t length = p[0] < 0x80   ? 1
                        : p[0] < 0xc2 ? 0
                        : p[0] < 0xe0 ? 2
                        : p[0] < 0xf0 ? 3
                        : p[0] < 0xf5 ? 4
                                      : 0;
  if (length <= 1 || length > n)
    return length > n ? 0 : length;
  uint32_t code = p[0] & (0x7fu >> length);
  for (size_t k = 1; k < length; k++) {
    if ((p[k] & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (p[k] & 0x3f);
  }
  return code < least[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? 0 : length;
}

void hl_buf_json_string(HlBuf *buf, const char *bytes, size_t n) {
  hl_buf_putc(buf, '"');
  for (size_t k = 0, step; k < n; k += step) {
    const char c = bytes[k];
    const size_t length = utf8_length((const unsigned char *)bytes + k, n - k);
    step = length ? length : 1;
    if (!length)
      hl_buf_puts(buf, "\\ufffd");
    else if (c != '\'' && escape_letter(c))
      hl_buf_add(buf, (char[2]){'\\', escape_letter(c)}, 2);
    else if (length == 1 && c < 0x20)
      hl_buf_printf(buf, "\\u%04x", (unsigned)c);
    else
      hl_buf_add(buf, bytes + k, length);
  }
  hl_buf_putc(buf, '"');
}

void hl_buf_xml(HlBuf *buf, const char *text) {
  for (; *text; text++) {
    const char *entity = *text == '&'   ? "&amp;"
                         : *text == '<' ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '"' ? "&quot;"
                                        : NULL;
    if (entity)
      hl_buf_puts(buf, entity);
    else
      hl_buf_putc(buf, *text);
  }
}
