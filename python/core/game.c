// python/core/game.c: environments, and many of them at once.

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "call.h"
#include "hilo/batch.h"
#include "hilo/generate.h"
#include "hilo/trajectory.h"
#include "tool/env/env.h"
#include "tool/json.h"

// What environments are made with: that of their forks and batches, too, which may live longer.
typedef struct Kept {
  atomic_int refs;
  HlArena *arena;  // of the setting's texts and target
  HlRuleSet *rules;
} Kept;

struct HiloEnv {
  Kept *kept;
  HlEnvSetting setting;
  HlEnv *env;
  HlObserver *observer;
  bool borrowed;  // of a batch
};

struct HiloBatch {
  Kept *kept;
  HlBatch *batch;
  HiloEnv *env;  // of each
};

// --- Making -----------------------------------------------------------------------------------------

static const char *keep_option(const Job *job, HlArena *arena, const char *key) {
  const char *text = job_text(job, key);
  return text ? hl_arena_printf(arena, "%s", text) : NULL;
}

static bool no_such(const Job *job, const char *key) {
  return hl_error(job->cx, (HlPos){0}, "unknown %s '%s'", key, job_text(job, key));
}

static bool read_words(const Job *job, HiloEnv *e) {
  const char *env = job_text(job, "env"), *actions = job_text(job, "actions");
  const char *reward = job_text(job, "reward"), *form = job_text(job, "observation");
  HlEnvActions *kind = HL_NEW(e->kept->arena, HlEnvActions);
  const HlObservation *observation = form ? hl_observation_find(hl_str(form)) : NULL;
  e->setting.spec = env ? hl_env_spec_find(hl_str(env)) : hl_env_spec_at(0);
  if (!e->setting.spec)
    return no_such(job, "env");
  if (actions && !hl_env_actions_by_text(hl_str(actions), kind))
    return no_such(job, "actions");
  if (reward && !hl_env_reward_by_text(hl_str(reward), &e->setting.reward))
    return no_such(job, "reward");
  if (form && !observation)
    return no_such(job, "observation");
  e->setting.actions = actions ? kind : NULL;
  e->observer = form ? hl_observer_new(observation) : NULL;
  return true;
}

static bool read_rules(const Job *job, HiloEnv *e) {
  const char *text = job_text(job, "rules");
  HlSource *source = text ? hl_source_new("<rules>", text, strlen(text), false) : NULL;
  e->kept->rules = text ? hl_rules_read(job->cx, source) : NULL;
  e->setting.rules = e->kept->rules;
  hl_source_unref(source);
  return !text || e->kept->rules;
}

static bool read_setting(const Job *job, HiloEnv *e) {
  const char *target = job_text(job, "target");
  if (!read_words(job, e))
    return false;
  HlEnvSetting *s = &e->setting;
  s->first = keep_option(job, e->kept->arena, "first");
  s->pre = keep_option(job, e->kept->arena, "pre");
  s->choose = keep_option(job, e->kept->arena, "choose");
  s->post = keep_option(job, e->kept->arena, "post");
  s->menu = keep_option(job, e->kept->arena, "menu");
  s->metric = keep_option(job, e->kept->arena, "metric");
  s->max_steps = (int)job_int(job, "max_steps");
  s->seed = (uint64_t)job_int(job, "seed");
  s->target = target ? hl_target_load(job->cx, e->kept->arena, target) : NULL;
  return (!target || s->target) && read_rules(job, e);
}

static void give_back(void *of, int64_t n) {
  Kept *kept = of;
  if (atomic_fetch_sub(&kept->refs, (int)n) != (int)n)
    return;
  hl_rules_free(kept->rules);
  hl_arena_free(kept->arena);
  base_free(kept);
}

// Another holder, which is made in a try.
static Kept *keep(Kept *kept) {
  atomic_fetch_add(&kept->refs, 1);
  base_note_ref(kept, 1, give_back);
  return kept;
}

