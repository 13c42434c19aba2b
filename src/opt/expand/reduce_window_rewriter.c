// opt/expand/reduce_window_rewriter.c: cumulative sums (products, maxima, ...) as trees instead of windows
// as long as the array, which cost n * n.
//
// A scan is a reduce-window with one dimension of size n whose window has size n and looks back (or
// ahead) only: padded by n - 1 (inclusive) or n (exclusive) on one side. It is cut into blocks of
// base_length elements: each block is scanned, the blocks' totals are scanned (exclusively; by this
// pass again, if they are many), and each block is combined with the total of those before it.
//
//   [0 1 2 3 4 5 6 7 8]     [0 1 2]     [0  1  3]                       [ 0  1  3]
//            blocks of 3 => [3 4 5]  => [3  7 12]  + totals [0 3 15] => [ 6 10 15]
//                           [6 7 8]     [6 13 21]                       [21 28 36]
//
// The reducer is taken to be associative, as the op demands, and the initial value to be its
// identity unless it is known not to be.
#include "opt/ask/reducers.h"
#include "opt/ask/windows.h"

typedef struct Scan {
  HlInst *inst;
  HlComp *combine;
  int n, rank, dim;  // arrays; the scanned dimension
  int64_t length, base;
  bool forward, exclusive;
  HlInst *const *init;
} Scan;

// --- What is a scan ------------------------------------------------------------------------------

// The only dimension with a window that does something; -1 if there is none or more than one.
static int find_scanned(HlWindow window) {
  int found = -1;
  for (int d = 0; d < window.n; d++) {
    if (window_is_unit(&window.at[d]))
      continue;
    if (found >= 0)
      return -1;
    found = d;
  }
  return found;
}

static bool is_scan_window(const HlWindowDim *w, int64_t length, Scan *scan) {
  if (w->size != length || w->stride != 1 || w->lhs_dilate != 1 || w->rhs_dilate != 1 ||
      w->reversal)
    return false;
  scan->forward = w->pad_high == 0;
  int64_t pad = scan->forward ? w->pad_low : w->pad_high;
  scan->exclusive = pad == length;
  return (w->pad_low == 0 || w->pad_high == 0) && (pad == length || pad == length - 1);
}

static bool is_long_scan(HlInst *inst, Scan *scan) {
  HlWindow window = hl_window(inst);
  scan->dim = find_scanned(window);
  if (scan->dim < 0 || !all_static(inst))
    return false;
  scan->inst = inst;
  scan->combine = hl_to_apply(inst);
  scan->n = (int)inst->n_operands / 2;
  scan->init = inst->operands + scan->n;
  scan->rank = inst->operands[0]->shape->rank;
  scan->length = inst->operands[0]->shape->dim[scan->dim];
  const HlInst *root = scan->combine->root;
  if (root->shape->dtype == HL_TUPLE && root->op != HL_OP_TUPLE)
    return false;
  if (!reducer_may_repeat(scan->combine, scan->init[0]))
    return false;
  return scan->length > scan->base && is_scan_window(&window.at[scan->dim], scan->length, scan);
}

// --- Blocks --------------------------------------------------------------------------------------

// Swaps the scanned dimension with the last one; its own inverse.
static HlI64s scanned_last(HlPass *p, const Scan *s) {
  int64_t *order = HL_ARRAY(p->arena, int64_t, s->rank);
  for (int d = 0; d < s->rank; d++)
    order[d] = d;
  order[s->dim] = s->rank - 1;
  order[s->rank - 1] = s->dim;
  return (HlI64s){order, s->rank};
}

static HlInst *pad_last(HlPass *p, HlBuild *b, HlInst *x, HlInst *value, int64_t low, int64_t high,
                        int dim) {
  if (!x || (low == 0 && high == 0))
    return x;
  int64_t *lows = HL_ARRAY(p->arena, int64_t, x->shape->rank);
  int64_t *highs = HL_ARRAY(p->arena, int64_t, x->shape->rank);
  lows[dim] = low;
  highs[dim] = high;
  return hl_b_pad(b, x, value, lows, highs, NULL);
}

// [.., n] padded to [.., blocks * base], as [.., blocks, base].
static HlInst *in_blocks(HlPass *p, HlBuild *b, const Scan *s, HlInst *x, int64_t blocks) {
  if (!x)
    return NULL;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, s->rank + 1);
  for (int d = 0; d < s->rank - 1; d++)
    sizes[d] = x->shape->dim[d];
  sizes[s->rank - 1] = blocks;
  sizes[s->rank] = s->base;
  return window_last_major(p, hl_b_reshape(b, x, s->rank + 1, sizes));
}

// A scan along the last of `rank` dimensions by one window.
static HlInst *scan_last(HlPass *p, HlBuild *b, const Scan *s, HlInst *const *x, int rank,
                         int64_t size, int64_t pad) {
  HlWindowDim *window = window_units(p->arena, rank);
  window[rank - 1].size = size;
  *(s->forward ? &window[rank - 1].pad_low : &window[rank - 1].pad_high) = pad;
  HlInst *scan = window_reduce(p, b, s->n, x, s->init, window, s->combine);
  return rank > s->rank ? window_last_major(p, scan) : scan;
}

