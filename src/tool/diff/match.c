// tool/diff/match.c: pairs the nodes of two graphs.
//
// A pair once made stays, so the sure ones come first. Every node has three hashes: of the cone of what it is computed
// from (up), of the cone of what is computed from it (down), and of both together (full). Partners are nodes that are
// alone with a hash in either graph. Pairs found count as marks: in the next round hashing starts anew from them, so that
// what lies between two edits is found although neither of its cones is whole any more. Where cones do not help, the
// surroundings of a few steps do (Weisfeiler and Leman's colours), then steps from a pair to its operands and users.
//
// All of this is done first with ops, shapes, attributes and literals, then with ops alone (what only changed its shape),
// and between stages of one program once more through what only moves values (copies, reshapes, transposes). Nodes that are
// interchangeable (the same full hash as often in both) are paired users first, and each with what hangs on it. Last come those
// whose neighbours are partners: the op that took another's place. Names decide only between equals.

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tool/diff/diff.h"

// --- What a node is by itself ---------------------------------------------------------------------

typedef enum Level { EXACT, OPS, LOOSE } Level;

uint64_t diff_bare_shape_hash(const HlShape *shape) {
  uint64_t h = hl_hash_mix((uint64_t)shape->dtype + 1, (uint64_t)shape->rank);
  const bool is_array = hl_is_array_dtype(shape->dtype);
  for (int k = 0; k < shape->rank; k++)
    h = hl_hash_mix(h, is_array ? (uint64_t)shape->dim[k] +
                                      (shape->dynamic && shape->dynamic[k] ? 77 : 0)
                                : diff_bare_shape_hash(shape->element[k]));
  return h;
}

// Of an element of a tuple: among how many. Where some have gone, as from the state of a loop, its number says nothing.
static uint64_t of_how_many(const HlInst *inst) {
  const bool is_element = inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->n_operands == 1;
  return is_element ? (uint64_t)inst->operands[0]->shape->rank : 0;
}

static uint64_t exact_hash(const DiffMatch *match, const HlInst *inst) {
  uint64_t h = hl_hash_mix((uint64_t)inst->op + 1, diff_bare_shape_hash(inst->shape));
  for (int k = 0; k < inst->n_attrs; k++) {
    const HlAttr *attr = &inst->attrs[k];
    if (!diff_attr_counts(inst, attr) || (int)attr->key >= (int)HL_ATTR_COMMON ||
        attr->key == HL_A_CHANNEL_ID)
      continue;
    if (attr->key == HL_A_VALUE && (match->ignore & HL_DIFF_CONSTANTS))
      continue;
    h = hl_hash_mix(h, hl_attr_hash(attr));
  }
  return hl_hash_mix(h, of_how_many(inst));
}

// Of what tells instructions of one op apart when shapes do not: which parameter, which element.
static uint64_t ops_hash(const HlInst *inst) {
  uint64_t h = hl_hash_mix((uint64_t)inst->op + 101, inst->n_operands);
  if (inst->op == HL_OP_PARAMETER)
    h = hl_hash_mix(h, (uint64_t)hl_parameter_number(inst));
  if (inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    h = hl_hash_mix(h, (uint64_t)hl_attr_int(inst, HL_A_INDEX));
    h = hl_hash_mix(h, (uint64_t)inst->shape->dtype << 32 | (uint64_t)inst->shape->rank);
    h = hl_hash_mix(h, of_how_many(inst));
  }
  return h;
}

// Attributes that are other ones where dimensions were reordered or merged; a constant's value is looked at by itself.
static bool goes_with_order(HlAttrKey key) {
  return key == HL_A_DIMENSIONS || key == HL_A_IOTA_DIMENSION || key == HL_A_VALUE ||
         key == HL_A_PARAMETER_NUMBER || key == HL_A_CHANNEL_ID;
}

static uint64_t loose_hash(const HlInst *inst) {
  const HlShape *shape = inst->shape;
  const uint64_t n =
      hl_shape_is_array(shape) ? (uint64_t)hl_shape_elements(shape) : (uint64_t)shape->rank;
  uint64_t h = hl_hash_mix(hl_hash_mix((uint64_t)inst->op + 211, (uint64_t)shape->dtype), n);
  const HlLiteral *literal = inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
  if (literal && literal->data)
    h = hl_hash_mix(h, hl_hash_bytes(literal->data, (size_t)hl_literal_bytes(literal), 5));
  for (int k = 0; k < inst->n_attrs; k++)
    if (diff_attr_counts(inst, &inst->attrs[k]) && (int)inst->attrs[k].key < (int)HL_ATTR_COMMON &&
        !goes_with_order(inst->attrs[k].key))
      h = hl_hash_mix(h, hl_attr_hash(&inst->attrs[k]));
  return inst->op == HL_OP_PARAMETER ? hl_hash_mix(h, (uint64_t)hl_parameter_number(inst)) : h;
}

