// tool/diff/dump_pairs.c: which files of dumps belong together, by their names.
#include "tool/diff/dump_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct Keyed {
  HlBuf key;  // folder, program, stage
  int at;     // which path
} Keyed;

static int by_key(const void *x, const void *y) {
  const Keyed *a = x, *b = y;
  const int order = strcmp(a->key.at, b->key.at);
  return order ? order : a->at < b->at ? -1 : a->at > b->at;
}

static Keyed *keys_of(const char *const *path, int n, size_t skip) {
  Keyed *keys = base_alloc(sizeof *keys * (size_t)(n + 1));
  for (int k = 0; k < n; k++) {
    const DumpName name = dump_name(path[k]);
    const char *slash = strrchr(path[k], '/');
    const size_t folder = slash ? (size_t)(slash - path[k]) : 0;
    HlBuf *key = &keys[k].key;
    keys[k].at = k;
    hl_buf_add(key, path[k] + (skip < folder ? skip : folder), skip < folder ? folder - skip : 0);
    hl_buf_printf(key, "/%.*s/%.*s", (int)name.program.n, name.program.at, (int)name.stage.n,
                  name.stage.at);
  }
  if (n > 0)
    qsort(keys, (size_t)n, sizeof *keys, by_key);
  return keys;
}

static void free_keys(Keyed *keys, int n) {
  for (int k = 0; k < n; k++)
    hl_buf_free(&keys[k].key);
  base_free(keys);
}

static int by_path(const void *x, const void *y) {
  const DumpPair *a = x, *b = y;
  if ((a->a < 0) != (b->a < 0))
    return a->a < 0 ? 1 : -1;
  const int p = a->a < 0 ? a->b : a->a, q = b->a < 0 ? b->b : b->a;
  return p < q ? -1 : p > q;
}

DumpPairs dump_pairs_of_two(const char *const *a, int n_a, size_t skip_a, const char *const *b,
                            int n_b, size_t skip_b) {
  DumpPairs pairs = {0};
  Keyed *x = keys_of(a, n_a, skip_a), *y = keys_of(b, n_b, skip_b);
  for (int i = 0, j = 0; i < n_a || j < n_b;) {
    const int order = i == n_a ? 1 : j == n_b ? -1 : strcmp(x[i].key.at, y[j].key.at);
    vec_push(&pairs, ((DumpPair){order <= 0 ? x[i].at : -1, order >= 0 ? y[j].at : -1}));
    i += order <= 0;
    j += order >= 0;
  }
  free_keys(x, n_a);
  free_keys(y, n_b);
  if (pairs.n > 0)
    qsort(pairs.at, (size_t)pairs.n, sizeof *pairs.at, by_path);
  return pairs;
}

// --- One directory --------------------------------------------------------------------------------

static bool same_program(const char *a, const char *b) {
  const DumpName x = dump_name(a), y = dump_name(b);
  const char *p = strrchr(a, '/'), *q = strrchr(b, '/');
  const size_t n = p ? (size_t)(p - a) : 0, m = q ? (size_t)(q - b) : 0;
  return x.module == y.module && hl_str_equal(x.program, y.program) && n == m &&
         memcmp(a, b, n) == 0;
}

typedef enum Rank { BEFORE, STATE, AFTER, OTHER } Rank;

static Rank rank_of(const char *path) {
  const DumpName name = dump_name(path);
  return dump_name_is_before(&name)  ? BEFORE
         : dump_name_is_after(&name) ? AFTER
         : name.state >= 0           ? STATE
                                     : OTHER;
}

// The paths of one program, sorted, from `first` on: how many.
static int run_of(const char *const *path, int n, int first) {
  int end = first + 1;
  while (end < n && same_program(path[first], path[end]))
    end++;
  return end - first;
}

static int find_rank(const char *const *path, int n, int first, Rank rank) {
  for (int k = first; k < first + n; k++)
    if (rank_of(path[k]) == rank)
      return k;
  return -1;
}

DumpPairs dump_pairs_of_stages(const char *const *path, int n) {
  DumpPairs pairs = {0};
  for (int k = 0, length; k < n; k += length) {
    length = run_of(path, n, k);
    const DumpPair pair = {find_rank(path, length, k, BEFORE), find_rank(path, length, k, AFTER)};
    if (pair.a >= 0 && pair.b >= 0)
      vec_push(&pairs, pair);
  }
  return pairs;
}

DumpPairs dump_pairs_of_passes(const char *const *path, int n) {
  DumpPairs pairs = {0};
  for (int k = 0, length; k < n; k += length) {
    length = run_of(path, n, k);
    int last = find_rank(path, length, k, BEFORE);
    for (int j = k; j < k + length; j++)  // names of states sort by their numbers
      if (rank_of(path[j]) == STATE) {
        if (last >= 0)
          vec_push(&pairs, ((DumpPair){last, j}));
        last = j;
      }
    const int after = find_rank(path, length, k, AFTER);
    if (last >= 0 && after >= 0 && last != after)
      vec_push(&pairs, ((DumpPair){last, after}));
  }
  return pairs;
}
