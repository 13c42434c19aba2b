// Rates, flows and exchanges beside SimGrid's: plain max-min sharing (CM02 without TCP's windows), where a lone message takes latency +
// bytes / bandwidth.
//
//   sim_simgrid [PATTERNS [MEMBERS]]      by default 1,000 patterns and a ring of 128
//
// Then what `hilo sim --net=simgrid` does (src/sim/net/simgrid.c): every exchange by every algorithm on networks of every shape,
// beside our own following of the same messages.
//
// SimGrid can be started once in a process: each batch of patterns has a child.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>

#include "hilo/network.h"
#include "support/folder.h"

enum { BATCH = 25, MAX_LINKS = 10, MAX_FLOWS = 20 };

// --- Starting it -------------------------------------------------------------------------------------------

static void begin(const char *platform) {
  char name[] = "hilo-simgrid";
  char *argv[] = {name,
                  "--cfg=network/model:CM02",
                  "--cfg=network/TCP-gamma:0",
                  "--cfg=network/crosstraffic:0",
                  "--cfg=network/weight-S:0",
                  "--cfg=network/optim:Full",
                  "--cfg=maxmin/precision:1e-13",
                  "--cfg=surf/precision:1e-13",
                  "--cfg=contexts/factory:raw",
                  "--cfg=contexts/stack-size:32",
                  "--log=root.thres:critical",
                  NULL};
  int argc = (int)(sizeof argv / sizeof *argv) - 1;
  simgrid_init(&argc, argv);
  simgrid_load_platform(platform);
}

static FILE *platform_file(char path[FOLDER_ROOM]) {
  const int fd = folder_file(path, "simgrid", ".xml");
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  if (!file) {
    perror(path);
    exit(2);
  }
  fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\">\n<zone id=\"all\" routing=\"Full\">\n",
        file);
  return file;
}

// --- Random patterns ----------------------------------------------------------------------------------------

typedef struct Pattern {
  int n_links, n_flows;
  double capacity[MAX_LINKS];
  HlNetFlow flow[MAX_FLOWS];
  int first[MAX_FLOWS + 1], link[MAX_FLOWS * MAX_LINKS];
} Pattern;

static Pattern make_pattern(uint64_t seed) {
  HlRng rng = {seed};
  Pattern p = {.n_links = 1 + (int)hl_rng_below(&rng, MAX_LINKS),
               .n_flows = 1 + (int)hl_rng_below(&rng, MAX_FLOWS)};
  for (int l = 0; l < p.n_links; l++)
    p.capacity[l] = 100 + (double)hl_rng_below(&rng, 900);
  int n = 0;
  for (int f = 0; f < p.n_flows; f++) {
    p.first[f] = n;
    for (int l = 0; l < p.n_links; l++)
      if (hl_rng_below(&rng, 3) == 0)
        p.link[n++] = l;
    if (n == p.first[f])
      p.link[n++] = (int)hl_rng_below(&rng, p.n_links);
    p.flow[f].bytes = 1000 + (double)hl_rng_below(&rng, 100000);
    p.flow[f].begin = hl_rng_below(&rng, 2) ? 0 : (double)hl_rng_below(&rng, 50);
  }
  p.first[p.n_flows] = n;
  return p;
}

typedef struct Sender {
  sg_host_t from, to;
  double begin, bytes, *done;
} Sender;

static void send_one(int argc, char **argv) {
  (void)argc, (void)argv;
  Sender *s = sg_actor_get_data(sg_actor_self());
  if (s->begin > 0)
    sg_actor_sleep_for(s->begin);
  sg_host_sendto(s->from, s->to, s->bytes);
  *s->done = simgrid_get_clock();
}

