// cli/shrink/test.h: the options of 'reduce' and 'bisect' that say which module is a bad one.
#ifndef CLI_TEST_H
#define CLI_TEST_H

#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/select.h"
#include "hilo/reduce.h"
#include "hilo/session.h"

#define CLI_TEST_OPTIONS                                                                          \
  {"--mismatch", "P",                                                                             \
   "bad is: the results on this platform (cpu, or xla: jaxlib's) are not the interpreter's"},     \
      {"--crash", NULL,                                                                           \
       "bad is: the command dies of a signal; without a command compiling and running for the "   \
       "cpu does"},                                                                               \
      {"--hang", NULL, "bad is: the command takes longer than --time-limit"},                     \
      {"--pattern", "RE", "bad is: what the command prints matches this"},                        \
      {"--any", NULL, "bad is: any exit status but 0 (default: the one of the first try)"},       \
      {"--invert", NULL, "bad is: the exit status 0"},                                            \
      {"--runs", "N", "run each try up to N times, for failures that come and go (1)"},           \
      {"--need", "K", "and take it as bad if K of them are (1)"},                                 \
      {"--time-limit", "S",                                                                       \
       "seconds that a run may take (default: five times the slowest so far, 10 at least)"},      \
      {"--memory-limit", "MB", "megabytes that a run may take (default: half of the machine's)"}, \
      {"--python", "P", "of --mismatch=xla and --xla: a Python that has jaxlib (python3)"},       \
      CLI_TOLERANCE_OPTION

// What they and the words behind FILE say. False after a usage message. What it points to lives as long as the arena.
bool cli_read_test(Cli *cli, HlArena *arena, HlTest *out);

// Where passes are asked for: the session whose engine runs them (--passes, --pipeline, --target, --break-rule).
typedef struct CliPasses {
  HlSession *session;
  const char *text;  // the pipeline
  HlEngineOptions engine;
} CliPasses;
#define CLI_PASSES_OPTIONS                                                                 \
  {"--pipeline", "NAME", "the passes of a pipeline: cpu, gpu, cpu-native, simplify, ..."}, \
      {"--target", "NAME|FILE", "the device that passes are for, as of 'hilo opt'"}, {     \
    "--break-rule", "RULE", "for tests: make the first result of this rule wrong"          \
  }
// False after a usage message or reporting; text is NULL where none are asked for. Free in either case.
bool cli_read_passes(Cli *cli, HlArena *arena, CliPasses *out);
void cli_passes_free(CliPasses *passes);

// Loads a file, says its module's name in the report, which is begun and ended around it, and hands the module that --module
// names (of a file that is not the call's, its first) to `work`. The exit status.
typedef int CliWork(void *user, const HlFile *file, const HlModule *m);
int cli_with_module(Cli *cli, const char *path, CliWork *work, void *user);

#endif
