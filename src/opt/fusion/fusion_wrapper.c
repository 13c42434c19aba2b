// opt/fusion/fusion_wrapper.c
//
// fusion-wrapper: puts operations that stand alone into fusions of their own, since it is fusions
// that become kernels.
//
//   r = f32[8] tanh(x)     =>     r = f32[8] fusion(x), kind=kLoop, calls={ ROOT tanh(x) }

#include "opt/ask/dots.h"
#include "opt/ask/emitters.h"
#include "opt/ask/layouts.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// A copy that only moves bytes is a memcpy, not a kernel.
static bool changes_layout(const HlInst *copy) {
  const HlShape *from = copy->operands[0]->shape;
  return hl_shape_is_array(copy->shape) && !hl_is_complex(copy->shape->dtype) &&
         hl_dtype_info[copy->shape->dtype].bits >= 8 && !hl_shape_same_order(from, copy->shape);
}

static bool is_wrapped(const HlPass *p, const HlInst *inst) {
  const bool since_0_11 = hl_pass_since(p, HL_XLA_0_11);
  switch (inst->op) {
  case HL_OP_COPY: return changes_layout(inst);
  case HL_OP_CONCATENATE: return false;  // XLA has code for this one
  case HL_OP_DYNAMIC_UPDATE_SLICE:
  case HL_OP_TRANSPOSE: return since_0_11;  // and had for these
  case HL_OP_BITCAST_CONVERT:
  case HL_OP_IOTA:
  case HL_OP_MAP:
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW:
  case HL_OP_SCATTER: return true;
  default:
    return hl_op_is((HlOp)inst->op, HL_T_REARRANGES | HL_T_ELEMENTWISE) &&
           (since_0_11 || !emitters_of((HlOp)inst->op)->gpu_own);
  }
}

// Kernels for GPUs are made of fusions alone.
static bool is_wrapped_for_gpu(const HlPass *p, const HlInst *inst) {
  const HlTarget *t = gpu_target(p);
  if (inst->op == HL_OP_FUSION || inst->op == HL_OP_CONSTANT || inst->op == HL_OP_BITCAST)
    return false;
  if (inst->op == HL_OP_COPY)
    return changes_layout(inst);
  if (inst->op == HL_OP_DOT)
    return hl_pass_since(p, HL_XLA_0_11) && inst->n_operands == 2 &&
           (dot_is_small(p->arena, inst) || !dot_is_matrix_product(inst));
  return gpu_is_loop_fusible_producer(t, inst) || gpu_is_input_fusible(t, inst);
}

// Bodies of control flow; what other instructions call is part of their code.
static bool is_body_of_code(const HlComp *comp) {
  if (!comp->first_call)
    return comp == comp->module->entry;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!hl_op_is((HlOp)call->caller->op, HL_T_CONTROL | HL_T_ASYNC))
      return false;
  return true;
}

// A concatenation alone is a loop, by whichever code it is written out.
static int kind_of(const HlPass *p, const HlInst *inst) {
  if (!hl_target_has_blocks(p->target) || inst->op == HL_OP_CONCATENATE)
    return HL_WORD_fusion_kind_LOOP;
  return gpu_kind(gpu_emitter(gpu_target(p), inst));
}

static void wrap(HlPass *p, HlInst *inst) {
  const char *text = hl_op_text((HlOp)inst->op);
  const char *name = hl_arena_printf(p->arena, "wrapped_%s", text);
  const char *body = hl_arena_printf(p->arena, "wrapped_%s_computation", text);
  HlInst *fusion = fusion_wrap(p->arena, inst, kind_of(p, inst), name, body);
  hl_remove_attr(fusion, HL_A_SHARDING);
}

bool pass_fusion_wrapper(HlPass *p) {
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    if (!is_body_of_code(comps[c]))
      continue;
    int n;
    HlInst **insts = hl_pass_insts(p, comps[c], &n);
    for (int k = 0; k < n; k++)
      if ((hl_target_has_blocks(p->target) ? is_wrapped_for_gpu(p, insts[k])
                                           : is_wrapped(p, insts[k])) &&
          !hl_has_control(insts[k]) && hl_change(p, "wrap", insts[k], NULL)) {
        wrap(p, insts[k]);
        hl_changed(p);
      }
  }
  return true;
}
