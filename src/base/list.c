// list.c: borrowed strings and lists of integers.

#include "hilo/base.h"

#include <string.h>

HlStr hl_str(const char *text) {
  return (HlStr){text, strlen(text)};
}

bool hl_str_is(HlStr s, const char *text) {
  return hl_str_equal(s, hl_str(text));
}

bool hl_str_equal(HlStr a, HlStr b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

int hl_i64s_find(HlI64s list, int64_t value) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] == value)
      return k;
  return -1;
}

bool hl_i64s_equal(HlI64s a, HlI64s b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, (size_t)a.n * sizeof *a.at) == 0);
}

int hl_i64s_compare(HlI64s a, HlI64s b) {
  for (int k = 0; k < a.n && k < b.n; k++)
    if (a.at[k] != b.at[k])
      return a.at[k] < b.at[k] ? -1 : 1;
  return a.n - b.n;
}

HlI64s hl_i64s_copy(HlArena *arena, HlI64s list) {
  return (HlI64s){hl_arena_copy(arena, list.at, (size_t)list.n * sizeof *list.at), list.n};
}
