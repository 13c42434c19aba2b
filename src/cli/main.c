// The hilo program: finds the command, reads its options, runs it.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dropin.h"
#include "hilo/version.h"

static int find_option(const CliOption *options, const char *arg, size_t n) {
  for (int k = 0; options[k].name; k++)
    if (strlen(options[k].name) == n && memcmp(options[k].name, arg, n) == 0)
      return k;
  return -1;
}

static int unknown_option(const Cli *cli, const char *arg, size_t n) {
  const char *names[64];
  int count = 0;
  for (const CliOption *o = cli->command->options; o->name && count < 48; o++)
    names[count++] = o->name;
  for (const CliOption *o = cli_common_options_of(cli->command); o->name; o++)
    names[count++] = o->name;
  const char *near = hl_nearest((HlStr){arg, n}, names, count);
  return cli_usage(cli,
                   near ? "unknown option '%.*s'; did you mean '%s'?" : "unknown option '%.*s'",
                   (int)n, arg, near);
}

static bool set_color(Cli *cli, const char *wish) {
  const char *term = getenv("TERM");
  const bool may = !getenv("NO_COLOR") && !(term && strcmp(term, "dumb") == 0);
  if (strcmp(wish, "auto") == 0) {
    cli->color = may && isatty(STDERR_FILENO);
    cli->color_out = may && isatty(STDOUT_FILENO);
  } else if (strcmp(wish, "always") == 0 || strcmp(wish, "never") == 0) {
    cli->color = cli->color_out = *wish == 'a';
  } else {
    return cli_usage(cli, "unknown --color '%s': auto, always or never", wish) == CLI_OK;
  }
  return true;
}

// An exit status, -1 to go on.
static int set_common(Cli *cli, const char *name, const char *value) {
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    cli_print_help(cli->command);
    return CLI_OK;
  }
  if (strcmp(name, "--json") == 0)
    cli->json = true;
  else if (strcmp(name, "--quiet") == 0 || strcmp(name, "-q") == 0)
    cli->quiet = true;
  else if (strcmp(name, "--verbose") == 0 || strcmp(name, "-v") == 0)
    cli->verbose = true;
  else if (strcmp(name, "--color") == 0 && !set_color(cli, value))
    return CLI_USAGE;
  else if (strcmp(name, "--limit") == 0 && !cli_limit(cli, value))
    return CLI_USAGE;
  return -1;
}

// Reads one option at argv[*k], its value perhaps in the next word; returns an exit status, -1 to go on.
static int read_option(Cli *cli, int argc, char **argv, int *k) {
  const char *arg = argv[*k];
  const char *eq = arg[1] == '-' ? strchr(arg, '=') : NULL;
  size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
  const CliOption *common = cli_common_options_of(cli->command);
  const int at = find_option(cli->command->options, arg, n), shared = find_option(common, arg, n);
  if (at < 0 && shared < 0)
    return unknown_option(cli, arg, n);
  const CliOption *option = at >= 0 ? &cli->command->options[at] : &common[shared];
  if (!option->value && eq)
    return cli_usage(cli, "option '%s' takes no value", option->name);
  if (option->value && !eq && *k + 1 >= argc)
    return cli_usage(cli, "option '%s' needs a value: %s", option->name, option->value);
  const char *value = !option->value ? "" : eq ? eq + 1 : argv[++*k];
  if (at < 0)
    return set_common(cli, option->name, value);
  cli->values[at] = value;
  return -1;
}

static int run_command(Cli *cli, int argc, char **argv) {
  bool only_files = false;
  for (int k = 0; k < argc; k++) {
    const char *arg = argv[k];
    if (!only_files && strcmp(arg, "--list-options") == 0)
      return cli_list_options(cli->command);
    if (!only_files && strncmp(arg, "--list-values", 13) == 0)
      return cli_list_values(cli->command, arg[13] == '=' ? arg + 14 : NULL);
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
  if (cli->quiet)
    cli->progress = NULL;
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
  const char *term = getenv("TERM");
  CliLine line = {0};
  set_color(&cli, "auto");
  const bool moves = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
  cli.progress = moves ? &line : NULL;
  int status = run_command(&cli, argc, argv);
  hl_buf_free(&cli.report);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return status;
}

// The names of XLA's and ParaGraph's tools that the program answers to.
static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
} dropins[] = {
    {"hlo-opt", dropin_hlo_opt},
    {"run_hlo_module", dropin_run_hlo_module},
    {"hlo_bridge", dropin_hlo_bridge},
    {"graph_converter", dropin_graph_converter},
    {"graph_data_parallel_extender", dropin_graph_extender},
    {"graph_translator", dropin_graph_translator},
    {"simulator", dropin_simulator},
    {"allreduce", dropin_allreduce},
    {"stencil", dropin_stencil},
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
    cli_print_overview(stderr);
    return CLI_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0) {
    printf("hilo %s\n", hl_version());
    return CLI_OK;
  }
  if (strcmp(word, "--list-commands") == 0)
    return cli_list_commands();
  if (strcmp(word, "--help") == 0 || strcmp(word, "help") == 0 || strcmp(word, "-h") == 0) {
    const CliCommand *about = argc > 2 ? cli_find_command(argv[2]) : NULL;
    if (argc > 2 && !about)
      return cli_unknown_command(argv[2]);
    if (about)
      cli_print_help(about);
    else
      cli_print_overview(stdout);
    return CLI_OK;
  }
  const CliCommand *command = cli_find_command(word);
  return command ? with_context(command, argc - 2, argv + 2) : cli_unknown_command(word);
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

// What was printed may turn out not to have been written. Why an earlier write failed nobody has noted: one more, to an
// output that misses a part already, tells.
static int close_output(int status) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  const bool fails = errno || write(STDOUT_FILENO, "\n", 1) < 0;
  fprintf(stderr, "hilo: cannot write to standard output: %s\n",
          fails ? strerror(errno) : "a part is missing");
  return HL_FAILED;
}

int main(int argc, char **argv) {
  cli_prepare_heap();
  HlCx *cx = hl_cx_new();
  Program program = {argc, argv, CLI_OK};
  listen(cx);
  int status = hl_try(cx, try_program, &program) ? program.status : dropin_flush(cx);
  interrupted = NULL;
  hl_cx_free(cx);
  return close_output(status);
}
