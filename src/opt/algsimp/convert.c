// opt/algsimp/convert.c: algebraic rules of converts, bitcasts, copies, constants, iotas (C1-C15).
//
//   c = f32[8] convert(bf16[8] x)
//   ROOT r = bf16[8] convert(c)       =>   x          every bf16 is an f32
//
// Layout sensitive, a reshape or a copy that moves no byte becomes a bitcast.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/algsimp/dims.h"

// --- Convert -------------------------------------------------------------------------------------

HlInst *alg_c1_same_type(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  HlInst *x = inst->operands[0];
  return x->shape->dtype == inst->shape->dtype ? alg_existing(p, inst, x) : NULL;
}

static HlFloatFormat format_of(HlDtype dtype) {
  HlFloatFormat format = hl_dtype_info[dtype].format;
  if (format.bits != 0)
    return format;
  if (hl_dtype_info[dtype].bits == 32)
    return (HlFloatFormat){32, 8, 23, 127, HL_NAN_IEEE};
  return (HlFloatFormat){64, 11, 52, 1023, HL_NAN_IEEE};
}

static bool float_fits(HlDtype from, HlDtype in) {
  HlFloatFormat a = format_of(from), b = format_of(in);
  int top_a = (1 << a.exponent_bits) - a.bias, top_b = (1 << b.exponent_bits) - b.bias;
  return b.nan == HL_NAN_IEEE && b.mantissa_bits >= a.mantissa_bits && top_b >= top_a &&
         b.bias + b.mantissa_bits >= a.bias + a.mantissa_bits;
}

static bool int_fits_int(HlDtype from, HlDtype in) {
  int a = hl_dtype_info[from].bits, b = hl_dtype_info[in].bits;
  return hl_is_signed(from) ? hl_is_signed(in) && b >= a : b >= a + (hl_is_signed(in) ? 1 : 0);
}

// All whole numbers of the type, 0 and its largest included, are exact.
static bool int_fits_float(HlDtype from, HlDtype in) {
  HlFloatFormat format = format_of(in);
  int digits = hl_dtype_info[from].bits - (hl_is_signed(from) ? 1 : 0);
  return format.nan == HL_NAN_IEEE && format.mantissa_bits + 1 >= digits && format.bias >= digits;
}

// Every value of type `from` is a value of type `in`.
static bool values_fit(HlDtype from, HlDtype in) {
  if (from == in)
    return true;
  if (from == HL_PRED)
    return hl_is_integral(in) ? hl_dtype_info[in].bits > 1
                              : hl_is_float(in) && format_of(in).nan == HL_NAN_IEEE;
  if (hl_is_integral(from) && hl_is_integral(in))
    return int_fits_int(from, in);
  if (hl_is_integral(from) && hl_is_float(in))
    return int_fits_float(from, in);
  if (hl_is_float(from) && hl_is_float(in))
    return float_fits(from, in);
  if (hl_is_float(from) && hl_is_complex(in))
    return hl_dtype_info[in].bits / 2 == 64 || hl_dtype_info[from].bits <= 32;
  return from == HL_C64 && in == HL_C128;
}

HlInst *alg_c2_there_and_back(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  HlInst *inner = inst->operands[0];
  if (inner->op != HL_OP_CONVERT)
    return NULL;
  HlInst *x = inner->operands[0];
  if (x->shape->dtype != inst->shape->dtype || !values_fit(x->shape->dtype, inner->shape->dtype))
    return NULL;
  return alg_existing(p, inst, x);
}

static bool narrows(HlOp op, HlDtype dtype) {
  if (hl_op_facts(op)->divisor)  // of the least signed number by -1 it would overflow
    return hl_is_unsigned(dtype);
  return op == HL_OP_ADD || op == HL_OP_SUBTRACT || op == HL_OP_MULTIPLY;
}

static HlInst *widened(HlInst *inst, HlDtype from) {
  if (inst->op != HL_OP_CONVERT || !hl_one_user(inst))
    return NULL;
  return inst->operands[0]->shape->dtype == from ? inst->operands[0] : NULL;
}

