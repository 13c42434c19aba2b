// Reads jaxpr text: the values of parameters, which are Python reprs and nested jaxprs.
//
// Much of what stands there (functions, shardings, effects) means nothing to HLO and has no grammar:
// whatever is not understood is kept as its text, found by matching brackets. A value ends where the
// next `name=` or the closing bracket of the list of parameters stands.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "base/vec.h"
#include "jaxpr/read.h"

static bool read_value(Reader *r, Value **out);

static bool is_word_char(char c) {
  return c && !strchr(" \t\r\n,()[]{}<>=:;'\"", c);
}

static Value *new_value(Reader *r, ValueKind kind) {
  Value *v = HL_NEW(r->arena, Value);
  v->kind = kind;
  v->loc = jx_reader_loc(r, r->at);
  v->text = (HlStr){r->at, 0};
  return v;
}

static void end_value(const Reader *r, Value *v) {
  v->text.n = (size_t)(r->at - v->text.at);
}

// An int or a float if the whole word is one.
static void note_number(Value *v) {
  char text[64];
  if (v->text.n == 0 || v->text.n >= sizeof text)
    return;
  memcpy(text, v->text.at, v->text.n);
  text[v->text.n] = 0;
  char *end;
  errno = 0;
  v->i = strtoll(text, &end, 10);
  if (!*end && !errno && !is_space(text[0])) {
    v->kind = VALUE_INT;
    v->f = (double)v->i;
    return;
  }
  const char *digits = text + (*text == '-' || *text == '+');
  if (!is_digit(*digits) && *digits != '.' && strcmp(digits, "inf") && strcmp(digits, "nan"))
    return;
  if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
    return;
  v->f = base_read_double(text, &end);
  if (!*end)
    v->kind = VALUE_FLOAT;
}

static bool read_string(Reader *r, Value **out) {
  Value *v = *out = new_value(r, VALUE_STRING);
  const char quote = *r->at++;
  v->text.at = r->at;
  while (r->at < r->end && *r->at != quote)
    r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
  if (r->at >= r->end) {
    r->at = r->end;
    return jx_reader_error(r, v->text.at - 1, "string is not closed");
  }
  end_value(r, v);
  r->at++;
  return true;
}

typedef struct Items {
  VEC(Value *) item;
  VEC(HlStr) key;  // of each
} Items;

// One item: VALUE, or KEY: VALUE, or KEY=VALUE.
static bool read_item(Reader *r, Items *list) {
  Value *item;
  HlStr key = {0};
  if (!read_value(r, &item))
    return false;
  jx_skip_space(r);
  if ((*r->at == ':' || *r->at == '=') && r->at[1] != '=') {
    key = item->text;
    r->at++;
    jx_skip_space(r);
    if (!read_value(r, &item))
      return false;
  }
  vec_push_in(r->arena, &list->item, item);
  vec_push_in(r->arena, &list->key, key);
  return true;
}

// Items up to the bracket that closes the one at r->at, separated by commas or blanks.
static bool read_items(Reader *r, Value *out) {
  const char *open = r->at;
  const char close = *open == '(' ? ')' : *open == '[' ? ']' : '}';
  if (!jx_enter(r))
    return false;
  Items list = {0};
  for (r->at++;;) {
    jx_skip_space(r);
    if (*r->at == close)
      break;
    if (r->at >= r->end || strchr(")]}", *r->at))
      return jx_reader_error(r, open, "'%c' is not closed", *open);
    if (*r->at == ',') {
      r->at++;
      continue;
    }
    if (!read_item(r, &list))
      return false;
  }
  out->n = list.item.n;
  out->item = list.item.at;
  out->key = list.key.at;
  r->at++;
  jx_leave(r);
  return true;
}

static bool read_list(Reader *r, Value **out) {
  Value *v = *out = new_value(r, VALUE_LIST);
  if (!read_items(r, v))
    return false;
  end_value(r, v);
  return true;
}

