// base/put.h: appending to an HlBuf on hot paths: without the NUL until put_end.
#ifndef HILO_BASE_PUT_H
#define HILO_BASE_PUT_H

#include "base/compiler.h"
#include "hilo/base.h"

#include <string.h>

// Makes room for n bytes more: the rare case of put_room, which the places that it is inlined to share.
char *put_grow(HlBuf *out, size_t n);

// Room for n bytes; they are written at out->at + out->n by the caller.
static inline char *put_room(HlBuf *out, size_t n) {
  if (HL_UNLIKELY(out->capacity - out->n <= n))  // n < capacity, or both are 0
    return put_grow(out, n);
  return out->at + out->n;
}

void put(HlBuf *out, const char *text, size_t n);
void put_char(HlBuf *out, char c);
#define PUT(out, literal) put((out), "" literal, sizeof(literal) - 1)

// The same in line: three times the code, for what a text has in every instruction.
static inline void put_hot(HlBuf *out, const char *text, size_t n) {
  memcpy(put_room(out, n), text, n);
  out->n += n;
}
static inline void put_char_hot(HlBuf *out, char c) {
  *put_room(out, 1) = c;
  out->n++;
}
#define PUT_HOT(out, literal) put_hot((out), "" literal, sizeof(literal) - 1)

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

void put_u64(HlBuf *out, uint64_t value);
void put_i64(HlBuf *out, int64_t value);
void put_ints(HlBuf *out, HlI64s list);    // "1,2,3"
void put_braced(HlBuf *out, HlI64s list);  // "{1,2,3}"
// A double as printf's "%.*g" with 1 to 17 digits.
void put_g(HlBuf *out, double value, int digits);
// A double that takes the fewer digits when these read back equal, else the more: of f32 or f64.
void put_f32(HlBuf *out, float value);
void put_f64(HlBuf *out, double value);

#endif
