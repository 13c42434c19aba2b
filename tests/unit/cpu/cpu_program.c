// Programs of the CPU backend: control flow, memory that is shared, given and kept, devices, custom calls, failures,
// cancelling, and many threads that run one program.
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "base/memory.h"
#include "hilo/cpu.h"
#include "hilo/session.h"
#include "hilo/text.h"
#include "hilo/tool.h"

enum { MOST_PARAMS = 4, MOST_DEVICES = 4 };

// A module with what is made of it, and arguments.
typedef struct Rig {
  HlCx *cx;
  HlModule *m;
  HlCompiled *compiled;  // NULL: the module itself is the program
  HlCpuProgram *program;
  HlLiteral *args[MOST_PARAMS];
  const HlLiteral *const *of_device[MOST_DEVICES];
  HlLiteral *results[MOST_DEVICES];
  HlEvalOptions options;
} Rig;

static void set_up(Rig *r, const char *text, bool optimise) {
  *r = (Rig){.cx = hl_cx_new()};
  r->m = hl_text_parse(r->cx, text);
  if (!r->m)
    fail_msg("%s", hl_cx_diag(r->cx, 0)->text);
  if (optimise) {
    HlSession *session = hl_session_new(r->cx, &(HlSessionOptions){.platform = "cpu"});
    r->compiled = hl_compile(r->cx, session, &(HlProgram){.module = r->m}, NULL);
    hl_session_free(session);
    assert_non_null(r->compiled);
  }
  const HlModule *m = optimise ? hl_compiled_module(r->compiled) : r->m;
  r->program = hl_cpu_new(r->cx, m, &(HlCpuOptions){.threads = 2});
  if (!r->program)
    fail_msg("%s", hl_cx_diag(r->cx, 0)->text);
  assert_true(hl_fake_args(r->cx, r->m, 1, r->args));
  for (int d = 0; d < MOST_DEVICES; d++)
    r->of_device[d] = (const HlLiteral *const *)r->args;
}

static void drop_results(Rig *r) {
  for (int d = 0; d < MOST_DEVICES; d++) {
    hl_literal_unref(r->results[d]);
    r->results[d] = NULL;
  }
}

static void tear_down(Rig *r) {
  drop_results(r);
  for (int k = 0; k < MOST_PARAMS; k++)
    hl_literal_unref(r->args[k]);
  hl_cpu_unref(r->program);
  hl_compiled_unref(r->compiled);
  hl_module_free(r->m);
  hl_cx_free(r->cx);
}

static bool run(Rig *r) {
  drop_results(r);
  return hl_cpu_run(r->cx, r->program, &r->options, r->of_device, r->results);
}

static const char *first_error(Rig *r) {
  return hl_cx_n_diags(r->cx) ? hl_cx_diag(r->cx, 0)->text : "";
}

static HlCpuReport report_of(Rig *r, HlArena *arena) {
  return hl_cpu_report(arena, r->program);
}

static int64_t steps_of(Rig *r, const char *kind) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = report_of(r, arena);
  int64_t n = 0;
  for (int k = 0; k < report.n; k++)
    n += strcmp(report.steps[k].kind, kind) == 0 ? report.steps[k].n : 0;
  hl_arena_free(arena);
  return n;
}

// Runs twice beside the interpreter: all devices' results have its bits.
static void check_same(Rig *r, const char *name) {
  HlLiteral *expected[MOST_DEVICES] = {NULL};
  if (!hl_eval(r->cx, r->m, &r->options, r->of_device, expected))
    fail_msg("%s: the interpreter: %s", name, first_error(r));
  for (int k = 0; k < 2; k++) {
    if (!run(r))
      fail_msg("%s: %s", name, first_error(r));
    for (int d = 0; d < hl_eval_devices(r->m, &r->options); d++)
      if (!hl_literal_equal(r->results[d], expected[d]))
        fail_msg("%s: run %d, device %d differs", name, k, d);
  }
  for (int d = 0; d < MOST_DEVICES; d++)
    hl_literal_unref(expected[d]);
}

// --- What programs compute --------------------------------------------------------------------------

#define SUM "sum { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n"
#define COUNTS_TO(n)                                                                    \
  "goes { p = (s32[], s32[8]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n" \
  " n = s32[] constant(" n ")\n ROOT r = pred[] compare(i, n), direction=LT }\n"
#define NEXT                                                             \
  " one = s32[] constant(1)\n i = s32[] get-tuple-element(p), index=0\n" \
  " x = s32[8] get-tuple-element(p), index=1\n j = s32[] add(i, one)\n"

