// cpu/loop/line.h: several instructions on single elements and short rows, in registers: what a larger loop has beside its kernels.
//
//   j = add(i, 1), h = multiply(g, 0.5), y = dynamic-update-slice(ys, h, i)       one step, not three
#ifndef HILO_CPU_LOOP_LINE_H
#define HILO_CPU_LOOP_LINE_H

#include "cpu/kernel/kernel.h"
#include "cpu/tile/box.h"

enum { CPU_LINE_MEMBERS = 32 };

typedef struct CpuLine {
  const CpuKernel *kernel;     // buffers: the sources, then the leaves of the members, one after the other
  int n_sources;
  const TileSource *source;
  const TileSource *over;      // by leaf of the members: what has to stand where the leaf is; inst NULL: nothing
} CpuLine;

// Whether an instruction may be one of them.
bool cpu_line_may(const HlInst *inst);
// Instructions of a computation in the order of its schedule, CPU_LINE_MEMBERS at most; all of them are read before any is
// written. In the maker's arena; false: it cannot be done, or there is no machine code.
bool cpu_line_make(CpuMaker *maker, const HlComp *comp, const HlInst *const *member, int n_members, CpuLine *out);

#endif
