// cli/sim/graphs.c: graphs from files and to files, and what they amount to in words.
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/put.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/sim/sim.h"
#include "cli/table.h"

HlSimCompat sim_compat(const Cli *cli) {
  return cli_flag(cli, "--compat") ? HL_SIM_PARAGRAPH : HL_SIM_OWN;
}

// --- Options of the bridge ----------------------------------------------------------------------------------------

static bool rate(const Cli *cli, const char *name, double unit, HlMaybeFloat *out) {
  double value;
  if (!cli_flag(cli, name))
    return true;
  if (!cli_number(cli, name, &value))
    return false;
  *out = (HlMaybeFloat){true, value * unit};
  return value > 0 || cli_usage(cli, "%s is a rate, more than 0", name) == CLI_OK;
}

static int read_profile(Cli *cli, SimInput *out) {
  const char *path = cli_value(cli, "--profile");
  HlSource *source = path ? hl_read_file(cli->cx, path) : NULL;
  if (source)
    out->profile = hl_sim_profile_read(cli->cx, source, out->bridge.replicas, out->bridge.compat);
  hl_source_unref(source);
  out->bridge.profile = out->profile;
  return !path || out->profile ? CLI_OK : cli_flush(cli);
}

int sim_input(Cli *cli, SimInput *out) {
  *out = (SimInput){.bridge.compat = sim_compat(cli)};
  HlSimBridge *b = &out->bridge;
  if (!rate(cli, "--tflops", 1e12, &b->flops) || !rate(cli, "--ttrps", 1e12, &b->transcendentals) ||
      !rate(cli, "--gibps", 1073741824.0, &b->bytes) ||
      !cli_integer(cli, "--replicas", 1, INT32_MAX, &b->replicas) ||
      !cli_integer(cli, "--trips", 1, INT64_MAX, &b->trips) ||
      !cli_integer(cli, "--extend", 1, 1 << 24, &out->extend))
    return CLI_USAGE;
  b->profile_time = cli_flag(cli, "--no-profile-time") ? HL_OFF : HL_USUAL;
  b->profile_only = cli_flag(cli, "--no-profile-only") ? HL_OFF : HL_USUAL;
  b->profile_loops = cli_flag(cli, "--no-profile-loops") ? HL_OFF : HL_USUAL;
  return read_profile(cli, out);
}

void sim_input_free(SimInput *input) {
  hl_sim_profile_free(input->profile);
  *input = (SimInput){0};
}

// --- Reading ------------------------------------------------------------------------------------------------------

static HlSimGraph *bridge_file(Cli *cli, CliFiles *files, int k, HlSource *source,
                               const SimInput *input, bool *skipped) {
  const HlLoadOptions how = cli_load_options(cli);
  HlSimGraph *graph = NULL;
  HlFile file;
  // Standard input is read once.
  if (strcmp(files->at[k].at, "-") == 0 ? !hl_load_source(cli->cx, source, &how, &file)
                                        : !cli_load(cli, files, k, &how, &file, skipped))
    return NULL;
  if (file.n == 1)
    graph = hl_sim_bridge(cli->cx, file.modules[0], &input->bridge);
  else
    hl_error(cli->cx, (HlPos){0}, "the file holds %d programs: --entry says which", file.n);
  hl_file_free(&file);
  return graph;
}

static bool change(Cli *cli, HlSimGraph *graph, const SimInput *input) {
  return (input->extend == 0 || hl_sim_extend(cli->cx, graph, input->extend)) &&
         (!cli_flag(cli, "--trim") || hl_sim_trim(cli->cx, graph, sim_compat(cli))) &&
         (!cli_flag(cli, "--enforce-postorder") || hl_sim_enforce_post_order(cli->cx, graph));
}

HlSimGraph *sim_load(Cli *cli, CliFiles *files, int k, const SimInput *input, bool *skipped) {
  HlSimGraph *graph = NULL;
  *skipped = false;
  HlSource *source = hl_read_file(cli->cx, files->at[k].at);
  if (!source)
    return NULL;
  if (hl_sim_is_graph(hl_source_bytes(source))) {
    files->modules[files->at[k].operand]++;
    graph = hl_sim_read(cli->cx, source, HL_SIM_FORM_NONE, false);
  } else {
    graph = bridge_file(cli, files, k, source, input, skipped);
  }
  hl_source_unref(source);
  if (graph && !change(cli, graph, input)) {
    hl_sim_graph_free(graph);
    return NULL;
  }
  return graph;
}

// --- Writing ------------------------------------------------------------------------------------------------------

