// What the names of dumped files say, of all ages and makers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/dump_names.h"

typedef struct Case {
  const char *path;
  HlDumpStage stage;
  bool is_report;
  const char *folder, *name;
  int64_t number, stamp;
  const char *platform;
  int step;
  const char *pipeline, *after, *before;
} Case;

static const Case cases[] = {
    // 2019, 2020 and 2021, 2022, now.
    {"module_0003.before_optimizations.txt", HL_STAGE_BEFORE, false, "", "", 3, 0, "", -1, "", "",
     ""},
    {"a/1624325116260738.module_0065.f.186875.before_optimizations.txt", HL_STAGE_BEFORE, false,
     "a", "f.186875", 65, 1624325116260738, "", -1, "", "", ""},
    {"module_0013.jit__lambda_.7.before_optimizations.txt", HL_STAGE_BEFORE, false, "",
     "jit__lambda_.7", 13, 0, "", -1, "", "", ""},
    {"d/module_0000.jit_f.cpu_after_optimizations.txt", HL_STAGE_AFTER, false, "d", "jit_f", 0, 0,
     "cpu", -1, "", "", ""},
    {"module_0000.jit_f.cpu_after_optimizations.hlo.pb.gz", HL_STAGE_AFTER, false, "", "jit_f", 0,
     0, "cpu", -1, "", "", ""},
    {"module_12345.jit_f.sm_9.0_gpu_after_optimizations.txt.zst", HL_STAGE_AFTER, false, "",
     "jit_f", 12345, 0, "sm_9.0_gpu", -1, "", "", ""},
    {"module_0001.f.7.sm_9.0a_gpu_after_optimizations.hlo.pb", HL_STAGE_AFTER, false, "", "f.7", 1,
     0, "sm_9.0a_gpu", -1, "", "", ""},
    {"module_0001.f.gfx90a_gpu_after_optimizations.txt", HL_STAGE_AFTER, false, "", "f", 1, 0,
     "gfx90a_gpu", -1, "", "", ""},
    {"module_0001.f.after_optimizations.txt", HL_STAGE_AFTER, false, "", "f", 1, 0, "", -1, "", "",
     ""},
    {"module_0001.f.after_optimizations_before_buffer_assignment.txt", HL_STAGE_AFTER, false, "",
     "f", 1, 0, "", -1, "", "", ""},
    {"module_0001.sm_8.0_gpu_after_optimizations.txt", HL_STAGE_AFTER, false, "", "", 1, 0,
     "sm_8.0_gpu", -1, "", "", ""},
    // Between passes; names of pipelines and modules have the same words.
    {"module_0000.jit_f.0003.simplification.after_algsimp.before_dce.txt", HL_STAGE_STEP, false, "",
     "jit_f", 0, 0, "", 3, "simplification", "algsimp", "dce"},
    {"module_0000.f.0018.after_layout_assignment.after_pipeline-start.before_pipeline-end.txt",
     HL_STAGE_STEP, false, "", "f", 0, 0, "", 18, "after_layout_assignment", "pipeline-start",
     "pipeline-end"},
    {"module_0000.f.0001.x.after_y.before_z.0012.p.after_q.before_r.txt", HL_STAGE_STEP, false, "",
     "f.0001.x.after_y.before_z", 0, 0, "", 12, "p", "q", "r"},
    {"module_0000.0007.fusion.after_fusion.before_dce.txt", HL_STAGE_STEP, false, "", "", 0, 0, "",
     7, "fusion", "fusion", "dce"},
    {"module_0000.f.0025.copy-insertion.after_adding_special-case_copies.txt", HL_STAGE_STEP, false,
     "", "f", 0, 0, "", 25, "", "copy-insertion", ""},
    {"module_0000.f.after_spmd_partitioner.txt", HL_STAGE_STEP, false, "", "f", 0, 0, "", -1, "",
     "", ""},
    {"module_0000.f.before_config_assignment.txt", HL_STAGE_STEP, false, "", "f", 0, 0, "", -1, "",
     "", ""},
    // Snapshots.
    {"module_0000.f.snapshot.-1286432590.pb", HL_STAGE_SNAPSHOT, false, "", "f", 0, 0, "", -1, "",
     "", ""},
    {"module_0000.f.2.execution_0000.hlo_unoptimized_snapshot.pb", HL_STAGE_SNAPSHOT, false, "",
     "f.2", 0, 0, "", -1, "", "", ""},
    {"module_f.execution_0000.hlo_snapshot.pb", HL_STAGE_SNAPSHOT, false, "", "f", -1, 0, "", -1,
     "", "", ""},
    // Reports.
    {"module_0000.jit_f.cpu_after_optimizations-buffer-assignment.txt", HL_STAGE_OTHER, true, "",
     "jit_f", 0, 0, "", -1, "", "", ""},
    {"module_0000.jit_f.sm_9.0_gpu_after_optimizations-memory-usage-report.txt", HL_STAGE_OTHER,
     true, "", "jit_f", 0, 0, "", -1, "", "", ""},
    {"module_0000.jit_f.debug_options", HL_STAGE_OTHER, true, "", "jit_f", 0, 0, "", -1, "", "",
     ""},
    {"module_0000.metadata.textproto", HL_STAGE_OTHER, true, "", "", 0, 0, "", -1, "", "", ""},
    // The folder of a module, and JAX's own.
    {"d/module_0000.jit_f/module.mlir", HL_STAGE_STABLEHLO, false, "d", "jit_f", 0, 0, "", -1, "",
     "", ""},
    {"module_0000.jit_f_1773012345678/module.mlir", HL_STAGE_STABLEHLO, false, "", "jit_f", 0, 0,
     "", -1, "", "", ""},
    {"d/module_0000.jit_f/topology.textproto", HL_STAGE_OTHER, true, "d", "jit_f", 0, 0, "", -1, "",
     "", ""},
    {"d/jax_ir0003_jit__lambda_compile.mlir", HL_STAGE_STABLEHLO, false, "d", "jit__lambda", 3, 0,
     "", -1, "", "", ""},
    {"jax_000003_<lambda>.jaxpr.txt", HL_STAGE_JAXPR, false, "", "<lambda>", 3, 0, "", -1, "", "",
     ""},
    // TensorFlow, PyTorch/XLA, by hand.
    {"module_0012.a_inference_step_77__XlaMustCompile_true__.before_optimizations.txt",
     HL_STAGE_BEFORE, false, "", "a_inference_step_77__XlaMustCompile_true__", 12, 0, "", -1, "",
     "", ""},
    {"module_0001.SyncTensorsGraph.20.sm_8.0_gpu_after_optimizations.txt", HL_STAGE_AFTER, false,
     "", "SyncTensorsGraph.20", 1, 0, "sm_8.0_gpu", -1, "", "", ""},
    {"x/hlo_after_optimizations_bert_8_gpus.txt", HL_STAGE_AFTER, false, "x", "bert_8_gpus", -1, 0,
     "", -1, "", "", ""},
    {"before.hlo", HL_STAGE_BEFORE, false, "", "", -1, 0, "", -1, "", "", ""},
    {"net.unoptimized.hlo", HL_STAGE_BEFORE, false, "", "net", -1, 0, "", -1, "", "", ""},
    {"program.jaxpr", HL_STAGE_JAXPR, false, "", "", -1, 0, "", -1, "", "", ""},
    {"0001.jit_add.snapshot.pb", HL_STAGE_SNAPSHOT, false, "", "0001.jit_add.snapshot", -1, 0, "",
     -1, "", "", ""},
    {"module_12.txt", HL_STAGE_OTHER, false, "", "module_12", -1, 0, "", -1, "", "", ""},
    {"", HL_STAGE_OTHER, false, "", "", -1, 0, "", -1, "", "", ""},
};

