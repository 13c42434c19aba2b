// cli/sim/sweep.c: a program under other circumstances: what if, and all combinations of values.
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cli/json.h"
#include "cli/sim/cluster.h"
#include "cli/table.h"

// --- What if ----------------------------------------------------------------------------------------------------

static void what_if_row(Cli *cli, Table *t, HlArena *arena, const char *change, double seconds,
                        double before) {
  if (cli->json) {
    json_open(&cli->report, NULL, '{');
    json_text(&cli->report, "change", change);
    json_number(&cli->report, "seconds", seconds);
    json_close(&cli->report, '}');
    return;
  }
  table_row(t);
  table_text(t, "%s", change);
  table_text(t, "%s", sim_seconds(arena, seconds));
  table_text(t, "%.3f", seconds > 0 ? before / seconds : 0);
}

// The program for a system whose device computes otherwise is another one. NULL after reporting.
static const HlClusterProgram *on_device(Cli *cli, const SimCluster *c, HlArena *arena,
                                         const HlModule *m, const HlClusterProgram *p,
                                         const HlSystem *s) {
  if (s->device == c->system->device)
    return p;
  if (!m) {
    hl_error_kind(cli->cx, HL_UNSUPPORTED, (HlPos){0},
                  "traces say how long they compute: another device cannot be asked about");
    return NULL;
  }
  SimCluster other = *c;
  other.system = s;
  return sim_program(cli, &other, arena, m, p->devices);
}

bool sim_what_if(Cli *cli, const SimCluster *c, const HlModule *m, const HlClusterProgram *p,
                 const HlSystem *s, double seconds, HlBuf *out) {
  static const char *const heads[] = {"what if", ">time", ">times as fast"};
  HlArena *arena = hl_arena_new();
  const char *list = cli_value(cli, "--what-if");
  Table t;
  bool ok = true;
  table_begin(&t, heads, 3);
  if (cli->json)
    json_open(&cli->report, "what_if", '[');
  while (ok && *list) {
    const size_t n = strcspn(list, ",");
    const char *change = hl_arena_strndup(arena, list, n);
    const HlSystem *other = hl_system_what_if(cli->cx, arena, s, change);
    const HlClusterProgram *program = other ? on_device(cli, c, arena, m, p, other) : NULL;
    HlClusterRun run;
    ok = program && hl_cluster_run(cli->cx, arena, program, other, &c->options, &run);
    if (ok)
      what_if_row(cli, &t, arena, change, run.seconds, seconds);
    list += n + (list[n] != 0);
  }
  if (cli->json)
    json_close(&cli->report, ']');
  hl_buf_putc(out, '\n');
  table_print(&t, out);
  hl_arena_free(arena);
  return ok;
}

// --- Sweeps -------------------------------------------------------------------------------------------------------

enum { MAX_KEYS = 8, MAX_VALUES = 64, MAX_RUNS = 100000 };

typedef struct Key {
  const char *name;
  const char *value[MAX_VALUES];
  int n;
} Key;

typedef struct Sweep {
  Cli *cli;
  const SimCluster *c;
  const HlModule *m;  // NULL: it cannot be made for other devices
  const HlClusterProgram *p;
  Key key[MAX_KEYS];
  int n;
  // The program for other numbers of devices, made once each.
  int64_t devices[MAX_VALUES];
  const HlClusterProgram *program[MAX_VALUES];
  int n_programs;
  HlArena *arena;
} Sweep;

static bool bad_spec(const Sweep *s, const char *text, size_t n) {
  return cli_usage(s->cli, "--sweep: expected KEY=VALUE,VALUE,..., not '%.*s'", (int)n, text) ==
         CLI_OK;
}

static bool read_key(Sweep *s, const char *text, size_t n) {
  const char *eq = memchr(text, '=', n), *end = text + n;
  if (!eq || eq == text || eq + 1 == end)
    return bad_spec(s, text, n);
  if (s->n == MAX_KEYS)
    return cli_usage(s->cli, "--sweep: more than %d keys", MAX_KEYS) == CLI_OK;
  Key *key = &s->key[s->n++];
  key->name = hl_arena_strndup(s->arena, text, (size_t)(eq - text));
  for (int k = 0; k + 1 < s->n; k++)
    if (strcmp(s->key[k].name, key->name) == 0)
      return cli_usage(s->cli, "--sweep: '%s' stands there twice", key->name) == CLI_OK;
  for (const char *at = eq + 1; at < end;) {
    const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
    if (stop == at)
      return bad_spec(s, text, n);
    if (key->n == MAX_VALUES)
      return cli_usage(s->cli, "--sweep: %s has more than %d values", key->name, MAX_VALUES) ==
             CLI_OK;
    key->value[key->n++] = hl_arena_strndup(s->arena, at, (size_t)(stop - at));
    at = stop + 1;
  }
  return true;
}

