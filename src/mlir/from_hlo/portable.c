// Makes a tree portable: CHLO's functions as the custom calls by which XLA knows them.
#include "mlir/tree/tree.h"

// The names are MHLO's. XLA and Hilo make ops of such calls again before anything else.
static const struct Call {
  HlMlRow row;
  const char *target;
} calls[] = {{ML_CHLO_ACOS, "mhlo.acos"},   {ML_CHLO_ACOSH, "mhlo.acosh"},
             {ML_CHLO_ASIN, "mhlo.asin"},   {ML_CHLO_ASINH, "mhlo.asinh"},
             {ML_CHLO_ATANH, "mhlo.atanh"}, {ML_CHLO_COSH, "mhlo.cosh"},
             {ML_CHLO_SINH, "mhlo.sinh"},   {ML_CHLO_ERF, "mhlo.erf"},
             {ML_CHLO_TAN, "mhlo.tan"},     {ML_CHLO_TOP_K, "mhlo.topk"}};

static const char *target_of(const HlMlOp *op) {
  for (int k = 0; k < HL_COUNT_OF(calls); k++)
    if (calls[k].row == op->row)
      return calls[k].target;
  return NULL;
}

static void as_call(HlMlTree *tree, HlMlOp *op, const char *target) {
  HlMlNamed attrs[2];
  int n = 0;
  const HlMlAttr *k = hl_ml_attr(op, "k");
  if (op->row == ML_CHLO_TOP_K && k) {
    attrs[n++] = (HlMlNamed){.name = hl_ml_sym(tree, "k"), .value = k};
    attrs[n++] = (HlMlNamed){.name = hl_ml_sym(tree, "largest"), .value = hl_ml_bool(tree, true)};
  }
  hl_ml_set(tree, op, "k", NULL);
  hl_ml_set(tree, op, "is_stable", NULL);
  op->name = hl_ml_sym(tree, "stablehlo.custom_call");
  op->row = ML_STABLEHLO_CUSTOM_CALL;
  op->dialect = HL_ML_STABLEHLO;
  hl_ml_set(tree, op, "call_target_name", hl_ml_string_of(tree, hl_ml_sym(tree, target)));
  hl_ml_set(tree, op, "mhlo.attributes", hl_ml_dict(tree, n, attrs));
  hl_ml_set(tree, op, "mhlo.version", hl_ml_i64(tree, 1));
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
