// Reads MLIR text: the enum and struct attributes of attrs.def, in all the spellings they have had.
//
// #stablehlo<precision HIGH>, #mhlo<"precision HIGH">, "HIGH", HIGH           are one attribute,
// #stablehlo.dot<lhs_batching_dimensions = [0]>, {lhs_batching_dimensions = dense<0> : tensor<1xi64>}   another.
#include "mlir/text/parse.h"

#include <inttypes.h>
#include <string.h>

static const HlMlAttr *make_struct(MpParser *p, const char *name, int from) {
  const int n = p->nameds.n - from;
  p->nameds.n = from;
  return hl_ml_struct(p->tree, name, n, p->nameds.at + from);
}

const HlMlAttr *mp_make_struct(MpParser *p, MlAttrDef def, HlMlDialect dialect, int from) {
  char buffer[ML_MAX_DEF_TEXT];
  return make_struct(p, ml_spelt(def, dialect, buffer), from);
}

// --- Enums -------------------------------------------------------------------------------------------------

const HlMlAttr *mp_enum_word(MpParser *p, const MlEnum *words, const char *name) {
  const char *at = p->in.at;
  HlStr word;
  if (*at != '"')
    word = ml_lex_word(&p->in);
  else if (!ml_lex_string(&p->in, &word))
    return NULL;
  int64_t value;
  if (!word.n || !ml_enum_value(words, word, &value)) {
    p->in.at = at;
    ml_lex_expected(&p->in, "a word of %s", name);
    return NULL;
  }
  return hl_ml_enum(p->tree, name, value);
}

static const HlMlAttr *struct_body(MpParser *p, const MlStruct *row, HlStr name);
static const HlMlAttr *own_body(MpParser *p, const MlStruct *row, HlStr name);

// --- Fields ------------------------------------------------------------------------------------------------

static bool size_or_question(MpParser *p) {
  int64_t value = HL_UNBOUNDED;
  if (!ml_lex_eat(&p->in, '?') && !ml_lex_int(&p->in, &value))
    return false;
  mp_push_int(p, value);
  return true;
}

