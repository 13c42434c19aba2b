// hilo run: replays a module on saved or made-up inputs, compares, times, saves.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cpu_program.h"
#include "cli/cpu_stats.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/lockstep.h"
#include "cli/select.h"
#include "hilo/cpu.h"
#include "hilo/custom_calls.h"
#include "hilo/replay.h"
#include "hilo/session.h"

static const char *leaf_name(const HlReplayLeaf *leaf, char *room, size_t n) {
  if (leaf->device == 0)
    snprintf(room, n, "r%d", leaf->number);
  else
    snprintf(room, n, "d%d.r%d", leaf->device, leaf->number);
  return room;
}

static void report_leaf(HlBuf *out, const HlReplayLeaf *leaf) {
  char name[48];
  const HlMismatch *mm = &leaf->mismatch;
  hl_buf_printf(out, "  %-6s ", leaf_name(leaf, name, sizeof name));
  size_t start = out->n;
  hl_shape_print(out, leaf->value->shape, false);
  hl_buf_printf(out, "%*s ", out->n - start < 24 ? (int)(24 - (out->n - start)) : 0, "");
  if (!leaf->compared) {
    hl_buf_puts(out, "not compared\n");
    return;
  }
  if (!mm->same_shape) {
    hl_buf_puts(out, "DIFFERENT  shape or kind of element differs\n");
    return;
  }
  hl_buf_puts(out, mm->equal ? "equal" : "DIFFERENT");
  const int64_t not_finite = hl_count_not_finite(leaf->value);
  if (mm->equal && not_finite > 0)
    hl_buf_printf(out, "  %" PRId64 " of %" PRId64 " are nan or infinite", not_finite, mm->n);
  if (mm->worst >= 0) {
    hl_buf_printf(out, "  largest error %.3g at ", mm->worst_abs);
    hl_shape_print_index(out, leaf->value->shape, mm->worst);
    hl_buf_printf(out, ": %.9g, expected %.9g", mm->actual, mm->expected);
  }
  hl_buf_putc(out, '\n');
  if (mm->equal)
    return;
  hl_buf_printf(out,
                "         %" PRId64 " of %" PRId64 " differ (%.3g%%), nan %" PRId64 ", inf %" PRId64
                "; first at ",
                mm->n_different, mm->n, 100.0 * (double)mm->n_different / (double)mm->n, mm->n_nan,
                mm->n_inf);
  hl_shape_print_index(out, leaf->value->shape, mm->first);
  if (isfinite(mm->pass_tolerance))
    hl_buf_printf(out, "; would pass at --tolerance=%.3g\n", mm->pass_tolerance);
  else
    hl_buf_puts(out, "; no tolerance would pass\n");
}

// Results that are equal and have no finite value, of which that says nothing.
static int count_silent(const HlReplay *r) {
  int n = 0;
  for (int k = 0; k < r->n_leaves; k++)
    n += r->leaves[k].compared && r->leaves[k].mismatch.equal && hl_is_silent(r->leaves[k].value);
  return n;
}

// How many check.* custom calls the program has.
static int64_t count_checks(const HlModule *m) {
  int64_t n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      n += hl_call_has(inst, HL_CALL_CHECKS);
  return n;
}

static void report_rule(HlMaybeFloat tolerance, HlBuf *out) {
  hl_buf_puts(out, "\n  rule   ");
  hl_compare_rule(tolerance, out);
}

static void report_equal(const HlReplay *r, HlBuf *out) {
  const int silent = count_silent(r);
  hl_buf_printf(out, "\n  equal: all %d result%s", r->n_compared, r->n_compared == 1 ? "" : "s");
  if (silent > 0)
    hl_buf_printf(out,
                  "; but %d of them ha%s no finite value, and of such a result that says nothing: "
                  "try other arguments (--args, --seed)",
                  silent, silent == 1 ? "s" : "ve");
  hl_buf_putc(out, '\n');
}

static const char *platform_name(const HlReplayOptions *options) {
  return options->program ? "cpu" : "reference";
}

