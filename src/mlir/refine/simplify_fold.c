// Constants: computes with them by the reference kernels, and keeps one op of each.
#include <string.h>

#include "hilo/op.h"
#include "mlir/refine/simplify.h"

enum { MOST_ELEMENTS = 65536, MOST_COMPARED_BYTES = 4096 };

const HlMlAttr *sm_constant(const HlMlValue *value) {
  if (!value->def || !ml_is_constant(value->def))
    return NULL;
  const HlMlAttr *attr = ml_attr(value->def, ML_A_VALUE);
  return attr && attr->kind == HL_ML_A_DENSE && attr->type && attr->type->kind == HL_ML_TENSOR
             ? attr
             : NULL;
}

// --- One of each ------------------------------------------------------------------------------------------

static size_t element_bytes(const HlMlAttr *attr) {
  HlDtype dtype = hl_ml_dtype(attr->type);
  return dtype == HL_NO_DTYPE ? 0 : (size_t)hl_dtype_bytes(dtype);
}

static uint64_t hash_constant(const HlMlAttr *attr, const HlMlType *type) {
  return hl_hash_mix(type->hash,
                     hl_hash_bytes(attr->data, element_bytes(attr) * (size_t)attr->n_elements, 1));
}

static bool same_constant(const HlMlOp *a, const HlMlAttr *x, const HlMlOp *b, const HlMlAttr *y) {
  size_t n = element_bytes(x) * (size_t)x->n_elements;
  return a->results[0].type == b->results[0].type && x->n_elements == y->n_elements &&
         memcmp(x->data, y->data, n) == 0;
}

static HlMlOp **find_constant(HlMlOp **table, uint32_t n, HlMlOp *op) {
  const HlMlAttr *attr = ml_attr(op, ML_A_VALUE);
  uint64_t at = hash_constant(attr, op->results[0].type) % n;
  while (table[at] && !same_constant(table[at], ml_attr(table[at], ML_A_VALUE), op, attr))
    at = (at + 1) % n;
  return &table[at];
}

static void grow_constants(Simplify *s) {
  uint32_t n = s->constant_slots ? 2 * s->constant_slots : 64;
  HlMlOp **table = HL_ARRAY(s->arena, HlMlOp *, n);
  for (uint32_t k = 0; k < s->constant_slots; k++)
    if (s->constant[k])
      *find_constant(table, n, s->constant[k]) = s->constant[k];
  s->constant = table;
  s->constant_slots = n;
}

void sm_note_constant(Simplify *s, HlMlOp *op) {
  const HlMlAttr *attr = sm_constant(&op->results[0]);
  size_t bytes = attr ? element_bytes(attr) * (size_t)attr->n_elements : 0;
  if (!attr || op->n_attrs != 1 || bytes == 0 || bytes > MOST_COMPARED_BYTES)
    return;
  if (2 * (s->n_constants + 1) > s->constant_slots)
    grow_constants(s);
  HlMlOp **slot = find_constant(s->constant, s->constant_slots, op);
  if (*slot == op)
    return;
  if (*slot) {
    sm_alias(s, &op->results[0], &(*slot)->results[0]);
    return;
  }
  *slot = op;
  s->n_constants++;
  if (s->body->first == op)
    return;
  hl_ml_unlink(op);
  hl_ml_place_before(op, s->body->first);
}

// --- Computing ---------------------------------------------------------------------------------------------------

static bool is_foldable(const HlMlOp *op) {
  int hlo = ml_row_of(op)->hlo;
  switch (op->row) {
  case ML_STABLEHLO_BROADCAST_IN_DIM:
  case ML_STABLEHLO_BROADCAST:
  case ML_STABLEHLO_RESHAPE:
  case ML_STABLEHLO_TRANSPOSE:
  case ML_STABLEHLO_SLICE:
  case ML_STABLEHLO_CONCATENATE:
  case ML_STABLEHLO_REVERSE: return true;
  case ML_STABLEHLO_REDUCE_PRECISION:
  case ML_STABLEHLO_POPCNT:
  case ML_STABLEHLO_COUNT_LEADING_ZEROS:
  case ML_STABLEHLO_BITCAST_CONVERT: return false;
  default: return hlo != HL_OP_NO && (hl_op_info[hlo].traits & HL_T_ELEMENTWISE) != 0;
  }
}

