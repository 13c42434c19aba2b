// MLIR to HLO: entries of files, shapes, shardings of meshes, simplification, errors.

#include "hilo/mlir.h"
#include "hilo/text.h"
#include "hilo/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Program {
  HlCx *cx;
  HlMlTree *tree;
  HlModule *m;
} Program;

static Program read_program(const char *text) {
  Program p = {.cx = hl_cx_new()};
  HlSource *source = hl_source_new("program", text, strlen(text), false);
  HlMlTree **trees = NULL;
  int n = 0;
  assert_true(hl_ml_text_read(p.cx, source, &trees, &n));
  assert_int_equal(n, 1);
  p.tree = trees[0];
  free(trees);
  hl_source_unref(source);
  return p;
}

static void release(Program *p) {
  hl_module_free(p->m);
  hl_ml_free(p->tree);
  hl_cx_free(p->cx);
}

static Program convert(const char *text) {
  Program p = read_program(text);
  p.m = hl_ml_to_hlo(p.cx, p.tree, NULL);
  assert_non_null(p.m);
  assert_true(hl_verify(p.cx, p.m, NULL));
  return p;
}

// The HLO text of a program's entry computation has all these parts.
static void expect(const char *text, const char *const *parts) {
  Program p = convert(text);
  HlBuf out = {0};
  HlTextOptions options = {.preset = HL_TEXT_SHORT};
  hl_text_print(p.cx, p.m, &options, &out);
  for (; *parts; parts++)
    if (!strstr(out.at, *parts))
      fail_msg("'%s' does not stand in:\n%s", *parts, out.at);
  hl_buf_free(&out);
  release(&p);
}
#define EXPECT(text, ...) expect(text, (const char *const[]){__VA_ARGS__, NULL})

static void expect_error(const char *text, HlErrorKind kind, const char *message) {
  Program p = read_program(text);
  assert_null(hl_ml_to_hlo(p.cx, p.tree, NULL));
  assert_true(hl_cx_n_diags(p.cx) > 0);
  assert_int_equal(hl_cx_error_kind(p.cx), kind);
  const HlDiag *diag = hl_cx_diag(p.cx, 0);
  if (!strstr(diag->text, message))
    fail_msg("'%s' does not stand in '%s'", message, diag->text);
  assert_true(diag->loc > 0);
  release(&p);
}

// One op of a function of x: f32[4].
#define FUNC(ops) \
  "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n" ops "\nreturn %r : tensor<4xf32>\n}\n"

static int64_t count(const char *text) {
  Program p = convert(text);
  int64_t n = hl_count_instructions(p.m);
  release(&p);
  return n;
}

// --- Entries ---------------------------------------------------------------------------------------------

static void expect_entries(const char *text, int n_wanted, const char *const *wanted) {
  Program p = read_program(text);
  HlArena *arena = hl_arena_new();
  int n;
  const HlSym **entries = hl_ml_entries(arena, p.tree, &n);
  assert_int_equal(n, n_wanted);
  for (int k = 0; k < n; k++)
    assert_string_equal(entries[k]->text, wanted[k]);
  hl_arena_free(arena);
  release(&p);
}

static void test_entries(void **state) {
  (void)state;
  expect_entries("func.func @a() { return }\nfunc.func @main(%x: tensor<f32>) { return }", 1,
                 (const char *const[]){"main"});
  expect_entries("func.func @a() { call @b() : () -> ()\n return }\nfunc.func @b() { return }\n"
                 "func.func @c() { return }\nfunc.func @d(%x: tensor<f32>) { return }",
                 2, (const char *const[]){"a", "c"});
  expect_entries("func.func @d(%x: tensor<f32>) { return }", 0, NULL);
}

// --- Shapes, functions -----------------------------------------------------------------------------------

