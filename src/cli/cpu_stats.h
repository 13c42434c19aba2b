// cli/cpu_stats.h: reports on programs for the processor.
#ifndef CLI_CPU_STATS_H
#define CLI_CPU_STATS_H

#include "hilo/cpu.h"

void cpu_stats_text(HlBuf *out, HlCpuProgram *program);
void cpu_stats_json(HlBuf *out, HlCpuProgram *program);  // as the member "stats"

#endif
