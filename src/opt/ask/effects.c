// opt/ask/effects.c: which computations of a module have side effects, found once for a whole pass.

#include "opt/ask/effects.h"

bool effects_has(const bool *effects, const HlInst *inst) {
  if (hl_has_side_effect(inst))
    return true;
  for (int k = 0; k < inst->n_calls; k++)
    if (effects[hl_called(inst, k)->id])
      return true;
  return false;
}

static bool may_have_effects(HlOp op) {
  const uint32_t may = HL_T_SIDE_EFFECT | HL_T_COLLECTIVE | HL_T_CALLS;
  return op == HL_OP_CUSTOM_CALL || (hl_op_info[op].traits & may);
}

// Callees come before callers. Computations that nobody calls are not asked about.
const bool *effects_find(HlPass *p) {
  uint64_t may[HL_OP_WORDS] = {0};
  for (int op = 0; op < HL_OP_COUNT; op++)
    may[op / 64] |= (uint64_t)may_have_effects((HlOp)op) << (op % 64);
  bool *effects = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (!comp->first_call || !hl_comp_may_have_any(comp, may))
      continue;
    for (const HlInst *inst = comp->first; inst && !effects[comp->id]; inst = inst->next)
      effects[comp->id] = (may[inst->op / 64] >> (inst->op % 64) & 1) && effects_has(effects, inst);
  }
  return effects;
}

bool effects_none(HlOp op) {
  return hl_op_is(op, HL_T_GIVEN) || (hl_op_is(op, HL_T_WIRE) && !hl_op_marks(op));
}
