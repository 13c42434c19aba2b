// try.c: work that may run out of memory, or not be wanted any more.
//
// Memory is asked for everywhere, mostly from arenas, and almost nowhere could the one who asks do anything sensible
// without it. So it is the one error that does not travel by return values: whoever cannot get memory calls
// base_out_of_memory, which undoes what the try has done and jumps (longjmp) to where it began. This is the only
// place of the library that jumps, and the frames between are left without another word. What makes that safe is
// that the try knows all that must be undone, in one table:
//
//   blocks       every piece of memory that is new: freed (those of the heap, nearly all, in a table of addresses alone)
//   references   of what is old, counted by those who will not be there to give them back: given back
//   held         what is not memory (base_hold): let go, first of all, as it may lie in the frames that are left
//
// Work that is cancelled ends in the same way, wherever it looks (base_look): what is safe for the one is for the other.
//
// The tables are hashed by address. They cost a few nanoseconds a block (arenas ask for few), and nothing
// outside of a try. When the work ends well they are dropped: all that is new is simply there.
//
// The try of a thread hangs on the thread (`frame`), because an arena or a buffer that lacks memory knows of no context:
// the one variable of ours that is no table of constants, but for the embedder's handler.

#include "base/compiler.h"
#include "base/memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Entry {
  void *at;  // NULL: free
  enum { BLOCK, REFERENCE, HELD } kind;
  union {
    BaseLetGo *let_go;
    void (*drop)(void *thing);  // of what is held
  };
  union {
    int64_t n;
    const void *frame;  // of what is held: whose it is
  };
} Entry;

struct BaseTry {
  HlCx *cx;
  bool polls;    // someone wants to be asked whether it goes on
  void **block;  // of the heap; NULL: free
  size_t n_blocks, block_mask;
  Entry *entry;    // all else
  size_t n, mask;  // mask: number of places - 1; 0: none
  bool shared;     // several threads work in it
  bool ended;      // one of them has left it, and why
  BaseEnd end;
  pthread_mutex_t lock;
};

typedef struct Frame {
  jmp_buf start;
  BaseTry *try;
  BaseEnd end;
} Frame;

static _Thread_local Frame *frame HL_TLS_DIRECT;
static HlOutOfMemory *_Atomic handler;

void hl_set_out_of_memory(HlOutOfMemory *now) {
  handler = now;
}

// --- The tables -------------------------------------------------------------------------------------

// Counts down to the allocation that a test wants to fail (HlLimits); from -n on, all fail.
static bool is_to_fail(const BaseTry *t) {
  int64_t *left = &hl_cx_limits(t->cx)->fail_allocation;
  if (*left == -1)
    return true;
  if (*left < 0)
    ++*left;
  return *left > 0 && --*left == 0;
}

static void lock(BaseTry *t) {
  if (t->shared)
    pthread_mutex_lock(&t->lock);
}

static void unlock(BaseTry *t) {
  if (t->shared)
    pthread_mutex_unlock(&t->lock);
}

