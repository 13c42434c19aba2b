// cli/lockstep.h: hilo run --trace and --compare-with.
#ifndef CLI_LOCKSTEP_H
#define CLI_LOCKSTEP_H

#include "cli/cli.h"
#include "hilo/replay.h"

#define CLI_LOCKSTEP_OPTIONS                                                                         \
  {"--compare-with", "B.hlo",                                                                        \
   "run this version of the program beside it, instruction by instruction, and name the first that " \
   "differs; tries --seed's arguments or --args. With --platform=cpu it is compiled: may be the same file"}, \
      {"--extract", "OUT.hlo",                                                                       \
       "of --compare-with and --trace: write that instruction as a module that runs, and what it "   \
       "read as OUT.npz"},                                                                           \
      {"--memory", "MIB", "of --compare-with: values kept at one time (1024)"},                      \
      {"--trace", "T.json",                                                                          \
       "run on the interpreter, or with --platform=cpu compiled, and write a line of JSON a value: hash, range, nan, inf"}, \
      {"--trace-times", "N", "of --trace: of each instruction so many runs are written (100; 0: all)"}, \
      {"--trace-values", "RE",                                                                       \
       "of --trace: values of instructions of such names are kept whole, in T's name with .npz"}

// Whether one of them is asked for.
bool cli_wants_lockstep(const Cli *cli);
// Runs a module of the file so; the exit status, 1 where values differ.
int cli_lockstep(Cli *cli, const char *path, HlSession *session, const HlFile *file, const HlModule *m,
                 const HlReplayOptions *options);

#endif
