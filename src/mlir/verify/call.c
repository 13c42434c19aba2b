// Verifies MLIR trees: functions, calls, modules, custom calls, composites, parallel runs.
#include "hilo/custom_calls.h"
#include "mlir/verify/verify.h"

#include <stdlib.h>
#include <string.h>

// --- Functions ----------------------------------------------------------------------------------

static const HlMlType *function_type(const HlMlOp *func) {
  const HlMlAttr *type = ml_attr(func, ML_A_FUNCTION_TYPE);
  return type && type->kind == HL_ML_A_TYPE && type->type->kind == HL_ML_FUNCTION ? type->type
                                                                                  : NULL;
}

static int n_inputs(const HlMlType *type) {
  return type->n_inputs;
}
static int n_results(const HlMlType *type) {
  return type->n - type->n_inputs;
}
static const HlMlType *input(const HlMlType *type, int k) {
  return type->element[k];
}
static const HlMlType *result(const HlMlType *type, int k) {
  return type->element[type->n_inputs + k];
}

// A dictionary for each argument, or result.
static bool check_dictionaries(MlVerify *v, const HlMlOp *op, MlName name, int n) {
  const HlMlAttr *list = ml_attr(op, name);
  if (!list || list->kind != HL_ML_A_ARRAY)
    return true;
  if (list->n != n)
    return mv_bad(v, op, "%s has %d entries, but should have %d", ml_name_text[name], list->n, n);
  for (int k = 0; k < n; k++)
    if (list->list[k]->kind != HL_ML_A_DICT)
      return mv_bad(v, op, "entry %d of %s should be a dictionary", k, ml_name_text[name]);
  return true;
}

// public (or nothing), private, nested; without a body not public.
static bool check_visibility(MlVerify *v, const HlMlOp *op) {
  const HlSym *word = ml_attr_sym(op, ML_A_SYM_VISIBILITY);
  const char *text = word && word->n > 0 ? word->text : "public";
  const bool is_public = strcmp(text, "public") == 0;
  if (!is_public && strcmp(text, "private") != 0 && strcmp(text, "nested") != 0)
    return mv_bad(v, op, "sym_visibility should be public, private or nested, but is '%s'", text);
  if (is_public && hl_ml_body(op, 0) == NULL)
    return mv_bad(v, op, "a function without a body cannot be public");
  return true;
}

// Arguments and results may carry attributes of dialects only.
static bool names_have_dialects(MlVerify *v, const HlMlOp *op, MlName name) {
  const HlMlAttr *list = ml_attr(op, name);
  for (int k = 0; list && list->kind == HL_ML_A_ARRAY && k < list->n; k++) {
    const HlMlAttr *dict = list->list[k];
    for (int i = 0; i < dict->n; i++)
      if (memchr(dict->dict[i].name->text, '.', dict->dict[i].name->n) == NULL)
        return mv_bad(v, op, "attribute '%s' in %s has no dialect in front",
                      dict->dict[i].name->text, ml_name_text[name]);
  }
  return true;
}

bool mv_rule_func(MlVerify *v, const HlMlOp *op) {
  const HlMlType *type = function_type(op);
  if (type == NULL)
    return mv_bad(v, op, "function_type should be the type of a function");
  for (int k = 0; k < type->n; k++)
    if (!mv_type_is_well_formed(v, op, type->element[k]))
      return false;
  if (!check_dictionaries(v, op, ML_A_ARG_ATTRS, n_inputs(type)) ||
      !check_dictionaries(v, op, ML_A_RES_ATTRS, n_results(type)))
    return false;
  if (!check_visibility(v, op))
    return false;
  if (!names_have_dialects(v, op, ML_A_ARG_ATTRS) || !names_have_dialects(v, op, ML_A_RES_ATTRS))
    return false;
  if (!mv_check_listed_sharding(v, op, ML_A_ARG_ATTRS, n_inputs(type), type->element) ||
      !mv_check_listed_sharding(v, op, ML_A_RES_ATTRS, n_results(type),
                                type->element + type->n_inputs))
    return false;
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (body == NULL)
    return true;
  if (body->n_args != n_inputs(type))
    return mv_bad(v, op, "its entry block has %d arguments, but the type has %d", body->n_args,
                  n_inputs(type));
  for (int k = 0; k < body->n_args; k++)
    if (body->args[k]->type != input(type, k))
      return mv_bad(v, op, "argument %d of its entry block is '%s', but '%s' by its type", k,
                    mv_text(v, body->args[k]->type), mv_text(v, input(type, k)));
  return true;
}

