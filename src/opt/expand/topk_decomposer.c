// opt/expand/topk_decomposer.c: the k largest as a stable descending sort of values and places, and a
// slice.
//
// A bf16 and its place are one s32 (as of XLA 0.11), where the dimension is short or its rows are many: the value's bits above, so
// that integers are ordered as the values are, and below them the place, the other way round since lower places go first.
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

// The place of each element along the last dimension.
static HlInst *places_of(HlBuild *b, const HlInst *x) {
  const HlShape *shape = hl_shape_with_dtype(hl_b_module(b)->shapes, x->shape, HL_S32);
  HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = x->shape->rank - 1};
  return hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &along, 0, NULL);
}

static HlInst *decompose(HlBuild *b, HlInst *topk, HlComp *before) {
  HlInst *x = topk->operands[0];
  if (!all_static(topk) || x->shape->rank == 0 || !before)
    return NULL;
  int last = x->shape->rank - 1;
  HlInst *both[] = {x, places_of(b, x)};
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = last}, {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *sort = hl_b_op(b, HL_OP_SORT, NULL, 2, both, 2, attrs, 1, &before);
  HlInst *parts[2];
  for (int k = 0; sort && k < 2; k++)
    parts[k] =
        hl_b_slice_dim(b, hl_b_element(b, sort, k), last, 0, topk->shape->element[k]->dim[last]);
  return sort ? hl_b_tuple(b, 2, parts) : NULL;
}

// --- Values and places in one number --------------------------------------------------------------

enum {
  LOW_HALF = 0xffff,
  ALL_BUT_SIGN = 0x7fffffff,
  SIGN_BIT = 31,
  SHORT_ROW = 1500,
  MANY_ROWS = 8
};

static bool may_pack(const HlPass *p, const HlInst *topk) {
  const HlShape *x = topk->operands[0]->shape;
  if (!hl_pass_since(p, HL_XLA_0_11) || x->dtype != HL_BF16 || x->rank == 0 || !all_static(topk) ||
      hl_attr_int(topk, HL_A_LARGEST) == 0)
    return false;
  const int64_t row = x->dim[x->rank - 1];
  return row < SHORT_ROW || (row <= LOW_HALF && x->rank == 2 && x->dim[0] >= MANY_ROWS);
}

static HlInst *with_int(HlBuild *b, HlOp op, HlInst *x, int64_t value) {
  return x ? hl_b_binary(b, op, x, hl_b_like_int(b, x, value)) : NULL;
}

// Sign and magnitude as a number of one's complement, or back.
static HlInst *turn_negatives(HlBuild *b, HlInst *x) {
  HlInst *magnitude = with_int(b, HL_OP_AND, x, ALL_BUT_SIGN);
  return hl_b_binary(b, HL_OP_XOR, magnitude,
                     with_int(b, HL_OP_SHIFT_RIGHT_ARITHMETIC, x, SIGN_BIT));
}

static HlComp *greater(HlBuild *b) {
  const HlShape *scalar = hl_shape_scalar(hl_b_module(b)->shapes, HL_S32);
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in = hl_b_nested(&bare, "compare-greater-than");
  HlInst *x = hl_b_parameter(&in, scalar, "p.0.lhs"), *y = hl_b_parameter(&in, scalar, "p.0.rhs");
  HlInst *before = hl_b_compare(&in, HL_WORD_direction_GT, x, y);
  if (!before)
    return NULL;
  hl_set_root(in.comp, before);
  return in.comp;
}

static HlInst *decompose_packed(HlBuild *b, HlInst *topk) {
  HlInst *x = topk->operands[0];
  const int last = x->shape->rank - 1;
  HlInst *bits = hl_b_bitcast_convert(b, hl_b_convert(b, x, HL_F32), HL_S32);
  HlInst *value = with_int(b, HL_OP_OR, turn_negatives(b, bits), LOW_HALF);
  HlInst *place = places_of(b, x);
  HlInst *both = hl_b_binary(b, HL_OP_XOR, value, place);
  HlComp *before = greater(b);
  HlAttr along = {.key = HL_A_DIMENSION, .i = last};
  HlInst *sorted =
      both && before ? hl_b_op(b, HL_OP_SORT, NULL, 1, &both, 1, &along, 1, &before) : NULL;
  HlInst *first = hl_b_slice_dim(b, sorted, last, 0, topk->shape->element[0]->dim[last]);
  HlInst *high = with_int(b, HL_OP_AND, turn_negatives(b, first), ~(int64_t)LOW_HALF);
  HlInst *values = hl_b_convert(b, hl_b_bitcast_convert(b, high, HL_F32), HL_BF16);
  HlInst *places = with_int(b, HL_OP_AND, with_int(b, HL_OP_XOR, first, LOW_HALF), LOW_HALF);
  return values && places ? hl_b_tuple(b, 2, (HlInst *[]){values, places}) : NULL;
}

// --- The rules ------------------------------------------------------------------------------------

static HlInst *decompose_topk(HlPass *p, HlBuild *b, HlInst *topk) {
  if (may_pack(p, topk))
    return decompose_packed(b, topk);
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
