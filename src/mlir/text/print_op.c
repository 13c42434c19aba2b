// Prints the ops whose pretty forms are functions of their own.
#include "mlir/text/print.h"

// Picks all attributes but those named in `what`, a list that ends with ML_A_NONE.
static bool is_not_named(const HlMlOp *op, const HlMlNamed *named, const void *what) {
  for (const MlName *name = what; *name; name++)
    if (named->id == *name)
      return false;
  return true;
}

static void print_rest(Printer *p, const HlMlOp *op, const char *word, const MlName *but) {
  mlp_attrs_left(p, op, word, is_not_named, but);
}

static const MlName nothing[] = {ML_A_NONE};

// --- builtin, func --------------------------------------------------------------------------------------

static bool print_module(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_SYM_NAME, ML_A_SYM_VISIBILITY, ML_A_NONE};
  const HlSym *name = ml_attr_sym(op, ML_A_SYM_NAME);
  const HlSym *visibility = ml_attr_sym(op, ML_A_SYM_VISIBILITY);
  if (visibility) {
    put_char(p->out, ' ');
    put_sym(p->out, visibility);
  }
  if (name) {
    put_char(p->out, ' ');
    mlp_symbol(p, name);
  }
  print_rest(p, op, " attributes", said);
  put_char(p->out, ' ');
  mlp_region(p, &op->regions[0], true, false);
  return true;
}

static const HlMlAttr *dict_at(const HlMlAttr *list, int k) {
  return list && list->kind == HL_ML_A_ARRAY && k < list->n ? list->list[k] : NULL;
}

static bool has_entries(const HlMlAttr *dict) {
  return dict && dict->kind == HL_ML_A_DICT && dict->n;
}

static void print_type_with(Printer *p, const HlMlType *type, const HlMlAttr *dict) {
  mlp_type(p, type);
  if (has_entries(dict)) {
    put_char(p->out, ' ');
    mlp_dict(p, dict->n, dict->dict);
  }
}

static void print_params(Printer *p, const HlMlOp *op, const HlMlType *type) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  const HlMlAttr *attrs = ml_attr(op, ML_A_ARG_ATTRS);
  put_char(p->out, '(');
  for (int k = 0; k < type->n_inputs; k++) {
    if (k)
      PUT(p->out, ", ");
    if (body)
      mlp_region_arg(p, body->args[k], dict_at(attrs, k), true);
    else
      print_type_with(p, type->element[k], dict_at(attrs, k));
  }
  put_char(p->out, ')');
}

static void print_func_results(Printer *p, const HlMlOp *op, const HlMlType *type) {
  const HlMlAttr *attrs = ml_attr(op, ML_A_RES_ATTRS);
  const HlMlType *const *result = type->element + type->n_inputs;
  int n = type->n - type->n_inputs;
  if (!n)
    return;
  bool bare = n == 1 && result[0]->kind != HL_ML_FUNCTION && !has_entries(dict_at(attrs, 0));
  put_text(p->out, bare ? " -> " : " -> (");
  for (int k = 0; k < n; k++) {
    if (k)
      PUT(p->out, ", ");
    print_type_with(p, result[k], dict_at(attrs, k));
  }
  if (!bare)
    put_char(p->out, ')');
}

static bool print_func(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_SYM_NAME,  ML_A_SYM_VISIBILITY, ML_A_FUNCTION_TYPE,
                                ML_A_ARG_ATTRS, ML_A_RES_ATTRS,      ML_A_NONE};
  const HlMlAttr *type = ml_attr(op, ML_A_FUNCTION_TYPE);
  const HlSym *name = ml_attr_sym(op, ML_A_SYM_NAME),
              *visibility = ml_attr_sym(op, ML_A_SYM_VISIBILITY);
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (!name || !type || type->kind != HL_ML_A_TYPE || type->type->kind != HL_ML_FUNCTION ||
      (body && body->n_args != type->type->n_inputs))
    return false;
  put_char(p->out, ' ');
  if (visibility && visibility->n) {
    put_sym(p->out, visibility);
    put_char(p->out, ' ');
  }
  mlp_symbol(p, name);
  print_params(p, op, type->type);
  print_func_results(p, op, type->type);
  print_rest(p, op, " attributes", said);
  if (body) {
    put_char(p->out, ' ');
    mlp_region(p, &op->regions[0], false, true);
  }
  return true;
}

static bool print_call(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_CALLEE, ML_A_NONE};
  const HlMlAttr *callee = ml_attr(op, ML_A_CALLEE);
  if (!callee || callee->kind != HL_ML_A_SYMBOL)
    return false;
  put_char(p->out, ' ');
  mlp_attr(p, callee, PR_NO_TYPE);
  put_char(p->out, '(');
  mlp_operands(p, op, 0, op->n_operands);
  put_char(p->out, ')');
  print_rest(p, op, "", said);
  PUT(p->out, " : ");
  mlp_function_type(p, op);
  return true;
}

