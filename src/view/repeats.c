// view/repeats.c: finds what stands several times in a computation, equal but for values.
//
// Two things are equal when they hold the same ops of the same shapes and attributes with the same edges among them: map_measure
// sums hashes of these, in any order. Three ways lead to repeats:
//
//   names     the children layers_0, layers_1, ... of a scope are a sequence of hashes; where it repeats with some period
//             (1: equal layers; 6: five local ones and a global one) it is folded
//   pieces    instructions that hang together with the rest only through scalars (an optimizer's update of each parameter)
//             are compared with each other
//   tandems   a long row of instructions without scopes, in post order, is a sequence of tokens that may repeat likewise
//
// A tandem repeat of period p is a run of places k where token[k] = token[k + p], which a walk tells. Of short rows all periods
// are tried; of long ones those that are often the distance from one occurrence of a token, or of several in a row, to the next.

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "view/map.h"

enum {
  FLAT = 48,           // instructions that may stand beside each other
  MANY = 90,           // above, what no repeat is found in is cut into runs
  RUN = 40,            // instructions of a run, about
  HUB = 12,            // users that make a value join nothing
  PIECE = 3,           // instructions of the smallest piece
  PARALLEL = 5,        // instructions that are one box for doing the same beside each other
  UNIT = 8,            // instructions of the smallest unit,
  LARGE_UNIT = 24,     // and of one that stands there twice only
  MAX_NAMED = 16,      // period of named groups
  ALL_PERIODS = 3000,  // items of a row of which all periods are tried
  FREQUENT = 24,       // distances that are tried of others
  SHOWN_OPS = 3
};

typedef struct Item {
  uint64_t exact, loose;
  int group;  // -1: an instruction
  HlInst *inst;
  int weight;  // instructions
  double place;
} Item;

typedef struct Tandem {
  int start, period, count;
} Tandem;

// --- Labels -------------------------------------------------------------------------------------

const char *map_range_label(HlArena *arena, const char *first, const char *last) {
  const size_t n = strlen(first), m = strlen(last);
  size_t head = 0, tail = 0;
  while (head < n && head < m && first[head] == last[head])
    head++;
  while (head > 0 && strchr("0123456789", first[head - 1]))
    head--;
  while (tail < n - head && tail < m - head && first[n - 1 - tail] == last[m - 1 - tail])
    tail++;
  while (tail > 0 && strchr("0123456789", first[n - tail]))
    tail--;
  if (head + tail >= n || head + tail >= m)
    return hl_arena_printf(arena, "%s", first);
  if (!strchr("0123456789", first[head]))
    return hl_arena_printf(arena, "%s \u2026 %s", first, last);
  return hl_arena_printf(arena, "%.*s\u2026%s", (int)(n - tail), first, last + head);
}

// How much an op says of what a part does.
static int weight_of_op(HlOp op) {
  return hl_op_is(op, HL_T_MATRIX | HL_T_CONTROL | HL_T_COLLECTIVE) || op == HL_OP_CUSTOM_CALL ||
                 op == HL_OP_FUSION
             ? 1000
         : hl_op_is(op, HL_T_FOLDS)                     ? 40
         : hl_op_is_transcendental(op)                  ? 20
         : hl_op_is(op, HL_T_REARRANGES | HL_T_WIRE)    ? 1
         : op == HL_OP_BROADCAST || op == HL_OP_CONVERT ? 1
                                                        : 4;
}

const char *map_ops_label(HlArena *arena, HlInst *const *inst, int n) {
  int count[HL_OP_COUNT] = {0};
  for (int k = 0; k < n; k++)
    count[inst[k]->op]++;
  const char *label = "";
  for (int shown = 0; shown < SHOWN_OPS; shown++) {
    int best = -1;
    for (int op = 0; op < HL_OP_COUNT; op++)
      if (count[op] > 0 &&
          (best < 0 || count[op] * weight_of_op((HlOp)op) > count[best] * weight_of_op((HlOp)best)))
        best = op;
    if (best < 0)
      break;
    const char *comma = shown > 0 ? ", " : "", *op = hl_op_text((HlOp)best);
    label = count[best] > 1 ? hl_arena_printf(arena, "%s%s%d %s", label, comma, count[best], op)
                            : hl_arena_printf(arena, "%s%s%s", label, comma, op);
    count[best] = 0;
  }
  return label;
}

