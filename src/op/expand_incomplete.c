// op/expand_incomplete.c: incomplete gamma and beta functions, which take loops, as JAX computes them.

#include <float.h>
#include <math.h>

#include "op/expand.h"

// --- Loops ----------------------------------------------------------------------------------------

enum { MAX_STATE = 16 };
typedef struct State {
  int n;
  HlInst *at[MAX_STATE];
} State;

// A step: what the state becomes; a test: whether to go on (a scalar pred). `e` builds in the loop.
typedef void StepFn(Expand *e, State *state, bool derivative);
typedef HlInst *TestFn(Expand *e, const State *state);

// A computation whose parameter is the state.
static HlBuild open_loop(HlBuild *b, const char *name, const HlShape *shape, State *state) {
  HlBuild inner = hl_b_nested(b, name);
  HlInst *all = hl_b_parameter(&inner, shape, "state");
  state->n = shape->rank;
  for (int k = 0; k < state->n; k++)
    state->at[k] = hl_b_element(&inner, all, k);
  return inner;
}

// Repeats the step while the test holds; false after reporting. `like` is the place in the state of an
// array of the function's own type.
static bool repeat(HlBuild *b, State *state, int like, TestFn *test, StepFn *step,
                   bool derivative) {
  HlInst *init = hl_b_tuple(b, state->n, state->at);
  if (!init)
    return false;
  State inside;
  HlBuild condition = open_loop(b, "condition", init->shape, &inside);
  Expand e = expand_like(&condition, inside.at[like]);
  HlInst *goes_on = test(&e, &inside);
  HlBuild body = open_loop(b, "body", init->shape, &inside);
  e = expand_like(&body, inside.at[like]);
  step(&e, &inside, derivative);
  HlInst *next = hl_b_tuple(&body, inside.n, inside.at);
  if (!goes_on || !next)
    return false;
  hl_set_root(condition.comp, goes_on);
  hl_set_root(body.comp, next);
  HlInst *loop = hl_b_while(b, condition.comp, body.comp, init);
  for (int k = 0; k < state->n; k++)
    state->at[k] = hl_b_element(b, loop, k);
  return loop != NULL;
}

// Whether some element is true.
static HlInst *any(Expand *e, HlInst *x) {
  if (!x || x->shape->rank == 0)
    return x;
  HlMark mark = hl_arena_mark(hl_cx_scratch(e->b->cx));
  int64_t *all = HL_ARRAY(hl_cx_scratch(e->b->cx), int64_t, x->shape->rank);
  for (int d = 0; d < x->shape->rank; d++)
    all[d] = d;
  HlInst *no = hl_b_scalar_int(e->b, HL_PRED, 0);
  HlInst *out = hl_b_reduce(e->b, HL_OP_OR, x, no, (HlI64s){all, x->shape->rank});
  hl_arena_release(hl_cx_scratch(e->b->cx), mark);
  return out;
}

// A scalar in every place.
static HlInst *everywhere(Expand *e, HlInst *scalar) {
  const HlShape *shape = e->like ? e->like->shape : NULL;
  if (!shape || shape->rank == 0)
    return scalar;
  return hl_b_broadcast(e->b, scalar, shape->rank, shape->dim, (HlI64s){0});
}

static HlInst *not_of(Expand *e, HlInst *x) {
  return hl_b_unary(e->b, HL_OP_NOT, x);
}

static HlInst *is_nan(Expand *e, HlInst *x) {
  return ex_ne(e, x, x);
}

static double epsilon(const Expand *e) {
  return ex_is_wide(e) ? DBL_EPSILON : (double)FLT_EPSILON;
}

// What is kept where the element is done already.
static void keep_where_done(Expand *e, State *next, const State *old, HlInst *enabled) {
  for (int k = 1; k < next->n; k++)
    if (next->at[k] != old->at[k])
      next->at[k] = ex_select(e, enabled, next->at[k], old->at[k]);
}

// --- Incomplete gamma functions: the power series ---------------------------------------------------

// ENABLED first; the last two are the derivatives by a, and there only when asked for.
enum { S_ENABLED, S_X, S_R, S_TERM, S_SUM, S_TERM_DA, S_SUM_DA, S_COUNT };

static HlInst *series_goes_on(Expand *e, const State *s) {
  return any(e, s->at[S_ENABLED]);
}

