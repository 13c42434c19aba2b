// Compile options: what JAX 0.10 and 0.11 send (tools/make_options.py), and what no client should.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/proto.h"
#include "hilo/text.h"

static const char *const releases[] = {"0.10", "0.11"};

typedef struct Bench {
  HlCx *cx;
  HlArena *arena;
  HlAsked asked;
} Bench;

static int set_up(void **state) {
  Bench *b = calloc(1, sizeof *b);
  b->cx = hl_cx_new();
  b->arena = hl_arena_new();
  *state = b;
  return 0;
}

static int tear_down(void **state) {
  Bench *b = *state;
  hl_arena_free(b->arena);
  hl_cx_free(b->cx);
  free(b);
  return 0;
}

static const HlAsked *read_bytes(Bench *b, const char *bytes, size_t n) {
  const bool ok = hl_proto_read_asked(b->cx, b->arena, (HlStr){bytes, n}, &b->asked);
  assert_int_equal(ok, hl_cx_n_errors(b->cx) == 0);
  return ok ? &b->asked : NULL;
}

static const HlAsked *read_file(Bench *b, const char *name, const char *release) {
  char path[128];
  snprintf(path, sizeof path, "tests/fuzz/seeds/compile_options/%s.%s.pb", name, release);
  HlSource *source = hl_read_file(b->cx, path);
  assert_non_null(source);
  const HlStr bytes = hl_source_bytes(source);
  const HlAsked *asked = read_bytes(b, bytes.at, bytes.n);
  hl_source_unref(source);
  assert_non_null(asked);
  return asked;
}

static void one_device(void **state) {
  for (int k = 0; k < HL_COUNT_OF(releases); k++) {
    const HlAsked *asked = read_file(*state, "one", releases[k]);
    assert_true(asked->replicas == 1 && asked->partitions == 1 && asked->devices[0] == 0);
    assert_true(asked->spmd && asked->shardy && !asked->auto_spmd && !asked->portable);
    assert_false(asked->tupled_arguments || asked->alias_passthrough);
    assert_true(asked->spmd_to_parameters.n == 1 && asked->n_overrides == 0);
    assert_true(asked->process_count == 1 && asked->debug_options.n > 500);
  }
}

static void four_partitions(void **state) {
  static const int64_t devices[] = {3, 0, 2, 1};
  for (int k = 0; k < HL_COUNT_OF(releases); k++) {
    const HlAsked *asked = read_file(*state, "four", releases[k]);
    assert_true(asked->replicas == 1 && asked->partitions == 4);
    assert_memory_equal(asked->devices, devices, sizeof devices);
    assert_true(asked->spmd_to_output.n == 2 && asked->spmd_to_output.at[0] == 1 &&
                asked->spmd_to_output.at[1] == 0);
    assert_true(asked->spmd_to_parameters.n == 3 && asked->spmd_to_parameters.at[2] == 1 &&
                asked->spmd_to_parameters.at[0] == 0);
  }
}

static void replicas(void **state) {
  static const int64_t devices[] = {4, 5, 6, 1, 2, 3};
  for (int k = 0; k < HL_COUNT_OF(releases); k++) {
    const HlAsked *asked = read_file(*state, "replicas", releases[k]);
    assert_true(asked->replicas == 2 && asked->partitions == 3);
    assert_memory_equal(asked->devices, devices, sizeof devices);
    assert_false(asked->spmd || asked->shardy);
  }
}

static const HlOptionOverride *find(const HlAsked *asked, const char *name) {
  for (int k = 0; k < asked->n_overrides; k++)
    if (strcmp(asked->overrides[k].name, name) == 0)
      return &asked->overrides[k];
  return NULL;
}

static void overrides(void **state) {
  for (int k = 0; k < HL_COUNT_OF(releases); k++) {
    const HlAsked *asked = read_file(*state, "overrides", releases[k]);
    assert_int_equal(asked->n_overrides, 4);
    const HlOptionOverride *dump = find(asked, "xla_dump_to"),
                           *fast = find(asked, "xla_cpu_enable_fast_math"),
                           *count = find(asked, "xla_force_host_platform_device_count"),
                           *ratio =
                               find(asked, "xla_gpu_auto_spmd_partitioning_memory_budget_ratio");
    assert_true(dump && dump->kind == HL_OVERRIDE_TEXT && strcmp(dump->text, "somewhere") == 0);
    assert_true(fast && fast->kind == HL_OVERRIDE_BOOL && fast->flag);
    assert_true(count && count->kind == HL_OVERRIDE_INT && count->i == 3);
    assert_true(ratio && ratio->kind == HL_OVERRIDE_FLOAT && ratio->f == 0.5);
  }
}

// Nothing is asked.
static void empty(void **state) {
  const HlAsked *asked = read_bytes(*state, "", 0);
  assert_true(asked && asked->replicas == 0 && asked->partitions == 0 && !asked->devices);
}

