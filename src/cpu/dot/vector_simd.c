// cpu/dot/vector_simd.c: one row times a matrix, for one level of vector instructions.

#include "cpu/dot/vector.h"

#include <string.h>

#include "cpu/dot/words_simd.h"

// --- Elements as words --------------------------------------------------------------------------

// Vectors of elements, as many as there are words in a vector.
typedef uint16_t U16s __attribute__((vector_size(VECTOR / 2)));
typedef int8_t S8s __attribute__((vector_size(VECTOR / 4)));
typedef uint8_t U8s __attribute__((vector_size(VECTOR / 4)));

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS F32s f32_words(const float *x) {
  F32s v;
  memcpy(&v, x, sizeof v);
  return v;
}
ALWAYS F64s f64_words(const double *x) {
  F64s v;
  memcpy(&v, x, sizeof v);
  return v;
}
ALWAYS S32s s32_words(const uint32_t *x) {
  S32s v;
  memcpy(&v, x, sizeof v);
  return v;
}
ALWAYS S64s s64_words(const uint64_t *x) {
  S64s v;
  memcpy(&v, x, sizeof v);
  return v;
}
ALWAYS S32s u16_words(const uint16_t *x) {
  U16s v;
  memcpy(&v, x, sizeof v);
  return WIDE_U16(v);
}
ALWAYS F32s bf16_words(const uint16_t *x) {
  return (F32s)(u16_words(x) << 16);
}
// As in tile_simd.c.
ALWAYS F32s f16_words(const uint16_t *x) {
  const S32s bits = u16_words(x), scale = (S32s){0} + 0x77800000;
  const S32s size = (S32s)((F32s)((bits & 0x7fff) << 13) * (F32s)scale);
  const S32s special = (S32s)((bits & 0x7c00) == 0x7c00) & 0x7f800000;
  return (F32s)(size | special | (bits & 0x8000) << 16);
}
ALWAYS S32s s8_words(const int8_t *x) {
  S8s v;
  memcpy(&v, x, sizeof v);
  return WIDE_S8(v);
}
ALWAYS S32s u8_words(const uint8_t *x) {
  U8s v;
  memcpy(&v, x, sizeof v);
  return WIDE_U8(v);
}

// What is left over of a row, with zeros behind it.
#define LANES(T) (VECTOR / (int)sizeof(T))
#define REST(T, F, n, from) \
  F rest[LANES(T)] = {0};   \
  memcpy(rest, (from), (size_t)(n) * sizeof(F));

// --- Along: rows of the matrix ------------------------------------------------------------------

// A sum is that of SUMS vectors, which are added up at the end: always in the same order, however many rows go together.
enum { SUMS = 2, TOGETHER = 4 };

#define ALONG(name, T, V, F, MADD, x_words, words)                                               \
  ALWAYS void name##_rows(const int rows, int64_t k, const T *x, const F *b, int64_t step, T *y, \
                          bool add) {                                                            \
    V sum[TOGETHER][SUMS];                                                                       \
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)                                       \
        _Pragma("GCC unroll 2") for (int s = 0; s < SUMS; s++) sum[r][s] = (V){0};               \
    int64_t i = 0;                                                                               \
    for (; i + SUMS * LANES(T) <= k; i += SUMS * LANES(T))                                       \
      _Pragma("GCC unroll 2") for (int s = 0; s < SUMS; s++) {                                   \
        const V column = x_words(x + i + s * LANES(T));                                          \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) sum[r][s] =                       \
            MADD(column, words(b + r * step + i + s * LANES(T)), sum[r][s]);                     \
      }                                                                                          \
    for (; i < k; i += LANES(T)) {                                                               \
      const int64_t n = k - i < LANES(T) ? k - i : LANES(T);                                     \
      T some[LANES(T)] = {0};                                                                    \
      memcpy(some, x + i, (size_t)n * sizeof(T));                                                \
      for (int r = 0; r < rows; r++) {                                                           \
        REST(T, F, n, b + r * step + i)                                                          \
        sum[r][0] = MADD(x_words(some), words(rest), sum[r][0]);                                 \
      }                                                                                          \
    }                                                                                            \
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {                                     \
      T part[LANES(T)];                                                                          \
      const V both = sum[r][0] + sum[r][1];                                                      \
      memcpy(part, &both, sizeof part);                                                          \
      for (int half = LANES(T) / 2; half > 0; half /= 2)                                         \
        for (int l = 0; l < half; l++)                                                           \
          part[l] += part[l + half];                                                             \
      y[r] = add ? y[r] + part[0] : part[0];                                                     \
    }                                                                                            \
  }                                                                                              \
  static void name##_along(int64_t n, int64_t k, const void *x, const void *b, int64_t step,     \
                           void *y, bool add) {                                                  \
    int64_t j = 0;                                                                               \
    for (; j + TOGETHER <= n; j += TOGETHER)                                                     \
      name##_rows(TOGETHER, k, x, (const F *)b + j * step, step, (T *)y + j, add);               \
    for (; j < n; j++)                                                                           \
      name##_rows(1, k, x, (const F *)b + j * step, step, (T *)y + j, add);                      \
  }

