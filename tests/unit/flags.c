// XLA's flags as a client of PJRT sends them: DebugOptions of JAX 0.10 and 0.11 in binary (tools/make_options.py), and
// single options over it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/flags.h"

typedef struct Bench {
  HlCx *cx;
  HlArena *arena;
  HlFlags flags;
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
  hl_flags_free(&b->flags);
  hl_arena_free(b->arena);
  hl_cx_free(b->cx);
  free(b);
  return 0;
}

static HlStr sent(Bench *b, const char *release) {
  HlAsked asked;
  char path[128];
  snprintf(path, sizeof path, "tests/fuzz/seeds/compile_options/one.%s.pb", release);
  HlSource *source = hl_read_file(b->cx, path);
  assert_non_null(source);
  assert_true(hl_proto_read_asked(b->cx, b->arena, hl_source_bytes(source), &asked));
  hl_source_unref(source);
  return asked.debug_options;
}

static bool read(Bench *b, const char *bytes, size_t n) {
  const bool ok = hl_flags_debug_options_binary(b->cx, &b->flags, (HlStr){bytes, n});
  assert_int_equal(ok, hl_cx_n_errors(b->cx) == 0);
  return ok;
}

static void assert_told(Bench *b, const char *text) {
  assert_int_equal(hl_cx_n_diags(b->cx), 1);
  assert_non_null(strstr(hl_cx_diag(b->cx, 0)->text, text));
  hl_cx_clear(b->cx);
}

static void assert_printed(const Bench *b, const char *text) {
  HlBuf out = {0};
  hl_flags_print(&b->flags, &out);
  assert_string_equal(out.at ? out.at : "", text);
  hl_buf_free(&out);
}

// All defaults are said, and are none: nothing is given, nothing is warned of.
static void defaults_are_silent(void **state) {
  static const char *const releases[] = {"0.10", "0.11"};
  Bench *b = *state;
  for (int k = 0; k < HL_COUNT_OF(releases); k++) {
    const HlStr bytes = sent(b, releases[k]);
    assert_true(read(b, bytes.at, bytes.n));
    assert_int_equal(hl_cx_n_diags(b->cx), 0);
    assert_printed(b, "");
  }
}

// disable_hlo_passes (30) dce, cse; dump_to (109) d; dump_hlo_as_text (112); allow_excess_precision (122) false;
// max_hlo_modules (132) 5.
static void honoured(void **state) {
  static const char bytes[] = "\xf2\x01\x03"
                              "dce\xf2\x01\x03"
                              "cse\xea\x06\x01"
                              "d\x80\x07\x01\xd0\x07\x00\xa0\x08\x05";
  Bench *b = *state;
  assert_true(read(b, bytes, sizeof bytes - 1));
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  assert_printed(b, "xla_disable_hlo_passes: \"dce,cse\"\nxla_dump_to: \"d\"\n"
                    "xla_dump_hlo_as_text: true\nxla_allow_excess_precision: false\n"
                    "xla_dump_max_hlo_modules: 5\n");
}

// What changes something and is not as usual is warned of once.
static void others_are_told_once(void **state) {
  Bench *b = *state;
  for (int k = 0; k < 2; k++)  // cpu_enable_fast_math (99)
    assert_true(read(b, "\x98\x06\x01", 3));
  assert_told(b, "--xla_cpu_enable_fast_math, which changes results, has no effect");
  assert_true(read(b, "\x98\x06\x00", 3));
  assert_true(read(b, "\xb0\x12\x03", 3));  // gpu_enable_while_loop_unrolling (294): as usual
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  assert_true(read(b, "\xb0\x12\x01", 3));
  assert_told(b, "xla_gpu_enable_while_loop_unrolling");
  assert_true(read(b, "\x92\x10\x07\x01\x09\x07\x03\x08\x02\x05",
                   10));  // gpu_enable_command_buffer (258): in another order
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  assert_true(read(b, "\x92\x10\x06\x01\x09\x07\x03\x08\x02", 9));
  assert_told(b, "xla_gpu_enable_command_buffer");
  assert_true(read(b, "\x8d\x0e\x00\x00\x00\x40",
                   6));  // gpu_auto_spmd_partitioning_memory_budget_ratio (225): 2
  assert_told(b, "memory_budget_ratio");
}

