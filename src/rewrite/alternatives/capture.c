// rewrite/alternatives/capture.c: what a dry run shows, as values that would be read in the place of others.
//
// The engine makes each rewrite for a moment (pass/capture.h), and here it is compared with how the module was before. Of
// the instructions that were there, a rewrite leaves some with another operand: then that value is offered in the place
// of the one before, to those who would read it. Others it edits (a fusion that grows, another attribute): then a copy of
// the instruction as it would be is offered in its place, to all who read it.
//
//   f = fusion(x), calls={..}            f = fusion(z), calls={..}        offered: f' in the place of f, for r
//   r = negate(f)                =>      r = negate(f)
//
// Where an instruction gets several other operands at once, each must stand for the one before it wherever that was read;
// else a copy of the instruction itself is offered. Nothing is offered where the rewrite is about an order, a layout,
// a computation as a whole, or what nobody needs.

#include <string.h>

#include "hilo/opt.h"
#include "ir/state.h"  // how much the journals hold, without noting that somebody asked
#include "pass/capture.h"
#include "rewrite/alternatives/proposals.h"

// An instruction as it was before the run.
typedef struct Was {
  const HlInst *inst;  // NULL: there was none of this id
  HlInst *const *operands;
  const HlAttr *attrs;
  HlComp *const *calls;
  const HlShape *shape;
  uint32_t n_operands;
  uint16_t n_attrs, n_calls;
  int n_preds, n_succs;
} Was;

// An instruction that the rewrite at hand has touched.
typedef struct Touched {
  HlInst *inst;
  bool whole;  // it is offered as a copy
} Touched;

// An operand that was exchanged.
typedef struct Exchange {
  HlInst *from, *to;
  Use use;
} Exchange;

typedef struct Capture {
  HlProposals *p;
  HlModule *m;
  uint64_t first_serial;
  uint32_t first_comp;
  Was **was;      // by id of the computation and of the instruction; NULL: a fusion's body
  HlInst **root;  // by id of the computation
  uint32_t **
      place;  // 1 + its place in `touched`, by id of the computation and of the instruction; 0: it is not there
  // Of the rewrite at hand:
  HlComp *home;
  bool *is_dirty;  // by id of the computation: it was edited, or calls one that was
  VEC(HlComp *) dirty;
  VEC(Touched) touched;
  VEC(Exchange) exchanges;
  VEC(HlInst *) todo;
  Map staged;  // by instruction of the home: its like in the stage
  Map opened;  // instructions whose operands are being staged: one that meets itself depends on itself
  bool fits;  // all that it changes can be offered
  int rewrite;
} Capture;

static bool is_new(const Capture *c, const HlInst *inst) {
  return inst->serial >= c->first_serial;
}

// --- How it was -----------------------------------------------------------------------------------

static void note_inst(Capture *c, Was *was, HlInst *inst) {
  HlArena *arena = c->p->arena;
  HlComp **calls = HL_ARRAY(arena, HlComp *, inst->n_calls + 1);
  for (int k = 0; k < inst->n_calls; k++)
    calls[k] = inst->calls[k].comp;
  *was =
      (Was){.inst = inst,
            .operands = hl_arena_copy(arena, inst->operands, sizeof(HlInst *) * inst->n_operands),
            .attrs = hl_arena_copy(arena, inst->attrs, sizeof(HlAttr) * inst->n_attrs),
            .calls = calls,
            .shape = inst->shape,
            .n_operands = inst->n_operands,
            .n_attrs = inst->n_attrs,
            .n_calls = inst->n_calls,
            .n_preds = inst->control ? inst->control->n_preds : 0,
            .n_succs = inst->control ? inst->control->n_succs : 0};
}

static void note_module(Capture *c) {
  HlArena *arena = c->p->arena;
  c->was = HL_ARRAY(arena, Was *, c->first_comp + 1);
  c->root = HL_ARRAY(arena, HlInst *, c->first_comp + 1);
  c->is_dirty = HL_ARRAY(arena, bool, c->first_comp + 1);
  c->place = HL_ARRAY(arena, uint32_t *, c->first_comp + 1);
  for (HlComp *comp = c->m->first; comp; comp = comp->next) {
    c->root[comp->id] = comp->root;
    if (comp->is_fusion)
      continue;
    Was *was = c->was[comp->id] = HL_ARRAY(arena, Was, comp->next_id + 1);
    c->place[comp->id] = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      note_inst(c, &was[inst->id], inst);
  }
}

