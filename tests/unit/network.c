// Networks: system files, routes, fair rates, and exchanges by formula, by rounds and message by message.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/network.h"

static HlCx *cx;
static HlArena *arena;

static int set_up(void **state) {
  (void)state;
  cx = hl_cx_new();
  arena = hl_arena_new();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}

static const HlSystem *read_text(const char *text) {
  HlSource *source = hl_source_new("made-up.system", text, strlen(text), false);
  const HlSystem *s = hl_system_read(cx, arena, source);
  hl_source_unref(source);
  return s;
}

static const HlSystem *system_of(const char *levels) {
  char text[512];
  snprintf(text, sizeof text, "system made-up\ndevice h100\n%s\n", levels);
  const HlSystem *s = read_text(text);
  if (!s) {
    HlBuf out = {0};
    hl_diag_render(hl_cx_diag(cx, 0), false, &out);
    fail_msg("%s", out.at);
  }
  return s;
}

static bool near(double a, double b, double relative) {
  return fabs(a - b) <= relative * fabs(b);
}

// --- System files -----------------------------------------------------------------------------------------

static void test_built_in(void **state) {
  (void)state;
  const char *name;
  int n = 0;
  for (; (name = hl_system_name_at(n)); n++) {
    const HlSystem *s = hl_system_find(cx, arena, name);
    assert_non_null(s);
    assert_string_equal(s->name, name);
    HlBuf out = {0}, again = {0};
    hl_system_print(s, &out);
    const HlSystem *copy = read_text(out.at);
    assert_non_null(copy);
    hl_system_print(copy, &again);
    assert_string_equal(out.at, again.at);
    assert_int_equal(hl_system_devices(copy), hl_system_devices(s));
    hl_buf_free(&out);
    hl_buf_free(&again);
  }
  assert_true(n >= 12);
  assert_null(hl_system_find(cx, arena, "h1000"));
}

static void refuses(const char *text, const char *says) {
  hl_cx_clear(cx);
  assert_null(read_text(text));
  assert_true(hl_cx_n_diags(cx) > 0);
  if (!strstr(hl_cx_diag(cx, 0)->text, says))
    fail_msg("'%s' does not say '%s'", hl_cx_diag(cx, 0)->text, says);
}

static void test_damaged(void **state) {
  (void)state;
  refuses("", "no device");
  refuses("device h100\n", "no level");
  refuses("device h1000\nring 8 bandwidth 1GB/s\n", "no device is called");
  refuses("device h100\nring 8\n", "bandwidth");
  refuses("device h100\nring 0 bandwidth 1GB/s\n", "whole number");
  refuses("device h100\nring 8 bandwidth 1GB\n", "expected a number");
  refuses("device h100\nring 8 bandwidth 1GB/s latency -1s\n", "expected a number");
  refuses("device h100\nring 8 bandwidth nanB/s\n", "expected a number");
  refuses("device h100\nring 8 colour 3\n", "no property");
  refuses("device h100\nring 8 bandwidth\n", "no value");
  refuses("device h100\nfat-tree 8 bandwidth 1GB/s\n", "leaves");
  refuses("device h100\ndragonfly 9 hosts 2 routers 2 bandwidth 1GB/s\n", "groups");
  refuses("device h100\ntorus 4096x4096x4096 bandwidth 1GB/s\n", "devices");
  refuses("device h100\nefficiency 0\nring 2 bandwidth 1GB/s\n", "from 1e-06 to 1");
  refuses("gadget h100\n", "nothing that a system file says");
  hl_cx_clear(cx);
  double v;
  assert_true(hl_quantity("656Gbit/s", "B/s", &v) && near(v, 82e9, 1e-15));
  assert_true(hl_quantity("1.5us", "s", &v) && near(v, 1.5e-6, 1e-15));
  assert_true(hl_quantity("64MiB", "B", &v) && v == 67108864);
  assert_false(hl_quantity("3 us", "s", &v));
  assert_false(hl_quantity("3us", "B", &v));
}

