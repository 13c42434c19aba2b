// rewrite/egraph/exact.c: the cheapest program of a region, by branch and bound.
//
// The search decides one class after the other, those that the program needs and that are not decided yet, the dearest first. A
// class with one node is no decision. What is decided costs its nodes; what is needed and not decided costs at least the cheapest
// node of its class: where that is not less than the best program found so far, this way is left.

#include <math.h>

#include "rewrite/egraph/egraph.h"

enum { MOST_STEPS = 200000, MOST_CLASSES = 300 };

typedef struct Search {
  const HlEgraph *eg;
  HlArena *arena;
  const double *price;
  uint32_t region;
  double *least;   // by class: its cheapest node
  uint32_t *node;  // by class: decided
  uint32_t *best;
  double best_price;
  VEC(uint32_t) open;  // needed, not decided; a stack of which each step restores what it took
  uint8_t *needed;
  int64_t steps;
} Search;

typedef struct Level {
  uint32_t class, next;  // what is decided here, and the node to be tried next; NONE: no more
  int place, n_open;     // where it stood; how many were open after it was taken out
  double bound;          // with the least of what is decided here
  VEC(uint32_t) woken;   // classes that became needed by the node that is tried
} Level;

static void wake(Search *s, Level *level, uint32_t class, double *bound) {
  class = eg_find(s->eg, class);
  if (s->needed[class])
    return;
  s->needed[class] = 1;
  *bound += s->least[class];
  vec_push_in(s->arena, &s->open, class);
  vec_push_in(s->arena, &level->woken, class);
}

static void sleep_again(Search *s, Level *level) {
  for (int k = 0; k < level->woken.n; k++)
    s->needed[level->woken.at[k]] = 0;
  level->woken.n = 0;
  s->open.n = level->n_open;
}

// Opens a level for the dearest class that is open.
static void take(Search *s, Level *level, double bound) {
  int at = 0;
  for (int k = 1; k < s->open.n; k++)
    if (s->least[s->open.at[k]] > s->least[s->open.at[at]])
      at = k;
  const uint32_t class = s->open.at[at];
  s->open.at[at] = vec_last(&s->open);
  s->open.n--;
  level->class = class;
  level->next = s->eg->classes.at[class].first;
  level->place = at;
  level->n_open = s->open.n;
  level->bound = bound;
  level->woken.n = 0;
}

static void put_back(Search *s, const Level *level) {
  vec_push_in(s->arena, &s->open, 0);
  vec_last(&s->open) = s->open.at[level->place];
  s->open.at[level->place] = level->class;
}

static void note(Search *s, double price) {
  uint32_t *order;
  int n;
  const HlMark mark = hl_arena_mark(s->arena);
  if (eg_order(s->eg, s->arena, s->node, s->region, &order, &n)) {
    s->best_price = price;
    for (int k = 0; k < n; k++)
      s->best[order[k]] = s->node[order[k]];
  }
  hl_arena_release(s->arena, mark);
}

static void search(Search *s, Level *levels, int most) {
  int depth = 0;
  double bound = 0;
  for (int k = 0; k < s->open.n; k++)
    bound += s->least[s->open.at[k]];
  take(s, &levels[depth++], bound);
  while (depth > 0 && s->steps < MOST_STEPS) {
    Level *level = &levels[depth - 1];
    sleep_again(s, level);
    const uint32_t id = level->next;
    if (id == NONE) {
      s->node[level->class] = NONE;
      put_back(s, level);
      depth--;
      continue;
    }
    const Node *node = &s->eg->nodes.at[id];
    level->next = node->next;
    s->steps++;
    s->node[level->class] = id;
    double below = level->bound - s->least[level->class] + s->price[id];
    for (uint32_t k = 0; k < node->n; k++)
      wake(s, level, eg_operands(s->eg, node)[k], &below);
    if (below >= s->best_price * (1 - 1e-12))
      continue;
    if (s->open.n == 0)
      note(s, below);
    else if (depth < most)
      take(s, &levels[depth++], below);
  }
}

bool eg_exact(const HlEgraph *eg, HlArena *arena, const double *price, uint32_t region,
              uint32_t *node) {
  HlArena *own = hl_arena_new();
  Search s = {.eg = eg, .arena = own, .price = price, .region = region, .best = node};
  int n = 0;
  s.best_price = eg_price_of(eg, arena, price, node, region);
  s.least = HL_ARRAY(own, double, eg->classes.n + 1);
  s.needed = HL_ARRAY(own, uint8_t, eg->classes.n + 1);
  s.node = HL_ARRAY(own, uint32_t, eg->classes.n + 1);
  for (int k = 0; k < eg->classes.n; k++) {
    s.node[k] = NONE;
    if (eg->classes.at[k].region != region || eg->parent.at[k] != (uint32_t)k)
      continue;
    n++;
    s.least[k] = INFINITY;
    for (uint32_t c = eg->classes.at[k].first; c != NONE; c = eg->nodes.at[c].next)
      s.least[k] = fmin(s.least[k], price[c]);
  }
  bool done = n <= MOST_CLASSES;
  if (done) {
    Level *levels = HL_ARRAY(own, Level, n + 2), *start = &levels[n + 1];
    const Region *r = &eg->regions.at[region];
    double bound = 0;
    wake(&s, start, r->root, &bound);
    for (int k = 0; k < r->anchors.n; k++)
      wake(&s, start, r->anchors.at[k], &bound);
    search(&s, levels, n + 1);
    done = s.steps < MOST_STEPS;
  }
  hl_arena_free(own);
  return done;
}
