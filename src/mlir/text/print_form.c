// Prints pretty forms by what ops.def says of them (dialect.h describes the language).
#include "base/ascii.h"
#include "mlir/text/print.h"

// --- What has a form ------------------------------------------------------------------------------------

// Ops that mhlo prints generically, though StableHLO's have a form.
static const uint16_t bare_in_mhlo[] = {
    ML_STABLEHLO_IOTA,
    ML_STABLEHLO_DYNAMIC_IOTA,
    ML_STABLEHLO_BROADCAST,
    ML_STABLEHLO_TRANSPOSE,
    ML_STABLEHLO_BROADCAST_IN_DIM,
    ML_STABLEHLO_DYNAMIC_BROADCAST_IN_DIM,
    ML_STABLEHLO_REVERSE,
    ML_STABLEHLO_CONCATENATE,
    ML_STABLEHLO_SLICE,
    ML_STABLEHLO_PAD,
    ML_STABLEHLO_DYNAMIC_SLICE,
    ML_STABLEHLO_GET_DIMENSION_SIZE,
    ML_STABLEHLO_DOT,
    ML_STABLEHLO_SET_DIMENSION_SIZE,
    ML_STABLEHLO_DOT_GENERAL,
    ML_STABLEHLO_EINSUM,
    ML_STABLEHLO_UNARY_EINSUM,
    ML_STABLEHLO_FFT,
    ML_STABLEHLO_CHOLESKY,
    ML_STABLEHLO_RNG,
    ML_STABLEHLO_RNG_BIT_GENERATOR,
};

bool mlp_has_form(const HlMlOp *op) {
  if (!op->row || !ml_row_of(op)->form[0])
    return false;
  for (int k = 0; op->dialect == HL_ML_MHLO && k < HL_COUNT_OF(bare_in_mhlo); k++)
    if (op->row == bare_in_mhlo[k])
      return false;
  return true;
}

// --- Attributes in short ----------------------------------------------------------------------------------

// Defaults that MLIR's dialects have too, so that their printers leave them out; others come from VHLO.
static bool is_left_out(const HlMlOp *op, const MlAttrRow *row, const HlMlAttr *value) {
  switch (row->kind) {
  case ML_K_BOOL:
  case ML_K_I32:
  case ML_K_I64:
  case ML_K_F64:
  case ML_K_DICT: break;
  case ML_K_ENUM:
    if (!ml_enum_is_number(row->of))
      return false;
    break;
  case ML_K_STRUCT:
    if (strcmp(row->def, "default") != 0)
      return false;
    break;
  case ML_K_ARRAY:
    if (row->name != ML_A_CALLED_COMPUTATIONS && row->name != ML_A_OUTPUT_OPERAND_ALIASES)
      return false;
    break;
  default: return false;
  }
  return ml_is_default(row, value);
}

static const HlMlAttr *attr_of(const HlMlOp *op, const char *name, size_t n,
                               const MlAttrRow **row) {
  *row = ml_find_attr_text(ml_row_of(op), (HlStr){name, n});
  return *row ? ml_attr(op, (*row)->name) : NULL;
}

static bool print_int_list(Printer *p, const HlMlAttr *attr) {
  HlArena *arena = hl_arena_new();
  HlI64s list = hl_ml_ints(arena, attr);
  bool is_list =
      list.n || attr->kind == HL_ML_A_DENSE_ARRAY || attr->kind == HL_ML_A_DENSE || attr->n == 0;
  put_char(p->out, '[');
  mlp_ints(p, list, ", ");
  put_char(p->out, ']');
  hl_arena_free(arena);
  return is_list;
}

static bool print_short(Printer *p, const MlAttrRow *row, const HlMlAttr *attr) {
  switch (row->kind) {
  case ML_K_I64S: return print_int_list(p, attr);
  case ML_K_ENUM:
    if (attr->kind != HL_ML_A_ENUM)
      return false;
    put_sym(p->out, attr->sym);
    return true;
  case ML_K_STRUCT:
    if (attr->kind != HL_ML_A_STRUCT)
      return false;
    mlp_struct_body(p, attr);
    return true;
  case ML_K_I32:
  case ML_K_I64:
    if (attr->kind != HL_ML_A_INT)
      return false;
    break;
  default: break;
  }
  mlp_attr(p, attr, PR_NO_TYPE);
  return true;
}

