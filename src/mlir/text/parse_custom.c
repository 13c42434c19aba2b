// Reads MLIR text: ops whose whole pretty form is a function (!NAME of ops.def).
#include "mlir/text/parse.h"

#include <string.h>

static bool push_type(MpParser *p) {
  const HlMlType *type = mp_type(p);
  if (type)
    mp_push(p, &p->types, type);
  return type != NULL;
}

// --- Modules and functions -----------------------------------------------------------------------------------

// module [@name] [attributes {..}] { .. }
static bool module(MpParser *p, MpState *s) {
  if (*p->in.at == '@') {
    const HlSym *name = mp_symbol_name(p);
    if (!name)
      return false;
    mp_attr_of(p, s, ML_A_SYM_NAME, hl_ml_string_of(p->tree, name));
  }
  HlMlRegion *region = mp_add_region(p, s);
  if (!mp_attributes_dict(p, s) || !mp_region(p, s, region, 0, NULL))
    return false;
  if (!region->first)
    hl_ml_block(p->tree, region);
  return true;
}

typedef struct Signature {
  MpArg *arg;
  const HlMlAttr **arg_dict;
  int n_args, arg_room;
  bool has_names, has_arg_dicts, has_result_dicts, is_variadic;
} Signature;

static const HlMlAttr *opt_dict_attr(MpParser *p, bool *has) {
  if (*p->in.at != '{')
    return hl_ml_dict(p->tree, 0, NULL);
  const HlMlAttr *dict = mp_dict_attr(p);
  *has |= dict && dict->n > 0;
  return dict;
}

static void add_param(MpParser *p, Signature *f, const MpArg *arg, const HlMlAttr *dict) {
  if (f->n_args == f->arg_room) {
    const int room = 2 * f->arg_room + 16;
    MpArg *args = HL_ARRAY(p->own, MpArg, room);
    const HlMlAttr **dicts = HL_ARRAY(p->own, const HlMlAttr *, room);
    for (int k = 0; k < f->n_args; k++) {
      args[k] = f->arg[k];
      dicts[k] = f->arg_dict[k];
    }
    f->arg = args;
    f->arg_dict = dicts;
    f->arg_room = room;
  }
  f->arg_dict[f->n_args] = dict;
  f->arg[f->n_args++] = *arg;
}

// %a: T {..} loc(..), or T {..} of a declaration.
static bool param(MpParser *p, Signature *f) {
  MpArg arg = {.at = p->in.at};
  const bool is_named = *arg.at == '%';
  if (f->n_args > 0 && is_named != f->has_names)
    return ml_lex_expected(&p->in, f->has_names ? "a named argument" : "a type");
  f->has_names = is_named;
  if (is_named && (!(arg.name = mp_value_name(p)) || !ml_lex_need(&p->in, ':')))
    return false;
  if (!(arg.type = mp_type(p)))
    return false;
  const HlMlAttr *dict = opt_dict_attr(p, &f->has_arg_dicts);
  if (!dict || !mp_opt_location(p, &arg.location))
    return false;
  add_param(p, f, &arg, dict);
  return true;
}

static bool params(MpParser *p, Signature *f) {
  if (!ml_lex_need(&p->in, '('))
    return false;
  if (ml_lex_eat(&p->in, ')'))
    return true;
  do {
    if (!param(p, f))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, ')');
}

// -> T, -> (T {..}, U); types go onto p->types, dicts onto p->ptrs.
static bool results(MpParser *p, Signature *f) {
  if (!ml_lex_eat_arrow(&p->in))
    return true;
  if (!ml_lex_eat(&p->in, '(')) {
    mp_push(p, &p->ptrs, hl_ml_dict(p->tree, 0, NULL));
    return push_type(p);
  }
  if (ml_lex_eat(&p->in, ')'))
    return true;
  do {
    if (!push_type(p))
      return false;
    const HlMlAttr *dict = opt_dict_attr(p, &f->has_result_dicts);
    if (!dict)
      return false;
    mp_push(p, &p->ptrs, dict);
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, ')');
}

