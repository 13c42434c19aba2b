// Meshes in prime digits, and shardings in these digits.
#include "spmd/mesh.h"

#include <string.h>

// --- Meshes --------------------------------------------------------------------------------------

// Cuts an axis into its primes, the smallest first.
static bool add_axis(SpMesh *mesh, int64_t size) {
  const int first = mesh->n_digits;
  for (int64_t prime = 2; size > 1; prime++)
    for (; size % prime == 0; size /= prime) {
      if (mesh->n_digits == SP_DIGITS)
        return false;
      mesh->size[mesh->n_digits++] = prime;
    }
  if (mesh->n_digits > first) {
    mesh->axis_start |= 1u << first;
    mesh->axis_end |= 1u << (mesh->n_digits - 1);
  }
  return true;
}

SpMesh *sp_mesh_new(HlArena *arena, int n_axes, const int64_t *size, const int64_t *devices) {
  SpMesh *mesh = HL_NEW(arena, SpMesh);
  mesh->n_devices = 1;
  for (int k = 0; k < n_axes; k++) {
    if (size[k] < 1 || size[k] > (1 << SP_DIGITS) / mesh->n_devices || !add_axis(mesh, size[k]))
      return NULL;
    mesh->n_devices *= size[k];
  }
  for (int64_t d = mesh->n_digits - 1, step = 1; d >= 0; d--) {
    mesh->step[d] = step;
    step *= mesh->size[d];
  }
  if (devices) {
    int64_t *place = HL_ARRAY(arena, int64_t, mesh->n_devices);
    for (int64_t k = 0; k < mesh->n_devices; k++)
      place[k] = -1;
    for (int64_t k = 0; k < mesh->n_devices; k++) {
      if (devices[k] < 0 || devices[k] >= mesh->n_devices || place[devices[k]] >= 0)
        return NULL;
      place[devices[k]] = k;
    }
    mesh->device = devices;
    mesh->place = place;
  }
  return mesh;
}

// The dimensions' borders, as products from the minor end, of which each must divide the next.
static void add_borders(int64_t *border, int *n, HlI64s dims) {
  int64_t product = 1;
  for (int k = dims.n - 1; k >= 0; k--) {
    product *= dims.at[k];
    int at = 0;
    while (at < *n && border[at] < product)
      at++;
    if (at == *n || border[at] == product || *n == SP_DIGITS + 1)
      continue;
    if (border[at] % product || (at > 0 && product % border[at - 1]))
      return;
    memmove(border + at + 1, border + at, (size_t)(*n - at) * sizeof *border);
    border[at] = product;
    (*n)++;
  }
}

static void add_sharding(int64_t *border, int *n, const HlSharding *sharding) {
  if (!sharding)
    return;
  if (sharding->kind == HL_SHARDING_TUPLE)
    for (int k = 0; k < sharding->n_elements; k++)
      add_sharding(border, n, sharding->element[k]);
  else if (sharding->kind == HL_SHARDING_TILED && sharding->iota.dims.n > 1)
    add_borders(border, n, sharding->iota.dims);
  else if (sharding->kind == HL_SHARDING_TILED)
    add_borders(border, n, sharding->tile);
  else if (sharding->kind == HL_SHARDING_NAMED && sharding->mesh)
    add_borders(border, n, (HlI64s){sharding->mesh->size, sharding->mesh->n});
}

SpMesh *sp_mesh_of_module(HlArena *arena, const HlModule *m) {
  int64_t border[SP_DIGITS + 2] = {m->num_partitions}, size[SP_DIGITS + 2];
  int n = 1;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      add_sharding(border, &n, hl_sharding(inst));
  for (int k = 0; k < n; k++)
    size[n - 1 - k] = border[k] / (k > 0 ? border[k - 1] : 1);
  return sp_mesh_new(arena, n, size, NULL);
}

// --- By the names of a mesh's axes ----------------------------------------------------------------

static bool same_mesh(const HlMesh *a, const HlMesh *b) {
  const HlSharding x = {.kind = HL_SHARDING_NAMED, .mesh = a},
                   y = {.kind = HL_SHARDING_NAMED, .mesh = b};
  return hl_sharding_equal(&x, &y);
}

// Whether what the sharding says is said in axes of one mesh with what was seen before; *mesh gets it.
static bool is_named(const HlSharding *sharding, const HlMesh **mesh) {
  if (sharding->kind == HL_SHARDING_TUPLE) {
    for (int k = 0; k < sharding->n_elements; k++)
      if (!is_named(sharding->element[k], mesh))
        return false;
    return true;
  }
  if (sharding->kind == HL_SHARDING_REPLICATED)
    return true;
  if (sharding->kind != HL_SHARDING_NAMED || !sharding->mesh)
    return false;
  if (sharding->mesh->n > 0 && !*mesh)
    *mesh = sharding->mesh;
  return sharding->mesh->n == 0 || same_mesh(sharding->mesh, *mesh);
}

