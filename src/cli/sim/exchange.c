// cli/sim/exchange.c: the systems there are, and how long one exchange takes on one.
#include <string.h>

#include "cli/json.h"
#include "cli/sim/cluster.h"
#include "cli/table.h"

// --- Systems --------------------------------------------------------------------------------------------------

static void system_row(const Cli *cli, Table *t, HlBuf *json, const HlSystem *s) {
  if (cli->json) {
    json_begin_row(json, "sim_systems");
    json_text(json, "system", s->name);
    json_text(json, "about", s->about);
    json_text(json, "device", s->device->name);
    json_int(json, "devices", hl_system_devices(s));
    json_end_row(json);
    return;
  }
  table_row(t);
  table_text(t, "%s", s->name);
  table_text(t, "%lld", (long long)hl_system_devices(s));
  table_text(t, "%s", s->device->name);
  table_text(t, "%s", s->about);
}

int sim_list_systems(Cli *cli) {
  static const char *const heads[] = {"system", ">devices", "device", "what it is"};
  HlArena *arena = hl_arena_new();
  HlBuf out = {0};
  Table t;
  if (cli->n_files > 0) {
    hl_arena_free(arena);
    return cli_usage(cli, "--list-systems takes no files");
  }
  table_begin(&t, heads, 4);
  const char *name;
  for (int k = 0; (name = hl_system_name_at(k)); k++) {
    const HlSystem *s = hl_system_find(cli->cx, arena, name);
    if (s)
      system_row(cli, &t, &out, s);
  }
  HlBuf text = {0};
  table_print(&t, &text);
  if (!cli->json)
    hl_buf_add(&out, text.at, text.n);
  hl_buf_free(&text);
  hl_arena_free(arena);
  return cli_worse(json_print_table(cli, &out), cli_flush(cli));
}

// --- Exchanges --------------------------------------------------------------------------------------------------

typedef struct Row {
  HlExchangeTime formula, messages, simgrid;
  bool by_messages, by_simgrid;
} Row;

static void row_text(Table *t, HlArena *arena, const HlExchange *what, HlExchangeHow how,
                     const Row *row) {
  const HlExchangeTime *f = &row->formula;
  table_row(t);
  table_text(t, "%s", hl_how_text(how));
  table_text(t, "%s", sim_seconds(arena, f->seconds));
  table_text(t, "%s", f->by_rounds ? "solved" : "formula");
  table_text(t, "%s", row->by_messages ? sim_seconds(arena, row->messages.seconds) : "");
  if (row->by_simgrid)
    table_text(t, "%s", sim_seconds(arena, row->simgrid.seconds));
  table_text(t, "%lld", (long long)f->rounds);
  table_text(t, "%lld", (long long)(row->by_messages ? row->messages.messages : f->messages));
  table_bytes(t, f->sent);
  table_bytes(t, f->seconds > 0 ? what->bytes / f->seconds : 0);
}

static void row_json(HlBuf *out, HlExchangeHow how, const Row *row) {
  const HlExchangeTime *f = &row->formula;
  json_open(out, NULL, '{');
  json_text(out, "how", hl_how_text(how));
  json_number(out, "seconds", f->seconds);
  json_text(out, "by", f->by_rounds ? "solved" : "formula");
  if (row->by_messages)
    json_number(out, "message_seconds", row->messages.seconds);
  if (row->by_simgrid)
    json_number(out, "simgrid_seconds", row->simgrid.seconds);
  json_int(out, "rounds", f->rounds);
  json_int(out, "messages", row->by_messages ? row->messages.messages : f->messages);
  json_number(out, "sent_bytes", f->sent);
  json_close(out, '}');
}

static bool followed(Cli *cli, const HlSystem *s, const HlExchange *what, HlNetModel model,
                     HlExchangeTime *out) {
  cli_progress(cli, "%s by %s, message by message%s", hl_exchange_text(what->kind),
               hl_how_text(what->how), model == HL_NET_SIMGRID ? ", by SimGrid" : "");
  const bool ok = hl_exchange_by(cli->cx, s, what, model, out);
  cli_progress(cli, NULL);
  return ok;
}

