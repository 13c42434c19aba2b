// opt/ask/reducers.c: initial values that do not count, and single results of reducers.
#include "opt/ask/reducers.h"

static bool is_all_ones(const HlInst *init) {
  const HlDtype dtype = init->shape->dtype;
  return dtype == HL_PRED || hl_is_unsigned(dtype) ? hl_is_extreme(init, false)
                                                   : hl_is_all_int(init, -1);
}

bool reducer_is_identity(HlOp op, const HlInst *init) {
  switch (hl_neutral_of(op)) {
  case HL_KNOWN_ZERO: return hl_is_all(init, 0) || hl_is_all_int(init, 0);
  case HL_KNOWN_ONE: return !hl_is_complex(init->shape->dtype) && hl_is_all(init, 1);
  case HL_KNOWN_LOWEST: return hl_is_extreme(init, true);
  case HL_KNOWN_HIGHEST: return hl_is_extreme(init, false);
  case HL_KNOWN_ALL_ONES: return is_all_ones(init);
  default: return false;
  }
}

bool reducer_has_identity(const HlComp *reducer, const HlInst *init) {
  return reducer_is_identity(hl_reducer(reducer), init);
}

bool reducer_may_repeat(const HlComp *reducer, const HlInst *init) {
  const HlOp op = hl_reducer(reducer);
  return hl_neutral_of(op) == HL_KNOWN_NONE || hl_op_is(op, HL_T_IDEMPOTENT) ||
         reducer_has_identity(reducer, init);
}

HlComp *reducer_element(HlBuild *b, HlComp *reducer, int k) {
  if (reducer->root->shape->dtype != HL_TUPLE)
    return reducer;
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in =
      hl_b_nested(&bare, hl_arena_printf(hl_b_module(b)->arena, "%s.clone", reducer->name->text));
  int n = reducer->n_params;
  HlInst **params = HL_ARRAY(hl_b_module(b)->arena, HlInst *, n);
  for (int j = 0; j < n; j++)
    params[j] = hl_b_parameter(&in, reducer->params[j]->shape, NULL);
  HlInst *all = hl_graft(in.comp, reducer, n, params, NULL);
  HlInst *one = hl_b_element(&in, all, k);
  if (!one)
    return NULL;
  hl_set_root(in.comp, one);
  if (!all->first_use)
    hl_erase(all);
  return in.comp;
}
