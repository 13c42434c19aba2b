// Reads MLIR text: pretty forms, as the last column of ops.def spells them (mlir/tree/dialect.h).
#include "mlir/text/parse.h"

#include <string.h>

// MHLO's lists of numbers are dense tensors, also where a form spells them [0, 1].
static const HlMlAttr *as_in_mhlo(MpParser *p, const HlMlAttr *list) {
  if (list->kind != HL_ML_A_DENSE_ARRAY || (list->type->width != 64 && list->type->width != 1))
    return list;
  const HlMlType *type = hl_ml_tensor_type(p->tree, 1, &list->n_elements, list->type, NULL);
  return hl_ml_dense(p->tree, type, list->data, list->n_elements, true);
}

void mp_attr_of(MpParser *p, MpState *s, MlName name, const HlMlAttr *value) {
  if (s->dialect == HL_ML_MHLO)
    value = as_in_mhlo(p, value);
  mp_push_named(p, ml_name(p->tree, name), value, s->row_number == ML_NONE);
}

// --- Operands ----------------------------------------------------------------------------------------------

// How many names a list of the row has; -1: some take any number.
static int count_names(const char *names) {
  int n = *names != 0;
  for (; *names; names++) {
    if (*names == '*')
      return -1;
    n += *names == ' ';
  }
  return n;
}

static bool operands(MpParser *p, MpState *s) {
  if (!mp_use_list(p))
    return false;
  const int wanted = count_names(s->row->operands), n = p->uses.n - s->uses;
  if (wanted >= 0 && n != wanted)
    return mp_error(p, n ? p->uses.at[p->uses.n - 1].at : p->in.at,
                    "'%s' has %d operands, but found %d", s->name->text, wanted, n);
  return true;
}

// --- Types -------------------------------------------------------------------------------------------------

static void push_types(MpParser *p, const HlMlType *type, int n) {
  for (int k = 0; k < n; k++)
    mp_push(p, &p->types, type);
}

// `T` for all operands and the result.
static bool all_of_type(MpParser *p, MpState *s, const HlMlType *type) {
  s->n_operands = p->uses.n - s->uses;
  s->n_results = 1;
  push_types(p, type, s->n_operands + 1);
  return true;
}

static bool checked_fn(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  if (!mp_fn_type(p, s))
    return false;
  const int n_uses = p->uses.n - s->uses;
  if (n_uses != s->n_operands)
    return mp_error(p, at, "%d operands present, but expected %d", n_uses, s->n_operands);
  const int wanted = count_names(s->row->results);
  if (wanted >= 0 && s->n_results != wanted)
    return mp_error(p, at, "expected %d results, but the type has %d", wanted, s->n_results);
  return true;
}

static bool same_type(MpParser *p, MpState *s) {
  if (*p->in.at == '(')
    return checked_fn(p, s);
  const HlMlType *type = mp_type(p);
  if (!type)
    return false;
  if (type->kind == HL_ML_FUNCTION) {  // an alias
    s->n_operands = type->n_inputs;
    s->n_results = type->n - type->n_inputs;
    for (int k = 0; k < type->n; k++)
      mp_push(p, &p->types, type->element[k]);
    return true;
  }
  return all_of_type(p, s, type);
}

static const HlMlType *real_of(MpParser *p, const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  if (element == type || element->kind != HL_ML_COMPLEX)
    return NULL;
  HlMlType real = *type;
  real.element = &element->element[0];
  return hl_ml_type_intern(p->tree, &real);
}

static bool complex_types(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  if (*at == '(')
    return checked_fn(p, s);
  const HlMlType *type = mp_type(p), *real = type ? real_of(p, type) : NULL;
  if (!real)
    return type && mp_error(p, at, "expected tensor with complex element type, but found '%s'",
                            hl_ml_type_text(p->cx, type));
  s->n_operands = p->uses.n - s->uses;
  s->n_results = 1;
  push_types(p, real, s->n_operands);
  push_types(p, type, 1);
  return true;
}