static const struct {
  const char *name, *text;
} cases[] = {
    {"a loop that updates in place",
     "HloModule m\nbody { p = (s32[], s32[8]) parameter(0)\n" NEXT
     " u = s32[1] reshape(j)\n y = s32[8] dynamic-update-slice(x, u, i)\n"
     " ROOT r = (s32[], s32[8]) tuple(j, y) }\n" COUNTS_TO(
         "5") "ENTRY e { z = s32[] constant(0)\n x = s32[8] parameter(0)\n"
              " t = (s32[], s32[8]) tuple(z, x)\n w = (s32[], s32[8]) while(t), condition=goes, "
              "body=body\n"
              " a = s32[8] get-tuple-element(w), index=1\n ROOT r = (s32[8], s32[8]) tuple(a, x) "
              "}"},
    {"a loop whose state changes places",
     "HloModule m\nbody { p = (s32[], s32[8], s32[8]) parameter(0)\n one = s32[] constant(1)\n"
     " i = s32[] get-tuple-element(p), index=0\n x = s32[8] get-tuple-element(p), index=1\n"
     " y = s32[8] get-tuple-element(p), index=2\n j = s32[] add(i, one)\n"
     " ROOT r = (s32[], s32[8], s32[8]) tuple(j, y, x) }\n"
     "goes2 { p = (s32[], s32[8], s32[8]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
     " n = s32[] constant(7)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
     "ENTRY e { z = s32[] constant(0)\n x = s32[8] parameter(0)\n y = s32[8] parameter(1)\n"
     " t = (s32[], s32[8], s32[8]) tuple(z, x, y)\n"
     " ROOT w = (s32[], s32[8], s32[8]) while(t), condition=goes2, body=body }"},
    {"loops in loops, and a branch in them",
     "HloModule m\nup { p = s32[8] parameter(0)\n ROOT r = s32[8] add(p, p) }\n"
     "down { p = s32[8] parameter(0)\n ROOT r = s32[8] negate(p) }\n"
     "inner { p = (s32[], s32[8]) parameter(0)\n" NEXT
     " y = s32[8] add(x, x)\n ROOT r = (s32[], s32[8]) tuple(j, y) }\n" COUNTS_TO(
         "3") "goes2 { p = (s32[], s32[8]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
              " n = s32[] constant(4)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
              "outer { p = (s32[], s32[8]) parameter(0)\n" NEXT
              " z = s32[] constant(0)\n t = (s32[], s32[8]) tuple(z, x)\n"
              " w = (s32[], s32[8]) while(t), condition=goes, body=inner\n"
              " y = s32[8] get-tuple-element(w), index=1\n two = s32[] constant(2)\n"
              " odd = s32[] remainder(i, two)\n"
              " c = s32[8] conditional(odd, y, y), branch_computations={up, down}\n"
              " ROOT r = (s32[], s32[8]) tuple(j, c) }\n"
              "ENTRY e { z = s32[] constant(0)\n x = s32[8] parameter(0)\n"
              " t = (s32[], s32[8]) tuple(z, x)\n"
              " ROOT w = (s32[], s32[8]) while(t), condition=goes2, body=outer }"},
    {"branches by pred, by index, and by an index that is none",
     "HloModule m\nf { p = s32[8] parameter(0)\n ROOT r = s32[8] negate(p) }\n"
     "g { p = s32[8] parameter(0)\n ROOT r = s32[8] add(p, p) }\n"
     "h { p = s32[8] parameter(0)\n ROOT r = s32[8] multiply(p, p) }\n"
     "ENTRY e { x = s32[8] parameter(0)\n s = s32[1] slice(x), slice={[0:1]}\n"
     " v = s32[] reshape(s)\n zero = s32[] constant(0)\n big = s32[] constant(99)\n"
     " none = s32[] maximum(v, big)\n is = pred[] compare(v, zero), direction=LT\n"
     " a = s32[8] conditional(is, x, x), true_computation=f, false_computation=g\n"
     " b = s32[8] conditional(none, x, x, a), branch_computations={f, g, h}\n"
     " ROOT r = (s32[8], s32[8]) tuple(a, b) }"},
    {"calls", "HloModule m\n" SUM "f { p = s32[8] parameter(0)\n z = s32[] constant(0)\n"
              " ROOT r = s32[] reduce(p, z), dimensions={0}, to_apply=sum }\n"
              "ENTRY e { x = s32[8] parameter(0)\n a = s32[] call(x), to_apply=f\n"
              " y = s32[8] add(x, x)\n b = s32[] call(y), to_apply=f\n"
              " ROOT r = (s32[], s32[]) tuple(a, b) }"},
    {"results that are arguments, constants, and the same twice",
     "HloModule m\nENTRY e { x = s32[8] parameter(0)\n c = s32[2] constant({3, 4})\n"
     " y = s32[8] add(x, x)\n ROOT r = (s32[8], s32[2], s32[8], s32[8], s32[2]) "
     "tuple(x, c, y, y, c) }"},
    {"tuples that come and go",
     "HloModule m\nENTRY e { p = (s32[8], (f32[2], s8[3])) parameter(0)\n"
     " a = s32[8] get-tuple-element(p), index=0\n"
     " q = (f32[2], s8[3]) get-tuple-element(p), index=1\n"
     " b = s8[3] get-tuple-element(q), index=1\n n = s8[3] negate(b)\n"
     " t = ((f32[2], s8[3]), s8[3]) tuple(q, n)\n u = () tuple()\n"
     " ROOT r = (s32[8], ((f32[2], s8[3]), s8[3]), ()) tuple(a, t, u) }"},
    {"layouts of arguments and results",
     "HloModule m, entry_computation_layout={(f32[3,4]{0,1}, f32[2,3,4]{1,2,0})->(f32[3,4]{0,1}, "
     "f32[2,3,4]{0,2,1}, f32[4,3]{1,0})}\n"
     "ENTRY e { x = f32[3,4]{0,1} parameter(0)\n y = f32[2,3,4]{1,2,0} parameter(1)\n"
     " a = f32[3,4]{0,1} negate(x)\n b = f32[2,3,4]{0,2,1} copy(y)\n"
     " c = f32[4,3]{1,0} transpose(x), dimensions={1,0}\n"
     " ROOT r = (f32[3,4]{0,1}, f32[2,3,4]{0,2,1}, f32[4,3]{1,0}) tuple(a, b, c) }"},
    {"elements below a byte",
     "HloModule m\nENTRY e { x = s4[5] parameter(0)\n y = u2[3] parameter(1)\n"
     " a = s4[5] add(x, x)\n b = s32[5] convert(a)\n c = u2[3] add(y, y)\n"
     " k = s4[2] constant({-8, 7})\n p = pred[5] compare(a, x), direction=LT\n"
     " ROOT r = (s4[5], s32[5], u2[3], s4[2], pred[5]) tuple(a, b, c, k, p) }"},
    {"arrays of nothing, and one that is all",
     "HloModule m\nENTRY e { x = f32[0,3] parameter(0)\n a = f32[0,3] add(x, x)\n"
     " z = f32[] constant(2)\n b = f32[2,3] broadcast(z), dimensions={}\n"
     " c = f32[2,3] concatenate(a, b), dimensions={0}\n ROOT r = (f32[0,3], f32[2,3]) tuple(a, c) "
     "}"},
    {"random bits, a sort, a state of random numbers",
     "HloModule m\nlt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
     " ROOT c = pred[] compare(a, b), direction=LT }\n"
     "ENTRY e { s = u64[2] parameter(0)\n x = f32[9] parameter(1)\n"
     " b = (u64[2], u32[5]) rng-bit-generator(s), algorithm=rng_three_fry\n"
     " g = u64[2] rng-get-and-update-state(), delta=3\n"
     " h = u64[2] rng-get-and-update-state(), delta=1\n"
     " o = f32[9] sort(x), dimensions={0}, to_apply=lt\n"
     " ROOT r = ((u64[2], u32[5]), u64[2], u64[2], f32[9]) tuple(b, g, h, o) }"},
};

