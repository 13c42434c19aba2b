// Sorts as kernels of the CPU backend, bit by bit as the interpreter sorts: comparators as programs of all years write them, elements
// of all types with ties, NaNs and zeros of both signs, rows of all lengths along any dimension in any layout.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/sort/keys.h"
#include "hilo/text.h"
#include "support/cpu_check.h"

// --- Comparators --------------------------------------------------------------------------------

// In the texts T is the type of operand 0, U that of operand 1; I, W, MAX and WU belong to T: the integers of its width, the
// largest, and those without sign. Parameters are a, b (of operand 0) and c, d (of operand 1).
static const char less[] = "  ROOT r = pred[] compare(a, b), direction=LT\n";
static const char greater[] = "  ROOT r = pred[] compare(a, b), direction=GT\n";
static const char greater_swapped[] = "  ROOT r = pred[] compare(b, a), direction=GT\n";
static const char total[] = "  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER\n";
static const char total_down[] = "  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER\n";
// No order at all: equal elements change places.
static const char less_or_equal[] = "  ROOT r = pred[] compare(a, b), direction=LE\n";

#define CANONICAL(x)                                        \
  "  " x "n = pred[] compare(" x ", " x "), direction=NE\n" \
  "  " x "z = pred[] compare(" x ", zero), direction=EQ\n"  \
  "  " x "1 = T[] select(" x "z, zero, " x ")\n"            \
  "  " x "2 = T[] select(" x "n, quiet, " x "1)\n"
#define FLOATS "  zero = T[] constant(0)\n  quiet = T[] constant(nan)\n"
#define FOLDED(x, from)                                     \
  "  " x "i = I[] bitcast-convert(" from ")\n"              \
  "  " x "m = pred[] compare(" x "i, none), direction=LT\n" \
  "  " x "x = I[] xor(max, " x "i)\n"                       \
  "  " x "k = I[] select(" x "m, " x "x, " x "i)\n"
#define INTS "  none = I[] constant(0)\n  max = I[] constant(MAX)\n"
#define SUBTRACTED(x)                                       \
  "  " x "i = I[] bitcast-convert(" x ")\n"                 \
  "  " x "u = W[] bitcast-convert(" x ")\n"                 \
  "  " x "m = pred[] compare(" x "i, none), direction=LT\n" \
  "  " x "s = W[] subtract(wide, " x "u)\n"                 \
  "  " x "x = I[] bitcast-convert(" x "s)\n"                \
  "  " x "k = I[] select(" x "m, " x "x, " x "i)\n"

static const char jax[] = FLOATS CANONICAL("a")
    CANONICAL("b") "  ROOT r = pred[] compare(a2, b2), direction=LT, type=TOTALORDER\n";
static const char jax_expanded[] = FLOATS INTS CANONICAL("a") CANONICAL("b") FOLDED("a", "a2")
    FOLDED("b", "b2") "  ROOT r = pred[] compare(ak, bk), direction=LT\n";
static const char folded_down[] =
    INTS FOLDED("a", "a") FOLDED("b", "b") "  ROOT r = pred[] compare(ak, bk), direction=GT\n";
static const char subtracted[] = INTS "  wide = W[] constant(MAX)\n" SUBTRACTED("a")
    SUBTRACTED("b") "  ROOT r = pred[] compare(ak, bk), direction=LT\n";
static const char of_magnitude[] =
    "  x = T[] abs(a)\n  y = T[] abs(b)\n  ROOT r = pred[] compare(x, y), direction=LT\n";
static const char of_product[] = "  x = T[] multiply(a, a)\n  y = T[] multiply(b, b)\n  ROOT r = "
                                 "pred[] compare(x, y), direction=GT\n";
static const char both_differ[] =  // what a makes of an element b does not
    "  x = T[] abs(a)\n  y = T[] negate(b)\n  ROOT r = pred[] compare(x, y), direction=LT\n";

