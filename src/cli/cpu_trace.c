// cli/cpu_trace.c: hilo run --profile: when each step of a program ran, as a trace that Perfetto (and chrome://tracing) reads.
//
// A lane for each frame, where runs and their steps stand in each other; one for each other thread of the pool, with the
// steps that it helped with; and one where runs of steps that have no events of their own are summed, a bar a step: a loop of
// a million turns would else be a million bars. docs/cpu.md tells what the members of a bar say.
#include <inttypes.h>
#include <string.h>

#include "cli/cpu_stats.h"
#include "cli/json.h"
#include "cpu/kernel/source.h"

enum { FRAME_LANE = 1, THREAD_LANE = 1000, SUM_LANE = 100000 };

typedef struct Trace {
  HlBuf out;
  HlCpuReport report;
  const HlCpuPeaks *peaks;
  const HlCpuEvent *event;
  int64_t n;
  double zero;  // the first event starts here
} Trace;

static double microseconds(double seconds) {
  return seconds * 1e6;
}

static void lane_name(Trace *t, int lane, const char *name) {
  json_open(&t->out, NULL, '{');
  json_text(&t->out, "ph", "M");
  json_text(&t->out, "name", "thread_name");
  json_int(&t->out, "pid", 1);
  json_int(&t->out, "tid", lane);
  json_open(&t->out, "args", '{');
  json_text(&t->out, "name", name);
  json_close(&t->out, '}');
  json_close(&t->out, '}');
  json_open(&t->out, NULL, '{');
  json_text(&t->out, "ph", "M");
  json_text(&t->out, "name", "thread_sort_index");
  json_int(&t->out, "pid", 1);
  json_int(&t->out, "tid", lane);
  json_open(&t->out, "args", '{');
  json_int(&t->out, "sort_index", lane);
  json_close(&t->out, '}');
  json_close(&t->out, '}');
}

static void name_lanes(Trace *t) {
  int frames = 0, threads = 0;
  char name[64];
  for (int64_t k = 0; k < t->n; k++) {
    frames = t->event[k].frame >= frames ? t->event[k].frame + 1 : frames;
    threads = t->event[k].thread > threads ? t->event[k].thread : threads;
  }
  for (int k = 0; k < frames; k++) {
    snprintf(name, sizeof name, frames == 1 ? "program" : "program, run %d at one time", k);
    lane_name(t, FRAME_LANE + k, name);
  }
  for (int k = 1; k <= threads; k++) {
    snprintf(name, sizeof name, "thread %d of the pool", k);
    lane_name(t, THREAD_LANE + k, name);
  }
}

static void open_bar(Trace *t, const char *name, int lane, double start, double seconds) {
  json_open(&t->out, NULL, '{');
  json_text(&t->out, "ph", "X");
  json_text(&t->out, "name", name);
  json_int(&t->out, "pid", 1);
  json_int(&t->out, "tid", lane);
  json_number(&t->out, "ts", microseconds(start));
  json_number(&t->out, "dur", microseconds(seconds));
}

static void close_bar(Trace *t) {
  json_close(&t->out, '}');
  json_close(&t->out, '}');
}

// What is the same in each run of a step.
static void describe(Trace *t, int64_t at) {
  const HlCpuStep *s = &t->report.step[at];
  const CpuSource from = cpu_source(s->inst);
  json_text(&t->out, "cat", s->kind);
  json_open(&t->out, "args", '{');
  json_int(&t->out, "step", at);
  json_text(&t->out, "op", hl_op_text((HlOp)s->inst->op));
  json_count(&t->out, "flops", s->flops);
  json_count(&t->out, "bytes", s->bytes);
  if (from.op_name)
    json_text(&t->out, "op_name", from.op_name);
  if (!from.file)
    return;
  HlBuf source = {0};
  hl_buf_printf(&source, "%s:%d", from.file, from.line);
  json_text(&t->out, "source", source.at);
  hl_buf_free(&source);
}

static void put_share(Trace *t, int64_t at, int64_t runs, double seconds) {
  const CpuShare share = cpu_share(&t->report.step[at], t->peaks, runs, seconds);
  json_number(&t->out, "of_peak_flops", share.flops);
  json_number(&t->out, "of_peak_bytes", share.bytes);
}

