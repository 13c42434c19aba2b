// hilo stats: what is in a module and what it costs.
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/equations.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/shares.h"
#include "cli/stats_compare.h"
#include "cli/table.h"
#include "hilo/dump_names.h"
#include "tool/stats.h"

// --- Text ---------------------------------------------------------------------------------------

static void add_line(HlBuf *out, const char *label) {
  hl_buf_printf(out, "  %-18s", label);
}

static void add_fusions(HlBuf *out, const Stats *s) {
  add_line(out, "fusions");
  hl_buf_printf(out, "%" PRId64, s->fusions);
  for (int k = 0, n = 0; k < STATS_FUSION_KINDS; k++)
    if (s->fusion_kind[k])
      hl_buf_printf(out, "%s%s %" PRId64, n++ ? ", " : ": ",
                    hl_enum_text(&hl_enums[HL_ENUM_fusion_kind], k), s->fusion_kind[k]);
  if (s->fusions)
    hl_buf_printf(out, "; %" PRId64 " instructions inside", s->fused);
  hl_buf_putc(out, '\n');
}

static void add_collectives(HlBuf *out, const Stats *s) {
  char room[32];
  HlOp ops[HL_OP_COUNT];
  int n = stats_sorted_ops(s->collective, ops);
  add_line(out, "collectives");
  hl_buf_printf(out, "%" PRId64, s->collectives);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "%s%s %" PRId64 " (%s)", k ? ", " : ": ", hl_op_text(ops[k]),
                  s->collective[ops[k]],
                  cli_short_number(s->collective_bytes[ops[k]], true, room, sizeof room));
  if (n)
    hl_buf_printf(out, "; %s sent in a run",
                  cli_short_number(s->cost.collective_bytes, true, room, sizeof room));
  hl_buf_putc(out, '\n');
}

static void add_costs(HlBuf *out, const Stats *s) {
  char a[32], b[32], c[32];
  double bytes = s->cost.bytes_read + s->cost.bytes_written;
  add_line(out, "flops");
  hl_buf_puts(out, cli_short_number(s->cost.flops, false, a, sizeof a));
  if (bytes > 0)
    hl_buf_printf(out, "; %.3g a byte", s->cost.flops / bytes);
  hl_buf_putc(out, '\n');
  add_line(out, "transcendentals");
  hl_buf_printf(out, "%s\n", cli_short_number(s->cost.transcendentals, false, a, sizeof a));
  add_line(out, "bytes");
  hl_buf_printf(out, "%s: %s read, %s written\n", cli_short_number(bytes, true, a, sizeof a),
                cli_short_number(s->cost.bytes_read, true, b, sizeof b),
                cli_short_number(s->cost.bytes_written, true, c, sizeof c));
}

static void add_summary(HlBuf *out, const Stats *s) {
  char room[32];
  add_line(out, "instructions");
  hl_buf_printf(out, "%" PRId64 " in %" PRId64 " computation%s\n", s->instructions, s->computations,
                s->computations == 1 ? "" : "s");
  add_line(out, "parameters");
  hl_buf_printf(out, "%" PRId64 ", %s\n", s->parameters,
                cli_short_number(s->parameter_bytes, true, room, sizeof room));
  add_line(out, "constants");
  hl_buf_printf(out, "%" PRId64 ", %s", s->constants,
                cli_short_number(s->constant_bytes, true, room, sizeof room));
  if (s->largest_constant > 0)
    hl_buf_printf(out, ", the largest %s",
                  cli_short_number(s->largest_constant, true, room, sizeof room));
  if (s->elided)
    hl_buf_printf(out, ", %" PRId64 " elided", s->elided);
  hl_buf_putc(out, '\n');
  add_fusions(out, s);
  add_costs(out, s);
  add_line(out, s->modules > 1 ? "largest peak" : "peak memory");
  hl_buf_printf(out, "%s\n", cli_short_number(s->peak_memory, true, room, sizeof room));
  add_collectives(out, s);
}

// Name, count, share and a bar.
static void add_row(HlBuf *out, const char *name, int64_t count, int64_t most, int64_t all) {
  static const char bar[] = "########################################";
  int length = most > 0 ? (int)(40.0 * (double)count / (double)most + 0.5) : 0;
  hl_buf_printf(out, "  %-28s %8" PRId64 " %5.1f%%", name, count,
                100.0 * (double)count / (double)(all ? all : 1));
  hl_buf_printf(out, "%s%.*s\n", length ? "  " : "", length, bar);
}

static void add_tables(HlBuf *out, const Stats *s) {
  HlOp ops[HL_OP_COUNT];
  int n = stats_sorted_ops(s->op, ops);
  hl_buf_puts(out, "\n  op                              count  share\n");
  for (int k = 0; k < n; k++)
    add_row(out, hl_op_text(ops[k]), s->op[ops[k]], s->op[ops[0]], s->instructions);
  int64_t most = 0, all = 0;
  for (int t = 0; t < HL_DTYPE_COUNT; t++) {
    most = s->dtype[t] > most ? s->dtype[t] : most;
    all += s->dtype[t];
  }
  hl_buf_puts(out, "\n  element type                    count  share\n");
  for (int t = 0; t < HL_DTYPE_COUNT; t++)
    if (s->dtype[t])
      add_row(out, hl_dtype_text((HlDtype)t), s->dtype[t], most, all);
}