// Whatever is cut off or changed in a file is refused or read, never worse; what was read prints as what reads back.
static void test_any_bytes(void **state) {
  (void)state;
  static const char *const files[] = {
      "system a\nabout b c\ndevice h100\nshare 0.5\nstart 10us\nefficiency 0.85\nreduce "
      "1TB/s\nslowdown 1.1\nswitch 8 bandwidth 450GB/s "
      "latency 1us\ntorus 4x4 shared bandwidth 1GB/s\ndragonfly 36 hosts 2 routers 3 bandwidth "
      "25GB/s far-latency 1us\n",
      "topology: [ Ring, Switch ]\nnpus_count: [ 8, 2 ]\nbandwidth: [ 50.0, 3 ]  # GB/s\nlatency: "
      "[ 500.0, 1 ]\n"};
  HlRng rng = {11};
  for (int trial = 0; trial < 4000; trial++) {
    char text[512];
    size_t n = strlen(files[trial % 2]);
    memcpy(text, files[trial % 2], n);
    if (trial % 3 == 0)
      n = (size_t)hl_rng_below(&rng, (int64_t)n + 1);
    for (int k = 0; k < trial % 5; k++)
      if (n > 0)
        text[hl_rng_below(&rng, (int64_t)n)] =
            (char)(hl_rng_below(&rng, 4) ? 32 + hl_rng_below(&rng, 95) : hl_rng_below(&rng, 256));
    hl_cx_clear(cx);
    HlSource *source = hl_source_new("any", text, n, false);
    const HlSystem *s = hl_system_read(cx, arena, source);
    hl_source_unref(source);
    assert_true((s == NULL) == (hl_cx_n_errors(cx) > 0));
    if (s) {
      HlBuf out = {0};
      hl_system_print(s, &out);
      const HlSystem *again = read_text(out.at);
      assert_non_null(again);
      assert_int_equal(hl_system_devices(again), hl_system_devices(s));
      hl_buf_free(&out);
    }
  }
  hl_cx_clear(cx);
}

static void test_what_if(void **state) {
  (void)state;
  const HlSystem *s = hl_system_find(cx, arena, "h100");
  const HlSystem *twice = hl_system_what_if(cx, arena, s, "bandwidth=2x");
  assert_true(twice->level[0].bandwidth == 2 * s->level[0].bandwidth &&
              twice->level[1].bandwidth == 2 * s->level[1].bandwidth);
  const HlSystem *one = hl_system_what_if(cx, arena, s, "level1.latency=3us");
  assert_true(one->level[1].latency == 3e-6 && one->level[0].latency == s->level[0].latency);
  const HlSystem *fast = hl_system_what_if(cx, arena, s, "compute=2x");
  assert_true(fast->device->matrix.of[HL_BF16] == 2 * s->device->matrix.of[HL_BF16]);
  assert_null(hl_system_what_if(cx, arena, s, "colour=2x"));
  assert_null(hl_system_what_if(cx, arena, s, "level7.bandwidth=2x"));
  assert_null(hl_system_what_if(cx, arena, s, "bandwidth"));
  assert_null(hl_system_what_if(cx, arena, s, "bandwidth=0B/s"));
  hl_cx_clear(cx);
  assert_int_equal(hl_system_devices(hl_system_resize(cx, arena, s, 4096)), 4096);
  assert_int_equal(hl_system_devices(hl_system_resize(cx, arena, s, 8)), 8);
  assert_int_equal(hl_system_devices(hl_system_resize(cx, arena, s, 4)), 4);
  assert_null(hl_system_resize(cx, arena, s, 12));
  hl_cx_clear(cx);
}

// --- Routes -------------------------------------------------------------------------------------------------

static const char *const level_texts[] = {
    "ring 6 bandwidth 1GB/s latency 1us",
    "line 5 bandwidth 1GB/s latency 1us",
    "torus 4x3 bandwidth 1GB/s latency 1us",
    "mesh 3x4 bandwidth 1GB/s latency 1us",
    "switch 8 bandwidth 1GB/s latency 1us",
    "full 5 bandwidth 1GB/s latency 1us",
    "fat-tree 16 down 4 up 2 bandwidth 1GB/s latency 1us far-bandwidth 2GB/s far-latency 3us",
    "dragonfly 36 hosts 2 routers 3 bandwidth 1GB/s latency 1us far-bandwidth 2GB/s far-latency "
    "3us",
    "switch 4 bandwidth 4GB/s latency 1us\nswitch 3 bandwidth 1GB/s latency 2us",
    "full 2 bandwidth 4GB/s latency 1us\ntorus 4x3 bandwidth 1GB/s latency 2us",
    "full 4 bandwidth 4GB/s latency 1us\nswitch 3 shared bandwidth 1GB/s latency 2us",
};

