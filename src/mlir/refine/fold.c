// Follows integer values through the ops that compute sizes.
#include "mlir/refine/refine.h"

#include <string.h>

// --- What is known ------------------------------------------------------------------------------------------

const Known *refine_known(const Refine *r, const HlMlValue *value) {
  return value->index < r->n_known && r->known[value->index].is ? &r->known[value->index] : NULL;
}

void refine_know(Refine *r, const HlMlValue *value, HlI64s at) {
  r->known = refine_room(r->known, &r->n_known, value->index, sizeof *r->known);
  r->known[value->index] = (Known){true, at};
}

// The numbers of a type, as many as it has elements; -1 where they are not followed.
static int64_t count(const HlMlType *type) {
  const HlDtypeKind kind = hl_ml_is_tensor(type) && hl_ml_element(type)->kind != HL_ML_QUANT
                               ? hl_dtype_kind(hl_ml_dtype(type))
                               : HL_KIND_NONE;
  const int64_t n = kind == HL_KIND_SINT || kind == HL_KIND_UINT || kind == HL_KIND_PRED
                        ? hl_ml_elements(type)
                        : -1;
  return n <= REFINE_MAX_KNOWN ? n : -1;
}

// A number as its type holds it.
static int64_t wrap(const HlMlType *type, int64_t x) {
  const HlDtype dtype = hl_ml_dtype(type);
  const int bits = hl_dtype_info[dtype].bits;
  if (bits >= 64)
    return x;
  const uint64_t kept = (uint64_t)x & ((UINT64_C(1) << bits) - 1);
  const bool is_negative = hl_is_signed(dtype) && (kept >> (bits - 1));
  return is_negative ? (int64_t)(kept | ~((UINT64_C(1) << bits) - 1)) : (int64_t)kept;
}

// --- Ops ----------------------------------------------------------------------------------------------------

typedef struct Fold {
  Refine *r;
  const HlMlOp *op;
  const HlMlType *type;  // of the result
  const Known *in[3];
  int64_t *out;
  int64_t n;
} Fold;

static int64_t at(const Fold *f, int operand, int64_t k) {
  const HlI64s list = f->in[operand]->at;
  return list.at[list.n == 1 ? 0 : k];
}

static bool binary(int row, int64_t x, int64_t y, int64_t *out) {
  const uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
  switch (row) {
  case ML_STABLEHLO_ADD: *out = (int64_t)(ux + uy); return true;
  case ML_STABLEHLO_SUBTRACT: *out = (int64_t)(ux - uy); return true;
  case ML_STABLEHLO_MULTIPLY: *out = (int64_t)(ux * uy); return true;
  case ML_STABLEHLO_DIVIDE: *out = y == -1 ? (int64_t)(0 - ux) : y ? x / y : -1; return true;
  case ML_STABLEHLO_REMAINDER: *out = y == -1 ? 0 : y ? x % y : x; return true;
  case ML_STABLEHLO_MAXIMUM: *out = x > y ? x : y; return true;
  case ML_STABLEHLO_MINIMUM: *out = x < y ? x : y; return true;
  case ML_STABLEHLO_AND: *out = x & y; return true;
  case ML_STABLEHLO_OR: *out = x | y; return true;
  case ML_STABLEHLO_XOR: *out = x ^ y; return true;
  default: return false;
  }
}

static bool fold_binary(Fold *f) {
  for (int64_t k = 0; k < f->n; k++)
    if (!binary(f->op->row, at(f, 0, k), at(f, 1, k), &f->out[k]))
      return false;
  return true;
}

static bool compares(int64_t direction, int64_t x, int64_t y) {
  switch (direction) {
  case 0: return x == y;
  case 1: return x != y;
  case 2: return x >= y;
  case 3: return x > y;
  case 4: return x <= y;
  default: return x < y;
  }
}

