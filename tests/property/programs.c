// Passes keep what real programs compute: each pass alone and each pipeline over the corpus' JAX programs,
// a tenth of its snapshots, on the inputs recorded with them, and some of the optimised modules in its dumps, on made-up
// ones; the verifier after every pass.
//
//   property_programs                      all of it (skipped without a corpus)
//   property_programs --optimised [LIST]   all optimised modules of the corpus; with LIST their names alone
//   property_programs PASS|- FILE...       one pass or pipeline (-: all) on files; FILE.npz beside or args.npz: inputs
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hilo/opt.h"
#include "hilo/replay.h"
#include "spmd/local.h"
#include "support/corpus.h"
#include "support/passes.h"

enum { SKIPPED = 77, EVERY = 10, MAX_INSTRUCTIONS = 3000, LEAST = 100 };
enum { EVERY_OPTIMISED = 24, MAX_BYTES = 64 << 10, MAX_HEAD = 1 << 16, DEPTH = 6 };

typedef struct Program {
  HlCx *cx;
  const char *path;
  HlModule *m;
  HlReplay inputs;
  HlLiteral **expected;  // by device
} Program;

typedef struct Count {
  int asked, run;
} Count;

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .seed = 42};

static bool evaluate(Program *p, const HlModule *m, HlLiteral **out) {
  return sp_eval_local(p->cx, m, p->m, &eval_options,
                       (const HlLiteral *const *const *)p->inputs.args, out);
}

static void drop(Program *p, HlLiteral **results) {
  for (int d = 0; d < p->inputs.devices; d++)
    hl_literal_unref(results[d]);
}

static bool same(const Program *p, const HlModule *m, HlLiteral *const *actual) {
  for (int d = 0; d < p->inputs.devices; d++)
    if (!passes_same(p->cx, m, p->m, d, actual[d], p->expected[d]))
      return false;
  return true;
}

static bool may_differ(const char *passes) {
  const bool draws_anew = strcmp(passes, "rng-expander") == 0;
  return draws_anew || passes_change_values(passes);
}

static bool run(Program *p, const char *passes, const char *target) {
  if (passes_lose_devices(p->m, passes))
    return true;
  const HlEngineOptions options = passes_options(passes, target);
  HlModule *copy = passes_copy_for(p->cx, p->m, passes);
  HlEngine *engine = hl_engine_new(p->cx, &options);
  HlLiteral **actual = calloc((size_t)p->inputs.devices + 1, sizeof *actual);
  bool ok = true;
  if (!hl_engine_run(engine, copy, passes))
    ok = passes_blame(p->cx, p->path, passes, "the pass fails");
  else if (!evaluate(p, copy, actual))
    ok = passes_blame(p->cx, p->path, passes, "what comes out does not run");
  else if (!may_differ(passes) && !same(p, copy, actual))
    ok = passes_blame(p->cx, p->path, passes, "the result changes");
  drop(p, actual);
  free(actual);
  hl_engine_free(engine);
  hl_module_free(copy);
  hl_cx_clear(p->cx);
  return ok;
}

// --- Programs -----------------------------------------------------------------------------------

static int run_all(Program *p, const char *only) {
  static const char *const targets[] = {"cpu", "gpu"};
  int failures = 0;
  for (int k = 0; k < hl_passes.n; k++)
    if (passes_complain(hl_passes.at[k].name))
      continue;
    else if (!only || strcmp(only, hl_passes.at[k].name) == 0)
      for (int t = 0; t < 2; t++)
        failures += !run(p, hl_passes.at[k].name, targets[t]);
  for (int k = 0; k < hl_pipelines.n; k++)
    if (!only || strcmp(only, hl_pipelines.at[k].name) == 0)
      failures += !run(p, hl_pipelines.at[k].name, hl_pipelines.at[k].name);
  return failures;
}

// Programs that do not run as they are (no kernel for a call) are not asked about.
static int run_file(const char *path, const char *args, const char *only, Count *n) {
  Program p = {.cx = hl_cx_new(), .path = path};
  HlFile file = {0};
  int failures = 0;
  bool has_args = args && access(args, R_OK) == 0;
  const HlReplayOptions how = {.args = has_args ? args : NULL, .seed = 42, .eval = eval_options};
  if (hl_load(p.cx, path, NULL, &file) && file.n == 1 &&
      hl_count_instructions(file.modules[0]) <= MAX_INSTRUCTIONS) {
    p.m = file.modules[0];
    bool ok = hl_replay_inputs(p.cx, p.m, &file.recorded, &how, &p.inputs);
    p.expected = calloc((size_t)p.inputs.devices + 1, sizeof *p.expected);
    if (ok && evaluate(&p, p.m, p.expected)) {
      n->run++;
      hl_cx_clear(p.cx);
      failures = run_all(&p, only);
    }
    drop(&p, p.expected);
    free(p.expected);
    hl_replay_free(&p.inputs);
  }
  n->asked++;
  hl_file_free(&file);
  hl_cx_free(p.cx);
  return failures;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **list(const char *folder, int *n) {
  DIR *dir = opendir(folder);
  char **names = NULL;
  *n = 0;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.')
      continue;
    names = realloc(names, sizeof *names * (size_t)(*n + 1));
    names[*n] = malloc(strlen(folder) + strlen(e->d_name) + 2);
    sprintf(names[(*n)++], "%s/%s", folder, e->d_name);
  }
  if (dir)
    closedir(dir);
  if (names)
    qsort(names, (size_t)*n, sizeof *names, by_name);
  return names;
}

