// hilo opt: runs passes over a module and prints what comes out.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/load.h"
#include "cli/opt.h"
#include "cli/select.h"
#include "hilo/check_each.h"
#include "hilo/dump.h"
#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/text.h"

// What the options ask for.
typedef struct Plan {
  HlTextOptions text;
  HlEngineOptions engine;
  HlFlags flags;
  HlDumper *dumper;
  const char *passes;
  CliDecisions decisions;
  double tolerance;
  int64_t seed;
} Plan;

// --- Reading the options ------------------------------------------------------------------------

static bool read_text_options(Cli *cli, HlTextOptions *out) {
  const char *wish = cli_value(cli, "--print");
  *out = hl_text_options(wish && strcmp(wish, "short") == 0 ? HL_TEXT_SHORT : HL_TEXT_DEFAULT);
  if (wish && strcmp(wish, "short") != 0 && strcmp(wish, "default") != 0) {
    cli_usage(cli, "unknown --print '%s': default or short", wish);
    return false;
  }
  if (cli_flag(cli, "--no-metadata"))
    out->metadata = out->frames = false;
  out->large_constants = cli_flag(cli, "--large-constants");
  return true;
}

static bool read_flags(Cli *cli, HlFlags *flags) {
  hl_flags_init(flags);
  bool ok = hl_flags_text(cli->cx, flags, getenv("XLA_FLAGS"));
  for (int k = 0; ok && k < cli->n_xla_flags; k++)
    ok = hl_flags_word(cli->cx, flags, cli->xla_flags[k]);
  if (cli_value(cli, "--dump-to"))
    flags->xla_dump_to = cli_value(cli, "--dump-to");
  if (cli_value(cli, "--dump-pass"))
    flags->xla_dump_hlo_pass_re = cli_value(cli, "--dump-pass");
  return ok;
}

static bool read_dump_form(Cli *cli, HlDumpAs *out) {
  const char *as = cli_value(cli, "--dump-as");
  *out = as && strcmp(as, "delta") == 0 ? HL_DUMP_DELTA : HL_DUMP_FULL;
  if (!as || strcmp(as, "delta") == 0 || strcmp(as, "full") == 0)
    return true;
  cli_usage(cli, "unknown --dump-as '%s': full or delta", as);
  return false;
}

static bool check_choices(Cli *cli) {
  const char *target = cli_value(cli, "--target");
  if (target && strcmp(target, "cpu") != 0 && strcmp(target, "gpu") != 0) {
    cli_usage(cli, "unknown --target '%s': cpu or gpu", target);
    return false;
  }
  if (cli_value(cli, "--passes") && cli_value(cli, "--pipeline")) {
    cli_usage(cli, "--passes and --pipeline exclude each other");
    return false;
  }
  return true;
}

static void fill_engine(Cli *cli, Plan *plan) {
  const char *pipeline = cli_value(cli, "--pipeline"), *target = cli_value(cli, "--target");
  const HlFlags *flags = &plan->flags;
  HlEngineOptions *e = &plan->engine;
  *e = (HlEngineOptions){.passes = &hl_passes,
                         .pipelines = &hl_pipelines,
                         .target = target     ? target
                                   : pipeline ? pipeline
                                              : "",
                         .fuel = -1,
                         .explain = -1,
                         .pass_fuel = *flags->xla_fuel ? flags->xla_fuel : NULL,
                         .dry = cli_flag(cli, "--dry") || cli_flag(cli, "--dry-all"),
                         .verify_each = cli_flag(cli, "--verify-each"),
                         .break_rule = cli_value(cli, "--break-rule"),
                         .disable = flags->xla_disable_hlo_passes,
                         .enable_only = flags->xla_enable_hlo_passes_only,
                         .disable_all = flags->xla_disable_all_hlo_passes};
  plan->passes = cli_value(cli, "--passes") ? cli_value(cli, "--passes")
                 : pipeline                 ? pipeline
                                            : "simplify";
}

static bool read_numbers(Cli *cli, Plan *plan) {
  plan->tolerance = -1;
  return cli_integer(cli, "--fuel", 0, INT64_MAX, &plan->engine.fuel) &&
         cli_integer(cli, "--seed", 0, INT64_MAX, &plan->seed) &&
         cli_number(cli, "--tolerance", &plan->tolerance);
}