// Routes stay inside, are no longer than a walk through all, and only end links of a device are used by its neighbours alone.
static void test_routes(void **state) {
  (void)state;
  for (int k = 0; k < HL_COUNT_OF(level_texts); k++) {
    const HlSystem *s = system_of(level_texts[k]);
    const int64_t n = hl_system_devices(s), n_links = hl_net_links(s);
    for (int64_t a = 0; a < n; a++)
      for (int64_t b = 0; b < n; b++) {
        int64_t links[64];
        double latency;
        const int hops = hl_net_route(s, a, b, links, 64, &latency);
        assert_true(hops <= 64 && (hops == 0) == (a == b) && (latency > 0) == (a != b));
        for (int h = 0; h < hops; h++) {
          assert_true(links[h] >= 0 && links[h] < n_links && hl_net_capacity(s, links[h]) > 0);
          for (int i = 0; i < h; i++)
            assert_true(links[i] != links[h]);
        }
      }
  }
  double latency;
  int64_t links[64];
  assert_int_equal(hl_net_route(system_of(level_texts[7]), 0, 35, links, 64, &latency), 5);
  assert_int_equal(hl_net_route(system_of(level_texts[0]), 0, 5, links, 64, &latency), 1);
  assert_int_equal(hl_net_route(system_of(level_texts[1]), 0, 4, links, 64, &latency), 4);
}

// --- Fair rates -----------------------------------------------------------------------------------------------

// What makes rates max-min fair: no link carries more than it can, and each flow has a link that is full and on which
// nobody gets more than it.
static void test_max_min(void **state) {
  (void)state;
  HlRng rng = {7};
  for (int trial = 0; trial < 2000; trial++) {
    enum { L = 12, F = 30 };
    const int n_links = 1 + (int)hl_rng_below(&rng, L), n_flows = 1 + (int)hl_rng_below(&rng, F);
    double capacity[L], rate[F], used[L] = {0}, most[L] = {0};
    int first[F + 1], link[F * L], n = 0;
    for (int l = 0; l < n_links; l++)
      capacity[l] = hl_rng_below(&rng, 3) ? 1 + hl_rng_unit(&rng) * 99 : 10;
    for (int f = 0; f < n_flows; f++) {
      first[f] = n;
      for (int l = 0; l < n_links; l++)
        if (hl_rng_below(&rng, 3) == 0)
          link[n++] = l;
      if (n == first[f])
        link[n++] = (int)hl_rng_below(&rng, n_links);
    }
    first[n_flows] = n;
    hl_max_min(n_links, capacity, n_flows, first, link, rate);
    for (int f = 0; f < n_flows; f++)
      for (int k = first[f]; k < first[f + 1]; k++) {
        used[link[k]] += rate[f];
        most[link[k]] = fmax(most[link[k]], rate[f]);
      }
    for (int l = 0; l < n_links; l++)
      assert_true(used[l] <= capacity[l] * (1 + 1e-12));
    for (int f = 0; f < n_flows; f++) {
      bool held = false;
      for (int k = first[f]; k < first[f + 1]; k++)
        held = held || (used[link[k]] >= capacity[link[k]] * (1 - 1e-12) &&
                        most[link[k]] <= rate[f] * (1 + 1e-12));
      assert_true(rate[f] > 0 && held);
    }
  }
}

static void test_flows(void **state) {
  (void)state;
  // Two on a link of 10 B/s: 50 and 100 bytes, the second a second later.
  const double capacity[] = {10, 100};
  const HlNetFlow flow[] = {{0, 0, 50}, {0.5, 0.5, 100}, {0, 2, 100}, {3, 1, 0}};
  const int first[] = {0, 1, 2, 3, 4}, link[] = {0, 0, 1, 1};
  double done[4];
  hl_flows_finish(2, capacity, 4, flow, first, link, done);
  assert_true(near(done[0], 9, 1e-12));              // 10 bytes alone, 40 at 5
  assert_true(near(done[1], 9 + 60.0 / 10, 1e-12));  // 40 by then
  assert_true(near(done[2], 3, 1e-12));
  assert_true(near(done[3], 4, 1e-12));
}

// --- Exchanges ------------------------------------------------------------------------------------------------

static double seconds_of(const HlSystem *s, HlExchange what) {
  HlExchangeTime t;
  assert_true(hl_exchange_time(cx, s, &what, &t));
  return t.seconds;
}

