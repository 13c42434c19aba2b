// Types as shapes; attributes of ops, arguments and modules as HLO has them.
#include <string.h>

#include "hilo/custom_calls.h"
#include "mlir/to_hlo/to_hlo.h"
#include "mlir/tree/tree.h"

// --- Shapes ---------------------------------------------------------------------------------------------

static const HlShape *tensor_shape(MlLower *l, const HlMlOp *op, const HlMlType *type) {
  HlShapes *shapes = l->m->shapes;
  HlDtype dtype = hl_ml_dtype(type);
  if (hl_ml_element(type)->kind == HL_ML_TOKEN)
    return hl_shape_token(shapes);
  if (dtype == HL_NO_DTYPE) {
    ml_unsupported(l, op, "HLO has no element type for %s", hl_ml_type_text(l->cx, type));
    return NULL;
  }
  if (hl_ml_is_static(type))
    return hl_shape_array(shapes, dtype, type->rank, type->dim);
  HlI64s bounds = hl_ml_bounds(type);
  int64_t *dim = HL_ARRAY(l->arena, int64_t, type->rank + 1);
  bool *dynamic = HL_ARRAY(l->arena, bool, type->rank + 1);
  for (int k = 0; k < type->rank; k++) {
    dynamic[k] = type->dim[k] == HL_UNBOUNDED;
    dim[k] = !dynamic[k] ? type->dim[k] : k < bounds.n ? bounds.at[k] : HL_UNBOUNDED;
  }
  const HlShape *plain = hl_shape_array(shapes, dtype, type->rank, dim);
  return hl_shape_array_full(shapes, dtype, type->rank, dim, dynamic, plain->layout);
}

static const HlShape *list_shape(MlLower *l, const HlMlOp *op, const HlMlType *type) {
  const HlShape **element = HL_ARRAY(l->arena, const HlShape *, type->n + 1);
  for (int k = 0; k < type->n; k++)
    if (!(element[k] = ml_shape(l, op, type->element[k])))
      return NULL;
  return hl_shape_tuple(l->m->shapes, type->n, element);
}

const HlShape *ml_shape(MlLower *l, const HlMlOp *op, const HlMlType *type) {
  switch (type->kind) {
  case HL_ML_TENSOR: return tensor_shape(l, op, type);
  case HL_ML_TOKEN: return hl_shape_token(l->m->shapes);
  case HL_ML_TUPLE:
  case HL_ML_BUNDLE:
  case HL_ML_FUTURE: return list_shape(l, op, type);
  case HL_ML_INT:
  case HL_ML_FLOAT:
  case HL_ML_COMPLEX:
    if (type->dtype != HL_NO_DTYPE)
      return hl_shape_scalar(l->m->shapes, type->dtype);
    break;
  default: break;
  }
  ml_unsupported(l, op, "values of type %s have no counterpart in HLO",
                 hl_ml_type_text(l->cx, type));
  return NULL;
}

const HlShape *ml_result_shape(MlLower *l, const HlMlOp *op) {
  if (op->n_results == 1)
    return ml_shape(l, op, op->results[0].type);
  const HlShape **element = HL_ARRAY(l->arena, const HlShape *, op->n_results + 1);
  for (uint32_t k = 0; k < op->n_results; k++)
    if (!(element[k] = ml_shape(l, op, op->results[k].type)))
      return NULL;
  return hl_shape_tuple(l->m->shapes, (int)op->n_results, element);
}

const HlLayout *ml_layout(MlLower *l, HlI64s minor_to_major) {
  HlLayout *layout = HL_NEW(l->m->arena, HlLayout);
  layout->minor_to_major = minor_to_major;
  return layout;
}

// --- Reading attributes ----------------------------------------------------------------------------------

bool ml_attr_true(const HlMlOp *op, MlName name) {
  return ml_attr_int(op, name, 0) != 0;
}

double ml_attr_float(const HlMlOp *op, MlName name, double absent) {
  const HlMlAttr *attr = ml_attr(op, name);
  return attr && attr->kind == HL_ML_A_FLOAT ? attr->f : absent;
}

const HlSym *ml_sym(MlLower *l, const HlSym *sym) {
  return hl_syms_add(l->m->syms, sym->text, sym->n);
}