HlInst *alg_c3_narrow_op(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *op = inst->operands[0];
  HlDtype narrow = inst->shape->dtype, wide = op->shape->dtype;
  if (!hl_is_integral(narrow) || !hl_is_integral(wide) ||
      hl_is_signed(narrow) != hl_is_signed(wide) || hl_dtype_info[narrow].bits < 8 ||
      !int_fits_int(narrow, wide) || !narrows((HlOp)op->op, wide) || !hl_one_user(op))
    return NULL;
  HlInst *x = widened(op->operands[0], narrow), *y = widened(op->operands[1], narrow);
  return x && y ? alg_shaped(hl_b_binary(b, (HlOp)op->op, x, y), inst->shape) : NULL;
}

static HlInst *constant_of(HlBuild *b, const HlLiteral *value, const HlShape *shape) {
  HlAttr attr = {.key = HL_A_VALUE, .ptr = value};
  return hl_b_op(b, HL_OP_CONSTANT, shape, 0, NULL, 1, &attr, 0, NULL);
}

HlInst *alg_c4_convert_constant(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  int to = hl_dtype_info[inst->shape->dtype].bits;
  if (!alg_options(p)->use_convert_constant_folding || !hl_is_constant(x) || !hl_one_user(x) ||
      to > hl_dtype_info[x->shape->dtype].bits || to < 8)
    return NULL;
  HlLiteral *value = hl_literal_convert(p->cx, hl_constant(x), inst->shape->dtype);
  if (!value)
    return NULL;
  HlInst *constant = constant_of(b, value, inst->shape);
  hl_literal_unref(value);
  return constant;
}

HlInst *alg_c13_reduce_precision(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  HlFloatFormat own = format_of(inst->shape->dtype);
  if (!alg_options(p)->enable_remove_no_op_reduce_precision ||
      hl_attr_int(inst, HL_A_EXPONENT_BITS) != own.exponent_bits ||
      hl_attr_int(inst, HL_A_MANTISSA_BITS) != own.mantissa_bits)
    return NULL;
  return alg_existing(p, inst, inst->operands[0]);
}

// --- Bitcast-convert -----------------------------------------------------------------------------

// Whether `to` is what a bitcast-convert of `from` to its element type gives: equal sizes, or one
// more dimension on the side of the narrower type, which makes up for the widths.
static bool converts_bits(const HlShape *from, const HlShape *to) {
  int a = hl_dtype_info[from->dtype].bits, c = hl_dtype_info[to->dtype].bits;
  if (a == c)
    return hl_shape_same_dims(from, to);
  const HlShape *longer = a > c ? to : from, *shorter = a > c ? from : to;
  int wide = a > c ? a : c, slim = a > c ? c : a;
  if (longer->rank != shorter->rank + 1 || longer->dim[shorter->rank] * slim != wide)
    return false;
  for (int d = 0; d < shorter->rank; d++)
    if (longer->dim[d] != shorter->dim[d])
      return false;
  return true;
}

HlInst *alg_c5_bitcast_converts(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op == HL_OP_BITCAST_CONVERT) {
    HlInst *source = x->operands[0];
    if (source->shape->dtype == inst->shape->dtype)
      return alg_existing(p, inst, source);
    if (!alg_static(inst) || !alg_static(x) || !converts_bits(source->shape, inst->shape))
      return NULL;
    return alg_shaped(hl_b_bitcast_convert(b, source, inst->shape->dtype), inst->shape);
  }
  return x->shape->dtype == inst->shape->dtype ? alg_existing(p, inst, x) : NULL;
}

// The last dimension is the minor one, and its elements follow each other without gaps.
static bool ends_dense(const HlShape *shape) {
  if (!shape->layout || shape->rank == 0 || shape->layout->minor_to_major.n != shape->rank ||
      shape->layout->minor_to_major.at[0] != shape->rank - 1)
    return false;
  const HlLayoutExtra *extra = shape->layout->extra;
  int bits = hl_dtype_info[shape->dtype].bits;
  if (extra && (extra->n_tiles > 0 || extra->n_splits > 0))
    return false;
  return extra && extra->element_bits > 0 ? extra->element_bits == bits : bits % 8 == 0;
}

