// op/reduce_window.c: reduce-window: folds every place of a sliding window.
//
// Padding and the holes of dilation are not visited. A simple op (add, max, ...) is associative, so
// one dimension after the other is folded over wide values, with its neutral element standing in
// the padding; long windows take three operations an element whatever their length (below). Other
// computations run on a machine place by place, or by one call of the interpreter per window
// offset.

#include <string.h>

#include "base/memory.h"
#include "op/fold.h"
#include "op/machine.h"

static int64_t dilated(int64_t n, int64_t by) {
  return n == 0 ? 0 : (n - 1) * by + 1;
}

// --- Simple ops, one dimension at a time ---------------------------------------------------------

// Windows of `size` over a padded line x of n rows with `inner` columns, all with stride 1 and no
// dilation, by blocks of `size` rows: `left` folds each block from its first row, `right` from its
// last, and a window is the end of one block and the beginning of the next.
static void fold_long_windows(HlOp op, HlDtype dtype, Slot *x, Slot *right, int64_t n,
                              int64_t inner, int64_t size) {
  memcpy(right, x, sizeof(Slot) * (size_t)(n * inner));
  for (int64_t r = n - 2; r >= 0; r--)
    if ((r + 1) % size != 0)
      fold_vectors(op, dtype, right + r * inner, right + (r + 1) * inner, inner);
  for (int64_t r = 1; r < n; r++)
    if (r % size != 0) {
      Slot *row = x + r * inner;  // in place: row = fold(previous, row)
      const Slot *previous = row - inner;
      for (int64_t c = 0; c < inner; c++)
        row[c] = fold_slot(op, dtype, previous[c], row[c]);
    }
}

// Result row k of a line too long to write down (padding may be of any size): by its n elements.
static void fold_sparse_window(HlOp op, HlDtype dtype, const HlWindowDim *w, const Slot *from,
                               int64_t n, int64_t inner, int64_t k, Slot *result) {
  const Slot neutral = fold_neutral(op, dtype);
  for (int64_t c = 0; c < inner; c++)
    result[c] = neutral;
  for (int64_t i = 0; i < n; i++) {
    base_look();
    const int64_t offset = w->pad_low + i * w->lhs_dilate - k * w->stride;
    if (offset >= 0 && offset % w->rhs_dilate == 0 && offset / w->rhs_dilate < w->size)
      fold_vectors(op, dtype, result, from + i * inner, inner);
  }
}

// Folds the middle dimension of [outer, n, inner] by one window dimension into [outer, m, inner].
static bool fold_dim(HlEval *ev, const HlInst *inst, HlOp op, HlDtype dtype, const HlWindowDim *w,
                     const Slot *from, int64_t outer, int64_t n, int64_t inner, Slot *to,
                     int64_t m) {
  const int64_t whole = w->pad_low + dilated(n, w->lhs_dilate) + w->pad_high;
  const int64_t rows = whole > 0 ? whole : 0;
  const bool is_long = w->size > 4 && w->rhs_dilate == 1;
  const Slot neutral = fold_neutral(op, dtype);
  if (rows / 16 > n + m) {
    for (int64_t k = 0; k < outer * m; k++)
      fold_sparse_window(op, dtype, w, from + k / m * n * inner, n, inner, k % m, to + k * inner);
    return true;
  }
  Slot *line = kernel_alloc(ev, inst, rows * inner, sizeof *line);
  Slot *right = is_long && line ? kernel_alloc(ev, inst, rows * inner, sizeof *right) : NULL;
  const bool ok = line && (right || !is_long);
  uint32_t windows = 0;
  for (int64_t o = 0; ok && o < outer; o++) {
    base_look();
    for (int64_t k = 0; k < rows * inner; k++)
      line[k] = neutral;
    for (int64_t k = 0; k < n; k++) {
      const int64_t row = w->pad_low + k * w->lhs_dilate;
      if (row >= 0 && row < rows)
        memcpy(line + row * inner, from + (o * n + k) * inner, sizeof *line * (size_t)inner);
    }
    if (is_long)
      fold_long_windows(op, dtype, line, right, rows, inner, w->size);
    for (int64_t k = 0; k < m; k++) {
      base_look_often(&windows);
      Slot *result = to + (o * m + k) * inner;
      const int64_t first = k * w->stride, last = first + w->size - 1;
      if (is_long) {
        memcpy(result, right + first * inner, sizeof *result * (size_t)inner);
        if (first % w->size != 0)
          fold_vectors(op, dtype, result, line + last * inner, inner);
        continue;
      }
      memcpy(result, line + first * inner, sizeof *result * (size_t)inner);
      for (int64_t p = 1; p < w->size; p++)
        fold_vectors(op, dtype, result, line + (first + p * w->rhs_dilate) * inner, inner);
    }
  }
  base_free(line);
  base_free(right);
  return ok;
}

