// cpu/emit/code.h: memory for machine code.
//
// A page is writable or executable, never both: code is written through one mapping of it and runs in another. Functions
// share chunks, and go together when the memory is freed.
#ifndef HILO_CPU_EMIT_CODE_H
#define HILO_CPU_EMIT_CODE_H

#include "cpu/emit/x86.h"

typedef struct EmitMemory EmitMemory;
// Of a program. NULL: the system lets no process run what it has written (or this is no x86-64); then there are no segments.
// `perf_map`: names functions in /tmp/perf-PID.map, where perf looks.
EmitMemory *emit_memory_new(bool perf_map);
void emit_memory_free(EmitMemory *memory);  // nothing of it may be running; NULL is fine
// Where a copy of finished code runs. One thread at a time may place code, others may run what was placed. NULL: no memory.
// The name is what a profiler shows; it may be NULL.
const void *emit_place(EmitMemory *memory, const X86Code *code, const char *name);
int64_t emit_memory_bytes(const EmitMemory *memory);  // of all code in it

#endif