// --- What stands for an attribute -------------------------------------------------------------------------

static bool mentions(const char *form, const char *name, size_t n) {
  for (const char *at = strchr(form, '@'); at; at = strchr(at + 1, '@'))
    if (strncmp(at + 1, name, n) == 0 && !is_alnum(at[n + 1]) && at[n + 1] != '_')
      return true;
  return false;
}

static const struct {
  const char *piece;
  MlName attr[5];
} piece_attrs[] = {{"format", {ML_A_EXPONENT_BITS, ML_A_MANTISSA_BITS}},
                   {"ranges", {ML_A_START_INDICES, ML_A_LIMIT_INDICES, ML_A_STRIDES}},
                   {"dot", {ML_A_DOT_DIMENSION_NUMBERS}},
                   {"precision", {ML_A_PRECISION_CONFIG}},
                   {"algorithm", {ML_A_ALGORITHM}},
                   {"conv", {ML_A_DIMENSION_NUMBERS}},
                   {"window",
                    {ML_A_WINDOW_STRIDES, ML_A_PADDING, ML_A_LHS_DILATION, ML_A_RHS_DILATION,
                     ML_A_WINDOW_REVERSAL}},
                   {"target", {ML_A_CALL_TARGET_NAME}}};

static bool is_in_piece(const char *form, MlName name) {
  for (int k = 0; k < HL_COUNT_OF(piece_attrs); k++)
    for (int i = 0; i < 5 && piece_attrs[k].attr[i]; i++)
      if (piece_attrs[k].attr[i] == name) {
        size_t n = strlen(piece_attrs[k].piece);
        for (const char *at = strchr(form, '#'); at; at = strchr(at + 1, '#'))
          if (strncmp(at + 1, piece_attrs[k].piece, n) == 0 && !is_alpha(at[n + 1]))
            return true;
      }
  return false;
}

static bool is_left(const HlMlOp *op, const HlMlNamed *named, const void *form) {
  const MlAttrRow *row = ml_find_attr(ml_row_of(op), (MlName)named->id);
  return !row || !(mentions(form, named->name->text, named->name->n) ||
                   is_in_piece(form, row->name) || is_left_out(op, row, named->value));
}

// --- Pieces of their own --------------------------------------------------------------------------------

static bool print_format(Printer *p, const HlMlOp *op) {
  int64_t exponent = ml_attr_int(op, ML_A_EXPONENT_BITS, -1),
          mantissa = ml_attr_int(op, ML_A_MANTISSA_BITS, -1);
  put_char(p->out, 'e');
  put_i64(p->out, exponent);
  put_char(p->out, 'm');
  put_i64(p->out, mantissa);
  return exponent >= 0 && mantissa >= 0;
}

static bool print_ranges(Printer *p, const HlMlOp *op) {
  HlArena *arena = hl_arena_new();
  HlI64s start = ml_attr_ints(arena, op, ML_A_START_INDICES),
         limit = ml_attr_ints(arena, op, ML_A_LIMIT_INDICES);
  HlI64s stride = ml_attr_ints(arena, op, ML_A_STRIDES);
  bool fits = start.n == limit.n && start.n == stride.n;
  put_char(p->out, '[');
  for (int k = 0; fits && k < start.n; k++) {
    if (k)
      PUT(p->out, ", ");
    put_i64(p->out, start.at[k]);
    put_char(p->out, ':');
    put_i64(p->out, limit.at[k]);
    if (stride.at[k] != 1) {
      put_char(p->out, ':');
      put_i64(p->out, stride.at[k]);
    }
  }
  put_char(p->out, ']');
  hl_arena_free(arena);
  return fits;
}

static void print_dims(Printer *p, const char *word, const HlMlAttr *lhs, const HlMlAttr *rhs) {
  put_text(p->out, word);
  print_int_list(p, lhs);
  PUT(p->out, " x ");
  print_int_list(p, rhs);
}

