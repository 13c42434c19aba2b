// base/heap.h: priority queues: a list (base/vec.h) kept as a binary heap, its first entry on top.
//
//   typedef struct Ready { int64_t cost; HlInst *inst; } Ready;
//   typedef VEC(Ready) Queue;
//   static bool goes_first(const Ready *a, const Ready *b) { return a->cost < b->cost; }
//   HEAP(queue, Ready, Queue, goes_first)      // queue_push(arena, &queue, entry), queue_pop(&queue)
//
// The arena is as for vec_push_in; NULL: on the heap. Of entries none of which goes first, which one is on top
// depends on the order of pushes alone, so results are the same everywhere; where that order is not wanted, the
// comparison must tell them apart.
#ifndef HILO_BASE_HEAP_H
#define HILO_BASE_HEAP_H

#include "base/vec.h"

#define HEAP(name, T, List, goes_first)                                              \
  static inline void name##_push(HlArena *arena, List *heap, T entry) {              \
    vec_push_in(arena, heap, entry);                                                 \
    int at = heap->n - 1;                                                            \
    for (; at > 0 && goes_first(&entry, &heap->at[(at - 1) / 2]); at = (at - 1) / 2) \
      heap->at[at] = heap->at[(at - 1) / 2];                                         \
    heap->at[at] = entry;                                                            \
  }                                                                                  \
  static inline T name##_pop(List *heap) {                                           \
    const T top = heap->at[0], last = vec_pop(heap);                                 \
    int at = 0;                                                                      \
    for (int child = 1; child < heap->n; at = child, child = 2 * at + 1) {           \
      if (child + 1 < heap->n && goes_first(&heap->at[child + 1], &heap->at[child])) \
        child++;                                                                     \
      if (!goes_first(&heap->at[child], &last))                                      \
        break;                                                                       \
      heap->at[at] = heap->at[child];                                                \
    }                                                                                \
    heap->at[at] = last;                                                             \
    return top;                                                                      \
  }

#endif
