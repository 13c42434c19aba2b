// Verifies MLIR trees: quantised operands and results.
#include "mlir/verify/verify.h"

// The quantisation of a type's elements; NULL: they have none.
static const HlMlQuant *quant_of(const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  return element->kind == HL_ML_QUANT ? element->quant : NULL;
}

static bool per_axis(const HlMlQuant *q) {
  return q->axis >= 0;
}

// --- Elementwise --------------------------------------------------------------------------------

bool mv_check_quant_add(MlVerify *v, const HlMlOp *op) {
  const HlMlQuant *lhs = quant_of(mv_in(op, 0)), *rhs = quant_of(mv_in(op, 1)),
                  *out = quant_of(mv_out(op, 0));
  if (!lhs || !rhs || !out)
    return mv_bad(v, op, "all operands and results must be quantised, or none");
  if (lhs->storage != rhs->storage || lhs->storage != out->storage ||
      lhs->is_signed != rhs->is_signed || lhs->is_signed != out->is_signed)
    return mv_bad(v, op, "operands and result have different storage types");
  if (lhs->expressed != rhs->expressed || lhs->expressed != out->expressed)
    return mv_bad(v, op, "operands and result have different expressed types");
  if ((per_axis(lhs) || per_axis(rhs)) != per_axis(out))
    return mv_bad(v, op, "the result is%s quantised per axis, but lhs or rhs %s",
                  per_axis(out) ? "" : " not", per_axis(out) ? "is not" : "is");
  if ((per_axis(lhs) && lhs->axis != out->axis) || (per_axis(rhs) && rhs->axis != out->axis))
    return mv_bad(v, op, "operands and result are quantised along different axes");
  return true;
}

bool mv_rule_uniform_quantize(MlVerify *v, const HlMlOp *op) {
  const HlMlQuant *in = quant_of(mv_in(op, 0)), *out = quant_of(mv_out(op, 0));
  const HlMlType *want = in ? in->expressed : hl_ml_element(mv_in(op, 0));
  if (out && out->expressed != want)
    return mv_bad(v, op, "the expressed type of the result should be '%s', but is '%s'",
                  mv_text(v, want), mv_text(v, out->expressed));
  return true;
}

bool mv_rule_uniform_dequantize(MlVerify *v, const HlMlOp *op) {
  const HlMlQuant *in = quant_of(mv_in(op, 0));
  if (in == NULL)
    return true;
  MlShape shape = mv_shape_of(v, mv_in(op, 0));
  shape.bound = NULL;
  shape.element = in->expressed;
  return mv_result_is(v, op, 0, &shape);
}

// --- Movement -----------------------------------------------------------------------------------

static bool same_scales(const HlMlQuant *a, const HlMlQuant *b) {
  for (int k = 0; k < a->n && k < b->n; k++)
    if (a->scale[k] != b->scale[k] || a->zero_point[k] != b->zero_point[k])
      return false;
  return true;
}

bool mv_check_quant_same(MlVerify *v, const HlMlOp *op) {
  const HlMlQuant *in = quant_of(mv_in(op, 0)), *out = quant_of(mv_out(op, 0));
  if (!in || !out || per_axis(in) || per_axis(out) ||
      hl_ml_element(mv_in(op, 0)) == hl_ml_element(mv_out(op, 0)))
    return true;
  return mv_bad(v, op, "operand and result should have the same scale and zero point: '%s' vs '%s'",
                mv_text(v, mv_in(op, 0)), mv_text(v, mv_out(op, 0)));
}

static bool check_same_per_axis(MlVerify *v, const HlMlOp *op) {
  const HlMlQuant *in = quant_of(mv_in(op, 0)), *out = quant_of(mv_out(op, 0));
  if (!in || !out || !per_axis(in) || !per_axis(out) || same_scales(in, out))
    return true;
  return mv_bad(v, op,
                "operand and result should have the same scales and zero points: '%s' vs '%s'",
                mv_text(v, mv_in(op, 0)), mv_text(v, mv_out(op, 0)));
}

// Of the sizes before the quantised axis.
static uint64_t product_before(const HlMlType *type, int axis) {
  uint64_t n = 1;
  for (int k = 0; k < axis && k < type->rank; k++)
    n *= (uint64_t)type->dim[k];
  return n;
}

bool mv_check_quant_reshape(MlVerify *v, const HlMlOp *op) {
  const HlMlType *from = mv_in(op, 0), *to = mv_out(op, 0);
  const HlMlQuant *in = quant_of(from), *out = quant_of(to);
  if (!mv_check_quant_same(v, op) || !check_same_per_axis(v, op))
    return false;
  if (!in || !out || !per_axis(in) || !per_axis(out))
    return true;
  if (!mv_sizes_agree(from->dim[in->axis], to->dim[out->axis]))
    return mv_bad(v, op,
                  "the quantised dimensions of operand and result differ in size: '%s' vs '%s'",
                  mv_text(v, from), mv_text(v, to));
  if (hl_ml_is_static(from) && hl_ml_is_static(to) &&
      product_before(from, in->axis) != product_before(to, out->axis))
    return mv_bad(
        v, op,
        "operand and result differ in the elements before the quantised dimension: '%s' vs '%s'",
        mv_text(v, from), mv_text(v, to));
  return true;
}

