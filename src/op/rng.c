// op/rng.c: rng (hidden state) and rng-bit-generator (ThreeFry 2x32-20 and Philox 4x32-10).
//
// rng draws from the interpreter's own stream, one per device. The bit generators are functions of
// their operand, equal on every machine: Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3" (2011), with XLA's ways of laying counters and outputs over a shape.

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "op/fold.h"

// --- rng -----------------------------------------------------------------------------------------

static double normal(HlRng *rng) {
  const double u = 1 - hl_rng_unit(rng), v = hl_rng_unit(rng);  // u in (0, 1]
  return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

// Uniform in [low, high) of an integer type; low where the range is empty.
static int64_t uniform_int(HlRng *rng, int64_t low, int64_t high, bool is_unsigned) {
  const uint64_t range = (uint64_t)high - (uint64_t)low;
  if (is_unsigned ? (uint64_t)high <= (uint64_t)low : high <= low)
    return low;
  return (int64_t)((uint64_t)low + hl_rng_u64(rng) % range);
}

// Uniform in [low, high): rounding to the type must not reach high.
static void draw_uniform(HlRng *rng, HlLiteral *out, int64_t k, double low, double high) {
  for (int tries = 0; tries < 8; tries++) {
    hl_literal_set_f64(out, k, low + (high - low) * hl_rng_unit(rng));
    if (hl_literal_f64(out, k) < high)
      return;
  }
  hl_literal_set_f64(out, k, low);
}

bool eval_rng(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlDtype dtype = out->shape->dtype;
  const bool is_normal = hl_attr_int(inst, HL_A_DISTRIBUTION) == HL_WORD_distribution_NORMAL;
  if (inst->n_operands != 2 || hl_is_complex(dtype) || (is_normal && !hl_is_float(dtype)))
    return kernel_no_type(ev, inst, dtype);
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&steps);
    if (is_normal)
      hl_literal_set_f64(out, k,
                         hl_literal_f64(in[0], 0) + hl_literal_f64(in[1], 0) * normal(&ev->rng));
    else if (hl_is_float(dtype))
      draw_uniform(&ev->rng, out, k, hl_literal_f64(in[0], 0), hl_literal_f64(in[1], 0));
    else
      hl_literal_set_i64(out, k,
                         uniform_int(&ev->rng, hl_literal_i64(in[0], 0), hl_literal_i64(in[1], 0),
                                     !hl_is_signed(dtype)));
  }
  return true;
}

// --- The generators' blocks ----------------------------------------------------------------------

static uint32_t rotl(uint32_t x, int by) {
  return x << by | x >> (32 - by);
}

// 64 bits from a key and a counter.
static uint64_t threefry(uint64_t key, uint64_t counter) {
  static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k[3] = {(uint32_t)key, (uint32_t)(key >> 32),
                         (uint32_t)key ^ (uint32_t)(key >> 32) ^ 0x1BD11BDAu};
  uint32_t x0 = (uint32_t)counter + k[0], x1 = (uint32_t)(counter >> 32) + k[1];
  for (uint32_t group = 1; group <= 5; group++) {
    for (int r = 0; r < 4; r++) {
      x0 += x1;
      x1 = rotl(x1, rotation[(group - 1) % 2][r]) ^ x0;
    }
    x0 += k[group % 3];
    x1 += k[(group + 1) % 3] + group;
  }
  return (uint64_t)x1 << 32 | x0;
}

