// tool/regex.c: regular expressions, by PCRE2 (whose syntax holds RE2's, that of XLA's flags).
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tool/regex.h"
#include "base/memory.h"

#include <pcre2.h>
#include <string.h>

struct Regex {
  pcre2_code *code;
  pcre2_match_data *data;
};

static void free_code(void *code) {
  pcre2_code_free(code);
}

static void free_data(void *data) {
  pcre2_match_data_free(data);
}

static Regex *compile(HlCx *cx, const char *what, const char *pattern, uint32_t options) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &error, &at, NULL);
  if (!code) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    hl_error(cx, (HlPos){0}, "%s: cannot read the regular expression '%s' at character %zu: %s",
             what, pattern, (size_t)at + 1, (const char *)text);
    return NULL;
  }
  base_hold(code, free_code);
  Regex *regex = base_alloc(sizeof *regex);
  *regex = (Regex){code, pcre2_match_data_create_from_pattern(code, NULL)};
  if (!regex->data)
    base_out_of_memory(sizeof *regex);
  base_hold(regex->data, free_data);
  return regex;
}

Regex *regex_new(HlCx *cx, const char *what, const char *pattern) {
  return compile(cx, what, pattern, 0);
}

Regex *regex_new_folded(HlCx *cx, const char *what, const char *pattern) {
  return compile(cx, what, pattern, PCRE2_CASELESS);
}

void regex_free(Regex *regex) {
  if (!regex)
    return;
  base_drop(regex->data);
  base_drop(regex->code);
  pcre2_match_data_free(regex->data);
  pcre2_code_free(regex->code);
  base_free(regex);
}

bool regex_matches(const Regex *regex, const char *text) {
  return regex &&
         pcre2_match(regex->code, (PCRE2_SPTR)text, strlen(text), 0, 0, regex->data, NULL) >= 0;
}

bool regex_finds(const Regex *regex, HlStr text, bool *gave_up) {
  const int n = pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.n, 0, 0, regex->data, NULL);
  *gave_up |= n < 0 && n != PCRE2_ERROR_NOMATCH;
  return n >= 0;
}
