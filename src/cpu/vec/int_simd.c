// cpu/vec/int_simd.c: vector functions of integers and preds, and those that only move bits.

#include "cpu/vec/block.h"

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UWide;

// --- The same bits for signed and unsigned ------------------------------------------------------

// W computes: at least 32 bits, so that nothing is promoted to a signed type.
#define BY_SIZE(n, S, U, W)                                                \
  FN1(negate_##n, U, U, 0 - (W)x)                                          \
  FN1(not_##n, U, U, ~x)                                                   \
  FN1(copy_##n, U, U, x)                                                   \
  FN1(popcnt_##n, U, U, __builtin_popcountll(x))                           \
  FN1(leading_zeros_##n, U, U, x == 0 ? n : __builtin_clzll(x) - (64 - n)) \
  FN2(add_##n, U, U, (W)x + (W)y)                                          \
  FN2(subtract_##n, U, U, (W)x - (W)y)                                     \
  FN2(multiply_##n, U, U, (W)x *(W)y)                                      \
  FN2(and_##n, U, U, x &y)                                                 \
  FN2(or_##n, U, U, x | y)                                                 \
  FN2(xor_##n, U, U, x ^ y)                                                \
  FN2(shift_left_##n, U, U, y > n - 1 ? 0 : (W)x << (y & (n - 1)))         \
  FN2(shift_right_##n, U, U, y > n - 1 ? 0 : x >> (y & (n - 1)))           \
  FN2(shift_right_signed_##n, U, U, (S)x >> (y > n - 1 ? n - 1 : (int)y))  \
  FN2(eq_##n, uint8_t, U, x == y)                                          \
  FN2(ne_##n, uint8_t, U, x != y)                                          \
  FN3(select_##n, U, uint8_t, U, x ? y : z)

BY_SIZE(8, int8_t, uint8_t, uint32_t)
BY_SIZE(16, int16_t, uint16_t, uint32_t)
BY_SIZE(32, int32_t, uint32_t, uint32_t)
BY_SIZE(64, int64_t, uint64_t, uint64_t)

// --- By sign ------------------------------------------------------------------------------------

// min(max, max(x, min)): where the bounds cross, max wins.
#define CLAMP(low, x, high) (low < x ? (x < high ? x : high) : (low < high ? low : high))
#define BY_SIGN(n, T)                   \
  FN2(maximum_##n, T, T, x > y ? x : y) \
  FN2(minimum_##n, T, T, x < y ? x : y) \
  FN2(lt_##n, uint8_t, T, x < y)        \
  FN2(le_##n, uint8_t, T, x <= y)       \
  FN2(gt_##n, uint8_t, T, x > y)        \
  FN2(ge_##n, uint8_t, T, x >= y)       \
  FN3(clamp_##n, T, T, T, CLAMP(x, y, z))

BY_SIGN(s8, int8_t)
BY_SIGN(s16, int16_t)
BY_SIGN(s32, int32_t)
BY_SIGN(s64, int64_t)
BY_SIGN(u8, uint8_t)
BY_SIGN(u16, uint16_t)
BY_SIGN(u32, uint32_t)
BY_SIGN(u64, uint64_t)

static inline uint64_t power_unsigned(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

// Negative exponents give the truncated quotient: 0, unless the base is 1 or -1.
static inline uint64_t power_signed(int64_t base, int64_t exponent) {
  if (exponent >= 0)
    return power_unsigned((uint64_t)base, (uint64_t)exponent);
  return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? UINT64_MAX : 0;
}

// x / 0 is all ones; the most negative integer over -1 wraps to itself.
#define SIGNED(n, S, W, WW)                                               \
  FN1(abs_##n, S, S, x < 0 ? 0 - (W)x : (W)x)                             \
  FN1(sign_##n, S, S, (x > 0) - (x < 0))                                  \
  FN2(mulhi_##n, S, S, (WW)x *(WW)y >> sizeof(S) * 8)                     \
  FN2(divide_##n, S, S, y == 0 ? (W)-1 : y == -1 ? 0 - (W)x : (W)(x / y)) \
  FN2(remainder_##n, S, S, y == 0 ? x : y == -1 ? 0 : x % y)              \
  FN2(power_##n, S, S, power_signed(x, y))
#define UNSIGNED(n, U, WW)                            \
  FN1(sign_##n, U, U, x > 0)                          \
  FN2(mulhi_##n, U, U, (WW)x *(WW)y >> sizeof(U) * 8) \
  FN2(divide_##n, U, U, y == 0 ? (U)-1 : x / y)       \
  FN2(remainder_##n, U, U, y == 0 ? x : x % y)        \
  FN2(power_##n, U, U, power_unsigned(x, y))

SIGNED(s8, int8_t, uint32_t, int32_t)
SIGNED(s16, int16_t, uint32_t, int32_t)
SIGNED(s32, int32_t, uint32_t, int64_t)
SIGNED(s64, int64_t, uint64_t, Wide)
UNSIGNED(u8, uint8_t, uint32_t)
UNSIGNED(u16, uint16_t, uint32_t)
UNSIGNED(u32, uint32_t, uint64_t)
UNSIGNED(u64, uint64_t, UWide)

FN1(not_pred, uint8_t, uint8_t, !x)

// --- Integers of few bits -----------------------------------------------------------------------

#define UNUSED(bits) (8 - (bits))
#define WRAP(bits)                                                                         \
  FN1(wrap_s##bits, int8_t, uint8_t, (int8_t)(uint8_t)(x << UNUSED(bits)) >> UNUSED(bits)) \
  FN1(wrap_u##bits, uint8_t, uint8_t, x &((1 << bits) - 1))
WRAP(1)
WRAP(2)
WRAP(4)

const VecWrapTable SIMD(vec_wraps) = {[HL_S1] = wrap_s1, [HL_S2] = wrap_s2, [HL_S4] = wrap_s4,
                                      [HL_U1] = wrap_u1, [HL_U2] = wrap_u2, [HL_U4] = wrap_u4};

// --- The table ----------------------------------------------------------------------------------

#define SIZES(name)                                                                    \
  [VEC_CLASS_S8] = name##_8, [VEC_CLASS_S16] = name##_16, [VEC_CLASS_S32] = name##_32, \
  [VEC_CLASS_S64] = name##_64, [VEC_CLASS_U8] = name##_8, [VEC_CLASS_U16] = name##_16, \
  [VEC_CLASS_U32] = name##_32, [VEC_CLASS_U64] = name##_64
#define SIGNS(name)                                                                       \
  [VEC_CLASS_S8] = name##_s8, [VEC_CLASS_S16] = name##_s16, [VEC_CLASS_S32] = name##_s32, \
  [VEC_CLASS_S64] = name##_s64, [VEC_CLASS_U8] = name##_u8, [VEC_CLASS_U16] = name##_u16, \
  [VEC_CLASS_U32] = name##_u32, [VEC_CLASS_U64] = name##_u64
#define PRED(name) [VEC_CLASS_PRED] = name

const VecIntTable SIMD(vec_ints) = {
    [VEC_ABS] = {[VEC_CLASS_S8] = abs_s8,
                 [VEC_CLASS_S16] = abs_s16,
                 [VEC_CLASS_S32] = abs_s32,
                 [VEC_CLASS_S64] = abs_s64,
                 [VEC_CLASS_U8] = copy_8,
                 [VEC_CLASS_U16] = copy_16,
                 [VEC_CLASS_U32] = copy_32,
                 [VEC_CLASS_U64] = copy_64},
    [VEC_NEGATE] = {SIZES(negate)},
    [VEC_SIGN] = {SIGNS(sign)},
    [VEC_NOT] = {PRED(not_pred), SIZES(not )},
    [VEC_COUNT_LEADING_ZEROS] = {SIZES(leading_zeros)},
    [VEC_POPCNT] = {SIZES(popcnt)},
    [VEC_ADD] = {PRED(or_8), SIZES(add)},
    [VEC_SUBTRACT] = {SIZES(subtract)},
    [VEC_MULTIPLY] = {PRED(and_8), SIZES(multiply)},
    [VEC_MULHI] = {SIGNS(mulhi)},
    [VEC_DIVIDE] = {SIGNS(divide)},
    [VEC_REMAINDER] = {SIGNS(remainder)},
    [VEC_MAXIMUM] = {PRED(or_8), SIGNS(maximum)},
    [VEC_MINIMUM] = {PRED(and_8), SIGNS(minimum)},
    [VEC_POWER] = {SIGNS(power)},
    [VEC_AND] = {PRED(and_8), SIZES(and)},
    [VEC_OR] = {PRED(or_8), SIZES(or)},
    [VEC_XOR] = {PRED(xor_8), SIZES(xor)},
    [VEC_SHIFT_LEFT] = {SIZES(shift_left)},
    [VEC_SHIFT_RIGHT_ARITHMETIC] = {SIZES(shift_right_signed)},
    [VEC_SHIFT_RIGHT_LOGICAL] = {SIZES(shift_right)},
    [VEC_EQ] = {PRED(eq_8), SIZES(eq)},
    [VEC_NE] = {PRED(ne_8), SIZES(ne)},
    [VEC_LT] = {PRED(lt_u8), SIGNS(lt)},
    [VEC_LE] = {PRED(le_u8), SIGNS(le)},
    [VEC_GT] = {PRED(gt_u8), SIGNS(gt)},
    [VEC_GE] = {PRED(ge_u8), SIGNS(ge)},
    [VEC_TOTAL_EQ] = {PRED(eq_8), SIZES(eq)},
    [VEC_TOTAL_NE] = {PRED(ne_8), SIZES(ne)},
    [VEC_TOTAL_LT] = {PRED(lt_u8), SIGNS(lt)},
    [VEC_TOTAL_LE] = {PRED(le_u8), SIGNS(le)},
    [VEC_TOTAL_GT] = {PRED(gt_u8), SIGNS(gt)},
    [VEC_TOTAL_GE] = {PRED(ge_u8), SIGNS(ge)},
    [VEC_CLAMP] = {PRED(clamp_u8), SIGNS(clamp)},
    [VEC_SELECT] = {PRED(select_8), SIZES(select)},
    [VEC_COPY] = {PRED(copy_8), SIZES(copy)},
    [VEC_WRAP] = {PRED(copy_8), SIZES(copy)},
};