static bool select_types(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  if (*at == '(')
    return checked_fn(p, s);
  const int base = p->types.n;
  if (!mp_type_list(p))
    return false;
  if (p->types.n - base != 2)
    return mp_error(p, at, "expected functional type or list of two types");
  push_types(p, p->types.at[base + 1], 2);
  s->n_operands = 3;
  s->n_results = 1;
  return true;
}

static bool tuple_types(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  if (*at == '(')
    return checked_fn(p, s);
  const HlMlType *type = mp_type(p);
  if (!type)
    return false;
  if (type->kind != HL_ML_TUPLE)
    return mp_error(p, at, "expected tuple type, but found '%s'", hl_ml_type_text(p->cx, type));
  for (int k = 0; k < type->n; k++)
    mp_push(p, &p->types, type->element[k]);
  s->n_operands = type->n;
  s->n_results = 1;
  push_types(p, type, 1);
  return true;
}

// `V, W` of the results; operands, where there are any, have the same.
static bool result_types(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  const int base = p->types.n;
  if (!mp_type_list(p))
    return false;
  const int n = p->types.n - base, wanted = count_names(s->row->results);
  if (wanted >= 0 && n != wanted)
    return mp_error(p, at, "expected %d result types, but found %d", wanted, n);
  s->n_operands = p->uses.n - s->uses;
  s->n_results = n;
  if (s->n_operands == 0)
    return true;
  p->types.n = base;
  const HlMlType *first = p->types.at[base];
  for (int k = 1; k < n; k++)
    if (p->types.at[base + k] != first)
      return mp_error(p, at, "expected results of one type");
  push_types(p, first, s->n_operands + n);
  return true;
}

// `T, U` of the operands; results, where there are any, have the same.
static bool operand_types(MpParser *p, MpState *s) {
  const int base = p->types.n;
  if (!mp_type_list(p))
    return false;
  s->n_operands = p->types.n - base;
  s->n_results = *s->row->results ? s->n_operands : 0;
  for (int k = 0; k < s->n_results; k++)
    mp_push(p, &p->types, p->types.at[base + k]);
  return true;
}

// `T` of the first operand, which the others and the result have too.
static bool lhs_type(MpParser *p, MpState *s) {
  const HlMlType *type = mp_type(p);
  s->n_operands = p->uses.n - s->uses;
  s->n_results = *s->row->results != 0;
  push_types(p, type, s->n_operands + s->n_results);
  return type != NULL;
}

// A form without types: they are that of its attribute of elements.
static bool value_type(MpParser *p, MpState *s) {
  const HlMlType *type = NULL;
  for (int k = s->nameds; k < p->nameds.n; k++)
    if (p->nameds.at[k].value->kind == HL_ML_A_DENSE ||
        p->nameds.at[k].value->kind == HL_ML_A_RESOURCE)
      type = p->nameds.at[k].value->type;
  if (!type)
    return ml_lex_expected(&p->in, "':'");
  s->n_operands = p->uses.n - s->uses;
  push_types(p, type, s->n_operands);
  return true;
}

// `T, U -> V` and `T to U`.
static bool arrow_types(MpParser *p, MpState *s, bool is_to) {
  const int base = p->types.n;
  if (!mp_type_list(p) || !(is_to ? ml_lex_need_word(&p->in, "to") : ml_lex_need_arrow(&p->in)))
    return false;
  s->n_operands = p->types.n - base;
  const bool is_bracketed = *p->in.at == '(' && !is_to;
  if (is_bracketed)
    ml_lex_move(&p->in, p->in.at + 1);
  if (!mp_type_list(p) || (is_bracketed && !ml_lex_need(&p->in, ')')))
    return false;
  s->n_results = p->types.n - base - s->n_operands;
  return true;
}

// The word after ':' of a form.
static bool types(MpParser *p, MpState *s, const char *word) {
  if (!ml_lex_need(&p->in, ':'))
    return false;
  switch (*word) {
  case 'l': return lhs_type(p, s);
  case 's': return word[1] == 'a' ? same_type(p, s) : select_types(p, s);
  case 'f': return checked_fn(p, s);
  case 'r': return result_types(p, s);
  case 'o': return operand_types(p, s);
  case 'a': return arrow_types(p, s, false);
  case 'c': return complex_types(p, s);
  case 'v': return same_type(p, s);
  default: return word[1] == 'o' ? arrow_types(p, s, true) : tuple_types(p, s);
  }
}

