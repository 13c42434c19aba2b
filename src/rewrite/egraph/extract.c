// rewrite/egraph/extract.c: one node of each class: the program that is taken out.
//
// What is used twice is paid once, so the best program is not made of the best trees; finding it is NP-hard. Three ways, each from the
// other's result where that helps, and branch and bound (exact.c) for what is small. Regions are chosen one after the other, those that
// others run first, so that a loop's price is that of its body as chosen.

#include <math.h>
#include <string.h>

#include "rewrite/egraph/egraph.h"
#include "rewrite/egraph/rules.h"

const char *hl_egraph_way_name(HlEgraphWay extract) {
  static const char *const names[] = {"all", "greedy", "shared", "local", "exact", "random"};
  return names[extract];
}

// --- What a program is ----------------------------------------------------------------------------------

enum { NOT_MET, OPEN, DONE };

bool eg_order(const HlEgraph *eg, HlArena *arena, const uint32_t *node, uint32_t region,
              uint32_t **order, int *n) {
  const Region *r = &eg->regions.at[region];
  uint8_t *state = HL_ARRAY(arena, uint8_t, eg->classes.n + 1);
  VEC(uint32_t) todo = {0}, done = {0};
  bool ok = r->root != NONE;
  for (int k = r->anchors.n; ok && k > 0; k--)
    vec_push_in(arena, &todo, eg_find(eg, r->anchors.at[k - 1]));
  if (ok)
    vec_push_in(arena, &todo, eg_find(eg, r->root));
  while (ok && todo.n > 0) {
    const uint32_t class = vec_last(&todo);
    if (state[class] != NOT_MET) {
      todo.n--;
      if (state[class] == OPEN)
        vec_push_in(arena, &done, class);
      state[class] = DONE;
      continue;
    }
    state[class] = OPEN;
    ok = node[class] != NONE;
    const Node *chosen = ok ? &eg->nodes.at[node[class]] : NULL;
    for (uint32_t k = chosen ? chosen->n : 0; ok && k > 0; k--) {
      const uint32_t below = eg_find(eg, eg_operands(eg, chosen)[k - 1]);
      ok = state[below] != OPEN;
      if (state[below] == NOT_MET)
        vec_push_in(arena, &todo, below);
    }
  }
  *order = done.at;
  *n = done.n;
  return ok;
}

double eg_price_of(const HlEgraph *eg, HlArena *arena, const double *price, const uint32_t *node,
                   uint32_t region) {
  const HlMark mark = hl_arena_mark(arena);
  uint32_t *order;
  int n;
  double sum = eg_order(eg, arena, node, region, &order, &n) ? 0 : INFINITY;
  for (int k = 0; sum < INFINITY && k < n; k++)
    sum += price[node[order[k]]];
  hl_arena_release(arena, mark);
  return sum;
}

static uint32_t *copy_of(const HlEgraph *eg, HlArena *arena, const uint32_t *node) {
  return hl_arena_copy(arena, node, sizeof *node * (size_t)eg->classes.n);
}

// The nodes of one region in a choice become those of another.
static void take_over(const HlEgraph *eg, uint32_t region, uint32_t *to, const uint32_t *from) {
  for (int k = 0; k < eg->classes.n; k++)
    if (eg->classes.at[k].region == region)
      to[k] = from[k];
}

static void choose_trees(const HlEgraph *eg, uint32_t region, uint32_t *node) {
  for (int k = 0; k < eg->classes.n; k++)
    if (eg->classes.at[k].region == region && eg->parent.at[k] == (uint32_t)k)
      node[k] = eg->classes.at[k].best;
}

// --- Greedy -----------------------------------------------------------------------------------------------

enum { MOST_GREEDY = 8192, GREEDY_ROUNDS = 6 };

// What is needed for each class of a region so far.
typedef struct Greedy {
  const HlEgraph *eg;
  const double *price;
  uint32_t *local;  // by class: 1 + its number in the region
  int n, words;
  uint64_t *
      *needs;  // by number: a bit for each that it needs, itself included; NULL: no program yet
  double *total, *own;
  uint32_t *node;
  uint64_t *sum;  // scratch
} Greedy;

