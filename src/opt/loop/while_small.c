// opt/loop/while_small.c
//
// small-while-loop-hoisting: a loop whose iteration touches few bytes becomes the only instruction of a
// computation that is called, and the call says that it is small: the CPU then compiles it as one
// kernel in place of running it instruction by instruction.
//
//   w = while(x), ...   =>   w = call(x), to_apply=w_computation,
//                                frontend_attributes={xla_cpu_small_call="true"}

#include "hilo/cost.h"
#include "opt/ask/frontend.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// By id of the computations there were when the pass began. Hoisting changes neither.
typedef struct Facts {
  const HlCost *cost;
  bool *foreign;  // it or what it calls has an op that no small loop may have
} Facts;

static Facts find_facts(HlPass *p) {
  static const HlOp foreign[] = {HL_OP_CUSTOM_CALL,
                                 HL_OP_INFEED,
                                 HL_OP_OUTFEED,
                                 HL_OP_SCATTER,
                                 HL_OP_SORT,
                                 HL_OP_FFT,
                                 HL_OP_PARTITION_ID,
                                 HL_OP_REPLICA_ID,
                                 HL_OP_ALL_REDUCE,
                                 HL_OP_ALL_REDUCE_START,
                                 HL_OP_ALL_REDUCE_DONE,
                                 HL_OP_REDUCE_SCATTER,
                                 HL_OP_ALL_GATHER,
                                 HL_OP_ALL_GATHER_START,
                                 HL_OP_ALL_GATHER_DONE,
                                 HL_OP_ALL_TO_ALL,
                                 HL_OP_RAGGED_ALL_TO_ALL,
                                 HL_OP_COLLECTIVE_BROADCAST,
                                 HL_OP_COLLECTIVE_PERMUTE,
                                 HL_OP_COLLECTIVE_PERMUTE_START,
                                 HL_OP_COLLECTIVE_PERMUTE_DONE};
  bool is_foreign[HL_OP_COUNT] = {false};
  for (size_t k = 0; k < HL_COUNT_OF(foreign); k++)
    is_foreign[foreign[k]] = true;
  Facts facts = {hl_cost_comps(p->arena, p->m), HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1)};
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst && !facts.foreign[comp->id]; inst = inst->next) {
      facts.foreign[comp->id] = is_foreign[inst->op];
      for (int k = 0; k < inst->n_calls; k++)
        facts.foreign[comp->id] |= facts.foreign[hl_called(inst, k)->id];
    }
  return facts;
}

static bool is_small(HlPass *p, const Facts *facts, const HlInst *loop) {
  const uint32_t body = hl_while_body(loop)->id, condition = hl_while_condition(loop)->id;
  if (facts->foreign[body] || facts->foreign[condition])
    return false;
  const HlCost *iteration = &facts->cost[body], *test = &facts->cost[condition];
  double bytes =
      iteration->bytes_read + iteration->bytes_written + test->bytes_read + test->bytes_written;
  return bytes < (double)hl_pass_int(p, "small_buffer_access_size");
}

// The loop is all that a small call runs.
static bool is_hoisted(const HlInst *loop) {
  const HlComp *comp = loop->comp;
  if (comp->root != loop || loop->operands[0]->op != HL_OP_PARAMETER || !comp->first_call)
    return false;
  return frontend_has(comp->first_call->caller, "xla_cpu_small_call");
}

static void hoist(HlPass *p, HlInst *loop) {
  HlBuild b;
  hl_begin(p, "small", loop, &b);
  HlBuild nested = hl_b_nested(&b, hl_arena_printf(p->arena, "%s_computation", loop->name->text));
  HlInst *state = hl_b_parameter(&nested, loop->operands[0]->shape, loop->operands[0]->name->text);
  hl_set_root(nested.comp, hl_inst_copy(nested.comp, loop, NULL, 1, &state));
  HlInst *call = hl_b_call(&b, nested.comp, 1, &loop->operands[0]);
  if (call)
    frontend_set(call, call, "xla_cpu_small_call", "true");
  hl_commit(p, call);
}

bool pass_while_small(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  if (n == 0)
    return true;
  const Facts facts = find_facts(p);
  for (int k = 0; k < n; k++)
    if (hl_alive(loops[k]) && loop_is_plain(loops[k]) && !hl_has_control(loops[k]) &&
        !is_hoisted(loops[k]) && !loop_carries_link(loops[k]) && is_small(p, &facts, loops[k]))
      hoist(p, loops[k]);
  return true;
}
