// The builder: shapes, names, what instructions carry along, XLA's choice of ops for broadcasts, errors.

#include "hilo/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "hilo/eval.h"
#include "hilo/text.h"
#include "hilo/verify.h"

typedef struct Bench {
  HlCx *cx;
  HlModule *m;
  HlBuild b;
} Bench;

static Bench bench_new(void) {
  Bench bench = {.cx = hl_cx_new(), .m = hl_module_new("bench", NULL)};
  HlComp *comp = hl_comp_new(bench.m, "main", 4);
  hl_comp_set_entry(comp);
  bench.b = (HlBuild){.cx = bench.cx, .comp = comp};
  return bench;
}

static void bench_free(Bench *bench) {
  hl_module_free(bench->m);
  hl_cx_free(bench->cx);
}

static void report(const Bench *bench) {
  for (int k = 0; k < hl_cx_n_diags(bench->cx); k++)
    print_message("%s\n", hl_cx_diag(bench->cx, k)->text);
}

// Makes the root, checks the module, runs it without arguments.
static HlLiteral *run(Bench *bench, HlInst *root) {
  report(bench);
  assert_non_null(root);
  hl_set_root(bench->b.comp, root);
  assert_true(hl_sort_comps(bench->cx, bench->m));
  hl_complete_entry_layout(bench->m);
  bool ok = hl_verify(bench->cx, bench->m, NULL);
  HlLiteral *result = ok ? hl_eval_comp(bench->cx, bench->m->entry, NULL, 0) : NULL;
  report(bench);
  assert_non_null(result);
  return result;
}

static void expect(Bench *bench, HlInst *root, const char *want) {
  HlLiteral *result = run(bench, root);
  HlBuf text = {0};
  hl_literal_print(&text, result);
  assert_string_equal(text.at, want);
  hl_buf_free(&text);
  hl_literal_unref(result);
}

#define INTS(...) \
  ((HlI64s){(const int64_t[]){__VA_ARGS__}, HL_COUNT_OF(((const int64_t[]){__VA_ARGS__}))})
#define DIMS(...)                                                    \
  HL_COUNT_OF(((const int64_t[]){__VA_ARGS__})), (const int64_t[]) { \
    __VA_ARGS__                                                      \
  }

// --- Ops ----------------------------------------------------------------------------------------

static void test_elementwise(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlInst *x = hl_b_iota(b, HL_F32, DIMS(4), 0);
  HlInst *is_large = hl_b_compare(b, HL_WORD_direction_GT, x, hl_b_like(b, x, 1.5));
  HlInst *clamped = hl_b_clamp(b, hl_b_scalar(b, HL_F32, 1), x, hl_b_scalar(b, HL_F32, 2));
  HlInst *sum = hl_b_binary(b, HL_OP_ADD, hl_b_unary(b, HL_OP_NEGATE, x), clamped);
  HlInst *chosen = hl_b_select(b, is_large, sum, hl_b_full(b, HL_F32, DIMS(4), 9));
  HlInst *yes = hl_b_scalar_int(b, HL_PRED, 1);
  HlInst *same = hl_b_select(b, yes, chosen, x);
  assert_ptr_equal(hl_b_convert(b, x, HL_F32), x);
  expect(&t, hl_b_convert(b, same, HL_S32), "{9, 9, 0, -1}");
  bench_free(&t);
}

static void test_total_order(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlInst *zero = hl_b_scalar(b, HL_F32, 0), *minus = hl_b_scalar(b, HL_F32, -0.0);
  HlInst *pair[] = {hl_b_compare_total(b, HL_WORD_direction_GT, zero, minus),
                    hl_b_compare(b, HL_WORD_direction_GT, zero, minus)};
  HlInst *whole = hl_b_scalar_int(b, HL_S32, 3);
  HlInst *plain = hl_b_compare_total(b, HL_WORD_direction_EQ, whole, whole);
  assert_false(hl_has_attr(plain, HL_A_COMPARISON_TYPE));
  expect(&t, hl_b_tuple(b, 2, pair), "( true, false )");
  bench_free(&t);
}

