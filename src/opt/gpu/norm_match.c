// opt/gpu/norm_match.c: recognises layer normalisations.
//
// The pattern is a tree of arithmetic in which means (arrays without the reduced dimensions) are broadcast
// where they meet x. A view of a value says along which of x's dimensions its own ones go, so that reshapes
// and broadcasts on the way can be looked through without losing track.

#include <math.h>

#include "opt/gpu/norm.h"

// --- Views ----------------------------------------------------------------------------------------

static bool is_small_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && shape->rank <= NORM_MAX_DIMS && !hl_shape_is_dynamic(shape) &&
         hl_shape_elements(shape) > 0;
}

NormView norm_whole(HlInst *inst) {
  NormView v = {.inst = inst};
  int n = 0;
  for (int k = 0; k < inst->shape->rank; k++)
    v.dim[k] = inst->shape->dim[k] > 1 ? n++ : -1;
  return v;
}

NormView norm_operand(const NormView *v, HlInst *operand) {
  NormView to = *v;
  to.inst = operand;
  return to;
}

static bool widens(const HlInst *convert) {
  const HlDtype from = convert->operands[0]->shape->dtype, to = convert->shape->dtype;
  return hl_is_float(from) && hl_is_float(to) && hl_dtype_info[from].bits < hl_dtype_info[to].bits;
}

// Only dimensions of size 1 come and go.
static bool through_reshape(NormView *v) {
  const HlShape *to = v->inst->shape, *from = v->inst->operands[0]->shape;
  if (!is_small_array(from) || from->dtype != to->dtype)
    return false;
  NormView below = {.inst = v->inst->operands[0]};
  int k = 0;
  for (int d = 0; d < from->rank; d++) {
    below.dim[d] = -1;
    if (from->dim[d] == 1)
      continue;
    while (k < to->rank && to->dim[k] == 1)
      k++;
    if (k == to->rank || to->dim[k] != from->dim[d])
      return false;
    below.dim[d] = v->dim[k++];
  }
  while (k < to->rank && to->dim[k] == 1)
    k++;
  *v = below;
  return k == to->rank;
}

static void through_broadcast(NormView *v) {
  NormView below = {.inst = v->inst->operands[0]};
  for (int k = 0; k < below.inst->shape->rank; k++)
    below.dim[k] = v->dim[hl_dims(v->inst).at[k]];
  *v = below;
}

static bool step_down(NormView *v, bool broadcasts) {
  const HlInst *inst = v->inst;
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return through_reshape(v);
  switch (inst->op) {
  case HL_OP_CONVERT:
    if (!widens(inst))
      return false;
    v->inst = inst->operands[0];
    return true;
  case HL_OP_BROADCAST:
    if (broadcasts)
      through_broadcast(v);
    return broadcasts;
  default: return false;
  }
}

NormView norm_below(NormView v, bool broadcasts) {
  for (NormView next = v; step_down(&next, broadcasts); v = next)
    ;
  return v;
}

// --- Parts of the pattern -------------------------------------------------------------------------

bool norm_spans_all(const Norm *n, const NormView *v) {
  int next = 0;
  for (int k = 0; k < v->inst->shape->rank; k++)
    if (v->inst->shape->dim[k] > 1 && v->dim[k] != next++)
      return false;
  return next == n->n_dims;
}

// The whole of x, perhaps widened.
static bool is_x(Norm *n, NormView v) {
  v = norm_below(v, false);
  if (!norm_spans_all(n, &v) || (n->x && n->x != v.inst))
    return false;
  n->x = v.inst;
  return true;
}

int64_t norm_length(const Norm *n) {
  int64_t count = 1;
  for (int k = 0; k < n->n_dims; k++)
    count *= n->reduced >> k & 1 ? n->size[k] : 1;
  return count;
}

uint32_t norm_sum_of(const Norm *n, const NormView *v, NormView *of) {
  const HlInst *reduce = v->inst;
  if (reduce->op != HL_OP_REDUCE || reduce->n_operands != 2 ||
      hl_reducer(hl_to_apply(reduce)) != HL_OP_ADD || !hl_is_all(reduce->operands[1], 0) ||
      !is_small_array(reduce->operands[0]->shape))
    return 0;
  *of = norm_whole(reduce->operands[0]);
  const HlShape *shape = of->inst->shape;
  const HlI64s dims = hl_dims(reduce);
  uint32_t reduced = 0;
  int kept = 0;
  for (int d = 0; d < shape->rank; d++) {
    const bool is_reduced = hl_i64s_find(dims, d) >= 0;
    if (shape->dim[d] > 1 && (of->dim[d] >= n->n_dims || n->size[of->dim[d]] != shape->dim[d]))
      return 0;
    if (is_reduced && shape->dim[d] > 1)
      reduced |= 1u << of->dim[d];
    if (!is_reduced && shape->dim[d] > 1 && v->dim[kept] != of->dim[d])
      return 0;
    kept += !is_reduced;
  }
  return norm_spans_all(n, of) ? reduced : 0;
}

