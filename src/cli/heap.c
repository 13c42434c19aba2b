// cli/heap.c: how the program's heap grows.
//
// Buffers and lists double as they grow, so that most of their memory is touched for the first time, page by page: 5,000
// pages to optimise a model of 15,000 instructions, at 2 us each. In huge pages that is nothing. The first megabyte stays as
// it is: a short command needs no more. Whoever's memory is limited gets no room ahead. What is large and goes as a whole
// (literals) is mapped apart, and given back at once. A library cannot know what else is on the heap; the program can.

#include "base/compiler.h"
#include "cli/cli.h"

#if defined(__GLIBC__) && !defined(HL_HAS_ASAN)
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

#if defined(M_TOP_PAD) && defined(MADV_HUGEPAGE)
static bool is_limited(int resource) {
  struct rlimit limit;
  return getrlimit(resource, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}
#endif

void cli_prepare_heap(void) {
#if defined(M_TOP_PAD) && defined(MADV_HUGEPAGE)
  enum { MB = 1 << 20, ROOM = 32 * MB, LARGE = 4 * MB, STEP = MB / 8 };
  if (is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA))
    return;
  const uintptr_t page = 2 * MB, start = (uintptr_t)sbrk(0);
  mallopt(M_TRIM_THRESHOLD, 2 * ROOM);
  mallopt(M_MMAP_THRESHOLD, LARGE);
  mallopt(M_TOP_PAD, ROOM);
  void *volatile first = malloc(LARGE / 2);  // makes the room
  free(first);
  mallopt(M_TOP_PAD, STEP);
  const uintptr_t from = (start + MB + page - 1) & ~(page - 1), end = (uintptr_t)sbrk(0);
  if (from < end)
    madvise((void *)from, end - from, MADV_HUGEPAGE);  // a wish: without it the pages are small
#endif
}
