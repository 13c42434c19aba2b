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
#include "spmd/tiles.h"

extern const HlRule spmd_prepare_rules[];

// Which dimension of the operand goes along with which of the indices: by dimension of the operand,
// -1 where none does.
typedef struct Parallel {
  int *indices_dim;
  bool any;
} Parallel;

static int find(HlI64s list, int64_t value) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] == value)
      return k;
  return -1;
}

// The dimension along which the values count up, from whatever start; -1: none.
static int counted_dim(const HlInst *inst) {
  enum { MOST = 8 };
  const HlInst *way[MOST];
  int n = 0;
  while (n < MOST && (inst->op == HL_OP_COPY || inst->op == HL_OP_CONVERT ||
                      inst->op == HL_OP_BROADCAST || inst->op == HL_OP_TRANSPOSE)) {
    way[n++] = inst;
    inst = inst->operands[0];
  }
  if (inst->op != HL_OP_IOTA)
    return -1;
  int dim = (int)hl_attr_int(inst, HL_A_IOTA_DIMENSION);
  while (n-- > 0) {
    if (way[n]->op == HL_OP_BROADCAST)
      dim = (int)hl_dims(way[n]).at[dim];
    else if (way[n]->op == HL_OP_TRANSPOSE)
      dim = find(hl_dims(way[n]), dim);
  }
  return dim;
}

// An update has one element along this dimension of the operand.
static bool is_single(const HlInst *scatter, int64_t dim) {
  const HlI64s inserted = hl_attr_ints(scatter, HL_A_INSERTED_WINDOW_DIMS);
  if (find(inserted, dim) >= 0)
    return true;
  int window = 0;
  for (int64_t k = 0; k < dim; k++)
    window += find(inserted, k) < 0;
  const HlI64s dims = hl_attr_ints(scatter, HL_A_UPDATE_WINDOW_DIMS);
  return window < dims.n && scatter->operands[2]->shape->dim[dims.at[window]] == 1;
}

static Parallel find_parallel(HlPass *p, const HlInst *scatter, const HlInst *indices) {
  const HlI64s to_operand = hl_attr_ints(scatter, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS);
  const int64_t vector_dim = hl_attr_int(scatter, HL_A_INDEX_VECTOR_DIM);
  const int rank = scatter->shape->rank;
  Parallel parallel = {.indices_dim = HL_ARRAY(p->arena, int, rank + 1)};
  for (int k = 0; k < rank; k++)
    parallel.indices_dim[k] = -1;
  const bool joined = indices->op == HL_OP_CONCATENATE && hl_dim(indices) == vector_dim;
  const int n = joined ? (int)indices->n_operands : 1;
  int64_t at = 0;
  for (int k = 0; k < n; k++) {
    const HlInst *part = joined ? indices->operands[k] : indices;
    const int dim = counted_dim(part);
    const int64_t size = vector_dim < part->shape->rank ? part->shape->dim[vector_dim] : 1;
    for (int64_t end = at + size; at < end; at++) {
      if (dim < 0 || dim == vector_dim || at >= to_operand.n ||
          !is_single(scatter, to_operand.at[at]))
        continue;
      parallel.indices_dim[to_operand.at[at]] = dim;
      parallel.any = true;
    }
  }
  return parallel;
}

// Both are cut along a pair of dimensions that go together.
static bool is_cut(HlPass *p, const Parallel *parallel, const HlInst *operand,
                   const HlInst *indices) {
  const int64_t n = p->m->num_partitions;
  const HlTiles *of = hl_tiles_of(p->arena, hl_sharding(operand), operand->shape->rank, n);
  const HlTiles *by = hl_tiles_of(p->arena, hl_sharding(indices), indices->shape->rank, n);
  for (int k = 0; of && by && k < operand->shape->rank; k++)
    if (parallel->indices_dim[k] >= 0 && of->kind == HL_TILES_TILED && hl_tiles_cuts(of, k) &&
        hl_tiles_cuts(by, parallel->indices_dim[k]))
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
  if (dim == vector_dim || find(window, into) >= 0)
    return false;
  int64_t before = 0;
  for (int64_t k = 0; k < into; k++)
    before += find(window, k) < 0;
  return before == dim - (vector_dim < dim) &&
         indices->operands[0]->shape->dim[dim] == updates->operands[0]->shape->dim[into];
}

static bool is_worth_it(HlPass *p, const HlInst *scatter) {
  const HlInst *sum = scatter->operands[0], *indices = scatter->operands[1];
  const HlInst *i = indices->operands[0], *j = indices->operands[1];
  if (!hl_sharding(sum->operands[0]) || !hl_sharding(sum->operands[1]) || !hl_sharding(i) ||
      !hl_sharding(j) || find_parallel(p, scatter, indices).any)
    return false;
  const Parallel left = find_parallel(p, scatter, i), right = find_parallel(p, scatter, j);
  for (int k = 0; k < scatter->shape->rank; k++)
    if (left.indices_dim[k] != right.indices_dim[k])
      return false;
  return left.any && is_cut(p, &left, sum->operands[0], i);
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
