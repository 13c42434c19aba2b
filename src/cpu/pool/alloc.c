// cpu/pool/alloc.c: memory for what kernels read and write.

#include "cpu/pool/alloc.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/memory.h"

enum { ALIGN = 64, HUGE_PAGE = 2 << 20 };

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
