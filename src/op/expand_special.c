// op/expand_special.c: functions that HLO has no op for: error functions, gamma functions, zeta,
// Bessel functions.

#include <math.h>

#include "op/expand.h"
#include "op/expand_tables.h"

// --- Polynomials and series -----------------------------------------------------------------------

// Horner's rule.
static HlInst *polynomial(Expand *e, HlInst *x, ExpandTable c) {
  HlInst *p = c.at[0] == 1 ? x : ex_mul_n(e, x, c.at[0]);
  for (int k = 1; k < c.n; k++)
    p = ex_add_n(e, k == 1 ? p : ex_mul(e, p, x), c.at[k]);
  return p;
}

// Clenshaw's rule for a sum of Chebyshev polynomials.
static HlInst *chebyshev(Expand *e, HlInst *x, ExpandTable c) {
  HlInst *b0 = ex_add_n(e, ex_mul_n(e, x, 0), c.at[0]), *b1 = NULL, *b2 = NULL;
  for (int k = 1; k < c.n; k++) {
    b2 = b1;
    b1 = b0;
    HlInst *next = ex_mul(e, x, b1);
    b0 = ex_add_n(e, k == 1 ? next : ex_sub(e, next, b2), c.at[k]);
  }
  return ex_mul_n(e, ex_sub(e, b0, b2), 0.5);
}

// --- erfc -----------------------------------------------------------------------------------------

static HlInst *erf_small(Expand *e, HlInst *x, HlInst *square) {
  if (!ex_is_wide(e))
    return ex_mul(e, x, polynomial(e, square, table_erf_f32_t));
  HlInst *top = ex_mul(e, x, polynomial(e, square, table_erf_f64_t));
  return ex_div(e, top, polynomial(e, square, table_erf_f64_u));
}

// erfc of |x| >= 1 in f32, but for the underflow.
static HlInst *erfc_tail_f32(Expand *e, HlInst *a, HlInst *square, HlInst *gauss) {
  HlInst *scale = ex_mul(e, gauss, ex_over(e, 1, a));
  HlInst *inverse = ex_over(e, 1, square);
  HlInst *near = polynomial(e, inverse, table_erfc_f32_p);
  HlInst *far = polynomial(e, inverse, table_erfc_f32_r);
  return ex_mul(e, scale, ex_select(e, ex_lt_n(e, a, 2), near, far));
}

static HlInst *erfc_tail_f64(Expand *e, HlInst *a, HlInst *gauss) {
  HlInst *near = ex_div(e, ex_mul(e, gauss, polynomial(e, a, table_erfc_f64_p)),
                        polynomial(e, a, table_erfc_f64_q));
  HlInst *far = ex_div(e, ex_mul(e, gauss, polynomial(e, a, table_erfc_f64_r)),
                       polynomial(e, a, table_erfc_f64_s));
  return ex_select(e, ex_lt_n(e, a, 8), near, far);
}

HlInst *ex_erfc(Expand *e, HlInst *const *x) {
  double log_largest = ex_is_wide(e) ? 7.09782712893383996843E2 : 88.72283905206835;
  HlInst *a = ex_abs(e, x[0]), *square = ex_mul(e, x[0], x[0]);
  HlInst *small = ex_from(e, 1, erf_small(e, x[0], square));
  HlInst *exponent = ex_neg(e, square), *gauss = ex_exp(e, exponent);
  HlInst *tail = ex_is_wide(e) ? erfc_tail_f64(e, a, gauss) : erfc_tail_f32(e, a, square, gauss);
  tail = ex_select(e, ex_lt_n(e, exponent, -log_largest), ex_number(e, 0), tail);
  HlInst *large = ex_select(e, ex_lt_n(e, x[0], 0), ex_from(e, 2, tail), tail);
  return ex_select(e, ex_lt_n(e, a, 1), small, large);
}

// --- erf_inv --------------------------------------------------------------------------------------

static HlInst *erf_inv_f32(Expand *e, HlInst *w) {
  ExpandTable near = table_erf_inv_f32_near, far = table_erf_inv_f32_far;
  HlInst *is_near = ex_lt_n(e, w, 5);
  HlInst *z = ex_select(e, is_near, ex_sub_n(e, w, 2.5), ex_sub_n(e, ex_sqrt(e, w), 3));
  HlInst *p = NULL;
  for (int k = 0; k < near.n; k++) {
    HlInst *c = ex_select(e, is_near, ex_number(e, near.at[k]), ex_number(e, far.at[k]));
    p = p ? ex_add(e, c, ex_mul(e, p, z)) : c;
  }
  return p;
}

