// cpu/dot/tile_simd.c: the innermost products, for one level of vector instructions.

#include "cpu/dot/tile.h"

#include <string.h>

#include "cpu/dot/words_simd.h"

// --- What a level has ---------------------------------------------------------------------------

// How many rows of two vectors fit into the registers.
#if SIMD_LEVEL == 4
enum { MR = 14 };
#elif SIMD_LEVEL == 3
enum { MR = 6 };
#elif defined(__x86_64__)
enum { MR = 4 };
#else
enum { MR = 8 };
#endif
enum { VECTORS = 2 };  // of a row

// --- Tiles --------------------------------------------------------------------------------------

// Rows of A are reached from every third one, by a distance and its double: so few registers do for many rows.
#define TILE(name, T, V, MADD)                                                                 \
  static inline __attribute__((always_inline)) void name##_rows(                               \
      const int rows, int64_t k, const void *a, int64_t a_row, int64_t a_step, const void *b,  \
      int64_t b_step, void *c, int64_t c_row, bool add, const void *soon, int64_t soon_step) { \
    enum { LANES = VECTOR / sizeof(T) };                                                       \
    typedef V Anywhere __attribute__((aligned(sizeof(T)), may_alias));                         \
    V sum[MR][VECTORS];                                                                        \
    const T *third[(MR + 2) / 3];                                                              \
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                                  \
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[i][v] = (V){0};            \
      if (i % 3 == 0)                                                                          \
        third[i / 3] = (const T *)a + i * a_row;                                               \
    }                                                                                          \
    if (add) {                                                                                 \
      _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                  \
          _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)                            \
              __builtin_prefetch((T *)c + i * c_row + v * LANES, 1);                           \
    }                                                                                          \
    const T *at = b;                                                                           \
    for (int64_t p = 0; p < k; p++) {                                                          \
      V column[VECTORS];                                                                       \
      __builtin_prefetch(soon, 0, 2);                                                          \
      soon = (const char *)soon + soon_step;                                                   \
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) column[v] =                    \
          *(const Anywhere *)(at + v * LANES);                                                 \
      at += b_step;                                                                            \
      _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                                \
        const V one = third[i / 3][(i % 3) * a_row] - (V){0};                                  \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[i][v] =                  \
            MADD(one, column[v], sum[i][v]);                                                   \
      }                                                                                        \
      _Pragma("GCC unroll 16") for (int i = 0; i < rows; i += 3) third[i / 3] += a_step;       \
    }                                                                                          \
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                                  \
      Anywhere *to = (Anywhere *)((T *)c + i * c_row);                                         \
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                              \
        if (add)                                                                               \
          sum[i][v] += to[v];                                                                  \
        to[v] = sum[i][v];                                                                     \
      }                                                                                        \
    }                                                                                          \
  }
TILE(f32, float, F32s, MADD_F32)
TILE(f64, double, F64s, MADD_F64)
TILE(s16, uint32_t, S32s, MADD_S16)
TILE(s32, uint32_t, S32s, MADD_S32)
TILE(s64, uint64_t, S64s, MADD_S64)
#undef TILE

#ifdef VNNI
// The instruction multiplies unsigned bytes by signed ones: B has 128 added, and what that adds to each row is taken off. A is packed:
// its rows lie beside each other.
VNNI static inline __attribute__((always_inline)) void
s8_rows(const int rows, int64_t k, const void *a, int64_t a_row, int64_t a_step, const void *b,
        int64_t b_step, void *c, int64_t c_row, bool add, const void *soon, int64_t soon_step) {
  const __m512i top = _mm512_set1_epi8(INT8_MIN);
  const __mmask16 these = (__mmask16)((1u << rows) - 1);
  __m512i sum[MR][VECTORS], extra = _mm512_setzero_si512();
  int32_t off[16];
  const int32_t *one = a, *at = b;
  for (int64_t p = 0; p < k; p++)
    extra = _mm512_dpbusd_epi32(extra, top, _mm512_maskz_loadu_epi32(these, one + p * a_step));
  _mm512_storeu_si512(off, extra);
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[i][v] =
          _mm512_set1_epi32(-off[i]);
  for (int64_t p = 0; p < k; p++, at += b_step, one += a_step) {
    __m512i column[VECTORS];
    __builtin_prefetch(soon, 0, 2);
    soon = (const char *)soon + soon_step;
    _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) column[v] =
        _mm512_xor_si512(_mm512_loadu_si512(at + v * 16), top);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[i][v] =
            _mm512_dpbusd_epi32(sum[i][v], column[v], _mm512_set1_epi32(one[i * a_row]));
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
      _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {
    int32_t *to = (int32_t *)c + i * c_row + v * 16;
    _mm512_storeu_si512(to, add ? _mm512_add_epi32(sum[i][v], _mm512_loadu_si512(to)) : sum[i][v]);
  }
}
#endif