bool mv_rule_func_return(MlVerify *v, const HlMlOp *op) {
  const HlMlOp *func = op->block ? op->block->region->op : NULL;
  if (func == NULL || func->row != ML_FUNC_FUNC)
    return mv_bad(v, op, "expects a func.func around it");
  const HlMlType *type = function_type(func);
  if (type == NULL)
    return true;
  const HlSym *name = ml_attr_sym(func, ML_A_SYM_NAME);
  if ((int)op->n_operands != n_results(type))
    return mv_bad(v, op, "has %u operands, but the function '%s' returns %d", op->n_operands,
                  name ? name->text : "", n_results(type));
  for (int k = 0; k < n_results(type); k++)
    if (mv_in(op, k) != result(type, k))
      return mv_bad(v, op, "operand %d is '%s', but result %d of the function '%s' is '%s'", k,
                    mv_text(v, mv_in(op, k)), k, name ? name->text : "",
                    mv_text(v, result(type, k)));
  return true;
}

// The signature of a call against the type of what it calls.
static bool check_signature(MlVerify *v, const HlMlOp *op, const HlMlType *type, const char *name) {
  if ((int)op->n_operands != n_inputs(type) || (int)op->n_results != n_results(type))
    return mv_bad(v, op, "has %u operands and %u results, but '%s' has %d and %d", op->n_operands,
                  op->n_results, name, n_inputs(type), n_results(type));
  for (int k = 0; k < n_inputs(type); k++)
    if (mv_in(op, k) != input(type, k))
      return mv_bad(v, op, "operand %d is '%s', but '%s' takes '%s'", k, mv_text(v, mv_in(op, k)),
                    name, mv_text(v, input(type, k)));
  for (int k = 0; k < n_results(type); k++)
    if (mv_out(op, k) != result(type, k))
      return mv_bad(v, op, "result %d is '%s', but '%s' gives '%s'", k, mv_text(v, mv_out(op, k)),
                    name, mv_text(v, result(type, k)));
  return true;
}

static const HlMlOp *find_function(const MlVerify *v, const HlSym *name) {
  const HlMlOp *func = mv_symbol(v, name);
  return func && func->row == ML_FUNC_FUNC ? func : NULL;
}

// The function that an attribute names has the op's signature.
static bool check_callee(MlVerify *v, const HlMlOp *op, MlName attr) {
  const HlSym *name = ml_attr_sym(op, attr);
  if (name == NULL)
    return true;
  const HlMlOp *func = find_function(v, name);
  if (func == NULL)
    return mv_bad(v, op, "there is no function '%s'", name->text);
  const HlMlType *type = function_type(func);
  return type == NULL || check_signature(v, op, type, name->text);
}

bool mv_rule_call(MlVerify *v, const HlMlOp *op) {
  return check_callee(v, op, ML_A_CALLEE);
}

bool mv_rule_module(MlVerify *v, const HlMlOp *op) {
  const HlMlRegion *body = &op->regions[0];
  if (body->first && body->first->n_args > 0)
    return mv_bad(v, op, "its block must have no arguments");
  return true;
}

// --- Composites ---------------------------------------------------------------------------------

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}

// namespace.op[.more]
static bool is_namespaced(const HlSym *name) {
  size_t k = 0, start, n_dots = 0;
  if (name->n == 0 || !is_letter(name->text[0]))
    return false;
  while (k < name->n && is_word(name->text[k]))
    k++;
  for (; k < name->n && name->text[k] == '.'; n_dots++) {
    start = ++k;
    while (k < name->n && (is_word(name->text[k]) || name->text[k] == '$'))
      k++;
    if (k == start)
      return false;
  }
  return k == name->n && n_dots > 0;
}

bool mv_rule_composite(MlVerify *v, const HlMlOp *op) {
  const HlSym *name = ml_attr_sym(op, ML_A_NAME);
  if (name && !is_namespaced(name))
    return mv_bad(v, op, "name '%s' should be one with a namespace, such as 'my_namespace.my_op'",
                  name->text);
  return check_callee(v, op, ML_A_DECOMPOSITION);
}

