// Lowers random_gamma: numbers of the gamma distribution by rejection (Marsaglia and Tsang, 2000).
//
// All elements run in one loop until the last is accepted; those that are stay as they are. The order
// in which keys are split and used is JAX's, which makes the numbers JAX's.
#include <math.h>
#include <string.h>

#include "jaxpr/random.h"

// What the loops need to know: n elements of a float type.
typedef struct Gamma {
  Rule *r;
  HlDtype dtype;
  int64_t n;
} Gamma;

static HlI64s no_sizes(void) {
  return (HlI64s){0};
}

// Key k of each set of keys u32[n, m, 2].
static HlInst *nth_key(HlBuild *b, HlInst *keys, int64_t k) {
  if (!keys)
    return NULL;
  const int64_t dim[] = {keys->shape->dim[0], 2};
  return hl_b_reshape(b, hl_b_slice_dim(b, keys, 1, k, k + 1), 2, dim);
}

static HlInst *split(Rule *r, HlBuild *b, HlInst *keys, int64_t n) {
  return jx_threefry_split(r, b, keys, (HlI64s){&n, 1});
}

// Uniform in [0, 1): random mantissa bits under the exponent of 1, less 1.
static HlInst *unit(const Gamma *g, HlBuild *b, HlInst *keys) {
  const bool wide = g->dtype == HL_F64;
  HlInst *bits = jx_threefry_bits(g->r, b, keys, wide ? 64 : 32, no_sizes());
  if (!bits)
    return NULL;
  bits = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, bits, hl_b_like_int(b, bits, wide ? 12 : 9));
  bits = hl_b_binary(b, HL_OP_OR, bits,
                     hl_b_like_int(b, bits, wide ? INT64_C(0x3ff0000000000000) : 0x3f800000));
  HlInst *x = hl_b_bitcast_convert(b, bits, g->dtype);
  return hl_b_binary(b, HL_OP_SUBTRACT, x, hl_b_like(b, x, 1));
}

// Uniform in [low, high).
static HlInst *uniform(const Gamma *g, HlBuild *b, HlInst *keys, double low, double high) {
  HlInst *x = unit(g, b, keys);
  if (!x)
    return NULL;
  HlInst *lows = hl_b_like(b, x, low),
         *range = hl_b_binary(b, HL_OP_SUBTRACT, hl_b_like(b, x, high), lows);
  x = hl_b_binary(b, HL_OP_ADD, hl_b_binary(b, HL_OP_MULTIPLY, x, range), lows);
  return hl_b_binary(b, HL_OP_MAXIMUM, lows, x);
}

static HlInst *normal(const Gamma *g, HlBuild *b, HlInst *keys) {
  const double low = g->dtype == HL_F64 ? nextafter(-1.0, 0.0) : (double)nextafterf(-1.0f, 0.0f);
  HlInst *x = uniform(g, b, keys, low, 1);
  x = x ? hl_expand(b, hl_str("erf_inv"), 1, &x) : NULL;
  return x ? hl_b_binary(b, HL_OP_MULTIPLY, hl_b_like(b, x, sqrt(2)), x) : NULL;
}

// A computation of a tuple of the given values' shapes, and its elements.
static bool open_tuple(const Gamma *g, const HlBuild *b, const char *name, int n,
                       HlInst *const *value, HlBuild *nested, HlInst **element) {
  const HlShape *shapes[8];
  for (int k = 0; k < n; k++) {
    if (!value[k])
      return false;
    shapes[k] = value[k]->shape;
  }
  *nested = hl_b_nested(b, name);
  HlInst *tuple =
      hl_b_parameter(nested, hl_shape_tuple(g->r->lo->m->shapes, n, shapes), "arg_tuple");
  for (int k = 0; k < n; k++)
    if (!(element[k] = hl_b_element(nested, tuple, k)))
      return false;
  return true;
}

static HlComp *close_with(HlBuild *nested, HlInst *root) {
  if (!root)
    return NULL;
  hl_set_root(nested->comp, root);
  return nested->comp;
}

static HlInst *any(HlBuild *b, HlInst *pred) {
  const int64_t zero = 0;
  return hl_b_reduce(b, HL_OP_OR, pred, hl_b_scalar_int(b, HL_PRED, 0), (HlI64s){&zero, 1});
}

// `mask` for keys u32[n, 2].
static HlInst *key_mask(HlBuild *b, HlInst *mask, HlInst *keys) {
  const int64_t zero = 0;
  return mask && keys ? hl_b_broadcast(b, mask, 2, keys->shape->dim, (HlI64s){&zero, 1}) : NULL;
}

