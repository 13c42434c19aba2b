// Lockstep of what is compiled: kernels that are made wrong on purpose are found, alone and on several devices.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/program/program.h"
#include "hilo/lockstep.h"
#include "hilo/session.h"
#include "hilo/text.h"

static const char one_device[] =
    "HloModule m\n\n"
    "less {\n"
    "  a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT l = pred[] compare(a, b), direction=LT\n"
    "}\n\n"
    "ENTRY main {\n"
    "  x = f32[8,16] parameter(0)\n"
    "  w = f32[16,16] parameter(1)\n"
    "  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  t = f32[8,16] tanh(d), metadata={op_name=\"net/tanh\"}\n"
    "  e = f32[8,16] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  n = f32[8,16] negate(e)\n"
    "  ROOT f = f32[8,16] sort(n), dimensions={1}, to_apply=less\n"
    "}\n";

static const char two_devices[] =
    "HloModule m, num_partitions=2\n\n"
    "ENTRY main {\n"
    "  x = f32[8,16] parameter(0), sharding={devices=[2,1]<=[2]}\n"
    "  w = f32[16,16] parameter(1), sharding={replicated}\n"
    "  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  t = f32[8,16] tanh(d)\n"
    "  u = f32[8,16] transpose(t), dimensions={0,1}\n"
    "  e = f32[8,16] dot(u, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT n = f32[8,16] negate(e), sharding={devices=[2,1]<=[2]}\n"
    "}\n";

typedef struct Rig {
  HlCx *cx;
  HlModule *m;
  HlSession *session;
  HlCompiled *compiled;
  HlCpuProgram *program;
  HlLiteral *args[2];
  const HlLiteral *const *of_device[2];
} Rig;

static void set_up(Rig *r, const char *text) {
  *r = (Rig){.cx = hl_cx_new()};
  r->m = hl_text_parse(r->cx, text);
  assert_non_null(r->m);
  r->session = hl_session_new(r->cx, &(HlSessionOptions){.platform = "cpu"});
  r->compiled = hl_compile(r->cx, r->session, &(HlProgram){.module = r->m}, NULL);
  assert_non_null(r->compiled);
  r->program = hl_compiled_program(r->cx, r->compiled, &(HlCpuOptions){.threads = 1});
  assert_non_null(r->program);
  assert_true(hl_fake_args(r->cx, r->m, 1, r->args));
  r->of_device[0] = r->of_device[1] = (const HlLiteral *const *)r->args;
}

static void tear_down(Rig *r) {
  for (int k = 0; k < 2; k++)
    hl_literal_unref(r->args[k]);
  hl_cpu_unref(r->program);
  hl_compiled_unref(r->compiled);
  hl_session_free(r->session);
  hl_module_free(r->m);
  hl_cx_free(r->cx);
}

// --- A kernel that is wrong -------------------------------------------------------------------------

// Does what the right one does, and then puts another number into the result.
typedef struct Wrong {
  CpuKernel kernel;
  const CpuKernel *right;
  float number;
} Wrong;

static bool run_wrong(const CpuKernel *kernel, CpuTeam *team, void *const *buffer,
                      const char **why) {
  const Wrong *wrong = (const Wrong *)(const void *)kernel;
  if (!wrong->right->kind->run(wrong->right, team, buffer, why))
    return false;
  ((float *)buffer[wrong->right->n_buffers - 1])[3] = wrong->number;
  return true;
}

static const CpuKernelKind wrong_kind = {.name = "wrong", .run = run_wrong};
static Wrong planted;

// The k-th step that a kernel computes. The program is this test's own.
static const HlInst *plant(Rig *r, int k, float number) {
  for (int32_t at = 0; at < r->program->n_steps; at++) {
    CpuStep *step = &r->program->step[at];
    if (step->kind != STEP_KERNEL || step->line || k-- > 0)
      continue;
    planted = (Wrong){.kernel = *step->kernel, .right = step->kernel, .number = number};
    planted.kernel.kind = &wrong_kind;
    step->kernel = &planted.kernel;
    return step->inst;
  }
  fail_msg("the program has no such step");
  return NULL;
}

// --- What is found ----------------------------------------------------------------------------------

