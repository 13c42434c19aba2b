// Lowers elementwise primitives: one HLO op each, or the few that JAX writes for them.
#include <math.h>
#include <string.h>

#include "jaxpr/lower.h"

static HlInst *convert_to_bool(HlBuild *b, HlInst *x) {
  return hl_b_compare(b, HL_WORD_direction_NE, x, hl_b_like(b, x, 0));
}

// --- One operand ------------------------------------------------------------------------------------------------

static bool unary(Rule *r) {
  return jx_want(r, 1) && jx_give(r, hl_b_unary(r->b, (HlOp)r->row->op, r->in[0]));
}

static bool expansion(Rule *r) {
  return jx_want(r, r->row->op) && jx_align(r, r->n, r->in) &&
         jx_give(r, hl_expand(r->b, hl_str(r->row->text), r->n, r->in));
}

static bool sign(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  HlInst *x = r->in[0];
  if (!hl_is_unsigned(x->shape->dtype))
    return unary(r);
  HlInst *zero = hl_b_like_int(r->b, x, 0), *one = hl_b_like_int(r->b, x, 1);
  return jx_give(r,
                 hl_b_select(r->b, hl_b_compare(r->b, HL_WORD_direction_EQ, x, zero), zero, one));
}

static bool logistic(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  HlInst *x = r->in[0], *one = hl_b_like(r->b, x, 1);
  HlInst *minus = hl_b_unary(r->b, HL_OP_NEGATE, x);
  HlInst *e = minus ? hl_expand(r->b, hl_str("exponential"), 1, &minus) : NULL;
  return jx_give(r, hl_b_binary(r->b, HL_OP_DIVIDE, one, hl_b_binary(r->b, HL_OP_ADD, one, e)));
}

static bool exp2_(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  HlInst *log2 = hl_b_like(r->b, r->in[0], 0.69314718055994530942);
  HlInst *scaled = hl_b_binary(r->b, HL_OP_MULTIPLY, log2, r->in[0]);
  return scaled && jx_give(r, hl_expand(r->b, hl_str("exponential"), 1, &scaled));
}

static HlInst *scaled(HlBuild *b, HlInst *x, double by) {
  return hl_b_binary(b, HL_OP_MULTIPLY, x, hl_b_like(b, x, by));
}

// log(x) / log(2), of a complex number part by part.
static bool log2_(Rule *r) {
  static const double by = 1.4426950408889634;
  if (!jx_want(r, 1))
    return false;
  HlInst *log = hl_expand(r->b, hl_str("log"), 1, r->in);
  if (!log || !hl_is_complex(log->shape->dtype))
    return log && jx_give(r, scaled(r->b, log, by));
  HlInst *re = scaled(r->b, hl_b_unary(r->b, HL_OP_REAL, log), by),
         *im = scaled(r->b, hl_b_unary(r->b, HL_OP_IMAG, log), by);
  return jx_give(r, hl_b_binary(r->b, HL_OP_COMPLEX, re, im));
}

// 1 - x * x, exact where x is near one.
static bool one_minus_square(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  HlInst *x = r->in[0], *one = hl_b_like(r->b, x, 1);
  return jx_give(r, hl_b_binary(r->b, HL_OP_MULTIPLY, hl_b_binary(r->b, HL_OP_ADD, one, x),
                                hl_b_binary(r->b, HL_OP_SUBTRACT, one, x)));
}

static bool square(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  HlInst *x = r->in[0];
  if (hl_is_complex(x->shape->dtype) && hl_can_expand(hl_str("square")))
    return jx_give(r, hl_expand(r->b, hl_str("square"), 1, &x));
  return jx_give(r, hl_b_binary(r->b, HL_OP_MULTIPLY, x, x));
}

// By squaring; a negative exponent takes the reciprocal at the end.
static bool integer_pow(Rule *r) {
  int64_t y;
  if (!jx_want(r, 1) || !jx_param_int(r, "y", &y))
    return false;
  HlInst *x = r->in[0], *acc = NULL;
  if (y == 0)
    return jx_give(r, hl_b_like(r->b, x, 1));
  const bool negative = y < 0;
  for (uint64_t n = negative ? 0 - (uint64_t)y : (uint64_t)y; n > 0; n >>= 1) {
    if (n & 1)
      acc = acc ? hl_b_binary(r->b, HL_OP_MULTIPLY, acc, x) : x;
    if (n > 1)
      x = hl_b_binary(r->b, HL_OP_MULTIPLY, x, x);
    if (!acc && !x)
      return false;
  }
  if (negative && acc)
    acc = hl_b_binary(r->b, HL_OP_DIVIDE, hl_b_like(r->b, acc, 1), acc);
  return jx_give(r, acc);
}

