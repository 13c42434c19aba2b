// The tree of MLIR programs: types, attributes, ops; equality; printing.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/mlir/tree/tree.h"

// --- Help -----------------------------------------------------------------------------------------

static const HlMlType *tensor(HlMlTree *tree, const char *element, int rank, const int64_t *dim) {
  const HlMlType *type = hl_ml_float_type(tree, element);
  return hl_ml_tensor_type(tree, rank, dim, type ? type : hl_ml_int_type(tree, 32, HL_ML_SIGNLESS),
                           NULL);
}

static const HlMlType *f32x2(HlMlTree *tree) {
  return tensor(tree, "f32", 1, (const int64_t[]){2});
}

static void expect_text(const char *got, const char *wanted) {
  assert_string_equal(got ? got : "", wanted);
}

static void expect_attr(const HlMlAttr *attr, const char *wanted) {
  HlBuf out = {0};
  hl_ml_attr_print(&out, attr);
  expect_text(out.at, wanted);
  hl_buf_free(&out);
}

static void expect_type(const HlMlType *type, const char *wanted) {
  HlBuf out = {0};
  hl_ml_type_print(&out, type);
  expect_text(out.at, wanted);
  hl_buf_free(&out);
}

static void expect_tree(const HlMlTree *tree, const HlMlTextOptions *options, const char *wanted) {
  HlBuf out = {0};
  hl_ml_text_print(tree, options, &out);
  expect_text(out.at, wanted);
  hl_buf_free(&out);
}

static HlMlOp *op_of(HlMlTree *tree, HlMlBlock *block, const char *name, int n,
                     HlMlValue *const *operands, const HlMlType *type) {
  return hl_ml_op(tree, block, name, n, operands, type ? 1 : 0, &type, 0);
}

// func.func @NAME(T, ..) -> T with an empty body.
static HlMlOp *func(HlMlTree *tree, const char *name, int n, const HlMlType *type) {
  const HlMlType *inputs[8];
  for (int k = 0; k < n; k++)
    inputs[k] = type;
  HlMlOp *op = hl_ml_op(tree, hl_ml_body(tree->module, 0), "func.func", 0, NULL, 0, NULL, 1);
  hl_ml_set(tree, op, "sym_name", hl_ml_string(tree, name, strlen(name)));
  hl_ml_set(tree, op, "function_type",
            hl_ml_type_attr(tree, hl_ml_function_type(tree, n, inputs, 1, &type)));
  HlMlBlock *body = hl_ml_block(tree, &op->regions[0]);
  for (int k = 0; k < n; k++)
    hl_ml_arg(tree, body, type);
  return op;
}

// The function `f(a, b) = a * c + b` with a constant c.
static HlMlTree *small_program(float constant) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlType *type = f32x2(tree);
  HlMlBlock *body = hl_ml_body(func(tree, "f", 2, type), 0);
  HlMlOp *c = op_of(tree, body, "stablehlo.constant", 0, NULL, type);
  hl_ml_set(tree, c, "value", hl_ml_dense(tree, type, &constant, 1, true));
  HlMlOp *mul = op_of(tree, body, "stablehlo.multiply", 2,
                      (HlMlValue *[]){body->args[0], &c->results[0]}, type);
  HlMlOp *add =
      op_of(tree, body, "stablehlo.add", 2, (HlMlValue *[]){&mul->results[0], body->args[1]}, type);
  op_of(tree, body, "func.return", 1, (HlMlValue *[]){&add->results[0]}, NULL);
  return tree;
}

// --- Types ----------------------------------------------------------------------------------------

static void types_are_interned(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  assert_ptr_equal(f32x2(tree), f32x2(tree));
  assert_ptr_not_equal(f32x2(tree), tensor(tree, "f64", 1, (const int64_t[]){2}));
  assert_ptr_not_equal(hl_ml_int_type(tree, 8, HL_ML_SIGNLESS),
                       hl_ml_int_type(tree, 8, HL_ML_UNSIGNED));
  assert_null(hl_ml_float_type(tree, "f33"));
  const HlMlType *kept[3000];
  for (int64_t k = 0; k < 3000; k++)
    kept[k] = tensor(tree, "bf16", 2, (const int64_t[]){k, 3});
  for (int64_t k = 0; k < 3000; k++)
    assert_ptr_equal(kept[k], tensor(tree, "bf16", 2, (const int64_t[]){k, 3}));
  HlMlTree *other = hl_ml_new(NULL);
  assert_true(hl_ml_type_equal(f32x2(tree), f32x2(other)));
  assert_false(hl_ml_type_equal(f32x2(tree), tensor(other, "f32", 0, NULL)));
  hl_ml_free(other);
  hl_ml_free(tree);
}

