// cli/sim/modes.c: the modes of `hilo sim` that make, convert and describe graphs, translate them and run one alone.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/vec.h"
#include "cli/json.h"
#include "cli/sim/sim.h"
#include "cpu/pool/pool.h"

// --- One graph after another --------------------------------------------------------------------------------------

// What a mode does with each file's graph; false after reporting.
typedef bool EachGraph(Cli *cli, HlSimGraph *graph, const char *path, void *user);

static int each_graph(Cli *cli, EachGraph *work, void *user) {
  CliFiles files;
  SimInput input;
  int status = sim_input(cli, &input);
  if (status == CLI_OK)
    status = cli_take_files(cli, &files);
  if (status != CLI_OK) {
    sim_input_free(&input);
    return status;
  }
  for (int k = 0; k < files.n; k++) {
    bool skipped;
    cli_progress(cli, "reading %s", files.at[k].at);
    HlSimGraph *graph = sim_load(cli, &files, k, &input, &skipped);
    if (skipped)
      continue;
    cli_begin_file(cli, files.at[k].at);
    if (graph)
      work(cli, graph, files.at[k].at, user);
    hl_sim_graph_free(graph);
    cli_progress(cli, NULL);
    status = cli_worse(status, cli_end_file(cli));
  }
  status = cli_worse(status, cli_end_files(cli, &files));
  cli_end_report(cli);
  sim_input_free(&input);
  return status;
}

static int one_output(const Cli *cli) {
  const char *path = cli_value(cli, "-o");
  if (path && cli->n_files > 1)
    return cli_usage(cli, "-o names one file: expected one input, not %d", cli->n_files);
  if (path && strcmp(path, "-") != 0 && hl_sim_form_of(path) == HL_SIM_FORM_NONE)
    return cli_usage(cli, "-o %s: a graph is written as .pb or .textproto", path);
  return CLI_OK;
}

// --- Describe, bridge, convert --------------------------------------------------------------------------------------

static bool describe(Cli *cli, HlSimGraph *graph, const char *path, void *user) {
  HlBuf out = {0};
  sim_describe_graph(cli, graph, cli->json ? &cli->report : &out);
  cli_print(&out);
  hl_buf_free(&out);
  return true;
}

int sim_describe(Cli *cli) {
  if (cli_flag(cli, "-o"))
    return cli_usage(cli, "-o needs --bridge, --convert or --translate");
  return each_graph(cli, describe, NULL);
}

static bool write_out(Cli *cli, HlSimGraph *graph, const char *path, void *user) {
  const char *to = cli_value(cli, "-o");
  if (cli->json)
    sim_describe_graph(cli, graph, &cli->report);
  if (cli->json && to)
    json_text(&cli->report, "written", to);
  return (cli->json && !to) || sim_write(cli, graph, to ? to : "-");
}

int sim_bridge(Cli *cli) {
  const int usage = one_output(cli);
  return usage != CLI_OK ? usage : each_graph(cli, write_out, NULL);
}

int sim_convert(Cli *cli) {
  return sim_bridge(cli);
}

// --- Translate ------------------------------------------------------------------------------------------------------

typedef struct Translate {
  HlSimTranslation *how;
  const char *dir;  // NULL: nothing is written
  HlI64s only;      // processors; empty: all
} Translate;

static const char *end_of(const Cli *cli, const char *path) {
  const char *form = cli_value(cli, "--form");
  return form                                  ? (strcmp(form, "pb") == 0 ? ".pb" : ".textproto")
         : hl_sim_form_of(path) == HL_SIM_TEXT ? ".textproto"
                                               : ".pb";
}

// The file's name without its last ending, as ParaGraph takes it.
static void put_stem(HlBuf *out, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
             *dot = strrchr(name, '.');
  hl_buf_add(out, name, dot && dot != name ? (size_t)(dot - name) : strlen(name));
}

// What becomes of each graph: `report` has a place for each of the list.
typedef struct Translated {
  Cli *cli;
  const Translate *how;
  const char *path;
  HlI64s processors;
  HlBuf *report;
  pthread_mutex_t lock;
  VEC(HlBuf) rooms;  // of threads that write nothing just now
} Translated;

static HlBuf take_room(Translated *t) {
  HlBuf room = {0};
  pthread_mutex_lock(&t->lock);
  if (t->rooms.n > 0)
    room = vec_pop(&t->rooms);
  pthread_mutex_unlock(&t->lock);
  return room;
}

