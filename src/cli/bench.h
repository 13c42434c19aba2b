// cli/bench.h: what the stages of `hilo bench` work on, and how they tell what they took.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/cli.h"
#include "hilo/replay.h"

typedef struct Bench {
  Cli *cli;
  const char *path;
  HlSource *source;
  const HlFile *file;
  HlModule *m;              // the one that --module picks,
  HlMlTree *tree;           // or the tree, of MLIR, which is not made HLO to be read and printed
  HlReplayOptions inputs;   // of what is run
  int threads;
  int64_t repeats;          // 0: as many as `seconds` take
  double seconds;
} Bench;

enum { BENCH_TIMES = 1000 };

// Seconds, one a sample, and their name in reports.
typedef struct BenchTimes {
  const char *name;
  double at[BENCH_TIMES];
  int n;
} BenchTimes;

// Reports the least and the median of them, which sorts them: a line, or two keys of the report.
void bench_report(const Bench *b, BenchTimes *times);

// bench_cpu.c: false after reporting.
bool bench_compile(Bench *b);
bool bench_run(Bench *b);

#endif
