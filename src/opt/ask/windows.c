// opt/ask/windows.c: making windows and reduce-windows.
#include "opt/ask/windows.h"
#include "hilo/edit.h"

#include <string.h>

HlWindowDim *window_units(HlArena *arena, int rank) {
  HlWindowDim *window = HL_ARRAY(arena, HlWindowDim, rank + 1);
  for (int d = 0; d < rank; d++)
    window[d] = (HlWindowDim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  return window;
}

bool window_is_unit(const HlWindowDim *dim) {
  return dim->size == 1 && dim->stride == 1 && dim->pad_low == 0 && dim->pad_high == 0 &&
         dim->lhs_dilate == 1 && dim->rhs_dilate == 1;
}

HlInst *window_reduce(HlPass *p, HlBuild *b, int n, HlInst *const *x, HlInst *const *init,
                      const HlWindowDim *window, HlComp *combine) {
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, 2 * n);
  for (int k = 0; k < n; k++) {
    if (!x[k] || !init[k])
      return NULL;
    operands[k] = x[k];
    operands[n + k] = init[k];
  }
  int rank = x[0]->shape->rank;
  HlArena *arena = hl_b_module(b)->arena;
  const HlWindowDim *kept = hl_arena_copy(arena, window, sizeof *window * (size_t)rank);
  HlAttr attr = {.key = HL_A_WINDOW, .window = {kept, rank}};
  return hl_b_op(b, HL_OP_REDUCE_WINDOW, NULL, 2 * n, operands, 1, &attr, 1, &combine);
}

static const HlShape *last_major(HlPass *p, const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    const HlShape **part = HL_ARRAY(p->arena, const HlShape *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      part[k] = last_major(p, shape->element[k]);
    return hl_shape_tuple(p->m->shapes, shape->rank, part);
  }
  int64_t *order = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    order[k] = (2 * shape->rank - 2 - k) % shape->rank;
  const HlLayout layout = {.minor_to_major = {order, shape->rank}};
  return hl_shape_with_layout(p->m->shapes, shape, &layout);
}

HlInst *window_last_major(HlPass *p, HlInst *inst) {
  if (inst)
    hl_set_shape(inst, last_major(p, inst->shape));
  return inst;
}

HlInst *window_result(HlBuild *b, HlInst *inst, int k) {
  if (!inst)
    return NULL;
  return inst->shape->dtype == HL_TUPLE ? hl_b_element(b, inst, k) : inst;
}