static bool print_dot(Printer *p, const HlMlOp *op) {
  const HlMlAttr *dims = ml_attr(op, ML_A_DOT_DIMENSION_NUMBERS);
  const HlMlAttr *lhs_batch = ml_field(dims, ML_A_LHS_BATCHING_DIMENSIONS);
  const HlMlAttr *rhs_batch = ml_field(dims, ML_A_RHS_BATCHING_DIMENSIONS);
  const HlMlAttr *lhs = ml_field(dims, ML_A_LHS_CONTRACTING_DIMENSIONS);
  const HlMlAttr *rhs = ml_field(dims, ML_A_RHS_CONTRACTING_DIMENSIONS);
  if (!dims || dims->kind != HL_ML_A_STRUCT || !lhs_batch || !rhs_batch || !lhs || !rhs)
    return false;
  if (lhs_batch->n_elements || rhs_batch->n_elements) {
    print_dims(p, "batching_dims = ", lhs_batch, rhs_batch);
    PUT(p->out, ", ");
  }
  print_dims(p, "contracting_dims = ", lhs, rhs);
  return true;
}

static bool print_precision(Printer *p, const HlMlOp *op) {
  const HlMlAttr *list = ml_attr(op, ML_A_PRECISION_CONFIG);
  if (!list)
    return true;
  if (list->kind != HL_ML_A_ARRAY)
    return false;
  PUT(p->out, ", precision = [");
  for (int k = 0; k < list->n; k++) {
    if (list->list[k]->kind != HL_ML_A_ENUM)
      return false;
    if (k)
      PUT(p->out, ", ");
    put_sym(p->out, list->list[k]->sym);
  }
  put_char(p->out, ']');
  return true;
}

static bool print_algorithm(Printer *p, const HlMlOp *op) {
  const HlMlAttr *algorithm = ml_attr(op, ML_A_ALGORITHM);
  if (!algorithm)
    return true;
  if (algorithm->kind != HL_ML_A_STRUCT)
    return false;
  PUT(p->out, ", algorithm = ");
  mlp_struct_body(p, algorithm);
  return true;
}

static bool print_conv(Printer *p, const HlMlOp *op) {
  const HlMlAttr *dims = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  if (!dims || dims->kind != HL_ML_A_STRUCT || !mlp_is_regular_conv(dims))
    return false;
  mlp_struct_body(p, dims);
  return true;
}

static void print_pairs(Printer *p, HlI64s list) {
  for (int k = 0; k + 1 < list.n; k += 2) {
    if (k)
      PUT(p->out, ", ");
    put_char(p->out, '[');
    put_i64(p->out, list.at[k]);
    PUT(p->out, ", ");
    put_i64(p->out, list.at[k + 1]);
    put_char(p->out, ']');
  }
}

static void print_bools(Printer *p, HlI64s list) {
  for (int k = 0; k < list.n; k++) {
    if (k)
      PUT(p->out, ", ");
    put_text(p->out, list.at[k] ? "true" : "false");
  }
}

static bool print_window(Printer *p, const HlMlOp *op) {
  static const struct {
    MlName attr;
    const char *word;
  } parts[] = {{ML_A_WINDOW_STRIDES, "stride"},
               {ML_A_PADDING, "pad"},
               {ML_A_LHS_DILATION, "lhs_dilate"},
               {ML_A_RHS_DILATION, "rhs_dilate"},
               {ML_A_WINDOW_REVERSAL, "reverse"}};
  HlArena *arena = hl_arena_new();
  bool any = false, fits = true;
  for (int k = 0; k < HL_COUNT_OF(parts); k++) {
    const HlMlAttr *attr = ml_attr(op, parts[k].attr);
    if (!attr)
      continue;
    HlI64s list = hl_ml_ints(arena, attr);
    fits &=
        k != 1 || (attr->kind == HL_ML_A_DENSE && attr->type->rank == 2 && attr->type->dim[1] == 2);
    if (any)
      PUT(p->out, ", ");
    any = true;
    put_text(p->out, parts[k].word);
    PUT(p->out, " = [");
    if (k == 1)
      print_pairs(p, list);
    else if (k == 4 && op->dialect != HL_ML_MHLO)  // mhlo has 0 and 1
      print_bools(p, list);
    else
      mlp_ints(p, list, ", ");
    put_char(p->out, ']');
  }
  hl_arena_free(arena);
  return fits;
}

