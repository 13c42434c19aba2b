// Lowers sorting and the largest k.
#include <math.h>
#include <string.h>

#include "jaxpr/lower.h"

// A float with one nan and one zero, so that a total order is the order that sorting wants.
static HlInst *canonical(HlBuild *b, HlInst *x) {
  if (!x || !hl_is_float(x->shape->dtype))
    return x;
  HlInst *zero = hl_b_like(b, x, 0), *nan = hl_b_like(b, x, NAN);
  HlInst *is_nan = hl_b_compare(b, HL_WORD_direction_NE, x, x);
  HlInst *plain = hl_b_select(b, hl_b_compare(b, HL_WORD_direction_EQ, x, zero), zero, x);
  return hl_b_select(b, is_nan, nan, plain);
}

// x < y, or x = y and the less significant keys decide (`rest`; NULL: there are none).
static HlInst *less(HlBuild *b, HlInst *x, HlInst *y, HlInst *rest) {
  x = canonical(b, x);
  y = canonical(b, y);
  HlInst *lt = hl_b_compare_total(b, HL_WORD_direction_LT, x, y);
  if (!rest)
    return lt;
  HlInst *equal = hl_b_compare_total(b, HL_WORD_direction_EQ, x, y);
  return hl_b_binary(b, HL_OP_OR, lt, hl_b_binary(b, HL_OP_AND, equal, rest));
}

static HlInst *key_less(HlBuild *b, HlInst *x, HlInst *y, HlInst *rest) {
  if (!x || !hl_is_complex(x->shape->dtype))
    return less(b, x, y, rest);
  rest = less(b, hl_b_unary(b, HL_OP_IMAG, x), hl_b_unary(b, HL_OP_IMAG, y), rest);
  return less(b, hl_b_unary(b, HL_OP_REAL, x), hl_b_unary(b, HL_OP_REAL, y), rest);
}

// Scalars (x0, y0, x1, y1, ...) of n operands, compared by the first n_keys.
static HlComp *comparator(Rule *r, int n, int64_t n_keys) {
  HlBuild b = hl_b_nested(r->b, "compare");
  HlInst **p = HL_ARRAY(r->lo->arena, HlInst *, 2 * n);
  for (int k = 0; k < 2 * n; k++)
    p[k] = hl_b_parameter(&b, hl_shape_scalar(r->lo->m->shapes, r->in[k / 2]->shape->dtype), NULL);
  HlInst *root = NULL;
  for (int64_t k = n_keys - 1; k >= 0; k--) {
    root = key_less(&b, p[2 * k], p[2 * k + 1], root);
    if (!root)
      return NULL;
  }
  hl_set_root(b.comp, root);
  return b.comp;
}

static bool sort(Rule *r) {
  int64_t dim, n_keys = jx_param_int_or(r, "num_keys", 1);
  if (!jx_want_at_least(r, 1) || !jx_param_int(r, "dimension", &dim))
    return false;
  if (n_keys < 1 || n_keys > r->n)
    return jx_fail(r, "%lld keys of %d operands", (long long)n_keys, r->n);
  if (dim < 0 || dim >= r->in[0]->shape->rank)
    return jx_fail(r, "dimension %lld of %s", (long long)dim, jx_type_text(r->lo, r->in[0]->shape));
  HlComp *comp = comparator(r, r->n, n_keys);
  if (!comp)
    return false;
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = dim},
                    {.key = HL_A_IS_STABLE, .i = jx_param_flag(r, "is_stable")}};
  HlInst *inst = hl_b_op(r->b, HL_OP_SORT, NULL, r->n, r->in, 2, attrs, 1, &comp);
  return jx_give_all(r, inst, r->n);
}

// The permutation that exchanges dimension `axis` with the last.
static HlI64s exchange(const Rule *r, int rank, int64_t axis) {
  int64_t *order = HL_ARRAY(r->lo->arena, int64_t, rank);
  for (int d = 0; d < rank; d++)
    order[d] = d;
  order[axis] = rank - 1;
  order[rank - 1] = axis;
  return (HlI64s){order, rank};
}

static bool largest(Rule *r, HlInst *x, int64_t k, int64_t axis) {
  const int rank = x->shape->rank;
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis >= rank || k < 0 || k > x->shape->dim[axis])
    return jx_fail(r, "the largest %lld along axis %lld of %s", (long long)k, (long long)axis,
                   jx_type_text(r->lo, x->shape));
  HlI64s order = exchange(r, rank, axis);
  HlInst *out[2];
  return hl_expand_top_k(r->b, hl_b_transpose(r->b, x, order), k, out) &&
         jx_give(r, hl_b_transpose(r->b, out[0], order)) &&
         jx_give(r, hl_b_transpose(r->b, out[1], order));
}

static bool top_k(Rule *r) {
  int64_t k;
  return jx_want(r, 1) && jx_param_int(r, "k", &k) &&
         largest(r, r->in[0], k, jx_param_int_or(r, "axis", -1));
}

// Exact, as on every machine without hardware for it: sorted with their indices, cut to what is bound.
static bool approx_top_k(Rule *r) {
  int64_t k, axis;
  bool max;
  if (!jx_want(r, 1) || !jx_param_int(r, "k", &k) ||
      !jx_param_int(r, "reduction_dimension", &axis) || !jx_param_bool(r, "is_max_k", &max))
    return false;
  const HlShape *s = r->in[0]->shape, *bound = jx_bound_shape(r, 0);
  if (axis < 0)
    axis += s->rank;
  if (axis < 0 || axis >= s->rank)
    return jx_fail(r, "dimension %lld of %s", (long long)axis, jx_type_text(r->lo, s));
  if (bound && bound->rank == s->rank)
    k = bound->dim[axis];
  if (k < 0 || k > s->dim[axis])
    return jx_fail(r, "%lld of %s", (long long)k, jx_type_text(r->lo, s));
  HlBuild nested = hl_b_nested(r->b, "compare");
  HlShapes *shapes = r->lo->m->shapes;
  HlInst *p[4];
  for (int j = 0; j < 4; j++)
    p[j] = hl_b_parameter(&nested, hl_shape_scalar(shapes, j < 2 ? s->dtype : HL_S32), NULL);
  HlInst *root =
      hl_b_compare(&nested, max ? HL_WORD_direction_GT : HL_WORD_direction_LT, p[0], p[1]);
  if (!root)
    return false;
  hl_set_root(nested.comp, root);
  HlInst *line = hl_b_iota(r->b, HL_S32, 1, &s->dim[axis], 0);
  HlInst *operands[] = {r->in[0], hl_b_broadcast(r->b, line, s->rank, s->dim, (HlI64s){&axis, 1})};
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = axis}, {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *sorted = hl_b_op(r->b, HL_OP_SORT, NULL, 2, operands, 2, attrs, 1, &nested.comp);
  return sorted &&
         jx_give(r, hl_b_slice_dim(r->b, hl_b_element(r->b, sorted, 0), (int)axis, 0, k)) &&
         jx_give(r, hl_b_slice_dim(r->b, hl_b_element(r->b, sorted, 1), (int)axis, 0, k));
}

const Row jx_sort_rows[] = {{"sort", sort, 0, NULL},
                            {"top_k", top_k, 0, NULL},
                            {"approx_top_k", approx_top_k, 0, NULL},
                            {NULL, NULL, 0, NULL}};
