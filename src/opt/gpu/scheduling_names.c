// opt/gpu/scheduling_names.c
//
// scheduling-instruction-annotator: notes on each scheduled instruction what it was called when it was scheduled, so that
// profiles find it again after later passes have renamed it.
//
//   a = f32[4] add(x, y)   =>   a = f32[4] add(x, y), metadata={scheduling_name="a"}

#include "hilo/edit.h"
#include "opt/passes.h"

static void annotate(HlPass *p, HlInst *inst) {
  const HlMetadata *old = hl_metadata(inst);
  if (inst->op == HL_OP_CONSTANT || (old && old->scheduling_name == inst->name) ||
      !hl_change(p, "name", inst, NULL))
    return;
  HlMetadata metadata = old ? *old : (HlMetadata){0};
  metadata.scheduling_name = inst->name;
  const HlAttr attr = {.key = HL_A_METADATA, .ptr = hl_intern_metadata(p->m, &metadata)};
  hl_set_attr(inst, &attr);
  hl_changed(p);
}

bool pass_scheduling_names(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      annotate(p, inst);
  return true;
}