static void programs_compute_what_the_interpreter_does(void **state) {
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    Rig r;
    set_up(&r, cases[k].text, true);
    HlArena *arena = hl_arena_new();
    const char *whole = report_of(&r, arena).interpreted_whole;
    if (whole)
      fail_msg("%s: %s", cases[k].name, whole);
    hl_arena_free(arena);
    check_same(&r, cases[k].name);
    tear_down(&r);
  }
}

// --- Memory of the caller's ---------------------------------------------------------------------------

static const char gives_away[] =
    "HloModule m, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }\n"
    "ENTRY e { x = s32[4] parameter(0)\n y = s32[4] parameter(1)\n s = s32[4] add(x, y)\n"
    " d = s32[4] add(x, x)\n ROOT r = (s32[4], s32[4]) tuple(s, d) }";

static void arguments_are_written_only_where_given_away(void **state) {
  Rig r;
  set_up(&r, gives_away, false);
  assert_int_equal(hl_cpu_arguments(r.program), 2);
  assert_int_equal(hl_cpu_results(r.program), 2);
  assert_int_equal(hl_cpu_donor(r.program, 0), -1);
  assert_int_equal(hl_cpu_donor(r.program, 1), 0);
  for (int given = 0; given < 2; given++) {
    _Alignas(64) int32_t x[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40}, s[4], d[4];
    const void *const arguments[] = {x, y};
    void *const results[] = {s, given ? x : d};
    assert_true(hl_cpu_execute(r.cx, r.program, NULL, &(const void *const *){arguments},
                               &(void *const *){results}));
    const int32_t *doubled = results[1];
    for (int k = 0; k < 4; k++) {
      assert_int_equal(s[k], 11 * (k + 1));
      assert_int_equal(doubled[k], 2 * (k + 1));
      assert_int_equal(x[k], given ? 2 * (k + 1) : k + 1);
    }
  }
  check_same(&r, "literals are never written");
  tear_down(&r);
}

static void memory_is_in_the_layouts_of_shapes(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m, is_scheduled=true\nENTRY e { x = s16[2,3]{0,1} parameter(0)\n"
         " ROOT y = s16[2,3]{1,0} copy(x) }",
         false);
  const int16_t x[] = {0, 10, 1, 11, 2, 12};
  _Alignas(64) int16_t y[6];
  assert_true(hl_cpu_execute(r.cx, r.program, NULL,
                             &(const void *const *){(const void *const[]){x}},
                             &(void *const *){(void *const[]){y}}));
  for (int k = 0; k < 6; k++)
    assert_int_equal(y[k], k / 3 * 10 + k % 3);
  tear_down(&r);
}

static void let_go(void *owner) {
  ++*(int *)owner;
}

static void owners_are_told(void **state) {
  Rig r;
  set_up(&r, gives_away, false);
  int gone = 0;
  HlCpuProgram *p =
      hl_cpu_new(r.cx, r.m, &(HlCpuOptions){.let_go = let_go, .owner = &gone, .threads = 1});
  hl_cpu_unref(hl_cpu_ref(p));
  assert_int_equal(gone, 0);
  hl_cpu_unref(p);
  assert_int_equal(gone, 1);
  tear_down(&r);
}

// --- What is left to the interpreter --------------------------------------------------------------------

