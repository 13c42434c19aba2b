// hilo/dump_names.h: what the name of a dumped file says: of which program it is, and which state of it (tools.md 3, 4).
//
//   module_0012.jit_f.0003.simplification.after_algsimp.before_dce.txt    12, jit_f, a state between passes
//   1624325116260738.module_0065.f.186875.before_optimizations.txt        as in 2020 and 2021, with microseconds
//   module_0065.before_optimizations.txt                                  of 2019, or of a name that was too long
//   module_0000.jit_f.sm_9.0_gpu_after_optimizations.hlo.pb.gz            the platform is sm_9.0_gpu
//   module_0000.jit_f/module.mlir                                         what entered the compiler, since 0.10
//   jax_ir0003_jit_f_compile.mlir, jax_000003_f.jaxpr.txt                 JAX_DUMP_IR_TO
//   before.hlo, hlo_after_optimizations_bert_8_gpus.txt                   renamed by hand
#ifndef HILO_DUMP_NAMES_H
#define HILO_DUMP_NAMES_H

#include "hilo/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The forms and states of one program, in the order in which a compilation has them.
typedef enum HlDumpStage {
  HL_STAGE_OTHER,              // the name does not tell
  HL_STAGE_JAXPR,
  HL_STAGE_STABLEHLO,          // MLIR that entered the compiler, or that JAX lowered
  HL_STAGE_BEFORE,             // HLO as it entered
  HL_STAGE_STEP,               // between passes, or a stage that a backend dumps on its way
  HL_STAGE_AFTER,              // optimised
  HL_STAGE_SNAPSHOT,           // a module and its arguments
  HL_STAGE_COUNT
} HlDumpStage;
const char *hl_dump_stage_text(HlDumpStage stage);                      // "before"
bool hl_dump_stage_by_text(HlStr text, HlDumpStage *out);

typedef struct HlDumpName {
  HlDumpStage stage;
  bool is_report;              // of the module, but no program: buffers, machine code, options, pictures
  bool is_numbered;            // the name is one of XLA's or JAX's own
  bool is_jax;                 // JAX's own: its numbers are not XLA's
  const char *folder;          // of the program: without the folder that one module has for itself; "" is none
  int64_t stamp;               // microseconds; 0: none
  int64_t number;              // -1: none
  const char *name;            // of the module as it stands there; "": left out, the name was too long
  const char *label;           // what follows it, without endings: "cpu_after_optimizations", "0003.dce.after_x"
  const char *platform;        // "cpu", "sm_9.0_gpu"; "": not said
  int step;                    // of a state between passes; -1: none
  const char *pipeline, *after, *before;  // of one; "" where the name does not say
} HlDumpName;

// Reads the name at the end of a path, whose folders are looked at, too. Never fails: what is in no form known has stage
// OTHER and number -1. Strings are in the arena.
HlDumpName hl_dump_name_read(HlArena *arena, const char *path);

#ifdef __cplusplus
}
#endif
#endif
