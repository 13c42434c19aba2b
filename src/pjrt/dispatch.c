// pjrt/dispatch.c: threads that do what was promised.
//
// As many work at one time as there are processors; one that waits (Python is called back, and may run programs of its own) does not
// count. Threads are started when there is work and nobody is free, and end with the client: a process that only loads the
// plugin has none of them.

#include <pthread.h>
#include <stdlib.h>

#include "cpu/pool/pool.h"
#include "pjrt/dispatch.h"

enum { MOST_PROMISED = 32, MOST_THREADS = 256 };

struct Dispatcher {
  pthread_mutex_t lock;
  pthread_cond_t work, kept, gone;
  DispatchJob *first, **last;
  int threads, idle, blocked;  // of all threads: who wait for work, and who for others
  int most;                    // that work at a time
  int promised;
  bool ends;
};

static _Thread_local Dispatcher *mine;  // whose thread this is

Dispatcher *dispatcher_new(void) {
  Dispatcher *d = calloc(1, sizeof *d);
  if (!d)
    return NULL;
  pthread_mutex_init(&d->lock, NULL);
  pthread_cond_init(&d->work, NULL);
  pthread_cond_init(&d->kept, NULL);
  pthread_cond_init(&d->gone, NULL);
  d->last = &d->first;
  d->most = cpu_usable_threads();
  return d;
}

static DispatchJob *next_job(Dispatcher *d) {
  d->idle++;
  while (!d->first && !d->ends)
    pthread_cond_wait(&d->work, &d->lock);
  d->idle--;
  DispatchJob *job = d->first;
  if (job && !(d->first = job->next))
    d->last = &d->first;
  return job;
}

static void *run(void *user) {
  Dispatcher *d = mine = user;
  pthread_mutex_lock(&d->lock);
  for (DispatchJob *job; (job = next_job(d));) {
    pthread_mutex_unlock(&d->lock);
    job->work(job);
    pthread_mutex_lock(&d->lock);
  }
  d->threads--;
  pthread_cond_broadcast(&d->gone);
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

// Under the lock: sees to it that somebody takes the work.
static void call_for_help(Dispatcher *d) {
  pthread_t thread;
  if (d->idle == 0 && d->threads - d->blocked < d->most && d->threads < MOST_THREADS &&
      pthread_create(&thread, NULL, run, d) == 0) {
    pthread_detach(thread);
    d->threads++;
  }
  pthread_cond_signal(&d->work);
}

void dispatch(Dispatcher *d, DispatchJob *job) {
  job->next = NULL;
  pthread_mutex_lock(&d->lock);
  *d->last = job;
  d->last = &job->next;
  call_for_help(d);
  const bool nobody = d->threads == 0;  // no thread could be started
  if (nobody) {
    d->first = NULL;
    d->last = &d->first;
  }
  pthread_mutex_unlock(&d->lock);
  if (nobody)
    job->work(job);
}

void dispatch_promise(Dispatcher *d) {
  pthread_mutex_lock(&d->lock);
  while (d->promised >= MOST_PROMISED && mine != d)
    pthread_cond_wait(&d->kept, &d->lock);
  d->promised++;
  pthread_mutex_unlock(&d->lock);
}

void dispatch_kept(Dispatcher *d) {
  pthread_mutex_lock(&d->lock);
  d->promised--;
  pthread_cond_broadcast(&d->kept);
  pthread_mutex_unlock(&d->lock);
}

void dispatch_blocks(bool blocks) {
  if (!mine)
    return;
  pthread_mutex_lock(&mine->lock);
  mine->blocked += blocks ? 1 : -1;
  if (blocks && mine->first)
    call_for_help(mine);
  pthread_mutex_unlock(&mine->lock);
}

void dispatcher_free(Dispatcher *d) {
  if (!d)
    return;
  pthread_mutex_lock(&d->lock);
  while (d->promised > 0)
    pthread_cond_wait(&d->kept, &d->lock);
  d->ends = true;
  pthread_cond_broadcast(&d->work);
  while (d->threads > 0)
    pthread_cond_wait(&d->gone, &d->lock);
  pthread_mutex_unlock(&d->lock);
  pthread_mutex_destroy(&d->lock);
  pthread_cond_destroy(&d->work);
  pthread_cond_destroy(&d->kept);
  pthread_cond_destroy(&d->gone);
  free(d);
}
