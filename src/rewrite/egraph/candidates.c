// rewrite/egraph/candidates.c: which of the programs taken out is the one.
//
// Programs are taken out in several ways, put into the module one after the other under a mark, compiled, and priced by the roofline of
// the target: what fuses with what is decided by the compiler, so only the compiled program says what a choice was worth. The cheapest
// stays; the module as it was is one of them. On top of the best one laws of loops as wholes are tried (loops.c). Where programs are
// measured short loops are written out, too, and values are kept apart (apart.c); what a measurement has chosen has to gain when it is
// measured again.

#include <math.h>
#include <string.h>

#include "hilo/cost.h"
#include "hilo/env.h"
#include "rewrite/egraph/candidates.h"
#include "rewrite/egraph/rules.h"

// --- Compiling, pricing --------------------------------------------------------------------------------------

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
  out->seconds = c->options->measure ? c->options->measure(c->options->user, m)
                                     : hl_env_costs_of(m, c->target).seconds;
  out->work = work_of(arena, &times, m);
  out->instructions = hl_count_instructions(m);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      out->kernels += !comp->is_fusion && takes_time(&times, inst);
  hl_arena_free(arena);
}

bool eg_run_passes(HlCx *cx, const HlEgraphOptions *o, const HlTarget *target, HlModule *m,
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

static int count_loops(const HlModule *m) {
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      n += inst->op == HL_OP_WHILE;
  return n;
}

// What laws of loops as wholes make of a program that was taken out.
static bool do_loops(HlCx *cx, const HlEgraphOptions *o, const HlTarget *target, HlModule *m,
                     int laws, int *news) {
  int n = 0;
  if (laws == 0)
    return true;
  if (!eg_run_passes(cx, o, target, m, "call-inliner"))
    return false;
  if (laws & EG_LOOPS_AT_ONCE) {
    n += eg_prepare_loops(cx, m);
    if (n > 0 && !eg_run_passes(cx, o, target, m, "while-loop-invariant-code-motion, dce"))
      return false;
  }
  const int loops = count_loops(m);
  if (laws & EG_LOOPS_WRITTEN_OUT && !eg_run_passes(cx, o, target, m, "while_loop_unroller"))
    return false;
  n += loops - count_loops(m);
  if (news)
    *news = n;
  return true;
}

bool eg_finish(HlCx *cx, const HlEgraphOptions *o, const HlTarget *target, HlModule *m,
               const Variant *variant, int *news) {
  return do_loops(cx, o, target, m, variant->laws, news) &&
         (variant->n_apart == 0 || eg_keep_apart(cx, m, variant->n_apart, variant->apart));
}

uint64_t eg_compiled_hash(const Candidates *c, const HlModule *m) {
  HlModule *copy = hl_clone(c->eg->cx, m);
  const bool ok = copy && c->options->passes && c->target->kind == HL_TARGET_CPU &&
                  eg_run_passes(c->eg->cx, c->options, c->target, copy, "cpu-native");
  const uint64_t hash = ok ? hl_graph_hash(copy) : 0;
  hl_module_free(copy);
  return hash;
}

// Compiles a copy of the module as it is and prices what comes out. What is compiled to the same as the module as it was takes as long.
static bool price(Candidates *c, const Variant *variant, HlEgraphCandidate *out) {
  HlCx *cx = c->eg->cx;
  HlModule *copy = hl_clone(cx, c->eg->module);
  bool ok = copy && eg_finish(cx, c->options, c->target, copy, variant, NULL) &&
            eg_run_passes(cx, c->options, c->target, copy, c->pipeline);
  if (ok)
    measure(c, copy, out);
  const uint64_t hash = ok && c->options->measure ? eg_compiled_hash(c, copy) : 0;
  if (c->report->n_candidates <= 1)
    c->compiled = hash;
  else if (hash != 0 && hash == c->compiled)
    out->seconds = c->report->candidate[0].seconds;
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
    c->variant[k].choice = choice;
    c->hash[k] = hash;
    ok = price(c, &c->variant[k], new_candidate(c, name, choice.price));
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

// What a program must gain over the module as it was, if it is not measured: less than this prices cannot tell apart.
static const double CLEAR_GAIN = 0.01, CLEARLY_LESS = 0.03;

// By time; where that is the same, since what is computed hides behind what is moved, by how much is computed: that is better for a
// machine that hides less.
static bool is_better(const Candidates *c, const HlEgraphCandidate *a, int best) {
  static const double same = 1e-3;
  const HlEgraphCandidate *b = &c->report->candidate[best];
  const double least = c->options->least_gain;
  if (c->options->measure || (best == 0 && least > 0))
    return a->seconds < b->seconds * (best == 0 ? 1 - least : 1);
  const double gain = best == 0 ? CLEAR_GAIN : same, less = best == 0 ? CLEARLY_LESS : same;
  return a->seconds < b->seconds * (1 - gain) ||
         (a->seconds <= b->seconds * (1 + same) && a->work < b->work * (1 - less));
}

// Puts a candidate into the module.
static bool put(const Candidates *c, int k) {
  return !c->variant[k].choice.node || eg_emit(c->eg, &c->variant[k].choice);
}

// A candidate with laws of loops on top, that no price of a node tells the worth of.
static bool add_loops(Candidates *c, int of, int laws, const char *how) {
  HlCx *cx = c->eg->cx;
  const int k = c->report->n_candidates;
  if (count_loops(c->eg->module) == 0 || k == EG_MOST_CANDIDATES)
    return true;
  const HlEditMark mark = hl_mark(c->eg->module);
  HlModule *copy = put(c, of) ? hl_clone(cx, c->eg->module) : NULL;
  int news = 0;
  bool ok = copy && do_loops(cx, c->options, c->target, copy, laws, &news);
  hl_module_free(copy);
  if (ok && news > 0) {
    c->variant[k] = (Variant){.choice = c->variant[of].choice, .laws = laws};
    ok = price(c, &c->variant[k], new_candidate(c, how, c->report->candidate[of].price));
  }
  hl_undo(c->eg->module, mark);
  return ok;
}

// Of the best program and of that as it was. Only measurements say what it costs to go round.
static bool add_all_loops(Candidates *c, int best) {
  const bool measured = c->options->measure;
  for (int turn = 0; turn < 2; turn++) {
    const int of = turn == 0 ? best : 0;
    if ((turn == 0 || best != 0) &&
        (!add_loops(c, of, EG_LOOPS_AT_ONCE, "loops at once") ||
         (measured && !add_loops(c, of, EG_LOOPS_WRITTEN_OUT, "loops written out"))))
      return false;
  }
  return true;
}

static int best_of(const Candidates *c) {
  int best = 0;
  for (int k = 1; k < c->report->n_candidates; k++)
    if (is_better(c, &c->report->candidate[k], best))
      best = k;
  return best;
}

// What a measurement has chosen is measured again, in turns with the program as it was: what does not gain as much as it must then, too,
// or loses more than one turn, was chosen by chance.
static bool confirm(Candidates *c, int *best) {
  enum { TURNS = 9 };
  HlEgraph *eg = c->eg;
  double least[2] = {INFINITY, INFINITY}, before = INFINITY;
  int won = 0;
  bool ok = true;
  for (int k = 0; ok && k < 2 * TURNS; k++) {
    const int side = k % 2;
    HlEgraphCandidate again = {.how = c->report->candidate[side ? *best : 0].how};
    const HlEditMark mark = hl_mark(eg->module);
    ok = (side == 0 || put(c, *best)) && price(c, &c->variant[side ? *best : 0], &again);
    hl_undo(eg->module, mark);
    least[side] = fmin(least[side], again.seconds);
    won += side && again.seconds < before;
    before = again.seconds;
  }
  if (ok && !(least[1] < least[0] * (1 - c->options->least_gain) && won >= TURNS - 1))
    *best = 0;
  return ok;
}

// Groups of values that are computed at once, one group after the other on top of the program `of`, as long as it gets faster:
// what they gain beside each other is for measurements to say.
static bool add_groups(Candidates *c, int of, double *prices) {
  HlEgraph *eg = c->eg;
  Variant now = c->variant[of];
  if (eg->groups.n == 0 || c->report->n_candidates == EG_MOST_CANDIDATES)
    return true;
  now.choice = now.choice.node ? (Choice){.node = hl_arena_copy(c->arena, now.choice.node, sizeof *now.choice.node * (size_t)eg->classes.n)}
                               : eg_original(eg, c->arena, prices);
  HlEgraphCandidate best = {.how = "side by side", .seconds = c->report->candidate[of].seconds};
  bool ok = true, any = false;
  for (int k = 0; ok && k < eg->groups.n && hl_now() < c->deadline; k++) {
    const Group *group = &eg->groups.at[k];
    uint32_t undo[EG_MOST_SIDE_BY_SIDE];
    HlEgraphCandidate next = {.how = best.how};
    if (!eg_take_group(eg, group, now.choice.node, undo))
      continue;
    next.price = eg_price_of(eg, c->arena, prices, now.choice.node, group->region);
    const HlEditMark mark = hl_mark(eg->module);
    if (next.price < INFINITY)
      ok = eg_emit(eg, &now.choice) && price(c, &now, &next);
    hl_undo(eg->module, mark);
    if (ok && next.price < INFINITY && next.seconds < best.seconds * (1 - c->options->least_gain)) {
      best = next;
      any = true;
    } else {
      eg_leave_group(eg, group, now.choice.node, undo);
    }
  }
  if (ok && any) {
    c->variant[c->report->n_candidates] = now;
    *new_candidate(c, best.how, best.price) = best;
  }
  return ok;
}

// The best one with values kept apart.
static bool add_apart(Candidates *c, int of) {
  HlCx *cx = c->eg->cx;
  const int k = c->report->n_candidates;
  if (k == EG_MOST_CANDIDATES)
    return true;
  Variant variant = c->variant[of];
  variant.laws |= EG_IN_PLACE;
  const HlEditMark mark = hl_mark(c->eg->module);
  HlModule *copy = put(c, of) ? hl_clone(cx, c->eg->module) : NULL;
  hl_undo(c->eg->module, mark);
  double seconds = c->report->candidate[of].seconds;
  bool ok = copy && eg_finish(cx, c->options, c->target, copy, &variant, NULL) &&
            eg_find_apart(c, copy, &variant, &seconds);
  hl_module_free(copy);
  if (!ok || variant.n_apart == 0)
    return ok;
  c->variant[k] = variant;
  HlEgraphCandidate *out = new_candidate(c, "kept apart", c->report->candidate[of].price);
  const HlEditMark again = hl_mark(c->eg->module);
  ok = put(c, of) && price(c, &c->variant[k], out);
  hl_undo(c->eg->module, again);
  return ok;
}

static const double USUAL_MEASURING = 60;

// Beside the best one the module as it was, or, where that is the best, the best of the others: which of them gains most from other
// kernels nobody knows. -1: there is none.
static int runner_up(const Candidates *c, int best) {
  int second = -1;
  for (int k = 1; best == 0 && k < c->report->n_candidates; k++)
    if (second < 0 || c->report->candidate[k].seconds < c->report->candidate[second].seconds)
      second = k;
  return best != 0 ? 0 : second;
}

// What comes after programs have been taken out.
static bool add_more(Candidates *c, double *prices, int *best) {
  if (c->options->extract != HL_EXTRACT_ALL || !c->options->passes ||
      (!*c->pipeline && !c->options->measure))
    return true;
  if (!add_all_loops(c, *best))
    return false;
  c->deadline =
      hl_now() + (c->options->measuring.given ? c->options->measuring.value : USUAL_MEASURING);
  *best = best_of(c);
  if (c->options->measure && !add_groups(c, *best, prices))
    return false;
  *best = best_of(c);
  const int first = *best, second = runner_up(c, first);
  if (c->options->measure && (!add_apart(c, first) || (second >= 0 && !add_apart(c, second))))
    return false;
  *best = best_of(c);
  return true;
}

bool eg_choose(Candidates *c, const Variant **out) {
  HlEgraph *eg = c->eg;
  HlEgraphReport *report = c->report;
  *out = &c->variant[0];
  if (c->options->extract == HL_EXTRACT_RANDOM) {
    report->candidate = HL_ARRAY(c->arena, HlEgraphCandidate, 1);
    return take_any(c);
  }
  double *prices = eg_prices(eg, c->arena, c->target, &eg_price_models[0]);
  report->candidate = HL_ARRAY(c->arena, HlEgraphCandidate, EG_MOST_CANDIDATES);
  c->hash[0] = hl_graph_hash(eg->module);
  HlEgraphCandidate *first = new_candidate(c, "as it was", 0);
  static const HlEgraphWay ways[] = {HL_EXTRACT_GREEDY, HL_EXTRACT_SHARED, HL_EXTRACT_LOCAL,
                                     HL_EXTRACT_EXACT};
  const HlEgraphWay how = c->options->extract;
  bool ok = price(c, &c->variant[0], first);  // with nothing between it and those it is measured beside
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
  ok = ok && add_more(c, prices, &best) && (best == 0 || !c->options->measure || confirm(c, &best));
  report->candidate[best].taken = true;
  *out = &c->variant[best];
  return ok && put(c, best);
}
