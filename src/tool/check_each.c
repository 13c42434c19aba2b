// tool/check_each.c: evaluates between passes to find the one that changes a result, then by fuel the
// rewrite that does.
//
// Passes are deterministic, so that a run with F rewrites of fuel makes the first F rewrites of the
// full run: the guilty one is found by halving F between the rewrites before and after the pass. The
// passes of a pipeline inside a pass are part of that pass.
//
// A partitioned module is given each device's part of the arguments, and each device's result is
// compared with its part of the whole one (spmd/local.h). Manual parts are written out before evaluating (spmd/whole.h);
// where the program does not say yet what crosses into them, results count from the first pass on after which it does.
// And where a pass replaces an rng, which draws what it likes, they count anew.

#include "hilo/check_each.h"

#include <string.h>

#include "hilo/edit.h"
#include "hilo/eval.h"
#include "hilo/replay.h"
#include "spmd/local.h"
#include "spmd/whole.h"

typedef struct Check {
  HlCx *cx;
  const HlModule *m;
  HlModule *copy;  // on which the pipeline runs, and from which it is undone
  const char *pipeline;
  HlEngineOptions engine;
  const HlCheckEachOptions *options;
  HlCheckEach *out;
  HlEvalOptions eval;
  HlReplay inputs;  // the arguments of each device
  int devices;
  HlLiteral **expected;   // [devices]
  bool waits;             // there is nothing expected yet
  bool expects_local;     // what is expected are each device's parts
  int draws;              // of rng in the module, before the step looked at
  int64_t rewrites;       // before the step looked at
  int n_steps, n_inside;  // so far; of these inside a pass
  int only;               // evaluate at this step alone, then stop; -1: at every step that changed
  int guilty;             // the first step after which a result differs, not counting those inside
  bool differs;
} Check;

// --- Evaluating ---------------------------------------------------------------------------------

static bool evaluate(Check *c, const HlModule *m, HlLiteral **results) {
  c->out->evaluations++;
  if (c->options->progress)
    c->options->progress(c->options->user, "evaluating", c->out->evaluations);
  return sp_eval_local(c->cx, m, c->m, &c->eval, (const HlLiteral *const *const *)c->inputs.args,
                       results);
}

static void unref_all(HlLiteral **at, int n) {
  for (int k = 0; k < n; k++)
    hl_literal_unref(at[k]);
}

static bool same_values(Check *c, const HlLiteral *actual, const HlLiteral *expected) {
  int n, n_expected;
  HlArena *arena = c->out->arena;
  const HlLiteral **a = hl_flatten(arena, actual, &n);
  const HlLiteral **e = hl_flatten(arena, expected, &n_expected);
  HlCompareOptions how = {.tolerance = c->options->tolerance};
  how.vectors = hl_vector_leaves(arena, c->m, &how.n_vectors);
  HlMismatch *mismatches = HL_ARRAY(arena, HlMismatch, n + 1);
  if (n != n_expected)
    return false;
  if (how.n_vectors != n)
    how.n_vectors = 0;
  if (hl_compare(c->cx, n, a, e, &how, mismatches))
    return true;
  for (int k = 0; k < n; k++)
    if (!mismatches[k].equal) {
      c->out->leaf = k;
      c->out->mismatch = mismatches[k];
      return false;
    }
  return false;
}

static bool same_on(Check *c, const HlModule *m, int device, const HlLiteral *actual) {
  const HlLiteral *expected = c->expected[device];
  SpPair pair = c->expects_local ? (SpPair){hl_literal_ref(actual), hl_literal_ref(expected)}
                                 : sp_pair(c->cx, m, c->m, device, actual, expected);
  bool same = pair.actual && same_values(c, pair.actual, pair.expected);
  if (!pair.actual)
    c->out->mismatch = (HlMismatch){0};
  sp_pair_free(&pair);
  return same;
}

