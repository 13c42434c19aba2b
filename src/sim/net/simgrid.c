// sim/net/simgrid.c: an exchange message by message, by SimGrid.
//
// SimGrid's library is opened when it is asked for; Hilo is neither built with it nor needs it otherwise. What runs in it is the
// schedule that by_messages (exchange.c) follows: an actor for each member and stream, a mailbox for each pair of them that
// meet, and the links of the routes that are taken. Two things are done in another way than SimGrid's users would:
//
// - Its flow model gives a flow that shares a link a part by the inverse of its latency, as TCP does. Ours does not, so that links
//   have no latency in the platform: both ends of a message post it that much later, which begins it at the same time.
// - Sizes are whole numbers of bytes there. Bytes and bandwidths are multiplied by a power of two, so that the largest message
//   has some 2^52 of them.
//
// SimGrid runs once in a process and ends it when it is not content: it runs in a child. All that asks for memory of ours is done
// before; the child says what came out in a page that both have, and its complaints go through a pipe.

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "sim/net/net.h"

// --- The library ---------------------------------------------------------------------------------------

// Its C interface, as far as it is used, the same from 3.26 to 4: all objects are pointers.
typedef void Code(int argc, char **argv);
typedef struct Library {
  void (*init)(int *argc, char **argv);
  void (*load_platform)(const char *path);
  void (*run)(void);
  double (*clock)(void);
  void *(*host_by_name)(const char *name);
  void *(*actor_init)(const char *name, void *host);
  void (*actor_start)(void *actor, Code *code, int argc, const char *const *argv);
  void (*sleep_for)(double seconds);
  void *(*mailbox_by_name)(const char *name);
  void *(*put_async)(void *mailbox, void *payload, long bytes);
  void *(*get_async)(void *mailbox, void **payload);
  int (*comm_wait)(void *comm);  // 0: it is through
} Library;

static const struct {
  size_t at;
  const char *name;
} symbols[] = {
    {offsetof(Library, init), "simgrid_init"},
    {offsetof(Library, load_platform), "simgrid_load_platform"},
    {offsetof(Library, run), "simgrid_run"},
    {offsetof(Library, clock), "simgrid_get_clock"},
    {offsetof(Library, host_by_name), "sg_host_by_name"},
    {offsetof(Library, actor_init), "sg_actor_init"},
    {offsetof(Library, actor_start), "sg_actor_start_"},
    {offsetof(Library, sleep_for), "sg_actor_sleep_for"},
    {offsetof(Library, mailbox_by_name), "sg_mailbox_by_name"},
    {offsetof(Library, put_async), "sg_mailbox_put_async"},
    {offsetof(Library, get_async), "sg_mailbox_get_async"},
    {offsetof(Library, comm_wait), "sg_comm_wait"},
};

// With its development files the first one, without them that of a release.
static const char *const names[] = {"libsimgrid.so",      "libsimgrid.so.4.1",  "libsimgrid.so.4.0",
                                    "libsimgrid.so.3.36", "libsimgrid.so.3.35", "libsimgrid.so.3.34",
                                    "libsimgrid.so.3.33", "libsimgrid.so.3.32", "libsimgrid.so.3.31",
                                    "libsimgrid.dylib"};

static void *open_any(void) {
  const char *wish = getenv("HILO_SIMGRID");
  void *library = NULL;
  if (wish && *wish)
    return dlopen(wish, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  for (int k = 0; !library && k < HL_COUNT_OF(names); k++)
    library = dlopen(names[k], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  return library;
}

// It stays mapped. False after reporting.
static bool open_library(HlCx *cx, Library *out) {
  void *library = open_any();
  const char *lacks = NULL;
  if (!library) {
    const char *wish = getenv("HILO_SIMGRID");
    if (wish && *wish)
      hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "HILO_SIMGRID cannot be opened: %s", dlerror());
    else
      hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "the library of SimGrid is not installed");
    hl_hint(cx, "install it: apt-get install libsimgrid-dev, or name it: HILO_SIMGRID=FILE");
    return false;
  }
  for (int k = 0; k < HL_COUNT_OF(symbols) && !lacks; k++) {
    void *found = dlsym(library, symbols[k].name);
    memcpy((char *)out + symbols[k].at, &found, sizeof found);
    lacks = found ? NULL : symbols[k].name;
  }
  dlclose(library);
  return !lacks || hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                                 "the library of SimGrid has no %s: 3.26 or later is needed", lacks);
}

