// opt/simplify/markers.c: passes that remove custom calls which only mark something, once nobody needs the
// mark: sharding-remover, strip-memory-placement-annotations, control-dep-rewriter.
//
//   y = f32[8] custom-call(x), custom_call_target="Sharding", sharding={...}     =>   x

#include "hilo/custom_calls.h"
#include "opt/passes.h"

// Replaces a marker by its operand, whatever order of execution it had. Its sharding goes over to an operand without,
// or is lost.
static void unmark(HlPass *p, HlInst *marker, bool keeps_sharding) {
  if (marker->n_operands != 1 || !hl_shape_compatible(marker->shape, marker->operands[0]->shape) ||
      !hl_change(p, "marker", marker, NULL))
    return;
  HlInst *operand = marker->operands[0];
  const HlAttr *sharding = hl_attr(marker, HL_A_SHARDING);
  if (keeps_sharding && sharding && !hl_sharding(operand))
    hl_set_attr(operand, sharding);
  hl_replace_uses(marker, operand);
  hl_erase(marker);
  hl_changed(p);
}

// --- Sharding -----------------------------------------------------------------------------------

// Of a module that runs on one partition.
bool pass_sharding_remover(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->last, *prev; inst; inst = prev) {
      prev = inst->prev;
      if (hl_call_has(inst, HL_CALL_SHARDS))
        unmark(p, inst, false);
      else if (hl_is_call(inst, HL_CALL_SDY_GROUP) && !inst->first_use && inst != comps[k]->root)
        hl_remove(p, "group", inst);
    }
  return true;
}

// --- Memory -------------------------------------------------------------------------------------

// A CPU has one memory.
bool pass_strip_memory_placement(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (hl_call_has(inst, HL_CALL_PLACES))
        unmark(p, inst, true);
    }
  return true;
}

// --- Order --------------------------------------------------------------------------------------

//   c = () custom-call(a, b), custom_call_target="control_dep"     =>   b has control predecessor a
bool pass_control_dep_rewriter(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (!hl_is_call(inst, HL_CALL_CONTROL_DEP) || inst->n_operands != 2 || inst->first_use ||
          inst == comp->root)
        continue;
      HlInst *before = inst->operands[0], *after = inst->operands[1];
      if (before == after || hl_reaches(p, after, before) ||
          !hl_change(p, "control-dep", inst, NULL))
        continue;
      hl_add_control(before, after);
      hl_erase(inst);
      hl_changed(p);
    }
  return true;
}