static void put_room(Translated *t, HlBuf room) {
  pthread_mutex_lock(&t->lock);
  const bool fits = t->rooms.n < t->rooms.capacity;
  if (fits)
    vec_push(&t->rooms, room);
  pthread_mutex_unlock(&t->lock);
  if (!fits)
    hl_buf_free(&room);
}

static bool write_one(HlCx *cx, HlSimGraph *graph, int k, void *user) {
  Translated *t = user;
  Cli one = *t->cli;  // of this thread
  HlBuf name = {0};
  bool ok = true;
  one.cx = cx;
  if (cx == t->cli->cx)
    cli_progress(t->cli, "translating processor %lld, %d of %d", (long long)t->processors.at[k],
                 k + 1, t->processors.n);
  if (t->how->dir) {
    hl_buf_printf(&name, "%s/", t->how->dir);
    put_stem(&name, t->path);
    hl_buf_printf(&name, ".%lld%s", (long long)t->processors.at[k], end_of(t->cli, t->path));
    HlBuf room = take_room(t);
    ok = sim_write_in(&one, graph, name.at, &room);
    put_room(t, room);
  }
  if (ok && t->cli->json) {
    json_open(&t->report[k], NULL, '{');
    sim_describe_graph(&one, graph, &t->report[k]);
    if (name.n > 0)
      json_text(&t->report[k], "written", name.at);
    json_close(&t->report[k], '}');
  } else if (ok && !t->how->dir) {
    sim_describe_graph(&one, graph, &t->report[k]);
  }
  hl_buf_free(&name);
  return ok;
}

static bool check_processors(HlCx *cx, HlI64s all, HlI64s ids) {
  for (int k = 0; k < ids.n; k++)
    if (hl_i64s_find(all, ids.at[k]) < 0)
      return hl_error(cx, (HlPos){0}, "processor %lld takes no part in the graph's communication",
                      (long long)ids.at[k]);
  return true;
}

// A graph that is one processor's already.
static bool translate_own(Cli *cli, HlSimGraph *graph, Translated *t) {
  return hl_sim_translate(cli->cx, graph, t->how->how) && write_one(cli->cx, graph, 0, t);
}

static void print_reports(Cli *cli, Translated *t) {
  if (cli->json)
    json_open(&cli->report, "graphs", '[');
  for (int k = 0; k < t->processors.n; k++) {
    if (cli->json && t->report[k].n > 0) {
      json_key(&cli->report, NULL);
      hl_buf_add(&cli->report, t->report[k].at, t->report[k].n);
    } else if (!cli->json) {
      cli_print(&t->report[k]);
    }
    hl_buf_free(&t->report[k]);
  }
  if (cli->json)
    json_close(&cli->report, ']');
}

static bool translate(Cli *cli, HlSimGraph *graph, const char *path, void *user) {
  const Translate *how = user;
  HlArena *arena = hl_arena_new();
  const int64_t one = hl_sim_graph_processor(graph);  // or -1
  const HlI64s all = one < 0 ? hl_sim_processors(arena, graph) : (HlI64s){&one, 1};
  Translated t = {.cli = cli,
                  .how = how,
                  .path = path,
                  .processors = how->only.n > 0 ? how->only : all,
                  .lock = PTHREAD_MUTEX_INITIALIZER};
  t.report = HL_ARRAY(arena, HlBuf, t.processors.n + 1);
  vec_room(&t.rooms, cpu_usable_threads());
  bool ok = check_processors(cli->cx, all, t.processors);
  ok = ok &&
       (one >= 0 ? translate_own(cli, graph, &t)
                 : hl_sim_each_processor(cli->cx, graph, t.processors, how->how, sim_compat(cli),
                                         cpu_usable_threads(), write_one, &t));
  cli_progress(cli, NULL);
  print_reports(cli, &t);
  for (int k = 0; k < t.rooms.n; k++)
    hl_buf_free(&t.rooms.at[k]);
  vec_free(&t.rooms);
  if (ok && how->dir && !cli->json)
    cli_say(cli, "%s: %d graph%s in %s\n", path, t.processors.n, t.processors.n == 1 ? "" : "s",
            how->dir);
  hl_arena_free(arena);
  return ok;
}

