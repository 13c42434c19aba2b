// eval/device.c: logical devices as threads, and the places where they meet.
//
// A meeting gathers the values of all members of a group and gives them to each; a mailbox is a
// queue. All of it stands under one lock: devices meet seldom compared with what they compute. A
// device that waits counts as blocked until somebody completes what it waits for; when every device
// that still runs is blocked, nothing can ever happen, and all of them fail.

#include "eval/device.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

enum { DEVICE_STACK_BYTES = 64 << 20 };

typedef struct Meeting {
  MeetKey key;
  struct Meeting *next;
  HlLiteral **value;  // n * n_mine, a reference each, while members are inside
  bool *here;
  int n, n_mine, arrived, inside;
  bool complete;
} Meeting;

typedef struct Letter {
  MeetKey key;
  struct Letter *next;
  HlLiteral *value;  // owned
} Letter;

// One device that waits for a letter.
typedef struct Reader {
  MeetKey key;
  struct Reader *next;
  bool awake;  // a letter has come: no longer counted as blocked
} Reader;

typedef struct Meetings {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Meeting *meeting;  // oldest last
  Letter *letter;    // oldest first
  Reader *reader;
  int running, blocked;
  bool failed, stuck;
} Meetings;

// What is done between the two may run out of memory. `held` is a variable of the caller: each thread holds its own.
static void release(void *held) {
  pthread_mutex_unlock(&(*(Meetings **)held)->lock);
}

static void lock(Meetings **held) {
  base_hold(held, release);
  pthread_mutex_lock(&(*held)->lock);
}

static void unlock(Meetings **held) {
  base_drop(held);
  pthread_mutex_unlock(&(*held)->lock);
}

static bool same_key(const MeetKey *a, const MeetKey *b) {
  return a->inst == b->inst && a->channel == b->channel && a->group == b->group;
}

// Tells all devices to give up, once every running one is blocked.
static void check_stuck(Meetings *m) {
  if (!m->failed && m->running > 0 && m->blocked >= m->running)
    m->failed = m->stuck = true;
  if (m->failed)
    pthread_cond_broadcast(&m->changed);
}

static bool given_up(Interp *in, const HlInst *inst, const Meetings *m) {
  return hl_error_kind(in->ev.cx, HL_FAILED, hl_pos(inst),
                       m->stuck ? "device %d waits at %s for devices that never come"
                                : "device %d stops at %s because another device has failed",
                       in->device, inst->name->text);
}

// --- Meetings -----------------------------------------------------------------------------------

// The meeting of this key that still waits for members, or a new one.
static Meeting *find_meeting(Meetings *m, const MeetKey *key, int n, int n_mine) {
  for (Meeting *k = m->meeting; k; k = k->next)
    if (!k->complete && same_key(&k->key, key))
      return k->n == n && k->n_mine == n_mine ? k : NULL;
  Meeting *new = base_alloc(sizeof(*new));
  *new = (Meeting){.key = *key,
                   .next = m->meeting,
                   .value = base_alloc(((size_t)n * (size_t)n_mine + 1) * sizeof(*new->value)),
                   .here = base_alloc(((size_t)n + 1) * sizeof(*new->here)),
                   .n = n,
                   .n_mine = n_mine};
  m->meeting = new;
  return new;
}

static void leave_meeting(Meetings *m, Meeting *meeting) {
  if (--meeting->inside > 0)
    return;
  Meeting **link = &m->meeting;
  while (*link != meeting)
    link = &(*link)->next;
  *link = meeting->next;
  for (int k = 0; k < meeting->n * meeting->n_mine; k++)
    hl_literal_unref(meeting->value[k]);
  base_free(meeting->value);
  base_free(meeting->here);
  base_free(meeting);
}

