// opt/loop/while_fusible_sinking.c
//
// while-loop-fusible-sinking: what a loop carries along unchanged and what is cheaply computed from
// something smaller is computed anew in each iteration, where it can be fused with its reader: the loop
// carries the smaller things.
//
//   b = f32[1000] broadcast(x)
//   while((0, b)), body: (i + g(b), b)   =>   while((0, x)), body: (i + g(broadcast(x)), x)

#include "hilo/cost.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

enum { MAX_GROUP = 16 };

// The instructions that make one slot's start, and what they start from.
typedef struct Group {
  HlInst *inst[MAX_GROUP];  // operands first
  HlInst *leaf[MAX_GROUP];
  int n, n_leaves;
} Group;

typedef struct Sink {
  HlInst *loop;
  Group *group;   // by slot; n == 0: stays
  LoopPlan plan;  // of the slots that stay and, behind them, the leaves
  int n_kept;
} Sink;

static bool is_cheap(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) && !hl_has_control(inst) && hl_is_pure(inst) &&
         !hl_shape_is_dynamic(inst->shape) &&
         (inst->op == HL_OP_BROADCAST || inst->op == HL_OP_IOTA || hl_is_constant(inst) ||
          (hl_is_elementwise(inst) && inst->n_calls == 0));
}

static bool holds(HlInst *const *list, int n, const HlInst *inst) {
  for (int k = 0; k < n; k++)
    if (list[k] == inst)
      return true;
  return false;
}

// Breadth first from the slot's start: a broadcast's operand is where to stop, since it is small.
static bool find_group(HlInst *top, Group *g) {
  g->n = g->n_leaves = 0;
  if (!is_cheap(top) || top->op == HL_OP_CONSTANT)
    return false;
  g->inst[g->n++] = top;
  for (int at = 0; at < g->n; at++) {
    const HlInst *inst = g->inst[at];
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      HlInst *operand = inst->operands[k];
      bool grows = inst->op != HL_OP_BROADCAST && is_cheap(operand);
      grows |= hl_is_constant(operand) && hl_shape_is_scalar(operand->shape);
      HlInst **list = grows ? g->inst : g->leaf;
      int *n = grows ? &g->n : &g->n_leaves;
      if (holds(list, *n, operand))
        continue;
      if (*n == MAX_GROUP)
        return false;
      list[(*n)++] = operand;
    }
  }
  double bytes = 0;
  for (int k = 0; k < g->n_leaves; k++)
    bytes += (double)hl_leaf_bytes(g->leaf[k]->shape);
  return bytes < (double)hl_leaf_bytes(top->shape);
}

static int leaf_slot(const Sink *s, const HlInst *leaf) {
  for (int k = s->n_kept; k < s->plan.n; k++)
    if (s->plan.init[k] == leaf)
      return k;
  return -1;
}

// The group's value in a part: its instructions copied, those that are ready first.
static HlInst *build_group(LoopPart *part, const Sink *s, const Group *g) {
  HlInst *copy[MAX_GROUP] = {NULL};
  for (int left = g->n; left > 0;) {
    for (int k = g->n - 1; k >= 0; k--) {
      HlInst *operands[3];
      const HlInst *inst = g->inst[k];
      bool is_ready = !copy[k] && inst->n_operands <= 3;
      for (uint32_t j = 0; is_ready && j < inst->n_operands; j++) {
        operands[j] = NULL;
        for (int i = 0; i < g->n; i++)
          if (g->inst[i] == inst->operands[j])
            operands[j] = copy[i];
        int slot = leaf_slot(s, inst->operands[j]);
        if (!operands[j] && !holds(g->inst, g->n, inst->operands[j]) && slot >= 0)
          operands[j] = hl_b_element(&part->b, part->state, slot);
        is_ready = operands[j] != NULL;
      }
      if (!is_ready)
        continue;
      copy[k] = hl_inst_copy(part->b.comp, inst, NULL, (int)inst->n_operands, operands);
      left--;
    }
  }
  return copy[0];
}

static void open(LoopPart *part, void *user) {
  const Sink *s = user;
  for (int k = 0; k < loop_slots(s->loop); k++) {
    if (s->group[k].n == 0)
      continue;
    part->slot[k] = part->place == LOOP_AFTER ? hl_b_element(&part->b, s->loop->operands[0], k)
                                              : build_group(part, s, &s->group[k]);
  }
}

static bool fits(const Group *g) {
  for (int k = 0; k < g->n; k++)
    if (g->inst[k]->n_operands > 3)
      return false;
  return true;
}

static void sink_into(HlPass *p, HlInst *loop) {
  const int n = loop_slots(loop);
  if (loop->operands[0]->op != HL_OP_TUPLE)
    return;
  Sink s = {.loop = loop, .group = HL_ARRAY(p->arena, Group, n + 1)};
  s.plan = loop_plan(p, loop, n * MAX_GROUP);
  s.plan.suffix = ".sunk", s.plan.open = open, s.plan.user = &s;
  for (int k = 0; k < n; k++) {
    if (loop_is_invariant(loop, k) && find_group(loop_init(loop, k), &s.group[k]) &&
        fits(&s.group[k]))
      continue;
    s.group[k].n = s.group[k].n_leaves = 0;
    loop_plan_keep(&s.plan, k);
  }
  s.n_kept = s.plan.n;
  if (s.n_kept == n)
    return;
  for (int k = 0; k < n; k++)
    for (int j = 0; j < s.group[k].n_leaves; j++)
      if (leaf_slot(&s, s.group[k].leaf[j]) < 0)
        loop_plan_add(&s.plan, s.group[k].leaf[j]);
  HlBuild b;
  hl_begin(p, "sink", loop, &b);
  loop_plan_commit(p, &b, &s.plan);
}

bool pass_while_fusible_sinking(HlPass *p) {
  loop_each(p, sink_into);
  return true;
}
