// hilo rewrite --policy: lets players play, tells what each step brought.
#include <math.h>
#include <string.h>

#include "cli/json.h"
#include "cli/rewrite/rewrite.h"
#include "cli/table.h"
#include "tool/env/env.h"

// One player's game.
typedef struct Own {
  HlEnvCosts costs;
  double metric;
} Own;
typedef struct Game {
  const HlPolicy *policy;
  HlEnv *env;
  HlPolicyReport report;
  HlEnvCosts first, last;
  double seconds;
} Game;

// --- What is chosen ---------------------------------------------------------------------------------

static void describe(HlBuf *out, const HlEnvChoice *c) {
  hl_buf_puts(out, c->pass);
  if (*c->rule)
    hl_buf_printf(out, " %s", c->rule);
  if (*c->inst)
    hl_buf_printf(out, " at %s", c->inst);
  if (*c->with)
    hl_buf_printf(out, " with %s", c->with);
}

static const char *gain_text(const HlEnvChoice *c, char *room, size_t n) {
  return isnan(c->gain) ? "?" : rewrite_value("time", c->gain, room, n);
}

static void choice_json(HlBuf *out, const HlEnvChoice *c, int number) {
  json_open(out, NULL, '{');
  json_int(out, "choice", number);
  json_int(out, "site", c->site);
  env_choice_json(out, c);
  env_double_json(out, "gain", c->gain);
  json_text(out, "before", c->before);
  json_text(out, "after", c->after);
  json_close(out, '}');
}

bool rewrite_list(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out) {
  (void)result;
  HlEnv *env = hl_env_open(cli->cx, m, &plan->setting);
  if (!env)
    return false;
  int n;
  char room[32];
  const HlEnvChoice *choices = hl_env_choices(env, &n);
  if (cli->json)
    json_open(&cli->report, "choices", '[');
  for (int k = 0; k < n; k++) {
    if (cli->json) {
      choice_json(&cli->report, &choices[k], k);
      continue;
    }
    hl_buf_printf(out, "%5d  site %-4d ", k, choices[k].site);
    describe(out, &choices[k]);
    hl_buf_printf(out, " in %s, gain %s\n", *choices[k].comp ? choices[k].comp : m->name->text,
                  gain_text(&choices[k], room, sizeof room));
  }
  if (cli->json)
    json_close(&cli->report, ']');
  hl_env_free(env);
  return true;
}

// --- The table --------------------------------------------------------------------------------------

static const char *const heads[] = {"step",     ">chosen", ">applied", ">metric",
                                    ">kernels", ">bytes",  "what"};

// "12 general-fusion fuse, 3 cse": passes and rules of what was chosen, most frequent first seen.
static const char *summary_of(HlArena *arena, HlEnv *shadow, const HlEnvMove *move) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(shadow, &n);
  HlBuf out = {0};
  bool *done = HL_ARRAY(arena, bool, move->n + 1);
  int kinds = 0;
  for (int k = 0; k < move->n; k++) {
    if (done[k])
      continue;
    const HlEnvChoice *c = &choices[move->choices[k]];
    int count = 0;
    for (int i = k; i < move->n; i++) {
      const HlEnvChoice *d = &choices[move->choices[i]];
      if (strcmp(c->pass, d->pass) == 0 && strcmp(c->rule, d->rule) == 0) {
        done[i] = true;
        count++;
      }
    }
    if (kinds++ == 4) {
      hl_buf_puts(&out, ", ...");
      break;
    }
    hl_buf_puts(&out, out.n > 0 ? ", " : "");
    if (move->n == 1)
      describe(&out, c);
    else
      hl_buf_printf(&out, "%d %s%s%s", count, c->pass, *c->rule ? " " : "", c->rule);
  }
  const char *text = hl_arena_printf(arena, "%s", out.at ? out.at : move->stop ? "stop" : move->own ? "the passes by themselves" : "");
  hl_buf_free(&out);
  return text;
}

