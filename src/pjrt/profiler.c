// pjrt/profiler.c: the extension by which `jax.profiler.trace` gets a profile: when each step of each program ran, and where.
//
// While a profile is taken, each program that runs notes its steps (hl_cpu_record). When it is stopped, they become an XSpace of
// tsl: one plane, a line for runs that did not overlap, and one for each thread of the pool, on which a step's share of another
// thread stands.
//
//   XSpace: planes = 1
//   XPlane: id = 1, name = 2, lines = 3, event_metadata = 4, stat_metadata = 5 (maps: key = 1, value = 2)
//   XLine: id = 1, name = 2, timestamp_ns = 3, events = 4
//   XEvent: metadata_id = 1, offset_ps = 2, duration_ps = 3, stats = 4
//   XStat: metadata_id = 1, int64_value = 4, ref_value = 7 (a text: the name of an XStatMetadata)
//   XEventMetadata: id = 1, name = 2, stats = 5; XStatMetadata: id = 1, name = 2

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/kernel/source.h"
#include "pjrt/fields.h"
#include "pjrt/plugin.h"

enum { MOST_EVENTS = 1000 };  // of each step, on each device

struct PLUGIN_Profiler {
  Core **core;  // that ran meanwhile
  int n, room;
  double epoch;  // what the time of day is ahead of hl_now
  HlBuf space;   // when it has been stopped
};

// --- Taking a profile --------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(PLUGIN_Profiler *) active;  // written under the lock

// Under the lock.
static void watch(PLUGIN_Profiler *profiler, Core *core) {
  for (int k = profiler->n - 1; k >= 0; k--)
    if (profiler->core[k] == core)
      return;
  if (profiler->n == profiler->room) {
    const int room = profiler->room ? 2 * profiler->room : 64;
    Core **more = realloc(profiler->core, (size_t)room * sizeof *more);
    if (!more)
      return;  // it is not in the profile
    profiler->core = more;
    profiler->room = room;
  }
  profiler->core[profiler->n++] = core_ref(core);
  hl_cpu_measure(core->program, true);
  hl_cpu_record(core->program, MOST_EVENTS);
}

void profiler_watch(Core *core) {
  if (!atomic_load_explicit(&active, memory_order_relaxed))
    return;
  pthread_mutex_lock(&lock);
  PLUGIN_Profiler *profiler = atomic_load(&active);
  if (profiler)
    watch(profiler, core);
  pthread_mutex_unlock(&lock);
}

// --- What it becomes ---------------------------------------------------------------------------------

typedef enum Stat {
  STAT_OP = 1,
  STAT_MODULE,
  STAT_NAME,
  STAT_SOURCE,
  STAT_KIND,
  STAT_FLOPS,
  STAT_BYTES,
  STAT_CHUNKS,
  N_STATS
} Stat;
// As XLA's profiles call them.
static const char *const stat_name[N_STATS] = {[STAT_OP] = "hlo_op",
                                               [STAT_MODULE] = "hlo_module",
                                               [STAT_NAME] = "tf_op",
                                               [STAT_SOURCE] = "source",
                                               [STAT_KIND] = "hlo_category",
                                               [STAT_FLOPS] = "flops",
                                               [STAT_BYTES] = "bytes_accessed",
                                               [STAT_CHUNKS] = "chunks"};

typedef struct Bar {
  int64_t metadata;
  int64_t line;  // a run's number, until its line is known
  bool is_run_line;
  double start, seconds;
  int64_t chunks;  // on other threads than the run's
} Bar;

typedef struct Span {  // a run
  double start, end;
  int64_t line;
} Span;

typedef struct Drawing {
  HlBuf plane, part, value;
  HlBuf said;  // XStats of events, those of one metadata together
  HlBuf ends;  // size_t by metadata: where they end
  int64_t n_metadata;
  int64_t n_stats;  // XStatMetadata
  Bar *bar;
  int64_t n_bars, bar_room;
  Span *run;
  int64_t n_runs, run_room;
} Drawing;

enum { THREAD_LINE = 1 << 20 };  // lines of the pool's threads are numbered from here

