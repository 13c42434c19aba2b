// cpu/tile/loops.c: which loops of a nest are joined, which are its rows, and in what order the others turn.
//
// Two loops that every access takes as one (k of the outer is k of the inner times its length) become one. The row is chosen by
// what it would cost: each loop of the grid is tried, alone and, where it is short or where memory lies along another, with a
// second one.

#include "cpu/tile/plan.h"

#include <string.h>

// --- What is needed -------------------------------------------------------------------------------

static void need_scope(Plan *p, int s);

static void need(Plan *p, int node) {
  if (node >= 0)
    p->live[node] = true;
}

static void need_sum(Plan *p, const Affine *a) {
  for (int v = 0; v < p->l->n_vars; v++)
    if (a->k[v] != 0)
      need(p, p->l->var[v].node);
}

static void need_scope(Plan *p, int s) {
  for (; s > 0 && !p->scope_live[s]; s = p->l->scope.at[s].parent) {
    p->scope_live[s] = true;
    for (int k = 0; k < p->l->scope.at[s].n; k++)
      need_sum(p, &p->l->scope.at[s].bound[k].at);
  }
}

static void need_block(Plan *p, int b) {
  const Block *block = &p->l->block.at[b];
  BlockPlan *plan = &p->block[b];
  plan->live = true;
  for (int k = 0; k < block->n_acc; k++) {
    need(p, block->init[k]);
    need(p, block->x[k]);
    need(p, block->acc[k]);
    need(p, block->next[k]);
    need(p, block->result[k]);
    if (block->result[k] > plan->last_node)
      plan->last_node = block->result[k];
    plan->result_deps |= p->l->node.at[block->result[k]].deps;
  }
  need_scope(p, block->scope);
}

// From the stores to what they need, and so on. Blocks that were needed before stay.
static void find_live(Plan *p) {
  Lower *l = p->l;
  bool *entered = HL_ARRAY(l->arena, bool, l->block.n + 1);
  for (int k = 0; k < l->store.n; k++) {
    need(p, l->store.at[k].value.re);
    need(p, l->store.at[k].value.im);
    need_sum(p, &l->store.at[k].at);
    for (int j = 0; j < l->store.at[k].update.n_checks; j++)
      need(p, l->store.at[k].update.check[j].node);
    p->in_order |= l->store.at[k].update.in_order;
    p->updates = p->updates || l->store.at[k].update.is_one;
    need_scope(p, l->store.at[k].scope);
  }
  for (int b = 1; b < l->block.n; b++)
    if (p->block[b].live)
      need_block(p, b);
  for (int n = l->node.n - 1; n >= 0; n--) {
    const Node *node = &l->node.at[n];
    if (!p->live[n])
      continue;
    for (int k = 0; k < node->n; k++)
      need(p, node->arg[k]);
    for (int k = 0; node->scopes && k < node->n; k++)
      need_scope(p, node->scopes[k]);
    need_scope(p, node->scope);
    if (node->at)
      need_sum(p, node->at);
    if (node->kind != NODE_RESULT || entered[node->block])
      continue;
    entered[node->block] = true;
    need_block(p, node->block);
    n = p->block[node->block].last_node + 1;  // once more from its last result
  }
}

void plan_live(Plan *p) {
  Lower *l = p->l;
  p->live = HL_ARRAY(l->arena, bool, l->node.n + 1);
  p->scope_live = HL_ARRAY(l->arena, bool, l->scope.n + 1);
  p->may_head = HL_ARRAY(l->arena, bool, l->node.n + 1);
  p->block = HL_ARRAY(l->arena, BlockPlan, l->block.n + 1);
  p->block[0].live = true;
  find_live(p);
}

void plan_live_again(Plan *p) {
  const uint32_t in_order = p->in_order;
  p->live = HL_ARRAY(p->l->arena, bool, p->l->node.n + 1);
  find_live(p);
  p->in_order = in_order;
}

// --- Joining loops --------------------------------------------------------------------------------

// `n` of what is a bound of a scope, 0 <= a < *n; NULL else.
typedef bool OnSum(Plan *p, Affine *a, int64_t *n, int outer, int inner);

