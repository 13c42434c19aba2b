// spmd/local.c: cuts whole values for a device, and crops what a device has to what lies inside.

#include "spmd/local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "spmd/tiles.h"
#include "spmd/whole.h"

// How one value is cut, for one partition. Its leaves are gone through in order: `leaf` is the next.
typedef struct Cut {
  HlCx *cx;
  HlArena *arena;
  HlShapes *shapes;
  const HlSharding *sharding;  // NULL: not at all
  int64_t partition, n_partitions;
  int64_t leaf;
} Cut;

// Where the part of a partition lies in the array, and how large it is; the same for all `tile`.
typedef struct Box {
  int64_t *start, *size, *tile;
} Box;

// --- Arrays ---------------------------------------------------------------------------------------

// As the partitioner sees it: what is held by one device is held by all, and an array whose sizes are
// known only at run time is not cut.
static const HlTiles *tiles_of_leaf(const Cut *c, int64_t leaf, const HlShape *shape) {
  const HlSharding *own = c->sharding ? hl_sharding_leaf(c->sharding, leaf) : NULL;
  const HlTiles *tiles = own && !hl_shape_is_dynamic(shape)
                             ? hl_tiles_of(c->arena, own, shape->rank, c->n_partitions)
                             : NULL;
  return tiles ? tiles : hl_tiles_replicated(c->arena, shape->rank, c->n_partitions);
}

static Box box_of(const Cut *c, int64_t leaf, const HlShape *shape) {
  const HlTiles *tiles = tiles_of_leaf(c, leaf, shape);
  const int rank = shape->rank;
  Box box = {.start = HL_ARRAY(c->arena, int64_t, rank + 1),
             .size = HL_ARRAY(c->arena, int64_t, rank + 1),
             .tile = HL_ARRAY(c->arena, int64_t, rank + 1)};
  for (int k = 0; k < rank; k++) {
    hl_tiles_range(tiles, c->partition, k, shape->dim[k], &box.start[k], &box.size[k]);
    box.tile[k] = tiles->kind == HL_TILES_MAXIMAL ? shape->dim[k]
                                                  : hl_tile_size(shape->dim[k], tiles->parts[k]);
  }
  return box;
}

static int64_t element_at(const HlShape *shape, const int64_t *start, const int64_t *at) {
  int64_t n = 0;
  for (int k = 0; k < shape->rank; k++)
    n = n * shape->dim[k] + start[k] + at[k];
  return n;
}

// Copies a box of `size` elements from one place to another, row by row.
static void copy_box(const Cut *c, const HlLiteral *from, const int64_t *from_start, HlLiteral *to,
                     const int64_t *to_start, const int64_t *size) {
  const int rank = from->shape->rank, rows = rank > 0 ? rank - 1 : 0;
  const size_t bytes = (size_t)hl_dtype_bytes(from->shape->dtype);
  const size_t row = rank > 0 ? (size_t)size[rows] : 1;
  int64_t *at = HL_ARRAY(c->arena, int64_t, rank + 1), n = 1;
  for (int k = 0; k < rows; k++)
    n *= size[k];
  for (int64_t i = 0; row > 0 && i < n; i++) {
    memcpy((char *)to->data + bytes * (size_t)element_at(to->shape, to_start, at),
           (const char *)from->data + bytes * (size_t)element_at(from->shape, from_start, at),
           bytes * row);
    for (int k = rows - 1; k >= 0 && ++at[k] == size[k]; k--)
      at[k] = 0;
  }
}

static void fill(HlLiteral *out) {
  const HlDtype dtype = out->shape->dtype;
  for (int64_t k = 0; k < out->n; k++)
    if (hl_is_float(dtype) || hl_is_complex(dtype))
      hl_literal_set_f64(out, k, NAN);
    else
      hl_literal_set_i64(out, k, 1);
}

static HlLiteral *new_array(const Cut *c, const HlShape *like, const int64_t *size) {
  return hl_literal_new(c->cx, hl_shape_array(c->shapes, like->dtype, like->rank, size));
}

static bool has_size(const HlShape *shape, const int64_t *size) {
  for (int k = 0; k < shape->rank; k++)
    if (shape->dim[k] != size[k])
      return false;
  return true;
}

