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

// --- Each step ----------------------------------------------------------------------------------------

static double peak_of(const HlCpuStep *step, const HlCpuPeaks *peaks) {
  const HlShape *shape = step->inst->shape;
  while (shape->dtype == HL_TUPLE && shape->rank > 0)
    shape = shape->element[0];
  return shape->dtype == HL_F64 || shape->dtype == HL_C128 ? peaks->f64 : peaks->f32;
}

CpuShare cpu_share(const HlCpuStep *step, const HlCpuPeaks *peaks, int64_t runs, double seconds) {
  if (seconds <= 0)
    return (CpuShare){0};
  return (CpuShare){step->flops * (double)runs / seconds / peak_of(step, peaks),
                    step->bytes * (double)runs / seconds / peaks->bytes};
}

static int by_time(const void *a, const void *b) {
  const HlCpuStep *x = *(const HlCpuStep *const *)a, *y = *(const HlCpuStep *const *)b;
  if (x->seconds != y->seconds)
    return x->seconds < y->seconds ? 1 : -1;
  return x < y ? -1 : x > y;
}

enum { COSTLIEST = 20 };

static void put_step(HlBuf *out, const HlCpuStep *s, const HlCpuPeaks *peaks) {
  const CpuShare share = cpu_share(s, peaks, s->runs, s->seconds);
  const double each = s->runs > 0 ? s->seconds / (double)s->runs : 0;
  hl_buf_printf(out, "         %-24s %-9s %8" PRId64 " of %10.3f ms", s->inst->name->text, s->kind,
                s->runs, each * 1e3);
  if (each > 0)
    hl_buf_printf(out, " %8.2f GFLOP/s %3.0f%% %8.2f GB/s %3.0f%%", s->flops / each * 1e-9,
                  share.flops * 100, s->bytes / each * 1e-9, share.bytes * 100);
  hl_buf_putc(out, '\n');
}

static void steps_text(HlBuf *out, HlArena *arena, const HlCpuReport *r, const HlCpuPeaks *peaks) {
  const HlCpuStep **order = HL_ARRAY(arena, const HlCpuStep *, r->n_steps + 1);
  int64_t n = 0, others = 0;
  double seconds = 0;
  for (int64_t k = 0; k < r->n_steps; k++)
    if (r->step[k].runs > 0)
      order[n++] = &r->step[k];
  qsort(order, (size_t)n, sizeof *order, by_time);
  hl_buf_printf(out, "  peaks  %.1f GFLOP/s in f32, %.1f in f64, %.1f GB/s on %d thread%s\n",
                peaks->f32 * 1e-9, peaks->f64 * 1e-9, peaks->bytes * 1e-9, peaks->threads,
                peaks->threads == 1 ? "" : "s");
  for (int64_t k = 0; k < n; k++) {
    if (k < COSTLIEST) {
      put_step(out, order[k], peaks);
    } else {
      others++;
      seconds += order[k]->seconds;
    }
  }
  if (others > 0)
    hl_buf_printf(out, "         and %" PRId64 " others, together %.3f ms\n", others,
                  seconds * 1e3);
}

static void each_json(HlBuf *out, const HlCpuStep *s, int64_t at, const HlCpuPeaks *peaks) {
  const CpuShare share = cpu_share(s, peaks, s->runs, s->seconds);
  json_open(out, NULL, '{');
  json_int(out, "step", at);
  json_text(out, "instruction", s->inst->name->text);
  json_text(out, "kind", s->kind);
  json_int(out, "runs", s->runs);
  json_number(out, "ms", s->seconds * 1e3);
  json_count(out, "flops", s->flops);
  json_count(out, "bytes", s->bytes);
  json_number(out, "of_peak_flops", share.flops);
  json_number(out, "of_peak_bytes", share.bytes);
  json_close(out, '}');
}

static void peaks_json(HlBuf *out, const HlCpuReport *r, const HlCpuPeaks *peaks) {
  json_open(out, "peaks", '{');
  json_int(out, "threads", peaks->threads);
  json_count(out, "f32_flops", peaks->f32);
  json_count(out, "f64_flops", peaks->f64);
  json_count(out, "bytes", peaks->bytes);
  json_close(out, '}');
  json_open(out, "each", '[');
  for (int64_t k = 0; k < r->n_steps; k++)
    if (r->step[k].runs > 0)
      each_json(out, &r->step[k], k, peaks);
  json_close(out, ']');
}

// --- All of them --------------------------------------------------------------------------------------

void cpu_stats_text(HlBuf *out, HlCpuProgram *program, const HlCpuPeaks *peaks) {
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
  if (peaks)
    steps_text(out, arena, &r, peaks);
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

void cpu_stats_json(HlBuf *out, HlCpuProgram *program, const HlCpuPeaks *peaks) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport r = sorted_report(arena, program);
  json_open(out, "stats", '{');
  if (r.interpreted_whole)
    json_text(out, "interpreted_whole", r.interpreted_whole);
  else
    json_nothing(out, "interpreted_whole");
  json_int(out, "steps", r.n_steps);
  json_int(out, "kernels", r.n_kernels);
  json_open(out, "kinds", '[');
  for (int k = 0; k < r.n; k++)
    steps_json(out, &r.steps[k]);
  json_close(out, ']');
  if (peaks)
    peaks_json(out, &r, peaks);
  json_int(out, "argument_bytes", r.arguments);
  json_int(out, "result_bytes", r.results);
  json_int(out, "aliased_bytes", r.aliased);
  json_int(out, "temporary_bytes", r.temporaries);
  json_int(out, "constant_bytes", r.constants);
  json_close(out, '}');
  hl_arena_free(arena);
}
