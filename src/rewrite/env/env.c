// rewrite/env/env.c: environments: games, steps, snapshots, forks.
//
// A module is copied once. From then on a mark is open at the start of the game, and one more for every snapshot, so that going back
// takes as long as the edits did, and costs nothing where there were none (hilo/edit.h).

#include <math.h>
#include <string.h>

#include "hilo/features.h"
#include "hilo/opt.h"
#include "rewrite/env/env.h"

// --- Running passes -----------------------------------------------------------------------------

HlEngine *env_run(HlCx *cx, HlEnv *env, HlModule *m, const char *pipeline,
                  const HlEngineOptions *more) {
  HlEngineOptions options = more ? *more : (HlEngineOptions){0};
  options.passes = env->options.passes;
  options.pipelines = env->options.pipelines;
  options.target = env->options.target;
  options.release = env->options.release;
  HlEngine *engine = hl_engine_new(cx, &options);
  if (engine && hl_engine_run(engine, m, pipeline))
    return engine;
  hl_engine_free(engine);
  return NULL;
}

bool env_run_all(HlCx *cx, HlEnv *env, HlModule *m, const char *pipeline) {
  if (!*pipeline)
    return true;
  HlEngine *engine = env_run(cx, env, m, pipeline, NULL);
  hl_engine_free(engine);
  return engine;
}

// With one choice and fuel for one rewrite, what that has made is not rewritten again by the same decision.
static int64_t make_rewrites(HlCx *cx, HlEnv *env, const int *choices, int n) {
  const EnvChoices *c = env->state.choices;
  HlArena *arena = hl_arena_new();
  HlDecision *list = HL_ARRAY(arena, HlDecision, n + 1);
  for (int k = 0; k < n; k++) {
    const HlEnvChoice *one = &c->at[choices[k]];
    list[k] = (HlDecision){one->pass, one->rule, one->comp, one->inst, one->with};
  }
  HlEngine *engine = env_run(cx, env, env->m, env->options.choose,
                             &(HlEngineOptions){.decisions = list,
                                                .n_decisions = n,
                                                .fuel = {n == 1, 1}});
  int64_t made = -1;
  if (engine)
    hl_engine_rewrites(engine, &made);
  hl_engine_free(engine);
  hl_arena_free(arena);
  return made;
}

static int64_t run_menu(HlCx *cx, HlEnv *env, const int *choices, int n) {
  int64_t sum = 0;
  for (int k = 0; k < n; k++) {
    HlEngine *engine = env_run(cx, env, env->m, env->state.choices->at[choices[k]].pass, NULL);
    int64_t made = 0;
    if (!engine)
      return -1;
    hl_engine_rewrites(engine, &made);
    hl_engine_free(engine);
    sum += made;
  }
  return sum;
}

int64_t env_make(HlCx *cx, HlEnv *env, const int *choices, int n) {
  int64_t made = 0;
  if (n > 0)
    made = env->options.actions == HL_ENV_PASSES ? run_menu(cx, env, choices, n)
                                                 : make_rewrites(cx, env, choices, n);
  return made < 0 || (made > 0 && !env_run_all(cx, env, env->m, env->options.post)) ? -1 : made;
}

// --- States -------------------------------------------------------------------------------------

static bool tell_broken(HlCx *cx) {
  return hl_error_kind(cx, HL_FAILED, (HlPos){0},
                       "an earlier step of the environment was broken off: reset it");
}

// While a step is under way the module may be left halfway by what ends it.
static bool begin(HlCx *cx, HlEnv *env) {
  if (env->broken)
    return tell_broken(cx);
  env->broken = true;
  return true;
}

static bool end(HlEnv *env, bool ok) {
  env->broken = !ok;
  return ok;
}

// Looks at the module as it is: all of `out` but what is of the game.
static bool look(HlCx *cx, HlEnv *env, EnvState *out) {
  if (!env_run_all(cx, env, env->m, env->options.pre))
    return false;
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  const EnvPrices prices = env_prices(arena, env->m, env_target_of(env));
  if (env_judge_by(cx, env, &prices, &out->costs, &out->metric)) {
    out->hash = hl_dag_hash(env->m);
    out->choices = env_choices_find(cx, env, &prices);
  }
  hl_arena_release(arena, mark);
  return out->choices;
}

// Of a step that is broken off, or steps, the state is one of those before.
static void put_state(HlEnv *env, EnvState state) {
  EnvChoices *before = env->state.choices;
  env_choices_give(env, state.choices);
  env->state = state;
  env_choices_unref(env, before);
}

