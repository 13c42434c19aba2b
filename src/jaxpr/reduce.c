// Lowers reductions, cumulative ones included.
#include <math.h>
#include <string.h>

#include "jaxpr/lower.h"

HlInst *jx_lowest(HlBuild *b, HlDtype dtype) {
  if (hl_is_float(dtype))
    return hl_b_scalar(b, dtype, -INFINITY);
  if (!hl_is_signed(dtype))
    return hl_b_scalar_int(b, dtype, 0);
  return hl_b_scalar_int(b, dtype, (int64_t)(UINT64_MAX << (hl_dtype_info[dtype].bits - 1)));
}

HlInst *jx_highest(HlBuild *b, HlDtype dtype) {
  if (hl_is_float(dtype))
    return hl_b_scalar(b, dtype, INFINITY);
  if (dtype == HL_PRED)
    return hl_b_scalar_int(b, dtype, 1);
  const int bits = hl_dtype_info[dtype].bits - (hl_is_signed(dtype) ? 1 : 0);
  return hl_b_scalar_int(b, dtype, (int64_t)(UINT64_MAX >> (64 - bits)));
}

// What leaves the other operand of a binary op as it is.
static HlInst *neutral(HlBuild *b, HlOp op, HlDtype dtype) {
  switch (op) {
  case HL_OP_MULTIPLY: return hl_b_scalar(b, dtype, 1);
  case HL_OP_MAXIMUM: return jx_lowest(b, dtype);
  case HL_OP_MINIMUM: return jx_highest(b, dtype);
  case HL_OP_AND:
    return dtype == HL_PRED ? hl_b_scalar_int(b, dtype, 1) : hl_b_scalar_int(b, dtype, -1);
  default: return hl_b_scalar(b, dtype, 0);
  }
}

// --- One op over dimensions --------------------------------------------------------------------------------------

static bool reduce_op(Rule *r) {
  HlI64s axes;
  if (!jx_want(r, 1) || !jx_param_ints(r, "axes", &axes) ||
      !jx_want_dims(r, "axes", axes, r->in[0]->shape->rank))
    return false;
  if (axes.n == 0)
    return jx_give(r, r->in[0]);
  HlInst *init = neutral(r->b, (HlOp)r->row->op, r->in[0]->shape->dtype);
  return jx_give(r, hl_b_reduce(r->b, (HlOp)r->row->op, r->in[0], init, axes));
}

// --- Any computation over dimensions ------------------------------------------------------------------------------

// The jaxpr of a reducer as a computation of 2n scalars.
static HlComp *reducer(Rule *r, const Jaxpr *jaxpr, int n) {
  const HlShape **shapes = HL_ARRAY(r->lo->arena, const HlShape *, 2 * n + 1);
  for (int k = 0; k < 2 * n; k++)
    shapes[k] = hl_shape_scalar(r->lo->m->shapes, r->in[k % n]->shape->dtype);
  return jx_lower_comp(r->lo, jaxpr, "region", r->lo->path, 2 * n, shapes);
}

static bool reduce_any(Rule *r) {
  HlI64s dims;
  const Jaxpr *jaxpr = jx_param_jaxpr(r, "jaxpr");
  const int n = r->n / 2;
  if (!jaxpr || !jx_param_ints(r, "dimensions", &dims))
    return false;
  if (n == 0 || r->n % 2 || jaxpr->n_out != n)
    return jx_fail(r, "expected as many initial values as arrays");
  if (!jx_want_dims(r, "dimensions", dims, r->in[0]->shape->rank))
    return false;
  HlComp *comp = reducer(r, jaxpr, n);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(r->lo->m->arena, dims)};
  return comp &&
         jx_give_all(r, hl_b_op(r->b, HL_OP_REDUCE, NULL, r->n, r->in, 1, &attr, 1, &comp), n);
}

// --- argmax, argmin ---------------------------------------------------------------------------------------------------

// (value, index) pairs: the larger (smaller) value, a nan before all, the lower index of equals.
static HlComp *arg_comp(Rule *r, HlDtype dtype, HlDtype index) {
  HlBuild b = hl_b_nested(r->b, "region");
  HlShapes *shapes = r->lo->m->shapes;
  HlInst *x = hl_b_parameter(&b, hl_shape_scalar(shapes, dtype), NULL);
  HlInst *i = hl_b_parameter(&b, hl_shape_scalar(shapes, index), NULL);
  HlInst *y = hl_b_parameter(&b, hl_shape_scalar(shapes, dtype), NULL);
  HlInst *j = hl_b_parameter(&b, hl_shape_scalar(shapes, index), NULL);
  HlInst *take = hl_b_compare(&b, r->row->op, x, y);
  if (hl_is_float(dtype))
    take = hl_b_binary(&b, HL_OP_OR, take, hl_b_compare(&b, HL_WORD_direction_NE, x, x));
  HlInst *tie = hl_b_binary(&b, HL_OP_AND, hl_b_compare(&b, HL_WORD_direction_EQ, x, y),
                            hl_b_compare(&b, HL_WORD_direction_LT, i, j));
  HlInst *take_index = hl_b_binary(&b, HL_OP_OR, take, tie);
  HlInst *pair[] = {hl_b_select(&b, take, x, y), hl_b_select(&b, take_index, i, j)};
  HlInst *root = hl_b_tuple(&b, 2, pair);
  if (!root)
    return NULL;
  hl_set_root(b.comp, root);
  return b.comp;
}

