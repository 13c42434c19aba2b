// op/expand_complex.c: functions of complex numbers, computed from their parts so that nothing
// overflows or cancels where the result does not.

#include <math.h>

#include "op/expand.h"

// The parts of a complex array, and arithmetic on them.
typedef struct Parts {
  Expand e;
  HlInst *x, *y;
} Parts;

static Parts parts_of(Expand *z, HlInst *inst) {
  HlInst *x = hl_b_unary(z->b, HL_OP_REAL, inst);
  return (Parts){expand_like(z->b, x), x, hl_b_unary(z->b, HL_OP_IMAG, inst)};
}

static HlInst *complex_of(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_COMPLEX, x, y);
}

// x with the sign turned where `by` is negative (-0 is not).
static HlInst *turn_where_negative(Expand *e, HlInst *by, HlInst *x) {
  return ex_select(e, ex_lt_n(e, by, 0), ex_neg(e, x), x);
}

HlInst *ex_complex_conj(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  return complex_of(z, p.x, ex_neg(&p.e, p.y));
}

HlInst *ex_complex_square(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Expand *e = &p.e;
  HlInst *is_finite = hl_b_unary(e->b, HL_OP_IS_FINITE, p.x);
  HlInst *cancels = ex_and(e, is_finite, ex_eq(e, ex_abs(e, p.x), ex_abs(e, p.y)));
  HlInst *real = ex_mul(e, ex_sub(e, p.x, p.y), ex_add(e, p.x, p.y));
  return complex_of(z, ex_select(e, cancels, ex_number(e, 0), real),
                    ex_mul_n(e, ex_mul(e, p.x, p.y), 2));
}

// --- Lengths --------------------------------------------------------------------------------------

// sqrt(x^2 + y^2) of two numbers that are not negative
static HlInst *hypot_of(Expand *e, HlInst *x, HlInst *y) {
  HlInst *max = ex_max(e, x, y), *min = ex_min(e, x, y);
  HlInst *ratio = ex_div(e, min, max);
  HlInst *square = ex_mul(e, ratio, ratio);
  HlInst *root = ex_sqrt(e, ex_add_n(e, square, 1));
  HlInst *is_lost = ex_and(e, ex_eq_n(e, root, 1), ex_gt_n(e, square, 0));
  HlInst *tiny = ex_add(e, max, ex_div_n(e, ex_mul(e, max, square), 2));
  HlInst *usual = ex_select(e, is_lost, tiny, ex_mul(e, max, root));
  return ex_select(e, ex_eq(e, max, min), ex_mul_n(e, max, M_SQRT2), usual);
}

// --- Inverse sines and cosines ----------------------------------------------------------------------

// What Hull, Fairgrieve and Tang's algorithm shares between the two parts (ACM TOMS 23, 1997), with
// x and y the magnitudes of the parts of z, r = |z + 1|, s = |z - 1| and a = (r + s) / 2.
typedef struct Kernel {
  Expand *e;
  HlInst *x, *y;
  HlInst *above, *below;      // x + 1, x - 1
  HlInst *a, *square;         // square: y^2
  HlInst *r_above, *s_above;  // r + (x + 1), s + (x - 1)
  HlInst *s_below;            // s - (x - 1)
  double safe_max;
} Kernel;

static Kernel kernel_start(Expand *e, HlInst *x, HlInst *y) {
  Kernel k = {.e = e, .x = ex_abs(e, x), .y = ex_abs(e, y)};
  k.above = ex_add_n(e, k.x, 1);
  k.below = ex_sub_n(e, k.x, 1);
  HlInst *r = hypot_of(e, ex_abs(e, k.above), k.y), *s = hypot_of(e, ex_abs(e, k.below), k.y);
  k.a = ex_mul_n(e, ex_add(e, r, s), 0.5);
  k.square = ex_mul(e, k.y, k.y);
  k.r_above = ex_add(e, r, k.above);
  k.s_above = ex_add(e, s, k.below);
  k.s_below = ex_sub(e, s, k.below);
  k.safe_max = ex_round(e, ex_round(e, sqrt(ex_largest(e))) / 8);
  return k;
}

