// base/undo.c: old bytes, noted before they are written.
//
// A note is what is kept, in words, and after it what it is about: notes are read from the end.

#include "base/undo.h"

#include <string.h>

typedef enum Kind {
  BYTES,   // the old bytes
  BLOCK,   // the old HlBuf
  OBJECT,  // an Object
} Kind;

typedef struct Note {
  void *at;
  uint32_t kind;
  uint32_t n;  // bytes kept
} Note;

typedef struct Object {
  void *old;
  void (*free)(void *);
} Object;

static size_t in_words(size_t n) {
  return (n + 7) & ~(size_t)7;
}

static void add_note(BaseUndo *undo, Kind kind, void *at, const void *kept, size_t n) {
  HlBuf *notes = &undo->notes;
  const size_t words = in_words(n);
  const Note note = {at, (uint32_t)kind, (uint32_t)n};
  if (notes->capacity - notes->n <= words + sizeof note)
    hl_buf_grow(notes, words + sizeof note);
  memcpy(notes->at + notes->n, kept, n);
  memcpy(notes->at + notes->n + words, &note, sizeof note);
  notes->n += words + sizeof note;
}

// Whether these bytes have been noted in this era: the older note is the one that counts.
static bool is_noted(BaseUndo *undo, const void *at, size_t n) {
  const size_t place = ((uintptr_t)at >> 2 ^ (uintptr_t)at >> 12) % BASE_UNDO_SEEN;
  if (undo->era == 0 || n > UINT32_MAX)
    return false;
  if (undo->seen[place].at == at && undo->seen[place].n >= n && undo->seen[place].era == undo->era)
    return true;
  undo->seen[place].at = at;
  undo->seen[place].n = (uint32_t)n;
  undo->seen[place].era = undo->era;
  return false;
}

void base_undo_bytes(BaseUndo *undo, const void *at, size_t n) {
  enum { MOST = 1 << 30 };  // of one note
  if (is_noted(undo, at, n))
    return;
  for (; n > MOST; at = (const char *)at + MOST, n -= MOST)
    add_note(undo, BYTES, (void *)at, at, MOST);
  if (n > 0)
    add_note(undo, BYTES, (void *)at, at, n);
}

void base_undo_block(BaseUndo *undo, HlBuf *buf) {
  add_note(undo, BLOCK, buf, buf, sizeof *buf);
  *buf = (HlBuf){.owner = buf->owner};
}

void base_undo_object(BaseUndo *undo, void **at, void (*free)(void *)) {
  const Object object = {*at, free};
  add_note(undo, OBJECT, at, &object, sizeof object);
  *at = NULL;
}

void base_undo_grow(BaseUndo *undo, HlBuf *buf, size_t more) {
  if (!undo) {
    hl_buf_grow(buf, more);
    return;
  }
  const HlBuf old = *buf;
  base_undo_block(undo, buf);
  hl_buf_grow(buf, old.n + old.n / 2 + more);
  if (old.n > 0)
    memcpy(buf->at, old.at, old.n);
  buf->n = old.n;
}

// --- Back, and no way back ------------------------------------------------------------------------

// Takes the newest note off; `kept` is good until the next one is added.
static Note take_note(BaseUndo *undo, const char **kept) {
  Note note;
  undo->notes.n -= sizeof note;
  memcpy(&note, undo->notes.at + undo->notes.n, sizeof note);
  undo->notes.n -= in_words(note.n);
  *kept = undo->notes.at + undo->notes.n;
  return note;
}

void base_undo_back(BaseUndo *undo, size_t n) {
  while (undo->notes.n > n) {
    const char *kept;
    const Note note = take_note(undo, &kept);
    if (note.kind == BLOCK)
      hl_buf_free(note.at);
    if (note.kind != OBJECT) {
      memcpy(note.at, kept, note.n);
      continue;
    }
    Object object;
    memcpy(&object, kept, sizeof object);
    void **at = note.at;
    if (*at)
      object.free(*at);
    *at = object.old;
  }
}

void base_undo_forget(BaseUndo *undo) {
  while (undo->notes.n > 0) {
    const char *kept;
    const Note note = take_note(undo, &kept);
    if (note.kind == BLOCK) {
      HlBuf old;
      memcpy(&old, kept, sizeof old);
      hl_buf_free(&old);
    } else if (note.kind == OBJECT) {
      Object object;
      memcpy(&object, kept, sizeof object);
      if (object.old)
        object.free(object.old);
    }
  }
}
