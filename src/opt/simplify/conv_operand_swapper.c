// opt/simplify/conv_operand_swapper.c: the smaller operand of a convolution is the kernel.
//
// conv-operand-swapper. A convolution is symmetric but for direction: with the roles of input and
// kernel exchanged, and the new window running backwards, it gives the same sums. Work grows with
// the size of the window, so the roles change where the old kernel is larger than the input.
//
//   c = convolution(x, k), 3x3 input, 28x28 kernel
//   =>  c = convolution(reverse(k), x), 28x28 input, 3x3 kernel, reversed window
//
// Dimensions that the input and the kernel share whole (pure sums) and those that only number
// groups stay as they are.

#include "hilo/edit.h"
#include "opt/passes.h"

typedef struct Swap {
  HlWindowDim *window;
  int64_t kernel, swapped;  // products of window sizes, before and after
  int64_t *reversed;        // dimensions of the kernel that are reversed
  int n_reversed;
} Swap;

static bool stays(const HlWindowDim *w, int64_t input) {
  if (w->reversal || w->pad_low != 0 || w->pad_high != 0 || w->rhs_dilate != 1)
    return false;
  bool numbers_groups = w->lhs_dilate == w->size && w->stride == w->size - 1;
  bool is_pure_sum = w->size == input && w->lhs_dilate == 1 && w->stride == 1;
  return numbers_groups || is_pure_sum;
}

static bool is_full_padding(const HlWindowDim *w, int64_t input) {
  return input == 1 && w->stride == 1 && w->rhs_dilate == 1 && w->pad_high == w->size - 1 &&
         w->pad_low == w->size - 1;
}

static HlWindowDim swapped_dim(const HlWindowDim *w, int64_t input) {
  int64_t long_kernel = 1 + (w->size - 1) * w->rhs_dilate;
  int64_t long_input = 1 + (input - 1) * w->lhs_dilate;
  return (HlWindowDim){.size = input,
                       .stride = w->stride,
                       .pad_low = long_input + w->pad_low - long_kernel,
                       .pad_high = long_input + w->pad_high - long_kernel,
                       .lhs_dilate = w->rhs_dilate,
                       .rhs_dilate = w->lhs_dilate,
                       .reversal = true};
}

static Swap plan(HlPass *p, const HlInst *inst, const HlDimLabels *labels) {
  HlWindow window = hl_window(inst);
  Swap swap = {HL_ARRAY(p->m->arena, HlWindowDim, window.n + 1), 1, 1,
               HL_ARRAY(p->arena, int64_t, window.n + 1), 0};
  for (int k = 0; k < window.n; k++) {
    const HlWindowDim *w = &window.at[k];
    int64_t input = hl_operand(inst, 0)->shape->dim[labels->input_spatial.at[k]];
    if (stays(w, input)) {
      swap.window[k] = *w;
      continue;
    }
    swap.kernel *= w->size;
    swap.swapped *= is_full_padding(w, input) ? w->size : input;
    if (!w->reversal)
      swap.reversed[swap.n_reversed++] = labels->kernel_spatial.at[k];
    swap.window[k] = swapped_dim(w, input);
  }
  return swap;
}

static HlDimLabels *swapped_labels(HlArena *arena, const HlDimLabels *labels) {
  HlDimLabels *swapped = HL_NEW(arena, HlDimLabels);
  *swapped = (HlDimLabels){.input_batch = labels->kernel_output,
                           .input_feature = labels->kernel_input,
                           .kernel_input = labels->input_feature,
                           .kernel_output = labels->input_batch,
                           .output_batch = labels->output_feature,
                           .output_feature = labels->output_batch,
                           .input_spatial = labels->kernel_spatial,
                           .kernel_spatial = labels->input_spatial,
                           .output_spatial = labels->output_spatial};
  return swapped;
}

static void swap_precision(HlPass *p, HlInst *conv) {
  HlI64s old = hl_attr_ints(conv, HL_A_OPERAND_PRECISION);
  if (old.n != 2)
    return;
  int64_t both[] = {old.at[1], old.at[0]};
  hl_set_ints(conv, HL_A_OPERAND_PRECISION, (HlI64s){both, 2});
}

static bool may_swap(const HlInst *inst, const HlDimLabels *labels) {
  return labels && labels->input_spatial.n > 0 && hl_window(inst).n == labels->input_spatial.n &&
         hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT) <= 1 &&
         hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) <= 1 &&
         !hl_has_attr(inst, HL_A_SPARSITY_CONFIG) && !hl_shape_is_dynamic(inst->shape) &&
         !hl_shape_is_dynamic(hl_operand(inst, 0)->shape) &&
         !hl_shape_is_dynamic(hl_operand(inst, 1)->shape);
}

static HlInst *swap_operands(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!may_swap(inst, labels))
    return NULL;
  Swap swap = plan(p, inst, labels);
  if (swap.kernel <= swap.swapped)
    return NULL;
  HlInst *kernel = hl_operand(inst, 1);
  if (swap.n_reversed > 0)
    kernel = hl_b_reverse(b, kernel,
                          hl_i64s_copy(p->m->arena, (HlI64s){swap.reversed, swap.n_reversed}));
  if (!kernel)
    return NULL;
  HlInst *operands[] = {kernel, hl_operand(inst, 0)};
  HlInst *conv = hl_inst_copy(b->comp, inst, NULL, 2, operands);
  HlAttr attrs[] = {{.key = HL_A_DIM_LABELS, .ptr = swapped_labels(p->m->arena, labels)},
                    {.key = HL_A_WINDOW, .window = {swap.window, hl_window(inst).n}}};
  hl_set_attr(conv, &attrs[0]);
  hl_set_attr(conv, &attrs[1]);
  swap_precision(p, conv);
  return conv;
}

const HlRule conv_operand_swapper_rules[] = {
    {HL_OP_CONVOLUTION, swap_operands, "conv-operand-swapper",
     "convolution(x, k) => convolution(reverse(k), x)", "no groups; the window gets smaller"},
    {0},
};
