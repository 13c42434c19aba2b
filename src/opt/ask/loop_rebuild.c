// opt/ask/loop_rebuild.c: making while loops anew with another state.
//
//   (a, b) = while(init), body=f       (a, c) = while(init'), body=f'
//                                  =>  b' from (a, c)
//                                      (a, b')
//
// f' is a copy of f in which the old slots are computed from the new ones. Only what the new next
// values and side effects need is copied, so that a slot taken away takes along what fed it.

#include "ir/backend_config.h"
#include "ir/vecs.h"
#include "opt/ask/loops.h"

#include <assert.h>
#include <string.h>

// --- Plans --------------------------------------------------------------------------------------

LoopPlan loop_plan(HlPass *p, HlInst *loop, int more) {
  const int n = loop_slots(loop), most = n + more + 1;
  LoopPlan plan = {.loop = loop, .prefix = "", .suffix = ".clone"};
  plan.init = HL_ARRAY(p->arena, HlInst *, most);
  plan.used = HL_ARRAY(p->arena, HlInst *, most);
  plan.from = HL_ARRAY(p->arena, int, most);
  plan.at = HL_ARRAY(p->arena, int, n + 1);
  for (int k = 0; k < n; k++)
    plan.at[k] = -1;
  return plan;
}

LoopPlan loop_plan_all(HlPass *p, HlInst *loop, int more) {
  LoopPlan plan = loop_plan(p, loop, more);
  for (int k = 0; k < loop_slots(loop); k++)
    loop_plan_keep(&plan, k);
  return plan;
}

void loop_plan_keep(LoopPlan *plan, int k) {
  plan->at[k] = plan->n;
  plan->from[plan->n++] = k;
}

int loop_plan_add(LoopPlan *plan, HlInst *init) {
  plan->from[plan->n] = -1;
  plan->init[plan->n] = init;
  return plan->n++;
}

void loop_plan_take(LoopPlan *plan, int k, HlInst *used) {
  plan->at[k] = plan->from[k] = -1;
  loop_plan_use(plan, used);
}

void loop_plan_use(LoopPlan *plan, HlInst *inst) {
  plan->used[plan->n_used++] = inst;
}

HlInst *loop_made_element(HlBuild *b, HlInst *tuple, int k) {
  HlAttr attr = {.key = HL_A_INDEX, .i = k};
  return hl_b_op(b, HL_OP_GET_TUPLE_ELEMENT, NULL, 1, &tuple, 1, &attr, 0, NULL);
}

void loop_plan_start(LoopPlan *plan, HlBuild *b) {
  HlInst *init = plan->loop->operands[0];
  const bool grows = plan->n > loop_slots(plan->loop);
  for (int k = 0; k < plan->n; k++) {
    const int from = plan->from[k] >= 0 ? plan->from[k] : k;
    if (!plan->init[k])
      plan->init[k] = plan->keeps_form && grows ? loop_made_element(b, init, from)
                                                : hl_b_element(b, init, from);
  }
}

bool loop_plan_commit(HlPass *p, HlBuild *b, LoopPlan *plan) {
  loop_plan_start(plan, b);
  return loop_commit(p, plan->loop, loop_rebuild(p, b, plan));
}

// --- Parts --------------------------------------------------------------------------------------

HlInst *loop_part_slot(LoopPart *part, int k) {
  if (!part->slot[k]) {
    assert(part->at[k] >= 0);
    part->slot[k] = hl_b_element(&part->b, part->state, part->at[k]);
  }
  return part->slot[k];
}

// The element keeps the layout that it was read in, whatever the state starts with: before layouts are assigned these may differ.
HlInst *loop_part_copy(LoopPart *part, const HlInst *inst) {
  int slot = loop_slot_of(inst);
  if (slot < 0)
    return part->map[inst->id];
  const bool is_new = !part->slot[slot];
  HlInst *copy = loop_part_slot(part, slot);
  if (is_new) {
    hl_inherit(copy, inst);
    if (copy->shape != inst->shape && hl_shape_compatible(copy->shape, inst->shape))
      hl_set_shape(copy, inst->shape);
  }
  return copy;
}

