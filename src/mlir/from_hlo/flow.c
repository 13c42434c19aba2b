// Writes HLO as StableHLO or MHLO: calls, fusions, loops, branches, regions, asynchronous ops, tokens.
#include <stdlib.h>
#include <string.h>

#include "mlir/from_hlo/from_hlo.h"

// --- Regions that fold scalars -----------------------------------------------------------------------------

static const HlMlType *scalar_of(Fh *f, const HlMlType *type) {
  return fh_tensor(f, 0, NULL, hl_ml_element(type));
}

// The value whose element type parameter p of the region has.
static const HlMlType *like_param(const HlMlOp *op, const HlInst *inst, int p) {
  int n = (int)op->n_operands;
  switch (inst->op) {
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return p < n / 2 ? op->results[p].type : op->operands[p - n / 2]->type;
  case HL_OP_SCATTER: return p < (n - 1) / 2 ? op->results[p].type : op->operands[p + 1]->type;
  case HL_OP_SORT: return op->operands[p / 2]->type;
  case HL_OP_MAP: return op->operands[p]->type;
  default: return op->operands[0]->type;
  }
}

static int count_params(const HlMlOp *op, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW:
  case HL_OP_MAP: return (int)op->n_operands;
  case HL_OP_SCATTER: return (int)op->n_operands - 1;
  case HL_OP_SORT: return 2 * (int)op->n_operands;
  default: return 2;
  }
}

bool fh_scalar_region(Fh *f, HlMlOp *op, int k, const HlInst *inst) {
  const HlComp *comp = inst->calls[k].comp;
  int n = count_params(op, inst);
  if (comp->n_params != n)
    return hl_inst_error(f->cx, inst, "'%s' has %d parameters, expected %d", comp->name->text,
                         comp->n_params, n);
  for (int p = 0; p < n; p++)
    if (!hl_shape_is_scalar(comp->params[p]->shape))
      return hl_inst_error(f->cx, inst, "parameter %d of '%s' is not a scalar", p,
                           comp->name->text);
  const HlMlType **args = HL_ARRAY(f->arena, const HlMlType *, n + 1);
  for (int p = 0; p < n; p++)
    args[p] = scalar_of(f, like_param(op, inst, p));
  bool compares = inst->op == HL_OP_SORT || (inst->op == HL_OP_SELECT_AND_SCATTER && k == 0);
  if (compares)
    return fh_region(f, op, k, comp, args, NULL);
  int64_t n_out = hl_shape_leaves(comp->root->shape);
  if (n_out != op->n_results)
    return hl_inst_error(f->cx, inst, "'%s' gives %lld values, expected %u", comp->name->text,
                         (long long)n_out, op->n_results);
  const HlMlType **results = HL_ARRAY(f->arena, const HlMlType *, n_out + 1);
  for (int r = 0; r < n_out; r++)
    results[r] = scalar_of(f, op->results[r].type);
  return fh_region(f, op, k, comp, args, results);
}

bool fh_rule_map(Fh *f, const HlInst *inst, FhValue *out) {
  return fh_default(f, inst, out);
}

bool fh_rule_reduce_window(Fh *f, const HlInst *inst, FhValue *out) {
  HlWindow window = hl_window(inst);
  for (int k = 0; k < window.n; k++)
    if (window.at[k].reversal)
      return fh_error(f, inst, "a reversed window");
  return fh_default(f, inst, out);
}

bool fh_rule_select_and_scatter(Fh *f, const HlInst *inst, FhValue *out) {
  HlWindow window = hl_window(inst);
  for (int k = 0; k < window.n; k++)
    if (window.at[k].reversal || window.at[k].lhs_dilate != 1 || window.at[k].rhs_dilate != 1)
      return fh_error(f, inst, "a reversed or dilated window");
  return fh_default(f, inst, out);
}