// The price of a node with all it needs, in `sum` too; infinite where that is itself, or not known.
static double needed(Greedy *g, const Node *node, double own, uint32_t self) {
  memset(g->sum, 0, sizeof *g->sum * (size_t)g->words);
  for (uint32_t k = 0; k < node->n; k++) {
    const uint64_t *needs = g->needs[g->local[eg_find(g->eg, eg_operands(g->eg, node)[k])] - 1];
    if (!needs)
      return INFINITY;
    for (int w = 0; w < g->words; w++)
      g->sum[w] |= needs[w];
  }
  if (g->sum[self / 64] >> (self % 64) & 1)
    return INFINITY;
  double total = own;
  for (int w = 0; w < g->words; w++)
    for (uint64_t left = g->sum[w]; left; left &= left - 1)
      total += g->own[w * 64 + __builtin_ctzll(left)];
  return total;
}

static bool improve(Greedy *g, HlArena *arena, uint32_t id) {
  const Node *node = &g->eg->nodes.at[id];
  const uint32_t class = eg_find(g->eg, node->class), self = g->local[class] - 1;
  const double total = needed(g, node, g->price[id], self);
  if (!(total < g->total[self] * (1 - 1e-12)))
    return false;
  if (!g->needs[self])
    g->needs[self] = HL_ARRAY(arena, uint64_t, g->words);
  memcpy(g->needs[self], g->sum, sizeof *g->sum * (size_t)g->words);
  g->needs[self][self / 64] |= UINT64_C(1) << (self % 64);
  g->total[self] = total;
  g->own[self] = g->price[id];
  g->node[class] = id;
  return true;
}

// False: the region is too large.
static bool choose_greedy(const HlEgraph *eg, const double *price, uint32_t region,
                          uint32_t *node) {
  HlArena *arena = hl_arena_new();
  Greedy g = {.eg = eg, .price = price, .node = node};
  g.local = HL_ARRAY(arena, uint32_t, eg->classes.n + 1);
  for (int k = 0; k < eg->classes.n; k++)
    if (eg->classes.at[k].region == region && eg->parent.at[k] == (uint32_t)k)
      g.local[k] = (uint32_t)++g.n;
  const bool fits = g.n <= MOST_GREEDY;
  if (fits) {
    g.words = g.n / 64 + 1;
    g.needs = HL_ARRAY(arena, uint64_t *, g.n + 1);
    g.total = HL_ARRAY(arena, double, g.n + 1);
    g.own = HL_ARRAY(arena, double, g.words * 64);
    g.sum = HL_ARRAY(arena, uint64_t, g.words);
    for (int k = 0; k < g.n; k++)
      g.total[k] = INFINITY;
    bool changed = true;
    for (int round = 0; changed && round < GREEDY_ROUNDS; round++) {
      changed = false;
      for (int k = 0; k < eg->nodes.n; k++)
        if (!eg->nodes.at[k].dead && eg->nodes.at[k].region == region)
          changed |= improve(&g, arena, (uint32_t)k);
    }
  }
  hl_arena_free(arena);
  return fits;
}

// --- Shared -----------------------------------------------------------------------------------------------

enum { SHARED_ROUNDS = 6 };

static void count_uses(const HlEgraph *eg, HlArena *arena, const uint32_t *node, uint32_t region,
                       uint32_t *uses) {
  uint32_t *order;
  int n;
  memset(uses, 0, sizeof *uses * (size_t)eg->classes.n);
  if (!eg_order(eg, arena, node, region, &order, &n))
    return;
  for (int k = 0; k < n; k++) {
    const Node *chosen = &eg->nodes.at[node[order[k]]];
    for (uint32_t i = 0; i < chosen->n; i++)
      uses[eg_find(eg, eg_operands(eg, chosen)[i])]++;
  }
}

static double choose_shared(HlEgraph *eg, const double *price, uint32_t region, uint32_t *node) {
  HlArena *arena = hl_arena_new();
  uint32_t *uses = HL_ARRAY(arena, uint32_t, eg->classes.n + 1);
  uint32_t *now = copy_of(eg, arena, node);
  double best = eg_price_of(eg, arena, price, node, region);
  for (int round = 0; round < SHARED_ROUNDS; round++) {
    count_uses(eg, arena, now, region, uses);
    eg_best_trees(eg, price, uses);
    choose_trees(eg, region, now);
    const double total = eg_price_of(eg, arena, price, now, region);
    if (!(total < best))
      break;
    best = total;
    take_over(eg, region, node, now);
  }
  eg_best_trees(eg, price, NULL);
  hl_arena_free(arena);
  return best;
}

