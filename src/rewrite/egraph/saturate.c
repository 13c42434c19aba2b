// rewrite/egraph/saturate.c: rounds and limits, and which of the programs taken out is the one.
//
// A round tries all rules on what is new, and rebuilds. Afterwards programs are taken out in several ways, put into the module one after
// the other under a mark, compiled, and priced by the roofline of the target: what fuses with what is decided by the compiler, so only the
// compiled program says what a choice was worth. The cheapest stays; the module as it was is one of them. Where programs are measured, one
// more is the best of them with its short loops written out, and what is chosen has to gain when measured again.

#include <math.h>
#include <string.h>

#include "hilo/cost.h"
#include "rewrite/egraph/egraph.h"

enum { MOST_CANDIDATES = 9 };
enum { USUAL_NODES = 100000, USUAL_ITERATIONS = 12 };
static const double USUAL_SECONDS = 10;

#define ALGEBRA "enable_dot_strength_reduction=false run_to_fixed_point=false"
static const char cpu_rules[] =
    "algsimp{executing_on_cpu " ALGEBRA "}, transpose-folding, reshape-mover, constant_folding,"
    " simplify-conditional, conditional-to-select, gather_simplifier, simplify-sorts";
static const char other_rules[] =
    "algsimp{" ALGEBRA
    "}, transpose-folding, reshape-mover, constant_folding, simplify-conditional,"
    " conditional-to-select, gather_simplifier, simplify-sorts";

const char *hl_egraph_stop_text(HlEgraphStop stop) {
  static const char *const texts[] = {"nothing new", "limit of nodes", "limit of rounds",
                                      "limit of time", "asked to stop"};
  return texts[stop];
}

// --- Rules ------------------------------------------------------------------------------------------------

// The passes of the text, each as a pipeline of one.
static bool read_passes(HlCx *cx, HlArena *arena, const HlEgraphOptions *o, Rules *rules) {
  const char *text = o->engine_rules;
  if (!text)
    text = rules->target->kind == HL_TARGET_CPU ? cpu_rules : other_rules;
  if (!*text || !o->passes)
    return true;
  const HlPipelineItem *all = hl_pipeline_parse(cx, arena, o->passes, o->pipelines, text);
  if (!all)
    return false;
  rules->pass = HL_ARRAY(arena, const char *, all->n + 1);
  for (int k = 0; k < all->n; k++) {
    const HlPipelineItem *item = &all->items[k];
    if (!item->pass)
      return hl_error(cx, (HlPos){0}, "rules for an e-graph are passes, but '%s' is a pipeline",
                      *item->name ? item->name : "(...)");
    rules->pass[rules->n_passes++] =
        item->args ? hl_arena_printf(arena, "%s{%s}", item->name, item->args) : item->name;
  }
  return true;
}

static bool read_rules(HlCx *cx, HlArena *arena, const HlEgraphOptions *o, Rules *rules) {
  int n;
  const HlEgraphRule *own = hl_egraph_rules(&n);
  *rules = (Rules){.options = o,
                   .target = o->target ? o->target : hl_target_find("cpu"),
                   .n_own = n + EG_REGION_LAWS,
                   .most_nodes = o->nodes.given ? o->nodes.value : USUAL_NODES};
  rules->deadline = hl_now() + (o->seconds.given ? o->seconds.value : USUAL_SECONDS);
  if (!read_passes(cx, arena, o, rules))
    return false;
  rules->count = HL_ARRAY(arena, HlEgraphRuleCount, rules->n_own + rules->n_passes + 1);
  for (int k = 0; k < n; k++)
    rules->count[k] =
        (HlEgraphRuleCount){own[k].rule.name, own[k].rule.law, own[k].exact, false, 0, 0};
  for (int k = 0; k < EG_REGION_LAWS; k++)
    rules->count[n + k] =
        (HlEgraphRuleCount){eg_region_laws[k].name, eg_region_laws[k].law, true, false, 0, 0};
  for (int k = 0; k < rules->n_passes; k++)
    rules->count[rules->n_own + k] = (HlEgraphRuleCount){rules->pass[k], "", false, true, 0, 0};
  return true;
}

