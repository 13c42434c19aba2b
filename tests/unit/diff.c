// What differs between modules: each verdict on a small program, groups, ignored differences, names of dumps; and on random
// modules of every op that nothing is left without a row, that a renamed copy is equal, and that its one form is the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/diff.h"
#include "hilo/edit.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "support/gen.h"
#include "tool/diff/dump_pairs.h"

typedef struct Two {
  HlCx *cx;
  HlModule *a, *b;
  HlDiff *diff;
} Two;

static Two compare(const char *a, const char *b, const HlDiffOptions *options) {
  Two t = {.cx = hl_cx_new()};
  t.a = hl_text_parse(t.cx, a);
  t.b = hl_text_parse(t.cx, b);
  assert_non_null(t.a);
  assert_non_null(t.b);
  t.diff = hl_diff(t.cx, t.a, t.b, options);
  assert_non_null(t.diff);
  return t;
}

static void end(Two *t) {
  hl_diff_free(t->diff);
  hl_module_free(t->a);
  hl_module_free(t->b);
  hl_cx_free(t->cx);
}

// The row of an instruction of a, or where that is NULL of b.
static const HlDiffRow *row_of(const Two *t, const char *a, const char *b) {
  for (int k = 0; k < t->diff->n_rows; k++) {
    const HlDiffRow *row = &t->diff->row[k];
    const HlInst *inst = a ? row->a : row->b;
    if (inst && strcmp(inst->name->text, a ? a : b) == 0)
      return row;
  }
  fail_msg("no row of %s", a ? a : b);
  return NULL;
}

static void expect(const Two *t, const char *a, const char *b, HlVerdict verdict, uint32_t what) {
  const HlDiffRow *row = row_of(t, a, b);
  if (row->verdict != verdict || row->what != what)
    fail_msg("%s: %s (%x): %s", a ? a : b, hl_verdict_text(row->verdict), row->what, row->detail);
  if (a && b)
    assert_string_equal(row->b->name->text, b);
}

#define HEAD "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n"

static void test_same_and_renamed(void **state) {
  Two t =
      compare(HEAD "  s = f32[4] add(x, y)\n  ROOT n = f32[4] negate(s)\n}\n",
              "HloModule other\n\nENTRY e {\n  b = f32[4] parameter(1)\n  a = f32[4] parameter(0)\n"
              "  q = f32[4] add(a, b)\n  ROOT r = f32[4] negate(q)\n}\n",
              NULL);
  assert_true(t.diff->equal);
  assert_true(t.diff->same_program);
  assert_string_equal(hl_diff_headline(t.diff), "renaming only");
  assert_true(t.diff->module_renamed);
  assert_int_equal(t.diff->comps_renamed, 1);
  assert_int_equal(t.diff->insts_renamed, 4);
  expect(&t, "s", "q", HL_DIFF_SAME, 0);
  expect(&t, "y", "b", HL_DIFF_SAME, 0);
  assert_int_equal(t.diff->fingerprint_a, t.diff->fingerprint_b);
  end(&t);
}

static void test_what_changed(void **state) {
  Two t = compare(
      HEAD "  c = f32[] constant(1)\n  b = f32[4] broadcast(c), dimensions={}\n  m = f32[4] "
           "multiply(x, b)\n"
           "  s = f32[4] subtract(m, y), sharding={replicated}\n  ROOT n = f32[4] tanh(s), "
           "metadata={op_name=\"a\"}\n}\n",
      HEAD "  c = f32[] constant(2)\n  b = f32[4] broadcast(c), dimensions={}\n  m = f32[4] "
           "maximum(x, b)\n"
           "  s = f32[4] subtract(y, m)\n  ROOT n = f32[4] tanh(s), metadata={op_name=\"b\"}\n}\n",
      NULL);
  assert_false(t.diff->equal);
  expect(&t, "c", "c", HL_DIFF_CHANGED, HL_DIFF_CONSTANTS);
  expect(&t, "b", "b", HL_DIFF_SAME, 0);
  expect(&t, "m", "m", HL_DIFF_CHANGED, HL_DIFF_OP);
  expect(&t, "s", "s", HL_DIFF_CHANGED, HL_DIFF_OPERANDS | HL_DIFF_SHARDING);
  expect(&t, "n", "n", HL_DIFF_CHANGED, HL_DIFF_METADATA);
  assert_string_equal(row_of(&t, "c", NULL)->detail, "constant 1 -> 2");
  assert_string_equal(row_of(&t, "m", NULL)->detail, "op multiply -> maximum");
  assert_non_null(strstr(row_of(&t, "s", NULL)->detail, "operands swapped"));
  end(&t);
}

