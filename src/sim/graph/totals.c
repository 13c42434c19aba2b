// sim/graph/totals.c: what a graph amounts to.

#include "sim/graph/graph.h"

// Whether what is in a node counts in its place.
static bool counts_inside(const HlSimNode *node) {
  if (node->n_subs == 0)
    return false;
  const HlSimClass kind = sim_class(node);
  if (kind != HL_SIM_COLLECTIVE)
    return true;
  for (int k = 0; k < node->subs[0]->n_nodes; k++)  // a reducer does not communicate
    if (sim_communicates(sim_class(node->subs[0]->nodes[k])))
      return true;
  return false;
}

static bool computes(HlSimOp op) {
  return op == HL_SIM_DELAY || op == HL_SIM_INFEED || op == HL_SIM_OUTFEED;
}

static void add_node(const HlSimNode *node, double times, HlSimTotals *out) {
  const HlSimOp op = sim_op(node);
  out->runs[op] += times;
  if (sim_communicates(sim_class(node)))
    out->bytes[op] += times * (sim_is_send(op) ? node->cost.bytes_in : node->cost.bytes_out);
  if (!computes(op) || node->n_subs > 0)
    return;
  out->cost.ops += times * node->cost.ops;
  out->cost.bytes_in += times * node->cost.bytes_in;
  out->cost.bytes_out += times * node->cost.bytes_out;
  out->cost.transcendentals += times * node->cost.transcendentals;
  out->cost.seconds += times * node->cost.seconds;
}

// As deep as the graph is nested.
static void add_sub(const HlSimSub *sub, double times, bool counts, HlSimTotals *out) {
  const double each = times * (double)sub->count * sub->probability;
  out->subs++;
  out->nodes += sub->n_nodes;
  for (int k = 0; k < sub->n_nodes; k++) {
    const HlSimNode *node = sub->nodes[k];
    if (counts)
      add_node(node, each, out);
    for (int j = 0; j < node->n_subs; j++)
      add_sub(node->subs[j], each, counts && counts_inside(node), out);
  }
}

HlSimTotals hl_sim_totals(const HlSimGraph *graph) {
  HlSimTotals out = {0};
  if (graph->entry)
    add_sub(graph->entry, 1, true, &out);
  return out;
}
