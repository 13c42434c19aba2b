// cpu/emit/select.c: which instructions an op is.
//
// Most ops are one instruction: a table. The others are functions, which say what an instruction lacks to what HLO means
// (src/op/elementwise*.c).

#include "cpu/emit/inst.h"

#include "hilo/ir.h"

// The sizes of integers, by logarithm.
enum { B, W, D, Q };

typedef struct Select {
  EmitBody *body;
  HlDtype dtype;
  int size;  // bytes of a lane
  bool is_float, is_signed;
  int x, y, z;  // operands
} Select;

// --- One instruction -------------------------------------------------------------------------------

typedef struct Direct {
  X86Op f32, f64, s[4], u[4];
} Direct;
#define ANY(b, w, d, q) \
  {b, w, d, q}, {       \
    b, w, d, q          \
  }
#define ALL(op) ANY(op, op, op, op)
static const Direct direct[VEC_OP_COUNT] = {
    [VEC_ADD] = {X86_VADDPS, X86_VADDPD, ANY(X86_VPADDB, X86_VPADDW, X86_VPADDD, X86_VPADDQ)},
    [VEC_SUBTRACT] = {X86_VSUBPS, X86_VSUBPD, ANY(X86_VPSUBB, X86_VPSUBW, X86_VPSUBD, X86_VPSUBQ)},
    [VEC_MULTIPLY] = {X86_VMULPS, X86_VMULPD, ANY(0, X86_VPMULLW, X86_VPMULLD, X86_VPMULLQ)},
    [VEC_DIVIDE] = {X86_VDIVPS, X86_VDIVPD, ALL(0)},
    [VEC_AND] = {0, 0, ALL(X86_VPAND)},
    [VEC_OR] = {0, 0, ALL(X86_VPOR)},
    [VEC_XOR] = {0, 0, ALL(X86_VPXOR)},
    [VEC_SQRT] = {X86_VSQRTPS, X86_VSQRTPD, ALL(0)},
    [VEC_ABS] = {0, 0, {X86_VPABSB, X86_VPABSW, X86_VPABSD, X86_VPABSQ}, {0}},
    [VEC_MAXIMUM] = {0,
                     0,
                     {X86_VPMAXSB, X86_VPMAXSW, X86_VPMAXSD, X86_VPMAXSQ},
                     {X86_VPMAXUB, X86_VPMAXUW, X86_VPMAXUD, X86_VPMAXUQ}},
    [VEC_MINIMUM] = {0,
                     0,
                     {X86_VPMINSB, X86_VPMINSW, X86_VPMINSD, X86_VPMINSQ},
                     {X86_VPMINUB, X86_VPMINUW, X86_VPMINUD, X86_VPMINUQ}},
    [VEC_SHIFT_LEFT] = {0, 0, ANY(0, X86_VPSLLVW, X86_VPSLLVD, X86_VPSLLVQ)},
    [VEC_SHIFT_RIGHT_LOGICAL] = {0, 0, ANY(0, X86_VPSRLVW, X86_VPSRLVD, X86_VPSRLVQ)},
    [VEC_SHIFT_RIGHT_ARITHMETIC] = {0, 0, ANY(0, X86_VPSRAVW, X86_VPSRAVD, X86_VPSRAVQ)},
};
#undef ANY
#undef ALL

static int log2_of(int size) {
  return __builtin_ctz((unsigned)size);
}

static X86Op by_size(const X86Op ops[4], const Select *s) {
  return ops[log2_of(s->size)];
}

static X86Op direct_op(VecOp vec, const Select *s) {
  const Direct *row = &direct[vec];
  const X86Op op =
      s->is_float ? s->size == 4 ? row->f32 : row->f64 : by_size(s->is_signed ? row->s : row->u, s);
  return inst_has(s->body, op) ? op : X86_NONE;
}

