// opt/memory/schedule_moves.c: passes that move instructions in the schedules of a scheduled module:
// instruction-hoister, constant-deferring, root-instruction-sinker.

#include "opt/passes.h"

typedef bool ScheduleFn(HlPass *p, HlComp *comp, HlInst **order);

// Calls `make` for each computation with a schedule; true from it: `order` is the new schedule.
static bool reschedule(HlPass *p, const char *rule, ScheduleFn *make) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (!comp->schedule || comp->is_fusion)
      continue;
    HlMark mark = hl_arena_mark(p->arena);
    HlInst **order = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1);
    if (make(p, comp, order) && hl_change(p, rule, comp->root, NULL)) {
      hl_set_schedule(comp, order);
      hl_changed(p);
    }
    hl_arena_release(p->arena, mark);
  }
  return true;
}

static bool differs(const HlComp *comp, HlInst *const *order) {
  for (uint32_t k = 0; k < comp->n_insts; k++)
    if (order[k] != comp->schedule[k])
      return true;
  return false;
}

// --- instruction-hoister: parameters and constants come first ------------------------------------

static bool is_hoisted(const HlPass *p, const HlInst *inst) {
  return !(inst->control && inst->control->n_preds > 0) &&
         ((inst->op == HL_OP_PARAMETER && hl_pass_flag(p, "hoist_parameters")) ||
          (inst->op == HL_OP_CONSTANT && hl_pass_flag(p, "host_constants")));
}

static bool hoist(HlPass *p, HlComp *comp, HlInst **order) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < comp->n_insts; k++)
    if (is_hoisted(p, comp->schedule[k]))
      order[n++] = comp->schedule[k];
  for (uint32_t k = 0; k < comp->n_insts; k++)
    if (!is_hoisted(p, comp->schedule[k]))
      order[n++] = comp->schedule[k];
  return differs(comp, order);
}

bool pass_instruction_hoister(HlPass *p) {
  return reschedule(p, "hoist", hoist);
}

// --- constant-deferring: a constant comes just before its first user -----------------------------

static bool defer(HlPass *p, HlComp *comp, HlInst **order) {
  bool *done = HL_ARRAY(p->arena, bool, comp->next_id);
  uint32_t n = 0;
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    HlInst *inst = comp->schedule[k];
    if (inst->op == HL_OP_CONSTANT && inst->first_use && !hl_has_control(inst))
      continue;
    for (uint32_t o = 0; o < inst->n_operands; o++) {
      HlInst *operand = inst->operands[o];
      if (operand->op == HL_OP_CONSTANT && !hl_has_control(operand) && !done[operand->id]) {
        done[operand->id] = true;
        order[n++] = operand;
      }
    }
    order[n++] = inst;
  }
  return differs(comp, order);
}

bool pass_constant_deferring(HlPass *p) {
  return reschedule(p, "defer", defer);
}

// --- root-instruction-sinker: the root comes last ------------------------------------------------

// A new root that is the old one again: its elements, or the same bytes.
static HlInst *repeat_root(HlPass *p, HlInst *root) {
  HlComp *comp = root->comp;
  const HlShape *shape = root->shape;
  if (!hl_shape_is_tuple(shape))
    return hl_inst_new(comp, HL_OP_BITCAST, shape, NULL, 1, &root);
  HlInst **element = HL_ARRAY(p->arena, HlInst *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++) {
    element[k] = hl_inst_new(comp, HL_OP_GET_TUPLE_ELEMENT, shape->element[k], NULL, 1, &root);
    hl_set_int(element[k], HL_A_INDEX, k);
  }
  return hl_inst_new(comp, HL_OP_TUPLE, shape, NULL, shape->rank, element);
}

static bool can_repeat(const HlShape *shape) {
  return hl_shape_is_tuple(shape) || hl_shape_is_array(shape);
}

static void sink_root(HlPass *p, HlComp *comp) {
  const uint32_t n = comp->n_insts;
  HlInst *const *old = comp->schedule;
  if (old[n - 1] == comp->root || !can_repeat(comp->root->shape) ||
      !hl_change(p, "sink", comp->root, NULL))
    return;
  hl_set_root(comp, repeat_root(p, comp->root));
  HlInst **order = HL_ARRAY(p->arena, HlInst *, comp->n_insts);
  for (uint32_t k = 0; k < n; k++)
    order[k] = old[k];
  uint32_t at = comp->n_insts;
  for (HlInst *inst = comp->last; at > n; inst = inst->prev)
    order[--at] = inst;
  hl_set_schedule(comp, order);
  hl_changed(p);
}

bool pass_root_instruction_sinker(HlPass *p) {
  const bool was_scheduled = p->m->is_scheduled;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    if (comp->schedule && !comp->is_fusion && comp->n_insts > 0)
      sink_root(p, comp);
  hl_set_scheduled(p->m, was_scheduled);
  return true;
}
