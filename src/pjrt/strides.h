// pjrt/strides.h: arrays that lie in memory in any order.
#ifndef HILO_PJRT_STRIDES_H
#define HILO_PJRT_STRIDES_H

#include "pjrt/plugin.h"

// Bytes from one element to the next in each dimension.
void strides_of(const Array *array, int64_t *stride);         // as its layout says
void strides_row_major(const Array *array, int64_t *stride);
// Whether both tell the same places; dimensions of one element tell nothing.
bool strides_equal(const Array *array, const int64_t *a, const int64_t *b);
void strides_copy(void *to, const int64_t *to_stride, const void *from, const int64_t *from_stride,
                  const int64_t *dim, int rank, int bytes);

#endif
