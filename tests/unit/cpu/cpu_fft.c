// Fourier transforms on the CPU beside the interpreter: every length up to some size, dimensions, layouts and types.
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

static const char *const kinds[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
static int n_checked;

// Transforms the last `n_lengths` of `rank` dimensions; `layout` minor to major, "" for row-major.
static void check(int kind, bool wide, int rank, const int64_t *dim, int n_lengths,
                  const char *layout, CpuLevel level) {
  if (!cpu_runs(level))
    return;
  const char *complex = wide ? "c128" : "c64", *real = wide ? "f64" : "f32";
  HlBuf in = {0}, out = {0}, length = {0}, text = {0};
  hl_buf_printf(&in, "%s[", kind == 2 ? real : complex);
  hl_buf_printf(&out, "%s[", kind == 3 ? real : complex);
  for (int d = 0; d < rank; d++) {
    const int64_t half = d == rank - 1 ? dim[d] / 2 + 1 : dim[d];
    hl_buf_printf(&in, "%s%" PRId64, d ? "," : "", kind == 3 ? half : dim[d]);
    hl_buf_printf(&out, "%s%" PRId64, d ? "," : "", kind == 2 ? half : dim[d]);
    if (d >= rank - n_lengths)
      hl_buf_printf(&length, "%s%" PRId64, d > rank - n_lengths ? "," : "", dim[d]);
  }
  hl_buf_printf(&in, "]%s", layout);
  hl_buf_printf(&out, "]%s", layout);
  hl_buf_printf(&text,
                "HloModule m\nENTRY e {\n  x = %s parameter(0)\n  ROOT y = %s fft(x), fft_type=%s, "
                "fft_length={%s}\n}\n",
                in.at, out.at, kinds[kind], length.at);
  char *wrong = cpu_check(text.at, &(CpuCheck){.kind = "fft",
                                               .tolerance = wide ? 1e-11 : 1e-4,
                                               .has_level = true,
                                               .level = level,
                                               .seed = (uint64_t)n_checked,
                                               .threads = 1 + n_checked % 2});
  if (wrong)
    print_error("%s\n%s\n", text.at, wrong);
  assert_null(wrong);
  n_checked++;
  hl_buf_free(&in);
  hl_buf_free(&out);
  hl_buf_free(&length);
  hl_buf_free(&text);
}

static void test_lengths(void **state) {
  n_checked = 0;
  for (int64_t n = 1; n <= 70; n++)
    for (int kind = 0; kind < 4; kind++)
      check(kind, n % 2, 2, (const int64_t[]){1 + n % 11, n}, 1, "",
            (CpuLevel)((n + kind) % CPU_LEVELS));
  // Powers; products of all factors; primes that are large, twice, and times small ones.
  static const int64_t some[] = {256, 1024, 4096, 2 * 3 * 5 * 7 * 4, 729,     625,
                                 343, 961,  1009, 37 * 37,           37 * 16, 2 * 509};
  for (size_t k = 0; k < sizeof some / sizeof *some; k++)
    for (int kind = 0; kind < 4; kind++)
      check(kind, k % 2, 2, (const int64_t[]){3, some[k]}, 1, "", cpu_level());
  assert_true(n_checked >= 48 + 280 / CPU_LEVELS);
}

static void test_dimensions(void **state) {
  n_checked = 0;
  static const struct {
    int rank, n;
    int64_t dim[4];
    const char *layout;
  } cases[] = {
      {1, 1, {100}, ""},
      {1, 1, {4096}, ""},       // in halves
      {2, 2, {3, 1200}, ""},    //
      {3, 2, {2, 720, 3}, ""},  //
      {2, 2, {12, 20}, ""},
      {3, 3, {6, 10, 9}, ""},
      {3, 2, {5, 16, 21}, ""},
      {4, 3, {3, 4, 5, 6}, ""},
      {4, 2, {2, 9, 33, 16}, ""},
      {3, 1, {7, 2, 30}, ""},
      {2, 1, {40, 12}, "{0,1}"},
      {3, 3, {6, 10, 9}, "{0,2,1}"},
      {3, 2, {17, 8, 11}, "{1,0,2}"},
      {3, 3, {1, 8, 1}, ""},
  };
  const int n = (int)(sizeof cases / sizeof *cases);
  for (int k = 0; k < n; k++)
    for (int kind = 0; kind < 4; kind++)
      for (int level = 0; level < CPU_LEVELS; level++)
        check(kind, (k + kind) % 2, cases[k].rank, cases[k].dim, cases[k].n, cases[k].layout,
              (CpuLevel)level);
  assert_true(n_checked >= 4 * n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
