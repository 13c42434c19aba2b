// Runs of simple ops of tile programs as machine code: what becomes a segment, and that results stay the same bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/emit/code.h"
#include "cpu/tile/tile.h"
#include "hilo/text.h"
#include "support/cpu_check.h"

// How often a word stands in what a tile program prints.
static int count_printed(const char *text, const char *word, bool no_emit) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  EmitMemory *code = emit_memory_new(0);
  HlModule *m = hl_text_parse(cx, text);
  assert_non_null(m);
  CpuMaker maker = {.cx = cx, .arena = arena, .level = cpu_level(), .no_emit = no_emit, .code = code};
  TileProgram *program = tile_lower(&maker, m->entry->root);
  assert_non_null(program);
  HlBuf out = {0};
  tile_print(&out, &program->base);
  int n = 0;
  for (const char *at = out.at; (at = strstr(at, word)); at++)
    n++;
  if (getenv("HILO_SHOW"))
    print_message("%s\n", out.at);
  hl_buf_free(&out);
  hl_module_free(m);
  emit_memory_free(code);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return n;
}

static bool has_segments(void) {
  EmitMemory *code = emit_memory_new(0);
  const bool has = code && cpu_level() >= CPU_V3;
  emit_memory_free(code);
  if (!has)
    print_message("no segments on this machine\n");
  return has;
}

static void check_same(const char *text) {
  for (int emit = 0; emit < 2; emit++) {
    char *wrong = cpu_check(text, &(CpuCheck){.kind = "tile", .tolerance = -1, .no_emit = !emit});
    if (wrong)
      print_error("%s\n%s%s\n", text, emit ? "with machine code: " : "", wrong);
    assert_null(wrong);
  }
}

static void expect_segments(const char *text, int n) {
  check_same(text);
  assert_int_equal(count_printed(text, "segment\n", true), 0);
  if (has_segments())
    assert_int_equal(count_printed(text, "segment\n", false), n);
}

#define FUSION(params, body, entry) \
  "HloModule m\nf {\n" params body "}\nENTRY e {\n" params entry ", kind=kLoop, calls=f\n}\n"

static void a_chain_is_one_segment(void **state) {
  expect_segments(FUSION("  a = f32[1000,3] parameter(0)\n  b = f32[1000,3] parameter(1)\n",
                         "  c = f32[1000,3] multiply(a, b)\n  d = f32[1000,3] add(c, a)\n"
                         "  g = f32[1000,3] negate(d)\n  ROOT r = f32[1000,3] maximum(g, b)\n",
                         "  ROOT r = f32[1000,3] fusion(a, b)"),
                  1);
}

// What is not simple parts them.
static void a_function_parts_segments(void **state) {
  const char *text = FUSION("  a = f32[77] parameter(0)\n",
                            "  b = f32[77] multiply(a, a)\n  c = f32[77] add(b, a)\n"
                            "  d = f32[77] sine(c)\n"
                            "  g = f32[77] subtract(d, b)\n  ROOT r = f32[77] multiply(g, a)\n",
                            "  ROOT r = f32[77] fusion(a)");
  if (has_segments())
    assert_int_equal(count_printed(text, "segment\n", false), 2);
  char *wrong = cpu_check(text, &(CpuCheck){.kind = "tile"});
  assert_null(wrong);
}

// Functions of an f32 stay in it, alone too, and what is long goes in stages.
static void functions_stay_in_segments(void **state) {
  const char *const texts[] = {
      FUSION("  a = f32[1000] parameter(0)\n",
             "  b = f32[1000] multiply(a, a)\n  c = f32[1000] tanh(b)\n"
             "  d = f32[1000] exponential(c)\n  g = f32[1000] logistic(d)\n"
             "  ROOT r = f32[1000] subtract(g, a)\n",
             "  ROOT r = f32[1000] fusion(a)"),
      "HloModule m\nENTRY e {\n  a = f32[777] parameter(0)\n  ROOT r = f32[777] "
      "exponential(a)\n}\n"};
  for (int k = 0; k < HL_COUNT_OF(texts); k++) {
    if (has_segments())
      assert_int_equal(count_printed(texts[k], "segment\n", false), 1);
    char *wrong = cpu_check(texts[k], &(CpuCheck){.kind = "tile"});
    assert_null(wrong);
  }
}

