// opt/expand/batched_gather_scatter_normalizer.c: batching dimensions of gathers and scatters become parts
// of the index vectors.
//
// A batching dimension says: row j of the indices looks into row j of the operand. A column that
// counts the rows says the same.
//
//   gather(f32[4,9] x, s32[4,1] i),                 i' = concatenate(iota [4,1] along 0, i)
//     operand_batching_dims={0},                =>  gather(x, s32[4,2] i'),
//     start_indices_batching_dims={0},                collapsed_slice_dims={0,1},
//     start_index_map={1}                             start_index_map={0,1}
#include "opt/ask/gathers.h"

static bool fits(HlDtype dtype, int64_t size) {
  int bits = hl_dtype_info[dtype].bits - hl_is_signed(dtype);
  return bits >= 63 || size <= ((int64_t)1 << bits) - 1;
}

// The smallest change of the index type that can count all rows.
static HlDtype counting_dtype(const HlShape *indices, HlI64s batching) {
  HlDtype dtype = indices->dtype;
  for (int k = 0; k < batching.n; k++) {
    int64_t size = indices->dim[batching.at[k]];
    if (!fits(dtype, size))
      dtype = fits(HL_S32, size) ? HL_S32 : HL_S64;
  }
  return dtype;
}

static HlInst *with_row_numbers(HlPass *p, HlBuild *b, HlInst *indices, HlI64s batching,
                                int64_t index_dim) {
  indices = hl_b_convert(b, indices, counting_dtype(indices->shape, batching));
  if (!indices)
    return NULL;
  if (index_dim == indices->shape->rank)
    indices = dims_with_ones(p, b, indices, (HlI64s){&index_dim, 1});
  int rank = indices->shape->rank;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank);
  for (int d = 0; d < rank; d++)
    sizes[d] = d == index_dim ? 1 : indices->shape->dim[d];
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlShape *shape = hl_shape_array(shapes, indices->shape->dtype, rank, sizes);
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, batching.n + 1);
  for (int k = 0; k < batching.n; k++) {
    HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = batching.at[k]};
    parts[k] = hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &along, 0, NULL);
  }
  parts[batching.n] = indices;
  return hl_b_concatenate(b, batching.n + 1, parts, index_dim);
}

static bool is_sorted(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k] < list.at[k - 1])
      return false;
  return true;
}

// Batching dimensions count as indexed ones and as dimensions that the window lacks.
static void set_dims(HlBuild *b, HlInst *inst, HlAttrKey map_key, HlAttrKey lost_key,
                     HlI64s batching) {
  HlArena *arena = hl_b_module(b)->arena;
  HlI64s map = dims_joined(arena, batching, hl_attr_ints(inst, map_key));
  hl_set_ints(inst, map_key, map);
  hl_set_ints(inst, lost_key,
              dims_sorted(arena, dims_joined(arena, hl_attr_ints(inst, lost_key), batching)));
  if (!is_sorted(map))
    hl_remove_attr(inst, HL_A_INDICES_ARE_SORTED);
}

static HlInst *copy_with_indices(HlPass *p, HlBuild *b, HlInst *inst, int at, HlInst *indices) {
  if (!indices)
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = (int)k == at ? indices : inst->operands[k];
  return hl_inst_copy(b->comp, inst, NULL, (int)inst->n_operands, operands);
}

static HlInst *normalize_gather(HlPass *p, HlBuild *b, HlInst *gather) {
  HlI64s batching = hl_attr_ints(gather, HL_A_OPERAND_BATCHING_DIMS);
  if (batching.n == 0 || !all_static(gather))
    return NULL;
  HlInst *indices = with_row_numbers(p, b, gather->operands[1],
                                     hl_attr_ints(gather, HL_A_START_INDICES_BATCHING_DIMS),
                                     hl_attr_int(gather, HL_A_INDEX_VECTOR_DIM));
  HlInst *out = copy_with_indices(p, b, gather, 1, indices);
  if (!out)
    return NULL;
  set_dims(b, out, HL_A_START_INDEX_MAP, HL_A_COLLAPSED_SLICE_DIMS, batching);
  hl_remove_attr(out, HL_A_OPERAND_BATCHING_DIMS);
  hl_remove_attr(out, HL_A_START_INDICES_BATCHING_DIMS);
  return out;
}

static HlInst *normalize_scatter(HlPass *p, HlBuild *b, HlInst *scatter) {
  HlI64s batching = hl_attr_ints(scatter, HL_A_INPUT_BATCHING_DIMS);
  if (batching.n == 0 || !all_static(scatter))
    return NULL;
  HlInst *indices = with_row_numbers(p, b, scatter_indices(scatter),
                                     hl_attr_ints(scatter, HL_A_SCATTER_INDICES_BATCHING_DIMS),
                                     hl_attr_int(scatter, HL_A_INDEX_VECTOR_DIM));
  HlInst *out = copy_with_indices(p, b, scatter, scatter_n(scatter), indices);
  if (!out)
    return NULL;
  set_dims(b, out, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, HL_A_INSERTED_WINDOW_DIMS, batching);
  hl_remove_attr(out, HL_A_INPUT_BATCHING_DIMS);
  hl_remove_attr(out, HL_A_SCATTER_INDICES_BATCHING_DIMS);
  return out;
}

const HlRule batched_gather_scatter_normalizer_rules[] = {
    {HL_OP_GATHER, normalize_gather, "batched_gather_scatter_normalizer",
     "gather(x, i) by batching dimensions => gather(x, concatenate(iota, i))", ""},
    {HL_OP_SCATTER, normalize_scatter, "batched_gather_scatter_normalizer",
     "scatter(x, i, u) by batching dimensions => scatter(x, concatenate(iota, i), u)", ""},
    {0},
};
