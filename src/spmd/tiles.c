// Grids of devices: conversions from and to shardings, questions, groups.
#include "spmd/tiles.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 1 << 20 };

// --- Making them -------------------------------------------------------------------------------

static HlTilesKind kind_of(int64_t n, int64_t manual, int64_t unreduced, int64_t replicas) {
  if (replicas == n)
    return HL_TILES_REPLICATED;
  if (manual == n)
    return HL_TILES_MANUAL;
  return unreduced == n ? HL_TILES_UNREDUCED : HL_TILES_TILED;
}

const HlTiles *hl_tiles_new(HlArena *arena, int rank, const int64_t *parts, int64_t manual,
                            int64_t unreduced, int64_t replicas, const int64_t *device) {
  int64_t n = 1;
  for (int k = 0; k < rank + 3; k++) {
    const int64_t size = k < rank        ? parts[k]
                         : k == rank     ? manual
                         : k == rank + 1 ? unreduced
                                         : replicas;
    if (size < 1 || size > MOST_DEVICES || (n *= size) > MOST_DEVICES)
      return NULL;
  }
  int64_t *place = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    place[k] = -1;
  for (int64_t k = 0; k < n; k++) {
    if (device[k] < 0 || device[k] >= n || place[device[k]] >= 0)
      return NULL;
    place[device[k]] = k;
  }
  HlTiles *t = HL_NEW(arena, HlTiles);
  *t = (HlTiles){.kind = kind_of(n, manual, unreduced, replicas),
                 .rank = rank,
                 .parts = hl_arena_copy(arena, parts, (size_t)rank * sizeof(int64_t)),
                 .manual = manual,
                 .unreduced = unreduced,
                 .replicas = replicas,
                 .n = n,
                 .device = hl_arena_copy(arena, device, (size_t)n * sizeof(int64_t)),
                 .place = place};
  return t;
}

// All devices in order, all in one subgroup.
static const HlTiles *one_group(HlArena *arena, int rank, int64_t n_devices, HlTilesKind kind) {
  if (n_devices < 1 || n_devices > MOST_DEVICES)
    return NULL;
  int64_t *parts = HL_ARRAY(arena, int64_t, rank), *device = HL_ARRAY(arena, int64_t, n_devices);
  for (int k = 0; k < rank; k++)
    parts[k] = 1;
  for (int64_t k = 0; k < n_devices; k++)
    device[k] = k;
  return hl_tiles_new(arena, rank, parts, kind == HL_TILES_MANUAL ? n_devices : 1,
                      kind == HL_TILES_UNREDUCED ? n_devices : 1,
                      kind == HL_TILES_REPLICATED ? n_devices : 1, device);
}

const HlTiles *hl_tiles_replicated(HlArena *arena, int rank, int64_t n_devices) {
  return one_group(arena, rank, n_devices, HL_TILES_REPLICATED);
}

const HlTiles *hl_tiles_manual(HlArena *arena, int rank, int64_t n_devices) {
  return one_group(arena, rank, n_devices, HL_TILES_MANUAL);
}

const HlTiles *hl_tiles_maximal(HlArena *arena, int rank, int64_t device) {
  HlTiles *t = HL_NEW(arena, HlTiles);
  int64_t *parts = HL_ARRAY(arena, int64_t, rank);
  for (int k = 0; k < rank; k++)
    parts[k] = 1;
  *t = (HlTiles){.kind = HL_TILES_MAXIMAL,
                 .rank = rank,
                 .parts = parts,
                 .manual = 1,
                 .unreduced = 1,
                 .replicas = 1,
                 .n = 1,
                 .device = hl_arena_copy(arena, &device, sizeof device)};
  return t;
}

const HlSharding *hl_sharding_leaf(const HlSharding *sharding, int64_t k) {
  if (!sharding || sharding->kind != HL_SHARDING_TUPLE)
    return sharding;
  return k < sharding->n_elements ? sharding->element[k] : NULL;
}

