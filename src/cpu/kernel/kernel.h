// cpu/kernel/kernel.h: kernels: what computes one instruction (a fusion mostly) from memory to memory.
//
// Each kind of kernel is one row of kinds.def and a file or a room: it looks at an instruction and takes it or not, prepares all
// that can be known before running, and runs. Kinds are asked in the order of the rows; what none takes the interpreter
// computes. A kernel is immutable, and may run on many threads at once.
#ifndef HILO_CPU_KERNEL_H
#define HILO_CPU_KERNEL_H

#include "cpu/pool/pool.h"
#include "cpu/simd.h"
#include "hilo/ir.h"

typedef struct CpuKernel CpuKernel;

// What a kernel is made with. Its memory comes from the arena, which lives as long as the program, as the module does. Kernels of
// equal content are shared: a kernel must not ask the instruction for its name, or for anything that equal instructions differ in.
typedef struct CpuMaker {
  HlCx *cx;
  HlArena *arena;
  CpuLevel level;
  bool no_emit;         // machine code may not be made: tile functions alone
  struct EmitMemory *code;  // where it goes (cpu/emit/code.h), for as long as the kernels are used; NULL: none is made
  const char *onednn;       // HlCpuOptions.onednn
  const struct OneDnn *opened;  // the library, once it has been looked for (cpu/dot/onednn.c)
  bool has_looked;
  // Whether the elements of an operand are the same from run to run until the program says otherwise: what takes no part in the turns
  // of a loop. NULL: none is.
  bool (*is_fixed)(void *user, const HlInst *operand);
  void *user;
  const char *name;         // what profilers and debuggers show for it; may be NULL. No kernel depends on it
} CpuMaker;

// The buffers of a kernel: the leaves (arrays) of operand 0, of operand 1, ..., then those of the result. An array lies densely
// in the layout of its shape, row-major without one; an element takes hl_dtype_bytes (literals' form: sub-byte types a byte
// each). Tokens and empty arrays have an address that is not looked at. Aligned to 64, but parameters may be aligned to their elements only.
// An operand's buffer may be the result's where buffer assignment (hl_can_share, hl_in_place) says so.
typedef struct CpuKernelKind {
  const char *name;
  // NULL: not of this kind, or, after reporting in maker->cx, an error.
  CpuKernel *(*make)(CpuMaker *maker, const HlInst *inst);
  // False: no memory, or the team was stopped, or (where `why` is set) what went wrong, a constant text.
  bool (*run)(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why);
  // What it does, a few lines for a reader; may be NULL.
  void (*print)(HlBuf *out, const CpuKernel *kernel);
} CpuKernelKind;

struct CpuKernel {
  const CpuKernelKind *kind;
  int n_buffers;
  double seconds;       // about how long it takes on one thread, 0: not known
  // Bytes of memory that it gets as one buffer more, behind all others, and finds as it left it in the last run, but for the first
  // 8 bytes: they are 0 when operands that are fixed may have changed. 0: none.
  int64_t held;
};

static inline bool cpu_is_fixed(const CpuMaker *maker, const HlInst *operand) {
  return maker->is_fixed && maker->is_fixed(maker->user, operand);
}

// The kernel of the first kind that takes the instruction; NULL: none does (or an error, reported).
const CpuKernel *cpu_kernel_make(CpuMaker *maker, const HlInst *inst);

// --- Arrays in memory ------------------------------------------------------------------------------

// How far apart neighbours of each dimension lie, in elements, by the shape's layout (row-major without one). In the arena.
const int64_t *cpu_strides(HlArena *arena, const HlShape *shape);
// Bytes of an array as kernels see it.
int64_t cpu_bytes(const HlShape *shape);
// Arrays in a shape, depth first; tokens and opaque values count as well, as leaves without memory.
int cpu_leaf_count(const HlShape *shape);
const HlShape *cpu_leaf(const HlShape *shape, int k);

#endif