HlI64s ml_pairs(MlLower *l, const HlMlOp *op, MlName name) {
  const HlMlAttr *attr = ml_attr(op, name);
  HlI64s list = attr ? hl_ml_ints(l->m->arena, attr) : (HlI64s){0};
  if (list.n != 1 || !attr->type || attr->kind != HL_ML_A_DENSE ||
      hl_ml_elements(attr->type) <= 1 || hl_ml_elements(attr->type) > INT32_MAX)
    return list;
  // A splat stands for all.
  int64_t *all = HL_ARRAY(l->m->arena, int64_t, hl_ml_elements(attr->type));
  for (int64_t k = 0; k < hl_ml_elements(attr->type); k++)
    all[k] = list.at[0];
  return (HlI64s){all, (int)hl_ml_elements(attr->type)};
}

static int64_t precision_of(const HlMlAttr *attr) {
  static const char *const words[] = {"DEFAULT", "HIGH", "HIGHEST"};
  if (attr->kind == HL_ML_A_ENUM)
    return attr->i;
  for (int k = 0; k < 3; k++)
    if (attr->kind == HL_ML_A_STRING && strcmp(attr->sym->text, words[k]) == 0)
      return k;
  return 0;
}

int ml_precision(MlLower *l, const HlMlOp *op, HlAttr *out) {
  const HlMlAttr *list = ml_attr(op, ML_A_PRECISION_CONFIG);
  if (!list || list->kind != HL_ML_A_ARRAY || list->n == 0)
    return 0;
  int64_t *values = HL_ARRAY(l->m->arena, int64_t, list->n);
  bool any = false;
  for (int k = 0; k < list->n; k++)
    any |= (values[k] = precision_of(list->list[k])) != 0;
  if (!any)
    return 0;
  *out = (HlAttr){.key = HL_A_OPERAND_PRECISION, .ints = {values, list->n}};
  return 1;
}

const HlAccuracy *ml_accuracy(MlLower *l, const HlMlAttr *attr) {
  if (attr->kind != HL_ML_A_STRUCT)
    return NULL;
  int64_t mode = ml_field_int(attr, ML_A_MODE, 0);
  if (mode == 0)
    return NULL;
  HlAccuracy *accuracy = HL_NEW(l->m->arena, HlAccuracy);
  if (mode == 1) {
    accuracy->mode = HL_WORD_accuracy_mode_HIGHEST;
    return accuracy;
  }
  const HlMlAttr *atol = ml_field(attr, ML_A_ATOL), *rtol = ml_field(attr, ML_A_RTOL);
  accuracy->has_tolerance = true;
  accuracy->atol = atol && atol->kind == HL_ML_A_FLOAT ? atol->f : 0;
  accuracy->rtol = rtol && rtol->kind == HL_ML_A_FLOAT ? rtol->f : 0;
  accuracy->ulps = ml_field_int(attr, ML_A_ULPS, 0);
  return accuracy;
}

// --- Dictionaries, shardings ---------------------------------------------------------------------------------

HlDict ml_dict_with(MlLower *l, HlDict dict, const char *key, const char *value, size_t n) {
  const HlSym **keys = HL_ARRAY(l->m->arena, const HlSym *, dict.n + 1);
  const HlSym **values = HL_ARRAY(l->m->arena, const HlSym *, dict.n + 1);
  const HlSym *name = hl_sym(l->m, key);
  int at = 0, kept = 0;
  while (at < dict.n && ml_compare_syms(dict.key[at], name) < 0)
    at++;
  for (int k = 0; k < at; k++, kept++)
    keys[k] = dict.key[k], values[k] = dict.value[k];
  keys[kept] = name;
  values[kept++] = hl_syms_add(l->m->syms, value, n);
  for (int k = at; k < dict.n; k++)
    if (dict.key[k] != name) {
      keys[kept] = dict.key[k];
      values[kept++] = dict.value[k];
    }
  return (HlDict){keys, values, kept};
}

// A string's content, or the text of any other attribute.
static const HlSym *frontend_value(MlLower *l, const HlMlAttr *value) {
  if (value->kind == HL_ML_A_STRING)
    return ml_sym(l, value->sym);
  HlBuf text = {0};
  hl_ml_attr_print(&text, value);
  const HlSym *sym = hl_syms_add(l->m->syms, text.at, text.n);
  hl_buf_free(&text);
  return sym;
}

