// Cancelling: work that is not wanted any more ends with an error of its own, wherever it stands, and leaves nothing behind
// (the sanitized build of this test counts the leaks).
//
//   unit_cancel --measure FILE [PLATFORM]    the longest times between two looks, and where they were, while FILE is read,
//                                            compiled, printed and, without a platform of its own, run
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "hilo/session.h"
#include "hilo/text.h"
#include "hilo/verify.h"

static const char program[] =
    "HloModule small\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n"
    "  %b = f32[] parameter(1)\n"
    "  ROOT %add.1 = f32[] add(%a, %b)\n"
    "}\n"
    "%goes_on (s: (s32[], f32[64,64])) -> pred[] {\n"
    "  %s = (s32[], f32[64,64]) parameter(0)\n"
    "  %i = s32[] get-tuple-element(%s), index=0\n"
    "  %limit = s32[] constant(3)\n"
    "  ROOT %less = pred[] compare(%i, %limit), direction=LT\n"
    "}\n"
    "%body (t: (s32[], f32[64,64])) -> (s32[], f32[64,64]) {\n"
    "  %t = (s32[], f32[64,64]) parameter(0)\n"
    "  %i.1 = s32[] get-tuple-element(%t), index=0\n"
    "  %one = s32[] constant(1)\n"
    "  %next = s32[] add(%i.1, %one)\n"
    "  %x.1 = f32[64,64] get-tuple-element(%t), index=1\n"
    "  %zero.1 = f32[] constant(0)\n"
    "  %zeros = f32[64,64] broadcast(%zero.1), dimensions={}\n"
    "  %y.1 = f32[64,64] add(%x.1, %zeros)\n"
    "  %product = f32[64,64] dot(%y.1, %x.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT %out = (s32[], f32[64,64]) tuple(%next, %product)\n"
    "}\n"
    "ENTRY %main (x: f32[64,64], v: f32[64]) -> (f32[64,64], f32[], s32[]) {\n"
    "  %x = f32[64,64] parameter(0)\n"
    "  %v = f32[64] parameter(1)\n"
    "  %start = s32[] constant(0)\n"
    "  %init = (s32[], f32[64,64]) tuple(%start, %x)\n"
    "  %loop = (s32[], f32[64,64]) while(%init), condition=%goes_on, body=%body\n"
    "  %result = f32[64,64] get-tuple-element(%loop), index=1\n"
    "  %rows = f32[64,64] broadcast(%v), dimensions={1}\n"
    "  %e = f32[64,64] exponential(%rows)\n"
    "  %z = f32[64,64] subtract(%result, %e)\n"
    "  %sorted = f32[64,64] transpose(%z), dimensions={1,0}\n"
    "  %zero = f32[] constant(0)\n"
    "  %total = f32[] reduce(%sorted, %zero), dimensions={0,1}, to_apply=%sum\n"
    "  %c = s32[] constant(20)\n"
    "  %d = s32[] multiply(%c, %c)\n"
    "  ROOT %r = (f32[64,64], f32[], s32[]) tuple(%z, %total, %d)\n"
    "}\n";

static const char devices[] =
    "HloModule devices, num_partitions=2\n"
    "%sum (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n"
    "  %b = f32[] parameter(1)\n"
    "  ROOT %add.1 = f32[] add(%a, %b)\n"
    "}\n"
    "ENTRY %main (x: f32[64]) -> f32[64] {\n"
    "  %x = f32[64] parameter(0)\n"
    "  %all = f32[64] all-reduce(%x), channel_id=1, replica_groups={{0,1}}, "
    "use_global_device_ids=true, to_apply=%sum\n"
    "  %moved = f32[64] collective-permute(%all), channel_id=2, "
    "source_target_pairs={{0,1},{1,0}}\n"
    "  ROOT %twice = f32[64] add(%moved, %moved)\n"
    "}\n";

// A batch of matrices for LAPACK, and rows for kernels of calls. Each of them has many looks of its own.
static const char lapack[] =
    "HloModule lapack\n"
    "ENTRY %main (x: f32[64,8,8]) -> (f32[64,8,8], s32[64,8], s32[64]) {\n"
    "  %x = f32[64,8,8] parameter(0)\n"
    "  ROOT %lu = (f32[64,8,8], s32[64,8], s32[64]) custom-call(%x), "
    "custom_call_target=\"lapack_sgetrf_ffi\", api_version=API_VERSION_TYPED_FFI\n"
    "}\n";
