// Chakra's traces: ASTRA-sim's example byte by byte, there and back, damage, speed.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/chakra.h"
#include "support/folder.h"

static HlCx *cx;
static HlArena *arena;

static int set_up(void **state) {
  (void)state;
  cx = hl_cx_new();
  arena = hl_arena_new();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}

static int in_groups(HlProgramBuilder *b, int64_t devices, int64_t n) {
  int64_t *member = HL_ARRAY(arena, int64_t, devices);
  for (int64_t k = 0; k < devices; k++)
    member[k] = k;
  return hl_program_groups(b, (HlDeviceGroups){devices / n, n, member});
}

// The all-reduce of a MiB that comes with ASTRA-sim (its example for eight devices).
static void test_golden(void **state) {
  (void)state;
  static const unsigned char golden[] = {
      0x07, 0x0a, 0x05, '0',  '.',  '0',  '.',  '4',  0x48, 0x12, 0x14, 'a',  'l', 'l',
      '_',  'r',  'e',  'd',  'u',  'c',  'e',  '_',  '8',  'n',  'p',  'u',  's', '_',
      '1',  'M',  'B',  0x18, 0x07, 0x52, 0x0e, 0x0a, 0x09, 'i',  's',  '_',  'c', 'p',
      'u',  '_',  'o',  'p',  0xd8, 0x01, 0x00, 0x52, 0x0d, 0x0a, 0x09, 'c',  'o', 'm',
      'm',  '_',  't',  'y',  'p',  'e',  0x48, 0x00, 0x52, 0x0f, 0x0a, 0x09, 'c', 'o',
      'm',  'm',  '_',  's',  'i',  'z',  'e',  0x48, 0x80, 0x80, 0x40};
  HlProgramBuilder *b = hl_program_begin(arena, "golden", 8);
  const int all = in_groups(b, 8, 8);
  hl_program_exchange(b, hl_str("all_reduce_8npus_1MB"),
                      (HlProgramExchange){HL_ALL_REDUCE, 1 << 20, all, NULL}, 0);
  HlBuf out = {0};
  assert_true(hl_chakra_write(cx, hl_program_end(b), 3, NULL, &out));
  assert_int_equal(sizeof golden, 81);
  assert_int_equal(out.n, 81);
  assert_memory_equal(out.at, golden, 81);
  hl_buf_free(&out);
}

static HlClusterProgram *made_up(int64_t devices, int layers) {
  HlProgramBuilder *b = hl_program_begin(arena, "made-up", devices);
  const int all = in_groups(b, devices, devices), pairs = in_groups(b, devices, 2);
  for (int k = 0; k < layers; k++) {
    const int step = hl_program_compute(b, hl_str("dot"), "dot", 1e-3 + 1e-6 * k);
    (void)step;
    hl_program_exchange(b, hl_str("gather"),
                        (HlProgramExchange){HL_ALL_GATHER, 1e5 + 8 * k, pairs, NULL}, 0);
    const int beside = hl_program_exchange(b, hl_str("reduce"),
                                           (HlProgramExchange){HL_ALL_REDUCE, 1e6, all, NULL}, 1);
    hl_program_compute(b, hl_str("add"), "add", 2e-4);
    hl_program_wait(b, hl_str("done"), beside);
  }
  return hl_program_end(b);
}

static void test_round_trip(void **state) {
  (void)state;
  char folder[FOLDER_ROOM];
  assert_true(folder_make(folder, "chakra"));
  const HlClusterProgram *p = made_up(8, 5);
  const char *prefix = hl_arena_printf(arena, "%s/step", folder);
  assert_true(hl_chakra_write_all(cx, p, prefix, NULL));
  const HlSystem *s = hl_system_find(cx, arena, "h100");
  const HlClusterProgram *again = hl_chakra_read(cx, arena, prefix, NULL, s->device);
  if (!again)
    fail_msg("%s", hl_cx_diag(cx, 0)->text);
  assert_int_equal(again->devices, 8);
  assert_int_equal(again->n_exchanges, p->n_exchanges);
  HlClusterRun a, b;
  assert_true(hl_cluster_run(cx, arena, p, s, &(HlClusterOptions){0}, &a));
  assert_true(hl_cluster_run(cx, arena, again, s, &(HlClusterOptions){0}, &b));
  assert_true(fabs(a.seconds - b.seconds) <= 1e-12 * a.seconds);
  for (int k = 0; k < p->n_groups; k++)
    assert_true(p->groups[k].n == again->groups[k].n || p->n_groups > 1);
  assert_true(folder_remove(folder));
}

