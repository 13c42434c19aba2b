// cpu/vec/math_simd.c: vector functions of floats that are approximated.
//
// How far off they are stands in ulp.def. sine, cosine and tan of more than FAR_ANGLE are libm's, one by one.

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/vec/block.h"
#include "cpu/vec/math_f32.h"

// A function that has no good way with large arguments: these are computed one by one, from what the block was before.
#define FN1_FAR(name, T, near, far)                                                             \
  static HL_RARE void name##_far(T *to, const T *xs) {                                          \
    for (int64_t k = 0; k < VEC_BLOCK; k++)                                                     \
      if (__builtin_fabs((double)xs[k]) > FAR_ANGLE)                                            \
        to[k] = (T)far((double)xs[k]);                                                          \
  }                                                                                             \
  static void name##_blocks(int64_t n, void *out, const void *const *in, const int64_t *step) { \
    const char *a = in[0];                                                                      \
    T *to = out;                                                                                \
    for (; n > 0; n--, a += step[0], to += VEC_BLOCK) {                                         \
      const T *xs = (const T *)a;                                                               \
      T before[VEC_BLOCK];                                                                      \
      int any = 0;                                                                              \
      for (int k = 0; k < VEC_BLOCK; k++)                                                       \
        any |= (xs[k] > (T)FAR_ANGLE) | (xs[k] < -(T)FAR_ANGLE);                                \
      if (HL_UNLIKELY(any))                                                                     \
        memcpy(before, xs, sizeof before);                                                      \
      VEC_EACH(k, VEC_BLOCK) {                                                                  \
        const T x = xs[k];                                                                      \
        to[k] = near;                                                                           \
      }                                                                                         \
      if (HL_UNLIKELY(any))                                                                     \
        name##_far(to, before);                                                                 \
    }                                                                                           \
  }                                                                                             \
  enum { name##_operands = 1, name##_out = sizeof(T) };                                         \
  enum { name##_a = sizeof(T), name##_b = 0, name##_c = 0 };                                    \
  VEC_VARIANTS1(name)

FN1(vec_exponential_f32, float, float, exp_f32(x))
FN1(vec_exponential_minus_one_f32, float, float, expm1_f32(x))
FN1(vec_log_f32, float, float, log_f32(x))
FN1(vec_log_plus_one_f32, float, float, log1p_f32(x))
FN1(vec_logistic_f32, float, float, logistic_f32(x))
FN1(vec_tanh_f32, float, float, tanh_f32(x))
FN1(vec_erf_f32, float, float, erf_f32(x))
FN1(vec_exponential_f64, double, double, exp_f64(x))
FN1(vec_exponential_minus_one_f64, double, double, expm1_f64(x))
FN1(vec_log_f64, double, double, log_f64(x))
FN1(vec_log_plus_one_f64, double, double, log1p_f64(x))
FN1(vec_logistic_f64, double, double, logistic_f64(x))
FN1(vec_tanh_f64, double, double, tanh_f64(x))
FN1(vec_erf_f64, double, double, erf_f64(x))
FN1(vec_sinh_f32, float, float, sinh_f64((double)x))
FN1(vec_sinh_f64, double, double, sinh_f64(x))
FN1(vec_cosh_f32, float, float, cosh_f64((double)x))
FN1(vec_cosh_f64, double, double, cosh_f64(x))
FN1(vec_asin_f32, float, float, asin_f64((double)x))
FN1(vec_asin_f64, double, double, asin_f64(x))
FN1(vec_acos_f32, float, float, acos_f64((double)x))
FN1(vec_acos_f64, double, double, acos_f64(x))
FN1(vec_asinh_f32, float, float, asinh_f64((double)x))
FN1(vec_asinh_f64, double, double, asinh_f64(x))
FN1(vec_acosh_f32, float, float, acosh_f64((double)x))
FN1(vec_acosh_f64, double, double, acosh_f64(x))
FN1(vec_atanh_f32, float, float, atanh_f64((double)x))
FN1(vec_atanh_f64, double, double, atanh_f64(x))
FN1_FAR(vec_sine_f32, float, sin_f32(x), sin)
FN1_FAR(vec_sine_f64, double, sin_f64(x), sin)
FN1_FAR(vec_cosine_f32, float, cos_f32(x), cos)
FN1_FAR(vec_cosine_f64, double, cos_f64(x), cos)
FN1_FAR(vec_tan_f32, float, tan_f32(x), tan)
FN1_FAR(vec_tan_f64, double, tan_f64(x), tan)
FN1(vec_rsqrt_f32, float, float, 1 / __builtin_sqrtf(x))
FN1(vec_rsqrt_f64, double, double, 1 / __builtin_sqrt(x))
FN1(vec_cbrt_f32, float, float, cbrt_steps_f64((double)x, 1))
FN1(vec_cbrt_f64, double, double, cbrt_steps_f64(x, 2))
FN2(vec_power_f32, float, float, power_f32(x, y))
FN2(vec_power_f64, double, double, power_f64(x, y))
FN2(vec_atan2_f32, float, float, atan2_f64((double)x, (double)y))
FN2(vec_atan2_f64, double, double, atan2_f64(x, y))

#define ROW(id, name) [VEC_##id] = {vec_##name##_f32, vec_##name##_f64}
const VecFloatTable SIMD(vec_math) = {
    ROW(EXPONENTIAL, exponential),
    ROW(EXPONENTIAL_MINUS_ONE, exponential_minus_one),
    ROW(LOG, log),
    ROW(LOG_PLUS_ONE, log_plus_one),
    ROW(LOGISTIC, logistic),
    ROW(TANH, tanh),
    ROW(TAN, tan),
    ROW(SINE, sine),
    ROW(COSINE, cosine),
    ROW(RSQRT, rsqrt),
    ROW(CBRT, cbrt),
    ROW(ERF, erf),
    ROW(SINH, sinh),
    ROW(COSH, cosh),
    ROW(ASIN, asin),
    ROW(ACOS, acos),
    ROW(ASINH, asinh),
    ROW(ACOSH, acosh),
    ROW(ATANH, atanh),
    ROW(POWER, power),
    ROW(ATAN2, atan2),
};
