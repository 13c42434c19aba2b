// cpu/linalg/complex_simd.c: the leaves of factorisations and triangular systems, for complex numbers of float and double.

#include <math.h>
#include <string.h>

#include "cpu/dot/words_simd.h"
#include "cpu/linalg/linalg.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

// Each other element: of float and of double as many as a vector has.
#define SWAP2 1, 0
#define SWAP4 SWAP2, 3, 2
#define SWAP8 SWAP4, 5, 4, 7, 6
#if SIMD_LEVEL == 4
#define SWAP_FLOATS SWAP8, 9, 8, 11, 10, 13, 12, 15, 14
#define SWAP_DOUBLES SWAP8
#elif SIMD_LEVEL == 3
#define SWAP_FLOATS SWAP8
#define SWAP_DOUBLES SWAP4
#else
#define SWAP_FLOATS SWAP4
#define SWAP_DOUBLES SWAP2
#endif

#define T float
#define SWAP SWAP_FLOATS
#define I int32_t
#define NAME(name) name##_c64
#define MADD MADD_F32
#define SQRT sqrtf
#define ABS fabsf
#define COPYSIGN copysignf
#define LEAST 0x1p-126f  // of which the reciprocal is finite
#define SMALL 0x1p-80f   // squares add up without loss between these
#define LARGE 0x1p80f
#include "cpu/linalg/complex_simd.h"

#define T double
#define SWAP SWAP_DOUBLES
#define I int64_t
#define NAME(name) name##_c128
#define MADD MADD_F64
#define SQRT sqrt
#define ABS fabs
#define COPYSIGN copysign
#define LEAST 0x1p-1022
#define SMALL 0x1p-900
#define LARGE 0x1p900
#include "cpu/linalg/complex_simd.h"

#define LEAVES(type)                                                                        \
  {                                                                                         \
    solve_##type, cholesky_##type, lu_##type, qr_##type, negate_##type, spread_rows_##type, \
        spread_columns_##type                                                               \
  }
const LinalgTypes SIMD(linalg_complex) = {LEAVES(c64), LEAVES(c128)};
