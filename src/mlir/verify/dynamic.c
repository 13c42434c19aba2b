// Verifies MLIR trees: ops whose shapes are operands.
#include "mlir/verify/verify.h"

// A constant list of sizes that the result has to agree with.
static bool result_has(MlVerify *v, const HlMlOp *op, const HlMlValue *sizes_of) {
  HlI64s sizes;
  if (!mv_constant_ints(v, sizes_of, &sizes))
    return true;
  const HlMlType *out = mv_out(op, 0);
  MlShape shape = {.rank = sizes.n, .dim = (int64_t *)sizes.at, .element = hl_ml_element(out)};
  for (int k = 0; k < sizes.n; k++)
    if (sizes.at[k] < 0)
      return mv_bad(v, op, "output shape [%s] has a negative size", mv_ints_text(v, sizes));
  return mv_result_is(v, op, 0, &shape);
}

static bool elements_fit(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  if (mv_is_quantised(in) || mv_is_quantised(out) || mv_elements_agree(in, out))
    return true;
  return mv_bad(v, op, "requires compatible element types of operand and result: '%s' vs '%s'",
                mv_text(v, in), mv_text(v, out));
}

bool mv_rule_dynamic_iota(MlVerify *v, const HlMlOp *op) {
  const int64_t dimension = ml_attr_int(op, ML_A_IOTA_DIMENSION, 0);
  if (dimension >= mv_out(op, 0)->rank)
    return mv_bad(v, op, "iota_dimension %lld is not below the rank %d of the result",
                  (LL)dimension, mv_out(op, 0)->rank);
  return result_has(v, op, op->operands[0]);
}

static int64_t product(HlI64s sizes) {
  int64_t n = 1;
  for (int k = 0; k < sizes.n; k++)
    if (__builtin_mul_overflow(n, sizes.at[k], &n))
      return INT64_MAX;
  return n;
}

bool mv_rule_dynamic_reshape(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *sizes_type = mv_in(op, 1), *out = mv_out(op, 0);
  HlI64s sizes;
  if (!elements_fit(v, op))
    return false;
  if (hl_ml_is_static(in) && hl_ml_is_static(out) && hl_ml_elements(in) != hl_ml_elements(out))
    return mv_bad(v, op, "the result has %lld elements, but the operand has %lld",
                  (LL)hl_ml_elements(out), (LL)hl_ml_elements(in));
  if (!result_has(v, op, op->operands[1]))
    return false;
  if (!mv_sizes_agree(sizes_type->dim[0], out->rank))
    return mv_bad(v, op, "output_shape has %lld entries, but the result has rank %d",
                  (LL)sizes_type->dim[0], out->rank);
  if (hl_ml_is_static(in) && mv_constant_ints(v, op->operands[1], &sizes) &&
      product(sizes) != hl_ml_elements(in))
    return mv_bad(v, op, "output_shape [%s] has %lld elements, but the operand has %lld",
                  mv_ints_text(v, sizes), (LL)product(sizes), (LL)hl_ml_elements(in));
  return mv_check_quant_reshape(v, op);
}

// --- dynamic_broadcast_in_dim -------------------------------------------------------------------

static bool check_hints(MlVerify *v, const HlMlOp *op) {
  const HlI64s grow = mv_attr_ints(v, op, ML_A_KNOWN_EXPANDING_DIMENSIONS);
  const HlI64s stay = mv_attr_ints(v, op, ML_A_KNOWN_NONEXPANDING_DIMENSIONS);
  int64_t *all = HL_ARRAY(v->arena, int64_t, grow.n + stay.n + 1);
  for (int k = 0; k < grow.n + stay.n; k++) {
    all[k] = k < grow.n ? grow.at[k] : stay.at[k - grow.n];
  }
  const HlI64s both = {all, grow.n + stay.n};
  if (!mv_is_unique(v, both))
    return mv_bad(v, op, "more than one expansion hint for an operand dimension: [%s]",
                  mv_ints_text(v, both));
  for (int k = 0; k < both.n; k++)
    if (both.at[k] < 0 || both.at[k] >= mv_in(op, 0)->rank)
      return mv_bad(v, op, "the expansion hint %lld is not a dimension of the operand",
                    (LL)both.at[k]);
  return true;
}

static bool check_against_sizes(MlVerify *v, const HlMlOp *op, HlI64s dims) {
  const HlMlType *in = mv_in(op, 0);
  HlI64s sizes;
  if (!hl_ml_is_static(in) || !mv_constant_ints(v, op->operands[1], &sizes))
    return true;
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] < sizes.n && in->dim[k] != 1 && in->dim[k] != sizes.at[dims.at[k]])
      return mv_bad(v, op,
                    "size %lld of operand dimension %d is neither 1 nor the output size %lld",
                    (LL)in->dim[k], k, (LL)sizes.at[dims.at[k]]);
  return true;
}

