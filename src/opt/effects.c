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
  const uint32_t may = HL_T_SIDE_EFFECT | HL_T_COLLECTIVE | HL_T_CALLS;
  bool asks[HL_OP_COUNT];
  for (int op = 0; op < HL_OP_COUNT; op++)
    asks[op] = op == HL_OP_CUSTOM_CALL || (hl_op_info[op].traits & may);
  bool *effects = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst && !effects[comp->id]; inst = inst->next)
      effects[comp->id] = asks[inst->op] && effects_has(effects, inst);
  return effects;
}
