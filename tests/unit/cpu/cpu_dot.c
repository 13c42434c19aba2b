// The kernel of dots beside the interpreter: element types, dimension numbers, layouts, sizes around those of tiles and blocks.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cpu_check.h"

// --- Dots as text -------------------------------------------------------------------------------

enum { MAX_DIMS = 8 };
typedef struct Shape {
  int rank;
  int64_t dim[MAX_DIMS];
  int layout[MAX_DIMS];  // minor to major
} Shape;
typedef struct Dims {
  int n;
  int64_t size[MAX_DIMS];
  int at[2][MAX_DIMS];  // their numbers on both sides
} Dims;

static void put_list(HlBuf *out, const char *name, int n, const int *at) {
  hl_buf_printf(out, "%s{", name);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "%s%d", k ? "," : "", at[k]);
  hl_buf_puts(out, "}");
}

static void put_shape(HlBuf *out, const char *dtype, const Shape *s) {
  hl_buf_printf(out, "%s[", dtype);
  for (int k = 0; k < s->rank; k++)
    hl_buf_printf(out, "%s%lld", k ? "," : "", (long long)s->dim[k]);
  hl_buf_puts(out, "]");
  if (s->rank)
    put_list(out, "", s->rank, s->layout);
}

static uint64_t next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed >> 11;
}

static void shuffle(uint64_t *seed, int n, int *at) {
  for (int k = 0; k < n; k++)
    at[k] = k;
  for (int k = n - 1; k > 0; k--) {
    const int other = (int)(next(seed) % (uint64_t)(k + 1)), kept = at[k];
    at[k] = at[other];
    at[other] = kept;
  }
}

// dims[0]: batch, [1]: rows, [2]: columns, [3]: contracting.
static char *dot_text(uint64_t *seed, bool is_mixed, const char *const dtype[3], Dims dims[4]) {
  Shape shape[3] = {{0}, {0}, {0}};
  for (int side = 0; side < 2; side++) {
    int order[3 * MAX_DIMS], n = 0;
    const int kinds[] = {0, 1 + side, 3};
    for (int k = 0; k < 3; k++)
      n += dims[kinds[k]].n;
    shuffle(seed, n, order);
    // Free dimensions are in the result in the order in which the operand has them.
    int at = 0;
    for (int k = 0; k < 3; k++) {
      Dims *d = &dims[kinds[k]];
      for (int i = 0; i < d->n; i++)
        d->at[side][i] = is_mixed ? order[at++] : at++;
      for (int i = 0; i < d->n; i++)
        for (int j = i + 1; kinds[k] == 1 + side && j < d->n; j++)
          if (d->at[side][j] < d->at[side][i]) {
            const int kept = d->at[side][i];
            d->at[side][i] = d->at[side][j];
            d->at[side][j] = kept;
          }
      for (int i = 0; i < d->n; i++)
        shape[side].dim[d->at[side][i]] = d->size[i];
    }
    shape[side].rank = n;
  }
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < dims[k].n; i++)
      shape[2].dim[shape[2].rank++] = dims[k].size[i];
  for (int k = 0; k < 3; k++) {
    shuffle(seed, shape[k].rank, shape[k].layout);
    for (int i = 0; !is_mixed && i < shape[k].rank; i++)
      shape[k].layout[i] = shape[k].rank - 1 - i;
  }
  HlBuf out = {0};
  hl_buf_puts(&out, "HloModule m\nENTRY e {\n  a = ");
  put_shape(&out, dtype[0], &shape[0]);
  hl_buf_puts(&out, " parameter(0)\n  b = ");
  put_shape(&out, dtype[1], &shape[1]);
  hl_buf_puts(&out, " parameter(1)\n  ROOT c = ");
  put_shape(&out, dtype[2], &shape[2]);
  hl_buf_puts(&out, " dot(a, b)");
  put_list(&out, ", lhs_batch_dims=", dims[0].n, dims[0].at[0]);
  put_list(&out, ", lhs_contracting_dims=", dims[3].n, dims[3].at[0]);
  put_list(&out, ", rhs_batch_dims=", dims[0].n, dims[0].at[1]);
  put_list(&out, ", rhs_contracting_dims=", dims[3].n, dims[3].at[1]);
  hl_buf_puts(&out, "\n}\n");
  return out.at;
}

static bool is_exact(const char *dtype) {
  return strchr("sup", dtype[0]) != NULL;
}

// Of hl_compare: integers are equal, narrow floats as near as XLA asks.
static double tolerance(const char *dtype) {
  const bool is_single = !strcmp(dtype, "f32") || !strcmp(dtype, "c64");
  const bool is_double = !strcmp(dtype, "f64") || !strcmp(dtype, "c128");
  return is_exact(dtype) ? -1 : is_single ? 3e-6 : is_double ? 1e-14 : 0;
}

