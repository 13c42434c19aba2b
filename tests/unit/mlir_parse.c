// The reader of MLIR text: forms that mean the same give the same tree, constants have the bytes they should, and
// what is wrong is refused at its place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/mlir.h"

typedef struct Read {
  HlCx *cx;
  HlSource *source;
  HlMlTree **trees;
  int n;
  bool ok;
} Read;

static Read read_text(const char *text) {
  Read r = {.cx = hl_cx_new(), .source = hl_source_new("test", text, strlen(text), false)};
  r.ok = hl_ml_text_read(r.cx, r.source, &r.trees, &r.n);
  return r;
}

static void done(Read *r) {
  if (r->ok) {
    for (int k = 0; k < r->n; k++)
      hl_ml_free(r->trees[k]);
    free(r->trees);
  }
  hl_source_unref(r->source);
  hl_cx_free(r->cx);
}

static Read read_good(const char *text) {
  Read r = read_text(text);
  if (!r.ok) {
    const HlDiag *diag = hl_cx_diag(r.cx, 0);
    const HlLineCol at = hl_source_line_col(r.source, diag->loc);
    fail_msg("refused at %lld:%lld: %s\n%s", (long long)at.line, (long long)at.column, diag->text,
             text);
  }
  return r;
}

// --- Forms that mean the same ------------------------------------------------------------------------------------

// Bodies of a function of these arguments.
#define ARGUMENTS                                                                              \
  "(%f: tensor<4x3xf32>, %g: tensor<3x4xf32>, %i: tensor<4xi32>, %p: tensor<4x3xi1>, %d: "     \
  "tensor<?x3xf32>, "                                                                          \
  "%c: tensor<4xcomplex<f32>>, %s: tensor<f32>, %t: !stablehlo.token, %u: tuple<tensor<f32>, " \
  "tensor<4xi32>>)"

static void check_same(const char *a, const char *b) {
  char text[2][8192];
  const char *body[] = {a, b};
  Read r[2];
  for (int k = 0; k < 2; k++) {
    snprintf(text[k], sizeof text[k], "func.func @f%s {\n  %s\n  return\n}\n", ARGUMENTS, body[k]);
    r[k] = read_good(text[k]);
    assert_int_equal(r[k].n, 1);
  }
  const char *where;
  if (!hl_ml_equal(r[0].trees[0], r[1].trees[0], &where))
    fail_msg("differ: %s\n%s\n%s", where, a, b);
  done(&r[0]);
  done(&r[1]);
}

