// Verifies MLIR trees: elementwise ops, batch normalisation, random bits.
#include "mlir/verify/verify.h"

#include <math.h>
#include <string.h>

static const HlMlType *real_of(const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  return element->kind == HL_ML_COMPLEX ? element->element[0] : element;
}

// abs, real, imag: of complex numbers the type of a part.
static bool result_is_real(MlVerify *v, const HlMlOp *op) {
  if (mv_in(op, 0)->kind != HL_ML_TENSOR)
    return true;
  MlShape shape = mv_shape_of(v, mv_in(op, 0));
  shape.element = real_of(mv_in(op, 0));
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_abs(MlVerify *v, const HlMlOp *op) {
  return result_is_real(v, op);
}
bool mv_rule_real(MlVerify *v, const HlMlOp *op) {
  return result_is_real(v, op);
}

static bool result_is_dtype(MlVerify *v, const HlMlOp *op, HlDtype dtype) {
  MlShape shape = mv_shape_of(v, mv_in(op, 0));
  shape.element = NULL;
  shape.dtype = dtype;
  return mv_result_is(v, op, 0, &shape);
}

bool mv_rule_is_finite(MlVerify *v, const HlMlOp *op) {
  return result_is_dtype(v, op, HL_PRED);
}
bool mv_rule_compare(MlVerify *v, const HlMlOp *op) {
  return result_is_dtype(v, op, HL_PRED);
}

bool mv_rule_complex(MlVerify *v, const HlMlOp *op) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  if (hl_ml_element(lhs) != hl_ml_element(rhs))
    return mv_bad(v, op, "requires the same element type for lhs and rhs: '%s' vs '%s'",
                  mv_text(v, lhs), mv_text(v, rhs));
  return result_is_dtype(v, op, hl_ml_dtype(lhs) == HL_F32 ? HL_C64 : HL_C128);
}

// The tolerances of result_accuracy: not negative, and none but with the mode TOLERANCE.
bool mv_rule_accuracy(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *accuracy = ml_attr(op, ML_A_RESULT_ACCURACY);
  if (accuracy == NULL || accuracy->kind != HL_ML_A_STRUCT)
    return true;
  const HlMlAttr *atol = ml_field(accuracy, ML_A_ATOL), *rtol = ml_field(accuracy, ML_A_RTOL);
  const HlMlAttr *mode = ml_field(accuracy, ML_A_MODE);
  const double a = atol && atol->kind == HL_ML_A_FLOAT ? atol->f : 0;
  const double r = rtol && rtol->kind == HL_ML_A_FLOAT ? rtol->f : 0;
  const int64_t ulps = ml_field_int(accuracy, ML_A_ULPS, 0);
  if (signbit(a) || signbit(r) || ulps < 0)
    return mv_bad(v, op, "result_accuracy has a negative tolerance");
  const bool is_tolerance = mode && mode->sym && strcmp(mode->sym->text, "TOLERANCE") == 0;
  if (!is_tolerance && (a != 0 || r != 0 || ulps != 0))
    return mv_bad(v, op, "result_accuracy has tolerances, which must be zero with mode %s",
                  mode && mode->sym ? mode->sym->text : "DEFAULT");
  return true;
}

bool mv_rule_add(MlVerify *v, const HlMlOp *op) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1), *out = mv_out(op, 0);
  if (lhs == rhs && lhs == out && !mv_is_quantised(lhs))
    return true;
  if (mv_is_quantised(lhs) || mv_is_quantised(rhs) || mv_is_quantised(out)) {
    if (!mv_check_quant_add(v, op))
      return false;
  } else if (hl_ml_element(lhs) != hl_ml_element(rhs) || hl_ml_element(lhs) != hl_ml_element(out)) {
    return mv_bad(v, op, "requires the same element type for all operands and results");
  }
  MlShape shape;
  return mv_most_specific(v, op, 2, (const HlMlType *[]){lhs, rhs}, &shape) &&
         mv_result_is(v, op, 0, &shape);
}

static bool bound_fits(MlVerify *v, const HlMlOp *op, int k, const char *name) {
  const HlMlType *type = mv_in(op, k), *operand = mv_in(op, 1);
  if (type->rank == 0 || mv_shapes_agree(type, operand))
    return true;
  return mv_bad(v, op, "%s is neither a scalar nor of the operand's shape: [%s] vs [%s]", name,
                mv_ints_text(v, (HlI64s){type->dim, type->rank}),
                mv_ints_text(v, (HlI64s){operand->dim, operand->rank}));
}

bool mv_rule_clamp(MlVerify *v, const HlMlOp *op) {
  return bound_fits(v, op, 0, "min") && bound_fits(v, op, 2, "max") &&
         mv_result_is_type(v, op, 0, mv_in(op, 1));
}

