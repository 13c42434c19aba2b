// spmd/whole.c: writes out what crosses the borders of manual parts.
//
// Outside and inside a device holds the same elements under two shardings: tile `from` of the value that crosses is tile
// `into` of the result. So the result of device d is put together from tiles, each taken from a device that holds it and
// that is in d's manual subgroup; of several such the one with d's place among them.

#include "spmd/whole.h"

#include <string.h>

#include "hilo/build.h"
#include "hilo/custom_calls.h"
#include "spmd/shardy.h"

typedef struct Whole {
  HlCx *cx;
  HlModule *m;
  HlArena *arena;
  SpMeshes meshes;
  const SpNamedMesh *main;
  const SpMesh *mesh;  // Shardy's, or NULL
  int64_t n;           // partitions
  int64_t next_channel;
} Whole;

// --- What crosses ---------------------------------------------------------------------------------

typedef struct Crossing {
  HlInst *inst;          // at the border
  const HlShape *shape;  // of the result
  const HlTiles *from, *into;
  bool inwards;
} Crossing;

static bool goes_in(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_FULL_TO_SHARD) || hl_is_call(inst, HL_CALL_SDY_GLOBAL_TO_LOCAL);
}

static bool goes_out(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_SHARD_TO_FULL) || hl_is_call(inst, HL_CALL_SDY_LOCAL_TO_GLOBAL);
}

static bool is_shardys(const HlInst *inst) {
  return hl_call_has(inst, HL_CALL_SHARDY);
}

bool sp_has_borders(const HlModule *m) {
  if (m->num_partitions <= 1)
    return false;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (goes_in(inst) || goes_out(inst))
        return true;
  return false;
}

static const HlTiles *tiles_of(const Whole *w, const HlInst *inst) {
  const HlSharding *sharding = hl_sharding(inst);
  return sharding ? hl_tiles_of(w->arena, sharding, inst->shape->rank, w->n)
                  : hl_tiles_replicated(w->arena, inst->shape->rank, w->n);
}

