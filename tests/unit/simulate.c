// Programs on clusters: streams, overlap, classes, jitter, modules; how fast that is.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/simulate.h"
#include "hilo/tool.h"

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

static const HlSystem *system_of(const char *lines) {
  char text[512];
  snprintf(text, sizeof text, "system made-up\ndevice h100\n%s\n", lines);
  HlSource *source = hl_source_new("made-up.system", text, strlen(text), false);
  const HlSystem *s = hl_system_read(cx, arena, source);
  hl_source_unref(source);
  assert_non_null(s);
  return s;
}

static bool near(double a, double b, double relative) {
  return fabs(a - b) <= relative * fabs(b);
}

static int all_of(HlProgramBuilder *b, int64_t n) {
  int64_t *member = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    member[k] = k;
  return hl_program_groups(b, (HlDeviceGroups){1, n, member});
}

static HlClusterRun run_of(const HlClusterProgram *p, const HlSystem *s, HlClusterOptions o) {
  HlClusterRun run;
  if (!hl_cluster_run(cx, arena, p, s, &o, &run))
    fail_msg("%s", hl_cx_diag(cx, 0)->text);
  return run;
}

// --- Streams ------------------------------------------------------------------------------------------------

// A megabyte among two at 1 GB/s each way by a ring takes 1 ms and two latencies.
static const char pair_lines[] = "full 2 bandwidth 1GB/s latency 1us";

static HlClusterProgram *overlapped(double before, double beside, double after) {
  HlProgramBuilder *b = hl_program_begin(arena, "overlapped", 2);
  const int all = all_of(b, 2);
  hl_program_compute(b, hl_str("before"), "dot", before);
  const int start = hl_program_exchange(b, hl_str("start"),
                                        (HlProgramExchange){HL_ALL_REDUCE, 1e6, all, NULL}, 1);
  hl_program_compute(b, hl_str("beside"), "dot", beside);
  hl_program_wait(b, hl_str("done"), start);
  hl_program_compute(b, hl_str("after"), "dot", after);
  return hl_program_end(b);
}

static void test_overlap(void **state) {
  (void)state;
  const HlSystem *s = system_of(pair_lines);
  const HlExchangeHow ring = HL_HOW_RING;
  const HlClusterOptions o = {.how = {[HL_ALL_REDUCE] = ring}};
  const double exchange = 1e-3 + 2e-6;
  HlClusterRun run = run_of(overlapped(1e-3, 3e-3, 1e-3), s, o);
  assert_true(near(run.seconds, 5e-3, 1e-12) && run.exposed == 0 && run.classes == 1);
  assert_true(near(run.hidden, exchange, 1e-12));
  run = run_of(overlapped(1e-3, 0.2e-3, 1e-3), s, o);
  assert_true(near(run.seconds, 2e-3 + exchange, 1e-12) &&
              near(run.exposed, exchange - 0.2e-3, 1e-12));
  HlPathPart *part;
  double sum = 0;
  const HlClusterProgram *p = overlapped(1e-3, 0.2e-3, 1e-3);
  run = run_of(p, s, o);
  const int n = hl_critical_path(arena, p, &run, &part);
  for (int k = 0; k < n; k++)
    sum += part[k].seconds;
  assert_true(near(sum, run.seconds, 1e-12) && n == 4);
}

// Half as fast while the links work: 1.002 ms of them let through 0.501 ms of work.
static void test_interference(void **state) {
  (void)state;
  const HlSystem *s = system_of("slowdown 2\nfull 2 bandwidth 1GB/s latency 1us");
  const HlClusterOptions o = {.how = {[HL_ALL_REDUCE] = HL_HOW_RING}};
  const HlClusterRun run = run_of(overlapped(1e-3, 3e-3, 1e-3), s, o);
  assert_true(near(run.seconds, 1e-3 + 1.002e-3 + (3e-3 - 0.501e-3) + 1e-3, 1e-12));
}

