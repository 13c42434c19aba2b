// The compile session: programs in several forms, what comes out, errors, dumps, and many compilations at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "hilo/session.h"
#include "hilo/text.h"

static const char program[] = "HloModule m, is_scheduled=false\n\n"
                              "ENTRY main {\n"
                              "  x = f32[8,4] parameter(0)\n"
                              "  y = f32[8,4] parameter(1)\n"
                              "  c = f32[] constant(1)\n"
                              "  ones = f32[8,4] broadcast(c), dimensions={}\n"
                              "  p = f32[8,4] multiply(x, ones)\n"
                              "  s = f32[8,4] add(p, y)\n"
                              "  e = f32[8,4] exponential(s)\n"
                              "  ROOT r = f32[8,4] subtract(e, x)\n"
                              "}\n";

static const char mlir[] = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                           "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n"
                           "  return %0 : tensor<4xf32>\n"
                           "}\n";

static HlSource *source_of(const char *text) {
  return hl_source_new("test", text, strlen(text), false);
}

static HlCompiled *compile_text(HlCx *cx, HlSession *session, const char *text,
                                const HlCompileOptions *options) {
  HlSource *source = source_of(text);
  HlCompiled *compiled = hl_compile(cx, session, &(HlProgram){.source = source}, options);
  hl_source_unref(source);
  return compiled;
}

static void assert_text(HlCx *cx, const HlModule *m, const char *part) {
  HlBuf out = {0};
  hl_text_print(cx, m, NULL, &out);
  if (!strstr(out.at, part))
    print_error("%s\n", out.at);
  assert_non_null(strstr(out.at, part));
  hl_buf_free(&out);
}

// --- What comes out ------------------------------------------------------------------------------

static void compiles_for_the_cpu(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "CPU"});
  assert_string_equal(hl_session_platform(session)->name, "cpu");
  HlCompiled *compiled = compile_text(cx, session, program, NULL);
  assert_non_null(compiled);
  hl_session_free(session);  // it is not needed any more
  const HlModule *m = hl_compiled_module(compiled);
  assert_true(m->is_scheduled);
  assert_text(cx, m, "kind=kLoop");
  const HlReport report = hl_compiled_report(compiled);
  assert_int_equal(report.before, 8);
  assert_int_equal(report.after, hl_count_instructions(m));
  assert_true(report.rewrites > 0 && report.changed > 0 && report.passes > report.changed);
  assert_int_equal(report.arguments, 256);
  assert_int_equal(report.results, 128);
  assert_int_equal(report.aliased, 0);
  assert_non_null(hl_compiled_buffers(compiled));
  const HlDevices devices = hl_compiled_devices(compiled);
  assert_int_equal(devices.replicas, 1);
  assert_int_equal(devices.partitions, 1);
  int64_t n;
  const HlRewrite *rewrites = hl_engine_rewrites(hl_compiled_engine(compiled), &n);
  assert_int_equal(n, report.rewrites);
  assert_non_null(rewrites[0].pass);
  assert_ptr_equal(hl_compiled_ref(compiled), compiled);
  hl_compiled_unref(compiled);
  assert_int_equal(hl_compiled_report(compiled).before, 8);
  hl_compiled_unref(compiled);
  hl_cx_free(cx);
}

static void programs_come_in_any_form(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, NULL);
  HlCompiled *compiled = compile_text(cx, session, mlir, NULL);
  assert_non_null(compiled);
  assert_text(cx, hl_compiled_module(compiled), "add(");
  assert_int_equal(hl_compiled_report(compiled).rewrites, 0);
  const HlModule *m = hl_compiled_module(compiled);
  HlCompiled *copied = hl_compile(cx, session, &(HlProgram){.module = m}, NULL);
  assert_non_null(copied);
  assert_ptr_not_equal(hl_compiled_module(copied), m);
  hl_compiled_unref(compiled);
  hl_compiled_unref(copied);
  HlModule *own = hl_text_parse(cx, program);
  compiled = hl_compile(cx, session, &(HlProgram){.take = own}, NULL);
  assert_int_equal(hl_compiled_report(compiled).before, 8);
  hl_compiled_unref(compiled);
  hl_session_free(session);
  hl_cx_free(cx);
}

