// Reads jaxpr text (mlir.md 7.1) into its tree: jaxprs, equations, variables, types, literals.
//
// jaxpr   = { "let" NAME "=" jaxpr "in" } "{" "lambda" binders ";" binders "." "let" eqns "in" "(" atoms ")" "}"
// eqn     = [ binders "=" ] PRIMITIVE [ "[" params "]" ] atoms
// binders = { NAME [ ":" type ] }
//
// Equations end at `;` or at a line's end, but JAX breaks long lists of operands: a line that starts
// with neither a binder nor an equation, or that is indented deeper than the equation, goes on.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jaxpr/read.h"

HlLoc jx_reader_loc(const Reader *r, const char *at) {
  return (HlLoc)(at - r->start) + 1;
}

bool jx_reader_error(Reader *r, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(r->cx, HL_INVALID, (HlPos){r->out->source, jx_reader_loc(r, at)}, format, args);
  va_end(args);
  return false;
}

bool jx_unsupported(Reader *r, const char *at, const char *what) {
  return hl_error_kind(r->cx, HL_UNSUPPORTED, (HlPos){r->out->source, jx_reader_loc(r, at)}, "%s",
                       what);
}

bool jx_enter(Reader *r) {
  if (++r->nesting <= hl_cx_limits(r->cx)->nesting)
    return true;
  return hl_error_kind(r->cx, HL_LIMIT, (HlPos){r->out->source, jx_reader_loc(r, r->at)},
                       "nested more than %d deep", hl_cx_limits(r->cx)->nesting);
}

// Over a note that pretty_print(source_info=True) puts at a line's end: `# file.py:4:30 (f)`.
static const char *skip_note(const char *at) {
  return *at == '#' && strchr(" \r\n", at[1]) ? at + strcspn(at, "\n") : at;
}

static const char *skip_blanks_at(const char *at) {
  while (*at == ' ' || *at == '\t' || *at == '\r')
    at++;
  return skip_note(at);
}

static const char *skip_space_at(const char *at) {
  for (;;) {
    at = skip_blanks_at(at);
    if (*at != '\n')
      return at;
    at++;
  }
}

void jx_skip_space(Reader *r) {
  r->at = skip_space_at(r->at);
}

HlStr jx_peek_word(const Reader *r, const char *at) {
  size_t n = 0;
  while (isalnum((unsigned char)at[n]) || at[n] == '_')
    n++;
  return (HlStr){at, n};
}

const char *jx_skip_group(const Reader *r, const char *at) {
  char stack[64];
  int n = 0;
  const char *quoted = NULL;
  for (; at < r->end; at++) {
    const char c = *at;
    if (quoted) {
      if (c == '\\')
        at++;
      else if (c == *quoted)
        quoted = NULL;
    } else if (c == '\'' || c == '"') {
      quoted = at;
    } else if (strchr("([{<", c) && c) {
      if (n == HL_COUNT_OF(stack))
        return NULL;
      stack[n++] = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>';
    } else if (strchr(")]}>", c) && c) {
      if (c == '>' && stack[n - 1] != '>')
        continue;  // an arrow
      while (n > 1 && stack[n - 1] == '>' && c != '>')
        n--;  // a less-than sign
      if (stack[n - 1] != c)
        return NULL;
      if (--n == 0)
        return at + 1;
    }
  }
  return NULL;
}

void *jx_room_for_one(HlArena *arena, void *list, int n, int *capacity, size_t size) {
  if (n < *capacity)
    return list;
  *capacity = *capacity ? 2 * *capacity : 4;
  void *grown = hl_arena_alloc(arena, (size_t)*capacity * size);
  if (n > 0)
    memcpy(grown, list, (size_t)n * size);
  return grown;
}

bool jx_expect(Reader *r, const char *what) {
  jx_skip_space(r);
  const size_t n = strlen(what);
  if (strncmp(r->at, what, n) != 0)
    return jx_reader_error(r, r->at, "expected '%s'", what);
  r->at += n;
  return true;
}

static bool at_word(const Reader *r, const char *at, const char *word) {
  return hl_str_is(jx_peek_word(r, at), word);
}

// --- Types -----------------------------------------------------------------------------------------------