static void print_returned_types(Printer *p, const HlMlOp *op) {
  if (!op->n_operands)
    return;
  PUT(p->out, " : ");
  mlp_types(p, op->operands, op->n_operands);
}

// StableHLO's leaves a blank where there are no operands, and has its attributes behind them.
static bool print_return(Printer *p, const HlMlOp *op) {
  bool attrs_first = op->row != ML_STABLEHLO_RETURN;
  if (attrs_first)
    print_rest(p, op, "", nothing);
  if (op->n_operands || !attrs_first)
    put_char(p->out, ' ');
  mlp_operands(p, op, 0, op->n_operands);
  if (!attrs_first)
    print_rest(p, op, "", nothing);
  print_returned_types(p, op);
  return true;
}

static void print_result_list(Printer *p, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_type(p, op->results[k].type);
  }
}

static bool print_cast(Printer *p, const HlMlOp *op) {
  if (op->n_operands) {
    put_char(p->out, ' ');
    mlp_operands(p, op, 0, op->n_operands);
    PUT(p->out, " : ");
    mlp_types(p, op->operands, op->n_operands);
  }
  PUT(p->out, " to ");
  print_result_list(p, op);
  print_rest(p, op, "", nothing);
  return true;
}

// --- Constants --------------------------------------------------------------------------------------------

static bool print_constant(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_VALUE, ML_A_NONE};
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  if (!value || op->n_results != 1)
    return false;
  if (value->type != op->results[0].type) {
    // The generic form behind a bare name.
    put_text(p->out, "() <{value = ");
    mlp_attr(p, value, PR_TYPE);
    PUT(p->out, "}>");
    print_rest(p, op, "", said);
    PUT(p->out, " : () -> ");
    mlp_result_types(p, op);
    return true;
  }
  print_rest(p, op, "", said);
  put_char(p->out, ' ');
  mlp_attr(p, value, PR_TYPE);
  return true;
}

static bool print_arith_constant(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_VALUE, ML_A_NONE};
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  if (!value)
    return false;
  print_rest(p, op, "", said);
  put_char(p->out, ' ');
  mlp_attr(p, value, PR_TYPE);
  return true;
}

// --- Ops with regions -----------------------------------------------------------------------------------------

// Inner ops that `applies` can name: two operands, one result, in any order.
static bool is_commutative(int row) {
  switch (row) {
  case ML_STABLEHLO_ADD:
  case ML_STABLEHLO_AND:
  case ML_STABLEHLO_MAXIMUM:
  case ML_STABLEHLO_MINIMUM:
  case ML_STABLEHLO_MULTIPLY:
  case ML_STABLEHLO_OR:
  case ML_STABLEHLO_XOR: return true;
  default: return false;
  }
}

static bool is_scalar_of(const HlMlType *type, const HlMlType *tensor) {
  return type->kind == HL_ML_TENSOR && type->rank == 0 && !type->encoding &&
         type->element[0] == hl_ml_element(tensor);
}

// Whether a reduction's body is one op on exactly the block's arguments, followed by a return of it. Unlike MLIR's
// printer, which forgets them, this one keeps the attributes of both by the long form.
static bool is_compact(const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (!body || !body->first || !body->first->next || body->first->next->next || !op->n_operands)
    return false;
  const HlMlOp *inner = body->first, *back = inner->next;
  if (inner->dialect != op->dialect || !is_commutative(inner->row) || inner->n_operands != 2 ||
      inner->n_results != 1 || inner->n_regions || inner->n_attrs ||
      back->row != ML_STABLEHLO_RETURN || back->n_attrs)
    return false;
  if (inner->results[0].type != inner->operands[0]->type ||
      inner->operands[1]->type != inner->operands[0]->type ||
      !is_scalar_of(inner->operands[0]->type, op->operands[0]->type))
    return false;
  return body->n_args == 2 && inner->operands[0] == body->args[0] &&
         inner->operands[1] == body->args[1] && back->n_operands == 1 &&
         back->operands[0] == &inner->results[0];
}

static void print_pairs(Printer *p, const HlMlOp *op) {
  uint32_t n = op->n_operands / 2;
  for (uint32_t k = 0; k < n; k++) {
    put_text(p->out, k ? ", (" : "(");
    mlp_value(p, op->operands[k]);
    PUT(p->out, " init: ");
    mlp_value(p, op->operands[k + n]);
    put_char(p->out, ')');
  }
}

