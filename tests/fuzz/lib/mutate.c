// tests/fuzz/lib/mutate.c: mutations that know what text is made of.
//
// HLO, MLIR and jaxprs look alike from here: lines; in them words, names with a sigil, numbers, strings, punctuation;
// groups in brackets whose items commas separate. Bytes changed at random rarely pass the lexer; a token put in the
// place of another of its kind mostly does, and reaches the rules behind it.
#include "fuzz/lib/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/lib/words.h"
#include "hilo/base.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

typedef enum Kind { WORD, NAME, NUMBER, STRING, OPEN, CLOSE, MARK, KINDS } Kind;

typedef struct Token {
  size_t at, end;
  Kind kind;
  int mate;  // of OPEN and CLOSE: the other one; -1: none
} Token;

typedef struct Text {
  HlBuf bytes;
  size_t most;
  HlRng rng;
  FuzzWords words;
  Token *token;
  int n;
} Text;

static int pick(Text *t, int n) {
  return n > 0 ? (int)hl_rng_below(&t->rng, n) : 0;
}

// --- Tokens -------------------------------------------------------------------------------------------------------

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_sigil(char c) {
  return c == '%' || c == '@' || c == '#' || c == '^' || c == '!';
}

static size_t word_end(const char *s, size_t at, size_t n) {
  while (at < n && (is_letter(s[at]) || is_digit(s[at]) || s[at] == '.' ||
                    (s[at] == '-' && at + 1 < n && is_letter(s[at + 1]))))
    at++;
  return at;
}

static size_t string_end(const char *s, size_t at, size_t n) {
  for (at++; at < n && s[at] != '"' && s[at] != '\n'; at++)
    at += s[at] == '\\' && at + 1 < n;
  return at < n ? at + 1 : n;
}

static Token next_token(const char *s, size_t at, size_t n) {
  const char c = s[at];
  Token token = {at, at + 1, MARK, -1};
  if (c == '"') {
    token.end = string_end(s, at, n);
    token.kind = STRING;
  } else if (is_letter(c)) {
    token.end = word_end(s, at, n);
    token.kind = WORD;
  } else if (is_sigil(c) && at + 1 < n && (is_letter(s[at + 1]) || is_digit(s[at + 1]))) {
    token.end = word_end(s, at + 1, n);
    token.kind = NAME;
  } else if (is_digit(c) || (c == '-' && at + 1 < n && is_digit(s[at + 1]))) {
    token.kind = NUMBER;
    while (token.end < n && (is_digit(s[token.end]) || s[token.end] == '.' || s[token.end] == 'e'))
      token.end++;
  } else if (strchr("([{<", c)) {
    token.kind = OPEN;
  } else if (strchr(")]}>", c)) {
    token.kind = CLOSE;
  }
  return token;
}

// "2x3xf32": the x after a size is a mark.
static bool is_by(const char *s, size_t at, size_t n, const Token *before) {
  return s[at] == 'x' && before && before->end == at &&
         (before->kind == NUMBER || s[before->at] == '?') && at + 1 < n;
}

static void tokenize(Text *t) {
  const char *s = t->bytes.at;
  const size_t n = t->bytes.n;
  int open[256], depth = 0;
  free(t->token);
  t->token = calloc(n + 1, sizeof *t->token);
  t->n = 0;
  for (size_t at = 0; at < n;) {
    if (strchr(" \t\r\n", s[at])) {
      at++;
      continue;
    }
    Token token = is_by(s, at, n, t->n ? &t->token[t->n - 1] : NULL) ? (Token){at, at + 1, MARK, -1}
                                                                     : next_token(s, at, n);
    if (token.kind == OPEN && depth < HL_COUNT_OF(open)) {
      open[depth++] = t->n;
    } else if (token.kind == CLOSE && depth > 0) {
      token.mate = open[--depth];
      t->token[token.mate].mate = t->n;
    }
    t->token[t->n++] = token;
    at = token.end;
  }
}