static void let_go(Kept *kept) {
  base_note_ref(kept, -1, give_back);
  give_back(kept, 1);
}

static HiloEnv *env_alloc(Kept *kept) {
  HiloEnv *e = base_alloc(sizeof *e);
  e->kept = kept;
  return e;
}

static Kept *kept_new(void) {
  Kept *kept = base_alloc(sizeof *kept);
  atomic_init(&kept->refs, 1);
  kept->arena = hl_arena_new();
  return kept;
}

void hilo_core_env_free(HiloEnv *e) {
  if (!e || e->borrowed)
    return;
  hl_env_free(e->env);
  hl_observer_free(e->observer);
  if (e->kept)
    let_go(e->kept);
  base_free(e);
}

static bool run_new(Job *job) {
  HiloEnv *e = env_alloc(kept_new());
  if (read_setting(job, e) && (e->env = hl_env_open(job->cx, job->m, &e->setting))) {
    job->made = e;
    return true;
  }
  hilo_core_env_free(e);
  return false;
}

// Before each use of a call that lives long.
static void begin(HiloCall *call) {
  hl_cx_clear(call->cx);
  hl_cx_resume(call->cx);
}

static void *run_making(HiloCall *call, Job *job, const char *options) {
  begin(call);
  if (job_run(call, job, options))
    return job->made;
  return NULL;
}

HiloEnv *hilo_core_env_new(HiloCall *call, const HiloModule *m, const char *options) {
  return run_making(call, &(Job){.run = run_new, .m = m}, options);
}

// What is asked of an environment, and what comes out.
typedef struct Ask {
  HiloEnv *e;
  const int *numbers;
  int n;
  int64_t seed;
  double *out;
  HlEnvStep step;
  const char *text;
} Ask;

static bool run_fork(Job *job) {
  const HiloEnv *from = ((Ask *)job->made)->e;
  HiloEnv *e = env_alloc(keep(from->kept));
  e->setting = from->setting;
  e->env = hl_env_fork(job->cx, from->env);
  job->made = e->env ? e : NULL;
  if (e->env && from->observer)
    e->observer = hl_observer_new(hl_observer_form(from->observer));
  if (!e->env)
    hilo_core_env_free(e);
  return job->made;
}

HiloEnv *hilo_core_env_fork(HiloCall *call, const HiloEnv *env) {
  Ask ask = {.e = (HiloEnv *)(uintptr_t)env};
  return run_making(call, &(Job){.run = run_fork, .made = &ask}, NULL);
}

// --- The state --------------------------------------------------------------------------------------

static void put_state(const HiloEnv *e, const HlEnvStep *step, double *out) {
  int choices, sites;
  hl_env_choices(e->env, &choices);
  hl_env_sites(e->env, &sites);
  const HlEnvCosts costs = hl_env_costs(e->env);
  const double values[HILO_ENV_STATE] = {step->reward,
                                         step->terminated,
                                         step->truncated,
                                         step->repeated,
                                         (double)step->applied,
                                         choices,
                                         sites,
                                         costs.seconds,
                                         costs.kernels,
                                         costs.bytes,
                                         costs.flops,
                                         costs.instructions,
                                         hl_env_metric(e->env),
                                         hl_env_n_moves(e->env),
                                         hl_env_done(e->env),
                                         hl_env_first_metric(e->env)};
  memcpy(out, values, sizeof values);
}

void hilo_core_env_state(const HiloEnv *env, double *out) {
  put_state(env, &(HlEnvStep){0}, out);
}

int64_t hilo_core_env_hash(const HiloEnv *env) {
  return (int64_t)hl_env_hash(env->env);
}

static bool try_reset(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_reset(cx, ask->e->env, (uint64_t)ask->seed);
}

static bool try_step(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_step(cx, ask->e->env, ask->numbers, ask->n, &ask->step);
}

