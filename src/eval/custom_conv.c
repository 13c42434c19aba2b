// eval/custom_conv.c: __cudnn$conv..., the convolutions in programs compiled for GPUs, and their
// gradients. Each is computed as the convolution that HLO writes for it.
//
// Window and dim_labels of a call describe the forward convolution: of the gradient of the input, the
// "input" is the result and the "output" the first operand; of the gradient of the filter, the "kernel" is
// the result and the "output" the second operand. Numbers stand in backend_config.

#include "base/memory.h"
#include "eval/custom.h"
#include "hilo/custom_calls.h"
#include "ir/backend_config.h"

static bool read_form(HlArena *arena, const HlInst *inst, ConvForm *form) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlWindow window = hl_window(inst);
  if (!labels || labels->input_spatial.n != window.n || labels->kernel_spatial.n != window.n ||
      labels->output_spatial.n != window.n)
    return false;
  *form = (ConvForm){.labels = *labels,
                     .at = HL_ARRAY(arena, HlWindowDim, window.n + 1),
                     .n = window.n,
                     .feature_groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT),
                     .batch_groups = 1};
  for (int k = 0; k < window.n; k++)
    form->at[k] = window.at[k];
  return true;
}

// Labels that name a dimension of an array once each.
static bool names_all(HlI64s spatial, int64_t a, int64_t b, int rank) {
  if (rank != spatial.n + 2 || rank > 64)
    return false;
  uint64_t seen = 0;
  for (int k = -2; k < spatial.n; k++) {
    const int64_t dim = k == -2 ? a : k == -1 ? b : spatial.at[k];
    if (dim < 0 || dim >= rank || (seen >> dim & 1))
      return false;
    seen |= (uint64_t)1 << dim;
  }
  return true;
}

static bool fits(const HlDimLabels *l, const HlShape *x, const HlShape *k, const HlShape *y) {
  return names_all(l->input_spatial, l->input_batch, l->input_feature, x->rank) &&
         names_all(l->kernel_spatial, l->kernel_input, l->kernel_output, k->rank) &&
         names_all(l->output_spatial, l->output_batch, l->output_feature, y->rank);
}

// The gradient of the input slides the reversed window over the dilated gradient of the result.
static void turn_to_input(ConvForm *form) {
  const HlDimLabels l = form->labels;
  form->labels = (HlDimLabels){.input_batch = l.output_batch,
                               .input_feature = l.output_feature,
                               .input_spatial = l.output_spatial,
                               .kernel_input = l.kernel_output,
                               .kernel_output = l.kernel_input,
                               .kernel_spatial = l.kernel_spatial,
                               .output_batch = l.input_batch,
                               .output_feature = l.input_feature,
                               .output_spatial = l.input_spatial};
  for (int k = 0; k < form->n; k++) {
    HlWindowDim *w = &form->at[k];
    w->pad_low = (w->size - 1) * w->rhs_dilate - w->pad_low;
    w->lhs_dilate = w->stride;
    w->stride = 1;
    w->reversal = true;
  }
}

// The gradient of the filter slides the dilated gradient of the result over the input, and sums over
// images.
static void turn_to_filter(ConvForm *form, const HlShape *gradient) {
  const HlDimLabels l = form->labels;
  form->labels = (HlDimLabels){.input_batch = l.input_feature,
                               .input_feature = l.input_batch,
                               .input_spatial = l.input_spatial,
                               .kernel_input = l.output_batch,
                               .kernel_output = l.output_feature,
                               .kernel_spatial = l.output_spatial,
                               .output_batch = l.kernel_input,
                               .output_feature = l.kernel_output,
                               .output_spatial = l.kernel_spatial};
  for (int k = 0; k < form->n; k++) {
    HlWindowDim *w = &form->at[k];
    const int64_t stride = w->rhs_dilate;
    w->rhs_dilate = w->stride;
    w->stride = stride;
    w->size = gradient->dim[l.output_spatial.at[k]];
  }
  form->batch_groups = form->feature_groups;
  form->feature_groups = 1;
}

