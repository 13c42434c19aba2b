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

const HlTiles *part_loop_with(PartComp *c, const HlTiles *t, const HlTiles *more) {
  for (int k = 0; k < t->rank && t != more; k++)
    if (more->parts[k] > 1 && (t->parts[k] == 1 || t->parts[k] == more->parts[k]))
      t = part_merged_or(c->pt, t, hl_tiles_only(c->pt->arena, more, k), t);
  return t;
}

// --- Costs ----------------------------------------------------------------------------------------

// Of the operands, of the sum of the devices' results, and of the result in the sharding it is to have.
static PartCost cost_of(PartComp *c, const HlInst *inst, const PartLoop *loop, const HlTiles *t,
                        const HlTiles *own) {
  PartCost cost = {0};
  const HlShape *result = loop->shape[loop->result];
  const HlTiles *out = part_loop_array(c->pt, loop, loop->result, t);
  const HlShape *tile = hl_tiles_shape(c->pt->m, out, result);
  const double bytes = (double)hl_dtype_bytes(tile->dtype) * (double)hl_shape_elements(tile);
  for (int k = 0; k < loop->result; k++)
    part_operand_cost(c, inst, k, part_loop_array(c->pt, loop, k, t), &cost);
  for (int k = 0; k < loop->rank; k++)
    if (part_loop_sums(loop, k) && t->parts[k] > 1)
      part_add_cost(&cost, part_all_reduce_bytes(bytes, t->parts[k]));
  part_reshard_cost(c, result, out, own, &cost);
  return cost;
}

// Exchanges more often only for much less.
static bool is_cheaper(PartCost a, PartCost b) {
  return a.n <= b.n ? a.bytes < b.bytes : 2 * a.bytes <= b.bytes;
}

static bool is_among(const HlTiles *const *tiles, int n, const HlTiles *t) {
  for (int k = 0; k < n; k++)
    if (hl_tiles_equal(tiles[k], t))
      return true;
  return false;
}

const HlTiles *part_cheaper_loop(PartComp *c, const HlInst *inst, const PartLoop *loop,
                                 const HlTiles *t, const HlTiles *own) {
  enum { WANTED, SUMMED_BY_A, SUMMED_BY_B, BY_A, BY_B, N_VIEWS };
  const HlTiles *a = part_tiles_now(c, hl_operand(inst, 0)),
                *b = part_tiles_now(c, hl_operand(inst, 1));
  const HlTiles *view[] = {part_loop_tiles(c->pt, loop, loop->result, own, PART_ALL_DIMS),
                           part_loop_tiles(c->pt, loop, 0, a, PART_SUMMED),
                           part_loop_tiles(c->pt, loop, 1, b, PART_SUMMED),
                           part_loop_tiles(c->pt, loop, 0, a, PART_ALL_DIMS),
                           part_loop_tiles(c->pt, loop, 1, b, PART_ALL_DIMS)};
  const int64_t n_tiles = hl_tiles_n_tiles(t);
  const HlTiles *seen[N_VIEWS * N_VIEWS + 1] = {t};
  int n_seen = 1;
  PartCost least = cost_of(c, inst, loop, t, own);
  for (int first = 0; first < N_VIEWS && least.n > 0; first++) {
    if (is_among(view, first, view[first]))
      continue;
    for (int then = 0; then < N_VIEWS; then++) {
      if (is_among(view, then, view[then]))
        continue;
      const HlTiles *other = part_loop_with(c, view[first], view[then]);
      other = part_loop_with(c, part_loop_with(c, other, view[WANTED]), view[BY_A]);
      other = part_loop_with(c, other, view[BY_B]);
      if (hl_tiles_n_tiles(other) < n_tiles || is_among(seen, n_seen, other))
        continue;
      seen[n_seen++] = other;
      const PartCost cost = cost_of(c, inst, loop, other, own);
      if (is_cheaper(cost, least)) {
        least = cost;
        t = other;
      }
    }
  }
  return t;
}

// --- Groups ---------------------------------------------------------------------------------------

const HlGroups *part_loop_groups(PartComp *c, const PartLoop *loop, int array, const HlTiles *tiles,
                                 int k) {
  if (hl_tiles_n_tiles(tiles) == tiles->parts[k] && tiles->manual == 1)
    return part_groups_of_dim(c, part_loop_array(c->pt, loop, array, tiles), loop->dim[array][k]);
  bool *along = HL_ARRAY(c->pt->arena, bool, tiles->rank + 3);
  along[k] = true;
  return part_groups_along(c, tiles, along);
}