static const Was *was_of(const Capture *c, const HlInst *inst) {
  return &c->was[inst->comp->id][inst->id];
}

// --- What was touched -----------------------------------------------------------------------------

static Touched *touched_of(const Capture *c, const HlInst *inst) {
  const uint32_t place = c->place[inst->comp->id][inst->id];
  return place ? &c->touched.at[place - 1] : NULL;
}

static bool is_whole(const Capture *c, const HlInst *inst) {
  const Touched *touched = is_new(c, inst) ? NULL : touched_of(c, inst);
  return touched && touched->whole;
}

static void add_touched(Capture *c, HlInst *inst) {
  if (touched_of(c, inst))
    return;
  vec_push_in(c->p->arena, &c->touched, ((Touched){.inst = inst}));
  c->place[inst->comp->id][inst->id] = (uint32_t)c->touched.n;
}

static size_t journal_length(const HlComp *comp) {
  return ir_comp_state(comp)->touched.n;
}

static void mark_dirty(Capture *c, HlComp *comp) {
  if (comp->id >= c->first_comp || c->is_dirty[comp->id])
    return;
  c->is_dirty[comp->id] = true;
  vec_push_in(c->p->arena, &c->dirty, comp);
}

// Other computations than the home that the rewrite has edited, and all that call them.
static void find_dirty(Capture *c) {
  for (HlComp *comp = c->m->first; comp; comp = comp->next)
    if (comp != c->home && journal_length(comp) > 0)
      mark_dirty(c, comp);
  for (int k = 0; k < c->dirty.n; k++)
    for (const HlCall *call = c->dirty.at[k]->first_call; call; call = call->next) {
      if (call->caller->comp != c->home)
        mark_dirty(c, call->caller->comp);
      else if (!is_new(c, call->caller))
        add_touched(c, call->caller);
    }
}

static void find_touched(Capture *c) {
  const HlTouched all = hl_touched(c->home);
  for (size_t k = 0; k < all.n; k++) {
    HlInst *inst = c->home->by_id[all.id[k] & ~(uint32_t)HL_LOST_USE];
    if (inst && !is_new(c, inst) && !(all.id[k] & (uint32_t)HL_LOST_USE))
      add_touched(c, inst);
  }
}

// --- What became of it ------------------------------------------------------------------------------

static bool attrs_differ(const Was *was, const HlInst *inst) {
  if (was->n_attrs != inst->n_attrs)
    return true;
  for (int k = 0; k < was->n_attrs; k++)
    if (!hl_attr_equal(&was->attrs[k], &inst->attrs[k]))
      return true;
  return false;
}

static bool calls_differ(const Capture *c, const Was *was, const HlInst *inst) {
  if (was->n_calls != inst->n_calls)
    return true;
  for (int k = 0; k < inst->n_calls; k++) {
    const HlComp *comp = inst->calls[k].comp;
    if (was->calls[k] != comp || c->is_dirty[comp->id])
      return true;
  }
  return false;
}

static bool control_differs(const Was *was, const HlInst *inst) {
  return was->n_preds != (inst->control ? inst->control->n_preds : 0) ||
         was->n_succs != (inst->control ? inst->control->n_succs : 0);
}

// Whether more of it differs than which operands it has.
static bool is_edited(const Capture *c, const HlInst *inst) {
  const Was *was = was_of(c, inst);
  return was->shape != inst->shape || was->n_operands != inst->n_operands ||
         attrs_differ(was, inst) || calls_differ(c, was, inst);
}

// Nobody reads the value any more but those who are offered whole.
static bool is_gone(const Capture *c, HlInst *inst) {
  const HlComp *home = c->home;
  const uint32_t id = inst->id;
  if (home->by_id[id] != inst)  // erased
    return true;
  if (home->root == inst)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!is_new(c, use->user) && !is_whole(c, use->user))
      return false;
  return true;
}

