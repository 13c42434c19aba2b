// nearest.c: the known word that a misspelt one probably meant.
//
// The distance counts insertions, deletions, replacements and swaps of neighbours (Damerau, in the
// form where no part is edited twice). Case does not count: "ADD" means "add".

#include "hilo/base.h"

#include <string.h>

#define LONGEST 64

static int lower(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static int least(int a, int b) {
  return a < b ? a : b;
}

// The distance of two words of at most LONGEST bytes.
static int distance(HlStr a, HlStr b) {
  int rows[3][LONGEST + 1];  // row k % 3: distances of a's first k letters from b's prefixes
  for (int j = 0; j <= (int)b.n; j++)
    rows[0][j] = j;
  for (int i = 1; i <= (int)a.n; i++) {
    int *row = rows[i % 3];
    const int *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= (int)b.n; j++) {
      const int differs = lower(a.at[i - 1]) != lower(b.at[j - 1]);
      row[j] = least(above[j - 1] + differs, least(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && lower(a.at[i - 1]) == lower(b.at[j - 2]) &&
          lower(a.at[i - 2]) == lower(b.at[j - 1]))
        row[j] = least(row[j], above2[j - 2] + 1);
    }
  }
  return rows[a.n % 3][b.n];
}

const char *hl_nearest(HlStr word, const char *const *words, int n) {
  if (word.n == 0 || word.n > LONGEST)
    return NULL;
  const char *best = NULL;
  int best_distance = word.n >= 6 ? (int)word.n / 3 : 1;  // the furthest that counts
  for (int k = 0; k < n; k++) {
    const HlStr other = hl_str(words[k]);
    const size_t gap = other.n > word.n ? other.n - word.n : word.n - other.n;
    if (other.n > LONGEST || gap > (size_t)best_distance)
      continue;
    const int d = distance(word, other);
    if (d >= (int)word.n || d > best_distance || (best && d == best_distance))
      continue;
    best = words[k];
    best_distance = d;
  }
  return best;
}
