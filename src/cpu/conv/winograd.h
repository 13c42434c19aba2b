// cpu/conv/winograd.h: 3x3 windows with fewer multiplications.
//
// Two places side by side and three taps have four products where there were six (Winograd): of the four elements d that they see, and
// the taps g,
//
//   (d0 - d2) g0 = p0    (d1 + d2) (g0 + g1 + g2) / 2 = p1    (d2 - d1) (g0 - g1 + g2) / 2 = p2    (d1 - d3) g2 = p3
//   y0 = p0 + p1 + p2    y1 = p1 - p2 - p3
//
// Done along both dimensions, a tile of 2x2 places has 16 products instead of 36. The sums over features are made between: for each
// of the 16 positions in a tile a matrix product of tiles and transformed weights (the micro-kernels of panel_simd.c). Nothing but
// sums of inputs and halves of weights is added to what direct sums do, and sums are made in short pieces: measured against f64
// (normal inputs and weights; 64, 256, 512 features), the root of the mean square of the error is 2.6e-7, 2.7e-7, 2.7e-7 of that of the result, of
// XLA:CPU 4.3e-7, 7.4e-7, 7.2e-7. tests/unit/cpu/cpu_conv.c holds it to 1e-6 of the largest result. Larger tiles would save more
// and lose a digit.
#ifndef HILO_CPU_CONV_WINOGRAD_H
#define HILO_CPU_CONV_WINOGRAD_H

#include "cpu/conv/conv.h"

enum { WINOGRAD_OUT = 2, WINOGRAD_TAPS = 3, WINOGRAD_IN = 4, WINOGRAD_PLACES = WINOGRAD_IN * WINOGRAD_IN };

// --- Transforms of n features or columns, a multiple of 16 (winograd_simd.c) ------------------------------

typedef struct WinogradLevel {
  // in[i]: the features of place i of a tile; those of its position i go to out + i * step.
  void (*input)(int64_t n, const float *const *in, float *out, int64_t step);
  // Taps lie `down` and `across` apart, columns `column`.
  void (*weights)(int64_t n, const float *in, int64_t down, int64_t across, int64_t column, float *out, int64_t step);
  // out[i]: the columns of place i of the result.
  void (*output)(int64_t n, const float *in, int64_t step, float *const *out);
} WinogradLevel;
SIMD_DECLARE(const WinogradLevel, winograd_level);

// --- The plan (winograd.c) -----------------------------------------------------------------------------------

struct ConvWinograd {
  const WinogradLevel *level;
  int64_t high, wide, tiles;           // of all batches
  int64_t group;                       // tiles of a chunk
  int64_t features, feature_box, feature_boxes, column_box;
};

// NULL: another way is better, or it cannot be done.
const ConvWinograd *winograd_plan(const ConvKernel *c, HlArena *arena);
bool winograd_run(const ConvKernel *c, CpuTeam *team, const float *x, const float *w, float *y);

#endif
