// spmd/partition_value.c: what stands for a value on one device, and how it is found in the
// sharding a rule wants.

#include <assert.h>
#include <string.h>

#include "spmd/partition.h"

// --- Shardings ------------------------------------------------------------------------------------

const HlTiles *part_replicated(Part *pt, int rank) {
  if (rank >= PART_LATELY)
    return hl_tiles_replicated(pt->arena, rank, pt->n_devices);
  if (!pt->whole[rank])
    pt->whole[rank] = hl_tiles_replicated(pt->arena, rank, pt->n_devices);
  return pt->whole[rank];
}

const HlTiles *part_uncut(Part *pt, const HlTiles *like, int rank) {
  int *from = HL_ARRAY(pt->arena, int, rank + 1);
  for (int k = 0; k < rank; k++)
    from[k] = -1;
  if (!like || like->manual == 1)
    return part_replicated(pt, rank);
  const HlTiles *t = hl_tiles_map(pt->arena, like, rank, from);
  if (t->unreduced == 1)
    return t;
  // A sum that is not complete is none of the program's own subgroups.
  int64_t *ones = HL_ARRAY(pt->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    ones[k] = 1;
  return hl_tiles_new(pt->arena, rank, ones, t->manual, 1, t->unreduced * t->replicas, t->device);
}

// What is held by one device is computed by all: it is the same everywhere, so it is there, too. An
// array whose sizes are known only at run time is not cut.
static const HlTiles *usable(PartComp *c, const HlTiles *t, const HlShape *leaf) {
  if (t->kind == HL_TILES_MAXIMAL)
    return part_replicated(c->pt, t->rank);
  return hl_shape_is_dynamic(leaf) && hl_tiles_is_cut(t) ? part_uncut(c->pt, t, t->rank) : t;
}

static const HlTiles *grid_of(Part *pt, const HlSharding *sharding, int rank) {
  for (int k = 0; k < PART_LATELY; k++) {
    const PartLately *l = &pt->lately[k];
    if (l->tiles && l->rank == rank &&
        (l->sharding == sharding || hl_sharding_equal(l->sharding, sharding)))
      return l->tiles;
  }
  const HlTiles *t = hl_tiles_of(pt->arena, sharding, rank, pt->n_devices);
  if (t)
    pt->lately[pt->n_lately++ % PART_LATELY] = (PartLately){sharding, rank, t};
  return t;
}

// Devices that hold something of their own, or a part of a sum: this cannot be had by other means.
static bool is_more_than_a_cut(const HlSharding *s) {
  if (s->kind == HL_SHARDING_MANUAL || s->kind == HL_SHARDING_UNREDUCED)
    return true;
  if (s->kind == HL_SHARDING_NAMED)
    return s->manual.n > 0 || s->unreduced.n > 0;
  return s->kind == HL_SHARDING_TILED &&
         (hl_i64s_find(s->last_tile_dims, HL_SHARDING_MANUAL) >= 0 ||
          hl_i64s_find(s->last_tile_dims, HL_SHARDING_UNREDUCED) >= 0);
}

// A cut for other devices than there are says nothing: the array is whole.
const HlTiles *part_tiles_of(PartComp *c, const HlInst *inst, const HlSharding *sharding,
                             const HlShape *leaf) {
  const int rank = hl_shape_is_array(leaf) ? leaf->rank : 0;
  if (!sharding || !hl_shape_is_array(leaf) || sharding->kind == HL_SHARDING_UNKNOWN)
    return part_replicated(c->pt, rank);
  const HlTiles *t = grid_of(c->pt, sharding, rank);
  if (t)
    return usable(c, t, leaf);
  if (!is_more_than_a_cut(sharding))
    return part_replicated(c->pt, rank);
  hl_inst_error(c->pt->p->cx, inst, "its sharding does not fit %s on %lld partitions",
                hl_shape_text(c->pt->p->cx, leaf), (long long)c->pt->n_devices);
  return NULL;
}

// Goes over the leaves of a shape in order, from *k on.
static bool fill_leaves(PartComp *c, const HlInst *inst, const HlSharding *sharding,
                        const HlShape *shape, const HlTiles *like, const HlTiles **out, int *k) {
  if (hl_shape_is_tuple(shape)) {
    for (int e = 0; e < shape->rank; e++)
      if (!fill_leaves(c, inst, sharding, shape->element[e], like, out, k))
        return false;
    return true;
  }
  const HlSharding *own = hl_sharding_leaf(sharding, *k);
  out[*k] = own ? part_tiles_of(c, inst, own, shape)
                : part_uncut(c->pt, like, hl_shape_is_array(shape) ? shape->rank : 0);
  return out[(*k)++] != NULL;
}

// Whose subgroups an instruction without a sharding lives in: those of an operand that has some.
static const HlTiles *subgroups_of_operands(PartComp *c, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const PartValue *v = &c->value[inst->operands[k]->id];
    for (int l = 0; v->local && l < v->n; l++)
      if (v->tiles[l]->manual > 1)
        return v->tiles[l];
  }
  return NULL;
}