static bool print_target(Printer *p, const HlMlOp *op) {
  const HlMlAttr *target = ml_attr(op, ML_A_CALL_TARGET_NAME);
  if (!target || target->kind != HL_ML_A_STRING || target->type)
    return false;
  mlp_symbol(p, target->sym);
  return true;
}

static bool print_state(Printer *p, const HlMlOp *op) {
  (void)p;
  const HlMlType *type = op->n_results == 1 ? op->results[0].type : NULL;
  return type && type->kind == HL_ML_TENSOR && !type->encoding && type->rank == 1 &&
         type->dim[0] == 2 && type->element[0]->dtype == HL_U64;
}

static bool print_regions(Printer *p, const HlMlOp *op) {
  put_char(p->out, '(');
  for (uint32_t k = 0; k < op->n_regions; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_region(p, &op->regions[k], true, true);
  }
  put_char(p->out, ')');
  return true;
}

typedef bool PrintPiece(Printer *p, const HlMlOp *op);
static const struct {
  const char *name;
  PrintPiece *print;
} pieces[] = {{"format", print_format},   {"ranges", print_ranges},
              {"dot", print_dot},         {"precision", print_precision},
              {"conv", print_conv},       {"algorithm", print_algorithm},
              {"window", print_window},   {"target", print_target},
              {"regions", print_regions}, {"state", print_state}};

static bool print_piece(Printer *p, const HlMlOp *op, const char *name, size_t n) {
  for (int k = 0; k < HL_COUNT_OF(pieces); k++)
    if (strlen(pieces[k].name) == n && memcmp(pieces[k].name, name, n) == 0)
      return pieces[k].print(p, op);
  return false;
}

// --- Types at the end -------------------------------------------------------------------------------------

static bool all_are(const HlMlOp *op, const HlMlType *type) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (op->operands[k]->type != type)
      return false;
  return true;
}

// The operand of `complex` that goes with a result.
static bool is_real_of(const HlMlType *type, const HlMlType *result) {
  if (type->kind != HL_ML_TENSOR || result->kind != HL_ML_TENSOR ||
      result->element[0]->kind != HL_ML_COMPLEX ||
      type->element[0] != result->element[0]->element[0] || type->rank != result->rank ||
      type->encoding != result->encoding)
    return false;
  for (int k = 0; k < type->rank; k++)
    if (type->dim[k] != result->dim[k])
      return false;
  return true;
}

static bool is_tuple_of_operands(const HlMlOp *op, const HlMlType *result) {
  if (result->kind != HL_ML_TUPLE || result->n != (int)op->n_operands)
    return false;
  for (int k = 0; k < result->n; k++)
    if (result->element[k] != op->operands[k]->type)
      return false;
  return true;
}

static bool print_result_list(Printer *p, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_type(p, op->results[k].type);
  }
  return true;
}

static bool print_type_or_function(Printer *p, const HlMlOp *op, bool in_short) {
  if (in_short)
    mlp_type(p, op->results[0].type);
  else
    mlp_function_type(p, op);
  return true;
}

static bool is_word(const char *word, size_t n, const char *text) {
  return strlen(text) == n && memcmp(word, text, n) == 0;
}

