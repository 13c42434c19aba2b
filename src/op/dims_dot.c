// op/dims_dot.c: which dimensions go together in sums of products.

#include "op/dims.h"

// A dimension as factors: one, or two where a scale holds for blocks of it, the blocks first.
typedef struct Cut {
  int n, at[2];
} Cut;

static Cut cut(HlFactors *rule, int64_t size, int64_t n_blocks, HlFactorKind kind) {
  if (n_blocks <= 1 || n_blocks >= size || size % n_blocks != 0)
    return (Cut){1, {hl_factors_add(rule, size, kind)}};
  const int block = hl_factors_add(rule, n_blocks, kind);
  return (Cut){2, {block, hl_factors_add(rule, size / n_blocks, kind)}};
}

static void put(HlFactors *rule, int tensor, int64_t dim, Cut c) {
  for (int k = 0; k < c.n; k++)
    hl_factors_put(rule, tensor, dim, c.at[k]);
}

// A dot as its relatives have it.
typedef struct Dot {
  const HlInst *inst;
  HlFactors *rule;
  HlI64s batch[2], contracting[2];  // of both sides
  HlI64s apart;                     // dimensions of the right side that are none of the result's
  const HlShape *scale[2];          // NULL: none
  int result, to;                   // the result's tensor, its dimension that comes next
} Dot;

static Dot dot_of(const HlInst *inst, HlFactors *rule) {
  return (Dot){
      .inst = inst,
      .rule = rule,
      .batch = {hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS), hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS)},
      .contracting = {hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS),
                      hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)},
      .result = rule->n_operands};
}

static const HlShape *side_of(const Dot *d, int side) {
  return d->inst->operands[side]->shape;
}

// Into how many blocks the side's scale cuts a dimension.
static int64_t n_blocks(const Dot *d, int side, int64_t dim) {
  return d->scale[side] ? d->scale[side]->dim[dim] : 1;
}

// The factors of a dimension, given to the side and, as far as it has them, to its scale.
static void put_side(const Dot *d, int side, int64_t dim, Cut c) {
  put(d->rule, side, dim, c);
  const int64_t n = n_blocks(d, side, dim);
  if (n > 1)
    hl_factors_put(d->rule, 2 + side, dim,
                   d->rule->factor[c.at[0]].size == n ? c.at[0] : dims_passed(d->rule, n));
}

// Both sides of a dimension that both have; cut where their scales agree.
static Cut put_both(const Dot *d, int64_t left, int64_t right, HlFactorKind kind) {
  const int64_t size = side_of(d, 0)->dim[left], a = n_blocks(d, 0, left),
                b = n_blocks(d, 1, right);
  const Cut c = cut(d->rule, size, a == b || b <= 1 ? a : a <= 1 ? b : 1, kind);
  put_side(d, 0, left, c);
  put_side(d, 1, right, c);
  return c;
}

static bool dot_factors(Dot *d) {
  for (int k = 0; k < d->batch[0].n; k++)
    put(d->rule, d->result, d->to++,
        put_both(d, d->batch[0].at[k], d->batch[1].at[k], HL_FACTOR_PASSED));
  for (int side = 0; side < 2; side++) {
    const HlShape *shape = side_of(d, side);
    for (int dim = 0; dim < shape->rank; dim++) {
      if (hl_i64s_find(d->batch[side], dim) >= 0 || hl_i64s_find(d->contracting[side], dim) >= 0 ||
          (side == 1 && hl_i64s_find(d->apart, dim) >= 0))
        continue;
      const Cut c = cut(d->rule, shape->dim[dim], n_blocks(d, side, dim), HL_FACTOR_PASSED);
      put_side(d, side, dim, c);
      put(d->rule, d->result, d->to++, c);
    }
  }
  for (int k = 0; k < d->contracting[0].n; k++)
    put_both(d, d->contracting[0].at[k], d->contracting[1].at[k], HL_FACTOR_SUMMED);
  return true;
}

bool dims_dot(const HlInst *inst, HlFactors *rule) {
  Dot d = dot_of(inst, rule);
  return dot_factors(&d);
}

