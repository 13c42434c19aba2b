// cli/two_sides.c: runs a program on the platform under test and on a reference, compares, keeps what differs.
//
// A platform's compiler is its pipeline of passes; what comes out is run as a program where the platform has them, and
// else interpreted.
#include "cli/two_sides.h"
#include "base/number.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hilo/eval.h"
#include "spmd/local.h"

const char *const outcome_names[OUTCOMES] = {[MATCHED] = "MATCHED",
                                             [RAN] = "RAN",
                                             [SKIPPED] = "SKIPPED",
                                             [DID_NOT_RUN] = "DIDN'T RUN",
                                             [OTHER_ERROR] = "OTHER ERROR",
                                             [COMPILATION_ERROR] = "COMPILATION ERROR",
                                             [RUNTIME_ERROR] = "RUNTIME ERROR",
                                             [MISMATCH] = "MISMATCH"};

// --- Compiling ----------------------------------------------------------------------------------

static const HlPlatform *find_platform(TwoSides *t, const char *word) {
  const HlPlatform *platform = hl_platform_find(word);
  if (platform && platform->runs)
    return platform;
  hl_error(t->cx, (HlPos){0}, "no platform '%s': CPU, CUDA or Interpreter", word);
  return NULL;
}

bool sides_begin(TwoSides *t) {
  const HlSessionOptions test = {.platform = t->platform, .flags = &t->flags};
  const HlSessionOptions reference = {.platform = t->reference_platform, .flags = &t->flags};
  if (!find_platform(t, t->platform) ||
      (*t->reference_platform && !find_platform(t, t->reference_platform)))
    return false;
  t->test = hl_session_new(t->cx, &test);
  t->reference = t->test && *t->reference_platform ? hl_session_new(t->cx, &reference) : NULL;
  return t->test && (t->reference || !*t->reference_platform);
}

void sides_end(TwoSides *t) {
  hl_session_free(t->test);
  hl_session_free(t->reference);
}

// The module under test, through its passes and with its dumps.
static HlCompiled *compile_test(TwoSides *t, const HlModule *m) {
  const HlCompileOptions options = {.passes = t->run_test_hlo_passes ? NULL : "",
                                    .no_dumps = t->quiet};
  return hl_compile(t->cx, t->test, &(HlProgram){.module = m}, &options);
}

// What makes a program plain enough for another compiler, as XLA's tool has it, then the platform's own passes.
static HlCompiled *compile_reference(TwoSides *t, const HlModule *m) {
  const HlPlatform *platform = hl_session_platform(t->reference);
  const bool same = platform == hl_session_platform(t->test);
  const char *plain = same ? ""
                           : "despecializer, AssumeGatherIndicesInBoundRewriteToCopy, "
                             "ReduceWindowToReduceAndBroadcast";
  const char *own = t->run_reference_hlo_passes ? platform->pipeline : "";
  const HlCompileOptions options = {
      .passes = hl_arena_printf(t->arena, "%s%s%s", plain, *plain && *own ? ", " : "", own),
      .no_buffers = true,
      .no_dumps = true};
  return hl_compile(t->cx, t->reference, &(HlProgram){.module = m}, &options);
}

// --- Arguments ----------------------------------------------------------------------------------

static bool make_arguments(TwoSides *t, const HlModule *m, const HlRecorded *recorded,
                           uint64_t seed, int device, HlLiteral **out) {
  int n = m->entry->n_params;
  if (recorded && recorded->devices > 0 && recorded->n_arguments == n && n > 0 &&
      !t->force_fake_data) {
    int from = device < recorded->devices ? device : 0;
    for (int k = 0; k < n; k++)
      out[k] = hl_literal_ref(recorded->arguments[from][k]);
    return true;
  }
  if (t->random_init_input_literals)
    return t->use_large_float_range ? hl_fake_large_args(t->cx, m, seed, out)
                                    : hl_fake_args(t->cx, m, seed, out);
  for (int k = 0; k < n; k++)
    if (!(out[k] = hl_literal_new(t->cx, m->entry->params[k]->shape)))
      return false;
  return true;
}

