// view/map.c: what a computation is made of, as a tree: scopes, repeated parts, runs of instructions.
//
// Scopes are the paths that frameworks write into `op_name`: jit(f)/Model/layers_3/attn/dot_general stands in the scope attn of
// layers_3 of Model. What has no such path, and what only feeds others (constants, parameters, elements of tuples), goes where
// all its users are. A scope that holds nothing but one other is one with it; one of an instruction or two is none.
//
//   1. scopes           scope_of      a node for each path
//   2. settling         map_settle    what floats
//   3. tidying          tidy          chains and crumbs
//   4. names            repeats.c     layers_0, layers_1, ... that are equal: a REPEAT
//   5. flat groups      repeats.c     many instructions in one group: pieces, tandem repeats, runs
//   6. numbering        finish        parents first, then in order of execution

#include "view/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum {
  MAX_SCOPES = 64,     // parts of a path
  CRUMB = 3,           // instructions below which a scope is none
  FEW_PARAMETERS = 4,  // that may stand beside the groups that use them
  SPLINTER = 6         // instructions a part, on average, of a scope that hangs together nowhere
};

int map_new_node(MapTree *t, HlGroupKind kind, int parent, const char *label) {
  const MapNode node = {.kind = kind,
                        .parent = parent,
                        .depth = parent < 0 ? 0 : t->node.at[parent].depth + 1,
                        .copies = 1,
                        .label = label};
  vec_push_in(t->arena, &t->node, node);
  return t->node.n - 1;
}

int map_meet(const MapTree *t, int a, int b) {
  const MapNode *node = t->node.at;
  while (a != b)
    if (node[a].depth >= node[b].depth)
      a = node[a].parent;
    else
      b = node[b].parent;
  return a;
}

// --- Scopes -------------------------------------------------------------------------------------

// The next part of a path, up to a slash outside of brackets; false at the end. The last part is the op.
static bool next_scope(const char **at, HlStr *out) {
  const char *from = *at, *p = from;
  int depth = 0;
  for (; *p && *p != ';' && (*p != '/' || depth > 0); p++)
    depth += *p == '(' || *p == '[' ? 1 : (*p == ')' || *p == ']') && depth > 0 ? -1 : 0;
  if (*p != '/')
    return false;
  *out = (HlStr){from, (size_t)(p - from)};
  *at = p + 1;
  return true;
}

static int child_named(MapTree *t, Map *known, int parent, HlStr name) {
  const uint64_t hash = hl_hash_bytes(name.at, name.n, (uint64_t)parent);
  MapWalk walk = map_walk(known, hash);
  for (uint64_t k; (k = map_next(&walk));)
    if (t->node.at[k].parent == parent && hl_str_is(name, t->node.at[k].label))
      return (int)k;
  int made = map_new_node(t, HL_GROUP_SCOPE, parent, hl_arena_strndup(t->arena, name.at, name.n));
  map_add(known, hash, (uint64_t)made);
  return made;
}

static bool has_scope(const HlInst *inst) {
  const HlMetadata *d = hl_metadata(inst);
  return inst->op != HL_OP_PARAMETER && d && d->op_name && strchr(d->op_name->text, '/');
}

static void find_scopes(MapTree *t) {
  Map known = {.arena = t->arena};
  for (HlInst *inst = t->comp->first; inst; inst = inst->next) {
    if (!has_scope(inst))
      continue;
    const char *at = hl_metadata(inst)->op_name->text;
    HlStr part;
    for (int k = 0; k < MAX_SCOPES && next_scope(&at, &part); k++)
      if (part.n > 0)
        t->of[inst->id] = child_named(t, &known, t->of[inst->id], part);
  }
}

// --- What floats --------------------------------------------------------------------------------

// Constants and what is made of nothing else, parameters, elements of tuples.
static bool find_floating(const MapTree *t, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONSTANT:
  case HL_OP_PARAMETER:
  case HL_OP_IOTA:
  case HL_OP_GET_TUPLE_ELEMENT: return true;
  case HL_OP_BROADCAST:
  case HL_OP_CONVERT:
  case HL_OP_RESHAPE:
  case HL_OP_BITCAST:
    return t->floats[inst->operands[0]->id] && inst->operands[0]->op != HL_OP_PARAMETER &&
           inst->operands[0]->op != HL_OP_GET_TUPLE_ELEMENT;
  default: return false;
  }
}

