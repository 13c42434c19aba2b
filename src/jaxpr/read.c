// Reads jaxpr text (mlir.md 7.1) into its tree: jaxprs and their equations.
//
// jaxpr   = { "let" NAME "=" jaxpr "in" } "{" "lambda" binders ";" binders "." "let" eqns "in" "(" atoms ")" "}"
// eqn     = [ binders "=" ] PRIMITIVE [ "[" params "]" ] atoms
// binders = { NAME [ ":" type ] }
//
// Until early 2020 free variables stood between constants and inputs, results in square brackets or alone, and results
// that are elements of a tuple in parentheses.
//
// Equations end at `;` or at a line's end, but JAX breaks long lists of operands: a line that starts
// with neither a binder nor an equation, or that is indented deeper than the equation, goes on.
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "jaxpr/read.h"

// --- Equations -----------------------------------------------------------------------------------------------

// Whether `in (`, the end of the equations, stands at `at`.
static bool at_in(const Reader *r, const char *at) {
  if (!jx_at_word(r, at, "in") || at[2] == ':')
    return false;
  at = jx_skip_space_at(at + 2);
  if (!r->has_free || *at == '(')
    return *at == '(';
  HlStr name = jx_peek_word(r, at);
  return *at == '[' || *jx_skip_space_at(at + name.n) == '}';
}

// Whether binders and `=` start here (or `<-`). Binders without types stand on one line.
static bool at_binders(const Reader *r) {
  const char *at = r->at;
  bool typed = true;
  for (;;) {
    if (r->has_free)
      at += strspn(at, "() ");
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
    while (*at == ' ' || *at == '\t' || *at == '\r' || (typed && *at == '\n') ||
           (r->has_free && *at == ')'))
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
  if (r->has_free && *r->at == '(' && at_binders(r))
    return false;
  if (jx_is_literal_word(word) || word.n == 0 || is_digit(*r->at))
    return jx_at_literal(r, jaxpr) && (deeper || word.n == 0 || is_digit(*r->at));
  return deeper && word.at[word.n] != ':' && word.at[word.n] != '[';
}

bool jx_read_operand(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  Atom atom;
  if (!jx_read_atom(r, jaxpr, jaxpr->n_dropped - 1, &atom))
    return false;
  vec_push_in(r->arena, &eqn->in, atom);
  return true;
}

static bool read_operands(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  for (;;) {
    r->at = jx_skip_blanks_at(r->at);
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
    if (!jx_read_operand(r, jaxpr, eqn))
      return false;
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
  while (is_alnum(r->at[n]) || (r->at[n] && strchr("_-.", r->at[n])))
    n++;
  return (HlStr){r->at, n};
}

static void note_eqn(Reader *r, Eqn *eqn) {
  vec_push_in(r->arena, &r->out->eqns, eqn);
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
  const char *inside = jx_skip_space_at(name.at + name.n + 1);
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
  VEC(Atom) results = {0};
  int dropped = 0;
  if (!jx_expect(r, "in"))
    return false;
  jx_skip_space(r);
  const char close = !r->has_free || *r->at == '(' ? ')' : *r->at == '[' ? ']' : '}';
  if (close != '}' && !jx_expect(r, close == ']' ? "[" : "("))
    return false;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == close)
      break;
    if (*r->at == ',') {
      r->at++;
      continue;
    }
    if (*r->at == '*' && !hl_syms_find(jaxpr->vars, "*", 1)) {  // the unit value of old: nothing
      r->at++;
      continue;
    }
    const int here = dropped < jaxpr->n_dropped ? dropped : jaxpr->n_dropped - 1;
    dropped += *r->at == '_';
    Atom result;
    if (!jx_read_atom(r, jaxpr, here, &result))
      return false;
    vec_push_in(r->arena, &results, result);
  }
  jaxpr->out = results.at;
  jaxpr->n_out = results.n;
  r->at += close != '}';
  return true;
}

// --- Jaxprs --------------------------------------------------------------------------------------------------

bool jx_at_jaxpr(const Reader *r) {
  if (*r->at == '{')
    return jx_at_word(r, jx_skip_space_at(r->at + 1), "lambda");
  if (!jx_at_word(r, r->at, "let"))
    return false;
  const char *at = jx_skip_space_at(r->at + 3);
  while (*at && !strchr(" \t\r\n=", *at))
    at++;
  at = jx_skip_space_at(at);
  return *at == '=' && jx_skip_space_at(at + 1)[0] == '{';
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

// Behind the constants: the free variables of old, one more list before the inputs. Hilo takes them for constants, too.
static bool read_free(Reader *r, Jaxpr *jaxpr) {
  const char *at = jx_skip_space_at(r->at);
  for (HlStr name; (name = jx_peek_word(r, at)).n > 0;)
    at = jx_skip_space_at(name.at + name.n);
  if (*at != ';')
    return true;
  Binder *free = NULL;
  int n = 0;
  r->has_free = true;
  if (!jx_read_binders(r, jaxpr, ';', &free, &n))
    return false;
  VEC(Binder) all = {0};
  for (int k = 0; k < jaxpr->n_consts + n; k++)
    vec_push_in(r->arena, &all,
                k < jaxpr->n_consts ? jaxpr->constvar[k] : free[k - jaxpr->n_consts]);
  jaxpr->constvar = all.at;
  jaxpr->n_consts = all.n;
  return true;
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
      !jx_read_binders(r, jaxpr, ';', &jaxpr->constvar, &jaxpr->n_consts) || !read_free(r, jaxpr))
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
  jx_skip_space(r);
  while (jx_at_word(r, r->at, "let")) {
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
    vec_push_in(r->arena, &scope->shared, shared);
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

static bool are_typed(const Binder *binder, int n) {
  for (int k = 0; k < n; k++)
    if (!binder[k].aval)
      return false;
  return true;
}

bool hl_jaxpr_is_typed(const HlJaxpr *jaxpr) {
  const Jaxpr *top = jaxpr->top;
  return !jaxpr->is_dynamic && are_typed(top->constvar, top->n_consts) && are_typed(top->in, top->n_in);
}

int hl_jaxpr_n_equations(const HlJaxpr *jaxpr) {
  return jaxpr->eqns.n;
}

HlJaxprEquation hl_jaxpr_equation(const HlJaxpr *jaxpr, int k) {
  const Eqn *eqn = jaxpr->eqns.at[k];
  const char *start = hl_source_bytes(jaxpr->source).at;
  return (HlJaxprEquation){.loc = eqn->loc,
                           .text = {start + eqn->loc - 1, eqn->end - eqn->loc},
                           .primitive = eqn->prim,
                           .depth = eqn->depth,
                           .line = eqn->line};
}
