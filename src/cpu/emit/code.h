// cpu/emit/code.h: memory for machine code.
//
// A page is writable or executable, never both: code is written through one mapping of it and runs in another. Functions
// share chunks, and go together when the memory is freed.
#ifndef HILO_CPU_EMIT_CODE_H
#define HILO_CPU_EMIT_CODE_H

#include "cpu/emit/x86.h"

typedef struct EmitMemory EmitMemory;
// Of a program. NULL: the system lets no process run what it has written (or this is no x86-64); then there are no segments.
// `tells`: who is told of functions, and how they are named: flags of EmitTells.
typedef enum EmitTells {
  EMIT_PERF = 1,        // perf, in /tmp/perf-PID.map
  EMIT_GDB = 2,         // GDB, by its interface for code that was made at run time (tell.c)
  EMIT_KEEPS_TEXT = 4   // emit_text
} EmitTells;
EmitMemory *emit_memory_new(int tells);
int emit_memory_tells(const EmitMemory *memory);
void emit_memory_free(EmitMemory *memory);  // nothing of it may be running; NULL is fine
// Instead, where the try that has made it fails: what a try does not know of.
void emit_memory_forget(EmitMemory *memory);
// Where a copy of finished code runs. One thread at a time may place code, others may run what was placed. NULL: no memory.
// The name is what a profiler shows; it may be NULL.
const void *emit_place(EmitMemory *memory, const X86Code *code, const char *name);
// The code at `place` as text, as long as the memory is there; NULL: it is not kept.
const char *emit_text(const EmitMemory *memory, const void *place);
int64_t emit_memory_bytes(const EmitMemory *memory);  // of all code in it

// --- Telling others (tell.c) ---------------------------------------------------------------------------

void emit_tell_perf(const void *at, size_t size, const char *name);
typedef struct EmitGdb EmitGdb;
EmitGdb *emit_tell_gdb(const void *at, size_t size, const char *name);  // NULL: no memory
void emit_untell_gdb(EmitGdb *told);  // NULL is fine

#endif
