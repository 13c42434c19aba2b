// buffer/heap.h: placing temporaries in one stretch of memory.
#ifndef HILO_BUFFER_HEAP_H
#define HILO_BUFFER_HEAP_H

#include "hilo/buffers.h"

typedef struct HeapResult {
  int64_t size;
  HlPlace *place;  // one for each value asked for, in no order
  int n;
  HlHeapEvent *event;
  int n_events;
  uint32_t *peak;  // the values there when most is in use, ascending
  int n_peak;
} HeapResult;

// Places the values for which `wanted` is set; sizes of buffers are those of their largest values.
HeapResult heap_place(HlArena *arena, const HlLive *live, const bool *wanted, int64_t alignment);

#endif
