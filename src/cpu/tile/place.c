// cpu/tile/place.c: nodes become ops, each in the list where its loops turn.

#include "cpu/tile/plan.h"

#include <string.h>

// --- Sums and accesses ----------------------------------------------------------------------------

static TileSum sum_of(const Plan *p, const Affine *a, uint32_t without) {
  TileTerm *term = HL_ARRAY(p->arena, TileTerm, TILE_MAX_VARS);
  TileSum sum = {.c = a->c, .den = a->den, .term = term};
  for (int v = 0; v < p->l->n_vars; v++)
    if (a->k[v] != 0 && p->l->var[v].n > 1 && !(without & UINT32_C(1) << v))
      term[sum.n++] = (TileTerm){v, a->k[v]};
  return sum;
}

static int64_t step_of(const Affine *a, int var) {
  return var < 0 ? 0 : a->k[var] / a->den;
}

typedef struct Place {
  int block, level;  // -1: for every tile
  bool steps;        // after the others: what folds
  bool head;         // before them: of each row
} Place;

// Whether tiles have all rows, and the innermost loop around them does not change what is read: it is there from the tile before.
static bool stays(const Plan *p, int block, const Affine *at) {
  const BlockPlan *b = &p->block[block];
  return block == 0 && b->n_loops > 0 && at->k[b->loop[b->n_loops - 1]] == 0 &&
         b->rows == p->l->var[b->row].n;
}

// Computed indices that differ along the row are added for each element, or for each row.
static TileAccess access_of(const Plan *p, Place where, int buffer, HlDtype dtype,
                            const Affine *at) {
  const int block = where.block;
  const bool in_row = where.level < 0;
  const BlockPlan *b = &p->block[block];
  const int row = where.head ? -1 : b->row, column = where.head ? b->row : b->column;
  const int64_t columns = where.head ? b->rows : b->columns;
  TileAccess a = {.buffer = buffer, .dtype = dtype};
  struct TileIndex *index = HL_ARRAY(p->arena, struct TileIndex, TILE_MAX_VARS);
  uint32_t varying = 0;
  for (int v = 0; in_row && v < p->l->n_vars; v++)
    if (at->k[v] != 0 && p->l->var[v].node >= 0 && plan_in_row(p, block, p->l->var[v].deps)) {
      varying |= UINT32_C(1) << v;
      index[a.n_index++] = (struct TileIndex){p->l->var[v].node, step_of(at, v)};
    }
  a.index = index;
  a.sum = sum_of(p, at, varying);
  if (!in_row)
    return a;
  a.row_step = step_of(at, row);
  a.column_step = step_of(at, column);
  a.by_row = in_row && block == 0 && row >= 0 && plan_by_row(p, at);
  a.places = vec_places(p->l->maker->level);
  a.keep = vec_keep(p->l->maker->level);
  const bool dense =
      row < 0 || (columns == p->l->var[column].n && a.row_step == a.column_step * columns);
  const bool moves = a.column_step != 0 || a.row_step != 0;
  a.direct = dense && moves && a.column_step == 1 && a.n_index == 0 && tile_is_plain(dtype);
  a.repeats = row >= 0 && columns == p->l->var[column].n && a.n_index == 0 &&
              (a.row_step == 0 || (a.column_step == 0 && !where.head && stays(p, block, at)));
  a.turned = a.row_step == 1 && a.column_step != 1 && a.column_step != 0 && a.n_index == 0 &&
             tile_is_plain(dtype);
  return a;
}

// --- Places ---------------------------------------------------------------------------------------

static Place place_of(const Plan *p, uint32_t deps) {
  Place at = {.block = plan_owner(p, deps)};
  const BlockPlan *b = &p->block[at.block];
  if (plan_in_row(p, at.block, deps)) {
    at.level = -1;
    return at;
  }
  for (int k = 0; k < b->n_loops; k++)
    if (deps & plan_bit(b->loop[k]))
      at.level = k + 1;
  return at;
}

static TileOps *list_at(const Plan *p, Place at) {
  TileBlock *b = p->block[at.block].out;
  return at.head ? &b->head : at.steps ? &b->step : at.level < 0 ? &b->tile : &b->level[at.level];
}

