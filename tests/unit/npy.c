// Array files: the bytes NumPy writes, all types there and back, damage.

#include "hilo/npy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static HlLiteral *new_literal(HlCx *cx, HlDtype dtype, int rank, const int64_t *dim) {
  HlArena *arena = hl_arena_new();
  HlLiteral *literal = hl_literal_new(cx, hl_shape_array(hl_shapes_new(arena), dtype, rank, dim));
  assert_non_null(literal);
  hl_arena_free(arena);
  return literal;
}

static bool read_bytes(HlCx *cx, const void *bytes, size_t n, HlNpz *out) {
  HlSource *source = hl_source_new("f.npz", bytes, n, true);
  const bool ok = hl_npz_read(cx, source, out);
  assert_int_equal(hl_cx_n_errors(cx), !ok);
  hl_source_unref(source);
  return ok;
}

// A .npy of version 1 with a given header.
static HlBuf npy(const char *header, const void *data, size_t n) {
  HlBuf out = {0};
  hl_buf_add(&out, "\x93NUMPY\1\0", 8);
  hl_buf_putc(&out, (char)strlen(header));
  hl_buf_putc(&out, 0);
  hl_buf_puts(&out, header);
  hl_buf_add(&out, data, n);
  return out;
}

static HlLiteral *read_npy(HlCx *cx, const char *header, const void *data, size_t n) {
  HlNpz npz;
  HlBuf bytes = npy(header, data, n);
  const bool ok = read_bytes(cx, bytes.at, bytes.n, &npz);
  HlLiteral *array = ok ? hl_literal_ref(hl_npz_find(&npz, "arr_0")) : NULL;
  hl_npz_free(&npz);
  hl_buf_free(&bytes);
  return array;
}

// Every element type, through both ways of packing; what NumPy lacks comes back wider.
static void types_come_back(void **state) {
  HlCx *cx = hl_cx_new();
  const int64_t dim[] = {3, 5};
  HlLiteral *arrays[HL_DTYPE_COUNT];
  const char *names[HL_DTYPE_COUNT];
  int n = 0;
  HlRng rng = {1};
  for (int t = 0; t < HL_DTYPE_COUNT; t++) {
    if (!hl_is_array_dtype((HlDtype)t))
      continue;
    names[n] = hl_dtype_text((HlDtype)t);
    arrays[n] = new_literal(cx, (HlDtype)t, 2, dim);
    for (int64_t k = 0; k < arrays[n]->n; k++)
      hl_literal_set_i64(arrays[n], k, hl_rng_below(&rng, 2));
    n++;
  }
  for (int deflated = 0; deflated < 2; deflated++) {
    HlBuf bytes = {0};
    HlNpz npz;
    hl_buf_puts(&bytes, "before");
    assert_true(hl_npz_pack(cx, n, names, arrays, deflated, &bytes));
    assert_true(read_bytes(cx, bytes.at + 6, bytes.n - 6, &npz));
    assert_int_equal(npz.n, n);
    for (int k = 0; k < n; k++) {
      assert_string_equal(npz.names[k], names[k]);
      HlLiteral *back = hl_literal_convert(cx, npz.arrays[k], arrays[k]->shape->dtype);
      assert_true(hl_literal_equal(back, arrays[k]));
      hl_literal_unref(back);
    }
    hl_npz_free(&npz);
    hl_buf_free(&bytes);
  }
  for (int k = 0; k < n; k++)
    hl_literal_unref(arrays[k]);
  hl_cx_free(cx);
}

// What numpy.save(arange(3, dtype=int16)) writes.
static void header_is_numpys(void **state) {
  HlCx *cx = hl_cx_new();
  const int64_t three = 3;
  HlLiteral *array = new_literal(cx, HL_S16, 1, &three);
  const char *name = "a0";
  HlBuf bytes = {0}, want = {0};
  for (int64_t k = 0; k < 3; k++)
    hl_literal_set_i64(array, k, k);
  assert_true(hl_npz_pack(cx, 1, &name, &array, false, &bytes));
  hl_buf_add(&want, "\x93NUMPY\1\0v\0", 10);
  hl_buf_printf(&want, "%-117s\n", "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }");
  hl_buf_add(&want, "\0\0\1\0\2\0", 6);
  assert_true(bytes.n > 36 + want.n);
  assert_memory_equal(bytes.at + 36, want.at, want.n);  // behind the archive's header and "a0.npy"
  hl_buf_free(&bytes);
  hl_buf_free(&want);
  hl_literal_unref(array);
  hl_cx_free(cx);
}

