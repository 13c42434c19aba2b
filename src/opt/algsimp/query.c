// opt/algsimp/query.c: what algebraic rules ask about instructions, and small things they build.
#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/algsimp/algsimp.h"

// --- Shapes -------------------------------------------------------------------------------------

static bool same_dynamism(const HlShape *a, const HlShape *b) {
  for (int k = 0; k < a->rank; k++)
    if ((a->dynamic && a->dynamic[k]) != (b->dynamic && b->dynamic[k]))
      return false;
  return true;
}

bool alg_same_shape(const HlPass *p, const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (alg_options(p)->layout_sensitive || !hl_shape_is_array(a) || !hl_shape_is_array(b))
    return hl_shape_equal(a, b);
  return hl_shape_compatible(a, b) && same_dynamism(a, b);
}

HlInst *alg_existing(const HlPass *p, const HlInst *inst, HlInst *by) {
  return by && alg_same_shape(p, inst->shape, by->shape) ? by : NULL;
}

// --- Signs --------------------------------------------------------------------------------------

// Questions about operands of operands end after so many steps: the answer is then no.
enum { SIGN_STEPS = 64 };

static bool has_sign(HlDtype dtype) {
  return hl_is_float(dtype) || hl_is_signed(dtype);
}

// The variance that cuDNN's batch normalisation returns.
static bool is_variance(const HlInst *inst) {
  const HlInst *tuple = inst->operands[0];
  return tuple->op == HL_OP_CUSTOM_CALL && hl_attr_int(inst, HL_A_INDEX) == 2 &&
         hl_is_call(tuple, HL_CALL_CUDNN_BATCH_NORM);
}

static bool is_positive(const HlInst *inst) {
  for (int step = 0; step < SIGN_STEPS; step++) {
    switch (inst->op) {
    case HL_OP_GET_TUPLE_ELEMENT: return is_variance(inst);
    case HL_OP_POWER:
    case HL_OP_ABS:
    case HL_OP_RSQRT:
    case HL_OP_SQRT: break;
    case HL_OP_MULTIPLY:
      if (inst->operands[0] != inst->operands[1])
        return false;
      break;
    default: return false;
    }
    if (hl_is_complex(inst->operands[0]->shape->dtype))
      return false;
    inst = inst->operands[0];
  }
  return false;
}

static bool is_nonneg_constant(const HlInst *inst) {
  if (!hl_is_constant(inst) || !hl_shape_is_array(inst->shape))
    return false;
  const HlLiteral *value = hl_constant(inst);
  for (int64_t k = 0; k < value->n; k++) {
    double x = hl_literal_f64(value, k);
    if (isnan(x) || signbit(x))
      return false;
  }
  return true;
}

// Numbers up to the extent of its dimension fit in the element type.
static bool is_nonneg_iota(const HlInst *inst) {
  HlDtype dtype = inst->shape->dtype;
  int64_t extent = inst->shape->dim[hl_attr_int(inst, HL_A_IOTA_DIMENSION)];
  int bits = hl_dtype_info[dtype].bits;
  return hl_is_float(dtype) || bits >= 64 || extent <= INT64_C(1) << (bits - 1);
}

static bool nonneg_within(const HlInst *inst, int *steps) {
  const HlDtype dtype = inst->shape->dtype;
  if (!has_sign(dtype) || --*steps < 0)
    return false;
  HlInst *const *x = inst->operands;
  switch (inst->op) {
  case HL_OP_CONSTANT: return is_nonneg_constant(inst);
  case HL_OP_IOTA: return is_nonneg_iota(inst);
  case HL_OP_ABS:  // of integers the least is its own absolute value
    return hl_is_float(dtype);
  case HL_OP_EXPONENTIAL: return true;
  case HL_OP_MULTIPLY:  // integers wrap
    return hl_is_float(dtype) && (x[0] == x[1] || is_positive(inst));
  case HL_OP_BROADCAST: return nonneg_within(x[0], steps);
  case HL_OP_POWER: return hl_is_float(dtype) && nonneg_within(x[0], steps);
  case HL_OP_MAXIMUM: return nonneg_within(x[0], steps) || nonneg_within(x[1], steps);
  case HL_OP_MINIMUM: return nonneg_within(x[0], steps) && nonneg_within(x[1], steps);
  case HL_OP_SELECT: return nonneg_within(x[1], steps) && nonneg_within(x[2], steps);
  default: return is_positive(inst);
  }
}

