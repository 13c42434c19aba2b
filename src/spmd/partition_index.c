// spmd/partition_index.c: numbers that are different on each device, and masks made of them.

#include "spmd/partition.h"

HlInst *part_id(PartComp *c) {
  if (!c->id)
    c->id = hl_b_op(&c->b, HL_OP_PARTITION_ID, hl_shape_scalar(c->pt->m->shapes, HL_U32), 0, NULL,
                    0, NULL, 0, NULL);
  return c->id;
}

HlInst *part_scalar_index(PartComp *c, int64_t value) {
  return hl_b_scalar_int(&c->b, HL_S32, value);
}

static bool all_equal(const int64_t *value, int64_t n) {
  for (int64_t k = 1; k < n; k++)
    if (value[k] != value[0])
      return false;
  return true;
}

static bool is_own_number(const int64_t *value, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (value[k] != k)
      return false;
  return true;
}

HlInst *part_table(PartComp *c, HlDtype dtype, const int64_t *value, int64_t n) {
  const HlShape *shape = hl_shape_array(c->pt->m->shapes, dtype, 1, &n);
  HlLiteral *literal = hl_literal_new(c->b.cx, shape);
  if (!literal)
    return NULL;
  for (int64_t k = 0; k < n; k++)
    hl_literal_set_i64(literal, k, value[k]);
  const HlAttr attr = {.key = HL_A_VALUE, .ptr = literal};
  HlInst *inst = hl_b_op(&c->b, HL_OP_CONSTANT, shape, 0, NULL, 1, &attr, 0, NULL);
  hl_literal_unref(literal);
  return inst;
}

HlInst *part_entry(PartComp *c, HlInst *table, HlInst *index) {
  const int64_t one = 1;
  return hl_b_reshape(&c->b, hl_b_dynamic_slice(&c->b, table, &index, &one), 0, NULL);
}

HlInst *part_number(PartComp *c, HlDtype dtype, const int64_t *by_device) {
  const int64_t n = c->pt->n_devices;
  if (all_equal(by_device, n))
    return hl_b_scalar_int(&c->b, dtype, by_device[0]);
  if (dtype == HL_U32 && is_own_number(by_device, n))
    return part_id(c);
  HlInst *all = part_table(c, dtype, by_device, n);
  return part_entry(c, all, part_id(c));
}

static int64_t *ordinals(PartComp *c, const HlTiles *tiles, int dim) {
  const int64_t n = c->pt->n_devices;
  int64_t *value = HL_ARRAY(c->pt->arena, int64_t, n + 1),
          *at = HL_ARRAY(c->pt->arena, int64_t, tiles->rank + 1);
  for (int64_t d = 0; d < n; d++) {
    hl_tiles_at(tiles, d, at);
    value[d] = at[dim];
  }
  return value;
}

HlInst *part_ordinal(PartComp *c, const HlTiles *tiles, int dim) {
  return part_number(c, HL_S32, ordinals(c, tiles, dim));
}

HlInst *part_offset(PartComp *c, HlDtype dtype, const HlTiles *tiles, int dim, int64_t size) {
  int64_t *value = ordinals(c, tiles, dim);
  for (int64_t d = 0; d < c->pt->n_devices; d++)
    value[d] *= hl_tile_size(size, tiles->parts[dim]);
  return part_number(c, dtype, value);
}

HlInst *part_is_first_replica(PartComp *c, const HlTiles *tiles) {
  int64_t *value = HL_ARRAY(c->pt->arena, int64_t, c->pt->n_devices + 1);
  for (int64_t d = 0; d < c->pt->n_devices; d++)
    value[d] = tiles->place[d] % tiles->replicas == 0;
  HlInst *number = part_number(c, HL_S32, value);
  return number ? hl_b_compare(&c->b, HL_WORD_direction_NE, number, part_scalar_index(c, 0)) : NULL;
}

HlInst *part_offset_by_ordinal(PartComp *c, const HlTiles *tiles, int dim, int64_t size) {
  const int64_t parts = tiles->parts[dim];
  int64_t *offset = HL_ARRAY(c->pt->arena, int64_t, parts);
  for (int64_t k = 0; k < parts; k++)
    offset[k] = k * hl_tile_size(size, parts);
  HlInst *all = part_table(c, HL_S32, offset, parts);
  return part_entry(c, all, part_number(c, HL_U32, ordinals(c, tiles, dim)));
}

// --- Masks ----------------------------------------------------------------------------------------

static HlInst *spread(PartComp *c, HlInst *scalar, const HlShape *like) {
  return hl_b_broadcast(&c->b, scalar, like->rank, like->dim, (HlI64s){0});
}

HlInst *part_in_range(PartComp *c, const HlShape *like, int dim, HlInst *begin, int64_t low,
                      int64_t high) {
  HlBuild *b = &c->b;
  const HlShape *shape = hl_shape_array(c->pt->m->shapes, HL_S32, like->rank, like->dim);
  const HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = dim};
  HlInst *index = hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &along, 0, NULL);
  index = hl_b_binary(b, HL_OP_ADD, index, spread(c, begin, like));
  HlInst *in = NULL;
  if (low > INT64_MIN)
    in = hl_b_compare(b, HL_WORD_direction_GE, index, spread(c, part_scalar_index(c, low), like));
  if (high == INT64_MAX)
    return in;
  HlInst *below =
      hl_b_compare(b, HL_WORD_direction_LT, index, spread(c, part_scalar_index(c, high), like));
  return in ? hl_b_binary(b, HL_OP_AND, in, below) : below;
}

HlInst *part_mask(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *tiles,
                  const bool *dims, HlInst *value) {
  HlInst *in = NULL;
  for (int k = 0; x && k < tiles->rank; k++) {
    if ((dims && !dims[k]) || global->dim[k] % tiles->parts[k] == 0)
      continue;
    HlInst *begin = part_offset(c, HL_S32, tiles, k, global->dim[k]);
    HlInst *here = part_in_range(c, x->shape, k, begin, INT64_MIN, global->dim[k]);
    in = in ? hl_b_binary(&c->b, HL_OP_AND, in, here) : here;
  }
  return in ? hl_b_select(&c->b, in, x, spread(c, value, x->shape)) : x;
}
