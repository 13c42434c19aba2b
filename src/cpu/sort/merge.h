// cpu/sort/merge.h: sorting by a comparator that is no chain of keys.
//
// The merges are those of the interpreter (op/sort.c), run for run: a comparator that is no order, as a < b of floats is not where
// there are NaNs, gives what it gives there.
#ifndef HILO_CPU_SORT_MERGE_H
#define HILO_CPU_SORT_MERGE_H

#include "op/machine.h"

typedef struct SortMerge {
  Machine *machine;  // nobody else's
  int n_operands;
  const HlDtype *dtype;
  char *const *base;      // of each operand the row's first element ...
  const int64_t *stride;  // ... and how many elements on the next one lies
  int64_t n;
} SortMerge;

// Sorts the numbers of elements first .. end - 1: a stretch as long as a power of two, and a multiple of it from the start, or the
// last one, which is shorter. The result is in `order`.
void sort_by_merging(const SortMerge *m, int64_t first, int64_t end, uint32_t *order,
                     uint32_t *spare);
// Merges the sorted run of `width` numbers from `first` on with the one after it.
void sort_merge_runs(const SortMerge *m, int64_t first, int64_t width, const uint32_t *from,
                     uint32_t *to);

#endif