const HlMesh *sp_named_mesh(const HlModule *m) {
  const HlMesh *mesh = NULL;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_sharding(inst) && !is_named(hl_sharding(inst), &mesh))
        return NULL;
  int64_t n = 1;
  for (int k = 0; mesh && k < mesh->n; k++)
    n *= mesh->size[k];
  return mesh && mesh->maximal_device < 0 && n == m->num_partitions ? mesh : NULL;
}

SpMesh *sp_mesh_of_named(HlArena *arena, const HlMesh *named) {
  const HlI64s devices = named->devices.n     ? named->devices
                         : named->iota.dims.n ? hl_iota_ids(arena, &named->iota)
                                              : (HlI64s){0};
  return sp_mesh_new(arena, named->n, named->size, devices.n ? devices.at : NULL);
}

// The part of an axis that a digit is.
static HlAxisRef part_of(const HlMesh *named, const SpMesh *mesh, int digit) {
  int axis = 0, at = 0;
  for (int64_t size = named->size[0]; at <= digit; size = named->size[++axis]) {
    int64_t pre = 1;
    for (; pre < size; at++) {
      if (at == digit)
        return (HlAxisRef){axis, pre, mesh->size[digit]};
      pre *= mesh->size[at];
    }
  }
  return (HlAxisRef){0};
}

// Digits of an axis that follow each other are one part of it, all of them the axis.
HlAxes sp_axes_named(HlArena *arena, const SpMesh *mesh, const HlMesh *named, const SpAxes *axes) {
  HlAxisRef *ref = HL_ARRAY(arena, HlAxisRef, axes->n + 1);
  int n = 0;
  for (int k = 0; k < axes->n; k++) {
    const HlAxisRef next = part_of(named, mesh, axes->at[k]);
    HlAxisRef *last = n > 0 ? &ref[n - 1] : NULL;
    if (last && last->axis == next.axis && last->pre_size * last->size == next.pre_size)
      last->size *= next.size;
    else
      ref[n++] = next;
  }
  for (int k = 0; k < n; k++)
    if (ref[k].size == named->size[ref[k].axis])
      ref[k].pre_size = ref[k].size = 0;
  return (HlAxes){ref, n};
}

bool sp_mesh_digits(const SpMesh *mesh, int axis, int64_t pre, int64_t size, SpAxes *out) {
  int d = 0;
  for (int a = 0; d < mesh->n_digits; d++) {
    a += mesh->axis_start >> d & 1;
    if (a == axis + 1)
      break;
  }
  int64_t at = 1;
  for (; d < mesh->n_digits && at < pre * size; d++) {
    if (at >= pre && out->n == SP_DIGITS)
      return false;
    if (at >= pre)
      sp_axes_add(out, d);
    else if (at * mesh->size[d] > pre)
      return false;
    at *= mesh->size[d];
    if (mesh->axis_end >> d & 1)
      break;
  }
  return at == pre * size;
}

// --- Lists of digits -------------------------------------------------------------------------------

int64_t sp_axes_size(const SpMesh *mesh, const SpAxes *axes) {
  int64_t size = 1;
  for (int k = 0; k < axes->n; k++)
    size *= mesh->size[axes->at[k]];
  return size;
}

uint32_t sp_axes_set(const SpAxes *axes) {
  uint32_t set = 0;
  for (int k = 0; k < axes->n; k++)
    set |= 1u << axes->at[k];
  return set;
}

bool sp_axes_starts(const SpAxes *axes, const SpAxes *with) {
  return axes->n >= with->n && memcmp(axes->at, with->at, with->n) == 0;
}

bool sp_axes_equal(const SpAxes *a, const SpAxes *b) {
  return a->n == b->n && sp_axes_starts(a, b);
}

uint32_t sp_spec_used(const SpSpec *spec) {
  uint32_t set = spec->unreduced | spec->manual;
  for (int k = 0; k < spec->rank; k++)
    set |= sp_axes_set(&spec->dim[k].axes);
  return set;
}

bool sp_spec_is_cut(const SpSpec *spec) {
  return sp_spec_used(spec) != 0;
}

// --- From and to grids -------------------------------------------------------------------------------

static int64_t place_of(const SpMesh *mesh, int64_t device) {
  return mesh->place ? mesh->place[device] : device;
}

static int64_t device_at(const SpMesh *mesh, int64_t place) {
  return mesh->device ? mesh->device[place] : place;
}

enum { MOST_RANK = 64 };

// Where a device stands along the dimensions and in the subgroups manual and unreduced (at[rank], at[rank + 1]).
static void stand_of(const HlTiles *tiles, int64_t device, int64_t *at) {
  int64_t rest = tiles->place[device] / tiles->replicas;
  at[tiles->rank + 1] = rest % tiles->unreduced;
  rest /= tiles->unreduced;
  at[tiles->rank] = rest % tiles->manual;
  hl_tiles_at(tiles, device, at);
}

// A digit's weight within a dimension: how far one step along it leads there.
typedef struct Weight {
  int digit;
  int64_t by;
} Weight;

static void insert_weight(Weight *list, int *n, Weight weight) {
  int at = (*n)++;
  for (; at > 0 && list[at - 1].by < weight.by; at--)
    list[at] = list[at - 1];
  list[at] = weight;
}

