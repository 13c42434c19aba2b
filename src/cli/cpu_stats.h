// cli/cpu_stats.h: reports on programs for the processor.
#ifndef CLI_CPU_STATS_H
#define CLI_CPU_STATS_H

#include "cli/cli.h"
#include "hilo/cpu.h"

// With `peaks` also each step, beside them: as text the costliest. NULL: kinds of steps alone.
void cpu_stats_text(HlBuf *out, HlCpuProgram *program, const HlCpuPeaks *peaks);
void cpu_stats_json(HlBuf *out, HlCpuProgram *program, const HlCpuPeaks *peaks);  // as the member "stats"

// How much of what the machine reaches a step does that runs `runs` times in so many seconds; bytes may come from a
// cache, and be more than memory gives.
typedef struct CpuShare {
  double flops, bytes;
} CpuShare;
CpuShare cpu_share(const HlCpuStep *step, const HlCpuPeaks *peaks, int64_t runs, double seconds);

// The events of a program (hl_cpu_record) as a trace that Perfetto reads. False after reporting.
enum { CPU_MOST_EVENTS = 1000 };  // of a step
bool cpu_trace_write(Cli *cli, const char *path, HlCpuProgram *program, const HlCpuPeaks *peaks);

#endif
