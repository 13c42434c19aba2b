// mlir/text/lex.h: the bytes of MLIR text, cut into tokens where the parser stands (mlir.md 1.1).
//
// There are no token objects: the cursor `at` always stands on the first byte of a token, blanks and
// comments skipped. The source ends in a NUL, which no token contains, and a line `// -----` ends a
// section: `end` moves there once it is met, and the cursor goes no further.
#ifndef HILO_MLIR_LEX_H
#define HILO_MLIR_LEX_H

#include "base/compiler.h"
#include "hilo/base.h"

typedef struct MlLex {
  const char *at;     // the first byte of the next token, or `end`
  const char *begin;  // of the whole source: positions count from here
  const char *end;    // of what is to be read now
  HlCx *cx;
  const HlSource *source;
  HlBuf unescaped;  // the last string that had escapes
} MlLex;

enum {  // what a byte can be; several at once
  ML_SPACE = 1,
  ML_START = 2,   // starts a bare word
  ML_WORD = 4,    // continues one
  ML_SUFFIX = 8,  // continues the name of a value, a block, an alias
  ML_DIGIT = 16,
  ML_HEX = 32
};
extern const uint8_t ml_lex_class[256];

static inline bool ml_lex_is(char c, int classes) {
  return ml_lex_class[(unsigned char)c] & classes;
}

const char *ml_lex_skip_slow(MlLex *in, const char *s);
static inline const char *ml_lex_skip(MlLex *in, const char *s) {
  if (HL_LIKELY((unsigned char)*s > ' ' && *s != '/'))
    return s;
  if (HL_LIKELY(*s == ' ' && (unsigned char)s[1] > ' ' && s[1] != '/'))
    return s + 1;
  return ml_lex_skip_slow(in, s);
}

// Moves the cursor to the token at or after `s`.
static inline void ml_lex_move(MlLex *in, const char *s) {
  in->at = ml_lex_skip(in, s);
}

static inline bool ml_lex_at_end(const MlLex *in) {
  return in->at >= in->end;
}

static inline bool ml_lex_eat(MlLex *in, char c) {
  if (*in->at != c)
    return false;
  ml_lex_move(in, in->at + 1);
  return true;
}

static inline const char *ml_lex_word_end(const char *s) {
  while (ml_lex_is(*s, ML_WORD))
    s++;
  return s;
}

static inline const char *ml_lex_suffix_end(const char *s) {
  while (ml_lex_is(*s, ML_SUFFIX))
    s++;
  return s;
}

// Whether a bare word stands here, neither more nor less.
static inline bool ml_lex_at_word(const MlLex *in, const char *word) {
  const size_t n = strlen(word);
  return strncmp(in->at, word, n) == 0 && !ml_lex_is(in->at[n], ML_WORD);
}

static inline bool ml_lex_eat_word(MlLex *in, const char *word) {
  if (HL_LIKELY(*in->at != *word) || !ml_lex_at_word(in, word))
    return false;
  ml_lex_move(in, in->at + strlen(word));
  return true;
}

// Whether a run of bytes is a literal.
#define ML_IS(word, literal) \
  ((word).n == sizeof(literal) - 1 && memcmp((word).at, literal, sizeof(literal) - 1) == 0)

// Whether "->" stands here, and past it.
static inline bool ml_lex_at_arrow(const MlLex *in) {
  return in->at[0] == '-' && in->at[1] == '>';
}
bool ml_lex_eat_arrow(MlLex *in);

// The bare word at the cursor, which may be empty; the cursor goes past it.
HlStr ml_lex_word(MlLex *in);

HlPos ml_lex_pos(const MlLex *in, const char *at);
// Reports "expected WANTED, but found ..." at the cursor.
bool ml_lex_expected(MlLex *in, const char *format, ...) HL_PRINTF(2, 3);
// Eats a byte, a word or "->", or reports that it was expected.
bool ml_lex_need(MlLex *in, char c);
bool ml_lex_need_word(MlLex *in, const char *word);
bool ml_lex_need_arrow(MlLex *in);

// Whether a line "// -----" starts at `s`, which parts sections.
bool ml_lex_at_separator(const MlLex *in, const char *s);
// The first such line at or after `s`, or the NUL at the end of the source.
const char *ml_lex_next_separator(const MlLex *in, const char *s);

typedef enum MlNumberKind {
  ML_NUMBER_NONE,
  ML_NUMBER_INT,
  ML_NUMBER_HEX,
  ML_NUMBER_FLOAT
} MlNumberKind;
typedef struct MlNumber {
  MlNumberKind kind;
  bool negative;
  bool too_big;        // INT, HEX: needs more than 64 bits
  uint64_t magnitude;  // INT, HEX
  double f;            // FLOAT, with its sign
} MlNumber;
// Reads the number at `s` and returns its end; `s` itself when there is none.
const char *ml_lex_number(const char *s, MlNumber *out);
// An integer without type that fits int64_t.
bool ml_lex_int(MlLex *in, int64_t *out);

// Reads a quoted string. The bytes lie in the source, or in in->unescaped until the next string.
bool ml_lex_string(MlLex *in, HlStr *out);
// The closing quote of the string that opens at `s`; NULL: it is never closed on its line.
const char *ml_lex_string_end(const char *s);
// The end of what stands at `s` up to the bracket that closes an outer one, or a comma or a blank when
// `stop_at_blank`, at level 0; brackets < ( [ { balanced, strings skipped, "->" no bracket. NULL: unbalanced.
const char *ml_lex_balanced(const char *s, bool stop_at_blank);

// The value of a hex digit; -1: none.
static inline int ml_lex_hex(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  const char lower = (char)(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

#endif
