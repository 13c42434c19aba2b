// op/walk.c: strided walks over row-major index spaces, for kernels.

#include "base/memory.h"
#include "hilo/op.h"

void hl_strides(int rank, const int64_t *dim, int64_t *stride) {
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; d--) {
    stride[d] = step;
    step *= dim[d];
  }
}

void hl_walk_start(HlWalk *walk, HlArena *arena, int rank, const int64_t *dim, int n_streams,
                   const int64_t *const *stride) {
  *walk = (HlWalk){.rank = rank, .dim = dim, .n_streams = n_streams};
  walk->index = HL_ARRAY(arena, int64_t, rank > 0 ? rank : 1);
  for (int s = 0; s < n_streams; s++)
    walk->stride[s] = stride[s];
  for (int d = 0; d < rank; d++)
    if (dim[d] <= 0)
      walk->done = true;
}

// Steps the fastest dimension; where one is exhausted, rewinds it and carries into the next.
void hl_walk_next(HlWalk *walk) {
  base_look_often(&walk->steps);
  for (int d = walk->rank - 1; d >= 0; d--) {
    if (++walk->index[d] < walk->dim[d]) {
      for (int s = 0; s < walk->n_streams; s++)
        walk->offset[s] += walk->stride[s][d];
      return;
    }
    walk->index[d] = 0;
    for (int s = 0; s < walk->n_streams; s++)
      walk->offset[s] -= walk->stride[s][d] * (walk->dim[d] - 1);
  }
  walk->done = true;
}
