// cpu/vec/memory_simd.c: between memory and vectors: loads, stores, gathers, scatters, iota, transposes.
//
// Memory is walked in one of three ways (dense, by a stride, by an index) and elements are of one of a few forms (as carried,
// complex, narrow floats): each walk knows sizes alone, and narrow floats pass a chunk of codes on their way.

#include <string.h>

#include "base/bits.h"
#include "cpu/vec/block.h"

// --- Walks --------------------------------------------------------------------------------------

typedef struct C64 {
  float re, im;
} C64;
typedef struct C128 {
  double re, im;
} C128;

// One copy of the code for all who call it.
#if defined(__GNUC__)
#define SHARED __attribute__((noinline))
#else
#define SHARED
#endif

// get: out[k] = from[k * stride], or from[index[k]]; put: the other way.
#define WALKS(n_bits, T)                                                                         \
  static SHARED void get_##n_bits(int64_t n, T *out, const T *from, int64_t stride) {            \
    if (stride == 1) {                                                                           \
      memcpy(out, from, (size_t)n * sizeof(T));                                                  \
      return;                                                                                    \
    }                                                                                            \
    for (int64_t k = 0; k < n; k++)                                                              \
      out[k] = from[k * stride];                                                                 \
  }                                                                                              \
  static SHARED void put_##n_bits(int64_t n, T *to, int64_t stride, const T *from) {             \
    if (stride == 1) {                                                                           \
      memcpy(to, from, (size_t)n * sizeof(T));                                                   \
      return;                                                                                    \
    }                                                                                            \
    for (int64_t k = 0; k < n; k++)                                                              \
      to[k * stride] = from[k];                                                                  \
  }                                                                                              \
  static SHARED void gather_##n_bits(int64_t n, T *out, const T *base, const int64_t *index) {   \
    for (int64_t k = 0; k < n; k++)                                                              \
      out[k] = base[index[k]];                                                                   \
  }                                                                                              \
  static SHARED void scatter_##n_bits(int64_t n, T *base, const int64_t *index, const T *from) { \
    for (int64_t k = 0; k < n; k++)                                                              \
      base[index[k]] = from[k];                                                                  \
  }
WALKS(8, uint8_t)
WALKS(16, uint16_t)
WALKS(32, uint32_t)
WALKS(64, uint64_t)

// --- Elements as they are carried ----------------------------------------------------------------

#define PLAIN(n_bits)                                                                           \
  static void load_##n_bits(int64_t n, void *out, void *im, const void *from, int64_t stride) { \
    get_##n_bits(n, out, from, stride);                                                         \
  }                                                                                             \
  static void store_##n_bits(int64_t n, void *to, int64_t stride, const void *from,             \
                             const void *im) {                                                  \
    put_##n_bits(n, to, stride, from);                                                          \
  }                                                                                             \
  static void load_at_##n_bits(int64_t n, void *out, void *im, const void *base,                \
                               const int64_t *index) {                                          \
    gather_##n_bits(n, out, base, index);                                                       \
  }                                                                                             \
  static void store_at_##n_bits(int64_t n, void *base, const int64_t *index, const void *from,  \
                                const void *im) {                                               \
    scatter_##n_bits(n, base, index, from);                                                     \
  }
PLAIN(8)
PLAIN(16)
PLAIN(32)
PLAIN(64)

#define COMPLEX(name, T, Part)                                                                \
  static void load_##name(int64_t n, void *out, void *im, const void *from, int64_t stride) { \
    const T *x = from;                                                                        \
    Part *a = out, *b = im;                                                                   \
    if (stride == 1) {                                                                        \
      VEC_EACH(k, n) {                                                                        \
        a[k] = x[k].re;                                                                       \
        b[k] = x[k].im;                                                                       \
      }                                                                                       \
      return;                                                                                 \
    }                                                                                         \
    for (int64_t k = 0; k < n; k++, x += stride) {                                            \
      a[k] = x->re;                                                                           \
      b[k] = x->im;                                                                           \
    }                                                                                         \
  }                                                                                           \
  static void store_##name(int64_t n, void *to, int64_t stride, const void *from,             \
                           const void *im) {                                                  \
    T *x = to;                                                                                \
    const Part *a = from, *b = im;                                                            \
    if (stride == 1) {                                                                        \
      VEC_EACH(k, n) {                                                                        \
        x[k].re = a[k];                                                                       \
        x[k].im = b[k];                                                                       \
      }                                                                                       \
      return;                                                                                 \
    }                                                                                         \
    for (int64_t k = 0; k < n; k++, x += stride)                                              \
      *x = (T){a[k], b[k]};                                                                   \
  }                                                                                           \
  static void load_at_##name(int64_t n, void *out, void *im, const void *base,                \
                             const int64_t *index) {                                          \
    const T *x = base;                                                                        \
    Part *a = out, *b = im;                                                                   \
    for (int64_t k = 0; k < n; k++) {                                                         \
      a[k] = x[index[k]].re;                                                                  \
      b[k] = x[index[k]].im;                                                                  \
    }                                                                                         \
  }                                                                                           \
  static void store_at_##name(int64_t n, void *base, const int64_t *index, const void *from,  \
                              const void *im) {                                               \
    T *x = base;                                                                              \
    const Part *a = from, *b = im;                                                            \
    for (int64_t k = 0; k < n; k++)                                                           \
      x[index[k]] = (T){a[k], b[k]};                                                          \
  }
