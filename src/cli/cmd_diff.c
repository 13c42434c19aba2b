// hilo diff: what differs between two modules.
#include <string.h>

#include "cli/json.h"
#include "cli/load.h"
#include "cli/select.h"
#include "hilo/diff.h"

static int run(Cli *cli) {
  HlFile a, b;
  HlBuf out = {0};
  const HlLoadOptions how = cli_load_options(cli);
  if (cli->n_files != 2)
    return cli_usage(cli, "two files are wanted");
  if (!hl_load(cli->cx, cli->files[0], &how, &a) || !hl_load(cli->cx, cli->files[1], &how, &b))
    return cli_flush(cli);
  HlDiffOptions options = {0};
  double t = hl_now();
  HlDiff *diff = hl_diff(cli->cx, a.modules[0], b.modules[0], &options);
  fprintf(stderr, "%.3f\n", hl_now() - t);
  HlDiffShow show = {.name_a = cli->files[0], .name_b = cli->files[1], .all = cli_flag(cli, "--all")};
  hl_diff_text(diff, &show, &out);
  cli_print(&out);
  return diff->equal ? 0 : 1;
}

static const CliOption options[] = {
    {"--all", NULL, "x"},
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_diff = {
    .name = "diff",
    .usage = "A B",
    .summary = "what differs between two modules",
    .about = "x",
    .options = options,
    .reports = true,
    .run = run,
};
