// Triangular systems and factorisations on the CPU beside the interpreter: sizes, layouts, flags, types, matrices that have no factor.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cpu_check.h"

static int n_checked;
static const char *const types[] = {"f32", "f64", "c64", "c128"};
static const char letters[] = "sdcz";

// `line` is a root with operands that `rest` declares.
static void check(const char *rest, const char *line, int type, CpuLevel level) {
  if (!cpu_runs(level))
    return;
  HlBuf text = {0};
  hl_buf_printf(&text, "HloModule m\nENTRY e {\n%s  ROOT r = %s\n}\n", rest, line);
  char *wrong = cpu_check(text.at, &(CpuCheck){.kind = "linalg",
                                               .tolerance = type % 2 ? 1e-9 : 2e-3,
                                               .has_level = true,
                                               .level = level,
                                               .seed = (uint64_t)n_checked,
                                               .threads = 1 + n_checked % 3});
  if (wrong)
    print_error("%s\n%s\n", text.at, wrong);
  assert_null(wrong);
  n_checked++;
  hl_buf_free(&text);
}

// A batch of matrices as a shape; by columns if `turned`.
static const char *shape_of(char *out, size_t size, int type, int64_t batch, int64_t m, int64_t n,
                            bool turned) {
  if (batch < 0)
    snprintf(out, size, "%s[%" PRId64 ",%" PRId64 "]%s", types[type], m, n,
             turned ? "{0,1}" : "{1,0}");
  else
    snprintf(out, size, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 "]%s", types[type], batch, m, n,
             turned ? "{1,2,0}" : "{2,1,0}");
  return out;
}

// The dimensions of a batch and, unless -1, of a vector.
static const char *vector_of(char *out, size_t size, const char *type, int64_t batch, int64_t n) {
  if (batch < 0 && n < 0)
    snprintf(out, size, "%s[]", type);
  else if (batch < 0 || n < 0)
    snprintf(out, size, "%s[%" PRId64 "]", type, batch < 0 ? n : batch);
  else
    snprintf(out, size, "%s[%" PRId64 ",%" PRId64 "]", type, batch, n);
  return out;
}

static const char *word(bool value) {
  return value ? "true" : "false";
}

static const CpuLevel levels[] = {CPU_V4, CPU_V3, CPU_V2};
static CpuLevel level_of(int k) {
  const CpuLevel level = levels[k % 3];
  return level < cpu_level() ? level : cpu_level();
}

// --- Triangular systems ---------------------------------------------------------------------------

static void check_solve(int type, int64_t batch, int64_t n, int64_t columns, int flags, bool is_op,
                        CpuLevel level) {
  const bool left = flags & 1, lower = flags & 2, unit = flags & 4, turned = flags & 8,
             by_columns = flags & 16, out_by_columns = (flags & 32 ? 1 : 0) != by_columns;
  char a[64], b[64], x[64];
  HlBuf rest = {0}, line = {0};
  shape_of(a, sizeof a, type, batch, n, n, by_columns);
  shape_of(b, sizeof b, type, batch, left ? n : columns, left ? columns : n, by_columns);
  shape_of(x, sizeof x, type, batch, left ? n : columns, left ? columns : n, out_by_columns);
  hl_buf_printf(&rest, "  a = %s parameter(0)\n  b = %s parameter(1)\n", a, b);
  if (is_op)
    hl_buf_printf(&line,
                  "%s triangular-solve(a, b), left_side=%s, lower=%s, unit_diagonal=%s, "
                  "transpose_a=%s",
                  x, word(left), word(lower), word(unit),
                  !turned    ? "NO_TRANSPOSE"
                  : type % 2 ? "TRANSPOSE"
                             : "ADJOINT");
  else
    hl_buf_printf(&line,
                  "%s custom-call(a, b), custom_call_target=\"lapack_%ctrsm_ffi\", "
                  "api_version=API_VERSION_TYPED_FFI, backend_config={diag = %d : ui8, side = %d : "
                  "ui8, trans_x = %d : ui8, uplo = %d : ui8}",
                  x, letters[type], unit ? 'U' : 'N', left ? 'L' : 'R',
                  !turned    ? 'N'
                  : type % 2 ? 'T'
                             : 'C',
                  lower ? 'L' : 'U');
  check(rest.at, line.at, type, level);
  hl_buf_free(&rest);
  hl_buf_free(&line);
}

