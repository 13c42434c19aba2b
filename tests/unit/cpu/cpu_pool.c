// The pool of the CPU backend: every chunk is done once, by whatever number of threads, for several clients at once; what fails or
// is stopped ends; memory is aligned and kept. Under the thread sanitizer (hacking.md, Build) this is the test of its races.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <assert.h>
#include <cmocka.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/pool/alloc.h"
#include "cpu/pool/pool.h"
#include "cpu/pool/usable.h"
#include "hilo/base.h"

enum { CHUNKS = 1000 };

typedef struct Job {
  int64_t fails;  // this chunk does; -1: none
  int64_t stops;  // this one stops the team
  CpuTeam *team;
  double sum[CHUNKS];  // by chunk: how work is cut does not depend on who does it
  atomic_int times[CHUNKS];
  atomic_int begun;
} Job;

static bool sum_chunk(void *user, int64_t chunk, CpuMember *member) {
  Job *job = user;
  double *term = cpu_scratch(member, 100 * sizeof *term);
  assert(term && (uintptr_t)term % 64 == 0);
  for (int k = 0; k < 100; k++)
    term[k] = 1.0 / (double)(100 * chunk + k + 1);
  job->sum[chunk] = 0;
  for (int k = 0; k < 100; k++)
    job->sum[chunk] += term[k];
  atomic_fetch_add(&job->times[chunk], 1);
  atomic_fetch_add(&job->begun, 1);
  if (chunk == job->stops)
    cpu_team_stop(job->team);
  return chunk != job->fails;
}

static Job *job_new(CpuTeam *team) {
  Job *job = calloc(1, sizeof *job);
  *job = (Job){.fails = -1, .stops = -1, .team = team};
  return job;
}

static double total(const Job *job) {
  double sum = 0;
  for (int k = 0; k < CHUNKS; k++) {
    assert_int_equal(job->times[k], 1);
    sum += job->sum[k];
  }
  return sum;
}

// The harmonic number of 100,000, to the bit the same for all numbers of threads.
static void any_number_of_threads_does_the_same(void **state) {
  double first = 0;
  static const int threads[] = {1, 2, 8};
  for (int t = 0; t < 3; t++) {
    CpuPool *pool = cpu_pool_new(threads[t]);
    CpuTeam *team = cpu_team_new(pool);
    assert_int_equal(cpu_pool_threads(pool), threads[t]);
    assert_int_equal(cpu_team_threads(team), threads[t]);
    for (int repeat = 0; repeat < 20; repeat++) {
      Job *job = job_new(team);
      assert_true(cpu_parallel(team, CHUNKS, 1, sum_chunk, job));
      first = first == 0 ? total(job) : first;
      assert_true(total(job) == first);
      free(job);
    }
    cpu_team_free(team);
    cpu_pool_free(pool);
  }
  assert_true(first > 12.0901 && first < 12.0902);
}

static void a_failing_chunk_ends_the_region(void **state) {
  CpuPool *pool = cpu_pool_new(4);
  CpuTeam *team = cpu_team_new(pool);
  for (int seconds = 0; seconds < 2; seconds++) {  // alone and together
    Job *job = job_new(team);
    job->fails = 10;
    assert_false(cpu_parallel(team, CHUNKS, seconds, sum_chunk, job));
    assert_true(job->begun > 10 && job->begun <= CHUNKS);
    assert_true(seconds > 0 || job->begun == 11);
    free(job);
    job = job_new(team);
    assert_true(cpu_parallel(team, CHUNKS, seconds, sum_chunk, job));
    total(job);
    free(job);
  }
  cpu_team_free(team);
  cpu_pool_free(pool);
}

static void a_stopped_team_runs_when_it_is_resumed(void **state) {
  CpuPool *pool = cpu_pool_new(4);
  CpuTeam *team = cpu_team_new(pool), *other = cpu_team_new(pool);
  for (int seconds = 0; seconds < 2; seconds++) {
    Job *job = job_new(team);
    job->stops = 10;
    assert_false(cpu_parallel(team, CHUNKS, seconds, sum_chunk, job));
    assert_true(cpu_team_stopped(team) && !cpu_team_stopped(other));
    const int begun = job->begun;
    assert_false(cpu_parallel(team, CHUNKS, seconds, sum_chunk, job));
    assert_false(cpu_parallel(team, 0, seconds, sum_chunk, job));
    assert_int_equal(job->begun, begun);
    free(job);
    job = job_new(other);
    assert_true(cpu_parallel(other, CHUNKS, seconds, sum_chunk, job));
    total(job);
    cpu_team_resume(team);
    memset(job, 0, sizeof *job);
    *job = (Job){.fails = -1, .stops = -1};
    assert_true(cpu_parallel(team, CHUNKS, seconds, sum_chunk, job));
    total(job);
    free(job);
  }
  cpu_team_free(team);
  cpu_team_free(other);
  cpu_pool_free(pool);
}