static void types_are_printed(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlType *f32 = hl_ml_float_type(tree, "f32"),
                 *ui8 = hl_ml_int_type(tree, 8, HL_ML_UNSIGNED);
  const HlMlType *pair[] = {f32, ui8};
  expect_type(tensor(tree, "f8E4M3FN", 2, (const int64_t[]){0, HL_UNBOUNDED}),
              "tensor<0x?xf8E4M3FN>");
  expect_type(hl_ml_list_type(tree, HL_ML_COMPLEX, 1, pair), "complex<f32>");
  expect_type(hl_ml_list_type(tree, HL_ML_TUPLE, 2, pair), "tuple<f32, ui8>");
  expect_type(hl_ml_list_type(tree, HL_ML_UNRANKED, 1, pair), "tensor<*xf32>");
  const HlMlType *inner = hl_ml_function_type(tree, 1, pair, 0, NULL);
  expect_type(inner, "(f32) -> ()");
  expect_type(hl_ml_function_type(tree, 2, pair, 1, &inner), "(f32, ui8) -> ((f32) -> ())");
  expect_type(hl_ml_simple_type(tree, HL_ML_TOKEN), "!stablehlo.token");
  hl_ml_free(tree);
}

static void shapes_become_types(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  HlArena *arena = hl_arena_new();
  HlShapes *shapes = hl_shapes_new(arena);
  const int64_t dim[] = {3, 4};
  const bool dynamic[] = {true, false};
  const HlShape *array = hl_shape_array(shapes, HL_S32, 2, dim);
  const HlShape *bounded = hl_shape_array_full(shapes, HL_PRED, 2, dim, dynamic, NULL);
  const HlShape *both[] = {array, bounded};
  expect_type(hl_ml_shape_type(tree, hl_shape_tuple(shapes, 2, both)),
              "tuple<tensor<3x4xi32>, tensor<?x4xi1, #stablehlo.bounds<3, ?>>>");
  const HlMlType *type = hl_ml_shape_type(tree, bounded);
  assert_false(hl_ml_is_static(type));
  assert_int_equal(hl_ml_elements(type), -1);
  assert_int_equal(hl_ml_bounds(type).at[0], 3);
  for (int t = 0; t < HL_DTYPE_COUNT; t++)
    if (hl_is_array_dtype((HlDtype)t))
      assert_int_equal(hl_ml_dtype(hl_ml_dtype_type(tree, (HlDtype)t)), t);
  hl_arena_free(arena);
  hl_ml_free(tree);
}

// A chain of pairs of itself means 2^100 types: it is told, not walked.
static void size_of_types_saturates(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlType *type = hl_ml_float_type(tree, "f32");
  for (int k = 0; k < 100; k++)
    type = hl_ml_list_type(tree, HL_ML_TUPLE, 2, (const HlMlType *[]){type, type});
  assert_int_equal(type->depth, 101);
  assert_true(type->size == UINT32_MAX);
  hl_ml_free(tree);
}

// --- Attributes -----------------------------------------------------------------------------------

