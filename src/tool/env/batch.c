// tool/env/batch.c: many environments played at once by threads that take what is to be done from a queue.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cpu/pool/pool.h"
#include "hilo/batch.h"

typedef struct Slot {
  HlBatch *batch;
  HlEnv *env;
  HlCx *cx;
  HlObserver *observer;
  int *action;
  int n, room;
  bool under_way;
  HlBatchStep out;
  char *error;
} Slot;

// Numbers of slots, first come first out; no more than there are slots.
typedef struct Queue {
  int *at;
  int first, n, room;
} Queue;

struct HlBatch {
  int n, n_threads;
  Slot *slot;
  pthread_t *thread;
  pthread_mutex_t lock;
  pthread_cond_t to_do, done;
  Queue todo, ready;
  int asked;  // that are not received yet
  pid_t process;  // whose threads they are: a child of fork() has none
  bool ends;
  bool has_locks;
};

static void queue_put(Queue *q, int k) {
  q->at[(q->first + q->n++) % q->room] = k;
}

static int queue_take(Queue *q) {
  const int k = q->at[q->first];
  q->first = (q->first + 1) % q->room;
  q->n--;
  return k;
}

// --- One step ---------------------------------------------------------------------------------------

// The lower half stands first.
static uint64_t seed_of(const Slot *s) {
  return (uint32_t)s->action[0] | (s->n < -1 ? (uint64_t)(uint32_t)s->action[1] << 32 : 0);
}

static bool try_step(HlCx *cx, void *user) {
  Slot *s = user;
  const bool failed = s->error != NULL;
  s->out = (HlBatchStep){0};
  if (s->n >= 0 && !failed && !hl_env_done(s->env))
    return s->n == 0 ? hl_env_apply(cx, s->env, NULL, 0, &s->out.step)
                     : hl_env_step(cx, s->env, s->action, s->n, &s->out.step);
  const uint64_t seed = s->n < 0 ? seed_of(s) : hl_rng_u64(hl_env_rng(s->env));
  s->out.is_reset = true;
  return hl_env_reset(cx, s->env, seed);
}

static bool try_observe(HlCx *cx, void *user) {
  Slot *s = user;
  return hl_observe(cx, s->observer, hl_env_module(s->env), hl_env_options(s->env)->target);
}

static char *error_of(const HlCx *cx) {
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    if (hl_cx_diag(cx, k)->severity == HL_ERROR) {
      const char *text = hl_cx_diag(cx, k)->text;
      char *copy = malloc(strlen(text) + 1);
      return copy ? strcpy(copy, text) : NULL;
    }
  return NULL;
}

static void work_on(Slot *s) {
  const bool ok =
      hl_try(s->cx, try_step, s) && (!s->observer || hl_try(s->cx, try_observe, s));
  free(s->error);
  s->error = ok ? NULL : error_of(s->cx);
  s->out.error = ok ? NULL : s->error ? s->error : "out of memory";
  hl_cx_clear(s->cx);
}

static void *run_thread(void *user) {
  HlBatch *b = user;
  pthread_mutex_lock(&b->lock);
  for (;;) {
    while (b->todo.n == 0 && !b->ends)
      pthread_cond_wait(&b->to_do, &b->lock);
    if (b->ends)
      break;
    const int k = queue_take(&b->todo);
    pthread_mutex_unlock(&b->lock);
    work_on(&b->slot[k]);
    pthread_mutex_lock(&b->lock);
    queue_put(&b->ready, k);
    pthread_cond_broadcast(&b->done);
  }
  pthread_mutex_unlock(&b->lock);
  return NULL;
}

// --- Batches ----------------------------------------------------------------------------------------

static bool make_slots(HlCx *cx, HlBatch *b, const HlEnv *env, const HlBatchOptions *o) {
  for (int k = 0; k < b->n; k++) {
    Slot *s = &b->slot[k];
    s->batch = b;
    s->cx = hl_cx_new();
    *hl_cx_limits(s->cx) = *hl_cx_limits(cx);
    s->observer = o->form ? hl_observer_new(o->form) : NULL;
    s->env = hl_env_fork(cx, env);
    if (!s->env || !hl_env_reset(cx, s->env, o->seed + (uint64_t)k) ||
        (s->observer && !try_observe(cx, s)))
      return false;
  }
  return true;
}

static bool start_threads(HlCx *cx, HlBatch *b, int wanted) {
  pthread_mutex_init(&b->lock, NULL);
  pthread_cond_init(&b->to_do, NULL);
  pthread_cond_init(&b->done, NULL);
  b->has_locks = true;
  while (b->n_threads < wanted) {
    if (pthread_create(&b->thread[b->n_threads], NULL, run_thread, b) != 0)
      return b->n_threads > 0 || hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot start a thread");
    b->n_threads++;
  }
  return true;
}