// Of arrays of different widths the longer one without its last dimension must lie as the other
// does.
static bool same_bytes(HlShapes *shapes, const HlShape *from, const HlShape *to) {
  if (from->rank == to->rank)
    return hl_shape_with_dtype(shapes, from, to->dtype) == to;
  const HlShape *longer = from->rank > to->rank ? from : to;
  const HlShape *shorter = from->rank > to->rank ? to : from;
  if (!ends_dense(longer) || !shorter->layout || shorter->layout->extra || longer->layout->extra)
    return false;
  HlI64s order = longer->layout->minor_to_major;
  return hl_i64s_equal((HlI64s){order.at + 1, order.n - 1}, shorter->layout->minor_to_major);
}

HlInst *alg_c6_bitcast(HlPass *p, HlBuild *b, HlInst *inst) {
  const AlgSimp *options = alg_options(p);
  HlInst *x = inst->operands[0];
  if (!options->layout_sensitive || !options->rewrite_no_op_bitcast_convert_to_bitcast ||
      !alg_static(inst) || !same_bytes(p->m->shapes, x->shape, inst->shape))
    return NULL;
  return alg_bitcast(b, x, inst->shape);
}

// --- Bitcast -------------------------------------------------------------------------------------

static bool may_touch_bitcast(const HlPass *p, const HlInst *inst) {
  return alg_sensitive(p) && (!inst->control || inst->control->n_preds == 0);
}

HlInst *alg_c7_bitcasts(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (!may_touch_bitcast(p, inst))
    return NULL;
  if (x->op == HL_OP_BITCAST && may_touch_bitcast(p, x))
    return x->operands[0]->shape == inst->shape ? x->operands[0]
                                                : alg_bitcast(b, x->operands[0], inst->shape);
  return alg_existing(p, inst, x);
}

static bool is_plain(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) && shape->layout &&
         shape->layout->minor_to_major.n == shape->rank &&
         !(shape->layout->extra && shape->layout->extra->n_tiles > 0);
}

// bitcast(f(bitcast(x))) => bitcast(f(x)): the two bitcasts meet, and mostly cancel.
HlInst *alg_c7_through_unary(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *f = inst->operands[0];
  if (!may_touch_bitcast(p, inst) || f->n_operands != 1 || f->op == HL_OP_FUSION ||
      !hl_is_elementwise(f) || !hl_one_user(f))
    return NULL;
  HlInst *inner = f->operands[0];
  if (inner->op != HL_OP_BITCAST)
    return NULL;
  HlInst *x = inner->operands[0];
  HlDtype dtype = inst->shape->dtype;
  if (f->shape->dtype != dtype || inner->shape->dtype != dtype || x->shape->dtype != dtype ||
      !is_plain(inner->shape) || !is_plain(x->shape) || !is_plain(inst->shape))
    return NULL;
  HlInst *moved = alg_moved(f, x->shape, 1, &x);
  return alg_bitcast(b, moved, inst->shape);
}

// The dimensions of `from` in the order they have in `to`, if a bitcast between the two is a
// transpose: both have the same sizes from minor to major.
static bool as_transpose(const HlShape *from, const HlShape *to, int64_t *dims) {
  if (!is_plain(from) || !is_plain(to) || from->rank != to->rank || from->dtype != to->dtype)
    return false;
  for (int k = 0; k < from->rank; k++) {
    int64_t i = from->layout->minor_to_major.at[k], j = to->layout->minor_to_major.at[k];
    if (i < 0 || i >= from->rank || j < 0 || j >= from->rank || from->dim[i] != to->dim[j])
      return false;
    dims[j] = i;
  }
  return true;
}

HlInst *alg_c7_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (!may_touch_bitcast(p, inst) || x->op != HL_OP_BROADCAST)
    return NULL;
  int64_t *dims = alg_list(p, inst->shape->rank);
  if (!as_transpose(x->shape, inst->shape, dims))
    return NULL;
  HlI64s old = hl_dims(x);
  int64_t *at = alg_list(p, old.n);
  for (int k = 0; k < old.n; k++)
    at[k] = hl_i64s_find((HlI64s){dims, inst->shape->rank}, old.at[k]);
  if (!alg_ascending((HlI64s){at, old.n}))
    return NULL;
  return alg_broadcast(b, x->operands[0], inst->shape, (HlI64s){at, old.n});
}

// --- Copy ----------------------------------------------------------------------------------------

