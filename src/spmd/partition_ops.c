// spmd/partition_ops.c: rules of ops that handle every element, or every line of elements, by
// itself, and the rule that holds for all.

#include <string.h>

#include "spmd/partition.h"

static HlInst **operand_array(PartComp *c, int n) {
  return HL_ARRAY(c->pt->arena, HlInst *, n + 1);
}

// --- Any op ---------------------------------------------------------------------------------------

// An operand not cut, in the subgroups of the result.
static HlInst *whole_operand(PartComp *c, const HlInst *inst, int k, const HlTiles *const *own,
                             int64_t n_leaves) {
  const PartValue *v = part_value(c, inst->operands[k]);
  const HlTiles *like = n_leaves > 0 && own[0]->manual > 1 ? own[0] : NULL;
  const HlTiles **whole = HL_ARRAY(c->pt->arena, const HlTiles *, v->n + 1);
  for (int l = 0; l < v->n; l++)
    whole[l] = part_uncut(c->pt, like ? like : v->tiles[l], v->tiles[l]->rank);
  return part_value_as(c, inst->operands[k], whole);
}

// The operands whole, the result whole, and then the device's part of it.
bool part_default(PartComp *c, HlInst *inst) {
  const int n = (int)inst->n_operands;
  const HlTiles *const *own = part_tiles(c, inst);
  const int64_t n_leaves = hl_shape_leaves(inst->shape);
  HlInst **operand = operand_array(c, n);
  for (int k = 0; own && k < n; k++)
    operand[k] = whole_operand(c, inst, k, own, n_leaves);
  if (!own)
    return false;
  const HlTiles **whole = HL_ARRAY(c->pt->arena, const HlTiles *, n_leaves + 1);
  for (int64_t l = 0; l < n_leaves; l++)
    whole[l] = part_uncut(c->pt, own[l], own[l]->rank);
  return part_set_leaves(c, inst, part_copy(c, inst, inst->shape, n, operand), whole);
}

// Links of asynchronous work: what passes between them cannot be taken apart, so only the first
// one's operands and the last one's result change their sharding.
bool part_async(PartComp *c, HlInst *inst) {
  const int n = (int)inst->n_operands;
  const HlTiles *const *own = part_tiles(c, inst);
  const int64_t n_leaves = hl_shape_leaves(inst->shape);
  const HlTiles **whole = HL_ARRAY(c->pt->arena, const HlTiles *, n_leaves + 1);
  HlInst **operand = operand_array(c, n);
  for (int64_t l = 0; own && l < n_leaves; l++)
    whole[l] = part_uncut(c->pt, own[l], own[l]->rank);
  for (int k = 0; own && k < n; k++)
    operand[k] = k == 0 && hl_awaits((HlOp)inst->op) ? part_value(c, inst->operands[0])->local
                                                     : whole_operand(c, inst, k, own, n_leaves);
  if (!own)
    return false;
  HlInst *copy = part_copy(c, inst, inst->shape, n, operand);
  const bool is_last = hl_awaits((HlOp)inst->op) && inst->op != HL_OP_ASYNC_UPDATE;
  return is_last ? part_set_leaves(c, inst, copy, whole) : part_keep(c, inst, copy, whole);
}

static bool has_own_for_each_device(const PartValue *v) {
  for (int l = 0; l < v->n; l++)
    if (v->tiles[l]->manual > 1 || v->tiles[l]->unreduced > 1)
      return true;
  return false;
}

// What comes from outside, into a part of the program that says itself what each device does, is whole on each.
static HlInst *operand_from_outside(PartComp *c, const HlInst *inst, int k) {
  const PartValue *v = part_value(c, inst->operands[k]);
  const HlTiles **whole = HL_ARRAY(c->pt->arena, const HlTiles *, v->n + 1);
  bool is_cut = false;
  for (int l = 0; l < v->n; l++) {
    is_cut |= hl_tiles_is_cut(v->tiles[l]);
    whole[l] = part_uncut(c->pt, v->tiles[l], v->tiles[l]->rank);
  }
  return is_cut ? part_value_as(c, inst->operands[k], whole) : v->local;
}