static void floats_are_printed(void **state) {
  static const struct {
    const char *type;
    double value;
    const char *text;
  } cases[] = {{"f32", 1, "1.000000e+00 : f32"},
               {"f32", -0.0, "-0.000000e+00 : f32"},
               {"f32", 1.0 / 3, "0.333333343 : f32"},
               {"f32", 1e-5, "9.99999974E-6 : f32"},
               {"f32", 0.0001220703125, "1.22070313E-4 : f32"},
               {"f32", 1234567, "0x4996B438 : f32"},
               {"f64", 0.1, "1.000000e-01 : f64"},
               {"f64", 1.0 / 3, "0.33333333333333331 : f64"},
               {"bf16", 0.1, "1.000980e-01 : bf16"},
               {"f16", 65504, "6.550400e+04 : f16"},
               {"f8E4M3FN", 448, "4.480000e+02 : f8E4M3FN"},
               {"f32", -1e300, "0xFF800000 : f32"}};
  HlMlTree *tree = hl_ml_new(NULL);
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    expect_attr(hl_ml_float(tree, hl_ml_float_type(tree, cases[k].type), cases[k].value),
                cases[k].text);
  expect_attr(hl_ml_float_bits(tree, hl_ml_float_type(tree, "f32"), 0x7fc00001),
              "0x7FC00001 : f32");
  hl_ml_free(tree);
}

static void attributes_are_printed(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlAttr *one = hl_ml_i64(tree, 1);
  const HlMlAttr *list[] = {one, hl_ml_bool(tree, true),
                            hl_ml_int(tree, hl_ml_int_type(tree, 8, HL_ML_UNSIGNED), 200)};
  const HlMlNamed named[] = {{.name = hl_ml_sym(tree, "z"), .value = one},
                             {.name = hl_ml_sym(tree, "a b"), .value = hl_ml_unit(tree)}};
  expect_attr(one, "1 : i64");
  expect_attr(hl_ml_int(tree, hl_ml_int_type(tree, 8, HL_ML_SIGNLESS), 255), "-1 : i8");
  expect_attr(hl_ml_int(tree, hl_ml_int_type(tree, 8, HL_ML_UNSIGNED), -1), "255 : ui8");
  assert_ptr_equal(hl_ml_int(tree, hl_ml_int_type(tree, 1, HL_ML_SIGNLESS), -1),
                   hl_ml_bool(tree, true));
  expect_attr(hl_ml_array(tree, 3, list), "[1, true, 200 : ui8]");
  expect_attr(hl_ml_dict(tree, 2, named), "{\"a b\", z = 1 : i64}");
  expect_attr(hl_ml_string(tree, "a\"\\\n\xff", 5), "\"a\\22\\\\\\0A\\FF\"");
  expect_attr(hl_ml_symbol(tree, hl_ml_sym(tree, "a-b")), "@\"a-b\"");
  expect_attr(hl_ml_dense_i64s(tree, (HlI64s){(const int64_t[]){1, -2}, 2}), "array<i64: 1, -2>");
  expect_attr(hl_ml_dense_bools(tree, (HlI64s){(const int64_t[]){1, 0}, 2}),
              "array<i1: true, false>");
  expect_attr(hl_ml_dense_i64s(tree, (HlI64s){0}), "array<i64>");
  expect_attr(hl_ml_enum(tree, "stablehlo.precision", 1), "#stablehlo<precision HIGH>");
  expect_attr(hl_ml_enum(tree, "mhlo.result_accuracy_mode", 2),
              "#mhlo.result_accuracy_mode<TOLERANCE>");
  hl_ml_free(tree);
}

