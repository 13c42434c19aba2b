// Random games over random modules: whatever is chosen, every state gives the results of the first; played again from its record a
// game has the same states and rewards; and so it does in an environment that others play beside, on other threads.
//
//   property_trajectories                   TRAJECTORIES games
//   property_trajectories COUNT FIRST       games of seeds FIRST to FIRST + COUNT - 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hilo/batch.h"
#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/trajectory.h"
#include "hilo/verify.h"
#include "support/folder.h"
#include "support/gen_algebra.h"
#include "support/passes.h"
#include "support/property.h"

enum { TRAJECTORIES = 1000, STEPS = 12 };

static const HlEnvActions one = HL_ENV_ONE, all = HL_ENV_ALL, sites = HL_ENV_SITES,
                          passes = HL_ENV_PASSES;
// Of each kind of game.
static const struct {
  const char *env, *first, *choose;
  const HlEnvActions *actions;
} kinds[] = {
    {"simplify", NULL, NULL, &one},
    {"algebra", NULL, NULL, &one},
    {"simplify", NULL, NULL, &all},
    {"order", NULL, NULL, &passes},
    {"hloenv", "layout-assignment", NULL, &sites},
    {"gpu-fusion", "layout-assignment", "general-fusion, multi_output_fusion", &one},
    {"cpu-fusion", "layout-assignment", NULL, &all},
};

typedef struct Game {
  HlCx *cx;
  HlModule *m;
  uint64_t seed;
  int kind;
  HlEnvSetting setting;
  HlLiteral **args, *expected;
  uint64_t hash[STEPS + 1];
  int n, *choices[STEPS], n_choices[STEPS];
} Game;

typedef struct Count {
  int64_t games, states, rewrites, failures;
} Count;

static bool blame(Game *g, const char *what) {
  char name[64];
  snprintf(name, sizeof name, "seed %llu, step %d", (unsigned long long)g->seed, g->n);
  return passes_blame(g->cx, name, kinds[g->kind].env, what);
}

static bool evaluate(Game *g, const HlModule *m, HlLiteral **out) {
  const HlLiteral *const *args = (const HlLiteral *const *)g->args;
  return hl_eval(g->cx, m, &(HlEvalOptions){.no_checks = true}, &args, out);
}

static bool game_new(Game *g, uint64_t seed) {
  g->cx = hl_cx_new();
  g->seed = seed;
  g->kind = (int)(seed % HL_COUNT_OF(kinds));
  hl_cx_limits(g->cx)->eval_steps = 2000000;
  g->m = gen_algebra(g->cx, seed, 15 + (int)(seed % 45));
  g->args = g->m ? calloc((size_t)g->m->entry->n_params + 1, sizeof *g->args) : NULL;
  g->setting = (HlEnvSetting){.spec = hl_env_spec_find(hl_str(kinds[g->kind].env)),
                              .actions = kinds[g->kind].actions,
                              .first = kinds[g->kind].first,
                              .choose = kinds[g->kind].choose,
                              .target = hl_target_find("h100"),
                              .metric = seed % 3 ? "time" : "both",
                              .seed = seed};
  return g->m && hl_eval_devices(g->m, NULL) == 1 &&
         hl_fake_args(g->cx, g->m, seed, g->args) && evaluate(g, g->m, &g->expected);
}

static void game_free(Game *g) {
  for (int k = 0; g->args && k < g->m->entry->n_params; k++)
    hl_literal_unref(g->args[k]);
  for (int k = 0; k < STEPS; k++)
    free(g->choices[k]);
  free(g->args);
  hl_literal_unref(g->expected);
  hl_module_free(g->m);
  hl_cx_free(g->cx);
}

// Some of the choices, in order; of one kind one.
static void choose(Game *g, const HlEnv *env, HlRng *rng) {
  int n;
  hl_env_choices(env, &n);
  int *chosen = calloc((size_t)n + 1, sizeof *chosen), count = 0;
  const HlEnvActions actions = *kinds[g->kind].actions;
  if (actions == HL_ENV_ONE || actions == HL_ENV_PASSES)
    chosen[count++] = (int)hl_rng_below(rng, n);
  for (int k = 0; count < n && k < n && actions != HL_ENV_ONE && actions != HL_ENV_PASSES; k++)
    if (hl_rng_below(rng, 2))
      chosen[count++] = k;
  g->choices[g->n] = chosen;
  g->n_choices[g->n] = count;
}

static bool state_is_right(Game *g, const HlEnv *env) {
  HlLiteral *actual = NULL;
  const HlModule *m = hl_env_module(env);
  if (!hl_verify(g->cx, m, NULL))
    return blame(g, "the state is no valid module");
  if (!evaluate(g, m, &actual))
    return blame(g, "the state does not run");
  const bool same = passes_may_differ(g->m, true) ||
                    passes_same(g->cx, m, g->m, 0, actual, g->expected);
  hl_literal_unref(actual);
  return same || blame(g, "the results are other ones");
}

