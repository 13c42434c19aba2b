// Options that are all zero are the defaults: they do what NULL does, or what spelling the defaults out does.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/buffers.h"
#include "hilo/check_each.h"
#include "hilo/jaxpr.h"
#include "hilo/mlir.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/session.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "hilo/view.h"

static const char program[] =
    "HloModule m, is_scheduled=true, entry_computation_layout={(f32[20]{0})->f32[20]{0}}\n\n"
    "ENTRY main {\n"
    "  x = f32[20] parameter(0), metadata={op_name=\"x\"}\n"
    "  c = f32[20] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, "
    "20})\n"
    "  n = f32[20] negate(x)\n"
    "  nn = f32[20] negate(n)\n"
    "  e = f32[20] exponential(x)\n"
    "  ROOT r = f32[20] add(nn, c), backend_config=\"b\"\n"
    "}\n";

typedef struct Bench {
  HlCx *cx;
  HlModule *m;
} Bench;

static int set_up(void **state) {
  Bench *b = calloc(1, sizeof *b);
  b->cx = hl_cx_new();
  b->m = hl_text_parse(b->cx, program);
  *state = b;
  return b->m ? 0 : -1;
}

static int tear_down(void **state) {
  Bench *b = *state;
  hl_module_free(b->m);
  hl_cx_free(b->cx);
  free(b);
  return 0;
}

static void assert_same(HlBuf *a, HlBuf *b) {
  assert_true(a->n > 0);
  assert_string_equal(a->at, b->at);
  hl_buf_free(a);
  hl_buf_free(b);
}

static void text(void **state) {
  const Bench *b = *state;
  HlBuf zero = {0}, none = {0}, spelt = {0};
  const HlTextOptions all = {.preset = HL_TEXT_DEFAULT,
                             .percent = HL_ON,
                             .signatures = HL_ON,
                             .operand_shapes = HL_OFF,
                             .metadata = HL_ON,
                             .backend_config = HL_ON,
                             .large_constants = HL_OFF,
                             .result_shape = HL_ON,
                             .layouts = HL_ON,
                             .print_ids = HL_ON,
                             .list_order = HL_OFF};
  hl_text_print(b->cx, b->m, &(HlTextOptions){0}, &zero);
  hl_text_print(b->cx, b->m, NULL, &none);
  hl_text_print(b->cx, b->m, &all, &spelt);
  assert_string_equal(zero.at, none.at);
  assert_non_null(strstr(zero.at, "%nn"));
  assert_non_null(strstr(zero.at, "constant({...})"));
  assert_non_null(strstr(zero.at, "op_name"));
  assert_same(&zero, &spelt);
  hl_buf_free(&none);
}

static void a_switch_goes_over_the_preset(void **state) {
  const Bench *b = *state;
  HlBuf out = {0};
  hl_text_print(
      b->cx, b->m,
      &(HlTextOptions){.preset = HL_TEXT_SHORT, .percent = HL_ON, .large_constants = HL_OFF}, &out);
  assert_non_null(strstr(out.at, "%nn"));
  assert_non_null(strstr(out.at, "constant({...})"));
  assert_null(strstr(out.at, "op_name"));
  hl_buf_free(&out);
}

static int64_t count_rewrites(Bench *b, HlEngineOptions options) {
  HlModule *copy = hl_clone(b->cx, b->m);
  HlEngine *engine = hl_engine_new(b->cx, &options);
  assert_true(hl_engine_run(engine, copy, "algsimp,dce"));
  int64_t n;
  const HlRewrite *all = hl_engine_rewrites(engine, &n);
  for (int64_t k = 0; k < n; k++)
    assert_null(all[k].before);  // nothing is explained
  hl_engine_free(engine);
  hl_module_free(copy);
  return n;
}

static void engine(void **state) {
  Bench *b = *state;
  HlEngineOptions options = {.passes = &hl_passes};
  const int64_t n = count_rewrites(b, options);
  assert_true(n >= 2);  // no limit
  options.fuel = (HlMaybeInt){true, 0};
  assert_int_equal(count_rewrites(b, options), 0);
  options.fuel = (HlMaybeInt){true, 1};
  assert_int_equal(count_rewrites(b, options), 1);
  // Without a table there are no passes: that is said.
  HlEngine *bare = hl_engine_new(b->cx, &(HlEngineOptions){0});
  assert_true(hl_engine_run(bare, b->m, ""));
  assert_false(hl_engine_run(bare, b->m, "dce"));
  hl_engine_free(bare);
}

static void verify(void **state) {
  Bench *b = *state;
  assert_true(hl_verify(b->cx, b->m, &(HlVerifyOptions){0}));
  HlModule *mixed = hl_text_parse(
      b->cx, "HloModule m\nENTRY main {\n  x = f32[8]{0:T(8)} parameter(0)\n"
             "  y = bf16[8]{0:T(8)} parameter(1)\n  ROOT r = f32[8]{0:T(8)} add(x, y)\n}\n");
  assert_non_null(mixed);
  assert_true(hl_verify(b->cx, mixed, NULL));
  assert_true(hl_verify(b->cx, mixed, &(HlVerifyOptions){0}));
  assert_false(hl_verify(b->cx, mixed, &(HlVerifyOptions){.allow_mixed_precision = HL_OFF}));
  hl_module_free(mixed);
}

