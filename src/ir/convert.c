// convert.c: HLO's convert between any two element types (hlo.md 4.3).
//
// Pairs of types the machine knows go by a loop of their own, stamped from a macro. All other pairs
// go in chunks through 64-bit integers or doubles, which hold every element of every type exactly,
// but for 64-bit integers on their way to a float: these become doubles whose last bit tells of
// what was lost, so that the one rounding that follows is right.

#include "ir/put.h"

#include <math.h>

enum { CHUNK = 256 };

// --- Float to integer: toward zero, saturated, nan is 0 ------------------------------------------

#define TRUNCATE(name, T, least, most)          \
  static inline T name(double x) {              \
    if (!(x > (double)(least)))                 \
      return isnan(x) ? 0 : (least);            \
    return x >= (double)(most) ? (most) : (T)x; \
  }
TRUNCATE(to_s8, int8_t, INT8_MIN, INT8_MAX)
TRUNCATE(to_s16, int16_t, INT16_MIN, INT16_MAX)
TRUNCATE(to_s32, int32_t, INT32_MIN, INT32_MAX)
TRUNCATE(to_s64, int64_t, INT64_MIN, INT64_MAX)
TRUNCATE(to_u8, uint8_t, 0, UINT8_MAX)
TRUNCATE(to_u16, uint16_t, 0, UINT16_MAX)
TRUNCATE(to_u32, uint32_t, 0, UINT32_MAX)
TRUNCATE(to_u64, uint64_t, 0, UINT64_MAX)

// --- The machine's own types ---------------------------------------------------------------------

// What one element becomes: a plain cast between integers and to floats, a saturating one from
// floats.
#define CAST(T, x) ((T)(x))
#define LOOP(name, To, From, convert)                      \
  static void name(void *out, const void *in, int64_t n) { \
    To *restrict to = out;                                 \
    const From *restrict from = in;                        \
    for (int64_t k = 0; k < n; k++)                        \
      to[k] = convert;                                     \
  }
