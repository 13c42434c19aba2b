// sharding.c: the canonical form of a sharding, equality and copies (hlo.md 1.7).

#include "ir/sharding.h"
#include "base/ascii.h"
#include "hilo/edit.h"
#include "ir/state.h"

#include <stdlib.h>
#include <string.h>

// --- Tiles: dimensions and who stands where ------------------------------------------------------

// The assignment of devices to tiles: an iota, or else a list.
typedef struct Tile {
  HlI64s dims;
  HlIota iota;  // dims.n == 0: none
  HlI64s devices;
} Tile;

static HlI64s spelt_out(HlArena *arena, const Tile *tile) {
  return tile->iota.dims.n ? hl_iota_ids(arena, &tile->iota) : tile->devices;
}

typedef enum Transpose { NO_CHANGE, UNITS_MOVE, REAL } Transpose;

// What a permutation of tile dimensions does to the order of devices.
static Transpose transpose_kind(HlI64s dims, const int64_t *perm) {
  Transpose kind = NO_CHANGE;
  int64_t before = -1;
  for (int k = 0; k < dims.n; k++) {
    const int64_t d = perm[k];
    if (dims.at[d] == 1) {
      if (d != k && dims.at[k] != 1)
        kind = UNITS_MOVE;
      continue;
    }
    if (d <= before)
      return REAL;
    before = d;
  }
  return kind;
}

// A piece of a tile's dimension that is also a piece of one of the iota's own.
typedef struct Part {
  int tile, source;  // which dimensions
  int64_t size;
} Part;

// Cuts the dimensions of a tile and those of its iota, as they come after its transpose, into
// common pieces; how many. -1 when their sizes do not divide one another.
static int common_parts(const Tile *tile, Part *parts) {
  const HlIota *iota = &tile->iota;
  int n = 0, place = -1, source = 0;
  int64_t rest = 1;  // of the iota's dimension
  for (int k = 0; k < tile->dims.n; k++)
    for (int64_t need = tile->dims.at[k]; need > 1;) {
      while (rest == 1) {
        if (++place == iota->dims.n)
          return -1;
        source = iota->dims.n > 1 ? (int)iota->perm.at[place] : 0;
        rest = iota->dims.at[source];
      }
      const int64_t size = need < rest ? need : rest;
      if (need % size || rest % size)
        return -1;
      parts[n++] = (Part){k, source, size};
      need /= size;
      rest /= size;
    }
  return n;
}

// A transpose of an iota that stays an iota.
static bool transpose_iota(HlArena *arena, const Tile *tile, const int64_t *perm, HlIota *out) {
  const int most = tile->dims.n + tile->iota.dims.n;
  Part *parts = HL_ARRAY(arena, Part, most + 1);
  const int n = common_parts(tile, parts);
  if (n < 0)
    return false;
  int64_t *dims = HL_ARRAY(arena, int64_t, n + 1), *new_perm = HL_ARRAY(arena, int64_t, n + 1);
  int64_t *place = HL_ARRAY(arena, int64_t, n + 1);
  for (int d = 0, to = 0; d < tile->iota.dims.n; d++)
    for (int k = 0; k < n; k++)
      if (parts[k].source == d) {
        place[k] = to;
        dims[to++] = parts[k].size;
      }
  for (int d = 0, to = 0; d < tile->dims.n; d++)
    for (int k = 0; k < n; k++)
      if (parts[k].tile == perm[d])
        new_perm[to++] = place[k];
  *out = ir_iota_simplify(arena, (HlIota){{dims, n}, {new_perm, n}});
  return true;
}

