// opt/layout/reshape_decomposer.c: makes the bytes that a reshape moves visible.
//
// reshape-decomposer. Once layouts are assigned a reshape either moves nothing, and is a bitcast,
// or it moves bytes, and then a copy says so: on the side where one layout makes the rest a
// bitcast, on both sides where none does.
//
//   r = f32[2,6]{0,1} reshape(f32[12]{0} x)   =>   b = f32[2,6]{1,0} bitcast(x)
//                                                  r = f32[2,6]{0,1} copy(b)

#include "hilo/edit.h"
#include "opt/ask/frontend.h"
#include "opt/ask/layouts.h"
#include "opt/passes.h"

static HlInst *bitcast(HlBuild *b, HlInst *x, const HlShape *shape) {
  return hl_b_op(b, HL_OP_BITCAST, shape, 1, &x, 0, NULL, 0, NULL);
}

static HlInst *copy(HlBuild *b, HlInst *x, const HlShape *shape) {
  HlInst *made = hl_b_unary(b, HL_OP_COPY, x);
  if (made) {
    hl_set_shape(made, shape);
    frontend_keep(made, x);
  }
  return made;
}

static HlInst *as_bitcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  return hl_reshape_is_bitcast(x->shape, inst->shape) ? bitcast(b, x, inst->shape) : NULL;
}

static HlInst *copy_first(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  const HlShape *aligned = hl_align_layouts(p->m->shapes, inst->shape, x->shape);
  return aligned ? bitcast(b, copy(b, x, aligned), inst->shape) : NULL;
}

static HlInst *copy_after(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  const HlShape *aligned = hl_align_layouts(p->m->shapes, x->shape, inst->shape);
  return aligned ? copy(b, bitcast(b, x, aligned), inst->shape) : NULL;
}

static const HlShape *row_major(HlShapes *shapes, const HlShape *shape) {
  return hl_shape_array(shapes, shape->dtype, shape->rank, shape->dim);
}

static HlInst *copy_twice(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  HlShapes *shapes = p->m->shapes;
  if (hl_shape_is_dynamic(x->shape) || hl_shape_is_dynamic(inst->shape))
    return NULL;
  HlInst *flat = copy(b, x, row_major(shapes, x->shape));
  return copy(b, bitcast(b, flat, row_major(shapes, inst->shape)), inst->shape);
}

const HlRule reshape_decomposer_rules[] = {
    {HL_OP_RESHAPE, as_bitcast, "bitcast", "reshape(x) => bitcast(x)", "no byte moves"},
    {HL_OP_RESHAPE, copy_first, "copy-bitcast", "reshape(x) => bitcast(copy(x))",
     "some layout of x makes the reshape a bitcast"},
    {HL_OP_RESHAPE, copy_after, "bitcast-copy", "reshape(x) => copy(bitcast(x))",
     "some layout of the result makes the reshape a bitcast"},
    {HL_OP_RESHAPE, copy_twice, "copy-bitcast-copy", "reshape(x) => copy(bitcast(copy(x)))",
     "static shapes"},
    {0},
};
