// Fuzzes the reader of overlays: colours of instructions as JSON.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "hilo/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const HlViewMark *marks, int n) {
  for (int k = 0; k < n; k++)
    assert(marks[k].inst && marks[k].kind > HL_MARK_NONE && marks[k].kind < HL_MARK_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("input", data, n, false);
  HlArena *arena = hl_arena_new();
  HlViewMark *before, *after;
  int n_before, n_after;
  const bool ok = hl_view_read_overlay(cx, arena, source, &before, &n_before, &after, &n_after);
  assert(ok == (hl_cx_n_errors(cx) == 0));
  if (ok) {
    check(before, n_before);
    check(after, n_after);
  }
  hl_arena_free(arena);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