static bool conj_(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  HlInst *x = r->in[0];
  if (!hl_is_complex(x->shape->dtype))
    return jx_give(r, hl_b_binary(r->b, HL_OP_COMPLEX, x, hl_b_like(r->b, x, 0)));
  HlInst *re = hl_b_unary(r->b, HL_OP_REAL, x), *im = hl_b_unary(r->b, HL_OP_IMAG, x);
  return jx_give(r, hl_b_binary(r->b, HL_OP_COMPLEX, re, hl_b_unary(r->b, HL_OP_NEGATE, im)));
}

static bool round_(Rule *r) {
  const Value *v = jx_param(r, "rounding_method");
  int64_t method = 0;
  if (!jx_want(r, 1))
    return false;
  if (v && !jx_value_int(v, &method))
    method = jx_value_is(v, "TO_NEAREST_EVEN");
  if (v && v->kind == VALUE_WORD && v->text.n > 0 &&
      *v->text.at == '<')  // <RoundingMethod.TO_NEAREST_EVEN: 1>
    method = memmem(v->text.at, v->text.n, "EVEN", 4) != NULL;
  HlOp op = method == 1 ? HL_OP_ROUND_NEAREST_EVEN : HL_OP_ROUND_NEAREST_AFZ;
  return jx_give(r, hl_b_unary(r->b, op, r->in[0]));
}

static bool reduce_precision(Rule *r) {
  int64_t exponent, mantissa;
  if (!jx_want(r, 1) || !jx_param_int(r, "exponent_bits", &exponent) ||
      !jx_param_int(r, "mantissa_bits", &mantissa))
    return false;
  HlAttr attrs[] = {{.key = HL_A_EXPONENT_BITS, .i = exponent},
                    {.key = HL_A_MANTISSA_BITS, .i = mantissa}};
  return jx_give(
      r, hl_b_op(r->b, HL_OP_REDUCE_PRECISION, r->in[0]->shape, 1, r->in, 2, attrs, 0, NULL));
}

// --- Types -------------------------------------------------------------------------------------------------------

static HlInst *convert(HlBuild *b, HlInst *x, HlDtype to) {
  if (hl_is_complex(x->shape->dtype) && !hl_is_complex(to))
    x = hl_b_unary(b, HL_OP_REAL, x);
  if (x && to == HL_PRED && x->shape->dtype != HL_PRED)
    return convert_to_bool(b, x);
  return hl_b_convert(b, x, to);
}

static bool convert_element_type(Rule *r) {
  HlDtype to;
  return jx_want(r, 1) && jx_param_dtype(r, "new_dtype", &to) &&
         jx_give(r, convert(r->b, r->in[0], to));
}

static bool bitcast_convert_type(Rule *r) {
  HlDtype to;
  return jx_want(r, 1) && jx_param_dtype(r, "new_dtype", &to) &&
         jx_give(r, hl_b_bitcast_convert(r->b, r->in[0], to));
}

// --- Two operands ---------------------------------------------------------------------------------------------------

static bool binary(Rule *r) {
  return jx_want(r, 2) && jx_align(r, 2, r->in) &&
         jx_give(r, hl_b_binary(r->b, (HlOp)r->row->op, r->in[0], r->in[1]));
}

static bool mul(Rule *r) {
  HlDtype to;
  if (!jx_want(r, 2) || !jx_align(r, 2, r->in))
    return false;
  if (!jx_value_is_none(jx_param(r, "out_dtype"))) {
    if (!jx_param_dtype(r, "out_dtype", &to))
      return false;
    for (int k = 0; k < 2; k++)
      r->in[k] = hl_b_convert(r->b, r->in[k], to);
  }
  return jx_give(r, hl_b_binary(r->b, HL_OP_MULTIPLY, r->in[0], r->in[1]));
}