static TileOp *add_op(const Plan *p, Place at, TileKind kind) {
  TileOps *list = list_at(p, at);
  vec_push_in(p->arena, list, ((TileOp){.kind = kind, .out = -1, .im = -1}));
  return &list->at[list->n - 1];
}

static int *list_of(const Plan *p, int n, const int *from) {
  int *list = HL_ARRAY(p->arena, int, n + 1);
  if (n > 0)
    memcpy(list, from, sizeof *list * (size_t)n);
  return list;
}

static int add_value(Plan *p, HlDtype dtype, bool is_row) {
  const HlDtype carrier = vec_carrier(dtype);
  TileNest *nest = p->nest;
  vec_push_in(
      p->arena, &p->values,
      ((TileValue){
          .dtype = carrier, .size = hl_dtype_bytes(carrier), .is_row = is_row, .offset = -1}));
  nest->value = p->values.at;
  return nest->n_values = p->values.n, p->values.n - 1;
}

// --- Scopes ---------------------------------------------------------------------------------------

static void place_scope(Plan *p, int s) {
  if (s <= 0 || p->scope_placed[s])
    return;
  p->scope_placed[s] = true;
  const Scope *from = &p->l->scope.at[s];
  place_scope(p, from->parent);
  const Place at = place_of(p, from->deps);
  TileBound *bound = HL_ARRAY(p->arena, TileBound, from->n);
  for (int k = 0; k < from->n; k++)
    bound[k] = (TileBound){
        .sum = sum_of(p, &from->bound[k].at, 0),
        .step = at.level < 0 ? step_of(&from->bound[k].at, p->block[at.block].column) : 0,
        .n = from->bound[k].n};
  p->nest->scope[s] = (TileScope){from->parent, from->n, bound};
  add_op(p, at, TILE_SCOPE)->scope = s;
}

// The scope that an op of these loops works in: one that is as they are.
static int scope_of(Plan *p, int s, uint32_t deps) {
  while (s > 0 && (p->l->scope.at[s].deps & ~deps) != 0)
    s = p->l->scope.at[s].parent;
  place_scope(p, s);
  return s;
}

// --- Ops ------------------------------------------------------------------------------------------

static VecFn *copy_of(const Plan *p, int value, int same) {
  return vec_fn(p->l->maker->level, VEC_COPY, p->values.at[value].dtype, same);
}

// Which operands are one element for all.
static int same_of(const Plan *p, const TileOp *op) {
  int same = 0;
  for (int k = 0; k < op->n_in; k++)
    if (!p->values.at[op->in[k]].is_row)
      same |= 1 << k;
  return p->values.at[op->out].is_row ? same : 0;
}

// A value as a tile, for those who want no other.
static int as_row(Plan *p, Place at, int value) {
  const int row = add_value(p, p->values.at[value].dtype, true);
  TileOp *op = add_op(p, at, TILE_VEC);
  op->out = row;
  op->n_in = 1;
  op->in = list_of(p, 1, &value);
  op->vec = VEC_COPY;
  op->from = op->dtype = p->values.at[value].dtype;
  op->fn = copy_of(p, value, p->values.at[value].is_row ? 0 : 1);
  return row;
}

static bool set_function(const Plan *p, const Node *node, TileOp *op) {
  const CpuLevel level = p->l->maker->level;
  const int same = same_of(p, op);
  op->vec = node->kind == NODE_VEC ? node->op : VEC_OP_COUNT;
  op->rounds = node->kind == NODE_ROUND;
  op->from = node->from;
  op->dtype = node->dtype;
  if (node->kind == NODE_VEC)
    op->fn = vec_fn(level, node->op, node->from, same);
  else if (node->kind == NODE_ROUND)
    op->fn = vec_round(level, node->dtype);
  else
    op->fn = vec_convert(level, node->from, node->dtype);
  return op->fn != NULL;
}

// What a node is in the head, or to all rows.
static int value_by_row(const Plan *p, int node) {
  return p->in_head[node] ? p->head_value[node] : p->value[node];
}

static void set_indices(Plan *p, TileOp *op) {
  p->gathers = p->gathers || op->access.n_index > 0;
  for (int k = 0; k < op->access.n_index; k++) {
    const int node = op->access.index[k].value;
    ((struct TileIndex *)op->access.index)[k].value =
        op->access.by_row ? value_by_row(p, node) : p->value[node];
  }
}