static bool try_apply(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_apply(cx, ask->e->env, ask->numbers, ask->n, &ask->step);
}

static bool try_stop(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_stop(cx, ask->e->env, &ask->step);
}

static bool try_apply_own(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_apply_own(cx, ask->e->env, &ask->step);
}

static void put_costs(const HlEnvCosts *costs, double metric, double *out) {
  const double values[] = {costs->seconds,      costs->kernels, costs->bytes, costs->flops,
                           costs->instructions, metric};
  memcpy(out, values, sizeof values);
}

static bool try_try(HlCx *cx, void *user) {
  Ask *ask = user;
  HlEnvCosts costs;
  double metric;
  if (!hl_env_try(cx, ask->e->env, ask->numbers, ask->n, &costs, &metric))
    return false;
  put_costs(&costs, metric, ask->out);
  return true;
}

static bool try_own(HlCx *cx, void *user) {
  Ask *ask = user;
  HlEnvCosts costs;
  double metric;
  if (!hl_env_try_own(cx, ask->e->env, &costs, &metric))
    return false;
  put_costs(&costs, metric, ask->out);
  return true;
}

static bool ask_env(HiloCall *call, HlWork *work, Ask *ask) {
  begin(call);
  return hl_try(call->cx, work, ask);
}

bool hilo_core_env_reset(HiloCall *call, HiloEnv *env, int64_t seed) {
  return ask_env(call, try_reset, &(Ask){.e = env, .seed = seed});
}

bool hilo_core_env_step(HiloCall *call, HiloEnv *env, const int *action, int n, double *out) {
  Ask ask = {.e = env, .numbers = action, .n = n};
  if (!ask_env(call, try_step, &ask))
    return false;
  put_state(env, &ask.step, out);
  return true;
}

bool hilo_core_env_apply(HiloCall *call, HiloEnv *env, const int *choices, int n, double *out) {
  Ask ask = {.e = env, .numbers = choices, .n = n};
  if (!ask_env(call, try_apply, &ask))
    return false;
  put_state(env, &ask.step, out);
  return true;
}

bool hilo_core_env_stop(HiloCall *call, HiloEnv *env, double *out) {
  Ask ask = {.e = env};
  if (!ask_env(call, try_stop, &ask))
    return false;
  put_state(env, &ask.step, out);
  return true;
}

bool hilo_core_env_apply_own(HiloCall *call, HiloEnv *env, double *out) {
  Ask ask = {.e = env};
  if (!ask_env(call, try_apply_own, &ask))
    return false;
  put_state(env, &ask.step, out);
  return true;
}

bool hilo_core_env_try(HiloCall *call, HiloEnv *env, const int *choices, int n, double *out) {
  return ask_env(call, try_try, &(Ask){.e = env, .numbers = choices, .n = n, .out = out});
}

bool hilo_core_env_try_own(HiloCall *call, HiloEnv *env, double *out) {
  return ask_env(call, try_own, &(Ask){.e = env, .out = out});
}

// --- Choices ----------------------------------------------------------------------------------------

static bool run_choices(Job *job) {
  const HiloEnv *e = job->made;
  int n;
  const HlEnvChoice *choices = hl_env_choices(e->env, &n);
  json_open(&job->out, NULL, '[');
  for (int k = 0; k < n; k++) {
    json_open(&job->out, NULL, '{');
    json_int(&job->out, "choice", k);
    json_int(&job->out, "site", choices[k].site);
    json_int(&job->out, "option", choices[k].option);
    env_choice_json(&job->out, &choices[k]);
    env_double_json(&job->out, "gain", choices[k].gain);
    json_text(&job->out, "before", choices[k].before);
    json_text(&job->out, "after", choices[k].after);
    json_close(&job->out, '}');
  }
  json_close(&job->out, ']');
  return true;
}

