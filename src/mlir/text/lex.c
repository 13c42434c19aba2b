// Reads the tokens of MLIR text: blanks and comments, words, numbers, strings.
#include "mlir/text/lex.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"

#define S ML_SPACE
#define A (ML_START | ML_WORD | ML_SUFFIX)
#define H (ML_START | ML_WORD | ML_SUFFIX | ML_HEX)
#define W (ML_WORD | ML_SUFFIX)
#define D (ML_WORD | ML_SUFFIX | ML_DIGIT | ML_HEX)

// clang-format off
const uint8_t ml_lex_class[256] = {
  [' '] = S, ['\t'] = S, ['\n'] = S, ['\r'] = S,
  ['a'] = H, ['b'] = H, ['c'] = H, ['d'] = H, ['e'] = H, ['f'] = H, ['g'] = A, ['h'] = A, ['i'] = A,
  ['j'] = A, ['k'] = A, ['l'] = A, ['m'] = A, ['n'] = A, ['o'] = A, ['p'] = A, ['q'] = A, ['r'] = A,
  ['s'] = A, ['t'] = A, ['u'] = A, ['v'] = A, ['w'] = A, ['x'] = A, ['y'] = A, ['z'] = A,
  ['A'] = H, ['B'] = H, ['C'] = H, ['D'] = H, ['E'] = H, ['F'] = H, ['G'] = A, ['H'] = A, ['I'] = A,
  ['J'] = A, ['K'] = A, ['L'] = A, ['M'] = A, ['N'] = A, ['O'] = A, ['P'] = A, ['Q'] = A, ['R'] = A,
  ['S'] = A, ['T'] = A, ['U'] = A, ['V'] = A, ['W'] = A, ['X'] = A, ['Y'] = A, ['Z'] = A, ['_'] = A,
  ['0'] = D, ['1'] = D, ['2'] = D, ['3'] = D, ['4'] = D, ['5'] = D, ['6'] = D, ['7'] = D, ['8'] = D,
  ['9'] = D, ['$'] = W, ['.'] = W, ['-'] = ML_SUFFIX,
};
// clang-format on

#undef S
#undef A
#undef H
#undef W
#undef D

bool ml_lex_at_separator(const MlLex *in, const char *s) {
  return (s == in->begin || s[-1] == '\n') && strncmp(s, "// -----", 8) == 0 &&
         (s[8] == 0 || ml_lex_is(s[8], ML_SPACE));
}

const char *ml_lex_next_separator(const MlLex *in, const char *s) {
  for (; (s = strstr(s, "// -----")); s++)
    if (ml_lex_at_separator(in, s))
      return s;
  return in->begin + hl_source_bytes(in->source).n;
}

const char *ml_lex_skip_slow(MlLex *in, const char *s) {
  for (;;) {
    while (ml_lex_is(*s, ML_SPACE))
      s++;
    if (s[0] != '/' || s[1] != '/')
      return s;
    if (s >= in->end)
      return s;
    if (ml_lex_at_separator(in, s)) {
      in->end = s;
      return s;
    }
    while (*s && *s != '\n')
      s++;
  }
}

HlPos ml_lex_pos(const MlLex *in, const char *at) {
  const size_t offset = (size_t)(at - in->begin);
  return (HlPos){in->source, offset < UINT32_MAX ? (HlLoc)(offset + 1) : 0};
}

// Describes the token at the cursor, for messages.
static void describe(const MlLex *in, HlBuf *out) {
  const char *s = in->at;
  if (ml_lex_at_end(in)) {
    hl_buf_puts(out, in->begin[s - in->begin] ? "the end of the section" : "the end of the text");
    return;
  }
  if (*s == '"') {
    hl_buf_puts(out, "a string");
    return;
  }
  if (*s == 0) {
    hl_buf_puts(out, "a NUL byte");
    return;
  }
  const char *end = s + 1;
  if (strchr("%@#!^", *s))
    end = ml_lex_suffix_end(end);
  else if (ml_lex_is(*s, ML_WORD))
    end = ml_lex_word_end(end);
  else if (ml_lex_at_arrow(in))
    end = s + 2;
  const size_t n = (size_t)(end - s);
  hl_buf_putc(out, '\'');
  hl_buf_c_escape(out, s, n < 60 ? n : 60);
  hl_buf_puts(out, n < 60 ? "'" : "...'");
}

