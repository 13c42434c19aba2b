// hilo targets: the devices that programs can be compiled for, analysed or simulated for.
#include <string.h>

#include "cli/json.h"
#include "hilo/target.h"

// The facts of a target, behind what every report starts with.
static void target_json(const HlTarget *t, HlBuf *out) {
  HlBuf facts = {0};
  hl_target_json(t, &facts);
  json_begin_row(out, "targets");
  json_key(out, NULL);
  hl_buf_add(out, facts.at + 1, facts.n - 1);  // its own brace
  hl_buf_free(&facts);
}

static int list(const Cli *cli) {
  HlBuf out = {0};
  const HlTarget *t;
  for (int k = 0; (t = hl_target_at(k)); k++)
    if (cli->json)
      target_json(t, &out);
    else
      hl_buf_printf(&out, "%-10s %s\n", t->name, t->device);
  return json_print_table(cli, &out);
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return list(cli);
  HlArena *arena = hl_arena_new();
  HlBuf out = {0};
  bool ok = true;
  for (int k = 0; ok && k < cli->n_files; k++) {
    const HlTarget *t = hl_target_load(cli->cx, arena, cli->files[k]);
    ok = t != NULL;
    if (t && cli->json)
      target_json(t, &out);
    else if (t)
      hl_target_print(t, &out);
  }
  int status = cli_flush(cli);
  if (ok)
    json_print_table(cli, &out);
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