static void arrive(Meetings *m, Meeting *meeting, int me, const HlLiteral *const *mine) {
  for (int k = 0; k < meeting->n_mine; k++)
    meeting->value[me * meeting->n_mine + k] = hl_literal_ref(mine[k]);
  meeting->here[me] = true;
  meeting->inside++;
  if (++meeting->arrived < meeting->n) {
    m->blocked++;
    check_stuck(m);
    return;
  }
  meeting->complete = true;
  m->blocked -= meeting->n - 1;
  pthread_cond_broadcast(&m->changed);
}

static bool meet(Interp *in, const HlInst *inst, Meetings *m, const MeetKey *key, int n, int me,
                 const HlLiteral *const *mine, int n_mine, HlLiteral **all) {
  if (m->failed)
    return given_up(in, inst, m);
  Meeting *meeting = find_meeting(m, key, n, n_mine);
  if (!meeting || meeting->here[me])
    return hl_inst_error(in->ev.cx, inst, "the devices of a group do not agree on who meets here");
  arrive(m, meeting, me, mine);
  while (!meeting->complete && !m->failed)
    pthread_cond_wait(&m->changed, &m->lock);
  const bool good = meeting->complete;
  for (int k = 0; good && k < n * n_mine; k++)
    all[k] = hl_literal_ref(meeting->value[k]);
  leave_meeting(m, meeting);
  return good || given_up(in, inst, m);
}

bool device_exchange(Interp *in, const HlInst *inst, MeetKey key, int n, int me,
                     const HlLiteral *const *mine, int n_mine, HlLiteral **all) {
  Meetings *m = in->cluster->meetings;
  if (n <= 1 || !m) {
    for (int k = 0; k < n_mine; k++)
      all[k] = hl_literal_ref(mine[k]);
    return n <= 1 || hl_inst_error(in->ev.cx, inst, "a group of %d devices, but only one runs", n);
  }
  lock(&m);
  const bool good = meet(in, inst, m, &key, n, me, mine, n_mine, all);
  unlock(&m);
  return good;
}

// --- Mail ---------------------------------------------------------------------------------------

static void add_letter(Meetings *m, Letter *letter) {
  Letter **link = &m->letter;
  while (*link)
    link = &(*link)->next;
  *link = letter;
  for (Reader *reader = m->reader; reader; reader = reader->next)
    if (!reader->awake && same_key(&reader->key, &letter->key)) {
      reader->awake = true;
      m->blocked--;
      break;
    }
  pthread_cond_broadcast(&m->changed);
}

bool device_post(Interp *in, MeetKey key, const HlLiteral *value) {
  Meetings *m = in->cluster->meetings;
  Letter *letter = base_alloc(sizeof(*letter));
  *letter = (Letter){key, NULL, hl_literal_ref(value)};
  lock(&m);
  add_letter(m, letter);
  unlock(&m);
  return true;
}

static HlLiteral *find_letter(Meetings *m, const MeetKey *key) {
  for (Letter **link = &m->letter; *link; link = &(*link)->next)
    if (same_key(&(*link)->key, key)) {
      Letter *letter = *link;
      HlLiteral *value = letter->value;
      *link = letter->next;
      base_free(letter);
      return value;
    }
  return NULL;
}

static void stop_reading(Meetings *m, Reader *reader) {
  Reader **link = &m->reader;
  while (*link != reader)
    link = &(*link)->next;
  *link = reader->next;
}

// Waits as a reader of the list, so that who posts can tell that this device is blocked no more.
static HlLiteral *await_letter(Meetings *m, const MeetKey *key) {
  HlLiteral *value;
  while (!(value = find_letter(m, key)) && !m->failed) {
    Reader reader = {*key, m->reader, false};
    m->reader = &reader;
    m->blocked++;
    check_stuck(m);
    while (!reader.awake && !m->failed)
      pthread_cond_wait(&m->changed, &m->lock);
    stop_reading(m, &reader);
  }
  return value;
}

bool device_take(Interp *in, const HlInst *inst, MeetKey key, HlLiteral **value) {
  Meetings *m = in->cluster->meetings;
  lock(&m);
  *value = await_letter(m, &key);
  const bool good = *value || given_up(in, inst, m);
  unlock(&m);
  return good;
}

