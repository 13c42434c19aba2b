// opt/loop/while_simplify.c
//
// simplify-while-loops: makes the state of loops smaller and takes loops away that run never or
// once. Of each loop the first rewrite that changes its state ends the visit; the next run goes on.
//
//   repeated-slot    slots that start with one value and pass it through, or write the same update
//                    into it, become one
//   flatten          tuples inside the state become slots of their own
//   dead-slot        slots that neither condition nor side effects nor what follows the loop need
//   constant-slot    slots that start with a constant and get the same constant each iteration
//   constant-scalar  a scalar slot passed through from a constant: readers get the constant
//   compare          (by option) a comparison of the loop's counter with a constant that every iteration
//                    decides alike
//   trip-count-0/1   while(init) => init;  while(init) => body(init)
//   counter          slots that grow by constants: x = x0 + iterations * c
//
//   (i, k, v) = while((0, 5, v0)), body: (i + 1, k, f(v, k))
//   =>  (i, v) = while((0, v0)), body: (i + 1, f(v, 5))

#include <stdlib.h>
#include <string.h>

#include "opt/ask/frontend.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// What one rewrite decides about each old slot.
typedef struct Slots {
  HlPass *p;
  HlInst *loop;
  HlInst *init;  // the old init tuple
  int n;
  LoopPlan plan;
  int64_t *step;   // counter: what a slot grows by; 0: no counter
  int counter;     // counter: the new slot that counts iterations
  HlInst **value;  // constant-slot: the constant
} Slots;

static Slots all_slots(HlPass *p, HlInst *loop) {
  return (Slots){.p = p, .loop = loop, .init = loop->operands[0], .n = loop_slots(loop)};
}

static bool rebuild(Slots *s, const char *rule, void (*open)(LoopPart *, void *)) {
  HlBuild b;
  hl_begin(s->p, rule, s->loop, &b);
  s->plan.open = open, s->plan.user = s;
  return loop_plan_commit(s->p, &b, &s->plan);
}

// --- repeated-slot ------------------------------------------------------------------------------

typedef struct Start {
  uint32_t init;
  int slot;
} Start;

static int by_init(const void *a, const void *b) {
  const Start *x = a, *y = b;
  if (x->init != y->init)
    return x->init < y->init ? -1 : 1;
  return x->slot < y->slot ? -1 : x->slot > y->slot;
}

// The update that the body writes into the slot itself, or NULL.
static const HlInst *own_update(const HlInst *loop, int k) {
  const HlInst *next = loop_next(loop, k);
  return next->op == HL_OP_DYNAMIC_UPDATE_SLICE && loop_slot_of(next->operands[0]) == k ? next
                                                                                        : NULL;
}

static bool same_update(const HlInst *a, const HlInst *b) {
  if (a->n_operands != b->n_operands)
    return false;
  for (uint32_t k = 1; k < a->n_operands; k++)
    if (a->operands[k] != b->operands[k])
      return false;
  return true;
}

static bool are_repeated(const HlInst *loop, int a, int b) {
  if (loop_is_invariant(loop, a) && loop_is_invariant(loop, b))
    return true;
  const HlInst *x = own_update(loop, a), *y = own_update(loop, b);
  return x && y && same_update(x, y);
}

static bool merge_repeated(HlPass *p, HlInst *loop) {
  if (loop->operands[0]->op != HL_OP_TUPLE)
    return false;
  Slots s = all_slots(p, loop);
  Start *starts = HL_ARRAY(p->arena, Start, s.n + 1);
  int *same = HL_ARRAY(p->arena, int, s.n + 1);
  for (int k = 0; k < s.n; k++) {
    starts[k] = (Start){loop_init(loop, k)->id, k};
    same[k] = -1;
  }
  qsort(starts, (size_t)s.n, sizeof *starts, by_init);
  bool found = false;
  int through = -1, updated = -1;  // first of this init that is passed through, updated
  for (int k = 0; k < s.n; k++) {
    if (k == 0 || starts[k].init != starts[k - 1].init)
      through = updated = -1;
    int slot = starts[k].slot;
    int *first = loop_is_invariant(loop, slot) ? &through
                 : own_update(loop, slot)      ? &updated
                                               : NULL;
    if (!first)
      continue;
    if (*first < 0)
      *first = slot;
    else if (are_repeated(loop, *first, slot))
      same[slot] = *first, found = true;
  }
  if (!found)
    return false;
  s.plan = loop_plan(p, loop, 0);
  for (int k = 0; k < s.n; k++)
    if (same[k] < 0)
      loop_plan_keep(&s.plan, k);
    else
      s.plan.at[k] = s.plan.at[same[k]];
  return rebuild(&s, "repeated-slot", NULL);
}