static void test_one_stream_queues(void **state) {
  (void)state;
  const HlSystem *s = system_of(pair_lines);
  HlProgramBuilder *b = hl_program_begin(arena, "queue", 2);
  const int all = all_of(b, 2);
  const HlProgramExchange e = {HL_ALL_REDUCE, 1e6, all, NULL};
  const int one = hl_program_exchange(b, hl_str("a"), e, 1),
            two = hl_program_exchange(b, hl_str("b"), e, 1);
  hl_program_wait(b, hl_str("wa"), one);
  hl_program_wait(b, hl_str("wb"), two);
  const HlClusterRun run =
      run_of(hl_program_end(b), s, (HlClusterOptions){.how = {[HL_ALL_REDUCE] = HL_HOW_RING}});
  assert_true(near(run.seconds, 2 * 1.002e-3, 1e-12));
}

// --- Classes --------------------------------------------------------------------------------------------------

// A shift along a line: nobody sends to the first, the last sends to nobody; then all meet. Simulated by classes and
// one by one it is the same.
static void test_classes(void **state) {
  (void)state;
  enum { N = 16 };
  const HlSystem *s = system_of("ring 16 bandwidth 1GB/s latency 1us");
  HlProgramBuilder *b = hl_program_begin(arena, "shift", N);
  const int all = all_of(b, N);
  int64_t shift[N], halves[N], evens[N];
  for (int k = 0; k < N; k++) {
    shift[k] = k % 4 == 3 ? -1 : k + 1;
    halves[k] = k;
    evens[k] = 2 * (k % 8) + k / 8;
  }
  const int two = hl_program_groups(b, (HlDeviceGroups){2, 8, halves}),
            by_two = hl_program_groups(b, (HlDeviceGroups){2, 8, evens});
  hl_program_compute(b, hl_str("c"), "dot", 1e-3);
  hl_program_exchange(b, hl_str("p"), (HlProgramExchange){HL_PERMUTE, 1e6, all, shift}, 0);
  hl_program_exchange(b, hl_str("r"), (HlProgramExchange){HL_ALL_REDUCE, 1e5, two, NULL}, 0);
  hl_program_exchange(b, hl_str("g"), (HlProgramExchange){HL_ALL_GATHER, 1e5, by_two, NULL}, 0);
  const HlClusterProgram *p = hl_program_end(b);
  const HlClusterRun few = run_of(p, s, (HlClusterOptions){0}),
                     each = run_of(p, s, (HlClusterOptions){.each = true});
  assert_int_equal(each.classes, N);
  assert_true(few.classes < N);
  assert_true(near(few.seconds, each.seconds, 1e-14) && near(few.exposed, each.exposed, 1e-12));
  for (int k = 0; k < p->n_steps; k++)
    assert_true(few.step[k].begin == each.step[k].begin && few.step[k].end == each.step[k].end);
}

// Along a line no two devices are alike, which nobody waits to find out.
static void test_long_line(void **state) {
  (void)state;
  enum { N = 16384 };
  const HlSystem *s = hl_system_resize(cx, arena, hl_system_find(cx, arena, "h100"), N);
  int64_t *ids = HL_ARRAY(arena, int64_t, N), *next = HL_ARRAY(arena, int64_t, N);
  for (int k = 0; k < N; k++) {
    ids[k] = k;
    next[k] = k + 1 < N ? k + 1 : -1;
  }
  HlProgramBuilder *b = hl_program_begin(arena, "line", N);
  const int all = hl_program_groups(b, (HlDeviceGroups){1, N, ids});
  hl_program_exchange(b, hl_str("shift"), (HlProgramExchange){HL_PERMUTE, 1e6, all, next}, 0);
  const double begin = hl_now();
  const HlClusterRun run = run_of(hl_program_end(b), s, (HlClusterOptions){0});
  assert_int_equal(run.classes, N);
  assert_true(run.seconds > 1e6 / s->level[1].bandwidth);
  assert_true(hl_now() - begin < 20);
}