HlInst *jx_complex_less(HlBuild *b, HlInst *x, HlInst *y, int direction) {
  if (!x || !hl_is_complex(x->shape->dtype))
    return hl_b_compare(b, direction, x, y);
  HlInst *x_re = hl_b_unary(b, HL_OP_REAL, x), *y_re = hl_b_unary(b, HL_OP_REAL, y);
  HlInst *re_equal = hl_b_compare(b, HL_WORD_direction_EQ, x_re, y_re);
  HlInst *im =
      hl_b_compare(b, direction, hl_b_unary(b, HL_OP_IMAG, x), hl_b_unary(b, HL_OP_IMAG, y));
  return hl_b_select(b, re_equal, im, hl_b_compare(b, direction, x_re, y_re));
}

static bool compare(Rule *r) {
  return jx_want(r, 2) && jx_align(r, 2, r->in) &&
         jx_give(r, r->row->op == HL_WORD_direction_EQ || r->row->op == HL_WORD_direction_NE
                        ? hl_b_compare(r->b, r->row->op, r->in[0], r->in[1])
                        : jx_complex_less(r->b, r->in[0], r->in[1], r->row->op));
}

static bool compare_total(Rule *r) {
  return jx_want(r, 2) && jx_align(r, 2, r->in) &&
         jx_give(r, hl_b_compare_total(r->b, r->row->op, r->in[0], r->in[1]));
}

// The larger of complex numbers by real, then imaginary part.
static bool max_min(Rule *r) {
  if (!jx_want(r, 2) || !jx_align(r, 2, r->in))
    return false;
  if (!hl_is_complex(r->in[0]->shape->dtype))
    return binary(r);
  const int direction = r->row->op == HL_OP_MAXIMUM ? HL_WORD_direction_GT : HL_WORD_direction_LT;
  return jx_give(r, hl_b_select(r->b, jx_complex_less(r->b, r->in[0], r->in[1], direction),
                                r->in[0], r->in[1]));
}

static bool pow_(Rule *r) {
  if (!jx_want(r, 2) || !jx_align(r, 2, r->in))
    return false;
  HlInst *y = hl_b_convert(r->b, r->in[1], r->in[0]->shape->dtype);
  return jx_give(r, hl_b_binary(r->b, HL_OP_POWER, r->in[0], y));
}

// --- Three and more ------------------------------------------------------------------------------------------------------

// Chooses among cases[0..n) by an index from `base` on, halving.
static HlInst *choose(Rule *r, HlInst *which, int64_t base, int n, HlInst *const *cases) {
  if (n == 1)
    return cases[0];
  const int half = n / 2;
  HlInst *middle = hl_b_like_int(r->b, which, base + half);
  HlInst *low = hl_b_compare(r->b, HL_WORD_direction_LT, which, middle);
  return hl_b_select(r->b, low, choose(r, which, base, half, cases),
                     choose(r, which, base + half, n - half, cases + half));
}

static bool select_n(Rule *r) {
  if (!jx_want_at_least(r, 2))
    return false;
  HlInst *which = r->in[0];
  if (!jx_align(r, r->n - 1, r->in + 1))
    return false;
  // A selector of keys has no dimension for their words.
  const HlShape *shape = r->in[1]->shape;
  if (which->shape->rank != 0 && which->shape->rank < shape->rank && jx_is_key(r, 1)) {
    int64_t dims[64];
    for (int k = 0; k < which->shape->rank; k++)
      dims[k] = k;
    which = hl_b_broadcast_in_dim(r->b, which, shape->rank, shape->dim,
                                  (HlI64s){dims, which->shape->rank});
  } else if (which->shape->rank == 0 && which->shape->dtype != HL_PRED) {
    which = jx_broadcast_to(r->b, which, shape);
  } else if (which->shape->rank == shape->rank) {
    which = jx_broadcast_to(r->b, which, shape);
  }
  if (!which)
    return false;
  if (r->n == 2)
    return jx_give(r, r->in[1]);
  if (which->shape->dtype != HL_PRED)
    return jx_give(r, choose(r, which, 0, r->n - 1, r->in + 1));
  return jx_want(r, 3) && jx_give(r, hl_b_select(r->b, which, r->in[2], r->in[1]));
}

