// cpu/tile/lower_scatter.c: scatter and select-and-scatter: updates, one after another, of places that are computed.
//
// The loops over updates turn in order, in one chunk, so that what lands on one place adds up as HLO says; elements of a window lie
// on different places, and are a row where there are any.

#include "cpu/tile/build.h"

#include "hilo/op.h"

static bool combines(const HlComp *comp, Update *out) {
  const HlDtype dtype = comp->params[0]->shape->dtype;
  out->op = vec_op_of(comp, dtype);
  out->assigns = comp->root->op == HL_OP_PARAMETER && hl_parameter_number(comp->root) == 1;
  return out->assigns ||
         (out->op != VEC_OP_COUNT && !hl_is_complex(dtype) && !tile_is_sub_byte(dtype));
}

// An index that is not kept inside: where it is not between 0 and last nothing is updated.
static bool add_index(Lower *l, Update *u, int index, int64_t last, Affine *out) {
  const int v = index < 0 ? -1 : tile_index_var(l, index, INT64_C(1) << 40);
  if (v < 0)
    return false;
  u->check[u->n_checks++] = (Check){index, last + 1};
  *out = affine_var(v);
  return true;
}

// --- scatter --------------------------------------------------------------------------------------

bool tile_is_scatter(const HlInst *inst) {
  Update u = {0};
  return inst->op == HL_OP_SCATTER && inst->n_operands == 3 &&
         inst->operands[0]->shape->dtype == inst->operands[2]->shape->dtype &&
         hl_to_apply(inst)->n_params == 2 && combines(hl_to_apply(inst), &u);
}

// The update at `map`, which is loops over the updates' dimensions.
bool tile_scatter(Lower *l, const Ask *ask, Update *u, Affine *to, Val *value) {
  const HlInst *inst = ask->inst;
  const HlShape *into = inst->operands[0]->shape, *indices = inst->operands[1]->shape,
                *updates = inst->operands[2]->shape;
  const HlI64s window = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS),
               inserted = hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS),
               to_operand = hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS),
               batching = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS),
               batches = hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS);
  const int64_t vector = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  Affine *place = HL_ARRAY(l->arena, Affine, into->rank + 1),
         *at = HL_ARRAY(l->arena, Affine, indices->rank + 1);
  int64_t *extent = HL_ARRAY(l->arena, int64_t, into->rank + 1);
  combines(hl_to_apply(inst), u);
  u->check = HL_ARRAY(l->arena, Check, to_operand.n + 1);
  for (int k = 0, d = 0; k < updates->rank; k++) {
    if (hl_i64s_find(window, k) >= 0)
      continue;
    u->in_order |= affine_deps(l, &ask->map[k]);
    d += d == vector;
    at[d++] = ask->map[k];
  }
  for (int d = 0, k = 0; d < into->rank; d++) {
    const bool in_box = hl_i64s_find(inserted, d) < 0 && hl_i64s_find(batching, d) < 0;
    extent[d] = in_box ? updates->dim[window.at[k]] : 1;
    place[d] = in_box ? ask->map[window.at[k++]] : affine_const(0);
  }
  for (int k = 0; k < batching.n; k++)
    place[batching.at[k]] = at[batches.at[k]];
  for (int k = 0; k < to_operand.n; k++) {
    const int64_t d = to_operand.at[k];
    Affine *component = HL_ARRAY(l->arena, Affine, indices->rank + 1), start;
    for (int j = 0; j < indices->rank; j++)
      component[j] = j == vector ? affine_const(k) : at[j];
    const Val index = tile_operand(l, ask, 1, component, 0, false);
    if (l->why || !add_index(l, u, tile_wide_index(l, index.re, indices->dtype, 0),
                             into->dim[d] - extent[d], &start))
      return false;
    place[d] = affine_add(&place[d], &start);
  }
  *to = affine_dot(into->rank, place, cpu_strides(l->arena, into));
  *value = tile_operand(l, ask, 2, ask->map, 0, ask->raw);
  return !l->why;
}

