// ir/put.h: appending to an HlBuf on hot paths: inline, and without the NUL until put_end.
#ifndef HILO_IR_PUT_H
#define HILO_IR_PUT_H

#include "base/compiler.h"
#include "hilo/ir.h"

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

// What separates elements of a list: ", ", and the number before every fifth.
static inline void put_comma(HlBuf *out, int64_t k) {
  PUT(out, ", ");
  if (k % 5 == 0) {
    PUT(out, "/*index=");
    put_i64(out, k);
    PUT(out, "*/");
  }
}

// A shape, as hl_shape_print, but without the NUL.
void put_shape(HlBuf *out, const HlShape *shape, bool with_layout);
// The value of a literal, as hl_literal_print, but without the NUL.
void put_literal(HlBuf *out, const HlLiteral *literal);
// A double as printf's "%.*g" with 1 to 17 digits.
void put_g(HlBuf *out, double value, int digits);
// A double that takes the fewer digits when these read back equal, else the more: of f32 or f64.
void put_f32(HlBuf *out, float value);
void put_f64(HlBuf *out, double value);
void put_sharding(HlBuf *out, const HlSharding *sharding, bool with_metadata);
// "mesh['a'=2,'b'=4]", and "{'a', 'b':(1)2}".
void put_mesh(HlBuf *out, const HlMesh *mesh);
void put_axes(HlBuf *out, const HlMesh *mesh, HlAxes axes);
// The fields of a metadata, without the braces; nothing where XLA would print nothing.
void put_metadata_fields(HlBuf *out, const HlMetadata *metadata);
bool put_metadata_wanted(const HlMetadata *metadata);

#endif
