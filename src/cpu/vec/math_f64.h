// cpu/vec/math_f64.h: functions of an f64, without jumps, for loops that become vector instructions.
//
// Each reduces its argument to a small interval, where a polynomial that was fitted to it (least greatest error, by Lawson's
// iteration in 50 digits) does the rest. Exponents are moved by adding to bits; integers come out of floats by adding MAGIC,
// after which the last bits are the nearest integer. Results are the same with and without fused multiply-add but for the last
// bits: it is used where the level has it.
#ifndef HILO_CPU_VEC_MATH_F64_H
#define HILO_CPU_VEC_MATH_F64_H

#include <math.h>

#include "base/bits.h"
#include "base/compiler.h"

#define MAGIC_F64 0x1.8p52

// x * y + z, rounded once where that is one instruction.
static HL_INLINE double mad_f64(double x, double y, double z) {
#if defined(__FMA__) || defined(__FP_FAST_FMA)
  return __builtin_fma(x, y, z);
#else
  return x * y + z;
#endif
}

// Polynomials, the coefficient of the highest power first.
#define P1_F64(x, a) (a)
#define P2_F64(x, a, b) mad_f64(P1_F64(x, a), x, b)
#define P3_F64(x, a, b, c) mad_f64(P2_F64(x, a, b), x, c)
#define P4_F64(x, a, b, c, d) mad_f64(P3_F64(x, a, b, c), x, d)
#define P5_F64(x, a, b, c, d, e) mad_f64(P4_F64(x, a, b, c, d), x, e)
#define P6_F64(x, a, b, c, d, e, f) mad_f64(P5_F64(x, a, b, c, d, e), x, f)
#define P7_F64(x, a, b, c, d, e, f, g) mad_f64(P6_F64(x, a, b, c, d, e, f), x, g)
#define P8_F64(x, a, b, c, d, e, f, g, h) mad_f64(P7_F64(x, a, b, c, d, e, f, g), x, h)

// --- Exponents ----------------------------------------------------------------------------------

// 2^k of MAGIC_F64 + k, -1023 < k < 1024.
static HL_INLINE double power_of_two_f64(double magic) {
  return hl_f64_of_bits((hl_f64_bits(magic) << 52) + 0x3ff0000000000000);
}

// x * 2^k, rounded once, for whole |k| <= 2000.
static HL_INLINE double scale_f64(double x, double k) {
  const double half = mad_f64(k, 0.5, MAGIC_F64), rest = k - (half - MAGIC_F64);
  return x * power_of_two_f64(half) * power_of_two_f64(rest + MAGIC_F64);
}

// x = 2^k m with m from sqrt(1/2) to sqrt(2), for positive, finite, normal x.
static HL_INLINE double mantissa_f64(double x, double *k) {
  const uint64_t least = 0x3fe6a09e667f3bcd, above = hl_f64_bits(x) - least + 0x3ff0000000000000;
  *k = hl_f64_of_bits(above >> 52 | 0x4330000000000000) - (0x1p52 + 1023);
  return hl_f64_of_bits((above & 0x000fffffffffffff) + least);
}

// --- exp ----------------------------------------------------------------------------------------

#define LN2_HIGH_F64 0x1.62e42feep-1
#define LN2_LOW_F64 0x1.a39ef35793c76p-33

// x = k ln 2 + r; returns r. `low` is added to x.
static HL_INLINE double reduce_exp_f64(double x, double low, double *k) {
  const double magic = mad_f64(x, 0x1.71547652b82fep+0, MAGIC_F64);
  *k = magic - MAGIC_F64;
  return mad_f64(*k, -LN2_HIGH_F64, x) - mad_f64(*k, LN2_LOW_F64, -low);
}

// exp(r) - 1 for |r| <= ln 2 / 2.
static HL_INLINE double small_expm1_f64(double r) {
  const double high = P6_F64(r, 0x1.1f96f80845378p-29, 0x1.af61363c7a473p-26, 0x1.27e4c49c2625bp-22,
                             0x1.71ddf7054210ep-19, 0x1.a01a01b130392p-16, 0x1.a01a01b05dc33p-13);
  const double low = P5_F64(r, 0x1.6c16c16c142ccp-10, 0x1.111111110f5ap-7, 0x1.555555555555bp-5,
                            0x1.5555555555559p-3, 0.5);
  const double r2 = r * r;
  return mad_f64(r2, mad_f64(high, r2 * r2 * r, low), r);
}