COMPLEX(c64, C64, float)
COMPLEX(c128, C128, double)

// --- Narrow floats -------------------------------------------------------------------------------

// A code is sign, exponent, mantissa, as f32 is: numbers move up by the difference of the biases, those of the least exponent are
// integers times a power of two. Infinity and nans have the codes from `special` on, and keep what is in their mantissas.
static inline float decode(uint32_t code, int bits, int mantissa, int bias, uint32_t special) {
  const uint32_t sign_bit = 1U << (bits - 1), sign = code & sign_bit, magnitude = code & ~sign_bit;
  const uint32_t normal = (magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23);
  const float unit = hl_f32_of_bits((uint32_t)(127 + 1 - bias - mantissa) << 23);
  const uint32_t denormal = hl_f32_bits((float)(int32_t)magnitude * unit);
  const uint32_t number = magnitude >> mantissa == 0 ? denormal : normal;
  const uint32_t odd_one = 0x7f800000 | magnitude << (23 - mantissa);
  return hl_f32_of_bits((magnitude >= special ? odd_one : number) | sign << (32 - bits));
}

static inline uint32_t encode(float x, int bits, int mantissa, int bias, uint32_t special) {
  const uint32_t f32 = hl_f32_bits(x), magnitude = f32 & 0x7fffffff;
  const uint32_t sign = f32 >> 31 << (bits - 1);
  const uint32_t normal = (magnitude - ((uint32_t)(127 - bias) << 23)) >> (23 - mantissa);
  const float units = hl_f32_of_bits((uint32_t)(127 - 1 + bias + mantissa) << 23);
  const bool small = magnitude < (uint32_t)(128 - bias) << 23;
  const uint32_t denormal = (uint32_t)(int32_t)((small ? hl_f32_of_bits(magnitude) : 0) * units);
  const uint32_t kept = magnitude >> (23 - mantissa) & ((1U << (bits - 1)) - 1);
  const uint32_t odd_one = magnitude > 0x7f800000 && kept <= special ? special | 1 : kept;
  return sign | (magnitude >= 0x7f800000 ? odd_one : small ? denormal : normal);
}

// Where only the code of the sign alone is nan.
static inline float decode_fnuz(uint32_t code, int mantissa, int bias) {
  const float number = decode(code, 8, mantissa, bias, UINT32_MAX);
  return code == 0x80 ? hl_f32_of_bits(0xffc00000) : number;
}
static inline uint32_t encode_fnuz(float x, int mantissa, int bias) {
  const uint32_t code = encode(x, 8, mantissa, bias, 0x7f);
  return x != x ? 0x80 : x == 0 ? 0 : code;
}
static inline float decode_f8e8m0fnu(uint32_t code) {
  return hl_f32_of_bits(code == 0xff ? 0x7fc00000 : code == 0 ? 0x00400000 : code << 23);
}
static inline uint32_t encode_f8e8m0fnu(float x) {
  return x != x ? 0xff : hl_f32_bits(x) >> 23 & 0xff;
}

// The one nan of f8e4m3fn is the quiet one of f32 and back.
static inline float decode_f8e4m3fn(uint32_t code) {
  return decode(code, 8, 3, 7, 0x7f);
}
static inline uint32_t encode_f8e4m3fn(float x) {
  const uint32_t code = encode(x, 8, 3, 7, 0x7f);
  return x != x ? code | 0x7f : code;
}
static inline float decode_bf16(uint32_t code) {
  return hl_f32_of_bits(code << 16);
}
static inline uint32_t encode_bf16(float x) {
  return hl_f32_bits(x) >> 16;
}

