// opt/algsimp/divide.c: algebraic rules of divide and remainder (A24 to A36, A39 to A41).
//
// Divisions become multiplications, shifts and masks; quotients of quotients share one division.
#include "opt/algsimp/algsimp.h"

// --- By constants -------------------------------------------------------------------------------

// A / 1 => A
HlInst *alg_divide_one(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_is_all(inst->operands[1], 1) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

// The k of a constant that is 2^k everywhere; the type's least number is no power of two.
static bool power_of_two(const HlInst *inst, int *k) {
  int64_t value;
  if (!alg_all_int(inst, &value) || value == 0 ||
      (value < 0 && !(hl_is_unsigned(inst->shape->dtype) && value == INT64_MIN)))
    return false;
  uint64_t bits = (uint64_t)value;
  if (bits & (bits - 1))
    return false;
  *k = __builtin_ctzll(bits);
  return true;
}

// A / 2^k => A >> k
HlInst *alg_divide_unsigned_power(HlPass *p, HlBuild *b, HlInst *inst) {
  int k;
  if (!hl_is_unsigned(inst->shape->dtype) || !power_of_two(inst->operands[1], &k))
    return NULL;
  HlInst *by = alg_full_int(b, inst->shape, k);
  return hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, inst->operands[0], by);
}

// f(abs(A)) with the sign of A, where f keeps what is not negative.
static HlInst *with_sign(HlBuild *b, HlInst *x, HlOp op, int64_t right) {
  HlInst *zero = alg_full_int(b, x->shape, 0);
  if (!zero)
    return NULL;
  HlInst *is_negative = hl_b_compare(b, HL_WORD_direction_LT, x, zero);
  HlInst *size = hl_b_select(b, is_negative, hl_b_unary(b, HL_OP_NEGATE, x), x);
  HlInst *result = hl_b_binary(b, op, size, alg_full_int(b, x->shape, right));
  return hl_b_select(b, is_negative, hl_b_unary(b, HL_OP_NEGATE, result), result);
}

// A / 2^k => sign(A) * (abs(A) >> k)
HlInst *alg_divide_signed_power(HlPass *p, HlBuild *b, HlInst *inst) {
  int k;
  if (!hl_is_signed(inst->shape->dtype) || !power_of_two(inst->operands[1], &k))
    return NULL;
  return with_sign(b, inst->operands[0], HL_OP_SHIFT_RIGHT_LOGICAL, k);
}

static void set_inverse(HlLiteral *out, const HlLiteral *of, int64_t k) {
  double re = hl_literal_f64(of, k);
  if (!hl_is_complex(out->shape->dtype)) {
    hl_literal_set_f64(out, k, 1 / re);
    return;
  }
  double im = hl_literal_imag(of, k), square = re * re + im * im;
  hl_literal_set_complex(out, k, re / square, -im / square);
}

static HlInst *inverse_of_constant(HlBuild *b, const HlInst *constant) {
  const HlLiteral *value = hl_constant(constant);
  HlLiteral *inverse = hl_literal_new(b->cx, value->shape);
  if (!inverse)
    return NULL;
  for (int64_t k = 0; k < value->n; k++)
    set_inverse(inverse, value, k);
  HlInst *inst = hl_constant_new(b->comp, inverse, NULL);
  hl_literal_unref(inverse);
  return inst;
}

// A / c => A * (1 / c)
HlInst *alg_divide_constant(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *c = inst->operands[1];
  if (hl_is_integral(inst->shape->dtype) || x->op == HL_OP_CONSTANT)
    return NULL;
  if (hl_is_constant(c))
    return hl_b_binary(b, HL_OP_MULTIPLY, x, inverse_of_constant(b, c));
  if (c->op != HL_OP_BROADCAST || !hl_is_constant(c->operands[0]))
    return NULL;
  HlInst *inverse = inverse_of_constant(b, c->operands[0]);
  if (!inverse)
    return NULL;
  return hl_b_binary(b, HL_OP_MULTIPLY, x, hl_inst_copy(b->comp, c, NULL, 1, &inverse));
}

// --- By functions -------------------------------------------------------------------------------

// exp(A) / exp(B) => exp(A - B)
HlInst *alg_divide_exps(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_EXPONENTIAL || y->op != HL_OP_EXPONENTIAL)
    return NULL;
  return alg_same_op(b, x, hl_b_binary(b, HL_OP_SUBTRACT, x->operands[0], y->operands[0]));
}

// A / exp(B) => A * exp(-B)
HlInst *alg_divide_exp(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *y = inst->operands[1];
  if (y->op != HL_OP_EXPONENTIAL)
    return NULL;
  HlInst *exp = alg_same_op(b, y, hl_b_unary(b, HL_OP_NEGATE, y->operands[0]));
  return hl_b_binary(b, HL_OP_MULTIPLY, inst->operands[0], exp);
}

// A / pow(B, C) => A * pow(B, -C)
HlInst *alg_divide_power(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *y = inst->operands[1];
  if (y->op != HL_OP_POWER || hl_is_integral(inst->shape->dtype))
    return NULL;
  HlInst *minus = hl_b_unary(b, HL_OP_NEGATE, y->operands[1]);
  HlInst *power = hl_b_binary(b, HL_OP_POWER, y->operands[0], minus);
  return hl_b_binary(b, HL_OP_MULTIPLY, inst->operands[0], power);
}

static HlInst *times_other_root(HlBuild *b, HlInst *inst, HlOp op, HlOp other) {
  HlInst *y = inst->operands[1];
  if (y->op != op || !hl_one_user(y))
    return NULL;
  return hl_b_binary(b, HL_OP_MULTIPLY, inst->operands[0], hl_b_unary(b, other, y->operands[0]));
}