// --- What runs ------------------------------------------------------------------------------------------

enum { MOST_DEVICES = 4096, MOST_ROUTES = 1 << 20, MOST_SEATS = 1 << 16 };

typedef struct Way {
  int64_t from, to;  // devices
} Way;

typedef struct Talk Talk;

// One end of a message: where it goes last time, and what is known of that.
typedef struct End {
  int64_t peer;  // a seat; -1: none yet
  double latency;
  void *mailbox;  // NULL: from a device to itself
} End;

// A member in one stream.
typedef struct Seat {
  Talk *talk;
  int64_t number;
  End end[2 * NET_SENDS];  // that it sends, that it receives
} Seat;

// What the child says, in a page that it has with its parent.
typedef struct Outcome {
  double seconds;
  int64_t done;  // seats
} Outcome;

struct Talk {
  HlCx *cx;
  const HlSystem *s;
  const NetGroup *g;
  const NetSchedule *schedule;
  Library lib;
  int64_t n_seats;
  Seat *seat;
  VEC(Way) way;
  double largest;  // message
  double scale;    // a power of two: of bytes and of bytes/s
  int64_t messages;
  Outcome *outcome;
};

static int64_t device_of(const Talk *t, int64_t seat) {
  return net_member(t->g, 0, seat / t->schedule->streams);
}

static void add_way(Talk *t, Map *seen, int64_t from, int64_t to) {
  uint64_t *there = map_at(seen, (uint64_t)from << 32 | (uint64_t)to);
  if (from != to && !*there)
    vec_push(&t->way, ((Way){from, to}));
  *there = 1;
}

static void add_step(Talk *t, Map *seen, int64_t seat, int64_t round, int64_t times) {
  const int streams = t->schedule->streams;
  const int64_t group = seat / streams / t->g->n, i = seat / streams % t->g->n;
  NetStep step;
  net_step(t->schedule, i, (int)(seat % streams), round, &step);
  for (int k = 0; k < step.n_send; k++) {
    add_way(t, seen, device_of(t, seat), net_member(t->g, group, step.to[k]));
    t->largest = step.bytes[k] > t->largest ? step.bytes[k] : t->largest;
    t->messages += times;
  }
}

// Who sends to whom. False after reporting.
static bool find_ways(Talk *t) {
  Map seen = {0};
  bool ok = true;
  for (int64_t round = 0; ok && round < t->schedule->rounds;) {
    const int64_t until = net_same_until(t->schedule, round);
    for (int64_t seat = 0; seat < t->n_seats; seat++)
      add_step(t, &seen, seat, round, until - round);
    base_look();
    ok = t->way.n <= MOST_ROUTES ||
         hl_error_kind(t->cx, HL_LIMIT, (HlPos){0},
                       "more than %d pairs of devices exchange messages: too many for SimGrid",
                       MOST_ROUTES);
    round = until;
  }
  map_free(&seen);
  int exponent = 0;
  frexp(t->largest, &exponent);
  t->scale = t->largest > 0 ? ldexp(1, (sizeof(long) > 4 ? 52 : 30) - exponent) : 1;
  return ok;
}

// --- The platform ---------------------------------------------------------------------------------------

static void add_hosts(const Talk *t, HlBuf *out) {
  for (int64_t k = 0; k < t->g->groups * t->g->n; k++)
    hl_buf_printf(out, "<host id=\"h%lld\" speed=\"1f\"/>\n", (long long)net_member(t->g, 0, k));
}

