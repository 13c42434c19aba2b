// sim/graph/validate.c: ParaGraph's rules for graphs: those of all, of composite ones, and of those of one processor.
//
// Every broken rule is reported. `bytes_out` may not be negative either, which ParaGraph means to ask and does not.

#include <math.h>

#include "base/compiler.h"
#include "sim/graph/graph.h"

// Ids that are given one after the other are marked in a table, others in a map.
typedef struct Ids {
  uint8_t *table;
  int64_t n;
  Map map;
  bool twice;  // one was met again
} Ids;

typedef struct Check {
  HlCx *cx;
  const HlSimGraph *graph;
  bool composite;
  int64_t errors;
  Ids ids;
} Check;

static void HL_PRINTF(3, 4) wrong(Check *c, const HlSimNode *node, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_error(c->cx, (HlPos){0}, "instruction %.*s (%lld): %s", (int)node->name.n, node->name.at,
           (long long)node->id, text.at);
  hl_buf_free(&text);
  c->errors++;
}

static void HL_PRINTF(3, 4) wrong_sub(Check *c, const HlSimSub *sub, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_error(c->cx, (HlPos){0}, "subroutine %.*s: %s", (int)sub->name.n, sub->name.at, text.at);
  hl_buf_free(&text);
  c->errors++;
}

static void HL_RARE tell_cost(Check *c, const HlSimNode *node) {
  const struct {
    const char *name;
    double value;
  } costs[] = {{"ops", node->cost.ops},
               {"transcendentals", node->cost.transcendentals},
               {"bytes_in", node->cost.bytes_in},
               {"bytes_out", node->cost.bytes_out},
               {"seconds", node->cost.seconds}};
  for (int k = 0; k < HL_COUNT_OF(costs); k++)
    if (!(costs[k].value >= 0))
      wrong(c, node, "%s is %g, and may not be negative", costs[k].name, costs[k].value);
}

static inline void check_cost(Check *c, const HlSimNode *node) {
  const HlSimCost *k = &node->cost;
  const bool good = k->ops >= 0 && k->transcendentals >= 0 && k->bytes_in >= 0 &&
                    k->bytes_out >= 0 && k->seconds >= 0;
  if (HL_UNLIKELY(!good))
    tell_cost(c, node);
}

static void check_n_subs(Check *c, const HlSimNode *node) {
  const int n = node->n_subs;
  switch (sim_op(node)) {
  case HL_SIM_WHILE:
    if (n != 2)
      wrong(c, node, "a while has two subroutines, body and condition, not %d", n);
    return;
  case HL_SIM_CONDITIONAL:
    if (n < 2)
      wrong(c, node, "a conditional has at least two subroutines, not %d", n);
    return;
  case HL_SIM_CALL:
    if (n < 1)
      wrong(c, node, "a call has at least one subroutine");
    return;
  case HL_SIM_DELAY:
    if (n > 0)
      wrong(c, node, "a delay has no subroutine, not %d", n);
    return;
  default:
    if (n > 1)
      wrong(c, node, "%s has at most one subroutine, not %d", hl_sim_op_text(sim_op(node)), n);
  }
}

static void check_groups_composite(Check *c, const HlSimNode *node) {
  const HlSimClass kind = sim_class(node);
  const int size = node->op == HL_SIM_SENDRECV ? 3 : 2;
  if (kind != HL_SIM_INDIVIDUAL && kind != HL_SIM_PROTOCOL)
    return;
  for (int k = 0; node->groups && k < node->groups->n; k++)
    if (node->groups->at[k].n != size)
      wrong(c, node, "each group of %s has %d processors, not %d", hl_sim_op_text(sim_op(node)),
            size, node->groups->at[k].n);
}

// The rules of ParaGraph ask that a processor is no peer of itself.
static void check_group_of_one(Check *c, const HlSimNode *node) {
  const HlSimClass kind = sim_class(node);
  const int n = node->groups ? node->groups->n : 0;
  if (!sim_communicates(kind))
    return;
  if (n != 1) {
    wrong(c, node, "in the graph of one processor it has one group, not %d", n);
    return;
  }
  const HlI64s group = node->groups->at[0];
  const bool mine = hl_i64s_find(group, c->graph->processor) >= 0;
  const int size = node->op == HL_SIM_SENDRECV ? 2 : 1;
  if (kind == HL_SIM_COLLECTIVE && !mine)
    wrong(c, node, "its group is without processor %lld", (long long)c->graph->processor);
  if (kind != HL_SIM_COLLECTIVE && mine)
    wrong(c, node, "processor %lld is its own peer", (long long)c->graph->processor);
  if (kind != HL_SIM_COLLECTIVE && group.n != size)
    wrong(c, node, "it has %d peer%s, not %d", size, size == 1 ? "" : "s", group.n);
}

