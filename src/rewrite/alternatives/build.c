// rewrite/alternatives/build.c: values of the store become instructions of the module, at the end of their computation,
// each once for all proposals that need it; and what depends on what.

#include "rewrite/alternatives/proposals.h"

// --- Computations ---------------------------------------------------------------------------------

// Computations of the store that are being copied.
typedef struct Copies {
  HlProposals *p;
  HlModule *m;
  VEC(const HlComp *) from;
  VEC(HlComp *) to;
} Copies;

static HlComp *copy_of(Copies *c, const HlComp *comp) {
  for (int k = 0; k < c->from.n; k++)
    if (c->from.at[k] == comp)
      return c->to.at[k];
  const HlSym *name = hl_fresh_comp_name(c->m, comp->name->text);
  HlComp *to = hl_comp_new(c->m, name->text, name->n);
  if (comp->is_fusion)
    hl_comp_set_fusion(to);
  if (comp->execution_thread)
    hl_comp_set_thread(to, hl_sym(c->m, comp->execution_thread->text));
  vec_push_in(c->p->arena, &c->from, comp);
  vec_push_in(c->p->arena, &c->to, to);
  return to;
}

// Who has a body of its own gets a copy of one that stays with the module.
static HlComp *called(Copies *c, const HlInst *inst, HlComp *known, const HlComp *made) {
  if (!known)
    return copy_of(c, made);
  const bool wants_own = inst->op == HL_OP_FUSION || inst->op == HL_OP_ASYNC_START;
  return wants_own ? hl_comp_copy(c->m, known, "clone", true, NULL) : known;
}

static void set_calls(Copies *c, HlInst *copy, const HlInst *inst) {
  const Calls *calls = store_calls(c->p, inst);
  if (!calls)
    return;
  HlArena *arena = hl_cx_scratch(c->p->cx);
  const HlMark mark = hl_arena_mark(arena);
  HlComp **comps = HL_ARRAY(arena, HlComp *, calls->n + 1);
  for (int k = 0; k < calls->n; k++)
    comps[k] = called(c, inst, calls->known[k], calls->made[k]);
  hl_set_calls(copy, calls->n, comps);
  hl_arena_release(arena, mark);
}

static HlInst *copy_inst(HlModule *m, HlComp *to, const HlInst *inst, HlInst *const *operands) {
  HlInst *copy = hl_inst_new(to, (HlOp)inst->op, hl_shape_intern(m->shapes, inst->shape),
                             hl_fresh_name(m, inst->name->text), (int)inst->n_operands, operands);
  hl_copy_attrs(copy, inst);
  return copy;
}

static void copy_body(Copies *c, const HlComp *from, HlComp *to) {
  HlArena *arena = hl_cx_scratch(c->p->cx);
  const HlMark mark = hl_arena_mark(arena);
  HlInst **map = HL_ARRAY(arena, HlInst *, from->next_id + 1);
  for (const HlInst *inst = from->first; inst; inst = inst->next) {
    HlInst **operands = HL_ARRAY(arena, HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = map[inst->operands[k]->id];
    HlInst *copy = map[inst->id] = copy_inst(c->m, to, inst, operands);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      hl_add_control(map[inst->control->preds[k]->id], copy);
    set_calls(c, copy, inst);
  }
  hl_set_root(to, map[from->root->id]);
  hl_arena_release(arena, mark);
}

static void copy_bodies(Copies *c) {
  for (int k = 0; k < c->from.n; k++)
    copy_body(c, c->from.at[k], c->to.at[k]);
}

// --- Values ---------------------------------------------------------------------------------------

Builder builder_new(HlProposals *p) {
  Builder b = {.p = p, .built = HL_ARRAY(p->arena, HlInst **, p->n_comps + 1)};
  for (uint32_t k = 0; k < p->n_comps; k++)
    if (p->stage[k])
      b.built[k] = HL_ARRAY(p->arena, HlInst *, p->stage[k]->comp->next_id + 1);
  return b;
}

HlInst *builder_get(const Builder *b, const Stage *stage, const HlInst *inst) {
  HlInst *built = b->built[stage->home->id][inst->id];
  if (built || inst->op != HL_OP_PARAMETER)
    return built;
  return stage->known.at[hl_parameter_number(inst)];
}

static HlInst *build_one(Builder *b, const Stage *stage, const HlInst *inst) {
  HlArena *arena = hl_cx_scratch(b->p->cx);
  const HlMark mark = hl_arena_mark(arena);
  HlInst **operands = HL_ARRAY(arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = builder_get(b, stage, inst->operands[k]);
  HlInst *copy = copy_inst(b->p->m, stage->home, inst, operands);
  Copies copies = {.p = b->p, .m = b->p->m};
  set_calls(&copies, copy, inst);
  copy_bodies(&copies);
  hl_arena_release(arena, mark);
  return b->built[stage->home->id][inst->id] = copy;
}

HlInst *builder_build(Builder *b, const Stage *stage, HlInst *by) {
  VEC(const HlInst *) todo = {0};
  vec_push_in(b->p->arena, &todo, by);
  while (todo.n > 0) {
    const HlInst *inst = vec_last(&todo);
    const int n = todo.n;
    if (builder_get(b, stage, inst)) {
      (void)vec_pop(&todo);
      continue;
    }
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (!builder_get(b, stage, inst->operands[k]))
        vec_push_in(b->p->arena, &todo, inst->operands[k]);
    if (todo.n == n)
      build_one(b, stage, inst);
  }
  return builder_get(b, stage, by);
}

// --- What depends on what ---------------------------------------------------------------------------

void reach_begin(Reach *r, const HlComp *comp) {
  if (comp->next_id > r->n_ids) {
    const uint32_t n = comp->next_id * 2;
    r->seen = HL_ARRAY(r->arena, uint32_t, n);
    r->target = HL_ARRAY(r->arena, uint32_t, n);
    r->n_ids = n;
    r->round = 0;
  }
  r->round++;
  r->least = UINT64_MAX;
}

void reach_target(Reach *r, const HlInst *on) {
  const uint64_t place = hl_place(on);
  r->target[on->id] = r->round;
  r->least = place < r->least ? place : r->least;
}

// What stands before all targets in the list depends on none.
static void reach_push(Reach *r, HlInst *inst) {
  if (r->seen[inst->id] == r->round || hl_place(inst) < r->least)
    return;
  r->seen[inst->id] = r->round;
  vec_push_in(r->arena, &r->stack, inst);
}

bool reach_any(Reach *r, HlInst *from) {
  r->stack.n = 0;
  reach_push(r, from);
  while (r->stack.n > 0) {
    const HlInst *inst = vec_pop(&r->stack);
    if (r->target[inst->id] == r->round)
      return true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      reach_push(r, inst->operands[k]);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      reach_push(r, inst->control->preds[k]);
  }
  return false;
}