// The op of two operands, or of one.
static int direct_inst(VecOp vec, const Select *s, int x, int y) {
  const X86Op op = direct_op(vec, s);
  return y < 0 ? inst_op(s->body, op, s->size, -1, x, 0) : inst_op(s->body, op, s->size, x, y, 0);
}

static int konst(const Select *s, uint64_t bits) {
  return inst_const(s->body, bits, s->size);
}
static int op2(const Select *s, X86Op op, int x, int y) {
  return inst_op(s->body, op, s->size, x, y, 0);
}
static int shift(const Select *s, X86Op op, int x, int by) {
  return inst_op(s->body, op, s->size, -1, x, by);
}
static bool is_const(const Select *s, int value) {
  return s->body->values.at[value].constant;
}
static uint64_t const_bits(const Select *s, int value) {
  const uint64_t word = s->body->values.at[value].word[0];
  return s->size == 8 ? word : word & ((UINT64_C(1) << 8 * s->size) - 1);
}
static uint64_t sign_bit(const Select *s) {
  return UINT64_C(1) << (8 * s->size - 1);
}
static uint64_t one_bits(const Select *s) {
  return !s->is_float ? 1 : s->size == 4 ? 0x3f800000 : 0x3ff0000000000000;
}
static uint64_t infinity_bits(const Select *s) {
  return s->size == 4 ? 0x7f800000 : 0x7ff0000000000000;
}
static X86Op ps_or_pd(const Select *s, X86Op ps, X86Op pd) {
  return s->size == 4 ? ps : pd;
}

static Select select_of(EmitBody *body, HlDtype dtype, int x, int y, int z) {
  const HlDtype carrier = vec_carrier(dtype);
  return (Select){
      body, carrier, hl_dtype_bytes(carrier), hl_is_float(carrier), hl_is_signed(carrier), x, y, z};
}

// --- Comparisons -------------------------------------------------------------------------------------

// Of floats: the predicate, false for nan but NE. Of integers in EVEX: the predicate. In AVX2 integers know == and > alone: the
// operands change places, or the result is turned.
typedef struct Compare {
  VecOp vec;
  uint8_t floats, ints;
  bool equal, swap, invert;
} Compare;
static const Compare compares[] = {
    {VEC_EQ, 0, 0, true, false, false},   {VEC_NE, 4, 4, true, false, true},
    {VEC_LT, 17, 1, false, true, false},  {VEC_LE, 18, 2, false, false, true},
    {VEC_GT, 30, 6, false, false, false}, {VEC_GE, 29, 5, false, true, true}};

static int not_bits(const Select *s, int x) {
  return op2(s, X86_VPXOR, x, konst(s, UINT64_MAX));
}

static int compare_floats(const Select *s, int predicate, int x, int y) {
  const X86Op vex = ps_or_pd(s, X86_VCMPPS, X86_VCMPPD),
              evex = ps_or_pd(s, X86_VCMPPS_K, X86_VCMPPD_K);
  return inst_op(s->body, s->body->evex ? evex : vex, s->size, x, y, predicate);
}

static int compare_ints(const Select *s, const Compare *c, bool is_signed, int x, int y) {
  static const X86Op equal[] = {X86_VPCMPEQB, X86_VPCMPEQW, X86_VPCMPEQD, X86_VPCMPEQQ},
                     greater[] = {X86_VPCMPGTB, X86_VPCMPGTW, X86_VPCMPGTD, X86_VPCMPGTQ},
                     signed_[] = {X86_VPCMPB_K, X86_VPCMPW_K, X86_VPCMPD_K, X86_VPCMPQ_K},
                     unsigned_[] = {X86_VPCMPUB_K, X86_VPCMPUW_K, X86_VPCMPUD_K, X86_VPCMPUQ_K};
  if (s->body->evex)
    return inst_op(s->body, by_size(is_signed ? signed_ : unsigned_, s), s->size, x, y, c->ints);
  if (!c->equal && !is_signed) {
    x = op2(s, X86_VPXOR, x, konst(s, sign_bit(s)));
    y = op2(s, X86_VPXOR, y, konst(s, sign_bit(s)));
  }
  const int mask = c->swap ? op2(s, by_size(c->equal ? equal : greater, s), y, x)
                           : op2(s, by_size(c->equal ? equal : greater, s), x, y);
  return c->invert ? not_bits(s, mask) : mask;
}