// The last (when looking ahead the first) element of each block: [.., blocks].
static HlInst *block_total(HlPass *p, HlBuild *b, const Scan *s, HlInst *blocks) {
  if (!blocks)
    return NULL;
  int64_t at = s->forward ? s->base - 1 : 0;
  HlInst *column = window_last_major(p, hl_b_slice_dim(b, blocks, s->rank, at, at + 1));
  return column ? hl_b_reshape(b, column, s->rank, column->shape->dim) : NULL;
}

// What came before each block, for each of its elements: [.., blocks, base].
static HlInst *before_block(HlPass *p, HlBuild *b, const Scan *s, HlInst *totals,
                            const HlShape *blocks) {
  if (!totals)
    return NULL;
  int64_t n = blocks->dim[s->rank - 1], from = s->forward ? 0 : 1;
  HlInst *kept = hl_b_slice_dim(b, totals, s->rank - 1, from, from + n);
  const HlI64s dims = dims_from(p->arena, 0, s->rank);
  return kept ? window_last_major(p, hl_b_broadcast(b, kept, blocks->rank, blocks->dim, dims))
              : NULL;
}

static HlInst *combine_blocks(HlPass *p, HlBuild *b, const Scan *s, HlInst *const *operands,
                              int k) {
  HlComp *reducer = reducer_element(b, s->combine, k);
  HlAttr dims = {.key = HL_A_DIMENSIONS, .ints = dims_from(hl_b_module(b)->arena, 0, s->rank + 1)};
  return window_last_major(p,
                           hl_b_op(b, HL_OP_MAP, NULL, 2 * s->n, operands, 1, &dims, 1, &reducer));
}

// --- The whole -----------------------------------------------------------------------------------

static HlInst *restore(HlPass *p, HlBuild *b, const Scan *s, HlInst *blocks, HlI64s order,
                       const HlShape *padded, HlInst *init) {
  if (!blocks)
    return NULL;
  HlInst *out = hl_b_reshape(b, blocks, padded->rank, padded->dim);
  out = dims_moved(b, out, order);
  if (out && out->shape->dim[s->dim] != s->length)
    out = hl_b_slice_dim(b, out, s->dim, 0, s->length);
  if (!s->exclusive)
    return out;
  return pad_last(p, b, out, init, s->forward, !s->forward, s->dim);
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *inst) {
  Scan s = {.base = hl_pass_int(p, "base_length")};
  if (s.base <= 0 || !is_long_scan(inst, &s))
    return NULL;
  HlI64s order = scanned_last(p, &s);
  int64_t blocks = (s.length + s.base - 1) / s.base;
  HlInst **x = HL_ARRAY(p->arena, HlInst *, s.n), **tiled = HL_ARRAY(p->arena, HlInst *, s.n);
  HlInst **totals = HL_ARRAY(p->arena, HlInst *, s.n);
  HlInst **both = HL_ARRAY(p->arena, HlInst *, 2 * s.n), **out = HL_ARRAY(p->arena, HlInst *, s.n);
  for (int k = 0; k < s.n; k++) {
    x[k] = dims_moved(b, inst->operands[k], order);
    x[k] = pad_last(p, b, x[k], s.init[k], 0, blocks * s.base - s.length, s.rank - 1);
    tiled[k] = in_blocks(p, b, &s, x[k], blocks);
  }
  HlInst *inner = scan_last(p, b, &s, tiled, s.rank + 1, s.base, s.base - 1);
  for (int k = 0; k < s.n; k++) {
    both[k] = window_result(b, inner, k);
    totals[k] = block_total(p, b, &s, both[k]);
  }
  HlInst *outer = scan_last(p, b, &s, totals, s.rank, blocks, blocks);
  if (!outer)
    return NULL;
  for (int k = 0; k < s.n; k++)
    both[s.n + k] = before_block(p, b, &s, window_result(b, outer, k), tiled[k]->shape);
  for (int k = 0; k < s.n; k++) {
    HlInst *sum = combine_blocks(p, b, &s, both, k);
    out[k] = restore(p, b, &s, sum, order, x[k]->shape, s.init[k]);
  }
  return inst->shape->dtype == HL_TUPLE ? hl_b_tuple(b, s.n, out) : out[0];
}

const HlRule reduce_window_rewriter_rules[] = {
    {HL_OP_REDUCE_WINDOW, rewrite, "scan", "cumulative sum => sums in blocks, and of blocks",
     "one window as long as its dimension, looking back or ahead only, longer than base_length"},
    {HL_OP_REDUCE_WINDOW, window_resize, "rank-1",
     "reduce-window(x) => reshape(reduce-window(reshape(x)))", "x of rank 1"},
    {0},
};
