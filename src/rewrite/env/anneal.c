// rewrite/env/anneal.c: the annealing player: of each site what is chosen there; now and then another choice at some of them.
//
// A step is a set of choices. It begins with what is thought to be best, or with nothing, changes by chance, and a worse one is taken
// as the next start less and less often. The best of all becomes the step; then the same again from there, until nothing is gained.

#include <math.h>
#include <string.h>

#include "rewrite/env/player.h"

#define TEMPERATURE 0.02

typedef struct Anneal {
  Player *p;
  const HlEnvSite *sites;
  int n;            // sites
  int *option;      // of each site, 0: none
  int *next, *best;
  Picked picked;    // scratch
} Anneal;

static Picked picked_of(Anneal *a, const int *option) {
  a->picked.n = 0;
  for (int k = 0; k < a->n; k++)
    if (option[k] > 0)
      a->picked.at[a->picked.n++] = a->sites[k].first + option[k] - 1;
  return a->picked;
}

static bool cost_of(Anneal *a, const int *option, double *out) {
  const Picked picked = picked_of(a, option);
  *out = hl_env_metric(a->p->env);
  return picked.n == 0 || player_try(a->p, picked, out);
}

static void begin_with(Anneal *a, Picked picked) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(a->p->env, &n);
  for (int k = 0; k < picked.n; k++)
    a->option[choices[picked.at[k]].site] = choices[picked.at[k]].option;
}

// Other choices at one to four sites.
static void change(Anneal *a) {
  HlRng *rng = hl_env_rng(a->p->env);
  memcpy(a->next, a->option, sizeof *a->next * (size_t)a->n);
  for (int64_t k = 1 + hl_rng_below(rng, 4); k > 0; k--) {
    const int64_t at = hl_rng_below(rng, a->n);
    a->next[at] = (int)hl_rng_below(rng, a->sites[at].n + 1);
  }
}

// The best set that is found in so many tries; true with a metric that is not below the state's: none.
static bool cool_down(Anneal *a, int64_t tries, double *best) {
  Player *p = a->p;
  const double temperature = p->options->temperature > 0 ? p->options->temperature : TEMPERATURE;
  const double scale = fabs(hl_env_metric(p->env)) * temperature;
  double now;
  if (!cost_of(a, a->option, &now))
    return false;
  *best = now;
  memcpy(a->best, a->option, sizeof *a->best * (size_t)a->n);
  for (int64_t k = 0; k < tries && !player_is_tired(p); k++) {
    const double heat = scale * pow(0.01, (double)k / (double)tries);
    double metric;
    change(a);
    if (!cost_of(a, a->next, &metric))
      return false;
    if (metric > now && (heat <= 0 || hl_rng_unit(hl_env_rng(p->env)) >= exp((now - metric) / heat)))
      continue;
    now = metric;
    memcpy(a->option, a->next, sizeof *a->option * (size_t)a->n);
    if (now < *best) {
      *best = now;
      memcpy(a->best, a->option, sizeof *a->best * (size_t)a->n);
    }
  }
  return true;
}

static bool play_step(Player *p, bool *done) {
  Anneal a = {.p = p};
  a.sites = hl_env_sites(p->env, &a.n);
  a.option = HL_ARRAY(p->arena, int, a.n + 1);
  a.next = HL_ARRAY(p->arena, int, a.n + 1);
  a.best = HL_ARRAY(p->arena, int, a.n + 1);
  a.picked.at = HL_ARRAY(p->arena, int, a.n + 1);
  if (hl_env_options(p->env)->actions != HL_ENV_PASSES)
    begin_with(&a, player_apart(p, player_ranked(p), true));
  double best;
  const int64_t tries = 1 + p->most / 4;  // a game has a few steps
  if (!cool_down(&a, tries, &best))
    return false;
  HlEnvStep step;
  *done = best >= hl_env_metric(p->env);
  return *done || player_apply(p, picked_of(&a, a.best), &step);
}

bool play_anneal(Player *p) {
  bool done = false;
  while (!done && !hl_env_done(p->env) && !player_is_tired(p)) {
    const HlMark mark = hl_arena_mark(p->arena);
    const bool ok = play_step(p, &done);
    hl_arena_release(p->arena, mark);
    if (!ok)
      return false;
  }
  return true;
}
