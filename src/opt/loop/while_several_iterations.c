// opt/loop/while_several_iterations.c
//
// Loops whose body does several iterations at once.
//
// loop-double-buffer-transformer: two iterations a time, so that what one iteration sends can be under way
// while the next computes; of an odd number the first iteration goes in front. Or all iterations in one body.
//
//   x = while(x0), 5 iterations of f   =>   x1 = f(x0);  x = while(x1), 2 iterations of f(f(.))
//
// while_loop_pipeline_unroller: where slots hand values on (b' = a, c' = b), as many iterations a time
// as it takes until a value is used up: then nothing needs to be copied from slot to slot. What is
// left over is done by the loop as it was, behind.

#include <inttypes.h>
#include <string.h>

#include "hilo/cost.h"
#include "ir/backend_config.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// --- A body of several iterations --------------------------------------------------------------------

static HlComp *body_of_iterations(HlPass *p, HlBuild *b, const HlInst *loop, int64_t trips,
                                  int64_t *channel) {
  const int n = loop_slots(loop);
  HlInst **slot = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlBuild body =
      hl_b_nested(b, hl_arena_printf(p->arena, "%s.turns", hl_while_body(loop)->name->text));
  body.metadata = NULL;
  HlInst *state = hl_b_parameter(&body, loop->shape, hl_while_body(loop)->params[0]->name->text);
  for (int k = 0; k < n; k++)
    slot[k] = hl_b_element(&body, state, k);
  for (int64_t iteration = 0; iteration < trips; iteration++) {
    HlInst **next = HL_ARRAY(p->arena, HlInst *, n + 1);
    loop_iteration(p, &body, loop, slot, next, iteration > 0 ? channel : NULL);
    slot = next;
  }
  hl_set_root(body.comp, hl_b_tuple(&body, n, slot));
  return body.comp;
}

// --- loop-double-buffer-transformer -------------------------------------------------------------

static bool has_collective(const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (hl_op_info[inst->op].traits & (HL_T_COLLECTIVE | HL_T_ASYNC))
      return true;
  return false;
}

static void note_trips(HlPass *p, HlInst *loop, int64_t trips, int64_t skipped, int64_t each) {
  HlLoopConfig config = hl_loop_config(NULL, loop);
  config.trips = (HlMaybeInt){true, trips};
  config.init.value += skipped * config.step.value;
  config.step.value *= each;
  hl_set_loop_config(p->arena, loop, &config);
}

// A loop that does `each` iterations a time, after one iteration in front if their number asks for it.
static void gather_iterations(HlPass *p, HlInst *loop, int64_t trips, int64_t each) {
  const int n = loop_slots(loop);
  HlBuild b;
  hl_begin(p, each == 2 ? "double" : "full", loop, &b);
  int64_t channel = hl_free_channel(p->m), first = trips % each;
  HlInst *init = loop->operands[0];
  if (first > 0) {
    HlInst **slot = HL_ARRAY(p->arena, HlInst *, n + 1),
           **next = HL_ARRAY(p->arena, HlInst *, n + 1);
    for (int k = 0; k < n; k++)
      slot[k] = hl_b_element(&b, init, k);
    loop_iteration(p, &b, loop, slot, next, &channel);
    init = hl_b_tuple(&b, n, next);
  }
  HlComp *body = body_of_iterations(p, &b, loop, each, &channel);
  HlInst *by = hl_b_while(&b, hl_while_condition(loop), body, init);
  if (by) {
    hl_copy_attrs(by, loop);
    note_trips(p, by, trips / each, first, each);
  }
  loop_commit(p, loop, by);
}

bool pass_while_double_buffer(HlPass *p) {
  const char *strategy = hl_pass_text(p, "unroll_strategy");
  const bool is_full = strcmp(strategy, "full_unroll") == 0,
             is_auto = strcmp(strategy, "auto") == 0;
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++) {
    HlInst *loop = loops[k];
    if (!hl_comp_alive(loop->comp) || !hl_alive(loop) || !loop_is_plain(loop) ||
        hl_has_control(loop) || !hl_loop_config(NULL, loop).trips.given)
      continue;
    int64_t trips = hl_trip_count(loop);
    if (trips > 1 && (!is_auto || has_collective(hl_while_body(loop))))
      gather_iterations(p, loop, trips, is_full ? trips : 2);
  }
  return true;
}

// --- while_loop_pipeline_unroller ---------------------------------------------------------------

// How many iterations a value stays in the state as it is handed from slot to slot, at most; a value
// that goes round for ever counts as long as its circle. 0: none is handed on.
static int pipeline_depth(HlPass *p, const HlInst *loop) {
  const int n = loop_slots(loop);
  int *from = HL_ARRAY(p->arena, int, n + 1);   // the slot that slot k takes over; -1: none
  int *depth = HL_ARRAY(p->arena, int, n + 1);  // length of the way to slot k; -1: on the way now
  bool *is_known = HL_ARRAY(p->arena, bool, n + 1);
  int *path = HL_ARRAY(p->arena, int, n + 1), deepest = 0;
  for (int k = 0; k < n; k++) {
    int slot = loop_slot_of(loop_next(loop, k));
    from[k] = slot == k ? -1 : slot;
  }
  for (int k = 0; k < n; k++) {
    int length = 0, at = k;
    while (at >= 0 && !is_known[at] && depth[at] == 0) {
      depth[at] = -1;
      path[length++] = at;
      at = from[at];
    }
    int below = at < 0 ? -1 : is_known[at] ? depth[at] : 0;
    while (length > 0) {
      int slot = path[--length];
      depth[slot] = ++below;
      is_known[slot] = true;
      deepest = below > deepest ? below : deepest;
    }
  }
  return deepest;
}

// The loop's counter is below a bound.
static HlComp *condition_below(HlPass *p, HlBuild *b, const HlInst *loop, int slot, int64_t bound) {
  const HlComp *old = hl_while_condition(loop);
  HlBuild test = hl_b_nested(b, hl_arena_printf(p->arena, "%s.rounds", old->name->text));
  test.metadata = NULL;
  HlInst *state = hl_b_parameter(&test, loop->shape, old->params[0]->name->text);
  HlInst *i = hl_b_element(&test, state, slot);
  hl_set_root(test.comp, hl_b_compare(&test, HL_WORD_direction_LT, i,
                                      hl_b_scalar_int(&test, i->shape->dtype, bound)));
  return test.comp;
}

static void unroll_pipeline(HlPass *p, HlInst *loop) {
  LoopCounter counter;
  if (!loop_is_plain(loop) || hl_has_control(loop) || !loop_counter(p, loop, &counter))
    return;
  const int64_t each = pipeline_depth(p, loop) + 1;
  if (each < 2 || counter.trips < each)
    return;
  HlBuild b;
  hl_begin(p, "pipeline", loop, &b);
  int64_t channel = hl_free_channel(p->m), rounds = counter.trips / each;
  HlComp *condition =
      condition_below(p, &b, loop, counter.slot, counter.init + rounds * each * counter.step);
  HlComp *body = body_of_iterations(p, &b, loop, each, &channel);
  HlInst *by = hl_b_while(&b, condition, body, loop->operands[0]);
  if (by && rounds * each < counter.trips)
    by = hl_b_while(&b, hl_while_condition(loop), hl_while_body(loop), by);
  loop_commit(p, loop, by);
}

bool pass_while_pipeline_unroller(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]))
      unroll_pipeline(p, loops[k]);
  return true;
}
