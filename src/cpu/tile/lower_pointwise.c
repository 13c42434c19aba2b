// cpu/tile/lower_pointwise.c: ops that make an element of the elements at the same indices.
//
// Small floats are computed as f32 and rounded after each op, as the interpreter does; integers of less than a byte as bytes.
// Complex numbers are written out in real ops, in the interpreter's order and precision.

#include "cpu/tile/build.h"

#include "base/compiler.h"

static const int vec_of[HL_OP_COUNT] = {
#define POINTWISE(id) [HL_OP_##id] = VEC_##id,
#include "cpu/tile/pointwise.def"
#undef POINTWISE
};

static Val real(int node) {
  return (Val){node, -1};
}

// Operand k at the result's own indices; one element for all where it is a scalar.
static Val operand(Lower *l, const Ask *ask, int k, bool raw) {
  return tile_operand(l, ask, k, ask->map, ask->scope, raw);
}

// --- Complex numbers ------------------------------------------------------------------------------

typedef struct Complex {  // with what its parts are computed
  Lower *l;
  HlDtype dtype;
  int scope;
} Complex;

static int op2(const Complex *c, VecOp op, int a, int b) {
  return tile_vec(c->l, op, c->dtype, c->dtype, c->scope, a, b, -1);
}

static int wide(const Complex *c, int a) {
  return tile_convert_node(c->l, c->dtype, HL_F64, c->scope, a);
}

// In f64, rounded once.
static Val multiply(const Complex *c, Val a, Val b) {
  const Complex w = {c->l, HL_F64, c->scope};
  const int x = wide(c, a.re), y = wide(c, a.im), u = wide(c, b.re), v = wide(c, b.im);
  const int re = op2(&w, VEC_SUBTRACT, op2(&w, VEC_MULTIPLY, x, u), op2(&w, VEC_MULTIPLY, y, v));
  const int im = op2(&w, VEC_ADD, op2(&w, VEC_MULTIPLY, x, v), op2(&w, VEC_MULTIPLY, y, u));
  return (Val){tile_convert_node(c->l, HL_F64, c->dtype, c->scope, re),
               tile_convert_node(c->l, HL_F64, c->dtype, c->scope, im)};
}

static Val complex_pointwise(Lower *l, const Ask *ask, const Val *in, HlDtype from) {
  const Complex c = {l, from == HL_C64 ? HL_F32 : HL_F64, ask->scope};
  switch (ask->inst->op) {
  case HL_OP_ADD:
    return (Val){op2(&c, VEC_ADD, in[0].re, in[1].re), op2(&c, VEC_ADD, in[0].im, in[1].im)};
  case HL_OP_SUBTRACT:
    return (Val){op2(&c, VEC_SUBTRACT, in[0].re, in[1].re),
                 op2(&c, VEC_SUBTRACT, in[0].im, in[1].im)};
  case HL_OP_NEGATE:
    return (Val){op2(&c, VEC_NEGATE, in[0].re, -1), op2(&c, VEC_NEGATE, in[0].im, -1)};
  case HL_OP_MULTIPLY: return multiply(&c, in[0], in[1]);
  case HL_OP_IS_FINITE:
    return real(tile_vec(l, VEC_AND, HL_PRED, HL_PRED, ask->scope,
                         tile_vec(l, VEC_IS_FINITE, c.dtype, HL_PRED, ask->scope, in[0].re, -1, -1),
                         tile_vec(l, VEC_IS_FINITE, c.dtype, HL_PRED, ask->scope, in[0].im, -1, -1),
                         -1));
  default: return tile_fail(l, "a function of complex numbers");
  }
}

Val tile_complex(Lower *l, const Ask *ask) {
  const Val a = operand(l, ask, 0, false);
  switch (ask->inst->op) {
  case HL_OP_REAL: return real(a.re);
  case HL_OP_IMAG:
    return real(a.im >= 0 || l->why ? a.im
                                    : tile_convert_node(l, HL_F64, ask->inst->shape->dtype,
                                                        ask->scope, tile_const_f64(l, HL_F64, 0)));
  default: return (Val){a.re, operand(l, ask, 1, false).re};
  }
}

// --- The rules ------------------------------------------------------------------------------------

static VecOp pred_op(VecOp op) {
  switch (op) {
  case VEC_ADD:
  case VEC_MAXIMUM: return VEC_OR;
  case VEC_MULTIPLY:
  case VEC_MINIMUM: return VEC_AND;
  default: return op;
  }
}