static void dense_elements(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const int64_t dim[] = {2, 3}, values[] = {1, 2, 3, 4, 5, 6}, same[] = {7, 7, 7, 7, 7, 7};
  expect_attr(hl_ml_dense_ints(tree, 2, dim, values),
              "dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>");
  const HlMlAttr *splat = hl_ml_dense_ints(tree, 2, dim, same);
  assert_true(splat->is_splat);
  assert_int_equal(splat->n_elements, 1);
  expect_attr(splat, "dense<7> : tensor<2x3xi64>");
  expect_attr(hl_ml_dense_ints(tree, 2, (const int64_t[]){2, 0}, NULL),
              "dense<> : tensor<2x0xi64>");
  const HlMlAttr *single = hl_ml_dense_ints(tree, 2, (const int64_t[]){1, 1}, values);
  assert_false(single->is_splat);
  expect_attr(single, "dense<1> : tensor<1x1xi64>");
  const float complex[] = {1, -2, 0.5f, 0};
  const HlMlType *c64 = hl_ml_dtype_type(tree, HL_C64);
  expect_attr(hl_ml_dense(tree, hl_ml_tensor_type(tree, 1, dim, c64, NULL), complex, 2, true),
              "dense<[(1.000000e+00,-2.000000e+00), (5.000000e-01,0.000000e+00)]> : "
              "tensor<2xcomplex<f32>>");
  // From 101 elements on they are bytes; four bits take the low half of one.
  int8_t many[101];
  for (int k = 0; k < 101; k++)
    many[k] = (int8_t)(k % 2 ? -1 : 1);
  const HlMlType *i4 =
      hl_ml_tensor_type(tree, 1, (const int64_t[]){101}, hl_ml_dtype_type(tree, HL_S4), NULL);
  HlBuf out = {0};
  hl_ml_attr_print(&out, hl_ml_dense(tree, i4, many, 101, false));
  assert_memory_equal(out.at, "dense<\"0x010F010F", 17);
  assert_int_equal(out.n, strlen("dense<\"0x\"> : tensor<101xi4>") + 202);
  hl_buf_free(&out);
  HlArena *arena = hl_arena_new();
  HlI64s ints = hl_ml_ints(arena, splat);
  assert_int_equal(ints.n, 6);
  assert_int_equal(ints.at[5], 7);
  hl_arena_free(arena);
  hl_ml_free(tree);
}

static void literals_go_both_ways(void **state) {
  HlCx *cx = hl_cx_new();
  HlMlTree *tree = hl_ml_new(NULL);
  const float one = 1.5f;
  const HlMlAttr *splat =
      hl_ml_dense(tree, tensor(tree, "f32", 1, (const int64_t[]){1000}), &one, 1, true);
  HlLiteral *literal = hl_ml_literal(cx, (HlPos){0}, splat);
  assert_non_null(literal);
  assert_int_equal(literal->n, 1000);
  assert_true(hl_literal_is_all(literal, 1.5));
  assert_true(hl_ml_attr_equal(hl_ml_dense_of(tree, literal), splat));
  hl_literal_unref(literal);
  assert_null(hl_ml_literal(cx, (HlPos){0}, hl_ml_unit(tree)));
  const int64_t huge[] = {1000000000, 1000000000};
  assert_null(hl_ml_literal(cx, (HlPos){0},
                            hl_ml_dense(tree, tensor(tree, "f32", 2, huge), &one, 1, true)));
  assert_int_equal(hl_cx_n_errors(cx), 2);
  hl_ml_free(tree);
  hl_cx_free(cx);
}

static void structs_are_filled_in(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const int64_t at[] = {1};
  const HlMlNamed plain = {.name = hl_ml_sym(tree, "lhs_contracting_dimensions"),
                           .value = hl_ml_dense_ints(tree, 1, at, at)};
  const HlMlAttr *dims = hl_ml_struct(tree, "mhlo.dot", 1, &plain);
  assert_int_equal(hl_ml_field(dims, "rhs_batching_dimensions")->n_elements, 0);
  expect_attr(dims, "#mhlo.dot<lhs_contracting_dimensions = [1]>");
  const HlMlNamed sharding[] = {
      {.name = hl_ml_sym(tree, "mesh_or_ref"), .value = hl_ml_symbol(tree, hl_ml_sym(tree, "m"))}};
  expect_attr(hl_ml_struct(tree, "sdy.sharding", 1, sharding), "#sdy.sharding<@m, []>");
  hl_ml_free(tree);
}

// --- Ops ------------------------------------------------------------------------------------------

