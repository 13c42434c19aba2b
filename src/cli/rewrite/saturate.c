// hilo rewrite --saturate: all that a program could equally be, and the best of it.
#include <string.h>

#include "cli/json.h"
#include "cli/rewrite/rewrite.h"
#include "cli/table.h"
#include "hilo/opt.h"
#include "hilo/tool.h"

// --- Options ----------------------------------------------------------------------------------------

static bool read_way(Cli *cli, HlEgraphWay *out) {
  const char *word = cli_value(cli, "--extract"), *names[HL_EXTRACT_RANDOM + 1];
  for (int k = 0; k <= HL_EXTRACT_RANDOM; k++) {
    names[k] = hl_egraph_way_name((HlEgraphWay)k);
    if (word && strcmp(word, names[k]) == 0) {
      *out = (HlEgraphWay)k;
      return true;
    }
  }
  if (!word)
    return true;
  const char *near = hl_nearest(hl_str(word), names, HL_EXTRACT_RANDOM + 1);
  cli_usage(cli, near ? "unknown --extract '%s'; did you mean '%s'?" : "unknown --extract '%s'",
            word, near);
  return false;
}

bool rewrite_read_saturation(Cli *cli, HlEgraphOptions *out) {
  static const char *const own[] = {"--fast-math", "--engine-rules",  "--compile", "--extract",
                                    "--nodes",     "--rounds", "--seconds", "--measuring"};
  for (int k = 0; k < HL_COUNT_OF(own); k++)
    if (cli_flag(cli, own[k]) && !cli_flag(cli, "--saturate")) {
      cli_usage(cli, "%s is of --saturate", own[k]);
      return false;
    }
  const char *metric = cli_value(cli, "--metric");
  if (cli_flag(cli, "--saturate") && metric && strcmp(metric, "time") != 0 &&
      strcmp(metric, "measured") != 0) {
    cli_usage(cli, "--saturate knows --metric=time and --metric=measured, not '%s'", metric);
    return false;
  }
  out->inexact = cli_flag(cli, "--fast-math");
  out->engine_rules = cli_value(cli, "--engine-rules");
  out->pipeline = cli_value(cli, "--compile");
  out->nodes.given = cli_flag(cli, "--nodes");
  out->iterations.given = cli_flag(cli, "--rounds");
  out->seconds.given = cli_flag(cli, "--seconds");
  out->measuring.given = cli_flag(cli, "--measuring");
  if (!read_way(cli, &out->extract) ||
      !cli_integer(cli, "--nodes", 0, UINT32_MAX / 4, &out->nodes.value) ||
      !cli_integer(cli, "--rounds", 0, INT64_MAX, &out->iterations.value) ||
      !cli_number(cli, "--seconds", &out->seconds.value) ||
      !cli_number(cli, "--measuring", &out->measuring.value))
    return false;
  if (out->seconds.given && !(out->seconds.value >= 0)) {
    cli_usage(cli, "--seconds must not be negative");
    return false;
  }
  if (out->measuring.given && !(out->measuring.value >= 0)) {
    cli_usage(cli, "--measuring must not be negative");
    return false;
  }
  if (out->measuring.given && (!metric || strcmp(metric, "measured") != 0)) {
    cli_usage(cli, "--measuring is of --metric=measured");
    return false;
  }
  return true;
}

// --- The work ---------------------------------------------------------------------------------------

// So many runs that the least of them says something: as many as take as long as this, at least the usual 20.
static const double MEASURED_SECONDS = 0.02;
enum { MOST_MEASURED_RUNS = 4000 };

typedef struct Measuring {
  Cli *cli;
  double seconds;  // of the program before
  int64_t n;
} Measuring;

static bool tell(void *user, int64_t rounds, int64_t nodes) {
  const Measuring *now = user;
  cli_progress(now->cli, "%lld rounds, %lld nodes", (long long)rounds, (long long)nodes);
  return true;
}

// Of the program as it was taken out: hl_measure compiles it itself. The least of its runs, since what disturbs a run only adds.
static double measure(void *user, const HlModule *m) {
  Measuring *now = user;
  const double runs = now->seconds > 0 ? MEASURED_SECONDS / now->seconds : 0;
  const HlMeasureOptions options = {
      .runs = runs < 20 ? 20 : runs > MOST_MEASURED_RUNS ? MOST_MEASURED_RUNS : (int)runs};
  HlMeasured measured;
  cli_progress(now->cli, "measuring program %lld", (long long)++now->n);
  if (!hl_measure(now->cli->cx, m, &options, &measured))
    return -1;
  now->seconds = measured.best;
  return measured.best;
}

enum { LEAST_MEASURED_PERCENT = 2 };  // what is less may be chance

static HlEgraphOptions options_of(Measuring *measuring, const Rewrite *plan, const HlModule *m) {
  HlEgraphOptions options = plan->saturation;
  options.passes = &hl_passes;
  options.pipelines = &hl_pipelines;
  options.target = plan->setting.target ? plan->setting.target : hl_target_of_module(m);
  options.seed = plan->setting.seed;
  options.progress = tell;
  options.user = measuring;
  if (plan->setting.metric && strcmp(plan->setting.metric, "measured") == 0) {
    options.measure = measure;
    options.least_gain = LEAST_MEASURED_PERCENT / 100.0;
    options.pipeline = "";
  } else if (!options.pipeline) {
    options.pipeline = options.target->kind == HL_TARGET_GPU ? "gpu" : "cpu-native";
  }
  return options;
}

