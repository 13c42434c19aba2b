// number_text.c: floats as printf's %g spells them, fast and exact.
//
// The digits come from one 64 by 64 bit product with a rounded power of ten; where that cannot tell
// which way to round, printf itself decides.

#include <math.h>

#include "base/bits.h"
#include "base/decimal.h"
#include "base/number.h"
#include "base/put.h"

enum { LEAST_POWER = -64, MOST_POWER = 64, MOST_EXACT_POWER = 27 };

// 10^k for k from -64 to 64, cut to 64 bits; exact for 0 to 27.
static const uint64_t powers[MOST_POWER - LEAST_POWER + 1] = {
    0xa87fea27a539e9a5, 0xd29fe4b18e88640e, 0x83a3eeeef9153e89, 0xa48ceaaab75a8e2b,
    0xcdb02555653131b6, 0x808e17555f3ebf11, 0xa0b19d2ab70e6ed6, 0xc8de047564d20a8b,
    0xfb158592be068d2e, 0x9ced737bb6c4183d, 0xc428d05aa4751e4c, 0xf53304714d9265df,
    0x993fe2c6d07b7fab, 0xbf8fdb78849a5f96, 0xef73d256a5c0f77c, 0x95a8637627989aad,
    0xbb127c53b17ec159, 0xe9d71b689dde71af, 0x9226712162ab070d, 0xb6b00d69bb55c8d1,
    0xe45c10c42a2b3b05, 0x8eb98a7a9a5b04e3, 0xb267ed1940f1c61c, 0xdf01e85f912e37a3,
    0x8b61313bbabce2c6, 0xae397d8aa96c1b77, 0xd9c7dced53c72255, 0x881cea14545c7575,
    0xaa242499697392d2, 0xd4ad2dbfc3d07787, 0x84ec3c97da624ab4, 0xa6274bbdd0fadd61,
    0xcfb11ead453994ba, 0x81ceb32c4b43fcf4, 0xa2425ff75e14fc31, 0xcad2f7f5359a3b3e,
    0xfd87b5f28300ca0d, 0x9e74d1b791e07e48, 0xc612062576589dda, 0xf79687aed3eec551,
    0x9abe14cd44753b52, 0xc16d9a0095928a27, 0xf1c90080baf72cb1, 0x971da05074da7bee,
    0xbce5086492111aea, 0xec1e4a7db69561a5, 0x9392ee8e921d5d07, 0xb877aa3236a4b449,
    0xe69594bec44de15b, 0x901d7cf73ab0acd9, 0xb424dc35095cd80f, 0xe12e13424bb40e13,
    0x8cbccc096f5088cb, 0xafebff0bcb24aafe, 0xdbe6fecebdedd5be, 0x89705f4136b4a597,
    0xabcc77118461cefc, 0xd6bf94d5e57a42bc, 0x8637bd05af6c69b5, 0xa7c5ac471b478423,
    0xd1b71758e219652b, 0x83126e978d4fdf3b, 0xa3d70a3d70a3d70a, 0xcccccccccccccccc,
    0x8000000000000000, 0xa000000000000000, 0xc800000000000000, 0xfa00000000000000,
    0x9c40000000000000, 0xc350000000000000, 0xf424000000000000, 0x9896800000000000,
    0xbebc200000000000, 0xee6b280000000000, 0x9502f90000000000, 0xba43b74000000000,
    0xe8d4a51000000000, 0x9184e72a00000000, 0xb5e620f480000000, 0xe35fa931a0000000,
    0x8e1bc9bf04000000, 0xb1a2bc2ec5000000, 0xde0b6b3a76400000, 0x8ac7230489e80000,
    0xad78ebc5ac620000, 0xd8d726b7177a8000, 0x878678326eac9000, 0xa968163f0a57b400,
    0xd3c21bcecceda100, 0x84595161401484a0, 0xa56fa5b99019a5c8, 0xcecb8f27f4200f3a,
    0x813f3978f8940984, 0xa18f07d736b90be5, 0xc9f2c9cd04674ede, 0xfc6f7c4045812296,
    0x9dc5ada82b70b59d, 0xc5371912364ce305, 0xf684df56c3e01bc6, 0x9a130b963a6c115c,
    0xc097ce7bc90715b3, 0xf0bdc21abb48db20, 0x96769950b50d88f4, 0xbc143fa4e250eb31,
    0xeb194f8e1ae525fd, 0x92efd1b8d0cf37be, 0xb7abc627050305ad, 0xe596b7b0c643c719,
    0x8f7e32ce7bea5c6f, 0xb35dbf821ae4f38b, 0xe0352f62a19e306e, 0x8c213d9da502de45,
    0xaf298d050e4395d6, 0xdaf3f04651d47b4c, 0x88d8762bf324cd0f, 0xab0e93b6efee0053,
    0xd5d238a4abe98068, 0x85a36366eb71f041, 0xa70c3c40a64e6c51, 0xd0cf4b50cfe20765,
    0x82818f1281ed449f, 0xa321f2d7226895c7, 0xcbea6f8ceb02bb39, 0xfee50b7025c36a08,
    0x9f4f2726179a2245, 0xc722f0ef9d80aad6, 0xf8ebad2b84e0d58b, 0x9b934c3b330c8577,
    0xc2781f49ffcfa6d5,
};