// Where all users are; -1: there are none.
static int place_of_users(const MapTree *t, const HlInst *inst) {
  int place = -1;
  for (const HlUse *use = inst->first_use; use && place != 0; use = use->next) {
    int of = t->of[use->user->id];
    place = place < 0 ? of : map_meet(t, place, of);
  }
  return place;
}

static int place_of_operands(const MapTree *t, const HlInst *inst) {
  int place = -1;
  for (uint32_t k = 0; k < inst->n_operands && place != 0; k++) {
    const HlInst *operand = inst->operands[k];
    if (t->floats[operand->id])
      continue;
    int of = t->of[operand->id];
    place = place < 0 ? of : map_meet(t, place, of);
  }
  return place;
}

void map_settle(MapTree *t) {
  for (HlInst *inst = t->comp->last; inst; inst = inst->prev) {
    const bool floats = t->floats[inst->id];
    if (inst == t->comp->root || (!floats && (t->of[inst->id] != 0 || has_scope(inst))))
      continue;
    int place = place_of_users(t, inst);
    if (!floats && place <= 0)
      place = place_of_operands(t, inst);
    t->of[inst->id] = place < 0 ? 0 : place;
  }
}

// --- Counts and hashes --------------------------------------------------------------------------

static uint64_t attrs_hash(const HlInst *inst) {
  uint64_t hash = 0;
  for (int k = 0; k < inst->n_attrs; k++) {
    const HlAttrKey key = (HlAttrKey)inst->attrs[k].key;
    if ((int)key < HL_ATTR_COMMON && key != HL_A_CHANNEL_ID && key != HL_A_VALUE &&
        key != HL_A_LITERAL && key != HL_A_PARAMETER_NUMBER)
      hash = hl_hash_mix(hash, hl_attr_hash(&inst->attrs[k]));
  }
  return hash;
}

static void find_tokens(MapTree *t) {
  for (const HlInst *inst = t->comp->first; inst; inst = inst->next) {
    uint64_t hash = hl_hash_mix(inst->op, inst->n_operands);
    for (int k = 0; k < inst->n_calls; k++)
      hash = hl_hash_mix(hash, hl_called(inst, k)->n_insts);
    t->loose_token[inst->id] = hash;
    t->token[inst->id] = hl_hash_mix(hl_hash_mix(hash, inst->shape->hash), attrs_hash(inst));
  }
}

// An edge counts in the groups that both of its ends are in.
static void hash_edges(MapTree *t, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *from = inst->operands[k];
    if (t->floats[from->id])
      continue;
    MapNode *node = &t->node.at[map_meet(t, t->of[from->id], t->of[inst->id])];
    node->exact += hl_hash_mix(hl_hash_mix(t->token[from->id], k), t->token[inst->id]);
    node->loose += hl_hash_mix(hl_hash_mix(t->loose_token[from->id], k), t->loose_token[inst->id]);
  }
}

double map_place(const MapNode *node) {
  return node->n_placed > 0 ? node->place / node->n_placed : 0;
}

// How deep each group is; the deepest.
static int find_depths(MapTree *t) {
  int deepest = 0;
  for (int k = 0; k < t->node.n; k++) {
    int depth = 0;
    for (int up = k; t->node.at[up].parent >= 0; up = t->node.at[up].parent)
      depth++;
    t->node.at[k].depth = depth;
    deepest = depth > deepest ? depth : deepest;
  }
  return deepest;
}

static void add_up(MapTree *t, int deepest) {
  for (int depth = deepest; depth > 0; depth--)
    for (int k = 0; k < t->node.n; k++) {
      const MapNode *node = &t->node.at[k];
      if (node->depth != depth || node->dead)
        continue;
      MapNode *up = &t->node.at[node->parent];
      up->n += node->n;
      up->n_placed += node->n_placed;
      up->place += node->place;
      up->exact += node->exact;
      up->loose += node->loose;
    }
}

void map_measure(MapTree *t) {
  const int deepest = find_depths(t);
  for (int k = 0; k < t->node.n; k++) {
    MapNode *node = &t->node.at[k];
    node->n_own = node->n = node->n_placed = 0;
    node->place = 0;
    node->exact = node->loose = 0;
  }
  for (const HlInst *inst = t->comp->first; inst; inst = inst->next) {
    MapNode *mine = &t->node.at[t->of[inst->id]];
    mine->n_own++;
    mine->n++;
    if (t->floats[inst->id])
      continue;
    mine->n_placed++;
    mine->place += t->at[inst->id];
    mine->exact += hl_hash_mix(t->token[inst->id], 1);
    mine->loose += hl_hash_mix(t->loose_token[inst->id], 1);
    hash_edges(t, inst);
  }
  add_up(t, deepest);
}

