// opt/gpu/conv_rewriter.c: convolutions as calls of cuDNN.
//
// conv-rewriter. cuDNN has three functions, and gradients are faster by their own. HLO writes them as
// convolutions, too, so they are told by their form:
//
//   gradient of the input    the filter is reversed, the result's gradient dilated (the stride it had)
//   gradient of the filter   the window is as large as an image, or dilated (the stride again)
//   forward                  everything else
//
//   c = f32[8,6,6,4] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f
//   =>  t = (f32[8,6,6,4], u8[0]) custom-call(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f,
//           custom_call_target="__cudnn$convForward"
//       c = get-tuple-element(t), index=0
//
// Window and labels of the gradients' calls are those of the forward convolution they belong to.
//
// conv-kind-assignment instead leaves convolutions as they are and notes which of the three they are, for a
// fusion that cuDNN's compiler takes. XLA lets the kind dgrad imply that the filter is reversed; here the window says so,
// too, so that a convolution means the same with and without its kind.
//
//   c = convolution(x, reverse(k)), window={size=3x3}
//   =>  c = convolution(x, k), window={size=3x3 rhs_reversal=1x1}, convolution_kind=dgrad

#include "hilo/edit.h"
#include "opt/ask/convs.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

// --- Gradients ----------------------------------------------------------------------------------

// The padding behind such that it equals the one in front where a window of this stride leaves the choice: it
// must be at least `least`, and the last steps of less than a stride are not seen. < 0: impossible.
static int64_t padding_behind(int64_t front, int64_t least, int64_t stride) {
  int64_t most = least + stride - 1;
  return front < least ? least : front > most ? most : front;
}

static bool has_dilated_window(HlWindow window) {
  for (int k = 0; k < window.n; k++)
    if (window.at[k].rhs_dilate != 1)
      return true;
  return false;
}

static bool has_dilated_base(HlWindow window) {
  for (int k = 0; k < window.n; k++)
    if (window.at[k].lhs_dilate != 1)
      return true;
  return false;
}

// The filter of a convolution along one dimension that was given a second one of size 1.
static HlInst *one_dimensional(const HlInst *conv) {
  HlInst *filter = conv->operands[1];
  if (hl_window(conv).n != 2 || filter->op != HL_OP_RESHAPE ||
      filter->operands[0]->shape->rank != filter->shape->rank - 1)
    return NULL;
  const HlShape *from = filter->operands[0]->shape, *to = filter->shape;
  int at = 0;
  for (int k = 0; k < to->rank; k++)
    if (at < from->rank && to->dim[k] == from->dim[at])
      at++;
    else if (to->dim[k] != 1)
      return NULL;
  return at == from->rank ? filter->operands[0] : NULL;
}

// Whether the window is small beside the result, as in a forward convolution. Until 0.11 a dilated window was a gradient's all
// the same.
static bool looks_forward(const HlInst *conv, const HlDimLabels *labels) {
  int n_small = 0;
  for (int k = 0; k < labels->kernel_spatial.n; k++)
    n_small += conv->operands[1]->shape->dim[labels->kernel_spatial.at[k]] <=
               conv->shape->dim[labels->output_spatial.at[k]];
  return labels->kernel_spatial.n == 0 || n_small > 1 || (n_small == 1 && !one_dimensional(conv));
}

static bool filter_window(HlPass *p, const HlInst *conv, const HlDimLabels *labels, HlWindow *to) {
  HlWindow from = hl_window(conv);
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, from.n + 1);
  for (int k = 0; k < from.n; k++) {
    const HlWindowDim *w = &from.at[k];
    if (w->stride != 1 || w->lhs_dilate != 1 || w->pad_low < 0 || w->reversal)
      return false;
    int64_t filter = conv->shape->dim[labels->output_spatial.at[k]];
    int64_t input = conv->operands[0]->shape->dim[labels->input_spatial.at[k]];
    int64_t least = filter + (w->size - 1) * w->rhs_dilate - input - w->pad_low;
    at[k] = (HlWindowDim){.size = filter,
                          .stride = w->rhs_dilate,
                          .pad_low = w->pad_low,
                          .pad_high = padding_behind(w->pad_low, least, w->rhs_dilate),
                          .lhs_dilate = 1,
                          .rhs_dilate = 1};
    if (at[k].pad_high < 0)
      return false;
  }
  *to = (HlWindow){at, from.n};
  return true;
}