static void drop_snapshots(HlEnv *env, int left) {
  while (env->snapshots.n > left)
    env_choices_unref(env, vec_pop(&env->snapshots).state.choices);
}

static bool start_game(HlCx *cx, HlEnv *env, uint64_t seed) {
  EnvState state = {.rng = {seed}};
  env->moves.n = env->chosen.n = 0;
  hl_prepare_marks(env->m);  // what is made once is not made, and taken back, in every step
  env->start = hl_mark(env->m);
  if (!look(cx, env, &state))
    return false;
  state.done = state.choices->n == 0;
  env->first_metric = state.metric;
  env->first_hash = state.hash;
  env->first_instructions = state.costs.instructions;
  put_state(env, state);
  return true;
}

static const char *keep(HlArena *arena, const char *text) {
  return hl_arena_printf(arena, "%s", text ? text : "");
}

static HlEnv *env_alloc(const HlEnvOptions *options) {
  HlArena *arena = hl_arena_new();
  HlEnv *env = HL_NEW(arena, HlEnv);
  HlEnvOptions *o = &env->options;
  env->arena = arena;
  *o = *options;
  o->passes = o->passes ? o->passes : &hl_passes;
  o->pipelines = o->pipelines ? o->pipelines : &hl_pipelines;
  o->first = keep(arena, options->first);
  o->first_without = keep(arena, options->first_without);
  o->pre = keep(arena, options->pre);
  o->choose = keep(arena, options->choose);
  o->post = keep(arena, options->post);
  o->own = keep(arena, options->own && *options->own ? options->own : options->choose);
  o->menu = keep(arena, options->menu);
  o->metric = keep(arena, options->metric ? options->metric : "time");
  env->metric = hl_env_metric_find(hl_str(o->metric));
  return env;
}

static bool check_metric(HlCx *cx, const HlEnv *env) {
  if (env->metric || env->options.judge)
    return true;
  const char *names[32];
  int n = 0;
  for (const HlEnvMetric *m; n < 32 && (m = hl_env_metric_at(n)); n++)
    names[n] = m->name;
  const char *near = hl_nearest(hl_str(env->options.metric), names, n);
  hl_error(cx, (HlPos){0}, "no metric is named '%s'", env->options.metric);
  if (near)
    hl_hint(cx, "did you mean '%s'?", near);
  return false;
}

static void give_back_origin(void *of, int64_t n) {
  EnvOrigin *origin = of;
  if (atomic_fetch_sub(&origin->refs, (int)n) != (int)n)
    return;
  hl_module_free(origin->m);
  base_free(origin);
}

static void note_origin(HlEnv *env, int64_t change) {
  if (base_is_new(env->arena))
    base_note_ref(env->origin, change, give_back_origin);
}

static void origin_unref(HlEnv *env) {
  if (!env->origin)
    return;
  note_origin(env, -1);
  give_back_origin(env->origin, 1);
}

static bool make_origin(HlCx *cx, HlEnv *env, const HlModule *m) {
  env->origin = base_alloc(sizeof *env->origin);
  atomic_init(&env->origin->refs, 1);
  env->origin->m = hl_clone(cx, m);
  if (!env->origin->m || !*env->options.first)
    return env->origin->m;
  HlEngine *engine = env_run(cx, env, env->origin->m, env->options.first,
                             &(HlEngineOptions){.disable = env->options.first_without});
  hl_engine_free(engine);
  return engine;
}

HlEnv *hl_env_new(HlCx *cx, const HlModule *m, const HlEnvOptions *options) {
  HlEnv *env = env_alloc(options);
  bool ok = check_metric(cx, env) && make_origin(cx, env, m);
  env->m = ok ? hl_clone(cx, env->origin->m) : NULL;
  ok = env->m && start_game(cx, env, options->seed);
  if (ok)
    return env;
  hl_env_free(env);
  return NULL;
}

void hl_env_free(HlEnv *env) {
  if (!env)
    return;
  base_drop(&env->m);
  drop_snapshots(env, 0);
  env_choices_unref(env, env->state.choices);
  vec_free(&env->moves);
  vec_free(&env->chosen);
  vec_free(&env->snapshots);
  hl_module_free(env->m);
  origin_unref(env);
  hl_arena_free(env->arena);
}

// A try that fails frees what was made in it.
static void lose(void *at) {
  *(HlModule **)at = NULL;
}

