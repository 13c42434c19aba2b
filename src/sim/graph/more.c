// sim/graph/more.c: algorithms that ParaGraph has not: of all-to-all, broadcast, scatter, gather and reduce, and those that need
// fewer steps than a ring.
//
// The root of a broadcast, scatter, gather or reduce is the first member of its group. Sizes: of a broadcast and a reduce what
// each member has in the end or at first; of a scatter and a gather what the root has; of an all-to-all what each member sends.

#include "sim/graph/translate.h"

// --- Exchanges with all others --------------------------------------------------------------------------------

// Member by member, at once or one after the other: in step k with those k places away.
static void with_all(Coll *c, bool at_once, bool reduces) {
  const double part = c->size / c->group.n;
  HlSimNode *last = NULL, **ends = HL_ARRAY(c->graph->arena, HlSimNode *, c->group.n);
  for (int k = 1; k < c->group.n; k++) {
    last = sim_exchange(c, "_sendrecv_", k, sim_member(c, c->me - k), sim_member(c, c->me + k),
                        part, at_once ? NULL : last);
    if (reduces)
      last = sim_reduction(c, "_reduction_", k, "_phase_", 1.0 / c->group.n, last);
    ends[k] = last;
  }
  if (!at_once) {
    c->sub->root = last;
    return;
  }
  HlSimNode *root = sim_null_root(c, c->stem, "_root", -1);
  for (int k = 1; k < c->group.n; k++)
    sim_push_operand(root, ends[k]);
}

bool sim_make_gather_direct(Coll *c) {
  with_all(c, true, false);
  return true;
}

bool sim_make_scatter_direct(Coll *c) {
  with_all(c, true, true);
  return true;
}

bool sim_make_all_to_all_direct(Coll *c) {
  with_all(c, true, false);
  return true;
}

bool sim_make_all_to_all_pairwise(Coll *c) {
  with_all(c, false, false);
  return true;
}

// In step k go the blocks whose distance has bit k.
bool sim_make_all_to_all_bruck(Coll *c) {
  HlSimNode *last = NULL;
  const int n = c->group.n;
  int k = 0;
  for (int64_t offset = 1; offset < n; offset *= 2, k++) {
    int64_t blocks = 0;
    for (int64_t j = 0; j < n; j++)
      blocks += j & offset ? 1 : 0;
    last = sim_exchange(c, "_sendrecv_", k, sim_member(c, c->me - offset),
                        sim_member(c, c->me + offset), c->size / n * (double)blocks, last);
  }
  c->sub->root = last;
  return true;
}

// --- Doubling and halving -------------------------------------------------------------------------------------

bool sim_make_gather_bruck(Coll *c) {
  HlSimNode *last = NULL;
  const int64_t n = c->group.n;
  int k = 0;
  for (int64_t have = 1; have < n; have *= 2, k++) {
    const int64_t blocks = have < n - have ? have : n - have;
    last = sim_exchange(c, "_sendrecv_", k, sim_member(c, c->me + have),
                        sim_member(c, c->me - have), c->size / (double)n * (double)blocks, last);
  }
  c->sub->root = last;
  return true;
}

// With the member whose place differs in one bit; the number of members is a power of two.
static HlSimNode *with_partner(Coll *c, int step, int64_t bit, double bytes,
                               const HlSimNode *after) {
  const int64_t partner = c->group.at[c->me ^ bit];
  return sim_exchange(c, "_sendrecv_", step, partner, partner, bytes, after);
}

bool sim_make_gather_doubling(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t bit = 1; bit < c->group.n; bit *= 2, k++)
    last = with_partner(c, k, bit, c->size / c->group.n * (double)bit, last);
  c->sub->root = last;
  return true;
}

bool sim_make_scatter_halving(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t bit = c->group.n / 2; bit > 0; bit /= 2, k++) {
    const double part = (double)bit / c->group.n;
    last = with_partner(c, k, bit, c->size * part, last);
    last = sim_reduction(c, "_reduction_", k, "_phase_", part, last);
  }
  c->sub->root = last;
  return true;
}

bool sim_make_reduce_doubling(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t bit = 1; bit < c->group.n; bit *= 2, k++) {
    last = with_partner(c, k, bit, c->size, last);
    last = sim_reduction(c, "_reduction_", k, "_phase_", 1, last);
  }
  c->sub->root = last;
  return true;
}

// One part after another: the whole of the collective.
static bool in_a_row(Coll *c, HlSimOp first, const char *first_way, HlSimOp second,
                     const char *second_way) {
  const SimRule rules[2] = {sim_rule(c, first, first_way, false),
                            sim_rule(c, second, second_way, false)};
  SimPart part = {.op = first, .group = c->group, .size = c->size, .share = 1, .rule = &rules[0]};
  part.name = sim_join_by(c->graph, c->stem, '_', hl_str(hl_sim_op_text(first)));
  const HlSimNode *before = sim_part(c, &part, NULL);
  part.op = second;
  part.rule = &rules[1];
  part.name = sim_join_by(c->graph, c->stem, '_', hl_str(hl_sim_op_text(second)));
  c->sub->root = before ? sim_part(c, &part, before) : NULL;
  return c->sub->root != NULL;
}

