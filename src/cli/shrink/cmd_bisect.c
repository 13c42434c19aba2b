// hilo bisect: the first pass, and the first rewrite, after which a module is bad.
#include <inttypes.h>
#include <string.h>

#include "cli/json.h"
#include "cli/shrink/test.h"
#include "hilo/bisect.h"

typedef struct Job {
  Cli *cli;
  HlArena *arena;
  HlTest test;
  CliPasses passes;
  HlBisectOptions options;
} Job;

static void say_progress(void *user, const char *what, int64_t asked) {
  cli_progress(user, "%s, %" PRId64 " states asked about", what, asked);
}

// --- Reports --------------------------------------------------------------------------------------------

static void indent(const char *title, const char *text) {
  if (!text || !*text)
    return;
  printf("  %s\n", title);
  while (*text) {
    const size_t n = strcspn(text, "\n");
    printf("    %.*s\n", (int)n, text);
    text += n + (text[n] == '\n');
  }
}

static void found_text(const Job *job, const HlBisection *b) {
  const HlRewrite *r = &b->rewrite;
  const bool xla = job->options.xla;
  printf("%spass %s", xla ? "XLA's " : "", b->pass);
  if (b->pipeline && *b->pipeline && strcmp(b->pipeline, "passes") != 0)
    printf(" of %s", b->pipeline);
  printf(b->crashed ? ", the one after state %d of %d, does not end (%s)\n"
                    : " makes state %d of %d bad (%s)\n",
         b->crashed ? b->n_states - 1 : b->number, b->n_states - 1, b->how ? b->how : "");
  if (r->rule) {
    printf("  rewrite %" PRId64 ": rule %s on '%s' in %s", b->fuel, r->rule, r->inst, r->comp);
    if (*r->with)
      printf(", with '%s'", r->with);
    printf("\n  --fuel=%" PRId64 " is not bad yet\n", b->fuel - 1);
    indent("before", r->before);
    indent("after", r->after);
  } else if (!xla) {
    printf("  no single rewrite of it makes the difference\n");
  }
  if (b->bad_without != HL_USUAL)
    printf(b->bad_without == HL_ON ? "  without it (--xla_disable_hlo_passes=%s) it is bad still\n"
                                   : "  without it (--xla_disable_hlo_passes=%s) all is well\n",
           b->pass);
  if (b->good)
    printf("  the state before: %s\n", b->good);
  if (b->bad)
    printf("  the bad state: %s\n", b->bad);
}

static void report_text(const Job *job, const HlModule *m, const HlBisection *b) {
  cli_progress(job->cli, NULL);
  switch (b->end) {
  case HL_BISECT_FINE:
    printf("module %s is not bad after any of the %d pass%s that changed it%s%s\n", m->name->text,
           b->n_states - 1, b->n_states == 2 ? "" : "es", b->how ? "; but " : "",
           b->how ? b->how : "");
    break;
  case HL_BISECT_BAD_FIRST:
    printf("module %s is bad before any pass (%s): 'hilo reduce' makes it small\n", m->name->text,
           b->how);
    break;
  case HL_BISECT_BEHIND:
    printf(
        "XLA's passes keep module %s good, and what comes of it is bad: the fault is behind them\n",
        m->name->text);
    break;
  default: found_text(job, b);
  }
  cli_say(job->cli, "  %" PRId64 " state%s asked about, %" PRId64 " run%s, %.1f s\n", b->states,
          b->states == 1 ? "" : "s", b->runs, b->runs == 1 ? "" : "s", b->seconds);
}

static void report_json(const Job *job, const HlBisection *b) {
  static const char *const ends[] = {"found", "fine", "bad_first", "behind"};
  HlBuf *out = &job->cli->report, rule = {0};
  hl_test_rule(&job->test, &rule);
  json_text(out, "test", rule.at);
  json_text(out, "end", ends[b->end]);
  json_int(out, "states", b->n_states);
  if (b->pass) {
    json_text(out, "pass", b->pass);
    json_text(out, "pipeline", b->pipeline ? b->pipeline : "");
    json_int(out, "number", b->number);
    json_bool(out, "crashed", b->crashed);
  }
  if (b->how)
    json_text(out, "how", b->how);
  if (b->rewrite.rule) {
    json_int(out, "fuel", b->fuel);
    json_open(out, "rewrite", '{');
    json_text(out, "pass", b->rewrite.pass);
    json_text(out, "rule", b->rewrite.rule);
    json_text(out, "computation", b->rewrite.comp);
    json_text(out, "instruction", b->rewrite.inst);
    json_text(out, "with", b->rewrite.with);
    json_text(out, "before", b->rewrite.before ? b->rewrite.before : "");
    json_text(out, "after", b->rewrite.after ? b->rewrite.after : "");
    json_close(out, '}');
  }
  if (b->bad_without != HL_USUAL)
    json_bool(out, "bad_without", b->bad_without == HL_ON);
  if (b->good)
    json_text(out, "good", b->good);
  if (b->bad)
    json_text(out, "bad", b->bad);
  json_int(out, "asked", b->states);
  json_int(out, "runs", b->runs);
  json_number(out, "seconds", b->seconds);
  hl_buf_free(&rule);
}

