// opt/algsimp/math.c: algebraic rules of signs, powers, roots, exponentials and complex numbers
// (A37, A38, A50 to A58).
#include "opt/algsimp/algsimp.h"

// --- Signs --------------------------------------------------------------------------------------

// -(-A) => A; not(not(A)) => A
HlInst *alg_twice(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  return x->op == inst->op ? alg_existing(p, inst, x->operands[0]) : NULL;
}

// abs(A) => A
HlInst *alg_abs_of_nonneg(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  return alg_nonneg(x) ? alg_existing(p, inst, x) : NULL;
}

// --- Powers -------------------------------------------------------------------------------------

static HlInst *product(HlBuild *b, HlInst *x, HlInst *y) {
  return hl_b_binary(b, HL_OP_MULTIPLY, x, y);
}

// pow(A, 0) => 1; pow(A, 1) => A; pow(A, 2) => A * A; pow(A, 3) => A * (A * A); pow(A, -1) => 1 / A
HlInst *alg_power_of_constant(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *exponent = inst->operands[1];
  const bool has_one = inst->shape->dtype != HL_S1;  // which is -1 or 0
  if (has_one && hl_is_all(exponent, 0))
    return alg_full(b, inst->shape, 1);
  if (hl_is_all(exponent, 1))
    return alg_existing(p, inst, x);
  if (hl_is_all(exponent, 2))
    return product(b, x, x);
  if (hl_is_all(exponent, 3))
    return product(b, x, product(b, x, x));
  if (hl_is_all(exponent, -1) && !hl_is_integral(inst->shape->dtype))
    return hl_b_binary(b, HL_OP_DIVIDE, alg_full(b, inst->shape, 1), x);
  return NULL;
}

// pow(A, 0.5) => sqrt(A)
HlInst *alg_power_half(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!hl_is_all(inst->operands[1], 0.5) || !alg_nonneg(inst->operands[0]))
    return NULL;
  return hl_b_unary(b, HL_OP_SQRT, inst->operands[0]);
}

// pow(exp(A), B) => exp(A * B)
HlInst *alg_power_of_exp(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_EXPONENTIAL || hl_is_complex(inst->shape->dtype))
    return NULL;
  return alg_same_op(b, x, product(b, x->operands[0], inst->operands[1]));
}

// --- Exponential, logarithm ---------------------------------------------------------------------

// exp(0) => 1
HlInst *alg_exp_of_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_is_all(inst->operands[0], 0) ? alg_full(b, inst->shape, 1) : NULL;
}

// exp overflows where its logarithm would not, a square where its root would not.
static bool folds_inverses(const HlPass *p) {
  return alg_options(p)->enable_fast_math || !hl_pass_since(p, HL_XLA_0_11);
}

// log(exp(A)) => A
HlInst *alg_log_of_exp(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (!folds_inverses(p) || x->op != HL_OP_EXPONENTIAL || hl_is_complex(inst->shape->dtype))
    return NULL;
  return alg_existing(p, inst, x->operands[0]);
}

// log(sqrt(A)) => 0.5 * log(A); log(rsqrt(A)) => -0.5 * log(A)
HlInst *alg_log_of_root(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_SQRT && x->op != HL_OP_RSQRT)
    return NULL;
  HlInst *half = alg_full(b, inst->shape, x->op == HL_OP_SQRT ? 0.5 : -0.5);
  return product(b, alg_same_op(b, inst, x->operands[0]), half);
}

// log(pow(A, B)) => select(B == 0, 0, B * log(abs(A)))
HlInst *alg_log_of_power(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *power = inst->operands[0];
  if (power->op != HL_OP_POWER || hl_is_complex(inst->shape->dtype))
    return NULL;
  HlInst *exponent = power->operands[1];
  HlInst *size = hl_b_unary(b, HL_OP_ABS, power->operands[0]);
  HlInst *result = product(b, alg_same_op(b, inst, size), exponent);
  HlInst *zero = alg_full(b, inst->shape, 0);
  if (!zero)
    return NULL;
  HlInst *is_zero = hl_b_compare(b, HL_WORD_direction_EQ, exponent, zero);
  return hl_b_select(b, is_zero, zero, result);
}

// --- Roots --------------------------------------------------------------------------------------

// sqrt(A * A) => abs(A)
HlInst *alg_sqrt_of_square(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (!folds_inverses(p) || x->op != HL_OP_MULTIPLY || x->operands[0] != x->operands[1] ||
      hl_is_complex(inst->shape->dtype))
    return NULL;
  return hl_b_unary(b, HL_OP_ABS, x->operands[0]);
}

// rsqrt(pow(A, -2)) => A
HlInst *alg_rsqrt_of_power(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_POWER || !hl_is_all(x->operands[1], -2) || !alg_nonneg(x->operands[0]))
    return NULL;
  return alg_existing(p, inst, x->operands[0]);
}

// rsqrt(1 / A) => sqrt(A)
HlInst *alg_rsqrt_of_inverse(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_DIVIDE || !hl_is_all(x->operands[0], 1) || !alg_nonneg(x->operands[1]))
    return NULL;
  return hl_b_unary(b, HL_OP_SQRT, x->operands[1]);
}

// --- Complex numbers ----------------------------------------------------------------------------

// complex(real(c), imag(c)) => c
HlInst *alg_complex_of_parts(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *re = inst->operands[0], *im = inst->operands[1];
  if (re->op != HL_OP_REAL || im->op != HL_OP_IMAG || re->operands[0] != im->operands[0])
    return NULL;
  return alg_existing(p, inst, re->operands[0]);
}

// real(complex(r, i)) => r; imag(complex(r, i)) => i; real(x) => x and imag(x) => 0 of a real x
HlInst *alg_part_of_complex(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  bool is_real = inst->op == HL_OP_REAL;
  if (x->op == HL_OP_COMPLEX)
    return alg_existing(p, inst, x->operands[is_real ? 0 : 1]);
  if (hl_is_complex(x->shape->dtype))
    return NULL;
  return is_real ? alg_existing(p, inst, x) : alg_full(b, inst->shape, 0);
}
