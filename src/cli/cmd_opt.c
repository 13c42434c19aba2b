// hilo opt: runs passes over a module and prints what comes out.
#include <string.h>

#include "cli/form.h"
#include "cli/json.h"
#include "cli/mlir.h"
#include "cli/opt.h"
#include "cli/select.h"
#include "hilo/check_each.h"
#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/session.h"
#include "hilo/text.h"

// What the options ask for.
typedef struct Plan {
  const Form *form;
  HlTextOptions text;
  HlArena *arena;              // of the target
  const HlPlatform *platform;  // NULL: none of its own
  const HlTarget *target;      // NULL: no device in particular
  HlSession *session;
  HlCompileOptions compile;
  CliEmit emit;
  CliDecisions decisions;
  HlMaybeFloat tolerance;
  int64_t seed;
  HlBuf report;                // what --check-each, --dry and --provenance find: not the module
  bool withheld;               // a module's results change: none is written
} Plan;

// --- Reading the options ------------------------------------------------------------------------

// The module's form follows from OUT's name only where that is known: any other name is one for text.
static bool read_text_options(Cli *cli, Plan *plan) {
  HlTextOptions *out = &plan->text;
  *out = (HlTextOptions){.large_constants = hl_switch(cli_flag(cli, "--large-constants"))};
  if (!cli_find_form(cli, form_at(0), &plan->form) ||
      !cli_find_preset(cli, plan->form, &out->preset) || !cli_mlir_version(cli, NULL))
    return false;
  if (cli->json && !cli_value(cli, "-o") && plan->form != form_at(0)) {
    cli_usage(cli, "with --json the %s needs a place of its own: give -o OUT", plan->form->name);
    return false;
  }
  if (cli_flag(cli, "--no-metadata"))
    out->metadata = out->frames = HL_OFF;
  return cli_may_write(cli, cli_value(cli, "-o"), !plan->form->as_text) && cli_check_dialect(cli);
}

static bool read_dump_form(Cli *cli, HlDumpAs *out) {
  const char *as = cli_value(cli, "--dump-as");
  *out = as && strcmp(as, "delta") == 0 ? HL_DUMP_DELTA : HL_DUMP_FULL;
  if (!as || strcmp(as, "delta") == 0 || strcmp(as, "full") == 0)
    return true;
  cli_usage(cli, "unknown --dump-as '%s': full or delta", as);
  return false;
}

static bool read_emit(Cli *cli, CliEmit *out) {
  const char *what = cli_value(cli, "--emit");
  *out = !what ? CLI_EMIT_NONE : strcmp(what, "asm") == 0 ? CLI_EMIT_ASM : CLI_EMIT_TILE;
  if (!what || *out == CLI_EMIT_ASM || strcmp(what, "tile") == 0)
    return true;
  cli_usage(cli, "unknown --emit '%s': tile or asm", what);
  return false;
}

static const HlPlatform *platform_of_kind(HlTargetKind kind) {
  int n;
  const HlPlatform *all = hl_platforms(&n);
  for (int k = 0; k < n; k++) {
    const HlTarget *t = hl_target_find(all[k].target);
    if (t && t->kind == kind)
      return &all[k];
  }
  return NULL;
}

// Whose program it is: --target says so, by a platform's word, by a device's name or in a file; or else the pipeline's
// platform. False after reporting.
static bool read_target(Cli *cli, Plan *plan) {
  const char *word = cli_value(cli, "--target"), *pipeline = cli_value(cli, "--pipeline");
  const HlPlatform *platform = word       ? hl_platform_find(word)
                               : pipeline ? hl_platform_find(pipeline)
                                          : NULL;
  if (platform && *platform->target) {
    plan->target = hl_target_find(platform->target);
    plan->platform = platform;
    return true;
  }
  if (!word)
    return true;
  plan->target = hl_target_load(cli->cx, plan->arena, word);
  plan->platform = plan->target ? platform_of_kind(plan->target->kind) : NULL;
  return plan->target;
}

