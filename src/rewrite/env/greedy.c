// rewrite/env/greedy.c: the greedy player: what lowers the metric most, as long as anything does.
//
// Of many choices that do not touch each other the best may as well be made in one step: those that are thought to bring something
// are tried together, and where that makes things worse, half of them, and so on. Where nobody knows what a choice brings, each
// is tried by itself first, as far as the tries last. Where nothing pays by itself chains are looked for (chain.c). What pays only
// together it finds by playing on from where nothing pays.

#include <math.h>
#include <stdlib.h>

#include "rewrite/env/player.h"

typedef struct Tried {
  double gain;
  int k;
} Tried;

static int by_gain(const void *a, const void *b) {
  const Tried *x = a, *y = b;
  return x->gain != y->gain ? (x->gain > y->gain ? -1 : 1) : (x->k > y->k) - (x->k < y->k);
}

// Tries each choice by itself: those that lower the metric, best first.
static bool try_each(Player *p, Picked ranked, Picked *out) {
  const double now = hl_env_metric(p->env);
  Tried *tried = HL_ARRAY(p->arena, Tried, ranked.n + 1);
  int n = 0;
  for (int k = 0; k < ranked.n && !player_is_tired(p); k++) {
    double metric;
    if (!player_try(p, (Picked){&ranked.at[k], 1}, &metric))
      return false;
    if (metric < now)
      tried[n++] = (Tried){now - metric, ranked.at[k]};
  }
  if (n > 1)
    qsort(tried, (size_t)n, sizeof *tried, by_gain);
  *out = (Picked){HL_ARRAY(p->arena, int, n + 1), n};
  for (int k = 0; k < n; k++)
    out->at[k] = tried[k].k;
  return true;
}

// The largest part of the list, from its start, that lowers the metric. n = 0: none does.
static bool best_part(Player *p, Picked list, Picked *out) {
  const double now = hl_env_metric(p->env);
  for (int n = list.n; n > 0 && !player_is_tired(p); n /= 2) {
    double metric;
    *out = (Picked){list.at, n};
    if (!player_try(p, *out, &metric))
      return false;
    if (metric < now)
      return true;
  }
  out->n = 0;
  return true;
}

// With few choices each is tried; else it goes by what is thought of them, and each is tried when that leads nowhere.
static bool choose(Player *p, Picked *out) {
  enum { FEW = 48, EACH = 128 };
  const Picked ranked = player_ranked(p);
  *out = (Picked){0};
  if (ranked.n > FEW && (!best_part(p, player_apart(p, ranked, true), out) || out->n > 0))
    return out->n > 0;
  Picked good, each = {ranked.at, ranked.n < EACH ? ranked.n : EACH};
  return try_each(p, each, &good) && best_part(p, player_apart(p, good, false), out);
}

// One way down. From where nothing pays at once, everything at once may lead lower in the end.
static bool go_down(Player *p) {
  while (!hl_env_done(p->env) && !player_is_tired(p)) {
    const HlMark mark = hl_arena_mark(p->arena);
    Picked picked;
    HlEnvStep step;
    Chain chain = {.n = 0};
    bool ok = choose(p, &picked);
    if (ok && picked.n > 0)
      ok = player_apply(p, picked, &step);
    else
      ok = ok && player_find_chain(p, &chain) && player_apply_chain(p, p->env, &chain);
    hl_arena_release(p->arena, mark);
    if (!ok)
      return false;
    if (picked.n == 0 && chain.n == 0)
      return true;
  }
  return true;
}

// Plays `play` from here, then goes down from there; what comes out worse is taken back.
static bool try_from(Player *p, bool (*play)(Player *p)) {
  if (hl_env_done(p->env) || player_is_tired(p))
    return true;
  const double before = hl_env_metric(p->env);
  const HlEnvCosts costs = hl_env_costs(p->env);
  const int here = hl_env_snapshot(p->env);
  if (!play(p) || !go_down(p))
    return false;
  const HlEnvCosts now = hl_env_costs(p->env);
  if (!player_better(p, &now, hl_env_metric(p->env), &costs, before) &&
      !hl_env_restore(p->cx, p->env, here))
    return false;
  return hl_env_drop(p->cx, p->env, here);
}

static bool is_better(const Player *p, const HlEnv *than) {
  const HlEnvCosts costs = hl_env_costs(p->env), others = hl_env_costs(than);
  return player_better(p, &costs, hl_env_metric(p->env), &others, hl_env_metric(than));
}

// The way down from where the passes themselves would be, and that from the start; at the end of each everything that is left.
bool play_greedy(Player *p) {
  const int start = hl_env_snapshot(p->env), first = hl_env_n_moves(p->env);
  if (hl_env_done(p->env))
    return hl_env_drop(p->cx, p->env, start);
  HlEnvStep step;
  if (!hl_env_apply_own(p->cx, p->env, &step) || !go_down(p) || !try_from(p, play_all))
    return false;
  HlEnv *other = hl_env_fork(p->cx, p->env);
  bool ok = other && hl_env_restore(p->cx, p->env, start);
  ok = ok && go_down(p) && try_from(p, play_all);
  if (ok && !is_better(p, other))
    ok = player_repeat(p, start, other, first, hl_env_n_moves(other) - first);
  hl_env_free(other);
  return ok && hl_env_drop(p->cx, p->env, start);
}
