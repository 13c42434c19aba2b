// hilo history: the states a module went through, from a dump that keeps what changed.
#include <string.h>

#include "cli/json.h"
#include "hilo/dump.h"

static void steps_json(const HlHistory *history, HlBuf *out) {
  json_open(out, "steps", '[');
  for (int k = 0; k < hl_history_steps(history); k++) {
    int gone, come;
    const char *name = hl_history_name(history, k, &gone, &come);
    json_open(out, NULL, '{');
    json_int(out, "step", k);
    json_int(out, "gone", gone);
    json_int(out, "come", come);
    json_text(out, "name", name);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void list_steps(const HlHistory *history, HlBuf *out) {
  for (int k = 0; k < hl_history_steps(history); k++) {
    int gone, come;
    const char *name = hl_history_name(history, k, &gone, &come);
    hl_buf_printf(out, "%4d  -%-6d +%-6d %s\n", k, gone, come, name);
  }
}

// The steps, or the module after one: as text, or as JSON without it where it goes to a file.
static void show(Cli *cli, const HlHistory *history, int step, HlBuf *out) {
  const char *path = cli_value(cli, "-o");
  if (step >= hl_history_steps(history)) {
    hl_error(cli->cx, (HlPos){0}, "the history has %d steps, from 0", hl_history_steps(history));
    return;
  }
  if (cli->json && step < 0)
    steps_json(history, &cli->report);
  else if (step < 0)
    list_steps(history, out);
  else
    hl_history_state(history, step, out);
  if (cli->json && step >= 0 && !path)
    json_bytes(&cli->report, "text", out->at, out->n);
  else if (out->n > 0)
    hl_write_file(cli->cx, path ? path : "-", out->at, out->n);
}

static int run(Cli *cli) {
  if (cli->n_files != 1)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "more than one file given");
  int64_t step = -1;
  if (!cli_integer(cli, "--step", 0, INT32_MAX, &step))
    return CLI_USAGE;
  cli_begin_file(cli, cli->files[0]);
  HlHistory *history = hl_history_read(cli->cx, cli->files[0]);
  HlBuf out = {0};
  if (history)
    show(cli, history, (int)step, &out);
  hl_buf_free(&out);
  hl_history_free(history);
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  return status;
}

static const CliOption options[] = {
    {"--step", "N", "print the module as it was after this step"},
    {"-o", "OUT", "where to write (default: standard output)"},
    {NULL, NULL, NULL},
};

const CliCommand cli_history = {
    .name = "history",
    .usage = "FILE.history [--step=N] [-o OUT]",
    .summary = "list or print the states between passes",
    .about =
        "Reads what 'hilo opt --dump-as=delta' wrote: lists the steps with how many lines went "
        "and came, or prints\n"
        "the whole module after one of them.",
    .examples = "  hilo history d/m.history           the steps\n"
                "  hilo history d/m.history --step=3  the module after one\n",
    .options = options,
    .reports = true,
    .run = run,
};