static void test_jitter(void **state) {
  (void)state;
  const HlSystem *s = system_of("switch 64 bandwidth 10GB/s latency 1us");
  HlProgramBuilder *b = hl_program_begin(arena, "jitter", 64);
  const int all = all_of(b, 64);
  for (int k = 0; k < 20; k++) {
    hl_program_compute(b, hl_str("c"), "dot", 1e-3);
    hl_program_exchange(b, hl_str("r"), (HlProgramExchange){HL_ALL_REDUCE, 1e4, all, NULL}, 0);
  }
  const HlClusterProgram *p = hl_program_end(b);
  const HlClusterRun calm = run_of(p, s, (HlClusterOptions){0});
  const HlClusterRun a = run_of(p, s, (HlClusterOptions){.jitter = 0.05, .seed = 1});
  const HlClusterRun again = run_of(p, s, (HlClusterOptions){.jitter = 0.05, .seed = 1});
  const HlClusterRun other = run_of(p, s, (HlClusterOptions){.jitter = 0.05, .seed = 2});
  assert_true(a.seconds == again.seconds && a.seconds != other.seconds);
  // The slowest of 64 is some 2.4 standard deviations late.
  const double late = (a.seconds - calm.seconds) / (20 * 1e-3 * 0.05);
  assert_true(late > 1.8 && late < 3);
  assert_true(near(a.compute, calm.compute, 0.01) && a.waiting > 0 && calm.waiting == 0);
  assert_true(near(a.waiting, a.exposed - calm.exposed, 1e-9));
  const HlClusterRun slow =
      run_of(p, s, (HlClusterOptions){.stragglers = 0.1, .straggle = 1.5, .seed = 3});
  assert_true(near(slow.seconds, calm.seconds + 20 * 0.5e-3, 1e-9));
}

// --- Modules ----------------------------------------------------------------------------------------------------

static HlModule *module_of(const char *text, HlFile *file) {
  HlSource *source = hl_read_bytes(cx, "made-up.hlo", text, strlen(text));
  if (!hl_load_source(cx, source, NULL, file))
    fail_msg("%s", hl_cx_diag(cx, 0)->text);
  hl_source_unref(source);
  return file->modules[0];
}

static const char async_text[] =
    "HloModule step, is_scheduled=true, replica_count=8\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
    "ENTRY main {\n"
    "  x = f32[1024,1024] parameter(0)\n"
    "  y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  s = f32[1024,1024] all-reduce-start(y), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=add\n"
    "  z = f32[1024,1024] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  d = f32[1024,1024] all-reduce-done(s)\n"
    "  ROOT r = f32[1024,1024] add(d, z)\n"
    "}\n";

static void test_module(void **state) {
  (void)state;
  HlFile file;
  const HlSystem *s = system_of("switch 8 bandwidth 450GB/s latency 1us");
  const HlModule *m = module_of(async_text, &file);
  HlClusterProgram *p = hl_program_new(cx, arena, m, &(HlProgramOptions){.system = s});
  assert_non_null(p);
  assert_int_equal(p->devices, 8);
  assert_int_equal(p->n_steps, 5);
  assert_int_equal(p->n_exchanges, 1);
  assert_true(p->exchange[0].kind == HL_ALL_REDUCE && p->exchange[0].bytes == 4 << 20);
  assert_true(p->groups[0].groups == 2 && p->groups[0].n == 4);
  const HlClusterRun run = run_of(p, s, (HlClusterOptions){0});
  // x, y, s, z alive at most, then the result.
  assert_int_equal(run.peak, 4 * (4 << 20));
  assert_true(run.seconds > 0 && run.classes == 1);
  p = hl_program_new(cx, arena, m, &(HlProgramOptions){.system = s, .devices = 8 * 3});
  assert_true(p->groups[0].groups == 6 && p->groups[0].n == 4);
  assert_null(hl_program_new(cx, arena, m, &(HlProgramOptions){.system = s, .devices = 12}));
  hl_cx_clear(cx);
  hl_file_free(&file);
}

static const char loop_text[] =
    "HloModule loop, replica_count=4\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
    "cond { t = (s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] "
    "constant(TRIPS)\n"
    "  ROOT r = pred[] compare(i, n), direction=LT }\n"
    "body { t = (s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(t), index=0\n"
    "  v = f32[256] get-tuple-element(t), index=1 one = s32[] constant(1) j = s32[] add(i, one)\n"
    "  w = f32[256] all-reduce(v), replica_groups={}, to_apply=add ROOT r = (s32[], f32[256]) "
    "tuple(j, w) }\n"
    "ENTRY main { z = s32[] constant(0) x = f32[256] parameter(0) t = (s32[], f32[256]) tuple(z, "
    "x)\n"
    "  w = (s32[], f32[256]) while(t), condition=cond, body=body ROOT r = f32[256] "
    "get-tuple-element(w), index=1 }\n";

