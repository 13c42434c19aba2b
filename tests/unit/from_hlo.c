// HLO as StableHLO and MHLO: what each kind of instruction becomes, what is noted and what is refused.
#include "hilo/mlir.h"
#include "hilo/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
  const char *hlo;      // a module, or the instructions of its entry
  const char *want[6];  // parts of the text, in this order
} Case;

static HlModule *read_module(HlCx *cx, const char *hlo) {
  HlBuf text = {0};
  if (strncmp(hlo, "HloModule", 9) == 0)
    hl_buf_puts(&text, hlo);
  else
    hl_buf_printf(&text, "HloModule m\nENTRY e {\n%s\n}\n", hlo);
  HlModule *m = hl_text_parse(cx, text.at);
  hl_buf_free(&text);
  return m;
}

static void print_diags(HlCx *cx) {
  HlBuf text = {0};
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    hl_diag_render(hl_cx_diag(cx, k), false, &text);
  if (text.n)
    fputs(text.at, stderr);
  hl_buf_free(&text);
}

// The text of the module, which also verifies; NULL with errors in the context.
static char *write_text(HlCx *cx, const char *hlo, bool mhlo) {
  HlModule *m = read_module(cx, hlo);
  HlMlTree *tree = m ? hl_ml_from_hlo(cx, m, mhlo) : NULL;
  hl_module_free(m);
  HlBuf out = {0};
  if (tree && (mhlo || hl_ml_verify(cx, tree)))
    hl_ml_text_print(tree, &(HlMlTextOptions){.large_constants = true}, &out);
  hl_ml_free(tree);
  return out.at;
}

static void expect_cases(int n, const Case *cases, bool mhlo) {
  for (int k = 0; k < n; k++) {
    HlCx *cx = hl_cx_new();
    char *text = write_text(cx, cases[k].hlo, mhlo);
    if (!text)
      print_diags(cx);
    assert_non_null(text);
    const char *at = text;
    for (int w = 0; w < HL_COUNT_OF(cases[k].want) && cases[k].want[w]; w++) {
      at = strstr(at, cases[k].want[w]);
      if (!at)
        print_message("missing: %s\nin:\n%s\n", cases[k].want[w], text);
      assert_non_null(at);
    }
    free(text);
    hl_cx_free(cx);
  }
}

static void elementwise_keeps_its_name(void **state) {
  (void)state;
  static const Case cases[] = {
      {"a = f32[2] parameter(0)\nROOT r = f32[2] add(a, a)",
       {"stablehlo.add %arg0, %arg0 : tensor<2xf32>"}},
      {"a = u8[2] parameter(0)\nROOT r = u8[2] abs(a)", {"return %arg0 : tensor<2xui8>"}},
      {"a = u32[] parameter(0)\nROOT r = pred[] compare(a, a), direction=LT",
       {"stablehlo.compare LT, %arg0, %arg0 : (tensor<ui32>, tensor<ui32>) -> tensor<i1>"}},
      {"a = f32[] parameter(0)\nROOT r = pred[] compare(a, a), direction=GE, type=TOTALORDER",
       {"TOTALORDER"}},
      {"a = f32[] parameter(0)\nb = bf16[] parameter(1)\nROOT r = f32[] add(a, b)",
       {"stablehlo.convert %arg1 : (tensor<bf16>) -> tensor<f32>", "stablehlo.add"}},
      {"a = f32[3] parameter(0)\nROOT r = f32[3] erf(a)",
       {"chlo.erf %arg0 : tensor<3xf32> -> tensor<3xf32>"}},
      {"a = s32[3] parameter(0)\nROOT r = s32[3] mulhi(a, a)", {"chlo.mulhi %arg0, %arg0"}},
      {"a = pred[4] parameter(0)\nROOT r = u8[4] bitcast-convert(a)", {"stablehlo.convert %arg0"}},
      {"a = f32[4] parameter(0)\nROOT r = f32[4] tanh(a), result_accuracy={mode=highest}",
       {"result_accuracy", "HIGHEST"}},
      {"a = f32[4] parameter(0)\nu = u32[4] parameter(1)\nROOT r = s8[4] stochastic-convert(a, u)",
       {"stablehlo.floor", "stablehlo.compare", "stablehlo.select", "tensor<4xi8>"}}};
  expect_cases(HL_COUNT_OF(cases), cases, false);
}

