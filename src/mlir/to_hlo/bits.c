// Lowers conversions where StableHLO's i1 is one bit and HLO's pred a byte, or complex numbers become real.
#include "mlir/to_hlo/to_hlo.h"

// The unsigned integer type of a width, HL_NO_DTYPE if there is none.
static HlDtype unsigned_of(int bits) {
  static const HlDtype types[] = {HL_U8, HL_U16, HL_U32, HL_U64, HL_U4, HL_U2};
  for (int k = 0; k < HL_COUNT_OF(types); k++)
    if (hl_dtype_info[types[k]].bits == bits)
      return types[k];
  return HL_NO_DTYPE;
}

// 0, 1, 2, ... along the last dimension of x's sizes, in its element type.
static HlInst *bit_numbers(HlBuild *b, const HlInst *x) {
  return hl_b_iota(b, x->shape->dtype, x->shape->rank, x->shape->dim, x->shape->rank - 1);
}

// pred[..., N] as the N bits of an integer, the lowest first.
static HlInst *pack(HlBuild *b, HlInst *x, HlDtype type, HlDtype to) {
  const int64_t last = x->shape->rank - 1;
  HlInst *wide = hl_b_convert(b, x, type);
  HlInst *placed = wide ? hl_b_binary(b, HL_OP_SHIFT_LEFT, wide, bit_numbers(b, wide)) : NULL;
  HlInst *word =
      placed ? hl_b_reduce(b, HL_OP_OR, placed, hl_b_scalar_int(b, type, 0), (HlI64s){&last, 1})
             : NULL;
  return word && to != type ? hl_b_bitcast_convert(b, word, to) : word;
}

// The bits of a value as pred[..., N].
static HlInst *unpack(MlLower *l, HlBuild *b, HlInst *x, HlDtype type) {
  const int rank = x->shape->rank;
  int64_t *dim = HL_ARRAY(l->arena, int64_t, rank + 1),
          *kept = HL_ARRAY(l->arena, int64_t, rank + 1);
  for (int d = 0; d < rank; d++) {
    dim[d] = x->shape->dim[d];
    kept[d] = d;
  }
  dim[rank] = hl_dtype_info[type].bits;
  HlInst *word = x->shape->dtype == type ? x : hl_b_bitcast_convert(b, x, type);
  HlInst *wide = hl_b_broadcast(b, word, rank + 1, dim, (HlI64s){kept, rank});
  HlInst *moved =
      wide ? hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, wide, bit_numbers(b, wide)) : NULL;
  HlInst *bit = moved ? hl_b_binary(b, HL_OP_AND, moved, hl_b_like_int(b, moved, 1)) : NULL;
  return bit ? hl_b_convert(b, bit, HL_PRED) : NULL;
}

bool ml_lower_bitcast_convert(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  const HlDtype from = x->shape->dtype, to = hl_ml_dtype(op->results[0].type);
  if ((from == HL_PRED) == (to == HL_PRED))
    return ml_lower_plain(l, b, op);
  const HlDtype type = unsigned_of(hl_dtype_info[from == HL_PRED ? to : from].bits);
  if (type == HL_NO_DTYPE)
    return ml_unsupported(l, op, "%s between i1 and elements of this width is not supported",
                          op->name->text);
  return ml_set_results(l, b, op, from == HL_PRED ? pack(b, x, type, to) : unpack(l, b, x, type));
}

// A complex number becomes a real one by its real part, true and false among them.
bool ml_lower_convert(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  const HlDtype to = hl_ml_dtype(op->results[0].type);
  if (!hl_is_complex(x->shape->dtype) || hl_is_complex(to))
    return ml_lower_plain(l, b, op);
  return ml_set_results(l, b, op, hl_b_convert(b, hl_b_unary(b, HL_OP_REAL, x), to));
}

// A format without mantissa has no nan: there it is an infinity. HLO's op leaves nans as they are.
bool ml_lower_reduce_precision(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x || !ml_lower_plain(l, b, op))
    return false;
  if (ml_attr_int(op, ML_A_MANTISSA_BITS, 1) != 0)
    return true;
  HlInst *rounded = ml_value(l, b, op, &op->results[0]);
  HlInst *is_nan = hl_b_compare(b, HL_WORD_direction_NE, x, x);
  return ml_set_results(l, b, op,
                        hl_b_select(b, is_nan, hl_b_like(b, x, __builtin_inf()), rounded));
}
