// opt/collective/all_to_all_decomposer.c
//
// all_to_all_decomposer: an all-to-all that cuts one array along a dimension becomes one that sends
// an array to each device.
//
//   y = f32[8,4] all-to-all(x), dimensions={0}   =>   p0 = slice(x), slice={[0:4], [0:4]}
//                                                     p1 = slice(x), slice={[4:8], [0:4]}
//                                                     t = (f32[4,4], f32[4,4]) all-to-all(p0, p1)
//                                                     y = concatenate(t#0, t#1), dimensions={0}
//
// With decompose_to_tuple=false only the rank is raised to min_array_rank, by a split dimension of
// the size of a group.

#include "opt/ask/frontend.h"
#include "opt/passes.h"

static int64_t group_size(HlPass *p, const HlInst *inst) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  if (groups) {
    HlI64Lists lists = hl_groups_lists(p->arena, groups);
    if (lists.n > 0 && lists.at[0].n > 0)
      return lists.at[0].n;
  }
  return hl_has_attr(inst, HL_A_CHANNEL_ID) ? p->m->num_partitions : p->m->replica_count;
}

static HlInst *raise_rank(HlPass *p, HlBuild *b, HlInst *inst, int64_t split, int64_t parts) {
  const HlShape *shape = inst->shape;
  int64_t rank = hl_pass_int(p, "min_array_rank"), n = 0;
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank + 1);
  for (int d = 0; d < shape->rank; d++) {
    if (d != split) {
      dim[n++] = shape->dim[d];
      continue;
    }
    dim[n++] = parts;
    dim[n++] = shape->dim[d] / parts;
    for (int64_t extra = shape->rank + 1; extra < rank; extra++)
      dim[n++] = 1;
  }
  HlInst *x = hl_b_reshape(b, hl_operand(inst, 0), (int)n, dim);
  return x ? hl_b_reshape(b, hl_inst_copy(b->comp, inst, x->shape, 1, &x), shape->rank, shape->dim)
           : NULL;
}

static HlInst *in_parts(HlPass *p, HlBuild *b, HlInst *inst, int split, int64_t parts) {
  const int64_t size = inst->shape->dim[split] / parts;
  HlInst **piece = HL_ARRAY(p->arena, HlInst *, parts);
  const HlShape **shapes = HL_ARRAY(p->arena, const HlShape *, parts);
  for (int64_t k = 0; k < parts; k++) {
    piece[k] = hl_b_slice_dim(b, hl_operand(inst, 0), split, k * size, (k + 1) * size);
    if (!piece[k])
      return NULL;
    frontend_keep(piece[k], inst);
    shapes[k] = piece[k]->shape;
  }
  const HlShape *all = hl_shape_tuple(p->m->shapes, (int)parts, shapes);
  HlInst *sent = hl_inst_copy(b->comp, inst, all, (int)parts, piece);
  hl_remove_attr(sent, HL_A_DIMENSION);
  hl_remove_attr(sent, HL_A_SHARDING);
  hl_remove_attr(sent, HL_A_ORIGIN);
  for (int64_t k = 0; k < parts; k++)
    piece[k] = hl_b_element(b, sent, (int)k);
  return hl_b_concatenate(b, (int)parts, piece, split);
}

static HlInst *decompose(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!hl_shape_is_array(inst->shape) || inst->n_operands != 1 ||
      !hl_has_attr(inst, HL_A_DIMENSION) || hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT) ||
      hl_shape_is_dynamic(inst->shape))
    return NULL;
  int64_t split = hl_dim(inst), parts = group_size(p, inst);
  if (split < 0 || split >= inst->shape->rank || parts <= 0 || inst->shape->dim[split] % parts != 0)
    return NULL;
  if (hl_pass_flag(p, "decompose_to_tuple"))
    return in_parts(p, b, inst, (int)split, parts);
  return inst->shape->rank < hl_pass_int(p, "min_array_rank") ? raise_rank(p, b, inst, split, parts)
                                                              : NULL;
}

const HlRule rules_all_to_all[] = {
    {HL_OP_ALL_TO_ALL, decompose, "all_to_all_decomposer",
     "all-to-all(x) => concatenate(all-to-all(slice(x), slice(x), ...))", "of one array"},
    {0}};
