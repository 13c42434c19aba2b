// The verifier of MLIR trees: for each family of rules a program that keeps them and ones that
// break them, with what is said and on which line.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/mlir.h"

typedef struct Case {
  // Of a function of these arguments, or a whole program when it starts with "func" or "sdy".
  const char *body;
  int line;          // of the error, in what `program` makes of it; 0: none
  const char *says;  // part of the message
} Case;

static const char arguments[] =
    "func.func @f(%f: tensor<4x3xf32>, %g: tensor<3x4xf32>, %i: tensor<4xi32>, %p: tensor<i1>, "
    "%d: tensor<?x3xf32>, %c: tensor<4xcomplex<f32>>, %s: tensor<f32>, %t: !stablehlo.token) {\n";

static void program(const Case *c, char *out, size_t n) {
  if (strncmp(c->body, "func", 4) == 0 || strncmp(c->body, "sdy", 3) == 0)
    snprintf(out, n, "%s\n", c->body);
  else
    snprintf(out, n, "%s%s\n  return\n}\n", arguments, c->body);
}

static void check_case(const Case *c) {
  char text[8192];
  program(c, text, sizeof text);
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("test", text, strlen(text), false);
  HlMlTree **trees = NULL;
  int n = 0;
  const bool is_read = hl_ml_text_read(cx, source, &trees, &n);
  const bool ok = is_read && n == 1 && hl_ml_verify(cx, trees[0]);
  const HlDiag *diag = hl_cx_n_diags(cx) > 0 ? hl_cx_diag(cx, 0) : NULL;
  if (!is_read)
    fail_msg("not read: %s\n%s", diag ? diag->text : "?", text);
  if (c->line == 0 && !ok)
    fail_msg("refused: %s\n%s", diag->text, text);
  if (c->line != 0) {
    if (ok)
      fail_msg("accepted, but expected: %s\n%s", c->says, text);
    const int64_t line = hl_source_line_col(source, diag->loc).line;
    if (line != c->line || strstr(diag->text, c->says) == NULL)
      fail_msg("line %lld: %s\nexpected line %d: %s\n%s", (long long)line, diag->text, c->line,
               c->says, text);
  }
  for (int k = 0; k < n; k++)
    hl_ml_free(trees[k]);
  free(trees);
  hl_source_unref(source);
  hl_cx_free(cx);
}

static void check_cases(const Case *cases, int n) {
  for (int k = 0; k < n; k++)
    check_case(&cases[k]);
}
#define CHECK(cases) check_cases(cases, HL_COUNT_OF(cases))

static void structure(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = stablehlo.add %f, %f : tensor<4x3xf32>", 0, NULL},
      {"  %0 = \"stablehlo.add\"(%f) : (tensor<4x3xf32>) -> tensor<4x3xf32>", 2, "has 1 operands"},
      {"  %0:2 = \"stablehlo.abs\"(%f) : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)",
       2, "has 2 results"},
      {"  %0 = \"stablehlo.iota\"() : () -> tensor<4xi32>", 2,
       "requires attribute 'iota_dimension'"},
      {"  %0 = \"stablehlo.iota\"() {iota_dimension = 0 : i32} : () -> tensor<4xi32>", 2,
       "64-bit signless integer"},
      {"  %0 = \"stablehlo.iota\"() {iota_dimension = -1 : i64} : () -> tensor<4xi32>", 2,
       "at least 0"},
      {"  \"stablehlo.return\"() : () -> ()\n  %0 = stablehlo.abs %f : tensor<4x3xf32>", 2,
       "last op of its block"},
      {"  %0 = \"other.op\"(%f) {any = 1} : (tensor<4x3xf32>) -> tensor<2x!other.type>", 0, NULL}};
  CHECK(cases);
}

static void element_types(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = stablehlo.sine %c : tensor<4xcomplex<f32>>", 0, NULL},
      {"  %0 = stablehlo.sine %i : tensor<4xi32>", 2,
       "operand #0 must be tensor of float or complex"},
      {"  %0 = stablehlo.and %f, %f : tensor<4x3xf32>", 2,
       "operand #0 must be tensor of i1 or integer"},
      {"  %0 = \"stablehlo.add\"(%i, %i) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xf32>", 2,
       "same element type"},
      {"  %0 = \"stablehlo.abs\"(%c) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>", 0, NULL},
      {"  %0 = \"stablehlo.abs\"(%c) : (tensor<4xcomplex<f32>>) -> tensor<4xf64>", 2,
       "inferred as 'tensor<4xf32>'"},
      {"  %0 = \"stablehlo.after_all\"(%t, %s) : (!stablehlo.token, tensor<f32>) -> "
       "!stablehlo.token",
       2, "operand #1 must be token"}};
  CHECK(cases);
}