static bool signature(MpParser *p, MpState *s, Signature *f) {
  if (!params(p, f))
    return false;
  const int types = p->types.n, dicts = p->ptrs.n;
  for (int k = 0; k < f->n_args; k++)
    mp_push(p, &p->types, f->arg[k].type);
  if (!results(p, f))
    return false;
  const HlMlType *const *all = (const HlMlType *const *)p->types.at + types;
  const HlMlType *type =
      hl_ml_function_type(p->tree, f->n_args, all, p->types.n - types - f->n_args, all + f->n_args);
  p->types.n = types;
  const HlMlAttr *result_dicts = mp_array(p, dicts);
  mp_attr_of(p, s, ML_A_FUNCTION_TYPE, hl_ml_type_attr(p->tree, type));
  if (f->has_arg_dicts)
    mp_attr_of(p, s, ML_A_ARG_ATTRS, hl_ml_array(p->tree, f->n_args, f->arg_dict));
  if (f->has_result_dicts)
    mp_attr_of(p, s, ML_A_RES_ATTRS, result_dicts);
  return true;
}

// [private] @name(params) [-> results] [attributes {..}] [{ .. }] [{..}]
static bool func(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  Signature f = {0};
  HlStr visibility = ml_lex_word(&p->in);
  if (visibility.n) {
    if (!hl_str_is(visibility, "public") && !hl_str_is(visibility, "private") &&
        !hl_str_is(visibility, "nested"))
      return p->in.at = at, ml_lex_expected(&p->in, "a symbol name");
    mp_attr_of(p, s, ML_A_SYM_VISIBILITY, hl_ml_string(p->tree, visibility.at, visibility.n));
  }
  const HlSym *name = mp_symbol_name(p);
  if (!name)
    return false;
  mp_attr_of(p, s, ML_A_SYM_NAME, hl_ml_string_of(p->tree, name));
  if (!signature(p, s, &f) || !mp_attributes_dict(p, s))
    return false;
  HlMlRegion *region = mp_add_region(p, s);
  if (*p->in.at != '{' || p->in.at[1] == '-')
    return true;
  at = p->in.at;
  if (f.n_args > 0 && !f.has_names)
    return mp_error(p, at, "a function with a body needs names for its arguments");
  if (!mp_region(p, s, region, f.n_args, f.arg))
    return false;
  if (!region->first)
    return mp_error(p, at, "expected non-empty function body");
  return s->row_number != ML_NONE || mp_opt_dict(p, s);  // vhlo's attributes stand behind
}

// @callee(operands) {..} : (types) -> types
static bool call(MpParser *p, MpState *s) {
  const HlMlAttr *callee = mp_symbol(p);
  if (!callee)
    return false;
  mp_attr_of(p, s, ML_A_CALLEE, callee);
  return ml_lex_need(&p->in, '(') && mp_use_list(p) && ml_lex_need(&p->in, ')') &&
         mp_opt_dict(p, s) && ml_lex_need(&p->in, ':') && mp_fn_type(p, s);
}

// [operands] {..} [: types]
static bool return_op(MpParser *p, MpState *s) {
  if (!mp_opt_dict(p, s) || !mp_use_list(p) || !mp_opt_dict(p, s))
    return false;
  if (p->uses.n == s->uses)
    return true;
  const int base = p->types.n;
  if (!ml_lex_need(&p->in, ':') || !mp_type_list(p))
    return false;
  s->n_operands = p->types.n - base;
  return true;
}

// [operands : types] to types {..}
static bool cast(MpParser *p, MpState *s) {
  const int base = p->types.n;
  if (!mp_use_list(p) || (p->uses.n > s->uses && (!ml_lex_need(&p->in, ':') || !mp_type_list(p))))
    return false;
  s->n_operands = p->types.n - base;
  if (!ml_lex_need_word(&p->in, "to") || !mp_type_list(p))
    return false;
  s->n_results = p->types.n - base - s->n_operands;
  return mp_opt_dict(p, s);
}

// --- Constants -------------------------------------------------------------------------------------------------

static const HlMlType *type_of(const HlMlAttr *value, MpParser *p) {
  if (value->kind == HL_ML_A_BOOL)
    return hl_ml_int_type(p->tree, 1, HL_ML_SIGNLESS);
  return value->kind == HL_ML_A_TYPE || value->kind == HL_ML_A_OTHER ? NULL : value->type;
}