static void fortran_order(void **state) {
  HlCx *cx = hl_cx_new();
  const char data[] = {0, 3, 1, 4, 2, 5};
  HlLiteral *array =
      read_npy(cx, "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }\n", data, 6);
  assert_non_null(array);
  for (int64_t k = 0; k < 6; k++)
    assert_int_equal(hl_literal_i64(array, k), k);
  hl_literal_unref(array);
  hl_cx_free(cx);
}

static void big_endian(void **state) {
  HlCx *cx = hl_cx_new();
  HlLiteral *array = read_npy(cx, "{\"shape\":(1,),\"descr\":\">c8\",\"fortran_order\":False}",
                              "\x3f\x80\0\0\xc0\0\0\0", 8);
  assert_non_null(array);
  assert_int_equal(array->shape->dtype, HL_C64);
  assert_true(hl_literal_f64(array, 0) == 1 && hl_literal_imag(array, 0) == -2);
  hl_literal_unref(array);
  array = read_npy(cx, "{'descr': '>u2', 'fortran_order': False, 'shape': (2L,), }", "\1\2\3\4", 4);
  assert_int_equal(hl_literal_i64(array, 1), 0x304);
  hl_literal_unref(array);
  hl_cx_free(cx);
}

static void odd_shapes(void **state) {
  HlCx *cx = hl_cx_new();
  HlLiteral *array = read_npy(cx, "{'descr': '?', 'fortran_order': False, 'shape': ()}", "\xff", 1);
  assert_null(array);  // bool is spelt '|b1'
  hl_cx_clear(cx);
  array = read_npy(cx, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", "\xff", 1);
  assert_int_equal(array->shape->rank, 0);
  assert_int_equal(*(char *)array->data, 1);
  hl_literal_unref(array);
  array = read_npy(cx, "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 7)}", "", 0);
  assert_int_equal(array->n, 0);
  assert_int_equal(array->shape->dim[1], 7);
  hl_literal_unref(array);
  array = read_npy(cx, "{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}", "\x80\x3f", 2);
  assert_true(hl_literal_f64(array, 0) == 1);
  hl_literal_unref(array);
  hl_cx_free(cx);
}

static void dynamic_sizes_are_written(void **state) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  const int64_t dim[] = {2, 4};
  const bool dynamic[] = {false, true};
  HlLiteral *array =
      hl_literal_new(cx, hl_shape_array_full(hl_shapes_new(arena), HL_S32, 2, dim, dynamic, NULL));
  const char *name = "r0";
  HlBuf bytes = {0};
  HlNpz npz;
  for (int64_t k = 0; k < 8; k++)
    hl_literal_set_i64(array, k, k);
  if (array->extent)
    array->extent[1] = 3;
  assert_true(hl_npz_pack(cx, 1, &name, &array, false, &bytes));
  assert_true(read_bytes(cx, bytes.at, bytes.n, &npz));
  if (array->extent) {
    assert_int_equal(npz.arrays[0]->shape->dim[1], 3);
    assert_int_equal(hl_literal_i64(npz.arrays[0], 5), 6);
  }
  hl_npz_free(&npz);
  hl_buf_free(&bytes);
  hl_literal_unref(array);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void headers_that_are_refused(void **state) {
  static const struct {
    const char *header, *message;
    HlErrorKind kind;
    HlLoc loc;
  } rows[] = {
      {"", "expected '{' in the header", HL_INVALID, 11},
      {"{'descr': '<f4'}", "header lacks 'fortran_order'", HL_INVALID, 27},
      {"{'descr': '<f4', 'x': 1}", "unknown key 'x' in the header", HL_INVALID, 28},
      {"{'descr': '<f3'}", "elements of type '<f3'", HL_UNSUPPORTED, 21},
      {"{'descr': '|O'}", "elements of type '|O'", HL_UNSUPPORTED, 21},
      {"{'descr': ''}", "elements of type ''", HL_UNSUPPORTED, 21},
      {"{'descr': [('x', '<f4')]}", "elements that are records", HL_UNSUPPORTED, 21},
      {"{'descr': '<f4", "string in the header has no end", HL_INVALID, 21},
      {"{'fortran_order': 1}", "expected True or False in the header", HL_INVALID, 29},
      {"{'shape': (99999999999999999999,)}", "size is too large", HL_INVALID, 40},
      {"{'shape': (-1,)}", "expected a size in the header", HL_INVALID, 22},
      {"{'shape': (1 2)}", "expected ',' in the header", HL_INVALID, 24},
      {"{'descr': '<f8', 'fortran_order': True, 'shape': "
       "(4611686018427387904,4611686018427387904)}",
       "has 3 bytes of elements, fewer than its shape needs", HL_INVALID, 102},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': ()}",
       "has 3 bytes of elements, fewer than its shape needs", HL_INVALID, 63},
  };
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(rows); k++) {
    hl_cx_clear(cx);
    assert_null(read_npy(cx, rows[k].header, "\0\0\0", 3));
    const HlDiag *diag = hl_cx_diag(cx, 0);
    assert_string_equal(diag->text + strlen("array: "), rows[k].message);
    assert_int_equal(diag->kind, rows[k].kind);
    assert_int_equal(diag->loc, rows[k].loc);
  }
  hl_cx_free(cx);
}