// Results are outputs, then the last carries.
bool fh_rule_scan(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t n, n_carries = hl_attr_int(inst, HL_A_NUM_CARRIES),
             n_in = (int64_t)inst->n_operands - n_carries;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || n_in < 0 || n_carries < 0 || n < n_carries)
    return types && hl_inst_error(f->cx, inst, "%lld carries", (long long)n_carries);
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  HlMlOp *op = fh_op(f, f->mhlo ? ML_MHLO_SCAN : ML_CHLO_SCAN, in.n, in.at, (int)n, types, 1);
  const int32_t operands[2] = {(int32_t)n_in, (int32_t)n_carries};
  const int32_t results[2] = {(int32_t)(n - n_carries), (int32_t)n_carries};
  fh_set(f, op, ML_A_OPERAND_SEGMENT_SIZES, fh_i32s(f, 2, operands));
  fh_set(f, op, ML_A_RESULT_SEGMENT_SIZES, fh_i32s(f, 2, results));
  enum { TRUE = 1, FALSE };
  int64_t associative = hl_attr_int(inst, HL_A_IS_ASSOCIATIVE);
  if (associative == TRUE || associative == FALSE)
    fh_set(f, op, ML_A_IS_ASSOCIATIVE, hl_ml_bool(f->tree, associative == TRUE));
  fh_results(op, out);
  return fh_fill(f, op, inst) && inst->n_calls &&
         fh_region(f, op, 0, inst->calls[0].comp, NULL, NULL);
}

// --- Calls ------------------------------------------------------------------------------------------------

static const HlSym *frontend(const HlInst *inst, const char *key) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, key) == 0)
      return dict->value[k];
  return NULL;
}

// What does not describe the composite itself stays a frontend attribute.
static void keep_frontend(Fh *f, HlMlOp *op, const HlInst *inst) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  HlDict rest = {HL_ARRAY(f->arena, const HlSym *, dict->n + 1),
                 HL_ARRAY(f->arena, const HlSym *, dict->n + 1), 0};
  for (int k = 0; k < dict->n; k++) {
    if (strncmp(dict->key[k]->text, "composite.", 10) == 0)
      continue;
    ((const HlSym **)rest.key)[rest.n] = dict->key[k];
    ((const HlSym **)rest.value)[rest.n++] = dict->value[k];
  }
  fh_set(f, op, ML_A_MHLO_FRONTEND_ATTRIBUTES, fh_string_dict(f, &rest));
}

static bool put_composite(Fh *f, const HlInst *inst, const HlSym *name, HlMlOp *op) {
  const HlSym *attrs = frontend(inst, "composite.attributes"),
              *version = frontend(inst, "composite.version");
  fh_set(f, op, ML_A_NAME, hl_ml_string(f->tree, name->text, name->n));
  fh_set(f, op, ML_A_DECOMPOSITION, hl_ml_symbol(f->tree, fh_function(f, inst->calls[0].comp)));
  if (version)
    fh_set(f, op, ML_A_VERSION, fh_i32(f, strtoll(version->text, NULL, 10)));
  const HlMlAttr *dict = attrs ? fh_parse_attr(f, attrs->text, attrs->n) : NULL;
  if (attrs && (!dict || dict->kind != HL_ML_A_DICT))
    return fh_error(f, inst, "composite.attributes are not a dictionary: %s", attrs->text);
  if (dict)
    fh_set(f, op, ML_A_COMPOSITE_ATTRIBUTES, dict);
  keep_frontend(f, op, inst);
  return true;
}

bool fh_rule_call(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types)
    return false;
  const HlComp *comp = inst->calls[0].comp;
  if (comp->n_params != (int)inst->n_operands)
    return hl_inst_error(f->cx, inst, "%u operands, '%s' has %d parameters", inst->n_operands,
                         comp->name->text, comp->n_params);
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  const HlSym *name =
      hl_attr_int(inst, HL_A_IS_COMPOSITE) == 1 ? frontend(inst, "composite.name") : NULL;
  HlMlOp *op =
      fh_op(f, name ? ML_STABLEHLO_COMPOSITE : ML_FUNC_CALL, in.n, in.at, (int)n, types, 0);
  fh_results(op, out);
  if (name)
    return put_composite(f, inst, name, op);
  fh_set(f, op, ML_A_CALLEE, hl_ml_symbol(f->tree, fh_function(f, comp)));
  return true;
}