// In a part of the program that says itself what each device does.
bool part_as_it_is(PartComp *c, HlInst *inst) {
  const int n = (int)inst->n_operands;
  HlInst **operand = operand_array(c, n);
  const HlTiles *const *own = part_tiles(c, inst);
  for (int k = 0; k < n; k++) {
    const PartValue *v = part_value(c, inst->operands[k]);
    operand[k] = has_own_for_each_device(v) ? v->local : operand_from_outside(c, inst, k);
  }
  return own && part_keep(c, inst, part_copy(c, inst, inst->shape, n, operand), own);
}

// Done to each device's summands it gives summands of the result: of floats of another type, too, but for rounding.
static bool is_additive(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_CONVERT)
    return hl_is_float(inst->shape->dtype) && hl_is_float(inst->operands[0]->shape->dtype);
  return op == HL_OP_COPY || op == HL_OP_ADD || op == HL_OP_SUBTRACT || op == HL_OP_NEGATE;
}

// Every element of the result comes from the same one of the operands; scalars among them serve
// all.
bool part_elementwise(PartComp *c, HlInst *inst) {
  const int n = (int)inst->n_operands;
  const HlTiles *const *own = part_tiles(c, inst);
  HlInst **operand = operand_array(c, n);
  if (!own || !hl_shape_is_array(inst->shape))
    return own && part_default(c, inst);
  const HlTiles *t = own[0];
  for (int k = 0; k < n; k++) {
    const HlShape *shape = hl_operand(inst, k)->shape;
    if (!hl_shape_is_array(shape))
      return part_default(c, inst);
    if (shape->rank > 0 && !hl_shape_same_dims(shape, inst->shape))
      return part_default(c, inst);
    if (t->unreduced > 1 && !is_additive(inst))
      return part_default(c, inst);
  }
  for (int k = 0; k < n; k++) {
    const int rank = hl_operand(inst, k)->shape->rank;
    operand[k] = part_operand(c, inst, k, rank == t->rank ? t : part_uncut(c->pt, t, rank));
  }
  return part_set(c, inst, part_copy_as(c, inst, t, n, operand), t);
}

// The leading dimensions, which both have, by themselves.
bool part_bitcast_convert(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const HlShape *from = hl_operand(inst, 0)->shape, *to = inst->shape;
  if (!own || from->rank == to->rank)
    return own && part_elementwise(c, inst);
  const int shared = from->rank < to->rank ? from->rank : to->rank;
  bool *drop = HL_ARRAY(c->pt->arena, bool, to->rank + 1);
  int *of = HL_ARRAY(c->pt->arena, int, from->rank + 1);
  for (int k = shared; k < to->rank; k++)
    drop[k] = true;
  for (int k = 0; k < from->rank; k++)
    of[k] = k < shared ? k : -1;
  const HlTiles *t = part_without(c, own[0], drop);
  if (t->unreduced > 1)
    return part_default(c, inst);
  HlInst *x = part_operand(c, inst, 0, hl_tiles_map(c->pt->arena, t, from->rank, of));
  return part_set(c, inst, part_copy_as(c, inst, t, 1, &x), t);
}

// --- Leaves and tuples ----------------------------------------------------------------------------

bool part_constant(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  HlInst *copy = part_copy(c, inst, inst->shape, 0, NULL);
  const char *wish = hl_arena_printf(c->pt->arena, "%s.clone", inst->name->text);
  hl_set_name(copy, hl_fresh_name(c->pt->m, wish));
  const HlTiles **whole = HL_ARRAY(c->pt->arena, const HlTiles *, hl_shape_leaves(inst->shape) + 1);
  for (int64_t l = 0; l < hl_shape_leaves(inst->shape); l++)
    whole[l] = part_uncut(c->pt, own[l], own[l]->rank);
  return part_set_leaves(c, inst, copy, whole);
}