// Goes over the sums of all that is needed, until one answers no.
static bool each_sum(Plan *p, OnSum *on, int outer, int inner) {
  Lower *l = p->l;
  for (int n = 0; n < l->node.n; n++)
    if (p->live[n] && l->node.at[n].at && !on(p, (Affine *)l->node.at[n].at, NULL, outer, inner))
      return false;
  for (int s = 0; s < l->scope.n; s++)
    for (int k = 0; p->scope_live[s] && k < l->scope.at[s].n; k++)
      if (!on(p, (Affine *)&l->scope.at[s].bound[k].at, (int64_t *)&l->scope.at[s].bound[k].n,
              outer, inner))
        return false;
  for (int k = 0; k < l->store.n; k++)
    if (!on(p, &l->store.at[k].at, NULL, outer, inner))
      return false;
  return true;
}

// A bound of the outer loop alone is one of both: 0 <= i < n as 0 <= m i + j < m n, where j < m.
static bool is_joint(Plan *p, Affine *a, int64_t *n, int outer, int inner) {
  const bool alone =
      n && a->den == 1 && a->k[inner] == 0 && (a->k[outer] == 1 || a->k[outer] == -1);
  return alone || a->k[outer] == a->k[inner] * p->l->var[inner].n;
}

static bool drop_outer(Plan *p, Affine *a, int64_t *n, int outer, int inner) {
  if (a->k[outer] != a->k[inner] * p->l->var[inner].n) {
    const int64_t sign = a->k[outer], m = p->l->var[inner].n;
    *a = affine_times(a, m);
    a->k[inner] = sign;
    a->c += sign < 0 ? m - 1 : 0;
    *n *= m;
  }
  a->k[outer] = 0;
  return true;
}

static uint32_t without(uint32_t deps, int outer, int inner) {
  return deps & plan_bit(outer) ? (deps & ~plan_bit(outer)) | plan_bit(inner) : deps;
}

static void join(Plan *p, int outer, int inner) {
  Lower *l = p->l;
  p->in_order &= ~plan_bit(outer);
  each_sum(p, drop_outer, outer, inner);
  l->var[inner].n *= l->var[outer].n;
  l->var[outer].n = 1;
  for (int n = 0; n < l->node.n; n++)
    l->node.at[n].deps = without(l->node.at[n].deps, outer, inner);
  for (int s = 0; s < l->scope.n; s++)
    l->scope.at[s].deps = without(l->scope.at[s].deps, outer, inner);
  for (int v = 0; v < l->n_vars; v++)
    l->var[v].deps = without(l->var[v].deps, outer, inner);
  for (int b = 0; b < l->block.n; b++)
    p->block[b].result_deps = without(p->block[b].result_deps, outer, inner);
  l->block.at[l->var[inner].block].loops &= ~plan_bit(outer);
}

void plan_collapse(Plan *p) {
  Lower *l = p->l;
  bool again = true;
  while (again) {
    again = false;
    for (int a = 0; a < l->n_vars && !again; a++)
      for (int b = 0; b < l->n_vars && !again; b++) {
        const int block = l->var[a].block;
        const bool ordered = p->in_order & plan_bit(b);
        if (ordered != ((p->in_order & plan_bit(a)) != 0) || (ordered && a > b) ||
            (block > 0 && l->block.at[block].in_order && a > b))
          continue;
        if (a == b || l->var[a].n == 1 || l->var[b].n == 1 || block < 0 ||
            l->var[b].block != block || !p->block[block].live || !each_sum(p, is_joint, a, b))
          continue;
        join(p, a, b);
        again = true;
      }
  }
}

// --- Blocks ---------------------------------------------------------------------------------------

int plan_owner(const Plan *p, uint32_t deps) {
  int owner = 0;
  for (int b = 1; b < p->l->block.n; b++)
    if (p->block[b].live && (p->l->block.at[b].loops & deps) &&
        p->block[b].depth >= p->block[owner].depth)
      owner = b;
  return owner;
}

static void nest_blocks(Plan *p) {
  for (int b = 1; b < p->l->block.n; b++)
    if (p->block[b].live) {
      p->block[b].parent = plan_owner(p, p->block[b].result_deps);
      p->block[b].depth = p->block[p->block[b].parent].depth + 1;
    }
}

// --- What a row costs -----------------------------------------------------------------------------

static int64_t step_of(const Affine *a, int var) {
  return var < 0 ? 0 : a->k[var] / a->den;
}

static bool is_whole(const Affine *a, int var) {
  return var < 0 || a->k[var] % a->den == 0;
}

enum { FEW_ROWS = 8 };  // to turn fewer reads lines of memory again and again

