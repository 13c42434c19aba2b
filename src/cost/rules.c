// cost/rules.c: the arithmetic of each op: one function per word of the `flops` column of ops.def.
//
// A rule never trusts the instruction to be valid: operands and computations may be missing.

#include <math.h>

#include "cost/cost.h"

static const HlCost *called(const CostQuestion *q, int k) {
  return k < q->inst->n_calls ? &q->comp[q->inst->calls[k].comp->id] : NULL;
}

static void add_called(const CostQuestion *q, int k, double times, HlCost *out) {
  const HlCost *one = called(q, k);
  if (!one || times <= 0)
    return;
  out->flops += times * one->flops;
  out->transcendentals += times * one->transcendentals;
}

static double operand_elements(const HlInst *inst, int k) {
  const HlShape *shape = cost_operand(inst, k);
  return shape ? cost_elements(shape) : 0;
}

void cost_none(const CostQuestion *q, HlCost *out) {
}

void cost_count(const CostQuestion *q, HlCost *out) {
  out->flops += cost_elements(q->inst->shape);
}

void cost_transcendental(const CostQuestion *q, HlCost *out) {
  out->transcendentals += cost_elements(q->inst->shape);
}

// One application per element: of the result of a map, of the input of a scan, of the updates of a scatter.
void cost_called(const CostQuestion *q, HlCost *out) {
  const HlInst *inst = q->inst;
  double times = cost_elements(inst->shape);
  if (inst->op == HL_OP_SCATTER)
    times = inst->n_operands > 0 ? operand_elements(inst, (int)inst->n_operands / 2 + 1) : 0;
  else if (inst->op == HL_OP_SCAN)  // the computation takes whole slices
    times = inst->n_operands > 0 ? cost_dim(inst->operands[0]->shape, hl_dim(inst)) : 0;
  add_called(q, 0, times, out);
}

// n log n comparisons along the sorted dimension.
void cost_sort(const CostQuestion *q, HlCost *out) {
  double n = operand_elements(q->inst, 0);
  const HlShape *shape = cost_operand(q->inst, 0);
  if (!shape || n <= 1)
    return;
  double along = q->inst->op == HL_OP_SORT ? cost_dim(shape, hl_dim(q->inst))
                                           : cost_dim(shape, shape->rank - 1);
  out->flops += n * ceil(log2(along > 1 ? along : 1));
}

static double first_leaf_elements(const HlShape *shape) {
  while (shape->dtype == HL_TUPLE && shape->rank > 0)
    shape = shape->element[0];
  return cost_elements(shape);
}

void cost_reduce(const CostQuestion *q, HlCost *out) {
  add_called(q, 0, operand_elements(q->inst, 0) - first_leaf_elements(q->inst->shape), out);
}

static double window_size(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  double n = 1;
  for (int k = 0; k < window.n; k++)
    n *= (double)window.at[k].size;
  return n;
}

void cost_reduce_window(const CostQuestion *q, HlCost *out) {
  if (q->inst->op == HL_OP_SELECT_AND_SCATTER) {
    double n = operand_elements(q->inst, 1);
    add_called(q, 0, n * (window_size(q->inst) - 1), out);
    add_called(q, 1, n, out);
    return;
  }
  add_called(q, 0, (window_size(q->inst) - 1) * first_leaf_elements(q->inst->shape), out);
}

void cost_dot(const CostQuestion *q, HlCost *out) {
  const HlShape *lhs = cost_operand(q->inst, 0);
  if (!lhs)
    return;
  HlI64s dims = hl_attr_ints(q->inst, HL_A_LHS_CONTRACTING_DIMS);
  double n = 2 * cost_elements(q->inst->shape);
  for (int k = 0; k < dims.n; k++)
    n *= cost_dim(lhs, dims.at[k]);
  if (q->inst->op ==
      HL_OP_RAGGED_DOT) {  // a ragged contracted dimension is shared out among the groups
    HlI64s ragged = hl_attr_ints(q->inst, HL_A_LHS_RAGGED_DIMS);
    if (ragged.n == 1 && hl_i64s_find(dims, ragged.at[0]) >= 0 && hl_shape_is_array(q->inst->shape))
      n /= fmax(1, cost_dim(q->inst->shape, 0));
  }
  out->flops += n;
}

void cost_fft(const CostQuestion *q, HlCost *out) {
  HlI64s length = hl_attr_ints(q->inst, HL_A_FFT_LENGTH);
  double n = 8 * operand_elements(q->inst, 0);
  for (int k = 0; k < length.n; k++)
    n *= length.at[k] > 1 ? floor(log2((double)length.at[k])) : 0;
  out->flops += n;
}

void cost_cholesky(const CostQuestion *q, HlCost *out) {
  const HlShape *a = cost_operand(q->inst, 0);
  if (a)
    out->flops += cost_dim(a, a->rank - 1) * cost_elements(a) / 3;
}

void cost_triangular_solve(const CostQuestion *q, HlCost *out) {
  const HlShape *a = cost_operand(q->inst, 0);
  if (a)
    out->flops += 2 * cost_dim(a, a->rank - 1) * operand_elements(q->inst, 1);
}

// Folding collectives apply their computation once per element; all send their operands.
void cost_collective(const CostQuestion *q, HlCost *out) {
  for (int k = 0; k < (int)q->inst->n_operands; k++) {
    add_called(q, 0, operand_elements(q->inst, k), out);
    if (q->inst->op != HL_OP_RAGGED_ALL_TO_ALL || k == 0)
      out->collective_bytes += cost_bytes(q->inst->operands[k]->shape);
  }
}
