// Identities of single ops: x + 0, reshapes of reshapes, selects that do not choose.
#include <string.h>

#include "mlir/refine/simplify.h"

void sm_become(Simplify *s, HlMlOp *op, HlMlRow row, uint32_t n_operands) {
  ml_rename(s->tree, op, row, (HlMlDialect)op->dialect);
  op->n_operands = n_operands;
  op->attrs = NULL;
  op->n_attrs = 0;
  op->attr_room = 0;
}

static bool is(Simplify *s, HlMlOp *op, HlMlValue *value) {
  if (value->type != op->results[0].type)
    return false;
  sm_alias(s, &op->results[0], value);
  return true;
}

static HlMlOp *def_of(const HlMlValue *value, int row) {
  return value->def && value->def->row == row ? value->def : NULL;
}

static bool is_integer(const HlMlValue *value) {
  HlDtype dtype = hl_ml_dtype(value->type);
  return dtype != HL_NO_DTYPE && (hl_is_integral(dtype) || dtype == HL_PRED);
}

// --- Arithmetic ----------------------------------------------------------------------------------------------

static bool all_ones(const HlMlValue *value) {
  int64_t bits;
  HlDtype dtype = hl_ml_dtype(value->type);
  if (!sm_int(value, &bits))
    return false;
  if (dtype == HL_PRED)
    return bits == 1;
  int width = hl_dtype_info[dtype].bits;
  return width >= 64
             ? bits == -1
             : ((uint64_t)bits & ((UINT64_C(1) << width) - 1)) == (UINT64_C(1) << width) - 1;
}

// Constants stand on the right of ops that commute.
static void put_right(HlMlOp *op) {
  int hlo = ml_row_of(op)->hlo;
  if (op->n_operands != 2 || hlo == HL_OP_NO || !(hl_op_info[hlo].traits & HL_T_COMMUTES) ||
      !sm_constant(op->operands[0]) || sm_constant(op->operands[1]))
    return;
  HlMlValue *swap = op->operands[0];
  op->operands[0] = op->operands[1];
  op->operands[1] = swap;
}

static bool becomes_zero(Simplify *s, HlMlOp *op) {
  uint64_t zero[2] = {0};
  return hl_ml_is_static(op->results[0].type) &&
         sm_becomes_constant(s, op, hl_ml_dense(s->tree, op->results[0].type, zero, 1, true));
}

static bool binary(Simplify *s, HlMlOp *op) {
  HlMlValue *x = op->operands[0], *y = op->operands[1];
  bool zero = sm_is_all(y, 0), one = sm_is_all(y, 1);
  switch (op->row) {
  case ML_STABLEHLO_ADD: return zero && is(s, op, x);
  case ML_STABLEHLO_SUBTRACT:
    if (x == y && is_integer(x))
      return becomes_zero(s, op);
    return zero && is(s, op, x);
  case ML_STABLEHLO_MULTIPLY:
    if (zero && is_integer(x))
      return is(s, op, y);
    return one && is(s, op, x);
  case ML_STABLEHLO_AND:
    if (zero)
      return is(s, op, y);
    return all_ones(y) && is(s, op, x);
  case ML_STABLEHLO_OR:
    if (all_ones(y))
      return is(s, op, y);
    return zero && is(s, op, x);
  case ML_STABLEHLO_XOR:
    if (x == y && is_integer(x))
      return becomes_zero(s, op);
    return zero && is(s, op, x);
  default: return false;
  }
}

static bool select_op(Simplify *s, HlMlOp *op) {
  int64_t pred;
  if (op->operands[1] == op->operands[2])
    return is(s, op, op->operands[1]);
  if (sm_int(op->operands[0], &pred))
    return is(s, op, op->operands[pred ? 1 : 2]);
  HlMlOp *no = def_of(op->operands[0], ML_STABLEHLO_NOT);
  if (no) {
    HlMlValue *swap = op->operands[1];
    op->operands[0] = no->operands[0];
    op->operands[1] = op->operands[2];
    op->operands[2] = swap;
  }
  return false;
}

