// tests/support/gen_algebra.c: grows a graph by applying ops to what is there, the newest values first.
#include "support/gen_algebra.h"

#include <string.h>

enum { MAX_VALUES = 256, MAX_ELEMENTS = 600 };

typedef struct Pool {
  HlBuild b;
  HlRng rng;
  HlInst *at[MAX_VALUES];
  int n;
  int depth;  // of loops and branches
} Pool;

static int64_t below(Pool *p, int64_t n) {
  return n <= 1 ? 0 : hl_rng_below(&p->rng, n);
}

static bool chance(Pool *p, int percent) {
  return below(p, 100) < percent;
}

static void keep(Pool *p, HlInst *value) {
  if (value && p->n < MAX_VALUES)
    p->at[p->n++] = value;
}

// Mostly one of the newest.
static HlInst *any(Pool *p) {
  int64_t back = chance(p, 60) ? below(p, p->n < 5 ? p->n : 5) : below(p, p->n);
  return p->at[p->n - 1 - back];
}

static HlInst *any_of(Pool *p, bool (*fits)(HlDtype)) {
  for (int k = 0; k < 12; k++) {
    HlInst *x = any(p);
    if (fits(x->shape->dtype))
      return x;
  }
  return NULL;
}

static bool is_number(HlDtype t) {
  return hl_is_float(t) || hl_is_integral(t);
}

// A value of the same type and sizes: an old one, a telling constant, or the same again.
static HlInst *partner(Pool *p, HlInst *x) {
  static const double telling[] = {0, 1, 2, -1, 0.5, 4, 3};
  if (chance(p, 15))
    return x;
  for (int k = 0; k < 8 && chance(p, 70); k++) {
    HlInst *y = any(p);
    if (y->shape == x->shape)
      return y;
  }
  if (x->shape->dtype == HL_PRED)
    return hl_b_like_int(&p->b, x, below(p, 2));
  double v = telling[below(p, HL_COUNT_OF(telling))];
  if (hl_is_integral(x->shape->dtype))
    return hl_b_like_int(&p->b, x, (int64_t)(hl_is_unsigned(x->shape->dtype) && v < 0 ? 8 : v));
  return hl_b_like(&p->b, x, v);
}

// --- Ops ----------------------------------------------------------------------------------------

static HlInst *unary(Pool *p) {
  static const HlOp ops[] = {HL_OP_NEGATE, HL_OP_ABS,         HL_OP_NEGATE, HL_OP_SIGN,
                             HL_OP_TANH,   HL_OP_EXPONENTIAL, HL_OP_SQRT,   HL_OP_RSQRT,
                             HL_OP_LOG,    HL_OP_LOGISTIC,    HL_OP_FLOOR,  HL_OP_COSINE};
  HlInst *x = any_of(p, is_number);
  if (!x || hl_is_unsigned(x->shape->dtype))
    return NULL;
  HlOp op = ops[below(p, hl_is_float(x->shape->dtype) ? HL_COUNT_OF(ops) : 4)];
  if (op == HL_OP_SQRT || op == HL_OP_RSQRT || op == HL_OP_LOG)
    x = hl_b_binary(&p->b, HL_OP_ADD, hl_b_unary(&p->b, HL_OP_ABS, x), hl_b_like(&p->b, x, 0.5));
  // Of a large angle the last bit alone is another angle.
  if (op == HL_OP_EXPONENTIAL || op == HL_OP_COSINE)
    x = hl_b_unary(&p->b, HL_OP_TANH, x);
  return hl_b_unary(&p->b, op, x);
}

static HlInst *binary(Pool *p) {
  static const HlOp ops[] = {HL_OP_ADD,     HL_OP_SUBTRACT, HL_OP_MULTIPLY,
                             HL_OP_MAXIMUM, HL_OP_MINIMUM,  HL_OP_MULTIPLY,
                             HL_OP_ADD,     HL_OP_DIVIDE,   HL_OP_REMAINDER};
  HlInst *x = any_of(p, is_number);
  if (!x)
    return NULL;
  HlInst *y = partner(p, x);
  HlOp op = ops[below(p, HL_COUNT_OF(ops))];
  if (op >= HL_OP_COUNT)
    return NULL;
  bool divides = op == HL_OP_DIVIDE || op == HL_OP_REMAINDER;
  if (divides && hl_is_float(x->shape->dtype))  // by something well away from zero
    y = hl_b_binary(&p->b, HL_OP_ADD, hl_b_unary(&p->b, HL_OP_ABS, y), hl_b_like(&p->b, y, 1));
  return chance(p, 50) || divides ? hl_b_binary(&p->b, op, x, y) : hl_b_binary(&p->b, op, y, x);
}

