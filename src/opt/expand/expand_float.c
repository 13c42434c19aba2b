// opt/expand/expand_float.c
//
// Expanders of elementwise ops on floats:
//
//   logistic-expander            logistic(x)  =>  1 / (1 + exp(-x))
//   comparison-expander          compare(x, y), type=TOTALORDER  =>  a comparison of integers
//   stochastic_convert_decomposer
//     stochastic-convert(x, r)  =>  trunc(|x|), one more where r falls below what was cut off, with
//                                   x's sign
//
// The bits of a float read as a signed integer are in order for positive numbers and in reverse
// order for negative ones: flipping all but the sign there gives integers in the total order, -nan
// first and nan last.

#include <string.h>

#include "opt/passes.h"

// --- logistic -----------------------------------------------------------------------------------

// In types of a byte or less the power is out of range for most x, and some have no infinity to say
// so: logistic(-8) would be nan.
static HlInst *expand_logistic(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlDtype dtype = inst->shape->dtype;
  bool is_narrow = hl_is_float(dtype) && hl_dtype_info[dtype].bits < 16;
  HlInst *x = hl_b_convert(b, hl_operand(inst, 0), is_narrow ? HL_F32 : dtype);
  HlInst *one = hl_b_like(b, x, 1);
  HlInst *power = hl_b_unary(b, HL_OP_EXPONENTIAL, hl_b_unary(b, HL_OP_NEGATE, x));
  HlInst *quotient = hl_b_binary(b, HL_OP_DIVIDE, one, hl_b_binary(b, HL_OP_ADD, one, power));
  return hl_b_convert(b, quotient, dtype);
}

const HlRule rules_logistic[] = {
    {HL_OP_LOGISTIC, expand_logistic, "logistic-expander",
     "logistic(x) => 1 / (1 + exp(-x)), of types of a byte or less by way of f32", ""},
    {0}};

// --- comparison ---------------------------------------------------------------------------------

static HlDtype integer_of(int bits, bool is_signed) {
  switch (bits) {
  case 4: return is_signed ? HL_S4 : HL_U4;
  case 8: return is_signed ? HL_S8 : HL_U8;
  case 16: return is_signed ? HL_S16 : HL_U16;
  case 32: return is_signed ? HL_S32 : HL_U32;
  case 64: return is_signed ? HL_S64 : HL_U64;
  default: return HL_NO_DTYPE;
  }
}

// The constants of one comparison, which both sides share.
typedef struct Marks {
  HlInst *zero, *greatest, *least;
} Marks;

// As XLA writes it: broadcast even to a scalar.
static HlInst *mark_like(HlBuild *b, HlInst *x, int64_t value) {
  HlInst *mark = hl_b_like_int(b, x, value);
  return mark && x->shape->rank == 0 ? hl_b_broadcast(b, mark, 0, NULL, (HlI64s){0}) : mark;
}

static Marks marks_like(HlBuild *b, HlInst *x) {
  const int bits = hl_dtype_info[x->shape->dtype].bits;
  const int64_t greatest = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
  return (Marks){mark_like(b, x, 0), mark_like(b, x, greatest), mark_like(b, x, -greatest - 1)};
}

// Integers in the order of the floats. Types without a negative zero have their only nan there: it
// is the least, and negative numbers are counted from the least integer.
static HlInst *in_order(HlBuild *b, HlInst *x, const Marks *marks, bool has_negative_zero) {
  HlInst *is_negative = hl_b_compare(b, HL_WORD_direction_LT, x, marks->zero);
  if (has_negative_zero)
    return hl_b_select(b, is_negative, hl_b_binary(b, HL_OP_XOR, marks->greatest, x), x);
  HlInst *is_nan = hl_b_compare(b, HL_WORD_direction_EQ, x, marks->least);
  HlInst *counted =
      hl_b_select(b, is_nan, marks->least, hl_b_binary(b, HL_OP_SUBTRACT, marks->least, x));
  return hl_b_select(b, is_negative, counted, x);
}

// The type that the option "upcast" (FROM:TO, ...) names for comparisons of a type, or the type
// itself.
static HlDtype upcast_of(HlPass *p, HlDtype from) {
  const char *text = hl_pass_text(p, "upcast");
  size_t n = strlen(hl_dtype_text(from));
  for (const char *at = text; *at; at += *at == ',') {
    const char *end = at + strcspn(at, ",");
    if (strncmp(at, hl_dtype_text(from), n) == 0 && at[n] == ':') {
      HlDtype to = hl_dtype_by_text((HlStr){at + n + 1, (size_t)(end - at - (ptrdiff_t)n - 1)});
      return to == HL_NO_DTYPE ? from : to;
    }
    at = end;
  }
  return from;
}

