// op/convolution.c: convolution: sliding sums of products, as matrix products of unrolled windows.
//
// The input is brought into the order [batch, spatial, feature], the kernel into [spatial, input,
// output]. For each group, some output places at a time are unrolled into rows of the elements that
// their windows see (0 in padding and holes), and multiplied by the kernel's matrix. Where most of
// that would be padding and holes (transposed convolutions), each tap of the kernel takes its turn
// instead and meets only the elements it really sees.

#include <string.h>

#include "base/memory.h"
#include "op/matmul.h"

typedef struct Conv {
  HlEval *ev;
  const HlInst *inst;
  HlDtype dtype;  // of the result
  Wide wide;
  size_t bytes;  // of a wide value
  int rank;      // spatial
  const HlWindowDim *window;
  int64_t *in_dim, *kernel_dim, *out_dim, *in_stride;  // spatial
  int64_t n_in, n_out, n_kernel;                       // products of them
  int64_t batches, features, outputs;                  // of input, input, kernel
  int64_t feature_groups, batch_groups;
  char *x;       // [batch, spatial, feature]
  char *kernel;  // [spatial, input, output]
  char *y;       // [batch, spatial, output]
} Conv;

static HlI64s list_of(HlArena *arena, int64_t first, HlI64s middle, int64_t last) {
  int64_t *at = HL_ARRAY(arena, int64_t, middle.n + 2);
  int n = 0;
  if (first >= 0)
    at[n++] = first;
  for (int k = 0; k < middle.n; k++)
    at[n++] = middle.at[k];
  at[n++] = last;
  return (HlI64s){at, n};
}

static bool labels_fit(HlEval *ev, const HlInst *inst, HlI64s list, const HlShape *shape) {
  return list.n == shape->rank
             ? kernel_check_dims(ev, inst, list, shape->rank)
             : hl_inst_error(ev->cx, inst, "dim_labels do not fit rank %d", shape->rank);
}

// The window of one output place as a row: for each kernel place, `count` features from `feature`
// on.
static void unroll(const Conv *c, int64_t batch, const int64_t *place, int64_t feature,
                   int64_t count, int64_t *at, char *row) {
  const size_t run = (size_t)count * c->bytes;
  const char *image = c->x + (size_t)(batch * c->n_in * c->features + feature) * c->bytes;
  memset(at, 0, sizeof *at * (size_t)c->rank);
  for (int64_t k = 0; k < c->n_kernel; k++, row += run) {
    int64_t from = 0;
    bool inside = true;
    for (int d = 0; d < c->rank && inside; d++) {
      const HlWindowDim *w = &c->window[d];
      const int64_t tap = w->reversal ? c->kernel_dim[d] - 1 - at[d] : at[d];
      const int64_t p = place[d] * w->stride + tap * w->rhs_dilate - w->pad_low;
      const int64_t q = w->lhs_dilate == 1 ? p : p / w->lhs_dilate;
      inside = p >= 0 && q * w->lhs_dilate == p && q < c->in_dim[d];
      from += q * c->in_stride[d];
    }
    if (inside && run == 8)
      memcpy(row, image + (size_t)(from * c->features) * 8, 8);
    else if (inside)
      memcpy(row, image + (size_t)(from * c->features) * c->bytes, run);
    else
      memset(row, 0, run);
    for (int d = c->rank - 1; d >= 0 && ++at[d] == c->kernel_dim[d]; d--)
      at[d] = 0;
  }
}

// The kernel of one group as a dense matrix [spatial x input, n] of columns from `first` on.
static char *kernel_matrix(const Conv *c, int64_t rows, int64_t first, int64_t n) {
  char *b = kernel_alloc(c->ev, c->inst, rows * n, c->bytes);
  for (int64_t r = 0; b && r < rows; r++)
    memcpy(b + (size_t)(r * n) * c->bytes, c->kernel + (size_t)(r * c->outputs + first) * c->bytes,
           (size_t)n * c->bytes);
  return b;
}

