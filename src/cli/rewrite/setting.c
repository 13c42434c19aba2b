// Options of environments.
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "cli/rewrite/rewrite.h"
#include "cli/table.h"

static bool find_spec(Cli *cli, const HlEnvSpec **out) {
  const char *name = cli_value(cli, "--env"), *names[32];
  int n = 0;
  *out = name ? hl_env_spec_find(hl_str(name)) : hl_env_spec_at(0);
  if (*out)
    return true;
  for (const HlEnvSpec *spec; n < 32 && (spec = hl_env_spec_at(n)); n++)
    names[n] = spec->name;
  const char *near = hl_nearest(hl_str(name), names, n);
  cli_usage(cli, near ? "unknown --env '%s'; did you mean '%s'?" : "unknown --env '%s'", name,
            near);
  return false;
}

static bool check_metric(Cli *cli, const char *name) {
  const char *names[32], *word;
  int n = 0;
  for (int k = 0; n < 32 && (word = hl_env_metric_name(k)); k++) {
    if (!name || strcmp(word, name) == 0)
      return true;
    names[n++] = word;
  }
  const char *near = hl_nearest(hl_str(name), names, n);
  cli_usage(cli, near ? "unknown --metric '%s'; did you mean '%s'?" : "unknown --metric '%s'", name,
            near);
  return false;
}

// Each of "greedy,beam" before anything is read.
static bool check_policies(Cli *cli) {
  const char *list = cli_value(cli, "--policy"), *names[32];
  int n = 0;
  for (const HlPolicy *p; n < 32 && (p = hl_policy_at(n)); n++)
    names[n] = p->name;
  for (const char *at = list ? list : ""; *at;) {
    const HlStr name = {at, strcspn(at, ",")};
    if (!hl_policy_find(name)) {
      const char *near = hl_nearest(name, names, n);
      cli_usage(cli, near ? "unknown --policy '%.*s'; did you mean '%s'?" : "unknown --policy '%.*s'",
                (int)name.n, name.at, near);
      return false;
    }
    at += name.n + (at[name.n] == ',');
  }
  return true;
}

static bool read_words(Cli *cli, Rewrite *out) {
  const char *actions = cli_value(cli, "--actions"), *reward = cli_value(cli, "--reward");
  HlEnvActions *kind = HL_NEW(out->arena, HlEnvActions);
  if (actions && !hl_env_actions_by_text(hl_str(actions), kind)) {
    cli_usage(cli, "unknown --actions '%s': one, all, sites or passes", actions);
    return false;
  }
  out->setting.actions = actions ? kind : NULL;
  if (reward && !hl_env_reward_by_text(hl_str(reward), &out->setting.reward)) {
    cli_usage(cli, "unknown --reward '%s': delta, relative or absolute", reward);
    return false;
  }
  return true;
}

static bool read_target(Cli *cli, Rewrite *out) {
  const char *word = cli_value(cli, "--target");
  out->setting.target = word ? hl_target_load(cli->cx, out->arena, word) : NULL;
  return !word || out->setting.target;
}

static bool read_rules(Cli *cli, Rewrite *out) {
  const char *path = cli_value(cli, "--rules");
  HlSource *source = path ? hl_read_file(cli->cx, path) : NULL;
  out->rules = source ? hl_rules_read(cli->cx, source) : NULL;
  out->setting.rules = out->rules;
  hl_source_unref(source);
  return !path || out->rules;
}

bool rewrite_read_setting(Cli *cli, Rewrite *out) {
  int64_t seed = 0, steps = 0;
  HlEnvSetting *s = &out->setting;
  if (!find_spec(cli, &s->spec) || !check_policies(cli) ||
      !check_metric(cli, cli_value(cli, "--metric")) ||
      !read_words(cli, out) || !cli_integer(cli, "--seed", 0, INT64_MAX, &seed) ||
      !cli_integer(cli, "--max-steps", 0, INT32_MAX, &steps) || !read_target(cli, out) ||
      !read_rules(cli, out))
    return false;
  s->metric = cli_value(cli, "--metric");
  s->first = cli_value(cli, "--first");
  s->choose = cli_value(cli, "--choose");
  s->post = cli_value(cli, "--after");
  s->menu = cli_value(cli, "--menu");
  s->max_steps = (int)steps;
  s->seed = out->policy.seed = (uint64_t)seed;
  return true;
}

static bool is_time(const char *metric) {
  return strcmp(metric, "time") == 0 || strcmp(metric, "measured") == 0 ||
         strcmp(metric, "compile") == 0;
}

static bool is_bytes(const char *metric) {
  return strcmp(metric, "bytes") == 0 || strcmp(metric, "memory") == 0;
}

const char *rewrite_value(const char *metric, double value, char *room, size_t n) {
  static const char *const units[] = {"s", "ms", "us", "ns"};
  if (!is_time(metric))
    return cli_short_number(value, is_bytes(metric), room, n);
  int unit = 0;
  for (; unit < 3 && fabs(value) < 1; unit++)
    value *= 1e3;
  base_snprintf(room, n, "%.4g %s", value, value == 0 ? "s" : units[unit]);
  return room;
}