// The convolution sums over images, so the labels of batch and features are exchanged.
static HlInst *as_filter_gradient(HlPass *p, HlBuild *b, HlInst *conv, ConvCall *call) {
  const HlDimLabels *l = call->labels;
  if (hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) > 1 ||
      (looks_forward(conv, l) &&
       (hl_pass_since(p, HL_XLA_0_11) || !has_dilated_window(hl_window(conv)))) ||
      !filter_window(p, conv, l, &call->window))
    return NULL;
  HlDimLabels *labels = HL_NEW(p->m->arena, HlDimLabels);
  *labels = (HlDimLabels){.input_batch = l->input_feature,
                          .input_feature = l->input_batch,
                          .input_spatial = l->input_spatial,
                          .kernel_input = l->output_batch,
                          .kernel_output = l->output_feature,
                          .kernel_spatial = l->output_spatial,
                          .output_batch = l->kernel_input,
                          .output_feature = l->kernel_output,
                          .output_spatial = l->kernel_spatial};
  call->labels = labels;
  call->kind = CONV_BACKWARD_FILTER;
  call->groups = hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT);
  return conv_build(p, b, call, 2, conv->operands);
}

static bool input_window(HlPass *p, const HlInst *conv, const HlDimLabels *labels, HlWindow *to) {
  HlWindow from = hl_window(conv);
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, from.n + 1);
  for (int k = 0; k < from.n; k++) {
    const HlWindowDim *w = &from.at[k];
    int64_t low = w->size - 1 - w->pad_low, stride = w->lhs_dilate;
    if (w->stride != 1 || w->rhs_dilate != 1 || w->reversal || low < 0)
      return false;
    int64_t result = conv->shape->dim[labels->output_spatial.at[k]];
    int64_t gradient = conv->operands[0]->shape->dim[labels->input_spatial.at[k]];
    int64_t least = w->size + stride * (gradient - 1) - result - low;
    at[k] = (HlWindowDim){.size = w->size,
                          .stride = stride,
                          .pad_low = low,
                          .pad_high = padding_behind(low, least, stride),
                          .lhs_dilate = 1,
                          .rhs_dilate = 1};
    if (at[k].pad_high < 0)
      return false;
  }
  *to = (HlWindow){at, from.n};
  return true;
}

static bool reverses_window(const HlInst *reverse, const HlDimLabels *labels) {
  HlI64s dims = hl_dims(reverse);
  if (dims.n != labels->kernel_spatial.n)
    return false;
  for (int k = 0; k < dims.n; k++)
    if (hl_i64s_find(labels->kernel_spatial, dims.at[k]) < 0)
      return false;
  return true;
}

static bool has_one_spatial(const HlShape *filter, const HlDimLabels *labels, int64_t dim) {
  bool is_spatial = false;
  for (int k = 0; k < labels->kernel_spatial.n; k++) {
    int64_t at = labels->kernel_spatial.at[k];
    is_spatial |= at == dim;
    if (at != dim && filter->dim[at] != 1)
      return false;
  }
  return is_spatial;
}

// Whether it reverses all of the window, to whose filter a dimension of size 1 was added since.
static bool reverses_kept_dim(const HlInst *reverse, const HlShape *to, const HlDimLabels *labels) {
  HlI64s dims = hl_dims(reverse);
  const HlShape *from = reverse->shape;
  if (dims.n != 1)
    return false;
  for (int at = 0, k = 0; k < to->rank; k++) {
    bool is_kept = at < from->rank && to->dim[k] == from->dim[at];
    if (is_kept && at == dims.at[0])
      return has_one_spatial(to, labels, k);
    at += is_kept;
  }
  return false;
}

// The filter before it was reversed; NULL: it was not.
static HlInst *unreversed(HlPass *p, HlBuild *b, HlInst *conv, const HlDimLabels *labels) {
  HlInst *filter = conv->operands[1], *flat = one_dimensional(conv);
  HlWindow window = hl_window(conv);
  bool is_single = true;
  for (int k = 0; k < window.n; k++)
    is_single &= window.at[k].size == 1;
  if (filter->op == HL_OP_REVERSE && reverses_window(filter, labels))
    return filter->operands[0];
  if (flat && flat->op == HL_OP_REVERSE && reverses_kept_dim(flat, filter->shape, labels))
    return hl_b_reshape(b, flat->operands[0], filter->shape->rank, filter->shape->dim);
  if (!has_dilated_base(window))
    return NULL;
  if (is_single)
    return filter;
  return hl_is_constant(filter)
             ? hl_b_reverse(b, filter, hl_i64s_copy(p->m->arena, labels->kernel_spatial))
             : NULL;
}

