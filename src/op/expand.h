// op/expand.h: what the files of expansions share: arithmetic on one element type, with each constant
// made once.
#ifndef HILO_OP_EXPAND_H
#define HILO_OP_EXPAND_H

#include "hilo/build.h"

// Computes on arrays like one array: of its sizes and its element type.
enum { EXPAND_CONSTANTS = 96 };
typedef struct Expand {
  HlBuild *b;
  HlInst *like;
  HlDtype dtype;
  int n;  // constants made, by the bits of their values
  uint64_t bits[EXPAND_CONSTANTS];
  HlInst *constant[EXPAND_CONSTANTS];
} Expand;
Expand expand_like(HlBuild *b, HlInst *like);

// Constants. Those that XLA folds out of others are rounded to the element type at each step.
HlInst *ex_number(Expand *e, double value);
HlInst *ex_int(Expand *e, int64_t value);
double ex_round(const Expand *e, double value);
double ex_largest(const Expand *e);  // finite
double ex_smallest_normal(const Expand *e);

// A row of the table of functions: how to compute one on floats, complex numbers, integers; NULL: it is
// not defined there. `x` are the operands, e->like the first of them (or its widened self).
typedef HlInst *ExpandFn(Expand *e, HlInst *const *x);
ExpandFn ex_acos, ex_acosh, ex_asin, ex_asinh, ex_atan, ex_atanh, ex_cosh, ex_sinh, ex_conj,
    ex_square, ex_is_inf, ex_is_pos_inf, ex_is_neg_inf, ex_next_after, ex_mulhi;
ExpandFn ex_erf_inv, ex_erfc, ex_lgamma, ex_digamma, ex_bessel_i0e, ex_bessel_i1e, ex_zeta,
    ex_polygamma;
ExpandFn ex_igamma, ex_igammac, ex_igamma_grad_a, ex_random_gamma_grad, ex_incomplete_beta;
ExpandFn ex_complex_acos, ex_complex_acosh, ex_complex_asin, ex_complex_asinh, ex_complex_atan,
    ex_complex_atanh, ex_complex_cosh, ex_complex_sinh, ex_complex_conj, ex_complex_square,
    ex_complex_kernel;
ExpandFn ex_complex_exp, ex_complex_log, ex_complex_log_plus_one, ex_complex_sqrt;

// Arithmetic, as XLA orders it: a constant stands on the right of + and *.
static inline HlInst *ex_add(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_ADD, x, y);
}
static inline HlInst *ex_sub(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_SUBTRACT, x, y);
}
static inline HlInst *ex_mul(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_MULTIPLY, x, y);
}
static inline HlInst *ex_div(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_DIVIDE, x, y);
}
static inline HlInst *ex_add_n(Expand *e, HlInst *x, double y) {
  return ex_add(e, x, ex_number(e, y));
}
static inline HlInst *ex_sub_n(Expand *e, HlInst *x, double y) {
  return ex_sub(e, x, ex_number(e, y));
}
static inline HlInst *ex_mul_n(Expand *e, HlInst *x, double y) {
  return ex_mul(e, x, ex_number(e, y));
}
static inline HlInst *ex_div_n(Expand *e, HlInst *x, double y) {
  return ex_div(e, x, ex_number(e, y));
}
static inline HlInst *ex_from(Expand *e, double x, HlInst *y) {  // x - y
  return ex_sub(e, ex_number(e, x), y);
}
static inline HlInst *ex_over(Expand *e, double x, HlInst *y) {  // x / y
  return ex_div(e, ex_number(e, x), y);
}
static inline HlInst *ex_max(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_MAXIMUM, x, y);
}
static inline HlInst *ex_min(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_MINIMUM, x, y);
}
static inline HlInst *ex_atan2(Expand *e, HlInst *y, HlInst *x) {
  return hl_b_binary(e->b, HL_OP_ATAN2, y, x);
}
static inline HlInst *ex_and(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_AND, x, y);
}
static inline HlInst *ex_or(Expand *e, HlInst *x, HlInst *y) {
  return hl_b_binary(e->b, HL_OP_OR, x, y);
}
static inline HlInst *ex_neg(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_NEGATE, x);
}
static inline HlInst *ex_abs(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_ABS, x);
}
static inline HlInst *ex_floor(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_FLOOR, x);
}
static inline HlInst *ex_sqrt(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_SQRT, x);
}
static inline HlInst *ex_exp(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_EXPONENTIAL, x);
}
static inline HlInst *ex_log(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_LOG, x);
}
static inline HlInst *ex_log1p(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_LOG_PLUS_ONE, x);
}
static inline HlInst *ex_select(Expand *e, HlInst *pred, HlInst *x, HlInst *y) {
  return hl_b_select(e->b, pred, x, y);
}
#define EX_COMPARE(name, direction)                                     \
  static inline HlInst *ex_##name(Expand *e, HlInst *x, HlInst *y) {    \
    return hl_b_compare(e->b, HL_WORD_direction_##direction, x, y);     \
  }                                                                     \
  static inline HlInst *ex_##name##_n(Expand *e, HlInst *x, double y) { \
    return ex_##name(e, x, ex_number(e, y));                            \
  }
EX_COMPARE(eq, EQ)
EX_COMPARE(ne, NE)
EX_COMPARE(lt, LT)
EX_COMPARE(le, LE)
EX_COMPARE(gt, GT)
EX_COMPARE(ge, GE)
#undef EX_COMPARE

// Whether the elements are in f64, where the wide tables are used.
static inline bool ex_is_wide(const Expand *e) {
  return e->dtype == HL_F64;
}

#endif
