// Buffers: which values share memory, how long they live, where they are put, and what the reports say of it.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/buffers.h"
#include "hilo/text.h"

static const char loop[] =
    "HloModule m, is_scheduled=true\n"
    "b {\n  p = (s32[], f32[8]) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
    "  x = f32[8] get-tuple-element(p), index=1\n  n = s32[] add(i, i)\n  e = f32[8] "
    "exponential(x)\n"
    "  y = f32[8] add(e, x)\n  ROOT t = (s32[], f32[8]) tuple(n, y)\n}\n"
    "c {\n  q = (s32[], f32[8]) parameter(0)\n  j = s32[] get-tuple-element(q), index=0\n"
    "  k = s32[] constant(9)\n  ROOT l = pred[] compare(j, k), direction=LT\n}\n"
    "ENTRY main {\n  a = s32[] parameter(0)\n  z = f32[8] parameter(1)\n  ca = s32[] copy(a)\n"
    "  cz = f32[8] copy(z)\n  u = (s32[], f32[8]) tuple(ca, cz)\n"
    "  w = (s32[], f32[8]) while(u), condition=c, body=b\n  g = f32[8] get-tuple-element(w), "
    "index=1\n"
    "  s = f32[8] negate(g)\n  ROOT d = f32[8] multiply(s, s)\n}\n";

typedef struct Fixture {
  HlCx *cx;
  HlArena *arena;
  HlModule *m;
  HlBuffers *buffers;
} Fixture;

static Fixture start(const char *text) {
  Fixture f = {.cx = hl_cx_new(), .arena = hl_arena_new()};
  f.m = hl_text_parse(f.cx, text);
  assert_non_null(f.m);
  HlBuffersOptions options = {64, true};
  f.buffers = hl_buffers_new(f.cx, f.arena, f.m, &options);
  assert_non_null(f.buffers);
  return f;
}

static void stop(Fixture *f) {
  hl_arena_free(f->arena);
  hl_module_free(f->m);
  hl_cx_free(f->cx);
}

static HlInst *inst(const Fixture *f, const char *comp, const char *name) {
  HlInst *found = hl_find_inst(hl_find_comp(f->m, hl_str(comp)), hl_str(name));
  assert_non_null(found);
  return found;
}

static uint32_t value_at(const Fixture *f, const char *comp, const char *name) {
  return hl_value_of(f->buffers->flow, inst(f, comp, name));
}

static uint32_t buffer_at(const Fixture *f, const char *comp, const char *name) {
  return f->buffers->flow->value[value_at(f, comp, name)].buffer;
}

// The state of a loop is one buffer: before it, in condition and body, after it.
static void test_loop_state(void **state) {
  (void)state;
  Fixture f = start(loop);
  uint32_t buffer = buffer_at(&f, "main", "g");
  assert_int_equal(buffer_at(&f, "main", "cz"), buffer);
  assert_int_equal(buffer_at(&f, "b", "x"), buffer);
  assert_int_equal(buffer_at(&f, "b", "y"), buffer);
  assert_int_not_equal(buffer_at(&f, "main", "z"), buffer);
  assert_int_not_equal(buffer_at(&f, "b", "e"), buffer);
  assert_true(f.buffers->flow->value[value_at(&f, "main", "g")].is_phi);
  assert_false(f.buffers->flow->value[value_at(&f, "b", "e")].is_phi);
  assert_true(f.buffers->flow->value[value_at(&f, "main", "d")].live_out);
  stop(&f);
}

static void check_range(const Fixture *f, const char *comp, const char *name, int64_t start,
                        int64_t end) {
  HlRange range = f->buffers->live->range[value_at(f, comp, name)];
  assert_int_equal(range.start, start);
  assert_int_equal(range.end, end);
}

