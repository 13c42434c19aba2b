// lex.c: reads the tokens of HLO text: white space and comments, words, numbers, strings.

#include "text/lex.h"
#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/decimal.h"

#define S LEX_SPACE
#define A (LEX_START | LEX_IDENT)
#define T (LEX_START | LEX_IDENT | LEX_SHAPE)  // letters of layout items
#define L (LEX_START | LEX_IDENT | LEX_LABEL)
#define I LEX_IDENT
#define P LEX_SHAPE
#define D (LEX_IDENT | LEX_DIGIT | LEX_SHAPE | LEX_LABEL)

// clang-format off
const uint8_t lex_class[256] = {
  [' '] = S, ['\t'] = S, ['\n'] = S, ['\r'] = S,
  ['a'] = A, ['b'] = L, ['c'] = A, ['d'] = A, ['e'] = A, ['f'] = L, ['g'] = A, ['h'] = A, ['i'] = L,
  ['j'] = A, ['k'] = A, ['l'] = A, ['m'] = A, ['n'] = A, ['o'] = L, ['p'] = A, ['q'] = A, ['r'] = A,
  ['s'] = A, ['t'] = A, ['u'] = T, ['v'] = A, ['w'] = A, ['x'] = A, ['y'] = A, ['z'] = A,
  ['A'] = A, ['B'] = A, ['C'] = T, ['D'] = A, ['E'] = T, ['F'] = A, ['G'] = A, ['H'] = A, ['I'] = A,
  ['J'] = A, ['K'] = A, ['L'] = T, ['M'] = T, ['N'] = A, ['O'] = A, ['P'] = A, ['Q'] = A, ['R'] = A,
  ['S'] = T, ['T'] = T, ['U'] = A, ['V'] = A, ['W'] = A, ['X'] = A, ['Y'] = A, ['Z'] = A,
  ['0'] = D, ['1'] = D, ['2'] = D, ['3'] = D, ['4'] = D, ['5'] = D, ['6'] = D, ['7'] = D, ['8'] = D,
  ['9'] = D, ['_'] = A | LEX_LABEL, ['.'] = I, ['-'] = I | P | LEX_LABEL, ['>'] = LEX_LABEL,
  ['?'] = P | LEX_LABEL, [','] = P, ['<'] = P, ['='] = P, [':'] = P, ['('] = P, [')'] = P,
  ['*'] = P, ['#'] = P,
  ['{'] = LEX_BRACE, ['}'] = LEX_BRACE, ['"'] = LEX_BRACE, [0] = LEX_BRACE,
};
// clang-format on

#undef S
#undef A
#undef T
#undef L
#undef I
#undef P
#undef D

// The end of the comment at `s`, or `s` itself where there is none or it has no end.
static const char *comment_end(const Lex *in, const char *s) {
  if (s[1] == '*') {
    for (const char *k = s + 2; k < in->end; k++)
      if (k[0] == '*' && k[1] == '/')
        return k + 2;
    return s;
  }
  if (s[1] != '/')
    return s;
  while (*s != '\n' && *s != '\r' && *s)
    s++;
  return s;
}

const char *lex_skip_slow(Lex *in, const char *s) {
  for (;;) {
    while (lex_is(*s, LEX_SPACE))
      s++;
    if (*s != '/' || s >= in->end)
      return s;
    if (lex_at_separator(s) && (s == in->begin || s[-1] == '\n')) {
      in->end = s;
      return s;
    }
    const char *after = comment_end(in, s);
    if (after == s)
      return s;
    s = after;
  }
}

bool lex_eat_pair(Lex *in, const char *pair) {
  if (in->at[0] != pair[0] || in->at[1] != pair[1])
    return false;
  lex_move(in, in->at + 2);
  return true;
}

HlPos lex_pos(const Lex *in, const char *at) {
  const size_t offset = (size_t)(at - in->begin);
  return (HlPos){in->source, offset < UINT32_MAX ? (HlLoc)(offset + 1) : 0};
}

