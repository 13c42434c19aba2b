// cpu/dot/dot.h: products of matrices, wherever their elements lie.
//
//   C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]
//
// Each of the four indices is some loops, and each loop steps through the arrays by strides of its own: that is how any dimension
// numbers, layouts and transposes come down to one product. Loops that step alike are one.
//
// Both operands are packed into panels (tile.h), C is made block by block: a block is summed up over all of k while it is
// in the cache, then converted and put where it belongs. In which order a sum is added up depends on k alone, so a result does not
// depend on how the work is cut, or on the number of threads.
#ifndef HILO_CPU_DOT_DOT_H
#define HILO_CPU_DOT_DOT_H

#include "cpu/kernel/kernel.h"

typedef enum DotArray { DOT_A, DOT_B, DOT_C } DotArray;
typedef struct DotLoop {
  int64_t size;
  int64_t stride[3];  // of A, B and C, in elements; 0 where an array does not have it
} DotLoop;
typedef struct DotLoops {
  int n;
  DotLoop *at;        // outermost first
} DotLoops;
typedef enum DotIndex { DOT_BATCH, DOT_M, DOT_N, DOT_K } DotIndex;

typedef struct DotProduct {
  HlDtype dtype[3];   // of A, B and C in memory
  DotLoops index[4];  // batch has strides of all three arrays, m of A and C, n of B and C, k of A and B
  // C is what an epilogue makes of its blocks: it stores them itself. `apart`: blocks must not lie where they belong in C.
  bool changed, apart;
  // By A and B: that operand is the same from run to run, until told otherwise: its panels may be held (dot_held_bytes).
  bool fixed[2];
} DotProduct;

// A block of C that is finished but for what the epilogue does: rows x columns of the type that sums are kept in (F32, F64, S32,
// S64; complex as in memory), `row` elements from one to the next, before it is rounded to C's dtype. In C its first element is
// at `place`, and rows and columns are as far apart as DotBlocks says.
typedef struct DotBlock {
  void *at;
  int64_t batch, row0, column0, rows, columns, row;
  int64_t place;
  HlDtype dtype;
} DotBlock;
typedef struct DotEpilogue {
  bool (*run)(void *user, const DotBlock *block, void *scratch);
  void *user;
  size_t scratch;     // bytes that it wants to scribble on
} DotEpilogue;
// What all blocks of a plan are like: how many rows and columns they have at most, of which number the first ones are multiples,
// how far apart these are in the block and in C (0: there is one), and of what type they are.
typedef struct DotBlocks {
  int64_t rows, columns, row;
  int64_t row_unit, column_unit;
  int64_t row_step, column_step;
  HlDtype dtype;
  bool is_in_place;    // a block lies where it belongs in C
} DotBlocks;

typedef struct DotPlan DotPlan;

// The kernel of a dot, or of a fusion that is nothing but one, whose result is to lie as `result` says, not as its own shape does; its
// buffers are those of the instruction. NULL: the kind does not take it.
CpuKernel *dot_kernel(CpuMaker *maker, const HlInst *inst, const HlShape *result);

// The product that a dot is, or a fusion that is nothing but one, and of which of the kernel's buffers. False: it is none, or its
// sizes are not known.
bool dot_describe(CpuMaker *maker, const HlInst *inst, DotProduct *out, int buffer[3]);

// How a dot is made whose results lie so far apart along each of its dimensions, and are of this type. NULL: it cannot be.
const DotPlan *dot_plan_changed(CpuMaker *maker, const HlInst *dot, const int64_t *stride, HlDtype dtype, bool apart);
DotBlocks dot_blocks(const DotPlan *plan);

// Whether a dot is of an algorithm that is computed as if there were none.
bool dot_is_plain(const HlInst *dot);

// How the product is made; in the arena. NULL: not with these types. `constant[DOT_A]` and `constant[DOT_B]` are the elements of an
// operand that is always the same, packed here and now if that is worth its memory, or NULL.
const DotPlan *dot_plan(HlArena *arena, CpuLevel level, const DotProduct *product,
                        const void *const constant[2]);
// `epilogue` may be NULL. `held`: memory of dot_held_bytes, aligned to 64, as CpuKernel.held says; NULL where that is 0. False: no
// memory, stopped, or the epilogue failed.
bool dot_run(const DotPlan *plan, CpuTeam *team, const void *a, const void *b, void *c,
             const DotEpilogue *epilogue, void *held);
int64_t dot_held_bytes(const DotPlan *plan);
double dot_seconds(const DotPlan *plan);  // about, on one thread

// In a chunk of another kernel, on memory of its own: all of the product by the caller alone. `kept`: what dot_keep made of the
// operand of dot_kept_array, where that takes any memory (dot_kept_bytes), else NULL.
size_t dot_alone_bytes(const DotPlan *plan);
bool dot_alone(const DotPlan *plan, const void *a, const void *b, void *c, const void *kept, void *memory);
DotArray dot_kept_array(const DotPlan *plan);
size_t dot_kept_bytes(const DotPlan *plan);
void dot_keep(const DotPlan *plan, const void *operand, void *kept, void *memory);
void dot_print(HlBuf *out, const DotPlan *plan);

#endif