// One group: its input features and batches give the output features first .. first + n - 1.
static bool convolve_group(const Conv *c, int64_t group) {
  HlArena *arena = hl_cx_scratch(c->ev->cx);
  const int64_t n_groups = c->feature_groups * c->batch_groups;
  const int64_t n = c->outputs / n_groups, first = group * n;
  const int64_t count = c->features / c->feature_groups,
                feature = c->feature_groups > 1 ? group * count : 0;
  const int64_t batches = c->batches / c->batch_groups,
                batch = c->batch_groups > 1 ? group * batches : 0;
  const int64_t k = c->n_kernel * count, total = batches * c->n_out;
  const int64_t block = k > 0 && k < 65536 ? 65536 / k + 4 : 4;
  char *b = kernel_matrix(c, k, first, n);
  char *rows = b ? kernel_alloc(c->ev, c->inst, block * k, c->bytes) : NULL;
  char *y = rows ? kernel_alloc(c->ev, c->inst, block * n, c->bytes) : NULL;
  int64_t *place = HL_ARRAY(arena, int64_t, c->rank + 1),
          *at = HL_ARRAY(arena, int64_t, c->rank + 1);
  for (int64_t start = 0; y && start < total; start += block) {
    const int64_t m = total - start < block ? total - start : block;
    base_look();
    for (int64_t r = 0; r < m; r++) {
      unroll(c, batch + (start + r) / c->n_out, place, feature, count, at,
             rows + (size_t)(r * k) * c->bytes);
      for (int d = c->rank - 1; d >= 0 && ++place[d] == c->out_dim[d]; d--)
        place[d] = 0;
    }
    matmul_for(c->dtype, c->wide, m, k, n, rows, k, b, y);
    for (int64_t r = 0; r < m; r++)
      memcpy(c->y + (size_t)((start + r) * c->outputs + first) * c->bytes,
             y + (size_t)(r * n) * c->bytes, (size_t)n * c->bytes);
  }
  const bool ok = y != NULL;
  base_free(b);
  base_free(rows);
  base_free(y);
  return ok;
}

// --- Tap by tap ----------------------------------------------------------------------------------

// The result places along dimension d at which a kernel place stands on an element, and the
// elements.
static int64_t find_places(const Conv *c, int d, int64_t at, int64_t *place, int64_t *element) {
  const HlWindowDim *w = &c->window[d];
  const int64_t tap = w->reversal ? c->kernel_dim[d] - 1 - at : at;
  int64_t n = 0;
  for (int64_t k = 0; k < c->out_dim[d]; k++) {
    const int64_t p = k * w->stride + tap * w->rhs_dilate - w->pad_low;
    if (p < 0 || p % w->lhs_dilate != 0 || p / w->lhs_dilate >= c->in_dim[d])
      continue;
    place[n] = k;
    element[n++] = p / w->lhs_dilate;
  }
  return n;
}

// Whether less than a third of what the windows cover are elements.
static bool is_sparse(const Conv *c) {
  HlArena *arena = hl_cx_scratch(c->ev->cx);
  double share = 1;
  for (int d = 0; d < c->rank; d++) {
    int64_t *place = HL_ARRAY(arena, int64_t, 2 * c->out_dim[d] + 1), seen = 0;
    for (int64_t at = 0; at < c->kernel_dim[d]; at++)
      seen += find_places(c, d, at, place, place + c->out_dim[d]);
    if (seen > 0)
      share *= (double)seen / ((double)c->out_dim[d] * (double)c->kernel_dim[d]);
  }
  return share < 1.0 / 3;
}

static void add_row(Wide wide, void *to, const void *from, int64_t n) {
  if (wide == WIDE_INT) {
    uint64_t *sum = to;
    for (int64_t k = 0; k < n; k++)
      sum[k] += ((const uint64_t *)from)[k];
    return;
  }
  double *sum = to;
  for (int64_t k = 0; k < (wide == WIDE_COMPLEX ? 2 * n : n); k++)
    sum[k] += ((const double *)from)[k];
}

enum { TAP_ROWS = 256 };

// What a tap works with: some rows of features, their products, and where those go.
typedef struct Tap {
  int64_t **place, **element;  // per dimension
  int64_t *count, *index;      // per dimension: how many places, and the current one
  char *rows, *product;
  int64_t to[TAP_ROWS];
} Tap;

