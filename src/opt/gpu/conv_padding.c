// opt/gpu/conv_padding.c: convolutions of cuDNN and what is padded around them.
//
//   conv-padding-legalization     cuDNN pads both sides alike and dilates the input not at all (the window neither, until 0.11).
//                                 What a call wants more is done by a pad before it, or a slice behind it.
//   cudnn_pad_for_convolutions    tensor cores take features in multiples of 8 (4 where there are 3
//                                 input features): zeros are added, the result is cut.
//   cudnn_simplify_padding        what is cut off behind one call and added again as zeros before the
//                                 next was zero all the time.
//
//   c = cudnn(x, k), window={size=3 pad=0_1}   =>   c = cudnn(pad(x, 0_1), k), window={size=3}

#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/convs.h"
#include "opt/passes.h"

// A pad with zeros; what it pads by stands in x's dimensions. x itself if by nothing.
static HlInst *padded(HlBuild *b, HlInst *x, const int64_t *low, const int64_t *high,
                      const int64_t *interior) {
  for (int k = 0; k < x->shape->rank; k++)
    if (low[k] != 0 || high[k] != 0 || (interior && interior[k] != 0))
      return hl_b_pad(b, x, hl_b_scalar(b, x->shape->dtype, 0), low, high, interior);
  return x;
}

// --- Windows as cuDNN has them --------------------------------------------------------------------

static bool is_symmetric(HlWindow window) {
  for (int k = 0; k < window.n; k++)
    if (window.at[k].pad_low != window.at[k].pad_high)
      return false;
  return true;
}

static bool has_dilated_base(HlWindow window) {
  for (int k = 0; k < window.n; k++)
    if (window.at[k].lhs_dilate != 1)
      return true;
  return false;
}

static bool is_legal_forward(const HlPass *p, HlWindow window) {
  for (int k = 0; k < window.n; k++)
    if (window.at[k].pad_low < 0 ||
        (window.at[k].rhs_dilate != 1 && !hl_pass_since(p, HL_XLA_0_11)))
      return false;
  return is_symmetric(window) && !has_dilated_base(window);
}

// All dilation of the window on the operands themselves, and all padding; where that is the same on both sides, and the input
// is not dilated, only what cuts.
static HlInst *legal_forward(HlPass *p, HlBuild *b, HlInst *conv, ConvCall call) {
  int rank = call.result->rank;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, conv->n_operands);
  memcpy(operands, conv->operands, sizeof *operands * conv->n_operands);
  int64_t *low = HL_ARRAY(p->arena, int64_t, rank), *high = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *base = HL_ARRAY(p->arena, int64_t, rank), *holes = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *none = HL_ARRAY(p->arena, int64_t, rank);
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, call.window.n + 1);
  const bool only_cuts = is_symmetric(call.window) && !has_dilated_base(call.window);
  for (int k = 0; k < call.window.n; k++) {
    const HlWindowDim *w = &call.window.at[k];
    const int64_t input = call.labels->input_spatial.at[k];
    const int64_t kept = only_cuts && w->pad_low > 0 ? w->pad_low : 0;
    low[input] = w->pad_low - kept;
    high[input] = w->pad_high - kept;
    base[input] = w->lhs_dilate - 1;
    holes[call.labels->kernel_spatial.at[k]] = w->rhs_dilate - 1;
    at[k] = *w;
    at[k].size = (w->size - 1) * w->rhs_dilate + 1;
    at[k].pad_low = at[k].pad_high = kept;
    at[k].lhs_dilate = at[k].rhs_dilate = 1;
  }
  operands[0] = padded(b, operands[0], low, high, base);
  operands[1] = padded(b, operands[1], none, none, holes);
  call.window.at = at;
  return conv_build(p, b, &call, (int)conv->n_operands, operands);
}

// The padding that both sides have, as a new window; low and high get what is beyond, in the dimensions of
// the forward convolution's input.
static HlWindow common_padding(HlPass *p, const ConvCall *call, int64_t *low, int64_t *high) {
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, call->window.n + 1);
  for (int k = 0; k < call->window.n; k++) {
    const HlWindowDim *w = &call->window.at[k];
    int64_t both = w->pad_low < w->pad_high ? w->pad_low : w->pad_high;
    at[k] = *w;
    at[k].pad_low = at[k].pad_high = both;
    low[call->labels->input_spatial.at[k]] = w->pad_low - both;
    high[call->labels->input_spatial.at[k]] = w->pad_high - both;
  }
  return (HlWindow){at, call->window.n};
}

