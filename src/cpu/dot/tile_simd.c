// cpu/dot/tile_simd.c: the innermost products, for one level of vector instructions.

#include "cpu/dot/tile.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// --- What a level has ---------------------------------------------------------------------------

// Bytes of a vector, and how many rows of two vectors fit into its registers.
#if SIMD_LEVEL == 4
enum { VECTOR = 64, MR = 14 };
#elif SIMD_LEVEL == 3
enum { VECTOR = 32, MR = 6 };
#elif defined(__x86_64__)
enum { VECTOR = 16, MR = 4 };
#else
enum { VECTOR = 16, MR = 8 };
#endif
enum { VECTORS = 2 };  // of a row

typedef float F32s __attribute__((vector_size(VECTOR)));
typedef double F64s __attribute__((vector_size(VECTOR)));
typedef uint32_t S32s __attribute__((vector_size(VECTOR)));
typedef uint64_t S64s __attribute__((vector_size(VECTOR)));

// c + a * b.
#if SIMD_LEVEL == 4
#define MADD_F32(a, b, c) (F32s) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define MADD_F64(a, b, c) (F64s) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#define PAIRS(a, b) (S32s) _mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#elif SIMD_LEVEL == 3
#define MADD_F32(a, b, c) (F32s) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define MADD_F64(a, b, c) (F64s) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#define PAIRS(a, b) (S32s) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#else
#define MADD_F32(a, b, c) ((c) + (a) * (b))
#define MADD_F64(a, b, c) ((c) + (a) * (b))
#if defined(__x86_64__)
#define PAIRS(a, b) (S32s) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#else
typedef int32_t Signed __attribute__((vector_size(VECTOR)));
#define LOW(x) (S32s)((Signed)((x) << 16) >> 16)
#define HIGH(x) (S32s)((Signed)(x) >> 16)
#define PAIRS(a, b) (LOW(a) * LOW(b) + HIGH(a) * HIGH(b))
#endif
#endif
#define MADD_S16(a, b, c) ((c) + PAIRS(a, b))
#define MADD_S32(a, b, c) ((c) + (a) * (b))
#define MADD_S64(a, b, c) ((c) + (a) * (b))

// --- Tiles --------------------------------------------------------------------------------------

// Rows of A are reached from every third one, by a distance and its double: so few registers do for many rows.
#define TILE(name, T, V, MADD)                                                                \
  static inline __attribute__((always_inline)) void name##_rows(                              \
      const int rows, int64_t k, const void *a, int64_t a_row, int64_t a_step, const void *b, \
      int64_t b_step, void *c, int64_t c_row, bool add) {                                     \
    enum { LANES = VECTOR / sizeof(T) };                                                      \
    typedef V Anywhere __attribute__((aligned(sizeof(T)), may_alias));                        \
    V sum[MR][VECTORS];                                                                       \
    const T *third[(MR + 2) / 3];                                                             \
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                                 \
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[i][v] = (V){0};           \
      if (i % 3 == 0)                                                                         \
        third[i / 3] = (const T *)a + i * a_row;                                              \
    }                                                                                         \
    const T *at = b;                                                                          \
    for (int64_t p = 0; p < k; p++) {                                                         \
      V column[VECTORS];                                                                      \
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) column[v] =                   \
          *(const Anywhere *)(at + v * LANES);                                                \
      at += b_step;                                                                           \
      _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                               \
        const V one = third[i / 3][(i % 3) * a_row] - (V){0};                                 \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[i][v] =                 \
            MADD(one, column[v], sum[i][v]);                                                  \
      }                                                                                       \
      _Pragma("GCC unroll 16") for (int i = 0; i < rows; i += 3) third[i / 3] += a_step;      \
    }                                                                                         \
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                                 \
      Anywhere *to = (Anywhere *)((T *)c + i * c_row);                                        \
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                             \
        if (add)                                                                              \
          sum[i][v] += to[v];                                                                 \
        to[v] = sum[i][v];                                                                    \
      }                                                                                       \
    }                                                                                         \
  }
TILE(f32, float, F32s, MADD_F32)
TILE(f64, double, F64s, MADD_F64)
TILE(s16, uint32_t, S32s, MADD_S16)
TILE(s32, uint32_t, S32s, MADD_S32)
TILE(s64, uint64_t, S64s, MADD_S64)
#undef TILE

// A function for each number of rows.
#if SIMD_LEVEL == 4
#define EACH_ROWS(X, name)                                                                \
  X(name, 1)                                                                              \
  X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6) X(name, 7) X(name, 8) X(name, 9) \
      X(name, 10) X(name, 11) X(name, 12) X(name, 13) X(name, 14)
#elif SIMD_LEVEL == 3
#define EACH_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6)
#elif defined(__x86_64__)
#define EACH_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4)
#else
#define EACH_ROWS(X, name) \
  X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6) X(name, 7) X(name, 8)
#endif
#define ROWS(name, n)                                                                            \
  static void name##_##n(int64_t k, const void *a, int64_t a_row, int64_t a_step, const void *b, \
                         int64_t b_step, void *c, int64_t c_row, bool add) {                     \
    name##_rows(n, k, a, a_row, a_step, b, b_step, c, c_row, add);                               \
  }
