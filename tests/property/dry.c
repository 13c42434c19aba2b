// Dry runs along a pipeline: each pass dry, at the state that the pipeline has reached before it, twice. Both list the same,
// byte for byte; the module is what it was; of all opportunities together a sample is applied, each alone, by
// decision, and undone: the module is valid with it and computes the same. With some of them the first result is negated
// as well, which has to show: values in which that cannot be seen judge nothing.
//
// What is computed is all that the module gives, on the interpreter; what was computed before is not computed again
// (support/memo.h). It is compared twice: with what the module gave as it was read, as every test of passes does, and with what it gives
// at the state reached, within a part of the largest element of each array, so that small arrays count as much as large ones.
//
//   property_dry                              the training steps of the corpus' jax/, cpu and gpu (skipped without a corpus)
//   property_dry FILE PIPELINE [SAMPLE [NPZ]] how long the dry run of each pass takes as well, and the longest at the end;
//                                             NPZ: arguments, a0, a1, ..., instead of made up ones
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/verify.h"
#include "spmd/local.h"
#include "spmd/whole.h"
#include "support/image.h"
#include "support/memo.h"
#include "support/passes.h"

// Of those applied, every so many-th is made wrong, too.
enum { SKIPPED = 77, SAMPLE = 60, WRONG = 8 };

// What became of those applied.
typedef struct Tally {
  int64_t exact, near;  // the same bits; others, within the bounds of rounding
  int64_t different, failed;
  int64_t not_allowed;  // the pass did not meet the opportunity again
  int64_t other;        // the pass is there to change values: it has run, and no more
  int64_t wrong, seen;  // made wrong, and of these seen
  double worst;         // of `near`, as a part of the array's largest element
} Tally;

typedef struct Walk {
  HlCx *cx;
  const char *path, *target;
  HlModule *m;         // at the state reached
  HlModule *original;  // as read
  HlReplay inputs;
  HlLiteral **expected;  // by device: what the module gave as it was read,
  HlLiteral **reached;   // and what it gives at the state reached, once something is applied there
  bool knows_reached;
  Memo *memo;
  bool prints;    // a line a pass
  int64_t every;  // each so many-th opportunity is applied, and each pass's first; 0: none
  int64_t n_sites, n_tried, n_failures;
  Tally tally;
  double longest;
  char slowest[1024];
} Walk;

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .seed = 42, .no_checks = true};

static bool blame(Walk *w, const char *pass, const char *what) {
  fprintf(stderr, "%s, %s: %s\n", w->path, pass, what);
  w->n_failures++;
  return false;
}

// --- Values -------------------------------------------------------------------------------------

static bool plainly(Walk *w, const HlModule *m, HlLiteral **out) {
  return sp_eval_local(w->cx, m, w->original, &eval_options,
                       (const HlLiteral *const *const *)w->inputs.args, out);
}

typedef struct Remembering {
  Memo *memo;
  const HlModule *m;
} Remembering;

static bool remembering(HlCx *cx, void *user, const HlLiteral *const *const *args,
                        HlLiteral **results) {
  const Remembering *r = user;
  results[0] = memo_run(r->memo, cx, r->m, &eval_options, args[0]);
  return results[0] != NULL;
}

static bool evaluate(Walk *w, const HlModule *m, HlLiteral **out) {
  if (!memo_takes(m) || sp_has_borders(m))
    return plainly(w, m, out);
  return sp_run_local(w->cx, m, w->original, &eval_options, remembering, &(Remembering){w->memo, m},
                      (const HlLiteral *const *const *)w->inputs.args, out);
}

static HlLiteral **new_results(const Walk *w) {
  return calloc((size_t)w->inputs.devices + 1, sizeof(HlLiteral *));
}

static void drop(const Walk *w, HlLiteral **results) {
  for (int d = 0; results && d < w->inputs.devices; d++)
    hl_literal_unref(results[d]);
  free(results);
}

static bool same_bits(const Walk *w, HlLiteral *const *a, HlLiteral *const *b) {
  for (int d = 0; d < w->inputs.devices; d++)
    if (!hl_literal_equal(a[d], b[d]))
      return false;
  return true;
}

