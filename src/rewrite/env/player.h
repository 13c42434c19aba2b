// rewrite/env/player.h: what players share; private to src/rewrite/env.
#ifndef REWRITE_ENV_PLAYER_H
#define REWRITE_ENV_PLAYER_H

#include "rewrite/env/env.h"

// One game of one player.
typedef struct Player {
  HlCx *cx;
  HlEnv *env;
  const HlPolicyOptions *options;
  HlArena *arena;  // of the game
  int64_t tries, most;
  double best;
} Player;

// Choices made together, in `arena`.
typedef struct Picked {
  int *at;
  int n;
} Picked;

static inline bool player_is_tired(const Player *p) {
  return p->tries >= p->most;
}
// Whether a state of these costs is better than another: its metric is less, and where that is "both", neither kernels nor bytes are
// more.
bool player_better(const Player *p, const HlEnvCosts *costs, double metric, const HlEnvCosts *than,
                   double than_metric);
// hl_env_try, counted, and hl_env_apply, too. A metric that is less than the state's, but not better, is told as infinite.
bool player_try(Player *p, Picked picked, double *metric);
bool player_apply(Player *p, Picked picked, HlEnvStep *out);
bool player_try_costs(Player *p, Picked picked, HlEnvCosts *costs, double *metric);  // with its costs, and the metric as it is
bool player_apply_own(Player *p, HlEnvStep *out);  // hl_env_apply_own
// All choices, those first that are thought to bring most; what nobody knows comes after what is worth something.
Picked player_ranked(Player *p);
// Of these, in their order, those that touch no instruction that one before them touches; with `worth`, only those that are
// thought to bring something or of which nobody knows.
Picked player_apart(Player *p, Picked ranked, bool worth);
// Goes back to the snapshot and makes the first n moves of `from` after its move `first`.
bool player_repeat(Player *p, int snapshot, const HlEnv *from, int first, int n);

// chain.c: choices one after the other, each of which the one before has made possible: numbers in the states on the way.
enum { CHAIN_MOST = 3 };
typedef struct Chain {
  int step[CHAIN_MOST], n;  // n = 0: there is none
  double metric;            // at its end
} Chain;
// The chain that lowers the metric most, of those that were looked at. False after reporting.
bool player_find_chain(Player *p, Chain *out);
bool player_apply_chain(Player *p, HlEnv *env, const Chain *chain);

bool play_all(Player *p);
bool play_xla(Player *p);
bool play_greedy(Player *p);
bool play_beam(Player *p);
bool play_anneal(Player *p);
bool play_mcts(Player *p);
bool play_evolve(Player *p);

#endif