static bool add_ways(const Talk *t, HlBuf *links, HlBuf *routes) {
  int64_t hops[HL_NET_HOPS];
  Map seen = {0};
  bool ok = true;
  for (int k = 0; ok && k < t->way.n; k++) {
    double latency;
    const Way w = t->way.at[k];
    const int n = hl_net_route(t->s, w.from, w.to, hops, HL_NET_HOPS, &latency);
    ok = n <= HL_NET_HOPS || hl_error_kind(t->cx, HL_LIMIT, (HlPos){0},
                                           "a message over %d links: there may be %d", n,
                                           HL_NET_HOPS);
    hl_buf_printf(routes, "<route src=\"h%lld\" dst=\"h%lld\" symmetrical=\"NO\">",
                  (long long)w.from, (long long)w.to);
    for (int h = 0; ok && h < n; h++) {
      uint64_t *there = map_at(&seen, (uint64_t)hops[h]);
      if (!*there)
        hl_buf_printf(links, "<link id=\"l%lld\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n",
                      (long long)hops[h], t->scale * hl_net_capacity(t->s, hops[h]));
      *there = 1;
      hl_buf_printf(routes, "<link_ctn id=\"l%lld\"/>", (long long)hops[h]);
    }
    hl_buf_printf(routes, "</route>\n");
  }
  map_free(&seen);
  return ok;
}

// Writes it to a file of its own. -1 after reporting; else its descriptor.
static int write_platform(const Talk *t, char *path) {
  HlBuf text = {0}, routes = {0};
  hl_buf_printf(&text, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                       "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
                       "<zone id=\"all\" routing=\"Full\">\n");
  add_hosts(t, &text);
  int file = -1;
  if (add_ways(t, &text, &routes)) {
    hl_buf_add(&text, routes.at ? routes.at : "", routes.n);
    hl_buf_printf(&text, "</zone>\n</platform>\n");
    file = mkstemps(path, 4);
    for (size_t at = 0; file >= 0 && at < text.n;) {
      const ssize_t n = write(file, text.at + at, text.n - at);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0) {
        close(file);
        unlink(path);
        file = -1;
      } else {
        at += (size_t)n;
      }
    }
    if (file < 0)
      hl_error_kind(t->cx, HL_FAILED, (HlPos){0}, "cannot write %s: %s", path, strerror(errno));
  }
  hl_buf_free(&routes);
  hl_buf_free(&text);
  return file;
}

// --- The child --------------------------------------------------------------------------------------------

// Sets what is known of an end whose peer is another than before.
static void aim(Seat *seat, int k, int64_t peer) {
  const Talk *t = seat->talk;
  End *end = &seat->end[k];
  if (end->peer == peer)
    return;
  const bool sends = k < NET_SENDS;
  const int64_t from = sends ? seat->number : peer, to = sends ? peer : seat->number;
  const int64_t a = device_of(t, from), b = device_of(t, to);
  *end = (End){peer, 0, NULL};
  if (a == b)
    return;
  char name[64];
  hl_net_route(t->s, a, b, NULL, 0, &end->latency);
  snprintf(name, sizeof name, "%lld-%lld", (long long)from, (long long)to);
  end->mailbox = t->lib.mailbox_by_name(name);
}

typedef struct Post {
  End *end;
  long bytes;  // -1: it is received
} Post;

// What a seat does in a round, what takes less latency first.
static int posts_of(Seat *seat, const NetStep *step, Post *post) {
  const Talk *t = seat->talk;
  const int streams = t->schedule->streams, stream = (int)(seat->number % streams);
  const int64_t base = seat->number / streams / t->g->n * t->g->n;
  int n = 0;
  for (int k = 0; k < step->n_send + step->n_receive; k++) {
    const bool sends = k < step->n_send;
    const int64_t peer = sends ? step->to[k] : step->from[k - step->n_send];
    const int at = sends ? k : NET_SENDS + k - step->n_send;
    aim(seat, at, (base + peer) * streams + stream);
    Post p = {&seat->end[at], sends ? lrint(step->bytes[k] * t->scale) : -1};
    if (!p.end->mailbox)
      continue;
    int place = n++;
    for (; place > 0 && post[place - 1].end->latency > p.end->latency; place--)
      post[place] = post[place - 1];
    post[place] = p;
  }
  return n;
}

