// opt/simplify/permutation_sort_simplifier.c: sorting by a permutation is putting each value in its place.
//
// The places that an argsort returns are 0, 1, .. n - 1 in some order. A sort by them as keys:
//
//   p = s32[9] argsort(x)                     k' = s32[9] iota()
//   s = (s32[9], f32[9]) sort(p, v)     =>    v' = f32[9] scatter(0, p, v), unique_indices=true
//     to_apply=less than
#include "opt/ask/dots.h"

// Element k of a sort of which operand k is 0, 1, 2, ...
static bool is_permutation(const HlInst *keys) {
  if (keys->op != HL_OP_GET_TUPLE_ELEMENT || keys->operands[0]->op != HL_OP_SORT)
    return false;
  const HlInst *from = keys->operands[0]->operands[hl_attr_int(keys, HL_A_INDEX)];
  return from->op == HL_OP_IOTA && from->shape->rank == 1 && from->shape->dtype == HL_S32;
}

static bool is_less_than(const HlComp *less) {
  const HlInst *root = less->root;
  return root->op == HL_OP_COMPARE && hl_attr_int(root, HL_A_DIRECTION) == HL_WORD_direction_LT &&
         root->operands[0] == less->params[0] && root->operands[1] == less->params[1];
}

// (old, new) -> new.
static HlComp *overwrite(HlBuild *b, HlDtype dtype) {
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in = hl_b_nested(&bare, "overwrite");
  const HlShape *shape = hl_shape_scalar(hl_b_module(b)->shapes, dtype);
  HlInst *old = hl_b_parameter(&in, shape, "old"), *new = hl_b_parameter(&in, shape, "new");
  if (!old || !new)
    return NULL;
  hl_set_root(in.comp, new);
  return in.comp;
}

static HlInst *put_in_place(HlBuild *b, HlInst *keys, HlInst *values) {
  HlModule *m = hl_b_module(b);
  const int64_t n = values->shape->dim[0];
  HlInst *operands[] = {hl_b_like(b, values, 0), hl_b_reshape(b, keys, 2, (const int64_t[]){n, 1}),
                        values};
  HlI64s first = dims_from(m->arena, 0, 1);
  HlAttr attrs[] = {{.key = HL_A_UPDATE_WINDOW_DIMS, .ints = {0}},
                    {.key = HL_A_INSERTED_WINDOW_DIMS, .ints = first},
                    {.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, .ints = first},
                    {.key = HL_A_INDEX_VECTOR_DIM, .i = 1},
                    {.key = HL_A_UNIQUE_INDICES, .i = 1}};
  HlComp *combine = overwrite(b, values->shape->dtype);
  return combine
             ? hl_b_op(b, HL_OP_SCATTER, NULL, 3, operands, HL_COUNT_OF(attrs), attrs, 1, &combine)
             : NULL;
}

static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *sort) {
  (void)p;
  if (sort->n_operands != 2 || !all_static(sort))
    return NULL;
  HlInst *keys = sort->operands[0], *values = sort->operands[1];
  if (!is_permutation(keys) || !is_less_than(hl_to_apply(sort)))
    return NULL;
  HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = 0};
  HlInst *parts[] = {hl_b_op(b, HL_OP_IOTA, keys->shape, 0, NULL, 1, &along, 0, NULL),
                     put_in_place(b, keys, values)};
  return hl_b_tuple(b, 2, parts);
}

const HlRule permutation_sort_simplifier_rules[] = {
    {HL_OP_SORT, simplify, "permutation_sort_simplifier", "sort(p, v) => iota, scatter(0, p, v)",
     "p a permutation that an argsort returned; ascending"},
    {0},
};
