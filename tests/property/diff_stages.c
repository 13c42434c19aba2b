// What an optimiser made of a program is told of every instruction that its result needs: programs before and after
// optimisations, by XLA:CPU and XLA:GPU, compared as stages. Of each live instruction the report says that it is the same,
// changed, moved, fused, folded or inlined; and where both programs run, an instruction and its partner have the same value.
//
//   diff_stages [PATH]   only programs whose path has this in it
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/diff.h"
#include "hilo/tool.h"
#include "support/corpus.h"

typedef struct Tally {
  int programs, runs;
  int64_t live, lost, pairs, values, wrong, behind;
  int64_t by[HL_BY_COUNT];
} Tally;

// --- Liveness, found without the comparison -----------------------------------------------------------

typedef struct Live {
  bool **at;  // by ids
} Live;

static void mark(Live *live, const HlInst *inst, const HlInst **stack, int *n) {
  if (live->at[inst->comp->id][inst->id])
    return;
  live->at[inst->comp->id][inst->id] = true;
  stack[(*n)++] = inst;
}

static Live find_live(HlArena *arena, const HlModule *m) {
  Live live = {HL_ARRAY(arena, bool *, m->next_comp_id + 1)};
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    live.at[comp->id] = HL_ARRAY(arena, bool, comp->next_id + 1);
  const HlInst **stack = HL_ARRAY(arena, const HlInst *, hl_count_instructions(m) + 1);
  mark(&live, m->entry->root, stack, &n);
  while (n > 0) {
    const HlInst *inst = stack[--n];
    for (uint32_t k = 0; k < inst->n_operands; k++)
      mark(&live, inst->operands[k], stack, &n);
    for (int k = 0; k < inst->n_calls; k++)
      if (inst->calls[k].comp->root)
        mark(&live, inst->calls[k].comp->root, stack, &n);
  }
  return live;
}

// --- Values -------------------------------------------------------------------------------------------

typedef struct Values {
  const HlModule *m;
  HlLiteral ***at;  // by ids: the last value
  int **times;
} Values;

static Values values_new(HlArena *arena, const HlModule *m) {
  Values v = {m, HL_ARRAY(arena, HlLiteral **, m->next_comp_id + 1),
              HL_ARRAY(arena, int *, m->next_comp_id + 1)};
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    v.at[comp->id] = HL_ARRAY(arena, HlLiteral *, comp->next_id + 1);
    v.times[comp->id] = HL_ARRAY(arena, int, comp->next_id + 1);
  }
  return v;
}

static void values_free(Values *v) {
  for (const HlComp *comp = v->m->first; comp; comp = comp->next)
    for (uint32_t k = 0; k < comp->next_id; k++)
      hl_literal_unref(v->at[comp->id][k]);
}

static void take(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Values *v = user;
  HlLiteral **at = &v->at[inst->comp->id][inst->id];
  hl_literal_unref(*at);
  *at = hl_literal_ref(value);
  v->times[inst->comp->id][inst->id]++;
}

static bool run(HlCx *cx, const HlModule *m, HlLiteral *const *args, Values *out) {
  HlLiteral *result = NULL;
  const HlLiteral *const *all[] = {(const HlLiteral *const *)args};
  const bool ok =
      hl_eval_devices(m, NULL) == 1 &&
      hl_eval(cx, m, &(HlEvalOptions){.trace = take, .user = out, .elided = HL_ELIDED_ZERO}, all,
              &result);
  hl_literal_unref(result);
  hl_cx_clear(cx);
  return ok;
}

// Whether something that the report says to have changed or been folded stands close above: a constant of which a broadcast is made.
static bool is_behind_change(const HlInst *inst, bool *const *changed, int depth) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (changed[inst->comp->id][inst->operands[k]->id] ||
        (depth > 0 && is_behind_change(inst->operands[k], changed, depth - 1)))
      return true;
  return false;
}

