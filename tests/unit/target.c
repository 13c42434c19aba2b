// Targets: the table, and GPUs as XLA describes them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/proto.h"
#include "hilo/target.h"
#include "hilo/tool.h"

static void test_table(void **state) {
  (void)state;
  const HlTarget *t;
  for (int k = 0; (t = hl_target_at(k)); k++) {
    assert_ptr_equal(hl_target_find(t->name), t);
    assert_non_null(t->device);
    assert_non_null(t->platform);
    assert_non_null(t->architecture);
    if (t->kind == HL_TARGET_NONE)
      continue;
    assert_true(t->cores > 0 && t->clock > 0 && t->memory_bandwidth > 0 &&
                t->vector.of[HL_F32] > 0);
    // Lanes, cores and clock say the same as the sheets' rate, where both are known.
    double peak = 2 * (double)t->cores * (double)t->lanes * t->clock;
    if (t->kind == HL_TARGET_GPU)
      assert_true(t->vector.of[HL_F32] > 0.95 * peak && t->vector.of[HL_F32] < 1.05 * peak);
    assert_true(hl_target_has_blocks(t) == (t->kind == HL_TARGET_GPU));
  }
  assert_null(hl_target_find("h1000"));
  assert_ptr_equal(hl_target_find("gpu"), hl_target_find("h100"));
  assert_int_equal(hl_target_none()->kind, HL_TARGET_NONE);
}

static void test_kinds(void **state) {
  (void)state;
  const HlTarget *a100 = hl_target_find("a100"), *cpu = hl_target_find("cpu");
  assert_ptr_equal(hl_target_of_kind(a100, HL_TARGET_GPU), a100);
  assert_ptr_equal(hl_target_of_kind(cpu, HL_TARGET_GPU), hl_target_find("gpu"));
  assert_ptr_equal(hl_target_of_kind(hl_target_none(), HL_TARGET_CPU), cpu);
  assert_int_equal(hl_target_of_kind(cpu, HL_TARGET_TPU)->kind, HL_TARGET_TPU);
}

static void test_native(void **state) {
  (void)state;
  HlArena *arena = hl_arena_new();
  const HlTarget *t = hl_target_native(arena);
  assert_int_equal(t->kind, HL_TARGET_CPU);
  assert_string_equal(t->name, "native");
  assert_true(t->cores >= 1 && t->threads >= t->cores && t->memory_bytes > 0 && t->l1_bytes > 0);
  hl_arena_free(arena);
}

// --- XLA's files --------------------------------------------------------------------------------------

static const HlTarget *read_bytes(HlCx *cx, HlArena *arena, const char *bytes, size_t n) {
  HlSource *source = hl_source_new("gpu_target_config.pbtxt", bytes, n, false);
  const HlTarget *t = hl_proto_read_target(cx, arena, source);
  hl_source_unref(source);
  return t;
}

static const HlTarget *read_text(HlCx *cx, HlArena *arena, const char *text) {
  return read_bytes(cx, arena, text, strlen(text));
}