// What may stick to the end of a word: arguments, which make it a call, and other groups.
static bool read_suffixes(Reader *r, Value *v) {
  for (;;) {
    const char *next;
    if (*r->at == '(' && v->kind == VALUE_WORD) {
      v->kind = VALUE_CALL;
      if (!read_items(r, v))
        return false;
    } else if (*r->at && strchr("([{<", *r->at) && (next = jx_skip_group(r, r->at))) {
      r->at = next;
      if (v->kind != VALUE_CALL) {
        v->kind = VALUE_WORD;
        end_value(r, v);
      }
    } else if (is_word_char(*r->at)) {
      while (is_word_char(*r->at))
        r->at++;
    } else {
      return true;
    }
  }
}

static bool read_word(Reader *r, Value **out) {
  Value *v = *out = new_value(r, VALUE_WORD);
  const char *next;
  if (*r->at == '<' && (next = jx_skip_group(r, r->at)))
    r->at = next;
  else if (is_word_char(*r->at))
    while (is_word_char(*r->at))
      r->at++;
  else
    r->at++;
  end_value(r, v);
  if ((*r->at == '\'' || *r->at == '"') && v->text.n <= 2 && is_alpha(v->text.at[0]))
    return read_string(r, out);  // b'..'
  note_number(v);
  return read_suffixes(r, v);
}

static bool read_value(Reader *r, Value **out) {
  if (r->at >= r->end)
    return jx_reader_error(r, r->at, "the text ends where a value is expected");
  if (jx_at_jaxpr(r)) {
    *out = new_value(r, VALUE_JAXPR);
    if (!jx_read_jaxpr(r, &(*out)->jaxpr))
      return false;
    end_value(r, *out);
    return true;
  }
  switch (*r->at) {
  case '(':
  case '[':
  case '{': return read_list(r, out);
  case '"':
  case '\'': return read_string(r, out);
  default: return read_word(r, out);
  }
}

// Whether `name=` stands at `at`, what starts the next parameter.
static bool at_param(const Reader *r, const char *at) {
  HlStr word = jx_peek_word(r, at);
  return word.n > 0 && !is_digit(word.at[0]) && word.at[word.n] == '=' &&
         word.at[word.n + 1] != '=';
}

// Takes in what is left before the next parameter: a value that is not one word.
static bool read_rest(Reader *r, Value *v) {
  for (;;) {
    const char *here = r->at;
    jx_skip_space(r);
    if (*r->at == ']' || at_param(r, r->at))
      return true;
    if (r->at >= r->end || strchr(")}", *r->at))
      return jx_reader_error(r, here, "expected ']' after the parameters");
    const char *next = strchr("([{<", *r->at) ? jx_skip_group(r, r->at) : NULL;
    if (!next && strchr("([{", *r->at))
      return jx_reader_error(r, r->at, "'%c' is not closed", *r->at);
    if (!next)
      for (next = r->at + 1; is_word_char(*next) && is_word_char(next[-1]); next++)
        ;
    r->at = next;
    if (v->kind != VALUE_JAXPR) {
      v->kind = VALUE_WORD;
      end_value(r, v);
    }
  }
}

bool jx_read_params(Reader *r, Eqn *eqn) {
  const char *open = r->at++;
  VEC(Param) params = {0};
  if (!jx_enter(r))
    return false;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == ']')
      break;
    if (r->at >= r->end)
      return jx_reader_error(r, open, "'[' is not closed");
    if (!at_param(r, r->at))
      return jx_reader_error(r, r->at, "expected a parameter, name=value, or ']'");
    Param param = {.name = jx_peek_word(r, r->at)};
    r->at += param.name.n + 1;
    jx_skip_space(r);
    if (!read_value(r, &param.value) || !read_rest(r, param.value))
      return false;
    vec_push_in(r->arena, &params, param);
  }
  eqn->param = params.at;
  eqn->n_params = params.n;
  r->at++;
  jx_leave(r);
  return true;
}