bool sim_write(Cli *cli, const HlSimGraph *graph, const char *path) {
  HlBuf room = {0};
  const bool ok = sim_write_in(cli, graph, path, &room);
  hl_buf_free(&room);
  return ok;
}

bool sim_write_in(Cli *cli, const HlSimGraph *graph, const char *path, HlBuf *room) {
  const HlSimForm form = strcmp(path, "-") == 0 ? HL_SIM_TEXT : hl_sim_form_of(path);
  if (form == HL_SIM_FORM_NONE)
    return hl_error(cli->cx, (HlPos){0}, "%s: a graph is written as .pb or .textproto", path);
  if (form == HL_SIM_BINARY) {
    const HlStr bytes = hl_sim_write_in(graph, room);
    return hl_write_file(cli->cx, path, bytes.at, bytes.n);
  }
  room->n = 0;
  hl_sim_write(graph, form, room);
  return hl_write_file(cli->cx, path, room->at ? room->at : "", room->n);
}

// --- Describing -----------------------------------------------------------------------------------------------------

// All its digits.
static void exact(HlBuf *out, const char *key, double value) {
  json_key(out, key);
  put_f64(out, value);
  put_end(out);
}

static void describe_json(const HlSimGraph *graph, const HlSimTotals *totals, HlI64s processors,
                          HlBuf *out) {
  const HlStr name = hl_sim_graph_name(graph);
  json_bytes(out, "graph", name.at, name.n);
  json_int(out, "processor", hl_sim_graph_processor(graph));
  json_int(out, "instructions", totals->nodes);
  json_int(out, "subroutines", totals->subs);
  json_int(out, "processors", processors.n);
  exact(out, "ops", totals->cost.ops);
  exact(out, "transcendentals", totals->cost.transcendentals);
  exact(out, "bytes_in", totals->cost.bytes_in);
  exact(out, "bytes_out", totals->cost.bytes_out);
  exact(out, "seconds", totals->cost.seconds);
  json_open(out, "opcodes", '[');
  for (int op = 0; op < HL_SIM_OP_COUNT; op++) {
    if (totals->runs[op] == 0)
      continue;
    json_open(out, NULL, '{');
    json_text(out, "opcode", hl_sim_op_text((HlSimOp)op));
    exact(out, "runs", totals->runs[op]);
    exact(out, "bytes", totals->bytes[op]);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void describe_text(const HlSimGraph *graph, const HlSimTotals *totals, HlI64s processors,
                          HlBuf *out) {
  static const char *const heads[] = {"opcode", ">runs", ">bytes"};
  const HlStr name = hl_sim_graph_name(graph);
  const int64_t processor = hl_sim_graph_processor(graph);
  char room[3][32];
  Table t;
  hl_buf_printf(out, "graph %.*s: ", (int)name.n, name.at);
  if (processor < 0)
    hl_buf_printf(out, "composite, %d processor%s", processors.n, processors.n == 1 ? "" : "s");
  else
    hl_buf_printf(out, "of processor %lld", (long long)processor);
  hl_buf_printf(out, ", %lld instruction%s in %lld subroutine%s\n", (long long)totals->nodes,
                totals->nodes == 1 ? "" : "s", (long long)totals->subs,
                totals->subs == 1 ? "" : "s");
  hl_buf_printf(out, "work: %s operations, %s read, %s written, %.6g s\n",
                cli_short_number(totals->cost.ops + totals->cost.transcendentals, false, room[0],
                                 sizeof room[0]),
                cli_short_number(totals->cost.bytes_in, true, room[1], sizeof room[1]),
                cli_short_number(totals->cost.bytes_out, true, room[2], sizeof room[2]),
                totals->cost.seconds);
  table_begin(&t, heads, HL_COUNT_OF(heads));
  for (int op = 0; op < HL_SIM_OP_COUNT; op++)
    if (totals->runs[op] > 0) {
      table_row(&t);
      table_text(&t, "%s", hl_sim_op_text((HlSimOp)op));
      table_text(&t, "%.17g", totals->runs[op]);
      if (totals->bytes[op] > 0)
        table_bytes(&t, totals->bytes[op]);
    }
  table_print(&t, out);
}

void sim_describe_graph(const Cli *cli, const HlSimGraph *graph, HlBuf *out) {
  const HlSimTotals totals = hl_sim_totals(graph);
  HlArena *arena = hl_arena_new();
  const HlI64s processors = hl_sim_processors(arena, graph);
  if (cli->json)
    describe_json(graph, &totals, processors, out);
  else
    describe_text(graph, &totals, processors, out);
  hl_arena_free(arena);
}
