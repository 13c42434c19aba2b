// cpu/vec/pick.h: ops of two floats of which either may be a nan, without jumps: the first nan wins.
#ifndef HILO_CPU_VEC_PICK_H
#define HILO_CPU_VEC_PICK_H

#include "base/bits.h"

// Of two nans an instruction gives the one that stands first in it, and of sums and products a compiler chooses which that is: here
// the second operand is no other nan than the first.
#define COMMUTING(name, t, T, op)          \
  static inline T name##_##t(T x, T y) {   \
    const T other = x != x ? x : y;        \
    return x op other;                     \
  }
COMMUTING(sum, f32, float, +)
COMMUTING(sum, f64, double, +)
COMMUTING(product, f32, float, *)
COMMUTING(product, f64, double, *)
#undef COMMUTING

// The larger and the smaller: of zeros, +0 is the larger.
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
