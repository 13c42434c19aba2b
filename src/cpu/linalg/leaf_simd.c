// cpu/linalg/leaf_simd.c: the leaves of factorisations and triangular systems, for float and double.

#include <math.h>
#include <string.h>

#include "cpu/dot/words_simd.h"
#include "cpu/linalg/linalg.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

#define T float
#define I int32_t
#define NAME(name) name##_f32
#define MADD MADD_F32
#define SQRT sqrtf
#define ABS fabsf
#define COPYSIGN copysignf
#define LEAST 0x1p-126f  // of which the reciprocal is finite
#define SMALL 0x1p-80f   // squares add up without loss between these
#define LARGE 0x1p80f
#include "cpu/linalg/leaf_simd.h"

#define T double
#define I int64_t
#define NAME(name) name##_f64
#define MADD MADD_F64
#define SQRT sqrt
#define ABS fabs
#define COPYSIGN copysign
#define LEAST 0x1p-1022
#define SMALL 0x1p-900
#define LARGE 0x1p900
#include "cpu/linalg/leaf_simd.h"

#define LEAVES(type) \
  { solve_##type, cholesky_##type, lu_##type, qr_##type, negate_##type, NULL, NULL }
const LinalgTypes SIMD(linalg_real) = {LEAVES(f32), LEAVES(f64)};