static int less_than_zero(const Select *s, int x) {
  return compare_ints(s, &compares[2], true, x, konst(s, 0));
}

// The bits of floats as integers in their total order: the magnitude of negative ones is turned round.
static int total_key(const Select *s, int x) {
  const int negative = less_than_zero(s, x);
  const int turn = op2(s, X86_VPAND, negative, konst(s, sign_bit(s) - 1));
  return op2(s, X86_VPXOR, x, turn);
}

static int select_total(const Select *s, const Compare *c) {
  return compare_ints(s, c, true, total_key(s, s->x), total_key(s, s->y));
}

int select_compare(EmitBody *body, VecOp vec, HlDtype dtype, int x, int y) {
  const Select s = select_of(body, dtype, x, y, -1);
  const bool total = vec >= VEC_TOTAL_EQ && vec <= VEC_TOTAL_GE;
  for (int k = 0; k < HL_COUNT_OF(compares); k++) {
    const Compare *c = &compares[k];
    if (c->vec != (total ? (VecOp)(vec - VEC_TOTAL_EQ + VEC_EQ) : vec))
      continue;
    if (s.is_float)
      return total ? select_total(&s, c) : compare_floats(&s, c->floats, x, y);
    return compare_ints(&s, c, s.is_signed, x, y);
  }
  return -1;
}

// --- Larger and smaller ------------------------------------------------------------------------------

// vmaxps and vminps give their second operand where one is nan or both are zeros.
static int pick(const Select *s, bool larger, int x, int y) {
  const X86Op op =
      larger ? ps_or_pd(s, X86_VMAXPS, X86_VMAXPD) : ps_or_pd(s, X86_VMINPS, X86_VMINPD);
  return op2(s, op, x, y);
}

static bool is_nan(const Select *s, uint64_t bits) {
  return (bits & ~sign_bit(s)) > infinity_bits(s);
}
static bool is_zero(const Select *s, uint64_t bits) {
  return (bits & ~sign_bit(s)) == 0;
}
static int nan_mask(const Select *s, int x, int y) {
  return compare_floats(s, 3, x, y);
}

// With a constant that is no nan the other operand's nan is the only one. Of zeros the other wins, and is right but where the
// constant is the one that ought to win: then maximum's +0 can be added.
static int pick_const(const Select *s, bool larger, int x, int c) {
  const uint64_t bits = const_bits(s, c);
  const int picked = pick(s, larger, c, x);
  if (!larger || bits != 0)
    return picked;
  return op2(s, ps_or_pd(s, X86_VADDPS, X86_VADDPD), picked, c);
}

// The first nan; of zeros, +0 is the larger: equal numbers are joined bit by bit.
static int larger_or_smaller(const Select *s, bool larger) {
  const bool min_of_minus_zero = !larger;
  for (int k = 0; k < 2; k++) {
    const int c = k ? s->x : s->y, x = k ? s->y : s->x;
    if (is_const(s, c) && !is_nan(s, const_bits(s, c)) &&
        !(min_of_minus_zero && const_bits(s, c) == sign_bit(s)))
      return pick_const(s, larger, x, c);
  }
  const int a = pick(s, larger, s->x, s->y), b = pick(s, larger, s->y, s->x);
  const int joined = op2(s, larger ? X86_VPAND : X86_VPOR, a, b);
  const int sum = op2(s, ps_or_pd(s, X86_VADDPS, X86_VADDPD), s->x, s->y);
  return inst_select(s->body, s->size, nan_mask(s, s->x, s->y), sum, joined);
}