static void one_of_several_is_picked(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, NULL);
  HlSource *two = source_of("HloModule a\nENTRY e { ROOT x = f32[] parameter(0) }\n// -----\n"
                            "HloModule b\nENTRY e { ROOT x = s32[] parameter(0) }\n");
  const char *const words[] = {"a", "b", "0", "1"};
  for (int k = 0; k < 4; k++) {
    const HlProgram which = {.source = two, .which = words[k]};
    HlCompiled *compiled = hl_compile(cx, session, &which, NULL);
    assert_non_null(compiled);
    assert_string_equal(hl_compiled_module(compiled)->name->text, words[k % 2]);
    hl_compiled_unref(compiled);
  }
  const char *const wrong[] = {"c", "2", "", NULL};
  for (int k = 0; k < 4; k++) {
    const HlProgram which = {.source = two, .which = wrong[k]};
    assert_null(hl_compile(cx, session, &which, NULL));
    assert_int_equal(hl_cx_n_errors(cx), k + 1);
  }
  hl_source_unref(two);
  hl_session_free(session);
  hl_cx_free(cx);
}

static void passes_and_stages(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  const HlPlatform *cpu = hl_platform_find("Host");
  assert_ptr_equal(hl_session_platform(session), cpu);
  HlCompiled *compiled = compile_text(cx, session, program, &(HlCompileOptions){.passes = "dce"});
  assert_text(cx, hl_compiled_module(compiled), "broadcast");
  assert_null(hl_compiled_buffers(compiled));  // it has no schedule
  hl_compiled_unref(compiled);
  const HlCompileOptions before_backend = {.stage = hl_stage_find(cpu, "hlo")};
  compiled = compile_text(cx, session, program, &before_backend);
  assert_text(cx, hl_compiled_module(compiled), "kind=kLoop");
  assert_false(hl_compiled_module(compiled)->is_scheduled);
  hl_compiled_unref(compiled);
  compiled = compile_text(cx, session, program,
                          &(HlCompileOptions){.engine = {.fuel = {true, 1}}, .no_buffers = true});
  assert_int_equal(hl_compiled_report(compiled).rewrites, 1);
  hl_compiled_unref(compiled);
  assert_null(hl_stage_find(cpu, "none"));
  assert_null(hl_platform_find("abacus"));
  hl_session_free(session);
  hl_cx_free(cx);
}

// --- Devices and interface -----------------------------------------------------------------------

static void devices_are_set(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, NULL);
  const int64_t ids[] = {3, 1, 0, 2};
  HlCompiled *compiled = compile_text(
      cx, session, program, &(HlCompileOptions){.replicas = 2, .partitions = 2, .devices = ids});
  const HlDevices devices = hl_compiled_devices(compiled);
  assert_int_equal(devices.replicas, 2);
  assert_int_equal(devices.partitions, 2);
  assert_memory_equal(devices.id, ids, sizeof ids);
  assert_int_equal(hl_compiled_module(compiled)->replica_count, 2);
  hl_compiled_unref(compiled);
  const HlCompileOptions many = {.replicas = INT64_MAX, .partitions = 2, .devices = ids};
  assert_null(compile_text(cx, session, program, &many));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_session_free(session);
  hl_cx_free(cx);
}

