// sim/graph/translate.c: turns the collectives of one processor's graph into messages.
//
// Two passes, as ParaGraph does it: collectives become sends and receives, then these become the halves of a protocol. Each pass
// takes the nodes that are there when it begins; what it writes is not looked at again. A node keeps its opcode and gets a
// subroutine, by which schedulers know that it is done. Ids are given in the order of writing, and so are an interface too.

#include "sim/graph/translate.h"

#include <string.h>

// --- Names ----------------------------------------------------------------------------------------------------

// NAME, words and a number, which names of millions of nodes are made of.
static HlStr put_together(HlSimGraph *graph, HlStr name, const char *words, int64_t number) {
  char digits[20];
  int n_digits = 0;
  const size_t n_words = strlen(words);
  for (uint64_t rest = (uint64_t)number; number >= 0; rest /= 10) {
    digits[n_digits++] = (char)('0' + rest % 10);
    if (rest < 10)
      break;
  }
  char *text = sim_alloc(graph, name.n + n_words + (size_t)n_digits + 1);
  if (name.n > 0)
    memcpy(text, name.at, name.n);
  memcpy(text + name.n, words, n_words);
  for (int k = 0; k < n_digits; k++)
    text[name.n + n_words + (size_t)k] = digits[n_digits - 1 - k];
  return (HlStr){text, name.n + n_words + (size_t)n_digits};
}

// --- Steps ----------------------------------------------------------------------------------------------------

void sim_after(HlSimNode *node, const HlSimNode *before) {
  if (before)
    hl_sim_add_operand(node, (HlSimNode *)before);
}

HlSimNode *sim_step(Coll *c, HlSimOp op, HlStr name, const char *words, int64_t number,
                    const HlSimNode *after) {
  HlSimNode *node =
      sim_new_node(c->sub, op, put_together(c->graph, name, words, number), c->graph->next_id++);
  sim_after(node, after);
  return node;
}

HlSimNode *sim_exchange(Coll *c, const char *words, int64_t number, int64_t from, int64_t to,
                        double bytes, const HlSimNode *after) {
  HlSimNode *node = sim_step(c, HL_SIM_SENDRECV, c->stem, words, number, after);
  sim_set_group(node, (HlI64s){(int64_t[]){from, to}, 2});
  node->cost.bytes_in = node->cost.bytes_out = bytes;
  return node;
}

HlSimNode *sim_one_way(Coll *c, HlSimOp op, const char *words, int64_t number, int64_t peer,
                       double bytes, const HlSimNode *after) {
  HlSimNode *node = sim_step(c, op, c->stem, words, number, after);
  sim_set_group(node, (HlI64s){&peer, 1});
  if ((op == HL_SIM_SEND) == (c->compat == HL_SIM_OWN))
    node->cost.bytes_in = bytes;
  else
    node->cost.bytes_out = bytes;
  return node;
}

HlSimNode *sim_reduction(Coll *c, const char *words, int64_t number, const char *phase, double part,
                         HlSimNode *after) {
  if (!c->reducer)
    return after;
  HlSimNode *call = sim_step(c, HL_SIM_CALL, c->stem, words, number, after);
  const SimCopy how = {.suffix = put_together(c->graph, (HlStr){"", 0}, phase, number),
                       .new_ids = true,
                       .scale = part};
  sim_hang_sub(call, sim_copy_sub(c->graph, call, c->reducer, &how));
  return call;
}

HlSimNode *sim_null_root(Coll *c, HlStr name, const char *words, int64_t number) {
  HlSimNode *root = sim_step(c, HL_SIM_NULL, name, words, number, NULL);
  c->sub->root = root;
  return root;
}

// --- Parts ----------------------------------------------------------------------------------------------------

static bool make(Coll *c) {
  const SimAlgorithm *how = c->rule->how;
  c->stem = sim_join_by(c->graph, c->name, '_', hl_str(how->text));
  c->sub = sim_new_sub(c->graph, c->node, c->stem);
  if (how->options & SIM_POWER && c->group.n & (c->group.n - 1))
    return hl_error(c->cx, (HlPos){0}, "%.*s has %d members: %s takes a power of two",
                    (int)c->name.n, c->name.at, c->group.n, how->text);
  if (how->options & SIM_GRID && !sim_check_grid(c))
    return false;
  if (!how->make(c))
    return false;
  const bool empty = c->sub->n_nodes == 0;
  if (!c->sub->root && (!empty || (c->compat == HL_SIM_PARAGRAPH && how->make != sim_make_nothing)))
    return hl_error(c->cx, (HlPos){0}, "%s makes no end of %.*s, whose group has %d member%s",
                    how->text, (int)c->name.n, c->name.at, c->group.n, c->group.n == 1 ? "" : "s");
  c->node->n_subs = 0;  // the reducer
  c->node->subs = NULL;
  if (!empty)
    sim_hang_sub(c->node, c->sub);
  return true;
}