// --- flatten ------------------------------------------------------------------------------------

// The leaves of a value of a shape, as new slots that start with them.
static void add_leaves(LoopPlan *plan, HlBuild *b, HlInst *value) {
  if (!hl_shape_is_tuple(value->shape)) {
    loop_plan_add(plan, value);
    return;
  }
  for (int k = 0; k < value->shape->rank; k++)
    add_leaves(plan, b, hl_b_element(b, value, k));
}

// A tuple of a shape from the new slots on from *at.
static HlInst *from_leaves(LoopPart *part, const HlShape *shape, int *at) {
  if (!hl_shape_is_tuple(shape))
    return hl_b_element(&part->b, part->state, (*at)++);
  HlInst **element = HL_ARRAY(part->p->arena, HlInst *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = from_leaves(part, shape->element[k], at);
  return hl_b_tuple(&part->b, shape->rank, element);
}

static void open_nested(LoopPart *part, void *user) {
  (void)user;
  int at = 0;
  for (int k = 0; k < loop_slots(part->loop); k++)
    part->slot[k] = from_leaves(part, part->loop->shape->element[k], &at);
}

// Leaf `at` of the old next values; they are all walked once per leaf only where tuples are nested.
static HlInst *next_leaf(LoopPart *part, int k, void *user) {
  (void)user;
  int at = 0, slot = 0;
  const HlShape *state = part->loop->shape;
  for (; slot < state->rank; slot++) {
    int leaves = (int)hl_shape_leaves(state->element[slot]);
    if (k < at + leaves)
      break;
    at += leaves;
  }
  HlInst *value = loop_part_copy(part, loop_next(part->loop, slot));
  for (int left = k - at; value && hl_shape_is_tuple(value->shape);) {
    int element = 0;
    for (;; element++) {
      int leaves = (int)hl_shape_leaves(value->shape->element[element]);
      if (left < leaves)
        break;
      left -= leaves;
    }
    value = hl_b_element(&part->b, value, element);
  }
  return value;
}

static bool flatten(HlPass *p, HlInst *loop) {
  bool nested = false;
  for (int k = 0; k < loop_slots(loop); k++)
    nested |= hl_shape_is_tuple(loop->shape->element[k]);
  if (!nested || loop_carries_link(loop))
    return false;
  LoopPlan plan = loop_plan(p, loop, (int)hl_shape_leaves(loop->shape));
  plan.open = open_nested, plan.next = next_leaf;
  for (int k = 0; k < loop_slots(loop); k++)
    loop_plan_use(&plan, loop_next(loop, k));
  HlBuild b;
  hl_begin(p, "flatten", loop, &b);
  add_leaves(&plan, &b, loop->operands[0]);
  return loop_plan_commit(p, &b, &plan);
}

// --- dead-slot ----------------------------------------------------------------------------------

// Marks what instructions of a computation need, and the slots read.
typedef struct Need {
  const HlInst *loop;
  bool *inst;  // by id, of the computation at hand
  bool *slot;
  const HlInst **waiting;
  int n;
} Need;

static void need(Need *s, const HlInst *inst) {
  if (s->inst[inst->id])
    return;
  s->inst[inst->id] = true;
  s->waiting[s->n++] = inst;
}

static void need_all(Need *s, bool follows_slots) {
  while (s->n > 0) {
    const HlInst *inst = s->waiting[--s->n];
    int slot = loop_slot_of(inst);
    if (slot >= 0 && !s->slot[slot]) {
      s->slot[slot] = true;
      if (follows_slots)
        need(s, loop_next(s->loop, slot));
    }
    for (uint32_t k = 0; k < inst->n_operands; k++)
      need(s, inst->operands[k]);
  }
}

static void need_effects(Need *s, HlPass *p, const HlComp *comp) {
  s->inst = HL_ARRAY(p->arena, bool, comp->next_id);
  s->waiting = HL_ARRAY(p->arena, const HlInst *, comp->n_insts + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && (hl_has_control(inst) || !hl_is_pure(inst)))
      need(s, inst);
}

static void find_used_after(const HlInst *loop, bool *used) {
  bool whole = loop->comp->root == loop;
  for (const HlUse *use = loop->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      whole = true;
    else if (use->user->first_use || use->user->comp->root == use->user ||
             hl_has_control(use->user))
      used[hl_attr_int(use->user, HL_A_INDEX)] = true;
  }
  for (int k = 0; whole && k < loop_slots(loop); k++)
    used[k] = true;
}

// Behind the loop a slot that is gone is what it was before.
static void open_dead(LoopPart *part, void *user) {
  Slots *s = user;
  if (part->place == LOOP_AFTER)
    for (int k = 0; k < s->n; k++)
      if (s->plan.at[k] < 0)
        part->slot[k] = loop_made_element(&part->b, s->init, k);
}

static bool is_read_by_elements(const HlComp *comp) {
  for (const HlUse *use = comp->params[0]->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  return comp->root != comp->params[0];
}

static bool drop_dead(HlPass *p, HlInst *loop) {
  const HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  if (!is_read_by_elements(body) || !is_read_by_elements(condition))
    return false;
  Slots s = all_slots(p, loop);
  bool *used = HL_ARRAY(p->arena, bool, s.n + 1);
  find_used_after(loop, used);
  Need needed = {.loop = loop, .slot = HL_ARRAY(p->arena, bool, s.n + 1)};
  need_effects(&needed, p, condition);
  need(&needed, condition->root);
  need_all(&needed, false);
  need_effects(&needed, p, body);
  for (int k = 0; k < s.n; k++) {
    if (needed.slot[k] || (used[k] && !loop_is_invariant(loop, k))) {
      needed.slot[k] = true;
      need(&needed, loop_next(loop, k));
    }
  }
  need_all(&needed, true);
  s.plan = loop_plan(p, loop, 0);
  for (int k = 0; k < s.n; k++)
    if (needed.slot[k])
      loop_plan_keep(&s.plan, k);
  return s.plan.n > 0 && s.plan.n < s.n && rebuild(&s, "dead-slot", open_dead);
}

// --- constant-slot ------------------------------------------------------------------------------

static HlInst *same_constant(const HlInst *loop, int k) {
  HlInst *init = loop_init(loop, k), *next = loop_next(loop, k);
  return init && hl_is_constant(init) && hl_is_constant(next) && init->shape == next->shape &&
                 hl_literal_equal(hl_constant(init), hl_constant(next))
             ? init
             : NULL;
}

static void open_constant(LoopPart *part, void *user) {
  Slots *s = user;
  for (int k = 0; k < s->n; k++)
    if (s->value[k])
      part->slot[k] = part->place == LOOP_AFTER
                          ? s->value[k]
                          : hl_inst_copy(part->b.comp, s->value[k], NULL, 0, NULL);
}

static bool drop_constant(HlPass *p, HlInst *loop) {
  Slots s = all_slots(p, loop);
  s.value = HL_ARRAY(p->arena, HlInst *, s.n + 1);
  s.plan = loop_plan(p, loop, 0);
  for (int k = 0; k < s.n; k++) {
    s.value[k] = same_constant(loop, k);
    if (!s.value[k])
      loop_plan_keep(&s.plan, k);
  }
  return s.plan.n > 0 && s.plan.n < s.n && rebuild(&s, "constant-slot", open_constant);
}

// --- compare ------------------------------------------------------------------------------------

// What counter < bound (or >) is in every iteration: 1 or 0; -1: now this, now that.
static int always(const LoopCounter *counter, int64_t direction, int64_t bound) {
  const int64_t least = counter->init;
  const int64_t most = counter->init + (counter->trips - 1) * counter->step;
  if (direction == HL_WORD_direction_LT)
    return most < bound ? 1 : least >= bound ? 0 : -1;
  if (direction == HL_WORD_direction_GT)
    return least > bound ? 1 : most <= bound ? 0 : -1;
  return -1;
}

static bool decide_compares(HlPass *p, HlInst *loop) {
  LoopCounter counter;
  if (!hl_pass_flag(p, "simplify_compare_instrs") || !loop_counter(p, loop, &counter) ||
      counter.trips < 1)
    return false;
  bool changed = false;
  int n;
  HlInst **insts = hl_pass_insts(p, hl_while_body(loop), &n);
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    int64_t bound;
    if (!hl_alive(inst) || inst->op != HL_OP_COMPARE ||
        loop_slot_of(inst->operands[0]) != counter.slot ||
        !loop_constant_int(inst->operands[1], &bound))
      continue;
    int value = always(&counter, hl_attr_int(inst, HL_A_DIRECTION), bound);
    if (value < 0)
      continue;
    HlBuild b;
    hl_begin(p, "compare", inst, &b);
    changed |= hl_commit(p, hl_b_scalar_int(&b, HL_PRED, value));
  }
  return changed;
}

// --- constant-scalar ----------------------------------------------------------------------------

static void use_constant(const LoopElements *elements, HlComp *comp, int slot,
                         const HlInst *constant) {
  for (HlInst *element = elements->first[slot], *next; element; element = next) {
    next = elements->next[element->id];
    if (hl_has_control(element))
      continue;
    hl_replace_uses(element, hl_inst_copy(comp, constant, NULL, 0, NULL));
    hl_erase(element);
  }
}

static void spread_constants(HlPass *p, HlInst *loop) {
  HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  LoopElements in_body = loop_elements(p, body), in_condition = loop_elements(p, condition);
  for (int k = 0; k < loop_slots(loop); k++) {
    HlInst *init = loop_init(loop, k);
    if (!init || !hl_is_constant(init) || !hl_shape_is_scalar(init->shape) ||
        !loop_is_invariant(loop, k) || hl_has_control(loop_next(loop, k)) ||
        !hl_change(p, "constant-scalar", loop, init))
      continue;
    use_constant(&in_body, body, k, init);
    use_constant(&in_condition, condition, k, init);
    hl_changed(p);
  }
}

// --- trip-count ---------------------------------------------------------------------------------

static bool keeps_single_iteration(const HlInst *loop) {
  return strcmp(frontend_get(loop, "skip-simplify-while-loops_trip-count-one"), "true") == 0;
}

static bool unroll_rare(HlPass *p, HlInst *loop) {
  if (hl_has_control(loop))
    return false;
  const HlComp *condition = hl_while_condition(loop), *body = hl_while_body(loop);
  for (const HlInst *inst = condition->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && !hl_is_pure(inst))
      return false;
  int64_t trips = loop_trips(p, loop, 1);
  HlBuild b;
  if (trips == 0) {
    hl_begin(p, "trip-count-0", loop, &b);
    return loop_commit(p, loop, loop->operands[0]);
  }
  if (trips != 1 || keeps_single_iteration(loop))
    return false;
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && (!hl_is_pure(inst) || hl_has_control(inst)))
      return false;
  hl_begin(p, "trip-count-1", loop, &b);
  return loop_commit(p, loop, hl_graft(loop->comp, body, 1, &loop->operands[0], NULL));
}

