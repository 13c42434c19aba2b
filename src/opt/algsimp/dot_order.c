// opt/algsimp/dot_order.c: products in another order, where that is less work (D10, E13).
//
//   d = f32[100,100] dot(a [100,2], b [2,100])                e = f32[2] dot(b, v)
//   r = f32[100] dot(d, v [100])                         =>   r = f32[100] dot(a, e)
#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"

static bool is_plain(const HlPass *p, const HlInst *dot) {
  return !alg_sensitive(p) && dot->op == HL_OP_DOT && all_static(dot) &&
         hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n == 0 && hl_is_float(dot->shape->dtype);
}

static double work_of(HlPass *p, const HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  return (double)hl_shape_elements(dot->shape) *
         (double)dims_product(dot->operands[0]->shape, d.contract[0]);
}

// --- D10 -----------------------------------------------------------------------------------------

// Dimensions of the inner dot's result as dimensions of its operand `side`; false if some are the
// other operand's.
static bool all_of_side(DotDims inner, HlI64s dims, int side, int64_t *out) {
  int first = side == 0 ? 0 : inner.free[0].n;
  for (int k = 0; k < dims.n; k++) {
    int64_t at = dims.at[k] - first;
    if (at < 0 || at >= inner.free[side].n)
      return false;
    out[k] = inner.free[side].at[at];
  }
  return true;
}

// Operand `side` of the inner dot, in which the outer dot contracts `dims`, times the outer
// operand, each on its side; then the inner dot's other operand times that.
static HlInst *reordered(HlPass *p, HlBuild *b, HlInst *outer, HlInst *inner, int side,
                         HlI64s dims) {
  DotDims in = dot_dims(p->arena, inner), out = dot_dims(p->arena, outer);
  HlInst *near = inner->operands[side], *far = inner->operands[1 - side];
  HlInst *other = outer->operands[side];
  HlI64s none = {0}, other_dims = out.contract[side];
  HlI64s kept = dims_except(p->arena, near->shape->rank, dims, none);
  int shift = side == 0 ? out.free[0].n : 0;
  int64_t *place = alg_list(p, in.contract[side].n);
  for (int k = 0; k < in.contract[side].n; k++)
    place[k] = hl_i64s_find(kept, in.contract[side].at[k]) + shift;
  HlI64s summed = {place, in.contract[side].n};
  if (side == 1) {
    HlInst *first = dot_like(b, outer, near, other, none, none, dims, other_dims);
    return dot_like(b, outer, far, first, none, none, in.contract[0], summed);
  }
  HlInst *first = dot_like(b, outer, other, near, none, none, other_dims, dims);
  return dot_like(b, outer, first, far, none, none, summed, in.contract[1]);
}

// dot(dot(a, b), c) has the inner dot on the left: what is near c is b, its right operand.
HlInst *alg_d10_reorder(HlPass *p, HlBuild *b, HlInst *outer) {
  if (!alg_options(p)->use_associative_reordering || !is_plain(p, outer))
    return NULL;
  DotDims out = dot_dims(p->arena, outer);
  for (int s = 0; s < 2; s++) {
    HlInst *inner = outer->operands[s];
    if (!is_plain(p, inner) || !hl_one_user(inner) || inner->shape->dtype != outer->shape->dtype)
      continue;
    int side = 1 - s;
    int64_t *dims = alg_list(p, out.contract[s].n);
    if (!all_of_side(dot_dims(p->arena, inner), out.contract[s], side, dims))
      continue;
    HlInst *by = reordered(p, b, outer, inner, side, (HlI64s){dims, out.contract[s].n});
    if (!by)
      return NULL;
    double before = work_of(p, outer) + work_of(p, inner);
    double after = work_of(p, by) + work_of(p, by->operands[side]);
    if (before >= alg_options(p)->associative_reordering_threshold * after)
      return by;
  }
  return NULL;
}

// --- E13 -----------------------------------------------------------------------------------------

// The sum of one operand over the free dimensions that the reduction sums over.
static HlInst *summed_operand(HlPass *p, HlBuild *b, HlInst *reduce, HlInst *x, HlI64s dims) {
  HlInst *operands[] = {x, reduce->operands[1]};
  HlComp *reducer = hl_to_apply(reduce);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(p->m->arena, dims)};
  return dims.n == 0 ? x : hl_b_op(b, HL_OP_REDUCE, NULL, 2, operands, 1, &attr, 1, &reducer);
}

HlInst *alg_e13_of_dot(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *dot = reduce->operands[0];
  if (!alg_options(p)->raise_slice_and_reduce_through_dot || reduce->n_operands != 2 ||
      !is_plain(p, dot) || !hl_one_user(dot) || hl_reducer(hl_to_apply(reduce)) != HL_OP_ADD ||
      !hl_is_all(reduce->operands[1], 0))
    return NULL;
  DotDims d = dot_dims(p->arena, dot);
  HlInst *x[2];
  double more = 0;
  for (int s = 0; s < 2; s++) {
    if (dot->operands[s]->shape->dtype != dot->shape->dtype)
      return NULL;
    int64_t *list = alg_list(p, d.free[s].n);
    int n = 0;
    for (int k = 0; k < d.free[s].n; k++)
      if (alg_has(hl_dims(reduce), k + (s == 0 ? 0 : d.free[0].n)))
        list[n++] = d.free[s].at[k];
    HlI64s gone = {list, n};
    x[s] = summed_operand(p, b, reduce, dot->operands[s], gone);
    more += n > 0 ? (double)hl_shape_elements(dot->operands[s]->shape) : 0;
    HlI64s kept = dims_except(p->arena, dot->operands[s]->shape->rank, gone, (HlI64s){0});
    int64_t *place = alg_list(p, d.contract[s].n);
    for (int k = 0; k < d.contract[s].n; k++)
      place[k] = hl_i64s_find(kept, d.contract[s].at[k]);
    d.contract[s].at = place;
  }
  HlInst *by = dot_of(b, dot, x[0], x[1], d);
  double threshold = alg_options(p)->raise_slice_and_reduce_through_dot_threshold;
  return by && work_of(p, dot) >= threshold * (work_of(p, by) + more) ? by : NULL;
}
