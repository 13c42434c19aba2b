// cli/sim/cluster.c: hilo sim --system: a program on a cluster.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/sim/cluster.h"
#include "cli/table.h"
#include "hilo/edit.h"

const char *sim_seconds(HlArena *arena, double s) {
  if (s == 0)
    return "0";
  if (s >= 1)
    return hl_arena_printf(arena, "%.4g s", s);
  return s >= 1e-3 ? hl_arena_printf(arena, "%.4g ms", 1e3 * s)
                   : hl_arena_printf(arena, "%.4g us", 1e6 * s);
}

// --- Options ------------------------------------------------------------------------------------------------

bool sim_read_how(const Cli *cli, const char *list, HlExchangeHow *how) {
  while (list && *list) {
    const char *end = list + strcspn(list, ","), *eq = memchr(list, '=', (size_t)(end - list));
    bool found = false;
    for (int kind = 0; eq && kind < HL_EXCHANGE_KINDS; kind++) {
      if (!hl_str_is((HlStr){list, (size_t)(eq - list)}, hl_exchange_text((HlExchangeKind)kind)))
        continue;
      for (int k = 0; k < HL_HOWS && !found; k++)
        if (hl_str_is((HlStr){eq + 1, (size_t)(end - eq - 1)}, hl_how_text((HlExchangeHow)k)) &&
            hl_how_does((HlExchangeHow)k, (HlExchangeKind)kind)) {
          how[kind] = (HlExchangeHow)k;
          found = true;
        }
    }
    if (!found)
      return cli_usage(cli, "'%.*s' is no exchange and an algorithm for it, as all-reduce=ring",
                       (int)(end - list), list) == CLI_OK;
    list = *end ? end + 1 : end;
  }
  return true;
}

// How many devices --mesh has; false after a usage message.
static bool read_mesh(Cli *cli, SimCluster *out) {
  const char *mesh = cli_value(cli, "--mesh"), *search = cli_value(cli, "--search-mesh");
  if (mesh && search)
    return cli_usage(cli, "--mesh says what --search-mesh is to find: one of them") == CLI_OK;
  if (search && (!cli_flag(cli, "--shard") || !cli_flag(cli, "--devices")))
    return cli_usage(cli, "--search-mesh needs --devices, and --shard, which says what lies along "
                          "which axis") == CLI_OK;
  if (cli_flag(cli, "--shard") && !mesh && !search)
    return cli_usage(cli, "--shard needs --mesh or --search-mesh") == CLI_OK;
  if ((mesh || search) && !hl_mesh_read(cli->cx, out->arena, mesh ? mesh : search, &out->mesh)) {
    cli_usage(cli, "%s", hl_cx_diag(cli->cx, 0)->text);
    hl_cx_clear(cli->cx);
    return false;
  }
  if (!mesh)
    return true;
  for (const char *at = mesh; *at; at += strcspn(at, ",")) {
    at += *at == ',';
    if (!memchr(at, '=', strcspn(at, ",")))
      return cli_usage(cli, "--mesh: '%.*s' is no axis and its size, as data=64",
                       (int)strcspn(at, ","), at) == CLI_OK;
  }
  const int64_t n = hl_mesh_devices(&out->mesh);
  if (cli_flag(cli, "--devices") && out->devices != n)
    return cli_usage(cli, "--mesh has %lld devices, --devices says %lld", (long long)n,
                     (long long)out->devices) == CLI_OK;
  out->devices = n;
  return true;
}

static bool read_stragglers(const Cli *cli, HlClusterOptions *out) {
  const char *text = cli_value(cli, "--stragglers");
  char *end;
  if (!text)
    return true;
  out->stragglers = base_read_double(text, &end);
  if (end != text && *end == ',') {
    const char *second = end + 1;
    out->straggle = base_read_double(second, &end);
    if (end != second && !*end && out->stragglers >= 0 && out->stragglers <= 1 &&
        out->straggle >= 1 && out->straggle < 1e6)
      return true;
  }
  return cli_usage(
             cli, "--stragglers: expected a share and how many times slower, as 0.01,1.5, not '%s'",
             text) == CLI_OK;
}

static bool read_net(const Cli *cli, HlNetModel *out) {
  static const char *const models[] = {"formula", "messages", "simgrid"};
  const char *text = cli_value(cli, "--net");
  for (int k = 0; text && k < HL_COUNT_OF(models); k++)
    if (strcmp(text, models[k]) == 0) {
      *out = (HlNetModel)k;
      return true;
    }
  return !text ||
         cli_usage(cli, "--net: formula, messages or simgrid, not '%s'", text) == CLI_OK;
}