// Nanoseconds an element of an access along a row, beside those of the whole tile.
static double access_cost(const Plan *p, int block, const Affine *a) {
  const int row = p->block[block].row, column = p->block[block].column;
  const int64_t along = step_of(a, column), across = step_of(a, row);
  if (block == 0 && plan_by_row(p, a) && along == 1)
    return 0.05 + 4.0 / (double)p->l->var[column].n;
  for (int v = 0; v < p->l->n_vars; v++)
    if (a->k[v] != 0 && p->l->var[v].node >= 0 &&
        (p->l->var[v].deps & (plan_bit(row) | plan_bit(column))))
      return 2;
  const int64_t n = column < 0 ? 1 : p->l->var[column].n;
  if (along == 1 || along == 0)  // rows side by side, or all alike, are one
    return row < 0 || across == 0 || across == along * n ? 0.05 : 0.05 + 3.0 / (double)n;
  if (across == 1 && p->l->var[row].n >= FEW_ROWS)
    return 0.25;
  const int64_t size = along < 0 ? -along : along;
  return size <= 16 ? 0.9 : 2;
}

static double turns_of(const Plan *p, uint32_t deps) {
  double turns = 1;
  for (int v = 0; v < p->l->n_vars; v++)
    if (deps & plan_bit(v))
      turns *= (double)p->l->var[v].n;
  return turns;
}

static double node_cost(const Node *node) {
  const double wide =
      node->kind != NODE_CONST && hl_dtype_bytes(vec_carrier(node->from)) == 8 ? 2 : 1;
  switch (node->kind) {
  case NODE_VEC: return vec_info[node->op].cost * wide;
  case NODE_CONVERT:
  case NODE_ROUND:
  case NODE_PACK:
  case NODE_UNPACK: return 0.15;
  case NODE_IOTA:
  case NODE_CHOOSE: return 0.04;
  default: return 0;
  }
}

// An op, or a store, on all that its loops turn.
static double op_cost(const Plan *p, int block, uint32_t deps, const Affine *at, double each) {
  const BlockPlan *b = &p->block[block];
  if (!plan_in_row(p, block, deps))
    return turns_of(p, deps) * 8;
  const double turns =
      turns_of(p, deps | plan_bit(b->row) | plan_bit(b->column));  // tiles are whole
  double tile = 1;
  tile *= b->column < 0 ? 1 : (double)p->l->var[b->column].n;
  tile *= b->row < 0 ? 1 : (double)p->l->var[b->row].n;
  tile = tile < TILE_SIZE ? tile : TILE_SIZE;
  return turns * (each + (at ? access_cost(p, block, at) : 0)) + turns / tile * 8;
}

// Whole steps, of the loops and of what is computed for each element.
static bool sum_allows(const Plan *p, const Affine *a, int row, int column) {
  const Lower *l = p->l;
  for (int v = 0; a->den != 1 && v < l->n_vars; v++)
    if (l->var[v].node >= 0 && (l->var[v].deps & (plan_bit(row) | plan_bit(column))) &&
        !is_whole(a, v))
      return false;
  return is_whole(a, row) && is_whole(a, column);
}

// Whether a block's ops may run along these loops: places are whole numbers, and a box of two has no ranges.
static bool row_is_allowed(const Plan *p, uint32_t within, int row, int column) {
  const Lower *l = p->l;
  const uint32_t bits = plan_bit(row) | plan_bit(column);
  for (int n = 0; n < l->node.n; n++)
    if (p->live[n] && l->node.at[n].at && !sum_allows(p, l->node.at[n].at, row, column))
      return false;
  for (int s = 1; s < l->scope.n; s++) {
    if (!p->scope_live[s] || !(l->scope.at[s].deps & bits))
      continue;
    if (row >= 0)
      return false;
    for (int k = 0; k < l->scope.at[s].n; k++) {
      const Affine *at = &l->scope.at[s].bound[k].at;
      if (!sum_allows(p, at, row, column))
        return false;
      for (int v = 0; v < l->n_vars; v++)  // a bound that is computed for each element
        if (at->k[v] != 0 && l->var[v].node >= 0 && (l->var[v].deps & bits))
          return false;
    }
  }
  for (int k = 0; k < l->store.n && within == 0; k++)
    if (!sum_allows(p, &l->store.at[k].at, row, column))
      return false;
  return true;
}