// --- Rounds ------------------------------------------------------------------------------------------------

static bool saturate(HlEgraph *eg, Rules *rules, HlEgraphReport *report) {
  const HlEgraphOptions *o = rules->options;
  const int64_t most = o->iterations.given ? o->iterations.value : USUAL_ITERATIONS;
  report->stop = HL_EGRAPH_ITERATIONS;
  while (report->iterations < most) {
    HlArena *arena = hl_arena_new();
    const int64_t before = eg->n_news;
    eg->round++;
    eg_best_trees(eg, eg_prices(eg, arena, rules->target, &eg_price_models[0]), NULL);
    hl_arena_free(arena);
    if (!eg_try_rules(eg, rules))
      return false;
    if (!o->no_own_rules)
      eg_try_region_laws(eg, rules->count + rules->n_own - EG_REGION_LAWS);
    report->iterations++;
    if (o->progress && !o->progress(o->user, report->iterations, eg->n_alive)) {
      report->stop = HL_EGRAPH_ASKED;
      break;
    }
    if (eg->n_alive > rules->most_nodes || hl_now() > rules->deadline) {
      report->stop = eg->n_alive > rules->most_nodes ? HL_EGRAPH_NODES : HL_EGRAPH_TIME;
      break;
    }
    if (eg->n_news == before) {
      report->stop = HL_EGRAPH_SATURATED;
      break;
    }
  }
  return true;
}

// --- Candidates --------------------------------------------------------------------------------------------

typedef struct Candidates {
  HlEgraph *eg;
  HlArena *arena;
  const HlEgraphOptions *options;
  const HlTarget *target;
  const char *pipeline;  // "": none
  HlEgraphReport *report;
  Choice choice[MOST_CANDIDATES];  // of each candidate but the first
  const char *after[MOST_CANDIDATES];  // passes before the pipeline, or NULL
  uint64_t hash[MOST_CANDIDATES];
} Candidates;

static bool takes_time(const HlTimes *times, const HlInst *inst) {
  return !hl_op_is((HlOp)inst->op, HL_T_CONTROL) && hl_time_of(times, inst) > 0;
}

// Operations of the entry, by weight, with what it runs.
static double work_of(HlArena *arena, const HlTimes *times, const HlModule *m) {
  double *work = HL_ARRAY(arena, double, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)  // callees before callers
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->op == HL_OP_FUSION || hl_op_is((HlOp)inst->op, HL_T_CONTROL)) {
        const int64_t trips = inst->op == HL_OP_WHILE ? hl_trip_count(inst) : 1;
        for (int k = 0; k < inst->n_calls; k++)
          work[comp->id] += work[hl_called(inst, k)->id] * (double)(trips < 0 ? 1 : trips);
        continue;
      }
      const HlCost cost = hl_cost_inst_by(inst, times->comps);
      work[comp->id] += (cost.flops + cost.transcendentals) * eg_weight((HlOp)inst->op);
    }
  return work[m->entry->id];
}

static void measure(const Candidates *c, const HlModule *m, HlEgraphCandidate *out) {
  HlArena *arena = hl_arena_new();
  const HlTimes times = hl_times(arena, m, c->target, hl_cost_comps(arena, m));
  out->seconds =
      c->options->measure ? c->options->measure(c->options->user, m) : times.seconds[m->entry->id];
  out->work = work_of(arena, &times, m);
  out->instructions = hl_count_instructions(m);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      out->kernels += !comp->is_fusion && takes_time(&times, inst);
  hl_arena_free(arena);
}