static Bar *new_bar(Drawing *d) {
  if (d->n_bars == d->bar_room) {
    const int64_t room = d->bar_room ? 2 * d->bar_room : 1024;
    Bar *more = realloc(d->bar, (size_t)room * sizeof *more);
    if (!more)
      return NULL;
    d->bar = more;
    d->bar_room = room;
  }
  return &d->bar[d->n_bars++];
}

static Span *new_run(Drawing *d) {
  if (d->n_runs == d->run_room) {
    const int64_t room = d->run_room ? 2 * d->run_room : 256;
    Span *more = realloc(d->run, (size_t)room * sizeof *more);
    if (!more)
      return NULL;
    d->run = more;
    d->run_room = room;
  }
  return &d->run[d->n_runs++];
}

static void put_stat_name(Drawing *d, int64_t id, const char *name) {
  HlBuf entry = {0};
  field_int(&d->value, 1, id);
  field_text(&d->value, 2, name);
  field_int(&entry, 1, id);
  field_part(&entry, 2, &d->value);
  field_part(&d->plane, 5, &entry);
  hl_buf_free(&entry);
}

// A text that all events of a metadata have.
static void say(Drawing *d, Stat stat, const char *text) {
  if (!text || !*text)
    return;
  put_stat_name(d, ++d->n_stats, text);
  field_int(&d->value, 1, stat);
  field_int(&d->value, 7, d->n_stats);
  field_part(&d->said, 4, &d->value);
}

static void stat_int(Drawing *d, HlBuf *out, uint32_t field, Stat stat, int64_t value) {
  field_int(&d->value, 1, stat);
  field_int(&d->value, 4, value);
  field_part(out, field, &d->value);
}

// Ends an XEventMetadata in `part`.
static void end_metadata(Drawing *d, int64_t id) {
  HlBuf entry = {0};
  hl_buf_add(&d->ends, &d->said.n, sizeof d->said.n);
  field_int(&entry, 1, id);
  field_part(&entry, 2, &d->part);
  field_part(&d->plane, 4, &entry);
  hl_buf_free(&entry);
}

static void step_metadata(Drawing *d, int64_t id, const Core *core, const HlCpuStep *step) {
  const CpuSource from = cpu_source(step->inst);
  char source[1024] = "";
  if (from.file)
    snprintf(source, sizeof source, "%s:%d", from.file, from.line);
  HlBuf *out = &d->part;
  field_int(out, 1, id);
  field_text(out, 2, step->inst->name->text);
  say(d, STAT_OP, step->inst->name->text);
  say(d, STAT_MODULE, core->name);
  say(d, STAT_NAME, from.op_name);
  say(d, STAT_SOURCE, source);
  say(d, STAT_KIND, step->kind);
  stat_int(d, out, 5, STAT_FLOPS, (int64_t)step->flops);
  stat_int(d, out, 5, STAT_BYTES, (int64_t)step->bytes);
  end_metadata(d, id);
}

static void run_metadata(Drawing *d, int64_t id, const Core *core) {
  field_int(&d->part, 1, id);
  field_text(&d->part, 2, core->name);
  say(d, STAT_MODULE, core->name);
  end_metadata(d, id);
}

// A run's event stands behind those of its steps on the thread that runs the program.
static void add_events(Drawing *d, const HlCpuEvent *event, int64_t n, const int64_t *metadata,
                       int64_t run_metadata_id) {
  int64_t first = d->n_bars;
  for (int64_t k = 0; k < n; k++) {
    const HlCpuEvent *e = &event[k];
    Bar *bar = new_bar(d);
    if (!bar)
      return;
    *bar = (Bar){.metadata = e->step < 0 ? run_metadata_id : metadata[e->step],
                 .line = e->thread > 0 ? THREAD_LINE + e->thread : -1,
                 .start = e->start,
                 .seconds = e->seconds,
                 .chunks = e->thread > 0 ? e->chunks : 0};
    if (e->step >= 0 || e->thread > 0)
      continue;
    Span *run = new_run(d);
    if (!run)
      return;
    *run = (Span){e->start, e->start + e->seconds, 0};
    for (; first < d->n_bars; first++)
      if (d->bar[first].line < 0) {
        d->bar[first].line = d->n_runs - 1;
        d->bar[first].is_run_line = true;
      }
  }
}