static bool stands_for(const HlShape *a, const HlShape *b) {
  return a == b || (hl_shape_compatible(a, b) && hl_shape_is_dynamic(a) == hl_shape_is_dynamic(b));
}

// Whether the operands that an instruction has now stand each for the one before.
static bool is_exchanged(const Capture *c, HlInst *inst) {
  const Was *was = was_of(c, inst);
  const HlInst *from = NULL, *to = NULL;
  bool several = false;
  for (uint32_t k = 0; k < was->n_operands; k++) {
    if (was->operands[k] == inst->operands[k])
      continue;
    if (!stands_for(was->operands[k]->shape, inst->operands[k]->shape))
      return false;
    several = several || (from && (from != was->operands[k] || to != inst->operands[k]));
    from = was->operands[k];
    to = inst->operands[k];
  }
  for (uint32_t k = 0; several && k < was->n_operands; k++)
    if (was->operands[k] != inst->operands[k] && !is_gone(c, was->operands[k]))
      return false;
  return true;
}

// Decides what is offered whole. One that has another shape takes its users with it.
static void find_whole(Capture *c) {
  bool again = true;
  while (again) {
    again = false;
    for (int k = 0; k < c->touched.n; k++) {
      HlInst *inst = c->touched.at[k].inst;
      if (c->touched.at[k].whole || (!is_edited(c, inst) && is_exchanged(c, inst)))
        continue;
      again = c->touched.at[k].whole = true;
      if (stands_for(was_of(c, inst)->shape, inst->shape))
        continue;
      c->fits = c->fits && inst != c->home->root;
      for (const HlUse *use = inst->first_use; use; use = use->next)
        if (!is_new(c, use->user)) {
          add_touched(c, use->user);
          touched_of(c, use->user)->whole = true;
        }
    }
  }
}

// --- Into the store -------------------------------------------------------------------------------

static bool is_old_comp(void *user, const HlComp *comp) {
  const Capture *c = user;
  return comp->id < c->first_comp && !c->is_dirty[comp->id];
}

static HlInst *staged(const Capture *c, const HlInst *inst) {
  return map_get_ptr(&c->staged, inst);
}

static bool is_known(const Capture *c, const HlInst *inst) {
  return !is_new(c, inst) && !is_whole(c, inst);
}

static void stage_one(Capture *c, Stage *stage, HlInst *inst) {
  HlArena *arena = hl_cx_scratch(c->p->cx);
  const HlMark mark = hl_arena_mark(arena);
  HlInst **operands = HL_ARRAY(arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = staged(c, inst->operands[k]);
  HlInst *like = store_add(c->p, stage, inst, operands, is_old_comp, c);
  map_put_ptr(&c->staged, inst, like);
  hl_arena_release(arena, mark);
}

// A copy would be another input, happen a second time, lose its order, or start what nobody awaits.
static bool may_be_copied(const HlInst *inst) {
  return inst->op != HL_OP_PARAMETER && hl_is_pure(inst) && !hl_has_control(inst) &&
         hl_op_half((HlOp)inst->op) == HL_HALF_NONE;
}

// What is new of a value comes into the stage, operands first; what was there before is stood for. NULL: it depends on
// itself, or needs a copy of what cannot be copied.
static HlInst *stage_value(Capture *c, Stage *stage, HlInst *value) {
  c->todo.n = 0;
  vec_push_in(c->p->arena, &c->todo, value);
  while (c->todo.n > 0) {
    HlInst *inst = vec_last(&c->todo);
    if (staged(c, inst)) {
      (void)vec_pop(&c->todo);
      continue;
    }
    if (is_known(c, inst)) {
      map_put_ptr(&c->staged, inst, store_stand_in(c->p, stage, inst));
      continue;
    }
    if (!may_be_copied(inst))
      return NULL;
    const int n = c->todo.n;
    *map_at(&c->opened, map_key(inst)) = 1;
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      if (staged(c, inst->operands[k]))
        continue;
      if (map_get(&c->opened, map_key(inst->operands[k])))
        return NULL;
      vec_push_in(c->p->arena, &c->todo, inst->operands[k]);
    }
    if (c->todo.n == n)
      stage_one(c, stage, inst);
  }
  return staged(c, value);
}

