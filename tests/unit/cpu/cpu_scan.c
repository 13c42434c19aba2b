// Long windows on the CPU beside the interpreter: cumulative ones and those that slide, along every dimension, by layouts and types.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/cpu_check.h"

static int n_checked;

typedef struct Case {
  int64_t dim[3];
  int along;
  int64_t size, low, high;
} Case;

static void check(const char *type, const char *op, const char *layout, const char *init,
                  const Case *c) {
  HlBuf text = {0}, window = {0}, pad = {0};
  int64_t to[3] = {c->dim[0], c->dim[1], c->dim[2]};
  to[c->along] += c->low + c->high - c->size + 1;
  for (int d = 0; d < 3; d++) {
    const char *by = d ? "x" : "";
    hl_buf_printf(&window, "%s%" PRId64, by, d == c->along ? c->size : 1);
    hl_buf_printf(&pad, "%s%" PRId64 "_%" PRId64, by, d == c->along ? c->low : 0,
                  d == c->along ? c->high : 0);
  }
  hl_buf_printf(&text,
                "HloModule m\nf { a = %s[] parameter(0)\n b = %s[] parameter(1)\n ROOT r = %s[] "
                "%s(a, b) }\nENTRY e {\n  x = %s[%" PRId64 ",%" PRId64 ",%" PRId64
                "]%s parameter(0)\n  i = %s[] constant(%s)\n  ROOT w = %s[%" PRId64 ",%" PRId64
                ",%" PRId64 "]%s reduce-window(x, i), window={size=%s pad=%s}, to_apply=f\n}\n",
                type, type, type, op, type, c->dim[0], c->dim[1], c->dim[2], layout, type, init,
                type, to[0], to[1], to[2], layout, window.at, pad.at);
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS; level++) {
    const bool adds_up = strcmp(op, "add") == 0 || strcmp(op, "multiply") == 0;
    const bool exact = !adds_up || type[0] == 's' || type[0] == 'u';
    const CpuCheck options = {.kind = "scan",
                              .tolerance = exact ? -1 : 0,
                              .level = level,
                              .has_level = true,
                              .threads = 1 + n_checked % 2,
                              .seed = (uint64_t)n_checked};
    char *wrong = cpu_runs(level) ? cpu_check(text.at, &options) : NULL;
    if (wrong)
      print_error("%s\n%s\n", text.at, wrong);
    assert_null(wrong);
    n_checked++;
  }
  hl_buf_free(&text);
  hl_buf_free(&window);
  hl_buf_free(&pad);
}

static const char *const layouts[] = {"", "{0,1,2}", "{1,2,0}"};

// All that lies before, or behind, each element.
static void cumulative(void **state) {
  static const Case cases[] = {{{3, 50, 4}, 1, 50, 49, 0},          {{3, 50, 4}, 1, 50, 0, 49},
                               {{2, 3, 40}, 2, 40, 39, 0},          {{70, 2, 19}, 0, 90, 89, 0},
                               {{70, 2, 19}, 0, 90, 0, 89},         {{40, 1, 300}, 0, 40, 39, 0},
                               {{1, 1, 20000}, 2, 20000, 19999, 0}, {{300, 40, 1}, 0, 300, 0, 299}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    for (int layout = 0; layout < HL_COUNT_OF(layouts); layout++) {
      check("f32", "add", layouts[layout], "0.5", &cases[k]);
      check("s32", "add", layouts[layout], "3", &cases[k]);
    }
}

// Windows shorter and longer than the line, with results that begin before it and end behind it.
static void sliding(void **state) {
  static const Case cases[] = {
      {{3, 100, 4}, 1, 33, 32, 0},  {{3, 100, 4}, 1, 35, 0, 0},    {{3, 100, 20}, 1, 33, 40, 50},
      {{2, 3, 102}, 2, 34, 33, 33}, {{2, 3, 103}, 2, 34, 0, 33},   {{60, 2, 19}, 0, 59, 10, 3},
      {{60, 2, 19}, 0, 61, 30, 30}, {{30, 1, 290}, 0, 80, 79, 79}, {{1, 1, 9000}, 2, 500, 499, 3}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    for (int layout = 0; layout < HL_COUNT_OF(layouts); layout++) {
      check("f32", "add", layouts[layout], "0.5", &cases[k]);
      check("s32", "maximum", layouts[layout], "-7", &cases[k]);
    }
}

static void types(void **state) {
  static const Case cases[] = {
      {{3, 50, 4}, 1, 50, 49, 0}, {{3, 20, 50}, 2, 50, 0, 49}, {{3, 60, 20}, 1, 35, 20, 17}};
  static const char *const of[][3] = {
      {"f64", "add", "1"},      {"f64", "minimum", "inf"}, {"f32", "maximum", "-inf"},
      {"bf16", "add", "0"},     {"f16", "maximum", "-9"},  {"f8e5m2", "add", "0"},
      {"c64", "add", "(1, 2)"}, {"c128", "add", "(0, 0)"}, {"s8", "multiply", "1"},
      {"u64", "xor", "5"},      {"pred", "or", "false"},   {"pred", "minimum", "true"},
      {"s16", "and", "-1"},     {"f32", "multiply", "1"},  {"u8", "add", "200"}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    for (int t = 0; t < HL_COUNT_OF(of); t++)
      check(of[t][0], of[t][1], "", of[t][2], &cases[k]);
}

int main(void) {
  if (!cpu_runs(CPU_V2))
    return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cumulative),
      cmocka_unit_test(sliding),
      cmocka_unit_test(types),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed || n_checked < 400;
}
