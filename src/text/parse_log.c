// parse_log.c: what logs put around HLO text.
//
//   I0521 12:04:45.883483    1509 file.cc:186] HloModule m       a header in front of each line
//   *** Begin module_0000.m.before_optimizations.txt ***         XLA's dumps to the standard output: of whatever
//   HloModule m                                                  stands there, the modules are read
//   *** End module_0000.m.before_optimizations.txt ***

#include "text/parse.h"

#include <string.h>

// --- Headers of lines ----------------------------------------------------------------------------

static const char *skip_digits(const char *s, int at_least) {
  const char *k = s;
  while (lex_is(*k, LEX_DIGIT))
    k++;
  return k - s >= at_least ? k : NULL;
}

// The end of "I0521 12:04:45.883483    1509 file.cc:186] " at `s`, or NULL.
static const char *log_header_end(const char *s) {
  if (!strchr("IWEF", *s) || *s == 0 || !(s = skip_digits(s + 1, 4)) || *s != ' ')
    return NULL;
  for (int k = 0; k < 3; k++) {
    if (!(s = skip_digits(s + 1, 2)) || (k < 2 && *s != ':'))
      return NULL;
  }
  if (*s != '.' || !(s = skip_digits(s + 1, 1)))
    return NULL;
  while (*s == ' ')
    s++;
  if (!(s = skip_digits(s, 1)) || *s != ' ')
    return NULL;
  while (*s && *s != ']' && *s != '\n')
    s++;
  return *s == ']' ? s + 1 + (s[1] == ' ') : NULL;
}

// A source in which log headers are white space, so that positions stay; NULL where there are none.
static HlSource *without_headers(const HlSource *source) {
  const HlStr text = hl_source_bytes(source);
  const char *end = text.at + text.n;
  Lex in = {.at = text.at, .begin = text.at, .end = end};
  const char *s = lex_skip(&in, text.at);
  if (!log_header_end(s))
    return NULL;
  HlBuf copy = {0};
  hl_buf_add(&copy, text.at, text.n);
  while (s < end) {
    const char *after = log_header_end(s);
    if (after)
      memset(copy.at + (s - text.at), ' ', (size_t)(after - s));
    const char *line = memchr(s, '\n', (size_t)(end - s));
    s = line ? line + 1 : end;
  }
  return hl_source_take(hl_source_name(source), &copy, false);
}

// --- Dumps to the standard output ----------------------------------------------------------------

static const char begins[] = "*** Begin ", ends[] = "*** End ";

static const char *next_line(const char *s, const char *end) {
  const char *line = memchr(s, '\n', (size_t)(end - s));
  return line ? line + 1 : end;
}

// The next line that starts with `mark`, or the end.
static const char *find_mark(const char *s, const char *end, const char *mark) {
  while (s < end && (*s != *mark || strncmp(s, mark, strlen(mark)) != 0))
    s = next_line(s, end);
  return s;
}

static void blank(char *s, const char *end) {
  for (; s < end; s++)
    if (*s != '\n')
      *s = ' ';
}

// A source in which all is white space but the modules, so that positions stay; NULL where there are no dumps.
static HlSource *only_dumped(const HlSource *source) {
  const HlStr text = hl_source_bytes(source);
  const char *end = text.at + text.n;
  if (find_mark(text.at, end, begins) == end)
    return NULL;
  HlBuf copy = {0};
  hl_buf_add(&copy, text.at, text.n);
  char *from = copy.at;
  for (const char *s = text.at; s < end;) {
    const char *begin = next_line(find_mark(s, end, begins), end);
    const char *last = find_mark(begin, end, ends);
    const bool is_module = strncmp(begin, "HloModule", strlen("HloModule")) == 0;
    blank(from, copy.at + ((is_module ? begin : last) - text.at));
    from = copy.at + (last - text.at);
    s = last;
  }
  blank(from, copy.at + text.n);
  return hl_source_take(hl_source_name(source), &copy, false);
}

// Most sources are a module and nothing else: those are not searched.
static bool starts_with_module(const HlSource *source) {
  const HlStr text = hl_source_bytes(source);
  Lex in = {.at = text.at, .begin = text.at, .end = text.at + text.n};
  lex_move(&in, text.at);
  return lex_at_word(&in, "HloModule");
}

HlSource *parse_without_log(const HlSource *source) {
  if (starts_with_module(source))
    return NULL;
  HlSource *dumped = only_dumped(source);
  return dumped ? dumped : without_headers(source);
}
