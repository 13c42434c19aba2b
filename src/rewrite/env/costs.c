// rewrite/env/costs.c: what a state costs, and the table of metrics.
//
// As hilo/cost.h counts, but of fusions: these read of their operands only what is looked at inside. A kernel that slices a layer's
// weights out of those of all layers does not read them all.

#include <math.h>

#include "rewrite/env/env.h"

// --- What a kernel reads and writes -----------------------------------------------------------------

// Of an operand of a fusion only what is looked at inside: where all that reads it takes a part of it, those parts; what is updated in
// place is not read.
static double part_read(const HlInst *param) {
  const double whole = (double)hl_leaf_bytes(param->shape);
  double sum = 0;
  for (const HlUse *use = param->first_use; use; use = use->next) {
    const HlInst *user = use->user;
    const bool slices = user->op == HL_OP_DYNAMIC_SLICE || user->op == HL_OP_SLICE ||
                        user->op == HL_OP_GATHER;
    if (use->number == 0 && slices)
      sum += (double)hl_leaf_bytes(user->shape);
    else if (use->number == 0 && user->op == HL_OP_BITCAST)
      sum += part_read(user);
    else if (use->number != 0 || user->op != HL_OP_DYNAMIC_UPDATE_SLICE)
      return whole;
  }
  return param == param->comp->root || sum > whole ? whole : sum;
}

static double part_written(const HlInst *result) {
  while (result->op == HL_OP_BITCAST)
    result = result->operands[0];
  return (double)hl_leaf_bytes(result->op == HL_OP_DYNAMIC_UPDATE_SLICE
                                   ? result->operands[1]->shape
                                   : result->shape);
}

static EnvTraffic fusion_traffic(const HlInst *fusion) {
  const HlComp *body = hl_to_apply(fusion);
  EnvTraffic t = {0};
  for (int k = 0; k < body->n_params; k++)
    if (body->params[k])
      t.read += part_read(body->params[k]);
  if (body->root->op != HL_OP_TUPLE)
    t.written = part_written(body->root);
  for (uint32_t k = 0; body->root->op == HL_OP_TUPLE && k < body->root->n_operands; k++)
    t.written += part_written(body->root->operands[k]);
  return t;
}

EnvTraffic env_traffic(const HlInst *inst, const HlCost *comps) {
  if (inst->op == HL_OP_FUSION && inst->n_calls > 0)
    return fusion_traffic(inst);
  const HlCost cost = hl_cost_inst_by(inst, comps);
  return (EnvTraffic){cost.bytes_read, cost.bytes_written};
}

double env_time(const HlTimes *times, const HlInst *inst) {
  if (inst->op != HL_OP_FUSION || inst->n_calls == 0 || inst->comp->is_fusion)
    return hl_time_of(times, inst);
  const EnvTraffic t = fusion_traffic(inst);
  return hl_kernel_seconds(times->target, times->computing[hl_to_apply(inst)->id],
                           t.read + t.written);
}

// --- What a state costs -----------------------------------------------------------------------------

static bool runs_others(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START;
}

// Starts a kernel of its own, where it stands outside of fusions.
static bool is_kernel(const HlInst *inst) {
  return !hl_op_is((HlOp)inst->op, HL_T_WIRE | HL_T_GIVEN);
}

static void add(HlEnvCosts *to, const HlEnvCosts *what, double times) {
  to->seconds += times * what->seconds;
  to->kernels += times * what->kernels;
  to->bytes += times * what->bytes;
  to->flops += times * what->flops;
}

// Of what control flow runs: each as often as it is known to, of branches the longest.
static HlEnvCosts costs_inside(const HlEnvCosts *of, const HlInst *inst) {
  HlEnvCosts sum = {0};
  const HlEnvCosts *most = NULL;
  for (int k = 0; k < inst->n_calls; k++) {
    const HlEnvCosts *one = &of[hl_called(inst, k)->id];
    add(&sum, one, 1);
    if (!most || one->seconds > most->seconds ||
        (one->seconds == most->seconds && one->kernels > most->kernels))
      most = one;
  }
  if (inst->op == HL_OP_CONDITIONAL)
    return most ? *most : sum;
  const int64_t trips = inst->op == HL_OP_WHILE ? hl_trip_count(inst) : 1;
  HlEnvCosts all = {0};
  add(&all, &sum, trips < 0 ? 1 : (double)trips);
  return all;
}

