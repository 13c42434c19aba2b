// base/fingerprint.c: FarmHash's Fingerprint64 and Fingerprint128, which is CityHash128. Words are read with the lowest byte first.

#include "base/fingerprint.h"

#include <string.h>

static const uint64_t K0 = 0xc3a5c85c97cb3127, K1 = 0xb492b66fbe98f273, K2 = 0x9ae16a3b2f90404f;

typedef struct Pair {
  uint64_t a, b;
} Pair;

// --- Steps ----------------------------------------------------------------------------------------

static uint64_t read_bytes(const char *at, int n) {
  uint64_t value = 0;
  for (int k = n - 1; k >= 0; k--)
    value = value << 8 | (unsigned char)at[k];
  return value;
}

static uint64_t word(const char *at) {
  return read_bytes(at, 8);
}

static uint64_t turn(uint64_t value, int by) {
  return value >> by | value << (64 - by);
}

static uint64_t fold(uint64_t value) {
  return value ^ value >> 47;
}

static void swap(uint64_t *a, uint64_t *b) {
  const uint64_t old = *a;
  *a = *b;
  *b = old;
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t by) {
  return fold((b ^ fold((a ^ b) * by)) * by) * by;
}

static uint64_t mix_two(uint64_t a, uint64_t b) {
  return mix(a, b, 0x9ddfea08eb382d69);
}

// 32 bytes.
static Pair take_32(const char *at, uint64_t a, uint64_t b) {
  a += word(at);
  b = turn(b + a + word(at + 24), 21);
  const uint64_t first = a;
  a += word(at + 8) + word(at + 16);
  b += turn(a, 44);
  return (Pair){a + word(at + 24), b + first};
}

// What goes over long texts 64 bytes at a time.
typedef struct State {
  uint64_t x, y, z;
  Pair v, w;
} State;

static void take_64(State *s, const char *at) {
  s->x = turn(s->x + s->y + s->v.a + word(at + 8), 37) * K1 ^ s->w.b;
  s->y = turn(s->y + s->v.b + word(at + 48), 42) * K1 + s->v.a + word(at + 40);
  s->z = turn(s->z + s->w.a, 33) * K1;
  s->v = take_32(at, s->v.b * K1, s->x + s->w.a);
  s->w = take_32(at + 32, s->z + s->w.b, s->y + word(at + 16));
  swap(&s->z, &s->x);
}

// --- 64 bits --------------------------------------------------------------------------------------

static uint64_t up_to_16(const char *at, size_t n) {
  const uint64_t by = K2 + n * 2;
  if (n >= 8) {
    const uint64_t a = word(at) + K2, b = word(at + n - 8);
    return mix(turn(b, 37) * by + a, (turn(a, 25) + b) * by, by);
  }
  if (n >= 4)
    return mix(n + (read_bytes(at, 4) << 3), read_bytes(at + n - 4, 4), by);
  if (n == 0)
    return K2;
  const uint64_t y = read_bytes(at, 1) + (read_bytes(at + n / 2, 1) << 8);
  const uint64_t z = n + (read_bytes(at + n - 1, 1) << 2);
  return fold(y * K2 ^ z * K0) * K2;
}

static uint64_t up_to_64(const char *at, size_t n) {
  const uint64_t by = K2 + n * 2, c = word(at + n - 8) * by, d = word(at + n - 16) * K2;
  const uint64_t a = word(at) * (n <= 32 ? K1 : K2), b = word(at + 8);
  const uint64_t y = turn(a + b, 43) + turn(c, 30) + d;
  const uint64_t z = mix(y, a + turn(b + K2, 18) + c, by);
  if (n <= 32)
    return z;
  const uint64_t e = word(at + 16) * by, f = word(at + 24);
  const uint64_t g = (y + word(at + n - 32)) * by, h = (z + word(at + n - 24)) * by;
  return mix(turn(e + f, 43) + turn(g, 30) + h, e + turn(f + a, 18) + g, by);
}

