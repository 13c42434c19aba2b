// cpu/pool/alloc.h: memory for what kernels read and write: arrays, and scratch.
//
// A page that nobody has touched costs 250 ns when it is first written, mostly for zeroing it, and 64 MB of them 42 ms; in huge
// pages 18, kept from last time 2.7 (cpu.md 4). So large blocks lie in huge pages where the system has them, and what is freed
// is kept for a while.
//
// None of this belongs to a try (base/memory.h): threads ask here that have none. It takes part in the counting of allocations
// that tests do.
#ifndef HILO_CPU_ALLOC_H
#define HILO_CPU_ALLOC_H

#include <stddef.h>
#include <stdint.h>

// A block of the system's, aligned to 64, at least; what is in it is not known. NULL: no memory.
void *cpu_block_new(size_t bytes);
void cpu_block_free(void *block, size_t bytes);  // as many bytes as it was asked for with; NULL is fine

// Memory that is asked for and given back again and again, by any thread.
typedef struct CpuAlloc CpuAlloc;
// Keeps at most so many bytes of what was given back, the last used.
CpuAlloc *cpu_alloc_new(size_t keep);   // NULL: no memory
void cpu_alloc_free(CpuAlloc *alloc);   // all must have been given back; NULL is fine
void *cpu_alloc_get(CpuAlloc *alloc, size_t bytes);  // as cpu_block_new
void cpu_alloc_put(CpuAlloc *alloc, void *block, size_t bytes);  // NULL is fine
// To the system goes what nobody has used for so many seconds: 0: all that is kept. Blocks that rested for CPU_ALLOC_RESTS go
// whenever something is asked for or given back.
#define CPU_ALLOC_RESTS 10.0
void cpu_alloc_trim(CpuAlloc *alloc, double seconds);

typedef struct CpuAllocUse {
  size_t used, most_used;  // bytes, rounded up, that were asked for and not given back: now, and at most so far
  size_t kept;
} CpuAllocUse;
CpuAllocUse cpu_alloc_use(CpuAlloc *alloc);

#endif