Val tile_pointwise(Lower *l, const Ask *ask) {
  const HlInst *inst = ask->inst;
  const int n = (int)inst->n_operands, data = inst->op == HL_OP_SELECT ? 1 : 0;
  const HlDtype dtype = inst->shape->dtype, from = inst->operands[data]->shape->dtype;
  Val in[3] = {NO_VAL, NO_VAL, NO_VAL};
  for (int k = 0; k < n && k < 3; k++)
    in[k] = operand(l, ask, k, ask->raw && k >= data);
  if (l->why)
    return NO_VAL;
  VecOp op = (VecOp)vec_of[inst->op];
  if (op == VEC_SELECT) {
    const HlDtype as = ask->raw ? tile_raw_dtype(dtype) : dtype, part = as == HL_C64    ? HL_F32
                                                                        : as == HL_C128 ? HL_F64
                                                                                        : as;
    Val v = real(tile_vec(l, op, part, part, ask->scope, in[0].re, in[1].re, in[2].re));
    if (in[1].im >= 0)
      v.im = tile_vec(l, op, part, part, ask->scope, in[0].re, in[1].im, in[2].im);
    return v;
  }
  if (hl_is_complex(from))
    return complex_pointwise(l, ask, in, from);
  if (from == HL_PRED)
    op = pred_op(op);
  return real(tile_vec(l, op, from, dtype, ask->scope, in[0].re, in[1].re, in[2].re));
}

static Val compare_complex(Lower *l, const Ask *ask, VecOp op, HlDtype dtype) {
  const HlDtype part = dtype == HL_C64 ? HL_F32 : HL_F64;
  const Val a = operand(l, ask, 0, false), b = operand(l, ask, 1, false);
  if (l->why || (op != VEC_EQ && op != VEC_NE))
    return tile_fail(l, "an order of complex numbers");
  const int re = tile_vec(l, op, part, HL_PRED, ask->scope, a.re, b.re, -1);
  const int im = tile_vec(l, op, part, HL_PRED, ask->scope, a.im, b.im, -1);
  return real(
      tile_vec(l, op == VEC_EQ ? VEC_AND : VEC_OR, HL_PRED, HL_PRED, ask->scope, re, im, -1));
}

Val tile_compare(Lower *l, const Ask *ask) {
  static const struct {
    VecOp partial, total;
  } by_direction[] = {[HL_WORD_direction_EQ] = {VEC_EQ, VEC_TOTAL_EQ},
                      [HL_WORD_direction_NE] = {VEC_NE, VEC_TOTAL_NE},
                      [HL_WORD_direction_GE] = {VEC_GE, VEC_TOTAL_GE},
                      [HL_WORD_direction_GT] = {VEC_GT, VEC_TOTAL_GT},
                      [HL_WORD_direction_LE] = {VEC_LE, VEC_TOTAL_LE},
                      [HL_WORD_direction_LT] = {VEC_LT, VEC_TOTAL_LT}};
  const int64_t direction = hl_attr_int(ask->inst, HL_A_DIRECTION);
  const HlDtype dtype = ask->inst->operands[0]->shape->dtype;
  if (direction < 0 || direction >= HL_COUNT_OF(by_direction))
    return tile_fail(l, "no direction of comparison");
  const bool total =
      hl_is_float(dtype) && hl_comparison_type(ask->inst) == HL_WORD_comparison_type_TOTALORDER;
  if (total && tile_is_narrow(dtype) && dtype != HL_BF16)
    return tile_fail(l, "a total order of small floats");
  const VecOp op = total ? by_direction[direction].total : by_direction[direction].partial;
  if (hl_is_complex(dtype))
    return compare_complex(l, ask, op, dtype);
  const Val a = operand(l, ask, 0, false), b = operand(l, ask, 1, false);
  return real(tile_vec(l, op, dtype, HL_PRED, ask->scope, a.re, b.re, -1));
}

Val tile_convert(Lower *l, const Ask *ask) {
  HlDtype from = ask->inst->operands[0]->shape->dtype, to = ask->inst->shape->dtype;
  Val v = operand(l, ask, 0, false);
  if (l->why)
    return NO_VAL;
  if (hl_is_complex(from)) {
    from = from == HL_C64 ? HL_F32 : HL_F64;
    if (to == HL_PRED)
      return tile_fail(l, "whether a complex number is zero");
  }
  if (!hl_is_complex(to))
    return real(tile_convert_node(l, from, to, ask->scope, v.re));
  const HlDtype part = to == HL_C64 ? HL_F32 : HL_F64;
  return (Val){tile_convert_node(l, from, part, ask->scope, v.re),
               v.im >= 0 ? tile_convert_node(l, from, part, ask->scope, v.im)
                         : tile_const_f64(l, part, 0)};
}

// --- Bits -----------------------------------------------------------------------------------------