// Where to point when something else than the token at the cursor was expected: behind the token before, when the
// cursor is the first of its line, as it is there that something is missing.
static const char *place_of_want(const MlLex *in) {
  const char *s = in->at;
  for (;;) {
    while (s > in->begin && ml_lex_is(s[-1], ML_SPACE) && s[-1] != '\n')
      s--;
    if (s == in->begin)
      return in->at;
    if (s[-1] != '\n')
      return s;
    const char *line = s - 1;
    while (line > in->begin && line[-1] != '\n')
      line--;
    const char *comment = line;
    while (comment < s - 1 && !(comment[0] == '/' && comment[1] == '/'))
      comment += *comment == '"' && ml_lex_string_end(comment)
                     ? ml_lex_string_end(comment) - comment + 1
                     : 1;
    if (ml_lex_at_separator(in, line))
      return in->at;
    s = comment;
  }
}

bool ml_lex_expected(MlLex *in, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_buf_puts(&text, ", but found ");
  describe(in, &text);
  const char *at = place_of_want(in);
  const bool is_first = memchr(at, '\n', (size_t)(in->at - at)) != NULL;
  hl_error(in->cx, ml_lex_pos(in, is_first ? at : in->at), "expected %s", text.at);
  hl_buf_free(&text);
  return false;
}

bool ml_lex_need(MlLex *in, char c) {
  return HL_LIKELY(ml_lex_eat(in, c)) || ml_lex_expected(in, "'%c'", c);
}

bool ml_lex_need_word(MlLex *in, const char *word) {
  return ml_lex_eat_word(in, word) || ml_lex_expected(in, "'%s'", word);
}

bool ml_lex_eat_arrow(MlLex *in) {
  if (!ml_lex_at_arrow(in))
    return false;
  ml_lex_move(in, in->at + 2);
  return true;
}

bool ml_lex_need_arrow(MlLex *in) {
  return ml_lex_eat_arrow(in) || ml_lex_expected(in, "'->'");
}

HlStr ml_lex_word(MlLex *in) {
  const char *begin = in->at;
  if (!ml_lex_is(*begin, ML_START))
    return (HlStr){begin, 0};
  const char *end = ml_lex_word_end(begin);
  ml_lex_move(in, end);
  return (HlStr){begin, (size_t)(end - begin)};
}

// --- Numbers ----------------------------------------------------------------------------------------------

static const char *hex_number(const char *s, MlNumber *out) {
  out->kind = ML_NUMBER_HEX;
  for (; ml_lex_is(*s, ML_HEX); s++) {
    out->too_big |= out->magnitude >> 60 != 0;
    out->magnitude = out->magnitude << 4 | (uint64_t)ml_lex_hex(*s);
  }
  return s;
}

const char *ml_lex_number(const char *s, MlNumber *out) {
  *out = (MlNumber){.negative = *s == '-'};
  const char *begin = s;
  s += out->negative;
  if (!ml_lex_is(*s, ML_DIGIT))
    return begin;
  if (s[0] == '0' && s[1] == 'x' && ml_lex_is(s[2], ML_HEX))
    return hex_number(s + 2, out);
  uint64_t value = 0;
  bool too_big = false;
  for (; ml_lex_is(*s, ML_DIGIT); s++) {
    const uint64_t digit = (uint64_t)(*s - '0');
    too_big |= value > (UINT64_MAX - digit) / 10;
    value = value * 10 + digit;
  }
  out->kind = ML_NUMBER_INT;
  out->magnitude = value;
  out->too_big = too_big;
  if (*s != '.')
    return s;
  out->kind = ML_NUMBER_FLOAT;
  int64_t exponent = 0;
  for (s++; ml_lex_is(*s, ML_DIGIT); s++, exponent--) {
    const uint64_t digit = (uint64_t)(*s - '0');
    too_big |= value > (UINT64_MAX - digit) / 10;
    value = value * 10 + digit;
  }
  s = base_read_exponent(s, &exponent);
  if (too_big || !base_exact_double(value, exponent, &out->f)) {
    out->f = base_read_double(begin, NULL);
    return s;
  }
  out->f = out->negative ? -out->f : out->f;
  return s;
}

