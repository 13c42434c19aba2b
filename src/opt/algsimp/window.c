// opt/algsimp/window.c: algebraic rules of reduce-windows (E14 to E17).
//
// Windows of one element, windows as long as the array, and padding written beside the window:
//
//   q = f32[10] pad(x [8], 0), padding=1_1                w = f32[8] reduce-window(x, 0),
//   w = f32[8] reduce-window(q, 0), window={size=3}  =>         window={size=3 pad=1_1}
#include "opt/algsimp/dims.h"
#include "opt/ask/reducers.h"
#include "opt/ask/windows.h"

static bool is_plain(const HlPass *p, const HlInst *inst) {
  return !alg_sensitive(p) && inst->n_operands == 2 && hl_shape_is_array(inst->shape) &&
         all_static(inst) && hl_window(inst).n == inst->shape->rank;
}

static bool is_simple_reducer(HlOp op) {
  return op == HL_OP_ADD || op == HL_OP_MINIMUM || op == HL_OP_MAXIMUM;
}

HlInst *alg_e14_single_elements(HlPass *p, HlBuild *b, HlInst *inst) {
  HlComp *reducer = hl_to_apply(inst);
  HlInst *x = inst->operands[0], *init = inst->operands[1];
  HlWindow window = hl_window(inst);
  if (!is_plain(p, inst) || window.n == 0 || !is_simple_reducer(hl_reducer(reducer)) ||
      x->shape->dtype != inst->shape->dtype)
    return NULL;
  int64_t *low = alg_list(p, window.n), *high = alg_list(p, window.n);
  bool padded = false;
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    if (w->size != 1 || w->stride != 1 || w->lhs_dilate != 1 || w->rhs_dilate != 1 || w->reversal)
      return NULL;
    low[d] = w->pad_low;
    high[d] = w->pad_high;
    padded |= low[d] != 0 || high[d] != 0;
  }
  if (padded && !reducer_may_repeat(reducer, init))
    return NULL;
  if (padded)
    x = hl_b_pad(b, x, init, low, high, NULL);
  return hl_b_binary(b, hl_reducer(reducer), x, alg_spread(b, init, inst->shape));
}

HlInst *alg_e15_full_window(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  HlWindow window = hl_window(inst);
  if (!is_plain(p, inst) || !alg_options(p)->enable_window_reduce_to_reduce_replacement ||
      x->shape->rank == 0)
    return NULL;
  int64_t *dims = alg_list(p, window.n);
  int n = 0;
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    if (window_is_unit(w))
      continue;
    if (w->size != x->shape->dim[d] || w->stride != 1 || w->pad_low != 0 || w->pad_high != 0 || w->lhs_dilate != 1 ||
        w->rhs_dilate != 1)
      return NULL;
    dims[n++] = d;
  }
  if (n == 0)
    return NULL;
  HlComp *reducer = hl_to_apply(inst);
  HlAttr attr = {.key = HL_A_DIMENSIONS,
                 .ints = hl_i64s_copy(hl_b_module(b)->arena, (HlI64s){dims, n})};
  HlInst *reduce = hl_b_op(b, HL_OP_REDUCE, NULL, 2, inst->operands, 1, &attr, 1, &reducer);
  return reduce ? alg_reshape(b, reduce, inst->shape) : NULL;
}

static bool same_value(const HlInst *a, const HlInst *b) {
  if (a == b)
    return true;
  const HlLiteral *x = hl_splat(a), *y = hl_splat(b);
  return x && y && hl_literal_equal(x, y);
}

// The window with the padding of `pad` added to its own; false where it cannot say the same.
static bool take_padding(const HlInst *pad, HlWindow window, HlWindowDim *out) {
  HlI64s triples = hl_attr_ints(pad, HL_A_PADDING);
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    const int64_t low = triples.at[3 * d], high = triples.at[3 * d + 1];
    const int64_t interior = triples.at[3 * d + 2];
    bool nothing = low == 0 && high == 0 && interior == 0;
    out[d] = *w;
    if (nothing)
      continue;
    if (w->lhs_dilate != 1 || low < 0 || high < 0)
      return false;
    out[d].pad_low += low;
    out[d].pad_high += high;
    out[d].lhs_dilate = interior + 1;
  }
  return true;
}

HlInst *alg_e16_of_pad(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pad = inst->operands[0], *init = inst->operands[1];
  if (!is_plain(p, inst) || pad->op != HL_OP_PAD || !same_value(pad->operands[1], init) ||
      !reducer_may_repeat(hl_to_apply(inst), init))
    return NULL;
  HlWindow window = hl_window(inst);
  HlWindowDim *wider = window_units(p->arena, window.n);
  if (!take_padding(pad, window, wider))
    return NULL;
  return window_reduce(p, b, 1, &pad->operands[0], &init, wider, hl_to_apply(inst));
}

HlInst *alg_e17_little(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *init = inst->operands[inst->n_operands / 2];
  if (inst->n_operands != 2 || !all_static(inst))
    return NULL;
  HlComp *reducer = hl_to_apply(inst);
  if (inst->shape->dtype == HL_TUPLE) {
    HlInst *one =
        window_reduce(p, b, 1, &x, &init, hl_window(inst).at, reducer_element(b, reducer, 0));
    return hl_b_tuple(b, 1, &one);
  }
  if (hl_shape_elements(x->shape) == 0 || hl_shape_elements(inst->shape) == 0)
    return alg_spread(b, init, inst->shape);
  if (x->shape->rank > 0)
    return NULL;
  HlInst *operands[] = {init, x};
  HlAttr dims = {.key = HL_A_DIMENSIONS, .ints = {0}};
  return hl_b_op(b, HL_OP_MAP, NULL, 2, operands, 1, &dims, 1, &reducer);
}
