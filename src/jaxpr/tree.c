// Looks things up in the tree of a jaxpr: parameters, their values, named jaxprs, types.
#include <string.h>

#include "jaxpr/tree.h"

int jx_key_words(HlStr impl) {
  static const struct {
    const char *name;
    int words;
  } impls[] = {{"fry", 2}, {"threefry2x32", 2}, {"rbg", 4}, {"unsafe_rbg", 4}, {"urbg", 4}};
  for (int k = 0; k < HL_COUNT_OF(impls); k++)
    if (hl_str_is(impl, impls[k].name))
      return impls[k].words;
  return 0;
}

// The spellings of NumPy and JAX as HLO spells them: float8_e4m3fn and f8_e4m3fn are f8e4m3fn.
HlDtype jx_dtype_of_word(HlStr word) {
  static const struct {
    const char *long_form, *short_form;
  } prefixes[] = {{"bfloat", "bf"}, {"float", "f"},   {"uint", "u"},
                  {"int", "s"},     {"complex", "c"}, {"i", "s"}};
  if (hl_str_is(word, "bool") || hl_str_is(word, "bool_") || hl_str_is(word, "float0"))
    return HL_PRED;
  if (hl_str_is(word, "int"))
    return HL_S32;
  if (hl_str_is(word, "float"))
    return HL_F32;
  char text[24];
  size_t n = 0, from = 0;
  for (int k = 0; k < HL_COUNT_OF(prefixes) && from == 0; k++) {
    const char *prefix = prefixes[k].long_form;
    const size_t length = strlen(prefix);
    if (word.n > length && !memcmp(word.at, prefix, length) &&
        strchr("0123456789", word.at[length])) {
      n = strlen(prefixes[k].short_form);
      memcpy(text, prefixes[k].short_form, n);
      from = length;
    }
  }
  for (size_t k = from; k < word.n; k++) {
    if (word.at[k] == '_')
      continue;
    if (n == sizeof text)
      return HL_NO_DTYPE;
    text[n++] = word.at[k];
  }
  HlDtype dtype = hl_dtype_by_text((HlStr){text, n});
  return hl_is_array_dtype(dtype) ? dtype : HL_NO_DTYPE;
}

const HlShape *hl_jaxpr_const_shape(const HlJaxpr *jaxpr, int k) {
  const Aval *aval = jaxpr->consts[k]->aval;
  if (!aval || !hl_is_array_dtype(aval->dtype))
    return NULL;
  int64_t dim[65];
  for (int d = 0; d < aval->rank; d++)
    dim[d] = aval->dim[d];
  int rank = aval->rank;
  if (aval->kind == AVAL_KEY)
    dim[rank++] = jx_key_words(aval->impl);
  return hl_shape_array(jaxpr->shapes, aval->dtype, rank, dim);
}

int hl_jaxpr_n_consts(const HlJaxpr *jaxpr) {
  return jaxpr->n_consts;
}

HlStr hl_jaxpr_const_name(const HlJaxpr *jaxpr, int k) {
  const char *at = hl_source_bytes(jaxpr->source).at + jaxpr->consts[k]->loc - 1;
  return (HlStr){at, strcspn(at, ": ;\n\t")};
}

const Value *jx_find_param(const Eqn *eqn, const char *name) {
  for (int k = 0; k < eqn->n_params; k++)
    if (hl_str_is(eqn->param[k].name, name))
      return eqn->param[k].value;
  return NULL;
}

bool jx_value_is(const Value *value, const char *word) {
  if (!value ||
      (value->kind != VALUE_WORD && value->kind != VALUE_STRING && value->kind != VALUE_CALL))
    return false;
  HlStr text = value->text;
  size_t part = 0;
  for (size_t k = 0; k < text.n && text.at[k] != '('; k++)
    if (text.at[k] == '.')
      part = k + 1;
  return hl_str_is((HlStr){text.at + part, text.n - part}, word);
}

bool jx_value_is_none(const Value *value) {
  return !value || (value->kind == VALUE_WORD && hl_str_is(value->text, "None"));
}

const Value *jx_value_field(const Value *value, const char *name) {
  if (!value || (value->kind != VALUE_CALL && value->kind != VALUE_LIST))
    return NULL;
  for (int k = 0; k < value->n; k++)
    if (hl_str_is(value->key[k], name))
      return value->item[k];
  return NULL;
}

bool jx_value_int(const Value *value, int64_t *out) {
  if (value && value->kind == VALUE_CALL && value->n == 1)  // np.int64(20)
    value = value->item[0];
  if (!value || value->kind != VALUE_INT)
    return false;
  *out = value->i;
  return true;
}

bool jx_value_bool(const Value *value, bool *out) {
  if (value && value->kind == VALUE_INT) {
    *out = value->i != 0;
    return true;
  }
  if (!jx_value_is(value, "True") && !jx_value_is(value, "False"))
    return false;
  *out = jx_value_is(value, "True");
  return true;
}

bool jx_value_ints(HlArena *arena, const Value *value, HlI64s *out) {
  *out = (HlI64s){0};
  if (jx_value_is_none(value))
    return value != NULL;
  if (value->kind != VALUE_LIST)
    return false;
  int64_t *list = HL_ARRAY(arena, int64_t, value->n + 1);
  for (int k = 0; k < value->n; k++)
    if (!jx_value_int(value->item[k], &list[k]))
      return false;
  *out = (HlI64s){list, value->n};
  return true;
}

Jaxpr *jx_value_jaxpr(const Jaxpr *in, const Value *value) {
  if (!value)
    return NULL;
  if (value->kind == VALUE_JAXPR)
    return value->jaxpr;
  if (value->kind != VALUE_WORD)
    return NULL;
  for (const Scope *scope = in->scope; scope; scope = scope->outer)
    for (int k = 0; k < scope->shared.n; k++)
      if (hl_str_equal(scope->shared.at[k].name, value->text))
        return scope->shared.at[k].jaxpr;
  return NULL;
}