bool mv_check_quant_broadcast(MlVerify *v, const HlMlOp *op, HlI64s dims) {
  const HlMlType *from = mv_in(op, 0);
  const HlMlQuant *in = quant_of(from), *out = quant_of(mv_out(op, 0));
  if (!out || !per_axis(out))
    return true;
  if (!in || !per_axis(in))
    return mv_bad(v, op, "the result is quantised per axis, but the operand is not");
  if (dims.at[in->axis] != out->axis)
    return mv_bad(v, op,
                  "the result is quantised along dimension %d, but the operand's goes to %lld",
                  out->axis, (LL)dims.at[in->axis]);
  if (from->dim[in->axis] != 1)
    return true;
  for (int k = 0; k < out->n; k++)
    if (out->scale[k] != in->scale[0] || out->zero_point[k] != in->zero_point[0])
      return mv_bad(v, op,
                    "scale and zero point %d of the result, %g and %lld, differ from the "
                    "operand's, %g and %lld",
                    k, out->scale[k], (LL)out->zero_point[k], in->scale[0], (LL)in->zero_point[0]);
  return true;
}

bool mv_check_quant_transpose(MlVerify *v, const HlMlOp *op, HlI64s permutation) {
  const HlMlQuant *in = quant_of(mv_in(op, 0)), *out = quant_of(mv_out(op, 0));
  if (!mv_check_quant_same(v, op) || !check_same_per_axis(v, op))
    return false;
  if (!in || !out || !per_axis(in) || !per_axis(out))
    return true;
  if (in->axis != permutation.at[out->axis])
    return mv_bad(v, op,
                  "the operand is quantised along dimension %d, but the result's comes from %lld",
                  in->axis, (LL)permutation.at[out->axis]);
  return true;
}

// --- Products -----------------------------------------------------------------------------------

static bool any_quantised(const HlMlOp *op) {
  return mv_is_quantised(mv_in(op, 0)) || mv_is_quantised(mv_in(op, 1)) ||
         mv_is_quantised(mv_out(op, 0));
}

static bool check_product(MlVerify *v, const HlMlOp *op) {
  const HlMlQuant *lhs = quant_of(mv_in(op, 0)), *rhs = quant_of(mv_in(op, 1)),
                  *out = quant_of(mv_out(op, 0));
  if (!rhs || (lhs == NULL) != (out == NULL))
    return mv_bad(v, op, "rhs should be quantised, and lhs when the result is");
  if (lhs == NULL) {
    const HlMlType *element = hl_ml_element(mv_in(op, 0));
    if (element != rhs->expressed || element != hl_ml_element(mv_out(op, 0)))
      return mv_bad(v, op,
                    "the expressed type of rhs should be the element type of lhs and result: '%s'",
                    mv_text(v, rhs->expressed));
    return true;
  }
  if (lhs->storage != rhs->storage)
    return mv_bad(v, op, "lhs and rhs have different storage types");
  if (lhs->expressed != rhs->expressed || lhs->expressed != out->expressed)
    return mv_bad(v, op, "lhs, rhs and result have different expressed types");
  if (!per_axis(rhs) && per_axis(out))
    return mv_bad(v, op, "the result is quantised per axis, but rhs is not");
  return true;
}

bool mv_check_quant_convolution(MlVerify *v, const HlMlOp *op, int64_t kernel_output,
                                int64_t output_feature) {
  if (!any_quantised(op))
    return true;
  const HlMlQuant *rhs = quant_of(mv_in(op, 1)), *out = quant_of(mv_out(op, 0));
  if (rhs && per_axis(rhs) && rhs->axis != kernel_output)
    return mv_bad(
        v, op,
        "rhs should be quantised along kernel_output_feature_dimension %lld, but is along %d",
        (LL)kernel_output, rhs->axis);
  if (out && per_axis(out) && out->axis != output_feature)
    return mv_bad(
        v, op,
        "the result should be quantised along output_feature_dimension %lld, but is along %d",
        (LL)output_feature, out->axis);
  return check_product(v, op);
}

bool mv_check_quant_dot(MlVerify *v, const HlMlOp *op, HlI64s rhs_contracting) {
  if (!any_quantised(op))
    return true;
  const HlMlQuant *rhs = quant_of(mv_in(op, 1));
  for (int k = 0; rhs && k < rhs->n; k++)
    if (rhs->zero_point[k] != 0)
      return mv_bad(v, op, "zero points of rhs should be 0, but one is %lld",
                    (LL)rhs->zero_point[k]);
  if (rhs && per_axis(rhs) && hl_i64s_find(rhs_contracting, rhs->axis) >= 0)
    return mv_bad(v, op, "rhs is quantised along the contracting dimension %d", rhs->axis);
  return check_product(v, op);
}