uint64_t base_fingerprint64(HlStr text) {
  const char *at = text.at;
  const size_t n = text.n;
  if (n <= 64)
    return n <= 16 ? up_to_16(at, n) : up_to_64(at, n);
  const uint64_t seed = 81, start = seed * K1 + 113;
  State s = {.x = seed * K2 + word(at), .y = start, .z = fold(start * K2 + 113) * K2};
  const char *last = at + n - 64, *end = at + (n - 1) / 64 * 64;
  for (; at < end; at += 64)
    take_64(&s, at);
  // The last 64 bytes, of which some have been read.
  const uint64_t by = K1 + ((s.z & 0xff) << 1);
  s.w.a += (n - 1) & 63;
  s.v.a += s.w.a;
  s.w.a += s.v.a;
  s.x = turn(s.x + s.y + s.v.a + word(last + 8), 37) * by ^ s.w.b * 9;
  s.y = turn(s.y + s.v.b + word(last + 48), 42) * by + s.v.a * 9 + word(last + 40);
  s.z = turn(s.z + s.w.a, 33) * by;
  s.v = take_32(last, s.v.b * by, s.x + s.w.a);
  s.w = take_32(last + 32, s.z + s.w.b, s.y + word(last + 16));
  return mix(mix(s.v.a, s.w.a, by) + fold(s.y) * K0 + s.x, mix(s.v.b, s.w.b, by) + s.z, by);
}

// --- 128 bits -------------------------------------------------------------------------------------

static HlFingerprint short_128(const char *at, size_t n, uint64_t a, uint64_t b) {
  uint64_t c, d;
  if (n <= 16) {
    a = fold(a * K1) * K1;
    c = b * K1 + up_to_16(at, n);
    d = fold(a + (n >= 8 ? word(at) : c));
  } else {
    c = mix_two(word(at + n - 8) + K1, a);
    d = mix_two(b + n, c + word(at + n - 16));
    a += d;
    for (size_t k = 0; k + 16 < n; k += 16) {
      a = (a ^ fold(word(at + k) * K1) * K1) * K1;
      b ^= a;
      c = (c ^ fold(word(at + k + 8) * K1) * K1) * K1;
      d ^= c;
    }
  }
  a = mix_two(a, c);
  b = mix_two(d, b);
  return (HlFingerprint){a ^ b, mix_two(b, a)};
}

static HlFingerprint long_128(const char *at, size_t n, uint64_t low, uint64_t high) {
  State s = {.x = low, .y = high, .z = n * K1};
  s.v.a = turn(high ^ K1, 49) * K1 + word(at);
  s.v.b = turn(s.v.a, 42) * K1 + word(at + 8);
  s.w.a = turn(s.y + s.z, 35) * K1 + s.x;
  s.w.b = turn(s.x + word(at + 88), 53) * K1;
  const char *end = at + n;
  for (; end - at >= 128; at += 128) {
    take_64(&s, at);
    take_64(&s, at + 64);
  }
  s.x += turn(s.v.a + s.z, 49) * K0;
  s.y = s.y * K0 + turn(s.w.b, 37);
  s.z = s.z * K0 + turn(s.w.a, 27);
  s.w.a *= 9;
  s.v.a *= K0;
  // What is left, 32 bytes at a time from the end; the last ones may begin in front of it.
  for (const char *rest = end; rest > at;) {
    rest -= 32;
    s.y = turn(s.x + s.y, 42) * K0 + s.v.b;
    s.w.a += word(rest + 16);
    s.x = s.x * K0 + s.w.a;
    s.z += s.w.b + word(rest);
    s.w.b += s.v.a;
    s.v = take_32(rest, s.v.a + s.z, s.v.b);
    s.v.a *= K0;
  }
  const uint64_t x = mix_two(s.x, s.v.a), y = mix_two(s.y + s.z, s.w.a);
  return (HlFingerprint){mix_two(x + s.v.b, s.w.b) + y, mix_two(x + s.w.b, y + s.v.b)};
}

HlFingerprint base_fingerprint128(HlStr text) {
  const bool seeded = text.n >= 16;
  const uint64_t low = seeded ? word(text.at) : K0, high = seeded ? word(text.at + 8) + K0 : K1;
  const char *at = text.at + (seeded ? 16 : 0);
  const size_t n = text.n - (seeded ? 16 : 0);
  return n < 128 ? short_128(at, n, low, high) : long_128(at, n, low, high);
}
