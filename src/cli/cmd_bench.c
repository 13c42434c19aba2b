// hilo bench: times the stages of working on a module.
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cli/bench.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/select.h"
#include "hilo/text.h"
#include "hilo/verify.h"

// False after reporting.
typedef bool Stage(Bench *);

static const HlLoadOptions trees_only = {.trees_only = true, .consts_as_parameters = true};

static bool parse(Bench *b) {
  HlFile file;
  const bool ok = hl_load_source(b->cli->cx, b->source, &trees_only, &file);
  hl_file_free(&file);
  return ok;
}

static bool print(Bench *b) {
  HlTextOptions options = {0};
  HlMlTextOptions of_tree = {.large_constants = true};
  HlBuf out = {0};
  if (b->tree)
    hl_ml_text_print(b->tree, &of_tree, &out);
  else
    hl_text_print(b->cli->cx, b->m, &options, &out);
  hl_buf_free(&out);
  return true;
}

static bool verify(Bench *b) {
  if (!(b->tree ? hl_ml_verify(b->cli->cx, b->tree) : hl_verify(b->cli->cx, b->m, NULL)))
    hl_cx_clear(b->cli->cx);
  return true;
}

// Instructions of a module, ops of a tree.
static int64_t size_of(const Bench *b) {
  int64_t n_functions;
  return b->tree ? hl_ml_count_ops(b->tree, &n_functions) : hl_count_instructions(b->m);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void time_json(HlBuf *out, const char *name, const char *what, double ms) {
  char key[32];
  snprintf(key, sizeof key, "%s%s_ms", name, what);
  json_number(out, key, ms);
}

void bench_report(const Bench *b, BenchTimes *times) {
  qsort(times->at, (size_t)times->n, sizeof(double), by_value);
  const double best = times->at[0] * 1e3, median = times->at[times->n / 2] * 1e3;
  if (b->cli->json) {
    time_json(&b->cli->report, times->name, "", best);
    time_json(&b->cli->report, times->name, "_median", median);
    return;
  }
  const bool tiny = median < 0.1;
  const double unit = tiny ? 1e3 : 1;
  base_fprintf(stdout, "  %-7s %9.3f %s best, %9.3f %s median of %d\n", times->name, best * unit,
               tiny ? "us" : "ms", median * unit, tiny ? "us" : "ms", times->n);
}

// Repeats for at least five times and the time asked for, at most BENCH_TIMES times.
static bool repeat(Bench *b, const char *name, Stage *stage) {
  BenchTimes times = {.name = name};
  const double start = hl_now();
  do {
    const double before = hl_now();
    if (!stage(b))
      return false;
    times.at[times.n++] = hl_now() - before;
  } while (times.n < BENCH_TIMES &&
           (b->repeats > 0 ? times.n < b->repeats : times.n < 5 || hl_now() - start < b->seconds));
  bench_report(b, &times);
  return true;
}

static bool bench_parse(Bench *b) {
  return repeat(b, "parse", parse);
}

static bool bench_print(Bench *b) {
  return repeat(b, "parse", parse) && repeat(b, "verify", verify) && repeat(b, "print", print);
}

// --- Files -------------------------------------------------------------------------------------------

static const struct {
  const char *name;
  Stage *run;
  bool of_modules;  // also of MLIR, which is made HLO then
} stages[] = {{"parse", bench_parse, false},
              {"print", bench_print, false},
              {"compile", bench_compile, true},
              {"run", bench_run, true}};

static HlLoadOptions load_options(const Bench *b, bool of_modules) {
  if (!of_modules)
    return trees_only;
  return (HlLoadOptions){.args = b->inputs.args, .fill_hidden = true, .verify = true};
}

static void report_size(const Bench *b) {
  if (!b->cli->json) {
    printf("%s\n", b->path);
    return;
  }
  json_int(&b->cli->report, "bytes", (int64_t)hl_source_bytes(b->source).n);
  json_int(&b->cli->report, "instructions", size_of(b));
}

// False after reporting, or when the file is skipped.
static bool bench_file(Bench *b, int stage, CliFiles *files, int k, bool *skipped) {
  Cli *cli = b->cli;
  HlFile file = {0};
  const HlLoadOptions how = load_options(b, stages[stage].of_modules);
  const bool loaded = cli_load(cli, files, k, &how, &file, skipped);
  b->path = files->at[k].at;
  if (!*skipped)
    cli_begin_file(cli, b->path);
  b->source = loaded ? hl_read_file(cli->cx, b->path) : NULL;
  b->file = &file;
  b->inputs.exported = file.exported;
  b->tree = b->source && file.n_trees > 0 ? file.trees[0] : NULL;
  b->m = b->source && !b->tree ? cli_select(cli, &file, b->path) : NULL;
  const bool ok = b->tree || b->m;
  if (ok) {
    report_size(b);
    stages[stage].run(b);
  }
  if (loaded)
    hl_file_free(&file);
  hl_source_unref(b->source);
  return ok;
}

static int find_stage(Cli *cli) {
  for (int k = 0; cli->n_files >= 2 && k < HL_COUNT_OF(stages); k++)
    if (strcmp(cli->files[0], stages[k].name) == 0)
      return k;
  if (cli->n_files < 2)
    cli_usage(cli, "say a stage and a file");
  else
    cli_usage(cli, "unknown stage '%s': parse, print, compile or run", cli->files[0]);
  return -1;
}

static int run(Cli *cli) {
  Bench b = {.cli = cli, .seconds = 0.5, .inputs.eval.no_checks = true};
  const int stage = find_stage(cli);
  if (stage < 0 || !cli_read_inputs(cli, &b.inputs) || !cli_read_threads(cli, &b.threads) ||
      !cli_integer(cli, "--repeats", 1, INT64_MAX, &b.repeats) ||
      !cli_number(cli, "--seconds", &b.seconds))
    return CLI_USAGE;
  cli->files++;
  cli->n_files--;
  CliFiles files;
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  for (int k = 0; k < files.n; k++) {
    bool skipped;
    const bool ok = bench_file(&b, stage, &files, k, &skipped);
    if (!skipped)
      status = cli_worse(status, cli_worse(cli_end_file(cli), ok ? CLI_OK : CLI_USAGE));
  }
  cli_end_report(cli);
  return cli_worse(status, cli_end_files(cli, &files));
}

static const CliOption options[] = {
    CLI_INPUT_OPTIONS,
    {"--threads", "N", "that share the work of a run (default: as many as this process may use)"},
    {"--repeats", "N", "repeat each stage so often"},
    {"--seconds", "S", "repeat each stage for so long (0.5)"},
    CLI_MODULE_OPTION,
    {NULL, NULL, NULL},
};

const CliCommand cli_bench = {
    .name = "bench",
    .usage = "parse|print|compile|run FILE...",
    .summary = "time the stages of reading and printing, compiling, running",
    .about =
        "Times from and to memory, freeing included: the least and the median of repeats.\n"
        "parse: reading. print: reading, verifying and printing, MLIR as MLIR. compile: what it "
        "takes to make\n"
        "a program for the processor (hilo run --platform=cpu) of the file's bytes, stage by "
        "stage. run: one\n"
        "run of the program in memory that the caller has laid out, in wall time and in "
        "processor time of all\n"
        "threads, what memory it takes, and how long the steps of one more run took.",
    .examples =
        "  hilo bench print m.hlo             how long reading, verifying and printing take\n"
        "  hilo bench run m.hlo --threads=1   how long a run takes on one thread\n",
    .options = options,
    .reports = true,
    .run = run,
};
