// opt/ask/loops.c: reading while loops: their slots, and what stands in their bodies and conditions.
//
// How often a loop iterates is told by opt/ask/loop_trips.c; making it anew is the business of opt/ask/loop_rebuild.c.

#include "opt/ask/loops.h"
#include "ir/vecs.h"

bool loop_is_plain(const HlInst *loop) {
  if (loop->op != HL_OP_WHILE || loop->n_calls != 2 || !hl_shape_is_tuple(loop->shape))
    return false;
  const HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  return body->root && condition->root && body->n_params == 1 && condition->n_params == 1 &&
         body->params[0] && condition->params[0] && body->root->op == HL_OP_TUPLE;
}

static bool only_elements(const HlInst *tuple) {
  if (tuple->comp->root == tuple)
    return false;
  for (const HlUse *use = tuple->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  return true;
}

bool loop_is_open(const HlInst *loop) {
  return loop_is_plain(loop) && only_elements(loop) &&
         only_elements(hl_while_body(loop)->params[0]) &&
         only_elements(hl_while_condition(loop)->params[0]);
}

bool loop_owns_comps(const HlInst *loop) {
  for (int k = 0; k < loop->n_calls; k++) {
    const HlComp *comp = hl_called(loop, k);
    if (comp->first_call != comp->last_call)
      return false;
  }
  return true;
}

int loop_slot_of(const HlInst *inst) {
  if (inst->op != HL_OP_GET_TUPLE_ELEMENT || inst->operands[0]->op != HL_OP_PARAMETER)
    return -1;
  return (int)hl_attr_int(inst, HL_A_INDEX);
}

HlInst *loop_init(const HlInst *loop, int k) {
  const HlInst *init = loop->operands[0];
  return init->op == HL_OP_TUPLE ? init->operands[k] : NULL;
}

bool loop_carries_link(const HlInst *loop) {
  for (int k = 0; k < loop_slots(loop); k++) {
    const HlInst *init = loop_init(loop, k);
    if (init && hl_shape_is_tuple(init->shape) && hl_async_link(init))
      return true;
  }
  return false;
}

HlInst *loop_next(const HlInst *loop, int k) {
  return hl_while_body(loop)->root->operands[k];
}

bool loop_is_invariant(const HlInst *loop, int k) {
  return loop_slot_of(loop_next(loop, k)) == k;
}

bool loop_constant_int(const HlInst *inst, int64_t *out) {
  if (!hl_is_constant(inst) || !hl_is_integral(inst->shape->dtype))
    return false;
  const HlLiteral *literal = hl_constant(inst);
  if (literal->n != 1)
    return false;
  *out = hl_literal_i64(literal, 0);
  return true;
}

LoopElements loop_elements(HlPass *p, const HlComp *comp) {
  const HlInst *state = comp->params[0];
  LoopElements all = {.first = HL_ARRAY(p->arena, HlInst *, state->shape->rank + 1),
                      .next = HL_ARRAY(p->arena, HlInst *, comp->next_id)};
  for (const HlUse *use = state->last_use; use; use = use->prev) {
    int slot = loop_slot_of(use->user);
    if (slot < 0) {
      all.has_other = true;
      continue;
    }
    all.next[use->user->id] = all.first[slot];
    all.first[slot] = use->user;
  }
  all.has_other |= comp->root == state;
  return all;
}

bool loop_reads(const LoopElements *elements, int k) {
  for (const HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    if (inst->first_use || inst->comp->root == inst)
      return true;
  return false;
}

bool loop_calls_any(HlPass *p, const HlComp *comp, const HlOp *ops, int n) {
  HlMark mark = hl_arena_mark(p->arena);
  bool *seen = HL_ARRAY(p->arena, bool, p->m->next_comp_id);
  const HlComp **waiting = HL_ARRAY(p->arena, const HlComp *, p->m->next_comp_id);
  int n_waiting = 0;
  bool found = false;
  waiting[n_waiting++] = comp;
  seen[comp->id] = true;
  while (n_waiting > 0 && !found) {
    const HlComp *next = waiting[--n_waiting];
    for (const HlInst *inst = next->first; inst && !found; inst = inst->next) {
      for (int k = 0; k < n; k++)
        found |= inst->op == ops[k];
      for (int k = 0; k < inst->n_calls; k++)
        if (!seen[hl_called(inst, k)->id]) {
          seen[hl_called(inst, k)->id] = true;
          waiting[n_waiting++] = hl_called(inst, k);
        }
    }
  }
  hl_arena_release(p->arena, mark);
  return found;
}

HlInst **loop_all(HlPass *p, int *n) {
  InstVec found = {0};
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (comp->is_fusion || !hl_comp_may_have(comp, HL_OP_WHILE))
      continue;
    const int before = found.n;
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_WHILE)
        vec_push_in(p->arena, &found, inst);
    if (found.n == before)
      hl_comp_count_ops(comp, NULL);
  }
  *n = found.n;
  return found.at;
}

void loop_each(HlPass *p, void (*visit)(HlPass *p, HlInst *loop)) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]) && loop_is_plain(loops[k]) &&
        !hl_has_control(loops[k]))
      visit(p, loops[k]);
}