// The old state as a whole, where an instruction uses it so.
static HlInst *whole_state(LoopPart *part) {
  int n = loop_slots(part->loop);
  HlInst **slots = HL_ARRAY(part->p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    slots[k] = loop_part_slot(part, k);
  return hl_b_tuple(&part->b, n, slots);
}

static void read_old_form(LoopPart *part) {
  HlInst *state = whole_state(part);
  for (int k = 0; k < loop_slots(part->loop); k++)
    part->slot[k] = loop_made_element(&part->b, state, k);
}

// The instructions that the wanted ones and side effects need, by id.
static bool *find_needed(LoopPart *part, HlInst *const *wanted, int n) {
  const HlComp *comp = part->from;
  bool *needed = HL_ARRAY(part->p->arena, bool, comp->next_id);
  for (int k = 0; k < n; k++)
    needed[wanted[k]->id] = true;
  for (const HlInst *inst = comp->last; inst; inst = inst->prev) {
    if (!needed[inst->id] && !hl_has_control(inst) && hl_is_pure(inst))
      continue;
    if (inst->op == HL_OP_PARAMETER || part->map[inst->id])
      continue;
    needed[inst->id] = true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  }
  return needed;
}

static void copy_control(LoopPart *part) {
  for (const HlInst *inst = part->from->first; inst; inst = inst->next)
    for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
      HlInst *pred = part->map[inst->control->preds[k]->id];
      if (pred && part->map[inst->id] && pred != part->map[inst->id])
        hl_add_control(pred, part->map[inst->id]);
    }
}

static void copy_needed(LoopPart *part, const bool *needed) {
  HlInst **operands = NULL;
  uint32_t capacity = 0;
  for (const HlInst *inst = part->from->first; inst; inst = inst->next) {
    if (!needed[inst->id] || part->map[inst->id] || loop_slot_of(inst) >= 0)
      continue;
    if (inst->op == HL_OP_PARAMETER) {
      bool is_read_whole = false;
      for (const HlUse *use = inst->first_use; use && !is_read_whole; use = use->next)
        is_read_whole = needed[use->user->id] && use->user->op != HL_OP_GET_TUPLE_ELEMENT;
      if (is_read_whole || part->from->root == inst)
        part->map[inst->id] = whole_state(part);
      continue;
    }
    if (inst->n_operands > capacity) {
      capacity = inst->n_operands * 2;
      operands = HL_ARRAY(part->p->arena, HlInst *, capacity);
    }
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = loop_part_copy(part, inst->operands[k]);
    part->map[inst->id] = hl_inst_copy(part->b.comp, inst, NULL, (int)inst->n_operands, operands);
  }
  copy_control(part);
}

// Erases what was made for the part and is not used.
static void sweep(HlComp *comp) {
  for (HlInst *inst = comp->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (!inst->first_use && comp->root != inst && inst->op != HL_OP_PARAMETER &&
        !hl_has_control(inst) && hl_is_pure(inst))
      hl_erase(inst);
  }
}

// --- Shardings of the state ---------------------------------------------------------------------

// What a new slot that is no old one is sharded like: as what it starts with.
static const HlSharding *sharding_of_start(HlPass *p, const HlInst *init) {
  static const HlSharding replicated = {.kind = HL_SHARDING_REPLICATED, .device = -1};
  const HlSharding *own = hl_sharding(init);
  return own ? own : hl_sharding_copy(p->m, &replicated);
}

// The old slot that stands in a new one's place; -1: none.
static int old_slot(const LoopPlan *plan, int k) {
  if (plan->from[k] >= 0)
    return plan->from[k];
  return k < loop_slots(plan->loop) && plan->at[k] == k ? k : -1;
}

// The new state is the old one's leaves, tuples inside being gone.
static bool keeps_leaves(const LoopPlan *plan, const HlShape *state) {
  bool keeps = hl_shape_leaves(state) == hl_shape_leaves(plan->loop->shape);
  for (int k = 0; k < plan->n; k++)
    keeps &= plan->from[k] < 0;
  for (int k = 0; k < loop_slots(plan->loop); k++)
    keeps &= plan->at[k] < 0;
  return keeps;
}

// The sharding of the old state, as one of the new state: element by element, one for each leaf.
// NULL: there was none, or it cannot be told.
static const HlSharding *new_sharding(HlPass *p, const LoopPlan *plan, const HlSharding *old,
                                      const HlShape *state) {
  if (!old || old->kind != HL_SHARDING_TUPLE)
    return old;
  const HlShape *before = plan->loop->shape;
  if (hl_shape_leaves(before) != old->n_elements)
    return NULL;
  if (keeps_leaves(plan, state))
    return old;
  int *first = HL_ARRAY(p->arena, int, before->rank + 1), n = 0;
  for (int k = 0; k < before->rank; k++)
    first[k + 1] = first[k] + (int)hl_shape_leaves(before->element[k]);
  const HlSharding **element =
      HL_ARRAY(p->m->arena, const HlSharding *, hl_shape_leaves(state) + 1);
  for (int k = 0; k < plan->n; k++) {
    int slot = old_slot(plan, k);
    if (slot < 0 && hl_shape_is_tuple(state->element[k]))
      return NULL;
    if (slot < 0)
      element[n++] = sharding_of_start(p, plan->init[k]);
    for (int leaf = slot < 0 ? 0 : first[slot]; slot >= 0 && leaf < first[slot + 1]; leaf++)
      element[n++] = old->element[leaf];
  }
  HlSharding *sharding = HL_NEW(p->m->arena, HlSharding);
  *sharding = *old;
  sharding->element = element;
  sharding->n_elements = n;
  return sharding;
}

