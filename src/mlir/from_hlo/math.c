// Writes HLO as StableHLO or MHLO: elementwise ops, products, convolutions, random numbers.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mlir/from_hlo/from_hlo.h"

// --- Elementwise ------------------------------------------------------------------------------------------

static HlDtype wider(HlDtype a, HlDtype b) {
  return hl_dtype_info[a].bits >= hl_dtype_info[b].bits ? a : b;
}

// The element type in which the op computes; HL_NO_DTYPE where operands may differ in MLIR too.
static HlDtype computed_in(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONVERT:
  case HL_OP_IS_FINITE:
  case HL_OP_REAL:
  case HL_OP_IMAG:
  case HL_OP_ABS:
  case HL_OP_STOCHASTIC_CONVERT: return HL_NO_DTYPE;
  case HL_OP_COMPARE:
    return wider(inst->operands[0]->shape->dtype, inst->operands[1]->shape->dtype);
  case HL_OP_COMPLEX: return inst->shape->dtype == HL_C128 ? HL_F64 : HL_F32;
  default: return inst->shape->dtype;
  }
}

void fh_unify(Fh *f, const HlInst *inst, FhValue *in) {
  HlDtype dtype = computed_in(inst);
  if (!hl_is_float(dtype))
    return;
  const HlMlType *element = hl_ml_dtype_type(f->tree, dtype);
  for (int k = 0; k < in->n; k++)
    if (hl_ml_element(in->at[k]->type) != element && hl_is_float(hl_ml_dtype(in->at[k]->type)))
      in->at[k] = fh_make(f, ML_STABLEHLO_CONVERT, 1, &in->at[k],
                          fh_with_element(f, in->at[k]->type, element));
}

void fh_widen(Fh *f, FhValue *in) {
  HlDtype a = hl_ml_dtype(in->at[0]->type), b = hl_ml_dtype(in->at[1]->type);
  if (a == b || !hl_is_float(a) || !hl_is_float(b))
    return;
  int narrow = wider(a, b) == a;
  const HlMlType *type =
      fh_with_element(f, in->at[narrow]->type, hl_ml_element(in->at[!narrow]->type));
  in->at[narrow] = fh_make(f, ML_STABLEHLO_CONVERT, 1, &in->at[narrow], type);
}

bool fh_rule_abs(Fh *f, const HlInst *inst, FhValue *out) {
  return hl_is_unsigned(inst->shape->dtype) ? fh_rule_first(f, inst, out)
                                            : fh_default(f, inst, out);
}

static HlMlRow row_of_chlo(int op) {
  switch (op) {
  case HL_OP_ERF: return ML_CHLO_ERF;
  case HL_OP_ACOS: return ML_CHLO_ACOS;
  case HL_OP_ACOSH: return ML_CHLO_ACOSH;
  case HL_OP_ASIN: return ML_CHLO_ASIN;
  case HL_OP_ASINH: return ML_CHLO_ASINH;
  case HL_OP_ATANH: return ML_CHLO_ATANH;
  case HL_OP_COSH: return ML_CHLO_COSH;
  case HL_OP_SINH: return ML_CHLO_SINH;
  default: return ML_CHLO_MULHI;
  }
}

// Functions that are CHLO's, and MHLO's.
bool fh_rule_chlo(Fh *f, const HlInst *inst, FhValue *out) {
  if (f->row[inst->op])
    return fh_default(f, inst, out);
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  fh_unify(f, inst, &in);
  out->at[0] = fh_make(f, row_of_chlo(inst->op), in.n, in.at, type);
  return true;
}

static HlMlValue *splat(Fh *f, const HlMlType *type, double value) {
  HlDtype dtype = hl_ml_dtype(type);
  HlShape scalar = {.dtype = dtype};
  HlLiteral *literal = hl_literal_new(f->cx, &scalar);
  if (!literal)
    return NULL;
  hl_literal_set_f64(literal, 0, value);
  HlMlOp *op = fh_op(f, ML_STABLEHLO_CONSTANT, 0, NULL, 1, &type, 0);
  fh_set(f, op, ML_A_VALUE, hl_ml_dense(f->tree, type, literal->data, 1, true));
  hl_literal_unref(literal);
  return &op->results[0];
}

