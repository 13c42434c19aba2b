// What the rows of ops.def say of elementwise ops is so: every trait and fact that is a law of numbers, tried against the
// interpreter on every element type that the op takes. A new row is tried the day it stands there.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/text.h"
#include "hilo/verify.h"

enum { N = 64, MOST = 3 };  // elements, operands

// One op on one type: operands and result are vectors of N.
typedef struct Try {
  HlCx *cx;
  HlModule *m;
  HlOp op;
  int n;
  HlRng rng;
  const HlShape *in[MOST];
  const HlShape *out;
  int checked, failed;
} Try;

typedef struct Args {
  HlLiteral *at[MOST];
} Args;

// --- Making things up ------------------------------------------------------------------------------

static const char *attrs_of(HlOp op) {
  return op == HL_OP_COMPARE            ? ", direction=LT"
         : op == HL_OP_REDUCE_PRECISION ? ", exponent_bits=5, mantissa_bits=3"
                                        : "";
}

// Types of operands and result: those of the op on elements of `type`.
static bool open_try(Try *t, HlOp op, HlDtype type, HlDtype result, HlDtype first) {
  *t = (Try){.cx = hl_cx_new(), .op = op, .n = hl_op_info[op].n_operands, .rng = {1}};
  HlBuf text = {0};
  hl_buf_puts(&text, "HloModule law\nENTRY e {\n");
  for (int k = 0; k < t->n; k++)
    hl_buf_printf(&text, "  p%d = %s[%d] parameter(%d)\n", k, hl_dtype_text(k == 0 ? first : type),
                  N, k);
  hl_buf_printf(&text, "  ROOT r = %s[%d] %s(", hl_dtype_text(result), N, hl_op_text(op));
  for (int k = 0; k < t->n; k++)
    hl_buf_printf(&text, "%sp%d", k ? ", " : "", k);
  hl_buf_printf(&text, ")%s\n}\n", attrs_of(op));
  t->m = hl_text_parse(t->cx, text.at);
  hl_buf_free(&text);
  if (!t->m || !hl_verify(t->cx, t->m, NULL))
    return false;
  for (int k = 0; k < t->n; k++)
    t->in[k] = t->m->entry->params[k]->shape;
  t->out = t->m->entry->root->shape;
  return true;
}

static void close_try(Try *t) {
  hl_module_free(t->m);
  hl_cx_free(t->cx);
}

// Small numbers, so that nothing overflows or is rounded where a law is about exact numbers.
static double small(Try *t, HlDtype type) {
  if (type == HL_PRED)
    return (double)hl_rng_below(&t->rng, 2);
  if (hl_is_unsigned(type))
    return (double)hl_rng_below(&t->rng, 4);
  const double whole = (double)hl_rng_below(&t->rng, 9) - 4;
  return hl_is_integral(type) ? whole : whole / 4;
}

static HlLiteral *made_up(Try *t, int k) {
  HlLiteral *x = hl_literal_new(t->cx, t->in[k]);
  for (int i = 0; i < N; i++)
    if (hl_is_complex(x->shape->dtype))
      hl_literal_set_complex(x, i, small(t, HL_F32), small(t, HL_F32));
    else
      hl_literal_set_f64(x, i, small(t, x->shape->dtype));
  return x;
}

static Args made_up_args(Try *t) {
  Args args = {{NULL}};
  for (int k = 0; k < t->n; k++)
    args.at[k] = made_up(t, k);
  return args;
}

static void drop(Args *args) {
  for (int k = 0; k < MOST; k++)
    hl_literal_unref(args->at[k]);
}

// The arguments with another one in place k.
static HlLiteral *apply_with(Try *t, const Args *args, int k, HlLiteral *other) {
  const HlLiteral *in[MOST] = {args->at[0], args->at[1], args->at[2]};
  if (k >= 0)
    in[k] = other;
  HlLiteral *out = hl_eval_comp(t->cx, t->m->entry, in, t->n);
  assert_non_null(out);
  return out;
}

static HlLiteral *apply(Try *t, const Args *args) {
  return apply_with(t, args, -1, NULL);
}

