// cli/cpu_program.h: a program for this machine's processor, made as the options of 'run' say.
#ifndef CLI_CPU_PROGRAM_H
#define CLI_CPU_PROGRAM_H

#include "cli/cli.h"
#include "hilo/replay.h"

// Of what was compiled; a new reference. NULL after reporting.
HlCpuProgram *cli_cpu_program(Cli *cli, HlCompiled *compiled, const HlReplayOptions *options);

#endif