// One size: 3, 8@x, or a symbol.
static bool read_size(Reader *r, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(r->at, &end, 10);
  const bool is_number =
      isdigit((unsigned char)*r->at) && !errno && (*end == ',' || *end == ']' || *end == '@');
  const char *at = is_number ? end : r->at;
  while (at < r->end && *at != ',' && *at != ']') {
    const char *next = strchr("([{", *at) ? jx_skip_group(r, at) : NULL;
    at = next ? next : at + 1;
  }
  if (at == r->at || at >= r->end)
    return jx_reader_error(r, r->at, "expected a size");
  if (!is_number)
    *out = HL_UNBOUNDED;
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
  while (start > r->start && (isalnum((unsigned char)start[-1]) || start[-1] == '_'))
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
  return name.n > 0 && isdigit((unsigned char)*name.at) ? (HlStr){name.at, 0} : name;
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
  int capacity = 0;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == end)
      break;
    *list = jx_room_for_one(r->arena, *list, *n, &capacity, sizeof(Binder));
    if (!jx_read_binder(r, jaxpr, &(*list)[*n]))
      return jx_reader_error(r, r->at, "expected a variable or '%c'", end);
    ++*n;
  }
  r->at++;
  return true;
}

static bool is_literal_word(HlStr word) {
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
  if (!isdigit((unsigned char)*at) && *at != '.')
    return jx_reader_error(r, r->at, "expected a number");
  *out = strtod(r->at, &end);
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

static bool at_literal(const Reader *r, const Jaxpr *jaxpr) {
  const char c = *r->at;
  if (isdigit((unsigned char)c) || (c && strchr("-+.([", c)))
    return true;
  HlStr word = jx_peek_word(r, r->at);
  return is_literal_word(word) &&
         (word.at[word.n] == ':' || !hl_syms_find(jaxpr->vars, word.at, word.n));
}

// `dropped`: which of the variables `_` the name `_` stands for.
bool jx_read_atom(Reader *r, const Jaxpr *jaxpr, int dropped, Atom *atom) {
  *atom = (Atom){.loc = jx_reader_loc(r, r->at)};
  if (at_literal(r, jaxpr)) {
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

// --- Equations -----------------------------------------------------------------------------------------------

// Whether `in (`, the end of the equations, stands at `at`.
static bool at_in(const Reader *r, const char *at) {
  if (!at_word(r, at, "in") || at[2] == ':')
    return false;
  at = skip_space_at(at + 2);
  return *at == '(';
}

// Whether binders and `=` start here (or `<-`). Binders without types stand on one line.
static bool at_binders(const Reader *r) {
  const char *at = r->at;
  bool typed = true;
  for (;;) {
    HlStr name = *at == '*' ? (HlStr){at, 1} : jx_peek_word(r, at);
    if (name.n == 0)
      return false;
    at += name.n;
    if (*at == ':') {
      while (*at && !strchr(" \n\t", *at)) {
        const char *next = strchr("[({<", *at) ? jx_skip_group(r, at) : NULL;
        at = next ? next : at + 1;
      }
    } else {
      typed = false;
    }
    while (*at == ' ' || *at == '\t' || *at == '\r' || (typed && *at == '\n'))
      at++;
    if (*at == '=')
      return at[1] != '=';
    if (*at == '<')
      return at[1] == '-';
  }
}

static int column(const Reader *r, const char *at) {
  int n = 0;
  while (at > r->start && at[-1] != '\n')
    at--, n++;
  return n;
}

// After a line's end: whether the operands go on.
static bool operands_go_on(const Reader *r, const Eqn *eqn, const Jaxpr *jaxpr) {
  const bool deeper = column(r, r->at) > column(r, r->start + eqn->loc - 1);
  HlStr word = jx_peek_word(r, r->at);
  if (at_in(r, r->at) || *r->at == ']' || *r->at == '}' || *r->at == ')')
    return false;
  if (is_literal_word(word) || word.n == 0 || isdigit((unsigned char)*r->at))
    return at_literal(r, jaxpr) && (deeper || word.n == 0 || isdigit((unsigned char)*r->at));
  return deeper && word.at[word.n] != ':' && word.at[word.n] != '[';
}

static bool read_operands(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  int capacity = 0;
  for (;;) {
    r->at = skip_blanks_at(r->at);
    if (*r->at == '\n') {
      const char *here = r->at;
      jx_skip_space(r);
      if (!operands_go_on(r, eqn, jaxpr)) {
        r->at = here;
        return true;
      }
    }
    if (*r->at == ';' || *r->at == '}' || at_in(r, r->at) || r->at >= r->end)
      return true;
    eqn->in = jx_room_for_one(r->arena, eqn->in, eqn->n_in, &capacity, sizeof(Atom));
    if (!jx_read_atom(r, jaxpr, jaxpr->n_dropped - 1, &eqn->in[eqn->n_in]))
      return false;
    eqn->n_in++;
    eqn->end = jx_reader_loc(r, r->at);
  }
}

static void count_lines(Reader *r, Eqn *eqn) {
  const char *newline;
  while ((newline = memchr(r->line_start, '\n', (size_t)(r->at - r->line_start)))) {
    r->line++;
    r->line_start = newline + 1;
  }
  eqn->line = r->line;
}

// Names of primitives may hold dashes and dots.
static HlStr peek_primitive(const Reader *r) {
  size_t n = 0;
  while (isalnum((unsigned char)r->at[n]) || (r->at[n] && strchr("_-.", r->at[n])))
    n++;
  return (HlStr){r->at, n};
}

static void note_eqn(Reader *r, Eqn *eqn) {
  HlJaxpr *out = r->out;
  out->eqns = jx_room_for_one(r->arena, out->eqns, out->n_eqns, &r->capacity, sizeof(Eqn *));
  out->eqns[out->n_eqns++] = eqn;
}

// Behind the results and `=`: the primitive, parameters and operands.
static bool read_application(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  eqn->prim = peek_primitive(r);
  if (eqn->prim.n == 0)
    return jx_reader_error(r, r->at, "expected the name of a primitive");
  r->at += eqn->prim.n;
  if (*r->at == '[' && !jx_read_params(r, eqn))
    return false;
  eqn->end = jx_reader_loc(r, r->at);
  return read_operands(r, jaxpr, eqn);
}

// Whether what has no binders is an index of a reference: x[ without `name=` behind it.
static bool at_place(const Reader *r) {
  HlStr name = peek_primitive(r);
  if (name.n == 0 || name.at[name.n] != '[')
    return false;
  const char *inside = skip_space_at(name.at + name.n + 1);
  HlStr word = jx_peek_word(r, inside);
  return word.at[word.n] != '=' && *inside != ']';
}

static bool read_eqn(Reader *r, Jaxpr *jaxpr, Eqn **out) {
  Eqn *eqn = *out = HL_NEW(r->arena, Eqn);
  eqn->loc = jx_reader_loc(r, r->at);
  eqn->depth = r->depth;
  count_lines(r, eqn);
  note_eqn(r, eqn);
  if (!at_binders(r))
    return at_place(r)                                    ? jx_read_set(r, jaxpr, eqn)
           : jx_peek_name(r).at[jx_peek_name(r).n] == ':' ? jx_read_swap(r, jaxpr, eqn)
                                                          : read_application(r, jaxpr, eqn);
  // The results are no operands of their own equation: the binders are read when the rest is.
  const char *binders = r->at;
  while (*r->at != '=' && !(r->at[0] == '<' && r->at[1] == '-')) {
    const char *next = strchr("[({<", *r->at) ? jx_skip_group(r, r->at) : NULL;
    r->at = next ? next : r->at + 1;
  }
  if (*r->at == '<') {
    r->at = binders;
    return jx_read_get(r, jaxpr, eqn);
  }
  r->at++;
  jx_skip_space(r);
  if (!read_application(r, jaxpr, eqn))
    return false;
  const char *end = r->at;
  r->at = binders;
  bool ok = jx_read_binders(r, jaxpr, '=', &eqn->out, &eqn->n_out);
  r->at = end;
  return ok;
}

static bool read_eqns(Reader *r, Jaxpr *jaxpr) {
  Eqn **link = &jaxpr->first;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == ';') {
      r->at++;
      continue;
    }
    if (at_in(r, r->at))
      return true;
    if (r->at >= r->end)
      return jx_reader_error(r, r->at, "the text ends within a jaxpr; expected 'in (RESULTS) }'");
    if (!read_eqn(r, jaxpr, link))
      return false;
    link = &(*link)->next;
    jaxpr->n_eqns++;
  }
}

static bool read_results(Reader *r, Jaxpr *jaxpr) {
  int capacity = 0, dropped = 0;
  if (!jx_expect(r, "in") || !jx_expect(r, "("))
    return false;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == ')')
      break;
    if (*r->at == ',') {
      r->at++;
      continue;
    }
    jaxpr->out = jx_room_for_one(r->arena, jaxpr->out, jaxpr->n_out, &capacity, sizeof(Atom));
    const int here = dropped < jaxpr->n_dropped ? dropped : jaxpr->n_dropped - 1;
    dropped += *r->at == '_';
    if (!jx_read_atom(r, jaxpr, here, &jaxpr->out[jaxpr->n_out]))
      return false;
    jaxpr->n_out++;
  }
  r->at++;
  return true;
}

