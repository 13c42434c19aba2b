// rewrite/egraph/graph.c: nodes, classes, merging, rebuilding.
//
// Nodes lie in one list and never move; their operands' classes in another. A table finds a node by what it is of. Merging two
// classes joins their lists and leaves it at that; rebuilding then looks at the users of what was merged, whose operands are
// now other classes: two of them may have become alike, and then one is dead and their classes are merged, too. So one
// rebuilding after many merges looks at each user once (deferred as in egg, POPL 2021).
//
// A node's old place in the table is not cleared when its operands change: what is found there is compared by hash
// and content, which are of now.

#include <string.h>

#include "rewrite/egraph/egraph.h"

// --- The table ------------------------------------------------------------------------------------

static uint32_t hash_of(uint64_t symbol_hash, uint32_t region, int n, const uint32_t *child) {
  uint64_t h = symbol_hash + region;
  for (int k = 0; k < n; k++)
    h = (h ^ child[k]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
  h *= UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(h >> 32);
}

static bool is_like(const HlEgraph *eg, const Node *node, uint32_t region, uint32_t symbol, int n,
                    int n_regions, const uint32_t *child) {
  return node->symbol == symbol && node->region == region && node->n == (uint32_t)n &&
         node->n_regions == (uint32_t)n_regions &&
         (n + n_regions == 0 ||
          memcmp(eg->child.at + node->first, child, sizeof *child * (size_t)(n + n_regions)) == 0);
}

static void put(HlEgraph *eg, uint32_t node) {
  const uint32_t hash = eg->nodes.at[node].hash;
  uint32_t at = hash & eg->table_mask;
  while (eg->table[at])
    at = (at + 1) & eg->table_mask;
  eg->table[at] = (uint64_t)hash << 32 | (node + 1);
  eg->n_table++;
}

static void grow(HlEgraph *eg) {
  const uint32_t size = eg->table_mask ? 2 * (eg->table_mask + 1) : 1024;
  eg->table = HL_ARRAY(eg->arena, uint64_t, size);
  eg->table_mask = size - 1;
  eg->n_table = 0;
  for (int k = 0; k < eg->nodes.n; k++)
    if (!eg->nodes.at[k].dead)
      put(eg, (uint32_t)k);
}

static uint32_t look_up(const HlEgraph *eg, uint32_t hash, uint32_t region, uint32_t symbol, int n,
                        int n_regions, const uint32_t *child) {
  for (uint32_t at = hash & eg->table_mask; eg->table[at]; at = (at + 1) & eg->table_mask) {
    if (eg->table[at] >> 32 != hash)
      continue;
    const uint32_t k = (uint32_t)eg->table[at] - 1;
    const Node *node = &eg->nodes.at[k];
    if (node->hash == hash && !node->dead && is_like(eg, node, region, symbol, n, n_regions, child))
      return k;
  }
  return NONE;
}

// --- Adding ----------------------------------------------------------------------------------------

static void add_user(HlEgraph *eg, uint32_t class, uint32_t node) {
  Uses *uses = &eg->uses.at[class];
  const uint32_t user = (uint32_t)eg->users.n;
  vec_push_in(eg->arena, &eg->users, ((User){node, uses->first}));
  if (uses->first == NONE)
    uses->last = user;
  uses->first = user;
}

static uint32_t new_class(HlEgraph *eg, uint32_t region, uint32_t node) {
  const uint32_t class = (uint32_t)eg->classes.n;
  const Symbol *symbol = eg_symbol(eg, &eg->nodes.at[node]);
  const Class c = {.region = region,
                   .shape = symbol->proto->shape,
                   .first = node,
                   .last = node,
                   .n = 1,
                   .constant = symbol->proto->op == HL_OP_CONSTANT ? node : NONE,
                   .best = NONE,
                   .touched = eg->round,
                   .pinned = symbol->pinned};
  vec_push_in(eg->arena, &eg->classes, c);
  vec_push_in(eg->arena, &eg->parent, class);
  vec_push_in(eg->arena, &eg->uses, ((Uses){NONE, NONE}));
  eg->n_classes++;
  return class;
}

uint32_t eg_add(HlEgraph *eg, uint32_t region, uint32_t symbol, int n, const uint32_t *operands,
                int n_regions, const uint32_t *regions) {
  const uint32_t first = (uint32_t)eg->child.n;
  vec_room_in(eg->arena, &eg->child, n + n_regions);
  uint32_t *child = eg->child.at + first;
  for (int k = 0; k < n; k++)
    child[k] = eg_find(eg, operands[k]);
  for (int k = 0; k < n_regions; k++)
    child[n + k] = regions[k];
  if (2 * (eg->n_table + 1) > eg->table_mask)
    grow(eg);
  const uint32_t hash = hash_of(eg->symbols.at[symbol].hash, region, n + n_regions, child);
  const uint32_t found = look_up(eg, hash, region, symbol, n, n_regions, child);
  if (found != NONE)
    return eg_find(eg, eg->nodes.at[found].class);
  eg->child.n += n + n_regions;
  const uint32_t id = (uint32_t)eg->nodes.n;
  const Node node = {.symbol = symbol,
                     .region = region,
                     .first = first,
                     .n = (uint32_t)n,
                     .n_regions = (uint32_t)n_regions,
                     .hash = hash,
                     .next = NONE,
                     .born = eg->round};
  vec_push_in(eg->arena, &eg->nodes, node);
  eg->n_alive++;
  eg->n_news++;
  put(eg, id);
  const uint32_t class = new_class(eg, region, id);
  eg->nodes.at[id].class = class;
  for (int k = 0; k < n; k++)
    add_user(eg, eg->child.at[first + (uint32_t)k], id);
  return class;
}

// --- Merging ---------------------------------------------------------------------------------------

static bool same_value_shape(const HlShape *a, const HlShape *b) {
  return a == b || hl_shape_compatible(a, b);
}

static void join(HlEgraph *eg, uint32_t to, uint32_t from) {
  Class *a = &eg->classes.at[to], *b = &eg->classes.at[from];
  eg->nodes.at[a->last].next = b->first;
  a->last = b->last;
  a->n += b->n;
  Uses *x = &eg->uses.at[to], *y = &eg->uses.at[from];
  if (y->first != NONE) {
    if (x->first == NONE)
      x->first = y->first;
    else
      eg->users.at[x->last].next = y->first;
    x->last = y->last;
  }
  if (a->constant == NONE)
    a->constant = b->constant;
  a->pinned = a->pinned || b->pinned;
  a->touched = eg->round;
  eg->parent.at[from] = to;
}

bool eg_merge(HlEgraph *eg, uint32_t a, uint32_t b) {
  a = eg_find(eg, a);
  b = eg_find(eg, b);
  if (a == b)
    return true;
  const Class *x = &eg->classes.at[a], *y = &eg->classes.at[b];
  if (x->region != y->region || !same_value_shape(x->shape, y->shape)) {
    eg->n_refused++;
    return false;
  }
  const uint32_t to = x->n >= y->n ? a : b, from = to == a ? b : a;
  join(eg, to, from);
  vec_push_in(eg->arena, &eg->dirty, to);
  eg->n_classes--;
  eg->n_news++;
  return true;
}

// --- Rebuilding --------------------------------------------------------------------------------------

// Puts the node's operands right. Another node that it is like now; NONE: there is none.
static uint32_t refresh(HlEgraph *eg, uint32_t id) {
  Node *node = &eg->nodes.at[id];
  uint32_t *child = eg->child.at + node->first;
  for (uint32_t k = 0; k < node->n; k++)
    child[k] = eg_find(eg, child[k]);
  const int n = (int)node->n, n_regions = (int)node->n_regions;
  node->hash = hash_of(eg->symbols.at[node->symbol].hash, node->region, n + n_regions, child);
  const uint32_t like = look_up(eg, node->hash, node->region, node->symbol, n, n_regions, child);
  if (like != NONE)
    return like == id ? NONE : like;
  if (2 * (eg->n_table + 1) > eg->table_mask)
    grow(eg);  // puts it, too
  else
    put(eg, id);
  return NONE;
}

// A node that goes hands on which instruction of the module it was.
static void hand_on_origin(HlEgraph *eg, uint32_t from, uint32_t to) {
  const uint64_t origin = map_get(&eg->origin_of_node, from);
  if (origin && !map_get(&eg->origin_of_node, to))
    *map_at(&eg->origin_of_node, to) = origin;
}

// Merging meanwhile appends to lists of users, to this one, too: those behind are looked at as well.
static void look_at_users(HlEgraph *eg, uint32_t class) {
  for (uint32_t u = eg->uses.at[class].first; u != NONE; u = eg->users.at[u].next) {
    const uint32_t id = eg->users.at[u].node;
    const uint32_t like = eg->nodes.at[id].dead ? NONE : refresh(eg, id);
    if (like == NONE)
      continue;
    hand_on_origin(eg, id, like);
    eg->nodes.at[id].dead = true;
    eg->n_alive--;
    eg_merge(eg, eg->nodes.at[like].class, eg->nodes.at[id].class);
  }
}

// Takes dead nodes out of a class's list.
static void sweep(HlEgraph *eg, uint32_t class) {
  Class *c = &eg->classes.at[class];
  uint32_t first = NONE, last = NONE, n = 0;
  for (uint32_t k = c->first; k != NONE; k = eg->nodes.at[k].next) {
    if (eg->nodes.at[k].dead)
      continue;
    if (first == NONE)
      first = k;
    else
      eg->nodes.at[last].next = k;
    last = k;
    n++;
  }
  eg->nodes.at[last].next = NONE;
  c->first = first;
  c->last = last;
  c->n = n;
  if (c->constant != NONE && eg->nodes.at[c->constant].dead) {
    c->constant = NONE;
    for (uint32_t k = first; k != NONE; k = eg->nodes.at[k].next)
      if (eg_op(eg, &eg->nodes.at[k]) == HL_OP_CONSTANT)
        c->constant = k;
  }
}

void eg_rebuild(HlEgraph *eg) {
  const bool any = eg->dirty.n > 0;
  while (eg->dirty.n > 0)
    look_at_users(eg, eg_find(eg, vec_pop(&eg->dirty)));
  for (int k = 0; any && k < eg->classes.n; k++)
    if (eg->parent.at[k] == (uint32_t)k)
      sweep(eg, (uint32_t)k);
}

// --- For callers ---------------------------------------------------------------------------------------

HlEgraph *hl_egraph_new(HlCx *cx) {
  HlArena *arena = hl_arena_new();
  HlEgraph *eg = HL_NEW(arena, HlEgraph);
  eg->cx = cx;
  eg->arena = arena;
  eg->home = hl_module_new("egraph", NULL);
  eg->protos = hl_comp_new(eg->home, "protos", 6);
  eg->plain = hl_sym(eg->home, "x");
  eg->symbol_by_hash.arena = eg->region_by_hash.arena = arena;
  eg->symbol_of_like.arena = arena;
  eg->region_of_comp.arena = eg->class_of_inst.arena = eg->origin_of_node.arena = arena;
  grow(eg);
  return eg;
}

void hl_egraph_free(HlEgraph *eg) {
  if (!eg)
    return;
  hl_module_free(eg->home);
  hl_arena_free(eg->arena);
}

HlEclass hl_egraph_class_of(const HlEgraph *eg, const HlInst *inst) {
  const uint64_t found = map_get(&eg->class_of_inst, map_key(inst));
  return found ? eg_find(eg, (uint32_t)(found - 1)) : HL_NO_ECLASS;
}

HlEclass hl_egraph_add(HlEgraph *eg, const HlInst *like, int n, const HlEclass *operands) {
  uint64_t *known = map_at(&eg->symbol_of_like, map_key(like));
  if (*known == 0)
    *known = eg_is_pinned(like) || like->n_calls > 0 ? 1 : (uint64_t)eg_symbol_of(eg, like) + 2;
  if (*known == 1 || n == 0)
    return HL_NO_ECLASS;
  const uint32_t region = eg_class(eg, operands[0])->region;
  return eg_add(eg, region, (uint32_t)(*known - 2), n, operands, 0, NULL);
}

bool hl_egraph_merge(HlEgraph *eg, HlEclass a, HlEclass b) {
  return eg_merge(eg, a, b);
}

void hl_egraph_rebuild(HlEgraph *eg) {
  eg_rebuild(eg);
}

int64_t hl_egraph_nodes(const HlEgraph *eg) {
  return eg->n_alive;
}

int64_t hl_egraph_classes(const HlEgraph *eg) {
  return eg->n_classes;
}

bool hl_egraph_check(const HlEgraph *eg, const char **why) {
  int64_t alive = 0, classes = 0;
  for (int k = 0; k < eg->nodes.n; k++) {
    const Node *node = &eg->nodes.at[k];
    if (node->dead)
      continue;
    alive++;
    for (uint32_t i = 0; i < node->n; i++)
      if (eg->child.at[node->first + i] != eg_find(eg, eg->child.at[node->first + i]))
        return *why = "a node names a class that is no more", false;
    const uint32_t found = look_up(eg, node->hash, node->region, node->symbol, (int)node->n,
                                   (int)node->n_regions, eg->child.at + node->first);
    if (found != (uint32_t)k)
      return *why = "a node is not found, or another one like it", false;
  }
  int64_t listed = 0;
  for (int k = 0; k < eg->classes.n; k++) {
    const Class *c = &eg->classes.at[k];
    if (eg->parent.at[k] != (uint32_t)k)
      continue;
    classes++;
    for (uint32_t i = c->first; i != NONE; i = eg->nodes.at[i].next, listed++)
      if (eg_find(eg, eg->nodes.at[i].class) != (uint32_t)k)
        return *why = "a class lists a node of another", false;
  }
  if (alive != eg->n_alive || classes != eg->n_classes || listed != alive)
    return *why = "the counts are wrong", false;
  return true;
}
