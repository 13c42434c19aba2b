// Fuzzes the reader of lists of decisions.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "hilo/decisions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("input", data, n, false);
  HlArena *arena = hl_arena_new();
  HlDecision *list;
  int count;
  const bool ok = hl_decisions_read(cx, source, arena, &list, &count);
  assert(ok == (hl_cx_n_errors(cx) == 0));
  for (int k = 0; ok && k < count; k++)
    assert(list[k].pass && list[k].rule && list[k].comp && list[k].inst && list[k].with);
  hl_arena_free(arena);
  (void)ok;
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