// How many results there are by which passes are judged, and how many of these tell nothing.
static void count_results(Check *c) {
  c->out->results = c->out->silent = 0;
  for (int d = 0; d < c->devices; d++) {
    int n;
    const HlLiteral **leaf = hl_flatten(c->out->arena, c->expected[d], &n);
    for (int k = 0; k < n; k++)
      c->out->silent += hl_is_silent(leaf[k]);
    c->out->results += n;
  }
}

// Whether the module still computes what it did. Failure to evaluate counts as a difference: the
// original could be evaluated.
static bool still_same(Check *c, const HlModule *m) {
  HlLiteral **results = HL_ARRAY(c->out->arena, HlLiteral *, c->devices);
  int n_diags = hl_cx_n_diags(c->cx);
  bool same = evaluate(c, m, results);
  if (!same)
    hl_cx_forget(c->cx, n_diags);
  for (int d = 0; same && d < c->devices; d++)
    same = same_on(c, m, d, results[d]);
  unref_all(results, c->devices);
  return same;
}

// What a module computes after this pass, if that can be told, is what it has to compute from now on.
static bool start_judging(Check *c, const HlModule *m) {
  const int n_diags = hl_cx_n_diags(c->cx);
  unref_all(c->expected, c->devices);
  memset(c->expected, 0, (size_t)c->devices * sizeof *c->expected);
  if (!evaluate(c, m, c->expected)) {
    hl_cx_forget(c->cx, n_diags);
    return false;
  }
  c->waits = false;
  c->expects_local = sp_is_local(m, c->m);
  count_results(c);
  return true;
}

static int count_draws(const HlModule *m) {
  int n = 0;
  for (const HlComp *comp = m->first; comp != NULL; comp = comp->next)
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next)
      n += inst->op == HL_OP_RNG;
  return n;
}

// Whether the pass has replaced what draws random numbers, so that others are drawn.
static bool draws_anew(Check *c, const HlModule *m) {
  const int before = c->draws;
  c->draws = c->only < 0 ? count_draws(m) : before;
  return c->draws < before;
}

// --- Runs ---------------------------------------------------------------------------------------

static void judge(Check *c, const HlModule *m, const char *pass) {
  const bool waits = c->waits, anew = draws_anew(c, m) || waits;
  const bool same = anew ? start_judging(c, m) : still_same(c, m);
  if (same && anew)
    *(waits ? &c->out->judged_after : &c->out->redrawn_by) =
        hl_arena_printf(c->out->arena, "%s", pass);
  c->differs = !same && !waits;
}

// The listener of a run: stops it where a result differs.
static bool after_step(void *user, const HlModule *m, const HlStep *step) {
  Check *c = user;
  int number = c->n_steps++;
  if (step->is_inside) {
    c->n_inside++;
    return true;
  }
  // How many steps there are inside a pass may depend on the fuel.
  int outer = number - c->n_inside;
  bool looks = c->only < 0 ? step->changed && step->rewrites > 0 : outer == c->only;
  if (!looks) {
    c->rewrites += c->only < 0 ? step->rewrites : 0;
    return true;
  }
  judge(c, m, step->pass);
  if (!c->differs && c->only < 0) {
    c->rewrites += step->rewrites;
    return true;
  }
  if (c->only < 0) {
    HlArena *arena = c->out->arena;
    c->out->step = *step;
    c->out->step.pipeline = hl_arena_printf(arena, "%s", step->pipeline);
    c->out->step.pass = hl_arena_printf(arena, "%s", step->pass);
    c->out->step.next = hl_arena_printf(arena, "%s", step->next);
    c->out->number = number;
    c->guilty = outer;
  }
  return false;
}