// "0,3,5"; false after a usage message.
static bool read_processors(const Cli *cli, HlArena *arena, HlI64s *out) {
  const char *at = cli_value(cli, "--processors");
  int64_t *ids = at ? HL_ARRAY(arena, int64_t, strlen(at) + 1) : NULL;
  int n = 0;
  while (at && *at) {
    char *end;
    errno = 0;
    ids[n++] = strtoll(at, &end, 10);
    if (end == at || (*end && *end != ',') || errno || ids[n - 1] < 0 || (*end == ',' && !end[1]))
      return cli_usage(cli, "--processors is a list of numbers, as 0,1,2: not '%s'",
                       cli_value(cli, "--processors")) == CLI_OK;
    at = *end ? end + 1 : end;
  }
  *out = (HlI64s){ids, n};
  return true;
}

static bool make_directory(Cli *cli, const char *path) {
  return !path || mkdir(path, 0777) == 0 || errno == EEXIST ||
         hl_error(cli->cx, (HlPos){0}, "cannot make the directory %s: %s", path, strerror(errno));
}

int sim_translate(Cli *cli) {
  const char *form = cli_value(cli, "--form");
  Translate t = {.dir = cli_value(cli, "-o")};
  if (form && strcmp(form, "pb") != 0 && strcmp(form, "textproto") != 0)
    return cli_usage(cli, "unknown --form '%s': pb or textproto", form);
  HlArena *arena = hl_arena_new();
  int status = CLI_USAGE;
  if (read_processors(cli, arena, &t.only)) {
    HlSource *source = hl_read_file(cli->cx, cli_value(cli, "--translate"));
    t.how = source ? hl_sim_translation_read(cli->cx, source, sim_compat(cli)) : NULL;
    hl_source_unref(source);
    status = t.how && make_directory(cli, t.dir) ? each_graph(cli, translate, &t) : cli_flush(cli);
  }
  hl_sim_translation_free(t.how);
  hl_arena_free(arena);
  return status;
}

// --- Alone ----------------------------------------------------------------------------------------------------------

static bool alone(Cli *cli, HlSimGraph *graph, const char *path, void *user) {
  HlSimRunOptions options = *(const HlSimRunOptions *)user;
  const char *to = cli_value(cli, "--log");
  HlBuf log = {0};
  HlSimRun run;
  options.log = to || !cli->json ? &log : NULL;
  bool ok = hl_sim_run_alone(cli->cx, graph, &options, &run);
  if (ok && options.log)
    ok = hl_write_file(cli->cx, to ? to : "-", log.at, log.n);
  hl_buf_free(&log);
  if (!ok)
    return false;
  if (cli->json) {
    sim_describe_graph(cli, graph, &cli->report);
    json_number(&cli->report, "end", run.end);
    json_int(&cli->report, "finished", run.n_finished);
    if (to)
      json_text(&cli->report, "written", to);
  } else {
    cli_say(cli, "processor %lld ends at %.12g s\n", (long long)hl_sim_graph_processor(graph),
            run.end);
  }
  return true;
}

int sim_alone(Cli *cli) {
  HlSimRunOptions options = {.compat = sim_compat(cli),
                             .keep_zeros = cli_flag(cli, "--keep-zeros")};
  const char *branches = cli_value(cli, "--branches");
  double gigabits = 656;
  if (branches && strcmp(branches, "draw") != 0 && strcmp(branches, "worst") != 0)
    return cli_usage(cli, "unknown --branches '%s': draw or worst", branches);
  if (!cli_number(cli, "--start", &options.start) || !cli_number(cli, "--net-gbit", &gigabits) ||
      !cli_integer(cli, "--seed", 0, INT64_MAX, &options.seed.value))
    return CLI_USAGE;
  if (gigabits <= 0)
    return cli_usage(cli, "--net-gbit is a rate, more than 0");
  if (cli->n_files > 1 && cli_flag(cli, "--log"))
    return cli_usage(cli, "--log names one file: expected one graph, not %d", cli->n_files);
  options.seed.given = cli_flag(cli, "--seed");
  options.branches = branches && *branches == 'w' ? HL_SIM_WORST : HL_SIM_DRAW;
  options.net_bytes = gigabits * 1073741824.0 / 8;
  return each_graph(cli, alone, &options);
}
