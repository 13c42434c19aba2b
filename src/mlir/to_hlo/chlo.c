// Lowers chlo: broadcasting ops, functions that HLO has no op for; and mhlo's own ops.
#include <string.h>

#include "mlir/to_hlo/to_hlo.h"

// --- Broadcasting -------------------------------------------------------------------------------------------

// An operand in the result's sizes: along the given dimensions, else the trailing ones.
static HlInst *spread(MlLower *l, HlBuild *b, HlInst *x, const HlShape *to, HlI64s dims) {
  if (!x || hl_shape_same_dims(x->shape, to))
    return x;
  if (dims.n != x->shape->rank) {
    int64_t *trailing = HL_ARRAY(l->arena, int64_t, x->shape->rank + 1);
    for (int k = 0; k < x->shape->rank; k++)
      trailing[k] = to->rank - x->shape->rank + k;
    dims = (HlI64s){trailing, x->shape->rank};
  }
  return hl_b_broadcast_in_dim(b, x, to->rank, to->dim, dims);
}

// What follows "chlo.broadcast_".
static HlInst *broadcast_op(MlLower *l, HlBuild *b, const HlMlOp *op, const char *name,
                            HlInst **in) {
  const char *full = hl_arena_printf(l->arena, "stablehlo.%s", name);
  HlMlDialect dialect;
  const MlOpRow *row = ml_row(ml_find_row(hl_str(full), &dialect));
  if (op->row == ML_CHLO_BROADCAST_COMPARE) {
    HlAttr attrs[2] = {{.key = HL_A_DIRECTION, .i = ml_attr_int(op, ML_A_COMPARISON_DIRECTION, 0)},
                       {.key = HL_A_COMPARISON_TYPE, .i = ml_attr_int(op, ML_A_COMPARE_TYPE, 0)}};
    bool is_default =
        attrs[1].i == 0 || attrs[1].i == hl_default_comparison_type(in[0]->shape->dtype);
    return hl_b_op(b, HL_OP_COMPARE, NULL, 2, in, is_default ? 1 : 2, attrs, 0, NULL);
  }
  if (op->row == ML_CHLO_BROADCAST_SELECT)
    return hl_b_select(b, in[0], in[1], in[2]);
  if (row->hlo != HL_OP_NO && *row->name)
    return hl_b_binary(b, (HlOp)row->hlo, in[0], in[1]);
  return hl_expand(b, hl_str(name), (int)op->n_operands, in);
}

bool ml_lower_chlo_broadcast(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape *shape = in ? ml_result_shape(l, op) : NULL;
  if (!shape)
    return false;
  HlI64s dims = ml_attr_ints(l->m->arena, op, ML_A_BROADCAST_DIMENSIONS);
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!(in[k] = spread(l, b, in[k], shape, dims)))
      return false;
  return ml_set_results(l, b, op,
                        broadcast_op(l, b, op, op->name->text + strlen("chlo.broadcast_"), in));
}

// --- Functions -----------------------------------------------------------------------------------------------------

bool ml_lower_chlo_function(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlStr name = hl_str(op->name->text + strlen("chlo."));
  if (!hl_can_expand(name))
    return ml_unsupported(l, op, "%s has no counterpart in HLO", op->name->text);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  return in && ml_set_results(l, b, op, hl_expand(b, name, (int)op->n_operands, in));
}

bool ml_lower_constant_like(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  const HlShape *shape = x ? ml_result_shape(l, op) : NULL;
  if (!shape || !value)
    return shape ? ml_bad(l, op, "%s without a value", op->name->text) : false;
  HlInst *scalar = NULL;
  if (value->kind == HL_ML_A_FLOAT)
    scalar = hl_b_scalar(b, shape->dtype, value->f);
  else if (value->kind == HL_ML_A_INT || value->kind == HL_ML_A_BOOL)
    scalar = hl_b_scalar_int(b, shape->dtype, value->i);
  else
    return ml_unsupported(l, op, "%s of such a value has no counterpart in HLO", op->name->text);
  if (shape->rank > 0)
    scalar = hl_b_broadcast(b, scalar, shape->rank, shape->dim, (HlI64s){0});
  return ml_set_results(l, b, op, scalar);
}

bool ml_lower_top_k(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  HlAttr attrs[] = {{.key = HL_A_K, .i = ml_attr_int(op, ML_A_K, 0)},
                    {.key = HL_A_LARGEST, .i = ml_attr_int(op, ML_A_LARGEST, 1)},
                    {.key = HL_A_IS_STABLE, .i = ml_attr_int(op, ML_A_IS_STABLE, 1)}};
  return x && ml_set_results(l, b, op, hl_b_op(b, HL_OP_TOPK, NULL, 1, &x, 3, attrs, 0, NULL));
}