static void movement_follows_layouts(void **state) {
  (void)state;
  static const Case cases[] = {
      {"a = f32[3] parameter(0)\nROOT r = f32[2,3] broadcast(a), dimensions={1}",
       {"stablehlo.broadcast_in_dim %arg0, dims = [1]"}},
      {"a = f32[2,3] parameter(0)\nROOT r = f32[6] bitcast(a)", {"stablehlo.reshape %arg0"}},
      {"a = f32[2,3]{0,1} parameter(0)\nROOT r = f32[6] bitcast(a)",
       {"stablehlo.transpose %arg0, dims = [1, 0]", "stablehlo.reshape", "tensor<6xf32>"}},
      {"a = f32[2,3] parameter(0)\nROOT r = f32[3,2]{0,1} bitcast(a)",
       {"stablehlo.transpose %arg0, dims = [1, 0]"}},
      {"a = f32[2] parameter(0)\nROOT r = u8[8] bitcast(a)",
       {"stablehlo.bitcast_convert", "tensor<2x4xui8>", "tensor<8xui8>"}},
      {"a = f32[4,6] parameter(0)\ni = s32[2] parameter(1)\n"
       "ROOT r = f32[1,2] dynamic-slice(a, i), dynamic_slice_sizes={1,2}",
       {"stablehlo.slice %arg1 [0:1]", "stablehlo.slice %arg1 [1:2]",
        "stablehlo.dynamic_slice %arg0"}},
      {"a = f32[4] parameter(0)\nROOT r = f32[4] copy(a)", {"return %arg0"}},
      {"a = f32[4] parameter(0)\nROOT r = bf16[2] slice(a), slice={[0:2]}",
       {"stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xbf16>", "stablehlo.slice %0 [0:2]"}},
      {"a = f32[8] parameter(0)\nt = (f32[2], s32[2]) topk(a), k=2, largest=true\nROOT r = s32[2] "
       "get-tuple-element(t), index=1",
       {"chlo.top_k(%arg0, k = 2)"}},
      {"a = f32[8] parameter(0)\nt = (f32[2], s32[2]) topk(a), k=2, largest=false\nROOT r = s32[2] "
       "get-tuple-element(t), index=1",
       {"\"stablehlo.sort\"", "is_stable = true", "LT", "TOTALORDER", "[0:2]"}}};
  expect_cases(HL_COUNT_OF(cases), cases, false);
}

static void tuples_are_flattened(void **state) {
  (void)state;
  static const Case cases[] = {
      {"p = (f32[2], (s32[], pred[3])) parameter(0)\ni = (s32[], pred[3]) get-tuple-element(p), "
       "index=1\n"
       "n = s32[] get-tuple-element(i), index=0\nROOT r = (s32[], (s32[], pred[3])) tuple(n, i)",
       {"%arg0: tensor<2xf32>, %arg1: tensor<i32>, %arg2: tensor<3xi1>",
        "(tensor<i32>, tensor<i32>, tensor<3xi1>)", "return %arg1, %arg1, %arg2"}},
      {"HloModule m\nc { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), "
       "index=0\n ten = s32[] constant(10)\n"
       " ROOT l = pred[] compare(i, ten), direction=LT }\n"
       "b { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[] "
       "get-tuple-element(s), index=1\n"
       " one = s32[] constant(1)\n j = s32[] add(i, one)\n ROOT t = (s32[], f32[]) tuple(j, x) }\n"
       "ENTRY e { s = (s32[], f32[]) parameter(0)\n ROOT w = (s32[], f32[]) while(s), condition=c, "
       "body=b }",
       {"stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<i32>, tensor<f32>", "cond",
        "do"}},
      {"HloModule m\nneg { x = f32[] parameter(0)\n ROOT r = f32[] negate(x) }\nid { x = f32[] "
       "parameter(0)\n ROOT r = f32[] copy(x) }\n"
       "ENTRY e { p = pred[] parameter(0)\n a = f32[] parameter(1)\n b = f32[] parameter(2)\n"
       " ROOT r = f32[] conditional(p, a, b), true_computation=neg, false_computation=id }",
       {"\"stablehlo.if\"(%arg0)", "stablehlo.negate %arg1", "stablehlo.return %arg2"}}};
  expect_cases(HL_COUNT_OF(cases), cases, false);
}

#define ADD "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"