// exp(x + low) * 2^more, low small beside x.
static HL_INLINE double scaled_exp_f64(double x, double low, double more) {
  const double most = x > 1500 ? 1500 : x, clamped = most < -1500 ? -1500 : most;
  double k;
  const double r = reduce_exp_f64(clamped, low, &k);
  const double scale = k + more > 1100 ? 1100 : k + more < -1200 ? -1200 : k + more;
  return scale_f64(1 + small_expm1_f64(r), scale);
}

static HL_INLINE double exp_f64(double x) {
  return scaled_exp_f64(x, 0, 0);
}

// (exp(x) - 1) * 2^more.
static HL_INLINE double scaled_expm1_f64(double x, double more) {
  const double most = x > 1500 ? 1500 : x, clamped = most < -50 ? -50 : most;
  double k;
  const double r = reduce_exp_f64(clamped, 0, &k);
  const double away = power_of_two_f64(MAGIC_F64 - (k > 100 ? 100 : k));
  const double scale = k + more > 1100 ? 1100 : k + more;
  return __builtin_copysign(scale_f64(small_expm1_f64(r) + (1 - away), scale), x);
}

static HL_INLINE double expm1_f64(double x) {
  return scaled_expm1_f64(x, 0);
}

// By e = exp(-|x|), which does not overflow. What 1 + e lost is taken from the quotient, with 1 / (1 + e) good enough as 1 - e / 2.
static HL_INLINE double logistic_f64(double x) {
  const double e = exp_f64(-__builtin_fabs(x)), sum = 1 + e, lost = e - (sum - 1);
  const double y = (x < 0 ? e : 1) / sum;
  return mad_f64(y, lost * mad_f64(e, 0.5, -1), y);
}

static HL_INLINE double tanh_f64(double x) {
  const double size = __builtin_fabs(x), e = expm1_f64(2 * (size > 22 ? 22 : size));
  return __builtin_copysign(e / (e + 2), x);
}

// (e - 1/e) / 2 of half exponentials: h = (exp(|x|) - 1) / 2 makes h + h / (2 h + 1).
static HL_INLINE double sinh_f64(double x) {
  const double h = scaled_expm1_f64(__builtin_fabs(x), -1), far = h > 0x1p60 ? 0x1p60 : h;
  return __builtin_copysign(h + far / (2 * far + 1), x);
}

static HL_INLINE double cosh_f64(double x) {
  const double h = scaled_exp_f64(__builtin_fabs(x), 0, -1);
  return h + 0.25 / h;
}

// --- log ----------------------------------------------------------------------------------------

// k ln 2 + log(1 + f), 1 + f being a mantissa: by 2 atanh(f / (2 + f)).
static HL_INLINE double log_parts_f64(double k, double f) {
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  const double r = z * P7_F64(z, 0x1.2f5721c919ea3p-3, 0x1.3999f741b3f12p-3, 0x1.74668847f2ecep-3,
                              0x1.c71c50b69602dp-3, 0x1.2492494379528p-2, 0x1.999999997e3e2p-2,
                              0x1.5555555555597p-1);
  return k * LN2_HIGH_F64 - ((half - (s * (half + r) + k * LN2_LOW_F64)) - f);
}

// What log makes of 0, negative numbers, infinity and nan; else y.
static HL_INLINE double log_edges_f64(double x, double y) {
  const double zero = x == 0 ? -INFINITY : y, negative = x < 0 ? NAN : zero;
  return x < INFINITY ? negative : x;
}

static HL_INLINE double log_f64(double x) {
  const double normal = x < 0x1p-1022 ? x * 0x1p54 : x;
  double k;
  const double m = mantissa_f64(normal, &k);
  return log_edges_f64(x, log_parts_f64(x < 0x1p-1022 ? k - 54 : k, m - 1));
}

