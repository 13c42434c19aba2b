// Fuzzes the reader of systems, Hilo's and ASTRA-sim's: what is printed reads back as the same, and exchanges on what is taken have times,
// by formula and message by message the same.
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hilo/network.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const HlSystem *read_bytes(HlCx *cx, HlArena *arena, const void *at, size_t n) {
  HlSource *source = hl_source_new("input.system", at, n, false);
  const HlSystem *s = hl_system_read(cx, arena, source);
  hl_source_unref(source);
  return s;
}

static void check_printed(HlCx *cx, HlArena *arena, const HlSystem *s) {
  HlBuf first = {0}, second = {0};
  hl_system_print(s, &first);
  const HlSystem *again = read_bytes(cx, arena, first.at, first.n);
  assert(again);
  hl_system_print(again, &second);
  assert(first.n == second.n && memcmp(first.at, second.at, first.n) == 0);
  hl_buf_free(&first);
  hl_buf_free(&second);
}

static void check_exchange(HlCx *cx, const HlSystem *s, HlExchangeKind kind, HlExchangeHow how) {
  const HlExchange what = {.kind = kind, .how = how, .bytes = 1e6, .n = hl_system_devices(s)};
  HlExchangeTime time, followed;
  if (kind == HL_PERMUTE || !hl_how_does(how, kind) || !hl_exchange_time(cx, s, &what, &time)) {
    hl_cx_clear(cx);
    return;
  }
  assert(isfinite(time.seconds) && time.seconds >= 0);
  if (time.rounds * what.n < 500 && hl_exchange_messages(cx, s, &what, &followed))
    assert(fabs(time.seconds - followed.seconds) <= 0.01 * followed.seconds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  const HlSystem *s = read_bytes(cx, arena, data, n);
  assert((s == NULL) == (hl_cx_n_errors(cx) > 0));
  if (s) {
    // A link that is a billion times slower than the next leaves a difference of roundings alone.
    bool alike = true;
    for (int k = 0; k < s->n_levels; k++)
      alike = alike && s->level[k].bandwidth > 1e6 && s->level[k].far_bandwidth > 1e6 &&
              s->level[k].latency < 1 && s->level[k].far_latency < 1;
    check_printed(cx, arena, s);
    for (int kind = 0; alike && kind < HL_EXCHANGE_KINDS && hl_system_devices(s) <= 24; kind++)
      for (int how = HL_HOW_RING; how < HL_HOWS; how++)
        check_exchange(cx, s, (HlExchangeKind)kind, (HlExchangeHow)how);
    if (hl_system_resize(cx, arena, s, 8))
      assert(hl_system_devices(hl_system_resize(cx, arena, s, 8)) == 8);
    hl_system_what_if(cx, arena, s, "bandwidth=2x");
  }
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}
