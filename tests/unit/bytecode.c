// MLIR bytecode and VHLO artifacts: what is written reads back, at every version that can say it; what is damaged,
// newer or unknown is a located error.

#include "hilo/mlir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/corpus.h"

static HlMlTree *read_text(HlCx *cx, const char *text) {
  HlSource *source = hl_source_new("test", text, strlen(text), false);
  HlMlTree **trees;
  int n;
  assert_true(hl_ml_text_read(cx, source, &trees, &n));
  assert_int_equal(n, 1);
  HlMlTree *tree = trees[0];
  free(trees);
  hl_source_unref(source);
  return tree;
}

static HlMlTree *read_bytes(HlCx *cx, const void *bytes, size_t n) {
  HlSource *source = hl_source_new("test", bytes, n, true);
  HlMlTree *tree = hl_ml_bytecode_read(cx, source);
  hl_source_unref(source);
  return tree;
}

static HlMlVersion at(int major, int minor) {
  return (HlMlVersion){major, minor, 0};
}

static bool holds(HlCx *cx, const char *text) {
  return hl_cx_n_diags(cx) > 0 && strstr(hl_cx_diag(cx, 0)->text, text) != NULL;
}

// Writes and reads again: the same program.
static void check_version(HlCx *cx, const HlMlTree *tree, HlMlVersion version) {
  HlBuf out = {0};
  assert_true(hl_ml_artifact_write(cx, tree, version, &out));
  HlMlTree *again = read_bytes(cx, out.at, out.n);
  assert_non_null(again);
  const char *where = "";
  if (!hl_ml_equal(tree, again, &where))
    fail_msg("version %d.%d: %s", version.major, version.minor, where);
  assert_int_equal(again->version.major, version.major);
  assert_int_equal(again->version.minor, version.minor);
  hl_ml_free(again);
  hl_buf_free(&out);
}

static void check_from(const char *text, int major, int minor) {
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = read_text(cx, text);
  for (int minor_at = 9; minor_at <= 20; minor_at++)
    if (major == 0 && minor_at >= minor)
      check_version(cx, tree, at(0, minor_at));
  for (int minor_at = 0; minor_at <= 20; minor_at++)
    if (major == 0 || minor_at >= minor)
      check_version(cx, tree, at(1, minor_at));
  hl_ml_free(tree);
  hl_cx_free(cx);
}

// Below the version that can say it there is an error, which names the op and that version.
static void check_needs(const char *text, HlMlVersion last_without, const char *message) {
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = read_text(cx, text);
  HlBuf out = {0};
  assert_false(hl_ml_artifact_write(cx, tree, last_without, &out));
  assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  if (!holds(cx, message))
    fail_msg("'%s' is not '%s'", hl_cx_diag(cx, 0)->text, message);
  hl_buf_free(&out);
  hl_ml_free(tree);
  hl_cx_free(cx);
}

// --- Programs ------------------------------------------------------------------------------------

static const char plain[] =
    "module @m attributes {mhlo.num_replicas = 2 : i32} {\n"
    "  func.func private @g(%a: tensor<2x3xf32>) -> tensor<2xf32> {\n"
    "    %z = stablehlo.constant dense<0.5> : tensor<f32>\n"
    "    %0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 1>}> ({\n"
    "    ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
    "      %1 = stablehlo.maximum %x, %y : tensor<f32>\n"
    "      stablehlo.return %1 : tensor<f32>\n"
    "    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
    "    return %0 : tensor<2xf32>\n"
    "  }\n"
    "  func.func public @main(%a: tensor<2x3xf32> {jax.buffer_donor = true}, %b: tensor<3x4xf32>, "
    "%i: tensor<i32>)\n"
    "      -> (tensor<2xf32> {jax.result_info = \"r\"}, tensor<2x4xf32>) {\n"
    "    %0 = call @g(%a) : (tensor<2x3xf32>) -> tensor<2xf32>\n"
    "    %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :\n"
    "      (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n"
    "    %2 = \"stablehlo.case\"(%i) ({\n"
    "      stablehlo.return %1 : tensor<2x4xf32>\n"
    "    }, {\n"
    "      %3 = stablehlo.negate %1 {mhlo.frontend_attributes = {k = \"v\"}} : tensor<2x4xf32>\n"
    "      stablehlo.return %3 : tensor<2x4xf32>\n"
    "    }) : (tensor<i32>) -> tensor<2x4xf32>\n"
    "    return %0, %2 : tensor<2xf32>, tensor<2x4xf32>\n"
    "  }\n"
    "}\n";