// Two operands.
static const char then_second[] = "  l = pred[] compare(a, b), direction=LT\n"
                                  "  e = pred[] compare(a, b), direction=EQ\n"
                                  "  m = pred[] compare(c, d), direction=GT\n"
                                  "  n = pred[] and(e, m)\n"
                                  "  ROOT r = pred[] or(l, n)\n";
static const char second_first[] = "  l = pred[] compare(a, b), direction=LT\n"
                                   "  m = pred[] compare(c, d), direction=LT\n"
                                   "  n = pred[] compare(d, c), direction=LT\n"
                                   "  e = pred[] compare(m, n), direction=EQ\n"
                                   "  ROOT r = pred[] select(e, l, m)\n";
static const char jax_two[] = FLOATS CANONICAL("a")
    CANONICAL("b") "  l = pred[] compare(a2, b2), direction=LT, type=TOTALORDER\n"
                   "  e = pred[] compare(a2, b2), direction=EQ, type=TOTALORDER\n"
                   "  m = pred[] compare(c, d), direction=LT\n"
                   "  n = pred[] and(e, m)\n"
                   "  ROOT r = pred[] or(l, n)\n";
static const char value_and_index[] =  // +0 and -0 are neither equal nor one before the other
    "  g = pred[] compare(a, b), direction=GT\n"
    "  e = pred[] compare(a, b), direction=EQ, type=TOTALORDER\n"
    "  m = pred[] compare(c, d), direction=LT\n"
    "  ROOT r = pred[] select(e, m, g)\n";
static const char no_chain[] =  // the second decides where the first is less
    "  l = pred[] compare(a, b), direction=LT\n"
    "  m = pred[] compare(c, d), direction=LT\n"
    "  ROOT r = pred[] and(l, m)\n";
// Of complex numbers.
#define PARTS(x) "  " x "r = P[] real(" x ")\n  " x "i = P[] imag(" x ")\n"
static const char complex_parts[] =
    PARTS("a") PARTS("b") "  l = pred[] compare(ar, br), direction=LT, type=TOTALORDER\n"
                          "  e = pred[] compare(ar, br), direction=EQ, type=TOTALORDER\n"
                          "  m = pred[] compare(ai, bi), direction=LT, type=TOTALORDER\n"
                          "  n = pred[] and(e, m)\n"
                          "  ROOT r = pred[] or(l, n)\n";
static const char imaginary[] =
    PARTS("a") PARTS("b") "  ROOT r = pred[] compare(ai, bi), direction=LT, type=TOTALORDER\n";

// --- Programs -----------------------------------------------------------------------------------

typedef struct Type {
  const char *name, *integer, *wide, *max, *part;
} Type;
static const Type types[] = {
    {"f16", "s16", "u16", "32767", ""},
    {"bf16", "s16", "u16", "32767", ""},
    {"f32", "s32", "u32", "2147483647", ""},
    {"f64", "s64", "u64", "9223372036854775807", ""},
    {"f8e5m2", "s8", "u8", "127", ""},
    {"c64", "", "", "", "f32"},
    {"c128", "", "", "", "f64"},
};

static void put_with_types(HlBuf *out, const char *text, const char *dtype, const char *second) {
  const Type *t = NULL;
  for (int k = 0; k < HL_COUNT_OF(types); k++)
    t = strcmp(types[k].name, dtype) == 0 ? &types[k] : t;
  for (; *text; text++) {
    if (strncmp(text, "MAX", 3) == 0) {
      hl_buf_puts(out, t->max);
      text += 2;
    } else if (text[1] == '[' && strchr("TUIWP", *text)) {
      hl_buf_puts(out, *text == 'T'   ? dtype
                       : *text == 'U' ? second
                       : *text == 'I' ? t->integer
                       : *text == 'W' ? t->wide
                                      : t->part);
    } else {
      hl_buf_printf(out, "%c", *text);
    }
  }
}

