// cli/load.h: the options that say how files become modules.
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "cli/cli.h"

#define CLI_LOAD_OPTIONS                                                                   \
  {"--no-verify", NULL, "take what it reads without asking whether it is valid"},          \
  {"--entry", "NAME",                                                                      \
   "of MLIR: the function to take; default: main, else all without parameters"},           \
  {                                                                                        \
    "--arg-shapes", "SHAPES",                                                              \
        "types of the arguments, as f32[2,3],s64[]=4 (a value where a size depends on it)" \
  }

// What the running command's options say; --args where it has it.
HlLoadOptions cli_load_options(const Cli *cli);

#endif
