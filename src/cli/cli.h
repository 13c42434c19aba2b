// cli/cli.h: what the commands share: options, files, output, exit statuses.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "hilo/text.h"
#include "hilo/flags.h"
#include "hilo/ir.h"
#include "hilo/tool.h"

// Exit statuses (design: the command line). Kinds of errors use their own numbers: HlErrorKind.
enum { CLI_OK = 0, CLI_DIFFERENT = 1, CLI_USAGE = 2 };

typedef struct CliOption {
  const char *name;   // "--tolerance", or "-o"
  const char *value;  // what stands for the value in the help; NULL: a flag
  const char *help;
} CliOption;

// When results differ: `run` and `opt --check-each` have one rule (hl_compare_rule says it in reports).
#define CLI_TOLERANCE_OPTION                                                                      \
  {                                                                                               \
    "--tolerance", "T",                                                                           \
        "floats differ if |a-e| > T*max(1, max|e|) + 10*T*|e|; default, as in XLA and less "      \
        "strict: if absolute and relative error are both beyond 1e-3 (f64 1e-6, f16 1e-2, bf16 "  \
        "2e-2, narrower 0.25)"                                                                    \
  }

typedef struct Cli Cli;
typedef struct CliCommand {
  const char *name;
  const char *usage;         // what follows the command's name
  const char *summary;       // one line
  const char *about;         // paragraphs for --help and the man page
  const char *examples;      // lines "COMMAND  what it does", of which the man page makes a section
  const CliOption *options;  // ends with name NULL
  bool reports;              // prints a report, also as --json
  bool xla_flags;            // takes XLA's flags: --xla_...
  int (*run)(Cli *cli);      // the exit status
} CliCommand;

struct Cli {
  HlCx *cx;
  const CliCommand *command;
  const char **values;  // parallel to command->options; flags hold ""
  const char **files;   // operands
  int n_files;
  const char **xla_flags;  // as given
  int n_xla_flags;
  bool json, color, quiet, verbose;
  bool color_out;            // of what goes to standard output; color: of diagnostics
  HlBuf report;              // of --json (cli/json.h)
  struct CliLine *progress;  // NULL: nothing is said of it
};

// The line that says how far the work is: on a terminal's standard error, alone.
typedef struct CliLine {
  bool drawn;
  double last;
} CliLine;

// The value of an option of the running command; NULL when it was not given.
const char *cli_value(const Cli *cli, const char *name);
static inline bool cli_flag(const Cli *cli, const char *name) {
  return cli_value(cli, name) != NULL;
}
// A number option: false and a usage message when it is not one. `*out` keeps its value if absent.
bool cli_number(const Cli *cli, const char *name, double *out);
bool cli_integer(const Cli *cli, const char *name, int64_t low, int64_t high, int64_t *out);

// NAME=N of --limit. False after a usage message.
bool cli_limit(Cli *cli, const char *text);

// XLA's flags, from XLA_FLAGS and then from the command line. False after reporting; free in either case.
bool cli_xla_flags(const Cli *cli, HlFlags *out);

// heap.c: first of all.
void cli_prepare_heap(void);

// Says what is wrong with the call, on standard error; returns CLI_USAGE.
int cli_usage(const Cli *cli, const char *format, ...) HL_PRINTF(2, 3);
// Prints the context's diagnostics from `first` on to standard error and forgets them; returns the exit
// status that the first error asks for (0 without errors).
int cli_flush(Cli *cli);
// The worse of two exit statuses: an error over a difference over success.
int cli_worse(int a, int b);
// Writes all to standard output.
void cli_print(const HlBuf *buf);
// text.c: appends a module as text; where -o says a file, a note says what was left out of it.
void cli_print_module(Cli *cli, const HlModule *m, const HlTextOptions *options, HlBuf *out);
// The same of what --quiet leaves out: a line that says that all is well.
void cli_say(const Cli *cli, const char *format, ...) HL_PRINTF(2, 3);
// Whether a form's bytes may go to `path`: binary is not written to a terminal. Else a usage message.
bool cli_may_write(const Cli *cli, const char *path, bool is_binary);

// The files an operand stands for: itself, or, for a directory, the files in it (sorted, recursive). Of these, modules by
// name or content that cannot be read are errors; the rest is skipped, counted, and named with --verbose.
typedef struct CliPath {
  char *at;      // heap memory
  int operand;   // which
  bool listed;   // found in a directory, not named by the user
} CliPath;
typedef struct CliFiles {
  CliPath *at;
  int n;
  int skipped;
  int *modules;  // of each operand: how many files were modules
} CliFiles;
// The files of a command that wants some: the exit status if there are none, to be returned then.
int cli_take_files(Cli *cli, CliFiles *out);
// Loads one of them. False after reporting, or when a file found in a directory is no module at all: *skipped then.
bool cli_load(Cli *cli, CliFiles *files, int k, const HlLoadOptions *options, HlFile *out,
              bool *skipped);
// Ends: a directory without a module is an error, reported. Frees; the exit status.
int cli_end_files(Cli *cli, CliFiles *files);
void cli_files_free(CliFiles *files);
// A line that replaces itself on a terminal's standard error; NULL clears it.
void cli_progress(const Cli *cli, const char *format, ...) HL_PRINTF(2, 3);

// --- Help (help.c) ---
extern const CliOption cli_common_options[];
// Those that a command takes: without a report there is no --json.
const CliOption *cli_common_options_of(const CliCommand *command);
const CliCommand *cli_find_command(const char *name);
void cli_print_overview(FILE *to);
void cli_print_help(const CliCommand *command);
// For completion: the commands; a command's options, and the values of one of them or of its operands (option NULL), a line
// each. Exit statuses.
int cli_list_commands(void);
int cli_list_options(const CliCommand *command);
int cli_list_values(const CliCommand *command, const char *option);
int cli_unknown_command(const char *name);
void cli_list_forms(void);    // of convert --to
void cli_list_presets(void);  // of convert --print
// Paragraphs for help that tells of what stands in the environment.
void cli_print_environment(bool xla_flags);

// The commands, in the order --help shows them; each lives in cmd_<name>.c.
#define CLI_COMMANDS(CMD) \
  CMD(check) CMD(convert) CMD(stats) CMD(diff) CMD(index) CMD(find) CMD(clean) CMD(view) \
  CMD(extract) CMD(slice) CMD(reduce) CMD(bisect) CMD(run) CMD(opt) CMD(rewrite) CMD(replay) CMD(env) CMD(passes) CMD(targets) CMD(sim) \
  CMD(history) CMD(explore) CMD(tour) CMD(bench) CMD(lsp) CMD(docs)
#define CMD(name) extern const CliCommand cli_##name;
CLI_COMMANDS(CMD)
#undef CMD

#endif
