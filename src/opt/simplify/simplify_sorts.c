// opt/simplify/simplify_sorts.c: sorts carry along only what somebody uses.
//
// An operand whose sorted form nobody takes, and which the comparator does not look at, is left
// out.
//
//   s = (f32[9], s32[9]) sort(x, y), to_apply=by_first       s = f32[9] sort(x), to_apply=by_first
//   a = f32[9] get-tuple-element(s), index=0            =>   (which is a)
#include "opt/ask/dots.h"

// Whether all users are get-tuple-elements; notes what they take, and what the comparator reads.
static bool find_used(const HlInst *sort, bool *used) {
  if (sort->shape->dtype != HL_TUPLE || sort->comp->root == sort || hl_has_control(sort))
    return false;
  for (const HlUse *use = sort->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
    used[hl_attr_int(use->user, HL_A_INDEX)] = true;
  }
  const HlComp *less = hl_to_apply(sort);
  for (int k = 0; k < less->n_params; k++)
    if (less->params[k]->first_use || less->root == less->params[k])
      used[k / 2] = true;
  return true;
}

// The comparator with the parameters of used operands alone.
static HlComp *smaller_comparator(HlPass *p, HlBuild *b, const HlInst *sort, const bool *used) {
  const HlComp *less = hl_to_apply(sort);
  HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
  HlBuild in = hl_b_nested(&bare, hl_arena_printf(p->arena, "%s.clone", less->name->text));
  HlInst **map = HL_ARRAY(p->arena, HlInst *, less->next_id);
  for (int k = 0, n = 0; k < less->n_params; k++) {
    if (!used[k / 2])
      continue;
    const char *name = hl_arena_printf(p->arena, "p.%d.%s", n / 2, n % 2 ? "rhs" : "lhs");
    map[less->params[k]->id] = hl_b_parameter(&in, less->params[k]->shape, name);
    n++;
  }
  for (const HlInst *inst = less->first; inst; inst = inst->next) {
    if (inst->op == HL_OP_PARAMETER)
      continue;
    HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = map[inst->operands[k]->id];
    map[inst->id] = hl_inst_copy(in.comp, inst, NULL, (int)inst->n_operands, operands);
  }
  hl_set_root(in.comp, map[less->root->id]);
  return in.comp;
}

static HlInst *smaller_sort(HlPass *p, HlBuild *b, const HlInst *sort, const bool *used) {
  HlInst **kept = HL_ARRAY(p->arena, HlInst *, sort->n_operands);
  int n = 0;
  for (uint32_t k = 0; k < sort->n_operands; k++)
    if (used[k])
      kept[n++] = sort->operands[k];
  if (n == 0)
    return NULL;
  HlComp *less = smaller_comparator(p, b, sort, used);
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = hl_dim(sort)},
                    {.key = HL_A_IS_STABLE, .i = hl_attr_int(sort, HL_A_IS_STABLE)}};
  return hl_b_op(b, HL_OP_SORT, NULL, n, kept, HL_COUNT_OF(attrs), attrs, 1, &less);
}

// Met at the first get-tuple-element of a sort; the others follow in the same step.
static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *element) {
  HlInst *sort = element->operands[0];
  if (sort->op != HL_OP_SORT || sort->first_use->user != element)
    return NULL;
  bool *used = HL_ARRAY(p->arena, bool, sort->n_operands);
  if (!find_used(sort, used))
    return NULL;
  int n = (int)sort->n_operands, n_used = 0;
  int *place = HL_ARRAY(p->arena, int, n);
  for (int k = 0; k < n; k++) {
    place[k] = n_used;
    n_used += used[k];
  }
  HlInst *smaller = n_used < n ? smaller_sort(p, b, sort, used) : NULL;
  if (!smaller)
    return NULL;
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, n), *own = NULL;
  for (HlUse *use = sort->first_use; use; use = use->next) {
    int64_t k = hl_attr_int(use->user, HL_A_INDEX);
    if (!parts[k])
      parts[k] = n_used == 1 ? smaller : hl_b_element(b, smaller, place[k]);
    if (use->user == element)
      own = parts[k];
    else
      hl_also(p, use->user, parts[k]);
  }
  return own;
}

const HlRule simplify_sorts_rules[] = {
    {HL_OP_GET_TUPLE_ELEMENT, simplify, "simplify-sorts", "sort(x, y)#0 => sort(x)",
     "nobody takes the sorted y, and the comparator does not look at it"},
    {0},
};