typedef struct Case {
  const char *comparator;
  const char *dtype[3];  // of the operands, those that are not NULL
  const char *dims;      // "3,40"
  const char *layout;    // "{1,0}", or ""
  int dimension;
  const char *values;  // a constant's, chosen among with commas; NULL: arguments
} Case;

static int64_t elements(const char *dims) {
  int64_t n = 1;
  for (const char *at = dims; *at; at += strcspn(at, ","), at += *at == ',')
    n *= atol(at);
  return n;
}

// The elements of a constant of these dimensions, in braces, chosen among the values.
static void put_values(HlBuf *out, const char *dims, const char *values, HlRng *rng) {
  int n = 1;
  for (const char *at = values; *at; at++)
    n += *at == ' ';
  const int64_t size = atol(dims);
  const char *rest = strchr(dims, ',');
  hl_buf_puts(out, "{");
  for (int64_t k = 0; k < size; k++) {
    if (k > 0)
      hl_buf_puts(out, ", ");
    if (rest) {
      put_values(out, rest + 1, values, rng);
      continue;
    }
    const char *at = values;
    for (int64_t skip = hl_rng_below(rng, n); skip > 0; skip--)
      at += strcspn(at, " ") + 1;
    hl_buf_printf(out, "%.*s", (int)strcspn(at, " "), at);
  }
  hl_buf_puts(out, "}");
}

static char *program(const Case *c, HlRng *rng) {
  HlBuf out = {0};
  hl_buf_puts(&out, "HloModule m\n\nless {\n");
  int n = 0;
  for (; n < 3 && c->dtype[n]; n++)
    for (int k = 0; k < 2; k++)
      hl_buf_printf(&out, "  %c = %s[] parameter(%d)\n", "abcdvw"[2 * n + k], c -> dtype[n],
                    2 * n + k);
  put_with_types(&out, c->comparator, c->dtype[0], c->dtype[1]);
  hl_buf_puts(&out, "}\n\nENTRY e {\n");
  for (int k = 0; k < n; k++) {
    hl_buf_printf(&out, "  p%d = %s[%s]%s ", k, c->dtype[k], c->dims, c->layout);
    if (c->values && k < 2 && elements(c->dims) > 0) {
      hl_buf_puts(&out, "constant(");
      put_values(&out, c->dims, c->values, rng);
      hl_buf_puts(&out, ")\n");
    } else {
      hl_buf_printf(&out, "parameter(%d)\n", c->values ? k - (elements(c->dims) > 0 ? 2 : 0) : k);
    }
  }
  hl_buf_puts(&out, n > 1 ? "  ROOT s = (" : "  ROOT s = ");
  for (int k = 0; k < n; k++)
    hl_buf_printf(&out, "%s%s[%s]%s", k ? ", " : "", c->dtype[k], c->dims, c->layout);
  hl_buf_puts(&out, n > 1 ? ") sort(p0" : " sort(p0");
  for (int k = 1; k < n; k++)
    hl_buf_printf(&out, ", p%d", k);
  hl_buf_printf(&out, "), dimensions={%d}, to_apply=less\n}\n", c->dimension);
  return out.at;
}

static int checked;

static void check(const Case *c, const CpuCheck *options) {
  HlRng rng = {(uint64_t)checked};
  char *text = program(c, &rng);
  char *wrong = cpu_check(text, options);
  if (wrong)
    fail_msg("%s\n%.3000s", wrong, text);
  hl_free(text);
  checked++;
}

static const CpuCheck bits = {.kind = "sort", .tolerance = -1};

// Each shape with values that are often equal, and with all kinds of arguments.
static const struct {
  const char *dims, *layout;
  int dimension;
} shapes[] = {{"0", "", 0},
              {"1", "", 0},
              {"31", "", 0},
              {"1000", "", 0},
              {"3,0", "", 1},
              {"0,3", "", 1},
              {"5,40", "{0,1}", 1},
              {"40,5", "{0,1}", 0},
              {"2,45,3", "", 1},
              {"3,4,50", "{1,2,0}", 2},
              {"50,1,2", "{0,2,1}", 0}};

