// opt/loop/while_constant_sinking.c
//
// while-loop-constant-sinking: a slot that the body passes through and that starts with a constant
// is that constant wherever body and condition read it. The slot stays, unread:
// simplify-while-loops takes it away.
//
//   (i, k) = while((0, 5)), body: (i + k, k)   =>   (i, k) = while((0, 5)), body: (i + 5, k)

#include "opt/ask/loops.h"
#include "opt/passes.h"

typedef struct Sink {
  HlInst **value;  // by slot: what is made anew inside; NULL: the slot stays as it is
} Sink;

// The constant, or by option the broadcast of one, that a slot always is.
static HlInst *value_of(HlPass *p, const HlInst *loop, int k) {
  HlInst *init = loop_init(loop, k);
  if (!init || !loop_is_invariant(loop, k))
    return NULL;
  const HlInst *constant = init;
  if (init->op == HL_OP_BROADCAST && hl_pass_flag(p, "sink_broadcast_of_constants"))
    constant = init->operands[0];
  bool is_small = !hl_pass_flag(p, "only_scalar") || hl_shape_is_scalar(constant->shape);
  return hl_is_constant(constant) && is_small && !hl_has_control(init) ? init : NULL;
}

// Something other than the body's root reads slot k: in the body only the element that the root
// passes on counts.
static bool is_read(const HlInst *loop, const LoopElements *tested, int k) {
  const HlInst *through = loop_next(loop, k);
  return through->first_use != through->last_use || loop_reads(tested, k);
}

static void open(LoopPart *part, void *user) {
  const Sink *sink = user;
  for (int k = 0; part->place != LOOP_AFTER && k < loop_slots(part->loop); k++) {
    const HlInst *value = sink->value[k];
    if (!value)
      continue;
    if (value->op == HL_OP_BROADCAST) {
      HlInst *constant = hl_inst_copy(part->b.comp, value->operands[0], NULL, 0, NULL);
      part->slot[k] = hl_inst_copy(part->b.comp, value, NULL, 1, &constant);
    } else {
      part->slot[k] = hl_inst_copy(part->b.comp, value, NULL, 0, NULL);
    }
  }
}

static void sink_constants(HlPass *p, HlInst *loop) {
  const int n = loop_slots(loop);
  Sink sink = {HL_ARRAY(p->arena, HlInst *, n + 1)};
  LoopPlan plan = loop_plan_all(p, loop, 0);
  plan.suffix = ".sunk", plan.open = open, plan.user = &sink;
  LoopElements tested = loop_elements(p, hl_while_condition(loop));
  bool found = false;
  for (int k = 0; k < n; k++) {
    HlInst *value = value_of(p, loop, k);
    if (!value || !is_read(loop, &tested, k))
      continue;
    sink.value[k] = value;
    plan.from[k] = -1;
    found = true;
  }
  if (!found)
    return;
  HlBuild b;
  hl_begin(p, "sink", loop, &b);
  loop_plan_commit(p, &b, &plan);
}

bool pass_while_constant_sinking(HlPass *p) {
  loop_each(p, sink_constants);
  return true;
}