// What runs as code does so on a platform that makes programs, and by its pipeline where no passes are named.
static bool check_emit(Cli *cli, Plan *plan) {
  static const char *const others[] = {"--dry", "--dry-all", "--provenance", "--check-each",
                                       "--to"};
  if (!plan->emit)
    return true;
  for (int k = 0; k < HL_COUNT_OF(others); k++)
    if (cli_flag(cli, others[k])) {
      cli_usage(cli, "--emit and %s exclude each other", others[k]);
      return false;
    }
  if (!plan->platform && !cli_value(cli, "--target")) {
    plan->platform = hl_platform_find("cpu");
    plan->target = hl_target_find(plan->platform->target);
  }
  if (plan->platform && plan->platform->has_programs)
    return true;
  cli_usage(cli, "--emit is of the cpu: other platforms make no code here");
  return false;
}

static bool is_dry(const Cli *cli) {
  return cli_flag(cli, "--dry") || cli_flag(cli, "--dry-all");
}

// Whether something other than the module is told.
static bool has_report(const Cli *cli) {
  return is_dry(cli) || cli_flag(cli, "--provenance") || cli_flag(cli, "--check-each");
}

// The module goes to OUT; what is found goes to standard output or to a file of its own.
static bool check_outputs(Cli *cli) {
  const char *out = cli_value(cli, "-o"), *report = cli_value(cli, "--report");
  if (report && !has_report(cli))
    return cli_usage(cli, "--report is of --check-each, --dry and --provenance") == CLI_OK;
  if (report && cli->json)
    return cli_usage(cli, "--report and --json exclude each other: the report is JSON then") ==
           CLI_OK;
  if (out && is_dry(cli))
    return cli_usage(cli, "--dry changes nothing, so there is no module for -o: --report=FILE takes "
                          "the list") == CLI_OK;
  if (out && strcmp(out, "-") == 0 && has_report(cli) && !report && !cli->json)
    return cli_usage(cli, "the module and the report would both go to standard output: give "
                          "--report=FILE") == CLI_OK;
  if (out && report && strcmp(out, report) == 0)
    return cli_usage(cli, "-o and --report name the same file") == CLI_OK;
  return true;
}

static bool check_choices(Cli *cli) {
  if (cli_value(cli, "--passes") && cli_value(cli, "--pipeline")) {
    cli_usage(cli, "--passes and --pipeline exclude each other");
    return false;
  }
  return check_outputs(cli);
}

static bool make_session(Cli *cli, HlDumpAs as, Plan *plan) {
  HlFlags flags;
  bool ok = cli_xla_flags(cli, &flags);
  if (cli_value(cli, "--dump-to"))
    flags.xla_dump_to = cli_value(cli, "--dump-to");
  if (cli_value(cli, "--dump-pass"))
    flags.xla_dump_hlo_pass_re = cli_value(cli, "--dump-pass");
  const HlSessionOptions options = {.platform = plan->platform ? plan->platform->name : NULL,
                                    .target = plan->target,
                                    .flags = &flags,
                                    .dump_as = as};
  plan->session = ok ? hl_session_new(cli->cx, &options) : NULL;
  hl_flags_free(&flags);
  return plan->session;
}

static void say_progress(void *user, const HlProgress *at) {
  if (at->phase == HL_PHASE_PASSES)
    cli_progress(user, "%s: %s (%d of %d)", at->pipeline, at->pass, at->number, at->of);
  else if (at->phase == HL_PHASE_BUFFERS)
    cli_progress(user, "assigning buffers");
}

static void fill_options(Cli *cli, Plan *plan) {
  const char *passes = cli_value(cli, "--passes"), *pipeline = cli_value(cli, "--pipeline");
  plan->compile =
      (HlCompileOptions){.passes = passes       ? passes
                                   : pipeline   ? pipeline
                                   : plan->emit ? plan->platform->pipeline
                                                : "simplify",
                         .engine = {.release = cli_load_options(cli).dialect,
                                    .dry = cli_flag(cli, "--dry") || cli_flag(cli, "--dry-all"),
                                    .verify_each = cli_flag(cli, "--verify-each"),
                                    .break_rule = cli_value(cli, "--break-rule")},
                         .default_layouts = cli_flag(cli, "--default-layouts"),
                         .no_buffers = true,
                         .progress = say_progress,
                         .user = cli};
}