// --- counter ------------------------------------------------------------------------------------

// What the body adds to slot k, a scalar of this type, each iteration; 0: something else.
static int64_t growth(const HlInst *loop, int k, HlDtype dtype) {
  const HlInst *next = loop_next(loop, k);
  int64_t step;
  if (!hl_shape_is_scalar(next->shape) || next->shape->dtype != dtype || next->op != HL_OP_ADD)
    return 0;
  if ((loop_slot_of(next->operands[0]) == k && loop_constant_int(next->operands[1], &step)) ||
      (loop_slot_of(next->operands[1]) == k && loop_constant_int(next->operands[0], &step)))
    return step;
  return 0;
}

static bool starts_at_zero(const HlInst *loop, int k) {
  int64_t init;
  const HlInst *inst = loop_init(loop, k);
  return inst && loop_constant_int(inst, &init) && init == 0;
}

// x0 + iterations * c, in arithmetic that wraps around as repeated addition does.
static void open_counter(LoopPart *part, void *user) {
  Slots *s = user;
  for (int k = 0; k < s->n; k++) {
    if (s->step[k] == 0)
      continue;
    HlInst *x0 = hl_b_element(&part->b, part->state, k);
    HlInst *trips = hl_b_element(&part->b, part->state, s->counter);
    HlInst *step = hl_b_scalar_int(&part->b, x0->shape->dtype, s->step[k]);
    part->slot[k] =
        hl_b_binary(&part->b, HL_OP_ADD, x0, hl_b_binary(&part->b, HL_OP_MULTIPLY, trips, step));
  }
}

