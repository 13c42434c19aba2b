// Functions that HLO has no op for, against libm, identities, series and published values.

#include "hilo/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hilo/eval.h"
#include "hilo/verify.h"

// --- A function on lists of numbers -------------------------------------------------------------

enum { MAX_ARITY = 3 };

static void report(const HlCx *cx) {
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    print_message("%s\n", hl_cx_diag(cx, k)->text);
}

static HlInst *argument(HlBuild *b, const HlLiteral *literal) {
  return hl_b_parameter(b, hl_shape_intern(hl_b_module(b)->shapes, literal->shape), NULL);
}

// The function's values; a new reference.
static HlLiteral *apply(HlCx *cx, const char *name, int arity, HlLiteral *const *in) {
  HlModule *m = hl_module_new("t", NULL);
  HlBuild b = {.cx = cx, .comp = hl_comp_new(m, "main", 4)};
  hl_comp_set_entry(b.comp);
  HlInst *x[MAX_ARITY] = {NULL};
  for (int k = 0; k < arity; k++)
    x[k] = argument(&b, in[k]);
  HlInst *root = hl_expand(&b, hl_str(name), arity, x);
  report(cx);
  assert_non_null(root);
  hl_set_root(b.comp, root);
  hl_complete_entry_layout(m);
  bool ok = hl_sort_comps(cx, m) && hl_verify(cx, m, NULL);
  HlLiteral *out = ok ? hl_eval_comp(cx, b.comp, (const HlLiteral *const *)in, arity) : NULL;
  report(cx);
  assert_non_null(out);
  hl_module_free(m);
  return out;
}

static HlLiteral *list_of(HlCx *cx, HlDtype dtype, int64_t n) {
  HlShape shape = {.dtype = dtype, .rank = 1, .dim = &n};
  HlLiteral *literal = hl_literal_new(cx, &shape);
  assert_non_null(literal);
  return literal;
}

static HlLiteral *numbers(HlCx *cx, HlDtype dtype, int n, const double *value) {
  HlLiteral *literal = list_of(cx, dtype, n);
  for (int k = 0; k < n; k++)
    hl_literal_set_f64(literal, k, value[k]);
  return literal;
}

// The largest relative error that the type's values may have for the tolerance given in f32 ulps.
static double slack(HlDtype dtype, double ulps) {
  switch (dtype) {
  case HL_F64:
  case HL_C128: return ulps * DBL_EPSILON;
  case HL_F32:
  case HL_C64: return ulps * (double)FLT_EPSILON;
  case HL_F16: return 0x1p-10;
  case HL_BF16: return 0x1p-7;
  default: return 0x1p-2;
  }
}

static bool is_near(double got, double want, double relative) {
  if (isnan(want) || isinf(want) || want == 0)
    return isnan(want) ? isnan(got) : got == want;
  return fabs(got - want) <= relative * fabs(want);
}

// --- Real functions of one number ---------------------------------------------------------------

typedef double Reference(double x);

static double bessel_by_integral(int order, double x) {  // exp(-|x|) I(x)
  double sum = 0;
  int n = 400;
  for (int k = 0; k < n; k++) {
    double angle = M_PI * (k + 0.5) / n;
    sum += exp(x * cos(angle) - fabs(x)) * cos(order * angle);
  }
  return sum / n;
}
static double bessel_0(double x) {
  return bessel_by_integral(0, x);
}
static double bessel_1(double x) {
  return bessel_by_integral(1, x);
}

static double digamma_by_series(double x) {
  if (x <= 0 && x == floor(x))
    return NAN;
  if (x < 0)
    return digamma_by_series(1 - x) - M_PI / tan(M_PI * x);
  double shift = 0;
  for (; x < 20; x++)
    shift -= 1 / x;
  double y = 1 / (x * x);
  return shift + log(x) - 0.5 / x - y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y / 240)));
}

static double erf_inv_by_newton(double y) {
  if (fabs(y) >= 1)
    return fabs(y) == 1 ? y * INFINITY : NAN;
  double x = 0;
  for (int k = 0; k < 200; k++)
    x -= (erf(x) - y) / (2 / sqrt(M_PI) * exp(-x * x));
  return x;
}

static double squared(double x) {
  return x * x;
}

