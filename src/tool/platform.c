// tool/platform.c: the table of platforms: their names, their passes, the stages of their compilers.

#include <string.h>

#include "hilo/session.h"

static const char needs_code[] = "it shows what LLVM makes, and code is not generated here";

// What XLA leaves to the backend: on the CPU from the schedule on, on GPUs also copies.
static const char cpu_backend[] = "cpu-scheduler,HLO passes after scheduling";
static const char gpu_backend[] = "pre-scheduling-copy-insertion,pre-scheduling-passes,"
                                  "hlo-memory-scheduler,latency-hiding-scheduler,"
                                  "post-scheduling-passes";

static const HlStage transforms_stages[] = {
    {"hlo", HL_SHOWN_HLO, "", NULL},
    {"html", HL_SHOWN_PAGE, "", NULL},
};

static const HlStage cpu_stages[] = {
    {"hlo", HL_SHOWN_HLO, cpu_backend, NULL},
    {"html", HL_SHOWN_PAGE, cpu_backend, NULL},
    {"hlo-backend", HL_SHOWN_HLO, "", NULL},
    {"buffer-assignment", HL_SHOWN_BUFFERS, "", NULL},
    {"llvm-before-optimizations", HL_SHOWN_HLO, "", needs_code},
};

static const HlStage gpu_stages[] = {
    {"hlo", HL_SHOWN_HLO, gpu_backend, NULL},
    {"html", HL_SHOWN_PAGE, gpu_backend, NULL},
    {"hlo-backend", HL_SHOWN_HLO, "", NULL},
    {"buffer-assignment", HL_SHOWN_BUFFERS, "", NULL},
    {"llvm", HL_SHOWN_HLO, "", needs_code},
    {"llvm-before-optimizations", HL_SHOWN_HLO, "", needs_code},
    {"llvm-after-optimizations", HL_SHOWN_HLO, "", needs_code},
    {"ptx", HL_SHOWN_HLO, "", needs_code},
};

static const char *const cpu_words[] = {"cpu", "CPU", "Host", "host", "cpu-native", NULL};
static const char *const gpu_words[] = {"gpu", "GPU", "CUDA", "cuda", "ROCM", "rocm", NULL};
static const char *const reference_words[] = {"reference", "Interpreter", "interpreter", "default",
                                              NULL};
static const char *const transforms_words[] = {"transforms", NULL};

static const HlPlatform platforms[] = {
    {.name = "cpu",
     .words = cpu_words,
     .pipeline = "cpu-native",
     .xla_pipeline = "cpu",
     .target = "cpu",
     .before = "before_optimizations",
     .after = "cpu_after_optimizations",
     .runs = true,
     .has_programs = true,
     .stages = cpu_stages,
     .n_stages = HL_COUNT_OF(cpu_stages)},
    {.name = "gpu",
     .words = gpu_words,
     .pipeline = "gpu",
     .xla_pipeline = "gpu",
     .target = "gpu",
     .before = "before_optimizations",
     .after = "gpu_after_optimizations",
     .runs = true,
     .stages = gpu_stages,
     .n_stages = HL_COUNT_OF(gpu_stages)},
    {.name = "reference",
     .words = reference_words,
     .pipeline = "",
     .xla_pipeline = "",
     .target = "",
     .before = "before_optimizations",
     .after = "after_optimizations",
     .runs = true},
    {.name = "transforms",
     .words = transforms_words,
     .pipeline = "",
     .xla_pipeline = "",
     .target = "",
     .before = "before_optimization",
     .after = "after_optimization",
     .stages = transforms_stages,
     .n_stages = HL_COUNT_OF(transforms_stages)},
};

const HlPlatform *hl_platforms(int *n) {
  *n = HL_COUNT_OF(platforms);
  return platforms;
}

const HlPlatform *hl_platform_find(const char *word) {
  for (int k = 0; k < HL_COUNT_OF(platforms); k++)
    for (const char *const *name = platforms[k].words; *name; name++)
      if (strcmp(*name, word) == 0)
        return &platforms[k];
  return NULL;
}

const HlStage *hl_stage_find(const HlPlatform *platform, const char *name) {
  for (int k = 0; k < platform->n_stages; k++)
    if (strcmp(platform->stages[k].name, name) == 0)
      return &platform->stages[k];
  return NULL;
}