// log of 1 + x as it is rounded, and of what the rounding lost.
static HL_INLINE double log1p_f64(double x) {
  const double u = 1 + x, one = u - x, lost = (1 - one) + (x - (u - one));
  double k;
  const double m = mantissa_f64(u, &k);
  const double more = lost * power_of_two_f64(MAGIC_F64 - (k > 60 ? 60 : k));
  const double y = log_parts_f64(k, k == 0 ? x : (m - 1) + more);
  return __builtin_copysign(log_edges_f64(u, x == INFINITY ? x : y), x);
}

static HL_INLINE double asinh_f64(double x) {
  const double size = __builtin_fabs(x), near = size > 0x1p60 ? 1 : size;
  const double small = near + near * near / (1 + __builtin_sqrt(near * near + 1));
  const double y = log1p_f64(size > 0x1p60 ? size : small);
  return __builtin_copysign(size > 0x1p60 ? y + 0x1.62e42fefa39efp-1 : y, x);
}

static HL_INLINE double acosh_f64(double x) {
  const double near = x > 0x1p60 ? 1 : x - 1;
  const double small = near + __builtin_sqrt(near * (2 + near));
  const double y = log1p_f64(x > 0x1p60 ? x : small);
  return x < 1 ? NAN : x > 0x1p60 ? y + 0x1.62e42fefa39efp-1 : y;
}

static HL_INLINE double atanh_f64(double x) {
  const double size = __builtin_fabs(x);
  return __builtin_copysign(0.5 * log1p_f64(2 * size / (1 - size)), x);
}

// --- Powers and roots ---------------------------------------------------------------------------

// 1 and signs, where power is more than exp(y log |x|), which is p.
static HL_INLINE double power_edges_f64(double x, double y, double p) {
  const double half = 0.5 * y;
  const bool whole = __builtin_rint(y) == y;
  const bool odd = whole && __builtin_rint(half) != half;
  const bool negative = x < 0 && x > -INFINITY;
  const double signed_p = odd ? __builtin_copysign(p, x) : negative && !whole ? NAN : p;
  const bool endless = __builtin_fabs(y) == INFINITY;
  return y == 0 || x == 1 || (x == -1 && endless) ? 1 : signed_p;
}

// The sum and the product of two as two numbers, the second what the first lost.
typedef struct Two {
  double high, low;
} Two;
static HL_INLINE Two sum_two(double x, double y) {
  const double high = x + y, part = high - x;
  return (Two){high, (x - (high - part)) + (y - part)};
}
static HL_INLINE Two product_two(double x, double y) {
  const double high = x * y;
#if defined(__FMA__) || defined(__FP_FAST_FMA)
  return (Two){high, __builtin_fma(x, y, -high)};
#else
  const double split = 0x1p27 + 1, xs = x * split, ys = y * split;
  const double xh = xs - (xs - x), yh = ys - (ys - y), xl = x - xh, yl = y - yh;
  return (Two){high, ((xh * yh - high) + xh * yl + xl * yh) + xl * yl};
#endif
}

// log x to about 68 bits, for positive finite x: 2 s + s^3 (2/3 + z tail), the first two terms in two numbers each.
static HL_INLINE Two log_two_f64(double x) {
  const double normal = x < 0x1p-1022 ? x * 0x1p54 : x;
  double k;
  const double f = mantissa_f64(normal, &k) - 1, e = x < 0x1p-1022 ? k - 54 : k;
  const Two below = sum_two(2, f);
  const double s = f / below.high;
  const Two back = product_two(s, below.high);
  const double s_low = (((f - back.high) - back.low) - s * below.low) / below.high;
  const Two z = product_two(s, s);
  const double tail =
      z.high * P8_F64(z.high, 0x1.ebb6e2f1a102cp-4, 0x1.de1f75e431fe1p-4, 0x1.11213420511e3p-3,
                      0x1.3b135f68b284p-3, 0x1.745d183ec5aa7p-3, 0x1.c71c71c5664cdp-3,
                      0x1.2492492493112p-2, 0x1.9999999999995p-2);
  const Two u = sum_two(0x1.5555555555555p-1, tail + 0x1.5555555555555p-55);
  const Two zu = product_two(z.high, u.high);
  const double zu_low = zu.low + (z.high * u.low + (z.low + 2 * s * s_low) * u.high);
  const Two cube = product_two(s, zu.high);
  const double cube_low = cube.low + (s * zu_low + s_low * zu.high);
  const Two far = sum_two(e * LN2_HIGH_F64, 2 * s), all = sum_two(far.high, cube.high);
  const double low = e * LN2_LOW_F64 + (far.low + all.low + (2 * s_low + cube_low));
  const double high = all.high + low;
  return (Two){high, low - (high - all.high)};
}