// sqrt(a^2 - x^2)
static HlInst *kernel_real(Kernel *k) {
  Expand *e = k->e;
  HlInst *half = ex_mul_n(e, ex_add(e, k->a, k->x), 0.5);
  HlInst *inner = ex_add(e, ex_div(e, k->square, k->r_above), k->s_below);
  HlInst *inside = ex_sqrt(e, ex_mul(e, half, inner));
  HlInst *outer = ex_add(e, ex_div(e, half, k->r_above), ex_div(e, half, k->s_above));
  HlInst *outside = ex_mul(e, k->y, ex_sqrt(e, outer));
  HlInst *value = ex_select(e, ex_le_n(e, k->x, 1), inside, outside);
  return ex_select(e, ex_ge_n(e, ex_max(e, k->x, k->y), k->safe_max), k->y, value);
}

// log(a + sqrt(a^2 - 1)) where a is so large that it is log(2 a)
static HlInst *kernel_log_large(Kernel *k, HlInst *y_rules, HlInst *max) {
  Expand *e = k->e;
  HlInst *y_is_inf = ex_eq_n(e, k->y, INFINITY);
  HlInst *use_ratio = ex_and(e, y_rules, hl_b_unary(e->b, HL_OP_NOT, y_is_inf));
  HlInst *ratio = ex_select(e, use_ratio, ex_div(e, k->x, k->y), ex_number(e, 0));
  HlInst *rest = ex_mul_n(e, ex_log1p(e, ex_mul(e, ratio, ratio)), 0.5);
  return ex_add(e, ex_add_n(e, ex_log(e, max), ex_round(e, M_LN2)), rest);
}

// log(a + sqrt(a^2 - 1)) by way of a - 1, found without cancellation
static HlInst *kernel_log(Kernel *k) {
  Expand *e = k->e;
  double safe_min = ex_round(e, ex_round(e, sqrt(ex_smallest_normal(e))) * 4);
  HlInst *y_is_tiny = ex_and(e, ex_lt_n(e, k->y, safe_min), ex_lt_n(e, k->x, 1));
  HlInst *a_above = ex_add_n(e, k->a, 1);
  HlInst *tiny = ex_neg(e, ex_div(e, ex_mul(e, k->above, k->below), a_above));
  HlInst *half_square = ex_mul_n(e, k->square, 0.5);
  HlInst *term = ex_div(e, half_square, k->r_above);
  HlInst *outside = ex_add(e, term, ex_mul_n(e, k->s_above, 0.5));
  HlInst *inside = ex_add(e, term, ex_div(e, half_square, k->s_below));
  inside = ex_select(e, ex_le_n(e, k->a, 1.5), inside, ex_sub_n(e, k->a, 1));
  HlInst *a_below = ex_select(e, ex_ge_n(e, k->x, 1), outside, inside);
  a_below = ex_select(e, y_is_tiny, tiny, a_below);
  HlInst *root = ex_sqrt(e, ex_mul(e, a_below, a_above));
  HlInst *usual = ex_log1p(e, ex_add(e, a_below, root));
  return ex_select(e, y_is_tiny, ex_div(e, k->y, root), usual);
}

static HlInst *kernel_imag(Kernel *k) {
  Expand *e = k->e;
  double m = k->safe_max;
  HlInst *x_is_moderate = ex_lt_n(e, k->x, ex_round(e, m * ex_round(e, 1e12)));
  HlInst *limit = ex_select(e, x_is_moderate, ex_number(e, ex_round(e, m * ex_round(e, 1e-6))),
                            ex_number(e, ex_round(e, m * 100)));
  HlInst *y_rules = ex_ge(e, k->y, limit);
  HlInst *max = ex_select(e, y_rules, k->y, k->x);
  HlInst *is_large = ex_ge(e, max, ex_select(e, y_rules, limit, ex_number(e, m)));
  return ex_select(e, is_large, kernel_log_large(k, y_rules, max), kernel_log(k));
}

HlInst *ex_complex_kernel(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Kernel k = kernel_start(&p.e, p.x, p.y);
  return complex_of(z, kernel_real(&k), kernel_imag(&k));
}