static void test_systems(void **state) {
  static const struct {
    int64_t batch, n, columns;
  } cases[] = {{-1, 1, 1}, {-1, 5, 3},   {-1, 8, 8},    {-1, 33, 20}, {3, 8, 8},
               {40, 4, 1}, {2, 70, 300}, {-1, 200, 64}, {0, 4, 4},    {-1, 0, 3},
               {-1, 3, 0}, {2, 32, 33},  {-1, 130, 1}};
  n_checked = 0;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    for (int flags = 0; flags < 32; flags++)
      check_solve((flags / 2 + (int)k) % 4, cases[k].batch, cases[k].n, cases[k].columns, flags,
                  flags / 2 % 2 == 0, level_of((int)k + flags));
  check_solve(0, -1, 512, 512, 1 | 2, false, cpu_level());
  check_solve(3, -1, 200, 300, 1 | 8, false, cpu_level());
  check_solve(1, -1, 300, 600, 16, true, cpu_level());
}

// --- Cholesky -------------------------------------------------------------------------------------

static void check_cholesky(int type, int64_t batch, int64_t n, int flags, CpuLevel level) {
  const bool lower = flags & 1, is_op = flags & 2, by_columns = flags & 4;
  char a[64], info[64];
  HlBuf rest = {0}, line = {0};
  shape_of(a, sizeof a, type, batch, n, n, by_columns);
  vector_of(info, sizeof info, "s32", batch, -1);
  hl_buf_printf(&rest, "  a = %s parameter(0)\n", a);
  if (is_op)
    hl_buf_printf(&line, "%s cholesky(a), lower=%s", a, word(lower));
  else
    hl_buf_printf(&line,
                  "(%s, %s) custom-call(a), custom_call_target=\"lapack_%cpotrf_ffi\", "
                  "api_version=API_VERSION_TYPED_FFI, backend_config={uplo = %d : ui8}",
                  a, info, letters[type], lower ? 'L' : 'U');
  check(rest.at, line.at, type, level);
  hl_buf_free(&rest);
  hl_buf_free(&line);
}

static void test_cholesky(void **state) {
  static const int64_t sizes[][2] = {{-1, 1}, {-1, 2}, {50, 8}, {3, 31}, {2, 32},  {-1, 33},
                                     {2, 70}, {0, 4},  {-1, 0}, {3, 0},  {-1, 150}};
  n_checked = 0;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int flags = 0; flags < 8; flags++)
      check_cholesky((flags + (int)k) % 4, sizes[k][0], sizes[k][1], flags,
                     level_of((int)k + flags));
  check_cholesky(0, -1, 512, 1 | 4, cpu_level());
  check_cholesky(1, 2, 430, 2, cpu_level());
  check_cholesky(2, -1, 330, 1, cpu_level());
}

// Not positive definite, infinite, nan, in the first column, in the last; what stands in the other triangle is not read.
static void test_no_factor(void **state) {
  static const char *const matrices[] = {
      "{{0, 1}, {1, 2}}",     "{{1, 2}, {2, 1}}", "{{4, nan}, {2, 5}}", "{{nan, 1}, {1, 1}}",
      "{{4, 0}, {0, inf}}",   "{{4, 2}, {2, 1}}", "{{-1, 0}, {0, 1}}",  "{{inf, 1}, {1, 1}}",
      "{{1e-40, 0}, {0, 1}}", "{{4, 0}, {0, 4}}"};
  for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++)
    for (int lower = 0; lower < 2; lower++) {
      HlBuf rest = {0}, line = {0};
      hl_buf_printf(&rest, "  a = f32[2,2] constant(%s)\n", matrices[k]);
      hl_buf_printf(&line, "f32[2,2] cholesky(a), lower=%s", word(lower));
      check(rest.at, line.at, 0, cpu_level());
      line.n = 0;
      hl_buf_printf(&line,
                    "(f32[2,2], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
                    "api_version=API_VERSION_TYPED_FFI, backend_config={uplo = %d : ui8}",
                    lower ? 'L' : 'U');
      check(rest.at, line.at, 0, cpu_level());
      hl_buf_free(&rest);
      hl_buf_free(&line);
    }
}

// --- LU and QR ------------------------------------------------------------------------------------

