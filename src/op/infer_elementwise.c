// op/infer_elementwise.c: shape rules of ops that work element by element (hlo.md 4.2 to 4.4).

#include "op/infer.h"

#include <inttypes.h>

static const char *type_name(const HlShape *shape) {
  return hl_dtype_info[shape->dtype].name;
}

// --- One operand --------------------------------------------------------------------------------

static bool is_unary_array(const HlInfer *q) {
  return infer_array(q, 0, "operand of unary operation");
}

static const HlShape *wrong_type(const HlInfer *q, const char *wanted) {
  return hl_infer_error(q, "expected element type in shape to be %s for %s operation; got %s",
                        wanted, infer_op(q), type_name(q->in[0]));
}

const HlShape *infer_unary_float(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  return hl_is_float(q->in[0]->dtype) ? q->in[0] : wrong_type(q, "floating");
}

const HlShape *infer_unary_float_or_complex(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  HlDtype t = q->in[0]->dtype;
  return hl_is_float(t) || hl_is_complex(t) ? q->in[0] : wrong_type(q, "floating or complex");
}

static HlDtype component(HlDtype dtype) {
  return dtype == HL_C128 ? HL_F64 : HL_F32;
}

const HlShape *infer_real_imag(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  const HlShape *x = q->in[0];
  if (hl_is_complex(x->dtype))
    return hl_shape_with_dtype(q->shapes, x, component(x->dtype));
  return hl_is_float(x->dtype) ? x : wrong_type(q, "floating or complex");
}

const HlShape *infer_abs(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  const HlShape *x = q->in[0];
  if (hl_is_complex(x->dtype))
    return hl_shape_with_dtype(q->shapes, x, component(x->dtype));
  return hl_is_float(x->dtype) || hl_is_signed(x->dtype)
             ? x
             : wrong_type(q, "signed, floating or complex");
}

const HlShape *infer_sign(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  HlDtype t = q->in[0]->dtype;
  bool ok = hl_is_signed(t) || hl_is_float(t) || hl_is_complex(t);
  return ok ? q->in[0] : wrong_type(q, "signed or complex");
}

const HlShape *infer_negate(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  HlDtype t = q->in[0]->dtype;
  bool ok = hl_is_integral(t) || hl_is_float(t) || hl_is_complex(t);
  return ok ? q->in[0] : wrong_type(q, "integral, floating or complex");
}

const HlShape *infer_unary_int(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  return hl_is_integral(q->in[0]->dtype) ? q->in[0] : wrong_type(q, "integral");
}

const HlShape *infer_not(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  HlDtype t = q->in[0]->dtype;
  return t == HL_PRED || hl_is_integral(t) ? q->in[0] : wrong_type(q, "pred or integral");
}

const HlShape *infer_is_finite(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  if (!hl_is_float(q->in[0]->dtype))
    return wrong_type(q, "floating");
  return hl_shape_with_dtype(q->shapes, q->in[0], HL_PRED);
}

// --- Conversions: the declared shape says to what -----------------------------------------------

const HlShape *infer_convert(const HlInfer *q) {
  const HlShape *x = q->in[0], *to = q->declared;
  if (to == NULL)
    return hl_infer_error(q, "cannot infer shape for opcode: convert; write the result's shape");
  if (!hl_is_array_dtype(x->dtype) || !hl_is_array_dtype(to->dtype))
    return hl_infer_error(q, "convert does not allow non-arrays, so cannot convert from %s to %s",
                          infer_text(q, x), hl_dtype_info[to->dtype].name);
  return hl_shape_with_dtype(q->shapes, x, to->dtype);
}

// Bits that count for bitcast-convert: pred is stored in a byte, packed types keep their width.
static int storage_bits(HlDtype dtype) {
  return dtype == HL_PRED ? 8 : hl_dtype_info[dtype].bits;
}