typedef struct Row {
  const char *name;
  Reference *want;
  double ulps;
  double x[12];
} Row;

static const Row rows[] = {
    {"acos", acos, 4, {-1, -0.75, -0.0, 0.25, 0.5, 1, 2, NAN}},
    {"acosh", acosh, 4, {0.5, 1, 1.25, 2, 40, 3e4, INFINITY, NAN}},
    {"asin", asin, 4, {-1, -0.75, -0.0, 0.25, 0.5, 1, 2, NAN}},
    {"asinh", asinh, 4, {-3e4, -1, -0.0, 0.25, 7, -INFINITY, INFINITY, NAN}},
    {"atan", atan, 4, {-INFINITY, -2, -0.0, 0.5, 1, 3e4, INFINITY, NAN}},
    {"atanh", atanh, 4, {-1, -0.5, -0.0, 0.25, 0.75, 1, 2, NAN}},
    {"cosh", cosh, 8, {-9, -0.5, 0, 0.25, 2, 11, INFINITY, NAN}},
    {"sinh", sinh, 8, {-9, -0.5, 0, 0.25, 2, 11, INFINITY, NAN}},
    {"tan", tan, 4, {-1.5, -0.0, 0.5, 1, 2, 3, NAN}},
    {"erf", erf, 4, {-3, -0.5, -0.0, 0.25, 1, 2, INFINITY, NAN}},
    {"erfc", erfc, 16, {-3, -0.5, 0, 0.25, 0.75, 1.5, 2.5, 3.5, -INFINITY, INFINITY, NAN}},
    {"erf_inv", erf_inv_by_newton, 8, {-1, -0.75, 0, 0.25, 0.5, 0.875, 1, 2, NAN}},
    {"lgamma", lgamma, 64, {-2.5, -0.25, 0.25, 0.75, 3, 10, 40, 300, INFINITY, NAN, -3, 0}},
    {"digamma", digamma_by_series, 64, {-2.25, -0.25, 0.25, 0.75, 3, 10, 40, 300, 0, -2, NAN}},
    {"bessel_i1e", bessel_1, 16, {-20, -2, -0.5, 0.25, 1, 7.5, 8, 9, 50}},
    {"bessel_i0e", bessel_0, 16, {-20, -2, -0.5, 0.25, 1, 7.5, 8, 9, 50}},
    {"square", squared, 1, {-3, 0.5, 12, -0.0, INFINITY, NAN}},
};

static int count(const Row *row) {  // up to the zeros that fill the row, but for a 0 in its middle
  int n = HL_COUNT_OF(row->x);
  while (n > 1 && row->x[n - 1] == 0 && !signbit(row->x[n - 1]))
    n--;
  return n;
}

static void check_row(const Row *row, HlDtype dtype) {
  HlCx *cx = hl_cx_new();
  int n = count(row);
  HlLiteral *x = numbers(cx, dtype, n, row->x);
  HlLiteral *got = apply(cx, row->name, 1, &x);
  for (int k = 0; k < n; k++) {
    double want = row->want(hl_literal_f64(x, k)), value = hl_literal_f64(got, k);
    hl_literal_set_f64(x, k, want);  // in the type's own range
    if (!is_near(value, hl_literal_f64(x, k), slack(dtype, row->ulps)))
      fail_msg("%s(%g) on %s: got %.17g, want %.17g", row->name, row->x[k], hl_dtype_text(dtype),
               value, want);
  }
  hl_literal_unref(x);
  hl_literal_unref(got);
  hl_cx_free(cx);
}

static void test_real(void **state) {
  (void)state;
  for (int k = 0; k < HL_COUNT_OF(rows); k++) {
    check_row(&rows[k], HL_F64);
    check_row(&rows[k], HL_F32);
    check_row(&rows[k], HL_F16);
    check_row(&rows[k], HL_BF16);
  }
}

