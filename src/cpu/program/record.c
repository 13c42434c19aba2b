// cpu/program/record.c: when each step ran, and on which threads of the pool: what a profile shows.
//
// A recorder belongs to a frame, so one run at a time writes to it; each thread has a list of its own there. A thread of the
// pool notes its chunks before they count as done (cpu/pool/pool.c), so whoever reads the lists between runs sees all. Chunks
// that one thread does of one run of a step are one event.
//
// Of each step so many runs have events, the others are counted and timed together: a loop of a million turns is told in a page.

#include <string.h>

#include "cpu/program/program.h"

typedef struct Events {
  HlCpuEvent *at;
  int64_t n, capacity;
  int64_t lost;  // for want of memory
} Events;

struct CpuRecorder {
  int threads;
  int64_t n_steps, most;
  int64_t step;  // at work; -1: it has had its events
  double started;
  Events *events;   // by thread
  CpuTally *tally;  // by step, and of whole runs: `runs` all, `seconds` of those without events
};

static size_t recorder_bytes(int threads, int64_t n_steps) {
  return sizeof(CpuRecorder) + (size_t)threads * sizeof(Events) +
         ((size_t)n_steps + 1) * sizeof(CpuTally);
}

CpuRecorder *cpu_recorder_new(const HlCpuProgram *program, int64_t most) {
  const int threads = cpu_pool_threads(program->pool);
  const size_t bytes = recorder_bytes(threads, program->n_steps);
  CpuRecorder *r = cpu_block_new(bytes);
  if (!r)
    return NULL;
  memset(r, 0, bytes);
  r->threads = threads;
  r->n_steps = program->n_steps;
  r->most = most;
  r->events = (Events *)(r + 1);
  r->tally = (CpuTally *)(r->events + threads);
  return r;
}

void cpu_recorder_free(CpuRecorder *r) {
  if (!r)
    return;
  for (int k = 0; k < r->threads; k++)
    cpu_block_free(r->events[k].at, (size_t)r->events[k].capacity * sizeof(HlCpuEvent));
  cpu_block_free(r, recorder_bytes(r->threads, r->n_steps));
}

static HlCpuEvent *add(Events *events, HlCpuEvent event) {
  if (events->n == events->capacity) {
    const int64_t capacity = events->capacity ? 2 * events->capacity : 64;
    HlCpuEvent *more = cpu_block_new((size_t)capacity * sizeof *more);
    if (!more) {
      events->lost++;
      return NULL;
    }
    if (events->n > 0)
      memcpy(more, events->at, (size_t)events->n * sizeof *more);
    cpu_block_free(events->at, (size_t)events->capacity * sizeof *more);
    events->at = more;
    events->capacity = capacity;
  }
  events->at[events->n] = event;
  return &events->at[events->n++];
}

void cpu_record_start(CpuRecorder *r, int64_t step, double start) {
  r->step = r->tally[step].runs < r->most ? step : -1;
  r->started = start;
}

void cpu_record_end(CpuRecorder *r, int64_t step, double start, double seconds) {
  CpuTally *tally = &r->tally[step];
  if (tally->runs++ < r->most)
    add(&r->events[0],
        (HlCpuEvent){.step = step == r->n_steps ? -1 : step, .start = start, .seconds = seconds});
  else
    tally->seconds += seconds;
}

void cpu_record_chunk(void *recorder, int thread, double start, double end) {
  CpuRecorder *r = recorder;
  Events *events = &r->events[thread];
  if (r->step < 0)
    return;
  HlCpuEvent *last = events->n > 0 ? &events->at[events->n - 1] : NULL;
  if (!last || last->step != r->step || last->start < r->started)
    last = add(events, (HlCpuEvent){.step = r->step, .thread = thread, .start = start});
  if (!last)
    return;
  last->chunks++;
  last->seconds = end - last->start;
}

// --- What was noted -------------------------------------------------------------------------------

void hl_cpu_record(HlCpuProgram *p, int64_t most) {
  pthread_mutex_lock(&p->lock);
  p->most_events = most;
  for (CpuFrame *frame = p->frames; frame; frame = frame->next) {
    cpu_recorder_free(frame->recorder);
    frame->recorder = NULL;
  }
  pthread_mutex_unlock(&p->lock);
}

static int64_t count(const CpuFrame *frame) {
  int64_t n = 0;
  for (; frame; frame = frame->next)
    for (int k = 0; frame->recorder && k < frame->recorder->threads; k++)
      n += frame->recorder->events[k].n;
  return n;
}

HlCpuEvent *hl_cpu_events(HlArena *arena, HlCpuProgram *p, int64_t *n) {
  pthread_mutex_lock(&p->lock);
  const int64_t room = count(p->frames);
  pthread_mutex_unlock(&p->lock);
  // Memory is asked for without the lock: the try may end there.
  HlCpuEvent *out = HL_ARRAY(arena, HlCpuEvent, room + 1);
  *n = 0;
  pthread_mutex_lock(&p->lock);
  for (const CpuFrame *frame = p->frames; frame; frame = frame->next)
    for (int t = 0; frame->recorder && t < frame->recorder->threads; t++)
      for (int64_t k = 0; k < frame->recorder->events[t].n && *n < room; k++) {
        out[*n] = frame->recorder->events[t].at[k];
        out[(*n)++].frame = frame->number;
      }
  pthread_mutex_unlock(&p->lock);
  return out;
}

void cpu_count_unrecorded(const HlCpuProgram *p, HlCpuStep *step, int64_t *lost) {
  for (const CpuFrame *frame = p->frames; frame; frame = frame->next) {
    const CpuRecorder *r = frame->recorder;
    for (int64_t k = 0; r && k < p->n_steps; k++) {
      step[k].unrecorded += r->tally[k].runs > r->most ? r->tally[k].runs - r->most : 0;
      step[k].unrecorded_seconds += r->tally[k].seconds;
    }
    for (int t = 0; r && t < r->threads; t++)
      *lost += r->events[t].lost;
  }
}
