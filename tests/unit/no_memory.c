// Running out of memory ends the call, not the process: for every n, the n-th request for memory of a call is
// refused (and in a second round all from the n-th on). The call must then return an error, leave what there was before
// as it was and nothing of its own (the sanitized build of this test counts the leaks), and work when called again.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/cpu.h"
#include "hilo/eval.h"
#include "hilo/mlir.h"
#include "hilo/opt.h"
#include "hilo/pass.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "hilo/verify.h"

static const char program[] =
    "HloModule small, entry_computation_layout={(f32[4,4]{1,0}, f32[4]{0})->(f32[4,4]{1,0}, f32[], "
    "s32[])}\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n"
    "  %b = f32[] parameter(1)\n"
    "  ROOT %add.1 = f32[] add(%a, %b)\n"
    "}\n"
    "%goes_on (s: (s32[], f32[4,4])) -> pred[] {\n"
    "  %s = (s32[], f32[4,4]) parameter(0)\n"
    "  %i = s32[] get-tuple-element(%s), index=0\n"
    "  %limit = s32[] constant(3)\n"
    "  ROOT %less = pred[] compare(%i, %limit), direction=LT\n"
    "}\n"
    "%body (t: (s32[], f32[4,4])) -> (s32[], f32[4,4]) {\n"
    "  %t = (s32[], f32[4,4]) parameter(0)\n"
    "  %i.1 = s32[] get-tuple-element(%t), index=0\n"
    "  %one = s32[] constant(1)\n"
    "  %next = s32[] add(%i.1, %one)\n"
    "  %x.1 = f32[4,4] get-tuple-element(%t), index=1\n"
    "  %zero.1 = f32[] constant(0)\n"
    "  %zeros = f32[4,4] broadcast(%zero.1), dimensions={}\n"
    "  %y.1 = f32[4,4] add(%x.1, %zeros)\n"
    "  %product = f32[4,4] dot(%y.1, %x.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT %out = (s32[], f32[4,4]) tuple(%next, %product)\n"
    "}\n"
    "ENTRY %main (x: f32[4,4], v: f32[4]) -> (f32[4,4], f32[], s32[]) {\n"
    "  %x = f32[4,4] parameter(0)\n"
    "  %v = f32[4] parameter(1)\n"
    "  %start = s32[] constant(0)\n"
    "  %init = (s32[], f32[4,4]) tuple(%start, %x)\n"
    "  %loop = (s32[], f32[4,4]) while(%init), condition=%goes_on, body=%body\n"
    "  %result = f32[4,4] get-tuple-element(%loop), index=1\n"
    "  %two = f32[4] constant({1, 2.5, -3e-5, nan})\n"
    "  %w = f32[4] multiply(%v, %two)\n"
    "  %rows = f32[4,4] broadcast(%w), dimensions={1}\n"
    "  %e = f32[4,4] exponential(%rows)\n"
    "  %z = f32[4,4] subtract(%result, %e)\n"
    "  %zero = f32[] constant(0)\n"
    "  %total = f32[] reduce(%z, %zero), dimensions={0,1}, to_apply=%sum, "
    "metadata={op_name=\"total\"}\n"
    "  %c = s32[] constant(20)\n"
    "  %d = s32[] multiply(%c, %c)\n"
    "  ROOT %r = (f32[4,4], f32[], s32[]) tuple(%z, %total, %d)\n"
    "}\n";

static const char devices[] =
    "HloModule devices, num_partitions=2\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n"
    "  %b = f32[] parameter(1)\n"
    "  ROOT %add.1 = f32[] add(%a, %b)\n"
    "}\n"
    "ENTRY %main (x: f32[8]) -> f32[8] {\n"
    "  %x = f32[8] parameter(0)\n"
    "  %all = f32[8] all-reduce(%x), channel_id=1, replica_groups={{0,1}}, "
    "use_global_device_ids=true, to_apply=%sum\n"
    "  %moved = f32[8] collective-permute(%all), channel_id=2, source_target_pairs={{0,1},{1,0}}\n"
    "  ROOT %twice = f32[8] add(%moved, %moved)\n"
    "}\n";

