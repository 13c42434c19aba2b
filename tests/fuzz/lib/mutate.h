// tests/fuzz/lib/mutate.h: mutations that know what text is made of.
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

// What libFuzzer asks a target for.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2, uint8_t *out,
                                 size_t most, unsigned seed);

// Changes a text of the target's language by lines and tokens: deletes, doubles, swaps, moves; puts another opcode,
// element type, attribute, name or number; copies a bracketed group or one of its items elsewhere. The same seed does
// the same. Sometimes by bytes, as libFuzzer does itself. Returns the new size.
size_t fuzz_mutate(const char *target, uint8_t *data, size_t size, size_t most, unsigned seed);
// The first text with some lines or a group of the second.
size_t fuzz_cross(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2, uint8_t *out, size_t most,
                  unsigned seed);

// Defines a target's mutator and crossover.
#define FUZZ_TEXT(target)                                                                                              \
  size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {                             \
    return fuzz_mutate(target, data, size, most, seed);                                                                \
  }                                                                                                                    \
  size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,             \
                                   uint8_t *out, size_t most, unsigned seed) {                                         \
    return fuzz_cross(data1, size1, data2, size2, out, most, seed);                                                    \
  }

#endif