// One algorithm; false: it does not fit, which is no error unless it was asked for, or it failed.
static bool time_one(Cli *cli, const HlSystem *s, const HlExchange *what, HlNetModel net, Row *row,
                     bool *fits) {
  *row = (Row){.by_messages = cli_flag(cli, "--messages") || net == HL_NET_MESSAGES,
               .by_simgrid = net == HL_NET_SIMGRID};
  *fits = hl_exchange_time(cli->cx, s, what, &row->formula);
  return *fits &&
         (!row->by_messages || followed(cli, s, what, HL_NET_MESSAGES, &row->messages)) &&
         (!row->by_simgrid || followed(cli, s, what, HL_NET_SIMGRID, &row->simgrid));
}

static void time_all(Cli *cli, HlArena *arena, const HlSystem *s, HlExchange what, HlNetModel net,
                     Table *t) {
  const HlExchangeHow only = what.how;
  for (int how = HL_HOW_RING; how < HL_HOWS; how++) {
    Row row;
    bool fits;
    const int before = hl_cx_n_diags(cli->cx);
    if ((only && how != (int)only) || !hl_how_does((HlExchangeHow)how, what.kind))
      continue;
    what.how = (HlExchangeHow)how;
    if (!time_one(cli, s, &what, net, &row, &fits)) {
      if (only || fits || hl_cx_error_kind(cli->cx) != HL_UNSUPPORTED)
        return;
      hl_cx_forget(cli->cx, before);
      continue;
    }
    if (cli->json)
      row_json(&cli->report, what.how, &row);
    else
      row_text(t, arena, &what, what.how, &row);
  }
}

static bool read_kind(const Cli *cli, HlExchangeKind *kind) {
  const char *text = cli_value(cli, "--exchange");
  for (int k = 0; k < HL_EXCHANGE_KINDS; k++)
    if (strcmp(hl_exchange_text((HlExchangeKind)k), text) == 0 && k != HL_PERMUTE) {
      *kind = (HlExchangeKind)k;
      return true;
    }
  return cli_usage(cli,
                   "--exchange: no exchange '%s': all-reduce, all-gather, reduce-scatter, "
                   "all-to-all, broadcast, reduce, gather, "
                   "scatter or barrier",
                   text) == CLI_OK;
}

int sim_exchange_times(Cli *cli) {
  static const char *const heads[] = {"algorithm", ">time",     "by",           ">by message",
                                      ">rounds",   ">messages", ">sent by one", ">bytes/s"},
                    *const more[] = {"algorithm", ">time",     "by",           ">by message",
                                     ">by SimGrid", ">rounds", ">messages",    ">sent by one",
                                     ">bytes/s"};
  SimCluster c;
  HlExchange what = {.bytes = 1 << 20};
  const char *bytes = cli_value(cli, "--bytes");
  int status = sim_cluster_options(cli, &c);
  if (status == CLI_OK && cli->n_files > 0)
    status = cli_usage(cli, "--exchange takes no files");
  if (status == CLI_OK && !read_kind(cli, &what.kind))
    status = CLI_USAGE;
  if (status == CLI_OK && bytes && (!hl_quantity(bytes, "B", &what.bytes) || what.bytes > 0x1p62))
    status = cli_usage(cli, "--bytes: expected a size, as 64MiB, not '%s'", bytes);
  if (status != CLI_OK) {
    sim_cluster_free(&c);
    return status;
  }
  HlBuf out = {0};
  Table t;
  what.how = c.options.how[what.kind];
  what.n = c.devices > 0 ? c.devices : hl_system_devices(c.system);
  if (cli->json)
    json_begin_row(&cli->report, "sim_exchange");
  const HlSystem *s = sim_system_for(cli, c.arena, c.system, what.n);
  if (c.options.net == HL_NET_SIMGRID)
    table_begin(&t, more, HL_COUNT_OF(more));
  else
    table_begin(&t, heads, HL_COUNT_OF(heads));
  if (s && cli->json) {
    json_text(&cli->report, "exchange", hl_exchange_text(what.kind));
    json_text(&cli->report, "system", s->name);
    json_int(&cli->report, "devices", what.n);
    json_number(&cli->report, "bytes", what.bytes);
    json_open(&cli->report, "algorithms", '[');
  }
  if (s)
    time_all(cli, c.arena, s, what, c.options.net, &t);
  if (s && cli->json)
    json_close(&cli->report, ']');
  table_print(&t, &out);
  status = cli_end_file(cli);
  if (!cli->json && status == CLI_OK)
    cli_print(&out);
  cli_end_report(cli);
  hl_buf_free(&out);
  sim_cluster_free(&c);
  return status;
}
