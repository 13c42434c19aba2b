// cpu/tile/lines.c: what a reduction has computed of a row is kept for the row that follows.
//
//   s = sum_j exp(x[i, j] - m)          the exponentials of the sum stay in a line of the frame,
//   y[i, k] = exp(x[i, k] - m) / s      and the second row reads them there
//
// Two nodes are alike where one says of the reduction's own row what the other says of the grid's. Only what costs more than reading
// it again is kept, and only what fits into the cache.

#include "cpu/tile/plan.h"

enum { MOST_BYTES = 1 << 16, MOST_STEPS = 200 };

typedef struct Pair {
  const Lower *l;
  int own, grid;  // the two rows' loops
  int steps;
} Pair;

static bool alike_sums(const Pair *p, const Affine *a, const Affine *b) {
  if (!a || !b)
    return a == b;
  bool alike = a->c == b->c && a->den == b->den && a->k[p->grid] == 0 && b->k[p->own] == 0 &&
               a->k[p->own] == b->k[p->grid];
  for (int v = 0; v < p->l->n_vars && alike; v++)
    alike = v == p->own || v == p->grid || a->k[v] == b->k[v];
  return alike;
}

static bool alike(Pair *p, int a, int b) {
  const Node *x = &p->l->node.at[a], *y = &p->l->node.at[b];
  const uint32_t rows = plan_bit(p->own) | plan_bit(p->grid);
  if (a == b)
    return !(x->deps & rows);
  if (++p->steps > MOST_STEPS || x->kind != y->kind || x->op != y->op || x->dtype != y->dtype ||
      x->from != y->from || x->n != y->n || x->buffer != y->buffer || x->bits != y->bits ||
      x->block != 0 || y->block != 0 || x->scope != 0 || y->scope != 0 || x->scopes || y->scopes ||
      !alike_sums(p, x->at, y->at))
    return false;
  for (int k = 0; k < x->n; k++)
    if (!alike(p, x->arg[k], y->arg[k]))
      return false;
  return true;
}

static bool is_worth_keeping(const Node *node) {
  return node->kind == NODE_VEC && vec_info[node->op].cost >= 0.2 && node->block == 0;
}

// The node of a reduction's own row that says what `b` says of the grid's.
static int find_alike(const Plan *p, int block, int b) {
  const Lower *l = p->l;
  Pair pair = {l, p->block[block].column, p->block[0].column, 0};
  for (int a = 0; a < l->node.n; a++)
    if (p->live[a] && is_worth_keeping(&l->node.at[a]) &&
        plan_owner(p, l->node.at[a].deps) == block && alike(&pair, a, b))
      return a;
  return -1;
}

static bool has_line(const Plan *p, int block) {
  const BlockPlan *b = &p->block[block], *grid = &p->block[0];
  return b->live && b->own_row && b->row < 0 && b->n_loops == 0 && b->parent == 0 &&
         p->l->var[b->column].n == p->l->var[grid->column].n &&
         p->l->var[b->column].n * 8 <= MOST_BYTES;
}

void plan_lines(Plan *p) {
  Lower *l = p->l;
  bool any = false;
  p->line = HL_ARRAY(l->arena, bool, l->node.n + 1);
  if (p->block[0].column < 0 || p->block[0].row >= 0)
    return;
  for (int b = 0; b < l->node.n; b++) {
    Node *node = &l->node.at[b];
    if (!p->live[b] || !is_worth_keeping(node) || plan_owner(p, node->deps) != 0 ||
        !plan_in_row(p, 0, node->deps))
      continue;
    for (int block = 1; block < l->block.n; block++) {
      const int a = has_line(p, block) ? find_alike(p, block, b) : -1;
      if (a < 0)
        continue;
      int *arg = HL_ARRAY(l->arena, int, 1);
      *arg = a;
      node->kind = NODE_LINE;
      node->n = 1;
      node->arg = arg;
      p->line[a] = any = true;
      break;
    }
  }
  if (any)
    plan_live_again(p);
}