static void series_step(Expand *e, State *s, bool derivative) {
  State old = *s;
  HlInst **v = s->at, *enabled = v[S_ENABLED];
  v[S_R] = ex_add_n(e, v[S_R], 1);
  HlInst *factor = ex_div(e, v[S_X], v[S_R]);
  if (derivative) {
    HlInst *drift = ex_div(e, ex_mul(e, v[S_TERM], v[S_X]), ex_mul(e, v[S_R], v[S_R]));
    v[S_TERM_DA] = ex_sub(e, ex_mul(e, v[S_TERM_DA], factor), drift);
    v[S_SUM_DA] = ex_add(e, v[S_SUM_DA], v[S_TERM_DA]);
  }
  v[S_TERM] = ex_mul(e, v[S_TERM], factor);
  v[S_SUM] = ex_add(e, v[S_SUM], v[S_TERM]);
  HlInst *change =
      derivative ? ex_abs(e, ex_div(e, v[S_TERM_DA], v[S_SUM_DA])) : ex_div(e, v[S_TERM], v[S_SUM]);
  keep_where_done(e, s, &old, enabled);
  v[S_ENABLED] = ex_and(e, enabled, ex_gt_n(e, change, epsilon(e)));
}

typedef enum Mode { VALUE, DERIVATIVE, SAMPLE_DERIVATIVE } Mode;

// x^a exp(-x) / gamma(a), where it comes from, and where the loops are to run.
typedef struct Incomplete {
  Expand *e;
  HlInst *a, *x, *scale;
  HlInst *enabled;
  Mode mode;
} Incomplete;

static HlInst *by_series(const Incomplete *i, HlInst *enabled) {
  Expand *e = i->e;
  HlInst *one = ex_number(e, 1), *zero = ex_number(e, 0);
  bool derivative = i->mode != VALUE;
  State s = {derivative ? S_COUNT : S_TERM_DA, {enabled, i->x, i->a, one, one, zero, zero}};
  if (!repeat(e->b, &s, S_X, series_goes_on, series_step, derivative))
    return NULL;
  HlInst *sum = s.at[S_SUM];
  if (!derivative)
    return ex_div(e, ex_mul(e, sum, i->scale), i->a);
  HlInst *above = ex_add_n(e, i->a, 1);
  HlInst *log_da = ex_sub(e, ex_log(e, i->x), ex_digamma(e, &above));
  HlInst *grown = ex_mul(e, sum, log_da);
  if (i->mode == DERIVATIVE)
    return ex_div(e, ex_mul(e, i->scale, ex_add(e, grown, s.at[S_SUM_DA])), i->a);
  HlInst *total = ex_neg(e, ex_add(e, s.at[S_SUM_DA], grown));
  return ex_div(e, ex_mul(e, total, i->x), i->a);
}

// --- Incomplete gamma functions: the continued fraction -----------------------------------------------

// P / Q are the convergents, 1 and 2 the last and the one before.
enum {
  F_ENABLED,
  F_COUNTER,
  F_VALUE,
  F_Y,
  F_Z,
  F_P1,
  F_Q1,
  F_P2,
  F_Q2,
  F_P1_DA,
  F_Q1_DA,
  F_P2_DA,
  F_Q2_DA,
  F_VALUE_DA,
  F_COUNT
};

static HlInst *fraction_goes_on(Expand *e, const State *s) {
  HlInst *limit = hl_b_scalar(e->b, e->dtype, 2000);
  HlInst *is_early = hl_b_compare(e->b, HL_WORD_direction_LT, s->at[F_COUNTER], limit);
  return ex_and(e, is_early, any(e, s->at[F_ENABLED]));
}

// p1 * z - p2 * yc
static HlInst *next_convergent(Expand *e, HlInst *p1, HlInst *z, HlInst *p2, HlInst *yc) {
  return ex_sub(e, ex_mul(e, p1, z), ex_mul(e, p2, yc));
}

// The derivative by a of the same: p1_da * z - p1 - p2_da * yc + p2 * c
static HlInst *next_derivative(Expand *e, const State *s, int p1, int p1_da, HlInst *yc,
                               HlInst *c) {
  int p2 = p1 + (F_P2 - F_P1), p2_da = p1_da + (F_P2_DA - F_P1_DA);
  HlInst *up = ex_sub(e, ex_mul(e, s->at[p1_da], s->at[F_Z]), s->at[p1]);
  HlInst *down = ex_sub(e, up, ex_mul(e, s->at[p2_da], yc));
  return ex_add(e, down, ex_mul(e, s->at[p2], c));
}