#define FORMAT(name, bits, mantissa, bias, special)     \
  static inline float decode_##name(uint32_t code) {    \
    return decode(code, bits, mantissa, bias, special); \
  }                                                     \
  static inline uint32_t encode_##name(float x) {       \
    return encode(x, bits, mantissa, bias, special);    \
  }
#define FORMAT_FNUZ(name, mantissa, bias)            \
  static inline float decode_##name(uint32_t code) { \
    return decode_fnuz(code, mantissa, bias);        \
  }                                                  \
  static inline uint32_t encode_##name(float x) {    \
    return encode_fnuz(x, mantissa, bias);           \
  }
FORMAT(f4e2m1fn, 4, 1, 1, UINT32_MAX)
FORMAT(f6e2m3fn, 6, 3, 1, UINT32_MAX)
FORMAT(f6e3m2fn, 6, 2, 3, UINT32_MAX)
FORMAT(f8e3m4, 8, 4, 3, 0x70)
FORMAT(f8e4m3, 8, 3, 7, 0x78)
FORMAT_FNUZ(f8e4m3fnuz, 3, 8)
FORMAT_FNUZ(f8e4m3b11fnuz, 3, 11)
FORMAT(f8e5m2, 8, 2, 15, 0x7c)
FORMAT_FNUZ(f8e5m2fnuz, 2, 16)
FORMAT(f16, 16, 10, 15, 0x7c00)

enum { CHUNK = 256 };

// What is dense goes at once; else the codes of a chunk are walked to or from.
#define NARROW_WALKS(n_bits, Code)                                                                \
  static SHARED void load_codes_##n_bits(int64_t n, float *out, const Code *from, int64_t stride, \
                                         VecFn *by) {                                             \
    Code chunk[CHUNK];                                                                            \
    if (stride == 1) {                                                                            \
      by(n, out, from, NULL, NULL);                                                               \
      return;                                                                                     \
    }                                                                                             \
    for (; n > 0; n -= CHUNK, out += CHUNK, from += CHUNK * stride) {                             \
      const int64_t some = n < CHUNK ? n : CHUNK;                                                 \
      get_##n_bits(some, chunk, from, stride);                                                    \
      by(some, out, chunk, NULL, NULL);                                                           \
    }                                                                                             \
  }                                                                                               \
  static SHARED void store_codes_##n_bits(int64_t n, Code *to, int64_t stride, const float *from, \
                                          VecFn *by) {                                            \
    Code chunk[CHUNK];                                                                            \
    if (stride == 1) {                                                                            \
      by(n, to, from, NULL, NULL);                                                                \
      return;                                                                                     \
    }                                                                                             \
    for (; n > 0; n -= CHUNK, from += CHUNK, to += CHUNK * stride) {                              \
      const int64_t some = n < CHUNK ? n : CHUNK;                                                 \
      by(some, chunk, from, NULL, NULL);                                                          \
      put_##n_bits(some, to, stride, chunk);                                                      \
    }                                                                                             \
  }                                                                                               \
  static SHARED void gather_codes_##n_bits(int64_t n, float *out, const Code *base,               \
                                           const int64_t *index, VecFn *by) {                     \
    Code chunk[CHUNK];                                                                            \
    for (; n > 0; n -= CHUNK, out += CHUNK, index += CHUNK) {                                     \
      const int64_t some = n < CHUNK ? n : CHUNK;                                                 \
      gather_##n_bits(some, chunk, base, index);                                                  \
      by(some, out, chunk, NULL, NULL);                                                           \
    }                                                                                             \
  }                                                                                               \
  static SHARED void scatter_codes_##n_bits(int64_t n, Code *base, const int64_t *index,          \
                                            const float *from, VecFn *by) {                       \
    Code chunk[CHUNK];                                                                            \
    for (; n > 0; n -= CHUNK, from += CHUNK, index += CHUNK) {                                    \
      const int64_t some = n < CHUNK ? n : CHUNK;                                                 \
      by(some, chunk, from, NULL, NULL);                                                          \
      scatter_##n_bits(some, base, index, chunk);                                                 \
    }                                                                                             \
  }
NARROW_WALKS(8, uint8_t)
NARROW_WALKS(16, uint16_t)