static const char *label_of_items(MapTree *t, const Item *item, int n) {
  HlInst **inst = HL_ARRAY(t->arena, HlInst *, n + 1);
  int m = 0;
  const char *group = NULL;
  for (int k = 0; k < n; k++)
    if (item[k].group < 0)
      inst[m++] = item[k].inst;
    else if (!group || strlen(t->node.at[item[k].group].label) > strlen(group))
      group = t->node.at[item[k].group].label;
  const char *ops = map_ops_label(t->arena, inst, m);
  return !group ? ops : m == 0 ? group : hl_arena_printf(t->arena, "%s, %s", group, ops);
}

// --- Tandem repeats -----------------------------------------------------------------------------

typedef struct Search {
  const Item *item;
  int n;
  bool named;
  const uint64_t *token;
  const int *sum;  // of weights before each place
} Search;

static bool same(const Search *s, int a, int b) {
  return s->token[a] == s->token[b];
}

static const uint64_t *tokens_of(HlArena *arena, const Item *item, int n, bool loose) {
  uint64_t *token = HL_ARRAY(arena, uint64_t, n + 1);
  for (int k = 0; k < n; k++)
    token[k] = loose ? item[k].loose : item[k].exact;
  return token;
}

// A unit of one op over and over is no part of anything.
static bool is_varied(const Search *s, int start, int period) {
  int kinds = 1;
  for (int k = 1; k < period && kinds < 3; k++)
    kinds += !same(s, start + k, start + k - 1);
  return kinds >= 3;
}

static bool is_worth_folding(const Search *s, const Tandem *t) {
  if (s->named)
    return true;
  const int weight = s->sum[t->start + t->period] - s->sum[t->start];
  return weight >= (t->count > 2 ? UNIT : LARGE_UNIT) &&
         (is_varied(s, t->start, t->period) || (t->period == 1 && s->item[t->start].group >= 0));
}

static void try_run(const Search *s, int start, int matches, int period, Tandem *best, int *most) {
  const Tandem found = {start, period, matches / period + 1};
  const int covered = s->sum[start + period * found.count] - s->sum[start];
  if (covered > *most + *most / 50 && is_worth_folding(s, &found)) {
    *best = found;
    *most = covered;
  }
}

static void try_period(const Search *s, int p, Tandem *best, int *most) {
  int matches = 0;
  for (int k = 0; k + p <= s->n; k++) {
    if (k + p < s->n && same(s, k, k + p)) {
      matches++;
      continue;
    }
    if (matches >= p)
      try_run(s, k - matches, matches, p, best, most);
    matches = 0;
  }
}

// Counts how far it is from each `gram` of tokens in a row to the same again.
static void count_distances(HlArena *arena, const Search *s, int gram, int *count) {
  const HlMark mark = hl_arena_mark(arena);
  Map last = {.arena = arena};
  for (int k = 0; k + gram <= s->n; k++) {
    uint64_t hash = 0;
    for (int g = 0; g < gram; g++)
      hash = hl_hash_mix(hash, s->token[k + g]);
    uint64_t *before = map_at(&last, hash);
    const int distance = *before ? k + 1 - (int)*before : 0;
    if (distance > 0 && distance <= s->n / 2)
      count[distance]++;
    *before = (uint64_t)k + 1;
  }
  hl_arena_release(arena, mark);
}

