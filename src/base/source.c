// source.c: the bytes of an input, shared and reference-counted, and lines within them.

#include "base/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// Where each line begins; made when first asked for, as most inputs are never asked.
typedef struct Lines {
  size_t n;
  uint32_t start[];
} Lines;

struct HlSource {
  atomic_int refs;
  bool is_binary;
  char *name;
  char *bytes;  // followed by a NUL
  size_t n;
  _Atomic(Lines *) lines;  // NULL until asked for; a const source may be asked by several threads
};

HlSource *hl_source_new(const char *name, const void *bytes, size_t n, bool is_binary) {
  HlBuf buf = {0};
  hl_buf_add(&buf, bytes, n);
  return hl_source_take(name, &buf, is_binary);
}

HlSource *hl_source_take(const char *name, HlBuf *buf, bool is_binary) {
  HlSource *source = base_alloc(sizeof *source);
  hl_buf_grow(buf, 0);
  buf->at[buf->n] = 0;
  atomic_init(&source->refs, 1);
  atomic_init(&source->lines, NULL);
  source->name = base_strdup(name ? name : "");
  source->bytes = buf->at;
  source->n = buf->n;
  source->is_binary = is_binary;
  *buf = (HlBuf){0};
  return source;
}

HlSource *hl_source_ref(HlSource *source) {
  if (source)
    atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed);
  return source;
}

void hl_source_unref(HlSource *source) {
  if (!source || atomic_fetch_sub_explicit(&source->refs, 1, memory_order_acq_rel) > 1)
    return;
  free(source->name);
  free(source->bytes);
  free(atomic_load(&source->lines));
  free(source);
}

const char *hl_source_name(const HlSource *source) {
  return source->name;
}

HlStr hl_source_bytes(const HlSource *source) {
  return (HlStr){source->bytes, source->n};
}

bool hl_source_is_binary(const HlSource *source) {
  return source->is_binary;
}

// Bytes that a location can name.
static size_t located_bytes(const HlSource *source) {
  return source->n < UINT32_MAX - 1 ? source->n : UINT32_MAX - 1;
}

static Lines *find_lines(const HlSource *source) {
  const char *end = source->bytes + located_bytes(source);
  size_t n = 1;
  for (const char *at = source->bytes; (at = memchr(at, '\n', (size_t)(end - at))); at++)
    n++;
  Lines *lines = base_alloc(sizeof *lines + n * sizeof lines->start[0]);
  for (const char *at = source->bytes; (at = memchr(at, '\n', (size_t)(end - at))); at++)
    lines->start[++lines->n] = (uint32_t)(at + 1 - source->bytes);
  lines->n++;
  assert(lines->n == n);
  return lines;
}

// The table of lines; whichever thread is first keeps its own.
static const Lines *source_lines(const HlSource *source) {
  _Atomic(Lines *) *place = &((HlSource *)source)->lines;
  Lines *lines = atomic_load_explicit(place, memory_order_acquire);
  if (lines)
    return lines;
  Lines *mine = find_lines(source);
  if (atomic_compare_exchange_strong(place, &lines, mine))
    return mine;
  free(mine);
  return lines;
}

HlLineCol hl_source_line_col(const HlSource *source, HlLoc loc) {
  if (!source || loc == 0)
    return (HlLineCol){0};
  if (source->is_binary)
    return (HlLineCol){0, (int64_t)loc - 1};
  const size_t n = located_bytes(source);
  const uint32_t offset = loc - 1 <= n ? loc - 1 : (uint32_t)n;
  const Lines *lines = source_lines(source);
  size_t low = 0, high = lines->n;  // the line starts in [low, high)
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (lines->start[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  return (HlLineCol){(int64_t)low + 1, (int64_t)(offset - lines->start[low]) + 1};
}