static const uint64_t whole_powers[] = {
    1,
    10,
    100,
    1000,
    10000,
    100000,
    1000000,
    10000000,
    100000000,
    1000000000,
    10000000000,
    100000000000,
    1000000000000,
    10000000000000,
    100000000000000,
    1000000000000000,
    10000000000000000,
    100000000000000000,
    1000000000000000000,
};

// A decimal number of n digits d.ddd x 10^exponent.
typedef struct Decimal {
  uint64_t digits;
  int n, exponent;
} Decimal;

// floor(log2(10^k)) and floor(log10(2^e)) in the ranges used here.
static int log2_of_power(int k) {
  return (int)((int64_t)k * 217706 >> 16);
}

static int log10_of_two_to(int e) {
  return (int)((int64_t)e * 78913 >> 18);
}

// How hi:lo / 2^shift rounds, 64 < shift < 128; false when an error of one in hi could matter.
static bool round_product(uint64_t hi, uint64_t lo, int shift, bool exact, uint64_t *rounded) {
  const uint64_t rest = hi & (((uint64_t)1 << (shift - 64)) - 1);
  const uint64_t half = (uint64_t)1 << (shift - 65);
  const uint64_t whole = hi >> (shift - 64);
  if (exact && rest == half && lo == 0)
    *rounded = whole + (whole & 1);
  else if (rest > half || (exact && rest == half))
    *rounded = whole + 1;
  else if (exact || rest + 1 < half)
    *rounded = whole;
  else
    return false;
  return true;
}

// The first n digits (at most 17) of a positive finite value, rounded to nearest even; false when
// this way cannot tell them.
static bool decimal_of(double value, int n, Decimal *out) {
  const uint64_t bits = hl_f64_bits(value);
  const int field = (int)(bits >> 52);
  uint64_t mantissa = bits & (((uint64_t)1 << 52) - 1);
  mantissa |= field ? (uint64_t)1 << 52 : 0;
  const int zeros = __builtin_clzll(mantissa);
  const int scale = (field ? field : 1) - 1075 - zeros;  // value = (mantissa << zeros) * 2^scale
  int exponent = log10_of_two_to(scale + 63);
  for (int tries = 0; tries < 2; tries++, exponent++) {
    const int k = n - 1 - exponent;
    if (k < LEAST_POWER || k > MOST_POWER)
      return false;
    uint64_t hi, lo;
    hl_mul_128(mantissa << zeros, powers[k - LEAST_POWER], &hi, &lo);
    const int shift = -(scale + log2_of_power(k) - 63);
    if (shift <= 65 || shift >= 128 ||
        !round_product(hi, lo, shift, k >= 0 && k <= MOST_EXACT_POWER, &out->digits))
      return false;
    if (out->digits < whole_powers[n])
      break;
    if (out->digits == whole_powers[n]) {
      out->digits = whole_powers[n - 1];
      exponent++;
      break;
    }
  }
  out->n = n;
  out->exponent = exponent;
  return true;
}

// Fewer digits of a rounded decimal; false on a tie, of which nobody knows what lay behind it.
static bool shorten(const Decimal *from, int n, Decimal *out) {
  const uint64_t cut = whole_powers[from->n - n];
  const uint64_t rest = from->digits % cut;
  if (rest * 2 == cut)
    return false;
  *out = (Decimal){from->digits / cut + (rest * 2 > cut), n, from->exponent};
  if (out->digits == whole_powers[n]) {
    out->digits /= 10;
    out->exponent++;
  }
  return true;
}

