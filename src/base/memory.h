// base/memory.h: heap memory. All that the library asks of the heap it asks here, so that a try (hl_try, base/try.c)
// knows what to free when memory runs out in the middle of it.
//
// In a try, things are old or new: made before it began, or in it. When it fails, what is new is freed, without
// anyone having to say so, and what is old must be whole. Hence three duties:
//
//   1. Memory that hangs on something that may be old is asked for with `_as`, or by an HlBuf with that owner: it is as
//      old as its owner.
//   2. A counted reference goes by base_note_ref, unless the holder is old.
//   3. What is not heap memory (a file, a lock, another library's object) is held by base_hold from where it is
//      made to where it is let go, if anything in between asks for memory.
//
// Without a try all of this is as free as it looks: a load and a branch.
#ifndef HILO_BASE_MEMORY_H
#define HILO_BASE_MEMORY_H

#include "hilo/base.h"

// Ends the try that is open in this thread; without one, calls the embedder's handler, or says so and aborts.
_Noreturn void base_out_of_memory(size_t size);
// The same where the caller has an error to report, and has done so: returns when no try is open.
void base_end_try(size_t size);

// --- Blocks ---------------------------------------------------------------------------------------

void *base_alloc(size_t size);              // zeroed; never NULL: it ends the try
void *base_realloc(void *at, size_t size);  // never NULL; as old as it was
void *
base_try_alloc(size_t size);  // zeroed; NULL when there is no such memory: the caller reports it
void *base_try_realloc(void *at, size_t size);
void base_free(void *at);  // NULL is fine
char *base_strdup(const char *text);
char *base_strndup(const char *text, size_t n);
char *base_vprintf(const char *format, va_list args);  // a heap string

// Memory that hangs on `owner`, the start of a block itself: is as old as that.
void *base_alloc_as(const void *owner, size_t size);
void *base_realloc_as(const void *owner, void *at, size_t size);
// What is in `block` now hangs on `owner`; the same with a whole arena.
void base_give(void *block, const void *owner);
void base_arena_give(HlArena *arena, const void *owner);
// Like hl_buf_grow, for sizes that input decides: false when there is no such memory.
bool base_buf_try_grow(HlBuf *buf, size_t more);

// A hash of all that is allocated in an arena, and where: what tests of undoing compare. 0 under the address sanitizer.
uint64_t base_arena_hash(const HlArena *arena);
// Memory from elsewhere than the heap: takes part in the counting of allocations that tests do, and is as old as
// its owner. `let_go` NULL: a block of the heap, which free() frees.
typedef void BaseLetGo(void *thing, int64_t n);
bool base_may_allocate(void);  // false: this one is to fail
void base_made(const void *owner, void *thing, BaseLetGo *let_go, int64_t n);
void base_unmade(void *thing);

// --- Looking whether work is still wanted ---------------------------------------------------------------

// Ends the try that is open in this thread if it is cancelled (hl_cx_cancel); nothing without one. Whoever works for
// long looks every millisecond or so, where it might as well ask for memory: it is the same to those around. All that
// asks for memory looks.
void base_look(void);
// Whether that would end it: for those who have to end something else before.
bool base_unwanted(void);
// In a loop of short steps: looks at every 256th.
static inline void base_look_often(uint32_t *step) {
  if ((++*step & 0xff) == 0)
    base_look();
}

// What the machine has, or what this process may use of it (cgroups), in bytes; INT64_MAX: not known.
int64_t base_machine_memory(void);

// --- What is not memory -----------------------------------------------------------------------------

// Has let_go(thing) called when the try fails before base_drop(thing). Nothing without a try.
void base_hold(void *thing, void (*let_go)(void *thing));
void base_drop(void *thing);

// --- Reference counts --------------------------------------------------------------------------------

// Whether this was made in the try that is open; false without one.
bool base_is_new(const void *block);
bool base_in_try(void);
// Notes that references to `counted` were taken (or given back, change < 0) by a frame of the stack or by something
// new, which will not be there to give them back: then give_back(counted, n) does, n < 0: takes. Nothing if
// `counted` is new.
typedef BaseLetGo BaseGiveBack;
void base_note_ref(void *counted, int64_t change, BaseGiveBack *give_back);
// `counted` stays, an old holder has taken a reference; of the references there were before, all of
// frames and new things, there were n. False if it was old already, and nothing changed.
bool base_give_counted(void *counted, int64_t n, BaseGiveBack *give_back);

// Of sources: the newest reference is held by `holder`; and the other way round.
void base_source_give(HlSource *source, const void *holder);
void base_source_unref_by(HlSource *source, const void *holder);

// --- Threads ------------------------------------------------------------------------------------------

// For threads that work for this one: base_try_in runs there as part of its try; false when memory ran out, with what that
// thread held (base_hold) let go. Who started them waits for all of them and then calls base_try_unshare, which ends
// the try as a whole if one of them ran out; between the two it must not ask for memory.
typedef struct BaseTry BaseTry;
BaseTry *base_try_share(void);  // NULL: none is open
void base_try_unshare(BaseTry *try);
bool base_try_in(BaseTry *try, void (*work)(void *user), void *user);

// --- What a context keeps for the end of a try (base/cx.c) ------------------------------------------------

typedef struct BaseCxMark {
  HlMark scratch;
  void **values;  // of what is registered
  uint32_t n_values;
} BaseCxMark;
bool base_cx_mark(HlCx *cx, BaseCxMark *out);  // false: there is no memory even for that
// Why a try ended before its work did.
typedef struct BaseEnd {
  bool cancelled;  // else for want of memory:
  size_t size;     // so much was asked for
} BaseEnd;
void base_cx_back(HlCx *cx, BaseCxMark *mark, BaseEnd end);  // and reports it
bool base_cx_polls(const HlCx *cx);
bool base_cx_poll(HlCx *cx);  // asks whoever wants to be asked; whether the context is cancelled
void base_cx_mark_free(BaseCxMark *mark);

#endif