// Value k over Shardy's border: outside cut along the program's own axes, inside manual along them.
static bool read_shardys(const Whole *w, Crossing *c, int k) {
  const HlInst *inst = c->inst;
  const char *text =
      sp_attribute(inst, c->inwards ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
  const char *axes = sp_attribute(inst, "xla.sdy.manual_axes");
  SpSpec outside = {.rank = c->shape->rank}, inside = outside;
  outside.dim = HL_ARRAY(w->arena, SpDim, outside.rank + 1);
  inside.dim = HL_ARRAY(w->arena, SpDim, inside.rank + 1);
  if (!w->mesh || !text || !axes || !sp_read_manual_axes(w->main, w->mesh, axes, &inside.manual) ||
      !sp_read_sharding(&w->meshes, w->main, w->mesh, text, k, &outside))
    return false;
  for (int d = 0; d < outside.rank; d++)
    outside.dim[d].axes = sp_own_axes(&outside.dim[d].axes, inside.manual);
  outside.manual = outside.unreduced = 0;
  const HlTiles *whole = sp_spec_tiles(w->arena, w->mesh, &outside);
  const HlTiles *part = sp_spec_tiles(w->arena, w->mesh, &inside);
  c->from = c->inwards ? whole : part;
  c->into = c->inwards ? part : whole;
  return true;
}

// A device's tile of the value has the sizes of its tile of the result.
static bool fits(const Crossing *c, const HlShape *value) {
  const HlTiles *from = c->from, *into = c->into;
  if (!from || !into || from->kind == HL_TILES_MAXIMAL || into->kind == HL_TILES_MAXIMAL ||
      from->unreduced > 1 || into->unreduced > 1 || value->rank != c->shape->rank ||
      value->dtype != c->shape->dtype || hl_shape_is_dynamic(value) ||
      !hl_tiles_even(from, value) || !hl_tiles_even(into, c->shape))
    return false;
  for (int k = 0; k < value->rank; k++)
    if (value->dim[k] / from->parts[k] != c->shape->dim[k] / into->parts[k])
      return false;
  return true;
}

static bool find_crossing(const Whole *w, HlInst *inst, int k, Crossing *out) {
  const HlInst *value = inst->operands[k];
  const bool is_tuple = hl_shape_is_tuple(inst->shape);
  const HlShape *shape = !is_tuple               ? inst->shape
                         : k < inst->shape->rank ? inst->shape->element[k]
                                                 : NULL;
  *out = (Crossing){.inst = inst, .shape = shape, .inwards = goes_in(inst)};
  bool ok = shape && hl_shape_is_array(shape) && hl_shape_is_array(value->shape);
  if (ok && is_shardys(inst)) {
    ok = read_shardys(w, out, k);
  } else if (ok) {
    out->from = tiles_of(w, value);
    out->into = tiles_of(w, inst);
  }
  return (ok && fits(out, value->shape)) ||
         hl_inst_error(w->cx, inst, "what each device has of operand %d here is not told exactly",
                       k);
}

// --- Tiles ----------------------------------------------------------------------------------------

// The device that gives device d tile number `tile` of the result.
static int64_t giver(const Crossing *c, int64_t tile, int64_t d) {
  const HlTiles *into = c->into;
  const int64_t replica = into->place[d] % into->replicas;
  const int64_t manual = into->place[d] / into->replicas % into->manual;
  return into->device[(tile * into->manual + manual) * into->replicas + replica];
}

// Element partition-id of a list of n numbers, as a scalar.
static HlInst *by_device(Whole *w, HlBuild *b, const int64_t *list) {
  bool is_constant = true;
  for (int64_t d = 1; d < w->n; d++)
    is_constant &= list[d] == list[0];
  if (is_constant)
    return hl_b_scalar_int(b, HL_S64, list[0]);
  HlShapes *shapes = w->m->shapes;
  HlLiteral *table = hl_literal_new(w->cx, hl_shape_array(shapes, HL_S64, 1, &w->n));
  if (!table)
    return NULL;
  for (int64_t d = 0; d < w->n; d++)
    hl_literal_set_i64(table, d, list[d]);
  HlInst *id =
      hl_b_op(b, HL_OP_PARTITION_ID, hl_shape_scalar(shapes, HL_U32), 0, NULL, 0, NULL, 0, NULL);
  HlInst *row = hl_b_dynamic_slice(b, hl_b_constant(b, table), &id, (const int64_t[]){1});
  hl_literal_unref(table);
  return hl_b_reshape(b, row, 0, NULL);
}

// Tile number `tile` of each device's result. `all` holds the values of all devices, or if it is the value itself those are
// the same as far as they are looked at.
static HlInst *take_tile(Whole *w, HlBuild *b, const Crossing *c, HlInst *all, int64_t tile) {
  const HlTiles *from = c->from;
  const int rank = c->shape->rank, lead = all->shape->rank - rank;
  int64_t *list = HL_ARRAY(w->arena, int64_t, w->n + 1);
  int64_t *size = HL_ARRAY(w->arena, int64_t, rank + 2),
          *at = HL_ARRAY(w->arena, int64_t, rank + 1);
  HlInst **start = HL_ARRAY(w->arena, HlInst *, rank + 2);
  size[0] = 1;
  for (int64_t d = 0; d < w->n; d++)
    list[d] = giver(c, tile, d);
  if (lead)
    start[0] = by_device(w, b, list);
  for (int k = 0; k < rank; k++) {
    size[lead + k] = c->shape->dim[k] / c->into->parts[k];
    for (int64_t d = 0; d < w->n; d++) {
      hl_tiles_at(from, giver(c, tile, d), at);
      list[d] = at[k] * size[lead + k];
    }
    start[lead + k] = by_device(w, b, list);
  }
  if (rank + lead == 0)
    return all;
  return hl_b_reshape(b, hl_b_dynamic_slice(b, all, start, size), rank, size + lead);
}

static HlInst *gather_all(Whole *w, HlBuild *b, HlInst *x) {
  const int64_t n_replicas = w->m->replica_count;
  const int rank = x->shape->rank;
  int64_t *size = HL_ARRAY(w->arena, int64_t, rank + 1);
  size[0] = 1;
  if (rank > 0)
    memcpy(size + 1, x->shape->dim, sizeof *size * (size_t)rank);
  HlInst *row = hl_b_reshape(b, x, rank + 1, size);
  size[0] = w->n;
  HlArena *arena = w->m->arena;
  HlGroups *groups = HL_NEW(arena, HlGroups);
  HlI64s *group = HL_ARRAY(arena, HlI64s, n_replicas);
  for (int64_t r = 0; r < n_replicas; r++) {
    int64_t *device = HL_ARRAY(arena, int64_t, w->n);
    for (int64_t d = 0; d < w->n; d++)
      device[d] = r * w->n + d;
    group[r] = (HlI64s){device, (int)w->n};
  }
  groups->list = (HlI64Lists){group, (int)n_replicas};
  const HlAttr attrs[] = {{.key = HL_A_CHANNEL_ID, .i = w->next_channel++},
                          {.key = HL_A_REPLICA_GROUPS, .ptr = groups},
                          {.key = HL_A_DIMENSION, .i = 0},
                          {.key = HL_A_USE_GLOBAL_DEVICE_IDS, .i = 1}};
  const HlShape *shape = hl_shape_array(w->m->shapes, x->shape->dtype, rank + 1, size);
  return hl_b_op(b, HL_OP_ALL_GATHER, shape, 1, &row, 4, attrs, 0, NULL);
}

static HlInst *cross(Whole *w, HlBuild *b, const Crossing *c, HlInst *value) {
  int64_t n = hl_tiles_n_tiles(c->into);
  // Inside, devices that differ in other axes only have the same; coming out into one tile, each has its own.
  HlInst *all = c->inwards || n == 1 ? value : gather_all(w, b, value);
  HlInst **tile = HL_ARRAY(w->arena, HlInst *, n + 1);
  for (int64_t t = 0; all && t < n; t++)
    tile[t] = take_tile(w, b, c, all, t);
  // Tiles stand in row-major order: along the last dimension neighbours are put together first.
  for (int k = c->shape->rank - 1; all && k >= 0; k--) {
    const int64_t parts = c->into->parts[k];
    n /= parts;
    for (int64_t t = 0; parts > 1 && t < n; t++)
      tile[t] = hl_b_concatenate(b, (int)parts, tile + t * parts, k);
  }
  HlInst *whole = all ? tile[0] : NULL;
  if (whole && whole != value)
    hl_set_shape(whole, c->shape);
  return whole;
}

// --- Modules --------------------------------------------------------------------------------------

static bool write_out(Whole *w, HlInst *inst) {
  const int n = (int)inst->n_operands;
  HlBuild b = {.cx = w->cx, .comp = inst->comp, .metadata = hl_metadata(inst), .loc = inst->loc};
  HlInst **crossed = HL_ARRAY(w->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++) {
    Crossing c;
    if (!find_crossing(w, inst, k, &c))
      return false;
    crossed[k] = cross(w, &b, &c, inst->operands[k]);
    if (!crossed[k])
      return false;
  }
  HlInst *by = hl_shape_is_tuple(inst->shape) ? hl_b_tuple(&b, n, crossed) : crossed[0];
  hl_replace_uses(inst, by);
  hl_erase(inst);
  return true;
}

static bool write_all_out(Whole *w) {
  for (HlComp *comp = w->m->first; comp; comp = comp->next) {
    int64_t n = 0;
    HlInst **at = HL_ARRAY(w->arena, HlInst *, comp->n_insts + 1);
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if ((goes_in(inst) || goes_out(inst)) && inst->n_operands > 0)
        at[n++] = inst;
    if (n > 0)
      hl_set_schedule(comp, NULL);
    for (int64_t k = 0; k < n; k++)
      if (!write_out(w, at[k]))
        return false;
  }
  return true;
}

HlModule *sp_without_borders(HlCx *cx, const HlModule *m) {
  HlArena *arena = hl_arena_new();
  Whole w = {.cx = cx, .m = hl_clone(cx, m), .arena = arena, .n = m->num_partitions};
  bool ok = w.m && sp_module_meshes(cx, arena, m, &w.meshes, &w.main);
  if (ok) {
    w.next_channel = hl_free_channel(m);
    if (w.main)
      w.mesh = sp_mesh_new(arena, w.main->n_axes, w.main->size, w.main->devices);
    hl_set_scheduled(w.m, false);
    ok = write_all_out(&w);
  }
  if (!ok)
    hl_module_free(w.m);
  hl_arena_free(arena);
  return ok ? w.m : NULL;
}