// --- Running ------------------------------------------------------------------------------------

typedef struct Worker {
  Interp *in;
  HlCx *cx;  // of its own, or NULL
  DeviceWork *work;
  void *user;
  pthread_t thread;
  BaseTry *try;  // that this is part of, or NULL
  bool started, good;
} Worker;

static void finish(Meetings *m, bool good) {
  pthread_mutex_lock(&m->lock);
  m->running--;
  if (!good)
    m->failed = true;
  check_stuck(m);
  pthread_mutex_unlock(&m->lock);
}

static void run_device(void *user) {
  Worker *worker = user;
  worker->good = worker->work(worker->in, worker->user);
}

static void *run_worker(void *user) {
  Worker *worker = user;
  const bool memory = base_try_in(worker->try, run_device, worker);
  finish(worker->in->cluster->meetings, memory && worker->good);
  return NULL;
}

static const char device_key[] = "eval:device";

int hl_eval_device(const HlCx *cx) {
  const int *device = hl_cx_lookup(cx, device_key);
  return device ? *device : 0;
}

static bool make_worker(HlCx *cx, Cluster *cluster, Worker *worker, int device) {
  worker->cx = cluster->n_devices > 1 ? hl_cx_new() : NULL;
  if (worker->cx) {
    *hl_cx_limits(worker->cx) = *hl_cx_limits(cx);
    hl_cx_register_copy(worker->cx, device_key, &device, sizeof device);
  }
  worker->in = interp_new_device(worker->cx ? worker->cx : cx, cx, cluster, device);
  return worker->in != NULL;
}

// Nothing here asks for memory while threads run: they must not be left alone.
static void run_threads(HlCx *cx, Cluster *cluster, Worker *worker) {
  BaseTry *try = base_try_share();
  int refused = -1;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, DEVICE_STACK_BYTES);
  for (int d = 0; d < cluster->n_devices; d++) {
    worker[d].try = try;
    worker[d].started = pthread_create(&worker[d].thread, &attr, run_worker, &worker[d]) == 0;
    if (!worker[d].started) {
      refused = d;
      finish(cluster->meetings, false);
    }
  }
  pthread_attr_destroy(&attr);
  for (int d = 0; d < cluster->n_devices; d++)
    if (worker[d].started)
      pthread_join(worker[d].thread, NULL);
  base_try_unshare(try);
  if (refused >= 0)
    hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot start a thread for device %d", refused);
}

static void end_meetings(void *meetings) {
  Meetings *m = meetings;
  pthread_mutex_destroy(&m->lock);
  pthread_cond_destroy(&m->changed);
}

static void free_meetings(Meetings *m) {
  for (Letter *letter = m->letter, *next; letter; letter = next) {
    next = letter->next;
    hl_literal_unref(letter->value);
    base_free(letter);
  }
  base_drop(m);
  end_meetings(m);
}

bool device_run_all(HlCx *cx, Cluster *cluster, DeviceWork *work, void *user) {
  const int n = cluster->n_devices;
  Worker *worker = base_alloc((size_t)n * sizeof(*worker));
  Meetings meetings = {.running = n};
  pthread_mutex_init(&meetings.lock, NULL);
  pthread_cond_init(&meetings.changed, NULL);
  base_hold(&meetings, end_meetings);
  cluster->meetings = &meetings;
  bool good = true;
  for (int d = 0; d < n; d++) {
    worker[d].work = work;
    worker[d].user = user;
    good = make_worker(cx, cluster, &worker[d], d) && good;
  }
  if (good && n == 1)
    run_worker(&worker[0]);
  else if (good)
    run_threads(cx, cluster, worker);
  for (int d = 0; d < n; d++) {
    good = good && worker[d].good;
    interp_free(worker[d].in);
    if (worker[d].cx) {
      hl_cx_merge(cx, worker[d].cx);
      hl_cx_free(worker[d].cx);
    }
  }
  free_meetings(&meetings);
  cluster->meetings = NULL;
  base_free(worker);
  return good;
}
