// base/ascii.h: what a character is, in ASCII: unlike <ctype.h>, whatever the host's locale. Bytes from 0x80 on are none
// of these.
#ifndef HILO_BASE_ASCII_H
#define HILO_BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static inline char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline char to_upper(char c) {
  return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static inline bool is_alpha(char c) {
  return to_lower(c) >= 'a' && to_lower(c) <= 'z';
}

static inline bool is_alnum(char c) {
  return is_alpha(c) || is_digit(c);
}

static inline bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Whether two strings are the same but for the case of letters; of the second form the first n characters.
static inline bool same_word(const char *a, const char *b) {
  while (*a && to_lower(*a) == to_lower(*b))
    a++, b++;
  return to_lower(*a) == to_lower(*b);
}

static inline bool same_letters(const char *a, const char *b, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (to_lower(a[k]) != to_lower(b[k]))
      return false;
  return true;
}

#endif