static HlInst *as_input_gradient(HlPass *p, HlBuild *b, HlInst *conv, ConvCall *call) {
  const HlDimLabels *l = call->labels;
  if (call->groups > 1 || hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT) > 1 ||
      !input_window(p, conv, l, &call->window))
    return NULL;
  HlInst *filter = unreversed(p, b, conv, l);
  if (!filter)
    return NULL;
  HlDimLabels *labels = HL_NEW(p->m->arena, HlDimLabels);
  *labels = (HlDimLabels){.input_batch = l->output_batch,
                          .input_feature = l->output_feature,
                          .input_spatial = l->output_spatial,
                          .kernel_input = l->kernel_output,
                          .kernel_output = l->kernel_input,
                          .kernel_spatial = l->kernel_spatial,
                          .output_batch = l->input_batch,
                          .output_feature = l->input_feature,
                          .output_spatial = l->input_spatial};
  call->labels = labels;
  call->kind = CONV_BACKWARD_INPUT;
  HlInst *operands[] = {conv->operands[0], filter};
  return conv_build(p, b, call, 2, operands);
}

// --- Forward ------------------------------------------------------------------------------------

// Runs backwards in all dimensions or in none; with one dimension or three in none.
static bool has_one_direction(HlWindow window) {
  int n = 0;
  for (int k = 0; k < window.n; k++)
    n += window.at[k].reversal;
  return n == 0 || (window.n == 2 && n == 2);
}

// Groups of images become groups of features: [g n], c => n, [g c].
static HlInst *features_of_groups(HlPass *p, HlBuild *b, HlInst *x, const HlDimLabels *l,
                                  int64_t groups) {
  int rank = x->shape->rank, at = 0;
  int64_t *split = HL_ARRAY(p->arena, int64_t, rank + 1),
          *order = HL_ARRAY(p->arena, int64_t, rank + 1);
  int64_t *joined = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 0; k < rank; k++) {
    split[k + (k > l->input_batch)] = x->shape->dim[k];
    joined[k] = x->shape->dim[k];
  }
  split[l->input_batch] = groups;
  split[l->input_batch + 1] = x->shape->dim[l->input_batch] / groups;
  joined[l->input_batch] /= groups;
  joined[l->input_feature] *= groups;
  for (int k = 0; k < rank; k++) {
    if (k == l->input_feature)
      order[at++] = l->input_batch;
    order[at++] = k + (k >= l->input_batch);
  }
  HlInst *apart = hl_b_reshape(b, x, rank + 1, split);
  HlInst *turned = apart ? made_transpose(b, apart, (HlI64s){order, rank + 1}) : NULL;
  return turned ? hl_b_reshape(b, turned, rank, joined) : NULL;
}

static HlInst *as_forward(HlPass *p, HlBuild *b, HlInst *conv, ConvCall *call) {
  if (!has_one_direction(call->window))
    return NULL;
  int64_t groups = hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT);
  HlInst *operands[] = {conv->operands[0], conv->operands[1]};
  if (groups > 1) {
    operands[0] = features_of_groups(p, b, conv->operands[0], call->labels, groups);
    call->groups = groups;
  }
  return conv_build(p, b, call, 2, operands);
}

static bool is_for_library(const HlInst *conv) {
  HlDtype dtype = conv->shape->dtype;
  for (int k = 0; k < 2; k++)
    if (conv->operands[k]->shape->dtype != dtype ||
        hl_shape_elements(conv->operands[k]->shape) == 0)
      return false;
  return (dtype == HL_F16 || dtype == HL_BF16 || dtype == HL_F32 || dtype == HL_F64) &&
         all_static(conv) && !hl_has_attr(conv, HL_A_SPARSITY_CONFIG) &&
         hl_shape_elements(conv->shape) > 0;
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *conv) {
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  if (!labels || !is_for_library(conv) || labels->input_spatial.n > 3 ||
      hl_window(conv).n != labels->input_spatial.n)
    return NULL;
  const ConvCall whole = {.kind = CONV_FORWARD,
                          .config = conv_plain(),
                          .old_config = "",
                          .result = conv->shape,
                          .window = hl_window(conv),
                          .labels = labels,
                          .groups = hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT),
                          .precision = hl_attr_ints(conv, HL_A_OPERAND_PRECISION)};
  static HlInst *(*const forms[])(HlPass *, HlBuild *, HlInst *,
                                  ConvCall *) = {as_input_gradient, as_filter_gradient, as_forward};
  HlInst *made = NULL;
  for (int k = 0; k < HL_COUNT_OF(forms) && !made; k++) {
    ConvCall call = whole;
    made = forms[k](p, b, conv, &call);
  }
  return made;
}

const HlRule conv_rewriter_rules[] = {
    {HL_OP_CONVOLUTION, rewrite, "conv-rewriter", "convolution(x, k) => cudnn(x, k)[0]",
     "of f16, bf16, f32 or f64; up to 3 spatial dimensions"},
    {0},
};

// --- Kinds ----------------------------------------------------------------------------------------

static bool has_kind(const HlInst *conv) {
  return hl_attr_int(conv, HL_A_CONVOLUTION_KIND) != HL_WORD_convolution_kind_UNSET;
}