// Runs it at every level that this machine has.
static void check(const char *text, const char *dtype, uint64_t seed) {
  for (int level = CPU_V2; level < CPU_LEVELS; level++) {
    if (!cpu_runs(level))
      continue;
    char *wrong = cpu_check(text, &(CpuCheck){.kind = "dot",
                                              .tolerance = tolerance(dtype),
                                              .level = level,
                                              .has_level = true,
                                              .seed = seed,
                                              .large = is_exact(dtype)});
    if (wrong)
      fail_msg("%s at %s:\n%s", wrong, cpu_level_name(level), text);
  }
}

static void check_product(const char *const dtype[3], int64_t b, int64_t m, int64_t n, int64_t k) {
  uint64_t seed = 1 + (uint64_t)(m * 31 + n * 7 + k);
  Dims dims[4] = {{b > 1, {b}, {{0}}}, {1, {m}, {{0}}}, {1, {n}, {{0}}}, {1, {k}, {{0}}}};
  char *text = dot_text(&seed, false, dtype, dims);
  check(text, dtype[2], seed);
  free(text);
}

// Of a batch of m x n x k, in layouts of all kinds, sums so long that floats are only as near as XLA asks.
static void check_mixed(const char *const dtype[3], const int64_t size[4], uint64_t seed) {
  Dims dims[4];
  for (int k = 0; k < 4; k++)
    dims[k] = (Dims){size[k] > 1 || k > 0, {size[k]}, {{0}}};
  char *text = dot_text(&seed, true, dtype, dims);
  char *wrong = cpu_check(
      text, &(CpuCheck){.kind = "dot", .tolerance = is_exact(dtype[2]) ? -1 : 0, .seed = seed});
  if (wrong)
    fail_msg("%s:\n%s", wrong, text);
  free(text);
}

// --- Tests --------------------------------------------------------------------------------------

#define SAME(t) \
  { t, t, t }
static const char *const types[][3] = {
    SAME("f32"),
    SAME("f64"),
    SAME("bf16"),
    SAME("f16"),
    SAME("c64"),
    SAME("c128"),
    SAME("s32"),
    SAME("s8"),
    SAME("u8"),
    SAME("s16"),
    SAME("u16"),
    SAME("u32"),
    SAME("s64"),
    SAME("u64"),
    SAME("pred"),
    SAME("s4"),
    SAME("u4"),
    SAME("f8e4m3fn"),
    {"s8", "s8", "s32"},
    {"u8", "s8", "s32"},
    {"u8", "u8", "s32"},
    {"s8", "s8", "s64"},
    {"bf16", "bf16", "f32"},
    {"f16", "f16", "f32"},
    {"bf16", "f32", "f32"},
    {"f32", "f32", "bf16"},
    {"f32", "f32", "f64"},
    {"f64", "f32", "f32"},
    {"f32", "c64", "c64"},
    {"s8", "f32", "f32"},
    {"f8e5m2", "f8e4m3fn", "f32"},
};
enum { TYPES = sizeof types / sizeof *types };

static void every_type(void **state) {
  for (int k = 0; k < TYPES; k++) {
    check_product(types[k], 1, 7, 17, 5);
    check_product(types[k], 3, 5, 9, 33);
  }
}

static void sizes_around_tiles(void **state) {
  static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 29},
                       columns[] = {1, 3, 8, 15, 16, 17, 31, 32, 33, 67}, depths[] = {1, 2, 9};
  int n = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t j = 0; j < sizeof columns / sizeof *columns; j++, n++)
      check_product(types[n % 7], 1, rows[i], columns[j], depths[n % 3]);
  assert_int_equal(n, 110);
}

static void sizes_around_blocks(void **state) {
  check_product(types[0], 1, 150, 40, 70);
  check_product(types[0], 2, 97, 530, 3);
  check_product(types[1], 1, 50, 20, 300);
  check_product(types[2], 1, 60, 33, 515);
  check_product(types[4], 1, 100, 17, 150);
  check_product(types[18], 1, 65, 35, 1031);
  check_product(types[0], 1, 3, 2, 20001);
  check_product(types[0], 70, 4, 4, 4);
}

// All columns of some rows, some columns of all rows, some of both, whole products of a batch; operands packed for all chunks, by
// each, and not at all.
static void every_cut(void **state) {
  static const int some[] = {0, 1, 2, 4, 18};
  static const int64_t size[][4] = {{1, 300, 40, 5}, {1, 40, 1100, 5},  {1, 150, 300, 5},
                                    {9, 300, 20, 5}, {2, 70, 200, 260}, {1, 530, 33, 3},
                                    {8, 20, 45, 70}};
  for (size_t k = 0; k < sizeof some / sizeof *some; k++)
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
      check_product(types[some[k]], size[i][0], size[i][1], size[i][2], size[i][3]);
  check_product(types[0], 1, 20, 300, 1024);  // rows of A whole pages apart
  check_product(types[0], 1, 16, 600, 900);   // B of more than 2 MiB
}