// A loop that is written out and one that stands there once take the same time.
static void test_loops(void **state) {
  (void)state;
  const HlSystem *s = system_of("switch 4 bandwidth 450GB/s latency 1us");
  char text[2048];
  HlFile file;
  const char *at = strstr(loop_text, "TRIPS");
  snprintf(text, sizeof text, "%.*s100%s", (int)(at - loop_text), loop_text, at + 5);
  const HlModule *m = module_of(text, &file);
  HlClusterProgram *whole = hl_program_new(cx, arena, m, &(HlProgramOptions){.system = s});
  HlClusterProgram *folded =
      hl_program_new(cx, arena, m, &(HlProgramOptions){.system = s, .unroll = 10});
  assert_true(whole->n_steps == 300 && whole->folded == 0);
  assert_true(folded->n_steps == 3 && folded->folded == 1);
  const HlClusterRun a = run_of(whole, s, (HlClusterOptions){0}),
                     b = run_of(folded, s, (HlClusterOptions){0});
  assert_true(near(a.seconds, b.seconds, 1e-12));
  hl_file_free(&file);
}

// --- Sizes ------------------------------------------------------------------------------------------------------

// A training step of 2,000 steps: layers that compute, with all-reduces beside them and gathers in groups of eight.
static HlClusterProgram *training_step(int64_t devices) {
  HlProgramBuilder *b = hl_program_begin(arena, "training step", devices);
  const int all = all_of(b, devices);
  int64_t *eights = HL_ARRAY(arena, int64_t, devices);
  for (int64_t k = 0; k < devices; k++)
    eights[k] = k;
  const int inner = hl_program_groups(b, (HlDeviceGroups){devices / 8, 8, eights});
  int start = -1;
  for (int layer = 0; layer < 200; layer++) {
    for (int k = 0; k < 7; k++)
      hl_program_compute(b, hl_str("compute"), "dot", 1e-4 + 1e-6 * k);
    hl_program_exchange(b, hl_str("gather"),
                        (HlProgramExchange){HL_ALL_GATHER, 1e6 + layer, inner, NULL}, 0);
    if (start >= 0)
      hl_program_wait(b, hl_str("wait"), start);
    start = hl_program_exchange(b, hl_str("reduce"),
                                (HlProgramExchange){HL_ALL_REDUCE, 1e6 + layer, all, NULL}, 1);
  }
  hl_program_wait(b, hl_str("wait"), start);
  return hl_program_end(b);
}

static void test_large(void **state) {
  (void)state;
  const HlSystem *s = hl_system_resize(cx, arena, hl_system_find(cx, arena, "h100"), 65536);
  assert_non_null(s);
  double begin = hl_now();
  const HlClusterProgram *p = training_step(65536);
  const HlClusterRun one = run_of(p, s, (HlClusterOptions){0});
  print_message("%d steps on 65,536 devices as %lld class: %.2f s for %.1f ms\n", p->n_steps,
                (long long)one.classes, hl_now() - begin, 1e3 * one.seconds);
  assert_int_equal(one.classes, 1);
  assert_true(hl_now() - begin < 30);
  begin = hl_now();
  const HlClusterRun each = run_of(p, s, (HlClusterOptions){.jitter = 0.02, .seed = 1});
  print_message("each with jitter: %.1f s for %.1f ms\n", hl_now() - begin, 1e3 * each.seconds);
  assert_true(hl_now() - begin < 600 && each.classes == 65536 && each.seconds > one.seconds);
}

// Systems, algorithms and sizes: 1,000 in a second.
static void test_sweep(void **state) {
  (void)state;
  const HlClusterProgram *p = training_step(64);
  const HlSystem *s = hl_system_resize(cx, arena, hl_system_find(cx, arena, "h100"), 64);
  const double begin = hl_now();
  int n = 0;
  for (; n < 200; n++) {
    HlArena *own = hl_arena_new();
    char change[64];
    snprintf(change, sizeof change, "bandwidth=%dx", 1 + n % 10);
    const HlSystem *other = hl_system_what_if(cx, own, s, change);
    HlClusterRun run;
    assert_true(hl_cluster_run(cx, own, p, other, &(HlClusterOptions){0}, &run));
    hl_arena_free(own);
  }
  print_message("%.0f configurations a second\n", n / (hl_now() - begin));
}