static bool read_numbers(Cli *cli, Plan *plan) {
  HlMaybeInt *fuel = &plan->compile.engine.fuel;
  fuel->given = cli_value(cli, "--fuel");
  plan->tolerance.given = cli_value(cli, "--tolerance");
  return cli_integer(cli, "--fuel", 0, INT64_MAX, &fuel->value) &&
         cli_integer(cli, "--seed", 0, INT64_MAX, &plan->seed) && cli_has_partitions(cli) &&
         cli_number(cli, "--tolerance", &plan->tolerance.value);
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
  for (const char *at = hl_flag_text(list); *at;) {
    HlStr name = {at, strcspn(at, ",")};
    if (name.n > 0 && !hl_pass_find(&hl_passes, name) && !has_item(all, name))
      hl_warn(cli->cx, (HlPos){0}, "--%s names '%.*s', which is no pass and not in the pipeline",
              flag, (int)name.n, name.at);
    at += name.n;
    at += *at == ',';
  }
}

// What only the engine reads: fuel of passes.
static bool check_engine(Cli *cli, const Plan *plan) {
  HlArena *arena = hl_arena_new();
  const HlEngineOptions options = hl_session_engine(plan->session, &plan->compile, arena);
  HlEngine *engine = hl_engine_new(cli->cx, &options);
  hl_engine_free(engine);
  hl_arena_free(arena);
  return engine;
}

static bool check_names(Cli *cli, const Plan *plan) {
  HlArena *arena = hl_arena_new();
  const HlFlags *flags = hl_session_flags(plan->session);
  const HlPipelineItem *all =
      hl_pipeline_parse(cli->cx, arena, &hl_passes, &hl_pipelines, plan->compile.passes);
  if (all) {
    warn_unknown_names(cli, "xla_disable_hlo_passes", flags->xla_disable_hlo_passes, all);
    warn_unknown_names(cli, "xla_enable_hlo_passes_only", flags->xla_enable_hlo_passes_only, all);
    const char *first = hl_flag_text(flags->xla_run_hlo_passes_starting_from);
    if (*first && !has_item(all, hl_str(first)))
      hl_warn(cli->cx, (HlPos){0},
              "--xla_run_hlo_passes_starting_from names '%s', which is not in the pipeline: no "
              "pass will run",
              first);
  }
  hl_arena_free(arena);
  return all != NULL;
}

// What is wrong with the words of the call, of which the library has told.
static int misused(Cli *cli) {
  cli_flush(cli);
  return CLI_USAGE;
}

// An exit status, or -1 to go on.
static int read_plan(Cli *cli, Plan *plan) {
  HlDumpAs as;
  *plan = (Plan){.arena = hl_arena_new()};
  if (!read_text_options(cli, plan) || !read_dump_form(cli, &as) || !check_choices(cli) ||
      !read_emit(cli, &plan->emit))
    return CLI_USAGE;
  if (!read_target(cli, plan))
    return misused(cli);
  if (!check_emit(cli, plan))
    return CLI_USAGE;
  if (!make_session(cli, as, plan))
    return misused(cli);
  fill_options(cli, plan);
  if (!read_numbers(cli, plan))
    return CLI_USAGE;
  if (!check_names(cli, plan) || !check_engine(cli, plan))
    return misused(cli);
  if (cli_value(cli, "--decisions")) {
    if (!cli_read_decisions(cli, cli_value(cli, "--decisions"), &plan->decisions))
      return cli_flush(cli);
    plan->compile.engine.decisions = plan->decisions.at;
    plan->compile.engine.n_decisions = plan->decisions.n;
  }
  return -1;
}