// Describes the token at the cursor, for messages.
static void describe(const Lex *in, HlBuf *out) {
  const char *s = in->at;
  if (s >= in->end) {
    hl_buf_puts(out, "the end of the text");
  } else if (s[0] == '/' && s[1] == '*') {
    hl_buf_puts(out, "a comment that is never closed");
  } else if (*s == '"' || *s == '\'') {
    hl_buf_puts(out, "a string");
  } else if (*s == 0) {
    hl_buf_puts(out, "a NUL byte");
  } else {
    const char *end = s + 1;
    if (*s == '%' || lex_is(*s, LEX_IDENT))
      end = lex_ident_end(end);
    const size_t n = (size_t)(end - s);
    hl_buf_putc(out, '\'');
    hl_buf_c_escape(out, s, n < 60 ? n : 60);
    hl_buf_puts(out, n < 60 ? "'" : "...'");
  }
}

bool lex_expected(Lex *in, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_buf_puts(&text, ", but found ");
  describe(in, &text);
  hl_error(in->cx, lex_pos(in, in->at), "expected %s", text.at);
  hl_buf_free(&text);
  return false;
}

bool lex_need(Lex *in, char c, const char *where) {
  return HL_LIKELY(lex_eat(in, c)) || lex_expected(in, "'%c' %s", c, where);
}

// --- Numbers -------------------------------------------------------------------------------------

// Reads "nan" or "nan(0x12)", `s` after the "nan".
static const char *read_nan(const char *s, LexNumber *out, const char **why) {
  out->kind = LEX_NAN;
  out->f = out->negative ? -(double)NAN : (double)NAN;
  out->payload = 0;
  if (*s != '(')
    return s;
  char *end;
  errno = 0;
  const bool hex =
      s[1] == '0' && s[2] == 'x' && (lex_is(s[3], LEX_DIGIT) || lex_is(s[3], LEX_START));
  const unsigned long long payload = hex ? strtoull(s + 3, &end, 16) : 0;
  if (!hex || end == s + 3 || *end != ')' || errno || payload == 0 || payload >> 52) {
    *why = "the payload of nan must look like (0x1234), be positive and have at most 52 bits";
    return NULL;
  }
  out->payload = payload;
  return end + 1;
}

static const char *finish_int(const char *end, uint64_t value, bool too_long, LexNumber *out,
                              const char **why) {
  if (too_long || (out->negative && value > (uint64_t)1 << 63)) {
    *why = "the integer does not fit 64 bits";
    return NULL;
  }
  out->kind = LEX_INT;
  out->i = (int64_t)(out->negative ? 0 - value : value);
  out->f = (double)out->i;
  return end;
}

static const char *finish_decimal(const char *begin, const char *end, uint64_t mantissa,
                                  int64_t exponent, bool too_long, LexNumber *out,
                                  const char **why) {
  out->kind = LEX_DECIMAL;
  double value;
  if (too_long || !base_exact_double(mantissa, exponent, &value))
    value = base_read_double(begin, NULL);
  if (isinf(value)) {
    *why = "the number is out of range for double (+/-1.79769e+308)";
    return NULL;
  }
  out->f = out->negative ? -value : value;
  return end;
}