// 'l': LU, 'q': QR, 'o': the product of k reflectors, which any numbers are.
static void check_factor(char what, int type, int64_t batch, int64_t m, int64_t n, int64_t k,
                         int layouts, CpuLevel level) {
  const int64_t least = m < n ? m : n;
  char a[64], out[64], info[64], pivots[64], tau[64];
  HlBuf rest = {0}, line = {0};
  shape_of(a, sizeof a, type, batch, m, n, layouts & 1);
  shape_of(out, sizeof out, type, batch, m, n, layouts & 2);
  vector_of(info, sizeof info, "s32", batch, -1);
  vector_of(pivots, sizeof pivots, "s32", batch, least);
  vector_of(tau, sizeof tau, types[type], batch, what == 'o' ? k : least);
  hl_buf_printf(&rest, "  a = %s parameter(0)\n", a);
  if (what == 'o')
    hl_buf_printf(&rest, "  t = %s parameter(1)\n", tau);
  if (what == 'l')
    hl_buf_printf(&line, "(%s, %s, %s)", out, pivots, info);
  else if (what == 'q')
    hl_buf_printf(&line, "(%s, %s)", out, tau);
  else
    hl_buf_puts(&line, out);
  hl_buf_printf(&line,
                " custom-call(%s), custom_call_target=\"lapack_%c%s_ffi\", "
                "api_version=API_VERSION_TYPED_FFI",
                what == 'o' ? "a, t" : "a", letters[type],
                what == 'l'   ? "getrf"
                : what == 'q' ? "geqrf"
                              : "orgqr");
  check(rest.at, line.at, type, level);
  hl_buf_free(&rest);
  hl_buf_free(&line);
}

static void test_lu_and_qr(void **state) {
  static const int64_t sizes[][3] = {
      {-1, 1, 1},  {-1, 8, 8},   {30, 8, 8},   {3, 5, 9},     {3, 9, 5},    {2, 40, 17},
      {2, 17, 40}, {-1, 70, 70}, {2, 33, 100}, {0, 3, 3},     {-1, 0, 4},   {-1, 4, 0},
      {2, 0, 0},   {-1, 1, 20},  {-1, 20, 1},  {-1, 200, 90}, {-1, 90, 200}};
  n_checked = 0;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int way = 0; way < 8; way++) {
      const int64_t m = sizes[k][1], n = sizes[k][2];
      check_factor('l', way & 3, sizes[k][0], m, n, 0, way & 4 ? 3 : way & 1,
                   level_of((int)k + way));
      check_factor('q', way & 3, sizes[k][0], m, n, 0, way & 4 ? 3 : way & 1,
                   level_of((int)k + way));
    }
  check_factor('l', 0, -1, 320, 320, 0, 3, cpu_level());
  check_factor('l', 1, -1, 500, 330, 0, 0, cpu_level());
  check_factor('q', 1, -1, 500, 200, 0, 3, cpu_level());
  check_factor('l', 3, -1, 200, 200, 0, 3, cpu_level());
  check_factor('q', 3, -1, 150, 200, 0, 3, cpu_level());
}

// Factors of reflections that keep numbers small.
static void test_reflectors(void **state) {
  static const int64_t sizes[][4] = {{-1, 1, 1, 1},   {30, 8, 8, 8},   {3, 9, 5, 3},
                                     {2, 40, 17, 17}, {-1, 20, 20, 0}, {-1, 4, 0, 0},
                                     {0, 3, 3, 3},    {-1, 30, 12, 12}};
  n_checked = 0;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int way = 0; way < 8; way++)
      check_factor('o', way & 1, sizes[k][0], sizes[k][1], sizes[k][2], sizes[k][3],
                   way & 2 ? 3 : 0, level_of((int)k + way));
}

