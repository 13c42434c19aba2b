// Makes a tree portable: what CHLO has for HLO's ops as the custom calls by which XLA knows them.
#include "hilo/custom_calls.h"
#include "mlir/tree/tree.h"

// XLA and Hilo make ops of such calls again before anything else.
static const struct Call {
  HlMlRow row;
  HlCallTarget target;
} calls[] = {
    {ML_CHLO_ACOS, HL_CALL_MHLO_ACOS},   {ML_CHLO_ACOSH, HL_CALL_MHLO_ACOSH},
    {ML_CHLO_ASIN, HL_CALL_MHLO_ASIN},   {ML_CHLO_ASINH, HL_CALL_MHLO_ASINH},
    {ML_CHLO_ATANH, HL_CALL_MHLO_ATANH}, {ML_CHLO_COSH, HL_CALL_MHLO_COSH},
    {ML_CHLO_SINH, HL_CALL_MHLO_SINH},   {ML_CHLO_ERF, HL_CALL_MHLO_ERF},
    {ML_CHLO_TAN, HL_CALL_MHLO_TAN},     {ML_CHLO_TOP_K, HL_CALL_MHLO_TOPK},
};

// NULL: the op has no such name.
static const char *target_of(const HlMlOp *op) {
  for (int k = 0; k < HL_COUNT_OF(calls); k++)
    if (calls[k].row == op->row)
      return hl_call_info[calls[k].target].name;
  return NULL;
}

static void name_call(HlMlTree *tree, HlMlOp *op, const char *target, int n,
                      const HlMlNamed *attrs) {
  ml_set_attr(tree, op, ML_A_CALL_TARGET_NAME, hl_ml_string_of(tree, hl_ml_sym(tree, target)));
  ml_set_attr(tree, op, ML_A_MHLO_ATTRIBUTES, hl_ml_dict(tree, n, attrs));
  ml_set_attr(tree, op, ML_A_MHLO_VERSION, hl_ml_i64(tree, 1));
}

static void as_call(HlMlTree *tree, HlMlOp *op, const char *target) {
  HlMlNamed attrs[2];
  int n = 0;
  const HlMlAttr *k = ml_attr(op, ML_A_K);
  if (op->row == ML_CHLO_TOP_K && k) {
    attrs[n++] = ml_named(tree, ML_A_K, k);
    attrs[n++] = ml_named(tree, ML_A_LARGEST, hl_ml_bool(tree, true));
  }
  ml_set_attr(tree, op, ML_A_K, NULL);
  ml_set_attr(tree, op, ML_A_IS_STABLE, NULL);
  ml_rename(tree, op, ML_STABLEHLO_CUSTOM_CALL, HL_ML_STABLEHLO);
  name_call(tree, op, target, n, attrs);
}

// --- Scans -----------------------------------------------------------------------------------------------

static const HlSym *free_name(HlMlTree *tree, const char *stem) {
  const HlSym *name = hl_ml_sym(tree, stem);
  for (int k = 0; hl_ml_find_symbol(tree, name); k++)
    name = hl_ml_sym(tree, hl_arena_printf(tree->arena, "%s_%d", stem, k));
  return name;
}

// The body of an op as a private function at the end of the module.
static const HlSym *as_function(HlMlTree *tree, HlMlOp *op, HlMlBlock *body) {
  const HlSym *name = free_name(tree, "scan");
  HlMlOp *func = ml_op(tree, hl_ml_body(tree->module, 0), ML_FUNC_FUNC, 0, NULL, 0, NULL, 1);
  HlMlOp *end = body->last;
  const HlMlType **types =
      HL_ARRAY(tree->arena, const HlMlType *, (uint32_t)body->n_args + end->n_operands + 1);
  for (int k = 0; k < body->n_args; k++)
    types[k] = body->args[k]->type;
  for (uint32_t k = 0; k < end->n_operands; k++)
    types[(uint32_t)body->n_args + k] = end->operands[k]->type;
  const HlMlType *type =
      hl_ml_function_type(tree, body->n_args, types, (int)end->n_operands, types + body->n_args);
  ml_set_attr(tree, func, ML_A_SYM_NAME, hl_ml_string_of(tree, name));
  ml_set_attr(tree, func, ML_A_SYM_VISIBILITY, hl_ml_string_of(tree, hl_ml_sym(tree, "private")));
  ml_set_attr(tree, func, ML_A_FUNCTION_TYPE, hl_ml_type_attr(tree, type));
  op->regions[0].first = op->regions[0].last = NULL;
  ml_append_block(&func->regions[0], body);
  ml_rename(tree, end, ML_FUNC_RETURN, HL_ML_FUNC);
  return name;
}

// A call of mhlo.scan in the place of a scan; NULL where the op is none that has a body.
static HlMlOp *scan_as_call(HlMlTree *tree, HlMlOp *op) {
  static const MlName kept[] = {
      ML_A_DIMENSION,     ML_A_IS_ASSOCIATIVE,        ML_A_IS_REVERSE,
      ML_A_SCAN_DIM_SIZE, ML_A_OPERAND_SEGMENT_SIZES, ML_A_RESULT_SEGMENT_SIZES};
  HlMlBlock *body = hl_ml_body(op, 0);
  if ((op->row != ML_CHLO_SCAN && op->row != ML_MHLO_SCAN) || !body || body->next || !body->last)
    return NULL;
  const HlMlType **types = HL_ARRAY(tree->arena, const HlMlType *, op->n_results + 1);
  for (uint32_t k = 0; k < op->n_results; k++)
    types[k] = op->results[k].type;
  HlMlOp *call = ml_op_before(tree, op, ML_STABLEHLO_CUSTOM_CALL, (int)op->n_operands, op->operands,
                              (int)op->n_results, types, 0);
  HlMlNamed attrs[HL_COUNT_OF(kept)];
  int n = 0;
  for (int k = 0; k < HL_COUNT_OF(kept); k++)
    if (ml_attr(op, kept[k]))
      attrs[n++] = ml_named(tree, kept[k], ml_attr(op, kept[k]));
  const HlMlAttr *called = hl_ml_symbol(tree, as_function(tree, op, body));
  name_call(tree, call, hl_call_info[HL_CALL_MHLO_SCAN].name, n, attrs);
  ml_set_attr(tree, call, ML_A_CALLED_COMPUTATIONS, hl_ml_array(tree, 1, &called));
  for (uint32_t k = 0; k < op->n_results; k++)
    hl_ml_replace(op->block->region, &op->results[k], &call->results[k]);
  hl_ml_unlink(op);
  return call;
}

void hl_ml_make_portable(HlMlTree *tree) {
  const HlMlOp *top = tree->module;
  for (HlMlOp *op = hl_ml_next(top, top), *next; op; op = next) {
    HlMlOp *call = scan_as_call(tree, op);
    op = call ? call : op;
    next = hl_ml_next(op, top);
    const char *target = target_of(op);
    if (target)
      as_call(tree, op, target);
  }
}