// How far apart two numbers are: nothing and infinitely, where one is no finite number.
static double apart(double a, double b) {
  if (isfinite(a) && isfinite(b))
    return fabs(a - b);
  return a == b || (isnan(a) && isnan(b)) ? 0 : (double)INFINITY;
}

static double far_array(const HlLiteral *a, const HlLiteral *b) {
  const bool counts = hl_is_float(b->shape->dtype) || hl_is_complex(b->shape->dtype);
  double most = 0, far = 0;
  for (int64_t k = 0; k < b->n; k++) {
    const double re = hl_literal_f64(b, k), im = hl_literal_imag(b, k);
    most = isfinite(re) ? fmax(most, fabs(re)) : most;
    most = isfinite(im) ? fmax(most, fabs(im)) : most;
    far = fmax(far, apart(hl_literal_f64(a, k), re));
    far = fmax(far, apart(hl_literal_imag(a, k), im));
  }
  return far == 0 ? 0 : !counts ? (double)INFINITY : most > 0 ? far / most : far;
}

// The largest difference of two arrays' elements, as a part of the largest element; of tuples the largest of their arrays.
static double far(const HlLiteral *a, const HlLiteral *b) {
  if (!hl_shape_compatible(a->shape, b->shape))
    return (double)INFINITY;
  double most = hl_shape_is_array(b->shape) ? far_array(a, b) : 0;
  for (int k = 0; b->element && k < b->shape->rank; k++)
    most = fmax(most, far(a->element[k], b->element[k]));
  return most;
}

static double bound_of(const HlShape *shape) {
  double bound = hl_shape_is_array(shape) && hl_dtype_info[shape->dtype].bits < 32 ? 5e-2 : 1e-4;
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    bound = fmax(bound, bound_of(shape->element[k]));
  return bound;
}

// Whether the values are those of the state reached, and those of the module as it was read.
static bool judge(Walk *w, HlLiteral *const *actual, bool *exact, double *most) {
  *most = 0;
  *exact = same_bits(w, actual, w->reached);
  if (*exact)
    return true;
  for (int d = 0; d < w->inputs.devices; d++) {
    *most = fmax(*most, far(actual[d], w->reached[d]));
    if (*most > bound_of(w->reached[d]->shape) ||
        !passes_same(w->cx, w->m, w->original, d, actual[d], w->expected[d]))
      return false;
  }
  return true;
}

// What the module gives at the state reached, found in both ways.
static bool know_reached(Walk *w, const char *pass) {
  if (w->knows_reached)
    return true;
  w->knows_reached = true;
  drop(w, w->reached);
  w->reached = new_results(w);
  HlLiteral **again = new_results(w);
  bool ok = evaluate(w, w->m, w->reached) && plainly(w, w->m, again);
  if (!ok)
    passes_blame(w->cx, w->path, pass, "the state before it does not run");
  else if (!same_bits(w, w->reached, again))
    ok = blame(w, pass, "what is remembered is not what hl_eval gives");
  for (int d = 0; ok && d < w->inputs.devices; d++)
    if (!passes_same(w->cx, w->m, w->original, d, w->reached[d], w->expected[d]))
      ok = blame(w, pass, "the state before it gives something else");
  drop(w, again);
  memo_keep(w->memo);
  w->n_failures += !ok;
  return ok;
}

typedef struct Census {
  int64_t leaves, flat, n, infinite, zero;
} Census;

static void count(const HlLiteral *value, Census *c) {
  for (int k = 0; value->element && k < value->shape->rank; k++)
    count(value->element[k], c);
  if (!hl_shape_is_array(value->shape) || value->n == 0)
    return;
  int64_t same = 0, zero = 0;
  for (int64_t k = 0; k < value->n; k++) {
    const double x = hl_literal_f64(value, k);
    c->infinite += !isfinite(x) || !isfinite(hl_literal_imag(value, k));
    zero += x == 0;
    same += x == hl_literal_f64(value, 0);
  }
  c->leaves++;
  c->zero += zero;
  c->flat += value->n > 1 && same == value->n;
  c->n += value->n;
}

