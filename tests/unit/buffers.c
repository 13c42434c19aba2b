// Buffers: which values share memory, how long they live, where they are put, and what the reports say of it.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/buffers.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "proto/xla.pb-c.h"

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
  HlBuffersOptions options = {0};
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
                      "allocation 0: size 64, page 0, maybe-live-out:\n"
                      " value: <2 e @0> (size=64,offset=0): f32[4,4]{1,0}\n"
                      "allocation 1: size 16, page 0, parameter 0, shape |f32[4]| at ShapeIndex {}:\n"
                      " value: <0 x @0> (size=16,offset=0): f32[4]{0}\n"
                      "allocation 2: size 8, page 0, output shape is |(f32[4,4])|, maybe-live-out:\n"
                      " value: <3 t{} @0> (size=8,offset=0): (f32[4,4]{1,0})\n"
                      "allocation 3: size 16, page 0, preallocated-temp:\n"
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

// --- The message ---------------------------------------------------------------------------------

static Xla__BufferAssignmentProto *message_of(const Fixture *f) {
  HlBuf out = {0};
  hl_buffers_write(&out, f->buffers);
  Xla__BufferAssignmentProto *a =
      xla__buffer_assignment_proto__unpack(NULL, out.n, (const uint8_t *)out.at);
  assert_non_null(a);
  hl_buf_free(&out);
  return a;
}

static int64_t number_of(const Fixture *f, const char *comp, const char *name) {
  return hl_proto_inst_id(hl_proto_comp_ids(f->arena, f->m), inst(f, comp, name));
}

// The loop's state starts with cz; the parameters of its computations, its result and what the body
// ends with share cz's memory.
static void test_message_of_values(void **state) {
  (void)state;
  Fixture f = start(loop);
  Xla__BufferAssignmentProto *a = message_of(&f);
  int64_t cz = f.buffers->flow->value[value_at(&f, "main", "cz")].id;
  int found = 0, aliases = 0;
  bool of_loop = false;
  for (size_t k = 0; k < a->n_logical_buffers; k++) {
    const Xla__LogicalBufferProto *v = a->logical_buffers[k];
    if (v->id != cz)
      continue;
    found++;
    assert_int_equal(v->size, 32);
    assert_int_equal(v->defined_at->n_shape_index, 0);
    assert_int_equal(v->defined_at->instruction_id, number_of(&f, "main", "cz"));
  }
  for (size_t k = 0; k < a->n_buffer_aliases; k++) {
    const Xla__BufferLocation *where = a->buffer_aliases[k]->location;
    if (a->buffer_aliases[k]->source_buffer_id != cz)
      continue;
    aliases++;
    of_loop |= where->instruction_id == number_of(&f, "main", "w") && where->n_shape_index == 1 &&
               where->shape_index[0] == 1;
  }
  assert_int_equal(found, 1);
  assert_int_equal(aliases,
                   4);  // the parameters p and q, the loop, and y, which the body ends with
  assert_true(of_loop);
  xla__buffer_assignment_proto__free_unpacked(a, NULL);
  stop(&f);
}

static void test_message_of_allocations(void **state) {
  (void)state;
  Fixture f = start(loop);
  Xla__BufferAssignmentProto *a = message_of(&f);
  assert_int_equal(a->n_buffer_allocations, f.buffers->n);
  assert_int_equal(a->n_peak_buffers, f.buffers->n);
  for (size_t k = 0; k < a->n_buffer_allocations; k++) {
    const Xla__BufferAllocationProto *m = a->buffer_allocations[k];
    const HlAllocation *is = &f.buffers->allocation[k];
    assert_int_equal(m->size, is->size);
    assert_int_equal(m->is_entry_computation_parameter, is->is_parameter);
    assert_int_equal(m->n_assigned, is->n_places);
    for (size_t j = 0; j < m->n_assigned; j++) {
      assert_int_equal(m->assigned[j]->offset, is->place[j].offset);
      assert_int_equal(m->assigned[j]->size, is->place[j].size);
    }
  }
  xla__buffer_assignment_proto__free_unpacked(a, NULL);
  stop(&f);
}

// n takes memory, e takes it over, r needs its own: most is in use while both e and r are there.
static void test_message_of_heap(void **state) {
  (void)state;
  Fixture f = start("HloModule m, is_scheduled=true\n"
                    "ENTRY main {\n  x = f32[64] parameter(0)\n  n = f32[64] negate(x)\n"
                    "  e = f32[64] exponential(n)\n  r = f32[64] reverse(e), dimensions={0}\n"
                    "  s = f32[64] add(e, r)\n  h = f32[8] slice(s), slice={[0:8]}\n"
                    "  ROOT t = f32[8] negate(h)\n}\n");
  Xla__BufferAssignmentProto *a = message_of(&f);
  static const struct {
    Xla__HeapEvent__Kind kind;
    const char *name;
  } expected[] = {
      {XLA__HEAP_EVENT__KIND__ALLOC, "n"},      {XLA__HEAP_EVENT__KIND__FREE, "n"},
      {XLA__HEAP_EVENT__KIND__SHARE_WITH, "e"}, {XLA__HEAP_EVENT__KIND__ALLOC, "r"},
      {XLA__HEAP_EVENT__KIND__FREE, "e"},       {XLA__HEAP_EVENT__KIND__SHARE_WITH, "s"},
      {XLA__HEAP_EVENT__KIND__FREE, "r"},       {XLA__HEAP_EVENT__KIND__FREE, "s"},
  };
  assert_int_equal(a->n_heap_simulator_traces, 1);
  const Xla__HeapSimulatorTrace *trace = a->heap_simulator_traces[0];
  assert_true(trace->whole_module_simulation);
  assert_int_equal(trace->n_events, HL_COUNT_OF(expected));
  for (size_t k = 0; k < trace->n_events; k++) {
    assert_int_equal(trace->events[k]->kind, expected[k].kind);
    assert_string_equal(trace->events[k]->instruction_name, expected[k].name);
    assert_string_equal(trace->events[k]->computation_name, "main");
  }
  const Xla__PeakBuffers *peak = a->peak_buffers[trace->buffer_allocation_index];
  assert_int_equal(peak->n_logical_buffer_ids, 2);
  assert_int_equal(peak->logical_buffer_ids[0],
                   f.buffers->flow->value[value_at(&f, "main", "e")].id);
  assert_int_equal(peak->logical_buffer_ids[1],
                   f.buffers->flow->value[value_at(&f, "main", "r")].id);
  xla__buffer_assignment_proto__free_unpacked(a, NULL);
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
      cmocka_unit_test(test_loop_state),
      cmocka_unit_test(test_live_ranges),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_report),
      cmocka_unit_test(test_called_both_ways),
      cmocka_unit_test(test_message_of_values),
      cmocka_unit_test(test_message_of_allocations),
      cmocka_unit_test(test_message_of_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