static void pretty_forms(void **state) {
  (void)state;
  static const char *const same[][2] = {
      {"%0 = stablehlo.add %f, %f : tensor<4x3xf32>",
       "%0 = \"stablehlo.add\"(%f, %f) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>"},
      {"%0 = stablehlo.add %d, %f {k} : (tensor<?x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>",
       "%0 = \"stablehlo.add\"(%d, %f) {k = unit} : (tensor<?x3xf32>, tensor<4x3xf32>) -> "
       "tensor<4x3xf32>"},
      {"%0 = stablehlo.compare LT, %f, %f : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>",
       "%0 = \"stablehlo.compare\"(%f, %f) <{comparison_direction = "
       "#stablehlo<comparison_direction LT>}> : "
       "(tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>"},
      {"%0 = stablehlo.compare NE, %f, %f, TOTALORDER : (tensor<4x3xf32>, tensor<4x3xf32>) -> "
       "tensor<4x3xi1>",
       "%0 = \"stablehlo.compare\"(%f, %f) {comparison_direction = #stablehlo<comparison_direction "
       "NE>, "
       "compare_type = #stablehlo<comparison_type TOTALORDER>} : "
       "(tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>"},
      {"%0 = stablehlo.select %p, %f, %f : tensor<4x3xi1>, tensor<4x3xf32>",
       "%0 = \"stablehlo.select\"(%p, %f, %f) : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) "
       "-> tensor<4x3xf32>"},
      {"%0 = stablehlo.complex %s, %s : tensor<complex<f32>>",
       "%0 = \"stablehlo.complex\"(%s, %s) : (tensor<f32>, tensor<f32>) -> tensor<complex<f32>>"},
      {"%0 = stablehlo.tuple %s, %i : tuple<tensor<f32>, tensor<4xi32>>",
       "%0 = \"stablehlo.tuple\"(%s, %i) : (tensor<f32>, tensor<4xi32>) -> tuple<tensor<f32>, "
       "tensor<4xi32>>"},
      {"%0 = stablehlo.get_tuple_element %u[1] : (tuple<tensor<f32>, tensor<4xi32>>) -> "
       "tensor<4xi32>",
       "%0 = \"stablehlo.get_tuple_element\"(%u) <{index = 1 : i32}> : "
       "(tuple<tensor<f32>, tensor<4xi32>>) -> tensor<4xi32>"},
      {"%0 = stablehlo.slice %f [1:3, 0:2:2] : (tensor<4x3xf32>) -> tensor<2x1xf32>",
       "%0 = \"stablehlo.slice\"(%f) <{start_indices = array<i64: 1, 0>, limit_indices = "
       "array<i64: 3, 2>, "
       "strides = array<i64: 1, 2>}> : (tensor<4x3xf32>) -> tensor<2x1xf32>"},
      {"%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>",
       "%0 = \"stablehlo.iota\"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi32>"},
      {"%0 = stablehlo.constant {k = 1} dense<2.0> : tensor<2xf32>",
       "%0 = \"stablehlo.constant\"() {value = dense<[2.0, 2.0]> : tensor<2xf32>, k = 1 : i64} : "
       "() -> tensor<2xf32>"},
      {"%0 = stablehlo.reduce_precision %f, format = e5m2 : tensor<4x3xf32>",
       "%0 = \"stablehlo.reduce_precision\"(%f) <{exponent_bits = 5 : i32, mantissa_bits = 2 : "
       "i32}> : "
       "(tensor<4x3xf32>) -> tensor<4x3xf32>"},
      {"%0 = stablehlo.dot_general %f, %g, contracting_dims = [1] x [0], precision = [HIGH, "
       "DEFAULT] : "
       "(tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>",
       "%0 = \"stablehlo.dot_general\"(%f, %g) <{dot_dimension_numbers = "
       "#stablehlo.dot<rhs_contracting_dimensions = "
       "[0], "
       "lhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGH>, "
       "#stablehlo<precision "
       "DEFAULT>]}> "
       ": (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>"},
      {"%0 = stablehlo.reduce(%f init: %s) applies stablehlo.maximum across dimensions = [1] : "
       "(tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>",
       "%0 = \"stablehlo.reduce\"(%f, %s) <{dimensions = array<i64: 1>}> ({\n^bb0(%a: tensor<f32>, "
       "%b: tensor<f32>):\n"
       "%1 = stablehlo.maximum %a, %b : tensor<f32>\nstablehlo.return %1 : tensor<f32>\n}) : "
       "(tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>"},
      {"%0:2 = stablehlo.reduce(%f init: %s), (%f init: %s) across dimensions = [0] : "
       "(tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<3xf32>, "
       "tensor<3xf32>)\n"
       "reducer(%a: tensor<f32>, %b: tensor<f32>) (%x: tensor<f32>, %y: tensor<f32>) {\n"
       "stablehlo.return %b, %y : tensor<f32>, tensor<f32>\n}",
       "%0, %1 = \"stablehlo.reduce\"(%f, %f, %s, %s) ({\n"
       "^entry(%a: tensor<f32>, %x: tensor<f32>, %b: tensor<f32>, %y: tensor<f32>):\n"
       "\"stablehlo.return\"(%b, %y) : (tensor<f32>, tensor<f32>) -> ()\n}) {dimensions = "
       "array<i64: 0>} : "
       "(tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<3xf32>, "
       "tensor<3xf32>)"},
      {"%0:2 = stablehlo.while(%x = %s, %y = %i) : tensor<f32>, tensor<4xi32> attributes {k} cond "
       "{\n"
       "%1 = stablehlo.constant dense<true> : tensor<i1>\nstablehlo.return %1 : tensor<i1>\n} do "
       "{\n"
       "stablehlo.return %x, %y : tensor<f32>, tensor<4xi32>\n}",
       "%0:2 = \"stablehlo.while\"(%s, %i) ({\n^bb0(%x: tensor<f32>, %y: tensor<4xi32>):\n"
       "%1 = stablehlo.constant dense<true> : tensor<i1>\nstablehlo.return %1 : tensor<i1>\n}, {\n"
       "^bb0(%x: tensor<f32>, %y: tensor<4xi32>):\nstablehlo.return %x, %y : tensor<f32>, "
       "tensor<4xi32>\n}) {k} : "
       "(tensor<f32>, tensor<4xi32>) -> (tensor<f32>, tensor<4xi32>)"},
      {"%0 = stablehlo.custom_call @\"a b\"(%s) {api_version = 2 : i32} : (tensor<f32>) -> "
       "tensor<f32>",
       "%0 = \"stablehlo.custom_call\"(%s) <{call_target_name = \"a b\", api_version = 2 : i32}> : "
       "(tensor<f32>) -> tensor<f32>"},
      {"%0 = stablehlo.composite \"n.m\" %s {decomposition = @f} : (tensor<f32>) -> tensor<f32>",
       "%0 = \"stablehlo.composite\"(%s) <{name = \"n.m\", decomposition = @f}> : (tensor<f32>) -> "
       "tensor<f32>"},
      {"%0 = stablehlo.after_all %t, %t : !stablehlo.token",
       "%0 = \"stablehlo.after_all\"(%t, %t) : (!stablehlo.token, !stablehlo.token) -> "
       "!stablehlo.token"},
      {"stablehlo.optimization_barrier()", "\"stablehlo.optimization_barrier\"() : () -> ()"},
      {"%0:2 = stablehlo.optimization_barrier %s, %i : tensor<f32>, tensor<4xi32>",
       "%0:2 = \"stablehlo.optimization_barrier\"(%s, %i) : (tensor<f32>, tensor<4xi32>) -> "
       "(tensor<f32>, "
       "tensor<4xi32>)"},
      {"%0:2 = chlo.top_k(%f, k = 2) : tensor<4x3xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)",
       "%0:2 = \"chlo.top_k\"(%f) <{k = 2 : i64}> : (tensor<4x3xf32>) -> (tensor<4x2xf32>, "
       "tensor<4x2xi32>)"},
      {"%0 = chlo.erf %f : tensor<4x3xf32> -> tensor<4x3xf32>",
       "%0 = \"chlo.erf\"(%f) : (tensor<4x3xf32>) -> tensor<4x3xf32>"},
      {"%0 = func.call @g(%s) : (tensor<f32>) -> tensor<f32>",
       "%0 = \"func.call\"(%s) <{callee = @g}> : (tensor<f32>) -> tensor<f32>"},
      {"%0 = sdy.sharding_constraint %f <@m, [{\"x\", ?}, {\"y\":(2)4}p1], replicated={\"z\"}> : "
       "tensor<4x3xf32>",
       "%0 = \"sdy.sharding_constraint\"(%f) <{sharding = #sdy.sharding<@m, [{\"x\", ?}, "
       "{\"y\":(2)4}p1], "
       "replicated={\"z\"}>}> : (tensor<4x3xf32>) -> tensor<4x3xf32>"},
  };
  for (int k = 0; k < HL_COUNT_OF(same); k++)
    check_same(same[k][0], same[k][1]);
}

