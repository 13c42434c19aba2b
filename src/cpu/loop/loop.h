// cpu/loop/loop.h: small loops as one piece of machine code, instead of steps for each turn.
//
// A while loop is small if its state is single elements and short rows (up to EMIT_MAX_ROW elements, all of one length), its
// condition and body compute element by element, and arrays beside that are read at places that the state says
// (dynamic-slice) or written at such places (dynamic-update-slice of an element, or a row). Then all but those arrays stays in
// registers:
//
//   while (i < n)   x = x * a[i] + 1, y[i] = x, i = i + 1          a counter, a short recurrence, a search by halves
//
// Bits are those of the steps: both are made of the same vector functions (cpu/emit/segment.h).
#ifndef HILO_CPU_LOOP_LOOP_H
#define HILO_CPU_LOOP_LOOP_H

#include "cpu/kernel/kernel.h"

typedef struct CpuLoop CpuLoop;

// In the maker's arena; NULL: the loop is none of these, or there is no machine code here. Buffers are the leaves of the loop's
// state, each the same before, in and after the loop.
const CpuLoop *cpu_loop_make(CpuMaker *maker, const HlInst *loop);
// How often the condition is looked at, at most, in about 200 us.
int64_t cpu_loop_turns(const CpuLoop *loop);
// Looks at the condition so many times, 1 at least, and goes on as long as it holds. True: it has failed, and the state is the
// loop's result. *turns becomes how often the body has run.
bool cpu_loop_run(const CpuLoop *loop, void *const *buffer, int64_t *turns);
void cpu_loop_print(HlBuf *out, const CpuLoop *loop);

#endif