// {..} value, whose type is the result's; or () <{..}> {..} : () -> T
static bool constant(MpParser *p, MpState *s) {
  if (ml_lex_eat(&p->in, '(')) {
    if (!ml_lex_need(&p->in, ')'))
      return false;
    if (ml_lex_eat(&p->in, '<') && (!mp_dict_entries(p, s, true) || !ml_lex_need(&p->in, '>')))
      return false;
    return mp_opt_dict(p, s) && ml_lex_need(&p->in, ':') && mp_fn_type(p, s);
  }
  if (!mp_opt_dict(p, s))
    return false;
  const char *at = p->in.at;
  const HlMlAttr *value = mp_attr(p, NULL);
  if (!value)
    return false;
  const HlMlType *type = type_of(value, p);
  if (!type)
    return mp_error(p, at, "expected a value with a type");
  const uint8_t kind = value->kind;
  if (s->row_number != ML_ARITH_CONSTANT && kind != HL_ML_A_DENSE &&
      kind != HL_ML_A_DENSE_STRINGS && kind != HL_ML_A_RESOURCE)
    return mp_error(p, at, "expected an elements attribute");
  mp_attr_of(p, s, ML_A_VALUE, value);
  mp_push(p, &p->types, type);
  s->n_results = 1;
  return true;
}

// --- Reductions and loops --------------------------------------------------------------------------------------

// (%x init: %z), ..: the inputs, then the initial values.
static bool reduce_inputs(MpParser *p, MpState *s) {
  do {
    MpUse input, init;
    if (!ml_lex_need(&p->in, '(') || !mp_use(p, &input) || !ml_lex_need_word(&p->in, "init") ||
        !ml_lex_need(&p->in, ':') || !mp_use(p, &init) || !ml_lex_need(&p->in, ')'))
      return false;
    mp_push_use(p, &input);
    mp_push_use(p, &init);
  } while (ml_lex_eat(&p->in, ','));
  const int n = p->uses.n - s->uses;
  MpUse *all = p->uses.at + s->uses, *copy = HL_ARRAY(p->own, MpUse, n);
  memcpy(copy, all, (size_t)n * sizeof *copy);
  for (int k = 0; k < n / 2; k++) {
    all[k] = copy[2 * k];
    all[n / 2 + k] = copy[2 * k + 1];
  }
  return true;
}

static bool commutes(HlMlRow row) {
  switch (row) {
  case ML_STABLEHLO_ADD:
  case ML_STABLEHLO_MULTIPLY:
  case ML_STABLEHLO_MAXIMUM:
  case ML_STABLEHLO_MINIMUM:
  case ML_STABLEHLO_AND:
  case ML_STABLEHLO_OR:
  case ML_STABLEHLO_XOR: return true;
  default: return false;
  }
}

// The name after `applies`, as a state; its op is made when the types are known.
static bool applied(MpParser *p, const MpState *s, MpState *inner) {
  *inner = (MpState){.at = p->in.at};
  HlStr name;
  if (*p->in.at == '"') {
    if (!ml_lex_string(&p->in, &name))
      return false;
  } else {
    name = ml_lex_word(&p->in);
  }
  if (name.n == 0)
    return ml_lex_expected(&p->in, "the name of an operation");
  mp_name_op(p, inner, name);
  if (!commutes(inner->row_number) || inner->dialect != s->dialect)
    return mp_error(p, s->at,
                    "expected the inner-op to be a commutative binary-op from the %s dialect, with "
                    "zero region, "
                    "producing single result",
                    ml_dialect_name(s->dialect));
  return true;
}

static HlMlOp *plain_op(MpParser *p, HlMlBlock *block, HlMlRow row, const MpState *s, int n,
                        HlMlValue **operands, const HlMlType *type) {
  HlMlOp *op = ml_op(p->tree, block, row, n, operands, type != NULL, &type, 0);
  ml_rename(p->tree, op, row, s->dialect);
  op->loc = ml_lex_pos(&p->in, s->at).loc;
  op->location = s->location;
  return op;
}

