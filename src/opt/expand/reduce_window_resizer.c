// opt/expand/reduce_window_resizer.c: reduce-windows of rank 1 get a second dimension, of size 1: what
// comes after (layouts, kernels) need not know windows of rank 1.
//
//   w = f32[10] reduce-window(f32[100] x, init),         x' = f32[100,1] reshape(x)
//     window={size=10 stride=10}                    =>   w' = f32[10,1] reduce-window(x', init),
//                                                               window={size=10x1 stride=10x1}
//                                                        w  = f32[10] reshape(w')
#include "opt/ask/windows.h"

static HlInst *back_to_rank_1(HlPass *p, HlBuild *b, const HlInst *old, HlInst *wide, int n) {
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, n);
  for (int k = 0; k < n; k++) {
    HlInst *part = window_result(b, wide, k);
    if (!part)
      return NULL;
    parts[k] = hl_b_reshape(b, part, 1, part->shape->dim);
  }
  return old->shape->dtype == HL_TUPLE ? hl_b_tuple(b, n, parts) : parts[0];
}

HlInst *window_resize(HlPass *p, HlBuild *b, HlInst *inst) {
  HlWindow window = hl_window(inst);
  if (inst->operands[0]->shape->rank != 1 || window.n != 1 || !all_static(inst))
    return NULL;
  int n = (int)inst->n_operands / 2;
  HlInst **x = HL_ARRAY(p->arena, HlInst *, n);
  for (int k = 0; k < n; k++)
    x[k] =
        window_last_major(p, hl_b_reshape(b, inst->operands[k], 2,
                                          (const int64_t[]){inst->operands[k]->shape->dim[0], 1}));
  HlWindowDim *wide = window_units(p->arena, 2);
  wide[0] = window.at[0];
  HlInst *out =
      window_last_major(p, window_reduce(p, b, n, x, inst->operands + n, wide, hl_to_apply(inst)));
  return out ? back_to_rank_1(p, b, inst, out, n) : NULL;
}

const HlRule reduce_window_resizer_rules[] = {
    {HL_OP_REDUCE_WINDOW, window_resize, "reduce-window-resizer",
     "reduce-window(x) => reshape(reduce-window(reshape(x)))", "x of rank 1"},
    {0},
};
