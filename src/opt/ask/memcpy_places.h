// opt/ask/memcpy_places.h: where in memory the piece lies that a slice, or an update of one, moves.
#ifndef HILO_OPT_MEMCPY_PLACES_H
#define HILO_OPT_MEMCPY_PLACES_H

#include "hilo/pass.h"

typedef struct MemcpyPlaces {
  const HlInst *slice;         // the dynamic-slice or dynamic-update-slice
  bool by_iteration;           // it lies elsewhere in each iteration of the loop around it
  int64_t *at, n;              // bytes from the array's start: of each iteration, or one
} MemcpyPlaces;

// Of a dynamic-slice or dynamic-update-slice, or of a fusion that is nothing else. False: it moves no contiguous piece, or
// it is not known when compiling where that lies. In p->arena.
bool memcpy_places(HlPass *p, const HlInst *inst, MemcpyPlaces *out);

#endif