// Work that only reads the environment and writes.
static bool run_on_env(HiloCall *call, bool (*run)(Job *job), const HiloEnv *env,
                       const char *options) {
  begin(call);
  return job_run(call, &(Job){.run = run, .made = (void *)(uintptr_t)env}, options);
}

bool hilo_core_env_choices(HiloCall *call, const HiloEnv *env) {
  return run_on_env(call, run_choices, env, NULL);
}

void hilo_core_env_choice_arrays(const HiloEnv *env, int *site, int *option, double *gain,
                                 int *site_sizes) {
  int n, n_sites;
  const HlEnvChoice *choices = hl_env_choices(env->env, &n);
  const HlEnvSite *sites = hl_env_sites(env->env, &n_sites);
  for (int k = 0; k < n; k++) {
    site[k] = choices[k].site;
    option[k] = choices[k].option;
    gain[k] = choices[k].gain;
  }
  for (int k = 0; k < n_sites; k++)
    site_sizes[k] = sites[k].n;
}

static uint64_t name_key(const char *comp, const char *inst) {
  return hl_hash_bytes(inst, strlen(inst), hl_hash_bytes(comp, strlen(comp), 7));
}

void hilo_core_env_choice_nodes(const HiloEnv *env, int *inst, int *with) {
  int n;
  int64_t nodes = 0;
  const HlEnvChoice *choices = hl_env_choices(env->env, &n);
  const HlInst *const *at = env->observer ? hl_observed_insts(env->observer, &nodes) : NULL;
  Map map = {0};
  for (int64_t k = 0; k < nodes; k++)
    *map_at(&map, name_key(at[k]->comp->name->text, at[k]->name->text)) = (uint64_t)k + 1;
  for (int k = 0; k < n; k++) {
    inst[k] = (int)map_get(&map, name_key(choices[k].comp, choices[k].inst)) - 1;
    with[k] = (int)map_get(&map, name_key(choices[k].comp, choices[k].with)) - 1;
  }
  map_free(&map);
}

// --- Going back -------------------------------------------------------------------------------------

static bool tell_broken(HlCx *cx) {
  return hl_error_kind(cx, HL_FAILED, (HlPos){0},
                       "an earlier step of the environment was broken off: reset it");
}

static bool try_snapshot(HlCx *cx, void *user) {
  Ask *ask = user;
  ask->n = hl_env_snapshot(ask->e->env);
  return ask->n >= 0 || tell_broken(cx);
}

static bool try_restore(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_restore(cx, ask->e->env, ask->n);
}

static bool try_drop(HlCx *cx, void *user) {
  Ask *ask = user;
  return hl_env_drop(cx, ask->e->env, ask->n);
}

int hilo_core_env_snapshot(HiloCall *call, HiloEnv *env) {
  Ask ask = {.e = env};
  return ask_env(call, try_snapshot, &ask) ? ask.n : -1;
}

bool hilo_core_env_restore(HiloCall *call, HiloEnv *env, int snapshot) {
  return ask_env(call, try_restore, &(Ask){.e = env, .n = snapshot});
}

bool hilo_core_env_drop(HiloCall *call, HiloEnv *env, int snapshot) {
  return ask_env(call, try_drop, &(Ask){.e = env, .n = snapshot});
}

// --- Observations -----------------------------------------------------------------------------------

static bool try_observe(HlCx *cx, void *user) {
  const Ask *ask = user;
  if (!ask->e->observer)
    return hl_error(cx, (HlPos){0}, "the environment was made without an observation");
  if (hl_env_is_broken(ask->e->env))
    return tell_broken(cx);
  return hl_observe(cx, ask->e->observer, hl_env_module(ask->e->env),
                    hl_env_options(ask->e->env)->target);
}

int hilo_core_env_observe(HiloCall *call, HiloEnv *env) {
  int n = 0;
  if (!ask_env(call, try_observe, &(Ask){.e = env}))
    return -1;
  hl_observed(env->observer, &n);
  return n;
}

