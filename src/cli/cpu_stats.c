// cli/cpu_stats.c: what the steps of a program for the processor are, and how long they took: hilo run --stats.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cpu_stats.h"
#include "cli/json.h"

static int by_seconds(const void *a, const void *b) {
  const HlCpuSteps *x = a, *y = b;
  if (x->seconds != y->seconds)
    return x->seconds < y->seconds ? 1 : -1;
  return strcmp(x->kind, y->kind);
}

static HlCpuReport sorted_report(HlArena *arena, HlCpuProgram *program) {
  HlCpuReport report = hl_cpu_report(arena, program);
  if (report.n > 0)
    qsort(report.steps, (size_t)report.n, sizeof *report.steps, by_seconds);
  return report;
}

void cpu_stats_text(HlBuf *out, HlCpuProgram *program) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport r = sorted_report(arena, program);
  if (r.interpreted_whole)
    hl_buf_printf(out, "  steps  none: the interpreter runs it whole: %s\n", r.interpreted_whole);
  else
    hl_buf_printf(out, "  steps  %" PRId64 ", %" PRId64 " kernels\n", r.n_steps, r.n_kernels);
  for (int k = 0; k < r.n; k++) {
    const HlCpuSteps *s = &r.steps[k];
    hl_buf_printf(out, "         %-10s %6" PRId64 "  %8" PRId64 " runs %10.3f ms", s->kind, s->n,
                  s->runs, s->seconds * 1e3);
    if (s->op)
      hl_buf_printf(out, "  %s: %s", s->op, s->why);
    hl_buf_putc(out, '\n');
  }
  hl_buf_printf(out,
                "  bytes  %" PRId64 " arguments, %" PRId64 " results (%" PRId64
                " in place of arguments), %" PRId64 " temporaries, %" PRId64 " constants\n",
                r.arguments, r.results, r.aliased, r.temporaries, r.constants);
  hl_arena_free(arena);
}

static void steps_json(HlBuf *out, const HlCpuSteps *s) {
  json_open(out, NULL, '{');
  json_text(out, "kind", s->kind);
  if (s->op) {
    json_text(out, "op", s->op);
    json_text(out, "why", s->why);
  }
  json_int(out, "steps", s->n);
  json_int(out, "runs", s->runs);
  json_number(out, "ms", s->seconds * 1e3);
  json_close(out, '}');
}

void cpu_stats_json(HlBuf *out, HlCpuProgram *program) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport r = sorted_report(arena, program);
  json_open(out, "stats", '{');
  if (r.interpreted_whole)
    json_text(out, "interpreted_whole", r.interpreted_whole);
  else
    json_null(out, "interpreted_whole");
  json_int(out, "steps", r.n_steps);
  json_int(out, "kernels", r.n_kernels);
  json_open(out, "kinds", '[');
  for (int k = 0; k < r.n; k++)
    steps_json(out, &r.steps[k]);
  json_close(out, ']');
  json_int(out, "argument_bytes", r.arguments);
  json_int(out, "result_bytes", r.results);
  json_int(out, "aliased_bytes", r.aliased);
  json_int(out, "temporary_bytes", r.temporaries);
  json_int(out, "constant_bytes", r.constants);
  json_close(out, '}');
  hl_arena_free(arena);
}
