// rng.c: random numbers (splitmix64), and the clock.

#include "base/compiler.h"
#include "hilo/base.h"

#include <time.h>

uint64_t hl_rng_u64(HlRng *rng) {
  uint64_t z = rng->state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// Multiplies into [0, n) and draws again where that would favour some (Lemire 2019).
int64_t hl_rng_below(HlRng *rng, int64_t n) {
  const uint64_t range = (uint64_t)n, unfair = (0 - range) % range;
  uint64_t high, low;
  do
    hl_mul_128(hl_rng_u64(rng), range, &high, &low);
  while (low < unfair);
  return (int64_t)high;
}

double hl_rng_unit(HlRng *rng) {
  return (double)(hl_rng_u64(rng) >> 11) * 0x1p-53;
}

double hl_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
