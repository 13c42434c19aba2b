// run_hlo_module: XLA's tool of that name: compiles and runs a module on a platform, again on a reference, and
// compares.
//
// Here a platform's compiler is its pipeline of passes, and what comes out is interpreted: the tool says
// whether the passes keep a program's results.
#include <stdlib.h>
#include <string.h>

#include "cli/dropin.h"
#include "hilo/dump.h"
#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/text.h"

typedef struct Tool {
  HlCx *cx;
  HlArena *arena;
  HlFlags flags;
  const char *platform, *reference_platform, *input_format, *debug_options_file;
  const char *output_literals_file, *input_literals_file;
  int64_t iterations;
  double abs_error_bound, rel_error_bound;
  bool different_random_seeds, random_init_input_literals, use_large_float_range;
  bool run_test_hlo_passes, run_reference_hlo_passes, print_literals, isolate_instructions;
  bool force_fake_data;
  int failed, runs;
} Tool;

// One side: the module as it is run, and its name for messages.
typedef struct Side {
  const char *platform;
  HlModule *m;
  HlLiteral **results;  // by device
} Side;

static const char *pipeline_of(const char *platform) {
  static const char *const known[][2] = {{"CPU", "cpu"},    {"cpu", "cpu"},  {"Host", "cpu"},
                                         {"host", "cpu"},   {"CUDA", "gpu"}, {"cuda", "gpu"},
                                         {"gpu", "gpu"},    {"GPU", "gpu"},  {"ROCM", "gpu"},
                                         {"Interpreter", ""}, {"interpreter", ""}, {"default", ""}};
  for (int k = 0; k < HL_COUNT_OF(known); k++)
    if (strcmp(known[k][0], platform) == 0)
      return known[k][1];
  return NULL;
}

// --- One side -----------------------------------------------------------------------------------

static bool run_passes(Tool *t, HlModule *m, const char *platform, const char *passes,
                       HlDumper *dumper) {
  HlEngineOptions options = {.passes = &hl_passes,
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
                             .user = dumper};
  const char *after =
      strcmp(platform, "gpu") == 0 ? "gpu_after_optimizations" : "cpu_after_optimizations";
  HlEngine *engine = hl_engine_new(t->cx, &options);
  bool ok = engine && (!dumper || (hl_dumper_begin(dumper, m) &&
                                   hl_dumper_module(dumper, m, "before_optimizations")));
  ok = ok && hl_engine_run(engine, m, passes) &&
       (!dumper || (hl_dumper_module(dumper, m, after) &&
            (!m->is_scheduled || hl_dumper_buffers(dumper, m, after)) && hl_dumper_end(dumper, m, engine)));
  hl_engine_free(engine);
  return ok;
}

static bool compile_and_run(Tool *t, Side *side, bool with_passes, HlDumper *dumper,
                            const HlLiteral *const *const *args, const HlEvalOptions *eval) {
  fprintf(stderr, "Running HLO module with runner %s...\n", side->platform);
  double start = hl_now();
  const char *pipeline = pipeline_of(side->platform);
  bool ok = !with_passes || !*pipeline || run_passes(t, side->m, pipeline, pipeline, dumper);
  ok = ok && hl_eval(t->cx, side->m, eval, args, side->results);
  if (ok)
    fprintf(stderr, "... compiled and ran in %.3gs.\n", hl_now() - start);
  return ok;
}

// --- Inputs -------------------------------------------------------------------------------------

