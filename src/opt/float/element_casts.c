// opt/float/element_casts.c
//
// Passes about the element types of single ops:
//
//   result_caster        a product whose result is narrower than its operands' type: computed in
//                        that type, then converted
//   operand_upcaster     a product whose result is wider than its operands, or whose operands
//                        differ: operands are converted to the result's type first
//   change-op-data-type  products of one type computed in another
//   bitcast_dtypes_expander
//                        bitcast-convert between types of different widths as shifts
//
//   f16[4,4] dot(x, y)   =>   convert(f32[4,4] dot(convert(x), convert(y)))

#include <string.h>

#include "hilo/op.h"
#include "opt/ask/cpu_dot.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

// --- Products -----------------------------------------------------------------------------------

static bool is_product(const HlInst *inst) {
  return (inst->op == HL_OP_DOT || inst->op == HL_OP_CONVOLUTION) && inst->n_operands == 2 &&
         hl_shape_is_array(inst->shape);
}

// The element type that the op's own rule gives for its operands; HL_NO_DTYPE: none.
static HlDtype natural_dtype(HlPass *p, const HlInst *inst) {
  const HlShape *in[2] = {inst->operands[0]->shape, inst->operands[1]->shape};
  if (in[0]->dtype != in[1]->dtype && !(hl_is_float(in[0]->dtype) && hl_is_float(in[1]->dtype)))
    return HL_NO_DTYPE;
  const HlInfer question = {p->cx, p->m->shapes, inst, in, 2, NULL};
  const HlShape *shape = hl_infer(&question);
  return shape ? shape->dtype : HL_NO_DTYPE;
}

// Types of one kind, compared by how many numbers they tell apart.
static int precision_of(HlDtype dtype) {
  const HlDtypeInfo *info = &hl_dtype_info[dtype];
  if (info->kind != HL_KIND_FLOAT)
    return info->bits;
  switch (dtype) {
  case HL_F64: return 53;
  case HL_F32: return 24;
  case HL_F16: return 11;
  case HL_BF16: return 8;
  default: return info->format.mantissa_bits + 1;
  }
}

static bool may_recast(const HlInst *inst) {
  return is_product(inst) && !hl_has_attr(inst, HL_A_ALGORITHM) &&
         !hl_is_complex(inst->shape->dtype);
}

static HlInst *product_in(HlBuild *b, const HlInst *inst, HlDtype dtype, HlInst *const *operands) {
  const HlShape *shape = hl_shape_with_dtype(hl_b_module(b)->shapes, inst->shape, dtype);
  return hl_inst_copy(b->comp, inst, shape, 2, operands);
}

static HlInst *cast_result(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!may_recast(inst))
    return NULL;
  HlDtype natural = natural_dtype(p, inst), dtype = inst->shape->dtype;
  if (natural == HL_NO_DTYPE || natural == dtype ||
      hl_dtype_kind(natural) != hl_dtype_kind(dtype) ||
      precision_of(dtype) >= precision_of(natural))
    return NULL;
  return hl_b_convert(b, product_in(b, inst, natural, inst->operands), dtype);
}

static HlInst *upcast_operands(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!may_recast(inst))
    return NULL;
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  HlDtype dtype = inst->shape->dtype;
  if ((p->target->ynn && hl_cpu_library_takes(p, inst)) ||
      (hl_target_has_blocks(p->target) && dot_is_matrix_product(inst)))
    return NULL;
  if (x->shape->dtype == y->shape->dtype) {
    HlDtype natural = natural_dtype(p, inst);
    if (natural == HL_NO_DTYPE || natural == dtype || precision_of(dtype) < precision_of(natural))
      return NULL;
  }
  HlInst *operands[2] = {hl_b_convert(b, x, dtype), hl_b_convert(b, y, dtype)};
  return product_in(b, inst, dtype, operands);
}

// --- change-op-data-type ------------------------------------------------------------------------