static const char stable[] =
    "module @jit {\n"
    "  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {\n"
    "    %0 = stablehlo.constant dense<[1.5, 2.0, -3.0e-1]> : tensor<3xf32>\n"
    "    %1 = call @more(%arg0, %0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>\n"
    "    return %1 : tensor<3xf32>\n"
    "  }\n"
    "  func.func private @more(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {\n"
    "    %0 = stablehlo.add %a, %b : tensor<3xf32> loc(\"here\")\n"
    "    %1 = stablehlo.sine %0 : tensor<3xf32>\n"
    "    return %1 : tensor<3xf32>\n"
    "  }\n"
    "}\n";

// --- Failing at every place ------------------------------------------------------------------------

// One call: what is made ready before (NULL: false), the call, and what is freed after, whether or not it failed.
typedef struct Scene {
  const char *name;
  HlWork *ready, *call;
  void (*after)(struct Scene *s);
  bool alone;  // the call is a function that tries by itself
  const char *text;
  HlSource *source;
  HlModule *m;
  HlEngine *engine;
  HlLiteral *args[4], *results[2];
  HlBuf out;
} Scene;

static bool attempt(HlCx *cx, Scene *s, int64_t which) {
  s->source = hl_source_new(s->name, s->text, strlen(s->text), false);
  s->m = NULL;
  s->engine = NULL;
  memset(s->args, 0, sizeof s->args);
  memset(s->results, 0, sizeof s->results);
  hl_buf_puts(&s->out, "before");
  hl_cx_limits(cx)->fail_allocation = 0;
  if (s->ready && !s->ready(cx, s))
    fail_msg("%s: cannot be made ready", s->name);
  const bool had = s->m != NULL;
  hl_cx_limits(cx)->fail_allocation = which;
  const bool ok = s->alone ? s->call(cx, s) : hl_try(cx, s->call, s);
  if (!ok && !had)
    s->m = NULL;
  if (!ok)
    memset(s->results, 0, sizeof s->results);
  if (s->after)
    s->after(s);
  assert_memory_equal(s->out.at, "before", 6);
  hl_buf_free(&s->out);
  for (int k = 0; k < 4; k++)
    hl_literal_unref(s->args[k]);
  for (int k = 0; k < 2; k++)
    hl_literal_unref(s->results[k]);
  hl_engine_free(s->engine);
  hl_module_free(s->m);
  hl_source_unref(s->source);
  return ok;
}

// Of several devices the one that lacks memory need not be the first to say something.
static bool says_limit(const HlCx *cx) {
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    if (hl_cx_diag(cx, k)->kind == HL_LIMIT)
      return true;
  return false;
}

// How many requests there are, each refused in turn.
static int fail_each(Scene *s) {
  HlCx *cx = hl_cx_new();
  int64_t n = 1;
  for (;; n++) {
    const bool ok = attempt(cx, s, n);
    if (hl_cx_limits(cx)->fail_allocation > 0) {  // there are fewer
      assert_true(ok);
      break;
    }
    if (ok || !says_limit(cx))
      fail_msg("%s: request %lld is refused and nobody says so", s->name, (long long)n);
    hl_cx_clear(cx);
  }
  for (int64_t k = 1; k < n; k += 1 + n / 500) {
    if (attempt(cx, s, -k))
      fail_msg("%s: all requests from %lld on are refused and nobody says so", s->name,
               (long long)k);
    assert_true(says_limit(cx));
    hl_cx_clear(cx);
  }
  hl_cx_limits(cx)->fail_allocation = 0;
  assert_true(attempt(cx, s, 0));
  hl_cx_free(cx);
  printf("%s: %lld requests refused\n", s->name, (long long)n - 1);
  return (int)n - 1;
}

// --- Reading, verifying, printing --------------------------------------------------------------------

static bool read_text(HlCx *cx, void *user) {
  Scene *s = user;
  HlModule **modules;
  int n;
  if (!hl_text_read(cx, s->source, &modules, &n))
    return false;
  s->m = modules[0];
  hl_free(modules);
  return true;
}

static bool verify_and_print(HlCx *cx, void *user) {
  Scene *s = user;
  if (!read_text(cx, s) || !hl_verify(cx, s->m, NULL))
    return false;
  hl_text_print(cx, s->m, NULL, &s->out);
  return true;
}

static void reads_verifies_prints(void **state) {
  assert_true(fail_each(&(Scene){"text", .call = verify_and_print, .text = program}) > 5);
}

// Diagnostics that were reported before stay, with their source.
static bool read_bad_text(HlCx *cx, void *user) {
  Scene *s = user;
  s->m = NULL;
  if (read_text(cx, s))
    return true;
  hl_arena_alloc(hl_cx_scratch(cx), 100000);
  return true;
}

