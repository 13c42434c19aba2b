// Literals: conversions (hlo.md 4.3), text (hlo.md 3.2, 3.3), sharing, equality, limits.

#include "hilo/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

typedef struct Fixture {
  HlCx *cx;
  HlArena *arena;
  HlShapes *shapes;
} Fixture;

static int set_up(void **state) {
  static Fixture f;
  f.cx = hl_cx_new();
  f.arena = hl_arena_new();
  f.shapes = hl_shapes_new(f.arena);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  hl_cx_free(f->cx);
  hl_arena_free(f->arena);
  return 0;
}

// A literal of doubles, given as {1, 2, ...}, of some type and dimensions.
static HlLiteral *make(Fixture *f, HlDtype dtype, int rank, const int64_t *dim,
                       const double *values) {
  HlLiteral *literal = hl_literal_new(f->cx, hl_shape_array(f->shapes, dtype, rank, dim));
  assert_non_null(literal);
  for (int64_t k = 0; k < literal->n; k++)
    hl_literal_set_f64(literal, k, values[k]);
  return literal;
}

static void expect_text(const HlLiteral *literal, const char *want) {
  HlBuf buf = {0};
  hl_literal_print(&buf, literal);
  assert_string_equal(buf.at, want);
  hl_buf_free(&buf);
}

static void expect_element(Fixture *f, HlDtype dtype, double value, const char *want) {
  HlLiteral *literal = make(f, dtype, 0, NULL, &value);
  expect_text(literal, want);
  hl_literal_unref(literal);
}

// The text of a scalar given by its bits.
static void expect_bits(Fixture *f, HlDtype dtype, uint64_t bits, const char *want) {
  HlLiteral *literal = make(f, dtype, 0, NULL, &(double){0});
  memcpy(literal->data, &bits, (size_t)hl_dtype_bytes(dtype));
  expect_text(literal, want);
  hl_literal_unref(literal);
}

static double converted(HlDtype to, HlDtype from, double value) {
  uint64_t in = 0, out = 0;
  double back = 0;
  hl_convert_elements(from, &in, HL_F64, &value, 1);
  hl_convert_elements(to, &out, from, &in, 1);
  hl_convert_elements(HL_F64, &back, to, &out, 1);
  return back;
}

static void floats_to_integers_saturate(void **state) {
  static const double in[] = {NAN, INFINITY, -INFINITY, 3e9, -1.7, 300.5};
  static const double s32[] = {0, 2147483647, -2147483648.0, 2147483647, -1, 300};
  static const double u8[] = {0, 255, 0, 255, 0, 255};
  static const double s4[] = {0, 7, -8, 7, -1, 7};
  for (int k = 0; k < 6; k++) {
    assert_true(converted(HL_S32, HL_F32, in[k]) == s32[k]);
    assert_true(converted(HL_U8, HL_F32, in[k]) == u8[k]);
    assert_true(converted(HL_S4, HL_F32, in[k]) == s4[k]);
  }
  int64_t most = 0;
  hl_convert_elements(HL_S64, &most, HL_F64, &(double){1e30}, 1);
  assert_true(most == INT64_MAX);
}

static void integers_wrap(void **state) {
  assert_true(converted(HL_U8, HL_S32, 300) == 44);
  assert_true(converted(HL_U8, HL_S32, -1) == 255);
  assert_true(converted(HL_S4, HL_S32, 9) == -7);
  assert_true(converted(HL_U4, HL_S32, -1) == 15);
  assert_true(converted(HL_S2, HL_U8, 3) == -1);
}

static void predicates_are_zero_or_one(void **state) {
  assert_true(converted(HL_PRED, HL_F32, NAN) == 1);
  assert_true(converted(HL_PRED, HL_F32, -0.0) == 0);
  assert_true(converted(HL_PRED, HL_S32, 256) == 1);
  assert_true(converted(HL_F16, HL_PRED, 1) == 1);
}

static void small_floats_round_to_even(void **state) {
  assert_true(converted(HL_F8E4M3FN, HL_F32, 464) == 448);
  assert_true(isnan(converted(HL_F8E4M3FN, HL_F32, 465)));
  assert_true(isnan(converted(HL_F8E4M3FN, HL_F32, INFINITY)));
  assert_true(converted(HL_F8E5M2, HL_F32, 61439) == 57344);
  assert_true(isinf(converted(HL_F8E5M2, HL_F32, 61440)));
  assert_true(isinf(converted(HL_F8E4M3, HL_F32, 248)));
  assert_true(isinf(converted(HL_F8E3M4, HL_F32, 15.75)));
  assert_true(isnan(converted(HL_F8E4M3FNUZ, HL_F32, INFINITY)));
  assert_false(signbit(converted(HL_F8E5M2FNUZ, HL_F32, -0.0)));
  assert_true(converted(HL_F4E2M1FN, HL_F32, 1e9) == 6);
  assert_true(converted(HL_F8E8M0FNU, HL_F32, 3) == 4);
  assert_true(converted(HL_F8E8M0FNU, HL_F32, 1.5) == 2);
  assert_true(isnan(converted(HL_F8E8M0FNU, HL_F32, 0)));
  assert_true(converted(HL_F8E8M0FNU, HL_F64, 0x1p-140) == 0x1p-127);
}

