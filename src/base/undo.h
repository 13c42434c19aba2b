// base/undo.h: a log of what memory held before it was written, so that writes can be taken back exactly.
//
// Who is about to write a place notes it first; going back puts the old bytes there, the newest note first. Memory that
// is given up in the meantime stays where it is until nobody can go back to it any more.
#ifndef HILO_BASE_UNDO_H
#define HILO_BASE_UNDO_H

#include "base/compiler.h"
#include "hilo/base.h"

enum { BASE_UNDO_SEEN = 1024 };
typedef struct BaseUndo {
  HlBuf notes;
  // What is written again and again is noted once in an era, which is the time that the newest mark is the newest; 0: no eras.
  uint32_t era;
  struct {
    const void *at;
    uint32_t n, era;
  } seen[BASE_UNDO_SEEN];
} BaseUndo;

// The n bytes at `at` are about to be written.
void base_undo_bytes(BaseUndo *undo, const void *at, size_t n);
// Gives the buffer no block; its old one stays. Going back frees the block that it has then.
void base_undo_block(BaseUndo *undo, HlBuf *buf);
// Makes the pointer NULL; the object, which `free` frees, stays. Going back frees what it points to then.
void base_undo_object(BaseUndo *undo, void **at, void (*free)(void *));
// Takes back all notes but the oldest `n` (as base_undo_n counts them).
void base_undo_back(BaseUndo *undo, size_t n);
// Nobody goes back any more: frees what was kept for that.
void base_undo_forget(BaseUndo *undo);

static inline size_t base_undo_n(const BaseUndo *undo) {
  return undo->notes.n;
}

// The place is about to be written; `undo` may be NULL: it need not be noted.
#define BASE_NOTE(undo, place)                         \
  do {                                                 \
    BaseUndo *undo_ = (undo);                          \
    if (HL_UNLIKELY(undo_))                            \
      base_undo_bytes(undo_, &(place), sizeof(place)); \
  } while (0)

// Writes a place so that it can be taken back; the same.
#define BASE_SET(undo, place, value) \
  do {                               \
    BASE_NOTE(undo, place);          \
    (place) = (value);               \
  } while (0)

// Room for `more` bytes beyond the buffer's n, as hl_buf_grow; `undo` may be NULL.
void base_undo_grow(BaseUndo *undo, HlBuf *buf, size_t more);  // where there is none
static inline void base_undo_room(BaseUndo *undo, HlBuf *buf, size_t more) {
  if (HL_UNLIKELY(buf->capacity - buf->n <= more))
    base_undo_grow(undo, buf, more);
}
// The place of `size` bytes more at the end of a buffer, for the caller to write; no NUL comes after them.
static inline void *base_undo_push(BaseUndo *undo, HlBuf *buf, size_t size) {
  base_undo_room(undo, buf, size);
  char *at = buf->at + buf->n;
  buf->n += size;
  return at;
}

// --- Symbols ------------------------------------------------------------------------------------

// From now on what is interned can be taken back to where it is now; NULL: no more.
void base_syms_watch(HlSyms *syms, BaseUndo *undo);
// The same symbols, with the same indices, in another arena.
HlSyms *base_syms_copy(HlArena *arena, const HlSyms *from);

#endif