static bool window_simple(HlEval *ev, const HlInst *inst, HlOp op, HlWindow window,
                          const HlLiteral *x, const HlLiteral *init, HlLiteral *out) {
  const HlDtype dtype = x->shape->dtype;
  Slot *now = wide_load(ev, inst, x, wide_of(dtype));
  int64_t outer = 1, inner = x->n;
  for (int d = 0; now && d < window.n; d++) {
    const int64_t n = x->shape->dim[d], m = out->shape->dim[d];
    inner = 1;
    for (int e = d + 1; e < window.n; e++)
      inner *= x->shape->dim[e];
    const HlWindowDim *w = &window.at[d];
    if (w->size != 1 || w->stride != 1 || w->pad_low || w->pad_high || w->lhs_dilate != 1) {
      if (inner > 0 && outer > 0 && m > INT64_MAX / 64 / inner / outer) {
        base_free(now);
        return hl_inst_error(ev->cx, inst, "the result is too large");
      }
      Slot *next = kernel_alloc(ev, inst, outer * m * inner, sizeof *next);
      if (next && !fold_dim(ev, inst, op, dtype, w, now, outer, n, inner, next, m)) {
        base_free(next);
        next = NULL;
      }
      base_free(now);
      now = next;
    }
    outer *= m;
  }
  if (!now)
    return false;
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&steps);
    now[k] = fold_slot(op, dtype, slot_load(dtype, init->data, k % init->n), now[k]);
  }
  wide_store(out, 0, wide_of(dtype), now, out->n);
  base_free(now);
  return true;
}

// Sums of complex numbers are sums of pairs: one more dimension of two with a window of one.
static bool window_complex_sum(HlEval *ev, const HlInst *inst, HlWindow window, const HlLiteral *x,
                               const HlLiteral *init, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  HlLiteral parts[3];
  HlShape shapes[3];
  const HlLiteral *whole[3] = {x, init, out};
  for (int k = 0; k < 3; k++)
    fold_as_parts(arena, whole[k], &parts[k], &shapes[k]);
  HlWindowDim *at = HL_ARRAY(arena, HlWindowDim, window.n + 1);
  for (int d = 0; d < window.n; d++)
    at[d] = window.at[d];
  at[window.n] = (HlWindowDim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  return window_simple(ev, inst, HL_OP_ADD, (HlWindow){at, window.n + 1}, &parts[0], &parts[1],
                       &parts[2]);
}

// --- Any computation -----------------------------------------------------------------------------

// The element that a window offset at a result position stands on; false in padding and holes.
static bool element_under(HlWindow window, const HlShape *shape, const int64_t *stride,
                          const int64_t *place, const int64_t *offset, int64_t *out) {
  int64_t at = 0;
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    const int64_t p = place[d] * w->stride + offset[d] * w->rhs_dilate - w->pad_low;
    if (p < 0 || p % w->lhs_dilate != 0 || p / w->lhs_dilate >= shape->dim[d])
      return false;
    at += p / w->lhs_dilate * stride[d];
  }
  *out = at;
  return true;
}

typedef struct Places {  // walks over the results and over the window
  HlWalk result, window;
  int64_t *stride;  // of the operand
  int64_t *size;    // of the window
} Places;

static Places places_of(HlArena *arena, HlWindow window, const HlShape *shape,
                        const HlShape *result) {
  Places p = {.stride = HL_ARRAY(arena, int64_t, shape->rank + 1),
              .size = HL_ARRAY(arena, int64_t, shape->rank + 1)};
  hl_strides(shape->rank, shape->dim, p.stride);
  for (int d = 0; d < window.n; d++)
    p.size[d] = window.at[d].size;
  hl_walk_start(&p.result, arena, result->rank, result->dim, 0, NULL);
  return p;
}

