// tool/fake_arith.c: what is wanted of a sum, product, ... as what is wanted of its parts.
//
// With one side known (a constant, an iota) the range moves over exactly. With neither known it is
// shared out where that is safe (both halves of a sum, both factors positive); otherwise it ends here.

#include <math.h>

#include "tool/fake.h"

static const double positive = 1e-3;

static bool known(Range r) {
  return isfinite(r.lo) && isfinite(r.hi);
}

static void want(Fake *f, const HlInst *inst, int k, Need n, double lo, double hi) {
  if (isnan(lo) || isnan(hi))
    return;
  Need out = {.lo = lo, .hi = hi < lo ? lo : hi, .flags = n.flags & NEED_HARD};
  fake_want(f, inst->operands[k], 0, out);
}

static void flow_add(Fake *f, const HlInst *inst, Need n) {
  Range a = *fake_range(f, inst->operands[0], 0), b = *fake_range(f, inst->operands[1], 0);
  if (known(b) && known(a))
    return;
  if (known(b))
    want(f, inst, 0, n, n.lo - b.lo, n.hi - b.hi);
  else if (known(a))
    want(f, inst, 1, n, n.lo - a.lo, n.hi - a.hi);
  else
    for (int k = 0; k < 2; k++)
      want(f, inst, k, n, isinf(n.lo) ? n.lo : n.lo / 2, isinf(n.hi) ? n.hi : floor(n.hi / 2));
}

static void flow_subtract(Fake *f, const HlInst *inst, Need n) {
  Range a = *fake_range(f, inst->operands[0], 0), b = *fake_range(f, inst->operands[1], 0);
  if (known(b) && known(a))
    return;
  if (known(b)) {
    want(f, inst, 0, n, n.lo + b.hi, n.hi + b.lo);
  } else if (known(a)) {
    want(f, inst, 1, n, a.hi - n.hi, a.lo - n.lo);
  } else if (n.lo >= 0 && isfinite(n.hi)) {
    want(f, inst, 0, n, ceil(n.hi / 2), n.hi);
    want(f, inst, 1, n, 0, floor(n.hi / 2));
  }
}

static void scale(Fake *f, const HlInst *inst, int k, Need n, double by, bool whole) {
  double lo = (by > 0 ? n.lo : n.hi) / by, hi = (by > 0 ? n.hi : n.lo) / by;
  want(f, inst, k, n, whole ? ceil(lo) : lo, whole ? floor(hi) : hi);
}

static void flow_multiply(Fake *f, const HlInst *inst, Need n) {
  Range a = *fake_range(f, inst->operands[0], 0), b = *fake_range(f, inst->operands[1], 0);
  bool whole = hl_is_integral(inst->shape->dtype);
  if (known(a) && known(b))
    return;
  if (inst->operands[0] == inst->operands[1]) {
    Need nonzero = {.lo = -sqrt(n.hi),
                    .hi = sqrt(n.hi),
                    .flags = (n.flags & NEED_HARD) | (n.lo > 0 ? (unsigned)NEED_NONZERO : 0)};
    if (n.hi > 0)
      fake_want(f, inst->operands[0], 0, nonzero);
  } else if (known(b) && b.lo * b.hi > 0) {
    scale(f, inst, 0, n, n.hi > 0 && isfinite(n.hi) ? b.hi : b.lo, whole);
  } else if (known(a) && a.lo * a.hi > 0) {
    scale(f, inst, 1, n, n.hi > 0 && isfinite(n.hi) ? a.hi : a.lo, whole);
  } else if (n.lo >= 0) {
    for (int k = 0; k < 2; k++)
      want(f, inst, k, n, n.lo > 0 ? (whole ? 1 : positive) : 0,
           whole ? floor(sqrt(n.hi)) : sqrt(n.hi));
  }
}

static void flow_divide(Fake *f, const HlInst *inst, Need n) {
  Range b = *fake_range(f, inst->operands[1], 0);
  bool whole = hl_is_integral(inst->shape->dtype);
  if (known(b) && b.lo > 0) {
    want(f, inst, 0, n, n.lo * (n.lo > 0 ? b.hi : b.lo), n.hi * b.lo + (whole ? b.lo - 1 : 0));
  } else if (n.lo >= 0) {
    want(f, inst, 0, n, n.lo > 0 ? positive : 0, INFINITY);
    want(f, inst, 1, n, positive, INFINITY);
  }
}

