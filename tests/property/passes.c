// Passes keep what random modules compute (modules with every op, and modules full of algebra): each pass alone, each opportunity of its dry run alone, each pipeline.
//
//   property_passes                       MODULES modules
//   property_passes COUNT FIRST [PASS]    modules of seeds FIRST to FIRST + COUNT - 1, one pass or pipeline only
//   property_passes --module SEED         writes the module of a seed; `hilo opt FILE --passes=PASS
//                                         --check-each --seed=SEED` then names the rewrite at fault
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "spmd/local.h"
#include "support/gen_algebra.h"
#include "support/passes.h"
#include "support/property.h"

enum { MODULES = 240, OPPORTUNITIES = 40, MAX_DEVICES = 64 };

typedef struct Program {
  HlCx *cx;
  HlModule *m;
  HlLiteral **args;
  int devices;
  HlLiteral *expected[MAX_DEVICES];
  uint64_t seed;
} Program;

// How much was done: modules that run, runs of a pass or pipeline, opportunities taken alone.
typedef struct Count {
  int64_t modules, runs, sites;
} Count;

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .no_checks = true};

static bool evaluate(Program *p, const HlModule *m, HlLiteral **out) {
  const HlLiteral *const *args[MAX_DEVICES];
  for (int d = 0; d < p->devices; d++)
    args[d] = (const HlLiteral *const *)p->args;
  return sp_eval_local(p->cx, m, p->m, &eval_options, args, out);
}

static bool same(const Program *p, const HlModule *m, HlLiteral *const *actual) {
  for (int d = 0; d < p->devices; d++)
    if (!passes_same(p->cx, m, p->m, d, actual[d], p->expected[d]))
      return false;
  return true;
}

static void drop(const Program *p, HlLiteral **results) {
  for (int d = 0; d < p->devices; d++)
    hl_literal_unref(results[d]);
}

static void program_free(Program *p) {
  for (int k = 0; p->args && k < p->m->entry->n_params; k++)
    hl_literal_unref(p->args[k]);
  free(p->args);
  drop(p, p->expected);
  hl_module_free(p->m);
  hl_cx_free(p->cx);
}

static HlModule *module_of(HlCx *cx, uint64_t seed) {
  GenOptions options = property_options(seed / 2, true);
  return seed % 2 ? gen_algebra(cx, seed, 30 + (int)(seed % 50)) : gen_module(cx, &options);
}

// False when the seed gives no module that runs.
static bool program_new(Program *p, uint64_t seed) {
  *p = (Program){.cx = hl_cx_new(), .seed = seed};
  hl_cx_limits(p->cx)->eval_steps = 2000000;
  p->m = module_of(p->cx, seed);
  if (!p->m)
    return false;
  const int devices = hl_eval_devices(p->m, &eval_options);
  if (devices > MAX_DEVICES)
    return false;
  p->devices = devices;
  p->args = calloc((size_t)p->m->entry->n_params + 1, sizeof *p->args);
  if (!hl_fake_args(p->cx, p->m, seed, p->args) || !evaluate(p, p->m, p->expected)) {
    hl_cx_clear(p->cx);
    return false;
  }
  return true;
}

// --- One run ------------------------------------------------------------------------------------

// Says what is wrong: false.
static bool blame(const Program *p, const char *passes, const char *what, const HlRewrite *r) {
  char program[64], where[512] = "";
  snprintf(program, sizeof program, "seed %llu", (unsigned long long)p->seed);
  if (r)
    snprintf(where, sizeof where, " (rule %s at %s in %s)", r->rule, r->inst, r->comp);
  char text[640];
  snprintf(text, sizeof text, "%s%s", what, where);
  return passes_blame(p->cx, program, passes, text);
}

static bool is_finite(const HlLiteral *value) {
  HlArena *arena = hl_arena_new();
  int n;
  const HlLiteral **leaf = hl_flatten(arena, value, &n);
  bool finite = true;
  for (int k = 0; finite && k < n; k++) {
    HlDtype dtype = leaf[k]->shape->dtype;
    for (int64_t i = 0; finite && (hl_is_float(dtype) || hl_is_complex(dtype)) && i < leaf[k]->n;
         i++)
      finite = isfinite(hl_literal_f64(leaf[k], i)) && isfinite(hl_literal_imag(leaf[k], i));
  }
  hl_arena_free(arena);
  return finite;
}

static bool all_finite(const Program *p, HlLiteral *const *results) {
  for (int d = 0; d < p->devices; d++)
    if (!is_finite(results[d]))
      return false;
  return true;
}

static bool may_differ(const Program *p, const char *passes, HlLiteral *const *actual) {
  const bool finite = all_finite(p, p->expected) && all_finite(p, actual);
  return passes_may_differ(p->m, finite) || passes_change_values(passes);
}

