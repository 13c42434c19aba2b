// opt/expand/space_to_batch_converter.c
//
// space-to-batch-converter: a convolution of few large images becomes one of more, smaller ones.
//
// The last spatial dimension (or others, by the options) is cut into pieces, each with the rows
// that its windows need of the next piece (its halo); pieces become images:
//
//   c = f32[1,14,8] convolution(f32[1,16,4] x, f32[3,4,8] k), window={size=3}
//     =>  with 2 pieces of 8 rows
//   r = f32[1,2,8,4] reshape(x)
//   h = f32[1,1,2,4] slice(r, 1:2 and rows 0:2)   halos; the last piece's is padding
//   a = f32[1,2,10,4] concatenate(r, pad(h))
//   d = f32[2,8,8] convolution(f32[2,10,4] reshape(a), k), window={size=3}
//   c = f32[1,14,8] slice(f32[1,16,8] reshape(d))
//
// A piece begins where a window begins, and where the image dilated by l has an element: it makes
// `results` results and takes results * stride / l rows. What the window's padding is beyond whole
// rows remains padding of each piece.

#include "opt/passes.h"

// How one spatial dimension is cut.
typedef struct Cut {
  int spatial;        // which one
  int64_t pieces;     // that it becomes
  int64_t step;       // rows from piece to piece
  int64_t rows;       // of a piece with its halo
  int64_t front;      // rows of padding in front of the image; below 0: rows that are left out
  int64_t low, high;  // padding that remains
  int64_t results;    // of a piece
  int64_t total;      // of all
} Cut;

typedef struct Cutter {
  HlPass *p;
  HlBuild *b;
  HlInst *conv;
  HlDimLabels labels;  // as they are after the cuts made so far
  Cut *cut;
  int n;
  HlI64s *in, *out;  // by cut: the order of the dimensions that it asks for
} Cutter;