// Adds the products of one tap; `b` is its matrix [count of features, n].
static void convolve_tap(const Conv *c, Tap *t, const char *b, int64_t group, int64_t count,
                         int64_t n) {
  const int64_t feature = c->feature_groups > 1 ? group * count : 0, first = group * n;
  const int64_t batches = c->batches / c->batch_groups,
                batch = c->batch_groups > 1 ? group * batches : 0;
  int64_t total = batches;
  for (int d = 0; d < c->rank; d++) {
    total *= t->count[d];
    t->index[d] = 0;
  }
  const int64_t each = batches > 0 ? total / batches : 0;
  for (int64_t done = 0, m; done < total; done += m) {
    m = total - done < TAP_ROWS ? total - done : TAP_ROWS;
    base_look();
    for (int64_t r = 0; r < m; r++) {
      const int64_t image = (done + r) / each;
      int64_t from = 0, to = 0;
      for (int d = 0; d < c->rank; d++) {
        from += t->element[d][t->index[d]] * c->in_stride[d];
        to = to * c->out_dim[d] + t->place[d][t->index[d]];
      }
      memcpy(t->rows + (size_t)(r * count) * c->bytes,
             c->x + (size_t)(((batch + image) * c->n_in + from) * c->features + feature) * c->bytes,
             (size_t)count * c->bytes);
      t->to[r] = (image * c->n_out + to) * c->outputs + first;
      for (int d = c->rank - 1; d >= 0 && ++t->index[d] == t->count[d]; d--)
        t->index[d] = 0;
    }
    matmul(c->wide, m, count, n, t->rows, count, b, t->product);
    for (int64_t r = 0; r < m; r++)
      add_row(c->wide, c->y + (size_t)t->to[r] * c->bytes, t->product + (size_t)(r * n) * c->bytes,
              n);
  }
}

static bool convolve_taps(const Conv *c, int64_t group) {
  HlArena *arena = hl_cx_scratch(c->ev->cx);
  const int64_t n = c->outputs / (c->feature_groups * c->batch_groups), first = group * n;
  const int64_t count = c->features / c->feature_groups;
  Tap t = {.place = HL_ARRAY(arena, int64_t *, c->rank + 1),
           .element = HL_ARRAY(arena, int64_t *, c->rank + 1),
           .count = HL_ARRAY(arena, int64_t, c->rank + 1),
           .index = HL_ARRAY(arena, int64_t, c->rank + 1)};
  for (int d = 0; d < c->rank; d++) {
    t.place[d] = HL_ARRAY(arena, int64_t, c->out_dim[d] + 1);
    t.element[d] = HL_ARRAY(arena, int64_t, c->out_dim[d] + 1);
  }
  char *b = kernel_matrix(c, c->n_kernel * count, first, n);
  t.rows = b ? kernel_alloc(c->ev, c->inst, TAP_ROWS * count, c->bytes) : NULL;
  t.product = t.rows ? kernel_alloc(c->ev, c->inst, TAP_ROWS * n, c->bytes) : NULL;
  int64_t *at = HL_ARRAY(arena, int64_t, c->rank + 1);
  for (int64_t k = 0; t.product && k < c->n_kernel; k++) {
    for (int d = 0; d < c->rank; d++)
      t.count[d] = find_places(c, d, at[d], t.place[d], t.element[d]);
    convolve_tap(c, &t, b + (size_t)(k * count * n) * c->bytes, group, count, n);
    for (int d = c->rank - 1; d >= 0 && ++at[d] == c->kernel_dim[d]; d--)
      at[d] = 0;
  }
  const bool ok = t.product != NULL;
  base_free(b);
  base_free(t.rows);
  base_free(t.product);
  return ok;
}

// --- The whole -----------------------------------------------------------------------------------

// Brings [batch, spatial, feature] into the result's order and type.
static bool store_result(const Conv *c, HlI64s order, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(c->ev->cx);
  const HlShape *shape = out->shape;
  int64_t *all = HL_ARRAY(arena, int64_t, shape->rank + 1),
          *to = HL_ARRAY(arena, int64_t, shape->rank + 1);
  int64_t *dim = HL_ARRAY(arena, int64_t, shape->rank + 1),
          *from = HL_ARRAY(arena, int64_t, shape->rank + 1);
  hl_strides(shape->rank, shape->dim, all);
  for (int k = 0; k < order.n; k++) {
    dim[k] = shape->dim[order.at[k]];
    to[k] = all[order.at[k]];
  }
  hl_strides(order.n, dim, from);
  char *data = kernel_alloc(c->ev, c->inst, out->n, c->bytes);
  if (!data)
    return false;
  move_box(c->ev->cx, (int)c->bytes, shape->rank, dim, (Side){data, to}, (Side){c->y, from});
  wide_store(out, 0, c->wide, data, out->n);
  base_free(data);
  return true;
}

