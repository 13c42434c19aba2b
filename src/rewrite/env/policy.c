// rewrite/env/policy.c: players: the table of them, what they share, and those that do not search.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "rewrite/env/player.h"

enum { MOST_STEPS = 200 };  // of a player that never tires

// --- What they share ----------------------------------------------------------------------------

static void tell(Player *p, double metric) {
  if (metric < p->best)
    p->best = metric;
  p->tries++;
  if (p->options->progress)
    p->options->progress(p->options->user, p->tries, p->most, p->best);
}

bool player_better(const Player *p, const HlEnvCosts *costs, double metric, const HlEnvCosts *than,
                   double than_metric) {
  const bool both = strcmp(p->env->options.metric, "both") == 0;
  return metric < than_metric &&
         (!both || (costs->kernels <= than->kernels && costs->bytes <= than->bytes));
}

bool player_try_costs(Player *p, Picked picked, HlEnvCosts *costs, double *metric) {
  base_look();
  if (!hl_env_try(p->cx, p->env, picked.at, picked.n, costs, metric))
    return false;
  tell(p, *metric);
  return true;
}

bool player_try(Player *p, Picked picked, double *metric) {
  HlEnvCosts costs;
  const EnvState *now = &p->env->state;
  if (!player_try_costs(p, picked, &costs, metric))
    return false;
  if (*metric < now->metric && !player_better(p, &costs, *metric, &now->costs, now->metric))
    *metric = INFINITY;
  return true;
}

bool player_apply(Player *p, Picked picked, HlEnvStep *out) {
  base_look();
  if (!hl_env_apply(p->cx, p->env, picked.at, picked.n, out))
    return false;
  tell(p, hl_env_metric(p->env));
  return true;
}

bool player_apply_own(Player *p, HlEnvStep *out) {
  base_look();
  if (!hl_env_apply_own(p->cx, p->env, out))
    return false;
  tell(p, hl_env_metric(p->env));
  return true;
}

typedef struct Ranked {
  double gain;
  int k;
} Ranked;

// Where nobody knows, a hope smaller than any promise.
static double hope_of(const HlEnvChoice *choice) {
  return isnan(choice->gain) ? 0 : choice->gain;
}

static int by_gain(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  return x->gain != y->gain ? (x->gain > y->gain ? -1 : 1) : (x->k > y->k) - (x->k < y->k);
}

Picked player_ranked(Player *p) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(p->env, &n);
  Ranked *ranked = HL_ARRAY(p->arena, Ranked, n + 1);
  Picked out = {HL_ARRAY(p->arena, int, n + 1), n};
  for (int k = 0; k < n; k++)
    ranked[k] = (Ranked){hope_of(&choices[k]), k};
  if (n > 1)
    qsort(ranked, (size_t)n, sizeof *ranked, by_gain);
  for (int k = 0; k < n; k++)
    out.at[k] = ranked[k].k;
  return out;
}

// Whether an instruction of this name has been touched; from now on it has.
static bool touch(Map *touched, const char *comp, const char *name) {
  const uint64_t key = hl_hash_bytes(name, strlen(name), hl_hash_bytes(comp, strlen(comp), 1));
  uint64_t *at = map_at(touched, key);
  const bool was = *at != 0;
  *at = 1;
  return was;
}

Picked player_apart(Player *p, Picked ranked, bool worth) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(p->env, &n);
  Picked out = {HL_ARRAY(p->arena, int, ranked.n + 1), 0};
  Map touched = {.arena = p->arena};
  for (int k = 0; k < ranked.n; k++) {
    const HlEnvChoice *c = &choices[ranked.at[k]];
    if (worth && c->gain < 0)
      continue;
    Map *t = &touched;
    if (touch(t, c->comp, c->inst) || (*c->with && touch(t, c->comp, c->with)))
      continue;
    out.at[out.n++] = ranked.at[k];
  }
  return out;
}

bool player_repeat(Player *p, int snapshot, const HlEnv *from, int first, int n) {
  if (!hl_env_restore(p->cx, p->env, snapshot))
    return false;
  for (int k = 0; k < n; k++) {
    HlEnvStep step;
    if (!hl_env_repeat(p->cx, p->env, from, first + k, &step))
      return false;
  }
  return true;
}

// --- Players that do not search ------------------------------------------------------------------

static bool play_none(Player *p) {
  (void)p;
  return true;
}

// Chooses by `pick` until nothing happens or a state comes again.
static bool play_picks(Player *p, Picked (*pick)(Player *p)) {
  while (!hl_env_done(p->env) && !player_is_tired(p)) {
    const HlMark mark = hl_arena_mark(p->arena);
    const Picked picked = pick(p);
    HlEnvStep step = {0};
    const bool ok = picked.n == 0 || player_apply(p, picked, &step);
    hl_arena_release(p->arena, mark);
    if (!ok)
      return false;
    if (picked.n == 0 || step.applied == 0 || step.repeated)
      return true;
  }
  return true;
}