static HlLiteral *cut_array(const Cut *c, int64_t leaf, const HlLiteral *whole) {
  const Box box = box_of(c, leaf, whole->shape);
  if (has_size(whole->shape, box.size))
    return hl_literal_ref(whole);
  const int64_t *zero = HL_ARRAY(c->arena, int64_t, whole->shape->rank + 1);
  HlLiteral *out = new_array(c, whole->shape, box.tile);
  if (!out)
    return NULL;
  if (!has_size(out->shape, box.size))
    fill(out);
  copy_box(c, whole, box.start, out, zero, box.size);
  return out;
}

static HlLiteral *crop_array(const Cut *c, int64_t leaf, const HlLiteral *tile,
                             const HlShape *whole) {
  if (!hl_shape_is_array(tile->shape) || tile->shape->dtype != whole->dtype ||
      tile->shape->rank != whole->rank)
    return NULL;
  const Box box = box_of(c, leaf, whole);
  if (!has_size(tile->shape, box.tile))
    return NULL;
  if (has_size(tile->shape, box.size))
    return hl_literal_ref(tile);
  const int64_t *zero = HL_ARRAY(c->arena, int64_t, whole->rank + 1);
  HlLiteral *out = new_array(c, whole, box.size);
  if (out)
    copy_box(c, tile, zero, out, zero, box.size);
  return out;
}

// --- Values ---------------------------------------------------------------------------------------

static HlLiteral *tuple_of(HlCx *cx, int n, HlLiteral **element, bool ok) {
  HlLiteral *tuple = ok ? hl_literal_tuple(cx, n, element) : NULL;
  for (int k = 0; k < n; k++)
    hl_literal_unref(element[k]);
  return tuple;
}

// A value of this shape, cut, or, when it is a device's already, cropped. NULL: the shapes differ.
static HlLiteral *part_of(Cut *c, const HlLiteral *value, const HlShape *whole, bool crops) {
  if (!hl_shape_is_tuple(whole)) {
    const int64_t leaf = c->leaf++;
    if (!hl_shape_is_array(whole))
      return hl_literal_ref(value);
    return crops ? crop_array(c, leaf, value, whole) : cut_array(c, leaf, value);
  }
  if (!hl_shape_is_tuple(value->shape) || value->shape->rank != whole->rank)
    return NULL;
  HlLiteral **element = HL_ARRAY(c->arena, HlLiteral *, whole->rank + 1);
  bool ok = true;
  for (int k = 0; ok && k < whole->rank; k++) {
    element[k] = part_of(c, value->element[k], whole->element[k], crops);
    ok = element[k] != NULL;
  }
  return tuple_of(c->cx, whole->rank, element, ok);
}

// --- Modules --------------------------------------------------------------------------------------

static bool says_shardings(const HlModule *m) {
  return m->n_spmd_parameter_shardings > 0 || m->spmd_output_sharding;
}

static bool same_interface(const HlModule *a, const HlModule *b) {
  if (a->entry->n_params != b->entry->n_params ||
      !hl_shape_compatible(a->entry->root->shape, b->entry->root->shape))
    return false;
  for (int k = 0; k < a->entry->n_params; k++)
    if (!hl_shape_compatible(a->entry->params[k]->shape, b->entry->params[k]->shape))
      return false;
  return true;
}

bool sp_is_local(const HlModule *m, const HlModule *whole) {
  return m->num_partitions > 1 &&
         ((says_shardings(m) && !says_shardings(whole)) || !same_interface(m, whole));
}

static const HlSharding *parameter_sharding(const HlModule *m, const HlModule *whole, int k) {
  if (says_shardings(m))
    return k < m->n_spmd_parameter_shardings ? m->spmd_parameter_shardings[k] : NULL;
  return hl_sharding(whole->entry->params[k]);
}

static Cut cut_by(HlCx *cx, HlArena *arena, const HlModule *m, const HlModule *whole, int device,
                  const HlSharding *sharding) {
  return (Cut){.cx = cx,
               .arena = arena,
               .shapes = whole->shapes,
               .sharding = sharding,
               .partition = device % m->num_partitions,
               .n_partitions = m->num_partitions};
}

static bool has_sizes_of_part(const Cut *c, const HlShape *whole, const HlShape *part) {
  return hl_shape_is_array(whole) && whole->rank == part->rank &&
         has_size(part, box_of(c, 0, whole).tile);
}

HlLiteral *sp_cut(HlCx *cx, const HlModule *m, int device, const HlSharding *sharding,
                  const HlLiteral *whole, const HlShape *part) {
  HlArena *arena = hl_arena_new();
  const Cut c = cut_by(cx, arena, m, m, device, sharding);
  HlLiteral *out = has_sizes_of_part(&c, whole->shape, part) ? cut_array(&c, 0, whole) : NULL;
  hl_arena_free(arena);
  return out;
}

