// Replays a module: gathers its inputs, runs it, compares the results, saves them.
#include "hilo/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/npy.h"
#include "spmd/whole.h"

// The arrays PREFIX0, PREFIX1, ... of an array file, in the arena; device 0 may leave its prefix out.
static HlLiteral **numbered(HlArena *arena, const HlNpz *npz, int device, char letter, int *n) {
  HlLiteral **out = HL_ARRAY(arena, HlLiteral *, npz->n + 1);
  *n = 0;
  for (int k = 0; k < npz->n; k++) {
    char name[48];
    snprintf(name, sizeof name, "d%d.%c%d", device, letter, k);
    const HlLiteral *found = hl_npz_find(npz, name);
    if (!found && device == 0) {
      snprintf(name, sizeof name, "%c%d", letter, k);
      found = hl_npz_find(npz, name);
    }
    if (!found)
      break;
    out[(*n)++] = (HlLiteral *)found;
  }
  return out;
}

// Of all arguments of an exported function those that its module takes.
static int keep_args(const HlExported *exported, HlLiteral **leaf) {
  int n = 0;
  for (int k = 0; k < exported->n_in; k++)
    if (exported->in[k].is_kept)
      leaf[n++] = leaf[k];
  return n;
}

static bool device_args_from(HlCx *cx, const HlModule *m, const HlExported *exported,
                             const HlNpz *npz, int device, HlReplay *out) {
  int n, next = 0;
  HlLiteral **leaf = numbered(out->arena, npz, device, 'a', &n);
  if (exported && n == exported->n_in)
    n = keep_args(exported, leaf);
  if (n == 0 && device > 0) {  // one set of arguments for all
    for (int k = 0; k < out->n_params; k++)
      out->args[device][k] = hl_literal_ref(out->args[0][k]);
    return true;
  }
  for (int k = 0; k < out->n_params; k++) {
    out->args[device][k] = hl_unflatten(cx, m->entry->params[k]->shape, "a", n, leaf, &next);
    if (!out->args[device][k])
      return false;
  }
  if (next < n)
    hl_warn(cx, (HlPos){0}, "%d of the %d arrays given are not used: the program takes %d",
            n - next, n, next);
  return true;
}

static bool args_from_file(HlCx *cx, const HlModule *m, const HlReplayOptions *options,
                           HlReplay *out) {
  HlNpz npz = {0};
  bool ok = hl_npz_load(cx, options->args, &npz);
  for (int d = 0; ok && d < out->devices; d++)
    ok = device_args_from(cx, m, options->exported, &npz, d, out);
  hl_npz_free(&npz);
  return ok;
}

// A snapshot may have recorded a tuple's leaves as arguments of their own.
static bool args_from_record(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
                             HlReplay *out) {
  for (int d = 0; d < out->devices; d++) {
    int from = d < recorded->devices ? d : 0, next = 0, n = 0;
    HlLiteral **have = recorded->arguments[from];
    HlLiteral **leaf = HL_ARRAY(out->arena, HlLiteral *, 1);
    if (recorded->n_arguments == out->n_params) {
      for (int k = 0; k < out->n_params; k++)
        out->args[d][k] = hl_literal_ref(have[k]);
      continue;
    }
    leaf = have;
    n = recorded->n_arguments;
    for (int k = 0; k < out->n_params; k++)
      if (!(out->args[d][k] =
                hl_unflatten(cx, m->entry->params[k]->shape, "argument ", n, leaf, &next)))
        return false;
  }
  return true;
}

static bool fake_args(HlCx *cx, const HlModule *m, uint64_t seed, HlReplay *out) {
  for (int d = 0; d < out->devices; d++)
    if (!hl_fake_args(cx, m, seed, out->args[d]))
      return false;
  return true;
}