// --- Offers -----------------------------------------------------------------------------------------

static uint64_t offer_hash(const Offer *offer) {
  uint64_t h = hl_hash_mix(offer->old->serial, offer->by->id);
  for (int k = 0; k < offer->n_uses; k++)
    h = hl_hash_mix(h, (offer->use[k].user ? offer->use[k].user->serial : 0) * 64 +
                           (uint64_t)offer->use[k].number);
  return h;
}

static bool is_offered(const HlProposals *p, const Offer *offer) {
  MapWalk walk = map_walk(&p->offer_by_hash, offer->hash);
  for (uint64_t at; (at = map_next(&walk)) != 0;) {
    const Offer *other = &p->offers.at[at - 1];
    if (at > (uint64_t)p->offers.n || other->old != offer->old || other->by != offer->by ||
        other->stage != offer->stage || other->n_uses != offer->n_uses)
      continue;
    int k = 0;
    while (k < offer->n_uses && other->use[k].user == offer->use[k].user &&
           other->use[k].number == offer->use[k].number)
      k++;
    if (k == offer->n_uses)
      return true;
  }
  return false;
}

static void add_offer(Capture *c, const PassShown *shown, HlInst *old, HlInst *by, const Use *use,
                      int n_uses) {
  HlProposals *p = c->p;
  Stage *stage = store_stage(p, c->home);
  HlInst *like = stage_value(c, stage, by);
  c->fits = c->fits && like && hl_op_half((HlOp)old->op) == HL_HALF_NONE;
  if (!c->fits)
    return;
  Offer offer = {.rewrite = c->rewrite,
                 .pass = shown->pass,
                 .rule = hl_arena_strndup(p->arena, shown->rule, strlen(shown->rule)),
                 .with = hl_arena_strndup(p->arena, shown->with, strlen(shown->with)),
                 .inst_name = hl_arena_strndup(p->arena, old->name->text, old->name->n),
                 .comp_name = hl_arena_strndup(p->arena, c->home->name->text, c->home->name->n),
                 .stage = stage,
                 .old = old,
                 .by = like,
                 .use = hl_arena_copy(p->arena, use, sizeof *use * (size_t)n_uses),
                 .n_uses = n_uses};
  offer.hash = offer_hash(&offer);
  if (is_offered(p, &offer)) {
    p->counts.merged++;
    return;
  }
  store_count(p, stage, offer.by, &offer.n_made, &offer.n_inside);
  map_add(&p->offer_by_hash, offer.hash, (uint64_t)p->offers.n + 1);
  vec_push_in(p->arena, &p->offers, offer);
}

static void add_exchange(Capture *c, HlInst *from, HlInst *to, HlInst *user, int number) {
  vec_push_in(c->p->arena, &c->exchanges, ((Exchange){from, to, {user, number}}));
}

// Those who read another value now.
static void find_exchanges(Capture *c) {
  for (int k = 0; k < c->touched.n; k++) {
    HlInst *inst = c->touched.at[k].inst;
    if (c->touched.at[k].whole)
      continue;
    const Was *was = was_of(c, inst);
    for (uint32_t i = 0; i < was->n_operands; i++)
      if (was->operands[i] != inst->operands[i])
        add_exchange(c, was->operands[i], inst->operands[i], inst, (int)i);
  }
  HlInst *before = c->root[c->home->id], *now = c->home->root;
  if (before == now)
    return;
  c->fits = c->fits && now && stands_for(before->shape, now->shape);
  if (c->fits)
    add_exchange(c, before, now, NULL, 0);
}

// And those who read one that has been edited. One that only lies otherwise in memory is no other value.
static void find_readers(Capture *c, HlInst *inst) {
  if (!hl_shape_equal(was_of(c, inst)->shape, inst->shape))
    return;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!is_new(c, use->user) && !is_whole(c, use->user) &&
        was_of(c, use->user)->operands[use->number] == inst)
      add_exchange(c, inst, inst, use->user, use->number);
  if (c->home->root == inst && c->root[c->home->id] == inst)
    add_exchange(c, inst, inst, NULL, 0);
}

