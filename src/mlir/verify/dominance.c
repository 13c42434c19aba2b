// Verifies MLIR trees: which blocks of a region dominate which.
#include "mlir/verify/verify.h"

#include <stdlib.h>

// The blocks of a region by their places in it; `at` sorted by address.
typedef struct Place {
  const HlMlBlock *block;
  int number;
} Place;

typedef struct Graph {
  int n;
  const HlMlBlock **block;
  Place *place;
  int *order;  // reachable blocks in reverse postorder; n_order of them
  int n_order;
  int *position;  // in `order`; -1: not reachable
  int *idom;      // by block; -1: none
} Graph;

static int compare_places(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const Place *)a)->block,
                  y = (uintptr_t)((const Place *)b)->block;
  return (x > y) - (x < y);
}

static int number_of(const Graph *g, const HlMlBlock *block) {
  const Place key = {.block = block};
  const Place *found = bsearch(&key, g->place, (size_t)g->n, sizeof key, compare_places);
  return found ? found->number : -1;
}

static int n_successors(const Graph *g, int block) {
  return g->block[block]->last ? g->block[block]->last->n_successors : 0;
}

static int successor(const Graph *g, int block, int k) {
  return number_of(g, g->block[block]->last->successors[k]);
}

static Graph graph_of(HlArena *arena, const HlMlRegion *region) {
  Graph g = {0};
  for (const HlMlBlock *block = region->first; block; block = block->next)
    g.n++;
  g.block = HL_ARRAY(arena, const HlMlBlock *, g.n);
  g.place = HL_ARRAY(arena, Place, g.n);
  g.order = HL_ARRAY(arena, int, g.n);
  g.position = HL_ARRAY(arena, int, g.n);
  g.idom = HL_ARRAY(arena, int, g.n);
  int k = 0;
  for (const HlMlBlock *block = region->first; block; block = block->next, k++) {
    g.block[k] = block;
    g.place[k] = (Place){block, k};
    g.position[k] = g.idom[k] = -1;
  }
  qsort(g.place, (size_t)g.n, sizeof *g.place, compare_places);
  return g;
}

// Depth first from the entry, with a stack of its own.
static void find_order(HlArena *arena, Graph *g) {
  int *stack = HL_ARRAY(arena, int, g->n), *next = HL_ARRAY(arena, int, g->n), depth = 0;
  bool *is_seen = HL_ARRAY(arena, bool, g->n);
  int at = g->n;
  stack[depth++] = 0;
  is_seen[0] = true;
  while (depth > 0) {
    const int block = stack[depth - 1];
    if (next[block] < n_successors(g, block)) {
      const int to = successor(g, block, next[block]++);
      if (to >= 0 && !is_seen[to]) {
        is_seen[to] = true;
        stack[depth++] = to;
      }
      continue;
    }
    g->order[--at] = block;
    depth--;
  }
  g->n_order = g->n - at;
  for (int k = 0; k < g->n_order; k++) {
    g->order[k] = g->order[at + k];
    g->position[g->order[k]] = k;
  }
}

static int common_dominator(const Graph *g, int a, int b) {
  while (a != b) {
    while (g->position[a] > g->position[b])
      a = g->idom[a];
    while (g->position[b] > g->position[a])
      b = g->idom[b];
  }
  return a;
}

// Cooper, Harvey and Kennedy: what dominates a block dominates all that lead to it.
static void find_dominators(Graph *g) {
  bool changes = true;
  g->idom[0] = 0;
  while (changes) {
    changes = false;
    for (int k = 0; k < g->n_order; k++) {
      const int from = g->order[k];
      if (g->idom[from] < 0)
        continue;
      for (int s = 0; s < n_successors(g, from); s++) {
        const int to = successor(g, from, s);
        if (to <= 0)
          continue;
        const int idom = g->idom[to] < 0 ? from : common_dominator(g, g->idom[to], from);
        changes |= idom != g->idom[to];
        g->idom[to] = idom;
      }
    }
  }
}

const MlDominance *mv_dominance(HlArena *arena, const HlMlRegion *region, int *n) {
  Graph g = graph_of(arena, region);
  find_order(arena, &g);
  find_dominators(&g);
  // Children of the dominator tree as lists, then the tree in preorder.
  int *child = HL_ARRAY(arena, int, g.n), *sibling = HL_ARRAY(arena, int, g.n),
      *depth = HL_ARRAY(arena, int, g.n);
  int *stack = HL_ARRAY(arena, int, g.n), n_stack = 0;
  MlDominance *out = HL_ARRAY(arena, MlDominance, g.n);
  *n = 0;
  for (int k = 0; k < g.n; k++)
    child[k] = sibling[k] = -1;
  for (int k = g.n_order - 1; k > 0; k--) {
    const int block = g.order[k];
    sibling[block] = child[g.idom[block]];
    child[g.idom[block]] = block;
  }
  stack[n_stack++] = 0;
  while (n_stack > 0) {
    const int block = stack[--n_stack];
    out[(*n)++] = (MlDominance){g.block[block], depth[block], true};
    for (int to = child[block]; to >= 0; to = sibling[to]) {
      depth[to] = depth[block] + 1;
      stack[n_stack++] = to;
    }
  }
  for (int k = 0; k < g.n; k++)
    if (g.position[k] < 0)
      out[(*n)++] = (MlDominance){g.block[k], 0, false};
  return out;
}
