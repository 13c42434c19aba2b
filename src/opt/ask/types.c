// opt/ask/types.c: exchanging one element type for another, in shapes, values and computations.

#include "opt/ask/types.h"

#include "hilo/edit.h"

bool hl_has_type(const HlShape *shape, HlDtype dtype) {
  if (hl_is_array_dtype(shape->dtype))
    return shape->dtype == dtype;
  for (int k = 0; k < shape->rank; k++)
    if (hl_has_type(shape->element[k], dtype))
      return true;
  return false;
}

const HlShape *hl_swap_type(HlShapes *shapes, const HlShape *shape, HlDtype from, HlDtype to) {
  if (shape->dtype == from)
    return hl_shape_with_dtype(shapes, shape, to);
  if (shape->dtype != HL_TUPLE || !hl_has_type(shape, from))
    return shape;
  HlArena *scratch = hl_arena_new();
  const HlShape **element = HL_ARRAY(scratch, const HlShape *, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    element[k] = hl_swap_type(shapes, shape->element[k], from, to);
  const HlShape *tuple = hl_shape_tuple(shapes, shape->rank, element);
  hl_arena_free(scratch);
  return tuple;
}

HlInst *hl_convert_to(HlBuild *b, HlInst *x, const HlShape *shape) {
  if (!x || x->shape == shape)
    return x;
  if (hl_is_array_dtype(shape->dtype))
    return x->shape->dtype == shape->dtype
               ? x
               : hl_b_op(b, HL_OP_CONVERT, shape, 1, &x, 0, NULL, 0, NULL);
  if (shape->dtype != HL_TUPLE)
    return x;
  HlInst **element = HL_ARRAY(hl_b_module(b)->arena, HlInst *, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    element[k] = hl_convert_to(b, hl_b_element(b, x, k), shape->element[k]);
  return hl_b_tuple(b, shape->rank, element);
}

// Gives a parameter the other type. Those who convert it to that type have what they want; the
// others use its conversion back.
static bool swap_param(HlBuild *b, HlInst *param, HlDtype from, HlDtype to) {
  if (!hl_has_type(param->shape, from))
    return true;
  const HlShape *narrow = param->shape;
  hl_set_shape(param, hl_swap_type(param->comp->module->shapes, narrow, from, to));
  HlInst *back = NULL;
  for (HlUse *use = param->first_use, *last = param->last_use, *next; use; use = next) {
    HlInst *user = use->user;
    next = use == last ? NULL : use->next;
    if (user->op == HL_OP_CONVERT && user->shape == param->shape && !user->control) {
      hl_replace_uses(user, param);
      hl_erase(user);
    } else {
      back = back ? back : hl_convert_to(b, param, narrow);
      if (!back)
        return false;
      hl_set_operand(user, use->number, back);
    }
  }
  return true;
}

bool hl_swap_interface(HlBuild *b, HlComp *comp, HlDtype from, HlDtype to) {
  HlShapes *shapes = comp->module->shapes;
  HlBuild inside = *b;
  inside.comp = comp;
  inside.sharding = NULL;
  HlInst *root = comp->root;
  HlInst *result = hl_convert_to(&inside, root, hl_swap_type(shapes, root->shape, from, to));
  if (!result)
    return false;
  hl_set_root(comp, result);
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k] && !swap_param(&inside, comp->params[k], from, to))
      return false;
  return true;
}
