// pass/neutral.c: the least and the greatest number of a type, and what an op folds in without changing anything.
#include <math.h>

#include "hilo/pass.h"

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

HlInst *hl_b_extreme(HlBuild *b, HlDtype dtype, bool least) {
  if (dtype == HL_PRED)
    return hl_b_scalar_int(b, dtype, !least);
  if (hl_is_integral(dtype))
    return hl_b_scalar_int(b, dtype, extreme_int(dtype, least));
  return hl_is_float(dtype) ? hl_b_scalar(b, dtype, extreme_float(dtype, least)) : NULL;
}

bool hl_is_extreme(const HlInst *x, bool least) {
  HlDtype dtype = x->shape->dtype;
  if (dtype == HL_PRED)
    return hl_is_all_int(x, least ? 0 : 1);
  if (hl_is_integral(dtype))
    return hl_is_all_int(x, extreme_int(dtype, least));
  return hl_is_float(dtype) && hl_is_all(x, extreme_float(dtype, least));
}

bool hl_dtype_has_zero(HlDtype dtype) {
  return hl_dtype_info[dtype].format.nan != HL_NAN_E8M0 || hl_dtype_info[dtype].format.bits == 0;
}

HlKnown hl_neutral_of(HlOp op) {
  return op < HL_OP_COUNT && hl_op_is(op, HL_T_ASSOCIATES) ? (HlKnown)hl_op_facts(op)->neutral
                                                           : HL_KNOWN_NONE;
}

HlInst *hl_b_neutral(HlBuild *b, HlOp op, HlDtype dtype) {
  if (op == HL_OP_ADD && !hl_dtype_has_zero(dtype))
    return NULL;
  if (op == HL_OP_MULTIPLY && hl_is_complex(dtype))
    return NULL;
  switch (hl_neutral_of(op)) {
  case HL_KNOWN_ZERO: return hl_b_scalar(b, dtype, 0);
  // The one of a signed bit is its -1.
  case HL_KNOWN_ONE:
    return hl_is_integral(dtype) ? hl_b_scalar_int(b, dtype, 1) : hl_b_scalar(b, dtype, 1);
  case HL_KNOWN_LOWEST: return hl_b_extreme(b, dtype, true);
  case HL_KNOWN_HIGHEST: return hl_b_extreme(b, dtype, false);
  case HL_KNOWN_ALL_ONES: return hl_b_scalar_int(b, dtype, dtype == HL_PRED ? 1 : -1);
  default: return NULL;
  }
}