static bool run_array_names(Job *job) {
  const HiloEnv *e = job->made;
  int n = 0;
  const HlArray *arrays = e->observer ? hl_observed(e->observer, &n) : NULL;
  json_open(&job->out, NULL, '[');
  for (int k = 0; k < n; k++) {
    json_open(&job->out, NULL, '{');
    json_text(&job->out, "name", arrays[k].name);
    json_text(&job->out, "dtype", arrays[k].dtype);
    json_int(&job->out, "width", arrays[k].width);
    json_close(&job->out, '}');
  }
  json_close(&job->out, ']');
  return true;
}

bool hilo_core_env_array_names(HiloCall *call, const HiloEnv *env) {
  return run_on_env(call, run_array_names, env, NULL);
}

void hilo_core_env_arrays(const HiloEnv *env, int64_t *out) {
  int n = 0;
  const HlArray *arrays = env->observer ? hl_observed(env->observer, &n) : NULL;
  for (int k = 0; k < n; k++) {
    out[2 * k] = (int64_t)(intptr_t)arrays[k].data;
    out[2 * k + 1] = arrays[k].n;
  }
}

// --- Modules, players, games ------------------------------------------------------------------------

static bool run_module(Job *job) {
  job->made = hl_env_result(job->cx, ((HiloEnv *)job->made)->env, job->text);
  return job->made;
}

HiloModule *hilo_core_env_module(HiloCall *call, const HiloEnv *env, const char *last) {
  Job job = {.run = run_module, .made = (void *)(uintptr_t)env, .text = last};
  return run_making(call, &job, NULL);
}

static bool run_play(Job *job) {
  HiloEnv *e = job->made;
  const HlPolicy *policy = hl_policy_find(hl_str(job->text));
  if (!policy)
    return hl_error(job->cx, (HlPos){0}, "unknown policy '%s'", job->text);
  const HlPolicyOptions options = {.seed = (uint64_t)job_int(job, "seed"),
                                   .tries = job_int(job, "tries"),
                                   .width = (int)job_int(job, "width"),
                                   .depth = (int)job_int(job, "depth")};
  HlPolicyReport report;
  if (hl_env_is_broken(e->env))
    return tell_broken(job->cx);
  if (!hl_policy_play(job->cx, e->env, policy, &options, &report))
    return false;
  json_open(&job->out, NULL, '{');
  json_int(&job->out, "tries", report.tries);
  env_double_json(&job->out, "first", report.first);
  env_double_json(&job->out, "last", report.last);
  json_close(&job->out, '}');
  return true;
}

bool hilo_core_env_play(HiloCall *call, HiloEnv *env, const char *policy, const char *options) {
  begin(call);
  return job_run(call, &(Job){.run = run_play, .made = env, .text = policy}, options);
}

static bool run_trajectory(Job *job) {
  const HiloEnv *e = job->made;
  if (hl_env_is_broken(e->env))
    return tell_broken(job->cx);
  hl_trajectory_print(e->env, job->m, &e->setting, job->text, &job->out);
  return true;
}

bool hilo_core_env_trajectory(HiloCall *call, const HiloEnv *env, const HiloModule *m,
                              const char *program) {
  begin(call);
  Job job = {.run = run_trajectory, .made = (void *)(uintptr_t)env, .m = m, .text = program};
  return job_run(call, &job, NULL);
}

static bool run_replay(Job *job) {
  HlPlayed p;
  const bool ok =
      hl_trajectory_verify(job->cx, job->text, &(HlPlayOptions){.module = job->m}, &p);
  json_open(&job->out, NULL, '{');
  json_bool(&job->out, "same", p.same);
  json_int(&job->out, "moves", p.moves);
  json_int(&job->out, "of", p.of);
  json_int(&job->out, "differs", p.differs);
  json_text(&job->out, "what", p.what);
  json_bool(&job->out, "measured", p.measured);
  json_close(&job->out, '}');
  hl_played_free(&p);
  return ok;
}

