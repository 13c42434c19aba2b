// cpu/dot/words_simd.h: vectors of words at one level, and how they are multiplied and added up.
#ifndef HILO_CPU_DOT_WORDS_SIMD_H
#define HILO_CPU_DOT_WORDS_SIMD_H

#include <stdint.h>

#include "cpu/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Bytes of a vector.
#if SIMD_LEVEL == 4
enum { VECTOR = 64 };
#elif SIMD_LEVEL == 3
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif

typedef float F32s __attribute__((vector_size(VECTOR)));
typedef double F64s __attribute__((vector_size(VECTOR)));
typedef uint32_t S32s __attribute__((vector_size(VECTOR)));
typedef uint64_t S64s __attribute__((vector_size(VECTOR)));
typedef int32_t Signed __attribute__((vector_size(VECTOR)));

// c + a * b.
#if SIMD_LEVEL == 4
#define MADD_F32(a, b, c) (F32s) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define MADD_F64(a, b, c) (F64s) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#define PAIRS(a, b) (S32s) _mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#elif SIMD_LEVEL == 3
#define MADD_F32(a, b, c) (F32s) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define MADD_F64(a, b, c) (F64s) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#define PAIRS(a, b) (S32s) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#else
#define MADD_F32(a, b, c) ((c) + (a) * (b))
#define MADD_F64(a, b, c) ((c) + (a) * (b))
#if defined(__x86_64__)
#define PAIRS(a, b) (S32s) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#else
#define LOW(x) (S32s)((Signed)((x) << 16) >> 16)
#define HIGH(x) (S32s)((Signed)(x) >> 16)
#define PAIRS(a, b) (LOW(a) * LOW(b) + HIGH(a) * HIGH(b))
#endif
#endif
#define MADD_S16(a, b, c) ((c) + PAIRS(a, b))
#define MADD_S32(a, b, c) ((c) + (a) * (b))
#define MADD_S64(a, b, c) ((c) + (a) * (b))

// What is no part of the level, and some machines of it have.
#if SIMD_LEVEL == 4
#define VNNI __attribute__((target("avx512vnni")))
#endif

// Half or a quarter of a vector, its elements as words.
#if SIMD_LEVEL == 4
#define WIDE_U16(x) (S32s) _mm512_cvtepu16_epi32((__m256i)(x))
#define WIDE_S8(x) (S32s) _mm512_cvtepi8_epi32((__m128i)(x))
#define WIDE_U8(x) (S32s) _mm512_cvtepu8_epi32((__m128i)(x))
#elif SIMD_LEVEL == 3
#define WIDE_U16(x) (S32s) _mm256_cvtepu16_epi32((__m128i)(x))
#define WIDE_S8(x) (S32s) _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((int64_t)(x)))
#define WIDE_U8(x) (S32s) _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)(x)))
#else
#define WIDE_U16(x) __builtin_convertvector((x), S32s)
#define WIDE_S8(x) (S32s) __builtin_convertvector((x), Signed)
#define WIDE_U8(x) __builtin_convertvector((x), S32s)
#endif

#endif