static void free_plan(Plan *plan) {
  hl_buf_free(&plan->report);
  cli_decisions_free(&plan->decisions);
  hl_session_free(plan->session);
  hl_arena_free(plan->arena);
}

// --- Running ------------------------------------------------------------------------------------

static void warn_unbroken(Cli *cli, const HlModule *m, bool broke) {
  if (cli_value(cli, "--break-rule") && !broke)
    hl_warn(cli->cx, (HlPos){0}, "rule '%s' replaced nothing in module %s: no result is wrong",
            cli_value(cli, "--break-rule"), m->name->text);
}

// Where the module itself goes: with --json to OUT, or else into the report.
static void print_module(Cli *cli, const Plan *plan, const HlModule *m, HlBuf *out) {
  const size_t start = out->n;
  if (start > 0 && plan->form->kind == FORM_TEXT)
    hl_buf_puts(out, "// -----\n\n");
  if (start > 0 && plan->form->kind != FORM_TEXT && plan->form->kind != FORM_MLIR)
    hl_error(cli->cx, (HlPos){0}, "a %s holds one module: give one FILE, or --module",
             plan->form->name);
  else
    cli_write_module(cli, plan->form, m, NULL, &plan->text, out);
  if (!cli->json || cli_value(cli, "-o"))
    return;
  json_bytes(&cli->report, "text", out->at + start, out->n - start);
  out->n = start;
}

// In the module's place.
static bool print_code(Cli *cli, const Plan *plan, HlCompiled *compiled, HlBuf *out) {
  const size_t start = out->n;
  if (start > 0)
    hl_buf_puts(out, "// -----\n\n");
  const bool good = cli_print_code(cli, compiled, plan->emit, &plan->text, out);
  if (!good || !cli->json || cli_value(cli, "-o"))
    return good;
  json_bytes(&cli->report, "emitted", out->at + start, out->n - start);
  out->n = start;
  return true;
}

static bool print_compiled(Cli *cli, Plan *plan, HlCompiled *compiled, HlBuf *out) {
  const HlModule *m = hl_compiled_module(compiled);
  const HlEngine *engine = hl_compiled_engine(compiled);
  warn_unbroken(cli, m, hl_engine_broke(engine));
  cli_note_decisions(&plan->decisions, engine);
  if (cli->json)
    json_int(&cli->report, "instructions", hl_count_instructions(m));
  if (cli_flag(cli, "--stats"))
    cli_print_steps(cli, engine);
  if (plan->compile.engine.dry)
    cli_print_rewrites(cli, engine, &plan->report);
  if (cli_flag(cli, "--provenance"))
    cli_print_provenance(cli, engine, m, &plan->report);
  if (plan->emit)
    return print_code(cli, plan, compiled, out);
  if (!has_report(cli) || cli_value(cli, "-o"))
    print_module(cli, plan, m, out);
  return true;
}

static bool run_passes(Cli *cli, Plan *plan, HlModule *m, HlBuf *out) {
  HlCompiled *compiled =
      hl_compile(cli->cx, plan->session, &(HlProgram){.take = m}, &plan->compile);
  cli_progress(cli, NULL);
  const bool ok = compiled && print_compiled(cli, plan, compiled, out);
  hl_compiled_unref(compiled);
  return ok;
}

static void say_evaluations(void *user, const char *what, int n) {
  cli_progress(user, "%s, %d so far", what, n);
}

