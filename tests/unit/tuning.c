// What the autotuner measured: fingerprints as XLA has them, files in each form, and how kernels find what is theirs.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fingerprint.h"
#include "hilo/text.h"
#include "hilo/tuning.h"
#include "pass/tuning.h"

static HlStr text(const char *s) {
  return (HlStr){s, strlen(s)};
}

// The first three are what XLA 0.11.2 has of these texts: a device, versions of backends, a kernel.
static void test_fingerprints(void **state) {
  (void)state;
  assert_true(base_fingerprint64(
                  text("CUDA: 9.0, Cores: 132, GPU clock: 1.98 GHz, Memory bandwidth: 3352 GB/s, "
                       "L2 cache: 50 MB")) == 0x699b92c0fb30cb16);
  assert_true(base_fingerprint64(text(
                  "CUDNN:9.19.0,TRITON:a77e7c793abc0d0c923a9afb275058e2fe57a198,CUBLASLT:13.0.0,"
                  "BLOCK_LEVEL_EMITTER:a77e7c793abc0d0c923a9afb275058e2fe57a198,"
                  "NATIVE_EMITTER:v1,CUBLASLT_FISSION:13.0.0")) == 0xfe9062d0fff82a66);
  const HlFingerprint kernel = base_fingerprint128(text(
      "f32[64,64]{1,0} fusion(f32[64,64]{1,0}, f32[64,64]{1,0}), kind=kCustom, calls=\n{\n"
      "  tmp_0 = f32[64,64]{1,0} parameter(0)\n"
      "  tmp_1 = f32[64,64]{1,0} parameter(1)\n"
      "  ROOT tmp_2 = f32[64,64]{1,0} dot(f32[64,64]{1,0} tmp_0, f32[64,64]{1,0} tmp_1), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "}, "
      "backend_config={\"device_type\":\"DEVICE_TYPE_INVALID\",\"force_earliest_schedule\":false,"
      "\"fusion_backend_config\":{\"kind\":\"__triton_gemm\"},\"operation_queue_id\":\"0\","
      "\"reification_cost\":[]}"));
  assert_true(kernel.high == 0x6e5d320de0a84d72 && kernel.low == 0x5563caf770bbcb4b);
  assert_true(base_fingerprint64(text("")) == 0x9ae16a3b2f90404f);
  // Every length reads its text and nothing else.
  char bytes[300];
  memset(bytes, 'x', sizeof bytes);
  for (size_t n = 1; n < sizeof bytes; n++) {
    char *own = malloc(n);
    memset(own, 'x', n);
    const HlFingerprint f = base_fingerprint128((HlStr){own, n});
    assert_true(base_fingerprint64((HlStr){own, n}) == base_fingerprint64((HlStr){bytes, n}));
    own[n / 2] = 'y';
    assert_true(base_fingerprint64((HlStr){own, n}) != base_fingerprint64((HlStr){bytes, n}));
    assert_true(base_fingerprint128((HlStr){own, n}).low != f.low);
    free(own);
  }
}

static const char program[] = "HloModule m\n"
                              "half { x = f32[64] parameter(0)\n ROOT n = f32[64] negate(x) }\n"
                              "ENTRY e { x = f32[64] parameter(0)\n"
                              "ROOT f = f32[64] fusion(x), kind=kLoop, calls=half }";

static HlTuning *read(HlCx *cx, const void *bytes, size_t n) {
  HlTuning *tuning = hl_tuning_new();
  HlSource *source = hl_source_new("f", bytes, n, false);
  const bool ok = hl_tuning_read(cx, tuning, source);
  hl_source_unref(source);
  if (ok)
    return tuning;
  hl_tuning_free(tuning);
  return NULL;
}

