// rewrite/alternatives/store.c: what passes would build, kept apart from the module, each thing once.
//
//   module                          stage of its computation
//   a = exponential(x)              x' = parameter(0)             (stands for x)
//   r = add(a, y)           =>      y' = parameter(1)
//                                   f = fusion(x', y'), calling a computation of the store
//
// Two instructions are one where they are of one op, shape and attributes, have the same operands, and call the same:
// bodies are compared instruction by instruction, in the order of their lists.

#include <string.h>

#include "rewrite/alternatives/proposals.h"

void store_begin(HlProposals *p) {
  p->store = hl_module_new("proposals", NULL);
  p->n_comps = p->m->next_comp_id;
  p->stage = HL_ARRAY(p->arena, Stage *, p->n_comps + 1);
  p->known.arena = p->calls.arena = p->offer_by_hash.arena = p->arena;
}

Stage *store_stage(HlProposals *p, HlComp *home) {
  Stage **at = &p->stage[home->id];
  if (*at)
    return *at;
  Stage *stage = HL_NEW(p->arena, Stage);
  *stage = (Stage){.home = home, .comp = hl_comp_new(p->store, home->name->text, home->name->n)};
  stage->stands_for = HL_ARRAY(p->arena, HlInst *, home->next_id + 1);
  return *at = stage;
}

HlInst *store_stand_in(HlProposals *p, Stage *stage, HlInst *known) {
  HlInst **at = &stage->stands_for[known->id];
  if (*at)
    return *at;
  *at =
      hl_parameter_new(stage->comp, stage->known.n, hl_shape_intern(p->store->shapes, known->shape),
                       hl_sym(p->store, known->name->text));
  vec_push_in(p->arena, &stage->known, known);
  return *at;
}

const Calls *store_calls(const HlProposals *p, const HlInst *inst) {
  return map_get_ptr(&p->calls, inst);
}

// --- Hashes and equality --------------------------------------------------------------------------

static bool only_tells(const HlAttr *attr) {
  return attr->key == HL_A_METADATA || attr->key == HL_A_ORIGIN;
}

static uint64_t attrs_hash(const HlInst *inst, uint64_t h) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (!only_tells(&inst->attrs[k]))
      h = hl_hash_mix(h, hl_attr_hash(&inst->attrs[k]));
  return h;
}

static bool attrs_equal(const HlInst *a, const HlInst *b) {
  int j = 0;
  for (int k = 0; k < a->n_attrs; k++) {
    if (only_tells(&a->attrs[k]))
      continue;
    while (j < b->n_attrs && only_tells(&b->attrs[j]))
      j++;
    if (j == b->n_attrs || !hl_attr_equal(&a->attrs[k], &b->attrs[j++]))
      return false;
  }
  while (j < b->n_attrs && only_tells(&b->attrs[j]))
    j++;
  return j == b->n_attrs;
}

static uint64_t inst_hash(const HlInst *inst, int n, HlInst *const *operands, const Calls *calls) {
  uint64_t h = attrs_hash(inst, hl_hash_mix(inst->op, inst->shape->hash));
  for (int k = 0; k < n; k++)
    h = hl_hash_mix(h, operands[k]->id);
  return hl_hash_mix(h, calls ? calls->hash : 0);
}

// The body's instructions are numbered by its list, as they were put there.
static uint64_t body_hash(const HlProposals *p, const HlComp *comp) {
  uint64_t h = comp->n_insts;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    h = hl_hash_mix(h,
                    inst_hash(inst, (int)inst->n_operands, inst->operands, store_calls(p, inst)));
  return hl_hash_mix(h, comp->root->id);
}

static bool operands_equal(const HlInst *a, const HlInst *b) {
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (a->operands[k]->id != b->operands[k]->id)
      return false;
  return true;
}

// Calls of the module's own computations; other ones inside bodies count as different.
static bool known_calls_equal(const Calls *a, const Calls *b) {
  if (!a || !b)
    return a == b;
  if (a->n != b->n)
    return false;
  for (int k = 0; k < a->n; k++)
    if (!a->known[k] || a->known[k] != b->known[k])
      return false;
  return true;
}