// Where a formula for moderate numbers would overflow or lose everything.
static void test_real_edges(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double x, want;
  } edge[] = {
      {"asinh", 3e38, 89.290159096},  {"acosh", 3e38, 89.290159096},
      {"asinh", 1e-30, 1e-30},        {"cosh", 89, 2.2448069e38},
      {"sinh", 89, 2.2448069e38},     {"sinh", 1e-20, 1e-20},
      {"erfc", 10, 2.0884876e-45},    {"erf_inv", 0.99999988, 3.7439118},
      {"lgamma", 1e30, 6.8077553e31}, {"bessel_i1e", 1e10, 3.98942280e-6},
      {"bessel_i1e", 1e-20, 5e-21},
  };
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(edge); k++) {
    HlLiteral *x = numbers(cx, HL_F32, 1, &edge[k].x);
    HlLiteral *got = apply(cx, edge[k].name, 1, &x);
    double tolerance = edge[k].want < 1e-40 ? 1 : 2e-5;
    if (!is_near(hl_literal_f64(got, 0), edge[k].want, tolerance))
      fail_msg("%s(%g): got %g", edge[k].name, edge[k].x, hl_literal_f64(got, 0));
    hl_literal_unref(x);
    hl_literal_unref(got);
  }
  hl_cx_free(cx);
}

// --- Real functions of two numbers --------------------------------------------------------------

typedef struct Pair {
  const char *name;
  double x, y, want;
} Pair;

static const Pair pairs[] = {
    {"zeta", 2, 1, M_PI *M_PI / 6},
    {"zeta", 4, 1, 1.0823232337111381915},
    {"zeta", 2, 0.5, M_PI *M_PI / 2},
    {"zeta", 3, 2, 0.2020569031595942854},
    {"zeta", 1, 3, INFINITY},
    {"zeta", 0.5, 3, NAN},
    {"zeta", 2, -1, INFINITY},
    {"zeta", 3, -1, NAN},
    {"zeta", 2.5, -0.5, NAN},
    {"polygamma", 0, 1, -0.57721566490153286061},
    {"polygamma", 1, 1, M_PI *M_PI / 6},
    {"polygamma", 2, 1, -2.4041138063191885708},
    {"polygamma", 3, 0.5, M_PI *M_PI *M_PI *M_PI},
    {"polygamma", -1, 1, NAN},
    {"polygamma", 1.5, 1, NAN},
};

static void test_pairs(void **state) {
  (void)state;
  static const HlDtype types[] = {HL_F64, HL_F32, HL_BF16};
  HlCx *cx = hl_cx_new();
  for (int t = 0; t < HL_COUNT_OF(types); t++)
    for (int k = 0; k < HL_COUNT_OF(pairs); k++) {
      const Pair *p = &pairs[k];
      HlLiteral *in[] = {numbers(cx, types[t], 1, &p->x), numbers(cx, types[t], 1, &p->y)};
      HlLiteral *got = apply(cx, p->name, 2, in);
      if (!is_near(hl_literal_f64(got, 0), p->want, slack(types[t], 32)))
        fail_msg("%s(%g, %g) on %s: got %.17g", p->name, p->x, p->y, hl_dtype_text(types[t]),
                 hl_literal_f64(got, 0));
      hl_literal_unref(in[0]);
      hl_literal_unref(in[1]);
      hl_literal_unref(got);
    }
  hl_cx_free(cx);
}

static void test_next_after(void **state) {
  (void)state;
  static const float value[] = {0,       -0.0f,    1,        -1,        FLT_MIN, 0x1p-149f,
                                FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN,     0.1f};
  enum { N = HL_COUNT_OF(value) };
  HlCx *cx = hl_cx_new();
  HlLiteral *in[] = {list_of(cx, HL_F32, N * N), list_of(cx, HL_F32, N * N)};
  for (int k = 0; k < N * N; k++) {
    ((float *)in[0]->data)[k] = value[k / N];
    ((float *)in[1]->data)[k] = value[k % N];
  }
  HlLiteral *got = apply(cx, "next_after", 2, in);
  for (int k = 0; k < N * N; k++) {
    float want = nextafterf(value[k / N], value[k % N]), next = ((float *)got->data)[k];
    if (isnan(want) ? !isnan(next) : memcmp(&want, &next, sizeof want) != 0)
      fail_msg("next_after(%g, %g): got %g", (double)value[k / N], (double)value[k % N],
               (double)next);
  }
  hl_literal_unref(in[0]);
  hl_literal_unref(in[1]);
  hl_literal_unref(got);
  hl_cx_free(cx);
}