static void check_shapes(const char *comparator, const char *dtype, const char *second,
                         const char *third, const char *values) {
  for (int k = 0; k < HL_COUNT_OF(shapes); k++)
    for (int given = 0; given < 2; given++)
      check(&(Case){comparator,
                    {dtype, second, third},
                    shapes[k].dims,
                    shapes[k].layout,
                    shapes[k].dimension,
                    given ? values : NULL},
            &bits);
}

// --- Tests --------------------------------------------------------------------------------------

static const char floats[] = "nan -nan 0 -0 1 -1 0.5 -0.5 2 inf -inf 0.25";
static const char numbers[] = "0 1 -1 0.5 -0.5 2 -2 4 0.25";
static const char few[] = "0 1";

static void floats_sort(void **state) {
  static const char *const plain[] = {less, greater, greater_swapped, total, total_down, jax};
  static const char *const expanded[] = {jax_expanded, folded_down, subtracted};
  static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "f8e5m2"};
  for (int d = 0; d < HL_COUNT_OF(dtypes); d++) {
    for (int k = 0; k < HL_COUNT_OF(plain); k++)
      check_shapes(plain[k], dtypes[d], NULL, NULL, k % 2 ? floats : numbers);
    for (int k = 0; k < HL_COUNT_OF(expanded); k++)
      check_shapes(expanded[k], dtypes[d], NULL, NULL, floats);
  }
}

static void small_types_sort(void **state) {
  static const char *const small[] = {"f8e4m3fn",  "f8e4m3fnuz", "f8e5m2fnuz",
                                      "f8e8m0fnu", "f4e2m1fn",   "f8e3m4"};
  static const char *const ints[] = {"s4",  "u4",  "s2",  "u2",  "s8",  "u8",  "s16",
                                     "u16", "s32", "u32", "s64", "u64", "pred"};
  for (int d = 0; d < HL_COUNT_OF(small); d++) {
    const char *values = strstr(small[d], "e8m0") ? "1 2 4 0.5" : numbers;
    check_shapes(less, small[d], NULL, NULL, values);
    check_shapes(total_down, small[d], NULL, NULL, values);
  }
  for (int d = 0; d < HL_COUNT_OF(ints); d++) {
    const char *values = ints[d][0] == 'p' ? "true false" : ints[d][1] == '2' ? few : "0 1 2 3";
    check_shapes(less, ints[d], NULL, NULL, values);
    check_shapes(greater, ints[d], "s32", NULL, ints[d][0] == 'p' ? NULL : few);
  }
}

static void operands_follow(void **state) {
  static const char *const second[] = {"s32", "u8", "f64", "bf16", "c64", "c128", "pred"};
  for (int k = 0; k < HL_COUNT_OF(second); k++) {
    const char *values = strcmp(second[k], "pred") == 0 || second[k][0] == 'c' ? NULL : few;
    check_shapes(jax, "f32", second[k], NULL, values);
    check_shapes(total_down, "bf16", second[k], "s32", values);
    check_shapes(less, "s64", second[k], NULL, values);
    check_shapes(less, "u8", second[k], "u8", values);
  }
}

static void chains_of_keys_sort(void **state) {
  check_shapes(then_second, "s32", "s32", NULL, few);
  check_shapes(then_second, "s64", "s64", NULL, "-1 0 1");
  check_shapes(then_second, "f32", "f64", "s32", floats);
  check_shapes(second_first, "u32", "s32", NULL, few);
  check_shapes(second_first, "f64", "u64", "pred", few);
  check_shapes(jax_two, "f32", "s32", NULL, few);
  check_shapes(jax_two, "f64", "f32", "u8", floats);
  check_shapes(value_and_index, "bf16", "s32", NULL, few);
  check_shapes(value_and_index, "f32", "f32", NULL, floats);
  check_shapes(no_chain, "s32", "s32", NULL, few);
  check_shapes(complex_parts, "c64", NULL, NULL, NULL);
  check_shapes(complex_parts, "c128", NULL, NULL, NULL);
  check_shapes(complex_parts, "c64", "s32", NULL, NULL);
  check_shapes(imaginary, "c64", NULL, NULL, NULL);
}