static void add_core(Drawing *d, const Core *core) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = hl_cpu_report(arena, core->program);
  int64_t n;
  const HlCpuEvent *event = hl_cpu_events(arena, core->program, &n);
  int64_t *metadata = HL_ARRAY(arena, int64_t, report.n_steps + 1);
  for (int64_t k = 0; k < n; k++)
    if (event[k].step >= 0 && metadata[event[k].step] == 0) {
      metadata[event[k].step] = ++d->n_metadata;
      step_metadata(d, d->n_metadata, core, &report.step[event[k].step]);
    }
  if (n > 0)
    run_metadata(d, ++d->n_metadata, core);
  add_events(d, event, n, metadata, d->n_metadata);
  hl_arena_free(arena);
}

static int by_start(const void *a, const void *b) {
  const Span *x = *(Span *const *)a, *y = *(Span *const *)b;
  return (x->start > y->start) - (x->start < y->start);
}

// Each run on the first line where no other is under way.
static void place_runs(Drawing *d) {
  Span **order = malloc(((size_t)d->n_runs + 1) * sizeof(Span *));
  double *end = calloc((size_t)d->n_runs + 1, sizeof *end);
  for (int64_t k = 0; order && k < d->n_runs; k++)
    order[k] = &d->run[k];
  if (order && end)
    qsort(order, (size_t)d->n_runs, sizeof *order, by_start);
  for (int64_t k = 0; order && end && k < d->n_runs; k++) {
    while (end[order[k]->line] > order[k]->start)
      order[k]->line++;
    end[order[k]->line] = order[k]->end;
  }
  free(order);
  free(end);
  for (int64_t k = 0; k < d->n_bars; k++)
    if (d->bar[k].is_run_line)
      d->bar[k].line = d->run[d->bar[k].line].line;
}