static HlInst *select_all(HlBuild *b, HlInst *mask, int n, HlInst *const *updated,
                          HlInst *const *old) {
  HlInst *kept[8];
  for (int k = 0; k < n; k++) {
    if (!updated[k])
      return NULL;
    HlInst *m = updated[k]->shape->rank == 2 ? key_mask(b, mask, updated[k]) : mask;
    kept[k] = hl_b_select(b, m, updated[k], old[k]);
  }
  return hl_b_tuple(b, n, kept);
}

// Draws x until v = 1 + c x is positive. State: key, x, v, c.
static bool positive(const Gamma *g, HlBuild *b, HlInst *keys, HlInst *c, HlInst **x, HlInst **v) {
  HlInst *init[] = {keys, hl_b_like(b, c, 0), hl_b_like(b, c, -1), c}, *e[4];
  HlBuild nested;
  if (!open_tuple(g, b, "gamma_positive_cond", 4, init, &nested, e))
    return false;
  HlInst *again = hl_b_compare(&nested, HL_WORD_direction_LE, e[2], hl_b_like(&nested, e[2], 0));
  HlComp *condition = close_with(&nested, any(&nested, again));
  if (!condition || !open_tuple(g, b, "gamma_positive_body", 4, init, &nested, e))
    return false;
  again = hl_b_compare(&nested, HL_WORD_direction_LE, e[2], hl_b_like(&nested, e[2], 0));
  HlInst *two = split(g->r, &nested, e[0], 2),
         *drawn = normal(g, &nested, nth_key(&nested, two, 1));
  HlInst *product = hl_b_binary(&nested, HL_OP_MULTIPLY, drawn, e[3]);
  HlInst *next[] = {
      nth_key(&nested, two, 0), drawn,
      product ? hl_b_binary(&nested, HL_OP_ADD, hl_b_like(&nested, product, 1), product) : NULL,
      e[3]};
  HlComp *body = close_with(&nested, select_all(&nested, again, 4, next, e));
  HlInst *loop = body ? hl_b_while(b, condition, body, hl_b_tuple(b, 4, init)) : NULL;
  *x = loop ? hl_b_element(b, loop, 1) : NULL;
  *v = loop ? hl_b_element(b, loop, 2) : NULL;
  return *x && *v;
}

// Whether a sample is refused: U >= 1 - 0.0331 X^2 and log U >= X / 2 + d (1 - V + log V).
static HlInst *refused(HlBuild *b, HlInst *x, HlInst *v, HlInst *u, HlInst *d) {
  HlInst *one = hl_b_like(b, u, 1), *square = hl_b_binary(b, HL_OP_MULTIPLY, x, x);
  HlInst *squeeze = hl_b_binary(b, HL_OP_SUBTRACT, one,
                                hl_b_binary(b, HL_OP_MULTIPLY, hl_b_like(b, u, 0.0331), square));
  HlInst *inner = hl_b_binary(b, HL_OP_ADD, hl_b_binary(b, HL_OP_SUBTRACT, one, v),
                              hl_b_unary(b, HL_OP_LOG, v));
  HlInst *limit = hl_b_binary(b, HL_OP_ADD, hl_b_binary(b, HL_OP_MULTIPLY, x, hl_b_like(b, u, 0.5)),
                              hl_b_binary(b, HL_OP_MULTIPLY, d, inner));
  HlInst *first = hl_b_compare(b, HL_WORD_direction_GE, u, squeeze);
  HlInst *second = hl_b_compare(b, HL_WORD_direction_GE, hl_b_unary(b, HL_OP_LOG, u), limit);
  return hl_b_binary(b, HL_OP_AND, first, second);
}

// V of the accepted samples. State: key, X, V, U, c, d.
static HlInst *accepted(const Gamma *g, HlBuild *b, HlInst *keys, HlInst *c, HlInst *d) {
  HlInst *init[] = {keys, hl_b_like(b, c, 0), hl_b_like(b, c, 1), hl_b_like(b, c, 2), c, d}, *e[6];
  HlBuild nested;
  if (!open_tuple(g, b, "gamma_accept_cond", 6, init, &nested, e))
    return NULL;
  HlComp *condition = close_with(&nested, any(&nested, refused(&nested, e[1], e[2], e[3], e[5])));
  if (!condition || !open_tuple(g, b, "gamma_accept_body", 6, init, &nested, e))
    return NULL;
  HlInst *again = refused(&nested, e[1], e[2], e[3], e[5]), *three = split(g->r, &nested, e[0], 3),
         *x, *v;
  if (!three || !positive(g, &nested, nth_key(&nested, three, 1), e[4], &x, &v))
    return NULL;
  HlInst *next[] = {
      nth_key(&nested, three, 0),
      hl_b_binary(&nested, HL_OP_MULTIPLY, x, x),
      hl_b_binary(&nested, HL_OP_MULTIPLY, hl_b_binary(&nested, HL_OP_MULTIPLY, v, v), v),
      uniform(g, &nested, nth_key(&nested, three, 2), 0, 1),
      e[4],
      e[5]};
  HlComp *body = close_with(&nested, select_all(&nested, again, 6, next, e));
  HlInst *loop = body ? hl_b_while(b, condition, body, hl_b_tuple(b, 6, init)) : NULL;
  return loop ? hl_b_element(b, loop, 2) : NULL;
}