bool part_tuple(PartComp *c, HlInst *inst) {
  const int n = (int)inst->n_operands;
  const bool says = hl_sharding(inst) != NULL;
  const HlTiles *const *own = says ? part_tiles(c, inst) : NULL;
  const HlTiles **tiles = HL_ARRAY(c->pt->arena, const HlTiles *, hl_shape_leaves(inst->shape) + 1);
  HlInst **operand = operand_array(c, n);
  int at = 0;
  if (says && !own)
    return false;
  for (int k = 0; k < n; k++) {
    const PartValue *v = part_value(c, inst->operands[k]);
    for (int l = 0; l < v->n; l++)
      tiles[at + l] = says ? own[at + l] : v->tiles[l];
    operand[k] = part_value_as(c, inst->operands[k], tiles + at);
    at += v->n;
  }
  return part_keep(c, inst,
                   part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, tiles), n, operand),
                   tiles);
}

bool part_element(PartComp *c, HlInst *inst) {
  const HlInst *tuple = hl_operand(inst, 0);
  const PartValue *v = part_value(c, tuple);
  const int64_t index = hl_attr_int(inst, HL_A_INDEX);
  int64_t first = 0;
  for (int64_t k = 0; k < index; k++)
    first += hl_shape_leaves(tuple->shape->element[k]);
  HlInst *local = v->local;
  if (local->op == HL_OP_TUPLE)
    local = hl_operand(local, (int)index);
  else
    local = part_copy_anew(c, inst, local->shape->element[index], 1, &local);
  return hl_sharding(inst) ? part_set_leaves(c, inst, local, v->tiles + first)
                           : part_keep(c, inst, local, v->tiles + first);
}

// What hands on its operands, one or a tuple of several.
bool part_barrier(PartComp *c, HlInst *inst) {
  const PartValue *v = part_value(c, inst->operands[0]);
  const HlTiles *const *tiles = hl_sharding(inst) ? part_tiles(c, inst) : v->tiles;
  HlInst *x = tiles ? part_value_as(c, inst->operands[0], tiles) : NULL;
  HlInst **operand = operand_array(c, (int)inst->n_operands);
  operand[0] = x;
  for (uint32_t k = 1; k < inst->n_operands; k++)
    operand[k] = part_value(c, inst->operands[k])->local;
  return x &&
         part_keep(c, inst, part_copy(c, inst, x->shape, (int)inst->n_operands, operand), tiles);
}

// --- Movement -------------------------------------------------------------------------------------