// A sum along the same dimensions as before.
static bool match_sum(Norm *n, const NormView *v, NormView *of) {
  const uint32_t reduced = norm_sum_of(n, v, of);
  if (reduced == 0 || (n->reduced != 0 && n->reduced != reduced))
    return false;
  n->reduced = reduced;
  return true;
}

// As far as the type of the constant says.
static bool is_one_over(const HlLiteral *c, bool inverse, double count) {
  const double expected = inverse ? count : 1 / count, is = hl_literal_f64(c, 0);
  const double allowed = c->shape->dtype == HL_F32 ? 1e-5 : 0x1p-7;
  return fabs(is - expected) <= allowed * expected;
}

// A mean of something, sum * (1 / n): *mean gets the product.
static bool match_mean(Norm *n, NormView v, NormView *of, HlInst **mean) {
  v = norm_below(v, true);
  HlInst *product = v.inst;
  if (product->op != HL_OP_MULTIPLY && product->op != HL_OP_DIVIDE)
    return false;
  const bool divides = product->op == HL_OP_DIVIDE;
  for (int k = divides; k < 2; k++) {
    const HlLiteral *c = hl_splat(product->operands[k]);
    const NormView sum = norm_below(norm_operand(&v, product->operands[1 - k]), true);
    if (!c || !hl_is_float(c->shape->dtype) || !match_sum(n, &sum, of) ||
        !is_one_over(c, divides, (double)norm_length(n)))
      continue;
    *mean = product;
    return true;
  }
  return false;
}

static bool is_mean_of_x(Norm *n, NormView v, HlInst **mean) {
  NormView of;
  return match_mean(n, v, &of, mean) && is_x(n, of);
}

static bool match_square(NormView v, NormView *of) {
  v = norm_below(v, false);
  const HlInst *inst = v.inst;
  if (inst->op != HL_OP_MULTIPLY && inst->op != HL_OP_POWER)
    return false;
  *of = norm_operand(&v, inst->operands[0]);
  return inst->op == HL_OP_MULTIPLY ? inst->operands[0] == inst->operands[1]
                                    : hl_is_all(inst->operands[1], 2);
}

static bool match_centered(Norm *n, NormView v, HlInst **mean) {
  v = norm_below(v, false);
  return v.inst->op == HL_OP_SUBTRACT && is_x(n, norm_operand(&v, v.inst->operands[0])) &&
         is_mean_of_x(n, norm_operand(&v, v.inst->operands[1]), mean);
}

// Rounding alone makes a variance less than 0.
static NormView without_maximum(NormView v) {
  const NormView max = norm_below(v, true);
  for (int k = 0; k < 2 && max.inst->op == HL_OP_MAXIMUM; k++)
    if (hl_is_all(max.inst->operands[k], 0))
      return norm_operand(&max, max.inst->operands[1 - k]);
  return v;
}

// The mean of squares of what is left of x without its mean, or mean of squares minus square of mean.
static bool is_variance(Norm *n, NormView v) {
  v = without_maximum(v);
  NormView squares, of;
  HlInst *mean;
  if (match_mean(n, v, &squares, &mean) && match_square(squares, &of) &&
      match_centered(n, of, &mean))
    return true;
  v = norm_below(v, true);
  return v.inst->op == HL_OP_SUBTRACT &&
         match_mean(n, norm_operand(&v, v.inst->operands[0]), &squares, &mean) &&
         match_square(squares, &of) && is_x(n, of) &&
         match_square(norm_operand(&v, v.inst->operands[1]), &of) && is_mean_of_x(n, of, &mean);
}

static bool match_factor(Norm *n, NormView v) {
  v = norm_below(v, true);
  if (v.inst->op != HL_OP_RSQRT)
    return false;
  const NormView sum = norm_below(norm_operand(&v, v.inst->operands[0]), true);
  if (sum.inst->op != HL_OP_ADD)
    return false;
  for (int k = 0; k < 2; k++) {
    const HlLiteral *epsilon = hl_splat(sum.inst->operands[k]);
    if (!epsilon || !is_variance(n, norm_operand(&sum, sum.inst->operands[1 - k])))
      continue;
    n->factor = v.inst;
    n->epsilon = hl_literal_f64(epsilon, 0);
    return isfinite(n->epsilon);
  }
  return false;
}

