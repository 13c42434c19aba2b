// Writes HLO as StableHLO or MHLO: values, constants, tuples, shapes and movement.
#include <string.h>

#include "ir/dialect.h"
#include "mlir/from_hlo/from_hlo.h"

// --- Values that no op gives ----------------------------------------------------------------------------

bool fh_rule_parameter(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue arg = f->env->args[hl_parameter_number(inst)];
  if (arg.n != out->n)
    return hl_inst_error(f->cx, inst, "the parameter has %d leaves, the argument %d", out->n,
                         arg.n);
  fh_copy(out, arg);
  return true;
}

bool fh_rule_tuple(Fh *f, const HlInst *inst, FhValue *out) {
  fh_copy(out, fh_operands(f, inst, 0, (int)inst->n_operands));
  return true;
}

bool fh_rule_get_tuple_element(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t index = hl_attr_int(inst, HL_A_INDEX), n;
  FhValue tuple = fh_operand(f, inst, 0);
  int64_t at = fh_leaf_at(inst->operands[0]->shape, (HlI64s){&index, 1}, &n);
  if (n != out->n || at + n > tuple.n)
    return hl_inst_error(f->cx, inst, "no element %lld of %d leaves", (long long)index, out->n);
  fh_copy(out, (FhValue){tuple.at + at, (int)n});
  return true;
}

bool fh_rule_first(Fh *f, const HlInst *inst, FhValue *out) {
  if (!inst->n_operands)
    return hl_inst_error(f->cx, inst, "no operand");
  fh_copy(out, fh_operand(f, inst, 0));
  return true;
}

bool fh_rule_second(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operand(f, inst, 0);
  int64_t one = 1, n, at = fh_leaf_at(inst->operands[0]->shape, (HlI64s){&one, 1}, &n);
  if (n != out->n)
    return hl_inst_error(f->cx, inst, "%d leaves, its start gives %lld", out->n, (long long)n);
  fh_copy(out, (FhValue){in.at + at, (int)n});
  return true;
}

bool fh_rule_last(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operand(f, inst, 0);
  if (!in.n || out->n != 1)
    return hl_inst_error(f->cx, inst, "no token");
  out->at[0] = in.at[in.n - 1];
  return true;
}

// --- Constants ------------------------------------------------------------------------------------------

static const HlMlAttr *elided(Fh *f, const HlMlType *type) {
  HlMlAttr *attr = HL_NEW(f->tree->arena, HlMlAttr);
  attr->kind = HL_ML_A_RESOURCE;
  attr->type = type;
  attr->sym = hl_ml_sym(f->tree, "__elided__");
  return attr;
}

static bool constant_leaves(Fh *f, const HlInst *inst, const HlLiteral *literal,
                            const HlShape *shape, HlMlValue ***at) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      if (!constant_leaves(f, inst, literal && literal->element ? literal->element[k] : NULL,
                           shape->element[k], at))
        return false;
    return true;
  }
  const HlMlType *type = fh_type(f, shape);
  if (!type)
    return false;
  if (shape->dtype == HL_TOKEN) {
    *(*at)++ = fh_make(f, ML_STABLEHLO_CREATE_TOKEN, 0, NULL, type);
    return true;
  }
  bool is_known = literal && !(literal->flags & HL_LIT_ELIDED);
  if (!is_known)
    fh_lose(f, FH_LOSS_ELIDED, inst);
  HlMlOp *op = fh_op(f, ML_STABLEHLO_CONSTANT, 0, NULL, 1, &type, 0);
  fh_set(f, op, ML_A_VALUE, is_known ? hl_ml_dense_of(f->tree, literal) : elided(f, type));
  *(*at)++ = &op->results[0];
  return true;
}

bool fh_rule_constant(Fh *f, const HlInst *inst, FhValue *out) {
  HlMlValue **at = out->at;
  return constant_leaves(f, inst, hl_constant(inst), inst->shape, &at);
}

// --- The same bytes ----------------------------------------------------------------------------------------

bool fh_rule_copy(Fh *f, const HlInst *inst, FhValue *out) {
  if (!f->mhlo && inst->shape->dtype == inst->operands[0]->shape->dtype)
    return fh_rule_first(f, inst, out);
  FhValue in = fh_operands(f, inst, 0, 1);
  fh_unify(f, inst, &in);
  if (!f->mhlo) {
    fh_copy(out, in);
    return true;
  }
  for (int k = 0; k < out->n; k++)
    out->at[k] = fh_make(f, ML_MHLO_COPY, 1, &in.at[k], in.at[k]->type);
  return true;
}

