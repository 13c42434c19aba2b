// One program on 8 devices, run by 4 threads at once, all work shared however little there is: kernels of every kind, loops and
// collectives. Each run gives the bits of the first, and so do programs of other numbers of threads. `make tsan` runs this
// where races are seen.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

#include "cpu/program/program.h"
#include "hilo/session.h"
#include "hilo/text.h"
#include "hilo/tool.h"

enum { DEVICES = 8, CLIENTS = 4, RUNS = 6, PARAMS = 2 };

#define GROUPS "replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true"
static const char text[] =
    "HloModule m, num_partitions=8\n"
    "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
    "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), "
    "direction=LT }\n"
    "body { p = (s32[], f32[64,96]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " x = f32[64,96] get-tuple-element(p), index=1\n one = s32[] constant(1)\n j = s32[] add(i, "
    "one)\n"
    " t = f32[64,96] tanh(x)\n"
    " s = f32[64,96] all-reduce(t), channel_id=1, " GROUPS ", to_apply=sum\n"
    " ROOT r = (s32[], f32[64,96]) tuple(j, s) }\n"
    "goes { p = (s32[], f32[64,96]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " n = s32[] constant(3)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
    "ENTRY e { x = f32[64,96] parameter(0)\n w = f32[96,96] parameter(1)\n"
    " d = u32[] partition-id()\n c = f32[] convert(d)\n b = f32[64,96] broadcast(c), "
    "dimensions={}\n"
    " y = f32[64,96] add(x, b)\n z = s32[] constant(0)\n zero = f32[] constant(0)\n"
    " t = (s32[], f32[64,96]) tuple(z, y)\n"
    " l = (s32[], f32[64,96]) while(t), condition=goes, body=body\n"
    " v = f32[64,96] get-tuple-element(l), index=1\n"
    " m = f32[64,96] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " o = f32[64,96] sort(m), dimensions={1}, to_apply=less\n"
    " q = f32[96] reduce(o, zero), dimensions={0}, to_apply=sum\n"
    " f = c64[64,49] fft(v), fft_type=RFFT, fft_length={96}\n"
    " h = f32[64,49] imag(f)\n tr = f32[96,64] transpose(o), dimensions={1,0}\n"
    " g = f32[768] all-gather(q), channel_id=2, " GROUPS ", dimensions={0}\n"
    " cp = f32[96,64] collective-permute(tr), channel_id=3, "
    "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}\n"
    " ROOT r = (f32[768], f32[64,49], f32[96,64], f32[64,96]) tuple(g, h, cp, m) }";

typedef struct Rig {
  HlCx *cx;
  HlModule *m;
  HlCompiled *compiled;
  HlLiteral *args[PARAMS];
  const HlLiteral *const *of_device[DEVICES];
} Rig;

static void set_up(Rig *r) {
  *r = (Rig){.cx = hl_cx_new()};
  r->m = hl_text_parse(r->cx, text);
  if (!r->m)
    fail_msg("%s", hl_cx_diag(r->cx, 0)->text);
  HlSession *session = hl_session_new(r->cx, &(HlSessionOptions){.platform = "cpu"});
  r->compiled = hl_compile(r->cx, session, &(HlProgram){.module = r->m}, NULL);
  hl_session_free(session);
  if (!r->compiled)
    fail_msg("%s", hl_cx_diag(r->cx, 0)->text);
  assert_true(hl_fake_args(r->cx, r->m, 1, r->args));
  for (int d = 0; d < DEVICES; d++)
    r->of_device[d] = (const HlLiteral *const *)r->args;
}

static void tear_down(Rig *r) {
  for (int k = 0; k < PARAMS; k++)
    hl_literal_unref(r->args[k]);
  hl_compiled_unref(r->compiled);
  hl_module_free(r->m);
  hl_cx_free(r->cx);
}

static HlCpuProgram *program_of(Rig *r, int threads) {
  HlCpuProgram *program =
      hl_cpu_new(r->cx, hl_compiled_module(r->compiled), &(HlCpuOptions){.threads = threads});
  if (!program)
    fail_msg("%s", hl_cx_diag(r->cx, 0)->text);
  assert_null(program->whole);
  cpu_pool_share_all(program->pool);
  return program;
}

typedef struct Client {
  HlCpuProgram *program;
  const Rig *r;
  HlLiteral *const *expected;
  int same;
  pthread_t thread;
} Client;

static void *run_many(void *user) {
  Client *me = user;
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < RUNS; k++) {
    HlLiteral *result[DEVICES] = {NULL};
    if (!hl_cpu_run(cx, me->program, NULL, me->r->of_device, result))
      break;
    bool same = true;
    for (int d = 0; d < DEVICES; d++) {
      same = same && hl_literal_equal(result[d], me->expected[d]);
      hl_literal_unref(result[d]);
    }
    me->same += same;
  }
  hl_cx_free(cx);
  return NULL;
}

static void clients_share_a_program(void **state) {
  static const int threads[] = {1, 2, 8};
  Rig r;
  set_up(&r);
  HlLiteral *expected[DEVICES] = {NULL};
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
    HlCpuProgram *program = program_of(&r, threads[t]);
    if (t == 0)
      assert_true(hl_cpu_run(r.cx, program, NULL, r.of_device, expected));
    Client client[CLIENTS];
    for (int k = 0; k < CLIENTS; k++) {
      client[k] = (Client){.program = program, .r = &r, .expected = expected};
      assert_int_equal(pthread_create(&client[k].thread, NULL, run_many, &client[k]), 0);
    }
    for (int k = 0; k < CLIENTS; k++) {
      pthread_join(client[k].thread, NULL);
      assert_int_equal(client[k].same, RUNS);
    }
    hl_cpu_unref(program);
  }
  for (int d = 0; d < DEVICES; d++)
    hl_literal_unref(expected[d]);
  tear_down(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(clients_share_a_program)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