static void set_own(const DiffMatch *match, DiffSide *side, Level level) {
  for (int k = 0; k < side->n; k++) {
    const HlInst *inst = side->node[k].inst;
    if (k > 0 && side->node[k - 1].inst == inst)
      side->own[k] = side->own[k - 1];
    else
      side->own[k] = level == EXACT ? exact_hash(match, inst)
                     : level == OPS ? ops_hash(inst)
                                    : loose_hash(inst);
  }
}

// --- Pairs ----------------------------------------------------------------------------------------

void diff_pair(DiffMatch *match, int a, int b, HlDiffBy by) {
  match->a.mate[a] = b;
  match->b.mate[b] = a;
  match->a.by[a] = match->b.by[b] = (uint8_t)by;
}

// A mark that both partners share; 0: the node has none.
static uint64_t mark_of(const DiffMatch *match, const DiffSide *side, int node) {
  if (side->mate[node] == DIFF_NONE)
    return 0;
  const int a = side == &match->a ? node : side->mate[node];
  return hl_hash_mix(0x9e3779b97f4a7c15u, (uint64_t)a + 1);
}

static bool commutes(const HlInst *inst) {
  return inst->n_operands == 2 && hl_op_is(inst->op, HL_T_COMMUTES);
}

// --- Hashes of cones ------------------------------------------------------------------------------

typedef struct Keys {
  uint64_t *up, *down, *full;
} Keys;

static uint64_t up_of(const DiffMatch *match, const DiffSide *side, const uint64_t *up, int k,
                      bool swaps) {
  const DiffNode *node = &side->node[k];
  const uint64_t mark = mark_of(match, side, k);
  if (mark)
    return mark;
  uint64_t h = side->own[k];
  const int *in = side->in + node->first_in;
  if (swaps && commutes(node->inst))
    return hl_hash_mix(h, hl_hash_mix(up[in[0]], 1) + hl_hash_mix(up[in[1]], 1));
  for (int j = 0; j < node->n_in; j++)
    h = hl_hash_mix(h, in[j] == k ? 1 : up[in[j]]);
  return h;
}

// The use of a value: by whom, as what, and what becomes of that. Order of users does not count.
static uint64_t use_hash(const DiffSide *side, const uint64_t *who, const uint64_t *down,
                         DiffUse use, bool swaps) {
  const bool any = swaps && commutes(side->node[use.user].inst);
  return hl_hash_mix(hl_hash_mix(who[use.user], down[use.user]),
                     any ? 1 : (uint64_t)use.position + 3);
}

// What tells an unused node apart from its like in another call: what that gets, and what becomes of its result.
static uint64_t call_hash(const DiffSide *side, int k, const uint64_t *up, const uint64_t *down) {
  const DiffFrame *frame = &side->frame[side->node[k].frame];
  if (frame->caller == DIFF_NONE)
    return 0;
  const DiffNode *caller = &side->node[frame->caller];
  const int root = frame->comp->root ? side->node[frame->node[frame->comp->root->id]].value : k;
  uint64_t h = hl_hash_mix(down[frame->caller], root > k ? down[root] : 1);
  for (uint32_t j = 0; up && j < caller->inst->n_operands; j++)
    h = hl_hash_mix(h, up[side->frame[caller->frame].node[caller->inst->operands[j]->id]]);
  return h;
}

// `up` in place of what users are by themselves: NULL for those.
static void set_down(const DiffMatch *match, const DiffSide *side, const uint64_t *up,
                     uint64_t *down, bool swaps) {
  const uint64_t *who = up ? up : side->own;
  for (int k = side->n - 1; k >= 0; k--) {
    const DiffNode *node = &side->node[k];
    uint64_t h = mark_of(match, side, k);
    if (!h) {
      for (int j = 0; j < node->n_uses; j++)
        h += use_hash(side, who, down, side->use[node->first_use + j], swaps);
      h = hl_hash_mix(node->n_uses == 0 ? call_hash(side, k, up, down) : h, 17);
    }
    down[k] = h;
  }
  const int root = diff_root(side);
  down[root] = hl_hash_mix(down[root], 23);
}