static void add_row(Table *t, const char *metric, double value, const HlEnvCosts *costs) {
  char room[32];
  table_text(t, "%s", rewrite_value(metric, value, room, sizeof room));
  table_number(t, costs->kernels);
  table_bytes(t, costs->bytes);
}

static void move_json(HlBuf *out, HlEnv *shadow, const HlEnvMove *move) {
  char room[ENV_HASH_ROOM];
  int n;
  const HlEnvChoice *choices = hl_env_choices(shadow, &n);
  json_open(out, NULL, '{');
  json_open(out, "choices", '[');
  for (int k = 0; k < move->n; k++) {
    json_open(out, NULL, '{');
    json_int(out, "choice", move->choices[k]);
    env_choice_json(out, &choices[move->choices[k]]);
    env_double_json(out, "gain", choices[move->choices[k]].gain);
    json_close(out, '}');
  }
  json_close(out, ']');
  if (move->own)
    json_bool(out, "own", true);
  json_int(out, "applied", move->applied);
  env_double_json(out, "reward", move->reward);
  env_double_json(out, "metric", move->metric);
  json_open(out, "costs", '{');
  env_costs_json(out, &move->costs);
  json_close(out, '}');
  json_text(out, "hash", env_hash_text(move->hash, room));
  json_close(out, '}');
}

static void list_choices(Cli *cli, const Game *g, HlEnv *shadow, const HlEnvMove *move, HlBuf *out) {
  int n;
  char room[32];
  const HlEnvChoice *choices = hl_env_choices(shadow, &n);
  (void)g;
  for (int k = 0; cli->verbose && move->n > 1 && k < move->n; k++) {
    hl_buf_puts(out, "    ");
    describe(out, &choices[move->choices[k]]);
    hl_buf_printf(out, ", gain %s\n", gain_text(&choices[move->choices[k]], room, sizeof room));
  }
}

// Plays the game again beside, since names of choices are those of the states in which they were made.
static bool report_moves(Cli *cli, const Game *g, HlEnv *shadow, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const char *metric = hl_env_options(g->env)->metric;
  Table t;
  HlBuf details = {0};
  bool ok = true;
  table_begin(&t, heads, HL_COUNT_OF(heads));
  table_row(&t);
  table_text(&t, "start");
  table_text(&t, "%s", ""), table_text(&t, "%s", "");
  add_row(&t, metric, hl_env_first_metric(g->env), &g->first);
  if (cli->json)
    json_open(&cli->report, "steps", '[');
  for (int k = 0; ok && k < hl_env_n_moves(g->env); k++) {
    const HlEnvMove move = hl_env_move(g->env, k);
    HlEnvStep step;
    if (cli->json) {
      move_json(&cli->report, shadow, &move);
    } else {
      table_row(&t);
      table_text(&t, "%d", k + 1);
      table_text(&t, "%d", move.n);
      table_text(&t, "%lld", (long long)move.applied);
      add_row(&t, metric, move.metric, &move.costs);
      table_text(&t, "%s", summary_of(arena, shadow, &move));
      if (cli->verbose && move.n > 1)
        hl_buf_printf(&details, "  step %d\n", k + 1);
      list_choices(cli, g, shadow, &move, &details);
    }
    if (k + 1 < hl_env_n_moves(g->env))
      ok = hl_env_repeat(cli->cx, shadow, g->env, k, &step);
  }
  if (cli->json)
    json_close(&cli->report, ']');
  else
    table_print(&t, out);
  if (details.n > 0)
    hl_buf_add(out, details.at, details.n);
  hl_buf_free(&details);
  if (cli->json)  // what table_print would free
    hl_arena_free(t.arena);
  hl_arena_free(arena);
  return ok;
}

static double part(double first, double last) {
  return first > 0 ? 100 * (last - first) / first : 0;
}