static HlInst *logic(Pool *p) {
  static const HlOp ops[] = {HL_OP_AND, HL_OP_OR, HL_OP_XOR};
  HlInst *x = any(p);
  HlDtype t = x->shape->dtype;
  if (t != HL_PRED && !hl_is_integral(t))
    return NULL;
  return chance(p, 25) ? hl_b_unary(&p->b, HL_OP_NOT, x)
                       : hl_b_binary(&p->b, ops[below(p, 3)], x, partner(p, x));
}

static HlInst *compare(Pool *p) {
  HlInst *x = any_of(p, is_number);
  return x ? hl_b_compare(&p->b, (int)below(p, 6), x, partner(p, x)) : NULL;
}

static HlInst *select(Pool *p) {
  HlInst *x = any(p), *y = partner(p, x);
  for (int k = 0; k < 10; k++) {
    HlInst *c = any(p);
    if (c->shape->dtype == HL_PRED && hl_shape_same_dims(c->shape, x->shape))
      return hl_b_select(&p->b, c, x, y);
  }
  HlInst *c = hl_b_compare(&p->b, (int)below(p, 6), x, y);
  return x->shape->dtype == HL_PRED ? NULL : hl_b_select(&p->b, c, x, y);
}

static HlInst *convert(Pool *p) {
  static const HlDtype types[] = {HL_F32, HL_S32, HL_U32, HL_BF16, HL_S8, HL_F64};
  HlInst *x = any(p);
  HlDtype to = types[below(p, HL_COUNT_OF(types))];
  // Out of an integer's range a float's value is not defined.
  if (hl_is_float(x->shape->dtype) && hl_is_integral(to))
    return NULL;
  return hl_b_convert(&p->b, x, to);
}

static HlInst *broadcast(Pool *p) {
  HlInst *x = any(p);
  int64_t dim[8], kept[8];
  int rank = x->shape->rank;
  if (rank > 3)
    return NULL;
  int at = (int)below(p, rank + 1);
  for (int k = 0, from = 0; k <= rank; k++) {
    if (k == at) {
      dim[k] = 1 + below(p, 3);
      continue;
    }
    kept[from] = k;
    dim[k] = x->shape->dim[from++];
  }
  return hl_b_broadcast(&p->b, x, rank + 1, dim, (HlI64s){kept, rank});
}

static HlInst *reshape(Pool *p) {
  HlInst *x = any(p);
  int64_t n = hl_shape_elements(x->shape), dim[4] = {0};
  int rank = 0;
  for (int64_t left = n; rank < 3 && (left > 1 || rank == 0 || chance(p, 20)); rank++) {
    int64_t d = 1;
    for (int tries = 0; tries < 6; tries++) {
      int64_t candidate = 1 + below(p, left);
      if (left % candidate == 0)
        d = candidate;
    }
    dim[rank] = rank == 2 ? left : d;
    left /= dim[rank];
    if (rank == 2)
      continue;
    if (left == 1 && chance(p, 70)) {
      rank++;
      break;
    }
  }
  int64_t product = 1;
  for (int k = 0; k < rank; k++)
    product *= dim[k];
  return product == n ? hl_b_reshape(&p->b, x, rank, dim) : NULL;
}

static HlInst *transpose(Pool *p) {
  HlInst *x = any(p);
  int64_t order[8];
  int rank = x->shape->rank;
  for (int k = 0; k < rank; k++)
    order[k] = k;
  for (int k = rank - 1; k > 0; k--) {
    int other = (int)below(p, k + 1);
    int64_t keep_one = order[k];
    order[k] = order[other];
    order[other] = keep_one;
  }
  return rank > 0 ? hl_b_transpose(&p->b, x, (HlI64s){order, rank}) : NULL;
}

static HlInst *slice(Pool *p) {
  HlInst *x = any(p);
  int64_t start[8], limit[8], stride[8];
  for (int k = 0; k < x->shape->rank; k++) {
    int64_t n = x->shape->dim[k];
    start[k] = chance(p, 50) ? 0 : below(p, n);
    limit[k] = chance(p, 40) ? n : start[k] + 1 + below(p, n - start[k]);
    stride[k] = chance(p, 80) ? 1 : 1 + below(p, 2);
  }
  return x->shape->rank > 0 ? hl_b_slice(&p->b, x, start, limit, stride) : NULL;
}

