// The interpreter's driver: control flow, sharing, run-time sizes, devices, limits.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/edit.h"
#include "hilo/eval.h"
#include "hilo/text.h"

typedef struct Case {
  const char *name;
  const char *text;  // computations after the header line
  const char *want;  // the result as literals print; NULL: must fail
} Case;

#define ADD "add { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n"

static const Case cases[] = {
    {"while",
     "body { p = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
     " s = s32[] get-tuple-element(p), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
     " t = s32[] add(s, i)\n ROOT r = (s32[], s32[]) tuple(j, t) }\n"
     "cond { p = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
     " n = s32[] constant(5)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
     "ENTRY e { z = s32[] constant(0)\n t = (s32[], s32[]) tuple(z, z)\n"
     " ROOT w = (s32[], s32[]) while(t), condition=cond, body=body }",
     "( 5, 10 )"},
    {"while that updates in place leaves what others hold alone",
     "body { p = (s32[], s32[3]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
     " x = s32[3] get-tuple-element(p), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
     " u = s32[1] reshape(j)\n y = s32[3] dynamic-update-slice(x, u, i)\n"
     " ROOT r = (s32[], s32[3]) tuple(j, y) }\n"
     "cond { p = (s32[], s32[3]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
     " n = s32[] constant(3)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
     "ENTRY e { z = s32[] constant(0)\n x = s32[3] constant({7, 8, 9})\n"
     " t = (s32[], s32[3]) tuple(z, x)\n w = (s32[], s32[3]) while(t), condition=cond, body=body\n"
     " a = s32[3] get-tuple-element(w), index=1\n b = s32[3] get-tuple-element(t), index=1\n"
     " ROOT r = (s32[3], s32[3], s32[3]) tuple(a, b, x) }",
     "( {1, 2, 3}, {7, 8, 9}, {7, 8, 9} )"},
    {"one value twice in a tuple",
     "ENTRY e { z = s32[] constant(1)\n x = s32[2] iota(), iota_dimension=0\n"
     " t = (s32[2], s32[2]) tuple(x, x)\n a = s32[2] get-tuple-element(t), index=0\n"
     " u = s32[1] constant({5})\n d = s32[2] dynamic-update-slice(a, u, z)\n"
     " b = s32[2] get-tuple-element(t), index=1\n ROOT r = (s32[2], s32[2]) tuple(d, b) }",
     "( {0, 5}, {0, 1} )"},
    {"conditional, index out of range",
     "f { p = s32[] parameter(0)\n ROOT r = s32[] negate(p) }\n"
     "g { p = s32[] parameter(0)\n ROOT r = s32[] add(p, p) }\n"
     "ENTRY e { i = s32[] constant(-1)\n x = s32[] constant(21)\n"
     " ROOT c = s32[] conditional(i, x, x), branch_computations={f, g} }",
     "42"},
    {"conditional on a pred",
     "f { p = s32[] parameter(0)\n ROOT r = s32[] negate(p) }\n"
     "g { p = s32[] parameter(0)\n ROOT r = s32[] add(p, p) }\n"
     "ENTRY e { i = pred[] constant(true)\n x = s32[] constant(21)\n"
     " ROOT c = s32[] conditional(i, x, x), true_computation=f, false_computation=g }",
     "-21"},
    {"map",
     ADD "ENTRY e { x = s32[2,2] constant({{1, 2}, {3, 4}})\n"
         " ROOT m = s32[2,2] map(x, x), dimensions={0,1}, to_apply=add }",
     "{ { 2, 4 }, { 6, 8 } }"},
    {"map of a computation that runs no lanes",
     "b { p = s32[] parameter(0)\n ROOT r = s32[] add(p, p) }\n"
     "c { p = s32[] parameter(0)\n n = s32[] constant(10)\n"
     " ROOT r = pred[] compare(p, n), direction=LT }\n"
     "f { p = s32[] parameter(0)\n ROOT w = s32[] while(p), condition=c, body=b }\n"
     "ENTRY e { x = s32[3] constant({1, 3, 5})\n ROOT m = s32[3] map(x), dimensions={0}, "
     "to_apply=f }",
     "{16, 12, 10}"},
    {"scan, backwards",
     "f { x = s32[] parameter(0)\n c = s32[] parameter(1)\n s = s32[] add(x, c)\n"
     " ROOT r = (s32[], s32[]) tuple(s, s) }\n"
     "ENTRY e { x = s32[3] constant({1, 2, 3})\n z = s32[] constant(10)\n"
     " ROOT s = (s32[3], s32[]) scan(x, z), dimensions={0}, num_carries=1, is_reverse=true,"
     " to_apply=f }",
     "( {16, 15, 13}, 16 )"},
    {"fusion and call",
     "f { p = s32[2] parameter(0)\n ROOT r = s32[2] add(p, p) }\n"
     "g { p = s32[2] parameter(0)\n ROOT r = s32[2] call(p), to_apply=f }\n"
     "ENTRY e { x = s32[2] constant({1, 2})\n ROOT r = s32[2] fusion(x), kind=kLoop, calls=g }",
     "{2, 4}"},
    {"async",
     "ENTRY e { x = s32[2] constant({1, 2})\n"
     " s = ((s32[2]), s32[2], u32[]) negate-start(x)\n ROOT d = s32[2] negate-done(s) }",
     "{-1, -2}"},
    {"copy-start",
     "ENTRY e { x = s32[2] constant({1, 2})\n s = (s32[2], s32[2], u32[]) copy-start(x)\n"
     " ROOT d = s32[2] copy-done(s) }",
     "{1, 2}"},
    {"bitcast through layouts",
     "ENTRY e { x = s32[2,3]{0,1} constant({{1, 2, 3}, {4, 5, 6}})\n"
     " ROOT b = s32[6]{0} bitcast(x) }",
     "{1, 4, 2, 5, 3, 6}"},
    {"run-time sizes",
     ADD "ENTRY e { x = s32[2,3] constant({{1, 2, 3}, {4, 5, 6}})\n n = s32[] constant(2)\n"
         " z = s32[] constant(0)\n d = s32[2,<=3] set-dimension-size(x, n), dimensions={1}\n"
         " t = s32[<=3,2] transpose(d), dimensions={1,0}\n f = s32[<=6] reshape(t)\n"
         " c = s32[<=12] concatenate(f, f), dimensions={0}\n"
         " g = s32[] get-dimension-size(c), dimensions={0}\n"
         " s = s32[] reduce(c, z), dimensions={0}, to_apply=add\n"
         " ROOT r = (s32[], s32[], s32[<=6]) tuple(g, s, f) }",
     "( 8, 24, {1, 4, 2, 5} )"},
    {"an elided constant", "ENTRY e { ROOT x = s32[300] constant({...}) }", NULL},
    {"a wrong shape", "ENTRY e { x = s32[3] constant({1, 2, 3})\n ROOT r = s32[4] add(x, x) }",
     NULL},
};