// The loops of a reduction along which it folds a row: where most of what it reads lies side by side.
static void choose_own_row(Plan *p, int b) {
  Lower *l = p->l;
  BlockPlan *plan = &p->block[b];
  const uint32_t loops = l->block.at[b].loops;
  double best = -1;
  plan->row = plan->column = -1;
  plan->own_row = false;
  bool scoped = false;  // bodies of several accumulators work on whole tiles
  for (int s = l->block.at[b].scope; s > 0; s = l->scope.at[s].parent)
    scoped = scoped || (l->scope.at[s].deps & loops);
  if ((scoped || l->block.at[b].in_order) && l->block.at[b].fold == VEC_OP_COUNT)
    return;
  for (int v = 0; v < l->n_vars; v++) {
    if (!(loops & plan_bit(v)) || l->var[v].n < 2 || !row_is_allowed(p, loops, -1, v))
      continue;
    double score = (double)l->var[v].n * 1e-9;
    for (int n = 0; n < l->node.n; n++)
      if (p->live[n] && l->node.at[n].at && (l->node.at[n].deps & loops)) {
        const int64_t k = step_of(l->node.at[n].at, v);
        score += (k == 1 ? 1 : k == 0 ? 0.5 : 0) * turns_of(p, l->node.at[n].deps);
      }
    if (score > best) {
      best = score;
      plan->column = v;
      plan->own_row = true;
    }
  }
  if (plan->column < 0 || l->var[plan->column].n >= 256)
    return;
  int64_t longest = 1;
  for (int v = 0; v < l->n_vars; v++)  // a short row: several of them
    if ((loops & plan_bit(v)) && v != plan->column && l->var[v].n > longest &&
        row_is_allowed(p, loops, v, plan->column)) {
      longest = l->var[v].n;
      plan->row = v;
    }
}

// A block that folds for a whole tile does its ops once for every element of it.
static uint32_t done_for(const Plan *p, int block, uint32_t deps) {
  const BlockPlan *b = &p->block[block];
  return b->is_row ? deps | plan_bit(b->row) | plan_bit(b->column) : deps;
}

static double try_row(Plan *p, int row, int column) {
  Lower *l = p->l;
  p->block[0].row = row;
  p->block[0].column = column;
  plan_may_head(p);
  for (int b = 1; b < l->block.n; b++) {
    BlockPlan *plan = &p->block[b];
    if (!plan->live)
      continue;
    plan->is_row = plan_in_row(p, plan->parent, plan->result_deps);
    plan->own_row = false;
    if (plan->is_row) {
      plan->row = p->block[plan->parent].row;
      plan->column = p->block[plan->parent].column;
    } else {
      choose_own_row(p, b);
    }
  }
  double cost = 0;
  for (int n = 0; n < l->node.n; n++)
    if (p->live[n] && l->node.at[n].kind != NODE_CONST) {
      const Node *node = &l->node.at[n];
      const int owner = plan_owner(p, node->deps);
      cost += op_cost(p, owner, done_for(p, owner, node->deps),
                      node->kind == NODE_LOAD ? node->at : NULL, node_cost(node));
    }
  for (int k = 0; k < l->store.n; k++)
    cost += op_cost(p, 0, l->block.at[0].loops, &l->store.at[k].at, 0);
  return cost;
}

// --- Choosing -------------------------------------------------------------------------------------

static bool crosses(const Affine *a, int row, int column) {
  const int64_t along = step_of(a, column);
  return step_of(a, row) == 1 && along != 0 && along != 1;
}

// Whether memory lies along the rows, not the columns, of a tile.
static bool is_turned(const Plan *p, int row, int column) {
  const Lower *l = p->l;
  for (int n = 0; n < l->node.n; n++)
    if (p->live[n] && l->node.at[n].kind == NODE_LOAD && crosses(l->node.at[n].at, row, column))
      return true;
  for (int k = 0; k < l->store.n; k++)
    if (crosses(&l->store.at[k].at, row, column))
      return true;
  return false;
}

// Loops that turn more than once.
static uint32_t turning(const Plan *p) {
  uint32_t bits = 0;
  for (int v = 0; v < p->l->n_vars; v++)
    bits |= p->l->var[v].n > 1 ? plan_bit(v) : 0;
  return bits;
}

// Whether a loop is the last of those in order, which turns within them all.
static bool is_last_in_order(const Plan *p, int var) {
  return (p->in_order & plan_bit(var)) && (var == 31 || !((p->in_order & turning(p)) >> (var + 1)));
}

// Whether the places of updates are alike along the rows.
static bool updates_by_row(Plan *p, int row, int column) {
  const Lower *l = p->l;
  p->block[0].row = row;
  p->block[0].column = column;
  plan_may_head(p);
  for (int k = 0; k < l->store.n; k++) {
    const Store *store = &l->store.at[k];
    if (!plan_by_row(p, &store->at))
      return false;
    for (int j = 0; j < store->update.n_checks; j++)
      if (!p->may_head[store->update.check[j].node])
        return false;
  }
  return true;
}