static bool run_passes(HlCx *cx, const HlEgraphOptions *o, const HlTarget *target, HlModule *m,
                       const char *passes) {
  if (!passes || !*passes)
    return true;
  const HlEngineOptions options = {
      .passes = o->passes, .pipelines = o->pipelines, .target = target};
  HlEngine *engine = hl_engine_new(cx, &options);
  const bool ok = engine && hl_engine_run(engine, m, passes);
  hl_engine_free(engine);
  return ok;
}

// Compiles a copy of the module as it is and prices what comes out.
static bool price(const Candidates *c, const char *after, HlEgraphCandidate *out) {
  HlCx *cx = c->eg->cx;
  HlModule *copy = hl_clone(cx, c->eg->module);
  bool ok = copy && run_passes(cx, c->options, c->target, copy, after) &&
            run_passes(cx, c->options, c->target, copy, c->pipeline);
  if (ok)
    measure(c, copy, out);
  if (ok && !(out->seconds >= 0))
    ok = hl_error_kind(cx, HL_FAILED, (HlPos){0}, "the program '%s' cannot be measured", out->how);
  hl_module_free(copy);
  return ok;
}

static HlEgraphCandidate *new_candidate(Candidates *c, const char *how, double sum) {
  HlEgraphCandidate *out = &c->report->candidate[c->report->n_candidates++];
  *out = (HlEgraphCandidate){.how = how, .price = sum};
  return out;
}

static bool is_known(const Candidates *c, uint64_t hash) {
  for (int k = 0; k < c->report->n_candidates; k++)
    if (c->hash[k] == hash)
      return true;
  return false;
}

static bool add_candidate(Candidates *c, HlEgraphWay how, const char *name, double *prices) {
  double start = hl_now();
  const int k = c->report->n_candidates;
  const Choice choice = eg_extract(c->eg, c->arena, prices, how);
  c->report->extract_s += hl_now() - start;
  c->report->exact = c->report->exact || (choice.exact && how == HL_EXTRACT_EXACT);
  if (choice.price == INFINITY)
    return true;
  start = hl_now();
  const HlEditMark mark = hl_mark(c->eg->module);
  bool ok = eg_emit(c->eg, &choice);
  const uint64_t hash = ok ? hl_graph_hash(c->eg->module) : 0;
  if (ok && !is_known(c, hash)) {
    c->choice[k] = choice;
    c->hash[k] = hash;
    ok = price(c, NULL, new_candidate(c, name, choice.price));
  }
  hl_undo(c->eg->module, mark);
  c->report->price_s += hl_now() - start;
  return ok;
}

// What an instruction of the module costs: as its own node, or, where another one was like it, as that.
static double price_of_inst(const HlEgraph *eg, const double *prices, const HlInst *inst) {
  const uint64_t class = map_get(&eg->class_of_inst, map_key(inst));
  double like = INFINITY;
  for (uint32_t k = class ? eg_class(eg, (uint32_t) class - 1)->first : NONE; k != NONE;
       k = eg->nodes.at[k].next) {
    if (map_get_ptr(&eg->origin_of_node, (const void *)(uintptr_t)k) == inst)
      return prices[k];
    if (eg_op(eg, &eg->nodes.at[k]) == inst->op)
      like = fmin(like, prices[k]);
  }
  return like < INFINITY ? like : 0;
}

// The price of the module as it was: of its instructions' nodes.
static double price_before(const HlEgraph *eg, const double *prices) {
  double sum = 0;
  for (const HlInst *inst = eg->module->entry->first; inst; inst = inst->next)
    sum += price_of_inst(eg, prices, inst);
  return sum;
}

// Any program: the cheapest trees by prices that mean nothing.
static bool take_any(Candidates *c) {
  HlEgraph *eg = c->eg;
  HlRng rng = {c->options->seed};
  double *prices = HL_ARRAY(c->arena, double, eg->nodes.n + 1);
  for (int k = 0; k < eg->nodes.n; k++)
    prices[k] = 0.01 + hl_rng_unit(&rng);
  const Choice choice = eg_extract_trees(eg, c->arena, prices);
  new_candidate(c, hl_egraph_way_name(HL_EXTRACT_RANDOM), 0)->taken = true;
  return eg_emit(eg, &choice);
}