static void test_shapes(void **state) {
  (void)state;
  EXPECT("func.func @main(%a: tensor<?x3xbf16, #stablehlo.bounds<5, ?>>, %b: tensor<ui4>, %c: "
         "tensor<2xcomplex<f64>>) -> "
         "(tensor<?x3xbf16, #stablehlo.bounds<5, ?>>, tensor<ui4>) {\n"
         "return %a, %b : tensor<?x3xbf16, #stablehlo.bounds<5, ?>>, tensor<ui4>\n}\n",
         "bf16[<=5,3]{1,0} parameter(0)", "u4[] parameter(1)", "c128[2]{0} parameter(2)");
  // One result is the root itself, none or several make a tuple.
  EXPECT(FUNC("%r = stablehlo.sine %x : tensor<4xf32>"), "ROOT sine.1 = f32[4]{0} sine(Arg_0.1)");
  EXPECT("func.func @main() { return }", "ROOT tuple.1 = () tuple()");
}

static void test_functions(void **state) {
  (void)state;
  // A function called twice is one computation; one that nobody calls is none.
  Program p = convert(
      "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
      "%0 = call @f(%x) : (tensor<f32>) -> tensor<f32>\n"
      "%1 = call @f(%0) : (tensor<f32>) -> tensor<f32>\nreturn %1 : tensor<f32>\n}\n"
      "func.func private @f(%x: tensor<f32>) -> tensor<f32> {\n"
      "%0 = stablehlo.negate %x : tensor<f32>\nreturn %0 : tensor<f32>\n}\n"
      "func.func private @g(%x: tensor<f32>) -> tensor<f32> {\nreturn %x : tensor<f32>\n}\n");
  assert_int_equal(p.m->n_comps, 2);
  assert_string_equal(p.m->first->name->text, "f.1");
  assert_string_equal(p.m->entry->name->text, "main.2");
  release(&p);
}

// --- Shardings -------------------------------------------------------------------------------------------

static void expect_sharding(const char *mesh, const char *sharding, const char *wanted) {
  char text[512], part[128];
  snprintf(text, sizeof text,
           "sdy.mesh @m = <%s>\nfunc.func @main(%%x: tensor<8x8xf32> {sdy.sharding = "
           "#sdy.sharding<@m, %s>}) -> "
           "tensor<8x8xf32> {\nreturn %%x : tensor<8x8xf32>\n}\n",
           mesh, sharding);
  snprintf(part, sizeof part, "parameter(0), sharding=%s,", wanted);
  EXPECT(text, part);
}

