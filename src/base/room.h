// base/room.h: lists in an arena that grow.
#ifndef HILO_BASE_ROOM_H
#define HILO_BASE_ROOM_H

#include <string.h>

#include "hilo/base.h"

// A list of n entries of a size with room for one more: itself, or a copy with twice the room. *capacity
// is 0 at first.
static inline void *base_room(HlArena *arena, void *list, size_t n, int *capacity, size_t size) {
  if (n < (size_t)*capacity)
    return list;
  *capacity = *capacity ? 2 * *capacity : 8;
  void *longer = hl_arena_alloc(arena, (size_t)*capacity * size);
  if (n > 0)
    memcpy(longer, list, n * size);
  return longer;
}

#endif