// The devices alone also tell how many there are: executable_build_options.device_assignment.
static void devices_tell_the_counts(void **state) {
  const HlAsked *asked =
      read_bytes(*state, "\x1a\x0b\x4a\x09\x08\x01\x10\x01\x1a\x03\x0a\x01\x07", 13);
  assert_true(asked && asked->replicas == 1 && asked->partitions == 1 && asked->devices[0] == 7);
}

static void refuse(Bench *b, const char *bytes, size_t n, HlErrorKind kind, const char *text) {
  assert_null(read_bytes(b, bytes, n));
  assert_null(b->asked.devices);
  assert_int_equal(hl_cx_error_kind(b->cx), kind);
  assert_non_null(strstr(hl_cx_diag(b->cx, 0)->text, text));
  hl_cx_clear(b->cx);
}

static void refusals(void **state) {
  Bench *b = *state;
  refuse(b, "\x1a\x05\x4a\x09\x08\x01\x10", 7, HL_INVALID, "damaged proto");
  refuse(b, "\x1a\x7f\x4a", 3, HL_INVALID, "damaged proto");
  refuse(b, "\x1a\x0d\x20\x02\x4a\x09\x08\x01\x10\x01\x1a\x03\x0a\x01\x07", 15, HL_INVALID,
         "ask for 2 replicas, the device assignment is for 1");
  refuse(b, "\x1a\x06\x4a\x04\x08\x01\x10\x02", 8, HL_INVALID,
         "has 0 lists of devices, expected 2");
  refuse(b, "\x1a\x04\x28\x02\x4a\x00", 6, HL_INVALID, "has 0 lists of devices, expected 2");
  refuse(b, "\x1a\x0a\x4a\x08\x08\x02\x10\x01\x1a\x02\x0a\x00", 12, HL_INVALID,
         "has 0 devices for partition 0, expected 2");
  refuse(b, "\x1a\x04\x20\xff\xff\x7f", 6, HL_LIMIT, "2097151 replicas are asked for");
  refuse(b, "\x1a\x0b\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, HL_INVALID,
         "ask for -1 replicas");
  refuse(b, "\x0a\x00", 2, HL_UNSUPPORTED, "argument layouts");
  refuse(b, "\x1a\x02\x12\x00", 4, HL_UNSUPPORTED, "a result layout");
  refuse(b, "\x3a\x05\x0a\x01x\x12\x00", 7, HL_INVALID, "'x' is overridden by no value");
}

// As XLA serialises it.
static void devices_are_written(void **state) {
  (void)state;
  static const int64_t devices[] = {4, 5, 6, 1, 2, 300};
  static const char bytes[] = "\x08\x02\x10\x03\x1a\x04\x0a\x02\x04\x01\x1a\x04\x0a\x02\x05\x02"
                              "\x1a\x05\x0a\x03\x06\xac\x02";
  HlBuf out = {0};
  hl_proto_write_devices(&out, 2, 3, devices);
  assert_int_equal(out.n, sizeof bytes - 1);
  assert_memory_equal(out.at, bytes, out.n);
  hl_buf_free(&out);
}

// A client of 2024 reads no instruction's id beyond INT_MAX: all computations' are numbered through.
static void a_client_gets_small_ids(void **state) {
  Bench *b = *state;
  static const char text[] =
      "HloModule m\nf {\n  p = f32[] parameter(0)\n  ROOT n = f32[] negate(p)\n}\n"
      "ENTRY e {\n  q = f32[] parameter(0)\n  ROOT c = f32[] call(q), to_apply=f\n}\n";
  HlModule *m = hl_text_parse(b->cx, text);
  assert_non_null(m);
  HlBuf out = {0};
  assert_true(hl_proto_write(b->cx, m, HL_PROTO_WITH_CONFIG, true, NULL, &out));
  hl_buf_putc(&out, '\0');
  int n = 0;
  for (const char *at = out.at; (at = strstr(at, "\n      id: ")); at++, n++)
    assert_in_range(strtoll(at + 11, NULL, 10), 0, INT32_MAX);
  assert_int_equal(n, 3);  // the first is 0, which no proto writes
  hl_buf_free(&out);
  hl_module_free(m);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_device, set_up, tear_down),
      cmocka_unit_test_setup_teardown(four_partitions, set_up, tear_down),
      cmocka_unit_test_setup_teardown(replicas, set_up, tear_down),
      cmocka_unit_test_setup_teardown(overrides, set_up, tear_down),
      cmocka_unit_test_setup_teardown(empty, set_up, tear_down),
      cmocka_unit_test_setup_teardown(devices_tell_the_counts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refusals, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_client_gets_small_ids, set_up, tear_down),
      cmocka_unit_test(devices_are_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