static bool read_run_options(Cli *cli, SimCluster *out) {
  HlClusterOptions *o = &out->options;
  const char *branches = cli_value(cli, "--branches");
  int64_t seed = 0;
  out->every_branch = branches && strcmp(branches, "expected") == 0;
  if (branches && !out->every_branch && strcmp(branches, "worst") != 0)
    return cli_usage(cli, "--branches of --system: worst or expected, not '%s'", branches) ==
           CLI_OK;
  out->overlap = cli_flag(cli, "--overlap") ? HL_OVERLAP_ALL : HL_OVERLAP_AS_WRITTEN;
  o->each = cli_flag(cli, "--each");
  if (!cli_integer(cli, "--devices", 1, 1 << 24, &out->devices) ||
      !cli_integer(cli, "--trips", 1, 1000000000, &out->trips) || !read_mesh(cli, out) ||
      !cli_number(cli, "--jitter", &o->jitter) ||
      !cli_integer(cli, "--seed", 0, INT64_MAX, &seed) ||
      !cli_integer(cli, "--device", 0, 1 << 24, &o->device) || !read_stragglers(cli, o) ||
      !sim_read_how(cli, cli_value(cli, "--how"), o->how) || !read_net(cli, &o->net))
    return false;
  o->seed = (uint64_t)seed;
  if (!(o->jitter >= 0) || o->jitter > 1)
    return cli_usage(cli, "--jitter is a share from 0 to 1") == CLI_OK;
  return true;
}

static HlSimProfile *read_profile(Cli *cli, const char *option) {
  HlSource *source = hl_read_file(cli->cx, cli_value(cli, option));
  int64_t replicas = 1;
  HlSimProfile *profile = NULL;
  if (source && cli_integer(cli, "--replicas", 1, INT32_MAX, &replicas))
    profile = hl_sim_profile_read(cli->cx, source, replicas, HL_SIM_OWN);
  hl_source_unref(source);
  return profile;
}

// There is nothing to report on: why.
static int fail(Cli *cli) {
  if (!cli->json)
    return cli_flush(cli);
  json_begin_row(&cli->report, cli_flag(cli, "--exchange") ? "sim_exchange" : "sim_cluster");
  if (!cli_flag(cli, "--exchange"))
    json_text(&cli->report, "file", "");
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  return status;
}

int sim_cluster_options(Cli *cli, SimCluster *out) {
  *out = (SimCluster){.arena = hl_arena_new()};
  if (!cli_flag(cli, "--system"))
    return cli_usage(cli, "on which system? --list-systems names some: --system=h100");
  if (!read_run_options(cli, out))
    return CLI_USAGE;
  out->system = hl_system_find(cli->cx, out->arena, cli_value(cli, "--system"));
  if (out->system && cli_flag(cli, "--profile") && !(out->profile = read_profile(cli, "--profile")))
    return fail(cli);
  if (out->system && cli_flag(cli, "--calibrate") &&
      !(out->lessons = read_profile(cli, "--calibrate")))
    return fail(cli);
  return out->system ? CLI_OK : fail(cli);
}

void sim_cluster_free(SimCluster *c) {
  hl_sim_profile_free(c->profile);
  hl_sim_profile_free(c->lessons);
  hl_arena_free(c->arena);
}

const HlSystem *sim_system_for(Cli *cli, HlArena *arena, const HlSystem *s, int64_t devices) {
  if (devices <= hl_system_devices(s) && hl_system_devices(s) % devices == 0 &&
      devices == hl_system_devices(s))
    return s;
  return hl_system_resize(cli->cx, arena, s, devices);
}

// --- Programs -------------------------------------------------------------------------------------------------

static bool measured(void *user, HlStr name, const char *category, double roofline,
                     double *seconds) {
  const HlSimProfileRow *row = hl_sim_profile_find(user, name);
  if (row)
    *seconds = row->seconds;
  return row != NULL;
}

static bool names_categories(const HlSimProfile *profile) {
  const HlSimProfileRow *row;
  const int n = hl_sim_profile_rows(profile, &row);
  for (int k = 0; k < n; k++)
    if (row[k].category.n > 0)
      return true;
  return false;
}

