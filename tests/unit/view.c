// Maps of computations, what changed between states, overlays and the data of pages.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/view.h"

static HlModule *parse(HlCx *cx, const char *text) {
  HlModule *m = hl_text_parse(cx, text);
  assert_non_null(m);
  return m;
}

// --- Maps ---------------------------------------------------------------------------------------

// What holds of every map: a tree, each instruction in it once, counts that add up, as many copies as groups.
static void check_map(const HlComp *comp) {
  HlArena *arena = hl_arena_new();
  const HlMap *map = hl_map_new(arena, comp);
  int *own = HL_ARRAY(arena, int, map->n_groups + 1),
      *kids = HL_ARRAY(arena, int, map->n_groups + 1);
  assert_int_equal(map->group[0].parent, -1);
  assert_int_equal(map->group[0].kind, HL_GROUP_TOP);
  assert_int_equal(map->group[0].n_insts, comp->n_insts);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    assert_in_range(map->of[inst->id], 0, map->n_groups - 1);
    own[map->of[inst->id]]++;
  }
  for (int k = map->n_groups - 1; k >= 0; k--) {
    const HlGroup *group = &map->group[k];
    assert_int_equal(own[k], group->n_insts);  // those of its groups have been added
    assert_true(group->n_insts > 0 && *group->label);
    const bool repeats = group->kind == HL_GROUP_REPEAT || group->kind == HL_GROUP_ALIKE;
    assert_int_equal(group->copies, repeats ? kids[k] : 1);
    assert_true(!repeats || kids[k] > 1);
    if (k == 0)
      break;
    assert_in_range(group->parent, 0, k - 1);
    own[group->parent] += own[k];
    kids[group->parent]++;
  }
  hl_arena_free(arena);
}

static int check_file(HlCx *cx, const char *path) {
  HlFile file;
  int n = 0;
  if (!hl_load(cx, path, NULL, &file))
    return 0;
  for (int k = 0; k < file.n; k++)
    for (const HlComp *comp = file.modules[k]->first; comp; comp = comp->next, n++)
      check_map(comp);
  hl_file_free(&file);
  return n;
}

static void test_maps_hold(void **state) {
  static const char *const fixtures[] = {"attention", "mlp_train", "random_bf16", "while_sort"};
  static const char *const models[] = {"vit.1gpu.jit_predict_step",
                                       "resnet50.1gpu.jit_predict_step",
                                       "gemma3_4b.1gpu.jit__prefill_jit", "mobilenet_v2"};
  const char *corpus = getenv("HILO_CORPUS");
  HlCx *cx = hl_cx_new();
  char path[4096];
  int n = 0;
  for (int k = 0; k < HL_COUNT_OF(fixtures); k++) {
    snprintf(path, sizeof path, "tests/fixtures/%s/before.hlo", fixtures[k]);
    n += check_file(cx, path);
  }
  assert_true(n >= 20);
  for (int k = 0; k < HL_COUNT_OF(models); k++) {
    snprintf(path, sizeof path, "%s/models/%s.hlo", corpus ? corpus : "../shared/corpus",
             models[k]);
    n += check_file(cx, path);
  }
  hl_cx_free(cx);
}

// A layer of twelve instructions, `copies` times, perhaps with another op in each `odd`-th.
static char *layers(int copies, int odd, const char *scope) {
  HlBuf out = {0};
  hl_buf_puts(&out, "HloModule m\nENTRY e {\n  x0 = f32[4,4] parameter(0)\n");
  for (int k = 0; k < copies; k++) {
    char meta[64] = "";
    if (scope)
      snprintf(meta, sizeof meta, ", metadata={op_name=\"jit(f)/%s_%d/op\"}", scope, k);
    hl_buf_printf(&out, "  d%d_0 = f32[4,4] add(x%d, x%d)%s\n", k, k, k, meta);
    static const char *const ops[] = {"tanh", "sine",  "cosine", "negate", "exponential",
                                      "abs",  "floor", "sqrt",   "ceil",   "cbrt"};
    for (int j = 0; j < 10; j++)
      hl_buf_printf(&out, "  d%d_%d = f32[4,4] %s(d%d_%d)%s\n", k, j + 1,
                    j == 3 && odd > 0 && k % odd == odd - 1 ? "log" : ops[j], k, j, meta);
    hl_buf_printf(&out, "  x%d = f32[4,4] multiply(d%d_10, d%d_0)%s\n", k + 1, k, k, meta);
  }
  hl_buf_printf(&out, "  ROOT r = f32[4,4] negate(x%d)\n}\n", copies);
  char *text = strdup(out.at);
  hl_buf_free(&out);
  return text;
}