static const HlTiles *of_tiled(HlArena *arena, const HlSharding *s, int rank) {
  const int groups = s->tile.n - rank;
  const HlI64s ids = s->iota.dims.n ? hl_iota_ids(arena, &s->iota) : s->devices;
  int64_t n = 1, of_group[3] = {1, 1, 1};
  for (int k = 0; k < s->tile.n && n > 0; k++)
    n = s->tile.at[k] > 0 && s->tile.at[k] <= MOST_DEVICES / n ? n * s->tile.at[k] : 0;
  const int n_kinds = s->replicate_last ? 1 : s->last_tile_dims.n;
  if (groups != n_kinds || ids.n != n || n == 0)
    return NULL;
  int last = -1;  // canonical shardings have at most one subgroup of a kind, in the grid's order
  for (int k = 0; k < groups; k++) {
    const int64_t kind = s->replicate_last ? HL_SHARDING_REPLICATED : s->last_tile_dims.at[k];
    const int at = kind == HL_SHARDING_MANUAL       ? 0
                   : kind == HL_SHARDING_UNREDUCED  ? 1
                   : kind == HL_SHARDING_REPLICATED ? 2
                                                    : -1;
    if (at <= last)
      return NULL;
    of_group[at] = s->tile.at[rank + k];
    last = at;
  }
  return hl_tiles_new(arena, rank, s->tile.at, of_group[0], of_group[1], of_group[2], ids.at);
}

// --- Named shardings -----------------------------------------------------------------------------

// A mesh cut into digits: every axis into the pieces that the sharding speaks of.
typedef struct Digit {
  int axis;
  int64_t pre, size;  // product of the axis' pieces before this one; its own size
  bool taken;
} Digit;
enum { MOST_DIGITS = 64 };

typedef struct Digits {
  Digit at[MOST_DIGITS];
  int n;
} Digits;

static bool is_border(const HlAxes *lists, int n_lists, int axis, int64_t at) {
  for (int l = 0; l < n_lists; l++)
    for (int k = 0; k < lists[l].n; k++) {
      const HlAxisRef *ref = &lists[l].at[k];
      if (ref->axis == axis && ref->size &&
          (ref->pre_size == at || ref->pre_size * ref->size == at))
        return true;
    }
  return false;
}

static bool cut_mesh(const HlMesh *mesh, const HlAxes *lists, int n_lists, Digits *out) {
  out->n = 0;
  for (int a = 0; a < mesh->n; a++) {
    int64_t pre = 1;
    for (int64_t at = 2; at <= mesh->size[a]; at++) {
      if (at < mesh->size[a] && (mesh->size[a] % at || !is_border(lists, n_lists, a, at)))
        continue;
      if (at % pre || out->n == MOST_DIGITS)
        return false;
      out->at[out->n++] = (Digit){a, pre, at / pre, false};
      pre = at;
    }
  }
  return true;
}

// Appends the digits of the axes to order; the product of their sizes. 0: they are not there.
static int64_t take_axes(const HlMesh *mesh, Digits *digits, HlAxes axes, int *order, int *n) {
  int64_t product = 1;
  for (int k = 0; k < axes.n; k++) {
    const HlAxisRef *ref = &axes.at[k];
    if (ref->axis < 0 || ref->axis >= mesh->n)
      return 0;
    const int64_t from = ref->size ? ref->pre_size : 1;
    const int64_t to = from * (ref->size ? ref->size : mesh->size[ref->axis]);
    for (int d = 0; d < digits->n; d++) {
      Digit *digit = &digits->at[d];
      if (digit->axis != ref->axis || digit->pre < from || digit->pre >= to)
        continue;
      if (digit->taken)
        return 0;
      digit->taken = true;
      order[(*n)++] = d;
      product *= digit->size;
    }
  }
  return product;
}

// The ids of the mesh in the order of the digits: those of order from major to minor.
static int64_t *ids_in_order(HlArena *arena, const HlMesh *mesh, const Digits *digits,
                             const int *order, int64_t n) {
  int64_t stride[MOST_DIGITS], at[MOST_DIGITS] = {0}, s = 1;
  for (int d = digits->n - 1; d >= 0; d--) {
    stride[d] = s;
    s *= digits->at[d].size;
  }
  const HlI64s ids = mesh->iota.dims.n ? hl_iota_ids(arena, &mesh->iota) : mesh->devices;
  if (s != n || (ids.n && ids.n != n))
    return NULL;
  int64_t *device = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++) {
    int64_t place = 0;
    for (int d = 0; d < digits->n; d++)
      place += at[d] * stride[order[d]];
    device[k] = ids.n ? ids.at[place] : place;
    for (int d = digits->n - 1; d >= 0 && ++at[d] == digits->at[order[d]].size; d--)
      at[d] = 0;
  }
  return device;
}