HlInst *ex_complex_asin(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Kernel k = kernel_start(&p.e, p.x, p.y);
  return complex_of(z, ex_atan2(z, p.x, kernel_real(&k)),
                    turn_where_negative(&p.e, p.y, kernel_imag(&k)));
}

HlInst *ex_complex_acos(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Expand *e = &p.e;
  Kernel k = kernel_start(e, p.x, p.y);
  HlInst *imag = kernel_imag(&k);
  return complex_of(z, ex_atan2(z, kernel_real(&k), p.x),
                    ex_select(e, ex_lt_n(e, p.y, 0), imag, ex_neg(e, imag)));
}

HlInst *ex_complex_acosh(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Kernel k = kernel_start(&p.e, p.x, p.y);
  HlInst *angle = ex_atan2(z, kernel_real(&k), p.x);
  return complex_of(z, kernel_imag(&k), turn_where_negative(&p.e, p.y, angle));
}

// By the kernel at i z = (-y, x).
HlInst *ex_complex_asinh(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Kernel k = kernel_start(&p.e, ex_neg(&p.e, p.y), p.x);
  return complex_of(z, turn_where_negative(&p.e, p.x, kernel_imag(&k)),
                    ex_atan2(z, p.y, kernel_real(&k)));
}

// --- Inverse tangents -------------------------------------------------------------------------------

static HlInst *sign_or_one(Expand *e, HlInst *x) {
  return ex_select(e, ex_ge_n(e, x, 0), ex_number(e, 1), ex_number(e, -1));
}

static HlInst *is_any_inf(Expand *e, HlInst *x) {
  return ex_or(e, ex_eq_n(e, x, INFINITY), ex_eq_n(e, x, -INFINITY));
}

// |x| / ((1 - |x|)^2 + y^2) without overflow
static HlInst *atanh_ratio(Expand *e, HlInst *x, HlInst *y, HlInst *is_safe, double inverse_eps) {
  HlInst *a = ex_abs(e, x), *away = ex_from(e, 1, a);
  HlInst *plain = ex_div(e, a, ex_add(e, ex_mul(e, away, away), ex_mul(e, y, y)));
  HlInst *x_rules = ex_lt(e, ex_mul_n(e, ex_abs(e, y), inverse_eps), a);
  HlInst *sum = ex_add(e, ex_div(e, a, y), ex_div(e, y, a));
  HlInst *large = ex_div(e, ex_over(e, 1, sum), y);
  HlInst *is_inf = ex_or(e, is_any_inf(e, x), is_any_inf(e, y));
  large = ex_select(e, is_inf, ex_number(e, 0), large);
  large = ex_select(e, x_rules, ex_over(e, 1, a), large);
  return ex_select(e, is_safe, plain, large);
}

// The parts of atanh(x + i y).
static void atanh_parts(Expand *e, HlInst *x, HlInst *y, HlInst **real, HlInst **imag) {
  double inverse_eps = ex_is_wide(e) ? 0x1p53 + 2 : 0x1p24 + 2;
  double safe_max = ex_round(e, inverse_eps * inverse_eps);
  HlInst *a = ex_abs(e, x);
  HlInst *is_safe = ex_and(e, ex_lt_n(e, a, safe_max), ex_lt_n(e, ex_abs(e, y), safe_max));
  HlInst *log = ex_log1p(e, ex_mul_n(e, atanh_ratio(e, x, y, is_safe, inverse_eps), 4));
  *real = ex_mul_n(e, ex_mul(e, sign_or_one(e, x), log), 0.25);
  HlInst *product = ex_mul(e, ex_from(e, 1, a), ex_add_n(e, a, 1));
  HlInst *angle = ex_atan2(e, ex_add(e, y, y), ex_sub(e, product, ex_mul(e, y, y)));
  HlInst *far = ex_mul_n(e, sign_or_one(e, y), M_PI);
  *imag = ex_mul_n(e, ex_select(e, is_safe, angle, far), 0.5);
}

HlInst *ex_complex_atanh(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  HlInst *real, *imag;
  atanh_parts(&p.e, p.x, p.y, &real, &imag);
  return complex_of(z, real, imag);
}

