// op/matmul.c: products of matrices in wide types.
//
// Every element is a sum in double (or in 64 bits, wrapping) in order of k, rounded once by the
// caller; or, of short sums of f32, at every step. Four rows of the result advance together over a strip of columns that stays in the cache.

#include "op/matmul.h"

#include "base/memory.h"

enum { STRIP = 256 };

#define LOOPS(name, T)                                                                            \
  static void name##_rows4(int64_t k, int64_t w, int64_t n, const T *a, int64_t step, const T *b, \
                           T *c) {                                                                \
    T *restrict c0 = c, *restrict c1 = c + n, *restrict c2 = c + 2 * n, *restrict c3 = c + 3 * n; \
    for (int64_t p = 0; p < k; p++) {                                                             \
      const T a0 = a[p], a1 = a[step + p], a2 = a[2 * step + p], a3 = a[3 * step + p];            \
      const T *restrict row = b + p * n;                                                          \
      for (int64_t j = 0; j < w; j++) {                                                           \
        c0[j] += a0 * row[j];                                                                     \
        c1[j] += a1 * row[j];                                                                     \
        c2[j] += a2 * row[j];                                                                     \
        c3[j] += a3 * row[j];                                                                     \
      }                                                                                           \
    }                                                                                             \
  }                                                                                               \
  static void name##_row(int64_t k, int64_t w, int64_t n, const T *a, const T *b, T *c) {         \
    T *restrict c0 = c;                                                                           \
    for (int64_t p = 0; p < k; p++) {                                                             \
      const T a0 = a[p];                                                                          \
      const T *restrict row = b + p * n;                                                          \
      for (int64_t j = 0; j < w; j++)                                                             \
        c0[j] += a0 * row[j];                                                                     \
    }                                                                                             \
  }                                                                                               \
  static T name##_inner(int64_t k, const T *a, const T *b, int64_t b_step) {                      \
    T part[4] = {0};                                                                              \
    int64_t p = 0;                                                                                \
    for (; p + 4 <= k; p += 4)                                                                    \
      for (int q = 0; q < 4; q++)                                                                 \
        part[q] += a[p + q] * b[(p + q) * b_step];                                                \
    for (; p < k; p++)                                                                            \
      part[0] += a[p] * b[p * b_step];                                                            \
    return part[0] + part[1] + (part[2] + part[3]);                                               \
  }                                                                                               \
  static void name(int64_t m, int64_t k, int64_t n, const T *a, int64_t step, const T *b, T *c) { \
    for (int64_t i = 0; i < m * n; i++)                                                           \
      c[i] = 0;                                                                                   \
    if (n < 4) {                                                                                  \
      for (int64_t i = 0; i < m; i++) {                                                           \
        base_look();                                                                              \
        for (int64_t j = 0; j < n; j++)                                                           \
          c[i * n + j] = name##_inner(k, a + i * step, b + j, n);                                 \
      }                                                                                           \
      return;                                                                                     \
    }                                                                                             \
    for (int64_t j = 0; j < n; j += STRIP) {                                                      \
      const int64_t w = n - j < STRIP ? n - j : STRIP;                                            \
      int64_t i = 0;                                                                              \
      for (; i + 4 <= m; i += 4) {                                                                \
        base_look();                                                                              \
        name##_rows4(k, w, n, a + i * step, step, b + j, c + i * n + j);                          \
      }                                                                                           \
      for (; i < m; i++)                                                                          \
        name##_row(k, w, n, a + i * step, b + j, c + i * n + j);                                  \
    }                                                                                             \
  }
LOOPS(matmul_f64, double)
LOOPS(matmul_u64, uint64_t)
#undef LOOPS

// Complex numbers as pairs.
static void matmul_c128(int64_t m, int64_t k, int64_t n, const double *a, int64_t step,
                        const double *b, double *c) {
  for (int64_t i = 0; i < 2 * m * n; i++)
    c[i] = 0;
  for (int64_t i = 0; i < m; i++) {
    base_look();
    for (int64_t p = 0; p < k; p++) {
      const double re = a[2 * (i * step + p)], im = a[2 * (i * step + p) + 1];
      const double *restrict row = b + 2 * p * n;
      double *restrict to = c + 2 * i * n;
      for (int64_t j = 0; j < n; j++) {
        to[2 * j] += re * row[2 * j] - im * row[2 * j + 1];
        to[2 * j + 1] += re * row[2 * j + 1] + im * row[2 * j];
      }
    }
  }
}

void matmul(Wide wide, int64_t m, int64_t k, int64_t n, const void *a, int64_t a_step,
            const void *b, void *c) {
  if (wide == WIDE_FLOAT)
    matmul_f64(m, k, n, a, a_step, b, c);
  else if (wide == WIDE_INT)
    matmul_u64(m, k, n, a, a_step, b, c);
  else
    matmul_c128(m, k, n, a, a_step, b, c);
}

// --- Short sums in f32 ---------------------------------------------------------------------------

// Longer sums have no order that everybody keeps.
enum { SHORT = 32 };

// Elements are f32 values; of two such the double product is exact and the double sum rounds as an
// f32 sum does.
static void short_f32(int64_t m, int64_t k, int64_t n, const double *a, int64_t step,
                      const double *b, double *c) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum = (float)(sum + (double)(float)(a[i * step + p] * b[p * n + j]));
      c[i * n + j] = sum;
    }
}

static void short_c64(int64_t m, int64_t k, int64_t n, const double *a, int64_t step,
                      const double *b, double *c) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float re = 0, im = 0;
      for (int64_t p = 0; p < k; p++) {
        const double *x = a + 2 * (i * step + p), *y = b + 2 * (p * n + j);
        const float rr = (float)(x[0] * y[0]), ii = (float)(x[1] * y[1]);
        const float ri = (float)(x[0] * y[1]), ir = (float)(x[1] * y[0]);
        re = (float)(re + (double)(float)((double)rr - ii));
        im = (float)(im + (double)(float)((double)ri + ir));
      }
      c[2 * (i * n + j)] = re;
      c[2 * (i * n + j) + 1] = im;
    }
}

void matmul_for(HlDtype dtype, Wide wide, int64_t m, int64_t k, int64_t n, const void *a,
                int64_t a_step, const void *b, void *c) {
  if (k <= SHORT && dtype == HL_F32)
    short_f32(m, k, n, a, a_step, b, c);
  else if (k <= SHORT && dtype == HL_C64)
    short_c64(m, k, n, a, a_step, b, c);
  else
    matmul(wide, m, k, n, a, a_step, b, c);
}
