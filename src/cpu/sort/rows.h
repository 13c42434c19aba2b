// cpu/sort/rows.h: rows along a dimension, as they lie in several buffers.
#ifndef HILO_CPU_SORT_ROWS_H
#define HILO_CPU_SORT_ROWS_H

#include "hilo/ir.h"

typedef struct SortRows {
  int64_t n;
  int n_buffers, n_dims;
  const int64_t *dim;     // of what rows are counted by, the fastest first
  const int64_t *stride;  // by buffer: how many elements apart a row's lie
  const int64_t *step;    // by buffer and dimension: the same of rows
  const int *bytes;       // by buffer: of an element
} SortRows;

// Of arrays whose sizes differ along the dimension at most; those that lie closest in the first one follow each other.
void sort_rows_make(SortRows *rows, HlArena *arena, int n_buffers, const HlShape *const *shape,
                    int64_t dimension);
// Where a row begins, by buffer.
void sort_rows_at(const SortRows *rows, void *const *buffer, int64_t row, char **base);

#endif