// The region that `applies` stands for.
static bool applied_region(MpParser *p, MpState *s, const MpState *inner) {
  const HlMlType *input = p->types.at[s->types];
  const HlMlType *type = hl_ml_tensor_type(p->tree, 0, NULL, hl_ml_element(input), NULL);
  HlMlRegion *region = mp_add_region(p, s);
  HlMlBlock *block = hl_ml_block(p->tree, region);
  HlMlValue *args[] = {hl_ml_arg(p->tree, block, type), hl_ml_arg(p->tree, block, type)};
  HlMlOp *op = plain_op(p, block, inner->row_number, inner, 2, args, type);
  plain_op(p, block, ML_STABLEHLO_RETURN, inner, 1, (HlMlValue *[]){op->results}, NULL);
  return true;
}

// reducer(%l: T, %r: T) (..) { .. }: the first of each pair, then the second.
static bool reducer(MpParser *p, MpState *s) {
  MpArg few[16], *args = few;
  int n = 0, room = HL_COUNT_OF(few);
  if (!ml_lex_need_word(&p->in, "reducer"))
    return false;
  while (ml_lex_eat(&p->in, '(')) {
    if (n + 2 > room) {
      MpArg *more = HL_ARRAY(p->own, MpArg, 2 * room);
      memcpy(more, args, (size_t)n * sizeof *more);
      args = more;
      room *= 2;
    }
    if (!mp_one_arg(p, &args[n]) || !ml_lex_need(&p->in, ',') || !mp_one_arg(p, &args[n + 1]) ||
        !ml_lex_need(&p->in, ')'))
      return false;
    n += 2;
  }
  MpArg *order = HL_ARRAY(p->own, MpArg, n);
  for (int k = 0; k < n / 2; k++) {
    order[k] = args[2 * k];
    order[n / 2 + k] = args[2 * k + 1];
  }
  return mp_region(p, s, mp_add_region(p, s), n, order);
}

static bool reduce(MpParser *p, MpState *s) {
  MpState inner;
  int n;
  if (!reduce_inputs(p, s))
    return false;
  const bool is_short = ml_lex_eat_word(&p->in, "applies");
  if ((is_short && !applied(p, s, &inner)) || !ml_lex_need_word(&p->in, "across") ||
      !ml_lex_need_word(&p->in, "dimensions") || !ml_lex_need(&p->in, '=') || !mp_int_list(p, &n))
    return false;
  p->ints.n -= n;
  mp_attr_of(p, s, ML_A_DIMENSIONS, hl_ml_dense_i64s(p->tree, (HlI64s){p->ints.at + p->ints.n, n}));
  if (!mp_opt_dict(p, s) || !ml_lex_need(&p->in, ':'))
    return false;
  const char *at = p->in.at;
  if (!mp_fn_type(p, s))
    return false;
  const int n_uses = p->uses.n - s->uses;
  if (s->n_operands != n_uses)
    return mp_error(p, at, "%d operands present, but expected %d", n_uses, s->n_operands);
  if (!is_short)
    return reducer(p, s);
  if (!mp_opt_location(p, &s->location))
    return false;
  inner.location = s->location;
  return applied_region(p, s, &inner);
}

// (%i = %a, %j = %b) : T, U [attributes {..}] cond { .. } do { .. }
static bool while_op(MpParser *p, MpState *s) {
  MpArg few[16], *args = few;
  int n = 0, room = HL_COUNT_OF(few);
  if (!ml_lex_need(&p->in, '('))
    return false;
  while (!ml_lex_eat(&p->in, ')')) {
    MpUse init;
    if (n == room) {
      MpArg *more = HL_ARRAY(p->own, MpArg, 2 * room);
      memcpy(more, args, (size_t)n * sizeof *more);
      args = more;
      room *= 2;
    }
    if (n && !ml_lex_need(&p->in, ','))
      return false;
    args[n] = (MpArg){.at = p->in.at};
    if (!(args[n].name = mp_value_name(p)) || !ml_lex_need(&p->in, '=') || !mp_use(p, &init))
      return false;
    mp_push_use(p, &init);
    n++;
  }
  const char *at = p->in.at;
  if (n && (!ml_lex_need(&p->in, ':') || !mp_type_list(p)))
    return false;
  if (p->types.n - s->types != n)
    return mp_error(p, at, "%d operands present, but expected %d", n, p->types.n - s->types);
  s->n_operands = s->n_results = n;
  for (int k = 0; k < n; k++) {
    args[k].type = p->types.at[s->types + k];
    mp_push(p, &p->types, args[k].type);
  }
  return mp_attributes_dict(p, s) && ml_lex_need_word(&p->in, "cond") &&
         mp_region(p, s, mp_add_region(p, s), n, args) && ml_lex_need_word(&p->in, "do") &&
         mp_region(p, s, mp_add_region(p, s), n, args);
}

