// hilo rewrite: what passes could rewrite, chosen one by one: by a player, by hand, or all equalities at once.
#include <string.h>

#include "base/number.h"
#include "cli/form.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/rewrite/rewrite.h"
#include "cli/select.h"

static const RewriteMode modes[] = {
    {"--choices", rewrite_list},
    {"--decide", rewrite_choose},
    {"--saturate", rewrite_saturate},
    {"--policy", rewrite_by_policy},  // the last: also where none is asked for
};

// --- Tables -----------------------------------------------------------------------------------------

static void list_row(const Cli *cli, HlBuf *out, const char *name, const char *meaning) {
  if (!cli->json) {
    hl_buf_printf(out, "%-14s %s\n", name, meaning);
    return;
  }
  json_begin_row(out, "rewrite_list");
  json_text(out, "name", name);
  json_text(out, "meaning", meaning);
  json_end_row(out);
}

static int list_envs(const Cli *cli) {
  HlBuf out = {0};
  for (int k = 0; hl_env_spec_at(k); k++)
    list_row(cli, &out, hl_env_spec_at(k)->name, hl_env_spec_at(k)->meaning);
  return json_print_table(cli, &out);
}

static int list_policies(const Cli *cli) {
  HlBuf out = {0};
  for (int k = 0; hl_policy_at(k); k++)
    list_row(cli, &out, hl_policy_at(k)->name, hl_policy_at(k)->meaning);
  return json_print_table(cli, &out);
}

static int list_laws(const Cli *cli) {
  HlBuf out = {0};
  int n;
  const HlEgraphRule *rules = hl_egraph_rules(&n);
  for (int k = 0; k < n; k++) {
    char meaning[256];
    base_snprintf(meaning, sizeof meaning, "%s%s%s%s", rules[k].rule.law,
                  *rules[k].rule.when ? "; " : "", rules[k].rule.when,
                  rules[k].exact ? "" : "; rounds otherwise");
    list_row(cli, &out, rules[k].rule.name, meaning);
  }
  return json_print_table(cli, &out);
}

// --- The command ------------------------------------------------------------------------------------

static bool read_plan(Cli *cli, Rewrite *plan) {
  int64_t tries = 0, width = 0;
  if (!rewrite_read_setting(cli, plan) || !cli_integer(cli, "--tries", 1, INT64_MAX, &tries) ||
      !cli_integer(cli, "--width", 1, 4096, &width) ||
      !rewrite_read_saturation(cli, &plan->saturation))
    return false;
  plan->policy.tries = tries;
  plan->policy.width = (int)width;
  return true;
}

static const RewriteMode *mode_of(const Cli *cli) {
  const int last = HL_COUNT_OF(modes) - 1;
  for (int k = 0; k < last; k++)
    if (cli_flag(cli, modes[k].option))
      return &modes[k];
  return &modes[last];
}

