// hilo view: draws modules.
#include <string.h>

#include "cli/cli.h"
#include "cli/load.h"
#include "cli/select.h"
#include "hilo/view.h"

static int run(Cli *cli) {
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  if (hl_load(cli->cx, cli->files[0], &how, &file)) {
    HlBuf out = {0};
    hl_map_print(file.modules[0], &out);
    cli_print(&out);
    hl_file_free(&file);
  }
  return cli_flush(cli);
}

static const CliOption options[] = {CLI_LOAD_OPTIONS, CLI_MODULE_OPTION, {NULL, NULL, NULL}};
const CliCommand cli_view = {.name = "view", .usage = "FILE", .summary = "draw", .about = "draw", .examples = "", .options = options, .run = run};