bool hilo_core_env_replay(HiloCall *call, const char *path, const HiloModule *m) {
  return job_run(call, &(Job){.run = run_replay, .text = path, .m = m}, NULL);
}

static bool run_validate(Job *job) {
  const HlValidateOptions options = {.inputs = (int)job_int(job, "inputs"),
                                     .seed = (uint64_t)job_int(job, "seed")};
  HlValidated v;
  if (!hl_validate(job->cx, job->m, job->other, &options, &v))
    return false;
  json_open(&job->out, NULL, '{');
  json_bool(&job->out, "equal", v.equal);
  json_int(&job->out, "inputs", v.inputs);
  json_int(&job->out, "silent", v.silent);
  json_int(&job->out, "input", v.input);
  json_int(&job->out, "leaf", v.leaf);
  env_double_json(&job->out, "expected", v.mismatch.expected);
  env_double_json(&job->out, "actual", v.mismatch.actual);
  json_close(&job->out, '}');
  return true;
}

bool hilo_core_validate(HiloCall *call, const HiloModule *before, const HiloModule *after,
                        const char *options) {
  return job_run(call, &(Job){.run = run_validate, .m = before, .other = after}, options);
}

static bool run_measure(Job *job) {
  HlMeasured t;
  const HlMaybeInt seconds = job_maybe(job, "seconds");
  const HlMeasureOptions options = {.warm_up = (int)job_int(job, "warm_up"),
                                    .runs = (int)job_int(job, "runs"),
                                    .threads = (int)job_int(job, "threads"),
                                    .seconds = seconds.given ? (double)seconds.value : 0,
                                    .seed = (uint64_t)job_int(job, "seed")};
  if (!hl_measure(job->cx, job->m, &options, &t))
    return false;
  json_open(&job->out, NULL, '{');
  env_double_json(&job->out, "median", t.median);
  env_double_json(&job->out, "low", t.low);
  env_double_json(&job->out, "high", t.high);
  env_double_json(&job->out, "mean", t.mean);
  env_double_json(&job->out, "best", t.best);
  env_double_json(&job->out, "compile", t.compile);
  json_int(&job->out, "runs", t.runs);
  json_close(&job->out, '}');
  return true;
}

bool hilo_core_measure(HiloCall *call, const HiloModule *m, const char *options) {
  return job_run(call, &(Job){.run = run_measure, .m = m}, options);
}

// --- Data -------------------------------------------------------------------------------------------

static bool run_generate(Job *job) {
  job->made = hl_generate(job->cx, &(HlGenerateOptions){.seed = (uint64_t)job_int(job, "seed"),
                                                        .instructions = (int)job_int(job, "instructions"),
                                                        .parameters = (int)job_int(job, "parameters"),
                                                        .size = job_int(job, "size"),
                                                        .loops = job_flag(job, "loops")});
  return job->made;
}

HiloModule *hilo_core_generate(HiloCall *call, const char *options) {
  return run_making(call, &(Job){.run = run_generate}, options);
}

static bool run_observe(Job *job) {
  const HlObservation *form = hl_observation_find(hl_str(job->text));
  if (!form)
    return hl_error(job->cx, (HlPos){0}, "unknown observation '%s'", job->text);
  HiloEnv *e = env_alloc(NULL);
  e->observer = hl_observer_new(form);
  const bool ok = hl_observe(job->cx, e->observer, job->m, hl_target_of_module(job->m));
  job->made = ok ? e : NULL;
  if (!ok)
    hilo_core_env_free(e);
  return ok;
}

HiloEnv *hilo_core_observe(HiloCall *call, const HiloModule *m, const char *form) {
  return run_making(call, &(Job){.run = run_observe, .m = m, .text = form}, NULL);
}

// --- Tables -----------------------------------------------------------------------------------------

