// pass/tuning.h: one choice of the autotuner's, and how a kernel finds its own.
#ifndef PASS_TUNING_H
#define PASS_TUNING_H

#include "hilo/tuning.h"
#include "ir/backend_config.h"
#include "proto/tuning.pb-c.h"

// Whose code it is, and the member that this code reads.
typedef struct Tuned {
  XlaTuning__Backend by;
  HlFusionConfig fusion;  // TRITON: a product's sizes; BLOCK_LEVEL_EMITTER: tiles
  HlNativeConfig native;  // NATIVE_EMITTER
  HlConvConfig conv;      // CUDNN: the algorithm
  HlGemmConfig gemm;      // CUBLASLT, and the fissions: the algorithm, and the memory it works in; not given: nothing was said
} Tuned;

// False: nothing is said of the kernel on this target. Lists are in the arena; the tuning may be NULL.
bool tuning_find(HlCx *cx, const HlTuning *tuning, HlArena *arena, const HlTarget *target, const HlInst *kernel, Tuned *out);
// Notes a choice, in place of one that is there. The tuning may be NULL.
void tuning_add(HlCx *cx, HlTuning *tuning, const HlTarget *target, const HlInst *kernel, const Tuned *tuned);
// Whether there is something about this target, or nothing at all.
bool tuning_fits(const HlTuning *tuning, HlArena *arena, const HlTarget *target);
// The name of a backend, as XLA has it.
const char *tuning_backend(XlaTuning__Backend by);

#endif