bool mv_rule_select(MlVerify *v, const HlMlOp *op) {
  const HlMlType *pred = mv_in(op, 0), *on_true = mv_in(op, 1), *on_false = mv_in(op, 2);
  const HlMlType *a = hl_ml_element(on_true), *b = hl_ml_element(on_false);
  if (!mv_shapes_agree(on_true, on_false) ||
      (a != b && !(a->kind == HL_ML_FLOAT && b->kind == HL_ML_FLOAT)))
    return mv_bad(v, op, "requires compatible types for on_true and on_false: '%s' vs '%s'",
                  mv_text(v, on_true), mv_text(v, on_false));
  if (pred->rank != 0 && !mv_shapes_agree(pred, on_true))
    return mv_bad(
        v, op,
        "requires a scalar predicate or one of the shape of the other operands: '%s' vs '%s'",
        mv_text(v, pred), mv_text(v, on_true));
  MlShape shape;
  return mv_most_specific(v, op, 2, (const HlMlType *[]){on_true, on_false}, &shape) &&
         mv_result_is(v, op, 0, &shape);
}

// The side with the smaller elements has one dimension more, of as many of them as make a larger
// one.
bool mv_rule_bitcast_convert(MlVerify *v, const HlMlOp *op) {
  const HlMlType *from = mv_in(op, 0), *to = mv_out(op, 0);
  const HlMlType *a = hl_ml_element(from), *b = hl_ml_element(to);
  if ((a->kind == HL_ML_COMPLEX) != (b->kind == HL_ML_COMPLEX))
    return mv_bad(v, op, "cannot convert between real and complex types: '%s' and '%s'",
                  mv_text(v, from), mv_text(v, to));
  const bool widens = mv_bits(a) < mv_bits(b);
  const HlMlType *small = widens ? from : to, *big = widens ? to : from;
  const int small_bits = mv_bits(hl_ml_element(small)), big_bits = mv_bits(hl_ml_element(big));
  int n = small->rank;
  if (small_bits != big_bits) {
    if (small->rank != big->rank + 1)
      return mv_bad(
          v, op,
          "the rank of the smaller element type should be 1 more than that of the larger: %d vs %d",
          small->rank, big->rank);
    n = big->rank;
    const int64_t last = small->dim[n];
    if (!mv_is_dynamic_size(last) && (last > big_bits || last * small_bits != big_bits))
      return mv_bad(v, op, "requires compatible bit widths, but %d * %lld != %d: '%s' and '%s'",
                    small_bits, (long long)last, big_bits, mv_text(v, from), mv_text(v, to));
  }
  for (int k = 0; k < n && k < big->rank; k++)
    if (!mv_sizes_agree(small->dim[k], big->dim[k]))
      return mv_bad(v, op,
                    "operand and result shapes must match but for the innermost dimension of the "
                    "smaller element "
                    "type: '%s' and '%s'",
                    mv_text(v, from), mv_text(v, to));
  return true;
}

bool mv_rule_rng_bit_generator(MlVerify *v, const HlMlOp *op) {
  if (mv_shapes_agree(mv_in(op, 0), mv_out(op, 0)))
    return true;
  return mv_bad(v, op, "the output state must have the shape of the initial state: '%s' vs '%s'",
                mv_text(v, mv_out(op, 0)), mv_text(v, mv_in(op, 0)));
}

// --- Batch normalisation ------------------------------------------------------------------------

// The operands of batch_norm_grad with many dimensions are the first and the last.
static bool is_whole(const HlMlOp *op, uint32_t k) {
  return k == 0 || (op->row == ML_STABLEHLO_BATCH_NORM_GRAD && k == 4);
}

static bool operands_agree(MlVerify *v, const HlMlOp *op, bool whole, uint32_t first) {
  for (uint32_t k = first; k < op->n_operands; k++)
    if (is_whole(op, k) == whole && !mv_shapes_agree(mv_in(op, (int)first), mv_in(op, (int)k)))
      return mv_bad(v, op, "requires compatible shapes of the %s operands: '%s' vs '%s'",
                    whole ? "multi-dimensional" : "single-dimensional",
                    mv_text(v, mv_in(op, (int)first)), mv_text(v, mv_in(op, (int)k)));
  return true;
}

bool mv_rule_batch_norm(MlVerify *v, const HlMlOp *op) {
  if (!operands_agree(v, op, true, 0) || !operands_agree(v, op, false, 1))
    return false;
  const HlMlType *whole = mv_in(op, 0);
  const int64_t feature = ml_attr_int(op, ML_A_FEATURE_INDEX, 0);
  if (feature >= whole->rank)
    return mv_bad(v, op, "feature_index %lld is not a dimension of an operand of rank %d",
                  (long long)feature, whole->rank);
  const int64_t features = whole->dim[feature], given = mv_in(op, 1)->dim[0];
  if (!mv_sizes_agree(features, given))
    return mv_bad(v, op,
                  "single-dimensional operands have %lld elements, but there are %lld features",
                  (long long)given, (long long)features);
  if (!mv_result_is_type(v, op, 0, whole))
    return false;
  MlShape single = mv_shape_new(v, 1, hl_ml_element(whole));
  single.dim[0] = features;
  const HlI64s bounds = hl_ml_bounds(whole);
  if (bounds.n > 0)
    single.bound = (int64_t *)hl_arena_copy(v->arena, &bounds.at[feature], sizeof(int64_t));
  for (uint32_t k = 1; k < op->n_results; k++)
    if (!mv_result_is(v, op, (int)k, &single))
      return false;
  return true;
}