static void old_spellings(void **state) {
  (void)state;
  static const char *const same[][2] = {
      {"%0 = \"mhlo.compare\"(%f, %f) {comparison_direction = \"LT\"} : (tensor<4x3xf32>, "
       "tensor<4x3xf32>) -> "
       "tensor<4x3xi1>",
       "%0 = mhlo.compare LT, %f, %f : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>"},
      {"%0 = \"mhlo.compare\"(%f, %f) {comparison_direction = #mhlo<\"comparison_direction LT\">} "
       ": "
       "(tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>",
       "%0 = mhlo.compare LT, %f, %f : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>"},
      {"%0 = \"mhlo.dot_general\"(%f, %g) {dot_dimension_numbers = {lhs_batching_dimensions = "
       "dense<> : tensor<0xi64>, "
       "lhs_contracting_dimensions = dense<1> : tensor<1xi64>, rhs_contracting_dimensions = "
       "dense<0> : tensor<1xi64>}, "
       "precision_config = [\"DEFAULT\", \"HIGHEST\"]} : (tensor<4x3xf32>, tensor<3x4xf32>) -> "
       "tensor<4x4xf32>",
       "%0 = \"mhlo.dot_general\"(%f, %g) {dot_dimension_numbers = "
       "#mhlo.dot<lhs_contracting_dimensions = [1], "
       "rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, "
       "#mhlo<precision HIGHEST>]} : "
       "(tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>"},
      {"%0 = \"std.call\"(%s) {callee = @g} : (tensor<f32>) -> tensor<f32>",
       "%0 = call @g(%s) : (tensor<f32>) -> tensor<f32>"},
      {"%0 = constant dense<1> : tensor<2xi32>",
       "%0 = arith.constant dense<[1, 1]> : tensor<2xi32>"},
  };
  for (int k = 0; k < HL_COUNT_OF(same); k++)
    check_same(same[k][0], same[k][1]);
  Read a =
      read_good("func @f(%a: tensor<f32>) -> tensor<f32> {\n  std.return %a : tensor<f32>\n}\n");
  Read b = read_good("module {\n  func.func @f(%a: tensor<f32>) -> tensor<f32> {\n    return %a : "
                     "tensor<f32>\n  }\n}\n");
  const char *where;
  assert_true(hl_ml_equal(a.trees[0], b.trees[0], &where));
  assert_true(a.trees[0]->bare);
  assert_false(b.trees[0]->bare);
  done(&a);
  done(&b);
}

