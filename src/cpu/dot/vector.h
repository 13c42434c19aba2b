// cpu/dot/vector.h: one row times a matrix: nothing is packed, the matrix streams by once.
#ifndef HILO_CPU_DOT_VECTOR_H
#define HILO_CPU_DOT_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/simd.h"

// What elements of the matrix are, and what they are multiplied as.
typedef enum DotStream {
  DOT_STREAM_F32, DOT_STREAM_F64, DOT_STREAM_BF16, DOT_STREAM_F16,  // the two narrow ones as f32
  DOT_STREAM_S32, DOT_STREAM_S64, DOT_STREAM_S8, DOT_STREAM_U8,     // bytes as 32 bits
  DOT_STREAMS
} DotStream;

// y[j] (+)= sum over i < k of x[i] * b[j * step + i] for 0 <= j < n: the elements of a sum lie beside each other. x and y are words,
// `step` counts elements.
typedef void DotAlong(int64_t n, int64_t k, const void *x, const void *b, int64_t step, void *y, bool add);
// y[j] (+)= sum over i < k of x[i] * b[i * step + j]: those of different sums do.
typedef void DotAcross(int64_t n, int64_t k, const void *x, const void *b, int64_t step, void *y, bool add);

typedef struct DotVectorLevel {
  DotAlong *along[DOT_STREAMS];
  DotAcross *across[DOT_STREAMS];
} DotVectorLevel;
SIMD_DECLARE(const DotVectorLevel, dot_vector_level);

#endif