static void put_event(Trace *t, const HlCpuEvent *e) {
  const double start = e->start - t->zero;
  if (e->step < 0) {
    open_bar(t, "run", FRAME_LANE + e->frame, start, e->seconds);
    json_open(&t->out, "args", '{');
  } else {
    open_bar(t, t->report.step[e->step].inst->name->text,
             e->thread > 0 ? THREAD_LANE + e->thread : FRAME_LANE + e->frame, start, e->seconds);
    describe(t, e->step);
    if (e->thread > 0)
      json_int(&t->out, "chunks", e->chunks);
    else
      put_share(t, e->step, 1, e->seconds);
  }
  close_bar(t);
}

// The bars that stand for many; how many runs these are.
static int64_t put_sums(Trace *t) {
  int64_t runs = 0;
  double at = 0;
  for (int64_t k = 0; k < t->report.n_steps; k++) {
    const HlCpuStep *s = &t->report.step[k];
    if (s->unrecorded == 0)
      continue;
    if (runs == 0)
      lane_name(t, SUM_LANE, "further runs of steps, summed");
    runs += s->unrecorded;
    open_bar(t, s->inst->name->text, SUM_LANE, at, s->unrecorded_seconds);
    describe(t, k);
    json_int(&t->out, "runs", s->unrecorded);
    put_share(t, k, s->unrecorded, s->unrecorded_seconds);
    close_bar(t);
    at += s->unrecorded_seconds;
  }
  return runs;
}

static void put_facts(Trace *t, const HlModule *m, int64_t summed) {
  json_open(&t->out, "otherData", '{');
  json_text(&t->out, "module", m->name->text);
  json_int(&t->out, "threads", t->peaks->threads);
  json_count(&t->out, "peak_f32_flops", t->peaks->f32);
  json_count(&t->out, "peak_f64_flops", t->peaks->f64);
  json_count(&t->out, "peak_bytes", t->peaks->bytes);
  json_int(&t->out, "most_events_of_a_step", CPU_MOST_EVENTS);
  json_int(&t->out, "runs_summed", summed);
  json_int(&t->out, "events_lost", t->report.lost_events);
  json_close(&t->out, '}');
}

bool cpu_trace_write(Cli *cli, const char *path, HlCpuProgram *program, const HlCpuPeaks *peaks) {
  HlArena *arena = hl_arena_new();
  Trace t = {.report = hl_cpu_report(arena, program), .peaks = peaks};
  t.event = hl_cpu_events(arena, program, &t.n);
  t.zero = t.n > 0 ? t.event[0].start : 0;
  for (int64_t k = 0; k < t.n; k++)
    t.zero = t.event[k].start < t.zero ? t.event[k].start : t.zero;
  json_open(&t.out, NULL, '{');
  json_text(&t.out, "displayTimeUnit", "ms");
  json_open(&t.out, "traceEvents", '[');
  name_lanes(&t);
  for (int64_t k = 0; k < t.n; k++)
    put_event(&t, &t.event[k]);
  const int64_t summed = put_sums(&t);
  json_close(&t.out, ']');
  put_facts(&t, hl_cpu_module(program), summed);
  json_close(&t.out, '}');
  hl_buf_putc(&t.out, '\n');
  if (t.report.interpreted_whole)
    hl_warn(cli->cx, (HlPos){0}, "%s has no steps: the interpreter runs the program whole: %s",
            path, t.report.interpreted_whole);
  if (summed > 0)
    hl_tell(cli->cx, (HlPos){0},
            "%s: %" PRId64 " runs of steps that ran more than %d times stand there summed", path,
            summed, CPU_MOST_EVENTS);
  if (t.report.lost_events > 0)
    hl_warn(cli->cx, (HlPos){0}, "%s lacks %" PRId64 " events for want of memory", path,
            t.report.lost_events);
  const bool good = hl_write_file(cli->cx, path, t.out.at, t.out.n);
  hl_buf_free(&t.out);
  hl_arena_free(arena);
  return good;
}