bool part_broadcast(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const HlI64s dims = hl_dims(inst);
  int *from = HL_ARRAY(c->pt->arena, int, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    from[k] = (int)dims.at[k];
  const HlTiles *t = own[0];
  if (t->unreduced > 1)
    return part_default(c, inst);
  HlInst *x = part_operand(c, inst, 0, hl_tiles_map(c->pt->arena, t, dims.n, from));
  return part_set(c, inst, part_copy_as(c, inst, t, 1, &x), t);
}

bool part_transpose(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const HlI64s perm = hl_dims(inst);
  int *from = HL_ARRAY(c->pt->arena, int, perm.n + 1);
  for (int k = 0; k < perm.n; k++)
    from[perm.at[k]] = k;
  const HlTiles *t = own[0];
  HlInst *x = part_operand(c, inst, 0, hl_tiles_map(c->pt->arena, t, perm.n, from));
  return part_set(c, inst, part_copy_as(c, inst, t, 1, &x), t);
}

// Tiles of both shapes hold the same elements in the same order: every dimension that is cut
// unevenly stands on the other side, too, with the same before it.
static bool reshapes_tile_by_tile(const HlShape *from, const HlTiles *a, const HlShape *to,
                                  const HlTiles *b) {
  int64_t before = 1;
  for (int k = 0; k < to->rank; before *= to->dim[k++]) {
    if (to->dim[k] % b->parts[k] == 0)
      continue;
    int64_t same = 1;
    bool found = false;
    for (int j = 0; j < from->rank; same *= from->dim[j++])
      found = found || (same == before && from->dim[j] == to->dim[k] && a->parts[j] == b->parts[k]);
    if (!found)
      return false;
  }
  int64_t n = 1, m = 1;
  for (int k = 0; k < from->rank; k++)
    n *= hl_tile_size(from->dim[k], a->parts[k]);
  for (int k = 0; k < to->rank; k++)
    m *= hl_tile_size(to->dim[k], b->parts[k]);
  return n == m;
}

static bool reshape_as(PartComp *c, HlInst *inst, const HlTiles *from, const HlTiles *to) {
  if (!reshapes_tile_by_tile(hl_operand(inst, 0)->shape, from, inst->shape, to))
    return false;
  HlInst *x = part_operand(c, inst, 0, from);
  return part_set(c, inst, part_copy_as(c, inst, to, 1, &x), to);
}

// The operand is gathered before; who wants the result cut so may still have it.
static bool reshape_whole(PartComp *c, HlInst *inst, const HlTiles *to) {
  const PartValue *before = part_value(c, hl_operand(inst, 0));
  if (!part_default(c, inst))
    return false;
  PartMoved *moved = HL_NEW(c->pt->arena, PartMoved);
  HlInst *x = before->local;
  *moved = (PartMoved){.tiles = to, .local = part_copy_as(c, inst, to, 1, &x)};
  part_value(c, inst)->moved = moved;
  return moved->local != NULL;
}

bool part_reshape(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const HlTiles *now = part_tiles_now(c, hl_operand(inst, 0));
  const HlShape *from = hl_operand(inst, 0)->shape, *to = inst->shape;
  if (hl_shape_is_dynamic(from) || hl_shape_is_dynamic(to) || own[0]->manual != now->manual ||
      own[0]->unreduced > 1 || now->unreduced > 1)
    return part_default(c, inst);
  HlArena *arena = c->pt->arena;
  bool whole;
  const HlTiles *before = hl_tiles_reshape(arena, own[0], to, from, &whole);
  if (whole && hl_tiles_is_cut(own[0]) && reshape_as(c, inst, before, own[0]))
    return true;
  const HlTiles *after = hl_tiles_reshape(arena, now, from, to, &whole);
  const HlTiles *survived = whole ? now : hl_tiles_reshape(arena, after, to, from, NULL);
  if (!hl_tiles_is_cut(own[0]) && hl_tiles_is_cut(after) && hl_tiles_equal(survived, now) &&
      reshapes_tile_by_tile(from, now, to, after))
    return reshape_whole(c, inst, after);
  return reshape_as(c, inst, survived, after) || part_default(c, inst);
}

// The devices along cut dimensions in reverse order.
static const HlTiles *reversed(PartComp *c, const HlTiles *t, HlI64s dims) {
  int64_t *device = HL_ARRAY(c->pt->arena, int64_t, t->n),
          *at = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1);
  const int64_t inner = t->manual * t->unreduced * t->replicas;
  for (int64_t place = 0; place < t->n; place++) {
    hl_tiles_at(t, t->device[place], at);
    for (int k = 0; k < dims.n; k++)
      at[dims.at[k]] = t->parts[dims.at[k]] - 1 - at[dims.at[k]];
    int64_t to = 0;
    for (int k = 0; k < t->rank; k++)
      to = to * t->parts[k] + at[k];
    device[to * inner + place % inner] = t->device[place];
  }
  return hl_tiles_new(c->pt->arena, t->rank, t->parts, t->manual, t->unreduced, t->replicas,
                      device);
}

