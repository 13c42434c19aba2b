// cpu/emit/math.c: functions of an f32 as instructions: what cpu/vec/math_f32.h says, step for step, so that the bits are the same.
//
// What C says in several steps and AVX-512 has in one that rounds alike is that one: a multiplication by 2^k, the smaller of two.

#include "cpu/emit/inst.h"

#include <math.h>

#include "base/bits.h"

static const float MAGIC = 0x1.8p23F, LN2_HIGH = 0x1.62e4p-1F, LN2_LOW = 0x1.7f7d1cp-20F;

// --- Steps -----------------------------------------------------------------------------------------

static int bits_of(EmitBody *body, uint32_t bits) {
  return inst_const(body, bits, 4);
}
static int number(EmitBody *body, float x) {
  return bits_of(body, hl_f32_bits(x));
}
static int op2(EmitBody *body, X86Op op, int x, int y) {
  return inst_op(body, op, 4, x, y, 0);
}
static int add(EmitBody *body, int x, int y) {
  return op2(body, X86_VADDPS, x, y);
}
static int subtract(EmitBody *body, int x, int y) {
  return op2(body, X86_VSUBPS, x, y);
}
static int multiply(EmitBody *body, int x, int y) {
  return op2(body, X86_VMULPS, x, y);
}
static int divide(EmitBody *body, int x, int y) {
  return op2(body, X86_VDIVPS, x, y);
}
// x y + z: where x is, or where z is.
static int mad(EmitBody *body, int x, int y, int z) {
  return inst_op3(body, X86_VFMADD213PS, 4, x, y, z, 0);
}
static int mad_onto(EmitBody *body, int x, int y, int z) {
  return inst_op3(body, X86_VFMADD231PS, 4, z, x, y, 0);
}
static int shifted_left(EmitBody *body, int x, int by) {
  return inst_op(body, X86_VPSLLD_I, 4, -1, x, by);
}

// x > most ? most : x; x < least ? least : x. Of nan, nan.
static int at_most(EmitBody *body, int x, float most) {
  return op2(body, X86_VMINPS, number(body, most), x);
}
static int at_least(EmitBody *body, int x, float least) {
  return op2(body, X86_VMAXPS, number(body, least), x);
}

static int magnitude(EmitBody *body, int x) {
  return op2(body, X86_VPAND, x, bits_of(body, 0x7fffffff));
}

static int copysign_of(EmitBody *body, int x, int sign) {
  const int bit = bits_of(body, 0x80000000);
  if (body->evex)  // bit ? sign : x
    return inst_op3(body, X86_VPTERNLOGD, 4, x, sign, bit, 0xd8);
  return op2(body, X86_VPOR, magnitude(body, x), op2(body, X86_VPAND, sign, bit));
}

// x op y ? yes : no
static int choose(EmitBody *body, VecOp op, int x, int y, int yes, int no) {
  return inst_select(body, 4, select_compare(body, op, HL_F32, x, y), yes, no);
}

// c[0] x^(n-1) + ... + c[n-1]
static int polynomial(EmitBody *body, int x, int n, const float *c) {
  int p = number(body, c[0]);
  for (int k = 1; k < n; k++)
    p = k == 1 ? mad(body, x, p, number(body, c[k])) : mad(body, p, x, number(body, c[k]));
  return p;
}
#define POLYNOMIAL(body, x, ...) \
  polynomial(body, x, HL_COUNT_OF(((const float[]){__VA_ARGS__})), (const float[]){__VA_ARGS__})

// --- exp -------------------------------------------------------------------------------------------

// 2^k of MAGIC + k.
static int power_of_two(EmitBody *body, int magic) {
  return op2(body, X86_VPADDD, shifted_left(body, magic, 23), bits_of(body, 0x3f800000));
}

// x 2^k, rounded once.
static int scale(EmitBody *body, int x, int k) {
  if (body->evex)
    return op2(body, X86_VSCALEFPS, x, k);
  const int magic = number(body, MAGIC);
  const int half = mad(body, k, number(body, 0.5F), magic);
  const int rest = subtract(body, k, subtract(body, half, magic));
  const int first = multiply(body, x, power_of_two(body, half));
  return multiply(body, first, power_of_two(body, add(body, rest, magic)));
}

// x = k ln 2 + r
typedef struct Reduced {
  int magic, k, r;
} Reduced;

