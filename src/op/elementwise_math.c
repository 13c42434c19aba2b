// op/elementwise_math.c: elementwise ops of one operand from libm: computed in double, rounded
// once.

#include "base/complex.h"

#include "op/elementwise.h"

// --- Complex helpers ----------------------------------------------------------------------------

static inline double complex to_c(EwC128 x) {
  return CMPLX(x.re, x.im);
}
static inline EwC128 from_c(double complex x) {
  return (EwC128){creal(x), cimag(x)};
}

#define COMPLEX_BY_LIBM(name, function) \
  static EwC128 name(EwC128 x) {        \
    return from_c(function(to_c(x)));   \
  }

COMPLEX_BY_LIBM(complex_exp, cexp)
COMPLEX_BY_LIBM(complex_log, clog)
COMPLEX_BY_LIBM(complex_tanh, ctanh)
COMPLEX_BY_LIBM(complex_tan, ctan)
COMPLEX_BY_LIBM(complex_sin, csin)
COMPLEX_BY_LIBM(complex_cos, ccos)
COMPLEX_BY_LIBM(complex_sinh, csinh)
COMPLEX_BY_LIBM(complex_cosh, ccosh)
COMPLEX_BY_LIBM(complex_asin, casin)
COMPLEX_BY_LIBM(complex_acos, cacos)
COMPLEX_BY_LIBM(complex_asinh, casinh)
COMPLEX_BY_LIBM(complex_acosh, cacosh)
COMPLEX_BY_LIBM(complex_atanh, catanh)

// exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin(y/2)^2 keeps the digits near zero.
static EwC128 complex_expm1(EwC128 x) {
  if (x.im == 0)
    return (EwC128){expm1(x.re), x.im};
  if (!isfinite(x.re) || !isfinite(x.im))
    return from_c(cexp(to_c(x)) - 1.0);
  const double half = sin(x.im / 2);
  return (EwC128){expm1(x.re) * cos(x.im) - 2 * half * half, exp(x.re) * sin(x.im)};
}

// |1 + z|^2 - 1 = x (2 + x) + y^2 keeps the digits near zero.
static EwC128 complex_log1p(EwC128 x) {
  const double angle = atan2(x.im, 1 + x.re), far = fmax(fabs(x.re), fabs(x.im));
  if (far > 0.5)
    return (EwC128){log(hypot(1 + x.re, x.im)), angle};
  return (EwC128){0.5 * log1p(x.re * (2 + x.re) + x.im * x.im), angle};
}

static EwC128 complex_logistic(EwC128 x) {
  return from_c(1.0 / (1.0 + cexp(-to_c(x))));
}

// As XLA has it, -0 counts as +0 at the branch cut: the root of a negative number points up.
static EwC128 complex_sqrt(EwC128 x) {
  return from_c(csqrt(CMPLX(x.re, x.im == 0 ? 0 : x.im)));
}

static EwC128 complex_rsqrt(EwC128 x) {
  if (x.re == 0 && x.im == 0)
    return (EwC128){INFINITY, NAN};
  return from_c(1.0 / csqrt(to_c(x)));
}

// --- The ops ------------------------------------------------------------------------------------

EW_UNARY_COMPLEX(exponential, exp(x), complex_exp)
EW_UNARY_COMPLEX(exponential_minus_one, expm1(x), complex_expm1)
EW_UNARY_COMPLEX(log, log(x), complex_log)
EW_UNARY_COMPLEX(log_plus_one, log1p(x), complex_log1p)
EW_UNARY_COMPLEX(logistic, 1 / (1 + exp(-x)), complex_logistic)
EW_UNARY_COMPLEX(tanh, tanh(x), complex_tanh)
EW_UNARY_COMPLEX(tan, tan(x), complex_tan)
EW_UNARY_COMPLEX(sine, sin(x), complex_sin)
EW_UNARY_COMPLEX(cosine, cos(x), complex_cos)
EW_UNARY_COMPLEX(sqrt, sqrt(x), complex_sqrt)
EW_UNARY_COMPLEX(rsqrt, 1 / sqrt(x), complex_rsqrt)
EW_UNARY(cbrt, cbrt(x))
EW_UNARY(erf, erf(x))
EW_UNARY_COMPLEX(sinh, sinh(x), complex_sinh)
EW_UNARY_COMPLEX(cosh, cosh(x), complex_cosh)
EW_UNARY_COMPLEX(asin, asin(x), complex_asin)
EW_UNARY_COMPLEX(acos, acos(x), complex_acos)
EW_UNARY_COMPLEX(asinh, asinh(x), complex_asinh)
EW_UNARY_COMPLEX(acosh, acosh(x), complex_acosh)
EW_UNARY_COMPLEX(atanh, atanh(x), complex_atanh)
