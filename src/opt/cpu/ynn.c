// opt/cpu/ynn.c: what XLA:CPU hands to the library YNNPACK.

#include "opt/cpu/ynn.h"

#include "opt/ask/cpu_dot.h"
#include "opt/ask/emitters.h"
#include "opt/ask/layouts.h"
#include "opt/fusion/fusion.h"

enum { MAX_RANK = 8, MIN_ELEMENTS = 4096, SMALL_FEATURES = 16 };

static bool is_row_major(const HlShape *shape) {
  return hl_shape_is_array(shape) && shape->rank <= MAX_RANK && !hl_shape_is_dynamic(shape) &&
         (!shape->layout || hl_layout_is_default(shape->layout));
}

static bool has_type(const HlShape *shape) {
  switch (shape->dtype) {
  case HL_S4:
  case HL_U4:
  case HL_S8:
  case HL_U8:
  case HL_S32:
  case HL_F16:
  case HL_BF16:
  case HL_F32:
  case HL_F64: return true;
  default: return false;
  }
}

static bool all_row_major(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_row_major(inst->operands[k]->shape))
      return false;
  return is_row_major(inst->shape);
}

// Calls have a price: there must be something to compute.
static bool is_large(const HlInst *inst) {
  if (hl_shape_is_array(inst->shape) && hl_shape_elements(inst->shape) >= MIN_ELEMENTS)
    return true;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (hl_shape_is_array(shape) && hl_shape_elements(shape) >= MIN_ELEMENTS)
      return true;
  }
  return false;
}

// --- Movement -----------------------------------------------------------------------------------

static bool keeps_order(HlI64s dims) {
  for (int k = 1; k < dims.n; k++)
    if (dims.at[k] <= dims.at[k - 1])
      return false;
  return true;
}

static bool takes_pad(const HlInst *pad) {
  HlI64s padding = hl_attr_ints(pad, HL_A_PADDING);
  for (int k = 0; 3 * k < padding.n; k++) {
    const int64_t *at = padding.at + 3 * k;
    bool is_one = pad->operands[0]->shape->dim[k] == 1;
    if (at[2] != 0 || (is_one && (at[0] != 0 || at[1] != 0)))
      return false;
  }
  return true;
}

// --- Arithmetic ---------------------------------------------------------------------------------

static bool computes_with(HlDtype dtype) {
  return dtype == HL_F64 || dtype == HL_F32 || dtype == HL_BF16 || dtype == HL_S8 || dtype == HL_U8;
}

static bool takes_elementwise(const HlInst *inst) {
  if (!computes_with(inst->shape->dtype))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!computes_with(inst->operands[k]->shape->dtype))
      return false;
  return emitters_of((HlOp)inst->op)->ynn;
}

// --- Convolutions -------------------------------------------------------------------------------

static bool is_list(HlI64s dims, int64_t a, int64_t b) {
  return dims.n == 2 && dims.at[0] == a && dims.at[1] == b;
}

static bool is_nhwc(const HlDimLabels *labels) {
  return labels->input_feature == 3 && labels->output_feature == 3 && labels->kernel_input == 2 &&
         labels->kernel_output == 3 && is_list(labels->input_spatial, 1, 2) &&
         is_list(labels->kernel_spatial, 0, 1) && is_list(labels->output_spatial, 1, 2);
}

static bool has_convolution_types(const HlInst *inst) {
  HlDtype in = inst->operands[0]->shape->dtype, out = inst->shape->dtype;
  if (in != inst->operands[1]->shape->dtype)
    return false;
  return ((in == HL_F32 || in == HL_F64) && out == in) || (in == HL_S8 && out == HL_S32);
}

static bool takes_convolution(const HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  HlWindow window = hl_window(inst);
  const HlShape *in = inst->operands[0]->shape, *kernel = inst->operands[1]->shape;
  if (hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) != 1 || window.n != 2 || !is_nhwc(labels) ||
      !has_convolution_types(inst) || !all_row_major(inst))
    return false;
  if (in->dim[3] <= SMALL_FEATURES && inst->shape->dim[3] <= SMALL_FEATURES)
    return false;
  for (int k = 0; k < 2; k++)
    if (inst->shape->dim[1 + k] > in->dim[1 + k] || kernel->dim[k] > in->dim[1 + k] ||
        window.at[k].lhs_dilate != 1 || window.at[k].reversal)
      return false;
  return true;
}

// --- All ----------------------------------------------------------------------------------------

bool ynn_takes(const HlPass *p, const HlInst *inst) {
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return has_type(inst->shape) && inst->shape->dtype == inst->operands[0]->shape->dtype &&
           all_row_major(inst);
  switch (inst->op) {
  case HL_OP_CONSTANT:
    return hl_shape_is_array(inst->shape) && has_type(inst->shape) && hl_is_constant(inst);
  case HL_OP_IOTA:
    return (inst->shape->dtype == HL_F32 || inst->shape->dtype == HL_S32) &&
           is_row_major(inst->shape);
  case HL_OP_BROADCAST:
    return has_type(inst->shape) && all_row_major(inst) && keeps_order(hl_dims(inst));
  case HL_OP_TRANSPOSE: return has_type(inst->shape) && all_row_major(inst);
  case HL_OP_PAD: return has_type(inst->shape) && all_row_major(inst) && takes_pad(inst);
  case HL_OP_DOT: return hl_cpu_library_takes(p, inst) && all_row_major(inst);
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return hl_cpu_library_takes(p, inst) && all_row_major(inst);
  case HL_OP_CONVOLUTION: return takes_convolution(inst);
  default: return is_large(inst) && takes_elementwise(inst);
  }
}