static bool has_item(const HlPipelineItem *item, HlStr name) {
  if (hl_str_is(name, item->name))
    return true;
  for (int k = 0; k < item->n; k++)
    if (has_item(&item->items[k], name))
      return true;
  return false;
}

// A name that is misspelt would silently neither disable nor enable anything.
static void warn_unknown_names(Cli *cli, const char *flag, const char *list,
                               const HlPipelineItem *all) {
  for (const char *at = list; *at;) {
    HlStr name = {at, strcspn(at, ",")};
    if (name.n > 0 && !hl_pass_find(&hl_passes, name) && !has_item(all, name))
      hl_warn(cli->cx, (HlPos){0}, "--%s names '%.*s', which is no pass and not in the pipeline",
              flag, (int)name.n, name.at);
    at += name.n;
    at += *at == ',';
  }
}

static bool check_names(Cli *cli, const Plan *plan) {
  HlArena *arena = hl_arena_new();
  const HlPipelineItem *all =
      hl_pipeline_parse(cli->cx, arena, &hl_passes, &hl_pipelines, plan->passes);
  if (all) {
    warn_unknown_names(cli, "xla_disable_hlo_passes", plan->engine.disable, all);
    warn_unknown_names(cli, "xla_enable_hlo_passes_only", plan->engine.enable_only, all);
  }
  hl_arena_free(arena);
  return all != NULL;
}

// An exit status, or -1 to go on.
static int read_plan(Cli *cli, Plan *plan) {
  HlDumpAs as;
  *plan = (Plan){0};
  hl_flags_init(&plan->flags);
  if (!read_text_options(cli, &plan->text) || !read_dump_form(cli, &as) || !check_choices(cli))
    return CLI_USAGE;
  hl_flags_free(&plan->flags);
  if (!read_flags(cli, &plan->flags))
    return cli_flush(cli);
  fill_engine(cli, plan);
  if (!read_numbers(cli, plan))
    return CLI_USAGE;
  if (!check_names(cli, plan))
    return cli_flush(cli);
  if (cli_value(cli, "--decisions")) {
    if (!cli_read_decisions(cli, cli_value(cli, "--decisions"), &plan->decisions))
      return cli_flush(cli);
    plan->engine.decisions = plan->decisions.at;
    plan->engine.n_decisions = plan->decisions.n;
  }
  plan->dumper = hl_dumper_new(cli->cx, &plan->flags, as);
  return plan->dumper ? -1 : cli_flush(cli);
}

static void free_plan(Plan *plan) {
  cli_decisions_free(&plan->decisions);
  hl_dumper_free(plan->dumper);
  hl_flags_free(&plan->flags);
}

// --- Running ------------------------------------------------------------------------------------

// What the engine's listener needs: the dumper, and the terminal.
typedef struct Listener {
  const Cli *cli;
  HlDumper *dumper;
} Listener;

static bool after_step(void *user, const HlModule *m, const HlStep *step) {
  Listener *listener = user;
  cli_progress(listener->cli, "%s: %s", step->pipeline, step->next);
  return hl_dumper_step(listener->dumper, m, step);
}

static bool at_stage(void *user, const HlModule *m, const char *pass, const char *stage) {
  Listener *listener = user;
  return hl_dumper_stage(listener->dumper, m, pass, stage);
}

static void at_rewrite(void *user, const char *pass, const char *rule, const HlInst *inst,
                       const HlInst *with) {
  Listener *listener = user;
  hl_dumper_rewrite(listener->dumper, pass, rule, inst, with);
}

static void at_refusal(void *user, const char *pass, const char *why, const HlInst *inst,
                       const HlInst *with) {
  Listener *listener = user;
  hl_dumper_refused(listener->dumper, pass, why, inst, with);
}

static const char *after_suffix(const char *target) {
  if (strcmp(target, "cpu") == 0)
    return "cpu_after_optimizations";
  return strcmp(target, "gpu") == 0 ? "gpu_after_optimizations" : "after_optimizations";
}

static void warn_unbroken(Cli *cli, const HlModule *m, bool broke) {
  if (cli_value(cli, "--break-rule") && !broke)
    hl_warn(cli->cx, (HlPos){0}, "rule '%s' replaced nothing in module %s: no result is wrong",
            cli_value(cli, "--break-rule"), m->name->text);
}