// A copy anew where the module is void, or was not there at the start.
bool hl_env_reset(HlCx *cx, HlEnv *env, uint64_t seed) {
  const bool anew = env->broken || env->is_fork;
  env->broken = true;
  drop_snapshots(env, 0);
  if (anew) {
    hl_module_free(env->m);
    env->m = NULL;
    base_hold(&env->m, lose);
    env->m = hl_clone(cx, env->origin->m);
  } else {
    hl_undo(env->m, env->start);
  }
  env->is_fork = false;
  return end(env, env->m && start_game(cx, env, seed));
}

const HlEnvOptions *hl_env_options(const HlEnv *env) {
  return &env->options;
}

const HlModule *hl_env_module(const HlEnv *env) {
  return env->m;
}

const HlEnvChoice *hl_env_choices(const HlEnv *env, int *n) {
  *n = env->state.choices->n;
  return env->state.choices->at;
}

const HlEnvSite *hl_env_sites(const HlEnv *env, int *n) {
  *n = env->state.choices->n_sites;
  return env->state.choices->site;
}

HlEnvCosts hl_env_costs(const HlEnv *env) {
  return env->state.costs;
}

double hl_env_metric(const HlEnv *env) {
  return env->state.metric;
}

double hl_env_first_metric(const HlEnv *env) {
  return env->first_metric;
}

uint64_t hl_env_hash(const HlEnv *env) {
  return env->state.hash;
}

bool hl_env_done(const HlEnv *env) {
  return env->state.done;
}

HlRng *hl_env_rng(HlEnv *env) {
  return &env->state.rng;
}

bool hl_env_is_broken(const HlEnv *env) {
  return env->broken;
}

HlModule *hl_env_result(HlCx *cx, const HlEnv *env, const char *last) {
  if (env->broken) {
    tell_broken(cx);
    return NULL;
  }
  HlModule *m = hl_clone(cx, env->m);
  HlEnv runs = {.options = env->options};
  if (m && last && !env_run_all(cx, &runs, m, last)) {
    hl_module_free(m);
    return NULL;
  }
  return m;
}

// --- Steps --------------------------------------------------------------------------------------

static double reward_of(const HlEnv *env, double before, double after) {
  switch (env->options.reward) {
  case HL_REWARD_DELTA: return before - after;
  case HL_REWARD_RELATIVE:
    return env->first_metric != 0 ? (before - after) / fabs(env->first_metric) : before - after;
  case HL_REWARD_ABSOLUTE: break;
  }
  return -after;
}

// What is dead does not count in the hash, but in the number of instructions.
static bool was_met(const HlEnv *env, const EnvState *state) {
  bool met = state->hash == env->first_hash &&
             state->costs.instructions == env->first_instructions;
  for (int k = 0; k < env->state.n_moves && !met; k++)
    met = env->moves.at[k].hash == state->hash &&
          env->moves.at[k].costs.instructions == state->costs.instructions;
  return met;
}

// Notes the step, and makes `next` the state.
static void note(HlEnv *env, EnvState next, const int *choices, int n, EnvMove kind,
                 HlEnvStep *out) {
  env->moves.n = env->state.n_moves;
  env->chosen.n = env->state.n_chosen;
  const EnvMove move = {.first = env->chosen.n,
                        .n = n,
                        .stop = kind.stop,
                        .own = kind.own,
                        .reward = out->reward,
                        .metric = next.metric,
                        .applied = out->applied,
                        .costs = next.costs,
                        .hash = next.hash};
  for (int k = 0; k < n; k++)
    vec_push_as(env->arena, &env->chosen, choices[k]);
  vec_push_as(env->arena, &env->moves, move);
  next.n_moves = env->moves.n;
  next.n_chosen = env->chosen.n;
  next.rng = env->state.rng;
  out->truncated = !out->terminated && env->options.max_steps > 0 &&
                   next.n_moves >= env->options.max_steps;
  next.done = out->terminated || out->truncated;
  put_state(env, next);
}

static bool may_apply(HlCx *cx, HlEnv *env, const int *choices, int n) {
  if (env->broken)
    return begin(cx, env);
  const int most = env->state.choices->n;
  if (env->state.done)
    return hl_error(cx, (HlPos){0}, "the game is over: reset the environment");
  for (int k = 0; k < n; k++)
    if (choices[k] < 0 || choices[k] >= most)
      return hl_error(cx, (HlPos){0}, "there is no choice %d: there are %d, from 0", choices[k],
                      most);
  return true;
}