// Keeps the convergents from overflowing.
static void rescale(Expand *e, State *s, HlInst *p) {
  HlInst *is_large = ex_gt_n(e, ex_abs(e, p), 1 / epsilon(e));
  for (int k = F_P1; k < s->n && k <= F_Q2_DA; k++)
    s->at[k] = ex_select(e, is_large, ex_mul_n(e, s->at[k], epsilon(e)), s->at[k]);
}

static void fraction_step(Expand *e, State *s, bool derivative) {
  State old = *s;
  HlInst **v = s->at, *enabled = v[F_ENABLED];
  v[F_COUNTER] = hl_b_binary(e->b, HL_OP_ADD, v[F_COUNTER], hl_b_scalar(e->b, e->dtype, 1));
  v[F_Y] = ex_add_n(e, v[F_Y], 1);
  v[F_Z] = ex_add_n(e, v[F_Z], 2);
  HlInst *c = everywhere(e, v[F_COUNTER]), *yc = ex_mul(e, v[F_Y], c);
  HlInst *p = next_convergent(e, v[F_P1], v[F_Z], v[F_P2], yc);
  HlInst *q = next_convergent(e, v[F_Q1], v[F_Z], v[F_Q2], yc);
  HlInst *is_finite = ex_ne_n(e, q, 0), *ratio = ex_div(e, p, q);
  HlInst *change = ex_abs(e, ex_div(e, ex_sub(e, v[F_VALUE], ratio), ratio));
  v[F_VALUE] = ex_select(e, is_finite, ratio, v[F_VALUE]);
  if (derivative) {
    HlInst *p_da = next_derivative(e, s, F_P1, F_P1_DA, yc, c);
    HlInst *q_da = next_derivative(e, s, F_Q1, F_Q1_DA, yc, c);
    HlInst *slope = ex_div(e, ex_sub(e, p_da, ex_mul(e, v[F_VALUE], q_da)), q);
    v[F_VALUE_DA] = ex_select(e, is_finite, slope, v[F_VALUE_DA]);
    change = ex_abs(e, ex_sub(e, v[F_VALUE_DA], old.at[F_VALUE_DA]));
    v[F_P2_DA] = v[F_P1_DA];
    v[F_Q2_DA] = v[F_Q1_DA];
    v[F_P1_DA] = p_da;
    v[F_Q1_DA] = q_da;
  }
  change = ex_select(e, is_finite, change, ex_number(e, 1));
  v[F_P2] = v[F_P1];
  v[F_Q2] = v[F_Q1];
  v[F_P1] = p;
  v[F_Q1] = q;
  rescale(e, s, p);
  HlInst *counter = v[F_COUNTER];
  v[F_COUNTER] = old.at[F_COUNTER];
  keep_where_done(e, s, &old, enabled);
  v[F_COUNTER] = counter;
  v[F_ENABLED] = ex_and(e, enabled, ex_gt_n(e, change, epsilon(e)));
}

static State fraction_start(const Incomplete *i, HlInst *enabled) {
  Expand *e = i->e;
  State s = {i->mode == VALUE ? F_P1_DA : F_COUNT, {NULL}};
  HlInst **v = s.at, *zero = ex_number(e, 0);
  v[F_ENABLED] = enabled;
  v[F_COUNTER] = hl_b_scalar(e->b, e->dtype, 0);
  v[F_Y] = ex_from(e, 1, i->a);
  v[F_Z] = ex_add_n(e, ex_add(e, i->x, v[F_Y]), 1);
  v[F_P2] = ex_number(e, 1);
  v[F_Q2] = i->x;
  v[F_P1] = ex_add_n(e, i->x, 1);
  v[F_Q1] = ex_mul(e, v[F_Z], i->x);
  v[F_VALUE] = ex_div(e, v[F_P1], v[F_Q1]);
  v[F_P1_DA] = v[F_P2_DA] = v[F_Q2_DA] = zero;
  v[F_Q1_DA] = ex_neg(e, i->x);
  HlInst *top = ex_sub(e, zero, ex_mul(e, v[F_VALUE], v[F_Q1_DA]));
  v[F_VALUE_DA] = ex_div(e, top, v[F_Q1]);
  return s;
}

