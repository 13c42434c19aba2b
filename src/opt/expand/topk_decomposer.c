// opt/expand/topk_decomposer.c: the k largest as a stable descending sort of values and places, and a
// slice.
//
//   t = (f32[4], s32[4]) topk(x), k=4    =>    s = (f32[9], s32[9]) sort(x, iota), is_stable=true
//                                              t = (slice of s#0 [0:4], slice of s#1 [0:4])
#include "hilo/custom_calls.h"
#include "opt/ask/dots.h"

// (x, y, place of x, place of y) -> x before y.
static HlComp *comparator(HlBuild *b, HlDtype dtype, bool largest) {
  HlShapes *shapes = hl_b_module(b)->shapes;
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in = hl_b_nested(&bare, largest ? "compare-greater-than" : "compare-less-than");
  HlInst *x = hl_b_parameter(&in, hl_shape_scalar(shapes, dtype), "p.0.lhs");
  HlInst *y = hl_b_parameter(&in, hl_shape_scalar(shapes, dtype), "p.0.rhs");
  HlInst *px = hl_b_parameter(&in, hl_shape_scalar(shapes, HL_S32), "p.1.lhs");
  HlInst *py = hl_b_parameter(&in, hl_shape_scalar(shapes, HL_S32), "p.1.rhs");
  HlInst *before =
      hl_b_compare_total(&in, largest ? HL_WORD_direction_GT : HL_WORD_direction_LT, x, y);
  if (!px || !py || !before)
    return NULL;
  hl_set_root(in.comp, before);
  return in.comp;
}

static HlInst *decompose(HlBuild *b, HlInst *topk, HlComp *before) {
  HlInst *x = topk->operands[0];
  if (!all_static(topk) || x->shape->rank == 0 || !before)
    return NULL;
  int last = x->shape->rank - 1;
  const HlShape *places = hl_shape_with_dtype(hl_b_module(b)->shapes, x->shape, HL_S32);
  HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = last};
  HlInst *both[] = {x, hl_b_op(b, HL_OP_IOTA, places, 0, NULL, 1, &along, 0, NULL)};
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = last}, {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *sort = hl_b_op(b, HL_OP_SORT, NULL, 2, both, 2, attrs, 1, &before);
  HlInst *parts[2];
  for (int k = 0; sort && k < 2; k++)
    parts[k] =
        hl_b_slice_dim(b, hl_b_element(b, sort, k), last, 0, topk->shape->element[k]->dim[last]);
  return sort ? hl_b_tuple(b, 2, parts) : NULL;
}

static HlInst *decompose_topk(HlPass *p, HlBuild *b, HlInst *topk) {
  (void)p;
  return decompose(
      b, topk,
      comparator(b, topk->operands[0]->shape->dtype, hl_attr_int(topk, HL_A_LARGEST) != 0));
}

// Calls whose comparator takes values and places, as it would in the sort.
static HlInst *decompose_call(HlPass *p, HlBuild *b, HlInst *call) {
  if (!hl_pass_flag(p, "custom_calls") || call->n_operands != 1 || call->n_calls != 1 ||
      !hl_is_call(call, HL_CALL_TOPK) || call->shape->dtype != HL_TUPLE || call->shape->rank != 2 ||
      call->shape->element[1]->dtype != HL_S32 || hl_called(call, 0)->n_params != 4)
    return NULL;
  return decompose(b, call, hl_called(call, 0));
}

const HlRule topk_decomposer_rules[] = {
    {HL_OP_TOPK, decompose_topk, "topk", "topk(x) => slice(sort(x, iota))", ""},
    {HL_OP_CUSTOM_CALL, decompose_call, "TopK", "custom-call(x) TopK => slice(sort(x, iota))",
     "custom_calls; the comparator takes values and places"},
    {0},
};