static void check_probabilities(Check *c, const HlSimNode *node) {
  double sum = 0;
  for (int k = 0; k < node->n_subs; k++)
    sum += node->subs[k]->probability;
  if (node->op == HL_SIM_CONDITIONAL && !(fabs(sum - 1) < 1e-6))
    wrong(c, node, "the probabilities of its branches sum up to %g, not to 1", sum);
}

static void check_node(Check *c, const HlSimNode *node) {
  check_cost(c, node);
  check_n_subs(c, node);
  if (node->id == -1)
    wrong(c, node, "it has no id");
  if (c->composite) {
    check_groups_composite(c, node);
    check_probabilities(c, node);
  } else {
    check_group_of_one(c, node);
    if (sim_class(node) == HL_SIM_PROTOCOL && !node->bonded)
      wrong(c, node, "a %s has a bonded instruction", hl_sim_op_text(sim_op(node)));
  }
}

static bool mark(uint8_t *at) {
  const bool before = *at != 0;
  *at = 1;
  return before;
}

static bool seen_before(Ids *ids, int64_t id) {
  if (id >= 0 && id < ids->n)
    return mark(&ids->table[id]);
  uint64_t *at = map_at(&ids->map, (uint64_t)id);
  const bool before = *at != 0;
  *at = 1;
  return before;
}

static void new_ids(Check *c, HlArena *arena) {
  map_free(&c->ids.map);
  c->ids = (Ids){.table = HL_ARRAY(arena, uint8_t, c->graph->n_serials + 2),
                 .n = (int64_t)c->graph->n_serials + 2};
}

// Inner subroutines before the one that they are in: as deep as the graph is nested, which whoever makes one bounds.
static void check_sub(Check *c, const HlSimSub *sub) {
  for (int k = 0; k < sub->n_nodes; k++)
    for (int j = 0; j < sub->nodes[k]->n_subs; j++)
      check_sub(c, sub->nodes[k]->subs[j]);
  const bool branch = sub->caller && sub->caller->op == HL_SIM_CONDITIONAL;
  const bool loop = sub->caller && sub->caller->op == HL_SIM_WHILE;
  if (!sub->root) {
    wrong_sub(c, sub, "it has no root");
    return;
  }
  for (int k = 0; k < sub->n_nodes; k++) {
    const HlSimNode *node = sub->nodes[k];
    for (int j = 0; j < node->n_operands; j++)
      if (HL_UNLIKELY(node->operands[j] == sub->root))
        wrong_sub(c, sub, "its root %.*s has a user, %.*s", (int)sub->root->name.n,
                  sub->root->name.at, (int)node->name.n, node->name.at);
    check_node(c, node);
    c->ids.twice = seen_before(&c->ids, node->id) || c->ids.twice;
  }
  if (!branch && sub->probability != 1)
    wrong_sub(c, sub, "its execution probability is %g, not 1", sub->probability);
  if (!loop && sub->count != 1)
    wrong_sub(c, sub, "its execution count is %lld, not 1", (long long)sub->count);
  if (loop && sub->count < 1)
    wrong_sub(c, sub, "its execution count is %lld: a loop runs at least once",
              (long long)sub->count);
}

// Which ids are there twice.
static void tell_ids(Check *c, HlArena *arena) {
  SimSubs subs = {0};
  new_ids(c, arena);
  sim_list_subs(arena, c->graph, &subs);
  for (int k = 0; k < subs.n; k++)
    for (int j = 0; j < subs.at[k]->n_nodes; j++)
      if (seen_before(&c->ids, subs.at[k]->nodes[j]->id))
        wrong(c, subs.at[k]->nodes[j], "its id is not unique");
}

// What ParaGraph finds when it walks a graph, and ends at.
static void check_order(Check *c, HlArena *arena) {
  uint8_t *state = HL_ARRAY(arena, uint8_t, c->graph->n_serials + 1);
  SimNodes out = {0};
  c->errors += !sim_walk_post_order(c->cx, arena, c->graph->entry, true, state, &out);
}

bool sim_validate_kind(HlCx *cx, const HlSimGraph *graph, bool composite, bool walked) {
  Check c = {.cx = cx, .graph = graph, .composite = composite};
  if (!graph->entry)
    return hl_error(cx, (HlPos){0}, "the graph has no entry subroutine");
  if (!composite && graph->processor < 0)
    return hl_error(cx, (HlPos){0}, "the graph of one processor has an id of 0 or more, not %lld",
                    (long long)graph->processor);
  HlArena *arena = hl_arena_new();
  new_ids(&c, arena);
  check_sub(&c, graph->entry);
  if (c.ids.twice)
    tell_ids(&c, arena);
  map_free(&c.ids.map);
  if (c.errors == 0 && !walked)
    check_order(&c, arena);
  hl_arena_free(arena);
  return c.errors == 0;
}

bool hl_sim_validate(HlCx *cx, const HlSimGraph *graph) {
  return sim_validate_kind(cx, graph, graph->processor < 0, false);
}