// A game of whole passes as one list of them, for 'hilo opt --passes'. Nothing: of another game.
static HlBuf passes_of(const Game *g) {
  const HlEnvOptions *o = hl_env_options(g->env);
  HlBuf list = {0};
  int n;
  const HlEnvChoice *menu = hl_env_choices(g->env, &n);
  const bool whole = o->actions == HL_ENV_PASSES && !*o->pre && !*o->post;
  for (int k = 0; whole && k < hl_env_n_moves(g->env); k++) {
    const HlEnvMove move = hl_env_move(g->env, k);
    for (int i = 0; i < move.n; i++)
      hl_buf_printf(&list, "%s%s", list.n > 0 ? ", " : "", menu[move.choices[i]].pass);
    if (move.own)
      hl_buf_printf(&list, "%s%s", list.n > 0 ? ", " : "", *o->own ? o->own : o->menu);
  }
  return list;
}

static void report_end(Cli *cli, const Game *g, HlBuf *out) {
  const char *metric = hl_env_options(g->env)->metric;
  char a[32], b[32];
  HlBuf passes = passes_of(g);
  if (cli->json) {
    json_int(&cli->report, "tries", g->report.tries);
    env_double_json(&cli->report, "first", hl_env_first_metric(g->env));
    env_double_json(&cli->report, "last", g->report.last);
    json_number(&cli->report, "ms", g->seconds * 1e3);
    if (passes.n > 0)
      json_text(&cli->report, "order", passes.at);
    hl_buf_free(&passes);
    return;
  }
  if (passes.n > 0 && cli->verbose)
    hl_buf_printf(out, "  in this order: %s\n", passes.at);
  hl_buf_free(&passes);
  hl_buf_printf(out, "%s: %s %s -> %s (%+.1f%%), kernels %.0f -> %.0f, bytes %+.1f%%; %lld states\n",
                g->policy->name, metric,
                rewrite_value(metric, hl_env_first_metric(g->env), a, sizeof a),
                rewrite_value(metric, g->report.last, b, sizeof b),
                part(hl_env_first_metric(g->env), g->report.last), g->first.kernels,
                g->last.kernels, part(g->first.bytes, g->last.bytes), (long long)g->report.tries);
}

// --- Playing ----------------------------------------------------------------------------------------

typedef struct Teller {
  Cli *cli;
  const HlPolicy *policy;
  const char *metric;
} Teller;

static void tell(void *user, int64_t done, int64_t of, double best) {
  const Teller *t = user;
  char room[32];
  cli_progress(t->cli, "%s: %lld of at most %lld states, best %s", t->policy->name, (long long)done,
               (long long)of, rewrite_value(t->metric, best, room, sizeof room));
}

static bool play(Cli *cli, const Rewrite *plan, HlModule *m, Game *g) {
  g->env = hl_env_open(cli->cx, m, &plan->setting);
  if (!g->env)
    return false;
  Teller teller = {cli, g->policy, hl_env_options(g->env)->metric};
  HlPolicyOptions options = plan->policy;
  options.progress = tell;
  options.user = &teller;
  g->first = hl_env_costs(g->env);
  const double start = hl_now();
  const bool ok = hl_policy_play(cli->cx, g->env, g->policy, &options, &g->report);
  g->seconds = hl_now() - start;
  g->last = hl_env_costs(g->env);
  cli_progress(cli, NULL);
  return ok;
}

void rewrite_put_silent(const HlValidated *v, HlBuf *out) {
  if (v->silent > 0)
    hl_buf_printf(out, "; but %d of %d have no finite value on any, and of these that says nothing",
                  v->silent, v->results);
}