// --- Forms -------------------------------------------------------------------------------------------------

static const char *name_end(const char *s) {
  while ((*s >= 'a' && *s <= 'z') || *s == '_' || (*s >= '0' && *s <= '9'))
    s++;
  return s;
}

static bool attribute(MpParser *p, MpState *s, HlStr name, bool in_full) {
  const MlAttrRow *row = ml_find_attr_text(s->row, name);
  const HlMlAttr *value = in_full ? mp_attr(p, NULL) : mp_short(p, row->kind, row->of, s->dialect);
  if (!value)
    return false;
  mp_attr_of(p, s, row->name, value);
  return true;
}

static bool is_enum_word(const MpParser *p, const MpState *s, const char *name) {
  const MlAttrRow *row = ml_find_attr_text(s->row, (HlStr){name, (size_t)(name_end(name) - name)});
  const MlEnum *words = row && row->kind == ML_K_ENUM ? ml_enum_of(row->of) : NULL;
  const char *end = name_end(p->in.at);
  int64_t value;
  return words && ml_enum_value(words, (HlStr){p->in.at, (size_t)(end - p->in.at)}, &value);
}

// Whether the part from `form` on, up to its first attribute (or the word of an enum it begins with), stands at the
// cursor.
static bool stands_here(const MpParser *p, const MpState *s, const char *form) {
  MlLex in = p->in;
  if (*form == '@')
    return is_enum_word(p, s, form + 1);
  for (; *form != '@' && *form != '#' && *form != '}'; form++) {
    if (*form == ' ')
      continue;
    if (ml_lex_is(*form, ML_START)) {
      const char *end = name_end(form);
      const size_t n = (size_t)(end - form);
      if (strncmp(in.at, form, n) != 0 || ml_lex_is(in.at[n], ML_WORD))
        return false;
      ml_lex_move(&in, in.at + n);
      form = end - 1;
    } else if (!ml_lex_eat(&in, *form)) {
      return false;
    }
  }
  return true;
}

static bool word(MpParser *p, const char *form, size_t n) {
  if (strncmp(p->in.at, form, n) != 0 || ml_lex_is(p->in.at[n], ML_WORD))
    return ml_lex_expected(&p->in, "'%.*s'", (int)n, form);
  ml_lex_move(&p->in, p->in.at + n);
  return true;
}

static bool items(MpParser *p, MpState *s, const char **at, char end);

// "?{..}", where *at stands on the question mark.
static bool optional(MpParser *p, MpState *s, const char **at) {
  const bool is_there = stands_here(p, s, *at + 2);
  const char *close = strchr(*at, '}');
  *at += 2;
  if (is_there && !items(p, s, at, '}'))
    return false;
  *at = close + 1;
  return true;
}

// One item of a form; *at moves past it.
static bool item(MpParser *p, MpState *s, const char **at) {
  const char *form = *at, *begin = form + 1 + (form[0] == '@' && form[1] == '+'),
             *end = name_end(begin);
  HlStr name = {begin, (size_t)(end - begin)};
  *at = end;
  switch (*form) {
  case '@': return attribute(p, s, name, form[1] == '+');
  case '#': return mp_piece(p, s, name);
  case ':': return types(p, s, name.at);
  case '?': *at = form; return optional(p, s, at);
  case '$': *at = form + 2; return operands(p, s);
  case '%': *at = form + 1; return mp_opt_dict(p, s);
  case ' ': *at = form + 1; return true;
  default: break;
  }
  if (ml_lex_is(*form, ML_START))
    return word(p, form, (size_t)(end - form));
  *at = form + 1;
  return ml_lex_need(&p->in, *form);
}

static bool items(MpParser *p, MpState *s, const char **at, char end) {
  while (**at != end)
    if (!item(p, s, at))
      return false;
  return true;
}

bool mp_form(MpParser *p, MpState *s, const char *form) {
  if (!items(p, s, &form, 0))
    return false;
  return p->types.n > s->types || p->uses.n == s->uses || value_type(p, s);
}