static void set_keys(const DiffMatch *match, const DiffSide *side, Keys *keys, bool swaps) {
  for (int k = 0; k < side->n; k++)
    keys->up[k] = up_of(match, side, keys->up, k, swaps);
  set_down(match, side, keys->up, keys->full, swaps);
  for (int k = 0; k < side->n; k++)
    keys->full[k] = hl_hash_mix(keys->up[k], keys->full[k]);
  set_down(match, side, NULL, keys->down, swaps);
  const int root = diff_root(side);
  for (int k = 0; k < side->n; k++)
    keys->down[k] =
        side->node[k].n_uses > 0 || k == root ? hl_hash_mix(side->own[k], keys->down[k]) : 0;
}

void diff_values(const DiffMatch *match, const DiffSide *side, bool loose, uint64_t *out) {
  const HlComp *entry = side->m->entry;
  for (int k = 0; k < side->n; k++) {
    const DiffNode *node = &side->node[k];
    const int *in = side->in + node->first_in;
    const bool is_given = node->inst->op == HL_OP_PARAMETER && node->inst->comp == entry;
    const uint64_t mark = is_given ? mark_of(match, side, k) : 0;
    uint64_t h = mark ? mark : loose ? loose_hash(node->inst) : exact_hash(match, node->inst);
    if (commutes(node->inst) && node->n_in == 2)
      h = hl_hash_mix(h, hl_hash_mix(out[in[0]], 1) + hl_hash_mix(out[in[1]], 1));
    else
      for (int j = 0; j < node->n_in; j++)
        h = hl_hash_mix(h, in[j] == k ? 1 : out[in[j]]);
    out[k] = node->value == k ? h : out[node->value];
  }
}

// --- Nodes alone with a hash ----------------------------------------------------------------------

typedef struct Keyed {
  uint64_t key;
  int node;
  bool is_b;
} Keyed;

static int by_key(const void *x, const void *y) {
  const Keyed *a = x, *b = y;
  if (a->key != b->key)
    return a->key < b->key ? -1 : 1;
  if (a->is_b != b->is_b)
    return a->is_b ? 1 : -1;
  return a->node < b->node ? -1 : a->node > b->node;
}

static int gather(const DiffSide *side, const uint64_t *key, bool is_b, bool leaves, Keyed *out) {
  int n = 0;
  for (int k = 0; k < side->n; k++)
    if (diff_is_free(side, k) && !diff_is_wire(side, k) && key[k] &&
        (leaves || side->node[k].n_in > 0))
      out[n++] = (Keyed){key[k], k, is_b};
  return n;
}

static Keyed *sorted(const DiffMatch *match, const uint64_t *a, const uint64_t *b, bool leaves,
                     int *n) {
  Keyed *all = base_alloc(sizeof *all * (size_t)(match->a.n + match->b.n + 1));
  *n = gather(&match->a, a, false, leaves, all);
  *n += gather(&match->b, b, true, leaves, all + *n);
  qsort(all, (size_t)*n, sizeof *all, by_key);
  return all;
}

static int run_length(const Keyed *all, int n, int at) {
  int end = at;
  while (end < n && all[end].key == all[at].key)
    end++;
  return end - at;
}

// Pairs nodes that have a key alone in both graphs; the number of pairs.
static int pair_unique(DiffMatch *match, const uint64_t *a, const uint64_t *b, bool leaves,
                       HlDiffBy by) {
  int n, found = 0;
  Keyed *all = sorted(match, a, b, leaves, &n);
  for (int k = 0, length; k < n; k += length) {
    length = run_length(all, n, k);
    if (length == 2 && !all[k].is_b && all[k + 1].is_b) {
      diff_pair(match, all[k].node, all[k + 1].node, by);
      found++;
    }
  }
  base_free(all);
  return found;
}

// --- Surroundings ---------------------------------------------------------------------------------

static void spread(const DiffSide *side, const uint64_t *from, uint64_t *to) {
  for (int k = 0; k < side->n; k++) {
    const DiffNode *node = &side->node[k];
    uint64_t h = from[k], users = 0;
    for (int j = 0; j < node->n_in; j++)
      h = hl_hash_mix(h, from[side->in[node->first_in + j]]);
    for (int j = 0; j < node->n_uses; j++) {
      const DiffUse use = side->use[node->first_use + j];
      users += hl_hash_mix(from[use.user], (uint64_t)use.position + 3);
    }
    to[k] = hl_hash_mix(h, users);
  }
}

static void set_colours(const DiffMatch *match, const DiffSide *side, int radius, Keys *keys,
                        uint64_t *out) {
  uint64_t *from = keys->up, *to = keys->down;
  for (int k = 0; k < side->n; k++) {
    const uint64_t mark = mark_of(match, side, k);
    from[k] = mark ? mark : side->own[k];
  }
  for (int k = 0; k < radius; k++) {
    spread(side, from, to);
    uint64_t *swap = from;
    from = to;
    to = swap;
  }
  memcpy(out, from, sizeof *out * (size_t)side->n);
}