static bool play(Game *g, HlEnv *env, Count *count) {
  HlRng rng = {g->seed};
  g->hash[0] = hl_env_hash(env);
  while (g->n < STEPS && !hl_env_done(env)) {
    HlEnvStep step;
    choose(g, env, &rng);
    if (!hl_env_apply(g->cx, env, g->choices[g->n], g->n_choices[g->n], &step))
      return blame(g, "a step fails");
    count->rewrites += step.applied;
    count->states++;
    g->hash[++g->n] = hl_env_hash(env);
    if (!state_is_right(g, env))
      return false;
  }
  return true;
}

static bool replays(Game *g, const HlEnv *env) {
  char path[FOLDER_ROOM];
  const int fd = folder_file(path, "trajectory", "");
  HlBuf text = {0};
  hl_trajectory_print(env, g->m, &g->setting, NULL, &text);
  bool ok = fd >= 0 && write(fd, text.at, text.n) == (ssize_t)text.n;
  if (fd >= 0)
    close(fd);
  HlPlayed played = {0};
  ok = ok && hl_trajectory_verify(g->cx, path, &(HlPlayOptions){.module = g->m}, &played);
  if (!ok)
    blame(g, "the record cannot be played");
  else if (!played.same || played.moves != g->n)
    ok = blame(g, played.what);
  hl_played_free(&played);
  unlink(path);
  hl_buf_free(&text);
  return ok;
}

// The action that says what the game's move of this number did, in an environment of the same state. NULL: none does, since a site
// has been given two choices.
static int *action_of(const Game *g, int at, const HlEnv *env, int *size) {
  int n, n_sites;
  const HlEnvChoice *choices = hl_env_choices(env, &n);
  hl_env_sites(env, &n_sites);
  const HlEnvActions actions = *kinds[g->kind].actions;
  int *action = calloc((size_t)n + 1, sizeof *action);
  bool is_one = true;
  *size = actions == HL_ENV_SITES ? n_sites : actions == HL_ENV_ALL ? n : 1;
  for (int i = 0; i < g->n_choices[at]; i++) {
    const int c = g->choices[at][i];
    if (actions == HL_ENV_SITES) {
      is_one = is_one && action[choices[c].site] == 0;
      action[choices[c].site] = choices[c].option;
    } else {
      action[actions == HL_ENV_ALL ? c : 0] = actions == HL_ENV_ALL ? 1 : c;
    }
  }
  if (is_one)
    return action;
  free(action);
  return NULL;
}

// The same moves in three environments at once, by as many threads, as far as actions can say them.
static bool same_beside_others(Game *g, const HlEnv *env) {
  enum { BESIDE = 3 };
  HlBatch *b = hl_batch_new(g->cx, env, BESIDE, &(HlBatchOptions){.threads = BESIDE});
  bool ok = b, said = true;
  for (int at = 0; ok && said && at < g->n; at++) {
    int which[BESIDE], size, sent = 0;
    for (int k = 0; ok && said && k < BESIDE; k++) {
      int *action = action_of(g, at, hl_batch_env(b, k), &size);
      said = action;
      ok = !said || hl_batch_send(g->cx, b, k, action, size);
      sent += ok && said;
      free(action);
    }
    hl_batch_receive(b, BESIDE, which);
    for (int k = 0; ok && k < sent; k++)
      ok = hl_env_hash(hl_batch_env(b, k)) == g->hash[at + 1];
  }
  hl_batch_free(b);
  return ok || blame(g, "beside others the states are other ones");
}

static void check(uint64_t seed, Count *count) {
  Game g = {0};
  const bool runs = game_new(&g, seed);
  HlEnv *env = runs ? hl_env_open(g.cx, g.m, &g.setting) : NULL;
  if (runs) {
    count->games++;
    count->failures += !env ? !blame(&g, "there is no environment")
                            : !(play(&g, env, count) && replays(&g, env) &&
                                same_beside_others(&g, env));
  }
  hl_env_free(env);
  game_free(&g);
}

int main(int argc, char **argv) {
  const char *many = getenv("HILO_ITERATIONS");
  const int64_t wanted = argc > 1 ? atoll(argv[1]) : many ? atoll(many) : TRAJECTORIES;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  Count count = {0};
  for (int64_t k = 0; argc > 1 ? k < wanted : count.games < wanted && k < 4 * wanted; k++)
    check(seed++, &count);
  printf("%lld games, %lld states, %lld rewrites: %lld wrong\n", (long long)count.games,
         (long long)count.states, (long long)count.rewrites, (long long)count.failures);
  return count.failures > 0 || count.games == 0 || count.rewrites == 0;
}