// A scale of another rank is a scalar, or stands for none.
bool dims_scaled_dot(const HlInst *inst, HlFactors *rule) {
  Dot d = dot_of(inst, rule);
  for (int side = 0; side < 2; side++) {
    const HlShape *scale = inst->operands[2 + side]->shape;
    d.scale[side] = scale->rank == side_of(&d, side)->rank ? scale : NULL;
  }
  return dot_factors(&d);
}

// Sizes of groups say where along the ragged dimension each begins, so that every one of them matters to all places
// behind. The dimensions before the last of theirs are dimensions of the left side.
bool dims_ragged_dot(const HlInst *inst, HlFactors *rule) {
  Dot d = dot_of(inst, rule);
  const HlShape *lhs = side_of(&d, 0), *sizes = inst->operands[2]->shape;
  const int64_t ragged = hl_attr_ints(inst, HL_A_LHS_RAGGED_DIMS).at[0];
  const bool in_batch = hl_i64s_find(d.batch[0], ragged) >= 0;
  const bool in_sum = hl_i64s_find(d.contracting[0], ragged) >= 0;
  const int group = dims_mixed(rule, sizes->dim[sizes->rank - 1]);
  d.apart = hl_attr_ints(inst, HL_A_RHS_GROUP_DIMS);
  for (int k = 0; k < d.apart.n; k++)
    hl_factors_put(rule, 1, d.apart.at[k], group);
  if (in_sum)
    hl_factors_put(rule, d.result, d.to++, group);
  dot_factors(&d);
  int to = 0;
  for (int k = 0; k < d.batch[0].n && d.batch[0].at[k] != ragged && to < sizes->rank - 1; k++)
    hl_factors_put(rule, 2, to++, rule->tensor[0].dim[d.batch[0].at[k]].at[0]);
  for (int k = 0; in_sum && d.contracting[0].at[k] != ragged && to < sizes->rank - 1; k++)
    hl_factors_put(rule, 2, to++, rule->tensor[0].dim[d.contracting[0].at[k]].at[0]);
  for (int k = 0; !in_sum && !in_batch && k < ragged && to < sizes->rank - 1; k++)
    if (hl_i64s_find(d.batch[0], k) < 0 && hl_i64s_find(d.contracting[0], k) < 0)
      hl_factors_put(rule, 2, to++, rule->tensor[0].dim[k].at[0]);
  hl_factors_put(rule, 2, to, group);
  return to == sizes->rank - 1 && lhs->rank > 0;
}

// Groups are a factor of their own before the channels: they run along the features (or, in groups of the batch, along
// the batch) of the input, and along the output features of kernel and result.
bool dims_convolution(const HlInst *inst, HlFactors *rule) {
  const HlDimLabels *at = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlShape *w = inst->operands[1]->shape, *y = inst->shape;
  const int64_t groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT);
  const int64_t batches = hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT);
  if (!at || (groups > 1 && batches > 1))
    return false;
  const int64_t n_groups = groups > 1 ? groups : batches;
  if (n_groups > 1) {
    const int group = dims_passed(rule, n_groups);
    hl_factors_put(rule, 0, groups > 1 ? at->input_feature : at->input_batch, group);
    hl_factors_put(rule, 1, at->kernel_output, group);
    hl_factors_put(rule, 2, at->output_feature, group);
  }
  const int batch = dims_passed(rule, y->dim[at->output_batch]);
  hl_factors_put(rule, 0, at->input_batch, batch);
  hl_factors_put(rule, 2, at->output_batch, batch);
  for (int k = 0; k < at->input_spatial.n; k++) {
    const int64_t out = y->dim[at->output_spatial.at[k]];
    const int space = dims_mixed(rule, out);
    hl_factors_put(rule, 0, at->input_spatial.at[k], space);
    hl_factors_put(rule, 2, at->output_spatial.at[k], space);
  }
  const int output = dims_passed(rule, w->dim[at->kernel_output] / n_groups);
  hl_factors_put(rule, 1, at->kernel_output, output);
  hl_factors_put(rule, 2, at->output_feature, output);
  const int input = dims_summed(rule, w->dim[at->kernel_input]);
  hl_factors_put(rule, 0, at->input_feature, input);
  hl_factors_put(rule, 1, at->kernel_input, input);
  return true;
}
