// cpu/vec/fold_simd.c: folds and scans of ops that associate.

#include "cpu/vec/block.h"
#include "cpu/vec/pick.h"

// A fold goes in WAYS of elements whose places differ by a multiple of WAYS, which join at the end by halves.
enum { WAYS = 32 };
#define FOLD(name, T, ...)                                                                     \
  static inline T one_##name(T x, T y) {                                                       \
    return (T)(__VA_ARGS__);                                                                   \
  }                                                                                            \
  static void fold_##name(int64_t n, void *acc, const void *in) {                              \
    const T *x = in;                                                                           \
    T *result = acc, total = *result;                                                          \
    if (n >= WAYS) {                                                                           \
      T lane[WAYS];                                                                            \
      for (int k = 0; k < WAYS; k++)                                                           \
        lane[k] = x[k];                                                                        \
      for (x += WAYS, n -= WAYS; n >= WAYS; x += WAYS, n -= WAYS)                              \
        for (int k = 0; k < WAYS; k++)                                                         \
          lane[k] = one_##name(lane[k], x[k]);                                                 \
      for (int half = WAYS / 2; half > 0; half /= 2)                                           \
        for (int k = 0; k < half; k++)                                                         \
          lane[k] = one_##name(lane[k], lane[k + half]);                                       \
      total = one_##name(total, lane[0]);                                                      \
    }                                                                                          \
    for (int64_t k = 0; k < n; k++)                                                            \
      total = one_##name(total, x[k]);                                                         \
    *result = total;                                                                           \
  }                                                                                            \
  static void scan_##name(int64_t n, void *out, void *carry, const void *in, bool backwards) { \
    const T *x = in;                                                                           \
    T *to = out, total = *(T *)carry;                                                          \
    if (backwards)                                                                             \
      for (int64_t k = n - 1; k >= 0; k--)                                                     \
        to[k] = total = one_##name(total, x[k]);                                               \
    else                                                                                       \
      for (int64_t k = 0; k < n; k++)                                                          \
        to[k] = total = one_##name(total, x[k]);                                               \
    *(T *)carry = total;                                                                       \
  }

#define BY_SIZE(n, U, W)            \
  FOLD(add_##n, U, (W)x + (W)y)     \
  FOLD(multiply_##n, U, (W)x *(W)y) \
  FOLD(and_##n, U, x &y)            \
  FOLD(or_##n, U, x | y)            \
  FOLD(xor_##n, U, x ^ y)
BY_SIZE(8, uint8_t, uint32_t)
BY_SIZE(16, uint16_t, uint32_t)
BY_SIZE(32, uint32_t, uint32_t)
BY_SIZE(64, uint64_t, uint64_t)

#define BY_SIGN(n, T)                 \
  FOLD(maximum_##n, T, x > y ? x : y) \
  FOLD(minimum_##n, T, x < y ? x : y)
BY_SIGN(s8, int8_t)
BY_SIGN(s16, int16_t)
BY_SIGN(s32, int32_t)
BY_SIGN(s64, int64_t)
BY_SIGN(u8, uint8_t)
BY_SIGN(u16, uint16_t)
BY_SIGN(u32, uint32_t)
BY_SIGN(u64, uint64_t)

#define FLOATS(t, T)                     \
  FOLD(add_##t, T, x + y)                \
  FOLD(multiply_##t, T, x *y)            \
  FOLD(maximum_##t, T, larger_##t(x, y)) \
  FOLD(minimum_##t, T, smaller_##t(x, y))
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