// No pivot, ties, nan, numbers whose squares or reciprocals are none.
static void test_bad_matrices(void **state) {
  static const char *const matrices[] = {
      "{{0, 0}, {0, 0}}",         "{{1, 2}, {1, 2}}",
      "{{0, 1}, {0, 2}}",         "{{1, 2}, {-1, 3}}",
      "{{1e-40, 1}, {1e-41, 2}}", "{{1e30, 1}, {1e30, 2}}",
      "{{1e-30, 1}, {1e-30, 2}}", "{{3, 1}, {0, 2}}",
      "{{-0.0, 1}, {0, 2}}",      "{{1e38, 1e38}, {-1e38, 1e38}}"};
  for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++) {
    HlBuf rest = {0};
    hl_buf_printf(&rest, "  a = f32[2,2] constant(%s)\n", matrices[k]);
    check(rest.at,
          "(f32[2,2], s32[2], s32[]) custom-call(a), custom_call_target=\"lapack_sgetrf_ffi\", "
          "api_version=API_VERSION_TYPED_FFI",
          0, cpu_level());
    check(rest.at,
          "(f32[2,2], f32[2]) custom-call(a), custom_call_target=\"lapack_sgeqrf_ffi\", "
          "api_version=API_VERSION_TYPED_FFI",
          0, cpu_level());
    hl_buf_free(&rest);
  }
  static const char *const with_nan[] = {"{{nan, 1}, {2, 3}}", "{{1, 2}, {nan, 3}}",
                                         "{{1, nan}, {2, 3}}", "{{1, 2}, {3, inf}}"};
  for (size_t k = 0; k < sizeof with_nan / sizeof *with_nan; k++) {
    HlBuf rest = {0};
    hl_buf_printf(&rest, "  a = f32[2,2] constant(%s)\n", with_nan[k]);
    check(rest.at,
          "(f32[2,2], s32[2], s32[]) custom-call(a), custom_call_target=\"lapack_sgetrf_ffi\", "
          "api_version=API_VERSION_TYPED_FFI",
          0, cpu_level());
    hl_buf_free(&rest);
  }
}

static void test_bad_complex(void **state) {
  static const char *const matrices[] = {"{{(1, 0), (2, -1)}, {(2, 1), (1, 0)}}",
                                         "{{(0, 0), (1, 0)}, {(0, 0), (2, 1)}}",
                                         "{{(4, 0), (0, -2)}, {(0, 2), (5, 0)}}",
                                         "{{(1, 1), (2, 0)}, {(1.5, 0.4), (1, 0)}}",
                                         "{{(1e-40, 1e-41), (1, 0)}, {(1e-41, 0), (2, 0)}}",
                                         "{{(1e-30, 0), (1, 0)}, {(0, 1e-30), (2, 0)}}",
                                         "{{(1e30, 1e30), (1, 0)}, {(0, 1e30), (2, 0)}}",
                                         "{{(3, 4), (1, 0)}, {(0, 0), (0, 2)}}"};
  static const char *const calls[] = {
      "(c64[2,2], s32[2], s32[]) custom-call(a), custom_call_target=\"lapack_cgetrf_ffi\"",
      "(c64[2,2], c64[2]) custom-call(a), custom_call_target=\"lapack_cgeqrf_ffi\"",
      "(c64[2,2], s32[]) custom-call(a), custom_call_target=\"lapack_cpotrf_ffi\""};
  for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++)
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
      if (c == 1 &&
          (k == 0 || k == 2))  // the sign of R's last element depends on how it is rounded
        continue;
      HlBuf rest = {0}, line = {0};
      hl_buf_printf(&rest, "  a = c64[2,2] constant(%s)\n", matrices[k]);
      hl_buf_printf(&line, "%s, api_version=API_VERSION_TYPED_FFI", calls[c]);
      check(rest.at, line.at, 0, cpu_level());
      hl_buf_free(&rest);
      hl_buf_free(&line);
    }
}

// Pivots that have no inverse, or none that is exact, but what is divided by them has a quotient; none of the solutions is too
// large for its type: what such a one becomes follows from the order of the work.
static void test_far_pivots(void **state) {
  static const char *const pairs[][2] = {
      {"c64[2,2] constant({{(0, 1e-40), (0, 0)}, {(2e-41, 1e-41), (-1e-41, 3e-42)}})",
       "c64[2,3] constant({{(1e-3, -1e-4), (1e-9, 0), (0, 1e-3)}, {(1e-3, 0), (2e-6, 1e-5), (0, "
       "0)}})"},
      {"c64[2,2] constant({{(3e38, 3e38), (0, 0)}, {(1, 1), (0, -2e38)}})",
       "c64[2,3] constant({{(3e38, 0), (1e37, 1e38), (0, -3e38)}, {(2e38, 1e38), (0, 0), (1, "
       "1)}})"},
      {"c128[1,1] constant({{(1e-310, -1e-309)}})",
       "c128[1,2] constant({{(1e-3, 0), (0, 1e-4)}})"}};
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
    HlBuf rest = {0}, line = {0};
    hl_buf_printf(&rest, "  a = %s\n  b = %s\n", pairs[k][0], pairs[k][1]);
    hl_buf_printf(
        &line, "%.*s triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
        (int)strcspn(pairs[k][1], " "), pairs[k][1]);
    check(rest.at, line.at, k == 2, cpu_level());
    hl_buf_free(&rest);
    hl_buf_free(&line);
  }
}

