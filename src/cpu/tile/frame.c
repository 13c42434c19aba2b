// cpu/tile/frame.c: where values are while a nest runs, and how it is cut into chunks.
//
// A uniform value has a cell of its own. A tile has a place that others had before, whose last reader has run: nodes are numbered
// in the order in which they run, but that what stands outside of a block runs before all that stands in it, and that what a block
// reads from outside it reads until its end.

#include "cpu/tile/plan.h"

enum { CELL = 16, SLACK = 64, LINE = 64 };

typedef struct Life {
  int from, to;  // nodes
} Life;

// The block in which a value's op stands, whose loops turn it.
static int home_of(const Plan *p, int node) {
  return plan_owner(p, p->l->node.at[node].deps);
}

static bool stands_in(const Plan *p, int home, int block) {
  while (home != 0 && home != block)
    home = p->block[home].parent;
  return home == block;
}

static void reads(const Plan *p, Life *life, int what, int reader) {
  if (what < 0)
    return;
  int until = reader;
  for (int b = home_of(p, reader); b != 0 && !stands_in(p, home_of(p, what), b);
       b = p->block[b].parent)
    until = p->block[b].last_node > until ? p->block[b].last_node : until;
  life[what].to = until > life[what].to ? until : life[what].to;
}

static void reads_sum(const Plan *p, Life *life, const Affine *at, int reader) {
  for (int v = 0; at && v < p->l->n_vars; v++)
    if (at->k[v] != 0)
      reads(p, life, p->l->var[v].node, reader);
}

// What shares a place with it lives as long.
static void live_until(const Plan *p, Life *life, int n, int to) {
  const Node *node = p->l->node.at;
  life[n].to = life[n].to > to ? life[n].to : to;
  if (node[n].kind == NODE_IM || node[n].kind == NODE_SAME)
    live_until(p, life, node[n].arg[0], to);
}

static Life *find_lives(const Plan *p) {
  const Lower *l = p->l;
  Life *life = HL_ARRAY(l->arena, Life, l->node.n + 1);
  for (int n = 0; n < l->node.n; n++)
    life[n] = (Life){n, n};
  for (int n = 0; n < l->node.n; n++) {
    const Node *node = &l->node.at[n];
    if (!p->live[n])
      continue;
    for (int k = 0; k < node->n; k++)
      reads(p, life, node->arg[k], n);
    reads_sum(p, life, node->at, n);
    const int home = home_of(p, n);
    for (int b = 1; b < l->block.n; b++)  // it runs before the blocks that it does not stand in
      if (p->block[b].live && !stands_in(p, home, b) && n < p->block[b].last_node &&
          l->block.at[b].first_node < life[n].from)
        life[n].from = l->block.at[b].first_node;
  }
  for (int k = 0; k < l->store.n; k++) {
    life[l->store.at[k].value.re].to = l->node.n;
    if (l->store.at[k].value.im >= 0)
      life[l->store.at[k].value.im].to = l->node.n;
    for (int j = 0; j < l->store.at[k].update.n_checks; j++)
      life[l->store.at[k].update.check[j].node].to = l->node.n;
  }
  for (int n = l->node.n - 1; n >= 0; n--) {  // what shares a place, or is written together
    const NodeKind kind = l->node.at[n].kind;
    if (!p->live[n] || (kind != NODE_IM && kind != NODE_SAME))
      continue;
    Life *whole = &life[l->node.at[n].arg[0]];
    whole->to = life[n].to > whole->to ? life[n].to : whole->to;
    life[n].from = whole->from;
  }
  for (int b = 1; b < l->block.n; b++) {
    const Block *block = &l->block.at[b];
    for (int k = 0; p->block[b].live && k < block->n_acc; k++) {
      const int parts[] = {block->init[k], block->x[k], block->acc[k], block->next[k]};
      for (int j = 0; j < 4; j++)
        live_until(p, life, parts[j], p->block[b].last_node);
      life[block->acc[k]].from = block->first_node;
      if (life[block->result[k]].to > life[block->acc[k]].to)  // they may be one
        life[block->acc[k]].to = life[block->result[k]].to;
    }
  }
  return life;
}