// The bound on the side that one operand can keep alone goes to the one that must, or to the first.
static void flow_extreme(Fake *f, const HlInst *inst, Need n) {
  const bool max = inst->op == HL_OP_MAXIMUM;
  for (int k = 0; k < 2; k++) {
    Range other = *fake_range(f, inst->operands[1 - k], 0);
    bool mine = max ? other.lo < n.lo : other.hi > n.hi;
    mine = mine && (k == 0 || known(*fake_range(f, inst->operands[0], 0)));
    want(f, inst, k, n, !max || mine ? n.lo : -INFINITY, max || mine ? n.hi : INFINITY);
  }
}

static void flow_shift(Fake *f, const HlInst *inst, Need n) {
  Range by = *fake_range(f, inst->operands[1], 0);
  if (by.lo != by.hi || by.lo < 0 || by.lo > 63 || n.lo < 0)
    return;
  double factor = ldexp(1, (int)by.lo);
  if (inst->op == HL_OP_SHIFT_LEFT)
    want(f, inst, 0, n, ceil(n.lo / factor), floor(n.hi / factor));
  else
    want(f, inst, 0, n, n.lo * factor, n.hi * factor + factor - 1);
}

static bool keeps_sign(HlOp op) {
  return op == HL_OP_TANH || op == HL_OP_SINH || op == HL_OP_ASIN || op == HL_OP_ASINH ||
         op == HL_OP_ATANH || op == HL_OP_CBRT || op == HL_OP_ERF || op == HL_OP_TAN ||
         op == HL_OP_SIGN || op == HL_OP_LOG_PLUS_ONE || op == HL_OP_EXPONENTIAL_MINUS_ONE ||
         op == HL_OP_SQRT;
}

static void flow_negate(Fake *f, const HlInst *inst, Need n) {
  want(f, inst, 0, n, -n.hi, -n.lo);
}

static void flow_abs(Fake *f, const HlInst *inst, Need n) {
  want(f, inst, 0, n, -n.hi, n.hi);
}

static void flow_log(Fake *f, const HlInst *inst, Need n) {
  if (n.lo >= 0)
    want(f, inst, 0, n, 1 + positive, INFINITY);
}

static void flow_remainder(Fake *f, const HlInst *inst, Need n) {
  if (n.lo >= 0)
    want(f, inst, 0, n, 0, INFINITY);
}

// Its sign is that of its first operand.
static void flow_sign(Fake *f, const HlInst *inst, Need n) {
  if (n.lo >= 0)
    want(f, inst, 0, n, n.lo > 0 ? positive : 0, INFINITY);
}

// Not zero: neither factor, nor what keeps zeros apart.
static void flow_nonzero(Fake *f, const HlInst *inst) {
  Need n = fake_free();
  n.flags = NEED_NONZERO;
  if (inst->op == HL_OP_MULTIPLY || inst->op == HL_OP_NEGATE || inst->op == HL_OP_ABS ||
      inst->op == HL_OP_DIVIDE || keeps_sign((HlOp)inst->op))
    for (int k = 0; k < (inst->op == HL_OP_MULTIPLY ? 2 : 1); k++)
      fake_want(f, inst->operands[k], 0, n);
}

static void (*const flow_of[HL_OP_COUNT])(Fake *, const HlInst *, Need) = {
    [HL_OP_ADD] = flow_add,           [HL_OP_SUBTRACT] = flow_subtract,
    [HL_OP_MULTIPLY] = flow_multiply, [HL_OP_DIVIDE] = flow_divide,
    [HL_OP_MAXIMUM] = flow_extreme,   [HL_OP_MINIMUM] = flow_extreme,
    [HL_OP_POWER] = flow_sign,        [HL_OP_REMAINDER] = flow_remainder,
    [HL_OP_NEGATE] = flow_negate,     [HL_OP_ABS] = flow_abs,
    [HL_OP_LOG] = flow_log,
};

bool fake_flow_arithmetic(Fake *f, const HlInst *inst, Need n) {
  if (!(hl_op_info[inst->op].traits & HL_T_ELEMENTWISE) || inst->n_operands == 0 ||
      inst->n_operands > 2)
    return false;
  for (int k = 0; k < (int)inst->n_operands; k++)
    if (!hl_shape_is_array(inst->operands[k]->shape))
      return false;
  if (n.flags & NEED_NONZERO)
    flow_nonzero(f, inst);
  if (isinf(n.lo) && isinf(n.hi))
    return true;
  const HlOp op = (HlOp)inst->op;
  if (flow_of[op])
    flow_of[op](f, inst, n);
  else if (hl_op_facts(op)->shift)
    flow_shift(f, inst, n);
  else if (hl_op_is(op, HL_T_ROUNDS))
    want(f, inst, 0, n, n.lo, n.hi);
  else if (keeps_sign(op))
    flow_sign(f, inst, n);
  return true;
}
