// tool/env/specs.c: environments by name.

#include "hilo/session.h"
#include "hilo/trajectory.h"
#include "tool/env/env.h"

static const HlEnvSpec specs[] = {
#define SPEC(...) {__VA_ARGS__},
#include "tool/env/specs.def"
};

const HlEnvSpec *hl_env_spec_at(int k) {
  return k >= 0 && k < HL_COUNT_OF(specs) ? &specs[k] : NULL;
}

const HlEnvSpec *hl_env_spec_find(HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(specs); k++)
    if (hl_str_is(name, specs[k].name))
      return &specs[k];
  return NULL;
}

static const char *either(const char *wish, const char *usual) {
  return wish ? wish : usual;
}

const HlTarget *env_target(const HlModule *m, const HlEnvSetting *setting) {
  const HlEnvSpec *spec = setting->spec ? setting->spec : &specs[0];
  if (setting->target)
    return setting->target;
  if (!*spec->target)
    return hl_target_of_module(m);
  const HlPlatform *platform = hl_platform_find(spec->target);
  return hl_target_find(platform ? platform->target : spec->target);
}

HlEnvOptions env_options_of(const HlModule *m, const HlEnvSetting *setting) {
  const HlEnvSpec *spec = setting->spec ? setting->spec : &specs[0];
  const EnvJudge *judge = env_judge_find(either(setting->metric, "time"));
  const HlRuleSet *rules = setting->rules;
  return (HlEnvOptions){.passes = rules ? hl_rules_passes(rules) : NULL,
                        .target = env_target(m, setting),
                        .first = either(setting->first, spec->first),
                        .first_without = setting->first ? "" : spec->without,
                        .pre = either(setting->pre, spec->pre),
                        .choose = either(setting->choose, rules ? "text-rules" : spec->choose),
                        .post = either(setting->post, spec->post),
                        .own = setting->choose || setting->menu || rules ? "" : spec->own,
                        .menu = either(setting->menu, spec->menu),
                        .actions = setting->actions ? *setting->actions : spec->actions,
                        .metric = either(setting->metric, "time"),
                        .judge = judge ? judge->judge : NULL,
                        .reward = setting->reward,
                        .max_steps = setting->max_steps,
                        .seed = setting->seed};
}

HlEnv *hl_env_open(HlCx *cx, const HlModule *m, const HlEnvSetting *setting) {
  const HlEnvOptions options = env_options_of(m, setting);
  if (options.actions == HL_ENV_PASSES ? !*options.menu : !*options.choose) {
    hl_error(cx, (HlPos){0}, options.actions == HL_ENV_PASSES
                                 ? "there is no menu of passes to choose from"
                                 : "there are no passes whose rewrites could be chosen");
    return NULL;
  }
  return hl_env_new(cx, m, &options);
}

const char *hl_env_metric_name(int k) {
  int n = 0;
  while (hl_env_metric_at(n))
    n++;
  return k < n ? hl_env_metric_at(k)->name : env_judge_at(k - n) ? env_judge_at(k - n)->name : NULL;
}
