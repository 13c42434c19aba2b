// opt/control_flow_flattening.c
//
// hlo_control_flow_flattening: makes a program's run time independent of its data, for measuring:
// every loop turns a fixed number of times, and every device takes itself for device 0. What the
// program computes is another thing afterwards.
//
//   w = while(x), condition=c   =>   (x, i) = while((x, 0)), condition: i < n, body: (f(x), i + 1)

#include "opt/loops.h"

bool pass_control_flow_flattening(HlPass *p);

static HlInst *next_turn(LoopPart *part, int k, void *user) {
  (void)user;
  return hl_b_binary(&part->b, HL_OP_ADD, hl_b_element(&part->b, part->state, k),
                     hl_b_scalar_int(&part->b, HL_S32, 1));
}

// A condition that counts; effects of the old one are gone with it.
static HlComp *count_turns(HlBuild *b, const HlShape *state, int slot, int64_t turns) {
  HlBuild test = hl_b_nested(b, "flattened_condition");
  test.metadata = NULL;
  HlInst *all = hl_b_parameter(&test, state, "state");
  hl_set_root(test.comp, hl_b_compare(&test, HL_WORD_direction_LT, hl_b_element(&test, all, slot),
                                      hl_b_scalar_int(&test, HL_S32, turns)));
  return test.comp;
}

// The loop that loop_rebuild has made, behind the tuple that stands for the old one.
static HlInst *loop_behind(HlInst *result) {
  return result->op == HL_OP_TUPLE && result->n_operands > 0 ? result->operands[0]->operands[0]
                                                             : NULL;
}

static void flatten(HlPass *p, HlInst *loop) {
  const int n = loop_slots(loop);
  const int64_t most = hl_pass_int(p, "max_loop_count");
  int64_t turns = loop_turns(p, loop, 0);
  turns = turns < 0 ? hl_pass_int(p, "while_execution_count") : turns < most ? turns : most;
  int *at = HL_ARRAY(p->arena, int, n + 1), *from = HL_ARRAY(p->arena, int, n + 1);
  HlInst **init = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlBuild b;
  hl_begin(p, "flatten", loop, &b);
  for (int k = 0; k < n; k++) {
    at[k] = from[k] = k;
    init[k] = hl_b_element(&b, loop->operands[0], k);
  }
  from[n] = -1;
  init[n] = hl_b_scalar_int(&b, HL_S32, 0);
  LoopPlan plan = {.loop = loop,
                   .prefix = "",
                   .suffix = ".flattened",
                   .n = n + 1,
                   .init = init,
                   .at = at,
                   .from = from,
                   .next = next_turn};
  HlInst *by = loop_rebuild(p, &b, &plan), *made = by ? loop_behind(by) : NULL;
  if (made) {
    HlComp *old = hl_while_condition(made);
    HlComp *comps[2] = {hl_while_body(made), count_turns(&b, made->shape, n, turns)};
    hl_set_calls(made, 2, comps);
    hl_remove_attr(made, HL_A_BACKEND_CONFIG);
    loop_drop_comp(p, old);
  }
  loop_commit(p, loop, made ? by : NULL);
}

// Loops that this pass has made already count a slot of their own up to a constant, and no more.
static bool is_flat(const HlInst *loop) {
  const HlInst *test = hl_while_condition(loop)->root;
  return test->op == HL_OP_COMPARE && loop_slot_of(test->operands[0]) == loop_slots(loop) - 1 &&
         hl_is_constant(test->operands[1]);
}

static void forget_device(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "id", inst, &b);
  hl_commit(p, hl_b_like_int(&b, inst, 0));
}

bool pass_control_flow_flattening(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; hl_pass_flag(p, "flatten_while_loop") && k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]) && loop_is_plain(loops[k]) &&
        loop_slots(loops[k]) > 0 && !hl_has_control(loops[k]) && !is_flat(loops[k]))
      flatten(p, loops[k]);
  if (!hl_pass_flag(p, "remove_id"))
    return true;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = hl_comp_alive(comps[k]) ? comps[k]->first : NULL, *next; inst;
         inst = next) {
      next = inst->next;
      if (inst->op == HL_OP_PARTITION_ID || inst->op == HL_OP_REPLICA_ID)
        forget_device(p, inst);
    }
  return true;
}