static const HlGroup *first_repeat(const HlMap *map) {
  for (int k = 0; k < map->n_groups; k++)
    if (map->group[k].kind == HL_GROUP_REPEAT)
      return &map->group[k];
  return NULL;
}

static void expect_repeat(int copies, int odd, const char *scope, int wanted, int size) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  char *text = layers(copies, odd, scope);
  HlModule *m = parse(cx, text);
  const HlGroup *repeat = first_repeat(hl_map_new(arena, m->entry));
  check_map(m->entry);
  if (wanted == 0) {
    assert_null(repeat);
  } else {
    assert_non_null(repeat);
    assert_int_equal(repeat->copies, wanted);
    assert_in_range(repeat->n_insts, wanted * size, wanted * size + 1);  // the parameter floats
  }
  free(text);
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_repeats(void **state) {
  expect_repeat(12, 0, "layers", 12, 12);
  expect_repeat(12, 0, NULL, 12, 12);
  expect_repeat(12, 6, "layers", 2, 72);  // five of a kind and one of another, twice
  expect_repeat(400, 0, NULL, 400, 12);   // a row in which not all periods are tried
  expect_repeat(1, 0, NULL, 0, 0);
}

// Names, and values of constants, make no difference; ops, shapes and edges do.
static void test_what_is_equal(void **state) {
  static const char text[] = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n%s"
                             "  ROOT r = f32[4] add(c0, c1)\n}\n";
  static const struct {
    const char *second;
    bool equal;
  } cases[] = {
      {"  k1 = f32[] constant(7)\n  b1 = f32[4] broadcast(k1), dimensions={}\n  a1 = f32[4] add(x, "
       "b1), "
       "metadata={op_name=\"f/l_1/o\"}\n  other = f32[4] tanh(a1), "
       "metadata={op_name=\"f/l_1/o\"}\n  c1 = f32[4] "
       "multiply(other, a1), metadata={op_name=\"f/l_1/o\"}\n",
       true},
      {"  a1 = f32[4] add(x, x), metadata={op_name=\"f/l_1/o\"}\n  o1 = f32[4] sine(a1), "
       "metadata={op_name=\"f/l_1/o\"}\n  c1 = f32[4] multiply(o1, a1), "
       "metadata={op_name=\"f/l_1/o\"}\n",
       false},
      {"  a1 = f32[4] add(x, x), metadata={op_name=\"f/l_1/o\"}\n  o1 = f32[4] tanh(a1), "
       "metadata={op_name=\"f/l_1/o\"}\n  c1 = f32[4] multiply(o1, o1), "
       "metadata={op_name=\"f/l_1/o\"}\n",
       false},
  };
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    char both[2048], whole[4096];
    snprintf(both, sizeof both,
             "  k0 = f32[] constant(1)\n  b0 = f32[4] broadcast(k0), dimensions={}\n  a0 = f32[4] "
             "add(x, b0), "
             "metadata={op_name=\"f/l_0/o\"}\n  o0 = f32[4] tanh(a0), "
             "metadata={op_name=\"f/l_0/o\"}\n  c0 = f32[4] "
             "multiply(o0, a0), metadata={op_name=\"f/l_0/o\"}\n%s",
             cases[k].second);
    snprintf(whole, sizeof whole, text, both);
    HlArena *arena = hl_arena_new();
    HlModule *m = parse(cx, whole);
    const HlGroup *repeat = first_repeat(hl_map_new(arena, m->entry));
    assert_int_equal(repeat != NULL, cases[k].equal);
    hl_module_free(m);
    hl_arena_free(arena);
  }
  hl_cx_free(cx);
}

// --- Changes ------------------------------------------------------------------------------------

static HlMarkKind kind_of(const HlViewMark *marks, int n, const char *inst) {
  for (int k = 0; k < n; k++)
    if (strcmp(marks[k].inst, inst) == 0)
      return marks[k].kind;
  return HL_MARK_NONE;
}