static const char *what_it_is(const HlComp *comp) {
  return comp == comp->module->entry ? "entry" : comp->is_fusion ? "fusion" : "";
}

static void add_comps(HlBuf *out, const HlModule *m) {
  HlArena *arena = hl_arena_new();
  HlCost *costs = hl_cost_comps(arena, m);
  HlComp **order = hl_comp_order(arena, m);
  hl_buf_puts(out, "\n  computation                      instructions        flops  transcend.     "
                   "   bytes  collective\n");
  for (uint32_t k = 0; k < m->n_comps; k++) {
    char a[32], b[32], c[32], d[32];
    const HlCost *cost = &costs[order[k]->id];
    hl_buf_printf(out, "  %-32s %12u %12s %11s %12s %11s %s\n", order[k]->name->text,
                  order[k]->n_insts, cli_short_number(cost->flops, false, a, sizeof a),
                  cli_short_number(cost->transcendentals, false, b, sizeof b),
                  cli_short_number(cost->bytes_read + cost->bytes_written, true, c, sizeof c),
                  cli_short_number(cost->collective_bytes, true, d, sizeof d),
                  what_it_is(order[k]));
    while (out->n > 1 && out->at[out->n - 2] == ' ') {  // no blanks before the end of the line
      out->at[out->n - 2] = '\n';
      out->n--;
    }
  }
  hl_arena_free(arena);
}

// --- A row for each module ------------------------------------------------------------------------

static const char *const table_heads[] = {"module",  "stage",  ">instr", ">fusions",
                                          ">flops",  ">bytes", ">peak",  ">params",
                                          ">consts", ">sent",  "file"};

static void begin_table(Table *t) {
  table_begin(t, table_heads, HL_COUNT_OF(table_heads));
}

static void put_numbers(Table *t, const Stats *s) {
  table_text(t, "%" PRId64, s->instructions);
  table_text(t, "%" PRId64, s->fusions);
  table_number(t, s->cost.flops);
  table_bytes(t, s->cost.bytes_read + s->cost.bytes_written);
  table_bytes(t, s->peak_memory);
  table_bytes(t, s->parameter_bytes);
  table_bytes(t, s->constant_bytes);
  table_bytes(t, s->cost.collective_bytes);
}

static void add_table_row(Table *t, const char *path, const char *module, const Stats *s) {
  HlArena *arena = hl_arena_new();
  const HlDumpStage stage = hl_dump_name_read(arena, path).stage;
  hl_arena_free(arena);
  table_row(t);
  table_text(t, "%s", module);
  table_text(t, "%s", stage == HL_STAGE_OTHER ? "" : hl_dump_stage_text(stage));
  put_numbers(t, s);
  table_text(t, "%s", path);
}

static void end_table(Table *t, const Stats *total, HlBuf *out) {
  table_row(t);
  table_text(t, "all %" PRId64 " module%s", total->modules, total->modules == 1 ? "" : "s");
  table_text(t, "%s", "");
  put_numbers(t, total);
  table_print(t, out);
}

// --- The command ------------------------------------------------------------------------------------

typedef struct Report {
  HlBuf text;
  Stats total;
  Table table;
  CliShares shares;
  int unread;  // files, which are in no sum
} Report;

static void report_module(Cli *cli, const char *path, const HlModule *m, bool is_jaxpr, Report *r) {
  Stats s = stats_of_module(cli->cx, m);
  stats_add(&r->total, &s);
  if (cli->json) {
    json_open(&cli->report, NULL, '{');
    json_text(&cli->report, "module", m->name->text);
    stats_json(&cli->report, &s);
    if (cli_flag(cli, "--computations"))
      stats_comps_json(&cli->report, m);
    cli_shares(cli, &r->shares, m, &cli->report);
    if (is_jaxpr)
      cli_equations_json(cli, m, &cli->report);
    json_close(&cli->report, '}');
    return;
  }
  if (cli_flag(cli, "--table")) {
    add_table_row(&r->table, path, m->name->text, &s);
    return;
  }
  hl_buf_printf(&r->text, "%s%s: module %s\n", r->total.modules > 1 ? "\n" : "", path,
                m->name->text);
  add_summary(&r->text, &s);
  if (!cli_flag(cli, "--brief") && !r->shares.costs && !r->shares.peak)
    add_tables(&r->text, &s);
  if (cli_flag(cli, "--computations"))
    add_comps(&r->text, m);
  if (r->shares.peak)
    cli_progress(cli, "assigning buffers of module %s", m->name->text);
  cli_shares(cli, &r->shares, m, &r->text);
  if (is_jaxpr && !cli_flag(cli, "--brief"))
    cli_equations(cli, m, &r->text);
  cli_progress(cli, NULL);
  cli_print(&r->text);
  r->text.n = 0;
}

