// opt/algsimp/minmax.c: algebraic rules of maximum, minimum and clamp (A42 to A49).
//
// Each rule of maximum has a mirror image; one function serves both and tells them apart by the op.

#include "opt/algsimp/algsimp.h"
#include "opt/ask/reducers.h"

static HlOp mirror(const HlInst *inst) {
  return inst->op == HL_OP_MAXIMUM ? HL_OP_MINIMUM : HL_OP_MAXIMUM;
}

// max(x, x) => x
HlInst *alg_extreme_of_same(HlPass *p, HlBuild *b, HlInst *inst) {
  return inst->operands[0] == inst->operands[1] ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

// max(x, -inf) => x
HlInst *alg_extreme_of_neutral(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!hl_is_integral(inst->shape->dtype) && !alg_options(p)->minmax_propagate_nan)
    return NULL;
  for (int k = 1; k >= 0; k--)
    if (hl_is_extreme(inst->operands[k], inst->op == HL_OP_MAXIMUM))
      return alg_existing(p, inst, inst->operands[1 - k]);
  return NULL;
}

// max(max(x, y), y) => max(x, y). Where both are nan the first one's sign wins, afterwards too.
HlInst *alg_extreme_of_extreme(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op == inst->op && (x->operands[0] == y || x->operands[1] == y))
    return alg_existing(p, inst, x);
  if (y->op != inst->op)
    return NULL;
  if (y->operands[0] == x)
    return alg_existing(p, inst, y);
  return y->operands[1] == x ? hl_b_binary(b, (HlOp)inst->op, x, y->operands[0]) : NULL;
}

// The constant of one element that is broadcast.
static const HlLiteral *bound(const HlInst *inst) {
  if (inst->op != HL_OP_BROADCAST)
    return NULL;
  inst = inst->operands[0];
  return hl_is_constant(inst) && hl_is_effective_scalar(inst->shape) ? hl_constant(inst) : NULL;
}

static bool is_ordered(const HlLiteral *low, const HlLiteral *high) {
  HlDtype dtype = low->shape->dtype;
  if (hl_is_float(dtype))
    return hl_literal_f64(low, 0) < hl_literal_f64(high, 0);
  if (hl_is_signed(dtype))
    return hl_literal_i64(low, 0) < hl_literal_i64(high, 0);
  return hl_is_unsigned(dtype) &&
         (uint64_t)hl_literal_i64(low, 0) < (uint64_t)hl_literal_i64(high, 0);
}

// max(c1, min(A, c2)) => clamp(c1, A, c2); min(c2, max(A, c1)) => clamp(c1, A, c2). Scalars that
// are not broadcast are left alone, as XLA does.
HlInst *alg_extremes_to_clamp(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int i = 0; i < 2; i++) {
    HlInst *outer = inst->operands[i], *inner = inst->operands[1 - i];
    for (int j = 0; inner->op == mirror(inst) && bound(outer) && j < 2; j++) {
      HlInst *limit = inner->operands[j], *x = inner->operands[1 - j];
      if (!bound(limit) || alg_is_constant_like(x))
        continue;
      bool is_max = inst->op == HL_OP_MAXIMUM;
      HlInst *low = is_max ? outer : limit, *high = is_max ? limit : outer;
      return is_ordered(bound(low), bound(high)) ? hl_b_clamp(b, low, x, high) : NULL;
    }
  }
  return NULL;
}

// max(lo, clamp(lo, x, hi)) => clamp(lo, x, hi); min(hi, clamp(lo, x, hi)) => clamp(lo, x, hi)
HlInst *alg_extreme_of_clamp(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *clamp, *other;
  int side = inst->op == HL_OP_MAXIMUM ? 0 : 2;
  if (!alg_match_either(inst, HL_OP_CLAMP, &clamp, &other) || clamp->operands[side] != other)
    return NULL;
  return alg_existing(p, inst, clamp);
}

static bool is_increasing(const HlInst *inst) {
  return inst->op == HL_OP_TANH || inst->op == HL_OP_LOGISTIC || inst->op == HL_OP_ERF ||
         inst->op == HL_OP_CBRT;
}

// max(f(x), f(y)) => f(max(x, y))
HlInst *alg_extreme_of_increasing(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != y->op || !is_increasing(x))
    return NULL;
  return alg_same_op(b, x, hl_b_binary(b, (HlOp)inst->op, x->operands[0], y->operands[0]));
}

// --- Clamp --------------------------------------------------------------------------------------

// clamp(a, clamp(a, x, b), b) => clamp(a, x, b)
HlInst *alg_clamp_of_clamp(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[1];
  if (inner->op != HL_OP_CLAMP || inner->operands[0] != inst->operands[0] ||
      inner->operands[2] != inst->operands[2])
    return NULL;
  return alg_existing(p, inst, inner);
}

// clamp(0, partition-id, c) => partition-id, the same with replica-id
HlInst *alg_clamp_of_device(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *id = inst->operands[1];
  int64_t count = id->op == HL_OP_PARTITION_ID ? p->m->num_partitions
                  : id->op == HL_OP_REPLICA_ID ? p->m->replica_count
                                               : 1;
  int64_t most;
  if (count <= 1 || !hl_is_all_int(inst->operands[0], 0) ||
      !alg_all_int(inst->operands[2], &most) || count - 1 > most)
    return NULL;
  return alg_existing(p, inst, id);
}