// --- Functions computed by loops ----------------------------------------------------------------

static double value_at(HlCx *cx, HlDtype dtype, const char *name, int n, const double *x) {
  HlLiteral *in[MAX_ARITY] = {NULL};
  for (int k = 0; k < n; k++)
    in[k] = numbers(cx, dtype, 1, &x[k]);
  HlLiteral *got = apply(cx, name, n, in);
  double value = hl_literal_f64(got, 0);
  for (int k = 0; k < n; k++)
    hl_literal_unref(in[k]);
  hl_literal_unref(got);
  return value;
}

static const struct {
  const char *name;
  int arity;
  double x[MAX_ARITY], want;
} looped[] = {
    {"igamma", 2, {1, 0.5}, 0.39346934028736657640},  // 1 - exp(-x)
    {"igamma", 2, {1, 3}, 0.95021293163213605702},
    {"igamma", 2, {0.5, 0.25}, 0.52049987781304653768},  // erf(sqrt(x))
    {"igamma", 2, {2, 30}, 0.99999999999709914},
    {"igamma", 2, {3, 0}, 0},
    {"igamma", 2, {3, INFINITY}, 1},
    {"igamma", 2, {-1, 1}, NAN},
    {"igamma", 2, {0, 0}, NAN},
    {"igammac", 2, {1, 0.5}, 0.60653065971263342360},
    {"igammac", 2, {1, 30}, 9.3576229688401746e-14},
    {"igammac", 2, {0, 2}, 0},
    {"igammac", 2, {2, NAN}, NAN},
    {"regularized_incomplete_beta", 3, {1, 3, 0.5}, 0.875},        // 1 - (1 - x)^b
    {"regularized_incomplete_beta", 3, {4, 1, 0.75}, 0.31640625},  // x^a
    {"regularized_incomplete_beta", 3, {2, 3, 0.5}, 0.6875},
    {"regularized_incomplete_beta", 3, {2, 3, 0}, 0},
    {"regularized_incomplete_beta", 3, {2, 3, 1}, 1},
    {"regularized_incomplete_beta", 3, {0, 3, 0.5}, 1},
    {"regularized_incomplete_beta", 3, {2, 3, 1.5}, NAN},
    {"regularized_incomplete_beta", 3, {0, 0, 0.5}, NAN},
};

static void test_loops(void **state) {
  (void)state;
  static const HlDtype types[] = {HL_F64, HL_F32, HL_F16};
  HlCx *cx = hl_cx_new();
  for (int t = 0; t < HL_COUNT_OF(types); t++)
    for (int k = 0; k < HL_COUNT_OF(looped); k++) {
      double got = value_at(cx, types[t], looped[k].name, looped[k].arity, looped[k].x);
      if (fabs(looped[k].want) < 1e-9 && looped[k].want != 0 && types[t] == HL_F16)
        continue;
      if (!is_near(got, looped[k].want, slack(types[t], 64)))
        fail_msg("%s(%g, %g, %g) on %s: got %.17g", looped[k].name, looped[k].x[0], looped[k].x[1],
                 looped[k].x[2], hl_dtype_text(types[t]), got);
    }
  hl_cx_free(cx);
}

// The derivatives by a, against differences: of igamma, and of x where igamma(a, x) is held.
static void test_gamma_derivatives(void **state) {
  (void)state;
  static const double at[][2] = {{0.5, 0.25}, {2, 0.75}, {2, 5}, {8, 6.5}, {8, 20}};
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(at); k++) {
    double a = at[k][0], x = at[k][1], h = 1e-5;
    double up[] = {a + h, x}, down[] = {a - h, x};
    double slope =
        (value_at(cx, HL_F64, "igamma", 2, up) - value_at(cx, HL_F64, "igamma", 2, down)) / (2 * h);
    double density = exp((a - 1) * log(x) - x - lgamma(a));
    double got = value_at(cx, HL_F64, "igamma_grad_a", 2, at[k]);
    double sample = value_at(cx, HL_F64, "random_gamma_grad", 2, at[k]);
    if (!is_near(got, slope, 1e-6) || !is_near(sample, -slope / density, 1e-6))
      fail_msg("at (%g, %g): got %g and %g, want %g and %g", a, x, got, sample, slope,
               -slope / density);
  }
  hl_cx_free(cx);
}

