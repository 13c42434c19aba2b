// Dry runs along a pipeline: each pass dry, at the state that the pipeline has reached before it, twice. Both list the same,
// byte for byte; the module is what it was; of all opportunities together a sample is applied, each alone, by
// decision, and undone: the module is valid with it and computes the same.
//
//   property_dry                              the training steps of the corpus' jax/, cpu and gpu (skipped without a corpus)
//   property_dry FILE PIPELINE [SAMPLE]       how long the dry run of each pass takes as well, and the longest at the end
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/verify.h"
#include "spmd/local.h"
#include "support/image.h"
#include "support/passes.h"

enum { SKIPPED = 77, SAMPLE = 60 };

typedef struct Walk {
  HlCx *cx;
  const char *path, *target;
  HlModule *m;         // at the state reached
  HlModule *original;  // as read
  HlReplay inputs;
  HlLiteral **expected;
  bool prints;    // a line a pass
  int64_t every;  // each so many-th opportunity is applied; 0: none
  int64_t n_sites, n_tried, n_failures;
  double longest;
  char slowest[1024];
} Walk;

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .seed = 42, .no_checks = true};

static bool blame(Walk *w, const char *pass, const char *what) {
  fprintf(stderr, "%s, %s: %s\n", w->path, pass, what);
  w->n_failures++;
  return false;
}

static bool evaluate(Walk *w, const HlModule *m, HlLiteral **out) {
  return sp_eval_local(w->cx, m, w->original, &eval_options,
                       (const HlLiteral *const *const *)w->inputs.args, out);
}

static void drop(const Walk *w, HlLiteral **results) {
  for (int d = 0; d < w->inputs.devices; d++)
    hl_literal_unref(results[d]);
}

// --- One pass -----------------------------------------------------------------------------------

static void list(const HlEngine *engine, HlBuf *out) {
  int64_t n;
  const HlRewrite *all = hl_engine_rewrites(engine, &n);
  for (int64_t k = 0; k < n; k++)
    hl_buf_printf(out, "%s %s %s %s %s\n%s\n=>\n%s\n", all[k].pass, all[k].rule, all[k].comp,
                  all[k].inst, all[k].with, all[k].before, all[k].after);
}

static HlEngine *dry_run(Walk *w, const char *pass, double *seconds, HlBuf *out) {
  HlEngineOptions options = passes_options(pass, w->target);
  options.dry = true;
  HlEngine *engine = hl_engine_new(w->cx, &options);
  const double start = hl_now();
  if (!hl_engine_run(engine, w->m, pass))
    blame(w, pass, "the dry run fails");
  *seconds = hl_now() - start;
  list(engine, out);
  return engine;
}

// One opportunity alone, and back.
static void apply(Walk *w, const char *pass, const HlRewrite *site) {
  const HlDecision decision = {site->pass, site->rule, site->comp, site->inst, site->with};
  HlEngineOptions options = passes_options(pass, w->target);
  options.decisions = &decision;
  options.n_decisions = 1;
  char what[512];
  snprintf(what, sizeof what, "rule %s at %s in %s", site->rule, site->inst, site->comp);
  HlLiteral **actual = calloc((size_t)w->inputs.devices + 1, sizeof *actual);
  const HlEditMark mark = hl_mark(w->m);
  HlEngine *engine = hl_engine_new(w->cx, &options);
  w->n_tried++;
  if (!hl_engine_run(engine, w->m, pass))
    passes_blame(w->cx, what, pass, "fails");
  else if (!evaluate(w, w->m, actual))
    passes_blame(w->cx, what, pass, "what comes out does not run");
  else if (!passes_change_values(pass))
    for (int d = 0; d < w->inputs.devices; d++)
      if (!passes_same(w->cx, w->m, w->original, d, actual[d], w->expected[d])) {
        blame(w, pass, what);
        break;
      }
  drop(w, actual);
  free(actual);
  hl_engine_free(engine);
  hl_undo(w->m, mark);
  w->n_failures += hl_cx_n_errors(w->cx) > 0;
  hl_cx_clear(w->cx);
}

static void try_dry(Walk *w, const char *pass) {
  HlBuf once = {0}, again = {0};
  double first, second;
  hl_undo(w->m, hl_mark(w->m));
  const uint64_t before = image_hash(w->m);
  HlEngine *engine = dry_run(w, pass, &first, &once);
  hl_engine_free(dry_run(w, pass, &second, &again));
  if (once.n != again.n || (once.n > 0 && memcmp(once.at, again.at, once.n) != 0))
    blame(w, pass, "two dry runs differ");
  if (image_hash(w->m) != before)
    blame(w, pass, "the dry run has changed the module");
  int64_t n;
  const HlRewrite *sites = hl_engine_rewrites(engine, &n);
  for (int64_t k = 0; k < n; k++)
    if (w->every > 0 && (w->n_sites + k) % w->every == 0)
      apply(w, pass, &sites[k]);
  w->n_sites += n;
  if (first > w->longest) {
    w->longest = first;
    snprintf(w->slowest, sizeof w->slowest, "%s", pass);
  }
  if (w->prints)
    printf("%-60.60s %8lld %10.1f ms\n", pass, (long long)n, first * 1e3);
  fflush(stdout);
  hl_engine_free(engine);
  hl_buf_free(&once);
  hl_buf_free(&again);
}