// Whether the interpreter knows the type; some kernels have no complex one.
static bool can_apply(Try *t) {
  Args args = made_up_args(t);
  HlLiteral *out = hl_eval_comp(t->cx, t->m->entry, (const HlLiteral *const *)args.at, t->n);
  const bool can = out != NULL;
  hl_literal_unref(out);
  drop(&args);
  return can;
}

static HlLiteral *fill(Try *t, const HlShape *shape, double value) {
  HlLiteral *x = hl_literal_new(t->cx, shape);
  for (int i = 0; i < N; i++)
    if (hl_is_complex(shape->dtype))
      hl_literal_set_complex(x, i, value, 0);
    else
      hl_literal_set_f64(x, i, value);
  return x;
}

// --- Comparing ----------------------------------------------------------------------------------------

static bool is_nan_at(const HlLiteral *x, int64_t k) {
  return isnan(hl_literal_f64(x, k)) || isnan(hl_literal_imag(x, k));
}

// Equal as numbers: of floats but for a few last places.
static bool near_at(const HlLiteral *x, int64_t i, const HlLiteral *y, int64_t k) {
  const double a = hl_literal_f64(x, i), b = hl_literal_f64(y, k);
  const double c = hl_literal_imag(x, i), d = hl_literal_imag(y, k);
  const double slack = hl_is_integral(x->shape->dtype) || x->shape->dtype == HL_PRED ? 0
                       : hl_dtype_info[x->shape->dtype].bits < 32                    ? 0.05
                                                                                     : 1e-5;
  return (a == b || fabs(a - b) <= slack * fmax(1, fabs(b))) &&
         (c == d || fabs(c - d) <= slack * fmax(1, fabs(d)));
}

static void fails(Try *t, const char *law, int i) {
  if (t->failed++ == 0)
    fprintf(stderr, "%s of %s: not %s (element %d)\n", hl_op_text(t->op),
            hl_dtype_text(t->in[t->n - 1]->dtype), law, i);
}

// All elements of two values agree; where either is nan nothing is promised. Both are released.
static void agree(Try *t, const char *law, HlLiteral *x, HlLiteral *y) {
  for (int i = 0; i < N; i++) {
    if (is_nan_at(x, i) || is_nan_at(y, i))
      continue;
    t->checked++;
    if (!near_at(x, i, y, i))
      fails(t, law, i);
  }
  hl_literal_unref(x);
  hl_literal_unref(y);
}

// --- Laws ----------------------------------------------------------------------------------------------

static HlLiteral *negated(Try *t, const HlLiteral *x) {
  HlLiteral *out = hl_literal_new(t->cx, x->shape);
  for (int i = 0; i < N; i++)
    if (hl_is_complex(x->shape->dtype))
      hl_literal_set_complex(out, i, -hl_literal_f64(x, i), -hl_literal_imag(x, i));
    else
      hl_literal_set_f64(out, i, -hl_literal_f64(x, i));
  return out;
}

// x + scale * y, element by element.
static HlLiteral *combined(Try *t, const HlLiteral *x, double scale, const HlLiteral *y) {
  HlLiteral *out = hl_literal_new(t->cx, x->shape);
  for (int i = 0; i < N; i++) {
    const double re = hl_literal_f64(x, i) + scale * hl_literal_f64(y, i);
    if (hl_is_complex(x->shape->dtype))
      hl_literal_set_complex(out, i, re, hl_literal_imag(x, i) + scale * hl_literal_imag(y, i));
    else
      hl_literal_set_f64(out, i, re);
  }
  return out;
}

// Signed numbers with an order, in which small ones are exact and do not wrap.
static bool is_ordered(const Try *t) {
  const HlDtype type = t->in[t->n - 1]->dtype;
  return hl_is_float(type) || hl_is_signed(type);
}

