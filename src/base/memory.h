// base/memory.h: heap memory inside the base layer, where failing is fatal and where it is not.
#ifndef HILO_BASE_MEMORY_H
#define HILO_BASE_MEMORY_H

#include "hilo/base.h"

// Says that memory ran out, and aborts.
_Noreturn void base_out_of_memory(size_t size);
void *base_alloc(size_t size);              // zeroed; never NULL
void *base_realloc(void *at, size_t size);  // never NULL
char *base_strdup(const char *text);
char *base_vprintf(const char *format, va_list args);  // a heap string

// Like hl_buf_grow, for sizes that input decides: false when there is no such memory.
bool base_buf_try_grow(HlBuf *buf, size_t more);

// A hash of all that is allocated in an arena, and where: what tests of undoing compare. 0 under the address sanitizer.
uint64_t base_arena_hash(const HlArena *arena);

#endif