// Of several results one may lie where an operand does: what another one stores of that operand must have been fetched before,
// also where it passes through what finds nothing but an address.
static void find_stored(Plan *p) {
  const Lower *l = p->l;
  bool several = false;
  p->is_stored = HL_ARRAY(l->arena, bool, l->node.n + 1);
  for (int k = 1; k < l->store.n; k++)
    several |= l->store.at[k].buffer != l->store.at[0].buffer;
  for (int k = 0; several && k < l->store.n; k++)
    p->is_stored[l->store.at[k].value.re] =
        true;  // the other part of a complex number comes with it
  for (int n = l->node.n - 1; n >= 0; n--) {
    const Node *node = &l->node.at[n];
    const bool passes =
        node->kind == NODE_SAME || node->kind == NODE_CHOOSE || node->kind == NODE_LINE;
    for (int k = 0; passes && p->is_stored[n] && k < node->n; k++)
      p->is_stored[node->arg[k]] = true;
  }
}

static void place_load(Plan *p, int n, Place at) {
  const Node *node = &p->l->node.at[n];
  const CpuLevel level = p->l->maker->level;
  const int scope = scope_of(p, node->scope, node->deps);
  TileOp *op = add_op(p, at, TILE_LOAD);
  op->scope = scope;
  op->out = p->value[n];
  op->dtype = node->dtype;
  op->access = access_of(p, at, node->buffer, node->from, node->at);
  op->access.direct &= !p->is_stored[n];
  set_indices(p, op);
  op->access.take = op->access.by_row && op->access.column_step == 1 && tile_is_plain(node->from)
                        ? vec_take(level)
                        : NULL;
  op->access.load = vec_load(level, node->from);
  op->access.gather = op->access.n_index ? vec_gather(level, node->from) : NULL;
  op->access.turn = op->access.turned ? vec_transpose(level, hl_dtype_bytes(node->from)) : NULL;
  if (hl_is_complex(node->from)) {  // its other part is filled along
    op->im = add_value(p, node->dtype, at.level < 0);
    p->im[n] = op->im;
  }
}

static bool place_node(Plan *p, int n, Place at) {
  const Node *node = &p->l->node.at[n];
  const CpuLevel level = p->l->maker->level;
  switch (node->kind) {
  case NODE_CONST:
    p->values.at[p->value[n]].is_const = true;
    p->values.at[p->value[n]].bits = node->bits;
    return true;
  case NODE_LOAD: place_load(p, n, at); return true;
  case NODE_IM: p->value[n] = p->im[node->arg[0]]; return true;
  case NODE_ACC: return true;
  default: break;
  }
  if (p->line[n]) {  // its place moves along the line
    TileOp *place = add_op(p, at, TILE_LINE);
    place->out = p->value[n];
    place->n_in = 1;
    place->in = list_of(p, 1, &p->value[n]);
    place->var = p->block[at.block].column;
  }
  const int scope = scope_of(p, node->scope, node->deps);
  int *in = HL_ARRAY(p->arena, int, node->n + 1), *scopes = HL_ARRAY(p->arena, int, node->n + 1);
  for (int k = 0; k < node->n; k++) {
    in[k] = p->value[node->arg[k]];
    scopes[k] = node->scopes ? scope_of(p, node->scopes[k], node->deps) : 0;
  }
  static const TileKind kind_of[] = {
      [NODE_IOTA] = TILE_IOTA,    [NODE_VEC] = TILE_VEC,       [NODE_CONVERT] = TILE_VEC,
      [NODE_ROUND] = TILE_VEC,    [NODE_PACK] = TILE_PACK,     [NODE_UNPACK] = TILE_UNPACK,
      [NODE_SAME] = TILE_SAME,    [NODE_CHOOSE] = TILE_CHOOSE, [NODE_LINE] = TILE_LINE,
      [NODE_RESULT] = TILE_REDUCE};
  TileOp *op = add_op(p, at, kind_of[node->kind]);
  op->scope = scope;
  op->out = p->value[n];
  op->n_in = node->n;
  op->in = in;
  op->scopes = scopes;
  op->dtype = node->dtype;
  op->from = node->from;
  switch (node->kind) {
  case NODE_IOTA:
    op->access = access_of(p, at, -1, HL_S64, node->at);
    op->iota = vec_iota(level, node->dtype);
    return op->access.n_index == 0 && op->iota;
  case NODE_LINE: op->var = p->block[at.block].column; return true;
  case NODE_PACK: op->access.store = vec_store(level, node->from); return true;
  case NODE_UNPACK: op->access.load = vec_load(level, node->dtype); return true;
  case NODE_CHOOSE:
    op->copy[0] = copy_of(p, op->out, 0);
    op->copy[1] = copy_of(p, op->out, 1);
    return op->copy[0] && op->copy[1];
  case NODE_VEC:
  case NODE_CONVERT:
  case NODE_ROUND: return set_function(p, node, op);
  default: return true;
  }
}