// How long --dry makes changes in place in copies, to show what they leave.
enum { DRY_SECONDS = 2 };

static bool print_dry(Cli *cli, const Plan *plan, const HlModule *m, const HlEngine *engine,
                      HlBuf *out) {
  HlDryResults results;
  const double seconds = cli_flag(cli, "--dry-all") ? -1 : DRY_SECONDS;
  bool ok = hl_dry_results(cli->cx, m, plan->passes, &plan->engine, engine, seconds, &results);
  if (results.n_left_out > 0)
    hl_note(cli->cx, (HlPos){0},
            "module %s: of %lld opportunities, the last %lld changes in place are listed without "
            "what they would leave; --dry-all takes the time",
            m->name->text, (long long)results.n, (long long)results.n_left_out);
  if (ok)
    cli_print_rewrites(cli, engine, &results, out);
  hl_dry_results_free(&results);
  return ok;
}

static bool run_passes(Cli *cli, const Plan *plan, HlModule *m, HlBuf *out) {
  Listener listener = {cli, plan->dumper};
  HlEngineOptions options = plan->engine;
  options.after = after_step;
  options.stage = at_stage;
  options.rewrite = at_rewrite;
  options.refused = plan->flags.xla_dump_fusion_visualization ? at_refusal : NULL;
  options.user = &listener;
  HlEngine *engine = hl_engine_new(cli->cx, &options);
  bool ok = engine && hl_dumper_begin(plan->dumper, m) &&
            hl_dumper_module(plan->dumper, m, "before_optimizations") &&
            hl_engine_run(engine, m, plan->passes);
  cli_progress(cli, NULL);
  const char *after = after_suffix(options.target);
  ok = ok && hl_dumper_result(plan->dumper, m, after) && hl_dumper_end(plan->dumper, m, engine);
  if (ok)
    warn_unbroken(cli, m, hl_engine_broke(engine));
  if (ok && cli_flag(cli, "--stats"))
    cli_print_steps(cli, engine);
  if (ok && options.dry)
    ok = print_dry(cli, plan, m, engine, out);
  if (ok && cli_flag(cli, "--provenance"))
    cli_print_provenance(cli, engine, m, out);
  else if (ok && !options.dry)
    hl_text_print(cli->cx, m, &plan->text, out);
  hl_engine_free(engine);
  return ok;
}

static void say_progress(void *user, const char *what, int n) {
  cli_progress(user, "%s, %d so far", what, n);
}

// Says which pass and rewrite change a result.
static bool check_each(Cli *cli, const Plan *plan, const HlModule *m, const HlRecorded *recorded,
                       HlBuf *out) {
  HlCheckEachOptions options = {.tolerance = plan->tolerance,
                                .seed = (uint64_t)plan->seed,
                                .args = cli_value(cli, "--args"),
                                .recorded = recorded,
                                .progress = say_progress,
                                .user = cli};
  HlCheckEach check;
  bool ok = hl_check_each(cli->cx, m, plan->passes, &plan->engine, &options, &check);
  cli_progress(cli, NULL);
  if (ok)
    warn_unbroken(cli, m, check.broke);
  if (ok)
    cli_print_check(cli, m, &check, out);
  if (ok && check.differs)
    hl_error_kind(cli->cx, HL_DIFFERS, (HlPos){0}, "pass %s changes a result of module %s",
                  check.step.pass, m->name->text);
  hl_check_each_free(&check);
  return ok;
}

static int run_file(Cli *cli, const Plan *plan, CliFiles *files, int which, HlBuf *out) {
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  bool skipped, ok = true;
  if (!cli_load(cli, files, which, &how, &file, &skipped))
    return skipped ? CLI_OK : cli_flush(cli);
  bool checks = cli_flag(cli, "--check-each");
  bool reports = checks || plan->engine.dry || cli_flag(cli, "--provenance");
  const HlModule *only =
      cli_value(cli, "--module") ? cli_select(cli, &file, files->at[which]) : NULL;
  int status = cli_value(cli, "--module") && !only ? CLI_USAGE : CLI_OK;
  if (!status)
    cli_check_decisions(cli, &plan->decisions, file.modules, file.n);
  for (int k = 0; ok && !status && k < file.n; k++) {
    if (only && file.modules[k] != only)
      continue;
    if (out->n > 0 && !reports)
      hl_buf_puts(out, "// -----\n\n");
    if (cli_flag(cli, "--default-layouts"))
      hl_default_entry_layout(file.modules[k]);
    ok = checks ? check_each(cli, plan, file.modules[k], &file.recorded, out)
                : run_passes(cli, plan, file.modules[k], out);
  }
  hl_file_free(&file);
  return cli_worse(status, cli_flush(cli));
}