static void test_files(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = hl_text_parse(cx, program);
  const HlInst *kernel = m->entry->root;
  const HlTarget *h100 = hl_target_find("h100"), *a100 = hl_target_find("a100");
  Tuned tuned = {.by = XLA_TUNING__BACKEND__NATIVE_EMITTER,
                 .native = {.known = true, .type = HL_NATIVE_TRANSPOSE, .unroll = 4}};
  HlTuning *tuning = hl_tuning_new();
  tuning_add(cx, tuning, h100, kernel, &tuned);
  tuned.native.unroll = 2;
  tuning_add(cx, tuning, h100, kernel, &tuned);
  assert_int_equal(hl_tuning_count(tuning), 1);
  assert_false(tuning_find(cx, NULL, arena, h100, kernel, &tuned));
  for (int as_text = 0; as_text < 2; as_text++) {
    HlBuf file = {0};
    hl_tuning_write(tuning, as_text, &file);
    HlTuning *again = read(cx, file.at, file.n);
    assert_non_null(again);
    tuned = (Tuned){0};
    assert_true(tuning_find(cx, again, arena, h100, kernel, &tuned));
    assert_int_equal(tuned.by, XLA_TUNING__BACKEND__NATIVE_EMITTER);
    assert_int_equal(tuned.native.type, HL_NATIVE_TRANSPOSE);
    assert_int_equal(tuned.native.unroll, 2);
    assert_false(tuning_find(cx, again, arena, a100, kernel, &tuned));
    assert_true(tuning_fits(again, arena, h100) && !tuning_fits(again, arena, a100));
    hl_tuning_free(again);
    hl_buf_free(&file);
  }
  HlTuning *both = hl_tuning_new();
  hl_tuning_join(both, tuning);
  hl_tuning_join(both, tuning);
  hl_tuning_free(tuning);
  assert_int_equal(hl_tuning_count(both), 1);
  assert_true(tuning_find(cx, both, arena, h100, kernel, &tuned));
  assert_int_equal(tuned.native.unroll, 2);
  hl_tuning_free(both);
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// A kernel whose config says only what it must has the fingerprint that XLA gives it, whose configs say all.
static void test_whole_config(void **state) {
  (void)state;
  static const char bare[] =
      "HloModule m\n"
      "g { x = f32[64,64] parameter(0)\n y = f32[64,64] parameter(1)\n"
      "ROOT d = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
      "ENTRY e { x = f32[64,64] parameter(0)\n y = f32[64,64] parameter(1)\n"
      "ROOT f = f32[64,64] fusion(x, y), kind=kCustom, calls=g, "
      "backend_config={\"fusion_backend_config\":{\"kind\":\"__triton_gemm\"}} }";
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = hl_text_parse(cx, bare);
  HlTuning *tuning = hl_tuning_new();
  const Tuned tuned = {.by = XLA_TUNING__BACKEND__NATIVE_EMITTER, .native = {.known = true}};
  tuning_add(cx, tuning, hl_target_find("h100"), m->entry->root, &tuned);
  HlBuf file = {0};
  hl_tuning_write(tuning, true, &file);
  assert_non_null(strstr(file.at, "\"6e5d320de0a84d725563caf770bbcb4b\""));
  hl_buf_free(&file);
  hl_tuning_free(tuning);
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// Results of other backends: a message of any type, in text by its name, in binary packed.
static void test_any(void **state) {
  (void)state;
  static const char packed[] =
      "version: 3 results { device: \"CUDA: 9.0, Cores: 132, GPU clock: 1.98 GHz, Memory "
      "bandwidth: 3350 GB/s, "
      "L2 cache: 47.6837 MB\" hlo: \"{\\n  tmp_0 = f32[64]{0} parameter(0)\\n  ROOT tmp_1 = "
      "f32[64]{0} "
      "negate(f32[64]{0} tmp_0)\\n}\" result { other { name: \"BLOCK_LEVEL_EMITTER\" config { "
      "type_url: "
      "\"type.googleapis.com/xla.xtile.BlockLevelFusionConfig\" value: \"\\x10\\x08\" } } } }";
  static const char named[] =
      "version: 3 results { device: \"CUDA: 9.0, Cores: 132, GPU clock: 1.98 GHz, Memory "
      "bandwidth: 3350 GB/s, "
      "L2 cache: 47.6837 MB\" hlo: \"{\\n  tmp_0 = f32[64]{0} parameter(0)\\n  ROOT tmp_1 = "
      "f32[64]{0} "
      "negate(f32[64]{0} tmp_0)\\n}\" result { other { name: \"BLOCK_LEVEL_EMITTER\" config { "
      "[type.googleapis.com/xla.xtile.BlockLevelFusionConfig] { num_warps: 8 } } } } }";
  const char *const files[] = {packed, named};
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = hl_text_parse(cx, program);
  for (int k = 0; k < HL_COUNT_OF(files); k++) {
    HlTuning *tuning = read(cx, files[k], strlen(files[k]));
    assert_non_null(tuning);
    Tuned tuned = {0};
    assert_true(tuning_find(cx, tuning, arena, hl_target_find("h100"), m->entry->root, &tuned));
    assert_int_equal(tuned.by, XLA_TUNING__BACKEND__BLOCK_LEVEL_EMITTER);
    assert_int_equal(tuned.fusion.warps, 8);
    hl_tuning_free(tuning);
  }
  assert_null(read(cx, "results { [x", 12));
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// Damage is an error, whatever is damaged; results of other kinds are passed over.
static void test_damage(void **state) {
  (void)state;
  static const char *const bad[] = {"entries {", "version: x", "\x22\xff", "entries { key: 3 }"};
  for (int k = 0; k < HL_COUNT_OF(bad); k++) {
    HlCx *cx = hl_cx_new();
    assert_null(read(cx, bad[k], strlen(bad[k])));
    assert_true(hl_cx_n_errors(cx) > 0);
    hl_cx_free(cx);
  }
  HlCx *cx = hl_cx_new();
  static const char *const empty[] = {"", "version: 3\n",
                                      "# none\nversion: 3 results { device: \"d\" result { } }"};
  for (int k = 0; k < HL_COUNT_OF(empty); k++) {
    HlTuning *tuning = read(cx, empty[k], strlen(empty[k]));
    assert_non_null(tuning);
    assert_int_equal(hl_tuning_count(tuning), 0);
    hl_tuning_free(tuning);
  }
  assert_true(hl_tuning_is_text("a.pbtxt") && hl_tuning_is_text("a.txt") &&
              !hl_tuning_is_text("a.pb"));
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fingerprints), cmocka_unit_test(test_files),
      cmocka_unit_test(test_whole_config), cmocka_unit_test(test_any),
      cmocka_unit_test(test_damage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