// --- Reductions -----------------------------------------------------------------------------------

// What a body folds, under its own name.
static bool is_own_x(const Node *node) {
  return node->block > 0 && (node->kind == NODE_SAME || node->kind == NODE_VEC);
}

// Whether a node is of a block's body: it needs an accumulator, or what is folded.
static bool *find_steps(const Plan *p, int block) {
  const Lower *l = p->l;
  bool *steps = HL_ARRAY(l->arena, bool, l->node.n + 1);
  for (int n = 0; n < l->node.n; n++) {
    const Node *node = &l->node.at[n];
    if (node->kind == NODE_ACC || is_own_x(node))
      steps[n] = node->block == block;
    for (int k = 0; k < node->n; k++)
      steps[n] = steps[n] || (steps[node->arg[k]] && !is_own_x(node));
  }
  return steps;
}

// Whether `next` may be written where its accumulator is: nothing reads that afterwards.
static bool may_replace(const Plan *p, int block, int k) {
  const Lower *l = p->l;
  const Block *b = &l->block.at[block];
  const Node *next = &l->node.at[b->next[k]];
  if (next->kind != NODE_VEC || next->scope != b->scope || !p->block[block].steps[b->next[k]])
    return false;
  for (int n = b->next[k] + 1; n < l->node.n; n++)
    for (int j = 0; j < l->node.at[n].n; j++)
      if (p->live[n] && l->node.at[n].arg[j] == b->acc[k])
        return false;
  for (int j = 0; j < b->n_acc; j++)
    if (j != k && (b->next[j] == b->next[k] || b->next[j] == b->acc[k]))
      return false;
  return true;
}

// A simple op on what lies in memory, and nothing else: all turns of the last loop are folded at once.
static bool folds_rows(const Block *from, const TileBlock *b) {
  const TileOp *load = b->tile.at, *step = b->step.at;
  return b->fold == TILE_FOLD_TILES && b->is_row && from->fold != VEC_OP_COUNT && b->n_acc == 1 &&
         b->n_loops > 0 && b->level[b->n_loops].n == 0 && b->tile.n == 1 && b->step.n == 1 &&
         load->kind == TILE_LOAD && load->access.direct && load->access.sum.den == 1 &&
         load->scope == 0 && load->out == b->acc[0].x && step->kind == TILE_VEC &&
         b->acc[0].replaced && b->acc[0].scope == 0;
}

static bool place_reduce(Plan *p, int n, Place at) {
  const Node *node = &p->l->node.at[n];
  const Block *from = &p->l->block.at[node->block];
  BlockPlan *b = &p->block[node->block];
  if (n != b->last_node)
    return true;  // it runs where the last of its results is asked for
  TileBlock *out = b->out;
  const CpuLevel level = p->l->maker->level;
  out->fold = !b->own_row                  ? TILE_FOLD_TILES
              : from->fold != VEC_OP_COUNT ? TILE_FOLD_VEC
                                           : TILE_FOLD_LANES;
  out->is_row = b->is_row;
  out->n_acc = from->n_acc;
  out->acc = HL_ARRAY(p->arena, TileAcc, from->n_acc);
  const Place tile = {.block = node->block, .level = -1};
  for (int k = 0; k < from->n_acc; k++) {
    TileAcc *acc = &out->acc[k];
    *acc = (TileAcc){.init = from->first ? -1 : p->value[from->init[k]],
                     .x = p->value[from->x[k]],
                     .acc = p->value[from->acc[k]],
                     .next = p->value[from->next[k]],
                     .result = p->value[from->result[k]],
                     .replaced = may_replace(p, node->block, k),
                     .scope = scope_of(p, from->scope, p->l->node.at[from->acc[k]].deps)};
    for (int s = 0; s < 2; s++)
      acc->copy[s] = copy_of(p, acc->acc, s);
    if (b->own_row && !p->values.at[acc->x].is_row)
      acc->x = as_row(p, tile, acc->x);
  }
  for (int k = 0; k < from->n_acc && out->fold != TILE_FOLD_LANES; k++)
    p->value[from->result[k]] = out->acc[k].result = out->acc[k].acc;
  out->vec = from->fold;
  if (out->fold == TILE_FOLD_VEC)
    out->vec_fold = vec_fold(level, from->fold, p->values.at[out->acc[0].acc].dtype);
  if (folds_rows(from, out))
    out->fold_rows = vec_fold_rows(level, from->fold, p->values.at[out->acc[0].acc].dtype);
  add_op(p, at, TILE_REDUCE)->block = out;
  return true;
}