static void the_interface_is_set(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, NULL);
  HlArena *arena = hl_arena_new();
  HlShapes *shapes = hl_shapes_new(arena);
  const int64_t dim[] = {8, 4}, minor_to_major[] = {0, 1}, donated[] = {1};
  const HlLayout layout = {.minor_to_major = {minor_to_major, 2}};
  const HlShape *plain = hl_shape_array(shapes, HL_F32, 2, dim);
  const HlShape *column_major = hl_shape_with_layout(shapes, plain, &layout);
  const HlShape *params[] = {column_major, NULL};
  const HlCompileOptions options = {.param_layouts = params,
                                    .n_params = 2,
                                    .result_layout = column_major,
                                    .donated = {donated, 1}};
  HlCompiled *compiled = compile_text(cx, session, program, &options);
  assert_non_null(compiled);
  assert_text(cx, hl_compiled_module(compiled),
              "buffer_donor={ (1, {}) }, entry_computation_layout={(f32[8,4]{0,1}, "
              "f32[8,4]{1,0})->f32[8,4]{0,1}}");
  hl_compiled_unref(compiled);
  const HlShape *other = hl_shape_array(shapes, HL_F32, 1, dim);
  const HlCompileOptions wrong[] = {
      {.param_layouts = params, .n_params = 1}, {.result_layout = other}, {.donated = {dim, 1}}};
  for (int k = 0; k < HL_COUNT_OF(wrong); k++) {
    assert_null(compile_text(cx, session, program, &wrong[k]));
    assert_int_equal(hl_cx_n_errors(cx), k + 1);
    assert_non_null(hl_cx_diag(cx, k)->source);
  }
  hl_arena_free(arena);
  hl_session_free(session);
  hl_cx_free(cx);
}

static const char open_program[] = "HloModule m, num_partitions=2\n\n"
                                   "ENTRY main {\n"
                                   "  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
                                   "  y = f32[8] parameter(1)\n"
                                   "  ROOT s = f32[8] add(x, y)\n"
                                   "}\n";

// What is said in the options holds instead of the module's header, and either side alone leaves the other.
static void shardings_flow_where_they_may(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, NULL);
  const int64_t one[] = {1}, none[] = {0}, first[] = {1, 0}, second[] = {0, 1};
  const char *const split = "sharding={devices=[2]<=[2]}", *const whole = "sharding={replicated}";
  const struct {
    HlI64s to_parameters, to_output;
    const char *param, *result;
  } rows[] = {
      {{0}, {0}, whole, whole},
      {{0}, {one, 1}, whole, split},
      {{one, 1}, {none, 1}, whole, whole},
      {{one, 1}, {one, 1}, split, split},
      {{second, 2}, {one, 1}, split, split},
      {{first, 2}, {one, 1}, whole, split},
  };
  for (int k = 0; k < HL_COUNT_OF(rows); k++) {
    const HlCompileOptions options = {.passes = "sharding-propagation",
                                      .spmd_to_parameters = rows[k].to_parameters,
                                      .spmd_to_output = rows[k].to_output};
    HlCompiled *compiled = compile_text(cx, session, open_program, &options);
    assert_non_null(compiled);
    HlBuf param = {0}, result = {0};
    hl_buf_printf(&param, "parameter(1), %s", rows[k].param);
    hl_buf_printf(&result, "add(%%x, %%y), %s", rows[k].result);
    assert_text(cx, hl_compiled_module(compiled), param.at);
    assert_text(cx, hl_compiled_module(compiled), result.at);
    hl_buf_free(&param);
    hl_buf_free(&result);
    hl_compiled_unref(compiled);
  }
  const int64_t three[] = {1, 1, 1};
  const HlCompileOptions wrong[] = {{.spmd_to_parameters = {three, 3}},
                                    {.spmd_to_output = {three, 2}}};
  for (int k = 0; k < HL_COUNT_OF(wrong); k++) {
    assert_null(compile_text(cx, session, open_program, &wrong[k]));
    assert_int_equal(hl_cx_n_errors(cx), k + 1);
  }
  hl_session_free(session);
  hl_cx_free(cx);
}

// --- Errors, progress, dumps ---------------------------------------------------------------------