// --- Custom calls -------------------------------------------------------------------------------

static bool check_layout(MlVerify *v, const HlMlOp *op, const HlMlType *type, const HlMlAttr *attr,
                         const char *what, int k) {
  const HlI64s layout = hl_ml_ints(v->arena, attr);
  if (attr->kind != HL_ML_A_DENSE || attr->type->rank != 1 ||
      hl_ml_element(attr->type)->kind != HL_ML_INDEX)
    return mv_bad(v, op, "the layout of %s %d should be a 1-dimensional tensor of index", what, k);
  if (type->kind == HL_ML_TUPLE)
    return mv_bad(v, op, "%s %d: layouts of tuples are not supported", what, k);
  if (!mv_is_shaped(type)) {
    if (layout.n == 0)
      return true;
    return mv_bad(v, op, "%s %d of type '%s' cannot have a layout", what, k, mv_text(v, type));
  }
  if (!mv_is_ranked(type))
    return true;
  bool is_permutation = layout.n == type->rank && mv_is_unique(v, layout);
  for (int d = 0; d < layout.n; d++)
    is_permutation &= layout.at[d] >= 0 && layout.at[d] < type->rank;
  if (!is_permutation)
    return mv_bad(v, op, "layout [%s] of %s %d is no permutation of the dimensions of '%s'",
                  mv_ints_text(v, layout), what, k, mv_text(v, type));
  return true;
}

static bool check_layouts(MlVerify *v, const HlMlOp *op, const HlMlAttr *layouts, bool is_operand) {
  const char *what = is_operand ? "operand" : "result";
  const bool is_tuple = !is_operand && op->n_results == 1 && mv_out(op, 0)->kind == HL_ML_TUPLE;
  const int n = is_operand ? (int)op->n_operands : is_tuple ? mv_out(op, 0)->n : (int)op->n_results;
  if (layouts->kind != HL_ML_A_ARRAY || layouts->n != n)
    return mv_bad(v, op, "there are %d %ss, but %d %s layouts", n, what, layouts->n, what);
  for (int k = 0; k < n; k++) {
    const HlMlType *type = is_operand ? mv_in(op, k)
                           : is_tuple ? mv_out(op, 0)->element[k]
                                      : mv_out(op, k);
    if (!check_layout(v, op, type, layouts->list[k], what, k))
      return false;
  }
  return true;
}

// Of each result a list of tiles, each a tensor of its sizes.
static bool check_tilings(MlVerify *v, const HlMlOp *op, const HlMlAttr *tilings) {
  for (int k = 0; k < tilings->n; k++) {
    const HlMlAttr *tiles = tilings->list[k];
    bool ok = tiles->kind == HL_ML_A_ARRAY;
    for (int i = 0; ok && i < tiles->n; i++)
      ok = tiles->list[i]->kind == HL_ML_A_DENSE && tiles->list[i]->type->rank == 1 &&
           hl_ml_element(tiles->list[i]->type)->kind == HL_ML_INDEX;
    if (!ok)
      return mv_bad(v, op, "the tiling of result %d should be a list of tensors of index", k);
  }
  return true;
}

// The part of a type that a path of tuple indices leads to; NULL: it leads nowhere.
static const HlMlType *part_of(const HlMlType *type, HlI64s path, int from) {
  for (int k = from; k < path.n; k++) {
    if (type->kind != HL_ML_TUPLE || path.at[k] < 0 || path.at[k] >= type->n)
      return NULL;
    type = type->element[path.at[k]];
  }
  return type;
}

// Several results count as one tuple of them.
static const HlMlType *result_part(const HlMlOp *op, HlI64s path) {
  if (op->n_results == 1)
    return part_of(mv_out(op, 0), path, 0);
  if (path.n == 0 || path.at[0] < 0 || path.at[0] >= op->n_results)
    return NULL;
  return part_of(mv_out(op, (int)path.at[0]), path, 1);
}

