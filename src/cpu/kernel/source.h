// cpu/kernel/source.h: where in the source of a program an instruction comes from: what profiles and debuggers show.
#ifndef HILO_CPU_KERNEL_SOURCE_H
#define HILO_CPU_KERNEL_SOURCE_H

#include "hilo/ir.h"

typedef struct CpuSource {
  const char *op_name;  // "jit(f)/add"; NULL: not known
  const char *file;     // NULL: not known
  int line;
} CpuSource;
// By its metadata; of a fusion without any by that of its root, or of the last that has some.
CpuSource cpu_source(const HlInst *inst);

#endif