// Loops in order are the outer ones; without others the last of them is the row, or with one other the rows.
static bool may_be_row(Plan *p, uint32_t loops, int row, int column) {
  if (!p->updates)
    return true;
  const uint32_t free = loops & ~p->in_order & turning(p);
  if (p->in_order & plan_bit(column))
    return row < 0 && is_last_in_order(p, column) && !free;
  return row < 0 || (is_last_in_order(p, row) && free == plan_bit(column) &&
                     p->l->var[column].n <= TILE_SIZE / 2 && updates_by_row(p, row, column));
}

static void choose_grid_row(Plan *p) {
  const Lower *l = p->l;
  const uint32_t loops = l->block.at[0].loops;
  double best = try_row(p, -1, -1);
  int row = -1, column = -1;
  for (int c = 0; c < l->n_vars; c++) {
    if (!(loops & plan_bit(c)) || l->var[c].n < 2)
      continue;
    for (int r = -1; r < l->n_vars; r++) {
      const bool pairs = r >= 0 && !tile_box_by_row(l) && r != c && (loops & plan_bit(r)) &&
                         l->var[r].n >= 2 && (l->var[c].n <= TILE_SIZE / 2 || is_turned(p, r, c));
      if ((r >= 0 && !pairs) || !may_be_row(p, loops, r, c) || !row_is_allowed(p, 0, r, c))
        continue;
      const double cost = try_row(p, r, c);
      if (cost < best * 0.999) {
        best = cost;
        row = r;
        column = c;
      }
    }
  }
  p->cost = try_row(p, row, column);
}

// How far apart in memory what a loop's neighbours touch lies.
static int64_t reach_of(const Plan *p, int block, int var) {
  const Lower *l = p->l;
  int64_t reach = 0;
  if (block == 0 && l->store.n > 0)
    reach = step_of(&l->store.at[0].at, var);
  for (int n = 0; n < l->node.n && block > 0; n++)
    if (p->live[n] && l->node.at[n].kind == NODE_LOAD) {
      const int64_t k = step_of(l->node.at[n].at, var), size = k < 0 ? -k : k;
      reach = size > reach ? size : reach;
    }
  return reach < 0 ? -reach : reach;
}

static bool goes_before(const Plan *p, int block, int v, int64_t reach, bool ordered, int other) {
  const bool other_ordered = block == 0 && (p->in_order & plan_bit(other));
  return ordered != other_ordered ? ordered : !ordered && reach_of(p, block, other) < reach;
}

static void order_loops(Plan *p, int block) {
  Lower *l = p->l;
  BlockPlan *b = &p->block[block];
  const uint32_t own = b->own_row || block == 0 ? plan_bit(b->row) | plan_bit(b->column) : 0;
  const bool any_order = block == 0 || l->block.at[block].fold != VEC_OP_COUNT;
  b->loop = HL_ARRAY(p->arena, int, TILE_MAX_VARS);
  for (int v = 0; v < l->n_vars; v++) {
    if (!(l->block.at[block].loops & ~own & plan_bit(v)) || l->var[v].n < 2)
      continue;
    int at = b->n_loops++;
    const int64_t reach = reach_of(p, block, v);
    const bool ordered = block == 0 && (p->in_order & plan_bit(v));
    for (; any_order && at > 0 && goes_before(p, block, v, reach, ordered, b->loop[at - 1]); at--)
      b->loop[at] = b->loop[at - 1];
    b->loop[at] = v;
  }
}

// How many rows and columns make a tile.
static void size_tile(Plan *p, int block) {
  const Lower *l = p->l;
  BlockPlan *b = &p->block[block];
  if (block > 0 && !b->own_row) {
    b->rows = p->block[b->parent].rows;
    b->columns = p->block[b->parent].columns;
    return;
  }
  b->rows = b->columns = 1;
  if (b->column < 0)
    return;
  const int64_t n = l->var[b->column].n;
  b->columns = n < TILE_SIZE ? n : TILE_SIZE;
  if (b->row < 0)
    return;
  if (b->columns > TILE_SIZE / 2 || (!p->updates && is_turned(p, b->row, b->column)))
    b->columns = n < 32 ? n : 32;
  b->rows = TILE_SIZE / b->columns;
  if (b->rows > l->var[b->row].n)
    b->rows = l->var[b->row].n;
}

void plan_rows(Plan *p) {
  nest_blocks(p);
  choose_grid_row(p);
  for (int b = 0; b < p->l->block.n; b++)
    if (p->block[b].live) {
      order_loops(p, b);
      size_tile(p, b);
    }
}