// --- All of it ------------------------------------------------------------------------------------

static void new_blocks(Plan *p) {
  for (int k = 0; k < p->l->block.n; k++) {
    BlockPlan *b = &p->block[k];
    if (!b->live)
      continue;
    b->out = k == 0 ? &p->nest->grid : HL_NEW(p->arena, TileBlock);
    const bool turns = k == 0 || b->own_row;
    *b->out = (TileBlock){.n_loops = b->n_loops,
                          .loop = b->loop,
                          .row_var = turns ? b->row : -1,
                          .column_var = turns ? b->column : -1,
                          .rows = b->rows,
                          .columns = b->columns,
                          .level = HL_ARRAY(p->arena, TileOps, b->n_loops + 1)};
    b->steps = k == 0 ? NULL : find_steps(p, k);
  }
}

// Where a node stands; accumulators are where their block's innermost ops are.
static Place place_of_node(const Plan *p, int n) {
  const Node *node = &p->l->node.at[n];
  Place at = place_of(p, node->deps);
  at.steps = at.block > 0 && p->block[at.block].steps[n] && !is_own_x(node);
  return at;
}

static void set_update(Plan *p, const Store *store, TileOp *op) {
  const CpuLevel level = p->l->maker->level;
  TileCheck *check = HL_ARRAY(p->arena, TileCheck, store->update.n_checks + 1);
  for (int k = 0; k < store->update.n_checks; k++) {
    const int node = store->update.check[k].node;
    check[k] = (TileCheck){op->access.by_row ? value_by_row(p, node) : p->value[node],
                           store->update.check[k].n};
  }
  op->n_checks = store->update.n_checks;
  op->check = check;
  op->load = vec_load(level, store->dtype);
  op->fn =
      store->update.assigns ? NULL : vec_fn(level, store->update.op, vec_carrier(store->dtype), 0);
  op->vec = store->update.op;
  op->round = tile_is_narrow(store->dtype) ? vec_round(level, store->dtype) : NULL;
  const bool rows = op->access.by_row && op->access.column_step == 1 && tile_is_plain(store->dtype);
  op->put = rows && store->update.assigns ? vec_put(level) : NULL;
  op->join =
      rows && !store->update.assigns ? vec_join(level, store->update.op, store->dtype) : NULL;
  set_indices(p, op);
}

// The last op of all may write the result where it is stored: nothing is read after it.
static void aim(Plan *p, Place at, int list_end) {
  TileOps *list = list_at(p, at);
  TileOp *store = &list->at[list->n - 1];
  if (list_end == 0 || at.level >= 0 || !store->access.direct || store->scope != 0)
    return;
  TileOp *maker = &list->at[list_end - 1];
  const bool loads = maker->kind == TILE_LOAD && !maker->access.direct && !maker->access.repeats &&
                     tile_is_plain(maker->access.dtype);
  if ((maker->kind != TILE_VEC && maker->kind != TILE_CHOOSE && maker->kind != TILE_PACK &&
       !loads) ||
      maker->out != store->in[0] || maker->scope != 0 || maker->aim)
    return;
  TileAccess *place = HL_NEW(p->arena, TileAccess);
  *place = store->access;
  maker->aim = place;
  store->aimed = true;
}