static void dynamic_and_bounded(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = \"stablehlo.add\"(%f, %d) : (tensor<4x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>",
       0, NULL},
      {"  %0 = \"stablehlo.abs\"(%d) : (tensor<?x3xf32>) -> tensor<?x2xf32>", 2, "same shape"},
      {"func.func @f(%a: tensor<?xf32, #stablehlo.bounds<5>>, %b: tensor<6xf32>) {\n"
       "  %0 = \"stablehlo.add\"(%a, %b) : (tensor<?xf32, #stablehlo.bounds<5>>, tensor<6xf32>) -> "
       "tensor<?xf32>\n"
       "  return\n}",
       2, "size 6 and bound 5"},
      {"func.func @f(%a: tensor<?xf32, #stablehlo.bounds<5>>) {\n"
       "  %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?xf32, #stablehlo.bounds<5>>, "
       "tensor<?xf32, #stablehlo.bounds<5>>) -> tensor<?xf32, #stablehlo.bounds<10>>\n  return\n}",
       0, NULL}};
  CHECK(cases);
}

static void movement(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = stablehlo.reshape %f : (tensor<4x3xf32>) -> tensor<12xf32>", 0, NULL},
      {"  %0 = stablehlo.reshape %f : (tensor<4x3xf32>) -> tensor<11xf32>", 2, "11 elements"},
      {"  %0 = stablehlo.broadcast_in_dim %f, dims = [1, 2] : (tensor<4x3xf32>) -> "
       "tensor<2x4x3xf32>",
       0, NULL},
      {"  %0 = stablehlo.broadcast_in_dim %f, dims = [1, 1] : (tensor<4x3xf32>) -> "
       "tensor<2x4x3xf32>",
       2, "duplicates"},
      {"  %0 = stablehlo.broadcast_in_dim %f, dims = [0, 2] : (tensor<4x3xf32>) -> "
       "tensor<2x4x3xf32>",
       2, "neither 1 nor the size"},
      {"  %0 = stablehlo.transpose %f, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>", 0,
       NULL},
      {"  %0 = stablehlo.transpose %f, dims = [1, 1] : (tensor<4x3xf32>) -> tensor<3x4xf32>", 2,
       "must permute"},
      {"  %0 = stablehlo.slice %f [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>", 0, NULL},
      {"  %0 = stablehlo.slice %f [1:5, 0:3] : (tensor<4x3xf32>) -> tensor<4x3xf32>", 2,
       "limit index 5"},
      {"  %0 = stablehlo.pad %f, %s, low = [1, -1], high = [0, 0], interior = [1, 0] : "
       "(tensor<4x3xf32>, tensor<f32>) "
       "-> tensor<8x2xf32>",
       0, NULL},
      {"  %0 = stablehlo.pad %f, %s, low = [0, -5], high = [0, 0], interior = [0, 0] : "
       "(tensor<4x3xf32>, tensor<f32>) "
       "-> tensor<4x0xf32>",
       2, "negative size"},
      {"  %0 = stablehlo.concatenate %f, %g, dim = 0 : (tensor<4x3xf32>, tensor<3x4xf32>) -> "
       "tensor<7x3xf32>",
       2, "not compatible in dimension 1"}};
  CHECK(cases);
}

static void products(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = stablehlo.dot_general %f, %g, contracting_dims = [1] x [0] : (tensor<4x3xf32>, "
       "tensor<3x4xf32>) -> "
       "tensor<4x4xf32>",
       0, NULL},
      {"  %0 = stablehlo.dot_general %f, %g, contracting_dims = [0] x [0] : (tensor<4x3xf32>, "
       "tensor<3x4xf32>) -> "
       "tensor<3x4xf32>",
       2, "contracting dimension sizes"},
      {"  %0 = stablehlo.dot_general %f, %g, contracting_dims = [2] x [0] : (tensor<4x3xf32>, "
       "tensor<3x4xf32>) -> "
       "tensor<4x4xf32>",
       2, "range [0, 2)"},
      {"  %0 = stablehlo.fft %c, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> "
       "tensor<4xcomplex<f32>>",
       0, NULL},
      {"  %0 = stablehlo.fft %f, type = FFT, length = [3] : (tensor<4x3xf32>) -> tensor<4x3xf32>",
       2, "complex"},
      {"  %0 = stablehlo.cholesky %f : tensor<4x3xf32>", 2, "equal size"}};
  CHECK(cases);
}