HlLiteral *sp_crop(HlCx *cx, const HlModule *m, int device, const HlSharding *sharding,
                   const HlLiteral *part, const HlShape *whole) {
  HlArena *arena = hl_arena_new();
  const Cut c = cut_by(cx, arena, m, m, device, sharding);
  whole = hl_shape_with_dtype(m->shapes, whole, part->shape->dtype);
  HlLiteral *out =
      has_sizes_of_part(&c, whole, part->shape) ? crop_array(&c, 0, part, whole) : NULL;
  hl_arena_free(arena);
  return out;
}

static bool cut_args(HlCx *cx, HlArena *arena, const HlModule *m, const HlModule *whole, int device,
                     const HlLiteral *const *args, HlLiteral **out) {
  for (int k = 0; k < whole->entry->n_params; k++) {
    Cut c = cut_by(cx, arena, m, whole, device, parameter_sharding(m, whole, k));
    out[k] = part_of(&c, args[k], args[k]->shape, false);
    if (!out[k])
      return false;
  }
  return true;
}

bool sp_run_local(HlCx *cx, const HlModule *m, const HlModule *whole, const HlEvalOptions *options,
                  SpRun *run, void *user, const HlLiteral *const *const *args,
                  HlLiteral **results) {
  const int devices = hl_eval_devices(whole, options), n = whole->entry->n_params;
  for (int d = 0; d < devices; d++)
    results[d] = NULL;
  if (hl_eval_devices(m, options) != devices || m->entry->n_params != n)
    return hl_error(cx, hl_module_pos(m), "it no longer has the devices or the parameters it had");
  if (!sp_is_local(m, whole))
    return run(cx, user, args, results);
  HlArena *arena = hl_arena_new();
  HlLiteral ***local = HL_ARRAY(arena, HlLiteral **, devices + 1);
  bool ok = true;
  for (int d = 0; ok && d < devices; d++) {
    local[d] = HL_ARRAY(arena, HlLiteral *, n + 1);
    ok = cut_args(cx, arena, m, whole, d, args[d], local[d]);
  }
  ok = ok && run(cx, user, (const HlLiteral *const *const *)local, results);
  for (int d = 0; d < devices && local[d]; d++)
    for (int k = 0; k < n; k++)
      hl_literal_unref(local[d][k]);
  hl_arena_free(arena);
  return ok;
}

typedef struct Evaluation {
  const HlModule *m;
  const HlEvalOptions *options;
} Evaluation;

static bool evaluate(HlCx *cx, void *user, const HlLiteral *const *const *args,
                     HlLiteral **results) {
  const Evaluation *e = user;
  return hl_eval(cx, e->m, e->options, args, results);
}

// What is whole outside manual parts only is written out before.
bool sp_eval_local(HlCx *cx, const HlModule *m, const HlModule *whole, const HlEvalOptions *options,
                   const HlLiteral *const *const *args, HlLiteral **results) {
  HlModule *without = NULL;
  if (!sp_is_local(m, whole) && sp_has_borders(m)) {
    without = sp_without_borders(cx, m);
    if (!without)
      return false;
  }
  Evaluation e = {without ? without : m, options};
  const bool ok = sp_run_local(cx, m, whole, options, evaluate, &e, args, results);
  hl_module_free(without);
  return ok;
}

SpPair sp_pair(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
               const HlLiteral *actual, const HlLiteral *expected) {
  if (!sp_is_local(m, whole))
    return (SpPair){hl_literal_ref(actual), hl_literal_ref(expected)};
  HlArena *arena = hl_arena_new();
  const HlSharding *sharding =
      says_shardings(m) ? m->spmd_output_sharding : hl_sharding(whole->entry->root);
  Cut cut = cut_by(cx, arena, m, whole, device, sharding), crop = cut, again = cut;
  SpPair pair = {.actual = part_of(&crop, actual, expected->shape, true)};
  HlLiteral *tile = pair.actual ? part_of(&cut, expected, expected->shape, false) : NULL;
  if (tile)
    pair.expected = part_of(&again, tile, expected->shape, true);
  hl_literal_unref(tile);
  if (!pair.expected)
    sp_pair_free(&pair);
  hl_arena_free(arena);
  return pair;
}

void sp_pair_free(SpPair *pair) {
  hl_literal_unref(pair->actual);
  hl_literal_unref(pair->expected);
  *pair = (SpPair){0};
}
