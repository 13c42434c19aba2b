// exported.c: no bytes harm the reader of jax.export's files, nor what prints what they say.

#include <stdint.h>
#include <stdlib.h>

#include "hilo/exported.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("fuzz", data, size, true);
  HlBuf text = {0};
  hl_exported_sniff(hl_source_bytes(source));
  HlExported *exported = hl_exported_read(cx, source);
  if (!exported == (hl_cx_n_errors(cx) == 0))
    abort();
  for (const HlExported *each = exported; each; each = each->vjp)
    hl_exported_print(each, "  ", &text);
  hl_exported_free(exported);
  hl_buf_free(&text);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
