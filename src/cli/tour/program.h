// cli/tour/program.h: runs a Python program with dumps on, to see what it compiles.
#ifndef CLI_TOUR_PROGRAM_H
#define CLI_TOUR_PROGRAM_H

#include "cli/cli.h"

typedef struct Program {
  char *folder;  // of its dumps, which program_free removes
  char *module;  // the largest module before optimisation there, or the one that --module names
  char *jaxpr;   // what JAX traced of it; NULL: JAX says nothing of that
} Program;

bool program_is_python(const char *path);
// Runs it with --python; what it prints goes to standard error. False after reporting: it failed, or compiled nothing.
bool program_run(Cli *cli, const char *path, Program *out);
void program_free(Program *program);

#endif