static void test_changes(void **state) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *a = parse(cx, "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  same = f32[4] "
                          "tanh(x)\n  renamed = f32[4] sine(same)\n"
                          "  shape = f32[4] negate(renamed)\n  gone = f32[4] abs(shape)\n  ROOT r "
                          "= f32[4] add(gone, same)\n}\n");
  HlModule *b = parse(cx, "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  same = f32[4] "
                          "tanh(x)\n  another = f32[4] sine(same)\n"
                          "  shape = f32[4]{0:T(256)} negate(another)\n  new = f32[4] "
                          "floor(shape)\n  ROOT r = f32[4] add(new, same)\n}\n");
  HlViewMark *before, *after;
  int n, m;
  hl_view_changes(arena, a, b, &before, &n, &after, &m);
  assert_int_equal(kind_of(before, n, "same"), HL_MARK_NONE);
  assert_int_equal(kind_of(before, n, "renamed"), HL_MARK_NONE);
  assert_int_equal(kind_of(before, n, "gone"), HL_MARK_GONE);
  assert_int_equal(kind_of(before, n, "shape"), HL_MARK_CHANGED);
  assert_int_equal(kind_of(after, m, "another"), HL_MARK_NONE);
  assert_int_equal(kind_of(after, m, "new"), HL_MARK_NEW);
  assert_int_equal(kind_of(after, m, "r"), HL_MARK_CHANGED);
  hl_view_changes(arena, a, a, &before, &n, &after, &m);
  assert_int_equal(n + m, 0);
  hl_module_free(a);
  hl_module_free(b);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_overlay(void **state) {
  static const struct {
    const char *text;
    int before, after;  // marks; -1: an error
  } cases[] = {
      {"{\"overlay\": 1}", 0, 0},
      {"{\"overlay\": 1, \"before\": [{\"instruction\": \"a\", \"change\": \"gone\"}], \"after\": "
       "[]}",
       1, 0},
      {"{\"overlay\": 2}", -1, 0},
      {"[1]", -1, 0},
      {"{\"overlay\": 1, \"after\": {}}", -1, 0},
      {"{\"overlay\": 1, \"after\": [3]}", -1, 0},
      {"{\"overlay\": 1, \"after\": [{\"change\": \"new\"}]}", -1, 0},
      {"", -1, 0},
  };
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlCx *cx = hl_cx_new();
    HlArena *arena = hl_arena_new();
    HlSource *source = hl_source_new("o.json", cases[k].text, strlen(cases[k].text), false);
    HlViewMark *before, *after;
    int n, m;
    const bool ok = hl_view_read_overlay(cx, arena, source, &before, &n, &after, &m);
    assert_int_equal(ok, cases[k].before >= 0);
    assert_int_equal(ok, hl_cx_n_errors(cx) == 0);
    if (ok) {
      assert_int_equal(n, cases[k].before);
      assert_int_equal(m, cases[k].after);
    }
    hl_source_unref(source);
    hl_arena_free(arena);
    hl_cx_free(cx);
  }
}

// --- Pages --------------------------------------------------------------------------------------

static json_t *data_of(const HlBuf *page) {
  static const char start[] = "<script id=\"data\" type=\"application/json\">";
  const char *at = strstr(page->at, start);
  assert_non_null(at);
  at += strlen(start);
  const char *end = strstr(at, "</script>");
  assert_non_null(end);
  json_t *data = json_loadb(at, (size_t)(end - at), 0, NULL);
  assert_non_null(data);
  return data;
}

// A state that is added again costs runs of rows, but no row; nothing in the data ends the element that holds it.
static void test_page(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(
      cx,
      "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT t = f32[4] tanh(x), "
      "metadata={op_name=\"</script><script>alert(1)\" source_file=\"a.py\" source_line=7}\n}\n");
  HlMapPage *page = hl_map_page_new("t <&>", hl_target_find("h100"));
  HlBuf out = {0};
  hl_map_page_add(cx, page, m, "one", NULL, 0);
  hl_map_page_add(cx, page, m, "two", &(HlViewMark){.kind = HL_MARK_NEW, .inst = "t", .note = "n"},
                  1);
  hl_map_page_open(page, "t");
  hl_map_page_print(page, &out);
  json_t *data = data_of(&out);
  assert_int_equal(json_array_size(json_object_get(data, "states")), 2);
  assert_int_equal(json_array_size(json_object_get(data, "changes")), 1);
  assert_int_equal(json_array_size(json_object_get(data, "rows")),
                   14 + 15);  // eleven fields and three lists: (), (x)
  assert_string_equal(json_string_value(json_object_get(data, "target")), "h100");
  assert_non_null(strstr(out.at, "<title>t &lt;&amp;&gt;</title>"));
  assert_null(strstr(out.at, "<script>alert"));
  json_decref(data);
  hl_buf_free(&out);
  hl_map_page_free(page);
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_maps_hold),     cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_what_is_equal), cmocka_unit_test(test_changes),
      cmocka_unit_test(test_overlay),       cmocka_unit_test(test_page),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