// False: SimGrid did not move something.
static bool do_round(Seat *seat, const NetStep *step) {
  const Library *lib = &seat->talk->lib;
  Post post[2 * NET_SENDS];
  void *comm[2 * NET_SENDS], *got[2 * NET_SENDS];
  const int n = posts_of(seat, step, post);
  double waited = 0;
  bool ok = true;
  for (int k = 0; k < n; k++) {
    if (post[k].end->latency > waited) {
      lib->sleep_for(post[k].end->latency - waited);
      waited = post[k].end->latency;
    }
    comm[k] = post[k].bytes < 0 ? lib->get_async(post[k].end->mailbox, &got[k])
                                : lib->put_async(post[k].end->mailbox, seat, post[k].bytes);
  }
  for (int k = 0; k < n; k++)
    ok = lib->comm_wait(comm[k]) == 0 && ok;
  if (step->reduced > 0 && seat->talk->s->reduce > 0)
    lib->sleep_for(step->reduced / seat->talk->s->reduce);
  return ok;
}

// An actor. All that SimGrid gives it are words: of which seat it is.
static void take_part(int argc, char **argv) {
  void *given = NULL;
  if (argc < 1 || sscanf(argv[argc - 1], "%p", &given) != 1)
    return;
  Seat *seat = given;
  const Talk *t = seat->talk;
  const int streams = t->schedule->streams;
  for (int64_t round = 0; round < t->schedule->rounds; round++) {
    NetStep step;
    net_step(t->schedule, seat->number / streams % t->g->n, (int)(seat->number % streams), round,
             &step);
    if (step.n_send + step.n_receive > 0 && !do_round(seat, &step))
      return;
  }
  const double now = t->lib.clock();
  t->outcome->seconds = now > t->outcome->seconds ? now : t->outcome->seconds;
  t->outcome->done++;
}

static void simulate(Talk *t, const char *path) {
  const char *const words[] = {"hilo",
                               "--cfg=network/model:CM02",
                               "--cfg=network/TCP-gamma:0",
                               "--cfg=network/crosstraffic:0",
                               "--cfg=network/weight-S:0",
                               "--cfg=network/optim:Full",
                               "--cfg=maxmin/precision:1e-13",
                               "--cfg=surf/precision:1e-13",
                               "--cfg=contexts/stack-size:64",
                               "--cfg=contexts/guard-size:0",
                               "--log=root.thres:critical",
                               "--log=no_loc"};
  char *argv[HL_COUNT_OF(words) + 1] = {0};
  int argc = HL_COUNT_OF(words);
  for (int k = 0; k < argc; k++)
    argv[k] = (char *)(uintptr_t)words[k];
  t->lib.init(&argc, argv);
  t->lib.load_platform(path);
  for (int64_t k = 0; k < t->n_seats; k++) {
    char host[32], self[32];
    const char *given[] = {self};
    snprintf(host, sizeof host, "h%lld", (long long)device_of(t, k));
    snprintf(self, sizeof self, "%p", (void *)&t->seat[k]);
    t->lib.actor_start(t->lib.actor_init("member", t->lib.host_by_name(host)), take_part, 1, given);
  }
  t->lib.run();
}

static _Noreturn void be_child(Talk *t, const char *path, int complaints) {
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));  // it reads numbers as the locale writes them
  dup2(complaints, STDOUT_FILENO);
  dup2(complaints, STDERR_FILENO);
  simulate(t, path);
  _exit(0);
}

// --- The parent ---------------------------------------------------------------------------------------------

enum { HEARD = 400 };  // of what a child that failed has said

