// run_hlo_module: XLA's tool of that name: compiles and runs a module on a platform, again on a reference, and
// compares.
//
// On the CPU what the passes make runs as a program. Of other platforms it is interpreted: the tool says whether the passes
// keep a program's results.
#include <string.h>

#include "base/memory.h"
#include "base/vec.h"
#include "cli/two_sides.h"
#include "hilo/edit.h"

typedef struct Tool {
  TwoSides sides;
  const char *input_format, *debug_options_file;
  const char *output_literals_file, *input_literals_file;
  int64_t iterations, num_replicas, num_partitions;
  bool different_random_seeds, isolate_instructions;
  HlRuns given;     // of --input_literals_file
  VEC(HlRun) kept;  // for --output_literals_file
  int failed, runs;
} Tool;

// --- Files of literals --------------------------------------------------------------------------

// Replaces the arguments by those given: as many iterations as are run, arguments of the parameters' shapes.
static bool take_given(Tool *t, const HlModule *m, int64_t iteration, Trial *trial) {
  HlCx *cx = t->sides.cx;
  if (t->given.n != t->iterations)
    return hl_error(cx, (HlPos){0}, "%s holds %d iterations, but %lld are run",
                    t->input_literals_file, t->given.n, (long long)t->iterations);
  const HlRun *run = &t->given.at[iteration];
  if (run->n_arguments != trial->n_arguments)
    return hl_error(cx, (HlPos){0}, "%s holds %d arguments, but the module has %d parameters",
                    t->input_literals_file, run->n_arguments, trial->n_arguments);
  for (int k = 0; k < run->n_arguments; k++) {
    const HlShape *have = run->arguments[k]->shape, *want = m->entry->params[k]->shape;
    if (!hl_shape_compatible(have, want))
      return hl_error(cx, (HlPos){0}, "argument %d in %s is %s, but the parameter is %s", k,
                      t->input_literals_file, hl_shape_text(cx, have), hl_shape_text(cx, want));
    for (int d = 0; d < trial->devices; d++) {
      hl_literal_unref(trial->arguments[d][k]);
      trial->arguments[d][k] = hl_literal_ref(run->arguments[k]);
    }
  }
  return true;
}

// What went in and what came out, of the first device.
static void keep(Tool *t, const Trial *trial) {
  if (!*t->output_literals_file || trial->devices == 0)
    return;
  HlRun run = {.n_arguments = trial->n_arguments,
               .arguments = base_alloc(((size_t)trial->n_arguments + 1) * sizeof(HlLiteral *)),
               .result = hl_literal_ref(trial->results[0]),
               .reference = hl_literal_ref(trial->expected[0])};
  for (int k = 0; k < run.n_arguments; k++)
    run.arguments[k] = hl_literal_ref(trial->arguments[0][k]);
  vec_push(&t->kept, run);
}

static HlRuns kept_runs(const Tool *t) {
  return (HlRuns){.at = t->kept.at, .n = t->kept.n};
}