static void errors_are_located(void **state) {
  HlCx *cx = hl_cx_new();
  assert_null(hl_session_new(cx, &(HlSessionOptions){.platform = "abacus"}));
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "cpu, gpu, reference or transforms"));
  hl_cx_clear(cx);
  assert_null(
      hl_session_new(cx, &(HlSessionOptions){.flags = &(HlFlags){.xla_dump_hlo_pass_re = "("}}));
  assert_int_equal(hl_cx_n_errors(cx), 1);
  hl_cx_clear(cx);
  HlSession *session = hl_session_new(cx, NULL);
  assert_null(
      compile_text(cx, session, "HloModule m\nENTRY e {\n  ROOT x = f32[] parametr(0)\n}\n", NULL));
  const HlDiag *diag = hl_cx_diag(cx, 0);
  assert_int_equal(hl_source_line_col(diag->source, diag->loc).line, 3);
  hl_cx_clear(cx);
  const char *invalid = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
                        "  ROOT r = f32[3] negate(x)\n}\n";
  assert_null(compile_text(cx, session, invalid, &(HlCompileOptions){.verify = true}));
  diag = hl_cx_diag(cx, 0);
  assert_int_equal(hl_source_line_col(diag->source, diag->loc).line, 4);
  hl_cx_clear(cx);
  assert_null(hl_compile(cx, session, &(HlProgram){0}, NULL));
  assert_null(hl_compile(cx, session, &(HlProgram){.path = "/nowhere/at.all"}, NULL));
  assert_null(compile_text(cx, session, program, &(HlCompileOptions){.passes = "no-such-pass"}));
  assert_int_equal(hl_cx_n_errors(cx), 3);
  hl_session_free(session);
  hl_cx_free(cx);
}

typedef struct Seen {
  int last, of, phases[HL_PHASE_BUFFERS + 1];
} Seen;

static void look(void *user, const HlProgress *at) {
  Seen *seen = user;
  seen->phases[at->phase]++;
  if (at->phase != HL_PHASE_PASSES)
    return;
  assert_true(at->number >= 1 && at->number <= at->of && *at->pass);
  seen->last = at->number;
  seen->of = at->of;
}

static void progress_is_told(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  Seen seen = {0};
  HlCompiled *compiled =
      compile_text(cx, session, program, &(HlCompileOptions){.progress = look, .user = &seen});
  assert_int_equal(seen.phases[HL_PHASE_READ], 1);
  assert_int_equal(seen.phases[HL_PHASE_BUFFERS], 1);
  assert_true(seen.of > 20);
  assert_int_equal(seen.last, seen.of);
  hl_compiled_unref(compiled);
  hl_session_free(session);
  hl_cx_free(cx);
}

static bool is_there(const char *folder, const char *file) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  return access(path, R_OK) == 0;
}

static void dumps_are_numbered_by_the_session(void **state) {
  HlCx *cx = hl_cx_new();
  char folder[] = "/tmp/hilo-session-XXXXXX", command[64];
  const HlFlags flags = {.xla_dump_to = mkdtemp(folder), .xla_dump_hlo_pass_re = "fusion"};
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu", .flags = &flags});
  for (int k = 0; k < 2; k++)
    hl_compiled_unref(compile_text(cx, session, program, NULL));
  assert_null(compile_text(cx, session, "?", NULL));  // has no number
  hl_compiled_unref(compile_text(cx, session, program, &(HlCompileOptions){.no_dumps = true}));
  hl_compiled_unref(compile_text(cx, session, program, NULL));
  hl_session_free(session);
  assert_true(is_there(folder, "module_0000.m.before_optimizations.txt"));
  assert_true(is_there(folder, "module_0001.m.cpu_after_optimizations.txt"));
  assert_true(is_there(folder, "module_0001.m.cpu_after_optimizations-buffer-assignment.txt"));
  assert_true(is_there(folder, "module_0002.m.cpu_after_optimizations.txt"));
  assert_false(is_there(folder, "module_0003.m.before_optimizations.txt"));
  assert_true(is_there(folder, "hilo-index.jsonl"));
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  hl_cx_free(cx);
}

// --- Custom calls --------------------------------------------------------------------------------

static bool add_to(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                   HlLiteral *out) {
  hl_literal_set_f64(out, 0, hl_literal_f64(in[0], 0) + *(double *)user);
  return true;
}