static void window_machine(HlEval *ev, Machine *m, int n, HlWindow window,
                           const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlShape *shape = in[0]->shape;
  Places p = places_of(arena, window, shape, kernel_result(out, 0)->shape);
  Cell *acc = HL_ARRAY(arena, Cell, n);
  for (int64_t at = 0; !p.result.done; hl_walk_next(&p.result), at++) {
    for (int k = 0; k < n; k++)
      acc[k] = cell_load(m->param_dtype[k], in[n + k]->data, 0);
    const HlMark mark = hl_arena_mark(arena);
    hl_walk_start(&p.window, arena, window.n, p.size, 0, NULL);
    for (; !p.window.done; hl_walk_next(&p.window)) {
      int64_t from;
      if (!element_under(window, shape, p.stride, p.result.index, p.window.index, &from))
        continue;
      for (int k = 0; k < n; k++) {
        m->cell[k] = acc[k];
        m->cell[n + k] = cell_load(m->param_dtype[n + k], in[k]->data, from);
      }
      machine_run(m);
      for (int k = 0; k < n; k++)
        acc[k] = machine_result(m, k);
    }
    hl_arena_release(arena, mark);
    for (int k = 0; k < n; k++)
      cell_store(m->result_dtype[k], kernel_result(out, k)->data, at, acc[k]);
  }
}

// The results that see an element under one window offset: their numbers, and the elements'.
static int64_t find_seen(HlArena *arena, HlWindow window, const HlShape *shape,
                         const HlShape *result, const Places *p, int64_t *which, int64_t *from) {
  HlWalk walk;
  int64_t n = 0, at = 0;
  hl_walk_start(&walk, arena, result->rank, result->dim, 0, NULL);
  for (; !walk.done; hl_walk_next(&walk), at++)
    if (element_under(window, shape, p->stride, walk.index, p->window.index, &from[n]))
      which[n++] = at;
  return n;
}

static void take(const HlLiteral *from, HlLiteral *to, const int64_t *which, int64_t n) {
  const size_t size = (size_t)hl_dtype_bytes(from->shape->dtype);
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)which[i] * size,
           size);
}

static void put(const HlLiteral *from, HlLiteral *to, const int64_t *which, int64_t n) {
  const size_t size = (size_t)hl_dtype_bytes(from->shape->dtype);
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)to->data + (size_t)which[i] * size, (const char *)from->data + (size_t)i * size,
           size);
}

// One step of window_calls: folds in what stands under one window offset.
static bool fold_seen(HlEval *ev, const HlInst *inst, int n, const HlLiteral *const *in,
                      HlLiteral *out, const int64_t *which, const int64_t *from, int64_t n_seen) {
  HlLiteral **acc = HL_ARRAY(hl_cx_scratch(ev->cx), HlLiteral *, 2 * n), **x = acc + n;
  bool ok = true;
  for (int k = 0; k < n && ok; k++) {
    acc[k] = kernel_vector(ev, in[k]->shape->dtype, n_seen);
    x[k] = acc[k] ? kernel_vector(ev, in[k]->shape->dtype, n_seen) : NULL;
    ok = x[k] != NULL;
    if (ok) {
      take(kernel_result(out, k), acc[k], which, n_seen);
      take(in[k], x[k], from, n_seen);
    }
  }
  ok = ok && fold_call(ev, hl_to_apply(inst), acc, n, x, n);
  for (int k = 0; k < n; k++) {
    if (ok)
      put(acc[k], kernel_result(out, k), which, n_seen);
    hl_literal_unref(acc[k]);
    hl_literal_unref(x[k]);
  }
  return ok;
}

static bool window_calls(HlEval *ev, const HlInst *inst, int n, HlWindow window,
                         const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlLiteral *first = kernel_result(out, 0);
  Places p = places_of(arena, window, in[0]->shape, first->shape);
  for (int k = 0; k < n; k++)
    fill_elements(kernel_result(out, k)->data, first->n, in[n + k]->data,
                  hl_dtype_bytes(in[n + k]->shape->dtype));
  int64_t *which = kernel_alloc(ev, inst, first->n, 2 * sizeof *which);
  if (!which)
    return false;
  bool ok = true;
  hl_walk_start(&p.window, arena, window.n, p.size, 0, NULL);
  for (; ok && !p.window.done; hl_walk_next(&p.window)) {
    const HlMark mark = hl_arena_mark(arena);
    int64_t *from = which + first->n;
    const int64_t n_seen = find_seen(arena, window, in[0]->shape, first->shape, &p, which, from);
    ok = n_seen == 0 || fold_seen(ev, inst, n, in, out, which, from, n_seen);
    hl_arena_release(arena, mark);
  }
  base_free(which);
  return ok;
}