static const HlTiles *of_named(HlArena *arena, const HlSharding *s, int rank, int64_t n_devices) {
  const HlMesh *mesh = s->mesh;
  if (!mesh)
    return NULL;
  if (mesh->maximal_device >= 0 && mesh->n == 0)
    return hl_tiles_maximal(arena, rank, mesh->maximal_device);
  if (s->n_dims != rank && s->n_dims != 0)
    return NULL;
  HlAxes *lists = HL_ARRAY(arena, HlAxes, rank + 3);
  for (int k = 0; k < s->n_dims; k++)
    lists[k] = s->dims[k].axes;
  lists[rank] = s->manual;
  lists[rank + 1] = s->unreduced;
  Digits digits;
  if (!cut_mesh(mesh, lists, rank + 2, &digits))
    return NULL;
  int order[MOST_DIGITS], n = 0;
  int64_t *sizes = HL_ARRAY(arena, int64_t, rank + 3), used = 1;
  for (int k = 0; k < rank + 2; k++) {
    sizes[k] = take_axes(mesh, &digits, lists[k], order, &n);
    if (sizes[k] == 0)
      return NULL;
    used *= sizes[k];
  }
  for (int d = 0; d < digits.n; d++)
    if (!digits.at[d].taken)
      order[n++] = d;
  int64_t *device = ids_in_order(arena, mesh, &digits, order, n_devices);
  if (!device || n_devices % used)
    return NULL;
  return hl_tiles_new(arena, rank, sizes, sizes[rank], sizes[rank + 1], n_devices / used, device);
}

const HlTiles *hl_tiles_of(HlArena *arena, const HlSharding *sharding, int rank,
                           int64_t n_devices) {
  if (!sharding)
    return NULL;
  const HlTiles *t = NULL;
  switch (sharding->kind) {
  case HL_SHARDING_REPLICATED: return one_group(arena, rank, n_devices, HL_TILES_REPLICATED);
  case HL_SHARDING_MANUAL: return one_group(arena, rank, n_devices, HL_TILES_MANUAL);
  case HL_SHARDING_UNREDUCED: return one_group(arena, rank, n_devices, HL_TILES_UNREDUCED);
  case HL_SHARDING_MAXIMAL: return hl_tiles_maximal(arena, rank, sharding->device);
  case HL_SHARDING_TILED:
    t = of_tiled(arena, hl_sharding_canonical(arena, sharding), rank);
    return t && t->n == n_devices ? t : NULL;
  case HL_SHARDING_NAMED: return of_named(arena, sharding, rank, n_devices);
  default: return NULL;
  }
}

// --- Back to shardings -----------------------------------------------------------------------------

// Finds the iota that spells the list: pieces of equal steps, minor to major. False: there is none.
static bool find_iota(const int64_t *ids, int64_t n, int64_t *size, int64_t *step, int *n_pieces) {
  *n_pieces = 0;
  if (n > 0 && ids[0] != 0)
    return false;
  for (int64_t run = 1; run < n;) {
    const int64_t by = ids[run];
    int64_t count = 2;
    while (run * count < n && ids[run * count] == by * count)
      count++;
    while (n % (run * count))
      count--;
    if (count < 2 || *n_pieces == MOST_DIGITS)
      return false;
    size[*n_pieces] = count;
    step[(*n_pieces)++] = by;
    run *= count;
  }
  for (int64_t k = 0; k < n; k++) {
    int64_t rest = k, id = 0;
    for (int p = 0; p < *n_pieces; p++) {
      id += rest % size[p] * step[p];
      rest /= size[p];
    }
    if (id != ids[k])
      return false;
  }
  return true;
}