static void test_shapes_and_layouts(void **state) {
  Two t = compare(
      "HloModule m\n\nENTRY e {\n  x = f32[4,2]{1,0} parameter(0)\n  n = f32[4,2]{1,0} negate(x)\n"
      "  ROOT r = f32[4]{0} reduce-precision(f32[4]{0} constant({1,2,3,4})), exponent_bits=8, "
      "mantissa_bits=7\n}\n",
      "HloModule m\n\nENTRY e {\n  x = f32[6,2]{1,0} parameter(0)\n  n = f32[6,2]{0,1} negate(x)\n"
      "  ROOT r = f32[4]{0} reduce-precision(f32[4]{0} constant({1,2,3,4})), exponent_bits=8, "
      "mantissa_bits=6\n}\n",
      NULL);
  expect(&t, "x", "x", HL_DIFF_CHANGED, HL_DIFF_SHAPE);
  expect(&t, "n", "n", HL_DIFF_CHANGED, HL_DIFF_SHAPE);
  expect(&t, "r", "r", HL_DIFF_CHANGED, HL_DIFF_ATTRIBUTES);
  assert_string_equal(row_of(&t, "r", NULL)->detail, "mantissa_bits 7 -> 6");
  end(&t);
}

static void test_added_and_removed(void **state) {
  Two t =
      compare(HEAD "  s = f32[4] add(x, y)\n  a = f32[4] abs(s)\n  ROOT n = f32[4] negate(a)\n}\n",
              HEAD "  s = f32[4] add(x, y)\n  c = f32[4] cosine(x)\n  d = f32[4] multiply(c, s)\n  "
                   "ROOT n = f32[4] negate(d)\n}\n",
              NULL);
  expect(&t, NULL, "c", HL_DIFF_ADDED, 0);
  expect(&t, "s", "s", HL_DIFF_SAME, 0);
  expect(&t, "n", "n", HL_DIFF_CHANGED, HL_DIFF_OPERANDS);
  assert_int_equal(row_of(&t, "a", NULL)->verdict, HL_DIFF_REMOVED);
  end(&t);
}

static void test_equal_layers_are_one_group(void **state) {
  static const char program[] =
      HEAD "  d0 = f32[4] multiply(x, y)\n  t0 = f32[4] %s(d0)\n  d1 = f32[4] multiply(t0, y)\n  "
           "t1 = f32[4] %s(d1)\n"
           "  d2 = f32[4] multiply(t1, y)\n  t2 = f32[4] %s(d2)\n  ROOT r = f32[4] add(t2, x)\n}\n";
  char a[1024], b[1024];
  snprintf(a, sizeof a, program, "tanh", "tanh", "tanh");
  snprintf(b, sizeof b, program, "cosine", "cosine", "cosine");
  Two t = compare(a, b, NULL);
  assert_int_equal(t.diff->n_groups, 1);
  assert_int_equal(t.diff->group[0].times, 3);
  assert_int_equal(t.diff->group[0].n, 1);
  assert_int_equal(t.diff->count[HL_DIFF_CHANGED], 3);
  HlBuf text = {0};
  hl_diff_text(t.diff, NULL, &text);
  assert_non_null(strstr(text.at, "the same in 3 places: t0, t1, t2"));
  hl_buf_free(&text);
  end(&t);
}

// A model of n layers, each with parameters of its own; layer `odd` has another activation.
static void put_layers(HlBuf *out, int n, int odd, const char *prefix) {
  hl_buf_puts(out, "HloModule m\n\nENTRY main {\n  x = f32[8,4] parameter(0)\n");
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "  %sw%d = f32[4,4] parameter(%d)\n", prefix, k, k + 1);
  for (int k = 0; k < n; k++) {
    const char *above = k ? "t" : "x";
    hl_buf_printf(out, "  %sd%d = f32[8,4] dot(%s%s", prefix, k, k ? prefix : "", above);
    if (k)
      hl_buf_printf(out, "%d", k - 1);
    hl_buf_printf(out, ", %sw%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", prefix, k);
    hl_buf_printf(out, "  %st%d = f32[8,4] %s(%sd%d)\n", prefix, k, k == odd ? "cosine" : "tanh",
                  prefix, k);
  }
  hl_buf_printf(out, "  ROOT r = f32[8,4] negate(%st%d)\n}\n", prefix, n - 1);
}