// Integers up to a closing bracket that is not eaten.
static bool int_items(MpParser *p, char close) {
  if (*p->in.at == close)
    return true;
  do {
    if (!size_or_question(p))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  return true;
}

bool mp_int_list(MpParser *p, int *n) {
  const int base = p->ints.n;
  if (!ml_lex_need(&p->in, '[') || !int_items(p, ']') || !ml_lex_need(&p->in, ']'))
    return false;
  *n = p->ints.n - base;
  return true;
}

static const HlMlAttr *int_list_attr(MpParser *p) {
  int n;
  if (*p->in.at != '[')
    return mp_attr(p, NULL);
  if (!mp_int_list(p, &n))
    return NULL;
  p->ints.n -= n;
  return hl_ml_dense_i64s(p->tree, (HlI64s){p->ints.at + p->ints.n, n});
}

static const HlMlAttr *bool_list_attr(MpParser *p) {
  const int base = p->ints.n;
  if (*p->in.at != '[')
    return mp_attr(p, NULL);
  ml_lex_move(&p->in, p->in.at + 1);
  while (!ml_lex_eat(&p->in, ']')) {
    if (p->ints.n > base && !ml_lex_need(&p->in, ','))
      return NULL;
    const bool value = ml_lex_at_word(&p->in, "true");
    int64_t number;
    if (value || ml_lex_at_word(&p->in, "false"))
      ml_lex_word(&p->in);
    else if (!ml_lex_int(&p->in, &number))
      return NULL;
    else {
      mp_push_int(p, number != 0);
      continue;
    }
    mp_push_int(p, value);
  }
  const int n = p->ints.n - base;
  p->ints.n = base;
  if (n == 0)
    return hl_ml_dense_array(p->tree, hl_ml_int_type(p->tree, 1, HL_ML_SIGNLESS), NULL, 0, true);
  return hl_ml_dense_bools(p->tree, (HlI64s){p->ints.at + base, n});
}

static const HlMlAttr *bool_word(MpParser *p) {
  const bool value = ml_lex_at_word(&p->in, "true");
  if (!value && !ml_lex_at_word(&p->in, "false")) {
    ml_lex_expected(&p->in, "'true' or 'false'");
    return NULL;
  }
  ml_lex_word(&p->in);
  return hl_ml_bool(p->tree, value);
}

const HlMlAttr *mp_string(MpParser *p) {
  HlStr text;
  return ml_lex_string(&p->in, &text) ? hl_ml_string(p->tree, text.at, text.n) : NULL;
}

static const HlMlAttr *type_word(MpParser *p) {
  const HlMlType *type = mp_type(p);
  return type ? hl_ml_type_attr(p->tree, type) : NULL;
}

static const HlMlAttr *struct_or_enum(MpParser *p, MlAttrDef def, HlMlDialect dialect) {
  if (*p->in.at == '#')
    return mp_attr(p, NULL);
  char buffer[ML_MAX_DEF_TEXT];
  const char *name = ml_spelt(def, dialect, buffer);
  const MlEnum *words = ml_enum_of(def);
  const MlStruct *row = ml_struct_of(def);
  return words ? mp_enum_word(p, words, name)
         : row ? struct_body(p, row, hl_str(name))
               : mp_attr(p, NULL);
}

const HlMlAttr *mp_short(MpParser *p, MlKind kind, MlAttrDef of, HlMlDialect dialect) {
  switch (kind) {
  case ML_K_I64: return mp_number(p, mp_plain(p, MP_I64));
  case ML_K_I32: return mp_number(p, mp_plain(p, MP_I32));
  case ML_K_F32: return mp_number(p, mp_plain(p, MP_F32));
  case ML_K_F64: return mp_number(p, mp_plain(p, MP_F64));
  case ML_K_BOOL: return bool_word(p);
  case ML_K_UNIT: return hl_ml_unit(p->tree);
  case ML_K_STRING: return mp_string(p);
  case ML_K_SYMBOL: return mp_symbol(p);
  case ML_K_TYPE: return type_word(p);
  case ML_K_I64S: return int_list_attr(p);
  case ML_K_BOOLS: return bool_list_attr(p);
  case ML_K_ENUM:
  case ML_K_STRUCT: return struct_or_enum(p, of, dialect);
  default: return mp_attr(p, NULL);
  }
}

// --- Structs -----------------------------------------------------------------------------------------------

// What the elements of a list field, or a struct field, are when they are written without their name.
static MlAttrDef implied_def(MlAttrDef of, MlName field) {
  if (of == ML_D_MESH_AXES)
    return ML_D_HLO_AXIS_REF;
  if (of == ML_D_HLO_MESH)
    return ML_D_HLO_MESH_AXIS;
  if (field == ML_A_SUB_AXIS_INFO)
    return ML_D_HLO_SUB_AXIS;
  return field == ML_A_MODE ? ML_D_ACCURACY_MODE : ML_D_NONE;
}

static const HlMlAttr *implied_list(MpParser *p, MlAttrDef item) {
  const int base = p->ptrs.n;
  if (!ml_lex_need(&p->in, '['))
    return NULL;
  while (!ml_lex_eat(&p->in, ']')) {
    if (p->ptrs.n > base && !ml_lex_need(&p->in, ','))
      return NULL;
    const HlMlAttr *value =
        *p->in.at == '<' ? mp_short(p, ML_K_STRUCT, item, HL_ML_STABLEHLO) : mp_attr(p, NULL);
    if (!value)
      return NULL;
    mp_push(p, &p->ptrs, value);
  }
  return mp_array(p, base);
}

static const HlMlAttr *field_value(MpParser *p, const MlStruct *row, const MlField *field) {
  if (field->kind == ML_K_ARRAY)
    return *p->in.at == '[' ? implied_list(p, implied_def(row->def, field->name))
                            : mp_attr(p, NULL);
  return mp_short(p, field->kind, implied_def(row->def, field->name), HL_ML_STABLEHLO);
}

static const MlField *find_field(const MlStruct *row, HlStr name) {
  for (const MlField *field = row->field; field->name; field++)
    if (hl_str_is(name, ml_name_text[field->name]))
      return field;
  return NULL;
}

// "a = 1, b = [2]>" of a struct's fields, in any order.
static const HlMlAttr *fields(MpParser *p, const MlStruct *row, HlStr name) {
  const int base = p->nameds.n;
  while (!ml_lex_eat(&p->in, '>')) {
    const char *at = p->in.at;
    HlStr word = ml_lex_word(&p->in);
    const MlField *field = find_field(row, word);
    if (!field) {
      mp_error(p, at, "expected a field of %s, but found '%.*s'", row->name,
               (int)(word.n < 60 ? word.n : 60), word.at);
      return NULL;
    }
    const HlSym *sym = mp_sym(p, word.at, word.n);
    for (int k = base; k < p->nameds.n; k++)
      if (p->nameds.at[k].name == sym) {
        mp_error(p, at, "duplicated '%s' entry", sym->text);
        return NULL;
      }
    const HlMlAttr *value = ml_lex_need(&p->in, '=') ? field_value(p, row, field) : NULL;
    if (!value)
      return NULL;
    mp_push_named(p, sym, value, false);
    if (!ml_lex_eat(&p->in, ',') && *p->in.at != '>') {
      ml_lex_expected(&p->in, "'>'");
      return NULL;
    }
  }
  return make_struct(p, mp_sym(p, name.at, name.n)->text, base);
}

// "(2)4": the part of an axis.
static const HlMlAttr *sub_axis(MpParser *p, HlStr name) {
  const int base = p->nameds.n;
  int64_t before, size;
  if (!ml_lex_need(&p->in, '(') || !ml_lex_int(&p->in, &before) || !ml_lex_need(&p->in, ')') ||
      !ml_lex_int(&p->in, &size))
    return NULL;
  mp_push_named(p, ml_name(p->tree, ML_A_PRE_SIZE), hl_ml_i64(p->tree, before), false);
  mp_push_named(p, ml_name(p->tree, ML_A_SIZE), hl_ml_i64(p->tree, size), false);
  return make_struct(p, mp_sym(p, name.at, name.n)->text, base);
}

static const HlMlAttr *struct_body(MpParser *p, const MlStruct *row, HlStr name) {
  if (row->has_own_syntax)
    return own_body(p, row, name);
  if (row->def == ML_D_HLO_SUB_AXIS && *p->in.at == '(')
    return sub_axis(p, name);
  return ml_lex_need(&p->in, '<') ? fields(p, row, name) : NULL;
}

// "3, ?>" of #stablehlo.bounds<3, ?>.
static const HlMlAttr *bounds(MpParser *p, HlMlDialect dialect) {
  const int from = p->ints.n, base = p->nameds.n;
  if (!ml_lex_need(&p->in, '<') || !int_items(p, '>') || !ml_lex_need(&p->in, '>'))
    return NULL;
  HlI64s list = {p->ints.at + from, p->ints.n - from};
  p->ints.n = from;
  mp_push_named(p, ml_name(p->tree, ML_A_BOUNDS), hl_ml_dense_i64s(p->tree, list), false);
  return mp_make_struct(p, ML_D_EXTENSIONS, dialect, base);
}

static const HlMlAttr *own_body(MpParser *p, const MlStruct *row, HlStr name) {
  if (strncmp(row->name, "sdy.", 4) == 0)
    return mp_sdy_body(p, row->def);
  if (!ml_lex_need(&p->in, '<'))
    return NULL;
  if (row->def != ML_D_CONV)
    return fields(p, row, name);
  if (ml_lex_eat_word(&p->in, "raw"))
    return fields(p, row, name);
  const HlMlAttr *conv = mp_conv_body(p, name);
  return conv && ml_lex_need(&p->in, '>') ? conv : NULL;
}

// --- Dimensions of a convolution ---------------------------------------------------------------------------------

typedef struct ConvPart {
  int64_t first, second;  // where its letters stand
  int64_t *spatial;
  int n;
} ConvPart;

enum { MAX_CONV_RANK = 1 << 16 };

enum { CONV_FIRST = -1, CONV_SECOND = -2, CONV_UNKNOWN = -3 };  // what is no spatial dimension

static bool conv_dim(MpParser *p, const char letters[2], int64_t *out) {
  const char *at = p->in.at;
  if (ml_lex_is(*at, ML_DIGIT))
    return ml_lex_int(&p->in, out);
  if (*at == '?') {
    *out = CONV_UNKNOWN;
    ml_lex_move(&p->in, at + 1);
    return true;
  }
  HlStr word = ml_lex_word(&p->in);
  if (word.n != 1 || (*word.at != letters[0] && *word.at != letters[1]))
    return mp_error(p, at, "unexpected dimension, expecting %c, %c or a number", letters[0],
                    letters[1]);
  *out = *word.at == letters[0] ? CONV_FIRST : CONV_SECOND;
  return true;
}

// The dimensions are appended to p->ints.
static bool conv_dims(MpParser *p, const char letters[2]) {
  const int base = p->ints.n;
  do {
    const char *at = p->in.at;
    int64_t which;
    if (!conv_dim(p, letters, &which))
      return false;
    for (int k = base; k < p->ints.n; k++)
      if (which != CONV_UNKNOWN && p->ints.at[k] == which)
        return mp_error(p, at, "duplicate dimension");
    if (p->ints.n - base >= MAX_CONV_RANK / 64)
      return mp_error(p, at, "too many dimensions");
    mp_push_int(p, which);
  } while (ml_lex_eat(&p->in, ','));
  return true;
}

// "[b, 0, 1, f]": where the two letters and the spatial dimensions stand.
static bool conv_part(MpParser *p, const char letters[2], ConvPart *out) {
  const char *begin = p->in.at;
  const int base = p->ints.n;
  if (!ml_lex_need(&p->in, '[') || !conv_dims(p, letters))
    return false;
  const int n = p->ints.n - base;
  *out = (ConvPart){-1, -1, HL_ARRAY(p->arena, int64_t, n), 0};
  for (int k = 0; k < n; k++) {
    const int64_t which = p->ints.at[base + k];
    if (which == CONV_FIRST)
      out->first = k;
    else if (which == CONV_SECOND)
      out->second = k;
    else if (which >= 0 && which < n)
      out->spatial[which] = k + 1;
    if (which >= 0 && which >= out->n)
      out->n = which < n ? (int)which + 1 : n;
  }
  p->ints.n = base;
  if (out->first < 0 || out->second < 0)
    return mp_error(p, begin, "expected dimensions %c and %c", letters[0], letters[1]);
  for (int k = 0; k < out->n; k++)
    if (--out->spatial[k] < 0)
      return mp_error(p, begin, "expected spatial dimension %d, which is not specified", k);
  return ml_lex_need(&p->in, ']');
}

static void push_conv_part(MpParser *p, const ConvPart *part, MlName first, MlName second,
                           MlName spatial) {
  mp_push_named(p, ml_name(p->tree, first), hl_ml_i64(p->tree, part->first), false);
  mp_push_named(p, ml_name(p->tree, second), hl_ml_i64(p->tree, part->second), false);
  mp_push_named(p, ml_name(p->tree, spatial),
                hl_ml_dense_i64s(p->tree, (HlI64s){part->spatial, part->n}), false);
}

const HlMlAttr *mp_conv_body(MpParser *p, HlStr name) {
  const int base = p->nameds.n;
  ConvPart input, kernel, output;
  if (!conv_part(p, "bf", &input))
    return NULL;
  if (*p->in.at != 'x') {
    ml_lex_expected(&p->in, "'x'");
    return NULL;
  }
  ml_lex_move(&p->in, p->in.at + 1);
  if (!conv_part(p, "io", &kernel) || !ml_lex_need_arrow(&p->in) || !conv_part(p, "bf", &output))
    return NULL;
  push_conv_part(p, &input, ML_A_INPUT_BATCH_DIMENSION, ML_A_INPUT_FEATURE_DIMENSION,
                 ML_A_INPUT_SPATIAL_DIMENSIONS);
  push_conv_part(p, &kernel, ML_A_KERNEL_INPUT_FEATURE_DIMENSION,
                 ML_A_KERNEL_OUTPUT_FEATURE_DIMENSION, ML_A_KERNEL_SPATIAL_DIMENSIONS);
  push_conv_part(p, &output, ML_A_OUTPUT_BATCH_DIMENSION, ML_A_OUTPUT_FEATURE_DIMENSION,
                 ML_A_OUTPUT_SPATIAL_DIMENSIONS);
  return make_struct(p, mp_sym(p, name.at, name.n)->text, base);
}

// --- #dialect.name<..>, #dialect<name ..> ------------------------------------------------------------------------

// What a name with its dialect introduces. NULL without report: nothing that is known.
static const HlMlAttr *known_attr(MpParser *p, HlStr name, HlMlDialect dialect, bool *is_known) {
  *is_known = true;
  const char *dot = memchr(name.at, '.', name.n);
  if (dot && hl_str_is((HlStr){dot, (size_t)(name.at + name.n - dot)}, ".bounds") &&
      dialect != HL_ML_SDY)
    return bounds(p, dialect);
  const MlStruct *row = ml_find_struct(name);
  if (row)
    return struct_body(p, row, name);
  const MlEnum *words = ml_find_enum(name);
  *is_known = words != NULL;
  if (!words)
    return NULL;
  const bool is_bracketed = ml_lex_eat(&p->in, '<');
  const HlMlAttr *attr = mp_enum_word(p, words, mp_sym(p, name.at, name.n)->text);
  return attr && (!is_bracketed || ml_lex_need(&p->in, '>')) ? attr : NULL;
}

static const HlMlAttr *unknown_attr(MpParser *p, const char *begin, HlStr name,
                                    HlMlDialect dialect) {
  if (dialect == HL_ML_STABLEHLO) {
    mp_error(p, begin, "unknown StableHLO attribute '%.*s'", (int)(name.n < 60 ? name.n : 60),
             name.at);
    return NULL;
  }
  const char *end = ml_lex_suffix_end(begin + 1);
  if (*end == '<') {
    end = ml_lex_balanced(end + 1, false);
    if (!end || *end != '>') {
      mp_error(p, begin, "unbalanced '<' in an attribute");
      return NULL;
    }
    end++;
  }
  ml_lex_move(&p->in, end);
  return hl_ml_attr_of(
      p->tree, &(HlMlAttr){.kind = HL_ML_A_OTHER, .sym = mp_sym(p, begin, (size_t)(end - begin))});
}

// "#mhlo<precision HIGH>" and "#mhlo<"precision HIGH">": the name stands within the brackets.
static const HlMlAttr *inner_attr(MpParser *p, const char *begin, HlStr prefix,
                                  HlMlDialect dialect) {
  ml_lex_move(&p->in, p->in.at + 1);
  const bool is_quoted = *p->in.at == '"';
  if (is_quoted)
    ml_lex_move(&p->in, p->in.at + 1);
  HlStr word = ml_lex_word(&p->in);
  char buffer[ML_MAX_DEF_TEXT];
  if (word.n == 0 || prefix.n + word.n + 2 > sizeof buffer)
    return unknown_attr(p, begin, word, dialect);
  memcpy(buffer, prefix.at, prefix.n);
  buffer[prefix.n] = '.';
  memcpy(buffer + prefix.n + 1, word.at, word.n);
  HlStr name = {buffer, prefix.n + 1 + word.n};
  bool is_known;
  const HlMlAttr *attr = known_attr(p, name, dialect, &is_known);
  if (!is_known)
    return unknown_attr(p, begin, word, dialect);
  if (!attr || (is_quoted && !ml_lex_need(&p->in, '"')) || !ml_lex_need(&p->in, '>'))
    return NULL;
  return attr;
}

const HlMlAttr *mp_dialect_attr(MpParser *p) {
  const char *begin = p->in.at, *end = ml_lex_suffix_end(begin + 1);
  HlStr name = {begin + 1, (size_t)(end - begin - 1)};
  const HlMlDialect dialect = ml_find_dialect(name);
  ml_lex_move(&p->in, end);
  if (!memchr(name.at, '.', name.n))
    return inner_attr(p, begin, name, dialect);
  bool is_known;
  const HlMlAttr *attr = known_attr(p, name, dialect, &is_known);
  return is_known ? attr : unknown_attr(p, begin, name, dialect);
}

// --- One form whatever the spelling ------------------------------------------------------------------------------

static const HlMlAttr *enum_of_string(MpParser *p, const char *at, MlAttrDef of,
                                      HlMlDialect dialect, const HlMlAttr *value) {
  const MlEnum *words = ml_enum_of(of);
  int64_t number;
  if (!words)
    return value;
  if (!ml_enum_value(words, (HlStr){value->sym->text, value->sym->n}, &number)) {
    mp_error(p, at, "'%s' is no word of %s", value->sym->text, ml_def_text[of]);
    return NULL;
  }
  char buffer[ML_MAX_DEF_TEXT];
  return hl_ml_enum(p->tree, ml_spelt(of, dialect, buffer), number);
}

static const HlMlAttr *enum_of_number(MpParser *p, const char *at, MlAttrDef of,
                                      const HlMlAttr *value) {
  const char *name = ml_def_text[of];
  if (ml_enum_word(ml_enum_of(of), value->i))
    return hl_ml_enum(p->tree, name, value->i);
  mp_error(p, at, "%" PRId64 " is no number of %s", value->i, name);
  return NULL;
}

static bool is_int_list(const HlMlAttr *value) {
  if (value->kind == HL_ML_A_ARRAY) {
    for (int k = 0; k < value->n; k++)
      if (value->list[k]->kind != HL_ML_A_INT)
        return false;
    return true;
  }
  if (value->kind != HL_ML_A_DENSE && value->kind != HL_ML_A_DENSE_ARRAY)
    return false;
  const uint8_t kind = hl_ml_element(value->type)->kind;
  return kind == HL_ML_INT || kind == HL_ML_INDEX;
}

static const HlMlAttr *struct_of_dict(MpParser *p, const char *at, MlAttrDef of,
                                      HlMlDialect dialect, const HlMlAttr *value) {
  const MlStruct *row = ml_struct_of(of);
  if (!row || strncmp(row->name, "sdy.", 4) == 0)
    return value;
  for (int k = 0; k < value->n; k++) {
    const HlSym *name = value->dict[k].name;
    const MlField *field = find_field(row, (HlStr){name->text, name->n});
    if (!field) {
      mp_error(p, at, "%s has no field '%s'", row->name, name->text);
      return NULL;
    }
    const HlMlAttr *inner = value->dict[k].value;
    if ((field->kind == ML_K_I64S && !is_int_list(inner)) ||
        (field->kind == ML_K_I64 && inner->kind != HL_ML_A_INT)) {
      mp_error(p, at, "field '%s' of %s has a value of the wrong kind", name->text, row->name);
      return NULL;
    }
  }
  char buffer[ML_MAX_DEF_TEXT];
  return hl_ml_struct(p->tree, ml_spelt(of, dialect, buffer), value->n, value->dict);
}

static const HlMlAttr *normal_item(MpParser *p, const char *at, MlAttrDef of, HlMlDialect dialect,
                                   const HlMlAttr *value) {
  if (value->kind == HL_ML_A_STRING)
    return enum_of_string(p, at, of, dialect, value);
  return value->kind == HL_ML_A_DICT ? struct_of_dict(p, at, of, dialect, value) : value;
}

static const HlMlAttr *normal_list(MpParser *p, const char *at, const MlAttrRow *row,
                                   HlMlDialect dialect, const HlMlAttr *value) {
  const int base = p->ptrs.n;
  bool has_changed = false;
  for (int k = 0; k < value->n; k++) {
    const HlMlAttr *item = normal_item(p, at, row->of, dialect, value->list[k]);
    if (!item)
      return NULL;
    has_changed |= item != value->list[k];
    mp_push(p, &p->ptrs, item);
  }
  const HlMlAttr *list = mp_array(p, base);
  return has_changed ? list : value;
}

const HlMlAttr *mp_normal(MpParser *p, const char *at, const MlAttrRow *row, HlMlDialect dialect,
                          const HlMlAttr *value) {
  if (row->kind == ML_K_ENUM && value->kind == HL_ML_A_STRING)
    return enum_of_string(p, at, row->of, dialect, value);
  if (row->kind == ML_K_ENUM && value->kind == HL_ML_A_INT && ml_enum_is_number(row->of))
    return enum_of_number(p, at, row->of, value);
  if (row->kind == ML_K_STRUCT && value->kind == HL_ML_A_DICT)
    return struct_of_dict(p, at, row->of, dialect, value);
  if (row->kind == ML_K_ARRAY && row->of && value->kind == HL_ML_A_ARRAY)
    return normal_list(p, at, row, dialect, value);
  return value;
}
