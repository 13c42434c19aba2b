// tool/isolate.c: makes a module of one instruction.

#include "hilo/isolate.h"

#include <string.h>

#include "hilo/edit.h"
#include "hilo/pass.h"

bool hl_is_worth_isolating(const HlInst *inst) {
  switch ((HlOp)inst->op) {
  case HL_OP_AFTER_ALL:
  case HL_OP_INFEED:
  case HL_OP_OUTFEED: return false;
  case HL_OP_BITCAST: return true;
  default:
    return !hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_WIRE | HL_T_CONTROL) &&
           !hl_is_async((HlOp)inst->op);
  }
}

static bool is_control_flow(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL);
}

HlComp **hl_control_flow_comps(HlArena *arena, const HlModule *m, int *n) {
  HlComp **list = HL_ARRAY(arena, HlComp *, m->n_comps + 1);
  bool *seen = HL_ARRAY(arena, bool, m->next_comp_id + 1);
  *n = 0;
  if (m->entry) {
    list[(*n)++] = m->entry;
    seen[m->entry->id] = true;
  }
  for (int at = 0; at < *n; at++)
    for (const HlInst *inst = list[at]->first; inst; inst = inst->next)
      for (int k = 0; is_control_flow(inst) && k < inst->n_calls; k++) {
        HlComp *callee = hl_called(inst, k);
        if (!seen[callee->id])
          list[(*n)++] = callee;
        seen[callee->id] = true;
      }
  return list;
}

// The same instruction in a copy, whose lists are in the same order.
static HlInst *same_in(HlModule *copy, const HlInst *inst) {
  HlComp *comp = copy->first;
  for (const HlComp *c = inst->comp->module->first; c != inst->comp; c = c->next)
    comp = comp->next;
  HlInst *out = comp->first;
  for (const HlInst *i = inst->comp->first; i != inst; i = i->next)
    out = out->next;
  return out;
}

static HlComp *only_this(HlCx *cx, HlModule *m, const HlInst *inst) {
  HlComp *comp = hl_comp_new(m, "isolated", strlen("isolated"));
  HlBuild b = {.cx = cx, .comp = comp, .loc = inst->loc};
  HlArena *arena = hl_arena_new();
  HlInst **made = HL_ARRAY(arena, HlInst *, inst->comp->next_id + 1);  // by the operand's id
  HlInst **operands = HL_ARRAY(arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (!made[operand->id])
      made[operand->id] =
          hl_b_parameter(&b, operand->shape, hl_fresh_name(m, operand->name->text)->text);
    operands[k] = made[operand->id];
  }
  hl_set_root(comp, hl_inst_copy(comp, inst, NULL, (int)inst->n_operands, operands));
  hl_arena_free(arena);
  return comp;
}

HlModule *hl_isolate(HlCx *cx, const HlInst *inst) {
  HlModule *m = hl_clone(cx, inst->comp->module);
  if (!m)
    return NULL;
  const HlInst *same = same_in(m, inst);
  HlComp *entry = only_this(cx, m, same);
  hl_forget_interface(m);
  hl_comp_set_entry(entry);
  for (HlComp *comp = m->last, *prev; comp; comp = prev) {  // callers come after callees
    prev = comp->prev;
    if (comp != entry && !comp->first_call)
      hl_comp_erase(comp);
    else
      hl_set_schedule(comp, NULL);
  }
  hl_complete_entry_layout(m);
  if (inst->name->n > 0)
    hl_module_set_name(m, hl_sym(m, inst->name->text));
  if (hl_sort_comps(cx, m))
    return m;
  hl_module_free(m);
  return NULL;
}
