// Fuzzes the reader of flags: XLA_FLAGS as words and DebugOptions as text; what is printed reads back as the same.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "hilo/flags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("input", data, n, false);
  HlFlags flags = {0}, again = {0};
  HlBuf text = {0}, second = {0}, list = {0};
  hl_buf_puts(&list, "-");  // never a file's name
  hl_buf_add(&list, data, n);
  const bool ok = hl_flags_text(cx, &flags, list.at);
  assert(ok == (hl_cx_n_errors(cx) == 0));
  hl_flags_debug_options_source(cx, &flags, source);
  hl_cx_clear(cx);
  hl_flags_print(&flags, &text);
  HlSource *printed = hl_source_new("printed", text.at ? text.at : "", text.n, false);
  const bool fine = hl_flags_debug_options_source(cx, &again, printed);
  hl_flags_print(&again, &second);
  assert(fine && text.n == second.n);
  (void)ok;
  (void)fine;
  hl_source_unref(printed);
  hl_buf_free(&text);
  hl_buf_free(&second);
  hl_buf_free(&list);
  hl_flags_free(&flags);
  hl_flags_free(&again);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