// --- Many small ones ------------------------------------------------------------------------------

static void test_batches(void **state) {
  static const int64_t sizes[][2] = {{1, 1},   {2, 2}, {5, 5}, {8, 8},  {16, 16},
                                     {32, 32}, {3, 7}, {7, 3}, {17, 17}};
  n_checked = 0;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int way = 0; way < 8; way++) {
      const int64_t m = sizes[k][0], n = sizes[k][1], batch = 16 + way + (int64_t)k * 5;
      const CpuLevel level = level_of((int)k + way);
      check_factor('l', way & 1, batch, m, n, 0, way / 2, level);
      check_factor('q', way & 1, batch, m, n, 0, way / 2, level);
      if (m >= n)
        check_factor('o', way & 1, batch, m, n, (n + 1) / 2, way / 2, level);
      check_cholesky(way & 1, batch, n, way, level);
      for (int flags = 0; flags < 64; flags += 3)
        check_solve(way & 1, batch, m, n, flags, flags & 1, level);
    }
}

// Good ones beside bad ones.
static void test_mixed_batches(void **state) {
  static const char *const good = "{{4, 2}, {2, 5}}";
  static const char *const bad[] = {"{{1, 2}, {2, 1}}",     "{{0, 0}, {0, 1}}",
                                    "{{nan, 1}, {1, 2}}",   "{{1e-30, 1}, {1e-30, 2}}",
                                    "{{1e-41, 1}, {1, 2}}", "{{1, 2}, {0, 3}}"};
  static const char *const calls[] = {
      "f32[40,2,2] cholesky(a), lower=true",
      "(f32[40,2,2], s32[40]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\"",
      "(f32[40,2,2], s32[40,2], s32[40]) custom-call(a), custom_call_target=\"lapack_sgetrf_ffi\"",
      "(f32[40,2,2], f32[40,2]) custom-call(a), custom_call_target=\"lapack_sgeqrf_ffi\""};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    HlBuf rest = {0};
    hl_buf_puts(&rest, "  a = f32[40,2,2] constant({");
    for (int b = 0; b < 40; b++)
      hl_buf_printf(&rest, "%s%s", b ? ", " : "", b == 20 ? bad[k] : good);
    hl_buf_puts(&rest, "})\n");
    for (size_t c = k == 2 ? 1 : 0; c < sizeof calls / sizeof *calls - (k == 2); c++) {
      HlBuf line = {0};
      hl_buf_printf(&line, "%s%s", calls[c], c ? ", api_version=API_VERSION_TYPED_FFI" : "");
      check(rest.at, line.at, 0, cpu_level());
      hl_buf_free(&line);
    }
    hl_buf_free(&rest);
  }
}

// A batch of two dimensions that does not lie evenly, and one whose matrices lie within each other.
static void test_batch_layouts(void **state) {
  static const char *const layouts[] = {"{3,2,1,0}", "{2,3,0,1}", "{1,3,2,0}", "{0,1,2,3}"};
  for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
    for (size_t j = 0; j < sizeof layouts / sizeof *layouts; j++) {
      char rest[256], line[256];
      snprintf(rest, sizeof rest,
               "  a = f64[5,7,4,4]%s parameter(0)\n  b = f64[5,7,4,3]%s parameter(1)\n", layouts[k],
               layouts[j]);
      snprintf(line, sizeof line,
               "f64[5,7,4,3]%s triangular-solve(a, b), left_side=true, lower=true, "
               "transpose_a=NO_TRANSPOSE",
               layouts[(k + j) % 4]);
      check(rest, line, 1, cpu_level());
      snprintf(rest, sizeof rest, "  a = f64[5,7,4,4]%s parameter(0)\n", layouts[k]);
      snprintf(line, sizeof line, "f64[5,7,4,4]%s cholesky(a), lower=false", layouts[j]);
      check(rest, line, 1, cpu_level());
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_systems),       cmocka_unit_test(test_cholesky),
      cmocka_unit_test(test_no_factor),     cmocka_unit_test(test_lu_and_qr),
      cmocka_unit_test(test_reflectors),    cmocka_unit_test(test_bad_matrices),
      cmocka_unit_test(test_bad_complex),   cmocka_unit_test(test_batches),
      cmocka_unit_test(test_mixed_batches), cmocka_unit_test(test_batch_layouts),
      cmocka_unit_test(test_far_pivots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
