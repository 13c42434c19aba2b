// sim/graph/change.c: what is done to whole graphs: a total order, more processors, less of what costs nothing, tags.

#include "sim/graph/graph.h"

// --- Order ----------------------------------------------------------------------------------------------------

static bool has_operand(const HlSimNode *node, const HlSimNode *operand) {
  for (int k = 0; k < node->n_operands; k++)
    if (node->operands[k] == operand)
      return true;
  return false;
}

bool hl_sim_enforce_post_order(HlCx *cx, HlSimGraph *graph) {
  HlArena *arena = hl_arena_new();
  SimSubs subs = {0};
  sim_list_subs(arena, graph, &subs);
  uint8_t *state = HL_ARRAY(arena, uint8_t, graph->n_serials + 1);
  bool ok = true;
  for (int k = 0; ok && k < subs.n; k++) {
    SimNodes order = {0};
    ok =
        subs.at[k]->n_nodes < 2 || sim_walk_post_order(cx, arena, subs.at[k], false, state, &order);
    for (int j = 1; ok && j < order.n; j++)
      if (!has_operand(order.at[j], order.at[j - 1]))
        sim_push_operand(order.at[j], order.at[j - 1]);
  }
  hl_arena_free(arena);
  return ok;
}

// --- More processors ------------------------------------------------------------------------------------------

static bool extend_one(HlCx *cx, HlSimNode *node, HlI64s all) {
  if (sim_class(node) != HL_SIM_COLLECTIVE)
    return true;
  const int n = node->groups ? node->groups->n : 0;
  if (n != 1)
    return hl_error(cx, (HlPos){0},
                    "%s %.*s has %d groups: only data parallel graphs, whose collectives have one, "
                    "are extended",
                    hl_sim_op_text(sim_op(node)), (int)node->name.n, node->name.at, n);
  sim_set_group(node, all);
  return true;
}

bool hl_sim_extend(HlCx *cx, HlSimGraph *graph, int64_t processors) {
  HlArena *arena = hl_arena_new();
  SimSubs subs = {0};
  const HlI64s now = hl_sim_processors(arena, graph);
  bool ok = true;
  if (processors < 1 || processors > INT32_MAX)
    ok = hl_error(cx, (HlPos){0}, "there cannot be %lld processors", (long long)processors);
  for (int k = 0; ok && k < now.n; k++)
    if (now.at[k] != k)
      ok = hl_error(cx, (HlPos){0},
                    "processors are to be numbered from 0 on without holes: there is no %d", k);
  if (ok) {
    int64_t *ids = HL_ARRAY(arena, int64_t, processors);
    for (int64_t k = 0; k < processors; k++)
      ids[k] = k;
    sim_list_subs(arena, graph, &subs);
    for (int k = 0; ok && k < subs.n; k++)
      for (int j = 0; ok && j < subs.at[k]->n_nodes; j++)
        ok = extend_one(cx, subs.at[k]->nodes[j], (HlI64s){ids, (int)processors});
  }
  hl_arena_free(arena);
  return ok;
}

// --- Less -----------------------------------------------------------------------------------------------------

static bool costs_nothing(const HlSimSub *sub) {
  HlSimCost sum = {0};
  for (int k = 0; k < sub->n_nodes; k++) {
    const HlSimNode *node = sub->nodes[k];
    if ((node->op != HL_SIM_DELAY && node->op != HL_SIM_NULL) || node->n_subs > 0)
      return false;
    sum.ops += node->cost.ops;
    sum.transcendentals += node->cost.transcendentals;
    sum.bytes_in += node->cost.bytes_in;
    sum.bytes_out += node->cost.bytes_out;
    sum.seconds += node->cost.seconds;
  }
  return sum.ops == 0 && sum.transcendentals == 0 && sum.bytes_in == 0 && sum.bytes_out == 0 &&
         sum.seconds == 0;
}

static bool trim_node(HlCx *cx, HlSimNode *node, HlSimCompat compat) {
  int n = 0;
  if (node->op != HL_SIM_CALL && node->op != HL_SIM_NULL)
    return true;
  for (int k = 0; k < node->n_subs; k++)
    if (!costs_nothing(node->subs[k]))
      node->subs[n++] = node->subs[k];
    else if (n > 0 && compat == HL_SIM_PARAGRAPH)
      return hl_error(
          cx, (HlPos){0}, "subroutine %.*s is not the first of %.*s: ParaGraph cannot take it out",
          (int)node->subs[k]->name.n, node->subs[k]->name.at, (int)node->name.n, node->name.at);
  node->n_subs = n;
  if (node->op == HL_SIM_CALL && n == 0)
    node->op = HL_SIM_DELAY;
  return true;
}