static int select_maximum(const Select *s) {
  if (s->is_float)
    return larger_or_smaller(s, true);
  const int greater = compare_ints(s, &compares[4], s->is_signed, s->x, s->y);
  return inst_select(s->body, s->size, greater, s->x, s->y);
}

static int select_minimum(const Select *s) {
  if (s->is_float)
    return larger_or_smaller(s, false);
  const int greater = compare_ints(s, &compares[4], s->is_signed, s->x, s->y);
  return inst_select(s->body, s->size, greater, s->y, s->x);
}

// low, x, high. Floats: the first nan wins; otherwise x > low ? x : low, then r < high ? r : high.
static int select_clamp(const Select *s) {
  const int low = s->x, x = s->y, high = s->z;
  if (!s->is_float) {
    Select first = *s, second = *s;
    first.y = low, first.x = x;
    second.x =
        direct_op(VEC_MAXIMUM, s) ? direct_inst(VEC_MAXIMUM, s, low, x) : select_maximum(&first);
    second.y = high;
    return direct_op(VEC_MINIMUM, s) ? direct_inst(VEC_MINIMUM, s, second.x, high)
                                     : select_minimum(&second);
  }
  const bool constant = is_const(s, low) && is_const(s, high);
  const uint64_t l = constant ? const_bits(s, low) : 0, h = constant ? const_bits(s, high) : 0;
  if (constant && !is_nan(s, l) && !is_nan(s, h) && !is_zero(s, h) && l != sign_bit(s))
    return pick(s, false, high, pick_const(s, true, x, low));
  const int r = pick(s, false, pick(s, true, x, low), high);
  const int of_x = inst_select(s->body, s->size, nan_mask(s, x, x), x, r);
  return inst_select(s->body, s->size, nan_mask(s, low, low), low, of_x);
}

// --- Signs and rounding ------------------------------------------------------------------------------

static int negative_mask(const Select *s, int x) {  // of integers
  return less_than_zero(s, x);
}

static int select_abs(const Select *s) {
  if (s->is_float)
    return op2(s, X86_VPAND, s->x, konst(s, sign_bit(s) - 1));
  if (!s->is_signed)
    return s->x;
  const int sign = negative_mask(s, s->x);
  return direct_inst(VEC_SUBTRACT, s, op2(s, X86_VPXOR, s->x, sign), sign);
}

static int select_negate(const Select *s) {
  if (s->is_float)
    return op2(s, X86_VPXOR, s->x, konst(s, sign_bit(s)));
  return direct_inst(VEC_SUBTRACT, s, konst(s, 0), s->x);
}

static int with_sign_of(const Select *s, int magnitude, int x) {
  return op2(s, X86_VPOR, op2(s, X86_VPAND, x, konst(s, sign_bit(s))), magnitude);
}

// Zeros and nan stay.
static int select_sign(const Select *s) {
  const int zero = konst(s, 0), one = konst(s, one_bits(s));
  if (s->is_float)
    return inst_select(s->body, s->size, compare_floats(s, 12, s->x, zero),
                       with_sign_of(s, one, s->x), s->x);
  const int positive =
      compare_ints(s, s->is_signed ? &compares[4] : &compares[1], true, s->x, zero);
  return s->is_signed ? direct_inst(VEC_SUBTRACT, s, negative_mask(s, s->x), positive)
                      : op2(s, X86_VPAND, positive, one);
}

static int select_not(const Select *s) {
  return s->is_float ? -1 : not_bits(s, s->x);
}

enum { TO_EVEN = 8, DOWN = 9, UP = 10, TO_ZERO = 11 };  // quietly

static int rounded(const Select *s, int mode) {
  return s->is_float ? shift(s, ps_or_pd(s, X86_VROUNDPS, X86_VROUNDPD), s->x, mode) : -1;
}
static int select_ceil(const Select *s) {
  return rounded(s, UP);
}
static int select_floor(const Select *s) {
  return rounded(s, DOWN);
}
static int select_round_even(const Select *s) {
  return rounded(s, TO_EVEN);
}