// --- Predicates, integers -----------------------------------------------------------------------

static void test_infinities(void **state) {
  (void)state;
  static const double value[] = {INFINITY, -INFINITY, NAN, 0, 1};
  static const char *const names[] = {"is_inf", "is_pos_inf", "is_neg_inf"};
  static const bool want[3][5] = {{1, 1}, {1}, {0, 1}};
  HlCx *cx = hl_cx_new();
  HlLiteral *x = numbers(cx, HL_F16, 5, value);
  for (int k = 0; k < 3; k++) {
    HlLiteral *got = apply(cx, names[k], 1, &x);
    assert_int_equal(got->shape->dtype, HL_PRED);
    assert_memory_equal(got->data, want[k], 5);
    hl_literal_unref(got);
  }
  hl_literal_unref(x);
  hl_cx_free(cx);
}

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideUnsigned;

static int64_t product_high(HlDtype dtype, int64_t x, int64_t y) {
  int bits = hl_dtype_info[dtype].bits;
  if (hl_is_signed(dtype))
    return (int64_t)(((Wide)x * y) >> bits);
  return (int64_t)(((WideUnsigned)(uint64_t)x * (uint64_t)y) >> bits);
}

static void test_mulhi(void **state) {
  (void)state;
  static const HlDtype types[] = {HL_S4,  HL_U4,  HL_S8,  HL_U8,  HL_S16,
                                  HL_U16, HL_S32, HL_U32, HL_S64, HL_U64};
  enum { N = 40 };
  HlCx *cx = hl_cx_new();
  HlRng rng = {7};
  for (int t = 0; t < HL_COUNT_OF(types); t++) {
    HlLiteral *in[] = {list_of(cx, types[t], N), list_of(cx, types[t], N)};
    for (int k = 0; k < N; k++) {
      hl_literal_set_i64(in[0], k, k % 7 == 0 ? -1 : (int64_t)hl_rng_u64(&rng));
      hl_literal_set_i64(in[1], k, k % 5 == 0 ? INT64_MIN >> k : (int64_t)hl_rng_u64(&rng));
    }
    HlLiteral *got = apply(cx, "mulhi", 2, in);
    for (int k = 0; k < N; k++) {
      int64_t x = hl_literal_i64(in[0], k), y = hl_literal_i64(in[1], k);
      if (hl_literal_i64(got, k) != product_high(types[t], x, y))
        fail_msg("mulhi(%lld, %lld) on %s: got %lld", (long long)x, (long long)y,
                 hl_dtype_text(types[t]), (long long)hl_literal_i64(got, k));
    }
    hl_literal_unref(in[0]);
    hl_literal_unref(in[1]);
    hl_literal_unref(got);
  }
  hl_cx_free(cx);
}

// --- Complex functions --------------------------------------------------------------------------

typedef double complex ComplexReference(double complex z);

static double complex log_plus_one(double complex z) {
  return clog(1 + z);
}
static double complex square_of(double complex z) {
  return z * z;
}

static const struct {
  const char *name;
  ComplexReference *want;
} complex_rows[] = {
    {"acos", cacos}, {"acosh", cacosh},
    {"asin", casin}, {"asinh", casinh},
    {"atan", catan}, {"atanh", catanh},
    {"cosh", ccosh}, {"sinh", csinh},
    {"conj", conj},  {"square", square_of},
    {"log", clog},   {"exponential", cexp},
    {"sqrt", csqrt}, {"log_plus_one", log_plus_one},
};