static bool is_small(const HlMlType *type) {
  return type->kind == HL_ML_TENSOR && hl_ml_is_static(type) && hl_ml_dtype(type) != HL_NO_DTYPE &&
         hl_ml_element(type)->kind != HL_ML_QUANT && hl_ml_elements(type) <= MOST_ELEMENTS;
}

static bool can_fold(const HlMlOp *op) {
  if (!is_foldable(op) || op->n_results != 1 || op->n_operands == 0 || op->n_regions > 0 ||
      ml_attr(op, ML_A_MHLO_SHARDING) || ml_attr(op, ML_A_SDY_SHARDING) ||
      ml_attr(op, ML_A_MHLO_FRONTEND_ATTRIBUTES))
    return false;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!sm_constant(op->operands[k]))
      return false;
  return true;
}

// Splats stay splats whatever their size: computed as scalars.
static bool is_splat_op(const HlMlOp *op) {
  int hlo = ml_row_of(op)->hlo;
  bool spreads = op->row == ML_STABLEHLO_BROADCAST_IN_DIM || op->row == ML_STABLEHLO_BROADCAST ||
                 op->row == ML_STABLEHLO_RESHAPE || op->row == ML_STABLEHLO_TRANSPOSE ||
                 op->row == ML_STABLEHLO_SLICE;
  bool pointwise = hlo != HL_OP_NO && hl_op_info[hlo].traits & HL_T_ELEMENTWISE;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (sm_constant(op->operands[k])->n_elements != 1)
      return false;
  return (spreads && op->n_operands == 1) || pointwise;
}

static const HlMlAttr *splat_like(HlMlTree *tree, const HlMlType *type, const HlMlAttr *of) {
  return hl_ml_dense(tree, type, of->data, 1, true);
}

