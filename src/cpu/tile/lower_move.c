// cpu/tile/lower_move.c: ops that only move elements: the indices of the result become those of an operand.

#include "cpu/tile/build.h"

#include "hilo/op.h"

static Affine *new_map(Lower *l, int rank) {
  return HL_ARRAY(l->arena, Affine, rank + 1);
}

// --- Each index of the operand is one of the result's ---------------------------------------------

Val tile_move(Lower *l, const Ask *ask) {
  const HlInst *inst = ask->inst;
  const HlShape *from = inst->operands[0]->shape;
  const HlI64s dims = hl_dims(inst);
  Affine *map = new_map(l, from->rank);
  const HlI64s slice = hl_attr_ints(inst, HL_A_SLICE);  // start, limit, stride
  if (inst->shape->dtype != from->dtype)
    return tile_fail(l, "a move that converts");
  switch (inst->op) {
  case HL_OP_COPY: return tile_operand(l, ask, 0, ask->map, ask->scope, ask->raw);
  case HL_OP_BROADCAST:
    for (int d = 0; d < from->rank; d++)
      map[d] = from->dim[d] == 1 ? affine_const(0) : ask->map[dims.at[d]];
    break;
  case HL_OP_TRANSPOSE:
    for (int d = 0; d < from->rank; d++)
      map[dims.at[d]] = ask->map[d];
    break;
  case HL_OP_REVERSE:
    for (int d = 0; d < from->rank; d++) {
      const Affine back = affine_times(&ask->map[d], -1);
      map[d] = hl_i64s_find(dims, d) >= 0 ? affine_plus(&back, from->dim[d] - 1) : ask->map[d];
    }
    break;
  default:  // slice
    for (int d = 0; d < from->rank; d++) {
      const Affine e = affine_times(&ask->map[d], slice.at[3 * d + 2]);
      map[d] = affine_plus(&e, slice.at[3 * d]);
    }
  }
  return tile_operand(l, ask, 0, map, ask->scope, ask->raw);
}

// --- reshape, bitcast -----------------------------------------------------------------------------

// The i-th dimension from the innermost one on: of a reshape in row-major order, of a bitcast in memory.
static int64_t inner_dim(const HlShape *shape, int i, bool in_memory) {
  return in_memory && shape->layout ? shape->layout->minor_to_major.at[i] : shape->rank - 1 - i;
}

// What only adds dimensions of size 1 or takes them away leaves each index as it is, also where that has a part of its range only.
static bool dims_stay(const HlShape *to, const HlShape *from, bool in_memory, const Affine *index,
                      Affine *map) {
  int t = 0;
  for (int i = 0; i <= from->rank; i++) {
    const int64_t d = i < from->rank ? inner_dim(from, i, in_memory) : -1;
    if (d >= 0 && from->dim[d] == 1) {
      map[d] = affine_const(0);
      continue;
    }
    while (t < to->rank && to->dim[inner_dim(to, t, in_memory)] == 1)
      t++;
    if (d < 0)
      break;
    if (t == to->rank || to->dim[inner_dim(to, t, in_memory)] != from->dim[d])
      return false;
    map[d] = index[inner_dim(to, t++, in_memory)];
  }
  return t == to->rank;
}

// The same place in row-major order, or of a bitcast in memory.
Val tile_reshape(Lower *l, const Ask *ask) {
  const HlShape *to = ask->inst->shape, *from = ask->inst->operands[0]->shape;
  if (!hl_shape_is_array(to) || to->dtype != from->dtype)
    return tile_fail(l, "a bitcast between types");
  const bool in_memory = ask->inst->op == HL_OP_BITCAST;
  int64_t *stride = HL_ARRAY(l->arena, int64_t, to->rank + 1);
  hl_strides(to->rank, to->dim, stride);
  const Affine place =
      affine_dot(to->rank, ask->map, in_memory ? cpu_strides(l->arena, to) : stride);
  Affine *map = new_map(l, from->rank);
  const bool same_order = in_memory || !from->layout || hl_layout_is_default(from->layout);
  if (same_order && tile_operand_is_buffer(ask, 0))  // its place in memory is all that is asked for
    return tile_load_place(l, ask, 0, &place);
  if (!dims_stay(to, from, in_memory, ask->map, map) &&
      !affine_split(l, &place, from->rank, from->dim,
                    in_memory && from->layout ? &from->layout->minor_to_major : NULL, ask->scope,
                    map))
    return NO_VAL;
  return tile_operand(l, ask, 0, map, ask->scope, ask->raw);
}

// --- pad, concatenate -----------------------------------------------------------------------------

// One of two: `inner` where its scope holds, else `outer`.
Val tile_choose(Lower *l, const Ask *ask, Val outer, Val inner, int scope) {
  if (l->why)
    return NO_VAL;
  const int scopes[] = {ask->scope, scope};
  const HlDtype dtype = l->node.at[inner.re].dtype;
  Val v = NO_VAL;
  v.re = tile_node(l, &(Node){.kind = NODE_CHOOSE,
                              .op = VEC_OP_COUNT,
                              .dtype = dtype,
                              .n = 2,
                              .arg = (const int[]){outer.re, inner.re},
                              .scopes = scopes,
                              .scope = ask->scope});
  if (inner.im >= 0)
    v.im = tile_node(l, &(Node){.kind = NODE_CHOOSE,
                                .op = VEC_OP_COUNT,
                                .dtype = dtype,
                                .n = 2,
                                .arg = (const int[]){outer.im, inner.im},
                                .scopes = scopes,
                                .scope = ask->scope});
  return v;
}