// Messages between ranks come back as permutations, each in its place.
static void test_messages(void **state) {
  (void)state;
  enum { N = 6 };
  static const int64_t along[N] = {1, 2, 3, 4, 5, -1}, some[N] = {3, -1, -1, 0, 5, 4};
  char folder[FOLDER_ROOM];
  assert_true(folder_make(folder, "chakra"));
  const char *prefix = hl_arena_printf(arena, "%s/step", folder);
  HlProgramBuilder *b = hl_program_begin(arena, "messages", N);
  const int all = in_groups(b, N, N);
  hl_program_compute(b, hl_str("a"), "dot", 1e-4);
  const int beside =
      hl_program_exchange(b, hl_str("along"), (HlProgramExchange){HL_PERMUTE, 1e7, all, along}, 2);
  hl_program_compute(b, hl_str("b"), "dot", 2e-5);
  hl_program_wait(b, hl_str("done"), beside);
  hl_program_compute(b, hl_str("c"), "add", 1e-5);
  hl_program_exchange(b, hl_str("some"), (HlProgramExchange){HL_PERMUTE, 3e6, all, some}, 0);
  hl_program_exchange(b, hl_str("sum"), (HlProgramExchange){HL_ALL_REDUCE, 1e6, all, NULL}, 0);
  const HlClusterProgram *p = hl_program_end(b);
  assert_true(hl_chakra_write_all(cx, p, prefix, NULL));
  const HlSystem *s = hl_system_find(cx, arena, "tpu-v5e-pod");
  const HlClusterProgram *again = hl_chakra_read(cx, arena, prefix, NULL, s->device);
  if (!again)
    fail_msg("%s", hl_cx_diag(cx, 0)->text);
  assert_int_equal(again->n_exchanges, 3);
  for (int device = 0; device < N; device++) {
    HlClusterRun before, after;
    const HlClusterOptions options = {.each = true, .device = device};
    assert_true(hl_cluster_run(cx, arena, p, s, &options, &before));
    assert_true(hl_cluster_run(cx, arena, again, s, &options, &after));
    assert_true(fabs(before.seconds - after.seconds) <= 1e-9 * before.seconds);
    assert_true(fabs(before.compute - after.compute) <= 1e-9 * before.compute);
  }
  // A rank whose receive is missing.
  HlBuf alone = {0};
  const HlClusterProgram *other = made_up(N, 1);
  assert_true(hl_chakra_write(cx, other, 1, NULL, &alone));
  assert_true(hl_write_file(cx, hl_arena_printf(arena, "%s.1.et", prefix), alone.at, alone.n));
  hl_buf_free(&alone);
  assert_null(hl_chakra_read(cx, arena, prefix, NULL, s->device));
  hl_cx_clear(cx);
  assert_true(folder_remove(folder));
}

// Whatever is cut off or changed in a file is refused or read, never worse.
static void test_damage(void **state) {
  (void)state;
  char folder[FOLDER_ROOM];
  assert_true(folder_make(folder, "chakra"));
  const char *prefix = hl_arena_printf(arena, "%s/bad", folder),
             *path = hl_arena_printf(arena, "%s/bad.0.et", folder);
  HlBuf out = {0};
  assert_true(hl_chakra_write(cx, made_up(2, 2), 0, NULL, &out));
  HlRng rng = {5};
  int refused = 0;
  for (int trial = 0; trial < 600; trial++) {
    char *copy = malloc(out.n);
    memcpy(copy, out.at, out.n);
    size_t n = out.n;
    if (trial % 3 == 0)
      n = (size_t)hl_rng_below(&rng, (int64_t)n);
    else
      for (int k = 0; k <= trial % 3; k++)
        copy[hl_rng_below(&rng, (int64_t)n)] = (char)hl_rng_u64(&rng);
    assert_true(hl_write_file(cx, path, copy, n));
    free(copy);
    hl_cx_clear(cx);
    const HlClusterProgram *p = hl_chakra_read(cx, arena, prefix, NULL, hl_target_find("h100"));
    assert_true((p == NULL) == (hl_cx_n_errors(cx) > 0));
    refused += p == NULL;
  }
  assert_true(refused > 200);
  hl_cx_clear(cx);
  hl_buf_free(&out);
  assert_true(folder_remove(folder));
}

