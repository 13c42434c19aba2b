// op/elementwise_exact.c: elementwise ops of one operand whose results are exact: signs, rounding,
// bits.

#include "op/elementwise.h"

// --- abs, negate, sign --------------------------------------------------------------------------

// The most negative integer stays itself: its absolute value wraps.
EW_FN1(abs_s, uint64_t, int64_t, int64_t, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)
EW_FN1(abs_u, uint64_t, uint64_t, uint64_t, x)
EW_FN1(abs_s32, uint32_t, int32_t, int32_t, x < 0 ? 0 - (uint32_t)x : (uint32_t)x)
EW_FN1(abs_f32, float, float, float, fabsf(x))
EW_FN1(abs_f64, double, double, double, fabs(x))
EW_FN1(abs_c64, float, EwC64, EwC64, hypot((double)x.re, (double)x.im))
EW_FN1(abs_c128, double, EwC128, EwC128, hypot(x.re, x.im))
EW_SHARED_KERNEL(abs, 1, .result = EW_TO_PART,
                 .fn = {[EW_S] = abs_s,
                        [EW_U] = abs_u,
                        [EW_S32] = abs_s32,
                        [EW_F32] = abs_f32,
                        [EW_F64] = abs_f64,
                        [EW_C64] = abs_c64,
                        [EW_C128] = abs_c128})

EW_FN1(negate_u, uint64_t, uint64_t, uint64_t, 0 - x)
EW_FN1(negate_u32, uint32_t, uint32_t, uint32_t, 0 - x)
EW_FN1(negate_f32, float, float, float, -x)
EW_FN1(negate_f64, double, double, double, -x)
static EwC128 complex_negate(EwC128 x) {
  return (EwC128){-x.re, -x.im};
}
EW_COMPLEX1(negate_c64, EwC64, complex_negate)
EW_COMPLEX1(negate_c128, EwC128, complex_negate)
EW_SHARED_KERNEL(negate, 1,
                 .fn = {[EW_S] = negate_u,
                        [EW_U] = negate_u,
                        [EW_S32] = negate_u32,
                        [EW_U32] = negate_u32,
                        [EW_F32] = negate_f32,
                        [EW_F64] = negate_f64,
                        [EW_C64] = negate_c64,
                        [EW_C128] = negate_c128})

// z / |z|; zero stays, and what has no direction is nan.
static EwC128 complex_sign(EwC128 x) {
  const double size = hypot(x.re, x.im);
  return size == 0 ? (EwC128){0, 0} : (EwC128){x.re / size, x.im / size};
}
EW_FN1(sign_s, int64_t, int64_t, int64_t, (x > 0) - (x < 0))
EW_FN1(sign_u, uint64_t, uint64_t, uint64_t, x > 0)
EW_FN1(sign_f32, float, float, float, x > 0 ? 1 : x < 0 ? -1 : x)
EW_FN1(sign_f64, double, double, double, x > 0 ? 1 : x < 0 ? -1 : x)
EW_COMPLEX1(sign_c64, EwC64, complex_sign)
EW_COMPLEX1(sign_c128, EwC128, complex_sign)
EW_KERNEL(sign, 1,
          .fn = {[EW_S] = sign_s,
                 [EW_U] = sign_u,
                 [EW_F32] = sign_f32,
                 [EW_F64] = sign_f64,
                 [EW_C64] = sign_c64,
                 [EW_C128] = sign_c128})

// --- Rounding to integers -----------------------------------------------------------------------

EW_UNARY(ceil, ceil(x))
EW_UNARY(floor, floor(x))
EW_UNARY(round_nearest_afz, round(x))

EW_UNARY(round_nearest_even, rint(x))  // the rounding mode is the default one

// --- Bits ---------------------------------------------------------------------------------------

static inline uint64_t low_bits(uint64_t x, int bits) {
  return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

EW_FN1(not_pred, uint8_t, uint8_t, uint8_t, !x)
EW_FN1(not_u, uint64_t, uint64_t, uint64_t, ~x)
EW_FN1(not_u32, uint32_t, uint32_t, uint32_t, ~x)
EW_SHARED_KERNEL(not, 1,
                 .fn = {[EW_PRED] = not_pred,
                        [EW_S] = not_u,
                        [EW_U] = not_u,
                        [EW_S32] = not_u32,
                        [EW_U32] = not_u32})

static int leading_zeros(uint64_t x, int bits) {
  return x == 0 ? bits : __builtin_clzll(x) - (64 - bits);
}
EW_FN1(clz, uint64_t, uint64_t, uint64_t, leading_zeros(low_bits(x, bits), bits))
EW_KERNEL(count_leading_zeros, 1, .fn = {[EW_S] = clz, [EW_U] = clz})

EW_FN1(count_bits, uint64_t, uint64_t, uint64_t, __builtin_popcountll(low_bits(x, bits)))
EW_KERNEL(popcnt, 1, .fn = {[EW_S] = count_bits, [EW_U] = count_bits})

// --- Questions and parts ------------------------------------------------------------------------

EW_FN1(finite_f32, uint8_t, float, float, fabsf(x) <= 3.40282347e38f)
EW_FN1(finite_f64, uint8_t, double, double, fabs(x) <= 1.7976931348623157e308)
EW_FN1(finite_c64, uint8_t, EwC64, EwC64, isfinite(x.re) && isfinite(x.im))
EW_FN1(finite_c128, uint8_t, EwC128, EwC128, isfinite(x.re) && isfinite(x.im))
EW_SHARED_KERNEL(is_finite, 1, .result = EW_TO_PRED,
                 .fn = {[EW_F32] = finite_f32,
                        [EW_F64] = finite_f64,
                        [EW_C64] = finite_c64,
                        [EW_C128] = finite_c128})

EW_FN1(real_f32, float, float, float, x)
EW_FN1(real_f64, double, double, double, x)
EW_FN1(real_c64, float, EwC64, EwC64, x.re)
EW_FN1(real_c128, double, EwC128, EwC128, x.re)
EW_KERNEL(real, 1, .result = EW_TO_PART,
          .fn = {
              [EW_F32] = real_f32, [EW_F64] = real_f64, [EW_C64] = real_c64, [EW_C128] = real_c128})

EW_FN1(imag_f32, float, float, float, 0 * (x == x))
EW_FN1(imag_f64, double, double, double, 0 * (x == x))
EW_FN1(imag_c64, float, EwC64, EwC64, x.im)
EW_FN1(imag_c128, double, EwC128, EwC128, x.im)
EW_KERNEL(imag, 1, .result = EW_TO_PART,
          .fn = {
              [EW_F32] = imag_f32, [EW_F64] = imag_f64, [EW_C64] = imag_c64, [EW_C128] = imag_c128})