static void programs_come_back(void **state) {
  check_from(plain, 0, 9);
}

static void elements_come_back(void **state) {
  check_from(
      "func.func @main() {\n"
      "  %0 = stablehlo.constant dense<true> : tensor<i1>\n"
      "  %1 = stablehlo.constant dense<false> : tensor<11xi1>\n"
      "  %2 = stablehlo.constant dense<[true, false, false, true, true, false, true, false]> : "
      "tensor<8xi1>\n"
      "  %3 = stablehlo.constant dense<[true, false, false, true, true, false, true, false, true]> "
      ": tensor<9xi1>\n"
      "  %4 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>\n"
      "  %5 = stablehlo.constant dense<[1, -2, 7, -8]> : tensor<4xi4>\n"
      "  %6 = stablehlo.constant dense<[1, 2, 15]> : tensor<3xui4>\n"
      "  %7 = stablehlo.constant dense<[(1.0, 2.0), (-0.0, 0x7FC00000)]> : tensor<2xcomplex<f32>>\n"
      "  %8 = stablehlo.constant dense<> : tensor<0x3xf64>\n"
      "  %9 = stablehlo.constant dense<[1, 18446744073709551615]> : tensor<2xui64>\n"
      "  return\n"
      "}\n",
      0, 9);
}

static void defaults_come_back(void **state) {
  check_from(
      "func.func @main(%a: tensor<1x8x8x2xf32>, %b: tensor<3x3x2x4xf32>, %c: tensor<8xf32>, %t: "
      "!stablehlo.token) {\n"
      "  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, "
      "f],\n"
      "    window = {stride = [2, 1], pad = [[1, 0], [1, 1]]} {batch_group_count = 1 : i64, "
      "feature_group_count = 1 : i64} :\n"
      "    (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x4x8x4xf32>\n"
      "  %1 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
      "window = {}\n"
      "    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :\n"
      "    (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x6x6x4xf32>\n"
      "  %2 = \"stablehlo.sort\"(%c) <{dimension = 0 : i64, is_stable = true}> ({\n"
      "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
      "    %3 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> "
      "tensor<i1>\n"
      "    stablehlo.return %3 : tensor<i1>\n"
      "  }) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "  %4 = \"stablehlo.all_reduce\"(%c) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,\n"
      "    channel_handle = #stablehlo.channel_handle<handle = 7, type = 0>, "
      "use_global_device_ids}> ({\n"
      "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
      "    %5 = stablehlo.add %x, %y : tensor<f32>\n"
      "    stablehlo.return %5 : tensor<f32>\n"
      "  }) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "  %6 = stablehlo.custom_call @f(%c) {has_side_effect = true, backend_config = \"x\",\n"
      "    operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : "
      "tensor<1xindex>]} :\n"
      "    (tensor<8xf32>) -> tensor<8xf32>\n"
      "  %7 = stablehlo.custom_call @g(%c) {api_version = 2 : i32} : (tensor<8xf32>) -> "
      "tensor<8xf32>\n"
      "  %8 = \"stablehlo.send\"(%c, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, "
      "type = 2>,\n"
      "    is_host_transfer = true}> : (tensor<8xf32>, !stablehlo.token) -> !stablehlo.token\n"
      "  return\n"
      "}\n",
      0, 9);
}

static void types_come_back(void **state) {
  check_from(
      "func.func @main(%a: tensor<?x4xf32, #stablehlo.bounds<3, ?>>, %b: tuple<tensor<f16>, "
      "tensor<2xbf16>>,\n"
      "    %c: tensor<*xf32>, %d: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %e: tensor<index>) {\n"
      "  return\n"
      "}\n",
      0, 9);
  check_from("func.func @main(%a: tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:-3}>>) "
             "{ return }",
             0, 18);
  check_from(
      "func.func @main(%a: tensor<2xf4E2M1FN>, %b: tensor<f8E8M0FNU>, %c: tensor<ui2>) { return }",
      1, 8);
  check_from("func.func @main(%a: !stablehlo.future<tensor<f32>>, %b: memref<2xf32>) { return }", 1,
             15);
}

static const char sharded[] =
    "module {\n"
    "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n"
    "  func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, "
    "{?}p1]>}) -> tensor<4x4xf32> {\n"
    "    %0 = sdy.sharding_constraint %a <@mesh, [{\"x\", \"y\":(1)2}, {}]> : tensor<4x4xf32>\n"
    "    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{\"x\"}, {}]>] "
    "out_shardings=[<@mesh, [{\"x\"}, {}]>]\n"
    "        manual_axes={\"x\"} (%b: tensor<2x4xf32>) {\n"
    "      %2 = stablehlo.add %b, %b : tensor<2x4xf32>\n"
    "      sdy.return %2 : tensor<2x4xf32>\n"
    "    } : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
    "    sdy.sharding_group %1 group_id=3 : tensor<4x4xf32>\n"
    "    return %1 : tensor<4x4xf32>\n"
    "  }\n"
    "}\n";

static void other_dialects_are_mixed_in(void **state) {
  check_from(sharded, 1, 11);
  check_needs(sharded, at(1, 10), "sdy.mesh needs version 1.11.0");
}

// --- What a version cannot say -------------------------------------------------------------------

static void versions_have_limits(void **state) {
  check_needs("func.func @main(%a: tensor<f32>, %b: tensor<f32>) {\n"
              "  %0:2 = \"stablehlo.all_gather\"(%a, %b) <{all_gather_dim = 0 : i64,\n"
              "    replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<f32>, tensor<f32>) -> "
              "(tensor<f32>, tensor<f32>)\n"
              "  return\n"
              "}",
              at(1, 4), "stablehlo.all_gather of several operands needs version 1.5.0");
  check_needs("func.func @main(%a: tensor<f32>) {\n"
              "  %0 = stablehlo.custom_call @f(%a) {api_version = 4 : i32, backend_config = {k = 1 "
              ": i64}} :\n"
              "    (tensor<f32>) -> tensor<f32>\n"
              "  return\n"
              "}",
              at(1, 2),
              "stablehlo.custom_call with a dictionary as backend_config needs version 1.3.0");
  check_needs("func.func @main(%a: tensor<f8E3M4>) { return }", at(1, 6),
              "f8E3M4 in func.func needs version 1.7.0");
  check_needs("func.func @main(%a: tensor<2xf32>) {\n"
              "  %0 = chlo.erf %a : tensor<2xf32> -> tensor<2xf32>\n"
              "  return\n"
              "}",
              at(1, 20), "chlo.erf has no form in VHLO");
}

// Writes at a version that says the program otherwise, and reads it.
static HlMlTree *said_at(HlCx *cx, const char *text, HlMlVersion version) {
  HlMlTree *tree = read_text(cx, text);
  HlBuf out = {0};
  assert_true(hl_ml_artifact_write(cx, tree, version, &out));
  hl_ml_free(tree);
  tree = read_bytes(cx, out.at, out.n);
  assert_non_null(tree);
  hl_buf_free(&out);
  return tree;
}

static void check_same(const char *text, HlMlVersion version, const char *expected) {
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = said_at(cx, text, version), *wanted = read_text(cx, expected);
  const char *where = "";
  if (!hl_ml_equal(wanted, tree, &where))
    fail_msg("%s", where);
  hl_ml_free(tree);
  hl_ml_free(wanted);
  hl_cx_free(cx);
}

static void older_versions_say_it_otherwise(void **state) {
  check_same("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
             "  %0 = stablehlo.tan %a : tensor<2xf32>\n"
             "  return %0 : tensor<2xf32>\n"
             "}",
             at(1, 3),
             "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
             "  %0 = stablehlo.sine %a : tensor<2xf32>\n"
             "  %1 = stablehlo.cosine %a : tensor<2xf32>\n"
             "  %2 = stablehlo.divide %0, %1 : tensor<2xf32>\n"
             "  return %2 : tensor<2xf32>\n"
             "}");
  check_same(
      "func.func @main(%a: tensor<3x4xf32>, %i: tensor<3x2xi32>) -> tensor<3x2xf32> {\n"
      "  %0 = \"stablehlo.gather\"(%a, %i) <{dimension_numbers = #stablehlo.gather<\n"
      "    collapsed_slice_dims = [1], operand_batching_dims = [0],\n"
      "    start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>,\n"
      "    slice_sizes = array<i64: 1, 1>}> :\n"
      "    (tensor<3x4xf32>, tensor<3x2xi32>) -> tensor<3x2xf32>\n"
      "  return %0 : tensor<3x2xf32>\n"
      "}",
      at(1, 0),
      "func.func @main(%a: tensor<3x4xf32>, %i: tensor<3x2xi32>) -> tensor<3x2xf32> {\n"
      "  %0 = stablehlo.reshape %i : (tensor<3x2xi32>) -> tensor<3x2x1xi32>\n"
      "  %1 = stablehlo.iota dim = 0 : tensor<3x2x1xi32>\n"
      "  %2 = stablehlo.concatenate %1, %0, dim = 2 :\n"
      "    (tensor<3x2x1xi32>, tensor<3x2x1xi32>) -> tensor<3x2x2xi32>\n"
      "  %3 = \"stablehlo.gather\"(%a, %2) <{dimension_numbers = #stablehlo.gather<\n"
      "    collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>,\n"
      "    slice_sizes = array<i64: 1, 1>}> :\n"
      "    (tensor<3x4xf32>, tensor<3x2x2xi32>) -> tensor<3x2xf32>\n"
      "  return %3 : tensor<3x2xf32>\n"
      "}");
  check_same("module {\n"
             "  sdy.mesh @m = <[\"x\"=2, \"y\"=2, \"z\"=2]>\n"
             "  func.func @main(%a: tensor<4xf32>) {\n"
             "    %0 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups =\n"
             "      #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name "
             "= \"z\">,\n"
             "      #stablehlo.axis_ref<name = \"x\">]>}> : (tensor<4xf32>) -> tensor<16xf32>\n"
             "    return\n"
             "  }\n"
             "}",
             at(1, 15),
             "module {\n"
             "  sdy.mesh @m = <[\"x\"=2, \"y\"=2, \"z\"=2]>\n"
             "  func.func @main(%a: tensor<4xf32>) {\n"
             "    %0 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups =\n"
             "      dense<[[0, 4, 1, 5], [2, 6, 3, 7]]> : tensor<2x4xi64>}> :\n"
             "      (tensor<4xf32>) -> tensor<16xf32>\n"
             "    return\n"
             "  }\n"
             "}");
}

static void versions_are_known(void **state) {
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = read_text(cx, plain);
  HlBuf out = {0};
  static const int wrong[][2] = {{0, 8}, {1, 21}, {2, 0}, {-1, 0}, {0, 0}};
  for (int k = 0; k < HL_COUNT_OF(wrong); k++) {
    hl_cx_clear(cx);
    assert_false(hl_ml_artifact_write(cx, tree, at(wrong[k][0], wrong[k][1]), &out));
    assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  }
  hl_buf_free(&out);
  hl_ml_free(tree);
  hl_cx_free(cx);
}

// --- The format ----------------------------------------------------------------------------------

static void the_bytecode_fits_the_version(void **state) {
  static const struct {
    int major, minor, bytecode;
  } cases[] = {{0, 9, 0},  {0, 10, 1}, {0, 11, 1}, {0, 12, 3},
               {0, 13, 3}, {0, 14, 4}, {0, 15, 6}, {1, 20, 6}};
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = read_text(cx, plain);
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlBuf out = {0};
    char producer[32];
    snprintf(producer, sizeof producer, "StableHLO_v%d.%d.7", cases[k].major, cases[k].minor);
    HlMlVersion version = {cases[k].major, cases[k].minor, 7};
    assert_true(hl_ml_artifact_write(cx, tree, version, &out));
    assert_memory_equal(out.at, "ML\xefR", 4);
    assert_int_equal((uint8_t)out.at[4] >> 1, cases[k].bytecode);
    assert_string_equal(out.at + 5, producer);
    hl_buf_free(&out);
  }
  hl_ml_free(tree);
  hl_cx_free(cx);
}

