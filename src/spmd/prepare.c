// spmd/prepare.c: spmd-prepare: takes apart a scatter that adds two lots of updates, where each lot by
// itself can stay on the devices that hold its part.
//
//   scatter(add(a, b), concatenate(i, j), concatenate(u, v))
//     =>  add(scatter(a, i, u), scatter(b, j, v))
//
// If a part of the index vectors counts along a dimension of the indices, update k goes to place k of
// the operand: where operand and indices are cut alike along it, no update leaves its device. In what
// is joined of two such indices nothing counts any more.

#include "hilo/pass.h"
#include "spmd/parallel.h"
#include "spmd/tiles.h"

extern const HlRule spmd_prepare_rules[];

static bool has_parallel(HlPass *p, const HlInst *scatter, const HlInst *indices) {
  const int *dims = sp_parallel_dims(p->arena, scatter, indices);
  for (int k = 0; k < scatter->shape->rank; k++)
    if (dims[k] >= 0)
      return true;
  return false;
}

// Both are cut along a pair of dimensions that go together.
static bool is_cut(HlPass *p, const int *parallel, const HlInst *operand, const HlInst *indices) {
  const int64_t n = p->m->num_partitions;
  const HlTiles *of = hl_tiles_of(p->arena, hl_sharding(operand), operand->shape->rank, n);
  const HlTiles *by = hl_tiles_of(p->arena, hl_sharding(indices), indices->shape->rank, n);
  for (int k = 0; of && by && k < operand->shape->rank; k++)
    if (parallel[k] >= 0 && of->kind == HL_TILES_TILED && hl_tiles_cuts(of, k) &&
        hl_tiles_cuts(by, parallel[k]))
      return true;
  return false;
}

// Indices and updates are joined at the same place.
static bool joined_alike(const HlInst *scatter) {
  const HlInst *indices = scatter->operands[1], *updates = scatter->operands[2];
  if (indices->op != HL_OP_CONCATENATE || indices->n_operands != 2 ||
      updates->op != HL_OP_CONCATENATE || updates->n_operands != 2)
    return false;
  const int64_t vector_dim = hl_attr_int(scatter, HL_A_INDEX_VECTOR_DIM);
  const int64_t dim = hl_dim(indices), into = hl_dim(updates);
  const HlI64s window = hl_attr_ints(scatter, HL_A_UPDATE_WINDOW_DIMS);
  if (dim == vector_dim || hl_i64s_find(window, into) >= 0)
    return false;
  int64_t before = 0;
  for (int64_t k = 0; k < into; k++)
    before += hl_i64s_find(window, k) < 0;
  return before == dim - (vector_dim < dim) &&
         indices->operands[0]->shape->dim[dim] == updates->operands[0]->shape->dim[into];
}

static bool is_worth_it(HlPass *p, const HlInst *scatter) {
  const HlInst *sum = scatter->operands[0], *indices = scatter->operands[1];
  const HlInst *i = indices->operands[0], *j = indices->operands[1];
  if (!hl_sharding(sum->operands[0]) || !hl_sharding(sum->operands[1]) || !hl_sharding(i) ||
      !hl_sharding(j) || has_parallel(p, scatter, indices))
    return false;
  const int *left = sp_parallel_dims(p->arena, scatter, i),
            *right = sp_parallel_dims(p->arena, scatter, j);
  for (int k = 0; k < scatter->shape->rank; k++)
    if (left[k] != right[k])
      return false;
  return is_cut(p, left, sum->operands[0], i);
}

static HlInst *take_apart(HlPass *p, HlBuild *b, HlInst *scatter) {
  if (scatter->n_operands != 3 || !hl_sharding(scatter) || hl_shape_is_dynamic(scatter->shape) ||
      hl_attr_ints(scatter, HL_A_INPUT_BATCHING_DIMS).n > 0 ||
      scatter->operands[0]->op != HL_OP_ADD || hl_reducer(hl_to_apply(scatter)) != HL_OP_ADD ||
      !joined_alike(scatter) || !is_worth_it(p, scatter))
    return NULL;
  HlInst *half[2];
  for (int k = 0; k < 2; k++) {
    HlInst *operands[3];
    for (int j = 0; j < 3; j++)
      operands[j] = scatter->operands[j]->operands[k];
    half[k] = hl_inst_copy(b->comp, scatter, NULL, 3, operands);
    hl_remove_attr(half[k], HL_A_ORIGIN);
    hl_remove_attr(half[k], HL_A_INDICES_ARE_SORTED);
    hl_remove_attr(half[k], HL_A_UNIQUE_INDICES);
  }
  return hl_b_binary(b, HL_OP_ADD, half[0], half[1]);
}

const HlRule spmd_prepare_rules[] = {{HL_OP_SCATTER, take_apart, "spmd-prepare",
                                      "scatter(add(a, b), concatenate(i, j), concatenate(u, v)) => "
                                      "add(scatter(a, i, u), scatter(b, j, v))",
                                      "adds; indices count along a dimension that is cut"},
                                     {0}};