// Rows of a category are lessons by themselves; others if the program has their ops, or else for all categories. False after
// reporting.
static bool calibrate(Cli *cli, const SimCluster *c, HlArena *arena, const HlModule *m,
                      HlClusterProgram *p) {
  const HlTarget *device = c->system->device;
  HlCalibration *lessons = hl_calibration_new(arena);
  int learned = hl_calibration_learn_profile(lessons, c->lessons, device);
  if (learned == 0 || !names_categories(c->lessons))
    learned += hl_calibration_learn_program(lessons, c->lessons, p, device);
  if (learned == 0)
    return hl_error(cli->cx, hl_module_pos(m),
                    "nothing to calibrate by: no row of %s says what it computed, or has the name "
                    "of an op of the program",
                    cli_value(cli, "--calibrate"));
  hl_calibration_apply(lessons, p, device, c->profile);
  return true;
}

HlClusterProgram *sim_program(Cli *cli, const SimCluster *c, HlArena *arena, const HlModule *m,
                              int64_t devices) {
  const HlProgramOptions o = {.system = c->system,
                              .devices = devices,
                              .overlap = c->overlap,
                              .trips = c->trips,
                              .every_branch = c->every_branch,
                              .copies_apart = cli_flag(cli, "--mesh"),
                              .time = c->profile ? measured : NULL,
                              .user = c->profile};
  HlClusterProgram *p = hl_program_new(cli->cx, arena, m, &o);
  return !p || !c->lessons || calibrate(cli, c, arena, m, p) ? p : NULL;
}

// A program that says by shardings how it is to be spread, or is told by --shard, and has not been: it becomes that of one device.
static bool partition(Cli *cli, const SimCluster *c, HlModule *m) {
  const char *shard = cli_value(cli, "--shard");
  if (!cli_flag(cli, "--mesh") || hl_is_partitioned(m))
    return !shard || hl_error(cli->cx, hl_module_pos(m),
                              "the program is partitioned already: --shard comes too late");
  if (shard && !hl_mesh_shard(cli->cx, m, &c->mesh, shard))
    return false;
  const int64_t named = shard ? c->devices : hl_named_partitions(m);
  if (named <= 1)
    return true;
  if (c->devices % named != 0)
    return hl_error(cli->cx, hl_module_pos(m),
                    "its shardings are for %lld partitions, of which a mesh of %lld is no multiple",
                    (long long)named, (long long)c->devices);
  if (m->num_partitions <= 1)
    hl_set_devices(m, m->replica_count, named);
  cli_progress(cli, "partitioning for %lld devices", (long long)named);
  const bool ok = hl_mesh_partition(cli->cx, m, c->system->device);
  cli_progress(cli, NULL);
  return ok;
}

// --- Telling ----------------------------------------------------------------------------------------------------

static const char *share(HlArena *arena, double part, double whole) {
  return whole > 0 ? hl_arena_printf(arena, "%.1f%%", 100 * part / whole) : "";
}

static void add_line(HlBuf *out, HlArena *arena, const char *label, double seconds, double whole) {
  hl_buf_printf(out, "  %-20s %-10s %s\n", label, sim_seconds(arena, seconds),
                share(arena, seconds, whole));
}

static void add_exposed(HlBuf *out, HlArena *arena, const HlClusterProgram *p,
                        const HlClusterRun *run, bool lines) {
  static const char *const heads[2][6] = {
      {"exchange", ">times", ">bytes", ">takes", ">exposed", ">for others"},
      {"source line", ">times", ">bytes", ">takes", ">exposed", ">for others"}};
  HlExposed *row;
  const int n =
      lines ? hl_exposed_by_line(arena, p, run, &row) : hl_exposed_by_kind(arena, p, run, &row);
  Table t;
  if (n == 0 || (lines && n == 1 && !*row[0].what))
    return;
  hl_buf_putc(out, '\n');
  table_begin(&t, heads[lines], 6);
  for (int k = 0; k < n && k < 12; k++) {
    table_row(&t);
    if (lines)
      table_text(&t, *row[k].what ? "%s:%d" : "(not known)", row[k].what, row[k].line);
    else
      table_text(&t, "%s", row[k].what);
    table_text(&t, "%lld", (long long)row[k].count);
    table_bytes(&t, row[k].bytes);
    table_text(&t, "%s", sim_seconds(arena, row[k].busy));
    table_text(&t, "%s", sim_seconds(arena, row[k].exposed));
    table_text(&t, "%s", sim_seconds(arena, row[k].waiting));
  }
  table_print(&t, out);
}