// --- The report -------------------------------------------------------------------------------------

static void candidate_rows(const HlEgraphReport *r, HlBuf *out) {
  static const char *const heads[] = {"",      "program",  ">price",
                                      ">time", ">kernels", ">instructions"};
  Table t;
  table_begin(&t, heads, HL_COUNT_OF(heads));
  for (int k = 0; k < r->n_candidates; k++) {
    const HlEgraphCandidate *c = &r->candidate[k];
    char price[32], time[32];
    table_row(&t);
    table_text(&t, "%s", c->taken ? "*" : " ");
    table_text(&t, "%s", c->how);
    table_text(&t, "%s", rewrite_value("time", c->price, price, sizeof price));
    table_text(&t, "%s", rewrite_value("time", c->seconds, time, sizeof time));
    table_text(&t, "%lld", (long long)c->kernels);
    table_text(&t, "%lld", (long long)c->instructions);
  }
  table_print(&t, out);
}

static void rule_rows(const HlEgraphReport *r, HlBuf *out) {
  static const char *const heads[] = {"rule", ">found", ">news", "exact", "law"};
  Table t;
  table_begin(&t, heads, HL_COUNT_OF(heads));
  for (int k = 0; k < r->n_rules; k++) {
    const HlEgraphRuleCount *rule = &r->rule[k];
    if (rule->found == 0)
      continue;
    table_row(&t);
    table_text(&t, "%.*s", (int)strcspn(rule->rule, "{"), rule->rule);
    table_text(&t, "%lld", (long long)rule->found);
    table_text(&t, "%lld", (long long)rule->news);
    table_text(&t, "%s", rule->is_pass ? "" : rule->exact ? "yes" : "no");
    table_text(&t, "%s", rule->law);
  }
  table_print(&t, out);
}

static void print_report(const Cli *cli, const HlEgraphReport *r, HlBuf *out) {
  hl_buf_printf(out,
                "%lld instructions were %lld nodes; after %d round%s (%s) %lld nodes in %lld "
                "classes, %lld region%s\n",
                (long long)r->instructions, (long long)r->first_nodes, r->iterations,
                r->iterations == 1 ? "" : "s", hl_egraph_stop_text(r->stop), (long long)r->nodes,
                (long long)r->classes, (long long)r->regions, r->regions == 1 ? "" : "s");
  if (cli->verbose)
    rule_rows(r, out);
  if (r->n_candidates > 1)
    candidate_rows(r, out);
  else
    hl_buf_printf(out, "%s: %lld instructions -> %lld\n", r->candidate[0].how,
                  (long long)r->instructions, (long long)r->after);
}

static void report_json(HlBuf *out, const HlEgraphReport *r) {
  json_int(out, "instructions", r->instructions);
  json_int(out, "after", r->after);
  json_int(out, "first_nodes", r->first_nodes);
  json_int(out, "nodes", r->nodes);
  json_int(out, "classes", r->classes);
  json_int(out, "regions", r->regions);
  json_int(out, "rounds", r->iterations);
  json_int(out, "sites", r->sites);
  json_int(out, "bytes", r->bytes);
  json_text(out, "stop", hl_egraph_stop_text(r->stop));
  json_bool(out, "exact", r->exact);
  json_number(out, "saturate_ms", r->saturate_s * 1e3);
  json_number(out, "extract_ms", r->extract_s * 1e3);
  json_number(out, "price_ms", r->price_s * 1e3);
  json_open(out, "candidates", '[');
  for (int k = 0; k < r->n_candidates; k++) {
    const HlEgraphCandidate *c = &r->candidate[k];
    json_open(out, NULL, '{');
    json_text(out, "how", c->how);
    json_number(out, "price_s", c->price);
    json_number(out, "time_s", c->seconds);
    json_number(out, "work", c->work);
    json_int(out, "kernels", c->kernels);
    json_int(out, "instructions", c->instructions);
    json_bool(out, "taken", c->taken);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_open(out, "rules", '[');
  for (int k = 0; k < r->n_rules; k++) {
    const HlEgraphRuleCount *rule = &r->rule[k];
    if (rule->found == 0)
      continue;
    json_open(out, NULL, '{');
    json_text(out, "rule", rule->rule);
    json_text(out, "law", rule->law);
    json_bool(out, "pass", rule->is_pass);
    json_bool(out, "exact", rule->exact);
    json_int(out, "found", rule->found);
    json_int(out, "news", rule->news);
    json_close(out, '}');
  }
  json_close(out, ']');
}

bool rewrite_saturate(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out) {
  HlEgraphReport report;
  HlArena *arena = hl_arena_new();
  Measuring measuring = {.cli = cli};
  const HlEgraphOptions options = options_of(&measuring, plan, m);
  *result = hl_clone(cli->cx, m);
  bool ok = *result && hl_saturate(cli->cx, *result, &options, arena, &report);
  cli_progress(cli, NULL);
  if (ok && cli->json) {
    json_open(&cli->report, "saturation", '{');
    report_json(&cli->report, &report);
  } else if (ok) {
    print_report(cli, &report, out);
  }
  const bool told = ok;
  ok = ok && rewrite_validate(cli, m, *result, out);
  if (told && cli->json)
    json_close(&cli->report, '}');
  hl_arena_free(arena);
  return ok;
}
