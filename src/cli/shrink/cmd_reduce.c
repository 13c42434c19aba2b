// hilo reduce: shrinks a module that fails as long as it fails.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/extract.h"
#include "cli/json.h"
#include "cli/shrink/test.h"
#include "hilo/text.h"

typedef struct Job {
  Cli *cli;
  HlArena *arena;
  HlTest test;
  CliPasses passes;
  HlReduceOptions options;
  HlBuf steps;  // with --json
  int n_steps;
  int64_t best;  // instructions of what is in the file; 0: nothing is
  pid_t owner;
} Job;

// --- Reports --------------------------------------------------------------------------------------------

static void say_step(void *user, const HlReduceStep *step) {
  Job *job = user;
  job->best = step->after;
  if (job->cli->json) {
    json_open(&job->steps, NULL, '{');
    json_text(&job->steps, "phase", step->phase);
    json_text(&job->steps, "gone", step->what);
    json_int(&job->steps, "before", step->before);
    json_int(&job->steps, "after", step->after);
    json_int(&job->steps, "tries", step->tries);
    json_number(&job->steps, "seconds", step->seconds);
    json_close(&job->steps, '}');
    return;
  }
  cli_progress(job->cli, NULL);
  if (job->n_steps++ == 0)
    cli_say(job->cli, "%12s  %6s  %-10s  given up\n", "instructions", "tries", "phase");
  cli_say(job->cli, "%12" PRId64 "  %6" PRId64 "  %-10s  %s\n", step->after, step->tries,
          step->phase, step->what);
  fflush(stdout);
}

static void say_progress(void *user, const HlReduceProgress *at) {
  const Job *job = user;
  cli_progress(job->cli, "%" PRId64 " instructions left, %s, %" PRId64 " tries in %.0f s",
               at->instructions, at->phase, at->tries, at->seconds);
}

static void report_text(Job *job, const HlReduction *r) {
  Cli *cli = job->cli;
  HlBuf rule = {0};
  hl_test_rule(&job->test, &rule);
  cli_say(cli, "%s: %" PRId64 " instruction%s of %" PRId64, r->file, r->after,
          r->after == 1 ? "" : "s", r->before);
  if (r->args)
    cli_say(cli, ", arguments in %s", r->args);
  if (r->verified)
    cli_say(cli, ", still bad");
  cli_say(cli, " (%s: %s); %" PRId64 " tries, %" PRId64 " runs, %.1f s\n", rule.at, r->how,
          r->tries, r->runs, r->seconds);
  if (r->end == HL_REDUCE_TIME)
    cli_say(cli, "  the time was up: what is there may get smaller; --resume goes on\n");
  hl_buf_free(&rule);
}

static void report_json(Job *job, const HlReduction *r) {
  static const char *const ends[] = {"done", "fine", "time", "interrupted"};
  HlBuf *out = &job->cli->report, rule = {0};
  hl_test_rule(&job->test, &rule);
  json_text(out, "test", rule.at);
  json_text(out, "end", ends[r->end]);
  json_int(out, "before", r->before);
  if (r->how)
    json_text(out, "how", r->how);
  if (r->m) {
    const HlTextOptions full = {.large_constants = HL_ON};
    HlBuf text = {0};
    hl_text_print(job->cli->cx, r->m, &full, &text);
    json_int(out, "after", r->after);
    json_bool(out, "verified", r->verified);
    json_text(out, "path", r->file);
    if (r->args)
      json_text(out, "arguments", r->args);
    json_bytes(out, "text", text.at, text.n);
    hl_buf_free(&text);
  }
  json_int(out, "tries", r->tries);
  json_int(out, "runs", r->runs);
  json_int(out, "repeated", r->repeated);
  json_int(out, "invalid", r->invalid);
  json_number(out, "seconds", r->seconds);
  hl_buf_free(&rule);
}

// Where an interruption leaves things.
static void say_where(void *user) {
  const Job *job = user;
  if (job->owner != getpid() || job->best == 0)
    return;
  fflush(stdout);
  fprintf(stderr, "the best so far, %" PRId64 " instructions, is in %s: --resume goes on with it\n",
          job->best, job->options.out);
}