static bool is_pred_or_byte(HlDtype dtype) {
  return dtype == HL_PRED || dtype == HL_U8 || dtype == HL_S8;
}

// A pred is a byte in HLO and a bit in MLIR.
static bool is_pred_cast(HlDtype a, HlDtype b) {
  return a != b && (a == HL_PRED || b == HL_PRED) && is_pred_or_byte(a) && is_pred_or_byte(b);
}

bool fh_rule_bitcast_convert(Fh *f, const HlInst *inst, FhValue *out) {
  if (!is_pred_cast(inst->operands[0]->shape->dtype, inst->shape->dtype))
    return fh_default(f, inst, out);
  const HlMlType *type = fh_type(f, inst->shape);
  HlMlValue *in = fh_in(f, inst, 0);
  return type && (out->at[0] = fh_make(f, ML_STABLEHLO_CONVERT, 1, &in, type));
}

static HlMlValue *transpose(Fh *f, HlMlValue *x, HlI64s permutation) {
  bool moves = false;
  int64_t *dim = HL_ARRAY(f->arena, int64_t, permutation.n + 1);
  for (int k = 0; k < permutation.n; k++) {
    moves |= permutation.at[k] != k;
    dim[k] = x->type->dim[permutation.at[k]];
  }
  if (!moves)
    return x;
  HlMlValue *to = fh_make(f, ML_STABLEHLO_TRANSPOSE, 1, &x,
                          fh_tensor(f, permutation.n, dim, hl_ml_element(x->type)));
  fh_set(f, to->def, ML_A_PERMUTATION, fh_ints(f, permutation));
  return to;
}

static HlMlValue *reshape(Fh *f, HlMlValue *x, int rank, const int64_t *dim) {
  const HlMlType *type = fh_tensor(f, rank, dim, hl_ml_element(x->type));
  return type == x->type ? x : fh_make(f, ML_STABLEHLO_RESHAPE, 1, &x, type);
}

// Dimensions from major to minor; false if the layout is not an order.
static bool major_to_minor(Fh *f, const HlShape *shape, int64_t *order) {
  const HlLayout *layout = shape->layout;
  bool *seen = HL_ARRAY(f->arena, bool, shape->rank + 1);
  bool is_set = layout && layout->minor_to_major.n == shape->rank;
  for (int k = 0; k < shape->rank; k++) {
    int64_t d = is_set ? layout->minor_to_major.at[shape->rank - 1 - k] : k;
    if (d < 0 || d >= shape->rank || seen[d])
      return false;
    seen[d] = true;
    order[k] = d;
  }
  return true;
}

static const HlI64s *first_tile(const HlShape *shape) {
  const HlLayoutExtra *extra = shape->layout ? shape->layout->extra : NULL;
  return extra && extra->n_tiles ? &extra->tiles[0] : NULL;
}

// Whether two shapes have the same dimensions in memory, those of size 1 apart.
static bool same_but_ones(const HlShape *a, const int64_t *a_order, const HlShape *b,
                          const int64_t *b_order) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a->rank && a->dim[a_order[i]] == 1)
      i++;
    while (j < b->rank && b->dim[b_order[j]] == 1)
      j++;
    if (i == a->rank || j == b->rank)
      return i == a->rank && j == b->rank;
    if (a->dim[a_order[i++]] != b->dim[b_order[j++]])
      return false;
  }
}

// Whether the rows of tiles are full, and how long they are.
static bool has_whole_tiles(const HlShape *shape, const int64_t *order, const HlI64s *tile,
                            int64_t *row) {
  if (shape->rank < 2 || !tile || tile->n > 2 || tile->n < 1 || tile->at[0] < 1)
    return false;
  *row = shape->dim[order[shape->rank - 1]];
  return tile->n == 1 || shape->dim[order[shape->rank - 2]] % tile->at[0] == 0;
}