// --- The rest of stablehlo and chlo ----------------------------------------------------------------------------

// {..} operands : types, or {..} ()
static bool barrier(MpParser *p, MpState *s) {
  if (!mp_opt_dict(p, s))
    return false;
  if (ml_lex_eat(&p->in, '('))
    return ml_lex_need(&p->in, ')');
  const int base = p->types.n;
  if (*p->in.at != '%')
    return ml_lex_expected(&p->in, "an SSA value or '('");
  if (!mp_use_list(p) || !mp_opt_dict(p, s) || !ml_lex_need(&p->in, ':') || !mp_type_list(p))
    return false;
  s->n_operands = s->n_results = p->types.n - base;
  for (int k = 0; k < s->n_results; k++)
    mp_push(p, &p->types, p->types.at[base + k]);
  return true;
}

// (%a, k = 2, is_stable = false) {..} : T -> (V, I); mhlo's has `largest` in the place of is_stable.
static bool top_k(MpParser *p, MpState *s) {
  const MlName flag = s->row_number == ML_MHLO_TOPK ? ML_A_LARGEST : ML_A_IS_STABLE;
  const HlMlAttr *k, *is_set;
  MpUse operand;
  if (!ml_lex_need(&p->in, '(') || !mp_use(p, &operand) || !ml_lex_need(&p->in, ',') ||
      !ml_lex_need_word(&p->in, "k") || !ml_lex_need(&p->in, '=') ||
      !(k = mp_short(p, ML_K_I64, ML_D_NONE, s->dialect)))
    return false;
  mp_push_use(p, &operand);
  mp_attr_of(p, s, ML_A_K, k);
  if (ml_lex_eat(&p->in, ',')) {
    if (!ml_lex_need_word(&p->in, ml_name_text[flag]) || !ml_lex_need(&p->in, '=') ||
        !(is_set = mp_short(p, ML_K_BOOL, ML_D_NONE, s->dialect)))
      return false;
    mp_attr_of(p, s, flag, is_set);
  }
  if (!ml_lex_need(&p->in, ')') || !mp_opt_dict(p, s) || !ml_lex_need(&p->in, ':') ||
      !push_type(p) || !ml_lex_need_arrow(&p->in) || !ml_lex_need(&p->in, '(') || !push_type(p) ||
      !ml_lex_need(&p->in, ',') || !push_type(p) || !ml_lex_need(&p->in, ')'))
    return false;
  s->n_operands = 1;
  s->n_results = 2;
  return true;
}

static const HlMlAttr *two_sizes(MpParser *p, int a, int b) {
  const int32_t sizes[] = {a, b};
  return hl_ml_dense_array(p->tree, mp_plain(p, MP_I32), sizes, 2, true);
}

// (inputs) inits (inits) dimension=0 [attributes {..}] { .. } : (types) -> types
static bool scan(MpParser *p, MpState *s) {
  int64_t dimension;
  if (!ml_lex_need(&p->in, '(') || !mp_use_list(p) || !ml_lex_need(&p->in, ')') ||
      !ml_lex_need_word(&p->in, "inits"))
    return false;
  const int n_inputs = p->uses.n - s->uses;
  if (!ml_lex_need(&p->in, '(') || !mp_use_list(p) || !ml_lex_need(&p->in, ')') ||
      !ml_lex_need_word(&p->in, "dimension") || !ml_lex_need(&p->in, '=') ||
      !ml_lex_int(&p->in, &dimension))
    return false;
  const int n_inits = p->uses.n - s->uses - n_inputs;
  mp_attr_of(p, s, ML_A_DIMENSION, hl_ml_i64(p->tree, dimension));
  if (!mp_attributes_dict(p, s) || !mp_region(p, s, mp_add_region(p, s), 0, NULL) ||
      !ml_lex_need(&p->in, ':'))
    return false;
  const char *at = p->in.at;
  if (!mp_fn_type(p, s))
    return false;
  if (s->n_operands != n_inputs + n_inits)
    return mp_error(p, at, "operand types must match the number of inputs and inits");
  if (s->n_results < n_inits)
    return mp_error(p, at, "not enough result types to cover the required carries");
  mp_attr_of(p, s, ML_A_OPERAND_SEGMENT_SIZES, two_sizes(p, n_inputs, n_inits));
  mp_attr_of(p, s, ML_A_RESULT_SEGMENT_SIZES, two_sizes(p, s->n_results - n_inits, n_inits));
  return true;
}

