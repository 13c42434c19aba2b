// opt/simplify/markers.c: passes that remove custom calls which only mark something, once nobody needs the
// mark: sharding-remover, strip-memory-placement-annotations, control-dep-rewriter.
//
//   y = f32[8] custom-call(x), custom_call_target="Sharding", sharding={...}     =>   x

#include <string.h>

#include "opt/passes.h"

static bool is_marker(const HlInst *inst, const char *const *targets, int n) {
  if (inst->op != HL_OP_CUSTOM_CALL)
    return false;
  const char *target = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  for (int k = 0; k < n; k++)
    if (strcmp(target, targets[k]) == 0)
      return true;
  return false;
}

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
  static const char *const targets[] = {"Sharding",
                                        "SPMDShardToFullShape",
                                        "SPMDFullToShardShape",
                                        "xla.sdy.PropagationBarrier",
                                        "xla.sdy.FuncResultSharding",
                                        "ShardBarrierFrom",
                                        "ShardBarrierTo"};
  static const char *const groups[] = {"xla.sdy.ShardingGroup"};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->last, *prev; inst; inst = prev) {
      prev = inst->prev;
      if (is_marker(inst, targets, HL_COUNT_OF(targets)))
        unmark(p, inst, false);
      else if (is_marker(inst, groups, 1) && !inst->first_use && inst != comps[k]->root)
        hl_remove(p, "group", inst);
    }
  return true;
}

// --- Memory -------------------------------------------------------------------------------------

// A CPU has one memory.
bool pass_strip_memory_placement(HlPass *p) {
  static const char *const targets[] = {"annotate_device_placement", "MoveToHost", "MoveToDevice"};
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (is_marker(inst, targets, HL_COUNT_OF(targets)))
        unmark(p, inst, true);
    }
  return true;
}

// --- Order --------------------------------------------------------------------------------------

//   c = () custom-call(a, b), custom_call_target="control_dep"     =>   b has control predecessor a
bool pass_control_dep_rewriter(HlPass *p) {
  static const char *const targets[] = {"control_dep"};
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (!is_marker(inst, targets, 1) || inst->n_operands != 2 || inst->first_use ||
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