// The most frequent distances.
static void try_frequent(HlArena *arena, const Search *s, int gram, Tandem *best, int *most) {
  const HlMark mark = hl_arena_mark(arena);
  int *count = HL_ARRAY(arena, int, s->n + 1), period[FREQUENT], n = 0;
  count_distances(arena, s, gram, count);
  for (int p = 1; p <= s->n / 2; p++) {
    if (count[p] == 0 || (n == FREQUENT && count[p] <= count[period[n - 1]]))
      continue;
    int at = n < FREQUENT ? n++ : n - 1;
    for (; at > 0 && count[period[at - 1]] < count[p]; at--)
      period[at] = period[at - 1];
    period[at] = p;
  }
  for (int k = 0; k < n; k++)
    try_period(s, period[k], best, most);
  hl_arena_release(arena, mark);
}

// The repeat that covers most; of those about as large the one of the shortest period.
static bool find_tandem(MapTree *t, const Item *item, int n, bool loose, bool named, Tandem *out) {
  static const int grams[] = {1, 4, 16, 64};
  const HlMark mark = hl_arena_mark(t->arena);
  int *sum = HL_ARRAY(t->arena, int, n + 1), most = 0;
  for (int k = 0; k < n; k++)
    sum[k + 1] = sum[k] + item[k].weight;
  const Search s = {.item = item,
                    .n = n,
                    .named = named,
                    .token = tokens_of(t->arena, item, n, loose),
                    .sum = sum};
  if (n <= ALL_PERIODS || named)
    for (int p = 1; p <= n / 2 && (!named || p <= MAX_NAMED); p++)
      try_period(&s, p, out, &most);
  else
    for (int k = 0; k < HL_COUNT_OF(grams); k++)
      try_frequent(t->arena, &s, grams[k], out, &most);
  hl_arena_release(t->arena, mark);
  return most > 0;
}

// The run of matches goes on beyond whole units: the unit may begin at any of these places. It begins where the fewest edges
// go from one unit to the next.
static void turn_tandem(MapTree *t, const Item *item, int n, Tandem *tandem) {
  const HlMark mark = hl_arena_mark(t->arena);
  const Search s = {.n = n, .token = tokens_of(t->arena, item, n, false)};
  int slack = 0;
  for (int end = tandem->start + tandem->period * tandem->count;
       end + slack < n && slack < tandem->period - 1 && item[end + slack].group < 0 &&
       same(&s, end + slack, end + slack - tandem->period);)
    slack++;
  if (slack == 0) {
    hl_arena_release(t->arena, mark);
    return;
  }
  int *place = HL_ARRAY(t->arena, int, t->comp->next_id + 1);
  int *edges = HL_ARRAY(t->arena, int,
                        n + 2);  // first those that begin and end at each place, then those across
  for (int k = 0; k < n; k++)
    if (item[k].group < 0)
      place[item[k].inst->id] = k + 1;
  for (int k = 0; k < n; k++)
    for (uint32_t o = 0; item[k].group < 0 && o < item[k].inst->n_operands; o++) {
      const int from = place[item[k].inst->operands[o]->id] - 1;
      if (from >= 0 && from < k)
        edges[from + 1]++, edges[k + 1]--;
    }
  for (int k = 1; k <= n; k++)
    edges[k] += edges[k - 1];
  int best = 0, fewest = INT32_MAX;
  for (int turn = 0; turn <= slack; turn++) {
    int across = 0;
    for (int c = 0; c <= tandem->count; c++)
      across += edges[tandem->start + turn + c * tandem->period];
    if (across < fewest)
      best = turn, fewest = across;
  }
  tandem->start += best;
  hl_arena_release(t->arena, mark);
}

static void put_in(MapTree *t, const Item *item, int n, int group) {
  for (int k = 0; k < n; k++)
    if (item[k].group >= 0)
      t->node.at[item[k].group].parent = group;
    else
      t->of[item[k].inst->id] = group;
}

// "layers_0...11" of some items that are groups, whichever of them stands first; from 11 to 0 where they stand so.
static const char *range_of_items(MapTree *t, const Item *item, int n) {
  const char *first = t->node.at[item[0].group].label, *last = t->node.at[item[n - 1].group].label;
  const char *least = first, *most = first;
  for (int k = 0; k < n; k++) {
    const char *label = item[k].group >= 0 ? t->node.at[item[k].group].label : first;
    least = strverscmp(label, least) < 0 ? label : least;
    most = strverscmp(label, most) > 0 ? label : most;
  }
  return strverscmp(first, last) <= 0 ? map_range_label(t->arena, least, most)
                                      : map_range_label(t->arena, most, least);
}

