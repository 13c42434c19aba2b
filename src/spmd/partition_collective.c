// spmd/partition_collective.c: the collectives the partitioner makes, each with a channel of its
// own, and those that the program has.
//
// Groups are lists of partitions. An all-reduce and an all-gather name devices (replica *
// partitions + partition) and have the groups once for every replica; an all-to-all and a permute
// name partitions.

#include <string.h>

#include "spmd/partition.h"

// --- Groups ---------------------------------------------------------------------------------------

static HlI64Lists of_all_replicas(Part *pt, HlI64Lists groups) {
  const int64_t n = groups.n * pt->n_replicas;
  HlI64s *at = HL_ARRAY(pt->m->arena, HlI64s, n + 1);
  for (int64_t k = 0; k < n; k++) {
    const HlI64s from = groups.at[k % groups.n];
    int64_t *id = HL_ARRAY(pt->m->arena, int64_t, from.n + 1);
    for (int j = 0; j < from.n; j++)
      id[j] = k / groups.n * pt->n_devices + from.at[j];
    at[k] = (HlI64s){id, from.n};
  }
  return (HlI64Lists){at, (int)n};
}

static const HlGroups *listed(Part *pt, HlI64Lists lists, bool by_device) {
  HlGroups *groups = HL_NEW(pt->m->arena, HlGroups);
  Part one = *pt;
  one.n_replicas = by_device ? pt->n_replicas : 1;
  *groups = (HlGroups){.form = HL_GROUPS_LIST, .list = of_all_replicas(&one, lists)};
  return groups;
}

// The grid as a mesh with an axis for each of its dimensions; NULL where its devices are in no
// regular order.
static const HlMesh *mesh_of(Part *pt, const HlTiles *t) {
  const HlSharding *s = hl_tiles_sharding(pt->m, t);
  if (s->kind != HL_SHARDING_TILED || s->devices.n > 0)
    return NULL;
  HlMesh *mesh = HL_NEW(pt->m->arena, HlMesh);
  const HlSym **axis = HL_ARRAY(pt->m->arena, const HlSym *, s->tile.n);
  for (int k = 0; k < s->tile.n; k++)
    axis[k] = hl_sym(pt->m, hl_arena_printf(pt->arena, "axis_%d", k));
  *mesh = (HlMesh){.axis = axis, .size = s->tile.at, .n = s->tile.n, .maximal_device = -1};
  if (s->iota.dims.n > 1)
    mesh->iota = s->iota;
  return mesh;
}

// Which axis of that mesh the replicas are: the last one.
static int axis_of(const HlTiles *t, const HlMesh *mesh, int dim) {
  return dim < t->rank ? dim : mesh->n - 1;
}

// Lists of one length whose devices are in a regular order, as an iota; NULL: they are not.
static const HlGroups *regular(Part *pt, HlI64Lists lists) {
  const int64_t parts[] = {lists.n, lists.n ? lists.at[0].n : 0};
  int64_t *device = HL_ARRAY(pt->arena, int64_t, parts[0] * parts[1] + 1);
  for (int k = 0; k < lists.n; k++) {
    if (lists.at[k].n != parts[1])
      return NULL;
    memcpy(device + k * parts[1], lists.at[k].at, sizeof *device * (size_t)parts[1]);
  }
  const HlTiles *t = parts[0] * parts[1] == pt->n_devices
                         ? hl_tiles_new(pt->arena, 2, parts, 1, 1, 1, device)
                         : NULL;
  const HlSharding *s = t ? hl_tiles_sharding(pt->m, t) : NULL;
  if (!s || s->kind != HL_SHARDING_TILED || s->devices.n > 0)
    return NULL;
  HlGroups *groups = HL_NEW(pt->m->arena, HlGroups);
  *groups = (HlGroups){
      .form = HL_GROUPS_IOTA, .n_groups = parts[0], .group_size = parts[1], .iota = s->iota};
  return groups;
}

static bool is_in_product(const PartComp *c) {
  return c->at > 0 && part_is_product(c->order[c->at - 1]);
}