bool alg_nonneg(const HlInst *inst) {
  int steps = SIGN_STEPS;
  return nonneg_within(inst, &steps);
}

enum { PARAMETER_STEPS = 64 };

bool alg_is_parameter_like(const HlInst *inst) {
  for (int step = 0; step < PARAMETER_STEPS; step++) {
    switch (inst->op) {
    case HL_OP_PARAMETER: return true;
    case HL_OP_BITCAST:
    case HL_OP_CONVERT:
    case HL_OP_COPY:
    case HL_OP_GET_TUPLE_ELEMENT:
    case HL_OP_RESHAPE:
    case HL_OP_TRANSPOSE: inst = inst->operands[0]; break;
    default: return false;
    }
  }
  return false;
}

// --- Constants ----------------------------------------------------------------------------------

bool alg_is_constant_or_spread(const HlInst *inst) {
  if (inst->op == HL_OP_BROADCAST && hl_is_effective_scalar(inst->operands[0]->shape))
    inst = inst->operands[0];
  return hl_is_constant(inst);
}

bool alg_is_constant_like(const HlInst *inst) {
  while (inst->op == HL_OP_BROADCAST)
    inst = inst->operands[0];
  return inst->op == HL_OP_CONSTANT;
}

bool alg_all_int(const HlInst *inst, int64_t *value) {
  const HlLiteral *splat = hl_splat(inst);
  if (!splat || !hl_is_integral(splat->shape->dtype))
    return false;
  *value = hl_literal_i64(splat, 0);
  return true;
}

bool alg_match_either(const HlInst *inst, HlOp op, HlInst **found, HlInst **other) {
  for (int k = 0; k < 2; k++)
    if (inst->operands[k]->op == op) {
      *found = inst->operands[k];
      *other = inst->operands[1 - k];
      return true;
    }
  return false;
}

// --- Building -----------------------------------------------------------------------------------

HlInst *alg_spread(HlBuild *b, HlInst *scalar, const HlShape *shape) {
  if (!scalar || hl_shape_is_dynamic(shape))
    return NULL;
  if (scalar->shape->rank > 0)
    scalar = hl_b_reshape(b, scalar, 0, NULL);
  if (!scalar || shape->rank == 0)
    return scalar;
  HlInst *all = hl_b_broadcast(b, scalar, shape->rank, shape->dim, (HlI64s){0});
  if (all && shape->layout)
    hl_set_shape(all, hl_shape_with_dtype(hl_b_module(b)->shapes, shape, scalar->shape->dtype));
  return all;
}

HlInst *alg_full(HlBuild *b, const HlShape *shape, double value) {
  return hl_shape_is_dynamic(shape) ? NULL
                                    : alg_spread(b, hl_b_scalar(b, shape->dtype, value), shape);
}

HlInst *alg_full_int(HlBuild *b, const HlShape *shape, int64_t value) {
  return hl_shape_is_dynamic(shape) ? NULL
                                    : alg_spread(b, hl_b_scalar_int(b, shape->dtype, value), shape);
}

static HlInst *scalar_below(HlInst *inst) {
  return inst->op == HL_OP_BROADCAST && hl_is_effective_scalar(inst->operands[0]->shape)
             ? inst->operands[0]
             : NULL;
}

HlInst *alg_combine(HlBuild *b, HlOp op, HlInst *x, HlInst *y) {
  if (!x || !y)
    return NULL;
  HlInst *below_x = scalar_below(x), *below_y = scalar_below(y);
  if (!below_x || !below_y || !hl_shape_same_dims(below_x->shape, below_y->shape))
    return hl_b_binary(b, op, x, y);
  return alg_spread(b, hl_b_binary(b, op, below_x, below_y), x->shape);
}

HlInst *alg_same_op(HlBuild *b, const HlInst *like, HlInst *x) {
  if (!x)
    return NULL;
  HlInst *inst = hl_b_unary(b, (HlOp)like->op, x);
  const HlAttr *accuracy = hl_attr(like, HL_A_RESULT_ACCURACY);
  if (inst && accuracy)
    hl_set_attr(inst, accuracy);
  return inst;
}
