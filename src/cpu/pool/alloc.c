// cpu/pool/alloc.c: memory for what kernels read and write.
//
// Blocks that were given back are kept in lists by size. Sizes are rounded up to 64 bytes, and to eight steps a doubling, so that
// sizes that differ a little find each other's blocks, at the price of at most an eighth; the step follows from the size, and a block
// needs no head while it is used. While it is kept its own first bytes are the links: of its size's list, the newest first, and
// of the list of all that is kept, by age.

#include "cpu/pool/alloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/memory.h"

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, STEPS = 8, N_SIZES = 64 * STEPS };

static size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) & ~(to - 1);
}

// --- Blocks of the system's ---------------------------------------------------------------------

// Whole pages that begin where a huge one may: more is asked for, and what stands out at both ends goes back.
static void *map_huge(size_t bytes) {
  char *all =
      mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED)
    return NULL;
  char *block = (char *)round_up((uintptr_t)all, HUGE_PAGE);
  const size_t before = (size_t)(block - all), after = HUGE_PAGE - before;
  if (before)
    munmap(all, before);
  if (after)
    munmap(block + bytes, after);
#ifdef MADV_HUGEPAGE
  madvise(block, bytes, MADV_HUGEPAGE);
#endif
  return block;
}

static size_t pages_of(size_t bytes) {
  return round_up(bytes, 1 << 16);  // the largest page of any machine
}

void *cpu_block_new(size_t bytes) {
  if (bytes > SIZE_MAX / 2 || !base_may_allocate())
    return NULL;
  return bytes >= HUGE_PAGE ? map_huge(pages_of(bytes))
                            : aligned_alloc(ALIGN, round_up(bytes ? bytes : 1, ALIGN));
}

void cpu_block_free(void *block, size_t bytes) {
  if (!block)
    return;
  if (bytes >= HUGE_PAGE)
    munmap(block, pages_of(bytes));
  else
    free(block);
}

// --- Sizes --------------------------------------------------------------------------------------

// Where a size lies in the list of sizes, and what it is rounded up to: at least 64.
static int size_of(size_t bytes, size_t *rounded) {
  size_t step = ALIGN;
  int doublings = 0;
  for (; bytes > 2 * STEPS * step; step *= 2)
    doublings++;
  const size_t n = bytes <= step ? 1 : (bytes + step - 1) / step;
  *rounded = n * step;
  return doublings * STEPS + (int)n;
}

// --- What is kept -------------------------------------------------------------------------------

typedef struct Block Block;
struct Block {
  Block *next, *prev;    // of the same size: newer are before
  Block *older, *newer;  // of all
  size_t bytes;          // rounded
  double since;
  int size;
};
static_assert(sizeof(Block) <= ALIGN, "a kept block has room for its links");

struct CpuAlloc {
  pthread_mutex_t lock;
  size_t keep;
  CpuAllocUse use;
  Block *newest, *oldest;
  Block *first[N_SIZES];
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void link_in(CpuAlloc *a, Block *block) {
  Block **first = &a->first[block->size];
  block->next = *first;
  block->older = a->newest;
  if (block->next)
    block->next->prev = block;
  *(a->newest ? &a->newest->newer : &a->oldest) = block;
  *first = a->newest = block;
  a->use.kept += block->bytes;
}

static void link_out(CpuAlloc *a, Block *block) {
  *(block->prev ? &block->prev->next : &a->first[block->size]) = block->next;
  if (block->next)
    block->next->prev = block->prev;
  *(block->older ? &block->older->newer : &a->oldest) = block->newer;
  *(block->newer ? &block->newer->older : &a->newest) = block->older;
  a->use.kept -= block->bytes;
}

// Takes out what has rested since before `time`, and what is more than may be kept: a list by `next`.
static Block *take_old(CpuAlloc *a, double time) {
  Block *old = NULL;
  while (a->oldest && (a->oldest->since <= time || a->use.kept > a->keep)) {
    Block *block = a->oldest;
    link_out(a, block);
    block->next = old;
    old = block;
  }
  return old;
}

static void give_back(Block *old) {
  for (Block *next; old; old = next) {
    next = old->next;
    cpu_block_free(old, old->bytes);
  }
}

// --- Asking and giving back ---------------------------------------------------------------------

static Block *take_kept(CpuAlloc *a, int size) {
  Block *block = a->first[size];
  if (block)
    link_out(a, block);
  return block;
}

static void count_used(CpuAlloc *a, size_t bytes) {
  a->use.used += bytes;
  if (a->use.used > a->use.most_used)
    a->use.most_used = a->use.used;
}

void *cpu_alloc_get(CpuAlloc *a, size_t bytes) {
  if (bytes > SIZE_MAX / 4)
    return NULL;
  size_t rounded;
  const int size = size_of(bytes, &rounded);
  pthread_mutex_lock(&a->lock);
  void *block = take_kept(a, size);
  Block *old = take_old(a, now() - CPU_ALLOC_RESTS);
  pthread_mutex_unlock(&a->lock);
  give_back(old);
  if (!block && !(block = cpu_block_new(rounded))) {
    cpu_alloc_trim(a, 0);  // what is kept may be what is missing
    block = cpu_block_new(rounded);
  }
  pthread_mutex_lock(&a->lock);
  count_used(a, block ? rounded : 0);
  pthread_mutex_unlock(&a->lock);
  return block;
}

void cpu_alloc_put(CpuAlloc *a, void *at, size_t bytes) {
  if (!at)
    return;
  Block *block = at;
  *block = (Block){.since = now()};
  block->size = size_of(bytes, &block->bytes);
  pthread_mutex_lock(&a->lock);
  a->use.used -= block->bytes;
  link_in(a, block);
  Block *old = take_old(a, block->since - CPU_ALLOC_RESTS);
  pthread_mutex_unlock(&a->lock);
  give_back(old);
}

void cpu_alloc_trim(CpuAlloc *a, double seconds) {
  pthread_mutex_lock(&a->lock);
  Block *old = take_old(a, now() - seconds);
  pthread_mutex_unlock(&a->lock);
  give_back(old);
}

CpuAllocUse cpu_alloc_use(CpuAlloc *a) {
  pthread_mutex_lock(&a->lock);
  const CpuAllocUse use = a->use;
  pthread_mutex_unlock(&a->lock);
  return use;
}

CpuAlloc *cpu_alloc_new(size_t keep) {
  CpuAlloc *a = cpu_block_new(sizeof *a);
  if (!a)
    return NULL;
  *a = (CpuAlloc){.keep = keep};
  pthread_mutex_init(&a->lock, NULL);
  return a;
}

void cpu_alloc_free(CpuAlloc *a) {
  if (!a)
    return;
  cpu_alloc_trim(a, 0);
  pthread_mutex_destroy(&a->lock);
  cpu_block_free(a, sizeof *a);
}