// By the axes of the mesh that tiles were made of: the dimensions of their iota.
static const HlGroups *by_iota(Part *pt, const HlTiles *t, int dim) {
  const HlSharding *s = hl_tiles_sharding(pt->m, t);
  if (s->kind != HL_SHARDING_TILED || s->devices.n > 0)
    return NULL;
  const bool is_plain = s->iota.dims.n < 2;
  const HlI64s from = is_plain ? s->tile : s->iota.dims;
  HlAxisRef *ref = HL_ARRAY(pt->m->arena, HlAxisRef, from.n + 1);
  int64_t *size = HL_ARRAY(pt->m->arena, int64_t, from.n + 1);
  const HlSym **axis = HL_ARRAY(pt->m->arena, const HlSym *, from.n + 1);
  HlMesh *mesh = HL_NEW(pt->m->arena, HlMesh);
  int n = 0, next = 0;
  for (int k = 0; k < from.n; k++)
    if (!is_plain || from.at[k] > 1)
      size[mesh->n++] = from.at[k];
  for (int k = 0; k < mesh->n; k++)
    axis[k] = hl_sym(pt->m, hl_arena_printf(pt->arena, "axis_%d", k));
  for (int d = 0; d < s->tile.n; d++)
    for (int64_t left = s->tile.at[d]; left > 1; next++) {
      const int at = is_plain || next >= mesh->n ? next : (int)s->iota.perm.at[next];
      if (at >= mesh->n || left % size[at])
        return NULL;
      left /= size[at];
      if (d == dim)
        ref[n++] = (HlAxisRef){.axis = at};
    }
  mesh->axis = axis;
  mesh->size = size;
  mesh->maximal_device = -1;
  HlGroups *groups = HL_NEW(pt->m->arena, HlGroups);
  *groups = (HlGroups){.form = HL_GROUPS_MESH, .mesh = mesh, .axes = {ref, n}};
  return groups;
}

// By the axes of the program's own mesh; NULL: they do not cut so.
static const HlGroups *by_name(Part *pt, const HlTiles *t, int dim) {
  SpSpec spec = {.rank = t->rank, .dim = HL_ARRAY(pt->arena, SpDim, t->rank + 1)};
  if (!sp_spec_of_tiles(pt->mesh, t, &spec))
    return NULL;
  HlGroups *groups = HL_NEW(pt->m->arena, HlGroups);
  *groups =
      (HlGroups){.form = HL_GROUPS_MESH,
                 .mesh = pt->named,
                 .axes = sp_axes_named(pt->m->arena, pt->mesh, pt->named, &spec.dim[dim].axes)};
  return groups;
}

// Since 0.11: all of a dimension by axes, the program's own where what is exchanged is known by their names; a part of it as an
// iota, and so all of one in a product that keeps others cut.
static const HlGroups *groups_of_mesh(PartComp *c, const HlTiles *t, int dim, int64_t factor) {
  if (!hl_pass_since(c->pt->p, HL_XLA_0_11) || dim >= t->rank)
    return NULL;
  const bool is_all = factor == t->parts[dim];
  if (!is_all || (is_in_product(c) && hl_tiles_n_tiles(t) > t->parts[dim]))
    return regular(c->pt, part_minor_groups(c, t, dim, factor));
  return c->by_tiles || !c->pt->mesh ? by_iota(c->pt, t, dim) : by_name(c->pt, t, dim);
}

// Of one dimension (rank + 2: the replicas), in groups of its `factor` minor parts.
const HlGroups *part_groups(PartComp *c, const HlTiles *t, int dim, int64_t factor,
                            bool by_device) {
  Part *pt = c->pt;
  const int64_t parts = dim < t->rank ? t->parts[dim] : t->replicas;
  const bool may_name = !by_device || pt->n_replicas == 1;
  const HlGroups *of_mesh = may_name ? groups_of_mesh(c, t, dim, factor) : NULL;
  if (of_mesh)
    return of_mesh;
  const HlMesh *mesh = may_name ? mesh_of(pt, t) : NULL;
  if (!mesh)
    return listed(pt, part_minor_groups(c, t, dim, factor), by_device);
  HlGroups *groups = HL_NEW(pt->m->arena, HlGroups);
  HlAxisRef *ref = HL_NEW(pt->m->arena, HlAxisRef);
  *ref = (HlAxisRef){.axis = axis_of(t, mesh, dim)};
  if (factor != parts)
    *ref = (HlAxisRef){ref->axis, parts / factor, factor};
  *groups = (HlGroups){.form = HL_GROUPS_MESH, .mesh = mesh, .axes = {ref, 1}};
  return groups;
}