static bool print_reduce(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_DIMENSIONS, ML_A_NONE};
  const HlMlAttr *dims = ml_attr(op, ML_A_DIMENSIONS);
  const HlMlBlock *body = hl_ml_body(op, 0);
  uint32_t n = op->n_operands / 2;
  if (!dims || !body || op->n_operands != 2 * n || body->n_args != (int)op->n_operands)
    return false;
  bool compact = is_compact(op);
  print_pairs(p, op);
  if (compact) {
    PUT(p->out, " applies ");
    put_sym(p->out, body->first->name);
  }
  PUT(p->out, " across dimensions = [");
  HlArena *arena = hl_arena_new();
  mlp_ints(p, hl_ml_ints(arena, dims), ", ");
  hl_arena_free(arena);
  put_char(p->out, ']');
  print_rest(p, op, "", said);
  PUT(p->out, " : ");
  mlp_function_type(p, op);
  if (compact)
    return true;
  mlp_newline(p);
  PUT(p->out, " reducer");
  for (uint32_t k = 0; k < n; k++) {
    put_char(p->out, '(');
    mlp_region_arg(p, body->args[k], NULL, true);
    PUT(p->out, ", ");
    mlp_region_arg(p, body->args[k + n], NULL, true);
    PUT(p->out, ") ");
  }
  put_char(p->out, ' ');
  mlp_region(p, &op->regions[0], false, false);
  return true;
}

// The form tells one type of each carried value, though those of operand, arguments and result may differ.
static bool has_one_type(const HlMlOp *op, const HlMlBlock *block) {
  if (block->n_args != (int)op->n_operands || op->n_results != op->n_operands)
    return false;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (block->args[k]->type != op->operands[k]->type ||
        op->results[k].type != op->operands[k]->type)
      return false;
  return true;
}

static bool print_while(Printer *p, const HlMlOp *op) {
  const HlMlBlock *cond = hl_ml_body(op, 0), *body = hl_ml_body(op, 1);
  if (!cond || !body || !has_one_type(op, cond) || !has_one_type(op, body))
    return false;
  put_char(p->out, '(');
  for (uint32_t k = 0; k < op->n_operands; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_value(p, body->args[k]);
    PUT(p->out, " = ");
    mlp_value(p, op->operands[k]);
  }
  put_char(p->out, ')');
  if (op->n_operands) {
    PUT(p->out, " : ");
    mlp_types(p, op->operands, op->n_operands);
  }
  print_rest(p, op, " attributes", nothing);
  mlp_newline(p);
  PUT(p->out, "cond ");
  mlp_region(p, &op->regions[0], false, false);
  PUT(p->out, " do ");
  mlp_region(p, &op->regions[1], false, false);
  return true;
}

static bool print_barrier(Printer *p, const HlMlOp *op) {
  print_rest(p, op, "", nothing);
  if (!op->n_operands) {
    PUT(p->out, "()");
    return true;
  }
  put_char(p->out, ' ');
  mlp_operands(p, op, 0, op->n_operands);
  PUT(p->out, " : ");
  mlp_types(p, op->operands, op->n_operands);
  return true;
}

static bool print_top_k(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_K, ML_A_IS_STABLE, ML_A_LARGEST, ML_A_NONE};
  const HlMlAttr *k = ml_attr(op, ML_A_K);
  if (!k || k->kind != HL_ML_A_INT || op->n_operands != 1)
    return false;
  put_char(p->out, '(');
  mlp_value(p, op->operands[0]);
  PUT(p->out, ", k = ");
  put_i64(p->out, k->i);
  if (!ml_attr_int(op, ML_A_IS_STABLE, 1))
    PUT(p->out, ", is_stable = false");
  if (!ml_attr_int(op, ML_A_LARGEST, 1))
    PUT(p->out, ", largest = false");
  put_char(p->out, ')');
  print_rest(p, op, "", said);
  PUT(p->out, " : ");
  mlp_types(p, op->operands, 1);
  PUT(p->out, " -> ");
  mlp_result_types(p, op);
  return true;
}

static uint32_t n_inputs_of_scan(const HlMlOp *op) {
  const HlMlAttr *segments = ml_attr(op, ML_A_OPERAND_SEGMENT_SIZES);
  if (!segments || segments->kind != HL_ML_A_DENSE_ARRAY || segments->n_elements != 2 ||
      hl_ml_element_bytes(segments->type) != 4)
    return op->n_operands / 2;
  int32_t n;
  memcpy(&n, segments->data, sizeof n);
  return n < 0 || (uint32_t)n > op->n_operands ? op->n_operands : (uint32_t)n;
}

