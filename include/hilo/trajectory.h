// hilo/trajectory.h: environments by name (hilo/env.h), measured time as their metric, and games as files that can be played again.
//
//   HlEnvSetting setting = {.spec = hl_env_spec_find(hl_str("gpu-fusion"))};
//   HlEnv *env = hl_env_open(cx, m, &setting);
//   hl_policy_play(cx, env, hl_policy_find(hl_str("greedy")), NULL, &report);
//   hl_trajectory_write(cx, env, &setting, "m.hlo", "game.json");
//   ...
//   hl_trajectory_verify(cx, "game.json", NULL, &played);          // on any machine
#ifndef HILO_TRAJECTORY_H
#define HILO_TRAJECTORY_H

#include "hilo/env.h"
#include "hilo/rules.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Environments by name -----------------------------------------------------------------------------

typedef struct HlEnvSpec {
  const char *name, *target;
  HlEnvActions actions;
  const char *first, *without, *pre, *choose, *post, *own, *menu, *meaning;
} HlEnvSpec;
const HlEnvSpec *hl_env_spec_at(int k);               // NULL after the last
const HlEnvSpec *hl_env_spec_find(HlStr name);        // NULL: there is none such

// What is asked of one. Zero: "simplify" with the metric "time", rewards as differences.
typedef struct HlEnvSetting {
  const HlEnvSpec *spec;
  // In the place of the spec's, where not NULL.
  const char *first, *pre, *choose, *post, *menu;
  const HlEnvActions *actions;
  const HlRuleSet *rules;      // whose pass "text-rules" `choose` may name, and is where it names none; borrowed, as long as the environment
  const char *metric;          // of hl_env_metric_at, or of hl_measure_metric: "measured", "compile"; NULL: "time"
  HlEnvReward reward;
  const HlTarget *target;      // NULL: the spec's, or what the module says
  int max_steps;
  uint64_t seed;
} HlEnvSetting;
// The environment of a module. NULL after reporting.
HlEnv *hl_env_open(HlCx *cx, const HlModule *m, const HlEnvSetting *setting);
// The names of all metrics, measured ones too; NULL after the last.
const char *hl_env_metric_name(int k);

// --- Measured -------------------------------------------------------------------------------------------

typedef struct HlMeasureOptions {
  int warm_up;                 // runs that do not count; 0: 3
  int runs;                    // 0: 20
  int threads;                 // 0: 1
  double seconds;              // the process is ended after so long; 0: 60
  int64_t bytes;               // or when it holds so much memory; 0: no limit
  uint64_t seed;               // of the inputs that are made up
} HlMeasureOptions;
typedef struct HlMeasured {
  int runs;
  double median, low, high;    // seconds of a run; with 95% the median of all runs is between low and high
  double mean, best;
  double compile;              // seconds from the module to the program
} HlMeasured;
// Compiles the module for this processor and runs it on inputs made up, in a process of its own: what crashes or hangs there is an
// error here. False after reporting.
bool hl_measure(HlCx *cx, const HlModule *m, const HlMeasureOptions *options, HlMeasured *out);

// --- The same results -------------------------------------------------------------------------------------

typedef struct HlValidateOptions {
  int inputs;                  // different ones; 0: 3
  uint64_t seed;
  HlMaybeFloat tolerance;      // of HlCompareOptions
} HlValidateOptions;
typedef struct HlValidated {
  int inputs;                  // that were tried
  bool equal;
  int results, silent;         // of one input; of these with no finite value on any (hl_is_silent), of which equality says nothing
  int input, leaf;             // the first that differs, -1 if none
  HlMismatch mismatch;
} HlValidated;
// Whether both modules give the same results, all of them, on inputs made up such that the first can do with them what it does
// (hl_fake_args: indices in range, random keys, loops that end; integers of all sizes, and every second time small ones): by the interpreter. False after reporting.
bool hl_validate(HlCx *cx, const HlModule *before, const HlModule *after, const HlValidateOptions *options,
                 HlValidated *out);

// --- Files -----------------------------------------------------------------------------------------------

// Writes the game that has been played so far as JSON: the hash of the module, the setting, and of each step choices, reward and
// hash. `program`: where the module was read, or NULL.
bool hl_trajectory_write(HlCx *cx, const HlEnv *env, const HlModule *m, const HlEnvSetting *setting, const char *program,
                         const char *path);
void hl_trajectory_print(const HlEnv *env, const HlModule *m, const HlEnvSetting *setting, const char *program, HlBuf *out);

typedef struct HlPlayed {
  int moves;                   // that were played
  int of;                      // that the file has
  bool same;                   // hashes, numbers of rewrites and rewards are those of the file
  int differs;                 // the first move that is not; -1: it is the module itself
  const char *what;            // "module", "hash", "applied", "reward", "choices"; "" where all is the same
  bool measured;               // rewards are measured times, and were not compared
  HlValidated validated;       // with `validate`
  bool is_validated;
  HlEnv *env;                  // in the last state; NULL: it is not the module that was played with
  HlArena *arena;              // of its target
  HlRuleSet *rules;            // of the file
} HlPlayed;
typedef struct HlPlayOptions {
  const HlModule *module;      // instead of the program that the file names
  bool validate;               // the first and the last state give the same results
} HlPlayOptions;
// Plays the game of a file again and compares. False after reporting: the file or its program cannot be read, a step fails. Options may be
// NULL.
bool hl_trajectory_verify(HlCx *cx, const char *path, const HlPlayOptions *options, HlPlayed *out);
void hl_played_free(HlPlayed *played);

#ifdef __cplusplus
}
#endif
#endif
