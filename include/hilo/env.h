// hilo/env.h: rewriting as a game: a module, choices of what could be rewritten, steps, rewards; and players.
//
//   HlEnv *env = hl_env_new(cx, m, &(HlEnvOptions){.choose = "algsimp", .post = "dce", .target = hl_target_find("cpu")});
//   while (!hl_env_done(env)) {
//     int n;
//     const HlEnvChoice *choices = hl_env_choices(env, &n);
//     HlEnvStep step;
//     if (!hl_env_apply(cx, env, &(int){pick(choices, n)}, 1, &step)) ...
//   }
//   hl_env_free(env);
//
// One state is a module and what the pipeline `choose`, run dry, could rewrite in it. A step lets the engine make the rewrites
// that were chosen, and no others; runs `post`, then `pre`, and looks for choices again. There are no rules here: all that can
// happen is what passes do.
//
// An environment belongs to one thread at a time; several, forks too, may be played by several threads at once, each with a context
// of its own. What is broken off (a pass that fails, no memory, hl_cx_cancel) leaves an environment that can only be reset or freed.
#ifndef HILO_ENV_H
#define HILO_ENV_H

#include "hilo/cost.h"
#include "hilo/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlEnv HlEnv;

// --- What there is to gain ------------------------------------------------------------------------

// What a state costs. All of them: less is better. As hilo/cost.h counts, but that a fusion reads of its operands only what is looked
// at inside: slices of them, where nothing else is.
typedef struct HlEnvCosts {
  double seconds;              // of one run on the target, by its roofline, as hl_times
  double kernels;              // that one run starts; loops as often as they are known to run, of branches those with most
  double bytes;                // that it reads and writes
  double flops;
  double instructions;         // of the module
} HlEnvCosts;
HlEnvCosts hl_env_costs_of(const HlModule *m, const HlTarget *target);

// What rewards are made of, by name: the rows of src/rewrite/env/metrics.def. NULL after the last; NULL: there is none such.
typedef struct HlEnvMetric {
  const char *name, *unit, *meaning;
  double (*of)(HlCx *cx, const HlModule *m, const HlEnvCosts *costs);
} HlEnvMetric;
const HlEnvMetric *hl_env_metric_at(int k);
const HlEnvMetric *hl_env_metric_find(HlStr name);

// A reward is what a step takes off the metric (delta), the same in parts of what the first state had (relative), or the metric
// itself, negated (absolute).
typedef enum HlEnvReward { HL_REWARD_DELTA, HL_REWARD_RELATIVE, HL_REWARD_ABSOLUTE } HlEnvReward;

// --- Environments -----------------------------------------------------------------------------------

// What an action says.
typedef enum HlEnvActions {
  HL_ENV_ONE,                  // the number of one choice; as many as there are: stop
  HL_ENV_ALL,                  // of each choice 0 or 1
  HL_ENV_SITES,                // of each site 0, or which of its choices, from 1
  HL_ENV_PASSES                // the number of a pass of the menu, which runs whole; one more: stop
} HlEnvActions;
const char *hl_env_actions_text(HlEnvActions actions);            // "one", "all", "sites", "passes"
bool hl_env_actions_by_text(HlStr text, HlEnvActions *out);
const char *hl_env_reward_text(HlEnvReward reward);               // "delta", "relative", "absolute"
bool hl_env_reward_by_text(HlStr text, HlEnvReward *out);

// Texts are copied. NULL is "" for pipelines.
typedef struct HlEnvOptions {
  const HlPassTable *passes;   // NULL: hl_passes
  const HlPipelineTable *pipelines;  // NULL: hl_pipelines
  const HlTarget *target;      // whose program it is, and whose costs; borrowed; NULL: hl_target_none, for which all takes no time
  HlDialect release;
  const char *first;           // runs once, before all games
  const char *first_without;   // passes and pipelines in it that are left out, by name
  const char *pre;             // runs before choices are looked for
  const char *choose;          // runs dry, and then with what was chosen
  const char *post;            // runs after each step
  const char *own;             // the passes whose decisions the player "xla" takes over; "": those of `choose`, or `menu`
  const char *menu;            // HL_ENV_PASSES: passes, as a pipeline of one level
  HlEnvActions actions;
  const char *metric;          // by name; NULL: "time"
  // Instead, of a module, less being better: false after reporting. Asked once a state; NULL: the metric.
  bool (*judge)(HlCx *cx, void *user, const HlModule *m, double *out);
  void *user;
  HlEnvReward reward;
  int max_steps;               // then a game is cut off; 0: no limit
  uint64_t seed;               // of the first game
} HlEnvOptions;

// Copies the module and begins the first game. NULL after reporting.
HlEnv *hl_env_new(HlCx *cx, const HlModule *m, const HlEnvOptions *options);
void hl_env_free(HlEnv *env);                                     // NULL is fine
// Begins another game with the same module.
bool hl_env_reset(HlCx *cx, HlEnv *env, uint64_t seed);
const HlEnvOptions *hl_env_options(const HlEnv *env);

// --- The state ----------------------------------------------------------------------------------------