// Since 0.11 what the partitioner made says so.
static HlInst *generated(PartComp *c, HlInst *inst) {
  if (!inst || !hl_pass_since(c->pt->p, HL_XLA_0_11))
    return inst;
  HlModule *m = c->pt->m;
  const HlSym *said[] = {hl_sym(m, "is_spmd_generated"), hl_sym(m, "true")};
  HlDict *dict = HL_NEW(m->arena, HlDict);
  *dict = (HlDict){hl_arena_copy(m->arena, &said[0], sizeof said[0]),
                   hl_arena_copy(m->arena, &said[1], sizeof said[1]), 1};
  const HlAttr attr = {.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = dict};
  hl_set_attr(inst, &attr);
  return inst;
}

static HlAttr channel(PartComp *c) {
  return (HlAttr){.key = HL_A_CHANNEL_ID, .i = c->pt->next_channel++};
}

const HlGroups *part_groups_of_dim(PartComp *c, const HlTiles *t, int dim) {
  return part_groups(c, t, dim, dim < t->rank ? t->parts[dim] : t->replicas, true);
}

const HlGroups *part_groups_along(PartComp *c, const HlTiles *t, const bool *along) {
  const HlI64Lists lists = hl_tiles_groups(c->pt->arena, t, along);
  const HlGroups *groups =
      c->pt->mesh && c->pt->n_replicas == 1 && is_in_product(c) ? regular(c->pt, lists) : NULL;
  return groups ? groups : listed(c->pt, lists, true);
}

// --- All-reduce -----------------------------------------------------------------------------------

HlInst *part_all_reduce(PartComp *c, HlInst *x, const HlComp *reducer, const HlGroups *groups) {
  if (!x || !reducer)
    return NULL;
  Part *pt = c->pt;
  HlComp *own = hl_comp_copy(pt->m, reducer, "clone", false, NULL);
  const HlAttr attrs[] = {channel(c),
                          {.key = HL_A_REPLICA_GROUPS, .ptr = groups},
                          {.key = HL_A_USE_GLOBAL_DEVICE_IDS, .i = 1}};
  return generated(c, hl_b_op(&c->b, HL_OP_ALL_REDUCE, x->shape, 1, &x, 3, attrs, 1, &own));
}

// A computation of its own, which the all-reduce then has a copy of.
static HlComp *scalar_reducer(PartComp *c, HlOp op, HlDtype dtype) {
  HlBuild bare = {.cx = c->b.cx, .comp = c->to, .loc = c->b.loc};
  HlBuild nested = hl_b_nested(&bare, hl_op_text(op));
  const HlShape *shape = hl_shape_scalar(c->pt->m->shapes, dtype);
  HlInst *x = hl_b_parameter(&nested, shape, "x"), *y = hl_b_parameter(&nested, shape, "y");
  HlInst *root = hl_b_binary(&nested, op, x, y);
  if (root)
    hl_set_root(nested.comp, root);
  return root ? nested.comp : NULL;
}

HlInst *part_all_reduce_op(PartComp *c, HlInst *x, HlOp op, const HlGroups *groups) {
  if (!x)
    return NULL;
  HlComp *reducer = scalar_reducer(c, op, x->shape->dtype);
  HlInst *sum = part_all_reduce(c, x, reducer, groups);
  if (reducer)
    hl_comp_erase(reducer);
  return sum;
}

// --- The others -----------------------------------------------------------------------------------

HlInst *part_all_gather(PartComp *c, HlInst *x, int dim, const HlGroups *groups, int64_t n) {
  if (!x)
    return NULL;
  Part *pt = c->pt;
  int64_t *size = HL_ARRAY(pt->arena, int64_t, x->shape->rank + 1);
  memcpy(size, x->shape->dim, sizeof *size * (size_t)x->shape->rank);
  size[dim] *= n;
  const HlShape *shape = hl_shape_array_full(pt->m->shapes, x->shape->dtype, x->shape->rank, size,
                                             NULL, x->shape->layout);
  const HlAttr attrs[] = {channel(c),
                          {.key = HL_A_REPLICA_GROUPS, .ptr = groups},
                          {.key = HL_A_DIMENSION, .i = dim},
                          {.key = HL_A_USE_GLOBAL_DEVICE_IDS, .i = 1}};
  return generated(c, hl_b_op(&c->b, HL_OP_ALL_GATHER, shape, 1, &x, 4, attrs, 0, NULL));
}

