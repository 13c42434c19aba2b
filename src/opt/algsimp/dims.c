// opt/algsimp/dims.c: what rules about dimensions share: lists, reshapes, results in a layout.

#include "opt/algsimp/dims.h"

// --- Questions -----------------------------------------------------------------------------------

static bool is_static(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape);
}

bool alg_static(const HlInst *inst) {
  if (!is_static(inst->shape))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_static(inst->operands[k]->shape))
      return false;
  return true;
}

bool alg_ascending(HlI64s dims) {
  for (int k = 1; k < dims.n; k++)
    if (dims.at[k] <= dims.at[k - 1])
      return false;
  return true;
}

bool alg_has(HlI64s dims, int64_t d) {
  return hl_i64s_find(dims, d) >= 0;
}

bool alg_unstrided(const HlInst *slice) {
  for (int d = 0; d < slice->shape->rank; d++)
    if (alg_slice_stride(slice, d) != 1)
      return false;
  return true;
}

bool alg_scalar_starts(const HlInst *inst, int first) {
  int rank = inst->operands[0]->shape->rank;
  return rank > 0 && inst->n_operands == (uint32_t)(first + rank) &&
         hl_shape_is_scalar(inst->operands[first]->shape);
}

bool alg_in_async(const HlInst *inst) {
  const HlCall *call = inst->comp->first_call;
  return call && call->caller->op == HL_OP_ASYNC_START;
}

// Equal sizes are matched where they meet, those of 1 too: what is left over must be of size 1.
bool alg_only_ones(HlPass *p, const HlShape *from, const HlShape *to, AlgOnes *out) {
  *out = (AlgOnes){.to_of = alg_list(p, from->rank), .from_of = alg_list(p, to->rank)};
  int i = 0, j = 0;
  while (i < from->rank || j < to->rank) {
    if (i < from->rank && j < to->rank && from->dim[i] == to->dim[j]) {
      out->to_of[i] = j;
      out->from_of[j++] = i++;
    } else if (i < from->rank && from->dim[i] == 1) {
      out->to_of[i++] = -1;
      out->n_dropped++;
    } else if (j < to->rank && to->dim[j] == 1) {
      out->from_of[j++] = -1;
      out->n_added++;
    } else {
      return false;
    }
  }
  return true;
}

// Products of the sizes before a dimension tell where it begins among the elements.
int64_t alg_kept_dim(const HlShape *from, int64_t d, const HlShape *to, int64_t first) {
  int64_t before = 1, there = 1;
  for (int64_t k = 0; k < d; k++)
    before *= from->dim[k];
  for (int64_t e = 0; e < to->rank && there <= before; e++) {
    if (e >= first && there == before && to->dim[e] == from->dim[d])
      return e;
    there *= to->dim[e];
  }
  return -1;
}

// --- Building ------------------------------------------------------------------------------------

HlInst *alg_shaped(HlInst *inst, const HlShape *shape) {
  if (inst && inst->shape != shape)
    hl_set_shape(inst, shape);
  return inst;
}

const HlShape *alg_resized(HlBuild *b, const HlShape *like, const int64_t *dim) {
  return hl_shape_array_full(hl_b_module(b)->shapes, like->dtype, like->rank, dim, NULL,
                             like->layout);
}

static const HlShape *typed(HlBuild *b, const HlShape *to, const HlInst *x) {
  return hl_shape_with_dtype(hl_b_module(b)->shapes, to, x->shape->dtype);
}

HlInst *alg_reshape(HlBuild *b, HlInst *x, const HlShape *to) {
  if (!x || (hl_shape_same_dims(x->shape, to) && hl_shape_same_order(x->shape, to)))
    return x;
  return hl_b_op(b, HL_OP_RESHAPE, typed(b, to, x), 1, &x, 0, NULL, 0, NULL);
}

HlInst *alg_bitcast(HlBuild *b, HlInst *x, const HlShape *to) {
  return x ? hl_b_op(b, HL_OP_BITCAST, to, 1, &x, 0, NULL, 0, NULL) : NULL;
}

HlInst *alg_broadcast(HlBuild *b, HlInst *x, const HlShape *to, HlI64s dims) {
  return x ? alg_shaped(hl_b_broadcast(b, x, to->rank, to->dim, dims), typed(b, to, x)) : NULL;
}

HlInst *alg_iota(HlBuild *b, const HlShape *shape, int64_t dim) {
  HlAttr attr = {.key = HL_A_IOTA_DIMENSION, .i = dim};
  return hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &attr, 0, NULL);
}

HlInst *alg_copy(HlBuild *b, HlInst *x, const HlShape *to) {
  return alg_shaped(hl_b_unary(b, HL_OP_COPY, x), to);
}

HlInst *alg_slice(HlBuild *b, HlInst *x, const int64_t *start, const int64_t *limit,
                  const int64_t *stride) {
  HlInst *slice = hl_b_slice(b, x, start, limit, stride);
  return slice ? alg_shaped(slice, alg_resized(b, x->shape, slice->shape->dim)) : NULL;
}

HlInst *alg_moved(const HlInst *op, const HlShape *shape, int n, HlInst *const *operands) {
  HlInst *moved = hl_inst_copy(op->comp, op, shape, n, operands);
  hl_remove_attr(moved, HL_A_SHARDING);
  hl_remove_attr(moved, HL_A_ORIGIN);
  return moved;
}