// Makes a group of the repeat. Units that are one group are that group.
static int fold(MapTree *t, int parent, const Item *item, const Tandem *tandem, HlGroupKind kind) {
  const int p = tandem->period, count = tandem->count;
  const Item *first = item + tandem->start, *last = first + p * count - 1;
  const bool named = first->group >= 0 && last->group >= 0;
  const char *label = named ? range_of_items(t, first, p * count) : label_of_items(t, first, p);
  const int repeat = map_new_node(t, kind, parent, label);
  t->node.at[repeat].copies = count;
  for (int c = 0; c < count; c++) {
    int unit = repeat;
    const Item *at = first + c * p;
    if (p > 1 || at->group < 0) {
      const char *name = named
                             ? range_of_items(t, at, p)
                             : hl_arena_printf(t->arena, "%d: %s", c + 1, label_of_items(t, at, p));
      unit = map_new_node(t, HL_GROUP_UNIT, repeat, name);
    }
    put_in(t, at, p, unit);
  }
  return repeat;
}

// --- Names --------------------------------------------------------------------------------------

typedef struct Named {
  uint64_t family;  // of parent and label without numbers
  int parent;
  Item item;
} Named;

static uint64_t family_of(const MapNode *node) {
  uint64_t hash = (uint64_t)node->parent;
  bool in_number = false;
  for (const char *p = node->label; *p; p++) {
    const bool digit = *p >= '0' && *p <= '9';
    if (!digit || !in_number)
      hash = hl_hash_mix(hash, digit ? '#' : (unsigned char)*p);
    in_number = digit;
  }
  return hash;
}

static int by_family(const void *a, const void *b) {
  const Named *x = a, *y = b;
  if (x->family != y->family)
    return x->family < y->family ? -1 : 1;
  if (x->item.place != y->item.place)
    return x->item.place < y->item.place ? -1 : 1;
  return x->item.group < y->item.group ? -1 : 1;
}

static Item item_of_group(const MapTree *t, int k) {
  const MapNode *node = &t->node.at[k];
  return (Item){.exact = node->exact,
                .loose = node->loose,
                .group = k,
                .weight = node->n,
                .place = map_place(node)};
}

typedef struct Range {
  int parent, from, to;
} Range;
typedef VEC(Range) Ranges;

enum { ALL_DIFFER = 6 };  // groups of one name that are folded though no two are equal

// Whether another group of the parent stands among these: conv1, norm1, conv2, norm2, ... are no sequence of convs.
static bool is_mixed(const MapTree *t, int parent, const Item *item, int n) {
  for (int k = 1; k < t->node.n; k++) {
    const MapNode *node = &t->node.at[k];
    if (node->dead || node->parent != parent || node->n == 0)
      continue;
    const double place = map_place(node);
    bool is_one = false;
    for (int i = 0; i < n && !is_one; i++)
      is_one = item[i].group == k;
    if (!is_one && place > item[0].place && place < item[n - 1].place)
      return true;
  }
  return false;
}

static void fold_family(MapTree *t, int parent, const Item *item, int n) {
  Ranges todo = {0};
  bool any = false;
  vec_push(&todo, ((Range){parent, 0, n}));
  while (todo.n > 0) {
    const Range r = vec_pop(&todo);
    Tandem found;
    HlGroupKind kind = HL_GROUP_REPEAT;
    if (r.to - r.from < 2)
      continue;
    if (!find_tandem(t, item + r.from, r.to - r.from, false, true, &found)) {
      kind = HL_GROUP_ALIKE;
      if (!find_tandem(t, item + r.from, r.to - r.from, true, true, &found))
        continue;
    }
    any = true;
    const Item *first = item + r.from + found.start;
    if (!is_mixed(t, parent, first, found.period * found.count))
      fold(t, parent, item + r.from, &found, kind);
    vec_push(&todo, ((Range){parent, r.from, r.from + found.start}));
    vec_push(&todo, ((Range){parent, r.from + found.start + found.period * found.count, r.to}));
  }
  vec_free(&todo);
  if (!any && n >= ALL_DIFFER)
    fold(t, parent, item, &(Tandem){0, 1, n}, HL_GROUP_ALIKE);
}

