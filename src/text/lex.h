// text/lex.h: the bytes of HLO text, cut into tokens where the parser stands (hlo.md 1.1).
//
// There are no token objects. The cursor `at` always stands on the first byte of a token, white
// space and comments skipped; the parser looks at that byte and asks for what it expects. The
// source ends in a NUL, which no token contains, so that scanning needs no bounds checks.
#ifndef HILO_TEXT_LEX_H
#define HILO_TEXT_LEX_H

#include "base/compiler.h"
#include "hilo/base.h"

typedef struct Lex {
  const char *at;     // the first byte of the next token, or `end`
  const char *begin;  // of the whole source: positions count from here
  const char *end;    // of what is to be read now; a separator between modules, once met, moves it
  HlCx *cx;
  const HlSource *source;
  HlBuf unescaped;  // the last string that had escapes
} Lex;

enum {            // what a byte can be; several at once
  LEX_SPACE = 1,  // space, tab, CR, LF
  LEX_START = 2,  // starts an identifier
  LEX_IDENT = 4,  // continues one
  LEX_DIGIT = 8,
  LEX_SHAPE = 16,  // occurs inside the brackets and braces of an array shape without white space
  LEX_LABEL = 32,  // occurs in dim_labels
  LEX_BRACE = 64   // what says where a {...} ends: braces, quotes and the end of the source
};
extern const uint8_t lex_class[256];

static inline bool lex_is(char c, int classes) {
  return lex_class[(unsigned char)c] & classes;
}

// Whether two runs of n bytes are equal: memcmp for the short words of which text consists.
static inline bool lex_same(const char *a, const char *b, size_t n) {
  if (n >= 8) {
    if (hl_load_u64(a) != hl_load_u64(b) || hl_load_u64(a + n - 8) != hl_load_u64(b + n - 8))
      return false;
    return n <= 16 || memcmp(a + 8, b + 8, n - 16) == 0;
  }
  if (n >= 4)
    return hl_load_u32(a) == hl_load_u32(b) && hl_load_u32(a + n - 4) == hl_load_u32(b + n - 4);
  for (size_t k = 0; k < n; k++)
    if (a[k] != b[k])
      return false;
  return true;
}

// The first byte at or after `s` that belongs to a token.
const char *lex_skip_slow(Lex *in, const char *s);
static inline const char *lex_skip(Lex *in, const char *s) {
  if (HL_LIKELY((unsigned char)*s > ' ' && *s != '/'))
    return s;
  if (HL_LIKELY(*s == ' ' && (unsigned char)s[1] > ' ' && s[1] != '/'))
    return s + 1;
  return lex_skip_slow(in, s);
}

// Whether a line "// -----" starts here, which separates modules; a longer rule is a comment.
static inline bool lex_at_separator(const char *s) {
  return s[0] == '/' && strncmp(s, "// -----", 8) == 0 && strchr(" \t\r\n", s[8]);
}

// Moves the cursor to the token at or after `s`.
static inline void lex_move(Lex *in, const char *s) {
  in->at = lex_skip(in, s);
}

static inline const char *lex_ident_end(const char *s) {
  while (lex_is(*s, LEX_IDENT))
    s++;
  return s;
}

static inline bool lex_at_end(const Lex *in) {
  return in->at >= in->end;
}

static inline bool lex_at(const Lex *in, char c) {
  return *in->at == c && in->at < in->end;
}

static inline bool lex_eat(Lex *in, char c) {
  if (!lex_at(in, c))
    return false;
  lex_move(in, in->at + 1);
  return true;
}

// Eats two bytes that make one token ("->", "<=").
bool lex_eat_pair(Lex *in, const char *pair);
// Whether a bare word stands here, neither more nor less, that is not an attribute's name.
static inline bool lex_at_word(const Lex *in, const char *word) {
  if (HL_LIKELY(*in->at != *word))
    return false;
  const size_t n = strlen(word);
  if (strncmp(in->at, word, n) != 0)
    return false;
  const char after = in->at[n];
  return !lex_is(after, LEX_IDENT) && after != '=' && after != ':';
}

static inline bool lex_eat_word(Lex *in, const char *word) {
  if (!lex_at_word(in, word))
    return false;
  lex_move(in, in->at + strlen(word));
  return true;
}

HlPos lex_pos(const Lex *in, const char *at);
// Reports "expected WANTED, but found ..." at the cursor.
bool lex_expected(Lex *in, const char *format, ...) HL_PRINTF(2, 3);
// Eats a byte or reports that it was expected.
bool lex_need(Lex *in, char c, const char *where);

// A number as it is written.
typedef enum LexNumberKind { LEX_NONE, LEX_INT, LEX_DECIMAL, LEX_INF, LEX_NAN } LexNumberKind;
typedef struct LexNumber {
  LexNumberKind kind;
  int64_t i;         // INT: of 64 bits, whatever the sign
  double f;          // INT (of `i`), DECIMAL, INF
  bool negative;     // a minus was written
  uint64_t payload;  // NAN: 0 if none was written
} LexNumber;
// Reads the number at `s` and returns its end; NULL when there is none or it is out of range, which
// `why` then says.
const char *lex_number(const char *s, LexNumber *out, const char **why);
bool lex_int(Lex *in, int64_t *out);
// Reads a number as a double; nan too.
bool lex_double(Lex *in, double *out);

// Reads a quoted string. The bytes lie in the source, or in in->unescaped until the next string.
bool lex_string(Lex *in, HlStr *out);
// The first unescaped quote at or after `s`, or NULL.
const char *lex_string_end(const char *s, char quote);
// Reads a balanced {...}, braces included.
bool lex_json(Lex *in, HlStr *out);
// The end (after the brace) of the balanced {...} at `s`, strings skipped; NULL if there is none.
const char *lex_balanced(const char *s);

#endif