#define NARROW(name, n_bits)                                                                  \
  FN_ONE(decode_all_##name, float, uint##n_bits##_t, decode_##name(x))                        \
  FN_ONE(encode_all_##name, uint##n_bits##_t, float, encode_##name(x))                        \
  static void load_##name(int64_t n, void *out, void *im, const void *from, int64_t stride) { \
    load_codes_##n_bits(n, out, from, stride, decode_all_##name##_0);                         \
  }                                                                                           \
  static void store_##name(int64_t n, void *to, int64_t stride, const void *from,             \
                           const void *im) {                                                  \
    store_codes_##n_bits(n, to, stride, from, encode_all_##name##_0);                         \
  }                                                                                           \
  static void load_at_##name(int64_t n, void *out, void *im, const void *base,                \
                             const int64_t *index) {                                          \
    gather_codes_##n_bits(n, out, base, index, decode_all_##name##_0);                        \
  }                                                                                           \
  static void store_at_##name(int64_t n, void *base, const int64_t *index, const void *from,  \
                              const void *im) {                                               \
    scatter_codes_##n_bits(n, base, index, from, encode_all_##name##_0);                      \
  }
NARROW(f4e2m1fn, 8)
NARROW(f6e2m3fn, 8)
NARROW(f6e3m2fn, 8)
NARROW(f8e3m4, 8)
NARROW(f8e4m3, 8)
NARROW(f8e4m3fn, 8)
NARROW(f8e4m3fnuz, 8)
NARROW(f8e4m3b11fnuz, 8)
NARROW(f8e5m2, 8)
NARROW(f8e5m2fnuz, 8)
NARROW(f8e8m0fnu, 8)
NARROW(f16, 16)
NARROW(bf16, 16)

// --- The table ----------------------------------------------------------------------------------

#define ROW(name) \
  { load_##name, store_##name, load_at_##name, store_at_##name }
const VecMemoryTable SIMD(vec_memory) = {
    [HL_PRED] = ROW(8),
    [HL_S1] = ROW(8),
    [HL_S2] = ROW(8),
    [HL_S4] = ROW(8),
    [HL_S8] = ROW(8),
    [HL_S16] = ROW(16),
    [HL_S32] = ROW(32),
    [HL_S64] = ROW(64),
    [HL_U1] = ROW(8),
    [HL_U2] = ROW(8),
    [HL_U4] = ROW(8),
    [HL_U8] = ROW(8),
    [HL_U16] = ROW(16),
    [HL_U32] = ROW(32),
    [HL_U64] = ROW(64),
    [HL_F4E2M1FN] = ROW(f4e2m1fn),
    [HL_F6E2M3FN] = ROW(f6e2m3fn),
    [HL_F6E3M2FN] = ROW(f6e3m2fn),
    [HL_F8E3M4] = ROW(f8e3m4),
    [HL_F8E4M3] = ROW(f8e4m3),
    [HL_F8E4M3FN] = ROW(f8e4m3fn),
    [HL_F8E4M3FNUZ] = ROW(f8e4m3fnuz),
    [HL_F8E4M3B11FNUZ] = ROW(f8e4m3b11fnuz),
    [HL_F8E5M2] = ROW(f8e5m2),
    [HL_F8E5M2FNUZ] = ROW(f8e5m2fnuz),
    [HL_F8E8M0FNU] = ROW(f8e8m0fnu),
    [HL_F16] = ROW(f16),
    [HL_BF16] = ROW(bf16),
    [HL_F32] = ROW(32),
    [HL_F64] = ROW(64),
    [HL_C64] = ROW(c64),
    [HL_C128] = ROW(c128),
};

// --- Iota ---------------------------------------------------------------------------------------

#define IOTA(name, T, value)                                                   \
  static void iota_##name(int64_t n, void *out, int64_t start, int64_t step) { \
    T *to = out;                                                               \
    for (int64_t k = 0; k < n; k++)                                            \
      to[k] = (T)(value);                                                      \
  }
#define WRAPPED(T) ((T)start + (T)k * (T)step)
IOTA(8, uint8_t, WRAPPED(uint32_t))
IOTA(16, uint16_t, WRAPPED(uint32_t))
IOTA(32, uint32_t, WRAPPED(uint32_t))
IOTA(64, uint64_t, WRAPPED(uint64_t))
IOTA(f32, float, start + k * step)
IOTA(f64, double, start + k * step)