bool trial_arguments(TwoSides *t, const HlModule *m, const HlRecorded *recorded, uint64_t seed,
                     Trial *out) {
  HlEvalOptions eval = {0};
  *out = (Trial){.test = DID_NOT_RUN,
                 .reference = DID_NOT_RUN,
                 .devices = hl_eval_devices(m, &eval),
                 .n_arguments = m->entry->n_params};
  if (out->devices > hl_cx_limits(t->cx)->devices) {
    hl_error_kind(t->cx, HL_LIMIT, (HlPos){0},
                  "the program runs on %d devices; the limit is %lld (limit devices)", out->devices,
                  (long long)hl_cx_limits(t->cx)->devices);
    out->devices = 0;
    return false;
  }
  out->arguments = HL_ARRAY(t->arena, HlLiteral **, out->devices + 1);
  out->results = HL_ARRAY(t->arena, HlLiteral *, out->devices + 1);
  out->expected = HL_ARRAY(t->arena, HlLiteral *, out->devices + 1);
  bool ok = true;
  for (int d = 0; d < out->devices; d++) {
    out->arguments[d] = HL_ARRAY(t->arena, HlLiteral *, out->n_arguments + 1);
    ok = ok && make_arguments(t, m, recorded, seed, d, out->arguments[d]);
  }
  return ok;
}

void trial_free(Trial *trial) {
  for (int d = 0; d < trial->devices; d++) {
    for (int k = 0; k < trial->n_arguments; k++)
      hl_literal_unref(trial->arguments[d][k]);
    hl_literal_unref(trial->results[d]);
    hl_literal_unref(trial->expected[d]);
  }
  hl_compiled_unref(trial->tested);
  hl_compiled_unref(trial->referred);
  *trial = (Trial){0};
}

static void print_literals(const char *what, int n, HlLiteral *const *values) {
  HlBuf out = {0};
  for (int k = 0; k < n; k++) {
    hl_buf_printf(&out, "\n** %s %d **\n", what, k);
    hl_shape_print(&out, values[k]->shape, false);
    hl_buf_putc(&out, ' ');
    hl_literal_print(&out, values[k]);
    hl_buf_putc(&out, '\n');
  }
  cli_print(&out);
  hl_buf_free(&out);
}

// --- Comparing ----------------------------------------------------------------------------------

// Writes a value as a proto and as text, says where.
static bool put_value(TwoSides *t, const char *what, const HlLiteral *value) {
  const char *folder = getenv("TMPDIR");
  const char *stem =
      hl_arena_printf(t->arena, "%s/hilo-%ld-%04d-%s", folder && *folder ? folder : "/tmp",
                      (long)getpid(), t->mismatch_files, what);
  HlBuf proto = {0}, text = {0};
  hl_proto_write_literal(t->cx, value, false, &proto);
  hl_shape_print(&text, value->shape, false);
  hl_buf_putc(&text, ' ');
  hl_literal_print(&text, value);
  hl_buf_putc(&text, '\n');
  const char *pb = hl_arena_printf(t->arena, "%s.pb", stem);
  const char *txt = hl_arena_printf(t->arena, "%s.txt", stem);
  bool ok = hl_write_file(t->cx, pb, proto.at ? proto.at : "", proto.n) &&
            hl_write_file(t->cx, txt, text.at, text.n);
  if (ok)
    fprintf(stderr, "  wrote %s to %s and %s\n", what, pb, txt);
  hl_buf_free(&proto);
  hl_buf_free(&text);
  return ok;
}

static bool put_mismatch(TwoSides *t, const HlLiteral *actual, const HlLiteral *expected,
                         HlCompareOptions how) {
  HlShape shape = *expected->shape;
  shape.dtype = HL_PRED;
  HlLiteral *mask = expected->n == actual->n ? hl_literal_new(t->cx, &shape) : NULL;
  HlMismatch again;
  t->mismatch_files++;
  bool ok = put_value(t, "expected", expected) && put_value(t, "actual", actual);
  if (mask && ok) {
    how.mask = mask->data;
    how.n_vectors = 0;
    hl_compare(t->cx, 1, &actual, &expected, &how, &again);
    ok = put_value(t, "mismatches", mask);
  }
  hl_literal_unref(mask);
  return ok;
}