static HlInst *change_type(HlPass *p, HlBuild *b, HlInst *inst) {
  HlDtype from = hl_dtype_by_text(hl_str(hl_pass_text(p, "from")));
  HlDtype to = hl_dtype_by_text(hl_str(hl_pass_text(p, "to")));
  if (!is_product(inst) || hl_has_attr(inst, HL_A_ALGORITHM) || from == HL_NO_DTYPE || to == from ||
      to == HL_NO_DTYPE || inst->operands[0]->shape->dtype != from ||
      inst->operands[1]->shape->dtype != from || (p->target->ynn && hl_cpu_library_takes(p, inst)))
    return NULL;
  HlInst *operands[2];
  for (int k = 0; k < 2; k++)
    operands[k] = hl_b_convert(b, inst->operands[k], to);
  return hl_b_convert(b, product_in(b, inst, to, operands), inst->shape->dtype);
}

const HlRule rules_result_caster[] = {
    {HL_OP_DOT, cast_result, "result_caster", "dot(x, y) => convert(dot(x, y))",
     "the result is narrower than the operands' type"},
    {HL_OP_CONVOLUTION, cast_result, "result_caster",
     "convolution(x, y) => convert(convolution(x, y))", "the same"},
    {0}};
const HlRule rules_operand_upcaster[] = {
    {HL_OP_DOT, upcast_operands, "operand_upcaster", "dot(x, y) => dot(convert(x), convert(y))",
     "the result is wider than the operands' type, or the operands' types differ"},
    {HL_OP_CONVOLUTION, upcast_operands, "operand_upcaster",
     "convolution(x, y) => convolution(convert(x), convert(y))", "the same"},
    {0}};
const HlRule rules_change_type[] = {
    {HL_OP_DOT, change_type, "change-op-data-type",
     "dot(x, y) => convert(dot(convert(x), convert(y)))", "operands of the type `from`"},
    {HL_OP_CONVOLUTION, change_type, "change-op-data-type",
     "convolution(x, y) => convert(convolution(convert(x), convert(y)))", "the same"},
    {0}};

// --- bitcast_dtypes_expander --------------------------------------------------------------------

static HlDtype unsigned_of(int bits) {
  switch (bits) {
  case 2: return HL_U2;
  case 4: return HL_U4;
  case 8: return HL_U8;
  case 16: return HL_U16;
  case 32: return HL_U32;
  case 64: return HL_U64;
  default: return HL_NO_DTYPE;
  }
}

// How far each of the narrow pieces of a wide number is from its lowest bit: 0, w, 2 w, ... along
// the last dimension.
static HlInst *distances(HlBuild *b, HlInst *like, int width) {
  if (!like)
    return NULL;
  const HlShape *s = like->shape;
  HlInst *at = hl_b_iota(b, s->dtype, s->rank, s->dim, s->rank - 1);
  return hl_b_binary(b, HL_OP_MULTIPLY, hl_b_like_int(b, like, width), at);
}

static HlInst *join_pieces(HlBuild *b, HlInst *x, int from, int to) {
  HlInst *pieces = hl_b_convert(b, hl_b_bitcast_convert(b, x, unsigned_of(from)), unsigned_of(to));
  HlInst *moved = hl_b_binary(b, HL_OP_SHIFT_LEFT, pieces, distances(b, pieces, from));
  const int64_t last = x->shape->rank - 1;
  return hl_b_reduce(b, HL_OP_OR, moved, hl_b_scalar_int(b, unsigned_of(to), 0),
                     (HlI64s){&last, 1});
}

// The same as one iota and one product, as since 0.11.
static HlInst *distances_at_once(HlBuild *b, HlInst *like, int width) {
  const HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = like->shape->rank - 1};
  HlInst *at = hl_b_op(b, HL_OP_IOTA, like->shape, 0, NULL, 1, &along, 0, NULL);
  return hl_b_binary(b, HL_OP_MULTIPLY, hl_b_like_int(b, like, width), at);
}

