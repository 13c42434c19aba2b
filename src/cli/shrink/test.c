// cli/shrink/test.c: which module is a bad one.
#include <string.h>

#include "cli/json.h"
#include "cli/load.h"
#include "cli/select.h"
#include "cli/shrink/test.h"

static bool read_bad(Cli *cli, HlTest *out) {
  static const struct {
    const char *option;
    HlBad bad;
  } all[] = {{"--crash", HL_BAD_CRASH},
             {"--hang", HL_BAD_HANG},
             {"--pattern", HL_BAD_PATTERN},
             {"--any", HL_BAD_ANY},
             {"--invert", HL_BAD_ZERO}};
  const char *first = NULL;
  out->bad = HL_BAD_SAME;
  for (int k = 0; k < HL_COUNT_OF(all); k++) {
    if (!cli_value(cli, all[k].option))
      continue;
    if (first)
      return cli_usage(cli, "%s and %s exclude each other", first, all[k].option) == CLI_OK;
    first = all[k].option;
    out->bad = all[k].bad;
  }
  out->pattern = cli_value(cli, "--pattern");
  if (out->bad == HL_BAD_HANG && !cli_value(cli, "--time-limit"))
    return cli_usage(cli, "--hang needs --time-limit: how long is too long?") == CLI_OK;
  return true;
}

static bool read_ask(Cli *cli, HlTest *out) {
  const char *mismatch = cli_value(cli, "--mismatch");
  out->n_command = cli->n_files - 1;
  out->command = cli->files + 1;
  out->ask = HL_ASK_COMMAND;
  if (mismatch && out->n_command > 0)
    return cli_usage(cli, "--mismatch is a test of its own: give no command") == CLI_OK;
  if (mismatch) {
    const HlPlatform *platform = hl_platform_find(mismatch);
    out->compare = true;
    out->ask = strcmp(mismatch, "xla") == 0 ? HL_ASK_XLA : HL_ASK_RUN;
    if (out->ask == HL_ASK_RUN && (!platform || !platform->has_programs))
      return cli_usage(cli, "unknown platform '%s': cpu or xla", mismatch) == CLI_OK;
    out->platform = platform ? platform->name : NULL;
  } else if (out->n_command == 0) {
    out->ask = HL_ASK_RUN;
    out->platform = "cpu";
  }
  return true;
}

static bool read_limits(Cli *cli, HlTest *out) {
  int64_t runs = 1, need = 1, memory = 0, seed = 42;
  if (!cli_integer(cli, "--runs", 1, 100000, &runs) ||
      !cli_integer(cli, "--need", 1, 100000, &need) ||
      !cli_integer(cli, "--memory-limit", 1, INT64_MAX >> 20, &memory) ||
      !cli_integer(cli, "--seed", 0, INT64_MAX, &seed) ||
      !cli_number(cli, "--time-limit", &out->time_limit) ||
      !cli_number(cli, "--tolerance", &out->tolerance.value))
    return false;
  if (need > runs)
    return cli_usage(cli, "--need=%lld of --runs=%lld cannot be bad", (long long)need,
                     (long long)runs) == CLI_OK;
  if (cli_value(cli, "--time-limit") && !(out->time_limit > 0))
    return cli_usage(cli, "option '--time-limit' needs seconds above 0") == CLI_OK;
  out->tolerance.given = cli_value(cli, "--tolerance");
  out->runs = (int)runs;
  out->need = (int)need;
  out->memory_limit = memory << 20;
  out->seed = (uint64_t)seed;
  return true;
}

bool cli_read_test(Cli *cli, HlArena *arena, HlTest *out) {
  *out = (HlTest){.python = cli_value(cli, "--python")};
  return read_bad(cli, out) && read_ask(cli, out) && read_limits(cli, out);
}

// --- Passes -------------------------------------------------------------------------------------------

static bool make_session(Cli *cli, HlArena *arena, CliPasses *out) {
  const char *word = cli_value(cli, "--target"), *pipeline = cli_value(cli, "--pipeline");
  const HlPlatform *platform = hl_platform_find(word ? word : pipeline ? pipeline : "");
  const HlTarget *target = NULL;
  if (platform && *platform->target)
    target = hl_target_find(platform->target);
  else if (word && !(target = hl_target_load(cli->cx, arena, word)))
    return false;
  const HlSessionOptions how = {.platform = platform ? platform->name : NULL, .target = target};
  out->session = hl_session_new(cli->cx, &how);
  return out->session;
}

bool cli_read_passes(Cli *cli, HlArena *arena, CliPasses *out) {
  const char *passes = cli_value(cli, "--passes"), *pipeline = cli_value(cli, "--pipeline");
  *out = (CliPasses){.text = passes ? passes : pipeline};
  if (passes && pipeline)
    return cli_usage(cli, "--passes and --pipeline exclude each other") == CLI_OK;
  if (!out->text)
    return true;
  if (!make_session(cli, arena, out))
    return false;
  const HlCompileOptions how = {.engine.break_rule = cli_value(cli, "--break-rule"),
                                .engine.release = cli_load_options(cli).dialect};
  out->engine = hl_session_engine(out->session, &how, arena);
  return hl_pipeline_parse(cli->cx, arena, out->engine.passes, out->engine.pipelines, out->text);
}

void cli_passes_free(CliPasses *passes) {
  hl_session_free(passes->session);
}

// --- The module --------------------------------------------------------------------------------------

int cli_with_module(Cli *cli, const char *path, CliWork *work, void *user) {
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  how.fill_hidden = true;
  int status = CLI_OK;
  cli_begin_file(cli, cli->files[0]);
  if (hl_load(cli->cx, path, &how, &file)) {
    HlModule *m = path == cli->files[0] ? cli_select(cli, &file, path) : file.modules[0];
    if (m) {
      cli_set_partitions(cli, m);
      if (cli->json)
        json_text(&cli->report, "module", m->name->text);
      status = work(user, &file, m);
    } else {
      status = CLI_USAGE;
    }
    hl_file_free(&file);
  }
  status = cli_worse(status, cli_end_file(cli));
  cli_end_report(cli);
  return status;
}