static bool check_alias(MlVerify *v, const HlMlOp *op, const HlMlAttr *alias) {
  const HlI64s of_output = mv_field_ints(v, alias, ML_A_OUTPUT_TUPLE_INDICES);
  const HlI64s of_operand = mv_field_ints(v, alias, ML_A_OPERAND_TUPLE_INDICES);
  const int64_t operand = ml_field_int(alias, ML_A_OPERAND_INDEX, 0);
  if (operand < 0 || operand >= op->n_operands)
    return mv_bad(v, op,
                  "operand_index %lld of an output_operand_alias is not in the range [0, %u)",
                  (LL)operand, op->n_operands);
  const HlMlType *in = part_of(mv_in(op, (int)operand), of_operand, 0),
                 *out = result_part(op, of_output);
  if (in == NULL)
    return mv_bad(v, op, "operand_tuple_indices [%s] of an output_operand_alias are out of bounds",
                  mv_ints_text(v, of_operand));
  if (out == NULL)
    return mv_bad(v, op, "output_tuple_indices [%s] of an output_operand_alias are out of bounds",
                  mv_ints_text(v, of_output));
  if (in != out)
    return mv_bad(v, op, "an output_operand_alias joins different types: '%s' and '%s'",
                  mv_text(v, in), mv_text(v, out));
  return true;
}

static bool check_aliases(MlVerify *v, const HlMlOp *op, const HlMlAttr *aliases) {
  for (int k = 0; k < aliases->n; k++)
    if (!check_alias(v, op, aliases->list[k]))
      return false;
  return true;
}

// Buffers (memrefs): each that is given is one that is taken, and none is there twice. A path
// begins with the number of the operand, or of the result where there are several.
typedef struct Paths {
  HlI64s *at;
  int n;
} Paths;

static int compare_paths(const void *a, const void *b) {
  const HlI64s *x = a, *y = b;
  for (int k = 0; k < x->n && k < y->n; k++)
    if (x->at[k] != y->at[k])
      return x->at[k] < y->at[k] ? -1 : 1;
  return (x->n > y->n) - (x->n < y->n);
}

static bool are_unique(MlVerify *v, const HlMlOp *op, Paths *paths, const char *what) {
  qsort(paths->at, (size_t)paths->n, sizeof *paths->at, compare_paths);
  for (int k = 1; k < paths->n; k++)
    if (compare_paths(&paths->at[k - 1], &paths->at[k]) == 0)
      return mv_bad(v, op, "buffer %s [%s] is in more than one output_operand_alias", what,
                    mv_ints_text(v, paths->at[k]));
  return true;
}

static HlI64s longer_path(MlVerify *v, HlI64s path, int64_t first) {
  int64_t *at = HL_ARRAY(v->arena, int64_t, path.n + 1);
  at[0] = first;
  for (int k = 0; k < path.n; k++)
    at[k + 1] = path.at[k];
  return (HlI64s){at, path.n + 1};
}

enum { MOST_TUPLES = 64 };  // nested

// Every buffer in a result is among the paths.
static bool check_given(MlVerify *v, const HlMlOp *op, const HlMlType *type, const Paths *paths,
                        int64_t path[MOST_TUPLES], int depth) {
  const HlI64s own = {path, depth};
  if (type->kind == HL_ML_MEMREF && (paths->n == 0 || bsearch(&own, paths->at, (size_t)paths->n,
                                                              sizeof own, compare_paths) == NULL))
    return mv_bad(v, op, "buffer result [%s] is in no output_operand_alias", mv_ints_text(v, own));
  for (int k = 0; type->kind == HL_ML_TUPLE && depth < MOST_TUPLES && k < type->n; k++) {
    path[depth] = k;
    if (!check_given(v, op, type->element[k], paths, path, depth + 1))
      return false;
  }
  return true;
}

