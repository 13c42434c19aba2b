// op/elementwise_convert.c: convert, bitcast-convert, reduce-precision, stochastic-convert.

#include "base/memory.h"
#include "op/elementwise.h"

bool eval_convert(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  if (in[0]->n != out->n)
    return hl_inst_error(ev->cx, inst, "operand and result differ in size");
  hl_convert_elements(out->shape->dtype, out->data, in[0]->shape->dtype, in[0]->data, out->n);
  return true;
}

// --- bitcast-convert ----------------------------------------------------------------------------

// Elements of less than a byte are packed first ones lowest, as many as the wider type holds.
static void split_sub_byte(const uint8_t *from, uint8_t *to, int64_t n, HlDtype narrow,
                           int wide_bits) {
  const int bits = hl_dtype_info[narrow].bits, per = wide_bits / bits;
  for (int64_t i = 0; i < n; i++) {
    const int at = (int)(i % per) * bits;
    const uint8_t byte = from[i / per * ((wide_bits + 7) / 8) + at / 8];
    const uint64_t value = (uint64_t)(byte >> (at % 8));
    ew_narrow(narrow, &value, &to[i], 1);
  }
}

static void join_sub_byte(const uint8_t *from, uint8_t *to, int64_t n, HlDtype narrow,
                          int wide_bits) {
  const int bits = hl_dtype_info[narrow].bits, per = wide_bits / bits;
  for (int64_t i = 0; i < n; i++) {
    const int at = (int)(i % per) * bits;
    const int value = from[i] & ((1 << bits) - 1);
    to[i / per * ((wide_bits + 7) / 8) + at / 8] |= (uint8_t)(value << (at % 8));
  }
}

static bool is_small_float(HlDtype dtype) {
  return hl_is_float(dtype) && hl_dtype_info[dtype].bits < 8;
}

void ew_recast_sub_byte(HlDtype to, const uint8_t *from, uint8_t *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const uint64_t value = from[i];
    if (is_small_float(to))
      out[i] = (uint8_t)(value & ((1U << hl_dtype_info[to].bits) - 1));
    else
      ew_narrow(to, &value, &out[i], 1);
  }
}

// The width that counts: what storage has, as a pred takes a byte of it.
static int cast_bits(HlDtype dtype) {
  return dtype == HL_PRED ? 8 : hl_dtype_info[dtype].bits;
}

bool eval_bitcast_convert(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                          HlLiteral *out) {
  const HlDtype from = in[0]->shape->dtype, to = out->shape->dtype;
  const int from_bits = cast_bits(from), to_bits = cast_bits(to);
  const int64_t n_in = in[0]->n, n_out = out->n;
  const bool fits =
      from_bits >= to_bits
          ? n_out % (from_bits / to_bits) == 0 && n_in == n_out / (from_bits / to_bits)
          : n_in % (to_bits / from_bits) == 0 && n_out == n_in / (to_bits / from_bits);
  if (!fits)
    return hl_inst_error(ev->cx, inst, "operand and result differ in bits");
  if (from_bits == to_bits && to_bits < 8)
    ew_recast_sub_byte(to, in[0]->data, out->data, n_out);
  else if (from_bits > to_bits && to_bits < 8)
    split_sub_byte(in[0]->data, out->data, n_out, to, from_bits);
  else if (from_bits < to_bits && from_bits < 8)
    join_sub_byte(in[0]->data, out->data, n_in, from, to_bits);
  else if (n_out > 0)
    memcpy(out->data, in[0]->data, (size_t)n_out * (size_t)hl_dtype_bytes(to));
  return true;
}

// --- reduce-precision ---------------------------------------------------------------------------

typedef struct Precision {
  int exponent_bits, mantissa_bits;  // of the source format
  int to_exponent, to_mantissa;
} Precision;

static Precision precision_of(HlDtype dtype, int64_t exponent, int64_t mantissa) {
  Precision p = {8, 23, 0, 0};
  if (dtype == HL_F64) {
    p.exponent_bits = 11;
    p.mantissa_bits = 52;
  } else if (dtype != HL_F32) {
    p.exponent_bits = hl_dtype_info[dtype].format.exponent_bits;
    p.mantissa_bits = hl_dtype_info[dtype].format.mantissa_bits;
  }
  p.to_exponent = exponent < p.exponent_bits ? (int)exponent : p.exponent_bits;
  p.to_mantissa = mantissa < p.mantissa_bits ? (int)mantissa : p.mantissa_bits;
  return p;
}