// By formula, wherever there is one, and message by message: less than 1% apart.
static int agree(const HlSystem *s, HlExchangeKind kind, HlExchangeHow how, double bytes, int64_t n,
                 int64_t groups) {
  const HlExchange what = {.kind = kind, .how = how, .bytes = bytes, .n = n, .groups = groups};
  HlExchangeTime formula, messages;
  if (!hl_how_does(how, kind) || kind == HL_PERMUTE)
    return 0;
  if (!hl_exchange_time(cx, s, &what, &formula)) {
    assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
    hl_cx_clear(cx);
    return 0;
  }
  assert_true(hl_exchange_messages(cx, s, &what, &messages));
  if (formula.by_rounds) {
    // Rounds, as if all waited for each other after each, are not far from it, but for streams that are not in step.
    assert_true(near(formula.seconds, messages.seconds, 1e-12) || n * formula.rounds > 50000);
    assert_true(hl_exchange_rounds(cx, s, &what, &formula));
    const double over = formula.seconds / messages.seconds;
    const bool streams = how == HL_HOW_TORUS || how == HL_HOW_LEVELS;
    if (messages.seconds > 0 && !streams && (over < 0.9 || over > 1.5))
      fail_msg("%s by %s of %lld in %lld: rounds %g times as long as messages",
               hl_exchange_text(kind), hl_how_text(how), (long long)n, (long long)groups, over);
    return 0;
  }
  if (!near(formula.seconds, messages.seconds, 0.01)) {
    HlBuf out = {0};
    hl_system_print(s, &out);
    fail_msg("%s by %s of %lld in %lld: formula %g us, messages %g us\n%s", hl_exchange_text(kind),
             hl_how_text(how), (long long)n, (long long)groups, 1e6 * formula.seconds,
             1e6 * messages.seconds, out.at);
  }
  assert_int_equal(formula.messages, messages.messages);
  return 1;
}

// Who is alone exchanges nothing, whatever is asked.
static void test_alone(void **state) {
  (void)state;
  const HlSystem *s = system_of("switch 1 bandwidth 1GB/s latency 1us\nstart 10us");
  for (int kind = 0; kind < HL_EXCHANGE_KINDS; kind++)
    for (int model = HL_NET_FORMULA; model <= HL_NET_MESSAGES; model++) {
      const HlExchange what = {.kind = (HlExchangeKind)kind, .bytes = 1e6, .n = 1};
      HlExchangeTime t;
      if (kind == HL_PERMUTE)
        continue;
      assert_true(hl_exchange_by(cx, s, &what, (HlNetModel)model, &t));
      assert_true(t.seconds == 0 && t.messages == 0 && t.sent == 0);
    }
}