static int64_t divide_up(int64_t a, int64_t b) {
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

static int64_t divide_down(int64_t a, int64_t b) {
  return -divide_up(-a, b);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// --- Where to cut -------------------------------------------------------------------------------

// With so many results a piece: false if a piece then does not reach its next one only.
static bool set_results(Cut *c, const HlWindowDim *w, int64_t results) {
  const int64_t reach = (w->size - 1) * w->rhs_dilate + 1;
  const int64_t taken = (results - 1) * w->stride + reach;  // of the dilated image
  c->results = results;
  c->step = results * w->stride / w->lhs_dilate;
  c->front = divide_down(w->pad_low, w->lhs_dilate);
  c->low = w->pad_low - c->front * w->lhs_dilate;
  if (taken <= c->low)
    return false;
  c->rows = (taken - c->low - 1) / w->lhs_dilate + 1;
  c->high = taken - c->low - (c->rows - 1) * w->lhs_dilate - 1;
  return c->rows <= 2 * c->step;
}

// Steps go forwards, and sums of a few products of these numbers can be told.
static bool is_ordinary(const HlWindowDim *w) {
  const int64_t positive[] = {w->size, w->stride, w->lhs_dilate, w->rhs_dilate},
                pad[] = {w->pad_low, w->pad_high};
  const int64_t most = INT32_MAX / 2;
  bool ok = true;
  for (int k = 0; k < HL_COUNT_OF(positive); k++)
    ok &= positive[k] >= 1 && positive[k] <= most;
  for (int k = 0; k < HL_COUNT_OF(pad); k++)
    ok &= pad[k] >= -most && pad[k] <= most;
  return ok;
}

static bool find_cut(HlPass *p, const HlInst *conv, const HlDimLabels *labels, int spatial,
                     Cut *c) {
  const HlWindowDim *w = &hl_window(conv).at[spatial];
  const int64_t size = conv->operands[0]->shape->dim[labels->input_spatial.at[spatial]];
  *c = (Cut){.spatial = spatial,
             .pieces = hl_pass_int(p, "number_of_splits"),
             .total = conv->shape->dim[labels->output_spatial.at[spatial]]};
  if (!is_ordinary(w) || size > INT32_MAX || c->total > INT32_MAX)
    return false;
  const int64_t reach = (w->size - 1) * w->rhs_dilate + 1;
  const int64_t space = size + w->pad_high + (w->lhs_dilate > 1 ? 0 : w->pad_low);
  // Small images do not pay; a window dilated beyond the results is that of a filter's gradient.
  if (c->pieces < 2 || c->total < 1 || space / 2 < c->pieces ||
      (w->rhs_dilate > 1 && w->size >= c->total))
    return false;
  const int64_t unit = w->lhs_dilate / common_divisor(w->lhs_dilate, w->stride);
  const int64_t results = divide_up(divide_up(c->total, c->pieces), unit) * unit;
  // The pieces must hold all rows that are read.
  const int64_t last = (c->total - 1) * w->stride + reach - 1 - w->pad_low;
  const int64_t read = divide_down(last, w->lhs_dilate) + 1;
  const int64_t rows = divide_down(w->pad_low, w->lhs_dilate) + (read < size ? read : size);
  const int64_t units = divide_up(divide_up(rows, c->pieces) * w->lhs_dilate, unit * w->stride);
  return set_results(c, w, units * unit > results ? units * unit : results);
}

static bool may_cut(HlPass *p, const HlInst *conv, const HlDimLabels *labels) {
  const HlWindow window = hl_window(conv);
  if (!labels || window.n == 0 || labels->input_spatial.n != window.n ||
      labels->output_spatial.n != window.n || hl_shape_is_dynamic(conv->shape) ||
      hl_shape_is_dynamic(conv->operands[0]->shape) || hl_sharding(conv) ||
      hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT) != 1)
    return false;
  const HlShape *input = conv->operands[0]->shape;
  const int64_t images = input->dim[labels->input_batch];
  return images > 0 && images <= hl_pass_int(p, "limit_on_batch_size") &&
         hl_shape_elements(input) > 0 &&
         (hl_is_float(input->dtype) || hl_is_integral(input->dtype));
}

static bool find_cuts(Cutter *c) {
  const HlDimLabels *labels = hl_attr_ptr(c->conv, HL_A_DIM_LABELS);
  if (!may_cut(c->p, c->conv, labels))
    return false;
  c->labels = *labels;
  const int64_t n = hl_pass_int(c->p, "count_of_dimensions_to_convert"),
                last = hl_pass_int(c->p, "dimension_from_end_to_convert"),
                n_spatial = labels->input_spatial.n;
  if (last < 1 || last > n_spatial || n < 1 || n > n_spatial - last + 1)
    return false;
  const int64_t end = n_spatial - last + 1;
  c->n = (int)n;
  c->cut = HL_ARRAY(c->p->arena, Cut, c->n);
  c->in = HL_ARRAY(c->p->arena, HlI64s, c->n);
  c->out = HL_ARRAY(c->p->arena, HlI64s, c->n);
  for (int k = 0; k < c->n; k++)
    if (!find_cut(c->p, c->conv, labels, (int)end - c->n + k, &c->cut[k]))
      return false;
  return true;
}

// --- Orders of dimensions ------------------------------------------------------------------------

// Two dimensions first, then the others.
static HlI64s order_of(HlPass *p, int64_t first, int64_t second, int rank) {
  int64_t *order = HL_ARRAY(p->arena, int64_t, rank), n = 0;
  order[n++] = first;
  order[n++] = second;
  for (int64_t d = 0; d < rank; d++)
    if (d != first && d != second)
      order[n++] = d;
  return (HlI64s){order, rank};
}

static HlI64s inverse(HlArena *arena, HlI64s order) {
  int64_t *back = HL_ARRAY(arena, int64_t, order.n);
  for (int k = 0; k < order.n; k++)
    back[order.at[k]] = k;
  return (HlI64s){back, order.n};
}

static HlI64s relabelled(HlArena *arena, HlI64s labels, HlI64s back) {
  int64_t *list = HL_ARRAY(arena, int64_t, labels.n);
  for (int k = 0; k < labels.n; k++)
    list[k] = back.at[labels.at[k]];
  return (HlI64s){list, labels.n};
}

// Images and the dimension to be cut come first, in the input and in the result.
static void order_for(Cutter *c, int k) {
  HlDimLabels *labels = &c->labels;
  const int rank = c->conv->shape->rank, spatial = c->cut[k].spatial;
  HlArena *arena = c->p->m->arena;
  c->in[k] = order_of(c->p, labels->input_batch, labels->input_spatial.at[spatial], rank);
  c->out[k] = order_of(c->p, labels->output_batch, labels->output_spatial.at[spatial], rank);
  const HlI64s in = inverse(c->p->arena, c->in[k]), out = inverse(c->p->arena, c->out[k]);
  labels->input_batch = in.at[labels->input_batch];
  labels->input_feature = in.at[labels->input_feature];
  labels->input_spatial = relabelled(arena, labels->input_spatial, in);
  labels->output_batch = out.at[labels->output_batch];
  labels->output_feature = out.at[labels->output_feature];
  labels->output_spatial = relabelled(arena, labels->output_spatial, out);
}

// --- Cutting -------------------------------------------------------------------------------------

// Dimensions in place of the first ones.
static HlInst *reshape_front(HlBuild *b, HlInst *x, int n, const int64_t *front, int from) {
  int64_t *dim = HL_ARRAY(hl_b_module(b)->arena, int64_t, x->shape->rank + 2);
  int rank = 0;
  for (int k = 0; k < n; k++)
    dim[rank++] = front[k];
  for (int d = from; d < x->shape->rank; d++)
    dim[rank++] = x->shape->dim[d];
  return hl_b_reshape(b, x, rank, dim);
}

static HlInst *padded(const Cutter *c, HlInst *x, int dim, int64_t low, int64_t high) {
  if (low == 0 && high == 0)
    return x;
  int64_t *lows = HL_ARRAY(c->p->arena, int64_t, x->shape->rank);
  int64_t *highs = HL_ARRAY(c->p->arena, int64_t, x->shape->rank);
  lows[dim] = low;
  highs[dim] = high;
  return hl_b_pad(c->b, x, hl_b_scalar(c->b, x->shape->dtype, 0), lows, highs, NULL);
}

// (images, pieces, rows, ...) with what a piece needs of the next one, or without what it does not
// read.
static HlInst *with_halo(const Cutter *c, const Cut *cut, HlInst *x) {
  if (cut->rows == cut->step)
    return x;
  if (cut->rows < cut->step)
    return hl_b_slice_dim(c->b, x, 2, 0, cut->rows);
  HlInst *halo = hl_b_slice_dim(c->b, x, 1, 1, cut->pieces);
  halo = hl_b_slice_dim(c->b, halo, 2, 0, cut->rows - cut->step);
  HlInst *both[] = {x, padded(c, halo, 1, 0, 1)};
  return hl_b_concatenate(c->b, 2, both, 2);
}

static HlInst *cut_input(const Cutter *c, int k, HlInst *x) {
  const Cut *cut = &c->cut[k];
  x = hl_b_transpose(c->b, x, c->in[k]);
  const int64_t images = x->shape->dim[0];
  x = padded(c, x, 1, cut->front, cut->pieces * cut->step - cut->front - x->shape->dim[1]);
  x = reshape_front(c->b, x, 3, (int64_t[]){images, cut->pieces, cut->step}, 2);
  x = with_halo(c, cut, x);
  return reshape_front(c->b, x, 2, (int64_t[]){images * cut->pieces, cut->rows}, 3);
}

static HlInst *join_result(const Cutter *c, int k, HlInst *x) {
  const Cut *cut = &c->cut[k];
  const int64_t images = x->shape->dim[0] / cut->pieces;
  x = reshape_front(c->b, x, 2, (int64_t[]){images, cut->pieces * cut->results}, 2);
  x = hl_b_slice_dim(c->b, x, 1, 0, cut->total);
  return hl_b_transpose(c->b, x, inverse(c->p->arena, c->out[k]));
}

static const HlShape *cut_shape(const Cutter *c) {
  const int rank = c->conv->shape->rank;
  int64_t *dim = HL_ARRAY(c->p->arena, int64_t, rank), *old = HL_ARRAY(c->p->arena, int64_t, rank);
  for (int d = 0; d < rank; d++)
    dim[d] = c->conv->shape->dim[d];
  for (int k = 0; k < c->n; k++) {
    int64_t *swap = old;
    old = dim;
    dim = swap;
    for (int d = 0; d < rank; d++)
      dim[d] = old[c->out[k].at[d]];
    dim[0] *= c->cut[k].pieces;
    dim[1] = c->cut[k].results;
  }
  return hl_shape_array(c->p->m->shapes, c->conv->shape->dtype, rank, dim);
}

static HlInst *cut_conv(const Cutter *c, HlInst *input) {
  HlArena *arena = c->p->m->arena;
  HlInst *operands[] = {input, c->conv->operands[1]};
  HlInst *conv = hl_inst_copy(c->b->comp, c->conv, cut_shape(c), 2, operands);
  hl_remove_attr(conv, HL_A_ORIGIN);
  HlDimLabels *labels = HL_NEW(arena, HlDimLabels);
  *labels = c->labels;
  hl_set_attr(conv, &(HlAttr){.key = HL_A_DIM_LABELS, .ptr = labels});
  const HlWindow window = hl_window(c->conv);
  HlWindowDim *dims = hl_arena_copy(arena, window.at, sizeof *dims * (size_t)window.n);
  for (int k = 0; k < c->n; k++) {
    dims[c->cut[k].spatial].pad_low = c->cut[k].low;
    dims[c->cut[k].spatial].pad_high = c->cut[k].high;
  }
  hl_set_attr(conv, &(HlAttr){.key = HL_A_WINDOW, .window = {dims, window.n}});
  return conv;
}

static HlInst *cut_convolution(HlPass *p, HlBuild *b, HlInst *inst) {
  Cutter c = {.p = p, .b = b, .conv = inst};
  if (!find_cuts(&c))
    return NULL;
  HlInst *x = inst->operands[0];
  for (int k = 0; k < c.n; k++) {
    order_for(&c, k);
    x = cut_input(&c, k, x);
  }
  x = cut_conv(&c, x);
  for (int k = c.n - 1; k >= 0; k--)
    x = join_result(&c, k, x);
  return x;
}

const HlRule space_to_batch_rules[] = {
    {HL_OP_CONVOLUTION, cut_convolution, "space-to-batch",
     "convolution(x, k) => join(convolution(pieces(x), k))",
     "few images; a piece's windows reach into the next piece at most"},
    {0},
};