const char *custom_conv_form(HlArena *arena, const HlInst *inst, const HlShape *x, const HlShape *y,
                             const HlShape *to, ConvForm *form) {
  const bool is_input = hl_is_call(inst, HL_CALL_CONV_INPUT);
  const bool is_filter = hl_is_call(inst, HL_CALL_CONV_FILTER);
  if (!read_form(arena, inst, form))
    return "dim_labels do not fit the window";
  if (!(is_input    ? fits(&form->labels, to, y, x)
        : is_filter ? fits(&form->labels, x, to, y)
                    : fits(&form->labels, x, y, to)))
    return "dim_labels do not fit the arrays";
  if (is_input)
    turn_to_input(form);
  if (is_filter)
    turn_to_filter(form, y);
  return NULL;
}

HlInst custom_conv_inst(const HlInst *inst, const ConvForm *form, HlAttr attr[CONV_FORM_ATTRS]) {
  attr[0] = (HlAttr){.key = HL_A_WINDOW, .window = {form->at, form->n}};
  attr[1] = (HlAttr){.key = HL_A_DIM_LABELS, .ptr = &form->labels};
  attr[2] = (HlAttr){.key = HL_A_FEATURE_GROUP_COUNT, .i = form->feature_groups};
  attr[3] = (HlAttr){.key = HL_A_BATCH_GROUP_COUNT, .i = form->batch_groups};
  return hl_inst_as(inst, HL_OP_CONVOLUTION, 2, CONV_FORM_ATTRS, attr);
}

static HlLiteral *array_result(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                               HlLiteral *out) {
  HlLiteral *result = custom_result(out, 0);  // a work space may come behind it
  bool good = result && hl_shape_is_array(result->shape) && inst->n_operands >= 2;
  for (uint32_t k = 0; good && k < inst->n_operands; k++)
    good = hl_shape_is_array(operand[k]->shape);
  if (!good)
    hl_inst_error(in->ev.cx, inst, "expected arrays");
  return good ? result : NULL;
}

static bool run(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                HlLiteral *result) {
  ConvForm form;
  const char *wrong = custom_conv_form(in->frames, inst, operand[0]->shape, operand[1]->shape,
                                       result->shape, &form);
  if (wrong)
    return hl_inst_error(in->ev.cx, inst, "%s", wrong);
  HlAttr attr[CONV_FORM_ATTRS];
  const HlInst conv = custom_conv_inst(inst, &form, attr);
  return hl_kernel(HL_OP_CONVOLUTION)(&in->ev, &conv, operand, result);
}

bool custom_conv(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  HlLiteral *result = array_result(in, inst, operand, out);
  const HlMark mark = hl_arena_mark(in->frames);
  const bool good = result && run(in, inst, operand, result);
  hl_arena_release(in->frames, mark);
  return good;
}

// --- With bias, side input and activation --------------------------------------------------------

bool custom_conv_fused(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                       HlLiteral *out) {
  HlLiteral *result = array_result(in, inst, operand, out);
  if (!result)
    return false;
  if (inst->n_operands < 3 || inst->n_operands > 4)
    return hl_inst_error(in->ev.cx, inst, "%u operands instead of 3 or 4", inst->n_operands);
  const HlLiteral *bias = operand[2], *side = inst->n_operands > 3 ? operand[3] : NULL;
  const HlConvConfig config = hl_conv_config(NULL, inst);
  const bool relu = config.activation == HL_ACTIVATION_RELU;
  if (!relu && config.activation != HL_ACTIVATION_IDENTITY)
    return hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: no kernel for the activation '%s'", inst->name->text,
                         hl_text_of_ACTIVATION(config.activation));
  if (!custom_conv(in, inst, operand, out))
    return false;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlShape *shape = result->shape;
  const int64_t features = shape->dim[labels->output_feature];
  if (bias->n != features || (side && !hl_shape_same_dims(side->shape, shape)))
    return hl_inst_error(in->ev.cx, inst, "the bias or side input does not fit the result");
  int64_t inner = 1;
  for (int k = (int)labels->output_feature + 1; k < shape->rank; k++)
    inner *= shape->dim[k];
  uint32_t steps = 0;
  for (int64_t k = 0; k < result->n; k++) {
    base_look_often(&steps);
    double value =
        config.scale * hl_literal_f64(result, k) + hl_literal_f64(bias, k / inner % features);
    if (side)
      value += config.side_scale * hl_literal_f64(side, k);
    hl_literal_set_complex(result, k, relu && value < 0 ? 0 : value, 0);
  }
  return true;
}