static void test_movement(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlInst *x = hl_b_reshape(b, hl_b_iota(b, HL_S32, DIMS(6), 0), DIMS(2, 3));
  HlInst *turned = hl_b_transpose(b, hl_b_reverse(b, x, INTS(1)), INTS(1, 0));  // 3x2
  HlInst *part = hl_b_slice_dim(b, turned, 0, 1, 3);                            // 1 4; 0 3
  int64_t low[] = {0, 1}, high[] = {1, 0}, interior[] = {0, 1};
  HlInst *padded = hl_b_pad(b, part, hl_b_scalar_int(b, HL_S32, -1), low, high, interior);
  HlInst *start[] = {hl_b_scalar_int(b, HL_S32, 1), hl_b_scalar_int(b, HL_S32, 1)};
  HlInst *cut = hl_b_dynamic_slice(b, padded, start, (const int64_t[]){2, 3});
  HlInst *sevens = hl_b_full(b, HL_S32, DIMS(1, 3), 7);
  start[1] = hl_b_scalar_int(b, HL_S32, 0);
  HlInst *joined[] = {cut, hl_b_dynamic_update_slice(b, cut, sevens, start)};
  expect(&t, hl_b_concatenate(b, 2, joined, 1),
         "{ { 0, -1, 3, 0, -1, 3 }, { -1, -1, -1, 7, 7, 7 } }");
  bench_free(&t);
}

static void test_folding(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlInst *x = hl_b_iota(b, HL_F32, DIMS(2, 3), 1), *zero = hl_b_scalar(b, HL_F32, 0);
  HlInst *both[] = {hl_b_reduce(b, HL_OP_ADD, x, zero, INTS(1)),
                    hl_b_reduce(b, HL_OP_ADD, x, zero, INTS(0))};
  assert_ptr_equal(hl_to_apply(both[0]), hl_to_apply(both[1]));
  assert_ptr_not_equal(hl_b_scalar_comp(b, HL_OP_ADD, HL_F64), hl_to_apply(both[0]));
  HlI64s none = {0};
  HlInst *y = hl_b_convert(b, x, HL_BF16);
  HlInst *dot = hl_b_dot(b, y, y, none, none, INTS(1), INTS(1), HL_F32);
  assert_int_equal(dot->shape->dtype, HL_F32);
  HlInst *all[] = {both[0], both[1], dot};
  expect(&t, hl_b_tuple(b, 3, all), "( {3, 3}, {0, 2, 4}, { { 5, 5 }, { 5, 5 } } )");
  bench_free(&t);
}

static void test_constants(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  int64_t dim[] = {2, 2};
  const HlShape *shape = hl_shape_array(t.m->shapes, HL_S8, 2, dim);
  HlLiteral *literal = hl_literal_new(t.cx, shape);
  for (int k = 0; k < 4; k++)
    hl_literal_set_i64(literal, k, 5);
  HlInst *splat = hl_b_constant(b, literal);
  hl_literal_set_i64(literal, 3, 6);
  HlInst *plain = hl_b_constant(b, literal);
  hl_literal_unref(literal);
  assert_int_equal(splat->op, HL_OP_BROADCAST);
  assert_true(hl_shape_is_scalar(splat->operands[0]->shape));
  assert_int_equal(plain->op, HL_OP_CONSTANT);
  assert_ptr_equal(plain->shape, splat->shape);
  expect(&t, hl_b_binary(b, HL_OP_ADD, splat, splat), "{ { 10, 10 }, { 10, 10 } }");
  bench_free(&t);
}

// --- Control ------------------------------------------------------------------------------------

static HlComp *counts_to(HlBuild *b, const HlShape *shape, int64_t limit) {
  HlBuild inner = hl_b_nested(b, "condition");
  HlInst *k = hl_b_parameter(&inner, shape, "k");
  hl_set_root(inner.comp,
              hl_b_compare(&inner, HL_WORD_direction_LT, k, hl_b_like_int(&inner, k, limit)));
  return inner.comp;
}

static HlComp *doubles(HlBuild *b, const HlShape *shape) {
  HlBuild inner = hl_b_nested(b, "body");
  HlInst *k = hl_b_parameter(&inner, shape, "k");
  hl_set_root(inner.comp, hl_b_binary(&inner, HL_OP_ADD, k, k));
  return inner.comp;
}

static void test_control(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlInst *one = hl_b_scalar_int(b, HL_S32, 1);
  HlComp *body = doubles(b, one->shape);
  HlInst *loop = hl_b_while(b, counts_to(b, one->shape, 100), body, one);
  HlInst *call = hl_b_call(b, body, 1, &loop);
  HlInst *both[] = {loop, call};
  HlInst *tuple = hl_b_tuple(b, 2, both);
  assert_ptr_equal(hl_b_element(b, tuple, 1), call);
  expect(&t, tuple, "( 128, 256 )");
  HlBuild other = hl_b_nested(b, "body");
  assert_ptr_not_equal(other.comp->name, body->name);
  bench_free(&t);
}