// An integer compared with itself, a truth value with a constant.
static bool compare_op(Simplify *s, HlMlOp *op) {
  int64_t truth;
  int64_t how = ml_attr_int(op, ML_A_COMPARISON_DIRECTION, 0);
  if (hl_ml_dtype(op->operands[0]->type) == HL_PRED && sm_int(op->operands[1], &truth) &&
      how == (truth ? HL_WORD_direction_EQ : HL_WORD_direction_NE))
    return is(s, op, op->operands[0]);
  if (op->operands[0] != op->operands[1] || !is_integer(op->operands[0]) ||
      !hl_ml_is_static(op->results[0].type))
    return false;
  uint8_t holds =
      how == HL_WORD_direction_EQ || how == HL_WORD_direction_GE || how == HL_WORD_direction_LE;
  return sm_becomes_constant(s, op, hl_ml_dense(s->tree, op->results[0].type, &holds, 1, true));
}

// --- Shapes --------------------------------------------------------------------------------------------------------

static bool is_identity_list(HlI64s list) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] != k)
      return false;
  return true;
}

static bool ascends(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k] <= list.at[k - 1])
      return false;
  return true;
}

static void become_reshape(Simplify *s, HlMlOp *op) {
  const HlMlAttr *sharding = ml_attr(op, ML_A_MHLO_SHARDING),
                 *frontend = ml_attr(op, ML_A_MHLO_FRONTEND_ATTRIBUTES);
  sm_become(s, op, ML_STABLEHLO_RESHAPE, 1);
  if (sharding)
    ml_set_attr(s->tree, op, ML_A_MHLO_SHARDING, sharding);
  if (frontend)
    ml_set_attr(s->tree, op, ML_A_MHLO_FRONTEND_ATTRIBUTES, frontend);
}

static bool reshape_op(Simplify *s, HlMlOp *op) {
  HlMlOp *inner = def_of(op->operands[0], ML_STABLEHLO_RESHAPE);
  if (inner && hl_ml_is_static(inner->operands[0]->type) && hl_ml_is_static(op->results[0].type))
    op->operands[0] = inner->operands[0];
  return is(s, op, op->operands[0]);
}

// A broadcast of a broadcast is one.
static void join_broadcasts(Simplify *s, HlMlOp *op) {
  HlMlOp *inner = def_of(op->operands[0], ML_STABLEHLO_BROADCAST_IN_DIM);
  HlI64s outer = ml_attr_ints(s->arena, op, ML_A_BROADCAST_DIMENSIONS);
  if (!inner || ml_attr(inner, ML_A_MHLO_SHARDING))
    return;
  HlI64s dims = ml_attr_ints(s->arena, inner, ML_A_BROADCAST_DIMENSIONS);
  int64_t *both = HL_ARRAY(s->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++) {
    if (dims.at[k] < 0 || dims.at[k] >= outer.n)
      return;
    both[k] = outer.at[dims.at[k]];
  }
  op->operands[0] = inner->operands[0];
  ml_set_attr(s->tree, op, ML_A_BROADCAST_DIMENSIONS,
              hl_ml_dense_i64s(s->tree, (HlI64s){both, dims.n}));
}

static bool broadcast_op(Simplify *s, HlMlOp *op) {
  join_broadcasts(s, op);
  const HlMlType *from = op->operands[0]->type, *to = op->results[0].type;
  HlI64s dims = ml_attr_ints(s->arena, op, ML_A_BROADCAST_DIMENSIONS);
  if (from == to && is_identity_list(dims))
    return is(s, op, op->operands[0]);
  if (!hl_ml_is_static(from) || !hl_ml_is_static(to) ||
      hl_ml_elements(from) != hl_ml_elements(to) || !ascends(dims))
    return false;
  become_reshape(s, op);
  return reshape_op(s, op);
}

// A slice that stays within one part of a concatenation is a slice of that part.
static bool slice_op(Simplify *s, HlMlOp *op) {
  if (is(s, op, op->operands[0]))
    return true;
  HlMlOp *whole = def_of(op->operands[0], ML_STABLEHLO_CONCATENATE);
  int64_t dim = whole ? ml_attr_int(whole, ML_A_DIMENSION, -1) : -1, before = 0;
  HlI64s start = ml_attr_ints(s->arena, op, ML_A_START_INDICES),
         limit = ml_attr_ints(s->arena, op, ML_A_LIMIT_INDICES);
  if (!whole || dim < 0 || dim >= start.n || dim >= limit.n ||
      !hl_ml_is_static(whole->results[0].type))
    return false;
  for (uint32_t k = 0; k < whole->n_operands; k++) {
    const HlMlType *part = whole->operands[k]->type;
    int64_t size = part->rank > dim ? part->dim[dim] : 0;
    if (start.at[dim] >= before && limit.at[dim] <= before + size && size > 0) {
      int64_t *from = hl_arena_copy(s->arena, start.at, sizeof *from * (size_t)start.n);
      int64_t *to = hl_arena_copy(s->arena, limit.at, sizeof *to * (size_t)limit.n);
      from[dim] -= before;
      to[dim] -= before;
      op->operands[0] = whole->operands[k];
      ml_set_attr(s->tree, op, ML_A_START_INDICES,
                  hl_ml_dense_i64s(s->tree, (HlI64s){from, start.n}));
      ml_set_attr(s->tree, op, ML_A_LIMIT_INDICES,
                  hl_ml_dense_i64s(s->tree, (HlI64s){to, limit.n}));
      return is(s, op, op->operands[0]);
    }
    before += size;
  }
  return false;
}

