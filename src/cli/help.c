// cli/help.c: what the program says of itself: help, and words for completion.
#include <string.h>

#include "cli/cli.h"
#include "hilo/opt.h"
#include "hilo/trajectory.h"
#include "hilo/session.h"
#include "hilo/target.h"

static const CliCommand *const commands[] = {
#define CMD(name) &cli_##name,
    CLI_COMMANDS(CMD)
#undef CMD
};

const CliOption cli_common_options[] = {
    {"--json", NULL, "report as JSON on standard output (docs/json.md)"},
    {"--help", NULL, "show this help; also -h"},
    {"-h", NULL, ""},
    {"--quiet", NULL, "say only what is wrong: no progress, notes, warnings or 'ok'; also -q"},
    {"-q", NULL, ""},
    {"--verbose", NULL, "name the files of a directory that are skipped; also -v"},
    {"-v", NULL, ""},
    {"--color", "WHEN", "of diagnostics and reports: auto (default), always, never"},
    {"--limit", "NAME=N", "raise or lower a limit; an error of one names it"},
    {NULL, NULL, NULL},
};

const CliOption *cli_common_options_of(const CliCommand *command) {
  return cli_common_options + (command->reports ? 0 : 1);
}

const CliCommand *cli_find_command(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    if (strcmp(commands[k]->name, name) == 0)
      return commands[k];
  return NULL;
}

int cli_unknown_command(const char *name) {
  const char *names[HL_COUNT_OF(commands)];
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    names[k] = commands[k]->name;
  const char *near = hl_nearest(hl_str(name), names, HL_COUNT_OF(commands));
  fprintf(stderr, "hilo: unknown command '%s'", name);
  if (near)
    fprintf(stderr, "; did you mean '%s'?", near);
  fprintf(stderr, "\n      'hilo --help' lists the commands\n");
  return CLI_USAGE;
}

// --- Help ---------------------------------------------------------------------------------------

// What the program asks the environment for.
static const CliOption environment[] = {
    {"XLA_FLAGS", NULL,
     "XLA's flags, or the name of a file that holds them; read before those given"},
    {"NO_COLOR", NULL, "set: diagnostics have no colour"},
    {"TERM", NULL, "dumb: neither colour nor progress"},
    {NULL, NULL, NULL},
};

static void print_options(FILE *to, const CliOption *options) {
  for (const CliOption *o = options; o->name; o++) {
    char left[64];
    if (!*o->help)  // another spelling, named beside the first
      continue;
    snprintf(left, sizeof left, o->value ? (o->name[1] == '-' ? "%s=%s" : "%s %s") : "%s", o->name,
             o->value ? o->value : "");
    fprintf(to, "  %-24s %s\n", left, o->help);
  }
}

static void print_environment(FILE *to, bool xla_flags) {
  fprintf(to, "\nenvironment:\n");
  print_options(to, environment + !xla_flags);
}

void cli_print_environment(bool xla_flags) {
  print_environment(stdout, xla_flags);
}

static const char examples[] =
    "  hilo check m.hlo                       is it valid\n"
    "  hilo convert m.mlir --to=hlo           StableHLO as HLO\n"
    "  hilo view m.hlo -o m.html              a map of it, as a page\n"
    "  hilo run m.hlo                         its results on the cpu, and by the interpreter\n"
    "  hilo opt m.hlo --pipeline=gpu          what XLA:GPU makes of it\n"
    "  hilo history dump/                     which pass did what\n";

void cli_print_overview(FILE *to) {
  fprintf(to, "usage: hilo COMMAND [options] FILE...\n\nHilo reads, checks, converts and runs "
              "XLA's HLO.\n\n");
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    fprintf(to, "  %-9s %s\n", commands[k]->name, commands[k]->summary);
  fprintf(
      to,
      "\nA FILE is HLO (text, a proto, a snapshot, a text proto), MLIR (StableHLO, MHLO, a "
      "portable\n"
      "artifact) or a jaxpr, told by its content; gzip and zstd are seen through; '-' is standard\n"
      "input; a directory means the modules in it.\n"
      "'hilo COMMAND --help' tells more. Exit status: 0 done, 1 a difference was found, 2 usage,\n"
      "3 invalid input, 4 not supported, 5 a run failed or output cannot be written, 6 a limit "
      "was\n"
      "reached, 7 interrupted.\n"
      "\nexamples:\n%s",
      examples);
  print_environment(to, true);
}

void cli_print_help(const CliCommand *command) {
  printf("usage: hilo %s %s\n\n%s\n\n%s\n\noptions:\n", command->name, command->usage,
         command->summary, command->about);
  print_options(stdout, command->options);
  print_options(stdout, cli_common_options_of(command));
  if (command->examples)
    printf("\nexamples:\n%s", command->examples);
  cli_print_environment(command->xla_flags);
}

// --- Completion ---------------------------------------------------------------------------------

int cli_list_commands(void) {
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    printf("%s\n", commands[k]->name);
  return CLI_OK;
}

int cli_list_options(const CliCommand *command) {
  for (const CliOption *o = command->options; o->name; o++)
    printf("%s%s\n", o->name, o->value && o->name[1] == '-' ? "=" : "");
  for (const CliOption *o = cli_common_options_of(command); o->name; o++)
    printf("%s%s\n", o->name, o->value ? "=" : "");
  return CLI_OK;
}

static void list_passes(void) {
  for (int k = 0; k < hl_passes.n; k++)
    printf("%s\n", hl_passes.at[k].name);
}