static void print_buffers(const Bench *b, const HlBuffersOptions *options, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  hl_buffers_print(out, hl_buffers_new(b->cx, arena, b->m, options));
  hl_arena_free(arena);
}

static void buffers(void **state) {
  const Bench *b = *state;
  HlBuf zero = {0}, none = {0}, spelt = {0};
  print_buffers(b, &(HlBuffersOptions){0}, &zero);
  print_buffers(b, NULL, &none);
  print_buffers(b, &(HlBuffersOptions){.alignment = 64}, &spelt);
  assert_non_null(strstr(zero.at, "constant"));
  assert_string_equal(zero.at, none.at);
  assert_same(&zero, &spelt);
  hl_buf_free(&none);
}

static void compare(void **state) {
  Bench *b = *state;
  HlLiteral *x = hl_literal_new(b->cx, b->m->entry->root->shape);
  HlLiteral *y = hl_literal_new(b->cx, b->m->entry->root->shape);
  const HlLiteral *left[] = {x}, *right[] = {y};
  HlMismatch found;
  hl_literal_set_f64(x, 3, 1);
  hl_literal_set_f64(y, 3, 1 + 1e-6);
  assert_true(hl_compare(b->cx, 1, left, right, NULL, &found));
  assert_true(hl_compare(b->cx, 1, left, right, &(HlCompareOptions){0}, &found));
  const HlCompareOptions exact = {.tolerance = {true, 0}};
  assert_false(hl_compare(b->cx, 1, left, right, &exact, &found));
  const HlCompareOptions hinted = {.tolerance = {true, found.pass_tolerance}};
  assert_true(hl_compare(b->cx, 1, left, right, &hinted, &found));
  hl_literal_set_f64(y, 3, 1.1);
  assert_false(hl_compare(b->cx, 1, left, right, &(HlCompareOptions){0}, &found));
  hl_literal_unref(x);
  hl_literal_unref(y);
}

// What was recorded is compared with, by default, within the usual bounds.
static void replay(void **state) {
  Bench *b = *state;
  HlLiteral *args[1];
  assert_true(hl_fake_args(b->cx, b->m, 0, args));
  HlLiteral **all[] = {args};
  HlRecorded recorded = {.devices = 1, .n_arguments = 1, .arguments = all};
  recorded.result = hl_literal_new(b->cx, b->m->entry->root->shape);
  HlReplay replay;
  assert_true(hl_replay(b->cx, b->m, &recorded, &(HlReplayOptions){0}, &replay));
  assert_int_equal(replay.n_compared, 1);
  assert_int_equal(replay.n_different, 1);
  hl_replay_free(&replay);
  assert_true(hl_replay(b->cx, b->m, &recorded, &(HlReplayOptions){.no_compare = true}, &replay));
  assert_int_equal(replay.n_compared, 0);
  hl_replay_free(&replay);
  hl_literal_unref(recorded.result);
  hl_literal_unref(args[0]);
}

static void check_each(void **state) {
  Bench *b = *state;
  HlCheckEach check;
  const HlEngineOptions engine_options = {.passes = &hl_passes};
  assert_true(
      hl_check_each(b->cx, b->m, "algsimp,dce", &engine_options, &(HlCheckEachOptions){0}, &check));
  assert_false(check.differs);
  assert_true(check.evaluations > 1);
  hl_check_each_free(&check);
}

static void eval(void **state) {
  Bench *b = *state;
  HlLiteral *args[1], *a, *c;
  assert_true(hl_fake_args(b->cx, b->m, 1, args));
  const HlLiteral *const *all[] = {(const HlLiteral *const *)args};
  assert_true(hl_eval(b->cx, b->m, NULL, all, &a));
  assert_true(hl_eval(b->cx, b->m, &(HlEvalOptions){0}, all, &c));
  assert_true(hl_literal_equal(a, c));
  hl_literal_unref(a);
  hl_literal_unref(c);
  hl_literal_unref(args[0]);
}

static void load(void **state) {
  Bench *b = *state;
  HlSource *source = hl_source_new("test", program, strlen(program), false);
  HlFile a, c;
  assert_true(hl_load_source(b->cx, source, NULL, &a));
  assert_true(hl_load_source(b->cx, source, &(HlLoadOptions){0}, &c));
  assert_int_equal(a.n, 1);
  assert_int_equal(c.n, 1);
  assert_true(hl_graph_hash(a.modules[0]) == hl_graph_hash(c.modules[0]));
  hl_file_free(&a);
  hl_file_free(&c);
  hl_source_unref(source);
}

static void jaxprs(void **state) {
  Bench *b = *state;
  static const char jaxpr[] = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }";
  HlSource *source = hl_source_new("test", jaxpr, strlen(jaxpr), false);
  HlModule *a = hl_jaxpr_read(b->cx, source, NULL);
  HlModule *c = hl_jaxpr_read(b->cx, source, &(HlJaxprOptions){0});
  assert_true(hl_graph_hash(a) == hl_graph_hash(c));
  hl_module_free(a);
  hl_module_free(c);
  hl_source_unref(source);
}

