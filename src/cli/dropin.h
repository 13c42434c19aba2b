// cli/dropin.h: the program under the names of other projects' tools, with their flags and their output.
#ifndef CLI_DROPIN_H
#define CLI_DROPIN_H

#include "cli/cli.h"
#include "hilo/flags.h"

// What --NAME=VALUE sets: a bool (bare --NAME is true), an integer, a number or a text.
typedef enum DropinKind { DROPIN_BOOL, DROPIN_INT, DROPIN_NUMBER, DROPIN_TEXT } DropinKind;
typedef struct DropinFlag {
  const char *name;
  DropinKind kind;
  void *value;
  const char *help;
} DropinFlag;

// What stands on the command line besides the tool's flags.
typedef struct DropinWords {
  const char **files;
  int n_files;
  bool help;
} DropinWords;

// Reads the command line by XLA's grammar (tools.md 1.1): the tool's flags, ended by a NULL name, then XLA's own
// into `flags` (after XLA_FLAGS and --debug_options_file). False after reporting.
bool dropin_read(HlCx *cx, int argc, char **argv, const DropinFlag *table, HlFlags *flags,
                 HlArena *arena, DropinWords *out);
void dropin_help(const char *usage, const char *about, const DropinFlag *table,
                 const char *examples);
// Prints what the context holds on standard error; an exit status.
int dropin_flush(HlCx *cx);

int dropin_hlo_opt(int argc, char **argv);
int dropin_run_hlo_module(int argc, char **argv);

// Under the names of ParaGraph's tools (sim/paragraph.c).
int dropin_hlo_bridge(int argc, char **argv);
int dropin_graph_converter(int argc, char **argv);
int dropin_graph_extender(int argc, char **argv);
int dropin_graph_translator(int argc, char **argv);
int dropin_simulator(int argc, char **argv);
int dropin_allreduce(int argc, char **argv);
int dropin_stencil(int argc, char **argv);

#endif