// `select` of 2021: the case for true comes first.
static bool select_(Rule *r) {
  return jx_want(r, 3) && jx_align(r, 2, r->in + 1) &&
         jx_give(r, hl_b_select(r->b, r->in[0], r->in[1], r->in[2]));
}

static bool clamp(Rule *r) {
  if (!jx_want(r, 3))
    return false;
  for (int k = 0; k < 3; k += 2)
    if (r->in[k]->shape->rank != 0)
      r->in[k] = jx_broadcast_to(r->b, r->in[k], r->in[1]->shape);
  return jx_give(r, hl_b_clamp(r->b, r->in[0], r->in[1], r->in[2]));
}

// --- Identities -------------------------------------------------------------------------------------------------------------

// Each result is the operand of its place.
static bool identity(Rule *r) {
  for (int k = 0; k < r->n && k < r->eqn->n_out; k++)
    if (!jx_give(r, r->in[k]))
      return false;
  return true;
}

static bool copy(Rule *r) {
  return jx_want(r, 1) && jx_give(r, hl_b_unary(r->b, HL_OP_COPY, r->in[0]));
}

// The second operand, once the first is there.
static bool tie(Rule *r) {
  return jx_want(r, 2) && jx_give(r, r->in[1]);
}

static bool nothing(Rule *r) {
  return true;
}

static bool barrier(Rule *r) {
  if (r->n == 0)
    return true;
  HlInst *tuple = hl_b_tuple(r->b, r->n, r->in);
  HlInst *held = hl_b_unary(r->b, HL_OP_OPT_BARRIER, tuple);
  bool ok = held != NULL;
  for (int k = 0; ok && k < r->n; k++)
    ok = jx_give(r, hl_b_element(r->b, held, k));
  return ok;
}

static bool zeros_like(Rule *r) {
  return jx_want(r, 1) && jx_give(r, hl_b_like(r->b, r->in[0], 0));
}