// gpu_unsupported_use_all_reduce_one_shot_kernel (387) was on before 0.11, which says gpu_pipeline_all_gather (517).
static void usual_values_of_releases(void **state) {
  Bench *b = *state;
  assert_true(read(b, "\x98\x18\x01", 3));
  assert_true(read(b, "\x98\x18\x00\xa8\x20\x00", 6));
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  assert_true(read(b, "\x98\x18\x01\xa8\x20\x00", 6));
  assert_told(b, "all_reduce_one_shot_kernel");
}

static void strange_bytes(void **state) {
  Bench *b = *state;
  assert_true(read(b, "", 0));
  assert_true(read(b, "\xfa\xff\x07\x01x\x80\x07", 5));  // no flag's number
  assert_true(read(b, "\x82\x07\x01x\xe8\x06\x01", 7));  // flags, but not of this type
  assert_printed(b, "");
  assert_false(read(b, "\x80\x07", 2));
  assert_told(b, "damaged proto: a field of DebugOptions");
}

static void accept(Bench *b, const HlOptionOverride *o) {
  assert_true(hl_flags_override(b->cx, &b->flags, o));
  assert_int_equal(hl_cx_n_errors(b->cx), 0);
}

static void refuse(Bench *b, const HlOptionOverride *o, const char *text) {
  assert_false(hl_flags_override(b->cx, &b->flags, o));
  assert_string_equal(hl_cx_diag(b->cx, 0)->text, text);
  hl_cx_clear(b->cx);
}

#define TEXT(key, value)                                 \
  &(HlOptionOverride) {                                  \
    .name = key, .kind = HL_OVERRIDE_TEXT, .text = value \
  }
#define BOOL(key, value)                                 \
  &(HlOptionOverride) {                                  \
    .name = key, .kind = HL_OVERRIDE_BOOL, .flag = value \
  }
#define INT(key, value)                              \
  &(HlOptionOverride) {                              \
    .name = key, .kind = HL_OVERRIDE_INT, .i = value \
  }
#define FLOAT(key, value)                              \
  &(HlOptionOverride) {                                \
    .name = key, .kind = HL_OVERRIDE_FLOAT, .f = value \
  }

static void overrides(void **state) {
  Bench *b = *state;
  accept(b, BOOL("xla_dump_hlo_as_text", true));
  accept(b, TEXT("xla_dump_hlo_as_proto", "True"));
  accept(b, TEXT("xla_allow_excess_precision", "False"));
  accept(b, INT("xla_dump_max_hlo_modules", 4));
  accept(b, TEXT("xla_dump_max_hlo_modules", " 5 "));
  accept(b, TEXT("xla_dump_to", "d"));
  accept(b, TEXT("xla_disable_hlo_passes", "dce,cse"));
  accept(b, BOOL("xla_embed_ir_in_executable", true));
  accept(b, TEXT("xla_backend_extra_options", ""));
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  assert_printed(b, "xla_disable_hlo_passes: \"dce,cse\"\nxla_dump_to: \"d\"\n"
                    "xla_dump_hlo_as_text: true\nxla_dump_hlo_as_proto: true\n"
                    "xla_allow_excess_precision: false\nxla_dump_max_hlo_modules: 5\n");
  accept(b, BOOL("xla_dump_hlo_as_text", false));  // over what was said
  accept(b, TEXT("xla_cpu_scheduler_type", "CPU_SCHEDULER_TYPE_DEFAULT"));
  accept(b, INT("xla_cpu_scheduler_type", 0));
  accept(b, FLOAT("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", 1.1));
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  accept(b, TEXT("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", "0.5"));
  assert_told(b, "memory_budget_ratio");
}

