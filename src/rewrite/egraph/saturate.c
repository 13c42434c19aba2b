// rewrite/egraph/saturate.c: rounds and limits.
//
// A round tries all rules on what is new, and rebuilds. Afterwards the best program is taken out (candidates.c).

#include <string.h>

#include "rewrite/egraph/candidates.h"

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
                 HlEgraphReport *report, Candidates *c, const Variant **best) {
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
  *c = (Candidates){.eg = eg,
                    .arena = arena,
                    .options = o,
                    .target = rules.target,
                    .pipeline = o->passes ? pipeline_of(o) : "",
                    .report = report};
  return eg_choose(c, best);
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
  Candidates c;
  const Variant *best;
  bool ok = work(eg, m, o, arena ? arena : own, report, &c, &best);
  hl_egraph_free(eg);
  ok = ok && eg_finish(cx, o, c.target, m, best, NULL);
  report->after = hl_count_instructions(m);
  hl_arena_free(own);
  return ok;
}
