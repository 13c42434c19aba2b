// Costs: flops by op as XLA counts them, loops by their turns, calls once per caller, peak memory by liveness.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/cost.h"
#include "hilo/text.h"

static HlModule *parse(HlCx *cx, const char *text) {
  HlModule *m = hl_text_parse(cx, text);
  if (!m) {
    HlBuf out = {0};
    for (int k = 0; k < hl_cx_n_diags(cx); k++)
      hl_diag_render(hl_cx_diag(cx, k), false, &out);
    print_error("%.500s\n", out.n ? out.at : "");
    hl_buf_free(&out);
  }
  assert_non_null(m);
  return m;
}

typedef struct Case {
  const char *text;
  double flops, transcendentals, bytes;
} Case;

#define SUM "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"

static const Case cases[] = {
    {"ENTRY e { a = f32[64,64] parameter(0) ROOT r = f32[64,64] add(a, a) }", 4096, 0, 49152},
    {"ENTRY e { a = f32[64,64] parameter(0) ROOT r = f32[64,64] tanh(a) }", 0, 4096, 32768},
    {"ENTRY e { a = f32[64] parameter(0) t = (f32[64], f32[64]) tuple(a, a)\n"
     "ROOT r = f32[64] get-tuple-element(t), index=1 }",
     0, 0, 0},
    {"ENTRY e { a = f32[32,64] parameter(0) b = f32[64,16] parameter(1)\n"
     "ROOT r = f32[32,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
     65536, 0, 14336},
    {SUM "ENTRY e { a = f32[64,64] parameter(0) z = f32[] constant(0)\n"
         "ROOT r = f32[64] reduce(a, z), dimensions={0}, to_apply=s }",
     4032, 0, 16644},
    {SUM "ENTRY e { a = f32[8,8] parameter(0) z = f32[] constant(0)\n"
         "ROOT r = f32[4,4] reduce-window(a, z), window={size=2x2 stride=2x2}, to_apply=s }",
     48, 0, 324},
    {"ENTRY e { a = f32[1,8,8,2] parameter(0) k = f32[3,3,2,3] parameter(1)\n"
     "ROOT r = f32[1,8,8,3] convolution(a, k), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f }",
     5808, 0, 1496},
    {"ENTRY e { a = f32[1,8,8,2] parameter(0) k = f32[3,3,2,3] parameter(1)\n"
     "ROOT r = f32[1,4,4,3] convolution(a, k), window={size=3x3 stride=2x2 pad=0_1x0_1}, "
     "dim_labels=b01f_01io->b01f }",
     1452, 0, 920},
    {"ENTRY e { a = c64[1024] parameter(0) ROOT r = c64[1024] fft(a), fft_type=FFT, "
     "fft_length={1024} }",
     81920, 0, 16384},
    {"ENTRY e { a = f32[1024] parameter(0) i = s32[] parameter(1)\n"
     "ROOT r = f32[16] dynamic-slice(a, i), dynamic_slice_sizes={16} }",
     0, 0, 132},
    {"ENTRY e { a = f32[1024] parameter(0) u = f32[16] parameter(1) i = s32[] parameter(2)\n"
     "ROOT r = f32[1024] dynamic-update-slice(a, u, i) }",
     0, 0, 132},
    {"f { a = f32[64] parameter(0) b = f32[64] multiply(a, a) ROOT r = f32[64] exponential(b) }\n"
     "ENTRY e { a = f32[64] parameter(0) ROOT r = f32[64] fusion(a), kind=kLoop, calls=f }",
     64, 64, 512},
    {"x { a = f32[8] parameter(0) ROOT r = f32[8] multiply(a, a) }\n"
     "y { a = f32[8] parameter(0) ROOT r = f32[8] cosine(a) }\n"
     "ENTRY e { p = pred[] parameter(0) a = f32[8] parameter(1)\n"
     "ROOT r = f32[8] conditional(p, a, a), true_computation=x, false_computation=y }",
     8, 8, 96},
    {"ENTRY e { a = f32[1024] parameter(0) ROOT r = f32[1024] copy(a) }", 0, 0, 8192},
};

static void flops_and_bytes(void **state) {
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlCx *cx = hl_cx_new();
    HlModule *m = parse(cx, cases[k].text);
    HlCost cost = hl_cost_module(m);
    if (cost.flops != cases[k].flops || cost.transcendentals != cases[k].transcendentals ||
        cost.bytes_read + cost.bytes_written != cases[k].bytes)
      fail_msg("case %d: flops %g, transcendentals %g, bytes %g", k, cost.flops,
               cost.transcendentals, cost.bytes_read + cost.bytes_written);
    hl_module_free(m);
    hl_cx_free(cx);
  }
}

static void collectives(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(
      cx, SUM "ENTRY e { a = f32[100] parameter(0) r = f32[100] all-reduce(a), replica_groups={}, "
              "to_apply=s\n"
              "ROOT g = f32[400] all-gather(r), replica_groups={{0,1,2,3}}, dimensions={0} }");
  HlCost cost = hl_cost_module(m);
  assert_true(cost.collective_bytes == 800);
  assert_true(cost.flops == 100);
  hl_module_free(m);
  hl_cx_free(cx);
}