// Three polynomials of falling degree, computed as one as far as the shortest goes.
static HlInst *erf_inv_f64(Expand *e, HlInst *w) {
  ExpandTable near = table_erf_inv_f64_near, middle = table_erf_inv_f64_middle;
  ExpandTable far = table_erf_inv_f64_far;
  HlInst *is_near = ex_lt_n(e, w, 6.25), *is_not_far = ex_lt_n(e, w, 16);
  HlInst *shift = ex_select(e, is_not_far, ex_number(e, 3.25), ex_number(e, 5));
  HlInst *z = ex_select(e, is_near, ex_sub_n(e, w, 3.125), ex_sub(e, ex_sqrt(e, w), shift));
  HlInst *p = NULL;
  for (int k = 0; k < far.n; k++) {
    HlInst *c = ex_select(e, is_near, ex_number(e, near.at[k]), ex_number(e, middle.at[k]));
    c = ex_select(e, is_not_far, c, ex_number(e, far.at[k]));
    p = p ? ex_add(e, c, ex_mul(e, p, z)) : c;
  }
  for (int k = far.n; k < middle.n; k++) {
    HlInst *c = ex_select(e, is_near, ex_number(e, near.at[k]), ex_number(e, middle.at[k]));
    p = ex_select(e, is_not_far, ex_add(e, c, ex_mul(e, p, z)), p);
  }
  for (int k = middle.n; k < near.n; k++)
    p = ex_select(e, is_near, ex_add_n(e, ex_mul(e, p, z), near.at[k]), p);
  return p;
}

HlInst *ex_erf_inv(Expand *e, HlInst *const *x) {
  HlInst *w = ex_neg(e, ex_log1p(e, ex_mul(e, x[0], ex_neg(e, x[0]))));
  HlInst *p = ex_is_wide(e) ? erf_inv_f64(e, w) : erf_inv_f32(e, w);
  HlInst *is_one = ex_eq_n(e, ex_abs(e, x[0]), 1);
  return ex_select(e, is_one, ex_mul_n(e, x[0], INFINITY), ex_mul(e, p, x[0]));
}

// --- lgamma, digamma --------------------------------------------------------------------------------

#define LANCZOS_G 7.0
static const double log_pi = 1.1447298858494001741434;

// The argument of Lanczos' series, which is for Re z >= 1/2: below, the reflection formula is used.
typedef struct Gamma {
  HlInst *reflects;
  HlInst *z;    // x - 1, or -x
  HlInst *sum;  // base + sum of c[k] / (z + k + 1)
  HlInst *log;  // of z + g + 1/2
} Gamma;

static Gamma gamma_start(Expand *e, HlInst *x) {
  Gamma gamma = {.reflects = ex_lt_n(e, x, 0.5)};
  gamma.z = ex_select(e, gamma.reflects, ex_neg(e, x), ex_sub_n(e, x, 1));
  double g = LANCZOS_G + 0.5;
  gamma.log = ex_add_n(e, ex_log1p(e, ex_div_n(e, gamma.z, g)), ex_round(e, log(g)));
  for (int k = 0; k < table_lanczos.n; k++) {
    HlInst *term = ex_over(e, table_lanczos.at[k], ex_add_n(e, gamma.z, k + 1));
    gamma.sum = k == 0 ? ex_add_n(e, term, LANCZOS_BASE) : ex_add(e, gamma.sum, term);
  }
  return gamma;
}

// log |sin(pi x)|, with x first brought to [0, 1/2]
static HlInst *log_sine(Expand *e, HlInst *x) {
  HlInst *a = ex_abs(e, x);
  HlInst *f = ex_sub(e, a, ex_floor(e, a));
  f = ex_select(e, ex_lt(e, ex_number(e, 0.5), f), ex_from(e, 1, f), f);
  return ex_log(e, hl_b_unary(e->b, HL_OP_SINE, ex_mul_n(e, f, M_PI)));
}