bool sim_make_rabenseifner(Coll *c) {
  return in_a_row(c, HL_SIM_REDUCE_SCATTER, "recursive-halving", HL_SIM_ALL_GATHER,
                  "recursive-doubling");
}

bool sim_make_scatter_gather(Coll *c) {
  return in_a_row(c, HL_SIM_SCATTER, "binomial", HL_SIM_ALL_GATHER, "unidir-ring");
}

// --- From one to all and back -----------------------------------------------------------------------------------

// What one edge of a tree carries, given how many members are beyond it.
static double edge_bytes(const Coll *c, int64_t beyond) {
  const bool parts = c->node->op == HL_SIM_SCATTER || c->node->op == HL_SIM_GATHER;
  return parts ? c->size / c->group.n * (double)beyond : c->size;
}

static int64_t beyond(const Coll *c, int64_t member, int64_t bit) {
  return member + bit > c->group.n ? c->group.n - member : bit;
}

static int64_t top_bit(int64_t n) {
  int64_t bit = 1;
  while (bit < n)
    bit *= 2;
  return bit / 2;
}

// Each has the members up to its lowest bit behind it, and hands the far half on first.
bool sim_make_tree_down(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t bit = top_bit(c->group.n); bit > 0; bit /= 2, k++) {
    const int64_t peer = c->me + bit;
    if (c->me & (2 * bit - 1)) {
      if ((c->me & (2 * bit - 1)) == bit)
        last = sim_one_way(c, HL_SIM_RECV, "_recv_", k, c->group.at[c->me - bit],
                           edge_bytes(c, beyond(c, c->me, bit)), last);
    } else if (peer < c->group.n) {
      last = sim_one_way(c, HL_SIM_SEND, "_send_", k, c->group.at[peer],
                         edge_bytes(c, beyond(c, peer, bit)), last);
    }
  }
  c->sub->root = last;
  return true;
}

bool sim_make_tree_up(Coll *c) {
  HlSimNode *last = NULL;
  int k = 0;
  for (int64_t bit = 1; bit < c->group.n; bit *= 2, k++) {
    const int64_t peer = c->me + bit;
    if (c->me & bit) {
      last = sim_one_way(c, HL_SIM_SEND, "_send_", k, c->group.at[c->me - bit],
                         edge_bytes(c, beyond(c, c->me, bit)), last);
      break;
    }
    if (peer >= c->group.n)
      continue;
    last = sim_one_way(c, HL_SIM_RECV, "_recv_", k, c->group.at[peer],
                       edge_bytes(c, beyond(c, peer, bit)), last);
    if (c->node->op == HL_SIM_REDUCE)
      last = sim_reduction(c, "_reduction_", k, "_phase_", 1, last);
  }
  c->sub->root = last;
  return true;
}

bool sim_make_chain_down(Coll *c) {
  HlSimNode *last = NULL;
  if (c->me > 0)
    last = sim_one_way(c, HL_SIM_RECV, "_recv", -1, c->group.at[c->me - 1], c->size, last);
  if (c->me + 1 < c->group.n)
    last = sim_one_way(c, HL_SIM_SEND, "_send", -1, c->group.at[c->me + 1], c->size, last);
  c->sub->root = last;
  return true;
}

bool sim_make_chain_up(Coll *c) {
  HlSimNode *last = NULL;
  if (c->me + 1 < c->group.n) {
    last = sim_one_way(c, HL_SIM_RECV, "_recv", -1, c->group.at[c->me + 1], c->size, last);
    last = sim_reduction(c, "_reduction", -1, "_phase", 1, last);
  }
  if (c->me > 0)
    last = sim_one_way(c, HL_SIM_SEND, "_send", -1, c->group.at[c->me - 1], c->size, last);
  c->sub->root = last;
  return true;
}

// The root has to do with each member, in no order.
static void star(Coll *c, HlSimOp root_does) {
  HlSimNode **ends = HL_ARRAY(c->graph->arena, HlSimNode *, c->group.n);
  const bool sends = root_does == HL_SIM_SEND;
  if (c->me > 0) {
    c->sub->root = sim_one_way(c, sends ? HL_SIM_RECV : HL_SIM_SEND, sends ? "_recv" : "_send", -1,
                               c->group.at[0], edge_bytes(c, 1), NULL);
    return;
  }
  for (int k = 1; k < c->group.n; k++) {
    ends[k] = sim_one_way(c, root_does, sends ? "_send_" : "_recv_", k, c->group.at[k],
                          edge_bytes(c, 1), NULL);
    if (c->node->op == HL_SIM_REDUCE)
      ends[k] = sim_reduction(c, "_reduction_", k, "_phase_", 1, ends[k]);
  }
  HlSimNode *root = sim_null_root(c, c->stem, "_root", -1);
  for (int k = 1; k < c->group.n; k++)
    sim_push_operand(root, ends[k]);
}

bool sim_make_star_down(Coll *c) {
  star(c, HL_SIM_SEND);
  return true;
}

bool sim_make_star_up(Coll *c) {
  star(c, HL_SIM_RECV);
  return true;
}
