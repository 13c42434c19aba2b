// cpu/tile/run.c: runs tile programs: chunks of a nest on the threads of a team, each in a frame of its own.

#include <string.h>

#include "cpu/tile/tile.h"

typedef struct Loaded {
  const char *from;
  int64_t n;
} Loaded;

typedef struct Frame {
  const TileNest *nest;
  void *const *buffer;
  int64_t index[TILE_MAX_VARS];
  int64_t rows, columns, n;  // of the tile at hand
  void **at;                 // by value
  Loaded *loaded;            // by value: what a load that repeats has put there
  int64_t *low, *high;       // of each scope
  char *values;
} Frame;

static inline int64_t numerator_at(const Frame *f, const TileSum *sum) {
  int64_t at = sum->c;
  for (int k = 0; k < sum->n; k++)
    at += sum->term[k].k * f->index[sum->term[k].var];
  return at;
}

static inline int64_t sum_at(const Frame *f, const TileSum *sum) {
  const int64_t at = numerator_at(f, sum);
  return sum->den == 1 ? at : at / sum->den;
}

// --- Scopes ---------------------------------------------------------------------------------------

typedef struct Range {
  int64_t low, high;
} Range;

// Elements of the tile where a scope holds; `row`: there is a tile, not one element.
static inline Range range_of(const Frame *f, int scope, bool row) {
  const int64_t n = row ? f->n : 1;
  if (scope == 0)
    return (Range){0, n};
  return (Range){f->low[scope], f->high[scope] < n ? f->high[scope] : n};
}

static int64_t divide_down(int64_t a, int64_t b) {
  return b == 1 ? a : a / b - (a % b < 0);
}

// The k with 0 <= at + step * k < n.
static Range solve(int64_t at, int64_t step, int64_t n) {
  if (step == 0)
    return at >= 0 && at < n ? (Range){0, INT64_MAX} : (Range){0, 0};
  if (step > 0)
    return (Range){-divide_down(at, step), -divide_down(at - n, step)};
  return (Range){divide_down(at - n, -step) + 1, divide_down(at, -step) + 1};
}

static void find_scope(Frame *f, int s) {
  const TileScope *scope = &f->nest->scope[s];
  Range r = {0, INT64_MAX};
  if (scope->parent > 0)
    r = (Range){f->low[scope->parent], f->high[scope->parent]};
  for (int k = 0; k < scope->n_bounds; k++) {
    const TileBound *bound = &scope->bound[k];
    const int64_t at = numerator_at(f, &bound->sum), den = bound->sum.den;
    Range own = {0, 0};
    if (den == 1 || at % den == 0)
      own = solve(den == 1 ? at : at / den, bound->step, bound->n);
    r.low = own.low > r.low ? own.low : r.low;
    r.high = own.high < r.high ? own.high : r.high;
  }
  const bool empty = r.low >= r.high;
  f->low[s] = empty ? 0 : r.low;
  f->high[s] = empty ? 0 : r.high;
}

// --- Memory ---------------------------------------------------------------------------------------

static inline char *place_at(const Frame *f, const TileAccess *a) {
  return (char *)f->buffer[a->buffer] + sum_at(f, &a->sum) * hl_dtype_bytes(a->dtype);
}

static inline char *element(const Frame *f, int value, int64_t k) {
  return value < 0 ? NULL : (char *)f->at[value] + k * f->nest->value[value].size;
}

// Which of the tile's rows and columns a flat range is: all of them where there are several rows.
static void gather(Frame *f, const TileOp *op, Range r, const char *base) {
  const TileAccess *a = &op->access;
  int64_t *index = (int64_t *)(void *)(f->values + f->nest->index_offset);
  for (int64_t k = 0, row = 0, column = 0; k < r.high; k++) {
    index[k] = row * a->row_step + column * a->column_step;
    if (++column == f->columns) {
      column = 0;
      row++;
    }
  }
  for (int j = 0; j < a->n_index; j++) {
    const int64_t *from = f->at[a->index[j].value], by = a->index[j].k;
    for (int64_t k = r.low; k < r.high; k++)
      index[k] += from[k] * by;
  }
  a->gather(r.high - r.low, element(f, op->out, r.low), element(f, op->im, r.low), base,
            index + r.low);
}

static bool holds(const Frame *f, const TileOp *op, int64_t k) {
  for (int j = 0; j < op->n_checks; j++) {
    const int value = op->check[j].value;
    const int64_t at = ((const int64_t *)f->at[value])[f->nest->value[value].is_row ? k : 0];
    if (at < 0 || at >= op->check[j].n)
      return false;
  }
  return true;
}