static void newer_files_are_refused(void **state) {
  HlCx *cx = hl_cx_new();
  assert_null(read_bytes(cx, "ML\xefR\x0dStableHLO_v2.0.0\0", 22));
  assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  assert_true(holds(cx, "2.0.0"));
  hl_cx_clear(cx);
  assert_null(read_bytes(cx, "ML\xefR\x0fMLIR", 9));
  assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  assert_true(holds(cx, "version 7"));
  hl_cx_clear(cx);
  assert_null(read_bytes(cx, "MLIR", 4));
  assert_int_equal(hl_cx_error_kind(cx), HL_INVALID);
  hl_cx_free(cx);
}

static void releases(void **state) {
  (void)state;
  int n;
  const HlMlRelease *release = hl_ml_releases(&n);
  const HlMlVersion newest = HL_ML_NEWEST, last = release[n - 1].newest,
                    portable = hl_ml_portable_version();
  assert_memory_equal(&newest, &last, sizeof newest);
  assert_memory_equal(&portable, &release[n - 1].week_12, sizeof portable);
  HlMlVersion version;
  assert_true(hl_ml_version_of("newest", &version));
  assert_memory_equal(&version, &newest, sizeof version);
  assert_true(hl_ml_version_of("1.13.7", &version));
  assert_int_equal(version.minor * 100 + version.patch, 1307);
  assert_false(hl_ml_version_of("1", &version));
  assert_false(hl_ml_version_of("1.2.3.4", &version));
  assert_false(hl_ml_version_of("-1.2", &version));
  assert_false(hl_ml_version_of("", &version));
}