static bool can_have_kind(const HlInst *conv) {
  const HlShape *shapes[] = {conv->shape, conv->operands[0]->shape, conv->operands[1]->shape};
  for (int k = 0; k < HL_COUNT_OF(shapes); k++) {
    const HlDtype dtype = shapes[k]->dtype;
    const bool is_f8 = hl_is_float(dtype) && hl_dtype_info[dtype].bits <= 8;
    if ((!hl_is_float(dtype) && !hl_is_integral(dtype)) || hl_shape_elements(shapes[k]) == 0 ||
        (is_f8 && dtype != HL_F8E4M3FN && dtype != HL_F8E5M2))
      return false;
  }
  return !has_kind(conv) && all_static(conv) && !hl_has_attr(conv, HL_A_SPARSITY_CONFIG);
}

static HlInst *of_kind(HlBuild *b, HlInst *conv, HlInst *x, HlInst *filter, int64_t kind) {
  HlInst *operands[] = {x, filter};
  HlInst *made = x && filter ? hl_inst_copy(b->comp, conv, NULL, 2, operands) : NULL;
  if (made)
    hl_set_int(made, HL_A_CONVOLUTION_KIND, kind);
  return made;
}

static HlInst *kind_of_input_gradient(HlPass *p, HlBuild *b, HlInst *conv,
                                      const HlDimLabels *labels) {
  HlWindow forward, window = hl_window(conv);
  if (hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) > 1 ||
      hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT) > 1 || !input_window(p, conv, labels, &forward))
    return NULL;
  HlInst *filter = unreversed(p, b, conv, labels);
  HlInst *made =
      filter ? of_kind(b, conv, conv->operands[0], filter, HL_WORD_convolution_kind_DGRAD) : NULL;
  if (!made || filter == conv->operands[1])
    return made;
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, window.n + 1);
  for (int k = 0; k < window.n; k++) {
    at[k] = window.at[k];
    at[k].reversal = true;
  }
  hl_set_attr(made, &(HlAttr){.key = HL_A_WINDOW, .window = {at, window.n}});
  return made;
}

// As many images and features as go in come out, by a filter that is not larger than the result, dilated or not.
static bool is_plainly_forward(const HlInst *conv, const HlDimLabels *l) {
  const HlShape *input = conv->operands[0]->shape, *filter = conv->operands[1]->shape;
  bool is_small = input->dim[l->input_batch] == conv->shape->dim[l->output_batch] &&
                  filter->dim[l->kernel_output] == conv->shape->dim[l->output_feature];
  for (int k = 0; k < l->kernel_spatial.n; k++)
    is_small &= filter->dim[l->kernel_spatial.at[k]] <= conv->shape->dim[l->output_spatial.at[k]];
  return is_small;
}

static HlInst *kind_of_filter_gradient(HlPass *p, HlBuild *b, HlInst *conv,
                                       const HlDimLabels *labels) {
  HlWindow forward;
  if (hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) > 1 || is_plainly_forward(conv, labels) ||
      (looks_forward(conv, labels) && !has_dilated_window(hl_window(conv))) ||
      !filter_window(p, conv, labels, &forward))
    return NULL;
  return of_kind(b, conv, conv->operands[0], conv->operands[1], HL_WORD_convolution_kind_WGRAD);
}

static HlInst *kind_of_forward(HlPass *p, HlBuild *b, HlInst *conv, const HlDimLabels *labels) {
  const int64_t groups = hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT);
  if (!has_one_direction(hl_window(conv)) || labels->input_spatial.n > 3 ||
      (groups > 1 && hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT) > 1))
    return NULL;
  HlInst *x = conv->operands[0];
  if (groups > 1)
    x = features_of_groups(p, b, x, labels, groups);
  HlInst *made = of_kind(b, conv, x, conv->operands[1], HL_WORD_convolution_kind_FPROP);
  if (made && groups > 1) {
    hl_set_int(made, HL_A_BATCH_GROUP_COUNT, 1);
    hl_set_int(made, HL_A_FEATURE_GROUP_COUNT, groups);
  }
  return made;
}

static HlInst *with_kind(HlPass *p, HlBuild *b, HlInst *conv) {
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  if (!labels || !hl_pass_flag(p, "enable") || !can_have_kind(conv) ||
      hl_window(conv).n != labels->input_spatial.n)
    return NULL;
  HlInst *made = kind_of_input_gradient(p, b, conv, labels);
  if (!made)
    made = kind_of_filter_gradient(p, b, conv, labels);
  return made ? made : kind_of_forward(p, b, conv, labels);
}

const HlRule conv_kind_rules[] = {
    {HL_OP_CONVOLUTION, with_kind, "conv-kind-assignment",
     "convolution(x, k) => convolution(x, k), convolution_kind=fprop, dgrad or wgrad",
     "of real numbers; no kind yet"},
    {0},
};
