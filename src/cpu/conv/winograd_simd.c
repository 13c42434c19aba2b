// cpu/conv/winograd_simd.c: the transforms of tiles for 3x3 windows.

#include "cpu/conv/winograd.h"

enum { BYTES = SIMD_LEVEL == 4 ? 64 : SIMD_LEVEL == 3 ? 32 : 16, LANES = BYTES / sizeof(float) };
typedef float V __attribute__((vector_size(BYTES), aligned(__alignof__(float)), may_alias));

#define INLINE static inline __attribute__((always_inline))

// Along one direction; elements lie `step` apart.
INLINE void turn_input(V *at, int step) {
  const V a = at[0], b = at[step], c = at[2 * step], d = at[3 * step];
  at[0] = a - c;
  at[step] = b + c;
  at[2 * step] = c - b;
  at[3 * step] = b - d;
}

INLINE void turn_weights(V *to, const V *from, int to_step, int from_step) {
  const V a = from[0], b = from[from_step], c = from[2 * from_step];
  const V ends = (a + c) * 0.5f, middle = b * 0.5f;
  to[0] = a;
  to[to_step] = ends + middle;
  to[2 * to_step] = ends - middle;
  to[3 * to_step] = c;
}

INLINE void turn_output(V *to, const V *from, int to_step, int from_step) {
  const V a = from[0], b = from[from_step], c = from[2 * from_step], d = from[3 * from_step];
  to[0] = a + b + c;
  to[to_step] = b - c - d;
}

static void input(int64_t n, const float *const *in, float *out, int64_t step) {
  for (int64_t k = 0; k < n; k += LANES) {
    V tile[WINOGRAD_PLACES];
#pragma GCC unroll 16
    for (int i = 0; i < WINOGRAD_PLACES; i++)
      tile[i] = *(const V *)(in[i] + k);
#pragma GCC unroll 4
    for (int i = 0; i < WINOGRAD_IN; i++)
      turn_input(tile + i, WINOGRAD_IN);
#pragma GCC unroll 4
    for (int i = 0; i < WINOGRAD_IN; i++)
      turn_input(tile + i * WINOGRAD_IN, 1);
#pragma GCC unroll 16
    for (int i = 0; i < WINOGRAD_PLACES; i++)
      *(V *)(out + i * step + k) = tile[i];
  }
}

static void weights(int64_t n, const float *in, int64_t down, int64_t across, int64_t column,
                    float *out, int64_t step) {
  for (int64_t k = 0; k < n; k += LANES, in += LANES * column) {
    V taps[WINOGRAD_TAPS * WINOGRAD_TAPS], half[WINOGRAD_IN * WINOGRAD_TAPS];
    for (int i = 0; i < WINOGRAD_TAPS * WINOGRAD_TAPS; i++) {
      const float *from = in + i / WINOGRAD_TAPS * down + i % WINOGRAD_TAPS * across;
      V tap = {0};
      if (column == 1)
        tap = *(const V *)from;
      else
        for (int j = 0; j < LANES; j++)
          tap[j] = from[j * column];
      taps[i] = tap;
    }
#pragma GCC unroll 4
    for (int i = 0; i < WINOGRAD_TAPS; i++)
      turn_weights(half + i, taps + i, WINOGRAD_TAPS, WINOGRAD_TAPS);
#pragma GCC unroll 4
    for (int i = 0; i < WINOGRAD_IN; i++) {
      V row[WINOGRAD_IN];
      turn_weights(row, half + i * WINOGRAD_TAPS, 1, 1);
#pragma GCC unroll 4
      for (int j = 0; j < WINOGRAD_IN; j++)
        *(V *)(out + (i * WINOGRAD_IN + j) * step + k) = row[j];
    }
  }
}

static void output(int64_t n, const float *in, int64_t step, float *const *out) {
  for (int64_t k = 0; k < n; k += LANES) {
    V tile[WINOGRAD_PLACES], half[WINOGRAD_OUT * WINOGRAD_IN];
#pragma GCC unroll 16
    for (int i = 0; i < WINOGRAD_PLACES; i++)
      tile[i] = *(const V *)(in + i * step + k);
#pragma GCC unroll 4
    for (int i = 0; i < WINOGRAD_IN; i++)
      turn_output(half + i, tile + i, WINOGRAD_IN, WINOGRAD_IN);
#pragma GCC unroll 2
    for (int i = 0; i < WINOGRAD_OUT; i++) {
      V row[WINOGRAD_OUT];
      turn_output(row, half + i * WINOGRAD_IN, 1, 1);
#pragma GCC unroll 2
      for (int j = 0; j < WINOGRAD_OUT; j++)
        *(V *)(out[i * WINOGRAD_OUT + j] + k) = row[j];
    }
  }
}

const WinogradLevel SIMD(winograd_level) = {input, weights, output};
