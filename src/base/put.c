// base/put.c: numbers and texts appended to an HlBuf on hot paths.

#include "base/put.h"

char *put_grow(HlBuf *out, size_t n) {
  hl_buf_grow(out, n + out->capacity / 2);
  return out->at + out->n;
}

void put(HlBuf *out, const char *text, size_t n) {
  put_hot(out, text, n);
}

void put_char(HlBuf *out, char c) {
  put_char_hot(out, c);
}

static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

static void put_more_digits(HlBuf *out, uint64_t value) {
  enum { MOST = 20 };
  char digits[2 * MOST] = {0};  // so many behind any of them: a copy of a fixed size is no call
  char *at = digits + MOST;
  for (; value >= 100; value /= 100) {
    at -= 2;
    memcpy(at, pairs + 2 * (value % 100), 2);
  }
  at -= 2;
  memcpy(at, pairs + 2 * value, 2);
  at += value < 10;
  memcpy(put_room(out, MOST), at, MOST);
  out->n += (size_t)(digits + MOST - at);
}

// Most numbers are below 100.
static inline void put_number(HlBuf *out, uint64_t value) {
  if (value < 10)
    put_char_hot(out, (char)('0' + value));
  else if (value < 100)
    put_hot(out, pairs + 2 * value, 2);
  else
    put_more_digits(out, value);
}

static inline void put_signed(HlBuf *out, int64_t value) {
  if (value < 0)
    put_char_hot(out, '-');
  put_number(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void put_u64(HlBuf *out, uint64_t value) {
  put_number(out, value);
}

void put_i64(HlBuf *out, int64_t value) {
  put_signed(out, value);
}

void put_ints(HlBuf *out, HlI64s list) {
  for (int k = 0; k < list.n; k++) {
    if (k)
      put_char_hot(out, ',');
    put_signed(out, list.at[k]);
  }
}

void put_braced(HlBuf *out, HlI64s list) {
  put_char_hot(out, '{');
  put_ints(out, list);
  put_char_hot(out, '}');
}
