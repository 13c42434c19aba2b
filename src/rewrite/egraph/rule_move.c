// rewrite/egraph/rule_move.c: own rules of what moves elements, and of elementwise ops around it.

#include "rewrite/egraph/rules.h"

enum { MOST_OPERANDS = 4, MOST_RANK = 32 };

// --- Through elementwise ops ---------------------------------------------------------------------------

static bool moves(HlOp op) {
  return op == HL_OP_TRANSPOSE || op == HL_OP_RESHAPE || op == HL_OP_REVERSE ||
         op == HL_OP_BROADCAST || op == HL_OP_SLICE;
}

static bool same_move(const HlInst *a, const HlInst *b) {
  return eg_same_kind(a, b) && hl_shape_same_dims(a->operands[0]->shape, b->operands[0]->shape);
}

// Slices are left: the op would be done on what is cut off, too.
HlInst *eg_move_out(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *move = NULL, *inside[MOST_OPERANDS];
  const int n = (int)inst->n_operands;
  if (n > MOST_OPERANDS || !eg_is_plain(inst))
    return NULL;
  for (int k = 0; k < n; k++) {
    HlInst *x = inst->operands[k];
    if (moves((HlOp)x->op) && x->op != HL_OP_SLICE && !eg_scalar_of(x) && !move)
      move = x;
  }
  if (!move)
    return NULL;
  const HlShape *dims = move->operands[0]->shape;
  for (int k = 0; k < n; k++) {
    HlInst *x = inst->operands[k], *scalar = eg_scalar_of(x);
    if (!scalar && !same_move(x, move))
      return NULL;
    inside[k] = scalar ? eg_spread(b, scalar, dims) : x->operands[0];
  }
  HlInst *made = eg_like(b, inst, dims, n, inside);
  HlInst *moved = eg_like(b, move, inst->shape, 1, &made);
  hl_set_shape(moved, inst->shape);
  return moved;
}

static HlInst *move_of(HlBuild *b, const HlInst *move, HlInst *x) {
  HlInst *made = eg_like(b, move, move->shape, 1, &x);
  hl_set_shape(made, hl_shape_with_dtype(hl_b_module(b)->shapes, made->shape, x->shape->dtype));
  return made;
}

HlInst *eg_move_in(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *f = inst->operands[0], *moved[MOST_OPERANDS];
  const int n = (int)f->n_operands;
  if (n > MOST_OPERANDS || !eg_is_plain(f))
    return NULL;
  for (int k = 0; k < n; k++) {
    HlInst *scalar = eg_scalar_of(f->operands[k]);
    moved[k] = scalar ? eg_spread(b, scalar, inst->shape) : move_of(b, inst, f->operands[k]);
  }
  return eg_like(b, f, inst->shape, n, moved);
}

// --- Concatenations -------------------------------------------------------------------------------------

static int64_t joined(const HlInst *concat) {
  return hl_dim(concat);
}

static HlInst *join(HlBuild *b, const HlInst *like, int n, HlInst *const *parts) {
  return hl_b_concatenate(b, n, parts, joined(like));
}

HlInst *eg_concat_out(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *f = inst->operands[0];
  const int n = (int)inst->n_operands, n_inside = (int)f->n_operands;
  HlInst *parts[EG_MOST_PARTS], *inside[MOST_OPERANDS];
  if (n < 2 || n > EG_MOST_PARTS || n_inside > MOST_OPERANDS || !eg_is_plain(f))
    return NULL;
  for (int k = 0; k < n; k++)
    if (!eg_same_kind(inst->operands[k], f) || !eg_is_plain(inst->operands[k]))
      return NULL;
  for (int i = 0; i < n_inside; i++) {
    for (int k = 0; k < n; k++) {
      parts[k] = inst->operands[k]->operands[i];
      if (parts[k]->shape->dtype != parts[0]->shape->dtype)
        return NULL;
    }
    inside[i] = join(b, inst, n, parts);
    if (!inside[i])
      return NULL;
  }
  return eg_like(b, f, inst->shape, n_inside, inside);
}

static bool same_parts(const HlInst *a, const HlInst *b) {
  if (b->op != HL_OP_CONCATENATE || a->n_operands != b->n_operands || joined(a) != joined(b))
    return false;
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (!hl_shape_same_dims(a->operands[k]->shape, b->operands[k]->shape))
      return false;
  return true;
}