void ml_frontend_text(MlLower *l, HlDict *dict, const char *key, const HlMlAttr *value) {
  HlBuf text = {0};
  hl_ml_attr_print(&text, value);
  *dict = ml_dict_with(l, *dict, key, text.at, text.n);
  hl_buf_free(&text);
}

bool ml_frontend(MlLower *l, const HlMlOp *op, const HlMlAttr *dict, HlDict *out) {
  if (dict->kind != HL_ML_A_DICT)
    return ml_bad(l, op, "frontend attributes are a dictionary of strings");
  const HlSym **keys = HL_ARRAY(l->m->arena, const HlSym *, dict->n + out->n + 1);
  const HlSym **values = HL_ARRAY(l->m->arena, const HlSym *, dict->n + out->n + 1);
  int n = 0, old = 0;  // both are sorted
  for (int k = 0; k < dict->n; k++) {
    const HlSym *name = ml_sym(l, dict->dict[k].name);
    for (; old < out->n && ml_compare_syms(out->key[old], name) < 0; old++, n++)
      keys[n] = out->key[old], values[n] = out->value[old];
    old += old < out->n && out->key[old] == name;
    keys[n] = name;
    values[n++] = frontend_value(l, dict->dict[k].value);
  }
  for (; old < out->n; old++, n++)
    keys[n] = out->key[old], values[n] = out->value[old];
  *out = (HlDict){keys, values, n};
  return true;
}

bool ml_sharding(MlLower *l, const HlMlOp *op, const HlMlAttr *text, const HlSharding **out) {
  if (text->kind != HL_ML_A_STRING)
    return ml_bad(l, op, "a sharding is a string");
  // A table of void pointers holds the function's address.
  MlShardingFn *parse = NULL;
  void *found = hl_cx_lookup(l->cx, "sharding:parse");
  memcpy(&parse, &found, sizeof parse);
  if (!parse)
    return ml_unsupported(l, op, "nothing is registered that reads shardings");
  return parse(l->cx, l->m, hl_ml_pos(l->tree, op), (HlStr){text->sym->text, text->sym->n}, out);
}

bool ml_begin_op(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *frontend = ml_attr(op, ML_A_MHLO_FRONTEND_ATTRIBUTES);
  const HlMlAttr *sharding = ml_attr(op, ML_A_MHLO_SHARDING), *sdy = ml_attr(op, ML_A_SDY_SHARDING);
  const HlMlAttr *rule = ml_attr(op, ML_A_SDY_SHARDING_RULE);
  b->sharding = NULL;
  b->frontend = (HlDict){0};
  b->name = NULL;
  b->metadata = NULL;
  if (op->location)
    b->metadata = ml_metadata(l, op->location, &b->name);
  if (frontend && !ml_frontend(l, op, frontend, &b->frontend))
    return false;
  if (sdy && op->dialect != HL_ML_SDY && !ml_sdy_attr(l, op, sdy, &b->sharding, &b->frontend))
    return false;
  if (rule)
    ml_frontend_text(l, &b->frontend, "xla.sdy.sharding_rule", rule);
  return !sharding || ml_sharding(l, op, sharding, &b->sharding);
}

// --- Functions ----------------------------------------------------------------------------------------------------

const HlMlAttr *ml_func_attr(const HlMlOp *func, MlName list, int k, MlName name) {
  const HlMlAttr *attrs = ml_attr(func, list);
  if (!attrs || attrs->kind != HL_ML_A_ARRAY || k >= attrs->n ||
      attrs->list[k]->kind != HL_ML_A_DICT)
    return NULL;
  return ml_field(attrs->list[k], name);
}

static bool parameter_sharding(MlLower *l, const HlMlOp *func, int k, HlBuild *b) {
  const HlMlAttr *sharding = ml_func_attr(func, ML_A_ARG_ATTRS, k, ML_A_MHLO_SHARDING);
  const HlMlAttr *sdy = ml_func_attr(func, ML_A_ARG_ATTRS, k, ML_A_SDY_SHARDING);
  const HlMlAttr *frontend = ml_func_attr(func, ML_A_ARG_ATTRS, k, ML_A_MHLO_FRONTEND_ATTRIBUTES);
  if (frontend && !ml_frontend(l, func, frontend, &b->frontend))
    return false;
  if (sdy && !ml_sdy_attr(l, func, sdy, &b->sharding, &b->frontend))
    return false;
  return !sharding || ml_sharding(l, func, sharding, &b->sharding);
}

