// cpu/emit/convert.c: convert between types, and rounding to narrow floats.
//
// From floats to integers HLO rounds toward zero, saturates, and makes nan 0; the machine's instructions make what does not
// fit the most negative integer (or of unsigned ones the largest).

#include "cpu/emit/inst.h"

#include "hilo/ir.h"

static int op1(EmitBody *body, X86Op op, int size, int x) {
  return inst_op(body, op, size, -1, x, 0);
}
static int op2(EmitBody *body, X86Op op, int size, int x, int y) {
  return inst_op(body, op, size, x, y, 0);
}
static int f32(EmitBody *body, float value) {
  union {
    float value;
    uint32_t bits;
  } u = {value};
  return inst_const(body, u.bits, 4);
}
static int f64(EmitBody *body, double value) {
  union {
    double value;
    uint64_t bits;
  } u = {value};
  return inst_const(body, u.bits, 8);
}

// --- Integers to floats ------------------------------------------------------------------------------

// Halves of 16 bits as the lower bits of floats of known exponents: both are exact, their sum is rounded once.
static int f32_of_u32(EmitBody *body, int x) {
  if (body->evex)
    return op1(body, X86_VCVTUDQ2PS, 4, x);
  const int low = op2(body, X86_VPOR, 4, op2(body, X86_VPAND, 4, x, inst_const(body, 0xffff, 4)),
                      inst_const(body, 0x4b000000, 4));  // 2^23 + low
  const int high = op2(body, X86_VPOR, 4, inst_op(body, X86_VPSRLD_I, 4, -1, x, 16),
                       inst_const(body, 0x53000000, 4));  // 2^39 + 2^16 high
  return op2(body, X86_VADDPS, 4, op2(body, X86_VSUBPS, 4, high, f32(body, 0x1p39f + 0x1p23f)),
             low);
}

static int f64_of_u32(EmitBody *body, int x) {
  if (body->evex)
    return op1(body, X86_VCVTUDQ2PD, 8, x);
  const int wide = op2(body, X86_VPOR, 8, inst_resize(body, x, 4, 8, false), f64(body, 0x1p52));
  return op2(body, X86_VSUBPD, 8, wide, f64(body, 0x1p52));
}

static int float_of_int(EmitBody *body, int x, int from, bool is_signed, int to) {
  if (from == 8) {
    const X86Op op = to == 4     ? is_signed ? X86_VCVTQQ2PS : X86_VCVTUQQ2PS
                     : is_signed ? X86_VCVTQQ2PD
                                 : X86_VCVTUQQ2PD;
    return inst_has(body, op) ? op1(body, op, 8, x) : -1;
  }
  if (from == 4 && !is_signed)
    return to == 4 ? f32_of_u32(body, x) : f64_of_u32(body, x);
  const int wide = inst_resize(body, x, from, 4, is_signed);
  return to == 4 ? op1(body, X86_VCVTDQ2PS, 4, wide) : op1(body, X86_VCVTDQ2PD, 8, wide);
}

// --- Floats to integers ------------------------------------------------------------------------------

// A mask of the places where the floats compare so: predicates as in vcmpps.
static int compare(EmitBody *body, int size, int x, int y, int predicate) {
  const X86Op op = body->evex  ? size == 4 ? X86_VCMPPS_K : X86_VCMPPD_K
                   : size == 4 ? X86_VCMPPS
                               : X86_VCMPPD;
  return inst_op(body, op, size, x, y, predicate);
}
enum { UNORDERED = 3, ORDERED = 7, GE = 29 };

// What the machine makes of s32, or s64 in EVEX: least where x does not fit. Large ones are turned into the most, nan into 0.
static int saturate(EmitBody *body, int size, int x, int converted, int beyond) {
  const int large = compare(body, size, x, beyond, GE), nan = compare(body, size, x, x, UNORDERED);
  return op2(body, X86_VPANDN, size, nan, op2(body, X86_VPXOR, size, converted, large));
}

static int s32_of_f32(EmitBody *body, int x) {
  return saturate(body, 4, x, op1(body, X86_VCVTTPS2DQ, 4, x), f32(body, 0x1p31f));
}

// Numbers from 2^31 go by what they have above it.
static int u32_of_f32(EmitBody *body, int x) {
  const int zero = inst_const(body, 0, 4),
            positive = op2(body, X86_VMAXPS, 4, x, zero);  // nan is 0
  if (body->evex)
    return op1(body, X86_VCVTTPS2UDQ, 4, positive);
  const int middle = f32(body, 0x1p31f),
            above = s32_of_f32(body, op2(body, X86_VSUBPS, 4, positive, middle));
  return inst_select(body, 4, compare(body, 4, positive, middle, GE),
                     op2(body, X86_VPXOR, 4, above, inst_const(body, 0x80000000, 4)),
                     op1(body, X86_VCVTTPS2DQ, 4, positive));
}

// Within bounds that the float type has exactly.
static int clamped(EmitBody *body, int size, int x, double least, double most) {
  const int number = op2(body, X86_VPAND, size, x, compare(body, size, x, x, ORDERED));
  if (size == 4)
    return op2(body, X86_VMINPS, 4, op2(body, X86_VMAXPS, 4, number, f32(body, (float)least)),
               f32(body, (float)most));
  return op2(body, X86_VMINPD, 8, op2(body, X86_VMAXPD, 8, number, f64(body, least)),
             f64(body, most));
}

