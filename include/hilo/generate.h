// hilo/generate.h: random modules that are valid and run: data for who has too few programs.
#ifndef HILO_GENERATE_H
#define HILO_GENERATE_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlGenerateOptions {
  uint64_t seed;               // the same seed gives the same module, on every machine
  int instructions;            // of the entry, about; 0: 40
  int parameters;              // 0: 3
  int64_t size;                // of a dimension at most; 0: 64
  bool loops;                  // some values go through loops that end
} HlGenerateOptions;
// A module: elementwise chains, reductions, dots, broadcasts, transposes, slices, concatenations, as they follow each other in
// models, whose results are all that nothing else reads. Floats stay of moderate size. The caller's; NULL after reporting.
HlModule *hl_generate(HlCx *cx, const HlGenerateOptions *options);

#ifdef __cplusplus
}
#endif
#endif
