// opt/layout/layout_apply.c: writes decided layouts into the module: every result gets its layout, and a
// copy is made where a user wants an operand to lie otherwise.

#include "hilo/edit.h"
#include "opt/ask/layouts.h"
#include "opt/layout/layout_assignment.h"

// --- Shapes -------------------------------------------------------------------------------------

static const HlShape *in_order(Layouts *a, const HlShape *array, LayoutOrder order) {
  if (!order || !hl_is_array_dtype(array->dtype))
    return array;
  LayoutOrder now = layout_order_of(array);
  if (now && layout_same(now, order, array->rank))
    return array;
  HlLayout layout = {{order, array->rank}, array->layout ? array->layout->extra : NULL};
  return hl_shape_array_full(a->shapes, array->dtype, array->rank, array->dim, array->dynamic,
                             &layout);
}

// The shape with its leaves in these orders, of which `*at` is the next.
static const HlShape *ordered(Layouts *a, const HlShape *shape, const LayoutOrder **at) {
  if (shape->dtype != HL_TUPLE)
    return in_order(a, shape, *(*at)++);
  const HlShape **element = HL_ARRAY(a->arena, const HlShape *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = ordered(a, shape->element[k], at);
  return hl_shape_tuple(a->shapes, shape->rank, element);
}

static const HlShape *shape_in(Layouts *a, const HlShape *shape, const LayoutOrder *order) {
  return ordered(a, shape, &order);
}

static const HlShape *decided_shape(Layouts *a, const LayoutComp *c, const HlInst *inst) {
  LayoutBuffer **leaves = layout_leaves(c, inst);
  if (hl_shape_is_array(inst->shape))
    return in_order(a, inst->shape, leaves[0] ? leaves[0]->order : NULL);
  int n = layout_n_leaves(inst->shape);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  for (int k = 0; k < n; k++)
    order[k] = leaves[k] ? leaves[k]->order : NULL;
  return shape_in(a, inst->shape, order);
}

// --- Is there anything to do
// ----------------------------------------------------------------------

static bool agrees(const LayoutComp *c, const HlInst *read, const LayoutOrder *order) {
  LayoutBuffer **leaves = layout_leaves(c, read);
  int n = order ? layout_n_leaves(read->shape) : 0;
  for (int k = 0; k < n; k++)
    if (leaves[k] && order[k] && !layout_same(leaves[k]->order, order[k], leaves[k]->array->rank))
      return false;
  return true;
}

static bool changes_comp(Layouts *a, const LayoutComp *c) {
  for (const HlInst *inst = c->comp->first; inst; inst = inst->next) {
    if (decided_shape(a, c, inst) != inst->shape)
      return true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (!agrees(c, inst->operands[k], c->use[inst->id][k].order))
        return true;
  }
  return !agrees(c, c->comp->root, c->result);
}

static bool changes_anything(Layouts *a) {
  bool changes = false;
  HlMark mark = hl_arena_mark(a->arena);
  for (int k = 0; !changes && k < a->n; k++)
    changes = changes_comp(a, a->order[k]);
  hl_arena_release(a->arena, mark);
  return changes;
}

// --- Copies -------------------------------------------------------------------------------------

// What goes along to a copy; a device is not pinned on it.
static void inherit(HlInst *copy, const HlInst *from) {
  hl_inherit(copy, from);
  const HlSharding *sharding = hl_sharding(copy);
  if (sharding && sharding->kind == HL_SHARDING_MAXIMAL)
    hl_remove_attr(copy, HL_A_SHARDING);
}

// `x` in the wanted layout: x itself, a copy, or a tuple of elements, copied where they differ.
static HlInst *copied(Layouts *a, HlInst *x, const HlShape *wanted) {
  if (hl_shape_same_order(x->shape, wanted) ||
      (wanted->dtype != HL_TUPLE && !hl_is_array_dtype(wanted->dtype)))
    return x;
  HlInst *copy;
  if (wanted->dtype != HL_TUPLE) {
    copy = hl_inst_new(x->comp, HL_OP_COPY, wanted, NULL, 1, &x);
  } else {
    HlInst **element = HL_ARRAY(a->arena, HlInst *, wanted->rank + 1);
    for (int k = 0; k < wanted->rank; k++) {
      HlInst *take =
          hl_inst_new(x->comp, HL_OP_GET_TUPLE_ELEMENT, x->shape->element[k], NULL, 1, &x);
      hl_set_int(take, HL_A_INDEX, k);
      element[k] = copied(a, take, wanted->element[k]);
    }
    copy = hl_inst_new(x->comp, HL_OP_TUPLE, wanted, NULL, wanted->rank, element);
  }
  hl_set_loc(copy, x->loc);
  inherit(copy, x);
  return copy;
}

// A branch whose operand nobody else reads takes it as it is, and copies inside: other branches do
// not pay for it.
static bool copies_inside(Layouts *a, const HlInst *user, int operand) {
  if (user->op != HL_OP_CONDITIONAL || operand == 0)
    return false;
  const HlComp *branch = hl_called(user, operand - 1);
  return hl_n_users(user->operands[operand]) == 1 && !branch->first_call->next;
}

static void copy_inside(Layouts *a, const HlInst *user, int operand, const HlShape *wanted) {
  HlComp *branch = hl_called(user, operand - 1);
  HlInst *param = branch->params[0];
  const HlUse *last = param->last_use;
  bool is_root = branch->root == param;
  hl_set_shape(param, user->operands[operand]->shape);
  HlInst *copy = copied(a, param, wanted);
  for (HlUse *use = last ? param->first_use : NULL, *next; use; use = next) {
    next = use == last ? NULL : use->next;
    hl_set_operand(use->user, use->number, copy);
  }
  if (is_root)
    hl_set_root(branch, copy);
}

static void copy_operand(Layouts *a, HlInst *user, int operand, const LayoutOrder *order) {
  HlInst *x = user->operands[operand];
  const HlShape *wanted = shape_in(a, x->shape, order);
  if (hl_shape_same_order(x->shape, wanted))
    return;
  if (copies_inside(a, user, operand))
    copy_inside(a, user, operand, wanted);
  else
    hl_set_operand(user, operand, copied(a, x, wanted));
}

// --- All of it ----------------------------------------------------------------------------------

// The body of a fusion takes and gives what the fusion does.
static void lay_out_fusion(HlInst *fusion) {
  HlComp *body = hl_called(fusion, 0);
  for (int k = 0; k < body->n_params; k++)
    if (body->params[k] && (uint32_t)k < fusion->n_operands)
      hl_set_shape(body->params[k], fusion->operands[k]->shape);
  HlInst *root = body->root;
  if (root->op == HL_OP_TUPLE)
    for (uint32_t k = 0; k < root->n_operands; k++)
      hl_set_shape(root->operands[k], fusion->shape->element[k]);
  hl_set_shape(root, fusion->shape);
}

static void apply_to(Layouts *a, LayoutComp *c) {
  HlInst **insts = HL_ARRAY(a->arena, HlInst *, c->comp->n_insts);
  int n = 0;
  for (HlInst *inst = c->comp->first; inst; inst = inst->next)
    insts[n++] = inst;
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    const HlShape *shape = decided_shape(a, c, inst);
    if (shape != inst->shape)
      hl_set_shape(inst, shape);
    for (uint32_t i = 0; i < inst->n_operands; i++)
      if (c->use[inst->id][i].order)
        copy_operand(a, inst, (int)i, c->use[inst->id][i].order);
    if (inst->op == HL_OP_FUSION)
      lay_out_fusion(inst);
  }
  HlInst *root = c->comp->root;
  if (c->result)
    hl_set_root(c->comp, copied(a, root, shape_in(a, root->shape, c->result)));
}

bool layout_apply(Layouts *a) {
  if (!changes_anything(a) || !hl_change(a->p, "assign", a->p->m->entry->root, NULL))
    return true;
  for (HlComp *comp = a->p->m->first; comp; comp = comp->next)
    if (layout_comp(a, comp))
      apply_to(a, layout_comp(a, comp));
  hl_changed(a->p);
  return true;
}