static void attributes_of_ops_are_sorted(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  HlMlOp *op = op_of(tree, NULL, "foo.bar", 0, NULL, NULL);
  char name[8];
  for (int k = 0; k < 100; k++) {
    snprintf(name, sizeof name, "a%02d", k * 37 % 100);
    hl_ml_set(tree, op, name, hl_ml_i64(tree, k * 37 % 100));
  }
  hl_ml_set(tree, op, "a05", hl_ml_i64(tree, 7));
  hl_ml_set(tree, op, "a06", NULL);
  hl_ml_set(tree, op, "none", NULL);
  assert_int_equal(op->n_attrs, 99);
  for (uint32_t k = 1; k < op->n_attrs; k++)
    assert_true(strcmp(op->attrs[k - 1].name->text, op->attrs[k].name->text) < 0);
  assert_int_equal(hl_ml_attr_int(op, "a05", 0), 7);
  assert_null(hl_ml_attr(op, "a06"));
  const HlMlNamed named[] = {{.name = hl_ml_sym(tree, "b"), .value = hl_ml_i64(tree, 1)},
                             {.name = hl_ml_sym(tree, "a"), .value = hl_ml_i64(tree, 2)},
                             {.name = hl_ml_sym(tree, "b"), .value = hl_ml_i64(tree, 3)}};
  hl_ml_set_all(tree, op, 3, named);
  assert_int_equal(op->n_attrs, 2);
  assert_int_equal(hl_ml_attr_int(op, "a", 0), 2);
  assert_int_equal(hl_ml_attr_int(op, "b", 0), 3);
  hl_ml_set(tree, op, "c", hl_ml_unit(tree));
  assert_int_equal(hl_ml_attr_int(op, "c", 0), 1);
  hl_ml_free(tree);
}

static void ops_are_moved(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  HlMlBlock *body = hl_ml_body(tree->module, 0);
  HlMlOp *f = func(tree, "f", 1, f32x2(tree)), *g = func(tree, "g", 1, f32x2(tree));
  assert_ptr_equal(hl_ml_find_symbol(tree, hl_ml_sym(tree, "g")), g);
  hl_ml_unlink(g);
  assert_null(hl_ml_find_symbol(tree, hl_ml_sym(tree, "g")));
  hl_ml_place_before(g, f);
  assert_ptr_equal(body->first, g);
  assert_ptr_equal(body->last, f);
  assert_ptr_equal(f->prev, g);
  assert_ptr_equal(hl_ml_find_symbol(tree, hl_ml_sym(tree, "g")), g);
  hl_ml_set(tree, g, "sym_name", hl_ml_string(tree, "h", 1));
  assert_null(hl_ml_find_symbol(tree, hl_ml_sym(tree, "g")));
  assert_ptr_equal(hl_ml_find_symbol(tree, hl_ml_sym(tree, "h")), g);
  hl_ml_free(tree);
}

static void copies_are_deep(void **state) {
  HlMlTree *tree = small_program(2);
  HlMlOp *f = hl_ml_find_symbol(tree, hl_ml_sym(tree, "f"));
  uint32_t n = tree->n_values;
  HlMlValue **map = calloc(n, sizeof *map);
  HlMlOp *copy = hl_ml_copy_op(tree, hl_ml_body(tree->module, 0), f, map, n);
  hl_ml_set(tree, copy, "sym_name", hl_ml_string(tree, "g", 1));
  HlMlBlock *body = hl_ml_body(copy, 0);
  assert_ptr_equal(body->last->operands[0], &body->last->prev->results[0]);
  assert_ptr_equal(body->last->prev->operands[1], body->args[1]);
  hl_ml_replace(&copy->regions[0], body->args[1], body->args[0]);
  assert_ptr_equal(body->last->prev->operands[1], body->args[0]);
  assert_ptr_equal(hl_ml_body(f, 0)->last->prev->operands[1], hl_ml_body(f, 0)->args[1]);
  free(map);
  hl_ml_free(tree);
}

// Blocks that jump to each other jump within the copy.
static void copied_jumps_stay_inside(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  HlMlOp *f = func(tree, "f", 1, f32x2(tree));
  HlMlBlock *first = hl_ml_body(f, 0), *second = hl_ml_block(tree, &f->regions[0]);
  HlMlOp *jump = op_of(tree, first, "cf.br", 0, NULL, NULL);
  jump->successors = &second;
  jump->n_successors = 1;
  op_of(tree, second, "func.return", 1, (HlMlValue *[]){first->args[0]}, NULL);
  HlMlValue **map = calloc(tree->n_values, sizeof *map);
  HlMlOp *copy = hl_ml_copy_op(tree, hl_ml_body(tree->module, 0), f, map, tree->n_values);
  assert_ptr_equal(hl_ml_body(copy, 0)->first->successors[0], hl_ml_body(copy, 0)->next);
  assert_ptr_equal(jump->successors[0], second);
  free(map);
  hl_ml_free(tree);
}