// --- Slots ----------------------------------------------------------------------------------------

typedef struct Slot {
  int64_t offset;
  int size;  // of an element
  int until;
} Slot;
typedef VEC(Slot) Slots;

static int64_t bytes_of(int size) {
  return (TILE_SIZE * size + SLACK + LINE - 1) & ~(int64_t)(LINE - 1);
}

static int64_t take_slot(const Plan *p, Slots *slots, int size, Life life, int64_t *end) {
  for (int k = 0; k < slots->n; k++)
    if (slots->at[k].size == size && slots->at[k].until < life.from) {
      slots->at[k].until = life.to;
      return slots->at[k].offset;
    }
  const int64_t offset = *end;
  *end += bytes_of(size);
  vec_push_in(p->l->arena, slots, ((Slot){offset, size, life.to}));
  return offset;
}

// Values that others stand for have no place of their own: their op sets the address.
static bool has_place(const Node *node) {
  return node->kind != NODE_SAME && node->kind != NODE_LINE;
}

// Loads of which every row is the same are kept from tile to tile.
static void keep_repeats(const Plan *p, const TileBlock *b, Life *life) {
  for (int k = 0; k < b->tile.n; k++) {
    const TileOp *op = &b->tile.at[k];
    for (int n = 0; op->kind == TILE_LOAD && op->access.repeats && n < p->l->node.n; n++)
      if (p->live[n] && (p->value[n] == op->out || p->value[n] == op->im))
        life[n] = (Life){0, p->l->node.n};
  }
}

static void place_tiles(Plan *p, int64_t *end) {
  Lower *l = p->l;
  Life *life = find_lives(p);
  for (int b = 0; b < l->block.n; b++)
    if (p->block[b].live && p->block[b].out)
      keep_repeats(p, p->block[b].out, life);
  Slots slots = {0};
  bool *placed = HL_ARRAY(l->arena, bool, p->values.n + 1);
  for (int n = 0; n < l->node.n; n++)
    if (p->live[n] && p->line[n]) {  // a whole row
      TileValue *value = &p->values.at[p->value[n]];
      placed[p->value[n]] = true;
      value->offset = *end;
      *end += (l->var[p->block[home_of(p, n)].column].n * value->size + SLACK + LINE - 1) &
              ~(int64_t)(LINE - 1);
    }
  for (int at = 0; at < l->node.n; at++)  // by the beginnings of their lives
    for (int n = at; n < l->node.n; n++) {
      if (!p->live[n] || p->value[n] < 0)
        continue;
      TileValue *value = &p->values.at[p->value[n]];
      if (life[n].from != at || !value->is_row || placed[p->value[n]] || !has_place(&l->node.at[n]))
        continue;
      placed[p->value[n]] = true;
      value->offset = take_slot(p, &slots, value->size, life[n], end);
    }
  for (int b = 1; b < l->block.n; b++)
    for (int k = 0; p->block[b].live && p->block[b].out && k < p->block[b].out->n_acc; k++) {
      const TileAcc *acc = &p->block[b].out->acc[k];
      if (acc->replaced)
        p->values.at[acc->next].offset = p->values.at[acc->acc].offset;
    }
  for (int v = 0; v < p->values.n; v++) {  // tiles that no node made
    bool of_node = false;
    for (int n = 0; n < l->node.n && !of_node; n++)
      of_node = p->live[n] && p->value[n] == v;
    if (!of_node && p->values.at[v].is_row)
      p->values.at[v].offset =
          take_slot(p, &slots, p->values.at[v].size, (Life){-1, l->node.n}, end);
  }
}

// --- Chunks ---------------------------------------------------------------------------------------

