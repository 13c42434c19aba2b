// print_json.c: writes a JSON object with its members in order, as XLA's dumps hold backend configs since 0.11.
//
//   {"b":1, "a":{"z":2,"y":[3,1]}}   =>   {"a":{"y":[3,1],"z":2},"b":1}

#include "text/print.h"

#include <stdlib.h>

typedef struct Json {
  HlArena *arena;
  const char *at, *end;
  int depth;
} Json;

static void skip_space(Json *j) {
  while (j->at < j->end && strchr(" \t\n\r", *j->at))
    j->at++;
}

static bool eat(Json *j, char c) {
  skip_space(j);
  if (j->at == j->end || *j->at != c)
    return false;
  j->at++;
  return true;
}

// A string, a number or a word, as it stands.
static bool take_plain(Json *j, HlBuf *out) {
  const char *begin = j->at;
  if (eat(j, '"')) {
    while (j->at < j->end && *j->at != '"')
      j->at += *j->at == '\\' ? 2 : 1;
    if (j->at >= j->end)
      return false;
    j->at++;
  } else {
    while (j->at < j->end && !strchr(",:{}[]\" \t\n\r", *j->at))
      j->at++;
  }
  put(out, begin, (size_t)(j->at - begin));
  return j->at > begin;
}

static bool take_value(Json *j, HlBuf *out);

static bool take_array(Json *j, HlBuf *out) {
  put_char(out, '[');
  if (eat(j, ']')) {
    put_char(out, ']');
    return true;
  }
  do {
    if (!take_value(j, out))
      return false;
    if (eat(j, ','))
      put_char(out, ',');
    else
      break;
  } while (true);
  put_char(out, ']');
  return eat(j, ']');
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Each member is written by itself, and then they are put in order.
static bool take_object(Json *j, HlBuf *out) {
  enum { MOST = 1024 };
  const char **member = HL_ARRAY(j->arena, const char *, MOST);
  int n = 0;
  bool ok = true;
  if (!eat(j, '}')) {
    do {
      HlBuf one = {0};
      skip_space(j);
      ok = n < MOST && j->at < j->end && *j->at == '"' && take_plain(j, &one) && eat(j, ':');
      put_char(&one, ':');
      ok = ok && take_value(j, &one);
      if (ok)
        member[n++] = hl_arena_printf(j->arena, "%.*s", (int)one.n, one.at);
      hl_buf_free(&one);
    } while (ok && eat(j, ','));
    ok = ok && eat(j, '}');
  }
  qsort(member, (size_t)n, sizeof *member, by_bytes);
  put_char(out, '{');
  for (int k = 0; k < n; k++) {
    if (k)
      put_char(out, ',');
    put_text(out, member[k]);
  }
  put_char(out, '}');
  return ok;
}

static bool take_value(Json *j, HlBuf *out) {
  enum { DEEPEST = 64 };
  if (j->depth == DEEPEST)
    return false;
  j->depth++;
  skip_space(j);
  const bool ok = eat(j, '{')   ? take_object(j, out)
                  : eat(j, '[') ? take_array(j, out)
                                : take_plain(j, out);
  j->depth--;
  return ok;
}

bool print_sorted_json(HlCx *cx, HlStr text, HlBuf *out) {
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  Json j = {.arena = scratch, .at = text.at, .end = text.at + text.n};
  HlBuf sorted = {0};
  skip_space(&j);
  bool ok = j.at < j.end && *j.at == '{' && take_value(&j, &sorted);
  skip_space(&j);
  ok = ok && j.at == j.end;
  if (ok)
    put(out, sorted.at, sorted.n);
  hl_buf_free(&sorted);
  hl_arena_release(scratch, mark);
  return ok;
}