Val tile_pad(Lower *l, const Ask *ask) {
  const HlShape *from = ask->inst->operands[0]->shape;
  const HlI64s padding = hl_attr_ints(ask->inst, HL_A_PADDING);  // low, high, interior
  const Val fill = tile_operand(l, ask, 1, NULL, ask->scope, ask->raw);
  Affine *map = new_map(l, from->rank);
  int scope = ask->scope;
  for (int d = 0; d < from->rank && scope >= 0; d++) {
    const Affine e = affine_plus(&ask->map[d], -padding.at[3 * d]);
    map[d] = affine_over(&e, 1 + padding.at[3 * d + 2]);
    scope = tile_scope(l, scope, &map[d], from->dim[d]);
  }
  if (scope < 0)
    return fill;
  const Val x = tile_operand(l, ask, 0, map, scope, ask->raw);
  return scope == ask->scope ? x : tile_choose(l, ask, fill, x, scope);
}

Val tile_concatenate(Lower *l, const Ask *ask) {
  const HlInst *inst = ask->inst;
  const int64_t along = hl_dim(inst);
  const int rank = inst->shape->rank;
  int *scopes = HL_ARRAY(l->arena, int, inst->n_operands), n = 0;
  int *re = HL_ARRAY(l->arena, int, inst->n_operands),
      *im = HL_ARRAY(l->arena, int, inst->n_operands);
  int64_t first = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const int64_t size = inst->operands[k]->shape->dim[along];
    Affine *map = new_map(l, rank);
    for (int d = 0; d < rank; d++)
      map[d] = ask->map[d];
    map[along] = affine_plus(&map[along], -first);
    first += size;
    const int scope = size > 0 ? tile_scope(l, ask->scope, &map[along], size) : -1;
    if (scope < 0)
      continue;
    const Val v = tile_operand(l, ask, (int)k, map, scope, ask->raw);
    if (l->why || scope == ask->scope)
      return v;
    scopes[n] = scope;
    re[n] = v.re;
    im[n++] = v.im;
  }
  if (n == 0)
    return tile_fail(l, "a concatenate of nothing");
  Node node = {.kind = NODE_CHOOSE,
               .op = VEC_OP_COUNT,
               .dtype = l->node.at[re[0]].dtype,
               .n = n,
               .arg = re,
               .scopes = scopes,
               .scope = ask->scope};
  Val v = {tile_node(l, &node), -1};
  node.arg = im;
  if (im[0] >= 0)
    v.im = tile_node(l, &node);
  return v;
}

// --- iota -----------------------------------------------------------------------------------------

// c + k0 i0 + ... of loops, and what computed indices add to it.
static int iota_node(Lower *l, const Affine *e, HlDtype part, int scope) {
  Affine loops = *e;
  int n_computed = 0;
  for (int v = 0; v < l->n_vars; v++)
    if (e->k[v] != 0 && l->var[v].node >= 0) {
      loops.k[v] = 0;
      n_computed++;
    }
  const HlDtype dtype = n_computed > 0 ? HL_S64 : part;
  int sum = tile_node(
      l,
      &(Node){.kind = NODE_IOTA, .op = VEC_OP_COUNT, .dtype = dtype, .scope = scope, .at = &loops});
  for (int v = 0; v < l->n_vars && n_computed > 0; v++)
    if (loops.k[v] != e->k[v]) {
      const int by = tile_const_i64(l, HL_S64, e->k[v]);
      const int more =
          tile_vec_plain(l, VEC_MULTIPLY, HL_S64, HL_S64, scope, l->var[v].node, by, -1);
      sum = tile_vec_plain(l, VEC_ADD, HL_S64, HL_S64, scope, sum, more, -1);
    }
  const HlDtype to = tile_is_narrow(part) ? HL_F32 : part;
  return n_computed > 0 ? tile_convert_node(l, HL_S64, to, scope, sum) : sum;
}

Val tile_iota(Lower *l, const Ask *ask) {
  const HlDtype dtype = ask->inst->shape->dtype;
  const HlDtype part = dtype == HL_C64 ? HL_F32 : dtype == HL_C128 ? HL_F64 : dtype;
  const Affine *e = &ask->map[hl_attr_int(ask->inst, HL_A_IOTA_DIMENSION)];
  if (e->den != 1 || dtype == HL_PRED)
    return tile_fail(l, "an iota that is spread out");
  int node = iota_node(l, e, part, ask->scope);
  if (tile_is_narrow(dtype))
    node = tile_unary_node(l, NODE_ROUND, HL_F32, dtype, ask->scope, node);
  if (tile_is_sub_byte(dtype))
    node = tile_vec_plain(l, VEC_WRAP, dtype, dtype, ask->scope, node, -1, -1);
  return (Val){node, hl_is_complex(dtype) ? tile_const_f64(l, part, 0) : -1};
}
