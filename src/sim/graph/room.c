// sim/graph/room.c: memory that graph after graph of a thread lies in.
//
// The graphs of many processors are made one after another, each of tens of megabytes: memory that the system clears anew for each
// of them would cost a third of the time. Blocks are kept, and cleared a little ahead of what is taken of them.

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/graph/graph.h"

enum { BLOCK = 1 << 20, ALIGN = 16, AHEAD = 1 << 14 };

static void *from_room(SimRoom *room, size_t size) {
  const size_t rounded = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (room->used + rounded > BLOCK) {
    room->at++;
    room->used = room->cleared = 0;
  }
  if (room->at >= room->block.n)
    vec_push(&room->block, base_alloc(BLOCK));
  char *block = room->block.at[room->at], *at = block + room->used;
  room->used += rounded;
  if (room->used > room->cleared) {
    size_t until = room->used + AHEAD;
    until = until < BLOCK ? until : BLOCK;
    memset(block + room->cleared, 0, until - room->cleared);
    room->cleared = until;
  }
  return at;
}

// What would leave most of a block unused lies in the arena.
void *sim_alloc(HlSimGraph *graph, size_t size) {
  return graph->room && size <= BLOCK / 16 ? from_room(graph->room, size)
                                           : hl_arena_alloc(graph->arena, size);
}

HlStr sim_copy_text(HlSimGraph *graph, HlStr text) {
  char *at = sim_alloc(graph, text.n + 1);
  if (text.n > 0)
    memcpy(at, text.at, text.n);
  return (HlStr){at, text.n};
}

void sim_room_empty(SimRoom *room) {
  room->at = 0;
  room->used = room->cleared = 0;
}

void sim_room_free(SimRoom *room) {
  for (int k = 0; k < room->block.n; k++)
    base_free(room->block.at[k]);
  vec_free(&room->block);
}