// Gives an instruction of the new state what its old one says beside its operands.
static void inherit_state(HlPass *p, const LoopPlan *plan, HlInst *to, const HlInst *from) {
  const HlSharding *sharding = new_sharding(p, plan, hl_sharding(from), to->shape);
  hl_inherit(to, from);
  hl_remove_attr(to, HL_A_SHARDING);
  if (!sharding)
    return;
  HlAttr attr = {.key = HL_A_SHARDING, .ptr = sharding};
  hl_set_attr(to, &attr);
}

// --- Body and condition -------------------------------------------------------------------------

static HlInst *new_parameter(HlComp *comp, const HlShape *state, const HlInst *like,
                             const char *prefix) {
  HlModule *m = comp->module;
  const char *wish = hl_arena_printf(m->arena, "%s%s", prefix, like->name->text);
  return hl_parameter_new(comp, 0, state, hl_fresh_name(m, wish));
}

static LoopPart open_part(HlPass *p, const HlBuild *b, const LoopPlan *plan, LoopPlace place,
                          const HlShape *state) {
  const HlComp *from = hl_called(plan->loop, place == LOOP_IN_BODY ? 0 : 1);
  const char *name =
      hl_arena_printf(p->arena, "%s%s%s", plan->prefix, from->name->text, plan->suffix);
  LoopPart part = {.p = p, .place = place, .loop = plan->loop, .from = from, .at = plan->at};
  part.b = hl_b_nested(b, name);
  part.b.metadata = NULL;
  hl_comp_set_thread(part.b.comp, from->execution_thread);
  part.state = new_parameter(part.b.comp, state, from->params[0], plan->prefix);
  inherit_state(p, plan, part.state, from->params[0]);
  part.slot = HL_ARRAY(p->arena, HlInst *, loop_slots(plan->loop) + 1);
  part.map = HL_ARRAY(p->arena, HlInst *, from->next_id);
  if (plan->open)
    plan->open(&part, plan->user);
  if (plan->keeps_form)
    read_old_form(&part);
  return part;
}

static HlComp *new_condition(HlPass *p, const HlBuild *b, const LoopPlan *plan,
                             const HlShape *state) {
  LoopPart part = open_part(p, b, plan, LOOP_IN_CONDITION, state);
  HlInst *root = part.from->root;
  copy_needed(&part, find_needed(&part, &root, 1));
  hl_set_root(part.b.comp, loop_part_copy(&part, root));
  sweep(part.b.comp);
  return part.b.comp;
}

