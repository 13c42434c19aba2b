// opt/ask/block_reductions.h: reductions that a GPU's blocks of threads work on together.
#ifndef HILO_OPT_BLOCK_REDUCTIONS_H
#define HILO_OPT_BLOCK_REDUCTIONS_H

#include "hilo/pass.h"

// The dimension at place k in memory, counted from the most major one.
int64_t dim_in_memory(const HlShape *shape, int k);
// A reduction as one over three dimensions, in the order of memory. Of rows: the first and the last
// are reduced; of columns: the middle one is.
typedef struct FoldedReduction {
  bool is_folded, of_rows;
  int64_t dim[3];
} FoldedReduction;
FoldedReduction fold_reduction(const HlInst *reduce);
// A reduction of dimensions that are neighbours in memory, or keeps such, large enough that a block of threads pays. Of
// targets without such blocks: no reduction.
bool is_block_reduction(const HlTarget *t, const HlInst *inst);

#endif
