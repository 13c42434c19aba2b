// cpu/chain/plan.h: how a chain is computed: what make.c decides and run.c does.
#ifndef HILO_CPU_CHAIN_PLAN_H
#define HILO_CPU_CHAIN_PLAN_H

#include "cpu/chain/chain.h"
#include "cpu/dot/dot.h"

enum { CHAIN_MAX_RANK = 16, CHAIN_MAX_SOURCES = 120 };

// Where an operand begins for a box: bytes that its number adds.
typedef struct ChainPlace {
  int buffer;                // of the kernel
  int64_t c;
  const int64_t *k;          // by dimension of the boxes
} ChainPlace;

// Boxes of one size.
typedef struct ChainPart {
  const DotPlan *dot[2];
  const TileBox *between;
  const int *source;         // of `between`: buffers of the kernel
  ChainPlace a[2], b[2];     // of each dot: what has the rows (of the second one where its result goes), and what all boxes share
} ChainPart;

typedef struct ChainKernel {
  CpuKernel kernel;
  int n_sources;
  const int64_t *bytes;      // of buffers
  int rank, row;             // of boxes; the dimension that is cut into many
  const int64_t *count;      // by dimension; of the row those of part 0, behind which part 1 is one more, if it is
  bool has_rest;
  ChainPart part[2];
  size_t scores, between;    // bytes of a box: of the first dot, of what the second one reads
  int64_t outer, together;   // turns of all other dimensions, and how many of them are a chunk, ...
  int64_t rows, rows_together;  // ... each with so many of these boxes
  double seconds;
} ChainKernel;

bool chain_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why);
extern const CpuKernelKind cpu_kind_chain, cpu_kind_epilogue;
// A dot and what follows element by element (epilogue.c).
bool epilogue_find(CpuMaker *maker, const HlInst *last, Chain *out);

#endif
