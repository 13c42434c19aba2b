// Verifies MLIR trees: dot products, Fourier transforms, Cholesky factors, triangular systems.
#include "mlir/verify/verify.h"

#include <string.h>

bool mv_check_precision(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *precision = ml_attr(op, ML_A_PRECISION_CONFIG);
  if (precision && precision->kind == HL_ML_A_ARRAY && precision->n > 2)
    return mv_bad(v, op, "precision_config should have at most 2 elements, but has %d",
                  precision->n);
  return true;
}

// --- dot ----------------------------------------------------------------------------------------

static int64_t bound_at(const HlMlType *type, int64_t k) {
  const HlI64s bounds = hl_ml_bounds(type);
  return k < bounds.n ? bounds.at[k] : HL_UNBOUNDED;
}

static void add_dim(MlShape *shape, const HlMlType *type, int64_t k) {
  shape->dim[shape->rank] = type->dim[k];
  shape->bound[shape->rank++] = bound_at(type, k);
}

static MlShape empty_shape(MlVerify *v, int most) {
  return (MlShape){.dim = HL_ARRAY(v->arena, int64_t, most + 1),
                   .bound = HL_ARRAY(v->arena, int64_t, most + 1)};
}

bool mv_rule_dot(MlVerify *v, const HlMlOp *op) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  if (!mv_check_precision(v, op))
    return false;
  if (lhs->rank < 1 || lhs->rank > 2 || rhs->rank < 1 || rhs->rank > 2)
    return mv_bad(v, op, "lhs and rhs should have rank 1 or 2: '%s' and '%s'", mv_text(v, lhs),
                  mv_text(v, rhs));
  if (!mv_sizes_agree(lhs->dim[lhs->rank - 1], rhs->dim[0]))
    return mv_bad(v, op, "contracting dimension sizes must match: '%s' and '%s'", mv_text(v, lhs),
                  mv_text(v, rhs));
  MlShape shape = empty_shape(v, 2);
  if (lhs->rank == 2)
    add_dim(&shape, lhs, 0);
  if (rhs->rank == 2)
    add_dim(&shape, rhs, 1);
  return mv_result_is(v, op, 0, &shape);
}

static bool sizes_match(MlVerify *v, const HlMlOp *op, HlI64s lhs, HlI64s rhs, const char *what) {
  for (int k = 0; k < lhs.n; k++)
    if (!mv_sizes_agree(mv_in(op, 0)->dim[lhs.at[k]], mv_in(op, 1)->dim[rhs.at[k]]))
      return mv_bad(v, op, "%s dimension sizes must match for lhs and rhs: '%s' and '%s'", what,
                    mv_text(v, mv_in(op, 0)), mv_text(v, mv_in(op, 1)));
  return true;
}

bool mv_check_dot(MlVerify *v, const HlMlOp *op, const MlDot *d) {
  const int lhs_rank = mv_in(op, 0)->rank, rhs_rank = mv_in(op, 1)->rank;
  if (!mv_check_precision(v, op))
    return false;
  if (d->lhs_batch.n != d->rhs_batch.n)
    return mv_bad(v, op, "lhs and rhs should have as many batching dimensions, but have %d and %d",
                  d->lhs_batch.n, d->rhs_batch.n);
  if (d->lhs_contracting.n != d->rhs_contracting.n)
    return mv_bad(v, op,
                  "lhs and rhs should have as many contracting dimensions, but have %d and %d",
                  d->lhs_contracting.n, d->rhs_contracting.n);
  return mv_distinct(v, op, d->lhs_batch, d->lhs_contracting, ML_A_LHS_BATCHING_DIMENSIONS,
                     ML_A_LHS_CONTRACTING_DIMENSIONS) &&
         mv_distinct(v, op, d->rhs_batch, d->rhs_contracting, ML_A_RHS_BATCHING_DIMENSIONS,
                     ML_A_RHS_CONTRACTING_DIMENSIONS) &&
         mv_in_range(v, op, d->lhs_batch, lhs_rank, ML_A_LHS_BATCHING_DIMENSIONS,
                     "the rank of lhs") &&
         mv_in_range(v, op, d->lhs_contracting, lhs_rank, ML_A_LHS_CONTRACTING_DIMENSIONS,
                     "the rank of lhs") &&
         mv_in_range(v, op, d->rhs_batch, rhs_rank, ML_A_RHS_BATCHING_DIMENSIONS,
                     "the rank of rhs") &&
         mv_in_range(v, op, d->rhs_contracting, rhs_rank, ML_A_RHS_CONTRACTING_DIMENSIONS,
                     "the rank of rhs") &&
         sizes_match(v, op, d->lhs_batch, d->rhs_batch, "batching") &&
         sizes_match(v, op, d->lhs_contracting, d->rhs_contracting, "contracting");
}

