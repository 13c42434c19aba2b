// cpu/vec/fold_simd.c: folds and scans of ops that associate.

#include <math.h>
#include <string.h>
#if SIMD_LEVEL == 4
#include <immintrin.h>
#endif

#include "base/compiler.h"
#include "cpu/vec/block.h"
#include "cpu/vec/pick.h"

#if SIMD_LEVEL == 4
enum { VEC_BYTES = 64 };
#elif SIMD_LEVEL == 3
enum { VEC_BYTES = 32 };
#else
enum { VEC_BYTES = 16 };
#endif

// A vector of a type, and those at a place.
#define VECTOR(T)                                               \
  typedef T T##_vector __attribute__((vector_size(VEC_BYTES))); \
  static inline T##_vector T##_at(const T *x) {                 \
    T##_vector v;                                               \
    memcpy(&v, x, sizeof v);                                    \
    return v;                                                   \
  }
VECTOR(uint8_t)
VECTOR(uint16_t)
VECTOR(uint32_t)
VECTOR(uint64_t)
VECTOR(int8_t)
VECTOR(int16_t)
VECTOR(int32_t)
VECTOR(int64_t)
VECTOR(float)
VECTOR(double)

enum { AHEAD = 16 };  // rows of joins that are on their way

// Lanes change places with those so many bytes further: halves, quarters, and so on.
#if defined(__clang__)
#define SHUFFLED(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLED(v, ...) __builtin_shuffle(v, (uint64_t_vector){__VA_ARGS__})
#endif
static inline uint64_t_vector swapped(uint64_t_vector v, int bytes) {
  switch (bytes) {
#if SIMD_LEVEL == 4
  case 32: return SHUFFLED(v, 4, 5, 6, 7, 0, 1, 2, 3);
  case 16: return SHUFFLED(v, 2, 3, 0, 1, 6, 7, 4, 5);
  case 8: return SHUFFLED(v, 1, 0, 3, 2, 5, 4, 7, 6);
#elif SIMD_LEVEL == 3
  case 16: return SHUFFLED(v, 2, 3, 0, 1);
  case 8: return SHUFFLED(v, 1, 0, 3, 2);
#else
  case 8: return SHUFFLED(v, 1, 0);
#endif
  case 4: return v >> 32 | v << 32;
  case 2: return (uint64_t_vector)((uint32_t_vector)v >> 16 | (uint32_t_vector)v << 16);
  default: return (uint64_t_vector)((uint16_t_vector)v >> 8 | (uint16_t_vector)v << 8);
  }
}

// What a fold makes of two elements, of two vectors, and of the lanes of one: halves, quarters, and so on.
#define PAIR(name, T, one, many)                                          \
  static inline T one_##name(T x, T y) {                                  \
    return (T)(one);                                                      \
  }                                                                       \
  static inline T##_vector many_##name(T##_vector x, T##_vector y) {      \
    return many;                                                          \
  }                                                                       \
  static inline T joined_##name(T##_vector a) {                           \
    for (int bytes = VEC_BYTES / 2; bytes >= (int)sizeof(T); bytes /= 2)  \
      a = many_##name(a, (T##_vector)swapped((uint64_t_vector)a, bytes)); \
    return a[0];                                                          \
  }

// `none` changes nothing. It goes in four vectors side by side, the first of which takes what is left of n, and which are joined
// in the end. Segments (cpu/emit) do the same.
#define WAYS(name, T, none)                                                  \
  static inline T ways_##name(int64_t n, const T *x) {                       \
    enum { LANES = VEC_BYTES / sizeof(T), WAYS = 4 * LANES };                \
    T##_vector a;                                                            \
    for (int k = 0; k < LANES; k++)                                          \
      a[k] = (T)(none);                                                      \
    T##_vector b = a, c = a, d = a;                                          \
    for (; n >= WAYS; x += WAYS, n -= WAYS) {                                \
      a = many_##name(a, T##_at(x));                                         \
      b = many_##name(b, T##_at(x + LANES));                                 \
      c = many_##name(c, T##_at(x + 2 * LANES));                             \
      d = many_##name(d, T##_at(x + 3 * LANES));                             \
    }                                                                        \
    for (; n >= LANES; x += LANES, n -= LANES)                               \
      a = many_##name(a, T##_at(x));                                         \
    for (int64_t k = 0; k < n; k++)                                          \
      a[k] = one_##name(a[k], x[k]);                                         \
    return joined_##name(many_##name(many_##name(a, b), many_##name(c, d))); \
  }