static HlInst *legal_filter(HlPass *p, HlBuild *b, HlInst *conv, ConvCall call) {
  int64_t *low = HL_ARRAY(p->arena, int64_t, call.result->rank);
  int64_t *high = HL_ARRAY(p->arena, int64_t, call.result->rank);
  call.window = common_padding(p, &call, low, high);
  HlInst *operands[] = {padded(b, conv->operands[0], low, high, NULL), conv->operands[1]};
  return conv_build(p, b, &call, 2, operands);
}

// The gradient of the padded input, of which the input is a slice.
static HlInst *legal_input(HlPass *p, HlBuild *b, HlInst *conv, ConvCall call) {
  int rank = call.result->rank;
  int64_t *low = HL_ARRAY(p->arena, int64_t, rank), *high = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *whole = HL_ARRAY(p->arena, int64_t, rank), *limit = HL_ARRAY(p->arena, int64_t, rank);
  call.window = common_padding(p, &call, low, high);
  for (int k = 0; k < rank; k++) {
    limit[k] = low[k] + call.result->dim[k];
    whole[k] = limit[k] + high[k];
  }
  call.result = hl_shape_array(p->m->shapes, call.result->dtype, rank, whole);
  HlInst *made = conv_build(p, b, &call, 2, conv->operands);
  return made ? hl_b_slice(b, made, low, limit, NULL) : NULL;
}

static HlInst *legalize(HlPass *p, HlBuild *b, HlInst *inst) {
  ConvKind kind;
  ConvCall call;
  HlInst *conv = conv_behind(inst, &kind);
  if (!conv || !conv_read(conv, &call))
    return NULL;
  if (kind == CONV_FORWARD || kind == CONV_FUSED)
    return is_legal_forward(p, call.window) ? NULL : legal_forward(p, b, conv, call);
  if (is_symmetric(call.window))
    return NULL;
  return kind == CONV_BACKWARD_INPUT ? legal_input(p, b, conv, call)
                                     : legal_filter(p, b, conv, call);
}

// --- Features for tensor cores --------------------------------------------------------------------

static const double MAX_GROWTH = 1.35;  // of all bytes read and written

static int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The library has kernels of its own for pictures of three colours.
static int64_t features_to(int64_t n, int64_t multiple) {
  return n == 3 ? 4 : round_up(n, multiple);
}

static const HlShape *part_shape(const HlInst *conv, int operand) {
  return operand < 0 ? conv->shape->element[0] : conv->operands[operand]->shape;
}

// The dimensions of an array that count the input's and the result's features, or -1.
static void feature_dims(const HlDimLabels *labels, ConvPart part, int64_t dim[2]) {
  dim[0] = part == CONV_INPUT    ? labels->input_feature
           : part == CONV_FILTER ? labels->kernel_input
                                 : -1;
  dim[1] = part == CONV_OUTPUT   ? labels->output_feature
           : part == CONV_FILTER ? labels->kernel_output
                                 : -1;
}

// The sizes of result, input and filter with padded features; false if nothing changes, or they grow too much.
static bool padded_sizes(HlPass *p, HlInst *conv, ConvKind kind, const ConvCall *call,
                         int64_t *sizes[3]) {
  const int rank = call->result->rank;
  const HlTarget *t = hl_target_of_kind(p->target, HL_TARGET_GPU);
  const int64_t multiple = (int64_t)t->matrix_sizes.of[call->result->dtype];
  double before = 0, after = 0;
  bool changes = false;
  if (multiple < 2)
    return false;
  for (int k = -1; k < 2; k++) {
    const HlShape *shape = part_shape(conv, k);
    int64_t dims[2], *to = sizes[k + 1] = HL_ARRAY(p->arena, int64_t, rank);
    feature_dims(call->labels, conv_part(kind, k), dims);
    double n = 1, m = 1;
    for (int d = 0; d < rank; d++) {
      to[d] = d == dims[0]   ? features_to(shape->dim[d], multiple)
              : d == dims[1] ? round_up(shape->dim[d], multiple)
                             : shape->dim[d];
      changes |= to[d] != shape->dim[d];
      n *= (double)shape->dim[d];
      m *= (double)to[d];
    }
    before += n;
    after += m;
  }
  return changes && after <= MAX_GROWTH * before;
}

