// opt/algsimp/option.c: algebraic rules that wait for an option (D11, D14, D16, D17, E22).
//
// What is done to one operand of a dot may be done to the other one instead, where that is smaller
// or makes the dot smaller:
//
//   dot(pad(a [4], 0, padding=0_96), b [100])  =>  dot(a, b[0:4])
//   transpose(a * 2) dot (b * 3)               =>  transpose(a) dot b, times 6 where it is smallest
#include <math.h>

#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

static bool is_plain_dot(const HlPass *p, const HlInst *dot) {
  return !alg_sensitive(p) && all_static(dot) && hl_is_float(dot->shape->dtype) &&
         dot->operands[0]->shape->dtype == dot->shape->dtype &&
         dot->operands[1]->shape->dtype == dot->shape->dtype && dot->n_operands == 2;
}

// --- D11: what is done along contracting dimensions -----------------------------------------------

// The other operand's dimension that is contracted with dimension d of this side; -1: none.
static int64_t partner(const DotDims *d, int side, int64_t dim) {
  int at = hl_i64s_find(d->contract[side], dim);
  return at < 0 ? -1 : d->contract[1 - side].at[at];
}

static HlInst *mirror_reverse(HlPass *p, HlBuild *b, const HlInst *moved, HlInst *other, DotDims *d,
                              int side) {
  HlI64s dims = hl_dims(moved);
  int64_t *list = alg_list(p, dims.n);
  for (int k = 0; k < dims.n; k++)
    if ((list[k] = partner(d, side, dims.at[k])) < 0)
      return NULL;
  return hl_b_reverse(b, other, hl_i64s_copy(p->m->arena, (HlI64s){list, dims.n}));
}

// Rows of the other operand that meet the padding do not count.
static HlInst *mirror_pad(HlPass *p, HlBuild *b, const HlInst *moved, HlInst *other, DotDims *d,
                          int side) {
  HlI64s triples = hl_attr_ints(moved, HL_A_PADDING);
  const int rank = other->shape->rank;
  int64_t *start = alg_list(p, rank), *limit = alg_list(p, rank);
  if (!hl_is_all(moved->operands[1], 0))
    return NULL;
  for (int k = 0; k < rank; k++)
    limit[k] = other->shape->dim[k];
  for (int k = 0; k < moved->shape->rank; k++) {
    const int64_t *t = &triples.at[3 * k], to = partner(d, side, k);
    if (t[0] == 0 && t[1] == 0 && t[2] == 0)
      continue;
    if (to < 0 || t[0] < 0 || t[1] < 0 || t[2] != 0)
      return NULL;
    start[to] = t[0];
    limit[to] -= t[1];
  }
  return hl_b_slice(b, other, start, limit, NULL);
}

// Where one operand does not change along a dimension, the other one is summed up first. `dims` and
// `other_dims` become the contracting dimensions that are left.
static HlInst *mirror_broadcast(HlPass *p, HlBuild *b, const HlInst *moved, HlInst *other,
                                DotDims *d, int side) {
  HlI64s from = hl_dims(moved);
  int64_t *gone = alg_list(p, moved->shape->rank);
  int n = 0;
  if (!alg_ascending(from))
    return NULL;
  for (int k = 0; k < moved->shape->rank; k++)
    if (!alg_has(from, k) && (gone[n++] = partner(d, side, k)) < 0)
      return NULL;
  if (n == 0)
    return NULL;
  HlI64s summed = {gone, n};
  HlI64s kept = dims_except(p->arena, other->shape->rank, summed, (HlI64s){0});
  HlI64s *own = d->contract + side, *far = d->contract + 1 - side;
  int64_t *left = alg_list(p, own->n), *right = alg_list(p, own->n);
  int n_left = 0;
  for (int k = 0; k < own->n; k++)
    if (alg_has(from, own->at[k])) {
      left[n_left] = hl_i64s_find(from, own->at[k]);
      right[n_left++] = hl_i64s_find(kept, far->at[k]);
    }
  *own = (HlI64s){left, n_left};
  *far = (HlI64s){right, n_left};
  for (int s = 0; s < 2; s++) {
    int64_t *batch = alg_list(p, d->batch[s].n);
    for (int k = 0; k < d->batch[s].n; k++)
      batch[k] = hl_i64s_find(s == side ? from : kept, d->batch[s].at[k]);
    d->batch[s].at = batch;
  }
  return hl_b_reduce(b, HL_OP_ADD, other, hl_b_scalar(b, other->shape->dtype, 0),
                     hl_i64s_copy(p->m->arena, summed));
}

