// cpu/fft/fft_simd.c: the arithmetic of transforms, for float and double.

#include "cpu/fft/fft.h"

#if SIMD_LEVEL > 2
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

// Within each 16 bytes of a plane lines stand in another order than in memory: any is as good, and this costs least. The lists
// of elements of two vectors that make the real and the imaginary parts, and of those that make the first and second again; and
// for real numbers, the lines as they stand in a plane, and back.
#if SIMD_LEVEL == 4
enum { BYTES = 64 };
#define EACH(of) of(0), of(1), of(2), of(3)
#elif SIMD_LEVEL == 3
enum { BYTES = 32 };
#define EACH(of) of(0), of(1)
#else
enum { BYTES = 16 };
#define EACH(of) of(0)
#endif

#define T float
#define NAME(name) name##_f32
#define RE(b) 4 * b, 4 * b + 2, BYTES / 4 + 4 * b, BYTES / 4 + 4 * b + 2
#define IM(b) 4 * b + 1, 4 * b + 3, BYTES / 4 + 4 * b + 1, BYTES / 4 + 4 * b + 3
#define FIRST(b) 4 * b, BYTES / 4 + 4 * b, 4 * b + 1, BYTES / 4 + 4 * b + 1
#define SECOND(b) 4 * b + 2, BYTES / 4 + 4 * b + 2, 4 * b + 3, BYTES / 4 + 4 * b + 3
#define LINES(b) 2 * b, 2 * b + 1, BYTES / 8 + 2 * b, BYTES / 8 + 2 * b + 1
#define PLACE(k) (k < BYTES / 8 ? k / 2 * 4 + k % 2 : (k - BYTES / 8) / 2 * 4 + 2 + k % 2)
#define BACK(b) PLACE((4 * b)), PLACE((4 * b + 1)), PLACE((4 * b + 2)), PLACE((4 * b + 3))
#if SIMD_LEVEL == 4
#define MULTIPLY_ADD(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif SIMD_LEVEL == 3
#define MULTIPLY_ADD(a, b, c) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#include "cpu/fft/fft_simd.h"

#define T double
#define NAME(name) name##_f64
#define RE(b) 2 * b, BYTES / 8 + 2 * b
#define IM(b) 2 * b + 1, BYTES / 8 + 2 * b + 1
#define FIRST(b) RE(b)
#define SECOND(b) IM(b)
#define LINES(b) b, BYTES / 16 + b
#define PLACE(k) (k < BYTES / 16 ? 2 * k : 2 * (k - BYTES / 16) + 1)
#define BACK(b) PLACE((2 * b)), PLACE((2 * b + 1))
#if SIMD_LEVEL == 4
#define MULTIPLY_ADD(a, b, c) ((V)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif SIMD_LEVEL == 3
#define MULTIPLY_ADD(a, b, c) ((V)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#include "cpu/fft/fft_simd.h"

#define BOTH(name) \
  { name##_f32, name##_f64 }
const FftLevel SIMD(fft_level) = {
    .lanes = {BYTES / 4, BYTES / 8},
    .split = BOTH(split),
    .join = BOTH(join),
    .split_real = BOTH(split_real),
    .join_real = BOTH(join_real),
    .transform = BOTH(transform),
    .unfold = BOTH(unfold),
    .fold = BOTH(fold),
    .twist = BOTH(twist),
};