// Narrow floats are loaded, computed on, rounded and stored in one.
static void narrow_floats_stay_in_registers(void **state) {
  const char *text = FUSION("  a = bf16[500] parameter(0)\n  b = f16[500] parameter(1)\n",
                            "  c = f32[500] convert(a)\n  d = f32[500] convert(b)\n"
                            "  g = f32[500] add(c, d)\n  ROOT r = bf16[500] convert(g)\n",
                            "  ROOT r = bf16[500] fusion(a, b)");
  expect_segments(text, 1);
  const char *outside = "\n    v";
  if (has_segments())  // the names of what is loaded
    assert_int_equal(count_printed(text, outside, false), 2);
}

static void types_are_mixed(void **state) {
  expect_segments(
      FUSION("  a = s32[333] parameter(0)\n  b = s8[333] parameter(1)\n  t = f64[] parameter(2)\n",
             "  c = s32[333] convert(b)\n  d = s32[333] add(a, c)\n  p = pred[333] compare(d, a), "
             "direction=LT\n"
             "  g = f64[333] convert(d)\n  u = f64[333] broadcast(t), dimensions={}\n"
             "  h = f64[333] multiply(g, u)\n  ROOT r = f64[333] select(p, h, g)\n",
             "  ROOT r = f64[333] fusion(a, b, t)"),
      1);
}

// Ops in a scope, of which the parts of a row have their own.
static void parts_of_a_row(void **state) {
  check_same(FUSION(
      "  a = f32[100] parameter(0)\n",
      "  b = f32[100] multiply(a, a)\n  c = f32[100] subtract(b, a)\n  z = f32[] constant(7)\n"
      "  p = f32[131] pad(c, z), padding=13_18\n  d = f32[131] negate(p)\n  ROOT r = f32[131] "
      "abs(d)\n",
      "  ROOT r = f32[131] fusion(a)"));
}

// What is chosen by place (a roll, here) parts no segment: it is done in pieces.
static void a_choice_is_done_in_pieces(void **state) {
  expect_segments(FUSION("  a = f32[5,300] parameter(0)\n  b = f32[5,300] parameter(1)\n",
                         "  s = f32[5,1] slice(a), slice={[0:5], [299:300]}\n"
                         "  t = f32[5,299] slice(a), slice={[0:5], [0:299]}\n"
                         "  c = f32[5,300] concatenate(s, t), dimensions={1}\n"
                         "  d = f32[5,300] add(c, b)\n  g = f32[5,300] multiply(d, d)\n"
                         "  ROOT r = f32[5,300] subtract(g, c)\n",
                         "  ROOT r = f32[5,300] fusion(a, b)"),
                  1);
}

static void results_that_others_read(void **state) {
  check_same(
      "HloModule m\nf {\n  a = s32[65] parameter(0)\n  b = s32[65] add(a, a)\n  c = s32[65] "
      "multiply(b, a)\n"
      "  d = s32[65] subtract(c, b)\n  ROOT t = (s32[65], s32[65], s32[65]) tuple(b, d, c)\n}\n"
      "ENTRY e {\n  a = s32[65] parameter(0)\n  ROOT r = (s32[65], s32[65], s32[65]) fusion(a), "
      "kind=kLoop, calls=f\n}\n");
}

// So many ops that a segment is full, of which functions outside of it read more than the room that is left.
static void more_results_than_room(void **state) {
  enum { OPS = 250, READ = 40 };
  HlBuf text = {0};
  hl_buf_puts(&text, "HloModule m\nf {\n  a = s32[65] parameter(0)\n  v0 = s32[65] add(a, a)\n");
  for (int k = 1; k < OPS; k++)
    hl_buf_printf(&text, "  v%d = s32[65] %s(v%d, a)\n", k, k % 3 ? "subtract" : "xor", k - 1);
  hl_buf_printf(&text, "  w0 = s32[65] popcnt(v%d)\n", OPS - 1);
  for (int k = 1; k < READ; k++)
    hl_buf_printf(&text, "  p%d = s32[65] popcnt(v%d)\n  w%d = s32[65] add(w%d, p%d)\n", k, k, k,
                  k - 1, k);
  hl_buf_printf(&text,
                "  ROOT r = s32[65] negate(w%d)\n}\nENTRY e {\n  a = s32[65] parameter(0)\n"
                "  ROOT r = s32[65] fusion(a), kind=kLoop, calls=f\n}\n",
                READ - 1);
  check_same(text.at);
  hl_buf_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_one_segment),
      cmocka_unit_test(a_function_parts_segments),
      cmocka_unit_test(functions_stay_in_segments),
      cmocka_unit_test(narrow_floats_stay_in_registers),
      cmocka_unit_test(types_are_mixed),
      cmocka_unit_test(parts_of_a_row),
      cmocka_unit_test(a_choice_is_done_in_pieces),
      cmocka_unit_test(results_that_others_read),
      cmocka_unit_test(more_results_than_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
