// opt/expand/one_hot_rewriter.c
//
// one-hot-rewriter: a dot with a one-hot matrix picks rows: a gather does that without arithmetic.
//
//   h = f32[n,k] convert(compare(broadcast(i), iota), EQ)
//   r = f32[n,m] dot(h, f32[k,m] w)
//   =>  r = select(0 <= i < k, gather(w, clamp(i)), 0)
//
// What is not picked is no longer multiplied by zero, so infinities elsewhere in w no longer count.

#include "opt/ask/dots.h"
#include "opt/passes.h"

typedef struct OneHot {
  HlInst *index;  // its dimensions are the free ones of the operand, in order
  int64_t n;      // classes
} OneHot;

// The iota along dimension d of a shape.
static bool counts(const HlInst *x, int64_t d) {
  if (x->op == HL_OP_BROADCAST) {
    const int at = hl_i64s_find(hl_dims(x), d);
    return at >= 0 && counts(x->operands[0], at);
  }
  return x->op == HL_OP_IOTA && hl_attr_int(x, HL_A_IOTA_DIMENSION) == d;
}

// The operand is 1 where the index is the place along the contracted dimension, else 0.
static bool read_one_hot(HlPass *p, HlInst *x, HlI64s contract, OneHot *out) {
  while (x->op == HL_OP_CONVERT && hl_dtype_info[x->shape->dtype].bits >= 8)
    x = x->operands[0];
  if (x->op != HL_OP_COMPARE || hl_attr_int(x, HL_A_DIRECTION) != HL_WORD_direction_EQ)
    return false;
  for (int side = 0; side < 2; side++) {
    HlInst *index = x->operands[side];
    const HlDtype dtype = index->shape->dtype;
    if (!counts(x->operands[1 - side], contract.at[0]) || index->op != HL_OP_BROADCAST ||
        !hl_is_integral(dtype) || hl_dtype_info[dtype].bits < 32)
      continue;
    HlI64s others = dims_except(p->arena, x->shape->rank, contract, (HlI64s){NULL, 0});
    if (!hl_i64s_equal(hl_dims(index), others))
      continue;
    *out = (OneHot){index->operands[0], x->shape->dim[contract.at[0]]};
    return true;
  }
  return false;
}

static HlInst *everywhere(HlBuild *b, HlInst *like, int64_t value) {
  return hl_b_like_int(b, like, value);
}

// Rows of w along dimension d, at the places given; those come first in the result, or last.
static HlInst *pick(HlPass *p, HlBuild *b, HlInst *w, int64_t d, HlInst *index, bool first) {
  HlArena *arena = hl_b_module(b)->arena;
  const int rank = w->shape->rank;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    sizes[k] = k == d ? 1 : w->shape->dim[k];
  HlI64s at = {&d, 1}, offset = dims_from(p->arena, first ? index->shape->rank : 0, rank - 1);
  HlInst *operands[] = {w, index};
  HlAttr attrs[] = {
      {.key = HL_A_OFFSET_DIMS, .ints = hl_i64s_copy(arena, offset)},
      {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = hl_i64s_copy(arena, at)},
      {.key = HL_A_START_INDEX_MAP, .ints = hl_i64s_copy(arena, at)},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = index->shape->rank},
      {.key = HL_A_SLICE_SIZES, .ints = hl_i64s_copy(arena, (HlI64s){sizes, rank})},
  };
  return hl_b_op(b, HL_OP_GATHER, NULL, 2, operands, HL_COUNT_OF(attrs), attrs, 0, NULL);
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (dot->n_operands != 2 || d.contract[0].n != 1 || d.contract[1].n != 1 || d.batch[0].n != 0 ||
      !all_static(dot))
    return NULL;
  for (int side = 0; side < 2; side++) {
    OneHot hot;
    HlInst *w = dot->operands[1 - side];
    if (!read_one_hot(p, dot->operands[side], d.contract[side], &hot) || hot.n == 0)
      continue;
    HlInst *least = everywhere(b, hot.index, 0), *most = everywhere(b, hot.index, hot.n - 1);
    HlInst *index = hl_b_clamp(b, least, hot.index, most);
    HlInst *inside = hl_b_compare(b, HL_WORD_direction_EQ, index, hot.index);
    HlInst *rows = index ? pick(p, b, w, d.contract[1 - side].at[0], index, side == 0) : NULL;
    if (!rows || !inside)
      return NULL;
    const HlShape *shape = dot->shape;
    HlI64s place = dims_from(p->arena, side == 0 ? 0 : w->shape->rank - 1, index->shape->rank);
    HlInst *mask = hl_b_broadcast(b, inside, shape->rank, shape->dim, place);
    rows = hl_b_convert(b, rows, shape->dtype);
    return hl_b_select(b, mask, rows, hl_b_full(b, shape->dtype, shape->rank, shape->dim, 0));
  }
  return NULL;
}

const HlRule one_hot_rules[] = {
    {HL_OP_DOT, rewrite, "one-hot-rewriter",
     "dot(i == iota, w) => select(0 <= i < n, gather(w, clamp(i)), 0)",
     "no batch dimensions; one contracted dimension; indices of at least 32 bits"},
    {0},
};
