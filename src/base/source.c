// source.c: the bytes of an input, shared and reference-counted, and lines within them.

#include "base/memory.h"

#include <assert.h>
#include <stdatomic.h>
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

static void let_go(HlSource *source) {
  if (atomic_fetch_sub_explicit(&source->refs, 1, memory_order_acq_rel) > 1)
    return;
  base_free(source->name);
  base_free(source->bytes);
  base_free(atomic_load(&source->lines));
  base_free(source);
}

static void give_back(void *source, int64_t n) {
  if (n < 0)
    atomic_fetch_add(&((HlSource *)source)->refs, (int)-n);
  for (; n > 0; n--)
    let_go(source);
}

HlSource *hl_source_ref(HlSource *source) {
  if (!source)
    return NULL;
  atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed);
  base_note_ref(source, 1, give_back);
  return source;
}

void hl_source_unref(HlSource *source) {
  if (!source)
    return;
  base_note_ref(source, -1, give_back);
  let_go(source);
}

void base_source_give(HlSource *source, const void *holder) {
  if (!source || !base_in_try() || base_is_new(holder))
    return;
  if (!base_give_counted(source, atomic_load(&source->refs) - 1, give_back)) {
    base_note_ref(source, -1, give_back);
    return;
  }
  base_unmade(source->name);
  base_unmade(source->bytes);
  base_unmade(atomic_load(&source->lines));
}

void base_source_unref_by(HlSource *source, const void *holder) {
  if (source && base_in_try() && !base_is_new(holder))
    let_go(source);
  else
    hl_source_unref(source);
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
  Lines *lines = base_alloc_as(source, sizeof *lines + n * sizeof lines->start[0]);
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
  base_free(mine);
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
