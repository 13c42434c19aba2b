// cpu/vec/few_bits.c: the ops of integers of less than a byte that ask how wide the type is; the others are those of bytes.

#include "cpu/vec/block.h"

static inline uint32_t low(uint32_t x, int bits) {
  return x & ((1U << bits) - 1);
}

// x as the type's sign has it: of an unsigned type, too.
static inline int extended(uint32_t x, int bits) {
  return (int8_t)(uint8_t)(x << (8 - bits)) >> (8 - bits);
}

static inline uint32_t leading_zeros(uint32_t x, int bits) {
  const uint32_t own = low(x, bits);
  return (uint32_t)(own == 0 ? bits : __builtin_clz(own) - (32 - bits));
}
static inline uint32_t shift_right(uint32_t x, uint32_t amount, int bits) {
  amount = low(amount, bits);
  return amount >= (uint32_t)bits ? 0 : low(x, bits) >> amount;
}
static inline uint32_t shift_right_signed(uint32_t x, uint32_t amount, int bits) {
  amount = low(amount, bits);
  return (uint32_t)(extended(x, bits) >> (amount >= (uint32_t)bits ? 7 : amount));
}

#define FEW_BITS(bits)                                                             \
  FN1(popcnt_##bits, uint8_t, uint8_t, __builtin_popcount(low(x, bits)))           \
  FN1(leading_zeros_##bits, uint8_t, uint8_t, leading_zeros(x, bits))              \
  FN2(shift_right_##bits, uint8_t, uint8_t, shift_right(x, y, bits))               \
  FN2(shift_right_signed_##bits, uint8_t, uint8_t, shift_right_signed(x, y, bits)) \
  FN2(mulhi_s##bits, int8_t, int8_t, x *y >> bits)                                 \
  FN2(mulhi_u##bits, uint8_t, uint8_t, x *y >> bits)
FEW_BITS(1)
FEW_BITS(2)
FEW_BITS(4)

#define ROW(dtype, sign, bits)                                         \
  [dtype] = {[VEC_POPCNT] = popcnt_##bits,                             \
             [VEC_COUNT_LEADING_ZEROS] = leading_zeros_##bits,         \
             [VEC_SHIFT_RIGHT_LOGICAL] = shift_right_##bits,           \
             [VEC_SHIFT_RIGHT_ARITHMETIC] = shift_right_signed_##bits, \
             [VEC_MULHI] = mulhi_##sign##bits}
const VecVariants vec_few_bits[HL_DTYPE_COUNT][VEC_OP_COUNT] = {ROW(HL_S1, s, 1), ROW(HL_S2, s, 2),
                                                                ROW(HL_S4, s, 4), ROW(HL_U1, u, 1),
                                                                ROW(HL_U2, u, 2), ROW(HL_U4, u, 4)};