static int report_file(Cli *cli, CliFiles *files, int which, Report *r) {
  HlFile file;
  bool skipped;
  const HlLoadOptions how = cli_load_options(cli);
  const bool ok = cli_load(cli, files, which, &how, &file, &skipped);
  if (skipped)
    return CLI_OK;
  r->unread += !ok;
  cli_begin_file(cli, files->at[which].at);
  if (cli->json)
    json_open(&cli->report, "modules", '[');
  for (int k = 0; ok && k < file.n; k++)
    report_module(cli, files->at[which].at, file.modules[k], file.format == HL_FORMAT_JAXPR, r);
  if (ok && file.exported && !cli->json && !cli_flag(cli, "--table"))
    hl_exported_print(file.exported, "  ", &r->text);
  if (cli->json)
    json_close(&cli->report, ']');
  if (ok && file.exported && cli->json)
    json_exported(&cli->report, file.exported);
  if (ok)
    hl_file_free(&file);
  return cli_end_file(cli);
}

static void report_unread(const Report *r, HlBuf *out) {
  if (r->unread)
    hl_buf_printf(out, "%d file%s NOT COUNTED: %s not be read\n", r->unread,
                  r->unread == 1 ? "" : "s", r->unread == 1 ? "it could" : "they could");
}

static void report_total(Cli *cli, int skipped, Report *r) {
  if (cli->json) {
    cli_end_report(cli);
    return;
  }
  if (cli_flag(cli, "--table")) {
    end_table(&r->table, &r->total, &r->text);
    if (skipped)
      hl_buf_printf(&r->text, "%d other file%s skipped\n", skipped, skipped == 1 ? "" : "s");
    report_unread(r, &r->text);
    cli_print(&r->text);
  } else if (r->total.modules > 1) {
    hl_buf_printf(&r->text, "\nall %" PRId64 " modules", r->total.modules);
    hl_buf_printf(&r->text, skipped ? "; %d other file%s skipped\n" : "\n", skipped,
                  skipped == 1 ? "" : "s");
    add_summary(&r->text, &r->total);
    add_tables(&r->text, &r->total);
    report_unread(r, &r->text);
    cli_print(&r->text);
  }
}

static int run(Cli *cli) {
  CliFiles files;
  if (cli_flag(cli, "--compare"))
    return cli_stats_compare(cli);
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  Report report = {0};
  if (!cli_shares_read(cli, &report.shares)) {
    cli_shares_free(&report.shares);
    cli_files_free(&files);
    return cli_worse(CLI_USAGE, cli_flush(cli));
  }
  if (cli_flag(cli, "--table"))
    begin_table(&report.table);
  for (int k = 0; k < files.n; k++) {
    if (files.n > 1)
      cli_progress(cli, "reading %d of %d: %s", k + 1, files.n, files.at[k].at);
    else
      cli_progress(cli, "reading %s", files.at[k].at);
    status = cli_worse(status, report_file(cli, &files, k, &report));
  }
  cli_progress(cli, NULL);
  report_total(cli, files.skipped, &report);
  hl_buf_free(&report.text);
  cli_shares_free(&report.shares);
  return cli_worse(status, cli_end_files(cli, &files));
}

static const CliOption options[] = {
    {"--computations", NULL, "a row for each computation as well"},
    {"--table", NULL,
     "one table, a row for each module, the last for all: a whole dump at a glance"},
    {"--brief", NULL, "only the summary of each module, without its tables"},
    {"--compare", NULL, "of two files or directories: the numbers side by side, and what changed"},
    CLI_SHARES_OPTIONS,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_stats = {
    .name = "stats",
    .usage = "FILE... [--by=WHAT] [--peak] [--computations]",
    .summary = "count ops, flops, bytes, memory, collectives",
    .about =
        "Shows for each module: instructions, parameters, constants and their bytes, fusions and "
        "their kinds,\n"
        "flops, transcendentals, bytes read and written, peak memory, collectives and their bytes; "
        "then a table\n"
        "of its ops and one of its element types, and, for several modules, all of it together. A "
        "loop whose\n"
        "number of iterations is known counts that often; of a conditional the costliest branch "
        "counts. "
        "Of a "
        "jaxpr a table\n"
        "follows of its equations beside the instructions that each became.\n"
        "\n"
        "--by tells where the cost is, loops counted as often as they turn: a step is what runs by "
        "itself, with\n"
        "what it calls. Its time is the longer one of computing at the device's peak and of moving "
        "bytes, and the\n"
        "time between two kernels. --peak tells who is alive when memory is fullest, by XLA's "
        "buffer assignment,\n"
        "and what could be donated, aliased or made again. Peak memory of a module with a schedule "
        "is the sum of its\n"
        "allocations; without one, of the values alive at one time.",
    .examples =
        "  hilo stats m.hlo                   what is in it, and what it costs\n"
        "  hilo stats --by=scope m.hlo        which part of the program takes the time\n"
        "  hilo stats --peak m.hlo            who holds its memory, and what would save some\n"
        "  hilo stats --compare a.hlo b.hlo   side by side\n"
        "  hilo stats --table dump/           a row for each module of a dump\n"
        "  hilo stats --brief dump/           every module of a dump, and all together\n",
    .options = options,
    .reports = true,
    .run = run,
};