// Bytes from the start of the buffer to each row of the tile; -1: a check fails there.
static const int64_t *find_rows(Frame *f, const TileOp *op) {
  const TileAccess *a = &op->access;
  const int64_t size = hl_dtype_bytes(a->dtype), first = sum_at(f, &a->sum) * size;
  int64_t *place = (int64_t *)(void *)(f->values + f->nest->index_offset);
  a->places(f->rows, place, first, a->row_step * size, f->at[a->index[0].value],
            a->index[0].k * size);
  for (int j = 1; j < a->n_index; j++) {
    const int64_t *index = f->at[a->index[j].value], by = a->index[j].k * size;
    for (int64_t k = 0; k < f->rows; k++)
      place[k] += index[k] * by;
  }
  for (int j = 0; j < op->n_checks; j++) {
    const TileCheck *check = &op->check[j];
    const int64_t *index = f->at[check->value];
    if (f->nest->value[check->value].is_row)
      a->keep(f->rows, place, index, check->n);
    else if (*index < 0 || *index >= check->n)
      memset(place, 0xff, sizeof *place * (size_t)f->rows);
  }
  return place;
}

static void load_rows(Frame *f, const TileOp *op) {
  const TileAccess *a = &op->access;
  const char *base = f->buffer[a->buffer];
  const int64_t *place = find_rows(f, op);
  if (a->take) {
    a->take(f->rows, f->columns * hl_dtype_bytes(a->dtype), f->at[op->out], base, place);
    return;
  }
  for (int64_t k = 0; k < f->rows; k++)
    a->load(f->columns, element(f, op->out, k * f->columns), element(f, op->im, k * f->columns),
            base + place[k], a->column_step);
}

static void load(Frame *f, const TileOp *op, bool row) {
  const TileAccess *a = &op->access;
  const Range r = range_of(f, op->scope, row);
  if (r.low >= r.high)
    return;
  char *base = place_at(f, a);
  if (!row) {
    a->load(1, f->at[op->out], element(f, op->im, 0), base, 1);
    return;
  }
  const int64_t size = hl_dtype_bytes(a->dtype);
  if (a->direct) {
    f->at[op->out] = base;
  } else if (a->by_row) {
    load_rows(f, op);
  } else if (a->n_index > 0) {
    gather(f, op, r, base);
  } else if (f->rows == 1) {
    a->load(r.high - r.low, element(f, op->out, r.low), element(f, op->im, r.low),
            base + r.low * a->column_step * size, a->column_step);
  } else if (a->repeats && f->loaded[op->out].from == base && f->loaded[op->out].n >= f->n) {
    return;
  } else if (a->turned) {
    a->turn(f->columns, f->rows, f->at[op->out], f->columns, base, a->column_step);
  } else {
    for (int64_t k = 0; k < f->rows; k++)
      a->load(f->columns, element(f, op->out, k * f->columns), element(f, op->im, k * f->columns),
              base + k * a->row_step * size, a->column_step);
    if (a->repeats)
      f->loaded[op->out] = (Loaded){base, f->n};
  }
}

static void store(Frame *f, const TileOp *op, bool row) {
  const TileAccess *a = &op->access;
  const Range r = range_of(f, op->scope, row);
  const int im = op->n_in > 1 ? op->in[1] : -1;
  if (r.low >= r.high || op->aimed)
    return;
  char *base = place_at(f, a);
  const int64_t size = hl_dtype_bytes(a->dtype);
  if (!row || f->rows == 1) {
    a->store(r.high - r.low, base + r.low * a->column_step * size, row ? a->column_step : 1,
             element(f, op->in[0], r.low), element(f, im, r.low));
  } else if (a->turned) {
    a->turn(f->rows, f->columns, base, a->column_step, f->at[op->in[0]], f->columns);
  } else {
    for (int64_t k = 0; k < f->rows; k++)
      a->store(f->columns, base + k * a->row_step * size, a->column_step,
               element(f, op->in[0], k * f->columns), element(f, im, k * f->columns));
  }
}

// --- Updates --------------------------------------------------------------------------------------