HlBatch *hl_batch_new(HlCx *cx, const HlEnv *env, int n, const HlBatchOptions *options) {
  const HlBatchOptions usual = {0}, *o = options ? options : &usual;
  const int usable = o->threads > 0 ? o->threads : cpu_usable_threads();
  const int threads = usable < n ? usable : n;
  if (n <= 0) {
    hl_error(cx, (HlPos){0}, "a batch has at least one environment");
    return NULL;
  }
  HlBatch *b = base_alloc(sizeof *b);
  b->n = n;
  b->process = getpid();
  b->slot = base_alloc_as(b, sizeof *b->slot * (size_t)n);
  b->thread = base_alloc_as(b, sizeof *b->thread * (size_t)threads);
  b->todo = (Queue){.at = base_alloc_as(b, sizeof(int) * (size_t)n), .room = n};
  b->ready = (Queue){.at = base_alloc_as(b, sizeof(int) * (size_t)n), .room = n};
  if (make_slots(cx, b, env, o) && start_threads(cx, b, threads))
    return b;
  hl_batch_free(b);
  return NULL;
}

static void end_threads(HlBatch *b) {
  if (!b->has_locks)
    return;
  pthread_mutex_lock(&b->lock);
  b->ends = true;
  pthread_cond_broadcast(&b->to_do);
  pthread_mutex_unlock(&b->lock);
  for (int k = 0; k < b->n_threads; k++)
    pthread_join(b->thread[k], NULL);
  pthread_mutex_destroy(&b->lock);
  pthread_cond_destroy(&b->to_do);
  pthread_cond_destroy(&b->done);
}

void hl_batch_free(HlBatch *b) {
  // What a child of fork() has is a picture of work under way, which nobody will end.
  if (!b || b->process != getpid())
    return;
  end_threads(b);
  for (int k = 0; k < b->n; k++) {
    Slot *s = &b->slot[k];
    hl_env_free(s->env);
    hl_observer_free(s->observer);
    if (s->cx)
      hl_cx_free(s->cx);
    base_free(s->action);
    free(s->error);
  }
  base_free(b->slot);
  base_free(b->thread);
  base_free(b->todo.at);
  base_free(b->ready.at);
  base_free(b);
}

int hl_batch_size(const HlBatch *b) {
  return b->n;
}

static void copy_action(Slot *s, const int *action, int n) {
  const int count = n < 0 ? -n : n;
  if (count > s->room) {
    s->action = base_realloc_as(s->batch, s->action, sizeof(int) * (size_t)count);
    s->room = count;
  }
  if (count > 0)
    memcpy(s->action, action, sizeof(int) * (size_t)count);
  s->n = n;
}

bool hl_batch_send(HlCx *cx, HlBatch *b, int env, const int *action, int n) {
  if (env < 0 || env >= b->n)
    return hl_error(cx, (HlPos){0}, "there is no environment %d: there are %d", env, b->n);
  if (n < -2)
    return hl_error(cx, (HlPos){0}, "a seed is one number or two, but %d were given", -n);
  if (b->process != getpid())
    return hl_error_kind(cx, HL_FAILED, (HlPos){0},
                         "the batch's threads are of the process that made it");
  Slot *s = &b->slot[env];
  pthread_mutex_lock(&b->lock);
  const bool waits = !s->under_way;
  if (waits) {
    s->under_way = true;
    copy_action(s, action, n);
    b->asked++;
    queue_put(&b->todo, env);
    pthread_cond_signal(&b->to_do);
  }
  pthread_mutex_unlock(&b->lock);
  return waits || hl_error(cx, (HlPos){0}, "environment %d has not been received yet", env);
}

bool hl_batch_is_under_way(HlBatch *b, int env) {
  if (b->process != getpid())
    return true;
  pthread_mutex_lock(&b->lock);
  const bool is = b->slot[env].under_way;
  pthread_mutex_unlock(&b->lock);
  return is;
}

int hl_batch_receive(HlBatch *b, int most, int *envs) {
  if (most <= 0 || b->process != getpid())
    return 0;
  pthread_mutex_lock(&b->lock);
  int wanted;
  while (b->ready.n < (wanted = most < b->asked ? most : b->asked))
    pthread_cond_wait(&b->done, &b->lock);
  for (int k = 0; k < wanted; k++) {
    envs[k] = queue_take(&b->ready);
    b->slot[envs[k]].under_way = false;
  }
  b->asked -= wanted;
  pthread_cond_broadcast(&b->done);  // another who waits may have less to wait for
  pthread_mutex_unlock(&b->lock);
  return wanted;
}

HlBatchStep hl_batch_step(const HlBatch *b, int env) {
  return b->slot[env].out;
}

HlEnv *hl_batch_env(HlBatch *b, int env) {
  return b->slot[env].env;
}

HlObserver *hl_batch_observer(HlBatch *b, int env) {
  return b->slot[env].observer;
}