void map_fold_names(MapTree *t) {
  Named *named = HL_ARRAY(t->arena, Named, t->node.n + 1);
  int n = 0;
  for (int k = 1; k < t->node.n; k++)
    if (!t->node.at[k].dead && strpbrk(t->node.at[k].label, "0123456789"))
      named[n++] = (Named){family_of(&t->node.at[k]), t->node.at[k].parent, item_of_group(t, k)};
  qsort(named, (size_t)n, sizeof *named, by_family);
  Item *item = HL_ARRAY(t->arena, Item, n + 1);
  for (int k = 0; k < n; k++)
    item[k] = named[k].item;
  for (int from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && named[to].family == named[from].family;)
      to++;
    if (to - from > 1)
      fold_family(t, named[from].parent, item + from, to - from);
  }
  map_measure(t);
}

// Counts and hashes anew, where groups were made since there were so many.
static void measure_since(MapTree *t, int n_nodes) {
  if (t->node.n > n_nodes)
    map_measure(t);
}

// --- Pieces -------------------------------------------------------------------------------------

static int find_set(int *set, int k) {
  while (set[k] != k)
    k = set[k] = set[set[k]];
  return k;
}

static bool joins(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n <= HUB; use = use->next)
    n++;
  return n <= HUB && inst->op != HL_OP_TUPLE &&
         (!hl_shape_is_array(inst->shape) || inst->shape->rank > 0);
}

typedef struct Piece {
  int n, first;  // instructions; the first's place in the items
  int group;
  bool named;
  uint64_t exact, loose;
} Piece;

// The sets of items that edges of arrays join, by item: the first item of its set.
static void join_pieces(MapTree *t, int group, const Item *item, int n, int *set) {
  int *place = HL_ARRAY(t->arena, int, t->comp->next_id + 1);
  for (int k = 0; k < n; k++)
    set[k] = k, place[item[k].inst->id] = k;
  for (int k = 0; k < n; k++) {
    if (!joins(item[k].inst) && item[k].inst->op == HL_OP_TUPLE)
      continue;
    for (uint32_t o = 0; o < item[k].inst->n_operands; o++) {
      const HlInst *from = item[k].inst->operands[o];
      if (t->of[from->id] != group || t->floats[from->id] || !joins(from) ||
          (hl_shape_is_array(item[k].inst->shape) && item[k].inst->shape->rank == 0))
        continue;
      int a = find_set(set, place[from->id]), b = find_set(set, k);
      set[a > b ? a : b] = a > b ? b : a;
    }
  }
  for (int k = 0; k < n; k++)
    set[k] = find_set(set, k);
}

static bool is_scalar_made(const HlInst *inst) {
  if (inst->op == HL_OP_BROADCAST)
    inst = inst->operands[0];
  return hl_shape_is_scalar(inst->shape);
}

// Sums of losses, rates of learning, counters: what of them hangs together is a piece, too, where there is much beside it.
static void join_scalars(MapTree *t, int group, const Item *item, int n, int *set) {
  int *place = HL_ARRAY(t->arena, int, t->comp->next_id + 1);
  for (int k = 0; k < n; k++)
    set[k] = k, place[item[k].inst->id] = k;
  for (int k = 0; k < n; k++)
    for (uint32_t o = 0; is_scalar_made(item[k].inst) && o < item[k].inst->n_operands; o++) {
      const HlInst *from = item[k].inst->operands[o];
      if (t->of[from->id] != group || t->floats[from->id] || !hl_shape_is_scalar(from->shape))
        continue;
      int a = find_set(set, place[from->id]), b = find_set(set, k);
      set[a > b ? a : b] = a > b ? b : a;
    }
  for (int k = 0; k < n; k++)
    set[k] = find_set(set, k);
}