static void list_pipelines(void) {
  for (int k = 0; k < hl_pipelines.n; k++)
    printf("%s\n", hl_pipelines.at[k].name);
}

static void list_passes_and_pipelines(void) {
  list_passes();
  list_pipelines();
}

static void list_targets(void) {
  const HlTarget *t;
  for (int k = 0; (t = hl_target_at(k)); k++)
    printf("%s\n", t->name);
}

static void list_ops(void) {
  for (int k = 0; k < HL_OP_COUNT; k++)
    printf("%s\n", hl_op_text((HlOp)k));
}

static void list_envs(void) {
  for (int k = 0; hl_env_spec_at(k); k++)
    printf("%s\n", hl_env_spec_at(k)->name);
}

static void list_policies(void) {
  for (int k = 0; hl_policy_at(k); k++)
    printf("%s\n", hl_policy_at(k)->name);
}

static void list_metrics(void) {
  for (int k = 0; hl_env_metric_name(k); k++)
    printf("%s\n", hl_env_metric_name(k));
}

static void list_rules(void) {
  for (int k = 0; k < hl_passes.n; k++)
    for (const HlRule *rule = hl_passes.at[k].rules; rule && rule->name; rule++)
      printf("%s\n", rule->name);
}

// What may stand for an option's value or, without one, for operands that are no files: words, or what a table has.
static const struct {
  const char *command, *option;  // command NULL: any
  const char *words;             // one a line
  void (*list)(void);
} values[] = {
    {NULL, "--color", "auto\nalways\nnever\n", NULL},
    {NULL, "--limit",
     "instructions=\nnesting=\ntuple_leaves=\nliteral_bytes=\nfile_bytes=\neval_bytes=\neval_steps="
     "\ndevices=\n",
     NULL},
    {"convert", "--to", NULL, cli_list_forms},
    {"convert", "--print", NULL, cli_list_presets},
    {"view", "--to", "map\nhtml\nsvg\ndot\nmodel-explorer\n", NULL},
    {"view", "--target", "cpu\ngpu\nnative\n", list_targets},
    {"opt", "--to", NULL, cli_list_forms},
    {"opt", "--print", NULL, cli_list_presets},
    {"opt", "--passes", NULL, list_passes_and_pipelines},
    {"opt", "--pipeline", NULL, list_pipelines},
    {"opt", "--target", "cpu\ngpu\nnative\n", list_targets},
    {"rewrite", "--env", NULL, list_envs},
    {"rewrite", "--policy", NULL, list_policies},
    {"rewrite", "--metric", NULL, list_metrics},
    {"rewrite", "--reward", "delta\nrelative\nabsolute\n", NULL},
    {"rewrite", "--actions", "one\nall\nsites\npasses\n", NULL},
    {"rewrite", "--target", "cpu\ngpu\nnative\n", list_targets},
    {"rewrite", "--to", NULL, cli_list_forms},
    {"rewrite", "--extract", "all\ngreedy\nshared\nlocal\nexact\nrandom\n", NULL},
    {"rewrite", "--engine-rules", NULL, list_passes_and_pipelines},
    {"rewrite", "--compile", NULL, list_passes_and_pipelines},
    {"stats", "--target", "cpu\ngpu\nnative\n", list_targets},
    {"tour", "--pipeline", "cpu\ncpu-native\ngpu\n", NULL},
    {"stats", "--by", "instruction\nop\nscope\nsource\ncomputation\nloop\n", NULL},
    {"stats", "--sort", "time\nflops\nbytes\ntranscendentals\ncollective\nsteps\n", NULL},
    {"opt", "--dump-as", "full\ndelta\n", NULL},
    {"opt", "--break-rule", NULL, list_rules},
    {"diff", "--ignore",
     "op\nshape\nlayout\noperands\nattributes\nconstants\nsharding\nmetadata\nconfig\nfrontend\ncontrol\nchannels\norder\n"
     "names\nheader\n",
     NULL},
    {"run", "--platform", "reference\ncpu\n", NULL},
    {"run", "--reference", "reference\nnone\n", NULL},
    {"run", "--onednn", "auto\non\noff\n", NULL},
    {"convert", "--elided", "keep\nrandom\n", NULL},
    {"run", "--elided", "random\nzero\nrefuse\n", NULL},
    {"explore", "--format", "html\nsvg\ndot\nnone\n", NULL},
    {"sim", "--compat", "paragraph\n", NULL},
    {"sim", "--form", "pb\ntextproto\n", NULL},
    {"sim", "--branches", "draw\nworst\n", NULL},
    {"bench", "--elided", "random\nzero\nrefuse\n", NULL},
    {"find", "--stage", "jaxpr\nstablehlo\nbefore\nstep\nafter\nsnapshot\nother\n", NULL},
    {"find", "--op", NULL, list_ops},
    {"find", "--after", NULL, list_passes},
    {"passes", NULL, NULL, list_passes_and_pipelines},
    {"targets", NULL, "native\n", list_targets},
    {"bench", NULL, "parse\nprint\ncompile\nrun\n", NULL},
    {"docs", NULL, "ops\npasses\nrules\ntargets\nflags\n", NULL},
};

int cli_list_values(const CliCommand *command, const char *option) {
  for (int k = 0; k < HL_COUNT_OF(values); k++) {
    const char *of = values[k].option;
    if ((values[k].command && strcmp(values[k].command, command->name) != 0) ||
        (of ? !option || strcmp(of, option) != 0 : option != NULL))
      continue;
    if (values[k].words)
      printf("%s", values[k].words);
    if (values[k].list)
      values[k].list();
  }
  return CLI_OK;
}