static Picked pick_all(Player *p) {
  int n;
  hl_env_choices(p->env, &n);
  Picked out = {HL_ARRAY(p->arena, int, n + 1), n};
  for (int k = 0; k < n; k++)
    out.at[k] = k;
  return out;
}

bool play_all(Player *p) {
  return play_picks(p, pick_all);
}

static Picked pick_first(Player *p) {
  int n;
  const HlEnvSite *sites = hl_env_sites(p->env, &n);
  Picked out = {HL_ARRAY(p->arena, int, n + 1), n};
  for (int k = 0; k < n; k++)
    out.at[k] = sites[k].first;
  return out;
}

static bool play_first(Player *p) {
  return play_picks(p, pick_first);
}

// At each site one of its choices or, as likely as each of these, none; but somewhere one.
static Picked pick_uniform(Player *p) {
  int n;
  const HlEnvSite *sites = hl_env_sites(p->env, &n);
  HlRng *rng = hl_env_rng(p->env);
  Picked out = {HL_ARRAY(p->arena, int, n + 1), 0};
  for (int k = 0; k < n; k++) {
    const int64_t option = hl_rng_below(rng, sites[k].n + 1);
    if (option > 0)
      out.at[out.n++] = sites[k].first + (int)option - 1;
  }
  if (out.n == 0 && n > 0) {
    const HlEnvSite *site = &sites[hl_rng_below(rng, n)];
    out.at[out.n++] = site->first + (int)hl_rng_below(rng, site->n);
  }
  return out;
}

// One pass of a menu at a time.
static Picked pick_one(Player *p) {
  int n;
  hl_env_choices(p->env, &n);
  Picked out = {HL_ARRAY(p->arena, int, 1), 1};
  out.at[0] = (int)hl_rng_below(hl_env_rng(p->env), n);
  return out;
}

static bool is_menu(const Player *p) {
  return hl_env_options(p->env)->actions == HL_ENV_PASSES;
}

// Passes that find nothing to do end no game of chance.
static bool play_uniform(Player *p) {
  if (!is_menu(p))
    return play_picks(p, pick_uniform);
  while (!hl_env_done(p->env) && !player_is_tired(p)) {
    HlEnvStep step;
    if (!player_apply(p, pick_one(p), &step))
      return false;
  }
  return true;
}

// --- XLA's own decisions --------------------------------------------------------------------------

// The rewrites that the passes made, in order: hashes of whom they were about.
typedef struct Made {
  uint64_t pair, exact;  // both parties, without and with the pass
  uint64_t inst, with;   // each; with: 0 if none
} Made;

typedef struct Recorder {
  HlArena *arena;
  VEC(Made) made;
} Recorder;

static uint64_t text_key(const char *text, uint64_t seed) {
  return hl_hash_bytes(text, strlen(text), seed);
}

static Made made_of(const char *pass, const char *comp, const char *inst, const char *with) {
  Made m = {.inst = text_key(inst, text_key(comp, 3))};
  m.with = *with ? text_key(with, text_key(comp, 3)) : 0;
  m.pair = hl_hash_mix(m.inst, m.with);
  m.exact = text_key(pass, m.pair);
  return m;
}

static void record(void *user, const char *pass, const char *rule, const HlInst *inst,
                   const HlInst *with) {
  (void)rule;
  Recorder *r = user;
  const Made made = made_of(pass, inst->comp->name->text, inst->name->text,
                            with ? with->name->text : "");
  vec_push_in(r->arena, &r->made, made);
}

// The choice that a rewrite is: by the same pass, or else by another. -1: none.
static int choice_of(const Map *exact, const Map *any, const Made *made) {
  const uint64_t k = map_get(exact, made->exact);
  return (int)(k ? k : map_get(any, made->pair)) - 1;
}

// What was done to what can be chosen now, in the order of the passes: but nothing of what something was done to before that cannot
// be chosen yet, since it would come out of order.
static Picked match(Player *p, const Recorder *r) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(p->env, &n);
  Map exact = {.arena = p->arena}, any = {.arena = p->arena}, later = {.arena = p->arena};
  Picked out = {HL_ARRAY(p->arena, int, n + 1), 0};
  for (int k = n - 1; k >= 0; k--) {  // the first of several that are alike stays
    const Made made = made_of(choices[k].pass, choices[k].comp, choices[k].inst, choices[k].with);
    *map_at(&exact, made.exact) = (uint64_t)k + 1;
    *map_at(&any, made.pair) = (uint64_t)k + 1;
  }
  bool *picked = HL_ARRAY(p->arena, bool, n + 1);
  for (int k = 0; k < r->made.n; k++) {
    const Made *made = &r->made.at[k];
    const int choice = choice_of(&exact, &any, made);
    if (choice >= 0 && !map_get(&later, made->inst) &&
        !(made->with && map_get(&later, made->with))) {
      picked[choice] = true;
      continue;
    }
    *map_at(&later, made->inst) = 1;
    if (made->with)
      *map_at(&later, made->with) = 1;
  }
  for (int k = 0; k < n; k++)
    if (picked[k])
      out.at[out.n++] = k;
  return out;
}