// atan(z) = -i atanh(i z)
HlInst *ex_complex_atan(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  HlInst *real, *imag;
  atanh_parts(&p.e, ex_neg(&p.e, p.y), p.x, &real, &imag);
  return complex_of(z, imag, ex_neg(&p.e, real));
}

// --- Exponentials -----------------------------------------------------------------------------------

// exp(x) * f, in two steps where exp(x) overflows
static HlInst *scaled(Expand *e, HlInst *whole, HlInst *half, HlInst *overflows, HlInst *f) {
  HlInst *steps = ex_mul(e, ex_mul(e, half, f), half);
  return ex_select(e, overflows, steps, ex_mul(e, whole, f));
}

HlInst *ex_complex_exp(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Expand *e = &p.e;
  HlInst *whole = ex_exp(e, p.x), *half = ex_exp(e, ex_mul_n(e, p.x, 0.5));
  HlInst *overflows = ex_eq_n(e, whole, INFINITY);
  HlInst *real = scaled(e, whole, half, overflows, hl_b_unary(e->b, HL_OP_COSINE, p.y));
  HlInst *imag = scaled(e, whole, half, overflows, hl_b_unary(e->b, HL_OP_SINE, p.y));
  imag = ex_select(e, ex_eq_n(e, p.y, 0), ex_number(e, 0), imag);
  return complex_of(z, real, imag);
}

static void half_exponentials(Expand *z, HlInst *inst, HlInst *out[2]) {
  HlInst *one_half = ex_number(z, 0.5), *log_half = ex_complex_log(z, &one_half);
  HlInst *up = ex_add(z, inst, log_half), *down = ex_sub(z, log_half, inst);
  out[0] = ex_complex_exp(z, &up);
  out[1] = ex_complex_exp(z, &down);
}

HlInst *ex_complex_cosh(Expand *z, HlInst *const *operands) {
  HlInst *half[2];
  half_exponentials(z, operands[0], half);
  return ex_add(z, half[0], half[1]);
}

HlInst *ex_complex_sinh(Expand *z, HlInst *const *operands) {
  HlInst *half[2];
  half_exponentials(z, operands[0], half);
  return ex_sub(z, half[0], half[1]);
}

// --- Logarithms -------------------------------------------------------------------------------------

// What rounding took from x * x (Veltkamp and Dekker), `square` being the rounded product.
static HlInst *square_error(Expand *e, HlInst *x, HlInst *square) {
  HlInst *shifted = ex_mul_n(e, x, ex_is_wide(e) ? 0x1p27 + 1 : 0x1p12 + 1);
  HlInst *high = ex_add(e, shifted, ex_sub(e, x, shifted)), *low = ex_sub(e, x, high);
  HlInst *cross = ex_mul(e, high, low);
  HlInst *error = ex_add(e, ex_neg(e, square), ex_mul(e, high, high));
  error = ex_add(e, ex_add(e, error, cross), cross);
  return ex_add(e, error, ex_mul(e, low, low));
}

// What rounding took from sum = x + y where |x| >= |y|.
static HlInst *sum_error_ordered(Expand *e, HlInst *x, HlInst *y, HlInst *sum) {
  return ex_sub(e, y, ex_sub(e, sum, x));
}

// The same without knowing which is larger.
static HlInst *sum_error(Expand *e, HlInst *x, HlInst *y, HlInst *sum) {
  HlInst *y_seen = ex_sub(e, sum, x);
  HlInst *x_seen = ex_sub(e, sum, y_seen);
  return ex_add(e, ex_sub(e, x, x_seen), ex_sub(e, y, y_seen));
}

// log(max) + log(1 + square) / 2
static HlInst *log_of_length(Expand *e, HlInst *max, HlInst *square) {
  return ex_add(e, ex_log(e, max), ex_mul_n(e, ex_log1p(e, square), 0.5));
}

