// op/scaled_dot.c: scaled-dot: dot of operands that are each multiplied by a scale per block.
//
// A scale has the operand's rank; each of its dimensions divides the operand's into blocks of equal
// size. A scalar scale means none.

#include "base/memory.h"
#include "op/matmul.h"

// data[i] *= scale[i / block], per dimension.
static bool apply_scale(HlEval *ev, const HlInst *inst, DotSide *side, const HlLiteral *scale) {
  if (scale->shape->rank == 0)
    return true;
  const HlShape *shape = side->shape;
  bool fits = scale->shape->rank == shape->rank;
  for (int d = 0; fits && d < shape->rank; d++)
    fits = scale->shape->dim[d] > 0 && shape->dim[d] % scale->shape->dim[d] == 0;
  if (!fits)
    return hl_inst_error(ev->cx, inst, "the scale does not divide the operand into blocks");
  double *factor = wide_load(ev, inst, scale, WIDE_FLOAT), *data = side->data;
  if (!factor)
    return false;
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  int64_t *stride = HL_ARRAY(arena, int64_t, shape->rank + 1);
  hl_strides(shape->rank, scale->shape->dim, stride);
  HlWalk walk;
  hl_walk_start(&walk, arena, shape->rank, shape->dim, 0, NULL);
  for (int64_t at = 0; !walk.done; hl_walk_next(&walk), at++) {
    int64_t from = 0;
    for (int d = 0; d < shape->rank; d++)
      from += walk.index[d] / (shape->dim[d] / scale->shape->dim[d]) * stride[d];
    data[at] *= factor[from];
  }
  hl_arena_release(arena, mark);
  base_free(factor);
  return true;
}

bool eval_scaled_dot(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  if (wide_of(out->shape->dtype) != WIDE_FLOAT)
    return kernel_no_type(ev, inst, out->shape->dtype);
  DotSide lhs, rhs;
  if (!dot_sides(ev, inst, in, WIDE_FLOAT, &lhs, &rhs))
    return false;
  const bool ok = apply_scale(ev, inst, &lhs, in[2]) && apply_scale(ev, inst, &rhs, in[3]) &&
                  dot_product(ev, inst, WIDE_FLOAT, &lhs, &rhs, out);
  base_free(lhs.data);
  base_free(rhs.data);
  return ok;
}