static bool check_buffers(MlVerify *v, const HlMlOp *op, const HlMlAttr *aliases) {
  const int n = aliases ? aliases->n : 0;
  Paths given = {.at = HL_ARRAY(v->arena, HlI64s, n + 1)},
        taken = {.at = HL_ARRAY(v->arena, HlI64s, n + 1)};
  for (int k = 0; k < n; k++) {
    const HlI64s of_operand = mv_field_ints(v, aliases->list[k], ML_A_OPERAND_TUPLE_INDICES);
    const int64_t operand = ml_field_int(aliases->list[k], ML_A_OPERAND_INDEX, 0);
    const HlMlType *part = part_of(mv_in(op, (int)operand), of_operand, 0);
    if (part == NULL || part->kind != HL_ML_MEMREF)
      continue;
    given.at[given.n++] = mv_field_ints(v, aliases->list[k], ML_A_OUTPUT_TUPLE_INDICES);
    taken.at[taken.n++] = longer_path(v, of_operand, operand);
  }
  if (!are_unique(v, op, &given, "result") || !are_unique(v, op, &taken, "operand"))
    return false;
  for (uint32_t k = 0; k < op->n_results; k++) {
    int64_t path[MOST_TUPLES] = {k};
    if (!check_given(v, op, mv_out(op, (int)k), &given, path, op->n_results > 1))
      return false;
  }
  return true;
}

static bool check_one_to_one(MlVerify *v, const HlMlOp *op, HlMlTypeKind from, HlMlTypeKind to,
                             const char *what) {
  if (op->n_operands != 1 || op->n_results != 1)
    return mv_bad(v, op, "%s should have one operand and one result, but has %u and %u", what,
                  op->n_operands, op->n_results);
  const HlMlType *in = mv_in(op, 0), *out = mv_out(op, 0);
  const bool is_tensor_in = in->kind == HL_ML_TENSOR || in->kind == HL_ML_UNRANKED;
  const bool is_tensor_out = out->kind == HL_ML_TENSOR || out->kind == HL_ML_UNRANKED;
  if ((from == HL_ML_TENSOR ? !is_tensor_in : in->kind != from) ||
      (to == HL_ML_TENSOR ? !is_tensor_out : out->kind != to))
    return mv_bad(v, op, "%s should take a %s and give a %s, but has '%s' and '%s'", what,
                  from == HL_ML_TENSOR ? "tensor" : "memref",
                  to == HL_ML_TENSOR ? "tensor" : "memref", mv_text(v, in), mv_text(v, out));
  if (!mv_shapes_agree(in, out) || hl_ml_element(in) != hl_ml_element(out))
    return mv_bad(v, op, "%s should have compatible operand and result, but has '%s' and '%s'",
                  what, mv_text(v, in), mv_text(v, out));
  return true;
}

// True with *is_known when the target is one whose operands and results are fixed.
static bool check_known_target(MlVerify *v, const HlMlOp *op, bool *is_known) {
  const HlSym *target = ml_attr_sym(op, ML_A_CALL_TARGET_NAME);
  const HlCallTarget known = target ? hl_call_named(target->text) : HL_CALL_OTHER;
  *is_known = true;
  if (known == HL_CALL_CREATE_BUFFER) {
    if (op->n_operands != 0 || op->n_results != 1 || mv_out(op, 0)->kind != HL_ML_MEMREF)
      return mv_bad(v, op, "CreateBuffer should have no operands and one memref as result");
    return true;
  }
  if (known == HL_CALL_PIN)
    return check_one_to_one(v, op, HL_ML_TENSOR, HL_ML_MEMREF, target->text);
  if (known == HL_CALL_UNPIN)
    return check_one_to_one(v, op, HL_ML_MEMREF, HL_ML_TENSOR, target->text);
  *is_known = false;
  return true;
}

enum { API_UNSPECIFIED = 0, API_TYPED_FFI = 4 };

static bool check_config(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *config = ml_attr(op, ML_A_BACKEND_CONFIG);
  const int64_t version = ml_attr_int(op, ML_A_API_VERSION, 1);
  const bool is_typed = version == API_TYPED_FFI;
  if (version < API_UNSPECIFIED || version > API_TYPED_FFI)
    return mv_bad(v, op, "api_version should be in the range [0, %d], but is %lld", API_TYPED_FFI,
                  (LL)version);
  if (config == NULL || op->dialect == HL_ML_MHLO)
    return true;
  if (config->kind != (is_typed ? HL_ML_A_DICT : HL_ML_A_STRING))
    return mv_bad(v, op, "backend_config should be a %s with api_version %lld",
                  is_typed ? "dictionary" : "string", (LL)ml_attr_int(op, ML_A_API_VERSION, 1));
  return true;
}

