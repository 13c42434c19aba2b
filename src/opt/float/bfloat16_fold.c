// opt/float/bfloat16_fold.c: ops that are between conversions from and to bf16 compute in bf16.
//
// bfloat16-fold. Where every user rounds the result to bf16, and the target has the op for bf16, the
// op may as well give bf16; and where operands are bf16 values made f32, it may take them as they are:
//
//   a = bf16 convert(f32 add(f32 convert(x), f32 convert(y)))   =>   a = bf16 add(x, y)
//
// An op that then had both bf16 and f32 is left, but for products of bf16 with f32 sums
// (option mixed_dots). CPUs have no op for bf16.

#include <string.h>

#include "hilo/edit.h"
#include "opt/float/float_normalization.h"
#include "opt/passes.h"

typedef struct Fold {
  HlPass *p;
  bool mixed_dots;
} Fold;

static bool is_never_touched(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_FUSION:
  case HL_OP_BITCAST_CONVERT:
  case HL_OP_CONVERT:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_DYNAMIC_UPDATE_SLICE:
  case HL_OP_SCATTER: return true;  // the last two write in place
  default:
    return hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_WIRE | HL_T_ASYNC) || inst->n_calls > 0 ||
           hl_has_side_effect(inst) || hl_has_control(inst) || !hl_shape_is_array(inst->shape);
  }
}

static bool is_widening(const HlInst *x) {
  return x->op == HL_OP_CONVERT && x->shape->dtype == HL_F32 &&
         x->operands[0]->shape->dtype == HL_BF16;
}

static bool only_rounded(const HlInst *inst) {
  if (inst->shape->dtype != HL_F32 || !inst->first_use || inst->comp->root == inst)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_CONVERT || use->user->shape->dtype != HL_BF16 ||
        hl_has_control(use->user))
      return false;
  return true;
}

static bool may_mix(const Fold *f, const HlInst *inst, bool all_operands) {
  return f->mixed_dots && inst->op == HL_OP_DOT && all_operands && inst->shape->dtype == HL_F32;
}

// The instruction on operands that are not widened.
static HlInst *narrowed(const Fold *f, HlBuild *b, const HlInst *inst, bool result) {
  HlInst **operands = HL_ARRAY(f->p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = inst->operands[k];
    operands[k] = is_widening(x) ? x->operands[0] : x;
  }
  const HlShape *shape = inst->shape;
  if (result)
    shape = hl_shape_with_dtype(f->p->m->shapes, shape, HL_BF16);
  return hl_inst_copy(b->comp, inst, shape, (int)inst->n_operands, operands);
}

static void fold(const Fold *f, HlInst *inst) {
  bool any = false, others = false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    bool widened = is_widening(inst->operands[k]);
    any |= widened;
    others |= !widened && inst->operands[k]->shape->dtype == HL_F32;
  }
  bool result = only_rounded(inst) && !others;
  bool stays_wide = !result && inst->shape->dtype == HL_F32;
  if (others || (!any && !result) || (stays_wide && !may_mix(f, inst, any)) ||
      !hl_gpu_computes(inst, HL_BF16))
    return;
  HlBuild b;
  HlInst *first = result ? inst->first_use->user : inst;
  hl_begin(f->p, "fold", first, &b);
  HlInst *made = narrowed(f, &b, inst, result);
  for (const HlUse *use = result ? inst->first_use->next : NULL; use; use = use->next)
    hl_also(f->p, use->user, made);
  hl_commit(f->p, made);
}

bool pass_bfloat16_fold(HlPass *p) {
  Fold f = {p, hl_pass_flag(p, "mixed_dots")};
  if (!hl_dtype_in(p->target->computes, HL_BF16))
    return true;
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    HlMark mark = hl_arena_mark(p->arena);
    int n;
    HlInst **insts = hl_pass_insts(p, comps[c], &n);
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]) && !is_never_touched(insts[k]))
        fold(&f, insts[k]);
    hl_arena_release(p->arena, mark);
  }
  return true;
}
