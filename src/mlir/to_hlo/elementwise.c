// Lowers the elementwise ops that need more than their operands.
#include "mlir/to_hlo/to_hlo.h"

#include <string.h>

bool ml_lower_compare(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  HlAttr attrs[2];
  int n = 0;
  attrs[n++] = (HlAttr){.key = HL_A_DIRECTION, .i = ml_attr_int(op, ML_A_COMPARISON_DIRECTION, 0)};
  // MLIR's NOTYPE is 0, the others are FLOAT, TOTALORDER, SIGNED, UNSIGNED as in HLO. Of floats only the first two
  // say anything.
  int64_t type = ml_attr_int(op, ML_A_COMPARE_TYPE, 0);
  bool says = type != 0 && type != hl_default_comparison_type(in[0]->shape->dtype);
  if (hl_is_float(in[0]->shape->dtype))
    says = type == HL_WORD_comparison_type_TOTALORDER;
  if (says)
    attrs[n++] = (HlAttr){.key = HL_A_COMPARISON_TYPE, .i = type};
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_COMPARE, NULL, 2, in, n, attrs, 0, NULL));
}

bool ml_lower_select(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 3);
  return in && ml_set_results(l, b, op, hl_b_select(b, in[0], in[1], in[2]));
}

// Scalar bounds are spread, as XLA does.
bool ml_lower_clamp(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 3);
  if (!in)
    return false;
  const HlShape *shape = in[1]->shape;
  for (int k = 0; k < 3 && shape->rank > 0; k += 2)
    if (hl_shape_is_scalar(in[k]->shape))
      in[k] = hl_b_broadcast(b, in[k], shape->rank, shape->dim, (HlI64s){0});
  return ml_set_results(l, b, op, hl_b_clamp(b, in[0], in[1], in[2]));
}

// Functions that XLA computes in parts when their argument is complex.
bool ml_lower_complex_math(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  if (!hl_is_complex(x->shape->dtype))
    return ml_lower_plain(l, b, op);
  return ml_set_results(l, b, op, hl_expand(b, hl_str(strchr(op->name->text, '.') + 1), 1, &x));
}

// StableHLO orders complex numbers by their real parts and then by their imaginary ones.
bool ml_lower_extremum(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 2);
  if (!in)
    return false;
  if (!hl_is_complex(in[0]->shape->dtype))
    return ml_lower_plain(l, b, op);
  int order = op->row == ML_STABLEHLO_MAXIMUM ? HL_WORD_direction_GT : HL_WORD_direction_LT;
  HlInst *re[2], *im[2];
  for (int k = 0; k < 2; k++) {
    re[k] = hl_b_unary(b, HL_OP_REAL, in[k]);
    im[k] = hl_b_unary(b, HL_OP_IMAG, in[k]);
  }
  HlInst *tie = hl_b_binary(b, HL_OP_AND, hl_b_compare(b, HL_WORD_direction_EQ, re[0], re[1]),
                            hl_b_compare(b, order, im[0], im[1]));
  HlInst *first = hl_b_binary(b, HL_OP_OR, hl_b_compare(b, order, re[0], re[1]), tie);
  return ml_set_results(l, b, op, hl_b_select(b, first, in[0], in[1]));
}

// HLO's cbrt is of real numbers.
bool ml_lower_cbrt(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  if (!hl_is_complex(x->shape->dtype))
    return ml_lower_plain(l, b, op);
  return ml_set_results(l, b, op, hl_b_binary(b, HL_OP_POWER, x, hl_b_like(b, x, 1.0 / 3)));
}
