// hilo targets: the devices that programs can be compiled for, analysed or simulated for.
#include <string.h>

#include "cli/cli.h"
#include "hilo/target.h"

static int list(const Cli *cli) {
  HlBuf out = {0};
  const HlTarget *t;
  hl_buf_puts(&out, cli->json ? "[\n " : "");
  for (int k = 0; (t = hl_target_at(k)); k++) {
    if (!cli->json) {
      hl_buf_printf(&out, "%-10s %s\n", t->name, t->device);
      continue;
    }
    hl_buf_puts(&out, k > 0 ? ",\n " : "");
    hl_target_json(t, &out);
  }
  hl_buf_puts(&out, cli->json ? "\n]\n" : "");
  cli_print(&out);
  hl_buf_free(&out);
  return CLI_OK;
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return list(cli);
  HlArena *arena = hl_arena_new();
  HlBuf out = {0};
  bool ok = true, as_list = cli->json && cli->n_files > 1;
  hl_buf_puts(&out, as_list ? "[\n " : "");
  for (int k = 0; ok && k < cli->n_files; k++) {
    const HlTarget *t = hl_target_load(cli->cx, arena, cli->files[k]);
    ok = t != NULL;
    hl_buf_puts(&out, as_list && k > 0 ? ",\n " : "");
    if (t && cli->json)
      hl_target_json(t, &out);
    else if (t)
      hl_target_print(t, &out);
  }
  hl_buf_puts(&out, as_list ? "\n]\n" : cli->json ? "\n" : "");
  int status = cli_flush(cli);
  if (ok)
    cli_print(&out);
  hl_buf_free(&out);
  hl_arena_free(arena);
  return status;
}

static const CliOption options[] = {{NULL, NULL, NULL}};

const CliCommand cli_targets = {
    .name = "targets",
    .usage = "[NAME|FILE...]",
    .summary = "list devices, or show what is known of one",
    .about = "Without a name it lists the devices Hilo knows; 'native' is the CPU it runs on. A "
             "file is what XLA writes "
             "of a GPU beside\n"
             "its dumps: gpu_target_config.pbtxt. 'hilo docs targets' explains the facts.",
    .examples = "  hilo targets                       the devices\n"
                "  hilo targets h100                  what is known of one\n",
    .options = options,
    .reports = true,
    .run = run,
};
