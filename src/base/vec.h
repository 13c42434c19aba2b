// base/vec.h: lists that grow, of any type.
//
//   typedef VEC(HlInst *) Insts;
//
//   Insts todo = {0};
//   vec_push(&todo, root);
//   while (todo.n > 0)
//     visit(&todo, vec_pop(&todo));
//   vec_free(&todo);
//
// A list starts from {0} and is on the heap; whoever has it frees it. One that is only ever grown by
// the forms with `_in` lies in that arena, goes with it and is not freed. One on the heap that is part of
// something that may outlive a try is grown by the forms with `_as` (base/memory.h says when). `v` is
// evaluated several times, an entry once. Growing moves the entries. The macros take any struct that has
// these three fields, say one that has its arena beside them.
#ifndef HILO_BASE_VEC_H
#define HILO_BASE_VEC_H

#include "hilo/base.h"

#define VEC(T)    \
  struct {        \
    T *at;        \
    int n;        \
    int capacity; \
  }

// Room for `more` entries beyond n.
#define vec_room(v, more) VEC_ROOM(NULL, NULL, v, more)
#define vec_room_in(arena, v, more) VEC_ROOM(arena, NULL, v, more)
#define vec_room_as(owner, v, more) VEC_ROOM(NULL, owner, v, more)
#define VEC_ROOM(arena, owner, v, more)                                                  \
  ((more) <= (v)->capacity - (v)->n                                                      \
       ? (void)0                                                                         \
       : (void)((v)->at = base_vec_grow((arena), (owner), (v)->at, (v)->n, (more),       \
                                        &(v)->capacity, sizeof *(v)->at)))

#define vec_push(v, entry) VEC_PUSH(vec_room(v, 1), v, entry)
#define vec_push_in(arena, v, entry) VEC_PUSH(vec_room_in(arena, v, 1), v, entry)
#define vec_push_as(owner, v, entry) VEC_PUSH(vec_room_as(owner, v, 1), v, entry)
#define VEC_PUSH(room, v, entry) (room, (void)((v)->at[(v)->n++] = (entry)))

// Appends `count` entries of the same type (which the condition below is there to check).
#define vec_append(v, from, count) vec_append_in(NULL, v, from, count)
#define vec_append_in(arena, v, from, count) \
  (vec_room_in(arena, v, count),             \
   (void)((v)->n = base_vec_put((v)->at, (v)->n, sizeof *(v)->at, 1 ? (from) : (v)->at, (count))))

#define vec_pop(v) ((v)->at[--(v)->n])     // of a list that has one
#define vec_last(v) ((v)->at[(v)->n - 1])  // the same, as a place
#define vec_free(v) (base_vec_free((v)->at), (v)->at = NULL, (v)->n = (v)->capacity = 0)

// What the macros call. Entries of `size` bytes, n of them, with room for `more`: in the arena, or where that is
// NULL on the heap, as old as the owner if there is one. Memory that cannot be had is fatal (base/memory.h), so is
// room for more than INT_MAX entries.
void *base_vec_grow(HlArena *arena, const void *owner, void *at, int n, int64_t more,
                    int *capacity, size_t size);
int base_vec_put(void *at, int n, size_t size, const void *from, int count);  // the new n
void base_vec_free(void *at);

#endif
