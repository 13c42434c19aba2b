// Arguments of a function that its callers do not see, because JAX adds them:
//
//   func.func public @main(%arg0: tensor<i32> {jax.global_constant = "_platform_index"}, %arg1: tensor<?xf32>)
//
// A program exported for several platforms asks with it which of them it runs on.
#include "mlir/refine/refine.h"
#include "mlir/tree/tree.h"

// The name of what an argument holds, or NULL: it is the caller's.
static const HlSym *global_of(const HlMlOp *func, int k) {
  const HlMlAttr *list = ml_attr(func, ML_A_ARG_ATTRS);
  const HlMlAttr *name =
      list && k < list->n ? ml_field(list->list[k], ML_A_JAX_GLOBAL_CONSTANT) : NULL;
  return name ? name->sym : NULL;
}

static bool is_platform(const HlMlOp *func, int k) {
  const HlSym *name = global_of(func, k);
  const HlMlType *type = hl_ml_body(func, 0)->args[k]->type;
  return name && hl_str_is((HlStr){name->text, name->n}, "_platform_index") &&
         hl_ml_is_tensor(type) && type->rank == 0 && hl_is_integral(hl_ml_dtype(type));
}

static HlMlValue *constant(HlMlTree *tree, HlMlBlock *body, const HlMlType *type, int64_t value) {
  HlMlOp *op = ml_op(tree, NULL, ML_STABLEHLO_CONSTANT, 0, NULL, 1, &type, 0);
  int64_t room = 0;
  const HlShape *shape = hl_shape_scalar(hl_shapes_new(tree->arena), hl_ml_dtype(type));
  HlLiteral holder = {.shape = shape, .n = 1, .data = &room};
  hl_literal_set_i64(&holder, 0, value);
  ml_set_attr(tree, op, ML_A_VALUE, hl_ml_dense(tree, type, &room, 1, true));
  hl_ml_place_before(op, body->first);
  return &op->results[0];
}

static void replace(HlMlOp *func, const HlMlValue *old, HlMlValue *by) {
  for (HlMlOp *op = hl_ml_next(func, func); op; op = hl_ml_next(op, func))
    for (uint32_t k = 0; k < op->n_operands; k++)
      if (op->operands[k] == old)
        op->operands[k] = by;
}

static void drop_argument(HlMlTree *tree, HlMlOp *func, int which) {
  HlMlBlock *body = hl_ml_body(func, 0);
  const HlMlAttr *list = ml_attr(func, ML_A_ARG_ATTRS);
  const HlMlType *type = ml_attr(func, ML_A_FUNCTION_TYPE)->type;
  const int n = --body->n_args;
  const HlMlAttr **dicts = HL_ARRAY(tree->arena, const HlMlAttr *, n + 1);
  const HlMlType **in = HL_ARRAY(tree->arena, const HlMlType *, n + 1);
  for (int k = 0; k < n; k++) {
    const int from = k < which ? k : k + 1;
    body->args[k] = body->args[from];
    body->args[k]->number = k;
    dicts[k] = list->list[from];
    in[k] = body->args[k]->type;
  }
  const int n_out = type->n - type->n_inputs;
  const HlMlType *rest = hl_ml_function_type(tree, n, in, n_out, type->element + type->n_inputs);
  ml_set_attr(tree, func, ML_A_ARG_ATTRS, hl_ml_array(tree, n, dicts));
  ml_set_attr(tree, func, ML_A_FUNCTION_TYPE, hl_ml_type_attr(tree, rest));
}

void hl_ml_fill_hidden(HlMlTree *tree, const HlSym *entry, int64_t platform) {
  HlMlOp *func = hl_ml_find_symbol(tree, entry ? entry : hl_ml_sym(tree, "main"));
  HlMlBlock *body = func && func->n_regions > 0 ? hl_ml_body(func, 0) : NULL;
  for (int k = body && body->first ? body->n_args - 1 : -1; k >= 0; k--) {
    if (!is_platform(func, k))
      continue;
    HlMlValue *old = body->args[k];
    replace(func, old, constant(tree, body, old->type, platform));
    drop_argument(tree, func, k);
  }
}
