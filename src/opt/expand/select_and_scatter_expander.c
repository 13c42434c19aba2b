// opt/expand/select_and_scatter_expander.c: select-and-scatter as a reduce-window that finds the selected
// places and a scatter of the sources to them.
//
// The reduce-window carries each element's place along, one number a dimension; -1 says "not an
// element", the initial value, which any element beats.
//
//   select-and-scatter(x, s, init)  =>  (v, i, j) = reduce-window(x, iota 0, iota 1, init, -1, -1)
//                                       scatter(broadcast(init), [i, j], s)
#include "opt/ask/windows.h"

static HlInst *graft_select(HlBuild *in, HlInst *sas, HlInst *x, HlInst *y) {
  HlInst *pair[] = {x, y};
  return hl_graft(in->comp, hl_called(sas, 0), 2, pair, NULL);
}

// (x, places..., y, places...) -> those of the one that is selected.
static HlComp *selector(HlPass *p, HlBuild *b, HlInst *sas, int rank) {
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlShape *value = hl_shape_scalar(shapes, sas->operands[0]->shape->dtype);
  const HlShape *place = hl_shape_scalar(shapes, HL_S32);
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in = hl_b_nested(
      &bare, hl_arena_printf(p->arena, "%s.reduce_window", hl_called(sas, 0)->name->text));
  HlInst **x = HL_ARRAY(p->arena, HlInst *, rank + 1), **y = HL_ARRAY(p->arena, HlInst *, rank + 1);
  for (int k = 0; k <= rank; k++)
    x[k] = hl_b_parameter(&in, k == 0 ? value : place, k == 0 ? "operand_lhs" : "iota_lhs");
  for (int k = 0; k <= rank; k++)
    y[k] = hl_b_parameter(&in, k == 0 ? value : place, k == 0 ? "operand_rhs" : "iota_rhs");
  HlInst *none = hl_b_scalar_int(&in, HL_S32, -1);
  HlInst *x_is_one = hl_b_compare(&in, HL_WORD_direction_NE, x[1], none);
  HlInst *y_is_one = hl_b_compare(&in, HL_WORD_direction_NE, y[1], none);
  HlInst *wins = hl_b_binary(&in, HL_OP_AND, graft_select(&in, sas, x[0], y[0]), x_is_one);
  HlInst *take_x = hl_b_binary(&in, HL_OP_OR, wins, hl_b_unary(&in, HL_OP_NOT, y_is_one));
  for (int k = 0; k <= rank; k++)
    x[k] = hl_b_select(&in, take_x, x[k], y[k]);
  HlInst *root = hl_b_tuple(&in, rank + 1, x);
  if (root)
    hl_set_root(in.comp, root);
  return root ? in.comp : NULL;
}

// Where each window's selected element stands: [windows..., rank].
static HlInst *selected_places(HlPass *p, HlBuild *b, HlInst *sas, int rank) {
  HlInst *x = sas->operands[0];
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlShape *iota_shape = hl_shape_array(shapes, HL_S32, rank, x->shape->dim);
  HlInst **in = HL_ARRAY(p->arena, HlInst *, rank + 1);
  HlInst **init = HL_ARRAY(p->arena, HlInst *, rank + 1);
  in[0] = x;
  init[0] = sas->operands[2];
  HlInst *none = hl_b_scalar_int(b, HL_S32, -1);
  for (int d = 0; d < rank; d++) {
    HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = d};
    in[d + 1] = hl_b_op(b, HL_OP_IOTA, iota_shape, 0, NULL, 1, &along, 0, NULL);
    init[d + 1] = none;
  }
  HlComp *select = selector(p, b, sas, rank);
  if (!select)
    return NULL;
  HlInst *found = window_reduce(p, b, rank + 1, in, init, hl_window(sas).at, select);
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, rank);
  const int64_t last = rank;
  for (int d = 0; d < rank; d++)
    parts[d] = dims_with_ones(p, b, hl_b_element(b, found, d + 1), (HlI64s){&last, 1});
  return hl_b_concatenate(b, rank, parts, rank);
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *sas) {
  int rank = sas->operands[0]->shape->rank;
  if (rank == 0 || !all_static(sas) || hl_window(sas).n != rank)
    return NULL;
  HlInst *operands[3];
  operands[0] = hl_b_broadcast(b, sas->operands[2], rank, sas->shape->dim, (HlI64s){0});
  operands[1] = selected_places(p, b, sas, rank);
  operands[2] = sas->operands[1];
  HlArena *arena = hl_b_module(b)->arena;
  HlAttr attrs[] = {
      {.key = HL_A_UPDATE_WINDOW_DIMS, .ints = {0}},
      {.key = HL_A_INSERTED_WINDOW_DIMS, .ints = dims_from(arena, 0, rank)},
      {.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, .ints = dims_from(arena, 0, rank)},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = rank},
  };
  HlComp *combine = hl_called(sas, 1);
  return hl_b_op(b, HL_OP_SCATTER, NULL, 3, operands, HL_COUNT_OF(attrs), attrs, 1, &combine);
}

const HlRule select_and_scatter_expander_rules[] = {
    {HL_OP_SELECT_AND_SCATTER, expand, "select_and_scatter_expander",
     "select-and-scatter(x, s, init) => scatter(broadcast(init), reduce-window(iota), s)", ""},
    {0},
};
