// base/put.h: appending to an HlBuf on hot paths: inline, and without the NUL until put_end.
#ifndef HILO_BASE_PUT_H
#define HILO_BASE_PUT_H

#include "base/compiler.h"
#include "hilo/base.h"

#include <string.h>

// Room for n bytes; they are written at out->at + out->n by the caller.
static inline char *put_room(HlBuf *out, size_t n) {
  if (HL_UNLIKELY(out->capacity <= out->n || out->capacity - out->n <= n))
    hl_buf_grow(out, n + out->capacity / 2);
  return out->at + out->n;
}

static inline void put(HlBuf *out, const char *text, size_t n) {
  char *at = put_room(out, n);
  memcpy(at, text, n);
  out->n += n;
}

#define PUT(out, literal) put((out), "" literal, sizeof(literal) - 1)

static inline void put_char(HlBuf *out, char c) {
  *put_room(out, 1) = c;
  out->n++;
}

static inline void put_text(HlBuf *out, const char *text) {
  put(out, text, strlen(text));
}

// An interned name.
static inline void put_sym(HlBuf *out, const HlSym *sym) {
  put(out, sym->text, sym->n);
}

// Ends a run of puts: HlBuf promises a NUL.
static inline void put_end(HlBuf *out) {
  *put_room(out, 0) = 0;
}

static inline void put_u64(HlBuf *out, uint64_t value) {
  char digits[20];
  char *at = digits + sizeof digits;
  do {
    *--at = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  put(out, at, (size_t)(digits + sizeof digits - at));
}

static inline void put_i64(HlBuf *out, int64_t value) {
  if (value >= 0 && value < 10) {
    put_char(out, (char)('0' + value));
    return;
  }
  if (value < 0)
    put_char(out, '-');
  put_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

// "1,2,3"
static inline void put_ints(HlBuf *out, HlI64s list) {
  for (int k = 0; k < list.n; k++) {
    if (k)
      put_char(out, ',');
    put_i64(out, list.at[k]);
  }
}

// "{1,2,3}"
static inline void put_braced(HlBuf *out, HlI64s list) {
  put_char(out, '{');
  put_ints(out, list);
  put_char(out, '}');
}

// A double as printf's "%.*g" with 1 to 17 digits.
void put_g(HlBuf *out, double value, int digits);
// A double that takes the fewer digits when these read back equal, else the more: of f32 or f64.
void put_f32(HlBuf *out, float value);
void put_f64(HlBuf *out, double value);

#endif