static Reduced reduce_exp(EmitBody *body, int x) {
  Reduced out;
  out.magic = mad(body, x, number(body, 0x1.715476p+0F), number(body, MAGIC));
  out.k = subtract(body, out.magic, number(body, MAGIC));
  const int high = mad_onto(body, out.k, number(body, -LN2_HIGH), x);
  out.r = mad_onto(body, out.k, number(body, -LN2_LOW), high);
  return out;
}

static int small_exp(EmitBody *body, int r) {
  const int p = POLYNOMIAL(body, r, 0x1.6a1f5ap-10F, 0x1.123cccp-7F, 0x1.555904p-5F, 0x1.55548ep-3F,
                           0x1.fffffcp-2F);
  return add(body, mad_onto(body, multiply(body, r, r), p, r), number(body, 1));
}

static int exponential(EmitBody *body, int x) {
  const Reduced e = reduce_exp(body, at_least(body, at_most(body, x, 90), -105));
  return scale(body, small_exp(body, e.r), e.k);
}

// Of -80 to 80.
static int near_exponential(EmitBody *body, int x) {
  const Reduced e = reduce_exp(body, x);
  const int y = small_exp(body, e.r);
  return body->evex ? scale(body, y, e.k) : multiply(body, y, power_of_two(body, e.magic));
}

// 2^-k, where k is more than 60 2^-60.
static int power_away(EmitBody *body, int k) {
  return power_of_two(body, subtract(body, number(body, MAGIC), at_most(body, k, 60)));
}

static int exponential_minus_one(EmitBody *body, int x) {
  const Reduced e = reduce_exp(body, at_least(body, at_most(body, x, 90), -20));
  const int p =
      POLYNOMIAL(body, e.r, 0x1.6d9ceap-10F, 0x1.122abcp-7F, 0x1.555482p-5F, 0x1.5554acp-3F, 0.5F);
  const int small = mad_onto(body, multiply(body, e.r, e.r), p, e.r);
  const int rest = subtract(body, number(body, 1), power_away(body, e.k));
  return copysign_of(body, scale(body, add(body, small, rest), e.k), x);
}

static int logistic(EmitBody *body, int x) {
  const int one = number(body, 1);
  const int e = exponential(body, op2(body, X86_VPOR, x, bits_of(body, 0x80000000)));
  const int sum = add(body, e, one), lost = subtract(body, e, subtract(body, sum, one));
  const int upper = choose(body, VEC_LT, x, number(body, 0), e, one);
  const int y = divide(body, upper, sum);
  const int by = mad(body, e, number(body, 0.5F), number(body, -1));
  return mad_onto(body, y, multiply(body, lost, by), y);
}

static int tanh_of(EmitBody *body, int x) {
  const int size = magnitude(body, x), far = at_most(body, size, 10), z = multiply(body, x, x);
  const int p = POLYNOMIAL(body, z, -0x1.830c12p-8F, 0x1.54e01ep-6F, -0x1.b89edap-5F,
                           0x1.1109dcp-3F, -0x1.55553ep-2F);
  const int small = mad(body, multiply(body, size, z), p, size);
  const int e = near_exponential(body, add(body, far, far));
  const int lost = divide(body, number(body, 2), add(body, e, number(body, 1)));
  const int large = subtract(body, number(body, 1), lost);
  return copysign_of(body, choose(body, VEC_LT, size, number(body, 0.6F), small, large), x);
}

// --- log -------------------------------------------------------------------------------------------

// x = 2^k m
static int mantissa(EmitBody *body, int x, int *k) {
  const uint32_t least = 0x3f2aaaab;
  const int above = op2(body, X86_VPADDD, x, bits_of(body, 0x3f800000 - least));
  const int whole = inst_op(body, X86_VPSRLD_I, 4, -1, above, 23);
  *k = subtract(body, inst_op(body, X86_VCVTDQ2PS, 4, -1, whole, 0), number(body, 127));
  const int rest = op2(body, X86_VPAND, above, bits_of(body, 0x007fffff));
  return op2(body, X86_VPADDD, rest, bits_of(body, least));
}

