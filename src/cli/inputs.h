// cli/inputs.h: the options of commands that run modules: on which inputs, and by how many threads.
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "cli/cli.h"
#include "hilo/replay.h"

#define CLI_INPUT_OPTIONS                                                                  \
  {"--args", "A.npz",                                                                      \
   "arguments a0, a1, ... (d1.a0, ... for device 1); default: recorded or made up"},       \
  {"--seed", "N", "of made-up arguments and random ops (42)"},                             \
  {                                                                                        \
    "--elided", "HOW", "what a constant {...} holds: random (by its name), zero, refuse"   \
  }

// What they say, in the fields of `out` that are theirs. False after a usage message.
bool cli_read_inputs(const Cli *cli, HlReplayOptions *out);

// --threads=N; 0 where it is not given. False after a usage message.
bool cli_read_threads(const Cli *cli, int *out);

#endif