static HlInst *next_counter(LoopPart *part, int k, void *user) {
  (void)user;
  HlInst *old = hl_b_element(&part->b, part->state, k);
  if (k < loop_slots(part->loop))
    return old;
  return hl_b_binary(&part->b, HL_OP_ADD, old, hl_b_scalar_int(&part->b, old->shape->dtype, 1));
}

// Finds the slots of a type that count, and the one to count iterations by: -1 where a new slot must. False: too few.
static bool find_counters(Slots *s, HlDtype dtype) {
  int found = 0;
  s->step = HL_ARRAY(s->p->arena, int64_t, s->n + 1);
  s->counter = -1;
  for (int k = 0; k < s->n; k++) {
    s->step[k] = growth(s->loop, k, dtype);
    found += s->step[k] != 0;
    if (s->step[k] == 1 && s->counter < 0 && starts_at_zero(s->loop, k))
      s->counter = k;
  }
  return found > 1;
}

// The new loop, or NULL where nothing changed.
static HlInst *merge_counters_of(HlPass *p, HlInst *loop, HlDtype dtype) {
  Slots s = all_slots(p, loop);
  if (!find_counters(&s, dtype))
    return NULL;
  s.plan = loop_plan_all(p, loop, 1);
  s.plan.open = open_counter, s.plan.next = next_counter, s.plan.user = &s;
  s.plan.keeps_form = true;
  HlBuild b;
  hl_begin(p, "counter", loop, &b);
  if (s.counter < 0)
    s.counter = loop_plan_add(&s.plan, hl_b_scalar_int(&b, dtype, 0));
  else
    s.step[s.counter] = 0;
  for (int k = 0; k < s.n; k++)
    if (s.step[k] != 0)
      s.plan.from[k] = -1;
  return loop_plan_commit(p, &b, &s.plan) ? s.plan.made : NULL;
}