#define LOOP(condition, step, start, config)                                                   \
  "c { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "   \
  "constant(10)\n"                                                                             \
  "ROOT r = pred[] " condition " }\n"                                                          \
  "b { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 s = s32[] "   \
  "constant(" step ")\n"                                                                       \
  "j = s32[] add(i, s) x = f32[64] get-tuple-element(p), index=1 y = f32[64] multiply(x, x)\n" \
  "ROOT r = (s32[], f32[64]) tuple(j, y) }\n"                                                  \
  "ENTRY e { z = s32[] " start " a = f32[64] parameter(0) t = (s32[], f32[64]) tuple(z, a)\n"  \
  "ROOT w = (s32[], f32[64]) while(t), condition=c, body=b" config " }"

static void turns(void **state) {
  static const struct {
    const char *text;
    int64_t turns;
  } loops[] = {
      {LOOP("compare(i, n), direction=LT", "1", "constant(0)", ""), 10},
      {LOOP("compare(i, n), direction=LE", "1", "constant(0)", ""), 11},
      {LOOP("compare(n, i), direction=GT", "3", "constant(0)", ""), 4},
      {LOOP("compare(i, n), direction=LT", "1", "constant(12)", ""), 0},
      {LOOP("compare(i, n), direction=LT", "1", "parameter(1)", ""), -1},
      {LOOP("compare(i, n), direction=NE", "1", "constant(0)", ""), -1},
      {LOOP("compare(i, n), direction=NE", "1", "constant(0)",
            ", backend_config={\"known_trip_count\":{\"n\":\"7\"}}"),
       7},
  };
  for (int k = 0; k < HL_COUNT_OF(loops); k++) {
    HlCx *cx = hl_cx_new();
    HlModule *m = parse(cx, loops[k].text);
    int64_t n = hl_trip_count(m->entry->root), counted = n < 0 ? 1 : n;
    assert_int_equal(n, loops[k].turns);
    // A body adds 1 and multiplies 64; a condition, which runs once more, compares once.
    assert_true(hl_cost_module(m).flops == (double)(65 * counted + (n < 0 ? 1 : n + 1)));
    hl_module_free(m);
    hl_cx_free(cx);
  }
}

// Each computation calls the one before twice: 2^60 additions, found in 60 steps.
static void no_blow_up(void **state) {
  HlBuf text = {0};
  hl_buf_puts(&text, "x0 { a = f32[] parameter(0) ROOT r = f32[] add(a, a) }\n");
  for (int k = 1; k <= 60; k++)
    hl_buf_printf(&text,
                  "x%d { a = f32[] parameter(0) b = f32[] call(a), to_apply=x%d ROOT r = f32[] "
                  "call(b), to_apply=x%d }\n",
                  k, k - 1, k - 1);
  hl_buf_puts(&text, "ENTRY e { a = f32[] parameter(0) ROOT r = f32[] call(a), to_apply=x60 }");
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, text.at);
  assert_true(hl_cost_module(m).flops == 1152921504606846976.0);
  assert_true(hl_cost_inst(m->entry->root).flops == 1152921504606846976.0);
  assert_int_equal(hl_peak_memory(cx, m), 4 + 4 * 61);  // a, and the b or r of every level
  hl_module_free(m);
  hl_cx_free(cx);
  hl_buf_free(&text);
}

static void peak_memory(void **state) {
  static const struct {
    const char *text;
    int64_t bytes;
  } programs[] = {
      // a dies when b is made, b when c is: two alive at a time
      {"ENTRY e { a = f32[256] parameter(0) b = f32[256] negate(a) c = f32[256] negate(b) ROOT d = "
       "f32[256] negate(c) }",
       2048},
      // a is needed at the end
      {"ENTRY e { a = f32[256] parameter(0) b = f32[256] negate(a) c = f32[256] negate(b) ROOT d = "
       "f32[256] add(a, c) }",
       3072},
      // a tuple renames; taking b out of it does not keep a alive
      {"ENTRY e { a = f32[256] parameter(0) b = f32[256] negate(a) t = (f32[256], f32[256]) "
       "tuple(a, b)\n"
       "c = f32[256] get-tuple-element(t), index=1 d = f32[256] negate(c) ROOT r = f32[256] "
       "negate(d) }",
       2048},
      {"ENTRY e { ROOT a = f32[256] parameter(0) }", 1024},
      // what the callee needs inside comes on top of the caller's
      {"f { a = f32[256] parameter(0) b = f32[256] negate(a) c = f32[256] negate(b) ROOT r = "
       "f32[256] add(b, c) }\n"
       "ENTRY e { a = f32[256] parameter(0) ROOT r = f32[256] call(a), to_apply=f }",
       4096},
  };
  for (int k = 0; k < HL_COUNT_OF(programs); k++) {
    HlCx *cx = hl_cx_new();
    HlModule *m = parse(cx, programs[k].text);
    if (hl_peak_memory(cx, m) != programs[k].bytes)
      fail_msg("program %d: %lld bytes", k, (long long)hl_peak_memory(cx, m));
    hl_module_free(m);
    hl_cx_free(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(flops_and_bytes),
                                     cmocka_unit_test(collectives), cmocka_unit_test(turns),
                                     cmocka_unit_test(no_blow_up), cmocka_unit_test(peak_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