// A slice whose place is known, kept inside.
static bool dynamic_slice_op(Simplify *s, HlMlOp *op) {
  HlI64s sizes = ml_attr_ints(s->arena, op, ML_A_SLICE_SIZES);
  const HlMlType *type = op->operands[0]->type;
  int n = type->rank;
  if (!hl_ml_is_static(type) || sizes.n != n || op->n_operands != (uint32_t)n + 1)
    return false;
  int64_t *start = HL_ARRAY(s->arena, int64_t, 3 * (n + 1)), *limit = start + n + 1,
          *stride = limit + n + 1;
  for (int k = 0; k < n; k++) {
    if (!sm_int(op->operands[k + 1], &start[k]))
      return false;
    int64_t most = type->dim[k] - sizes.at[k];
    start[k] = start[k] > most ? most : start[k] < 0 ? 0 : start[k];
    limit[k] = start[k] + sizes.at[k];
    stride[k] = 1;
  }
  sm_become(s, op, ML_STABLEHLO_SLICE, 1);
  ml_set_attr(s->tree, op, ML_A_START_INDICES, hl_ml_dense_i64s(s->tree, (HlI64s){start, n}));
  ml_set_attr(s->tree, op, ML_A_LIMIT_INDICES, hl_ml_dense_i64s(s->tree, (HlI64s){limit, n}));
  ml_set_attr(s->tree, op, ML_A_STRIDES, hl_ml_dense_i64s(s->tree, (HlI64s){stride, n}));
  return sm_fold(s, op) || slice_op(s, op);
}

static bool pad_op(Simplify *s, HlMlOp *op) {
  HlI64s low = ml_attr_ints(s->arena, op, ML_A_EDGE_PADDING_LOW),
         high = ml_attr_ints(s->arena, op, ML_A_EDGE_PADDING_HIGH);
  HlI64s interior = ml_attr_ints(s->arena, op, ML_A_INTERIOR_PADDING);
  for (int k = 0; k < low.n && k < high.n && k < interior.n; k++)
    if (low.at[k] != 0 || high.at[k] != 0 || interior.at[k] != 0)
      return false;
  return is(s, op, op->operands[0]);
}

// Whether only dimensions of size 1 change their places.
static bool moves_ones(const HlMlType *type, HlI64s perm) {
  int64_t last = -1;
  if (!hl_ml_is_static(type) || perm.n != type->rank)
    return false;
  for (int k = 0; k < perm.n; k++) {
    if (perm.at[k] < 0 || perm.at[k] >= perm.n)
      return false;
    if (type->dim[perm.at[k]] == 1)
      continue;
    if (perm.at[k] < last)
      return false;
    last = perm.at[k];
  }
  return true;
}

static bool transpose_op(Simplify *s, HlMlOp *op) {
  HlI64s perm = ml_attr_ints(s->arena, op, ML_A_PERMUTATION);
  HlMlOp *inner = def_of(op->operands[0], ML_STABLEHLO_TRANSPOSE);
  if (inner && !ml_attr(inner, ML_A_MHLO_SHARDING)) {
    HlI64s first = ml_attr_ints(s->arena, inner, ML_A_PERMUTATION);
    int64_t *both = HL_ARRAY(s->arena, int64_t, perm.n + 1);
    for (int k = 0; k < perm.n; k++) {
      if (perm.at[k] < 0 || perm.at[k] >= first.n)
        return false;
      both[k] = first.at[perm.at[k]];
    }
    perm = (HlI64s){both, perm.n};
    op->operands[0] = inner->operands[0];
    ml_set_attr(s->tree, op, ML_A_PERMUTATION, hl_ml_dense_i64s(s->tree, perm));
  }
  if (is_identity_list(perm))
    return is(s, op, op->operands[0]);
  if (!moves_ones(op->operands[0]->type, perm))
    return false;
  become_reshape(s, op);
  return reshape_op(s, op);
}

