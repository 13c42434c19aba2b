// support/cpu_check.h: one kernel of the CPU backend beside the interpreter.
#ifndef CPU_CHECK_H
#define CPU_CHECK_H

#include "cpu/kernel/kernel.h"

typedef struct CpuCheck {
  const char *kind;            // which kind must take it; NULL: any
  double tolerance;            // of hl_compare; 0: XLA's rule, negative: the same bits
  int threads;                 // 0: 2
  CpuLevel level;              // at most this level...
  bool has_level;              // ... where this is set; else the best there is
  bool no_emit;
  const char *onednn;          // HlCpuOptions.onednn
  uint64_t seed;               // of the arguments
  bool large;                  // hl_fake_large_args
} CpuCheck;

// `text` is an HLO module whose entry's root has parameters and constants as operands. Runs the root as a kernel and by the
// interpreter, on the same made-up arguments, and compares. NULL: equal; else what is wrong, a heap string.
char *cpu_check(const char *text, const CpuCheck *options);

// Elements of a literal as they lie in memory by a layout, and back: `size` bytes each.
void cpu_lay_out(HlArena *arena, const HlShape *shape, void *memory, const HlLiteral *literal);
void cpu_read_back(HlArena *arena, const HlShape *shape, HlLiteral *literal, const void *memory);

#endif