static void every_cut_is_an_error(void **state) {
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = read_text(cx, plain);
  HlBuf out = {0};
  assert_true(hl_ml_artifact_write(cx, tree, HL_ML_NEWEST, &out));
  for (size_t n = 0; n < out.n; n++) {
    hl_cx_clear(cx);
    assert_null(read_bytes(cx, out.at, n));
    assert_int_equal(hl_cx_n_errors(cx), 1);
    assert_true(hl_cx_diag(cx, 0)->loc > 0);
  }
  hl_buf_free(&out);
  hl_ml_free(tree);
  hl_cx_free(cx);
}

static void damage_is_an_error_or_another_program(void **state) {
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->literal_bytes = 1 << 20;
  static const char *const texts[] = {plain, sharded};
  HlRng rng = {1};
  for (int k = 0; k < 3000; k++) {
    hl_cx_clear(cx);
    HlMlTree *tree = read_text(cx, texts[k % 2]);
    HlBuf out = {0};
    assert_true(hl_ml_artifact_write(cx, tree, k % 4 < 2 ? HL_ML_NEWEST : at(1, 11), &out));
    hl_ml_free(tree);
    for (int j = 0; j <= k % 3; j++)
      out.at[hl_rng_below(&rng, (int64_t)out.n)] = (char)hl_rng_u64(&rng);
    tree = read_bytes(cx, out.at, out.n);
    assert_int_equal(tree == NULL, hl_cx_n_errors(cx) > 0);
    hl_ml_free(tree);
    hl_buf_free(&out);
  }
  hl_cx_free(cx);
}

