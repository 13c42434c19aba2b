// sim/graph/each.c: the graphs of many processors, on several threads.
//
// Processors are taken in the order of the list. When one fails no more are taken; those before it have been, so that which failure
// is reported does not depend on the threads: the first of the list.

#include <pthread.h>

#include "base/memory.h"
#include "sim/graph/graph.h"

typedef struct Shared {
  const HlSimGraph *composite;
  HlI64s processors;
  const HlSimTranslation *how;
  HlSimCompat compat;
  HlSimVisit *visit;
  void *user;
  pthread_mutex_t lock;
  int next;
  bool failed;
} Shared;

typedef struct Worker {
  Shared *shared;
  HlCx *cx;
  BaseTry *try;
  pthread_t thread;
  bool started;
  int failed;  // which; -1: none
  SimRoom room;
} Worker;

static int take(Shared *s) {
  pthread_mutex_lock(&s->lock);
  const int k = s->failed || s->next == s->processors.n ? -1 : s->next++;
  pthread_mutex_unlock(&s->lock);
  return k;
}

static void fail(Shared *s) {
  pthread_mutex_lock(&s->lock);
  s->failed = true;
  pthread_mutex_unlock(&s->lock);
}

static bool run_one(Worker *w, int k) {
  const Shared *s = w->shared;
  HlSimGraph *graph =
      sim_individualize(w->cx, s->composite, s->processors.at[k], s->compat, &w->room);
  const bool ok = graph && (!s->how || hl_sim_translate(w->cx, graph, s->how)) &&
                  s->visit(w->cx, graph, k, s->user);
  hl_sim_graph_free(graph);
  sim_room_empty(&w->room);
  return ok;
}

static void run(void *user) {
  Worker *w = user;
  for (int k; (k = take(w->shared)) >= 0;) {
    base_look();
    if (run_one(w, k))
      continue;
    w->failed = k;
    fail(w->shared);
  }
}

static void *start(void *user) {
  Worker *w = user;
  if (!base_try_in(w->try, run, w))
    fail(w->shared);
  return NULL;
}

// Nothing here asks for memory while threads run: they must not be left alone.
static void run_all(Worker *worker, int n) {
  BaseTry *try = base_try_share();
  for (int k = 0; k < n; k++)
    worker[k].try = try;
  for (int k = 1; k < n; k++)  // where one does not start the others do its work
    worker[k].started = pthread_create(&worker[k].thread, NULL, start, &worker[k]) == 0;
  start(&worker[0]);
  for (int k = 1; k < n; k++)
    if (worker[k].started)
      pthread_join(worker[k].thread, NULL);
  base_try_unshare(try);
}

static bool report(HlCx *cx, Worker *worker, int n) {
  Worker *first = NULL;
  for (int k = 0; k < n; k++)
    if (worker[k].failed >= 0 && (!first || worker[k].failed < first->failed))
      first = &worker[k];
  if (first && first->cx != cx)
    hl_cx_merge(cx, first->cx);
  for (int k = 1; k < n; k++)
    hl_cx_free(worker[k].cx);
  return !first;
}

bool hl_sim_each_processor(HlCx *cx, const HlSimGraph *composite, HlI64s processors,
                           const HlSimTranslation *how, HlSimCompat compat, int threads,
                           HlSimVisit *visit, void *user) {
  Shared shared = {.composite = composite,
                   .processors = processors,
                   .how = how,
                   .compat = compat,
                   .visit = visit,
                   .user = user};
  const int n = threads < 1              ? 1
                : threads < processors.n ? threads
                : processors.n > 0       ? processors.n
                                         : 1;
  HlArena *arena = hl_arena_new();
  Worker *worker = HL_ARRAY(arena, Worker, n);
  const int before = hl_cx_n_diags(cx);
  pthread_mutex_init(&shared.lock, NULL);
  for (int k = 0; k < n; k++) {
    worker[k] = (Worker){.shared = &shared, .cx = k == 0 ? cx : hl_cx_new(), .failed = -1};
    *hl_cx_limits(worker[k].cx) = *hl_cx_limits(cx);
  }
  run_all(worker, n);
  for (int k = 0; k < n; k++)
    sim_room_free(&worker[k].room);
  pthread_mutex_destroy(&shared.lock);
  // What the first thread reported of a later one is not told.
  bool mine = worker[0].failed >= 0;
  for (int k = 1; k < n; k++)
    mine = mine && (worker[k].failed < 0 || worker[k].failed > worker[0].failed);
  if (worker[0].failed >= 0 && !mine)
    hl_cx_forget(cx, before);
  const bool ok = report(cx, worker, n);
  hl_arena_free(arena);
  return ok;
}