static bool read_spec(Sweep *s, const char *spec) {
  int64_t runs = 1;
  while (*spec) {
    const size_t n = strcspn(spec, ";");
    if (!read_key(s, spec, n))
      return false;
    runs *= s->key[s->n - 1].n;
    if (runs > MAX_RUNS)
      return cli_usage(s->cli, "--sweep: more than %d combinations", MAX_RUNS) == CLI_OK;
    spec += n + (spec[n] != 0);
  }
  return s->n > 0 || bad_spec(s, "", 0);
}

static const HlClusterProgram *program_for(Sweep *s, int64_t devices) {
  for (int k = 0; k < s->n_programs; k++)
    if (s->devices[k] == devices)
      return s->program[k];
  if (!s->m) {
    hl_error_kind(s->cli->cx, HL_UNSUPPORTED, (HlPos){0},
                  "traces are for the ranks that they are of: 'devices' cannot change");
    return NULL;
  }
  const HlClusterProgram *p = sim_program(s->cli, s->c, s->arena, s->m, devices);
  if (p && s->n_programs < MAX_VALUES) {
    s->devices[s->n_programs] = devices;
    s->program[s->n_programs++] = p;
  }
  return p;
}

// One combination: what its values make of system, program and algorithms.
typedef struct Setting {
  const HlSystem *system;
  const HlClusterProgram *program;
  HlClusterOptions options;
} Setting;

static bool set_value(Sweep *s, HlArena *arena, const char *name, const char *value, Setting *out) {
  Cli *cli = s->cli;
  if (strcmp(name, "system") == 0)
    return (out->system = hl_system_find(cli->cx, arena, value)) != NULL;
  if (strcmp(name, "devices") == 0) {
    char *end;
    const long long n = strtoll(value, &end, 10);
    if (*end || n < 1 || n > 1 << 24)
      return hl_error(cli->cx, (HlPos){0}, "--sweep: '%s' is no number of devices", value);
    return (out->program = program_for(s, n)) != NULL;
  }
  for (int kind = 0; kind < HL_EXCHANGE_KINDS; kind++)
    if (strcmp(hl_exchange_text((HlExchangeKind)kind), name) == 0) {
      const HlExchangeHow how = hl_how_find(value);
      if (how == HL_HOWS || !hl_how_does(how, (HlExchangeKind)kind))
        return hl_error(cli->cx, (HlPos){0}, "--sweep: there is no %s by %s", name, value);
      out->options.how[kind] = how;
      return true;
    }
  out->system =
      hl_system_what_if(cli->cx, arena, out->system, hl_arena_printf(arena, "%s=%s", name, value));
  return out->system != NULL;
}

static bool run_one(Sweep *s, HlArena *arena, const int *at, HlClusterRun *run) {
  Setting setting = {s->c->system, s->p, s->c->options};
  // A system first, since the others change it.
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < s->n; k++)
      if ((strcmp(s->key[k].name, "system") == 0) == (pass == 0) &&
          !set_value(s, arena, s->key[k].name, s->key[k].value[at[k]], &setting))
        return false;
  const HlSystem *sized = sim_system_for(s->cli, arena, setting.system, setting.program->devices);
  const HlClusterProgram *p =
      sized ? on_device(s->cli, s->c, arena, s->m, setting.program, sized) : NULL;
  return p && hl_cluster_run(s->cli->cx, arena, p, sized, &setting.options, run);
}

static void put_bar(Table *t, double part) {
  static const char bar[] = "##############################";
  table_text(t, "%.*s", (int)(30 * part + 0.5), bar);
}

