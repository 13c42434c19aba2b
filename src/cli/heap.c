// cli/heap.c: how the program's heap grows.
//
// Buffers and lists double as they grow, so that most of their memory is touched for the first time, page by page: 5,000
// pages to optimise a model of 15,000 instructions, at 2 us each. In huge pages that is nothing. The first megabyte stays as
// it is: a short command needs no more. What is large and goes as a whole (literals) is mapped apart, and given back at once.
// A library cannot know what else is on the heap; the program can.

#include "base/compiler.h"
#include "cli/cli.h"

#if defined(__GLIBC__) && !defined(HL_HAS_ASAN)
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

void cli_prepare_heap(void) {
#if defined(M_TOP_PAD) && defined(MADV_HUGEPAGE)
  enum { MB = 1 << 20, ROOM = 32 * MB, LARGE = 4 * MB };
  const uintptr_t page = 2 * MB, start = (uintptr_t)sbrk(0);
  mallopt(M_TOP_PAD, ROOM);
  mallopt(M_TRIM_THRESHOLD, 2 * ROOM);
  mallopt(M_MMAP_THRESHOLD, LARGE);
  void *volatile first = malloc(LARGE / 2);  // makes the room
  free(first);
  const uintptr_t from = (start + MB + page - 1) & ~(page - 1), end = (uintptr_t)sbrk(0);
  if (from < end)
    madvise((void *)from, end - from, MADV_HUGEPAGE);  // a wish: without it the pages are small
#endif
}