const HlShape *infer_bitcast_convert(const HlInfer *q) {
  const HlShape *x = q->in[0], *to = q->declared;
  if (to == NULL)
    return hl_infer_error(q, "cannot infer shape for opcode: bitcast-convert; write the result's "
                             "shape");
  if (!hl_is_array_dtype(x->dtype) || !hl_is_array_dtype(to->dtype))
    return hl_infer_error(q, "cannot convert from or to tuple type; requested conversion: %s => %s",
                          infer_text(q, x), hl_dtype_info[to->dtype].name);
  if (hl_is_complex(x->dtype) != hl_is_complex(to->dtype))
    return hl_infer_error(q, "conversion between complex and real type %s => %s", infer_text(q, x),
                          hl_dtype_info[to->dtype].name);
  int from_bits = storage_bits(x->dtype), to_bits = storage_bits(to->dtype);
  int wide = from_bits > to_bits ? from_bits : to_bits;
  int narrow = from_bits > to_bits ? to_bits : from_bits;
  if (narrow == 0 || wide % narrow != 0)
    return hl_infer_error(q, "cannot bitcast types with undivisible bit-widths: %s => %s",
                          type_name(x), hl_dtype_info[to->dtype].name);
  int64_t ratio = wide / narrow;
  if (ratio == 1)
    return hl_shape_with_dtype(q->shapes, x, to->dtype);
  InferDims dims = infer_dims(q, x->rank + 1);
  for (int d = 0; d < x->rank; d++) {
    dims.dim[d] = x->dim[d];
    dims.dynamic[d] = infer_dynamic(x, d);
  }
  if (from_bits > to_bits) {
    dims.dim[x->rank] = ratio;
    return infer_make(q, to->dtype, &dims);
  }
  if (x->rank == 0 || x->dim[x->rank - 1] != ratio)
    return hl_infer_error(q,
                          "last dimension of input is not equal to ratio of bit-widths=%" PRId64
                          " for bitcast-convert from %s to %s",
                          ratio, infer_text(q, x), hl_dtype_info[to->dtype].name);
  dims.rank = x->rank - 1;
  return infer_make(q, to->dtype, &dims);
}

const HlShape *infer_stochastic_convert(const HlInfer *q) {
  const HlShape *x = q->in[0], *random = q->in[1];
  if (!infer_array(q, 0, "lhs of stochastic convert operation") ||
      !infer_array(q, 1, "rhs of stochastic convert operation"))
    return NULL;
  if (q->declared == NULL || !hl_is_array_dtype(q->declared->dtype))
    return hl_infer_error(q,
                          "cannot infer shape for opcode: stochastic-convert; write the result's "
                          "array shape");
  if (!hl_is_unsigned(random->dtype))
    return hl_infer_error(q,
                          "random numbers for stochastic convert must be unsigned integers, but "
                          "got: %s",
                          infer_text(q, random));
  if (!hl_is_float(x->dtype))
    return hl_infer_error(q,
                          "stochastic convert supports only floating point operand conversion, "
                          "but got: %s",
                          infer_text(q, x));
  int x_bits = hl_dtype_info[x->dtype].bits, random_bits = hl_dtype_info[random->dtype].bits;
  if (x_bits != random_bits)
    return hl_infer_error(q,
                          "the random number is required to have same bits as the operand, but "
                          "got random bits: %d, operand bits: %d",
                          random_bits, x_bits);
  if (!hl_shape_same_dims(x, random))
    return hl_infer_error(q,
                          "stochastic convert operand shape does not match random tensor shape: "
                          "%s vs %s",
                          infer_text(q, x), infer_text(q, random));
  return hl_shape_with_dtype(q->shapes, x, q->declared->dtype);
}

