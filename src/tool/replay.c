// Replays a module: gathers its inputs, runs it, compares the results, saves them.
#include "hilo/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "hilo/npy.h"
#include "spmd/local.h"
#include "spmd/tiles.h"
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

// --- Whole arrays -----------------------------------------------------------------------------------

static const HlSharding *parameter_sharding(const HlModule *m, int k) {
  return k < m->n_spmd_parameter_shardings ? m->spmd_parameter_shardings[k]
                                           : hl_sharding(m->entry->params[k]);
}

static const HlSharding *result_sharding(const HlModule *m) {
  return m->spmd_output_sharding ? m->spmd_output_sharding : hl_sharding(m->entry->root);
}

// Arrays given for the leaves of a device's parameters, of which those are cut that are the whole program's.
typedef struct Cutting {
  HlCx *cx;
  const HlModule *m;
  int device;
  int n, next;        // arrays
  HlLiteral **array;  // in place; those that are cut are references of our own
  bool *is_cut;
  bool any;
} Cutting;

static void cut_leaves(Cutting *c, const HlShape *shape, const HlSharding *sharding,
                       int64_t *leaf) {
  if (shape->dtype == HL_TUPLE) {
    for (int k = 0; k < shape->rank; k++)
      cut_leaves(c, shape->element[k], sharding, leaf);
    return;
  }
  const HlSharding *own = sharding ? hl_sharding_leaf(sharding, (*leaf)++) : NULL;
  if (!hl_is_array_dtype(shape->dtype) || c->next == c->n)
    return;
  const int at = c->next++;
  if (!own || hl_shape_same_dims(c->array[at]->shape, shape))
    return;
  HlLiteral *cut = sp_cut(c->cx, c->m, c->device, own, c->array[at], shape);
  if (cut) {
    c->array[at] = cut;
    c->any = c->is_cut[at] = true;
  }
}

static Cutting cut_arrays(HlCx *cx, HlArena *arena, const HlModule *m, int device, int n,
                          HlLiteral **array) {
  Cutting c = {cx, m, device, n, 0, array, HL_ARRAY(arena, bool, n + 1), false};
  for (int k = 0; m->num_partitions > 1 && k < m->entry->n_params; k++) {
    int64_t leaf = 0;
    cut_leaves(&c, m->entry->params[k]->shape, parameter_sharding(m, k), &leaf);
  }
  return c;
}

static void drop_cuts(Cutting *c) {
  for (int k = 0; k < c->n; k++)
    if (c->is_cut[k])
      hl_literal_unref(c->array[k]);
}

// --- Arguments --------------------------------------------------------------------------------------

static bool take_args(HlCx *cx, const HlModule *m, int device, int n, HlLiteral *const *leaf,
                      HlReplay *out, int *next) {
  for (int k = 0; k < out->n_params; k++) {
    out->args[device][k] = hl_unflatten(cx, m->entry->params[k]->shape, "a", n, leaf, next);
    if (!out->args[device][k])
      return false;
  }
  return true;
}

