// cpu/vec/float_simd.c: vector functions of floats whose results are exact or rounded once.

#include <math.h>

#include "base/bits.h"
#include "cpu/vec/block.h"
#include "cpu/vec/pick.h"

// Where the bounds cross, the upper wins. The first nan of the three wins.
#define CLAMPED(t, T)                               \
  static inline T clamped_##t(T low, T x, T high) { \
    T r = x > low ? x : low;                        \
    r = r < high ? r : high;                        \
    r = high != high ? high : r;                    \
    r = x != x ? x : r;                             \
    return low != low ? low : r;                    \
  }
CLAMPED(f32, float)
CLAMPED(f64, double)

// A number that orders as the float does in the total order: the magnitude of negative ones turned round.
static inline int32_t order_f32(float x) {
  const int32_t bits = (int32_t)hl_f32_bits(x);
  return bits ^ ((bits >> 31) & INT32_MAX);
}
static inline int64_t order_f64(double x) {
  const int64_t bits = (int64_t)hl_f64_bits(x);
  return bits ^ (bits < 0 ? INT64_MAX : 0);
}

// The difference is exact; copysign keeps the sign of zero.
#define ROUND_AWAY(t, T, trunc, fabs, copysign)                          \
  static inline T round_away_##t(T x) {                                  \
    const T whole = trunc(x);                                            \
    return whole + copysign(fabs(x - whole) >= (T)0.5 ? (T)1 : (T)0, x); \
  }
ROUND_AWAY(f32, float, __builtin_truncf, __builtin_fabsf, __builtin_copysignf)
ROUND_AWAY(f64, double, __builtin_trunc, __builtin_fabs, __builtin_copysign)

#define FLOATS(t, T, f)                                              \
  FN1(abs_##t, T, T, __builtin_fabs##f(x))                           \
  FN1(negate_##t, T, T, -x)                                          \
  FN1(sign_##t, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x)              \
  FN1(ceil_##t, T, T, __builtin_ceil##f(x))                          \
  FN1(floor_##t, T, T, __builtin_floor##f(x))                        \
  FN1(round_nearest_afz_##t, T, T, round_away_##t(x))                \
  FN1(round_nearest_even_##t, T, T, __builtin_rint##f(x))            \
  FN1(is_finite_##t, uint8_t, T, __builtin_fabs##f(x) < (T)INFINITY) \
  FN1(sqrt_##t, T, T, __builtin_sqrt##f(x))                          \
  FN2(add_##t, T, T, sum_##t(x, y))                                  \
  FN2(subtract_##t, T, T, x - y)                                     \
  FN2(multiply_##t, T, T, product_##t(x, y))                         \
  FN2(divide_##t, T, T, x / y)                                       \
  FN2(remainder_##t, T, T, fmod##f(x, y))                            \
  FN2(maximum_##t, T, T, larger_##t(x, y))                           \
  FN2(minimum_##t, T, T, smaller_##t(x, y))                          \
  FN2(eq_##t, uint8_t, T, x == y)                                    \
  FN2(ne_##t, uint8_t, T, x != y)                                    \
  FN2(lt_##t, uint8_t, T, x < y)                                     \
  FN2(le_##t, uint8_t, T, x <= y)                                    \
  FN2(gt_##t, uint8_t, T, x > y)                                     \
  FN2(ge_##t, uint8_t, T, x >= y)                                    \
  FN2(total_eq_##t, uint8_t, T, order_##t(x) == order_##t(y))        \
  FN2(total_ne_##t, uint8_t, T, order_##t(x) != order_##t(y))        \
  FN2(total_lt_##t, uint8_t, T, order_##t(x) < order_##t(y))         \
  FN2(total_le_##t, uint8_t, T, order_##t(x) <= order_##t(y))        \
  FN2(total_gt_##t, uint8_t, T, order_##t(x) > order_##t(y))         \
  FN2(total_ge_##t, uint8_t, T, order_##t(x) >= order_##t(y))        \
  FN3(clamp_##t, T, T, T, clamped_##t(x, y, z))
FLOATS(f32, float, f)
FLOATS(f64, double, )

#define ROW(id, name) [VEC_##id] = {name##_f32, name##_f64}
const VecFloatTable SIMD(vec_floats) = {
    ROW(ABS, abs),
    ROW(NEGATE, negate),
    ROW(SIGN, sign),
    ROW(CEIL, ceil),
    ROW(FLOOR, floor),
    ROW(ROUND_NEAREST_AFZ, round_nearest_afz),
    ROW(ROUND_NEAREST_EVEN, round_nearest_even),
    ROW(IS_FINITE, is_finite),
    ROW(SQRT, sqrt),
    ROW(ADD, add),
    ROW(SUBTRACT, subtract),
    ROW(MULTIPLY, multiply),
    ROW(DIVIDE, divide),
    ROW(REMAINDER, remainder),
    ROW(MAXIMUM, maximum),
    ROW(MINIMUM, minimum),
    ROW(EQ, eq),
    ROW(NE, ne),
    ROW(LT, lt),
    ROW(LE, le),
    ROW(GT, gt),
    ROW(GE, ge),
    ROW(TOTAL_EQ, total_eq),
    ROW(TOTAL_NE, total_ne),
    ROW(TOTAL_LT, total_lt),
    ROW(TOTAL_LE, total_le),
    ROW(TOTAL_GT, total_gt),
    ROW(TOTAL_GE, total_ge),
    ROW(CLAMP, clamp),
};