static void test_formulas(void **state) {
  (void)state;
  static const char *const levels[] = {
      "ring 8 bandwidth 1GB/s latency 1us\nreduce 5GB/s",
      "ring 7 bandwidth 1GB/s latency 1us",
      "line 6 bandwidth 1GB/s latency 1us",
      "torus 4x4 bandwidth 1GB/s latency 1us\nreduce 9GB/s",
      "torus 4x4x4 bandwidth 1GB/s latency 1us",
      "torus 4x8 bandwidth 1GB/s latency 1us",
      "torus 2x4x8 bandwidth 1GB/s latency 1us",
      "full 2 bandwidth 9GB/s latency 1us\ntorus 4x8 bandwidth 1GB/s latency 1us",
      "torus 3x5 bandwidth 1GB/s latency 1us\nreduce 3GB/s",
      "mesh 3x3 bandwidth 1GB/s latency 1us",
      "switch 16 bandwidth 1GB/s latency 1us\nreduce 5GB/s",
      "switch 11 bandwidth 1GB/s latency 1us",
      "full 8 bandwidth 1GB/s latency 1us",
      "full 5 bandwidth 1GB/s latency 1us",
      "fat-tree 16 down 4 up 4 bandwidth 1GB/s latency 1us",
      "dragonfly 36 hosts 2 routers 3 bandwidth 1GB/s latency 1us",
      "switch 4 bandwidth 4GB/s latency 1us\nswitch 4 bandwidth 1GB/s latency 2us",
      "switch 8 bandwidth 4GB/s latency 1us\nring 4 bandwidth 1GB/s latency 2us",
      "full 2 bandwidth 4GB/s latency 1us\ntorus 4x4 bandwidth 1GB/s latency 2us",
      "full 4 bandwidth 4GB/s latency 1us\nswitch 3 shared bandwidth 1GB/s latency 2us",
      "full 2 bandwidth 10GB/s latency 1us\nswitch 2 shared bandwidth 1GB/s latency 15us"};
  int agreed[HL_EXCHANGE_KINDS][HL_HOWS] = {{0}};
  for (int k = 0; k < HL_COUNT_OF(levels); k++) {
    const HlSystem *s = system_of(levels[k]);
    const int64_t all = hl_system_devices(s), inner = s->level[0].n;
    for (int kind = 0; kind < HL_EXCHANGE_KINDS; kind++)
      for (int how = HL_HOW_RING; how < HL_HOWS; how++)
        for (double bytes = 100; bytes <= 1e7; bytes *= 1e5) {
          agreed[kind][how] += agree(s, (HlExchangeKind)kind, (HlExchangeHow)how, bytes, all, 1);
          if (all > inner)
            agreed[kind][how] +=
                agree(s, (HlExchangeKind)kind, (HlExchangeHow)how, bytes, inner, all / inner);
        }
  }
  for (int kind = 0; kind < HL_EXCHANGE_KINDS; kind++) {
    int n = 0;
    for (int how = 0; how < HL_HOWS; how++)
      n += agreed[kind][how] > 0;
    if (kind != HL_PERMUTE && n < 2)
      fail_msg("%s has %d algorithms with a formula", hl_exchange_text((HlExchangeKind)kind), n);
  }
}

// Across the places of the inner level, all groups at once: shared links are shared.
static void test_groups_across(void **state) {
  (void)state;
  static const char *const levels[] = {
      "switch 4 bandwidth 4GB/s latency 1us\nswitch 4 bandwidth 1GB/s latency 2us",
      "full 4 bandwidth 4GB/s latency 1us\nswitch 4 shared bandwidth 1GB/s latency 2us",
      "torus 4x4 bandwidth 1GB/s latency 2us", "ring 16 bandwidth 1GB/s latency 2us"};
  int64_t member[16];
  for (int k = 0; k < 16; k++)
    member[k] = k / 4 + k % 4 * 4;
  for (int k = 0; k < HL_COUNT_OF(levels); k++) {
    const HlSystem *s = system_of(levels[k]);
    for (int how = HL_HOW_RING; how < HL_HOWS; how++) {
      if (!hl_how_does((HlExchangeHow)how, HL_ALL_REDUCE))
        continue;
      const HlExchange what = {.kind = HL_ALL_REDUCE,
                               .how = (HlExchangeHow)how,
                               .bytes = 1e6,
                               .n = 4,
                               .groups = 4,
                               .member = member};
      HlExchangeTime t, m;
      if (!hl_exchange_time(cx, s, &what, &t)) {
        hl_cx_clear(cx);
        continue;
      }
      assert_true(hl_exchange_messages(cx, s, &what, &m));
      if (!near(t.seconds, m.seconds, 0.01))
        fail_msg("%d %s: %g %g%s", k, hl_how_text((HlExchangeHow)how), t.seconds, m.seconds,
                 t.by_rounds ? " by rounds" : "");
    }
  }
}

static void test_ring_of_1024(void **state) {
  (void)state;
  const HlSystem *s = system_of("ring 1024 bandwidth 50GB/s latency 500ns");
  const HlExchange what = {.kind = HL_ALL_REDUCE, .how = HL_HOW_RING, .bytes = 1 << 20, .n = 1024};
  HlExchangeTime t, m;
  const double begin = hl_now();
  assert_true(hl_exchange_messages(cx, s, &what, &m));
  const double took = hl_now() - begin;
  assert_true(hl_exchange_time(cx, s, &what, &t));
  assert_int_equal(m.messages, 2 * 1024 * 1023);
  assert_true(near(m.seconds, t.seconds, 1e-9));
  assert_true(took < 30);
  print_message("ring all-reduce of 1,024: %lld messages in %.2f s\n", (long long)m.messages, took);
}