// Four words from a key and a 128-bit counter.
static void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t x[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  x[0] = (uint32_t)low;
  x[1] = (uint32_t)(low >> 32);
  x[2] = (uint32_t)high;
  x[3] = (uint32_t)(high >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
    const uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0, y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
    x[0] = y0;
    x[1] = (uint32_t)b;
    x[2] = y2;
    x[3] = (uint32_t)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Stores the low bits of a value as an element of `bytes` bytes.
static void put_bits(HlLiteral *out, int64_t k, int bytes, uint64_t value) {
  switch (bytes) {
  case 1: ((uint8_t *)out->data)[k] = (uint8_t)value; break;
  case 2: ((uint16_t *)out->data)[k] = (uint16_t)value; break;
  case 4: ((uint32_t *)out->data)[k] = (uint32_t)value; break;
  default: ((uint64_t *)out->data)[k] = value; break;
  }
}

// --- Laid over a shape ---------------------------------------------------------------------------

// ThreeFry words of 32 bits: counters run over half of the shape, cut along one dimension, and each
// gives two neighbours along it. Returns how many counters were used.
static uint64_t fill_threefry_words(const uint64_t *state, HlLiteral *out, int bytes) {
  const HlShape *shape = out->shape;
  if (shape->rank == 0) {
    put_bits(out, 0, bytes, threefry(state[0], state[1]));
    return 1;
  }
  int split = 0;
  for (int d = 0; d < shape->rank; d++)
    if (shape->dim[d] > shape->dim[split])
      split = d;
  for (int d = shape->rank - 1; d >= 0; d--)
    if (shape->dim[d] % 2 == 0)
      split = d;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < shape->rank; d++)
    if (d != split)
      *(d < split ? &outer : &inner) *= shape->dim[d];
  const int64_t n = shape->dim[split], half = n / 2 + n % 2;
  uint32_t steps = 0;
  for (int64_t j = 0; j < outer * half * inner; j++) {
    base_look_often(&steps);
    const int64_t o = j / (half * inner), q = j / inner % half, i = j % inner;
    const uint64_t bits = threefry(state[0], state[1] + (uint64_t)j);
    const int64_t at = (o * n + 2 * q) * inner + i;
    put_bits(out, at, bytes, bits & 0xFFFFFFFFu);
    if (2 * q + 1 < n)
      put_bits(out, at + inner, bytes, bits >> 32);
  }
  return (uint64_t)(outer * half * inner);
}

static void fill_threefry(const uint64_t *state, HlLiteral *out, int bytes, uint64_t *next) {
  uint64_t used = (uint64_t)out->n;
  if (bytes < 8)
    used = out->n > 0 ? fill_threefry_words(state, out, bytes) : 0;
  for (int64_t k = 0; bytes == 8 && k < out->n; k++)
    put_bits(out, k, 8, threefry(state[0], state[1] + (uint64_t)k));
  next[0] = state[0];
  next[1] = state[1] + used;
}

// A state of two words has the key for the counter's high half, and keeps only the low half.
static void fill_philox(const uint64_t *state, int n_state, HlLiteral *out, int bytes,
                        uint64_t *next) {
  uint64_t low = state[1], high = n_state == 3 ? state[2] : state[0];
  const int64_t per_block = bytes == 8 ? 2 : 4;
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k += per_block) {
    base_look_often(&steps);
    uint32_t x[4];
    philox(state[0], low, high, x);
    for (int64_t j = 0; j < per_block && k + j < out->n; j++)
      put_bits(out, k + j, bytes, bytes == 8 ? (uint64_t)x[2 * j + 1] << 32 | x[2 * j] : x[j]);
    high += ++low == 0;
  }
  next[0] = state[0];
  next[1] = low;
  if (n_state == 3)
    next[2] = high;
}

bool eval_rng_bit_generator(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                            HlLiteral *out) {
  const bool is_threefry = hl_attr_int(inst, HL_A_RNG_ALGORITHM) == HL_WORD_rng_algorithm_THREE_FRY;
  if (!hl_shape_is_tuple(out->shape) || out->shape->rank != 2)
    return hl_inst_error(ev->cx, inst, "rng-bit-generator gives a tuple of state and bits");
  HlLiteral *next = out->element[0], *bits = out->element[1];
  const HlDtype dtype = bits->shape->dtype;
  const int n_state = (int)in[0]->n, bytes = hl_dtype_bytes(dtype);
  if (hl_dtype_info[dtype].bits < 8 || hl_is_complex(dtype) || dtype == HL_PRED)
    return kernel_no_type(ev, inst, dtype);
  if (in[0]->shape->dtype != HL_U64 || next->n != in[0]->n ||
      (n_state != 2 && (is_threefry || n_state != 3)))
    return hl_error_kind(ev->cx, HL_UNSUPPORTED, hl_pos(inst),
                         "the state of rng-bit-generator must be u64[2]%s",
                         is_threefry ? "" : " or u64[3]");
  const uint64_t *state = in[0]->data;
  if (is_threefry)
    fill_threefry(state, bits, bytes, next->data);
  else
    fill_philox(state, n_state, bits, bytes, next->data);
  return true;
}