static void write_patterns(FILE *file, const Pattern *p, int n) {
  for (int k = 0; k < n; k++)
    for (int f = 0; f < p[k].n_flows; f++)
      fprintf(file, "<host id=\"s%d-%d\" speed=\"1f\"/><host id=\"d%d-%d\" speed=\"1f\"/>\n", k, f,
              k, f);
  for (int k = 0; k < n; k++)
    for (int l = 0; l < p[k].n_links; l++)
      fprintf(file, "<link id=\"l%d-%d\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", k, l,
              p[k].capacity[l]);
  for (int k = 0; k < n; k++)
    for (int f = 0; f < p[k].n_flows; f++) {
      fprintf(file, "<route src=\"s%d-%d\" dst=\"d%d-%d\" symmetrical=\"NO\">", k, f, k, f);
      for (int h = p[k].first[f]; h < p[k].first[f + 1]; h++)
        fprintf(file, "<link_ctn id=\"l%d-%d\"/>", k, p[k].link[h]);
      fputs("</route>\n", file);
    }
  fputs("</zone>\n</platform>\n", file);
  fclose(file);
}

// The largest difference of a batch, relative.
static double run_batch(uint64_t seed, int n) {
  static Pattern p[BATCH];
  static double done[BATCH][MAX_FLOWS], own[MAX_FLOWS];
  static Sender sender[BATCH][MAX_FLOWS];
  char path[FOLDER_ROOM], name[64];
  for (int k = 0; k < n; k++)
    p[k] = make_pattern(seed + (uint64_t)k);
  write_patterns(platform_file(path), p, n);
  begin(path);
  unlink(path);
  for (int k = 0; k < n; k++)
    for (int f = 0; f < p[k].n_flows; f++) {
      snprintf(name, sizeof name, "s%d-%d", k, f);
      sender[k][f] = (Sender){sg_host_by_name(name), NULL, p[k].flow[f].begin, p[k].flow[f].bytes,
                              &done[k][f]};
      name[0] = 'd';
      sender[k][f].to = sg_host_by_name(name);
      sg_actor_t actor = sg_actor_init("sender", sender[k][f].from);
      sg_actor_set_data(actor, &sender[k][f]);
      sg_actor_start(actor, send_one, 0, NULL);
    }
  simgrid_run();
  double worst = 0;
  for (int k = 0; k < n; k++) {
    hl_flows_finish(p[k].n_links, p[k].capacity, p[k].n_flows, p[k].flow, p[k].first, p[k].link,
                    own);
    for (int f = 0; f < p[k].n_flows; f++)
      worst = fmax(worst, fabs(own[f] - done[k][f]) / done[k][f]);
  }
  return worst;
}

// --- An all-reduce of a ring -----------------------------------------------------------------------------------

typedef struct Member {
  int i, n;
  double bytes;
} Member;

static sg_mailbox_t mailbox_to(int i) {
  char name[32];
  snprintf(name, sizeof name, "to%d", i);
  return sg_mailbox_by_name(name);
}

static void ring_member(int argc, char **argv) {
  (void)argc, (void)argv;
  static char nothing;
  const Member *m = sg_actor_get_data(sg_actor_self());
  sg_mailbox_t out = mailbox_to((m->i + 1) % m->n), in = mailbox_to(m->i);
  for (int round = 0; round < 2 * (m->n - 1); round++) {
    void *got;
    sg_comm_t send = sg_mailbox_put_async(out, &nothing, (long)(m->bytes / m->n)),
              receive = sg_mailbox_get_async(in, &got);
    sg_comm_wait(send);
    sg_comm_wait(receive);
  }
}

static void write_ring(FILE *file, int n) {
  for (int k = 0; k < n; k++)
    fprintf(file,
            "<host id=\"h%d\" speed=\"1f\"/><link id=\"l%d\" bandwidth=\"50000000000Bps\" "
            "latency=\"500ns\"/>\n",
            k, k);
  for (int k = 0; k < n; k++)
    fprintf(file,
            "<route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\"><link_ctn id=\"l%d\"/></route>\n", k,
            (k + 1) % n, k);
  fputs("</zone>\n</platform>\n", file);
  fclose(file);
}

