// base/map.h: a map from 64-bit keys to 64-bit values, and from a hash to all that has it.
//
// As a map: what is not there reads as 0, and values are not 0, so a place in an array goes in as 1 + it.
//
//   Map seen = {.arena = arena};
//   *map_at(&seen, inst->serial) = 1 + k;
//   if (map_get(&seen, inst->serial)) ...
//
// As a table of things found by what they hold: several values may be added under one key, their hash.
//
//   static Thing *find(const Map *things, const Thing *like) {
//     const uint64_t hash = thing_hash(like);
//     MapWalk walk = map_walk(things, hash);
//     for (Thing *thing; (thing = map_next_ptr(&walk));)
//       if (thing_equal(thing, like))
//         return thing;
//     return NULL;
//   }
//
// A map starts from {0}, on the heap until map_free, or from {.arena = arena}, in that arena. The table is
// open addressing with linear probing, at most half full. There is no walk over all of a map: its order
// is that of hashes, and nothing that we print may depend on that.
#ifndef HILO_BASE_MAP_H
#define HILO_BASE_MAP_H

#include "hilo/base.h"

typedef struct MapSlot {
  uint64_t key;
  uint64_t value;  // 0: free
} MapSlot;

typedef struct Map {
  HlArena *arena;  // NULL: on the heap
  MapSlot *slot;
  uint32_t n;
  uint32_t mask;  // number of slots - 1; 0: none
} Map;

void map_free(Map *map);
void map_room(Map *map, uint32_t more);  // for so many keys beyond those there

uint64_t map_get(const Map *map, uint64_t key);  // 0: not there
// The place of a key's value, made where it was not there: then it is 0 and must be set before the map is
// used again. Good until something is added.
uint64_t *map_at(Map *map, uint64_t key);
void map_add(Map *map, uint64_t key, uint64_t value);  // beside those that the key has

// The values under one key, in the order in which they were added.
typedef struct MapWalk {
  const Map *map;
  uint64_t key;
  uint32_t at;
} MapWalk;
MapWalk map_walk(const Map *map, uint64_t key);
uint64_t map_next(MapWalk *walk);  // 0: no more

// The same with pointers.
static inline uint64_t map_key(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

static inline void *map_get_ptr(const Map *map, const void *key) {
  return (void *)(uintptr_t)map_get(map, map_key(key));
}

static inline void map_put_ptr(Map *map, const void *key, const void *value) {
  *map_at(map, map_key(key)) = map_key(value);
}

static inline void map_add_ptr(Map *map, uint64_t hash, const void *thing) {
  map_add(map, hash, map_key(thing));
}

static inline void *map_next_ptr(MapWalk *walk) {
  return (void *)(uintptr_t)map_next(walk);
}

#endif