static void report_text(const char *path, const HlModule *m, const HlReplay *r,
                        const HlReplayOptions *options, const HlCpuPeaks *peaks) {
  static const char *const from[] = {"args",     "given arguments",
                                     "snapshot", "the snapshot's arguments",
                                     "fake",     "made-up arguments"};
  const char *inputs = r->inputs;
  for (int k = 0; k < HL_COUNT_OF(from); k += 2)
    if (strcmp(from[k], r->inputs) == 0)
      inputs = from[k + 1];
  HlBuf out = {0};
  hl_buf_printf(&out, "%s: module %s on the %s, %d device%s, %s\n", path, m->name->text,
                options->program ? "cpu" : "reference interpreter", r->devices,
                r->devices == 1 ? "" : "s", inputs);
  for (int k = 0; k < r->n_leaves; k++)
    report_leaf(&out, &r->leaves[k]);
  hl_buf_printf(&out, "  time   %.3f ms", r->first_s * 1e3);
  if (r->runs > 1)
    hl_buf_printf(&out, " first, %.3f ms best, %.3f ms median of %d", r->best_s * 1e3,
                  r->median_s * 1e3, r->runs - 1);
  if (r->has_reference)
    hl_buf_printf(&out, "; the interpreter %.3f ms", r->reference_s * 1e3);
  if (r->n_compared > 0)
    report_rule(options->tolerance, &out);
  const int64_t checks = count_checks(m);
  if (checks > 0)
    hl_buf_printf(&out, "\n  the program's %" PRId64 " check%s hold%s", checks,
                  checks == 1 ? "" : "s", checks == 1 ? "s" : "");
  if (r->n_compared == 0)
    hl_buf_puts(&out, checks ? "\n" : "\n  nothing to compare with: give --expect R.npz\n");
  else if (r->n_different == 0)
    report_equal(r, &out);
  else
    hl_buf_printf(&out, "\n  DIFFERENT: %d of %d results\n", r->n_different, r->n_compared);
  if (peaks)
    cpu_stats_text(&out, options->program, peaks);
  cli_print(&out);
  hl_buf_free(&out);
}

// An element's index, as in text.
static void index_json(HlBuf *out, const char *key, const HlShape *shape, int64_t element) {
  if (element < 0) {
    json_nothing(out, key);
    return;
  }
  json_key(out, key);
  hl_shape_print_index(out, shape, element);
}

static void comparison_json(HlBuf *out, const HlReplayLeaf *leaf) {
  const HlMismatch *mm = &leaf->mismatch;
  json_bool(out, "equal", mm->equal);
  json_bool(out, "same_shape", mm->same_shape);
  json_int(out, "different", mm->n_different);
  json_int(out, "elements", mm->n);
  json_int(out, "nan", mm->n_nan);
  json_int(out, "inf", mm->n_inf);
  json_int(out, "not_finite", hl_count_not_finite(leaf->value));
  index_json(out, "first", leaf->value->shape, mm->first);
  index_json(out, "worst", leaf->value->shape, mm->worst);
  json_number(out, "worst_abs", mm->worst_abs);
  json_number(out, "worst_rel", mm->worst_rel);
  json_number(out, "actual", mm->actual);
  json_number(out, "expected", mm->expected);
  json_number(out, "pass_tolerance", mm->pass_tolerance);
}

static void leaf_json(HlBuf *out, const HlReplayLeaf *leaf, bool values) {
  char name[48];
  HlBuf text = {0};
  json_open(out, NULL, '{');
  json_text(out, "name", leaf_name(leaf, name, sizeof name));
  hl_shape_print(&text, leaf->value->shape, false);
  json_text(out, "shape", text.at);
  json_bool(out, "compared", leaf->compared);
  if (leaf->compared)
    comparison_json(out, leaf);
  if (values) {
    text.n = 0;
    hl_literal_print(&text, leaf->value);
    json_bytes(out, "value", text.at, text.n);
  }
  json_close(out, '}');
  hl_buf_free(&text);
}

static void report_json(HlBuf *out, const HlModule *m, const HlReplay *r,
                        const HlReplayOptions *options, bool values, const HlCpuPeaks *peaks) {
  HlBuf rule = {0};
  hl_compare_rule(options->tolerance, &rule);
  json_open(out, NULL, '{');
  json_text(out, "module", m->name->text);
  json_text(out, "platform", platform_name(options));
  json_int(out, "devices", r->devices);
  json_text(out, "inputs", r->inputs);
  if (r->n_compared == 0)
    json_nothing(out, "equal");
  else
    json_bool(out, "equal", r->n_different == 0);
  json_int(out, "silent", count_silent(r));
  json_text(out, "rule", rule.at);
  json_number(out, "first_ms", r->first_s * 1e3);
  json_number(out, "run_ms", r->best_s * 1e3);
  json_number(out, "run_median_ms", r->median_s * 1e3);
  json_int(out, "runs", r->runs);
  if (r->has_reference)
    json_number(out, "reference_ms", r->reference_s * 1e3);
  json_open(out, "results", '[');
  for (int k = 0; k < r->n_leaves; k++)
    leaf_json(out, &r->leaves[k], values);
  json_close(out, ']');
  if (peaks)
    cpu_stats_json(out, options->program, peaks);
  json_close(out, '}');
  hl_buf_free(&rule);
}