static void functions(void **state) {
  (void)state;
  Read a = read_good("module @m attributes {k = 1 : i32} {\n"
                     "  func.func private @f(tensor<f32> {a.b = true}, i32) -> (tensor<f32> {c}) "
                     "attributes {d = \"e\"}\n"
                     "  func.func public @g(%x: tensor<f32> {a = 1 : i32} loc(\"x\")) { return "
                     "loc(unknown) } loc(#loc)\n"
                     "}\n#loc = loc(\"f.py\":3:4 to :9)\n");
  Read b = read_good("\"builtin.module\"() <{sym_name = \"m\"}> ({\n"
                     "  \"func.func\"() <{arg_attrs = [{a.b = true}, {}], function_type = "
                     "(tensor<f32>, i32) -> tensor<f32>, "
                     "res_attrs = [{c}], sym_name = \"f\", sym_visibility = \"private\"}> ({}) {d "
                     "= \"e\"} : () -> ()\n"
                     "  \"func.func\"() <{arg_attrs = [{a = 1 : i32}], function_type = "
                     "(tensor<f32>) -> (), sym_name = \"g\", "
                     "sym_visibility = \"public\"}> ({\n  ^bb0(%0: tensor<f32>):\n    "
                     "\"func.return\"() : () -> ()\n  }) : () -> ()\n"
                     "}) {k = 1 : i32} : () -> ()\n");
  const char *where;
  if (!hl_ml_equal(a.trees[0], b.trees[0], &where))
    fail_msg("differ: %s", where);
  const HlMlOp *g = hl_ml_find_symbol(a.trees[0], hl_ml_sym(a.trees[0], "g"));
  assert_non_null(g);
  assert_int_equal(g->location->kind, HL_ML_LOC_FILE);
  assert_int_equal(g->location->line, 3);
  assert_int_equal(g->location->end_column, 9);
  assert_string_equal(hl_ml_body(g, 0)->args[0]->location->sym->text, "x");
  done(&a);
  done(&b);
}

// --- Sections, locations, resources ------------------------------------------------------------------------------

static void sections(void **state) {
  (void)state;
  Read r = read_good(
      "// only a comment\n// -----\nfunc.func private @f()\n// ----- \nfunc.func private @g()\n"
      "// ------ a longer rule parts nothing\nfunc.func private @h()\n// -----");
  assert_int_equal(r.n, 2);
  assert_non_null(hl_ml_find_symbol(r.trees[1], hl_ml_sym(r.trees[1], "h")));
  done(&r);
  r = read_text("func.func @f() { oops\n// -----\nfunc.func private @g()\n// -----\nfunc.func @h() "
                "{ oops }\n");
  assert_false(r.ok);
  assert_int_equal(hl_cx_n_errors(r.cx), 2);
  assert_int_equal(hl_source_line_col(r.source, hl_cx_diag(r.cx, 1)->loc).line, 5);
  done(&r);
  r = read_good("");
  assert_int_equal(r.n, 1);
  done(&r);
}