// By time; where that is the same, since what is computed hides behind what is moved, by how much is computed: that is better for a
// machine that hides less.
static bool is_better(const Candidates *c, const HlEgraphCandidate *a, int best) {
  static const double same = 1e-3;
  const HlEgraphCandidate *b = &c->report->candidate[best];
  const double least = c->options->least_gain;
  if (c->options->measure || (best == 0 && least > 0))
    return a->seconds < b->seconds * (best == 0 ? 1 - least : 1);
  return a->seconds < b->seconds * (1 - same) ||
         (a->seconds <= b->seconds * (1 + same) && a->work < b->work * (1 - same));
}

// Puts a candidate into the module.
static bool put(const Candidates *c, int k) {
  return !c->choice[k].node || eg_emit(c->eg, &c->choice[k]);
}

static int count_loops(const HlModule *m) {
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      n += inst->op == HL_OP_WHILE;
  return n;
}

// The law of loops that no price tells the worth of: a short loop is its iterations one after another.
static bool add_written_out(Candidates *c, int best) {
  static const char passes[] = "call-inliner, while_loop_unroller";
  HlCx *cx = c->eg->cx;
  const int k = c->report->n_candidates;
  if (count_loops(c->eg->module) == 0 || k == MOST_CANDIDATES)
    return true;
  const HlEditMark mark = hl_mark(c->eg->module);
  HlModule *copy = put(c, best) ? hl_clone(cx, c->eg->module) : NULL;
  bool ok = copy && run_passes(cx, c->options, c->target, copy, passes);
  if (ok && count_loops(copy) < count_loops(c->eg->module)) {
    c->choice[k] = c->choice[best];
    c->after[k] = passes;
    ok = price(c, passes, new_candidate(c, "loops written out", c->report->candidate[best].price));
  }
  hl_module_free(copy);
  hl_undo(c->eg->module, mark);
  return ok;
}

static int best_of(const Candidates *c) {
  int best = 0;
  for (int k = 1; k < c->report->n_candidates; k++)
    if (is_better(c, &c->report->candidate[k], best))
      best = k;
  return best;
}

// What a measurement has chosen is measured again, in turns with the program as it was: what does not gain as much as it must then, too,
// was chosen by chance.
static bool confirm(Candidates *c, int *best) {
  enum { TURNS = 5 };
  HlEgraph *eg = c->eg;
  double least[2] = {INFINITY, INFINITY};
  bool ok = true;
  for (int k = 0; ok && k < 2 * TURNS; k++) {
    const int side = k % 2;
    HlEgraphCandidate again = {.how = c->report->candidate[side ? *best : 0].how};
    const HlEditMark mark = hl_mark(eg->module);
    ok = (side == 0 || put(c, *best)) && price(c, side ? c->after[*best] : NULL, &again);
    hl_undo(eg->module, mark);
    least[side] = fmin(least[side], again.seconds);
  }
  if (ok && !(least[1] < least[0] * (1 - c->options->least_gain)))
    *best = 0;
  return ok;
}

