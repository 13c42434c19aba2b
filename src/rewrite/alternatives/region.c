// rewrite/alternatives/region.c: the part of a module that a proposal is about.
//
//   x -> a -> r -> s, t     proposed: f = fusion(x) in the place of r
//                           it reads x; the region is a and r; the edges it would change are (x, a), (a, r), (r, s), (r, t)

#include "rewrite/alternatives/proposals.h"

HlInst **region_inputs(HlArena *arena, const Offer *offer, int *n) {
  const Stage *stage = offer->stage;
  InstList found = {0}, todo = {0};
  bool *seen = HL_ARRAY(arena, bool, stage->comp->next_id + 1);
  vec_push_in(arena, &todo, offer->by);
  while (todo.n > 0) {
    HlInst *inst = vec_pop(&todo);
    if (seen[inst->id])
      continue;
    seen[inst->id] = true;
    if (inst->op == HL_OP_PARAMETER)
      vec_push_in(arena, &found, stage->known.at[hl_parameter_number(inst)]);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      vec_push_in(arena, &todo, inst->operands[k]);
  }
  *n = found.n;
  return found.at;
}

HlInst **region_of(HlArena *arena, const Offer *offer, int *n) {
  enum { UNSEEN, INPUT, WAITING, DONE };
  InstList found = {0}, todo = {0};
  uint8_t *state = HL_ARRAY(arena, uint8_t, offer->stage->home->next_id + 1);
  int n_inputs;
  HlInst **inputs = region_inputs(arena, offer, &n_inputs);
  for (int k = 0; k < n_inputs; k++)
    state[inputs[k]->id] = INPUT;
  if (state[offer->old->id] == UNSEEN)
    vec_push_in(arena, &todo, offer->old);
  while (todo.n > 0) {
    HlInst *inst = vec_last(&todo);
    if (state[inst->id] != UNSEEN) {
      (void)vec_pop(&todo);
      if (state[inst->id] == WAITING)
        vec_push_in(arena, &found, inst);
      state[inst->id] = state[inst->id] == WAITING ? DONE : state[inst->id];
      continue;
    }
    state[inst->id] = WAITING;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (state[inst->operands[k]->id] == UNSEEN)
        vec_push_in(arena, &todo, inst->operands[k]);
  }
  *n = found.n;
  return found.at;
}

static uint64_t edge(const HlInst *from, const HlInst *to) {
  return from->serial << 32 | (to ? to->serial : 0);
}

uint64_t *region_edges(HlArena *arena, const Offer *offer, int *n) {
  VEC(uint64_t) found = {0};
  int n_insts;
  HlInst **insts = region_of(arena, offer, &n_insts);
  for (int k = 0; k < n_insts; k++)
    for (uint32_t i = 0; i < insts[k]->n_operands; i++)
      vec_push_in(arena, &found, edge(insts[k]->operands[i], insts[k]));
  for (int k = 0; k < offer->n_uses; k++)
    vec_push_in(arena, &found, edge(offer->old, offer->use[k].user));
  *n = found.n;
  return found.at;
}