static HlInst *pad(Pool *p) {
  HlInst *x = any(p);
  int64_t low[8], high[8], interior[8];
  for (int k = 0; k < x->shape->rank; k++) {
    low[k] = below(p, 3) - (x->shape->dim[k] > 2 && chance(p, 20));
    high[k] = below(p, 2);
    interior[k] = chance(p, 85) ? 0 : 1;
  }
  if (x->shape->rank == 0)
    return NULL;
  HlInst *value = x->shape->dtype == HL_PRED || hl_is_integral(x->shape->dtype)
                      ? hl_b_scalar_int(&p->b, x->shape->dtype, below(p, 2))
                      : hl_b_scalar(&p->b, x->shape->dtype, chance(p, 70) ? 0 : 1);
  return hl_b_pad(&p->b, x, value, low, high, interior);
}

static HlInst *reverse(Pool *p) {
  HlInst *x = any(p);
  int64_t dims[8];
  int n = 0;
  for (int k = 0; k < x->shape->rank; k++)
    if (chance(p, 50))
      dims[n++] = k;
  return n > 0 ? hl_b_reverse(&p->b, x, (HlI64s){dims, n}) : NULL;
}

static HlInst *concatenate(Pool *p) {
  HlInst *x = any(p);
  HlInst *all[3] = {x};
  int n = 1;
  for (; n < 3 && (n < 2 || chance(p, 40)); n++)
    all[n] = partner(p, x);
  return x->shape->rank > 0 ? hl_b_concatenate(&p->b, n, all, below(p, x->shape->rank)) : NULL;
}

static HlInst *reduce(Pool *p) {
  static const HlOp ops[] = {HL_OP_ADD, HL_OP_MAXIMUM, HL_OP_MINIMUM, HL_OP_MULTIPLY};
  HlInst *x = any_of(p, is_number);
  if (!x || x->shape->rank == 0)
    return NULL;
  int64_t dims[8];
  int n = 0;
  for (int k = 0; k < x->shape->rank; k++)
    if (chance(p, 50) || (n == 0 && k + 1 == x->shape->rank))
      dims[n++] = k;
  HlOp op = ops[below(p, HL_COUNT_OF(ops))];
  HlDtype t = x->shape->dtype;
  // What each op leaves as it is.
  double init = op == HL_OP_MULTIPLY ? 1 : 0;
  if (op == HL_OP_MULTIPLY && hl_is_float(t))
    x = hl_b_unary(&p->b, HL_OP_TANH, x);
  HlInst *start = hl_is_float(t) && op == HL_OP_MAXIMUM   ? hl_b_scalar(&p->b, t, -1e30)
                  : hl_is_float(t) && op == HL_OP_MINIMUM ? hl_b_scalar(&p->b, t, 1e30)
                  : hl_is_float(t)                        ? hl_b_scalar(&p->b, t, init)
                                   : hl_b_scalar_int(&p->b, t, (int64_t)init);
  return hl_b_reduce(&p->b, op, x, start, (HlI64s){dims, n});
}

static HlInst *dot(Pool *p) {
  HlInst *x = any_of(p, hl_is_float);
  if (!x || x->shape->rank == 0)
    return NULL;
  int64_t contract = below(p, x->shape->rank);
  for (int k = 0; k < 10; k++) {
    HlInst *y = any(p);
    for (int64_t d = 0; d < y->shape->rank; d++)
      if (y->shape->dtype == x->shape->dtype && y->shape->dim[d] == x->shape->dim[contract] &&
          x->shape->rank + y->shape->rank < 6)
        return hl_b_dot(&p->b, x, y, (HlI64s){0}, (HlI64s){0}, (HlI64s){&contract, 1},
                        (HlI64s){&d, 1}, HL_NO_DTYPE);
  }
  return NULL;
}

static HlInst *dynamic(Pool *p) {
  HlInst *x = any(p), *start[8];
  int64_t sizes[8];
  int rank = x->shape->rank;
  if (rank == 0)
    return NULL;
  for (int k = 0; k < rank; k++) {
    start[k] = hl_b_scalar_int(&p->b, HL_S32, below(p, x->shape->dim[k] + 2) - 1);
    for (int tries = 0; tries < 4 && chance(p, 50); tries++) {
      HlInst *index = any(p);
      if (hl_shape_is_scalar(index->shape) && index->shape->dtype == HL_S32)
        start[k] = index;
    }
    sizes[k] = 1 + below(p, x->shape->dim[k]);
  }
  HlInst *part = hl_b_dynamic_slice(&p->b, x, start, sizes);
  if (chance(p, 40))
    return part;
  return part ? hl_b_dynamic_update_slice(&p->b, chance(p, 50) ? x : partner(p, x),
                                          partner(p, part), start)
              : NULL;
}

static HlInst *iota(Pool *p) {
  static const HlDtype types[] = {HL_S32, HL_F32, HL_U32};
  HlInst *x = any(p);
  if (x->shape->rank == 0)
    return NULL;
  return hl_b_iota(&p->b, types[below(p, 3)], x->shape->rank, x->shape->dim,
                   below(p, x->shape->rank));
}