HlSimNode *sim_part(Coll *c, const SimPart *part, const HlSimNode *after) {
  HlSimNode *node = sim_new_node(c->sub, part->op, part->name, c->graph->next_id++);
  node->cost.bytes_out = part->size;
  sim_set_group(node, part->group);
  sim_after(node, after);
  Coll inner = {.cx = c->cx,
                .graph = c->graph,
                .compat = c->compat,
                .rule = part->rule,
                .node = node,
                .name = part->name,
                .group = part->group,
                .size = part->size};
  inner.me = hl_i64s_find(part->group, c->graph->processor);
  if (c->reducer && part->op != HL_SIM_ALL_GATHER && part->op != HL_SIM_BARRIER)
    inner.reducer = part->share == 1 ? c->reducer
                                     : sim_copy_sub(c->graph, NULL, c->reducer,
                                                    &(SimCopy){.scale = part->share});
  if (inner.me < 0) {
    hl_error(c->cx, (HlPos){0}, "processor %lld is not in the group of %.*s",
             (long long)c->graph->processor, (int)part->name.n, part->name.at);
    return NULL;
  }
  return make(&inner) ? node : NULL;
}

SimRule sim_rule(const Coll *c, HlSimOp op, const char *algorithm, bool barrier) {
  SimRule rule = *c->rule;
  rule.how = sim_find_algorithm(op, hl_str(algorithm), c->compat);
  if (!barrier)
    rule.barrier = NULL;
  return rule;
}

bool sim_barrier(Coll *c, HlStr name, HlSimNode **out) {
  *out = NULL;
  if (!c->rule->barrier)
    return true;
  const SimRule rule = {.how = c->rule->barrier};
  *out = sim_part(c,
                  &(SimPart){.op = HL_SIM_BARRIER,
                             .name = sim_join(c->graph, name, hl_str("_barrier")),
                             .group = c->group,
                             .rule = &rule},
                  NULL);
  return *out != NULL;
}

// --- Nodes ----------------------------------------------------------------------------------------------------

static bool needs_reducer(HlSimOp op) {
  return op == HL_SIM_ALL_REDUCE || op == HL_SIM_REDUCE_SCATTER;
}

static bool check_subs(HlCx *cx, HlSimCompat compat, const HlSimNode *node) {
  const bool wants = needs_reducer(sim_op(node));
  const bool may = wants || node->op == HL_SIM_REDUCE;
  if (node->n_subs == 0 ? !wants || compat == HL_SIM_OWN : may && node->n_subs == 1)
    return true;
  return hl_error(cx, (HlPos){0}, "%s %.*s has %d subroutines: expected %s",
                  hl_sim_op_text(sim_op(node)), (int)node->name.n, node->name.at, node->n_subs,
                  wants ? "one, which reduces" : "none");
}

bool sim_apply(HlCx *cx, HlSimCompat compat, HlSimNode *node, const SimRule *rule) {
  if (!node->groups || node->groups->n != 1)
    return hl_error(cx, (HlPos){0}, "%s %.*s has %d groups: expected one",
                    hl_sim_op_text(sim_op(node)), (int)node->name.n, node->name.at,
                    node->groups ? node->groups->n : 0);
  if (!check_subs(cx, compat, node))
    return false;
  HlSimGraph *graph = node->sub->graph;
  Coll c = {.cx = cx,
            .graph = graph,
            .compat = compat,
            .rule = rule,
            .node = node,
            .name = node->name,
            .group = node->groups->at[0],
            .size = node->cost.bytes_out};
  c.me = hl_i64s_find(c.group, graph->processor);
  c.reducer = node->n_subs > 0 ? node->subs[0] : NULL;
  if (sim_class(node) == HL_SIM_COLLECTIVE && c.me < 0)
    return hl_error(cx, (HlPos){0}, "processor %lld is not in the group of %.*s",
                    (long long)graph->processor, (int)node->name.n, node->name.at);
  return make(&c);
}

// The nodes that a pass translates, in the order of subroutines.
static SimNodes collect(HlArena *arena, const HlSimGraph *graph, const HlSimTranslation *t,
                        bool collectives) {
  SimSubs subs = {0};
  SimNodes out = {0};
  sim_list_subs(arena, graph, &subs);
  for (int k = 0; k < subs.n; k++)
    for (int j = 0; j < subs.at[k]->n_nodes; j++) {
      HlSimNode *node = subs.at[k]->nodes[j];
      if (t->rule[node->op].how && (sim_class(node) == HL_SIM_COLLECTIVE) == collectives)
        vec_push_in(arena, &out, node);
    }
  return out;
}

static bool run_pass(HlCx *cx, HlSimGraph *graph, const HlSimTranslation *t, bool collectives) {
  HlArena *arena = hl_arena_new();
  const SimNodes nodes = collect(arena, graph, t, collectives);
  bool ok = true;
  for (int k = 0; ok && k < nodes.n; k++)
    ok = sim_apply(cx, t->compat, nodes.at[k], &t->rule[nodes.at[k]->op]);
  hl_arena_free(arena);
  return ok;
}

bool hl_sim_translate(HlCx *cx, HlSimGraph *graph, const HlSimTranslation *t) {
  return run_pass(cx, graph, t, true) && run_pass(cx, graph, t, false) &&
         hl_sim_apply_tags(cx, graph) && sim_validate_kind(cx, graph, false, true);
}
