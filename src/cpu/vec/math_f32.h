// cpu/vec/math_f32.h: functions of an f32, as math_f64.h has them for f64; those that are rarer are computed in f64.
#ifndef HILO_CPU_VEC_MATH_F32_H
#define HILO_CPU_VEC_MATH_F32_H

#include "cpu/vec/math_f64.h"

#define MAGIC_F32 0x1.8p23F

static HL_INLINE float mad_f32(float x, float y, float z) {
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
}

#define P1_F32(x, a) (a)
#define P2_F32(x, a, b) mad_f32(P1_F32(x, a), x, b)
#define P3_F32(x, a, b, c) mad_f32(P2_F32(x, a, b), x, c)
#define P4_F32(x, a, b, c, d) mad_f32(P3_F32(x, a, b, c), x, d)
#define P5_F32(x, a, b, c, d, e) mad_f32(P4_F32(x, a, b, c, d), x, e)
#define P6_F32(x, a, b, c, d, e, f) mad_f32(P5_F32(x, a, b, c, d, e), x, f)
#define P7_F32(x, a, b, c, d, e, f, g) mad_f32(P6_F32(x, a, b, c, d, e, f), x, g)
#define P8_F32(x, a, b, c, d, e, f, g, h) mad_f32(P7_F32(x, a, b, c, d, e, f, g), x, h)

// --- exp ----------------------------------------------------------------------------------------

#define LN2_HIGH_F32 0x1.62e4p-1F
#define LN2_LOW_F32 0x1.7f7d1cp-20F

// 2^k of MAGIC_F32 + k, -127 < k < 128.
static HL_INLINE float power_of_two_f32(float magic) {
  return hl_f32_of_bits((hl_f32_bits(magic) << 23) + 0x3f800000);
}

// x * 2^k, rounded once, for whole |k| <= 250.
static HL_INLINE float scale_f32(float x, float k) {
  const float half = mad_f32(k, 0.5F, MAGIC_F32), rest = k - (half - MAGIC_F32);
  return x * power_of_two_f32(half) * power_of_two_f32(rest + MAGIC_F32);
}

static HL_INLINE float reduce_exp_f32(float x, float *magic) {
  *magic = mad_f32(x, 0x1.715476p+0F, MAGIC_F32);
  const float k = *magic - MAGIC_F32;
  return mad_f32(k, -LN2_LOW_F32, mad_f32(k, -LN2_HIGH_F32, x));
}

// exp(r) for |r| <= ln 2 / 2.
static HL_INLINE float small_exp_f32(float r) {
  const float p =
      P5_F32(r, 0x1.6a1f5ap-10F, 0x1.123cccp-7F, 0x1.555904p-5F, 0x1.55548ep-3F, 0x1.fffffcp-2F);
  return 1 + mad_f32(r * r, p, r);
}

static HL_INLINE float exp_f32(float x) {
  const float most = x > 90 ? 90 : x, clamped = most < -105 ? -105 : most;
  float magic;
  const float r = reduce_exp_f32(clamped, &magic);
  return scale_f32(small_exp_f32(r), magic - MAGIC_F32);
}

// Of -80 to 80.
static HL_INLINE float near_exp_f32(float x) {
  float magic;
  const float r = reduce_exp_f32(x, &magic);
  return small_exp_f32(r) * power_of_two_f32(magic);
}

static HL_INLINE float expm1_f32(float x) {
  const float most = x > 90 ? 90 : x, clamped = most < -20 ? -20 : most;
  float magic;
  const float r = reduce_exp_f32(clamped, &magic), k = magic - MAGIC_F32;
  const float p = P5_F32(r, 0x1.6d9ceap-10F, 0x1.122abcp-7F, 0x1.555482p-5F, 0x1.5554acp-3F, 0.5F);
  const float small = mad_f32(r * r, p, r);
  const float away = power_of_two_f32(MAGIC_F32 - (k > 60 ? 60 : k));
  return __builtin_copysignf(scale_f32(small + (1 - away), k), x);
}

static HL_INLINE float logistic_f32(float x) {
  const float e = exp_f32(-__builtin_fabsf(x)), sum = 1 + e, lost = e - (sum - 1);
  const float y = (x < 0 ? e : 1) / sum;
  return mad_f32(y, lost * mad_f32(e, 0.5F, -1), y);
}

// A polynomial where 1 - 2 / (exp(2 x) + 1) would lose digits.
static HL_INLINE float tanh_f32(float x) {
  const float size = __builtin_fabsf(x), far = size > 10 ? 10 : size, z = x * x;
  const float p =
      P5_F32(z, -0x1.830c12p-8F, 0x1.54e01ep-6F, -0x1.b89edap-5F, 0x1.1109dcp-3F, -0x1.55553ep-2F);
  const float small = mad_f32(size * z, p, size), large = 1 - 2 / (near_exp_f32(2 * far) + 1);
  return __builtin_copysignf(size < 0.6F ? small : large, x);
}

// --- log ----------------------------------------------------------------------------------------