// Values that are no numbers, or all the same, judge nothing.
static bool look_at_expected(Walk *w) {
  Census c = {0};
  for (int d = 0; d < w->inputs.devices; d++)
    count(w->expected[d], &c);
  printf(
      "%s: %lld arrays of %lld elements come out, of which %lld are no finite numbers and %lld 0; "
      "%lld arrays have only one value\n",
      w->path, (long long)c.leaves, (long long)c.n, (long long)c.infinite, (long long)c.zero,
      (long long)c.flat);
  return (c.infinite * 100 <= c.n && c.flat * 4 <= c.leaves) ||
         blame(w, w->target, "too few of the values say anything");
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

// One opportunity alone: whether the pass ran and met it. With `wrong`, its first result is negated.
static HlEngine *run_alone(Walk *w, const char *pass, const HlRewrite *site, bool wrong) {
  const HlDecision decision = {site->pass, site->rule, site->comp, site->inst, site->with};
  HlEngineOptions options = passes_options(pass, w->target);
  options.decisions = &decision;
  options.n_decisions = 1;
  options.break_rule = wrong ? site->rule : NULL;
  HlEngine *engine = hl_engine_new(w->cx, &options);
  if (hl_engine_run(engine, w->m, pass))
    return engine;
  hl_engine_free(engine);
  return NULL;
}

static void judge_alone(Walk *w, const char *pass, const char *what) {
  HlLiteral **actual = new_results(w);
  bool exact;
  double most;
  if (!evaluate(w, w->m, actual)) {
    w->tally.failed++;
    passes_blame(w->cx, what, pass, "what comes out does not run");
  } else if (passes_change_values(pass)) {
    w->tally.other++;
  } else if (!judge(w, actual, &exact, &most)) {
    w->tally.different++;
    fprintf(stderr, "%g of the largest element apart\n", most);
    blame(w, pass, what);
  } else {
    (*(exact ? &w->tally.exact : &w->tally.near))++;
    w->tally.worst = fmax(w->tally.worst, most);
  }
  drop(w, actual);
}

// Back to the state before, whatever was reported.
static void take_back(Walk *w, HlEditMark mark, HlEngine *engine) {
  hl_engine_free(engine);
  hl_undo(w->m, mark);
  memo_trim(w->memo);
  hl_cx_clear(w->cx);
}

static void apply(Walk *w, const char *pass, const HlRewrite *site) {
  char what[512];
  snprintf(what, sizeof what, "rule %s at %s in %s", site->rule, site->inst, site->comp);
  const HlEditMark mark = hl_mark(w->m);
  HlEngine *engine = run_alone(w, pass, site, false);
  w->n_tried++;
  if (!engine) {
    w->tally.failed++;
    passes_blame(w->cx, what, pass, "fails");
  } else if (!hl_engine_decided(engine, 0)) {
    w->tally.not_allowed++;
  } else {
    judge_alone(w, pass, what);
  }
  w->n_failures += hl_cx_n_errors(w->cx) > 0;
  take_back(w, mark, engine);
}

// The same with a wrong result, which has to show in the values, or in that there are none.
static void apply_wrong(Walk *w, const char *pass, const HlRewrite *site) {
  if (passes_change_values(pass))
    return;
  const HlEditMark mark = hl_mark(w->m);
  HlEngine *engine = run_alone(w, pass, site, true);
  if (engine && hl_engine_broke(engine)) {
    HlLiteral **actual = new_results(w);
    bool exact;
    double most;
    w->tally.wrong++;
    const bool seen = !evaluate(w, w->m, actual) || !judge(w, actual, &exact, &most);
    w->tally.seen += seen;
    if (!seen && w->every > 0)
      fprintf(stderr, "%s: rule %s at %s in %s made wrong is not seen (%g apart)\n", pass,
              site->rule, site->inst, site->comp, most);
    drop(w, actual);
  }
  take_back(w, mark, engine);
}

static void try_site(Walk *w, const char *pass, const HlRewrite *site) {
  if (!know_reached(w, pass))
    return;
  apply(w, pass, site);
  if (w->n_tried % WRONG == 0)
    apply_wrong(w, pass, site);
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
    if (w->every > 0 && (k == 0 || (w->n_sites + k) % w->every == 0))
      try_site(w, pass, &sites[k]);
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
    w->knows_reached = false;
  }
}