// A program for one device of several takes its own arrays or those of the whole program, of which it gets its part.
static bool device_args_from(HlCx *cx, const HlModule *m, const HlExported *exported,
                             const HlNpz *npz, int device, HlReplay *out) {
  int n, next = 0;
  HlLiteral **leaf = numbered(out->arena, npz, device, 'a', &n);
  const bool is_shared = n == 0 && device > 0;
  if (is_shared)
    leaf = numbered(out->arena, npz, 0, 'a', &n);
  if (exported && n == exported->n_in)
    n = keep_args(exported, leaf);
  Cutting cutting = cut_arrays(cx, out->arena, m, device, n, leaf);
  if (is_shared && !cutting.any) {  // one set of arguments for all
    for (int k = 0; k < out->n_params; k++)
      out->args[device][k] = hl_literal_ref(out->args[0][k]);
    return true;
  }
  const bool ok = take_args(cx, m, device, n, leaf, out, &next);
  drop_cuts(&cutting);
  if (!ok || is_shared)
    return ok;
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

// The same for all devices.
static bool fake_args(HlCx *cx, const HlModule *m, uint64_t seed, HlReplay *out) {
  if (!hl_fake_args(cx, m, seed, out->args[0]))
    return false;
  for (int d = 1; d < out->devices; d++)
    for (int k = 0; k < out->n_params; k++)
      out->args[d][k] = hl_literal_ref(out->args[0][k]);
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

static bool run_program(HlCx *cx, void *user, const HlLiteral *const *const *args,
                        HlLiteral **results) {
  const HlReplayOptions *options = user;
  return hl_cpu_run(cx, options->program, &options->eval, args, results);
}

static bool run_once(HlCx *cx, const HlModule *m, const HlReplayOptions *options, HlReplay *out,
                     double *seconds) {
  const HlLiteral *const *const *args = (const HlLiteral *const *const *)out->args;
  drop_results(out);
  double start = hl_now();
  bool ok = options->program
                ? sp_run_local(cx, hl_cpu_module(options->program), m, &options->eval, run_program,
                               (void *)(uintptr_t)options, args, out->results)
                : hl_eval(cx, m, &options->eval, args, out->results);
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
  if (options->program || !sp_has_borders(m))
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

// A result and what is expected of it: where that is the whole program's, the device's part of it.
static bool compare_leaf(HlCx *cx, const HlModule *m, HlReplayLeaf *leaf, const HlLiteral *expected,
                         const HlCompareOptions *how) {
  const HlSharding *sharding = result_sharding(m);
  const HlSharding *own = sharding ? hl_sharding_leaf(sharding, leaf->number) : NULL;
  HlLiteral *part = NULL, *mine = NULL, *theirs = NULL;
  if (own && m->num_partitions > 1 && hl_shape_is_array(expected->shape) &&
      !hl_shape_same_dims(leaf->value->shape, expected->shape)) {
    part = sp_cut(cx, m, leaf->device, own, expected, leaf->value->shape);
    mine = part ? sp_crop(cx, m, leaf->device, own, leaf->value, expected->shape) : NULL;
    theirs = mine ? sp_crop(cx, m, leaf->device, own, part, expected->shape) : NULL;
  }
  if (!sharding && leaf->number == 0 && leaf->device == 0 && m->num_partitions > 1 &&
      !hl_shape_same_dims(leaf->value->shape, expected->shape))
    hl_tell(cx, hl_module_pos(m),
            "the program does not say how its results are cut: expect those of each device, "
            "d0.r0, d1.r0, ...");
  const HlLiteral *a = theirs ? mine : leaf->value, *e = theirs ? theirs : expected;
  const bool same = hl_compare(cx, 1, &a, &e, how, &leaf->mismatch);
  hl_literal_unref(part);
  hl_literal_unref(mine);
  hl_literal_unref(theirs);
  return same;
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
    const bool is_vector = k < how.n_vectors;
    HlCompareOptions one = {.tolerance = how.tolerance,
                            .vectors = is_vector ? how.vectors + k : NULL,
                            .n_vectors = is_vector,
                            .values = expected,
                            .n_values = n_expected};
    const bool same = compare_leaf(cx, m, &first[k], expected[k], &one);
    first[k].compared = true;
    out->n_compared++;
    out->n_different += !same;
  }
  return true;
}

// Whether some result is expected in other sizes than the device has: those of the whole program.
static bool are_whole(const HlModule *m, const HlReplay *r, int device, int n,
                      HlLiteral *const *expected) {
  for (int k = 0; result_sharding(m) && k < r->n_leaves; k++) {
    const HlReplayLeaf *leaf = &r->leaves[k];
    if (leaf->device == device && leaf->number < n && hl_shape_is_array(leaf->value->shape) &&
        hl_shape_is_array(expected[leaf->number]->shape) &&
        !hl_shape_same_dims(leaf->value->shape, expected[leaf->number]->shape))
      return true;
  }
  return false;
}

static bool compare_with_file(HlCx *cx, const HlModule *m, const HlReplayOptions *options,
                              HlReplay *out) {
  HlNpz npz = {0};
  bool ok = hl_npz_load(cx, options->expect, &npz);
  for (int d = 0; ok && d < out->devices; d++) {
    int n;
    HlLiteral **expected = numbered(out->arena, &npz, d, 'r', &n);
    const bool is_shared = n == 0 && d > 0;
    if (is_shared)
      expected = numbered(out->arena, &npz, 0, 'r', &n);
    if (is_shared && !are_whole(m, out, d, n, expected))
      continue;
    ok = compare_device(cx, m, d, n, (const HlLiteral *const *)expected, options, out);
  }
  hl_npz_free(&npz);
  return ok;
}

static bool compare_expected(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
                             const HlReplayOptions *options, HlReplay *out) {
  if (options->expect)
    return compare_with_file(cx, m, options, out);
  if (!recorded || !recorded->result)
    return true;
  int n;
  const HlLiteral **expected = hl_flatten(out->arena, recorded->result, &n);
  return compare_device(cx, m, 0, n, expected, options, out);
}

// --- The reference -----------------------------------------------------------------------------------

// A leaf that is as expected, or of which nothing was, beside what the interpreter gives.
static void compare_leaf_with_reference(HlCx *cx, HlReplayLeaf *leaf, const HlLiteral *actual,
                                        const HlLiteral *expected, const HlCompareOptions *how,
                                        HlReplay *out) {
  HlMismatch found;
  const bool same = hl_compare(cx, 1, &actual, &expected, how, &found);
  out->n_compared += !leaf->compared;
  out->n_different += !same && (!leaf->compared || leaf->mismatch.equal);
  if (!leaf->compared || (!same && leaf->mismatch.equal))
    leaf->mismatch = found;
  leaf->compared = true;
}

static bool compare_device_with_reference(HlCx *cx, const HlModule *m,
                                          const HlReplayOptions *options, int device,
                                          const HlLiteral *reference, HlReplay *out) {
  SpPair pair =
      sp_pair(cx, hl_cpu_module(options->program), m, device, out->results[device], reference);
  if (!pair.actual)
    return hl_error(cx, hl_module_pos(m), "the result of device %d is not its part of the whole",
                    device);
  int n, n_expected, next = 0, n_vectors;
  const HlLiteral **actual = hl_flatten(out->arena, pair.actual, &n);
  const HlLiteral **expected = hl_flatten(out->arena, pair.expected, &n_expected);
  const HlVectorLeaf *vectors = hl_vector_leaves(out->arena, m, &n_vectors);
  for (int k = 0; k < out->n_leaves; k++) {
    if (out->leaves[k].device != device || next == n || n != n_expected)
      continue;
    const bool is_vector = next < n_vectors;
    const HlCompareOptions how = {.tolerance = options->tolerance,
                                  .vectors = is_vector ? vectors + next : NULL,
                                  .n_vectors = is_vector,
                                  .values = expected,
                                  .n_values = n_expected};
    compare_leaf_with_reference(cx, &out->leaves[k], actual[next], expected[next], &how, out);
    next++;
  }
  sp_pair_free(&pair);
  return true;
}

static bool compare_reference(HlCx *cx, const HlModule *m, const HlReplayOptions *options,
                              HlReplay *out) {
  if (!options->program || options->no_reference)
    return true;
  HlLiteral **results = HL_ARRAY(out->arena, HlLiteral *, out->devices);
  const double start = hl_now();
  bool ok =
      sp_eval_local(cx, m, m, &options->eval, (const HlLiteral *const *const *)out->args, results);
  out->reference_s = hl_now() - start;
  out->has_reference = ok;
  for (int d = 0; d < out->devices; d++) {
    ok = ok && compare_device_with_reference(cx, m, options, d, results[d], out);
    hl_literal_unref(results[d]);
  }
  return ok;
}

static bool compare_all(HlCx *cx, const HlModule *m, const HlRecorded *recorded,
                        const HlReplayOptions *options, HlReplay *out) {
  return options->no_compare || (compare_expected(cx, m, recorded, options, out) &&
                                 compare_reference(cx, m, options, out));
}

// --- Saving -----------------------------------------------------------------------------------------

// "r0", or "d1.r0" of another device.
static const char *numbered_name(HlArena *arena, int device, char letter, int number) {
  return device == 0 ? hl_arena_printf(arena, "%c%d", letter, number)
                     : hl_arena_printf(arena, "d%d.%c%d", device, letter, number);
}

static bool save(HlCx *cx, const char *path, HlReplay *out) {
  const char **names = HL_ARRAY(out->arena, const char *, out->n_leaves + 1);
  HlLiteral **values = HL_ARRAY(out->arena, HlLiteral *, out->n_leaves + 1);
  for (int k = 0; k < out->n_leaves; k++) {
    const HlReplayLeaf *leaf = &out->leaves[k];
    names[k] = numbered_name(out->arena, leaf->device, 'r', leaf->number);
    values[k] = (HlLiteral *)leaf->value;
  }
  return hl_npz_write(cx, path, out->n_leaves, names, values);
}

static bool save_args(HlCx *cx, const char *path, HlReplay *out) {
  VEC(const char *) names = {0};
  VEC(HlLiteral *) values = {0};
  for (int d = 0; d < out->devices; d++) {
    int number = 0;
    for (int k = 0; k < out->n_params; k++) {
      int n;
      const HlLiteral **leaf = hl_flatten(out->arena, out->args[d][k], &n);
      for (int l = 0; l < n; l++) {
        vec_push_in(out->arena, &names, numbered_name(out->arena, d, 'a', number++));
        vec_push_in(out->arena, &values, (HlLiteral *)leaf[l]);
      }
    }
  }
  return hl_npz_write(cx, path, names.n, names.at, values.at);
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
  if (!hl_replay_inputs(cx, m, recorded, options, out) ||
      (options->save_args && !save_args(cx, options->save_args, out)) ||
      !run_whole(cx, m, options, out))
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