// Says which pass and rewrite change a result.
static bool check_each(Cli *cli, Plan *plan, HlModule *m, const HlRecorded *recorded) {
  HlCheckEachOptions options = {.tolerance = plan->tolerance,
                                .seed = (uint64_t)plan->seed,
                                .args = cli_value(cli, "--args"),
                                .recorded = recorded,
                                .progress = say_evaluations,
                                .user = cli};
  HlCheckEach check;
  HlArena *arena = hl_arena_new();
  const HlEngineOptions engine = hl_session_engine(plan->session, &plan->compile, arena);
  if (plan->compile.default_layouts)
    hl_default_entry_layout(m);
  bool ok = hl_check_each(cli->cx, m, plan->compile.passes, &engine, &options, &check);
  cli_progress(cli, NULL);
  if (ok && (check.differs || !cli_value(cli, "-o")))
    warn_unbroken(cli, m, check.broke);
  if (ok)
    cli_print_check(cli, m, &check, plan->tolerance, &plan->report);
  if (ok && !check.differs && cli_value(cli, "--report")) {
    HlBuf kept = {0};
    cli_put_kept(m, &check, &kept);
    hl_conclude(cli->cx, (HlPos){0}, "%s", kept.at);
    hl_buf_free(&kept);
  }
  const bool differs = ok && check.differs;
  if (differs)
    hl_error_kind(cli->cx, HL_DIFFERS, (HlPos){0}, "pass %s changes a result of module %s",
                  check.step.pass, m->name->text);
  plan->withheld |= differs;
  if (differs && cli_value(cli, "-o"))
    hl_hint(cli->cx, "%s is not written", cli_value(cli, "-o"));
  hl_check_each_free(&check);
  hl_arena_free(arena);
  return ok && !(differs && cli_value(cli, "-o"));
}

// Runs the passes over one module of the file, which is given away unless its results are checked only.
static bool run_module(Cli *cli, Plan *plan, HlFile *file, int k, HlBuf *out) {
  HlModule *m = file->modules[k];
  cli_set_partitions(cli, m);
  if (cli->json) {
    json_open(&cli->report, NULL, '{');
    json_text(&cli->report, "module", m->name->text);
  }
  bool ok = !cli_flag(cli, "--check-each") || check_each(cli, plan, m, &file->recorded);
  if (ok && (!cli_flag(cli, "--check-each") || cli_value(cli, "-o"))) {
    file->modules[k] = NULL;
    ok = run_passes(cli, plan, m, out);
  }
  if (cli->json)
    json_close(&cli->report, '}');
  return ok;
}

static int run_modules(Cli *cli, Plan *plan, HlFile *file, const char *path, HlBuf *out) {
  const bool selects = cli_value(cli, "--module");
  const HlModule *only = selects ? cli_select(cli, file, path) : NULL;
  if (selects && !only)
    return CLI_USAGE;
  cli_check_decisions(cli, &plan->decisions, file->modules, file->n);
  bool ok = true;
  for (int k = 0; ok && k < file->n; k++)
    if (!only || file->modules[k] == only)
      ok = run_module(cli, plan, file, k, out);
  return CLI_OK;
}

static int run_file(Cli *cli, Plan *plan, CliFiles *files, int which, HlBuf *out) {
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  how.fill_hidden = cli_flag(cli, "--check-each");
  const char *path = files->at[which].at;
  bool skipped;
  const bool ok = cli_load(cli, files, which, &how, &file, &skipped);
  if (skipped)
    return CLI_OK;
  cli_begin_file(cli, path);
  if (cli->json)
    json_open(&cli->report, "modules", '[');
  const int status = ok ? run_modules(cli, plan, &file, path, out) : CLI_OK;
  if (cli->json)
    json_close(&cli->report, ']');
  if (ok)
    hl_file_free(&file);
  return cli_worse(status, cli_end_file(cli));
}

// What was checked and found to differ has no module.
static void write_outputs(Cli *cli, const Plan *plan, const HlBuf *out, int status) {
  const char *path = cli_value(cli, "-o"), *report = cli_value(cli, "--report");
  const HlBuf *told = &plan->report;
  const bool writes = !status || status == CLI_DIFFERENT || out->n + told->n > 0;
  const bool checked = has_report(cli);
  if (writes && checked && !cli->json)
    hl_write_file(cli->cx, report ? report : "-", told->at ? told->at : "", told->n);
  if (writes && (!checked || path) && !plan->withheld && (!cli->json || out->n > 0))
    hl_write_file(cli->cx, path ? path : "-", out->at ? out->at : "", out->n);
}