// --- Many small regions -------------------------------------------------------------------------

static bool add_chunk(void *user, int64_t chunk, CpuMember *member) {
  int64_t *sum = user;  // of each chunk
  sum[8 * chunk] += chunk + 1;
  return true;
}

static void many_regions(CpuTeam *team, int n) {
  int64_t sum[8 * 8] = {0};
  for (int k = 0; k < n; k++)
    assert_true(cpu_parallel(team, 8, 10e-6, add_chunk, sum));
  for (int k = 0; k < 8; k++)
    assert_int_equal(sum[8 * k], (int64_t)n * (k + 1));
}

// Chunks that would never end but look whether they are wanted: another thread stops the team, or the context is cancelled.
typedef struct Endless {
  CpuTeam *team;
  HlCx *cx;  // NULL: the team is stopped
  atomic_int begun;
} Endless;

static bool endless_chunk(void *user, int64_t chunk, CpuMember *member) {
  Endless *e = user;
  atomic_fetch_add(&e->begun, 1);
  while (!cpu_unwanted(member))
    usleep(100);
  return false;
}

static void *stop_soon(void *user) {
  Endless *e = user;
  while (atomic_load(&e->begun) == 0)
    usleep(1000);
  usleep(10000);
  if (e->cx)
    hl_cx_cancel(e->cx);
  else
    cpu_team_stop(e->team);
  return NULL;
}

static bool run_endless(HlCx *cx, void *user) {
  Endless *e = user;
  return cpu_parallel(e->team, CHUNKS, 1, endless_chunk, e);
}

static void long_chunks_look(void **state) {
  for (int threads = 1; threads <= 3; threads += 2)
    for (int cancels = 0; cancels < 2; cancels++) {
      CpuPool *pool = cpu_pool_new(threads);
      HlCx *cx = hl_cx_new();
      Endless e = {.team = cpu_team_new(pool), .cx = cancels ? cx : NULL};
      pthread_t other;
      assert_int_equal(pthread_create(&other, NULL, stop_soon, &e), 0);
      assert_false(hl_try(cx, run_endless, &e));
      pthread_join(other, NULL);
      assert_in_range(e.begun, 1, threads);
      cpu_team_resume(e.team);
      hl_cx_resume(cx);
      Job *job = job_new(e.team);  // and all works again
      assert_true(cpu_parallel(e.team, CHUNKS, 1, sum_chunk, job));
      total(job);
      free(job);
      cpu_team_free(e.team);
      cpu_pool_free(pool);
      hl_cx_free(cx);
    }
}

typedef struct Watched {
  atomic_int chunks[4];
  atomic_int wrong;
} Watched;

static void watch(void *user, int thread, double start, double end) {
  Watched *w = user;
  if (thread < 1 || thread > 3 || end < start)
    atomic_fetch_add(&w->wrong, 1);
  else
    atomic_fetch_add(&w->chunks[thread], 1);
}

static bool slow_chunk(void *user, int64_t chunk, CpuMember *member) {
  usleep(200);
  return true;
}

static void threads_are_watched(void **state) {
  CpuPool *pool = cpu_pool_new(4);
  CpuTeam *team = cpu_team_new(pool);
  Watched w = {0};
  cpu_team_watch(team, watch, &w);
  assert_true(cpu_parallel(team, 200, 1, slow_chunk, NULL));
  const int seen = w.chunks[1] + w.chunks[2] + w.chunks[3];  // all of them: the region has ended
  assert_int_equal(w.wrong, 0);
  assert_in_range(seen, 1, 199);
  cpu_team_watch(team, NULL, NULL);
  assert_true(cpu_parallel(team, 200, 1, slow_chunk, NULL));
  assert_int_equal(w.chunks[1] + w.chunks[2] + w.chunks[3], seen);
  cpu_team_free(team);
  cpu_pool_free(pool);
}

