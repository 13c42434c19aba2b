// opt/algsimp/conv.c: algebraic rules of convolutions (D12, D13, D15).
//
// Padding with zeros is the window's business, and a convolution that looks at single points is a
// dot:
//
//   q = f32[1,10,3] pad(x [1,8,3], 0), padding=0_0x1_1x0_0
//   c = convolution(q, k), window={size=3}  =>  convolution(x, k), window={size=3 pad=1_1}
#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"

static bool is_plain(const HlInst *conv) {
  return all_static(conv) && hl_attr_ptr(conv, HL_A_DIM_LABELS);
}

HlInst *alg_d12_empty(HlPass *p, HlBuild *b, HlInst *conv) {
  (void)p;
  if (!all_static(conv))
    return NULL;
  if (hl_shape_elements(conv->shape) != 0 && hl_shape_elements(conv->operands[0]->shape) != 0 &&
      hl_shape_elements(conv->operands[1]->shape) != 0)
    return NULL;
  return alg_full(b, conv->shape, 0);
}

// The convolution on other operands, with another window.
static HlInst *conv_like(HlPass *p, HlBuild *b, HlInst *conv, HlInst *x, HlInst *kernel,
                         const HlWindowDim *window, int n) {
  (void)p;
  HlInst *operands[] = {x, kernel};
  HlInst *out = hl_inst_copy(b->comp, conv, NULL, 2, operands);
  HlAttr attr = {.key = HL_A_WINDOW};
  attr.window =
      (HlWindow){hl_arena_copy(hl_b_module(b)->arena, window, sizeof *window * (size_t)n), n};
  hl_set_attr(out, &attr);
  return out;
}

static bool is_zero_pad(const HlInst *pad) {
  return pad->op == HL_OP_PAD && hl_is_all(pad->operands[1], 0);
}

static bool pads_nothing(HlI64s triples, int64_t d) {
  return triples.at[3 * d] == 0 && triples.at[3 * d + 1] == 0 && triples.at[3 * d + 2] == 0;
}

HlInst *alg_d13_of_input_pad(HlPass *p, HlBuild *b, HlInst *conv) {
  HlInst *pad = conv->operands[0];
  if (alg_sensitive(p) || !is_plain(conv) || !is_zero_pad(pad))
    return NULL;
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  HlI64s triples = hl_attr_ints(pad, HL_A_PADDING);
  HlWindow window = hl_window(conv);
  if (!pads_nothing(triples, labels->input_batch) || !pads_nothing(triples, labels->input_feature))
    return NULL;
  HlWindowDim *wider = HL_ARRAY(p->arena, HlWindowDim, window.n + 1);
  for (int k = 0; k < window.n; k++) {
    int64_t d = labels->input_spatial.at[k];
    wider[k] = window.at[k];
    if (pads_nothing(triples, d))
      continue;
    if (window.at[k].lhs_dilate != 1 || triples.at[3 * d] < 0 || triples.at[3 * d + 1] < 0)
      return NULL;
    wider[k].pad_low += triples.at[3 * d];
    wider[k].pad_high += triples.at[3 * d + 1];
    wider[k].lhs_dilate = triples.at[3 * d + 2] + 1;
  }
  return conv_like(p, b, conv, pad->operands[0], conv->operands[1], wider, window.n);
}

HlInst *alg_d13_of_kernel_pad(HlPass *p, HlBuild *b, HlInst *conv) {
  HlInst *pad = conv->operands[1];
  if (alg_sensitive(p) || !is_plain(conv) || !is_zero_pad(pad))
    return NULL;
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  HlI64s triples = hl_attr_ints(pad, HL_A_PADDING);
  HlWindow window = hl_window(conv);
  if (!pads_nothing(triples, labels->kernel_input) || !pads_nothing(triples, labels->kernel_output))
    return NULL;
  HlWindowDim *wider = HL_ARRAY(p->arena, HlWindowDim, window.n + 1);
  for (int k = 0; k < window.n; k++) {
    int64_t d = labels->kernel_spatial.at[k];
    wider[k] = window.at[k];
    if (pads_nothing(triples, d))
      continue;
    if (window.at[k].rhs_dilate != 1 || triples.at[3 * d] != 0 || triples.at[3 * d + 1] != 0)
      return NULL;
    wider[k].size = pad->operands[0]->shape->dim[d];
    wider[k].rhs_dilate = triples.at[3 * d + 2] + 1;
  }
  return conv_like(p, b, conv, conv->operands[0], pad->operands[0], wider, window.n);
}

// --- Kernels of one point ------------------------------------------------------------------------

bool alg_is_one_point(HlWindow window) {
  for (int k = 0; k < window.n; k++) {
    const HlWindowDim *w = &window.at[k];
    if (w->size != 1 || w->stride != 1 || w->pad_low != 0 || w->pad_high != 0 ||
        w->lhs_dilate != 1 || w->rhs_dilate != 1)
      return false;
  }
  return true;
}

static bool is_dense(const HlShape *shape) {
  return shape->layout && !shape->layout->extra && shape->layout->minor_to_major.n == shape->rank;
}

// The part a dimension of the input plays, as the dimension of the output that plays it.
static int64_t output_dim(const HlDimLabels *labels, int64_t d) {
  if (d == labels->input_batch)
    return labels->output_batch;
  if (d == labels->input_feature)
    return labels->output_feature;
  return labels->output_spatial.at[hl_i64s_find(labels->input_spatial, d)];
}

// Features are most minor in input, output and kernel, and what is above lies in one order.
static bool is_matrix_in_memory(const HlInst *conv, const HlDimLabels *labels) {
  const HlShape *x = conv->operands[0]->shape, *k = conv->operands[1]->shape;
  if (!is_dense(x) || !is_dense(k) || !is_dense(conv->shape))
    return false;
  const int64_t *in = x->layout->minor_to_major.at;
  const int64_t *out = conv->shape->layout->minor_to_major.at;
  if (in[0] != labels->input_feature)
    return false;
  for (int d = 0; d < x->rank; d++)
    if (output_dim(labels, in[d]) != out[d])
      return false;
  HlI64s order = k->layout->minor_to_major;
  return hl_i64s_find(order, labels->kernel_output) < hl_i64s_find(order, labels->kernel_input);
}

HlInst *alg_d15_one_point(HlPass *p, HlBuild *b, HlInst *conv) {
  if (!alg_sensitive(p) || !alg_options(p)->enable_conv_simplification || !is_plain(conv) ||
      !alg_is_one_point(hl_window(conv)) || hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) != 1 ||
      hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT) != 1)
    return NULL;
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  if (!is_matrix_in_memory(conv, labels))
    return NULL;
  HlInst *x = conv->operands[0], *kernel = conv->operands[1];
  HlShapes *shapes = p->m->shapes;
  const int64_t in = x->shape->dim[labels->input_feature];
  const int64_t out = conv->shape->dim[labels->output_feature];
  if (in == 0 || out == 0)
    return NULL;
  const int64_t rows = hl_shape_elements(x->shape) / in;
  const HlShape *left = hl_shape_array(shapes, x->shape->dtype, 2, (const int64_t[]){rows, in});
  const HlShape *right =
      hl_shape_array(shapes, kernel->shape->dtype, 2, (const int64_t[]){in, out});
  const int64_t one = 1, zero = 0;
  HlInst *dot = dot_like(b, conv, alg_bitcast(b, x, left), alg_bitcast(b, kernel, right),
                         (HlI64s){0}, (HlI64s){0}, (HlI64s){&one, 1}, (HlI64s){&zero, 1});
  return dot ? alg_bitcast(b, dot, conv->shape) : NULL;
}