// A random token of a kind (KINDS: any); -1: there is none.
static int some(Text *t, Kind kind) {
  if (t->n == 0)
    return -1;
  const int from = pick(t, t->n);
  for (int k = 0; k < t->n; k++) {
    const int at = (from + k) % t->n;
    if (kind == KINDS || t->token[at].kind == kind)
      return at;
  }
  return -1;
}

// Replaces the bytes [at, end) unless the text becomes too long.
static void replace(Text *t, size_t at, size_t end, const char *with, size_t n) {
  if (t->bytes.n - (end - at) + n > t->most)
    return;
  HlBuf out = {0};
  hl_buf_add(&out, t->bytes.at, at);
  hl_buf_add(&out, with, n);
  hl_buf_add(&out, t->bytes.at + end, t->bytes.n - end);
  hl_buf_free(&t->bytes);
  t->bytes = out;
}

static void replace_token(Text *t, int k, const char *with, size_t n) {
  replace(t, t->token[k].at, t->token[k].end, with, n);
}

// --- Lines --------------------------------------------------------------------------------------------------------

typedef struct Lines {
  size_t at, end;  // with the last line's end
} Lines;

// One line, or up to 8.
static Lines some_lines(Text *t) {
  const char *s = t->bytes.at;
  const size_t n = t->bytes.n;
  if (n == 0)
    return (Lines){0, 0};
  size_t at = (size_t)pick(t, (int)n);
  while (at > 0 && s[at - 1] != '\n')
    at--;
  size_t end = at;
  for (int k = pick(t, 4) ? 0 : pick(t, 8); k >= 0 && end < n; k--) {
    while (end < n && s[end] != '\n')
      end++;
    end += end < n;
  }
  return (Lines){at, end};
}

static void drop_lines(Text *t) {
  const Lines lines = some_lines(t);
  replace(t, lines.at, lines.end, "", 0);
}

// Puts a copy elsewhere.
static void copy_lines(Text *t) {
  const Lines from = some_lines(t), to = some_lines(t);
  HlBuf copy = {0};
  hl_buf_add(&copy, t->bytes.at + from.at, from.end - from.at);
  replace(t, to.at, to.at, copy.at ? copy.at : "", copy.n);
  hl_buf_free(&copy);
}

static void swap_lines(Text *t) {
  Lines a = some_lines(t), b = some_lines(t);
  if (a.at > b.at) {
    const Lines c = a;
    a = b;
    b = c;
  }
  if (a.end > b.at)
    return;
  HlBuf out = {0};
  const char *s = t->bytes.at;
  hl_buf_add(&out, s + b.at, b.end - b.at);
  hl_buf_add(&out, s + a.end, b.at - a.end);
  hl_buf_add(&out, s + a.at, a.end - a.at);
  replace(t, a.at, b.end, out.at, out.n);
  hl_buf_free(&out);
}

// --- Tokens for tokens --------------------------------------------------------------------------------------------

static bool is_word(const Text *t, int k, const char *word) {
  const Token *token = &t->token[k];
  return strlen(word) == token->end - token->at &&
         memcmp(word, t->bytes.at + token->at, token->end - token->at) == 0;
}

// A word of the same class; of a word in no class, another one of the text.
static void change_word(Text *t) {
  const int at = some(t, WORD);
  if (at < 0)
    return;
  for (int c = 0; c < t->words.n; c++)
    for (int k = 0; k < t->words.at[c].n; k++)
      if (is_word(t, at, t->words.at[c].word[k])) {
        const char *word = t->words.at[c].word[pick(t, t->words.at[c].n)];
        replace_token(t, at, word, strlen(word));
        return;
      }
  const int other = some(t, WORD);
  char copy[256];
  const size_t n = t->token[other].end - t->token[other].at;
  if (n < sizeof copy) {
    memcpy(copy, t->bytes.at + t->token[other].at, n);
    replace_token(t, at, copy, n);
  }
}

// Another token of the same kind, or of any.
static void change_token(Text *t) {
  const int at = some(t, KINDS);
  if (at < 0)
    return;
  const int other = some(t, pick(t, 8) ? t->token[at].kind : KINDS);
  HlBuf copy = {0};
  hl_buf_add(&copy, t->bytes.at + t->token[other].at, t->token[other].end - t->token[other].at);
  replace_token(t, at, copy.at, copy.n);
  hl_buf_free(&copy);
}