typedef HlInst *MirrorFn(HlPass *p, HlBuild *b, const HlInst *moved, HlInst *other, DotDims *d,
                         int side);
static MirrorFn *const mirror_of[HL_OP_COUNT] = {[HL_OP_REVERSE] = mirror_reverse,
                                                 [HL_OP_PAD] = mirror_pad,
                                                 [HL_OP_BROADCAST] = mirror_broadcast};

static HlInst *mirrored(HlPass *p, HlBuild *b, const HlInst *moved, HlInst *other, DotDims *d,
                        int side) {
  return mirror_of[moved->op] ? mirror_of[moved->op](p, b, moved, other, d, side) : NULL;
}

// Elements that are touched with the operation on this side: of the operand it makes, or (reverse)
// moves.
static double gain(const HlInst *moved, const HlInst *other) {
  const double before = (double)hl_shape_elements(moved->shape);
  const HlShape *after = moved->op == HL_OP_REVERSE ? other->shape : moved->operands[0]->shape;
  return before / ((double)hl_shape_elements(after) + 1e-9);
}

HlInst *alg_d11_mirror(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!alg_options(p)->use_associative_reordering || !is_plain_dot(p, dot))
    return NULL;
  for (int s = 0; s < 2; s++) {
    HlInst *moved = dot->operands[s], *other = dot->operands[1 - s];
    if (moved->op != HL_OP_REVERSE && moved->op != HL_OP_PAD && moved->op != HL_OP_BROADCAST)
      continue;
    if (!hl_one_user(moved) || moved == other || gain(moved, other) <= 1 ||
        gain(moved, other) < alg_options(p)->associative_reordering_threshold)
      continue;
    DotDims d = dot_dims(p->arena, dot);
    HlInst *x[2];
    x[1 - s] = mirrored(p, b, moved, other, &d, s);
    x[s] = moved->operands[0];
    if (x[1 - s])
      return dot_of(b, dot, x[0], x[1], d);
  }
  return NULL;
}

// --- Convolutions ---------------------------------------------------------------------------------

HlInst *alg_d14_swap(HlPass *p, HlBuild *b, HlInst *conv) {
  // Libraries on CPUs look for kernels where models have them.
  if (alg_sensitive(p) || !alg_options(p)->enable_conv_operand_swap ||
      alg_options(p)->executing_on_cpu)
    return NULL;
  return conv_operand_swapper_rules[0].apply(p, b, conv);
}

// The dimension of the result that stands for each dimension of the input.
static HlI64s output_places(HlPass *p, const HlDimLabels *labels, int rank) {
  int64_t *place = alg_list(p, rank);
  place[labels->input_batch] = labels->output_batch;
  place[labels->input_feature] = labels->output_feature;
  for (int k = 0; k < labels->input_spatial.n; k++)
    place[labels->input_spatial.at[k]] = labels->output_spatial.at[k];
  return (HlI64s){place, rank};
}