#define LOOPS_FROM(name, From)                               \
  LOOP(s8_of_##name, int8_t, From, CAST(int8_t, from[k]))    \
  LOOP(s16_of_##name, int16_t, From, CAST(int16_t, from[k])) \
  LOOP(s32_of_##name, int32_t, From, CAST(int32_t, from[k])) \
  LOOP(s64_of_##name, int64_t, From, CAST(int64_t, from[k])) \
  LOOP(pred_of_##name, uint8_t, From, from[k] != 0)          \
  LOOP(f32_of_##name, float, From, CAST(float, from[k]))     \
  LOOP(f64_of_##name, double, From, CAST(double, from[k]))
#define LOOPS_FROM_FLOAT(name, From)                     \
  LOOP(s8_of_##name, int8_t, From, to_s8(from[k]))       \
  LOOP(s16_of_##name, int16_t, From, to_s16(from[k]))    \
  LOOP(s32_of_##name, int32_t, From, to_s32(from[k]))    \
  LOOP(s64_of_##name, int64_t, From, to_s64(from[k]))    \
  LOOP(u8_of_##name, uint8_t, From, to_u8(from[k]))      \
  LOOP(u16_of_##name, uint16_t, From, to_u16(from[k]))   \
  LOOP(u32_of_##name, uint32_t, From, to_u32(from[k]))   \
  LOOP(u64_of_##name, uint64_t, From, to_u64(from[k]))   \
  LOOP(pred_of_##name, uint8_t, From, from[k] != 0)      \
  LOOP(f32_of_##name, float, From, CAST(float, from[k])) \
  LOOP(f64_of_##name, double, From, CAST(double, from[k]))
LOOPS_FROM(s8, int8_t)
LOOPS_FROM(s16, int16_t)
LOOPS_FROM(s32, int32_t)
LOOPS_FROM(s64, int64_t)
LOOPS_FROM(u8, uint8_t)
LOOPS_FROM(u16, uint16_t)
LOOPS_FROM(u32, uint32_t)
LOOPS_FROM(u64, uint64_t)
LOOPS_FROM_FLOAT(f32, float)
LOOPS_FROM_FLOAT(f64, double)
LOOP(f32_of_f16, float, uint16_t, hl_f16_to_f32(from[k]))
LOOP(f32_of_bf16, float, uint16_t, hl_bf16_to_f32(from[k]))
LOOP(f16_of_f32, uint16_t, float, hl_f16_from_f32(from[k]))
LOOP(bf16_of_f32, uint16_t, float, hl_bf16_from_f32(from[k]))

typedef void Loop(void *out, const void *in, int64_t n);

// What the machine's types become: a row for each that is read. A signed column serves the unsigned type of the same width,
// since integers wrap.
#define ROW(name)                                                                     \
  static Loop *const from_##name[HL_DTYPE_COUNT] = {                                  \
      [HL_PRED] = pred_of_##name, [HL_S8] = s8_of_##name,   [HL_S16] = s16_of_##name, \
      [HL_S32] = s32_of_##name,   [HL_S64] = s64_of_##name, [HL_U8] = s8_of_##name,   \
      [HL_U16] = s16_of_##name,   [HL_U32] = s32_of_##name, [HL_U64] = s64_of_##name, \
      [HL_F32] = f32_of_##name,   [HL_F64] = f64_of_##name};
#define FLOAT_ROW(name, ...)                                                          \
  static Loop *const from_##name[HL_DTYPE_COUNT] = {                                  \
      [HL_PRED] = pred_of_##name, [HL_S8] = s8_of_##name,   [HL_S16] = s16_of_##name, \
      [HL_S32] = s32_of_##name,   [HL_S64] = s64_of_##name, [HL_U8] = u8_of_##name,   \
      [HL_U16] = u16_of_##name,   [HL_U32] = u32_of_##name, [HL_U64] = u64_of_##name, \
      [HL_F32] = f32_of_##name,   [HL_F64] = f64_of_##name, __VA_ARGS__};
ROW(s8)
ROW(s16)
ROW(s32)
ROW(s64)
ROW(u8)
ROW(u16)
ROW(u32)
ROW(u64)
FLOAT_ROW(f32, [HL_F16] = f16_of_f32, [HL_BF16] = bf16_of_f32)
FLOAT_ROW(f64, )
static Loop *const from_f16[HL_DTYPE_COUNT] = {[HL_F32] = f32_of_f16};
static Loop *const from_bf16[HL_DTYPE_COUNT] = {[HL_F32] = f32_of_bf16};

static Loop *const *const rows[HL_DTYPE_COUNT] = {
    [HL_PRED] = from_u8, [HL_S1] = from_s8,   [HL_S2] = from_s8,    [HL_S4] = from_s8,
    [HL_S8] = from_s8,   [HL_S16] = from_s16, [HL_S32] = from_s32,  [HL_S64] = from_s64,
    [HL_U1] = from_u8,   [HL_U2] = from_u8,   [HL_U4] = from_u8,    [HL_U8] = from_u8,
    [HL_U16] = from_u16, [HL_U32] = from_u32, [HL_U64] = from_u64,  [HL_F32] = from_f32,
    [HL_F64] = from_f64, [HL_F16] = from_f16, [HL_BF16] = from_bf16};

// NULL: they go in chunks.
static Loop *loop_of(HlDtype from, HlDtype to) {
  return rows[from] ? rows[from][to] : NULL;
}

// --- Everything else, in chunks ------------------------------------------------------------------

// A double between the two nearest to an integer of more than 53 bits: rounding it to at most 51
// bits gives what rounding the integer would (rounding to odd).
static double odd_double(uint64_t magnitude) {
  if (magnitude >> 53) {
    const int shift = 11 - __builtin_clzll(magnitude);
    const uint64_t lost = magnitude & (((uint64_t)1 << shift) - 1);
    magnitude = ((magnitude >> shift) | (lost != 0)) << shift;
  }
  return (double)magnitude;
}

static void doubles_of_ints(double *out, bool is_signed, const int64_t *in, int n) {
  for (int k = 0; k < n; k++) {
    const uint64_t bits = (uint64_t)in[k];
    out[k] = !is_signed ? odd_double(bits) : in[k] < 0 ? -odd_double(0 - bits) : odd_double(bits);
  }
}

// Small floats to doubles; a table of all codes pays for long arrays.
static void doubles_of_small(double *out, HlDtype from, const void *in, int n) {
  const HlFloatFormat *format = &hl_dtype_info[from].format;
  const uint8_t *bytes = in;
  const uint16_t *words = in;
  if (from == HL_F16)
    for (int k = 0; k < n; k++)
      out[k] = hl_f16_to_f32(words[k]);
  else if (from == HL_BF16)
    for (int k = 0; k < n; k++)
      out[k] = hl_bf16_to_f32(words[k]);
  else
    for (int k = 0; k < n; k++)
      out[k] = hl_float_decode(format, bytes[k]);
}

// Integers wrap into a type of few bits: sign- or zero-extended to its byte.
static void wrap_ints(HlDtype to, void *out, const int64_t *in, int n) {
  const int unused = 64 - hl_dtype_info[to].bits;
  uint8_t *bytes = out;
  for (int k = 0; k < n; k++) {
    const uint64_t high = (uint64_t)in[k] << unused;
    bytes[k] = (uint8_t)(hl_is_signed(to) ? (uint64_t)((int64_t)high >> unused) : high >> unused);
  }
}

static void small_of_doubles(HlDtype to, void *out, const double *in, int n) {
  const HlDtypeInfo *info = &hl_dtype_info[to];
  uint8_t *bytes = out;
  uint16_t *words = out;
  if (info->bytes == 2)
    for (int k = 0; k < n; k++)
      words[k] = (uint16_t)hl_float_encode(&info->format, in[k]);
  else
    for (int k = 0; k < n; k++)
      bytes[k] = (uint8_t)hl_float_encode(&info->format, in[k]);
}

// Doubles saturate into an integer type of few bits.
static void few_bits_of_doubles(HlDtype to, void *out, const double *in, int n) {
  const int bits = hl_dtype_info[to].bits;
  const bool is_signed = hl_is_signed(to);
  const int least = is_signed ? -(1 << (bits - 1)) : 0;
  const int most = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  uint8_t *bytes = out;
  for (int k = 0; k < n; k++) {
    const int value = to_s32(in[k]);
    bytes[k] = (uint8_t)(value < least ? least : value > most ? most : value);
  }
}

static bool has_few_bits(HlDtype t) {
  return hl_is_integral(t) && hl_dtype_info[t].bits < 8;
}

static bool is_small_float(HlDtype t) {
  return hl_dtype_info[t].format.bits != 0;
}

// At most CHUNK elements of a pair that has no loop.
static void convert_chunk(HlDtype to, void *out, HlDtype from, const void *in, int n) {
  double doubles[CHUNK];
  int64_t ints[CHUNK];
  if (is_small_float(from)) {
    doubles_of_small(doubles, from, in, n);
  } else if (from == HL_F32 || from == HL_F64) {
    loop_of(from, HL_F64)(doubles, in, n);
  } else {
    loop_of(from, HL_S64)(ints, in, n);
    if (has_few_bits(to)) {
      wrap_ints(to, out, ints, n);
      return;
    }
    doubles_of_ints(doubles, from != HL_U64, ints, n);
  }
  if (is_small_float(to))
    small_of_doubles(to, out, doubles, n);
  else if (has_few_bits(to))
    few_bits_of_doubles(to, out, doubles, n);
  else
    loop_of(HL_F64, to)(out, doubles, n);
}

static HlDtype part_of(HlDtype t) {
  return t == HL_C64 ? HL_F32 : t == HL_C128 ? HL_F64 : t;
}

// Real to complex: imaginary parts are 0.
static void chunk_to_complex(HlDtype to, void *out, HlDtype from, const void *in, int n) {
  double re[CHUNK];
  float *floats = out;
  double *doubles = out;
  if (to == HL_C64) {
    float single[CHUNK];
    hl_convert_elements(HL_F32, single, from, in, n);
    for (int k = 0; k < n; k++) {
      floats[2 * k] = single[k];
      floats[2 * k + 1] = 0;
    }
    return;
  }
  hl_convert_elements(HL_F64, re, from, in, n);
  for (int k = 0; k < n; k++) {
    doubles[2 * k] = re[k];
    doubles[2 * k + 1] = 0;
  }
}

// Complex to real: imaginary parts are dropped; to pred they count.
static void chunk_from_complex(HlDtype to, void *out, HlDtype from, const void *in, int n) {
  double parts[2 * CHUNK], re[CHUNK];
  hl_convert_elements(HL_F64, parts, part_of(from), in, 2 * n);
  for (int k = 0; k < n; k++)
    re[k] = to == HL_PRED ? parts[2 * k] != 0 || parts[2 * k + 1] != 0 : parts[2 * k];
  hl_convert_elements(to, out, HL_F64, re, n);
}

void hl_convert_elements(HlDtype to, void *out, HlDtype from, const void *in, int64_t n) {
  if (!hl_is_array_dtype(to) || !hl_is_array_dtype(from) || n <= 0)
    return;
  const int in_bytes = hl_dtype_bytes(from), out_bytes = hl_dtype_bytes(to);
  if (to == from) {
    memcpy(out, in, (size_t)n * (size_t)in_bytes);
    return;
  }
  const bool from_complex = hl_is_complex(from), to_complex = hl_is_complex(to);
  if (from_complex && to_complex) {
    hl_convert_elements(part_of(to), out, part_of(from), in, 2 * n);
    return;
  }
  Loop *loop = from_complex || to_complex ? NULL : loop_of(from, to);
  if (loop) {
    loop(out, in, n);
    return;
  }
  for (int64_t k = 0; k < n; k += CHUNK) {
    const int some = n - k < CHUNK ? (int)(n - k) : CHUNK;
    const void *some_in = (const char *)in + k * in_bytes;
    void *some_out = (char *)out + k * out_bytes;
    if (from_complex)
      chunk_from_complex(to, some_out, from, some_in, some);
    else if (to_complex)
      chunk_to_complex(to, some_out, from, some_in, some);
    else
      convert_chunk(to, some_out, from, some_in, some);
  }
}

// --- Whole literals ------------------------------------------------------------------------------

HlLiteral *hl_literal_convert(HlCx *cx, const HlLiteral *from, HlDtype to) {
  HlShape shape = *from->shape;
  shape.dtype = to;
  if (!hl_is_array_dtype(from->shape->dtype) || !hl_is_array_dtype(to)) {
    hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "cannot convert %s to %s",
                  hl_dtype_info[from->shape->dtype].name, hl_dtype_info[to].name);
    return NULL;
  }
  if (from->flags & HL_LIT_ELIDED)
    return hl_literal_new_elided(cx, &shape);
  HlLiteral *literal = hl_literal_new(cx, &shape);
  if (!literal)
    return NULL;
  literal->flags = from->flags;
  if (literal->extent && from->extent)
    memcpy(literal->extent, from->extent, (size_t)shape.rank * sizeof *literal->extent);
  hl_convert_elements(to, literal->data, from->shape->dtype, from->data, from->n);
  return literal;
}