// A rewrite that could be made now.
typedef struct HlEnvChoice {
  const char *pass, *rule, *comp, *inst, *with;                   // as of HlRewrite; a pass of the menu has its pass alone
  const char *before, *after;                                     // in words, where the engine says so; else ""
  int site, option;                                               // of which site, and there, from 1
  // Seconds that it is thought to take off the costs, where two kernels become one; NaN: nobody knows without trying.
  double gain;
} HlEnvChoice;
// Choices about one instruction: they stand one after the other.
typedef struct HlEnvSite {
  const char *comp, *inst;
  int first, n;
} HlEnvSite;

// All of these until the next step, reset or restore.
const HlModule *hl_env_module(const HlEnv *env);
const HlEnvChoice *hl_env_choices(const HlEnv *env, int *n);      // each once, those of a site together
const HlEnvSite *hl_env_sites(const HlEnv *env, int *n);
HlEnvCosts hl_env_costs(const HlEnv *env);
double hl_env_metric(const HlEnv *env);                           // what rewards are made of
double hl_env_first_metric(const HlEnv *env);                     // in the first state of the game
uint64_t hl_env_hash(const HlEnv *env);                           // hl_dag_hash of the module
bool hl_env_done(const HlEnv *env);
bool hl_env_is_broken(const HlEnv *env);              // a step was broken off: the module is void, the rest that of a state before
HlRng *hl_env_rng(HlEnv *env);                                    // of the game, for players
// A copy with the last passes run on it, say those after fusion; the caller's. NULL after reporting.
HlModule *hl_env_result(HlCx *cx, const HlEnv *env, const char *last);

// --- Steps ----------------------------------------------------------------------------------------------

typedef struct HlEnvStep {
  double reward;
  bool terminated;             // there is nothing more to choose, or the action was to stop
  bool truncated;              // max_steps
  bool repeated;               // the state was met before in this game
  int64_t applied;             // rewrites of those chosen that happened
} HlEnvStep;
// Makes the choices of these numbers. False after reporting: there is no such choice (nothing has happened then), a pass failed.
bool hl_env_apply(HlCx *cx, HlEnv *env, const int *choices, int n, HlEnvStep *out);
// The same by an action; n is as HlEnvActions says.
bool hl_env_step(HlCx *cx, HlEnv *env, const int *action, int n, HlEnvStep *out);
bool hl_env_stop(HlCx *cx, HlEnv *env, HlEnvStep *out);
// A step in which the passes of `own` do what they do by themselves, once.
bool hl_env_apply_own(HlCx *cx, HlEnv *env, HlEnvStep *out);
// The move of another environment of the same module and setting.
bool hl_env_repeat(HlCx *cx, HlEnv *env, const HlEnv *from, int move, HlEnvStep *out);
// What the costs and the metric would be; the state stays. Cheaper than a step, since no choices are looked for.
bool hl_env_try(HlCx *cx, HlEnv *env, const int *choices, int n, HlEnvCosts *costs, double *metric);
// The same of hl_env_apply_own.
bool hl_env_try_own(HlCx *cx, HlEnv *env, HlEnvCosts *costs, double *metric);

// The steps of this game so far.
typedef struct HlEnvMove {
  const int *choices;          // NULL with n = 0
  int n;
  bool stop, own;              // to stop; hl_env_apply_own
  double reward;
  int64_t applied;
  HlEnvCosts costs;            // after it
  double metric;
  uint64_t hash;
} HlEnvMove;
int hl_env_n_moves(const HlEnv *env);
HlEnvMove hl_env_move(const HlEnv *env, int k);

// --- Going back, and copies -------------------------------------------------------------------------------

// The state gets a number, to which the environment can go back, any number of times. Snapshots nest: going back to one, and
// dropping it, drops those taken after it. A snapshot costs nothing but what the steps after it change (hl_mark).
int hl_env_snapshot(HlEnv *env);                                  // -1: a step was broken off
bool hl_env_restore(HlCx *cx, HlEnv *env, int snapshot);          // the snapshot stays
bool hl_env_drop(HlCx *cx, HlEnv *env, int snapshot);             // the state stays
// Another environment in the same state, of this game, without its snapshots: for another thread, say. NULL after reporting.
HlEnv *hl_env_fork(HlCx *cx, const HlEnv *env);

// --- Players ------------------------------------------------------------------------------------------------

typedef struct HlPolicyOptions {
  uint64_t seed;               // of hl_env_rng
  int64_t tries;               // hl_env_try and steps at most, 0: as many as the player usually takes
  int width;                   // beam: states at a time; 0: 4
  int depth;                   // mcts: steps of a game that is played to its end by chance; 0: 8
  double temperature;          // anneal: at the start, in parts of the metric; 0: 0.02
  // Called now and then with what has been done of what may be; the best metric so far. May be NULL.
  void (*progress)(void *user, int64_t done, int64_t of, double best);
  void *user;
} HlPolicyOptions;
typedef struct HlPolicyReport {
  int64_t tries;               // states that were looked at
  double first, last;          // the metric
} HlPolicyReport;
typedef struct HlPolicy {
  const char *name, *meaning;
} HlPolicy;
// NULL after the last; NULL: there is none such.
const HlPolicy *hl_policy_at(int k);
const HlPolicy *hl_policy_find(HlStr name);
// Plays from the state that is. Those that search leave the environment in the best state that they have found. False after
// reporting.
bool hl_policy_play(HlCx *cx, HlEnv *env, const HlPolicy *policy, const HlPolicyOptions *options, HlPolicyReport *out);

#ifdef __cplusplus
}
#endif
#endif