const Row jx_elementwise_rows[] = {
    {"neg", unary, HL_OP_NEGATE, NULL},
    {"sign", sign, HL_OP_SIGN, NULL},
    {"floor", unary, HL_OP_FLOOR, NULL},
    {"ceil", unary, HL_OP_CEIL, NULL},
    {"round", round_, 0, NULL},
    {"is_finite", unary, HL_OP_IS_FINITE, NULL},
    {"abs", unary, HL_OP_ABS, NULL},
    {"real", unary, HL_OP_REAL, NULL},
    {"imag", unary, HL_OP_IMAG, NULL},
    {"conj", conj_, 0, NULL},
    {"not", unary, HL_OP_NOT, NULL},
    {"population_count", unary, HL_OP_POPCNT, NULL},
    {"clz", unary, HL_OP_COUNT_LEADING_ZEROS, NULL},
    {"exp", expansion, 1, "exponential"},
    {"exp2", exp2_, 0, NULL},
    {"log2", log2_, 0, NULL},
    {"log", expansion, 1, "log"},
    {"expm1", unary, HL_OP_EXPONENTIAL_MINUS_ONE, NULL},
    {"log1p", expansion, 1, "log_plus_one"},
    {"tanh", unary, HL_OP_TANH, NULL},
    {"logistic", logistic, 0, NULL},
    {"sin", unary, HL_OP_SINE, NULL},
    {"cos", unary, HL_OP_COSINE, NULL},
    {"tan", unary, HL_OP_TAN, NULL},
    {"sqrt", expansion, 1, "sqrt"},
    {"rsqrt", unary, HL_OP_RSQRT, NULL},
    {"cbrt", unary, HL_OP_CBRT, NULL},
    {"square", square, 0, NULL},
    {"one_minus_square", one_minus_square, 0, NULL},
    {"integer_pow", integer_pow, 0, NULL},
    {"asin", expansion, 1, "asin"},
    {"acos", expansion, 1, "acos"},
    {"atan", expansion, 1, "atan"},
    {"sinh", expansion, 1, "sinh"},
    {"cosh", expansion, 1, "cosh"},
    {"asinh", expansion, 1, "asinh"},
    {"acosh", expansion, 1, "acosh"},
    {"atanh", expansion, 1, "atanh"},
    {"erf", unary, HL_OP_ERF, NULL},
    {"erfc", expansion, 1, "erfc"},
    {"erf_inv", expansion, 1, "erf_inv"},
    {"lgamma", expansion, 1, "lgamma"},
    {"digamma", expansion, 1, "digamma"},
    {"bessel_i0e", expansion, 1, "bessel_i0e"},
    {"bessel_i1e", expansion, 1, "bessel_i1e"},
    {"igamma", expansion, 2, "igamma"},
    {"igammac", expansion, 2, "igammac"},
    {"igamma_grad_a", expansion, 2, "igamma_grad_a"},
    {"random_gamma_grad", expansion, 2, "random_gamma_grad"},
    {"regularized_incomplete_beta", expansion, 3, "regularized_incomplete_beta"},
    {"zeta", expansion, 2, "zeta"},
    {"polygamma", expansion, 2, "polygamma"},
    {"nextafter", expansion, 2, "next_after"},
    {"convert_element_type", convert_element_type, 0, NULL},
    {"bitcast_convert_type", bitcast_convert_type, 0, NULL},
    {"reduce_precision", reduce_precision, 0, NULL},
    {"add", binary, HL_OP_ADD, NULL},
    {"add_any", binary, HL_OP_ADD, NULL},
    {"sub", binary, HL_OP_SUBTRACT, NULL},
    {"mul", mul, 0, NULL},
    {"mulhi", binary, HL_OP_MULHI, NULL},
    {"div", binary, HL_OP_DIVIDE, NULL},
    {"rem", binary, HL_OP_REMAINDER, NULL},
    {"max", max_min, HL_OP_MAXIMUM, NULL},
    {"min", max_min, HL_OP_MINIMUM, NULL},
    {"pow", pow_, 0, NULL},
    {"atan2", binary, HL_OP_ATAN2, NULL},
    {"and", binary, HL_OP_AND, NULL},
    {"or", binary, HL_OP_OR, NULL},
    {"xor", binary, HL_OP_XOR, NULL},
    {"shift_left", binary, HL_OP_SHIFT_LEFT, NULL},
    {"shift_right_logical", binary, HL_OP_SHIFT_RIGHT_LOGICAL, NULL},
    {"shift_right_arithmetic", binary, HL_OP_SHIFT_RIGHT_ARITHMETIC, NULL},
    {"complex", binary, HL_OP_COMPLEX, NULL},
    {"eq", compare, HL_WORD_direction_EQ, NULL},
    {"ne", compare, HL_WORD_direction_NE, NULL},
    {"lt", compare, HL_WORD_direction_LT, NULL},
    {"le", compare, HL_WORD_direction_LE, NULL},
    {"gt", compare, HL_WORD_direction_GT, NULL},
    {"ge", compare, HL_WORD_direction_GE, NULL},
    {"eq_to", compare_total, HL_WORD_direction_EQ, NULL},
    {"lt_to", compare_total, HL_WORD_direction_LT, NULL},
    {"le_to", compare_total, HL_WORD_direction_LE, NULL},
    {"select_n", select_n, 0, NULL},
    {"select", select_, 0, NULL},
    {"clamp", clamp, 0, NULL},
    {"copy", copy, 0, NULL},
    {"copy_p", copy, 0, NULL},
    {"stop_gradient", identity, 0, NULL},
    {"device_put", identity, 0, NULL},
    {"pvary", identity, 0, NULL},
    {"pcast", identity, 0, NULL},
    {"reduced_vary_cast_p", identity, 0, NULL},
    {"vary_unreduced_cast_p", identity, 0, NULL},
    {"convert_mesh", identity, 0, NULL},
    {"mesh_cast", identity, 0, NULL},
    {"layout_constraint", identity, 0, NULL},
    {"relayout", identity, 0, NULL},
    {"preduced", identity, 0, NULL},
    {"tie_in", tie, 0, NULL},
    {"tie", tie, 0, NULL},
    {"name", identity, 0, NULL},
    {"shard_alike", identity, 0, NULL},
    {"pin", identity, 0, NULL},
    {"unpin", identity, 0, NULL},
    {"dce_sink", nothing, 0, NULL},
    {"optimization_barrier", barrier, 0, NULL},
    {"zeros_like", zeros_like, 0, NULL},
    {NULL, NULL, 0, NULL}};