bool part_reverse(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const HlI64s dims = hl_dims(inst);
  bool *uneven = HL_ARRAY(c->pt->arena, bool, inst->shape->rank + 1);
  for (int k = 0; k < dims.n; k++)
    uneven[dims.at[k]] = inst->shape->dim[dims.at[k]] % own[0]->parts[dims.at[k]] != 0;
  const HlTiles *t = part_without(c, own[0], uneven);
  HlInst *x = part_operand(c, inst, 0, reversed(c, t, dims));
  return part_set(c, inst, part_copy_as(c, inst, t, 1, &x), t);
}

bool part_iota(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || own[0]->unreduced > 1)
    return own && part_default(c, inst);
  const HlTiles *t = own[0];
  const int dim = (int)hl_attr_int(inst, HL_A_IOTA_DIMENSION);
  HlInst *x = t->parts[dim] > 1
                  ? part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, &t), 0, NULL)
                  : part_copy_as(c, inst, t, 0, NULL);
  if (x && t->parts[dim] > 1) {
    HlInst *begin = hl_b_binary(&c->b, HL_OP_MULTIPLY, part_ordinal(c, t, dim),
                                part_scalar_index(c, x->shape->dim[dim]));
    begin = begin ? hl_b_convert(&c->b, begin, inst->shape->dtype) : NULL;
    begin = begin ? hl_b_broadcast(&c->b, begin, x->shape->rank, x->shape->dim, (HlI64s){0}) : NULL;
    x = hl_b_binary(&c->b, HL_OP_ADD, x, begin);
  }
  return part_set(c, inst, x, t);
}

// By how much concatenate(x[k:], x[:k]) moves x towards the end, around which it comes back; 0: it
// is something else.
static int64_t rotation(const HlInst *inst) {
  const HlInst *a = hl_operand(inst, 0), *b = inst->n_operands == 2 ? hl_operand(inst, 1) : NULL;
  if (!b || a->op != HL_OP_SLICE || b->op != HL_OP_SLICE || hl_operand(a, 0) != hl_operand(b, 0))
    return 0;
  const HlShape *whole = hl_operand(a, 0)->shape;
  const HlI64s first = hl_attr_ints(a, HL_A_SLICE), last = hl_attr_ints(b, HL_A_SLICE);
  const int64_t dim = hl_dim(inst);
  if (!hl_shape_same_dims(whole, inst->shape) || first.at[3 * dim + 2] != 1 ||
      last.at[3 * dim + 2] != 1 || last.at[3 * dim] != 0 ||
      first.at[3 * dim] != last.at[3 * dim + 1] || first.at[3 * dim + 1] != whole->dim[dim])
    return 0;
  return whole->dim[dim] - first.at[3 * dim];
}

bool part_concatenate(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const int64_t dim = hl_dim(inst), parts = own[0]->parts[dim], by = rotation(inst);
  if (by > 0 && parts > 1 && inst->shape->dim[dim] % parts == 0 && own[0]->unreduced == 1) {
    const HlInst *whole = hl_operand(hl_operand(inst, 0), 0);
    const HlTiles *now = part_tiles_now(c, whole);
    if (now->manual == own[0]->manual && now->unreduced == 1) {
      const HlTiles **one = HL_NEW(c->pt->arena, const HlTiles *);
      *one = own[0];
      return part_keep(c, inst, part_rotate(c, part_value_as(c, whole, one), own[0], (int)dim, by),
                       one);
    }
  }
  const int n = (int)inst->n_operands;
  HlInst **operand = operand_array(c, n);
  const HlTiles *t = part_move_cut(c, own[0], (int)hl_dim(inst), inst->shape);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k, t);
  return part_set(c, inst, part_copy_as(c, inst, t, n, operand), t);
}

// --- Lines and boxes ------------------------------------------------------------------------------