static void test_inserted_layer(void **state) {
  for (int renamed = 0; renamed < 2; renamed++) {
    HlBuf a = {0}, b = {0};
    put_layers(&a, 12, -1, "");
    put_layers(&b, 13, 5, renamed ? "q" : "");
    Two t = compare(a.at, b.at, NULL);
    assert_int_equal(t.diff->count[HL_DIFF_ADDED], 3);  // its parameter, dot and cosine
    assert_int_equal(t.diff->count[HL_DIFF_REMOVED], 0);
    assert_int_equal(t.diff->count[HL_DIFF_CHANGED], 1);  // whose operand is now the new layer
    expect(&t, NULL, renamed ? "qt5" : "t5", HL_DIFF_ADDED, 0);
        end(&t);
    hl_buf_free(&a);
    hl_buf_free(&b);
  }
}

static const char before[] =
    "HloModule m\n\nf {\n  p = f32[4] parameter(0)\n  ROOT q = f32[4] exponential(p)\n}\n\n"
    "ENTRY main {\n  x = f32[4] parameter(0)\n  one = f32[] constant(1)\n  two = f32[] add(one, "
    "one)\n"
    "  b = f32[4] broadcast(two), dimensions={}\n  m = f32[4] multiply(x, b)\n  c = f32[4] "
    "call(m), to_apply=f\n"
    "  h = f32[2,2] reshape(c)\n  g = f32[4] reshape(h)\n  dead = f32[4] sine(x)\n  ROOT r = "
    "f32[4] negate(g)\n}\n";
static const char after[] = "HloModule m, is_scheduled=true\n\n"
                            "fused {\n  p = f32[4] parameter(0)\n  k = f32[] constant(2)\n  b.1 = "
                            "f32[4] broadcast(k), dimensions={}\n"
                            "  m.1 = f32[4] multiply(p, b.1)\n  q.1 = f32[4] exponential(m.1)\n  "
                            "ROOT r.1 = f32[4] negate(q.1)\n}\n\n"
                            "ENTRY main {\n  x = f32[4] parameter(0)\n  ROOT fusion = f32[4] "
                            "fusion(x), kind=kLoop, calls=fused\n}\n";

static void test_stages(void **state) {
  Two t = compare(before, after, NULL);
  assert_true(t.diff->stages);
  expect(&t, "m", "m.1", HL_DIFF_FUSED, 0);
  assert_string_equal(row_of(&t, "m", NULL)->into->name->text, "fusion");
  expect(&t, "q", "q.1", HL_DIFF_FUSED, 0);
  assert_int_equal(row_of(&t, "two", NULL)->verdict, HL_DIFF_FOLDED);
  assert_string_equal(row_of(&t, "two", NULL)->into->name->text, "k");
  assert_int_equal(row_of(&t, "c", NULL)->verdict, HL_DIFF_INLINED);
  assert_int_equal(row_of(&t, "h", NULL)->verdict, HL_DIFF_FOLDED);
  assert_int_equal(row_of(&t, "dead", NULL)->verdict, HL_DIFF_REMOVED);
  expect(&t, NULL, "fusion", HL_DIFF_ADDED, 0);
  end(&t);
}

static void test_inlined(void **state) {
  static const char inlined[] = "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  one = "
                                "f32[] constant(1)\n  two = f32[] add(one, one)\n"
                                "  b = f32[4] broadcast(two), dimensions={}\n  m = f32[4] "
                                "multiply(x, b)\n  e = f32[4] exponential(m)\n"
                                "  h = f32[2,2] reshape(e)\n  g = f32[4] reshape(h)\n  dead = "
                                "f32[4] sine(x)\n  ROOT r = f32[4] negate(g)\n}\n";
  Two t = compare(before, inlined, NULL);
  assert_false(t.diff->stages);
  expect(&t, "q", "e", HL_DIFF_INLINED, 0);
  expect(&t, "h", "h", HL_DIFF_SAME, 0);
  assert_int_equal(row_of(&t, "c", NULL)->verdict, HL_DIFF_INLINED);
  end(&t);
}