static HlMlValue *unary(Fh *f, HlMlRow row, HlMlValue *x, const HlMlType *type) {
  return fh_make(f, row, 1, &x, type);
}

static HlMlValue *binary(Fh *f, HlMlRow row, HlMlValue *x, HlMlValue *y) {
  HlMlValue *const in[2] = {x, y};
  return fh_make(f, row, 2, in, x->type);
}

static HlMlValue *less(Fh *f, HlMlValue *x, HlMlValue *y) {
  HlMlValue *const in[2] = {x, y};
  const HlMlType *i1 = hl_ml_int_type(f->tree, 1, HL_ML_SIGNLESS);
  HlMlValue *pred = fh_make(f, ML_STABLEHLO_COMPARE, 2, in, fh_with_element(f, x->type, i1));
  fh_set(f, pred->def, ML_A_COMPARISON_DIRECTION, fh_enum(f, ML_D_DIRECTION, HL_WORD_direction_LT));
  return pred;
}

static HlMlValue *choose(Fh *f, HlMlValue *pred, HlMlValue *yes, HlMlValue *no) {
  HlMlValue *const in[3] = {pred, yes, no};
  return fh_make(f, ML_STABLEHLO_SELECT, 3, in, yes->type);
}

// The magnitude is rounded up where the random bits are below its fraction; convert saturates.
bool fh_rule_stochastic_convert(Fh *f, const HlInst *inst, FhValue *out) {
  if (f->mhlo)
    return fh_default(f, inst, out);
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  HlMlValue *x = fh_in(f, inst, 0), *random = fh_in(f, inst, 1);
  int bits = hl_dtype_info[inst->operands[0]->shape->dtype].bits;
  HlMlValue *size = unary(f, ML_STABLEHLO_ABS, x, x->type),
            *whole = unary(f, ML_STABLEHLO_FLOOR, size, x->type);
  HlMlValue *fraction = binary(f, ML_STABLEHLO_SUBTRACT, size, whole);
  HlMlValue *half = splat(f, x->type, ldexp(1.0, bits / 2)), *zero = splat(f, x->type, 0),
            *one = splat(f, x->type, 1);
  if (!half || !zero || !one)
    return false;
  // In two steps: 2^16 is beyond f16.
  HlMlValue *scaled =
      binary(f, ML_STABLEHLO_MULTIPLY, binary(f, ML_STABLEHLO_MULTIPLY, fraction, half), half);
  HlMlValue *up = less(f, random, unary(f, ML_STABLEHLO_CONVERT, scaled, random->type));
  HlMlValue *rounded = choose(f, up, binary(f, ML_STABLEHLO_ADD, whole, one), whole);
  HlMlValue *value =
      choose(f, less(f, x, zero), unary(f, ML_STABLEHLO_NEGATE, rounded, x->type), rounded);
  out->at[0] = unary(f, ML_STABLEHLO_CONVERT, value, type);
  return true;
}

// --- Products ---------------------------------------------------------------------------------------------

bool fh_rule_dot(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  FhValue in = fh_operands(f, inst, 0, 2);
  fh_widen(f, &in);
  out->at[0] = fh_make(f, ML_STABLEHLO_DOT_GENERAL, 2, in.at, type);
  return fh_fill(f, out->at[0]->def, inst);
}

bool fh_rule_ragged_dot(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  FhValue in = fh_operands(f, inst, 0, 3);
  out->at[0] = fh_make(f, f->mhlo ? ML_MHLO_RAGGED_DOT : ML_CHLO_RAGGED_DOT, 3, in.at, type);
  return fh_fill(f, out->at[0]->def, inst);
}