static void try_elementwise(Try *t) {
  Args args = made_up_args(t), turned = {{NULL}};
  for (int k = 0; k < t->n; k++) {
    turned.at[k] = hl_literal_copy(t->cx, args.at[k]);
    const size_t width = (size_t)hl_dtype_bytes(turned.at[k]->shape->dtype);
    char *to = turned.at[k]->data;
    const char *from = args.at[k]->data;
    memcpy(to, from + width, (N - 1) * width);
    memcpy(to + (N - 1) * width, from, width);
  }
  HlLiteral *x = apply(t, &args), *y = apply(t, &turned);
  for (int i = 0; i + 1 < N; i++)
    if (!is_nan_at(x, i + 1) && !near_at(x, i + 1, y, i))
      fails(t, "elementwise", i);
  t->checked++;
  hl_literal_unref(x);
  hl_literal_unref(y);
  drop(&args);
  drop(&turned);
}

static void try_order(Try *t, int k, bool up) {
  Args args = made_up_args(t);
  HlLiteral *more = hl_literal_copy(t->cx, args.at[k]);
  for (int i = 0; i < N; i++)
    hl_literal_set_f64(more, i, hl_literal_f64(more, i) + fabs(small(t, more->shape->dtype)));
  HlLiteral *x = apply(t, &args), *y = apply_with(t, &args, k, more);
  for (int i = 0; i < N; i++) {
    const double a = hl_literal_f64(x, i), b = hl_literal_f64(y, i);
    if (isnan(a) || isnan(b))
      continue;
    t->checked++;
    if (up ? b < a : b > a)
      fails(t, up ? "up" : "down", i);
  }
  hl_literal_unref(x);
  hl_literal_unref(y);
  hl_literal_unref(more);
  drop(&args);
}

// f(x + 2 y) = f(x) + 2 f(y) in the operands of the set, the others fixed.
static void try_linear(Try *t, uint8_t set, const char *law) {
  Args x = made_up_args(t), y = {{NULL}}, sum = {{NULL}};
  for (int k = 0; k < t->n; k++) {
    const bool moves = hl_operand_in(set, k, 1);
    y.at[k] = moves ? made_up(t, k) : hl_literal_ref(x.at[k]);
    sum.at[k] = moves ? combined(t, x.at[k], 2, y.at[k]) : hl_literal_ref(x.at[k]);
  }
  HlLiteral *fx = apply(t, &x), *fy = apply(t, &y);
  agree(t, law, apply(t, &sum), combined(t, fx, 2, fy));
  hl_literal_unref(fx);
  hl_literal_unref(fy);
  drop(&x);
  drop(&y);
  drop(&sum);
}

static double known_value(HlKnown known, HlDtype type) {
  const int bits = hl_dtype_info[type].bits;
  const bool whole = hl_is_integral(type), is_signed = hl_is_signed(type);
  switch (known) {
  case HL_KNOWN_ONE: return 1;
  case HL_KNOWN_ALL_ONES: return type == HL_PRED ? 1 : is_signed ? -1 : ldexp(1, bits) - 1;
  case HL_KNOWN_LOWEST:
    return type == HL_PRED ? 0 : !whole ? -INFINITY : is_signed ? -ldexp(1, bits - 1) : 0;
  case HL_KNOWN_HIGHEST:
    return type == HL_PRED ? 1 : !whole ? INFINITY : ldexp(1, bits - is_signed) - 1;
  default: return 0;
  }
}

static void try_known(Try *t, HlKnown known, bool neutral) {
  const char *law = neutral ? "neutral" : "absorbing";
  for (int k = hl_op_is(t->op, HL_T_COMMUTES) ? 0 : 1; k < 2; k++) {
    Args args = made_up_args(t);
    HlLiteral *e = fill(t, t->in[k], known_value(known, t->in[k]->dtype));
    agree(t, law, apply_with(t, &args, k, e), hl_literal_ref(neutral ? args.at[1 - k] : e));
    hl_literal_unref(e);
    drop(&args);
  }
}

static void try_bounds(Try *t, HlBounds bounds) {
  Args args = made_up_args(t);
  HlLiteral *x = apply(t, &args);
  const double low = bounds == HL_BOUNDS_SIGNED_UNIT ? -1 : 0;
  const double high = bounds == HL_BOUNDS_NONNEGATIVE ? INFINITY : 1;
  for (int i = 0; i < N; i++, t->checked++)
    if (hl_literal_f64(x, i) < low || hl_literal_f64(x, i) > high)
      fails(t, "within its bounds", i);
  hl_literal_unref(x);
  drop(&args);
}

