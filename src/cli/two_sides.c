// cli/two_sides.c: runs a program on the platform under test and on a reference, compares, keeps what differs.
//
// A platform's compiler is its pipeline of passes, and what comes out is interpreted.
#include "cli/two_sides.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hilo/eval.h"
#include "hilo/opt.h"
#include "spmd/local.h"

const char *const outcome_names[OUTCOMES] = {[MATCHED] = "MATCHED",
                                             [RAN] = "RAN",
                                             [SKIPPED] = "SKIPPED",
                                             [DID_NOT_RUN] = "DIDN'T RUN",
                                             [OTHER_ERROR] = "OTHER ERROR",
                                             [COMPILATION_ERROR] = "COMPILATION ERROR",
                                             [RUNTIME_ERROR] = "RUNTIME ERROR",
                                             [MISMATCH] = "MISMATCH"};

const char *sides_pipeline(const char *platform) {
  static const char *const known[][2] = {{"CPU", "cpu"},      {"cpu", "cpu"},      {"Host", "cpu"},
                                         {"host", "cpu"},     {"CUDA", "gpu"},     {"cuda", "gpu"},
                                         {"gpu", "gpu"},      {"GPU", "gpu"},      {"ROCM", "gpu"},
                                         {"Interpreter", ""}, {"interpreter", ""}, {"default", ""}};
  for (int k = 0; k < HL_COUNT_OF(known); k++)
    if (strcmp(known[k][0], platform) == 0)
      return known[k][1];
  return NULL;
}

// --- Compiling ----------------------------------------------------------------------------------

static bool run_passes(TwoSides *t, HlModule *m, const char *platform, const char *passes,
                       HlDumper *dumper, HlEngine **out) {
  HlEngineOptions options = {
      .passes = &hl_passes,
      .pipelines = &hl_pipelines,
      .target = platform,
      .fuel = -1,
      .explain = -1,
      .pass_fuel = *t->flags.xla_fuel ? t->flags.xla_fuel : NULL,
      .disable = t->flags.xla_disable_hlo_passes,
      .enable_only = t->flags.xla_enable_hlo_passes_only,
      .disable_all = t->flags.xla_disable_all_hlo_passes,
      .after = dumper ? hl_dumper_step : NULL,
      .stage = dumper ? hl_dumper_stage : NULL,
      .rewrite = dumper ? hl_dumper_rewrite : NULL,
      .refused = dumper && t->flags.xla_dump_fusion_visualization ? hl_dumper_refused : NULL,
      .user = dumper};
  HlEngine *engine = hl_engine_new(t->cx, &options);
  bool ok = engine && hl_engine_run(engine, m, passes);
  if (out)
    *out = engine;
  else
    hl_engine_free(engine);
  return ok;
}

static const char *after_suffix(const char *pipeline) {
  return strcmp(pipeline, "gpu") == 0   ? "gpu_after_optimizations"
         : strcmp(pipeline, "cpu") == 0 ? "cpu_after_optimizations"
                                        : "after_optimizations";
}

// The module under test, through its passes and with its dumps.
static bool compile_test(TwoSides *t, HlModule *m, HlDumper *dumper, HlEngine **engine) {
  const char *pipeline = sides_pipeline(t->platform), *after = after_suffix(pipeline);
  if (dumper &&
      !(hl_dumper_begin(dumper, m) && hl_dumper_module(dumper, m, "before_optimizations")))
    return false;
  if (t->run_test_hlo_passes && *pipeline && !run_passes(t, m, pipeline, pipeline, dumper, engine))
    return false;
  return !dumper || hl_dumper_result(dumper, m, after);
}