// --- What instructions carry --------------------------------------------------------------------

static void test_carried(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlMetadata metadata = {.op_name = hl_sym(t.m, "jit(f)/mul")};
  HlSharding sharding = {.kind = HL_SHARDING_REPLICATED};
  const HlSym *key = hl_sym(t.m, "k"), *value = hl_sym(t.m, "v");
  b->metadata = hl_intern_metadata(t.m, &metadata);
  b->sharding = hl_sharding_copy(t.m, &sharding);
  b->frontend = (HlDict){&key, &value, 1};
  b->name = "mul";
  HlInst *x = hl_b_scalar(b, HL_F32, 2), *y = hl_b_unary(b, HL_OP_SQRT, x);
  HlInst *p = hl_b_parameter(b, y->shape, "x 1"), *q = hl_b_parameter(b, y->shape, NULL);
  assert_string_equal(x->name->text, "mul");
  assert_string_equal(y->name->text, "mul.1");
  assert_string_equal(p->name->text, "x_1");
  assert_string_equal(q->name->text, "Arg_1");
  assert_int_equal(hl_parameter_number(q), 1);
  assert_ptr_equal(hl_metadata(y), b->metadata);
  assert_int_equal(hl_sharding(y)->kind, HL_SHARDING_REPLICATED);
  const HlDict *dict = hl_attr_ptr(y, HL_A_FRONTEND_ATTRIBUTES);
  assert_string_equal(dict->value[0]->text, "v");
  bench_free(&t);
}

static void test_many_names(void **state) {
  (void)state;
  Bench t = bench_new();
  t.b.name = "step";
  HlInst *x = hl_b_scalar(&t.b, HL_F32, 1);
  for (int k = 0; k < 100000; k++)
    x = hl_b_unary(&t.b, HL_OP_NEGATE, x);
  assert_string_equal(x->name->text, "step.100000");
  bench_free(&t);
}

// --- Broadcasts ---------------------------------------------------------------------------------

typedef struct Case {
  HlI64s from, to, dimensions;
  const char *ops;  // what becomes of the operand, in order
} Case;

static void check_broadcast(const Case *c) {
  Bench t = bench_new();
  HlInst *x =
      hl_b_parameter(&t.b, hl_shape_array(t.m->shapes, HL_F32, c->from.n, c->from.at), NULL);
  HlInst *out = hl_b_broadcast_in_dim(&t.b, x, c->to.n, c->to.at, c->dimensions);
  report(&t);
  assert_non_null(out);
  HlBuf ops = {0};
  hl_buf_grow(&ops, 1);
  for (HlInst *inst = x->next; inst; inst = inst->next)
    hl_buf_printf(&ops, "%s%s", ops.n ? " " : "", hl_op_text((HlOp)inst->op));
  assert_string_equal(ops.n ? ops.at : "", c->ops);
  assert_true(out->shape->rank == c->to.n);
  for (int d = 0; d < c->to.n; d++)
    assert_true(out->shape->dim[d] == c->to.at[d]);
  hl_set_root(t.b.comp, out);
  assert_true(hl_verify(t.cx, t.m, NULL));
  hl_buf_free(&ops);
  bench_free(&t);
}

static void test_broadcasts(void **state) {
  (void)state;
  const Case cases[] = {
      {INTS(4), INTS(4), INTS(0), ""},
      {INTS(4), INTS(1, 4, 1), INTS(1), "reshape"},
      {INTS(4), INTS(3, 4), INTS(1), "broadcast"},
      {{0}, INTS(3, 4), {0}, "broadcast"},
      {{0}, INTS(1, 1), {0}, "reshape"},
      {INTS(4, 1), INTS(4, 3), INTS(0, 1), "broadcast reshape broadcast"},
      {INTS(1), INTS(1, 5), INTS(0), "broadcast"},
      {INTS(3, 4), INTS(4, 3), INTS(1, 0), "transpose"},
      {INTS(3, 4), INTS(4, 3, 5), INTS(1, 0), "transpose broadcast"},
      {INTS(1, 4), INTS(4, 1), INTS(1, 0), "reshape"},
      {INTS(1, 4), INTS(4, 7), INTS(1, 0), "transpose broadcast reshape broadcast"},
  };
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    check_broadcast(&cases[k]);
}

