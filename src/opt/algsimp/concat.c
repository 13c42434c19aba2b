// opt/algsimp/concat.c: algebraic rules of reverses and concatenates (R17 to R24).
//
//   a = f32[2,8] slice(x), slice={[0:2], [0:8]}
//   b = f32[2,8] slice(x), slice={[2:4], [0:8]}
//   ROOT c = f32[4,8] concatenate(a, b), dimensions={0}     =>     slice(x), slice={[0:4], [0:8]}

#include "opt/algsimp/dims.h"

// --- Reverse -------------------------------------------------------------------------------------

HlInst *alg_r17_of_ones(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  HlI64s dims = hl_dims(inst);
  for (int k = 0; k < dims.n; k++)
    if (inst->shape->dim[dims.at[k]] != 1)
      return NULL;
  return alg_static(inst) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

// What is reversed twice is not: the dimensions of one of the two remain.
HlInst *alg_r17_reverse_reverse(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[0];
  if (alg_sensitive(p) || inner->op != HL_OP_REVERSE || !alg_static(inst))
    return NULL;
  int64_t *dims = alg_list(p, inst->shape->rank);
  int n = 0;
  for (int d = 0; d < inst->shape->rank; d++)
    if (alg_has(hl_dims(inst), d) != alg_has(hl_dims(inner), d))
      dims[n++] = d;
  HlInst *x = inner->operands[0];
  return n == 0 ? alg_existing(p, inst, x) : hl_b_reverse(b, x, (HlI64s){dims, n});
}

HlInst *alg_r18_of_binary(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *op = inst->operands[0];
  if (alg_sensitive(p) || op->n_operands != 2 || !hl_is_elementwise(op) ||
      op->op == HL_OP_COMPARE || !alg_static(inst) || !alg_static(op))
    return NULL;
  int uniform = hl_scalar_broadcast(op->operands[0]) ? 0 : 1;
  if (!hl_scalar_broadcast(op->operands[uniform]))
    return NULL;
  HlInst *sides[2] = {op->operands[0], op->operands[1]};
  sides[1 - uniform] = hl_b_reverse(b, sides[1 - uniform], hl_dims(inst));
  if (!sides[1 - uniform])
    return NULL;
  return alg_moved(op, inst->shape, 2, sides);
}

HlInst *alg_r19_of_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reshape = inst->operands[0];
  AlgOnes ones;
  if (alg_sensitive(p) || reshape->op != HL_OP_RESHAPE || !alg_static(inst) ||
      !alg_static(reshape) ||
      !alg_only_ones(p, reshape->operands[0]->shape, reshape->shape, &ones) || ones.n_dropped > 0)
    return NULL;
  HlI64s dims = hl_dims(inst);
  int64_t *kept = alg_list(p, dims.n);
  int n = 0;
  for (int k = 0; k < dims.n; k++)
    if (inst->shape->dim[dims.at[k]] != 1)
      kept[n++] = ones.from_of[dims.at[k]];
  return alg_reshape(b, hl_b_reverse(b, reshape->operands[0], (HlI64s){kept, n}), inst->shape);
}

// --- Concatenate ---------------------------------------------------------------------------------

static bool is_empty(const HlInst *inst) {
  return hl_shape_elements(inst->shape) == 0;
}

static HlInst *joined(HlBuild *b, HlInst *inst, int n, HlInst *const *operands) {
  return alg_shaped(hl_b_concatenate(b, n, operands, hl_dim(inst)), inst->shape);
}

HlInst *alg_r20_concat_of_one(HlPass *p, HlBuild *b, HlInst *inst) {
  int n = (int)inst->n_operands, kept = 0;
  if (n == 1)
    return alg_existing(p, inst, inst->operands[0]);
  if (!alg_static(inst))
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    if (!is_empty(inst->operands[k]))
      operands[kept++] = inst->operands[k];
  if (kept == n)
    return NULL;
  if (kept < 2)
    return alg_existing(p, inst, kept == 0 ? inst->operands[0] : operands[0]);
  return joined(b, inst, kept, operands);
}

static bool is_nested(const HlInst *inst, const HlInst *operand) {
  return operand->op == HL_OP_CONCATENATE && hl_dim(operand) == hl_dim(inst);
}