static const struct {
  const char *name, *text, *why;
} wholes[] = {
    {"no schedule", "HloModule m\nENTRY e { x = s32[4] parameter(0)\n ROOT y = s32[4] add(x, x) }",
     "the module has no schedule"},
    {"sizes known at run time",
     "HloModule m, is_scheduled=true\nENTRY e { x = s32[4] parameter(0)\n n = s32[] parameter(1)\n"
     " y = s32[<=4] set-dimension-size(x, n), dimensions={0}\n ROOT z = s32[<=4] add(y, y) }",
     "y: its size is known only at run time"},
    {"a loop without copies",
     "HloModule m, is_scheduled=true\n"
     "body { p = (s32[], s32[8]) parameter(0)\n" NEXT
     " ROOT r = (s32[], s32[8]) tuple(j, x) }\n" COUNTS_TO(
         "3") "ENTRY e { z = s32[] constant(0)\n x = s32[8] parameter(0)\n"
              " t = (s32[], s32[8]) tuple(z, x)\n"
              " ROOT w = (s32[], s32[8]) while(t), condition=goes, body=body }",
     "j: it would be written over a constant or an argument"},
    {"one operand updated twice",
     "HloModule m, is_scheduled=true\n"
     "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
     " d = f32[] parameter(3)\n s = f32[] add(a, c)\n n = f32[] minimum(b, d)\n"
     " ROOT t = (f32[], f32[]) tuple(s, n) }\n"
     "two { x = f32[4] parameter(0)\n i = s32[3,1] parameter(1)\n u = f32[3,1] parameter(2)\n"
     " ROOT r = (f32[4], f32[4]) scatter(x, x, i, u, u), update_window_dims={1}, "
     "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }\n"
     "ENTRY e { x = f32[4] parameter(0)\n i = s32[3,1] parameter(1)\n u = f32[3,1] parameter(2)\n"
     " c = f32[4] copy(x)\n w = (f32[4], f32[4]) fusion(c, i, u), kind=kLoop, calls=two\n"
     " ROOT s = f32[4] get-tuple-element(w), index=0 }",
     "w: two of its results would be in one place"},
    {"a computation called twice",
     "HloModule m, is_scheduled=true\nf { p = s32[4] parameter(0)\n ROOT r = s32[4] add(p, p) }\n"
     "ENTRY e { x = s32[4] parameter(0)\n a = s32[4] call(x), to_apply=f\n"
     " ROOT b = s32[4] call(a), to_apply=f }",
     NULL},
};

static void the_reason_to_interpret_is_told(void **state) {
  for (int k = 0; k < HL_COUNT_OF(wholes); k++) {
    Rig r;
    set_up(&r, wholes[k].text, false);
    HlArena *arena = hl_arena_new();
    const char *why = report_of(&r, arena).interpreted_whole;
    assert_non_null(why);
    if (wholes[k].why)
      assert_string_equal(why, wholes[k].why);
    hl_arena_free(arena);
    check_same(&r, wholes[k].name);
    tear_down(&r);
  }
}

static void interpreted_steps_are_counted(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m, is_scheduled=true\nENTRY e { x = f32[4] parameter(0)\n"
         " y = f32[4] custom-call(x), custom_call_target=\"annotate_device_placement\"\n"
         " ROOT z = f32[4] copy(y) }",
         false);
  hl_cpu_measure(r.program, true);
  assert_true(run(&r) && run(&r));
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = report_of(&r, arena);
  assert_null(report.interpreted_whole);
  assert_int_equal(report.n, 2);
  assert_string_equal(report.steps[0].kind, "interpret");
  assert_string_equal(report.steps[0].op, "custom-call");
  assert_int_equal(report.steps[0].runs, 2);
  assert_true(report.steps[0].seconds > 0);
  assert_string_equal(report.steps[1].kind, "copy");
  assert_int_equal(report.arguments, 16);
  hl_arena_free(arena);
  tear_down(&r);
}

static void equal_kernels_are_one(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m, is_scheduled=true\nENTRY e { x = f32[4] parameter(0)\n"
         " a = f32[4] exponential(x)\n b = f32[4] exponential(a), metadata={op_name=\"other\"}\n"
         " c = f32[4] add(a, b)\n d = f32[4] add(b, c)\n ROOT e2 = f32[4] add(d, d) }",
         false);
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = report_of(&r, arena);
  assert_int_equal(report.n_steps - steps_of(&r, "interpret"), 5);
  assert_int_equal(report.n_kernels, 3);  // exponential, x + y, x + x
  hl_arena_free(arena);
  tear_down(&r);
}

// --- Devices ------------------------------------------------------------------------------------------

static const char devices[] =
    "HloModule m, num_partitions=4\n" SUM
    "ENTRY e { x = s32[8] parameter(0)\n d = u32[] partition-id()\n c = s32[] convert(d)\n"
    " b = s32[8] broadcast(c), dimensions={}\n y = s32[8] multiply(x, b)\n"
    " s = s32[8] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, "
    "use_global_device_ids=true, to_apply=sum\n"
    " m = s32[8] collective-permute(y), channel_id=2, "
    "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n"
    " g = s32[32] all-gather(y), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, "
    "use_global_device_ids=true\n"
    " ROOT r = (s32[8], s32[8], s32[32]) tuple(s, m, g) }";