// The old body's result.
static HlInst *old_next(LoopPart *part) {
  const int n = loop_slots(part->loop);
  HlInst **next = HL_ARRAY(part->p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    next[k] = loop_part_copy(part, loop_next(part->loop, k));
  return hl_b_tuple(&part->b, n, next);
}

static HlComp *new_body(HlPass *p, const HlBuild *b, const LoopPlan *plan, const HlShape *state) {
  LoopPart part = open_part(p, b, plan, LOOP_IN_BODY, state);
  const int n_old = loop_slots(plan->loop);
  HlInst **wanted = HL_ARRAY(p->arena, HlInst *, n_old + plan->n + plan->n_used + 1);
  HlInst **next = HL_ARRAY(p->arena, HlInst *, plan->n + 1);
  int n_wanted = 0;
  for (int k = 0; k < plan->n; k++)
    if (plan->from[k] >= 0)
      wanted[n_wanted++] = loop_next(plan->loop, plan->from[k]);
  for (int k = 0; k < plan->n_used; k++)
    wanted[n_wanted++] = plan->used[k];
  for (int k = 0; plan->keeps_form && k < n_old; k++)
    wanted[n_wanted++] = loop_next(plan->loop, k);
  copy_needed(&part, find_needed(&part, wanted, n_wanted));
  HlInst *old = plan->keeps_form ? old_next(&part) : NULL;
  for (int k = 0; k < plan->n; k++) {
    next[k] = plan->from[k] >= 0 && old ? loop_made_element(&part.b, old, plan->from[k])
              : plan->from[k] >= 0 ? loop_part_copy(&part, loop_next(plan->loop, plan->from[k]))
              : plan->next         ? plan->next(&part, k, plan->user)
                                   : hl_b_element(&part.b, part.state, k);
    if (!next[k])
      return NULL;
  }
  HlInst *root = hl_b_tuple(&part.b, plan->n, next);
  inherit_state(p, plan, root, part.from->root);
  hl_set_root(part.b.comp, root);
  sweep(part.b.comp);
  return part.b.comp;
}

static void keep_config(HlPass *p, HlInst *loop, const LoopPlan *plan) {
  HlLoopConfig config = hl_loop_config(NULL, loop);
  const int64_t slot = config.slot.value;
  if (!config.slot.given)
    return;
  const bool stays = slot >= 0 && slot < loop_slots(plan->loop) && plan->at[slot] >= 0;
  config.slot = (HlMaybeInt){stays, stays ? plan->at[slot] : 0};
  hl_set_loop_config(p->arena, loop, &config);
}

// The new state has the old one's form: each slot has its place and shape still.
static bool same_shape(const LoopPlan *plan, const HlShape *state) {
  if (plan->n != loop_slots(plan->loop) || state != plan->loop->shape)
    return false;
  for (int k = 0; k < plan->n; k++)
    if (plan->at[k] != k)
      return false;
  return true;
}

static HlInst *new_loop(HlPass *p, HlBuild *b, const LoopPlan *plan, HlComp *condition,
                        HlComp *body, HlInst *init) {
  HlInst *loop = hl_b_while(b, condition, body, init);
  if (!loop)
    return NULL;
  hl_copy_attrs(loop, plan->loop);
  if (same_shape(plan, loop->shape))
    return loop;
  hl_remove_attr(loop, HL_A_ORIGIN);
  inherit_state(p, plan, loop, plan->loop);
  keep_config(p, loop, plan);
  return loop;
}

HlInst *loop_rebuild(HlPass *p, HlBuild *b, LoopPlan *plan) {
  HlInst *init = hl_b_tuple(b, plan->n, plan->init);
  if (!init)
    return NULL;
  HlComp *condition = new_condition(p, b, plan, init->shape);
  HlComp *body = new_body(p, b, plan, init->shape);
  HlInst *loop = body ? new_loop(p, b, plan, condition, body, init) : NULL;
  if (!loop)
    return NULL;
  plan->made = loop;
  LoopPart after = {
      .p = p, .place = LOOP_AFTER, .b = *b, .loop = plan->loop, .state = loop, .at = plan->at};
  after.slot = HL_ARRAY(p->arena, HlInst *, loop_slots(plan->loop) + 1);
  if (plan->open)
    plan->open(&after, plan->user);
  for (HlUse *use = plan->loop->first_use; plan->forwards && use; use = use->next)
    if (use->user->op == HL_OP_GET_TUPLE_ELEMENT && !hl_has_control(use->user))
      hl_also(p, use->user, loop_part_slot(&after, (int)hl_attr_int(use->user, HL_A_INDEX)));
  bool is_whole = same_shape(plan, loop->shape);
  for (int k = 0; k < loop_slots(plan->loop); k++)
    is_whole = is_whole && !after.slot[k];
  return is_whole ? loop : whole_state(&after);
}

void loop_iteration(HlPass *p, HlBuild *b, const HlInst *loop, HlInst *const *slot, HlInst **next,
                    int64_t *channel) {
  const int n = loop_slots(loop);
  const HlComp *body = hl_while_body(loop);
  LoopPart part = {.p = p, .place = LOOP_AFTER, .b = *b, .loop = loop, .from = body};
  part.map = HL_ARRAY(p->arena, HlInst *, body->next_id);
  part.slot = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlInst **wanted = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++) {
    part.slot[k] = slot[k];
    wanted[k] = loop_next(loop, k);
  }
  copy_needed(&part, find_needed(&part, wanted, n));
  for (int k = 0; k < n; k++)
    next[k] = loop_part_copy(&part, wanted[k]);
  for (const HlInst *inst = body->first; channel && inst; inst = inst->next)
    if (part.map[inst->id] && hl_has_attr(inst, HL_A_CHANNEL_ID) &&
        (hl_op_info[inst->op].traits & HL_T_COLLECTIVE)) {
      *channel = *channel > 0 ? *channel : hl_free_channel(p->m);
      hl_set_int(part.map[inst->id], HL_A_CHANNEL_ID, (*channel)++);
    }
}

void loop_drop_comp(HlPass *p, HlComp *comp) {
  CompVec waiting = {0};
  vec_push(&waiting, comp);
  while (waiting.n > 0) {
    comp = vec_pop(&waiting);
    if (!hl_comp_alive(comp) || comp->first_call || comp == p->m->entry)
      continue;
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        vec_push(&waiting, hl_called(inst, k));
    hl_comp_erase(comp);
  }
  vec_free(&waiting);
}

bool loop_commit(HlPass *p, HlInst *loop, HlInst *by) {
  HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  if (!hl_commit(p, by))
    return false;
  loop_drop_comp(p, body);
  loop_drop_comp(p, condition);
  return true;
}