static bool fold_elementwise(Fold *f) {
  const int row = f->op->row;
  const int64_t direction = ml_attr_int(f->op, ML_A_COMPARISON_DIRECTION, 0);
  for (int64_t k = 0; k < f->n; k++) {
    const int64_t x = at(f, 0, k);
    switch (row) {
    case ML_STABLEHLO_CONVERT: f->out[k] = hl_ml_dtype(f->type) == HL_PRED ? x != 0 : x; break;
    case ML_STABLEHLO_NEGATE: f->out[k] = (int64_t)(0 - (uint64_t)x); break;
    case ML_STABLEHLO_ABS: f->out[k] = x < 0 ? (int64_t)(0 - (uint64_t)x) : x; break;
    case ML_STABLEHLO_SIGN: f->out[k] = (x > 0) - (x < 0); break;
    case ML_STABLEHLO_NOT: f->out[k] = hl_ml_dtype(f->type) == HL_PRED ? !x : ~x; break;
    case ML_STABLEHLO_COMPARE: f->out[k] = compares(direction, x, at(f, 1, k)); break;
    case ML_STABLEHLO_SELECT: f->out[k] = x ? at(f, 1, k) : at(f, 2, k); break;
    case ML_STABLEHLO_CLAMP: {
      const int64_t low = x, middle = at(f, 1, k), high = at(f, 2, k);
      f->out[k] = middle < low ? low : middle > high ? high : middle;
      break;
    }
    default: return false;
    }
  }
  return true;
}

static bool fold_iota(Fold *f) {
  const int64_t d = ml_attr_int(f->op, ML_A_IOTA_DIMENSION, 0);
  int64_t below = 1;
  for (int k = f->type->rank - 1; k > d; k--)
    below *= f->type->dim[k];
  for (int64_t k = 0; k < f->n; k++)
    f->out[k] = d < f->type->rank ? k / below % f->type->dim[d] : 0;
  return d >= 0 && d < f->type->rank;
}

// One-dimensional only, as sizes are.
static bool fold_slice(Fold *f) {
  const HlI64s start = ml_attr_ints(f->r->arena, f->op, ML_A_START_INDICES);
  const HlI64s stride = ml_attr_ints(f->r->arena, f->op, ML_A_STRIDES);
  if (f->type->rank != 1 || start.n != 1 || stride.n != 1 || start.at[0] < 0 || stride.at[0] < 1)
    return false;
  for (int64_t k = 0; k < f->n; k++) {
    const int64_t from = start.at[0] + k * stride.at[0];
    if (from >= f->in[0]->at.n)
      return false;
    f->out[k] = f->in[0]->at.at[from];
  }
  return true;
}

static bool fold_broadcast(Fold *f) {
  const HlI64s in = f->in[0]->at;
  if (in.n != 1 && !(f->type->rank == 1 && in.n == f->n))
    return false;
  for (int64_t k = 0; k < f->n; k++)
    f->out[k] = in.at[in.n == 1 ? 0 : k];
  return true;
}

static bool fold_same(Fold *f) {
  if (f->in[0]->at.n != f->n)
    return false;
  memcpy(f->out, f->in[0]->at.at, (size_t)f->n * sizeof *f->out);
  return true;
}

static bool fold_by_row(Fold *f) {
  switch (f->op->row) {
  case ML_STABLEHLO_IOTA: return fold_iota(f);
  case ML_STABLEHLO_SLICE: return fold_slice(f);
  case ML_STABLEHLO_BROADCAST_IN_DIM: return fold_broadcast(f);
  case ML_STABLEHLO_RESHAPE:
  case ML_STABLEHLO_OPTIMIZATION_BARRIER: return fold_same(f);
  default:
    return f->op->n_operands == 2 && fold_binary(f) ? true
                                                    : f->op->n_operands > 0 && fold_elementwise(f);
  }
}

// --- Ops with operands of their own number -----------------------------------------------------------------------

// Along the first dimension parts stand one after the other.
static bool fold_concatenate(Refine *r, const HlMlOp *op, int64_t *out, int64_t n) {
  int64_t next = 0;
  if (ml_attr_int(op, ML_A_DIMENSION, -1) != 0)
    return false;
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const Known *part = refine_known(r, op->operands[k]);
    if (!part || part->at.n > n - next)
      return false;
    memcpy(out + next, part->at.at, (size_t)part->at.n * sizeof *out);
    next += part->at.n;
  }
  return next == n;
}

