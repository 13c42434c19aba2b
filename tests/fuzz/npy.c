// Any bytes as an array file: an error or arrays, and what was read survives writing.

#include "hilo/npy.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Writes arrays and reads them again; only bf16 and f8e5m2 change their type on the way.
static void check_round_trip(HlCx *cx, const HlNpz *first, bool deflated) {
  HlBuf bytes = {0};
  HlNpz again;
  const bool packed =
      hl_npz_pack(cx, first->n, (const char *const *)first->names, first->arrays, deflated, &bytes);
  assert(packed);
  HlSource *source = hl_source_take("again.npz", &bytes, true);
  const bool ok = hl_npz_read(cx, source, &again);
  assert(ok && again.n == first->n);
  for (int k = 0; k < again.n; k++)
    assert(first->arrays[k]->shape->dtype != again.arrays[k]->shape->dtype ||
           hl_literal_equal(first->arrays[k], again.arrays[k]));
  hl_npz_free(&again);
  hl_source_unref(source);
  (void)packed;
  (void)ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlNpz npz;
  hl_cx_limits(cx)->literal_bytes = 1 << 24;
  HlSource *source = hl_source_new("input.npz", data, size, true);
  const bool ok = hl_npz_read(cx, source, &npz);
  assert(ok == (hl_cx_n_errors(cx) == 0));
  if (ok) {
    hl_cx_limits(cx)->literal_bytes = 1 << 26;
    check_round_trip(cx, &npz, size % 2);
  }
  hl_npz_free(&npz);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
