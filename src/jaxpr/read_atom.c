// Reads jaxpr text: types, variables and literals.
//
// atom    = NAME | literal [ ":" type ]
// type    = ( WORD { "<" ... ">" } [ "[" { size "," } "]" ] [ "{" ... "}" ] | "Ref" "{" type "}" ) [ "*" ]
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "base/vec.h"
#include "jaxpr/read.h"

// --- Types -----------------------------------------------------------------------------------------------

// One size: 3, 8@x, or a symbol.
static bool read_size(Reader *r, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(r->at, &end, 10);
  const bool is_number = is_digit(*r->at) && !errno && (*end == ',' || *end == ']' || *end == '@');
  const char *at = is_number ? end : r->at;
  while (at < r->end && *at != ',' && *at != ']') {
    const char *next = strchr("([{", *at) ? jx_skip_group(r, at) : NULL;
    at = next ? next : at + 1;
  }
  if (at == r->at || at >= r->end)
    return jx_reader_error(r, r->at, "expected a size");
  if (!is_number) {
    *out = HL_UNBOUNDED;
    r->out->is_dynamic = true;
  }
  r->at = at;
  return true;
}

static bool read_sizes(Reader *r, Aval *aval) {
  int64_t dim[64];
  int n = 0;
  const char *open = r->at++;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == ']')
      break;
    if (n == HL_COUNT_OF(dim))
      return jx_reader_error(r, open, "more than %d dimensions", HL_COUNT_OF(dim));
    if (!read_size(r, &dim[n++]))
      return false;
    if (*r->at == ',')
      r->at++;
  }
  r->at++;
  aval->rank = n;
  aval->dim = hl_arena_copy(r->arena, dim, sizeof *dim * (size_t)n);
  return true;
}

// What a reference holds: Ref{f32[4]}, Ref<any>{f32[4]}.
static bool read_held(Reader *r, Aval *aval) {
  const char *start = r->at, *next = *r->at == '<' ? jx_skip_group(r, r->at) : NULL;
  const Aval *held;
  r->at = next ? next : r->at;
  if (!jx_expect(r, "{") || !jx_read_aval(r, &held) || !jx_expect(r, "}"))
    return false;
  aval->dtype = held->kind == AVAL_ARRAY ? held->dtype : HL_NO_DTYPE;
  aval->rank = held->rank;
  aval->dim = held->dim;
  while (start > r->start && (is_alnum(start[-1]) || start[-1] == '_'))
    start--;
  aval->text = (HlStr){start, (size_t)(r->at - start)};
  return true;
}

// A type, behind its colon: f32[2,3], key<fry>[2], f32<host>[8], Ref{f32[4]}, Tok.
bool jx_read_aval(Reader *r, const Aval **out) {
  const char *start = r->at;
  Aval *aval = HL_NEW(r->arena, Aval);
  HlStr word = jx_peek_word(r, r->at);
  r->at += word.n;
  aval->dtype = jx_dtype_of_word(word);
  if (hl_str_is(word, "key"))
    aval->kind = AVAL_KEY, aval->dtype = HL_U32;
  else if (hl_str_is(word, "Tok") || hl_str_is(word, "token"))
    aval->kind = AVAL_TOKEN, aval->dtype = HL_TOKEN;
  else if (hl_str_is(word, "Ref") || hl_str_is(word, "MemRef") || hl_str_is(word, "AbstractRef"))
    aval->kind = AVAL_REF;
  else if (aval->dtype == HL_NO_DTYPE)
    return jx_reader_error(r, start, "'%.*s' is not an element type", (int)word.n, word.at);
  if (aval->kind == AVAL_REF)
    return read_held(r, aval) && (*out = aval) != NULL;
  while (*r->at == '<' || *r->at == '{') {
    const char *next = jx_skip_group(r, r->at);
    if (!next)
      return jx_reader_error(r, r->at, "'%c' is not closed", *r->at);
    if (aval->kind == AVAL_KEY)
      aval->impl = (HlStr){r->at + 1, (size_t)(next - r->at) - 2};
    r->at = next;
  }
  if (*r->at == '[' && !read_sizes(r, aval))
    return false;
  const char *next = *r->at == '{' ? jx_skip_group(r, r->at) : NULL;  // {V:x}: axes it varies over
  r->at = next ? next : r->at;
  if (*r->at == '*' || *r->at == '~')
    r->at++;  // weak type
  aval->text = (HlStr){start, (size_t)(r->at - start)};
  *out = aval;
  return true;
}