bool ml_lex_int(MlLex *in, int64_t *out) {
  const char *s = in->at;
  if (HL_LIKELY(ml_lex_is(*s, ML_DIGIT) && !ml_lex_is(s[1], ML_WORD))) {  // one digit: most of them
    *out = *s - '0';
    ml_lex_move(in, s + 1);
    return true;
  }
  MlNumber number;
  const char *end = ml_lex_number(s, &number);
  if (end == s || number.kind == ML_NUMBER_FLOAT)
    return ml_lex_expected(in, "an integer");
  const uint64_t limit = (uint64_t)INT64_MAX + number.negative;
  if (number.too_big || number.magnitude > limit)
    return hl_error(in->cx, ml_lex_pos(in, s), "integer value too large");
  *out = (int64_t)(number.negative ? 0 - number.magnitude : number.magnitude);
  ml_lex_move(in, end);
  return true;
}

// --- Strings ----------------------------------------------------------------------------------------------

const char *ml_lex_string_end(const char *s) {
  for (s++;; s++) {
    if (*s == '"')
      return s;
    if (*s == '\\' && s[1])
      s++;
    else if (*s == 0 || *s == '\n')
      return NULL;
  }
}

// What follows a backslash at `s`; NULL: nothing that MLIR knows.
static const char *unescape(const char *s, HlBuf *out) {
  const int high = ml_lex_hex(s[0]), low = high < 0 ? -1 : ml_lex_hex(s[1]);
  if (low >= 0) {
    hl_buf_putc(out, (char)(high << 4 | low));
    return s + 2;
  }
  if (*s == '"' || *s == '\\')
    hl_buf_putc(out, *s);
  else if (*s == 'n')
    hl_buf_putc(out, '\n');
  else if (*s == 't')
    hl_buf_putc(out, '\t');
  else
    return NULL;
  return s + 1;
}

static bool unescape_all(MlLex *in, const char *s, const char *end, HlStr *out) {
  HlBuf *to = &in->unescaped;
  to->n = 0;
  while (s < end) {
    const char *stop = memchr(s, '\\', (size_t)(end - s));
    hl_buf_add(to, s, (size_t)((stop ? stop : end) - s));
    if (!stop)
      break;
    s = unescape(stop + 1, to);
    if (!s)
      return hl_error(in->cx, ml_lex_pos(in, stop), "unknown escape in string literal");
  }
  *out = (HlStr){to->at, to->n};
  return true;
}

bool ml_lex_string(MlLex *in, HlStr *out) {
  const char *begin = in->at;
  if (*begin != '"')
    return ml_lex_expected(in, "a string");
  const char *end = ml_lex_string_end(begin);
  if (!end)
    return hl_error(in->cx, ml_lex_pos(in, begin),
                    "expected '\"' in string literal: it is never closed");
  *out = (HlStr){begin + 1, (size_t)(end - begin - 1)};
  if (HL_UNLIKELY(memchr(out->at, '\\', out->n) != NULL) && !unescape_all(in, begin + 1, end, out))
    return false;
  ml_lex_move(in, end + 1);
  return true;
}

const char *ml_lex_balanced(const char *s, bool stop_at_blank) {
  int64_t depth = 0;
  for (;; s++) {
    switch (*s) {
    case '<':
    case '(':
    case '[':
    case '{': depth++; break;
    case '>':
    case ')':
    case ']':
    case '}':
      if (depth == 0)
        return s;
      depth--;
      if (depth == 0 && stop_at_blank && (s[1] == ' ' || s[1] == '\n' || s[1] == 0))
        return s + 1;
      break;
    case '-': s += s[1] == '>'; break;
    case '/':
      if (s[-1] == '\n' && strncmp(s, "// -----", 8) == 0)  // the section ends
        return NULL;
      break;
    case '"':
      s = ml_lex_string_end(s);
      if (!s)
        return NULL;
      break;
    case ' ':
    case '\t':
    case '\n':
    case '\r':
    case ',':
    case ':':
    case '=':
      if (depth == 0 && stop_at_blank)
        return s;
      break;
    case 0: return depth == 0 && stop_at_blank ? s : NULL;
    }
  }
}
