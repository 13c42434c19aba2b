// view/layout.c: places the nodes of a graph in rows, operands above users.
//
// A node's row is the longest way to it from a node without operands. Within a row nodes are ordered
// by where their neighbours stand, a few times down and up; then each is drawn towards the middle of its
// neighbours as far as the row leaves room. Linear but for the sorting of rows.

#include <stdlib.h>
#include <string.h>

#include "view/graph.h"

static const double char_width = 6.6, line_height = 14, pad = 10, gap_x = 18, gap_y = 36;
enum { SWEEPS = 4 };

typedef struct Rows {
  int **at;  // nodes of each row, in order
  int *n;
  int count;
  double *key;  // of each node: where it wants to stand
} Rows;

static void size_node(HlArena *arena, ViewNode *node) {
  size_t longest = 0;
  for (int k = 0; k < node->n_lines; k++)
    if (strlen(node->line[k]) > longest)
      longest = strlen(node->line[k]);
  node->w = (double)longest * char_width + 2 * pad;
  node->h = node->n_lines * line_height + pad;
  if (!node->inside)
    return;
  view_layout(arena, node->inside);
  if (node->inside->w + 2 * pad > node->w)
    node->w = node->inside->w + 2 * pad;
  node->h += node->inside->h + pad;
}

static Rows make_rows(HlArena *arena, ViewGraph *g) {
  Rows rows = {0};
  for (int k = 0; k < g->n_edges; k++) {  // edges come in the order of their users, operands first
    ViewNode *to = &g->nodes[g->edges[k].to];
    int rank = g->nodes[g->edges[k].from].rank + 1;
    if (rank > to->rank)
      to->rank = rank;
  }
  for (int k = 0; k < g->n_nodes; k++)
    if (g->nodes[k].rank >= rows.count)
      rows.count = g->nodes[k].rank + 1;
  rows.n = HL_ARRAY(arena, int, rows.count + 1);
  rows.at = HL_ARRAY(arena, int *, rows.count + 1);
  rows.key = HL_ARRAY(arena, double, g->n_nodes + 1);
  for (int k = 0; k < g->n_nodes; k++)
    rows.n[g->nodes[k].rank]++;
  for (int r = 0; r < rows.count; r++) {
    rows.at[r] = HL_ARRAY(arena, int, rows.n[r] + 1);
    rows.n[r] = 0;
  }
  for (int k = 0; k < g->n_nodes; k++) {
    int r = g->nodes[k].rank;
    rows.at[r][rows.n[r]++] = k;
  }
  return rows;
}

// One after the other from the left.
static void spread(ViewGraph *g, const Rows *rows, int r) {
  double x = 0;
  for (int k = 0; k < rows->n[r]; k++) {
    ViewNode *node = &g->nodes[rows->at[r][k]];
    node->x = x + node->w / 2;
    x += node->w + gap_x;
  }
}

// The mean place of a node's neighbours above (or below), into key; where it stands if it has none.
static void find_keys(const ViewGraph *g, Rows *rows, double *sum, int *n, bool above) {
  for (int k = 0; k < g->n_nodes; k++) {
    sum[k] = 0;
    n[k] = 0;
  }
  for (int k = 0; k < g->n_edges; k++) {
    int self = above ? g->edges[k].to : g->edges[k].from;
    int other = above ? g->edges[k].from : g->edges[k].to;
    sum[self] += g->nodes[other].x;
    n[self]++;
  }
  for (int k = 0; k < g->n_nodes; k++)
    rows->key[k] = n[k] > 0 ? sum[k] / n[k] : g->nodes[k].x;
}

typedef struct Keyed {
  double key;
  int node;
} Keyed;

static int by_key(const void *a, const void *b) {
  const Keyed *x = a, *y = b;
  if (x->key != y->key)
    return x->key < y->key ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

static void order_rows(ViewGraph *g, Rows *rows, Keyed *scratch) {
  for (int r = 0; r < rows->count; r++) {
    for (int k = 0; k < rows->n[r]; k++)
      scratch[k] = (Keyed){rows->key[rows->at[r][k]], rows->at[r][k]};
    qsort(scratch, (size_t)rows->n[r], sizeof *scratch, by_key);
    for (int k = 0; k < rows->n[r]; k++)
      rows->at[r][k] = scratch[k].node;
    spread(g, rows, r);
  }
}

// Moves the nodes of a row towards their keys, from the left, keeping their order and gaps.
static void pull(ViewGraph *g, const Rows *rows, int r) {
  double least = -1e300;
  for (int k = 0; k < rows->n[r]; k++) {
    ViewNode *node = &g->nodes[rows->at[r][k]];
    double x = rows->key[rows->at[r][k]];
    if (x - node->w / 2 < least)
      x = least + node->w / 2;
    node->x = x;
    least = x + node->w / 2 + gap_x;
  }
}

static void place_rows(ViewGraph *g, const Rows *rows) {
  double y = 0, left = 1e300, right = -1e300;
  for (int r = 0; r < rows->count; r++) {
    double tallest = 0;
    for (int k = 0; k < rows->n[r]; k++)
      if (g->nodes[rows->at[r][k]].h > tallest)
        tallest = g->nodes[rows->at[r][k]].h;
    for (int k = 0; k < rows->n[r]; k++) {
      ViewNode *node = &g->nodes[rows->at[r][k]];
      node->y = y + tallest / 2;
      if (node->x - node->w / 2 < left)
        left = node->x - node->w / 2;
      if (node->x + node->w / 2 > right)
        right = node->x + node->w / 2;
    }
    y += tallest + gap_y;
  }
  for (int k = 0; k < g->n_nodes; k++)
    g->nodes[k].x -= left;
  g->w = g->n_nodes > 0 ? right - left : 0;
  g->h = y > 0 ? y - gap_y : 0;
}

void view_layout(HlArena *arena, ViewGraph *g) {
  for (int k = 0; k < g->n_nodes; k++)
    size_node(arena, &g->nodes[k]);
  Rows rows = make_rows(arena, g);
  double *sum = HL_ARRAY(arena, double, g->n_nodes + 1);
  int *n = HL_ARRAY(arena, int, g->n_nodes + 1);
  Keyed *scratch = HL_ARRAY(arena, Keyed, g->n_nodes + 1);
  for (int r = 0; r < rows.count; r++)
    spread(g, &rows, r);
  for (int k = 0; k < SWEEPS; k++) {
    find_keys(g, &rows, sum, n, k % 2 == 0);
    order_rows(g, &rows, scratch);
  }
  for (int k = 0; k < SWEEPS; k++) {
    find_keys(g, &rows, sum, n, k % 2 == 0);
    for (int r = 0; r < rows.count; r++)
      pull(g, &rows, r);
  }
  place_rows(g, &rows);
}