// Operands that are all `value`, but for operand k, which is `other`; the result's first element.
static double value_at(Try *t, double value, int k, double other) {
  Args args = {{NULL}};
  for (int j = 0; j < t->n; j++)
    args.at[j] = fill(t, t->in[j], j == k ? other : value);
  HlLiteral *x = apply(t, &args);
  const double got = hl_literal_f64(x, 0);
  hl_literal_unref(x);
  drop(&args);
  return got;
}

static void try_divisor(Try *t, int k) {
  t->checked++;
  if (isfinite(value_at(t, 2, k, 0)) || !isfinite(value_at(t, 2, k, 1)))
    fails(t, "not finite of the divisor 0 only", 0);
}

static void try_steep(Try *t, int k) {
  t->checked++;
  if ((isfinite(value_at(t, 2, k, 1000)) && isfinite(value_at(t, 2, k, -1000))) ||
      !isfinite(value_at(t, 2, k, 20)) || !isfinite(value_at(t, 2, k, -20)))
    fails(t, "steep", 0);
}

static void try_defined(Try *t, HlReals domain) {
  static const struct {
    double low, high;  // the ends
    bool closed, any;  // finite at the low end; whatever it is there
  } ends[] = {
      {-INFINITY, INFINITY, false, true}, {0, INFINITY, false, false}, {0, INFINITY, true, false},
      {-1, INFINITY, false, false},       {-1, 1, false, true},        {1, INFINITY, true, false}};
  const double low = ends[domain].low, high = ends[domain].high, step = 0.25;
  for (int i = -16; i <= 16; i++) {
    const double x = i * step, y = value_at(t, x, 0, x);
    t->checked++;
    if (x == low || x == high) {
      if (!ends[domain].any && isfinite(y) != ends[domain].closed)
        fails(t, "as its domain says at its end", i);
    } else if (isnan(y) != (x < low || x > high)) {
      fails(t, "defined on its domain only", i);
    }
  }
}

// f(x, a + b) = f(f(x, a), b)
static void try_shift(Try *t, int k) {
  Args args = made_up_args(t);
  HlLiteral *a = fill(t, t->in[k], 1), *b = fill(t, t->in[k], 2), *sum = fill(t, t->in[k], 3);
  HlLiteral *once = apply_with(t, &args, k, a);
  agree(t, "a shift", apply(t, &(Args){{once, b}}), apply_with(t, &args, k, sum));
  hl_literal_unref(once);
  hl_literal_unref(a);
  hl_literal_unref(b);
  hl_literal_unref(sum);
  drop(&args);
}

static void try_rounds(Try *t) {
  Args args = made_up_args(t);
  HlLiteral *x = apply(t, &args);
  for (int i = 0; i < N; i++, t->checked++) {
    const double from = hl_literal_f64(args.at[0], i), to = hl_literal_f64(x, i);
    if (to != trunc(to) || fabs(to - from) >= 1)
      fails(t, "a whole number less than one away", i);
  }
  hl_literal_unref(x);
  drop(&args);
}

static void try_elements(Try *t, uint8_t set) {
  Args args = made_up_args(t);
  HlLiteral *x = apply(t, &args);
  for (int i = 0; i < N; i++, t->checked++) {
    bool found = false;
    for (int k = 0; k < t->n; k++)
      found |= hl_operand_in(set, k, 1) && near_at(x, i, args.at[k], i);
    if (!found)
      fails(t, "one of its operands' elements", i);
  }
  hl_literal_unref(x);
  drop(&args);
}