static void locations(void **state) {
  (void)state;
  Read r = read_good("func.func private @f() loc(#loc1)\n#loc1 = loc(#loc3)\n"
                     "#loc2 = loc(\"a.py\":1:2)\n#loc3 = loc(\"n\"(callsite(#loc2 at "
                     "fused<\"m\">[#loc2, unknown])))\n");
  const HlMlLocation *loc = hl_ml_body(r.trees[0]->module, 0)->first->location;
  assert_int_equal(loc->kind, HL_ML_LOC_NAME);
  assert_string_equal(loc->sym->text, "n");
  loc = loc->child[0];
  assert_int_equal(loc->kind, HL_ML_LOC_CALLSITE);
  assert_int_equal(loc->child[0]->kind, HL_ML_LOC_FILE);
  assert_int_equal(loc->child[0]->line, 1);
  assert_int_equal(loc->child[1]->n, 2);
  assert_int_equal(loc->child[1]->child[1]->line, 0);
  assert_string_equal(loc->child[1]->metadata->sym->text, "m");
  done(&r);
}

static void resources(void **state) {
  (void)state;
  Read r = read_good("func.func @f() {\n  %0 = stablehlo.constant dense_resource<blob> : "
                     "tensor<3xi16>\n  return\n}\n"
                     "{-#\n  dialect_resources: {\n    builtin: {\n      blob: "
                     "\"0x080000000100FFFF0300\"\n    }\n  }\n#-}\n");
  const HlMlOp *op = hl_ml_body(hl_ml_body(r.trees[0]->module, 0)->first, 0)->first;
  const HlMlAttr *value = hl_ml_attr(op, "value");
  assert_int_equal(value->kind, HL_ML_A_RESOURCE);
  assert_int_equal(value->n_elements, 3);
  assert_memory_equal(value->data, ((const int16_t[]){1, -1, 3}), 6);
  assert_int_equal(r.trees[0]->resources[0].alignment, 8);
  done(&r);
}

// --- Constants ---------------------------------------------------------------------------------------------------

static void check_bytes(const char *literal, int64_t n, const void *bytes, size_t n_bytes) {
  char text[1024];
  snprintf(text, sizeof text, "\"a.b\"() {v = dense<%s} : () -> ()\n", literal);
  Read r = read_good(text);
  const HlMlAttr *value = hl_ml_attr(hl_ml_body(r.trees[0]->module, 0)->first, "v");
  if (value->n_elements != n || (n_bytes && memcmp(value->data, bytes, n_bytes) != 0))
    fail_msg("wrong elements: %s", literal);
  done(&r);
}
#define BYTES(literal, n, T, ...) \
  check_bytes(literal, n, ((const T[]){__VA_ARGS__}), sizeof((const T[]){__VA_ARGS__}))

static void constants(void **state) {
  (void)state;
  BYTES("[1, -2, 0x7F]> : tensor<3xi32>", 3, int32_t, 1, -2, 127);
  BYTES("7> : tensor<100xi8>", 1, int8_t, 7);
  BYTES("[5, 5]> : tensor<2xi64>", 1, int64_t, 5);
  BYTES("[255, 128]> : tensor<2xui8>", 2, uint8_t, 255, 128);
  BYTES("[255, 128]> : tensor<2xi8>", 2, int8_t, -1, -128);
  BYTES("[7, -8, 15]> : tensor<3xi4>", 3, int8_t, 7, -8, -1);
  BYTES("\"0x07080F\"> : tensor<3xi4>", 3, int8_t, 7, -8, -1);
  BYTES("\"0x07080F\"> : tensor<3xui4>", 3, uint8_t, 7, 8, 15);
  BYTES("[true, false]> : tensor<2xi1>", 2, uint8_t, 1, 0);
  BYTES("\"0x0100FF\"> : tensor<3xi1>", 3, uint8_t, 1, 0, 1);
  BYTES("\"0x0501\"> : tensor<9xi1>", 9, uint8_t, 1, 0, 1, 0, 0, 0, 0, 0, 1);
  BYTES("\"0xFF\"> : tensor<20xi1>", 1, uint8_t, 1);
  BYTES("[1.5, -0.0]> : tensor<2xf32>", 2, float, 1.5F, -0.0F);
  BYTES("[0x7FC00001, 1.0e-3]> : tensor<2xf32>", 2, uint32_t, 0x7FC00001, 0x3A83126F);
  BYTES("[1.0, 2.5]> : tensor<2xbf16>", 2, uint16_t, 0x3F80, 0x4020);
  BYTES("\"0x0000803F000000C0\"> : tensor<2xf32>", 2, float, 1, -2);
  BYTES("[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>", 2, float, 1, 2, 3, -4);
  BYTES("\"0x0000803F000000400000404000008040\"> : tensor<2xcomplex<f32>>", 2, float, 1, 2, 3, 4);
  BYTES("[[1, 2], // two rows\n [3, 4]]> : tensor<2x2xindex>", 4, int64_t, 1, 2, 3, 4);
  BYTES("18446744073709551615> : tensor<ui64>", 1, uint64_t, UINT64_MAX);
  check_bytes("> : tensor<0x3xf32>", 0, NULL, 0);
  check_bytes("[]> : tensor<0xi1>", 0, NULL, 0);
}