// Tiles mix dimensions, so that the order of dimensions says where the bytes are only while the tiled ones stay.
static bool tiles_stay(const HlShape *from, const int64_t *order, const HlShape *to,
                       const int64_t *into) {
  const HlI64s *a = first_tile(from), *b = first_tile(to);
  if (!a && !b)
    return true;
  if (from->dtype != to->dtype)
    return false;
  if (same_but_ones(from, order, to, into))
    return true;
  int64_t row, to_row;
  return has_whole_tiles(from, order, a, &row) && has_whole_tiles(to, into, b, &to_row) &&
         row == to_row && hl_i64s_equal(*a, *b);
}

// Elements of another width: through a list of the wider ones.
static HlMlValue *cast_elements(Fh *f, HlMlValue *x, HlDtype from, HlDtype to) {
  if (from == to)
    return x;
  const HlMlType *element = hl_ml_dtype_type(f->tree, to);
  int bits = hl_dtype_info[from].bits, to_bits = hl_dtype_info[to].bits;
  const HlMlRow op = is_pred_cast(from, to) ? ML_STABLEHLO_CONVERT : ML_STABLEHLO_BITCAST_CONVERT;
  if (bits == to_bits || is_pred_cast(from, to))
    return fh_make(f, op, 1, &x, fh_with_element(f, x->type, element));
  int64_t n = hl_ml_elements(x->type);
  if (to_bits < bits && bits % to_bits == 0) {
    const int64_t dim[2] = {n, bits / to_bits};
    x = reshape(f, x, 1, dim);
    return fh_make(f, op, 1, &x, fh_tensor(f, 2, dim, element));
  }
  if (bits == 0 || to_bits % bits || n % (to_bits / bits))
    return NULL;
  const int64_t dim[2] = {n / (to_bits / bits), to_bits / bits};
  x = reshape(f, x, 2, dim);
  return fh_make(f, op, 1, &x, fh_tensor(f, 1, dim, element));
}

static bool has_order(const HlShape *shape) {
  return shape->layout && !hl_layout_is_default(shape->layout);
}

// The operand's elements in the order of memory, as the result's, put into its order. MHLO's op knows no layouts.
bool fh_rule_bitcast(Fh *f, const HlInst *inst, FhValue *out) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  if (f->mhlo && !has_order(from) && !has_order(to))
    return fh_default(f, inst, out);
  if (!hl_shape_is_array(from) || !hl_shape_is_array(to))
    return hl_shape_equal(from, to) ? fh_rule_first(f, inst, out)
                                    : fh_error(f, inst, "a bitcast of tuples");
  int64_t *order = HL_ARRAY(f->arena, int64_t, from->rank + 1),
          *into = HL_ARRAY(f->arena, int64_t, to->rank + 1);
  if (!major_to_minor(f, from, order) || !major_to_minor(f, to, into))
    return hl_inst_error(f->cx, inst, "a layout that is not an order of dimensions");
  if (!tiles_stay(from, order, to, into))
    return fh_error(f, inst, "it moves tiles: %s to %s", hl_shape_text(f->cx, from),
                    hl_shape_text(f->cx, to));
  HlMlValue *x = cast_elements(f, transpose(f, fh_in(f, inst, 0), (HlI64s){order, from->rank}),
                               from->dtype, to->dtype);
  int64_t *dim = HL_ARRAY(f->arena, int64_t, to->rank + 1),
          *back = HL_ARRAY(f->arena, int64_t, to->rank + 1);
  for (int k = 0; k < to->rank; k++) {
    dim[k] = to->dim[into[k]];
    back[into[k]] = k;
  }
  if (!x || hl_ml_elements(x->type) != hl_shape_elements(to))
    return fh_error(f, inst, "%s and %s are not the same bytes", hl_shape_text(f->cx, from),
                    hl_shape_text(f->cx, to));
  out->at[0] = transpose(f, reshape(f, x, to->rank, dim), (HlI64s){back, to->rank});
  return true;
}

// --- Broadcast, dynamic slices ------------------------------------------------------------------------------

bool fh_rule_broadcast(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  FhValue in = fh_operands(f, inst, 0, 1);
  fh_unify(f, inst, &in);
  out->at[0] = fh_make(f, ML_STABLEHLO_BROADCAST_IN_DIM, 1, in.at, type);
  fh_set(f, out->at[0]->def, ML_A_BROADCAST_DIMENSIONS, fh_ints(f, hl_dims(inst)));
  return true;
}

