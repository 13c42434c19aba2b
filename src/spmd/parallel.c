// spmd/parallel.c: finds out along which dimensions indices count.

#include "spmd/parallel.h"

// Numbers of this type count n elements without beginning anew.
static bool can_count(HlDtype dtype, int64_t n) {
  const int bits = hl_dtype_info[dtype].bits - (hl_is_signed(dtype) ? 1 : 0);
  return hl_is_integral(dtype) && (bits >= 63 || n <= (int64_t)1 << bits);
}

// The dimension along which the values are 0, 1, 2, ...; -1: none.
static int counted_dim(const HlInst *inst) {
  enum { MOST = 8 };
  const HlInst *way[MOST];
  int n = 0;
  while (n < MOST && (inst->op == HL_OP_COPY || inst->op == HL_OP_CONVERT ||
                      inst->op == HL_OP_BROADCAST || inst->op == HL_OP_TRANSPOSE)) {
    way[n++] = inst;
    inst = hl_operand(inst, 0);
  }
  if (inst->op != HL_OP_IOTA)
    return -1;
  int dim = (int)hl_attr_int(inst, HL_A_IOTA_DIMENSION);
  const int64_t size = inst->shape->dim[dim];
  bool counts = can_count(inst->shape->dtype, size);
  while (n-- > 0) {
    counts = counts && can_count(way[n]->shape->dtype, size);
    if (way[n]->op == HL_OP_BROADCAST)
      dim = (int)hl_dims(way[n]).at[dim];
    else if (way[n]->op == HL_OP_TRANSPOSE)
      dim = hl_i64s_find(hl_dims(way[n]), dim);
  }
  return counts ? dim : -1;
}

// A slice has one element along this dimension of the operand.
static bool is_single(const HlInst *inst, int64_t dim) {
  if (inst->op == HL_OP_GATHER)
    return hl_attr_ints(inst, HL_A_SLICE_SIZES).at[dim] == 1;
  const HlI64s inserted = hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS),
               batch = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS),
               dims = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS);
  if (hl_i64s_find(inserted, dim) >= 0)
    return true;
  int window = 0;
  for (int64_t k = 0; k < dim; k++)
    window += hl_i64s_find(inserted, k) < 0 && hl_i64s_find(batch, k) < 0;
  const HlShape *updates = hl_operand(inst, (int)inst->n_operands - 1)->shape;
  return window < dims.n && updates->dim[dims.at[window]] == 1;
}

int *sp_parallel_dims(HlArena *arena, const HlInst *inst, const HlInst *indices) {
  const HlI64s map = hl_attr_ints(
      inst, inst->op == HL_OP_GATHER ? HL_A_START_INDEX_MAP : HL_A_SCATTER_DIMS_TO_OPERAND_DIMS);
  const int64_t vector_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  const int rank = hl_operand(inst, 0)->shape->rank;
  int *dims = HL_ARRAY(arena, int, rank + 1);
  for (int k = 0; k < rank; k++)
    dims[k] = -1;
  const bool joined = indices->op == HL_OP_CONCATENATE && hl_dim(indices) == vector_dim;
  const int n = joined ? (int)indices->n_operands : 1;
  int64_t at = 0;
  for (int k = 0; k < n; k++) {
    const HlInst *part = joined ? hl_operand(indices, k) : indices;
    const int dim = counted_dim(part);
    const int64_t size = vector_dim < part->shape->rank ? part->shape->dim[vector_dim] : 1;
    for (int64_t end = at + size; at < end; at++)
      if (dim >= 0 && dim != vector_dim && at < map.n && is_single(inst, map.at[at]))
        dims[map.at[at]] = dim;
  }
  return dims;
}
