// op/expand_real.c: functions that HLO has no op for: elementary ones of real numbers and of bits.

#include <math.h>

#include "op/expand.h"

static double log_two(const Expand *e) {
  return ex_round(e, M_LN2);
}

// --- Inverse trigonometric ----------------------------------------------------------------------

// sqrt((1 - x) * (1 + x))
static HlInst *other_leg(Expand *e, HlInst *x) {
  return ex_sqrt(e, ex_mul(e, ex_from(e, 1, x), ex_add_n(e, x, 1)));
}

HlInst *ex_acos(Expand *e, HlInst *const *x) {
  return ex_atan2(e, other_leg(e, x[0]), x[0]);
}

HlInst *ex_asin(Expand *e, HlInst *const *x) {
  HlInst *half = ex_atan2(e, x[0], ex_add_n(e, other_leg(e, x[0]), 1));
  return ex_add(e, half, half);
}

HlInst *ex_atan(Expand *e, HlInst *const *x) {
  return ex_atan2(e, x[0], ex_number(e, 1));
}

// --- Hyperbolic ---------------------------------------------------------------------------------

// log(2 * x) without the overflow
static HlInst *log_of_twice(Expand *e, HlInst *x) {
  return ex_add_n(e, ex_log(e, x), log_two(e));
}

HlInst *ex_acosh(Expand *e, HlInst *const *x) {
  HlInst *is_large = ex_ge_n(e, x[0], ex_round(e, ex_largest(e) / 2));
  HlInst *large = log_of_twice(e, x[0]);
  HlInst *below = ex_sqrt(e, ex_sub_n(e, x[0], 1)), *above = ex_sqrt(e, ex_add_n(e, x[0], 1));
  HlInst *small = ex_log1p(e, ex_mul(e, below, ex_add(e, above, below)));
  return ex_select(e, is_large, large, small);
}

HlInst *ex_asinh(Expand *e, HlInst *const *x) {
  HlInst *a = ex_abs(e, x[0]);
  HlInst *is_large = ex_ge_n(e, a, ex_round(e, sqrt(ex_largest(e))));
  HlInst *large = log_of_twice(e, a);
  HlInst *square = ex_mul(e, a, a);
  HlInst *root = ex_sqrt(e, ex_add_n(e, square, 1));
  HlInst *rest = ex_div(e, square, ex_add_n(e, root, 1));
  HlInst *small = ex_log1p(e, ex_add(e, a, rest));
  HlInst *sign = hl_b_unary(e->b, HL_OP_SIGN, x[0]);
  return ex_mul(e, sign, ex_select(e, is_large, large, small));
}

HlInst *ex_atanh(Expand *e, HlInst *const *x) {
  HlInst *is_outside = ex_gt_n(e, ex_abs(e, x[0]), 1);
  HlInst *logs = ex_sub(e, ex_log1p(e, x[0]), ex_log1p(e, ex_neg(e, x[0])));
  return ex_select(e, is_outside, ex_number(e, NAN), ex_mul_n(e, logs, 0.5));
}

// exp(x) / 2 and exp(-x) / 2, the halving inside the exponent, where it cannot overflow
static void half_exponentials(Expand *e, HlInst *x, HlInst *out[2]) {
  double log_half = -log_two(e);
  out[0] = ex_exp(e, ex_add_n(e, x, log_half));
  out[1] = ex_exp(e, ex_from(e, log_half, x));
}

HlInst *ex_cosh(Expand *e, HlInst *const *x) {
  HlInst *half[2];
  half_exponentials(e, x[0], half);
  return ex_add(e, half[0], half[1]);
}

HlInst *ex_sinh(Expand *e, HlInst *const *x) {
  HlInst *is_small = ex_lt_n(e, ex_abs(e, x[0]), 1);
  HlInst *exp_less_one = hl_b_unary(e->b, HL_OP_EXPONENTIAL_MINUS_ONE, x[0]);
  HlInst *ratio = ex_div(e, exp_less_one, ex_add_n(e, exp_less_one, 1));
  HlInst *small = ex_mul_n(e, ex_add(e, exp_less_one, ratio), 0.5);
  HlInst *half[2];
  half_exponentials(e, x[0], half);
  return ex_select(e, is_small, small, ex_sub(e, half[0], half[1]));
}

// --- Small ones ---------------------------------------------------------------------------------

HlInst *ex_conj(Expand *e, HlInst *const *x) {
  return x[0];
}

HlInst *ex_square(Expand *e, HlInst *const *x) {
  return ex_mul(e, x[0], x[0]);
}

HlInst *ex_is_pos_inf(Expand *e, HlInst *const *x) {
  return ex_eq_n(e, x[0], INFINITY);
}

HlInst *ex_is_neg_inf(Expand *e, HlInst *const *x) {
  return ex_eq_n(e, x[0], -INFINITY);
}

HlInst *ex_is_inf(Expand *e, HlInst *const *x) {
  return ex_eq_n(e, ex_abs(e, x[0]), INFINITY);
}

// --- Bits ---------------------------------------------------------------------------------------

static HlDtype int_of_bits(int bits, bool is_signed) {
  for (int t = 0; t < HL_DTYPE_COUNT; t++)
    if (hl_dtype_info[t].bits == bits && (is_signed ? hl_is_signed(t) : hl_is_unsigned(t)))
      return (HlDtype)t;
  return HL_NO_DTYPE;
}