static void what_was_said_stays(void **state) {
  static const char bad[] = "HloModule m\nENTRY main {\n  ROOT x = f32[] ad()\n}\n";
  HlCx *cx = hl_cx_new();
  for (int64_t n = 1;; n++) {
    Scene s = {"bad", .call = read_bad_text, .text = bad};
    const bool ok = attempt(cx, &s, n);
    HlBuf said = {0};
    for (int k = 0; k < hl_cx_n_diags(cx); k++)
      hl_diag_render(hl_cx_diag(cx, k), false, &said);
    assert_true(hl_cx_n_errors(cx) > 0);
    assert_true(strstr(said.at, ok ? "unknown op" : "out of memory") != NULL);
    hl_buf_free(&said);
    hl_cx_clear(cx);
    if (hl_cx_limits(cx)->fail_allocation > 0)
      break;
  }
  hl_cx_free(cx);
}

// --- Running -----------------------------------------------------------------------------------------

static HlLiteral *filled(HlCx *cx, const HlShape *shape) {
  HlLiteral *literal = hl_literal_new(cx, shape);
  for (int64_t k = 0; k < literal->n; k++)
    hl_literal_set_f64(literal, k, 0.125 * (double)k);
  return literal;
}

static bool ready_to_run(HlCx *cx, void *user) {
  Scene *s = user;
  if (!read_text(cx, s))
    return false;
  for (int k = 0; k < s->m->entry->n_params; k++)
    s->args[k] = filled(cx, s->m->entry->params[k]->shape);
  return true;
}

static bool run(HlCx *cx, void *user) {
  Scene *s = user;
  const HlLiteral *const args[] = {s->args[0], s->args[1]};
  const HlLiteral *const *const both[] = {args, args};
  return hl_eval(cx, s->m, NULL, both, s->results);
}

static void args_are_ours_alone(Scene *s) {
  for (int k = 0; k < 4; k++)
    if (s->args[k] && !s->results[0])
      assert_int_equal(s->args[k]->refs, 1);
}

static void runs(void **state) {
  assert_true(fail_each(&(Scene){"run", ready_to_run, run, args_are_ours_alone, .text = program}) >
              20);
  assert_true(
      fail_each(&(Scene){"devices", ready_to_run, run, args_are_ours_alone, .text = devices}) > 20);
}

// --- Passes ------------------------------------------------------------------------------------------

static bool optimize(HlCx *cx, HlModule *m, const char *pipeline) {
  HlEngineOptions options = {
      .passes = &hl_passes, .pipelines = &hl_pipelines, .target = hl_target_find(pipeline)};
  HlEngine *engine = hl_engine_new(cx, &options);
  const bool ok = engine && hl_engine_run(engine, m, pipeline);
  hl_engine_free(engine);
  return ok;
}

static bool optimize_cpu(HlCx *cx, void *user) {
  return optimize(cx, ((Scene *)user)->m, "cpu");
}

static bool optimize_gpu(HlCx *cx, void *user) {
  return optimize(cx, ((Scene *)user)->m, "gpu");
}

// The module was there before; after a failure it can be freed, and that is all.
static void passes(void **state) {
  assert_true(fail_each(&(Scene){"cpu", read_text, optimize_cpu, NULL, .text = program}) > 50);
  assert_true(fail_each(&(Scene){"gpu", read_text, optimize_gpu, NULL, .text = program}) > 50);
}

// --- Programs for the processor -------------------------------------------------------------------------

static bool ready_to_compile(HlCx *cx, void *user) {
  return ready_to_run(cx, user) && optimize_cpu(cx, user);
}

// Without machine code, which is done without where there is no memory for it.
static bool compile_and_run(HlCx *cx, void *user) {
  Scene *s = user;
  const HlLiteral *const args[] = {s->args[0], s->args[1]};
  const HlLiteral *const *const one[] = {args};
  HlCpuProgram *made = hl_cpu_new(cx, s->m, &(HlCpuOptions){.no_emit = true, .threads = 1});
  const bool ok = made && hl_cpu_run(cx, made, NULL, one, s->results);
  hl_cpu_unref(made);
  return ok;
}

static void programs(void **state) {
  assert_true(fail_each(&(Scene){"cpu program", ready_to_compile, compile_and_run,
                                 args_are_ours_alone, .text = program}) > 20);
  assert_true(fail_each(&(Scene){"hl_cpu_new, hl_cpu_run", ready_to_compile, compile_and_run,
                                 args_are_ours_alone, .alone = true, .text = program}) > 20);
}