bool rewrite_validate(Cli *cli, const HlModule *before, const HlModule *after, HlBuf *out) {
  if (!cli_flag(cli, "--validate"))
    return true;
  HlValidated v;
  if (!hl_validate(cli->cx, before, after, NULL, &v))
    return false;
  if (cli->json) {
    json_open(&cli->report, "validated", '{');
    json_bool(&cli->report, "equal", v.equal);
    json_int(&cli->report, "inputs", v.inputs);
    json_int(&cli->report, "silent", v.silent);
    json_close(&cli->report, '}');
  } else if (v.equal) {
    hl_buf_printf(out, "the results are the same on %d inputs", v.inputs);
    rewrite_put_silent(&v, out);
    hl_buf_putc(out, '\n');
  }
  if (v.equal)
    return true;
  return hl_error_kind(cli->cx, HL_DIFFERS, (HlPos){0},
                       "result r%d differs on input %d: %g where %g was expected", v.leaf, v.input,
                       v.mismatch.actual, v.mismatch.expected);
}

static bool report_game(Cli *cli, const Rewrite *plan, HlModule *m, const Game *g, HlBuf *out) {
  HlEnv *shadow = hl_env_open(cli->cx, m, &plan->setting);
  if (cli->json) {
    json_open(&cli->report, NULL, '{');
    json_text(&cli->report, "policy", g->policy->name);
    json_open(&cli->report, "start", '{');
    env_costs_json(&cli->report, &g->first);
    json_close(&cli->report, '}');
  }
  bool ok = shadow && report_moves(cli, g, shadow, out);
  report_end(cli, g, out);
  ok = ok && rewrite_validate(cli, m, hl_env_module(g->env), out);
  if (cli->json)
    json_close(&cli->report, '}');
  hl_env_free(shadow);
  return ok;
}

// What several players reached, a line each, and what the passes come to by themselves.
static void compare_games(const Game *games, int n, const Own *own, HlBuf *out) {
  static const char *const columns[] = {"policy",  ">metric", ">change", ">kernels",
                                        ">bytes",  ">steps",  ">states", ">ms"};
  Table t;
  table_begin(&t, columns, HL_COUNT_OF(columns));
  for (int k = 0; k < n; k++) {
    const Game *g = &games[k];
    table_row(&t);
    table_text(&t, "%s", g->policy->name);
    char room[32];
    table_text(&t, "%s",
               rewrite_value(hl_env_options(g->env)->metric, g->report.last, room, sizeof room));
    table_text(&t, "%+.1f%%", part(hl_env_first_metric(g->env), g->report.last));
    table_number(&t, g->last.kernels);
    table_bytes(&t, g->last.bytes);
    table_text(&t, "%d", hl_env_n_moves(g->env));
    table_text(&t, "%lld", (long long)g->report.tries);
    table_text(&t, "%.1f", g->seconds * 1e3);
  }
  const char *metric = hl_env_options(games[0].env)->metric;
  char room[32];
  table_row(&t);
  table_text(&t, "(passes)");
  table_text(&t, "%s", rewrite_value(metric, own->metric, room, sizeof room));
  table_text(&t, "%+.1f%%", part(hl_env_first_metric(games[0].env), own->metric));
  table_number(&t, own->costs.kernels);
  table_bytes(&t, own->costs.bytes);
  table_text(&t, "%s", ""), table_text(&t, "%s", ""), table_text(&t, "%s", "");
  table_print(&t, out);
}

// What the passes that the environment stands for would do without being asked.
static bool look_at_passes(Cli *cli, const Rewrite *plan, HlModule *m, Own *out) {
  HlEnv *env = hl_env_open(cli->cx, m, &plan->setting);
  const bool ok = env && hl_env_try_own(cli->cx, env, &out->costs, &out->metric);
  hl_env_free(env);
  if (ok && cli->json) {
    json_open(&cli->report, "passes", '{');
    env_double_json(&cli->report, "metric", out->metric);
    json_open(&cli->report, "costs", '{');
    env_costs_json(&cli->report, &out->costs);
    json_close(&cli->report, '}');
    json_close(&cli->report, '}');
  }
  return ok;
}