const HlShape *infer_reduce_precision(const HlInfer *q) {
  if (!is_unary_array(q))
    return NULL;
  if (!hl_is_float(q->in[0]->dtype))
    return wrong_type(q, "floating point");
  int64_t exponent_bits = hl_attr_int(q->inst, HL_A_EXPONENT_BITS);
  int64_t mantissa_bits = hl_attr_int(q->inst, HL_A_MANTISSA_BITS);
  if (exponent_bits < 1)
    return hl_infer_error(q, "expected exponent_bits >= 1; got %" PRId64, exponent_bits);
  if (mantissa_bits < 0)
    return hl_infer_error(q, "expected non-negative mantissa_bits; got %" PRId64, mantissa_bits);
  if (exponent_bits > INT32_MAX || mantissa_bits > INT32_MAX)
    return hl_infer_error(
        q, "exponent_bits and mantissa_bits have 32 bits; got %" PRId64 " and %" PRId64,
        exponent_bits, mantissa_bits);
  return q->in[0];
}

// --- Two operands -------------------------------------------------------------------------------

static const HlShape *implicit_broadcast(const HlInfer *q, int a, int b) {
  const HlShape *x = q->in[a], *y = q->in[b];
  if (x->rank != y->rank && x->rank > 0 && y->rank > 0)
    return hl_infer_error(q, "shapes must be equal rank, but are %s and %s", infer_text(q, x),
                          infer_text(q, y));
  return hl_infer_error(q,
                        "binary op with incompatible shapes: %s and %s; implicit broadcast is not "
                        "allowed in HLO",
                        infer_text(q, x), infer_text(q, y));
}

// Joins two dimensions lists of equal sizes: dynamic where either is.
static const HlShape *join(const HlInfer *q, const HlShape *a, const HlShape *b, HlDtype dtype) {
  InferDims dims = infer_dims_of(q, a);
  bool unbounded = false;
  for (int d = 0; d < a->rank; d++) {
    if (infer_unbounded(a, d) && !infer_unbounded(b, d)) {
      dims.dim[d] = b->dim[d];
      dims.dynamic[d] = infer_dynamic(b, d);
    } else if (!infer_unbounded(b, d)) {
      dims.dynamic[d] |= infer_dynamic(b, d);
    }
    unbounded |= infer_unbounded(a, d);
  }
  if (unbounded)
    return infer_make(q, dtype, &dims);
  return hl_shape_with_dtype(q->shapes, infer_with_dynamism(q, a, dims.dynamic), dtype);
}

static const HlShape *infer_pairwise(const HlInfer *q) {
  const HlShape *a = q->in[0], *b = q->in[1];
  if (a == b && hl_is_array_dtype(a->dtype))
    return a;
  if (!infer_array(q, 0, "lhs of binary operation") ||
      !infer_array(q, 1, "rhs of binary operation"))
    return NULL;
  if (!infer_same_kind(a->dtype, b->dtype))
    return hl_infer_error(q, "binary op %s with different element types: %s and %s", infer_op(q),
                          infer_text(q, a), infer_text(q, b));
  if (a->rank != b->rank)
    return implicit_broadcast(q, 0, 1);
  for (int d = 0; d < a->rank; d++)
    if (!infer_sizes_fit(a->dim[d], b->dim[d]))
      return implicit_broadcast(q, 0, 1);
  return join(q, a, b, infer_wider(a->dtype, b->dtype));
}

static bool takes_pred(HlOp op) {
  return op == HL_OP_ADD || op == HL_OP_MULTIPLY || op == HL_OP_MAXIMUM || op == HL_OP_MINIMUM ||
         op == HL_OP_MULHI;
}

const HlShape *infer_binary(const HlInfer *q) {
  HlOp op = (HlOp)q->inst->op;
  HlDtype a = q->in[0]->dtype, b = q->in[1]->dtype;
  if ((a == HL_PRED || b == HL_PRED) && !takes_pred(op))
    return hl_infer_error(q,
                          "expected element type in shape to be arithmetic type for operation %s; "
                          "got PRED",
                          infer_op(q));
  if (op == HL_OP_ATAN2 && hl_is_array_dtype(a) && !hl_is_float(a) && !hl_is_complex(a))
    return hl_infer_error(q,
                          "expected input element type to be floating or complex for %s operation; "
                          "got %s",
                          infer_op(q), type_name(q->in[0]));
  return infer_pairwise(q);
}