// --- Functions that try by themselves -------------------------------------------------------------------

static bool ready_engine(HlCx *cx, void *user) {
  Scene *s = user;
  HlEngineOptions options = {
      .passes = &hl_passes, .pipelines = &hl_pipelines, .target = hl_target_find("cpu")};
  s->engine = hl_engine_new(cx, &options);
  return s->engine && read_text(cx, s);
}

static bool run_engine(HlCx *cx, void *user) {
  Scene *s = user;
  return hl_engine_run(s->engine, s->m, "cpu");
}

static void entries_try_by_themselves(void **state) {
  assert_true(
      fail_each(&(Scene){"hl_text_read", .call = read_text, .alone = true, .text = program}) > 20);
  assert_true(fail_each(&(Scene){"hl_eval", ready_to_run, run, args_are_ours_alone, .alone = true,
                                 .text = program}) > 20);
  assert_true(fail_each(&(Scene){"hl_engine_run", ready_engine, run_engine, .alone = true,
                                 .text = program}) > 50);
}

// --- Other formats -------------------------------------------------------------------------------------

static bool write_proto(HlCx *cx, void *user) {
  Scene *s = user;
  HlBuf proto = {0};
  if (!hl_proto_write(cx, s->m, HL_PROTO_MODULE, false, NULL, &proto))
    return false;
  HlSource *source = hl_source_take("proto", &proto, true);
  HlModule *m = hl_proto_read(cx, source, NULL);
  hl_source_unref(source);
  if (m)
    hl_text_print(cx, m, NULL, &s->out);
  hl_module_free(m);
  return m != NULL;
}

static void protos(void **state) {
  assert_true(fail_each(&(Scene){"proto", read_text, write_proto, NULL, .text = program}) > 5);
}

static bool read_mlir(HlCx *cx, void *user) {
  Scene *s = user;
  HlMlTree **trees;
  int n;
  if (!hl_ml_text_read(cx, s->source, &trees, &n))
    return false;
  HlMlTree *tree = trees[0];
  hl_free(trees);
  HlBuf bytes = {0};
  bool ok = hl_ml_artifact_write(cx, tree, HL_ML_NEWEST, &bytes);
  HlSource *artifact = hl_source_take("artifact", &bytes, true);
  HlMlTree *again = ok ? hl_ml_bytecode_read(cx, artifact) : NULL;
  hl_source_unref(artifact);
  if (again)
    hl_ml_text_print(again, &(HlMlTextOptions){.locations = true}, &s->out);
  s->m = again ? hl_ml_to_hlo(cx, again, NULL) : NULL;
  hl_ml_free(again);
  hl_ml_free(tree);
  return s->m != NULL;
}

static void mlir(void **state) {
  assert_true(fail_each(&(Scene){"mlir", .call = read_mlir, .text = stable}) > 20);
}

// --- Without a try ----------------------------------------------------------------------------------------

static jmp_buf from_handler;
static size_t lacking;

static void handle(size_t size) {
  lacking = size;
  longjmp(from_handler, 1);
}

static void the_embedder_is_asked(void **state) {
  HlArena *arena = hl_arena_new();
  hl_set_out_of_memory(handle);
  if (setjmp(from_handler) == 0) {
    hl_arena_alloc(arena, SIZE_MAX / 2 - 100);
    fail_msg("that much memory there is not");
  }
  hl_set_out_of_memory(NULL);
  assert_true(lacking == SIZE_MAX / 2 - 100);
  hl_arena_free(arena);
}

static bool ask_for_all(HlCx *cx, void *user) {
  hl_arena_alloc(user, SIZE_MAX / 2 - 100);
  return true;
}

static void a_try_within_a_try_is_part_of_it(void **state) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  assert_false(hl_try(cx, ask_for_all, arena));
  assert_int_equal(hl_cx_n_diags(cx), 1);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "out of memory: the system gave no 922337"));
  hl_arena_free(arena);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_verifies_prints),
      cmocka_unit_test(what_was_said_stays),
      cmocka_unit_test(protos),
      cmocka_unit_test(mlir),
      cmocka_unit_test(runs),
      cmocka_unit_test(passes),
      cmocka_unit_test(programs),
      cmocka_unit_test(entries_try_by_themselves),
      cmocka_unit_test(the_embedder_is_asked),
      cmocka_unit_test(a_try_within_a_try_is_part_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