static bool check_dot_result(MlVerify *v, const HlMlOp *op, const MlDot *d) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  MlShape shape = empty_shape(v, lhs->rank + rhs->rank);
  for (int k = 0; k < d->lhs_batch.n; k++) {
    add_dim(&shape, lhs, d->lhs_batch.at[k]);
    const int64_t other = d->rhs_batch.at[k];
    if (!mv_merge_size(v, op, k, &shape.dim[k], &shape.bound[k], rhs->dim[other],
                       bound_at(rhs, other)))
      return false;
  }
  const bool *lhs_used = mv_members(v, lhs->rank, d->lhs_batch, d->lhs_contracting);
  const bool *rhs_used = mv_members(v, rhs->rank, d->rhs_batch, d->rhs_contracting);
  for (int k = 0; k < lhs->rank; k++)
    if (!lhs_used[k])
      add_dim(&shape, lhs, k);
  for (int k = 0; k < rhs->rank; k++)
    if (!rhs_used[k])
      add_dim(&shape, rhs, k);
  return mv_result_is(v, op, 0, &shape);
}

// The algorithms that some hardware has.
typedef struct Algorithm {
  const char *lhs, *rhs, *accumulation;
  int operations;
} Algorithm;
static const Algorithm algorithms[] = {
    {"f16", "f16", "f16", 1},   {"f16", "f16", "f32", 1},   {"bf16", "bf16", "bf16", 1},
    {"bf16", "bf16", "f32", 1}, {"bf16", "bf16", "f32", 3}, {"bf16", "bf16", "f32", 6},
    {"bf16", "bf16", "f32", 9}, {"tf32", "tf32", "f32", 1}, {"tf32", "tf32", "f32", 3},
    {"f32", "f32", "f32", 1},   {"f64", "f64", "f64", 1}};

static bool is_float(const HlMlType *type, const char *text) {
  return type->kind == HL_ML_FLOAT && type->text && strcmp(type->text->text, text) == 0;
}

static bool is_f8(const HlMlType *type) {
  return type->kind == HL_ML_FLOAT && type->width == 8 && type->dtype != HL_F8E8M0FNU;
}

static bool is_known(const HlMlType *lhs, const HlMlType *rhs, const HlMlType *sum,
                     int64_t operations, bool imprecise) {
  if (is_f8(lhs) && is_f8(rhs) && is_float(sum, "f32") && operations == 1)
    return true;
  if (imprecise)
    return false;
  for (int k = 0; k < HL_COUNT_OF(algorithms); k++) {
    const Algorithm *a = &algorithms[k];
    if (is_float(lhs, a->lhs) && is_float(rhs, a->rhs) && is_float(sum, a->accumulation) &&
        operations == a->operations)
      return true;
  }
  return false;
}

static const HlMlType *field_type(const HlMlAttr *of, MlName name) {
  const HlMlAttr *field = ml_field(of, name);
  return field && field->kind == HL_ML_A_TYPE ? field->type : NULL;
}