// --- select-and-scatter ---------------------------------------------------------------------------

bool tile_is_select_and_scatter(const HlInst *inst) {
  Update u = {0};
  return inst->op == HL_OP_SELECT_AND_SCATTER && inst->n_calls == 2 &&
         hl_window(inst).n == inst->shape->rank && hl_called(inst, 1)->n_params == 2 &&
         hl_called(inst, 0)->n_params == 2 && !hl_is_complex(inst->shape->dtype) &&
         combines(hl_called(inst, 1), &u) && !u.assigns;
}

// Folds a window into its selected element and where that is: -1 before the first.
static bool select_place(Lower *l, const Ask *ask, int block, int scope, Val x, int at, int *out) {
  const HlDtype dtype = ask->inst->shape->dtype;
  const int none = tile_const_i64(l, HL_S64, -1);
  const Val init[2] = {{tile_const(l, dtype, 0), -1}, {none, -1}}, fold[2] = {x, {at, -1}};
  Val acc[2], own[2], next[2], results[2];
  if (!tile_fold_start(l, block, 2, init, fold, scope, acc, own))
    return false;
  const Val keeps = tile_body(l, hl_called(ask->inst, 0), (const Val[]){acc[0], own[0]}, 0, scope);
  if (l->why)
    return false;
  const int first =
      tile_vec(l, VEC_LT, HL_S64, HL_PRED, scope, acc[1].re, tile_const_i64(l, HL_S64, 0), -1);
  const int later = tile_vec(l, VEC_NOT, HL_PRED, HL_PRED, scope, first, -1, -1);
  const int keep = tile_vec(l, VEC_AND, HL_PRED, HL_PRED, scope, keeps.re, later, -1);
  for (int k = 0; k < 2; k++) {
    const HlDtype part = l->node.at[acc[k].re].dtype;
    next[k] = (Val){tile_vec(l, VEC_SELECT, part, part, scope, keep, acc[k].re, own[k].re), -1};
  }
  if (l->why || !tile_fold_end(l, block, 2, next, results))
    return false;
  *out = results[1].re;
  return true;
}

// The source at `map`, and the place that its window selects.
bool tile_select_and_scatter(Lower *l, const Ask *ask, Update *u, Affine *to, Val *value) {
  const HlInst *inst = ask->inst;
  const HlShape *from = inst->operands[0]->shape;
  const HlWindow window = hl_window(inst);
  const int block = tile_block(l);
  Affine *map = HL_ARRAY(l->arena, Affine, from->rank + 1);
  int scope = 0;
  for (int d = 0; d < from->rank; d++) {
    const HlWindowDim *w = &window.at[d];
    map[d] = tile_window_place(l, &ask->map[d], w, block);
    scope = scope < 0 ? scope : tile_scope(l, scope, &map[d], from->dim[d]);
    if (w->size > 1 || w->stride != 1 || w->pad_low != 0 || w->lhs_dilate != 1)
      u->in_order |= affine_deps(l, &ask->map[d]);
  }
  if (scope < 0 || l->block.at[block].loops == 0)
    return tile_fail(l, "windows of nothing").re >= 0;
  l->block.at[block].in_order =
      true;  // of equal elements it is the first that is selected, or the last
  combines(hl_called(inst, 1), u);
  u->check = HL_ARRAY(l->arena, Check, 1);
  *value = tile_operand(l, ask, 1, ask->map, 0, false);
  const Affine place = affine_dot(from->rank, map, cpu_strides(l->arena, inst->shape));
  const Val x = tile_operand(l, ask, 0, map, scope, false);
  if (l->why || place.den != 1)
    return tile_fail(l, "windows of what is spread out").re >= 0;
  const int at = tile_node(
      l, &(Node){
             .kind = NODE_IOTA, .op = VEC_OP_COUNT, .dtype = HL_S64, .scope = scope, .at = &place});
  int selected;
  return at >= 0 && select_place(l, ask, block, scope, x, at, &selected) &&
         add_index(l, u, selected, hl_shape_elements(inst->shape) - 1, to);
}
