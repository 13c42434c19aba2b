// Reads MLIR text: attributes (mlir.md 1.5).
#include "mlir/text/parse.h"

#include <string.h>

// --- Names -------------------------------------------------------------------------------------------------

const HlSym *mp_symbol_name(MpParser *p) {
  const char *at = p->in.at;
  if (*at == '@' && at[1] == '"') {
    HlStr name;
    p->in.at++;
    return ml_lex_string(&p->in, &name) ? mp_sym(p, name.at, name.n) : NULL;
  }
  if (*at != '@' || !ml_lex_is(at[1], ML_START)) {
    ml_lex_expected(&p->in, "a symbol name");
    return NULL;
  }
  const char *end = ml_lex_word_end(at + 1);
  ml_lex_move(&p->in, end);
  return mp_sym(p, at + 1, (size_t)(end - at - 1));
}

const HlMlAttr *mp_symbol(MpParser *p) {
  const HlSym *root = mp_symbol_name(p);
  if (!root || p->in.at[0] != ':' || p->in.at[1] != ':')
    return root ? hl_ml_symbol(p->tree, root) : NULL;
  const int base = p->ptrs.n;
  while (p->in.at[0] == ':' && p->in.at[1] == ':') {
    ml_lex_move(&p->in, p->in.at + 2);
    const HlSym *leaf = mp_symbol_name(p);
    if (!leaf)
      return NULL;
    mp_push(p, &p->ptrs, hl_ml_symbol(p->tree, leaf));
  }
  const int n = p->ptrs.n - base;
  p->ptrs.n = base;
  return hl_ml_attr_of(p->tree, &(HlMlAttr){.kind = HL_ML_A_SYMBOL,
                                            .sym = root,
                                            .n = n,
                                            .list = (const HlMlAttr *const *)p->ptrs.at + base});
}

// --- Numbers -----------------------------------------------------------------------------------------------

bool mp_int_bits(MpParser *p, const char *at, const HlMlType *type, const MlNumber *number,
                 uint64_t *bits) {
  const bool is_index = type->kind == HL_ML_INDEX,
             is_unsigned = type->sign == HL_ML_UNSIGNED && !is_index;
  const int width = is_index ? 64 : type->width;
  const uint64_t magnitude = number->magnitude;
  const uint64_t half = (uint64_t)1 << (width - 1 > 63 ? 63 : width - 1);
  bool fits = !number->too_big;
  if (width > 64)
    fits = false;
  else if (number->negative)
    fits &= magnitude <= half && (!is_unsigned || magnitude == 0);
  else if (type->sign == HL_ML_SIGNED || is_index)
    fits &= magnitude < half;
  else
    fits &= width == 64 || magnitude >> width == 0;
  if (!fits)
    return mp_error(p, at, "integer constant out of range for type '%s'",
                    hl_ml_type_text(p->cx, type));
  uint64_t value = number->negative ? 0 - magnitude : magnitude;
  if (!is_unsigned && width < 64 && width > 1 && (value & half))
    value |= ~(uint64_t)0 << (width - 1);
  *bits = value;
  return true;
}

static const HlMlAttr *float_number(MpParser *p, const char *at, const HlMlType *type,
                                    const MlNumber *number) {
  if (number->kind == ML_NUMBER_FLOAT)
    return hl_ml_float(p->tree, type, number->f);
  if (number->kind == ML_NUMBER_INT) {
    mp_error(p, at,
             "unexpected decimal integer literal for a floating point value: add a trailing dot");
    return NULL;
  }
  const int width = type->width;
  if (number->negative || number->too_big || (width < 64 && number->magnitude >> width)) {
    mp_error(p, at, "hexadecimal float constant out of range for type '%s'",
             hl_ml_type_text(p->cx, type));
    return NULL;
  }
  return hl_ml_float_bits(p->tree, type, number->magnitude);
}

