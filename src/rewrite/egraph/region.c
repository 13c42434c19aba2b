// rewrite/egraph/region.c: laws of what runs other regions.
//
// A loop's body is a region whose classes are at hand, so a law can ask what the body leaves alone: where the element k of its result is
// the class of element k of its parameter - as found by whatever rules have run in the body - the loop's element k is that of its first
// state. A call, and a conditional whose choice is a constant, are what the computation is on their operands: its cheapest program is
// copied into the caller's region.

#include "rewrite/egraph/egraph.h"

enum { MOST_COPIED = 400 };

const HlRule eg_region_laws[EG_REGION_LAWS] = {
    {HL_OP_GET_TUPLE_ELEMENT, NULL, "loop-invariant", "while(init)#k => init#k",
     "the body hands element k on as it is"},
    {HL_OP_CALL, NULL, "call", "call(x, f) => f(x)", "f is pure and not large"},
    {HL_OP_CONDITIONAL, NULL, "known-branch", "conditional(c, x, f, y, g) => f(x)",
     "c is constant, f is pure and not large"},
};

// --- Copying a region ------------------------------------------------------------------------------------

// Its root over other classes as parameters; NONE: it holds something that stays where it is, or is large.
static uint32_t copy_region(HlEgraph *eg, uint32_t from, uint32_t to, uint32_t n,
                            const uint32_t *args) {
  const Region region = eg->regions.at[from];
  if (region.root == NONE || region.anchors.n > 0 || region.n_params != n)
    return NONE;
  HlArena *arena = hl_arena_new();
  uint32_t *node = HL_ARRAY(arena, uint32_t, eg->classes.n), *order, result = NONE;
  const int n_classes = eg->classes.n;
  for (int k = 0; k < n_classes; k++)
    node[k] = eg->classes.at[k].best != NONE ? eg->classes.at[k].best : eg->classes.at[k].first;
  int n_order;
  if (eg_order(eg, arena, node, from, &order, &n_order) && n_order <= MOST_COPIED) {
    uint32_t *made = HL_ARRAY(arena, uint32_t, n_classes);
    bool ok = true;
    for (int k = 0; k < n_classes; k++)
      made[k] = NONE;
    for (uint32_t k = 0; k < n; k++)
      if (region.param[k] != NONE)
        made[eg_find(eg, region.param[k])] = args[k];
    for (int k = 0; ok && k < n_order; k++) {
      const Node chosen = eg->nodes.at[node[order[k]]];
      if (made[order[k]] != NONE)
        continue;
      ok = !eg_symbol(eg, &chosen)->pinned;
      uint32_t *operands = HL_ARRAY(arena, uint32_t, chosen.n + chosen.n_regions + 1);
      for (uint32_t i = 0; ok && i < chosen.n; i++)
        operands[i] = made[eg_find(eg, eg_operands(eg, &chosen)[i])];
      for (uint32_t i = 0; i < chosen.n_regions; i++)
        operands[chosen.n + i] = eg_regions_of(eg, &chosen)[i];
      if (ok)
        made[order[k]] = eg_add(eg, to, chosen.symbol, (int)chosen.n, operands,
                                (int)chosen.n_regions, operands + chosen.n);
    }
    result = ok ? made[eg_find(eg, region.root)] : NONE;
  }
  hl_arena_free(arena);
  return result;
}

// --- Laws -------------------------------------------------------------------------------------------------

static void note(HlEgraph *eg, uint32_t class, uint32_t by, int64_t before,
                 HlEgraphRuleCount *count) {
  if (by == NONE)
    return;
  count->found++;
  eg_merge(eg, class, by);
  count->news += eg->n_news > before;
}

// A get-tuple-element of number k of the class, if the class has one: its class.
static uint32_t element_of(const HlEgraph *eg, uint32_t class, int64_t k) {
  for (uint32_t u = eg->uses.at[eg_find(eg, class)].first; u != NONE; u = eg->users.at[u].next) {
    const Node *user = &eg->nodes.at[eg->users.at[u].node];
    if (!user->dead && eg_op(eg, user) == HL_OP_GET_TUPLE_ELEMENT &&
        hl_attr_int(eg_symbol(eg, user)->proto, HL_A_INDEX) == k &&
        eg_find(eg, eg_operands(eg, user)[0]) == eg_find(eg, class))
      return eg_find(eg, user->class);
  }
  return NONE;
}