// Each output feature is a sum over the few input features of its own group: elementwise work.
HlInst *alg_d16_points(HlPass *p, HlBuild *b, HlInst *conv) {
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  const HlInst *x = conv->operands[0], *kernel = conv->operands[1];
  const int rank = conv->shape->rank;
  const int64_t groups = hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT);
  if (alg_sensitive(p) || alg_options(p)->executing_on_cpu || !labels ||
      !alg_options(p)->enable_conv_simplification || !all_static(conv) ||
      !alg_is_one_point(hl_window(conv)) || hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT) != 1 ||
      groups < 2 || groups != conv->shape->dim[labels->output_feature] ||
      x->shape->dtype != conv->shape->dtype || kernel->shape->dtype != conv->shape->dtype)
    return NULL;
  // The input with the features of a group as a last dimension, in the result's order.
  const int64_t each = kernel->shape->dim[labels->kernel_input];
  const int64_t at = labels->input_feature;
  int64_t *split = alg_list(p, rank + 1), *order = alg_list(p, rank + 1);
  HlI64s place = output_places(p, labels, rank);
  for (int d = 0, n = 0; d < rank; d++) {
    order[place.at[d]] = n;
    split[n++] = d == at ? groups : x->shape->dim[d];
    if (d == at) {
      order[rank] = n;
      split[n++] = each;
    }
  }
  HlInst *parts = hl_b_reshape(b, conv->operands[0], rank + 1, split);
  parts =
      parts ? hl_b_transpose(b, parts, hl_i64s_copy(p->m->arena, (HlI64s){order, rank + 1})) : NULL;
  int64_t flat[] = {groups, each};
  const bool turned = labels->kernel_input < labels->kernel_output;
  HlInst *weights = turned ? hl_b_reshape(b, conv->operands[1], 2, (int64_t[]){each, groups})
                           : hl_b_reshape(b, conv->operands[1], 2, flat);
  int64_t to[] = {labels->output_feature, rank};
  if (!parts || !weights)
    return NULL;
  if (turned)
    weights = hl_b_transpose(b, weights, hl_i64s_copy(p->m->arena, (HlI64s){(int64_t[]){1, 0}, 2}));
  weights = hl_b_broadcast(b, weights, rank + 1, parts->shape->dim,
                           hl_i64s_copy(p->m->arena, (HlI64s){to, 2}));
  HlInst *products = hl_b_binary(b, HL_OP_MULTIPLY, parts, weights);
  int64_t last = rank;
  return hl_b_reduce(b, HL_OP_ADD, products, hl_b_scalar(b, conv->shape->dtype, 0),
                     hl_i64s_copy(p->m->arena, (HlI64s){&last, 1}));
}

HlInst *alg_d17_widen(HlPass *p, HlBuild *b, HlInst *conv) {
  if (!alg_options(p)->enable_onednn_support || !alg_options(p)->executing_on_cpu ||
      conv->shape->dtype != HL_BF16 || conv->operands[0]->shape->dtype != HL_BF16 ||
      conv->operands[1]->shape->dtype != HL_BF16)
    return NULL;
  HlInst *x[] = {hl_b_convert(b, conv->operands[0], HL_F32),
                 hl_b_convert(b, conv->operands[1], HL_F32)};
  if (!x[0] || !x[1])
    return NULL;
  for (int k = 0; k < 2; k++)
    hl_set_shape(x[k], hl_shape_with_dtype(p->m->shapes, conv->operands[k]->shape, HL_F32));
  const HlShape *wide = hl_shape_with_dtype(p->m->shapes, conv->shape, HL_F32);
  return alg_shaped(hl_b_convert(b, hl_inst_copy(b->comp, conv, wide, 2, x), HL_BF16), conv->shape);
}

// --- E22: constant factors around a product -------------------------------------------------------

enum { MOST_STEPS = HL_RULE_REACH - 2 };  // the factor and what it is follow

// x of multiply(x, broadcast(c)), c a scalar constant, and c; NULL: no such thing.
static HlInst *without_factor(HlInst *inst, double *factor) {
  if (inst->op != HL_OP_MULTIPLY)
    return NULL;
  for (int k = 0; k < 2; k++) {
    const HlLiteral *c = hl_splat(inst->operands[k]);
    if (c && !hl_splat(inst->operands[1 - k])) {
      *factor *= hl_literal_f64(c, 0);
      return inst->operands[1 - k];
    }
  }
  return NULL;
}