static HlModule *parse(HlCx *cx, const char *header, const char *text) {
  HlBuf all = {0};
  hl_buf_printf(&all, "%s\n%s\n", header, text);
  HlModule *m = hl_text_parse(cx, all.at);
  hl_buf_free(&all);
  return m;
}

static void check_case(const Case *c) {
  HlCx *cx = hl_cx_new();
  HlBuf got = {0};
  HlModule *m = parse(cx, "HloModule test", c->text);
  for (int k = 0; !m && k < hl_cx_n_diags(cx); k++)
    print_message("%s: %s\n", c->name, hl_cx_diag(cx, k)->text);
  assert_non_null(m);
  HlLiteral *result = hl_eval_comp(cx, m->entry, NULL, 0);
  if (result)
    hl_literal_print(&got, result);
  for (int k = 0; c->want && k < hl_cx_n_diags(cx); k++)
    print_message("%s: %s\n", c->name, hl_cx_diag(cx, k)->text);
  if (c->want ? !result || strcmp(got.at, c->want) != 0 : result || hl_cx_n_errors(cx) == 0)
    fail_msg("%s: got %s", c->name, result ? got.at : "nothing");
  hl_literal_unref(result);
  hl_module_free(m);
  hl_buf_free(&got);
  hl_cx_free(cx);
}

static void test_cases(void **state) {
  (void)state;
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    check_case(&cases[k]);
}

static const char endless[] =
    "b { ROOT p = s32[] parameter(0) }\n"
    "c { p = s32[] parameter(0)\n ROOT t = pred[] constant(true) }\n"
    "ENTRY e { z = s32[] constant(0)\n ROOT w = s32[] while(z), condition=c, body=b }";
static const char large[] =
    "ENTRY e { z = f32[] constant(0)\n ROOT b = f32[100000] broadcast(z), dimensions={} }";