// A function for each number of rows.
#if SIMD_LEVEL == 4
#define EACH_ROWS(X, name) \
  X(name, 1)               \
  X(name, 2)               \
  X(name, 3)               \
  X(name, 4)               \
  X(name, 5)               \
  X(name, 6)               \
  X(name, 7) X(name, 8) X(name, 9) X(name, 10) X(name, 11) X(name, 12) X(name, 13) X(name, 14)
#elif SIMD_LEVEL == 3
#define EACH_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6)
#elif defined(__x86_64__)
#define EACH_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4)
#else
#define EACH_ROWS(X, name) \
  X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6) X(name, 7) X(name, 8)
#endif
#define ROWS(name, n) ROWS_WITH(name, n, )
#define ROWS_WITH(name, n, TARGET)                                                               \
  TARGET static void name##_##n(int64_t k, const void *a, int64_t a_row, int64_t a_step,         \
                                const void *b, int64_t b_step, void *c, int64_t c_row, bool add, \
                                const void *soon, int64_t soon_step) {                           \
    name##_rows(n, k, a, a_row, a_step, b, b_step, c, c_row, add, soon, soon_step);              \
  }
EACH_ROWS(ROWS, f32)
EACH_ROWS(ROWS, f64)
EACH_ROWS(ROWS, s16)
EACH_ROWS(ROWS, s32)
EACH_ROWS(ROWS, s64)
#ifdef VNNI
#define ROWS_VNNI(name, n) ROWS_WITH(name, n, VNNI)
EACH_ROWS(ROWS_VNNI, s8)
#undef ROWS_VNNI
#endif
#undef ROWS_WITH
#undef ROWS

// --- Packing ------------------------------------------------------------------------------------

// Rows that lie beside each other are copied, k by k. Where the elements that follow in k do, words of some rows are turned in
// registers: four rows by four of four bytes, two by two of eight. What is left over goes one by one.

#define ALWAYS static inline __attribute__((always_inline))
typedef uint32_t Words4 __attribute__((vector_size(16)));
typedef uint64_t Words2 __attribute__((vector_size(16)));

// to[k * width + r] = row r's word k, for four rows of four words, of which so many bytes are stored.
ALWAYS void turn4(uint32_t *to, int64_t width, size_t bytes, Words4 a, Words4 b, Words4 c,
                  Words4 d) {
  const Words4 ab[2] = {__builtin_shufflevector(a, b, 0, 4, 1, 5),
                        __builtin_shufflevector(a, b, 2, 6, 3, 7)};
  const Words4 cd[2] = {__builtin_shufflevector(c, d, 0, 4, 1, 5),
                        __builtin_shufflevector(c, d, 2, 6, 3, 7)};
  for (int h = 0; h < 2; h++) {
    const Words4 even = __builtin_shufflevector(ab[h], cd[h], 0, 1, 4, 5),
                 odd = __builtin_shufflevector(ab[h], cd[h], 2, 3, 6, 7);
    memcpy(to + 2 * h * width, &even, bytes);
    memcpy(to + (2 * h + 1) * width, &odd, bytes);
  }
}