static void merge_counters(HlPass *p, HlInst *loop) {
  static const HlOp domain = HL_OP_DOMAIN;
  static const HlDtype counting[] = {HL_S8, HL_U8, HL_S32, HL_U32, HL_S64, HL_U64};
  if (loop_calls_any(p, hl_while_body(loop), &domain, 1))
    return;
  for (int k = 0; k < HL_COUNT_OF(counting); k++) {
    HlInst *merged = merge_counters_of(p, loop, counting[k]);
    loop = merged ? merged : loop;
  }
}

// --- The pass -----------------------------------------------------------------------------------

static void simplify_loop(HlPass *p, HlInst *loop) {
  if (!loop_is_plain(loop) || !loop_owns_comps(loop))
    return;
  if (merge_repeated(p, loop) || flatten(p, loop) || drop_dead(p, loop) || drop_constant(p, loop) ||
      decide_compares(p, loop))
    return;
  static const HlOp transfers[] = {HL_OP_SEND, HL_OP_SEND_DONE, HL_OP_RECV, HL_OP_RECV_DONE};
  if (loop_calls_any(p, hl_while_body(loop), transfers, HL_COUNT_OF(transfers)) ||
      loop_calls_any(p, hl_while_condition(loop), transfers, HL_COUNT_OF(transfers)))
    return;
  spread_constants(p, loop);
  if (!unroll_rare(p, loop))
    merge_counters(p, loop);
}

bool pass_while_simplify(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++) {
    if (!hl_comp_alive(loops[k]->comp) || !hl_alive(loops[k]))
      continue;
    HlMark mark = hl_arena_mark(p->arena);
    simplify_loop(p, loops[k]);
    hl_arena_release(p->arena, mark);
  }
  return true;
}