// A piece is best named after the parameter that it is about.
static const char *label_of_piece(MapTree *t, HlInst *const *inst, int n) {
  const char *best = NULL;
  for (int k = 0; k < n; k++)
    for (uint32_t o = 0; o < inst[k]->n_operands; o++) {
      const HlInst *from = inst[k]->operands[o];
      const HlMetadata *d = from->op == HL_OP_PARAMETER ? hl_metadata(from) : NULL;
      if (d && d->op_name && strpbrk(d->op_name->text, "[./") &&
          (!best || strlen(d->op_name->text) < strlen(best)))
        best = d->op_name->text;
    }
  return best;
}

static void make_piece(MapTree *t, int parent, const Item *item, int n, const int *set,
                       Piece *piece) {
  HlInst **inst = HL_ARRAY(t->arena, HlInst *, piece->n + 1);
  int m = 0;
  for (int k = piece->first; k < n && m < piece->n; k++)
    if (set[k] == piece->first)
      inst[m++] = item[k].inst;
  const char *label = label_of_piece(t, inst, m);
  piece->named = label != NULL;
  piece->group =
      map_new_node(t, HL_GROUP_PIECE, parent, label ? label : map_ops_label(t->arena, inst, m));
  for (int k = 0; k < m; k++)
    t->of[inst[k]->id] = piece->group;
}

static int by_loose(const void *a, const void *b) {
  const Piece *x = a, *y = b;
  if (x->loose != y->loose)
    return x->loose < y->loose ? -1 : 1;
  return x->first < y->first ? -1 : 1;
}

static void fold_pieces(MapTree *t, int parent, Piece *piece, int n) {
  map_measure(t);
  for (int k = 0; k < n; k++) {
    piece[k].exact = t->node.at[piece[k].group].exact;
    piece[k].loose = t->node.at[piece[k].group].loose;
  }
  qsort(piece, (size_t)n, sizeof *piece, by_loose);
  for (int from = 0, to; from < n; from = to) {
    bool equal = true;
    for (to = from + 1; to < n && piece[to].loose == piece[from].loose; to++)
      equal = equal && piece[to].exact == piece[from].exact;
    if (to - from < 2)
      continue;
    int repeat = map_new_node(t, equal ? HL_GROUP_REPEAT : HL_GROUP_ALIKE, parent, "");
    HlInst **inst = HL_ARRAY(t->arena, HlInst *, piece[from].n + 1);
    int m = 0;
    for (uint32_t k = 0; k < t->comp->n_insts && m < piece[from].n; k++)
      if (t->of[t->order[k]->id] == piece[from].group)
        inst[m++] = t->order[k];
    t->node.at[repeat].copies = to - from;
    t->node.at[repeat].label = map_ops_label(t->arena, inst, m);
    for (int k = from; k < to; k++) {
      MapNode *node = &t->node.at[piece[k].group];
      node->parent = repeat;
      if (!piece[k].named)
        node->label = hl_arena_printf(t->arena, "%d: %s", k - from + 1, node->label);
    }
  }
}

static int make_pieces(MapTree *t, int group, const Item *item, int n, const int *set,
                       const int *size, Piece *piece) {
  int m = 0;
  for (int k = 0; k < n; k++)
    if (size[k] >= PIECE) {
      piece[m] = (Piece){.n = size[k], .first = k};
      make_piece(t, group, item, n, set, &piece[m++]);
    }
  return m;
}

static void find_pieces(MapTree *t, int group, const Item *item, int n) {
  int *set = HL_ARRAY(t->arena, int, n + 1), *size = HL_ARRAY(t->arena, int, n + 1);
  join_pieces(t, group, item, n, set);
  int n_pieces = 0, largest = 0;
  for (int k = 0; k < n; k++)
    size[set[k]]++;
  for (int k = 0; k < n; k++) {
    n_pieces += size[k] >= PIECE;
    largest = size[k] > largest ? size[k] : largest;
  }
  if (n_pieces < 4 || largest > n / 2)
    return;
  Piece *piece = HL_ARRAY(t->arena, Piece, n_pieces);
  fold_pieces(t, group, piece, make_pieces(t, group, item, n, set, size, piece));
}

