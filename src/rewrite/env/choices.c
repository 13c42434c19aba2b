// rewrite/env/choices.c: what could be rewritten in a state: a dry run of the engine, each rewrite once, in the order of the sites
// at which they were met; and what a fusion of two kernels is thought to be worth.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "rewrite/env/env.h"

static void give_back(void *choices, int64_t n) {
  EnvChoices *c = choices;
  if (atomic_fetch_sub(&c->refs, (int)n) != (int)n)
    return;
  hl_arena_free(c->arena);
  base_free(c);
}

static void note_ref(const HlEnv *holder, EnvChoices *choices, int64_t change) {
  if (base_is_new(holder->arena))
    base_note_ref(choices, change, give_back);
}

EnvChoices *env_choices_ref(const HlEnv *holder, EnvChoices *choices) {
  if (!choices)
    return NULL;
  atomic_fetch_add(&choices->refs, 1);
  note_ref(holder, choices, 1);
  return choices;
}

void env_choices_unref(const HlEnv *holder, EnvChoices *choices) {
  if (!choices)
    return;
  note_ref(holder, choices, -1);
  give_back(choices, 1);
}

void env_choices_give(const HlEnv *holder, EnvChoices *choices) {
  base_give(choices, holder->arena);
  base_arena_give(choices->arena, holder->arena);
}

// --- What it is worth ---------------------------------------------------------------------------

typedef struct Prices {
  const EnvPrices *of;
  Map inst;  // by symbol of the name; empty until somebody asks
  bool knows_names;
} Prices;

static void know_names(Prices *p) {
  for (const HlComp *comp = p->of->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      map_add_ptr(&p->inst, map_key(inst->name), inst);
  p->knows_names = true;
}

static const HlInst *find_inst(Prices *p, const char *comp, const char *name) {
  const HlSym *sym = hl_syms_find(p->of->m->syms, name, strlen(name));
  if (!p->knows_names)
    know_names(p);
  MapWalk walk = map_walk(&p->inst, map_key(sym));
  for (const HlInst *inst; sym && (inst = map_next_ptr(&walk));)
    if (strcmp(inst->comp->name->text, comp) == 0)
      return inst;
  return NULL;
}

// What both read they read once.
static double shared_bytes(const HlInst *a, const HlInst *b) {
  double sum = 0;
  for (uint32_t k = 0; k < a->n_operands; k++)
    for (uint32_t i = 0; i < b->n_operands; i++)
      if (a->operands[k] == b->operands[i]) {
        sum += (double)hl_leaf_bytes(a->operands[k]->shape);
        break;
      }
  return sum;
}

static double reads_of(const HlInst *user, const HlInst *what) {
  double n = 0;
  for (uint32_t k = 0; k < user->n_operands; k++)
    n += user->operands[k] == what;
  return n * (double)hl_leaf_bytes(what->shape);
}

// A producer goes into its user: of two kernels one is left, the value between them is neither written nor read; where somebody
// else wants it, the producer stays beside.
static double gain_of_pair(const EnvPrices *p, const HlInst *user, const HlInst *with) {
  const HlCost a = hl_cost_inst_by(with, p->comps), b = hl_cost_inst_by(user, p->comps);
  const EnvTraffic x = env_traffic(with, p->comps), y = env_traffic(user, p->comps);
  const double apart = env_time(&p->times, with) + env_time(&p->times, user);
  if (apart <= 0)
    return 0;
  const double rate = p->target->vector.of[HL_F32];
  const double computing =
      rate > 0 ? (a.flops + a.transcendentals + b.flops + b.transcendentals) / rate : 0;
  const double between = reads_of(user, with);
  const double bytes = x.read + y.written - shared_bytes(with, user) +
                       (between < y.read ? y.read - between : 0);
  const bool stays = !hl_one_user(with) || with == with->comp->root;
  const double together = hl_kernel_seconds(p->target, computing, bytes > 0 ? bytes : 0);
  return apart - together - (stays ? env_time(&p->times, with) : 0);
}

static double gain_of(Prices *p, const HlRewrite *r) {
  const HlInst *inst = *r->with ? find_inst(p, r->comp, r->inst) : NULL;
  const HlInst *with = inst ? find_inst(p, r->comp, r->with) : NULL;
  if (!with || inst->comp->is_fusion)
    return NAN;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->operands[k] == with)
      return gain_of_pair(p->of, inst, with);
  return NAN;
}

// --- The list -----------------------------------------------------------------------------------

static bool is_same(const HlRewrite *a, const HlRewrite *b) {
  return strcmp(a->inst, b->inst) == 0 && strcmp(a->with, b->with) == 0 &&
         strcmp(a->comp, b->comp) == 0 && strcmp(a->rule, b->rule) == 0 &&
         strcmp(a->pass, b->pass) == 0;
}

static uint64_t text_hash(const char *text, uint64_t seed) {
  return hl_hash_bytes(text, strlen(text), seed);
}

static bool is_new(Map *seen, const HlRewrite *r) {
  const uint64_t hash =
      text_hash(r->pass, text_hash(r->rule, text_hash(r->with, text_hash(r->inst, 1))));
  MapWalk walk = map_walk(seen, hash);
  for (const HlRewrite *other; (other = map_next_ptr(&walk));)
    if (is_same(r, other))
      return false;
  map_add_ptr(seen, hash, r);
  return true;
}