static void regions(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = stablehlo.reduce(%f init: %s) applies stablehlo.add across dimensions = [1] : "
       "(tensor<4x3xf32>, "
       "tensor<f32>) -> tensor<4xf32>",
       0, NULL},
      {"  %0 = stablehlo.reduce(%f init: %s) applies stablehlo.add across dimensions = [2] : "
       "(tensor<4x3xf32>, "
       "tensor<f32>) -> tensor<4xf32>",
       2, "range [0, 2)"},
      {"  %0 = \"stablehlo.reduce\"(%f, %s) ({\n  ^bb0(%a: tensor<f32>):\n    "
       "\"stablehlo.return\"(%a) : "
       "(tensor<f32>) -> ()\n  }) {dimensions = array<i64: 0>} : (tensor<4x3xf32>, tensor<f32>) -> "
       "tensor<3xf32>",
       2, "should take 2 parameters"},
      {"  %0 = \"stablehlo.if\"(%p) ({\n    \"stablehlo.return\"(%s) : (tensor<f32>) -> ()\n  }, "
       "{\n"
       "    \"stablehlo.return\"() : () -> ()\n  }) : (tensor<i1>) -> tensor<f32>",
       2, "return 1 and 0 values"},
      {"  %0 = stablehlo.while(%a = %i) : tensor<4xi32>\n  cond {\n    stablehlo.return %p : "
       "tensor<i1>\n  } do {\n"
       "    stablehlo.return %a : tensor<4xi32>\n  }",
       0, NULL},
      {"  %0 = stablehlo.while(%a = %i) : tensor<4xi32>\n  cond {\n    stablehlo.return %a : "
       "tensor<4xi32>\n  } do {\n"
       "    stablehlo.return %a : tensor<4xi32>\n  }",
       2, "should return 'tensor<i1>'"},
      {"  %0 = \"stablehlo.map\"(%i) ({\n  }) {dimensions = array<i64: 0>} : (tensor<4xi32>) -> "
       "tensor<4xi32>",
       2, "region 0"}};
  CHECK(cases);
}

static void communication(void **state) {
  (void)state;
  static const Case cases[] = {{"  %0 = \"stablehlo.all_gather\"(%i) {all_gather_dim = 0 : i64, "
                                "replica_groups = dense<[[0, 1]]> : "
                                "tensor<1x2xi64>} : (tensor<4xi32>) -> tensor<8xi32>",
                                0, NULL},
                               {"  %0 = \"stablehlo.all_gather\"(%i) {all_gather_dim = 0 : i64, "
                                "replica_groups = dense<[[0, 0]]> : "
                                "tensor<1x2xi64>} : (tensor<4xi32>) -> tensor<8xi32>",
                                2, "seen more than once"},
                               {"  %0 = \"stablehlo.all_gather\"(%i) {all_gather_dim = 1 : i64, "
                                "replica_groups = dense<[[0, 1]]> : "
                                "tensor<1x2xi64>} : (tensor<4xi32>) -> tensor<8xi32>",
                                2, "all_gather_dim 1"},
                               {"  %0 = \"stablehlo.collective_permute\"(%i) {source_target_pairs "
                                "= dense<[[0, 1], [0, 2]]> : "
                                "tensor<2x2xi64>} : (tensor<4xi32>) -> tensor<4xi32>",
                                2, "duplicate sources"}};
  CHECK(cases);
}