static bool as_iota(HlArena *arena, const HlTiles *t, HlIota *out) {
  int64_t size[MOST_DIGITS], step[MOST_DIGITS];
  int n;
  if (!find_iota(t->device, t->n, size, step, &n))
    return false;
  int64_t *dims = HL_ARRAY(arena, int64_t, n + 1), *perm = HL_ARRAY(arena, int64_t, n + 1);
  for (int p = 0; p < n; p++) {  // dimension of the iota: how many pieces have longer steps
    int at = 0;
    for (int q = 0; q < n; q++)
      at += step[q] > step[p];
    dims[at] = size[p];
    perm[n - 1 - p] = at;
  }
  if (n <= 1) {
    dims[0] = t->n;
    *out = (HlIota){{dims, 1}, {perm, 1}};
    perm[0] = 0;
    return true;
  }
  *out = (HlIota){{dims, n}, {perm, n}};
  return true;
}

static const HlSharding *tiled_sharding(HlModule *m, const HlTiles *t) {
  HlSharding *s = HL_NEW(m->arena, HlSharding);
  int64_t *tile = HL_ARRAY(m->arena, int64_t, t->rank + 3);
  int64_t *last = HL_ARRAY(m->arena, int64_t, 3);
  int n = t->rank, n_last = 0;
  if (t->rank > 0)
    memcpy(tile, t->parts, (size_t)t->rank * sizeof *tile);
  const int64_t sizes[] = {t->manual, t->unreduced, t->replicas};
  const HlShardingKind kinds[] = {HL_SHARDING_MANUAL, HL_SHARDING_UNREDUCED,
                                  HL_SHARDING_REPLICATED};
  for (int k = 0; k < 3; k++)
    if (sizes[k] > 1) {
      tile[n++] = sizes[k];
      last[n_last++] = kinds[k];
    }
  *s = (HlSharding){.kind = HL_SHARDING_TILED, .tile = {tile, n}};
  if (n_last == 1 && last[0] == HL_SHARDING_REPLICATED)
    s->replicate_last = true;
  else
    s->last_tile_dims = (HlI64s){last, n_last};
  if (!as_iota(m->arena, t, &s->iota))
    s->devices = hl_i64s_copy(m->arena, (HlI64s){t->device, (int)t->n});
  return hl_sharding_canonical(m->arena, s);
}

const HlSharding *hl_tiles_sharding(HlModule *m, const HlTiles *t) {
  if (t->kind == HL_TILES_TILED)
    return tiled_sharding(m, t);
  HlSharding *s = HL_NEW(m->arena, HlSharding);
  s->kind = t->kind == HL_TILES_MANUAL      ? HL_SHARDING_MANUAL
            : t->kind == HL_TILES_UNREDUCED ? HL_SHARDING_UNREDUCED
            : t->kind == HL_TILES_MAXIMAL   ? HL_SHARDING_MAXIMAL
                                            : HL_SHARDING_REPLICATED;
  if (t->kind == HL_TILES_MAXIMAL)
    s->device = t->device[0];
  return s;
}

// --- Asking --------------------------------------------------------------------------------------

int64_t hl_tiles_n_tiles(const HlTiles *t) {
  return t->n / (t->manual * t->unreduced * t->replicas);
}

bool hl_tiles_is_cut(const HlTiles *t) {
  return hl_tiles_n_tiles(t) > 1;
}

static bool same_sizes(const HlTiles *a, const HlTiles *b) {
  if (a->rank != b->rank || a->n != b->n || a->manual != b->manual || a->unreduced != b->unreduced)
    return false;
  for (int k = 0; k < a->rank; k++)
    if (a->parts[k] != b->parts[k])
      return false;
  return true;
}

bool hl_tiles_equal(const HlTiles *a, const HlTiles *b) {
  if (a == b)
    return true;
  if (a->kind != b->kind || !same_sizes(a, b))
    return false;
  if (a->kind == HL_TILES_MAXIMAL)
    return a->device[0] == b->device[0];
  for (int64_t d = 0; d < a->n; d++)
    if (a->place[d] / a->replicas != b->place[d] / b->replicas)
      return false;
  return true;
}

bool hl_tiles_at(const HlTiles *t, int64_t device, int64_t *at) {
  if (t->kind == HL_TILES_MAXIMAL || device < 0 || device >= t->n)
    return false;
  int64_t rest = t->place[device] / (t->manual * t->unreduced * t->replicas);
  for (int k = t->rank - 1; k >= 0; k--) {
    at[k] = rest % t->parts[k];
    rest /= t->parts[k];
  }
  return true;
}