// --- Any computation over one long window ---------------------------------------------------------

enum { LONG = 64 };

// The only dimension with a window worth the name, if that is LONG, moves by 1 and has no holes;
// else -1.
static int long_dimension(HlWindow window) {
  int found = -1;
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    if (w->size == 1 && w->stride == 1 && w->lhs_dilate == 1 && !w->pad_low && !w->pad_high)
      continue;
    if (found >= 0 || w->size < LONG || w->stride != 1 || w->lhs_dilate != 1 || w->rhs_dilate != 1)
      return -1;
    found = d;
  }
  return found;
}

// Sums over runs of 1, 2, 4, ... elements of a line, and where each result stands in its window.
typedef struct Doubling {
  int n;                       // operands
  int64_t outer, rows, inner;  // of the operand: the line is the middle dimension
  int64_t results;             // rows of the result
  HlLiteral **sum;             // n of [outer, left, inner]: sum of `run` rows from each on
  int64_t run, left;
  int64_t *at, *length;   // per result row: next row to take in, rows still to take
  int64_t *which, *from;  // as many as the result has elements
} Doubling;

// sum[r] = f(sum[r], sum[r + run]): runs twice as long.
static bool double_runs(HlEval *ev, const HlComp *comp, Doubling *g) {
  const int64_t left = g->left - g->run > 0 ? g->left - g->run : 0;
  HlLiteral **next = HL_ARRAY(hl_cx_scratch(ev->cx), HlLiteral *, 2 * g->n), **x = next + g->n;
  bool ok = true;
  for (int k = 0; k < g->n && ok; k++) {
    const HlDtype dtype = g->sum[k]->shape->dtype;
    const size_t bytes = (size_t)(g->inner * hl_dtype_bytes(dtype)), row = (size_t)left * bytes;
    next[k] = kernel_vector(ev, dtype, g->outer * left * g->inner);
    x[k] = next[k] ? kernel_vector(ev, dtype, g->outer * left * g->inner) : NULL;
    ok = x[k] != NULL;
    for (int64_t o = 0; ok && left > 0 && o < g->outer; o++) {
      const char *line = (const char *)g->sum[k]->data + (size_t)(o * g->left) * bytes;
      memcpy((char *)next[k]->data + (size_t)o * row, line, row);
      memcpy((char *)x[k]->data + (size_t)o * row, line + (size_t)g->run * bytes, row);
    }
  }
  ok = ok && (left == 0 || fold_call(ev, comp, next, g->n, x, g->n));
  for (int k = 0; k < g->n; k++) {
    hl_literal_unref(x[k]);
    hl_literal_unref(ok ? g->sum[k] : next[k]);
    if (ok)
      g->sum[k] = next[k];
  }
  g->left = left;
  g->run *= 2;
  return ok;
}

// Takes a run into every result whose remaining length has that bit; runs go from left to right.
static bool take_runs(HlEval *ev, const HlInst *inst, Doubling *g, HlLiteral *out) {
  int64_t n = 0;
  for (int64_t o = 0; o < g->outer; o++)
    for (int64_t r = 0; r < g->results; r++)
      for (int64_t i = 0; (g->length[r] & g->run) && i < g->inner; i++) {
        g->which[n] = (o * g->results + r) * g->inner + i;
        g->from[n++] = (o * g->left + g->at[r]) * g->inner + i;
      }
  for (int64_t r = 0; r < g->results; r++)
    g->at[r] += g->length[r] & g->run;
  const HlLiteral *const *sum = (const HlLiteral *const *)g->sum;
  return n == 0 || fold_seen(ev, inst, g->n, sum, out, g->which, g->from, n);
}