// What is inside a collective is not looked at.
static bool trim_sub(HlCx *cx, HlSimSub *sub, HlSimCompat compat) {
  for (int k = 0; k < sub->n_nodes; k++) {
    HlSimNode *node = sub->nodes[k];
    if (sim_communicates(sim_class(node)))
      continue;
    for (int j = 0; j < node->n_subs; j++)
      if (!trim_sub(cx, node->subs[j], compat))
        return false;
    if (!trim_node(cx, node, compat))
      return false;
  }
  return true;
}

bool hl_sim_trim(HlCx *cx, HlSimGraph *graph, HlSimCompat compat) {
  return trim_sub(cx, graph->entry, compat);
}

// Operands of what stays are reached as well: only nodes go.
void hl_sim_drop_disconnected(HlSimGraph *graph) {
  HlArena *arena = hl_arena_new();
  SimSubs subs = {0};
  SimNodes todo = {0};
  bool *reached = HL_ARRAY(arena, bool, graph->n_serials + 1);
  sim_list_subs(arena, graph, &subs);
  for (int k = 0; k < subs.n; k++) {
    HlSimSub *sub = subs.at[k];
    vec_push_in(arena, &todo, sub->root);
    reached[sub->root->serial] = true;
    while (todo.n > 0) {
      const HlSimNode *node = vec_pop(&todo);
      for (int j = 0; j < node->n_operands; j++)
        if (!reached[node->operands[j]->serial]) {
          reached[node->operands[j]->serial] = true;
          vec_push_in(arena, &todo, node->operands[j]);
        }
    }
    HlSimNode **kept = HL_ARRAY(graph->arena, HlSimNode *, 2 * (int64_t)sub->n_nodes + 1);
    int n = 0;
    for (int j = 0; j < sub->n_nodes; j++)
      if (reached[sub->nodes[j]->serial])
        kept[n++] = sub->nodes[j];
    sub->nodes = kept;
    sub->n_nodes = n;
  }
  hl_arena_free(arena);
}

// --- Costs and tags -------------------------------------------------------------------------------------------

void hl_sim_scale(HlSimSub *sub, double factor) {
  for (int k = 0; k < sub->n_nodes; k++) {
    HlSimNode *node = sub->nodes[k];
    node->cost = (HlSimCost){node->cost.ops * factor, node->cost.bytes_in * factor,
                             node->cost.bytes_out * factor, node->cost.transcendentals * factor,
                             node->cost.seconds * factor};
    for (int j = 0; j < node->n_subs; j++)
      hl_sim_scale(node->subs[j], factor);
  }
}

static bool tag_one(HlCx *cx, HlSimNode *node, int64_t me, Map *counters) {
  const bool send = sim_is_send(sim_op(node));
  if (sim_class(node) != HL_SIM_PROTOCOL)
    return true;
  if (!node->groups || node->groups->n != 1 || node->groups->at[0].n != 1)
    return hl_error(cx, (HlPos){0}, "%s %.*s has no single peer", hl_sim_op_text(sim_op(node)),
                    (int)node->name.n, node->name.at);
  const int64_t peer = node->groups->at[0].at[0];
  if (me < 0 || me >> 32 || peer < 0 || peer >> 32)
    return hl_error(cx, (HlPos){0}, "%s %.*s: processors %lld and %lld: tags need ids below 2^32",
                    hl_sim_op_text(sim_op(node)), (int)node->name.n, node->name.at, (long long)me,
                    (long long)peer);
  const uint64_t from = (uint64_t)(send ? me : peer), to = (uint64_t)(send ? peer : me);
  if (node->op == HL_SIM_SEND_START || node->op == HL_SIM_RECV_START)
    node->tag = ++*map_at(counters, from << 32 | to);
  else if (!node->bonded)
    return hl_error(cx, (HlPos){0}, "%s %.*s has no bonded instruction",
                    hl_sim_op_text(sim_op(node)), (int)node->name.n, node->name.at);
  else
    node->tag = node->bonded->tag;
  return true;
}

bool hl_sim_apply_tags(HlCx *cx, HlSimGraph *graph) {
  HlArena *arena = hl_arena_new();
  Map counters = {0};
  int64_t n = 0;
  HlSimNode **order = hl_sim_post_order(cx, arena, graph, &n);
  bool ok = order != NULL;
  for (int64_t k = 0; ok && k < n; k++)
    ok = tag_one(cx, order[k], graph->processor, &counters);
  map_free(&counters);
  hl_arena_free(arena);
  return ok;
}