static void compare_values(HlCx *cx, const HlDiffRow *row, bool *const *changed, const Values *a,
                           const Values *b, const char *path, Tally *tally) {
  const HlLiteral *x = a->at[row->a->comp->id][row->a->id],
                  *y = b->at[row->b->comp->id][row->b->id];
  const int n = a->times[row->a->comp->id][row->a->id], m = b->times[row->b->comp->id][row->b->id];
  // What is called from several places has several values; the last is not that of one of them.
  if (!x || !y || n != m || row->times > 1 || !hl_shape_is_array(x->shape) ||
      !hl_shape_same_dims(x->shape, y->shape) || x->shape->dtype != y->shape->dtype)
    return;
  HlMismatch found;
  tally->values++;
  if (hl_compare(cx, 1, &x, &y, &(HlCompareOptions){.tolerance = {true, 2e-3}}, &found))
    return;
  if (is_behind_change(row->a, changed, 2)) {
    tally->behind++;
    return;
  }
  if (tally->wrong++ < 20)
    printf("%s: %s -> %s (%s, by %s): other values\n", path, row->a->name->text, row->b->name->text,
           hl_verdict_text(row->verdict), hl_diff_by_text(row->by));
}

enum {
  CHANGES = HL_DIFF_OP | HL_DIFF_SHAPE | HL_DIFF_OPERANDS | HL_DIFF_ATTRIBUTES | HL_DIFF_CONSTANTS
};

static void check_values(HlCx *cx, const HlDiff *diff, const char *path, Tally *tally) {
  HlArena *arena = hl_arena_new();
  const int n = diff->a->entry->n_params;
  HlLiteral **args = calloc((size_t)n + 1, sizeof *args);
  Values a = values_new(arena, diff->a), b = values_new(arena, diff->b);
  if (diff->b->entry->n_params == n && hl_fake_args(cx, diff->a, 1, args) &&
      run(cx, diff->a, args, &a) && run(cx, diff->b, args, &b)) {
    tally->runs++;
    bool **changed = HL_ARRAY(arena, bool *, diff->a->next_comp_id + 1);
    for (const HlComp *comp = diff->a->first; comp; comp = comp->next)
      changed[comp->id] = HL_ARRAY(arena, bool, comp->next_id + 1);
    for (int k = 0; k < diff->n_rows; k++)
      if (diff->row[k].a &&
          ((diff->row[k].what & CHANGES) || diff->row[k].verdict == HL_DIFF_FOLDED))
        changed[diff->row[k].a->comp->id][diff->row[k].a->id] = true;
    for (int k = 0; k < diff->n_rows; k++) {
      const HlDiffRow *row = &diff->row[k];
      const bool claims = row->by == HL_BY_STRUCTURE || row->by == HL_BY_PLACE;
      if (row->a && row->b && claims && !(row->what & ~(uint32_t)(HL_DIFF_LAYOUT | HL_DIFF_CONFIG)))
        compare_values(cx, row, changed, &a, &b, path, tally);
    }
  }
  hl_cx_clear(cx);
  for (int k = 0; k < n; k++)
    hl_literal_unref(args[k]);
  free(args);
  values_free(&a);
  values_free(&b);
  hl_arena_free(arena);
}

// --- One program --------------------------------------------------------------------------------------