// x = 2^k m with m from 2/3 to 4/3, for positive, finite, normal x.
static HL_INLINE float mantissa_f32(float x, float *k) {
  const uint32_t least = 0x3f2aaaab, above = hl_f32_bits(x) - least + 0x3f800000;
  *k = (float)(int32_t)(above >> 23) - 127;
  return hl_f32_of_bits((above & 0x007fffff) + least);
}

// k ln 2 + log(1 + f); what the sum of the two large terms lost is added again.
static HL_INLINE float log_parts_f32(float k, float f) {
  const float z = f * f;
  const float p = P8_F32(f, -0x1.0ef2a8p-3F, 0x1.1ea23cp-3F, -0x1.efe0cap-4F, 0x1.1ed172p-3F,
                         -0x1.55bb2ap-3F, 0x1.99cffcp-3F, -0x1.fffe4cp-3F, 0x1.555508p-2F);
  const float high = k * LN2_HIGH_F32, sum = high + f, lost = f - (sum - high);
  return sum + (lost + mad_f32(k, LN2_LOW_F32, z * mad_f32(f, p, -0.5F)));
}

static HL_INLINE float log_edges_f32(float x, float y) {
  const float zero = x == 0 ? -INFINITY : y, negative = x < 0 ? NAN : zero;
  return x < INFINITY ? negative : x;
}

static HL_INLINE float log_f32(float x) {
  const float normal = x < 0x1p-126F ? x * 0x1p23F : x;
  float k;
  const float m = mantissa_f32(normal, &k);
  return log_edges_f32(x, log_parts_f32(x < 0x1p-126F ? k - 23 : k, m - 1));
}

static HL_INLINE float log1p_f32(float x) {
  const float u = 1 + x, one = u - x, lost = (1 - one) + (x - (u - one));
  float k;
  const float m = mantissa_f32(u, &k);
  const float more = lost * power_of_two_f32(MAGIC_F32 - (k > 60 ? 60 : k));
  const float y = log_parts_f32(k, k == 0 ? x : (m - 1) + more);
  return __builtin_copysignf(log_edges_f32(u, x == INFINITY ? x : y), x);
}

// --- Angles -------------------------------------------------------------------------------------

// In f64, but with as many terms as f32 needs.
static HL_INLINE double reduce_angle_f32(double x, uint64_t *quadrant) {
  const double magic = x * 0x1.45f306dc9c883p-1 + MAGIC_F64, n = magic - MAGIC_F64;
  *quadrant = hl_f64_bits(magic);
  return (x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
}

static HL_INLINE double small_sin_f32(double r) {
  const double z = r * r;
  return mad_f64(r * z,
                 P3_F64(z, -0x1.992c3059c9d53p-13, 0x1.1106fca1f8316p-7, -0x1.555544a3cdeep-3), r);
}

static HL_INLINE double small_cos_f32(double r) {
  const double z = r * r;
  return P5_F64(z, 0x1.99e3616e3f51cp-16, -0x1.6c0c22a4e146fp-10, 0x1.55554a0e11f4ap-5, -0.5, 1.0);
}

static HL_INLINE float sin_f32(float x) {
  uint64_t quadrant;
  const double r = reduce_angle_f32((double)x, &quadrant);
  const float y =
      (float)turned_f64(quadrant & 1 ? small_cos_f32(r) : small_sin_f32(r), quadrant, 1);
  return x == 0 ? x : y;
}

static HL_INLINE float cos_f32(float x) {
  uint64_t quadrant;
  const double r = reduce_angle_f32((double)x, &quadrant);
  return (float)turned_f64(quadrant & 1 ? small_sin_f32(r) : small_cos_f32(r), quadrant + 1, 1);
}

static HL_INLINE float tan_f32(float x) {
  uint64_t quadrant;
  const double r = reduce_angle_f32((double)x, &quadrant);
  const double s = small_sin_f32(r), c = small_cos_f32(r);
  const float y = (float)((quadrant & 1 ? -c : s) / (quadrant & 1 ? s : c));
  return x == 0 ? x : y;
}

// --- erf ----------------------------------------------------------------------------------------

// Up to 1 a polynomial; beyond, 1 - exp of another.
static HL_INLINE float erf_f32(float x) {
  const float size = __builtin_fabsf(x), z = x * x, far = size > 3.95F ? 3.95F : size;
  const float p = P7_F32(z, 0x1.496a1cp-14F, -0x1.a3f6f8p-11F, 0x1.5405bp-8F, -0x1.b7f90cp-6F,
                         0x1.ce2cf8p-4F, -0x1.81273ep-2F, 0x1.06eba8p-3F);
  const float q = P7_F32(far, -0x1.8a3592p-13F, 0x1.848028p-9F, -0x1.66eab8p-6F, 0x1.a6f02p-4F,
                         0x1.46a354p-1F, 0x1.209056p+0F, 0x1.47a00ap-12F);
  const float large = 1 - near_exp_f32(-q);
  return x != x ? x : __builtin_copysignf(size < 1 ? mad_f32(size, p, size) : large, x);
}

// --- In f64 --------------------------------------------------------------------------------------

static HL_INLINE float power_f32(float x, float y) {
  const double size = __builtin_fabs((double)x), p = exp_f64((double)y * log_f64(size));
  return (float)power_edges_f64((double)x, (double)y, p);
}

#endif
