// Makes a tree portable: CHLO's functions as the custom calls by which XLA knows them.
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
  ml_set_attr(tree, op, ML_A_CALL_TARGET_NAME, hl_ml_string_of(tree, hl_ml_sym(tree, target)));
  ml_set_attr(tree, op, ML_A_MHLO_ATTRIBUTES, hl_ml_dict(tree, n, attrs));
  ml_set_attr(tree, op, ML_A_MHLO_VERSION, hl_ml_i64(tree, 1));
}

void hl_ml_make_portable(HlMlTree *tree) {
  const HlMlOp *top = tree->module;
  for (HlMlOp *op = hl_ml_next(top, top), *next; op; op = next) {
    next = hl_ml_next(op, top);
    const char *target = target_of(op);
    if (target)
      as_call(tree, op, target);
  }
}