// A colour counts only where something around is known: otherwise two strangers are alike by chance.
static void need_anchor(const DiffSide *side, uint64_t *key) {
  for (int k = 0; k < side->n; k++) {
    const DiffNode *node = &side->node[k];
    bool any = false;
    for (int j = 0; j < node->n_in && !any; j++)
      any = !diff_is_free(side, side->in[node->first_in + j]);
    for (int j = 0; j < node->n_uses && !any; j++)
      any = !diff_is_free(side, side->use[node->first_use + j].user);
    if (!any)
      key[k] = 0;
  }
}

// --- From a pair to its neighbours ----------------------------------------------------------------

typedef struct Pair {
  int a, b;
} Pair;
typedef VEC(Pair) Pairs;

static bool may_pair(const DiffMatch *match, int x, int y, const uint64_t *key_a,
                     const uint64_t *key_b) {
  return diff_is_free(&match->a, x) && diff_is_free(&match->b, y) && !diff_is_wire(&match->a, x) &&
         !diff_is_wire(&match->b, y) && key_a[x] == key_b[y];
}

static int pair_operands(DiffMatch *match, Pair pair, const uint64_t *key_a, const uint64_t *key_b,
                         Pairs *todo) {
  const DiffNode *a = &match->a.node[pair.a], *b = &match->b.node[pair.b];
  const int *in_a = match->a.in + a->first_in, *in_b = match->b.in + b->first_in;
  int found = 0;
  if (a->n_in != b->n_in || a->inst->n_operands != b->inst->n_operands)
    return 0;
  const bool crossed = commutes(a->inst) && commutes(b->inst) &&
                       (match->a.mate[in_a[0]] == in_b[1] || match->a.mate[in_a[1]] == in_b[0]);
  for (int k = 0; k < a->n_in; k++) {
    const int x = in_a[k], y = in_b[crossed ? 1 - k : k];
    if (!may_pair(match, x, y, key_a, key_b))
      continue;
    diff_pair(match, x, y, HL_BY_PLACE);
    vec_push(todo, ((Pair){x, y}));
    found++;
  }
  return found;
}

static const DiffUse *only_use(const DiffMatch *match, const DiffSide *side, const DiffNode *of,
                               uint64_t key, int position, const uint64_t *keys) {
  const DiffUse *found = NULL;
  for (int k = 0; k < of->n_uses; k++) {
    const DiffUse *use = &side->use[of->first_use + k];
    if (use->position != position || keys[use->user] != key || !diff_is_free(side, use->user))
      continue;
    if (found)
      return NULL;
    found = use;
  }
  return found;
}

enum { MANY_USERS = 48 };

static int pair_users(DiffMatch *match, Pair pair, const uint64_t *key_a, const uint64_t *key_b,
                      Pairs *todo) {
  const DiffNode *a = &match->a.node[pair.a], *b = &match->b.node[pair.b];
  int found = 0;
  if (a->n_uses > MANY_USERS || b->n_uses > MANY_USERS)
    return 0;
  for (int k = 0; k < a->n_uses; k++) {
    const DiffUse use = match->a.use[a->first_use + k];
    if (!diff_is_free(&match->a, use.user) ||
        !only_use(match, &match->a, a, key_a[use.user], use.position, key_a))
      continue;
    const DiffUse *other = only_use(match, &match->b, b, key_a[use.user], use.position, key_b);
    if (!other || !may_pair(match, use.user, other->user, key_a, key_b))
      continue;
    diff_pair(match, use.user, other->user, HL_BY_PLACE);
    vec_push(todo, ((Pair){use.user, other->user}));
    found++;
  }
  return found;
}

static int drain(DiffMatch *match, Pairs *todo, const uint64_t *key_a, const uint64_t *key_b) {
  int found = 0;
  while (todo->n > 0) {
    const Pair pair = vec_pop(todo);
    found += pair_operands(match, pair, key_a, key_b, todo);
    found += pair_users(match, pair, key_a, key_b, todo);
  }
  return found;
}

// Steps from every pair to operands in the same place and to users that can be told apart, where both are alike.
static int pair_adjacent(DiffMatch *match, const uint64_t *key_a, const uint64_t *key_b) {
  Pairs todo = {0};
  for (int k = match->a.n - 1; k >= 0; k--)
    if (!diff_is_free(&match->a, k))
      vec_push(&todo, ((Pair){k, match->a.mate[k]}));
  const int found = drain(match, &todo, key_a, key_b);
  vec_free(&todo);
  return found;
}

// --- Nodes that are interchangeable ---------------------------------------------------------------