static HlInst *by_fraction(const Incomplete *i, HlInst *enabled) {
  Expand *e = i->e;
  State s = fraction_start(i, enabled);
  if (!repeat(e->b, &s, F_Y, fraction_goes_on, fraction_step, i->mode != VALUE))
    return NULL;
  HlInst *value = s.at[F_VALUE];
  if (i->mode == VALUE)
    return ex_mul(e, value, i->scale);
  HlInst *log_da = ex_sub(e, ex_log(e, i->x), ex_digamma(e, &i->a));
  HlInst *grown = ex_mul(e, value, log_da);
  if (i->mode == DERIVATIVE)
    return ex_mul(e, i->scale, ex_add(e, grown, s.at[F_VALUE_DA]));
  return ex_neg(e, ex_mul(e, ex_add(e, s.at[F_VALUE_DA], grown), i->x));
}

// --- Incomplete gamma functions: which way, and the edges -----------------------------------------------

static Incomplete incomplete_start(Expand *e, HlInst *a, HlInst *x, Mode mode, HlInst *disabled) {
  HlInst *log_scale = ex_sub(e, ex_sub(e, ex_mul(e, a, ex_log(e, x)), x), ex_lgamma(e, &a));
  HlInst *underflows = ex_lt_n(e, log_scale, -ex_round(e, log(ex_largest(e))));
  HlInst *enabled = not_of(e, ex_or(e, disabled, underflows));
  return (Incomplete){e, a, x, ex_exp(e, log_scale), enabled, mode};
}

// By the fraction where `far` holds, else by the series: each loop runs for its own elements alone.
static void both_ways(const Incomplete *i, HlInst *far, HlInst **series, HlInst **fraction) {
  Expand *e = i->e;
  *fraction = by_fraction(i, ex_and(e, i->enabled, far));
  *series = by_series(i, ex_and(e, i->enabled, not_of(e, far)));
}

static HlInst *gamma_domain_error(Expand *e, HlInst *a, HlInst *x) {
  HlInst *negative = ex_or(e, ex_lt_n(e, x, 0), ex_lt_n(e, a, 0));
  HlInst *both_zero = ex_and(e, ex_eq_n(e, a, 0), ex_eq_n(e, x, 0));
  HlInst *nan = ex_or(e, is_nan(e, a), is_nan(e, x));
  return ex_or(e, ex_or(e, negative, both_zero), nan);
}

HlInst *ex_igamma(Expand *e, HlInst *const *operands) {
  HlInst *a = operands[0], *x = operands[1], *series, *fraction;
  HlInst *error = gamma_domain_error(e, a, x);
  HlInst *x_is_zero = ex_eq_n(e, x, 0), *x_is_inf = ex_eq_n(e, x, INFINITY);
  HlInst *far = ex_and(e, ex_ge_n(e, x, 1), ex_gt(e, x, a));
  HlInst *disabled = ex_or(e, ex_or(e, x_is_zero, error), x_is_inf);
  Incomplete i = incomplete_start(e, a, x, VALUE, disabled);
  both_ways(&i, far, &series, &fraction);
  HlInst *out = ex_select(e, far, ex_from(e, 1, fraction), series);
  out = ex_select(e, x_is_zero, ex_number(e, 0), out);
  out = ex_select(e, x_is_inf, ex_number(e, 1), out);
  return ex_select(e, error, ex_number(e, NAN), out);
}

HlInst *ex_igammac(Expand *e, HlInst *const *operands) {
  HlInst *a = operands[0], *x = operands[1], *series, *fraction;
  HlInst *error = gamma_domain_error(e, a, x);
  HlInst *is_nothing = ex_or(e, ex_eq_n(e, x, INFINITY), ex_eq_n(e, a, 0));
  HlInst *near = ex_or(e, ex_lt_n(e, x, 1), ex_lt(e, x, a));
  Incomplete i = incomplete_start(e, a, x, VALUE, ex_or(e, error, is_nothing));
  both_ways(&i, not_of(e, near), &series, &fraction);
  HlInst *out = ex_select(e, near, ex_from(e, 1, series), fraction);
  out = ex_select(e, is_nothing, ex_number(e, 0), out);
  return ex_select(e, error, ex_number(e, NAN), out);
}