static void other_comparators_merge(void **state) {
  static const char *const dtypes[] = {"f32", "s32", "f16", "s8", "f64"};
  for (int d = 0; d < HL_COUNT_OF(dtypes); d++) {
    const char *values = dtypes[d][0] == 'f' ? floats : "0 1 -1 2 -2";
    check_shapes(of_magnitude, dtypes[d], NULL, NULL, values);
    check_shapes(of_product, dtypes[d], "s32", NULL, dtypes[d][0] == 'f' ? few : values);
    check_shapes(less_or_equal, dtypes[d], "s32", NULL, few);
    check_shapes(both_differ, dtypes[d], NULL, NULL, values);
  }
}

// Rows that are shared by threads, and what they come to with other numbers of them.
static void long_rows_sort(void **state) {
  static const struct {
    const char *comparator, *dtype[3];
  } sorts[] = {{jax, {"f32"}},       {jax, {"f32", "s32"}},         {jax, {"f32", "f64", "u8"}},
               {less, {"u8"}},       {then_second, {"s32", "s64"}}, {less_or_equal, {"s16"}},
               {of_product, {"s32"}}};
  for (int k = 0; k < HL_COUNT_OF(sorts); k++)
    for (int threads = 1; threads <= 3; threads++) {
      CpuCheck options = {.kind = "sort", .tolerance = -1, .threads = threads, .large = true};
      Case c = {sorts[k].comparator,
                {sorts[k].dtype[0], sorts[k].dtype[1], sorts[k].dtype[2]},
                k % 2 ? "40001" : "40001,2",
                "",
                0,
                NULL};
      check(&c, &options);
    }
}