// --- Along a pipeline -----------------------------------------------------------------------------

static bool run_for_good(Walk *w, const char *pass) {
  HlEngineOptions options = passes_options(pass, w->target);
  options.verify_each = false;
  HlEngine *engine = hl_engine_new(w->cx, &options);
  const bool ok = hl_engine_run(engine, w->m, pass) || passes_blame(w->cx, w->path, pass, "fails");
  hl_engine_free(engine);
  hl_cx_clear(w->cx);
  return ok;
}

static void walk(Walk *w, const HlPipelineItem *item) {
  if (item->condition && (w->m->num_partitions > 1) == item->unless)
    return;
  for (int k = 0; k < item->n; k++)
    walk(w, &item->items[k]);
  if (!item->pass)
    return;
  char pass[1024];
  snprintf(pass, sizeof pass, item->args ? "%s{%s}" : "%s", item->name, item->args);
  if (!passes_complain(item->name) && !passes_lose_devices(w->m, item->name)) {
    try_dry(w, pass);
    w->n_failures += !run_for_good(w, pass);
  }
}

// All opportunities, or a sample of about so many of `n`.
static bool walk_all(Walk *w, int64_t n, int64_t sample) {
  HlArena *arena = hl_arena_new();
  const HlPipelineItem *all = hl_pipeline_parse(w->cx, arena, &hl_passes, &hl_pipelines, w->target);
  w->m = hl_clone(w->cx, w->original);
  w->every = sample > 0 ? n / sample + 1 : 0;
  w->n_sites = 0;
  if (all && w->m)
    walk(w, all);
  hl_module_free(w->m);
  hl_arena_free(arena);
  return all != NULL;
}

static bool prepare(Walk *w, const HlRecorded *recorded, const char *args) {
  const HlReplayOptions how = {.args = args, .seed = 42, .eval = eval_options};
  if (!hl_replay_inputs(w->cx, w->original, recorded, &how, &w->inputs))
    return false;
  w->expected = calloc((size_t)w->inputs.devices + 1, sizeof *w->expected);
  return evaluate(w, w->original, w->expected);
}

static int64_t run_file(const char *path, const char *args, const char *pipeline, int64_t sample,
                        bool prints) {
  Walk w = {.cx = hl_cx_new(), .path = path, .target = pipeline, .prints = prints};
  HlFile file = {0};
  if (!hl_load(w.cx, path, NULL, &file) || file.n == 0)
    passes_blame(w.cx, path, pipeline, "cannot be read");
  w.original = file.n > 0 ? file.modules[0] : NULL;
  if (w.original) {
    walk_all(&w, 0, 0);
    const int64_t n = w.n_sites;
    w.prints = false;
    if (sample > 0 && (prepare(&w, &file.recorded, args) ||
                       passes_blame(w.cx, path, pipeline, "does not run as it is")))
      walk_all(&w, n, sample);
    printf("%s, %s: %lld opportunities, %lld of them applied, %lld failures; the longest dry run "
           "%.1f ms (%s)\n",
           path, pipeline, (long long)n, (long long)w.n_tried, (long long)w.n_failures,
           w.longest * 1e3, w.slowest);
    if (w.expected)
      drop(&w, w.expected);
    free(w.expected);
    hl_replay_free(&w.inputs);
  }
  const int64_t failures = w.n_failures + (w.n_sites == 0);
  hl_file_free(&file);
  hl_cx_free(w.cx);
  return failures;
}

int main(int argc, char **argv) {
  if (argc > 2)
    return run_file(argv[1], NULL, argv[2], argc > 3 ? atoll(argv[3]) : 0, true) > 0;
  static const char *const programs[] = {"mlp_value_and_grad", "cnn_train_step"};
  const char *corpus = getenv("HILO_CORPUS");
  int64_t failures = 0;
  if (!corpus || access(corpus, R_OK) != 0) {
    printf("skipped: no corpus; set HILO_CORPUS\n");
    return SKIPPED;
  }
  for (int k = 0; k < HL_COUNT_OF(programs); k++) {
    char path[4096], args[4096];
    snprintf(path, sizeof path, "%.4000s/jax/%s/before.hlo", corpus, programs[k]);
    snprintf(args, sizeof args, "%.4000s/jax/%s/args.npz", corpus, programs[k]);
    const bool has_args = access(args, R_OK) == 0;
    failures += run_file(path, has_args ? args : NULL, "cpu", SAMPLE, false);
    failures += run_file(path, has_args ? args : NULL, "gpu", SAMPLE, false);
  }
  return failures > 0;
}