static void check_complex(int row, HlDtype dtype) {
  static const double part[] = {-3.5, -1.25, -0.375, 0.25, 1.5, 12};
  enum { N = HL_COUNT_OF(part) };
  HlCx *cx = hl_cx_new();
  HlLiteral *z = list_of(cx, dtype, N * N);
  for (int k = 0; k < N * N; k++)
    hl_literal_set_complex(z, k, part[k / N], part[k % N]);
  HlLiteral *got = apply(cx, complex_rows[row].name, 1, &z);
  for (int k = 0; k < N * N; k++) {
    double complex want = complex_rows[row].want(part[k / N] + I * part[k % N]);
    double complex value = hl_literal_f64(got, k) + I * hl_literal_imag(got, k);
    if (cabs(value - want) > slack(dtype, 8) * cabs(want))
      fail_msg("%s(%g, %g) on %s: got (%.17g, %.17g), want (%.17g, %.17g)", complex_rows[row].name,
               part[k / N], part[k % N], hl_dtype_text(dtype), creal(value), cimag(value),
               creal(want), cimag(want));
  }
  hl_literal_unref(z);
  hl_literal_unref(got);
  hl_cx_free(cx);
}

static void test_complex(void **state) {
  (void)state;
  for (int k = 0; k < HL_COUNT_OF(complex_rows); k++) {
    check_complex(k, HL_C64);
    check_complex(k, HL_C128);
  }
}

// Where squares of the parts over- or underflow, or cancel.
static void test_complex_edges(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double x, y, re, im;
  } edge[] = {
      {"sqrt", 3e38, 3e38, 1.9029766e19, 7.8823865e18},
      {"sqrt", 0, 2e-38, 1e-19, 1e-19},
      {"sqrt", -4, -0.0, 0, 2},
      {"asin", 3e38, 1, 1.5707964, 89.29016},
      {"acos", 1, 1e-30, 1e-15, -1e-15},
      {"log", 0.6, 0.8, 0, 0.9272952},
      {"log_plus_one", 1e-20, 1e-20, 1e-20, 1e-20},
      {"atanh", 1e30, 1e30, 5e-31, 1.5707964},
      {"exponential", 89, 1.5, 3.1757966e37, 4.478373e38},
      {"square", 3e30, 3e30, 0, INFINITY},
  };
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(edge); k++) {
    HlLiteral *z = list_of(cx, HL_C64, 1);
    hl_literal_set_complex(z, 0, edge[k].x, edge[k].y);
    HlLiteral *got = apply(cx, edge[k].name, 1, &z);
    double re = hl_literal_f64(got, 0), im = hl_literal_imag(got, 0);
    bool re_ok = is_near(re, edge[k].re, 1e-2) || fabs(re - edge[k].re) < 1e-7 * fabs(edge[k].im);
    bool im_ok = is_near(im, edge[k].im, 1e-2) || (edge[k].im > FLT_MAX && isinf(im));
    if (!re_ok || !im_ok)
      fail_msg("%s(%g, %g): got (%g, %g)", edge[k].name, edge[k].x, edge[k].y, re, im);
    hl_literal_unref(z);
    hl_literal_unref(got);
  }
  hl_cx_free(cx);
}

// --- What is not a function by name -------------------------------------------------------------

typedef struct Bench {
  HlCx *cx;
  HlModule *m;
  HlBuild b;
} Bench;

static Bench bench_new(void) {
  Bench bench = {.cx = hl_cx_new(), .m = hl_module_new("bench", NULL)};
  bench.b = (HlBuild){.cx = bench.cx, .comp = hl_comp_new(bench.m, "main", 4)};
  hl_comp_set_entry(bench.b.comp);
  return bench;
}

static HlLiteral *bench_run(Bench *bench, HlInst *root) {
  report(bench->cx);
  assert_non_null(root);
  hl_set_root(bench->b.comp, root);
  bool ok = hl_sort_comps(bench->cx, bench->m) && hl_verify(bench->cx, bench->m, NULL);
  HlLiteral *out = ok ? hl_eval_comp(bench->cx, bench->b.comp, NULL, 0) : NULL;
  report(bench->cx);
  assert_non_null(out);
  return out;
}

static void bench_free(Bench *bench) {
  hl_module_free(bench->m);
  hl_cx_free(bench->cx);
}