static void change_number(Text *t) {
  static const char *const odd[] = {"0",
                                    "1",
                                    "2",
                                    "-1",
                                    "3",
                                    "7",
                                    "8",
                                    "16",
                                    "127",
                                    "128",
                                    "255",
                                    "256",
                                    "2147483647",
                                    "2147483648",
                                    "4294967296",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "1e30",
                                    "0.5",
                                    "-0"};
  const int at = some(t, NUMBER);
  if (at < 0)
    return;
  char text[64];
  const long long value = strtoll(t->bytes.at + t->token[at].at, NULL, 10);
  switch (pick(t, 4)) {
  case 0: snprintf(text, sizeof text, "%lld", (long long)((unsigned long long)value + 1)); break;
  case 1: snprintf(text, sizeof text, "%lld", (long long)((unsigned long long)value - 1)); break;
  case 2: snprintf(text, sizeof text, "%d", pick(t, 10)); break;
  default: snprintf(text, sizeof text, "%s", odd[pick(t, HL_COUNT_OF(odd))]);
  }
  replace_token(t, at, text, strlen(text));
}

static void drop_token(Text *t) {
  const int at = some(t, KINDS);
  if (at >= 0)
    replace_token(t, at, "", 0);
}

static void double_token(Text *t) {
  const int at = some(t, KINDS);
  if (at < 0)
    return;
  HlBuf copy = {0};
  const Token *token = &t->token[at];
  hl_buf_add(&copy, t->bytes.at + token->at, token->end - token->at);
  hl_buf_puts(&copy, pick(t, 2) ? " " : "");
  replace(t, token->at, token->at, copy.at, copy.n);
  hl_buf_free(&copy);
}

// A word of the tables, anywhere.
static void insert_word(Text *t) {
  const int at = some(t, KINDS);
  if (at < 0 || t->words.n == 0)
    return;
  const FuzzClass *list = &t->words.at[pick(t, t->words.n)];
  const char *word = list->word[pick(t, list->n)];
  replace(t, t->token[at].at, t->token[at].at, word, strlen(word));
}

// --- Groups and their items ---------------------------------------------------------------------------------------

// A bracket with its mate; its token, or -1.
static int some_group(Text *t) {
  for (int tries = 0; tries < 8; tries++) {
    const int at = some(t, OPEN);
    if (at >= 0 && t->token[at].mate >= 0)
      return at;
  }
  return -1;
}

// The inside of a group, or one of its items.
static Lines inside(Text *t, int group, bool item) {
  const int last = t->token[group].mate;
  Lines range = {t->token[group].end, t->token[last].at};
  if (!item)
    return range;
  int n = 1, at = group + 1;
  for (int k = group + 1; k < last;
       k = t->token[k].kind == OPEN && t->token[k].mate > k ? t->token[k].mate + 1 : k + 1)
    n += t->bytes.at[t->token[k].at] == ',';
  for (int wanted = pick(t, n), k = group + 1, seen = 0; k <= last;) {
    const bool is_end = k == last || t->bytes.at[t->token[k].at] == ',';
    if (is_end && seen++ == wanted)
      return (Lines){t->token[at - 1].end, t->token[k].at};
    if (is_end)
      at = k + 1;
    k = k < last && t->token[k].kind == OPEN && t->token[k].mate > k ? t->token[k].mate + 1 : k + 1;
  }
  return range;
}

static void copy_group(Text *t) {
  const int from = some_group(t), to = some_group(t);
  if (from < 0 || to < 0)
    return;
  const bool items = pick(t, 2) == 0;
  const Lines source = inside(t, from, items), target = inside(t, to, items);
  HlBuf copy = {0};
  hl_buf_add(&copy, t->bytes.at + source.at, source.end - source.at);
  replace(t, target.at, target.end, copy.at ? copy.at : "", copy.n);
  hl_buf_free(&copy);
}

