// map.c: the maps of base/map.h.

#include "base/map.h"

#include <assert.h>

#include "base/memory.h"

static uint32_t start_of(const Map *map, uint64_t key) {
  return (uint32_t)hl_hash_mix(key, 0) & map->mask;
}

// The slot of a key, or the free one where it belongs.
static MapSlot *find_slot(const Map *map, uint64_t key) {
  uint32_t at = start_of(map, key);
  while (map->slot[at].value && map->slot[at].key != key)
    at = (at + 1) & map->mask;
  return &map->slot[at];
}

static MapSlot *free_slot(const Map *map, uint64_t key) {
  uint32_t at = start_of(map, key);
  while (map->slot[at].value)
    at = (at + 1) & map->mask;
  return &map->slot[at];
}

// Values of one key stay in order: the old table is walked from a free slot on, so along its probes.
static void resize(Map *map, uint32_t size) {
  MapSlot *slot =
      map->arena ? HL_ARRAY(map->arena, MapSlot, size) : base_alloc(sizeof *slot * (size_t)size);
  const MapSlot *old = map->slot;
  const uint32_t old_mask = map->mask;
  map->slot = slot;
  map->mask = size - 1;
  if (!old)
    return;
  uint32_t first = 0;
  while (old[first].value)
    first++;
  for (uint32_t k = 1; k <= old_mask; k++) {
    const MapSlot *from = &old[(first + k) & old_mask];
    if (from->value)
      *free_slot(map, from->key) = *from;
  }
  if (!map->arena)
    base_free((MapSlot *)(uintptr_t)old);
}

void map_room(Map *map, uint32_t more) {
  const uint64_t need = 2 * ((uint64_t)map->n + more);
  uint64_t size = map->slot ? (uint64_t)map->mask + 1 : 16;
  while (size < need)
    size *= 2;
  if (size > UINT32_MAX)
    base_out_of_memory(size * sizeof(MapSlot));
  if (!map->slot || size > (uint64_t)map->mask + 1)
    resize(map, (uint32_t)size);
}

void map_free(Map *map) {
  if (!map->arena)
    base_free(map->slot);
  *map = (Map){.arena = map->arena};
}

uint64_t map_get(const Map *map, uint64_t key) {
  return map->slot ? find_slot(map, key)->value : 0;
}

uint64_t *map_at(Map *map, uint64_t key) {
  map_room(map, 1);
  MapSlot *slot = find_slot(map, key);
  if (!slot->value) {
    slot->key = key;
    map->n++;
  }
  return &slot->value;
}

void map_add(Map *map, uint64_t key, uint64_t value) {
  assert(value != 0);
  map_room(map, 1);
  *free_slot(map, key) = (MapSlot){key, value};
  map->n++;
}

MapWalk map_walk(const Map *map, uint64_t key) {
  return (MapWalk){map, key, map->slot ? start_of(map, key) : 0};
}

uint64_t map_next(MapWalk *walk) {
  const Map *map = walk->map;
  while (map->slot && map->slot[walk->at].value) {
    const MapSlot *slot = &map->slot[walk->at];
    walk->at = (walk->at + 1) & map->mask;
    if (slot->key == walk->key)
      return slot->value;
  }
  return 0;
}