const char *lex_number(const char *s, LexNumber *out, const char **why) {
  *why = NULL;
  out->negative = *s == '-';
  s += out->negative;
  const char *begin = s;
  uint64_t mantissa = 0;
  bool too_long = false;
  for (; lex_is(*s, LEX_DIGIT); s++) {
    const uint64_t digit = (uint64_t)(*s - '0');
    if (HL_UNLIKELY(mantissa > (UINT64_MAX - digit) / 10))
      too_long = true;
    mantissa = mantissa * 10 + digit;
  }
  if (s == begin && !(*s == '.' && lex_is(s[1], LEX_DIGIT) && out->negative)) {
    if (s[0] == 'i' && s[1] == 'n' && s[2] == 'f' && !lex_is(s[3], LEX_IDENT)) {
      out->kind = LEX_INF;
      out->f = out->negative ? -(double)INFINITY : (double)INFINITY;
      return s + 3;
    }
    if (s[0] == 'n' && s[1] == 'a' && s[2] == 'n' && !lex_is(s[3], LEX_IDENT))
      return read_nan(s + 3, out, why);
    return NULL;
  }
  int64_t exponent = 0;
  const char *end = s;
  if (*s == '.') {
    for (end = s + 1; lex_is(*end, LEX_DIGIT); end++) {
      const uint64_t digit = (uint64_t)(*end - '0');
      if (HL_UNLIKELY(mantissa > (UINT64_MAX - digit) / 10))
        too_long = true;
      mantissa = mantissa * 10 + digit;
      exponent--;
    }
  }
  const char *after = base_read_exponent(end, &exponent);
  if (after == s && *s != '.')
    return finish_int(s, mantissa, too_long, out, why);
  return finish_decimal(begin, after, mantissa, exponent, too_long, out, why);
}

bool lex_int(Lex *in, int64_t *out) {
  const char *s = in->at;
  if (HL_LIKELY(lex_is(*s, LEX_DIGIT) && !lex_is(s[1], LEX_IDENT))) {  // one digit: most of them
    *out = *s - '0';
    lex_move(in, s + 1);
    return true;
  }
  LexNumber number;
  const char *why;
  const char *end = lex_number(s, &number, &why);
  if (why)
    return hl_error(in->cx, lex_pos(in, s), "%s", why);
  if (!end || number.kind != LEX_INT)
    return lex_expected(in, "an integer");
  *out = number.i;
  lex_move(in, end);
  return true;
}

bool lex_double(Lex *in, double *out) {
  LexNumber number;
  const char *why;
  const char *end = lex_number(in->at, &number, &why);
  if (why)
    return hl_error(in->cx, lex_pos(in, in->at), "%s", why);
  if (!end)
    return lex_expected(in, "a number");
  *out = number.f;
  lex_move(in, end);
  return true;
}

// --- Strings -------------------------------------------------------------------------------------

#if defined(__SSE2__) && !defined(HL_HAS_ASAN)
// The first quote, backslash or NUL at or after `s`, 16 bytes at a time. Aligned blocks never cross
// a page, so reading beyond the NUL within one is safe; the address sanitizer minds all the same.
static const char *string_stop(const char *s, char quote) {
  const __m128i quotes = _mm_set1_epi8(quote), slashes = _mm_set1_epi8('\\');
  const __m128i zeros = _mm_setzero_si128();
  const uintptr_t skip = (uintptr_t)s & 15;
  const char *block = s - skip;
  unsigned mask = ~0u << skip;
  for (;; block += 16, mask = ~0u) {
    const __m128i bytes = _mm_load_si128((const __m128i *)(const void *)block);
    const __m128i hit =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quotes), _mm_cmpeq_epi8(bytes, slashes)),
                     _mm_cmpeq_epi8(bytes, zeros));
    const unsigned found = (unsigned)_mm_movemask_epi8(hit) & mask;
    if (found)
      return block + __builtin_ctz(found);
  }
}
#else
static const char *string_stop(const char *s, char quote) {
  while (*s != quote && *s != '\\' && *s != 0)
    s++;
  return s;
}
#endif