static bool fold_size(const HlMlOp *op, int64_t *out) {
  const HlMlType *type = op->operands[0]->type;
  const int64_t d = ml_attr_int(op, ML_A_DIMENSION, -1);
  if (!hl_ml_is_tensor(type) || d < 0 || d >= type->rank || type->dim[d] == HL_UNBOUNDED)
    return false;
  *out = type->dim[d];
  return true;
}

static bool fold_constant(Refine *r, const HlMlOp *op, int64_t *out, int64_t n) {
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  const HlI64s list =
      value && value->kind == HL_ML_A_DENSE ? hl_ml_ints(r->arena, value) : (HlI64s){0};
  if (list.n == 0 || (list.n != 1 && list.n != n))
    return n == 0;
  for (int64_t k = 0; k < n; k++)
    out[k] = list.at[list.n == 1 ? 0 : k];
  return true;
}

// What the operands' values say of the only result.
static bool compute(Refine *r, const HlMlOp *op, int64_t *out, int64_t n) {
  const HlMlType *type = op->results[0].type;
  switch (op->row) {
  case ML_STABLEHLO_CONSTANT: return fold_constant(r, op, out, n);
  case ML_STABLEHLO_GET_DIMENSION_SIZE: return fold_size(op, out);
  case ML_STABLEHLO_CONCATENATE: return fold_concatenate(r, op, out, n);
  default: break;
  }
  Fold f = {.r = r, .op = op, .type = type, .out = out, .n = n};
  if (op->n_operands > 3)
    return false;
  for (uint32_t k = 0; k < op->n_operands; k++) {
    f.in[k] = refine_known(r, op->operands[k]);
    if (!f.in[k] || (f.in[k]->at.n != 1 && f.in[k]->at.n != n && op->row != ML_STABLEHLO_SLICE))
      return false;
  }
  return fold_by_row(&f);
}

void refine_fold(Refine *r, const HlMlOp *op) {
  const int64_t n = op->n_results == 1 ? count(op->results[0].type) : -1;
  if (n < 0 || op->n_regions > 0)
    return;
  const HlMark mark = hl_arena_mark(r->arena);
  int64_t *out = HL_ARRAY(r->arena, int64_t, n + 1);
  if (!compute(r, op, out, n)) {
    hl_arena_release(r->arena, mark);
    return;
  }
  for (int64_t k = 0; k < n; k++)
    out[k] = wrap(op->results[0].type, out[k]);
  refine_know(r, &op->results[0], (HlI64s){out, (int)n});
}

// --- Equal by construction -------------------------------------------------------------------------------------

// Whether two results stand at the same place of ops that say the same, their operands aside. What is not the same
// each time it runs is not asked.
static bool same_op(const HlMlValue *a, const HlMlValue *b) {
  const HlMlOp *x = a->def, *y = b->def;
  if (!x || !y || x->row != y->row || x->row == ML_NONE || x->n_operands != y->n_operands ||
      x->n_attrs != y->n_attrs || x->n_regions || y->n_regions || a->number != b->number ||
      a->type != b->type || x->row == ML_STABLEHLO_RNG || x->row == ML_STABLEHLO_CUSTOM_CALL ||
      x->row == ML_FUNC_CALL)
    return false;
  for (uint32_t k = 0; k < x->n_attrs; k++)
    if (x->attrs[k].name != y->attrs[k].name ||
        !hl_ml_attr_equal(x->attrs[k].value, y->attrs[k].value))
      return false;
  return true;
}

// `left` is how many ops may still be looked at: what they are made of may be shared many times over.
static bool same_number(const HlMlValue *a, const HlMlValue *b, int *left) {
  if (a == b)
    return true;
  if (--*left < 0 || !same_op(a, b))
    return false;
  for (uint32_t k = 0; k < a->def->n_operands; k++)
    if (!same_number(a->def->operands[k], b->def->operands[k], left))
      return false;
  return true;
}

bool refine_same(const HlMlValue *a, const HlMlValue *b) {
  int left = 200;
  return same_number(a, b, &left);
}