HlInst *part_all_to_all(PartComp *c, HlInst *x, int dim, const HlGroups *groups) {
  if (!x)
    return NULL;
  const HlAttr attrs[] = {
      channel(c), {.key = HL_A_REPLICA_GROUPS, .ptr = groups}, {.key = HL_A_DIMENSION, .i = dim}};
  return generated(c, hl_b_op(&c->b, HL_OP_ALL_TO_ALL, x->shape, 1, &x, 3, attrs, 0, NULL));
}

HlInst *part_permute(PartComp *c, HlInst *x, int n, const int64_t *source, const int64_t *target) {
  if (!x)
    return NULL;
  int64_t *pair = HL_ARRAY(c->pt->m->arena, int64_t, 2 * n + 1);
  for (int k = 0; k < n; k++) {
    pair[2 * k] = source[k];
    pair[2 * k + 1] = target[k];
  }
  const HlAttr attrs[] = {channel(c), {.key = HL_A_SOURCE_TARGET_PAIRS, .ints = {pair, 2 * n}}};
  return generated(c, hl_b_op(&c->b, HL_OP_COLLECTIVE_PERMUTE, x->shape, 1, &x, 2, attrs, 0, NULL));
}

// --- The program's own ----------------------------------------------------------------------------

// All of a list of partitions hold the same tile.
static bool hold_the_same(Part *pt, const HlTiles *t, HlI64s devices) {
  int64_t *first = HL_ARRAY(pt->arena, int64_t, t->rank + 1),
          *at = HL_ARRAY(pt->arena, int64_t, t->rank + 1);
  for (int k = 0; k < devices.n; k++) {
    hl_tiles_at(t, devices.at[k] % pt->n_devices, k ? at : first);
    if (k && memcmp(at, first, sizeof *at * (size_t)t->rank) != 0)
      return false;
  }
  return true;
}

// What goes from device to device meets what belongs to it: in a part of the program that says itself
// what some axes of the mesh do, the others may cut. Between replicas it always does.
static bool stays_in_tiles(PartComp *c, const HlInst *inst, const HlTiles *t) {
  const HlGroupMode mode = hl_group_mode(inst);
  if (!hl_tiles_is_cut(t) || mode == HL_CROSS_REPLICA)
    return true;
  if (t->manual == 1 || mode == HL_CROSS_BOTH)
    return false;
  Part *pt = c->pt;
  if (inst->op == HL_OP_COLLECTIVE_PERMUTE) {
    const HlI64s pairs = hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
    for (int k = 0; k + 1 < pairs.n; k += 2)
      if (!hold_the_same(pt, t, (HlI64s){pairs.at + k, 2}))
        return false;
    return true;
  }
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  const HlI64Lists lists = groups ? hl_groups_lists(pt->arena, groups) : (HlI64Lists){0};
  for (int k = 0; k < lists.n; k++)
    if (!hold_the_same(pt, t, lists.at[k]))
      return false;
  return lists.n > 0;
}

// Tile by tile, but for the dimension along which it takes apart or puts together.
bool part_collective(PartComp *c, HlInst *inst) {
  Part *pt = c->pt;
  const HlTiles *const *own = part_tiles(c, inst);
  const int n = (int)inst->n_operands;
  const HlTiles **tiles = HL_ARRAY(pt->arena, const HlTiles *, n + 1);
  HlInst **operand = HL_ARRAY(pt->arena, HlInst *, n + 1);
  bool fits = own && hl_shape_leaves(inst->shape) == n && !hl_has_attr(inst, HL_A_CONSTRAIN_LAYOUT);
  for (int k = 0; fits && k < n; k++) {
    const HlShape *shape = hl_operand(inst, k)->shape;
    fits = hl_shape_is_array(shape) && shape->rank == own[k]->rank && own[k]->unreduced == 1 &&
           !hl_shape_is_dynamic(shape);
    if (!fits)
      break;
    bool *drop = HL_ARRAY(pt->arena, bool, shape->rank + 1);
    if (hl_has_attr(inst, HL_A_DIMENSION) && hl_dim(inst) < shape->rank)
      drop[hl_dim(inst)] = true;
    tiles[k] = part_without(c, own[k], drop);
    fits = stays_in_tiles(c, inst, tiles[k]);
  }
  if (!fits)
    return own && part_default(c, inst);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k, tiles[k]);
  const HlShape *shape = part_local_shape(pt, inst->shape, tiles);
  return part_set_leaves(c, inst, part_copy(c, inst, shape, n, operand), tiles);
}