static int by_seconds(const void *a, const void *b) {
  const HlPathPart *x = a, *y = b;
  return x->seconds != y->seconds ? (x->seconds > y->seconds ? -1 : 1) : x->step - y->step;
}

static void add_path(HlBuf *out, HlArena *arena, const HlClusterProgram *p,
                     const HlClusterRun *run) {
  static const char *const heads[] = {"critical path", "what", ">time", ">share"};
  HlPathPart *part;
  const int n = hl_critical_path(arena, p, run, &part);
  Table t;
  qsort(part, (size_t)n, sizeof *part, by_seconds);
  hl_buf_putc(out, '\n');
  table_begin(&t, heads, 4);
  for (int k = 0; k < n && k < 10; k++) {
    const HlClusterStep *step = &p->step[part[k].step];
    table_row(&t);
    table_text(&t, "%.*s", (int)(step->name.n > 48 ? 48 : step->name.n), step->name.at);
    table_text(&t, "%s", step->category);
    table_text(&t, "%s", sim_seconds(arena, part[k].seconds));
    table_text(&t, "%s", share(arena, part[k].seconds, run->seconds));
  }
  table_print(&t, out);
}

static void tell(HlBuf *out, HlArena *arena, const char *path, const HlClusterProgram *p,
                 const HlSystem *s, const HlClusterRun *run) {
  char room[32];
  hl_buf_printf(out, "%s: %s on %lld device%s of %s, simulated as %lld\n", path, p->name,
                (long long)p->devices, p->devices == 1 ? "" : "s", s->name,
                (long long)run->classes);
  hl_buf_printf(out, "  %-20s %s\n", "time", sim_seconds(arena, run->seconds));
  if (run->first < run->seconds)
    hl_buf_printf(out, "  %-20s %s\n", "first device done", sim_seconds(arena, run->first));
  add_line(out, arena, "computing", run->compute, run->seconds);
  add_line(out, arena, "exposed exchanges", run->exposed, run->seconds);
  if (run->waiting > 0)
    add_line(out, arena, "of that, for others", run->waiting, run->seconds);
  add_line(out, arena, "hidden exchanges", run->hidden, run->seconds);
  if (run->peak > 0)
    hl_buf_printf(out, "  %-20s %s\n", "peak memory",
                  cli_short_number((double)run->peak, true, room, sizeof room));
  add_exposed(out, arena, p, run, false);
  add_exposed(out, arena, p, run, true);
  add_path(out, arena, p, run);
}

