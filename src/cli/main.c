// The hilo program: finds the command, reads its options, runs it.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dropin.h"
#include "hilo/version.h"

static const CliCommand *const commands[] = {
#define CMD(name) &cli_##name,
    CLI_COMMANDS(CMD)
#undef CMD
};

static const CliOption common_options[] = {
    {"--json", NULL, "report as JSON on standard output"},
    {"--help", NULL, "show this help"},
    {NULL, NULL, NULL},
};

// Those that a command takes: without a report there is no --json.
static const CliOption *common_options_of(const CliCommand *command) {
  return common_options + (command->reports ? 0 : 1);
}

static const CliCommand *find_command(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    if (strcmp(commands[k]->name, name) == 0)
      return commands[k];
  return NULL;
}

static void print_overview(FILE *to) {
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
      "3 invalid input, 4 not supported, 5 run failed, 6 a limit was reached,\n"
      "7 interrupted.\n");
}

static void print_options(const CliOption *options) {
  for (const CliOption *o = options; o->name; o++) {
    char left[64];
    snprintf(left, sizeof left, o->value ? (o->name[1] == '-' ? "%s=%s" : "%s %s") : "%s", o->name,
             o->value ? o->value : "");
    printf("  %-24s %s\n", left, o->help);
  }
}

static void print_help(const CliCommand *command) {
  printf("usage: hilo %s %s\n\n%s\n\n%s\n\noptions:\n", command->name, command->usage,
         command->summary, command->about);
  print_options(command->options);
  print_options(common_options_of(command));
}

static int unknown_command(const char *name) {
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

static int find_option(const CliOption *options, const char *arg, size_t n) {
  for (int k = 0; options[k].name; k++)
    if (strlen(options[k].name) == n && memcmp(options[k].name, arg, n) == 0)
      return k;
  return -1;
}

static int unknown_option(const Cli *cli, const char *arg, size_t n) {
  const char *names[64];
  int count = 0;
  for (const CliOption *o = cli->command->options; o->name && count < 62; o++)
    names[count++] = o->name;
  for (const CliOption *o = common_options_of(cli->command); o->name; o++)
    names[count++] = o->name;
  const char *near = hl_nearest((HlStr){arg, n}, names, count);
  return cli_usage(cli,
                   near ? "unknown option '%.*s'; did you mean '%s'?" : "unknown option '%.*s'",
                   (int)n, arg, near);
}

// Reads one option at argv[*k], its value perhaps in the next word; returns an exit status, -1 to go on.
static int read_option(Cli *cli, int argc, char **argv, int *k) {
  const char *arg = argv[*k];
  const char *eq = arg[1] == '-' ? strchr(arg, '=') : NULL;
  size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
  int common = find_option(common_options_of(cli->command), arg, n);
  if (common >= 0 && eq)
    return cli_usage(cli, "option '%.*s' takes no value", (int)n, arg);
  if (common >= 0 && arg[2] == 'h') {
    print_help(cli->command);
    return CLI_OK;
  }
  if (common >= 0) {
    cli->json = true;
    return -1;
  }
  int at = find_option(cli->command->options, arg, n);
  if (at < 0)
    return unknown_option(cli, arg, n);
  const CliOption *option = &cli->command->options[at];
  if (!option->value && eq)
    return cli_usage(cli, "option '%s' takes no value", option->name);
  if (option->value && !eq && *k + 1 >= argc)
    return cli_usage(cli, "option '%s' needs a value: %s", option->name, option->value);
  cli->values[at] = !option->value ? "" : eq ? eq + 1 : argv[++*k];
  return -1;
}

static int list_options(const CliCommand *command) {
  for (const CliOption *o = command->options; o->name; o++)
    printf("%s%s\n", o->name, o->value && o->name[1] == '-' ? "=" : "");
  for (const CliOption *o = common_options_of(command); o->name; o++)
    printf("%s\n", o->name);
  return CLI_OK;
}

static int run_command(Cli *cli, int argc, char **argv) {
  bool only_files = false;
  for (int k = 0; k < argc; k++) {
    const char *arg = argv[k];
    if (!only_files && strcmp(arg, "--list-options") == 0)
      return list_options(cli->command);
    if (!only_files && strcmp(arg, "--") == 0) {
      only_files = true;
    } else if (only_files || arg[0] != '-' || arg[1] == 0) {
      cli->files[cli->n_files++] = arg;
    } else {
      if (cli->command->xla_flags && strncmp(arg, "--xla_", 6) == 0) {
        cli->xla_flags[cli->n_xla_flags++] = arg;
        continue;
      }
      int status = read_option(cli, argc, argv, &k);
      if (status >= 0)
        return status;
    }
  }
  return cli->command->run(cli);
}

static int with_context(const CliCommand *command, int argc, char **argv) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  int n_options = 0;
  while (command->options[n_options].name)
    n_options++;
  Cli cli = {.cx = cx,
             .command = command,
             .values = HL_ARRAY(arena, const char *, n_options + 1),
             .files = HL_ARRAY(arena, const char *, argc + 1),
             .xla_flags = HL_ARRAY(arena, const char *, argc + 1)};
  cli.progress = isatty(2) != 0;
  cli.color = isatty(2) && !getenv("NO_COLOR");
  int status = run_command(&cli, argc, argv);
  hl_arena_free(arena);
  hl_cx_free(cx);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "hilo: cannot write to standard output\n");
    return HL_FAILED;
  }
  return status;
}