// Dimensions of size 1 may turn round as they like.
static bool reverse_op(Simplify *s, HlMlOp *op) {
  HlI64s dims = ml_attr_ints(s->arena, op, ML_A_DIMENSIONS);
  const HlMlType *type = op->operands[0]->type;
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] < 0 || dims.at[k] >= type->rank || type->dim[dims.at[k]] != 1)
      return false;
  return is(s, op, op->operands[0]);
}

// Operands without elements add nothing.
static bool concatenate_op(Simplify *s, HlMlOp *op) {
  int64_t dim = ml_attr_int(op, ML_A_DIMENSION, 0);
  uint32_t kept = 0;
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlMlType *type = op->operands[k]->type;
    if (dim < 0 || dim >= type->rank)
      return false;
    if (type->dim[dim] != 0)
      op->operands[kept++] = op->operands[k];
  }
  if (kept > 0)
    op->n_operands = kept;
  return op->n_operands == 1 && is(s, op, op->operands[0]);
}

static bool shape_op(Simplify *s, HlMlOp *op) {
  switch (op->row) {
  case ML_STABLEHLO_RESHAPE: return reshape_op(s, op);
  case ML_STABLEHLO_BROADCAST_IN_DIM: return broadcast_op(s, op);
  case ML_STABLEHLO_CONVERT: return is(s, op, op->operands[0]);
  case ML_STABLEHLO_SLICE: return slice_op(s, op);
  case ML_STABLEHLO_DYNAMIC_SLICE: return dynamic_slice_op(s, op);
  case ML_STABLEHLO_TRANSPOSE: return transpose_op(s, op);
  case ML_STABLEHLO_CONCATENATE: return concatenate_op(s, op);
  case ML_STABLEHLO_REVERSE: return reverse_op(s, op);
  case ML_STABLEHLO_PAD: return pad_op(s, op);
  default: return false;
  }
}

// --- Parts of a whole -----------------------------------------------------------------------------------------------

static bool part_op(Simplify *s, HlMlOp *op) {
  HlMlOp *whole;
  if (op->row == ML_STABLEHLO_GET_TUPLE_ELEMENT &&
      (whole = def_of(op->operands[0], ML_STABLEHLO_TUPLE))) {
    int64_t index = ml_attr_int(op, ML_A_INDEX, 0);
    return index >= 0 && index < (int64_t)whole->n_operands && is(s, op, whole->operands[index]);
  }
  if ((whole = def_of(op->operands[0], ML_STABLEHLO_COMPLEX)) && whole->n_operands == 2) {
    if (op->row == ML_STABLEHLO_REAL)
      return is(s, op, whole->operands[0]);
    if (op->row == ML_STABLEHLO_IMAG)
      return is(s, op, whole->operands[1]);
  }
  return false;
}

// --- Dynamic forms of static values ------------------------------------------------------------------------------------

static const HlMlAttr *list_of(Simplify *s, const HlMlValue *value) {
  const HlMlAttr *attr = sm_constant(value);
  if (!attr || value->type->rank != 1)
    return NULL;
  HlI64s list = hl_ml_ints(s->arena, attr);
  int64_t n = value->type->dim[0];
  if (list.n == n)
    return hl_ml_dense_i64s(s->tree, list);
  if (list.n != 1 || n > 1 << 16)
    return NULL;
  int64_t *all = HL_ARRAY(s->arena, int64_t, n + 1);
  for (int64_t k = 0; k < n; k++)
    all[k] = list.at[0];
  return hl_ml_dense_i64s(s->tree, (HlI64s){all, (int)n});
}

static bool become_with(Simplify *s, HlMlOp *op, HlMlRow row, uint32_t n_operands, int n,
                        const MlName *names, const HlMlAttr *const *values) {
  for (int k = 0; k < n; k++)
    if (!values[k])
      return false;
  sm_become(s, op, row, n_operands);
  for (int k = 0; k < n; k++)
    ml_set_attr(s->tree, op, names[k], values[k]);
  return true;
}

