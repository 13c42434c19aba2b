// sim/graph/ring.c: all-gather, reduce-scatter and all-reduce on rings and lines; barriers.
//
// On a ring of n each member hands a part of 1/n on, n-1 times; two rings run against each other with half the data each. On a
// line a part goes as far as there are members to that side.

#include "sim/graph/translate.h"

// --- Rings ----------------------------------------------------------------------------------------------------

static bool one_ring(Coll *c, bool reduces) {
  HlSimNode *last;
  if (!sim_barrier(c, c->stem, &last))
    return false;
  const double n = c->group.n;
  for (int k = 1; k < c->group.n; k++) {
    last = sim_exchange(c, "_sendrecv_", k, sim_member(c, c->me - 1), sim_member(c, c->me + 1),
                        c->size / n, last);
    if (reduces)
      last = sim_reduction(c, "_reduction_", k, "_phase_", 1.0 / n, last);
  }
  c->sub->root = last;
  return true;
}

bool sim_make_gather_ring(Coll *c) {
  return one_ring(c, false);
}

bool sim_make_scatter_ring(Coll *c) {
  return one_ring(c, true);
}

static bool two_rings(Coll *c, HlSimOp op) {
  HlSimNode *barrier;
  if (!sim_barrier(c, c->stem, &barrier))
    return false;
  HlArena *arena = c->graph->arena;
  int64_t *reversed = HL_ARRAY(arena, int64_t, c->group.n);
  for (int k = 0; k < c->group.n; k++)
    reversed[k] = c->group.at[c->group.n - 1 - k];
  const SimRule rule = sim_rule(c, op, "unidir-ring", false);
  SimPart part = {.op = op,
                  .name = sim_join(c->graph, c->stem, hl_str("_cw")),
                  .group = c->group,
                  .size = c->size / 2,
                  .share = 0.5,
                  .rule = &rule};
  const HlSimNode *cw = sim_part(c, &part, barrier);
  part.name = sim_join(c->graph, c->stem, hl_str("_ccw"));
  part.group.at = reversed;
  const HlSimNode *ccw = cw ? sim_part(c, &part, barrier) : NULL;
  if (!ccw)
    return false;
  HlSimNode *root = sim_null_root(c, c->stem, "_root_", c->graph->processor);
  sim_after(root, cw);
  sim_after(root, ccw);
  return true;
}

bool sim_make_gather_bidir(Coll *c) {
  return two_rings(c, HL_SIM_ALL_GATHER);
}

bool sim_make_scatter_bidir(Coll *c) {
  return two_rings(c, HL_SIM_REDUCE_SCATTER);
}

// --- Lines ----------------------------------------------------------------------------------------------------

static bool sends_up(int me, int step, int n) {
  return step <= me && me + 1 < n;
}

static bool sends_down(int me, int step, int n) {
  return me + step + 1 <= n && me > 0;
}

typedef struct Side {
  int64_t peer;
  bool sends, receives;
  const char *words[3];  // of a send, a recv, both
  const char *reduction, *phase;
} Side;

// What goes on at one side in one step; NULL: nothing.
static HlSimNode *one_side(Coll *c, const Side *side, int step, const HlSimNode *after) {
  const double bytes = c->size / c->group.n;
  HlSimNode *node;
  if (!side->sends && !side->receives)
    return NULL;
  if (!side->receives)
    node = sim_one_way(c, HL_SIM_SEND, side->words[0], step, side->peer, bytes, after);
  else if (!side->sends)
    node = sim_one_way(c, HL_SIM_RECV, side->words[1], step, side->peer, bytes, after);
  else
    node = sim_exchange(c, side->words[2], step, side->peer, side->peer, bytes, after);
  if (side->receives && c->node->op == HL_SIM_REDUCE_SCATTER)
    node = sim_reduction(c, side->reduction, step, side->phase, 1.0 / c->group.n, node);
  return node;
}

static HlSimNode *line_step(Coll *c, int step, HlSimNode *last) {
  const int n = c->group.n;
  const Side down = {sim_member(c, c->me - 1),
                     sends_down(c->me, step, n),
                     sends_up(c->me - 1, step, n),
                     {"_ccw_send_", "_ccw_recv_", "_ccw_sendrecv_"},
                     "_ccw_reduction_",
                     "_ccw_phase_"};
  const Side up = {sim_member(c, c->me + 1),
                   sends_up(c->me, step, n),
                   sends_down(c->me + 1, step, n),
                   {"_cw_send_", "_cw_recv_", "_cw_sendrecv_"},
                   "_cw_reduction_",
                   "_cw_phase_"};
  HlSimNode *ccw = one_side(c, &down, step, last);
  HlSimNode *cw = one_side(c, &up, step, last);
  if (!ccw || !cw)
    return ccw ? ccw : cw;
  HlSimNode *both = sim_null_root(c, c->stem, "_root_", step);
  sim_after(both, cw);
  sim_after(both, ccw);
  return both;
}

