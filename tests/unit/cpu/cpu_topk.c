// TopK as a kernel of the CPU backend, bit by bit as the interpreter has it: all types with ties, NaNs and zeros of both signs, rows
// of all lengths, few and many of them wanted, the largest and the smallest, layouts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/base.h"
#include "support/cpu_check.h"

typedef struct Case {
  const char *dtype, *places;
  int rows, n, k;       // rows 0: there is no such dimension
  const char *values;   // a constant's, chosen among, spaces between; NULL: arguments
  bool smallest, call;  // a custom call
  bool turned;          // rows lie column by column
} Case;

static void put_shape(HlBuf *out, const Case *c, const char *dtype, int n) {
  if (!c->rows)
    hl_buf_printf(out, "%s[%d]", dtype, n);
  else
    hl_buf_printf(out, "%s[%d,%d]{%s}", dtype, c->rows, n, c->turned ? "0,1" : "1,0");
}

static void put_values(HlBuf *out, const Case *c, HlRng *rng) {
  int n = 1;
  for (const char *at = c->values; *at; at++)
    n += *at == ' ';
  for (int r = 0; r < (c->rows ? c->rows : 1); r++) {
    hl_buf_puts(out, c->rows && r ? ", {" : "{");
    for (int k = 0; k < c->n; k++) {
      const char *at = c->values;
      for (int64_t skip = hl_rng_below(rng, n); skip > 0; skip--)
        at += strcspn(at, " ") + 1;
      hl_buf_printf(out, "%s%.*s", k ? ", " : "", (int)strcspn(at, " "), at);
    }
    hl_buf_puts(out, "}");
  }
}

static char *program(const Case *c, HlRng *rng) {
  HlBuf out = {0};
  hl_buf_puts(&out, "HloModule m\n\n");
  if (c->call)
    hl_buf_printf(&out,
                  "better {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
                  "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n"
                  "  ROOT r = pred[] compare(a, b), direction=%s\n}\n\n",
                  c->dtype, c->dtype, c->smallest ? "LT" : "GT");
  hl_buf_puts(&out, "ENTRY e {\n  x = ");
  put_shape(&out, c, c->dtype, c->n);
  if (c->values) {
    hl_buf_puts(&out, c->rows ? " constant({" : " constant(");
    put_values(&out, c, rng);
    hl_buf_puts(&out, c->rows ? "})" : ")");
  } else {
    hl_buf_puts(&out, " parameter(0)");
  }
  hl_buf_puts(&out, "\n  ROOT t = (");
  put_shape(&out, c, c->dtype, c->k);
  hl_buf_puts(&out, ", ");
  put_shape(&out, c, c->places, c->k);
  if (c->call)
    hl_buf_puts(&out,
                ") custom-call(x), custom_call_target=\"TopK\", called_computations={better}\n}\n");
  else
    hl_buf_printf(&out, ") topk(x), k=%d, largest=%s\n}\n", c->k, c->smallest ? "false" : "true");
  return out.at;
}

static int checked;

static void check(Case c) {
  HlRng rng = {(uint64_t)checked};
  char *text = program(&c, &rng);
  char *wrong = cpu_check(text, &(CpuCheck){.kind = "topk", .tolerance = -1, .large = c.n > 1000});
  if (wrong)
    fail_msg("%s\n%.3000s", wrong, text);
  hl_free(text);
  checked++;
}

static void all_types(void **state) {
  static const char *const dtypes[] = {"f32",      "f64",        "f16",       "bf16",     "f8e5m2",
                                       "f8e4m3fn", "f8e4m3fnuz", "f8e8m0fnu", "f4e2m1fn", "s4",
                                       "u4",       "s8",         "u8",        "s16",      "u16",
                                       "s32",      "u32",        "s64",       "u64",      "pred"};
  static const int sizes[][2] = {{1, 1}, {5, 2}, {300, 7}, {300, 40}, {300, 300}, {3, 0}};
  for (int d = 0; d < HL_COUNT_OF(dtypes); d++)
    for (int k = 0; k < HL_COUNT_OF(sizes); k++)
      for (int smallest = 0; smallest < 2; smallest++)
        check((Case){dtypes[d], "s32", 3, sizes[k][0], sizes[k][1], NULL, smallest, false, false});
}

static void ties_and_nans(void **state) {
  static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "f8e5m2"};
  static const int wanted[] = {1, 3, 20, 64, 200};
  for (int d = 0; d < HL_COUNT_OF(dtypes); d++)
    for (int k = 0; k < HL_COUNT_OF(wanted); k++)
      for (int smallest = 0; smallest < 2; smallest++) {
        check((Case){dtypes[d], "s32", 2, 200, wanted[k], "nan -nan 0 -0 1 -1 inf -inf 0.5",
                     smallest, false, false});
        check((Case){dtypes[d], "s32", 0, 200, wanted[k], "0 1", smallest, false, false});
      }
  // NaNs with payloads: quiet ones order by these, the others as quiet ones.
  check((Case){"f32", "s32", 0, 50, 50, "nan(0x1) nan(0x400001) nan(0x400002) nan(0x2) -nan(0x1)",
               false, false, false});
  check((Case){"f16", "s32", 0, 50, 50, "nan(0x1) nan(0x201) nan(0x202) nan(0x2) -nan(0x1)", false,
               false, false});
}

static void calls_and_layouts(void **state) {
  for (int smallest = 0; smallest < 2; smallest++)
    for (int turned = 0; turned < 2; turned++)
      for (int k = 1; k < 120; k += 50) {
        check((Case){"f32", "s32", 5, 120, k, NULL, smallest, true, turned});
        check((Case){"f64", "s32", 5, 120, k, NULL, smallest, true, turned});
        check((Case){"bf16", "s32", 100, 8, k % 8, NULL, smallest, true, turned});
        check((Case){"u8", "s32", 5, 120, k, NULL, smallest, false, turned});
      }
}

static void long_rows(void **state) {
  check((Case){"f32", "s32", 2, 50000, 10, NULL, false, false, false});
  check((Case){"f32", "s32", 0, 50000, 30000, NULL, false, false, false});
  check((Case){"f64", "s32", 0, 50000, 1000, NULL, true, false, false});
  check((Case){"bf16", "s32", 0, 50000, 50000, NULL, true, false, false});
  assert_true(checked > 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_types),
      cmocka_unit_test(ties_and_nans),
      cmocka_unit_test(calls_and_layouts),
      cmocka_unit_test(long_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