// exp(y log |x|); where that is no matter of digits, log |x| is infinity, as its sign goes.
static HL_INLINE double power_f64(double x, double y) {
  const double size = __builtin_fabs(x), steep = __builtin_fabs(y);
  const double finite = size < INFINITY ? size : 1, plain = finite > 0 ? finite : 1;
  const double times = steep < 0x1p70 ? y : 0;
  const Two log = log_two_f64(plain), product = product_two(times, log.high);
  const double low = mad_f64(times, log.low, product.low);
  const double near = __builtin_fabs(product.high) < 2000 ? low : 0;
  const double away = size > 1 ? INFINITY : size < 1 ? -INFINITY : size - 1;
  const double edge = size == plain ? (steep < 0x1p70 ? product.high : y * away) : y * away;
  return power_edges_f64(x, y, scaled_exp_f64(edge, near, 0));
}

// Halley's step.
static HL_INLINE double cbrt_step_f64(double y, double m) {
  const Two square = product_two(y, y);
  const double cube = square.high * y, off = mad_f64(square.high, y, -m) + square.low * y;
  return y - y * (off / (2 * cube + m));
}

// x = 2^(3k) m with m from 1/2 to 4: a polynomial that is right to 9 bits, and steps that triple their number.
static HL_INLINE double cbrt_steps_f64(double x, int steps) {
  const double size = __builtin_fabs(x), normal = size < 0x1p-1022 ? size * 0x1p54 : size;
  const uint64_t bits = hl_f64_bits(normal);
  const double e = hl_f64_of_bits(bits >> 52 | 0x4330000000000000) - (0x1p52 + 1023);
  const double third = e * 0x1.5555555555555p-2 + MAGIC_F64, k = third - MAGIC_F64;
  const double m = hl_f64_of_bits((bits & 0x000fffffffffffff) | 0x3ff0000000000000) *
                   power_of_two_f64((e - 3 * k) + MAGIC_F64);
  double y = P5_F64(m, -0x1.6c2580b1dd9f7p-8, 0x1.f86854794b939p-5, -0x1.12f32ab73e412p-2,
                    0x1.6edd2d4d88e1p-1, 0x1.fc49d6a826438p-2);
  y = cbrt_step_f64(y, m);
  y = steps > 1 ? cbrt_step_f64(y, m) : y;
  const double root = y * power_of_two_f64(third) * (size < 0x1p-1022 ? 0x1p-18 : 1);
  return x == 0 || !(size < INFINITY) ? x : __builtin_copysign(root, x);
}

// --- Angles -------------------------------------------------------------------------------------

// Beyond this the reduction has too few digits.
#define FAR_ANGLE 1e6

typedef struct Angle {
  double r, low;      // what is left of the angle, from -pi/4 to pi/4, in two numbers
  uint64_t quadrant;  // its last two bits
} Angle;
// The quarter turn in pieces of 33 bits, whose products with the number of turns are exact.
static HL_INLINE Angle reduce_angle_f64(double x) {
  const double magic = x * 0x1.45f306dc9c883p-1 + MAGIC_F64, n = magic - MAGIC_F64;
  const double first = x - n * 0x1.921fb544p+0, second = n * 0x1.0b4611a6p-34;
  const double r = first - second, lost = (first - r) - second;
  const double low = lost - n * 0x1.3198a2ep-69 - n * 0x1.b839a252049c1p-104;
  const double sum = r + low;
  return (Angle){sum, (r - sum) + low, hl_f64_bits(magic)};
}