static bool print_type_piece(Printer *p, const HlMlOp *op, const char *word, size_t n) {
  const HlMlType *result = op->n_results == 1 ? op->results[0].type : NULL;
  PUT(p->out, " : ");
  if (is_word(word, n, "fn")) {
    mlp_function_type(p, op);
  } else if (is_word(word, n, "same") || is_word(word, n, "variadic")) {
    return print_type_or_function(p, op, result && all_are(op, result));
  } else if (is_word(word, n, "results")) {
    return print_result_list(p, op);
  } else if (is_word(word, n, "operands")) {
    mlp_types(p, op->operands, op->n_operands);
  } else if (is_word(word, n, "lhs")) {
    mlp_types(p, op->operands, op->n_operands ? 1 : 0);
  } else if (is_word(word, n, "arrow") || is_word(word, n, "to")) {
    mlp_types(p, op->operands, op->n_operands);
    put_text(p->out, n == 2 ? " to " : " -> ");
    return print_result_list(p, op);
  } else if (is_word(word, n, "complex")) {
    return print_type_or_function(p, op,
                                  result && op->n_operands == 2 &&
                                      is_real_of(op->operands[0]->type, result) &&
                                      is_real_of(op->operands[1]->type, result));
  } else if (is_word(word, n, "tuple")) {
    return print_type_or_function(p, op, result && is_tuple_of_operands(op, result));
  } else if (is_word(word, n, "select")) {
    if (!result || op->n_operands != 3 || op->operands[1]->type != result ||
        op->operands[2]->type != result) {
      mlp_function_type(p, op);
      return true;
    }
    mlp_type(p, op->operands[0]->type);
    PUT(p->out, ", ");
    mlp_type(p, result);
  } else {
    return false;
  }
  return true;
}

// --- The form ---------------------------------------------------------------------------------------------

static size_t word_length(const char *at) {
  size_t n = 0;
  while (is_alnum(at[n]) || at[n] == '_')
    n++;
  return n;
}

static bool print_part(Printer *p, const HlMlOp *op, const char *form, const char *at,
                       const char *end);

// The braces of a part that may be absent; returns behind it, NULL where the form does not fit the op.
static const char *print_optional(Printer *p, const HlMlOp *op, const char *form, const char *at,
                                  bool blank) {
  const char *end = strchr(at, '}'), *name = strchr(at, '@');
  const MlAttrRow *row;
  const HlMlAttr *value = attr_of(op, name + 1, word_length(name + 1), &row);
  if (value && !is_left_out(op, row, value)) {
    if (blank)
      put_char(p->out, ' ');
    if (!print_part(p, op, form, at, end))
      return NULL;
  }
  return end + 1;
}

// One element that starts with a mark of its own; returns behind it, NULL where the form does not fit the op.
static const char *print_marked(Printer *p, const HlMlOp *op, const char *form, const char *at,
                                bool blank) {
  size_t n = word_length(at + 1);
  if (*at == '%') {
    mlp_attrs_left(p, op, "", is_left, form);
    return at + 1;
  }
  if (*at == '?')
    return print_optional(p, op, form, at + 2, blank);
  if (*at == ':')
    return print_type_piece(p, op, at + 1, n) ? at + 1 + n : NULL;
  bool is_nothing = *at == '#' && n == 7 && memcmp(at + 1, "regions", n) == 0 && !op->n_regions;
  if (blank && !is_nothing)
    put_char(p->out, ' ');
  if (*at == '$') {
    mlp_operands(p, op, 0, op->n_operands);
    return at + 2;
  }
  if (*at == '#')
    return is_nothing || print_piece(p, op, at + 1, n) ? at + 1 + n : NULL;
  const MlAttrRow *row;
  const HlMlAttr *value = attr_of(op, at + 1, n, &row);
  return value && print_short(p, row, value) ? at + 1 + n : NULL;
}

static bool print_part(Printer *p, const HlMlOp *op, const char *form, const char *at,
                       const char *end) {
  bool blank = false;
  while (at < end) {
    if (*at == ' ') {
      blank = true;
      at++;
      continue;
    }
    if (strchr("$@?%#", *at) || (*at == ':' && is_alpha(at[1]))) {
      at = print_marked(p, op, form, at, blank);
      if (!at)
        return false;
    } else {
      if (blank)
        put_char(p->out, ' ');
      put_char(p->out, *at++);
    }
    blank = false;
  }
  if (blank)
    put_char(p->out, ' ');
  return true;
}

bool mlp_form(Printer *p, const HlMlOp *op, const char *form) {
  if (!strchr("(%:#", form[0]) || strncmp(form, "#target", 7) == 0)
    put_char(p->out, ' ');
  return print_part(p, op, form, form, form + strlen(form));
}
