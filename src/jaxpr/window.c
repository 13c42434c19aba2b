// Lowers reductions over sliding windows, and what goes back through them.
#include <math.h>
#include <string.h>

#include "jaxpr/lower.h"

// A list with an entry a dimension, ones when not written.
static bool window_list(Rule *r, const char *name, int rank, HlI64s *out) {
  if (jx_value_is_none(jx_param(r, name))) {
    *out = (HlI64s){jx_fill_ints(r, rank, 1), rank};
    return true;
  }
  return jx_param_ints(r, name, out) && jx_want_rank(r, name, *out, rank);
}

static bool window(Rule *r, int rank, HlAttr *out) {
  HlI64s size, stride, base, dilation, padding;
  if (!window_list(r, "window_dimensions", rank, &size) ||
      !window_list(r, "window_strides", rank, &stride) ||
      !window_list(r, "base_dilation", rank, &base) ||
      !window_list(r, "window_dilation", rank, &dilation) ||
      !jx_param_pairs(r, "padding", 2, &padding) ||
      !jx_want_rank(r, "padding", (HlI64s){padding.at, padding.n / 2}, rank))
    return false;
  HlWindowDim *dim = HL_ARRAY(r->lo->m->arena, HlWindowDim, rank);
  for (int d = 0; d < rank; d++)
    dim[d] = (HlWindowDim){.size = size.at[d],
                           .stride = stride.at[d],
                           .pad_low = padding.at[2 * d],
                           .pad_high = padding.at[2 * d + 1],
                           .lhs_dilate = base.at[d],
                           .rhs_dilate = dilation.at[d]};
  *out = (HlAttr){.key = HL_A_WINDOW, .window = {dim, rank}};
  return true;
}

static bool reduce_window_op(Rule *r) {
  HlAttr attr;
  if (!jx_want(r, 1) || !window(r, r->in[0]->shape->rank, &attr))
    return false;
  const HlDtype dtype = r->in[0]->shape->dtype;
  const HlOp op = (HlOp)r->row->op;
  HlInst *init = op == HL_OP_ADD       ? hl_b_scalar(r->b, dtype, 0)
                 : op == HL_OP_MAXIMUM ? jx_lowest(r->b, dtype)
                                       : jx_highest(r->b, dtype);
  HlInst *operands[] = {r->in[0], init};
  HlComp *comp = hl_b_scalar_comp(r->b, op, dtype);
  return comp &&
         jx_give(r, hl_b_op(r->b, HL_OP_REDUCE_WINDOW, NULL, 2, operands, 1, &attr, 1, &comp));
}

static bool reduce_window(Rule *r) {
  HlAttr attr;
  const Jaxpr *jaxpr = jx_param_jaxpr(r, "jaxpr");
  const int n = r->n / 2;
  if (!jaxpr)
    return false;
  if (n == 0 || r->n % 2 || jaxpr->n_out != n)
    return jx_fail(r, "expected as many initial values as arrays");
  if (!window(r, r->in[0]->shape->rank, &attr))
    return false;
  const HlShape **shapes = HL_ARRAY(r->lo->arena, const HlShape *, r->n);
  for (int k = 0; k < r->n; k++)
    shapes[k] = hl_shape_scalar(r->lo->m->shapes, r->in[k % n]->shape->dtype);
  HlComp *comp = jx_lower_comp(r->lo, jaxpr, "region", r->lo->path, r->n, shapes);
  HlInst *inst =
      comp ? hl_b_op(r->b, HL_OP_REDUCE_WINDOW, NULL, r->n, r->in, 1, &attr, 1, &comp) : NULL;
  return jx_give_all(r, inst, n);
}

// HL_WORD_direction_GE or LE of `select_prim`, or -1 after reporting.
static int select_direction(const Rule *r) {
  const Value *v = jx_param(r, "select_prim");
  if (jx_value_is(v, "ge"))
    return HL_WORD_direction_GE;
  if (jx_value_is(v, "le"))
    return HL_WORD_direction_LE;
  jx_fail(r, "expected ge or le as 'select_prim'");
  return -1;
}

// (x, y) -> x ? y
static HlComp *select_comp(Rule *r, int direction, HlDtype dtype) {
  HlBuild b = hl_b_nested(r->b, "select");
  const HlShape *scalar = hl_shape_scalar(r->lo->m->shapes, dtype);
  HlInst *x = hl_b_parameter(&b, scalar, NULL), *y = hl_b_parameter(&b, scalar, NULL);
  HlInst *root = hl_b_compare(&b, direction, x, y);
  if (!root)
    return NULL;
  hl_set_root(b.comp, root);
  return b.comp;
}