// Whether partners around agree with a pair.
static bool agrees(const DiffMatch *match, int x, int y) {
  const DiffNode *a = &match->a.node[x], *b = &match->b.node[y];
  if (a->n_in != b->n_in || a->n_uses != b->n_uses)
    return false;
  for (int k = 0; k < a->n_in; k++) {
    const int mate = match->a.mate[match->a.in[a->first_in + k]], in = match->b.in[b->first_in + k];
    if (mate == DIFF_NONE ? !diff_is_free(&match->b, in) : mate != in && !commutes(a->inst))
      return false;
  }
  for (int k = 0; k < a->n_uses; k++) {
    const DiffUse use = match->a.use[a->first_use + k];
    const int mate = match->a.mate[use.user];
    if (mate == DIFF_NONE)
      continue;
    bool used = false;
    for (int j = 0; j < b->n_uses && !used; j++)
      used = match->b.use[b->first_use + j].user == mate;
    if (!used)
      return false;
    break;
  }
  return true;
}

// Whoever of the same name, else the last that fits: of a run of candidates, b's sorted after a's.
static int choose(const DiffMatch *match, int x, const Keyed *run, int first_b, int length) {
  enum { TRIES = 64 };
  int first = DIFF_NONE, tries = 0;
  for (int k = length - 1; k >= first_b && tries < TRIES;
       k--) {  // the last with the last, as users come first
    const int y = run[k].node;
    if (!diff_is_free(&match->b, y))
      continue;
    const bool named = diff_same_name(match->a.node[x].inst, match->b.node[y].inst);
    if (!named && first != DIFF_NONE)
      continue;
    tries++;
    if (!agrees(match, x, y))
      continue;
    if (named)
      return y;
    first = y;
  }
  return first;
}

typedef struct Class {
  const Keyed *run;
  int first_b, length;
} Class;

// Pairs the nodes of every class, users before operands, each with what hangs on it.
static int pair_classes(DiffMatch *match, const uint64_t *a, const uint64_t *b, bool leaves) {
  int n, found = 0;
  Keyed *all = sorted(match, a, b, leaves, &n);
  Class *of = base_alloc(sizeof *of * (size_t)(match->a.n + 1));
  for (int k = 0, length; k < n; k += length) {
    length = run_length(all, n, k);
    int first_b = 0;
    while (first_b < length && !all[k + first_b].is_b)
      first_b++;
    for (int j = 0; j < first_b && 2 * first_b == length; j++)
      of[all[k + j].node] = (Class){all + k, first_b, length};
  }
  Pairs todo = {0};
  for (int x = match->a.n - 1; x >= 0; x--) {
    const int y = of[x].run && diff_is_free(&match->a, x)
                      ? choose(match, x, of[x].run, of[x].first_b, of[x].length)
                      : DIFF_NONE;
    if (y == DIFF_NONE)
      continue;
    diff_pair(match, x, y, HL_BY_STRUCTURE);
    vec_push(&todo, ((Pair){x, y}));
    found += 1 + drain(match, &todo, a, b);
  }
  vec_free(&todo);
  base_free(of);
  base_free(all);
  return found;
}

// --- What stands in another's place ---------------------------------------------------------------

// Whether a node of b is what a user of a node of a, by its partner, has in that place.
static bool is_used_alike(const DiffMatch *match, DiffUse use, int y) {
  const int mate = match->a.mate[use.user];
  if (mate == DIFF_NONE)
    return false;
  const DiffNode *user = &match->b.node[mate];
  const int at = use.position < DIFF_CALLED
                     ? use.position
                     : (int)user->inst->n_operands + use.position - DIFF_CALLED;
  return at < user->n_in && match->b.in[user->first_in + at] == y;
}

// Of all operands and users, of which some hundred are looked at, how many are partners in the same place.
static int agreeing(const DiffMatch *match, int x, int y, int *edges) {
  enum { MOST = 256 };
  const DiffNode *a = &match->a.node[x], *b = &match->b.node[y];
  const int uses_a = a->n_uses < MOST ? a->n_uses : MOST,
            uses_b = b->n_uses < MOST ? b->n_uses : MOST;
  int n = 0;
  *edges = (a->n_in > b->n_in ? a->n_in : b->n_in) + (uses_a > uses_b ? uses_a : uses_b);
  for (int k = 0; k < a->n_in && k < b->n_in; k++)
    n += match->a.mate[match->a.in[a->first_in + k]] == match->b.in[b->first_in + k];
  for (int k = 0; k < uses_a; k++)
    n += is_used_alike(match, match->a.use[a->first_use + k], y);
  if (x == diff_root(&match->a) || y == diff_root(&match->b)) {
    n += x == diff_root(&match->a) && y == diff_root(&match->b);
    ++*edges;
  }
  return n;
}