static Item *items_of(MapTree *t, int group, bool groups, int *n);

// The same of scalars that are left, where a picture of all of it would be large.
static void find_scalars(MapTree *t, int group) {
  int n;
  const Item *item = items_of(t, group, false, &n);
  if (n <= FLAT / 2)
    return;
  int *set = HL_ARRAY(t->arena, int, n + 1), *size = HL_ARRAY(t->arena, int, n + 1);
  join_scalars(t, group, item, n, set);
  for (int k = 0; k < n; k++)
    size[set[k]]++;
  Piece *piece = HL_ARRAY(t->arena, Piece, n / PIECE + 1);
  if (make_pieces(t, group, item, n, set, size, piece) > 0)
    map_measure(t);
}

// --- Side by side -------------------------------------------------------------------------------

// The child of a group that an instruction is in, or -1: it stands in the group itself.
static int child_with(const MapTree *t, int group, const HlInst *inst) {
  int k = t->of[inst->id];
  if (k == group)
    return -1;
  while (k != 0 && t->node.at[k].parent != group)
    k = t->node.at[k].parent;
  return k;
}

// What an instruction does, from which groups and to which; 0: something beside it is among them, but for what is drawn as
// the end of everything.
static uint64_t role_of(const MapTree *t, int group, const HlInst *inst) {
  uint64_t hash = t->loose_token[inst->id], users = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *from = inst->operands[k];
    const int child = t->floats[from->id] ? 0 : child_with(t, group, from);
    if (child < 0)
      return 0;
    hash = hl_hash_mix(hash, (uint64_t)child);
  }
  int last = -1;
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    const int child = use->user == t->comp->root ? 0 : child_with(t, group, use->user);
    if (child < 0)
      return 0;
    users += child == last ? 0 : hl_hash_mix((uint64_t)child, 1);
    last = child;
  }
  return hl_hash_mix(hash, users);
}

static int by_exact(const void *a, const void *b) {
  const Item *x = a, *y = b;
  if (x->exact != y->exact)
    return x->exact < y->exact ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

// Instructions of one op that come from the same and go to the same (the sums of fifty gradients) are one box.
static void join_parallel(MapTree *t, int group) {
  int n, before = t->node.n;
  Item *item = items_of(t, group, false, &n);
  if (n <= FLAT / 2)
    return;
  for (int k = 0; k < n; k++)
    item[k].exact = role_of(t, group, item[k].inst);
  qsort(item, (size_t)n, sizeof *item, by_exact);
  for (int from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && item[to].exact == item[from].exact;)
      to++;
    if (to - from < PARALLEL || item[from].exact == 0)
      continue;
    const int box =
        map_new_node(t, HL_GROUP_PIECE, group, label_of_items(t, item + from, to - from));
    put_in(t, item + from, to - from, box);
  }
  measure_since(t, before);
}

// --- Rows ---------------------------------------------------------------------------------------

static int by_place(const void *a, const void *b) {
  const Item *x = a, *y = b;
  return x->place < y->place ? -1 : x->place > y->place ? 1 : x->group - y->group;
}

// What stands in a group: its instructions but for those that float, and perhaps the groups in it.
static Item *items_of(MapTree *t, int group, bool groups, int *n) {
  const MapNode *node = &t->node.at[group];
  Item *item = HL_ARRAY(t->arena, Item, node->n_own + (groups ? t->node.n : 0) + 1);
  *n = 0;
  for (uint32_t k = 0; k < t->comp->n_insts; k++) {
    HlInst *inst = t->order[k];
    if (t->of[inst->id] == group && !t->floats[inst->id] && inst != t->comp->root)
      item[(*n)++] = (Item){.exact = t->token[inst->id],
                            .loose = t->loose_token[inst->id],
                            .group = -1,
                            .inst = inst,
                            .weight = 1,
                            .place = k};
  }
  for (int k = group + 1; groups && k < t->node.n; k++)
    if (!t->node.at[k].dead && t->node.at[k].parent == group && t->node.at[k].n > 0)
      item[(*n)++] = item_of_group(t, k);
  qsort(item, (size_t)*n, sizeof *item, by_place);
  return item;
}