// Four words of a row, made of the elements of four or eight k.
ALWAYS Words4 load_word4(const uint32_t *x) {
  Words4 v;
  memcpy(&v, x, sizeof v);
  return v;
}
ALWAYS Words4 load_u16(const uint16_t *x) {
  return (Words4){x[0], x[1], x[2], x[3]};
}
ALWAYS Words4 load_bf16(const uint16_t *x) {
  return load_u16(x) << 16;
}
// Numbers are scaled by the float unit, subnormal ones too: 2^112 is the difference of the biases.
typedef float Floats4 __attribute__((vector_size(16)));
ALWAYS Words4 load_f16(const uint16_t *x) {
  const Words4 bits = load_u16(x), scale = {0x77800000, 0x77800000, 0x77800000, 0x77800000};
  const Words4 size = (Words4)((Floats4)((bits & 0x7fff) << 13) * (Floats4)scale);
  const Words4 special = (Words4)((bits & 0x7c00) == 0x7c00) & 0x7f800000;
  return size | special | (bits & 0x8000) << 16;
}
#define PAIR(x, k) ((uint32_t)(uint16_t)(x)[k] | (uint32_t)(uint16_t)(x)[(k) + 1] << 16)
ALWAYS Words4 load_s8(const int8_t *x) {
  return (Words4){PAIR(x, 0), PAIR(x, 2), PAIR(x, 4), PAIR(x, 6)};
}
ALWAYS Words4 load_u8(const uint8_t *x) {
  return (Words4){PAIR(x, 0), PAIR(x, 2), PAIR(x, 4), PAIR(x, 6)};
}
ALWAYS Words4 load_fours(const int8_t *x) {
  Words4 v;
  memcpy(&v, x, sizeof v);
  return v;
}
ALWAYS Words4 load_s16(const int16_t *x) {
  Words4 v;
  memcpy(&v, x, sizeof v);
  return v;
}

// One word of the elements at x and, of several, `step` further on each; `n` of them are there.
ALWAYS uint32_t one_word4(const uint32_t *x, int64_t step, int64_t n) {
  return *x;
}
ALWAYS uint32_t one_bf16(const uint16_t *x, int64_t step, int64_t n) {
  return (uint32_t)*x << 16;
}
ALWAYS uint32_t one_f16(const uint16_t *x, int64_t step, int64_t n) {
  return load_f16((const uint16_t[4]){*x})[0];
}
#define ONE_PAIR(name, F)                                                  \
  ALWAYS uint32_t one_##name(const F *x, int64_t step, int64_t n) {        \
    return (uint16_t)*x | (n > 1 ? (uint32_t)(uint16_t)x[step] << 16 : 0); \
  }
ONE_PAIR(s8, int8_t)
ONE_PAIR(u8, uint8_t)
ONE_PAIR(s16, int16_t)
#undef ONE_PAIR
ALWAYS uint32_t one_fours(const int8_t *x, int64_t step, int64_t n) {
  uint32_t word = 0;
  for (int k = 0; k < 4 && k < n; k++)
    word |= (uint32_t)(uint8_t)x[k * step] << 8 * k;
  return word;
}

