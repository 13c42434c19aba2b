// sim/graph/events.c: what traces tell of ops, event by event, as the rows of a profile.
//
// A row's time is the median of the op's executions, since the first run of a program warms up. An execution is
//
// - an event without those that it encloses on its line: a loop's is what its body does not take;
// - or several: events of one op that follow each other directly on one line, in one run of the program, are the kernels of one
//   execution (a sort on XLA:CPU is a copy and a sort, on a GPU a dozen kernels). Within another op's event, a loop's, and where
//   nobody says which run it is, each is an execution.
//
// An event that stands for several executions has their time in all: it counts as so many, and says what one takes only where
// nothing else does. How often an op was executed is meant in one run, where runs are told apart.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/graph/profile.h"

struct ProfileOp {
  HlStr name, category;
  double flops, bytes;
  int64_t executions, runs;
  double summed;     // micros of executions that are only known in all,
  int64_t n_summed;  // so many
  int first, n;      // of `time`
};

typedef struct Execution {
  int op;
  double micros;
} Execution;

// An event that others may lie within.
typedef struct Open {
  double end;
  int execution;  // -1: none of one
} Open;

typedef VEC(Execution) Executions;
typedef VEC(Open) Opens;

int events_op(ProfileEvents *e, HlStr name) {
  if (name.n > 0 && name.at[0] == '%')
    name = (HlStr){name.at + 1, name.n - 1};
  const uint64_t hash = hl_hash_bytes(name.at, name.n, 0);
  MapWalk walk = map_walk(&e->by_name, hash);
  for (uint64_t k; (k = map_next(&walk));)
    if (hl_str_equal(e->op.at[k - 1].name, name))
      return (int)k - 1;
  const HlStr copy = {hl_arena_strndup(e->arena, name.at, name.n), name.n};
  vec_push_in(e->arena, &e->op, (ProfileOp){.name = copy});
  map_add(&e->by_name, hash, (uint64_t)e->op.n);
  return e->op.n - 1;
}

void events_about(ProfileEvents *e, int op, HlStr category, double flops, double bytes) {
  ProfileOp *o = &e->op.at[op];
  if (category.n > 0 && !hl_str_equal(o->category, category))
    o->category = (HlStr){hl_arena_strndup(e->arena, category.at, category.n), category.n};
  o->flops = flops > 0 && isfinite(flops) ? flops : o->flops;
  o->bytes = bytes > 0 && isfinite(bytes) ? bytes : o->bytes;
}

void events_add(ProfileEvents *e, ProfileEvent event) {
  ProfileOp *op = &e->op.at[event.op];
  if (event.times > 1) {
    op->summed += event.micros;
    op->n_summed += event.times;
    op->executions += event.times;
  } else {
    vec_push_in(e->arena, &e->event, event);
  }
}

// --- Executions -------------------------------------------------------------------------------------------

// By lines, in the order of time, what encloses before what it encloses.
static int in_order(const void *a, const void *b) {
  const ProfileEvent *x = a, *y = b;
  if (x->line != y->line)
    return x->line < y->line ? -1 : 1;
  if (x->at != y->at)
    return x->at < y->at ? -1 : 1;
  if (x->micros != y->micros)
    return x->micros > y->micros ? -1 : 1;
  return x->op - y->op;
}

// What lies within another begins before its end, by more than times are rounded.
static bool is_within(const ProfileEvent *event, const Open *open) {
  return event->at < open->end - 1e-3;
}

static void take_line(ProfileEvents *e, int first, int end, Opens *open, Executions *out) {
  int before = -1;  // the last event that nothing encloses
  open->n = 0;
  for (int k = first; k < end; k++) {
    const ProfileEvent *event = &e->event.at[k];
    const double until = event->at + event->micros;
    while (open->n > 0 && !is_within(event, &vec_last(open)))
      open->n--;
    const bool top = open->n == 0;
    if (!top) {
      const Open *around = &vec_last(open);
      out->at[around->execution].micros -= (until < around->end ? until : around->end) - event->at;
    }
    const ProfileEvent *last = before >= 0 ? &e->event.at[before] : NULL;
    if (top && last && event->has_run && last->has_run && last->run == event->run &&
        last->op == event->op)
      vec_last(out).micros += event->micros;
    else
      vec_push_in(e->arena, out, ((Execution){event->op, event->micros}));
    vec_push(open, ((Open){until, out->n - 1}));
    before = top ? k : -1;
  }
}

static void count_runs(ProfileEvents *e) {
  Map seen = {.arena = e->arena};
  for (int k = 0; k < e->event.n; k++) {
    const ProfileEvent *event = &e->event.at[k];
    if (!event->has_run)
      continue;
    uint64_t *there = map_at(&seen, hl_hash_mix(event->run, (uint64_t)event->op));
    e->op.at[event->op].runs += !*there;
    *there = 1;
  }
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(int n, double *at) {
  qsort(at, (size_t)n, sizeof *at, by_size);
  return n % 2 ? at[n / 2] : (at[n / 2 - 1] + at[n / 2]) / 2;
}

// The times of each op's executions, one op after another.
static double *times_of(ProfileEvents *e, const Executions *executions) {
  double *time = HL_ARRAY(e->arena, double, executions->n + 1);
  int *at = HL_ARRAY(e->arena, int, e->op.n + 1);
  for (int k = 0; k < executions->n; k++)
    e->op.at[executions->at[k].op].n++;
  for (int k = 0, first = 0; k < e->op.n; k++) {
    e->op.at[k].first = at[k] = first;
    first += e->op.at[k].n;
  }
  for (int k = 0; k < executions->n; k++) {
    const Execution *x = &executions->at[k];
    time[at[x->op]++] = x->micros > 0 ? x->micros : 0;
  }
  return time;
}

static bool add_row(HlCx *cx, const HlSource *source, const ProfileOp *op, double *time,
                    int64_t replicas, HlSimProfile *out) {
  const int64_t times = op->executions + op->n, runs = op->runs > 0 ? op->runs : 1;
  HlSimProfileRow row = {.name = op->name,
                         .category = op->category,
                         .occurrences = times / runs / replicas,
                         .flops = op->flops,
                         .bytes = op->bytes};
  if (op->n > 0)
    row.seconds = 1e-6 * median(op->n, time + op->first);
  else if (op->n_summed > 0)
    row.seconds = 1e-6 * op->summed / (double)op->n_summed;
  if (!isfinite(row.seconds))
    return hl_error(cx, (HlPos){source, 0}, "%.*s takes longer than any number",
                    (int)(op->name.n < 80 ? op->name.n : 80), op->name.at);
  return times == 0 || profile_add(out, row);
}

bool events_rows(HlCx *cx, const HlSource *source, ProfileEvents *e, int64_t replicas,
                 HlSimProfile *out) {
  Executions executions = {0};
  Opens open = {0};
  if (e->event.n > 1)
    qsort(e->event.at, (size_t)e->event.n, sizeof *e->event.at, in_order);
  for (int k = 0, end; k < e->event.n; k = end) {
    for (end = k + 1; end < e->event.n && e->event.at[end].line == e->event.at[k].line;)
      end++;
    take_line(e, k, end, &open, &executions);
  }
  vec_free(&open);
  count_runs(e);
  double *time = times_of(e, &executions);
  bool ok = true;
  for (int k = 0; ok && k < e->op.n; k++)
    ok = add_row(cx, source, &e->op.at[k], time, replicas, out);
  return ok;
}