// --- sdy -------------------------------------------------------------------------------------------------------

// @name = <[..]> {..}
static bool mesh(MpParser *p, MpState *s) {
  const HlSym *name = mp_symbol_name(p);
  const HlMlAttr *value;
  if (!name || !ml_lex_need(&p->in, '=') || !(value = mp_sdy_body(p, ML_D_MESH)))
    return false;
  mp_attr_of(p, s, ML_A_SYM_NAME, hl_ml_string_of(p->tree, name));
  mp_attr_of(p, s, ML_A_MESH, value);
  return mp_opt_dict(p, s);
}

static bool shardings(MpParser *p, MpState *s, MlName name, MlAttrDef def) {
  const HlMlAttr *value;
  if (!ml_lex_need_word(&p->in, ml_name_text[name]) || !ml_lex_need(&p->in, '=') ||
      !(value = mp_sdy_body(p, def)))
    return false;
  mp_attr_of(p, s, name, value);
  return true;
}

// (operands) in_shardings=[..] out_shardings=[..] manual_axes={..} (%a: T, ..) { .. } {..} : (types) -> types
static bool manual(MpParser *p, MpState *s) {
  Signature f = {0};
  if (!ml_lex_need(&p->in, '(') || !mp_use_list(p) || !ml_lex_need(&p->in, ')') ||
      !shardings(p, s, ML_A_IN_SHARDINGS, ML_D_PER_VALUE) ||
      !shardings(p, s, ML_A_OUT_SHARDINGS, ML_D_PER_VALUE) ||
      !shardings(p, s, ML_A_MANUAL_AXES, ML_D_MANUAL_AXES))
    return false;
  if (!params(p, &f))
    return false;
  return mp_region(p, s, mp_add_region(p, s), f.n_args, f.arg) && mp_opt_dict(p, s) &&
         ml_lex_need(&p->in, ':') && mp_fn_type(p, s);
}

static bool opt_shardings(MpParser *p, MpState *s, MlName name) {
  return strncmp(p->in.at, ml_name_text[name], strlen(ml_name_text[name])) != 0 ||
         shardings(p, s, name, ML_D_PER_VALUE);
}

// <"name">(operands) in_shardings=[..] out_shardings=[..] (%a: T, ..) { .. } {..} : (types) -> types
static bool named(MpParser *p, MpState *s) {
  Signature f = {0};
  const HlMlAttr *name;
  if (!ml_lex_need(&p->in, '<') || !(name = mp_string(p)) || !ml_lex_need(&p->in, '>') ||
      !ml_lex_need(&p->in, '(') || !mp_use_list(p) || !ml_lex_need(&p->in, ')') ||
      !opt_shardings(p, s, ML_A_IN_SHARDINGS) || !opt_shardings(p, s, ML_A_OUT_SHARDINGS) ||
      !params(p, &f))
    return false;
  mp_attr_of(p, s, ML_A_NAME, name);
  return mp_region(p, s, mp_add_region(p, s), f.n_args, f.arg) && mp_opt_dict(p, s) &&
         ml_lex_need(&p->in, ':') && mp_fn_type(p, s);
}

bool mp_custom(MpParser *p, MpState *s, const char *name) {
  static const struct {
    const char *name;
    bool (*read)(MpParser *p, MpState *s);
  } customs[] = {{"module", module},    {"func", func},      {"call", call},
                 {"return", return_op}, {"cast", cast},      {"constant", constant},
                 {"reduce", reduce},    {"while", while_op}, {"barrier", barrier},
                 {"top_k", top_k},      {"scan", scan},      {"mesh", mesh},
                 {"manual", manual},    {"named", named},    {"arith_constant", constant}};
  for (int k = 0; k < HL_COUNT_OF(customs); k++)
    if (strcmp(name, customs[k].name) == 0)
      return customs[k].read(p, s);
  return mp_error(p, s->at, "'%s' has no pretty form", s->name->text);
}