// Folds windows along dimension d in about two calls per bit of their length. As XLA does for long
// windows, this takes the computation to be associative.
static bool window_doubling(HlEval *ev, const HlInst *inst, int n, int d, const HlWindowDim *w,
                            const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlLiteral *first = kernel_result(out, 0);
  Doubling g = {.n = n, .outer = 1, .inner = 1, .run = 1, .sum = HL_ARRAY(arena, HlLiteral *, n)};
  for (int k = 0; k < in[0]->shape->rank; k++)
    if (k != d)
      *(k < d ? &g.outer : &g.inner) *= in[0]->shape->dim[k];
  g.rows = g.left = in[0]->shape->dim[d];
  g.results = first->shape->dim[d];
  g.at = kernel_alloc(ev, inst, 2 * (g.results + first->n), sizeof *g.at);
  if (!g.at)
    return false;
  g.length = g.at + g.results;
  g.which = g.length + g.results;
  g.from = g.which + first->n;
  for (int64_t r = 0; r < g.results; r++) {
    const int64_t start = r - w->pad_low, end = start + w->size;
    g.at[r] = start > 0 ? start : 0;
    g.length[r] = (end < g.rows ? end : g.rows) - g.at[r];
    if (g.length[r] < 0)
      g.length[r] = 0;
  }
  for (int k = 0; k < n; k++) {
    g.sum[k] = hl_literal_ref(in[k]);
    fill_elements(kernel_result(out, k)->data, first->n, in[n + k]->data,
                  hl_dtype_bytes(in[n + k]->shape->dtype));
  }
  bool ok = true;
  while (ok && g.run <= g.rows && g.run <= w->size) {
    const HlMark mark = hl_arena_mark(arena);
    ok = take_runs(ev, inst, &g, out) && double_runs(ev, hl_to_apply(inst), &g);
    hl_arena_release(arena, mark);
  }
  for (int k = 0; k < n; k++)
    hl_literal_unref(g.sum[k]);
  base_free(g.at);
  return ok;
}

// A window without dimensions stands for one of size 1 in each.
static HlWindow whole_window(HlArena *arena, const HlInst *inst, int rank) {
  HlWindow window = hl_window(inst);
  if (window.n > 0 || rank == 0)
    return window;
  HlWindowDim *at = HL_ARRAY(arena, HlWindowDim, rank);
  for (int d = 0; d < rank; d++)
    at[d] = (HlWindowDim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  return (HlWindow){at, rank};
}

// Short sums are rounded at every step, in order, as a plain loop does; where they cancel, that shows.
static bool is_short_sum(HlOp op, HlDtype dtype, HlWindow window) {
  enum { SHORT = 32 };
  int64_t size = 1;
  for (int d = 0; d < window.n && size <= SHORT; d++)
    if (__builtin_mul_overflow(size, window.at[d].size, &size))
      return false;
  return op == HL_OP_ADD && hl_is_float(dtype) && dtype != HL_F64 && size <= SHORT;
}

bool eval_reduce_window(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                        HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const int n = (int)inst->n_operands / 2;
  const HlComp *comp = hl_to_apply(inst);
  if (kernel_result(out, 0)->n == 0)
    return true;
  const HlMark mark = hl_arena_mark(arena);
  const HlWindow window = whole_window(arena, inst, in[0]->shape->rank);
  if (window.n != in[0]->shape->rank)
    return hl_inst_error(ev->cx, inst, "the window has %d dimensions, the operand %d", window.n,
                         in[0]->shape->rank);
  if (n < 1 || comp->n_params != 2 * n)
    return hl_inst_error(ev->cx, inst,
                         "reduce-window needs a computation of two parameters per operand");
  const HlOp op = fold_simple_op(comp);
  bool ok = true;
  Machine *m;
  if (n == 1 && is_short_sum(op, in[0]->shape->dtype, window))
    ok = window_calls(ev, inst, n, window, in, out);
  else if (n == 1 && fold_is_wide(op, in[0]->shape->dtype))
    ok = window_simple(ev, inst, op, window, in[0], in[1], out);
  else if (n == 1 && op == HL_OP_ADD && hl_is_complex(in[0]->shape->dtype))
    ok = window_complex_sum(ev, inst, window, in[0], in[1], out);
  else if (long_dimension(window) >= 0)
    ok = window_doubling(ev, inst, n, long_dimension(window), &window.at[long_dimension(window)],
                         in, out);
  else if ((m = machine_new(arena, comp)) && machine_folds(m, n, in, out))
    window_machine(ev, m, n, window, in, out);
  else
    ok = window_calls(ev, inst, n, window, in, out);
  hl_arena_release(arena, mark);
  return ok;
}