// --- Tidying ------------------------------------------------------------------------------------

static int living(const MapTree *t, int k) {
  while (t->node.at[k].dead)
    k = t->node.at[k].parent;
  return k;
}

// Members of the dead become those of the nearest group that lives.
static void bury(MapTree *t) {
  for (const HlInst *inst = t->comp->first; inst; inst = inst->next)
    t->of[inst->id] = living(t, t->of[inst->id]);
  for (int k = 1; k < t->node.n; k++)
    t->node.at[k].parent = living(t, t->node.at[k].parent);
  map_measure(t);
}

static int find_set(int *set, int k) {
  while (set[k] != k)
    k = set[k] = set[set[k]];
  return k;
}

// How many parts each group without groups in it consists of that no edge joins.
static int *count_parts(MapTree *t) {
  int *set = HL_ARRAY(t->arena, int, t->comp->next_id + 1);
  int *parts = HL_ARRAY(t->arena, int, t->node.n);
  for (const HlInst *inst = t->comp->first; inst; inst = inst->next) {
    const int id = (int)inst->id;
    set[id] = id;
    parts[t->of[id]] += !t->floats[id];
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      const int from = (int)inst->operands[k]->id;
      if (t->floats[from] || t->floats[id] || t->of[from] != t->of[id])
        continue;
      int a = find_set(set, from), b = find_set(set, id);
      parts[t->of[id]] -= a != b;
      set[a] = b;
    }
  }
  return parts;
}

static bool has_digit(const char *text) {
  return strpbrk(text, "0123456789") != NULL;
}

// Scopes of an instruction or two, and those that are called again and again from elsewhere (an einsum's), are none.
static void drop_crumbs(MapTree *t) {
  const int *parts = count_parts(t);
  for (int k = 1; k < t->node.n; k++) {
    MapNode *node = &t->node.at[k];
    const bool alone = node->n == node->n_own;
    node->dead = node->n < CRUMB || (alone && parts[k] > 1 && node->n <= SPLINTER * parts[k] &&
                                     !has_digit(node->label));
  }
  bury(t);
}

// A scope that holds one scope and nothing else is one with it.
static void join_chains(MapTree *t) {
  int *only = HL_ARRAY(t->arena, int, t->node.n), *n = HL_ARRAY(t->arena, int, t->node.n);
  for (int k = 1; k < t->node.n; k++)
    if (!t->node.at[k].dead) {
      n[t->node.at[k].parent]++;
      only[t->node.at[k].parent] = k;
    }
  for (int k = 1; k < t->node.n; k++) {
    MapNode *node = &t->node.at[k];
    if (node->dead || node->n_own > 0 || n[k] != 1)
      continue;
    MapNode *child = &t->node.at[only[k]];
    child->label = hl_arena_printf(t->arena, "%s/%s", node->label, child->label);
    node->dead = true;
  }
  bury(t);
}

// What a loop or a called function holds has the whole path of its caller: its end says enough.
static void shorten_paths(MapTree *t) {
  for (int k = 1; t->comp != t->comp->module->entry && k < t->node.n; k++) {
    MapNode *node = &t->node.at[k];
    const char *end = node->label + strlen(node->label);
    int slashes = 0;
    while (end > node->label && slashes < 2)
      slashes += *--end == '/';
    if (node->parent == 0 && slashes == 2 && end > node->label)
      node->label = hl_arena_printf(t->arena, "\u2026%s", end);
  }
}

// Parameters that several groups use are many lines in all directions: they have a box of their own, in whatever holds those
// groups.
static void gather_parameters(MapTree *t) {
  const int n_groups = t->node.n;
  int *n = HL_ARRAY(t->arena, int, n_groups), *box = HL_ARRAY(t->arena, int, n_groups);
  bool *has_groups = HL_ARRAY(t->arena, bool, n_groups);
  for (int k = 1; k < n_groups; k++)
    if (!t->node.at[k].dead)
      has_groups[t->node.at[k].parent] = true;
  for (int k = 0; k < t->comp->n_params; k++)
    if (t->comp->params[k])
      n[t->of[t->comp->params[k]->id]]++;
  for (int k = 0; k < n_groups; k++)
    if (n[k] > FEW_PARAMETERS && has_groups[k])
      box[k] = map_new_node(t, HL_GROUP_PARAMETERS, k, "parameters");
  for (int k = 0; k < t->comp->n_params; k++)
    if (t->comp->params[k] && box[t->of[t->comp->params[k]->id]] > 0)
      t->of[t->comp->params[k]->id] = box[t->of[t->comp->params[k]->id]];
  map_measure(t);
}