// --- Local search -------------------------------------------------------------------------------------------

enum { LOCAL_VISITS = 6000000, LOCAL_ROUNDS = 4 };  // classes looked at in all

// All values of a group as parts of one. The choice before is in `undo`. False: it is so already, or no node of it is left.
bool eg_take_group(const HlEgraph *eg, const Group *group, uint32_t *node, uint32_t *undo) {
  bool any = false;
  for (int k = 0; k < group->n; k++) {
    const Node *part = &eg->nodes.at[group->node[k]];
    const uint32_t class = eg_find(eg, part->class);
    undo[k] = node[class];
    if (part->dead)
      return false;
    any = any || node[class] != group->node[k];
  }
  for (int k = 0; any && k < group->n; k++)
    node[eg_find(eg, eg->nodes.at[group->node[k]].class)] = group->node[k];
  return any;
}

void eg_leave_group(const HlEgraph *eg, const Group *group, uint32_t *node, const uint32_t *undo) {
  for (int k = group->n; k > 0; k--)
    node[eg_find(eg, eg->nodes.at[group->node[k - 1]].class)] = undo[k - 1];
}

// Values that are parts of one pay only all at once.
static double choose_groups(const HlEgraph *eg, HlArena *arena, const double *price,
                            uint32_t region, double best, uint32_t *node) {
  for (int k = 0; k < eg->groups.n; k++) {
    const Group *group = &eg->groups.at[k];
    uint32_t undo[EG_MOST_SIDE_BY_SIDE];
    if (group->region != region || !eg_take_group(eg, group, node, undo))
      continue;
    const double total = eg_price_of(eg, arena, price, node, region);
    if (total < best * (1 - 1e-12))
      best = total;
    else
      eg_leave_group(eg, group, node, undo);
  }
  return best;
}

static double choose_local(const HlEgraph *eg, const double *price, uint32_t region,
                           uint32_t *node) {
  HlArena *arena = hl_arena_new();
  uint32_t *order;
  int n;
  double best = eg_price_of(eg, arena, price, node, region);
  int64_t visits = 0;
  bool changed = best < INFINITY;
  for (int round = 0; changed && round < LOCAL_ROUNDS; round++) {
    changed = false;
    if (!eg_order(eg, arena, node, region, &order, &n))
      break;
    for (int k = n; k > 0 && visits < LOCAL_VISITS; k--) {
      const uint32_t class = order[k - 1], before = node[class];
      uint32_t kept = before;
      for (uint32_t c = eg->classes.at[class].n > 1 ? eg->classes.at[class].first : NONE; c != NONE;
           c = eg->nodes.at[c].next) {
        node[class] = c;
        const double total = c == before ? best : eg_price_of(eg, arena, price, node, region);
        visits += n + eg->classes.n / 64;
        if (total < best * (1 - 1e-12)) {
          best = total;
          kept = c;
          changed = true;
        }
      }
      node[class] = kept;
    }
    const double before = best;
    best = choose_groups(eg, arena, price, region, best, node);
    changed = changed || best < before;
  }
  hl_arena_free(arena);
  return best;
}

// --- Regions ------------------------------------------------------------------------------------------------

static bool starts_from(HlEgraphWay how, HlEgraphWay way) {
  return how == HL_EXTRACT_ALL || how == way || how == HL_EXTRACT_LOCAL || how == HL_EXTRACT_EXACT;
}

// Takes the better one of the choice and of what `try` holds.
static void keep_better(const HlEgraph *eg, HlArena *arena, const double *price, uint32_t region,
                        uint32_t *node, const uint32_t *other) {
  if (eg_price_of(eg, arena, price, other, region) < eg_price_of(eg, arena, price, node, region))
    take_over(eg, region, node, other);
}

// The program as it was: of each class a node that an instruction of the module has become.
static void choose_original(const HlEgraph *eg, const double *price, uint32_t region,
                            uint32_t *node) {
  for (int k = 0; k < eg->classes.n; k++) {
    if (eg->classes.at[k].region != region || eg->parent.at[k] != (uint32_t)k)
      continue;
    node[k] = NONE;
    for (uint32_t c = eg->classes.at[k].first; c != NONE; c = eg->nodes.at[c].next)
      if (map_get_ptr(&eg->origin_of_node, (const void *)(uintptr_t)c) &&
          (node[k] == NONE || price[c] < price[node[k]]))
        node[k] = c;
  }
}

