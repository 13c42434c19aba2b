// float.c: floats of at most 16 bits, by format, and fast ways for f16 and bf16.
//
// A code is sign, exponent, mantissa. Without its sign it is a number that grows with the value, so
// rounding may carry from the mantissa into the exponent by plain addition, and whether a result
// overflowed is one comparison with the largest finite code.

#include "hilo/base.h"

#include <math.h>

#include "base/bits.h"

// 2^e for a normal result.
static double power_of_two(int e) {
  return hl_f64_of_bits((uint64_t)(e + 1023) << 52);
}

// The code of the largest finite value.
static uint32_t largest_code(const HlFloatFormat *f) {
  const uint32_t all = (1u << (f->exponent_bits + f->mantissa_bits)) - 1;
  switch (f->nan) {
  case HL_NAN_IEEE: return all - (1u << f->mantissa_bits);
  case HL_NAN_FN: return all - 1;
  default: return all;
  }
}

// nan, with the given sign where the format has one.
static uint32_t nan_code(const HlFloatFormat *f, uint32_t sign) {
  const uint32_t all = (1u << (f->exponent_bits + f->mantissa_bits)) - 1;
  switch (f->nan) {
  case HL_NAN_IEEE: return sign | (largest_code(f) + 1) | 1u << (f->mantissa_bits - 1);
  case HL_NAN_FN: return sign | all;
  case HL_NAN_E8M0: return 0xff;
  default: return all + 1;  // the sign bit alone
  }
}

// What a value too large for the format becomes.
static uint32_t overflow_code(const HlFloatFormat *f, uint32_t sign) {
  switch (f->nan) {
  case HL_NAN_IEEE: return sign | (largest_code(f) + 1);
  case HL_NAN_NONE: return sign | largest_code(f);
  default: return nan_code(f, sign);
  }
}

double hl_float_decode(const HlFloatFormat *f, uint32_t bits) {
  if (f->nan == HL_NAN_E8M0)
    return (bits & 0xff) == 0xff ? NAN : power_of_two((int)(bits & 0xff) - f->bias);
  const uint32_t code = bits & ((1u << (f->bits - 1)) - 1), sign = bits >> (f->bits - 1) & 1;
  if (f->nan == HL_NAN_FNUZ && sign && code == 0)
    return -NAN;
  double value;
  if (code > largest_code(f)) {
    value = f->nan == HL_NAN_IEEE && code == largest_code(f) + 1 ? INFINITY : NAN;
  } else {
    const int exponent = (int)(code >> f->mantissa_bits);
    const uint32_t fraction = code & ((1u << f->mantissa_bits) - 1);
    const uint32_t mantissa = exponent ? fraction | 1u << f->mantissa_bits : fraction;
    const int power = (exponent ? exponent : 1) - f->bias - f->mantissa_bits;
    value = (double)mantissa * power_of_two(power);
  }
  return sign ? -value : value;
}

// value / 2^shift, to nearest even.
static uint64_t shift_round(uint64_t value, int shift) {
  if (shift > 63)
    return 0;
  const uint64_t kept = value >> shift, rest = value & (((uint64_t)1 << shift) - 1);
  const uint64_t half = (uint64_t)1 << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

// Only an exponent: the nearest power of two, halfway up; nothing below the least, nan outside.
static uint32_t encode_e8m0(double value) {
  const uint64_t bits = hl_f64_bits(value);
  if (!(value > 0) || isinf(value))
    return 0xff;
  const int code = (int)(bits >> 52) - 1023 + 127 + (int)(bits >> 51 & 1);
  return code <= 0 ? 0 : code >= 0xff ? 0xff : (uint32_t)code;
}

uint32_t hl_float_encode(const HlFloatFormat *f, double value) {
  if (f->nan == HL_NAN_E8M0)
    return encode_e8m0(value);
  const uint64_t bits = hl_f64_bits(value);
  const uint32_t sign = (uint32_t)(bits >> 63) << (f->bits - 1);
  if (isnan(value))
    return nan_code(f, sign);
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1023, least_exponent = 1 - f->bias;
  if (exponent > 128)
    return overflow_code(f, sign);
  // A denormal double is far below half of any format's least value: its wrong mantissa rounds to
  // 0.
  const uint64_t mantissa = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
  const int below = exponent < least_exponent ? least_exponent - exponent : 0;
  uint64_t code = shift_round(mantissa, 52 - f->mantissa_bits + below);
  if (!below)
    code += (uint64_t)(exponent - least_exponent) << f->mantissa_bits;
  if (code > largest_code(f))
    return overflow_code(f, sign);
  return f->nan == HL_NAN_FNUZ && code == 0 ? 0 : sign | (uint32_t)code;
}

// --- f16 and bf16 from and to f32 ---

float hl_f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, code = bits & 0x7fff;
  if (code >= 0x7c00)  // inf, nan with its payload
    return hl_f32_of_bits(sign | 0x7f800000 | (code & 0x3ff) << 13);
  if (code >= 0x400)
    return hl_f32_of_bits(sign | ((code << 13) + ((127 - 15) << 23)));
  return hl_f32_of_bits(sign | hl_f32_bits((float)code * 0x1p-24f));
}

// nan becomes the plain quiet nan of its sign, as Eigen does it.
uint16_t hl_f16_from_f32(float value) {
  const uint32_t bits = hl_f32_bits(value), sign = bits >> 16 & 0x8000,
                 magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return (uint16_t)(sign | 0x7e00);
  if (magnitude >= 0x47800000)  // 65536
    return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // below the least normal: adding 0.5 lets the hardware round
    const float shifted = hl_f32_of_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (hl_f32_bits(shifted) - hl_f32_bits(0.5f)));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return (uint16_t)(sign | (magnitude - ((127 - 15) << 23) + 0xfff + odd) >> 13);
}

float hl_bf16_to_f32(uint16_t bits) {
  return hl_f32_of_bits((uint32_t)bits << 16);
}

uint16_t hl_bf16_from_f32(float value) {
  const uint32_t bits = hl_f32_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
