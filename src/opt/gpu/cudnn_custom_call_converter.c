// opt/gpu/cudnn_custom_call_converter.c
//
// cudnn-custom-call-converter: for GPUs: a program may name what cuDNN is to compute as one kernel, by a custom
// call of a computation. It becomes the fusion that cuDNN's compiler takes.
//
//   c = f32[8] custom-call(x), custom_call_target="__cudnn$fusion", called_computations={body}
//   =>  c = f32[8] fusion(x), kind=kCustom, calls=body.copy,
//           backend_config={"fusion_backend_config":{"kind":"__cudnn$fusion"}}

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/passes.h"

// A fusion of the computation gives what the call gave, and has no effects that it would hide.
static bool can_be_fusion(const HlInst *call) {
  if (call->n_calls != 1 || !hl_is_call(call, HL_CALL_CUDNN_FUSION) ||
      hl_attr_int(call, HL_A_HAS_SIDE_EFFECT))
    return false;
  const HlComp *body = hl_called(call, 0);
  if (body->n_params != (int)call->n_operands ||
      !hl_shape_compatible(body->root->shape, call->shape))
    return false;
  for (int k = 0; k < body->n_params; k++)
    if (!hl_shape_compatible(body->params[k]->shape, call->operands[k]->shape))
      return false;
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    if (!hl_is_pure(inst))
      return false;
  return true;
}

static HlInst *as_fusion(HlPass *p, HlBuild *b, HlInst *call) {
  if (!can_be_fusion(call))
    return NULL;
  HlComp *body = hl_comp_copy(p->m, hl_called(call, 0), "copy", false, NULL);
  hl_comp_set_fusion(body);
  HlInst *fusion =
      hl_inst_new(b->comp, HL_OP_FUSION, call->shape, hl_fresh_name(p->m, "cudnn_fusion"),
                  (int)call->n_operands, call->operands);
  hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
  hl_set_calls(fusion, 1, &body);
  hl_set_fusion_config(p->arena, fusion, &(HlFusionConfig){.kind = HL_FUSION_CUDNN});
  return fusion;
}

const HlRule cudnn_custom_call_rules[] = {
    {HL_OP_CUSTOM_CALL, as_fusion, "cudnn-custom-call-converter",
     "custom-call(x) => fusion(x), kind=kCustom",
     "a call that names cuDNN's fusions, of a computation"},
    {0},
};