const char *lex_string_end(const char *s, char quote) {
  for (;;) {
    s = string_stop(s, quote);
    if (*s == quote)
      return s;
    if (*s == 0 || s[1] == 0 || s[1] == '\n')
      return NULL;
    s += 2;
  }
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void add_utf8(HlBuf *out, uint32_t c) {
  if (c < 0x80) {
    hl_buf_putc(out, (char)c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const int lead[] = {0, 0xc0, 0xe0, 0xf0};
  hl_buf_putc(out, (char)(lead[more] | (int)(c >> (6 * more))));
  for (int k = more - 1; k >= 0; k--)
    hl_buf_putc(out, (char)(0x80 | ((c >> (6 * k)) & 0x3f)));
}

// Unescapes "\u1234" or "\U00012345", `s` after the letter; NULL if it is malformed.
static const char *unescape_unicode(const char *s, int n_digits, HlBuf *out) {
  uint32_t value = 0;
  for (int k = 0; k < n_digits; k++) {
    const int digit = hex_digit(s[k]);
    if (digit < 0)
      return NULL;
    value = value << 4 | (uint32_t)digit;
  }
  if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
    return NULL;
  add_utf8(out, value);
  return s + n_digits;
}

// Unescapes what follows a backslash; returns its end, or NULL if it is malformed.
static const char *unescape(const char *s, HlBuf *out) {
  static const char letters[] = "abfnrtv\\?'\"", meanings[] = "\a\b\f\n\r\t\v\\?'\"";
  const char *letter = memchr(letters, *s, sizeof letters - 1);
  if (letter) {
    hl_buf_putc(out, meanings[letter - letters]);
    return s + 1;
  }
  if (*s >= '0' && *s <= '7') {
    int value = 0, n = 0;
    for (; n < 3 && s[n] >= '0' && s[n] <= '7'; n++)
      value = value * 8 + (s[n] - '0');
    hl_buf_putc(out, (char)value);
    return value > 255 ? NULL : s + n;
  }
  if (*s == 'x' || *s == 'X') {
    int value = 0;
    const char *k = s + 1;
    for (; hex_digit(*k) >= 0 && value <= 255; k++)
      value = value * 16 + hex_digit(*k);
    hl_buf_putc(out, (char)value);
    return value > 255 || k == s + 1 ? NULL : k;
  }
  if (*s == 'u')
    return unescape_unicode(s + 1, 4, out);
  return *s == 'U' ? unescape_unicode(s + 1, 8, out) : NULL;
}

// Fills in->unescaped with the text from `s` to `end`.
static bool unescape_all(Lex *in, const char *s, const char *end) {
  HlBuf *out = &in->unescaped;
  out->n = 0;
  hl_buf_grow(out, (size_t)(end - s));
  while (s < end) {
    const char *stop = memchr(s, '\\', (size_t)(end - s));
    hl_buf_add(out, s, (size_t)((stop ? stop : end) - s));
    if (!stop)
      break;
    s = unescape(stop + 1, out);
    if (!s)
      return hl_error(in->cx, lex_pos(in, stop), "invalid escape sequence in a string");
  }
  return true;
}

bool lex_string(Lex *in, HlStr *out) {
  const char *s = in->at;
  if (*s != '"' && *s != '\'')
    return lex_expected(in, "a string");
  const char *end = string_stop(s + 1, *s);
  if (HL_LIKELY(*end == *s)) {
    *out = (HlStr){s + 1, (size_t)(end - s - 1)};
  } else {
    end = lex_string_end(end, *s);
    if (!end)
      return hl_error(in->cx, lex_pos(in, s), "the string is never closed");
    if (!unescape_all(in, s + 1, end))
      return false;
    *out = (HlStr){in->unescaped.at, in->unescaped.n};
  }
  lex_move(in, end + 1);
  return true;
}

const char *lex_balanced(const char *s) {
  int64_t depth = 0;
  for (;; s++) {
    while (!lex_is(*s, LEX_BRACE))
      s++;
    if (*s == '{') {
      depth++;
    } else if (*s == '}') {
      if (--depth == 0)
        return s + 1;
    } else if (*s == 0 || !(s = lex_string_end(s + 1, '"'))) {
      return NULL;
    }
  }
}

bool lex_json(Lex *in, HlStr *out) {
  const char *end = lex_balanced(in->at);
  if (!end)
    return hl_error(in->cx, lex_pos(in, in->at), "the braces that open here are never closed");
  *out = (HlStr){in->at, (size_t)(end - in->at)};
  lex_move(in, end);
  return true;
}
