// Fuzzes the reader of histories: what was read can be shown step by step, and written again.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "hilo/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("input", data, n, false);
  HlHistory *h = hl_history_read_source(cx, source);
  assert((h == NULL) == (hl_cx_n_errors(cx) > 0));
  HlBuf state = {0}, before = {0}, again = {0};
  for (int k = 0; h && k < hl_history_steps(h) && k < 50; k++) {
    int gone, come;
    state.n = 0;
    hl_history_state(h, k, &state);
    const HlStr old = {before.at ? before.at : "", before.n};
    hl_history_write(&again, hl_history_name(h, k, &gone, &come), old,
                     (HlStr){state.at ? state.at : "", state.n});
    before.n = 0;
    hl_buf_add(&before, state.at, state.n);
  }
  hl_history_free(h);
  hl_buf_free(&state);
  hl_buf_free(&before);
  hl_buf_free(&again);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