// One rounding, not two through f32.
static void wide_types_round_once(void **state) {
  assert_true(converted(HL_F16, HL_F64, 1.00048828125 + 0x1p-40) == 1.0009765625);
  assert_true(converted(HL_BF16, HL_S32, 0x1010001) == 0x1020000);
  uint16_t bits = 0;
  const int64_t near_tie = ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1;
  hl_convert_elements(HL_BF16, &bits, HL_S64, &near_tie, 1);
  assert_int_equal(bits, 0x5e81);
}

static void complex_numbers(void **state) {
  const float in[2] = {1.5f, 2};
  double out[2] = {0, 0}, real = 0;
  uint8_t pred = 0;
  hl_convert_elements(HL_C128, out, HL_C64, in, 1);
  assert_true(out[0] == 1.5 && out[1] == 2);
  hl_convert_elements(HL_F64, &real, HL_C64, in, 1);
  assert_true(real == 1.5);
  hl_convert_elements(HL_PRED, &pred, HL_C64, (float[2]){0, 2}, 1);
  assert_int_equal(pred, 1);
  hl_convert_elements(HL_C128, out, HL_S8, (int8_t[1]){-3}, 1);
  assert_true(out[0] == -3 && out[1] == 0);
}

// More than one chunk of a pair that has no loop of its own.
static void long_arrays(void **state) {
  Fixture *f = *state;
  const int64_t n = 1000;
  HlLiteral *from = hl_literal_new(f->cx, hl_shape_array(f->shapes, HL_S16, 1, &n));
  for (int64_t k = 0; k < n; k++)
    hl_literal_set_i64(from, k, k % 17);
  HlLiteral *to = hl_literal_convert(f->cx, from, HL_F8E5M2);
  for (int64_t k = 0; k < n; k += 7)
    assert_true(hl_literal_f64(to, k) == converted(HL_F8E5M2, HL_F64, (double)(k % 17)));
  hl_literal_unref(from);
  hl_literal_unref(to);
}

static void floats_as_text(void **state) {
  Fixture *f = *state;
  expect_element(f, HL_F32, 3.14159265358979, "3.14159274");
  expect_element(f, HL_F32, 0.1, "0.1");
  expect_element(f, HL_F32, 1e16, "1e+16");
  expect_element(f, HL_F32, 1.4013e-45, "1.4013e-45");
  expect_element(f, HL_F32, 16777217, "16777216");
  expect_element(f, HL_F32, -0.0, "-0");
  expect_element(f, HL_F32, INFINITY, "inf");
  expect_element(f, HL_F32, -INFINITY, "-inf");
  expect_element(f, HL_F32, 0.0001, "0.0001");
  expect_element(f, HL_F32, 0.00001, "1e-05");
  expect_element(f, HL_F32, 123456, "123456");
  expect_element(f, HL_F32, 1234567, "1234567");
  expect_element(f, HL_F64, 3.14159265358979311600, "3.1415926535897931");
  expect_element(f, HL_F64, 0.1, "0.1");
  expect_element(f, HL_F64, 1e300, "1e+300");
  expect_element(f, HL_F64, 5e-324, "4.94065645841247e-324");
  expect_element(f, HL_F16, 0.1, "0.099976");
  expect_element(f, HL_BF16, 0.1, "0.1001");
  expect_element(f, HL_F8E4M3FN, 0.3, "0.312");
  expect_element(f, HL_F8E5M2, 0.3, "0.31");
  expect_element(f, HL_F4E2M1FN, 1.5, "1.5");
}

static void nans_as_text(void **state) {
  Fixture *f = *state;
  expect_bits(f, HL_F32, 0x7fc00000, "nan");
  expect_bits(f, HL_F32, 0xffc00000, "-nan");
  expect_bits(f, HL_F32, 0x7f800001, "nan(0x1)");
  expect_bits(f, HL_F32, 0xffc00001, "-nan(0x400001)");
  expect_bits(f, HL_F64, 0x7ff8000000000000, "nan");
  expect_bits(f, HL_F64, 0x7ff0000000000005, "nan(0x5)");
  expect_bits(f, HL_BF16, 0x7fc0, "nan");
  expect_bits(f, HL_F16, 0x7c01, "nan(0x1)");
  expect_bits(f, HL_F8E5M2, 0x7d, "nan(0x1)");
  expect_bits(f, HL_F8E4M3FN, 0xff, "-nan");
  expect_bits(f, HL_F8E4M3FNUZ, 0x80, "-nan");
  expect_bits(f, HL_F8E8M0FNU, 0xff, "nan");
}