// Which leaves of a parameter are the same in all replicas.
static void parameter_replication(MlLower *l, const HlMlOp *func, int k, HlInst *parameter) {
  const HlMlAttr *flags = ml_func_attr(func, ML_A_ARG_ATTRS, k, ML_A_MHLO_PARAMETER_REPLICATION);
  const HlMlAttr *same =
      ml_func_attr(func, ML_A_ARG_ATTRS, k, ML_A_MHLO_IS_SAME_DATA_ACROSS_REPLICAS);
  int64_t yes = 1;
  HlI64s list = {0};
  if (flags)
    list = hl_ml_ints(l->m->arena, flags);
  else if (same && (same->kind == HL_ML_A_UNIT || same->i))
    list = hl_i64s_copy(l->m->arena, (HlI64s){&yes, 1});
  if (list.n > 0)
    hl_set_ints(parameter, HL_A_PARAMETER_REPLICATION, list);
}

bool ml_argument(MlLower *l, HlBuild *b, const HlMlOp *func, int k) {
  const HlMlValue *arg = hl_ml_body(func, 0)->args[k];
  HlBuild own = ml_bare(b);
  const HlShape *shape = ml_shape(l, func, arg->type);
  const char *name = NULL;
  if (!shape || !parameter_sharding(l, func, k, &own))
    return false;
  own.metadata = ml_name_metadata(l, arg->location, &name);
  if (hl_shape_is_tuple(shape) && !name)
    name = shape->rank == 0 ? "arg_empty_tuple" : "arg_tuple";
  HlInst *parameter = hl_b_parameter(&own, shape, name);
  if (!ml_set(l, arg, parameter))
    return false;
  parameter_replication(l, func, k, parameter);
  return true;
}

// The sharding of result k, also where an sdy attribute says it; NULL in *out: none.
static bool result_sharding(MlLower *l, const HlMlOp *func, int k, const HlSharding **out) {
  const HlMlAttr *text = ml_func_attr(func, ML_A_RES_ATTRS, k, ML_A_MHLO_SHARDING);
  const HlMlAttr *sdy = ml_func_attr(func, ML_A_RES_ATTRS, k, ML_A_SDY_SHARDING);
  *out = NULL;
  if (text)
    return ml_sharding(l, func, text, out);
  return !sdy || ml_sdy_sharding(l, func, sdy, NULL, out);
}

// A result with an sdy sharding passes through a custom call that says it.
static HlInst *announce(MlLower *l, HlBuild *b, const HlMlOp *func, int k, HlInst *x) {
  const HlMlAttr *sdy = ml_func_attr(func, ML_A_RES_ATTRS, k, ML_A_SDY_SHARDING);
  if (!sdy)
    return x;
  HlBuf text = {0};
  HlBuild own = *b;
  hl_buf_puts(&text, "#sdy.sharding_per_value<[");
  HlBuf one = {0};
  hl_ml_attr_print(&one, sdy);
  const char *open = memchr(one.at, '<', one.n);
  hl_buf_puts(&text, open ? open : one.at);
  hl_buf_puts(&text, "]>");
  own.frontend = ml_dict_with(l, own.frontend, "xla.sdy.sharding", text.at, text.n);
  hl_buf_free(&text);
  hl_buf_free(&one);
  HlAttr attrs[] = {
      {.key = HL_A_CUSTOM_CALL_TARGET, .sym = hl_sym(l->m, hl_call_info[HL_CALL_SDY_RESULT].name)},
      {.key = HL_A_HAS_SIDE_EFFECT, .i = 1}};
  return hl_b_op(&own, HL_OP_CUSTOM_CALL, x->shape, 1, &x, 2, attrs, 0, NULL);
}

static const HlSharding *replicated_sharding(MlLower *l) {
  HlSharding *sharding = HL_NEW(l->m->arena, HlSharding);
  sharding->kind = HL_SHARDING_REPLICATED;
  return sharding;
}