static HlInst *gamma_derivative(Expand *e, HlInst *a, HlInst *x, Mode mode) {
  HlInst *series, *fraction;
  HlInst *error = ex_or(e, ex_lt_n(e, x, 0), ex_le_n(e, a, 0));
  error = ex_or(e, error, ex_or(e, is_nan(e, a), is_nan(e, x)));
  HlInst *x_is_zero = ex_eq_n(e, x, 0);
  HlInst *far = ex_and(e, ex_gt_n(e, x, 1), ex_gt(e, x, a));
  Incomplete i = incomplete_start(e, a, x, mode, ex_or(e, x_is_zero, error));
  both_ways(&i, far, &series, &fraction);
  HlInst *out = ex_select(e, far, ex_neg(e, fraction), series);
  out = ex_select(e, x_is_zero, ex_number(e, 0), out);
  return ex_select(e, error, ex_number(e, NAN), out);
}

HlInst *ex_igamma_grad_a(Expand *e, HlInst *const *operands) {
  return gamma_derivative(e, operands[0], operands[1], DERIVATIVE);
}

HlInst *ex_random_gamma_grad(Expand *e, HlInst *const *operands) {
  return gamma_derivative(e, operands[0], operands[1], SAMPLE_DERIVATIVE);
}

// --- The incomplete beta function ---------------------------------------------------------------------

// A continued fraction by Lentz' algorithm (dlmf.nist.gov/8.17.E22), its denominators all 1.
enum { B_STEP, B_GOES_ON, B_C, B_D, B_VALUE, B_A, B_B, B_X, B_COUNT };

static HlInst *beta_goes_on(Expand *e, const State *s) {
  HlInst *limit = hl_b_scalar_int(e->b, HL_S32, ex_is_wide(e) ? 600 : 200);
  HlInst *is_early = hl_b_compare(e->b, HL_WORD_direction_LT, s->at[B_STEP], limit);
  return ex_and(e, is_early, s->at[B_GOES_ON]);
}

// The numerator of the step, in which m counts pairs of steps.
static HlInst *beta_numerator(Expand *e, const State *s) {
  HlInst *a = s->at[B_A], *b = s->at[B_B], *x = s->at[B_X], *step = everywhere(e, s->at[B_STEP]);
  Expand i = expand_like(e->b, step);
  HlInst *parity = hl_b_binary(e->b, HL_OP_REMAINDER, step, ex_int(&i, 2));
  HlInst *is_even = ex_eq(&i, parity, ex_int(&i, 0)), *is_first = ex_eq(&i, step, ex_int(&i, 1));
  HlInst *pairs = ex_div(&i, ex_sub(&i, step, ex_int(&i, 1)), ex_int(&i, 2));
  HlInst *m_is_zero = ex_eq(&i, pairs, ex_int(&i, 0));
  HlInst *m = hl_b_convert(e->b, pairs, e->dtype);
  HlInst *a2m = ex_add(e, a, ex_mul_n(e, m, 2)), *sum = ex_add(e, a, b);
  HlInst *second = ex_div(e, ex_mul(e, ex_neg(e, sum), x), ex_add_n(e, a, 1));
  HlInst *even = ex_mul(e, ex_neg(e, ex_add(e, a, m)), ex_add(e, sum, m));
  even = ex_div(e, ex_mul(e, even, x), ex_mul(e, a2m, ex_add_n(e, a2m, 1)));
  even = ex_select(e, m_is_zero, second, even);
  HlInst *odd = ex_mul(e, ex_mul(e, m, ex_sub(e, b, m)), x);
  odd = ex_div(e, odd, ex_mul(e, ex_sub_n(e, a2m, 1), a2m));
  return ex_select(e, is_first, ex_number(e, 1), ex_select(e, is_even, even, odd));
}

static HlInst *away_from_zero(Expand *e, HlInst *x) {
  HlInst *small = ex_number(e, epsilon(e) / 2);
  return ex_select(e, ex_lt(e, ex_abs(e, x), small), small, x);
}

static void beta_step(Expand *e, State *s, bool derivative) {
  HlInst **v = s->at, *numerator = beta_numerator(e, s);
  v[B_C] = away_from_zero(e, ex_add_n(e, ex_div(e, numerator, v[B_C]), 1));
  v[B_D] = away_from_zero(e, ex_add_n(e, ex_mul(e, numerator, v[B_D]), 1));
  v[B_D] = ex_over(e, 1, v[B_D]);
  HlInst *delta = ex_mul(e, v[B_C], v[B_D]);
  v[B_VALUE] = ex_mul(e, v[B_VALUE], delta);
  HlInst *error = ex_abs(e, ex_sub_n(e, delta, 1));
  v[B_GOES_ON] = any(e, ex_ge_n(e, error, epsilon(e) / 2));
  v[B_STEP] = hl_b_binary(e->b, HL_OP_ADD, v[B_STEP], hl_b_scalar_int(e->b, HL_S32, 1));
}