const HlMlAttr *mp_number(MpParser *p, const HlMlType *expected) {
  const char *at = p->in.at;
  MlNumber number;
  const char *end = ml_lex_number(at, &number);
  if (end == at) {
    ml_lex_expected(&p->in, "a number");
    return NULL;
  }
  ml_lex_move(&p->in, end);
  const HlMlType *type = expected;
  if (!type && ml_lex_eat(&p->in, ':') && !(type = mp_type(p)))
    return NULL;
  if (!type)
    type = mp_plain(p, number.kind == ML_NUMBER_FLOAT ? MP_F64 : MP_I64);
  if (type->kind == HL_ML_FLOAT)
    return float_number(p, at, type, &number);
  if ((type->kind != HL_ML_INT && type->kind != HL_ML_INDEX) || number.kind == ML_NUMBER_FLOAT) {
    mp_error(p, at, "%s not valid for specified type '%s'",
             number.kind == ML_NUMBER_FLOAT ? "floating point value" : "integer literal",
             hl_ml_type_text(p->cx, type));
    return NULL;
  }
  uint64_t bits;
  if (!mp_int_bits(p, at, type, &number, &bits))
    return NULL;
  if (type->kind == HL_ML_INT && type->width == 1 && type->sign == HL_ML_SIGNLESS)
    return hl_ml_bool(p->tree, bits & 1);
  return hl_ml_int(p->tree, type, (int64_t)bits);
}

// --- Lists -------------------------------------------------------------------------------------------------

const HlMlAttr *mp_array(MpParser *p, int from) {
  const int n = p->ptrs.n - from;
  p->ptrs.n = from;
  return hl_ml_array(p->tree, n, (const HlMlAttr *const *)p->ptrs.at + from);
}

static const HlMlAttr *array_attr(MpParser *p) {
  const int base = p->ptrs.n;
  if (!ml_lex_need(&p->in, '['))
    return NULL;
  if (!ml_lex_eat(&p->in, ']')) {
    do {
      const HlMlAttr *item = mp_attr(p, NULL);
      if (!item)
        return NULL;
      mp_push(p, &p->ptrs, item);
    } while (ml_lex_eat(&p->in, ','));
    if (!ml_lex_need(&p->in, ']'))
      return NULL;
  }
  return mp_array(p, base);
}

static const HlSym *entry_name(MpParser *p) {
  HlStr name;
  if (*p->in.at == '"') {
    const char *at = p->in.at;
    if (!ml_lex_string(&p->in, &name))
      return NULL;
    if (name.n == 0) {
      mp_error(p, at, "expected valid attribute name");
      return NULL;
    }
    return mp_sym(p, name.at, name.n);
  }
  name = ml_lex_word(&p->in);
  if (name.n)
    return mp_sym(p, name.at, name.n);
  ml_lex_expected(&p->in, "attribute name");
  return NULL;
}

static bool dict_entries(MpParser *p, bool inherent) {
  if (!ml_lex_need(&p->in, '{'))
    return false;
  if (ml_lex_eat(&p->in, '}'))
    return true;
  do {
    const HlSym *name = entry_name(p);
    if (!name)
      return false;
    const HlMlAttr *value = ml_lex_eat(&p->in, '=') ? mp_attr(p, NULL) : hl_ml_unit(p->tree);
    if (!value)
      return false;
    mp_push_named(p, name, value, inherent);
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, '}');
}

bool mp_dict_entries(MpParser *p, MpState *s, bool inherent) {
  return dict_entries(p, inherent && s->row_number == ML_NONE);
}

bool mp_opt_dict(MpParser *p, MpState *s) {
  return *p->in.at != '{' || p->in.at[1] == '-' || mp_dict_entries(p, s, false);
}

bool mp_attributes_dict(MpParser *p, MpState *s) {
  return !ml_lex_eat_word(&p->in, "attributes") || mp_dict_entries(p, s, false);
}