// A / sqrt(B) => A * rsqrt(B)
HlInst *alg_divide_sqrt(HlPass *p, HlBuild *b, HlInst *inst) {
  return times_other_root(b, inst, HL_OP_SQRT, HL_OP_RSQRT);
}

// A / rsqrt(B) => A * sqrt(B)
HlInst *alg_divide_rsqrt(HlPass *p, HlBuild *b, HlInst *inst) {
  return times_other_root(b, inst, HL_OP_RSQRT, HL_OP_SQRT);
}

// --- Quotients of quotients ---------------------------------------------------------------------

static HlInst *product(HlBuild *b, HlInst *x, HlInst *y) {
  return hl_b_binary(b, HL_OP_MULTIPLY, x, y);
}

// Whether it has one user once reshapes that come back to the same shape, which go sooner or later, are gone.
static bool will_have_one_user(const HlInst *y) {
  bool alone = hl_one_user(y), verdict = alone;
  for (const HlInst *at = y; at->op == HL_OP_RESHAPE;) {
    at = at->operands[0];
    alone &= hl_one_user(at);
    if (at->shape == y->shape)
      verdict = alone;
  }
  return verdict;
}

// A / broadcast(y) => A * broadcast(1 / y): fewer divisions. A GPU has time for them, and where y has other users, only a
// pred is worth it: its product becomes a select (A16).
HlInst *alg_divide_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *spread = inst->operands[1];
  if (spread->op != HL_OP_BROADCAST || !hl_is_float(inst->shape->dtype))
    return NULL;
  HlInst *y = spread->operands[0];
  bool is_pred = x->op == HL_OP_CONVERT && x->operands[0]->shape->dtype == HL_PRED;
  if (!is_pred && !(alg_options(p)->executing_on_cpu && will_have_one_user(y)))
    return NULL;
  HlInst *inverse = hl_b_binary(b, HL_OP_DIVIDE, alg_full(b, y->shape, 1), y);
  return inverse ? product(b, x, hl_inst_copy(b->comp, spread, NULL, 1, &inverse)) : NULL;
}

// (A / B) / (C / D) => (A * D) / (B * C)
HlInst *alg_divide_quotients(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (hl_is_integral(inst->shape->dtype) || x->op != HL_OP_DIVIDE || y->op != HL_OP_DIVIDE)
    return NULL;
  HlInst *above = product(b, x->operands[0], y->operands[1]);
  return hl_b_binary(b, HL_OP_DIVIDE, above, product(b, x->operands[1], y->operands[0]));
}

// (A / B) / C => A / (B * C)
HlInst *alg_divide_quotient(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (hl_is_integral(inst->shape->dtype) || x->op != HL_OP_DIVIDE)
    return NULL;
  HlInst *below = product(b, x->operands[1], inst->operands[1]);
  return hl_b_binary(b, HL_OP_DIVIDE, x->operands[0], below);
}

// A / (B / C) => (A * C) / B
HlInst *alg_divide_by_quotient(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *y = inst->operands[1];
  if (hl_is_integral(inst->shape->dtype) || y->op != HL_OP_DIVIDE)
    return NULL;
  HlInst *above = product(b, inst->operands[0], y->operands[1]);
  return hl_b_binary(b, HL_OP_DIVIDE, above, y->operands[0]);
}

// --- Remainder ----------------------------------------------------------------------------------

// A % 2^k => A & (2^k - 1), of signed numbers with the sign of A
HlInst *alg_remainder_power(HlPass *p, HlBuild *b, HlInst *inst) {
  int k;
  HlInst *x = inst->operands[0];
  if (!hl_is_integral(inst->shape->dtype) || !power_of_two(inst->operands[1], &k))
    return NULL;
  int64_t mask = (int64_t)((UINT64_C(1) << k) - 1);
  if (hl_is_signed(inst->shape->dtype))
    return with_sign(b, x, HL_OP_AND, mask);
  return hl_b_binary(b, HL_OP_AND, x, alg_full_int(b, inst->shape, mask));
}

static int64_t iota_extent(const HlInst *iota) {
  return iota->shape->dim[hl_attr_int(iota, HL_A_IOTA_DIMENSION)];
}

static bool is_at_least(HlDtype dtype, int64_t value, int64_t least) {
  return hl_is_unsigned(dtype) ? (uint64_t)value >= (uint64_t)least : value >= least;
}

static int64_t greatest(HlDtype dtype) {
  int bits = hl_dtype_info[dtype].bits - hl_is_signed(dtype);
  return bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
}

// iota % c => iota
HlInst *alg_remainder_of_iota(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *iota = inst->operands[0];
  int64_t c;
  if (iota->op != HL_OP_IOTA || !alg_all_int(inst->operands[1], &c))
    return NULL;
  int64_t extent = iota_extent(iota);
  HlDtype dtype = inst->shape->dtype;
  if (!is_at_least(dtype, c, extent) || extent - 1 > greatest(dtype))
    return NULL;
  return alg_existing(p, inst, iota);
}

// (iota + c) % c => iota % c
HlInst *alg_remainder_of_shifted_iota(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *sum = inst->operands[0], *iota, *other;
  int64_t c, added;
  if (sum->op != HL_OP_ADD || !alg_match_either(sum, HL_OP_IOTA, &iota, &other) ||
      !alg_all_int(inst->operands[1], &c) || !alg_all_int(other, &added) || c != added)
    return NULL;
  int64_t most = greatest(inst->shape->dtype);
  if (c <= 0 || c > most || iota_extent(iota) - 1 > most - c)
    return NULL;
  return hl_b_binary(b, HL_OP_REMAINDER, iota, inst->operands[1]);
}