static void check_limit(const char *text, int64_t steps, int64_t bytes) {
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->eval_steps = steps;
  hl_cx_limits(cx)->eval_bytes = bytes;
  HlModule *m = parse(cx, "HloModule test", text);
  assert_non_null(m);
  assert_null(hl_eval_comp(cx, m->entry, NULL, 0));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_limits(void **state) {
  (void)state;
  check_limit(endless, 1000, 1 << 20);
  check_limit(large, 0, 100000);
}

// Two replicas of three partitions; each device says who it is.
static void test_devices(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, "HloModule test, replica_count=2, num_partitions=3",
                      "ENTRY e { p = u32[] partition-id()\n r = u32[] replica-id()\n"
                      " c = u32[] constant(10)\n t = u32[] multiply(r, c)\n"
                      " ROOT a = u32[] add(t, p) }");
  assert_non_null(m);
  assert_int_equal(hl_eval_devices(m, NULL), 6);
  HlLiteral *results[6];
  assert_true(hl_eval(cx, m, NULL, NULL, results));
  for (int d = 0; d < 6; d++) {
    assert_int_equal(hl_literal_i64(results[d], 0), d / 3 * 10 + d % 3);
    hl_literal_unref(results[d]);
  }
  hl_module_free(m);
  hl_cx_free(cx);
}

// Devices that wait for ones that never come fail instead of hanging.
static void test_deadlock(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, "HloModule test, num_partitions=2",
                      ADD "f { p = s32[] parameter(0)\n ROOT r = s32[] all-reduce(p), channel_id=1,"
                          " replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add }\n"
                          "g { ROOT p = s32[] parameter(0) }\n"
                          "ENTRY e { p = u32[] partition-id()\n i = s32[] convert(p)\n"
                          " ROOT c = s32[] conditional(i, i, i), branch_computations={f, g} }");
  assert_non_null(m);
  HlLiteral *results[2];
  assert_false(hl_eval(cx, m, NULL, NULL, results));
  assert_null(results[0]);
  assert_null(results[1]);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void fill_counts(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  (void)device;
  (void)inst;
  int *count = user;
  *count += value != NULL;
}

// An elided constant is filled the same way each time, with a warning; the trace sees instructions.
static void test_elided(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, "HloModule test",
                      "ENTRY e { x = f32[300] constant({...})\n"
                      " ROOT r = f32[300] add(x, x) }");
  assert_non_null(m);
  int count = 0;
  const HlEvalOptions options = {.trace = fill_counts, .user = &count};
  HlLiteral *a, *b;
  assert_true(hl_eval(cx, m, &options, NULL, &a));
  assert_int_equal(hl_cx_n_diags(cx), 1);
  assert_int_equal(hl_cx_diag(cx, 0)->severity, HL_WARNING);
  assert_true(hl_eval(cx, m, &options, NULL, &b));
  assert_int_equal(count, 4);
  assert_true(hl_literal_equal(a, b));
  assert_false(hl_literal_is_all(a, 0));
  hl_literal_unref(a);
  hl_literal_unref(b);
  hl_module_free(m);
  hl_cx_free(cx);
}

// What has effects runs in the order of the schedule, which need not be that of the list.
static void test_schedule(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, "HloModule test",
                      "ENTRY e { a = u64[2] rng-get-and-update-state(), delta=3\n"
                      " b = u64[2] rng-get-and-update-state(), delta=5\n"
                      " ROOT r = (u64[2], u64[2]) tuple(a, b) }");
  HlInst *a = m->entry->first, *b = a->next, *r = b->next;
  uint64_t first[2], second[2];
  for (int turned = 0; turned < 2; turned++) {
    HlLiteral *out;
    hl_set_schedule(m->entry, (HlInst *[]){turned ? b : a, turned ? a : b, r});
    assert_true(hl_eval(cx, m, NULL, NULL, &out));
    memcpy(first, out->element[turned]->data, sizeof first);
    memcpy(second, out->element[!turned]->data, sizeof second);
    assert_int_equal(second[0] - first[0], turned ? 5 : 3);
    hl_literal_unref(out);
  }
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),   cmocka_unit_test(test_limits),
      cmocka_unit_test(test_devices), cmocka_unit_test(test_deadlock),
      cmocka_unit_test(test_elided),  cmocka_unit_test(test_schedule),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
