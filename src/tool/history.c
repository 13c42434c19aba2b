// tool/history.c: the states a module went through, kept as what changed from one to the next.
//
//   hilo-history 1
//   @ 0000.simplification.after_pipeline-start.before_algsimp
//   +12                       twelve lines come
//   HloModule ...
//   @ 0001.simplification.after_algsimp.before_dce
//   =7                        seven lines of the state before stay
//   -2                        two of them go
//   +1                        one comes
//     %add.1 = ...

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/dump.h"
#include "tool/lines.h"

static const char magic[] = "hilo-history 1\n";

// --- Writing ------------------------------------------------------------------------------------

static void put_count(HlBuf *out, char kind, int n) {
  if (n > 0)
    hl_buf_printf(out, "%c%d\n", kind, n);
}

void hl_history_write(HlBuf *out, const char *name, HlStr before_text, HlStr after_text) {
  HlArena *arena = hl_arena_new();
  Lines before = lines_split(arena, before_text), after = lines_split(arena, after_text);
  const int *from = lines_match(arena, &before, &after);
  if (out->n == 0)
    hl_buf_puts(out, magic);
  hl_buf_printf(out, "@ %s\n", name);
  int at = 0;  // of the lines before
  for (int k = 0; k < after.n;) {
    int n = 0;
    if (from[k] >= 0) {
      put_count(out, '-', from[k] - at);
      while (k + n < after.n && from[k + n] == from[k] + n)
        n++;
      put_count(out, '=', n);
      at = from[k] + n;
    } else {
      while (k + n < after.n && from[k + n] < 0)
        n++;
      put_count(out, '+', n);
      for (int j = k; j < k + n; j++) {
        hl_buf_add(out, after.at[j].at, after.at[j].n);
        hl_buf_putc(out, '\n');
      }
    }
    k += n;
  }
  put_count(out, '-', before.n - at);
  hl_arena_free(arena);
}

// --- Reading ------------------------------------------------------------------------------------

typedef struct Step {
  const char *name;
  int first, end;  // lines of the file: its commands
  int gone, come;
} Step;

struct HlHistory {
  HlArena *arena;
  HlSource *source;
  Lines lines;
  Step *steps;
  int n;
};

static int count_of(HlStr line) {
  int64_t n = 0;
  for (size_t k = 1; k < line.n && line.at[k] >= '0' && line.at[k] <= '9' && n <= INT32_MAX; k++)
    n = n * 10 + (line.at[k] - '0');
  return line.n > 1 && n <= INT32_MAX ? (int)n : -1;
}

static bool damaged(HlCx *cx, const HlHistory *h, int line) {
  const char *at = line < h->lines.n ? h->lines.at[line].at : hl_source_bytes(h->source).at;
  HlLoc loc = (HlLoc)(at - hl_source_bytes(h->source).at) + 1;
  return hl_error(cx, (HlPos){h->source, loc},
                  "a damaged history: expected '@ NAME', =N, -N or +N");
}

// Reads the commands; `n` is how many lines the state has, to be checked against.
static bool read_steps(HlCx *cx, HlHistory *h) {
  int64_t n_lines = 0, at = 0, next = 0;
  Step *step = NULL;
  for (int k = 1; k < h->lines.n; k++) {
    HlStr line = h->lines.at[k];
    char kind = line.n > 0 ? *line.at : 0;
    if (kind == '@' && line.n > 2) {
      n_lines = next;
      at = next = 0;
      step = &h->steps[h->n++];
      *step = (Step){hl_arena_strndup(h->arena, line.at + 2, line.n - 2), k + 1, k + 1, 0, 0};
      continue;
    }
    int count = kind == '=' || kind == '-' || kind == '+' ? count_of(line) : -1;
    if (!step || count < 0)
      return damaged(cx, h, k);
    at += kind == '+' ? 0 : count;
    next += kind == '-' ? 0 : count;
    step->come += kind == '+' ? count : 0;
    step->gone += kind == '-' ? count : 0;
    if (at > n_lines || (kind == '+' && count >= h->lines.n - k))
      return damaged(cx, h, k);
    k += kind == '+' ? count : 0;
    step->end = k + 1;
  }
  return h->n > 0 || damaged(cx, h, 0);
}

HlHistory *hl_history_read_source(HlCx *cx, HlSource *source) {
  HlStr text = hl_source_bytes(source);
  if (text.n < strlen(magic) || memcmp(text.at, magic, strlen(magic)) != 0) {
    hl_error(cx, (HlPos){source, 1}, "this is no history: expected '%.*s'", (int)strlen(magic) - 1,
             magic);
    return NULL;
  }
  HlArena *arena = hl_arena_new();
  HlHistory *h = HL_NEW(arena, HlHistory);
  *h = (HlHistory){
      .arena = arena, .source = hl_source_ref(source), .lines = lines_split(arena, text)};
  h->steps = HL_ARRAY(arena, Step, h->lines.n + 1);
  if (read_steps(cx, h))
    return h;
  hl_history_free(h);
  return NULL;
}

HlHistory *hl_history_read(HlCx *cx, const char *path) {
  HlSource *source = hl_read_file(cx, path);
  HlHistory *h = source ? hl_history_read_source(cx, source) : NULL;
  hl_source_unref(source);
  return h;
}

void hl_history_free(HlHistory *h) {
  if (!h)
    return;
  hl_source_unref(h->source);
  hl_arena_free(h->arena);
}

int hl_history_steps(const HlHistory *h) {
  return h->n;
}

const char *hl_history_name(const HlHistory *h, int step, int *gone, int *come) {
  *gone = h->steps[step].gone;
  *come = h->steps[step].come;
  return h->steps[step].name;
}

// The lines after a step from those before it.
static Lines apply(const HlHistory *h, HlArena *arena, const Step *step, const Lines *before) {
  Lines after = {HL_ARRAY(arena, HlStr, before->n - step->gone + step->come + 1), 0};
  int at = 0;
  for (int k = step->first; k < step->end; k++) {
    char kind = *h->lines.at[k].at;
    int n = count_of(h->lines.at[k]);
    if (n == 0)
      continue;
    const HlStr *from = kind == '+' ? &h->lines.at[k + 1] : &before->at[at];
    if (kind != '-')
      for (int j = 0; j < n; j++)
        after.at[after.n++] = from[j];
    at += kind == '+' ? 0 : n;
    k += kind == '+' ? n : 0;
  }
  return after;
}

void hl_history_state(const HlHistory *h, int step, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  Lines lines = {0};
  for (int k = 0; k <= step; k++)
    lines = apply(h, arena, &h->steps[k], &lines);
  for (int k = 0; k < lines.n; k++) {
    hl_buf_add(out, lines.at[k].at, lines.at[k].n);
    hl_buf_putc(out, '\n');
  }
  hl_arena_free(arena);
}
