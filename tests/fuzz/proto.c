// Fuzzes the proto reader, binary and text: whatever is read can be written and read again, and is
// the same graph then.
#include <assert.h>
#include <stddef.h>

#include "hilo/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void tighten(HlCx *cx) {
  hl_cx_limits(cx)->literal_bytes = 16 << 20;
  hl_cx_limits(cx)->instructions = 100000;
}

static HlModule *read(HlCx *cx, const void *bytes, size_t n) {
  HlRecorded recorded;
  HlSource *source = hl_source_new("input", bytes, n, true);
  HlModule *m = hl_proto_read(cx, source, &recorded);
  hl_source_unref(source);
  assert((m == NULL) == (hl_cx_n_errors(cx) > 0));
  hl_recorded_free(&recorded);
  return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  tighten(cx);
  HlModule *m = read(cx, data, n);
  if (m) {
    HlBuf out = {0};
    assert(hl_proto_write(cx, m, HL_PROTO_WITH_CONFIG, false, NULL, &out));
    HlModule *again = read(cx, out.at, out.n);
    assert(again && hl_graph_hash(again) == hl_graph_hash(m));
    hl_module_free(again);
    hl_buf_free(&out);
  }
  hl_module_free(m);
  hl_cx_free(cx);
  return 0;
}
