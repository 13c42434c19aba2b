// base/compiler.h: the few things that are not plain C17, each with a portable meaning.
#ifndef HILO_BASE_COMPILER_H
#define HILO_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define HL_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define HL_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#else
#define HL_LIKELY(condition) (condition)
#define HL_UNLIKELY(condition) (condition)
#endif

// A function for the rare case: its caller keeps no registers for it where it ends with the call.
#if defined(__GNUC__)
#define HL_RARE __attribute__((noinline, cold))
#else
#define HL_RARE
#endif

// A function that is part of whoever calls it, however large.
#if defined(__GNUC__)
#define HL_INLINE inline __attribute__((always_inline))
#else
#define HL_INLINE inline
#endif

// A thread-local variable that is read without a call, from a shared library too.
#if defined(__GNUC__) && defined(__ELF__)
#define HL_TLS_DIRECT __attribute__((tls_model("initial-exec")))
#else
#define HL_TLS_DIRECT
#endif

// Under the address sanitizer, memory between poison and unpoison may not be touched.
#if defined(__SANITIZE_ADDRESS__)
#define HL_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HL_HAS_ASAN 1
#endif
#endif
#ifdef HL_HAS_ASAN
void __asan_poison_memory_region(void const volatile *at, size_t size);
void __asan_unpoison_memory_region(void const volatile *at, size_t size);
#define HL_POISON(at, size) __asan_poison_memory_region((at), (size))
#define HL_UNPOISON(at, size) __asan_unpoison_memory_region((at), (size))
#else
#define HL_POISON(at, size) ((void)(at), (void)(size))
#define HL_UNPOISON(at, size) ((void)(at), (void)(size))
#endif

// The product of two 64-bit numbers, in two halves.
static inline void hl_mul_128(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low) {
#if defined(__SIZEOF_INT128__)
  __extension__ typedef unsigned __int128 U128;
  const U128 product = (U128)a * b;
  *high = (uint64_t)(product >> 64);
  *low = (uint64_t)product;
#else
  const uint64_t a1 = a >> 32, a0 = (uint32_t)a, b1 = b >> 32, b0 = (uint32_t)b;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  const uint64_t other = a0 * b1 + (uint32_t)middle;
  *high = a1 * b1 + (middle >> 32) + (other >> 32);
  *low = a * b;
#endif
}

// Little-endian numbers at any address.
static inline uint16_t hl_load_u16(const void *at) {
  const unsigned char *p = at;
  return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t hl_load_u32(const void *at) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
#else
  const unsigned char *p = at;
  return (uint32_t)hl_load_u16(p) | (uint32_t)hl_load_u16(p + 2) << 16;
#endif
}

static inline uint64_t hl_load_u64(const void *at) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
#else
  const unsigned char *p = at;
  return (uint64_t)hl_load_u32(p) | (uint64_t)hl_load_u32(p + 4) << 32;
#endif
}

#endif