// --- Files of others -----------------------------------------------------------------------------

static void check_file(const char *folder, const char *name) {
  char path[4096];
  HlCx *cx = hl_cx_new();
  snprintf(path, sizeof path, "%s/%s", folder, name);
  HlSource *bytes = hl_read_file(cx, path);
  path[strlen(path) - 3] = 0;  // .bc
  HlSource *text = hl_read_file(cx, path);
  assert_non_null(bytes);
  assert_non_null(text);
  HlMlTree *tree = hl_ml_bytecode_read(cx, bytes);
  if (strstr(name, "invalid")) {
    assert_null(tree);
    assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  } else {
    HlMlTree **trees;
    int n;
    const char *where = "";
    assert_non_null(tree);
    assert_true(hl_ml_text_read(cx, text, &trees, &n));
    if (!hl_ml_equal(trees[0], tree, &where))
      fail_msg("%s: %s", name, where);
    check_version(cx, tree, tree->version);
    for (int k = 0; k < n; k++)
      hl_ml_free(trees[k]);
    free(trees);
  }
  hl_ml_free(tree);
  hl_source_unref(bytes);
  hl_source_unref(text);
  hl_cx_free(cx);
}

static void files_of_every_version_are_their_text(void **state) {
  const char *corpus = test_corpus();
  if (!corpus)
    skip();
  char folder[2048];
  int n_files = 0;
  snprintf(folder, sizeof folder, "%s/stablehlo/vhlo", corpus);
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
    size_t n = strlen(entry->d_name);
    if (n > 3 && strcmp(entry->d_name + n - 3, ".bc") == 0) {
      check_file(folder, entry->d_name);
      n_files++;
    }
  }
  closedir(dir);
  assert_true(n_files >= 18);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(releases),
      cmocka_unit_test(programs_come_back),
      cmocka_unit_test(elements_come_back),
      cmocka_unit_test(defaults_come_back),
      cmocka_unit_test(types_come_back),
      cmocka_unit_test(other_dialects_are_mixed_in),
      cmocka_unit_test(versions_have_limits),
      cmocka_unit_test(older_versions_say_it_otherwise),
      cmocka_unit_test(versions_are_known),
      cmocka_unit_test(the_bytecode_fits_the_version),
      cmocka_unit_test(newer_files_are_refused),
      cmocka_unit_test(every_cut_is_an_error),
      cmocka_unit_test(damage_is_an_error_or_another_program),
      cmocka_unit_test(files_of_every_version_are_their_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