static HL_INLINE double small_sin_f64(double r, double low) {
  const double z = r * r;
  const double p = P6_F64(z, 0x1.5d81030f6dd91p-33, -0x1.ae5e29a57e2a8p-26, 0x1.71de352c74001p-19,
                          -0x1.a01a019bbd915p-13, 0x1.111111110f5f3p-7, -0x1.5555555555547p-3);
  return r + mad_f64(r * z, p, low);
}

static HL_INLINE double small_cos_f64(double r, double low) {
  const double z = r * r, half = 0.5 * z, w = 1 - half;
  const double p = P6_F64(z, -0x1.8f9ae50ac0b53p-37, 0x1.1ee9c6cce790ep-29, -0x1.27e4f7d4e9451p-22,
                          0x1.a01a019c6abc1p-16, -0x1.6c16c16c14ec2p-10, 0x1.555555555554ap-5);
  return w + (((1 - w) - half) + (z * z * p - r * low));
}

// x, negated if that bit of the quadrant is set.
static HL_INLINE double turned_f64(double x, uint64_t quadrant, int bit) {
  return hl_f64_of_bits(hl_f64_bits(x) ^ (quadrant >> bit & 1) << 63);
}

static HL_INLINE double sin_f64(double x) {
  const Angle a = reduce_angle_f64(x);
  const double s = small_sin_f64(a.r, a.low), c = small_cos_f64(a.r, a.low);
  const double y = turned_f64(a.quadrant & 1 ? c : s, a.quadrant, 1);
  return x == 0 ? x : y;
}

static HL_INLINE double cos_f64(double x) {
  const Angle a = reduce_angle_f64(x);
  const double s = small_sin_f64(a.r, a.low), c = small_cos_f64(a.r, a.low);
  return turned_f64(a.quadrant & 1 ? s : c, a.quadrant + 1, 1);
}

static HL_INLINE double tan_f64(double x) {
  const Angle a = reduce_angle_f64(x);
  const double s = small_sin_f64(a.r, a.low), c = small_cos_f64(a.r, a.low);
  const double y = (a.quadrant & 1 ? -c : s) / (a.quadrant & 1 ? s : c);
  return x == 0 ? x : y;
}

// (asin(x) - x) / x of x * x.
static HL_INLINE double small_asin_f64(double z) {
  const double high = P6_F64(z, 0x1.062eea225ac2dp-5, -0x1.0c0a5557a2ed4p-6, 0x1.415fea8cd236cp-6,
                             0x1.a9b98f67b3c82p-8, 0x1.8f010ce571b7dp-7, 0x1.c6f43f9a0058bp-7);
  const double low = P6_F64(z, 0x1.1c6c5d95c7e17p-6, 0x1.6e89ebfc9c6e6p-6, 0x1.f1c72c919f7f4p-6,
                            0x1.6db6db41664c3p-5, 0x1.33333333702d2p-4, 0x1.5555555555382p-3);
  const double z2 = z * z;
  return z * mad_f64(high, z2 * z2 * z2, low);
}

#define QUARTER_TURN_HIGH 0x1.921fb54442d18p+0
#define QUARTER_TURN_LOW 0x1.1a62633145c07p-54

// Above 1/2 by the half angle: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
static HL_INLINE double asin_f64(double x) {
  const double size = __builtin_fabs(x);
  const bool large = size > 0.5;
  const double z = large ? 0.5 * (1 - size) : size * size, s = large ? __builtin_sqrt(z) : size;
  const double p = s * small_asin_f64(z);
  const double y = QUARTER_TURN_HIGH - (2 * s + (2 * p - QUARTER_TURN_LOW));
  return __builtin_copysign(large ? y : s + p, x);
}

static HL_INLINE double acos_f64(double x) {
  const double size = __builtin_fabs(x);
  const bool large = size > 0.5;
  const double z = large ? 0.5 * (1 - size) : size * size, s = large ? __builtin_sqrt(z) : x;
  const double p = s * small_asin_f64(z);
  const double near = QUARTER_TURN_HIGH - (s - (QUARTER_TURN_LOW - p));
  const double far = 2 * QUARTER_TURN_HIGH - (2 * s + (2 * p - 2 * QUARTER_TURN_LOW));
  return !large ? near : x < 0 ? far : 2 * (s + p);
}