static void small_regions_follow_each_other(void **state) {
  CpuPool *pool = cpu_pool_new(3);
  CpuTeam *team = cpu_team_new(pool);
  int64_t sum[8 * 8] = {0};
  assert_true(cpu_parallel(team, 8, 1, add_chunk, sum));  // all are awake from here on
  many_regions(team, 100000);
  cpu_team_free(team);
  cpu_pool_free(pool);
}

// --- Several clients ----------------------------------------------------------------------------

enum { CLIENTS = 4, ROUNDS = 60 };

typedef struct Client {
  CpuPool *pool;
  int number;
  pthread_t thread;
} Client;

// Teams come and go while others run, some fail, some are stopped.
static void *be_client(void *user) {
  const Client *c = user;
  for (int round = 0; round < ROUNDS; round++) {
    CpuTeam *team = cpu_team_new(c->pool);
    Job *job = job_new(team);
    const int what = (round + c->number) % 4;
    job->fails = what == 1 ? 500 : -1;
    job->stops = what == 2 ? 300 : -1;
    const bool ok = cpu_parallel(team, CHUNKS, what == 3 ? 100e-6 : 1, sum_chunk, job);
    assert_int_equal(ok, what == 0 || what == 3);
    if (ok)
      total(job);
    free(job);
    cpu_team_resume(team);
    many_regions(team, 50);
    cpu_team_free(team);
  }
  return NULL;
}

static void clients_run_side_by_side(void **state) {
  static const int threads[] = {1, 2, 8};
  for (int t = 0; t < 3; t++) {
    Client client[CLIENTS];
    CpuPool *pool = cpu_pool_new(threads[t]);
    for (int k = 0; k < CLIENTS; k++) {
      client[k] = (Client){.pool = pool, .number = k};
      assert_int_equal(pthread_create(&client[k].thread, NULL, be_client, &client[k]), 0);
    }
    for (int k = 0; k < CLIENTS; k++)
      pthread_join(client[k].thread, NULL);
    cpu_pool_free(pool);
  }
}

// --- Waking -------------------------------------------------------------------------------------

static bool note_thread(void *user, int64_t chunk, CpuMember *member) {
  CpuMember **who = user;
  who[chunk] = member;
  const struct timespec ms = {.tv_nsec = 1000000};
  nanosleep(&ms, NULL);
  return true;
}

static int members(CpuTeam *team, double seconds) {
  CpuMember *who[100];
  assert_true(cpu_parallel(team, 100, seconds, note_thread, who));
  int n = 0;
  for (int k = 0; k < 100; k++) {
    bool seen = false;
    for (int j = 0; j < k && !seen; j++)
      seen = who[j] == who[k];
    n += !seen;
  }
  return n;
}

// On a loaded machine a worker may come late, or take its time to sleep.
static void come_to(CpuTeam *team, double seconds, int n) {
  int seen = members(team, seconds);
  for (int k = 0; k < 20 && seen != n; k++) {
    usleep(20000);
    seen = members(team, seconds);
  }
  assert_int_equal(seen, n);
}

static void short_work_wakes_nobody(void **state) {
  CpuPool *pool = cpu_pool_new(4);
  CpuTeam *team = cpu_team_new(pool);
  assert_int_equal(members(team, 100e-6), 1);
  come_to(team, 160e-6, 2);
  come_to(team, 100e-6, 1);
  come_to(team, 1, 4);
  come_to(team, 100e-6, 1);
  come_to(team, 1, 4);
  cpu_team_free(team);
  cpu_pool_free(pool);
}

// --- How many threads ---------------------------------------------------------------------------