static HlInst *cut_pieces(HlPass *p, HlBuild *b, HlInst *x, const HlShape *shape, int from,
                          int to) {
  int64_t *all = HL_ARRAY(p->m->arena, int64_t, shape->rank);
  for (int d = 0; d < shape->rank - 1; d++)
    all[d] = d;
  const HlI64s onto = {all, shape->rank - 1};
  const bool at_once = hl_pass_since(p, HL_XLA_0_11);
  HlInst *wide = at_once ? hl_b_broadcast(b, x, shape->rank, shape->dim, onto)
                         : hl_b_bitcast_convert(b, x, unsigned_of(from));
  wide = !wide     ? NULL
         : at_once ? hl_b_bitcast_convert(b, wide, unsigned_of(from))
                   : hl_b_broadcast(b, wide, shape->rank, shape->dim, onto);
  if (!wide)
    return NULL;
  HlInst *moved = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, wide,
                              at_once ? distances_at_once(b, wide, to) : distances(b, wide, to));
  if (!moved)
    return NULL;
  HlInst *mask = hl_b_like_int(b, moved, (int64_t)(((uint64_t)1 << to) - 1));
  return hl_b_convert(b, hl_b_binary(b, HL_OP_AND, moved, mask), unsigned_of(to));
}

// Since 0.11 pieces are joined one by one: every n-th along the last dimension, which takes in the one before it.
static HlInst *join_slices(HlPass *p, HlBuild *b, HlInst *x, int from, int to) {
  const int rank = x->shape->rank, n = rank > 1 ? rank - 1 : 1, pieces = to / from;
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank), *start = HL_ARRAY(p->arena, int64_t, n);
  int64_t *limit = HL_ARRAY(p->arena, int64_t, n), *stride = HL_ARRAY(p->arena, int64_t, n);
  for (int d = 0; d < rank; d++)
    dim[d] = x->shape->dim[d];
  if (rank > 1)
    dim[n - 1] *= dim[n];
  for (int d = 0; d < n; d++) {
    limit[d] = dim[d];
    stride[d] = 1;
  }
  stride[n - 1] = pieces;
  HlInst *flat = hl_b_reshape(b, x, n, dim), *all = NULL;
  for (int k = 0; k < pieces; k++) {
    start[n - 1] = k;
    limit[n - 1] = dim[n - 1] - pieces + 1 + k;
    HlInst *slice = hl_b_slice(b, flat, start, limit, stride);
    HlInst *piece =
        hl_b_convert(b, hl_b_bitcast_convert(b, slice, unsigned_of(from)), unsigned_of(to));
    if (k > 0)
      piece = hl_b_binary(b, HL_OP_SHIFT_LEFT, piece, hl_b_like_int(b, piece, (int64_t)k * from));
    all = all ? hl_b_binary(b, HL_OP_OR, all, piece) : piece;
  }
  return rank > 1 ? all : hl_b_reshape(b, all, 0, NULL);
}

static HlInst *expand_bitcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  HlDtype in = x->shape->dtype, out = inst->shape->dtype;
  const int from = hl_dtype_info[in].bits, to = hl_dtype_info[out].bits;
  if (from == to || in == HL_PRED || out == HL_PRED || hl_is_complex(in) || hl_is_complex(out) ||
      unsigned_of(from) == HL_NO_DTYPE || unsigned_of(to) == HL_NO_DTYPE ||
      hl_shape_is_dynamic(x->shape))
    return NULL;
  HlInst *bits = from > to                       ? cut_pieces(p, b, x, inst->shape, from, to)
                 : hl_pass_since(p, HL_XLA_0_11) ? join_slices(p, b, x, from, to)
                                                 : join_pieces(b, x, from, to);
  return bits ? hl_b_bitcast_convert(b, bits, out) : NULL;
}

const HlRule rules_bitcast_dtypes[] = {
    {HL_OP_BITCAST_CONVERT, expand_bitcast, "bitcast_dtypes_expander",
     "bitcast-convert(x) => or of shifted pieces, or shifted and masked pieces",
     "element types of different widths"},
    {0}};