static bool inline_call(Fh *f, const HlInst *inst, FhValue *out) {
  const HlComp *comp = inst->calls[0].comp;
  if (comp->n_params != (int)inst->n_operands)
    return hl_inst_error(f->cx, inst, "%u operands, '%s' has %d parameters", inst->n_operands,
                         comp->name->text, comp->n_params);
  FhValue *args = HL_ARRAY(f->arena, FhValue, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    args[k] = fh_operand(f, inst, (int)k);
  return fh_inline(f, comp, args, out);
}

bool fh_rule_fusion(Fh *f, const HlInst *inst, FhValue *out) {
  if (!f->mhlo) {
    fh_lose(f, FH_LOSS_FUSION, inst);
    return inline_call(f, inst, out);
  }
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types)
    return false;
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  HlMlOp *op = fh_op(f, ML_MHLO_FUSION, in.n, in.at, (int)n, types, 1);
  fh_results(op, out);
  return fh_fill(f, op, inst) && fh_region(f, op, 0, inst->calls[0].comp, NULL, NULL);
}

// --- Loops and branches -------------------------------------------------------------------------------------

bool fh_rule_while(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || inst->n_calls != 2)
    return types && hl_inst_error(f->cx, inst, "a while without body or condition");
  FhValue state = fh_operand(f, inst, 0);
  HlMlOp *op = fh_op(f, ML_STABLEHLO_WHILE, state.n, state.at, (int)n, types, 2);
  fh_results(op, out);
  return fh_region(f, op, 0, hl_while_condition(inst), NULL, NULL) &&
         fh_region(f, op, 1, hl_while_body(inst), NULL, NULL);
}

bool fh_rule_conditional(Fh *f, const HlInst *inst, FhValue *out) {
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types)
    return false;
  if (inst->n_operands != (uint32_t)inst->n_calls + 1)
    return hl_inst_error(f->cx, inst, "%u operands for %u branches", inst->n_operands,
                         (unsigned)inst->n_calls);
  HlMlValue *index = fh_in(f, inst, 0);
  bool is_if = inst->operands[0]->shape->dtype == HL_PRED;
  HlMlOp *op = fh_op(f, is_if ? ML_STABLEHLO_IF : ML_STABLEHLO_CASE, 1, &index, (int)n, types,
                     inst->n_calls);
  fh_results(op, out);
  for (int k = 0; k < inst->n_calls; k++)
    if (!fh_branch(f, op, k, inst->calls[k].comp, fh_operand(f, inst, k + 1)))
      return false;
  return true;
}

// --- Asynchronous ops: the op itself, where it starts ------------------------------------------------------------

static void set_async(Fh *f, HlMlOp *op, const HlInst *start) {
  const char *thread = hl_attr_text(start, HL_A_ASYNC_EXECUTION_THREAD);
  fh_set(f, op, ML_A_CALLED_COMPUTATION,
         hl_ml_symbol(f->tree, fh_function(f, start->calls[0].comp)));
  fh_set(f, op, ML_A_EXECUTION_THREAD, fh_text(f, thread[0] ? thread : "main"));
}

// MHLO has a value that stands for all of a started op; it is the first leaf.
static bool start_bundle(Fh *f, const HlInst *inst, FhValue *out) {
  const HlMlType **element = HL_ARRAY(f->arena, const HlMlType *, inst->shape->rank + 1);
  for (int k = 0; k < inst->shape->rank; k++)
    if (!(element[k] = fh_type(f, inst->shape->element[k])))
      return false;
  const HlMlType *bundle = hl_ml_list_type(f->tree, HL_ML_BUNDLE, inst->shape->rank, element);
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  HlMlOp *op = fh_op(f, ML_MHLO_ASYNC_START, in.n, in.at, 1, &bundle, 0);
  set_async(f, op, inst);
  out->at[0] = &op->results[0];
  return true;
}

static bool is_started(const HlInst *inst) {
  return hl_shape_is_tuple(inst->shape) && inst->shape->rank >= 2 && inst->n_calls == 1;
}

bool fh_rule_async_start(Fh *f, const HlInst *inst, FhValue *out) {
  if (!is_started(inst))
    return hl_inst_error(f->cx, inst, "an async-start without a computation");
  const HlComp *comp = inst->calls[0].comp;
  if ((int)inst->n_operands < comp->n_params)
    return hl_error_kind(f->cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: arguments that an async-update binds have no word in MLIR",
                         inst->name->text);
  if (f->mhlo && out->n)
    return start_bundle(f, inst, out);
  fh_lose(f, FH_LOSS_ASYNC, inst);
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands),
          results = fh_value(f, hl_shape_leaves(comp->root->shape));
  if (!inline_call(f, inst, &results))
    return false;
  fh_copy(out, in);
  for (int k = 0; k < results.n && in.n + k < out->n; k++)
    out->at[in.n + k] = results.at[k];
  return true;
}