// All opportunities, or a sample of about so many of `n`.
static bool walk_all(Walk *w, int64_t n, int64_t sample) {
  HlArena *arena = hl_arena_new();
  const HlPipelineItem *all = hl_pipeline_parse(w->cx, arena, &hl_passes, &hl_pipelines, w->target);
  w->m = hl_clone(w->cx, w->original);
  w->every = sample > n ? 1 : sample > 0 ? n / sample : 0;
  w->n_sites = 0;
  w->knows_reached = false;
  if (all && w->m)
    walk(w, all);
  hl_module_free(w->m);
  hl_arena_free(arena);
  return all != NULL;
}

static bool prepare(Walk *w, const HlRecorded *recorded, const char *args) {
  const HlReplayOptions how = {.args = args, .seed = 42, .eval = eval_options};
  if (!hl_replay_inputs(w->cx, w->original, recorded, &how, &w->inputs))
    return passes_blame(w->cx, w->path, w->target, "there is no input");
  w->expected = new_results(w);
  return (plainly(w, w->original, w->expected) ||
          passes_blame(w->cx, w->path, w->target, "does not run as it is")) &&
         look_at_expected(w);
}

static void print_tally(const Walk *w) {
  const Tally *t = &w->tally;
  const MemoCounts counts = memo_counts(w->memo);
  printf(
      "%s, %s: %lld applied: %lld the same bits, %lld near (at most %.2g apart), %lld different, "
      "%lld "
      "fail, %lld not met again, %lld by passes that change values; %lld made wrong, %lld of them "
      "seen; %lld of %lld instructions computed\n",
      w->path, w->target, (long long)w->n_tried, (long long)t->exact, (long long)t->near, t->worst,
      (long long)t->different, (long long)t->failed, (long long)t->not_allowed, (long long)t->other,
      (long long)t->wrong, (long long)t->seen, (long long)counts.n_computed, (long long)counts.n);
}

static int64_t run_file(const char *path, const char *args, const char *pipeline, int64_t sample,
                        bool prints) {
  Walk w = {
      .cx = hl_cx_new(), .path = path, .target = pipeline, .prints = prints, .memo = memo_new()};
  HlFile file = {0};
  if (!hl_load(w.cx, path, NULL, &file) || file.n == 0)
    passes_blame(w.cx, path, pipeline, "cannot be read");
  w.original = file.n > 0 ? file.modules[0] : NULL;
  if (w.original) {
    walk_all(&w, 0, 0);
    const int64_t n = w.n_sites;
    w.prints = false;
    if (sample > 0 && prepare(&w, &file.recorded, args))
      walk_all(&w, n, sample);
    w.n_failures += sample > 0 && w.n_tried == 0;
    if (w.tally.seen * 2 < w.tally.wrong)
      blame(&w, pipeline, "too little of what is wrong is seen");
    printf("%s, %s: %lld opportunities, %lld of them applied, %lld failures; the longest dry run "
           "%.1f ms (%s)\n",
           path, pipeline, (long long)n, (long long)w.n_tried, (long long)w.n_failures,
           w.longest * 1e3, w.slowest);
    if (sample > 0)
      print_tally(&w);
    drop(&w, w.expected);
    drop(&w, w.reached);
    hl_replay_free(&w.inputs);
  }
  const int64_t failures = w.n_failures + (w.n_sites == 0);
  memo_free(w.memo);
  hl_file_free(&file);
  hl_cx_free(w.cx);
  return failures;
}

int main(int argc, char **argv) {
  if (argc > 2)
    return run_file(argv[1], argc > 4 ? argv[4] : NULL, argv[2], argc > 3 ? atoll(argv[3]) : 0,
                    true) > 0;
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