static Tile transpose_tile(HlArena *arena, const Tile *tile, const int64_t *perm) {
  const int rank = tile->dims.n;
  int64_t *dims = HL_ARRAY(arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    dims[k] = tile->dims.at[perm[k]];
  Tile result = {{dims, rank}, tile->iota, tile->devices};
  const Transpose kind = transpose_kind(tile->dims, perm);
  if (kind == NO_CHANGE)
    return *tile;
  if (kind == UNITS_MOVE)
    return result;
  if (tile->iota.dims.n && transpose_iota(arena, tile, perm, &result.iota))
    return result;
  result.iota = (HlIota){0};
  result.devices = ir_transpose(arena, spelt_out(arena, tile), tile->dims, (HlI64s){perm, rank});
  return result;
}

// --- Replication over the last dimension ---------------------------------------------------------

static int compare_ints(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// An iota whose last tile dimension (of `size` devices) covers whole dimensions of its own, or a
// part of one that can be split off: these then go in ascending order. False when it covers no such
// thing.
static bool sort_iota(HlArena *arena, HlIota iota, int64_t size, HlIota *out) {
  const int n = iota.dims.n;
  int first = n;
  int64_t rest = size;
  while (rest > 1 && first > 0) {
    const int64_t d = iota.dims.at[iota.perm.n ? iota.perm.at[first - 1] : 0];
    if (d <= 0 || (rest % d && d % rest))
      return false;
    first--;
    if (d > rest)
      break;
    rest /= d;
  }
  // The dimension at place `first` gives only its inner `rest` when it is larger than that.
  const int cut = first < n && rest > 1 ? (int)(n > 1 ? iota.perm.at[first] : 0) : -1;
  const int m = n + (cut >= 0);
  int64_t *dims = HL_ARRAY(arena, int64_t, m), *perm = HL_ARRAY(arena, int64_t, m);
  for (int k = 0, to = 0; k < n; k++) {
    if (k == cut)
      dims[to++] = iota.dims.at[k] / rest;
    dims[to++] = k == cut ? rest : iota.dims.at[k];
  }
  for (int k = 0, to = 0; k < n; k++) {
    const int64_t d = n > 1 ? iota.perm.at[k] : 0;
    if (d == cut)
      perm[to++] = d;
    perm[to++] = d + (cut >= 0 && d >= cut);
  }
  first += cut >= 0;
  qsort(perm + first, (size_t)(m - first), sizeof *perm, compare_ints);
  *out = ir_iota_simplify(arena, (HlIota){{dims, m}, {perm, m}});
  return true;
}

// Sorts the devices within each replicated group.
static void sort_groups(HlArena *arena, Tile *tile) {
  const int64_t size = tile->dims.at[tile->dims.n - 1];
  HlIota sorted;
  if (tile->iota.dims.n && sort_iota(arena, tile->iota, size, &sorted)) {
    tile->iota = sorted;
    return;
  }
  const HlI64s ids = spelt_out(arena, tile);
  int64_t *copy = HL_ARRAY(arena, int64_t, ids.n + 1);
  if (ids.n)
    memcpy(copy, ids.at, (size_t)ids.n * sizeof *copy);
  for (int64_t k = 0; size > 0 && k + size <= ids.n; k += size)
    qsort(copy + k, (size_t)size, sizeof *copy, compare_ints);
  tile->iota = (HlIota){0};
  tile->devices = (HlI64s){copy, ids.n};
}

// --- Canonical form ------------------------------------------------------------------------------

static HlSharding of_tile(const HlSharding *like, const Tile *tile) {
  HlSharding s = *like;
  s.kind = HL_SHARDING_TILED;
  s.tile = tile->dims;
  s.iota = tile->iota;
  s.devices = tile->devices;
  s.replicate_last = false;
  s.last_tile_dims = (HlI64s){NULL, 0};
  return s;
}

// A sharding without devices (replicated, manual, unreduced).
static HlSharding simple(const HlSharding *like, HlShardingKind kind) {
  HlSharding s = of_tile(like, &(Tile){0});
  s.kind = kind;
  return s;
}

// The last tile dimension is replicated.
static HlSharding partial(HlArena *arena, const HlSharding *like, Tile tile) {
  const int64_t last = tile.dims.at[tile.dims.n - 1];
  if (tile.dims.n == 1 || last == ir_product(tile.dims))
    return simple(like, HL_SHARDING_REPLICATED);
  if (last == 1) {
    tile.dims.n--;
    return of_tile(like, &tile);
  }
  sort_groups(arena, &tile);
  HlSharding s = of_tile(like, &tile);
  s.replicate_last = true;
  return s;
}

static bool all_of_one_type(HlI64s types) {
  for (int k = 1; k < types.n; k++)
    if (types.at[k] != types.at[0])
      return false;
  return true;
}

// Subgroup dimensions in order of type, those of one type together, those of size 1 at the end.
// `merged` gets the product for each type that is left; how many types is returned.
static int order_subgroups(const Tile *tile, HlI64s types, int64_t *perm, int64_t *merged_dims,
                           int64_t *merged_types) {
  static const int order[] = {HL_SHARDING_MAXIMAL,   HL_SHARDING_TUPLE,   HL_SHARDING_TILED,
                              HL_SHARDING_MANUAL,    HL_SHARDING_UNKNOWN, HL_SHARDING_UNREDUCED,
                              HL_SHARDING_REPLICATED};
  const int data = tile->dims.n - types.n;
  int n = data, n_types = 0;
  for (int t = 0; t < HL_COUNT_OF(order); t++) {
    int64_t product = 1;
    const int before = n;
    for (int k = 0; k < types.n; k++)
      if (types.at[k] == order[t] && tile->dims.at[data + k] != 1) {
        perm[n++] = data + k;
        product *= tile->dims.at[data + k];
      }
    if (n == before)
      continue;
    merged_dims[n_types] = product;
    merged_types[n_types++] = order[t];
  }
  for (int k = 0; k < types.n; k++)
    if (tile->dims.at[data + k] == 1)
      perm[n++] = data + k;
  return n == tile->dims.n ? n_types : -1;
}

static HlSharding with_types(HlArena *arena, const HlSharding *like, Tile tile, HlI64s types) {
  if (types.n == 1 && types.at[0] == HL_SHARDING_REPLICATED)
    return partial(arena, like, tile);
  if (types.n == 1 && types.at[0] == HL_SHARDING_MANUAL &&
      tile.dims.at[tile.dims.n - 1] == ir_product(tile.dims))
    return simple(like, HL_SHARDING_MANUAL);
  if (types.n && types.at[types.n - 1] == HL_SHARDING_REPLICATED)
    sort_groups(arena, &tile);
  HlSharding s = of_tile(like, &tile);
  s.last_tile_dims = types;
  return s;
}

static HlSharding subgroups(HlArena *arena, const HlSharding *like, Tile tile, HlI64s types) {
  const int data = tile.dims.n - types.n;
  const int64_t type = types.at[0];
  const bool simplifies =
      type == HL_SHARDING_MANUAL || type == HL_SHARDING_REPLICATED || type == HL_SHARDING_UNREDUCED;
  if (simplifies && all_of_one_type(types) && ir_product((HlI64s){tile.dims.at, data}) == 1)
    return simple(like, (HlShardingKind)type);
  int64_t *perm = HL_ARRAY(arena, int64_t, tile.dims.n);
  int64_t *dims = HL_ARRAY(arena, int64_t, tile.dims.n + types.n);
  int64_t *merged = HL_ARRAY(arena, int64_t, types.n), *left = HL_ARRAY(arena, int64_t, types.n);
  for (int k = 0; k < data; k++)
    perm[k] = dims[k] = k;
  const int n_types = order_subgroups(&tile, types, perm, merged, left);
  if (n_types < 0)
    return *like;
  const Tile moved = transpose_tile(arena, &tile, perm);
  for (int k = 0; k < data; k++)
    dims[k] = tile.dims.at[k];
  for (int k = 0; k < n_types; k++)
    dims[data + k] = merged[k];
  return with_types(arena, like, (Tile){{dims, data + n_types}, moved.iota, moved.devices},
                    (HlI64s){left, n_types});
}

// A tiled sharding; what makes no sense (sizes that do not fit) stays as it is written.
static HlSharding canonical_tiled(HlArena *arena, const HlSharding *s) {
  Tile tile = {s->tile, s->iota, s->devices};
  const int64_t n = ir_product(s->tile);
  if (s->iota.dims.n)
    tile.iota = ir_iota_simplify(arena, s->iota);
  const int64_t have = s->iota.dims.n ? ir_product(s->iota.dims) : s->devices.n;
  const bool permutes = tile.iota.dims.n <= 1 || tile.iota.perm.n == tile.iota.dims.n;
  HlSharding plain = of_tile(s, &tile);
  plain.replicate_last = s->replicate_last;
  plain.last_tile_dims = s->last_tile_dims;
  if (n <= 0 || n != have || n > IR_MOST_DEVICES || !permutes || s->tile.n == 0 ||
      s->last_tile_dims.n > s->tile.n)
    return plain;
  if (s->last_tile_dims.n)
    return subgroups(arena, s, tile, s->last_tile_dims);
  return s->replicate_last ? partial(arena, s, tile) : plain;
}

static const HlMesh *canonical_mesh(HlArena *arena, const HlMesh *from) {
  HlMesh *mesh = hl_arena_copy(arena, from, sizeof *from);
  if (from->iota.dims.n) {
    mesh->iota = ir_iota_simplify(arena, from->iota);
    if (mesh->iota.dims.n == 1)
      mesh->iota = (HlIota){0};
  }
  return mesh;
}

// How to reduce what is unreduced stands among the metadata, where it does not have a word of its own.
static void take_reduction(HlArena *arena, HlSharding *s) {
  int n = 0;
  const HlMetadata **kept = HL_ARRAY(arena, const HlMetadata *, s->n_metadata);
  for (int k = 0; k < s->n_metadata; k++) {
    const HlMetadata *m = s->metadata[k];
    if (!m->op_type || strcmp(m->op_type->text, "sdy::reduction_op") != 0) {
      kept[n++] = m;
      continue;
    }
    const HlEnum *words = &hl_enums[HL_ENUM_reduction_op];
    for (int w = 0; m->op_name && w < words->n; w++)
      if (same_word(words->text[w], m->op_name->text))
        s->reduction = words->value[w];
  }
  s->metadata = kept;
  s->n_metadata = n;
}

const HlSharding *hl_sharding_canonical(HlArena *arena, const HlSharding *s) {
  HlSharding *result = HL_NEW(arena, HlSharding);
  *result = *s;
  if (s->kind == HL_SHARDING_TUPLE) {
    const HlSharding **element = HL_ARRAY(arena, const HlSharding *, s->n_elements + 1);
    for (int k = 0; k < s->n_elements; k++) {
      const bool leaf = s->element[k]->kind != HL_SHARDING_TUPLE;
      element[k] = leaf ? hl_sharding_canonical(arena, s->element[k]) : s->element[k];
    }
    result->element = element;
  } else if (s->kind == HL_SHARDING_TILED) {
    *result = canonical_tiled(arena, s);
  } else if (s->kind == HL_SHARDING_NAMED && s->mesh) {
    result->mesh = canonical_mesh(arena, s->mesh);
  }
  if (s->n_metadata && s->kind != HL_SHARDING_NAMED && hl_sharding_is_unreduced(result))
    take_reduction(arena, result);
  return result;
}

// --- Equality ------------------------------------------------------------------------------------

static bool named_equal(const HlSharding *a, const HlSharding *b) {
  if (!ir_mesh_equal(a->mesh, b->mesh) || a->n_dims != b->n_dims)
    return false;
  for (int k = 0; k < a->n_dims; k++)
    if (a->dims[k].open != b->dims[k].open || !ir_axes_equal(a->dims[k].axes, b->dims[k].axes))
      return false;
  return ir_axes_equal(a->replicated, b->replicated) && ir_axes_equal(a->unreduced, b->unreduced) &&
         ir_axes_equal(a->manual, b->manual);
}

bool hl_sharding_is_unreduced(const HlSharding *s) {
  return s->kind == HL_SHARDING_UNREDUCED || s->unreduced.n > 0 ||
         hl_i64s_find(s->last_tile_dims, HL_SHARDING_UNREDUCED) >= 0;
}

bool hl_sharding_equal(const HlSharding *a, const HlSharding *b) {
  if (a == b)
    return true;
  if (!a || !b || a->kind != b->kind || a->device != b->device ||
      a->shard_group != b->shard_group || a->shard_group_id != b->shard_group_id ||
      a->n_elements != b->n_elements || a->replicate_last != b->replicate_last ||
      a->reduction != b->reduction || !hl_i64s_equal(a->tile, b->tile) ||
      !hl_i64s_equal(a->devices, b->devices) || !hl_i64s_equal(a->iota.dims, b->iota.dims) ||
      !hl_i64s_equal(a->iota.perm, b->iota.perm) ||
      !hl_i64s_equal(a->last_tile_dims, b->last_tile_dims))
    return false;
  for (int k = 0; k < a->n_elements; k++)
    if (!hl_sharding_equal(a->element[k], b->element[k]))
      return false;
  return a->kind != HL_SHARDING_NAMED || named_equal(a, b);
}

// --- Copies into a module ------------------------------------------------------------------------

static const HlSym *copy_sym(HlModule *to, const HlSym *sym) {
  return sym ? hl_syms_add(to->syms, sym->text, sym->n) : NULL;
}

static HlAxes copy_axes(HlModule *to, HlAxes axes) {
  return (HlAxes){hl_arena_copy(to->arena, axes.at, (size_t)axes.n * sizeof *axes.at), axes.n};
}

static HlIota copy_iota(HlModule *to, HlIota iota) {
  return (HlIota){hl_i64s_copy(to->arena, iota.dims), hl_i64s_copy(to->arena, iota.perm)};
}

static const HlMesh *mesh_copy(HlModule *to, const HlMesh *from) {
  HlMesh *mesh = hl_arena_copy(to->arena, from, sizeof *from);
  const HlSym **axis = HL_ARRAY(to->arena, const HlSym *, from->n + 1);
  for (int k = 0; k < from->n; k++)
    axis[k] = copy_sym(to, from->axis[k]);
  mesh->axis = axis;
  mesh->size = hl_arena_copy(to->arena, from->size, (size_t)from->n * sizeof *from->size);
  mesh->devices = hl_i64s_copy(to->arena, from->devices);
  mesh->iota = copy_iota(to, from->iota);
  return mesh;
}

static const HlMetadata *copy_metadata(HlModule *to, const HlMetadata *from) {
  HlMetadata m = *from;
  m.op_type = copy_sym(to, m.op_type);
  m.op_name = copy_sym(to, m.op_name);
  m.source_file = copy_sym(to, m.source_file);
  m.deduplicated_name = copy_sym(to, m.deduplicated_name);
  m.scheduling_name = copy_sym(to, m.scheduling_name);
  m.payload = copy_sym(to, m.payload);
  m.profile_type = hl_i64s_copy(to->arena, m.profile_type);
  return hl_intern_metadata(to, &m);
}

static void copy_named(HlModule *to, HlSharding *s, const HlSharding *from) {
  HlAxesDim *dims = HL_ARRAY(to->arena, HlAxesDim, from->n_dims + 1);
  for (int k = 0; k < from->n_dims; k++)
    dims[k] = (HlAxesDim){copy_axes(to, from->dims[k].axes), from->dims[k].open};
  s->dims = dims;
  s->mesh = from->mesh ? mesh_copy(to, from->mesh) : NULL;
  s->replicated = copy_axes(to, from->replicated);
  s->unreduced = copy_axes(to, from->unreduced);
  s->manual = copy_axes(to, from->manual);
}

const HlSharding *hl_sharding_copy(HlModule *to, const HlSharding *from) {
  HlSharding *s = hl_arena_copy(to->arena, from, sizeof *from);
  s->tile = hl_i64s_copy(to->arena, from->tile);
  s->devices = hl_i64s_copy(to->arena, from->devices);
  s->iota = copy_iota(to, from->iota);
  s->last_tile_dims = hl_i64s_copy(to->arena, from->last_tile_dims);
  const HlSharding **element = HL_ARRAY(to->arena, const HlSharding *, from->n_elements + 1);
  for (int k = 0; k < from->n_elements; k++)
    element[k] = hl_sharding_copy(to, from->element[k]);
  s->element = element;
  const HlMetadata **metadata = HL_ARRAY(to->arena, const HlMetadata *, from->n_metadata + 1);
  for (int k = 0; k < from->n_metadata; k++)
    metadata[k] = copy_metadata(to, from->metadata[k]);
  s->metadata = metadata;
  if (from->kind == HL_SHARDING_NAMED)
    copy_named(to, s, from);
  return s;
}