HlInst *ex_lgamma(Expand *e, HlInst *const *x) {
  Gamma gamma = gamma_start(e, x[0]);
  HlInst *t = ex_add_n(e, gamma.z, LANCZOS_G + 0.5);
  HlInst *rest = ex_sub(e, ex_add_n(e, gamma.z, 0.5), ex_div(e, t, gamma.log));
  rest = ex_add_n(e, ex_mul(e, rest, gamma.log), (log(2) + log_pi) / 2);
  HlInst *value = ex_add(e, rest, ex_log(e, gamma.sum));
  HlInst *sine = log_sine(e, x[0]);
  HlInst *reflected = ex_sub(e, ex_from(e, log_pi, sine), value);
  HlInst *is_finite = hl_b_unary(e->b, HL_OP_IS_FINITE, sine);
  reflected = ex_select(e, is_finite, reflected, ex_neg(e, sine));
  HlInst *is_inf = ex_eq_n(e, ex_abs(e, x[0]), INFINITY);
  return ex_select(e, is_inf, ex_number(e, INFINITY),
                   ex_select(e, gamma.reflects, reflected, value));
}

// The derivative of the series: - sum of c[k] / (z + k + 1)^2
static HlInst *lanczos_derivative(Expand *e, HlInst *z) {
  HlInst *sum = ex_number(e, 0);
  for (int k = 0; k < table_lanczos.n; k++) {
    HlInst *at = ex_add_n(e, z, k + 1);
    sum = ex_sub(e, sum, ex_over(e, table_lanczos.at[k], ex_mul(e, at, at)));
  }
  return sum;
}

// pi / tan(pi x), with x brought near 0
static HlInst *cotangent(Expand *e, HlInst *x) {
  HlInst *nearest = ex_floor(e, ex_add_n(e, x, 0.5));
  HlInst *angle = ex_mul_n(e, ex_add(e, x, ex_abs(e, nearest)), M_PI);
  HlInst *cosine = ex_mul_n(e, hl_b_unary(e->b, HL_OP_COSINE, angle), M_PI);
  return ex_div(e, cosine, hl_b_unary(e->b, HL_OP_SINE, angle));
}

HlInst *ex_digamma(Expand *e, HlInst *const *x) {
  Gamma gamma = gamma_start(e, x[0]);
  HlInst *t = ex_add_n(e, gamma.z, LANCZOS_G + 0.5);
  HlInst *ratio = ex_div(e, lanczos_derivative(e, gamma.z), gamma.sum);
  HlInst *value = ex_sub(e, ex_add(e, gamma.log, ratio), ex_over(e, LANCZOS_G, t));
  HlInst *reflected = ex_sub(e, value, cotangent(e, x[0]));
  value = ex_select(e, gamma.reflects, reflected, value);
  HlInst *is_whole = ex_eq(e, x[0], ex_floor(e, x[0]));
  HlInst *is_pole = ex_and(e, ex_le_n(e, x[0], 0), is_whole);
  return ex_select(e, is_pole, ex_number(e, NAN), value);
}

// --- zeta, polygamma --------------------------------------------------------------------------------

// The remainder of the sum by Euler and Maclaurin: `last` is the last term, at^-x.
static HlInst *zeta_remainder(Expand *e, HlInst *x, HlInst *at, HlInst *last) {
  HlInst *inverse = ex_over(e, 1, ex_mul(e, at, at));
  ExpandTable c = table_zeta;
  HlInst *h = NULL;
  for (int k = 0; k < c.n - 1; k++) {
    int degree = 2 * (c.n - 1 - k);
    HlInst *rising = ex_mul(e, ex_add_n(e, x, degree), ex_add_n(e, x, degree - 1));
    double reciprocal = 1 / c.at[k];
    HlInst *term =
        h ? ex_mul(e, inverse, ex_add_n(e, h, reciprocal)) : ex_mul_n(e, inverse, reciprocal);
    h = ex_mul(e, rising, term);
  }
  h = ex_add_n(e, h, 1 / c.at[c.n - 1]);
  return ex_mul(e, last, ex_add_n(e, ex_mul(e, ex_div(e, x, at), h), 0.5));
}

