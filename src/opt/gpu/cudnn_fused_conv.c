// opt/gpu/cudnn_fused_conv.c: what is done with a convolution joins its call of cuDNN.
//
// cudnn-fused-convolution-rewriter. cuDNN multiplies a convolution by a number, adds a bias for each feature
// and another array, and takes the maximum with 0, all in one call:
//
//   m = maximum(add(add(c, bc(bias)), s), 0)          t = custom-call(x, k, bias, s),
//   c = get-tuple-element(cudnn(x, k)), index=0   =>      custom_call_target="__cudnn$convBiasActivationForward"
//                                                     m = get-tuple-element(t), index=0
//
// The order is fixed: scale, bias and side input, activation. A call that has done a later step takes no
// earlier one. Where each feature is convolved by itself cuDNN has slow kernels for this: such calls stay.

#include <math.h>
#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/convs.h"
#include "opt/passes.h"

// A call that may take more, and the operand of a binary op that is its array.
typedef struct Found {
  HlInst *conv, *other;
  ConvKind kind;
  ConvCall call;
} Found;

static bool is_depthwise(const ConvCall *call, const HlShape *input) {
  return call->groups > 1 && call->groups == input->dim[call->labels->input_feature];
}

static bool find(HlInst *inst, Found *found) {
  for (int k = 0; k < 2; k++) {
    HlInst *array = inst->operands[k];
    HlInst *conv = hl_one_user(array) ? conv_behind(array, &found->kind) : NULL;
    if (conv && !hl_has_control(conv) && !hl_has_control(array) &&
        (found->kind == CONV_FORWARD || found->kind == CONV_FUSED) &&
        hl_shape_same_dims(inst->shape, array->shape) && conv_read(conv, &found->call) &&
        !is_depthwise(&found->call, conv->operands[0]->shape) &&
        found->call.config.activation == HL_ACTIVATION_IDENTITY) {
      found->conv = conv;
      found->other = inst->operands[1 - k];
      return true;
    }
  }
  return false;
}

static bool has_no_bias(const HlInst *conv) {
  return conv->n_operands < 3 || hl_is_all(conv->operands[2], 0);
}

// The call with its operands, the bias and the side input replaced where they are not NULL.
static HlInst *extended(HlPass *p, HlBuild *b, const Found *found, HlInst *bias, HlInst *side) {
  const HlInst *conv = found->conv;
  ConvCall call = found->call;
  HlInst *operands[4] = {conv->operands[0], conv->operands[1]};
  int n = 3;
  int64_t features = call.result->dim[call.labels->output_feature];
  operands[2] = bias                   ? bias
                : conv->n_operands > 2 ? conv->operands[2]
                                       : hl_b_full(b, call.result->dtype, 1, &features, 0);
  if (side || conv->n_operands > 3)
    operands[n++] = side ? side : conv->operands[3];
  call.kind = CONV_FUSED;
  return conv_build(p, b, &call, n, operands);
}

// The library scales nothing but what has a bias.
static HlInst *scale(HlPass *p, HlBuild *b, HlInst *multiply) {
  Found found;
  const HlLiteral *by = NULL;
  if (!find(multiply, &found) || found.kind != CONV_FORWARD || !(by = hl_splat(found.other)) ||
      !isfinite(hl_literal_f64(by, 0)))
    return NULL;
  found.call.config.scale *= hl_literal_f64(by, 0);
  return extended(p, b, &found, NULL, NULL);
}

// What is added to each feature, or NULL.
static HlInst *feature_bias(HlInst *inst, const HlDimLabels *labels) {
  return inst->op == HL_OP_BROADCAST && inst->operands[0]->shape->rank == 1 &&
                 hl_dims(inst).at[0] == labels->output_feature
             ? inst->operands[0]
             : NULL;
}

// A side input may be multiplied by a number on the way.
static HlInst *unscaled(HlInst *side, double *scale) {
  *scale = 1;
  for (int k = 0; k < 2 && side->op == HL_OP_MULTIPLY && hl_one_user(side); k++) {
    const HlLiteral *by = hl_splat(side->operands[k]);
    if (by && isfinite(hl_literal_f64(by, 0)) && hl_literal_f64(by, 0) != 0) {
      *scale = hl_literal_f64(by, 0);
      return side->operands[1 - k];
    }
  }
  return side;
}

static HlInst *add(HlPass *p, HlBuild *b, HlInst *sum) {
  Found found;
  if (!find(sum, &found))
    return NULL;
  HlInst *bias = feature_bias(found.other, hl_attr_ptr(found.conv, HL_A_DIM_LABELS));
  if (bias && has_no_bias(found.conv))
    return extended(p, b, &found, bias, NULL);
  if (found.conv->n_operands > 3 || found.other->op == HL_OP_BROADCAST ||
      hl_is_constant(found.other))
    return NULL;
  HlInst *side = unscaled(found.other, &found.call.config.side_scale);
  return extended(p, b, &found, NULL, side);
}

static HlInst *relu(HlPass *p, HlBuild *b, HlInst *max) {
  Found found;
  if (!find(max, &found) || !hl_is_all(found.other, 0))
    return NULL;
  found.call.config.activation = HL_ACTIVATION_RELU;
  return extended(p, b, &found, NULL, NULL);
}

const HlRule cudnn_fused_conv_rules[] = {
    {HL_OP_MULTIPLY, scale, "scale", "multiply(cudnn(x, k)[0], bc(c)) => cudnn with scale c",
     "nobody else uses the convolution"},
    {HL_OP_ADD, add, "add", "add(cudnn(x, k)[0], y) => cudnn with a bias or a side input",
     "nobody else uses the convolution"},
    {HL_OP_MAXIMUM, relu, "relu", "maximum(cudnn(x, k)[0], 0) => cudnn with relu",
     "nobody else uses the convolution"},
    {0},
};

// Calls made in a round are met in the next one: scale, bias, side input, activation.
enum { ROUNDS = 5 };

bool pass_cudnn_fused_conv(HlPass *p) {
  return hl_run_rules(p, cudnn_fused_conv_rules, ROUNDS);
}