// As text where the name says so.
static bool write_kept(Tool *t) {
  if (!*t->output_literals_file)
    return true;
  const char *dot = strrchr(t->output_literals_file, '.');
  bool as_text = dot && (strcmp(dot, ".pbtxt") == 0 || strcmp(dot, ".txt") == 0 ||
                         strcmp(dot, ".textproto") == 0);
  HlBuf out = {0};
  HlRuns runs = kept_runs(t);
  bool ok = hl_runs_write(t->sides.cx, &runs, as_text, &out) &&
            hl_write_file(t->sides.cx, t->output_literals_file, out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  return ok;
}

static void free_kept(Tool *t) {
  HlRuns runs = kept_runs(t);
  for (int k = 0; k < runs.n; k++) {
    for (int j = 0; j < runs.at[k].n_arguments; j++)
      hl_literal_unref(runs.at[k].arguments[j]);
    base_free(runs.at[k].arguments);
    hl_literal_unref(runs.at[k].result);
    hl_literal_unref(runs.at[k].reference);
  }
  vec_free(&t->kept);
}

static bool read_given(Tool *t) {
  if (!*t->input_literals_file)
    return true;
  HlSource *source = hl_read_file(t->sides.cx, t->input_literals_file);
  bool ok = source && hl_runs_read(t->sides.cx, source, &t->given);
  hl_source_unref(source);
  return ok;
}

// --- One file -----------------------------------------------------------------------------------

static bool run_once(Tool *t, const HlModule *m, const HlRecorded *recorded, int64_t iteration) {
  Trial trial;
  uint64_t seed = t->different_random_seeds ? (uint64_t)iteration : 42 + (uint64_t)iteration;
  bool ok = trial_arguments(&t->sides, m, recorded, seed, &trial) &&
            (!*t->input_literals_file || take_given(t, m, iteration, &trial)) &&
            trial_run(&t->sides, m, &trial);
  keep(t, &trial);
  trial_free(&trial);
  return ok;
}

static void run_module(Tool *t, HlModule *m, const HlRecorded *recorded) {
  hl_set_devices(m, t->num_replicas > 0 ? t->num_replicas : m->replica_count,
                 t->num_partitions > 0 ? t->num_partitions : m->num_partitions);
  if (t->isolate_instructions) {
    isolate_run(&t->sides, m, 42, &t->failed, &t->runs);
    return;
  }
  for (int64_t i = 0; i < t->iterations; i++) {
    t->runs++;
    if (t->iterations != 1)
      fprintf(stderr, "\n=== Iteration %lld\n", (long long)i);
    if (!run_once(t, m, recorded, i))
      t->failed++;
    dropin_flush(t->sides.cx);
  }
}

static bool run_file(Tool *t, const char *path) {
  printf("\n ** Running %s** \n", path);
  fflush(stdout);
  static const HlLoadOptions how = {.verify = true};
  HlFile file;
  bool ok = hl_load(t->sides.cx, path, &how, &file);
  t->sides.arena = hl_arena_new();
  for (int k = 0; ok && k < file.n; k++)
    run_module(t, file.modules[k], &file.recorded);
  hl_arena_free(t->sides.arena);
  hl_file_free(&file);
  return ok;
}

// --- The command line ---------------------------------------------------------------------------

static bool numbers_make_sense(Tool *t) {
  const struct {
    const char *flag;
    double value, least;
  } numbers[] = {{"iterations", (double)t->iterations, 0},
                 {"num_replicas", (double)t->num_replicas, -1},
                 {"num_partitions", (double)t->num_partitions, -1},
                 {"abs_error_bound", t->sides.abs_error_bound, 0},
                 {"rel_error_bound", t->sides.rel_error_bound, 0}};
  for (int k = 0; k < HL_COUNT_OF(numbers); k++)
    if (!(numbers[k].value >= numbers[k].least))
      return hl_error(t->sides.cx, (HlPos){0}, "--%s=%g makes no sense: it must be %g or more",
                      numbers[k].flag, numbers[k].value, numbers[k].least);
  return true;
}

static bool words_make_sense(Tool *t, const DropinWords *words) {
  if (words->n_files == 0)
    return hl_error(t->sides.cx, (HlPos){0}, "no file given");
  if (!*t->sides.platform)
    return hl_error(t->sides.cx, (HlPos){0}, "--platform=CPU, CUDA or Interpreter must be given");
  return numbers_make_sense(t);
}

static int run_files(Tool *t, const DropinWords *words) {
  if (!sides_begin(&t->sides) || !read_given(t))
    return dropin_flush(t->sides.cx);
  int status = CLI_OK;
  for (int k = 0; k < words->n_files; k++)
    if (!run_file(t, words->files[k]))
      status = cli_worse(status, dropin_flush(t->sides.cx));
  if (!write_kept(t))
    status = cli_worse(status, dropin_flush(t->sides.cx));
  fprintf(stderr, "%d/%d runs failed.\n", t->failed, t->runs);
  return cli_worse(status, t->failed ? CLI_DIFFERENT : CLI_OK);
}

static const char examples[] =
    "  run_hlo_module --platform=CUDA m.hlo                     do XLA:GPU's passes keep the "
    "results\n"
    "  run_hlo_module --platform=CPU --iterations=5 *.hlo       on five made-up inputs each\n"
    "  run_hlo_module --platform=CPU --isolate_instructions m.hlo  each instruction alone\n";

static int run(Tool *t, int argc, char **argv) {
  const DropinFlag table[] = {
      {"platform", DROPIN_TEXT, &t->sides.platform,
       "whose passes to run: CPU, CUDA, Interpreter (none)"},
      {"reference_platform", DROPIN_TEXT, &t->sides.reference_platform,
       "what to compare with; default: Interpreter; empty: nothing"},
      {"input_format", DROPIN_TEXT, &t->input_format, "told by the content in any case"},
      {"iterations", DROPIN_INT, &t->iterations, "runs, each on other inputs"},
      {"different_random_seeds", DROPIN_BOOL, &t->different_random_seeds,
       "the iteration is the seed"},
      {"random_init_input_literals", DROPIN_BOOL, &t->sides.random_init_input_literals,
       "false: zeros as inputs"},
      {"use_large_float_range", DROPIN_BOOL, &t->sides.use_large_float_range,
       "inputs of all sizes"},
      {"abs_error_bound", DROPIN_NUMBER, &t->sides.abs_error_bound,
       "a mismatch is beyond this ..."},
      {"rel_error_bound", DROPIN_NUMBER, &t->sides.rel_error_bound, "... and beyond this"},
      {"run_test_hlo_passes", DROPIN_BOOL, &t->sides.run_test_hlo_passes,
       "false for a module that is optimised already"},
      {"run_reference_hlo_passes", DROPIN_BOOL, &t->sides.run_reference_hlo_passes,
       "the same there"},
      {"print_literals", DROPIN_BOOL, &t->sides.print_literals, "print arguments and results"},
      {"output_literals_file", DROPIN_TEXT, &t->output_literals_file,
       "write arguments and results there: RunHloModuleLiterals; as text if so named"},
      {"input_literals_file", DROPIN_TEXT, &t->input_literals_file,
       "take the arguments from there"},
      {"isolate_instructions", DROPIN_BOOL, &t->isolate_instructions,
       "run every instruction as a module of its own"},
      {"force_fake_data", DROPIN_BOOL, &t->sides.force_fake_data,
       "made-up inputs also for a snapshot that has its own"},
      {"num_replicas", DROPIN_INT, &t->num_replicas, "0 or -1: what the module says"},
      {"num_partitions", DROPIN_INT, &t->num_partitions, "0 or -1: what the module says"},
      {"debug_options_file", DROPIN_TEXT, &t->debug_options_file, "DebugOptions as text proto"},
      {NULL, DROPIN_BOOL, NULL, NULL},
  };
  DropinWords words;
  bool ok = dropin_read(t->sides.cx, argc, argv, table, &t->sides.flags, t->sides.arena, &words);
  if (ok && words.help) {
    dropin_help(
        "run_hlo_module --platform=CPU [flags] FILE...",
        "Compiles each module for a platform, runs what comes out, and compares with the "
        "reference. Of platforms\nother than the CPU it is only the passes that are asked: what "
        "they make is interpreted.",
        table, examples);
    return CLI_OK;
  }
  if (!ok || !words_make_sense(t, &words)) {
    dropin_flush(t->sides.cx);
    return CLI_USAGE;
  }
  return run_files(t, &words);
}

int dropin_run_hlo_module(int argc, char **argv) {
  HlArena *arena = hl_arena_new();
  Tool t = {.sides = {.cx = hl_cx_new(),
                      .arena = arena,
                      .platform = "",
                      .reference_platform = "default",
                      .abs_error_bound = 1e-3,
                      .rel_error_bound = 1e-3,
                      .random_init_input_literals = true,
                      .run_test_hlo_passes = true,
                      .run_reference_hlo_passes = true},
            .input_format = "",
            .debug_options_file = "",
            .output_literals_file = "",
            .input_literals_file = "",
            .iterations = 1};
  int status = run(&t, argc, argv);
  free_kept(&t);
  hl_runs_free(&t.given);
  sides_end(&t.sides);
  hl_flags_free(&t.sides.flags);
  hl_arena_free(arena);
  hl_cx_free(t.sides.cx);
  return status;
}