// Runs that are long are cut again when their turn comes.
static void cut_run(MapTree *t, int parent, const Item *item, int n) {
  const int wanted = (n + RUN - 1) / RUN, pieces = wanted < RUN ? wanted : RUN;
  for (int k = 0; k < pieces; k++) {
    const int from = (int)((int64_t)n * k / pieces), to = (int)((int64_t)n * (k + 1) / pieces);
    const int run =
        map_new_node(t, HL_GROUP_RUN, parent, label_of_items(t, item + from, to - from));
    put_in(t, item + from, to - from, run);
  }
}

// Cuts a row where no repeat is found: what stands between its large groups.
static void cut_runs(MapTree *t, int parent, const Item *item, int n) {
  if (n <= MANY)
    return;
  for (int from = 0, to; from < n; from = to + 1) {
    for (to = from; to < n && item[to].weight < RUN;)
      to++;
    if (to - from >= UNIT)
      cut_run(t, parent, item + from, to - from);
  }
}

static void fold_row(MapTree *t, int group, const Item *item, int n) {
  Ranges todo = {0};
  vec_push(&todo, ((Range){group, 0, n}));
  while (todo.n > 0) {
    const Range r = vec_pop(&todo);
    const Item *row = item + r.from;
    Tandem found;
    const int length = r.to - r.from;
    if (length <= FLAT)
      continue;
    if (!find_tandem(t, row, length, false, false, &found))
      continue;
    turn_tandem(t, row, length, &found);
    const int repeat = fold(t, r.parent, row, &found, HL_GROUP_REPEAT);
    const int start = r.from + found.start, end = start + found.period * found.count;
    if (found.period > 1 || row[found.start].group < 0)
      for (int c = 0; c < found.count; c++)
        vec_push(&todo, ((Range){repeat + 1 + c, start + c * found.period,
                                 start + (c + 1) * found.period}));
    vec_push(&todo, ((Range){r.parent, r.from, start}));
    vec_push(&todo, ((Range){r.parent, end, r.to}));
  }
  vec_free(&todo);
}

static bool has_groups(const MapTree *t, int group) {
  for (int k = 1; k < t->node.n; k++)
    if (!t->node.at[k].dead && t->node.at[k].parent == group)
      return true;
  return false;
}

static void fold_group(MapTree *t, int group) {
  int n, before = t->node.n;
  const Item *item = items_of(t, group, false, &n);
  if (n <= FLAT)
    return;
  find_pieces(t, group, item, n);
  measure_since(t, before);
  before = t->node.n;
  item = items_of(t, group, true, &n);
  fold_row(t, group, item, n);
  measure_since(t, before);
  if (has_groups(t, group)) {
    find_scalars(t, group);
    join_parallel(t, group);
  }
  before = t->node.n;
  item = items_of(t, group, true, &n);
  cut_runs(t, group, item, n);
  measure_since(t, before);
}

// Instructions that may stand in a group. In units and runs repeats have been looked for.
static int most_flat(const MapNode *node) {
  return node->kind == HL_GROUP_UNIT || node->kind == HL_GROUP_RUN ? MANY : FLAT;
}

void map_fold_flat(MapTree *t) {
  for (int k = 0; k < t->node.n; k++)  // those that are made on the way, too
    if (!t->node.at[k].dead && t->node.at[k].n_own > most_flat(&t->node.at[k])) {
      const HlMark mark = hl_arena_mark(t->arena);
      const int before = t->node.n;
      fold_group(t, k);
      if (t->node.n == before)
        hl_arena_release(t->arena, mark);
    }
}