// --- Numbering ----------------------------------------------------------------------------------

typedef struct Ordered {
  int node, parent;
  double place;
} Ordered;

static int by_parent_and_place(const void *a, const void *b) {
  const Ordered *x = a, *y = b;
  if (x->parent != y->parent)
    return x->parent < y->parent ? -1 : 1;
  if (x->place != y->place)
    return x->place < y->place ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

static HlMap *finish(MapTree *t, HlArena *arena) {
  const int n = t->node.n;
  Ordered *sorted = HL_ARRAY(t->arena, Ordered, n);
  int *first = HL_ARRAY(t->arena, int, n + 1), *number = HL_ARRAY(t->arena, int, n);
  int alive = 0;
  for (int k = 1; k < n; k++)
    if (!t->node.at[k].dead && t->node.at[k].n > 0)
      sorted[alive++] = (Ordered){
          k, t->node.at[k].parent,
          t->node.at[k].kind == HL_GROUP_PARAMETERS ? -1 : t->node.at[k].place / t->node.at[k].n};
  qsort(sorted, (size_t)alive, sizeof *sorted, by_parent_and_place);
  for (int k = 0, p = 0; k <= n; k++) {
    while (p < alive && sorted[p].parent < k)
      p++;
    first[k] = p;
  }
  HlMap *map = HL_NEW(arena, HlMap);
  *map = (HlMap){.comp = t->comp,
                 .group = HL_ARRAY(arena, HlGroup, alive + 1),
                 .of = HL_ARRAY(arena, int, t->comp->next_id + 1)};
  int *queue = HL_ARRAY(t->arena, int, alive + 1), n_queue = 1;
  for (int q = 0; q < n_queue; q++) {
    const int k = queue[q];
    const MapNode *node = &t->node.at[k];
    number[k] = map->n_groups;
    map->group[map->n_groups++] =
        (HlGroup){.kind = node->kind,
                  .parent = k == 0 ? -1 : number[node->parent],
                  .copies = node->copies,
                  .n_insts = node->n,
                  .label = hl_arena_strndup(arena, node->label, strlen(node->label))};
    for (int p = first[k]; p < first[k + 1]; p++)
      queue[n_queue++] = sorted[p].node;
  }
  for (const HlInst *inst = t->comp->first; inst; inst = inst->next)
    map->of[inst->id] = number[t->of[inst->id]];
  return map;
}

static void begin(MapTree *t, HlArena *arena, const HlComp *comp) {
  *t = (MapTree){.arena = arena,
                 .comp = comp,
                 .of = HL_ARRAY(arena, int, comp->next_id + 1),
                 .order = hl_post_order(arena, comp),
                 .at = HL_ARRAY(arena, int, comp->next_id + 1),
                 .floats = HL_ARRAY(arena, bool, comp->next_id + 1),
                 .token = HL_ARRAY(arena, uint64_t, comp->next_id + 1),
                 .loose_token = HL_ARRAY(arena, uint64_t, comp->next_id + 1)};
  for (uint32_t k = 0; k < comp->n_insts; k++)
    t->at[t->order[k]->id] = (int)k;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    t->floats[inst->id] = find_floating(t, inst);
  find_tokens(t);
  map_new_node(t, HL_GROUP_TOP, -1, comp->name->text);
}

HlMap *hl_map_new(HlArena *arena, const HlComp *comp) {
  HlArena *scratch = hl_arena_new();
  MapTree t;
  begin(&t, scratch, comp);
  find_scopes(&t);
  map_measure(&t);
  map_settle(&t);
  map_measure(&t);
  drop_crumbs(&t);
  map_settle(&t);
  map_measure(&t);
  join_chains(&t);
  shorten_paths(&t);
  map_fold_names(&t);
  map_fold_flat(&t);
  map_settle(&t);
  map_measure(&t);
  gather_parameters(&t);
  HlMap *map = finish(&t, arena);
  hl_arena_free(scratch);
  return map;
}
