// opt/expand/tree_reduction_rewriter.c: long reductions in two steps, so that fewer numbers of equal size
// are added to one big one: windows first, then what is left of them.
//
//   r = f32[] reduce(f32[4096] x, 0), dimensions={0}   =>
//
//   w = f32[128] reduce-window(x, 0), window={size=32 stride=32}
//   r = f32[] reduce(w, 0), dimensions={0}
//
// Windows that reach beyond the end are padded with the initial value, which may be folded in any
// number of times. What is left is reduced in two steps again, when the pass runs again. XLA:CPU
// leaves alone what its library is going to compute.
#include <string.h>

#include "opt/ask/reducers.h"
#include "opt/ask/windows.h"
#include "opt/cpu/ynn.h"

static bool is_long(const HlInst *reduce, int64_t size) {
  HlI64s dims = hl_dims(reduce);
  for (int k = 0; k < dims.n; k++)
    if (reduce->operands[0]->shape->dim[dims.at[k]] > size)
      return true;
  return false;
}

// Windows without overlap, padded by equal parts on both sides, the rest at the end.
static HlWindowDim windows_over(int64_t length, int64_t most) {
  int64_t size = length < most ? length : most;
  int64_t missing = (length + size - 1) / size * size - length;
  return (HlWindowDim){.size = size,
                       .stride = size,
                       .pad_low = missing / 2,
                       .pad_high = missing - missing / 2,
                       .lhs_dilate = 1,
                       .rhs_dilate = 1};
}

static HlInst *split(HlPass *p, HlBuild *b, HlInst *reduce) {
  int64_t size = hl_pass_int(p, "window");
  if (reduce->n_operands != 2 || reduce->shape->dtype == HL_TUPLE || !is_long(reduce, size) ||
      !all_static(reduce) || hl_shape_elements(reduce->operands[0]->shape) == 0)
    return NULL;
  if (!reducer_may_repeat(hl_to_apply(reduce), reduce->operands[1]) ||
      (p->target->ynn && ynn_takes(p, reduce)))
    return NULL;
  HlInst *x = reduce->operands[0];
  HlWindowDim *window = window_units(p->arena, x->shape->rank);
  HlI64s dims = hl_dims(reduce);
  for (int k = 0; k < dims.n; k++)
    window[dims.at[k]] = windows_over(x->shape->dim[dims.at[k]], size);
  HlInst *parts[2] = {NULL, reduce->operands[1]};
  parts[0] = window_reduce(p, b, 1, &x, &parts[1], window, hl_to_apply(reduce));
  if (!parts[0])
    return NULL;
  return hl_inst_copy(b->comp, reduce, NULL, 2, parts);
}

const HlRule tree_reduction_rewriter_rules[] = {
    {HL_OP_REDUCE, split, "tree_reduction_rewriter", "reduce(x) => reduce(reduce-window(x))",
     "some reduced dimension is longer than the window"},
    {0},
};