// "r0 = s32[2] {1, 2}" for each result, in HLO's spelling.
static void print_values(const HlReplay *r) {
  char name[48];
  HlBuf out = {0};
  for (int k = 0; k < r->n_leaves; k++) {
    hl_buf_printf(&out, "%s = ", leaf_name(&r->leaves[k], name, sizeof name));
    hl_shape_print(&out, r->leaves[k].value->shape, false);
    hl_buf_putc(&out, ' ');
    hl_literal_print(&out, r->leaves[k].value);
    hl_buf_putc(&out, '\n');
  }
  cli_print(&out);
  hl_buf_free(&out);
}

typedef struct Progress {
  const Cli *cli;
  double started, last;
  int64_t executed;
} Progress;

// Called after each instruction: says now and then where a long run stands.
static void show_progress(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Progress *p = user;
  if (device != 0 || (++p->executed & 0xff))
    return;
  double now = hl_now();
  if (now - p->started < 1 || now - p->last < 0.2)
    return;
  p->last = now;
  cli_progress(p->cli, "running, %.0f s: %" PRId64 " instructions done, at %s", now - p->started,
               p->executed, inst->name->text);
}

// Of a module that could not be run, or whose checks did not hold.
static int give_up(Cli *cli, const char *name, const char *platform) {
  if (!cli->json)
    return cli_flush(cli);
  HlBuf *out = &cli->report;
  const HlErrorKind kind = hl_cx_error_kind(cli->cx);
  json_open(out, NULL, '{');
  json_text(out, "module", name);
  json_text(out, "platform", platform);
  if (kind == HL_DIFFERS)
    json_bool(out, "equal", false);
  else
    json_nothing(out, "equal");
  json_close(out, '}');
  return (int)kind;
}

// The snapshot of a run, a failed one's too as far as its arguments were known.
static bool dump_replay(HlCx *cx, const HlModule *came, HlCompiled *compiled, const HlReplay *r,
                        bool ran, const char *platform) {
  for (int d = 0; d < r->devices; d++)
    for (int k = 0; k < r->n_params; k++)
      if (!r->args || !r->args[d] || !r->args[d][k])
        return true;
  HlExecution execution = {.came = came,
                           .ran = hl_compiled_module(compiled),
                           .devices = r->devices,
                           .n_arguments = r->n_params,
                           .arguments = (HlLiteral *const *const *)r->args,
                           .results = ran ? r->results : NULL,
                           .platform = platform};
  return hl_compiled_dump_execution(cx, compiled, &execution);
}

static void report(Cli *cli, const char *path, const HlModule *m, const HlReplay *replay,
                   const HlReplayOptions *options, const HlCpuPeaks *peaks) {
  const bool values = cli_flag(cli, "--print");
  if (!cli_flag(cli, "--stats"))
    peaks = NULL;
  if (cli->json)
    report_json(&cli->report, m, replay, options, values, peaks);
  else if (values)
    print_values(replay);
  if (!cli->json && (!values || peaks || replay->n_compared > 0))
    report_text(path, m, replay, options, peaks);
}

// Where the time of a program went, as far as that is asked for: *out is set to what steps are measured by.
static bool profile(Cli *cli, HlCpuProgram *program, HlCpuPeaks *peaks, const HlCpuPeaks **out) {
  const char *trace = cli_value(cli, "--profile");
  if (!program || (!trace && !cli_flag(cli, "--stats")))
    return true;
  if (!hl_cpu_peaks(cli->cx, program, peaks))
    return false;
  *out = peaks;
  return !trace || cpu_trace_write(cli, trace, program, peaks);
}