static bool gather_args(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
                        const HlReplayOptions *options, HlReplay *out) {
  out->n_params = m->entry->n_params;
  out->args = HL_ARRAY(out->arena, HlLiteral **, out->devices);
  for (int d = 0; d < out->devices; d++)
    out->args[d] = HL_ARRAY(out->arena, HlLiteral *, out->n_params + 1);
  bool is_recorded =
      recorded && recorded->devices > 0 && (recorded->n_arguments > 0 || recorded->result);
  out->inputs = options->args ? "args" : is_recorded ? "snapshot" : "fake";
  if (options->args)
    return args_from_file(cx, m, options, out);
  return is_recorded ? args_from_record(cx, m, recorded, out)
                     : fake_args(cx, m, options->seed, out);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void drop_results(HlReplay *out) {
  for (int d = 0; d < out->devices; d++) {
    hl_literal_unref(out->results[d]);
    out->results[d] = NULL;
  }
}

static bool run_once(HlCx *cx, const HlModule *m, const HlReplayOptions *options, HlReplay *out,
                     double *seconds) {
  drop_results(out);
  double start = hl_now();
  bool ok =
      hl_eval(cx, m, &options->eval, (const HlLiteral *const *const *)out->args, out->results);
  *seconds = hl_now() - start;
  return ok;
}

static bool run_all(HlCx *cx, const HlModule *m, const HlReplayOptions *options, HlReplay *out) {
  out->results = HL_ARRAY(out->arena, HlLiteral *, out->devices);
  if (!run_once(cx, m, options, out, &out->first_s))
    return false;
  out->best_s = out->median_s = out->first_s;
  out->runs = 1;
  if (options->iterations <= 0)
    return true;
  double *times = HL_ARRAY(out->arena, double, options->iterations);
  for (int k = 0; k < options->iterations; k++)
    if (!run_once(cx, m, options, out, &times[k]))
      return false;
  qsort(times, (size_t)options->iterations, sizeof(double), by_value);
  out->best_s = times[0];
  out->median_s = times[options->iterations / 2];
  out->runs += options->iterations;
  return true;
}

// Manual parts are written out before.
static bool run_whole(HlCx *cx, const HlModule *m, const HlReplayOptions *options, HlReplay *out) {
  if (!sp_has_borders(m))
    return run_all(cx, m, options, out);
  HlModule *runs = sp_without_borders(cx, m);
  const bool ok = runs && run_all(cx, runs, options, out);
  hl_module_free(runs);
  return ok;
}

static void list_leaves(HlReplay *out) {
  int capacity = 0;
  for (int d = 0; d < out->devices; d++) {
    int n;
    hl_flatten(out->arena, out->results[d], &n);
    capacity += n;
  }
  out->leaves = HL_ARRAY(out->arena, HlReplayLeaf, capacity + 1);
  for (int d = 0; d < out->devices; d++) {
    int n;
    const HlLiteral **leaf = hl_flatten(out->arena, out->results[d], &n);
    for (int k = 0; k < n; k++)
      out->leaves[out->n_leaves++] = (HlReplayLeaf){.device = d, .number = k, .value = leaf[k]};
  }
}

static bool compare_device(HlCx *cx, const HlModule *m, int device, int n_expected,
                           const HlLiteral *const *expected, const HlReplayOptions *options,
                           HlReplay *out) {
  HlReplayLeaf *first = NULL;
  int n = 0;
  for (int k = 0; k < out->n_leaves; k++)
    if (out->leaves[k].device == device) {
      first = first ? first : &out->leaves[k];
      n++;
    }
  if (n != n_expected)
    return hl_error(cx, (HlPos){0}, "the program has %d result%s, but %d %s expected", n,
                    n == 1 ? "" : "s", n_expected, n_expected == 1 ? "is" : "are");
  HlCompareOptions how = {.tolerance = options->tolerance};
  how.vectors = hl_vector_leaves(out->arena, m, &how.n_vectors);
  for (int k = 0; k < n; k++) {
    const int *vectors = k < how.n_vectors ? how.vectors + k : NULL;
    HlCompareOptions one = {
        .tolerance = how.tolerance, .vectors = vectors, .n_vectors = vectors ? 1 : 0};
    bool same = hl_compare(cx, 1, &first[k].value, &expected[k], &one, &first[k].mismatch);
    first[k].compared = true;
    out->n_compared++;
    out->n_different += !same;
  }
  return true;
}

static bool compare_with_file(HlCx *cx, const HlModule *m, const HlReplayOptions *options,
                              HlReplay *out) {
  HlNpz npz = {0};
  bool ok = hl_npz_load(cx, options->expect, &npz);
  for (int d = 0; ok && d < out->devices; d++) {
    int n;
    HlLiteral **expected = numbered(out->arena, &npz, d, 'r', &n);
    if (n == 0 && d > 0)
      continue;
    ok = compare_device(cx, m, d, n, (const HlLiteral *const *)expected, options, out);
  }
  hl_npz_free(&npz);
  return ok;
}

static bool compare_all(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
                        const HlReplayOptions *options, HlReplay *out) {
  if (options->no_compare)
    return true;
  if (options->expect)
    return compare_with_file(cx, m, options, out);
  if (!recorded || !recorded->result)
    return true;
  int n;
  const HlLiteral **expected = hl_flatten(out->arena, recorded->result, &n);
  return compare_device(cx, m, 0, n, expected, options, out);
}

static bool save(HlCx *cx, const char *path, HlReplay *out) {
  const char **names = HL_ARRAY(out->arena, const char *, out->n_leaves + 1);
  HlLiteral **values = HL_ARRAY(out->arena, HlLiteral *, out->n_leaves + 1);
  for (int k = 0; k < out->n_leaves; k++) {
    const HlReplayLeaf *leaf = &out->leaves[k];
    names[k] = leaf->device == 0
                   ? hl_arena_printf(out->arena, "r%d", leaf->number)
                   : hl_arena_printf(out->arena, "d%d.r%d", leaf->device, leaf->number);
    values[k] = (HlLiteral *)leaf->value;
  }
  return hl_npz_write(cx, path, out->n_leaves, names, values);
}

bool hl_replay_inputs(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
                      const HlReplayOptions *options, HlReplay *out) {
  *out = (HlReplay){.arena = hl_arena_new()};
  out->devices = hl_eval_devices(m, &options->eval);
  if (out->devices > hl_cx_limits(cx)->devices)
    return hl_error_kind(cx, HL_LIMIT, hl_module_pos(m),
                         "the program runs on %d devices; the limit is %lld (limit devices)",
                         out->devices, (long long)hl_cx_limits(cx)->devices);
  out->results = HL_ARRAY(out->arena, HlLiteral *, out->devices);
  return gather_args(cx, m, recorded, options, out);
}

bool hl_replay(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
               const HlReplayOptions *options, HlReplay *out) {
  if (!hl_replay_inputs(cx, m, recorded, options, out) || !run_whole(cx, m, options, out))
    return false;
  list_leaves(out);
  return compare_all(cx, m, recorded, options, out) &&
         (!options->save || save(cx, options->save, out));
}

void hl_replay_free(HlReplay *replay) {
  if (!replay->arena)
    return;
  if (replay->results)
    drop_results(replay);
  for (int d = 0; replay->args && d < replay->devices; d++)
    for (int k = 0; replay->args[d] && k < replay->n_params; k++)
      hl_literal_unref(replay->args[d][k]);
  hl_arena_free(replay->arena);
  *replay = (HlReplay){0};
}