static void try_unary(Try *t) {
  const uint32_t traits = hl_op_info[t->op].traits;
  Args args = made_up_args(t);
  HlLiteral *fx = apply(t, &args);
  if (t->in[0] == t->out && traits & HL_T_IDEMPOTENT)
    agree(t, "idempotent", apply_with(t, &args, 0, fx), hl_literal_ref(fx));
  if (traits & HL_T_INVOLUTION)
    agree(t, "an involution", apply_with(t, &args, 0, fx), hl_literal_ref(args.at[0]));
  HlLiteral *minus = negated(t, args.at[0]);
  if (traits & HL_T_ODD && is_ordered(t))
    agree(t, "odd", apply_with(t, &args, 0, minus), negated(t, fx));
  if (traits & HL_T_EVEN && is_ordered(t))
    agree(t, "even", apply_with(t, &args, 0, minus), hl_literal_ref(fx));
  hl_literal_unref(minus);
  hl_literal_unref(fx);
  drop(&args);
}

static void try_binary(Try *t) {
  const uint32_t traits = hl_op_info[t->op].traits;
  Args args = made_up_args(t);
  HlLiteral *xy = apply(t, &args), *z = made_up(t, 0);
  if (traits & HL_T_COMMUTES)
    agree(t, "commutative", apply(t, &(Args){{args.at[1], args.at[0]}}), hl_literal_ref(xy));
  if (traits & HL_T_IDEMPOTENT)
    agree(t, "idempotent", apply_with(t, &args, 1, args.at[0]), hl_literal_ref(args.at[0]));
  if (traits & HL_T_ASSOCIATES) {
    HlLiteral *yz = apply(t, &(Args){{args.at[1], z}});
    agree(t, "associative", apply(t, &(Args){{xy, z}}), apply(t, &(Args){{args.at[0], yz}}));
    hl_literal_unref(yz);
  }
  hl_literal_unref(xy);
  hl_literal_unref(z);
  drop(&args);
}

static void try_laws(Try *t) {
  const HlOpFacts *facts = hl_op_facts(t->op);
  const bool inexact = hl_is_float(t->in[t->n - 1]->dtype) || hl_is_complex(t->in[0]->dtype);
  try_elementwise(t);
  for (int k = 0; k < t->n && is_ordered(t); k++) {
    if (facts->up >> k & 1)
      try_order(t, k, true);
    if (facts->down >> k & 1)
      try_order(t, k, false);
  }
  if (inexact && facts->linear)
    try_linear(t, facts->linear, "linear");
  for (int k = 0; k < t->n && inexact; k++)
    if (facts->multilinear >> k & 1)
      try_linear(t, (uint8_t)(1 << k), "multilinear");
  const HlDtype type = t->in[0]->dtype;
  const bool real = hl_is_float(type) && hl_dtype_info[type].bits == 32;
  for (int k = 0; k < t->n; k++) {
    if (real && (facts->divisor >> k & 1))
      try_divisor(t, k);
    if (real && (facts->steep >> k & 1))
      try_steep(t, k);
    if ((facts->shift >> k & 1) && type != HL_PRED)
      try_shift(t, k);
  }
  if (real && facts->defined)
    try_defined(t, (HlReals)facts->defined);
  if (hl_op_is(t->op, HL_T_ROUNDS) && !hl_is_complex(type))
    try_rounds(t);
  if (facts->neutral)
    try_known(t, (HlKnown)facts->neutral, true);
  if (facts->absorbing)
    try_known(t, (HlKnown)facts->absorbing, false);
  if (facts->bounds && !hl_is_complex(type))
    try_bounds(t, (HlBounds)facts->bounds);
  if (facts->elements)
    try_elements(t, facts->elements);
  if (t->n == 1)
    try_unary(t);
  if (t->n == 2)
    try_binary(t);
}

// --- All ops ------------------------------------------------------------------------------------------

static const HlDtype types[] = {HL_PRED, HL_S16, HL_S32, HL_U16, HL_U32,
                                HL_BF16, HL_F32, HL_F64, HL_C64};

static HlDtype result_of(HlOp op, HlDtype type) {
  return op == HL_OP_COMPARE || op == HL_OP_IS_FINITE ? HL_PRED
         : op == HL_OP_COMPLEX                        ? HL_C64
         : hl_is_complex(type) && (op == HL_OP_ABS || op == HL_OP_REAL || op == HL_OP_IMAG) ? HL_F32
                                                                                            : type;
}