// --- Equality -------------------------------------------------------------------------------------

static void trees_are_compared(void **state) {
  HlMlTree *a = small_program(2), *b = small_program(2), *c = small_program(3);
  const char *where = NULL;
  assert_true(hl_ml_equal(a, b, &where));
  assert_false(hl_ml_equal(a, c, &where));
  expect_text(where, "@f: stablehlo.constant: value");
  HlMlOp *add = hl_ml_body(hl_ml_find_symbol(b, hl_ml_sym(b, "f")), 0)->last->prev;
  HlMlValue *swap = add->operands[0];
  add->operands[0] = add->operands[1];
  add->operands[1] = swap;
  assert_false(hl_ml_equal(a, b, &where));
  expect_text(where, "@f: stablehlo.add: operands");
  hl_ml_free(a);
  hl_ml_free(b);
  hl_ml_free(c);
}

static HlMlTree *program_with(bool default_said, bool as_tensor) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlType *type = f32x2(tree);
  HlMlBlock *body = hl_ml_body(func(tree, "f", 1, type), 0);
  HlMlOp *op = op_of(tree, body, "stablehlo.reverse", 1, body->args, type);
  const int64_t dim = 0, n = 1;
  hl_ml_set(tree, op, "dimensions",
            as_tensor ? hl_ml_dense_ints(tree, 1, &n, &dim)
                      : hl_ml_dense_i64s(tree, (HlI64s){&dim, 1}));
  HlMlOp *sort = op_of(tree, body, "stablehlo.sort", 1, (HlMlValue *[]){&op->results[0]}, type);
  if (default_said)
    hl_ml_set(tree, sort, "dimension", hl_ml_i64(tree, -1));
  op_of(tree, body, "func.return", 1, (HlMlValue *[]){&sort->results[0]}, NULL);
  return tree;
}

static void spellings_do_not_matter(void **state) {
  HlMlTree *a = program_with(false, false), *b = program_with(true, true);
  assert_true(hl_ml_equal(a, b, NULL));
  assert_true(hl_ml_equal(b, a, NULL));
  hl_ml_free(a);
  hl_ml_free(b);
}

// --- Printing -------------------------------------------------------------------------------------

static void programs_are_printed(void **state) {
  HlMlTree *tree = small_program(2);
  expect_tree(tree, &(HlMlTextOptions){.large_constants = true},
              "module {\n"
              "  func.func @f(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {\n"
              "    %cst = stablehlo.constant dense<2.000000e+00> : tensor<2xf32>\n"
              "    %0 = stablehlo.multiply %arg0, %cst : tensor<2xf32>\n"
              "    %1 = stablehlo.add %0, %arg1 : tensor<2xf32>\n"
              "    return %1 : tensor<2xf32>\n"
              "  }\n"
              "}\n");
  expect_tree(
      tree, &(HlMlTextOptions){.generic = true, .large_constants = true},
      "\"builtin.module\"() ({\n"
      "  \"func.func\"() <{function_type = (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>, "
      "sym_name = \"f\"}> ({\n"
      "  ^bb0(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>):\n"
      "    %0 = \"stablehlo.constant\"() <{value = dense<2.000000e+00> : tensor<2xf32>}> : () -> "
      "tensor<2xf32>\n"
      "    %1 = \"stablehlo.multiply\"(%arg0, %0) : (tensor<2xf32>, tensor<2xf32>) -> "
      "tensor<2xf32>\n"
      "    %2 = \"stablehlo.add\"(%1, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n"
      "    \"func.return\"(%2) : (tensor<2xf32>) -> ()\n"
      "  }) : () -> ()\n"
      "}) : () -> ()\n");
  HlBuf out = {0};
  hl_ml_op_print(&out, tree,
                 hl_ml_body(hl_ml_find_symbol(tree, hl_ml_sym(tree, "f")), 0)->last->prev);
  expect_text(out.at, "%1 = stablehlo.add %0, %arg1 : tensor<2xf32>");
  hl_buf_free(&out);
  hl_ml_free(tree);
}