static void say_mismatch(int device, int leaf, const HlMismatch *m, const HlCompareOptions *how) {
  if (!m->same_shape) {
    fprintf(stderr, "Result %d of device %d has another shape or type\n", leaf, device);
    return;
  }
  base_fprintf(
      stderr,
      "Mismatch count %lld (%.4f%%) in result %d of device %d: %lld elements; abs bound %g, rel "
      "bound %g\n"
      "  nan mismatches %lld, infinities %lld\n"
      "  worst: actual %g, expected %g, index %lld, rel error %g, abs error %g\n"
      "  would pass at abs %g or rel %g\n",
      (long long)m->n_different, 100.0 * (double)m->n_different / (double)(m->n ? m->n : 1), leaf,
      device, (long long)m->n, how->abs_bound, how->rel_bound, (long long)m->n_nan,
      (long long)m->n_inf, m->actual, m->expected, (long long)m->worst, m->worst_rel, m->worst_abs,
      m->pass_abs, m->pass_rel);
}

// Of a device's two results the parts that both sides have: all of them, or its tile where one side is
// partitioned and the other is not.
static SpPair pair_of(TwoSides *t, const HlModule *m, const Trial *trial, int device) {
  const HlLiteral *actual = trial->results[device], *expected = trial->expected[device];
  const HlModule *tested = hl_compiled_module(trial->tested);
  const HlModule *referred = hl_compiled_module(trial->referred);
  const bool is_local = sp_is_local(tested, m);
  if (is_local == sp_is_local(referred, m))
    return (SpPair){hl_literal_ref(actual), hl_literal_ref(expected)};
  if (is_local)
    return sp_pair(t->cx, tested, m, device, actual, expected);
  SpPair swapped = sp_pair(t->cx, referred, m, device, expected, actual);
  return (SpPair){swapped.expected, swapped.actual};
}

static bool compare_values(TwoSides *t, const HlModule *m, int device, const HlLiteral *actual,
                           const HlLiteral *expected) {
  int n, n_expected;
  const HlLiteral **a = hl_flatten(t->arena, actual, &n);
  const HlLiteral **e = hl_flatten(t->arena, expected, &n_expected);
  HlCompareOptions how = {.abs_bound = t->abs_error_bound, .rel_bound = t->rel_error_bound};
  how.vectors = hl_vector_leaves(t->arena, m, &how.n_vectors);
  HlMismatch *found = HL_ARRAY(t->arena, HlMismatch, n + 1);
  if (n != n_expected)
    return false;
  if (hl_compare(t->cx, n, a, e, &how, found)) {
    for (int k = 0; k < n; k++)
      t->silent += hl_is_silent(e[k]);
    t->compared += n;
    return true;
  }
  for (int k = 0; !t->quiet && k < n; k++)
    if (!found[k].equal) {
      say_mismatch(device, k, &found[k], &how);
      put_mismatch(t, a[k], e[k], how);
    }
  return false;
}

static bool compare_device(TwoSides *t, const HlModule *m, const Trial *trial, int device) {
  SpPair pair = pair_of(t, m, trial, device);
  bool equal = pair.actual && compare_values(t, m, device, pair.actual, pair.expected);
  if (!pair.actual && !t->quiet)
    fprintf(stderr, "The result of device %d is not its part of the whole result\n", device);
  sp_pair_free(&pair);
  return equal;
}

// --- Running ------------------------------------------------------------------------------------

// What a run on the platform is here.
static const char *runner_name(TwoSides *t, const char *word) {
  const HlPlatform *platform = hl_platform_find(word);
  return platform && *platform->pipeline && !platform->has_programs
             ? hl_arena_printf(t->arena, "%s (its passes, interpreted)", word)
             : word;
}

static void say_start(const TwoSides *t, const char *runner) {
  if (t->quiet)
    return;
  fflush(stdout);
  fprintf(stderr, "Running HLO module with runner %s...\n", runner);
}

static void say_end(const TwoSides *t, double start) {
  if (!t->quiet)
    base_fprintf(stderr, "... ran in %.3gs.\n", hl_now() - start);
}

typedef struct Execution {
  HlCpuProgram *program;
  const HlEvalOptions *options;
} Execution;

static bool execute(HlCx *cx, void *user, const HlLiteral *const *const *args,
                    HlLiteral **results) {
  const Execution *e = user;
  return hl_cpu_run(cx, e->program, e->options, args, results);
}