static bool sharded_results(MlLower *l, HlBuild *b, int n, HlInst **results,
                            const HlSharding **sharding, HlInst **root) {
  HlSharding *tuple = HL_NEW(l->m->arena, HlSharding);
  HlBuild own = *b;
  if (n == 1) {
    *root = hl_b_tuple(b, 1, results);
    own.sharding = sharding[0];
    HlAttr attr = {.key = HL_A_INDEX, .i = 0};
    *root = hl_b_op(&own, HL_OP_GET_TUPLE_ELEMENT, NULL, 1, root, 1, &attr, 0, NULL);
    return *root != NULL;
  }
  // XLA copies every result into the form that is wanted, and then takes the values as they are.
  for (int k = 0; k < n; k++) {
    own.sharding = sharding[k];
    if (hl_shape_is_array(results[k]->shape) &&
        !hl_b_op(&own, HL_OP_RESHAPE, results[k]->shape, 1, &results[k], 0, NULL, 0, NULL))
      return false;
    if (!sharding[k])
      sharding[k] = replicated_sharding(l);
  }
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = sharding, .n_elements = n};
  own.sharding = tuple;
  *root = hl_b_tuple(&own, n, results);
  return *root != NULL;
}

bool ml_function_results(MlLower *l, HlBuild *b, const HlMlOp *func, int n, HlInst **results,
                         HlInst **root) {
  const HlSharding **sharding = HL_ARRAY(l->m->arena, const HlSharding *, n + 1);
  bool any = false;
  for (int k = 0; k < n; k++) {
    if (!result_sharding(l, func, k, &sharding[k]))
      return false;
    any |= sharding[k] != NULL;
    if (!(results[k] = announce(l, b, func, k, results[k])))
      return false;
  }
  if (any)
    return sharded_results(l, b, n, results, sharding, root);
  *root = n == 1 ? results[0] : hl_b_tuple(b, n, results);
  return *root != NULL;
}

// --- The module's header ----------------------------------------------------------------------------------------------

static int count_results(const HlMlOp *func) {
  const HlMlAttr *type = ml_attr(func, ML_A_FUNCTION_TYPE);
  return type && type->kind == HL_ML_A_TYPE ? type->type->n - type->type->n_inputs : 1;
}

static bool entry_aliases(MlLower *l) {
  const HlMlBlock *block = hl_ml_body(l->entry, 0);
  HlAlias *alias = HL_ARRAY(l->arena, HlAlias, block->n_args + 1);
  HlDonor *donor = HL_ARRAY(l->arena, HlDonor, block->n_args + 1);
  int n_alias = 0, n_donor = 0, n_results = count_results(l->entry);
  for (int k = 0; k < block->n_args; k++) {
    const HlMlAttr *output = ml_func_attr(l->entry, ML_A_ARG_ATTRS, k, ML_A_TF_ALIASING_OUTPUT);
    const HlMlAttr *free_to_use = ml_func_attr(l->entry, ML_A_ARG_ATTRS, k, ML_A_JAX_BUFFER_DONOR);
    if (output && output->kind == HL_ML_A_INT) {
      if (output->i < 0 || output->i >= n_results)
        return ml_bad(l, l->entry,
                      "argument %d is to be aliased with result %lld, but there are %d results", k,
                      (long long)output->i, n_results);
      HlI64s index = {&output->i, n_results == 1 ? 0 : 1};
      alias[n_alias++] = (HlAlias){
          .output = hl_i64s_copy(l->m->arena, index), .number = k, .kind = HL_WORD_alias_kind_MAY};
    } else if (free_to_use && free_to_use->kind == HL_ML_A_BOOL && free_to_use->i) {
      donor[n_donor++] = (HlDonor){.number = k};
    }
  }
  hl_set_aliases(l->m, n_alias, alias);
  hl_set_donors(l->m, n_donor, donor);
  return true;
}