// x^2 + y^2 - 1 with the errors of its roundings made good
static HlInst *length_less_one(Expand *e, HlInst *x, HlInst *y) {
  HlInst *xx = ex_mul(e, x, x), *yy = ex_mul(e, y, y);
  HlInst *y_is_larger = ex_gt(e, yy, xx), *minus_one = ex_number(e, -1);
  HlInst *larger = ex_select(e, y_is_larger, yy, xx), *smaller = ex_select(e, y_is_larger, xx, yy);
  HlInst *term[] = {smaller, square_error(e, y, yy), square_error(e, x, xx)};
  HlInst *sum = ex_add(e, larger, minus_one);
  HlInst *error = sum_error_ordered(e, minus_one, larger, sum);
  for (int k = 0; k < HL_COUNT_OF(term); k++) {
    HlInst *next = ex_add(e, sum, term[k]);
    error = ex_add(e, error, sum_error_ordered(e, sum, term[k], next));
    sum = next;
  }
  return ex_add(e, sum, error);
}

HlInst *ex_complex_log(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Expand *e = &p.e;
  HlInst *excess = length_less_one(e, p.x, p.y);
  HlInst *near_one = ex_mul_n(e, ex_log1p(e, excess), 0.5);
  HlInst *a = ex_abs(e, p.x), *c = ex_abs(e, p.y);
  HlInst *max = ex_max(e, a, c), *min = ex_min(e, a, c);
  HlInst *ratio = ex_select(e, ex_eq(e, min, max), ex_number(e, 1), ex_div(e, min, max));
  HlInst *usual = log_of_length(e, max, ex_mul(e, ratio, ratio));
  HlInst *is_near_one = ex_lt_n(e, ex_abs(e, excess), 0.5);
  return complex_of(z, ex_select(e, is_near_one, near_one, usual), ex_atan2(e, p.y, p.x));
}

// 2 x + y^2 + x^2, which is |1 + z|^2 - 1, with the errors of its roundings made good
static HlInst *shifted_length_less_one(Expand *e, HlInst *x, HlInst *y) {
  HlInst *xx = ex_mul(e, x, x), *yy = ex_mul(e, y, y);
  HlInst *term[] = {yy, xx, square_error(e, y, yy), square_error(e, x, xx)};
  HlInst *sum = ex_add(e, x, x), *error = NULL;
  for (int k = 0; k < HL_COUNT_OF(term); k++) {
    HlInst *next = ex_add(e, sum, term[k]);
    HlInst *lost = sum_error(e, sum, term[k], next);
    error = k == 0 ? lost : ex_add(e, error, lost);
    sum = next;
  }
  return ex_add(e, sum, error);
}

HlInst *ex_complex_log_plus_one(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Expand *e = &p.e;
  HlInst *a = ex_abs(e, p.x), *c = ex_abs(e, p.y);
  HlInst *max = ex_max(e, a, c), *min = ex_min(e, a, c);
  HlInst *ratio = ex_div(e, min, max);
  HlInst *square = ex_select(e, ex_eq(e, min, max), ex_number(e, 1), ex_mul(e, ratio, ratio));
  HlInst *large = log_of_length(e, max, square);
  HlInst *above = ex_add_n(e, p.x, 1);
  HlInst *length = ex_add(e, ex_mul(e, above, above), ex_mul(e, p.y, p.y));
  HlInst *near_pole = ex_mul_n(e, ex_log(e, length), 0.5);
  HlInst *usual = ex_mul_n(e, ex_log1p(e, shifted_length_less_one(e, p.x, p.y)), 0.5);
  HlInst *is_near_pole = ex_lt_n(e, ex_add(e, ex_abs(e, above), c), 0.2);
  double limit = ex_round(e, ex_round(e, sqrt(ex_largest(e))) * ex_round(e, 0.01));
  HlInst *real = ex_select(e, is_near_pole, near_pole, usual);
  real = ex_select(e, ex_gt_n(e, max, limit), large, real);
  return complex_of(z, real, ex_atan2(e, p.y, above));
}

// --- sqrt -------------------------------------------------------------------------------------------

// With a and c the magnitudes of the parts: the larger part of the root is
// u = sqrt((hypot(a, c) + a) / 2), the other c / (2 u). Where u under- or overflows both are found from
// the ratio of the parts.
typedef struct Root {
  Expand *e;
  HlInst *a, *c, *equal;
  HlInst *root_a, *root_c;
  HlInst *wide, *tall;  // sqrt(hypot(1, ratio) + 1), sqrt(ratio + hypot(1, ratio))
  HlInst *u, *u_is_lost;
  HlInst *a_rules;
} Root;