// --- Variables and literals ----------------------------------------------------------------------------------

HlStr jx_peek_name(const Reader *r) {
  if (*r->at == '*')
    return (HlStr){r->at, 1};  // the unit value of old
  HlStr name = jx_peek_word(r, r->at);
  return name.n > 0 && is_digit(*name.at) ? (HlStr){name.at, 0} : name;
}

// What a nested jaxpr computes can be of no use outside and so be called `_`, even several times.
typedef struct DroppedName {
  char text[16];
} DroppedName;

static DroppedName dropped_name(int k) {
  DroppedName name;
  snprintf(name.text, sizeof name.text, "_#%d", k);
  return name;
}

static bool define(Jaxpr *jaxpr, HlStr name, int *var) {
  *var = (int)hl_syms_add(jaxpr->vars, name.at, name.n)->index;
  jaxpr->n_vars = *var + 1;
  return true;
}

bool jx_read_binder(Reader *r, Jaxpr *jaxpr, Binder *b) {
  HlStr name = jx_peek_name(r);
  if (name.n == 0)
    return jx_reader_error(r, r->at, "expected a variable");
  b->loc = jx_reader_loc(r, r->at);
  b->aval = NULL;
  b->dropped = hl_str_is(name, "_");
  r->at += name.n;
  if (*r->at == ':') {
    r->at++;
    if (!jx_read_aval(r, &b->aval))
      return false;
  }
  if (b->dropped)
    return define(jaxpr, hl_str(dropped_name(jaxpr->n_dropped++).text), &b->var);
  if (hl_syms_find(jaxpr->vars, name.at, name.n))
    return jx_reader_error(r, name.at, "variable '%.*s' is defined twice", (int)name.n, name.at);
  return define(jaxpr, name, &b->var);
}

bool jx_read_binders(Reader *r, Jaxpr *jaxpr, char end, Binder **list, int *n) {
  VEC(Binder) binders = {0};
  for (;;) {
    jx_skip_space(r);
    if (*r->at == end)
      break;
    if (r->has_free && (*r->at == '(' || *r->at == ')')) {
      r->at++;
      continue;
    }
    Binder binder = {0};
    if (!jx_read_binder(r, jaxpr, &binder))
      return jx_reader_error(r, r->at, "expected a variable or '%c'", end);
    vec_push_in(r->arena, &binders, binder);
  }
  *list = binders.at;
  *n = binders.n;
  r->at++;
  return true;
}

bool jx_is_literal_word(HlStr word) {
  return hl_str_is(word, "nan") || hl_str_is(word, "inf") || hl_str_is(word, "True") ||
         hl_str_is(word, "False");
}