static void locations_get_aliases(void **state) {
  HlMlTree *tree = small_program(2);
  const HlMlLocation file = {
      .kind = HL_ML_LOC_FILE, .sym = hl_ml_sym(tree, "a.py"), .line = 3, .column = 4};
  const HlMlLocation *child = &file;
  const HlMlLocation name = {
      .kind = HL_ML_LOC_NAME, .sym = hl_ml_sym(tree, "mul"), .n = 1, .child = &child};
  const HlMlLocation again = name;  // another of the same content
  HlMlBlock *body = hl_ml_body(hl_ml_find_symbol(tree, hl_ml_sym(tree, "f")), 0);
  body->args[0]->location = &file;
  body->first->next->location = &name;
  body->last->location = &again;
  expect_tree(
      tree, &(HlMlTextOptions){.locations = true, .large_constants = true},
      "#loc = loc(unknown)\n"
      "#loc1 = loc(\"a.py\":3:4)\n"
      "module {\n"
      "  func.func @f(%arg0: tensor<2xf32> loc(\"a.py\":3:4), %arg1: tensor<2xf32> loc(unknown)) "
      "-> tensor<2xf32> {\n"
      "    %cst = stablehlo.constant dense<2.000000e+00> : tensor<2xf32> loc(#loc)\n"
      "    %0 = stablehlo.multiply %arg0, %cst : tensor<2xf32> loc(#loc2)\n"
      "    %1 = stablehlo.add %0, %arg1 : tensor<2xf32> loc(#loc)\n"
      "    return %1 : tensor<2xf32> loc(#loc2)\n"
      "  } loc(#loc)\n"
      "} loc(#loc)\n"
      "#loc2 = loc(\"mul\"(#loc1))\n");
  hl_ml_free(tree);
}

// Many constants in one region, two regions side by side that use the same numbers.
static void names_follow_regions(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlType *pred =
      hl_ml_tensor_type(tree, 0, NULL, hl_ml_int_type(tree, 1, HL_ML_SIGNLESS), NULL);
  HlMlBlock *body = hl_ml_body(func(tree, "f", 1, pred), 0);
  HlMlOp *choice = hl_ml_op(tree, body, "stablehlo.if", 1, body->args, 1, &pred, 2);
  for (int k = 0; k < 2; k++) {
    HlMlBlock *branch = hl_ml_block(tree, &choice->regions[k]);
    HlMlOp *c = op_of(tree, branch, "stablehlo.constant", 0, NULL, pred);
    hl_ml_set(tree, c, "value", hl_ml_dense(tree, pred, k ? "\1" : "\0", 1, true));
    HlMlOp *flip = op_of(tree, branch, "stablehlo.not", 1, (HlMlValue *[]){&c->results[0]}, pred);
    op_of(tree, branch, "stablehlo.return", 1, (HlMlValue *[]){&flip->results[0]}, NULL);
  }
  op_of(tree, body, "func.return", 1, (HlMlValue *[]){&choice->results[0]}, NULL);
  expect_tree(tree, &(HlMlTextOptions){.large_constants = true},
              "module {\n"
              "  func.func @f(%arg0: tensor<i1>) -> tensor<i1> {\n"
              "    %0 = \"stablehlo.if\"(%arg0) ({\n"
              "      %c = stablehlo.constant dense<false> : tensor<i1>\n"
              "      %1 = stablehlo.not %c : tensor<i1>\n"
              "      stablehlo.return %1 : tensor<i1>\n"
              "    }, {\n"
              "      %c = stablehlo.constant dense<true> : tensor<i1>\n"
              "      %1 = stablehlo.not %c : tensor<i1>\n"
              "      stablehlo.return %1 : tensor<i1>\n"
              "    }) : (tensor<i1>) -> tensor<i1>\n"
              "    return %0 : tensor<i1>\n"
              "  }\n"
              "}\n");
  hl_ml_free(tree);
}