// The start indices: scalars, or in old programs one vector.
static FhValue start_indices(Fh *f, const HlInst *inst, int from, int rank) {
  FhValue in = fh_operands(f, inst, from, (int)inst->n_operands);
  if (in.n != 1 || in.at[0]->type->rank != 1)
    return in;
  FhValue starts = fh_value(f, rank);
  HlMlValue *all = in.at[0];
  const int64_t one = 1;
  for (int64_t k = 0; k < rank; k++) {
    const int64_t end = k + 1;
    HlMlValue *cut =
        fh_make(f, ML_STABLEHLO_SLICE, 1, &all, fh_tensor(f, 1, &one, hl_ml_element(all->type)));
    fh_set(f, cut->def, ML_A_START_INDICES, fh_ints(f, (HlI64s){&k, 1}));
    fh_set(f, cut->def, ML_A_LIMIT_INDICES, fh_ints(f, (HlI64s){&end, 1}));
    fh_set(f, cut->def, ML_A_STRIDES, fh_ints(f, (HlI64s){&one, 1}));
    starts.at[k] = reshape(f, cut, 0, NULL);
  }
  return starts;
}

static bool put_dynamic(Fh *f, const HlInst *inst, HlMlRow row, int n_arrays, FhValue *out) {
  if ((int)inst->n_operands < n_arrays)
    return hl_inst_error(f->cx, inst, "%u operands", inst->n_operands);
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  FhValue arrays = fh_operands(f, inst, 0, n_arrays);
  fh_unify(f, inst, &arrays);
  FhValue starts = start_indices(f, inst, n_arrays, inst->operands[0]->shape->rank);
  FhValue all = fh_value(f, arrays.n + starts.n);
  memcpy(all.at, arrays.at, (size_t)arrays.n * sizeof *all.at);
  if (starts.n)
    memcpy(all.at + arrays.n, starts.at, (size_t)starts.n * sizeof *all.at);
  out->at[0] = fh_make(f, row, all.n, all.at, type);
  return fh_fill(f, out->at[0]->def, inst);
}

bool fh_rule_dynamic_slice(Fh *f, const HlInst *inst, FhValue *out) {
  return put_dynamic(f, inst, ML_STABLEHLO_DYNAMIC_SLICE, 1, out);
}

bool fh_rule_dynamic_update_slice(Fh *f, const HlInst *inst, FhValue *out) {
  return put_dynamic(f, inst, ML_STABLEHLO_DYNAMIC_UPDATE_SLICE, 2, out);
}

// The sizes become one vector.
bool fh_rule_dynamic_reshape(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType *type = fh_type(f, inst->shape);
  if (!type)
    return false;
  int n = (int)inst->n_operands - 1;
  const int64_t one = 1, rank = n;
  if (n < 1)
    return fh_error(f, inst, "a reshape to rank 0");
  FhValue sizes = fh_operands(f, inst, 1, n + 1);
  for (int k = 0; k < sizes.n; k++)
    sizes.at[k] = reshape(f, sizes.at[k], 1, &one);
  const HlMlType *vector = fh_tensor(f, 1, &rank, hl_ml_element(sizes.at[0]->type));
  HlMlValue *shape = fh_make(f, ML_STABLEHLO_CONCATENATE, sizes.n, sizes.at, vector);
  fh_set(f, shape->def, ML_A_DIMENSION, hl_ml_i64(f->tree, 0));
  HlMlValue *const in[2] = {fh_in(f, inst, 0), shape};
  out->at[0] = fh_make(f, ML_STABLEHLO_DYNAMIC_RESHAPE, 2, in, type);
  return true;
}

// --- The largest and the smallest ----------------------------------------------------------------------------

// (a, b, i, j) -> a < b
static void put_less(Fh *f, HlMlOp *sort, bool is_float) {
  HlMlBlock *outer = f->block;
  f->block = hl_ml_block(f->tree, &sort->regions[0]);
  for (int k = 0; k < 2; k++)
    for (int side = 0; side < 2; side++)
      hl_ml_arg(f->tree, f->block, fh_tensor(f, 0, NULL, hl_ml_element(sort->operands[k]->type)));
  const HlMlType *i1 = fh_tensor(f, 0, NULL, hl_ml_int_type(f->tree, 1, HL_ML_SIGNLESS));
  HlMlValue *less = fh_make(f, ML_STABLEHLO_COMPARE, 2, f->block->args, i1);
  fh_set(f, less->def, ML_A_COMPARISON_DIRECTION, fh_enum(f, ML_D_DIRECTION, HL_WORD_direction_LT));
  if (is_float)
    fh_set(f, less->def, ML_A_COMPARE_TYPE,
           fh_enum(f, ML_D_COMPARE, HL_WORD_comparison_type_TOTALORDER));
  fh_op(f, ML_STABLEHLO_RETURN, 1, &less, 0, NULL, 0);
  f->block = outer;
}

