// opt/gpu/config_assigner.c
//
// config-assigner: for GPUs: notes which code makes each kernel. XLA measures what Triton and the libraries make of it; here,
// where nothing is measured, what has no code of its own by now is for XLA's native emitters, which choose for themselves.
//
//   f = f32[64] fusion(x), kind=kLoop
//   =>  the same, backend_config={"native_emitter_backend_config":{"type":"NATIVE_EMITTER_TYPE_INVALID","unroll_factor":0}}

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// Scatters have no configuration: their order in memory is not fixed, so that they cannot be measured against each other.
static bool is_native(HlPass *p, const HlInst *inst) {
  const GpuEmitter emitter = gpu_emitter(gpu_target(p), inst);
  return inst->op == HL_OP_FUSION && hl_fusion_code(inst) == HL_FUSION_NONE &&
         emitter != GPU_LIBRARY && emitter != GPU_SCATTER;
}

static void assign(HlPass *p, HlInst *inst) {
  HlNativeConfig config = hl_native_config(p->arena, inst);
  if (config.known || !is_native(p, inst) || !hl_change(p, "native", inst, NULL))
    return;
  config = (HlNativeConfig){.known = true, .type = HL_NATIVE_INVALID};
  hl_set_native_config(p->arena, inst, &config);
  hl_changed(p);
}

bool pass_config_assigner(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++)
    for (HlInst *inst = comps[c]->first; inst; inst = inst->next)
      if (inst->op == HL_OP_FUSION)
        assign(p, inst);
  return true;
}
