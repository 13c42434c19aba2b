// spmd/partition_reduce.c: sums and other folds of dimensions.
//
// Each device folds the tile it has. Where a folded dimension is cut, the devices along it then
// fold what they got: an all-reduce, or, of several arrays at once (argmax), an all-gather of the
// candidates and a last fold.

#include "hilo/eval.h"
#include "spmd/partition.h"

// Folding the initial values into a result once more, as every device does, changes nothing.
static bool may_fold_init_again(PartComp *c, const HlInst *inst) {
  const int half = (int)inst->n_operands / 2;
  const HlLiteral **arg = HL_ARRAY(c->pt->arena, const HlLiteral *, inst->n_operands + 1);
  for (int k = 0; k < half; k++) {
    arg[k] = arg[half + k] = hl_splat(hl_operand(inst, half + k));
    if (!arg[k] || arg[k]->shape->rank > 0 || !hl_is_pure(inst))
      return false;
  }
  HlLiteral *out = hl_eval_comp(c->b.cx, hl_to_apply(inst), arg, 2 * half);
  bool same = out != NULL;
  for (int k = 0; same && k < half; k++)
    same = hl_literal_equal(hl_shape_is_tuple(inst->shape) ? out->element[k] : out, arg[k]);
  hl_literal_unref(out);
  return same;
}

// One all-reduce for each cut dimension, the last one first.
static HlInst *all_reduce(PartComp *c, HlInst *inst, HlInst *x, const HlTiles *t, HlI64s dims) {
  for (int k = t->rank - 1; x && k >= 0; k--) {
    if (t->parts[k] == 1 || hl_i64s_find(dims, k) < 0)
      continue;
    x = part_all_reduce(c, x, hl_to_apply(inst), part_groups_of_dim(c, t, k));
  }
  return x;
}

// All devices' results in a row, and the fold of these.
static HlInst *fold_candidates(PartComp *c, HlInst *inst, HlInst *x, const HlTiles *t, HlI64s dims,
                               HlInst *const *init) {
  Part *pt = c->pt;
  const int half = (int)inst->n_operands / 2;
  bool *along = HL_ARRAY(pt->arena, bool, t->rank + 3);
  for (int k = 0; k < t->rank; k++)
    along[k] = t->parts[k] > 1 && hl_i64s_find(dims, k) >= 0;
  const HlGroups *groups = part_groups_along(c, t, along);
  int64_t n_devices = 1;
  for (int k = 0; k < t->rank; k++)
    n_devices *= along[k] ? t->parts[k] : 1;
  HlInst **operand = HL_ARRAY(pt->arena, HlInst *, 2 * half + 1);
  for (int k = 0; k < half; k++) {
    HlInst *one = hl_b_element(&c->b, x, k);
    if (!one)
      return NULL;
    const int rank = one->shape->rank;
    int64_t *size = HL_ARRAY(pt->arena, int64_t, rank + 1);
    size[0] = 1;
    for (int d = 0; d < rank; d++)
      size[d + 1] = one->shape->dim[d];
    operand[k] = part_all_gather(c, hl_b_reshape(&c->b, one, rank + 1, size), 0, groups, n_devices);
    operand[half + k] = init[k];
  }
  HlInst *copy = part_copy(c, inst, x->shape, 2 * half, operand);
  const int64_t first = 0;
  if (copy)
    hl_set_ints(copy, HL_A_DIMENSIONS, (HlI64s){&first, 1});
  return copy;
}

bool part_reduce(PartComp *c, HlInst *inst) {
  Part *pt = c->pt;
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || own[0]->unreduced > 1 || hl_shape_is_dynamic(hl_operand(inst, 0)->shape))
    return own && part_default(c, inst);
  const int n = (int)inst->n_operands, half = n / 2;
  const HlShape *from = hl_operand(inst, 0)->shape;
  const HlI64s dims = hl_dims(inst);
  const HlTiles *t = part_tiles_now(c, hl_operand(inst, 0));
  for (int k = 1; k < half && !hl_tiles_is_cut(t); k++)
    t = part_tiles_now(c, hl_operand(inst, k));
  if (t->manual != own[0]->manual || t->unreduced > 1)
    t = part_uncut(pt, own[0], from->rank);
  bool *folded = HL_ARRAY(pt->arena, bool, from->rank + 1), crosses = false;
  for (int k = 0; k < dims.n; k++) {
    folded[dims.at[k]] = true;
    crosses = crosses || t->parts[dims.at[k]] > 1;
  }
  if (crosses && !may_fold_init_again(c, inst)) {
    t = part_without(c, t, folded);
    crosses = false;
  }
  HlInst **operand = HL_ARRAY(pt->arena, HlInst *, n + 1);
  for (int k = 0; k < half; k++) {
    operand[half + k] = part_operand(c, inst, half + k, part_uncut(pt, t, 0));
    operand[k] = part_mask(c, part_operand(c, inst, k, t), from, t, folded, operand[half + k]);
  }
  int *kept = HL_ARRAY(pt->arena, int, from->rank + 1), n_kept = 0;
  for (int k = 0; k < from->rank; k++)
    if (!folded[k])
      kept[n_kept++] = k;
  const HlTiles **tiles = HL_ARRAY(pt->arena, const HlTiles *, half + 1);
  for (int k = 0; k < half; k++)
    tiles[k] = hl_tiles_map(pt->arena, t, n_kept, kept);
  const HlShape *shape = part_local_shape(pt, inst->shape, tiles);
  const bool is_tuple = hl_shape_is_tuple(inst->shape);
  HlInst *x =
      is_tuple ? part_copy(c, inst, shape, n, operand) : part_copy_anew(c, inst, shape, n, operand);
  if (x && crosses)
    x = is_tuple ? fold_candidates(c, inst, x, t, dims, operand + half)
                 : all_reduce(c, inst, x, t, dims);
  return part_set_leaves(c, inst, x, tiles);
}