// The last two dimensions whole: factorisations.
bool part_batched(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const int n = (int)inst->n_operands, rank = own[0]->rank;
  HlInst **operand = operand_array(c, n);
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  for (int k = rank - 2; k < rank; k++)
    drop[k] = true;
  const HlTiles *t = part_without(c, own[0], drop);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k, t);
  return part_set(c, inst, part_copy_as(c, inst, t, n, operand), t);
}

// Dimensions that are not taken whole are not cut. The place along the others is 0 whatever it
// says.
static const HlTiles *without_boxes(PartComp *c, const HlTiles *t, const HlShape *array,
                                    const HlShape *box) {
  bool *drop = HL_ARRAY(c->pt->arena, bool, array->rank + 1);
  for (int k = 0; k < array->rank; k++)
    drop[k] = array->dim[k] != box->dim[k];
  return part_without(c, t, drop);
}

static HlInst *start_along(PartComp *c, HlInst *inst, int operand, const HlTiles *t,
                           bool takes_all) {
  HlInst *start = part_operand(c, inst, operand, part_uncut(c->pt, t, 0));
  return takes_all && start ? hl_b_scalar_int(&c->b, start->shape->dtype, 0) : start;
}

bool part_dynamic_slice(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const HlShape *array = hl_operand(inst, 0)->shape;
  if (!own || (int)inst->n_operands != array->rank + 1)  // old form: one vector of places
    return own && part_default(c, inst);
  const HlTiles *t = without_boxes(c, own[0], array, inst->shape);
  HlInst **operand = operand_array(c, (int)inst->n_operands);
  operand[0] = part_operand(c, inst, 0, t);
  const bool stays = hl_tiles_is_cut(t) && hl_tiles_equal(t, own[0]);
  for (int k = 0; k < array->rank; k++)
    operand[k + 1] = start_along(
        c, inst, k + 1, t, t->parts[k] > 1 || (stays && array->dim[k] == inst->shape->dim[k]));
  const HlShape *shape = part_local_shape(c->pt, inst->shape, &t);
  HlInst *copy = part_copy_anew(c, inst, shape, (int)inst->n_operands, operand);
  if (copy)
    hl_set_ints(copy, HL_A_DYNAMIC_SLICE_SIZES, (HlI64s){copy->shape->dim, copy->shape->rank});
  return part_set(c, inst, copy, t);
}

bool part_dynamic_update_slice(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || (int)inst->n_operands != inst->shape->rank + 2)
    return own && part_default(c, inst);
  const HlTiles *t = without_boxes(c, own[0], inst->shape, hl_operand(inst, 1)->shape);
  HlInst **operand = operand_array(c, (int)inst->n_operands);
  operand[0] = part_operand(c, inst, 0, t);
  operand[1] = part_operand(c, inst, 1, t);
  const HlShape *update = hl_operand(inst, 1)->shape;
  for (int k = 0; k < inst->shape->rank; k++)
    operand[k + 2] = start_along(c, inst, k + 2, t,
                                 hl_tiles_is_cut(own[0]) && update->dim[k] == inst->shape->dim[k]);
  const HlShape *shape = part_local_shape(c->pt, inst->shape, &t);
  return part_set(c, inst, part_copy_anew(c, inst, shape, (int)inst->n_operands, operand), t);
}

// Random numbers of hidden state are different on each device, but those who hold the same tile
// must have the same: the first one's are everybody's.
bool part_rng(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const int n = (int)inst->n_operands;
  const HlTiles *t = own[0]->unreduced > 1 ? part_uncut(c->pt, own[0], own[0]->rank) : own[0];
  HlInst **operand = operand_array(c, n);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k, part_uncut(c->pt, t, 0));
  HlInst *x = part_copy_as(c, inst, t, n, operand);
  if (x && t->replicas > 1) {
    x = hl_b_select(&c->b, part_is_first_replica(c, t), x, hl_b_like_int(&c->b, x, 0));
    x = part_all_reduce_op(c, x, x && x->shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD,
                           part_groups_of_dim(c, t, t->rank + 2));
  }
  return part_set(c, inst, x, t);
}