// Times and counts beyond what a trace's integers hold: the largest that they do; exactly only in Hilo's own attribute.
static void test_huge(void **state) {
  (void)state;
  char folder[FOLDER_ROOM];
  assert_true(folder_make(folder, "chakra"));
  const HlSystem *s = hl_system_find(cx, arena, "h100");
  HlProgramBuilder *b = hl_program_begin(arena, "huge", 8);
  const int all = in_groups(b, 8, 8);
  hl_program_compute(b, hl_str("long"), "dot", 1e300);
  for (int k = 0; k < 3; k++)
    hl_program_exchange(b, hl_str("often"), (HlProgramExchange){HL_ALL_REDUCE, 1 << 20, all, NULL}, 0);
  HlClusterProgram *p = hl_program_end(b);
  p->step[0].flops = p->step[0].bytes = 1e200;
  for (int k = 1; k < p->n_steps; k++)
    p->step[k].times = k == 1 ? 7 : 1e300;
  HlClusterRun run;
  HlExposed *row;
  HlBuf out = {0};
  assert_true(hl_cluster_run(cx, arena, p, s, &(HlClusterOptions){0}, &run));
  assert_int_equal(hl_exposed_by_kind(arena, p, &run, &row), 1);
  assert_true(row->count == INT64_MAX);
  hl_cluster_perfetto(p, &run, &out);
  assert_true(out.n > 100);
  out.n = 0;
  for (int k = 1; k < p->n_steps; k++)
    p->step[k].times = 1;
  for (int rank = 0; rank < 8; rank++) {
    out.n = 0;
    assert_true(hl_chakra_write(cx, p, rank, NULL, &out));
    assert_true(hl_write_file(cx, hl_arena_printf(arena, "%s/huge.%d.et", folder, rank), out.at, out.n));
  }
  const HlClusterProgram *again =
      hl_chakra_read(cx, arena, hl_arena_printf(arena, "%s/huge", folder), NULL, s->device);
  assert_non_null(again);
  assert_true(again->step[0].seconds == 1e300);
  // A rank and a tag that are no integers, or none that there can be.
  static const double wrong[] = {1e30, -1e30, 0.5, HUGE_VAL, NAN};
  static const char *const names[] = {"comm_dst", "comm_tag", "comm_type"};
  for (int k = 0; k < 15; k++) {
    const char *name = names[k % 3];
    const char length = (char)strlen(name);
    out.n = 0;
    hl_buf_putc(&out, 0);
    hl_buf_putc(&out, (char)(4 + 2 + length + 9));
    hl_buf_add(&out, "\x18\x05\x52", 3);
    hl_buf_putc(&out, (char)(2 + length + 9));
    hl_buf_putc(&out, 0x0a);
    hl_buf_putc(&out, length);
    hl_buf_puts(&out, name);
    hl_buf_putc(&out, 0x19);
    hl_buf_add(&out, &wrong[k / 3], 8);
    assert_true(hl_write_file(cx, hl_arena_printf(arena, "%s/bad.0.et", folder), out.at, out.n));
    assert_null(hl_chakra_read(cx, arena, hl_arena_printf(arena, "%s/bad", folder), NULL, s->device));
    assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "a number beyond its range"));
    hl_cx_clear(cx);
  }
  hl_buf_free(&out);
  assert_true(folder_remove(folder));
}

static void test_many(void **state) {
  (void)state;
  const HlClusterProgram *p = made_up(1024, 2500);  // 10,000 nodes
  HlBuf out = {0};
  const double begin = hl_now();
  size_t bytes = 0;
  for (int rank = 0; rank < 64; rank++) {
    out.n = 0;
    assert_true(hl_chakra_write(cx, p, rank, NULL, &out));
    bytes += out.n;
  }
  const double took = hl_now() - begin;
  print_message("64 ranks of 10,000 nodes, %.0f MB: %.2f s; 1,024 of them %.1f s\n",
                1e-6 * (double)bytes, took, 16 * took);
  hl_buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                     cmocka_unit_test(test_round_trip), cmocka_unit_test(test_messages),
                                     cmocka_unit_test(test_damage), cmocka_unit_test(test_huge),
                                     cmocka_unit_test(test_many)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