static bool run_options(Job *job) {
  const HlEnvOptions *o = hl_env_options(((HiloEnv *)job->made)->env);
  HlBuf *out = &job->out;
  json_open(out, NULL, '{');
  json_text(out, "env", ((HiloEnv *)job->made)->setting.spec->name);
  json_text(out, "target", o->target ? o->target->name : "");
  json_text(out, "actions", hl_env_actions_text(o->actions));
  json_text(out, "metric", o->metric);
  json_text(out, "reward", hl_env_reward_text(o->reward));
  json_int(out, "max_steps", o->max_steps);
  json_text(out, "first", o->first);
  json_text(out, "pre", o->pre);
  json_text(out, "choose", o->choose);
  json_text(out, "post", o->post);
  json_text(out, "menu", o->menu);
  json_close(out, '}');
  return true;
}

bool hilo_core_env_options(HiloCall *call, const HiloEnv *env) {
  return run_on_env(call, run_options, env, NULL);
}

static void put_row(HlBuf *out, const char *name, const char *meaning) {
  json_open(out, NULL, '{');
  json_text(out, "name", name);
  json_text(out, "meaning", meaning);
  json_close(out, '}');
}

static void put_column(HlBuf *out, int k) {
  const char *name, *more;
  int number;
  char room[128];
  hl_tpu_column(k, &name, &number, &more);
  if (more)
    snprintf(room, sizeof room, "%s_%s", name, more);
  else if (number >= 0)
    snprintf(room, sizeof room, "%s_%d", name, number);
  else
    snprintf(room, sizeof room, "%s", name);
  json_text(out, NULL, room);
}

static bool run_tables(Job *job) {
  HlBuf *out = &job->out;
  json_open(out, NULL, '{');
  json_open(out, "envs", '[');
  for (int k = 0; hl_env_spec_at(k); k++)
    put_row(out, hl_env_spec_at(k)->name, hl_env_spec_at(k)->meaning);
  json_close(out, ']');
  json_open(out, "policies", '[');
  for (int k = 0; hl_policy_at(k); k++)
    put_row(out, hl_policy_at(k)->name, hl_policy_at(k)->meaning);
  json_close(out, ']');
  json_open(out, "metrics", '[');
  for (int k = 0; hl_env_metric_at(k); k++)
    put_row(out, hl_env_metric_at(k)->name, hl_env_metric_at(k)->meaning);
  for (int k = 0; env_judge_at(k); k++)
    put_row(out, env_judge_at(k)->name, env_judge_at(k)->meaning);
  json_close(out, ']');
  json_open(out, "observations", '[');
  for (int k = 0; hl_observation_at(k); k++)
    put_row(out, hl_observation_at(k)->name, hl_observation_at(k)->meaning);
  json_close(out, ']');
  json_open(out, "tpu_columns", '[');
  for (int k = 0; k < HL_TPU_COLUMNS; k++)
    put_column(out, k);
  json_close(out, ']');
  json_close(out, '}');
  return true;
}

bool hilo_core_env_tables(HiloCall *call) {
  return job_run(call, &(Job){.run = run_tables}, NULL);
}

// --- Batches ----------------------------------------------------------------------------------------

static bool run_batch(Job *job) {
  const HiloEnv *e = job->made;
  const HlBatchOptions options = {.threads = (int)job_int(job, "threads"),
                                  .form = e->observer ? hl_observer_form(e->observer) : NULL,
                                  .seed = (uint64_t)job_int(job, "seed")};
  HlBatch *batch = hl_batch_new(job->cx, e->env, (int)job->n, &options);
  if (!batch)
    return false;
  HiloBatch *b = base_alloc(sizeof *b);
  b->batch = batch;
  b->kept = keep(e->kept);
  b->env = base_alloc_as(b, sizeof *b->env * (size_t)job->n);
  for (int k = 0; k < (int)job->n; k++)
    b->env[k] = (HiloEnv){.kept = b->kept,
                          .setting = e->setting,
                          .env = hl_batch_env(batch, k),
                          .observer = hl_batch_observer(batch, k),
                          .borrowed = true};
  job->made = b;
  return true;
}