// Lower bounds that hold for every algorithm.
static void test_bounds(void **state) {
  (void)state;
  const HlSystem *s = system_of("switch 16 bandwidth 1GB/s latency 1us");
  for (int how = HL_HOW_RING; how < HL_HOWS; how++)
    for (int kind = HL_ALL_REDUCE; kind <= HL_REDUCE_SCATTER; kind++) {
      const HlExchange what = {
          .kind = (HlExchangeKind)kind, .how = (HlExchangeHow)how, .bytes = 1e6, .n = 16};
      HlExchangeTime t;
      if (!hl_how_does((HlExchangeHow)how, (HlExchangeKind)kind) ||
          !hl_exchange_time(cx, s, &what, &t)) {
        hl_cx_clear(cx);
        continue;
      }
      const double part = 15.0 / 16 * 1e6 / 1e9;
      assert_true(t.seconds >= (kind == HL_ALL_REDUCE ? 2 : 1) * part + 4 * 2e-6 - 1e-12 ||
                  kind == HL_ALL_REDUCE);
      assert_true(t.seconds >= (kind == HL_ALL_REDUCE ? 2 : 1) * part);
    }
  assert_true(seconds_of(s, (HlExchange){.kind = HL_ALL_REDUCE, .bytes = 1e6, .n = 1}) == 0);
}

static void test_wrong_exchanges(void **state) {
  (void)state;
  const HlSystem *s = system_of("switch 8 bandwidth 1GB/s latency 1us");
  HlExchangeTime t;
  const int64_t twice[] = {0, 1, 1}, outside[] = {0, 8};
  assert_false(
      hl_exchange_time(cx, s, &(HlExchange){.kind = HL_ALL_REDUCE, .n = 9, .bytes = 1}, &t));
  assert_false(hl_exchange_time(
      cx, s, &(HlExchange){.kind = HL_ALL_REDUCE, .n = 3, .bytes = 1, .member = twice}, &t));
  assert_false(hl_exchange_time(
      cx, s, &(HlExchange){.kind = HL_ALL_REDUCE, .n = 2, .bytes = 1, .member = outside}, &t));
  assert_false(
      hl_exchange_time(cx, s, &(HlExchange){.kind = HL_ALL_REDUCE, .n = 2, .bytes = -1}, &t));
  assert_false(
      hl_exchange_time(cx, s, &(HlExchange){.kind = HL_BARRIER, .how = HL_HOW_RING, .n = 2}, &t));
  assert_false(hl_exchange_time(
      cx, s, &(HlExchange){.kind = HL_ALL_REDUCE, .how = HL_HOW_DOUBLING, .n = 6, .bytes = 1}, &t));
  assert_false(hl_exchange_time(cx, s, &(HlExchange){.kind = HL_PERMUTE, .n = 2, .bytes = 1}, &t));
  hl_cx_clear(cx);
}

static void test_permute(void **state) {
  (void)state;
  const HlSystem *s = system_of("line 8 bandwidth 1GB/s latency 1us");
  const int64_t shift[] = {1, 2, 3, 4, 5, 6, 7, -1}, one[] = {7, -1, -1, -1, -1, -1, -1, -1},
                all_to_far[] = {4, 5, 6, 7, -1, -1, -1, -1};
  assert_true(
      near(seconds_of(s, (HlExchange){.kind = HL_PERMUTE, .n = 8, .bytes = 1e6, .target = shift}),
           1e-6 + 1e-3, 1e-12));
  assert_true(
      near(seconds_of(s, (HlExchange){.kind = HL_PERMUTE, .n = 8, .bytes = 1e6, .target = one}),
           7e-6 + 1e-3, 1e-12));
  // Four flows share the link in the middle.
  assert_true(near(
      seconds_of(s, (HlExchange){.kind = HL_PERMUTE, .n = 8, .bytes = 1e6, .target = all_to_far}),
      4e-6 + 4e-3, 1e-12));
}

// --- Any system, any groups --------------------------------------------------------------------------------------

static uint64_t dice;
static int roll(int n) {
  dice ^= dice << 13;
  dice ^= dice >> 7;
  dice ^= dice << 17;
  return (int)(dice % (uint64_t)n);
}