static bool bodies_equal(const HlProposals *p, const HlComp *a, const HlComp *b) {
  if (a == b)
    return true;
  if (a->n_insts != b->n_insts || a->n_params != b->n_params || a->is_fusion != b->is_fusion ||
      a->root->id != b->root->id)
    return false;
  const HlInst *x = a->first, *y = b->first;
  for (; x && y; x = x->next, y = y->next)
    if (x->id != y->id || x->op != y->op || x->n_operands != y->n_operands ||
        x->shape != y->shape || !operands_equal(x, y) || !attrs_equal(x, y) ||
        !known_calls_equal(store_calls(p, x), store_calls(p, y)))
      return false;
  return x == y;
}

static bool calls_equal(const HlProposals *p, const Calls *a, const Calls *b) {
  if (!a || !b)
    return a == b;
  if (a->n != b->n)
    return false;
  for (int k = 0; k < a->n; k++)
    if (a->known[k] != b->known[k] || (!a->known[k] && !bodies_equal(p, a->made[k], b->made[k])))
      return false;
  return true;
}

// --- Putting instructions in ------------------------------------------------------------------------

static HlInst *copy_inst(HlProposals *p, HlComp *to, const HlInst *inst, HlInst *const *operands) {
  HlModule *store = p->store;
  HlInst *copy = hl_inst_new(to, (HlOp)inst->op, hl_shape_intern(store->shapes, inst->shape),
                             hl_sym(store, inst->name->text), (int)inst->n_operands, operands);
  hl_copy_attrs(copy, inst);
  return copy;
}

typedef bool IsOld(void *user, const HlComp *comp);

// Computations that are to be copied, and the instructions in them that call others.
typedef struct Pending {
  VEC(const HlComp *) from;
  VEC(HlComp *) to;
} Pending;

static HlComp *copied(Pending *pending, HlProposals *p, const HlComp *comp) {
  for (int k = 0; k < pending->from.n; k++)
    if (pending->from.at[k] == comp)
      return pending->to.at[k];
  HlComp *to = hl_comp_new(p->store, comp->name->text, comp->name->n);
  if (comp->is_fusion)
    hl_comp_set_fusion(to);
  if (comp->execution_thread)
    hl_comp_set_thread(to, hl_sym(p->store, comp->execution_thread->text));
  vec_push_in(p->arena, &pending->from, comp);
  vec_push_in(p->arena, &pending->to, to);
  return to;
}

static Calls *new_calls(HlProposals *p, Pending *pending, const HlInst *inst, IsOld *is_old,
                        void *user) {
  Calls *calls = HL_NEW(p->arena, Calls);
  HlComp **known = HL_ARRAY(p->arena, HlComp *, inst->n_calls);
  HlComp **made = HL_ARRAY(p->arena, HlComp *, inst->n_calls);
  for (int k = 0; k < inst->n_calls; k++) {
    HlComp *comp = inst->calls[k].comp;
    if (is_old(user, comp))
      known[k] = comp;
    else
      made[k] = copied(pending, p, comp);
  }
  *calls = (Calls){.n = inst->n_calls, .known = known, .made = made};
  return calls;
}

static void hash_calls(const HlProposals *p, Calls *calls) {
  uint64_t h = 1;
  for (int k = 0; k < calls->n; k++)
    h = hl_hash_mix(h, calls->known[k] ? calls->known[k]->id + 1 : body_hash(p, calls->made[k]));
  calls->hash = h;
}