const HlTiles *part_complete(PartComp *c, const HlTiles *t, bool manual) {
  return hl_tiles_new(c->pt->arena, t->rank, t->parts, manual ? 1 : t->manual, 1,
                      t->replicas * t->unreduced * (manual ? t->manual : 1), t->device);
}

const HlTiles *const *part_tiles(PartComp *c, const HlInst *inst) {
  const HlSharding *sharding = hl_sharding(inst);
  const HlTiles **out = HL_ARRAY(c->pt->arena, const HlTiles *, hl_shape_leaves(inst->shape) + 1);
  int n = 0;
  const HlTiles *like = sharding ? NULL : subgroups_of_operands(c, inst);
  if (!fill_leaves(c, inst, sharding, inst->shape, like, out, &n))
    return NULL;
  for (int k = 0; inst == c->complete && k < n; k++)
    if (out[k]->unreduced > 1)
      out[k] = part_complete(c, out[k], false);
  return out;
}

static const HlShape *local_shape(Part *pt, const HlShape *global, const HlTiles *const *tiles,
                                  int *k) {
  if (!hl_shape_is_tuple(global)) {
    const HlTiles *t = tiles[(*k)++];
    return hl_shape_is_array(global) && hl_tiles_is_cut(t) ? hl_tiles_shape(pt->m, t, global)
                                                           : global;
  }
  const HlShape **element = HL_ARRAY(pt->arena, const HlShape *, global->rank + 1);
  for (int e = 0; e < global->rank; e++)
    element[e] = local_shape(pt, global->element[e], tiles, k);
  return hl_shape_tuple(pt->m->shapes, global->rank, element);
}

const HlShape *part_local_shape(Part *pt, const HlShape *global, const HlTiles *const *tiles) {
  int k = 0;
  return local_shape(pt, global, tiles, &k);
}

const HlTiles *part_without(PartComp *c, const HlTiles *tiles, const bool *drop) {
  for (int k = 0; k < tiles->rank; k++)
    if (drop[k] && tiles->parts[k] > 1)
      return hl_tiles_drop(c->pt->arena, tiles, drop);
  return tiles;
}

const HlTiles *part_move_cut(PartComp *c, const HlTiles *tiles, int dim, const HlShape *shape) {
  if (tiles->parts[dim] == 1)
    return tiles;
  for (int k = 0; k < tiles->rank; k++)
    if (k != dim && shape->dim[k] > 0 && shape->dim[k] % (tiles->parts[k] * tiles->parts[dim]) == 0)
      return part_moved_parts(c, tiles, dim, k, tiles->parts[dim]);
  bool *drop = HL_ARRAY(c->pt->arena, bool, tiles->rank + 1);
  drop[dim] = true;
  return part_without(c, tiles, drop);
}

// --- Values ---------------------------------------------------------------------------------------

PartValue *part_value(PartComp *c, const HlInst *inst) {
  PartValue *v = &c->value[inst->id];
  assert(v->local);
  return v;
}

const HlTiles *part_tiles_now(PartComp *c, const HlInst *inst) {
  return part_value(c, inst)->tiles[0];
}

// The form of an array from which this sharding costs least: as it is, as it was before that, or as
// somebody else wanted it. *cost is added to.
static PartMoved nearest(PartComp *c, const PartValue *v, const HlTiles *tiles, PartCost *cost) {
  PartMoved best = {.tiles = v->tiles[0], .local = v->local};
  if (!hl_shape_is_array(v->global) || hl_tiles_equal(best.tiles, tiles))
    return best;
  for (const PartMoved *moved = v->moved; moved; moved = moved->next)
    if (hl_tiles_equal(moved->tiles, tiles))
      return *moved;
  if (part_is_broadcast_scalar(v->local) || tiles->unreduced > 1 || best.tiles->unreduced > 1)
    return best;
  PartCost least = {0};
  part_reshard_cost(c, v->global, best.tiles, tiles, &least);
  for (const PartMoved *moved = v->moved; moved; moved = moved->next) {
    PartCost other = {0};
    if (moved->tiles->unreduced == 1)
      part_reshard_cost(c, v->global, moved->tiles, tiles, &other);
    if (moved->tiles->unreduced == 1 && other.n <= least.n && other.bytes < least.bytes) {
      least = other;
      best = *moved;
    }
  }
  cost->n += least.n;
  cost->bytes += least.bytes;
  return best;
}

static HlInst *array_as(PartComp *c, PartValue *v, const HlTiles *tiles) {
  PartCost cost = {0};
  const PartMoved from = nearest(c, v, tiles, &cost);
  if (!hl_shape_is_array(v->global) || hl_tiles_equal(from.tiles, tiles))
    return from.local;
  PartMoved *moved = HL_NEW(c->pt->arena, PartMoved);
  const bool by_tiles = c->by_tiles;
  c->by_tiles |= v->by_tiles;
  *moved = (PartMoved){tiles, part_reshard(c, from.local, v->global, from.tiles, tiles), v->moved};
  c->by_tiles = by_tiles;
  v->moved = moved->local ? moved : v->moved;
  return moved->local;
}