static bool set_up(Conv *c, const HlDimLabels *labels, const HlLiteral *const *in,
                   const HlShape *out) {
  HlArena *arena = hl_cx_scratch(c->ev->cx);
  c->in_dim = HL_ARRAY(arena, int64_t, c->rank + 1);
  c->kernel_dim = HL_ARRAY(arena, int64_t, c->rank + 1);
  c->out_dim = HL_ARRAY(arena, int64_t, c->rank + 1);
  c->in_stride = HL_ARRAY(arena, int64_t, c->rank + 1);
  c->n_in = c->n_out = c->n_kernel = 1;
  for (int d = 0; d < c->rank; d++) {
    c->n_in *= c->in_dim[d] = in[0]->shape->dim[labels->input_spatial.at[d]];
    c->n_kernel *= c->kernel_dim[d] = in[1]->shape->dim[labels->kernel_spatial.at[d]];
    c->n_out *= c->out_dim[d] = out->dim[labels->output_spatial.at[d]];
  }
  hl_strides(c->rank, c->in_dim, c->in_stride);
  c->batches = in[0]->shape->dim[labels->input_batch];
  c->features = in[0]->shape->dim[labels->input_feature];
  c->outputs = in[1]->shape->dim[labels->kernel_output];
  const int64_t groups = c->feature_groups * c->batch_groups;
  if (c->feature_groups < 1 || c->batch_groups < 1 ||
      (c->feature_groups > 1 && c->batch_groups > 1) || c->outputs % groups != 0 ||
      c->features % c->feature_groups != 0 || c->batches % c->batch_groups != 0 ||
      in[1]->shape->dim[labels->kernel_input] != c->features / c->feature_groups ||
      out->dim[labels->output_batch] != c->batches / c->batch_groups ||
      out->dim[labels->output_feature] != c->outputs)
    return hl_inst_error(c->ev->cx, c->inst, "the sizes of the convolution do not fit its groups");
  return true;
}

static bool convolve(Conv *c, const HlDimLabels *labels, const HlLiteral *const *in,
                     HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(c->ev->cx);
  const HlI64s x =
      list_of(arena, labels->input_batch, labels->input_spatial, labels->input_feature);
  const HlI64s y =
      list_of(arena, labels->output_batch, labels->output_spatial, labels->output_feature);
  const HlI64s input = {&labels->kernel_input, 1}, output = {&labels->kernel_output, 1};
  const HlI64s whole =
      list_of(arena, labels->kernel_output, labels->kernel_spatial, labels->kernel_input);
  if (labels->input_spatial.n != c->rank || labels->kernel_spatial.n != c->rank ||
      labels->output_spatial.n != c->rank || !labels_fit(c->ev, c->inst, x, in[0]->shape) ||
      !labels_fit(c->ev, c->inst, whole, in[1]->shape) ||
      !labels_fit(c->ev, c->inst, y, out->shape))
    return hl_inst_error(c->ev->cx, c->inst, "dim_labels do not fit the window");
  if (!set_up(c, labels, in, out->shape))
    return false;
  DotSide lhs = {.shape = in[0]->shape, .data = wide_load(c->ev, c->inst, in[0], c->wide)};
  DotSide rhs = {.shape = in[1]->shape,
                 .data = lhs.data ? wide_load(c->ev, c->inst, in[1], c->wide) : NULL};
  c->x = rhs.data ? dot_arrange(c->ev, c->inst, c->wide, &lhs, x, (HlI64s){0}, (HlI64s){0}) : NULL;
  c->kernel =
      c->x ? dot_arrange(c->ev, c->inst, c->wide, &rhs, labels->kernel_spatial, input, output)
           : NULL;
  base_free(lhs.data);
  base_free(rhs.data);
  c->y = c->kernel ? kernel_alloc(c->ev, c->inst, out->n, c->bytes) : NULL;
  bool ok = c->y != NULL;
  const bool by_taps = ok && is_sparse(c);
  for (int64_t group = 0; ok && out->n > 0 && group < c->feature_groups * c->batch_groups; group++)
    ok = by_taps ? convolve_taps(c, group) : convolve_group(c, group);
  ok = ok && store_result(c, y, out);
  base_free(c->x);
  base_free(c->kernel);
  base_free(c->y);
  return ok;
}

bool eval_convolution(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  if (inst->n_operands > 2)
    return hl_inst_error(ev->cx, inst,
                         "a convolution of sparse or scaled operands cannot be evaluated: how XLA "
                         "computes it is not known");
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlWindow window = hl_window(inst);
  const Wide wide = wide_of(out->shape->dtype);
  Conv c = {.ev = ev,
            .inst = inst,
            .dtype = out->shape->dtype,
            .wide = wide,
            .bytes = wide_bytes(wide),
            .rank = window.n,
            .window = window.at,
            .feature_groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT),
            .batch_groups = hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT)};
  if (!labels)
    return hl_inst_error(ev->cx, inst, "a convolution needs dim_labels");
  const HlMark mark = hl_arena_mark(arena);
  const bool ok = convolve(&c, labels, in, out);
  hl_arena_release(arena, mark);
  return ok;
}
