// Fuzzes the readers of what clients of PJRT ask of a compilation and of the flags in it; the devices that are read are
// written again as the same.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hilo/flags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void write_devices(HlCx *cx, HlArena *arena, const HlAsked *asked) {
  HlBuf devices = {0}, options = {0};
  hl_proto_write_devices(&devices, asked->replicas, asked->partitions, asked->devices);
  assert(devices.n < 1 << 14);
  // The message within executable_build_options within the options, with lengths of two bytes.
  const size_t inner = devices.n + 3;
  const unsigned char head[] = {
      0x1a, (unsigned char)(inner | 128),     (unsigned char)(inner >> 7),
      0x4a, (unsigned char)(devices.n | 128), (unsigned char)(devices.n >> 7)};
  hl_buf_add(&options, head, sizeof head);
  hl_buf_add(&options, devices.at ? devices.at : "", devices.n);
  HlAsked again;
  const bool ok = hl_proto_read_asked(cx, arena, (HlStr){options.at, options.n}, &again);
  assert(ok && again.replicas == asked->replicas && again.partitions == asked->partitions);
  const size_t bytes = (size_t)(asked->replicas * asked->partitions) * sizeof(int64_t);
  assert(memcmp(again.devices, asked->devices, bytes) == 0);
  (void)ok;
  (void)bytes;
  hl_buf_free(&devices);
  hl_buf_free(&options);
}

// What is printed of them reads back as the same.
static void read_flags(HlCx *cx, const HlAsked *asked) {
  HlFlags flags = {0}, again = {0};
  HlBuf text = {0}, second = {0};
  hl_cx_clear(cx);
  bool ok = hl_flags_debug_options_binary(cx, &flags, asked->debug_options);
  for (int k = 0; ok && k < asked->n_overrides; k++)
    ok = hl_flags_override(cx, &flags, &asked->overrides[k]);
  assert(ok == (hl_cx_n_errors(cx) == 0));
  hl_flags_print(&flags, &text);
  HlSource *source = hl_source_new("printed", text.at ? text.at : "", text.n, false);
  const bool fine = hl_flags_debug_options_source(cx, &again, source);
  hl_flags_print(&again, &second);
  assert(fine && text.n == second.n);
  (void)fine;
  hl_source_unref(source);
  hl_buf_free(&text);
  hl_buf_free(&second);
  hl_flags_free(&flags);
  hl_flags_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlAsked asked;
  const bool ok = hl_proto_read_asked(cx, arena, (HlStr){(const char *)data, n}, &asked);
  assert(ok == (hl_cx_n_errors(cx) == 0));
  if (ok && asked.devices && asked.replicas * asked.partitions < 512)
    write_devices(cx, arena, &asked);
  if (ok)
    read_flags(cx, &asked);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}