static void exposed_json(HlBuf *out, HlArena *arena, const HlClusterProgram *p,
                         const HlClusterRun *run, bool lines) {
  HlExposed *row;
  const int n =
      lines ? hl_exposed_by_line(arena, p, run, &row) : hl_exposed_by_kind(arena, p, run, &row);
  json_open(out, lines ? "lines" : "exchanges", '[');
  for (int k = 0; k < n; k++) {
    json_open(out, NULL, '{');
    if (lines && *row[k].what) {
      json_text(out, "file", row[k].what);
      json_int(out, "line", row[k].line);
    } else if (!lines) {
      json_text(out, "kind", row[k].what);
    }
    json_int(out, "times", row[k].count);
    json_number(out, "bytes", row[k].bytes);
    json_number(out, "seconds", row[k].busy);
    json_number(out, "exposed", row[k].exposed);
    json_number(out, "waiting", row[k].waiting);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void tell_json(HlBuf *out, HlArena *arena, const HlClusterProgram *p, const HlSystem *s,
                      const HlClusterRun *run) {
  HlPathPart *part;
  json_text(out, "program", p->name);
  json_text(out, "system", s->name);
  json_int(out, "devices", p->devices);
  json_int(out, "classes", run->classes);
  json_int(out, "steps", p->n_steps);
  json_number(out, "seconds", run->seconds);
  json_number(out, "first", run->first);
  json_number(out, "computing", run->compute);
  json_number(out, "exposed", run->exposed);
  json_number(out, "waiting", run->waiting);
  json_number(out, "hidden", run->hidden);
  json_int(out, "peak_bytes", run->peak);
  exposed_json(out, arena, p, run, false);
  exposed_json(out, arena, p, run, true);
  const int n = hl_critical_path(arena, p, run, &part);
  qsort(part, (size_t)n, sizeof *part, by_seconds);
  json_open(out, "critical_path", '[');
  for (int k = 0; k < n && k < 100; k++) {
    const HlClusterStep *step = &p->step[part[k].step];
    json_open(out, NULL, '{');
    json_bytes(out, "step", step->name.at, step->name.n);
    json_text(out, "what", step->category);
    json_number(out, "seconds", part[k].seconds);
    json_close(out, '}');
  }
  json_close(out, ']');
}

// --- Files ------------------------------------------------------------------------------------------------------

static bool write_to(Cli *cli, const char *option, HlBuf *text) {
  return hl_write_file(cli->cx, cli_value(cli, option), text->at ? text->at : "", text->n);
}

static bool write_files(Cli *cli, const HlClusterProgram *p, const HlSystem *s,
                        const HlClusterOptions *options, const HlClusterRun *run) {
  HlBuf text = {0};
  bool ok = true;
  if (cli_flag(cli, "--timeline")) {
    hl_cluster_perfetto(p, run, &text);
    ok = write_to(cli, "--timeline", &text);
  }
  text.n = 0;
  if (ok && cli_flag(cli, "--page")) {
    hl_cluster_page(p, run, s, options, &text);
    ok = write_to(cli, "--page", &text);
  }
  hl_buf_free(&text);
  if (ok && cli_flag(cli, "--chakra")) {
    cli_progress(cli, "writing traces of %lld ranks", (long long)p->devices);
    ok = hl_chakra_write_all(cli->cx, p, cli_value(cli, "--chakra"), NULL);
    cli_progress(cli, NULL);
  }
  return ok;
}

static bool simulate(Cli *cli, const SimCluster *c, HlArena *arena, const char *path,
                     const HlModule *m, const HlClusterProgram *p) {
  const HlSystem *s = sim_system_for(cli, arena, c->system, p->devices);
  HlClusterRun run;
  HlBuf out = {0};
  cli_progress(cli, "simulating %s on %lld devices", p->name, (long long)p->devices);
  bool ok = s && (c->options.device < p->devices ||
                  hl_error(cli->cx, (HlPos){0}, "--device=%lld: there are %lld devices",
                           (long long)c->options.device, (long long)p->devices));
  ok = ok && hl_cluster_run(cli->cx, arena, p, s, &c->options, &run);
  cli_progress(cli, NULL);
  if (ok && cli->json)
    tell_json(&cli->report, arena, p, s, &run);
  else if (ok)
    tell(&out, arena, path, p, s, &run);
  ok = ok && (!cli_flag(cli, "--what-if") || sim_what_if(cli, c, m, p, s, run.seconds, &out));
  ok = ok && (!cli_flag(cli, "--sweep") || sim_sweep(cli, c, m, p, &out));
  if (ok && !cli->json)
    cli_print(&out);
  hl_buf_free(&out);
  return ok && write_files(cli, p, s, &c->options, &run);
}

static bool one_module(Cli *cli, const SimCluster *c, const char *path, HlModule *m) {
  if (cli_flag(cli, "--search-mesh"))
    return sim_search_mesh(cli, c, path, m);
  HlArena *arena = hl_arena_new();
  const HlClusterProgram *p =
      partition(cli, c, m) ? sim_program(cli, c, arena, m, c->devices) : NULL;
  const bool ok = p && simulate(cli, c, arena, path, m, p);
  hl_arena_free(arena);
  return ok;
}

// PREFIX.RANK.et: Chakra's; the prefix in the arena. NULL: none.
static const char *chakra_prefix(HlArena *arena, const char *path) {
  const size_t n = strlen(path);
  size_t k = n;
  if (n < 6 || strcmp(path + n - 3, ".et") != 0)
    return NULL;
  for (k = n - 3; k > 0 && path[k - 1] >= '0' && path[k - 1] <= '9'; k--)
    ;
  return k < n - 3 && k > 1 && path[k - 1] == '.' ? hl_arena_strndup(arena, path, k - 1) : NULL;
}

static const HlClusterProgram *no_lessons(Cli *cli) {
  hl_error_kind(cli->cx, HL_UNSUPPORTED, (HlPos){0},
                "--calibrate is of programs: graphs and traces say how long they compute");
  return NULL;
}

static bool chakra_file(Cli *cli, const SimCluster *c, const char *path, const char *prefix) {
  HlArena *arena = hl_arena_new();
  const HlClusterProgram *p = c->lessons
                                  ? no_lessons(cli)
                                  : hl_chakra_read(cli->cx, arena, prefix, NULL, c->system->device);
  bool ok = p != NULL;
  if (ok && c->devices > 0 && c->devices != p->devices)
    ok = hl_error_kind(cli->cx, HL_UNSUPPORTED, (HlPos){0},
                       "the traces are of %lld ranks: --devices cannot change that",
                       (long long)p->devices);
  ok = ok && simulate(cli, c, arena, path, NULL, p);
  hl_arena_free(arena);
  return ok;
}

static bool is_graph_file(Cli *cli, const char *path) {
  const int before = hl_cx_n_diags(cli->cx);
  HlSource *source = strcmp(path, "-") == 0 ? NULL : hl_read_file(cli->cx, path);
  const bool yes = source && hl_sim_is_graph(hl_source_bytes(source));
  hl_source_unref(source);
  hl_cx_forget(cli->cx, before);
  return yes;
}

// A graph of ParaGraph's.
static bool graph_file(Cli *cli, const SimCluster *c, CliFiles *files, int k) {
  HlArena *arena = hl_arena_new();
  SimInput input;
  bool skipped = false, ok = sim_input(cli, &input) == CLI_OK;
  HlSimGraph *graph = ok ? sim_load(cli, files, k, &input, &skipped) : NULL;
  const HlClusterProgram *p = NULL;
  if (graph)
    p = c->lessons ? no_lessons(cli)
                   : hl_program_of_graph(cli->cx, arena, graph, c->system->device);
  if (p && c->devices > 0 && c->devices != p->devices)
    ok = hl_error(cli->cx, (HlPos){0},
                  "the graph is of %lld processors: --extend=%lld makes it one of others",
                  (long long)p->devices, (long long)c->devices);
  ok = ok && p && simulate(cli, c, arena, files->at[k].at, NULL, p);
  hl_sim_graph_free(graph);
  sim_input_free(&input);
  hl_arena_free(arena);
  return ok;
}

static void begin_file(Cli *cli, const char *path) {
  if (!cli->json)
    return;
  json_begin_row(&cli->report, "sim_cluster");
  json_text(&cli->report, "file", path);
}

static int one_file(Cli *cli, const SimCluster *c, CliFiles *files, int k) {
  const HlLoadOptions how = cli_load_options(cli);
  const char *path = files->at[k].at, *prefix = chakra_prefix(c->arena, path);
  HlFile file;
  bool skipped = false;
  if (prefix) {
    files->modules[files->at[k].operand]++;
    begin_file(cli, path);
    chakra_file(cli, c, path, prefix);
    return cli_end_file(cli);
  }
  if (is_graph_file(cli, path)) {
    begin_file(cli, path);
    graph_file(cli, c, files, k);
    return cli_end_file(cli);
  }
  const bool loaded = cli_load(cli, files, k, &how, &file, &skipped);
  if (skipped)
    return CLI_OK;
  begin_file(cli, path);
  if (loaded && file.n != 1)
    hl_error(cli->cx, (HlPos){0}, "%s holds %d programs: one is simulated at a time", path, file.n);
  else if (loaded)
    one_module(cli, c, path, file.modules[0]);
  if (loaded)
    hl_file_free(&file);
  return cli_end_file(cli);
}

int sim_cluster(Cli *cli) {
  CliFiles files;
  SimCluster c;
  if (cli_flag(cli, "--exchange"))
    return sim_exchange_times(cli);
  int status = sim_cluster_options(cli, &c);
  if (status == CLI_OK)
    status = cli_take_files(cli, &files);
  if (status != CLI_OK) {
    sim_cluster_free(&c);
    return status;
  }
  if (!sim_check_changes(cli, &c)) {
    cli_files_free(&files);
    sim_cluster_free(&c);
    return CLI_USAGE;
  }
  if (files.n > 1 && (cli_flag(cli, "--timeline") || cli_flag(cli, "--page") ||
                      cli_flag(cli, "--chakra") || cli_flag(cli, "--plot")))
    status = cli_usage(cli, "--timeline, --page, --plot and --chakra are of one program, not of %d",
                       files.n);
  if (status != CLI_USAGE && cli_flag(cli, "--plot") && !cli_flag(cli, "--sweep"))
    status = cli_usage(cli, "--plot is of a --sweep");
  for (int k = 0; status != CLI_USAGE && k < files.n; k++)
    status = cli_worse(status, one_file(cli, &c, &files, k));
  status = cli_worse(status, cli_end_files(cli, &files));
  cli_end_report(cli);
  sim_cluster_free(&c);
  return status;
}
