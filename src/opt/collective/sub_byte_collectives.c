// opt/collective/sub_byte_collectives.c
//
// sub-byte-collective-normalization: collectives that only move data move packed elements by whole bytes.
//
//   y = s4[8,8]{1,0:E(4)} all-gather(s4[4,8]{1,0:E(4)} x), dimensions={0}
//   =>
//   a = s4[4,4,2]{2,1,0:E(4)} bitcast(x)
//   b = s8[4,4]{1,0} bitcast-convert(a)
//   c = s8[8,4]{1,0} all-gather(b), dimensions={0}
//   d = s4[8,4,2]{2,1,0:E(4)} bitcast-convert(c)
//   y = s4[8,8]{1,0:E(4)} bitcast(d)
//
// The elements of a byte are neighbours in memory: along the most minor dimension, whose size must be a multiple of
// how many there are in a byte.

#include "opt/ask/collectives.h"
#include "opt/passes.h"

static int elements_of_byte(const HlShape *shape) {
  const int bits = hl_dtype_info[shape->dtype].bits;
  return hl_shape_is_array(shape) && shape->dtype != HL_PRED && bits > 0 && bits < 8 &&
                 8 % bits == 0
             ? 8 / bits
             : 0;
}

static bool is_packed(const HlShape *shape) {
  const int ratio = elements_of_byte(shape);
  if (ratio == 0 || shape->rank == 0 || hl_shape_is_dynamic(shape) || !shape->layout ||
      !shape->layout->extra || shape->layout->extra->element_bits != 8 / ratio ||
      shape->layout->extra->n_tiles > 0)
    return false;
  return shape->dim[shape->layout->minor_to_major.at[0]] % ratio == 0;
}

// The array with a byte's elements as a dimension of their own, the last and most minor one.
static const HlShape *split_shape(HlPass *p, const HlShape *shape) {
  const int rank = shape->rank, ratio = elements_of_byte(shape);
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank + 1);
  int64_t *order = HL_ARRAY(p->arena, int64_t, rank + 1);
  order[0] = rank;
  for (int d = 0; d < rank; d++) {
    dim[d] = shape->dim[d];
    order[d + 1] = shape->layout->minor_to_major.at[d];
  }
  dim[order[1]] /= ratio;
  dim[rank] = ratio;
  const HlLayout layout = {{order, rank + 1}, shape->layout->extra};
  return hl_shape_array_full(p->m->shapes, shape->dtype, rank + 1, dim, NULL, &layout);
}

// The array as bytes.
static const HlShape *byte_shape(HlPass *p, const HlShape *shape) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank);
  for (int d = 0; d < shape->rank; d++)
    dim[d] = shape->dim[d];
  dim[shape->layout->minor_to_major.at[0]] /= elements_of_byte(shape);
  HlLayoutExtra extra = *shape->layout->extra;
  extra.element_bits = 0;
  const HlLayout layout = {shape->layout->minor_to_major, &extra};
  return hl_shape_array_full(p->m->shapes, HL_S8, shape->rank, dim, NULL, &layout);
}

static HlInst *make(HlBuild *b, HlOp op, const HlShape *shape, HlInst *x) {
  return hl_inst_new(b->comp, op, shape, NULL, 1, &x);
}

// What all-to-all cuts must be whole bytes.
static bool cuts_bytes(HlPass *p, const HlInst *inst) {
  if (inst->op != HL_OP_ALL_TO_ALL)
    return true;
  const CollGroups groups = coll_groups(p, inst);
  return hl_has_attr(inst, HL_A_DIMENSION) && groups.size > 0 &&
         inst->shape->dim[hl_dim(inst)] % (groups.size * elements_of_byte(inst->shape)) == 0;
}

static HlInst *move_bytes(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->n_operands != 1 || !hl_shape_is_array(inst->shape))
    return NULL;
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  if (!is_packed(from) || !is_packed(to) || from->dtype != to->dtype ||
      !hl_i64s_equal(from->layout->minor_to_major, to->layout->minor_to_major) ||
      !cuts_bytes(p, inst))
    return NULL;
  HlInst *parts = make(b, HL_OP_BITCAST, split_shape(p, from), inst->operands[0]);
  HlInst *bytes = make(b, HL_OP_BITCAST_CONVERT, byte_shape(p, from), parts);
  HlInst *moved = coll_copy(b, inst, byte_shape(p, to), 1, &bytes);
  HlInst *again = make(b, HL_OP_BITCAST_CONVERT, split_shape(p, to), moved);
  return make(b, HL_OP_BITCAST, to, again);
}

const HlRule sub_byte_collective_rules[] = {
    {HL_OP_ALL_GATHER, move_bytes, "all-gather", "all-gather(s4 x) => s4 all-gather(s8 x)",
     "packed elements, whole bytes along the most minor dimension"},
    {HL_OP_ALL_TO_ALL, move_bytes, "all-to-all", "all-to-all(s4 x) => s4 all-to-all(s8 x)",
     "the same, also of each device's part"},
    {HL_OP_COLLECTIVE_BROADCAST, move_bytes, "collective-broadcast",
     "collective-broadcast(s4 x) => s4 collective-broadcast(s8 x)", "as all-gather"},
    {HL_OP_COLLECTIVE_PERMUTE, move_bytes, "collective-permute",
     "collective-permute(s4 x) => s4 collective-permute(s8 x)", "as all-gather"},
    {0}};