// The texts are XLA's: JAX's tests look for them.
static void refused_overrides(void **state) {
  Bench *b = *state;
  refuse(b, TEXT("invalid_key", "v"), "No such compile option: 'invalid_key'");
  refuse(b, TEXT("--xla_dump_to", "v"), "No such compile option: '--xla_dump_to'");
  refuse(b, TEXT("xla_fuel", "dce=1"), "No such compile option: 'xla_fuel'");
  refuse(b, BOOL("xla_gpu_enable_triton_gemm_int4", 1),
         "No such compile option: 'xla_gpu_enable_triton_gemm_int4'");
  refuse(b, TEXT("xla_embed_ir_in_executable", "invalid_value"),
         "While setting option xla_embed_ir_in_executable, 'invalid_value' is not a valid bool "
         "value.");
  refuse(b, TEXT("xla_dump_hlo_as_text", "true"),
         "While setting option xla_dump_hlo_as_text, 'true' is not a valid bool value.");
  refuse(b, INT("xla_dump_hlo_as_text", 1),
         "While setting option xla_dump_hlo_as_text, '1' is not a valid bool value.");
  refuse(b, TEXT("xla_dump_max_hlo_modules", ""),
         "While setting option xla_dump_max_hlo_modules, '' is not a valid int32 value.");
  refuse(b, TEXT("xla_dump_max_hlo_modules", "5x"),
         "While setting option xla_dump_max_hlo_modules, '5x' is not a valid int32 value.");
  refuse(
      b, INT("xla_dump_max_hlo_modules", 1099511627776),
      "While setting option xla_dump_max_hlo_modules, '1099511627776' is not a valid int32 value.");
  refuse(b, FLOAT("xla_dump_max_hlo_modules", 5),
         "While setting option xla_dump_max_hlo_modules, '5' is not a valid int32 value.");
  refuse(b, FLOAT("xla_dump_to", 1.5),
         "While setting option xla_dump_to, '1.5' is not a valid string value.");
  refuse(b, BOOL("xla_dump_to", true),
         "While setting option xla_dump_to, '1' is not a valid string value.");
  refuse(b, TEXT("xla_gpu_collective_permute_decomposer_threshold", "x"),
         "While setting option xla_gpu_collective_permute_decomposer_threshold, 'x' is not a valid "
         "int64 value.");
  refuse(b, INT("xla_gpu_autotune_gemm_rtol", 1),
         "While setting option xla_gpu_autotune_gemm_rtol, '1' is not a valid float value.");
  refuse(b, TEXT("xla_backend_extra_options", "a=b"),
         "While setting option xla_backend_extra_options, 'a=b' is not a valid message value.");
  assert_printed(b, "");
}

// As words the usual values are silent too, by name or number.
static void words(void **state) {
  Bench *b = *state;
  assert_true(
      hl_flags_text(b->cx, &b->flags,
                    "--xla_gpu_enable_while_loop_unrolling=WHILE_LOOP_UNROLLING_AUTO_UNROLL "
                    "--xla_gpu_enable_while_loop_unrolling=auto_unroll "
                    "--xla_partitioning_algorithm=noop --xla_gpu_autotune_gemm_rtol=1e-2"));
  assert_int_equal(hl_cx_n_diags(b->cx), 0);
  assert_true(hl_flags_text(b->cx, &b->flags, "--xla_gpu_enable_while_loop_unrolling=full_unroll"));
  assert_told(b, "xla_gpu_enable_while_loop_unrolling");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  static const struct CMUnitTest tests[] = {
      TEST(defaults_are_silent),      TEST(honoured),      TEST(others_are_told_once),
      TEST(usual_values_of_releases), TEST(strange_bytes), TEST(overrides),
      TEST(refused_overrides),        TEST(words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