// Away from zero where a half or more is lost.
static int select_round_away(const Select *s) {
  const int t = rounded(s, TO_ZERO);
  if (t < 0)
    return -1;
  const uint64_t half = s->size == 4 ? 0x3f000000 : 0x3fe0000000000000;
  const int lost =
      op2(s, X86_VPAND, direct_inst(VEC_SUBTRACT, s, s->x, t), konst(s, sign_bit(s) - 1));
  const int far = compare_floats(s, 29, lost, konst(s, half));
  const int one = op2(s, X86_VPAND, far, konst(s, one_bits(s)));
  return direct_inst(VEC_ADD, s, t, with_sign_of(s, one, s->x));
}

// --- Products, shifts --------------------------------------------------------------------------------

// Bytes are multiplied as the lower and the upper halves of words; 64 bits by halves.
static int select_multiply(const Select *s) {
  EmitBody *body = s->body;
  if (s->size == 1) {
    const int low = op2(s, X86_VPMULLW, s->x, s->y);
    const int high =
        op2(s, X86_VPMULLW, shift(s, X86_VPSRLW_I, s->x, 8), shift(s, X86_VPSRLW_I, s->y, 8));
    return op2(s, X86_VPOR, op2(s, X86_VPAND, low, inst_const(body, 0x00ff, 2)),
               shift(s, X86_VPSLLW_I, high, 8));
  }
  const int xh = shift(s, X86_VPSRLQ_I, s->x, 32), yh = shift(s, X86_VPSRLQ_I, s->y, 32);
  const int across =
      op2(s, X86_VPADDQ, op2(s, X86_VPMULUDQ, s->x, yh), op2(s, X86_VPMULUDQ, xh, s->y));
  return op2(s, X86_VPADDQ, op2(s, X86_VPMULUDQ, s->x, s->y), shift(s, X86_VPSLLQ_I, across, 32));
}

// Of 32 bits as f64, whose quotients are near enough that their whole parts are right. By 0: all ones, or what was divided.
static int select_divide(const Select *s, bool remainder) {
  EmitBody *body = s->body;
  const X86Op widen = s->is_signed ? X86_VCVTDQ2PD : X86_VCVTUDQ2PD,
              narrow = s->is_signed ? X86_VCVTTPD2DQ : X86_VCVTTPD2UDQ;
  if (s->is_float || s->size != 4 || !inst_has(body, widen))
    return -1;
  const int x = inst_op(body, widen, 8, -1, s->x, 0), y = inst_op(body, widen, 8, -1, s->y, 0);
  const int q = inst_op(body, narrow, 8, -1, inst_op(body, X86_VDIVPD, 8, x, y, 0), 0);
  const int by_zero = compare_ints(s, &compares[0], s->is_signed, s->y, konst(s, 0));
  if (!remainder)
    return inst_select(body, s->size, by_zero, konst(s, UINT64_MAX), q);
  const int rest = direct_inst(VEC_SUBTRACT, s, s->x, op2(s, X86_VPMULLD, q, s->y));
  return inst_select(body, s->size, by_zero, s->x, rest);
}

