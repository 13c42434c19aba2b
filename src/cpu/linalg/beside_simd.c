// cpu/linalg/beside_simd.c: small matrices beside each other, one in each lane of a vector, for float and double.

#include <math.h>

#include "cpu/dot/words_simd.h"
#include "cpu/linalg/linalg.h"

#define INLINE static inline __attribute__((always_inline))

#define T float
#define I int32_t
#define NAME(name) name##_f32
#define MADD MADD_F32
#define SQRT sqrtf
#define LEAST 0x1p-126f  // of which the reciprocal is finite
#define SMALL 0x1p-80f   // squares add up without loss between these
#define LARGE 0x1p80f
#include "cpu/linalg/beside_simd.h"

#define T double
#define I int64_t
#define NAME(name) name##_f64
#define MADD MADD_F64
#define SQRT sqrt
#define LEAST 0x1p-1022
#define SMALL 0x1p-900
#define LARGE 0x1p900
#include "cpu/linalg/beside_simd.h"

#define BOTH(name) \
  { name##_f32, name##_f64 }
const LinalgBeside SIMD(linalg_beside) = {.lanes = {VECTOR / 4, VECTOR / 8},
                                          .solve = BOTH(solve),
                                          .cholesky = BOTH(cholesky),
                                          .lu = BOTH(lu),
                                          .qr = BOTH(qr),
                                          .reflectors = BOTH(reflectors)};
