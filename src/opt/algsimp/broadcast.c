// opt/algsimp/broadcast.c: algebraic rules of broadcasts (B1 to B8).
//
// Broadcasts move towards the end of a computation, so that what stands before them works on fewer
// elements:
//
//   w = f32[8,4] broadcast(x), dimensions={0}       e = f32[8] exponential(x)
//   ROOT e = f32[8,4] exponential(w)           =>   ROOT w = f32[8,4] broadcast(e), dimensions={0}

#include "opt/algsimp/dims.h"

static bool same_count(const HlInst *inst) {
  return alg_static(inst) &&
         hl_shape_elements(inst->shape) == hl_shape_elements(inst->operands[0]->shape);
}

HlInst *alg_b1_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (!same_count(inst) || !alg_ascending(hl_dims(inst)))
    return NULL;
  return hl_b_op(b, HL_OP_RESHAPE, inst->shape, 1, &inst->operands[0], 0, NULL, 0, NULL);
}

HlInst *alg_b2_transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  HlI64s dims = hl_dims(inst);
  if (!same_count(inst) || dims.n != inst->shape->rank || alg_ascending(dims))
    return NULL;
  int64_t *permutation = alg_list(p, dims.n);
  for (int k = 0; k < dims.n; k++)
    permutation[dims.at[k]] = k;
  return alg_shaped(hl_b_transpose(b, inst->operands[0], (HlI64s){permutation, dims.n}),
                    inst->shape);
}

HlInst *alg_b3_of_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reshape = inst->operands[0];
  AlgOnes ones;
  if (reshape->op != HL_OP_RESHAPE || !alg_static(inst) || !alg_static(reshape) ||
      !alg_only_ones(p, reshape->operands[0]->shape, reshape->shape, &ones) || ones.n_dropped > 0)
    return NULL;
  HlInst *x = reshape->operands[0];
  int64_t *dims = alg_list(p, x->shape->rank);
  for (int d = 0; d < x->shape->rank; d++)
    dims[d] = hl_dims(inst).at[ones.to_of[d]];
  return alg_broadcast(b, x, inst->shape, (HlI64s){dims, x->shape->rank});
}

// --- Below the users -----------------------------------------------------------------------------

// The broadcast that the others must be like: the one that is visited; without one the first of more than a scalar, or of a
// scalar if there is no other.
static HlInst *leading_broadcast(const HlPass *p, const HlInst *inst) {
  if (p->above)
    return p->above;
  HlInst *lead = inst->operands[0];
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = inst->operands[k];
    if (x->op != HL_OP_BROADCAST)
      return NULL;
    if (hl_shape_is_scalar(lead->operands[0]->shape))
      lead = x;
  }
  return lead;
}

// Scalars go with all; others must be of one shape, the element type included.
static bool is_like(const HlInst *x, const HlInst *lead) {
  if (x->op != HL_OP_BROADCAST)
    return false;
  const HlShape *from = x->operands[0]->shape;
  return hl_shape_is_scalar(from) ||
         (from == lead->operands[0]->shape && hl_i64s_equal(hl_dims(x), hl_dims(lead)));
}

// The broadcast that a user may move above, if its operands are all alike; NULL: it may not.
static HlInst *may_sink(const HlPass *p, const HlInst *inst) {
  if (!alg_options(p)->enable_sink_broadcast || inst->n_operands == 0 || !hl_is_elementwise(inst) ||
      inst->shape->rank == 0 || !alg_static(inst) || hl_has_control(inst))
    return NULL;
  HlInst *lead = leading_broadcast(p, inst);
  if (!lead || !alg_static(lead))
    return NULL;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_like(inst->operands[k], lead))
      return NULL;
  return lead;
}

HlInst *alg_b7_sink(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *lead = may_sink(p, inst);
  if (!lead)
    return NULL;
  const HlShape *small = lead->operands[0]->shape;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    operands[k] = inst->operands[k]->operands[0];
    if (hl_shape_is_scalar(operands[k]->shape))
      operands[k] = alg_broadcast(b, operands[k], small, (HlI64s){0});
  }
  const HlShape *shape = hl_shape_with_dtype(p->m->shapes, small, inst->shape->dtype);
  HlInst *moved = alg_moved(inst, shape, (int)inst->n_operands, operands);
  return alg_broadcast(b, moved, inst->shape, hl_dims(lead));
}

// Whatever an op moves or picks of an array whose elements are all one scalar is made of that
// scalar.
HlInst *alg_b8_of_scalar(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *scalar = hl_scalar_broadcast(inst->operands[0]);
  if (!scalar || !alg_static(inst) || (inst->op == HL_OP_SORT && inst->n_operands != 1))
    return NULL;
  return alg_broadcast(b, scalar, inst->shape, (HlI64s){0});
}

// --- What is broadcast ---------------------------------------------------------------------------

// A user will move above this broadcast, which shall be as small as it is until then: one that
// took up what is broadcast (an iota) would make the user work on the whole array.
static bool waits_for_user(const HlPass *p, const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (may_sink(p, use->user))
      return true;
  return false;
}

HlInst *alg_b4_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[0];
  if (inner->op != HL_OP_BROADCAST || !alg_static(inst) || !alg_static(inner) ||
      waits_for_user(p, inst))
    return NULL;
  HlI64s first = hl_dims(inner), then = hl_dims(inst);
  int64_t *dims = alg_list(p, first.n);
  for (int k = 0; k < first.n; k++)
    dims[k] = then.at[first.at[k]];
  return alg_broadcast(b, inner->operands[0], inst->shape, (HlI64s){dims, first.n});
}

HlInst *alg_b5_of_iota(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *iota = inst->operands[0];
  if (iota->op != HL_OP_IOTA || !alg_static(inst) || waits_for_user(p, inst))
    return NULL;
  return alg_iota(b, inst->shape, hl_dims(inst).at[hl_attr_int(iota, HL_A_IOTA_DIMENSION)]);
}

HlInst *alg_b6_of_ones(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (alg_sensitive(p) || !alg_options(p)->enable_broadcast_degenerate_dimension ||
      !alg_static(inst) || waits_for_user(p, inst))
    return NULL;
  int64_t *dims = alg_list(p, x->shape->rank), *sizes = alg_list(p, x->shape->rank);
  int n = 0;
  for (int d = 0; d < x->shape->rank; d++)
    if (x->shape->dim[d] != 1) {
      dims[n] = hl_dims(inst).at[d];
      sizes[n++] = x->shape->dim[d];
    }
  if (n == x->shape->rank)
    return NULL;
  return alg_broadcast(b, hl_b_reshape(b, x, n, sizes), inst->shape, (HlI64s){dims, n});
}
