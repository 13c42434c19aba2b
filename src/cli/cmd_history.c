// hilo history: the states a module went through, from a dump that keeps what changed.
#include <string.h>

#include "cli/cli.h"
#include "hilo/dump.h"

static void list_steps(const Cli *cli, const HlHistory *history, HlBuf *out) {
  hl_buf_puts(out, cli->json ? "[\n" : "");
  for (int k = 0; k < hl_history_steps(history); k++) {
    int gone, come;
    const char *name = hl_history_name(history, k, &gone, &come);
    if (!cli->json) {
      hl_buf_printf(out, "%4d  -%-6d +%-6d %s\n", k, gone, come, name);
      continue;
    }
    hl_buf_printf(out, "%s {\"step\":%d,\"gone\":%d,\"come\":%d,\"name\":", k > 0 ? ",\n" : "", k,
                  gone, come);
    hl_buf_json_string(out, name, strlen(name));
    hl_buf_putc(out, '}');
  }
  hl_buf_puts(out, cli->json ? "\n]\n" : "");
}

static int run(Cli *cli) {
  if (cli->n_files != 1)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "more than one file given");
  int64_t step = -1;
  if (!cli_integer(cli, "--step", 0, INT32_MAX, &step))
    return CLI_USAGE;
  HlHistory *history = hl_history_read(cli->cx, cli->files[0]);
  if (!history)
    return cli_flush(cli);
  HlBuf out = {0};
  if (step >= hl_history_steps(history))
    hl_error(cli->cx, (HlPos){0}, "the history has %d steps, from 0", hl_history_steps(history));
  else if (step >= 0)
    hl_history_state(history, (int)step, &out);
  else
    list_steps(cli, history, &out);
  const char *path = cli_value(cli, "-o");
  if (hl_cx_n_errors(cli->cx) == 0)
    hl_write_file(cli->cx, path ? path : "-", out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  hl_history_free(history);
  return cli_flush(cli);
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