// --- Across: columns of the matrix --------------------------------------------------------------

// So many rows pass at a time, so that sums are seldom loaded and stored.
enum { ROWS = 8 };

#define ACROSS(name, T, V, F, MADD, y_words, words)                                              \
  ALWAYS void name##_pass(const int rows, int64_t n, const T *x, const F *b, int64_t step, T *y, \
                          bool add) {                                                            \
    V one[ROWS];                                                                                 \
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) one[r] = x[r] - (V){0};               \
    int64_t j = 0;                                                                               \
    for (; j + LANES(T) <= n; j += LANES(T)) {                                                   \
      V sum = add ? y_words(y + j) : (V){0};                                                     \
      _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) sum =                               \
          MADD(one[r], words(b + r * step + j), sum);                                            \
      memcpy(y + j, &sum, sizeof sum);                                                           \
    }                                                                                            \
    if (j == n)                                                                                  \
      return;                                                                                    \
    T some[LANES(T)] = {0};                                                                      \
    memcpy(some, y + j, (size_t)(n - j) * sizeof(T));                                            \
    V sum = add ? y_words(some) : (V){0};                                                        \
    for (int r = 0; r < rows; r++) {                                                             \
      REST(T, F, n - j, b + r * step + j)                                                        \
      sum = MADD(one[r], words(rest), sum);                                                      \
    }                                                                                            \
    memcpy(y + j, &sum, (size_t)(n - j) * sizeof(T));                                            \
  }                                                                                              \
  static void name##_across(int64_t n, int64_t k, const void *x, const void *b, int64_t step,    \
                            void *y, bool add) {                                                 \
    int64_t i = 0;                                                                               \
    for (; i + ROWS <= k; i += ROWS)                                                             \
      name##_pass(ROWS, n, (const T *)x + i, (const F *)b + i * step, step, y, add || i > 0);    \
    for (; i < k; i++)                                                                           \
      name##_pass(1, n, (const T *)x + i, (const F *)b + i * step, step, y, add || i > 0);       \
  }

#define BOTH(name, T, V, F, MADD, of_words, words) \
  ALONG(name, T, V, F, MADD, of_words, words)      \
  ACROSS(name, T, V, F, MADD, of_words, words)
BOTH(f32, float, F32s, float, MADD_F32, f32_words, f32_words)
BOTH(f64, double, F64s, double, MADD_F64, f64_words, f64_words)
BOTH(bf16, float, F32s, uint16_t, MADD_F32, f32_words, bf16_words)
BOTH(f16, float, F32s, uint16_t, MADD_F32, f32_words, f16_words)
BOTH(s32, uint32_t, S32s, uint32_t, MADD_S32, s32_words, s32_words)
BOTH(s64, uint64_t, S64s, uint64_t, MADD_S64, s64_words, s64_words)
BOTH(s8, uint32_t, S32s, int8_t, MADD_S32, s32_words, s8_words)
BOTH(u8, uint32_t, S32s, uint8_t, MADD_S32, s32_words, u8_words)

#define ENTRY(how) \
  { f32_##how, f64_##how, bf16_##how, f16_##how, s32_##how, s64_##how, s8_##how, u8_##how, }
const DotVectorLevel SIMD(dot_vector_level) = {ENTRY(along), ENTRY(across)};