static HlInst *pad_features(HlPass *p, HlBuild *b, HlInst *inst) {
  ConvKind kind;
  ConvCall call;
  HlInst *conv = conv_behind(inst, &kind);
  if (!conv || !conv_read(conv, &call) || kind == CONV_FUSED ||
      conv->shape->element[0]->dtype != HL_F16 || hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) > 1)
    return NULL;
  const int rank = call.result->rank;
  int64_t *sizes[3], *low = HL_ARRAY(p->arena, int64_t, rank);
  if (!padded_sizes(p, conv, kind, &call, sizes))
    return NULL;
  HlInst *operands[2];
  for (int k = 0; k < 2; k++) {
    int64_t *high = HL_ARRAY(p->arena, int64_t, rank);
    for (int d = 0; d < rank; d++)
      high[d] = sizes[k + 1][d] - conv->operands[k]->shape->dim[d];
    operands[k] = padded(b, conv->operands[k], low, high, NULL);
  }
  const HlShape *result = call.result;
  call.result = hl_shape_array(p->m->shapes, result->dtype, rank, sizes[0]);
  HlInst *made = conv_build(p, b, &call, 2, operands);
  if (!made || hl_shape_same_dims(call.result, result))
    return made;
  return hl_b_slice(b, made, low, result->dim, NULL);
}

// --- Cut off and added again ------------------------------------------------------------------------

// How many of the last output features of a forward call are zero because the filter's are.
static int64_t zero_features(const HlInst *conv, const HlDimLabels *labels) {
  const HlInst *filter = conv->operands[1];
  if (filter->op != HL_OP_PAD || !hl_is_all(filter->operands[1], 0))
    return 0;
  int64_t high = hl_attr_ints(filter, HL_A_PADDING).at[3 * labels->kernel_output + 1];
  return high > 0 ? high : 0;
}

// Whether inst, a slice, cuts off nothing but the last elements of one dimension.
static bool cuts_only(const HlInst *slice, int64_t dim) {
  HlI64s all = hl_attr_ints(slice, HL_A_SLICE);
  for (int k = 0; k < slice->shape->rank; k++)
    if (all.at[3 * k] != 0 || all.at[3 * k + 2] != 1 ||
        (k != dim && all.at[3 * k + 1] != slice->operands[0]->shape->dim[k]))
      return false;
  return true;
}

// Whether inst, a pad, adds zeros behind one dimension alone.
static bool adds_only(const HlInst *pad, int64_t dim) {
  HlI64s all = hl_attr_ints(pad, HL_A_PADDING);
  for (int k = 0; k < pad->shape->rank; k++)
    if (all.at[3 * k] != 0 || all.at[3 * k + 2] != 0 || all.at[3 * k + 1] < 0 ||
        (k != dim && all.at[3 * k + 1] != 0))
      return false;
  return hl_is_all(pad->operands[1], 0);
}

static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *pad) {
  HlInst *slice = pad->operands[0];
  if (slice->op != HL_OP_SLICE)
    return NULL;
  HlInst *whole = slice->operands[0];
  ConvKind kind;
  if (whole->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(whole, HL_A_INDEX) != 0 ||
      !conv_kind(whole->operands[0], &kind) || kind != CONV_FORWARD)
    return NULL;
  const HlInst *conv = whole->operands[0];
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  int64_t dim = labels->output_feature, zeros = zero_features(conv, labels);
  if (hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) > 1 || !cuts_only(slice, dim) ||
      !adds_only(pad, dim) || slice->shape->dim[dim] < whole->shape->dim[dim] - zeros)
    return NULL;
  if (pad->shape->dim[dim] == whole->shape->dim[dim])
    return whole;
  int rank = pad->shape->rank;
  int64_t *none = HL_ARRAY(p->arena, int64_t, rank), *high = HL_ARRAY(p->arena, int64_t, rank);
  high[dim] = pad->shape->dim[dim] - whole->shape->dim[dim];
  return high[dim] > 0 ? padded(b, whole, none, high, NULL)
                       : hl_b_slice(b, whole, none, pad->shape->dim, NULL);
}

const HlRule conv_padding_legalization_rules[] = {
    {HL_OP_GET_TUPLE_ELEMENT, legalize, "conv-padding-legalization",
     "cudnn(x, k)[0] => cudnn(pad(x), pad(k))[0]",
     "padding on one side only, negative, or dilation; gradients of inputs are cut instead"},
    {0},
};
const HlRule cudnn_pad_rules[] = {
    {HL_OP_GET_TUPLE_ELEMENT, pad_features, "cudnn_pad_for_convolutions",
     "cudnn(x, k)[0] => slice(cudnn(pad(x), pad(k))[0])", "f16; bytes grow by at most 35 %"},
    {0},
};
const HlRule cudnn_simplify_padding_rules[] = {
    {HL_OP_PAD, simplify, "cudnn_simplify_padding",
     "pad(slice(cudnn(x, pad(k))[0])) => cudnn(x, pad(k))[0]",
     "what is cut off and added again is zero"},
    {0},
};
