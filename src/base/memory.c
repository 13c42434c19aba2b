// memory.c: heap memory: asked of the system, and told to the try that is open (base/try.c).

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void *base_try_alloc(size_t size) {
  void *at = base_may_allocate() ? calloc(1, size ? size : 1) : NULL;
  if (at)
    base_made(NULL, at, NULL, 0);
  return at;
}

void *base_alloc(size_t size) {
  base_look();
  void *at = base_try_alloc(size);
  if (!at)
    base_out_of_memory(size);
  return at;
}

void *base_alloc_as(const void *owner, size_t size) {
  base_look();
  void *at = base_may_allocate() ? calloc(1, size ? size : 1) : NULL;
  if (!at)
    base_out_of_memory(size);
  base_made(owner, at, NULL, 0);
  return at;
}

void *base_try_realloc(void *at, size_t size) {
  if (!base_may_allocate())
    return NULL;
  const bool moves = !at || base_is_new(at);
  if (at && moves)
    base_unmade(at);
  void *now = realloc(at, size ? size : 1);
  if (moves && (now || at))
    base_made(NULL, now ? now : at, NULL, 0);
  return now;
}

void *base_realloc(void *at, size_t size) {
  base_look();
  void *now = base_try_realloc(at, size);
  if (!now)
    base_out_of_memory(size);
  return now;
}

void *base_realloc_as(const void *owner, void *at, size_t size) {
  return at ? base_realloc(at, size) : base_alloc_as(owner, size);
}

void base_give(void *block, const void *owner) {
  if (block && !base_is_new(owner))
    base_unmade(block);
}

void base_free(void *at) {
  if (at)
    base_unmade(at);
  free(at);
}

void hl_free(void *at) {
  base_free(at);
}

char *base_strndup(const char *text, size_t n) {
  char *copy = base_alloc(n + 1);
  if (n)
    memcpy(copy, text, n);
  return copy;
}

char *base_strdup(const char *text) {
  return base_strndup(text, strlen(text));
}

char *base_vprintf(const char *format, va_list args) {
  HlBuf buf = {0};
  hl_buf_vprintf(&buf, format, args);
  return buf.at;
}
