// tool/diff/group.c: the same change in several places.
//
// Rows that are not "same" and whose instructions are operands and users of each other are one place. Places whose
// rows are alike, names apart, are one group: a change made in every layer of a model is told once.

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "tool/diff/diff.h"

typedef struct Groups {
  DiffMatch *match;
  HlDiff *diff;
  int *leader;  // of a row's place, itself a row of it
} Groups;

static int leader_of(int *leader, int row) {
  while (leader[row] != row)
    row = leader[row] = leader[leader[row]];
  return row;
}

static void join(Groups *g, int x, int y) {
  if (x < 0 || y < 0 || g->diff->row[x].verdict == HL_DIFF_SAME ||
      g->diff->row[y].verdict == HL_DIFF_SAME)
    return;
  const int a = leader_of(g->leader, x), b = leader_of(g->leader, y);
  if (a < b)
    g->leader[b] = a;
  else
    g->leader[a] = b;
}

// Between stages a place is what went into one instruction.
static void join_places(Groups *g, const DiffSide *side, const int *row) {
  for (int k = 0; k < side->n; k++)
    for (int j = 0; j < side->node[k].n_in; j++)
      join(g, row[k], row[side->in[side->node[k].first_in + j]]);
}

static void join_targets(Groups *g) {
  Map of = {0};
  for (int k = 0; k < g->diff->n_rows; k++) {
    const HlDiffRow *row = &g->diff->row[k];
    if (row->verdict == HL_DIFF_SAME || !row->into)
      continue;
    uint64_t *at = map_at(&of, hl_hash_mix(map_key(row->into), row->verdict));
    if (*at)
      join(g, k, (int)*at - 1);
    else
      *at = (uint64_t)k + 1;
  }
  map_free(&of);
}

typedef struct Entry {
  int leader, row;
} Entry;

static int by_leader(const void *x, const void *y) {
  const Entry *a = x, *b = y;
  if (a->leader != b->leader)
    return a->leader < b->leader ? -1 : 1;
  return a->row < b->row ? -1 : a->row > b->row;
}

typedef struct Made {
  HlDiffGroup group;
  VEC(int) first;
} Made;
typedef VEC(Made) Mades;

// Adds a place of n rows to the group of its like.
static void add_place(Groups *g, const Entry *entry, int n, const uint64_t *signature, Map *known,
                      Mades *made) {
  HlArena *arena = g->match->arena;
  uint64_t h = (uint64_t)n;
  for (int k = 0; k < n; k++)
    h += hl_hash_mix(signature[entry[k].row], 11);
  uint64_t *at = map_at(known, h | 1);
  if (!*at) {
    int *rows = HL_ARRAY(arena, int, n);
    for (int k = 0; k < n; k++)
      rows[k] = entry[k].row;
    vec_push(made, ((Made){.group = {.row = rows, .n = n}}));
    *at = (uint64_t)made->n;
  }
  Made *into = &made->at[*at - 1];
  into->group.times++;
  vec_push_in(arena, &into->first, entry[0].row);
  for (int k = 0; k < n; k++)
    g->diff->row[entry[k].row].group = (int)*at - 1;
}

void diff_group(DiffMatch *match, HlDiff *diff, const int *row_a, const int *row_b,
                const uint64_t *signature) {
  const int n = diff->n_rows;
  Groups g = {match, diff, base_alloc(sizeof(int) * (size_t)(n + 1))};
  Entry *entry = base_alloc(sizeof *entry * (size_t)(n + 1));
  int n_entries = 0;
  for (int k = 0; k < n; k++)
    g.leader[k] = k;
  if (match->stages) {
    join_targets(&g);
  } else {
    join_places(&g, &match->a, row_a);
    join_places(&g, &match->b, row_b);
  }
  for (int k = 0; k < n; k++)
    if (diff->row[k].verdict != HL_DIFF_SAME)
      entry[n_entries++] = (Entry){leader_of(g.leader, k), k};
  qsort(entry, (size_t)n_entries, sizeof *entry, by_leader);
  Map known = {0};
  Mades made = {0};
  for (int k = 0, end; k < n_entries; k = end) {
    for (end = k; end < n_entries && entry[end].leader == entry[k].leader; end++)
      ;
    add_place(&g, &entry[k], end - k, signature, &known, &made);
  }
  diff->group = HL_ARRAY(match->arena, HlDiffGroup, made.n + 1);
  diff->n_groups = made.n;
  for (int k = 0; k < made.n; k++) {
    diff->group[k] = made.at[k].group;
    diff->group[k].first = made.at[k].first.at;
  }
  vec_free(&made);
  map_free(&known);
  base_free(entry);
  base_free(g.leader);
}