// The bits of an element as an unsigned integer of its size, and an element of such bits.
static int to_bits(Lower *l, HlDtype dtype, int scope, int a) {
  const HlDtype raw = tile_raw_dtype(dtype);
  return tile_unary_node(l, tile_is_narrow(dtype) ? NODE_PACK : NODE_SAME, dtype, raw, scope, a);
}

static int of_raw(Lower *l, HlDtype dtype, int scope, int a) {
  const HlDtype raw = tile_raw_dtype(dtype);
  return tile_unary_node(l, tile_is_narrow(dtype) ? NODE_UNPACK : NODE_SAME, raw, dtype, scope, a);
}

Val tile_bitcast_convert(Lower *l, const Ask *ask) {
  const HlDtype from = ask->inst->operands[0]->shape->dtype, to = ask->inst->shape->dtype;
  const int bits = hl_dtype_info[from].bits;
  if (hl_is_complex(from) != hl_is_complex(to) || bits != hl_dtype_info[to].bits ||
      from == HL_PRED || to == HL_PRED)
    return tile_fail(l, "a bitcast-convert between sizes");
  const Val v = operand(l, ask, 0, false);
  if (l->why || from == to)
    return v;
  if (bits < 8 && (hl_is_float(from) || hl_is_float(to)))
    return tile_fail(l, "a bitcast-convert of a float of less than a byte");
  const int raw = to_bits(l, from, ask->scope, v.re);
  if (tile_is_sub_byte(to))
    return real(tile_vec_plain(l, VEC_WRAP, to, to, ask->scope, raw, -1, -1));
  return real(of_raw(l, to, ask->scope, raw));
}

// Rounds to fewer bits of exponent and mantissa, on the bits as the interpreter does.
Val tile_reduce_precision(Lower *l, const Ask *ask) {
  const HlDtype dtype = ask->inst->shape->dtype, u = tile_raw_dtype(dtype);
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  const int exponent = dtype == HL_F64 ? 11 : dtype == HL_F32 ? 8 : format->exponent_bits;
  const int mantissa = dtype == HL_F64 ? 52 : dtype == HL_F32 ? 23 : format->mantissa_bits;
  const int64_t to_exponent = hl_attr_int(ask->inst, HL_A_EXPONENT_BITS),
                to_mantissa = hl_attr_int(ask->inst, HL_A_MANTISSA_BITS);
  const int s = ask->scope;
  if (to_exponent < 1 || to_mantissa < 0)
    return tile_fail(l, "reduce-precision to nothing");
  const Val v = operand(l, ask, 0, false);
  if (l->why)
    return NO_VAL;
#define OP(op, ...) tile_vec_plain(l, VEC_##op, u, u, s, __VA_ARGS__)
#define ASK(op, ...) tile_vec_plain(l, VEC_##op, u, HL_PRED, s, __VA_ARGS__)
#define NUMBER(value) tile_const_i64(l, u, (int64_t)(value))
  const int bits = to_bits(l, dtype, s, v.re);
  const uint64_t sign_bit = UINT64_C(1) << (exponent + mantissa),
                 infinity = ((UINT64_C(1) << exponent) - 1) << mantissa;
  const int sign = OP(AND, bits, NUMBER(sign_bit), -1);
  const int magnitude = OP(AND, bits, NUMBER(sign_bit - 1), -1);
  int r = magnitude;
  if (to_mantissa < mantissa) {
    const int64_t drop = mantissa - to_mantissa;
    const uint64_t last = UINT64_C(1) << drop;
    const int odd = OP(AND, OP(SHIFT_RIGHT_LOGICAL, r, NUMBER(drop), -1), NUMBER(1), -1);
    r = OP(ADD, OP(ADD, r, NUMBER((last >> 1) - 1), -1), odd, -1);
    r = OP(AND, r, NUMBER(~(last - 1)), -1);
  }
  if (to_exponent < exponent) {
    const int64_t bias = (INT64_C(1) << (exponent - 1)) - 1,
                  reach = (INT64_C(1) << (to_exponent - 1)) - 1;
    const uint64_t large = (uint64_t)(bias + reach + 1) << mantissa,
                   small = (uint64_t)(bias - reach + 1) << mantissa;
    const int over = ASK(GE, r, NUMBER(large), -1), under = ASK(LT, r, NUMBER(small), -1);
    r = OP(SELECT, under, NUMBER(0), r);
    r = OP(SELECT, over, NUMBER(infinity), r);
  }
  const int nan = ASK(GT, magnitude, NUMBER(infinity), -1);
  r = OP(SELECT, nan, bits, OP(OR, r, sign, -1));
#undef OP
#undef ASK
#undef NUMBER
  return real(of_raw(l, dtype, s, r));
}