static int bisect_module(void *user, const HlFile *file, const HlModule *m) {
  Job *job = user;
  Cli *cli = job->cli;
  HlBisection b;
  job->options.recorded = &file->recorded;
  job->options.exported = file->exported;
  const bool ok = hl_bisect(cli->cx, m, &job->test, &job->options, &b);
  cli_progress(cli, NULL);
  if (ok && cli->json)
    report_json(job, &b);
  else if (ok)
    report_text(job, m, &b);
  const int status = ok && b.end != HL_BISECT_FINE ? CLI_DIFFERENT : CLI_OK;
  hl_bisection_free(&b);
  return status;
}

// --- Options --------------------------------------------------------------------------------------------

static bool read_options(Cli *cli, Job *job) {
  HlTest *test = &job->test;
  if (!cli_read_test(cli, job->arena, test) || !cli_read_passes(cli, job->arena, &job->passes) ||
      !cli_has_partitions(cli))
    return false;
  const bool xla = cli_flag(cli, "--xla-passes");
  if (!job->passes.text && !xla)
    return cli_usage(cli, "say whose passes: --passes, --pipeline or --xla-passes") == CLI_OK;
  if (job->passes.text && xla)
    return cli_usage(cli, "--xla-passes are all of XLA's: give neither --passes nor --pipeline") ==
           CLI_OK;
  if (test->ask == HL_ASK_RUN && !test->compare && test->bad == HL_BAD_SAME)
    test->ask = HL_ASK_EXPECT;
  job->options = (HlBisectOptions){.passes = job->passes.text,
                                   .engine = &job->passes.engine,
                                   .xla = xla,
                                   .args = cli_value(cli, "--args"),
                                   .folder = cli_value(cli, "-o"),
                                   .progress = say_progress,
                                   .user = cli};
  return true;
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  Job job = {.cli = cli, .arena = hl_arena_new()};
  int status = CLI_USAGE;
  if (read_options(cli, &job))
    status = cli_with_module(cli, cli->files[0], bisect_module, &job);
  else
    cli_flush(cli);
  cli_passes_free(&job.passes);
  hl_arena_free(job.arena);
  return status;
}

static const CliOption options[] = {
    {"--passes", "LIST", "passes to run, as of 'hilo opt'"},
    CLI_PASSES_OPTIONS,
    {"--xla-passes", NULL,
     "XLA's own passes for the cpu: jaxlib compiles once and dumps its states (--python)"},
    CLI_TEST_OPTIONS,
    {"-o", "DIR", "write the state before and the first bad one there: good.hlo, bad.hlo"},
    {"--args", "A.npz", "arguments a0, a1, ...; default: recorded or made up"},
    {"--seed", "N", "of made-up arguments and random ops (42)"},
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_bisect = {
    .name = "bisect",
    .usage = "FILE --passes=LIST|--pipeline=NAME|--xla-passes [-- COMMAND...]",
    .summary = "find the first bad pass and rewrite",
    .about =
        "Runs passes over the module and finds, by halving, the first after which it is bad, and "
        "of "
        "that pass the\n"
        "first rewrite. Bad is what the command says by an exit status other than 0 (as of 'hilo "
        "reduce'); without one,\n"
        "that the interpreter gives other results than for the module as it came. A pass that "
        "crashes or hangs is found,\n"
        "too. With --xla-passes they are XLA's: jaxlib compiles the module and dumps its state "
        "after "
        "every pass; the states\n"
        "are judged here, and XLA compiles again without the pass that was found. Exit status 1: "
        "something was found.",
    .examples =
        "  hilo bisect m.hlo --pipeline=gpu                      which pass changes a result\n"
        "  hilo bisect m.hlo --pipeline=cpu -o d -- ./is_bad.sh  after which the script complains\n"
        "  hilo bisect m.hlo --pipeline=cpu-native --mismatch=cpu   after which the cpu's code is "
        "wrong\n"
        "  hilo bisect m.hlo --xla-passes --python=venv/bin/python  which of XLA's changes a "
        "result\n",
    .options = options,
    .reports = true,
    .run = run,
};