static void test_ignored(void **state) {
  HlDiffOptions options = {0};
  HlCx *cx = hl_cx_new();
  assert_true(hl_diff_what_by_text(cx, hl_str("metadata,constants,layouts"), &options.ignore));
  assert_int_equal(options.ignore, HL_DIFF_METADATA | HL_DIFF_CONSTANTS | HL_DIFF_LAYOUT);
  assert_false(hl_diff_what_by_text(cx, hl_str("metadata,nothing"), &options.ignore));
  options.ignore = HL_DIFF_METADATA | HL_DIFF_CONSTANTS;
  hl_cx_free(cx);
  Two t = compare(HEAD "  c = f32[4] constant({1,2,3,4})\n  ROOT n = f32[4] add(x, c), "
                       "metadata={op_name=\"a\"}\n}\n",
                  HEAD "  c = f32[4] constant({1,2,3,5})\n  ROOT n = f32[4] add(x, c), "
                       "metadata={op_name=\"b\"}\n}\n",
                  &options);
  assert_true(t.diff->equal);
  assert_false(t.diff->same_program);
  end(&t);
}

// --- Names of dumps -----------------------------------------------------------------------------------

static void test_dump_pairs(void **state) {
  const char *const a[] = {"a/module_0003.f.before_optimizations.txt",
                           "a/module_0004.f.before_optimizations.txt", "a/only.hlo"};
  const char *const b[] = {"bb/module_0011.f.before_optimizations.txt",
                           "bb/module_0012.f.before_optimizations.txt", "bb/sub/only.hlo"};
  DumpPairs pairs = dump_pairs_of_two(a, 3, 1, b, 3, 2);
  assert_int_equal(pairs.n, 4);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(pairs.at[k].a, k);
    assert_int_equal(pairs.at[k].b, k);
  }
  assert_int_equal(pairs.at[2].a, 2);
  assert_int_equal(pairs.at[2].b, -1);
  assert_int_equal(pairs.at[3].a, -1);
  vec_free(&pairs);
  const char *const states[] = {
      "d/module_0000.f.0000.p.after_a.before_b.txt", "d/module_0000.f.0001.p.after_b.before_c.txt",
      "d/module_0000.f.before_optimizations.txt", "d/module_0000.f.cpu_after_optimizations.txt",
      "d/module_0001.g.before_optimizations.txt"};
  pairs = dump_pairs_of_passes(states, 5);
  assert_int_equal(pairs.n, 3);
  assert_int_equal(pairs.at[0].a, 2);
  assert_int_equal(pairs.at[0].b, 0);
  assert_int_equal(pairs.at[2].a, 1);
  assert_int_equal(pairs.at[2].b, 3);
  vec_free(&pairs);
  pairs = dump_pairs_of_stages(states, 5);
  assert_int_equal(pairs.n, 1);
  vec_free(&pairs);
}

// --- Random modules -----------------------------------------------------------------------------------

static int mark_comp(const HlComp *comp, bool *reached) {
  if (reached[comp->id])
    return 0;
  reached[comp->id] = true;
  int n = (int)comp->n_insts;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    for (int k = 0; k < inst->n_calls; k++)
      n += mark_comp(inst->calls[k].comp, reached);
  return n;
}

// Each instruction that is called has a row.
static void expect_all_rows(const HlDiff *diff, bool of_b) {
  const HlModule *m = of_b ? diff->b : diff->a;
  bool *reached = calloc(m->next_comp_id + 1, 1);
  const HlInst **seen = calloc((size_t)diff->n_rows + 1, sizeof *seen);
  int n = 0, wanted = mark_comp(m->entry, reached);
  for (int k = 0; k < diff->n_rows; k++) {
    const HlInst *inst = of_b ? diff->row[k].b : diff->row[k].a;
    bool is_new = inst != NULL;
    for (int j = 0; j < n && is_new; j++)
      is_new = seen[j] != inst;
    if (is_new)
      seen[n++] = inst;
  }
  assert_int_equal(n, wanted);
  free(seen);
  free(reached);
}

static HlModule *made(HlCx *cx, uint64_t seed) {
  HlModule *m = gen_module(
      cx, &(GenOptions){.seed = seed, .wishes = 12, .first = (HlOp)(seed % HL_OP_COUNT)});
  assert_non_null(m);
  return m;
}