static bool check_algorithm(MlVerify *v, const HlMlOp *op, const HlMlAttr *algorithm) {
  const HlMlType *lhs = field_type(algorithm, ML_A_LHS_PRECISION_TYPE),
                 *rhs = field_type(algorithm, ML_A_RHS_PRECISION_TYPE);
  const HlMlType *sum = field_type(algorithm, ML_A_ACCUMULATION_TYPE);
  const int64_t lhs_parts = ml_field_int(algorithm, ML_A_LHS_COMPONENT_COUNT, 0);
  const int64_t rhs_parts = ml_field_int(algorithm, ML_A_RHS_COMPONENT_COUNT, 0);
  const int64_t operations = ml_field_int(algorithm, ML_A_NUM_PRIMITIVE_OPERATIONS, 0);
  const bool imprecise = ml_field_int(algorithm, ML_A_ALLOW_IMPRECISE_ACCUMULATION, 0) != 0;
  if (lhs_parts < 1 || rhs_parts < 1 || operations < 1)
    return mv_bad(
        v, op,
        "the component counts and operations of a dot algorithm must be positive: %lld, %lld, %lld",
        (LL)lhs_parts, (LL)rhs_parts, (LL)operations);
  if (lhs == NULL || rhs == NULL || sum == NULL)
    return mv_bad(v, op, "a dot algorithm needs the types of lhs, rhs and accumulation");
  if (lhs_parts != 1 || rhs_parts != 1 || !is_known(lhs, rhs, sum, operations, imprecise))
    return mv_bad(v, op,
                  "no hardware is known to have the dot algorithm {%s x %s -> %s, %lld x %lld "
                  "components, %lld "
                  "operations%s}",
                  mv_text(v, lhs), mv_text(v, rhs), mv_text(v, sum), (LL)lhs_parts, (LL)rhs_parts,
                  (LL)operations, imprecise ? ", imprecise" : "");
  return true;
}

static bool is_default_precision(const HlMlAttr *precision) {
  if (precision == NULL || precision->kind != HL_ML_A_ARRAY)
    return true;
  for (int k = 0; k < precision->n; k++)
    if (precision->list[k]->sym && strcmp(precision->list[k]->sym->text, "DEFAULT") != 0)
      return false;
  return true;
}

bool mv_rule_dot_general(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_DOT_DIMENSION_NUMBERS),
                 *algorithm = ml_attr(op, ML_A_ALGORITHM);
  const MlDot d = {.lhs_batch = mv_field_ints(v, numbers, ML_A_LHS_BATCHING_DIMENSIONS),
                   .rhs_batch = mv_field_ints(v, numbers, ML_A_RHS_BATCHING_DIMENSIONS),
                   .lhs_contracting = mv_field_ints(v, numbers, ML_A_LHS_CONTRACTING_DIMENSIONS),
                   .rhs_contracting = mv_field_ints(v, numbers, ML_A_RHS_CONTRACTING_DIMENSIONS)};
  if (!mv_check_dot(v, op, &d) || !check_dot_result(v, op, &d))
    return false;
  if (algorithm && !is_default_precision(ml_attr(op, ML_A_PRECISION_CONFIG)))
    return mv_bad(v, op, "precision_config must be DEFAULT when an algorithm is given");
  if (algorithm && !check_algorithm(v, op, algorithm))
    return false;
  return mv_check_quant_dot(v, op, d.rhs_contracting);
}

// --- fft ----------------------------------------------------------------------------------------

static bool last_sizes_fit(MlVerify *v, const HlMlOp *op, HlI64s length, int n) {
  const HlMlType *in = mv_in(op, 0);
  for (int k = 0; k < n; k++) {
    const int64_t size = in->dim[in->rank - length.n + k];
    if (!mv_sizes_agree(size, length.at[k]))
      return mv_bad(v, op, "fft_length [%s] does not agree with the operand '%s'",
                    mv_ints_text(v, length), mv_text(v, in));
  }
  return true;
}

static bool check_irfft_last(MlVerify *v, const HlMlOp *op, HlI64s length) {
  const HlMlType *in = mv_in(op, 0);
  const int64_t size = in->dim[in->rank - 1], last = length.at[length.n - 1];
  const bool is_empty = mv_sizes_agree(size, 0) && last == 0;
  if (is_empty || mv_sizes_agree(size, last / 2 + 1))
    return true;
  return mv_bad(
      v, op, "IRFFT needs an innermost dimension of fft_length[-1] / 2 + 1 = %lld, but it is %lld",
      (LL)(last / 2 + 1), (LL)size);
}