static bool same_op_name(const HlInst *a, const HlInst *b) {
  const HlMetadata *x = hl_metadata(a), *y = hl_metadata(b);
  return x && y && x->op_name && y->op_name && x->op_name->n == y->op_name->n &&
         memcmp(x->op_name->text, y->op_name->text, x->op_name->n) == 0;
}

// How much two nodes without partners are each other's; 0: too little.
static double likeness(const DiffMatch *match, int x, int y) {
  int edges;
  const int n = agreeing(match, x, y, &edges);
  const HlInst *a = match->a.node[x].inst, *b = match->b.node[y].inst;
  if (n == 0 || edges == 0)
    return 0;
  const bool leaf = (a->n_operands == 0) != (b->n_operands == 0);
  double score = (double)n / edges;
  if (a->op != b->op &&
      (score < 0.6 || leaf || a->op == HL_OP_PARAMETER || b->op == HL_OP_PARAMETER))
    return 0;
  if (a->op == b->op)
    score += 0.5;
  if (match->a.own[x] == match->b.own[y])
    score += 0.25;
  if (same_op_name(a, b))
    score += 0.125;
  if (diff_same_name(a, b))
    score += 0.03125;
  return score >= (a->op == b->op ? 0.75 : 0.6) ? score : 0;
}

typedef struct Best {
  int node;
  double score;
} Best;

static void consider(const DiffMatch *match, int x, int y, Best *best_a, Best *best_b) {
  if (!diff_is_free(&match->a, x) || !diff_is_free(&match->b, y) || diff_is_wire(&match->a, x) ||
      diff_is_wire(&match->b, y))
    return;
  const double score = likeness(match, x, y);
  if (score > best_a[x].score)
    best_a[x] = (Best){y, score};
  if (score > best_b[y].score)
    best_b[y] = (Best){x, score};
}

// All that stands around a pair in the same way.
static void consider_around(const DiffMatch *match, int a, int b, Best *best_a, Best *best_b) {
  const DiffNode *x = &match->a.node[a], *y = &match->b.node[b];
  for (int k = 0; k < x->n_in && k < y->n_in; k++)
    consider(match, match->a.in[x->first_in + k], match->b.in[y->first_in + k], best_a, best_b);
  for (int k = 0, tries = 0; k < x->n_uses && tries < MANY_USERS; k++) {
    const DiffUse use = match->a.use[x->first_use + k];
    if (!diff_is_free(&match->a, use.user))
      continue;
    tries++;
    for (int j = 0, others = 0; j < y->n_uses && others < MANY_USERS; j++) {
      const DiffUse other = match->b.use[y->first_use + j];
      if (!diff_is_free(&match->b, other.user))
        continue;
      others++;
      if (other.position == use.position)
        consider(match, use.user, other.user, best_a, best_b);
    }
  }
}

static int pair_places(DiffMatch *match) {
  Best *best_a = base_alloc(sizeof *best_a * (size_t)(match->a.n + 1));
  Best *best_b = base_alloc(sizeof *best_b * (size_t)(match->b.n + 1));
  int found = 0;
  for (int k = 0; k < match->a.n; k++)
    if (!diff_is_free(&match->a, k))
      consider_around(match, k, match->a.mate[k], best_a, best_b);
  const int root_a = diff_root(&match->a);
  const int root_b = diff_root(&match->b);
  consider(match, root_a, root_b, best_a, best_b);
  for (int k = 0; k < match->a.n; k++)
    if (best_a[k].score > 0 && diff_is_free(&match->a, k) &&
        diff_is_free(&match->b, best_a[k].node) && best_b[best_a[k].node].node == k) {
      diff_pair(match, k, best_a[k].node, HL_BY_NEIGHBOURS);
      found++;
    }
  base_free(best_a);
  base_free(best_b);
  return found;
}

// --- Parameters of the entry ----------------------------------------------------------------------

static const HlSym *known_as(const HlInst *param) {
  const HlMetadata *meta = hl_metadata(param);
  return meta && meta->op_name && meta->op_name->n ? meta->op_name : param->name;
}

static bool same_text(const HlSym *a, const HlSym *b) {
  return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
}

bool diff_bare_shape_equal(const HlShape *a, const HlShape *b) {
  if (a->dtype != b->dtype || a->rank != b->rank)
    return false;
  const bool is_array = hl_is_array_dtype(a->dtype);
  for (int k = 0; k < a->rank; k++)
    if (is_array ? a->dim[k] != b->dim[k] ||
                       (a->dynamic && a->dynamic[k]) != (b->dynamic && b->dynamic[k])
                 : !diff_bare_shape_equal(a->element[k], b->element[k]))
      return false;
  return true;
}

