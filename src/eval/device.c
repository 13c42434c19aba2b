// eval/device.c: logical devices as threads, and the places where they meet.
//
// A meeting gathers the values of all members of a group and gives them to each; a mailbox is a
// queue. All of it stands under one lock: devices meet seldom compared with what they compute. A
// device that waits counts as blocked until somebody completes what it waits for; when every device
// that still runs is blocked, nothing can ever happen, and all of them fail.
//
// Devices of other processes meet here, too: what they bring comes as messages (HlRemote), what ours bring goes
// to each process that has a member. A message may be early, for a round that ours have not come to.

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
  const HlRemote *remote;  // NULL: all devices are here
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

MeetKey device_key(const HlInst *inst, int64_t channel, int64_t group) {
  const int64_t id = (int64_t)((uint64_t)inst->comp->id << 32 | inst->id);
  return (MeetKey){channel > 0 ? -1 : id, channel, group};
}

static bool same_key(const MeetKey *a, const MeetKey *b) {
  return a->inst == b->inst && a->channel == b->channel && a->group == b->group;
}

// Tells all devices to give up, once every running one is blocked: unless others may come from elsewhere.
static void check_stuck(Meetings *m) {
  if (!m->failed && !m->remote && m->running > 0 && m->blocked >= m->running)
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

// The oldest meeting of this key that waits for this member, or a new one.
static Meeting *find_meeting(Meetings *m, const MeetKey *key, int n, int n_mine, int me) {
  Meeting *found = NULL;
  for (Meeting *k = m->meeting; k; k = k->next)
    if (!k->complete && same_key(&k->key, key)) {
      if (k->n != n || k->n_mine != n_mine)
        return NULL;
      found = k->here[me] && m->remote ? found : k;
    }
  if (found)
    return found;
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

static void free_meeting(Meeting *meeting) {
  for (int k = 0; k < meeting->n * meeting->n_mine; k++)
    hl_literal_unref(meeting->value[k]);
  base_free(meeting->value);
  base_free(meeting->here);
  base_free(meeting);
}

static void leave_meeting(Meetings *m, Meeting *meeting) {
  if (--meeting->inside > 0)
    return;
  Meeting **link = &m->meeting;
  while (*link != meeting)
    link = &(*link)->next;
  *link = meeting->next;
  free_meeting(meeting);
}

// A member's values; when it is the last one, those who are inside go on.
static void bring(Meetings *m, Meeting *meeting, int me, HlLiteral *const *values) {
  for (int k = 0; k < meeting->n_mine; k++)
    meeting->value[me * meeting->n_mine + k] = hl_literal_ref(values[k]);
  meeting->here[me] = true;
  if (++meeting->arrived < meeting->n)
    return;
  meeting->complete = true;
  m->blocked -= meeting->inside;
  pthread_cond_broadcast(&m->changed);
}

static void arrive(Meetings *m, Meeting *meeting, int me, const HlLiteral *const *mine) {
  m->blocked++;
  meeting->inside++;
  bring(m, meeting, me, (HlLiteral *const *)mine);
  if (!meeting->complete)
    check_stuck(m);
}

static bool meet(Interp *in, const HlInst *inst, Meetings *m, const MeetKey *key, int n, int me,
                 const HlLiteral *const *mine, int n_mine, HlLiteral **all) {
  if (m->failed)
    return given_up(in, inst, m);
  Meeting *meeting = find_meeting(m, key, n, n_mine, me);
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

// Tells each other process that has a member, once.
static bool tell_others(Interp *in, const Meetings *m, const HlRemoteMessage *message,
                        const int64_t *member, int n) {
  const HlRemote *remote = m->remote;
  for (int k = 0; remote && k < n; k++) {
    const int process = remote->process[member[k]];
    bool again = process == remote->here;
    for (int j = 0; j < k && !again; j++)
      again = remote->process[member[j]] == process;
    if (!again && !remote->send(remote->user, in->ev.cx, process, message))
      return false;
  }
  return true;
}

bool device_exchange(Interp *in, const HlInst *inst, MeetKey key, int n, const int64_t *member,
                     int me, const HlLiteral *const *mine, int n_mine, HlLiteral **all) {
  Meetings *m = in->cluster->meetings;
  if (n <= 1 || !m) {
    for (int k = 0; k < n_mine; k++)
      all[k] = hl_literal_ref(mine[k]);
    return n <= 1 || hl_inst_error(in->ev.cx, inst, "a group of %d devices, but only one runs", n);
  }
  const HlRemoteMessage message = {key, n, me, n_mine, (HlLiteral *const *)mine};
  if (!tell_others(in, m, &message, member, n))
    return false;
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

static void put_letter(Meetings *m, MeetKey key, const HlLiteral *value) {
  Letter *letter = base_alloc(sizeof(*letter));
  *letter = (Letter){key, NULL, hl_literal_ref(value)};
  lock(&m);
  add_letter(m, letter);
  unlock(&m);
}

bool device_post(Interp *in, MeetKey key, int target, const HlLiteral *value) {
  Meetings *m = in->cluster->meetings;
  if (hl_eval_is_here(in->cluster->options, target)) {
    put_letter(m, key, value);
    return true;
  }
  HlLiteral *const values[] = {(HlLiteral *)(uintptr_t)value};
  const HlRemoteMessage message = {.key = key, .n_values = 1, .values = values};
  return tell_others(in, m, &message, &(int64_t){target}, 1);
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

// --- Other processes ------------------------------------------------------------------------------

typedef struct Taking {
  Meetings *meetings;
  const HlRemoteMessage *message;
} Taking;

static bool take(HlCx *cx, void *user) {
  const Taking *taking = user;
  const HlRemoteMessage *message = taking->message;
  Meetings *m = taking->meetings;
  if (message->n == 0) {
    put_letter(m, message->key, message->values[0]);
    return true;
  }
  lock(&m);
  Meeting *meeting =
      find_meeting(m, &message->key, message->n, message->n_values, message->me);
  if (meeting && !m->failed)
    bring(m, meeting, message->me, message->values);
  unlock(&m);
  return meeting || hl_error(cx, (HlPos){0}, "another process does not agree on who meets");
}

// A message, or what it says when there is no memory for it, or nobody to wait for: that ours need not wait either.
static void take_message(void *meetings, const HlRemoteMessage *message) {
  Meetings *m = meetings;
  HlCx *cx = hl_cx_new();
  if (!message || !hl_try(cx, take, &(Taking){m, message})) {
    pthread_mutex_lock(&m->lock);
    m->failed = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
  }
  hl_cx_free(cx);
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

static const char device_number[] = "eval:device";

int hl_eval_device(const HlCx *cx) {
  const int *device = hl_cx_lookup(cx, device_number);
  return device ? *device : 0;
}

static bool make_worker(HlCx *cx, Cluster *cluster, Worker *worker, int device) {
  worker->cx = cluster->n_devices > 1 ? hl_cx_new() : NULL;
  if (worker->cx) {
    *hl_cx_limits(worker->cx) = *hl_cx_limits(cx);
    hl_cx_register_copy(worker->cx, device_number, &device, sizeof device);
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
    if (!worker[d].in)
      continue;
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
  for (Meeting *meeting = m->meeting, *next; meeting; meeting = next) {
    next = meeting->next;  // of which only others came to know
    free_meeting(meeting);
  }
  base_drop(m);
  end_meetings(m);
}

bool device_run_all(HlCx *cx, Cluster *cluster, DeviceWork *work, void *user) {
  const int n = cluster->n_devices;
  Worker *worker = base_alloc((size_t)n * sizeof(*worker));
  Meetings meetings = {.remote = cluster->options->remote};
  pthread_mutex_init(&meetings.lock, NULL);
  pthread_cond_init(&meetings.changed, NULL);
  base_hold(&meetings, end_meetings);
  cluster->meetings = &meetings;
  bool good = true;
  for (int d = 0; d < n; d++) {
    if (!hl_eval_is_here(cluster->options, d))
      continue;
    meetings.running++;
    worker[d].work = work;
    worker[d].user = user;
    good = make_worker(cx, cluster, &worker[d], d) && good;
  }
  const HlRemote *remote = meetings.remote;
  if (remote)
    remote->listen(remote->user, take_message, &meetings);
  if (good && n == 1)
    run_worker(&worker[0]);
  else if (good)
    run_threads(cx, cluster, worker);
  if (remote)
    remote->listen(remote->user, NULL, NULL);
  for (int d = 0; d < n; d++) {
    if (!hl_eval_is_here(cluster->options, d))
      continue;
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