// Returns how many elements were compared; laws that failed are added up.
static int try_op(HlOp op, int *failed) {
  int checked = 0;
  for (int k = 0; k < HL_COUNT_OF(types); k++) {
    const HlDtype result = op == HL_OP_STOCHASTIC_CONVERT ? HL_S16 : result_of(op, types[k]);
    const HlDtype first = op == HL_OP_SELECT               ? HL_PRED
                          : op == HL_OP_STOCHASTIC_CONVERT ? (types[k] == HL_U32 ? HL_F32 : HL_BF16)
                                                           : types[k];
    Try t;
    if (open_try(&t, op, types[k], result, first) && can_apply(&t)) {
      try_laws(&t);
      if (hl_op_is(op, HL_T_INTEGER) && !hl_is_integral(types[k]) && types[k] != HL_PRED) {
        fprintf(stderr, "%s takes %s\n", hl_op_text(op), hl_dtype_text(types[k]));
        (*failed)++;
      }
      checked += t.checked;
      *failed += t.failed;
    }
    close_try(&t);
  }
  return checked;
}

static void laws_of_elementwise_ops(void **state) {
  int failed = 0;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    if (!hl_op_is((HlOp)op, HL_T_ELEMENTWISE))
      continue;
    if (try_op((HlOp)op, &failed) == 0) {
      fprintf(stderr, "%s: no type to try it on\n", hl_op_text((HlOp)op));
      failed++;
    }
  }
  assert_int_equal(failed, 0);
}

// --- What the columns say of each other -----------------------------------------------------------------

static void columns_agree(void **state) {
  for (int k = 0; k < HL_OP_COUNT; k++) {
    const HlOp op = (HlOp)k;
    const HlOpFacts *facts = hl_op_facts(op);
    if (hl_op_is(op, HL_T_REARRANGES))
      assert_true(hl_op_moves(op) && !hl_op_is(op, HL_T_ELEMENTWISE));
    if (hl_op_is(op, HL_T_CHOOSES | HL_T_ONCE))
      assert_true(facts->elements != 0);
    if (hl_op_is(op, HL_T_INTEGER | HL_T_ASSOCIATES | HL_T_ODD | HL_T_EVEN))
      assert_true(hl_op_is(op, HL_T_ELEMENTWISE));
    if (hl_op_is(op, HL_T_CONTROL | HL_T_FOLDS))
      assert_true(hl_op_is(op, HL_T_CALLS));
    if (hl_op_is_transcendental(op))
      assert_true(hl_op_is(op, HL_T_ELEMENTWISE) && !hl_op_is(op, HL_T_CHEAP));
    if (facts->divisor | facts->steep | facts->shift | facts->defined)
      assert_true(hl_op_is(op, HL_T_ELEMENTWISE));
    if (facts->defined || hl_op_is(op, HL_T_ROUNDS))
      assert_int_equal(hl_op_info[op].n_operands, 1);
    if (facts->shift)
      assert_true(hl_op_is(op, HL_T_INTEGER) && facts->shift == 2);
    if (hl_op_is(op, HL_T_GIVEN))  // nothing computes it
      assert_true(hl_op_info[op].n_operands == 0 &&
                  !hl_op_is(op, HL_T_CALLS | HL_T_DEVICE | HL_T_SIDE_EFFECT));
    if (hl_op_marks(op))
      assert_true(facts->elements == 1 && hl_op_info[op].n_operands >= 1);
    if (hl_op_is(op, HL_T_DEVICE))
      assert_int_equal(hl_op_info[op].n_operands, 0);
    assert_false(facts->up & facts->down);
    if (facts->half) {  // whoever starts is awaited, and the other way round
      const HlOp plain = hl_op_plain(op);
      assert_int_not_equal(hl_op_half_of(plain, HL_HALF_START), HL_OP_COUNT);
      assert_int_not_equal(hl_op_half_of(plain, HL_HALF_DONE), HL_OP_COUNT);
      assert_int_equal(hl_op_half_of(plain, hl_op_half(op)), op);
    } else {
      assert_int_equal(hl_op_plain(op), op);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_agree),
      cmocka_unit_test(laws_of_elementwise_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