// Few long sums, whose pieces threads share: of f32 and f64, of complex numbers, of integers whose sums are wider than they are.
static void pieces_of_long_sums(void **state) {
  static const int some[] = {0, 1, 2, 4, 6, 14, 18};
  static const int64_t size[][4] = {{1, 1, 1, 1200007},
                                    {1, 5, 9, 100003},
                                    {1, 1, 30, 65536},
                                    {1, 17, 1, 90000},
                                    {1, 17, 20, 30011}};
  for (size_t k = 0; k < sizeof some / sizeof *some; k++)
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
      check_mixed(types[some[k]], size[i], k + 1);
}

// A vector and a matrix whose elements lie beside each other in one direction or the other.
static void one_row_or_column(void **state) {
  for (int k = 0; k < TYPES; k++) {
    check_product(types[k], 1, 1, 21, 19);
    check_product(types[k], 3, 21, 1, 19);
  }
  check_product(types[0], 1, 1, 70, 9001);
  check_product(types[0], 1, 70, 1, 9001);
  check_product(types[0], 1, 1, 5001, 9);
  check_product(types[0], 40, 1, 33, 3);
}

// A few rows or columns, and a matrix that is large in any layout: some are read where they lie.
static void a_few_rows_or_columns(void **state) {
  static const int some[] = {0, 1, 2, 6, 14, 18, 22, 24, 25};
  static const int64_t size[][4] = {
      {1, 2, 530, 700}, {1, 530, 3, 700}, {1, 8, 1100, 513}, {3, 700, 5, 515}, {1, 7, 70, 5001}};
  for (size_t k = 0; k < sizeof some / sizeof *some; k++)
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
      check_mixed(types[some[k]], size[i], k + i + 1);
  check_mixed(types[0], (const int64_t[]){1, 2, 2080, 1030}, 1);
  check_mixed(types[0], (const int64_t[]){1, 2080, 2, 1030}, 2);
  check_mixed(types[2], (const int64_t[]){1, 2, 2080, 2070}, 3);
}

static void nothing_to_multiply(void **state) {
  for (int k = 0; k < TYPES; k++) {
    check_product(types[k], 1, 3, 5, 0);
    check_product(types[k], 1, 0, 5, 2);
    check_product(types[k], 1, 3, 0, 2);
  }
}

static void any_dimension_numbers(void **state) {
  uint64_t seed = 88172645463325252;
  int n_dims = 0;
  for (int round = 0; round < 300; round++) {
    Dims dims[4];
    for (int k = 0; k < 4; k++) {
      dims[k] = (Dims){.n = (int)(next(&seed) % 3)};
      for (int i = 0; i < dims[k].n; i++)
        dims[k].size[i] = 1 + (int64_t)(next(&seed) % (k == 0 ? 3 : 9));
      n_dims += dims[k].n;
    }
    const char *const *dtype = types[next(&seed) % TYPES];
    char *text = dot_text(&seed, true, dtype, dims);
    check(text, dtype[2], seed);
    free(text);
  }
  assert_true(n_dims > 1000);
}

static void expect(const char *root) {
  char text[1000];
  snprintf(text, sizeof text, "HloModule m\n%s\n", root);
  check(text, "f32", 7);
}

static void a_constant_operand(void **state) {
  expect("ENTRY e {\n  a = f32[3,2] parameter(0)\n  b = f32[2,4] constant({{1,2,3,4},{5,6,7,8}})\n"
         "  ROOT c = f32[3,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}");
  expect("ENTRY e {\n  a = f32[2,4] constant({{1,2,3,4},{5,6,7,8}})\n  b = f32[3,2] parameter(0)\n"
         "  ROOT c = f32[4,3] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n}");
}

static void a_fusion_of_a_dot(void **state) {
  expect("f {\n  x = f32[4,2] parameter(1)\n  y = f32[3,4] parameter(0)\n"
         "  ROOT d = f32[3,2] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
         "ENTRY e {\n  a = f32[3,4] parameter(0)\n  b = f32[4,2] parameter(1)\n"
         "  ROOT c = f32[3,2] fusion(a, b), kind=kCustom, calls=f\n}");
}

// f32 operands that an algorithm rounds are the interpreter's.
static void what_is_left_to_others(void **state) {
  char *wrong = cpu_check(
      "HloModule m\nENTRY e {\n  a = f32[3,2] parameter(0)\n  b = f32[2,4] parameter(1)\n"
      "  ROOT c = f32[3,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "algorithm=dot_bf16_bf16_f32_x3\n}\n",
      &(CpuCheck){.kind = "dot"});
  assert_non_null(wrong);
  assert_non_null(strstr(wrong, "no kernel takes it"));
  free(wrong);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_type),
      cmocka_unit_test(sizes_around_tiles),
      cmocka_unit_test(sizes_around_blocks),
      cmocka_unit_test(every_cut),
      cmocka_unit_test(pieces_of_long_sums),
      cmocka_unit_test(one_row_or_column),
      cmocka_unit_test(a_few_rows_or_columns),
      cmocka_unit_test(nothing_to_multiply),
      cmocka_unit_test(any_dimension_numbers),
      cmocka_unit_test(a_constant_operand),
      cmocka_unit_test(a_fusion_of_a_dot),
      cmocka_unit_test(what_is_left_to_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