static void any_level(HlBuf *out, int *devices) {
  static const char *const shapes[] = {"ring", "line", "switch", "full"};
  const int kind = roll(8), a = 2 + roll(4), b = 2 + roll(4), hosts = 1 + roll(2);
  int n = a;
  if (kind < 4)
    hl_buf_printf(out, "%s %d", shapes[kind], n = 2 + roll(7));
  else if (kind < 6)
    hl_buf_printf(out, "%s %dx%d", kind == 4 ? "torus" : "mesh", a, (n = a * b) / a);
  else if (kind == 6)
    hl_buf_printf(out, "fat-tree %d down %d up %d", n = 2 * a, 2 + roll(3), 1 + roll(3));
  else
    hl_buf_printf(out, "dragonfly %d hosts %d routers %d", n = hosts * a * b, hosts, a);
  if (*devices > 1 && roll(3) == 0)
    hl_buf_puts(out, " shared");
  hl_buf_printf(out, " bandwidth %dGB/s latency %dus", 1 + roll(9), roll(4));
  if (roll(3) == 0)
    hl_buf_printf(out, " far-bandwidth %dGB/s far-latency %dus", 1 + roll(9), roll(4));
  hl_buf_putc(out, '\n');
  *devices *= n;
}

static const HlSystem *any_system(void) {
  HlBuf text = {0};
  int devices = 1;
  const int levels = 1 + roll(3);
  for (int k = 0; k < levels && devices < 40; k++)
    any_level(&text, &devices);
  if (roll(3) == 0)
    hl_buf_printf(&text, "reduce %dGB/s\n", 1 + roll(10));
  const HlSystem *s = devices <= 200 ? system_of(text.at) : NULL;
  hl_buf_free(&text);
  return s;
}

// All, as blocks or as strides, the places of a level, or whoever comes.
static void any_groups(const HlSystem *s, int64_t *member, HlExchange *out) {
  const int64_t all = hl_system_devices(s);
  const int how = roll(4);
  int64_t below = 1;
  out->n = all;
  while (how != 3 && (all % out->n || out->n < 2 || out->n == all) && roll(8))
    out->n = 2 + roll((int)all);
  out->n = all % out->n ? all : out->n;
  for (int k = roll(s->n_levels); how == 3 && k > 0; k--)
    below *= s->level[k - 1].n;
  for (int k = 0; how == 3 && k < s->n_levels; k++)
    if (hl_system_devices(s) % (below * s->level[k].n) == 0)
      out->n = s->level[k].n;
  out->groups = all / out->n;
  for (int64_t k = 0; k < all; k++)
    member[k] = how == 1 ? k % out->n * out->groups + k / out->n : k;
  for (int64_t k = all - 1; how == 2 && k > 0; k--) {
    const int64_t other = roll((int)k + 1), kept = member[k];
    member[k] = member[other];
    member[other] = kept;
  }
  if (roll(4) == 0)
    out->groups = 1 + roll((int)out->groups);
  out->member = member;
}

static void test_any(void **state) {
  (void)state;
  int64_t member[256];
  int agreed = 0;
  for (int seed = 1; seed < 250; seed++) {
    dice = (uint64_t)seed * 0x9e3779b97f4a7c15u;
    for (int k = 0; k < 8; k++)
      roll(2);
    const HlSystem *s = any_system();
    if (!s)
      continue;
    HlExchange what = {.bytes = roll(2) ? 1e6 : 1000 * roll(5)};
    any_groups(s, member, &what);
    for (int kind = 0; kind < HL_EXCHANGE_KINDS; kind++)
      for (int how = HL_HOW_RING; how < HL_HOWS; how++) {
        HlExchangeTime time, followed;
        what.kind = (HlExchangeKind)kind;
        what.how = (HlExchangeHow)how;
        if (kind == HL_PERMUTE || !hl_how_does(what.how, what.kind))
          continue;
        if (!hl_exchange_time(cx, s, &what, &time)) {
          hl_cx_clear(cx);
          continue;
        }
        if (time.by_rounds || time.rounds * what.n * what.groups > 3000)
          continue;
        agreed++;
        assert_true(hl_exchange_messages(cx, s, &what, &followed));
        if (!near(time.seconds, followed.seconds, 0.01)) {
          HlBuf out = {0};
          hl_system_print(s, &out);
          for (int64_t k = 0; what.member && k < what.n * what.groups; k++)
            hl_buf_printf(&out, k % what.n ? " %lld" : "\n%lld", (long long)what.member[k]);
          fail_msg("seed %d: %s by %s of %lld in %lld: formula %g us, messages %g us\n%s", seed,
                   hl_exchange_text(what.kind), hl_how_text(what.how), (long long)what.n,
                   (long long)what.groups, 1e6 * time.seconds, 1e6 * followed.seconds, out.at);
        }
      }
  }
  print_message("%d formulas of any systems and groups\n", agreed);
  assert_true(agreed > 500);
}