// --- Jaxprs --------------------------------------------------------------------------------------------------

bool jx_at_jaxpr(const Reader *r) {
  if (*r->at == '{')
    return at_word(r, skip_space_at(r->at + 1), "lambda");
  if (!at_word(r, r->at, "let"))
    return false;
  const char *at = skip_space_at(r->at + 3);
  while (*at && !strchr(" \t\r\n=", *at))
    at++;
  at = skip_space_at(at);
  return *at == '=' && skip_space_at(at + 1)[0] == '{';
}

static void note_consts(Reader *r, Jaxpr *jaxpr) {
  if (jaxpr->n_consts == 0)
    return;
  *r->closed_link = jaxpr;
  r->closed_link = &jaxpr->next_closed;
}

// Numbers the constants: the top jaxpr's, then those of nested ones in the order of the text.
static void number_consts(HlJaxpr *out, Jaxpr *first) {
  int n = out->top->n_consts;
  for (Jaxpr *jaxpr = first; jaxpr; jaxpr = jaxpr->next_closed) {
    jaxpr->first_const = jaxpr == out->top ? 0 : n;
    n += jaxpr == out->top ? 0 : jaxpr->n_consts;
  }
  out->n_consts = n;
  out->consts = HL_ARRAY(out->arena, const Binder *, n + 1);
  for (Jaxpr *jaxpr = first; jaxpr; jaxpr = jaxpr->next_closed)
    for (int k = 0; k < jaxpr->n_consts; k++)
      out->consts[jaxpr->first_const + k] = &jaxpr->constvar[k];
}