static double own_ring(int n, double bytes) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  char text[128];
  snprintf(text, sizeof text, "device h100\nring %d bandwidth 50GB/s latency 500ns\n", n);
  HlSource *source = hl_source_new("ring", text, strlen(text), false);
  const HlSystem *s = hl_system_read(cx, arena, source);
  HlExchangeTime t = {0};
  const HlExchange what = {.kind = HL_ALL_REDUCE, .how = HL_HOW_RING, .bytes = bytes, .n = n};
  const double before = hl_now();
  if (!s || !hl_exchange_messages(cx, s, &what, &t))
    t.seconds = NAN;
  printf("ring of %d: %lld messages in %.2f s", n, (long long)t.messages, hl_now() - before);
  hl_source_unref(source);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return t.seconds;
}

static double run_ring(uint64_t ring, int n) {
  (void)ring;
  char path[FOLDER_ROOM], name[32];
  const double bytes = 4096.0 * n;
  write_ring(platform_file(path), n);
  begin(path);
  unlink(path);
  Member *members = calloc((size_t)n, sizeof *members);
  for (int k = 0; k < n; k++) {
    snprintf(name, sizeof name, "h%d", k);
    members[k] = (Member){k, n, bytes};
    sg_actor_t actor = sg_actor_init("member", sg_host_by_name(name));
    sg_actor_set_data(actor, &members[k]);
    sg_actor_start(actor, ring_member, 0, NULL);
  }
  const double before = hl_now();
  simgrid_run();
  const double took = hl_now() - before, theirs = simgrid_get_clock(), ours = own_ring(n, bytes);
  free(members);
  printf("; SimGrid %.2f s; %.9g s and %.9g s simulated\n", took, ours, theirs);
  return fabs(ours - theirs) / theirs;
}

// --- The backend ----------------------------------------------------------------------------------------------

// Networks of every shape, with levels above each other, links that are shared, latencies that differ, and reducing that takes time.
static const char *const networks[] = {
    "ring 7 bandwidth 50GB/s latency 500ns",
    "line 6 bandwidth 50GB/s latency 1us\nreduce 20GB/s",
    "torus 4x3 bandwidth 50GB/s latency 1us",
    "mesh 2x4 bandwidth 50GB/s latency 1us",
    "full 5 bandwidth 20GB/s latency 0s",
    "switch 4 bandwidth 400GB/s latency 300ns\nswitch 3 bandwidth 50GB/s latency 2us\nstart 10us",
    "switch 4 bandwidth 400GB/s latency 300ns\nswitch 4 shared bandwidth 25GB/s latency 2us",
    "fat-tree 8 down 4 up 2 bandwidth 50GB/s latency 1us far-bandwidth 40GB/s far-latency 3us",
    "dragonfly 12 hosts 2 routers 2 bandwidth 50GB/s latency 1us far-bandwidth 20GB/s far-latency 5us",
};

static double difference(HlCx *cx, const HlSystem *s, const HlExchange *what) {
  HlExchangeTime own, theirs;
  if (!hl_exchange_by(cx, s, what, HL_NET_MESSAGES, &own)) {
    const bool fits = hl_cx_error_kind(cx) != HL_UNSUPPORTED;
    hl_cx_clear(cx);
    return fits ? NAN : -1;
  }
  if (!hl_exchange_by(cx, s, what, HL_NET_SIMGRID, &theirs)) {
    printf("%s\n", hl_cx_diag(cx, 0)->text);
    return NAN;
  }
  if (own.messages != theirs.messages || own.rounds != theirs.rounds || own.sent != theirs.sent)
    return NAN;
  return theirs.seconds == own.seconds ? 0 : fabs(theirs.seconds - own.seconds) / own.seconds;
}

static bool read_network(HlCx *cx, HlArena *arena, const char *levels, const HlSystem **out) {
  char text[512];
  snprintf(text, sizeof text, "device h100\n%s\n", levels);
  HlSource *source = hl_source_new("network", text, strlen(text), false);
  *out = hl_system_read(cx, arena, source);
  hl_source_unref(source);
  return *out != NULL;
}