static int run_compiled(Cli *cli, const char *path, const HlModule *came, HlCompiled *compiled,
                        const HlRecorded *recorded, const HlReplayOptions *options) {
  HlReplay replay;
  bool ok = hl_replay(cli->cx, came, recorded, options, &replay);
  ok =
      dump_replay(cli->cx, came, compiled, &replay, ok, options->program ? "cpu" : "Interpreter") &&
      ok;
  HlCpuPeaks room;
  const HlCpuPeaks *peaks = NULL;
  ok = ok && profile(cli, options->program, &room, &peaks);
  int status = ok ? CLI_OK : give_up(cli, came->name->text, platform_name(options));
  if (ok && !cli->json)
    cli_flush(cli);
  if (ok) {
    report(cli, path, came, &replay, options, peaks);
    status = cli_worse(status, replay.n_different ? CLI_DIFFERENT : CLI_OK);
  }
  hl_replay_free(&replay);
  return status;
}

// Compiles the module and runs what comes out beside the module itself.
static int run_on_cpu(Cli *cli, const char *path, HlSession *session, const HlModule *m,
                      const HlRecorded *recorded, HlReplayOptions *options) {
  HlCompiled *compiled = hl_compile(cli->cx, session, &(HlProgram){.module = m}, NULL);
  options->program = compiled ? cli_cpu_program(cli, compiled, options) : NULL;
  const int status = options->program ? run_compiled(cli, path, m, compiled, recorded, options)
                                      : give_up(cli, m->name->text, "cpu");
  hl_cpu_unref(options->program);
  hl_compiled_unref(compiled);
  return status;
}

// Takes the module over.
static int run_as_it_is(Cli *cli, const char *path, HlSession *session, HlModule *m,
                        const HlRecorded *recorded, HlReplayOptions *options) {
  const HlCompileOptions as_it_is = {.no_buffers = true, .after = ""};
  const char *name = hl_arena_printf(hl_cx_scratch(cli->cx), "%s", m->name->text);
  HlCompiled *compiled = hl_compile(cli->cx, session, &(HlProgram){.take = m}, &as_it_is);
  const int status =
      compiled ? run_compiled(cli, path, hl_compiled_module(compiled), compiled, recorded, options)
               : give_up(cli, name, "reference");
  hl_compiled_unref(compiled);
  return status;
}

static int run_module(Cli *cli, const char *path, HlSession *session, HlFile *file, int k,
                      HlReplayOptions *options) {
  options->exported = file->exported;
  Progress progress = {.cli = cli, .started = hl_now()};
  if (cli->progress) {
    options->eval.trace = show_progress;
    options->eval.user = &progress;
  }
  HlModule *m = file->modules[k];
  cli_set_partitions(cli, m);
  if (cli_wants_lockstep(cli))
    return cli_lockstep(cli, path, session, file, m, options);
  if (hl_session_platform(session)->has_programs)
    return run_on_cpu(cli, path, session, m, &file->recorded, options);
  file->modules[k] = NULL;
  return run_as_it_is(cli, path, session, m, &file->recorded, options);
}

static bool read_options(Cli *cli, HlReplayOptions *out) {
  const char *results = cli_value(cli, "--save"), *args = cli_value(cli, "--save-args");
  int64_t iterations = 0, replicas = 0;
  int threads;
  *out = (HlReplayOptions){.tolerance.given = cli_value(cli, "--tolerance"),
                           .no_compare = cli_flag(cli, "--no-compare"),
                           .expect = cli_value(cli, "--expect"),
                           .save = results,
                           .save_args = args};
  if (results && args && strcmp(results, args) == 0)
    return cli_usage(cli, "--save and --save-args both write %s", args) == CLI_OK;
  if (!cli_number(cli, "--tolerance", &out->tolerance.value) || !cli_read_inputs(cli, out) ||
      !cli_integer(cli, "--iterations", 0, 1000000, &iterations) ||
      !cli_integer(cli, "--replicas", 1, 65536, &replicas) || !cli_read_threads(cli, &threads) ||
      !cli_has_partitions(cli))
    return false;
  if (!cli_integer(cli, "--max-steps", 1, INT64_MAX, &hl_cx_limits(cli->cx)->eval_steps))
    return false;
  out->eval.no_checks = out->no_compare;
  out->iterations = (int)iterations;
  out->eval.replicas = (int)replicas;
  return true;
}