// Goes on from the program as it was: a choice that is worse than this is none.
static void try_original(HlEgraph *eg, HlArena *arena, const double *price, uint32_t region,
                         bool local, uint32_t *node) {
  uint32_t *original = copy_of(eg, arena, node);
  choose_original(eg, price, region, original);
  if (local)
    choose_local(eg, price, region, original);
  keep_better(eg, arena, price, region, node, original);
}

// False: it may not be the cheapest.
static bool choose_region(HlEgraph *eg, HlArena *arena, const double *price, uint32_t region,
                          HlEgraphWay how, uint32_t *node) {
  choose_trees(eg, region, node);
  if (starts_from(how, HL_EXTRACT_GREEDY)) {
    uint32_t *greedy = copy_of(eg, arena, node);
    if (choose_greedy(eg, price, region, greedy))
      keep_better(eg, arena, price, region, node, greedy);
  }
  if (starts_from(how, HL_EXTRACT_SHARED))
    choose_shared(eg, price, region, node);
  const bool local = how == HL_EXTRACT_LOCAL || how == HL_EXTRACT_EXACT || how == HL_EXTRACT_ALL;
  if (local)
    choose_local(eg, price, region, node);
  try_original(eg, arena, price, region, local, node);
  return (how == HL_EXTRACT_EXACT || how == HL_EXTRACT_ALL) &&
         eg_exact(eg, arena, price, region, node);
}

static void choose_first(const HlEgraph *eg, uint32_t region, uint32_t *node) {
  for (int k = 0; k < eg->classes.n; k++)
    if (eg->classes.at[k].region == region && eg->parent.at[k] == (uint32_t)k)
      node[k] = eg->classes.at[k].first;
}

Choice eg_extract_trees(HlEgraph *eg, HlArena *arena, const double *price) {
  Choice choice = {.node = HL_ARRAY(arena, uint32_t, eg->classes.n + 1)};
  eg_best_trees(eg, price, NULL);
  for (int k = 0; k < eg->classes.n; k++)
    choice.node[k] = NONE;
  for (int r = 0; r < eg->regions.n; r++)
    if (eg->regions.at[r].is_live)
      choose_trees(eg, (uint32_t)r, choice.node);
    else
      choose_first(eg, (uint32_t)r, choice.node);
  return choice;
}

Choice eg_original(HlEgraph *eg, HlArena *arena, const double *price) {
  Choice choice = eg_extract_trees(eg, arena, price);
  uint32_t *original = HL_ARRAY(arena, uint32_t, eg->classes.n + 1);
  for (int r = 0; r < eg->regions.n; r++) {
    if (!eg->regions.at[r].is_live || eg->regions.at[r].root == NONE)
      continue;
    choose_original(eg, price, (uint32_t)r, original);
    for (int k = 0; k < eg->classes.n; k++)
      if (eg->classes.at[k].region == (uint32_t)r && original[k] != NONE && eg->parent.at[k] == (uint32_t)k)
        choice.node[k] = original[k];
  }
  return choice;
}

Choice eg_extract(HlEgraph *eg, HlArena *arena, double *price, HlEgraphWay how) {
  Choice choice = {.node = HL_ARRAY(arena, uint32_t, eg->classes.n + 1), .exact = true};
  for (int k = 0; k < eg->classes.n; k++)
    choice.node[k] = NONE;
  const uint64_t entry = map_get(&eg->region_of_comp, map_key(eg->module->entry));
  for (int r = 0; r < eg->regions.n; r++) {
    Region *region = &eg->regions.at[r];
    if (region->root == NONE)
      continue;
    if (!region->is_live) {
      choose_first(eg, (uint32_t)r, choice.node);
      continue;
    }
    eg_price_control(eg, price);
    eg_best_trees(eg, price, NULL);
    choice.exact &= choose_region(eg, arena, price, (uint32_t)r, how, choice.node);
    region->price = eg_price_of(eg, arena, price, choice.node, (uint32_t)r);
  }
  choice.price = eg->regions.at[entry - 1].price;
  return choice;
}
