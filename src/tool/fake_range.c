// tool/fake_range.c: where values lie whatever the inputs are: constants, iotas, what follows from them.

#include <math.h>

#include "tool/fake.h"

enum { MAX_LOOK = 1 << 20 };  // elements of a constant

static Range unknown(HlDtype dtype) {
  if (dtype == HL_PRED)
    return (Range){0, 1};
  return (Range){hl_is_unsigned(dtype) ? 0 : -INFINITY, INFINITY};
}

static Range of(const Fake *f, const HlInst *inst, int k) {
  const HlInst *operand = inst->operands[k];
  return hl_shape_is_array(operand->shape) ? *fake_range(f, operand, 0)
                                           : (Range){-INFINITY, INFINITY};
}

static Range hull(Range a, Range b) {
  return (Range){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

static Range constant_range(const Fake *f, const HlInst *inst) {
  const HlLiteral *literal = hl_constant(inst);
  HlDtype dtype = inst->shape->dtype;
  if (!literal || !literal->data || literal->n == 0 || literal->n > MAX_LOOK ||
      hl_is_complex(dtype))
    return unknown(dtype);
  Range out = {INFINITY, -INFINITY};
  for (int64_t k = 0; k < literal->n; k++) {
    double x = hl_literal_f64(literal, k);
    if (isnan(x))
      return unknown(dtype);
    out = hull(out, (Range){x, x});
  }
  return out;
}

static Range product(Range a, Range b) {
  double p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  Range out = {INFINITY, -INFINITY};
  for (int k = 0; k < 4; k++) {
    double x = isnan(p[k]) ? 0 : p[k];  // 0 * inf
    out = hull(out, (Range){x, x});
  }
  return out;
}

static Range quotient(Range a, Range b, bool whole) {
  if (b.lo <= 0 || isinf(b.hi))
    return (Range){a.lo >= 0 && b.lo >= 0 ? 0 : -INFINITY, INFINITY};
  Range out = product(a, (Range){1 / b.hi, 1 / b.lo});
  return whole ? (Range){trunc(out.lo), trunc(out.hi)} : out;
}

// a mod b has the sign of a and is smaller than b.
static Range rest(Range a, Range b) {
  double most = fmax(fabs(b.lo), fabs(b.hi));
  return (Range){a.lo >= 0 ? 0 : -most, fmin(most, a.hi >= 0 ? a.hi : 0)};
}

// What the op's results lie in whatever its operands are.
static Range range_of_op(const HlInst *inst) {
  switch ((HlBounds)hl_op_facts((HlOp)inst->op)->bounds) {
  case HL_BOUNDS_UNIT: return (Range){0, 1};
  case HL_BOUNDS_SIGNED_UNIT: return (Range){-1, 1};
  case HL_BOUNDS_NONNEGATIVE: return (Range){0, INFINITY};
  default: return unknown(inst->shape->dtype);
  }
}

static Range add_range(const HlInst *inst, const Range *x) {
  return (Range){x[0].lo + x[1].lo, x[0].hi + x[1].hi};
}

static Range subtract_range(const HlInst *inst, const Range *x) {
  return (Range){x[0].lo - x[1].hi, x[0].hi - x[1].lo};
}

static Range multiply_range(const HlInst *inst, const Range *x) {
  if (inst->operands[0] == inst->operands[1])
    return (Range){0, fmax(x[0].lo * x[0].lo, x[0].hi * x[0].hi)};
  return product(x[0], x[1]);
}

static Range divide_range(const HlInst *inst, const Range *x) {
  return quotient(x[0], x[1], hl_is_integral(inst->shape->dtype));
}

static Range remainder_range(const HlInst *inst, const Range *x) {
  return rest(x[0], x[1]);
}

static Range maximum_range(const HlInst *inst, const Range *x) {
  return (Range){fmax(x[0].lo, x[1].lo), fmax(x[0].hi, x[1].hi)};
}

static Range minimum_range(const HlInst *inst, const Range *x) {
  return (Range){fmin(x[0].lo, x[1].lo), fmin(x[0].hi, x[1].hi)};
}

static Range and_range(const HlInst *inst, const Range *x) {
  if (x[0].lo < 0 && x[1].lo < 0)
    return range_of_op(inst);
  return (Range){0, fmin(x[0].lo >= 0 ? x[0].hi : INFINITY, x[1].lo >= 0 ? x[1].hi : INFINITY)};
}

static Range shift_right_range(const HlInst *inst, const Range *x) {
  return x[0].lo >= 0 ? (Range){0, x[0].hi} : range_of_op(inst);
}

static Range negate_range(const HlInst *inst, const Range *x) {
  return (Range){-x[0].hi, -x[0].lo};
}

static Range abs_range(const HlInst *inst, const Range *x) {
  return (Range){x[0].lo > 0 ? x[0].lo : 0, fmax(fabs(x[0].lo), fabs(x[0].hi))};
}

static Range exponential_range(const HlInst *inst, const Range *x) {
  return (Range){exp(x[0].lo), exp(x[0].hi)};
}

static Range bits_range(const HlInst *inst, const Range *x) {
  return (Range){0, hl_dtype_info[inst->shape->dtype].bits};
}

static Range convert_range(const HlInst *inst, const Range *x) {
  return hl_is_integral(inst->shape->dtype) ? (Range){trunc(x[0].lo), trunc(x[0].hi)} : x[0];
}

static Range clamp_range(const HlInst *inst, const Range *x) {
  return (Range){fmin(fmax(x[1].lo, x[0].lo), x[2].lo), fmin(fmax(x[1].hi, x[0].hi), x[2].hi)};
}

// Of the ranges of an elementwise op's operands.
static Range (*const range_by_op[HL_OP_COUNT])(const HlInst *, const Range *) = {
    [HL_OP_ADD] = add_range,
    [HL_OP_SUBTRACT] = subtract_range,
    [HL_OP_MULTIPLY] = multiply_range,
    [HL_OP_DIVIDE] = divide_range,
    [HL_OP_REMAINDER] = remainder_range,
    [HL_OP_MAXIMUM] = maximum_range,
    [HL_OP_MINIMUM] = minimum_range,
    [HL_OP_AND] = and_range,
    [HL_OP_SHIFT_RIGHT_LOGICAL] = shift_right_range,
    [HL_OP_NEGATE] = negate_range,
    [HL_OP_ABS] = abs_range,
    [HL_OP_EXPONENTIAL] = exponential_range,
    [HL_OP_POPCNT] = bits_range,
    [HL_OP_COUNT_LEADING_ZEROS] = bits_range,
    [HL_OP_CONVERT] = convert_range,
    [HL_OP_CLAMP] = clamp_range,
};

static Range elementwise_range(const Fake *f, const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  Range x[3] = {{0, 0}};
  for (int k = 0; k < (int)inst->n_operands && k < 3; k++)
    x[k] = of(f, inst, k);
  if (range_by_op[op])
    return range_by_op[op](inst, x);
  return hl_op_is(op, HL_T_ROUNDS) ? (Range){floor(x[0].lo), ceil(x[0].hi)} : range_of_op(inst);
}

// Ops whose elements all come from operands of a type: the hull of those.
static Range moved_range(const Fake *f, const HlInst *inst) {
  const uint8_t set = hl_op_facts((HlOp)inst->op)->elements;
  Range out = {INFINITY, -INFINITY};
  for (int k = 0; k < (int)inst->n_operands; k++)
    if (hl_operand_in(set, k, 1)) {
      if (inst->operands[k]->shape->dtype != inst->shape->dtype)
        return unknown(inst->shape->dtype);
      out = hull(out, of(f, inst, k));
    }
  return out;
}

static Range reduced_range(const Fake *f, const HlInst *inst) {
  Range all = hull(of(f, inst, 0), of(f, inst, 1));
  HlOp op = inst->n_operands == 2 && inst->n_calls == 1 ? fake_combiner(hl_to_apply(inst), 0, 1)
                                                        : HL_OP_COUNT;
  if (op == HL_OP_MAXIMUM || op == HL_OP_MINIMUM)
    return all;
  if ((op == HL_OP_ADD || op == HL_OP_MULTIPLY) && all.lo >= 0)
    return (Range){0, INFINITY};
  return unknown(inst->shape->dtype);
}

// A parameter of a computation with one caller that hands its operands over as they are.
static Range parameter_range(const Fake *f, const HlInst *inst) {
  const HlCall *call = inst->comp->first_call;
  int64_t k = hl_parameter_number(inst);
  if (call && !call->next && (call->caller->op == HL_OP_FUSION || call->caller->op == HL_OP_CALL) &&
      k >= 0 && k < call->caller->n_operands)
    return of(f, call->caller, (int)k);
  return unknown(inst->shape->dtype);
}

// Whether the operands that the rules below look at are there: modules may be invalid.
static bool has_operands(const HlInst *inst) {
  int n = hl_op_info[inst->op].n_operands;
  if (n != HL_ANY)
    return (int)inst->n_operands == n;
  return inst->n_operands >=
         (inst->op == HL_OP_DYNAMIC_UPDATE_SLICE || inst->op == HL_OP_REDUCE ? 2 : 1);
}

static Range iota_range(const Fake *f, const HlInst *inst) {
  int64_t d = hl_attr_int(inst, HL_A_IOTA_DIMENSION);
  bool there = d >= 0 && d < inst->shape->rank;
  return (Range){0, there ? fmax(0, (double)inst->shape->dim[d] - 1) : INFINITY};
}

static Range partition_range(const Fake *f, const HlInst *inst) {
  return (Range){0, fmax(0, (double)f->m->num_partitions - 1)};
}

static Range replica_range(const Fake *f, const HlInst *inst) {
  return (Range){0, fmax(0, (double)f->m->replica_count - 1)};
}

static Range called_range(const Fake *f, const HlInst *inst) {
  const HlInst *root = inst->n_calls == 1 ? hl_called(inst, 0)->root : NULL;
  return root && hl_shape_is_array(root->shape) ? *fake_range(f, root, 0)
                                                : unknown(inst->shape->dtype);
}

static Range element_range(const Fake *f, const HlInst *inst) {
  int64_t k = hl_attr_int(inst, HL_A_INDEX);
  const HlInst *tuple = inst->operands[0];
  bool there = tuple->shape->dtype == HL_TUPLE && k >= 0 && k < tuple->shape->rank;
  return there ? *fake_range(f, tuple, fake_start(f, tuple, k)) : unknown(inst->shape->dtype);
}

static Range (*const range_of_inst[HL_OP_COUNT])(const Fake *, const HlInst *) = {
    [HL_OP_PARAMETER] = parameter_range,
    [HL_OP_CONSTANT] = constant_range,
    [HL_OP_IOTA] = iota_range,
    [HL_OP_PARTITION_ID] = partition_range,
    [HL_OP_REPLICA_ID] = replica_range,
    [HL_OP_REDUCE] = reduced_range,
    [HL_OP_CALL] = called_range,
    [HL_OP_FUSION] = called_range,
    [HL_OP_GET_TUPLE_ELEMENT] = element_range,
};

static Range array_range(const Fake *f, const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (!has_operands(inst))
    return unknown(inst->shape->dtype);
  if (range_of_inst[op])
    return range_of_inst[op](f, inst);
  if (hl_op_moves(op) && !hl_op_is(op, HL_T_COLLECTIVE))
    return moved_range(f, inst);
  if (hl_op_is(op, HL_T_ELEMENTWISE) && (range_by_op[op] || inst->n_operands <= 2))
    return elementwise_range(f, inst);
  return unknown(inst->shape->dtype);
}

// Wrapping around is not modelled: what leaves the type is unknown.
static Range kept_in_type(HlDtype dtype, Range r) {
  int bits = hl_dtype_info[dtype].bits;
  if (isnan(r.lo) || isnan(r.hi) || !(r.lo <= r.hi))
    return unknown(dtype);
  if (!hl_is_integral(dtype))
    return r;
  double low = hl_is_signed(dtype) ? -ldexp(1, bits - 1) : 0;
  double high = ldexp(1, hl_is_signed(dtype) ? bits - 1 : bits) - 1;
  return (r.lo < low && !isinf(r.lo)) || (r.hi > high && !isinf(r.hi)) ? unknown(dtype) : r;
}

void fake_range_inst(Fake *f, const HlInst *inst) {
  if (hl_shape_is_array(inst->shape)) {
    *fake_range(f, inst, 0) = kept_in_type(inst->shape->dtype, array_range(f, inst));
    return;
  }
  if (inst->op != HL_OP_TUPLE)
    return;
  for (int k = 0; k < (int)inst->n_operands && k < inst->shape->rank; k++)
    if (hl_shape_is_array(inst->operands[k]->shape))
      *fake_range(f, inst, fake_start(f, inst, k)) = *fake_range(f, inst->operands[k], 0);
}
