// rewrite/env/env.h: the insides of an environment; private to src/rewrite/env.
#ifndef REWRITE_ENV_H
#define REWRITE_ENV_H

#include <stdatomic.h>

#include "base/memory.h"
#include "base/vec.h"
#include "hilo/edit.h"
#include "hilo/env.h"

// What could be done in a state: never changed, shared by the state, its snapshots and forks.
typedef struct EnvChoices {
  atomic_int refs;
  HlArena *arena;  // of the lists and texts
  HlEnvChoice *at;
  HlEnvSite *site;
  int n, n_sites;
} EnvChoices;
// Whoever holds a reference is an environment; one that is made in a try that fails is not there to give it back.
EnvChoices *env_choices_ref(const HlEnv *holder, EnvChoices *choices);
void env_choices_unref(const HlEnv *holder, EnvChoices *choices);  // NULL is fine
// They become the environment's, which is to hold them: are as old as it.
void env_choices_give(const HlEnv *holder, EnvChoices *choices);
// Costs of the module as it is, in an arena: what costs and gains are counted with.
typedef struct EnvPrices {
  HlArena *arena;
  const HlModule *m;
  const HlTarget *target;
  HlCost *comps;
  HlTimes times;
} EnvPrices;
EnvPrices env_prices(HlArena *arena, const HlModule *m, const HlTarget *target);
HlEnvCosts env_costs_by(const EnvPrices *prices);
// What the state offers. NULL after reporting.
EnvChoices *env_choices_find(HlCx *cx, HlEnv *env, const EnvPrices *prices);

// A step, as it is remembered: its choices stand in `chosen` from `first` on.
typedef struct EnvMove {
  int first, n;
  bool stop, own;
  double reward, metric;
  int64_t applied;
  HlEnvCosts costs;
  uint64_t hash;
} EnvMove;

// All of a state but the module.
typedef struct EnvState {
  EnvChoices *choices;
  HlEnvCosts costs;
  double metric;
  uint64_t hash;
  int n_moves, n_chosen;
  bool done;
  HlRng rng;
} EnvState;

typedef struct EnvSnapshot {
  HlEditMark mark;
  EnvState state;
} EnvSnapshot;

// The module before all games: it does not change, and is shared by an environment and its forks.
typedef struct EnvOrigin {
  atomic_int refs;
  HlModule *m;
} EnvOrigin;

struct HlEnv {
  HlArena *arena;
  HlEnvOptions options;
  const HlEnvMetric *metric;
  EnvOrigin *origin;
  HlModule *m;
  HlEditMark start;  // the module as it was when the game began; of a fork, as it was then
  bool is_fork;
  uint64_t first_hash;
  double first_metric, first_instructions;
  EnvState state;
  VEC(EnvMove) moves;
  VEC(int) chosen;
  VEC(EnvSnapshot) snapshots;
  bool broken;  // a step was broken off: the module is void, until a game begins anew
};

// Runs passes on the module with the environment's tables and target; `more` may add to the options, or be NULL. The engine is
// the caller's. NULL after reporting.
HlEngine *env_run(HlCx *cx, HlEnv *env, HlModule *m, const char *pipeline,
                  const HlEngineOptions *more);
// The same where nobody asks the engine anything. "" does nothing.
bool env_run_all(HlCx *cx, HlEnv *env, HlModule *m, const char *pipeline);
// Lets the rewrites of these choices happen, and `post`: how many did, or -1 after reporting.
int64_t env_make(HlCx *cx, HlEnv *env, const int *choices, int n);
// costs.c: bytes of an instruction outside of fusions; its time.
typedef struct EnvTraffic {
  double read, written;
} EnvTraffic;
EnvTraffic env_traffic(const HlInst *inst, const HlCost *comps);
double env_time(const HlTimes *times, const HlInst *inst);
// The metric of the module as it is. False after reporting.
bool env_judge(HlCx *cx, HlEnv *env, HlEnvCosts *costs, double *metric);
bool env_judge_by(HlCx *cx, HlEnv *env, const EnvPrices *prices, HlEnvCosts *costs, double *metric);
const HlTarget *env_target_of(const HlEnv *env);

#endif