static int run_files(Cli *cli, const Plan *plan, CliFiles *files) {
  HlBuf out = {0};
  int status = CLI_OK;
  for (int k = 0; k < files->n && (!status || status == CLI_DIFFERENT); k++)
    status = cli_worse(status, run_file(cli, plan, files, k, &out));
  if (cli_flag(cli, "--check-each"))
    cli_end_checks(cli, &out);
  else if (plan->engine.dry || cli_flag(cli, "--provenance"))
    cli_end_list(cli, &out);
  const char *path = cli_value(cli, "-o");
  if (!status || status == CLI_DIFFERENT)
    hl_write_file(cli->cx, path ? path : "-", out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  return cli_worse(status, cli_flush(cli));
}

static int run(Cli *cli) {
  if (cli_flag(cli, "--list-passes"))
    return cli_list_passes(cli);
  if (cli_flag(cli, "--list-rules"))
    return cli_list_rules(cli);
  CliFiles files;
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  Plan plan;
  status = read_plan(cli, &plan);
  if (status < 0)
    status = run_files(cli, &plan, &files);
  free_plan(&plan);
  cli_files_free(&files);
  return status;
}

static const CliOption options[] = {
    {"--passes", "LIST", "passes to run, in order: name{option=value ...}, pipeline(...)*, ..."},
    {"--pipeline", "NAME", "cpu, gpu or simplify (default)"},
    {"--default-layouts", NULL,
     "default layouts for the entry's parameters and result, as JAX asks of XLA"},
    {"--target", "NAME", "cpu or gpu: whose rules passes follow where they differ"},
    {"--list-passes", NULL, "what passes and pipelines there are"},
    {"--list-rules", NULL, "what rules the passes have, with their laws"},
    {"-o", "OUT", "where to write (default: standard output)"},
    {"--print", "PRESET", "default or short"},
    {"--no-metadata", NULL, "leave out metadata and stack frames"},
    {"--large-constants", NULL, "print constants of more than ten elements in full"},
    {"--stats", NULL, "say on standard error what each pass did and how long it took"},
    {"--provenance", NULL, "print for each instruction which pass and rule made it, from what"},
    {"--fuel", "N", "stop after N rewrites"},
    {"--dry", NULL, "list what could be rewritten, and by what; change nothing"},
    {"--dry-all", NULL, "--dry, for as long as it takes to show what each would leave"},
    {"--decisions", "F.json", "make only the rewrites listed there (as --dry --json lists them)"},
    {"--verify-each", NULL, "check the module after every pass"},
    {"--check-each", NULL,
     "evaluate before and after every pass; name the first pass, and the first rewrite, that "
     "changes a result"},
    {"--args", "A.npz", "of --check-each: inputs a0, a1, ...; default: recorded or made up"},
    {"--tolerance", "T", "of --check-each: as for 'hilo run'"},
    {"--seed", "N", "of --check-each: of the made-up inputs"},
    {"--dump-to", "DIR", "as --xla_dump_to"},
    {"--dump-pass", "RE", "as --xla_dump_hlo_pass_re"},
    {"--dump-as", "FORM",
     "of the states between passes: full (default), or delta, for 'hilo history'"},
    {"--break-rule", "RULE", "for tests: make the first result of this rule wrong"},
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_opt = {
    .name = "opt",
    .usage = "FILE... [--passes=LIST | --pipeline=NAME] [-o OUT]",
    .summary = "run passes over a module",
    .about = "Runs passes, or a whole pipeline, and prints the module that comes out. XLA's flags "
             "(--xla_dump_to,\n"
             "--xla_dump_hlo_pass_re, --xla_disable_hlo_passes, ...) are taken from XLA_FLAGS and "
             "from the command\n"
             "line.",
    .options = options,
    .reports = true,
    .xla_flags = true,
    .run = run,
};