static void copy_body(HlProposals *p, Pending *pending, int which, IsOld *is_old, void *user) {
  const HlComp *from = pending->from.at[which];
  HlComp *to = pending->to.at[which];
  const HlMark mark = hl_arena_mark(hl_cx_scratch(p->cx));
  HlInst **map = HL_ARRAY(hl_cx_scratch(p->cx), HlInst *, from->next_id + 1);
  for (const HlInst *inst = from->first; inst; inst = inst->next) {
    HlInst **operands = HL_ARRAY(hl_cx_scratch(p->cx), HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = map[inst->operands[k]->id];
    HlInst *copy = map[inst->id] = copy_inst(p, to, inst, operands);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      if (map[inst->control->preds[k]->id])
        hl_add_control(map[inst->control->preds[k]->id], copy);
    if (inst->n_calls == 0)
      continue;
    Calls *calls = new_calls(p, pending, inst, is_old, user);
    map_put_ptr(&p->calls, copy, calls);
    calls->hash = inst->n_calls;
  }
  hl_set_root(to, map[from->root->id]);
  hl_arena_release(hl_cx_scratch(p->cx), mark);
}

// What the instruction calls; what is to be copied of it, is.
static Calls *make_calls(HlProposals *p, const HlInst *inst, IsOld *is_old, void *user) {
  Pending pending = {0};
  if (inst->n_calls == 0)
    return NULL;
  Calls *calls = new_calls(p, &pending, inst, is_old, user);
  for (int k = 0; k < pending.from.n; k++)
    copy_body(p, &pending, k, is_old, user);
  hash_calls(p, calls);
  return calls;
}

static HlInst *find(const HlProposals *p, const Stage *stage, const HlInst *like,
                    HlInst *const *operands, const Calls *calls, uint64_t hash) {
  MapWalk walk = map_walk(&p->known, hash);
  for (HlInst *inst; (inst = map_next_ptr(&walk));) {
    if (inst->comp != stage->comp || inst->op != like->op || inst->n_operands != like->n_operands ||
        !hl_shape_equal(inst->shape, like->shape) || !attrs_equal(inst, like) ||
        !calls_equal(p, store_calls(p, inst), calls))
      continue;
    uint32_t k = 0;
    while (k < inst->n_operands && inst->operands[k] == operands[k])
      k++;
    if (k == inst->n_operands)
      return inst;
  }
  return NULL;
}

HlInst *store_add(HlProposals *p, Stage *stage, const HlInst *inst, HlInst *const *operands,
                  IsOld *is_old, void *user) {
  Calls *calls = make_calls(p, inst, is_old, user);
  const uint64_t hash = inst_hash(inst, (int)inst->n_operands, operands, calls);
  HlInst *known = find(p, stage, inst, operands, calls, hash);
  if (known)
    return known;
  HlInst *copy = copy_inst(p, stage->comp, inst, operands);
  if (calls)
    map_put_ptr(&p->calls, copy, calls);
  map_add_ptr(&p->known, hash, copy);
  return copy;
}

// --- Counting -------------------------------------------------------------------------------------

static int count_inside(const HlProposals *p, const HlInst *inst) {
  const Calls *calls = inst->op == HL_OP_FUSION ? store_calls(p, inst) : NULL;
  int n = 0;
  for (int k = 0; calls && k < calls->n; k++)
    n += (int)(calls->known[k] ? calls->known[k] : calls->made[k])->n_insts;
  return n;
}

void store_count(const HlProposals *p, const Stage *stage, const HlInst *by, int *n_made,
                 int *n_inside) {
  HlArena *arena = hl_cx_scratch(p->cx);
  const HlMark mark = hl_arena_mark(arena);
  Map seen = {.arena = arena};
  VEC(const HlInst *) todo = {0};
  *n_made = *n_inside = 0;
  vec_push_in(arena, &todo, by);
  while (todo.n > 0) {
    const HlInst *inst = vec_pop(&todo);
    uint64_t *at = map_at(&seen, map_key(inst));
    if (*at || inst->op == HL_OP_PARAMETER) {
      *at = 1;
      continue;
    }
    *at = 1;
    *n_made += 1;
    *n_inside += count_inside(p, inst);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      vec_push_in(arena, &todo, inst->operands[k]);
  }
  hl_arena_release(arena, mark);
}