static void devices_exchange_values(void **state) {
  Rig r;
  set_up(&r, devices, true);
  check_same(&r, "collectives");
  tear_down(&r);
}

// What a device sends must not change under the eyes of those who read it when its memory is taken for something else.
static void what_is_sent_stays(void **state) {
  static const char *const texts[] = {
      "HloModule m, num_partitions=4, is_scheduled=true\n" SUM
      "ENTRY e { x = s32[8] parameter(0)\n y = s32[8] add(x, x)\n"
      " s = s32[8] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, "
      "use_global_device_ids=true, to_apply=sum\n"
      " z = s32[8] negate(x)\n w = s32[8] add(z, z)\n v = s32[8] multiply(w, z)\n"
      " ROOT r = (s32[8], s32[8]) tuple(s, v) }",
      "HloModule m, num_partitions=4, is_scheduled=true\n" SUM
      "f { p = s32[8] parameter(0)\n ROOT s = s32[8] all-reduce(p), channel_id=1, "
      "replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum }\n"
      "ENTRY e { x = s32[8] parameter(0)\n y = s32[8] add(x, x)\n"
      " s = s32[8] fusion(y), kind=kCustom, calls=f\n"
      " z = s32[8] negate(x)\n w = s32[8] add(z, z)\n v = s32[8] multiply(w, z)\n"
      " ROOT r = (s32[8], s32[8]) tuple(s, v) }"};
  for (int t = 0; t < HL_COUNT_OF(texts); t++) {
    Rig r;
    set_up(&r, texts[t], false);
    for (int k = 0; k < 50; k++)
      check_same(&r, "all-reduce");
    tear_down(&r);
  }
}

static void infeeds_and_outfeeds_run(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m\nENTRY e { t = token[] after-all()\n"
         " i = (s32[2], token[]) infeed(t)\n a = s32[2] get-tuple-element(i), index=0\n"
         " t2 = token[] get-tuple-element(i), index=1\n j = (s32[2], token[]) infeed(t2)\n"
         " b = s32[2] get-tuple-element(j), index=0\n t3 = token[] get-tuple-element(j), index=1\n"
         " s = s32[2] add(a, b)\n o = token[] outfeed(s, t3)\n ROOT r = s32[2] add(s, a) }",
         true);
  HlModule *shapes = hl_text_parse(
      r.cx, "HloModule m\nENTRY e { a = s32[2] parameter(0)\n b = s32[2] parameter(1)\n"
            " ROOT r = s32[2] add(a, b) }");
  HlLiteral *feed[2];
  assert_true(hl_fake_args(r.cx, shapes, 7, feed));
  r.options = (HlEvalOptions){.infeed = feed, .n_infeed = 2};
  check_same(&r, "infeed");
  r.options.n_infeed = 1;
  assert_false(run(&r));
  assert_null(r.results[0]);
  hl_literal_unref(feed[0]);
  hl_literal_unref(feed[1]);
  hl_module_free(shapes);
  tear_down(&r);
}

// --- Custom calls, failures -------------------------------------------------------------------------------

static const char calls[] =
    "HloModule m\nENTRY e { x = f32[4] parameter(0)\n a = f32[4] add(x, x)\n"
    " y = f32[4] custom-call(a), custom_call_target=\"mine\"\n ROOT z = f32[4] add(y, x) }";

static bool half(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                 HlLiteral *out) {
  if (*(const bool *)user)
    return hl_inst_error(cx, inst, "not today");
  for (int64_t k = 0; k < out->n; k++)
    hl_literal_set_f64(out, k, hl_literal_f64(in[0], k) / 2);
  return true;
}

static void custom_calls_of_the_context_run_and_fail(void **state) {
  Rig r;
  bool fails = false;
  set_up(&r, calls, true);
  assert_false(run(&r));
  assert_non_null(strstr(first_error(&r), "\"mine\""));
  hl_cx_clear(r.cx);
  hl_register_custom_call(r.cx, "mine", half, &fails);
  check_same(&r, "custom call");
  fails = true;
  assert_false(run(&r));
  assert_null(r.results[0]);
  assert_non_null(strstr(first_error(&r), "not today"));
  assert_true(hl_cx_diag(r.cx, 0)->loc > 0);
  hl_cx_clear(r.cx);
  fails = false;
  check_same(&r, "after a failure");
  tear_down(&r);
}

// Of one device of four, while the others wait for it.
static bool fails_on_two(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                         HlLiteral *out) {
  const bool fails = *(const bool *)user && hl_literal_f64(in[0], 0) == 2;
  for (int64_t k = 0; k < out->n; k++)
    hl_literal_set_f64(out, k, hl_literal_f64(in[0], k) + 1);
  return !fails || hl_inst_error(cx, inst, "not on this one");
}