// Rounds the magnitude to even at the last mantissa bit kept; a carry may enter the exponent.
static uint64_t round_mantissa(const Precision *p, uint64_t magnitude) {
  const int drop = p->mantissa_bits - p->to_mantissa;
  if (drop == 0)
    return magnitude;
  const uint64_t last = UINT64_C(1) << drop, odd = (magnitude >> drop) & 1;
  return (magnitude + (last >> 1) - 1 + odd) & ~(last - 1);
}

static uint64_t reduce_bits(const Precision *p, uint64_t bits) {
  const uint64_t sign_bit = UINT64_C(1) << (p->exponent_bits + p->mantissa_bits);
  const uint64_t infinity = ((UINT64_C(1) << p->exponent_bits) - 1) << p->mantissa_bits;
  const uint64_t sign = bits & sign_bit;
  uint64_t magnitude = bits & (sign_bit - 1);
  if (magnitude > infinity)
    return bits;  // nan stays, also where no mantissa bit is left to tell it
  magnitude = round_mantissa(p, magnitude);
  if (p->to_exponent < p->exponent_bits) {
    const int64_t bias = (INT64_C(1) << (p->exponent_bits - 1)) - 1,
                  reach = (INT64_C(1) << (p->to_exponent - 1)) - 1;
    const int64_t exponent = (int64_t)(magnitude >> p->mantissa_bits);
    if (exponent > bias + reach)
      magnitude = infinity;
    else if (exponent <= bias - reach)
      magnitude = 0;
  }
  return sign | magnitude;
}

bool eval_reduce_precision(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                           HlLiteral *out) {
  const HlDtype dtype = in[0]->shape->dtype;
  const int64_t exponent = hl_attr_int(inst, HL_A_EXPONENT_BITS),
                mantissa = hl_attr_int(inst, HL_A_MANTISSA_BITS);
  if (!hl_is_float(dtype) || exponent < 1 || mantissa < 0)
    return hl_inst_error(ev->cx, inst, "cannot reduce %s to %lld exponent and %lld mantissa bits",
                         hl_dtype_text(dtype), (long long)exponent, (long long)mantissa);
  if (out->shape->dtype != dtype || in[0]->n != out->n)
    return hl_inst_error(ev->cx, inst, "operand and result differ in type or size");
  const Precision p = precision_of(dtype, exponent, mantissa);
  const int bytes = hl_dtype_bytes(dtype);
  uint32_t steps = 0;
  for (int64_t i = 0; i < out->n; i++) {
    base_look_often(&steps);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)in[0]->data + i * bytes, (size_t)bytes);
    bits = reduce_bits(&p, bits);
    memcpy((char *)out->data + i * bytes, &bits, (size_t)bytes);
  }
  return true;
}

// --- stochastic-convert -------------------------------------------------------------------------

// |x| truncated, and one more where the random bits fall below the fraction; saturated to `bits`.
static int64_t convert_stochastically(double x, uint64_t random, int random_bits, int bits) {
  if (x != x)
    return 0;
  const int64_t largest = (int64_t)(UINT64_MAX >> (65 - bits)), smallest = -largest - 1;
  const double size = fabs(x), whole = floor(size);
  if (size >= ldexp(1, bits - 1))
    return x < 0 ? smallest : largest;
  const double threshold = floor(ldexp(size - whole, random_bits));
  uint64_t result = (uint64_t)whole;
  if ((double)random < threshold)
    result++;
  if (x < 0)
    return -(int64_t)result;
  return result > (uint64_t)largest ? largest : (int64_t)result;
}

bool eval_stochastic_convert(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                             HlLiteral *out) {
  const HlDtype to = out->shape->dtype, random = in[1]->shape->dtype;
  if (!hl_is_float(in[0]->shape->dtype) || !hl_is_unsigned(random) || !hl_is_signed(to) ||
      in[0]->n != out->n || in[1]->n != out->n)
    return kernel_no_type(ev, inst, in[0]->shape->dtype);
  const int bits = hl_dtype_info[to].bits, random_bits = hl_dtype_info[random].bits;
  uint32_t steps = 0;
  for (int64_t i = 0; i < out->n; i++) {
    base_look_often(&steps);
    const uint64_t r = (uint64_t)hl_literal_i64(in[1], i);
    hl_literal_set_i64(out, i,
                       convert_stochastically(hl_literal_f64(in[0], i), r, random_bits, bits));
  }
  return true;
}
