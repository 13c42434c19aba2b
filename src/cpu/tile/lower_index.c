// cpu/tile/lower_index.c: ops whose indices are computed: dynamic-slice, dynamic-update-slice, gather.
//
// An index that is computed is brought inside as HLO says, and from then on counts as a loop: a variable of a known extent.

#include "cpu/tile/build.h"

// As s64: a number too large for that is far outside all the same.
int tile_wide_index(Lower *l, int index, HlDtype dtype, int scope) {
  if (dtype == HL_U64)
    index = tile_vec_plain(l, VEC_MINIMUM, HL_U64, HL_U64, scope, index,
                           tile_const_i64(l, HL_U64, INT64_MAX), -1);
  return tile_convert_node(l, dtype, HL_S64, scope, index);
}

static int64_t number_of(const Node *node, HlDtype dtype) {
  const int bits = 8 * hl_dtype_bytes(dtype);
  if (!hl_is_signed(dtype))
    return node->bits > INT64_MAX ? INT64_MAX : (int64_t)node->bits;
  return (int64_t)(node->bits << (64 - bits)) >> (64 - bits);
}

bool tile_start(Lower *l, Val index, HlDtype dtype, int64_t last, int scope, Affine *out) {
  *out = affine_const(0);
  if (l->why || index.re < 0)
    return false;
  if (last <= 0)
    return true;
  const Node *node = &l->node.at[index.re];
  if (node->kind == NODE_CONST) {
    const int64_t at = number_of(node, dtype);
    *out = affine_const(at < 0 ? 0 : at > last ? last : at);
    return true;
  }
  const int at =
      tile_vec_plain(l, VEC_CLAMP, HL_S64, HL_S64, scope, tile_const_i64(l, HL_S64, 0),
                     tile_wide_index(l, index.re, dtype, scope), tile_const_i64(l, HL_S64, last));
  const int v = at < 0 ? -1 : tile_index_var(l, at, last + 1);
  if (v >= 0)
    *out = affine_var(v);
  return v >= 0;
}

// Start indices are operands from `first` on, a scalar each, or one vector of them.
static bool starts(Lower *l, const Ask *ask, int first, const HlShape *whole, const HlShape *box,
                   Affine *out) {
  const HlInst *inst = ask->inst;
  if (whole->rank == 0)
    return true;
  const HlShape *index = inst->operands[first]->shape;
  const bool vector = (int)inst->n_operands == first + 1 && index->rank == 1;
  for (int d = 0; d < whole->rank; d++) {
    const Affine at = affine_const(d);
    const int64_t last = whole->dim[d] - box->dim[d];
    out[d] = affine_const(0);
    if (last > 0 &&
        !tile_start(l, tile_operand(l, ask, vector ? first : first + d, &at, ask->scope, false),
                    index->dtype, last, ask->scope, &out[d]))
      return false;
  }
  return true;
}

Val tile_dynamic_slice(Lower *l, const Ask *ask) {
  const HlShape *from = ask->inst->operands[0]->shape;
  Affine *map = HL_ARRAY(l->arena, Affine, from->rank + 1);
  if (!starts(l, ask, 1, from, ask->inst->shape, map))
    return NO_VAL;
  for (int d = 0; d < from->rank; d++)
    map[d] = affine_add(&map[d], &ask->map[d]);
  return tile_operand(l, ask, 0, map, ask->scope, ask->raw);
}

bool tile_update_start(Lower *l, const Ask *ask, Affine *out) {
  return starts(l, ask, 2, ask->inst->operands[0]->shape, ask->inst->operands[1]->shape, out);
}

Val tile_dynamic_update_slice(Lower *l, const Ask *ask) {
  const HlShape *box = ask->inst->operands[1]->shape;
  Affine *map = HL_ARRAY(l->arena, Affine, box->rank + 1);
  if (!tile_update_start(l, ask, map))
    return NO_VAL;
  int scope = ask->scope;
  for (int d = 0; d < box->rank && scope >= 0; d++) {
    const Affine back = affine_times(&map[d], -1);
    map[d] = affine_add(&ask->map[d], &back);
    scope = tile_scope(l, scope, &map[d], box->dim[d]);
  }
  if (scope == ask->scope)
    return tile_operand(l, ask, 1, map, scope, ask->raw);
  const Val outer = tile_operand(l, ask, 0, ask->map, ask->scope, ask->raw);
  if (scope < 0)
    return outer;
  return tile_choose(l, ask, outer, tile_operand(l, ask, 1, map, scope, ask->raw), scope);
}

// --- gather ---------------------------------------------------------------------------------------

// The dimensions of the result that are not in offset_dims, one after another, are those of the indices without index_vector_dim.
static void map_indices(const HlInst *inst, const Affine *result, Affine *indices) {
  const HlI64s offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS);
  const int64_t vector = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  int d = 0;
  for (int k = 0; k < inst->shape->rank; k++) {
    if (hl_i64s_find(offset, k) >= 0)
      continue;
    d += d == vector;
    indices[d++] = result[k];
  }
}

Val tile_gather(Lower *l, const Ask *ask) {
  const HlInst *inst = ask->inst;
  const HlShape *from = inst->operands[0]->shape, *indices = inst->operands[1]->shape;
  const HlI64s offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS),
               collapsed = hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS),
               starts_of = hl_attr_ints(inst, HL_A_START_INDEX_MAP),
               batching = hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS),
               batches = hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS),
               sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES);
  const int64_t vector = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  Affine *map = HL_ARRAY(l->arena, Affine, from->rank + 1);
  Affine *at = HL_ARRAY(l->arena, Affine, indices->rank + 1);
  map_indices(inst, ask->map, at);
  for (int d = 0, k = 0; d < from->rank; d++) {
    const bool in_box = hl_i64s_find(collapsed, d) < 0 && hl_i64s_find(batching, d) < 0;
    map[d] = in_box ? ask->map[offset.at[k++]] : affine_const(0);
  }
  for (int k = 0; k < batching.n; k++)
    map[batching.at[k]] = at[batches.at[k]];
  for (int k = 0; k < starts_of.n; k++) {
    const int64_t d = starts_of.at[k], size = sizes.at[d];
    Affine *place = HL_ARRAY(l->arena, Affine, indices->rank + 1), start;
    for (int j = 0; j < indices->rank; j++)
      place[j] = j == vector ? affine_const(k) : at[j];
    if (!tile_start(l, tile_operand(l, ask, 1, place, ask->scope, false), indices->dtype,
                    from->dim[d] - (size > 0 ? size : 1), ask->scope, &start))
      return NO_VAL;
    map[d] = affine_add(&map[d], &start);
  }
  return tile_operand(l, ask, 0, map, ask->scope, ask->raw);
}
