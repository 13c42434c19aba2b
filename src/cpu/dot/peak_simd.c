// cpu/dot/peak_simd.c: sums that do not wait for each other, as many as hide how long a multiply-add takes.

#include "cpu/dot/peak.h"
#include "cpu/dot/words_simd.h"

// Ten: two units, each with a result after four or five cycles.
#define PEAK(name, type, Words, MADD)                                             \
  double SIMD(name)(int64_t turns, type * with) {                                 \
    const Words x = {0}, y = x + *with;                                           \
    Words a = y, b = y, c = y, d = y, e = y, f = y, g = y, h = y, i = y, j = y;   \
    for (int64_t k = 0; k < turns; k++) {                                         \
      a = MADD(a, y, y), b = MADD(b, y, y), c = MADD(c, y, y), d = MADD(d, y, y); \
      e = MADD(e, y, y), f = MADD(f, y, y), g = MADD(g, y, y), h = MADD(h, y, y); \
      i = MADD(i, y, y), j = MADD(j, y, y);                                       \
    }                                                                             \
    const Words sum = a + b + c + d + e + f + g + h + i + j;                      \
    *with = sum[0] * 0 + *with;                                                   \
    return (double)turns * 10 * 2 * VECTOR / sizeof(type);                        \
  }

PEAK(dot_peak_f32, float, F32s, MADD_F32)
PEAK(dot_peak_f64, double, F64s, MADD_F64)