static bool arg_reduce(Rule *r) {
  HlI64s axes;
  HlDtype index;
  if (!jx_want(r, 1) || !jx_param_ints(r, "axes", &axes) ||
      !jx_param_dtype(r, "index_dtype", &index) ||
      !jx_want_dims(r, "axes", axes, r->in[0]->shape->rank))
    return false;
  if (axes.n != 1)
    return jx_fail(r, "expected one axis, found %d", axes.n);
  HlBuild *b = r->b;
  HlInst *x = r->in[0];
  const HlShape *s = x->shape;
  if (!hl_is_integral(index) || hl_is_complex(s->dtype))
    return jx_fail(r, "indices of type %s into %s", hl_dtype_text(index), jx_type_text(r->lo, s));
  HlInst *line = hl_b_iota(b, index, 1, &s->dim[axes.at[0]], 0);
  HlInst *indices = s->rank == 1 ? line : hl_b_broadcast(b, line, s->rank, s->dim, axes);
  HlInst *first =
      r->row->op == HL_WORD_direction_GT ? jx_lowest(b, s->dtype) : jx_highest(b, s->dtype);
  HlInst *operands[] = {x, indices, first, hl_b_scalar_int(b, index, 0)};
  HlComp *comp = arg_comp(r, s->dtype, index);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(r->lo->m->arena, axes)};
  HlInst *both = comp ? hl_b_op(b, HL_OP_REDUCE, NULL, 4, operands, 1, &attr, 1, &comp) : NULL;
  return both && jx_give(r, hl_b_element(b, both, 1));
}

// --- Cumulative ----------------------------------------------------------------------------------------------------------

// log(exp(x) + exp(y))
static HlComp *logaddexp_comp(Rule *r, HlDtype dtype) {
  HlBuild b = hl_b_nested(r->b, "logaddexp");
  const HlShape *scalar = hl_shape_scalar(r->lo->m->shapes, dtype);
  HlInst *x = hl_b_parameter(&b, scalar, NULL), *y = hl_b_parameter(&b, scalar, NULL);
  HlInst *larger = hl_b_binary(&b, HL_OP_MAXIMUM, x, y),
         *delta = hl_b_binary(&b, HL_OP_SUBTRACT, x, y);
  HlInst *undefined = hl_b_compare(&b, HL_WORD_direction_NE, delta, delta);
  HlInst *e = hl_b_unary(&b, HL_OP_EXPONENTIAL,
                         hl_b_unary(&b, HL_OP_NEGATE, hl_b_unary(&b, HL_OP_ABS, delta)));
  HlInst *sum = hl_b_binary(&b, HL_OP_ADD, larger, hl_b_unary(&b, HL_OP_LOG_PLUS_ONE, e));
  HlInst *root = hl_b_select(&b, undefined, hl_b_binary(&b, HL_OP_ADD, x, y), sum);
  if (!root)
    return NULL;
  hl_set_root(b.comp, root);
  return b.comp;
}

// A window over all that comes before (after, in reverse).
static bool cumulative(Rule *r) {
  int64_t axis;
  if (!jx_want(r, 1) || !jx_param_int(r, "axis", &axis))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (axis < 0 || axis >= s->rank)
    return jx_fail(r, "axis %lld of %s", (long long)axis, jx_type_text(r->lo, s));
  if (s->dim[axis] == 0)
    return jx_give(r, r->in[0]);
  HlWindowDim *dim = HL_ARRAY(r->lo->m->arena, HlWindowDim, s->rank);
  for (int d = 0; d < s->rank; d++)
    dim[d] = (HlWindowDim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  dim[axis].size = s->dim[axis];
  *(jx_param_flag(r, "reverse") ? &dim[axis].pad_high : &dim[axis].pad_low) = s->dim[axis] - 1;
  HlAttr attr = {.key = HL_A_WINDOW, .window = {dim, s->rank}};
  const bool logs = r->row->op == HL_OP_LOG;
  HlComp *comp =
      logs ? logaddexp_comp(r, s->dtype) : hl_b_scalar_comp(r->b, (HlOp)r->row->op, s->dtype);
  HlInst *operands[] = {r->in[0], logs ? jx_lowest(r->b, s->dtype)
                                       : neutral(r->b, (HlOp)r->row->op, s->dtype)};
  return comp &&
         jx_give(r, hl_b_op(r->b, HL_OP_REDUCE_WINDOW, NULL, 2, operands, 1, &attr, 1, &comp));
}

const Row jx_reduce_rows[] = {{"reduce_sum", reduce_op, HL_OP_ADD, NULL},
                              {"reduce_prod", reduce_op, HL_OP_MULTIPLY, NULL},
                              {"reduce_max", reduce_op, HL_OP_MAXIMUM, NULL},
                              {"reduce_min", reduce_op, HL_OP_MINIMUM, NULL},
                              {"reduce_and", reduce_op, HL_OP_AND, NULL},
                              {"reduce_or", reduce_op, HL_OP_OR, NULL},
                              {"reduce_xor", reduce_op, HL_OP_XOR, NULL},
                              {"reduce", reduce_any, 0, NULL},
                              {"argmax", arg_reduce, HL_WORD_direction_GT, NULL},
                              {"argmin", arg_reduce, HL_WORD_direction_LT, NULL},
                              {"cumsum", cumulative, HL_OP_ADD, NULL},
                              {"cumprod", cumulative, HL_OP_MULTIPLY, NULL},
                              {"cummax", cumulative, HL_OP_MAXIMUM, NULL},
                              {"cummin", cumulative, HL_OP_MINIMUM, NULL},
                              {"cumlogsumexp", cumulative, HL_OP_LOG, NULL},
                              {NULL, NULL, 0, NULL}};