static void test_dynamic_like(void **state) {
  (void)state;
  Bench t = bench_new();
  int64_t dim[] = {2, 5};
  const bool dynamic[] = {false, true};
  const HlShape *shape = hl_shape_array_full(t.m->shapes, HL_F32, 2, dim, dynamic,
                                             hl_shape_array(t.m->shapes, HL_F32, 2, dim)->layout);
  HlInst *x = hl_b_parameter(&t.b, shape, NULL);
  HlInst *like = hl_b_like(&t.b, x, 1);
  report(&t);
  assert_non_null(like);
  assert_int_equal(like->op, HL_OP_SET_DIMENSION_SIZE);
  assert_true(like->shape->dynamic && like->shape->dynamic[1]);
  hl_set_root(t.b.comp, hl_b_binary(&t.b, HL_OP_ADD, x, like));
  assert_true(hl_verify(t.cx, t.m, NULL));
  bench_free(&t);
}

// --- Errors -------------------------------------------------------------------------------------

static void test_errors(void **state) {
  (void)state;
  Bench t = bench_new();
  HlBuild *b = &t.b;
  HlInst *x = hl_b_iota(b, HL_F32, DIMS(4), 0), *y = hl_b_iota(b, HL_F32, DIMS(5), 0);
  uint32_t before = b->comp->n_insts;
  HlInst *bad = hl_b_binary(b, HL_OP_ADD, x, y);
  assert_null(bad);
  assert_int_equal(hl_cx_n_errors(t.cx), 1);
  assert_int_equal(b->comp->n_insts, before);
  // What follows from a failure is silent.
  assert_null(hl_b_select(b, bad, x, x));
  assert_null(hl_b_reshape(b, bad, DIMS(4)));
  assert_null(hl_b_like(b, bad, 1));
  assert_null(hl_b_slice_dim(b, bad, 0, 0, 1));
  assert_null(hl_b_concatenate(b, 1, &bad, 0));
  assert_null(hl_b_broadcast_in_dim(b, bad, DIMS(4), INTS(0)));
  assert_null(hl_b_bitcast_convert(b, bad, HL_S32));
  assert_int_equal(hl_cx_n_errors(t.cx), 1);
  assert_null(hl_b_broadcast_in_dim(b, x, DIMS(3, 4), INTS(0)));
  assert_null(hl_b_broadcast_in_dim(b, x, DIMS(3, 4), INTS(2)));
  assert_null(hl_b_broadcast_in_dim(b, x, DIMS(3, 4), INTS(0, 1)));
  assert_null(hl_b_bitcast_convert(b, x, HL_S64));
  assert_null(hl_b_reshape(b, x, DIMS(3)));
  const HlShape *wrong = y->shape;
  assert_null(hl_b_op(b, HL_OP_NEGATE, wrong, 1, &x, 0, NULL, 0, NULL));
  assert_int_equal(hl_cx_n_errors(t.cx), 7);
  assert_int_equal(b->comp->n_insts, before);
  // Arrays are wanted, and nothing breaks on tuples.
  HlInst *pair[] = {x, y}, *tuple = hl_b_tuple(b, 2, pair);
  assert_null(hl_b_like(b, tuple, 1));
  assert_null(hl_b_convert(b, tuple, HL_S32));
  assert_null(hl_b_select(b, x, tuple, tuple));
  assert_null(hl_b_broadcast_in_dim(b, tuple, DIMS(2), INTS(0, 1)));
  assert_null(hl_b_reshape(b, tuple, DIMS(2, 1)));
  assert_null(hl_b_transpose(b, tuple, INTS(0, 1)));
  assert_null(hl_b_slice_dim(b, tuple, 0, 0, 1));
  assert_null(hl_b_dynamic_slice(b, tuple, pair, (const int64_t[]){1, 1}));
  assert_null(hl_b_reduce(b, HL_OP_ADD, tuple, x, INTS(0)));
  assert_null(hl_b_unary(b, HL_OP_ABS, tuple));
  assert_int_equal(hl_cx_n_errors(t.cx), 17);
  bench_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elementwise), cmocka_unit_test(test_total_order),
      cmocka_unit_test(test_movement),    cmocka_unit_test(test_folding),
      cmocka_unit_test(test_constants),   cmocka_unit_test(test_control),
      cmocka_unit_test(test_carried),     cmocka_unit_test(test_many_names),
      cmocka_unit_test(test_broadcasts),  cmocka_unit_test(test_dynamic_like),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
