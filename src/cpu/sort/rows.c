// cpu/sort/rows.c: rows along a dimension, as they lie in several buffers.

#include "cpu/sort/rows.h"

#include "cpu/kernel/kernel.h"

// The dimensions that count rows, from the smallest stride in the first array to the largest; how many.
static int order_dims(SortRows *rows, HlArena *arena, const HlShape *shape, int64_t dimension,
                      int64_t *of) {
  const int64_t *lies = cpu_strides(arena, shape);
  int64_t *dim = HL_ARRAY(arena, int64_t, shape->rank);
  int n = 0;
  rows->n = 1;
  for (int d = 0; d < shape->rank; d++) {
    if (d == dimension || shape->dim[d] == 1)
      continue;
    int to = n++;
    for (; to > 0 && lies[of[to - 1]] > lies[d]; to--)
      of[to] = of[to - 1];
    of[to] = d;
    rows->n *= shape->dim[d];
  }
  for (int k = 0; k < n; k++)
    dim[k] = shape->dim[of[k]];
  rows->dim = dim;
  return n;
}

void sort_rows_make(SortRows *rows, HlArena *arena, int n_buffers, const HlShape *const *shape,
                    int64_t dimension) {
  int64_t *of = HL_ARRAY(arena, int64_t, shape[0]->rank);
  const int n = order_dims(rows, arena, shape[0], dimension, of);
  int64_t *stride = HL_ARRAY(arena, int64_t, n_buffers);
  int64_t *step = HL_ARRAY(arena, int64_t, n_buffers * n + 1);
  int *bytes = HL_ARRAY(arena, int, n_buffers);
  for (int b = 0; b < n_buffers; b++) {
    const int64_t *strides = cpu_strides(arena, shape[b]);
    bytes[b] = hl_dtype_bytes(shape[b]->dtype);
    stride[b] = strides[dimension];
    for (int k = 0; k < n; k++)
      step[b * n + k] = strides[of[k]];
  }
  rows->n_buffers = n_buffers;
  rows->n_dims = n;
  rows->stride = stride;
  rows->step = step;
  rows->bytes = bytes;
}

void sort_rows_at(const SortRows *rows, void *const *buffer, int64_t row, char **base) {
  const int n = rows->n_dims;
  for (int b = 0; b < rows->n_buffers; b++) {
    const int64_t *step = rows->step + b * n;
    int64_t offset = 0, left = row;
    for (int d = 0; d < n - 1; left /= rows->dim[d], d++)
      offset += left % rows->dim[d] * step[d];
    offset += n ? left * step[n - 1] : 0;
    base[b] = (char *)buffer[b] + offset * rows->bytes[b];
  }
}