// What the passes do by themselves from here, of what can be chosen.
static bool watch_passes(Player *p, Picked *out) {
  HlEnv *env = p->env;
  Recorder recorder = {.arena = p->arena};
  const HlEditMark mark = hl_mark(env->m);
  HlEngine *engine = env_run(p->cx, env, env->m, env->options.own,
                             &(HlEngineOptions){.rewrite = record, .user = &recorder});
  if (!engine) {
    env->broken = true;
    return false;
  }
  hl_engine_free(engine);
  hl_undo(env->m, mark);
  *out = match(p, &recorder);
  return true;
}

// Of a menu the default order again and again, until it changes nothing.
static bool play_own(Player *p) {
  while (!hl_env_done(p->env) && !player_is_tired(p)) {
    HlEnvStep step;
    if (!player_apply_own(p, &step))
      return false;
    if (step.applied == 0 || step.repeated)
      return true;
  }
  return true;
}

bool play_xla(Player *p) {
  if (is_menu(p))
    return play_own(p);
  while (!hl_env_done(p->env) && !player_is_tired(p)) {
    const HlMark mark = hl_arena_mark(p->arena);
    Picked picked;
    HlEnvStep step = {0};
    const bool ok =
        watch_passes(p, &picked) && (picked.n == 0 || player_apply(p, picked, &step));
    hl_arena_release(p->arena, mark);
    if (!ok)
      return false;
    if (picked.n == 0 || step.applied == 0 || step.repeated)
      return true;
  }
  return true;
}

// --- The table ----------------------------------------------------------------------------------

typedef struct Row {
  HlPolicy policy;
  bool (*play)(Player *p);
  int64_t tries;  // usually
} Row;

#define POLICIES(P)                                                                               \
  P(none, MOST_STEPS, "chooses nothing")                                                          \
  P(all, MOST_STEPS, "everything at once, until nothing is left")                                 \
  P(first, MOST_STEPS, "at each site the first choice; of a menu all passes in their order")      \
  P(uniform, MOST_STEPS, "at each site any of its choices, or none, by chance")                   \
  P(xla, MOST_STEPS, "what the passes would do by themselves, as far as it can be chosen")        \
  P(greedy, 2000, "what lowers the metric most, as long as anything does")                        \
  P(beam, 2000, "the same from the best few states at a time")                                    \
  P(anneal, 2000, "sets of choices that change by chance, worse ones taken less and less")        \
  P(mcts, 2000, "games played to their ends by chance; those begun well are begun again")         \
  P(evolve, 4000, "sequences of choices cut, joined and changed by chance; the lowest stay")
static const Row rows[] = {
#define ROW(name, tries, meaning) {{#name, meaning}, play_##name, tries},
    POLICIES(ROW)
#undef ROW
};

static bool run_row(HlCx *cx, HlEnv *env, const Row *row, const HlPolicyOptions *options,
                    HlPolicyReport *out) {
  static const HlPolicyOptions usual = {0};
  if (!options)
    options = &usual;
  HlArena *arena = hl_arena_new();
  Player p = {.cx = cx,
              .env = env,
              .options = options,
              .arena = arena,
              .most = options->tries > 0 ? options->tries : row->tries,
              .best = hl_env_metric(env)};
  *out = (HlPolicyReport){.first = hl_env_metric(env)};
  hl_env_rng(env)->state = options->seed;
  const bool ok = row->play(&p);
  out->tries = p.tries;
  out->last = hl_env_metric(env);
  hl_arena_free(arena);
  return ok;
}

const HlPolicy *hl_policy_at(int k) {
  return k >= 0 && k < HL_COUNT_OF(rows) ? &rows[k].policy : NULL;
}

const HlPolicy *hl_policy_find(HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(rows); k++)
    if (hl_str_is(name, rows[k].policy.name))
      return &rows[k].policy;
  return NULL;
}

bool hl_policy_play(HlCx *cx, HlEnv *env, const HlPolicy *policy, const HlPolicyOptions *options,
                    HlPolicyReport *out) {
  return run_row(cx, env, (const Row *)policy, options, out);  // the first member of its row
}