void hl_tiles_range(const HlTiles *t, int64_t device, int dim, int64_t size, int64_t *start,
                    int64_t *length) {
  *start = 0;
  *length = size;
  if (t->kind == HL_TILES_MAXIMAL)
    return;
  int64_t rest = t->place[device] / (t->manual * t->unreduced * t->replicas);
  for (int k = t->rank - 1; k > dim; k--)
    rest /= t->parts[k];
  const int64_t tile = hl_tile_size(size, t->parts[dim]);
  const int64_t at = rest % t->parts[dim] * tile;
  *start = at < size ? at : size;
  *length = size - *start < tile ? size - *start : tile;
}

const HlShape *hl_tiles_shape(HlModule *m, const HlTiles *t, const HlShape *shape) {
  int64_t *dim = HL_ARRAY(m->arena, int64_t, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    dim[k] = hl_tile_size(shape->dim[k], t->parts[k]);
  return hl_shape_array_full(m->shapes, shape->dtype, shape->rank, dim, shape->dynamic,
                             shape->layout);
}

bool hl_tiles_even(const HlTiles *t, const HlShape *shape) {
  for (int k = 0; k < t->rank; k++)
    if (shape->dim[k] % t->parts[k])
      return false;
  return true;
}

bool hl_tiles_refines(const HlTiles *a, const HlTiles *b, const HlShape *shape) {
  if (a == b)
    return true;
  if (b->kind == HL_TILES_REPLICATED && a->kind != HL_TILES_MAXIMAL)
    return a->manual == 1 && a->unreduced == 1;
  if (a->kind == HL_TILES_MAXIMAL || b->kind == HL_TILES_MAXIMAL)
    return hl_tiles_equal(a, b);
  if (a->rank != b->rank || a->n != b->n || a->manual != b->manual || a->unreduced != b->unreduced)
    return false;
  for (int k = 0; k < a->rank; k++) {
    if (a->parts[k] % b->parts[k])
      return false;
    if (shape &&
        hl_tile_size(shape->dim[k], b->parts[k]) % hl_tile_size(shape->dim[k], a->parts[k]))
      return false;
  }
  for (int64_t d = 0; d < a->n; d++) {
    int64_t x = a->place[d] / a->replicas, y = b->place[d] / b->replicas;
    if (x % (a->manual * a->unreduced) != y % (b->manual * b->unreduced))
      return false;
    x /= a->manual * a->unreduced;
    y /= b->manual * b->unreduced;
    for (int k = a->rank - 1; k >= 0; k--) {
      if (x % a->parts[k] / (a->parts[k] / b->parts[k]) != y % b->parts[k])
        return false;
      x /= a->parts[k];
      y /= b->parts[k];
    }
  }
  return true;
}

HlI64Lists hl_tiles_groups(HlArena *arena, const HlTiles *t, const bool *along) {
  const int rank = t->rank + 3;
  int64_t *size = HL_ARRAY(arena, int64_t, rank), members = 1;
  for (int k = 0; k < rank; k++) {
    size[k] = k < t->rank        ? t->parts[k]
              : k == t->rank     ? t->manual
              : k == t->rank + 1 ? t->unreduced
                                 : t->replicas;
    members *= along[k] ? size[k] : 1;
  }
  const int64_t n = t->n / members;
  HlI64s *lists = HL_ARRAY(arena, HlI64s, n);
  for (int64_t g = 0; g < n; g++)
    lists[g] = (HlI64s){HL_ARRAY(arena, int64_t, members), (int)members};
  for (int64_t place = 0; place < t->n; place++) {
    int64_t rest = place, group = 0, member = 0, per_group = 1, per_member = 1;
    for (int k = rank - 1; k >= 0; k--) {
      const int64_t at = rest % size[k];
      rest /= size[k];
      if (along[k]) {
        member += at * per_member;
        per_member *= size[k];
      } else {
        group += at * per_group;
        per_group *= size[k];
      }
    }
    ((int64_t *)lists[group].at)[member] = t->device[place];
  }
  return (HlI64Lists){lists, (int)n};
}
