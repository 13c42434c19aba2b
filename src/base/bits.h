// base/bits.h: the bits of a float or double, and the number that has given bits.
#ifndef HILO_BASE_BITS_H
#define HILO_BASE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t hl_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float hl_f32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t hl_f64_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double hl_f64_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#endif