static int by_line(const void *a, const void *b) {
  const Bar *x = a, *y = b;
  if (x->line != y->line)
    return x->line > y->line ? 1 : -1;
  if (x->start != y->start)
    return x->start > y->start ? 1 : -1;
  return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static int64_t picoseconds(double seconds) {
  return seconds > 0 ? (int64_t)(seconds * 1e12) : 0;
}

static void put_bar(Drawing *d, HlBuf *line, const Bar *bar, double zero) {
  field_int(&d->part, 1, bar->metadata);
  field_int(&d->part, 2, picoseconds(bar->start - zero));
  field_int(&d->part, 3, picoseconds(bar->seconds));
  if (bar->chunks > 0)
    stat_int(d, &d->part, 4, STAT_CHUNKS, bar->chunks);
  const size_t *end = (const size_t *)(const void *)d->ends.at + bar->metadata - 1;
  const size_t said = bar->metadata > 1 ? end[-1] : 0;
  hl_buf_add(&d->part, d->said.at + said, *end - said);
  field_part(line, 4, &d->part);
}

static void put_lines(Drawing *d, double epoch) {
  HlBuf line = {0};
  qsort(d->bar, (size_t)d->n_bars, sizeof *d->bar, by_line);
  for (int64_t k = 0; k < d->n_bars;) {
    const int64_t number = d->bar[k].line;
    char name[64];
    snprintf(name, sizeof name, number >= THREAD_LINE ? "thread %" PRId64 : "programs %" PRId64,
             number >= THREAD_LINE ? number - THREAD_LINE : number);
    const double zero = d->bar[k].start;
    field_int(&line, 1, number);
    field_text(&line, 2, name);
    field_int(&line, 3, (int64_t)((zero + epoch) * 1e9));
    for (; k < d->n_bars && d->bar[k].line == number; k++)
      if (number >= 0)
        put_bar(d, &line, &d->bar[k], zero);
    if (number >= 0)  // else of runs that have failed
      field_part(&d->plane, 3, &line);
    line.n = 0;
  }
  hl_buf_free(&line);
}

static void draw(PLUGIN_Profiler *profiler) {
  Drawing d = {.n_stats = N_STATS};
  field_int(&d.plane, 1, 1);
  field_text(&d.plane, 2, "/device:CUSTOM:hilo");
  for (int k = 0; k < profiler->n; k++)
    add_core(&d, profiler->core[k]);
  place_runs(&d);
  put_lines(&d, profiler->epoch);
  for (int stat = 1; stat < N_STATS; stat++)
    put_stat_name(&d, stat, stat_name[stat]);
  field_part(&profiler->space, 1, &d.plane);
  hl_buf_free(&d.plane);
  hl_buf_free(&d.part);
  hl_buf_free(&d.value);
  hl_buf_free(&d.said);
  hl_buf_free(&d.ends);
  free(d.bar);
  free(d.run);
}

// --- The interface -----------------------------------------------------------------------------------

// Its errors are the plugin's.
static void error_destroy(PLUGIN_Profiler_Error_Destroy_Args *args) {
  PJRT_Error_Destroy_Args own = {.struct_size = sizeof own, .error = (PJRT_Error *)args->error};
  PJRT_Error_Destroy(&own);
}

static void error_message(PLUGIN_Profiler_Error_Message_Args *args) {
  PJRT_Error_Message_Args own = {.struct_size = sizeof own,
                                 .error = (const PJRT_Error *)args->error};
  PJRT_Error_Message(&own);
  args->message = own.message;
  args->message_size = own.message_size;
}

static PLUGIN_Profiler_Error *error_get_code(PLUGIN_Profiler_Error_GetCode_Args *args) {
  PJRT_Error_GetCode_Args own = {.struct_size = sizeof own,
                                 .error = (const PJRT_Error *)args->error};
  PJRT_Error *error = PJRT_Error_GetCode(&own);
  args->code = (int)own.code;
  return (PLUGIN_Profiler_Error *)error;
}

static PLUGIN_Profiler_Error *create(PLUGIN_Profiler_Create_Args *args) {
  args->profiler = calloc(1, sizeof *args->profiler);
  return args->profiler
             ? NULL
             : (PLUGIN_Profiler_Error *)pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

static PLUGIN_Profiler_Error *start(PLUGIN_Profiler_Args *args) {
  PLUGIN_Profiler *profiler = args->profiler, *none = NULL;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  profiler->epoch = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - hl_now();
  pthread_mutex_lock(&lock);
  const bool good = atomic_compare_exchange_strong(&active, &none, profiler);
  pthread_mutex_unlock(&lock);
  return good ? NULL
              : (PLUGIN_Profiler_Error *)pjrt_fail(PJRT_ALREADY_EXISTS,
                                                   "a profile is being taken already");
}

static PLUGIN_Profiler_Error *stop(PLUGIN_Profiler_Args *args) {
  PLUGIN_Profiler *profiler = args->profiler;
  pthread_mutex_lock(&lock);
  const bool was_active = atomic_load(&active) == profiler;
  if (was_active)
    atomic_store(&active, NULL);
  pthread_mutex_unlock(&lock);
  if (!was_active)
    return NULL;
  draw(profiler);
  for (int k = 0; k < profiler->n; k++) {
    hl_cpu_measure(profiler->core[k]->program, false);
    hl_cpu_record(profiler->core[k]->program, 0);
    core_unref(profiler->core[k]);
  }
  profiler->n = 0;
  return NULL;
}

static PLUGIN_Profiler_Error *destroy(PLUGIN_Profiler_Args *args) {
  stop(args);
  hl_buf_free(&args->profiler->space);
  free(args->profiler->core);
  free(args->profiler);
  return NULL;
}

// Clients give memory when they know the size, or read what they find here, which stays until the profiler goes.
static PLUGIN_Profiler_Error *collect_data(PLUGIN_Profiler_CollectData_Args *args) {
  const HlBuf *space = &args->profiler->space;
  uint8_t *own = (uint8_t *)space->at;
  if (!args->buffer)
    args->buffer = own;
  else if (space->n > 0 && args->buffer != own)
    memcpy(args->buffer, own, space->n);
  args->buffer_size_in_bytes = space->n;
  return NULL;
}

static PLUGIN_Profiler_Api api = {.struct_size = sizeof api,
                                  .error_destroy = error_destroy,
                                  .error_message = error_message,
                                  .error_get_code = error_get_code,
                                  .create = create,
                                  .destroy = destroy,
                                  .start = start,
                                  .stop = stop,
                                  .collect_data = collect_data};

PJRT_Profiler_Extension profiler_extension = {
    .base = {.struct_size = sizeof profiler_extension, .type = PJRT_EXTENSION_PROFILER},
    .profiler_api = &api,
    .traceme_context_id = -1};
