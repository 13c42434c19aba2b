// cpu/pool/pool.c: threads that share the work of kernels.
//
// A team that runs in parallel has a region: a function, and how many of its chunks are left. Who wants to work takes one off
// that number, does the chunk of that number, and counts it as done. The caller works as well; it returns when as many are
// done as there were. Nobody is waited for who has not begun a chunk: on a machine with other load a worker may come
// ten milliseconds late, and then finds nothing left (cpu.md 4).
//
//   left   3 -> 2 -> 1 -> 0          taken by whoever comes: chunk n - left
//   done   0 -> 1 -> 2 -> 3 = n      the caller may go on
//
// What the region is (function, n) is written while nothing is left and all is done, and read by those alone who have taken a
// chunk, until they count it as done. So `left` is all that guards it, and a worker that looks at a team late, or at one that has
// gone on to other regions since, does no harm. That is also why the teams of a pool stay where they are until the pool ends:
// one that is freed is given to the next who asks.
//
// Workers look for chunks in all teams. One that finds none goes on looking for about as long as it costs to wake it, then
// parks. Parked workers are woken by tokens (a semaphore): `parked` says how many are there to take one. Whoever lowers that
// number owes a token; a worker that has parked and sees work after all lowers it itself, and owes it to nobody. Since a worker
// raises `parked` before it looks a last time and a caller has chunks left before it reads `parked`, one of the two
// sees the other.
//
// A worker that has slept for long gives back memory, once, and sleeps on.

#include "cpu/pool/pool.h"

#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define WORTH_WAKING 150e-6  // of work, for each that is woken
#define WORTH_SHARING 2e-6   // less than that the caller does alone
#define SPIN 70e-6           // about what waking costs
enum { LINE = 64 };          // of the cache: what different threads write lies apart

struct CpuMember {
  void *scratch;
  size_t size;
  const CpuTeam *team;  // at whose chunk it is
};

struct CpuTeam {
  CpuPool *pool;
  CpuTeam *next;  // of all the pool's
  bool used;      // by someone: under the pool's lock
  CpuChunk *chunk;
  void *user;
  int64_t n;
  CpuMember caller, shared;
  CpuWatch *watch;
  void *watcher;
  sem_t all_done;  // where the caller sleeps
  atomic_bool failed, stopped;
  _Alignas(LINE) atomic_int_fast64_t left;
  _Alignas(LINE) atomic_int_fast64_t done;
  atomic_bool sleeps;  // the caller does, or is about to
};

typedef struct Worker {
  CpuPool *pool;
  pthread_t thread;
  CpuMember member;
  bool rested;  // has given back memory since it worked
} Worker;

