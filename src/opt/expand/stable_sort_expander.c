// opt/expand/stable_sort_expander.c: stable sorts by an explicit last resort, for sorts that keep no
// order: of equal keys the one that came first is less.
//
// An operand that counts along the sorted dimension is used if there is one, else one is added.
//
//   s = sort(x), is_stable=true,      i = s32[9] iota()
//     to_apply=less               =>  t = (f32[9], s32[9]) sort(x, i), to_apply=less, or equal and
//                                       the place is less
//                                     s = get-tuple-element(t), index=0
#include "opt/ask/dots.h"

// The operand that counts along the sorted dimension; -1 if there is none.
static int find_count(const HlInst *sort) {
  for (uint32_t k = 0; k < sort->n_operands; k++) {
    const HlInst *x = sort->operands[k];
    if (x->op == HL_OP_IOTA && x->shape->dtype == HL_S32 &&
        hl_attr_int(x, HL_A_IOTA_DIMENSION) == hl_dim(sort))
      return (int)k;
  }
  return -1;
}

// Constants are the same the other way round.
static void share_constants(const HlComp *less, HlInst *const *before, HlInst *const *after) {
  for (const HlInst *inst = less->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && inst->n_operands == 0 &&
        before[inst->id] != after[inst->id]) {
      hl_replace_uses(after[inst->id], before[inst->id]);
      hl_erase(after[inst->id]);
    }
}

// less(x, y) or (not less(y, x) and x's place < y's place).
static HlComp *stable_comparator(HlPass *p, HlBuild *b, const HlInst *sort, int n, int count) {
  const HlComp *less = hl_to_apply(sort);
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in = hl_b_nested(&bare, hl_arena_printf(p->arena, "%s.stable", less->name->text));
  HlInst **x = HL_ARRAY(p->arena, HlInst *, 2 * n), **turned = HL_ARRAY(p->arena, HlInst *, 2 * n);
  for (int k = 0; k < 2 * n; k++) {
    const HlShape *shape =
        k < less->n_params ? less->params[k]->shape : hl_shape_scalar(p->m->shapes, HL_S32);
    x[k] = hl_b_parameter(&in, shape, NULL);
  }
  for (int k = 0; k < 2 * n; k++)
    turned[k] = x[k ^ 1];
  HlInst **map = HL_ARRAY(p->arena, HlInst *, less->next_id);
  HlInst **turned_map = HL_ARRAY(p->arena, HlInst *, less->next_id);
  HlInst *before = hl_graft(in.comp, less, less->n_params, x, map);
  HlInst *after = hl_graft(in.comp, less, less->n_params, turned, turned_map);
  if (less->root->n_operands > 0)
    share_constants(less, map, turned_map);
  HlInst *first = hl_b_compare(&in, HL_WORD_direction_LT, x[2 * count], x[2 * count + 1]);
  HlInst *equal = hl_b_compare(&in, HL_WORD_direction_EQ, before, after);
  HlInst *root = hl_b_select(&in, equal, first, before);
  if (!root)
    return NULL;
  hl_set_root(in.comp, root);
  return in.comp;
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *sort) {
  if (!hl_attr_int(sort, HL_A_IS_STABLE) || !all_static(sort) || !hl_is_pure(sort))
    return NULL;
  int count = find_count(sort), n_old = (int)sort->n_operands, n = n_old;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    operands[k] = sort->operands[k];
  if (count < 0) {
    HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = hl_dim(sort)};
    const HlShape *shape = hl_shape_with_dtype(p->m->shapes, sort->operands[0]->shape, HL_S32);
    count = n;
    operands[n++] = hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &along, 0, NULL);
  }
  HlComp *less = stable_comparator(p, b, sort, n, count);
  HlAttr attr = {.key = HL_A_DIMENSION, .i = hl_dim(sort)};
  HlInst *out = less ? hl_b_op(b, HL_OP_SORT, NULL, n, operands, 1, &attr, 1, &less) : NULL;
  if (n == n_old || !out)
    return out;
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, n_old);
  for (int k = 0; k < n_old; k++)
    parts[k] = hl_b_element(b, out, k);
  return sort->shape->dtype == HL_TUPLE ? hl_b_tuple(b, n_old, parts) : parts[0];
}

const HlRule stable_sort_expander_rules[] = {
    {HL_OP_SORT, expand, "stable-sort-expander", "stable sort(x) => sort(x, iota)",
     "equal keys are told apart by their places"},
    {0},
};