// --- Measured ---------------------------------------------------------------------------------------------------

// All-reduces of the MLPerf programs on 64 TPU v3 cores: megabytes and microseconds (docs/sim.md).
static const double measured[][2] = {
    {123.732, 2256.6}, {122.890, 2249.8}, {124.125, 2241.2}, {119.538, 2164.5}, {117.490, 2161.0},
    {64.677, 1258.9},  {21.088, 467.8},   {68.033, 1246.2},  {124.928, 2249.5}, {121.688, 2222.6},
    {82.960, 1552.9},  {51.106, 969.2},   {38.552, 762.6},   {0.039, 48.4},     {123.806, 2266.2},
    {117.584, 2148.5}, {111.251, 2027.6}, {69.034, 1275.8}};

static void test_measured(void **state) {
  (void)state;
  enum { N = HL_COUNT_OF(measured) };
  double bytes[N], seconds[N], efficiency;
  HlExchange what[N];
  for (int k = 0; k < N; k++) {
    bytes[k] = 1e6 * measured[k][0];
    seconds[k] = 1e-6 * measured[k][1];
    what[k] = (HlExchange){.kind = HL_ALL_REDUCE, .how = HL_HOW_LEVELS, .bytes = bytes[k], .n = 64};
  }
  const HlLineFit line = hl_fit_line(N, bytes, seconds);
  print_message("two parameters: %.1f us, %.1f GB/s, median %.1f%%, worst %.1f%%\n",
                1e6 * line.start, 1e-9 * line.bandwidth, 100 * line.median, 100 * line.worst);
  assert_true(line.median <= 0.02 && line.worst <= 0.10);
  HlSystem *s = hl_arena_copy(arena, hl_system_find(cx, arena, "tpu-v3-32"), sizeof *s);
  HlLineFit fit;
  assert_true(hl_fit_efficiency(cx, s, N, what, seconds, &fit, &efficiency));
  print_message("one efficiency: %.4f, median %.1f%%, worst %.1f%%\n", efficiency, 100 * fit.median,
                100 * fit.worst);
  assert_true(fit.median <= 0.05 && fit.worst <= 0.15);
  assert_true(near(s->efficiency, efficiency, 0.001));  // as the file says
}

static void test_astra(void **state) {
  (void)state;
  static const char network[] = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]  # "
                                "GB/s\nlatency: [ 500.0 ]  # ns\n";
  static const char system[] =
      "{\"endpoint-delay\": 10, \"preferred-dataset-splits\": 4, \"local-mem-bw\": 50,\n"
      " \"active-chunks-per-dimension\": 1, \"all-reduce-implementation\": [\"ring\"]}";
  HlSource *a = hl_source_new("network.yml", network, strlen(network), false);
  HlSource *b = hl_source_new("system.json", system, strlen(system), false);
  HlAstra astra;
  int64_t ns;
  assert_true(hl_astra_read(cx, a, b, &astra));
  assert_true(hl_astra_time(cx, &astra, HL_ALL_REDUCE, 1 << 20, &ns));
  assert_int_equal(ns, 117780);
  assert_false(hl_astra_time(cx, &astra, HL_BROADCAST, 1 << 20, &ns));
  const HlSystem *s = hl_system_read(cx, arena, a);
  assert_non_null(s);
  assert_int_equal(hl_system_devices(s), 8);
  assert_true(s->level[0].shape == HL_NET_RING && near(s->level[0].latency, 500e-9, 1e-15));
  hl_source_unref(a);
  hl_source_unref(b);
  hl_cx_clear(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_built_in),      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_what_if),       cmocka_unit_test(test_any_bytes),
      cmocka_unit_test(test_routes),        cmocka_unit_test(test_max_min),
      cmocka_unit_test(test_flows),         cmocka_unit_test(test_alone), cmocka_unit_test(test_formulas),
      cmocka_unit_test(test_groups_across), cmocka_unit_test(test_ring_of_1024),
      cmocka_unit_test(test_bounds),        cmocka_unit_test(test_wrong_exchanges),
      cmocka_unit_test(test_permute),       cmocka_unit_test(test_measured),
      cmocka_unit_test(test_any),
      cmocka_unit_test(test_astra),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