static size_t start_of(const void *at, size_t mask) {
  return (size_t)((uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15 >> 32) & mask;
}

static bool allocate(BaseTry *t, size_t n, size_t size, void *out) {
  void *at = is_to_fail(t) ? NULL : calloc(n, size);
  if (at)
    memcpy(out, &at, sizeof at);
  return at != NULL;
}

// The place of a block of the heap, or the free one where it belongs.
static void **find_block(const BaseTry *t, const void *at) {
  size_t k = start_of(at, t->block_mask);
  while (t->block[k] && t->block[k] != at)
    k = (k + 1) & t->block_mask;
  return &t->block[k];
}

static void **block_there(const BaseTry *t, const void *at) {
  void **block = t->block ? find_block(t, at) : NULL;
  return block && *block ? block : NULL;
}

static bool add_block(BaseTry *t, void *at) {
  if (!t->block || 2 * (t->n_blocks + 1) > t->block_mask) {
    void **old = t->block;
    const size_t old_size = old ? t->block_mask + 1 : 0, size = old ? 2 * old_size : 256;
    if (!allocate(t, size, sizeof *old, &t->block))
      return false;
    t->block_mask = size - 1;
    for (size_t k = 0; k < old_size; k++)
      if (old[k])
        *find_block(t, old[k]) = old[k];
    free(old);
  }
  void **block = find_block(t, at);
  t->n_blocks += !*block;
  *block = at;
  return true;
}

// Takes a block out; those after it that are not where they would rather be move up.
static void take_out_block(BaseTry *t, void **block) {
  size_t hole = (size_t)(block - t->block);
  for (size_t k = (hole + 1) & t->block_mask; t->block[k]; k = (k + 1) & t->block_mask) {
    const size_t wants = start_of(t->block[k], t->block_mask);
    if (((k - wants) & t->block_mask) >= ((k - hole) & t->block_mask)) {
      t->block[hole] = t->block[k];
      hole = k;
    }
  }
  t->block[hole] = NULL;
  t->n_blocks--;
}

// The entry of an address, or the free one where it belongs.
static Entry *find(const BaseTry *t, const void *at) {
  size_t k = start_of(at, t->mask);
  while (t->entry[k].at && t->entry[k].at != at)
    k = (k + 1) & t->mask;
  return &t->entry[k];
}

static Entry *find_there(const BaseTry *t, const void *at) {
  Entry *entry = t->entry ? find(t, at) : NULL;
  return entry && entry->at ? entry : NULL;
}

static bool make_room(BaseTry *t) {
  if (t->entry && 2 * (t->n + 1) <= t->mask)
    return true;
  const Entry *old = t->entry;
  const size_t old_size = old ? t->mask + 1 : 0, size = old ? 2 * old_size : 256;
  if (!allocate(t, size, sizeof *old, &t->entry))
    return false;
  t->mask = size - 1;
  for (size_t k = 0; k < old_size; k++)
    if (old[k].at)
      *find(t, old[k].at) = old[k];
  free((Entry *)(uintptr_t)old);
  return true;
}

static bool add(BaseTry *t, Entry new) {
  if (!make_room(t))
    return false;
  Entry *entry = find(t, new.at);
  t->n += !entry->at;
  *entry = new;
  return true;
}

// The same with an entry.
static void take_out(BaseTry *t, Entry *entry) {
  size_t hole = (size_t)(entry - t->entry);
  for (size_t k = (hole + 1) & t->mask; t->entry[k].at; k = (k + 1) & t->mask) {
    const size_t wants = start_of(t->entry[k].at, t->mask);
    if (((k - wants) & t->mask) >= ((k - hole) & t->mask)) {
      t->entry[hole] = t->entry[k];
      hole = k;
    }
  }
  t->entry[hole].at = NULL;
  t->n--;
}

// --- What the rest of the library tells -----------------------------------------------------------------

bool base_may_allocate(void) {
  if (HL_LIKELY(!frame))
    return true;
  BaseTry *t = frame->try;
  lock(t);
  const bool fails = is_to_fail(t);
  unlock(t);
  return !fails;
}

static _Noreturn void end_without_room(const BaseTry *t) {
  base_out_of_memory(2 * (sizeof(Entry) * (t->mask + 1) + sizeof(void *) * (t->block_mask + 1)));
}

void base_made(const void *owner, void *thing, BaseLetGo *let_go, int64_t n) {
  if (HL_LIKELY(!frame) || (owner && !base_is_new(owner)))
    return;
  BaseTry *t = frame->try;
  lock(t);
  const bool ok = let_go ? add(t, (Entry){.at = thing, .let_go = let_go, .n = n, .kind = BLOCK})
                         : add_block(t, thing);
  unlock(t);
  if (ok)
    return;
  if (let_go)
    let_go(thing, n);
  else
    free(thing);
  end_without_room(t);
}

void base_unmade(void *thing) {
  if (HL_LIKELY(!frame))
    return;
  BaseTry *t = frame->try;
  lock(t);
  void **block = block_there(t, thing);
  Entry *entry = block ? NULL : find_there(t, thing);
  if (block)
    take_out_block(t, block);
  else if (entry)
    take_out(t, entry);
  unlock(t);
}

static bool is_block(const BaseTry *t, const void *at) {
  if (block_there(t, at))
    return true;
  const Entry *entry = find_there(t, at);
  return entry && entry->kind == BLOCK;
}

bool base_is_new(const void *block) {
  if (HL_LIKELY(!frame))
    return false;
  lock(frame->try);
  const bool is_new = is_block(frame->try, block);
  unlock(frame->try);
  return is_new;
}

bool base_in_try(void) {
  return frame != NULL;
}

void base_hold(void *thing, void (*let_go)(void *thing)) {
  if (!frame)
    return;
  BaseTry *t = frame->try;
  lock(t);
  const bool ok = add(t, (Entry){.at = thing, .drop = let_go, .frame = frame, .kind = HELD});
  unlock(t);
  if (ok)
    return;
  Frame *mine = frame;
  frame = NULL;  // as at the end of a try
  let_go(thing);
  frame = mine;
  end_without_room(t);
}

void base_drop(void *thing) {
  base_unmade(thing);
}

void base_note_ref(void *counted, int64_t change, BaseGiveBack *give_back) {
  if (HL_LIKELY(!frame))
    return;
  BaseTry *t = frame->try;
  lock(t);
  Entry *entry = find_there(t, counted);
  bool ok = true;
  if (!entry && !block_there(t, counted))
    ok = add(t, (Entry){.at = counted, .let_go = give_back, .n = change, .kind = REFERENCE});
  else if (entry && entry->kind == REFERENCE)
    entry->n += change;
  unlock(t);
  if (ok)
    return;
  give_back(counted, change);
  end_without_room(t);
}

bool base_give_counted(void *counted, int64_t n, BaseGiveBack *give_back) {
  if (HL_LIKELY(!frame))
    return false;
  BaseTry *t = frame->try;
  lock(t);
  const bool is_new = is_block(t, counted);
  const bool ok =
      !is_new || add(t, (Entry){.at = counted, .let_go = give_back, .n = n, .kind = REFERENCE});
  void **block = ok ? block_there(t, counted) : NULL;
  if (block)
    take_out_block(t, block);
  unlock(t);
  if (!ok)
    end_without_room(t);
  return is_new;
}

// --- The end ----------------------------------------------------------------------------------------

// Lets go of what the frames that are left hold.
static void let_go_of_held(BaseTry *t, const Frame *mine) {
  for (size_t k = 0; t->entry && k <= t->mask; k++) {
    const Entry entry = t->entry[k];
    if (!entry.at || entry.kind != HELD || entry.frame != mine)
      continue;
    take_out(t, &t->entry[k--]);  // another may have moved here
    entry.drop(entry.at);
  }
}

// References first: to give one back may free something old, and what that refers to.
static void undo(BaseTry *t) {
  for (int kind = REFERENCE; kind >= BLOCK; kind--)
    for (size_t k = 0; t->entry && k <= t->mask; k++) {
      const Entry *entry = &t->entry[k];
      if (entry->at && (int)entry->kind == kind)
        entry->let_go(entry->at, entry->n);
    }
  for (size_t k = 0; t->block && k <= t->block_mask; k++)
    free(t->block[k]);
}

static _Noreturn void leave(Frame *mine, BaseEnd end) {
  mine->end = end;
  frame = NULL;
  lock(mine->try);
  let_go_of_held(mine->try, mine);
  unlock(mine->try);
  longjmp(mine->start, 1);
}

void base_out_of_memory(size_t size) {
  if (frame)
    leave(frame, (BaseEnd){.size = size});
  HlOutOfMemory *const now = handler;
  if (now)
    now(size);
  fprintf(stderr,
          "hilo: out of memory: the system gave no %zu bytes more (ulimit -v may allow more)\n",
          size);
  abort();
}

void base_end_try(size_t size) {
  if (frame)
    base_out_of_memory(size);
}

static bool poll(BaseTry *t) {
  lock(t);
  Frame *mine = frame;
  frame = NULL;  // who is asked is not part of the try
  const bool is = base_cx_poll(t->cx);
  frame = mine;
  unlock(t);
  return is;
}

static HL_RARE bool is_unwanted(void) {
  return frame->try->polls ? poll(frame->try) : hl_cx_is_cancelled(frame->try->cx);
}

bool base_unwanted(void) {
  return frame && HL_UNLIKELY(frame->try->polls || hl_cx_is_cancelled(frame->try->cx)) &&
         is_unwanted();
}

static HL_RARE void look_closer(void) {
  if (is_unwanted())
    leave(frame, (BaseEnd){.cancelled = true});
}

void base_look(void) {
  if (frame && HL_UNLIKELY(frame->try->polls || hl_cx_is_cancelled(frame->try->cx)))
    look_closer();
}

typedef enum Outcome { NO, YES, LEFT } Outcome;

static Outcome run(Frame *mine, HlWork *work, HlCx *cx, void *user) {
  if (setjmp(mine->start) != 0)
    return LEFT;
  frame = mine;
  const bool ok = work(cx, user);
  frame = NULL;
  return ok ? YES : NO;
}

bool hl_try(HlCx *cx, HlWork *work, void *user) {
  if (frame)
    return work(cx, user);
  BaseCxMark mark;
  if (!base_cx_mark(cx, &mark))
    return false;
  BaseTry t = {.cx = cx, .polls = base_cx_polls(cx)};
  Frame mine = {.try = &t};
  const Outcome outcome = run(&mine, work, cx, user);
  if (outcome == LEFT) {
    undo(&t);
    base_cx_back(cx, &mark, mine.end);
  }
  free(t.block);
  free(t.entry);
  base_cx_mark_free(&mark);
  return outcome == YES;
}

// --- Threads ----------------------------------------------------------------------------------------

BaseTry *base_try_share(void) {
  BaseTry *t = frame ? frame->try : NULL
    ;
  if (t) {
    pthread_mutex_init(&t->lock, NULL);
    t->shared = true;
  }
  return t;
}

void base_try_unshare(BaseTry *t) {
  if (!t)
    return;
  t->shared = false;
  pthread_mutex_destroy(&t->lock);
  if (t->ended)
    leave(frame, t->end);
}

bool base_try_in(BaseTry *t, void (*work)(void *user), void *user) {
  if (!t) {
    work(user);
    return true;
  }
  Frame mine = {.try = t};
  if (setjmp(mine.start) != 0) {
    lock(t);
    t->ended = true;
    t->end = mine.end;
    unlock(t);
    return false;
  }
  frame = &mine;
  work(user);
  frame = NULL;
  return true;
}
