// arena.c: memory that is freed together.
//
// An arena is a stack of chunks. The first chunks are small (4, 16, 64 and 256 KiB), the later ones
// large (2 MiB), each at least as large as the one allocation it was made for: a small module
// costs one page and a large one few calls. Memory past `used` is always zero: fresh chunks come
// from calloc or mmap, and what a release gives back is cleared. One released chunk is kept, so
// that mark and release in a loop do not go to the system each time. Large chunks are mapped in
// huge pages where the system has them: touching fresh memory page by page costs about as much as
// all that is then done with it. A few large chunks of arenas that are gone are kept for the next ones,
// and cleared when they are taken: a virtual machine's first touch of a page can cost thirty times as
// much. So are some of the small ones, which calloc would clear whole, and give back to the system.
// Under the address sanitizer all memory past `used` is poisoned, and nothing is kept.

#include "base/compiler.h"
#include "base/memory.h"
#include "base/number.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__linux__) && !defined(HL_HAS_ASAN)
#include <sys/mman.h>
#endif

#define ALIGN 16
#define FIRST_CHUNK ((size_t)4096)
#define SMALL_CHUNK ((size_t)256 << 10)  // up to which memory comes from the heap
#define LAST_CHUNK ((size_t)2 << 20)     // a huge page

typedef struct Chunk {
  alignas(ALIGN) struct Chunk *below;
  size_t size;  // of the memory that follows
  size_t used;
  size_t mapped;  // bytes mapped for it; 0: from the heap
} Chunk;

struct HlArena {
  Chunk *top;
  Chunk *spare;  // one chunk given back, all zero; or NULL
  size_t next;   // size of the next chunk, header included
  size_t reserved;
};

static char *chunk_memory(Chunk *chunk) {
  return (char *)(chunk + 1);
}

HlArena *hl_arena_new(void) {
  HlArena *arena = base_alloc(sizeof *arena);  // its chunks are as old as this
  arena->next = FIRST_CHUNK;
  return arena;
}

// Cuts a chunk back to its first `used` bytes.
static void cut_chunk(Chunk *chunk, size_t used) {
  char *at = chunk_memory(chunk) + used;
  const size_t size = chunk->used - used;
  if (size == 0)
    return;
  HL_UNPOISON(at, size);
  memset(at, 0, size);
  HL_POISON(at, size);
  chunk->used = used;
}

// --- Chunks of arenas that are gone -----------------------------------------------------------------

static bool put_in(_Atomic(Chunk *) *place, int n, Chunk *chunk) {
  for (int k = 0; k < n; k++) {
    Chunk *none = NULL;
    if (atomic_compare_exchange_strong(&place[k], &none, chunk))
      return true;
  }
  return false;
}

// All zero again.
static Chunk *take_from(_Atomic(Chunk *) *place, int n) {
  for (int k = 0; k < n; k++) {
    Chunk *chunk = atomic_load_explicit(&place[k], memory_order_relaxed)
                       ? atomic_exchange(&place[k], NULL)
                       : NULL;
    if (!chunk)
      continue;
    cut_chunk(chunk, 0);
    return chunk;
  }
  return NULL;
}

#if defined(HL_HAS_ASAN)
enum { SMALL_SIZES = 0, SMALL_KEPT = 1 };
#else
enum { SMALL_SIZES = 3, SMALL_KEPT = 8 };  // 16, 64 and 256 KiB
#endif
static _Atomic(Chunk *) kept_small[SMALL_SIZES + 1][SMALL_KEPT];

// Where chunks of a size from the heap are kept; NULL if they are not.
static _Atomic(Chunk *) *small_of(size_t total) {
  for (int k = 0; k < SMALL_SIZES; k++)
    if (total == FIRST_CHUNK << 2 * (k + 1))
      return kept_small[k];
  return NULL;
}

static Chunk *take_small(const HlArena *arena, size_t total) {
  _Atomic(Chunk *) *place = small_of(total);
  base_look();
  if (!base_may_allocate())
    base_out_of_memory(total);
  Chunk *chunk = place ? take_from(place, SMALL_KEPT) : NULL;
  chunk = chunk ? chunk : calloc(1, total);
  if (!chunk)
    base_out_of_memory(total);
  base_made(arena, chunk, NULL, 0);
  return chunk;
}

static void free_small(Chunk *chunk) {
  _Atomic(Chunk *) *place = small_of(sizeof *chunk + chunk->size);
  base_unmade(chunk);
  if (!place || !put_in(place, SMALL_KEPT, chunk))
    free(chunk);
}

#if defined(MADV_HUGEPAGE)
static void unmap(void *at, int64_t size) {
  munmap(at, (size_t)size);
}

enum { KEPT_SIZES = 2, KEPT = 6 };  // of one and of two huge pages: as many bytes of each
static _Atomic(Chunk *) kept[KEPT_SIZES][KEPT];  // of no arena, as they were left

// Where chunks of a size are kept, n of them: none if they are not.
static _Atomic(Chunk *) *kept_of(size_t size, int *n) {
  const size_t pages = size / LAST_CHUNK;
  *n = pages <= KEPT_SIZES ? KEPT / (int)pages : 0;
  return kept[*n ? pages - 1 : 0];
}

static bool put_kept(Chunk *chunk) {
  int n;
  _Atomic(Chunk *) *of_size = kept_of(chunk->mapped, &n);
  return put_in(of_size, n, chunk);
}

static Chunk *take_kept(size_t size) {
  int n;
  _Atomic(Chunk *) *of_size = kept_of(size, &n);
  return take_from(of_size, n);
}

