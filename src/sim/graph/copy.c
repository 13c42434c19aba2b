// sim/graph/copy.c: copies of graphs and of parts of them; the graph of one processor.

#include "sim/graph/graph.h"

#include <string.h>

enum { FEW = 16 };  // nodes of a subroutine that are looked for one by one

// Where the copy of a node stands: copies are in the order of the originals.
typedef struct Places {
  const HlSimSub *from;
  HlSimSub *to;
  Map places;  // of many nodes: 1 + the place
} Places;

static HlSimNode *copy_of(const Places *p, const HlSimNode *node) {
  if (p->from->n_nodes > FEW)
    return p->to->nodes[map_get(&p->places, node->serial) - 1];
  int k = 0;
  while (p->from->nodes[k] != node)
    k++;
  return p->to->nodes[k];
}

static void copy_edges(const HlSimSub *from, HlSimSub *to) {
  Places p = {from, to, {0}};
  for (int k = 0; from->n_nodes > FEW && k < from->n_nodes; k++)
    *map_at(&p.places, from->nodes[k]->serial) = 1 + (uint64_t)k;
  for (int k = 0; k < from->n_nodes; k++) {
    const HlSimNode *node = from->nodes[k];
    for (int j = 0; j < node->n_operands; j++)
      sim_push_operand(to->nodes[k], copy_of(&p, node->operands[j]));
    if (node->bonded)
      to->nodes[k]->bonded = copy_of(&p, node->bonded);
  }
  to->root = from->root ? copy_of(&p, from->root) : NULL;
  map_free(&p.places);
}

static HlSimCost scaled(HlSimCost cost, double factor) {
  return (HlSimCost){cost.ops * factor, cost.bytes_in * factor, cost.bytes_out * factor,
                     cost.transcendentals * factor, cost.seconds * factor};
}

static HlSimNode *copy_node(HlSimSub *to, const HlSimNode *from, const SimCopy *how) {
  HlSimGraph *graph = to->graph;
  const bool here = graph == from->sub->graph;
  HlStr name = from->name;
  if (how->suffix.n > 0)
    name = sim_join(graph, name, how->suffix);
  else if (!here)
    name = sim_copy_text(graph, name);
  HlSimNode *node =
      sim_new_node(to, sim_op(from), name, how->new_ids ? graph->next_id++ : from->id);
  node->cost = how->scale == 1 ? from->cost : scaled(from->cost, how->scale);
  node->tag = from->tag;
  node->inst = from->inst;
  node->is_async_done = from->is_async_done;
  if (from->groups && here)
    node->groups = from->groups;
  else if (from->groups && !how->one)
    node->groups = sim_groups(graph, from->groups->n, from->groups->at);
  return node;
}

// As deep as the graph is nested.
HlSimSub *sim_copy_sub(HlSimGraph *to, HlSimNode *caller, const HlSimSub *from,
                       const SimCopy *how) {
  HlStr name = from->name;
  if (how->suffix.n > 0 && !how->inside)
    name = sim_join(to, name, how->suffix);
  else if (to != from->graph)
    name = sim_copy_text(to, name);
  HlSimSub *sub = sim_new_sub(to, caller, name);
  sub->probability = from->probability;
  sub->count = from->count;
  SimCopy inner = *how;
  inner.inside = true;
  for (int k = 0; k < from->n_nodes; k++) {
    HlSimNode *node = copy_node(sub, from->nodes[k], how);
    if (how->one && !sim_keep_own(how->one, from->nodes[k], node))
      continue;
    for (int j = 0; j < from->nodes[k]->n_subs; j++)
      sim_hang_sub(node, sim_copy_sub(to, node, from->nodes[k]->subs[j], &inner));
  }
  copy_edges(from, sub);
  return sub;
}

HlSimGraph *hl_sim_clone(const HlSimGraph *graph) {
  HlSimGraph *copy = hl_sim_graph_new(graph->name, graph->processor);
  if (graph->entry)
    copy->entry = sim_copy_sub(copy, NULL, graph->entry, &(SimCopy){.scale = 1});
  copy->next_id = graph->next_id;
  return copy;
}