// `n` elements, side by side.
static void update_run(const TileOp *op, int64_t n, char *place, const void *x) {
  if (!op->fn) {
    op->access.store(n, place, 1, x, NULL);
    return;
  }
  if (!op->round) {
    op->fn(n, place, place, x, NULL);
    return;
  }
  float there[64];
  const int64_t size = hl_dtype_bytes(op->access.dtype);
  for (int64_t k = 0; k < n; k += 64) {
    const int64_t some = n - k < 64 ? n - k : 64;
    op->load(some, there, NULL, place + k * size, 1);
    op->fn(some, there, there, (const float *)x + k, NULL);
    op->round(some, there, there, NULL, NULL);
    op->access.store(some, place + k * size, 1, there, NULL);
  }
}

// Whole rows, one after another.
static void update_rows(Frame *f, const TileOp *op) {
  const TileAccess *a = &op->access;
  const int64_t size = hl_dtype_bytes(a->dtype), n = f->columns;
  char *base = f->buffer[a->buffer];
  const int64_t *place = find_rows(f, op);
  if (op->put)
    op->put(f->rows, n * size, base, place, f->at[op->in[0]]);
  else if (op->join)
    op->join(f->rows, n, base, place, f->at[op->in[0]]);
  for (int64_t r = 0; !op->put && !op->join && r < f->rows; r++) {
    const bool dense = a->column_step == 1;
    for (int64_t k = 0; place[r] >= 0 && k < n; k += dense ? n : 1)
      update_run(op, dense ? n : 1, base + place[r] + k * a->column_step * size,
                 element(f, op->in[0], r * n + k));
  }
}

static void update(Frame *f, const TileOp *op, bool row) {
  const TileAccess *a = &op->access;
  if (a->by_row) {
    update_rows(f, op);
    return;
  }
  const int64_t n = row ? f->n : 1, size = hl_dtype_bytes(a->dtype);
  bool same = a->n_index == 0;
  for (int j = 0; j < op->n_checks; j++)
    same = same && !f->nest->value[op->check[j].value].is_row;
  if (same && !holds(f, op, 0))
    return;
  char *base = place_at(f, a);
  if (same && (n == 1 || a->column_step == 1)) {
    update_run(op, n, base, element(f, op->in[0], 0));
    return;
  }
  for (int64_t k = 0; k < n; k++) {
    if (!same && !holds(f, op, k))
      continue;
    int64_t at = k * a->column_step;
    for (int j = 0; j < a->n_index; j++)
      at += ((const int64_t *)f->at[a->index[j].value])[k] * a->index[j].k;
    update_run(op, 1, base + at * size, element(f, op->in[0], k));
  }
}

// --- Ops ------------------------------------------------------------------------------------------

// An operand from element k of the tile on; where it is one element, that.
static inline const void *operand(const Frame *f, const TileOp *op, int j, int64_t k) {
  if (j >= op->n_in)
    return NULL;
  const int value = op->in[j];
  return f->nest->value[value].is_row ? element(f, value, k) : f->at[value];
}

static void copy(Frame *f, VecFn *const *how, int out, int from, Range r) {
  const bool is_row = f->nest->value[from].is_row;
  const void *source = is_row ? element(f, from, r.low) : f->at[from];
  void *to = element(f, out, f->nest->value[out].is_row ? r.low : 0);
  if (r.low < r.high && to != source && r.high - r.low == 1)
    memcpy(to, source, (size_t)f->nest->value[out].size);
  else if (r.low < r.high && to != source)
    how[is_row || !f->nest->value[out].is_row ? 0 : 1](r.high - r.low, to, source, NULL, NULL);
}