struct CpuPool {
  int threads;
  bool eager;       // shares all that has more than one chunk
  Worker *worker;   // threads - 1
  CpuAlloc *alloc;  // gives back what it keeps after ...
  double idle;      // ... seconds without work
  pthread_mutex_t lock;
  CpuTeam *_Atomic teams;  // more come at the head, none goes
  sem_t token;
  atomic_bool ends;
  _Alignas(LINE) atomic_int started;  // workers
  atomic_int parked;
  atomic_int callers;  // in a region
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void breathe(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void take_token(sem_t *sem) {
  while (sem_wait(sem) != 0 && errno == EINTR)
    ;
}

// --- Scratch ------------------------------------------------------------------------------------

static void drop_scratch(CpuMember *member) {
  cpu_block_free(member->scratch, member->size);
  member->scratch = NULL;
  member->size = 0;
}

void *cpu_scratch(CpuMember *member, size_t bytes) {
  if (member->scratch && bytes <= member->size)
    return member->scratch;
  drop_scratch(member);
  member->size = bytes < 4096 ? 4096 : bytes;
  member->scratch = cpu_block_new(member->size);
  return member->scratch;
}

// --- Chunks -------------------------------------------------------------------------------------

static void count_done(CpuTeam *team, int64_t n) {
  if (atomic_fetch_add(&team->done, 1) == n - 1 && atomic_exchange(&team->sleeps, false))
    sem_post(&team->all_done);
}

// `thread` 0: the caller, which alone may look whether its work is wanted.
static bool do_chunk(CpuTeam *team, int64_t chunk, CpuMember *member, int thread) {
  if (atomic_load(&team->failed) || atomic_load(&team->stopped) || (thread == 0 && base_unwanted()))
    return false;
  if (thread == 0 || !team->watch)
    return team->chunk(team->user, chunk, member);
  const double start = now();
  const bool good = team->chunk(team->user, chunk, member);
  team->watch(team->watcher, thread, start, now());
  return good;
}

// Does chunks of a team until none is left; whether there was one. The last look at what the region is comes before a
// chunk counts as done: then there may be another.
static bool work(CpuTeam *team, CpuMember *member, int thread) {
  bool any = false;
  for (int64_t left = atomic_load(&team->left); left > 0;) {
    if (!atomic_compare_exchange_weak(&team->left, &left, left - 1))
      continue;
    const int64_t n = team->n;
    member->team = team;
    if (!do_chunk(team, n - left, member, thread))
      atomic_store(&team->failed, true);
    count_done(team, n);
    any = true;
    left = atomic_load(&team->left);
  }
  return any;
}

// --- Workers ------------------------------------------------------------------------------------

static bool help(Worker *w) {
  bool any = false;
  for (CpuTeam *team = atomic_load(&w->pool->teams); team; team = team->next)
    any |= work(team, &w->member, (int)(w - w->pool->worker) + 1);
  return any;
}

static bool has_work(CpuPool *pool) {
  for (CpuTeam *team = atomic_load(&pool->teams); team; team = team->next)
    if (atomic_load(&team->left) > 0)
      return true;
  return atomic_load(&pool->ends);
}

static int awake(CpuPool *pool) {
  return atomic_load(&pool->started) - atomic_load(&pool->parked);
}

// Looks for work for a while, unless there are enough who work.
static bool find_work(CpuPool *pool) {
  const double end = now() + SPIN;
  do {
    for (int k = 0; k < 32; k++) {
      if (has_work(pool))
        return true;
      breathe();
    }
  } while (atomic_load(&pool->callers) + awake(pool) <= pool->threads && now() < end);
  return false;
}

// Takes a worker out of those that are parked; false: none is.
static bool unpark(CpuPool *pool) {
  int n = atomic_load(&pool->parked);
  while (n > 0 && !atomic_compare_exchange_weak(&pool->parked, &n, n - 1))
    ;
  return n > 0;
}

static void rest(Worker *w) {
  drop_scratch(&w->member);
  cpu_alloc_trim(w->pool->alloc, 0);
  w->rested = true;
}

// Whether a token came within so many seconds.
static bool token_comes(sem_t *sem, double seconds) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  const double ns = (double)end.tv_nsec + 1e9 * seconds;
  end.tv_sec += (time_t)(ns / 1e9);
  end.tv_nsec = (long)(ns - 1e9 * (double)(time_t)(ns / 1e9));
  int status;
  do
    status = sem_timedwait(sem, &end);
  while (status != 0 && errno == EINTR);
  return status == 0;
}

// Sleeps until there is a token.
static void park(Worker *w) {
  CpuPool *pool = w->pool;
  atomic_fetch_add(&pool->parked, 1);
  if (has_work(pool) && unpark(pool))
    return;
  if (pool->alloc && !w->rested) {
    if (token_comes(&pool->token, pool->idle))
      return;
    rest(w);
  }
  take_token(&pool->token);
}

static void *run_worker(void *user) {
  Worker *w = user;
  while (!atomic_load(&w->pool->ends))
    if (help(w))
      w->rested = false;
    else if (!find_work(w->pool))
      park(w);
  return NULL;
}

// Signals are for the threads of those who called us.
static bool start_worker(CpuPool *pool) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_mutex_lock(&pool->lock);
  const int k = atomic_load(&pool->started);
  bool ok = k < pool->threads - 1;
  if (ok) {
    pool->worker[k].pool = pool;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = pthread_create(&pool->worker[k].thread, NULL, run_worker, &pool->worker[k]) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  if (ok)
    atomic_fetch_add(&pool->started, 1);
  pthread_mutex_unlock(&pool->lock);
  return ok;
}

// Wakes as many as the work is worth, and as are missing to have all threads busy.
static void call_helpers(CpuPool *pool, int64_t n, double seconds) {
  const double worth = seconds / WORTH_WAKING;
  int64_t wanted = pool->threads - atomic_load(&pool->callers);
  wanted = wanted < n - 1 ? wanted : n - 1;
  wanted = (double)wanted < worth || pool->eager ? wanted : (int64_t)worth;
  for (wanted -= awake(pool); wanted > 0; wanted--) {
    if (unpark(pool))
      sem_post(&pool->token);
    else if (!start_worker(pool))
      return;
  }
}

// --- Regions ------------------------------------------------------------------------------------

static bool all_alone(CpuTeam *team, int64_t n, CpuChunk *chunk, void *user) {
  if (atomic_load(&team->failed))
    atomic_store(&team->failed, false);
  team->caller.team = team;
  for (int64_t k = 0; k < n; k++)
    if (atomic_load(&team->stopped) || base_unwanted() || !chunk(user, k, &team->caller))
      return false;
  return !atomic_load(&team->stopped);
}

// Others still work on chunks that they have begun: mostly that is short, but they may have lost their processor.
static void wait_for_all(CpuTeam *team, int64_t n) {
  for (const double end = now() + SPIN; now() < end;)
    for (int k = 0; k < 32; k++, breathe())
      if (atomic_load(&team->done) == n)
        return;
  while (atomic_load(&team->done) < n) {
    atomic_store(&team->sleeps, true);
    if (atomic_load(&team->done) < n || !atomic_exchange(&team->sleeps, false))
      take_token(&team->all_done);
  }
}

bool cpu_parallel(CpuTeam *team, int64_t n, double seconds, CpuChunk *chunk, void *user) {
  CpuPool *pool = team->pool;
  if (n <= 1 || pool->threads == 1 || (seconds < WORTH_SHARING && !pool->eager))
    return all_alone(team, n, chunk, user);
  team->chunk = chunk;
  team->user = user;
  team->n = n;
  atomic_store(&team->failed, false);
  atomic_store(&team->done, 0);
  atomic_store(&team->left, n);
  atomic_fetch_add(&pool->callers, 1);
  call_helpers(pool, n, seconds);
  work(team, &team->caller, 0);
  if (atomic_load(&team->done) < n)
    wait_for_all(team, n);
  atomic_fetch_sub(&pool->callers, 1);
  return !atomic_load(&team->failed) && !atomic_load(&team->stopped);
}

void cpu_team_stop(CpuTeam *team) {
  atomic_store(&team->stopped, true);
}

bool cpu_team_stopped(const CpuTeam *team) {
  return atomic_load(&team->stopped);
}

void cpu_team_resume(CpuTeam *team) {
  atomic_store(&team->stopped, false);
}

bool cpu_unwanted(const CpuMember *member) {
  return atomic_load(&member->team->stopped) || atomic_load(&member->team->failed) ||
         base_unwanted();  // which is for the caller: other threads have no try
}

void cpu_team_watch(CpuTeam *team, CpuWatch *watch, void *user) {
  team->watch = watch;
  team->watcher = user;
}

void *cpu_team_scratch(CpuTeam *team, size_t bytes) {
  return cpu_scratch(&team->shared, bytes);
}

// --- Teams and pools ----------------------------------------------------------------------------

static CpuTeam *unused_team(CpuPool *pool) {
  CpuTeam *team = atomic_load(&pool->teams);
  while (team && team->used)
    team = team->next;
  if (!team && (team = cpu_block_new(sizeof *team))) {
    *team = (CpuTeam){.pool = pool, .next = atomic_load(&pool->teams)};
    sem_init(&team->all_done, 0, 0);
    atomic_store(&pool->teams, team);
  }
  return team;
}

CpuTeam *cpu_team_new(CpuPool *pool) {
  pthread_mutex_lock(&pool->lock);
  CpuTeam *team = unused_team(pool);
  if (team)
    team->used = true;
  pthread_mutex_unlock(&pool->lock);
  return team;
}

void cpu_team_free(CpuTeam *team) {
  if (!team)
    return;
  drop_scratch(&team->caller);
  drop_scratch(&team->shared);
  cpu_team_rest(team);
}

void cpu_team_rest(CpuTeam *team) {
  cpu_team_resume(team);
  cpu_team_watch(team, NULL, NULL);
  pthread_mutex_lock(&team->pool->lock);
  team->used = false;
  pthread_mutex_unlock(&team->pool->lock);
}

CpuPool *cpu_pool_new(int threads) {
  if (threads <= 0)
    threads = cpu_usable_threads();
  const size_t workers = (size_t)threads * sizeof(Worker);
  CpuPool *pool = cpu_block_new(sizeof *pool);
  Worker *worker = pool ? cpu_block_new(workers) : NULL;
  if (!worker) {
    cpu_block_free(pool, sizeof *pool);
    return NULL;
  }
  for (int k = 0; k < threads; k++)
    worker[k] = (Worker){0};
  *pool = (CpuPool){.threads = threads, .worker = worker};
  pthread_mutex_init(&pool->lock, NULL);
  sem_init(&pool->token, 0, 0);
  return pool;
}

static void end_workers(CpuPool *pool) {
  atomic_store(&pool->ends, true);
  while (unpark(pool))
    sem_post(&pool->token);
  for (int k = 0; k < atomic_load(&pool->started); k++) {
    pthread_join(pool->worker[k].thread, NULL);
    drop_scratch(&pool->worker[k].member);
  }
}

void cpu_pool_free(CpuPool *pool) {
  if (!pool)
    return;
  end_workers(pool);
  for (CpuTeam *team = atomic_load(&pool->teams), *next; team; team = next) {
    next = team->next;
    drop_scratch(&team->caller);
    drop_scratch(&team->shared);
    sem_destroy(&team->all_done);
    cpu_block_free(team, sizeof *team);
  }
  sem_destroy(&pool->token);
  pthread_mutex_destroy(&pool->lock);
  cpu_block_free(pool->worker, (size_t)pool->threads * sizeof(Worker));
  cpu_block_free(pool, sizeof *pool);
}

int cpu_pool_threads(const CpuPool *pool) {
  return pool->threads;
}

int cpu_team_threads(const CpuTeam *team) {
  return team->pool->threads;
}

void cpu_pool_share_all(CpuPool *pool) {
  pool->eager = true;
}

void cpu_pool_tend(CpuPool *pool, CpuAlloc *alloc, double seconds) {
  pool->alloc = alloc;
  pool->idle = seconds;
}