#define ONTO(name, folds, T)                                         \
  static void lanes_##name(void *acc, const void *lanes) {           \
    *(T *)acc = one_##name(*(T *)acc, joined_##name(T##_at(lanes))); \
  }                                                                  \
  static void folds(int64_t n, void *acc, const void *in) {          \
    *(T *)acc = one_##name(*(T *)acc, ways_##name(n, in));           \
  }

// Rows onto rows, and an element onto the next.
#define ROWS(name, T)                                                                              \
  static void fold_rows_##name(int64_t rows, int64_t n, void *acc, const void *in, int64_t step) { \
    enum { LANES = VEC_BYTES / sizeof(T) };                                                        \
    T *to = acc;                                                                                   \
    const T *x = in;                                                                               \
    for (; rows >= 4; rows -= 4, x += 4 * step) {                                                  \
      int64_t k = 0;                                                                               \
      for (; k + LANES <= n; k += LANES) {                                                         \
        T##_vector v = many_##name(T##_at(to + k), T##_at(x + k));                                 \
        v = many_##name(v, T##_at(x + step + k));                                                  \
        v = many_##name(v, T##_at(x + 2 * step + k));                                              \
        v = many_##name(v, T##_at(x + 3 * step + k));                                              \
        memcpy(to + k, &v, sizeof v);                                                              \
      }                                                                                            \
      for (; k < n; k++)                                                                           \
        for (int r = 0; r < 4; r++)                                                                \
          to[k] = one_##name(to[k], x[r * step + k]);                                              \
    }                                                                                              \
    for (; rows > 0; rows--, x += step)                                                            \
      for (int64_t k = 0; k < n; k++)                                                              \
        to[k] = one_##name(to[k], x[k]);                                                           \
  }                                                                                                \
  static void join_##name(int64_t rows, int64_t n, void *base, const int64_t *place,               \
                          const void *in) {                                                        \
    enum { LANES = VEC_BYTES / sizeof(T) };                                                        \
    const T *x = in;                                                                               \
    for (int64_t r = 0; r < rows; r++, x += n) {                                                   \
      if (r + AHEAD < rows)                                                                        \
        __builtin_prefetch((const char *)base + place[r + AHEAD], 1);                              \
      if (place[r] < 0)                                                                            \
        continue;                                                                                  \
      T *to = (T *)(void *)((char *)base + place[r]);                                              \
      int64_t k = 0;                                                                               \
      for (; k + LANES <= n; k += LANES) {                                                         \
        const T##_vector v = many_##name(T##_at(to + k), T##_at(x + k));                           \
        memcpy(to + k, &v, sizeof v);                                                              \
      }                                                                                            \
      for (; k < n; k++)                                                                           \
        to[k] = one_##name(to[k], x[k]);                                                           \
    }                                                                                              \
  }                                                                                                \
  static void scan_##name(int64_t n, void *out, void *carry, const void *in, bool backwards) {     \
    const T *x = in;                                                                               \
    T *to = out, total = *(T *)carry;                                                              \
    if (backwards)                                                                                 \
      for (int64_t k = n - 1; k >= 0; k--)                                                         \
        to[k] = total = one_##name(total, x[k]);                                                   \
    else                                                                                           \
      for (int64_t k = 0; k < n; k++)                                                              \
        to[k] = total = one_##name(total, x[k]);                                                   \
    *(T *)carry = total;                                                                           \
  }

#define FOLD_AS(name, folds, T, none, one, many) \
  PAIR(name, T, one, many)                       \
  WAYS(name, T, none)                            \
  ONTO(name, folds, T)                           \
  ROWS(name, T)
#define FOLD(name, T, none, one, many) FOLD_AS(name, fold_##name, T, none, one, many)