static int u32_of_f64(EmitBody *body, int x) {
  const int number = clamped(body, 8, x, 0, 0x1p32 - 1);
  if (body->evex)
    return op1(body, X86_VCVTTPD2UDQ, 8, number);
  const int whole = inst_op(body, X86_VROUNDPD, 8, -1, number, 11);
  return inst_resize(body, op2(body, X86_VADDPD, 8, whole, f64(body, 0x1p52)), 8, 4, false);
}

static int int64_of_float(EmitBody *body, int x, int from, bool is_signed) {
  if (!body->evex)
    return -1;
  const int wide = from == 4 ? op1(body, X86_VCVTPS2PD, 8, x) : x;
  if (is_signed)
    return saturate(body, 8, wide, op1(body, X86_VCVTTPD2QQ, 8, wide), f64(body, 0x1p63));
  return op1(body, X86_VCVTTPD2UQQ, 8, op2(body, X86_VMAXPD, 8, wide, inst_const(body, 0, 8)));
}

static int int_of_float(EmitBody *body, int x, int from, HlDtype to) {
  const bool is_signed = hl_is_signed(to);
  const int bits = hl_dtype_info[to].bits;
  if (bits == 64)
    return int64_of_float(body, x, from, is_signed);
  if (bits == 32 && !is_signed)
    return from == 4 ? u32_of_f32(body, x) : u32_of_f64(body, x);
  if (bits == 32 && from == 4)
    return s32_of_f32(body, x);
  const double most = (double)((INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1),
               least = is_signed ? -most - 1 : 0;
  const int number = clamped(body, from, x, least, most);
  const int whole =
      from == 4 ? op1(body, X86_VCVTTPS2DQ, 4, number) : op1(body, X86_VCVTTPD2DQ, 8, number);
  return inst_resize(body, whole, 4, hl_dtype_bytes(to), is_signed);
}

// --- Convert -------------------------------------------------------------------------------------------

static int of_pred(EmitBody *body, EmitTyped *in, HlDtype to, int size) {
  const uint64_t one = !hl_is_float(to) ? 1 : size == 4 ? 0x3f800000 : 0x3ff0000000000000;
  return op2(body, X86_VPAND, size, inst_mask(body, in, size), inst_const(body, one, size));
}

static int between_ints(EmitBody *body, const EmitOp *op, HlDtype from, HlDtype to, int x) {
  const int size = hl_dtype_bytes(to);
  const int value = inst_resize(body, x, hl_dtype_bytes(from), size, hl_is_signed(from));
  if (hl_dtype_info[op->to].bits >= 8)
    return value;
  EmitTyped typed = {value, size, {-1, -1, -1, -1}}, out;
  const EmitOp wrap = {.kind = EMIT_VEC, .vec = VEC_WRAP, .dtype = op->to};
  return select_vec(body, &wrap, (EmitTyped *const[3]){&typed}, &out) ? out.value : -1;
}

bool select_convert(EmitBody *body, const EmitOp *op, EmitTyped *in, EmitTyped *out) {
  const HlDtype from = vec_carrier(op->dtype), to = vec_carrier(op->to);
  const int from_size = hl_dtype_bytes(from), size = hl_dtype_bytes(to), x = in->value;
  int value = -1;
  // To a narrow float what has more bits than an f32 is rounded once, not twice.
  if (from != to && from_size >= 4 && hl_dtype_info[op->to].format.bits)
    return false;
  if (to == HL_PRED) {
    value =
        from == HL_PRED ? x : select_compare(body, VEC_NE, from, x, inst_const(body, 0, from_size));
    *out = (EmitTyped){value, from == HL_PRED ? in->size : from_size, {-1, -1, -1, -1}};
    return value >= 0;
  }
  if (from == HL_PRED)
    value = of_pred(body, in, to, size);
  else if (hl_is_integral(from) && hl_is_integral(to))
    value = between_ints(body, op, from, to, x);
  else if (hl_is_integral(from))
    value = float_of_int(body, x, from_size, hl_is_signed(from), size);
  else if (hl_is_integral(to))
    value = int_of_float(body, x, from_size, op->to);
  else if (from == to)
    value = x;
  else
    value = op1(body, from == HL_F32 ? X86_VCVTPS2PD : X86_VCVTPD2PS, 8, x);
  *out = (EmitTyped){value, size, {-1, -1, -1, -1}};
  return value >= 0;
}

// --- Rounding to narrow floats -----------------------------------------------------------------------------

// To the upper half of an f32's bits, ties to even; nan keeps its sign.
static int round_bf16(EmitBody *body, int x) {
  const int upper = inst_const(body, 0xffff0000, 4);
  const int odd =
      op2(body, X86_VPAND, 4, inst_op(body, X86_VPSRLD_I, 4, -1, x, 16), inst_const(body, 1, 4));
  const int sum =
      op2(body, X86_VPADDD, 4, op2(body, X86_VPADDD, 4, x, inst_const(body, 0x7fff, 4)), odd);
  const int sign = op2(body, X86_VPAND, 4, x, inst_const(body, 0x80000000, 4));
  const int nan = op2(body, X86_VPOR, 4, sign, inst_const(body, 0x7fc00000, 4));
  return inst_select(body, 4, compare(body, 4, x, x, UNORDERED), nan,
                     op2(body, X86_VPAND, 4, sum, upper));
}

bool select_round(EmitBody *body, HlDtype dtype, int x, int *out) {
  if (dtype == HL_BF16)
    *out = round_bf16(body, x);
  else if (dtype == HL_F16)
    *out = op1(body, X86_VCVTPH2PS, 4, inst_op(body, X86_VCVTPS2PH, 4, x, -1, 0));
  else
    return false;
  return true;
}