static bool place_stores(Plan *p) {
  const int list_end = p->nest->grid.tile.n;
  for (int k = 0; k < p->l->store.n; k++) {
    const Store *store = &p->l->store.at[k];
    uint32_t deps = affine_deps(p->l, &store->at) | p->l->scope.at[store->scope].deps;
    deps |= p->l->node.at[store->value.re].deps;
    for (int j = 0; j < store->update.n_checks; j++)
      deps |= p->l->node.at[store->update.check[j].node].deps;
    const Place at = place_of(p, deps);
    const int scope = scope_of(p, store->scope, deps);
    int in[2] = {p->value[store->value.re], store->value.im < 0 ? -1 : p->value[store->value.im]};
    for (int j = 0; j < 2; j++)
      if (at.level < 0 && in[j] >= 0 && !p->values.at[in[j]].is_row)
        in[j] = as_row(p, at, in[j]);
    TileOp *op = add_op(p, at, store->update.is_one ? TILE_UPDATE : TILE_STORE);
    op->scope = scope;
    op->n_in = in[1] < 0 ? 1 : 2;
    op->in = list_of(p, 2, in);
    op->access = access_of(p, at, store->buffer, store->dtype, &store->at);
    op->access.store = vec_store(p->l->maker->level, store->dtype);
    op->access.turn =
        op->access.turned ? vec_transpose(p->l->maker->level, hl_dtype_bytes(store->dtype)) : NULL;
    if (store->update.is_one)
      set_update(p, store, op);
    if (at.block != 0 || (op->access.n_index && !store->update.is_one))
      return tile_fail(p->l, "a store inside a reduction").re >= 0;
    if (store->update.is_one && hl_is_complex(store->dtype))
      return tile_fail(p->l, "an update of complex numbers").re >= 0;
    if (!store->update.is_one && in[0] == p->value[store->value.re])
      aim(p, at, list_end);
  }
  return true;
}

// A node as an op on one element a row, among the others of the head.
static bool place_in_head(Plan *p, int n) {
  int *const value = p->value;
  const Node *node = &p->l->node.at[n];
  p->head_value[n] = add_value(p, node->dtype, true);
  for (int k = 0; k < node->n; k++)
    p->head_value[node->arg[k]] = value_by_row(p, node->arg[k]);
  p->value = p->head_value;
  const bool ok = place_node(p, n, (Place){.level = -1, .head = true});
  p->value = value;
  return ok;
}

bool plan_place(Plan *p) {
  Lower *l = p->l;
  new_blocks(p);
  find_stored(p);
  p->nest->scope = HL_ARRAY(p->arena, TileScope, l->scope.n);
  p->nest->scope[0].parent = -1;
  p->nest->n_scopes = l->scope.n;
  p->scope_placed = HL_ARRAY(l->arena, bool, l->scope.n + 1);
  p->value = HL_ARRAY(l->arena, int, l->node.n + 1);
  p->im = HL_ARRAY(l->arena, int, l->node.n + 1);
  for (int n = 0; n < l->node.n; n++) {  // lines are asked for before they are made
    p->value[n] = p->live[n] && p->line[n] ? add_value(p, l->node.at[n].dtype, true) : -1;
    p->head_value[n] = -1;
  }
  for (int n = 0; n < l->node.n; n++) {
    if (!p->live[n])
      continue;
    if (p->in_head[n] && !place_in_head(p, n))
      return tile_fail(l, "an op that has no vector function").re >= 0;
    if (!p->in_tile[n])
      continue;
    const Node *node = &l->node.at[n];
    const Place at = place_of_node(p, n);
    const bool folded = at.steps && p->block[at.block].own_row &&
                        l->block.at[at.block].fold != VEC_OP_COUNT;  // vec_fold does it
    if (node->kind != NODE_IM && p->value[n] < 0) {
      p->value[n] = add_value(p, node->dtype, node->kind != NODE_CONST && at.level < 0 && !folded);
    }
    if (folded)
      continue;
    const bool ok = node->kind == NODE_RESULT ? place_reduce(p, n, at) : place_node(p, n, at);
    if (!ok || l->why)
      return tile_fail(l, "an op that has no vector function").re >= 0;
    for (int v = 0; v < l->n_vars; v++)
      if (l->var[v].node == n && !plan_in_row(p, at.block, node->deps)) {
        const int scope = scope_of(p, node->scope, node->deps);
        TileOp *op = add_op(p, at, TILE_INDEX);
        op->scope = scope;
        op->var = v;
        op->n_in = 1;
        op->in = list_of(p, 1, &p->value[n]);
      }
  }
  return place_stores(p);
}