// An op whose sizes are operands, where the result's type or constants say them.
static void make_static(Simplify *s, HlMlOp *op) {
  if (op->n_results != 1 || !hl_ml_is_tensor(op->results[0].type) ||
      !hl_ml_is_static(op->results[0].type))
    return;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!hl_ml_is_tensor(op->operands[k]->type) || !hl_ml_is_static(op->operands[k]->type))
      return;
  const HlMlAttr *v[7] = {0};
  switch (op->row) {
  case ML_STABLEHLO_DYNAMIC_RESHAPE: sm_become(s, op, ML_STABLEHLO_RESHAPE, 1); break;
  case ML_STABLEHLO_DYNAMIC_IOTA:
    v[0] = ml_attr(op, ML_A_IOTA_DIMENSION);
    become_with(s, op, ML_STABLEHLO_IOTA, 0, 1, (const MlName[]){ML_A_IOTA_DIMENSION}, v);
    break;
  case ML_STABLEHLO_DYNAMIC_BROADCAST_IN_DIM:
    v[0] = ml_attr(op, ML_A_BROADCAST_DIMENSIONS);
    become_with(s, op, ML_STABLEHLO_BROADCAST_IN_DIM, 1, 1,
                (const MlName[]){ML_A_BROADCAST_DIMENSIONS}, v);
    break;
  case ML_STABLEHLO_DYNAMIC_PAD:
    for (int k = 0; k < 3; k++)
      v[k] = list_of(s, op->operands[2 + k]);
    become_with(
        s, op, ML_STABLEHLO_PAD, 2, 3,
        (const MlName[]){ML_A_EDGE_PADDING_LOW, ML_A_EDGE_PADDING_HIGH, ML_A_INTERIOR_PADDING}, v);
    break;
  case ML_STABLEHLO_REAL_DYNAMIC_SLICE:
    for (int k = 0; k < 3; k++)
      v[k] = list_of(s, op->operands[1 + k]);
    become_with(s, op, ML_STABLEHLO_SLICE, 1, 3,
                (const MlName[]){ML_A_START_INDICES, ML_A_LIMIT_INDICES, ML_A_STRIDES}, v);
    break;
  case ML_STABLEHLO_DYNAMIC_GATHER:
    v[0] = list_of(s, op->operands[2]);
    v[1] = ml_attr(op, ML_A_DIMENSION_NUMBERS);
    v[2] = hl_ml_bool(s->tree, ml_attr_int(op, ML_A_INDICES_ARE_SORTED, 0));
    become_with(s, op, ML_STABLEHLO_GATHER, 2, 3,
                (const MlName[]){ML_A_SLICE_SIZES, ML_A_DIMENSION_NUMBERS, ML_A_INDICES_ARE_SORTED},
                v);
    break;
  case ML_STABLEHLO_DYNAMIC_CONV:
    if ((v[0] = sm_constant(op->operands[2]))) {
      ml_set_attr(s->tree, op, ML_A_PADDING, v[0]);
      ml_rename(s->tree, op, ML_STABLEHLO_CONVOLUTION, HL_ML_STABLEHLO);
      op->n_operands = 2;
    }
    break;
  default: break;
  }
}

// Counting along a dimension of size 1.
static bool iota_op(Simplify *s, HlMlOp *op) {
  const HlMlType *type = op->results[0].type;
  int64_t dim = ml_attr_int(op, ML_A_IOTA_DIMENSION, -1);
  HlDtype dtype = hl_ml_dtype(type);
  if (dim < 0 || dim >= type->rank || type->dim[dim] != 1 || !hl_ml_is_static(type) ||
      dtype == HL_NO_DTYPE || !hl_is_integral(dtype))
    return false;
  return becomes_zero(s, op);
}

// A reduction of no dimension is its operand.
static bool reduce_op(Simplify *s, HlMlOp *op) {
  return op->n_results == 1 && ml_attr_ints(s->arena, op, ML_A_DIMENSIONS).n == 0 &&
         is(s, op, op->operands[0]);
}

bool sm_identity(Simplify *s, HlMlOp *op) {
  make_static(s, op);
  put_right(op);
  if (op->row == ML_STABLEHLO_IOTA && op->n_results == 1 && hl_ml_is_tensor(op->results[0].type))
    return iota_op(s, op);
  if (op->row == ML_STABLEHLO_REDUCE)
    return reduce_op(s, op);
  if (op->n_results != 1 || op->n_operands == 0 || ml_attr(op, ML_A_MHLO_SHARDING) ||
      ml_attr(op, ML_A_SDY_SHARDING))
    return false;
  if (op->row == ML_STABLEHLO_SELECT)
    return select_op(s, op);
  if (op->row == ML_STABLEHLO_COMPARE)
    return compare_op(s, op);
  if (part_op(s, op) || shape_op(s, op))
    return true;
  return op->n_operands == 2 && binary(s, op);
}