bool mv_rule_custom_call(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *operands = ml_attr(op, ML_A_OPERAND_LAYOUTS),
                 *results = ml_attr(op, ML_A_RESULT_LAYOUTS);
  const HlMlAttr *aliases = ml_attr(op, ML_A_OUTPUT_OPERAND_ALIASES);
  if ((operands == NULL) != (results == NULL))
    return mv_bad(v, op, "operand_layouts and result_layouts should be given together");
  const HlMlAttr *tilings = ml_attr(op, ML_A_RESULT_TILINGS);
  if (tilings && tilings->kind == HL_ML_A_ARRAY && !check_tilings(v, op, tilings))
    return false;
  if (operands && (!check_layouts(v, op, operands, true) || !check_layouts(v, op, results, false)))
    return false;
  if (aliases && (aliases->kind != HL_ML_A_ARRAY || !check_aliases(v, op, aliases)))
    return aliases->kind == HL_ML_A_ARRAY
               ? false
               : mv_bad(v, op, "output_operand_aliases should be an array");
  if (!check_config(v, op))
    return false;
  bool is_known;
  return check_known_target(v, op, &is_known) && (is_known || check_buffers(v, op, aliases));
}

// --- interpreter.run_parallel -------------------------------------------------------------------

static bool add_program(MlVerify *v, const HlMlOp *op, const HlMlAttr *symbol, int64_t *inputs,
                        int64_t *results) {
  const HlMlOp *func = symbol->sym ? find_function(v, symbol->sym) : NULL;
  const HlMlType *type = func ? function_type(func) : NULL;
  if (type == NULL)
    return mv_bad(v, op, "there is no function '%s'", symbol->sym ? symbol->sym->text : "?");
  *inputs += n_inputs(type);
  *results += n_results(type);
  return true;
}

static bool check_programs(MlVerify *v, const HlMlOp *op, const HlMlAttr *programs, int64_t *inputs,
                           int64_t *results) {
  if (programs->kind != HL_ML_A_ARRAY || programs->n == 0)
    return mv_bad(v, op, "programs should be a list that is not empty");
  for (int k = 0; k < programs->n; k++)
    if (programs->list[k]->kind != HL_ML_A_ARRAY || programs->list[k]->n != programs->list[0]->n ||
        programs->list[k]->n == 0)
      return mv_bad(v, op, "programs should hold lists of the same size, but entry %d differs", k);
  for (int k = 0; k < programs->n; k++)
    for (int i = 0; i < programs->list[k]->n; i++)
      if (!add_program(v, op, programs->list[k]->list[i], inputs, results))
        return false;
  return true;
}

static bool check_infeed(MlVerify *v, const HlMlOp *op, const HlMlAttr *infeed) {
  if (infeed->kind != HL_ML_A_ARRAY || infeed->n == 0)
    return mv_bad(v, op, "infeed should be a list that is not empty, or be left out");
  for (int k = 0; k < infeed->n; k++) {
    int64_t inputs = 0, results = 0;
    if (!add_program(v, op, infeed->list[k], &inputs, &results))
      return false;
    const HlMlType *type = function_type(find_function(v, infeed->list[k]->sym));
    if (results != 1 || inputs != 0)
      return mv_bad(v, op,
                    "function '%s' should take nothing and return 1 tensor, but has %lld and %lld",
                    infeed->list[k]->sym->text, (LL)inputs, (LL)results);
    if (result(type, 0)->kind != HL_ML_TENSOR && result(type, 0)->kind != HL_ML_UNRANKED)
      return mv_bad(v, op, "function '%s' should return a tensor, but returns '%s'",
                    infeed->list[k]->sym->text, mv_text(v, result(type, 0)));
  }
  return true;
}

bool mv_rule_run_parallel(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *programs = ml_attr(op, ML_A_PROGRAMS), *infeed = ml_attr(op, ML_A_INFEED);
  int64_t inputs = 0, results = 0;
  if (programs == NULL || !check_programs(v, op, programs, &inputs, &results))
    return false;
  if (inputs != op->n_operands || results != op->n_results)
    return mv_bad(v, op,
                  "has %u operands and %u results, but its programs have %lld and %lld together",
                  op->n_operands, op->n_results, (LL)inputs, (LL)results);
  return infeed == NULL || check_infeed(v, op, infeed);
}
