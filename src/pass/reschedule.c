// pass/reschedule.c: the order of execution that a pass of this run has made, behind one whose edits have dropped it. (A module
// that came with an order loses it by the first edit: its passes begin anew.) As XLA makes it: what is still there keeps
// its order, and what is new runs as soon as all that it needs has run.

#include "pass/engine.h"

PassOrders pass_keep_orders(HlEngine *e, const HlPassInfo *pass) {
  if (!e->ordered || !e->m->is_scheduled || e->options.dry ||
      (pass->breaks >> HL_HAS_SCHEDULED & 1))
    return (PassOrders){0};
  HlArena *arena = e->scratch;
  PassOrder *kept = HL_ARRAY(arena, PassOrder, e->m->next_comp_id + 1);
  for (HlComp *comp = e->m->first; comp; comp = comp->next)
    if (comp->schedule) {
      kept[comp->id].n = comp->n_insts;
      kept[comp->id].at =
          hl_arena_copy(arena, comp->schedule, sizeof *comp->schedule * comp->n_insts);
    }
  return (PassOrders){kept, e->m->next_comp_id};
}

typedef struct Sequence {
  HlInst **at;
  uint32_t n, done;  // those before `done` have told who waits for them
  uint32_t *waits;   // by id: for how many operands and control edges
  bool *has_turn;    // by id: it runs when its turn in the old order comes
} Sequence;

static void arrive(Sequence *s, HlInst *inst) {
  if (--s->waits[inst->id] == 0 && !s->has_turn[inst->id])
    s->at[s->n++] = inst;
}

static void run_ready(Sequence *s) {
  for (; s->done < s->n; s->done++) {
    const HlInst *inst = s->at[s->done];
    for (const HlUse *use = inst->first_use; use; use = use->next)
      arrive(s, use->user);
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      arrive(s, inst->control->succs[k]);
  }
}

// False: it goes in a circle.
static bool reschedule(HlEngine *e, HlComp *comp, const PassOrder *old) {
  HlArena *arena = e->scratch;
  Sequence s = {.at = HL_ARRAY(arena, HlInst *, comp->n_insts + 1),
                .waits = HL_ARRAY(arena, uint32_t, comp->next_id + 1),
                .has_turn = HL_ARRAY(arena, bool, comp->next_id + 1)};
  for (uint32_t k = 0; k < old->n; k++)
    if (hl_alive(old->at[k]))
      s.has_turn[old->at[k]->id] = true;
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    s.waits[inst->id] = inst->n_operands + (uint32_t)(inst->control ? inst->control->n_preds : 0);
    if (s.waits[inst->id] == 0 && !s.has_turn[inst->id])
      s.at[s.n++] = inst;
  }
  run_ready(&s);
  for (uint32_t k = 0; k < old->n; k++) {
    HlInst *inst = old->at[k];
    if (!hl_alive(inst))
      continue;
    s.has_turn[inst->id] = false;  // from now on it runs when it can
    if (s.waits[inst->id] == 0)
      s.at[s.n++] = inst;
    run_ready(&s);
  }
  if (s.n != comp->n_insts)
    return false;
  hl_set_schedule(comp, s.at);
  return true;
}

void pass_restore_orders(HlEngine *e, PassOrders kept) {
  const PassOrder none = {0};
  if (!kept.at || e->m->is_scheduled)
    return;
  for (HlComp *comp = e->m->first; comp; comp = comp->next)
    if (!comp->is_fusion && !comp->schedule &&
        !reschedule(e, comp, comp->id < kept.n ? &kept.at[comp->id] : &none))
      return;
  hl_set_scheduled(e->m, true);
}
