// rewrite/env/chain.c: chains: choices of which each leads to the next, made as one decision.
//
// A rewrite may pay only for what it makes possible: a transpose is moved, which costs as much as before, and then stands before
// another one, with which it cancels. So where no choice lowers the metric by itself, a choice is made, and of those that were not
// there before it each is tried; and where none of them pays, those that follow from one of them. The best chain is made, all of it.

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "rewrite/env/player.h"

enum { FIRST = 24, NEXT = 12 };  // choices that are made for what follows from them: of a state, of those that are new
enum { USUAL_TRIES = 600, LEAST_TRIES = 32, USUAL_SIZE = 1000 };

typedef struct Search {
  Player *p;
  Chain now, *best;
  double start;  // the metric at the beginning
  HlEnvCosts costs;
  int64_t until;  // tries
} Search;

static bool is_over(const Search *s) {
  return player_is_tired(s->p) || s->p->tries >= s->until;
}

// The same rewrite at the same place.
static uint64_t key_of(const HlEnvChoice *c) {
  const char *const texts[] = {c->pass, c->rule, c->comp, c->inst, c->with};
  uint64_t hash = 3;
  for (int k = 0; k < HL_COUNT_OF(texts); k++)
    hash = hl_hash_bytes(texts[k], strlen(texts[k]), hash);
  return hash;
}

static void know(Player *p, Map *known) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(p->env, &n);
  for (int k = 0; k < n; k++)
    *map_at(known, key_of(&choices[k])) = 1;
}

// Choices that are not known, in the order of what is thought of them.
static Picked new_choices(Player *p, const Map *known) {
  Picked all = player_ranked(p);
  int n, n_new = 0;
  const HlEnvChoice *choices = hl_env_choices(p->env, &n);
  for (int k = 0; k < all.n; k++)
    if (!map_get(known, key_of(&choices[all.at[k]])))
      all.at[n_new++] = all.at[k];
  all.n = n_new;
  return all;
}

// Each of the list as the end of the chain.
static bool try_ends(Search *s, Picked list) {
  for (int k = 0; k < list.n && !is_over(s); k++) {
    HlEnvCosts costs;
    double metric;
    if (!player_try_costs(s->p, (Picked){&list.at[k], 1}, &costs, &metric))
      return false;
    if (!(metric < s->best->metric) ||
        !player_better(s->p, &costs, metric, &s->costs, s->start))
      continue;
    *s->best = s->now;
    s->best->step[s->best->n++] = list.at[k];
    s->best->metric = metric;
  }
  return true;
}

static bool follow(Search *s, Picked list, int most, const Map *known);

// What follows from a choice that has been made.
static bool look_behind(Search *s, const Map *known) {
  const bool had = s->best->n > 0;
  const Picked news = new_choices(s->p, known);
  if (!try_ends(s, news))
    return false;
  if ((s->best->n > 0 && !had) || s->now.n + 1 >= CHAIN_MOST || news.n == 0)
    return true;
  Map more = {.arena = s->p->arena};
  know(s->p, &more);
  return follow(s, news, NEXT, &more);
}

static bool follow(Search *s, Picked list, int most, const Map *known) {
  HlEnv *env = s->p->env;
  for (int k = 0; k < list.n && k < most && !is_over(s); k++) {
    HlEnvStep step;
    const int here = hl_env_snapshot(env);
    s->now.step[s->now.n++] = list.at[k];
    bool ok = player_apply(s->p, (Picked){&list.at[k], 1}, &step);
    if (ok && !step.repeated && !hl_env_done(env))
      ok = look_behind(s, known);
    s->now.n--;
    if (!ok || !hl_env_restore(s->p->cx, env, here) || !hl_env_drop(s->p->cx, env, here))
      return false;
  }
  return true;
}

bool player_find_chain(Player *p, Chain *out) {
  *out = (Chain){.metric = hl_env_metric(p->env)};
  if (hl_env_done(p->env) || hl_env_options(p->env)->actions == HL_ENV_PASSES)
    return true;
  const double size = hl_env_costs(p->env).instructions;
  const double tries = size > USUAL_SIZE ? USUAL_TRIES * (USUAL_SIZE / size) : USUAL_TRIES;
  Search s = {.p = p,
              .best = out,
              .start = out->metric,
              .costs = hl_env_costs(p->env),
              .until = p->tries + (int64_t)fmax(tries, LEAST_TRIES)};
  Map known = {.arena = p->arena};
  know(p, &known);
  return follow(&s, player_ranked(p), FIRST, &known);
}

bool player_apply_chain(Player *p, HlEnv *env, const Chain *chain) {
  for (int k = 0; k < chain->n; k++) {
    HlEnvStep step;
    if (!hl_env_apply(p->cx, env, &chain->step[k], 1, &step))
      return false;
  }
  return true;
}