// One more item: of the group itself or of another.
static void add_item(Text *t) {
  const int from = some_group(t), to = pick(t, 2) ? from : some_group(t);
  if (from < 0 || to < 0)
    return;
  const Lines source = inside(t, from, true), target = inside(t, to, true);
  HlBuf copy = {0};
  hl_buf_add(&copy, t->bytes.at + source.at, source.end - source.at);
  hl_buf_puts(&copy, ",");
  replace(t, target.at, target.at, copy.at, copy.n);
  hl_buf_free(&copy);
}

static void drop_item(Text *t) {
  const int group = some_group(t);
  if (group < 0)
    return;
  Lines range = inside(t, group, pick(t, 3) != 0);
  if (range.end < t->bytes.n && t->bytes.at[range.end] == ',')
    range.end++;
  replace(t, range.at, range.end, "", 0);
}

// Copies an attribute, "NAME = VALUE" with what goes before it up to a comma, after another token.
static void copy_attribute(Text *t) {
  for (int tries = 0; tries < 16; tries++) {
    const int k = some(t, WORD);
    if (k < 0 || k + 2 >= t->n || t->bytes.at[t->token[k + 1].at] != '=')
      continue;
    int last = k + 2;
    if (t->token[last].kind == OPEN && t->token[last].mate > last)
      last = t->token[last].mate;
    HlBuf copy = {0};
    hl_buf_puts(&copy, ", ");
    hl_buf_add(&copy, t->bytes.at + t->token[k].at, t->token[last].end - t->token[k].at);
    const int to = some(t, CLOSE);
    const size_t at = to < 0 ? t->bytes.n : pick(t, 2) ? t->token[to].at : t->token[to].end;
    replace(t, at, at, copy.at, copy.n);
    hl_buf_free(&copy);
    return;
  }
}

// --- The two entries ----------------------------------------------------------------------------------------------

size_t fuzz_mutate(const char *target, uint8_t *data, size_t size, size_t most, unsigned seed) {
  static void (*const ways[])(Text *) = {drop_lines,   copy_lines,   swap_lines,     change_word,
                                         change_word,  change_token, change_number,  drop_token,
                                         double_token, change_token, insert_word,    copy_group,
                                         add_item,     drop_item,    copy_attribute, change_number};
  Text t = {.most = most, .rng = {seed}, .words = fuzz_words(target)};
  if (size == 0 || pick(&t, 10) == 0)
    return LLVMFuzzerMutate(data, size, most);
  hl_buf_add(&t.bytes, data, size);
  for (int k = pick(&t, 4); k >= 0; k--) {
    if (t.bytes.n == 0)
      break;
    tokenize(&t);
    ways[pick(&t, HL_COUNT_OF(ways))](&t);
  }
  size = t.bytes.n;
  if (size > 0)
    memcpy(data, t.bytes.at, size);
  free(t.token);
  hl_buf_free(&t.bytes);
  return size;
}

size_t fuzz_cross(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,
                  uint8_t *out, size_t most, unsigned seed) {
  Text a = {.most = most, .rng = {seed}}, b = {.most = most, .rng = {seed + 1}};
  hl_buf_add(&a.bytes, data1, size1);
  hl_buf_add(&b.bytes, data2, size2);
  tokenize(&a);
  tokenize(&b);
  const int to = some_group(&a), from = some_group(&b);
  if (to >= 0 && from >= 0 && pick(&a, 2)) {
    const bool items = pick(&a, 2) == 0;
    const Lines target = inside(&a, to, items), source = inside(&b, from, items);
    replace(&a, target.at, target.end, b.bytes.at + source.at, source.end - source.at);
  } else {
    const Lines target = some_lines(&a), source = some_lines(&b);
    replace(&a, target.at, pick(&a, 2) ? target.end : target.at,
            b.bytes.n ? b.bytes.at + source.at : "", source.end - source.at);
  }
  const size_t size = a.bytes.n < most ? a.bytes.n : most;
  if (size > 0)
    memcpy(out, a.bytes.at, size);
  free(a.token);
  free(b.token);
  hl_buf_free(&a.bytes);
  hl_buf_free(&b.bytes);
  return size;
}
