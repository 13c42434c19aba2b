// memory.c: heap memory whose lack is fatal.
//
// What input asks for is limited where input is read, and goes through base_buf_try_grow; what
// comes here is small, and a program that cannot get it cannot even report that.

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void base_out_of_memory(size_t size) {
  fprintf(stderr, "hilo: out of memory (%zu bytes were asked for)\n", size);
  abort();
}

void *base_alloc(size_t size) {
  void *at = calloc(1, size ? size : 1);
  if (!at)
    base_out_of_memory(size);
  return at;
}

void *base_realloc(void *at, size_t size) {
  void *now = realloc(at, size ? size : 1);
  if (!now)
    base_out_of_memory(size);
  return now;
}

char *base_strdup(const char *text) {
  const size_t size = strlen(text) + 1;
  return memcpy(base_alloc(size), text, size);
}

char *base_vprintf(const char *format, va_list args) {
  HlBuf buf = {0};
  hl_buf_vprintf(&buf, format, args);
  return buf.at;
}