// { lambda ... }
static bool read_lambda(Reader *r, Jaxpr **out) {
  Jaxpr *jaxpr = *out = HL_NEW(r->arena, Jaxpr);
  jaxpr->vars = hl_syms_new(r->arena);
  jaxpr->scope = r->scope;
  if (!jx_enter(r))
    return false;
  jx_skip_space(r);
  jaxpr->loc = jx_reader_loc(r, r->at);
  if (!jx_expect(r, "{") || !jx_expect(r, "lambda") ||
      !jx_read_binders(r, jaxpr, ';', &jaxpr->constvar, &jaxpr->n_consts))
    return false;
  note_consts(r, jaxpr);
  if (!jx_read_binders(r, jaxpr, '.', &jaxpr->in, &jaxpr->n_in) || !jx_expect(r, "let"))
    return false;
  r->depth++;
  if (!read_eqns(r, jaxpr) || !read_results(r, jaxpr))
    return false;
  r->depth--;
  jx_skip_space(r);
  if (*r->at == ':') {  // effects
    r->at++;
    jx_skip_space(r);
    const char *next = *r->at == '{' ? jx_skip_group(r, r->at) : NULL;
    if (!next)
      return jx_reader_error(r, r->at, "expected the effects, '{ ... }'");
    r->at = next;
  }
  if (!jx_expect(r, "}"))
    return false;
  jx_leave(r);
  return true;
}