// Condition and body stand before the loop in the flattened schedule; inputs live throughout.
static void test_live_ranges(void **state) {
  (void)state;
  Fixture f = start(loop);
  assert_int_equal(f.buffers->live->n, 20);
  check_range(&f, "main", "z", 0, 20);
  check_range(&f, "main", "cz", 3, 5);
  check_range(&f, "b", "e", 13, 14);
  check_range(&f, "b", "y", 14, 16);
  check_range(&f, "main", "s", 18, 19);
  check_range(&f, "main", "d", 19, 20);
  stop(&f);
}

// Values alive at one time do not overlap in memory, unless one is made of the other in place.
static void test_places(void **state) {
  (void)state;
  Fixture f = start(loop);
  for (int k = 0; k < f.buffers->n; k++) {
    const HlAllocation *a = &f.buffers->allocation[k];
    for (int i = 0; i < a->n_places; i++) {
      assert_true(a->place[i].offset >= 0 && a->place[i].offset + a->place[i].size <= a->size);
      for (int j = 0; j < i; j++) {
        HlRange x = f.buffers->live->range[a->place[i].value];
        HlRange y = f.buffers->live->range[a->place[j].value];
        bool apart = a->place[i].offset + a->place[i].size <= a->place[j].offset ||
                     a->place[j].offset + a->place[j].size <= a->place[i].offset;
        assert_true(apart || x.end <= y.start || y.end <= x.start);
      }
    }
  }
  stop(&f);
}

static void test_report(void **state) {
  (void)state;
  Fixture f =
      start("HloModule m, is_scheduled=true\n"
            "ENTRY main {\n  x = f32[4] parameter(0)\n  n = f32[4] negate(x)\n"
            "  e = f32[4,4] broadcast(n), dimensions={0}\n  ROOT t = (f32[4,4]) tuple(e)\n}\n");
  HlBuf out = {0};
  hl_buffers_print(&out, f.buffers);
  assert_string_equal(out.at,
                      "BufferAssignment:\n"
                      "allocation 0: size 64, maybe-live-out:\n"
                      " value: <2 e @0> (size=64,offset=0): f32[4,4]{1,0}\n"
                      "allocation 1: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}:\n"
                      " value: <0 x @0> (size=16,offset=0): f32[4]{0}\n"
                      "allocation 2: size 8, output shape is |(f32[4,4])|, maybe-live-out:\n"
                      " value: <3 t{} @0> (size=8,offset=0): (f32[4,4]{1,0})\n"
                      "allocation 3: size 16, preallocated-temp:\n"
                      " value: <1 n @0> (size=16,offset=0): f32[4]{0}\n");
  out.n = 0;
  hl_buffers_print_live(&out, f.buffers);
  assert_non_null(
      strstr(out.at, "  Live ranges at 3 (peak):\n    e{}: 64 bytes (cumulative: 64 bytes)\n"));
  out.n = 0;
  hl_buffers_print_values(f.cx, &out, f.buffers);
  assert_non_null(strstr(out.at, "<2 e @0>\n positions:\n  e\n  t {0}\n uses:\n  t, operand 0\n"));
  out.n = 0;
  hl_buffers_print_usage(&out, f.buffers);
  assert_non_null(strstr(out.at, "Total bytes: 104 (104B)\n"));
  assert_non_null(
      strstr(out.at, "       64B(100%);        64B;            0;                1; f32[4,4]\n"));
  hl_buf_free(&out);
  stop(&f);
}

static void test_called_both_ways(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = hl_text_parse(
      cx, "HloModule m\n"
          "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
          "ENTRY main { x = f32[4] parameter(0) z = f32[] constant(0) r = f32[] reduce(x, z), "
          "dimensions={0}, to_apply=s ROOT c = f32[] call(r, z), to_apply=s }\n");
  assert_non_null(m);
  assert_null(hl_flow_new(cx, arena, m, true));
  assert_int_equal(hl_cx_n_errors(cx), 1);
  hl_arena_free(arena);
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loop_state),       cmocka_unit_test(test_live_ranges),
      cmocka_unit_test(test_places),           cmocka_unit_test(test_report),
      cmocka_unit_test(test_called_both_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