static void rename_all(HlModule *m) {
  char name[32];
  int n = 0;
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    snprintf(name, sizeof name, "c%d", n++);
    hl_comp_set_name(comp, hl_sym(m, name));
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      snprintf(name, sizeof name, "z%d", n++);
      hl_set_name(inst, hl_sym(m, name));
    }
  }
}

static void expect_one_form(HlCx *cx, const HlModule *a, const HlModule *b) {
  const HlTextOptions how = {.large_constants = HL_ON};
  HlModule *x = hl_normalize(cx, a), *y = hl_normalize(cx, b), *again = hl_normalize(cx, x);
  HlBuf p = {0}, q = {0}, r = {0};
  hl_text_print(cx, x, &how, &p);
  hl_text_print(cx, y, &how, &q);
  hl_text_print(cx, again, &how, &r);
  assert_string_equal(p.at, q.at);
  assert_string_equal(p.at, r.at);
  assert_int_equal(hl_verify(cx, x, NULL), hl_verify(cx, a, NULL));
  hl_buf_free(&p);
  hl_buf_free(&q);
  hl_buf_free(&r);
  hl_module_free(x);
  hl_module_free(y);
  hl_module_free(again);
}

static void test_random_modules(void **state) {
  enum { MODULES = 150 };
  HlCx *cx = hl_cx_new();
  HlModule *last = NULL;
  for (uint64_t seed = 1; seed <= MODULES; seed++) {
    HlModule *m = made(cx, seed), *copy = hl_clone(cx, m);
    rename_all(copy);
    HlDiff *diff = hl_diff(cx, m, copy, NULL);
    assert_non_null(diff);
    if (!diff->equal) {
      HlBuf text = {0};
      hl_diff_text(diff, NULL, &text);
      fail_msg("seed %d: %s", (int)seed, text.at);
    }
    expect_all_rows(diff, false);
    expect_all_rows(diff, true);
    hl_diff_free(diff);
    expect_one_form(cx, m, copy);
    for (int mode = HL_DIFF_VERSIONS; last && mode <= HL_DIFF_STAGES; mode++) {
      diff = hl_diff(cx, last, m, &(HlDiffOptions){.mode = (HlDiffMode)mode});
      assert_non_null(diff);
      expect_all_rows(diff, false);
      HlBuf out = {0};
      hl_diff_text(diff, &(HlDiffShow){.all = true}, &out);
      hl_diff_html(cx, diff, NULL, &out);
      assert_true(out.n > 0);
      hl_buf_free(&out);
      hl_diff_free(diff);
    }
    hl_module_free(copy);
    hl_module_free(last);
    last = m;
  }
  hl_module_free(last);
  hl_cx_free(cx);
}

// A schedule may have the last of very many parameters first.
static void test_parameters_in_any_order(void **state) {
  (void)state;
  enum { MANY = 1300 };
  HlCx *cx = hl_cx_new();
  HlBuf text = {0};
  hl_buf_puts(&text, "HloModule m, is_scheduled=true\n\nENTRY main {\n");
  for (int k = MANY - 1; k >= 0; k--)
    hl_buf_printf(&text, "  p%d = f32[] parameter(%d)\n", k, k);
  hl_buf_puts(&text, "  ROOT r = f32[] negate(p7)\n}\n");
  HlModule *m = hl_text_parse(cx, text.at), *normal = m ? hl_normalize(cx, m) : NULL;
  assert_non_null(normal);
  assert_int_equal(normal->entry->n_params, MANY);
  for (int k = 0; k < MANY; k++)
    assert_non_null(normal->entry->params[k]);
  assert_true(hl_verify(cx, normal, NULL));
  hl_module_free(normal);
  hl_module_free(m);
  hl_buf_free(&text);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_and_renamed),
      cmocka_unit_test(test_what_changed),
      cmocka_unit_test(test_shapes_and_layouts),
      cmocka_unit_test(test_added_and_removed),
      cmocka_unit_test(test_equal_layers_are_one_group),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_inlined),
      cmocka_unit_test(test_inserted_layer),
      cmocka_unit_test(test_ignored),
      cmocka_unit_test(test_dump_pairs),
      cmocka_unit_test(test_parameters_in_any_order),
      cmocka_unit_test(test_random_modules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
