// hilo replay: plays recorded games again, and compares every step.
#include "cli/json.h"
#include "cli/load.h"
#include "cli/rewrite/rewrite.h"
#include "cli/select.h"

static void report_json(HlBuf *out, const HlPlayed *p) {
  json_bool(out, "same", p->same);
  json_int(out, "moves", p->moves);
  json_int(out, "of", p->of);
  json_bool(out, "measured", p->measured);
  if (!p->same) {
    json_int(out, "differs", p->differs);
    json_text(out, "what", p->what);
  }
  if (p->is_validated) {
    json_bool(out, "equal_results", p->validated.equal);
    json_int(out, "silent", p->validated.silent);
  }
}

static const char *what_of(const HlPlayed *p) {
  switch (*p->what) {
  case 'm': return "the module is another one than the game was played with";
  case 'h': return "another state comes out of it";
  case 'a': return "another number of rewrites happened";
  case 'r': return "the reward is another one";
  default: return "what was chosen is no choice now";
  }
}

static void report(Cli *cli, const HlPlayed *p, HlBuf *out) {
  if (cli->json)
    report_json(&cli->report, p);
  if (!p->same) {
    if (p->differs < 0)
      hl_error_kind(cli->cx, HL_DIFFERS, (HlPos){0}, "%s", what_of(p));
    else
      hl_error_kind(cli->cx, HL_DIFFERS, (HlPos){0}, "step %d of %d: %s", p->differs + 1, p->of,
                    what_of(p));
    return;
  }
  if (p->is_validated && !p->validated.equal) {
    hl_error_kind(cli->cx, HL_DIFFERS, (HlPos){0}, "result r%d of the last state differs",
                  p->validated.leaf);
    return;
  }
  if (cli->json || cli->quiet)
    return;
  hl_buf_printf(out, "%d steps: the same states%s%s", p->moves,
                p->measured ? " (rewards were measured: not compared)" : " and rewards",
                p->is_validated ? ", the same results" : "");
  if (p->is_validated)
    rewrite_put_silent(&p->validated, out);
  hl_buf_putc(out, '\n');
}

static void replay_file(Cli *cli, const char *path, const HlModule *m, HlBuf *out) {
  HlPlayed played;
  const HlPlayOptions options = {.module = m, .validate = cli_flag(cli, "--validate")};
  if (hl_trajectory_verify(cli->cx, path, &options, &played)) {
    report(cli, &played, out);
    const char *to = cli_value(cli, "-o");
    if (to && played.env) {
      HlBuf text = {0};
      hl_text_print(cli->cx, hl_env_module(played.env),
                    &(HlTextOptions){.large_constants = HL_ON}, &text);
      hl_write_file(cli->cx, to, text.at, text.n);
      hl_buf_free(&text);
    }
  }
  hl_played_free(&played);
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  if (cli->n_files > 1 && cli_value(cli, "-o"))
    return cli_usage(cli, "-o is of one file");
  const char *program = cli_value(cli, "--program");
  HlFile file = {0};
  const HlModule *m = NULL;
  if (program) {
    if (!hl_load(cli->cx, program, NULL, &file))
      return cli_flush(cli);
    m = cli_select(cli, &file, program);
    if (!m) {
      hl_file_free(&file);
      return CLI_USAGE;
    }
  }
  int status = CLI_OK;
  for (int k = 0; k < cli->n_files; k++) {
    HlBuf out = {0};
    cli_begin_file(cli, cli->files[k]);
    replay_file(cli, cli->files[k], m, &out);
    cli_print(&out);
    hl_buf_free(&out);
    status = cli_worse(status, cli_end_file(cli));
  }
  cli_end_report(cli);
  hl_file_free(&file);
  return status;
}

static const CliOption options[] = {
    {"--program", "FILE", "the module, instead of the file that the game names"},
    {"--validate", NULL, "compare the results of the first and the last state, by the interpreter"},
    {"-o", "OUT", "write the last state"},
    CLI_MODULE_OPTION,
    {NULL, NULL, NULL},
};

const CliCommand cli_replay = {
    .name = "replay",
    .usage = "GAME.json... [--program=FILE] [-o OUT]",
    .summary = "play recorded games of 'hilo rewrite' again, and compare",
    .about = "Makes the choices that a file of 'hilo rewrite --record' or of hilo.env holds, and compares the hash of the module,\n"
             "and after each step the hash, how many rewrites happened and the reward. Exit status 1: something differs.",
    .examples = "  hilo rewrite m.hlo --policy=greedy --record=game.json\n"
                "  hilo replay game.json\n",
    .options = options,
    .reports = true,
    .run = run,
};