static void a_device_that_fails_ends_all(void **state) {
  Rig r;
  bool fails = true;
  set_up(
      &r,
      "HloModule m, num_partitions=4\nsum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT c = f32[] add(a, b) }\nENTRY e { x = f32[8] parameter(0)\n d = u32[] partition-id()\n"
      " c = f32[] convert(d)\n b = f32[8] broadcast(c), dimensions={}\n"
      " y = f32[8] custom-call(b), custom_call_target=\"mine\"\n"
      " s = f32[8] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, "
      "use_global_device_ids=true, to_apply=sum\n ROOT z = f32[8] add(s, x) }",
      true);
  hl_register_custom_call(r.cx, "mine", fails_on_two, &fails);
  for (int k = 0; k < 5; k++) {
    assert_false(run(&r));
    for (int d = 0; d < MOST_DEVICES; d++)
      assert_null(r.results[d]);
    int told = 0;  // others may say that they waited for it
    for (int j = 0; j < hl_cx_n_diags(r.cx); j++)
      told += strstr(hl_cx_diag(r.cx, j)->text, "not on this one") != NULL;
    if (told != 1)
      fail_msg("%d: %s", told, first_error(&r));
    hl_cx_clear(r.cx);
  }
  fails = false;
  check_same(&r, "after failures");
  tear_down(&r);
}

static void a_check_that_fails_ends_the_run(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m\nENTRY e { x = s32[4] parameter(0)\n y = s32[4] add(x, x)\n"
         " t = () custom-call(x, y), custom_call_target=\"check.expect_eq\", "
         "custom_call_has_side_effect=true\n ROOT z = s32[4] multiply(y, x) }",
         true);
  hl_literal_set_i64(r.args[0], 2, 7);
  assert_false(run(&r));
  assert_null(r.results[0]);
  assert_int_equal(hl_cx_error_kind(r.cx), HL_DIFFERS);
  hl_cx_clear(r.cx);
  for (int k = 0; k < 4; k++)
    hl_literal_set_i64(r.args[0], k, 0);  // x = x + x
  check_same(&r, "a check that holds");
  tear_down(&r);
}

static void arguments_are_checked(void **state) {
  Rig r;
  set_up(&r, cases[0].text, true);
  HlLiteral *x = r.args[0];
  r.args[0] = NULL;
  assert_false(run(&r));
  assert_non_null(strstr(first_error(&r), "no value for parameter 0"));
  r.args[0] = x;
  tear_down(&r);
}

// --- Threads, cancelling --------------------------------------------------------------------------------------

typedef struct Runner {
  const Rig *r;
  const HlLiteral *expected;
  int runs, same;
  pthread_t thread;
} Runner;

static void *run_many(void *user) {
  Runner *me = user;
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < me->runs; k++) {
    HlLiteral *result = NULL;
    if (hl_cpu_run(cx, me->r->program, NULL, me->r->of_device, &result))
      me->same += hl_literal_equal(result, me->expected);
    hl_literal_unref(result);
  }
  hl_cx_free(cx);
  return NULL;
}

static void many_threads_run_one_program(void **state) {
  Rig r;
  set_up(&r, cases[2].text, true);
  assert_true(run(&r));
  Runner runner[4];
  for (int k = 0; k < 4; k++) {
    runner[k] = (Runner){.r = &r, .expected = r.results[0], .runs = 50};
    assert_int_equal(pthread_create(&runner[k].thread, NULL, run_many, &runner[k]), 0);
  }
  for (int k = 0; k < 4; k++) {
    pthread_join(runner[k].thread, NULL);
    assert_int_equal(runner[k].same, 50);
  }
  tear_down(&r);
}

static void *cancel_soon(void *cx) {
  usleep(20000);
  hl_cx_cancel(cx);
  return NULL;
}

static void an_endless_loop_is_cancelled(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m\nbody { p = (s32[], s32[8]) parameter(0)\n" NEXT
         " y = s32[8] add(x, x)\n ROOT r = (s32[], s32[8]) tuple(i, y) }\n" COUNTS_TO(
             "5") "ENTRY e { z = s32[] parameter(1)\n x = s32[8] parameter(0)\n"
                  " t = (s32[], s32[8]) tuple(z, x)\n"
                  " ROOT w = (s32[], s32[8]) while(t), condition=goes, body=body }",
         true);
  hl_literal_set_i64(r.args[1], 0, 0);
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, cancel_soon, r.cx), 0);
  assert_false(run(&r));
  assert_null(r.results[0]);
  pthread_join(other, NULL);
  assert_int_equal(hl_cx_error_kind(r.cx), HL_CANCELLED);
  hl_cx_resume(r.cx);
  hl_cx_clear(r.cx);
  hl_literal_set_i64(r.args[1], 0, 9);  // and the program runs on
  check_same(&r, "after cancelling");
  tear_down(&r);
}

// --- Inside of kernels ------------------------------------------------------------------------------------

// Asked at every look: wants the end at one of them.
typedef struct Looks {
  atomic_long n;
  long last;
} Looks;

static bool has_looked(void *user) {
  Looks *looks = user;
  return atomic_fetch_add(&looks->n, 1) + 1 >= looks->last;
}

// Each is a step of many chunks, or of one that looks itself.
static const struct {
  const char *name, *text;
} long_steps[] = {
    {"a product",
     "HloModule m\nENTRY e { x = f32[768,768] parameter(0)\n ROOT y = f32[768,768] "
     "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"},
    {"a fusion", "HloModule m\nENTRY e { x = f32[1048576] parameter(0)\n y = f32[1048576] "
                 "exponential(x)\n z = f32[1048576] cosine(y)\n ROOT w = f32[1048576] tanh(z) }"},
};