static HlInst *grow(Pool *p, int n);

// A loop that counts to a constant and changes a value on the way.
static HlInst *loop(Pool *p) {
  if (p->depth >= 2)
    return NULL;
  HlInst *x = any(p), *y = any(p);
  HlModule *m = hl_b_module(&p->b);
  HlInst *count = hl_b_scalar_int(&p->b, HL_S32, below(p, 2));
  HlInst *init[] = {count, x, y};
  HlInst *state = hl_b_tuple(&p->b, 3, init);
  if (!state)
    return NULL;
  HlBuild condition = hl_b_nested(&p->b, "condition"), body = hl_b_nested(&p->b, "body");
  HlInst *in = hl_b_parameter(&condition, state->shape, "state");
  HlInst *limit = hl_b_scalar_int(&condition, HL_S32, below(p, 5));
  hl_set_root(condition.comp, hl_b_compare(&condition, HL_WORD_direction_LT,
                                           hl_b_element(&condition, in, 0), limit));
  in = hl_b_parameter(&body, state->shape, "state");
  HlInst *next = hl_b_binary(&body, HL_OP_ADD, hl_b_element(&body, in, 0),
                             hl_b_scalar_int(&body, HL_S32, 1 + below(p, 2)));
  Pool inner = {.b = body, .rng = {hl_rng_u64(&p->rng)}, .depth = p->depth + 1};
  for (int k = 0; k < 3; k++)
    keep(&inner, hl_b_element(&body, in, k));
  grow(&inner, 4);
  HlInst *changed = inner.at[1];
  for (int k = inner.n - 1; k > 2; k--)
    if (inner.at[k]->shape == x->shape)
      changed = inner.at[k];
  HlInst *out[] = {next, changed, chance(p, 70) ? inner.at[2] : inner.at[2]};
  hl_set_root(body.comp, hl_b_tuple(&inner.b, 3, out));
  hl_sort_comps(p->b.cx, m);
  HlInst *result = hl_b_while(&p->b, condition.comp, body.comp, state);
  keep(p, result ? hl_b_element(&p->b, result, 0) : NULL);
  return result ? hl_b_element(&p->b, result, 1 + (int)below(p, 2)) : NULL;
}

typedef HlInst *Make(Pool *p);

static HlInst *grow(Pool *p, int n) {
  static Make *const makes[] = {unary,  binary,  binary,      binary,  logic,     compare,
                                select, convert, broadcast,   reshape, transpose, slice,
                                pad,    reverse, concatenate, reduce,  dot,       dynamic,
                                iota,   binary,  unary,       reshape, loop};
  for (int k = 0; k < n; k++) {
    HlInst *made = makes[below(p, HL_COUNT_OF(makes))](p);
    if (made && hl_shape_is_array(made->shape) && hl_shape_elements(made->shape) <= MAX_ELEMENTS &&
        hl_shape_elements(made->shape) > 0 && made->shape->rank < 5)
      keep(p, made);
  }
  return p->at[p->n - 1];
}

HlModule *gen_algebra(HlCx *cx, uint64_t seed, int n) {
  static const struct {
    HlDtype type;
    int rank;
    int64_t dim[3];
  } inputs[] = {{HL_F32, 2, {4, 6}},  {HL_F32, 1, {6}}, {HL_F32, 0, {0}},       {HL_S32, 2, {4, 6}},
                {HL_PRED, 2, {4, 6}}, {HL_S32, 0, {0}}, {HL_F32, 3, {2, 1, 6}}, {HL_U32, 1, {4}}};
  HlModule *m = hl_module_new("algebra", NULL);
  HlComp *main = hl_comp_new(m, "main", 4);
  hl_comp_set_entry(main);
  Pool p = {.b = {.cx = cx, .comp = main}, .rng = {seed * 7919 + 17}};
  for (int k = 0; k < HL_COUNT_OF(inputs); k++)
    keep(&p,
         hl_b_parameter(
             &p.b, hl_shape_array(m->shapes, inputs[k].type, inputs[k].rank, inputs[k].dim), "p"));
  grow(&p, n);
  HlInst *out[8];
  int n_out = 0;
  for (int k = p.n - 1; k >= 0 && n_out < 4; k -= 1 + (int)below(&p, 4))
    out[n_out++] = p.at[k];
  hl_set_root(main, hl_b_tuple(&p.b, n_out, out));
  hl_complete_entry_layout(m);
  if (hl_cx_n_errors(cx) == 0 && hl_sort_comps(cx, m))
    return m;
  hl_module_free(m);
  return NULL;
}
