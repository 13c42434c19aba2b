// cpu/vec/convert_simd.c: vector functions that convert, and that round f32 to what a narrow float has.

#include <math.h>

#include "base/bits.h"
#include "cpu/vec/block.h"

// --- To integers: toward zero, saturated, nan is 0 ----------------------------------------------

// Clamped before the cast, to bounds that F has exactly; above `most`, which it may not have, by a choice.
#define TRUNCATE(name, T, F, least, most, most_exact)                   \
  static inline T name(F x) {                                           \
    const F number = x != x ? 0 : x;                                    \
    const F low = number > (F)(least) ? number : (F)(least);            \
    const T whole = (T)(low < (F)(most_exact) ? low : (F)(most_exact)); \
    return low > (F)(most_exact) ? (most) : whole;                      \
  }
#define SMALL_TRUNCATE(name, T, F, least, most)              \
  static inline T name(F x) {                                \
    const F number = x != x ? 0 : x;                         \
    const F low = number > (F)(least) ? number : (F)(least); \
    return (T)(int32_t)(low < (F)(most) ? low : (F)(most));  \
  }
#define TRUNCATES(f, F, most_s32, most_u32, most_s64, most_u64)       \
  SMALL_TRUNCATE(trunc_s8_##f, int8_t, F, INT8_MIN, INT8_MAX)         \
  SMALL_TRUNCATE(trunc_s16_##f, int16_t, F, INT16_MIN, INT16_MAX)     \
  SMALL_TRUNCATE(trunc_u8_##f, uint8_t, F, 0, UINT8_MAX)              \
  SMALL_TRUNCATE(trunc_u16_##f, uint16_t, F, 0, UINT16_MAX)           \
  TRUNCATE(trunc_s32_##f, int32_t, F, INT32_MIN, INT32_MAX, most_s32) \
  TRUNCATE(trunc_s64_##f, int64_t, F, INT64_MIN, INT64_MAX, most_s64) \
  TRUNCATE(trunc_u32_##f, uint32_t, F, 0, UINT32_MAX, most_u32)       \
  TRUNCATE(trunc_u64_##f, uint64_t, F, 0, UINT64_MAX, most_u64)
TRUNCATES(f32, float, 0x7fffff80, 0xffffff00, 0x7fffff8000000000, 0xffffff0000000000)
TRUNCATES(f64, double, 0x7fffffff, 0xffffffff, 0x7ffffffffffffc00, 0xfffffffffffff800)

// --- To f32 on the way to a narrow float ---------------------------------------------------------

// Rounded to odd: where x is not an f32, the neighbour nearer to zero, or the other one, whichever has a mantissa that ends in 1. A
// second rounding, to fewer bits, then gives what one alone would.
static inline float odd_f64(double x) {
  const float nearest = (float)x;
  const double back = (double)nearest;
  const uint32_t bits = hl_f32_bits(nearest);
  const uint32_t toward_zero = bits - (uint32_t)(__builtin_fabs(back) > __builtin_fabs(x));
  return hl_f32_of_bits(back == x || x != x ? bits : toward_zero | 1);
}

// The same of a magnitude: at most 53 bits of it are kept, the last one telling of what was lost.
static inline double odd_magnitude(uint64_t x) {
  const uint64_t lost = x & 0x7ff;
  return (double)(x >> 53 ? (x & ~(uint64_t)0x7ff) | (uint64_t)(lost != 0) << 11 : x);
}
static inline float odd_s64(int64_t x) {
  return odd_f64(x < 0 ? -odd_magnitude(0 - (uint64_t)x) : odd_magnitude((uint64_t)x));
}

// --- The functions ------------------------------------------------------------------------------

// Integers wrap: what is kept of an integer does not depend on signs, what is made of it does.
#define FROM_INT(f, T)                    \
  FN_ONE(u8_of_##f, uint8_t, T, x)        \
  FN_ONE(u16_of_##f, uint16_t, T, x)      \
  FN_ONE(u32_of_##f, uint32_t, T, x)      \
  FN_ONE(u64_of_##f, uint64_t, T, x)      \
  FN_ONE(pred_of_##f, uint8_t, T, x != 0) \
  FN_ONE(f32_of_##f, float, T, x)         \
  FN_ONE(f64_of_##f, double, T, x)
#define FROM_FLOAT(f, T)                            \
  FN_ONE(s8_of_##f, int8_t, T, trunc_s8_##f(x))     \
  FN_ONE(s16_of_##f, int16_t, T, trunc_s16_##f(x))  \
  FN_ONE(s32_of_##f, int32_t, T, trunc_s32_##f(x))  \
  FN_ONE(s64_of_##f, int64_t, T, trunc_s64_##f(x))  \
  FN_ONE(u8_of_##f, uint8_t, T, trunc_u8_##f(x))    \
  FN_ONE(u16_of_##f, uint16_t, T, trunc_u16_##f(x)) \
  FN_ONE(u32_of_##f, uint32_t, T, trunc_u32_##f(x)) \
  FN_ONE(u64_of_##f, uint64_t, T, trunc_u64_##f(x)) \
  FN_ONE(pred_of_##f, uint8_t, T, x != 0)           \
  FN_ONE(f32_of_##f, float, T, x)                   \
  FN_ONE(f64_of_##f, double, T, x)
FROM_INT(s8, int8_t)
FROM_INT(s16, int16_t)
FROM_INT(s32, int32_t)
FROM_INT(s64, int64_t)
FROM_INT(u8, uint8_t)
FROM_INT(u16, uint16_t)
FROM_INT(u32, uint32_t)
FROM_INT(u64, uint64_t)
FROM_FLOAT(f32, float)
FROM_FLOAT(f64, double)
FN_ONE(odd_of_s32, float, int32_t, odd_f64((double)x))
FN_ONE(odd_of_u32, float, uint32_t, odd_f64((double)x))
FN_ONE(odd_of_s64, float, int64_t, odd_s64(x))
FN_ONE(odd_of_u64, float, uint64_t, odd_f64(odd_magnitude(x)))
FN_ONE(odd_of_f64, float, double, odd_f64(x))

// Integers of few bits: from integers by wrapping the byte, from floats by saturating it.
extern const VecWrapTable SIMD(vec_wraps);
extern const VecIntTable SIMD(vec_ints);
#define FEW_OF_INT(to, TO, f)                                                                  \
  static void to##_of_##f(int64_t n, void *out, const void *a, const void *b, const void *c) { \
    u8_of_##f##_0(n, out, a, b, c);                                                            \
    SIMD(vec_wraps)[HL_##TO][0](n, out, out, NULL, NULL);                                      \
  }
#define FEW_OF_FLOAT(to, byte, BYTE, least, most, f)                                           \
  static void to##_of_##f(int64_t n, void *out, const void *a, const void *b, const void *c) { \
    static const uint8_t low = (uint8_t)(least), high = (most);                                \
    byte##_of_##f##_0(n, out, a, b, c);                                                        \
    SIMD(vec_ints)[VEC_CLAMP][VEC_CLASS_##BYTE][5](n, out, &low, out, &high);                  \
  }
#define FEW(bits, f)              \
  FEW_OF_INT(s##bits, S##bits, f) \
  FEW_OF_INT(u##bits, U##bits, f)
#define FEW_FLOAT(bits, f)                                                    \
  FEW_OF_FLOAT(s##bits, s8, S8, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, f) \
  FEW_OF_FLOAT(u##bits, u8, U8, 0, (1 << bits) - 1, f)
#define FEW_OF(f) FEW(1, f) FEW(2, f) FEW(4, f)
FEW_OF(u8)
FEW_OF(u16)
FEW_OF(u32)
FEW_OF(u64)
FEW_FLOAT(1, f32)
FEW_FLOAT(2, f32)
FEW_FLOAT(4, f32)
FEW_FLOAT(1, f64)
FEW_FLOAT(2, f64)
FEW_FLOAT(4, f64)

// --- The table ----------------------------------------------------------------------------------

// `narrow`: what of this type becomes a narrow float once rounded.
#define TO_NARROW(narrow)                                                                       \
  [HL_F4E2M1FN] = narrow, [HL_F6E2M3FN] = narrow, [HL_F6E3M2FN] = narrow, [HL_F8E3M4] = narrow, \
  [HL_F8E4M3] = narrow, [HL_F8E4M3FN] = narrow, [HL_F8E4M3FNUZ] = narrow,                       \
  [HL_F8E4M3B11FNUZ] = narrow, [HL_F8E5M2] = narrow, [HL_F8E5M2FNUZ] = narrow,                  \
  [HL_F8E8M0FNU] = narrow, [HL_F16] = narrow, [HL_BF16] = narrow
#define TO_FEW(bits_of)                                                            \
  [HL_S1] = s1_of_##bits_of, [HL_S2] = s2_of_##bits_of, [HL_S4] = s4_of_##bits_of, \
  [HL_U1] = u1_of_##bits_of, [HL_U2] = u2_of_##bits_of, [HL_U4] = u4_of_##bits_of
#define INT_ROW(f, bits_of, narrow)                                                          \
  {                                                                                          \
    [HL_PRED] = pred_of_##f##_0, [HL_S8] = u8_of_##f##_0, [HL_S16] = u16_of_##f##_0,         \
    [HL_S32] = u32_of_##f##_0, [HL_S64] = u64_of_##f##_0, [HL_U8] = u8_of_##f##_0,           \
    [HL_U16] = u16_of_##f##_0, [HL_U32] = u32_of_##f##_0, [HL_U64] = u64_of_##f##_0,         \
    [HL_F32] = f32_of_##f##_0, [HL_F64] = f64_of_##f##_0, TO_NARROW(narrow), TO_FEW(bits_of) \
  }
#define FLOAT_ROW(f, narrow)                                                           \
  {                                                                                    \
    [HL_PRED] = pred_of_##f##_0, [HL_S8] = s8_of_##f##_0, [HL_S16] = s16_of_##f##_0,   \
    [HL_S32] = s32_of_##f##_0, [HL_S64] = s64_of_##f##_0, [HL_U8] = u8_of_##f##_0,     \
    [HL_U16] = u16_of_##f##_0, [HL_U32] = u32_of_##f##_0, [HL_U64] = u64_of_##f##_0,   \
    [HL_F32] = f32_of_##f##_0, [HL_F64] = f64_of_##f##_0, TO_NARROW(narrow), TO_FEW(f) \
  }
const VecConvertTable SIMD(vec_converts) = {
    [VEC_CLASS_PRED] = INT_ROW(u8, u8, f32_of_u8_0),
    [VEC_CLASS_S8] = INT_ROW(s8, u8, f32_of_s8_0),
    [VEC_CLASS_S16] = INT_ROW(s16, u16, f32_of_s16_0),
    [VEC_CLASS_S32] = INT_ROW(s32, u32, odd_of_s32_0),
    [VEC_CLASS_S64] = INT_ROW(s64, u64, odd_of_s64_0),
    [VEC_CLASS_U8] = INT_ROW(u8, u8, f32_of_u8_0),
    [VEC_CLASS_U16] = INT_ROW(u16, u16, f32_of_u16_0),
    [VEC_CLASS_U32] = INT_ROW(u32, u32, odd_of_u32_0),
    [VEC_CLASS_U64] = INT_ROW(u64, u64, odd_of_u64_0),
    [VEC_CLASS_F32] = FLOAT_ROW(f32, f32_of_f32_0),
    [VEC_CLASS_F64] = FLOAT_ROW(f64, odd_of_f64_0),
};

// --- Rounding -----------------------------------------------------------------------------------

// To `mantissa` bits below the leading one, ties to even; below the least normal number 2^least by adding a number whose last
// bit is the format's. Then a value above `largest` becomes `overflow` and nan becomes `nan`, both with the sign.
static inline float round_to(float x, int mantissa, int least, float largest, float overflow,
                             float nan) {
  const int drop = 23 - mantissa;
  const uint32_t bits = hl_f32_bits(x), sign = bits & 0x80000000, magnitude = bits ^ sign;
  const uint32_t odd = magnitude >> drop & 1, half = (1U << (drop - 1)) - 1;
  const float normal = hl_f32_of_bits((magnitude + half + odd) & ~((1U << drop) - 1));
  const float coarse = hl_f32_of_bits((uint32_t)(least + drop + 127) << 23);
  const float denormal = (hl_f32_of_bits(magnitude) + coarse) - coarse;
  const float rounded = magnitude < (uint32_t)(least + 127) << 23 ? denormal : normal;
  const float finite = rounded > largest ? overflow : rounded;
  return hl_f32_of_bits(hl_f32_bits(x != x ? nan : finite) | sign);
}

// What has neither infinity nor a negative zero: its nan is where that would be.
static inline float round_fnuz(float x, int mantissa, int least, float largest) {
  const float rounded = round_to(x, mantissa, least, largest, NAN, NAN);
  return rounded == 0 ? 0 : rounded != rounded ? -NAN : rounded;
}

// A nan keeps what fits of its mantissa, as the instruction that converts has it.
static inline float round_f16(float x) {
  const uint32_t nan = (hl_f32_bits(x) & 0xffffe000) | 0x00400000;
  const float rounded = round_to(x, 10, -14, 65504, INFINITY, NAN);
  return hl_f32_of_bits(x != x ? nan : hl_f32_bits(rounded));
}

static inline float round_bf16(float x) {
  const uint32_t bits = hl_f32_bits(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return hl_f32_of_bits(x != x ? (bits & 0x80000000) | 0x7fc00000 : rounded);
}

// Powers of two alone: the nearest, halfway up, none below 2^-127, which is a denormal f32.
static inline float round_e8m0(float x) {
  const uint32_t bits = hl_f32_bits(x), least = 0x00400000;
  const uint32_t up = (bits + (bits < 0x00800000 ? least / 2 : least)) & 0x7f800000;
  const bool number = x > 0 && up < 0x7f800000;
  return hl_f32_of_bits(!number ? 0x7fc00000 : up == 0 ? least : up);
}

FN_ONE(round_f4e2m1fn, float, float, round_to(x, 1, 0, 6, 6, -0.0F))
FN_ONE(round_f6e2m3fn, float, float, round_to(x, 3, 0, 7.5F, 7.5F, -0.0F))
FN_ONE(round_f6e3m2fn, float, float, round_to(x, 2, -2, 28, 28, -0.0F))
FN_ONE(round_f8e3m4, float, float, round_to(x, 4, -2, 15.5F, INFINITY, NAN))
FN_ONE(round_f8e4m3, float, float, round_to(x, 3, -6, 240, INFINITY, NAN))
FN_ONE(round_f8e4m3fn, float, float, round_to(x, 3, -6, 448, NAN, NAN))
FN_ONE(round_f8e4m3fnuz, float, float, round_fnuz(x, 3, -7, 240))
FN_ONE(round_f8e4m3b11fnuz, float, float, round_fnuz(x, 3, -10, 30))
FN_ONE(round_f8e5m2, float, float, round_to(x, 2, -14, 57344, INFINITY, NAN))
FN_ONE(round_f8e5m2fnuz, float, float, round_fnuz(x, 2, -15, 57344))
FN_ONE(round_f8e8m0fnu, float, float, round_e8m0(x))
FN_ONE(round_f16, float, float, round_f16(x))
FN_ONE(round_bf16, float, float, round_bf16(x))

const VecRoundTable SIMD(vec_rounds) = {
    [HL_F4E2M1FN] = round_f4e2m1fn_0,
    [HL_F6E2M3FN] = round_f6e2m3fn_0,
    [HL_F6E3M2FN] = round_f6e3m2fn_0,
    [HL_F8E3M4] = round_f8e3m4_0,
    [HL_F8E4M3] = round_f8e4m3_0,
    [HL_F8E4M3FN] = round_f8e4m3fn_0,
    [HL_F8E4M3FNUZ] = round_f8e4m3fnuz_0,
    [HL_F8E4M3B11FNUZ] = round_f8e4m3b11fnuz_0,
    [HL_F8E5M2] = round_f8e5m2_0,
    [HL_F8E5M2FNUZ] = round_f8e5m2fnuz_0,
    [HL_F8E8M0FNU] = round_f8e8m0fnu_0,
    [HL_F16] = round_f16_0,
    [HL_BF16] = round_bf16_0,
};