static Chunk *map_chunk(size_t size) {
  const size_t page = LAST_CHUNK;
  char *at = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return NULL;
  const size_t head = (page - ((uintptr_t)at & (page - 1))) & (page - 1);
  if (head)
    munmap(at, head);
  if (page - head)
    munmap(at + head + size, page - head);
  madvise(at + head, size, MADV_HUGEPAGE);  // a wish: without it the pages are small
  Chunk *chunk = (Chunk *)(void *)(at + head);
  chunk->mapped = size;
  return chunk;
}
#endif

// Zeroed memory of at least *total bytes in huge pages, rounding *total up; NULL if there is none.
static Chunk *map_huge(const HlArena *arena, size_t *total) {
#if defined(MADV_HUGEPAGE)
  if (*total < LAST_CHUNK)
    return NULL;
  if (!base_may_allocate())
    base_out_of_memory(*total);
  const size_t size = (*total + LAST_CHUNK - 1) & ~(LAST_CHUNK - 1);
  Chunk *chunk = take_kept(size);
  chunk = chunk ? chunk : map_chunk(size);
  if (!chunk)
    return NULL;
  *total = size;
  base_made(arena, chunk, unmap, (int64_t)size);
  return chunk;
#else
  return NULL;
#endif
}

static void free_chunk(HlArena *arena, Chunk *chunk) {
  if (!chunk)
    return;
  arena->reserved -= sizeof *chunk + chunk->size;
  HL_UNPOISON(chunk_memory(chunk), chunk->size);
#if defined(MADV_HUGEPAGE)
  if (chunk->mapped) {
    base_unmade(chunk);
    if (!put_kept(chunk))
      unmap(chunk, (int64_t)chunk->mapped);
    return;
  }
#endif
  free_small(chunk);
}

void hl_arena_free(HlArena *arena) {
  if (!arena)
    return;
  while (arena->top) {
    Chunk *chunk = arena->top;
    arena->top = chunk->below;
    free_chunk(arena, chunk);
  }
  free_chunk(arena, arena->spare);
  base_free(arena);
}

void base_arena_give(HlArena *arena, const void *owner) {
  if (base_is_new(owner))
    return;
  for (Chunk *chunk = arena->top; chunk; chunk = chunk->below)
    base_unmade(chunk);
  if (arena->spare)
    base_unmade(arena->spare);
  base_unmade(arena);
}

size_t hl_arena_bytes(const HlArena *arena) {
  return arena->reserved;
}

static Chunk *new_chunk(HlArena *arena, size_t size) {
  Chunk *chunk = arena->spare;
  if (chunk && chunk->size >= size) {
    arena->spare = NULL;
    return chunk;
  }
  size_t total = arena->next;
  if (size > total - sizeof *chunk)
    total = sizeof *chunk + size;
  else if (arena->next < LAST_CHUNK)
    arena->next *= arena->next == SMALL_CHUNK ? 8 : 4;
  chunk = map_huge(arena, &total);
  if (!chunk)
    chunk = take_small(arena, total);
  chunk->size = total - sizeof *chunk;
  arena->reserved += total;
  HL_POISON(chunk_memory(chunk), chunk->size);
  return chunk;
}

// Puts a chunk with room for `size` bytes on top.
static void push_chunk(HlArena *arena, size_t size) {
  Chunk *chunk = new_chunk(arena, size);
  chunk->below = arena->top;
  arena->top = chunk;
}

void *hl_arena_alloc(HlArena *arena, size_t size) {
  if (HL_UNLIKELY(size > PTRDIFF_MAX / 2))
    base_out_of_memory(size);
  const size_t rounded = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (HL_UNLIKELY(!arena->top || rounded > arena->top->size - arena->top->used))
    push_chunk(arena, rounded);
  char *at = chunk_memory(arena->top) + arena->top->used;
  arena->top->used += rounded;
  HL_UNPOISON(at, size);
  return at;
}

HlMark hl_arena_mark(const HlArena *arena) {
  return (HlMark){arena->top, arena->top ? arena->top->used : 0};
}

void hl_arena_release(HlArena *arena, HlMark mark) {
  while (arena->top && arena->top != mark.chunk) {
    Chunk *chunk = arena->top;
    arena->top = chunk->below;
    if (chunk->size > LAST_CHUNK || (arena->spare && arena->spare->size >= chunk->size)) {
      free_chunk(arena, chunk);
      continue;
    }
    free_chunk(arena, arena->spare);
    cut_chunk(chunk, 0);
    arena->spare = chunk;
  }
  if (arena->top)
    cut_chunk(arena->top, mark.used);
}

uint64_t base_arena_hash(const HlArena *arena) {
  uint64_t hash = 0;
#if !defined(HL_HAS_ASAN)
  for (Chunk *chunk = arena->top; chunk; chunk = chunk->below)
    hash = hl_hash_mix(hl_hash_bytes(chunk_memory(chunk), chunk->used, hash), (uintptr_t)chunk);
#endif
  return hash;
}

void *hl_arena_copy(HlArena *arena, const void *from, size_t size) {
  return size ? memcpy(hl_arena_alloc(arena, size), from, size) : NULL;
}

char *hl_arena_strndup(HlArena *arena, const char *text, size_t n) {
  char *copy = hl_arena_alloc(arena, n + 1);
  if (n)
    memcpy(copy, text, n);
  return copy;
}

char *hl_arena_printf(HlArena *arena, const char *format, ...) {
  char small[256];
  va_list args;
  va_start(args, format);
  const int n = base_vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n < 0)
    return hl_arena_strndup(arena, "", 0);
  if ((size_t)n < sizeof small)
    return hl_arena_strndup(arena, small, (size_t)n);
  char *text = hl_arena_alloc(arena, (size_t)n + 1);
  va_start(args, format);
  base_vsnprintf(text, (size_t)n + 1, format, args);
  va_end(args);
  return text;
}