static Range both(Range a, Range b) {
  return (Range){a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}

static void choose(Frame *f, const TileOp *op, bool row) {
  const Range all = range_of(f, op->scope, row), first = range_of(f, op->scopes[0], row);
  int k = 0;
  if (op->n_in == 2 && first.low <= all.low && first.high >= all.high) {  // everywhere else
    const Range inner = both(all, range_of(f, op->scopes[1], row));
    if (inner.low >= inner.high) {
      copy(f, op->copy, op->out, op->in[0], all);
    } else {
      copy(f, op->copy, op->out, op->in[0], (Range){all.low, inner.low});
      copy(f, op->copy, op->out, op->in[0], (Range){inner.high, all.high});
    }
    k = 1;
  }
  for (; k < op->n_in; k++)
    copy(f, op->copy, op->out, op->in[k], both(all, range_of(f, op->scopes[k], row)));
}

static void iota(Frame *f, const TileOp *op, bool row) {
  const TileAccess *a = &op->access;
  const int64_t first = sum_at(f, &a->sum);
  if (!row)
    op->iota(1, f->at[op->out], first, 0);
  for (int64_t k = 0; row && k < f->rows; k++)
    op->iota(f->columns, element(f, op->out, k * f->columns), first + k * a->row_step,
             a->column_step);
}

static void line(Frame *f, const TileOp *op) {
  const TileValue *row = &f->nest->value[op->in[0]];
  f->at[op->out] = f->values + row->offset + f->index[op->var] * row->size;
}

// The operand that a CHOOSE is at element k.
static int chosen_at(const Frame *f, const TileOp *op, int64_t k) {
  for (int j = op->n_in - 1; j > 0; j--) {
    const Range r = range_of(f, op->scopes[j], true);
    if (r.low <= k && k < r.high)
      return op->in[j];
  }
  return op->in[0];
}

// Behind the elements from r.low on for which each CHOOSE is one operand.
static int64_t piece_end(const Frame *f, const TileSegment *s, Range r) {
  int64_t end = r.high;
  for (int k = 0; k < s->n_choices; k++) {
    const TileOp *op = s->pointer[s->choice[k]].choose;
    for (int j = 0; j < op->n_in; j++) {
      const Range own = range_of(f, op->scopes[j], true);
      end = own.low > r.low && own.low < end ? own.low : end;
      end = own.high > r.low && own.high < end ? own.high : end;
    }
  }
  return end;
}

// Where a pointer begins.
static char *base_of(Frame *f, const TilePointer *p) {
  if (p->value < 0)
    return p->access ? place_at(f, p->access) : f->values + p->offset;
  if (p->access)  // ops behind it read it there
    f->at[p->value] = place_at(f, p->access);
  return f->at[p->value];
}

static void segment(Frame *f, const TileSegment *s, Range r) {
  char *base[TILE_MAX_POINTERS];
  void *pointer[TILE_MAX_POINTERS];
  if (r.low >= r.high)
    return;
  for (int k = 0; k < s->n_pointers; k++)
    base[k] = base_of(f, &s->pointer[k]);
  for (int64_t end; r.low < r.high; r.low = end) {
    end = s->n_choices > 0 ? piece_end(f, s, r) : r.high;
    for (int k = 0; k < s->n_choices; k++)
      base[s->choice[k]] = f->at[chosen_at(f, s->pointer[s->choice[k]].choose, r.low)];
    for (int k = 0; k < s->n_pointers; k++)
      pointer[k] = base[k] + r.low * s->pointer[k].size;
    s->fn(end - r.low, pointer);
  }
}

static void run_block(Frame *f, const TileBlock *b);

static void run_ops(Frame *f, const TileOps *ops, bool row) {
  for (const TileOp *op = ops->at, *end = op + ops->n; op < end; op++) {
    const Range r = range_of(f, op->scope, row);
    if (op->aim)
      f->at[op->out] = place_at(f, op->aim);
    switch (op->kind) {
    case TILE_LOAD: load(f, op, row); break;
    case TILE_STORE: store(f, op, row); break;
    case TILE_UPDATE: update(f, op, row); break;
    case TILE_IOTA: iota(f, op, row); break;
    case TILE_VEC:
      if (r.low < r.high)
        op->fn(r.high - r.low, element(f, op->out, r.low), operand(f, op, 0, r.low),
               operand(f, op, 1, r.low), operand(f, op, 2, r.low));
      break;
    case TILE_PACK:
      if (r.low < r.high)
        op->access.store(r.high - r.low, element(f, op->out, r.low), 1, operand(f, op, 0, r.low),
                         NULL);
      break;
    case TILE_UNPACK:
      if (r.low < r.high)
        op->access.load(r.high - r.low, element(f, op->out, r.low), NULL, operand(f, op, 0, r.low),
                        1);
      break;
    case TILE_LINE: line(f, op); break;
    case TILE_SAME: f->at[op->out] = f->at[op->in[0]]; break;
    case TILE_CHOOSE: choose(f, op, row); break;
    case TILE_SCOPE: find_scope(f, op->scope); break;
    case TILE_INDEX:
      f->index[op->var] = r.low < r.high ? *(const int64_t *)f->at[op->in[0]] : 0;
      break;
    case TILE_REDUCE:
      if (r.low < r.high)
        run_block(f, op->block);
      break;
    case TILE_SEGMENT: segment(f, op->segment, r); break;
    }
  }
}

// --- Loops ----------------------------------------------------------------------------------------

typedef struct Tiles {  // what of a row is walked
  int64_t row_from, row_to, column_from, column_to;
} Tiles;

static Tiles all_tiles(const Frame *f, const TileBlock *b) {
  return (Tiles){0, b->row_var < 0 ? 1 : f->nest->extent[b->row_var], 0,
                 b->column_var < 0 ? 1 : f->nest->extent[b->column_var]};
}

typedef void OnTile(Frame *f, const TileBlock *b, void *user);

static void walk_tiles(Frame *f, const TileBlock *b, Tiles t, OnTile *on, void *user) {
  for (int64_t r = t.row_from; r < t.row_to; r += b->rows) {
    f->rows = t.row_to - r < b->rows ? t.row_to - r : b->rows;
    if (b->row_var >= 0)
      f->index[b->row_var] = r;
    for (int64_t c = t.column_from; c < t.column_to; c += b->columns) {
      f->columns = t.column_to - c < b->columns ? t.column_to - c : b->columns;
      f->n = f->rows * f->columns;
      f->index[b->column_var] = c;
      on(f, b, user);
    }
  }
}

// --- Reductions -----------------------------------------------------------------------------------

static void next_to_acc(Frame *f, const TileBlock *b, bool row) {
  for (int k = 0; k < b->n_acc; k++)
    if (!b->acc[k].replaced)
      copy(f, b->acc[k].copy, b->acc[k].acc, b->acc[k].next, range_of(f, b->acc[k].scope, row));
}

static void fold_vec(Frame *f, const TileBlock *b, void *user) {
  run_ops(f, &b->tile, true);
  if (b->join_lanes) {
    b->join_lanes(f->at[b->acc[0].acc], f->values + b->lanes);
    return;
  }
  const Range r = range_of(f, b->acc[0].scope, true);
  if (r.low < r.high)
    b->vec_fold(r.high - r.low, f->at[b->acc[0].acc], element(f, b->acc[0].x, r.low));
}

static void fold_lanes(Frame *f, const TileBlock *b, void *user) {
  int64_t *lanes = user;
  run_ops(f, &b->tile, true);
  if (*lanes == 0) {
    *lanes = f->n;
    for (int k = 0; k < b->n_acc; k++)
      copy(f, b->acc[k].copy, b->acc[k].acc, b->acc[k].x, (Range){0, f->n});
    return;
  }
  run_ops(f, &b->step, true);
  next_to_acc(f, b, true);
  *lanes = f->n > *lanes ? f->n : *lanes;
}

// acc = body(acc, acc from `other` on), n of them.
static void fold_onto(Frame *f, const TileBlock *b, int64_t n, int64_t other) {
  f->n = f->columns = n;
  f->rows = 1;
  for (int k = 0; k < b->n_acc; k++)
    f->at[b->acc[k].x] = element(f, b->acc[k].acc, other);
  run_ops(f, &b->step, true);
  next_to_acc(f, b, true);
}

static void fold_halves(Frame *f, const TileBlock *b, int64_t lanes) {
  void *x[TILE_MAX_ACCS];
  for (int k = 0; k < b->n_acc; k++)  // it has a place of its own where it is a copy
    x[k] = f->at[b->acc[k].x];
  while (lanes > 1) {
    const int64_t half = (lanes + 1) / 2;
    fold_onto(f, b, lanes - half, half);
    lanes = half;
  }
  for (int k = 0; k < b->n_acc && b->acc[k].init >= 0; k++) {  // what there is behind init
    const TileAcc *acc = &b->acc[k];
    const int size = f->nest->value[acc->acc].size;
    memcpy(element(f, acc->acc, 1), f->at[acc->acc], (size_t)size);
    memcpy(f->at[acc->acc], f->at[acc->init], (size_t)size);
  }
  if (b->acc[0].init >= 0)
    fold_onto(f, b, 1, 1);
  for (int k = 0; k < b->n_acc; k++) {
    memcpy(f->at[b->acc[k].result], f->at[b->acc[k].acc],
           (size_t)f->nest->value[b->acc[k].acc].size);
    f->at[b->acc[k].x] = x[k];
  }
}

static void start(Frame *f, const TileBlock *b) {
  for (int k = 0; k < b->n_acc; k++)
    copy(f, b->acc[k].copy, b->acc[k].acc, b->acc[k].init, (Range){0, b->is_row ? f->n : 1});
}

// Of what lies in memory, all turns of the last loop.
static void fold_rows(Frame *f, const TileBlock *b) {
  const TileAccess *a = &b->tile.at[0].access;
  const int var = b->loop[b->n_loops - 1];
  int64_t step = 0;
  for (int k = 0; k < a->sum.n; k++)
    step += a->sum.term[k].var == var ? a->sum.term[k].k : 0;
  b->fold_rows(f->nest->extent[var], f->n, f->at[b->acc[0].acc], place_at(f, a), step);
}

// One turn of the loops: a tile of the row around it, or a whole row of its own.
static void turn(Frame *f, const TileBlock *b, int64_t *lanes) {
  switch (b->fold) {
  case TILE_FOLD_TILES:
    if (b->fold_rows) {
      fold_rows(f, b);
      return;
    }
    run_ops(f, &b->tile, b->is_row);
    run_ops(f, &b->step, b->is_row);
    next_to_acc(f, b, b->is_row);
    return;
  case TILE_FOLD_VEC: walk_tiles(f, b, all_tiles(f, b), fold_vec, NULL); return;
  case TILE_FOLD_LANES: walk_tiles(f, b, all_tiles(f, b), fold_lanes, lanes); return;
  }
}

static void run_block(Frame *f, const TileBlock *b) {
  const int64_t rows = f->rows, columns = f->columns, n = f->n;
  const int turning = b->fold_rows ? b->n_loops - 1 : b->n_loops;
  int64_t lanes = 0;
  if (b->fold != TILE_FOLD_LANES)
    start(f, b);
  for (int k = 0; k < b->n_loops; k++)
    f->index[b->loop[k]] = 0;
  for (int k = 0; k >= 0;) {
    for (int j = k; j <= turning; j++)
      run_ops(f, &b->level[j], false);
    turn(f, b, &lanes);
    for (k = turning - 1; k >= 0; k--) {
      if (++f->index[b->loop[k]] < f->nest->extent[b->loop[k]])
        break;
      f->index[b->loop[k]] = 0;
    }
    k = k < 0 ? -1 : k + 1;
  }
  if (b->fold == TILE_FOLD_LANES)
    fold_halves(f, b, lanes);
  f->rows = rows;
  f->columns = columns;
  f->n = n;
}

// --- The grid -------------------------------------------------------------------------------------

typedef struct Job {
  const TileNest *nest;
  void *const *buffer;
} Job;

typedef struct FrameParts {
  size_t head, at, loaded, ranges;
} FrameParts;

static FrameParts parts_of(const TileNest *nest) {
  const size_t values = (size_t)nest->n_values, scopes = (size_t)nest->n_scopes;
  return (FrameParts){
      (sizeof(Frame) + 63) & ~(size_t)63, (sizeof(void *) * values + 63) & ~(size_t)63,
      (sizeof(Loaded) * values + 63) & ~(size_t)63, (sizeof(int64_t) * scopes + 63) & ~(size_t)63};
}

size_t tile_frame_bytes(const TileNest *nest) {
  const FrameParts parts = parts_of(nest);
  return parts.head + parts.at + parts.loaded + 2 * parts.ranges + nest->value_bytes;
}

static Frame *new_frame(const Job *job, char *memory) {
  const TileNest *nest = job->nest;
  const FrameParts parts = parts_of(nest);
  const size_t head = parts.head, at = parts.at, loaded = parts.loaded, ranges = parts.ranges;
  Frame *f = (Frame *)(void *)memory;
  memset(f, 0, sizeof *f);
  f->nest = nest;
  f->buffer = job->buffer;
  f->at = (void **)(void *)(memory + head);
  f->loaded = (Loaded *)(void *)(memory + head + at);
  memset(f->loaded, 0, loaded);
  memory += loaded;
  f->low = (int64_t *)(void *)(memory + head + at);
  f->high = (int64_t *)(void *)(memory + head + at + ranges);
  f->values = memory + head + at + 2 * ranges;
  for (int v = 0; v < nest->n_values; v++) {
    f->at[v] = nest->value[v].offset < 0 ? NULL : f->values + nest->value[v].offset;
    if (nest->value[v].is_const)
      memcpy(f->at[v], &nest->value[v].bits, sizeof nest->value[v].bits);
  }
  f->rows = f->columns = f->n = 1;
  return f;
}

// Of each row of the tile one element.
static void run_head(Frame *f, const TileBlock *b) {
  const int64_t rows = f->rows, columns = f->columns;
  f->rows = 1;
  f->n = f->columns = rows;
  run_ops(f, &b->head, true);
  f->rows = rows;
  f->columns = columns;
  f->n = rows * columns;
}

static void grid_tile(Frame *f, const TileBlock *b, void *user) {
  if (b->head.n > 0)
    run_head(f, b);
  run_ops(f, &b->tile, true);
}

// Rows of one tile, of nothing but one segment: its pointers go from row to row.
typedef struct Rows {
  const TileSegment *segment;  // NULL: they are not such
  const TileAccess *access[TILE_MAX_POINTERS];
  int64_t step[TILE_MAX_POINTERS];
} Rows;

// The segment of a list in which it does all: what else there is only finds addresses for it.
static const TileSegment *only_segment(const TileOps *ops) {
  const TileSegment *found = NULL;
  for (int k = 0; k < ops->n; k++) {
    const TileOp *op = &ops->at[k];
    const bool finds =
        (op->kind == TILE_LOAD && op->access.direct) || (op->kind == TILE_STORE && op->aimed);
    if (op->scope != 0 || (!finds && (op->kind != TILE_SEGMENT || found)))
      return NULL;
    found = op->kind == TILE_SEGMENT ? op->segment : found;
  }
  return found && found->n_choices == 0 && found->scope == 0 ? found : NULL;
}

// Where a pointer of the segment begins, if that is no place of the frame: by itself, or because a load finds it.
static const TileAccess *access_of(const TileOps *ops, const TilePointer *p) {
  for (int k = 0; k < ops->n && !p->access && p->value >= 0; k++)
    if (ops->at[k].kind == TILE_LOAD && ops->at[k].out == p->value)
      return &ops->at[k].access;
  return p->access;
}

static void find_rows_of_segment(const TileNest *nest, Rows *rows) {
  const TileBlock *g = &nest->grid;
  rows->segment = NULL;
  if (g->n_loops == 0 || g->row_var >= 0 || g->column_var < 0 || g->head.n > 0 ||
      g->level[g->n_loops].n > 0 || nest->extent[g->column_var] > g->columns ||
      nest->cut < nest->extent[g->column_var])
    return;
  const TileSegment *s = only_segment(&g->tile);
  for (int k = 0; s && k < s->n_pointers; k++) {
    const TileAccess *a = rows->access[k] = access_of(&g->tile, &s->pointer[k]);
    rows->step[k] = 0;
    if (a && a->sum.den != 1)
      return;
    for (int j = 0; a && j < a->sum.n; j++)
      if (a->sum.term[j].var == g->loop[g->n_loops - 1])
        rows->step[k] += a->sum.term[j].k * hl_dtype_bytes(a->dtype);
  }
  rows->segment = s;
}

// `n` turns of the last loop from here on.
static void run_rows(Frame *f, const Rows *rows, int64_t n) {
  const TileSegment *s = rows->segment;
  const TileBlock *g = &f->nest->grid;
  void *pointer[TILE_MAX_POINTERS];
  f->index[g->column_var] = 0;
  f->rows = 1;
  f->n = f->columns = f->nest->extent[g->column_var];
  for (int k = 0; k < s->n_pointers; k++)
    pointer[k] = rows->access[k] ? place_at(f, rows->access[k]) : base_of(f, &s->pointer[k]);
  for (int64_t r = 0; r < n; r++) {
    s->fn(f->n, pointer);
    for (int k = 0; k < s->n_pointers; k++)
      pointer[k] = (char *)pointer[k] + rows->step[k];
  }
}

static void run_units(Frame *f, int64_t first, int64_t last) {
  const TileNest *nest = f->nest;
  const TileBlock *g = &nest->grid;
  const int var = g->row_var >= 0 ? g->row_var : g->column_var;
  const int64_t length = var < 0 ? 1 : nest->extent[var],
                pieces = (length + nest->cut - 1) / nest->cut;
  int64_t outer = first / pieces, piece = first % pieces;
  for (int k = g->n_loops - 1; k >= 0; k--) {
    f->index[g->loop[k]] = outer % nest->extent[g->loop[k]];
    outer /= nest->extent[g->loop[k]];
  }
  int changed = 0;  // levels from here on
  Rows rows;
  find_rows_of_segment(nest, &rows);
  for (int64_t u = first; u < last; u++) {
    for (int j = changed; j <= g->n_loops; j++)
      run_ops(f, &g->level[j], false);
    changed = g->n_loops + 1;
    if (rows.segment) {
      int64_t *index = &f->index[g->loop[g->n_loops - 1]],
              n = nest->extent[g->loop[g->n_loops - 1]] - *index;
      n = n < last - u ? n : last - u;
      run_rows(f, &rows, n);
      *index += n - 1;
      u += n - 1;
    } else if (var >= 0) {
      Tiles t = all_tiles(f, g);
      const int64_t from = piece * nest->cut,
                    to = from + nest->cut < length ? from + nest->cut : length;
      *(g->row_var >= 0 ? &t.row_from : &t.column_from) = from;
      *(g->row_var >= 0 ? &t.row_to : &t.column_to) = to;
      walk_tiles(f, g, t, grid_tile, NULL);
    }
    if (++piece < pieces)
      continue;
    piece = 0;
    for (int k = g->n_loops - 1; k >= 0; k--) {
      changed = k + 1;
      if (++f->index[g->loop[k]] < nest->extent[g->loop[k]])
        break;
      f->index[g->loop[k]] = 0;
    }
  }
}

static bool run_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Job *job = user;
  const TileNest *nest = job->nest;
  char *memory = cpu_scratch(member, tile_frame_bytes(nest));
  if (!memory)
    return false;
  const int64_t first = chunk * nest->chunk, last = first + nest->chunk;
  run_units(new_frame(job, memory), first, last < nest->units ? last : nest->units);
  return true;
}