// Looks at what has come of a step, of which `out` says how much was applied.
static bool end_step(HlCx *cx, HlEnv *env, EnvState *next, HlEnvStep *out) {
  if (out->applied < 0 || !look(cx, env, next))
    return false;
  out->reward = reward_of(env, env->state.metric, next->metric);
  out->repeated = was_met(env, next);
  out->terminated = next->choices->n == 0;
  return true;
}

static int64_t run_own(HlCx *cx, HlEnv *env) {
  const HlEnvOptions *o = &env->options;
  const bool menu = o->actions == HL_ENV_PASSES && !*o->own;
  int64_t made = -1;
  HlEngine *engine = env_run(cx, env, env->m, menu ? o->menu : o->own, NULL);
  if (engine)
    hl_engine_rewrites(engine, &made);
  hl_engine_free(engine);
  return made < 0 || !env_run_all(cx, env, env->m, env->options.post) ? -1 : made;
}

bool hl_env_apply_own(HlCx *cx, HlEnv *env, HlEnvStep *out) {
  *out = (HlEnvStep){0};
  if (!may_apply(cx, env, NULL, 0) || !begin(cx, env))
    return false;
  EnvState next = {0};
  out->applied = run_own(cx, env);
  if (!end_step(cx, env, &next, out))
    return false;
  note(env, next, NULL, 0, (EnvMove){.own = true}, out);
  return end(env, true);
}

bool hl_env_repeat(HlCx *cx, HlEnv *env, const HlEnv *from, int k, HlEnvStep *out) {
  const HlEnvMove move = hl_env_move(from, k);
  return move.stop  ? hl_env_stop(cx, env, out)
         : move.own ? hl_env_apply_own(cx, env, out)
                    : hl_env_apply(cx, env, move.choices, move.n, out);
}

bool hl_env_apply(HlCx *cx, HlEnv *env, const int *choices, int n, HlEnvStep *out) {
  *out = (HlEnvStep){0};
  if (!may_apply(cx, env, choices, n) || !begin(cx, env))
    return false;
  EnvState next = {0};
  out->applied = env_make(cx, env, choices, n);
  if (!end_step(cx, env, &next, out))
    return false;
  note(env, next, choices, n, (EnvMove){0}, out);
  return end(env, true);
}

bool hl_env_stop(HlCx *cx, HlEnv *env, HlEnvStep *out) {
  *out = (HlEnvStep){.terminated = true};
  if (!may_apply(cx, env, NULL, 0) || !begin(cx, env))
    return false;
  EnvState next = env->state;
  env_choices_ref(env, next.choices);
  out->reward = reward_of(env, next.metric, next.metric);
  note(env, next, NULL, 0, (EnvMove){.stop = true}, out);
  return end(env, true);
}

// Numbers of choices that an action stands for, in `arena`. False after reporting.
static bool read_action(HlCx *cx, const HlEnv *env, const int *action, int n, HlArena *arena,
                        int **out, int *n_out) {
  const EnvChoices *c = env->state.choices;
  const bool sites = env->options.actions == HL_ENV_SITES;
  const int wanted = sites ? c->n_sites : c->n;
  if (n != wanted)
    return hl_error(cx, (HlPos){0}, "an action has %d numbers here, but %d were given", wanted, n);
  *out = HL_ARRAY(arena, int, n + 1);
  *n_out = 0;
  for (int k = 0; k < n; k++) {
    const int most = sites ? c->site[k].n : 1;
    if (action[k] < 0 || action[k] > most)
      return hl_error(cx, (HlPos){0}, "number %d of the action is %d; expected 0 to %d", k,
                      action[k], most);
    if (action[k] > 0)
      (*out)[(*n_out)++] = sites ? c->site[k].first + action[k] - 1 : k;
  }
  return true;
}

bool hl_env_step(HlCx *cx, HlEnv *env, const int *action, int n, HlEnvStep *out) {
  *out = (HlEnvStep){0};
  if (env->broken)
    return begin(cx, env);
  const HlEnvActions kind = env->options.actions;
  if (kind == HL_ENV_ONE || kind == HL_ENV_PASSES) {
    if (n != 1)
      return hl_error(cx, (HlPos){0}, "an action is one number here, but %d were given", n);
    return action[0] == env->state.choices->n ? hl_env_stop(cx, env, out)
                                              : hl_env_apply(cx, env, action, 1, out);
  }
  HlArena *arena = hl_arena_new();
  int *choices = NULL, n_choices = 0;
  const bool ok = read_action(cx, env, action, n, arena, &choices, &n_choices) &&
                  hl_env_apply(cx, env, choices, n_choices, out);
  hl_arena_free(arena);
  return ok;
}

