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
void cpu_block_free(void *block, size_t bytes);  // of as many bytes as it was asked for with; NULL is fine

#endif
