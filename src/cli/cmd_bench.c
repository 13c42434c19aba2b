// hilo bench: times the stages of working on a module, from and to memory, on one thread.
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cli/json.h"
#include "cli/select.h"
#include "hilo/text.h"
#include "hilo/verify.h"

enum { MAX_REPEATS = 1000 };

typedef struct Times {
  double at[MAX_REPEATS];
  int n;
} Times;

typedef struct Bench {
  Cli *cli;
  const char *path;
  HlSource *source;
  HlModule *m;     // the one that print and verify work on,
  HlMlTree *tree;  // or the tree, of MLIR, which is not made HLO here
  bool failed;
} Bench;

static const HlLoadOptions how = {.trees_only = true, .consts_as_parameters = true};

static void time_parse(Bench *b) {
  HlFile file;
  if (!hl_load_source(b->cli->cx, b->source, &how, &file))
    b->failed = true;
  hl_file_free(&file);
}

static void time_print(Bench *b) {
  HlTextOptions options = {0};
  HlMlTextOptions of_tree = {.large_constants = true};
  HlBuf out = {0};
  if (b->tree)
    hl_ml_text_print(b->tree, &of_tree, &out);
  else
    hl_text_print(b->cli->cx, b->m, &options, &out);
  hl_buf_free(&out);
}

static void time_verify(Bench *b) {
  if (!(b->tree ? hl_ml_verify(b->cli->cx, b->tree) : hl_verify(b->cli->cx, b->m, NULL)))
    hl_cx_clear(b->cli->cx);
}

// Instructions of a module, ops of a tree.
static int64_t size_of(const Bench *b) {
  int64_t n_functions;
  return b->tree ? hl_ml_count_ops(b->tree, &n_functions) : hl_count_instructions(b->m);
}

static const struct {
  const char *name;
  void (*run)(Bench *);
} stages[] = {{"parse", time_parse}, {"print", time_print}, {"verify", time_verify}};

// Repeats for at least five times and half a second, at most MAX_REPEATS times.
static void repeat(Bench *b, void (*run)(Bench *), Times *times) {
  double start = hl_now();
  times->n = 0;
  do {
    double before = hl_now();
    run(b);
    times->at[times->n++] = hl_now() - before;
  } while (!b->failed && times->n < MAX_REPEATS && (times->n < 5 || hl_now() - start < 0.5));
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void time_json(HlBuf *out, const char *stage, const char *what, double ms) {
  char key[32];
  snprintf(key, sizeof key, "%s%s_ms", stage, what);
  json_number(out, key, ms);
}

static void bench_stages(Bench *b, int n_stages) {
  static const int order[] = {0, 2, 1};  // parse, verify, print
  HlBuf *json = &b->cli->report;
  if (b->cli->json) {
    json_int(json, "bytes", (int64_t)hl_source_bytes(b->source).n);
    json_int(json, "instructions", size_of(b));
  }
  if (!b->cli->json)
    printf("%s\n", b->path);
  for (int k = 0; k < n_stages; k++) {
    int stage = n_stages == 1 ? 0 : order[k];
    Times times;
    repeat(b, stages[stage].run, &times);
    qsort(times.at, (size_t)times.n, sizeof(double), by_value);
    double best = times.at[0] * 1e3, median = times.at[times.n / 2] * 1e3;
    if (b->cli->json) {
      time_json(json, stages[stage].name, "", best);
      time_json(json, stages[stage].name, "_median", median);
    } else {
      base_fprintf(stdout, "  %-7s %9.3f ms best, %9.3f ms median of %d\n", stages[stage].name,
                   best, median, times.n);
    }
  }
}

// False after reporting, or when the file is skipped.
static bool bench_file(Cli *cli, CliFiles *files, int k, int n_stages, bool *skipped) {
  const char *path = files->at[k].at;
  Bench b = {.cli = cli, .path = path};
  HlFile file = {0};
  const bool loaded = cli_load(cli, files, k, &how, &file, skipped);
  if (!*skipped)
    cli_begin_file(cli, path);
  b.source = loaded ? hl_read_file(cli->cx, path) : NULL;
  b.tree = b.source && file.n_trees > 0 ? file.trees[0] : NULL;
  b.m = b.source && !b.tree ? cli_select(cli, &file, path) : NULL;
  const bool ok = b.tree || b.m;
  if (ok)
    bench_stages(&b, n_stages);
  if (loaded)
    hl_file_free(&file);
  hl_source_unref(b.source);
  return ok;
}

static int run(Cli *cli) {
  if (cli->n_files < 2)
    return cli_usage(cli, "say a stage and a file");
  int n_stages = strcmp(cli->files[0], "parse") == 0   ? 1
                 : strcmp(cli->files[0], "print") == 0 ? 3
                                                       : 0;
  if (n_stages == 0)
    return cli_usage(cli, "unknown stage '%s': parse or print", cli->files[0]);
  cli->files++;
  cli->n_files--;
  CliFiles files;
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  for (int k = 0; k < files.n; k++) {
    bool skipped;
    const bool ok = bench_file(cli, &files, k, n_stages, &skipped);
    if (!skipped)
      status = cli_worse(status, cli_worse(cli_end_file(cli), ok ? CLI_OK : CLI_USAGE));
  }
  cli_end_report(cli);
  return cli_worse(status, cli_end_files(cli, &files));
}

static const CliOption options[] = {CLI_MODULE_OPTION, {NULL, NULL, NULL}};

const CliCommand cli_bench = {
    .name = "bench",
    .usage = "parse|print FILE...",
    .summary = "time the stages of reading and printing",
    .about = "Times each stage up to the one named, from and to memory, freeing included, on one "
             "thread: best and\n"
             "median of repeats. MLIR is\n"
             "read, verified and printed as MLIR.",
    .examples =
        "  hilo bench print m.hlo             how long reading, verifying and printing take\n",
    .options = options,
    .reports = true,
    .run = run,
};