#define BY_SIZE(n, U, W)                     \
  FOLD(add_##n, U, 0, (W)x + (W)y, x + y)    \
  FOLD(multiply_##n, U, 1, (W)x *(W)y, x *y) \
  FOLD(and_##n, U, ~(W)0, x &y, x &y)        \
  FOLD(or_##n, U, 0, x | y, x | y)           \
  FOLD(xor_##n, U, 0, x ^ y, x ^ y)
BY_SIZE(8, uint8_t, uint32_t)
BY_SIZE(16, uint16_t, uint32_t)
BY_SIZE(32, uint32_t, uint32_t)
BY_SIZE(64, uint64_t, uint64_t)

// x where all bits of the mask are set, else y.
#define WHERE(mask, x, y) (((mask) & (x)) | (~(mask) & (y)))
#define BY_SIGN(n, T, least, most)                                             \
  FOLD(maximum_##n, T, least, x > y ? x : y, WHERE((T##_vector)(x > y), x, y)) \
  FOLD(minimum_##n, T, most, x < y ? x : y, WHERE((T##_vector)(x < y), x, y))
BY_SIGN(s8, int8_t, INT8_MIN, INT8_MAX)
BY_SIGN(s16, int16_t, INT16_MIN, INT16_MAX)
BY_SIGN(s32, int32_t, INT32_MIN, INT32_MAX)
BY_SIGN(s64, int64_t, INT64_MIN, INT64_MAX)
BY_SIGN(u8, uint8_t, 0, UINT8_MAX)
BY_SIGN(u16, uint16_t, 0, UINT16_MAX)
BY_SIGN(u32, uint32_t, 0, UINT32_MAX)
BY_SIGN(u64, uint64_t, 0, UINT64_MAX)

// As cpu/vec/pick.h has them: of equal ones (two zeros) the bits joined, a nan before all.
#define PICK(name, T, Bits, op, join)                                          \
  static inline T##_vector name##_##T(T##_vector x, T##_vector y) {            \
    typedef Bits##_vector B;                                                   \
    const B a = (B)x, b = (B)y, nan = (B)(x != x), same = (B)(x == y);         \
    const B picked = WHERE((B)(x op y), a, b), or_nan = WHERE(nan, a, picked); \
    return (T##_vector)WHERE(same, a join b, or_nan);                          \
  }
PICK(larger, float, uint32_t, >, &)
PICK(larger, double, uint64_t, >, &)
PICK(smaller, float, uint32_t, <, |)
PICK(smaller, double, uint64_t, <, |)

// Without nan, which AVX-512 tells on the way, the largest is that of its numbers in any order.
#if SIMD_LEVEL == 4
typedef __mmask16 float_mask;
typedef __mmask8 double_mask;
enum { LESSER = 4, GREATER = 5 };  // with the sign of what is chosen
#define QUICK(name, T, V, s, none, how)                                                   \
  static void fold_##name(int64_t n, void *acc, const void *in) {                         \
    enum { LANES = VEC_BYTES / sizeof(T), WAYS = 4 * LANES };                             \
    const T *x = in;                                                                      \
    V a = _mm512_set1_##s(none), b = a, c = a, d = a;                                     \
    int64_t left = n;                                                                     \
    unsigned nan = 0;                                                                     \
    for (; left >= WAYS; x += WAYS, left -= WAYS) {                                       \
      const V v0 = _mm512_loadu_##s(x), v1 = _mm512_loadu_##s(x + LANES);                 \
      const V v2 = _mm512_loadu_##s(x + 2 * LANES), v3 = _mm512_loadu_##s(x + 3 * LANES); \
      nan |= (unsigned)_mm512_cmp_##s##_mask(v0, v1, _CMP_UNORD_Q);                       \
      nan |= (unsigned)_mm512_cmp_##s##_mask(v2, v3, _CMP_UNORD_Q);                       \
      a = _mm512_range_##s(a, v0, how);                                                   \
      b = _mm512_range_##s(b, v1, how);                                                   \
      c = _mm512_range_##s(c, v2, how);                                                   \
      d = _mm512_range_##s(d, v3, how);                                                   \
    }                                                                                     \
    for (; left > 0; x += LANES, left -= LANES) {                                         \
      const T##_mask rest = (T##_mask)((1U << (left < LANES ? left : LANES)) - 1);        \
      const V v = _mm512_mask_loadu_##s(_mm512_set1_##s(none), rest, x);                  \
      nan |= (unsigned)_mm512_cmp_##s##_mask(v, v, _CMP_UNORD_Q);                         \
      a = _mm512_range_##s(a, v, how);                                                    \
    }                                                                                     \
    a = _mm512_range_##s(_mm512_range_##s(a, b, how), _mm512_range_##s(c, d, how), how);  \
    if (nan)                                                                              \
      any_##name(n, acc, in);                                                             \
    else                                                                                  \
      lanes_##name(acc, &a);                                                              \
  }
#define EXTREME(name, T, V, s, none, how, one, many) \
  FOLD_AS(name, any_##name, T, none, one, many)      \
  QUICK(name, T, V, s, none, how)
#else
#define EXTREME(name, T, V, s, none, how, one, many) FOLD(name, T, none, one, many)
#endif

// As cpu/vec/pick.h has them: the first nan. It is asked for only where there is one: what is a number is so in either order.
#define SUM(name, first, T, Bits, none, op, certain)                                    \
  static inline T##_vector certain##_##T(T##_vector x, T##_vector y) {                  \
    const T##_vector other =                                                            \
        (T##_vector)WHERE((Bits##_vector)(x != x), (Bits##_vector)x, (Bits##_vector)y); \
    return x op other;                                                                  \
  }                                                                                     \
  PAIR(name, T, x op y, x op y)                                                         \
  WAYS(name, T, none)                                                                   \
  ROWS(name, T)                                                                         \
  PAIR(first, T, certain(x, y), certain##_##T(x, y))                                    \
  WAYS(first, T, none)                                                                  \
  ONTO(first, fold_##first, T)                                                          \
  static void lanes_##name(void *acc, const void *lanes) {                              \
    const T all = one_##name(*(T *)acc, joined_##name(T##_at(lanes)));                  \
    if (HL_UNLIKELY(all != all))                                                        \
      lanes_##first(acc, lanes);                                                        \
    else                                                                                \
      *(T *)acc = all;                                                                  \
  }                                                                                     \
  static void fold_##name(int64_t n, void *acc, const void *in) {                       \
    const T all = one_##name(*(T *)acc, ways_##name(n, in));                            \
    if (HL_UNLIKELY(all != all))                                                        \
      fold_##first(n, acc, in);                                                         \
    else                                                                                \
      *(T *)acc = all;                                                                  \
  }

#define FLOATS(t, T, Bits, V, s)                                                        \
  SUM(add_##t, first_add_##t, T, Bits, -0.0, +, sum_##t)                                \
  SUM(multiply_##t, first_multiply_##t, T, Bits, 1, *, product_##t)                     \
  EXTREME(maximum_##t, T, V, s, -INFINITY, GREATER, larger_##t(x, y), larger_##T(x, y)) \
  EXTREME(minimum_##t, T, V, s, INFINITY, LESSER, smaller_##t(x, y), smaller_##T(x, y))
FLOATS(f32, float, uint32_t, __m512, ps)
FLOATS(f64, double, uint64_t, __m512d, pd)

#define SIZES(name)                                                                    \
  [VEC_CLASS_S8] = name##_8, [VEC_CLASS_S16] = name##_16, [VEC_CLASS_S32] = name##_32, \
  [VEC_CLASS_S64] = name##_64, [VEC_CLASS_U8] = name##_8, [VEC_CLASS_U16] = name##_16, \
  [VEC_CLASS_U32] = name##_32, [VEC_CLASS_U64] = name##_64
#define SIGNS(name)                                                                       \
  [VEC_CLASS_S8] = name##_s8, [VEC_CLASS_S16] = name##_s16, [VEC_CLASS_S32] = name##_s32, \
  [VEC_CLASS_S64] = name##_s64, [VEC_CLASS_U8] = name##_u8, [VEC_CLASS_U16] = name##_u16, \
  [VEC_CLASS_U32] = name##_u32, [VEC_CLASS_U64] = name##_u64
#define PRED(name) [VEC_CLASS_PRED] = name
#define FLOAT_TYPES(name) [VEC_CLASS_F32] = name##_f32, [VEC_CLASS_F64] = name##_f64
#define TABLE(kind)                                                                              \
  {                                                                                              \
    [VEC_ADD] = {PRED(kind##_or_8), SIZES(kind##_add), FLOAT_TYPES(kind##_add)},                 \
    [VEC_MULTIPLY] = {PRED(kind##_and_8), SIZES(kind##_multiply), FLOAT_TYPES(kind##_multiply)}, \
    [VEC_MAXIMUM] = {PRED(kind##_or_8), SIGNS(kind##_maximum), FLOAT_TYPES(kind##_maximum)},     \
    [VEC_MINIMUM] = {PRED(kind##_and_8), SIGNS(kind##_minimum), FLOAT_TYPES(kind##_minimum)},    \
    [VEC_AND] = {PRED(kind##_and_8), SIZES(kind##_and)},                                         \
    [VEC_OR] = {PRED(kind##_or_8), SIZES(kind##_or)},                                            \
    [VEC_XOR] = {PRED(kind##_xor_8), SIZES(kind##_xor)},                                         \
  }
const VecFoldTable SIMD(vec_folds) = TABLE(fold);
const VecLanesTable SIMD(vec_lanes) = TABLE(lanes);
const VecScanTable SIMD(vec_scans) = TABLE(scan);
const VecJoinTable SIMD(vec_joins) = TABLE(join);
const VecFoldRowsTable SIMD(vec_row_folds) = TABLE(fold_rows);
