// opt/effects.c: which computations of a module have side effects, found once for a whole pass.

#include "opt/effects.h"

bool effects_has(const bool *effects, const HlInst *inst) {
  if (hl_has_side_effect(inst))
    return true;
  for (int k = 0; k < inst->n_calls; k++)
    if (effects[hl_called(inst, k)->id])
      return true;
  return false;
}

// Callees come before callers.
const bool *effects_find(HlPass *p) {
  bool *effects = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst && !effects[comp->id]; inst = inst->next)
      effects[comp->id] = effects_has(effects, inst);
  return effects;
}