const HlMlAttr *mp_dict_attr(MpParser *p) {
  const char *at = p->in.at;
  const int base = p->nameds.n;
  if (!dict_entries(p, false) || !mp_check_twice(p, at, base))
    return NULL;
  const int n = p->nameds.n - base;
  p->nameds.n = base;
  return hl_ml_dict(p->tree, n, p->nameds.at + base);
}

// --- Words -------------------------------------------------------------------------------------------------

// What is only carried: the word and the brackets behind it, and a type where one is written.
static const HlMlAttr *other_attr(MpParser *p, const char *begin) {
  const char *end = p->in.at;
  for (const char open = *end; open == '<' || open == '[';) {
    end = ml_lex_balanced(end + 1, false);
    if (!end || *end != (open == '<' ? '>' : ']')) {
      mp_error(p, begin, "unbalanced brackets in an attribute");
      return NULL;
    }
    end++;
    if (open == '<' || *end != '<')
      break;
  }
  ml_lex_move(&p->in, end);
  if (*p->in.at == ':' && p->in.at[1] != ':') {
    ml_lex_move(&p->in, p->in.at + 1);
    const char *type_begin = p->in.at;
    if (!mp_type(p))
      return NULL;
    end = p->in.at;
    while (end > type_begin && ml_lex_is(end[-1], ML_SPACE))
      end--;
  }
  return hl_ml_attr_of(
      p->tree, &(HlMlAttr){.kind = HL_ML_A_OTHER, .sym = mp_sym(p, begin, (size_t)(end - begin))});
}

const HlMlAttr *mp_elided(MpParser *p, const char *at, const HlMlType *type) {
  if (!hl_ml_is_static(type)) {
    mp_error(p, at, "a constant needs a type of static shape");
    return NULL;
  }
  return hl_ml_attr_of(p->tree, &(HlMlAttr){.kind = HL_ML_A_RESOURCE,
                                            .sym = mp_sym(p, "__elided__", strlen("__elided__")),
                                            .type = type});
}

// opaque<"elided_large_const", "0xDEADBEEF">: how elements were left out until 2022.
static const HlMlAttr *opaque_attr(MpParser *p, const char *begin, const HlMlType *expected) {
  const char *after = p->in.at;
  HlStr dialect, data;
  if (!ml_lex_eat(&p->in, '<') || *p->in.at != '"' || !ml_lex_string(&p->in, &dialect) ||
      !ml_lex_eat(&p->in, ',') || *p->in.at != '"' || !ml_lex_string(&p->in, &data) ||
      !hl_str_is(data, "0xDEADBEEF") || !ml_lex_eat(&p->in, '>')) {
    p->in.at = after;
    return other_attr(p, begin);
  }
  const HlMlType *type = expected;
  if (!type && (!ml_lex_need(&p->in, ':') || !(type = mp_type(p))))
    return NULL;
  return mp_elided(p, begin, type);
}

static const HlMlAttr *resource_attr(MpParser *p, const HlMlType *expected) {
  const char *at = p->in.at;
  if (!ml_lex_need(&p->in, '<'))
    return NULL;
  HlStr key;
  if (*p->in.at == '"') {
    if (!ml_lex_string(&p->in, &key))
      return NULL;
  } else {
    key = ml_lex_word(&p->in);
    if (key.n == 0) {
      ml_lex_expected(&p->in, "the key of a resource");
      return NULL;
    }
  }
  const HlSym *sym = mp_sym(p, key.at, key.n);
  const HlMlType *type = expected;
  if (!ml_lex_need(&p->in, '>') || (!type && (!ml_lex_need(&p->in, ':') || !(type = mp_type(p)))))
    return NULL;
  if (!hl_ml_is_static(type)) {
    mp_error(p, at, "a resource needs a type of static shape");
    return NULL;
  }
  const HlMlAttr *attr =
      hl_ml_attr_of(p->tree, &(HlMlAttr){.kind = HL_ML_A_RESOURCE, .sym = sym, .type = type});
  MpResourceUse *use = HL_NEW(p->own, MpResourceUse);
  *use = (MpResourceUse){(HlMlAttr *)attr, at};
  mp_push(p, &p->resources, use);
  return attr;
}