// The known answers of Random123 for 20 rounds: key, counter, result.
static void test_threefry(void **state) {
  (void)state;
  static const uint32_t known[][6] = {
      {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
      {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0},
  };
  for (int k = 0; k < HL_COUNT_OF(known); k++) {
    Bench t = bench_new();
    HlInst *in[4], *out[2];
    for (int i = 0; i < 4; i++)
      in[i] = hl_b_scalar_int(&t.b, HL_U32, known[k][i]);
    assert_true(hl_expand_threefry2x32(&t.b, in, in + 2, out));
    HlLiteral *got = bench_run(&t, hl_b_tuple(&t.b, 2, out));
    for (int i = 0; i < 2; i++)
      assert_int_equal(hl_literal_i64(got->element[i], 0), known[k][4 + i]);
    hl_literal_unref(got);
    bench_free(&t);
  }
}

static void test_top_k(void **state) {
  (void)state;
  static const double value[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  static const int64_t largest[2][3] = {{9, 5, 4}, {8, 6, 5}}, place[2][3] = {{5, 4, 2}, {5, 1, 2}};
  Bench t = bench_new();
  HlLiteral *x = numbers(t.cx, HL_F32, 12, value);
  int64_t dim[] = {2, 6};
  HlInst *matrix = hl_b_reshape(&t.b, hl_b_constant(&t.b, x), 2, dim), *out[2];
  assert_true(hl_expand_top_k(&t.b, matrix, 3, out));
  HlLiteral *got = bench_run(&t, hl_b_tuple(&t.b, 2, out));
  for (int k = 0; k < 6; k++) {
    assert_int_equal(hl_literal_i64(got->element[0], k), largest[k / 3][k % 3]);
    assert_int_equal(hl_literal_i64(got->element[1], k), place[k / 3][k % 3]);
  }
  hl_literal_unref(x);
  hl_literal_unref(got);
  bench_free(&t);
}

// Scalars and matrices: constants and the loops' tests do not depend on the rank.
static void test_ranks(void **state) {
  (void)state;
  Bench t = bench_new();
  HlInst *x = hl_b_scalar(&t.b, HL_F32, 2), *y = hl_b_full(&t.b, HL_F32, 2, (int64_t[]){2, 1}, 2);
  HlInst *scalars[] = {x, x}, *matrices[] = {y, y};
  HlInst *both[] = {hl_expand(&t.b, hl_str("igamma"), 2, scalars),
                    hl_expand(&t.b, hl_str("igamma"), 2, matrices)};
  HlLiteral *got = bench_run(&t, hl_b_tuple(&t.b, 2, both));
  double want = 1 - 3 * exp(-2);
  assert_true(is_near(hl_literal_f64(got->element[0], 0), want, 1e-5));
  assert_true(hl_literal_f64(got->element[0], 0) == hl_literal_f64(got->element[1], 1));
  hl_literal_unref(got);
  bench_free(&t);
}

static void test_errors(void **state) {
  (void)state;
  Bench t = bench_new();
  HlInst *x = hl_b_scalar(&t.b, HL_F32, 1), *i = hl_b_scalar_int(&t.b, HL_S32, 1);
  HlInst *mixed[] = {x, i}, *missing = NULL;
  assert_true(hl_can_expand(hl_str("lgamma")));
  assert_false(hl_can_expand(hl_str("lgam")));
  assert_null(hl_expand(&t.b, hl_str("lgamma"), 1, &missing));
  assert_int_equal(hl_cx_n_errors(t.cx), 0);
  assert_null(hl_expand(&t.b, hl_str("lgam"), 1, &x));
  assert_int_equal(hl_cx_error_kind(t.cx), HL_UNSUPPORTED);
  assert_null(hl_expand(&t.b, hl_str("lgamma"), 2, mixed));
  assert_null(hl_expand(&t.b, hl_str("zeta"), 2, mixed));
  assert_null(hl_expand(&t.b, hl_str("lgamma"), 1, &i));
  assert_null(hl_expand(&t.b, hl_str("erf"), 1, &i));
  assert_int_equal(hl_cx_n_errors(t.cx), 5);
  bench_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_real),       cmocka_unit_test(test_real_edges),
      cmocka_unit_test(test_pairs),      cmocka_unit_test(test_next_after),
      cmocka_unit_test(test_infinities), cmocka_unit_test(test_mulhi),
      cmocka_unit_test(test_complex),    cmocka_unit_test(test_complex_edges),
      cmocka_unit_test(test_loops),      cmocka_unit_test(test_gamma_derivatives),
      cmocka_unit_test(test_ranks),      cmocka_unit_test(test_threefry),
      cmocka_unit_test(test_top_k),      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