// A real number, nan and inf included. Integers go into atom->i as well.
static bool read_real(Reader *r, Atom *atom, double *out) {
  const char *at = r->at + (*r->at == '-' || *r->at == '+');
  HlStr word = jx_peek_word(r, at);
  word.n -= word.n == 4 && word.at[3] == 'j';
  if (hl_str_is(word, "nan") || hl_str_is(word, "inf")) {
    *out = *word.at == 'n' ? NAN : INFINITY;
    if (*r->at == '-')
      *out = -*out;
    r->at = at + word.n;
    atom->kind = ATOM_FLOAT;
    return true;
  }
  char *end, *int_end;
  if (!is_digit(*at) && *at != '.')
    return jx_reader_error(r, r->at, "expected a number");
  *out = base_read_double(r->at, &end);
  if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
    return jx_reader_error(r, r->at, "expected a decimal number");
  errno = 0;
  if (*r->at == '-')
    atom->i = strtoll(r->at, &int_end, 10);
  else
    atom->i = (int64_t)strtoull(r->at, &int_end, 10);
  atom->kind = int_end == end && !errno ? ATOM_INT : ATOM_FLOAT;
  if (end == r->at)
    return jx_reader_error(r, r->at, "expected a number");
  r->at = end;
  return true;
}

// (1+2j), 2j
static bool read_complex(Reader *r, Atom *atom) {
  const bool bracket = *r->at == '(';
  double first = 0, second = 0;
  r->at += bracket;
  if (!read_real(r, atom, &first))
    return false;
  if (*r->at == 'j') {
    r->at++;
    atom->re = 0;
    atom->im = first;
  } else {
    atom->re = first;
    if (*r->at != '+' && *r->at != '-')
      return jx_reader_error(r, r->at, "expected the imaginary part of a complex number");
    if (!read_real(r, atom, &second))
      return false;
    if (*r->at != 'j')
      return jx_reader_error(r, r->at, "expected 'j' after the imaginary part");
    r->at++;
    atom->im = second;
  }
  atom->kind = ATOM_COMPLEX;
  return !bracket || jx_expect(r, ")");
}

static bool read_literal_value(Reader *r, Atom *atom) {
  HlStr word = jx_peek_word(r, r->at);
  if (hl_str_is(word, "True") || hl_str_is(word, "False")) {
    atom->kind = ATOM_BOOL;
    atom->i = *word.at == 'T';
    atom->re = (double)atom->i;
    r->at += word.n;
    return true;
  }
  if (*r->at == '[') {
    const char *next = jx_skip_group(r, r->at);
    if (!next)
      return jx_reader_error(r, r->at, "'[' is not closed");
    atom->kind = ATOM_ELIDED;
    r->at = next;
    return true;
  }
  if (*r->at == '(')
    return read_complex(r, atom);
  const char *start = r->at;
  if (!read_real(r, atom, &atom->re))
    return false;
  if (*r->at != 'j')
    return true;
  r->at = start;
  return read_complex(r, atom);
}

bool jx_at_literal(const Reader *r, const Jaxpr *jaxpr) {
  const char c = *r->at;
  if (is_digit(c) || (c && strchr("-+.([", c)))
    return true;
  HlStr word = jx_peek_word(r, r->at);
  return jx_is_literal_word(word) &&
         (word.at[word.n] == ':' || !hl_syms_find(jaxpr->vars, word.at, word.n));
}

// `dropped`: which of the variables `_` the name `_` stands for.
bool jx_read_atom(Reader *r, const Jaxpr *jaxpr, int dropped, Atom *atom) {
  *atom = (Atom){.loc = jx_reader_loc(r, r->at)};
  if (jx_at_literal(r, jaxpr)) {
    if (!read_literal_value(r, atom))
      return false;
    if (*r->at != ':') {
      r->out->is_old = true;
      return true;
    }
    r->at++;
    return jx_read_aval(r, &atom->aval);
  }
  HlStr name = jx_peek_name(r);
  if (name.n == 0)
    return jx_reader_error(r, r->at, "expected a variable or a literal");
  const DroppedName drop = dropped_name(dropped);
  const HlStr known = hl_str_is(name, "_") ? hl_str(drop.text) : name;
  const HlSym *sym = hl_syms_find(jaxpr->vars, known.at, known.n);
  if (!sym)
    return jx_reader_error(r, r->at, "variable '%.*s' is not defined", (int)name.n, name.at);
  atom->var = (int)sym->index;
  r->at += name.n;
  return true;
}