const VecIotaTable SIMD(vec_iotas) = {
    [VEC_CLASS_PRED] = iota_8,  [VEC_CLASS_S8] = iota_8,   [VEC_CLASS_S16] = iota_16,
    [VEC_CLASS_S32] = iota_32,  [VEC_CLASS_S64] = iota_64, [VEC_CLASS_U8] = iota_8,
    [VEC_CLASS_U16] = iota_16,  [VEC_CLASS_U32] = iota_32, [VEC_CLASS_U64] = iota_64,
    [VEC_CLASS_F32] = iota_f32, [VEC_CLASS_F64] = iota_f64};

// --- Transposes ---------------------------------------------------------------------------------

// By squares of SIDE elements, in the nearest cache. A whole square of 2, 4 or 8 bytes an element is turned in registers: where
// bit s of the row and of the column differ, elements change places, for each s.
enum { SIDE = 8 };

#define LOW_8(s)                                                                      \
  PICK_8(0, s), PICK_8(1, s), PICK_8(2, s), PICK_8(3, s), PICK_8(4, s), PICK_8(5, s), \
      PICK_8(6, s), PICK_8(7, s)
#define PICK_8(j, s) ((j) & (s) ? 8 + (j) - (s) : (j))
#define HIGH_8(s)                                                                     \
  REST_8(0, s), REST_8(1, s), REST_8(2, s), REST_8(3, s), REST_8(4, s), REST_8(5, s), \
      REST_8(6, s), REST_8(7, s)
#define REST_8(j, s) ((j) & (s) ? 8 + (j) : (j) + (s))
#define LOW_4(s) PICK_4(0, s), PICK_4(1, s), PICK_4(2, s), PICK_4(3, s)
#define PICK_4(j, s) ((j) & (s) ? 4 + (j) - (s) : (j))
#define HIGH_4(s) REST_4(0, s), REST_4(1, s), REST_4(2, s), REST_4(3, s)
#define REST_4(j, s) ((j) & (s) ? 4 + (j) : (j) + (s))

// Of n x n elements.
#define CHANGE(n, s)                                                             \
  for (int k = 0; k < (n); k++)                                                  \
    if (!(k & (s))) {                                                            \
      const Row low = __builtin_shufflevector(row[k], row[k + (s)], LOW_##n(s)); \
      row[k + (s)] = __builtin_shufflevector(row[k], row[k + (s)], HIGH_##n(s)); \
      row[k] = low;                                                              \
    }
#define CHANGES_4 CHANGE(4, 1) CHANGE(4, 2)
#define CHANGES_8 CHANGE(8, 1) CHANGE(8, 2) CHANGE(8, 4)
#define REGISTERS(size, T, n)                                                                   \
  static inline void turn_registers_##size(T *to, int64_t to_stride, const T *from,             \
                                           int64_t from_stride) {                               \
    typedef T Row __attribute__((vector_size((n) * (size))));                                   \
    Row row[n];                                                                                 \
    for (int k = 0; k < (n); k++)                                                               \
      memcpy(&row[k], from + k * from_stride, sizeof(Row));                                     \
    CHANGES_##n for (int k = 0; k < (n); k++) memcpy(to + k * to_stride, &row[k], sizeof(Row)); \
  }                                                                                             \
  static inline void turn_whole_##size(T *to, int64_t to_stride, const T *from,                 \
                                       int64_t from_stride) {                                   \
    for (int r = 0; r < SIDE; r += (n))                                                         \
      for (int c = 0; c < SIDE; c += (n))                                                       \
        turn_registers_##size(to + c * to_stride + r, to_stride, from + r * from_stride + c,    \
                              from_stride);                                                     \
  }
REGISTERS(2, uint16_t, 8)
REGISTERS(4, uint32_t, 8)
REGISTERS(8, uint64_t, 4)
#define turn_whole_1(to, to_stride, from, from_stride) \
  turn_1(SIDE, SIDE, to, to_stride, from, from_stride)
#define turn_whole_16(to, to_stride, from, from_stride) \
  turn_16(SIDE, SIDE, to, to_stride, from, from_stride)

