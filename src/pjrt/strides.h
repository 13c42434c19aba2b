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

// Whether the host has elements in another form than buffers: integers below a byte, which clients and handlers leave without their
// sign, and Hilo carries extended by it.
bool elements_differ(HlDtype dtype);
// n elements, one after the other, from the host's form to ours, whatever their upper bits are, and back. Nothing for types that
// do not differ.
void elements_take(HlDtype dtype, void *at, size_t n);
void elements_give(HlDtype dtype, void *at, size_t n);

#endif
