// tool/shrink/xla.h: XLA as one of the platforms: a Python with jaxlib compiles a module and runs it.
#ifndef TOOL_XLA_H
#define TOOL_XLA_H

#include "hilo/ir.h"

typedef struct XlaRun {
  const char *python;  // the interpreter; NULL: python3
  const char *folder;  // where files for it and from it go
  const char *name;    // of these files
  const char *flags;   // XLA_FLAGS beside those of the environment; NULL: none
} XlaRun;

// Writes the module and its arguments (by parameter, of one device) where xla_command says: NAME.hlo, NAME.npz. False
// after reporting, also where the module is nothing for the driver: several devices, parameters that are tuples.
bool xla_prepare(HlCx *cx, const HlModule *m, HlLiteral *const *args, const XlaRun *run);
// The words of the command that compiles NAME.hlo, runs it and writes NAME.out.npz; in the arena, ends with NULL. And what is
// to be set in its environment.
char **xla_command(HlArena *arena, const HlModule *m, const XlaRun *run, char ***env);
const char *xla_results(HlArena *arena, const XlaRun *run);  // the path of NAME.out.npz
// Runs it here and waits. Its exit status; 128 and a signal's number where one ended it.
int xla_run(HlCx *cx, const HlModule *m, HlLiteral *const *args, const XlaRun *run);

#endif