// By a constant. Bytes are shifted as words, and what came from the neighbour cleared.
static int shift_by_const(const Select *s, VecOp vec) {
  static const X86Op left[] = {X86_VPSLLW_I, X86_VPSLLW_I, X86_VPSLLD_I, X86_VPSLLQ_I},
                     right[] = {X86_VPSRLW_I, X86_VPSRLW_I, X86_VPSRLD_I, X86_VPSRLQ_I},
                     arithmetic[] = {0, X86_VPSRAW_I, X86_VPSRAD_I, X86_VPSRAQ_I};
  const int bits = 8 * s->size;
  const uint64_t amount = const_bits(s, s->y);
  const bool keeps_sign = vec == VEC_SHIFT_RIGHT_ARITHMETIC;
  const int by = amount < (uint64_t)bits ? (int)amount : keeps_sign ? bits - 1 : -1;
  if (by < 0)
    return konst(s, 0);
  if (keeps_sign && inst_has(s->body, by_size(arithmetic, s)))
    return shift(s, by_size(arithmetic, s), s->x, by);
  const int moved = shift(s, by_size(vec == VEC_SHIFT_LEFT ? left : right, s), s->x, by);
  const uint64_t ones = s->size == 8 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  const int kept = s->size > 1 ? moved
                               : op2(s, X86_VPAND, moved,
                                     konst(s, vec == VEC_SHIFT_LEFT ? ones << by : ones >> by));
  if (!keeps_sign)
    return kept;
  const int sign = konst(s, sign_bit(s) >> by);  // extended from there
  return direct_inst(VEC_SUBTRACT, s, op2(s, X86_VPXOR, kept, sign), sign);
}

static int select_shift(const Select *s, VecOp vec) {
  if (s->is_float)
    return -1;
  if (is_const(s, s->y))
    return shift_by_const(s, vec);
  if (direct_op(vec, s))
    return direct_inst(vec, s, s->x, s->y);
  if (vec != VEC_SHIFT_RIGHT_ARITHMETIC || s->size != 8)
    return -1;
  const int sign = negative_mask(s, s->x);  // of ~x zeros come in from above
  return op2(s, X86_VPXOR, op2(s, X86_VPSRLVQ, op2(s, X86_VPXOR, s->x, sign), s->y), sign);
}

// --- Into range ----------------------------------------------------------------------------------------

// A sub-byte integer's lower bits, extended.
static int select_wrap(const Select *s, HlDtype dtype) {
  const int bits = hl_dtype_info[dtype].bits;
  if (!hl_is_integral(dtype) || bits >= 8)
    return s->x;
  const int low = op2(s, X86_VPAND, s->x, konst(s, (UINT64_C(1) << bits) - 1));
  if (!hl_is_signed(dtype))
    return low;
  const int sign = konst(s, UINT64_C(1) << (bits - 1));
  return op2(s, X86_VPSUBB, op2(s, X86_VPXOR, low, sign), sign);
}

// --- Preds -------------------------------------------------------------------------------------------

int inst_mask(EmitBody *body, EmitTyped *pred, int size) {
  if (body->values.at[pred->value].constant)
    return pred->value;
  int *made = &pred->resized[log2_of(size)];
  if (*made < 0)
    *made = inst_resize(body, pred->value, pred->size, size, true);
  return *made;
}

// Masks are joined bit by bit; false is less than true.
static bool select_logic(EmitBody *body, VecOp vec, EmitTyped *const in[3], EmitTyped *out) {
  int size = 0, operand[3] = {-1, -1, -1};
  for (int k = 0; k < vec_info[vec].operands; k++)
    size = in[k]->size > size ? in[k]->size : size;
  for (int k = 0; k < vec_info[vec].operands; k++)
    operand[k] = inst_mask(body, in[k], size);
  const Select s = {body, HL_PRED, size, false, false, operand[0], operand[1], operand[2]};
  int value = -1;
  switch (vec) {
  case VEC_ADD:
  case VEC_OR:
  case VEC_MAXIMUM: value = op2(&s, X86_VPOR, s.x, s.y); break;
  case VEC_MULTIPLY:
  case VEC_AND:
  case VEC_MINIMUM: value = op2(&s, X86_VPAND, s.x, s.y); break;
  case VEC_XOR:
  case VEC_NE: value = op2(&s, X86_VPXOR, s.x, s.y); break;
  case VEC_EQ: value = not_bits(&s, op2(&s, X86_VPXOR, s.x, s.y)); break;
  case VEC_LT: value = op2(&s, X86_VPANDN, s.x, s.y); break;
  case VEC_GT: value = op2(&s, X86_VPANDN, s.y, s.x); break;
  case VEC_LE: value = not_bits(&s, op2(&s, X86_VPANDN, s.y, s.x)); break;
  case VEC_GE: value = not_bits(&s, op2(&s, X86_VPANDN, s.x, s.y)); break;
  case VEC_NOT: value = not_bits(&s, s.x); break;
  case VEC_COPY: value = s.x; break;
  case VEC_CLAMP: value = op2(&s, X86_VPAND, op2(&s, X86_VPOR, s.x, s.y), s.z); break;
  case VEC_SELECT: value = inst_select(body, size, s.x, s.y, s.z); break;
  default: return false;
  }
  *out = (EmitTyped){value, size, {-1, -1, -1, -1}};
  return true;
}