static void one_long_step_is_cancelled(void **state) {
  for (int k = 0; k < HL_COUNT_OF(long_steps); k++) {
    Rig r;
    set_up(&r, long_steps[k].text, true);
    hl_cpu_unref(r.program);  // with one thread it is known who looks, and how often
    r.program = hl_cpu_new(r.cx, hl_compiled_module(r.compiled), &(HlCpuOptions){.threads = 1});
    assert_non_null(r.program);
    Looks looks = {.last = LONG_MAX};
    hl_cx_set_poll(r.cx, has_looked, &looks);
    assert_true(run(&r));
    const long whole = looks.n;
    if (whole < 8)
      fail_msg("%s: %ld looks", long_steps[k].name, whole);
    drop_results(&r);
    looks = (Looks){.last = whole / 2};
    assert_false(run(&r));
    assert_true(looks.n <= whole / 2 + 1);
    assert_int_equal(hl_cx_error_kind(r.cx), HL_CANCELLED);
    assert_null(r.results[0]);
    hl_cx_set_poll(r.cx, NULL, NULL);
    tear_down(&r);
  }
}

// --- Large results ----------------------------------------------------------------------------------------

static void what_is_let_go_of_is_the_next_result(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m\nENTRY e { x = f32[256,256] parameter(0)\n y = f32[256,256] add(x, x)\n"
         " s = f32[2,2] slice(y), slice={[0:2], [0:2]}\n t = (f32[2,2], f32[256,256]) tuple(s, y)\n"
         " ROOT r = ((f32[2,2], f32[256,256]), f32[256,256]) tuple(t, x) }",
         true);
  check_same(&r, "in tuples");
  assert_true(run(&r));
  const HlLiteral *big = r.results[0]->element[0]->element[1];
  const void *const first = big->data;
  assert_int_equal((uintptr_t)first % 64, 0);
  assert_true(run(&r));  // lets go of the last one
  HlLiteral *kept = hl_literal_ref(r.results[0]->element[0]->element[1]);
  assert_true(kept->data == first || r.results[0]->element[1]->data == first);
  HlLiteral *held = r.results[0];
  r.results[0] = NULL;
  assert_true(run(&r));  // while the other one is held
  assert_true(r.results[0]->element[0]->element[1]->data != kept->data);
  assert_true(hl_literal_equal(r.results[0], held));
  HlLiteral *late = hl_literal_ref(r.results[0]->element[1]);
  hl_literal_unref(held);
  tear_down(&r);  // the program goes, two of its arrays stay
  assert_true(hl_literal_f64(kept, 5) == 2 * hl_literal_f64(late, 5));
  hl_literal_unref(kept);
  hl_literal_unref(late);
}

typedef struct Taking {
  Rig *r;
  bool cancels;
} Taking;

// In a try that fails results go with it.
static bool take_and_fail(HlCx *cx, void *user) {
  Taking *taking = user;
  HlLiteral *out[MOST_DEVICES] = {NULL};
  if (!hl_cpu_run(cx, taking->r->program, NULL, taking->r->of_device, out))
    return false;
  assert_int_equal(out[0]->n, 1 << 16);
  if (taking->cancels)
    hl_cx_cancel(cx);
  base_look();
  hl_literal_unref(out[0]);
  return true;
}

static void large_results_go_with_a_try(void **state) {
  Rig r;
  set_up(&r, "HloModule m\nENTRY e { x = f32[65536] parameter(0)\n ROOT y = f32[65536] add(x, x) }",
         true);
  Taking taking = {&r, true};
  for (int k = 0; k < 3; k++) {
    assert_false(hl_try(r.cx, take_and_fail, &taking));
    assert_int_equal(hl_cx_error_kind(r.cx), HL_CANCELLED);
    hl_cx_resume(r.cx);
    hl_cx_clear(r.cx);
  }
  taking.cancels = false;
  if (!hl_try(r.cx, take_and_fail, &taking))
    fail_msg("%s", first_error(&r));
  tear_down(&r);
}

// A program that was made in a try that fails goes with it, its machine code as well.
static bool make_run_and_fail(HlCx *cx, void *user) {
  Rig *r = user;
  HlLiteral *out[MOST_DEVICES] = {NULL};
  HlCpuProgram *program = hl_cpu_new(cx, hl_cpu_module(r->program), NULL);
  if (!program || !hl_cpu_run(cx, program, NULL, r->of_device, out))
    return false;
  hl_cx_cancel(cx);
  base_look();
  fail_msg("the try goes on");
  return false;
}

static void programs_go_with_a_try(void **state) {
  Rig r;
  set_up(&r, "HloModule m\nENTRY e { x = f32[100] parameter(0)\n ROOT y = f32[100] add(x, x) }",
         true);
  for (int k = 0; k < 3; k++) {
    assert_false(hl_try(r.cx, make_run_and_fail, &r));
    assert_int_equal(hl_cx_error_kind(r.cx), HL_CANCELLED);
    hl_cx_resume(r.cx);
    hl_cx_clear(r.cx);
  }
  check_same(&r, "after the tries");
  tear_down(&r);
}

// --- Events -----------------------------------------------------------------------------------------------