bool mv_rule_dynamic_broadcast_in_dim(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  const HlI64s dims = mv_attr_ints(v, op, ML_A_BROADCAST_DIMENSIONS);
  if (!elements_fit(v, op))
    return false;
  if (dims.n != in->rank)
    return mv_bad(v, op, "broadcast_dimensions has %d entries, but the operand has rank %d", dims.n,
                  in->rank);
  if (out->rank < in->rank)
    return mv_bad(v, op, "the rank %d of the result is less than the rank %d of the operand",
                  out->rank, in->rank);
  if (!mv_is_unique(v, dims))
    return mv_bad(v, op, "broadcast_dimensions should not have duplicates: [%s]",
                  mv_ints_text(v, dims));
  for (int k = 0; k < dims.n; k++) {
    const int64_t to = dims.at[k];
    if (to < 0 || to >= out->rank)
      return mv_bad(v, op,
                    "broadcast_dimensions contains the invalid value %lld for a result of rank %d",
                    (LL)to, out->rank);
    if (in->dim[k] != 1 && !mv_sizes_agree(in->dim[k], out->dim[to]))
      return mv_bad(v, op,
                    "size %lld of operand dimension %d is not compatible with size %lld of result "
                    "dimension %lld",
                    (LL)in->dim[k], k, (LL)out->dim[to], (LL)to);
  }
  return result_has(v, op, op->operands[1]) && check_hints(v, op) &&
         check_against_sizes(v, op, dims) && mv_check_quant_broadcast(v, op, dims);
}

// --- Slices and padding -------------------------------------------------------------------------

static bool same_types(MlVerify *v, const HlMlOp *op, int first) {
  for (uint32_t k = (uint32_t)first + 1; k < op->n_operands; k++)
    if (mv_in(op, (int)k) != mv_in(op, first))
      return mv_bad(v, op, "requires the same type of operands %d and %u: '%s' vs '%s'", first, k,
                    mv_text(v, mv_in(op, first)), mv_text(v, mv_in(op, (int)k)));
  return true;
}

bool mv_rule_real_dynamic_slice(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *starts = mv_in(op, 1);
  if (hl_ml_element(in) != hl_ml_element(mv_out(op, 0)))
    return mv_bad(v, op, "requires the same element type for operand and result");
  if (!same_types(v, op, 1))
    return false;
  if (!mv_sizes_agree(starts->dim[0], in->rank))
    return mv_bad(v, op, "start_indices has %s elements, but the operand has rank %d",
                  mv_ints_text(v, (HlI64s){starts->dim, 1}), in->rank);
  return true;
}

static bool check_padded_size(MlVerify *v, const HlMlOp *op, int k, int64_t low, int64_t high,
                              int64_t interior) {
  const int64_t in = mv_in(op, 0)->dim[k], out = mv_out(op, 0)->dim[k];
  int64_t want = in, gaps;
  if (__builtin_mul_overflow(in > 0 ? in - 1 : 0, interior, &gaps) ||
      __builtin_add_overflow(want, gaps, &want) || __builtin_add_overflow(want, low, &want) ||
      __builtin_add_overflow(want, high, &want))
    return mv_bad(v, op, "the padding of dimension %d overflows", k);
  if (out != want)
    return mv_bad(v, op, "dimension %d of the result should have size %lld, but has %lld", k,
                  (LL)want, (LL)out);
  return true;
}

bool mv_rule_dynamic_pad(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  if (hl_ml_element(in) != hl_ml_element(out) || hl_ml_element(in) != hl_ml_element(mv_in(op, 1)))
    return mv_bad(v, op, "requires the same element type for operand, padding_value and result");
  if (!same_types(v, op, 2))
    return false;
  if (in->rank != out->rank)
    return mv_bad(v, op, "requires the same rank of operand and result: %d vs %d", in->rank,
                  out->rank);
  if (!mv_sizes_agree(mv_in(op, 2)->dim[0], in->rank))
    return mv_bad(v, op, "the padding operands have %lld elements, but the operand has rank %d",
                  (LL)mv_in(op, 2)->dim[0], in->rank);
  HlI64s low, high, interior;
  if (!mv_constant_ints(v, op->operands[4], &interior) || interior.n != in->rank)
    return true;
  for (int k = 0; k < interior.n; k++)
    if (interior.at[k] < 0)
      return mv_bad(v, op, "interior_padding must not be negative, but is [%s]",
                    mv_ints_text(v, interior));
  if (!hl_ml_is_static(in) || !hl_ml_is_static(out) ||
      !mv_constant_ints(v, op->operands[2], &low) || !mv_constant_ints(v, op->operands[3], &high) ||
      low.n != in->rank || high.n != in->rank)
    return true;
  for (int k = 0; k < in->rank; k++)
    if (!check_padded_size(v, op, k, low.at[k], high.at[k], interior.at[k]))
      return false;
  return true;
}

// --- Random numbers -----------------------------------------------------------------------------

bool mv_rule_rng(MlVerify *v, const HlMlOp *op) {
  const HlMlType *e = hl_ml_element(mv_in(op, 0)), *out = mv_out(op, 0);
  if (e != hl_ml_element(mv_in(op, 1)) || e != hl_ml_element(out))
    return mv_bad(v, op, "requires the same element type for a, b and result");
  const HlSym *distribution = ml_attr_sym(op, ML_A_RNG_DISTRIBUTION);
  if (distribution && hl_str_is((HlStr){distribution->text, distribution->n}, "NORMAL") &&
      e->kind != HL_ML_FLOAT)
    return mv_bad(v, op, "a and b must be floats with the distribution NORMAL");
  HlI64s sizes;
  if (mv_constant_ints(v, op->operands[2], &sizes))
    return result_has(v, op, op->operands[2]);
  if (!mv_sizes_agree(mv_in(op, 2)->dim[0], out->rank))
    return mv_bad(v, op, "shape has %lld elements, but the result has rank %d",
                  (LL)mv_in(op, 2)->dim[0], out->rank);
  return true;
}