// The first of two copies goes to a memory that neither its operand nor the second one's result is
// in.
static bool goes_elsewhere(const HlInst *first, const HlInst *second) {
  int64_t space = hl_memory_space(first->shape);
  return space != hl_memory_space(second->shape) &&
         space != hl_memory_space(first->operands[0]->shape);
}

HlInst *alg_c8_copies(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op == HL_OP_COPY && !hl_has_control(x) && !goes_elsewhere(x, inst)) {
    HlInst *source = x->operands[0];
    return source->shape == inst->shape ? source : alg_copy(b, source, inst->shape);
  }
  return alg_existing(p, inst, x);
}

enum { CHAIN = 64 };  // copies and reshapes above one another that are looked through

// A copy or reshape of what lies in memory as its result does, perhaps some copies and reshapes
// higher up.
HlInst *alg_c8_r9_bitcast(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!alg_sensitive(p) ||
      hl_memory_space(inst->shape) != hl_memory_space(inst->operands[0]->shape))
    return NULL;
  HlInst *x = inst->operands[0];
  for (int step = 0; step < CHAIN; step++) {
    if (hl_reshape_is_bitcast(x->shape, inst->shape))
      return alg_bitcast(b, x, inst->shape);
    if (x->op != HL_OP_COPY && x->op != HL_OP_RESHAPE)
      return NULL;
    x = x->operands[0];
  }
  return NULL;
}

// Tiles may make one array larger than another of as many elements: a ninth more is the limit.
static bool grows_little(const HlShape *after, int64_t before) {
  int64_t bytes = hl_shape_buffer_bytes(after, 8);
  return bytes != INT64_MAX && before < INT64_MAX / 10 && bytes <= 10 * before / 9;
}

static int64_t bytes_of(const HlInst *inst) {
  int64_t bytes = hl_shape_buffer_bytes(inst->shape, 8);
  return bytes > INT64_MAX / 64 ? INT64_MAX / 64 : bytes;
}

// copy(reshape(x)) => bitcast(copy(x)), where a layout of x makes the reshape free.
HlInst *alg_c8_copy_of_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reshape = inst->operands[0];
  if (!alg_sensitive(p) || reshape->op != HL_OP_RESHAPE || !hl_one_user(reshape) ||
      hl_memory_space(inst->shape) != hl_memory_space(reshape->shape))
    return NULL;
  HlInst *x = reshape->operands[0];
  const HlShape *aligned = hl_align_layouts(p->m->shapes, inst->shape, x->shape);
  bool is_free = hl_reshape_is_bitcast(x->shape, reshape->shape);
  HlInst *before = x->op == HL_OP_COPY && hl_one_user(x) ? x : NULL;
  if (!aligned || (is_free && !before))
    return NULL;
  int64_t bytes =
      bytes_of(inst) + (is_free ? 0 : bytes_of(reshape)) + (before ? bytes_of(before) : 0);
  if (!grows_little(aligned, bytes))
    return NULL;
  if (before && before->operands[0]->shape == aligned)
    return alg_bitcast(b, before->operands[0], inst->shape);
  return alg_bitcast(b, alg_copy(b, x, aligned), inst->shape);
}

// reshape(copy(x)) => copy(bitcast(x)), where a layout of the result makes the reshape free.
HlInst *alg_c8_reshape_of_copy(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *copy = inst->operands[0];
  if (!alg_sensitive(p) || copy->op != HL_OP_COPY || !hl_one_user(copy))
    return NULL;
  HlInst *x = copy->operands[0];
  const HlShape *aligned = hl_align_layouts(p->m->shapes, x->shape, inst->shape);
  bool is_free = hl_reshape_is_bitcast(copy->shape, inst->shape);
  bool copied_after = hl_one_user(inst) && inst->first_use->user->op == HL_OP_COPY;
  if (!aligned || (is_free && !copied_after) || hl_memory_space(x->shape) == HL_SPACE_HOST ||
      hl_memory_space(x->shape) != hl_memory_space(inst->shape))
    return NULL;
  if (!grows_little(inst->shape, bytes_of(copy) + (is_free ? 0 : bytes_of(inst))))
    return NULL;
  HlInst *view = alg_bitcast(b, x, aligned);
  return aligned == inst->shape ? view : alg_copy(b, view, inst->shape);
}