static void regions_are_written_in_place(void **state) {
  (void)state;
  static const Case cases[] = {
      {"HloModule m\n" ADD "ENTRY e { x = f32[3,4] parameter(0)\n z = f32[] constant(0)\n"
       " ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add }",
       {"stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [1]"}},
      {"HloModule m\n" ADD "ENTRY e { x = bf16[4] parameter(0)\n"
       " ROOT r = bf16[4] all-reduce(x), replica_groups={{0,1}}, channel_id=3, "
       "use_global_device_ids=true, to_apply=add }",
       {"\"stablehlo.all_reduce\"", "handle = 3", "dense<[[0, 1]]>", "use_global_device_ids",
        "tensor<bf16>", "stablehlo.convert"}},
      {"HloModule m\nf { a = f32[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT r = f32[4] "
       "multiply(a, b) }\n"
       "ENTRY e { x = f32[4] parameter(0)\n ROOT c = f32[4] fusion(x, x), kind=kLoop, calls=f }",
       {"stablehlo.multiply %arg0, %arg0"}},
      {"HloModule m\nf { a = f32[] parameter(0)\n ROOT r = f32[] negate(a) }\n"
       "ENTRY e { x = f32[] parameter(0)\n y = f32[] call(x), to_apply=f\n ROOT z = f32[] call(y), "
       "to_apply=f }",
       {"func.func public @main", "call @f(%arg0)", "call @f(%0)", "func.func private @f"}},
      {"HloModule m\nf { a = f32[4] parameter(0)\n ROOT r = f32[4] negate(a) }\n"
       "ENTRY e { x = f32[4] parameter(0)\n s = ((f32[4]), f32[4], u32[]) async-start(x), calls=f\n"
       " ROOT d = f32[4] async-done(s), calls=f }",
       {"stablehlo.negate %arg0"}}};
  expect_cases(HL_COUNT_OF(cases), cases, false);
}

static void collectives_take_the_forms_they_have(void **state) {
  (void)state;
  static const Case cases[] = {
      {"HloModule m, replica_count=2\nENTRY e { a = f32[4,4] parameter(0)\n"
       " ROOT r = f32[4,4] all-to-all(a), replica_groups={}, dimensions={1} }",
       {"\"stablehlo.all_to_all\"(%arg0)", "concat_dimension = 1", "dense<[[0, 1]]>",
        "split_count = 2"}},
      {"HloModule m, replica_count=2\nENTRY e { a = f32[3] parameter(0)\n b = f32[3] parameter(1)\n"
       " ROOT r = (f32[3], f32[3]) all-to-all(a, b), replica_groups={{0,1}} }",
       {"stablehlo.concatenate", "\"stablehlo.all_to_all\"", "stablehlo.slice", "stablehlo.slice"}},
      {"HloModule m, replica_count=2\nENTRY e { a = f32[4] parameter(0)\n"
       " s = (f32[4], f32[8]) all-gather-start(a), replica_groups={{0,1}}, dimensions={0}\n ROOT d "
       "= f32[8] all-gather-done(s) }",
       {"\"stablehlo.all_gather\"(%arg0)", "tensor<8xf32>", "return %0"}},
      {"t = token[] after-all()\na = f32[3] parameter(0)\n"
       "s = (f32[3], u32[], token[]) send(a, t), channel_id=5, is_host_transfer=true\n"
       "ROOT d = token[] send-done(s), channel_id=5, is_host_transfer=true",
       {"stablehlo.create_token", "\"stablehlo.send\"", "handle = 5, type = 2",
        "is_host_transfer = true"}},
      {"t = token[] after-all()\nr = (f32[3], u32[], token[]) recv(t), channel_id=6\n"
       "d = (f32[3], token[]) recv-done(r), channel_id=6\nROOT x = f32[3] get-tuple-element(d), "
       "index=0",
       {"\"stablehlo.recv\"", "handle = 6, type = 1", "return %1#0"}},
      {"a = f32[3] parameter(0)\nt = token[] after-all()\nROOT r = f32[3] add-dependency(a, t)",
       {"stablehlo.optimization_barrier %arg0, %0"}}};
  expect_cases(HL_COUNT_OF(cases), cases, false);
}