static HlEnvCosts costs_of_inst(const HlTimes *times, const HlEnvCosts *of, const HlInst *inst) {
  if (runs_others(inst))
    return costs_inside(of, inst);
  const EnvTraffic traffic = env_traffic(inst, times->comps);
  return (HlEnvCosts){.seconds = env_time(times, inst),
                      .kernels = is_kernel(inst),
                      .bytes = traffic.read + traffic.written,
                      .flops = hl_cost_inst_by(inst, times->comps).flops};
}

EnvPrices env_prices(HlArena *arena, const HlModule *m, const HlTarget *target) {
  HlCost *comps = hl_cost_comps(arena, m);
  return (EnvPrices){arena, m, target, comps, hl_times(arena, m, target, comps)};
}

HlEnvCosts env_costs_by(const EnvPrices *prices) {
  HlEnvCosts costs = {0};
  const HlModule *m = prices->m;
  HlEnvCosts *of = HL_ARRAY(prices->arena, HlEnvCosts, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)  // callees before callers
    for (const HlInst *inst = comp->first; inst && !comp->is_fusion; inst = inst->next) {
      const HlEnvCosts one = costs_of_inst(&prices->times, of, inst);
      add(&of[comp->id], &one, 1);
    }
  if (m->entry)
    costs = of[m->entry->id];
  costs.instructions = (double)hl_count_instructions(m);
  return costs;
}

HlEnvCosts hl_env_costs_of(const HlModule *m, const HlTarget *target) {
  HlArena *arena = hl_arena_new();
  const EnvPrices prices = env_prices(arena, m, target);
  const HlEnvCosts costs = env_costs_by(&prices);
  hl_arena_free(arena);
  return costs;
}

// --- Metrics ------------------------------------------------------------------------------------

#define METRIC(name, unit, value, meaning)                                                        \
  static double metric_##name(HlCx *cx, const HlModule *m, const HlEnvCosts *costs) {             \
    (void)cx, (void)m, (void)costs;                                                               \
    return value;                                                                                 \
  }
#include "rewrite/env/metrics.def"

static const HlEnvMetric metrics[] = {
#define METRIC(name, unit, value, meaning) {#name, unit, meaning, metric_##name},
#include "rewrite/env/metrics.def"
};

const HlEnvMetric *hl_env_metric_at(int k) {
  return k >= 0 && k < HL_COUNT_OF(metrics) ? &metrics[k] : NULL;
}

const HlEnvMetric *hl_env_metric_find(HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(metrics); k++)
    if (hl_str_is(name, metrics[k].name))
      return &metrics[k];
  return NULL;
}

const HlTarget *env_target_of(const HlEnv *env) {
  return env->options.target ? env->options.target : hl_target_none();
}

bool env_judge(HlCx *cx, HlEnv *env, HlEnvCosts *costs, double *metric) {
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  const EnvPrices prices = env_prices(arena, env->m, env_target_of(env));
  const bool ok = env_judge_by(cx, env, &prices, costs, metric);
  hl_arena_release(arena, mark);
  return ok;
}

bool env_judge_by(HlCx *cx, HlEnv *env, const EnvPrices *prices, HlEnvCosts *costs,
                  double *metric) {
  *costs = env_costs_by(prices);
  if (env->options.judge)
    return env->options.judge(cx, env->options.user, env->m, metric);
  *metric = env->metric->of(cx, env->m, costs);
  return true;
}

// --- Words --------------------------------------------------------------------------------------

static const char *const action_words[] = {[HL_ENV_ONE] = "one",
                                           [HL_ENV_ALL] = "all",
                                           [HL_ENV_SITES] = "sites",
                                           [HL_ENV_PASSES] = "passes"};
static const char *const reward_words[] = {[HL_REWARD_DELTA] = "delta",
                                           [HL_REWARD_RELATIVE] = "relative",
                                           [HL_REWARD_ABSOLUTE] = "absolute"};

static int find_word(const char *const *words, int n, HlStr text) {
  for (int k = 0; k < n; k++)
    if (hl_str_is(text, words[k]))
      return k;
  return -1;
}

const char *hl_env_actions_text(HlEnvActions actions) {
  return action_words[actions];
}

bool hl_env_actions_by_text(HlStr text, HlEnvActions *out) {
  const int k = find_word(action_words, HL_COUNT_OF(action_words), text);
  *out = (HlEnvActions)(k < 0 ? 0 : k);
  return k >= 0;
}

const char *hl_env_reward_text(HlEnvReward reward) {
  return reward_words[reward];
}

bool hl_env_reward_by_text(HlStr text, HlEnvReward *out) {
  const int k = find_word(reward_words, HL_COUNT_OF(reward_words), text);
  *out = (HlEnvReward)(k < 0 ? 0 : k);
  return k >= 0;
}