// Whether the body's result at k is its parameter's.
static bool hands_on(const HlEgraph *eg, const Node *loop, int64_t k) {
  const Region *body = &eg->regions.at[eg_regions_of(eg, loop)[0]];
  if (body->n_params != 1 || body->root == NONE || body->param[0] == NONE)
    return false;
  if (eg_find(eg, body->root) == eg_find(eg, body->param[0]))
    return true;
  const uint32_t element = element_of(eg, body->param[0], k);
  for (uint32_t c = eg_class(eg, body->root)->first; element != NONE && c != NONE;
       c = eg->nodes.at[c].next) {
    const Node *root = &eg->nodes.at[c];
    if (!root->dead && eg_op(eg, root) == HL_OP_TUPLE && k < root->n &&
        eg_find(eg, eg_operands(eg, root)[k]) == element)
      return true;
  }
  return false;
}

static void try_element(HlEgraph *eg, uint32_t id, HlEgraphRuleCount *count) {
  const Node node = eg->nodes.at[id];
  const int64_t k = hl_attr_int(eg_symbol(eg, &node)->proto, HL_A_INDEX);
  for (uint32_t c = eg_class(eg, eg_operands(eg, &node)[0])->first; c != NONE;
       c = eg->nodes.at[c].next) {
    const Node loop = eg->nodes.at[c];
    if (loop.dead || loop.n_regions != 2 || eg_op(eg, &loop) != HL_OP_WHILE ||
        !hands_on(eg, &loop, k))
      continue;
    const int64_t before = eg->n_news;
    const uint32_t init = eg_operands(eg, &loop)[0];
    note(eg, node.class, eg_add(eg, node.region, node.symbol, 1, &init, 0, NULL), before, count);
  }
}

static void try_call(HlEgraph *eg, uint32_t id, HlEgraphRuleCount *count) {
  const Node node = eg->nodes.at[id];
  const int64_t before = eg->n_news;
  HlArena *arena = hl_cx_scratch(eg->cx);
  const HlMark mark = hl_arena_mark(arena);
  uint32_t *args = HL_ARRAY(arena, uint32_t, node.n + 1);
  for (uint32_t k = 0; k < node.n; k++)
    args[k] = eg_operands(eg, &node)[k];
  if (node.n_regions == 1)
    note(eg, node.class, copy_region(eg, eg_regions_of(eg, &node)[0], node.region, node.n, args),
         before, count);
  hl_arena_release(arena, mark);
}

static void try_conditional(HlEgraph *eg, uint32_t id, HlEgraphRuleCount *count) {
  const Node node = eg->nodes.at[id];
  const uint32_t known = eg_class(eg, eg_operands(eg, &node)[0])->constant;
  if (known == NONE || node.n_regions + 1 != node.n)
    return;
  const HlLiteral *value = hl_constant(eg_symbol(eg, &eg->nodes.at[known])->proto);
  int64_t branch = hl_literal_i64(value, 0);
  if (value->shape->dtype == HL_PRED)
    branch = branch ? 0 : 1;
  else if (branch < 0 || branch >= node.n_regions)
    branch = (int64_t)node.n_regions - 1;
  const int64_t before = eg->n_news;
  const uint32_t arg = eg_operands(eg, &node)[branch + 1];
  note(eg, node.class, copy_region(eg, eg_regions_of(eg, &node)[branch], node.region, 1, &arg),
       before, count);
}

void eg_try_region_laws(HlEgraph *eg, HlEgraphRuleCount *count) {
  static void (*const laws[EG_REGION_LAWS])(HlEgraph *, uint32_t, HlEgraphRuleCount *) = {
      try_element, try_call, try_conditional};
  const int n = eg->nodes.n;
  for (int k = 0; k < n; k++) {
    const Node *node = &eg->nodes.at[k];
    if (node->dead || eg_symbol(eg, node)->pinned || !eg->regions.at[node->region].is_live)
      continue;
    for (int law = 0; law < EG_REGION_LAWS; law++)
      if (eg_op(eg, node) == (HlOp)eg_region_laws[law].op) {
        laws[law](eg, (uint32_t)k, &count[law]);
        break;
      }
  }
  eg_rebuild(eg);
}