// Runs what a side's passes have made of `whole`, whose arguments the trial has.
static Outcome evaluate(TwoSides *t, const HlSession *session, HlCompiled *compiled,
                        const HlModule *whole, const Trial *trial, HlLiteral **results) {
  const HlEvalOptions eval = {.seed = 42};
  const HlLiteral *const *const *args = (const HlLiteral *const *const *)trial->arguments;
  if (!compiled)
    return COMPILATION_ERROR;
  if (!hl_session_platform(session)->has_programs)
    return sp_eval_local(t->cx, hl_compiled_module(compiled), whole, &eval, args, results)
               ? RAN
               : RUNTIME_ERROR;
  HlCpuProgram *program = hl_compiled_program(t->cx, compiled, &(HlCpuOptions){.seed = eval.seed});
  if (!program)
    return COMPILATION_ERROR;
  Execution execution = {program, &eval};
  const bool ok =
      sp_run_local(t->cx, hl_cpu_module(program), whole, &eval, execute, &execution, args, results);
  hl_cpu_unref(program);
  return ok ? RAN : RUNTIME_ERROR;
}

// The snapshots of the run, whether it succeeded or not.
static bool dump_run(TwoSides *t, const HlModule *came, const Trial *trial) {
  HlExecution execution = {.came = came,
                           .ran = hl_compiled_module(trial->tested),
                           .devices = trial->devices,
                           .n_arguments = trial->n_arguments,
                           .arguments = (HlLiteral *const *const *)trial->arguments,
                           .results = trial->test == RAN ? trial->results : NULL,
                           .platform = t->platform};
  return hl_compiled_dump_execution(t->cx, trial->tested, &execution);
}

static bool run_test(TwoSides *t, const HlModule *m, Trial *trial) {
  double start = hl_now();
  say_start(t, runner_name(t, t->platform));
  trial->tested = compile_test(t, m);
  trial->test = evaluate(t, t->test, trial->tested, m, trial, trial->results);
  bool dumped = !trial->tested || dump_run(t, m, trial);
  if (trial->test == RAN)
    say_end(t, start);
  return trial->test == RAN && dumped;
}

static bool run_reference(TwoSides *t, const HlModule *m, const char *platform, Trial *trial) {
  double start = hl_now();
  say_start(t, runner_name(t, platform));
  trial->referred = compile_reference(t, m);
  trial->reference = evaluate(t, t->reference, trial->referred, m, trial, trial->expected);
  if (trial->reference == RAN)
    say_end(t, start);
  return trial->reference == RAN;
}

static bool compare_sides(TwoSides *t, const HlModule *m, const char *platform, Trial *trial) {
  bool equal = true;
  t->silent = t->compared = 0;
  for (int d = 0; d < trial->devices; d++)
    equal = compare_device(t, m, trial, d) && equal;
  trial->test = equal ? MATCHED : MISMATCH;
  if (equal && !t->quiet)
    fprintf(stderr, "\n** Results on %s and %s are close enough. **\n", runner_name(t, t->platform),
            runner_name(t, platform));
  if (equal && t->silent > 0 && !t->quiet)
    hl_warn(t->cx, hl_module_pos(m),
            "%d of %d results have no finite value on both sides: that they are close enough says "
            "nothing",
            t->silent, t->compared);
  return equal;
}

bool trial_run(TwoSides *t, const HlModule *m, Trial *trial) {
  const char *other = t->reference_platform;
  const char *platform = strcmp(other, "default") == 0 ? "Interpreter" : other;
  if (t->print_literals && trial->devices > 0)
    print_literals("Argument", trial->n_arguments, trial->arguments[0]);
  if (!run_test(t, m, trial))
    return false;
  if (t->print_literals)
    print_literals("Result on device", trial->devices, trial->results);
  if (!*other || m->entry->root->op == HL_OP_CUSTOM_CALL) {
    trial->reference = SKIPPED;
    return true;
  }
  if (!run_reference(t, m, platform, trial))
    return false;
  if (t->print_literals)
    print_literals("Reference result on device", trial->devices, trial->expected);
  return compare_sides(t, m, platform, trial);
}