// With so much fuel, up to the step `only` or to the end; what the rewrite of number `explain` (from 1; 0: none) did.
static bool run(Check *c, HlMaybeInt fuel, int only, int64_t explain, HlRewrite *rewrite) {
  const HlEditMark mark = hl_mark(c->copy);
  HlEngineOptions options = c->engine;
  options.fuel = fuel;
  options.explain = explain;
  options.after = after_step;
  options.user = c;
  c->only = only;
  c->n_steps = c->n_inside = 0;
  c->rewrites = only < 0 ? 0 : c->rewrites;
  c->differs = false;
  int64_t n_errors = hl_cx_n_errors(c->cx);
  HlEngine *engine = hl_engine_new(c->cx, &options);
  bool ok = engine && hl_engine_run(engine, c->copy, c->pipeline);
  if (engine && hl_engine_broke(engine))
    c->out->broke = true;
  int64_t n = 0;
  const HlRewrite *all = engine ? hl_engine_rewrites(engine, &n) : NULL;
  if (rewrite && explain > 0 && explain <= n) {
    const HlRewrite *r = &all[explain - 1];
    HlArena *arena = c->out->arena;
#define KEEP(text) hl_arena_strndup(arena, (text) ? (text) : "", (text) ? strlen(text) : 0)
    *rewrite =
        (HlRewrite){KEEP(r->pass), KEEP(r->rule), KEEP(r->comp), KEEP(r->inst),   KEEP(r->with),
                    r->step,       r->from,       r->to,         KEEP(r->before), KEEP(r->after)};
#undef KEEP
  }
  hl_engine_free(engine);
  hl_undo(c->copy, mark);
  // Stopping the run is the listener's way of saying that it has seen enough.
  return ok || hl_cx_n_errors(c->cx) == n_errors;
}

static bool find_rewrite(Check *c) {
  int64_t low = c->rewrites, high = low + c->out->step.rewrites;
  while (low + 1 < high) {
    int64_t middle = low + (high - low) / 2;
    if (!run(c, (HlMaybeInt){true, middle}, c->guilty, 0, NULL))
      return false;
    if (c->differs)
      high = middle;
    else
      low = middle;
  }
  c->out->fuel = high;
  return run(c, (HlMaybeInt){true, high}, c->guilty, high, &c->out->rewrite);
}

static bool prepare(Check *c) {
  c->eval = (HlEvalOptions){.seed = c->options->seed, .no_checks = true};
  const HlReplayOptions how = {.args = c->options->args, .seed = c->options->seed, .eval = c->eval};
  if (!hl_replay_inputs(c->cx, c->m, c->options->recorded, &how, &c->inputs))
    return false;
  c->devices = c->inputs.devices;
  c->draws = count_draws(c->m);
  c->expected = HL_ARRAY(c->out->arena, HlLiteral *, c->devices + 1);
  const int n_diags = hl_cx_n_diags(c->cx);
  if (evaluate(c, c->m, c->expected)) {
    count_results(c);
    return true;
  }
  c->waits = sp_has_borders(c->m);
  if (c->waits)
    hl_cx_forget(c->cx, n_diags);
  return c->waits;
}

bool hl_check_each(HlCx *cx, const HlModule *m, const char *pipeline, const HlEngineOptions *engine,
                   const HlCheckEachOptions *options, HlCheckEach *out) {
  *out = (HlCheckEach){.arena = hl_arena_new()};
  HlModule *whole = hl_clone(cx, m);  // with a value for each constant
  Check c = {
      .cx = cx, .m = whole, .pipeline = pipeline, .engine = *engine, .options = options, .out = out};
  bool ok = whole && hl_fake_elided(cx, whole, options->seed) && (c.copy = hl_clone(cx, whole)) &&
            prepare(&c) && run(&c, (HlMaybeInt){0}, -1, 0, NULL);
  if (ok && c.waits)
    ok = evaluate(&c, whole, c.expected);  // once more, for the reason
  if (ok && c.differs) {
    out->differs = true;
    HlMismatch mismatch = out->mismatch;
    int leaf = out->leaf;
    ok = find_rewrite(&c);
    out->mismatch = mismatch;
    out->leaf = leaf;
  }
  hl_module_free(c.copy);
  hl_module_free(whole);
  unref_all(c.expected, c.devices);
  hl_replay_free(&c.inputs);
  return ok;
}

void hl_check_each_free(HlCheckEach *check) {
  hl_arena_free(check->arena);
  *check = (HlCheckEach){0};
}