static int run_files(Cli *cli, Plan *plan, CliFiles *files) {
  HlBuf out = {0};
  int status = CLI_OK;
  for (int k = 0; k < files->n && !hl_cx_is_cancelled(cli->cx); k++)
    status = cli_worse(status, run_file(cli, plan, files, k, &out));
  if (!cli_flag(cli, "--check-each"))
    cli_end_decisions(cli, &plan->decisions);
  write_outputs(cli, plan, &out, status);
  hl_buf_free(&out);
  cli_end_report(cli);
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
  return cli_worse(status, cli_end_files(cli, &files));
}

static const CliOption options[] = {
    {"--passes", "LIST",
     "passes to run, in order: name{option=value ...}, pipeline(...)*, gpu/fusion/dce (as it "
     "stands there), ..."},
    {"--pipeline", "NAME", "cpu, gpu, cpu-native or simplify (default)"},
    {"--default-layouts", NULL,
     "default layouts for the entry's parameters and result, as JAX asks of XLA"},
    {"--target", "NAME|FILE",
     "the device that the program is for: cpu, gpu, a name that 'hilo targets' lists, or XLA's "
     "gpu_target_config.pbtxt"},
    {"--list-passes", NULL, "what passes and pipelines there are"},
    {"--list-rules", NULL, "what rules the passes have, with their laws"},
    {"-o", "OUT",
     "where to write the module, of --emit the code (default: standard output); a form's ending asks for the form"},
    {"--to", "FORM", "the form of the module, as of 'hilo convert' (default: text)"},
    {"--print", "PRESET", "as of 'hilo convert': default, short, ..."},
    {"--no-metadata", NULL, "leave out metadata and stack frames"},
    {"--large-constants", NULL, "print constants of more than ten elements in full"},
    {"--stats", NULL, "say on standard error what each pass did and how long it took"},
    {"--emit", "WHAT",
     "print what runs on the cpu in place of the module, each step beside its HLO: tile (the "
     "kernels; no "
     "matter which machine), asm (with the machine code for this one)"},
    {"--provenance", NULL, "print for each instruction which pass and rule made it, from what"},
    {"--fuel", "N", "stop after N rewrites"},
    {"--dry", NULL, "list what could be rewritten, and by what; change nothing"},
    {"--dry-all", NULL, "the same as --dry"},
    {"--decisions", "F.json", "make only the rewrites listed there (as --dry --json lists them)"},
    {"--verify-each", NULL, "check the module after every pass"},
    {"--check-each", NULL,
     "evaluate before and after every pass; name the first pass, and the first rewrite, that "
     "changes a result. With -o the module is written, too, unless one is changed"},
    {"--report", "FILE", "where to write what --check-each, --dry or --provenance find (default: standard output)"},
    {"--args", "A.npz", "of --check-each: inputs a0, a1, ...; default: recorded or made up"},
    CLI_TOLERANCE_OPTION,
    {"--seed", "N", "of --check-each: of the made-up inputs"},
    {"--dump-to", "DIR", "as --xla_dump_to"},
    {"--dump-pass", "RE", "as --xla_dump_hlo_pass_re"},
    {"--dump-as", "FORM",
     "of the states between passes: full (default), or delta, for 'hilo history'"},
    {"--break-rule", "RULE", "for tests: make the first result of this rule wrong"},
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_DIALECT_OPTION,
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
    .examples =
        "  hilo opt m.hlo --pipeline=cpu -o out.hlo               XLA:CPU's pipeline\n"
        "  hilo opt m.hlo --passes=algsimp,dce --dry              what could be rewritten\n"
        "  hilo opt m.hlo --pipeline=gpu --check-each             which pass changes a result\n"
        "  hilo opt m.hlo --pipeline=gpu --xla_dump_to=d --xla_dump_hlo_pass_re=.*   the states "
        "between passes\n"
        "  hilo opt m.hlo --pipeline=cpu-native --emit=tile       what runs on the cpu\n",
    .options = options,
    .reports = true,
    .xla_flags = true,
    .run = run,
};