static void offer_all(Capture *c, const PassShown *shown) {
  HlArena *arena = hl_cx_scratch(c->p->cx);
  const HlMark mark = hl_arena_mark(arena);
  Use *use = HL_ARRAY(arena, Use, c->exchanges.n + 1);
  bool *done = HL_ARRAY(arena, bool, c->exchanges.n + 1);
  for (int k = 0; k < c->exchanges.n; k++) {
    const Exchange *first = &c->exchanges.at[k];
    int n = 0;
    for (int i = k; i < c->exchanges.n && !done[k]; i++) {
      const Exchange *other = &c->exchanges.at[i];
      if (done[i] || other->from != first->from || other->to != first->to)
        continue;
      use[n++] = other->use;
      done[i] = i > k;
    }
    if (n > 0)
      add_offer(c, shown, first->from, first->to, use, n);
    done[k] = true;
  }
  hl_arena_release(arena, mark);
}

// --- The engine shows a rewrite -----------------------------------------------------------------------

static void start_over(Capture *c, HlComp *home) {
  for (int k = 0; k < c->dirty.n; k++)
    c->is_dirty[c->dirty.at[k]->id] = false;
  for (int k = 0; k < c->touched.n; k++)
    c->place[c->home->id][c->touched.at[k].inst->id] = 0;
  c->dirty.n = c->touched.n = c->exchanges.n = 0;
  c->staged = (Map){.arena = c->p->arena};
  c->opened = (Map){.arena = c->p->arena};
  c->home = home;
  c->fits = true;
}

static bool edits_order(const Capture *c) {
  for (int k = 0; k < c->touched.n; k++)
    if (control_differs(was_of(c, c->touched.at[k].inst), c->touched.at[k].inst))
      return true;
  return false;
}

// Of computations in which there can be alternatives: not of fusions' bodies, nor of what an async-start runs, which is one instruction.
static bool is_home(const Capture *c, const HlComp *home) {
  return home->id < c->first_comp && !home->is_fusion && hl_comp_alive(home) && home->root &&
         !(home->first_call && home->first_call->caller->op == HL_OP_ASYNC_START);
}

static void show(void *user, const PassShown *shown) {
  Capture *c = user;
  HlProposals *p = c->p;
  HlComp *home = (HlComp *)shown->comp;
  const int n = p->offers.n;
  const int64_t merged = p->counts.merged;
  c->rewrite = (int)p->counts.rewrites++;
  start_over(c, home);
  if (!is_home(c, home)) {
    p->counts.in_place++;
    return;
  }
  find_touched(c);
  find_dirty(c);
  if (!edits_order(c)) {
    find_whole(c);
    find_exchanges(c);
    for (int k = 0; k < c->touched.n; k++)
      if (c->touched.at[k].whole)
        find_readers(c, c->touched.at[k].inst);
    if (c->fits)
      offer_all(c, shown);
  }
  if (!c->fits)
    p->offers.n = n;
  if (p->offers.n == n && p->counts.merged == merged)
    p->counts.in_place++;
}

bool capture_run(HlProposals *p, const char *pipeline, const HlProposeOptions *options) {
  const HlEngineOptions how = {.passes = options && options->passes ? options->passes : &hl_passes,
                               .pipelines = options && options->pipelines ? options->pipelines
                                                                          : &hl_pipelines,
                               .target = options ? options->target : NULL,
                               .release = options ? options->release : HL_XLA_UNTOLD,
                               .tuning = options ? options->tuning : NULL,
                               .dry = true};
  Capture c = {
      .p = p, .m = p->m, .first_serial = p->m->next_serial, .first_comp = p->m->next_comp_id};
  HlEngine *engine = hl_engine_new(p->cx, &how);
  if (!engine)
    return false;
  note_module(&c);
  pass_set_capture(engine, &(PassCapture){.show = show, .user = &c});
  const bool ok = hl_engine_run(engine, p->m, pipeline);
  hl_engine_free(engine);
  return ok;
}