bool fh_rule_async_update(Fh *f, const HlInst *inst, FhValue *out) {
  const HlInst *start = hl_async_chain_start(NULL, inst);
  if (!f->mhlo || !start || !start->n_calls || !out->n)
    return fh_rule_first(f, inst, out);
  FhValue in = fh_operand(f, inst, 0);
  if (!in.n || !in.at[0])
    return hl_inst_error(f->cx, inst, "an async-update without a start");
  HlMlOp *op = fh_op(f, ML_MHLO_ASYNC_UPDATE, 1, in.at, 1, &in.at[0]->type, 0);
  set_async(f, op, start);
  out->at[0] = &op->results[0];
  return true;
}

bool fh_rule_async_done(Fh *f, const HlInst *inst, FhValue *out) {
  if (!f->mhlo)
    return fh_rule_second(f, inst, out);
  const HlInst *start = hl_async_chain_start(NULL, inst);
  FhValue in = fh_operand(f, inst, 0);
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types || !start || !start->n_calls || !in.n)
    return types && hl_inst_error(f->cx, inst, "an async-done without a start");
  HlMlOp *op = fh_op(f, ML_MHLO_ASYNC_DONE, 1, in.at, (int)n, types, 0);
  set_async(f, op, start);
  fh_results(op, out);
  return true;
}

// (destination, source, context)
bool fh_rule_copy_start(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operand(f, inst, 0);
  fh_lose(f, FH_LOSS_ASYNC, inst);
  fh_copy(out, in);
  for (int k = 0; k < in.n && in.n + k < out->n; k++)
    out->at[in.n + k] = in.at[k];
  return true;
}

bool fh_rule_copy_done(Fh *f, const HlInst *inst, FhValue *out) {
  return fh_rule_first(f, inst, out);
}

// --- Order, borders -------------------------------------------------------------------------------------------

bool fh_rule_after_all(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  const HlMlType *type = fh_type(f, inst->shape);
  return type && (out->at[0] = fh_make(f, in.n ? ML_STABLEHLO_AFTER_ALL : ML_STABLEHLO_CREATE_TOKEN,
                                       in.n, in.at, type));
}

// A barrier that takes the token too gives the value after it.
bool fh_rule_add_dependency(Fh *f, const HlInst *inst, FhValue *out) {
  FhValue in = fh_operands(f, inst, 0, 2);
  if (f->mhlo && in.n == 2)
    return fh_default(f, inst, out);
  const HlMlType **types = HL_ARRAY(f->arena, const HlMlType *, in.n + 1);
  for (int k = 0; k < in.n; k++)
    types[k] = in.at[k]->type;
  fh_results(fh_op(f, ML_STABLEHLO_OPTIMIZATION_BARRIER, in.n, in.at, in.n, types, 0), out);
  return true;
}

bool fh_rule_domain(Fh *f, const HlInst *inst, FhValue *out) {
  const HlDomain *domain = hl_attr_ptr(inst, HL_A_DOMAIN);
  if (!f->mhlo || out->n != 1 || !domain || !domain->entry || !domain->exit) {
    fh_lose(f, FH_LOSS_DOMAIN, inst);
    return fh_rule_first(f, inst, out);
  }
  HlMlValue *in = fh_in(f, inst, 0);
  out->at[0] = fh_make(f, ML_MHLO_DOMAIN, 1, &in, in->type);
  fh_set(f, out->at[0]->def, ML_A_KIND, fh_enum(f, ML_D_DOMAIN_KIND, 0));
  fh_set(f, out->at[0]->def, ML_A_ENTRY_METADATA, fh_sharding(f, domain->entry));
  fh_set(f, out->at[0]->def, ML_A_EXIT_METADATA, fh_sharding(f, domain->exit));
  return true;
}

bool fh_rule_trace(Fh *f, const HlInst *inst, FhValue *out) {
  (void)out;
  fh_lose(f, FH_LOSS_TRACE, inst);
  return true;
}