static const char sort[] =
    "HloModule sort\n"
    "ENTRY %main (x: f32[4096]) -> (f32[4096], u8[0]) {\n"
    "  %x = f32[4096] parameter(0)\n"
    "  ROOT %s = (f32[4096], u8[0]) custom-call(%x), custom_call_target=\"__cub$DeviceRadixSort\", "
    "backend_config={\"descending\":false}\n"
    "}\n";
static const char norm[] =
    "HloModule norm\n"
    "ENTRY %main (x: f32[16,512,1,1], s: f32[1,512,1,1], b: f32[1,512,1,1]) -> "
    "(f32[16,512,1,1], u8[0]) {\n"
    "  %x = f32[16,512,1,1] parameter(0)\n"
    "  %s = f32[1,512,1,1] parameter(1)\n"
    "  %b = f32[1,512,1,1] parameter(2)\n"
    "  ROOT %n = (f32[16,512,1,1], u8[0]) custom-call(%x, %s, %b), "
    "custom_call_target=\"__cudnn$norm\"\n"
    "}\n";

// --- At every look -------------------------------------------------------------------------------

// Says stop at the look of this number, from 1; 0: never. Counts them.
typedef struct Stop {
  int64_t at, looks;
} Stop;

static bool is_time(void *user) {
  Stop *stop = user;
  return ++stop->looks == stop->at;
}

// The call; what it makes is freed there.
typedef bool Call(HlCx *cx, void *user);

static bool says_cancelled(const HlCx *cx) {
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    if (hl_cx_diag(cx, k)->kind == HL_CANCELLED)
      return strcmp(hl_cx_diag(cx, k)->text, "cancelled") == 0;
  return false;
}

// Cancels it at each of the first looks, and at many later ones. How many there are.
static int64_t cancel_often(const char *name, Call *call, void *user) {
  HlCx *cx = hl_cx_new();
  Stop stop = {0};
  // The context keeps memory that later calls need not ask for.
  assert_true(hl_try(cx, call, user));
  hl_cx_set_poll(cx, is_time, &stop);
  assert_true(hl_try(cx, call, user));  // the context's arenas grow: that takes looks of its own
  stop = (Stop){0};
  assert_true(hl_try(cx, call, user));
  const int64_t looks = stop.looks;
  int cancelled = 0;
  for (int64_t k = 1; k <= looks; k += 1 + k / 20) {
    stop = (Stop){.at = k};
    const bool ok = hl_try(cx, call, user);
    if (ok || !says_cancelled(cx) || !hl_cx_is_cancelled(cx))
      fail_msg("%s: cancelled at look %lld of %lld, and nobody says so", name, (long long)k,
               (long long)looks);
    assert_true(stop.looks >= k);
    assert_false(hl_try(cx, call, user));  // and not again before it is taken back
    hl_cx_resume(cx);
    hl_cx_clear(cx);
    cancelled++;
  }
  stop = (Stop){0};
  assert_true(hl_try(cx, call, user));
  hl_cx_free(cx);
  printf("%s: %lld looks, cancelled at %d of them\n", name, (long long)looks, cancelled);
  assert_true(cancelled > 20);
  return looks;
}

static bool compile_it(HlCx *cx, void *user) {
  HlSource *source = hl_source_new("test", program, strlen(program), false);
  HlCompiled *compiled = hl_compile(cx, user, &(HlProgram){.source = source}, NULL);
  hl_source_unref(source);
  hl_compiled_unref(compiled);
  return compiled != NULL;
}

static void compiling(void **state) {
  HlCx *cx = hl_cx_new();
  const char *const platforms[] = {"cpu", "gpu"};
  for (int k = 0; k < 2; k++) {
    HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = platforms[k]});
    cancel_often(platforms[k], compile_it, session);
    hl_session_free(session);
  }
  hl_cx_free(cx);
}

static bool read_and_print(HlCx *cx, void *user) {
  HlBuf text = {0};
  HlModule *m = hl_text_parse(cx, user);
  const bool ok = m && hl_verify(cx, m, NULL);
  if (ok)
    hl_text_print(cx, m, NULL, &text);
  hl_buf_free(&text);
  hl_module_free(m);
  return ok;
}