// Units are turns of the outer loops times pieces of the row; chunks of about 20 us.
static void cut(Plan *p) {
  enum { CHUNK_NS = 20000 };
  TileNest *nest = p->nest;
  const Lower *l = p->l;
  const TileBlock *g = &nest->grid;
  double turns = 1;
  for (int k = 0; k < g->n_loops; k++)
    turns *= (double)l->var[g->loop[k]].n;
  const double each = p->cost / turns;
  const int var = g->row_var >= 0 ? g->row_var : g->column_var;
  const int64_t n = var < 0 ? 1 : l->var[var].n, tile = g->row_var >= 0 ? g->rows : g->columns;
  nest->cut = n;
  if (!p->updates && each > 2 * CHUNK_NS && var >= 0) {
    const double pieces = each / CHUNK_NS;
    nest->cut = (int64_t)((double)n / pieces / (double)tile + 0.5) * tile;
    nest->cut = nest->cut < tile ? tile : nest->cut;
  }
  nest->units = (int64_t)turns * ((n + nest->cut - 1) / nest->cut);
  const double unit = p->cost / (double)nest->units;
  nest->chunk = unit >= CHUNK_NS ? 1 : (int64_t)(CHUNK_NS / (unit + 1)) + 1;
  if (p->updates)
    nest->chunk = nest->units;  // one after another
  nest->seconds = p->cost * 1e-9;
}

// Whether rows go from memory to memory, without a tile between them.
static bool only_moves(const Plan *p, const TileOps *ops) {
  for (int k = 0; k < ops->n; k++) {
    const TileOp *op = &ops->at[k];
    const bool loads =
        op->kind == TILE_LOAD && (op->access.direct || (op->aim && op->access.by_row));
    const bool stores = op->kind == TILE_STORE && op->aimed;
    const bool updates = op->kind == TILE_UPDATE && op->access.by_row;
    if (!loads && !stores && !updates)
      return false;
  }
  return p->gathers && ops->n > 0;
}

// Then a tile may be of many rows: of what is in the head they are the elements.
static void lengthen_tile(Plan *p) {
  TileBlock *g = &p->nest->grid;
  if (g->row_var < 0 || !only_moves(p, &g->tile))
    return;
  const int64_t n = p->l->var[g->row_var].n;
  g->rows = n < TILE_SIZE ? n : TILE_SIZE;
}

void plan_frame(Plan *p) {
  TileNest *nest = p->nest;
  lengthen_tile(p);
  const Lower *l = p->l;
  nest->n_vars = l->n_vars;
  int64_t *extent = HL_ARRAY(p->arena, int64_t, l->n_vars + 1);
  for (int v = 0; v < l->n_vars; v++)
    extent[v] = l->var[v].n;
  nest->extent = extent;
  int64_t end = 0;
  for (int v = 0; v < p->values.n; v++)
    if (!p->values.at[v].is_row) {
      p->values.at[v].offset = end;
      end += CELL;
    }
  end = (end + LINE - 1) & ~(int64_t)(LINE - 1);
  place_tiles(p, &end);
  nest->index_offset = end;
  if (p->gathers)
    end += bytes_of(8);
  for (int b = 1; b < l->block.n; b++)
    if (p->block[b].live && p->block[b].out && p->block[b].out->vec_fold) {
      p->block[b].out->lanes = end;
      end += LINE;
    }
  nest->value = p->values.at;
  nest->n_values = p->values.n;
  nest->value_bytes = (size_t)end;
  cut(p);
}

// --- The whole of it ------------------------------------------------------------------------------

bool tile_schedule(Lower *l, TileNest *out) {
  Plan p = {.l = l, .nest = out, .arena = l->maker->arena};
  *out = (TileNest){.copy_from = -1, .copy_to = -1};
  plan_live(&p);
  plan_collapse(&p);
  plan_rows(&p);
  plan_lines(&p);
  plan_heads(&p);
  if (!plan_place(&p))
    return false;
  plan_frame(&p);
  return true;
}