static void shapes(void **state) {
  (void)state;
  Read r = read_good("func.func private @f(tensor<0x10x?xf32>, tensor<2 x 3 x f32>, "
                     "tensor<?x4xf32, #stablehlo.bounds<3, ?>>, "
                     "tensor<2x!quant.uniform<i8<-127:127>:f32:0, {0.5:1, 0.25}>>, !a.b<c -> d>)");
  const HlMlType *type =
      hl_ml_attr(hl_ml_body(r.trees[0]->module, 0)->first, "function_type")->type;
  assert_int_equal(type->n_inputs, 5);
  assert_int_equal(type->element[0]->rank, 3);
  assert_int_equal(type->element[0]->dim[0], 0);
  assert_int_equal(type->element[0]->dim[1], 10);
  assert_true(type->element[0]->dim[2] == HL_UNBOUNDED);
  assert_int_equal(type->element[1]->rank, 2);
  assert_int_equal(hl_ml_bounds(type->element[2]).at[0], 3);
  const HlMlQuant *quant = hl_ml_element(type->element[3])->quant;
  assert_int_equal(quant->n, 2);
  assert_int_equal(quant->min, -127);
  assert_true(quant->scale[1] == 0.25);
  assert_int_equal(quant->zero_point[0], 1);
  assert_string_equal(type->element[4]->text->text, "!a.b<c -> d>");
  done(&r);
}

// --- What is refused -----------------------------------------------------------------------------------------------

typedef struct Refusal {
  const char *text;
  int line, column;
  const char *says;
} Refusal;