static Root root_start(Expand *e, HlInst *x, HlInst *y) {
  Root r = {.e = e, .a = ex_abs(e, x), .c = ex_abs(e, y)};
  r.equal = ex_eq(e, r.a, r.c);
  r.root_a = ex_sqrt(e, r.a);
  r.root_c = ex_sqrt(e, r.c);
  r.a_rules = ex_gt(e, r.a, r.c);
  HlInst *half = ex_add(e, ex_div_n(e, hypot_of(e, r.a, r.c), 2), ex_div_n(e, r.a, 2));
  r.u = ex_sqrt(e, half);
  r.u_is_lost = ex_or(e, ex_eq_n(e, r.u, 0), ex_eq_n(e, r.u, INFINITY));
  HlInst *ratio = ex_select(e, ex_lt(e, r.a, r.c), ex_div(e, r.a, r.c), ex_div(e, r.c, r.a));
  ratio = ex_select(e, r.equal, ex_number(e, 1), ratio);
  HlInst *length = hypot_of(e, ex_abs(e, ratio), ex_number(e, 1));
  r.wide = ex_sqrt(e, ex_add_n(e, length, 1));
  r.tall = ex_sqrt(e, ex_add(e, ratio, length));
  return r;
}

static double root_of_one_and_i(const Expand *e) {  // sqrt(1 + sqrt(2))
  return ex_round(e, sqrt(ex_round(e, 1 + ex_round(e, M_SQRT2))));
}

static HlInst *root_larger(Root *r) {
  Expand *e = r->e;
  HlInst *equal = ex_div_n(e, ex_mul_n(e, r->root_a, root_of_one_and_i(e)), M_SQRT2);
  HlInst *wide = ex_mul(e, r->root_a, ex_div_n(e, r->wide, M_SQRT2));
  HlInst *tall = ex_mul(e, r->root_c, ex_div_n(e, r->tall, M_SQRT2));
  HlInst *lost = ex_select(e, r->a_rules, wide, tall);
  return ex_select(e, r->equal, equal, ex_select(e, r->u_is_lost, lost, r->u));
}

static HlInst *root_smaller(Root *r) {
  Expand *e = r->e;
  double scale = ex_round(e, root_of_one_and_i(e) * ex_round(e, M_SQRT2));
  HlInst *equal = ex_div_n(e, r->root_c, scale);
  HlInst *ratio = ex_select(e, ex_lt(e, r->a, r->c), ex_div(e, r->root_a, r->root_c),
                            ex_div(e, r->root_c, r->root_a));
  ratio = ex_select(e, r->equal, ex_number(e, 1), ratio);
  HlInst *wide = ex_div(e, ex_mul(e, r->root_c, ratio), ex_mul_n(e, r->wide, M_SQRT2));
  HlInst *tall = ex_div(e, r->root_c, ex_mul_n(e, r->tall, M_SQRT2));
  HlInst *lost = ex_select(e, r->a_rules, wide, tall);
  HlInst *usual = ex_div(e, r->c, ex_mul_n(e, r->u, 2));
  return ex_select(e, r->equal, equal, ex_select(e, r->u_is_lost, lost, usual));
}

HlInst *ex_complex_sqrt(Expand *z, HlInst *const *operands) {
  Parts p = parts_of(z, operands[0]);
  Expand *e = &p.e;
  Root r = root_start(e, p.x, p.y);
  HlInst *larger = root_larger(&r), *smaller = root_smaller(&r);
  HlInst *y_is_negative = ex_lt_n(e, p.y, 0);
  HlInst *left = ex_select(e, y_is_negative, ex_neg(e, larger), larger);
  HlInst *right = ex_select(e, y_is_negative, ex_neg(e, smaller), smaller);
  return complex_of(z, ex_select(e, ex_ge_n(e, p.x, 0), larger, smaller),
                    ex_select(e, ex_lt_n(e, p.x, 0), left, right));
}