// Squares follow each other along the side that lies further apart in memory, so that a few of its lines are walked at a time.
#define TRANSPOSE(size, T)                                                                         \
  static inline void turn_##size(int64_t rows, int64_t columns, T *to, int64_t to_stride,          \
                                 const T *from, int64_t from_stride) {                             \
    for (int64_t c = 0; c < columns; c++)                                                          \
      for (int64_t r = 0; r < rows; r++)                                                           \
        to[c * to_stride + r] = from[r * from_stride + c];                                         \
  }                                                                                                \
  static inline void turn_square_##size(int64_t rows, int64_t columns, T *to, int64_t to_stride,   \
                                        const T *from, int64_t from_stride) {                      \
    if (rows >= SIDE && columns >= SIDE)                                                           \
      turn_whole_##size(to, to_stride, from, from_stride);                                         \
    else                                                                                           \
      turn_##size(rows < SIDE ? rows : SIDE, columns < SIDE ? columns : SIDE, to, to_stride, from, \
                  from_stride);                                                                    \
  }                                                                                                \
  static void transpose_##size(int64_t rows, int64_t columns, void *out, int64_t to_stride,        \
                               const void *in, int64_t from_stride) {                              \
    T *to = out;                                                                                   \
    const T *from = in;                                                                            \
    const bool down = to_stride > from_stride;                                                     \
    const int64_t outer = down ? columns : rows, inner = down ? rows : columns;                    \
    for (int64_t i = 0; i < outer; i += SIDE)                                                      \
      for (int64_t j = 0; j < inner; j += SIDE) {                                                  \
        const int64_t r = down ? j : i, c = down ? i : j;                                          \
        turn_square_##size(rows - r, columns - c, to + c * to_stride + r, to_stride,               \
                           from + r * from_stride + c, from_stride);                               \
      }                                                                                            \
  }
TRANSPOSE(1, uint8_t)
TRANSPOSE(2, uint16_t)
TRANSPOSE(4, uint32_t)
TRANSPOSE(8, uint64_t)
TRANSPOSE(16, C128)

const VecTransposeTable SIMD(vec_transposes) = {[1] = transpose_1,
                                                [2] = transpose_2,
                                                [4] = transpose_4,
                                                [8] = transpose_8,
                                                [16] = transpose_16};

// --- Rows ---------------------------------------------------------------------------------------

static inline void copy_row(char *to, const char *from, int64_t n) {
#define BY(size)                                                 \
  for (; n >= (size); n -= (size), to += (size), from += (size)) \
  memcpy(to, from, size)
  BY(64);
  BY(16);
  BY(4);
  BY(1);
#undef BY
}

void SIMD(vec_places)(int64_t n, int64_t *place, int64_t first, int64_t step, const int64_t *index,
                      int64_t by) {
  VEC_EACH(k, n)
  place[k] = first + k * step + index[k] * by;
}

void SIMD(vec_keep)(int64_t n, int64_t *place, const int64_t *index, int64_t limit) {
  VEC_EACH(k, n)
  place[k] = (uint64_t)index[k] < (uint64_t)limit ? place[k] : -1;
}

enum { AHEAD = 16 };  // rows that are on their way

static inline void take_rows(int64_t rows, int64_t bytes, char *to, const char *from,
                             const int64_t *place) {
  for (int64_t r = 0; r < rows; r++, to += bytes) {
    if (r + AHEAD < rows)
      __builtin_prefetch(from + place[r + AHEAD]);
    copy_row(to, from + place[r], bytes);
  }
}

static inline void put_rows(int64_t rows, int64_t bytes, char *to, const int64_t *place,
                            const char *from) {
  for (int64_t r = 0; r < rows; r++, from += bytes) {
    if (r + AHEAD < rows)
      __builtin_prefetch(to + place[r + AHEAD], 1);
    if (place[r] >= 0)
      copy_row(to + place[r], from, bytes);
  }
}

// Sizes for which a row is a few moves.
#define BY_SIZE(bytes, call)   \
  switch (bytes) {             \
  case 4: call(4); break;      \
  case 8: call(8); break;      \
  case 16: call(16); break;    \
  case 32: call(32); break;    \
  case 64: call(64); break;    \
  case 128: call(128); break;  \
  default: call(bytes); break; \
  }

void SIMD(vec_take)(int64_t rows, int64_t bytes, void *out, const void *base,
                    const int64_t *place) {
#define TAKE(n) take_rows(rows, n, out, base, place)
  BY_SIZE(bytes, TAKE)
#undef TAKE
}

void SIMD(vec_put)(int64_t rows, int64_t bytes, void *base, const int64_t *place, const void *in) {
#define PUT(n) put_rows(rows, n, base, place, in)
  BY_SIZE(bytes, PUT)
#undef PUT
}