static void refusals(void **state) {
  (void)state;
  static const Refusal cases[] = {
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.add %a, %b : tensor<f32>\n  return\n}", 2,
       26, "use of undeclared SSA value name '%b'"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.add %a, %a : tensor<f64>\n  return\n}", 2,
       22,
       "use of value '%a' expects different type than prior uses: 'tensor<f64>' vs 'tensor<f32>'"},
      {"func.func @f(%a: tensor<f32>) {\n  %a = stablehlo.abs %a : tensor<f32>\n  return\n}", 2, 3,
       "redefinition of SSA value '%a'"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %1 : tensor<f32>\n  %1 = "
       "stablehlo.abs %a : tensor<f32>\n"
       "  return\n}",
       2, 8, "operand #0 does not dominate this use"},
      {"func.func @f(%a: tensor<f32>) {\n  %0, %1 = stablehlo.abs %a : tensor<f32>\n  return\n}", 2,
       3, "operation defines 1 results but was provided 2 to bind"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %a#1 : tensor<f32>\n  return\n}", 2,
       22, "reference to invalid result number"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = \"stablehlo.add\"(%a, %a) : (tensor<f32>) -> "
       "tensor<f32>\n  return\n}",
       2, 34, "expected 2 operand types but had 1"},
      {"func.func @f() {\n  foo.bar\n  return\n}", 2, 3, "custom op 'foo.bar' is unknown"},
      {"func.func @f() {\n  stablehlo.gather\n  return\n}", 2, 3,
       "'stablehlo.gather' has no pretty form"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>\n  return\n}", 2,
       33, "inferred shape of elements literal does not match type 'tensor<3xi32>'"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<1> : tensor<3xf32>\n  return\n}", 2, 33,
       "expected floating-point elements, but parsed integer"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<1.0> : tensor<3xi32>\n  return\n}", 2, 33,
       "expected integer elements, but parsed floating-point"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<300> : tensor<3xi8>\n  return\n}", 2, 33,
       "out of range"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<\"0x01\"> : tensor<3xi32>\n  return\n}",
       2, 33, "elements hex data size is invalid"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<1> : tensor<?xi32>\n  return\n}", 2, 38,
       "must have static shape"},
      {"func.func private @f(tensor<4xf33>)", 1, 31, "expected a type"},
      {"func.func private @f(tensor<3xf32, #stablehlo.bounds<3>>)", 1, 22,
       "static dimension 0 cannot have a bound"},
      {"func.func private @f() loc(#loc1)\n", 1, 28, "location alias '#loc1' was never defined"},
      {"#loc1 = loc(\"a\"(#loc2))\n#loc2 = loc(\"b\"(#loc1))\n", 1, 1, "refers to itself"},
      {"func.func private @f(!foo)", 1, 22, "undefined symbol alias id 'foo'"},
      {"\"a.b\"() {k = #foo} : () -> ()", 1, 14, "undefined symbol alias id 'foo'"},
      {"\"a.b\"() {k = 1, k = 2} : () -> ()", 1, 1, "attribute 'k' occurs more than once"},
      {"\"a.b\"() {k = \"x} : () -> ()\n", 1, 14, "never closed"},
      {"\"a.b\"()[^bb1] : () -> ()", 1, 9, "reference to an undefined block '^bb1'"},
      {"func.func @f() {\n  \"a.b\"()[^bb1] : () -> ()\n}", 2, 11,
       "reference to an undefined block '^bb1'"},
      {"func.func @f() {\n^bb0:\n  return\n^bb0:\n  return\n}", 4, 1,
       "redefinition of block '^bb0'"},
      {"\"a.b\"() {k = #stablehlo.gather<offset_dims = [0],\n  offset_dims = [1]>} : () -> ()", 2,
       3, "duplicated 'offset_dims' entry"},
      {"func.func @f(%a: f32) {\n  %0 = stablehlo.reduce_precision %a, format = e2147483648m1 : "
       "f32\n  return\n}",
       2, 48, "unable to parse exponent"},
      {"func.func @f(%p: i1) {\n  \"a.b\"()[^x, ^y] : () -> ()\n^x:\n  %0 = \"a.c\"() : () -> i1\n "
       " \"a.b\"()[^y] : () "
       "-> ()\n"
       "^y:\n  \"a.d\"(%0) : (i1) -> ()\n}",
       7, 3, "operand #0 does not dominate this use"},
      {"func.func @f() {\n  return // done\n\n", 2, 9,
       "expected operation name in quotes, but found the end of the text"},
      {"func.func @f(%a: tensor<2xf32>) {\n  %0 = mhlo.reduce(%a init: %a) applies mhlo.subtract "
       "across dimensions = "
       "[0] : "
       "(tensor<2xf32>, tensor<2xf32>) -> tensor<f32>\n  return\n}",
       2, 8, "expected the inner-op to be a commutative"},
  };
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    const Refusal *c = &cases[k];
    Read r = read_text(c->text);
    if (r.ok)
      fail_msg("accepted, but expected: %s\n%s", c->says, c->text);
    const HlDiag *diag = hl_cx_diag(r.cx, 0);
    const HlLineCol at = hl_source_line_col(r.source, diag->loc);
    if (at.line != c->line || at.column != c->column || !strstr(diag->text, c->says))
      fail_msg("%lld:%lld: %s\nexpected %d:%d: %s\n%s", (long long)at.line, (long long)at.column,
               diag->text, c->line, c->column, c->says, c->text);
    done(&r);
  }
}

static void scopes(void **state) {
  (void)state;
  Read r = read_good(
      "func.func @f(%p: tensor<i32>, %x: tensor<f32>) {\n"
      "  %0 = \"stablehlo.case\"(%p) ({\n    %1 = stablehlo.abs %x : tensor<f32>\n    "
      "stablehlo.return "
      "%1 : tensor<f32>\n"
      "  }, {\n    %1 = stablehlo.negate %x : tensor<f32>\n    stablehlo.return %1 : tensor<f32>\n"
      "  }) : (tensor<i32>) -> tensor<f32>\n  %1 = stablehlo.abs %0 : tensor<f32>\n  return\n}\n"
      "func.func @g(%x: i1) {\n  \"a.b\"()[^two] : () -> ()\n^one:\n  \"a.c\"(%1) ({\n    "
      "\"a.d\"(%1, "
      "%x) : (i1, i1) -> ()\n"
      "  }) : (i1) -> ()\n^two:\n  %1 = \"a.e\"() : () -> i1\n  \"a.b\"()[^one] : () -> ()\n}\n");
  const HlMlOp *g = hl_ml_find_symbol(r.trees[0], hl_ml_sym(r.trees[0], "g"));
  const HlMlBlock *one = hl_ml_body(g, 0)->next, *two = one->next;
  assert_string_equal(one->label->text, "one");
  assert_ptr_equal(one->first->operands[0], &two->first->results[0]);
  assert_ptr_equal(hl_ml_body(one->first, 0)->first->operands[0], &two->first->results[0]);
  assert_ptr_equal(hl_ml_body(g, 0)->first->successors[0], two);
  done(&r);
}

