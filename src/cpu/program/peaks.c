// cpu/program/peaks.c: what this machine reaches: what the steps of a program are measured by.
//
// Flops: every thread does multiply-adds in registers. Bytes: all of them copy blocks that no cache holds; what is read and
// written counts. The best of several times counts, since other work on the machine only takes away.

#include <string.h>

#include "cpu/dot/peak.h"
#include "cpu/program/program.h"

enum { TIMES = 3, TURNS = 20000, PIECE = 1 << 20, COPIED = 32 << 20 };  // turns: 0.1 ms

typedef struct Peak {
  CpuPeakF32 *f32;
  CpuPeakF64 *f64;
  char *to;
  const char *from;
} Peak;

static bool do_f32(void *user, int64_t chunk, CpuMember *member) {
  float with = 0.5f;
  const double flops = ((Peak *)user)->f32(TURNS, &with);
  return flops > 0 && with == 0.5f;
}

static bool do_f64(void *user, int64_t chunk, CpuMember *member) {
  double with = 0.5;
  const double flops = ((Peak *)user)->f64(TURNS, &with);
  return flops > 0 && with == 0.5;
}

static bool copy_piece(void *user, int64_t chunk, CpuMember *member) {
  const Peak *peak = user;
  memcpy(peak->to + chunk * PIECE, peak->from + chunk * PIECE, PIECE);
  return true;
}

// The least seconds that n chunks take; how long they take alone is said to be long, so that all threads are woken.
static double least(CpuTeam *team, int64_t n, CpuChunk *chunk, Peak *peak) {
  double best = 1e9;
  for (int k = 0; k < TIMES; k++) {
    const double start = hl_now();
    cpu_parallel(team, n, 1, chunk, peak);
    const double seconds = hl_now() - start;
    best = seconds < best ? seconds : best;
  }
  return best;
}

bool hl_cpu_peaks(HlCx *cx, const HlCpuProgram *program, HlCpuPeaks *out) {
  static CpuPeakF32 *const f32[] = SIMD_LEVELS(dot_peak_f32);
  static CpuPeakF64 *const f64[] = SIMD_LEVELS(dot_peak_f64);
  CpuTeam *team = cpu_team_new(program->pool);
  char *memory = team ? cpu_block_new(2 * (size_t)COPIED) : NULL;
  if (!memory) {
    cpu_team_free(team);
    return hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "no memory to measure what the machine reaches");
  }
  memset(memory, 1, 2 * (size_t)COPIED);
  Peak peak = {f32[cpu_level()], f64[cpu_level()], memory, memory + COPIED};
  float one = 0.5f;
  double two = 0.5;
  const int threads = cpu_team_threads(team);
  *out = (HlCpuPeaks){.threads = threads};
  const int64_t chunks = 4 * (int64_t)threads;
  out->f32 = (double)chunks * peak.f32(TURNS, &one) / least(team, chunks, do_f32, &peak);
  out->f64 = (double)chunks * peak.f64(TURNS, &two) / least(team, chunks, do_f64, &peak);
  out->bytes = 2.0 * COPIED / least(team, COPIED / PIECE, copy_piece, &peak);
  cpu_block_free(memory, 2 * (size_t)COPIED);
  cpu_team_free(team);
  return true;
}