static bool take_result(Cli *cli, const Rewrite *plan, HlModule *m, const Game *g,
                        HlModule **result) {
  const char *record = cli_value(cli, "--record");
  if (record &&
      !hl_trajectory_write(cli->cx, g->env, m, &plan->setting, plan->path, record))
    return false;
  *result = hl_env_result(cli->cx, g->env, cli_value(cli, "--last"));
  return *result;
}

bool rewrite_by_policy(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out) {
  enum { MOST = 16 };
  const char *list = cli_value(cli, "--policy");
  Game games[MOST] = {0};
  int n = 0, best = 0;
  bool ok = true;
  for (const char *at = list ? list : "greedy"; ok && *at;) {
    const size_t length = strcspn(at, ",");
    if (n == MOST)
      ok = hl_error(cli->cx, (HlPos){0}, "more than %d policies", MOST);
    else
      ok = (games[n].policy = hl_policy_find((HlStr){at, length})) &&
           play(cli, plan, m, &games[n]);
    if (ok && games[n].report.last < games[best].report.last)
      best = n;
    n += ok;
    at += length + (at[length] == ',');
  }
  if (cli->json)
    json_open(&cli->report, "games", '[');
  for (int k = 0; ok && k < n; k++) {
    if (!cli->json && n > 1)
      hl_buf_printf(out, "%s%s\n", k > 0 ? "\n" : "", games[k].policy->name);
    ok = report_game(cli, plan, m, &games[k], out);
  }
  if (cli->json)
    json_close(&cli->report, ']');
  Own own;
  ok = ok && look_at_passes(cli, plan, m, &own);
  if (ok && n > 1 && !cli->json) {
    hl_buf_putc(out, '\n');
    compare_games(games, n, &own, out);
  }
  ok = ok && n > 0 && take_result(cli, plan, m, &games[best], result);
  for (int k = 0; k < MOST; k++)
    hl_env_free(games[k].env);
  return ok;
}

// --- By hand ----------------------------------------------------------------------------------------

// "3,5;0": what is chosen in the first state, then in the next.
static bool read_numbers(HlCx *cx, const char **at, int *out, int *n, int most) {
  for (*n = 0; **at && **at != ';';) {
    int64_t value = 0;
    int digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 9; ++*at, digits++)
      value = value * 10 + (**at - '0');
    if (digits == 0 || (**at && **at != ',' && **at != ';') || *n == most)
      return hl_error(cx, (HlPos){0}, "expected numbers of choices as in 0,3;1, but got '%s'", *at);
    out[(*n)++] = (int)value;
    *at += **at == ',';
  }
  *at += **at == ';';
  return true;
}

bool rewrite_choose(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out) {
  static const HlPolicy by_hand = {"by hand", ""};
  enum { MOST = 4096 };
  Game g = {.policy = &by_hand, .env = hl_env_open(cli->cx, m, &plan->setting)};
  int *numbers = HL_ARRAY(plan->arena, int, MOST), n;
  bool ok = g.env;
  if (ok)
    g.first = hl_env_costs(g.env);
  const double start = hl_now();
  for (const char *at = cli_value(cli, "--decide"); ok && *at;) {
    HlEnvStep step;
    ok = read_numbers(cli->cx, &at, numbers, &n, MOST) &&
         hl_env_apply(cli->cx, g.env, numbers, n, &step);
  }
  if (ok) {
    g.seconds = hl_now() - start;
    g.last = hl_env_costs(g.env);
    g.report = (HlPolicyReport){.tries = hl_env_n_moves(g.env),
                                .first = hl_env_first_metric(g.env),
                                .last = hl_env_metric(g.env)};
    if (cli->json)
      json_open(&cli->report, "games", '[');
    ok = report_game(cli, plan, m, &g, out) && take_result(cli, plan, m, &g, result);
    if (cli->json)
      json_close(&cli->report, ']');
  }
  hl_env_free(g.env);
  return ok;
}