// An all-gather, or a reduce-scatter, whose barrier ParaGraph calls after the ring.
bool sim_make_line(Coll *c) {
  HlSimNode *last;
  const bool odd = c->node->op == HL_SIM_REDUCE_SCATTER && c->compat == HL_SIM_PARAGRAPH;
  if (!sim_barrier(c, odd ? sim_join(c->graph, c->name, hl_str("_unidir-ring")) : c->stem, &last))
    return false;
  for (int step = 0; step < c->group.n - 1; step++) {
    HlSimNode *next = line_step(c, step, last);
    if (!next)
      break;
    last = next;
  }
  c->sub->root = last;
  return true;
}

// --- All-reduces ----------------------------------------------------------------------------------------------

// A reduce-scatter and an all-gather by the same algorithm. On grids each stage of both has its barrier.
bool sim_make_two_steps(Coll *c) {
  const char *text = c->rule->how->text;
  const bool grid = c->rule->how->options & SIM_GRID;
  HlSimNode *barrier = NULL;
  if (!grid && !sim_barrier(c, c->stem, &barrier))
    return false;
  const SimRule scatter = sim_rule(c, HL_SIM_REDUCE_SCATTER, text, grid);
  const SimRule gather = sim_rule(c, HL_SIM_ALL_GATHER, text, grid);
  SimPart part = {.op = HL_SIM_REDUCE_SCATTER,
                  .group = c->group,
                  .size = c->size,
                  .share = 1,
                  .rule = &scatter};
  part.name = sim_join(c->graph, c->stem, hl_str("_reduce-scatter"));
  const HlSimNode *first = sim_part(c, &part, barrier);
  part.op = HL_SIM_ALL_GATHER;
  part.rule = &gather;
  part.name = sim_join(c->graph, c->stem, hl_str("_all-gather"));
  c->sub->root = first ? sim_part(c, &part, first) : NULL;
  return c->sub->root != NULL;
}

// In step k everyone has all that those up to 2^k - 1 behind it had. Of a number of members that is no power of two some values
// count twice: it tells how long it takes, and no more. ParaGraph's first peer is where the data comes from.
bool sim_make_dissemination(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t offset = 1; offset < c->group.n; offset *= 2, k++) {
    last = sim_exchange(c, "_sendrecv_", k, sim_member(c, c->me + offset),
                        sim_member(c, c->me - offset), c->size, last);
    last = sim_reduction(c, "_reduction_", k, "_iteration_", 1, last);
  }
  c->sub->root = last;
  return true;
}

// Takes no time. ParaGraph leaves an all-reduce, which its simulator then refuses.
bool sim_make_nothing(Coll *c) {
  if (c->compat == HL_SIM_OWN) {
    c->node->op = HL_SIM_NULL;
    c->node->groups = NULL;
  }
  return true;
}

// --- Barriers -------------------------------------------------------------------------------------------------

static bool coordinate(Coll *c) {
  const int n = c->group.n;
  HlSimNode **heard = HL_ARRAY(c->graph->arena, HlSimNode *, n),
            **told = HL_ARRAY(c->graph->arena, HlSimNode *, n);
  for (int k = 1; k < n; k++)
    heard[k] = sim_one_way(c, HL_SIM_RECV, "_coordinator_recv_from_", c->group.at[k],
                           c->group.at[k], 0, NULL);
  for (int k = 1; k < n; k++) {
    told[k] = sim_one_way(c, HL_SIM_SEND, "_coordinator_send_to_", c->group.at[k], c->group.at[k],
                          0, NULL);
    for (int j = 1; j < n; j++)
      sim_push_operand(told[k], heard[j]);
  }
  HlSimNode *root = sim_null_root(c, c->stem, "_root_", c->graph->processor);
  for (int k = 1; k < n; k++)
    sim_push_operand(root, told[k]);
  return true;
}

// The first member hears of all and tells all. ParaGraph calls it 0 whoever it is.
bool sim_make_barrier_central(Coll *c) {
  const int64_t coordinator = c->group.at[0];
  const int64_t called = c->compat == HL_SIM_PARAGRAPH ? 0 : coordinator;
  if (c->me == 0)
    return coordinate(c);
  const HlSimNode *sent = sim_one_way(c, HL_SIM_SEND, "_send_to_", called, coordinator, 0, NULL);
  c->sub->root = sim_one_way(c, HL_SIM_RECV, "_recv_from_", called, coordinator, 0, sent);
  return true;
}

bool sim_make_barrier_dissemination(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t offset = 1; offset < c->group.n; offset *= 2, k++)
    last = sim_exchange(c, "_sendrecv_", k, sim_member(c, c->me - offset),
                        sim_member(c, c->me + offset), 0, last);
  c->sub->root = last;
  return true;
}