// Reading and printing look every so many instructions.
static void reading_and_printing(void **state) {
  HlBuf text = {0};
  hl_buf_puts(
      &text, "HloModule chain\nENTRY %main (x.0: f32[]) -> f32[] {\n  %x.0 = f32[] parameter(0)\n");
  for (int k = 1; k < 2000; k++)
    hl_buf_printf(&text, "  %%x.%d = f32[] negate(%%x.%d)\n", k, k - 1);
  hl_buf_puts(&text, "  ROOT %r = f32[] copy(%x.1999)\n}\n");
  cancel_often("text", read_and_print, text.at);
  hl_buf_free(&text);
}

static bool run_it(HlCx *cx, void *user) {
  HlLiteral *args[3] = {0}, *results[3] = {0};
  const HlModule *m = user;
  bool ok = hl_fake_args(cx, m, 1, args);
  const HlLiteral *const *const both[] = {(const HlLiteral *const *)args,
                                          (const HlLiteral *const *)args};
  ok = ok && hl_eval(cx, m, NULL, both, results);
  for (int k = 0; k < 3; k++) {
    hl_literal_unref(args[k]);
    hl_literal_unref(results[k]);
  }
  return ok;
}

static int64_t run_often(const char *text) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, text);
  assert_non_null(m);
  const int64_t looks = cancel_often(m->name->text, run_it, m);
  hl_module_free(m);
  hl_cx_free(cx);
  return looks;
}

static void running(void **state) {
  run_often(program);
  run_often(devices);
}

static bool has_lapack(void) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, lapack);
  assert_non_null(m);
  const bool has = run_it(cx, m);
  if (!has)
    assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "needs the LAPACK library"));
  hl_module_free(m);
  hl_cx_free(cx);
  return has;
}

// Within one instruction: the looks of its own are far more than those of the interpreter around it.
static void running_calls(void **state) {
  assert_true(run_often(sort) > 150);  // the interpreter around it: 9
  assert_true(run_often(norm) > 100);
  if (!has_lapack())
    skip();
  assert_true(run_often(lapack) > 128);  // to and fro for each matrix
}

// What was dumped before stays.
static void dumps_stay(void **state) {
  HlCx *cx = hl_cx_new();
  char folder[] = "/tmp/hilo-cancel-XXXXXX", path[128], command[64];
  const HlFlags flags = {.xla_dump_to = mkdtemp(folder), .xla_dump_hlo_pass_re = ".*"};
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu", .flags = &flags});
  Stop stop = {.at = 300};
  hl_cx_set_poll(cx, is_time, &stop);
  assert_false(hl_try(cx, compile_it, session));
  assert_true(says_cancelled(cx));
  snprintf(path, sizeof path, "%s/module_0000.small.before_optimizations.txt", folder);
  HlCx *other = hl_cx_new();
  HlFile file;
  assert_true(hl_load(other, path, NULL, &file));
  assert_string_equal(file.modules[0]->name->text, "small");
  hl_file_free(&file);
  hl_cx_free(other);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  hl_session_free(session);
  hl_cx_free(cx);
}

// --- What is given away, and flags of other threads ------------------------------------------------

static void what_is_given_away_is_freed(void **state) {
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  int cancelled = 0;
  for (int64_t k = 1;; k += 1 + k / 5) {
    Stop stop = {.at = k};
    HlModule *m = hl_text_parse(cx, program);
    hl_cx_set_poll(cx, is_time, &stop);
    HlCompiled *compiled = hl_compile(cx, session, &(HlProgram){.take = m}, NULL);
    hl_cx_set_poll(cx, NULL, NULL);
    hl_compiled_unref(compiled);
    if (compiled)
      break;
    assert_true(says_cancelled(cx));
    hl_cx_resume(cx);
    hl_cx_clear(cx);
    cancelled++;
  }
  assert_true(cancelled > 10);
  hl_session_free(session);
  hl_cx_free(cx);
}

static void without_a_try_nobody_looks(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, program);
  hl_cx_cancel(cx);
  HlModule *copy = hl_clone(cx, m);
  assert_non_null(copy);
  hl_module_free(copy);
  hl_module_free(m);
  assert_true(hl_cx_is_cancelled(cx));
  assert_int_equal(hl_cx_n_errors(cx), 0);
  HlSession *session = hl_session_new(cx, NULL);
  assert_null(hl_compile(cx, session, &(HlProgram){.path = "/nowhere"}, NULL));
  assert_int_equal(hl_cx_error_kind(cx), HL_CANCELLED);
  hl_session_free(session);
  hl_cx_free(cx);
}

