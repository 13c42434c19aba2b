// cost/convolution.c: flops of a convolution: taps that fall on padding or into holes do not count.

#include <math.h>

#include "cost/cost.h"

enum { MAX_COUNTED = 1 << 16 };  // positions counted one by one; beyond, by their density

// How many of the outputs 0..n-1 see an element through one tap: output o looks at place
// o * stride + offset of the input with holes, `size` elements `hole` apart.
static double taps_on_elements(int64_t n, int64_t size, int64_t stride, int64_t hole,
                               double offset) {
  double last = (double)(size - 1) * (double)hole;  // place of the last element
  double low = ceil(-offset / (double)stride), high = floor((last - offset) / (double)stride);
  low = low < 0 ? 0 : low;
  high = high > (double)(n - 1) ? (double)(n - 1) : high;
  if (size <= 0 || high < low)
    return 0;
  if (hole == 1)
    return high - low + 1;
  if (high - low >= MAX_COUNTED)
    return (high - low + 1) / (double)hole;
  double count = 0;
  for (double o = low; o <= high; o++)
    count += fmod(o * (double)stride + offset, (double)hole) == 0;
  return count;
}

static double dim_taps(const HlWindowDim *w, int64_t in, int64_t out) {
  if (in <= 0 || out <= 0 || w->size <= 0)
    return 0;
  int64_t stride = w->stride > 0 ? w->stride : 1, hole = w->lhs_dilate > 0 ? w->lhs_dilate : 1;
  int64_t dilate = w->rhs_dilate > 0 ? w->rhs_dilate : 1;
  if (w->size > MAX_COUNTED)
    return (double)w->size * (double)out / (double)hole;
  double count = 0;
  for (int64_t k = 0; k < w->size; k++)
    count +=
        taps_on_elements(out, in, stride, hole, (double)k * (double)dilate - (double)w->pad_low);
  return count;
}

static double at(const HlShape *shape, HlI64s dims, int k) {
  return k < dims.n ? cost_dim(shape, dims.at[k]) : 1;
}

void cost_convolution(const CostQuestion *q, HlCost *out) {
  const HlInst *inst = q->inst;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlShape *lhs = cost_operand(inst, 0), *rhs = cost_operand(inst, 1);
  if (!labels || !lhs || !rhs || !hl_shape_is_array(inst->shape))
    return;
  HlWindow window = hl_window(inst);
  int64_t batch_groups = hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT);
  // The kernel's input features are those of one group.
  double n = 2 * cost_dim(rhs, labels->kernel_input) * cost_dim(rhs, labels->kernel_output) *
             cost_dim(lhs, labels->input_batch) / (double)(batch_groups > 0 ? batch_groups : 1);
  for (int k = 0; k < window.n; k++)
    n *= dim_taps(&window.at[k], (int64_t)at(lhs, labels->input_spatial, k),
                  (int64_t)at(inst->shape, labels->output_spatial, k));
  out->flops += n;
}