bool hl_env_try(HlCx *cx, HlEnv *env, const int *choices, int n, HlEnvCosts *costs,
                double *metric) {
  if (!may_apply(cx, env, choices, n) || !begin(cx, env))
    return false;
  const HlEditMark mark = hl_mark(env->m);
  const bool ok =
      env_make(cx, env, choices, n) >= 0 &&
      env_run_all(cx, env, env->m, env->options.pre) && env_judge(cx, env, costs, metric);
  if (ok)
    hl_undo(env->m, mark);
  return end(env, ok);
}

bool hl_env_try_own(HlCx *cx, HlEnv *env, HlEnvCosts *costs, double *metric) {
  if (!begin(cx, env))
    return false;
  const HlEditMark mark = hl_mark(env->m);
  const bool ok = run_own(cx, env) >= 0 && env_run_all(cx, env, env->m, env->options.pre) &&
                  env_judge(cx, env, costs, metric);
  if (ok)
    hl_undo(env->m, mark);
  return end(env, ok);
}

int hl_env_n_moves(const HlEnv *env) {
  return env->state.n_moves;
}

HlEnvMove hl_env_move(const HlEnv *env, int k) {
  const EnvMove *move = &env->moves.at[k];
  return (HlEnvMove){.choices = move->n > 0 ? &env->chosen.at[move->first] : NULL,
                     .n = move->n,
                     .stop = move->stop,
                     .own = move->own,
                     .reward = move->reward,
                     .applied = move->applied,
                     .costs = move->costs,
                     .metric = move->metric,
                     .hash = move->hash};
}

// --- Snapshots, forks ---------------------------------------------------------------------------

int hl_env_snapshot(HlEnv *env) {
  if (env->broken)
    return -1;
  EnvSnapshot snapshot = {hl_mark(env->m), env->state};
  env_choices_ref(env, snapshot.state.choices);
  vec_push_as(env->arena, &env->snapshots, snapshot);
  return env->snapshots.n - 1;
}

static bool has_snapshot(HlCx *cx, const HlEnv *env, int snapshot) {
  return (snapshot >= 0 && snapshot < env->snapshots.n) ||
         hl_error(cx, (HlPos){0}, "there is no snapshot %d: there are %d", snapshot,
                  env->snapshots.n);
}

bool hl_env_restore(HlCx *cx, HlEnv *env, int snapshot) {
  if (!has_snapshot(cx, env, snapshot) || !begin(cx, env))
    return false;
  drop_snapshots(env, snapshot + 1);
  EnvSnapshot *at = &env->snapshots.at[snapshot];
  hl_undo(env->m, at->mark);
  at->mark = hl_mark(env->m);
  env_choices_ref(env, at->state.choices);
  put_state(env, at->state);
  return end(env, true);
}

bool hl_env_drop(HlCx *cx, HlEnv *env, int snapshot) {
  if (!has_snapshot(cx, env, snapshot) || !begin(cx, env))
    return false;
  hl_forget(env->m, env->snapshots.at[snapshot].mark);
  drop_snapshots(env, snapshot);
  return end(env, true);
}

HlEnv *hl_env_fork(HlCx *cx, const HlEnv *env) {
  if (env->broken) {
    tell_broken(cx);
    return NULL;
  }
  HlEnv *fork = env_alloc(&env->options);
  fork->origin = env->origin;
  atomic_fetch_add(&env->origin->refs, 1);
  note_origin(fork, 1);
  fork->is_fork = true;
  fork->m = hl_clone(cx, env->m);
  if (!fork->m) {
    hl_env_free(fork);
    return NULL;
  }
  fork->first_metric = env->first_metric;
  fork->first_hash = env->first_hash;
  fork->first_instructions = env->first_instructions;
  fork->state = env->state;
  env_choices_ref(fork, fork->state.choices);
  for (int k = 0; k < env->state.n_moves; k++)
    vec_push_as(fork->arena, &fork->moves, env->moves.at[k]);
  for (int k = 0; k < env->state.n_chosen; k++)
    vec_push_as(fork->arena, &fork->chosen, env->chosen.at[k]);
  hl_prepare_marks(fork->m);
  fork->start = hl_mark(fork->m);
  return fork;
}
