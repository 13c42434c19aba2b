// tool/diff/dump_pairs.c: which files of dumps belong together, by their names.
#include "tool/diff/dump_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct Keyed {
  HlBuf key;  // folder, program, state
  int at;     // which path
} Keyed;

static int by_key(const void *x, const void *y) {
  const Keyed *a = x, *b = y;
  const int order = strcmp(a->key.at, b->key.at);
  return order ? order : a->at < b->at ? -1 : a->at > b->at;
}

// Which state of a program it is, without the number that the dump gave it.
static void put_state(const HlDumpName *name, HlBuf *out) {
  hl_buf_printf(out, "/%s/", hl_dump_stage_text(name->stage));
  if (name->step >= 0)
    hl_buf_printf(out, "%s/%s/%s", name->pipeline, name->after, name->before);
  else
    hl_buf_puts(out, name->label);
}

static Keyed *keys_of(HlArena *arena, const char *const *path, int n, size_t skip) {
  Keyed *keys = base_alloc(sizeof *keys * (size_t)(n + 1));
  for (int k = 0; k < n; k++) {
    const HlDumpName name = hl_dump_name_read(arena, path[k]);
    const size_t folder = strlen(name.folder);
    keys[k] = (Keyed){.at = k};
    hl_buf_printf(&keys[k].key, "%s/%s", name.folder + (skip < folder ? skip : folder), name.name);
    put_state(&name, &keys[k].key);
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
  HlArena *arena = hl_arena_new();
  Keyed *x = keys_of(arena, a, n_a, skip_a), *y = keys_of(arena, b, n_b, skip_b);
  for (int i = 0, j = 0; i < n_a || j < n_b;) {
    const int order = i == n_a ? 1 : j == n_b ? -1 : strcmp(x[i].key.at, y[j].key.at);
    vec_push(&pairs, ((DumpPair){order <= 0 ? x[i].at : -1, order >= 0 ? y[j].at : -1}));
    i += order <= 0;
    j += order >= 0;
  }
  free_keys(x, n_a);
  free_keys(y, n_b);
  hl_arena_free(arena);
  if (pairs.n > 0)
    qsort(pairs.at, (size_t)pairs.n, sizeof *pairs.at, by_path);
  return pairs;
}

// --- One directory --------------------------------------------------------------------------------

static HlDumpName *names_of(HlArena *arena, const char *const *path, int n) {
  HlDumpName *names = HL_ARRAY(arena, HlDumpName, n + 1);
  for (int k = 0; k < n; k++)
    names[k] = hl_dump_name_read(arena, path[k]);
  return names;
}

static bool same_program(const HlDumpName *a, const HlDumpName *b) {
  return a->number == b->number && a->is_jax == b->is_jax && strcmp(a->name, b->name) == 0 &&
         strcmp(a->folder, b->folder) == 0;
}

// The files of one program, sorted by their paths, from `first` on: how many.
static int run_of(const HlDumpName *name, int n, int first) {
  int end = first + 1;
  while (end < n && same_program(&name[first], &name[end]))
    end++;
  return end - first;
}

static int find_stage(const HlDumpName *name, int n, int first, HlDumpStage stage) {
  for (int k = first; k < first + n; k++)
    if (name[k].stage == stage)
      return k;
  return -1;
}

DumpPairs dump_pairs_of_stages(const char *const *path, int n) {
  DumpPairs pairs = {0};
  HlArena *arena = hl_arena_new();
  const HlDumpName *name = names_of(arena, path, n);
  for (int k = 0, length; k < n; k += length) {
    length = run_of(name, n, k);
    const DumpPair pair = {find_stage(name, length, k, HL_STAGE_BEFORE),
                           find_stage(name, length, k, HL_STAGE_AFTER)};
    if (pair.a >= 0 && pair.b >= 0)
      vec_push(&pairs, pair);
  }
  hl_arena_free(arena);
  return pairs;
}

DumpPairs dump_pairs_of_passes(const char *const *path, int n) {
  DumpPairs pairs = {0};
  HlArena *arena = hl_arena_new();
  const HlDumpName *name = names_of(arena, path, n);
  for (int k = 0, length; k < n; k += length) {
    length = run_of(name, n, k);
    int last = find_stage(name, length, k, HL_STAGE_BEFORE);
    for (int j = k; j < k + length; j++)  // names of states sort by their numbers
      if (name[j].step >= 0) {
        if (last >= 0)
          vec_push(&pairs, ((DumpPair){last, j}));
        last = j;
      }
    const int after = find_stage(name, length, k, HL_STAGE_AFTER);
    if (last >= 0 && after >= 0 && last != after)
      vec_push(&pairs, ((DumpPair){last, after}));
  }
  hl_arena_free(arena);
  return pairs;
}
