// sim/graph/one.c: the graph that one processor runs.
//
// A collective keeps the processor's group; of a message its sender keeps the send, its receiver the recv. Whoever takes no part
// has a null there. ParaGraph leaves the reduction of a collective in such a null, so that it takes time, and takes a collective of
// one member for communication; we leave both out.

#include "sim/graph/graph.h"

static bool drop(HlSimNode *copy) {
  copy->op = HL_SIM_NULL;
  copy->groups = NULL;
  return false;
}

// ParaGraph keeps all groups of a node whose own has one member: no graph with several such is valid then.
static bool keep_group(const SimOwn *own, const HlSimNode *from, int k, HlSimNode *copy) {
  const HlI64s group = from->groups->at[k];
  if (group.n > 1)
    sim_set_group(copy, group);
  else if (own->compat == HL_SIM_PARAGRAPH)
    copy->groups = sim_groups(copy->sub->graph, from->groups->n, from->groups->at);
  else
    return drop(copy);
  return true;
}

static void keep_peers(const HlSimNode *from, HlI64s group, HlSimNode *copy) {
  const int64_t peers[2] = {sim_is_send(sim_op(from)) ? group.at[1] : group.at[0],
                            from->op == HL_SIM_SENDRECV ? group.at[2] : 0};
  sim_set_group(copy, (HlI64s){peers, from->op == HL_SIM_SENDRECV ? 2 : 1});
}

bool sim_keep_own(const SimOwn *own, const HlSimNode *from, HlSimNode *copy) {
  const HlSimClass kind = sim_class(from);
  if (!sim_communicates(kind))
    return true;
  const int k = hl_sim_group_of(from, own->processor);
  if (k < 0) {
    drop(copy);
    return own->compat == HL_SIM_PARAGRAPH;
  }
  if (kind == HL_SIM_COLLECTIVE)
    return keep_group(own, from, k, copy);
  keep_peers(from, from->groups->at[k], copy);
  return true;
}

HlSimGraph *hl_sim_individualize(HlCx *cx, const HlSimGraph *composite, int64_t processor,
                                 HlSimCompat compat) {
  return sim_individualize(cx, composite, processor, compat, NULL);
}

HlSimGraph *sim_individualize(HlCx *cx, const HlSimGraph *composite, int64_t processor,
                              HlSimCompat compat, SimRoom *room) {
  if (composite->processor >= 0) {
    hl_error(cx, (HlPos){0}, "graph %.*s is of processor %lld: expected a composite graph",
             (int)composite->name.n, composite->name.at, (long long)composite->processor);
    return NULL;
  }
  HlSimGraph *graph = hl_sim_graph_new((HlStr){"", 0}, processor);
  graph->room = room;
  graph->name = sim_name(graph, "%.*s_%lld", (int)composite->name.n, composite->name.at,
                         (long long)processor);
  const SimOwn own = {cx, processor, compat};
  graph->entry = sim_copy_sub(graph, NULL, composite->entry, &(SimCopy){.scale = 1, .one = &own});
  graph->next_id = composite->next_id;
  return graph;
}
