// opt/gpu/block_scaling_rewriter.c
//
// block-scaling-rewriter: calls that work on numbers with a scale for each block, written out.
//
//   r = f32[8,16] custom-call(x, y, s, t), custom_call_target="__op$block_scaled_dot"
//   =>  r = dot(x * stretched s, y * stretched t), contracting the last dimensions
//
//   d = f32[8,128] custom-call(x, s), custom_call_target="__op$dequantize"
//   =>  d = x * stretched s
//
// The last dimension is contracted, and the first of three is a batch dimension. Where there are
// three operands only the left one has a scale.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

static bool is_call(const HlInst *inst, HlCallTarget target) {
  return hl_is_call(inst, target) && hl_shape_is_array(inst->shape) &&
         hl_is_float(inst->shape->dtype);
}

static bool all_float_arrays(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!hl_is_float(inst->operands[k]->shape->dtype))
      return false;
  return all_static(inst);
}

static bool has_scale(const HlInst *x, const HlInst *scale) {
  return scale->shape->rank > 0 && dot_scale_fits(scale, x->shape);
}

static HlInst *dequantize(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *const *in = inst->operands;
  if (!is_call(inst, HL_CALL_DEQUANTIZE) || inst->n_operands != 2 || !all_float_arrays(inst) ||
      !has_scale(in[0], in[1]) || !hl_shape_same_dims(in[0]->shape, inst->shape))
    return NULL;
  return dot_scaled(p, b, in[0], in[1], inst->shape->dtype);
}

static HlInst *scaled_dot(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *const *in = inst->operands;
  if (!is_call(inst, HL_CALL_BLOCK_SCALED_DOT) || inst->n_operands < 3 || inst->n_operands > 4 ||
      !all_float_arrays(inst))
    return NULL;
  const HlShape *x = in[0]->shape, *y = in[1]->shape;
  if (x->rank != y->rank || x->rank < 2 || x->rank > 3 || inst->shape->rank != x->rank ||
      x->dim[x->rank - 1] != y->dim[y->rank - 1] || (x->rank == 3 && x->dim[0] != y->dim[0]) ||
      !has_scale(in[0], in[2]) || (inst->n_operands == 4 && !has_scale(in[1], in[3])))
    return NULL;
  const HlDtype dtype = inst->shape->dtype;
  HlInst *left = dot_scaled(p, b, in[0], in[2], dtype);
  HlInst *right =
      inst->n_operands == 4 ? dot_scaled(p, b, in[1], in[3], dtype) : hl_b_convert(b, in[1], dtype);
  HlI64s batch = dims_from(p->arena, 0, x->rank - 2);
  HlI64s contract = dims_from(p->arena, x->rank - 1, 1);
  HlInst *dot = hl_b_dot(b, left, right, batch, batch, contract, contract, dtype);
  return dot && hl_shape_same_dims(dot->shape, inst->shape) ? dot : NULL;
}

const HlRule block_scaling_rules[] = {
    {HL_OP_CUSTOM_CALL, dequantize, "block-scaling-rewriter",
     "__op$dequantize(x, s) => x * broadcast(s)", "the scale divides x into blocks"},
    {HL_OP_CUSTOM_CALL, scaled_dot, "block-scaling-rewriter",
     "__op$block_scaled_dot(x, y, s, t) => dot(x * broadcast(s), y * broadcast(t))",
     "the scales divide x and y into blocks"},
    {0},
};
