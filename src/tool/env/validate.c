// tool/env/validate.c: whether two modules give the same results.

#include <string.h>

#include "hilo/eval.h"
#include "hilo/trajectory.h"

typedef struct Side {
  const HlModule *m;
  HlLiteral **result;  // [device]
  int devices;
} Side;

static void drop(HlLiteral **at, int n) {
  for (int k = 0; at && k < n; k++)
    hl_literal_unref(at[k]);
}

static bool run_side(HlCx *cx, HlArena *arena, Side *side, HlLiteral *const *args) {
  side->devices = hl_eval_devices(side->m, NULL);
  side->result = HL_ARRAY(arena, HlLiteral *, side->devices + 1);
  const HlLiteral *const **all = HL_ARRAY(arena, const HlLiteral *const *, side->devices + 1);
  for (int d = 0; d < side->devices; d++)
    all[d] = (const HlLiteral *const *)args;
  return hl_eval(cx, side->m, NULL, all, side->result);
}

// Results that no input so far has given a finite value.
typedef struct Silent {
  HlArena *arena;
  bool *at;
  int n;
} Silent;

static void listen(HlArena *arena, const Side *side, Silent *silent) {
  int k = 0;
  for (int d = 0, n; d < side->devices; d++, k += n)
    hl_flatten(arena, side->result[d], &n);
  if (!silent->at) {
    silent->at = HL_ARRAY(silent->arena, bool, k + 1);
    silent->n = k;
    memset(silent->at, true, (size_t)k);
  }
  k = 0;
  for (int d = 0, n; d < side->devices; d++) {
    const HlLiteral **leaf = hl_flatten(arena, side->result[d], &n);
    for (int l = 0; l < n; l++, k++)
      silent->at[k] = silent->at[k] && hl_is_silent(leaf[l]);
  }
}

static bool compare_leaves(HlCx *cx, HlArena *arena, const Side *a, const Side *b,
                           const HlValidateOptions *o, HlValidated *out) {
  int n_vectors;
  const HlVectorLeaf *vectors = hl_vector_leaves(arena, a->m, &n_vectors);
  for (int d = 0; d < a->devices && out->equal; d++) {
    int n, m;
    const HlLiteral **expected = hl_flatten(arena, a->result[d], &n);
    const HlLiteral **actual = hl_flatten(arena, b->result[d], &m);
    if (n != m)
      return hl_error_kind(cx, HL_DIFFERS, (HlPos){0}, "one module has %d results, the other %d", n,
                           m);
    const HlCompareOptions options = {.tolerance = o->tolerance,
                                      .vectors = vectors,
                                      .n_vectors = n_vectors};
    HlMismatch *found = HL_ARRAY(arena, HlMismatch, n + 1);
    out->equal = hl_compare(cx, n, actual, expected, &options, found);
    for (int k = 0; k < n && !out->equal && out->leaf < 0; k++)
      if (!found[k].equal) {
        out->leaf = k;
        out->mismatch = found[k];
      }
  }
  return true;
}

// Integers of which the program wishes nothing are made up of any size, and most labels, lengths and keys are not: of every second
// input those are small.
static void tame(HlLiteral *value) {
  enum { LARGE = 1 << 16, SMALL = 5 };
  for (int k = 0; value->shape->dtype == HL_TUPLE && k < value->shape->rank; k++)
    tame(value->element[k]);
  for (int64_t k = 0; hl_is_integral(value->shape->dtype) && k < value->n; k++) {
    const int64_t v = hl_literal_i64(value, k);
    if (v >= LARGE || v <= -LARGE)
      hl_literal_set_i64(value, k, (int64_t)((uint64_t)v % SMALL));
  }
}

static bool validate_once(HlCx *cx, Side *a, Side *b, const HlValidateOptions *o, uint64_t seed,
                          bool small, Silent *silent, HlValidated *out) {
  HlArena *arena = hl_arena_new();
  const int n = a->m->entry->n_params;
  HlLiteral **args = HL_ARRAY(arena, HlLiteral *, n + 1);
  bool ok = hl_fake_args(cx, a->m, seed, args);
  for (int k = 0; ok && small && k < n; k++)
    tame(args[k]);
  ok = ok && run_side(cx, arena, a, args) && run_side(cx, arena, b, args) &&
       compare_leaves(cx, arena, a, b, o, out);
  if (ok)
    listen(arena, a, silent);
  drop(args, n);
  drop(a->result, a->devices);
  drop(b->result, b->devices);
  a->result = b->result = NULL;
  hl_arena_free(arena);
  return ok;
}

bool hl_validate(HlCx *cx, const HlModule *before, const HlModule *after,
                 const HlValidateOptions *options, HlValidated *out) {
  const HlValidateOptions usual = {0}, *o = options ? options : &usual;
  Side a = {.m = before}, b = {.m = after};
  *out = (HlValidated){.equal = true, .input = -1, .leaf = -1};
  if (before->entry->n_params != after->entry->n_params)
    return hl_error(cx, (HlPos){0}, "one module has %d parameters, the other %d",
                    before->entry->n_params, after->entry->n_params);
  Silent silent = {.arena = hl_arena_new()};
  bool ok = true;
  for (int k = 0; ok && k < (o->inputs > 0 ? o->inputs : 3) && out->equal; k++) {
    ok = validate_once(cx, &a, &b, o, o->seed + (uint64_t)k, k % 2 == 1, &silent, out);
    out->inputs += ok;
    if (!out->equal)
      out->input = k;
  }
  out->results = silent.n;
  for (int k = 0; k < silent.n; k++)
    out->silent += silent.at[k];
  hl_arena_free(silent.arena);
  return ok;
}