static void put_zeros(HlBuf *out, int n) {
  for (; n > 0; n--)
    put_char(out, '0');
}

static void put_exponent(HlBuf *out, int exponent) {
  PUT(out, "e");
  put_char(out, exponent < 0 ? '-' : '+');
  const int size = exponent < 0 ? -exponent : exponent;
  if (size < 10)
    put_char(out, '0');
  put_u64(out, (uint64_t)size);
}

// As %.*g with as many digits as the decimal has: trailing zeros vanish.
static void put_decimal(HlBuf *out, Decimal d) {
  char digits[20] = {0};
  const int precision = d.n;
  while (d.n > 1 && d.digits % 10 == 0) {
    d.digits /= 10;
    d.n--;
  }
  for (int k = d.n - 1; k >= 0; k--, d.digits /= 10)
    digits[k] = (char)('0' + d.digits % 10);
  int before = d.exponent + 1;  // digits before the point
  if (d.exponent < -4 || d.exponent >= precision)
    before = 1;
  if (before <= 0) {
    PUT(out, "0.");
    put_zeros(out, -before);
    put(out, digits, (size_t)d.n);
  } else if (before >= d.n) {
    put(out, digits, (size_t)d.n);
    put_zeros(out, before - d.n);
  } else {
    put(out, digits, (size_t)before);
    put_char(out, '.');
    put(out, digits + before, (size_t)(d.n - before));
  }
  if (d.exponent < -4 || d.exponent >= precision)
    put_exponent(out, d.exponent);
}

static void put_printf(HlBuf *out, double value, int digits) {
  char *at = put_room(out, 40);
  out->n += (size_t)base_snprintf(at, 40, "%.*g", digits, value);
}

// What is no ordinary positive number: nan, inf, zero. A minus sign is printed as well.
static bool put_special(HlBuf *out, double *value) {
  if (signbit(*value)) {
    put_char(out, '-');
    *value = -*value;
  }
  if (*value == 0)
    put_char(out, '0');
  else if (isnan(*value))
    PUT(out, "nan");
  else if (isinf(*value))
    PUT(out, "inf");
  else
    return false;
  return true;
}

void put_g(HlBuf *out, double value, int digits) {
  Decimal d;
  if (put_special(out, &value))
    return;
  if (decimal_of(value, digits, &d))
    put_decimal(out, d);
  else
    put_printf(out, value, digits);
}

// The double nearest to a decimal of at most 15 digits, where one operation gives it.
static bool decimal_value(Decimal d, double *value) {
  return base_exact_double(d.digits, d.exponent + 1 - d.n, value);
}

// The slow way: fewer digits if they read back equal, else more.
static void put_shorter(HlBuf *out, double value, bool single, int few, int many) {
  char text[40];
  base_snprintf(text, sizeof text, "%.*g", few, value);
  if (single ? base_read_float(text, NULL) == (float)value : base_read_double(text, NULL) == value)
    put_text(out, text);
  else
    put_printf(out, value, many);
}

void put_f32(HlBuf *out, float single) {
  double value = single, back;
  Decimal nine, six;
  if (put_special(out, &value))
    return;
  if (value < 1e6 && value == (double)(int)value) {
    put_u64(out, (uint64_t)value);
    return;
  }
  if (!decimal_of(value, 9, &nine) || !(shorten(&nine, 6, &six) || decimal_of(value, 6, &six)) ||
      !decimal_value(six, &back)) {
    put_shorter(out, value, true, 6, 9);
    return;
  }
  if ((hl_f64_bits(back) & 0x1fffffff) ==
      0x10000000)  // between two floats: rounding twice might mislead
    put_shorter(out, value, true, 6, 9);
  else
    put_decimal(out, (float)back == (float)value ? six : nine);
}

void put_f64(HlBuf *out, double value) {
  Decimal seventeen, fifteen;
  double back;
  if (put_special(out, &value))
    return;
  if (value < 1e15 && value == (double)(int64_t)value) {
    put_u64(out, (uint64_t)value);
    return;
  }
  if (!decimal_of(value, 17, &seventeen) ||
      !(shorten(&seventeen, 15, &fifteen) || decimal_of(value, 15, &fifteen)) ||
      !decimal_value(fifteen, &back))
    put_shorter(out, value, false, 15, 17);
  else
    put_decimal(out, back == value ? fifteen : seventeen);
}
