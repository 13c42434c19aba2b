// rewrite/egraph/several.c: nodes that share an operand, for rules of several roots.
//
//   dot(x, a), dot(b, x), dot(x, c)   =>   dot(x, a) dot(x, c) NONE     x on the left
//
// Only classes count that an instruction of the module is of: what such rules make shares operands again, without end.

#include <stdlib.h>

#include "rewrite/egraph/egraph.h"

typedef struct Shared {
  uint32_t region, operand, side;
  uint32_t class, node;
  bool is_new;
} Shared;

typedef VEC(Shared) SharedVec;

static int compare(uint32_t a, uint32_t b) {
  return a < b ? -1 : a > b;
}

static int same_operand(const Shared *x, const Shared *y) {
  const int by_region = compare(x->region, y->region), by_operand = compare(x->operand, y->operand);
  return by_region ? by_region : by_operand ? by_operand : compare(x->side, y->side);
}

static int by_operand(const void *a, const void *b) {
  const Shared *x = a, *y = b;
  const int order = same_operand(x, y), by_class = compare(x->class, y->class);
  return order ? order : by_class ? by_class : compare(x->node, y->node);
}

static bool is_of_module(const HlEgraph *eg, uint32_t class) {
  for (uint32_t k = eg_class(eg, class)->first; k != NONE; k = eg->nodes.at[k].next)
    if (map_get_ptr(&eg->origin_of_node, (const void *)(uintptr_t)k))
      return true;
  return false;
}

static void add_node(const HlEgraph *eg, HlArena *arena, uint32_t id, uint32_t since,
                     SharedVec *out) {
  const Node *node = &eg->nodes.at[id];
  const uint32_t class = eg_find(eg, node->class);
  if (node->n != 2 || eg_symbol(eg, node)->pinned || !eg->regions.at[node->region].is_live ||
      !is_of_module(eg, class))
    return;
  for (uint32_t side = 0; side < 2; side++)
    vec_push_in(arena, out,
                ((Shared){node->region, eg_find(eg, eg_operands(eg, node)[side]), side, class, id,
                          node->born >= since}));
}

// Of each class the first; nothing where there is one class only, or nothing new.
static void add_list(HlArena *arena, const Shared *from, int n, NodeVec *out) {
  const int start = out->n;
  bool any = false;
  for (int k = 0; k < n; k++) {
    any = any || from[k].is_new;
    if (k == 0 || from[k].class != from[k - 1].class)
      vec_push_in(arena, out, from[k].node);
  }
  if (any && out->n - start > 1)
    vec_push_in(arena, out, NONE);
  else
    out->n = start;
}

NodeVec eg_sharing(const HlEgraph *eg, HlArena *arena, HlOp op, uint32_t since) {
  SharedVec all = {0};
  NodeVec lists = {0};
  for (int k = 0; k < eg->nodes.n; k++)
    if (!eg->nodes.at[k].dead && eg_op(eg, &eg->nodes.at[k]) == op)
      add_node(eg, arena, (uint32_t)k, since, &all);
  if (all.n > 0)
    qsort(all.at, (size_t)all.n, sizeof *all.at, by_operand);
  for (int from = 0, to; from < all.n; from = to) {
    for (to = from + 1; to < all.n && same_operand(&all.at[from], &all.at[to]) == 0;)
      to++;
    add_list(arena, all.at + from, to - from, &lists);
  }
  return lists;
}