const HlShape *infer_binary_logical(const HlInfer *q) {
  HlDtype a = q->in[0]->dtype;
  if (hl_is_array_dtype(a) && a != HL_PRED && !hl_is_integral(a))
    return hl_infer_error(q, "expected pred or integral type in argument to %s operation; got %s",
                          infer_op(q), type_name(q->in[0]));
  return infer_pairwise(q);
}

const HlShape *infer_compare(const HlInfer *q) {
  const HlShape *shape = infer_pairwise(q);
  return shape == NULL ? NULL : hl_shape_with_dtype(q->shapes, shape, HL_PRED);
}

const HlShape *infer_complex(const HlInfer *q) {
  HlDtype a = q->in[0]->dtype, b = q->in[1]->dtype;
  if (hl_is_array_dtype(a) && !hl_is_float(a))
    return hl_infer_error(q,
                          "expected element type in shape to be floating for complex compose "
                          "operation; got %s",
                          type_name(q->in[0]));
  const HlShape *shape = infer_pairwise(q);
  if (shape == NULL)
    return NULL;
  if (a != b || (a != HL_F32 && a != HL_F64))
    return hl_infer_error(q,
                          "complex component type is not implemented: expected F32 and F32 or F64 "
                          "and F64, got %s and %s",
                          type_name(q->in[0]), type_name(q->in[1]));
  return hl_shape_with_dtype(q->shapes, shape, a == HL_F32 ? HL_C64 : HL_C128);
}

// --- Three operands -----------------------------------------------------------------------------

const HlShape *infer_clamp(const HlInfer *q) {
  const HlShape *min = q->in[0], *x = q->in[1], *max = q->in[2];
  if (!infer_array(q, 0, "clamp min") || !infer_array(q, 1, "clamp operand") ||
      !infer_array(q, 2, "clamp max"))
    return NULL;
  if (!infer_same_kind(min->dtype, x->dtype) || !infer_same_kind(max->dtype, x->dtype))
    return hl_infer_error(q, "clamp with incompatible element types: %s, %s, %s",
                          infer_text(q, min), infer_text(q, x), infer_text(q, max));
  if ((min->rank > 0 && !hl_shape_same_dims(min, x)) ||
      (max->rank > 0 && !hl_shape_same_dims(max, x)))
    return hl_infer_error(q, "clamp with incompatible shapes: %s, %s, %s", infer_text(q, min),
                          infer_text(q, x), infer_text(q, max));
  return x;
}

const HlShape *infer_select(const HlInfer *q) {
  const HlShape *pred = q->in[0], *a = q->in[1], *b = q->in[2];
  if (!infer_array(q, 0, "select pred") || !infer_array(q, 1, "select on-true") ||
      !infer_array(q, 2, "select on-false"))
    return NULL;
  bool fit = infer_same_kind(a->dtype, b->dtype) && a->rank == b->rank;
  for (int d = 0; fit && d < a->rank; d++)
    fit = a->dim[d] == b->dim[d];
  if (!fit)
    return hl_infer_error(q, "operands to select must be the same shape; got %s and %s",
                          infer_text(q, a), infer_text(q, b));
  if (pred->dtype != HL_PRED)
    return hl_infer_error(q, "select's pred operand must have PRED element type; got %s",
                          infer_text(q, pred));
  if (pred->rank > 0 && !hl_shape_same_dims(pred, a))
    return hl_infer_error(q,
                          "operands to select and predicate must be the same shape; got %s and %s "
                          "and %s",
                          infer_text(q, a), infer_text(q, b), infer_text(q, pred));
  if (a == b && pred->dynamic == NULL && pred->rank == 0)
    return a;
  const HlShape *full = pred->rank == 0 ? a : pred;
  InferDims dims = infer_dims_of(q, full);
  for (int d = 0; d < full->rank; d++)
    dims.dynamic[d] |= infer_dynamic(a, d) || infer_dynamic(b, d);
  const HlShape *shape = infer_with_dynamism(q, full, dims.dynamic);
  return hl_shape_with_dtype(q->shapes, shape, infer_wider(a->dtype, b->dtype));
}