static HlInst *zeta_sum(Expand *e, HlInst *x, HlInst *q) {
  double smallest = ex_is_wide(e) ? 0x1p-1074 : 0x1p-149;
  HlInst *minus_x = ex_neg(e, x), *at = q;
  HlInst *sum = hl_b_binary(e->b, HL_OP_POWER, q, minus_x);
  for (int k = 0; k < 9; k++) {
    at = ex_add_n(e, at, 1);
    sum = ex_add(e, sum, hl_b_binary(e->b, HL_OP_POWER, at, minus_x));
  }
  at = ex_add_n(e, at, 1);
  HlInst *last = hl_b_binary(e->b, HL_OP_POWER, at, minus_x);
  HlInst *integral = ex_div(e, ex_mul(e, last, at), ex_sub_n(e, x, 1));
  HlInst *all = ex_add(e, ex_add(e, sum, integral), zeta_remainder(e, x, at, last));
  HlInst *is_done = ex_lt(e, ex_abs(e, last), ex_mul_n(e, ex_abs(e, sum), smallest));
  return ex_select(e, is_done, sum, all);
}

HlInst *ex_zeta(Expand *e, HlInst *const *operands) {
  HlInst *x = operands[0], *q = operands[1], *nan = ex_number(e, NAN);
  HlInst *value = ex_select(e, ex_lt_n(e, x, 1), nan, zeta_sum(e, x, q));
  HlInst *q_is_low = ex_le_n(e, q, 0), *x_floor = ex_floor(e, x);
  HlInst *is_complex = ex_and(e, q_is_low, ex_ne(e, x, x_floor));
  value = ex_select(e, is_complex, nan, value);
  HlInst *is_pole = ex_and(e, q_is_low, ex_eq(e, q, ex_floor(e, q)));
  HlInst *remainder = hl_b_binary(e->b, HL_OP_REMAINDER, x, ex_number(e, 2));
  HlInst *x_is_even = ex_and(e, ex_eq(e, x, x_floor), ex_eq_n(e, remainder, 0));
  HlInst *at_pole = ex_select(e, x_is_even, ex_number(e, INFINITY), nan);
  value = ex_select(e, is_pole, at_pole, value);
  return ex_select(e, ex_eq_n(e, x, 1), ex_number(e, INFINITY), value);
}

HlInst *ex_polygamma(Expand *e, HlInst *const *operands) {
  HlInst *n = operands[0], *x = operands[1];
  HlInst *remainder = hl_b_binary(e->b, HL_OP_REMAINDER, n, ex_number(e, 2));
  HlInst *sign = ex_sub_n(e, ex_mul_n(e, remainder, 2), 1);
  HlInst *order[] = {ex_add_n(e, n, 1), x};
  HlInst *factorial = ex_exp(e, ex_lgamma(e, order));
  HlInst *value = ex_mul(e, ex_mul(e, sign, factorial), ex_zeta(e, order));
  value = ex_select(e, ex_eq_n(e, n, 0), ex_digamma(e, &x), value);
  HlInst *is_undefined = ex_or(e, ex_ne(e, n, ex_floor(e, n)), ex_lt_n(e, n, 0));
  return ex_select(e, is_undefined, ex_number(e, NAN), value);
}

// --- Bessel functions -------------------------------------------------------------------------------

// By one series in x up to 8 and by another in 1 / x beyond; `a` is not negative.
static HlInst *bessel(Expand *e, HlInst *a, ExpandTable small, ExpandTable large, HlInst *scale) {
  HlInst *near = chebyshev(e, ex_sub_n(e, ex_mul_n(e, a, 0.5), 2), small);
  HlInst *far = chebyshev(e, ex_sub_n(e, ex_over(e, 32, a), 2), large);
  if (scale)
    near = ex_mul(e, scale, near);
  return ex_select(e, ex_le_n(e, a, 8), near, ex_div(e, far, ex_sqrt(e, a)));
}

HlInst *ex_bessel_i0e(Expand *e, HlInst *const *x) {
  HlInst *a = ex_abs(e, x[0]);
  if (ex_is_wide(e))
    return bessel(e, a, table_bessel_i0e_f64_small, table_bessel_i0e_f64_large, NULL);
  return bessel(e, a, table_bessel_i0e_f32_small, table_bessel_i0e_f32_large, NULL);
}

HlInst *ex_bessel_i1e(Expand *e, HlInst *const *x) {
  HlInst *a = ex_abs(e, x[0]), *sign = hl_b_unary(e->b, HL_OP_SIGN, x[0]);
  HlInst *size = ex_is_wide(e)
                     ? bessel(e, a, table_bessel_i1e_f64_small, table_bessel_i1e_f64_large, a)
                     : bessel(e, a, table_bessel_i1e_f32_small, table_bessel_i1e_f32_large, a);
  return ex_mul(e, sign, size);
}
