// rewrite/env/beam.c: the beam player: from each of the best few states some steps, of all that come out the best few again.
//
// It begins with the state that is and the one to which the passes would come by themselves. A step may be one choice, or many that do
// not touch each other, or, from where none of these pays, a chain of choices (chain.c). States are forks of the environment; those that are the same
// graph count once.

#include <stdlib.h>

#include "rewrite/env/player.h"

enum { WIDTH = 4, BRANCHES = 8, PATIENCE = 4 };

typedef struct Branch {
  int from;  // which state
  Picked picked;
  Chain chain;  // instead, if there are steps in it
  double metric;
} Branch;

typedef struct Beam {
  Player *p;
  int width;
  HlEnv **at;
  int n;
  VEC(Branch) branches;
} Beam;

static int by_metric(const void *a, const void *b) {
  const Branch *x = a, *y = b;
  if (x->metric != y->metric)
    return x->metric < y->metric ? -1 : 1;
  return x->from != y->from ? x->from - y->from : x->picked.n - y->picked.n;
}

static bool add_branch(Beam *b, Player *of, int from, Picked picked) {
  Branch branch = {.from = from, .picked = picked};
  if (picked.n == 0 || player_is_tired(of))
    return true;
  if (!player_try(of, picked, &branch.metric))
    return false;
  vec_push_in(of->arena, &b->branches, branch);
  return true;
}

static bool add_chain(Beam *b, Player *of, int from) {
  Branch branch = {.from = from};
  for (int k = 0; k < b->branches.n; k++)
    if (b->branches.at[k].from == from && b->branches.at[k].metric < hl_env_metric(of->env))
      return true;
  if (!player_find_chain(of, &branch.chain))
    return false;
  branch.metric = branch.chain.metric;
  if (branch.chain.n > 0)
    vec_push_in(of->arena, &b->branches, branch);
  return true;
}

static bool branch_out(Beam *b, int from) {
  Player of = *b->p;
  of.env = b->at[from];
  if (hl_env_done(of.env))
    return true;
  const Picked ranked = player_ranked(&of);
  const Picked apart = player_apart(&of, ranked, true);
  bool ok = true;
  for (int n = apart.n; ok && n > 1; n /= 2)
    ok = add_branch(b, &of, from, (Picked){apart.at, n});
  // Of a menu all; else those of which most is hoped, and some by chance.
  const int most = hl_env_options(of.env)->actions == HL_ENV_PASSES ? ranked.n : BRANCHES;
  for (int k = 0; ok && k < ranked.n && k < most; k++)
    ok = add_branch(b, &of, from, (Picked){&ranked.at[k], 1});
  for (int k = 0; ok && ranked.n > most && k < BRANCHES / 2; k++) {
    const int64_t at = most + hl_rng_below(hl_env_rng(b->p->env), ranked.n - most);
    ok = add_branch(b, &of, from, (Picked){&ranked.at[at], 1});
  }
  ok = ok && add_chain(b, &of, from);
  b->p->tries = of.tries;
  b->p->best = of.best;
  return ok;
}

static void drop_states(HlEnv **at, int n) {
  for (int k = 0; k < n; k++)
    hl_env_free(at[k]);
}

static bool is_there(HlEnv *const *at, int n, uint64_t hash) {
  for (int k = 0; k < n; k++)
    if (hl_env_hash(at[k]) == hash)
      return true;
  return false;
}

// The best branches become the states.
static bool grow(Beam *b) {
  HlEnv **next = HL_ARRAY(b->p->arena, HlEnv *, b->width + 1);
  int n = 0;
  bool ok = true;
  if (b->branches.n > 1)
    qsort(b->branches.at, (size_t)b->branches.n, sizeof *b->branches.at, by_metric);
  for (int k = 0; ok && k < b->branches.n && n < b->width; k++) {
    const Branch *branch = &b->branches.at[k];
    HlEnvStep step = {0};
    HlEnv *state = hl_env_fork(b->p->cx, b->at[branch->from]);
    if (branch->chain.n > 0)
      ok = state && player_apply_chain(b->p, state, &branch->chain);
    else
      ok = state && hl_env_apply(b->p->cx, state, branch->picked.at, branch->picked.n, &step);
    if (ok && !step.repeated && !is_there(next, n, hl_env_hash(state)))
      next[n++] = state;
    else
      hl_env_free(state);
  }
  drop_states(b->at, b->n);
  b->at = next;
  b->n = n;
  b->branches.n = b->branches.capacity = 0;
  b->branches.at = NULL;
  return ok;
}

// The best state so far, as a fork.
static bool keep_best(Beam *b, HlEnv **best, bool *better) {
  *better = false;
  for (int k = 0; k < b->n; k++)
    if (hl_env_metric(b->at[k]) < hl_env_metric(*best)) {
      HlEnv *fork = hl_env_fork(b->p->cx, b->at[k]);
      if (!fork)
        return false;
      hl_env_free(*best);
      *best = fork;
      *better = true;
    }
  return true;
}

static bool search(Beam *b, HlEnv **best) {
  int idle = 0;
  while (b->n > 0 && idle < PATIENCE && !player_is_tired(b->p)) {
    bool ok = true, better;
    for (int k = 0; ok && k < b->n; k++)
      ok = branch_out(b, k);
    if (!ok || !grow(b) || !keep_best(b, best, &better))
      return false;
    idle = better ? 0 : idle + 1;
  }
  return true;
}

// The first states: the one that is, and the one to which the passes come by themselves.
static bool begin_beam(Beam *b, int start, HlEnv **best) {
  Player *p = b->p;
  bool better;
  b->at = HL_ARRAY(p->arena, HlEnv *, 2);
  if (!(*best = hl_env_fork(p->cx, p->env)) || !(b->at[b->n] = hl_env_fork(p->cx, p->env)))
    return false;
  b->n++;
  if (hl_env_done(p->env))
    return true;
  if (!play_xla(p) || !(b->at[b->n] = hl_env_fork(p->cx, p->env)))
    return false;
  b->n++;
  return hl_env_restore(p->cx, p->env, start) && keep_best(b, best, &better);
}

bool play_beam(Player *p) {
  Beam b = {.p = p, .width = p->options->width > 0 ? p->options->width : WIDTH};
  const int first = hl_env_n_moves(p->env), start = hl_env_snapshot(p->env);
  HlEnv *best = NULL;
  bool ok = begin_beam(&b, start, &best) && search(&b, &best);
  ok = ok && player_repeat(p, start, best, first, hl_env_n_moves(best) - first);
  drop_states(b.at, b.n);
  hl_env_free(best);
  return ok && hl_env_drop(p->cx, p->env, start);
}
