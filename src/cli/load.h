// cli/load.h: the options that say how files become modules.
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "cli/cli.h"

#define CLI_LOAD_OPTIONS                                                                   \
  {"--no-verify", NULL, "take what it reads, if it is a graph, without asking whether it is valid"},          \
  {"--entry", "NAME",                                                                      \
   "of MLIR: the function to take; default: main, else all without parameters"},           \
  {                                                                                        \
    "--arg-shapes", "SHAPES",                                                              \
        "types of the arguments, as f32[2,3],s64[]=4 (a value where a size depends on it)" \
  }

// Of commands that write HLO.
#define CLI_DIALECT_OPTION \
  { "--xla", "RELEASE", "write HLO as this release of XLA does, such as 0.11, and run its pipelines (default: as it was read, and the newest)" }

// What the running command's options say; --args and --xla where it has them.
HlLoadOptions cli_load_options(const Cli *cli);
// Whether --xla, where it is given, names a release; false after reporting.
bool cli_check_dialect(const Cli *cli);

#endif