static HlInst *refuse(Expand *e, const char *name) {
  hl_error_kind(e->b->cx, HL_UNSUPPORTED, (HlPos){hl_b_module(e->b)->source, e->b->loc},
                "%s on elements of type %s is not supported", name, hl_dtype_text(e->dtype));
  return NULL;
}

// The neighbour of x in the direction of y: the magnitude of x as an integer, one more or one less.
HlInst *ex_next_after(Expand *e, HlInst *const *x) {
  int bits = hl_dtype_info[e->dtype].bits;
  HlDtype type = int_of_bits(bits, true);
  if (type == HL_NO_DTYPE)
    return refuse(e, "next_after");
  int64_t sign_bit = (int64_t)(UINT64_MAX << (bits - 1)), magnitude_bits = ~sign_bit;
  HlInst *from = hl_b_bitcast_convert(e->b, x[0], type);
  HlInst *to = hl_b_bitcast_convert(e->b, x[1], type);
  Expand i = expand_like(e->b, from);
  HlInst *is_nan = ex_or(e, ex_ne(e, x[0], x[0]), ex_ne(e, x[1], x[1]));
  HlInst *nan_bits = hl_b_bitcast_convert(e->b, ex_number(e, NAN), type);
  HlInst *from_size = ex_and(&i, from, ex_int(&i, magnitude_bits));
  HlInst *to_size = ex_and(&i, to, ex_int(&i, magnitude_bits));
  HlInst *from_sign = ex_and(&i, from, ex_int(&i, sign_bit));
  HlInst *to_sign = ex_and(&i, to, ex_int(&i, sign_bit));
  HlInst *least = ex_or(&i, to_sign, ex_int(&i, 1));
  HlInst *to_is_zero = ex_eq(&i, to_size, ex_int(&i, 0));
  HlInst *from_zero = ex_select(&i, to_is_zero, to, least);
  HlInst *shrinks = ex_or(&i, ex_gt(&i, from_size, to_size), ex_ne(&i, from_sign, to_sign));
  HlInst *step = ex_select(&i, shrinks, ex_int(&i, -1), ex_int(&i, 1));
  HlInst *from_is_zero = ex_eq(&i, from_size, ex_int(&i, 0));
  HlInst *moved = ex_select(&i, from_is_zero, from_zero, ex_add(&i, from, step));
  HlInst *next = ex_select(&i, ex_eq(e, x[0], x[1]), to, moved);
  return hl_b_bitcast_convert(e->b, ex_select(&i, is_nan, nan_bits, next), e->dtype);
}

static HlInst *shift_down(Expand *e, HlInst *x, int distance) {
  return hl_b_binary(e->b, HL_OP_SHIFT_RIGHT_LOGICAL, x, ex_int(e, distance));
}

// By halves of 32 bits, and the carries between them.
static HlInst *mulhi_u64(Expand *e, HlInst *x, HlInst *y) {
  HlInst *mask = ex_int(e, INT64_C(0xFFFFFFFF));
  HlInst *x_high = shift_down(e, x, 32), *y_high = shift_down(e, y, 32);
  HlInst *x_low = ex_and(e, x, mask), *y_low = ex_and(e, y, mask);
  HlInst *carry = shift_down(e, ex_mul(e, x_low, y_low), 32);
  HlInst *middle = ex_add(e, ex_mul(e, x_low, y_high), carry);
  HlInst *other = ex_add(e, ex_mul(e, x_high, y_low), ex_and(e, middle, mask));
  HlInst *high = ex_add(e, ex_mul(e, x_high, y_high), shift_down(e, middle, 32));
  return ex_add(e, high, shift_down(e, other, 32));
}

// The bits of y where x is negative, else 0.
static HlInst *where_negative(Expand *e, Expand *u, HlInst *x, HlInst *y_bits) {
  return ex_select(e, ex_lt(e, x, ex_int(e, 0)), y_bits, ex_int(u, 0));
}

static HlInst *mulhi_s64(Expand *e, HlInst *x, HlInst *y) {
  HlInst *x_bits = hl_b_convert(e->b, x, HL_U64), *y_bits = hl_b_convert(e->b, y, HL_U64);
  Expand u = expand_like(e->b, x_bits);
  HlInst *high = mulhi_u64(&u, x_bits, y_bits);
  high = ex_sub(&u, high, where_negative(e, &u, x, y_bits));
  high = ex_sub(&u, high, where_negative(e, &u, y, x_bits));
  return hl_b_convert(e->b, high, HL_S64);
}

HlInst *ex_mulhi(Expand *e, HlInst *const *x) {
  int bits = hl_dtype_info[e->dtype].bits;
  bool is_signed = hl_is_signed(e->dtype);
  if (bits == 64)
    return is_signed ? mulhi_s64(e, x[0], x[1]) : mulhi_u64(e, x[0], x[1]);
  HlDtype wide = int_of_bits(2 * bits, is_signed);
  if (wide == HL_NO_DTYPE)
    return refuse(e, "mulhi");
  HlInst *product = ex_mul(e, hl_b_convert(e->b, x[0], wide), hl_b_convert(e->b, x[1], wide));
  Expand w = expand_like(e->b, product);
  HlOp shift = is_signed ? HL_OP_SHIFT_RIGHT_ARITHMETIC : HL_OP_SHIFT_RIGHT_LOGICAL;
  return hl_b_convert(e->b, hl_b_binary(e->b, shift, product, ex_int(&w, bits)), e->dtype);
}