// The smallest: a stable sort of the values with their places, then the first k of both.
static bool put_smallest(Fh *f, const HlInst *inst, const HlMlType *const *types, FhValue *out) {
  HlMlValue *x = fh_in(f, inst, 0);
  int last = x->type->rank - 1;
  if (last < 0)
    return hl_inst_error(f->cx, inst, "topk of a scalar");
  HlMlValue *place =
      fh_make(f, ML_STABLEHLO_IOTA, 0, NULL, fh_with_element(f, x->type, hl_ml_element(types[1])));
  fh_set(f, place->def, ML_A_IOTA_DIMENSION, hl_ml_i64(f->tree, last));
  HlMlValue *const both[2] = {x, place};
  const HlMlType *const sorted_types[2] = {x->type, place->type};
  HlMlOp *sort = fh_op(f, ML_STABLEHLO_SORT, 2, both, 2, sorted_types, 1);
  fh_set(f, sort, ML_A_DIMENSION, hl_ml_i64(f->tree, last));
  fh_set(f, sort, ML_A_IS_STABLE, hl_ml_bool(f->tree, true));
  put_less(f, sort, hl_is_float(inst->operands[0]->shape->dtype));
  int64_t *zeros = HL_ARRAY(f->arena, int64_t, last + 1),
          *ones = HL_ARRAY(f->arena, int64_t, last + 1);
  for (int k = 0; k <= last; k++)
    ones[k] = 1;
  for (int k = 0; k < 2; k++) {
    HlMlValue *from = &sort->results[k];
    out->at[k] = fh_make(f, ML_STABLEHLO_SLICE, 1, &from, types[k]);
    fh_set(f, out->at[k]->def, ML_A_START_INDICES, fh_ints(f, (HlI64s){zeros, last + 1}));
    fh_set(f, out->at[k]->def, ML_A_LIMIT_INDICES, fh_ints(f, (HlI64s){types[k]->dim, last + 1}));
    fh_set(f, out->at[k]->def, ML_A_STRIDES, fh_ints(f, (HlI64s){ones, last + 1}));
  }
  return true;
}

bool fh_rule_topk(Fh *f, const HlInst *inst, FhValue *out) {
  if (f->mhlo)
    return fh_default(f, inst, out);
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || n != 2)
    return types && hl_inst_error(f->cx, inst, "topk gives values and indices");
  if (hl_attr_int(inst, HL_A_LARGEST) != 1)
    return put_smallest(f, inst, types, out);
  HlMlValue *in = fh_in(f, inst, 0);
  HlMlOp *op = fh_op(f, ML_CHLO_TOP_K, 1, &in, 2, types, 0);
  fh_set(f, op, ML_A_K, hl_ml_i64(f->tree, hl_attr_int(inst, HL_A_K)));
  // A release that cannot say so reads no word of it in StableHLO either.
  const HlAlways *always = hl_op_always(HL_OP_TOPK, HL_A_IS_STABLE);
  const bool can_say = dialect_is_since(f->m->dialect, always->since);
  if (can_say && !hl_attr_int(inst, HL_A_IS_STABLE))
    fh_set(f, op, ML_A_IS_STABLE, hl_ml_bool(f->tree, false));
  fh_results(op, out);
  return true;
}

bool fh_rule_tuple_select(Fh *f, const HlInst *inst, FhValue *out) {
  HlMlValue *pred = fh_in(f, inst, 0);
  FhValue yes = fh_operand(f, inst, 1), no = fh_operand(f, inst, 2);
  if (yes.n != out->n || no.n != out->n)
    return hl_inst_error(f->cx, inst, "tuples of different sizes");
  for (int k = 0; k < out->n; k++) {
    HlMlValue *const in[3] = {pred, yes.at[k], no.at[k]};
    out->at[k] = fh_make(f, ML_STABLEHLO_SELECT, 3, in, yes.at[k]->type);
  }
  return true;
}
