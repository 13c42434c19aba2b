// cpu/tile/heads.c: what is computed once for each row of a tile: the indices of whole rows.
//
//   g[i, c] = x[clamp(n[i]), c]     a tile of 64 rows of 16: 64 indices in its head, then 64 rows are taken
//
// Indices stand in the head if they depend on the rows of the grid's tiles and not on the columns; what else needs the same nodes
// has them in the tile as well.

#include "cpu/tile/plan.h"

// Ops that only look at the elements of their operands.
static bool is_plain(const Node *node) {
  switch (node->kind) {
  case NODE_CONST:
  case NODE_IOTA:
  case NODE_LOAD:
  case NODE_VEC:
  case NODE_CONVERT:
  case NODE_SAME: return node->block == 0;
  default: return false;
  }
}

static bool has_row(const Plan *p, uint32_t deps) {
  return (deps & plan_bit(p->block[0].row)) != 0;
}

// Whether the computed indices of a place may all stand in the head.
static bool indices_may(const Plan *p, const Affine *at) {
  for (int v = 0; at && v < p->l->n_vars; v++)
    if (at->k[v] != 0 && p->l->var[v].node >= 0 && !p->may_head[p->l->var[v].node])
      return false;
  return true;
}

void plan_may_head(Plan *p) {
  const Lower *l = p->l;
  const BlockPlan *grid = &p->block[0];
  for (int n = 0; n < l->node.n; n++) {
    const Node *node = &l->node.at[n];
    const uint32_t own = l->block.at[0].loops;
    bool may = !(node->deps & (plan_bit(grid->column) | ~own));
    if (may && has_row(p, node->deps)) {
      may = is_plain(node) && !hl_is_complex(node->from) && indices_may(p, node->at);
      for (int k = 0; k < node->n; k++)
        may = may && p->may_head[node->arg[k]];
      if (node->kind == NODE_IOTA)  // which takes no computed index
        for (int v = 0; v < l->n_vars; v++)
          may = may && (node->at->k[v] == 0 || l->var[v].node < 0);
    }
    p->may_head[n] = may && grid->row >= 0;
  }
}

bool plan_by_row(const Plan *p, const Affine *at) {
  bool any = false;
  for (int v = 0; v < p->l->n_vars; v++)
    any = any || (at->k[v] != 0 && p->l->var[v].node >= 0 && has_row(p, p->l->var[v].deps));
  return any && p->block[0].row >= 0 && indices_may(p, at);
}

// --- Who wants what -------------------------------------------------------------------------------

static bool want(const Plan *p, int node, bool head) {
  if (node < 0)
    return false;
  bool *set = head && has_row(p, p->l->node.at[node].deps) ? p->in_head : p->in_tile;
  const bool news = !set[node];
  set[node] = true;
  return news;
}

static bool want_indices(const Plan *p, const Affine *at, bool head) {
  bool news = false;
  for (int v = 0; at && v < p->l->n_vars; v++)
    if (at->k[v] != 0)
      news = want(p, p->l->var[v].node, head) || news;
  return news;
}

static bool want_operands(const Plan *p, const Node *node, bool head) {
  bool news = false;
  for (int k = 0; k < node->n; k++)
    news = want(p, node->arg[k], head) || news;
  const bool by_row = node->kind == NODE_LOAD && plan_owner(p, node->deps) == 0 &&
                      plan_in_row(p, 0, node->deps) && plan_by_row(p, node->at);
  return want_indices(p, node->at, head || by_row) || news;
}

static void want_stores(const Plan *p) {
  for (int k = 0; k < p->l->store.n; k++) {
    const Store *store = &p->l->store.at[k];
    const bool head = store->update.is_one && p->block[0].row >= 0;
    want(p, store->value.re, false);
    want(p, store->value.im, false);
    want_indices(p, &store->at, head);
    for (int j = 0; j < store->update.n_checks; j++)
      want(p, store->update.check[j].node, head);
  }
}

void plan_heads(Plan *p) {
  const Lower *l = p->l;
  p->in_head = HL_ARRAY(l->arena, bool, l->node.n + 1);
  p->in_tile = HL_ARRAY(l->arena, bool, l->node.n + 1);
  p->head_value = HL_ARRAY(l->arena, int, l->node.n + 1);
  plan_may_head(p);
  if (p->block[0].row < 0) {
    for (int n = 0; n < l->node.n; n++)
      p->in_tile[n] = p->live[n];
    return;
  }
  want_stores(p);
  for (int b = 1; b < l->block.n; b++)
    for (int k = 0; p->block[b].live && k < l->block.at[b].n_acc; k++) {
      const Block *block = &l->block.at[b];
      const int parts[] = {block->init[k], block->x[k], block->acc[k], block->next[k],
                           block->result[k]};
      for (int j = 0; j < 5; j++)
        want(p, parts[j], false);
    }
  for (int s = 0; s < l->scope.n; s++)
    for (int k = 0; p->scope_live[s] && k < l->scope.at[s].n; k++)
      want_indices(p, &l->scope.at[s].bound[k].at, false);
  for (bool again = true; again;) {  // operands have smaller numbers, but for those of blocks
    again = false;
    for (int n = l->node.n - 1; n >= 0; n--) {
      if (p->live[n] && p->in_tile[n])
        again = want_operands(p, &l->node.at[n], false) || again;
      if (p->live[n] && p->in_head[n])
        again = want_operands(p, &l->node.at[n], true) || again;
    }
  }
}
