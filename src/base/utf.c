// base/utf.c: reads UTF-8 and UTF-16 by their byte order marks.
#include "base/utf.h"

#include <string.h>

static void put_utf8(HlBuf *out, uint32_t c) {
  char at[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t k = n; k-- > 1; c >>= 6)
    at[k] = (char)(0x80 | (c & 0x3f));
  at[0] = (char)(first[n] | c);
  hl_buf_add(out, at, n);
}

static uint32_t unit_at(const uint8_t *at, bool big) {
  return big ? (uint32_t)at[0] << 8 | at[1] : (uint32_t)at[1] << 8 | at[0];
}

// A character outside the first plane is two units.
static void put_utf16(HlBuf *out, const uint8_t *at, size_t n, bool big) {
  for (size_t k = 0; k + 1 < n; k += 2) {
    uint32_t c = unit_at(at + k, big);
    const uint32_t low = k + 3 < n ? unit_at(at + k + 2, big) : 0;
    if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
      k += 2;
    } else if (c >= 0xd800 && c < 0xe000) {
      c = 0xfffd;
    }
    put_utf8(out, c);
  }
}

HlSource *base_utf8_source(const HlSource *source) {
  const HlStr bytes = hl_source_bytes(source);
  const uint8_t *at = (const uint8_t *)bytes.at;
  HlBuf out = {0};
  if (bytes.n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
    hl_buf_add(&out, bytes.at + 3, bytes.n - 3);
  else if (bytes.n >= 2 && (memcmp(at, "\xff\xfe", 2) == 0 || memcmp(at, "\xfe\xff", 2) == 0))
    put_utf16(&out, at + 2, bytes.n - 2, at[0] == 0xfe);
  else
    return NULL;
  HlSource *plain = hl_source_take(hl_source_name(source), &out, false);
  HlSource *again = base_utf8_source(plain);  // converted with a mark in front, it has two
  if (again)
    hl_source_unref(plain);
  return again ? again : plain;
}