static void put_row(Sweep *s, Table *t, HlArena *arena, const int *at, const HlClusterRun *run,
                    double longest) {
  Cli *cli = s->cli;
  if (!cli->json) {
    table_row(t);
  } else {
    json_open(&cli->report, NULL, '{');
    json_open(&cli->report, "values", '{');
  }
  for (int k = 0; k < s->n; k++)
    if (cli->json)
      json_text(&cli->report, s->key[k].name, s->key[k].value[at[k]]);
    else
      table_text(t, "%s", s->key[k].value[at[k]]);
  if (cli->json) {
    json_close(&cli->report, '}');
    json_number(&cli->report, "seconds", run->seconds);
    json_number(&cli->report, "exposed", run->exposed);
    json_close(&cli->report, '}');
    return;
  }
  table_text(t, "%s", sim_seconds(arena, run->seconds));
  table_text(t, "%s", sim_seconds(arena, run->exposed));
  put_bar(t, longest > 0 ? run->seconds / longest : 0);
}

static bool next_combination(const Sweep *s, int *at) {
  for (int k = s->n - 1; k >= 0; k--) {
    if (++at[k] < s->key[k].n)
      return true;
    at[k] = 0;
  }
  return false;
}

static bool write_plot(Sweep *s, const HlClusterRun *run, int n) {
  HlSweepKey key[MAX_KEYS];
  HlSweepPoint *point = HL_ARRAY(s->arena, HlSweepPoint, n + 1);
  HlBuf page = {0};
  for (int k = 0; k < s->n; k++)
    key[k] = (HlSweepKey){s->key[k].name, s->key[k].value, s->key[k].n};
  for (int k = 0; k < n; k++)
    point[k] = (HlSweepPoint){run[k].seconds, run[k].exposed};
  hl_sweep_page(&(HlSweep){s->p->name, s->c->system->name, s->n, key, n, point}, &page);
  const bool ok = hl_write_file(s->cli->cx, cli_value(s->cli, "--plot"), page.at, page.n);
  hl_buf_free(&page);
  return ok;
}

static bool run_all(Sweep *s, Table *t) {
  int at[MAX_KEYS] = {0};
  VEC(HlClusterRun) runs = {0};
  double longest = 0;
  bool ok = true;
  do {
    HlArena *arena = hl_arena_new();
    HlClusterRun run;
    ok = run_one(s, arena, at, &run);
    if (ok) {
      longest = run.seconds > longest ? run.seconds : longest;
      vec_push(&runs, run);
    }
    hl_arena_free(arena);
    if (runs.n % 100 == 0)
      cli_progress(s->cli, "%d combinations", runs.n);
  } while (ok && next_combination(s, at));
  cli_progress(s->cli, NULL);
  memset(at, 0, sizeof at);
  for (int k = 0; ok && k < runs.n; k++) {
    put_row(s, t, s->arena, at, &runs.at[k], longest);
    next_combination(s, at);
  }
  ok = ok && (!cli_flag(s->cli, "--plot") || write_plot(s, runs.at, runs.n));
  vec_free(&runs);
  return ok;
}

bool sim_sweep(Cli *cli, const SimCluster *c, const HlModule *m, const HlClusterProgram *p,
               HlBuf *out) {
  const char *heads[MAX_KEYS + 3];
  Sweep s = {.cli = cli, .c = c, .m = m, .p = p, .arena = hl_arena_new()};
  Table t;
  bool ok = read_spec(&s, cli_value(cli, "--sweep"));
  if (ok) {
    for (int k = 0; k < s.n; k++)
      heads[k] = s.key[k].name;
    heads[s.n] = ">time";
    heads[s.n + 1] = ">exposed";
    heads[s.n + 2] = "";
    table_begin(&t, heads, s.n + 3);
    if (cli->json)
      json_open(&cli->report, "sweep", '[');
    ok = run_all(&s, &t);
    if (cli->json)
      json_close(&cli->report, ']');
    hl_buf_putc(out, '\n');
    table_print(&t, out);
  }
  hl_arena_free(s.arena);
  return ok;
}

bool sim_check_changes(Cli *cli, const SimCluster *c) {
  HlArena *arena = hl_arena_new();
  const char *list = cli_value(cli, "--what-if"), *spec = cli_value(cli, "--sweep");
  bool ok =
      !list || *list || cli_usage(cli, "--what-if: which changes? bandwidth=2x, say") == CLI_OK;
  for (; ok && list && *list; list += strcspn(list, ",")) {
    list += *list == ',';
    ok = hl_system_what_if(cli->cx, arena, c->system,
                           hl_arena_strndup(arena, list, strcspn(list, ","))) != NULL;
  }
  if (!ok)
    cli_flush(cli);
  Sweep s = {.cli = cli, .c = c, .arena = arena};
  ok = ok && (!spec || read_spec(&s, spec));
  hl_arena_free(arena);
  return ok;
}
