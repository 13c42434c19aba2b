// op/pick.h: the larger and the smaller of two floats, as maximum and minimum have them.
#ifndef HILO_OP_PICK_H
#define HILO_OP_PICK_H

#include <stdint.h>
#include <string.h>

// The first nan wins; of zeros, +0 is the larger.
#define PICK(name, T, Bits, op, join) \
  static inline T name(T x, T y) {    \
    if (x == y) {                     \
      Bits a, b;                      \
      memcpy(&a, &x, sizeof(a));      \
      memcpy(&b, &y, sizeof(b));      \
      a = a join b;                   \
      memcpy(&x, &a, sizeof(a));      \
      return x;                       \
    }                                 \
    return x op y || x != x ? x : y;  \
  }
PICK(larger_f32, float, uint32_t, >, &)
PICK(larger_f64, double, uint64_t, >, &)
PICK(smaller_f32, float, uint32_t, <, |)
PICK(smaller_f64, double, uint64_t, <, |)
#undef PICK

#endif