// A form that would lose types gives way to the generic one.
static void lossy_forms_are_not_used(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  const HlMlType *type = f32x2(tree),
                 *open = tensor(tree, "f32", 1, (const int64_t[]){HL_UNBOUNDED});
  const HlMlType *tuple = hl_ml_list_type(tree, HL_ML_TUPLE, 1, &open);
  HlMlBlock *body = hl_ml_body(func(tree, "f", 1, type), 0);
  HlMlOp *op = op_of(tree, body, "stablehlo.tuple", 1, body->args, tuple);
  HlBuf out = {0};
  hl_ml_op_print(&out, tree, op);
  expect_text(out.at, "%0 = stablehlo.tuple %arg0 : (tensor<2xf32>) -> tuple<tensor<?xf32>>");
  hl_buf_free(&out);
  hl_ml_free(tree);
}

// Enumerators compare as names do.
static void names_are_found(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  for (int k = 1; k < ML_NAME_COUNT; k++) {
    if (strcmp(ml_name_text[k - 1], ml_name_text[k]) >= 0)
      fail_msg("names.def: '%s' stands behind '%s'", ml_name_text[k], ml_name_text[k - 1]);
    const HlSym *sym = hl_ml_sym(tree, ml_name_text[k]);
    assert_ptr_equal(sym, ml_name(tree, (MlName)k));
    assert_int_equal(ml_meant_name(tree, sym), k);
  }
  assert_int_equal(ml_meant_name(tree, hl_ml_sym(tree, "dimension_")), ML_A_FOREIGN);
  assert_int_equal(ml_meant_name(tree, hl_ml_sym(tree, "")), ML_A_FOREIGN);
  hl_ml_free(tree);
}

static void known_and_foreign_names_are_found_alike(void **state) {
  HlMlTree *tree = hl_ml_new(NULL);
  HlMlOp *op = op_of(tree, hl_ml_body(tree->module, 0), "stablehlo.iota", 0, NULL, f32x2(tree));
  hl_ml_set(tree, op, "iota_dimension", hl_ml_i64(tree, 3));
  ml_set_attr(tree, op, ML_A_DIMENSION, hl_ml_i64(tree, 4));
  hl_ml_set(tree, op, "foreign", hl_ml_i64(tree, 5));
  assert_int_equal(ml_attr_int(op, ML_A_IOTA_DIMENSION, -1), 3);
  assert_int_equal(hl_ml_attr_int(op, "dimension", -1), 4);
  assert_int_equal(hl_ml_attr_int(op, "foreign", -1), 5);
  assert_int_equal(ml_attr_int(op, ML_A_DIMENSIONS, -1), -1);
  assert_null(ml_attr(op, ML_A_NONE));
  hl_ml_free(tree);
}

// Every @NAME of a pretty form is an attribute of its row.
static void forms_name_attributes(void **state) {
  for (int row = 1; row < ML_ROW_COUNT; row++)
    for (const char *at = strchr(ml_row(row)->form, '@'); at; at = strchr(at + 1, '@')) {
      const char *name = at + 1 + (at[1] == '+');
      const HlStr text = {name, strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")};
      if (!ml_find_attr_text(ml_row(row), text))
        fail_msg("%s has no attribute '%.*s'", ml_row(row)->name, (int)text.n, text.at);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_are_interned),
      cmocka_unit_test(types_are_printed),
      cmocka_unit_test(shapes_become_types),
      cmocka_unit_test(size_of_types_saturates),
      cmocka_unit_test(floats_are_printed),
      cmocka_unit_test(attributes_are_printed),
      cmocka_unit_test(dense_elements),
      cmocka_unit_test(literals_go_both_ways),
      cmocka_unit_test(structs_are_filled_in),
      cmocka_unit_test(attributes_of_ops_are_sorted),
      cmocka_unit_test(names_are_found),
      cmocka_unit_test(known_and_foreign_names_are_found_alike),
      cmocka_unit_test(forms_name_attributes),
      cmocka_unit_test(ops_are_moved),
      cmocka_unit_test(copies_are_deep),
      cmocka_unit_test(copied_jumps_stay_inside),
      cmocka_unit_test(trees_are_compared),
      cmocka_unit_test(spellings_do_not_matter),
      cmocka_unit_test(programs_are_printed),
      cmocka_unit_test(locations_get_aliases),
      cmocka_unit_test(names_follow_regions),
      cmocka_unit_test(lossy_forms_are_not_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