// mhlo.input_output_alias: what HLO's header said, one dictionary an alias.
static void module_aliases(MlLower *l, const HlMlAttr *list) {
  if (list->kind != HL_ML_A_ARRAY || list->n == 0)
    return;
  HlAlias *alias = HL_ARRAY(l->arena, HlAlias, list->n);
  for (int k = 0; k < list->n; k++) {
    const HlMlAttr *how = ml_field(list->list[k], ML_A_ALIAS),
                   *kind = how ? ml_field(how, ML_A_KIND) : NULL;
    bool must = kind && kind->kind == HL_ML_A_STRING && strcmp(kind->sym->text, "must_alias") == 0;
    alias[k] = (HlAlias){.output = ml_field_ints(l->m->arena, list->list[k], ML_A_OUTPUT_INDEX),
                         .number = ml_field_int(how, ML_A_PARAMETER_NUMBER, 0),
                         .index = ml_field_ints(l->m->arena, how, ML_A_PARAMETER_INDEX),
                         .kind = must ? HL_WORD_alias_kind_MUST : HL_WORD_alias_kind_MAY};
  }
  hl_set_aliases(l->m, list->n, alias);
}

// A shape with the layout of a dense list; of a tuple, with those of an array of such.
static const HlShape *laid_out(MlLower *l, const HlShape *shape, const HlMlAttr *layout) {
  if (hl_shape_is_tuple(shape) && layout->kind == HL_ML_A_ARRAY && layout->n == shape->rank) {
    const HlShape **element = HL_ARRAY(l->arena, const HlShape *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      element[k] = laid_out(l, shape->element[k], layout->list[k]);
    return hl_shape_tuple(l->m->shapes, shape->rank, element);
  }
  if (layout->kind == HL_ML_A_ARRAY && layout->n == 1)
    layout = layout->list[0];
  if (!hl_shape_is_array(shape) || layout->kind == HL_ML_A_ARRAY)
    return shape;
  HlI64s order = hl_ml_ints(l->m->arena, layout);
  return order.n == shape->rank ? hl_shape_with_layout(l->m->shapes, shape, ml_layout(l, order))
                                : shape;
}

static void entry_layouts(MlLower *l) {
  const HlMlAttr *params =
      ml_attr(l->tree->module, ML_A_MHLO_XLA_ENTRY_COMPUTATION_PARAMETER_LAYOUTS);
  const HlMlAttr *result = ml_attr(l->tree->module, ML_A_MHLO_XLA_ENTRY_COMPUTATION_RESULT_LAYOUT);
  const HlComp *entry = l->m->entry;
  const HlShape **shape = NULL;
  if (params && params->kind == HL_ML_A_ARRAY && params->n == entry->n_params) {
    shape = HL_ARRAY(l->arena, const HlShape *, params->n + 1);
    for (int k = 0; k < params->n; k++)
      shape[k] = laid_out(l, entry->params[k]->shape, params->list[k]);
  }
  hl_set_entry_layout(l->m, entry->n_params, shape,
                      result ? laid_out(l, entry->root->shape, result) : NULL);
}

bool ml_module_attrs(MlLower *l) {
  const HlMlOp *module = l->tree->module;
  const HlMlAttr *frontend = ml_attr(module, ML_A_MHLO_FRONTEND_ATTRIBUTES);
  const HlMlAttr *aliases = ml_attr(module, ML_A_MHLO_INPUT_OUTPUT_ALIAS);
  const HlMlAttr *output = ml_attr(module, ML_A_MHLO_SPMD_OUTPUT_SHARDING);
  hl_set_devices(l->m, ml_attr_int(module, ML_A_MHLO_NUM_REPLICAS, 1),
                 ml_attr_int(module, ML_A_MHLO_NUM_PARTITIONS, 1));
  hl_set_auto_spmd(l->m, ml_attr_true(module, ML_A_MHLO_USE_AUTO_SPMD_PARTITIONING));
  hl_set_dynamic(l->m, ml_attr_true(module, ML_A_MHLO_IS_DYNAMIC));
  HlDict dict = l->m->frontend_attributes;
  if (frontend && !ml_frontend(l, module, frontend, &dict))
    return false;
  hl_set_module_attributes(l->m, dict);
  const HlSharding *sharding = NULL;
  if (output && output->kind == HL_ML_A_STRING && output->sym->n > 0 &&
      !ml_sharding(l, module, output, &sharding))
    return false;
  hl_set_spmd_shardings(l->m, 0, NULL, sharding);
  entry_layouts(l);
  if (!entry_aliases(l))
    return false;
  if (aliases && l->m->input_output_alias.n == 0)
    module_aliases(l, aliases);
  return true;
}