// The site of the instruction, made where it is met first.
static int site_of(EnvChoices *c, Map *sites, const HlEnvChoice *r) {
  const uint64_t hash = text_hash(r->comp, text_hash(r->inst, 2));
  MapWalk walk = map_walk(sites, hash);
  for (uint64_t k; (k = map_next(&walk));)
    if (strcmp(c->site[k - 1].inst, r->inst) == 0 && strcmp(c->site[k - 1].comp, r->comp) == 0)
      return (int)k - 1;
  c->site[c->n_sites] = (HlEnvSite){.comp = r->comp, .inst = r->inst};
  map_add(sites, hash, (uint64_t)++c->n_sites);
  return c->n_sites - 1;
}

static int by_site(const void *a, const void *b) {
  const HlEnvChoice *x = a, *y = b;
  return x->site != y->site ? (x->site < y->site ? -1 : 1)
                            : (x->option > y->option) - (x->option < y->option);
}

static void put_in_order(EnvChoices *c) {
  if (c->n > 1)
    qsort(c->at, (size_t)c->n, sizeof *c->at, by_site);
  for (int k = 0; k < c->n; k++) {
    HlEnvSite *site = &c->site[c->at[k].site];
    if (site->n++ == 0)
      site->first = k;
  }
}

// A text of the engine's, which does not live as long; many that follow each other are one.
static const char *keep(EnvChoices *c, const char *text, const char *before, const char *kept) {
  if (!text || !*text)
    return "";
  return text == before ? kept : hl_arena_strndup(c->arena, text, strlen(text));
}

static HlEnvChoice choice_of(EnvChoices *c, const HlRewrite *r, const HlRewrite *before) {
  static const HlRewrite none = {0};
  const HlEnvChoice *last = before ? &c->at[c->n - 1] : &(HlEnvChoice){0};
  before = before ? before : &none;
  return (HlEnvChoice){.pass = keep(c, r->pass, before->pass, last->pass),
                       .rule = keep(c, r->rule, before->rule, last->rule),
                       .comp = keep(c, r->comp, before->comp, last->comp),
                       .inst = keep(c, r->inst, before->inst, last->inst),
                       .with = keep(c, r->with, before->with, last->with),
                       .before = keep(c, r->before, NULL, NULL),
                       .after = keep(c, r->after, NULL, NULL)};
}

static void list_rewrites(EnvChoices *c, const HlEngine *engine, const EnvPrices *of) {
  int64_t n;
  const HlRewrite *all = hl_engine_rewrites(engine, &n), *before = NULL;
  HlArena *scratch = of->arena;
  Map seen = {.arena = scratch}, sites = {.arena = scratch};
  Prices prices = {.of = of, .inst.arena = scratch};
  c->at = HL_ARRAY(c->arena, HlEnvChoice, n + 1);
  c->site = HL_ARRAY(c->arena, HlEnvSite, n + 1);
  int *options = HL_ARRAY(scratch, int, n + 1);
  for (int64_t k = 0; k < n; k++) {
    const HlRewrite *r = &all[k];
    if (!is_new(&seen, r))
      continue;
    HlEnvChoice choice = choice_of(c, r, before);
    choice.site = site_of(c, &sites, &choice);
    choice.option = ++options[choice.site];
    choice.gain = gain_of(&prices, r);
    c->at[c->n++] = choice;
    before = r;
  }
  put_in_order(c);
}

// The passes of the menu, as they are written.
static bool list_menu(HlCx *cx, HlEnv *env, EnvChoices *c) {
  const HlEnvOptions *o = &env->options;
  const HlPipelineItem *all = hl_pipeline_parse(cx, c->arena, o->passes, o->pipelines, o->menu);
  if (!all)
    return false;
  c->at = HL_ARRAY(c->arena, HlEnvChoice, all->n + 1);
  c->site = HL_ARRAY(c->arena, HlEnvSite, all->n + 1);
  for (int k = 0; k < all->n; k++) {
    const HlPipelineItem *item = &all->items[k];
    const char *name = item->args
                           ? hl_arena_printf(c->arena, "%s{%s}", item->name, item->args)
                           : item->name;
    c->site[k] = (HlEnvSite){.comp = "", .inst = "", .first = k, .n = 1};
    c->at[k] = (HlEnvChoice){.pass = name,
                             .rule = "",
                             .comp = "",
                             .inst = "",
                             .with = "",
                             .before = "",
                             .after = "",
                             .site = k,
                             .option = 1,
                             .gain = NAN};
    if (!item->pass)
      return hl_error(cx, (HlPos){0}, "'%s' of the menu is no pass", item->name);
  }
  c->n = c->n_sites = all->n;
  return true;
}

// What a dry run builds and gives up is taken back at once: otherwise going back to a snapshot would do it again.
static bool look_dry(HlCx *cx, HlEnv *env, const EnvPrices *prices, EnvChoices *c) {
  const HlEditMark mark = hl_mark(env->m);
  HlEngine *engine =
      env_run(cx, env, env->m, env->options.choose, &(HlEngineOptions){.dry = true});
  const bool ok = engine;
  if (ok)
    list_rewrites(c, engine, prices);
  hl_engine_free(engine);
  hl_undo(env->m, mark);
  return ok;
}

EnvChoices *env_choices_find(HlCx *cx, HlEnv *env, const EnvPrices *prices) {
  EnvChoices *c = base_alloc(sizeof *c);
  c->arena = hl_arena_new();
  atomic_init(&c->refs, 1);
  bool ok = true;
  if (env->options.actions == HL_ENV_PASSES) {
    ok = list_menu(cx, env, c);
  } else {
    ok = look_dry(cx, env, prices, c);
  }
  if (ok)
    return c;
  give_back(c, 1);
  return NULL;
}