static const HlMlAttr *type_attr(MpParser *p) {
  const HlMlType *type = mp_type(p);
  return type ? hl_ml_type_attr(p->tree, type) : NULL;
}

static const HlMlAttr *bool_attr(MpParser *p, const HlMlType *expected, bool value) {
  const char *at = p->in.at;
  const HlMlType *type = expected;
  if (!type && ml_lex_eat(&p->in, ':') && !(type = mp_type(p)))
    return NULL;
  if (type && (type->kind != HL_ML_INT || type->width != 1)) {
    mp_error(p, at, "expected i1 type for 'true' or 'false' values");
    return NULL;
  }
  return hl_ml_bool(p->tree, value);
}

static const HlMlAttr *location_attr(MpParser *p) {
  const HlMlLocation *location;
  return mp_opt_location(p, &location) ? hl_ml_location_attr(p->tree, location) : NULL;
}

static const HlMlAttr *word_attr(MpParser *p, const HlMlType *expected) {
  const char *begin = p->in.at;
  HlStr word = {begin, (size_t)(ml_lex_word_end(begin) - begin)};
  if (ML_IS(word, "loc"))
    return location_attr(p);
  if (mp_at_type(p))
    return type_attr(p);
  ml_lex_move(&p->in, begin + word.n);
  if (ML_IS(word, "dense"))
    return mp_dense(p, expected);
  if (ML_IS(word, "array"))
    return mp_dense_array(p);
  if (ML_IS(word, "true") || ML_IS(word, "false"))
    return bool_attr(p, expected, *begin == 't');
  if (ML_IS(word, "unit"))
    return hl_ml_unit(p->tree);
  if (ML_IS(word, "dense_resource"))
    return resource_attr(p, expected);
  if (ML_IS(word, "opaque"))
    return opaque_attr(p, begin, expected);
  static const char *const carried[] = {"affine_map", "affine_set", "strided", "sparse",
                                        "distinct"};
  for (int k = 0; k < HL_COUNT_OF(carried); k++)
    if (hl_str_is(word, carried[k]))
      return other_attr(p, begin);
  p->in.at = begin;
  ml_lex_expected(&p->in, "an attribute value");
  return NULL;
}

// --- Aliases, attributes of dialects -----------------------------------------------------------------------------

static const HlMlAttr *alias(MpParser *p, HlStr name) {
  const HlSym *sym = mp_sym(p, name.at, name.n);
  if (sym->index < p->n_attr_alias && p->attr_alias[sym->index])
    return p->attr_alias[sym->index];
  const bool is_location = sym->index < p->n_loc_alias && p->loc_alias[sym->index];
  if (is_location || (name.n >= 3 && memcmp(name.at, "loc", 3) == 0))
    return hl_ml_location_attr(p->tree, mp_location_alias(p, name));
  mp_error(p, name.at - 1, "undefined symbol alias id '%s'", sym->text);
  return NULL;
}

static const HlMlAttr *carried_dialect_attr(MpParser *p, const char *begin, const char *name_end) {
  p->in.at = name_end;
  return other_attr(p, begin);
}

static const HlMlAttr *hash_attr(MpParser *p) {
  const char *begin = p->in.at, *end = ml_lex_suffix_end(begin + 1);
  HlStr name = {begin + 1, (size_t)(end - begin - 1)};
  if (name.n && *end != '<' && !memchr(name.at, '.', name.n)) {
    ml_lex_move(&p->in, end);
    return alias(p, name);
  }
  const HlMlDialect dialect = ml_find_dialect(name);
  if (name.n == 0) {
    ml_lex_expected(&p->in, "an attribute");
    return NULL;
  }
  if (dialect == HL_ML_STABLEHLO || dialect == HL_ML_MHLO || dialect == HL_ML_CHLO ||
      dialect == HL_ML_SDY)
    return mp_dialect_attr(p);
  return carried_dialect_attr(p, begin, end);
}

