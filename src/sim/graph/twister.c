// sim/graph/twister.c: MT19937-64 (Nishimura and Matsumoto), and std::seed_seq.

#include "sim/graph/twister.h"

#include <math.h>

enum { M = 156 };

void twister_seed(Twister *t, uint64_t seed) {
  t->state[0] = seed;
  for (int k = 1; k < TWISTER_N; k++)
    t->state[k] =
        UINT64_C(6364136223846793005) * (t->state[k - 1] ^ t->state[k - 1] >> 62) + (uint64_t)k;
  t->at = TWISTER_N;
}

static uint32_t scramble(uint32_t x) {
  return x ^ x >> 27;
}

// std::seed_seq{high, low}.generate over as many 32-bit words as the state has, by the standard's formulas.
static void generate(const uint32_t *seeds, uint32_t s, uint32_t *words, uint32_t n) {
  const uint32_t t = 11, p = (n - t) / 2, q = p + t, m = n;  // n is 624
  for (uint32_t k = 0; k < n; k++)
    words[k] = 0x8b8b8b8bu;
  for (uint32_t k = 0; k < m; k++) {
    const uint32_t r1 =
        1664525u * scramble(words[k % n] ^ words[(k + p) % n] ^ words[(k + n - 1) % n]);
    const uint32_t r2 = r1 + (k == 0 ? s : k <= s ? k % n + seeds[k - 1] : k % n);
    words[(k + p) % n] += r1;
    words[(k + q) % n] += r2;
    words[k % n] = r2;
  }
  for (uint32_t k = m; k < m + n; k++) {
    const uint32_t r3 =
        1566083941u * scramble(words[k % n] + words[(k + p) % n] + words[(k + n - 1) % n]);
    const uint32_t r4 = r3 - k % n;
    words[(k + p) % n] ^= r3;
    words[(k + q) % n] ^= r4;
    words[k % n] = r4;
  }
}

void twister_seed_pair(Twister *t, uint64_t seed) {
  const uint32_t seeds[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
  uint32_t words[2 * TWISTER_N];
  generate(seeds, 2, words, 2 * TWISTER_N);
  for (int k = 0; k < TWISTER_N; k++)
    t->state[k] = words[2 * k] | (uint64_t)words[2 * k + 1] << 32;
  t->at = TWISTER_N;
}

static void refill(Twister *t) {
  uint64_t *x = t->state;
  for (int k = 0; k < TWISTER_N; k++) {
    const uint64_t y =
        (x[k] & UINT64_C(0xffffffff80000000)) | (x[(k + 1) % TWISTER_N] & 0x7fffffffu);
    x[k] = x[(k + M) % TWISTER_N] ^ y >> 1 ^ (y & 1 ? UINT64_C(0xb5026f5aa96619e9) : 0);
  }
  t->at = 0;
}

uint64_t twister_u64(Twister *t) {
  if (t->at == TWISTER_N)
    refill(t);
  uint64_t x = t->state[t->at++];
  x ^= x >> 29 & UINT64_C(0x5555555555555555);
  x ^= x << 17 & UINT64_C(0x71d67fffeda60000);
  x ^= x << 37 & UINT64_C(0xfff7eee000000000);
  return x ^ x >> 43;
}

double twister_unit(Twister *t) {
  const double unit = (double)twister_u64(t) / 18446744073709551616.0;
  return unit < 1 ? unit : nextafter(1.0, 0.0);
}
