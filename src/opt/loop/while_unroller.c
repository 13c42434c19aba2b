// opt/loop/while_unroller.c
//
// while_loop_unroller: a loop that is known to iterate a few times becomes its body that many times.
//
//   (i, x) = while((0, x0)), condition: i < 2, body: (i + 1, f(x, i))   =>   f(f(x0, 0), 1)
//
// Only full unrolling exists (unroll_factor=-1), as in XLA. With wrap_in_trivial_loop the iterations
// stand in the body of a loop that iterates once, so that what is around sees a loop still. With elementwise_trips only
// loops of so few trips that compute element by element: they become one kernel.

#include <string.h>

#include "opt/ask/loops.h"
#include "opt/passes.h"

enum { MAX_TRIPS = 64, MAX_BODY = 800, MAX_PRODUCT = 10000 };

bool loop_may_unroll(HlPass *p, const HlInst *loop, const LoopCounter *counter) {
  static const HlOp transfers[] = {HL_OP_SEND, HL_OP_SEND_DONE, HL_OP_RECV, HL_OP_RECV_DONE};
  if (!loop_is_plain(loop) || hl_has_control(loop) || counter->trips > MAX_TRIPS)
    return false;
  const HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  if (body->n_insts > MAX_BODY || counter->trips * body->n_insts > MAX_PRODUCT)
    return false;
  for (const HlInst *inst = condition->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && !hl_is_pure(inst))
      return false;
  return !loop_calls_any(p, body, transfers, HL_COUNT_OF(transfers));
}

void loop_all_iterations(HlPass *p, HlBuild *b, const HlInst *loop, const LoopCounter *counter,
                         HlInst **slot) {
  const int n = loop_slots(loop);
  HlDtype dtype = loop->shape->element[counter->slot]->dtype;
  int64_t channel = 0;  // found when a collective wants one
  for (int64_t iteration = 0; iteration < counter->trips; iteration++) {
    slot[counter->slot] = hl_b_scalar_int(b, dtype, counter->init + iteration * counter->step);
    HlInst **next = HL_ARRAY(p->arena, HlInst *, n + 1);
    loop_iteration(p, b, loop, slot, next, iteration > 0 ? &channel : NULL);
    memcpy(slot, next, (size_t)n * sizeof *slot);
  }
  slot[counter->slot] = hl_b_scalar_int(b, dtype, counter->init + counter->trips * counter->step);
}

// The counter of a loop of one iteration runs from 0 to 1 in a slot of its own.
HlInst *loop_trivial(HlBuild *b, const char *condition, const char *body, int n, HlInst **slot,
                     void (*fill)(HlBuild *b, HlInst **slot, void *user), void *user) {
  slot[n] = hl_b_scalar_int(b, HL_S32, 0);
  HlInst *init = hl_b_tuple(b, n + 1, slot);
  HlBuild test = hl_b_nested(b, condition), once = hl_b_nested(b, body);
  test.metadata = once.metadata = NULL;
  HlInst *state = hl_b_parameter(&test, init->shape, "state");
  hl_set_root(test.comp, hl_b_compare(&test, HL_WORD_direction_LT, hl_b_element(&test, state, n),
                                      hl_b_scalar_int(&test, HL_S32, 1)));
  state = hl_b_parameter(&once, init->shape, "state");
  for (int k = 0; k < n; k++)
    slot[k] = hl_b_element(&once, state, k);
  fill(&once, slot, user);
  slot[n] = hl_b_binary(&once, HL_OP_ADD, hl_b_element(&once, state, n),
                        hl_b_scalar_int(&once, HL_S32, 1));
  hl_set_root(once.comp, hl_b_tuple(&once, n + 1, slot));
  HlInst *outer = hl_b_while(b, test.comp, once.comp, init);
  for (int k = 0; k < n; k++)
    slot[k] = hl_b_element(b, outer, k);
  return outer;
}

typedef struct Iterations {
  HlPass *p;
  const HlInst *loop;
  const LoopCounter *counter;
} Iterations;

static void fill_iterations(HlBuild *b, HlInst **slot, void *user) {
  const Iterations *all = user;
  loop_all_iterations(all->p, b, all->loop, all->counter, slot);
}

static HlInst *unrolled(HlPass *p, HlBuild *b, const HlInst *loop, const LoopCounter *counter,
                        bool wraps) {
  const int n = loop_slots(loop);
  HlInst **slot = HL_ARRAY(p->arena, HlInst *, n + 2);
  Iterations all = {p, loop, counter};
  for (int k = 0; k < n; k++)
    slot[k] = hl_b_element(b, loop->operands[0], k);
  if (wraps)
    loop_trivial(b, "trivial_condition", "trivial_body", n, slot, fill_iterations, &all);
  else
    fill_iterations(b, slot, &all);
  return hl_b_tuple(b, n, slot);
}

static bool computes_by_element(const HlComp *body) {
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    if (inst->op != HL_OP_TUPLE && inst->op != HL_OP_GET_TUPLE_ELEMENT && inst->op != HL_OP_IOTA &&
        !hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_REARRANGES | HL_T_VIEW | HL_T_ELEMENTWISE))
      return false;
  return true;
}

bool pass_while_unroller(HlPass *p) {
  if (hl_pass_int(p, "unroll_factor") != -1)
    return true;
  const bool wraps = hl_pass_flag(p, "wrap_in_trivial_loop");
  const int64_t few = hl_pass_int(p, "elementwise_trips");
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++) {
    LoopCounter counter;
    if (!hl_comp_alive(loops[k]->comp) || !hl_alive(loops[k]) ||
        !loop_counter(p, loops[k], &counter) || !loop_may_unroll(p, loops[k], &counter) ||
        (wraps && counter.trips == 1) ||
        (few > 0 && (counter.trips > few || !computes_by_element(hl_while_body(loops[k])))))
      continue;
    HlBuild b;
    hl_begin(p, "unroll", loops[k], &b);
    loop_commit(p, loops[k], unrolled(p, &b, loops[k], &counter, wraps));
  }
  return true;
}