// Parameters of one side: their shapes' hashes, and the colours of what surrounds them at one to three steps.
enum { RADII = 3 };
typedef struct Surroundings {
  const HlComp *comp;
  uint64_t *of[RADII + 1];  // by number; 0: there is no such parameter
} Surroundings;

static Surroundings surroundings_of(DiffMatch *match, DiffSide *side, HlArena *arena) {
  Surroundings out = {.comp = side->m->entry};
  uint64_t *from = HL_ARRAY(arena, uint64_t, side->n + 1),
           *to = HL_ARRAY(arena, uint64_t, side->n + 1);
  set_own(match, side, EXACT);
  for (int k = 0; k < side->n; k++)
    from[k] = side->own[k];
  for (int k = 0; k < out.comp->n_params; k++)
    if (out.comp->params[k])
      from[side->frame[0].node[out.comp->params[k]->id]] =
          diff_bare_shape_hash(out.comp->params[k]->shape);
  for (int radius = 0; radius <= RADII; radius++) {
    out.of[radius] = HL_ARRAY(arena, uint64_t, out.comp->n_params + 1);
    for (int k = 0; k < out.comp->n_params; k++)
      if (out.comp->params[k])
        out.of[radius][k] = from[side->frame[0].node[out.comp->params[k]->id]];
    spread(side, from, to);
    uint64_t *swap = from;
    from = to;
    to = swap;
  }
  return out;
}

// How alike two parameters are: by shape, then by what is made of them; a name is worth less than all of that.
static int64_t param_score(const Surroundings *a, int i, const Surroundings *b, int j) {
  const HlInst *x = a->comp->params[i], *y = b->comp->params[j];
  if (!x || !y)
    return 0;
  int64_t score = same_text(known_as(x), known_as(y));
  for (int radius = 0; radius <= RADII && a->of[radius][i] == b->of[radius][j]; radius++)
    score += (radius == 0 ? (int64_t)2 : (int64_t)1) << 20;
  return score;
}

// The run of parameters, in order, that are most alike.
static void align_params(DiffMatch *match, const Surroundings *a, const Surroundings *b) {
  const int n = a->comp->n_params, m = b->comp->n_params;
  int64_t *best = base_alloc(sizeof *best * (size_t)(n + 1) * (size_t)(m + 1));
#define AT(i, j) best[(size_t)(i) * (size_t)(m + 1) + (size_t)(j)]
  for (int i = n - 1; i >= 0; i--)
    for (int j = m - 1; j >= 0; j--) {
      const int64_t skip = AT(i + 1, j) > AT(i, j + 1) ? AT(i + 1, j) : AT(i, j + 1);
      const int64_t score = param_score(a, i, b, j), take = score ? AT(i + 1, j + 1) + score : 0;
      AT(i, j) = take > skip ? take : skip;
    }
  for (int i = 0, j = 0; i < n && j < m;) {
    const int64_t score = param_score(a, i, b, j);
    if (score && AT(i, j) == AT(i + 1, j + 1) + score) {
      diff_pair(match, match->a.frame[0].node[a->comp->params[i++]->id],
                match->b.frame[0].node[b->comp->params[j++]->id], HL_BY_STRUCTURE);
    } else if (AT(i, j) == AT(i, j + 1)) {
      j++;
    } else {
      i++;
    }
  }
#undef AT
  base_free(best);
}

// As many of both are the same by number.
static void pair_params(DiffMatch *match) {
  enum { MOST = 2048 };
  const HlComp *a = match->a.m->entry, *b = match->b.m->entry;
  if (a->n_params != b->n_params && a->n_params <= MOST && b->n_params <= MOST) {
    HlArena *arena = hl_arena_new();
    const Surroundings x = surroundings_of(match, &match->a, arena);
    const Surroundings y = surroundings_of(match, &match->b, arena);
    align_params(match, &x, &y);
    hl_arena_free(arena);
    return;
  }
  for (int k = 0; k < a->n_params && k < b->n_params; k++)
    if (a->params[k] && b->params[k])
      diff_pair(match, match->a.frame[0].node[a->params[k]->id],
                match->b.frame[0].node[b->params[k]->id], HL_BY_STRUCTURE);
}

// --- All of it ------------------------------------------------------------------------------------

typedef struct Rounds {
  Keys a, b;
  uint64_t *colour_a, *colour_b;
} Rounds;

static void set_all_keys(DiffMatch *match, Rounds *r, bool swaps) {
  set_keys(match, &match->a, &r->a, swaps);
  set_keys(match, &match->b, &r->b, swaps);
}

