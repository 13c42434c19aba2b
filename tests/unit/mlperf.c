// Seven programs of MLPerf training v0.7 on 64 TPU v3 cores: times of a step beside what was measured.
//
// Their profiles are in the corpus: times, flops and bytes of each op. What a step takes is summed up in three ways: with the measured
// times of ops and exchanges by the network; with the roofline; with the roofline and what the six other programs teach of each
// category. (Exchanges in the profiles are those of spec and docs: name and megabytes.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/sim_graph.h"
#include "hilo/simulate.h"

enum { CORES = 64, MODELS = 7 };

typedef struct Reduce {
  const char *model, *name;
  double megabytes;
} Reduce;
static const Reduce reduces[] = {
    {"bert", "all-reduce.345", 123.732},        {"bert", "all-reduce.346", 122.890},
    {"bert", "all-reduce.342", 124.125},        {"bert", "all-reduce.343", 119.538},
    {"bert", "all-reduce.344", 117.490},        {"bert", "all-reduce.347", 64.677},
    {"dlrm", "all-reduce.92", 21.088},          {"maskrcnn", "all-reduce.842", 108.683},
    {"maskrcnn", "all-reduce.843", 68.033},     {"nmt", "all-reduce.165", 124.928},
    {"nmt", "all-reduce.166", 121.688},         {"nmt", "all-reduce.167", 82.960},
    {"nmt", "all-reduce.164", 9.568},           {"resnet", "all-reduce.854", 51.106},
    {"ssd", "all-reduce.496", 38.552},          {"ssd", "all-reduce.497", 0.039},
    {"transformer", "all-reduce.376", 123.806}, {"transformer", "all-reduce.375", 117.584},
    {"transformer", "all-reduce.377", 111.251}, {"transformer", "all-reduce.378", 69.034}};

typedef struct Model {
  const char *name;
  double steps;  // of each core
  double roofline_within, calibrated_within;
  HlSimProfile *profile;
} Model;
// Half of the time of maskrcnn are convolutions far from the peaks, which flops and bytes do not tell, nor other programs.
static Model models[MODELS] = {
    {"bert", 3, 0.30, 0.10, NULL},        {"dlrm", 2437.2, 0.30, 0.10, NULL},
    {"maskrcnn", 76, 0.30, 0.32, NULL},   {"nmt", 142.25, 0.30, 0.10, NULL},
    {"resnet", 26, 0.30, 0.10, NULL},     {"ssd", 47, 0.30, 0.10, NULL},
    {"transformer", 19, 0.30, 0.10, NULL}};

static HlCx *cx;
static HlArena *arena;
static const HlSystem *s;
static HlClusterOptions options;

static double exchange_seconds(const Model *m, HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(reduces); k++)
    if (strcmp(reduces[k].model, m->name) == 0 && hl_str_is(name, reduces[k].name)) {
      const HlExchange what = {
          .kind = HL_ALL_REDUCE, .bytes = 1e6 * reduces[k].megabytes, .n = CORES};
      HlExchangeTime t;
      assert_true(hl_exchange_time(cx, s, &what, &t));
      return t.seconds;
    }
  return -1;
}

typedef enum Way { MEASURED, PROFILED, ROOFLINE, CALIBRATED } Way;

static double row_seconds(const Model *m, const HlSimProfileRow *row, Way way,
                          const HlCalibration *c) {
  const double exchange = way == MEASURED ? -1 : exchange_seconds(m, row->name);
  const double roofline = hl_roofline(s->device, row->flops, row->bytes);
  if (exchange >= 0)
    return exchange;
  // What does not compute, and a custom call whose flops overflowed in the profile, is as measured.
  if (way == MEASURED || way == PROFILED || !isfinite(roofline) ||
      hl_str_is(row->category, "custom-call"))
    return row->seconds;
  return way == ROOFLINE ? hl_category_seconds(s->device, row->category, row->flops, row->bytes)
                         : roofline * hl_calibration_factor(c, row->category);
}

// A step as a program of all rows, on the cluster.
static double step_seconds(const Model *m, Way way, const HlCalibration *c) {
  const HlSimProfileRow *row;
  const int n = hl_sim_profile_rows(m->profile, &row);
  HlProgramBuilder *b = hl_program_begin(arena, m->name, CORES);
  HlClusterRun run;
  for (int k = 0; k < n; k++)
    hl_program_compute(b, row[k].name, "row",
                       row_seconds(m, &row[k], way, c) * (double)row[k].occurrences / m->steps);
  assert_true(hl_cluster_run(cx, arena, hl_program_end(b), s, &options, &run));
  return run.seconds;
}

static void test_steps(void **state) {
  (void)state;
  if (!models[0].profile)
    skip();
  for (int k = 0; k < MODELS; k++) {
    HlCalibration *c = hl_calibration_new(arena);
    for (int i = 0; i < MODELS; i++)
      if (i != k)
        assert_true(hl_calibration_learn_profile(c, models[i].profile, s->device) > 50);
    const double measured = step_seconds(&models[k], MEASURED, c),
                 profiled = step_seconds(&models[k], PROFILED, c) / measured - 1;
    const double roofline = step_seconds(&models[k], ROOFLINE, c) / measured - 1;
    const double calibrated = step_seconds(&models[k], CALIBRATED, c) / measured - 1;
    print_message(
        "%-12s %9.3f ms: profile %+.1f%%, roofline %+.1f%%, calibrated on the others %+.1f%%\n",
        models[k].name, 1e3 * measured, 100 * profiled, 100 * roofline, 100 * calibrated);
    assert_true(fabs(profiled) <= 0.05);
    assert_true(fabs(roofline) <= models[k].roofline_within);
    assert_true(fabs(calibrated) <= models[k].calibrated_within);
  }
}

static int set_up(void **state) {
  (void)state;
  cx = hl_cx_new();
  arena = hl_arena_new();
  s = hl_system_find(cx, arena, "tpu-v3-32");
  const char *corpus = getenv("HILO_CORPUS");
  for (int k = 0; k < MODELS; k++) {
    const char *path = hl_arena_printf(arena,
                                       "%s/paragraph/tensorflow/mlperf_training_v0.7/"
                                       "hlo_after_optimizations_%s_32_tpuv3_stats.csv",
                                       corpus ? corpus : "../shared/corpus", models[k].name);
    HlSource *source = hl_read_file(cx, path);
    if (!source) {
      print_message("skipped: no %s\n", path);
      break;
    }
    models[k].profile = hl_sim_profile_read(cx, source, CORES, HL_SIM_OWN);
    hl_source_unref(source);
    if (!models[k].profile)
      return 1;
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int k = 0; k < MODELS; k++)
    hl_sim_profile_free(models[k].profile);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