static void check_rows(const HlDiff *diff, const char *path, Tally *tally) {
  HlArena *arena = hl_arena_new();
  const Live live = find_live(arena, diff->a);
  bool **said = find_live(arena, diff->a).at;
  for (int k = 0; k < diff->n_rows; k++) {
    const HlDiffRow *row = &diff->row[k];
    if (!row->a || !live.at[row->a->comp->id][row->a->id])
      continue;
    said[row->a->comp->id][row->a->id] = false;
    tally->live++;
    tally->by[row->by]++;
    const bool lost =
        row->verdict == HL_DIFF_REMOVED || row->verdict == HL_DIFF_ADDED || (!row->b && !row->into);
    tally->pairs += row->b != NULL;
    if (lost && tally->lost++ < 20)
      printf("%s: %s %s: %s %s\n", path, row->a->comp->name->text, row->a->name->text,
             hl_verdict_text(row->verdict), row->detail);
  }
  for (const HlComp *comp = diff->a->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (said[comp->id][inst->id] && tally->lost++ < 20)
        printf("%s: nothing is said of %s\n", path, inst->name->text);
  hl_arena_free(arena);
}

static void try_pair(const char *before, const char *after, bool runs, Tally *tally) {
  HlCx *cx = hl_cx_new();
  HlFile a = {0}, b = {0};
  if (hl_load(cx, before, NULL, &a) && hl_load(cx, after, NULL, &b)) {
    HlDiff *diff =
        hl_diff(cx, a.modules[0], b.modules[0], &(HlDiffOptions){.mode = HL_DIFF_STAGES});
    tally->programs++;
    if (diff) {
      check_rows(diff, before, tally);
      if (runs)
        check_values(cx, diff, before, tally);
    } else {
      tally->lost++;
    }
    hl_diff_free(diff);
  }
  hl_file_free(&a);
  hl_file_free(&b);
  hl_cx_free(cx);
}

// The file of a folder whose name ends so; false: there is none.
static bool find_file(const char *folder, const char *end, char *out, size_t n) {
  DIR *dir = opendir(folder);
  bool found = false;
  for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
    const size_t length = strlen(entry->d_name), m = strlen(end);
    if (length >= m && strcmp(entry->d_name + length - m, end) == 0)
      found = snprintf(out, n, "%s/%s", folder, entry->d_name) < (int)n;
  }
  if (dir)
    closedir(dir);
  return found;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static void try_folder(const char *folder, const char *before, const char *after, bool runs,
                       const char *only, Tally *tally) {
  struct dirent **entries = NULL;
  const int n = scandir(folder, &entries, NULL, by_name);
  for (int k = 0; k < n; k++) {
    char path[4096], a[8192], b[8192];
    if (entries[k]->d_name[0] != '.' &&
        snprintf(path, sizeof path, "%s/%s", folder, entries[k]->d_name) < (int)sizeof path &&
        (!only || strstr(path, only)) && find_file(path, before, a, sizeof a) &&
        find_file(path, after, b, sizeof b))
      try_pair(a, b, runs, tally);
    free(entries[k]);
  }
  free(entries);
}

// Models as XLA:GPU leaves them, beside what they were.
static void try_models(const char *corpus, const char *only, Tally *tally) {
  static const char end[] = ".gpu_after.hlo.zst";
  char folder[4096], a[8192], b[8192];
  struct dirent **entries = NULL;
  snprintf(folder, sizeof folder, "%s/newest/gpu_models", corpus);
  const int n = scandir(folder, &entries, NULL, by_name);
  for (int k = 0; k < n; k++) {
    const char *name = entries[k]->d_name;
    const size_t length = strlen(name), m = sizeof end - 1;
    if (length > m && strcmp(name + length - m, end) == 0 && (!only || strstr(name, only))) {
      snprintf(a, sizeof a, "%s/newest/models/%.*s.hlo.zst", corpus, (int)(length - m), name);
      snprintf(b, sizeof b, "%s/%s", folder, name);
      try_pair(a, b, false, tally);
    }
    free(entries[k]);
  }
  free(entries);
}

int main(int argc, char **argv) {
  static const struct {
    const char *folder, *before, *after;
    bool runs;
  } sets[] = {
      {"jax", "before.hlo", "after.hlo", true},
      {"newest/jax", "before.hlo", "after.hlo", true},
      {"newest/gpu", "before_optimizations.txt", "gpu_after_optimizations.txt", true},
      {"newest/cpu_passes", "before_optimizations.txt", "cpu_after_optimizations.txt", false}};
  const char *corpus = test_corpus();
  if (!corpus)
    return 77;
  Tally tally = {0};
  for (int k = 0; k < HL_COUNT_OF(sets); k++) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%s", corpus, sets[k].folder);
    try_folder(folder, sets[k].before, sets[k].after, sets[k].runs, argc > 1 ? argv[1] : NULL,
               &tally);
  }
  try_models(corpus, argc > 1 ? argv[1] : NULL, &tally);
  printf("%d programs, %lld live instructions, %lld not accounted for; partners of %lld\n",
         tally.programs, (long long)tally.live, (long long)tally.lost, (long long)tally.pairs);
  for (int k = HL_BY_STRUCTURE; k < HL_BY_COUNT; k++)
    printf("  by %-10s %7lld\n", hl_diff_by_text((HlDiffBy)k), (long long)tally.by[k]);
  printf(
      "%d programs run, %lld values of partners compared, %lld differ behind a change, %lld else\n",
      tally.runs, (long long)tally.values, (long long)tally.behind, (long long)tally.wrong);
  const bool enough = argc > 1 || (tally.programs >= 140 && tally.runs >= 50 &&
                                   tally.values >= 5000 && tally.behind * 50 < tally.values);
  if (!enough)
    printf("too little was tried\n");
  return tally.lost > 0 || tally.wrong > 0 || !enough;
}
