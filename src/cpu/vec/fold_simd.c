// cpu/vec/fold_simd.c: folds and scans of ops that associate.

#include <string.h>

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

// What a fold makes of two elements, and of two vectors. It goes in four vectors side by side, which are joined in the end.
#define FOLD(name, T, one, many)                                                                   \
  static inline T one_##name(T x, T y) {                                                           \
    return (T)(one);                                                                               \
  }                                                                                                \
  static inline T##_vector many_##name(T##_vector x, T##_vector y) {                               \
    return many;                                                                                   \
  }                                                                                                \
  static void fold_##name(int64_t n, void *acc, const void *in) {                                  \
    enum { LANES = VEC_BYTES / sizeof(T), WAYS = 4 * LANES };                                      \
    const T *x = in;                                                                               \
    T *result = acc, total = *result;                                                              \
    if (n >= WAYS) {                                                                               \
      T##_vector a = T##_at(x), b = T##_at(x + LANES);                                             \
      T##_vector c = T##_at(x + 2 * LANES), d = T##_at(x + 3 * LANES);                             \
      for (x += WAYS, n -= WAYS; n >= WAYS; x += WAYS, n -= WAYS) {                                \
        a = many_##name(a, T##_at(x));                                                             \
        b = many_##name(b, T##_at(x + LANES));                                                     \
        c = many_##name(c, T##_at(x + 2 * LANES));                                                 \
        d = many_##name(d, T##_at(x + 3 * LANES));                                                 \
      }                                                                                            \
      for (; n >= LANES; x += LANES, n -= LANES)                                                   \
        a = many_##name(a, T##_at(x));                                                             \
      a = many_##name(many_##name(a, b), many_##name(c, d));                                       \
      for (int k = 0; k < LANES; k++)                                                              \
        total = one_##name(total, a[k]);                                                           \
    }                                                                                              \
    for (int64_t k = 0; k < n; k++)                                                                \
      total = one_##name(total, x[k]);                                                             \
    *result = total;                                                                               \
  }                                                                                                \
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

#define BY_SIZE(n, U, W)                  \
  FOLD(add_##n, U, (W)x + (W)y, x + y)    \
  FOLD(multiply_##n, U, (W)x *(W)y, x *y) \
  FOLD(and_##n, U, x &y, x &y)            \
  FOLD(or_##n, U, x | y, x | y)           \
  FOLD(xor_##n, U, x ^ y, x ^ y)
BY_SIZE(8, uint8_t, uint32_t)
BY_SIZE(16, uint16_t, uint32_t)
BY_SIZE(32, uint32_t, uint32_t)
BY_SIZE(64, uint64_t, uint64_t)

// x where all bits of the mask are set, else y.
#define WHERE(mask, x, y) (((mask) & (x)) | (~(mask) & (y)))
#define BY_SIGN(n, T)                                                   \
  FOLD(maximum_##n, T, x > y ? x : y, WHERE((T##_vector)(x > y), x, y)) \
  FOLD(minimum_##n, T, x < y ? x : y, WHERE((T##_vector)(x < y), x, y))
BY_SIGN(s8, int8_t)
BY_SIGN(s16, int16_t)
BY_SIGN(s32, int32_t)
BY_SIGN(s64, int64_t)
BY_SIGN(u8, uint8_t)
BY_SIGN(u16, uint16_t)
BY_SIGN(u32, uint32_t)
BY_SIGN(u64, uint64_t)

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

#define FLOATS(t, T)                                       \
  FOLD(add_##t, T, x + y, x + y)                           \
  FOLD(multiply_##t, T, x *y, x *y)                        \
  FOLD(maximum_##t, T, larger_##t(x, y), larger_##T(x, y)) \
  FOLD(minimum_##t, T, smaller_##t(x, y), smaller_##T(x, y))
FLOATS(f32, float)
FLOATS(f64, double)

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
const VecScanTable SIMD(vec_scans) = TABLE(scan);
const VecJoinTable SIMD(vec_joins) = TABLE(join);
const VecFoldRowsTable SIMD(vec_row_folds) = TABLE(fold_rows);