HlInst *alg_r21_concat_of_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += is_nested(inst, inst->operands[k]) ? inst->operands[k]->n_operands : 1;
  if (alg_sensitive(p) || n == inst->n_operands || n > ALG_MOST_PARTS)
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n);
  n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = inst->operands[k];
    if (!is_nested(inst, x))
      operands[n++] = x;
    for (uint32_t i = 0; is_nested(inst, x) && i < x->n_operands; i++)
      operands[n++] = x->operands[i];
  }
  return joined(b, inst, (int)n, operands);
}

// Slice `next` begins along the dimension where the slice before it ended, and is the same in all
// others.
static bool goes_on(const HlInst *slice, const HlInst *next, int64_t dim, int64_t end) {
  if (next->op != HL_OP_SLICE || !alg_unstrided(next) || next->operands[0] != slice->operands[0])
    return false;
  for (int d = 0; d < slice->shape->rank; d++)
    if (alg_slice_start(next, d) != (d == dim ? end : alg_slice_start(slice, d)))
      return false;
  return true;
}

static HlInst *longer_slice(HlPass *p, HlBuild *b, const HlInst *slice, int64_t dim, int64_t end) {
  int rank = slice->shape->rank;
  int64_t *start = alg_list(p, rank), *limit = alg_list(p, rank);
  for (int d = 0; d < rank; d++) {
    start[d] = alg_slice_start(slice, d);
    limit[d] = d == dim ? end : alg_slice_limit(slice, d);
  }
  return alg_slice(b, slice->operands[0], start, limit, NULL);
}

HlInst *alg_r22_neighbour_slices(HlPass *p, HlBuild *b, HlInst *inst) {
  int n = (int)inst->n_operands, kept = 0;
  if (alg_sensitive(p) || !alg_static(inst))
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  int64_t dim = hl_dim(inst);
  for (int k = 0, next; k < n; k = next) {
    HlInst *x = inst->operands[k];
    next = k + 1;
    operands[kept++] = x;
    if (x->op != HL_OP_SLICE || !alg_unstrided(x))
      continue;
    int64_t end = alg_slice_limit(x, (int)dim);
    for (; next < n && goes_on(x, inst->operands[next], dim, end); next++)
      end = alg_slice_limit(inst->operands[next], (int)dim);
    if (next > k + 1)
      operands[kept - 1] = longer_slice(p, b, x, dim, end);
  }
  if (kept == n)
    return NULL;
  return kept == 1 && operands[0] ? operands[0] : joined(b, inst, kept, operands);
}

HlInst *alg_r23_pad(HlPass *p, HlBuild *b, HlInst *inst) {
  if (alg_sensitive(p) || inst->n_operands != 2 || !alg_static(inst))
    return NULL;
  HlInst *first = inst->operands[0], *second = inst->operands[1];
  HlInst *before = hl_scalar_broadcast(first), *after = hl_scalar_broadcast(second);
  int rank = inst->shape->rank;
  int64_t *low = alg_list(p, rank), *high = alg_list(p, rank), dim = hl_dim(inst);
  if (before)
    low[dim] = first->shape->dim[dim];
  else if (after)
    high[dim] = second->shape->dim[dim];
  else
    return NULL;
  return hl_b_pad(b, before ? second : first, before ? before : after, low, high, NULL);
}

HlInst *alg_r24_same_rows(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  int64_t dim = hl_dim(inst);
  int rank = inst->shape->rank;
  if (alg_sensitive(p) || inst->n_operands < 3 || !alg_static(inst) || x->shape->dim[dim] != 1)
    return NULL;
  for (uint32_t k = 1; k < inst->n_operands; k++)
    if (inst->operands[k] != x)
      return NULL;
  int64_t *dims = alg_list(p, rank), *sizes = alg_list(p, rank);
  int n = 0;
  for (int d = 0; d < rank; d++)
    if (d != dim) {
      sizes[n] = inst->shape->dim[d];
      dims[n++] = d;
    }
  return alg_broadcast(b, hl_b_reshape(b, x, n, sizes), inst->shape, (HlI64s){dims, n});
}
