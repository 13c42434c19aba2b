// cpu/vec/pick.h: the larger and the smaller of two floats, as maximum and minimum have them, without jumps.
#ifndef HILO_CPU_VEC_PICK_H
#define HILO_CPU_VEC_PICK_H

#include "base/bits.h"

// The first nan wins; of zeros, +0 is the larger.
#define PICK(name, t, T, op, join)                                           \
  static inline T name##_##t(T x, T y) {                                     \
    const T zero = hl_##t##_of_bits(hl_##t##_bits(x) join hl_##t##_bits(y)); \
    const T picked = x op y ? x : y, or_nan = x != x ? x : picked;           \
    return x == y ? zero : or_nan;                                           \
  }
PICK(larger, f32, float, >, &)
PICK(larger, f64, double, >, &)
PICK(smaller, f32, float, <, |)
PICK(smaller, f64, double, <, |)
#undef PICK

#endif