// What comparators are taken for: by the kind of their keys, those that decide most first.
static void keys_are_known(void **state) {
  static const struct {
    const char *comparator, *dtype[2];
    int n;
    struct {
      int operand, part;
      SortKind kind;
      bool down;
      unsigned fails;
    } key[2];
  } known[] = {
      {less, {"s32"}, 1, {{0, 0, SORT_INTEGER, false, 0}}},
      {greater_swapped, {"u64"}, 1, {{0, 0, SORT_INTEGER, false, 0}}},
      {greater, {"pred"}, 1, {{0, 0, SORT_TABLE, true, 0}}},
      {less, {"f8e5m2"}, 1, {{0, 0, SORT_TABLE, false, SORT_SAW_NAN}}},
      {less, {"f32"}, 1, {{0, 0, SORT_FLOAT, false, SORT_SAW_NAN}}},
      {total_down, {"bf16"}, 1, {{0, 0, SORT_TOTAL, true, 0}}},
      {jax, {"f64"}, 1, {{0, 0, SORT_FLOAT, false, 0}}},
      {jax_expanded, {"f32"}, 1, {{0, 0, SORT_FLOAT, false, 0}}},
      {jax_expanded, {"f8e5m2"}, 1, {{0, 0, SORT_TABLE, false, 0}}},
      {folded_down, {"f16"}, 1, {{0, 0, SORT_TOTAL, true, 0}}},
      {subtracted, {"f64"}, 1, {{0, 0, SORT_TOTAL, false, 0}}},
      {less_or_equal, {"s32"}, 0, {{0}}},
      {of_magnitude, {"f32"}, 0, {{0}}},
      {both_differ, {"f32"}, 0, {{0}}},
      {then_second,
       {"f32", "s32"},
       2,
       {{0, 0, SORT_FLOAT, false, SORT_SAW_NAN}, {1, 0, SORT_INTEGER, true, 0}}},
      {second_first,
       {"u16", "s64"},
       2,
       {{1, 0, SORT_INTEGER, false, 0}, {0, 0, SORT_INTEGER, false, 0}}},
      {jax_two,
       {"f32", "f32"},
       2,
       {{0, 0, SORT_FLOAT, false, 0}, {1, 0, SORT_FLOAT, false, SORT_SAW_NAN}}},
      {value_and_index,
       {"bf16", "s32"},
       2,
       {{0, 0, SORT_FLOAT, true, SORT_SAW_ZERO | SORT_SAW_NAN}, {1, 0, SORT_INTEGER, false, 0}}},
      {no_chain, {"s32", "s32"}, 0, {{0}}},
      {complex_parts, {"c128"}, 2, {{0, 0, SORT_TOTAL, false, 0}, {0, 1, SORT_TOTAL, false, 0}}},
      {imaginary, {"c64"}, 1, {{0, 1, SORT_TOTAL, false, 0}}},
  };
  for (int k = 0; k < HL_COUNT_OF(known); k++) {
    HlRng rng = {0};
    char *text = program(
        &(Case){known[k].comparator, {known[k].dtype[0], known[k].dtype[1]}, "3", "", 0, NULL},
        &rng);
    HlCx *cx = hl_cx_new();
    HlArena *arena = hl_arena_new(), *scratch = hl_arena_new();
    HlModule *m = hl_text_parse(cx, text);
    assert_non_null(m);
    int n;
    const SortKey *key = sort_find_keys(arena, scratch, hl_to_apply(m->entry->root), &n);
    hl_arena_free(scratch);
    assert_int_equal(n, known[k].n);
    assert_int_equal(key != NULL, n > 0);
    for (int q = 0; q < n; q++) {
      assert_int_equal(key[q].operand, known[k].key[q].operand);
      assert_int_equal(key[q].part, known[k].key[q].part);
      assert_int_equal(key[q].kind, known[k].key[q].kind);
      assert_int_equal(key[q].down, known[k].key[q].down);
      assert_int_equal(key[q].fails, known[k].key[q].fails);
    }
    hl_arena_free(arena);
    hl_module_free(m);
    hl_cx_free(cx);
    hl_free(text);
  }
}

// Sizes that are known at run time only are the interpreter's.
static void dynamic_sizes_are_left(void **state) {
  static const char *const text[] = {
      "HloModule m\n\nless {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
      "  ROOT r = pred[] compare(a, b), direction=LT\n}\n\nENTRY e {\n"
      "  x = s32[<=9] parameter(0)\n"
      "  ROOT s = s32[<=9] sort(x), dimensions={0}, to_apply=less\n}\n",
      "HloModule m\n\nENTRY e {\n  x = s32[<=3,9] parameter(0)\n"
      "  ROOT s = (s32[<=3,2], s32[<=3,2]) topk(x), k=2, largest=true\n}\n"};
  for (int k = 0; k < HL_COUNT_OF(text); k++) {
    HlCx *cx = hl_cx_new();
    HlArena *arena = hl_arena_new();
    HlModule *m = hl_text_parse(cx, text[k]);
    assert_non_null(m);
    CpuMaker maker = {.cx = cx, .arena = arena};
    const CpuKernel *kernel = cpu_kernel_make(&maker, m->entry->root);
    assert_null(kernel);
    assert_int_equal(hl_cx_n_errors(cx), 0);
    hl_arena_free(arena);
    hl_module_free(m);
    hl_cx_free(cx);
  }
}

static void enough_was_checked(void **state) {
  assert_true(checked > 1500);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_are_known),      cmocka_unit_test(floats_sort),
      cmocka_unit_test(small_types_sort),    cmocka_unit_test(operands_follow),
      cmocka_unit_test(chains_of_keys_sort), cmocka_unit_test(other_comparators_merge),
      cmocka_unit_test(long_rows_sort),      cmocka_unit_test(dynamic_sizes_are_left),
      cmocka_unit_test(enough_was_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