// Waits for the child; ends it if its work is not wanted any more. What it says last is heard.
static int wait_for(pid_t child, int complaints, char heard[HEARD + 1]) {
  int n = 0, status = 0;
  char piece[256];
  for (bool open = true; open;) {
    struct pollfd fd = {complaints, POLLIN, 0};
    if (poll(&fd, 1, 20) > 0) {
      const ssize_t got = read(complaints, piece, sizeof piece);
      open = got > 0 || (got < 0 && errno == EINTR);
      for (ssize_t k = 0; k < got && n < HEARD; k++)
        heard[n++] = piece[k];
    }
    if (open && base_unwanted()) {
      kill(child, SIGKILL);
      open = false;
    }
  }
  while (n > 0 && (heard[n - 1] == '\n' || heard[n - 1] == ' '))
    n--;
  heard[n] = '\0';
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

static bool run_child(Talk *t, const char *path) {
  int ends[2];
  char heard[HEARD + 1];
  if (pipe(ends) != 0)
    return hl_error_kind(t->cx, HL_FAILED, (HlPos){0}, "no pipe to SimGrid: %s", strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    be_child(t, path, ends[1]);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return hl_error_kind(t->cx, HL_FAILED, (HlPos){0}, "no process for SimGrid: %s",
                         strerror(errno));
  }
  const int status = wait_for(child, ends[0], heard);
  close(ends[0]);
  if (status == 0 && t->outcome->done == t->n_seats)
    return true;
  return hl_error_kind(t->cx, HL_FAILED, (HlPos){0},
                       "SimGrid did not come to an end (%s %d, %lld of %lld actors done)%s%s",
                       WIFSIGNALED(status) ? "signal" : "exit status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                       (long long)t->outcome->done, (long long)t->n_seats, *heard ? ": " : "",
                       heard);
}

// What it works with is ready.
static bool run(Talk *t) {
  const char *folder = getenv("TMPDIR");
  HlArena *arena = hl_cx_scratch(t->cx);
  const HlMark mark = hl_arena_mark(arena);
  char *path = hl_arena_printf(arena, "%s/hilo-simgrid-XXXXXX.xml",
                               folder && *folder ? folder : "/tmp");
  const int file = write_platform(t, path);
  bool ok = file >= 0;
  if (ok) {
    close(file);
    void *page = mmap(NULL, sizeof *t->outcome, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      ok = hl_error_kind(t->cx, HL_LIMIT, (HlPos){0}, "out of memory");
    } else {
      t->outcome = page;
      ok = run_child(t, path);
      unlink(path);
    }
  }
  hl_arena_release(arena, mark);
  return ok;
}

bool net_by_simgrid(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                    HlExchangeTime *out) {
  Talk t = {.cx = cx, .s = s, .g = g, .schedule = schedule};
  t.n_seats = g->groups * g->n * schedule->streams;
  if (!open_library(cx, &t.lib))
    return false;
  if (g->groups * g->n > MOST_DEVICES || t.n_seats > MOST_SEATS)
    return hl_error_kind(cx, HL_LIMIT, (HlPos){0},
                         "an exchange of %lld devices in %d streams: SimGrid is given up to %d "
                         "devices and %d members of streams",
                         (long long)(g->groups * g->n), schedule->streams, MOST_DEVICES,
                         MOST_SEATS);
  t.seat = base_alloc(sizeof *t.seat * (size_t)(t.n_seats + 1));
  for (int64_t k = 0; k < t.n_seats; k++) {
    t.seat[k] = (Seat){.talk = &t, .number = k};
    for (int e = 0; e < HL_COUNT_OF(t.seat[k].end); e++)
      t.seat[k].end[e].peer = -1;
  }
  bool ok = find_ways(&t) && (t.way.n == 0 || run(&t));
  if (ok)
    *out = (HlExchangeTime){.seconds = s->start + (t.outcome ? t.outcome->seconds : 0),
                            .messages = t.messages,
                            .rounds = schedule->rounds};
  if (t.outcome)
    munmap(t.outcome, sizeof *t.outcome);
  vec_free(&t.way);
  base_free(t.seat);
  base_look();
  return ok;
}