static void names_of_all_ages(void **state) {
  HlArena *arena = hl_arena_new();
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    const Case *c = &cases[k];
    const HlDumpName n = hl_dump_name_read(arena, c->path);
    print_message("%s\n", c->path);
    assert_int_equal(n.stage, c->stage);
    assert_int_equal(n.is_report, c->is_report);
    assert_string_equal(n.folder, c->folder);
    assert_string_equal(n.name, c->name);
    assert_int_equal(n.number, c->number);
    assert_int_equal(n.stamp, c->stamp);
    assert_string_equal(n.platform, c->platform);
    assert_int_equal(n.step, c->step);
    assert_string_equal(n.pipeline, c->pipeline);
    assert_string_equal(n.after, c->after);
    assert_string_equal(n.before, c->before);
  }
  hl_arena_free(arena);
}

// Any bytes are a name.
static void anything(void **state) {
  static const char *const words[] = {
      "module_", "0001",   ".",    "before_",  "after_",         "optimizations",        "/",
      "_",       "jax_ir", "jax_", "snapshot", "execution_0000", "hlo_snapshot",         ".txt",
      ".hlo.pb", ".mlir",  ".gz",  "sm_",      "9.0_gpu_",       "99999999999999999999", "-",
      "\xff"};
  HlRng rng = {7};
  HlArena *arena = hl_arena_new();
  for (int turn = 0; turn < 20000; turn++) {
    char path[256] = "";
    for (int k = (int)hl_rng_below(&rng, 10); k >= 0; k--)
      strcat(path, words[hl_rng_below(&rng, HL_COUNT_OF(words))]);
    const HlMark mark = hl_arena_mark(arena);
    const HlDumpName n = hl_dump_name_read(arena, path);
    assert_true(n.stage < HL_STAGE_COUNT && n.name && n.label && n.folder && n.after && n.before &&
                n.pipeline);
    assert_true(strlen(n.name) <= strlen(path) && strlen(n.label) <= strlen(path));
    hl_arena_release(arena, mark);
  }
  hl_arena_free(arena);
}

static void stages_by_name(void **state) {
  for (int k = 0; k < HL_STAGE_COUNT; k++) {
    HlDumpStage stage;
    assert_true(hl_dump_stage_by_text(hl_str(hl_dump_stage_text((HlDumpStage)k)), &stage));
    assert_int_equal(stage, k);
  }
  HlDumpStage stage;
  assert_false(hl_dump_stage_by_text(hl_str("later"), &stage));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_of_all_ages),
      cmocka_unit_test(anything),
      cmocka_unit_test(stages_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