// --- Which -------------------------------------------------------------------------------------------

static int select_value(const Select *s, VecOp vec, HlDtype dtype) {
  switch (vec) {
  case VEC_SHIFT_LEFT:
  case VEC_SHIFT_RIGHT_LOGICAL:
  case VEC_SHIFT_RIGHT_ARITHMETIC: return select_shift(s, vec);
  case VEC_COPY: return s->x;
  case VEC_WRAP: return select_wrap(s, dtype);
  default: break;
  }
  if (direct_op(vec, s))
    return direct_inst(vec, s, s->x, s->y);
  switch (vec) {
  case VEC_ABS: return select_abs(s);
  case VEC_NEGATE: return select_negate(s);
  case VEC_SIGN: return select_sign(s);
  case VEC_NOT: return select_not(s);
  case VEC_CEIL: return select_ceil(s);
  case VEC_FLOOR: return select_floor(s);
  case VEC_ROUND_NEAREST_EVEN: return select_round_even(s);
  case VEC_ROUND_NEAREST_AFZ: return select_round_away(s);
  case VEC_MULTIPLY: return s->is_float ? -1 : select_multiply(s);
  case VEC_DIVIDE: return select_divide(s, false);
  case VEC_REMAINDER: return select_divide(s, true);
  case VEC_MAXIMUM: return select_maximum(s);
  case VEC_MINIMUM: return select_minimum(s);
  case VEC_CLAMP: return select_clamp(s);
  default: return s->dtype == HL_F32 ? select_math(s->body, vec, s->x) : -1;
  }
}

bool select_vec(EmitBody *body, const EmitOp *op, EmitTyped *const in[3], EmitTyped *out) {
  const VecOp vec = op->vec;
  if (op->dtype == HL_PRED)
    return select_logic(body, vec, in, out);
  const int n = vec_info[vec].operands;
  const Select s = select_of(body, op->dtype, in[0]->value, n > 1 ? in[1]->value : -1,
                             n > 2 ? in[2]->value : -1);
  int value = -1;
  bool mask = false;
  const bool shifts =
      vec == VEC_SHIFT_LEFT || vec == VEC_SHIFT_RIGHT_ARITHMETIC || vec == VEC_SHIFT_RIGHT_LOGICAL;
  if (shifts && hl_dtype_info[op->dtype].bits < 8)
    return false;
  if (vec == VEC_SELECT) {
    value = inst_select(body, s.size, inst_mask(body, in[0], s.size), s.y, s.z);
  } else if (vec == VEC_IS_FINITE) {
    mask = true;
    if (s.is_float)
      value = compare_floats(&s, 17, select_abs(&s), konst(&s, infinity_bits(&s)));
  } else if (vec >= VEC_EQ && vec <= VEC_TOTAL_GE) {
    mask = true;
    value = select_compare(body, vec, op->dtype, s.x, s.y);
  } else {
    value = select_value(&s, vec, op->dtype);
  }
  *out = (EmitTyped){value, s.size, {-1, -1, -1, -1}};
  if (mask && value >= 0)
    out->resized[log2_of(s.size)] = value;
  return value >= 0;
}