static void mlir(void **state) {
  Bench *b = *state;
  static const char stable[] = "module {\n  func.func @f() -> tensor<20xi32> {\n"
                               "    %0 = stablehlo.iota dim = 0 : tensor<20xi32>\n"
                               "    return %0 : tensor<20xi32>\n  }\n}\n";
  HlSource *source = hl_source_new("test", stable, strlen(stable), false);
  HlMlTree **trees;
  int n;
  assert_true(hl_ml_text_read(b->cx, source, &trees, &n));
  HlBuf zero = {0};
  hl_ml_text_print(trees[0], &(HlMlTextOptions){0}, &zero);
  assert_string_equal(zero.at, stable);  // pretty, without locations
  hl_buf_free(&zero);
  hl_ml_free(trees[0]);
  hl_free(trees);
  hl_source_unref(source);
}

// All of a computation, with the insides of fusions, names and shapes.
static void view(void **state) {
  const Bench *b = *state;
  HlBuf zero = {0};
  hl_view_dot(b->cx, b->m->entry, &(HlViewOptions){0}, &zero);
  const char *const shown[] = {"\"nn\"", "\"e\"", "f32[20]"};
  for (int k = 0; k < HL_COUNT_OF(shown); k++)
    assert_non_null(strstr(zero.at, shown[k]));
  hl_buf_free(&zero);
}

static void flags(void **state) {
  const Bench *b = *state;
  HlFlags given = {0};
  HlBuf out = {0};
  hl_flags_print(&given, &out);
  assert_int_equal(out.n, 0);
  // To say what is so anyway changes nothing.
  assert_true(hl_flags_text(b->cx, &given,
                            "--xla_enable_dumping=true --xla_dump_hlo_as_text=false "
                            "--xla_dump_max_hlo_modules=-1 --xla_dump_hlo_as_long_text "
                            "--xla_force_host_platform_device_count=1"));
  const HlFlags none = {0};
  assert_memory_equal(&given, &none, sizeof none);
  assert_true(hl_flags_text(b->cx, &given,
                            "--xla_enable_dumping=false --xla_dump_max_hlo_modules=0 "
                            "--xla_dump_to=d"));
  assert_int_equal(given.xla_enable_dumping, HL_OFF);
  assert_true(given.xla_dump_max_hlo_modules.given);
  HlFlags copy;
  hl_flags_copy(&given, &copy);
  assert_ptr_not_equal(copy.xla_dump_to, given.xla_dump_to);
  hl_flags_free(&given);
  hl_flags_print(&copy, &out);
  assert_string_equal(out.at, "xla_dump_to: \"d\"\nxla_dump_max_hlo_modules: 0\n"
                              "xla_enable_dumping: false\n");
  hl_buf_free(&out);
  hl_flags_free(&copy);
}

static void dumper(void **state) {
  const Bench *b = *state;
  HlDumper *d = hl_dumper_new(b->cx, &(HlFlags){0}, HL_DUMP_FULL);
  assert_non_null(d);
  assert_true(hl_dumper_begin(d, b->m));
  assert_false(hl_dumper_is_on(d));
  hl_dumper_free(d);
  // A folder alone is enough to dump to it.
  d = hl_dumper_new(b->cx, &(HlFlags){.xla_dump_to = "/tmp"}, HL_DUMP_FULL);
  HlModule *m = hl_text_parse(b->cx, program);
  assert_true(hl_dumper_begin(d, m));
  assert_true(hl_dumper_is_on(d));
  hl_dumper_free(d);
  hl_module_free(m);
  assert_int_equal(system("rm -f /tmp/module_0000.m.debug_options"), 0);
}

static void session(void **state) {
  Bench *b = *state;
  HlBuf zero = {0}, none = {0};
  HlSession *sessions[] = {hl_session_new(b->cx, NULL),
                           hl_session_new(b->cx, &(HlSessionOptions){0})};
  HlCompiled *compiled[] = {
      hl_compile(b->cx, sessions[0], &(HlProgram){.module = b->m}, NULL),
      hl_compile(b->cx, sessions[1], &(HlProgram){.module = b->m}, &(HlCompileOptions){0})};
  hl_text_print(b->cx, hl_compiled_module(compiled[0]), NULL, &none);
  hl_text_print(b->cx, hl_compiled_module(compiled[1]), NULL, &zero);
  assert_same(&zero, &none);
  for (int k = 0; k < 2; k++) {
    assert_string_equal(hl_session_platform(sessions[k])->name, "reference");
    assert_non_null(hl_compiled_buffers(compiled[k]));
    hl_compiled_unref(compiled[k]);
    hl_session_free(sessions[k]);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(text),    TEST(a_switch_goes_over_the_preset),
      TEST(engine),  TEST(verify),
      TEST(buffers), TEST(compare),
      TEST(replay),  TEST(check_each),
      TEST(eval),    TEST(load),
      TEST(jaxprs),  TEST(mlir),
      TEST(view),    TEST(flags),
      TEST(dumper),  TEST(session),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