// --- All of them -------------------------------------------------------------------------------------------

static const HlMlAttr *string_attr(MpParser *p, const HlMlType *expected) {
  HlStr text;
  if (!ml_lex_string(&p->in, &text))
    return NULL;
  const HlSym *sym = mp_sym(p, text.at, text.n);
  const HlMlType *type = expected;
  if (!type && *p->in.at == ':' && p->in.at[1] != ':') {
    ml_lex_move(&p->in, p->in.at + 1);
    if (!(type = mp_type(p)))
      return NULL;
  }
  if (!type || type->kind == HL_ML_NONE)
    return hl_ml_string_of(p->tree, sym);
  return hl_ml_attr_of(p->tree, &(HlMlAttr){.kind = HL_ML_A_STRING, .sym = sym, .type = type});
}

// The end of the text of an attribute that is looked up before it is read: "#dialect.name<..>", "array<..>". NULL: it
// is read.
static const char *cached_end(const char *s) {
  if (*s == 'a' ? strncmp(s, "array<", 6) != 0 : *s != '#')
    return NULL;
  const char *end = ml_lex_suffix_end(s + 1);
  if (*end != '<')
    return NULL;
  int depth = 0;
  for (; *end && *end != '"' && end - s < MP_MAX_CACHED; end++) {
    depth += *end == '<';
    if (*end == '>' && end[-1] != '-' && --depth == 0)
      return end + 1;
  }
  return NULL;
}

static const HlMlAttr *fresh_attr(MpParser *p, const HlMlType *expected);

static const HlMlAttr *any_attr(MpParser *p, const HlMlType *expected) {
  const char *begin = p->in.at, *end = cached_end(begin);
  if (!end)
    return fresh_attr(p, expected);
  const size_t n = (size_t)(end - begin);
  const uint32_t hash = (uint32_t)hl_hash_bytes(begin, n, 0);
  MpSlot *slot = &p->attr_slots[hash & (MP_ATTR_SLOTS - 1)];
  if (slot->hash == hash && slot->n == n && memcmp(slot->text, begin, n) == 0) {
    ml_lex_move(&p->in, end);
    return slot->value;
  }
  const HlMlAttr *attr = fresh_attr(p, expected);
  if (attr && p->in.at == ml_lex_skip(&p->in, end))
    *slot = (MpSlot){begin, (uint32_t)n, hash, attr};
  return attr;
}

static const HlMlAttr *fresh_attr(MpParser *p, const HlMlType *expected) {
  switch (*p->in.at) {
  case '"': return string_attr(p, expected);
  case '@': return mp_symbol(p);
  case '[': return array_attr(p);
  case '{': return mp_dict_attr(p);
  case '#': return hash_attr(p);
  case '(':
  case '!': return type_attr(p);
  case '-': return mp_number(p, expected);
  default: break;
  }
  if (ml_lex_is(*p->in.at, ML_DIGIT))
    return mp_number(p, expected);
  if (ml_lex_is(*p->in.at, ML_START))
    return word_attr(p, expected);
  ml_lex_expected(&p->in, "an attribute value");
  return NULL;
}

const HlMlAttr *mp_attr(MpParser *p, const HlMlType *expected) {
  const char *at = p->in.at;
  if (!mp_enter(p))
    return NULL;
  const HlMlAttr *attr = any_attr(p, expected);
  mp_leave(p);
  if (attr && (attr->depth > p->max_depth || attr->size > hl_cx_limits(p->cx)->tuple_leaves)) {
    hl_error_kind(p->cx, HL_LIMIT, ml_lex_pos(&p->in, at), "the attribute is too large");
    return NULL;
  }
  return attr;
}