bool jx_read_jaxpr(Reader *r, Jaxpr **out) {
  Scope *outer = r->scope;
  int capacity = 0;
  jx_skip_space(r);
  while (at_word(r, r->at, "let")) {
    if (r->scope == outer) {
      r->scope = HL_NEW(r->arena, Scope);
      r->scope->outer = outer;
    }
    r->at += 3;
    jx_skip_space(r);
    Scope *scope = r->scope;
    const char *name = r->at;
    while (*r->at && !strchr(" \t\r\n=", *r->at))
      r->at++;
    Shared shared = {.name = {name, (size_t)(r->at - name)}};
    r->depth++;
    if (!jx_expect(r, "=") || !read_lambda(r, &shared.jaxpr) || !jx_expect(r, "in"))
      return false;
    r->depth--;
    scope->shared = jx_room_for_one(r->arena, scope->shared, scope->n, &capacity, sizeof(Shared));
    scope->shared[scope->n++] = shared;
    jx_skip_space(r);
  }
  bool ok = read_lambda(r, out);
  r->scope = outer;
  return ok;
}

bool hl_jaxpr_sniff(HlStr bytes) {
  char text[256];  // ends in NUL, as the functions above want
  size_t k = 0;
  while (k < bytes.n && (strchr(" \t\r\n", bytes.at[k]) || bytes.at[k] == '#') && bytes.at[k]) {
    const char *newline = memchr(bytes.at + k, '\n', bytes.n - k);
    if (bytes.at[k] != '#')
      k++;
    else
      k = newline ? (size_t)(newline - bytes.at) : bytes.n;
  }
  const size_t n = bytes.n - k < sizeof text - 1 ? bytes.n - k : sizeof text - 1;
  memcpy(text, bytes.at + k, n);
  text[n] = 0;
  Reader r = {.start = text, .at = text, .end = text + n};
  return jx_at_jaxpr(&r);
}

HlJaxpr *hl_jaxpr_parse(HlCx *cx, HlSource *source) {
  HlArena *arena = hl_arena_new();
  HlJaxpr *jaxpr = HL_NEW(arena, HlJaxpr);
  jaxpr->arena = arena;
  jaxpr->source = hl_source_ref(source);
  jaxpr->shapes = hl_shapes_new(arena);
  HlStr bytes = hl_source_bytes(source);
  Reader r = {.cx = cx,
              .out = jaxpr,
              .arena = arena,
              .start = bytes.at,
              .at = bytes.at,
              .end = bytes.at + bytes.n,
              .depth = -1,
              .line_start = bytes.at,
              .line = 1};
  Jaxpr *closed = NULL;
  r.closed_link = &closed;
  bool ok;
  if (bytes.n >= UINT32_MAX)
    ok = hl_error_kind(cx, HL_LIMIT, (HlPos){source, 0}, "the text is longer than 4 GiB");
  else if (memchr(bytes.at, 0, bytes.n))
    ok = hl_error(cx, (HlPos){source, 0}, "the text holds NUL bytes");
  else
    ok = jx_read_jaxpr(&r, &jaxpr->top);
  if (ok) {
    jx_skip_space(&r);
    if (r.at < r.end)
      ok = jx_reader_error(&r, r.at, "expected the end of the text after the jaxpr");
  }
  if (!ok) {
    hl_jaxpr_free(jaxpr);
    return NULL;
  }
  number_consts(jaxpr, closed);
  return jaxpr;
}

void hl_jaxpr_free(HlJaxpr *jaxpr) {
  if (!jaxpr)
    return;
  hl_source_unref(jaxpr->source);
  hl_arena_free(jaxpr->arena);
}

int hl_jaxpr_n_equations(const HlJaxpr *jaxpr) {
  return jaxpr->n_eqns;
}

HlJaxprEquation hl_jaxpr_equation(const HlJaxpr *jaxpr, int k) {
  const Eqn *eqn = jaxpr->eqns[k];
  const char *start = hl_source_bytes(jaxpr->source).at;
  return (HlJaxprEquation){.loc = eqn->loc,
                           .text = {start + eqn->loc - 1, eqn->end - eqn->loc},
                           .primitive = eqn->prim,
                           .depth = eqn->depth,
                           .line = eqn->line};
}