static void test_reads_text(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  const HlTarget *t = read_text(
      cx, arena,
      "# a smaller one\n"
      "gpu_device_info {\n  threads_per_warp: 32 core_count: 66 fpus_per_core: 128\n"
      "  clock_rate_ghz: 1.98 memory_bandwidth: 1000000000000 shared_memory_per_block: 1000\n"
      "  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }\n"
      "  matrix_unit_description { rate_infos { key: 10 value { clock_rate_ghz: 1.5 "
      "units_per_core: 4 "
      "ops_per_clock: 512 } } }\n"
      "  mem_clock_ghz: 2.619 dnn_version: \"9.19.2\"\n}\n"
      "platform_name: \"CUDA\"\nruntime_version { major: 13 }\ndevice_description_str: \"half a "
      "device\"\n");
  assert_non_null(t);
  assert_int_equal(hl_cx_n_diags(cx), 0);
  assert_string_equal(t->device, "half a device");
  assert_string_equal(t->architecture, "sm_90a");
  assert_int_equal(t->cores, 66);
  assert_int_equal(t->shared_per_block, 1000);
  assert_true(t->clock == 1.98e9 && t->memory_bandwidth == 1e12);
  assert_true(t->matrix.of[HL_F16] == 2 * 1.5e9 * 66 * 4 * 512 && t->matrix.of[HL_BF16] == 0);
  assert_true(t->vector.of[HL_F32] == 0.5 * hl_target_find("h100")->vector.of[HL_F32]);
  assert_int_equal(t->dnn_version, 91902);
  assert_int_equal(t->runtime_version, 130000);
  // What is not said is as in the row that is nearest.
  assert_int_equal(t->l1_bytes, hl_target_find("h100")->l1_bytes);
  assert_true(t->moves_narrow);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// What was read from a file is written as it was; of a row the facts come back.
static void test_writes(void **state) {
  (void)state;
  static const char text[] =
      "gpu_device_info {\n  threads_per_warp: 32\n  core_count: 66\n  clock_rate_ghz: 1.98\n"
      "  cuda_compute_capability {\n    major: 9\n    feature_extension: ACCELERATED_FEATURES\n  "
      "}\n"
      "  driver_version: \"13.0.0\"\n  numa_node: -1\n  mem_clock_ghz: 2.619\n}\n"
      "platform_name: \"CUDA\"\ndevice_description_str: \"a device\"\n";
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlBuf out = {0};
  hl_proto_write_target(read_text(cx, arena, text), &out);
  assert_string_equal(out.at, text);
  out.n = 0;
  const HlTarget *row = hl_target_find("h100");
  hl_proto_write_target(row, &out);
  const HlTarget *t = read_text(cx, arena, out.at);
  assert_non_null(t);
  assert_int_equal(hl_cx_n_diags(cx), 0);
  assert_string_equal(t->device, row->device);
  assert_string_equal(t->architecture, row->architecture);
  assert_true(t->clock == row->clock && t->memory_bandwidth == row->memory_bandwidth);
  assert_int_equal(t->shared_per_block_asked, row->shared_per_block_asked);
  assert_int_equal(t->dnn_version, row->dnn_version);
  for (int k = 0; k < HL_DTYPE_COUNT; k++) {
    assert_true(fabs(t->vector.of[k] - row->vector.of[k]) <= 0.03 * row->vector.of[k]);
    assert_true(fabs(t->matrix.of[k] - row->matrix.of[k]) <= 0.03 * row->matrix.of[k]);
  }
  hl_buf_free(&out);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_nearest(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  const HlTarget *amd =
      read_text(cx, arena,
                "gpu_device_info { rocm_compute_capability { gcn_arch_name: \"gfx942\" } }"
                "platform_name: \"ROCM\"");
  assert_int_equal(amd->warp, 64);
  const HlTarget *old = read_text(
      cx, arena, "gpu_device_info { cuda_compute_capability { major: 6 } core_count: 56 }");
  assert_int_equal(old->capability, 60);
  assert_true(old->matrix.of[HL_F16] == 0 && old->vector.of[HL_F32] > 0);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_unknown_fields(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  assert_non_null(read_text(cx, arena, "gpu_device_info { core_count: 3 tensor_cores: 4 }"));
  assert_int_equal(hl_cx_n_diags(cx), 1);
  assert_int_equal(hl_cx_diag(cx, 0)->severity, HL_WARNING);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "tensor_cores"));
  hl_cx_clear(cx);
  // core_count: 3, and a field 99 that nobody knows.
  static const char binary[] = "\x0a\x05\x30\x03\x98\x06\x01\x22\x04"
                               "CUDA";
  const HlTarget *t = read_bytes(cx, arena, binary, sizeof binary - 1);
  assert_non_null(t);
  assert_int_equal(t->cores, 3);
  assert_int_equal(hl_cx_n_diags(cx), 1);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "99"));
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_bad_files(void **state) {
  (void)state;
  static const char *const bad[] = {"", "platform_name: \"CUDA\"",
                                    "gpu_device_info { core_count: -1 }", "gpu_device_info {",
                                    "HloModule m"};
  for (int k = 0; k < HL_COUNT_OF(bad); k++) {
    HlCx *cx = hl_cx_new();
    HlArena *arena = hl_arena_new();
    assert_null(read_text(cx, arena, bad[k]));
    assert_true(hl_cx_n_errors(cx) > 0);
    hl_arena_free(arena);
    hl_cx_free(cx);
  }
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  assert_null(hl_target_load(cx, arena, "h101"));
  assert_string_equal(hl_cx_diag(cx, 0)->hint, "did you mean 'h100'?");
  hl_arena_free(arena);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),          cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_native),         cmocka_unit_test(test_reads_text),
      cmocka_unit_test(test_writes),         cmocka_unit_test(test_nearest),
      cmocka_unit_test(test_unknown_fields), cmocka_unit_test(test_bad_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