// The angle of the smaller over the larger, less an eighth of a turn where it is above a sixteenth.
static HL_INLINE double atan2_f64(double y, double x) {
  const double a = __builtin_fabs(y), b = __builtin_fabs(x);
  const bool steep = a > b;
  const double less = steep ? b : a, more = steep ? a : b;
  const double small = less == INFINITY ? 1 : less, not_zero = more == 0 ? 1 : more;
  const double large = less == INFINITY ? 1 : not_zero;
  const double unit = large > 0x1p1000 ? 0x1p-4 : 1, p = small * unit, q = large * unit;
  const bool beyond = p > 0x1.a827999fcef32p-2 * q;
  const double t = (beyond ? p - q : p) / (beyond ? p + q : q), z = t * t;
  const double high = P5_F64(z, -0x1.23337a62d55fdp-6, 0x1.36d78789e0d6bp-5, -0x1.9c70b6880beaap-5,
                             0x1.defa03d6fa0e4p-5, -0x1.10ea4afdf01a1p-4);
  const double low = P6_F64(z, 0x1.3b10f9d5807eep-4, -0x1.745cf7279f144p-4, 0x1.c71c70d75d9cdp-4,
                            -0x1.2492492289131p-3, 0x1.99999999952dap-3, -0x1.555555555553bp-2);
  const double z2 = z * z, angle = t + t * z * mad_f64(high, z2 * z2 * z2, low);
  // In eighths of a turn: what is left is added or taken away once. As numbers, not choices, which would become jumps.
  const double up = steep ? 1 : 0, left = (1 - __builtin_copysign(1, x)) / 2,
               eighth = beyond ? 1 : 0;
  const double way = (1 - 2 * up) * (1 - 2 * left);
  const double eighths = 2 * up + 4 * left * (1 - up) + way * eighth;
  const double base = eighths * (0.5 * QUARTER_TURN_HIGH),
               low_base = eighths * (0.5 * QUARTER_TURN_LOW);
  return x != x ? x : __builtin_copysign(base + (way * angle + low_base), y);
}

// --- erf ----------------------------------------------------------------------------------------

// Up to 1 a polynomial; beyond, 1 - exp(-x^2) q(1 / (x + 2)).
static HL_INLINE double erf_f64(double x) {
  const double size = __builtin_fabs(x), near = size > 1 ? 1 : size, z = near * near, z2 = z * z;
  const double high = P7_F64(z, 0x1.0579a5020afa2p-34, -0x1.386abe9cef783p-30,
                             0x1.f7a41177aab54p-27, -0x1.5f1d36b0eaf2bp-23, 0x1.b9def19bdc294p-20,
                             -0x1.f4d1df3920d0dp-17, 0x1.f9a321a11b90fp-14);
  const double low = P6_F64(z, -0x1.c02db3d8ed105p-11, 0x1.565bcd0db02ddp-8, -0x1.b82ce3128499cp-6,
                            0x1.ce2f21a042b2p-4, -0x1.812746b0379e6p-2, 0x1.06eba8214db69p-3);
  const double small = mad_f64(near, mad_f64(high, z2 * z2 * z2, low), near);
  const double far = size > 5.95 ? 5.95 : size, t = 1 / (far + 2), t2 = t * t, t4 = t2 * t2;
  const double q_high = P7_F64(t, -0x1.a5babe6208e36p+7, 0x1.73f0a642a647dp+9,
                               -0x1.1eb762540541fp+10, 0x1.ee9e24435b147p+9, -0x1.fb75001ccdad3p+8,
                               0x1.3f8e7dea9701ap+7, -0x1.45529b5ea7c18p+5);
  const double q_low = P6_F64(t, 0x1.3918be71f0935p+3, 0x1.ea2aff4c9d8fap+0, 0x1.073a15d6f7152p+1,
                              0x1.1f98e5a39948cp+0, 0x1.20f50f7149678p-1, -0x1.8d62d3e1e9159p-19);
  const double large = 1 - exp_f64(-far * far) * mad_f64(q_high, t4 * t2, q_low);
  return x != x ? x : __builtin_copysign(size > 1 ? large : small, x);
}

#endif