static bool write_result(Cli *cli, const HlModule *result) {
  const char *path = cli_value(cli, "-o");
  const Form *form;
  HlBuf out = {0};
  if (!path || !result)
    return true;
  const HlTextOptions text = {.large_constants = HL_ON};
  bool ok = cli_find_form(cli, form_at(0), &form) &&
            cli_write_module(cli, form, result, NULL, &text, &out) &&
            hl_write_file(cli->cx, path, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static void rewrite_module(Cli *cli, Rewrite *plan, HlModule *m, HlBuf *out) {
  HlModule *result = NULL;
  HlBuf report = {0};
  if (cli->json) {
    json_text(&cli->report, "module", m->name->text);
    json_text(&cli->report, "mode", mode_of(cli)->option + 2);
  }
  if (mode_of(cli)->run(cli, plan, m, &result, &report)) {
    if (!cli->json)
      hl_buf_printf(out, "module %s\n%s", m->name->text, report.at ? report.at : "");
    write_result(cli, result);
  }
  hl_buf_free(&report);
  hl_module_free(result);
}

// The exit status; -1: it was found in a directory and is no module.
static int run_file(Cli *cli, Rewrite *plan, CliFiles *files, int k) {
  const HlLoadOptions how = cli_load_options(cli);
  HlFile file = {0};
  HlBuf out = {0};
  bool skipped = false;
  plan->path = files->at[k].at;
  const bool loaded = cli_load(cli, files, k, &how, &file, &skipped);
  if (skipped)
    return -1;
  cli_begin_file(cli, plan->path);
  HlModule *m = loaded ? cli_select(cli, &file, plan->path) : NULL;
  if (m)
    rewrite_module(cli, plan, m, &out);
  const int status = loaded && !m ? CLI_USAGE : CLI_OK;
  cli_print(&out);
  hl_buf_free(&out);
  hl_file_free(&file);
  return cli_worse(status, cli_end_file(cli));
}

static int run_files(Cli *cli, Rewrite *plan) {
  CliFiles files;
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  if (files.n > 1 && (cli_value(cli, "-o") || cli_value(cli, "--record"))) {
    cli_files_free(&files);
    return cli_usage(cli, "-o and --record are of one file");
  }
  for (int k = 0; k < files.n; k++) {
    const int one = run_file(cli, plan, &files, k);
    status = one < 0 ? status : cli_worse(status, one);
  }
  cli_end_report(cli);
  return cli_worse(status, cli_end_files(cli, &files));
}

static int run(Cli *cli) {
  if (cli_flag(cli, "--list-envs"))
    return list_envs(cli);
  if (cli_flag(cli, "--list-policies"))
    return list_policies(cli);
  if (cli_flag(cli, "--list-laws"))
    return list_laws(cli);
  Rewrite plan = {.arena = hl_arena_new()};
  const int status = read_plan(cli, &plan) ? run_files(cli, &plan)
                           : hl_cx_n_errors(cli->cx) > 0 ? cli_flush(cli)
                                                         : CLI_USAGE;
  hl_rules_free(plan.rules);
  hl_arena_free(plan.arena);
  return status;
}

static const CliOption options[] = {
    {"--policy", "LIST", "players, one after the other (--list-policies; default: greedy)"},
    {"--choices", NULL, "list what could be rewritten, with numbers; rewrite nothing"},
    {"--decide", "LIST",
     "make these choices, by number: 0,3;1 are 0 and 3, and in the state that follows 1"},
    {"--saturate", NULL,
     "all that the program could equally be, and the best of it (docs/egraph.md)"},
    REWRITE_SATURATE_OPTIONS,
    REWRITE_ENV_OPTIONS,
    {"--tries", "N", "states that a player may look at"},
    {"--width", "N", "of beam: states at a time"},
    {"--last", "LIST", "passes over what comes out"},
    {"--validate", NULL, "compare the results before and after, by the interpreter"},
    {"--record", "F.json", "write the game (of several players the best), for 'hilo replay'"},
    {"-o", "OUT", "write the module (of several players the best)"},
    {"--to", "FORM",
     "the form of the module, as of 'hilo convert' (default: by OUT's name, else text)"},
    {"--list-envs", NULL, "what environments there are"},
    {"--list-policies", NULL, "what players there are"},
    {"--list-laws", NULL, "own rules of --saturate"},
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_rewrite = {
    .name = "rewrite",
    .usage = "FILE... [--env=NAME] [--policy=LIST] [-o OUT]",
    .summary = "choose among the rewrites that passes could make",
    .about = "An environment says what can be chosen: passes, run dry, find it, and make what was "
             "chosen "
             "and nothing else.\n"
             "A player chooses; the report says what each step brought.",
    .examples =
        "  hilo rewrite m.hlo --env=gpu-fusion --policy=xla,greedy      XLA's own fusions, and "
        "better ones\n"
        "  hilo rewrite m.hlo --env=order --policy=beam --metric=instructions   the best order of "
        "passes\n"
        "  hilo rewrite m.hlo --choices                                  what could be done\n"
        "  hilo rewrite m.hlo --decide=0,3 -o out.hlo                    do that\n"
        "  hilo rewrite m.hlo --saturate -o out.hlo                      the best of all that is "
        "equal\n"
        "  hilo rewrite m.hlo --policy=mcts --record=game.json           to be played again by "
        "'hilo replay'\n",
    .options = options,
    .reports = true,
    .run = run,
};