bool mv_rule_fft(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *element = hl_ml_element(in);
  const HlI64s length = mv_attr_ints(v, op, ML_A_FFT_LENGTH);
  const HlSym *type = ml_attr_sym(op, ML_A_FFT_TYPE);
  const char *word = type ? type->text : "FFT";
  const bool is_rfft = strcmp(word, "RFFT") == 0, is_irfft = strcmp(word, "IRFFT") == 0;
  if (length.n < 1 || length.n > 3)
    return mv_bad(v, op, "fft_length should have 1 to 3 entries, but has %d", length.n);
  if (is_rfft && element->dtype != HL_F32 && element->dtype != HL_F64)
    return mv_bad(v, op, "RFFT takes f32 or f64, but is given '%s'", mv_text(v, in));
  if (!is_rfft && element->kind != HL_ML_COMPLEX)
    return mv_bad(v, op, "%s takes complex numbers, but is given '%s'", word, mv_text(v, in));
  if (in->rank < length.n)
    return mv_bad(v, op, "the operand '%s' has a rank below that of the transform, %d",
                  mv_text(v, in), length.n);
  MlShape shape = mv_shape_of(v, in);
  const int64_t last = length.at[length.n - 1];
  if (is_rfft) {
    if (!last_sizes_fit(v, op, length, length.n))
      return false;
    if (last != 0)
      shape.dim[in->rank - 1] = last / 2 + 1;
    shape.element = NULL;
    shape.dtype = element->dtype == HL_F32 ? HL_C64 : HL_C128;
  }
  if (is_irfft) {
    if (!last_sizes_fit(v, op, length, length.n - 1) || !check_irfft_last(v, op, length))
      return false;
    shape.dim[in->rank - 1] = last;
    shape.element = element->element[0];
  }
  if (shape.bound && (is_rfft || is_irfft))
    shape.bound[in->rank - 1] = HL_UNBOUNDED;
  return mv_result_is(v, op, 0, &shape);
}

// --- Factors and systems ------------------------------------------------------------------------

static bool is_square(const HlMlType *a) {
  return a->rank >= 2 && mv_sizes_agree(a->dim[a->rank - 2], a->dim[a->rank - 1]);
}

bool mv_rule_cholesky(MlVerify *v, const HlMlOp *op) {
  if (!is_square(mv_in(op, 0)))
    return mv_bad(v, op, "'a' must have rank >= 2 and minor dimensions of equal size, but is '%s'",
                  mv_text(v, mv_in(op, 0)));
  return mv_result_is_type(v, op, 0, mv_in(op, 0));
}

bool mv_rule_triangular_solve(MlVerify *v, const HlMlOp *op) {
  const HlMlType *a = mv_in(op, 0), *b = mv_in(op, 1);
  if (!is_square(a))
    return mv_bad(v, op, "'a' must have rank >= 2 and minor dimensions of equal size, but is '%s'",
                  mv_text(v, a));
  if (a->rank != b->rank)
    return mv_bad(v, op, "operands must have equal rank: '%s' and '%s'", mv_text(v, a),
                  mv_text(v, b));
  const int shared = b->rank - (ml_attr_int(op, ML_A_LEFT_SIDE, 0) != 0 ? 2 : 1);
  if (!mv_sizes_agree(a->dim[a->rank - 1], b->dim[shared]))
    return mv_bad(v, op, "the shared dimension of 'a' and 'b' must agree: '%s' and '%s'",
                  mv_text(v, a), mv_text(v, b));
  for (int k = 0; k < a->rank - 2; k++)
    if (!mv_sizes_agree(a->dim[k], b->dim[k]))
      return mv_bad(v, op, "batch dimensions of 'a' and 'b' must agree: '%s' and '%s'",
                    mv_text(v, a), mv_text(v, b));
  const HlSym *transpose = ml_attr_sym(op, ML_A_TRANSPOSE_A);
  if (transpose && strcmp(transpose->text, "TRANSPOSE_INVALID") == 0)
    return mv_bad(v, op, "transpose_a is TRANSPOSE_INVALID");
  return mv_result_is_type(v, op, 0, b);
}