EACH_ROWS(ROWS, f32)
EACH_ROWS(ROWS, f64)
EACH_ROWS(ROWS, s16)
EACH_ROWS(ROWS, s32)
EACH_ROWS(ROWS, s64)
#undef ROWS

// --- Packing ------------------------------------------------------------------------------------

typedef struct Word16 {
  uint64_t at[2];
} Word16;

// Whole panels of rows that lie beside each other, or of elements that follow in k, are what mostly comes; the rest goes one by one.
#define PACK(name, T, F, WIDEN)                                                           \
  static inline __attribute__((always_inline)) void name##_beside(                        \
      int64_t width, int64_t depth, T *to, const F *from, int64_t step) {                 \
    for (int64_t k = 0; k < depth; k++, to += width, from += step)                        \
      for (int64_t r = 0; r < width; r++)                                                 \
        to[r] = WIDEN(from[r]);                                                           \
  }                                                                                       \
  static void name(int64_t rows, int64_t width, int64_t depth, void *out, const void *in, \
                   int64_t row, int64_t step) {                                           \
    enum { NR = VECTORS * VECTOR / sizeof(T) };                                           \
    T *to = out;                                                                          \
    const F *from = in;                                                                   \
    if (row == 1 && rows == NR && width == NR)                                            \
      name##_beside(NR, depth, to, from, step);                                           \
    else if (row == 1 && rows == MR && width == MR)                                       \
      name##_beside(MR, depth, to, from, step);                                           \
    else                                                                                  \
      for (int64_t k = 0; k < depth; k++, to += width) {                                  \
        for (int64_t r = 0; r < rows; r++)                                                \
          to[r] = WIDEN(from[r * row + k * step]);                                        \
        for (int64_t r = rows; r < width; r++)                                            \
          to[r] = (T){0};                                                                 \
      }                                                                                   \
  }
#define AS_IT_IS(x) (x)
PACK(pack_word4, uint32_t, uint32_t, AS_IT_IS)
PACK(pack_word8, uint64_t, uint64_t, AS_IT_IS)
PACK(pack_word16, Word16, Word16, AS_IT_IS)

static inline uint32_t widen_bf16(uint16_t x) {
  return (uint32_t)x << 16;
}
PACK(pack_bf16, uint32_t, uint16_t, widen_bf16)

// Subnormal numbers are scaled by the float unit; the magic number is 2^112.
static inline float widen_f16(uint16_t x) {
  const union {
    uint32_t bits;
    float value;
  } scale = {.bits = 0x77800000};
  union {
    uint32_t bits;
    float value;
  } y = {.bits = (uint32_t)(x & 0x7fff) << 13};
  y.value *= scale.value;
  y.bits |= (x & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
  y.bits |= (uint32_t)(x & 0x8000) << 16;
  return y.value;
}
PACK(pack_f16, float, uint16_t, widen_f16)
#undef PACK

// Two elements of k in a word, the first in the low half.
#define PACK_PAIRS(name, F)                                                               \
  static void name(int64_t rows, int64_t width, int64_t depth, void *out, const void *in, \
                   int64_t row, int64_t step) {                                           \
    uint32_t *to = out;                                                                   \
    const F *from = in;                                                                   \
    for (int64_t k = 0; k < depth; k += 2, to += width) {                                 \
      const bool both = k + 1 < depth;                                                    \
      for (int64_t r = 0; r < rows; r++) {                                                \
        const F *x = from + r * row + k * step;                                           \
        to[r] = (uint16_t)x[0] | (both ? (uint32_t)(uint16_t)x[step] << 16 : 0);          \
      }                                                                                   \
      for (int64_t r = rows; r < width; r++)                                              \
        to[r] = 0;                                                                        \
    }                                                                                     \
  }
PACK_PAIRS(pack_s8, int8_t)
PACK_PAIRS(pack_u8, uint8_t)
PACK_PAIRS(pack_s16, int16_t)
#undef PACK_PAIRS

// --- The level ----------------------------------------------------------------------------------

#if SIMD_LEVEL == 4
enum { KC = 384, MC = 14 * 12 };
#else
enum { KC = 256, MC = 144 };
#endif

#define ENTRY(name, n) [n] = name##_##n,
#define TILES(name, T)                                                                     \
  {                                                                                        \
    .mr = MR, .nr = VECTORS * VECTOR / sizeof(T), .kc = KC, .mc = MC * 4 / (int)sizeof(T), \
    .rows = {                                                                              \
      EACH_ROWS(ENTRY, name)                                                               \
    }                                                                                      \
  }
const DotLevel SIMD(dot_level) = {.tiles = {[DOT_F32] = TILES(f32, float),
                                            [DOT_F64] = TILES(f64, double),
                                            [DOT_S16] = TILES(s16, uint32_t),
                                            [DOT_S32] = TILES(s32, uint32_t),
                                            [DOT_S64] = TILES(s64, uint64_t)},
                                  .pack = {[DOT_WORD4] = pack_word4,
                                           [DOT_WORD8] = pack_word8,
                                           [DOT_WORD16] = pack_word16,
                                           [DOT_BF16_F32] = pack_bf16,
                                           [DOT_F16_F32] = pack_f16,
                                           [DOT_S8_PAIRS] = pack_s8,
                                           [DOT_U8_PAIRS] = pack_u8,
                                           [DOT_S16_PAIRS] = pack_s16}};