static void what_goes_along_is_kept(void **state) {
  (void)state;
  static const Case cases[] = {
      {"HloModule named, input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, "
       "replica_count=2, num_partitions=4\n"
       "ENTRY e { a = f32[2] parameter(0), sharding={devices=[4]<=[4]}\n b = f32[2] parameter(1)\n "
       "ROOT r = f32[2] add(a, b) }",
       {"module @named", "mhlo.num_partitions = 4 : i32", "mhlo.num_replicas = 2 : i32",
        "mhlo.sharding = \"{devices=[4]<=[4]}\"", "tf.aliasing_output = 0 : i32",
        "jax.buffer_donor = true"}},
      {"HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{1,0}}\n"
       "ENTRY e { a = f32[2,3]{0,1} parameter(0)\n ROOT r = f32[2,3] copy(a) }",
       {"mhlo.xla_entry_computation_parameter_layouts = [dense<[0, 1]> : tensor<2xindex>]",
        "mhlo.xla_entry_computation_result_layout = [dense<[1, 0]> : tensor<2xindex>]"}},
      {"a = f32[2] parameter(0)\nROOT r = f32[2] negate(a), frontend_attributes={k=\"v\"}, "
       "sharding={replicated}",
       {"mhlo.frontend_attributes = {k = \"v\"}", "mhlo.sharding = \"{replicated}\""}},
      {"a = f32[2,3] parameter(0)\nROOT r = (f32[2,3]{0,1}, s32[]) custom-call(a), "
       "custom_call_target=\"t\", "
       "operand_layout_constraints={f32[2,3]{0,1}}, output_to_operand_aliasing={{0}: (0, {})}, "
       "api_version=API_VERSION_TYPED_FFI, backend_config={n = 1 : i32}",
       {"stablehlo.custom_call @t(%arg0)", "api_version = 4", "backend_config = {n = 1 : i32}",
        "operand_layouts = [dense<[0, 1]>", "output_operand_aliases", "result_layouts"}},
      {"a = f32[2] parameter(0)\nROOT r = (f32[2]) custom-call(a), custom_call_target=\"t\"",
       {"-> tuple<tensor<2xf32>>", "stablehlo.get_tuple_element"}},
      {"HloModule m\nf { a = f32[2] parameter(0)\n ROOT r = f32[2] negate(a) }\n"
       "ENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] call(x), to_apply=f, "
       "is_composite=true, "
       "frontend_attributes={composite.name=\"my.op\",composite.attributes={k = 2 : "
       "i64},composite.version=\"3\"} }",
       {"stablehlo.composite \"my.op\" %arg0", "composite_attributes = {k = 2 : i64}",
        "decomposition = @f", "version = 3"}}};
  expect_cases(HL_COUNT_OF(cases), cases, false);
}

static void mhlo_says_more(void **state) {
  (void)state;
  static const Case cases[] = {
      {"a = f32[3] parameter(0)\nROOT r = f32[3] erf(a)", {"mhlo.erf"}},
      {"a = f32[3] parameter(0)\nROOT r = f32[3] copy(a)", {"mhlo.copy"}},
      {"a = f32[3] parameter(0)\nROOT r = f32[2,3] broadcast(a), dimensions={1}",
       {"mhlo.broadcast_in_dim", "dense<1> : tensor<1xi64>"}},
      {"ROOT r = u64[2] rng-get-and-update-state(), delta=3",
       {"mhlo.xla.rng_get_and_update_state", "delta = 3"}},
      {"HloModule m\nf { a = f32[4] parameter(0)\n ROOT r = f32[4] negate(a) }\n"
       "ENTRY e { x = f32[4] parameter(0)\n ROOT c = f32[4] fusion(x), kind=kLoop, calls=f }",
       {"\"mhlo.fusion\"(%arg0)", "fusion_kind", "mhlo.negate", "mhlo.return"}}};
  expect_cases(HL_COUNT_OF(cases), cases, true);
}

static void losses_are_noted_once(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  char *text =
      write_text(cx,
                 "HloModule m\nf { a = f32[4] parameter(0)\n ROOT r = f32[4] negate(a) }\n"
                 "ENTRY e { x = f32[4] parameter(0)\n c = f32[4] fusion(x), kind=kLoop, calls=f\n"
                 " k = f32[4] constant({...})\n d = f32[4] fusion(c), kind=kLoop, calls=f\n ROOT r "
                 "= f32[4] add(d, k) }",
                 false);
  assert_non_null(text);
  assert_non_null(strstr(text, "dense_resource<__elided__>"));
  int fusions = 0, elided = 0;
  for (int k = 0; k < hl_cx_n_diags(cx); k++) {
    const HlDiag *diag = hl_cx_diag(cx, k);
    fusions += diag->severity == HL_NOTE &&
               strstr(diag->text, "fusions written in place: 2, first 'c'") != NULL;
    elided += diag->severity == HL_NOTE && strstr(diag->text, "1, first 'k'") != NULL;
  }
  assert_int_equal(fusions, 1);
  assert_int_equal(elided, 1);
  free(text);
  hl_cx_free(cx);
}