static void test_shardings(void **state) {
  (void)state;
  const char *grid = "[\"x\"=2, \"y\"=4]";
  expect_sharding(grid, "[{\"x\"}, {\"y\"}]", "{devices=[2,4]<=[8]}");
  expect_sharding(grid, "[{\"y\"}, {\"x\"}]", "{devices=[4,2]<=[2,4]T(1,0)}");
  expect_sharding(grid, "[{\"x\", \"y\"}, {}]", "{devices=[8,1]<=[8]}");
  expect_sharding(grid, "[{}, {\"x\"}]", "{devices=[1,2,4]<=[8] last_tile_dim_replicate}");
  expect_sharding(grid, "[{}, {?}]", "{replicated}");
  expect_sharding(grid, "[{\"y\":(2)2}, {}]",
                  "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  expect_sharding("[\"x\"=2, \"y\"=2], device_ids=[3, 2, 1, 0]", "[{\"x\"}, {\"y\"}]",
                  "{devices=[2,2]3,2,1,0}");
  expect_sharding("[], device_ids=[5]", "[{}, {}]", "{maximal device=5}");
}

// --- Simplification ----------------------------------------------------------------------------------------

static void test_simplify(void **state) {
  (void)state;
  assert_int_equal(
      count(
          FUNC("%0 = stablehlo.cosine %x : tensor<4xf32>\n%r = stablehlo.sine %x : tensor<4xf32>")),
      2);
  assert_int_equal(count(FUNC("%0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>\n"
                              "%r = stablehlo.reshape %0 : (tensor<2x2xf32>) -> tensor<4xf32>")),
                   1);
  assert_int_equal(count(FUNC("%0 = stablehlo.constant dense<0.0> : tensor<4xf32>\n"
                              "%r = stablehlo.add %0, %x : tensor<4xf32>")),
                   1);
  // Constants are computed with, as the interpreter would.
  EXPECT(FUNC("%0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
              "%1 = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
              "%2 = stablehlo.multiply %0, %1 : tensor<4xf32>\n%r = stablehlo.add %2, %x : "
              "tensor<4xf32>"),
         "constant({2, 4, 6, 8})");
  EXPECT(FUNC("%0 = stablehlo.constant dense<1> : tensor<i32>\n"
              "%r = \"stablehlo.case\"(%0) ({\nstablehlo.return %x : tensor<4xf32>\n}, {\n"
              "%1 = stablehlo.tanh %x : tensor<4xf32>\nstablehlo.return %1 : tensor<4xf32>\n}) : "
              "(tensor<i32>) -> "
              "tensor<4xf32>"),
         "ROOT tanh.1 = f32[4]{0} tanh(Arg_0.1)");
}

// --- Several entries of one tree ---------------------------------------------------------------------------

// Each entry becomes what it is alone, in whatever order and however often.
static void test_several_entries(void **state) {
  (void)state;
  Program p = read_program(
      "func.func @a() -> tensor<2xf32> {\n%0 = stablehlo.constant dense<1.0> : tensor<2xf32>\n"
      "%1 = stablehlo.custom_call @mhlo.erf(%0) {mhlo.attributes = {}} : (tensor<2xf32>) -> "
      "tensor<2xf32>\n"
      "%2 = call @f(%1) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %2 : tensor<2xf32>\n}\n"
      "func.func @b() -> tensor<2xf32> {\n%0 = stablehlo.constant dense<2.0> : tensor<2xf32>\n"
      "%1 = stablehlo.add %0, %0 : tensor<2xf32>\n"
      "%2 = call @f(%1) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %2 : tensor<2xf32>\n}\n"
      "func.func @bad() {\ncall @bad() : () -> ()\nreturn\n}\n"
      "func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
      "%0 = stablehlo.tanh %x : tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}\n");
  static const struct {
    const char *entry, *has, *has_not;
  } rounds[] = {{"a", "erf(", "({4, 4})"},
                {"b", "constant(4)", "erf("},
                {"bad", NULL, NULL},
                {"a", "erf(", "({4, 4})"},
                {"b", "constant(4)", "erf("}};
  for (size_t k = 0; k < sizeof rounds / sizeof *rounds; k++) {
    HlModule *m = hl_ml_to_hlo(p.cx, p.tree, hl_ml_sym(p.tree, rounds[k].entry));
    if (!rounds[k].has) {
      assert_null(m);
      continue;
    }
    assert_non_null(m);
    assert_true(hl_verify(p.cx, m, NULL));
    HlBuf out = {0};
    HlTextOptions options = {.preset = HL_TEXT_SHORT};
    hl_text_print(p.cx, m, &options, &out);
    if (!strstr(out.at, rounds[k].has) || strstr(out.at, rounds[k].has_not) ||
        !strstr(out.at, "tanh("))
      fail_msg("@%s became:\n%s", rounds[k].entry, out.at);
    hl_buf_free(&out);
    hl_module_free(m);
  }
  release(&p);
}

// --- Errors -------------------------------------------------------------------------------------------------

static void test_errors(void **state) {
  (void)state;
  expect_error("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
               "%0 = stablehlo.sine %x : tensor<?xf32>\nreturn %0 : tensor<?xf32>\n}\n",
               HL_UNSUPPORTED, "stablehlo.sine makes a value of type tensor<?xf32>");
  expect_error("func.func @main() {\ncall @main() : () -> ()\nreturn\n}\n", HL_INVALID,
               "calls itself");
  expect_error("func.func @main() {\n\"some.op\"() : () -> ()\nreturn\n}\n", HL_UNSUPPORTED,
               "'some.op'");
  expect_error(FUNC("%r = call @missing(%x) : (tensor<4xf32>) -> tensor<4xf32>"), HL_INVALID,
               "@missing");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_entries),   cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_functions), cmocka_unit_test(test_shardings),
      cmocka_unit_test(test_simplify),  cmocka_unit_test(test_several_entries),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