static void functions(void **state) {
  (void)state;
  static const Case cases[] = {
      {"func.func @f()", 1, "cannot be public"},
      {"func.func @f() {\n  return\n}\nfunc.func @f() {\n  return\n}", 4, "defined twice"},
      {"func.func @f(%a: tensor<f32>) -> tensor<i32> {\n  return %a : tensor<f32>\n}", 2,
       "result 0 of the function"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>\n  "
       "return\n}",
       2, "no function 'g'"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>\n  "
       "return\n}\n"
       "func.func private @g(tensor<i32>) -> tensor<f32>",
       2, "'g' takes 'tensor<i32>'"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.composite \"name\" %a {decomposition = "
       "@g} : "
       "(tensor<f32>) -> tensor<f32>\n  return\n}\nfunc.func private @g(tensor<f32>) -> "
       "tensor<f32>",
       2, "with a namespace"}};
  CHECK(cases);
}

// The reader of text checks this as it goes; a tree that was built or changed is the verifier's.
static void dominance(void **state) {
  (void)state;
  static const char text[] =
      "func.func @f(%a: tensor<f32>) -> tensor<f32> {\n  \"test.br\"()[^bb1, ^bb2] : () -> ()\n"
      "^bb1:\n  %0 = stablehlo.abs %a : tensor<f32>\n  \"test.br\"()[^bb2] : () -> ()\n"
      "^bb2:\n  return %a : tensor<f32>\n}\n";
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("test", text, strlen(text), false);
  HlMlTree **trees = NULL;
  int n = 0;
  assert_true(hl_ml_text_read(cx, source, &trees, &n));
  assert_true(hl_ml_verify(cx, trees[0]));
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "no rules"));
  hl_cx_clear(cx);
  const HlMlRegion *body = &hl_ml_body(trees[0]->module, 0)->first->regions[0];
  body->last->first->operands[0] = &body->first->next->first->results[0];
  assert_false(hl_ml_verify(cx, trees[0]));
  assert_non_null(strstr(hl_cx_diag(cx, 1)->text, "does not dominate"));
  hl_ml_free(trees[0]);
  free(trees);
  hl_source_unref(source);
  hl_cx_free(cx);
}

static void chlo(void **state) {
  (void)state;
  static const Case cases[] = {
      {"  %0 = chlo.broadcast_add %f, %s : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>", 0,
       NULL},
      {"  %0 = chlo.broadcast_add %f, %s : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x4xf32>", 2,
       "inferred as"},
      {"  %0:2 = chlo.top_k(%i, k = 2) : tensor<4xi32> -> (tensor<2xi32>, tensor<2xi32>)", 0, NULL},
      {"  %0:2 = chlo.top_k(%i, k = 5) : tensor<4xi32> -> (tensor<5xi32>, tensor<5xi32>)", 2,
       "at least 5"}};
  CHECK(cases);
}

static void shardings(void **state) {
  (void)state;
  static const Case cases[] = {
      {"sdy.mesh @m = <[\"x\"=2, \"y\"=4]>\nfunc.func @f(%a: tensor<8x8xf32>) {\n"
       "  %0 = sdy.sharding_constraint %a <@m, [{\"x\"}, {\"y\"}]> : tensor<8x8xf32>\n  return\n}",
       0, NULL},
      {"sdy.mesh @m = <[\"x\"=2, \"y\"=4]>\nfunc.func @f(%a: tensor<8x8xf32>) {\n"
       "  %0 = sdy.sharding_constraint %a <@m, [{\"x\"}, {\"z\"}]> : tensor<8x8xf32>\n  return\n}",
       3, "no axis 'z'"},
      {"sdy.mesh @m = <[\"x\"=2, \"y\"=4]>\nfunc.func @f(%a: tensor<8x8xf32>) {\n"
       "  %0 = sdy.sharding_constraint %a <@m, [{\"x\"}, {\"x\"}]> : tensor<8x8xf32>\n  return\n}",
       3, "more than once"},
      {"func.func @f(%a: tensor<8x8xf32>) {\n"
       "  %0 = sdy.sharding_constraint %a <@m, [{\"x\"}, {}]> : tensor<8x8xf32>\n  return\n}",
       2, "no mesh 'm'"}};
  CHECK(cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(structure),
                                     cmocka_unit_test(element_types),
                                     cmocka_unit_test(dynamic_and_bounded),
                                     cmocka_unit_test(movement),
                                     cmocka_unit_test(products),
                                     cmocka_unit_test(regions),
                                     cmocka_unit_test(communication),
                                     cmocka_unit_test(functions),
                                     cmocka_unit_test(dominance),
                                     cmocka_unit_test(chlo),
                                     cmocka_unit_test(shardings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
