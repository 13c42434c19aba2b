// opt/expand/dynamic_dimension_simplifier.c: shortens the detours of sizes computed at run time, and writes
// down sizes that are known: hlo-get-dimension-size-rewriter.
//
// dynamic-dimension-simplifier. Sizes of dynamic dimensions travel as scalars that are reshaped to
// [1], concatenated, sliced apart and reshaped back. Each rule removes one such step; one walk a
// rule, in the table's order.
//
//   v = s32[2] concatenate(a, b)         =>   r = s32[] reshape(b)
//   r = s32[] reshape(slice(v, [1:2]))

#include "hilo/edit.h"
#include "hilo/pass.h"
#include "opt/expand/dynamic_dims.h"
#include "opt/passes.h"

static HlInst *flatten_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  uint32_t n = 0;
  bool nested = false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *x = inst->operands[k];
    bool inner = x->op == HL_OP_CONCATENATE && hl_dim(x) == hl_dim(inst);
    n += inner ? x->n_operands : 1;
    nested |= inner;
  }
  if (!nested)
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n);
  n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = inst->operands[k];
    if (x->op != HL_OP_CONCATENATE || hl_dim(x) != hl_dim(inst)) {
      operands[n++] = x;
      continue;
    }
    for (uint32_t i = 0; i < x->n_operands; i++)
      operands[n++] = x->operands[i];
  }
  return hl_inst_copy(b->comp, inst, NULL, (int)n, operands);
}

static HlInst *slice_of_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *concat = hl_operand(inst, 0);
  HlI64s slice = hl_attr_ints(inst, HL_A_SLICE);
  if (concat->op != HL_OP_CONCATENATE || inst->shape->rank != 1 || slice.n != 3 || slice.at[2] != 1)
    return NULL;
  int64_t start = 0;
  for (uint32_t k = 0; k < concat->n_operands && start <= slice.at[0]; k++) {
    HlInst *x = concat->operands[k];
    if (start == slice.at[0] && x->shape->dim[0] == slice.at[1] - slice.at[0])
      return x;
    start += x->shape->dim[0];
  }
  return NULL;
}

static HlInst *reshape_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *broadcast = hl_operand(inst, 0);
  bool matches = inst->shape->rank == 0 && broadcast->op == HL_OP_BROADCAST &&
                 broadcast->shape->rank == 1 && hl_operand(broadcast, 0)->shape->rank == 0;
  return matches ? hl_operand(broadcast, 0) : NULL;
}

static HlInst *reshape_of_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *inner = hl_operand(inst, 0);
  if (inner->op != HL_OP_RESHAPE || hl_operand(inner, 0)->shape != inst->shape)
    return NULL;
  return hl_operand(inner, 0);
}

static HlInst *nothing(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  return x->shape == inst->shape ? x : NULL;
}

const HlRule dynamic_dimension_rules[] = {
    {HL_OP_CONCATENATE, flatten_concat, "concat-concat",
     "concatenate(concatenate(a, b), c) => concatenate(a, b, c)", "along one dimension"},
    {HL_OP_SLICE, slice_of_concat, "slice-concat", "slice(concatenate(.., a, ..)) => a",
     "vectors; the slice is just a"},
    {HL_OP_RESHAPE, reshape_of_broadcast, "reshape-broadcast", "reshape(broadcast(a)) => a",
     "scalar to [1] to scalar"},
    {HL_OP_RESHAPE, reshape_of_reshape, "reshape-reshape", "reshape(reshape(a)) => a",
     "equal shapes"},
    {HL_OP_CONVERT, nothing, "convert", "convert(a) => a", "equal shapes"},
    {HL_OP_RESHAPE, nothing, "reshape", "reshape(a) => a", "equal shapes"},
    {0},
};

bool pass_dynamic_dimension_simplifier(HlPass *p) {
  for (const HlRule *rule = dynamic_dimension_rules; rule->name; rule++) {
    HlRule one[2] = {*rule, {0}};
    if (!hl_run_rules(p, one, 1))
      return false;
  }
  return true;
}

// --- hlo-get-dimension-size-rewriter ------------------------------------------------------------

static HlInst *known_size(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  const HlShape *shape = inst->operands[0]->shape;
  int64_t d = hl_dim(inst);
  if (!hl_shape_is_array(shape) || dyn_is_dim(shape, (int)d))
    return NULL;
  return hl_b_scalar_int(b, inst->shape->dtype, shape->dim[d]);
}

const HlRule rules_dimension_size[] = {
    {HL_OP_GET_DIMENSION_SIZE, known_size, "known-size", "get-dimension-size(x) => n",
     "a static dimension of n elements"},
    {0},
};