static bool scatter_back(Rule *r, HlInst *operand, HlInst *source, HlInst *init, HlComp *select,
                         HlComp *scatter) {
  HlAttr attr;
  if (!select || !scatter || !window(r, operand->shape->rank, &attr))
    return false;
  HlInst *operands[] = {operand, source, init};
  HlComp *comps[] = {select, scatter};
  return jx_give(r, hl_b_op(r->b, HL_OP_SELECT_AND_SCATTER, NULL, 3, operands, 1, &attr, 2, comps));
}

static bool select_and_scatter_add(Rule *r) {
  if (!jx_want(r, 2))
    return false;
  const HlDtype dtype = r->in[0]->shape->dtype;
  const int direction = select_direction(r);
  return direction >= 0 && scatter_back(r, r->in[1], r->in[0], hl_b_scalar(r->b, dtype, 0),
                                        select_comp(r, direction, r->in[1]->shape->dtype),
                                        hl_b_scalar_comp(r->b, HL_OP_ADD, dtype));
}

static bool select_and_scatter(Rule *r) {
  const Jaxpr *select = jx_param_jaxpr(r, "select_jaxpr"),
              *scatter = select ? jx_param_jaxpr(r, "scatter_jaxpr") : NULL;
  if (!scatter || !jx_want(r, 3))
    return false;
  const HlShape *scalar = hl_shape_scalar(r->lo->m->shapes, r->in[0]->shape->dtype),
                *shapes[] = {scalar, scalar};
  HlComp *select_of = jx_lower_comp(r->lo, select, "select", r->lo->path, 2, shapes);
  HlComp *scatter_of =
      select_of ? jx_lower_comp(r->lo, scatter, "scatter", r->lo->path, 2, shapes) : NULL;
  return scatter_of && scatter_back(r, r->in[0], r->in[1], r->in[2], select_of, scatter_of);
}

// (operand, tangent) pairs: the pair whose operand is selected.
static HlComp *pair_comp(Rule *r, int direction, HlDtype dtype, HlDtype tangent) {
  HlBuild b = hl_b_nested(r->b, "region");
  HlShapes *shapes = r->lo->m->shapes;
  HlInst *p[4], *pair[2];
  for (int k = 0; k < 4; k++)
    p[k] = hl_b_parameter(&b, hl_shape_scalar(shapes, k % 2 ? tangent : dtype), NULL);
  HlInst *first = hl_b_compare(&b, direction, p[0], p[2]);
  for (int k = 0; k < 2; k++)
    pair[k] = hl_b_select(&b, first, p[k], p[k + 2]);
  HlInst *root = hl_b_tuple(&b, 2, pair);
  if (!root)
    return NULL;
  hl_set_root(b.comp, root);
  return b.comp;
}

static bool select_and_gather_add(Rule *r) {
  HlAttr attr;
  if (!jx_want(r, 2) || !window(r, r->in[1]->shape->rank, &attr))
    return false;
  const int direction = select_direction(r);
  const HlDtype dtype = r->in[1]->shape->dtype, tangent = r->in[0]->shape->dtype;
  if (direction < 0)
    return false;
  HlInst *init =
      direction == HL_WORD_direction_GE ? jx_lowest(r->b, dtype) : jx_highest(r->b, dtype);
  HlInst *operands[] = {r->in[1], r->in[0], init, hl_b_scalar(r->b, tangent, 0)};
  HlComp *comp = pair_comp(r, direction, dtype, tangent);
  HlInst *both =
      comp ? hl_b_op(r->b, HL_OP_REDUCE_WINDOW, NULL, 4, operands, 1, &attr, 1, &comp) : NULL;
  return both && jx_give(r, hl_b_element(r->b, both, 1));
}

const Row jx_window_rows[] = {{"reduce_window", reduce_window, 0, NULL},
                              {"reduce_window_sum", reduce_window_op, HL_OP_ADD, NULL},
                              {"reduce_window_max", reduce_window_op, HL_OP_MAXIMUM, NULL},
                              {"reduce_window_min", reduce_window_op, HL_OP_MINIMUM, NULL},
                              {"select_and_scatter_add", select_and_scatter_add, 0, NULL},
                              {"select_and_scatter", select_and_scatter, 0, NULL},
                              {"select_and_gather_add", select_and_gather_add, 0, NULL},
                              {NULL, NULL, 0, NULL}};