// The operand whose elements, times a factor, are those of the result without it; -1: none. Zeros are
// what they were, whatever the factor.
static int carrier(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_TRANSPOSE:
  case HL_OP_RESHAPE: return 0;
  case HL_OP_SELECT:
    return hl_is_all(inst->operands[2], 0) ? 1 : hl_is_all(inst->operands[1], 0) ? 2 : -1;
  default: return -1;
  }
}

static HlInst *copy_with(HlBuild *b, const HlInst *inst, int at, HlInst *x) {
  HlInst *operands[3];
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = (int)k == at ? x : inst->operands[k];
  return hl_inst_copy(b->comp, inst, NULL, (int)inst->n_operands, operands);
}

// The operand without a factor that stands before it, or before what only moves its elements or
// masks them.
static HlInst *strip(HlBuild *b, HlInst *inst, double *factor) {
  HlInst *moved[MOST_STEPS];
  double found = 1;
  int n = 0;
  HlInst *x = NULL;
  while (!(x = without_factor(inst, &found))) {
    if (carrier(inst) < 0 || !hl_one_user(inst) || n == MOST_STEPS)
      return NULL;
    moved[n++] = inst;
    inst = inst->operands[carrier(inst)];
  }
  if (!hl_one_user(inst) || !isfinite(found))
    return NULL;
  *factor *= found;
  while (n-- > 0)
    x = copy_with(b, moved[n], carrier(moved[n]), x);
  return x;
}

static bool takes_factors(const HlPass *p, const HlInst *dot) {
  const HlDtype dtype = dot->shape->dtype;
  return alg_options(p)->enable_scalar_multiply_reduction && !alg_sensitive(p) && all_static(dot) &&
         (dot->op == HL_OP_DOT || dot->op == HL_OP_CONVOLUTION) && dot->n_operands == 2 &&
         (dtype == HL_F32 || dtype == HL_BF16) && dot->operands[0]->shape->dtype == dtype &&
         dot->operands[1]->shape->dtype == dtype;
}

// 0, 1: the operand, 2: the result.
static int smallest(const HlInst *dot) {
  const int64_t n[] = {hl_shape_elements(dot->operands[0]->shape),
                       hl_shape_elements(dot->operands[1]->shape), hl_shape_elements(dot->shape)};
  int best = n[1] < n[0];
  return n[2] < n[best] ? 2 : best;
}

static HlInst *times(HlBuild *b, HlInst *x, double factor) {
  return hl_b_binary(b, HL_OP_MULTIPLY, x, alg_full(b, x->shape, factor));
}

// The product with all factors, `factor` and those of its operands, in one place.
static HlInst *collect(HlBuild *b, const HlInst *dot, double factor, int factors) {
  HlInst *x[2];
  const int to = smallest(dot);
  bool in_place = factors == 0;
  for (int s = 0; s < 2; s++) {
    HlInst *bare = strip(b, dot->operands[s], &factor);
    x[s] = bare ? bare : dot->operands[s];
    factors += bare != NULL;
    in_place &= !bare || (s == to && dot->operands[s]->op == HL_OP_MULTIPLY);
  }
  if (factors == 0 || (factors == 1 && in_place))
    return NULL;
  if (to < 2)
    x[to] = times(b, x[to], factor);
  if (!x[0] || !x[1])
    return NULL;
  HlInst *made = hl_inst_copy(b->comp, dot, NULL, 2, x);
  return to == 2 ? times(b, made, factor) : made;
}

HlInst *alg_e22_operands(HlPass *p, HlBuild *b, HlInst *dot) {
  return takes_factors(p, dot) ? collect(b, dot, 1, 0) : NULL;
}

HlInst *alg_e22_result(HlPass *p, HlBuild *b, HlInst *multiply) {
  double factor = 1;
  HlInst *dot = without_factor(multiply, &factor);
  if (!dot || !takes_factors(p, dot) || !hl_one_user(dot))
    return NULL;
  double inside = 1;
  const bool moves = smallest(dot) != 2 || strip(b, dot->operands[0], &inside) ||
                     strip(b, dot->operands[1], &inside);
  return moves ? collect(b, dot, factor, 1) : NULL;
}