// alpha below 1 is drawn as alpha + 1 and brought down by a power of another uniform number.
static HlInst *sample(const Gamma *g, HlBuild *b, HlInst *keys, HlInst *alpha, bool log_space) {
  HlInst *one = hl_b_like(b, alpha, 1), *third = hl_b_like(b, alpha, 1.0 / 3.0);
  HlInst *large = hl_b_compare(b, HL_WORD_direction_GE, alpha, one);
  HlInst *boosted = hl_b_select(b, large, alpha, hl_b_binary(b, HL_OP_ADD, alpha, one));
  HlInst *d = hl_b_binary(b, HL_OP_SUBTRACT, boosted, third);
  HlInst *c = hl_b_binary(b, HL_OP_DIVIDE, third, hl_b_unary(b, HL_OP_SQRT, d));
  HlInst *two = split(g->r, b, keys, 2);
  if (!c || !two)
    return NULL;
  HlInst *v = accepted(g, b, nth_key(b, two, 0), c, d),
         *u = uniform(g, b, nth_key(b, two, 1), 0, 1);
  if (!v || !u)
    return NULL;
  HlInst *inverse = hl_b_binary(b, HL_OP_DIVIDE, one, alpha);
  if (!log_space) {
    HlInst *power = hl_b_binary(b, HL_OP_POWER, hl_b_binary(b, HL_OP_SUBTRACT, one, u), inverse);
    HlInst *boost = hl_b_select(b, large, one, power);
    return hl_b_binary(b, HL_OP_MULTIPLY, hl_b_binary(b, HL_OP_MULTIPLY, d, v), boost);
  }
  HlInst *logs = hl_b_unary(b, HL_OP_LOG_PLUS_ONE, hl_b_unary(b, HL_OP_NEGATE, u)),
         *zero = hl_b_like(b, alpha, 0);
  HlInst *unneeded =
      hl_b_binary(b, HL_OP_OR, large, hl_b_compare(b, HL_WORD_direction_EQ, logs, zero));
  HlInst *boost = hl_b_select(b, unneeded, zero, hl_b_binary(b, HL_OP_MULTIPLY, logs, inverse));
  HlInst *sum = hl_b_binary(b, HL_OP_ADD, hl_b_unary(b, HL_OP_LOG, d), hl_b_unary(b, HL_OP_LOG, v));
  return hl_b_binary(b, HL_OP_ADD, sum, boost);
}

bool jx_random_gamma(Rule *r) {
  if (!jx_want(r, 2))
    return false;
  HlInst *keys = r->in[0], *alpha = r->in[1];
  const HlShape *k = keys->shape, *a = alpha->shape;
  if (k->rank == 0 || k->dtype != HL_U32 || k->dim[k->rank - 1] != 2)
    return jx_refuse(r, "of keys other than threefry's");
  if (a->dtype != HL_F32 && a->dtype != HL_F64)
    return jx_refuse(r, "of type %s", hl_dtype_text(a->dtype));
  if (k->rank - 1 > a->rank)
    return jx_fail(r, "keys of rank %d for %s", k->rank - 1, jx_type_text(r->lo, a));
  Gamma g = {.r = r, .dtype = a->dtype, .n = hl_shape_elements(a)};
  int64_t per_key = 1;
  for (int d = k->rank - 1; d < a->rank; d++)
    per_key *= a->dim[d];
  const int64_t flat[] = {g.n, 2}, key_rows[] = {per_key > 0 ? g.n / per_key : 0, 2};
  if (g.n == 0)
    return jx_give(r, alpha);
  keys = split(r, r->b, hl_b_reshape(r->b, keys, 2, key_rows), per_key);
  keys = hl_b_reshape(r->b, keys, 2, flat);
  HlInst *out =
      sample(&g, r->b, keys, hl_b_reshape(r->b, alpha, 1, flat), jx_param_flag(r, "log_space"));
  return jx_give(r, hl_b_reshape(r->b, out, a->rank, a->dim));
}