void tile_run_nest(const TileNest *nest, void *const *buffer, const int64_t *index, void *memory) {
  Frame *f = new_frame(&(Job){nest, buffer}, memory);
  memcpy(f->index, index, sizeof f->index);
  run_units(f, 0, nest->units);
}

// --- The kernel -----------------------------------------------------------------------------------

static int64_t round_up(int64_t bytes) {
  return (bytes + 63) & ~(int64_t)63;
}

static inline bool has(const TileBuffers *set, int buffer) {
  return set->word[buffer / 64] >> buffer % 64 & 1;
}

// Whether a result is written over an operand that a later pass reads.
static bool must_keep(const TileProgram *p, void *const *buffer, int operand) {
  for (int k = p->first_out; k < p->base.n_buffers; k++) {
    if (buffer[k] != buffer[operand] || p->bytes[operand] == 0 || p->bytes[k] == 0)
      continue;
    bool written = false;
    for (int n = 0; n < p->n_nests; n++) {
      const bool own = p->nest[n].copy_to == k;  // which has nothing to copy then
      if (written && has(&p->nest[n].reads, operand) && !own)
        return true;
      written = written || has(&p->nest[n].writes, k);
    }
  }
  return false;
}

// The kernel's buffers, its constants and temporaries.
static bool find_buffers(const TileProgram *p, CpuTeam *team, void *const *buffer, void **all) {
  int64_t bytes = 0;
  for (int k = 0; k < p->first_out; k++)
    bytes += must_keep(p, buffer, k) ? round_up(p->bytes[k]) : 0;
  for (int k = 0; k < p->n_temps; k++)
    bytes += round_up(p->temp_bytes[k]);
  char *memory = bytes > 0 ? cpu_team_scratch(team, (size_t)bytes) : NULL;
  if (bytes > 0 && !memory)
    return false;
  for (int k = 0; k < p->base.n_buffers; k++) {
    all[k] = buffer[k];
    if (k < p->first_out && must_keep(p, buffer, k)) {
      if (!cpu_copy(team, memory, buffer[k], p->bytes[k]))
        return false;
      all[k] = memory;
      memory += round_up(p->bytes[k]);
    }
  }
  int n = p->base.n_buffers;
  for (int k = 0; k < p->n_constants; k++)
    all[n++] = (void *)(uintptr_t)p->constant[k];
  for (int k = 0; k < p->n_temps; k++) {
    all[n++] = memory;
    memory += round_up(p->temp_bytes[k]);
  }
  return true;
}

// What a nest updates has to be there first.
static bool copy_first(CpuTeam *team, const TileNest *nest, void *const *buffer) {
  void *to = buffer[nest->copy_to];
  const void *from = buffer[nest->copy_from];
  return to == from || cpu_copy(team, to, from, nest->copy_bytes);
}

bool tile_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const TileProgram *p = (const TileProgram *)(const void *)kernel;
  void *all[TILE_MAX_BUFFERS];
  const bool own = p->n_constants + p->n_temps > 0 || p->n_nests > 1;
  if (own && !find_buffers(p, team, buffer, all))
    return false;
  for (int k = 0; k < p->n_nests; k++) {
    const TileNest *nest = &p->nest[k];
    Job job = {nest, own ? all : buffer};
    if (nest->copy_to >= 0 && !copy_first(team, nest, job.buffer))
      return false;
    const int64_t chunks = nest->units > 0 ? (nest->units + nest->chunk - 1) / nest->chunk : 0;
    if (chunks > 0 && !cpu_parallel(team, chunks, nest->seconds, run_chunk, &job))
      return false;
  }
  return true;
}