// `per` elements of k are a word.
#define PACK(name, F, per)                                                                         \
  ALWAYS void beside_##name(int64_t width, int64_t depth, uint32_t *to, const F *from,             \
                            int64_t step) {                                                        \
    for (int64_t k = 0; k < depth; k += per, to += width, from += per * step)                      \
      for (int64_t r = 0; r < width; r++)                                                          \
        to[r] = one_##name(from + r, step, per);                                                   \
  }                                                                                                \
  static int64_t turn_##name(int64_t width, int64_t depth, uint32_t *to, const F *from,            \
                             int64_t row) {                                                        \
    int64_t k = 0;                                                                                 \
    for (; k + 4 * per <= depth; k += 4 * per, to += 4 * width)                                    \
      for (int64_t r = 0; r < width; r += 4) {                                                     \
        const F *x = from + r * row + k;                                                           \
        if (r + 4 <= width)                                                                        \
          turn4(to + r, width, 16, load_##name(x), load_##name(x + row), load_##name(x + 2 * row), \
                load_##name(x + 3 * row));                                                         \
        else                                                                                       \
          turn4(to + r, width, 8, load_##name(x), load_##name(x + row), (Words4){0}, (Words4){0}); \
      }                                                                                            \
    return k;                                                                                      \
  }                                                                                                \
  static void pack_##name(int64_t rows, int64_t width, int64_t depth, void *out, const void *in,   \
                          int64_t row, int64_t step) {                                             \
    enum { NR = VECTORS * VECTOR / 4 };                                                            \
    uint32_t *to = out;                                                                            \
    const F *from = in;                                                                            \
    int64_t k = 0;                                                                                 \
    if (row == 1 && rows == width && (width == NR || width == MR)) {                               \
      k = depth / per * per;                                                                       \
      if (width == NR)                                                                             \
        beside_##name(NR, k, to, from, step);                                                      \
      else                                                                                         \
        beside_##name(MR, k, to, from, step);                                                      \
    } else if (step == 1 && rows == width && width % 2 == 0) {                                     \
      k = turn_##name(width, depth, to, from, row);                                                \
    }                                                                                              \
    for (to += k / per * width; k < depth; k += per, to += width) {                                \
      for (int64_t r = 0; r < rows; r++)                                                           \
        to[r] = one_##name(from + r * row + k * step, step, depth - k);                            \
      for (int64_t r = rows; r < width; r++)                                                       \
        to[r] = 0;                                                                                 \
    }                                                                                              \
  }
PACK(word4, uint32_t, 1)
PACK(bf16, uint16_t, 1)
PACK(f16, uint16_t, 1)
PACK(s8, int8_t, 2)
PACK(u8, uint8_t, 2)
PACK(s16, int16_t, 2)
PACK(fours, int8_t, 4)
#undef PACK

static void pack_word8(int64_t rows, int64_t width, int64_t depth, void *out, const void *in,
                       int64_t row, int64_t step) {
  enum { NR = VECTORS * VECTOR / 8 };
  uint64_t *to = out;
  const uint64_t *from = in;
  int64_t k = 0;
  if (row == 1 && rows == NR && width == NR)
    for (; k < depth; k++, to += NR)
      memcpy(to, from + k * step, NR * sizeof *to);
  else if (step == 1 && rows == width && width % 2 == 0)
    for (; k + 2 <= depth; k += 2, to += 2 * width)
      for (int64_t r = 0; r < width; r += 2) {
        Words2 a, b;
        memcpy(&a, from + r * row + k, sizeof a);
        memcpy(&b, from + (r + 1) * row + k, sizeof b);
        const Words2 first = {a[0], b[0]}, second = {a[1], b[1]};
        memcpy(to + r, &first, sizeof first);
        memcpy(to + width + r, &second, sizeof second);
      }
  for (; k < depth; k++, to += width) {
    for (int64_t r = 0; r < rows; r++)
      to[r] = from[r * row + k * step];
    for (int64_t r = rows; r < width; r++)
      to[r] = 0;
  }
}

static void pack_word16(int64_t rows, int64_t width, int64_t depth, void *out, const void *in,
                        int64_t row, int64_t step) {
  Words2 *to = out;
  const char *from = in;
  for (int64_t k = 0; k < depth; k++, to += width) {
    for (int64_t r = 0; r < rows; r++)
      memcpy(&to[r], from + (r * row + k * step) * 16, 16);
    for (int64_t r = rows; r < width; r++)
      to[r] = (Words2){0};
  }
}

// --- The level ----------------------------------------------------------------------------------

#if SIMD_LEVEL == 4
enum { KC = 512, MC = 14 * 12, DIRECT_ROWS = 1024, DIRECT_COLUMNS = 256, DIRECT_BYTES = 2 << 20 };
#else
enum { KC = 256, MC = 144, DIRECT_ROWS = 64, DIRECT_COLUMNS = 64, DIRECT_BYTES = 1 << 18 };
#endif

#define ENTRY(name, n) [n] = name##_##n,
#define TILES(name, T) TILES_OF(name, T, KC)
#define TILES_OF(name, T, words)                                                                \
  {                                                                                             \
    .mr = MR, .nr = VECTORS * VECTOR / sizeof(T), .kc = words, .mc = MC * 4 / (int)sizeof(T),   \
    .direct_rows = DIRECT_ROWS, .direct_columns = DIRECT_COLUMNS, .direct_bytes = DIRECT_BYTES, \
    .rows = {                                                                                   \
      EACH_ROWS(ENTRY, name)                                                                    \
    }                                                                                           \
  }
const DotLevel SIMD(dot_level) = {.tiles = {[DOT_F32] = TILES(f32, float),
                                            [DOT_F64] = TILES(f64, double),
#ifdef VNNI
                                            [DOT_S8] = TILES_OF(s8, uint32_t, KC / 2),
#endif
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
                                           [DOT_S16_PAIRS] = pack_s16,
                                           [DOT_S8_FOURS] = pack_fours}};
