// op/elementwise_binary.c: elementwise arithmetic, logic and shifts of two operands.

#include "base/complex.h"

#include "op/elementwise.h"
#include "op/pick.h"

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UWide;

// --- Arithmetic that wraps ----------------------------------------------------------------------

// Sums, differences and products of integers are the same bits for signed and unsigned.
#define WRAPPING(op, expr)                           \
  EW_FN2(op##_u, uint64_t, uint64_t, uint64_t, expr) \
  EW_FN2(op##_u32, uint32_t, uint32_t, uint32_t, expr)
#define FLOATS(op, expr)                      \
  EW_FN2(op##_f32, float, float, float, expr) \
  EW_FN2(op##_f64, double, double, double, expr)
#define COMPLEXES(op, function)          \
  EW_COMPLEX2(op##_c64, EwC64, function) \
  EW_COMPLEX2(op##_c128, EwC128, function)
#define WRAPPING_ROWS(op) [EW_S] = op##_u, [EW_U] = op##_u, [EW_S32] = op##_u32, [EW_U32] = op##_u32
#define FLOAT_ROWS(op) [EW_F32] = op##_f32, [EW_F64] = op##_f64
#define COMPLEX_ROWS(op) [EW_C64] = op##_c64, [EW_C128] = op##_c128

static EwC128 complex_add(EwC128 x, EwC128 y) {
  return (EwC128){x.re + y.re, x.im + y.im};
}
static EwC128 complex_subtract(EwC128 x, EwC128 y) {
  return (EwC128){x.re - y.re, x.im - y.im};
}
static EwC128 complex_multiply(EwC128 x, EwC128 y) {
  return (EwC128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static inline double complex to_c(EwC128 x) {
  return CMPLX(x.re, x.im);
}
static inline EwC128 from_c(double complex x) {
  return (EwC128){creal(x), cimag(x)};
}
static EwC128 complex_divide(EwC128 x, EwC128 y) {
  return from_c(to_c(x) / to_c(y));
}

EW_FN2(or_pred, uint8_t, uint8_t, uint8_t, x | y)
EW_FN2(and_pred, uint8_t, uint8_t, uint8_t, x &y)
EW_FN2(xor_pred, uint8_t, uint8_t, uint8_t, x ^ y)

WRAPPING(add, x + y)
FLOATS(add, x + y)
COMPLEXES(add, complex_add)
EW_SHARED_KERNEL(add, 2,
                 .fn = {
                     [EW_PRED] = or_pred, WRAPPING_ROWS(add), FLOAT_ROWS(add), COMPLEX_ROWS(add)})

WRAPPING(subtract, x - y)
FLOATS(subtract, x - y)
COMPLEXES(subtract, complex_subtract)
EW_SHARED_KERNEL(subtract, 2,
                 .fn = {WRAPPING_ROWS(subtract), FLOAT_ROWS(subtract), COMPLEX_ROWS(subtract)})

WRAPPING(multiply, x *y)
FLOATS(multiply, x *y)
COMPLEXES(multiply, complex_multiply)
EW_SHARED_KERNEL(multiply, 2,
                 .fn = {[EW_PRED] = and_pred,
                        WRAPPING_ROWS(multiply),
                        FLOAT_ROWS(multiply),
                        COMPLEX_ROWS(multiply)})

EW_FN2(mulhi_s, uint64_t, int64_t, int64_t, ((UWide)((Wide)x * (Wide)y)) >> bits)
EW_FN2(mulhi_u, uint64_t, uint64_t, uint64_t, ((UWide)x * (UWide)y) >> bits)
EW_KERNEL(mulhi, 2, .fn = {[EW_S] = mulhi_s, [EW_U] = mulhi_u})

// --- Division -----------------------------------------------------------------------------------

// x / 0 is all ones; the most negative integer over -1 wraps to itself.
static inline uint64_t divide_signed(int64_t x, int64_t y) {
  return y == 0 ? UINT64_MAX : y == -1 ? 0 - (uint64_t)x : (uint64_t)(x / y);
}
EW_FN2(divide_s, uint64_t, int64_t, int64_t, divide_signed(x, y))
EW_FN2(divide_u, uint64_t, uint64_t, uint64_t, y == 0 ? UINT64_MAX : x / y)
FLOATS(divide, x / y)
COMPLEXES(divide, complex_divide)
EW_SHARED_KERNEL(
    divide, 2,
    .fn = {[EW_S] = divide_s, [EW_U] = divide_u, FLOAT_ROWS(divide), COMPLEX_ROWS(divide)})

EW_FN2(remainder_s, int64_t, int64_t, int64_t, y == 0 ? x : y == -1 ? 0 : x % y)
EW_FN2(remainder_u, uint64_t, uint64_t, uint64_t, y == 0 ? x : x % y)
EW_FN2(remainder_f32, float, float, float, fmodf(x, y))
EW_FN2(remainder_f64, double, double, double, fmod(x, y))
EW_SHARED_KERNEL(remainder, 2,
                 .fn = {[EW_S] = remainder_s, [EW_U] = remainder_u, FLOAT_ROWS(remainder)})

// --- Larger and smaller -------------------------------------------------------------------------

EW_FN2(maximum_s, int64_t, int64_t, int64_t, x > y ? x : y)
EW_FN2(maximum_u, uint64_t, uint64_t, uint64_t, x > y ? x : y)
EW_FN2(maximum_s32, int32_t, int32_t, int32_t, x > y ? x : y)
EW_FN2(maximum_u32, uint32_t, uint32_t, uint32_t, x > y ? x : y)
EW_FN2(maximum_f32, float, float, float, larger_f32(x, y))
EW_FN2(maximum_f64, double, double, double, larger_f64(x, y))
EW_SHARED_KERNEL(maximum, 2,
                 .fn = {[EW_PRED] = or_pred,
                        [EW_S] = maximum_s,
                        [EW_U] = maximum_u,
                        [EW_S32] = maximum_s32,
                        [EW_U32] = maximum_u32,
                        FLOAT_ROWS(maximum)})
EW_FN2(minimum_s, int64_t, int64_t, int64_t, x < y ? x : y)
EW_FN2(minimum_u, uint64_t, uint64_t, uint64_t, x < y ? x : y)
EW_FN2(minimum_s32, int32_t, int32_t, int32_t, x < y ? x : y)
EW_FN2(minimum_u32, uint32_t, uint32_t, uint32_t, x < y ? x : y)
EW_FN2(minimum_f32, float, float, float, smaller_f32(x, y))
EW_FN2(minimum_f64, double, double, double, smaller_f64(x, y))
EW_SHARED_KERNEL(minimum, 2,
                 .fn = {[EW_PRED] = and_pred,
                        [EW_S] = minimum_s,
                        [EW_U] = minimum_u,
                        [EW_S32] = minimum_s32,
                        [EW_U32] = minimum_u32,
                        FLOAT_ROWS(minimum)})

// --- Powers and angles --------------------------------------------------------------------------

static uint64_t wrapping_power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

// Negative exponents give the truncated quotient: 0, unless the base is 1 or -1.
static uint64_t signed_power(int64_t base, int64_t exponent) {
  if (exponent >= 0)
    return wrapping_power((uint64_t)base, (uint64_t)exponent);
  return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? UINT64_MAX : 0;
}

// exp(y log x), where infinite bases with a real exponent go to infinity or zero.
static EwC128 complex_power(EwC128 x, EwC128 y) {
  if (y.re == 0 && y.im == 0)
    return (EwC128){1, 0};
  if (x.re == 0 && x.im == 0)
    return y.re > 0 ? (EwC128){0, 0} : from_c(cpow(to_c(x), to_c(y)));
  if (isinf(x.re) && x.re > 0 && x.im == 0 && y.im == 0)
    return (EwC128){y.re > 0 ? (double)INFINITY : y.re < 0 ? 0 : (double)NAN, 0};
  const double size = log(hypot(x.re, x.im)), angle = atan2(x.im, x.re);
  const double r = exp(y.re * size - (y.im == 0 ? 0 : y.im * angle));
  const double turn = (y.im == 0 ? 0 : y.im * size) + y.re * angle;
  return (EwC128){r * cos(turn), r * sin(turn)};
}

EW_FN2(power_s, uint64_t, int64_t, int64_t, signed_power(x, y))
EW_FN2(power_u, uint64_t, uint64_t, uint64_t, wrapping_power(x, y))
EW_FN2(power_f32, float, float, double, pow(x, y))
EW_FN2(power_f64, double, double, double, pow(x, y))
COMPLEXES(power, complex_power)
EW_KERNEL(power, 2,
          .fn = {[EW_S] = power_s, [EW_U] = power_u, FLOAT_ROWS(power), COMPLEX_ROWS(power)})

// -i log((x + iy) / sqrt(x x + y y)), the operands being (y, x).
static EwC128 complex_atan2(EwC128 y, EwC128 x) {
  const double complex a = to_c(x), b = to_c(y), i = CMPLX(0, 1);
  return from_c(-i * clog((a + i * b) / csqrt(a * a + b * b)));
}
EW_FN2(atan2_f32, float, float, double, atan2(x, y))
EW_FN2(atan2_f64, double, double, double, atan2(x, y))
COMPLEXES(atan2, complex_atan2)
EW_KERNEL(atan2, 2, .fn = {FLOAT_ROWS(atan2), COMPLEX_ROWS(atan2)})

// --- Bits ---------------------------------------------------------------------------------------

WRAPPING(and, x &y)
EW_SHARED_KERNEL(and, 2, .fn = {[EW_PRED] = and_pred, WRAPPING_ROWS(and)})
WRAPPING(or, x | y)
EW_SHARED_KERNEL(or, 2, .fn = {[EW_PRED] = or_pred, WRAPPING_ROWS(or)})
WRAPPING(xor, x ^ y)
EW_SHARED_KERNEL(xor, 2,
                 .fn = {
                     [EW_PRED] = xor_pred, WRAPPING_ROWS(xor)})

// Amounts are read as unsigned numbers of the type's width; those too large shift everything out.
static inline uint64_t low_bits(uint64_t x, int bits) {
  return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

static inline uint64_t shift_left(uint64_t x, uint64_t amount, int bits) {
  amount = low_bits(amount, bits);
  return amount >= (uint64_t)bits ? 0 : x << amount;
}
static inline uint64_t shift_right(uint64_t x, uint64_t amount, int bits) {
  amount = low_bits(amount, bits);
  return amount >= (uint64_t)bits ? 0 : low_bits(x, bits) >> amount;
}
static inline uint64_t shift_right_signed(uint64_t x, uint64_t amount, int bits) {
  amount = low_bits(amount, bits);
  const int64_t extended = (int64_t)(x << (64 - bits)) >> (64 - bits);
  return (uint64_t)(extended >> (amount >= (uint64_t)bits ? 63 : amount));
}
EW_FN2(shift_left_u, uint64_t, uint64_t, uint64_t, shift_left(x, y, bits))
EW_FN2(shift_left_u32, uint32_t, uint32_t, uint32_t, y > 31 ? 0 : x << (y & 31))
EW_SHARED_KERNEL(shift_left, 2, .fn = {WRAPPING_ROWS(shift_left)})
EW_FN2(shift_right_logical_u, uint64_t, uint64_t, uint64_t, shift_right(x, y, bits))
EW_FN2(shift_right_logical_u32, uint32_t, uint32_t, uint32_t, y > 31 ? 0 : x >> (y & 31))
EW_SHARED_KERNEL(shift_right_logical, 2, .fn = {WRAPPING_ROWS(shift_right_logical)})
EW_FN2(shift_right_arithmetic_u, uint64_t, uint64_t, uint64_t, shift_right_signed(x, y, bits))
EW_KERNEL(shift_right_arithmetic, 2,
          .fn = {[EW_S] = shift_right_arithmetic_u, [EW_U] = shift_right_arithmetic_u})

// --- A complex number of its parts --------------------------------------------------------------

static void complex_f32(const EwTile *tile) {
  const float *re = tile->in[0], *im = tile->in[1];
  EwC64 *out = tile->out;
  for (int64_t i = 0; i < tile->n; i++)
    out[i] = (EwC64){re[i], im[i]};
}
static void complex_f64(const EwTile *tile) {
  const double *re = tile->in[0], *im = tile->in[1];
  EwC128 *out = tile->out;
  for (int64_t i = 0; i < tile->n; i++)
    out[i] = (EwC128){re[i], im[i]};
}
EW_KERNEL(complex, 2, .result = EW_TO_COMPLEX,
          .fn = {[EW_F32] = complex_f32, [EW_F64] = complex_f64})