static void free_list(char **names, int n) {
  for (int k = 0; k < n; k++)
    free(names[k]);
  free(names);
}

static int run_jax(const char *corpus, Count *n) {
  char folder[4096], path[4096], args[4096];
  snprintf(folder, sizeof folder, "%s/jax", corpus);
  int n_cases, failures = 0;
  char **cases = list(folder, &n_cases);
  for (int k = 0; k < n_cases; k++) {
    snprintf(path, sizeof path, "%.4000s/before.hlo", cases[k]);
    snprintf(args, sizeof args, "%.4000s/args.npz", cases[k]);
    failures += run_file(path, args, NULL, n);
  }
  free_list(cases, n_cases);
  return failures;
}

static int run_snapshots(const char *corpus, Count *n) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/jax_tests", corpus);
  int n_suites, failures = 0, count = 0;
  char **suites = list(folder, &n_suites);
  for (int s = 0; s < n_suites; s++) {
    int n_files;
    char **files = list(suites[s], &n_files);
    for (int k = 0; k < n_files; k++)
      if (count++ % EVERY == 0)
        failures += run_file(files[k], NULL, NULL, n);
    free_list(files, n_files);
  }
  free_list(suites, n_suites);
  return failures;
}

// --- Optimised modules ----------------------------------------------------------------------------

// The header says that there is a schedule, which is the last thing that a compiler adds.
static bool is_optimised(const char *path) {
  char head[MAX_HEAD + 1] = "";
  FILE *f = fopen(path, "rb");
  const size_t n = f ? fread(head, 1, MAX_HEAD, f) : 0;
  if (f)
    fclose(f);
  head[n] = 0;
  head[strcspn(head, "\n")] = 0;
  return strncmp(head, "HloModule", 9) == 0 && strstr(head, "is_scheduled=true");
}

typedef void Visit(void *user, const char *path);

static void each_optimised(const char *folder, int depth, Visit *visit, void *user) {
  int n;
  char **names = list(folder, &n);
  for (int k = 0; k < n; k++) {
    struct stat st;
    if (stat(names[k], &st) != 0)
      continue;
    if (S_ISDIR(st.st_mode) && depth < DEPTH)
      each_optimised(names[k], depth + 1, visit, user);
    else if (S_ISREG(st.st_mode) && st.st_size <= MAX_BYTES && is_optimised(names[k]))
      visit(user, names[k]);
  }
  free_list(names, n);
}

typedef struct Optimised {
  Count *count;
  int every, met, failures;
  bool lists;
} Optimised;

static void run_optimised(void *user, const char *path) {
  Optimised *o = user;
  if (o->lists)
    puts(path);
  else if (o->met++ % o->every == 0)
    o->failures += run_file(path, NULL, NULL, o->count);
}

int main(int argc, char **argv) {
  Count n = {0};
  int failures = 0, least = 1;
  if (argc > 1 && strcmp(argv[1], "--optimised") == 0) {
    const char *corpus = test_corpus();
    Optimised o = {.count = &n, .every = 1, .lists = argc > 2};
    if (!corpus)
      return SKIPPED;
    each_optimised(corpus, 0, run_optimised, &o);
    if (o.lists)
      return 0;
    failures = o.failures;
  } else if (argc > 2) {
    for (int k = 2; k < argc; k++)
      failures += run_file(argv[k], NULL, strcmp(argv[1], "-") == 0 ? NULL : argv[1], &n);
  } else {
    const char *corpus = test_corpus();
    if (!corpus)
      return SKIPPED;
    Optimised o = {.count = &n, .every = EVERY_OPTIMISED};
    failures = run_jax(corpus, &n) + run_snapshots(corpus, &n);
    each_optimised(corpus, 0, run_optimised, &o);
    failures += o.failures;
    least = LEAST;
  }
  printf("%d programs (%d do not run as they are or are too large), %d passes, %d pipelines: %d "
         "failures\n",
         n.run, n.asked - n.run, hl_passes.n, hl_pipelines.n, failures);
  return failures > 0 || n.run < least;
}