// --- Measuring -----------------------------------------------------------------------------------

enum { LONGEST = 8 };

typedef struct Gap {
  double seconds;
  const char *phase;
  char pass[64];
} Gap;

typedef struct Watch {
  HlCx *cx;
  double last, total;
  int64_t looks;
  const char *phase;
  char pass[64];
  Gap longest[LONGEST];
} Watch;

// Of this thread alone: the machine may be busy with other things.
static double seconds_worked(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool note_gap(void *user) {
  Watch *w = user;
  const double now = seconds_worked(), gap = now - w->last;
  int k = LONGEST - 1;
  w->looks++;
  if (gap > w->longest[k].seconds) {
    for (; k > 0 && w->longest[k - 1].seconds < gap; k--)
      w->longest[k] = w->longest[k - 1];
    w->longest[k] = (Gap){.seconds = gap, .phase = w->phase};
    memcpy(w->longest[k].pass, w->pass, sizeof w->pass);
  }
  w->last = seconds_worked();
  return false;
}

static void note_pass(void *user, const HlProgress *at) {
  Watch *w = user;
  w->phase = at->phase == HL_PHASE_READ     ? "reading"
             : at->phase == HL_PHASE_PASSES ? "passes"
                                            : "buffers";
  snprintf(w->pass, sizeof w->pass, "%s", at->pass ? at->pass : "");
}

static void note_inst(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Watch *w = user;
  snprintf(w->pass, sizeof w->pass, "after %s", hl_op_info[inst->op].text);
}

static bool run_all(HlCx *cx, Watch *w, const HlModule *m) {
  const HlEvalOptions options = {.trace = note_inst, .user = w};
  HlLiteral **args = calloc((size_t)m->entry->n_params + 1, sizeof *args), *result = NULL;
  w->phase = "inputs";
  *w->pass = 0;
  bool ok = hl_fake_args(cx, m, 1, args);
  const HlLiteral *const *const all[] = {(const HlLiteral *const *)args};
  w->phase = "running";
  ok = ok && hl_eval(cx, m, &options, all, &result);
  for (int k = 0; k < m->entry->n_params; k++)
    hl_literal_unref(args[k]);
  free(args);
  hl_literal_unref(result);
  return ok;
}

typedef struct Measured {
  Watch watch;
  const char *path, *platform;
} Measured;

static bool measured_work(HlCx *cx, void *user) {
  Measured *what = user;
  Watch *w = &what->watch;
  HlBuf text = {0};
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = what->platform});
  HlCompiled *compiled =
      hl_compile(cx, session, &(HlProgram){.path = what->path},
                 &(HlCompileOptions){.verify = true, .progress = note_pass, .user = w});
  if (!compiled)
    return false;
  w->phase = "printing";
  *w->pass = 0;
  hl_text_print(cx, hl_compiled_module(compiled), NULL, &text);
  hl_buf_free(&text);
  const bool ok = what->platform || run_all(cx, w, hl_compiled_module(compiled));
  hl_compiled_unref(compiled);
  hl_session_free(session);
  return ok;
}

static int measure(const char *path, const char *platform) {
  HlCx *cx = hl_cx_new();
  const double start = seconds_worked();
  Measured what = {{.cx = cx, .last = seconds_worked(), .phase = "start"}, path, platform};
  hl_cx_set_poll(cx, note_gap, &what.watch);
  const bool ok = hl_try(cx, measured_work, &what);
  printf("%s: %lld looks in %.3f s\n", ok ? "done" : "failed", (long long)what.watch.looks,
         seconds_worked() - start);
  for (int k = 0; k < LONGEST; k++)
    printf("  %8.3f ms  %s %s\n", what.watch.longest[k].seconds * 1e3,
           what.watch.longest[k].phase ? what.watch.longest[k].phase : "",
           what.watch.longest[k].pass);
  hl_cx_free(cx);
  return !ok;
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "--measure") == 0)
    return measure(argv[2], argc > 3 ? argv[3] : NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiling),
      cmocka_unit_test(reading_and_printing),
      cmocka_unit_test(running),
      cmocka_unit_test(running_calls),
      cmocka_unit_test(dumps_stay),
      cmocka_unit_test(what_is_given_away_is_freed),
      cmocka_unit_test(without_a_try_nobody_looks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
