// spmd/partition_loop.c: one sharding for the dimensions that three arrays share.

#include "spmd/partition.h"

PartLoop part_loop(Part *pt, int result, const HlShape *a, const HlShape *b, const HlShape *c) {
  PartLoop loop = {.result = result, .shape = {a, b, c}};
  const int most = a->rank + b->rank + c->rank + 1;
  for (int k = 0; k < PART_LOOP_ARRAYS; k++)
    loop.dim[k] = HL_ARRAY(pt->arena, int, most);
  return loop;
}

void part_loop_add(PartLoop *loop, int64_t a, int64_t b, int64_t c) {
  loop->dim[0][loop->rank] = (int)a;
  loop->dim[1][loop->rank] = (int)b;
  loop->dim[2][loop->rank++] = (int)c;
}

const HlTiles *part_loop_tiles(Part *pt, const PartLoop *loop, int array, const HlTiles *tiles,
                               int which) {
  int *from = HL_ARRAY(pt->arena, int, loop->rank + 1);
  for (int k = 0; k < loop->rank; k++) {
    const bool taken = which == PART_ALL_DIMS || (which == PART_SUMMED) == part_loop_sums(loop, k);
    from[k] = taken ? loop->dim[array][k] : -1;
  }
  return hl_tiles_map(pt->arena, tiles, loop->rank, from);
}

const HlTiles *part_loop_array(Part *pt, const PartLoop *loop, int array, const HlTiles *tiles) {
  const int rank = loop->shape[array]->rank;
  int *from = HL_ARRAY(pt->arena, int, rank + 1);
  for (int k = 0; k < rank; k++)
    from[k] = -1;
  for (int k = 0; k < loop->rank; k++)
    if (loop->dim[array][k] >= 0)
      from[loop->dim[array][k]] = k;
  return hl_tiles_map(pt->arena, tiles, rank, from);
}

const HlTiles *part_merged_or(Part *pt, const HlTiles *a, const HlTiles *b, const HlTiles *other) {
  const HlTiles *both = hl_tiles_merge(pt->arena, a, b);
  return both ? both : other;
}

const HlGroups *part_loop_groups(PartComp *c, const PartLoop *loop, int array, const HlTiles *tiles,
                                 int k) {
  if (hl_tiles_n_tiles(tiles) == tiles->parts[k] && tiles->manual == 1)
    return part_groups_of_dim(c, part_loop_array(c->pt, loop, array, tiles), loop->dim[array][k]);
  bool *along = HL_ARRAY(c->pt->arena, bool, tiles->rank + 3);
  along[k] = true;
  return part_groups_along(c, tiles, along);
}