static HlInst *expand_comparison(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0), *y = hl_operand(inst, 1);
  HlDtype dtype = x->shape->dtype;
  if (!hl_is_float(dtype) || y->shape->dtype != dtype ||
      hl_comparison_type(inst) != HL_WORD_comparison_type_TOTALORDER)
    return NULL;
  HlDtype wide = upcast_of(p, dtype);
  const HlFloatFormat *format = &hl_dtype_info[wide].format;
  const bool is_signed = format->bits == 0 || format->nan != HL_NAN_E8M0;
  const HlDtype integer = integer_of(hl_dtype_info[wide].bits, is_signed);
  if (integer == HL_NO_DTYPE)
    return NULL;
  const int direction = (int)hl_attr_int(inst, HL_A_DIRECTION);
  x = hl_b_bitcast_convert(b, hl_b_convert(b, x, wide), integer);
  y = hl_b_bitcast_convert(b, hl_b_convert(b, y, wide), integer);
  if (!x || !y || !is_signed)
    return hl_b_compare(b, direction, x, y);
  const Marks marks = marks_like(b, x);
  const bool has_negative_zero = format->bits == 0 || format->nan != HL_NAN_FNUZ;
  return hl_b_compare(b, direction, in_order(b, x, &marks, has_negative_zero),
                      in_order(b, y, &marks, has_negative_zero));
}

const HlRule rules_comparison[] = {
    {HL_OP_COMPARE, expand_comparison, "comparison-expander",
     "compare(x, y), type=TOTALORDER => compare(ordered bits of x, of y)", "floats"},
    {0}};

// --- stochastic-convert -------------------------------------------------------------------------

// Random bits are compared with the part cut off, scaled to the same number of bits. Out of the
// integers' range the nearest one is taken, for nan 0.
static HlInst *expand_stochastic_convert(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *x = hl_operand(inst, 0), *random = hl_operand(inst, 1);
  HlDtype to = inst->shape->dtype, from = x->shape->dtype, bits = random->shape->dtype;
  if (!hl_is_signed(to) || !hl_is_float(from) || !hl_is_unsigned(bits))
    return NULL;
  if (hl_dtype_info[from].format.bits > 0 && from != HL_BF16)
    from = HL_F32;  // the scale below would be infinite
  x = hl_b_convert(b, x, from);
  int n_bits = hl_dtype_info[bits].bits, to_bits = hl_dtype_info[to].bits;
  HlInst *sign = hl_b_unary(b, HL_OP_SIGN, x);
  HlInst *is_negative = hl_b_compare(b, HL_WORD_direction_LT, sign, hl_b_like(b, x, 0));
  HlInst *magnitude = hl_b_unary(b, HL_OP_ABS, x);
  HlInst *floor = hl_b_unary(b, HL_OP_FLOOR, magnitude), *whole = hl_b_convert(b, floor, to);
  HlInst *rest = hl_b_binary(b, HL_OP_SUBTRACT, magnitude, floor);
  double scale = 1;
  for (int k = 0; k < n_bits; k++)
    scale *= 2;
  HlInst *scaled = hl_b_binary(b, HL_OP_MULTIPLY, rest, hl_b_like(b, rest, scale));
  HlInst *goes_up = hl_b_compare(b, HL_WORD_direction_LT, random, hl_b_convert(b, scaled, bits));
  HlInst *rounded =
      hl_b_select(b, goes_up, hl_b_binary(b, HL_OP_ADD, whole, hl_b_like_int(b, whole, 1)), whole);
  HlInst *result = hl_b_select(b, is_negative, hl_b_unary(b, HL_OP_NEGATE, rounded), rounded);
  const int64_t max = (int64_t)(((uint64_t)1 << (to_bits - 1)) - 1), min = -max - 1;
  HlInst *high = hl_b_like_int(b, whole, max), *low = hl_b_like_int(b, whole, min);
  HlInst *too_low = hl_b_compare(b, HL_WORD_direction_LE, x, hl_b_like(b, x, (double)min));
  HlInst *too_high = hl_b_compare(b, HL_WORD_direction_GE, x, hl_b_like(b, x, (double)max));
  return hl_b_select(b, too_low, low, hl_b_select(b, too_high, high, result));
}

const HlRule rules_stochastic_convert[] = {
    {HL_OP_STOCHASTIC_CONVERT, expand_stochastic_convert, "stochastic_convert_decomposer",
     "stochastic-convert(x, r) => trunc(|x|) + (r < frac(|x|)), with x's sign", ""},
    {0}};