// A shift by two places, of which the last has nobody to send to.
static double shift(HlCx *cx, const HlSystem *s) {
  int64_t target[16];
  const int64_t n = hl_system_devices(s);
  for (int64_t k = 0; k < n; k++)
    target[k] = k == n - 1 ? -1 : (k + 2) % n;
  const HlExchange what = {
      .kind = HL_PERMUTE, .how = HL_HOW_DIRECT, .bytes = 1e6, .n = n, .target = target};
  return difference(cx, s, &what);
}

// Two groups at the same time, on links that they share.
static double two_groups(HlCx *cx, const HlSystem *s) {
  const int64_t half = hl_system_devices(s) / 2;
  int64_t member[16];
  for (int64_t k = 0; k < 2 * half; k++)
    member[k] = k < half ? 2 * k : 2 * (k - half) + 1;
  const HlExchange what = {.kind = HL_ALL_REDUCE,
                           .how = HL_HOW_RING,
                           .bytes = 1e6,
                           .n = half,
                           .groups = 2,
                           .member = member};
  return difference(cx, s, &what);
}

static double backend(int *compared) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  double worst = 0;
  for (size_t w = 0; w < sizeof networks / sizeof *networks; w++) {
    const HlSystem *s;
    if (!read_network(cx, arena, networks[w], &s))
      return NAN;
    for (int kind = 0; kind < HL_EXCHANGE_KINDS; kind++)
      for (int how = HL_HOW_RING; how < HL_HOWS; how++) {
        if (kind == HL_PERMUTE || !hl_how_does((HlExchangeHow)how, (HlExchangeKind)kind))
          continue;
        const HlExchange what = {.kind = (HlExchangeKind)kind,
                                 .how = (HlExchangeHow)how,
                                 .bytes = 1000003,
                                 .n = hl_system_devices(s)};
        const double one = difference(cx, s, &what);
        *compared += one >= 0;
        if (!(one <= 1e-9))
          printf("%s by %s on %s: %g\n", hl_exchange_text(what.kind), hl_how_text(what.how),
                 networks[w], one);
        worst = one > worst || isnan(one) ? one : worst;
      }
    const double more[] = {shift(cx, s), two_groups(cx, s)};
    for (int k = 0; k < 2; k++) {
      *compared += more[k] >= 0;
      worst = more[k] > worst ? more[k] : more[k] >= 0 ? worst : NAN;
    }
  }
  hl_arena_free(arena);
  hl_cx_free(cx);
  return worst;
}

// --- Children -----------------------------------------------------------------------------------------------------

static double in_child(double (*work)(uint64_t seed, int n), uint64_t seed, int n) {
  int ends[2];
  double result = NAN;
  fflush(stdout);
  if (pipe(ends) != 0)
    return NAN;
  const pid_t child = fork();
  if (child == 0) {
    result = work(seed, n);
    fflush(stdout);
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &result, sizeof result) != sizeof result)
    result = NAN;
  close(ends[0]);
  waitpid(child, NULL, 0);
  return result;
}

int main(int argc, char **argv) {
  const int patterns = argc > 1 ? atoi(argv[1]) : 1000, members = argc > 2 ? atoi(argv[2]) : 128;
  double worst = 0;
  for (int k = 0; k < patterns; k += BATCH) {
    const double one =
        in_child(run_batch, 1000 + (uint64_t)k, patterns - k < BATCH ? patterns - k : BATCH);
    worst = one > worst || isnan(one) ? one : worst;
    if (isnan(one))
      break;
  }
  printf("%d patterns: largest difference %.3g\n", patterns, worst);
  const double ring = in_child(run_ring, 0, members);
  printf("ring: difference %.3g\n", ring);
  int compared = 0;
  const double behind = backend(&compared);
  printf("%d exchanges by the backend: largest difference %.3g\n", compared, behind);
  return worst <= 1e-9 && ring <= 1e-6 && behind <= 1e-9 && compared > 200 ? 0 : 1;
}
