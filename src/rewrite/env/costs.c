// rewrite/env/costs.c: what a state costs, and the table of metrics.

#include <math.h>

#include "rewrite/env/env.h"

// Starts a kernel of its own, where it stands outside of fusions.
static bool is_kernel(const HlInst *inst) {
  return !hl_op_is((HlOp)inst->op, HL_T_WIRE | HL_T_GIVEN | HL_T_CONTROL) &&
         inst->op != HL_OP_ASYNC_START;
}

// Of what control flow runs: each as often as it is known to, of branches the one with most.
static double kernels_inside(const double *of, const HlInst *inst) {
  double sum = 0, most = 0;
  for (int k = 0; k < inst->n_calls; k++) {
    const double one = of[hl_called(inst, k)->id];
    sum += one;
    most = one > most ? one : most;
  }
  const int64_t trips = inst->op == HL_OP_WHILE ? hl_trip_count(inst) : 1;
  return inst->op == HL_OP_CONDITIONAL ? most : sum * (trips < 0 ? 1 : (double)trips);
}

static double count_kernels(HlArena *arena, const HlModule *m) {
  double *of = HL_ARRAY(arena, double, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)  // callees before callers
    for (const HlInst *inst = comp->first; inst && !comp->is_fusion; inst = inst->next)
      if (hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START)
        of[comp->id] += kernels_inside(of, inst);
      else
        of[comp->id] += is_kernel(inst);
  return m->entry ? of[m->entry->id] : 0;
}

HlEnvCosts hl_env_costs_of(const HlModule *m, const HlTarget *target) {
  if (!m->entry)
    return (HlEnvCosts){.instructions = (double)hl_count_instructions(m)};
  HlArena *arena = hl_arena_new();
  const HlCost *comps = hl_cost_comps(arena, m);
  const HlTimes times = hl_times(arena, m, target, comps);
  const HlCost *cost = &comps[m->entry->id];
  const HlEnvCosts costs = {.seconds = times.seconds[m->entry->id],
                            .kernels = count_kernels(arena, m),
                            .bytes = cost->bytes_read + cost->bytes_written,
                            .flops = cost->flops,
                            .instructions = (double)hl_count_instructions(m)};
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

bool env_judge(HlCx *cx, HlEnv *env, HlEnvCosts *costs, double *metric) {
  const HlTarget *target = env->options.target ? env->options.target : hl_target_none();
  *costs = hl_env_costs_of(env->m, target);
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