static bool compile_reference(TwoSides *t, HlModule *m, const char *platform) {
  const char *pipeline = sides_pipeline(platform);
  bool same = strcmp(sides_pipeline(t->platform), pipeline) == 0;
  const char *plain =
      "despecializer, AssumeGatherIndicesInBoundRewriteToCopy, ReduceWindowToReduceAndBroadcast";
  return (same || run_passes(t, m, "cpu", plain, NULL, NULL)) &&
         (!t->run_reference_hlo_passes || !*pipeline ||
          run_passes(t, m, pipeline, pipeline, NULL, NULL));
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
    hl_error_kind(t->cx, HL_LIMIT, (HlPos){0}, "the program runs on %d devices; the limit is %lld",
                  out->devices, (long long)hl_cx_limits(t->cx)->devices);
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
  hl_module_free(trial->tested);
  hl_module_free(trial->referred);
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
  fprintf(
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
  const bool is_local = sp_is_local(trial->tested, m);
  if (is_local == sp_is_local(trial->referred, m))
    return (SpPair){hl_literal_ref(actual), hl_literal_ref(expected)};
  if (is_local)
    return sp_pair(t->cx, trial->tested, m, device, actual, expected);
  SpPair swapped = sp_pair(t->cx, trial->referred, m, device, expected, actual);
  return (SpPair){swapped.expected, swapped.actual};
}

static bool compare_values(TwoSides *t, const HlModule *m, int device, const HlLiteral *actual,
                           const HlLiteral *expected) {
  int n, n_expected;
  const HlLiteral **a = hl_flatten(t->arena, actual, &n);
  const HlLiteral **e = hl_flatten(t->arena, expected, &n_expected);
  HlCompareOptions how = {
      .tolerance = -1, .abs_bound = t->abs_error_bound, .rel_bound = t->rel_error_bound};
  how.vectors = hl_vector_leaves(t->arena, m, &how.n_vectors);
  HlMismatch *found = HL_ARRAY(t->arena, HlMismatch, n + 1);
  if (n != n_expected)
    return false;
  if (hl_compare(t->cx, n, a, e, &how, found))
    return true;
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

static void say_start(const TwoSides *t, const char *platform) {
  if (!t->quiet)
    fprintf(stderr, "Running HLO module with runner %s...\n", platform);
}

static void say_end(const TwoSides *t, double start) {
  if (!t->quiet)
    fprintf(stderr, "... compiled and ran in %.3gs.\n", hl_now() - start);
}

// Runs what a side's passes have made of `whole`, whose arguments the trial has.
static bool evaluate(TwoSides *t, const HlModule *m, const HlModule *whole, const Trial *trial,
                     HlLiteral **results) {
  HlEvalOptions eval = {.elided = HL_ELIDED_RANDOM, .seed = 42};
  return sp_eval_local(t->cx, m, whole, &eval, (const HlLiteral *const *const *)trial->arguments,
                       results);
}

// The snapshots of the run, whether it succeeded or not, and the end of the module's dumps.
static bool dump_run(TwoSides *t, HlDumper *dumper, const HlModule *came, const HlModule *ran,
                     const HlEngine *engine, const Trial *trial) {
  HlExecution execution = {.came = came,
                           .ran = ran,
                           .devices = trial->devices,
                           .n_arguments = trial->n_arguments,
                           .arguments = (HlLiteral *const *const *)trial->arguments,
                           .results = trial->test == RAN ? trial->results : NULL,
                           .platform = t->platform};
  return hl_dumper_execution(dumper, &execution) && hl_dumper_end(dumper, ran, engine);
}

static bool run_test(TwoSides *t, const HlModule *m, HlDumper *dumper, Trial *trial) {
  double start = hl_now();
  say_start(t, t->platform);
  HlModule *copy = trial->tested = hl_clone(t->cx, m);
  HlEngine *engine = NULL;
  trial->test = COMPILATION_ERROR;
  bool compiled = copy && compile_test(t, copy, dumper, &engine);
  if (compiled)
    trial->test = evaluate(t, copy, m, trial, trial->results) ? RAN : RUNTIME_ERROR;
  bool dumped = !dumper || !compiled || dump_run(t, dumper, m, copy, engine, trial);
  hl_engine_free(engine);
  if (trial->test == RAN)
    say_end(t, start);
  return trial->test == RAN && dumped;
}

static bool run_reference(TwoSides *t, const HlModule *m, const char *platform, Trial *trial) {
  double start = hl_now();
  say_start(t, platform);
  HlModule *copy = trial->referred = hl_clone(t->cx, m);
  trial->reference = COMPILATION_ERROR;
  if (copy && compile_reference(t, copy, platform))
    trial->reference = evaluate(t, copy, m, trial, trial->expected) ? RAN : RUNTIME_ERROR;
  if (trial->reference == RAN)
    say_end(t, start);
  return trial->reference == RAN;
}

static bool compare_sides(TwoSides *t, const HlModule *m, const char *platform, Trial *trial) {
  bool equal = true;
  for (int d = 0; d < trial->devices; d++)
    equal = compare_device(t, m, trial, d) && equal;
  trial->test = equal ? MATCHED : MISMATCH;
  if (equal && !t->quiet)
    fprintf(stderr, "\n** Results on %s and %s are close enough. **\n", t->platform, platform);
  return equal;
}

bool trial_run(TwoSides *t, const HlModule *m, HlDumper *dumper, Trial *trial) {
  const char *other = t->reference_platform;
  const char *platform = strcmp(other, "default") == 0 ? "Interpreter" : other;
  if (t->print_literals && trial->devices > 0)
    print_literals("Argument", trial->n_arguments, trial->arguments[0]);
  if (!run_test(t, m, dumper, trial))
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
