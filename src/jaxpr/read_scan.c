// Reads jaxpr text: errors, blanks, words and brackets.
#include <string.h>

#include "base/ascii.h"
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
                       "nested more than %d deep (limit nesting)", hl_cx_limits(r->cx)->nesting);
}

// Over a note that pretty_print(source_info=True) puts at a line's end: `# file.py:4:30 (f)`.
static const char *skip_note(const char *at) {
  return *at == '#' && strchr(" \r\n", at[1]) ? at + strcspn(at, "\n") : at;
}

const char *jx_skip_blanks_at(const char *at) {
  while (*at == ' ' || *at == '\t' || *at == '\r')
    at++;
  return skip_note(at);
}

const char *jx_skip_space_at(const char *at) {
  for (;;) {
    at = jx_skip_blanks_at(at);
    if (*at != '\n')
      return at;
    at++;
  }
}

void jx_skip_space(Reader *r) {
  r->at = jx_skip_space_at(r->at);
}

HlStr jx_peek_word(const Reader *r, const char *at) {
  size_t n = 0;
  while (is_alnum(at[n]) || at[n] == '_')
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

bool jx_expect(Reader *r, const char *what) {
  jx_skip_space(r);
  const size_t n = strlen(what);
  if (strncmp(r->at, what, n) != 0)
    return jx_reader_error(r, r->at, "expected '%s'", what);
  r->at += n;
  return true;
}

bool jx_at_word(const Reader *r, const char *at, const char *word) {
  return hl_str_is(jx_peek_word(r, at), word);
}