static void what_cannot_be_said_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *hlo, *names;
  } cases[] = {
      {"ROOT g = u64[2] rng-get-and-update-state(), delta=3", "'g'"},
      {"a = u1[2] parameter(0)\nROOT r = u1[2] not(a)", "u1[2]"},
      {"a = f32[2] parameter(0)\nROOT cc = f32[2] custom-call(a), custom_call_target=\"t\", "
       "api_version=API_VERSION_TYPED_FFI, backend_config=\"no dictionary\"",
       "'cc'"},
      {"a = f32[2,128]{1,0:T(8,128)} parameter(0)\nROOT b = f32[256]{0} bitcast(a)", "'b'"}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlCx *cx = hl_cx_new();
    char *text = write_text(cx, cases[k].hlo, false);
    assert_null(text);
    assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
    assert_int_equal(hl_cx_n_errors(cx), 1);
    if (!strstr(hl_cx_diag(cx, 0)->text, cases[k].names))
      print_message("%s\n", hl_cx_diag(cx, 0)->text);
    assert_non_null(strstr(hl_cx_diag(cx, 0)->text, cases[k].names));
    hl_cx_free(cx);
  }
}

// Computations that are used twice each, level upon level, would be written in place without end.
static void growth_is_limited(void **state) {
  (void)state;
  HlBuf hlo = {0};
  hl_buf_puts(&hlo, "HloModule m\nlevel0 { ROOT a = f32[] parameter(0) }\n");
  for (int k = 1; k < 40; k++)
    hl_buf_printf(
        &hlo,
        "level%d { a = f32[] parameter(0)\n b = f32[] fusion(a), kind=kLoop, calls=level%d\n"
        " ROOT r = f32[] fusion(b), kind=kLoop, calls=level%d }\n",
        k, k - 1, k - 1);
  hl_buf_puts(
      &hlo,
      "ENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] fusion(x), kind=kLoop, calls=level39 }\n");
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->instructions = 10000;
  char *text = write_text(cx, hlo.at, false);
  assert_null(text);
  if (hl_cx_error_kind(cx) != HL_LIMIT)
    print_diags(cx);
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_cx_free(cx);
  hl_buf_free(&hlo);
}

// CHLO's functions travel as calls, of which ops are made again.
static void portable_trees_have_no_chlo(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = read_module(cx, "a = f32[8] parameter(0)\ne = f32[8] erf(a)\n"
                                "ROOT t = (f32[2], s32[2]) topk(e), k=2, largest=true");
  HlMlTree *tree = hl_ml_from_hlo(cx, m, false);
  hl_module_free(m);
  assert_non_null(tree);
  hl_ml_make_portable(tree);
  HlBuf text = {0};
  hl_ml_text_print(tree, &(HlMlTextOptions){.large_constants = true}, &text);
  assert_null(strstr(text.at, "chlo."));
  assert_non_null(strstr(text.at, "custom_call @mhlo.erf"));
  assert_non_null(strstr(text.at, "mhlo.attributes = {k = 2 : i64, largest = true}"));
  hl_buf_free(&text);
  HlModule *back = hl_ml_to_hlo(cx, tree, NULL);
  assert_non_null(back);
  hl_text_print(cx, back, &(HlTextOptions){0}, &text);
  assert_non_null(strstr(text.at, "erf("));
  assert_non_null(strstr(text.at, "topk("));
  hl_buf_free(&text);
  hl_module_free(back);
  hl_ml_free(tree);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise_keeps_its_name),
                                     cmocka_unit_test(movement_follows_layouts),
                                     cmocka_unit_test(tuples_are_flattened),
                                     cmocka_unit_test(regions_are_written_in_place),
                                     cmocka_unit_test(collectives_take_the_forms_they_have),
                                     cmocka_unit_test(what_goes_along_is_kept),
                                     cmocka_unit_test(mhlo_says_more),
                                     cmocka_unit_test(losses_are_noted_once),
                                     cmocka_unit_test(what_cannot_be_said_is_refused),
                                     cmocka_unit_test(growth_is_limited),
                                     cmocka_unit_test(portable_trees_have_no_chlo)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
