// tool/lines.c: matches the lines of two texts, in n log n steps.

#include "tool/lines.h"

#include <string.h>

#include "base/map.h"

Lines lines_split(HlArena *arena, HlStr text) {
  int n = 0;
  for (size_t k = 0; k < text.n; k++)
    n += text.at[k] == '\n';
  n += text.n > 0 && text.at[text.n - 1] != '\n';
  Lines lines = {HL_ARRAY(arena, HlStr, n + 1), 0};
  while (text.n > 0) {
    const char *newline = memchr(text.at, '\n', text.n);
    size_t length = newline ? (size_t)(newline - text.at) : text.n;
    lines.at[lines.n++] = (HlStr){text.at, length};
    length += newline != NULL;
    text = (HlStr){text.at + length, text.n - length};
  }
  return lines;
}

// --- Lines that stand once in both --------------------------------------------------------------

// Lines of one hash, which count as one: that those which match are equal is looked at in the end.
typedef struct Kind {
  int before, after;      // line numbers
  int n_before, n_after;  // how often
} Kind;

typedef struct Index {
  Map map;  // by the hash of a line: 1 + its place among the kinds
  Kind *kind;
  int n;
} Index;

static Kind *kind_of(Index *index, HlStr line) {
  uint64_t *place = map_at(&index->map, hl_hash_bytes(line.at, line.n, 1));
  if (!*place)
    *place = (uint64_t)++index->n;
  return &index->kind[*place - 1];
}

static Index index_lines(HlArena *arena, const Lines *before, const Lines *after) {
  Index index = {.map = {.arena = arena}, .kind = HL_ARRAY(arena, Kind, before->n + after->n + 1)};
  for (int k = 0; k < before->n; k++) {
    Kind *kind = kind_of(&index, before->at[k]);
    kind->before = k;
    kind->n_before++;
  }
  for (int k = 0; k < after->n; k++) {
    Kind *kind = kind_of(&index, after->at[k]);
    kind->after = k;
    kind->n_after++;
  }
  return index;
}

// The longest growing run of matches, by patience sorting: `from` keeps it, the others become -1.
static void keep_growing(HlArena *arena, int *from, int n) {
  int *top = HL_ARRAY(arena, int, n + 1), *below = HL_ARRAY(arena, int, n + 1);
  int piles = 0;
  for (int k = 0; k < n; k++) {
    if (from[k] < 0)
      continue;
    int low = 0, high = piles;
    while (low < high) {
      int middle = (low + high) / 2;
      if (from[top[middle]] < from[k])
        low = middle + 1;
      else
        high = middle;
    }
    below[k] = low > 0 ? top[low - 1] : -1;
    top[low] = k;
    piles += low == piles;
  }
  int next = piles > 0 ? top[piles - 1] : -1;
  for (int k = n - 1; k >= 0; k--) {
    if (k == next)
      next = below[k];
    else
      from[k] = -1;
  }
}

// --- What adjoins them --------------------------------------------------------------------------

static void extend(const Lines *before, const Lines *after, int *from) {
  for (int k = 0; k < after->n; k++) {
    int next = (k > 0 ? from[k - 1] : -1) + 1;
    bool follows = k == 0 || from[k - 1] >= 0;
    if (from[k] < 0 && follows && next < before->n && hl_str_equal(before->at[next], after->at[k]))
      from[k] = next;
  }
  int limit = before->n;
  for (int k = after->n - 1; k >= 0; k--) {
    bool precedes = k + 1 == after->n || from[k + 1] >= 0;
    if (from[k] < 0 && precedes && limit > 0 && hl_str_equal(before->at[limit - 1], after->at[k]))
      from[k] = limit - 1;
    if (from[k] >= 0)
      limit = from[k];
  }
}

// Extending forwards may have passed a match further on.
static void keep_order(int *from, int n) {
  int least = -1;
  for (int k = 0; k < n; k++) {
    if (from[k] >= 0 && from[k] <= least)
      from[k] = -1;
    else if (from[k] >= 0)
      least = from[k];
  }
}

int *lines_match(HlArena *arena, const Lines *before, const Lines *after) {
  Index index = index_lines(arena, before, after);
  int *from = HL_ARRAY(arena, int, after->n + 1);
  for (int k = 0; k < after->n; k++) {
    const Kind *kind = kind_of(&index, after->at[k]);
    bool once = kind->n_before == 1 && kind->n_after == 1 &&
                hl_str_equal(before->at[kind->before], after->at[k]);
    from[k] = once ? kind->before : -1;
  }
  keep_growing(arena, from, after->n);
  extend(before, after, from);
  keep_order(from, after->n);
  return from;
}