static bool print_scan(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_DIMENSION, ML_A_OPERAND_SEGMENT_SIZES,
                                ML_A_RESULT_SEGMENT_SIZES, ML_A_NONE};
  const HlMlAttr *dimension = ml_attr(op, ML_A_DIMENSION);
  uint32_t n = n_inputs_of_scan(op);
  if (!dimension || dimension->kind != HL_ML_A_INT || !hl_ml_body(op, 0))
    return false;
  put_char(p->out, '(');
  mlp_operands(p, op, 0, n);
  PUT(p->out, ") inits (");
  mlp_operands(p, op, n, op->n_operands);
  PUT(p->out, ") dimension=");
  put_i64(p->out, dimension->i);
  put_char(p->out, ' ');
  print_rest(p, op, " attributes", said);
  put_char(p->out, ' ');
  mlp_region(p, &op->regions[0], true, true);
  PUT(p->out, " : ");
  mlp_function_type(p, op);
  return true;
}

// --- sdy ----------------------------------------------------------------------------------------------------

static bool print_mesh(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_SYM_NAME, ML_A_MESH, ML_A_NONE};
  const HlSym *name = ml_attr_sym(op, ML_A_SYM_NAME);
  const HlMlAttr *mesh = ml_attr(op, ML_A_MESH);
  if (!name || !mesh || mesh->kind != HL_ML_A_STRUCT)
    return false;
  put_char(p->out, ' ');
  mlp_symbol(p, name);
  PUT(p->out, " = ");
  mlp_struct_body(p, mesh);
  print_rest(p, op, "", said);
  return true;
}

static bool print_struct_of(Printer *p, const HlMlOp *op, const char *word, MlName name) {
  const HlMlAttr *attr = ml_attr(op, name);
  if (!attr || attr->kind != HL_ML_A_STRUCT)
    return false;
  put_text(p->out, word);
  mlp_struct_body(p, attr);
  return true;
}

// (operands)
static void print_inputs(Printer *p, const HlMlOp *op) {
  put_char(p->out, '(');
  mlp_operands(p, op, 0, op->n_operands);
  put_char(p->out, ')');
}

// (%a: T, ..) { .. } {..} : (types) -> types
static void print_body(Printer *p, const HlMlOp *op, const HlMlBlock *body, const MlName *said) {
  PUT(p->out, " (");
  for (int k = 0; k < body->n_args; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_region_arg(p, body->args[k], NULL, true);
  }
  PUT(p->out, ") ");
  mlp_region(p, &op->regions[0], false, false);
  print_rest(p, op, "", said);
  PUT(p->out, " : ");
  mlp_function_type(p, op);
}

static bool print_named(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_IN_SHARDINGS, ML_A_OUT_SHARDINGS, ML_A_NAME, ML_A_NONE};
  const HlMlBlock *body = hl_ml_body(op, 0);
  const HlMlAttr *name = ml_attr(op, ML_A_NAME);
  if (!body || !name || name->kind != HL_ML_A_STRING)
    return false;
  put_char(p->out, '<');
  mlp_attr(p, name, PR_NO_TYPE);
  put_char(p->out, '>');
  print_inputs(p, op);
  if ((ml_attr(op, ML_A_IN_SHARDINGS) &&
       !print_struct_of(p, op, " in_shardings=", ML_A_IN_SHARDINGS)) ||
      (ml_attr(op, ML_A_OUT_SHARDINGS) &&
       !print_struct_of(p, op, " out_shardings=", ML_A_OUT_SHARDINGS)))
    return false;
  print_body(p, op, body, said);
  return true;
}

static bool print_manual(Printer *p, const HlMlOp *op) {
  static const MlName said[] = {ML_A_IN_SHARDINGS, ML_A_OUT_SHARDINGS, ML_A_MANUAL_AXES, ML_A_NONE};
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (!body)
    return false;
  print_inputs(p, op);
  if (!print_struct_of(p, op, " in_shardings=", ML_A_IN_SHARDINGS) ||
      !print_struct_of(p, op, " out_shardings=", ML_A_OUT_SHARDINGS) ||
      !print_struct_of(p, op, " manual_axes=", ML_A_MANUAL_AXES))
    return false;
  print_body(p, op, body, said);
  return true;
}

// --- By name ---------------------------------------------------------------------------------------------------

typedef bool PrintSpecial(Printer *p, const HlMlOp *op);
static const struct {
  const char *name;
  PrintSpecial *print;
} specials[] = {
    {"module", print_module}, {"func", print_func},   {"call", print_call},
    {"return", print_return}, {"cast", print_cast},   {"constant", print_constant},
    {"reduce", print_reduce}, {"while", print_while}, {"barrier", print_barrier},
    {"top_k", print_top_k},   {"scan", print_scan},   {"mesh", print_mesh},
    {"manual", print_manual}, {"named", print_named}, {"arith_constant", print_arith_constant}};

bool mlp_special(Printer *p, const HlMlOp *op, const char *name) {
  for (int k = 0; k < HL_COUNT_OF(specials); k++)
    if (strcmp(specials[k].name, name) == 0)
      return specials[k].print(p, op);
  return false;
}