uint32_t norm_dims_of(const NormView *v) {
  uint32_t met = 0;
  for (int k = 0; k < v->inst->shape->rank; k++) {
    if (v->inst->shape->dim[k] == 1)
      continue;
    if (v->dim[k] < 0 || met >> v->dim[k])
      return 0;
    met |= 1u << v->dim[k];
  }
  return met;
}

// A value for each place along the reduced dimensions, the same for all else.
static bool match_weights(const Norm *n, NormView v, HlInst **weights) {
  if (v.inst->op != HL_OP_BROADCAST)
    return false;
  through_broadcast(&v);
  *weights = v.inst;
  return norm_dims_of(&v) == n->reduced;
}

// --- The whole ------------------------------------------------------------------------------------

bool norm_factors(const HlInst *inst, int which, HlInst *out[3]) {
  if (inst->op != HL_OP_MULTIPLY || inst->operands[which]->op != HL_OP_MULTIPLY)
    return false;
  out[0] = inst->operands[1 - which];
  out[1] = inst->operands[which]->operands[0];
  out[2] = inst->operands[which]->operands[1];
  return true;
}

typedef bool Role(Norm *n, NormView v);

static bool is_centered(Norm *n, NormView v) {
  return match_centered(n, v, &n->mean);
}

static bool is_whole_x(Norm *n, NormView v) {
  return is_x(n, v);
}

static bool is_mean(Norm *n, NormView v) {
  return is_mean_of_x(n, v, &n->mean);
}

// first * factor * scale, in any order.
static bool match_product(Norm *n, HlInst *inst, Role *first) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  HlInst *leaf[3];
  const HlInst *scale = n->scale, *factor = n->factor;
  for (int which = 0; which < 2; which++)
    for (int k = 0; k < 6 && norm_factors(inst, which, leaf); k++) {
      Norm attempt = *n;
      const int *at = orders[k];
      if (first(&attempt, norm_whole(leaf[at[0]])) &&
          match_factor(&attempt, norm_whole(leaf[at[1]])) &&
          match_weights(&attempt, norm_whole(leaf[at[2]]), &attempt.scale) &&
          (!scale || scale == attempt.scale) && (!factor || factor == attempt.factor)) {
        *n = attempt;
        return true;
      }
    }
  return false;
}

static bool has_bias(Norm *n, HlInst *bias) {
  return match_weights(n, norm_whole(bias), &n->bias);
}

// x * factor * scale - mean * factor * scale + bias
static bool match_terms(Norm *n, HlInst *plus, HlInst *minus, HlInst *bias) {
  Norm attempt = *n;
  if (!match_product(&attempt, plus, is_whole_x) || !match_product(&attempt, minus, is_mean) ||
      !has_bias(&attempt, bias))
    return false;
  *n = attempt;
  return true;
}

static bool match_difference(Norm *n, const HlInst *y) {
  HlInst *a = y->operands[0], *c = y->operands[1];
  if (y->op == HL_OP_SUBTRACT)
    return a->op == HL_OP_ADD && (match_terms(n, a->operands[0], c, a->operands[1]) ||
                                  match_terms(n, a->operands[1], c, a->operands[0]));
  for (int k = 0; k < 2; k++) {
    const HlInst *minus = y->operands[k];
    HlInst *other = y->operands[1 - k];
    if (minus->op == HL_OP_SUBTRACT &&
        (match_terms(n, minus->operands[0], minus->operands[1], other) ||
         match_terms(n, other, minus->operands[1], minus->operands[0])))
      return true;
  }
  return false;
}

static bool match_product_and_bias(Norm *n, const HlInst *y) {
  for (int k = 0; k < 2 && y->op == HL_OP_ADD; k++) {
    Norm attempt = *n;
    if (match_product(&attempt, y->operands[k], is_centered) &&
        has_bias(&attempt, y->operands[1 - k])) {
      *n = attempt;
      return true;
    }
  }
  return false;
}

bool norm_start(const HlInst *y, Norm *out) {
  *out = (Norm){0};
  if (!is_small_array(y->shape) || !hl_is_float(y->shape->dtype))
    return false;
  for (int k = 0; k < y->shape->rank; k++)
    if (y->shape->dim[k] != 1)
      out->size[out->n_dims++] = y->shape->dim[k];
  return out->n_dims > 1;
}

bool norm_match(const HlInst *y, Norm *out) {
  if ((y->op != HL_OP_ADD && y->op != HL_OP_SUBTRACT) || !norm_start(y, out))
    return false;
  return match_product_and_bias(out, y) || match_difference(out, y);
}
