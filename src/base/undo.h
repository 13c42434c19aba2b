// base/undo.h: a log of what memory held before it was written, so that writes can be taken back exactly.
//
// Who is about to write a place notes it first; going back puts the old bytes there, the newest note first. Memory that
// is given up in the meantime stays where it is until nobody can go back to it any more.
#ifndef HILO_BASE_UNDO_H
#define HILO_BASE_UNDO_H

#include "base/compiler.h"
#include "hilo/base.h"

typedef struct BaseUndo {
  HlBuf notes;
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

// Writes a place so that it can be taken back; `undo` may be NULL: it need not.
#define BASE_SET(undo, place, value)                    \
  do {                                                  \
    BaseUndo *undo_ = (undo);                           \
    if (HL_UNLIKELY(undo_))                             \
      base_undo_bytes(undo_, &(place), sizeof(place));  \
    (place) = (value);                                  \
  } while (0)

// Room for `more` bytes beyond the buffer's n, as hl_buf_grow; `undo` may be NULL.
void base_undo_room(BaseUndo *undo, HlBuf *buf, size_t more);

// --- Symbols ------------------------------------------------------------------------------------

// From now on what is interned can be taken back to where it is now; NULL: no more.
void base_syms_watch(HlSyms *syms, BaseUndo *undo);
// The same symbols, with the same indices, in another arena.
HlSyms *base_syms_copy(HlArena *arena, const HlSyms *from);

#endif