// An operand in `element`, multiplied by its scale, each of whose elements is for a block.
static HlMlValue *scaled(Fh *f, HlMlValue *x, HlMlValue *scale, const HlMlType *element) {
  const HlMlType *type = fh_with_element(f, x->type, element);
  x = x->type == type ? x : unary(f, ML_STABLEHLO_CONVERT, x, type);
  if (scale->type->rank == 0)
    return x;
  int rank = type->rank;
  if (scale->type->rank != rank)
    return NULL;
  int64_t *dim = HL_ARRAY(f->arena, int64_t, 2 * rank), *into = HL_ARRAY(f->arena, int64_t, rank);
  for (int k = 0; k < rank; k++) {
    int64_t blocks = scale->type->dim[k];
    if (blocks <= 0 || type->dim[k] % blocks)
      return NULL;
    dim[2 * k] = blocks;
    dim[2 * k + 1] = type->dim[k] / blocks;
    into[k] = 2 * k;
  }
  scale = unary(f, ML_STABLEHLO_CONVERT, scale, fh_with_element(f, scale->type, element));
  HlMlValue *spread =
      unary(f, ML_STABLEHLO_BROADCAST_IN_DIM, scale, fh_tensor(f, 2 * rank, dim, element));
  fh_set(f, spread->def, ML_A_BROADCAST_DIMENSIONS, fh_ints(f, (HlI64s){into, rank}));
  return binary(f, ML_STABLEHLO_MULTIPLY, x, unary(f, ML_STABLEHLO_RESHAPE, spread, type));
}

bool fh_rule_scaled_dot(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  const HlMlType *element = hl_ml_element(type);
  HlMlValue *const in[2] = {scaled(f, fh_in(f, inst, 0), fh_in(f, inst, 2), element),
                            scaled(f, fh_in(f, inst, 1), fh_in(f, inst, 3), element)};
  if (!in[0] || !in[1])
    return hl_inst_error(f->cx, inst, "a scale does not divide its operand into blocks");
  out->at[0] = fh_make(f, ML_STABLEHLO_DOT_GENERAL, 2, in, type);
  return fh_fill(f, out->at[0]->def, inst);
}

bool fh_rule_convolution(Fh *f, const HlInst *inst, FhValue *out) {
  if (hl_has_attr(inst, HL_A_SPARSITY_CONFIG))
    return fh_error(f, inst, "a sparse convolution");
  return fh_default(f, inst, out);
}

// --- Random numbers -----------------------------------------------------------------------------------------

bool fh_rule_rng(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  if (inst->n_operands != 2)
    return hl_inst_error(f->cx, inst, "%u operands, expected 2", inst->n_operands);
  int64_t rank = inst->shape->rank;
  const HlMlType *vector = fh_tensor(f, 1, &rank, hl_ml_int_type(f->tree, 64, HL_ML_SIGNLESS));
  HlMlValue *shape = fh_make(f, ML_STABLEHLO_CONSTANT, 0, NULL, vector);
  fh_set(f, shape->def, ML_A_VALUE, hl_ml_dense_ints(f->tree, 1, &rank, inst->shape->dim));
  HlMlValue *const in[3] = {fh_in(f, inst, 0), fh_in(f, inst, 1), shape};
  out->at[0] = fh_make(f, ML_STABLEHLO_RNG, 3, in, type);
  return fh_fill(f, out->at[0]->def, inst);
}

// Without the state as a result, the op gives it all the same.
bool fh_rule_rng_bit_generator(Fh *f, const HlInst *inst, FhValue *out) {
  if (out->n == 2)
    return fh_default(f, inst, out);
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  HlMlValue *state = fh_in(f, inst, 0);
  const HlMlType *const types[2] = {state->type, type};
  HlMlOp *op = fh_op(f, ML_STABLEHLO_RNG_BIT_GENERATOR, 1, &state, 2, types, 0);
  out->at[0] = &op->results[1];
  return fh_fill(f, op, inst);
}