static HlLiteral *run(Simplify *s, HlComp *comp, const HlInst *result) {
  HlLiteral **value = HL_ARRAY(s->arena, HlLiteral *, comp->next_id + 1);
  HlEval ev = {.cx = s->cx};
  bool ok = true;
  for (const HlInst *inst = comp->first; inst && ok; inst = inst->next) {
    if (inst->op == HL_OP_CONSTANT) {
      value[inst->id] = hl_literal_ref(hl_constant(inst));
      continue;
    }
    HlKernel *kernel = hl_kernel((HlOp)inst->op);
    const HlLiteral **in = HL_ARRAY(s->arena, const HlLiteral *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      in[k] = value[inst->operands[k]->id];
    value[inst->id] = kernel ? hl_literal_new(s->cx, inst->shape) : NULL;
    ok = value[inst->id] && kernel(&ev, inst, in, value[inst->id]);
  }
  HlLiteral *out = ok ? hl_literal_ref(value[result->id]) : NULL;
  for (uint32_t k = 0; k < comp->next_id; k++)
    hl_literal_unref(value[k]);
  return out;
}

// The op on constants in a computation of its own; `scalar`: each of them by its one element.
static HlLiteral *compute(Simplify *s, HlMlOp *op, bool scalar) {
  MlLower *l = &s->lower;
  HlComp *comp = hl_comp_new(l->m, "fold", 4);
  HlBuild b = {.cx = s->cx, .comp = comp};
  int undo = l->undo.n;
  bool ok = true;
  for (uint32_t k = 0; k < op->n_operands && ok; k++) {
    const HlMlAttr *attr = sm_constant(op->operands[k]);
    if (scalar)
      attr = splat_like(s->tree,
                        hl_ml_tensor_type(s->tree, 0, NULL, hl_ml_element(attr->type), NULL), attr);
    HlLiteral *literal = hl_ml_literal(s->cx, (HlPos){0}, attr);
    ok = literal && ml_set(l, op->operands[k], hl_constant_new(comp, literal, NULL));
    hl_literal_unref(literal);
  }
  HlMlValue *result = &op->results[0];
  const HlMlType *type = result->type;
  if (scalar)
    result->type = hl_ml_tensor_type(s->tree, 0, NULL, hl_ml_element(type), NULL);
  ok = ok && ml_lower_bare(l, &b, op);
  result->type = type;
  HlLiteral *out = ok ? run(s, comp, l->value[result->index]) : NULL;
  ml_leave(l, undo);
  hl_comp_erase(comp);
  return out;
}

static const HlMlAttr *fold_value(Simplify *s, HlMlOp *op) {
  const HlMlType *type = op->results[0].type;
  HlMlTree *tree = s->tree;
  if (type->kind != HL_ML_TENSOR || !hl_ml_is_static(type) || hl_ml_dtype(type) == HL_NO_DTYPE ||
      hl_ml_element(type)->kind == HL_ML_QUANT)
    return NULL;
  bool scalar = is_splat_op(op);
  if (scalar &&
      !(ml_row_of(op)->hlo != HL_OP_NO && hl_op_info[ml_row_of(op)->hlo].traits & HL_T_ELEMENTWISE))
    return splat_like(tree, type, sm_constant(op->operands[0]));
  if (!scalar) {
    for (uint32_t k = 0; k < op->n_operands; k++)
      if (!is_small(op->operands[k]->type))
        return NULL;
    if (!is_small(type))
      return NULL;
  }
  int n_diags = hl_cx_n_diags(s->cx);
  HlLiteral *literal = compute(s, op, scalar);
  hl_cx_forget(s->cx, n_diags);
  if (!literal)
    return NULL;
  const HlMlAttr *attr = hl_ml_dense_of(tree, literal);
  hl_literal_unref(literal);
  return attr && scalar ? splat_like(tree, type, attr) : attr;
}

bool sm_fold(Simplify *s, HlMlOp *op) {
  if (!can_fold(op))
    return false;
  ml_cover_values(&s->lower);
  const HlMlAttr *value = fold_value(s, op);
  return value && sm_becomes_constant(s, op, value);
}

bool sm_becomes_constant(Simplify *s, HlMlOp *op, const HlMlAttr *value) {
  HlMlOp *constant =
      ml_op(s->tree, NULL, ML_STABLEHLO_CONSTANT, 0, NULL, 1, &op->results[0].type, 0);
  ml_set_attr(s->tree, constant, ML_A_VALUE, value);
  constant->location = op->location;
  constant->loc = op->loc;
  hl_ml_place_before(constant, op);
  sm_alias(s, &op->results[0], &constant->results[0]);
  sm_note_constant(s, constant);
  return true;
}

void sm_fold_start(Simplify *s) {
  s->lower = (MlLower){.cx = s->cx,
                       .tree = s->tree,
                       .arena = s->arena,
                       .shared = s->shared,
                       .m = hl_module_new("fold", NULL)};
}

void sm_fold_end(Simplify *s) {
  hl_module_free(s->lower.m);
}

// --- Looking at constants --------------------------------------------------------------------------------------------

bool sm_is_all(const HlMlValue *value, double number) {
  const HlMlAttr *attr = sm_constant(value);
  HlDtype dtype = attr ? hl_ml_dtype(attr->type) : HL_NO_DTYPE;
  if (!attr || attr->n_elements != 1 || dtype == HL_NO_DTYPE || hl_is_complex(dtype))
    return false;
  double wide = 0;
  hl_convert_elements(HL_F64, &wide, dtype, attr->data, 1);
  return wide == number;
}

bool sm_int(const HlMlValue *value, int64_t *out) {
  const HlMlAttr *attr = sm_constant(value);
  HlDtype dtype = attr ? hl_ml_dtype(attr->type) : HL_NO_DTYPE;
  if (!attr || attr->n_elements != 1 ||
      (dtype != HL_PRED && (dtype == HL_NO_DTYPE || !hl_is_integral(dtype))))
    return false;
  hl_convert_elements(HL_S64, out, dtype, attr->data, 1);
  return true;
}
