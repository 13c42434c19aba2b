// opt/ask/reducers.c: initial values that do not count, and single results of reducers.
#include "opt/ask/reducers.h"

#include <math.h>

// Bits of a signed or unsigned integer type, all set where `ones`.
static int64_t extreme_int(HlDtype dtype, bool least) {
  int bits = hl_dtype_info[dtype].bits;
  if (hl_is_unsigned(dtype))
    return least ? 0 : bits >= 64 ? -1 : ((int64_t)1 << bits) - 1;
  int64_t most = bits >= 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
  return least ? -most - 1 : most;
}

// Small floats may have no infinity: their largest finite numbers are found from the top of their bits.
static double extreme_float(HlDtype dtype, bool least) {
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  if (format->bits == 0 || format->nan == HL_NAN_IEEE)
    return least ? -INFINITY : INFINITY;
  const bool is_signed = format->nan != HL_NAN_E8M0;
  const uint32_t sign = is_signed ? (uint32_t)1 << (format->bits - 1) : 0;
  uint32_t bits = is_signed ? sign - 1 : ((uint32_t)1 << format->bits) - 1;
  while (!isfinite(hl_float_decode(format, bits)))
    bits--;
  if (least && !is_signed)
    return hl_float_decode(format, 0);
  return hl_float_decode(format, least ? bits | sign : bits);
}

HlInst *reducer_extreme(HlBuild *b, HlDtype dtype, bool least) {
  if (dtype == HL_PRED)
    return hl_b_scalar_int(b, dtype, !least);
  if (hl_is_integral(dtype))
    return hl_b_scalar_int(b, dtype, extreme_int(dtype, least));
  return hl_is_float(dtype) ? hl_b_scalar(b, dtype, extreme_float(dtype, least)) : NULL;
}

bool reducer_is_extreme(const HlInst *x, bool least) {
  HlDtype dtype = x->shape->dtype;
  if (dtype == HL_PRED)
    return hl_is_all_int(x, least ? 0 : 1);
  if (hl_is_integral(dtype))
    return hl_is_all_int(x, extreme_int(dtype, least));
  return hl_is_float(dtype) && hl_is_all(x, extreme_float(dtype, least));
}

bool reducer_has_zero(HlDtype dtype) {
  return hl_dtype_info[dtype].format.nan != HL_NAN_E8M0 || hl_dtype_info[dtype].format.bits == 0;
}

static bool is_all_ones(const HlInst *init) {
  HlDtype dtype = init->shape->dtype;
  if (dtype == HL_PRED)
    return hl_is_all_int(init, 1);
  return hl_is_all_int(init, hl_is_unsigned(dtype) ? extreme_int(dtype, false) : -1);
}

static HlKnown identity_of(HlOp op) {
  return op < HL_OP_COUNT && hl_op_is(op, HL_T_ASSOCIATES) ? (HlKnown)hl_op_facts(op)->neutral
                                                           : HL_KNOWN_NONE;
}

HlInst *reducer_identity(HlBuild *b, HlOp op, HlDtype dtype) {
  if (op == HL_OP_ADD && !reducer_has_zero(dtype))
    return NULL;
  if (op == HL_OP_MULTIPLY && hl_is_complex(dtype))
    return NULL;
  switch (identity_of(op)) {
  case HL_KNOWN_ZERO: return hl_b_scalar(b, dtype, 0);
  // The one of a signed bit is its -1.
  case HL_KNOWN_ONE:
    return hl_is_integral(dtype) ? hl_b_scalar_int(b, dtype, 1) : hl_b_scalar(b, dtype, 1);
  case HL_KNOWN_LOWEST: return reducer_extreme(b, dtype, true);
  case HL_KNOWN_HIGHEST: return reducer_extreme(b, dtype, false);
  case HL_KNOWN_ALL_ONES: return hl_b_scalar_int(b, dtype, dtype == HL_PRED ? 1 : -1);
  default: return NULL;
  }
}

bool reducer_is_identity(HlOp op, const HlInst *init) {
  switch (identity_of(op)) {
  case HL_KNOWN_ZERO: return hl_is_all(init, 0) || hl_is_all_int(init, 0);
  case HL_KNOWN_ONE: return !hl_is_complex(init->shape->dtype) && hl_is_all(init, 1);
  case HL_KNOWN_LOWEST: return reducer_is_extreme(init, true);
  case HL_KNOWN_HIGHEST: return reducer_is_extreme(init, false);
  case HL_KNOWN_ALL_ONES: return is_all_ones(init);
  default: return false;
  }
}

bool reducer_has_identity(const HlComp *reducer, const HlInst *init) {
  return reducer_is_identity(hl_reducer(reducer), init);
}

bool reducer_may_repeat(const HlComp *reducer, const HlInst *init) {
  const HlOp op = hl_reducer(reducer);
  return identity_of(op) == HL_KNOWN_NONE || hl_op_is(op, HL_T_IDEMPOTENT) ||
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
