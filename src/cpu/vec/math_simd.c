// cpu/vec/math_simd.c: vector functions of floats that are approximated.

#include <math.h>

#include "cpu/vec/block.h"

#define MATH1(name, expr)                             \
  static inline double name##_of(double x) {          \
    return expr;                                      \
  }                                                   \
  FN1(name##_f32, float, float, name##_of((double)x)) \
  FN1(name##_f64, double, double, name##_of(x))
#define MATH2(name, expr)                                        \
  static inline double name##_of(double x, double y) {           \
    return expr;                                                 \
  }                                                              \
  FN2(name##_f32, float, float, name##_of((double)x, (double)y)) \
  FN2(name##_f64, double, double, name##_of(x, y))

MATH1(exponential, exp(x))
MATH1(exponential_minus_one, expm1(x))
MATH1(log, log(x))
MATH1(log_plus_one, log1p(x))
MATH1(logistic, 1 / (1 + exp(-x)))
MATH1(tanh, tanh(x))
MATH1(tan, tan(x))
MATH1(sine, sin(x))
MATH1(cosine, cos(x))
MATH1(rsqrt, 1 / sqrt(x))
MATH1(cbrt, cbrt(x))
MATH1(erf, erf(x))
MATH1(sinh, sinh(x))
MATH1(cosh, cosh(x))
MATH1(asin, asin(x))
MATH1(acos, acos(x))
MATH1(asinh, asinh(x))
MATH1(acosh, acosh(x))
MATH1(atanh, atanh(x))
MATH2(power, pow(x, y))
MATH2(atan2, atan2(x, y))

#define ROW(id, name) [VEC_##id] = {name##_f32, name##_f64}
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