static HlBuf sample(HlCx *cx, bool deflated) {
  const int64_t dim[] = {4, 50};
  HlLiteral *arrays[2] = {new_literal(cx, HL_F32, 2, dim), new_literal(cx, HL_U8, 1, dim)};
  const char *names[2] = {"a0", "d1.a0"};
  HlBuf bytes = {0};
  for (int64_t k = 0; k < 200; k++)
    hl_literal_set_f64(arrays[0], k, sqrt((double)(k % 10)));
  assert_true(hl_npz_pack(cx, 2, names, arrays, deflated, &bytes));
  hl_literal_unref(arrays[0]);
  hl_literal_unref(arrays[1]);
  return bytes;
}

static void cut_archives(void **state) {
  HlCx *cx = hl_cx_new();
  for (int deflated = 0; deflated < 2; deflated++) {
    HlBuf bytes = sample(cx, deflated);
    HlNpz npz;
    for (size_t n = 0; n < bytes.n; n++) {
      assert_false(read_bytes(cx, bytes.at, n, &npz));
      assert_true(hl_cx_diag(cx, 0)->loc > 0);
      hl_cx_clear(cx);
    }
    hl_buf_free(&bytes);
  }
  hl_cx_free(cx);
}

static void damaged_archives(void **state) {
  HlCx *cx = hl_cx_new();
  HlRng rng = {2};
  for (int deflated = 0; deflated < 2; deflated++) {
    HlBuf bytes = sample(cx, deflated);
    for (int k = 0; k < 5000; k++) {
      const size_t at = (size_t)hl_rng_below(&rng, (int64_t)bytes.n);
      const char saved = bytes.at[at];
      HlNpz npz;
      bytes.at[at] = (char)hl_rng_u64(&rng);
      read_bytes(cx, bytes.at, bytes.n, &npz);
      hl_npz_free(&npz);
      hl_cx_clear(cx);
      bytes.at[at] = saved;
    }
    hl_buf_free(&bytes);
  }
  hl_cx_free(cx);
}

static void limits_hold(void **state) {
  HlCx *cx = hl_cx_new();
  HlBuf bytes = sample(cx, true);
  HlNpz npz;
  hl_cx_limits(cx)->literal_bytes = 1000;
  assert_false(read_bytes(cx, bytes.at, bytes.n, &npz));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_buf_free(&bytes);
  hl_cx_free(cx);
}

static void not_arrays(void **state) {
  HlCx *cx = hl_cx_new();
  HlNpz npz;
  assert_false(read_bytes(cx, "HloModule m", 11, &npz));
  assert_string_equal(hl_cx_diag(cx, 0)->text, "neither a .npz nor a .npy file");
  hl_cx_clear(cx);
  HlLiteral *tuple = hl_literal_tuple(cx, 0, NULL);
  const char *name = "r0";
  HlBuf bytes = {0};
  assert_false(hl_npz_pack(cx, 1, &name, &tuple, false, &bytes));
  assert_int_equal(bytes.n, 0);
  hl_buf_free(&bytes);
  hl_cx_clear(cx);
  assert_true(hl_npz_pack(cx, 0, NULL, NULL, false, &bytes));  // an empty archive is one, too
  assert_true(read_bytes(cx, bytes.at, bytes.n, &npz));
  assert_int_equal(npz.n, 0);
  assert_null(hl_npz_find(&npz, "a0"));
  hl_npz_free(&npz);
  hl_literal_unref(tuple);
  hl_buf_free(&bytes);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_come_back),
      cmocka_unit_test(header_is_numpys),
      cmocka_unit_test(fortran_order),
      cmocka_unit_test(big_endian),
      cmocka_unit_test(odd_shapes),
      cmocka_unit_test(dynamic_sizes_are_written),
      cmocka_unit_test(headers_that_are_refused),
      cmocka_unit_test(cut_archives),
      cmocka_unit_test(damaged_archives),
      cmocka_unit_test(limits_hold),
      cmocka_unit_test(not_arrays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