HiloBatch *hilo_core_batch_new(HiloCall *call, const HiloEnv *env, int n, const char *options) {
  Job job = {.run = run_batch, .made = (void *)(uintptr_t)env, .n = n};
  return run_making(call, &job, options);
}

void hilo_core_batch_free(HiloBatch *b) {
  if (!b)
    return;
  hl_batch_free(b->batch);
  let_go(b->kept);
  base_free(b->env);
  base_free(b);
}

bool hilo_core_batch_send(HiloCall *call, HiloBatch *batch, int env, const int *action, int n) {
  begin(call);
  return hl_batch_send(call->cx, batch->batch, env, action, n);
}

int hilo_core_batch_receive(HiloBatch *batch, int most, int *envs) {
  return hl_batch_receive(batch->batch, most, envs);
}

// How many numbers an action has there.
static int numbers_of(const HiloEnv *e) {
  int choices, sites;
  hl_env_choices(e->env, &choices);
  hl_env_sites(e->env, &sites);
  const HlEnvActions kind = hl_env_options(e->env)->actions;
  return kind == HL_ENV_ALL ? choices : kind == HL_ENV_SITES ? sites : 1;
}

bool hilo_core_batch_state(const HiloBatch *batch, int env, double *out) {
  const HlBatchStep step = hl_batch_step(batch->batch, env);
  if (!step.error)
    put_state(&batch->env[env], &step.step, out);
  return step.is_reset;
}

const char *hilo_core_batch_error(const HiloBatch *batch, int env) {
  return hl_batch_step(batch->batch, env).error;
}

// An action that is shorter than the state asks for stands for one that chooses nothing beyond.
static bool send_row(HiloCall *call, HiloBatch *b, int k, const int *row, int width) {
  const int wanted = numbers_of(&b->env[k]), n = wanted < width ? wanted : width;
  if (n == wanted)
    return hl_batch_send(call->cx, b->batch, k, row, n);
  int *padded = calloc((size_t)wanted + 1, sizeof *padded);
  if (!padded)
    return hl_error_kind(call->cx, HL_LIMIT, (HlPos){0}, "out of memory");
  memcpy(padded, row, sizeof *row * (size_t)n);
  const bool ok = hl_batch_send(call->cx, b->batch, k, padded, wanted);
  free(padded);
  return ok;
}

bool hilo_core_batch_step(HiloCall *call, HiloBatch *b, const int *actions, int width,
                          double *out) {
  const int n = hl_batch_size(b->batch);
  int sent = 0, *envs = calloc((size_t)n + 1, sizeof *envs);
  begin(call);
  if (!envs)
    return hl_error_kind(call->cx, HL_LIMIT, (HlPos){0}, "out of memory");
  bool ok = true;
  for (int k = 0; ok && k < n; k++)
    ok = !hl_batch_is_under_way(b->batch, k) ||
         hl_error(call->cx, (HlPos){0}, "environment %d has not been received yet", k);
  for (int k = 0; ok && k < n; k++, sent += ok)
    ok = send_row(call, b, k, &actions[(int64_t)k * width], width);
  hl_batch_receive(b->batch, sent, envs);
  free(envs);
  for (int k = 0; ok && k < n; k++) {
    const char *error = hilo_core_batch_error(b, k);
    if (error)
      ok = hl_error_kind(call->cx, HL_FAILED, (HlPos){0}, "environment %d: %s", k, error);
    else
      hilo_core_batch_state(b, k, &out[(int64_t)k * HILO_ENV_STATE]);
  }
  return ok;
}

HiloEnv *hilo_core_batch_env(HiloBatch *batch, int env) {
  return &batch->env[env];
}