HlInst *part_operand(PartComp *c, const HlInst *inst, int k, const HlTiles *tiles) {
  return array_as(c, part_value(c, inst->operands[k]), tiles);
}

void part_operand_cost(PartComp *c, const HlInst *inst, int k, const HlTiles *tiles,
                       PartCost *cost) {
  nearest(c, part_value(c, inst->operands[k]), tiles, cost);
}

// Takes a tuple apart, changes its leaves and puts it together again.
static HlInst *leaves_as(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *const *from,
                         const HlTiles *const *to, int *k) {
  if (!x)
    return NULL;
  if (!hl_shape_is_tuple(global)) {
    const int at = (*k)++;
    return hl_shape_is_array(global) ? part_reshard(c, x, global, from[at], to[at]) : x;
  }
  HlInst **element = HL_ARRAY(c->pt->arena, HlInst *, global->rank + 1);
  for (int e = 0; e < global->rank; e++)
    element[e] = leaves_as(c, hl_b_element(&c->b, x, e), global->element[e], from, to, k);
  return hl_b_tuple(&c->b, global->rank, element);
}

static bool all_equal(const PartValue *v, const HlTiles *const *tiles) {
  for (int k = 0; k < v->n; k++)
    if (!hl_tiles_equal(v->tiles[k], tiles[k]))
      return false;
  return true;
}

HlInst *part_value_as(PartComp *c, const HlInst *inst, const HlTiles *const *tiles) {
  PartValue *v = part_value(c, inst);
  if (!hl_shape_is_tuple(v->global))
    return array_as(c, v, tiles[0]);
  int k = 0;
  return all_equal(v, tiles) ? v->local : leaves_as(c, v->local, v->global, v->tiles, tiles, &k);
}

bool part_keep(PartComp *c, const HlInst *inst, HlInst *local, const HlTiles *const *tiles) {
  if (!local)
    return false;
  c->value[inst->id] = (PartValue){.local = local,
                                   .global = inst->shape,
                                   .tiles = tiles,
                                   .n = (int)hl_shape_leaves(inst->shape),
                                   .by_tiles = c->by_tiles};
  return true;
}

bool part_set_leaves(PartComp *c, const HlInst *inst, HlInst *local, const HlTiles *const *tiles) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || !part_keep(c, inst, local, tiles))
    return false;
  HlInst *moved = part_value_as(c, inst, own);
  if (!moved || !part_keep(c, inst, moved, own))
    return false;
  if (moved != local && hl_shape_is_array(inst->shape)) {
    PartMoved *before = HL_NEW(c->pt->arena, PartMoved);
    *before = (PartMoved){.tiles = tiles[0], .local = local};
    part_value(c, inst)->moved = before;
  }
  return true;
}

bool part_set(PartComp *c, const HlInst *inst, HlInst *local, const HlTiles *tiles) {
  const HlTiles **one = HL_NEW(c->pt->arena, const HlTiles *);
  *one = tiles;
  return part_set_leaves(c, inst, local, one);
}

// --- Copies ---------------------------------------------------------------------------------------

HlInst *part_copy(PartComp *c, const HlInst *inst, const HlShape *shape, int n,
                  HlInst *const *operands) {
  for (int k = 0; k < n; k++)
    if (!operands[k])
      return NULL;
  HlInst *copy = hl_inst_copy(c->to, inst, shape, n, operands);
  hl_remove_attr(copy, HL_A_SHARDING);
  return copy;
}

HlInst *part_copy_anew(PartComp *c, const HlInst *inst, const HlShape *shape, int n,
                       HlInst *const *operands) {
  HlComp **calls = HL_ARRAY(c->pt->arena, HlComp *, inst->n_calls + 1);
  for (int k = 0; k < n; k++)
    if (!operands[k])
      return NULL;
  const HlSym *name = hl_fresh_name(c->pt->m, hl_op_text((HlOp)inst->op));
  HlInst *copy = hl_inst_new(c->to, (HlOp)inst->op, shape, name, n, operands);
  hl_copy_attrs(copy, inst);
  hl_remove_attr(copy, HL_A_SHARDING);
  hl_set_loc(copy, inst->loc);
  for (int k = 0; k < inst->n_calls; k++)
    calls[k] = hl_called(inst, k);
  if (inst->n_calls > 0)
    hl_set_calls(copy, inst->n_calls, calls);
  return copy;
}

HlInst *part_copy_as(PartComp *c, const HlInst *inst, const HlTiles *tiles, int n,
                     HlInst *const *operands) {
  return part_copy(c, inst, part_local_shape(c->pt, inst->shape, &tiles), n, operands);
}