// --- Traces -----------------------------------------------------------------------------------------------------

static uint64_t varint(const unsigned char **at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const unsigned char byte = *(*at)++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128)
      return value;
  }
}

typedef struct Field {
  uint64_t number, value;  // value: of a varint, or the length
  const unsigned char *bytes;
} Field;

static Field next_field(const unsigned char **at) {
  Field f = {varint(at), 0, NULL};
  const uint64_t type = f.number & 7;
  f.number >>= 3;
  f.value = varint(at);
  assert_true(type == 0 || type == 2);
  if (type == 2) {
    f.bytes = *at;
    *at += f.value;
  }
  return f;
}

// Slices of a track do not overlap, begin and end in pairs, and there are as many as steps that took time.
static void test_perfetto(void **state) {
  (void)state;
  const HlSystem *s = system_of(pair_lines);
  const HlClusterProgram *p = overlapped(1e-3, 0.2e-3, 1e-3);
  const HlClusterRun run = run_of(p, s, (HlClusterOptions){.how = {[HL_ALL_REDUCE] = HL_HOW_RING}});
  HlBuf out = {0};
  hl_cluster_perfetto(p, &run, &out);
  uint64_t last[16] = {0};
  int open[16] = {0}, slices = 0;
  const unsigned char *at = (const unsigned char *)out.at, *end = at + out.n;
  while (at < end) {
    const Field packet = next_field(&at);
    uint64_t time = 0, type = 0, track = 0;
    assert_true(packet.number == 1 && packet.bytes);
    for (const unsigned char *in = packet.bytes; in < packet.bytes + packet.value;) {
      const Field f = next_field(&in);
      time = f.number == 8 ? f.value : time;
      for (const unsigned char *event = f.bytes; f.number == 11 && event < f.bytes + f.value;) {
        const Field g = next_field(&event);
        type = g.number == 9 ? g.value : type;
        track = g.number == 11 ? g.value : track;
      }
    }
    if (type != 1 && type != 2)
      continue;
    assert_true(track >= 10 && track < 14 && time >= last[track]);
    assert_int_equal(open[track], type == 1 ? 0 : 1);
    open[track] = type == 1;
    slices += type == 1;
    last[track] = time;
  }
  assert_int_equal(slices, 5);
  assert_int_equal(last[10], (uint64_t)(run.seconds * 1e9 + 0.5));
  hl_buf_free(&out);
}

// --- Meshes -----------------------------------------------------------------------------------------------------

static void test_meshes(void **state) {
  (void)state;
  HlDeviceMesh mesh;
  assert_true(hl_mesh_read(cx, arena, "data=64,model=8", &mesh));
  assert_true(mesh.n == 2 && hl_mesh_devices(&mesh) == 512);
  static const char *const bad[] = {"",   "data=",         "data=0", "data=1,data=2",
                                    "=3", "data=99999999", "_=2",    "a=2,"};
  for (int k = 0; k < HL_COUNT_OF(bad); k++)
    assert_false(hl_mesh_read(cx, arena, bad[k], &mesh));
  hl_cx_clear(cx);
  assert_true(hl_mesh_read(cx, arena, "a,b,c", &mesh));
  int n = 0;
  for (int k = 0; k < 3; k++)
    mesh.size[k] = 0;
  while (hl_mesh_next(&mesh, 12)) {
    assert_int_equal(hl_mesh_devices(&mesh), 12);
    n++;
  }
  assert_int_equal(n, 18);  // ordered factorisations of 12 into three
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_interference),
      cmocka_unit_test(test_one_stream_queues),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_long_line), cmocka_unit_test(test_jitter),
      cmocka_unit_test(test_module),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_sweep),
      cmocka_unit_test(test_perfetto),
      cmocka_unit_test(test_meshes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