// The exit status that what was found asks for; the errors go into the context.
static int judge(Job *job, const HlModule *m, const HlReduction *r) {
  HlCx *cx = job->cli->cx;
  if (r->end == HL_REDUCE_FINE) {
    hl_error_kind(cx, HL_DIFFERS, (HlPos){0},
                  "module %s is not bad (%s): there is nothing to reduce", m->name->text, r->how);
    hl_hint(cx, job->test.runs > 1 ? "none of its runs was; --runs=N asks more often"
                                   : "if it is at times, --runs=N asks N times");
  } else if (r->end == HL_REDUCE_INTERRUPTED && r->m) {
    hl_error_kind(cx, HL_CANCELLED, (HlPos){0}, "interrupted; the best so far is in %s", r->file);
  } else if (r->end == HL_REDUCE_INTERRUPTED) {
    hl_error_kind(cx, HL_CANCELLED, (HlPos){0}, "interrupted");
  } else if (!r->verified) {
    hl_error_kind(cx, HL_FAILED, (HlPos){0},
                  "%s was bad when it was found, and is not now: the failure comes and goes",
                  r->file);
    hl_hint(cx, "--runs=N asks N times");
  }
  return CLI_OK;
}

static int reduce_module(void *user, const HlFile *file, const HlModule *m) {
  Job *job = user;
  Cli *cli = job->cli;
  HlReduction r;
  job->options.recorded = &file->recorded;
  job->options.exported = file->exported;
  job->owner = getpid();
  base_hold(job, say_where);
  const bool ok = hl_reduce(cli->cx, m, &job->test, &job->options, &r);
  base_drop(job);
  cli_progress(cli, NULL);
  if (ok)
    judge(job, m, &r);
  if (ok && cli->json)
    report_json(job, &r);
  else if (ok && r.m)
    report_text(job, &r);
  hl_reduction_free(&r);
  if (cli->json) {
    json_open(&cli->report, "steps", '[');
    if (job->steps.n > 0)
      hl_buf_add(&cli->report, job->steps.at, job->steps.n);
    json_close(&cli->report, ']');
  }
  return CLI_OK;  // what was reported says the rest
}

// --- Options --------------------------------------------------------------------------------------------

static bool read_test(Cli *cli, Job *job) {
  HlTest *test = &job->test;
  if (!cli_read_test(cli, job->arena, test) || !cli_read_passes(cli, job->arena, &job->passes))
    return false;
  if (job->passes.text && test->n_command > 0)
    return cli_usage(cli, "--passes and --pipeline are a test of their own: give no command") ==
           CLI_OK;
  if (job->passes.text && cli_value(cli, "--mismatch"))
    return cli_usage(cli, "--mismatch and passes are two tests: give one") == CLI_OK;
  if (cli_flag(cli, "--check-each") && !job->passes.text)
    return cli_usage(cli, "--check-each needs --passes or --pipeline") == CLI_OK;
  if (job->passes.text) {
    test->ask = HL_ASK_PASSES;
    test->passes = job->passes.text;
    test->engine = &job->passes.engine;
    test->same_pass = cli_flag(cli, "--check-each") && test->bad == HL_BAD_SAME;
  } else if (test->ask == HL_ASK_RUN && !test->compare && test->bad == HL_BAD_SAME) {
    return cli_usage(cli, "say what is bad: a command behind --, --mismatch, --crash, --passes or "
                          "--pipeline") == CLI_OK;
  }
  return true;
}

static bool is_same_file(const char *a, const char *b) {
  struct stat x, y;
  return a && b && stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino && S_ISREG(x.st_mode);
}

// What fails must not be lost for something smaller. (Who resumes with OUT itself has it so.)
static bool keeps_inputs(Cli *cli, const Job *job) {
  const char *out = job->options.out, *args = cli_beside(job->arena, out, ".npz");
  if (cli_flag(cli, "--resume"))
    return true;
  if (is_same_file(out, cli->files[0]))
    return cli_usage(cli, "-o names FILE itself, which would be lost: give another name") == CLI_OK;
  if (is_same_file(args, job->options.args) || is_same_file(args, cli->files[0]))
    return cli_usage(cli, "the arguments would be written over %s: give another -o", args) ==
           CLI_OK;
  return true;
}