HlInst *eg_concat_in(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *concat = NULL, *parts[EG_MOST_PARTS], *inside[MOST_OPERANDS];
  const int n = (int)inst->n_operands;
  for (int k = 0; k < n && !concat; k++)
    concat = inst->operands[k]->op == HL_OP_CONCATENATE ? inst->operands[k] : NULL;
  if (!concat || n > MOST_OPERANDS || concat->n_operands > EG_MOST_PARTS || !eg_is_plain(inst))
    return NULL;
  for (int k = 0; k < n; k++)
    if (!eg_scalar_of(inst->operands[k]) && !same_parts(concat, inst->operands[k]))
      return NULL;
  for (uint32_t i = 0; i < concat->n_operands; i++) {
    for (int k = 0; k < n; k++) {
      HlInst *scalar = eg_scalar_of(inst->operands[k]);
      inside[k] = scalar ? eg_spread(b, scalar, concat->operands[i]->shape)
                         : inst->operands[k]->operands[i];
    }
    parts[i] = eg_like(b, inst, concat->operands[i]->shape, n, inside);
  }
  return join(b, concat, (int)concat->n_operands, parts);
}

// --- Slices ---------------------------------------------------------------------------------------------

static HlI64s bounds(const HlInst *slice) {
  return hl_attr_ints(slice, HL_A_SLICE);
}

HlInst *eg_slice_of_slice(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *inner = inst->operands[0];
  int64_t out[3 * MOST_RANK];
  const int rank = inst->shape->rank;
  if (inner->op != HL_OP_SLICE || rank > MOST_RANK)
    return NULL;
  const HlI64s a = bounds(inner), c = bounds(inst);
  for (int k = 0; k < rank; k++) {
    const int64_t start = a.at[3 * k], stride = a.at[3 * k + 2];
    const int64_t n = inst->shape->dim[k], step = stride * c.at[3 * k + 2];
    out[3 * k] = start + c.at[3 * k] * stride;
    out[3 * k + 1] = n == 0 ? out[3 * k] : out[3 * k] + (n - 1) * step + 1;
    out[3 * k + 2] = step;
    if (out[3 * k] > inner->operands[0]->shape->dim[k])
      return NULL;
  }
  return eg_slice(b, inner->operands[0], (HlI64s){out, 3 * rank});
}

HlInst *eg_slice_of_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *concat = inst->operands[0];
  int64_t out[3 * MOST_RANK], before = 0;
  const HlI64s at = bounds(inst);
  if (concat->op != HL_OP_CONCATENATE || inst->shape->rank > MOST_RANK)
    return NULL;
  const int64_t d = joined(concat);
  for (int k = 0; k < at.n; k++)
    out[k] = at.at[k];
  for (uint32_t i = 0; i < concat->n_operands; i++) {
    const int64_t size = concat->operands[i]->shape->dim[d];
    if (at.at[3 * d] >= before && at.at[3 * d + 1] <= before + size) {
      out[3 * d] -= before;
      out[3 * d + 1] -= before;
      return eg_slice(b, concat->operands[i], (HlI64s){out, at.n});
    }
    before += size;
  }
  return NULL;
}

// Equal but along d, where the second goes on where the first ends.
static bool goes_on(const HlInst *a, const HlInst *b, int64_t d) {
  const HlI64s x = bounds(a), y = bounds(b);
  for (int k = 0; k < x.n; k++)
    if (k / 3 != d && x.at[k] != y.at[k])
      return false;
  return x.at[3 * d + 2] == 1 && y.at[3 * d + 2] == 1 && x.at[3 * d + 1] == y.at[3 * d];
}

HlInst *eg_concat_of_slices(HlPass *p, HlBuild *b, HlInst *inst) {
  const int n = (int)inst->n_operands;
  const HlInst *first = inst->operands[0];
  const int64_t d = joined(inst);
  int64_t out[3 * MOST_RANK];
  if (n < 2 || first->op != HL_OP_SLICE || inst->shape->rank > MOST_RANK)
    return NULL;
  for (int k = 1; k < n; k++) {
    const HlInst *x = inst->operands[k];
    if (x->op != HL_OP_SLICE || x->operands[0] != first->operands[0] ||
        !goes_on(inst->operands[k - 1], x, d))
      return NULL;
  }
  const HlI64s at = bounds(first);
  for (int k = 0; k < at.n; k++)
    out[k] = at.at[k];
  out[3 * d + 1] = bounds(inst->operands[n - 1]).at[3 * d + 1];
  return eg_slice(b, first->operands[0], (HlI64s){out, at.n});
}