static int log_parts(EmitBody *body, int k, int f) {
  const int z = multiply(body, f, f);
  const int p =
      POLYNOMIAL(body, f, -0x1.0ef2a8p-3F, 0x1.1ea23cp-3F, -0x1.efe0cap-4F, 0x1.1ed172p-3F,
                 -0x1.55bb2ap-3F, 0x1.99cffcp-3F, -0x1.fffe4cp-3F, 0x1.555508p-2F);
  const int high = multiply(body, k, number(body, LN2_HIGH)), sum = add(body, high, f);
  const int lost = subtract(body, f, subtract(body, sum, high));
  const int low = multiply(body, z, mad(body, p, f, number(body, -0.5F)));
  const int rest = mad(body, k, number(body, LN2_LOW), low);
  return add(body, sum, add(body, lost, rest));
}

// y, but for a zero, negative, infinite or nan x.
static int log_edges(EmitBody *body, int x, int y) {
  const int zero = number(body, 0);
  const int below = choose(body, VEC_EQ, x, zero, number(body, -INFINITY), y);
  const int negative = choose(body, VEC_LT, x, zero, bits_of(body, 0x7fc00000), below);
  return choose(body, VEC_LT, x, number(body, INFINITY), negative, x);
}

static int log_of(EmitBody *body, int x) {
  const int least = number(body, 0x1p-126F);
  const int larger = multiply(body, x, number(body, 0x1p23F));
  const int normal = choose(body, VEC_LT, x, least, larger, x);
  int k;
  const int m = mantissa(body, normal, &k);
  const int less = subtract(body, k, number(body, 23));
  const int f = subtract(body, m, number(body, 1));
  return log_edges(body, x, log_parts(body, choose(body, VEC_LT, x, least, less, k), f));
}

static int log_plus_one(EmitBody *body, int x) {
  const int u = add(body, x, number(body, 1)), one = subtract(body, u, x);
  const int of_one = subtract(body, number(body, 1), one);
  const int lost = add(body, of_one, subtract(body, x, subtract(body, u, one)));
  int k;
  const int m = mantissa(body, u, &k);
  const int more = multiply(body, lost, power_away(body, k));
  const int f = add(body, subtract(body, m, number(body, 1)), more);
  const int y = log_parts(body, k, choose(body, VEC_EQ, k, number(body, 0), x, f));
  const int whole = choose(body, VEC_EQ, x, number(body, INFINITY), x, y);
  return copysign_of(body, log_edges(body, u, whole), x);
}

// --- erf -------------------------------------------------------------------------------------------

static int erf_of(EmitBody *body, int x) {
  const int size = magnitude(body, x), z = multiply(body, x, x), far = at_most(body, size, 3.95F);
  const int p = POLYNOMIAL(body, z, 0x1.496a1cp-14F, -0x1.a3f6f8p-11F, 0x1.5405bp-8F,
                           -0x1.b7f90cp-6F, 0x1.ce2cf8p-4F, -0x1.81273ep-2F, 0x1.06eba8p-3F);
  const int q = POLYNOMIAL(body, far, -0x1.8a3592p-13F, 0x1.848028p-9F, -0x1.66eab8p-6F,
                           0x1.a6f02p-4F, 0x1.46a354p-1F, 0x1.209056p+0F, 0x1.47a00ap-12F);
  const int minus_q = op2(body, X86_VPXOR, q, bits_of(body, 0x80000000));
  const int large = subtract(body, number(body, 1), near_exponential(body, minus_q));
  const int small = mad(body, p, size, size);
  const int y = choose(body, VEC_LT, size, number(body, 1), small, large);
  return choose(body, VEC_NE, x, x, x, copysign_of(body, y, x));
}

// --- Which -----------------------------------------------------------------------------------------

int select_math(EmitBody *body, VecOp vec, int x) {
  switch (vec) {
  case VEC_EXPONENTIAL: return exponential(body, x);
  case VEC_EXPONENTIAL_MINUS_ONE: return exponential_minus_one(body, x);
  case VEC_LOGISTIC: return logistic(body, x);
  case VEC_TANH: return tanh_of(body, x);
  case VEC_LOG: return log_of(body, x);
  case VEC_LOG_PLUS_ONE: return log_plus_one(body, x);
  case VEC_ERF: return erf_of(body, x);
  case VEC_RSQRT: return divide(body, number(body, 1), op2(body, X86_VSQRTPS, -1, x));
  default: return -1;
  }
}