static bool read_options(Cli *cli, Job *job) {
  HlReduceOptions *o = &job->options;
  int64_t jobs = 1;
  const char *path = cli->files[0];
  *o = (HlReduceOptions){.args = cli_value(cli, "--args"),
                         .keep_inputs = cli_flag(cli, "--keep-inputs"),
                         .keep_sizes = cli_flag(cli, "--keep-sizes"),
                         .keep_types = cli_flag(cli, "--keep-types"),
                         .keep_names = cli_flag(cli, "--keep-names"),
                         .step = say_step,
                         .progress = say_progress,
                         .user = job};
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  jobs = cores > 1 ? cores / 2 : 1;
  if (!cli_integer(cli, "--jobs", 1, 64, &jobs) || !cli_number(cli, "--for", &o->seconds))
    return false;
  o->jobs = (int)jobs;
  o->out = cli_value(cli, "-o");
  if (!o->out && strcmp(path, "-") == 0)
    return cli_usage(cli, "of standard input give -o OUT") == CLI_OK;
  if (!o->out) {
    const char *slash = strrchr(path, '/');
    o->out = cli_beside(job->arena, slash ? slash + 1 : path, ".reduced.hlo");
  }
  if (strcmp(o->out, "-") == 0)
    return cli_usage(cli, "the best is written again and again: -o needs the name of a file") ==
           CLI_OK;
  return keeps_inputs(cli, job);
}

// With --resume the file that an earlier call left, if it is there, is what to go on from.
static const char *where_to_begin(Cli *cli, Job *job) {
  if (!cli_flag(cli, "--resume") || access(job->options.out, R_OK) != 0)
    return cli->files[0];
  const char *args = cli_beside(job->arena, job->options.out, ".npz");
  if (access(args, R_OK) == 0)
    job->options.args = args;
  return job->options.out;
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  Job job = {.cli = cli, .arena = hl_arena_new()};
  int status = CLI_USAGE;
  if (read_test(cli, &job) && read_options(cli, &job) && cli_has_partitions(cli))
    status = cli_with_module(cli, where_to_begin(cli, &job), reduce_module, &job);
  else
    cli_flush(cli);
  cli_passes_free(&job.passes);
  hl_buf_free(&job.steps);
  hl_arena_free(job.arena);
  return status;
}

static const CliOption options[] = {
    CLI_TEST_OPTIONS,
    {"--passes", "LIST", "bad is: these passes, as of 'hilo opt', change a result"},
    CLI_PASSES_OPTIONS,
    {"--check-each", NULL, "of passes: bad is only the pass and rule that the first try names"},
    {"--jobs", "N", "tries at a time (default: half of the processors); the result is the same"},
    {"--for", "S", "stop looking for less after so many seconds (default: never)"},
    {"-o", "OUT",
     "where the best so far is written after each success (default: FILE.reduced.hlo, here)"},
    {"--resume", NULL, "begin with what stands in OUT, if it is there"},
    {"--keep-inputs", NULL, "leave the values of arguments alone"},
    {"--keep-sizes", NULL, "leave the sizes of dimensions alone, and their number"},
    {"--keep-types", NULL, "leave element types alone"},
    {"--keep-names", NULL, "leave names alone"},
    {"--args", "A.npz", "arguments a0, a1, ...; default: recorded or made up"},
    {"--seed", "N", "of made-up arguments and random ops (42)"},
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_reduce = {
    .name = "reduce",
    .usage = "FILE [TEST] [-o OUT] [-- COMMAND...]",
    .summary = "shrink a module that fails",
    .about =
        "Makes a module smaller as long as it is bad: gives up results, computations, "
        "instructions (whose values\n"
        "become parameters), loops, branches and fusions (for their bodies), sizes, attributes, "
        "constants, the values of\n"
        "arguments. Bad is what the command says by an exit status other than 0, for the file "
        "whose name it gets: {} in\n"
        "one of its words, or last; {args} is a file with the arguments. Or one of the tests built "
        "in. Every try is a\n"
        "process of its own under limits of time and memory, so the test may crash, hang, and fail "
        "only at times (--runs,\n"
        "--need). The best so far is in OUT all the time; Ctrl-C ends, --resume goes on. Exit "
        "status 0: OUT is bad still;\n"
        "1: the module is not bad; 5: OUT was bad, and is not now; 7: interrupted.",
    .examples =
        "  hilo reduce m.hlo -- ./is_bad.sh                      what the script says\n"
        "  hilo reduce m.hlo --crash -- hlo-opt --platform=gpu   what a compiler dies of\n"
        "  hilo reduce m.hlo --pattern='Check failed' -- sh -c 'xla_run {} 2>&1'\n"
        "  hilo reduce m.hlo --mismatch=cpu                      wrong results of the cpu backend\n"
        "  hilo reduce m.hlo --mismatch=xla --python=venv/bin/python    of XLA's\n"
        "  hilo reduce m.hlo --pipeline=gpu --check-each         the pass that changes a result\n"
        "  hilo reduce m.hlo --runs=20 -- ./flaky.sh             a failure of now and then\n",
    .options = options,
    .reports = true,
    .run = run,
};
