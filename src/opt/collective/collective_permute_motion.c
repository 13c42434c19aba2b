// opt/collective/collective_permute_motion.c
//
// collective-permute-motion: what a loop sends at the end of an iteration is sent at the start of the next
// one, where it can overlap with what does not need it.
//
//   (i, s) = while((0, s0)), body: (i + 1, collective-permute(f(s)))
//   =>  (i, u) = while((0, s0)), body: s = select(i == 0, u, collective-permute(u)), (i + 1, f(s))
//       s = collective-permute(u)
//
// The loop iterates at least once, and its condition does not read what is sent.

#include "opt/ask/collectives.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

typedef struct Motion {
  HlInst *loop;
  HlInst **sent;  // by slot: the collective-permute at the end of an iteration; NULL: none
  LoopCounter counter;
  int64_t channel;  // the next one free
} Motion;

// Only the next state takes it, and once.
static bool can_move(const HlInst *inst, const HlInst *root) {
  return inst->op == HL_OP_COLLECTIVE_PERMUTE && coll_is_plain(inst) &&
         !hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES) && inst->first_use == inst->last_use &&
         inst->first_use->user == root && inst->shape == inst->operands[0]->shape;
}

static HlInst *send(LoopPart *part, const HlInst *like, HlInst *x) {
  return coll_copy(&part->b, like, NULL, 1, &x);
}

static void open(LoopPart *part, void *user) {
  Motion *m = user;
  for (int k = 0; k < loop_slots(m->loop); k++) {
    const HlInst *sent = m->sent[k];
    if (!sent || part->place == LOOP_IN_CONDITION)
      continue;
    HlInst *unsent = hl_b_element(&part->b, part->state, k), *now = send(part, sent, unsent);
    if (part->place == LOOP_AFTER) {
      if (hl_attr_int(now, HL_A_CHANNEL_ID) > 0)
        hl_set_int(now, HL_A_CHANNEL_ID, m->channel++);
      part->slot[k] = now;
      continue;
    }
    HlInst *iteration = loop_part_slot(part, m->counter.slot);
    HlInst *init = hl_b_scalar_int(&part->b, iteration->shape->dtype, m->counter.init);
    HlInst *is_first = hl_b_compare(&part->b, HL_WORD_direction_EQ, iteration, init);
    part->slot[k] = hl_b_select(&part->b, is_first, unsent, now);
  }
}

static HlInst *next(LoopPart *part, int k, void *user) {
  const Motion *m = user;
  return loop_part_copy(part, m->sent[k]->operands[0]);
}

static void move_permutes(HlPass *p, HlInst *loop) {
  if (!loop_owns_comps(loop))
    return;
  const int n = loop_slots(loop);
  Motion m = {.loop = loop, .sent = HL_ARRAY(p->arena, HlInst *, n + 1)};
  if (!loop_counter(p, loop, &m.counter) || m.counter.trips < 1 ||
      loop->shape->element[m.counter.slot]->rank != 0)
    return;
  const LoopElements tested = loop_elements(p, hl_while_condition(loop));
  const LoopElements elements = loop_elements(p, hl_while_body(loop));
  if (tested.has_other || elements.has_other)
    return;
  LoopPlan plan = loop_plan_all(p, loop, 0);
  plan.open = open, plan.next = next, plan.user = &m;
  for (int k = 0; k < n; k++) {
    HlInst *value = loop_next(loop, k);
    if (!can_move(value, hl_while_body(loop)->root) || loop_reads(&tested, k))
      continue;
    m.sent[k] = value;
    loop_plan_take(&plan, k, value->operands[0]);
  }
  if (plan.n_used == 0)
    return;
  m.channel = hl_free_channel(p->m);
  HlBuild b;
  hl_begin(p, "next-iteration", loop, &b);
  loop_plan_commit(p, &b, &plan);
}

bool pass_collective_permute_motion(HlPass *p) {
  loop_each(p, move_permutes);
  return true;
}