// The names of XLA's tools that the program answers to.
static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
} dropins[] = {
    {"hlo-opt", dropin_hlo_opt},
    {"run_hlo_module", dropin_run_hlo_module},
};

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int run_program(int argc, char **argv) {
  for (int k = 0; argc > 0 && k < HL_COUNT_OF(dropins); k++)
    if (strcmp(base_name(argv[0]), dropins[k].name) == 0)
      return dropins[k].run(argc - 1, argv + 1);
  if (argc < 2) {
    print_overview(stderr);
    return CLI_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0) {
    printf("hilo %s\n", hl_version());
    return CLI_OK;
  }
  if (strcmp(word, "--list-commands") == 0) {
    for (int k = 0; k < HL_COUNT_OF(commands); k++)
      printf("%s\n", commands[k]->name);
    return CLI_OK;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "help") == 0 || strcmp(word, "-h") == 0) {
    const CliCommand *about = argc > 2 ? find_command(argv[2]) : NULL;
    if (about)
      print_help(about);
    else
      print_overview(stdout);
    return CLI_OK;
  }
  const CliCommand *command = find_command(word);
  return command ? with_context(command, argc - 2, argv + 2) : unknown_command(word);
}

typedef struct Program {
  int argc;
  char **argv;
  int status;
} Program;

static bool try_program(HlCx *cx, void *user) {
  Program *program = user;
  program->status = run_program(program->argc, program->argv);
  return true;
}

// Interrupted, the program ends as soon as its work looks, with the dumps it has written; interrupted by Ctrl-C
// again, at once.
static HlCx *volatile interrupted;

static void interrupt(int signal) {
  if (interrupted)
    hl_cx_cancel(interrupted);
}

// A second Ctrl-C kills; a request to end may come twice (`timeout` sends it to the program and to its group) and means
// the same. What whoever started the program wants to be ignored stays so.
static void listen(HlCx *cx) {
  static const struct { int signal, flags; } heard[] = {{SIGINT, (int)SA_RESETHAND}, {SIGTERM, 0}};
  struct sigaction before;
  interrupted = cx;
  for (int k = 0; k < HL_COUNT_OF(heard); k++) {
    const struct sigaction action = {.sa_handler = interrupt, .sa_flags = heard[k].flags};
    if (sigaction(heard[k].signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(heard[k].signal, &action, NULL);
  }
}

int main(int argc, char **argv) {
  HlCx *cx = hl_cx_new();
  Program program = {argc, argv, CLI_OK};
  listen(cx);
  int status = hl_try(cx, try_program, &program) ? program.status : dropin_flush(cx);
  interrupted = NULL;
  hl_cx_free(cx);
  return status;
}