static bool make_args(Tool *t, const HlModule *m, const HlRecorded *recorded, uint64_t seed,
                      int device, HlLiteral **out) {
  int n = m->entry->n_params;
  bool has = recorded->devices > 0 && recorded->n_arguments == n && n > 0 && !t->force_fake_data;
  if (has) {
    int from = device < recorded->devices ? device : 0;
    for (int k = 0; k < n; k++)
      out[k] = hl_literal_ref(recorded->arguments[from][k]);
    return true;
  }
  if (t->random_init_input_literals)
    return hl_fake_args(t->cx, m, seed, out);
  for (int k = 0; k < n; k++)
    if (!(out[k] = hl_literal_new(t->cx, m->entry->params[k]->shape)))
      return false;
  return true;
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

static void print_mismatch(int device, int leaf, const HlMismatch *m, const HlCompareOptions *how) {
  fprintf(stderr,
          "Mismatch count %lld (%.4f%%) in result %d of device %d: %lld elements; abs bound %g, rel "
          "bound %g\n"
          "  nan mismatches %lld, infinities %lld\n"
          "  worst: actual %g, expected %g, index %lld, rel error %g, abs error %g\n"
          "  would pass at abs %g or rel %g\n",
          (long long)m->n_different, 100.0 * (double)m->n_different / (double)(m->n ? m->n : 1),
          leaf, device, (long long)m->n, how->abs_bound, how->rel_bound, (long long)m->n_nan,
          (long long)m->n_inf, m->actual, m->expected, (long long)m->worst, m->worst_rel,
          m->worst_abs, m->pass_abs, m->pass_rel);
}

static bool compare_sides(Tool *t, const HlModule *m, const Side *test, const Side *reference,
                          int devices) {
  bool equal = true;
  for (int d = 0; d < devices; d++) {
    int n, n_expected;
    const HlLiteral **a = hl_flatten(t->arena, test->results[d], &n);
    const HlLiteral **e = hl_flatten(t->arena, reference->results[d], &n_expected);
    HlCompareOptions how = {.tolerance = -1,
                            .abs_bound = t->abs_error_bound,
                            .rel_bound = t->rel_error_bound};
    how.vectors = hl_vector_leaves(t->arena, m, &how.n_vectors);
    HlMismatch *found = HL_ARRAY(t->arena, HlMismatch, n + 1);
    if (n != n_expected || hl_compare(t->cx, n, a, e, &how, found)) {
      equal = equal && n == n_expected;
      continue;
    }
    equal = false;
    for (int k = 0; k < n; k++)
      if (!found[k].equal)
        print_mismatch(d, k, &found[k], &how);
  }
  return equal;
}

static void free_side(Side *side, int devices) {
  for (int d = 0; side->results && d < devices; d++)
    hl_literal_unref(side->results[d]);
  hl_module_free(side->m);
}

// --- One iteration ------------------------------------------------------------------------------

static bool prepare_reference(Tool *t, Side *side, bool despecialise) {
  return !despecialise || run_passes(t, side->m, "cpu", "despecializer", NULL);
}

static bool run_once(Tool *t, const HlModule *m, const HlRecorded *recorded, int64_t iteration,
                     HlDumper *dumper) {
  HlEvalOptions eval = {.elided = HL_ELIDED_RANDOM, .seed = 42};
  uint64_t seed = t->different_random_seeds ? (uint64_t)iteration : 42 + (uint64_t)iteration;
  int devices = hl_eval_devices(m, &eval), n = m->entry->n_params;
  HlLiteral ***args = HL_ARRAY(t->arena, HlLiteral **, devices + 1);
  bool ok = true;
  for (int d = 0; d < devices; d++) {
    args[d] = HL_ARRAY(t->arena, HlLiteral *, n + 1);
    ok = ok && make_args(t, m, recorded, seed, d, args[d]);
  }
  if (ok && t->print_literals)
    print_literals("Argument", n, args[0]);
  const char *other = t->reference_platform;
  bool compares = *other && m->entry->root->op != HL_OP_CUSTOM_CALL;
  const char *reference_name = strcmp(other, "default") == 0 ? "Interpreter" : other;
  Side test = {t->platform, NULL, HL_ARRAY(t->arena, HlLiteral *, devices + 1)};
  Side reference = {reference_name, NULL, HL_ARRAY(t->arena, HlLiteral *, devices + 1)};
  const HlLiteral *const *const *in = (const HlLiteral *const *const *)args;
  ok = ok && (test.m = hl_clone(t->cx, m)) &&
       compile_and_run(t, &test, t->run_test_hlo_passes, dumper, in, &eval);
  if (ok && t->print_literals)
    print_literals("Result on device", devices, test.results);
  if (ok && compares) {
    bool despecialise = strcmp(pipeline_of(test.platform), pipeline_of(reference.platform)) != 0;
    ok = (reference.m = hl_clone(t->cx, m)) && prepare_reference(t, &reference, despecialise) &&
         compile_and_run(t, &reference, t->run_reference_hlo_passes, NULL, in, &eval) &&
         compare_sides(t, m, &test, &reference, devices);
    if (ok)
      fprintf(stderr, "\n** Results on %s and %s are close enough. **\n", test.platform,
              reference.platform);
  }
  free_side(&test, devices);
  free_side(&reference, devices);
  for (int d = 0; d < devices; d++)
    for (int k = 0; k < n; k++)
      hl_literal_unref(args[d][k]);
  return ok;
}

static bool run_file(Tool *t, const char *path, HlDumper *dumper) {
  printf("\n ** Running %s** \n", path);
  fflush(stdout);
  HlFile file;
  bool ok = hl_load(t->cx, path, NULL, &file);
  for (int k = 0; ok && k < file.n; k++)
    for (int64_t i = 0; i < t->iterations; i++) {
      t->runs++;
      if (!run_once(t, file.modules[k], &file.recorded, i, dumper))
        t->failed++;
      dropin_flush(t->cx);
    }
  hl_file_free(&file);
  return ok;
}

// --- The command line ---------------------------------------------------------------------------

static bool is_supported(Tool *t) {
  if (t->isolate_instructions || *t->output_literals_file || *t->input_literals_file)
    return hl_error_kind(t->cx, HL_UNSUPPORTED, (HlPos){0},
                         "--isolate_instructions and the files of literals are not supported; "
                         "'hilo run --args --save' reads and writes arrays");
  if (t->use_large_float_range)
    return hl_error_kind(t->cx, HL_UNSUPPORTED, (HlPos){0},
                         "--use_large_float_range is not supported");
  const char *names[] = {t->platform, t->reference_platform};
  for (int k = 0; k < 2; k++)
    if (!pipeline_of(names[k]) && (k == 0 || *names[k]))
      return hl_error(t->cx, (HlPos){0}, "no platform '%s': CPU, CUDA or Interpreter", names[k]);
  return true;
}

static int run(Tool *t, int argc, char **argv) {
  const DropinFlag table[] = {
      {"platform", DROPIN_TEXT, &t->platform, "whose passes to run: CPU, CUDA, Interpreter (none)"},
      {"reference_platform", DROPIN_TEXT, &t->reference_platform,
       "what to compare with; default: Interpreter; empty: nothing"},
      {"input_format", DROPIN_TEXT, &t->input_format, "told by the content in any case"},
      {"iterations", DROPIN_INT, &t->iterations, "runs, each on other inputs"},
      {"different_random_seeds", DROPIN_BOOL, &t->different_random_seeds,
       "the iteration is the seed"},
      {"random_init_input_literals", DROPIN_BOOL, &t->random_init_input_literals,
       "false: zeros as inputs"},
      {"use_large_float_range", DROPIN_BOOL, &t->use_large_float_range, "inputs of all sizes"},
      {"abs_error_bound", DROPIN_NUMBER, &t->abs_error_bound, "a mismatch is beyond this ..."},
      {"rel_error_bound", DROPIN_NUMBER, &t->rel_error_bound, "... and beyond this"},
      {"run_test_hlo_passes", DROPIN_BOOL, &t->run_test_hlo_passes,
       "false for a module that is optimised already"},
      {"run_reference_hlo_passes", DROPIN_BOOL, &t->run_reference_hlo_passes, "the same there"},
      {"print_literals", DROPIN_BOOL, &t->print_literals, "print arguments and results"},
      {"output_literals_file", DROPIN_TEXT, &t->output_literals_file, "not supported"},
      {"input_literals_file", DROPIN_TEXT, &t->input_literals_file, "not supported"},
      {"isolate_instructions", DROPIN_BOOL, &t->isolate_instructions, "not supported"},
      {"force_fake_data", DROPIN_BOOL, &t->force_fake_data,
       "made-up inputs also for a snapshot that has its own"},
      {"debug_options_file", DROPIN_TEXT, &t->debug_options_file, "DebugOptions as text proto"},
      {NULL, DROPIN_BOOL, NULL, NULL},
  };
  DropinWords words;
  bool ok = dropin_read(t->cx, argc, argv, table, &t->flags, t->arena, &words);
  if (ok && words.help) {
    dropin_help("run_hlo_module --platform=CPU [flags] FILE...", table);
    return CLI_OK;
  }
  if (ok && (words.n_files == 0 || !*t->platform))
    ok = hl_error(t->cx, (HlPos){0}, words.n_files == 0 ? "no file given"
                                                        : "--platform=CPU, CUDA or Interpreter "
                                                          "must be given");
  if (!ok) {
    dropin_flush(t->cx);
    return CLI_USAGE;
  }
  HlDumper *dumper = is_supported(t) ? hl_dumper_new(t->cx, &t->flags, HL_DUMP_FULL) : NULL;
  if (!dumper)
    return dropin_flush(t->cx);
  int status = CLI_OK;
  for (int k = 0; k < words.n_files; k++)
    if (!run_file(t, words.files[k], dumper))
      status = cli_worse(status, dropin_flush(t->cx));
  hl_dumper_free(dumper);
  fprintf(stderr, "%d/%d runs failed.\n", t->failed, t->runs);
  return cli_worse(status, t->failed ? CLI_DIFFERENT : CLI_OK);
}

int dropin_run_hlo_module(int argc, char **argv) {
  Tool t = {.cx = hl_cx_new(),
            .arena = hl_arena_new(),
            .platform = "",
            .reference_platform = "default",
            .input_format = "",
            .debug_options_file = "",
            .output_literals_file = "",
            .input_literals_file = "",
            .iterations = 1,
            .abs_error_bound = 1e-3,
            .rel_error_bound = 1e-3,
            .random_init_input_literals = true,
            .run_test_hlo_passes = true,
            .run_reference_hlo_passes = true};
  hl_flags_init(&t.flags);
  int status = run(&t, argc, argv);
  hl_flags_free(&t.flags);
  hl_arena_free(t.arena);
  hl_cx_free(t.cx);
  return status;
}