static HlLockstep beside(Rig *r, const HlModule *a) {
  HlLockstep found;
  const HlLockstepOptions how = {.program_b = r->program};
  assert_true(
      hl_lockstep(r->cx, a, hl_compiled_module(r->compiled), r->of_device, &how, &found));
  return found;
}

static void right_kernels_are_equal(void **state) {
  (void)state;
  Rig r;
  set_up(&r, one_device);
  HlLockstep found = beside(&r, r.m), kernels = beside(&r, hl_compiled_module(r.compiled));
  assert_true(found.results_equal && kernels.results_equal);
  assert_int_equal(found.n_different, 0);
  assert_int_equal(kernels.n_different, 0);
  assert_true(kernels.n_compared >= 3);
  assert_true(kernels.n_unseen > 0);
  assert_false(found.is_cut);
  hl_lockstep_free(&found);
  hl_lockstep_free(&kernels);
  tear_down(&r);
}

static void a_wrong_kernel_is_named(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    Rig r;
    set_up(&r, one_device);
    const HlInst *wrong = plant(&r, k, 77);
    HlLockstep kernels = beside(&r, hl_compiled_module(r.compiled));
    assert_false(kernels.results_equal);
    assert_int_equal(kernels.n_first, 1);
    assert_ptr_equal(kernels.first[0]->b, wrong);
    assert_float_equal(kernels.first[0]->mismatch.actual, 77, 0);
    HlLockstep found = beside(&r, r.m);
    assert_false(found.results_equal);
    assert_true(found.n_first > 0);
    hl_lockstep_free(&found);
    hl_lockstep_free(&kernels);
    tear_down(&r);
  }
}

// A device's wrong value is not its part of the whole array.
static void a_wrong_kernel_of_devices_is_named(void **state) {
  (void)state;
  Rig r;
  set_up(&r, two_devices);
  HlLockstep right = beside(&r, r.m);
  assert_true(right.is_cut && right.results_equal);
  assert_int_equal(right.devices, 2);
  assert_true(right.n_compared > 0);
  assert_int_equal(right.args[1][0]->shape->dim[0], 4);
  hl_lockstep_free(&right);
  const HlInst *wrong = plant(&r, 0, 77);
  HlLockstep found = beside(&r, r.m);
  assert_false(found.results_equal);
  assert_true(found.n_first > 0);
  assert_ptr_equal(found.first[0]->b, wrong);
  hl_lockstep_free(&found);
  tear_down(&r);
}

static void nan_of_a_kernel_is_named(void **state) {
  (void)state;
  Rig r;
  HlTrace trace;
  set_up(&r, one_device);
  const HlTraceOptions how = {.program = r.program};
  assert_true(hl_trace(r.cx, hl_compiled_module(r.compiled), r.of_device, &how, &trace));
  assert_null(trace.nan.inst);
  assert_int_equal(trace.n_nan, 0);
  assert_true(trace.n_values >= 3 && trace.n_unseen > 0);
  const HlInst *wrong = plant(&r, 0, NAN);
  assert_true(hl_trace(r.cx, hl_compiled_module(r.compiled), r.of_device, &how, &trace));
  assert_ptr_equal(trace.nan.inst, wrong);
  assert_true(trace.n_nan > 1);
  tear_down(&r);
}

// Who gives nan does not make it: neither a step that reads an argument, nor one that reads what another step made of it.
static void nan_of_an_argument_is_not_made(void **state) {
  (void)state;
  Rig r;
  HlTrace trace;
  set_up(&r, one_device);
  hl_literal_set_f64(r.args[0], 5, NAN);
  const HlTraceOptions how = {.program = r.program};
  assert_true(hl_trace(r.cx, hl_compiled_module(r.compiled), r.of_device, &how, &trace));
  assert_null(trace.nan.inst);
  assert_true(trace.n_nan > 0);
  tear_down(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_kernels_are_equal),
      cmocka_unit_test(a_wrong_kernel_is_named),
      cmocka_unit_test(a_wrong_kernel_of_devices_is_named),
      cmocka_unit_test(nan_of_a_kernel_is_named),
      cmocka_unit_test(nan_of_an_argument_is_not_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