static void custom_calls_are_the_sessions(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, NULL);
  double five = 5, seven = 7;
  hl_session_register(session, "mine", add_to, &seven);
  hl_session_register(session, "mine", add_to, &five);
  HlCompiled *compiled = compile_text(cx, session,
                                      "HloModule m\nENTRY e {\n c = f32[] constant(1)\n ROOT r = "
                                      "f32[] custom-call(c), custom_call_target=\"mine\"\n}\n",
                                      NULL);
  const HlLiteral *const *no_args[] = {NULL};
  HlLiteral *result;
  assert_true(hl_eval(cx, hl_compiled_module(compiled), NULL, no_args, &result));
  assert_true(hl_literal_f64(result, 0) == 6);
  hl_literal_unref(result);
  HlCx *other = hl_cx_new();
  assert_false(hl_eval(other, hl_compiled_module(compiled), NULL, no_args, &result));
  hl_session_bind(session, other);
  assert_true(hl_eval(other, hl_compiled_module(compiled), NULL, no_args, &result));
  hl_literal_unref(result);
  hl_cx_free(other);
  hl_compiled_unref(compiled);
  hl_session_free(session);
  hl_cx_free(cx);
}

// --- Many at once --------------------------------------------------------------------------------

enum { THREADS = 4, ROUNDS = 5 };

typedef struct Worker {
  HlSession *session;
  const HlCompiled *shared;
  HlBuf first, read;  // what it compiled, and what it read of the module that all share
  bool same;
} Worker;

static void *work(void *user) {
  Worker *w = user;
  HlCx *cx = hl_cx_new();
  w->same = true;
  for (int k = 0; k < ROUNDS; k++) {
    HlBuf text = {0};
    HlCompiled *compiled = compile_text(cx, w->session, program, NULL);
    hl_text_print(cx, hl_compiled_module(compiled), NULL, &text);
    if (hl_compiled_buffers(compiled))
      hl_buffers_print(&text, hl_compiled_buffers(compiled));
    hl_compiled_unref(compiled);
    if (k == 0)
      hl_buf_add(&w->first, text.at, text.n);
    w->same = w->same && text.n == w->first.n && memcmp(text.at, w->first.at, text.n) == 0;
    hl_buf_free(&text);
  }
  hl_text_print(cx, hl_compiled_module(w->shared), NULL, &w->read);
  hl_cx_free(cx);
  return NULL;
}

static void threads_compile_at_once(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  HlCompiled *shared = compile_text(cx, session, program, NULL);
  Worker worker[THREADS] = {{0}};
  pthread_t thread[THREADS];
  for (int k = 0; k < THREADS; k++) {
    worker[k] = (Worker){.session = session, .shared = shared};
    assert_int_equal(pthread_create(&thread[k], NULL, work, &worker[k]), 0);
  }
  for (int k = 0; k < THREADS; k++)
    assert_int_equal(pthread_join(thread[k], NULL), 0);
  for (int k = 0; k < THREADS; k++) {
    assert_true(worker[k].same);
    assert_string_equal(worker[k].first.at, worker[0].first.at);
    assert_string_equal(worker[k].read.at, worker[0].read.at);
  }
  for (int k = 0; k < THREADS; k++) {
    hl_buf_free(&worker[k].first);
    hl_buf_free(&worker[k].read);
  }
  hl_compiled_unref(shared);
  hl_session_free(session);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiles_for_the_cpu),
      cmocka_unit_test(programs_come_in_any_form),
      cmocka_unit_test(one_of_several_is_picked),
      cmocka_unit_test(passes_and_stages),
      cmocka_unit_test(devices_are_set),
      cmocka_unit_test(the_interface_is_set),
      cmocka_unit_test(shardings_flow_where_they_may),
      cmocka_unit_test(errors_are_located),
      cmocka_unit_test(progress_is_told),
      cmocka_unit_test(dumps_are_numbered_by_the_session),
      cmocka_unit_test(custom_calls_are_the_sessions),
      cmocka_unit_test(threads_compile_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
