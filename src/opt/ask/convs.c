// opt/ask/convs.c: reading and writing calls of cuDNN.
#include "opt/ask/convs.h"

#include "hilo/custom_calls.h"
#include "hilo/edit.h"

static const HlCallTarget targets[CONV_KINDS] = {HL_CALL_CONV, HL_CALL_CONV_INPUT,
                                                 HL_CALL_CONV_FILTER, HL_CALL_CONV_FUSED};
static const char *const name_text[CONV_KINDS] = {
    "cudnn-conv", "cudnn-conv-bw-input", "cudnn-conv-bw-filter", "cudnn-conv-bias-activation"};

bool conv_kind(const HlInst *inst, ConvKind *kind) {
  if (inst->op != HL_OP_CUSTOM_CALL || !hl_shape_is_tuple(inst->shape) || inst->n_operands < 2 ||
      inst->shape->rank != 2 || !hl_attr_ptr(inst, HL_A_DIM_LABELS))
    return false;
  for (int k = 0; k < CONV_KINDS; k++)
    if (hl_is_call(inst, targets[k])) {
      *kind = (ConvKind)k;
      return true;
    }
  return false;
}

HlInst *conv_behind(const HlInst *inst, ConvKind *kind) {
  if (inst->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(inst, HL_A_INDEX) != 0 ||
      !conv_kind(inst->operands[0], kind) || !hl_one_user(inst->operands[0]))
    return NULL;
  return inst->operands[0];
}

ConvPart conv_part(ConvKind kind, int operand) {
  static const ConvPart parts[CONV_KINDS][3] = {{CONV_OUTPUT, CONV_INPUT, CONV_FILTER},
                                                {CONV_INPUT, CONV_OUTPUT, CONV_FILTER},
                                                {CONV_FILTER, CONV_INPUT, CONV_OUTPUT},
                                                {CONV_OUTPUT, CONV_INPUT, CONV_FILTER}};
  return operand > 1 ? CONV_OUTPUT : parts[kind][operand + 1];
}

HlI64s conv_spatial(const HlDimLabels *labels, ConvPart part) {
  return part == CONV_INPUT    ? labels->input_spatial
         : part == CONV_FILTER ? labels->kernel_spatial
                               : labels->output_spatial;
}

bool conv_read(const HlInst *call, ConvCall *out) {
  *out = (ConvCall){.result = call->shape->element[0],
                    .window = hl_window(call),
                    .labels = hl_attr_ptr(call, HL_A_DIM_LABELS),
                    .groups = hl_attr_int(call, HL_A_FEATURE_GROUP_COUNT),
                    .precision = hl_attr_ints(call, HL_A_OPERAND_PRECISION),
                    .config = hl_conv_config(NULL, call),
                    .old_config = hl_attr_text(call, HL_A_BACKEND_CONFIG)};
  conv_kind(call, &out->kind);
  return out->config.activation == HL_ACTIVATION_IDENTITY ||
         out->config.activation == HL_ACTIVATION_RELU;
}

HlConvConfig conv_plain(void) {
  return (HlConvConfig){.scale = 1, .activation = HL_ACTIVATION_IDENTITY};
}

HlInst *conv_build(HlPass *p, HlBuild *b, const ConvCall *call, int n, HlInst *const *operands) {
  HlShapes *shapes = p->m->shapes;
  const int64_t nothing[] = {0};
  const HlShape *both[] = {call->result, hl_shape_array(shapes, HL_U8, 1, nothing)};
  for (int k = 0; k < n; k++)
    if (!operands[k])
      return NULL;
  HlInst *made = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(shapes, 2, both),
                             hl_fresh_name(p->m, name_text[call->kind]), n, operands);
  const HlAttr attrs[] = {{.key = HL_A_WINDOW, .window = call->window},
                          {.key = HL_A_DIM_LABELS, .ptr = call->labels}};
  hl_set_attr(made, &attrs[0]);
  hl_set_attr(made, &attrs[1]);
  hl_set_int(made, HL_A_FEATURE_GROUP_COUNT, call->groups);
  if (call->precision.n)
    hl_set_ints(made, HL_A_OPERAND_PRECISION, call->precision);
  hl_set_call_target(made, targets[call->kind]);
  hl_set_text(made, HL_A_BACKEND_CONFIG,
              hl_conv_config_text(p->arena, p->m->dialect, call->old_config, &call->config));
  return hl_b_element(b, made, 0);
}