// `after`: passes that are still to be run on what was put into the module.
static bool choose(Candidates *c, const char **after) {
  HlEgraph *eg = c->eg;
  HlEgraphReport *report = c->report;
  if (c->options->extract == HL_EXTRACT_RANDOM) {
    report->candidate = HL_ARRAY(c->arena, HlEgraphCandidate, 1);
    return take_any(c);
  }
  double *prices = eg_prices(eg, c->arena, c->target, &eg_price_models[0]);
  report->candidate = HL_ARRAY(c->arena, HlEgraphCandidate, MOST_CANDIDATES);
  c->hash[0] = hl_graph_hash(eg->module);
  HlEgraphCandidate *first = new_candidate(c, "as it was", 0);
  static const HlEgraphWay ways[] = {HL_EXTRACT_GREEDY, HL_EXTRACT_SHARED, HL_EXTRACT_LOCAL,
                                     HL_EXTRACT_EXACT};
  const HlEgraphWay how = c->options->extract;
  bool ok = price(c, NULL, first);  // with nothing between it and those it is measured beside
  for (int k = 0; ok && k < HL_COUNT_OF(ways); k++)
    if (how == HL_EXTRACT_ALL || how == ways[k])
      ok = add_candidate(c, ways[k], hl_egraph_way_name(ways[k]), prices);
  for (int k = 1; ok && k < EG_PRICE_MODELS && how == HL_EXTRACT_ALL; k++)
    ok = add_candidate(c, HL_EXTRACT_LOCAL, eg_price_models[k].name,
                       eg_prices(eg, c->arena, c->target, &eg_price_models[k]));
  first->price = price_before(eg, prices);  // by prices of loops as they are now
  for (int k = 0; k < report->n_candidates && !*c->pipeline && !c->options->measure; k++)
    report->candidate[k].seconds = report->candidate[k].price;
  int best = best_of(c);
  if (ok && c->options->measure && *c->pipeline && how == HL_EXTRACT_ALL) {
    ok = add_written_out(c, best) && (best == 0 || add_written_out(c, 0));
    best = best_of(c);
  }
  ok = ok && (best == 0 || !c->options->measure || confirm(c, &best));
  report->candidate[best].taken = true;
  *after = c->after[best];
  return ok && put(c, best);
}

// --- All ---------------------------------------------------------------------------------------------------

static const char *pipeline_of(const HlEgraphOptions *o) {
  if (o->pipeline)
    return o->pipeline;
  for (int k = 0; o->pipelines && k < o->pipelines->n; k++)
    if (strcmp(o->pipelines->at[k].name, "cpu-native") == 0)
      return "cpu-native";
  return "";
}

static void describe(const HlEgraph *eg, const Rules *rules, HlEgraphReport *report) {
  report->nodes = eg->n_alive;
  report->classes = eg->n_classes;
  report->regions = eg->regions.n;
  report->refused = eg->n_refused;
  report->sites = rules->sites;
  report->rule = rules->count;
  report->n_rules = rules->n_own + rules->n_passes;
  report->bytes = (int64_t)(hl_arena_bytes(eg->arena) + hl_module_bytes(eg->home));
}

static bool work(HlEgraph *eg, HlModule *m, const HlEgraphOptions *o, HlArena *arena,
                 HlEgraphReport *report, const char **after) {
  Rules rules;
  if (!read_rules(eg->cx, arena, o, &rules) || !hl_egraph_add_module(eg, m))
    return false;
  report->instructions = hl_count_instructions(m);
  report->first_nodes = eg->n_alive;
  const double start = hl_now();
  if (!saturate(eg, &rules, report))
    return false;
  report->saturate_s = hl_now() - start;
  describe(eg, &rules, report);
  Candidates c = {.eg = eg,
                  .arena = arena,
                  .options = o,
                  .target = rules.target,
                  .pipeline = o->passes ? pipeline_of(o) : "",
                  .report = report};
  return choose(&c, after);
}

bool hl_saturate(HlCx *cx, HlModule *m, const HlEgraphOptions *options, HlArena *arena,
                 HlEgraphReport *report) {
  static const HlEgraphOptions usual = {0};
  HlEgraphReport unread;
  HlArena *own = arena ? NULL : hl_arena_new();
  HlEgraph *eg = hl_egraph_new(cx);
  report = report ? report : &unread;
  *report = (HlEgraphReport){0};
  const HlEgraphOptions *o = options ? options : &usual;
  const char *after = NULL;
  bool ok = work(eg, m, o, arena ? arena : own, report, &after);
  hl_egraph_free(eg);
  ok = ok && run_passes(cx, o, o->target ? o->target : hl_target_find("cpu"), m, after);
  report->after = hl_count_instructions(m);
  hl_arena_free(own);
  return ok;
}