static int pair_colours(DiffMatch *match, Rounds *r, int radius) {
  set_colours(match, &match->a, radius, &r->a, r->colour_a);
  set_colours(match, &match->b, radius, &r->b, r->colour_b);
  need_anchor(&match->a, r->colour_a);
  need_anchor(&match->b, r->colour_b);
  return pair_unique(match, r->colour_a, r->colour_b, true, HL_BY_STRUCTURE);
}

// One round: the surest way that still finds something.
static int round_of(DiffMatch *match, Rounds *r, bool swaps) {
  set_all_keys(match, r, swaps);
  int found = pair_unique(match, r->a.full, r->b.full, true, HL_BY_STRUCTURE);
  if (found)
    return found;
  found = pair_classes(match, r->a.full, r->b.full, true);
  if (found)
    return found;
  found = pair_unique(match, r->a.up, r->b.up, false, HL_BY_STRUCTURE);
  found += pair_unique(match, r->a.down, r->b.down, true, HL_BY_STRUCTURE);
  if (found)
    return found;
  for (int radius = 3; radius > 0; radius--)
    if ((found = pair_colours(match, r, radius)))
      return found;
  if ((found = pair_adjacent(match, match->a.own, match->b.own)))
    return found;
  set_all_keys(match, r, swaps);
  if ((found = pair_classes(match, r->a.down, r->b.down, true)))
    return found;
  return pair_classes(match, r->a.up, r->b.up, false);
}

static bool any_free(const DiffSide *side) {
  for (int k = 0; k < side->n; k++)
    if (diff_is_free(side, k) && !diff_is_wire(side, k))
      return true;
  return false;
}

static void run_level(DiffMatch *match, Rounds *r, Level level) {
  enum { MOST = 64 };
  set_own(match, &match->a, level);
  set_own(match, &match->b, level);
  for (int k = 0; k < MOST; k++) {
    base_look();
    if (!any_free(&match->a) || !any_free(&match->b))
      return;
    if (round_of(match, r, level != EXACT) == 0)
      return;
  }
}

static uint64_t *keys_of(HlArena *arena, int n) {
  return HL_ARRAY(arena, uint64_t, n + 1);
}

static Rounds rounds_new(DiffMatch *match, HlArena *arena) {
  const int n = match->a.n, m = match->b.n;
  Rounds r = {{keys_of(arena, n), keys_of(arena, n), keys_of(arena, n)},
              {keys_of(arena, m), keys_of(arena, m), keys_of(arena, m)},
              keys_of(arena, n),
              keys_of(arena, m)};
  return r;
}

// What took another's place may be the mark by which more is found.
static void run_places(DiffMatch *match, Rounds *r) {
  enum { MOST = 32 };
  for (int k = 0, found = 1; k < MOST && found; k++) {
    found = diff_pair_params(match, false) + pair_places(match);
    pair_adjacent(match, match->a.own, match->b.own);
  }
}

// Constants that everything around has changed of: by what they are, and the call they stand in.
static void pair_leaves(DiffMatch *match, Rounds *r) {
  DiffSide *sides[] = {&match->a, &match->b};
  uint64_t *keys[] = {r->colour_a, r->colour_b};
  set_own(match, &match->a, EXACT);
  set_own(match, &match->b, EXACT);
  for (int s = 0; s < 2; s++)
    for (int k = 0; k < sides[s]->n; k++) {
      const DiffNode *node = &sides[s]->node[k];
      const int caller = sides[s]->frame[node->frame].caller;
      const uint64_t frame = caller == DIFF_NONE ? 5 : mark_of(match, sides[s], caller);
      keys[s][k] = node->inst->n_operands == 0 && frame ? hl_hash_mix(sides[s]->own[k], frame) : 0;
    }
  pair_unique(match, keys[0], keys[1], true, HL_BY_PLACE);
}

void diff_match(DiffMatch *match) {
  HlArena *arena = hl_arena_new();
  Rounds r = rounds_new(match, arena);
  diff_wire(&match->a, false);
  diff_wire(&match->b, false);
  pair_params(match);
  run_level(match, &r, EXACT);
  run_places(match, &r);
  run_level(match, &r, EXACT);
  run_level(match, &r, OPS);
  run_places(match, &r);
  run_level(match, &r, OPS);
  if (match->stages) {
    diff_wire(&match->a, true);
    diff_wire(&match->b, true);
    run_level(match, &r, LOOSE);
    run_places(match, &r);
    diff_wire(&match->a, false);
    diff_wire(&match->b, false);
  }
  diff_match_wires(match);
  pair_leaves(match, &r);
  hl_arena_free(arena);
}