bool sp_spec_of_tiles(const SpMesh *mesh, const HlTiles *tiles, SpSpec *spec) {
  const int rank = tiles->rank;
  if (tiles->kind == HL_TILES_MAXIMAL || tiles->n != mesh->n_devices || rank > MOST_RANK)
    return false;
  int64_t zero[MOST_RANK + 2], at[MOST_RANK + 2], by[SP_DIGITS];
  int of[SP_DIGITS];
  stand_of(tiles, device_at(mesh, 0), zero);
  for (int k = 0; k < rank + 2; k++)
    if (zero[k] != 0 && k < rank)
      return false;
  for (int d = 0; d < mesh->n_digits; d++) {
    of[d] = -1;
    by[d] = 0;
    stand_of(tiles, device_at(mesh, mesh->step[d]), at);
    for (int k = 0; k < rank + 2; k++)
      if (at[k] != zero[k]) {
        if (of[d] >= 0 || at[k] < 0)
          return false;
        of[d] = k;
        by[d] = at[k];
      }
  }
  SpAxes lists[MOST_RANK + 2];
  memset(lists, 0, sizeof lists);
  for (int k = 0; k < rank + 2; k++) {
    Weight list[SP_DIGITS];
    int n = 0;
    for (int d = 0; d < mesh->n_digits; d++)
      if (of[d] == k)
        insert_weight(list, &n, (Weight){d, by[d]});
    int64_t product = 1;
    for (int w = n - 1; w >= 0; w--) {
      if (k < rank && list[w].by != product)
        return false;
      product *= mesh->size[list[w].digit];
    }
    if (product != (k < rank ? tiles->parts[k] : k == rank ? tiles->manual : tiles->unreduced))
      return false;
    for (int w = 0; w < n; w++)
      sp_axes_add(&lists[k], list[w].digit);
  }
  for (int64_t device = 0; device < tiles->n; device++) {  // linear in the digits everywhere?
    const int64_t place = place_of(mesh, device);
    stand_of(tiles, device, at);
    for (int k = 0; k < rank; k++) {
      int64_t sum = 0;
      for (int w = 0; w < lists[k].n; w++) {
        const int d = lists[k].at[w];
        sum += place / mesh->step[d] % mesh->size[d] * by[d];
      }
      if (sum != at[k])
        return false;
    }
  }
  for (int k = 0; k < rank; k++)
    spec->dim[k].axes = lists[k];
  spec->manual = sp_axes_set(&lists[rank]);
  spec->unreduced = sp_axes_set(&lists[rank + 1]);
  return true;
}

// Appends the digits of a set in the mesh's order; the product of their sizes.
static int64_t add_set(const SpMesh *mesh, uint32_t set, int *order, int *n) {
  int64_t size = 1;
  for (int d = 0; d < mesh->n_digits; d++)
    if (set >> d & 1) {
      order[(*n)++] = d;
      size *= mesh->size[d];
    }
  return size;
}

bool sp_spec_is_sound(const SpSpec *spec) {
  uint32_t seen = spec->manual;
  if (spec->manual & spec->unreduced)
    return false;
  seen |= spec->unreduced;
  for (int k = 0; k < spec->rank; k++)
    for (int a = 0; a < spec->dim[k].axes.n; a++) {
      const uint32_t digit = 1u << spec->dim[k].axes.at[a];
      if (seen & digit)
        return false;
      seen |= digit;
    }
  return true;
}

const HlTiles *sp_spec_tiles(HlArena *arena, const SpMesh *mesh, const SpSpec *spec) {
  if (!sp_spec_is_sound(spec))
    return hl_tiles_replicated(arena, spec->rank, mesh->n_devices);
  int order[SP_DIGITS], n = 0;
  int64_t *parts = HL_ARRAY(arena, int64_t, spec->rank + 1);
  uint32_t rest = (uint32_t)((1ull << mesh->n_digits) - 1) & ~sp_spec_used(spec);
  for (int k = 0; k < spec->rank; k++) {
    const SpAxes *axes = &spec->dim[k].axes;
    parts[k] = sp_axes_size(mesh, axes);
    for (int w = 0; w < axes->n; w++)
      order[n++] = axes->at[w];
  }
  const int64_t manual = add_set(mesh, spec->manual, order, &n);
  const int64_t unreduced = add_set(mesh, spec->unreduced, order, &n);
  const int64_t replicas = add_set(mesh, rest, order, &n);
  int64_t *device = HL_ARRAY(arena, int64_t, mesh->n_devices);
  for (int64_t k = 0; k < mesh->n_devices; k++) {
    int64_t left = k, place = 0;
    for (int w = n - 1; w >= 0; w--) {
      place += left % mesh->size[order[w]] * mesh->step[order[w]];
      left /= mesh->size[order[w]];
    }
    device[k] = device_at(mesh, place);
  }
  return hl_tiles_new(arena, spec->rank, parts, manual, unreduced, replicas, device);
}