static void nesting_as_text(void **state) {
  Fixture *f = *state;
  static const double v[] = {1, 2, 3, 4, 5, 6};
  const struct {
    int rank;
    int64_t dim[4];
    const char *want;
  } cases[] = {{1, {3}, "{1, 2, 3}"},
               {1, {0}, "{}"},
               {2, {2, 3}, "{ { 1, 2, 3 }, { 4, 5, 6 } }"},
               {2, {2, 1}, "{ {1}, {2} }"},
               {2, {2, 0}, "{ {}, {} }"},
               {2, {0, 2}, "{  }"},
               {3, {2, 0, 3}, "{ {  }, {  } }"},
               {3, {1, 2, 2}, "{ { { 1, 2 }, { 3, 4 } } }"},
               {4,
                {2, 1, 1, 2},
                "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } } }, { /*i0=1*/ { /*i1=0*/ { 3, 4 } } } }"},
               {4, {1, 0, 1, 1}, "{ { /*i0=0*/ } }"}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlLiteral *literal = make(f, HL_S32, cases[k].rank, cases[k].dim, v);
    expect_text(literal, cases[k].want);
    hl_literal_unref(literal);
  }
}

static void other_values_as_text(void **state) {
  Fixture *f = *state;
  const int64_t two = 2;
  expect_element(f, HL_PRED, 1, "true");
  HlLiteral *preds = make(f, HL_PRED, 1, &two, (double[]){1, 0});
  expect_text(preds, "{1, 0}");
  HlLiteral *pair = hl_literal_new(f->cx, hl_shape_scalar(f->shapes, HL_C64));
  hl_literal_set_complex(pair, 0, 1, -2.5);
  expect_text(pair, "(1, -2.5)");
  HlLiteral *inner = hl_literal_tuple(f->cx, 1, &preds);
  HlLiteral *outer = hl_literal_tuple(f->cx, 2, (HlLiteral *[]){pair, inner});
  expect_text(outer, "( (1, -2.5), ( {1, 0} ) )");
  HlLiteral *empty = hl_literal_tuple(f->cx, 0, NULL);
  expect_text(empty, "(  )");
  HlLiteral *elided = hl_literal_new_elided(f->cx, preds->shape);
  expect_text(elided, "{...}");
  assert_true(hl_literal_is_elided(elided) && !elided->data);
  HlLiteral *all[] = {preds, pair, inner, outer, empty, elided};
  for (int k = 0; k < HL_COUNT_OF(all); k++)
    hl_literal_unref(all[k]);
}

static void sharing_and_equality(void **state) {
  Fixture *f = *state;
  const int64_t two = 2;
  HlLiteral *a = make(f, HL_F32, 1, &two, (double[]){1, 2});
  HlLiteral *b = hl_literal_copy(f->cx, a);
  assert_true(hl_literal_equal(a, b));
  assert_true(hl_literal_hash(a) == hl_literal_hash(b));
  HlLiteral *tuple = hl_literal_tuple(f->cx, 2, (HlLiteral *[]){a, b});
  hl_literal_unref(b);
  assert_true(hl_literal_bytes(tuple) == 16);
  assert_true(tuple->element[1]->shape != a->shape);
  hl_literal_set_f64(tuple->element[1], 0, -1);
  assert_false(hl_literal_equal(a, tuple->element[1]));
  hl_literal_unref(tuple);
  assert_int_equal(a->refs, 1);
  assert_false(hl_literal_is_all(a, 1));
  hl_literal_set_f64(a, 1, 1);
  assert_true(hl_literal_is_all(a, 1));
  hl_literal_unref(a);
}

static void too_large_is_an_error(void **state) {
  Fixture *f = *state;
  const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, hollow[2] = {INT64_C(1) << 60, 0};
  assert_null(hl_literal_new(f->cx, hl_shape_array(f->shapes, HL_F32, 2, huge)));
  assert_null(hl_literal_new(f->cx, hl_shape_array(f->shapes, HL_F32, 2, hollow)));
  assert_int_equal(hl_cx_error_kind(f->cx), HL_LIMIT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(floats_to_integers_saturate),
                                     cmocka_unit_test(integers_wrap),
                                     cmocka_unit_test(predicates_are_zero_or_one),
                                     cmocka_unit_test(small_floats_round_to_even),
                                     cmocka_unit_test(wide_types_round_once),
                                     cmocka_unit_test(complex_numbers),
                                     cmocka_unit_test(long_arrays),
                                     cmocka_unit_test(floats_as_text),
                                     cmocka_unit_test(nans_as_text),
                                     cmocka_unit_test(nesting_as_text),
                                     cmocka_unit_test(other_values_as_text),
                                     cmocka_unit_test(sharing_and_equality),
                                     cmocka_unit_test(too_large_is_an_error)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