// Runs passes over a copy and compares; `site` NULL: without decisions. False after saying what is wrong.
static bool run(Program *p, const char *passes, const char *target, const HlRewrite *site) {
  HlDecision decision = {0};
  if (site)
    decision = (HlDecision){site->pass, site->rule, site->comp, site->inst, site->with};
  HlEngineOptions options = passes_options(passes, target);
  options.decisions = site ? &decision : NULL;
  options.n_decisions = site ? 1 : 0;
  HlModule *copy = passes_copy_for(p->cx, p->m, passes);
  HlEngine *engine = hl_engine_new(p->cx, &options);
  HlLiteral *actual[MAX_DEVICES] = {NULL};
  bool ok = true;
  if (!hl_engine_run(engine, copy, passes))
    ok = blame(p, passes, "the pass fails", site);
  else if (!evaluate(p, copy, actual))
    ok = blame(p, passes, "what comes out does not run", site);
  else if (!may_differ(p, passes, actual) && !same(p, copy, actual))
    ok = blame(p, passes, "the result changes", site);
  drop(p, actual);
  hl_engine_free(engine);
  hl_module_free(copy);
  hl_cx_clear(p->cx);
  return ok;
}

static uint64_t hash_after(Program *p, const char *pipeline, bool whole) {
  HlEngineOptions options = {.passes = &hl_passes,
                             .pipelines = &hl_pipelines,
                             .target = hl_target_find(pipeline),
                             .whole = whole};
  HlModule *copy = hl_clone(p->cx, p->m);
  HlEngine *engine = hl_engine_new(p->cx, &options);
  uint64_t hash = hl_engine_run(engine, copy, pipeline) ? hl_graph_hash(copy) : 0;
  hl_engine_free(engine);
  hl_module_free(copy);
  hl_cx_clear(p->cx);
  return hash;
}

// Passes that look at the news alone miss nothing.
static bool news_suffice(Program *p, const char *pipeline) {
  return hash_after(p, pipeline, false) == hash_after(p, pipeline, true) ||
         blame(p, pipeline, "passes that look at everything each time do something else", NULL);
}

// Every opportunity of a pass, alone.
static int run_sites(Program *p, const char *pass, const char *target, Count *count) {
  HlEngineOptions options = passes_options(pass, target);
  options.dry = true;
  HlModule *copy = passes_copy_for(p->cx, p->m, pass);
  HlEngine *engine = hl_engine_new(p->cx, &options);
  bool ok = hl_engine_run(engine, copy, pass);
  int failures = 0;
  if (!ok)
    failures += !blame(p, pass, "the dry run fails", NULL);
  if (hl_graph_hash(copy) != hl_graph_hash(p->m))
    failures += !blame(p, pass, "the dry run changes the module", NULL);
  int64_t n;
  const HlRewrite *sites = hl_engine_rewrites(engine, &n);
  for (int64_t k = 0; ok && k < n && k < OPPORTUNITIES; k++, count->sites++)
    failures += !run(p, pass, target, &sites[k]);
  hl_engine_free(engine);
  hl_module_free(copy);
  return failures;
}

static int run_program(uint64_t seed, const char *only, Count *count) {
  const char *target = seed / 2 % 2 ? "gpu" : "cpu";
  Program p;
  int failures = 0;
  if (program_new(&p, seed)) {
    count->modules++;
    for (int k = 0; k < hl_passes.n; k++) {
      const char *pass = hl_passes.at[k].name;
      if ((only ? strcmp(only, pass) != 0 : passes_complain(pass)) ||
          passes_lose_devices(p.m, pass))
        continue;
      failures += !run(&p, pass, target, NULL);
      failures += run_sites(&p, pass, target, count);
      count->runs++;
    }
    for (int k = 0; k < hl_pipelines.n; k++)
      if ((!only || strcmp(only, hl_pipelines.at[k].name) == 0) &&
          !passes_lose_devices(p.m, hl_pipelines.at[k].name)) {
        failures += !run(&p, hl_pipelines.at[k].name, hl_pipelines.at[k].name, NULL);
        failures += !news_suffice(&p, hl_pipelines.at[k].name);
        count->runs++;
      }
  }
  program_free(&p);
  return failures;
}

static int run_programs(uint64_t first, uint64_t n, const char *only, Count *count) {
  int failures = 0;
  for (uint64_t k = 0; k < n; k++)
    failures += run_program(first + k, only, count);
  printf("%lld modules, %lld runs of passes and pipelines, %lld opportunities alone: %d failures\n",
         (long long)count->modules, (long long)count->runs, (long long)count->sites, failures);
  return failures;
}

static void passes_keep_results(void **state) {
  (void)state;
  Count count = {0};
  assert_int_equal(run_programs(0, MODULES, NULL, &count), 0);
  assert_true(count.modules >= MODULES * 9 / 10);
  assert_true(count.runs >= count.modules * (hl_passes.n + hl_pipelines.n) * 9 / 10);
  assert_true(count.sites >= 10 * count.modules);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--module") == 0)
    return passes_print_module(module_of, strtoull(argv[2], NULL, 10));
  if (argc > 2) {
    Count count = {0};
    const uint64_t n = strtoull(argv[1], NULL, 10), first = strtoull(argv[2], NULL, 10);
    return run_programs(first, n, argc > 3 ? argv[3] : NULL, &count) > 0 || count.runs == 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_results)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
