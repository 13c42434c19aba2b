// vec.c: what grows the lists of base/vec.h.

#include "base/vec.h"

#include <limits.h>
#include <string.h>

#include "base/memory.h"

void *base_vec_grow(HlArena *arena, const void *owner, void *at, int n, int64_t more, int *capacity,
                    size_t size) {
  const int64_t need = n + more, twice = 2 * (int64_t)*capacity;
  int64_t room = need > twice ? need : twice;
  if (room < 8)
    room = 8;
  if (room > INT_MAX) {
    if (need > INT_MAX)
      base_out_of_memory((size_t)need * size);
    room = INT_MAX;
  }
  if (arena) {
    void *longer = hl_arena_alloc(arena, (size_t)room * size);
    at = n > 0 ? memcpy(longer, at, (size_t)n * size) : longer;
  } else {
    at = owner ? base_realloc_as(owner, at, (size_t)room * size)
               : base_realloc(at, (size_t)room * size);
  }
  *capacity = (int)room;
  return at;
}

int base_vec_put(void *at, int n, size_t size, const void *from, int count) {
  if (count > 0)
    memcpy((char *)at + (size_t)n * size, from, (size_t)count * size);
  return n + count;
}

void base_vec_free(void *at) {
  base_free(at);
}