static HlInst *beta_fraction(Expand *e, HlInst *a, HlInst *b, HlInst *x) {
  HlInst *small = ex_number(e, epsilon(e) / 2);
  State s = {B_COUNT,
             {hl_b_scalar_int(e->b, HL_S32, 1), hl_b_scalar_int(e->b, HL_PRED, 1), small,
              ex_number(e, 0), small, a, b, x}};
  return repeat(e->b, &s, B_A, beta_goes_on, beta_step, false) ? s.at[B_VALUE] : NULL;
}

// x^a (1 - x)^b / (a B(a, b)), where a * gamma(a) is 1 for the smallest a.
static HlInst *beta_scale(Expand *e, HlInst *a, HlInst *b, HlInst *x) {
  double very_small = ex_smallest_normal(e) * 2;
  HlInst *sum = ex_add(e, a, b);
  HlInst *log_rest = ex_sub(e, ex_lgamma(e, &b), ex_lgamma(e, &sum));
  HlInst *log_beta = ex_add(e, ex_lgamma(e, &a), log_rest);
  HlInst *right = ex_mul(e, ex_log1p(e, ex_neg(e, x)), b);
  HlInst *left = ex_mul(e, ex_log(e, x), a);
  HlInst *usual = ex_exp(e, ex_sub(e, ex_add(e, left, right), log_beta));
  HlInst *at_small = ex_exp(e, ex_sub(e, right, log_rest));
  return ex_select(e, ex_lt_n(e, a, very_small), at_small, ex_div(e, usual, a));
}

// The edges of the domain, where the limits are 0 or 1 or there is none.
static HlInst *beta_edges(Expand *e, HlInst *a, HlInst *b, HlInst *x, HlInst *out) {
  HlInst *a_is_zero = ex_or(e, ex_eq_n(e, a, 0), ex_eq_n(e, b, INFINITY));
  HlInst *b_is_zero = ex_or(e, ex_eq_n(e, b, 0), ex_eq_n(e, a, INFINITY));
  HlInst *x_is_zero = ex_eq_n(e, x, 0), *x_is_one = ex_eq_n(e, x, 1);
  HlInst *zero =
      ex_or(e, ex_and(e, b_is_zero, not_of(e, x_is_one)), ex_and(e, a_is_zero, x_is_zero));
  HlInst *one =
      ex_or(e, ex_and(e, a_is_zero, not_of(e, x_is_zero)), ex_and(e, b_is_zero, x_is_one));
  HlInst *outside = ex_or(e, ex_or(e, ex_lt_n(e, a, 0), ex_lt_n(e, b, 0)),
                          ex_or(e, ex_lt_n(e, x, 0), ex_gt_n(e, x, 1)));
  HlInst *nan = ex_or(e, ex_or(e, is_nan(e, a), is_nan(e, b)), is_nan(e, x));
  nan = ex_or(e, ex_or(e, outside, nan), ex_and(e, a_is_zero, b_is_zero));
  out = ex_select(e, zero, ex_number(e, 0), out);
  out = ex_select(e, one, ex_number(e, 1), out);
  return ex_select(e, nan, ex_number(e, NAN), out);
}

// I_x(a, b), or 1 - I_(1 - x)(b, a) where that converges faster.
HlInst *ex_incomplete_beta(Expand *e, HlInst *const *operands) {
  HlInst *a = operands[0], *b = operands[1], *x = operands[2];
  HlInst *middle = ex_div(e, ex_add_n(e, a, 1), ex_add_n(e, ex_add(e, a, b), 2));
  HlInst *is_direct = ex_lt(e, x, middle);
  HlInst *p = ex_select(e, is_direct, a, b), *q = ex_select(e, is_direct, b, a);
  HlInst *y = ex_select(e, is_direct, x, ex_from(e, 1, x));
  HlInst *value = ex_mul(e, beta_fraction(e, p, q, y), beta_scale(e, p, q, y));
  value = ex_select(e, is_direct, value, ex_from(e, 1, value));
  return beta_edges(e, a, b, x, value);
}