static void events_tell_when_steps_ran(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m\nbody { p = (s32[], s32[800]) parameter(0)\n" NEXT
         " y = s32[800] add(x, x)\n ROOT r = (s32[], s32[800]) tuple(j, y) }\n" COUNTS_TO(
             "5") "ENTRY e { z = s32[] parameter(1)\n x = s32[800] parameter(0)\n"
                  " t = (s32[], s32[800]) tuple(z, x)\n"
                  " ROOT w = (s32[], s32[800]) while(t), condition=goes, body=body }",
         true);
  hl_literal_set_i64(r.args[1], 0, 0);
  hl_cpu_measure(r.program, true);
  hl_cpu_record(r.program, 3);
  const double start = hl_now();
  assert_true(run(&r) && run(&r));
  const double end = hl_now();
  HlArena *arena = hl_arena_new();
  int64_t n, runs = 0, n_steps = 0;
  const HlCpuEvent *event = hl_cpu_events(arena, r.program, &n);
  const HlCpuReport report = report_of(&r, arena);
  double last = start;
  for (int64_t k = 0; k < n; k++) {
    if (event[k].thread != 0)
      continue;
    assert_int_equal(event[k].frame, 0);
    assert_true(event[k].start >= start && event[k].start + event[k].seconds <= end + 1e-6);
    runs += event[k].step < 0;
    n_steps += event[k].step >= 0;
    if (event[k].step < 0)
      continue;
    assert_true(event[k].start >= last);
    last = event[k].start;
    assert_true(event[k].step < report.n_steps);
  }
  assert_int_equal(runs, 2);
  int64_t expected = 0, unrecorded = 0;
  for (int64_t k = 0; k < report.n_steps; k++) {
    const HlCpuStep *s = &report.step[k];
    expected += s->runs < 3 ? s->runs : 3;
    assert_int_equal(s->unrecorded, s->runs > 3 ? s->runs - 3 : 0);
    assert_true((s->unrecorded > 0) == (s->unrecorded_seconds > 0));
    unrecorded += s->unrecorded;
    assert_non_null(s->inst);
  }
  assert_int_equal(n_steps, expected);
  assert_true(unrecorded >= 7);  // ten turns, of which three are shown
  hl_cpu_record(r.program, 0);
  hl_cpu_events(arena, r.program, &n);
  assert_int_equal(n, 0);
  hl_arena_free(arena);
  tear_down(&r);
}

static void peaks_are_measured(void **state) {
  Rig r;
  set_up(&r, gives_away, false);
  HlCpuPeaks peaks;
  assert_true(hl_cpu_peaks(r.cx, r.program, &peaks));
  assert_int_equal(peaks.threads, 2);
  assert_true(peaks.f32 > 1e8 && peaks.f64 > 1e8 && peaks.bytes > 1e8);
  tear_down(&r);
}

static void threads_have_events_of_their_own(void **state) {
  Rig r;
  set_up(&r,
         "HloModule m\nENTRY e { x = f32[2048,1024] parameter(0)\n"
         " ROOT y = f32[2048,1024] exponential(x) }",
         true);
  hl_cpu_measure(r.program, true);
  hl_cpu_record(r.program, 100);
  HlArena *arena = hl_arena_new();
  int64_t n, others = 0, chunks = 0;
  for (int k = 0; k < 40 && others == 0;
       k++) {  // a machine at work may have no time for a second thread
    assert_true(run(&r));
    const HlCpuEvent *event = hl_cpu_events(arena, r.program, &n);
    for (int64_t j = 0; j < n; j++) {
      others += event[j].thread > 0;
      chunks += event[j].chunks;
      assert_true(event[j].thread < 2 && event[j].seconds >= 0);
    }
  }
  assert_true(others > 0 && chunks >= others);
  hl_arena_free(arena);
  tear_down(&r);
}

static void count_traced(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  ++*(int *)user;
  assert_true(hl_shape_compatible(inst->shape, value->shape));
}

static void a_trace_sees_the_steps(void **state) {
  Rig r;
  int seen = 0;
  set_up(&r, gives_away, false);
  r.options = (HlEvalOptions){.trace = count_traced, .user = &seen};
  assert_true(run(&r));
  assert_int_equal(seen, 2);
  tear_down(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_compute_what_the_interpreter_does),
      cmocka_unit_test(arguments_are_written_only_where_given_away),
      cmocka_unit_test(memory_is_in_the_layouts_of_shapes),
      cmocka_unit_test(owners_are_told),
      cmocka_unit_test(the_reason_to_interpret_is_told),
      cmocka_unit_test(interpreted_steps_are_counted),
      cmocka_unit_test(equal_kernels_are_one),
      cmocka_unit_test(devices_exchange_values),
      cmocka_unit_test(what_is_sent_stays),
      cmocka_unit_test(infeeds_and_outfeeds_run),
      cmocka_unit_test(custom_calls_of_the_context_run_and_fail),
      cmocka_unit_test(a_device_that_fails_ends_all),
      cmocka_unit_test(a_check_that_fails_ends_the_run),
      cmocka_unit_test(arguments_are_checked),
      cmocka_unit_test(many_threads_run_one_program),
      cmocka_unit_test(an_endless_loop_is_cancelled),
      cmocka_unit_test(one_long_step_is_cancelled),
      cmocka_unit_test(what_is_let_go_of_is_the_next_result),
      cmocka_unit_test(large_results_go_with_a_try),
      cmocka_unit_test(programs_go_with_a_try),
      cmocka_unit_test(events_tell_when_steps_ran),
      cmocka_unit_test(threads_have_events_of_their_own),
      cmocka_unit_test(peaks_are_measured),
      cmocka_unit_test(a_trace_sees_the_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