// The platform that an option names, "none" being NULL. False after a usage error, or that there is none such here.
static bool read_platform(Cli *cli, const char *option, const char *usual, const HlPlatform **out) {
  const char *wish = cli_value(cli, option) ? cli_value(cli, option) : usual;
  const bool is_reference = strcmp(option, "--reference") == 0;
  *out = hl_platform_find(wish);
  if (is_reference && strcmp(wish, "none") == 0)
    return true;
  if (!*out || !(*out)->runs) {
    cli_usage(cli, "unknown platform '%s': %s", wish,
              is_reference ? "reference or none, with --compare-with also cpu" : "reference or cpu");
    return false;
  }
  const bool may_be_compiled = !is_reference || cli_flag(cli, "--compare-with");
  if (strcmp((*out)->name, "reference") == 0 || (may_be_compiled && (*out)->has_programs))
    return true;
  return hl_error_kind(cli->cx, HL_UNSUPPORTED, (HlPos){0},
                       is_reference ? "platform '%s' is no reference; use --reference=reference"
                                    : "platform '%s' is not in this build; use --platform=cpu",
                       wish);
}

static bool check_lockstep(Cli *cli) {
  static const char *const others[] = {"--expect", "--save", "--save-args", "--print", "--iterations", "--stats", "--profile"};
  const char *mode = cli_flag(cli, "--trace") ? "--trace" : "--compare-with";
  if (cli_flag(cli, "--trace") && cli_flag(cli, "--compare-with"))
    return cli_usage(cli, "--trace and --compare-with exclude each other") == CLI_OK;
  if (!cli_wants_lockstep(cli)) {
    static const char *const parts[] = {"--extract", "--memory", "--trace-times", "--trace-values"};
    for (int k = 0; k < HL_COUNT_OF(parts); k++)
      if (cli_flag(cli, parts[k]))
        return cli_usage(cli, "%s is of --compare-with or --trace", parts[k]) == CLI_OK;
    return true;
  }
  for (int k = 0; k < HL_COUNT_OF(others); k++)
    if (cli_flag(cli, others[k]))
      return cli_usage(cli, "%s and %s exclude each other", mode, others[k]) == CLI_OK;
  return true;
}

static int run_all(Cli *cli, HlSession *session, HlFile *file, HlReplayOptions *options) {
  int status = CLI_OK;
  for (int k = 0; k < file->n; k++)
    status = cli_worse(status, run_module(cli, cli->files[0], session, file, k, options));
  return status;
}

static int run_one(Cli *cli, HlSession *session, HlFile *file, HlReplayOptions *options) {
  const HlModule *m = cli_select(cli, file, cli->files[0]);
  for (int k = 0; m && k < file->n; k++)
    if (file->modules[k] == m)
      return run_module(cli, cli->files[0], session, file, k, options);
  return CLI_USAGE;
}

// An option by which a file is written, which the next module would write again. NULL: none is given.
static const char *written_option(Cli *cli) {
  static const char *const all[] = {"--save", "--save-args", "--profile"};
  for (int k = 0; k < HL_COUNT_OF(all); k++)
    if (cli_value(cli, all[k]))
      return all[k];
  return NULL;
}

static int run_modules(Cli *cli, HlSession *session, HlReplayOptions *options) {
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  how.consts_as_parameters = false;
  how.fill_hidden = true;
  if (!hl_load(cli->cx, cli->files[0], &how, &file))
    return CLI_OK;  // the error says more
  const bool one = cli_value(cli, "--module") || file.n == 1;
  const char *written = one ? NULL : written_option(cli);
  int status;
  if (written)
    status = cli_usage(cli, "%s is of one module, and there are %d: name one with --module",
                       written, file.n);
  else
    status = one ? run_one(cli, session, &file, options) : run_all(cli, session, &file, options);
  hl_file_free(&file);
  return status;
}

static int run_file(Cli *cli, HlSession *session, HlReplayOptions *options) {
  cli_begin_file(cli, cli->files[0]);
  if (cli->json)
    json_open(&cli->report, "modules", '[');
  int status = session ? run_modules(cli, session, options) : CLI_OK;
  if (cli->json)
    json_close(&cli->report, ']');
  status = cli_worse(status, cli_end_file(cli));
  cli_end_report(cli);
  return status;
}

