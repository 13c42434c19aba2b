// cpu/conv/panel_simd.c: the micro-kernels of convolutions, for each type that is computed in.

#include "cpu/conv/conv.h"

#if SIMD_LEVEL > 2
#include <immintrin.h>
#endif

#if SIMD_LEVEL == 4
enum { BYTES = 64, ROWS_1 = 14, ROWS_2 = 14 };  // of a vector; places by vectors in a block
#else
enum { BYTES = SIMD_LEVEL == 3 ? 32 : 16, ROWS_1 = 8, ROWS_2 = 6 };
#endif
enum { ROWS = ROWS_1 > ROWS_2 ? ROWS_1 : ROWS_2 };

#define INLINE static inline __attribute__((always_inline))

#define T float
#define NAME(name) name##_f32
#if SIMD_LEVEL == 4
#define MULTIPLY_ADD(a, b, c) ((NAME(V))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif SIMD_LEVEL == 3
#define MULTIPLY_ADD(a, b, c) ((NAME(V))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#include "cpu/conv/panel_simd.h"

#define T double
#define NAME(name) name##_f64
#if SIMD_LEVEL == 4
#define MULTIPLY_ADD(a, b, c) ((NAME(V))_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif SIMD_LEVEL == 3
#define MULTIPLY_ADD(a, b, c) ((NAME(V))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#include "cpu/conv/panel_simd.h"

#define T uint32_t
#define NAME(name) name##_i32
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#include "cpu/conv/panel_simd.h"

#define T uint64_t
#define NAME(name) name##_i64
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#include "cpu/conv/panel_simd.h"

#define PANELS(type)                    \
  {                                     \
    {splat_1_##type, splat_2_##type}, { \
      vector_1_##type, vector_2_##type  \
    }                                   \
  }
const ConvLevel SIMD(conv_level) = {
    .lanes = {BYTES / 4, BYTES / 8, BYTES / 4, BYTES / 8},
    .rows = ROWS_2,
    .panel = {PANELS(f32), PANELS(f64), PANELS(i32), PANELS(i64)},
};