HlInst *eg_slice_of_transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *transpose = inst->operands[0];
  int64_t out[3 * MOST_RANK];
  if (transpose->op != HL_OP_TRANSPOSE || inst->shape->rank > MOST_RANK)
    return NULL;
  const HlI64s at = bounds(inst), perm = hl_dims(transpose);
  for (int k = 0; k < perm.n; k++)
    for (int i = 0; i < 3; i++)
      out[3 * perm.at[k] + i] = at.at[3 * k + i];
  return hl_b_transpose(b, eg_slice(b, transpose->operands[0], (HlI64s){out, at.n}), perm);
}

HlInst *eg_transpose_of_slice(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *slice = inst->operands[0];
  int64_t out[3 * MOST_RANK];
  if (slice->op != HL_OP_SLICE || inst->shape->rank > MOST_RANK)
    return NULL;
  const HlI64s at = bounds(slice), perm = hl_dims(inst);
  for (int k = 0; k < perm.n; k++)
    for (int i = 0; i < 3; i++)
      out[3 * k + i] = at.at[3 * perm.at[k] + i];
  return eg_slice(b, hl_b_transpose(b, slice->operands[0], perm), (HlI64s){out, at.n});
}

// Along dimensions that the broadcast makes, as many elements as are wanted; along the others a slice of what is broadcast.
HlInst *eg_slice_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *broadcast = inst->operands[0];
  int64_t out[3 * MOST_RANK];
  if (broadcast->op != HL_OP_BROADCAST || inst->shape->rank > MOST_RANK)
    return NULL;
  HlInst *x = broadcast->operands[0];
  const HlI64s at = bounds(inst), dims = hl_dims(broadcast);
  for (int k = 0; k < dims.n; k++)
    for (int i = 0; i < 3; i++)
      out[3 * k + i] = at.at[3 * dims.at[k] + i];
  HlInst *cut = dims.n == 0 ? x : eg_slice(b, x, (HlI64s){out, 3 * dims.n});
  return hl_b_broadcast(b, cut, inst->shape->rank, inst->shape->dim, dims);
}

// --- Transposes -----------------------------------------------------------------------------------------

HlInst *eg_broadcast_of_transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *transpose = inst->operands[0];
  int64_t dims[MOST_RANK];
  if (transpose->op != HL_OP_TRANSPOSE || transpose->shape->rank > MOST_RANK)
    return NULL;
  const HlI64s perm = hl_dims(transpose), to = hl_dims(inst);
  for (int k = 0; k < perm.n; k++)
    dims[perm.at[k]] = to.at[k];
  return hl_b_broadcast(b, transpose->operands[0], inst->shape->rank, inst->shape->dim,
                        (HlI64s){dims, perm.n});
}

HlInst *eg_transpose_of_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *concat = inst->operands[0], *parts[EG_MOST_PARTS];
  if (concat->op != HL_OP_CONCATENATE || concat->n_operands > EG_MOST_PARTS)
    return NULL;
  const HlI64s perm = hl_dims(inst);
  for (uint32_t k = 0; k < concat->n_operands; k++)
    parts[k] = hl_b_transpose(b, concat->operands[k], perm);
  return hl_b_concatenate(b, (int)concat->n_operands, parts, hl_i64s_find(perm, joined(concat)));
}

HlInst *eg_concat_of_transposes(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *first = inst->operands[0], *parts[EG_MOST_PARTS];
  if (inst->n_operands < 2 || inst->n_operands > EG_MOST_PARTS || first->op != HL_OP_TRANSPOSE)
    return NULL;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    if (!eg_same_kind(inst->operands[k], first))
      return NULL;
    parts[k] = inst->operands[k]->operands[0];
  }
  const HlI64s perm = hl_dims(first);
  return hl_b_transpose(b, hl_b_concatenate(b, (int)inst->n_operands, parts, perm.at[joined(inst)]),
                        perm);
}