// --- Limits --------------------------------------------------------------------------------------------------------

static void check_limit(const char *text) {
  HlCx *cx = hl_cx_new();
  HlLimits *limits = hl_cx_limits(cx);
  limits->instructions = 10;
  limits->nesting = 50;
  limits->literal_bytes = 100;
  limits->tuple_leaves = 100;
  HlSource *source = hl_source_new("test", text, strlen(text), false);
  HlMlTree **trees;
  int n;
  assert_false(hl_ml_text_read(cx, source, &trees, &n));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_source_unref(source);
  hl_cx_free(cx);
}

static void repeat(HlBuf *out, const char *text, int n) {
  for (int k = 0; k < n; k++)
    hl_buf_puts(out, text);
}

static void limits(void **state) {
  (void)state;
  HlBuf text = {0};
  repeat(&text, "\"a.b\"() : () -> ()\n", 11);
  check_limit(text.at);
  text.n = 0;
  repeat(&text, "\"a.b\"() ({\n", 60);
  check_limit(text.at);
  text.n = 0;
  hl_buf_puts(&text, "\"a.b\"() {k = ");
  repeat(&text, "[", 60);
  check_limit(text.at);
  text.n = 0;
  hl_buf_puts(&text, "func.func private @f(");
  repeat(&text, "tuple<", 60);
  check_limit(text.at);
  text.n = 0;
  hl_buf_puts(&text, "!a = tuple<i1, i1>\n!b = tuple<!a, !a, !a, !a>\n!c = tuple<!b, !b, !b, "
                     "!b>\n!d = tuple<!c, !c, !c>\n");
  check_limit(text.at);
  text.n = 0;
  hl_buf_puts(&text, "#loc1 = loc(\"a\")\n");
  for (int k = 2; k < 70; k++)
    hl_buf_printf(&text, "#loc%d = loc(fused[#loc%d, #loc%d])\n", k, k - 1, k - 1);
  check_limit(text.at);
  text.n = 0;
  hl_buf_puts(&text, "\"a.b\"() {k = dense<\"0x");
  repeat(&text, "00", 101);
  hl_buf_puts(&text, "\"> : tensor<101xi8>} : () -> ()");
  check_limit(text.at);
  hl_buf_free(&text);
}

static void sniffing(void **state) {
  (void)state;
  static const char *const yes[] = {"module {}",
                                    " // c\nmodule @m {",
                                    "func.func @f() {",
                                    "func @f",
                                    "#loc = loc(unknown)",
                                    "!t = i1",
                                    "\"stablehlo.add\"(%0)",
                                    "%0 = stablehlo.iota",
                                    "%0:2, %1 = \"a.b\"()",
                                    "sdy.mesh @m = <[]>",
                                    "{-# dialect_resources",
                                    "vhlo.func_v1 @f"};
  static const char *const no[] = {"",
                                   "HloModule m",
                                   "%f (p: f32[]) -> f32[] {",
                                   "ENTRY %e {",
                                   "{ lambda ; a:f32[]. let",
                                   "name: \"m\"",
                                   "f {\n",
                                   "// nothing",
                                   "module_name",
                                   "{"};
  for (int k = 0; k < HL_COUNT_OF(yes); k++)
    if (!hl_ml_text_sniff(hl_str(yes[k])))
      fail_msg("not known as MLIR: %s", yes[k]);
  for (int k = 0; k < HL_COUNT_OF(no); k++)
    if (hl_ml_text_sniff(hl_str(no[k])))
      fail_msg("taken for MLIR: %s", no[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pretty_forms), cmocka_unit_test(old_spellings), cmocka_unit_test(functions),
      cmocka_unit_test(sections),     cmocka_unit_test(locations),     cmocka_unit_test(resources),
      cmocka_unit_test(constants),    cmocka_unit_test(shapes),        cmocka_unit_test(refusals),
      cmocka_unit_test(scopes),       cmocka_unit_test(limits),        cmocka_unit_test(sniffing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