bool ml_lower_ragged_dot(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, 3);
  const HlShape *shape = in ? ml_result_shape(l, op) : NULL;
  const HlMlAttr *numbers = ml_attr(op, ML_A_RAGGED_DOT_DIMENSION_NUMBERS);
  if (!shape)
    return false;
  // MHLO keeps the numbers of the plain dot product in a field of their own.
  const HlMlAttr *own = numbers ? ml_field(numbers, ML_A_DOT_DIMENSION_NUMBERS) : NULL;
  const HlMlAttr *dot = own ? own : numbers;
  HlAttr attrs[7] = {{.key = HL_A_LHS_BATCH_DIMS,
                      .ints = ml_field_ints(l->m->arena, dot, ML_A_LHS_BATCHING_DIMENSIONS)},
                     {.key = HL_A_LHS_CONTRACTING_DIMS,
                      .ints = ml_field_ints(l->m->arena, dot, ML_A_LHS_CONTRACTING_DIMENSIONS)},
                     {.key = HL_A_RHS_BATCH_DIMS,
                      .ints = ml_field_ints(l->m->arena, dot, ML_A_RHS_BATCHING_DIMENSIONS)},
                     {.key = HL_A_RHS_CONTRACTING_DIMS,
                      .ints = ml_field_ints(l->m->arena, dot, ML_A_RHS_CONTRACTING_DIMENSIONS)},
                     {.key = HL_A_LHS_RAGGED_DIMS,
                      .ints = ml_field_ints(l->m->arena, numbers, ML_A_LHS_RAGGED_DIMENSIONS)},
                     {.key = HL_A_RHS_GROUP_DIMS,
                      .ints = ml_field_ints(l->m->arena, numbers, ML_A_RHS_GROUP_DIMENSIONS)}};
  int n = 6 + ml_precision(l, op, &attrs[6]);
  HlInst *inst = hl_b_op(b, HL_OP_RAGGED_DOT, NULL, 3, in, n, attrs, 0, NULL);
  if (inst && inst->shape->dtype != shape->dtype)
    hl_set_shape(inst, hl_shape_with_dtype(l->m->shapes, inst->shape, shape->dtype));
  return ml_set_results(l, b, op, inst);
}

// --- mhlo's own --------------------------------------------------------------------------------------------------

bool ml_lower_domain(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlMlAttr *entry = ml_attr(op, ML_A_ENTRY_METADATA), *exit = ml_attr(op, ML_A_EXIT_METADATA);
  if (!x)
    return false;
  HlDomain *domain = HL_NEW(l->m->arena, HlDomain);
  domain->kind = hl_sym(l->m, "sharding");
  if (!entry || !exit)
    return ml_bad(l, op, "%s wants metadata of entry and exit", op->name->text);
  if (!ml_sharding(l, op, entry, &domain->entry) || !ml_sharding(l, op, exit, &domain->exit))
    return false;
  HlAttr attr = {.key = HL_A_DOMAIN, .ptr = domain};
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_DOMAIN, NULL, 1, &x, 1, &attr, 0, NULL));
}

bool ml_lower_trace(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlShape *none = hl_shape_tuple(l->m->shapes, 0, NULL);
  return x && hl_b_op(b, HL_OP_TRACE, none, 1, &x, 0, NULL, 0, NULL) != NULL;
}

// Types of MLIR that mean the same value in HLO.
bool ml_lower_cast(MlLower *l, HlBuild *b, const HlMlOp *op) {
  if (op->n_operands != op->n_results)
    return ml_unsupported(l, op, "%s of %u values to %u", op->name->text, op->n_operands,
                          op->n_results);
  for (uint32_t k = 0; k < op->n_operands; k++) {
    HlInst *x = ml_in(l, b, op, k);
    const HlShape *shape = x ? ml_shape(l, op, op->results[k].type) : NULL;
    if (!shape)
      return false;
    if (!hl_shape_compatible(x->shape, shape))
      return ml_unsupported(l, op, "%s from %s to %s changes the value", op->name->text,
                            hl_shape_text(l->cx, x->shape), hl_shape_text(l->cx, shape));
    if (!ml_set(l, &op->results[k], x))
      return false;
  }
  return true;
}

static const HlShape *shape_laid_out(MlLower *l, const HlShape *shape, const HlMlAttr *layout) {
  HlI64s order = layout ? hl_ml_ints(l->m->arena, layout) : (HlI64s){0};
  if (!layout || order.n != shape->rank)
    return shape;
  return hl_shape_with_layout(l->m->shapes, shape, ml_layout(l, order));
}

bool ml_lower_bitcast(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlShape *shape = x ? ml_result_shape(l, op) : NULL;
  if (!shape)
    return false;
  shape = shape_laid_out(l, shape, ml_attr(op, ML_A_RESULT_LAYOUT));
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_BITCAST, shape, 1, &x, 0, NULL, 0, NULL));
}