// --- Constant and iota ---------------------------------------------------------------------------

HlInst *alg_c9_uniform(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  const HlLiteral *value = hl_splat(inst);
  if (!value || value->n < 2 || hl_shape_is_dynamic(inst->shape))
    return NULL;
  HlDtype dtype = inst->shape->dtype;
  const HlShape *shape = hl_shape_scalar(p->m->shapes, dtype);
  HlLiteral *scalar = hl_literal_new(p->cx, shape);
  if (!scalar)
    return NULL;
  memcpy(scalar->data, value->data, (size_t)hl_dtype_bytes(dtype));
  HlInst *constant = constant_of(b, scalar, shape);
  hl_literal_unref(scalar);
  return alg_broadcast(b, constant, inst->shape, (HlI64s){0});
}

// The step from element to element of 0, s, 2s, ...; 0: the elements are not such.
static int64_t step_of(const HlLiteral *value) {
  HlDtype dtype = value->shape->dtype;
  if (hl_is_float(dtype) || hl_is_complex(dtype)) {
    for (int64_t k = 0; k < value->n; k++)
      if (hl_literal_f64(value, k) != (double)k ||
          (hl_is_complex(dtype) && hl_literal_imag(value, k) != 0))
        return 0;
    return 1;
  }
  int64_t step = hl_literal_i64(value, 1);
  for (int64_t k = 0; k < value->n; k++) {
    int64_t expected;
    if (__builtin_mul_overflow(k, step, &expected) || hl_literal_i64(value, k) != expected)
      return 0;
  }
  return step;
}

HlInst *alg_c10_iota(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (!hl_is_constant(inst) || !hl_shape_is_array(inst->shape) || inst->shape->rank != 1 ||
      inst->shape->dtype == HL_PRED || hl_shape_is_dynamic(inst->shape))
    return NULL;
  const HlLiteral *value = hl_constant(inst);
  int64_t step = value->n < 2 ? 0 : step_of(value);
  if (step == 0)
    return NULL;
  HlInst *iota = alg_iota(b, inst->shape, 0);
  if (step == 1)
    return iota;
  return alg_shaped(hl_b_binary(b, HL_OP_MULTIPLY, iota, alg_full_int(b, inst->shape, step)),
                    inst->shape);
}

// One level: constants that are tuples in turn are met in the next round.
HlInst *alg_c11_tuple(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!hl_shape_is_tuple(inst->shape) || !hl_is_constant(inst))
    return NULL;
  const HlLiteral *value = hl_constant(inst);
  int n = inst->shape->rank;
  HlInst **elements = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    elements[k] = constant_of(b, value->element[k], inst->shape->element[k]);
  return hl_b_tuple(b, n, elements);
}

HlInst *alg_c12_iota_of_one(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  int64_t extent = inst->shape->dim[hl_attr_int(inst, HL_A_IOTA_DIMENSION)];
  return extent == 0 || extent == 1 ? alg_full(b, inst->shape, 0) : NULL;
}

// --- Custom calls --------------------------------------------------------------------------------

static bool is_element(const HlInst *inst, int64_t index) {
  return inst->op == HL_OP_GET_TUPLE_ELEMENT && hl_attr_int(inst, HL_A_INDEX) == index;
}

HlInst *alg_c14_slice_to_dynamic(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  (void)b;
  if (!hl_is_call(inst, HL_CALL_SLICE_TO_DYNAMIC) || inst->n_operands != 2 ||
      !is_element(inst->operands[0], 0) || !is_element(inst->operands[1], 1))
    return NULL;
  HlInst *pad = inst->operands[0]->operands[0];
  if (pad != inst->operands[1]->operands[0] || !hl_is_call(pad, HL_CALL_PAD_TO_STATIC) ||
      pad->n_operands != 1)
    return NULL;
  HlInst *x = pad->operands[0];
  return hl_shape_equal(x->shape, inst->shape) ? x : NULL;
}

HlInst *alg_c15_layout_constraint(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!alg_sensitive(p) || !hl_is_call(inst, HL_CALL_LAYOUT_CONSTRAINT) || inst->n_operands != 1)
    return NULL;
  HlInst *x = inst->operands[0];
  return x->shape == inst->shape ? x : alg_copy(b, x, inst->shape);
}
