// cli/cpu_program.c: makes a program for this machine's processor, as the options of 'run' say.
#include "cli/cpu_program.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cpu_stats.h"
#include "cli/inputs.h"

// An option, or the variable of the environment that asks for the same.
static bool is_asked(Cli *cli, const char *option, const char *variable) {
  const char *value = getenv(variable);
  return cli_flag(cli, option) || (value && *value && strcmp(value, "0") != 0);
}

HlCpuProgram *cli_cpu_program(Cli *cli, HlCompiled *compiled, const HlReplayOptions *options) {
  HlCpuOptions how = {.onednn = cli_value(cli, "--onednn"),
                      .no_emit = cli_flag(cli, "--no-emit"),
                      .perf_map = is_asked(cli, "--perf-map", "HILO_PERF_MAP"),
                      .gdb = is_asked(cli, "--gdb", "HILO_GDB"),
                      .elided = options->eval.elided,
                      .seed = options->eval.seed};
  cli_read_threads(cli, &how.threads);  // run has looked at it
  HlCpuProgram *program = hl_compiled_program(cli->cx, compiled, &how);
  const bool traces = cli_flag(cli, "--profile");
  if (program)
    hl_cpu_measure(program, traces || cli_flag(cli, "--stats"));
  if (program && traces)
    hl_cpu_record(program, CPU_MOST_EVENTS);
  return program;
}