static void put_file(const char *root, const char *path, const char *text) {
  char at[512];
  snprintf(at, sizeof at, "%s/%s", root, path);
  for (char *slash = strchr(at + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(at, 0777);
    *slash = '/';
  }
  FILE *f = fopen(at, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void groups_limit_the_threads(void **state) {
  static const struct {
    const char *groups;
    const char *file[3][2];
    int limit;
  } machine[] = {
      {"0::/\n", {{0}}, INT_MAX},
      {"0::/a/b\n", {{"a/b/cpu.max", "200000 100000\n"}}, 2},
      {"0::/a/b\n", {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "250000 100000\n"}}, 3},
      {"0::/a/b\n", {{"a/b/cpu.max", "400000 100000\n"}, {"a/cpu.max", "50000 100000\n"}}, 1},
      {"0::/elsewhere\n", {{"cpu.max", "700000 100000\n"}}, 7},
      {"3:cpuset:/\n2:cpu,cpuacct:/j\n0::/\n",
       {{"cpu,cpuacct/j/cpu.cfs_quota_us", "500000"},
        {"cpu,cpuacct/j/cpu.cfs_period_us", "100000"}},
       5},
      {"1:cpu:/j\n",
       {{"cpu/j/cpu.cfs_quota_us", "-1"}, {"cpu/j/cpu.cfs_period_us", "100000"}},
       INT_MAX},
      {"1:cpu:/out/side\n",
       {{"cpu/cpu.cfs_quota_us", "60000"}, {"cpu/cpu.cfs_period_us", "20000"}},
       3},
  };
  for (size_t k = 0; k < sizeof machine / sizeof *machine; k++) {
    char root[] = "/tmp/hilo-groups-XXXXXX", path[256], clean[300];
    assert_non_null(mkdtemp(root));
    put_file(root, "proc/self/cgroup", machine[k].groups);
    for (int f = 0; f < 3 && machine[k].file[f][0]; f++) {
      snprintf(path, sizeof path, "sys/fs/cgroup/%s", machine[k].file[f][0]);
      put_file(root, path, machine[k].file[f][1]);
    }
    assert_int_equal(cpu_group_limit(root), machine[k].limit);
    snprintf(clean, sizeof clean, "rm -r %s", root);
    assert_int_equal(system(clean), 0);
  }
  assert_true(cpu_usable_threads() >= 1);
  CpuPool *pool = cpu_pool_new(0);
  assert_int_equal(cpu_pool_threads(pool), cpu_usable_threads());
  cpu_pool_free(pool);
}

// --- Memory -------------------------------------------------------------------------------------

static bool use_scratch(void *user, int64_t chunk, CpuMember *member) {
  void **last = user;
  static const size_t sizes[] = {1, 5000, 64, (5 << 20) + 1, 5000};
  char *at = cpu_scratch(member, sizes[chunk]);
  assert((uintptr_t)at % 64 == 0);
  memset(at, 1, sizes[chunk]);
  const bool kept = at == *last;
  *last = at;
  return chunk != 2 && chunk != 4 ? true : kept;  // it is large enough
}

static void scratch_grows_and_is_kept(void **state) {
  CpuPool *pool = cpu_pool_new(1);
  CpuTeam *team = cpu_team_new(pool);
  void *last = NULL;
  assert_true(cpu_parallel(team, 5, 1, use_scratch, &last));
  char *shared = cpu_team_scratch(team, 10000);
  memset(shared, 2, 10000);
  last = NULL;
  assert_true(cpu_parallel(team, 5, 1, use_scratch, &last));
  assert_true(shared != last && shared[0] == 2 && shared == cpu_team_scratch(team, 64));
  cpu_team_free(team);
  cpu_pool_free(pool);
}

enum { MB = 1 << 20 };

static void freed_blocks_are_used_again(void **state) {
  CpuAlloc *alloc = cpu_alloc_new(40 * MB);
  static const size_t sizes[] = {0, 1, 64, 65, 1000, 5000, MB, 2 * MB, 7 * MB + 12345};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    char *at = cpu_alloc_get(alloc, sizes[k]);
    assert_true(at && (uintptr_t)at % 64 == 0);
    assert_true(cpu_alloc_use(alloc).used >= sizes[k]);
    assert_true(cpu_alloc_use(alloc).used <= sizes[k] + sizes[k] / 8 + 64);
    memset(at, 1, sizes[k]);
    cpu_alloc_put(alloc, at, sizes[k]);
    assert_int_equal(cpu_alloc_use(alloc).used, 0);
    char *again = cpu_alloc_get(alloc, sizes[k] ? sizes[k] - sizes[k] / 1000 : 0);
    assert_ptr_equal(at, again);
    cpu_alloc_put(alloc, again, sizes[k]);
  }
  cpu_alloc_put(alloc, NULL, 100);
  assert_null(cpu_alloc_get(alloc, SIZE_MAX));
  assert_null(cpu_alloc_get(alloc, SIZE_MAX / 8));
  cpu_alloc_free(alloc);
}

// The last used stay.
static void no_more_is_kept_than_may_be(void **state) {
  CpuAlloc *alloc = cpu_alloc_new(10 * MB);
  void *at[20], *large = cpu_alloc_get(alloc, 11 * MB);
  for (int k = 0; k < 20; k++)
    at[k] = cpu_alloc_get(alloc, MB);
  assert_int_equal(cpu_alloc_use(alloc).used, 31 * MB);
  for (int k = 0; k < 20; k++)
    cpu_alloc_put(alloc, at[k], MB);
  assert_int_equal(cpu_alloc_use(alloc).kept, 10 * MB);
  cpu_alloc_put(alloc, large, 11 * MB);
  assert_int_equal(cpu_alloc_use(alloc).kept, 0);
  assert_int_equal(cpu_alloc_use(alloc).most_used, 31 * MB);
  cpu_alloc_put(alloc, cpu_alloc_get(alloc, MB), MB);
  cpu_alloc_trim(alloc, 1000);
  assert_int_equal(cpu_alloc_use(alloc).kept, MB);
  cpu_alloc_trim(alloc, 0);
  assert_int_equal(cpu_alloc_use(alloc).kept, 0);
  cpu_alloc_free(alloc);
}

static void *ask_and_give_back(void *user) {
  CpuAlloc *alloc = user;
  char *at[16] = {0};
  size_t size[16] = {0};
  uint32_t random = (uint32_t)(uintptr_t)&random;
  for (int round = 0; round < 20000; round++) {
    random = random * 1664525 + 1013904223;
    const int k = random >> 28;
    for (size_t b = 0; b < size[k]; b += 4096)
      assert_int_equal(at[k][b], k);
    cpu_alloc_put(alloc, at[k], size[k]);
    size[k] = (size_t)1 << (random >> 10) % 18;
    at[k] = cpu_alloc_get(alloc, size[k]);
    memset(at[k], k, size[k]);
  }
  for (int k = 0; k < 16; k++)
    cpu_alloc_put(alloc, at[k], size[k]);
  return NULL;
}

static void threads_share_an_allocator(void **state) {
  CpuAlloc *alloc = cpu_alloc_new(MB);
  pthread_t thread[4];
  for (int k = 0; k < 4; k++)
    assert_int_equal(pthread_create(&thread[k], NULL, ask_and_give_back, alloc), 0);
  for (int k = 0; k < 4; k++)
    pthread_join(thread[k], NULL);
  assert_int_equal(cpu_alloc_use(alloc).used, 0);
  cpu_alloc_free(alloc);
}

static void who_sleeps_for_long_gives_back(void **state) {
  CpuAlloc *alloc = cpu_alloc_new(MB);
  CpuPool *pool = cpu_pool_new(2);
  cpu_pool_tend(pool, alloc, 0.02);
  CpuTeam *team = cpu_team_new(pool);
  for (int round = 0; round < 3; round++) {
    cpu_alloc_put(alloc, cpu_alloc_get(alloc, 1000), 1000);
    come_to(team, 1, 2);
    for (int k = 0; k < 100 && cpu_alloc_use(alloc).kept; k++)
      usleep(20000);
    assert_int_equal(cpu_alloc_use(alloc).kept, 0);
  }
  cpu_team_free(team);
  cpu_pool_free(pool);
  cpu_alloc_free(alloc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_number_of_threads_does_the_same),
      cmocka_unit_test(a_failing_chunk_ends_the_region),
      cmocka_unit_test(a_stopped_team_runs_when_it_is_resumed),
      cmocka_unit_test(long_chunks_look),
      cmocka_unit_test(threads_are_watched),
      cmocka_unit_test(small_regions_follow_each_other),
      cmocka_unit_test(clients_run_side_by_side),
      cmocka_unit_test(short_work_wakes_nobody),
      cmocka_unit_test(groups_limit_the_threads),
      cmocka_unit_test(scratch_grows_and_is_kept),
      cmocka_unit_test(freed_blocks_are_used_again),
      cmocka_unit_test(no_more_is_kept_than_may_be),
      cmocka_unit_test(threads_share_an_allocator),
      cmocka_unit_test(who_sleeps_for_long_gives_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