static int run(Cli *cli) {
  HlReplayOptions options;
  if (cli->n_files != 1)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "more than one file given");
  if (!read_options(cli, &options))
    return CLI_USAGE;
  const HlPlatform *platform, *reference;
  if (!read_platform(cli, "--platform", "cpu", &platform) ||
      !read_platform(cli, "--reference", "reference", &reference))
    return hl_cx_n_errors(cli->cx) ? cli_flush(cli) : CLI_USAGE;
  if (cli_value(cli, "--profile") && !platform->has_programs)
    return cli_usage(cli, "--profile is of --platform=cpu: other platforms have no steps");
  if (!check_lockstep(cli))
    return CLI_USAGE;
  options.no_reference = !reference;
  HlFlags flags;
  const bool ok = cli_xla_flags(cli, &flags);
  const HlSessionOptions how = {.platform = platform->name, .flags = &flags};
  HlSession *session = ok ? hl_session_new(cli->cx, &how) : NULL;
  int status = run_file(cli, session, &options);
  hl_session_free(session);
  hl_flags_free(&flags);
  return status;
}

static const CliOption options[] = {
    CLI_INPUT_OPTIONS,
    {"--expect", "R.npz", "compare with these results r0, r1, ..."},
    CLI_TOLERANCE_OPTION,
    {"--save", "R.npz", "write the results there"},
    {"--save-args", "A.npz", "write the arguments there, made-up ones too: for another run's --args"},
    {"--print", NULL, "print each result's value, as HLO spells it"},
    {"--iterations", "N", "time N more runs"},
    {"--max-steps", "N", "give up after N instructions (default: never)"},
    {"--platform", "P", "where to run: cpu (compiled; the default) or reference (the interpreter, as it is)"},
    {"--reference", "P", "platform to compare with: reference or none; with --compare-with that of the first program: reference or cpu"},
    {"--threads", "N", "of --platform=cpu (default: as many as this process may use)"},
    {"--onednn", "WHEN",
     "of --platform=cpu: products of bf16 and bytes by oneDNN: auto (where there is AMX; the default), on, off, or a library's file"},
    {"--no-emit", NULL, "of --platform=cpu: make no machine code, which changes no bit"},
    {"--stats", NULL,
     "say what the steps of --platform=cpu are, how long they took, and what of the machine's "
     "peaks "
     "that is"},
    {"--profile", "T.json", "of --platform=cpu: write when each step ran, for Perfetto"},
    {"--perf-map", NULL,
     "of --platform=cpu: name machine code in /tmp/perf-PID.map, for perf (also: HILO_PERF_MAP=1)"},
    {"--gdb", NULL, "of --platform=cpu: tell GDB of machine code (also: HILO_GDB=1)"},
    CLI_LOCKSTEP_OPTIONS,
    {"--no-compare", NULL, "run only"},
    {"--replicas", "N", "logical replicas (default: what the module says)"},
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_run = {
    .name = "run",
    .usage = "FILE [--args A.npz] [--expect R.npz]",
    .summary = "run a module and compare its results",
    .about =
        "Runs the module on the reference interpreter, on as many logical devices as it asks "
        "for: on the\n"
        "arguments given, on those a snapshot recorded, or on made-up ones that respect index "
        "ranges, sort\n"
        "keys and init values. Compares with --expect or with the result a snapshot recorded, "
        "and says where\n"
        "the first difference and the largest error are. Exit status 1: something differs. "
        "With --print the\n"
        "values stand in the place of the report, or before it where there is something to "
        "compare. Checks inside\n"
        "the program (check.expect_eq and others) run with it. Of MLIR main runs, or --entry, or "
        "without main every\n"
        "function without parameters, in each section. XLA's "
        "flags are taken\n"
        "from XLA_FLAGS and from the command line: --xla_dump_to with --xla_dump_hlo_snapshots "
        "keeps what went in\n"
        "and what came out.",
    .examples = "  hilo run m.hlo                                  on made-up inputs\n"
                "  hilo run m.hlo --args a.npz --save r.npz        on these, and keep the results\n"
                "  hilo run m.hlo --args a.npz --expect r.npz      are the results these\n"
                "  hilo run m.hlo --save-args a.npz --save r.npz   keep both, for another version of it\n"
                "  hilo run m.hlo --compare-with opt.hlo           where another version of it goes wrong\n"
                "  hilo run m.hlo --compare-with m.hlo --platform=cpu   where what is compiled goes wrong\n",
    .options = options,
    .reports = true,
    .xla_flags = true,
    .run = run,
};
