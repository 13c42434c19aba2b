// opt/call/simplify_conditional.c: simplify-conditional: makes conditionals smaller, or undoes them.
//
//   c = f32[4] conditional(p, x, y), true_computation=negate, false_computation=double
//                                                            =>
//   t = f32[4] negate(x)
//   f = f32[4] add(y, y)
//   c = f32[4] select(p, t, f)
//
// Two branches that cost next to nothing are both computed and one result is selected; a
// conditional with one branch, or with an index known at compile time, is that branch. Results that nobody
// reads, results that are the same in every branch, and elements of arguments that a branch does
// not read are dropped.

#include <string.h>

#include "ir/vecs.h"
#include "opt/ask/effects.h"
#include "opt/ask/inline.h"
#include "opt/passes.h"

// Whether devices meet in it: all of them must come by, whichever branch is taken.
static bool has_channel(const HlInst *inst) {
  return (hl_op_info[inst->op].traits & HL_T_COLLECTIVE) || hl_has_attr(inst, HL_A_CHANNEL_ID) ||
         hl_op_plain((HlOp)inst->op) == HL_OP_SEND || hl_op_plain((HlOp)inst->op) == HL_OP_RECV;
}

// By computation: whether it or what it calls uses a channel. Callees come before callers.
static bool *find_channels(HlPass *p) {
  bool *found = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst && !found[comp->id]; inst = inst->next) {
      found[comp->id] = has_channel(inst);
      for (int k = 0; k < inst->n_calls; k++)
        found[comp->id] |= found[hl_called(inst, k)->id];
    }
  return found;
}

// --- In place -----------------------------------------------------------------------------------

// Gives the conditional branches that nobody else calls: what changes then changes for it alone.
static void own_branches(HlPass *p, HlInst *cond) {
  HlComp **own = HL_ARRAY(p->arena, HlComp *, cond->n_calls);
  bool changed = false;
  for (int k = 0; k < cond->n_calls; k++) {
    HlComp *branch = own[k] = hl_called(cond, k);
    if (branch->first_call == branch->last_call)
      continue;
    own[k] = hl_comp_copy(p->m, branch, "clone", false, NULL);
    changed = true;
  }
  if (changed)
    hl_set_calls(cond, cond->n_calls, own);
}

static void set_root(HlComp *comp, HlInst *root) {
  HlInst *old = comp->root;
  hl_set_root(comp, root);
  if (!old->first_use && old->op == HL_OP_TUPLE && !hl_has_control(old))
    hl_erase(old);
}

static bool has_element_users(const HlInst *cond) {
  if (!cond->first_use || cond == cond->comp->root || !hl_shape_is_tuple(cond->shape))
    return false;
  for (const HlUse *use = cond->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  return true;
}

// Whether results j and k are one instruction in every branch.
static bool same_result(const HlInst *cond, int j, int k) {
  for (int b = 0; b < cond->n_calls; b++) {
    const HlInst *root = hl_called(cond, b)->root;
    if (root->operands[j] != root->operands[k])
      return false;
  }
  return true;
}

// The first result that is the same as each, found through the first branch: results that differ
// there are different.
static int *same_results(HlArena *arena, const HlInst *cond) {
  const HlInst *root = hl_called(cond, 0)->root;
  const int n = cond->shape->rank;
  int *newest = HL_ARRAY(arena, int, root->comp->next_id);  // by id of the operand: result + 1
  int *older = HL_ARRAY(arena, int, n), *first = HL_ARRAY(arena, int, n);
  for (int k = 0; k < n; k++) {
    int *head = &newest[root->operands[k]->id];
    first[k] = k;
    for (int j = *head, tries = 0; j > 0 && tries < 8; j = older[j - 1], tries++)
      if (same_result(cond, j - 1, k))
        first[k] = first[j - 1];
    older[k] = *head;
    *head = k + 1;
  }
  return first;
}

static void merge_results(HlPass *p, HlInst *cond) {
  if (!has_element_users(cond))
    return;
  for (int b = 0; b < cond->n_calls; b++)
    if (hl_called(cond, b)->root->op != HL_OP_TUPLE)
      return;
  const int *first = same_results(p->arena, cond);
  for (const HlUse *use = cond->first_use; use; use = use->next) {
    const int k = (int)hl_attr_int(use->user, HL_A_INDEX);
    if (first[k] != k && cond->shape->element[first[k]] == cond->shape->element[k] &&
        hl_change(p, "same-results", use->user, cond)) {
      hl_set_int(use->user, HL_A_INDEX, first[k]);
      hl_changed(p);
    }
  }
}

// Numbers those that are marked by 1 from 0, and the others -1. How many there are.
static int number_kept(int *place, int n) {
  int kept = 0;
  for (int k = 0; k < n; k++)
    place[k] = place[k] ? kept++ : -1;
  return kept;
}

static const HlShape *kept_shape(HlPass *p, const HlShape *tuple, const int *place, int n) {
  const HlShape **element = HL_ARRAY(p->arena, const HlShape *, n + 1);
  for (int k = 0; k < tuple->rank; k++)
    if (place[k] >= 0)
      element[place[k]] = tuple->element[k];
  return hl_shape_tuple(p->m->shapes, n, element);
}

static HlInst *read_element(HlComp *comp, HlInst *tuple, int k) {
  HlInst *element =
      hl_inst_new(comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k], NULL, 1, &tuple);
  hl_set_int(element, HL_A_INDEX, k);
  return element;
}

static HlInst *element_of(HlComp *comp, HlInst *tuple, int k) {
  return tuple->op == HL_OP_TUPLE ? tuple->operands[k] : read_element(comp, tuple, k);
}

// A tuple of the elements kept.
static HlInst *kept_tuple(HlPass *p, HlComp *comp, HlInst *tuple, const int *place, int n) {
  HlInst **element = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < tuple->shape->rank; k++)
    if (place[k] >= 0)
      element[place[k]] = element_of(comp, tuple, k);
  return hl_inst_new(comp, HL_OP_TUPLE, kept_shape(p, tuple->shape, place, n), NULL, n, element);
}

static void drop_results(HlPass *p, HlInst *cond) {
  if (!has_element_users(cond))
    return;
  int *place = HL_ARRAY(p->arena, int, cond->shape->rank);
  for (const HlUse *use = cond->first_use; use; use = use->next)
    place[hl_attr_int(use->user, HL_A_INDEX)] = 1;
  const int n = number_kept(place, cond->shape->rank);
  if (n == cond->shape->rank || !hl_change(p, "unread-result", cond, NULL))
    return;
  own_branches(p, cond);
  for (int b = 0; b < cond->n_calls; b++) {
    HlComp *branch = hl_called(cond, b);
    set_root(branch, kept_tuple(p, branch, branch->root, place, n));
  }
  hl_set_shape(cond, kept_shape(p, cond->shape, place, n));
  for (const HlUse *use = cond->first_use; use; use = use->next)
    hl_set_int(use->user, HL_A_INDEX, place[hl_attr_int(use->user, HL_A_INDEX)]);
  hl_changed(p);
}

// A conditional that is there for its side effects returns nothing.
static void drop_all_results(HlPass *p, HlInst *cond) {
  const bool is_empty = hl_shape_is_tuple(cond->shape) && cond->shape->rank == 0;
  if (cond->first_use || cond == cond->comp->root || is_empty ||
      !hl_change(p, "unread", cond, NULL))
    return;
  own_branches(p, cond);
  const HlShape *empty = hl_shape_tuple(p->m->shapes, 0, NULL);
  for (int b = 0; b < cond->n_calls; b++) {
    HlComp *branch = hl_called(cond, b);
    set_root(branch, hl_inst_new(branch, HL_OP_TUPLE, empty, NULL, 0, NULL));
  }
  hl_set_shape(cond, empty);
  hl_changed(p);
}

// --- Arguments ----------------------------------------------------------------------------------

// Which elements of its tuple a branch reads; NULL: all, or there is no telling.
static int *read_elements(HlPass *p, const HlComp *branch, int *n) {
  const HlInst *param = branch->params[0];
  if (param == branch->root || !hl_shape_is_tuple(param->shape) || hl_has_control(param))
    return NULL;
  int *place = HL_ARRAY(p->arena, int, param->shape->rank + 1);
  for (const HlUse *use = param->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return NULL;
    place[hl_attr_int(use->user, HL_A_INDEX)] = 1;
  }
  *n = number_kept(place, param->shape->rank);
  return *n < param->shape->rank ? place : NULL;
}

static void drop_arguments(HlPass *p, HlInst *cond, int b) {
  int n;
  const int *place = read_elements(p, hl_called(cond, b), &n);
  if (!place || !hl_change(p, "unread-argument", cond, NULL))
    return;
  own_branches(p, cond);
  HlInst *param = hl_called(cond, b)->params[0];
  hl_set_shape(param, kept_shape(p, param->shape, place, n));
  for (const HlUse *use = param->first_use; use; use = use->next)
    hl_set_int(use->user, HL_A_INDEX, place[hl_attr_int(use->user, HL_A_INDEX)]);
  HlInst *old = cond->operands[b + 1];
  hl_set_operand(cond, b + 1, kept_tuple(p, cond->comp, old, place, n));
  if (old->op == HL_OP_TUPLE && !old->first_use && old != old->comp->root && !hl_has_control(old))
    hl_erase(old);
  hl_changed(p);
}

// --- This by that --------------------------------------------------------------------------------

static bool is_cheap(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_CONCATENATE:
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_REDUCE:
  case HL_OP_RESHAPE:
  case HL_OP_PAD:
  case HL_OP_SLICE:
  case HL_OP_TUPLE:
  case HL_OP_COPY:
  case HL_OP_BITCAST_CONVERT: return true;
  default: return hl_op_is((HlOp)inst->op, HL_T_GIVEN) || hl_is_elementwise(inst);
  }
}

static bool has_array(const HlShape *shape) {
  if (!hl_shape_is_tuple(shape))
    return hl_shape_is_array(shape);
  for (int k = 0; k < shape->rank; k++)
    if (has_array(shape->element[k]))
      return true;
  return false;
}

// Nothing is computed, and some array is passed on: a conditional need not copy what select would.
static bool passes_on(const HlComp *branch) {
  for (const HlInst *inst = branch->first; inst; inst = inst->next)
    if (inst->op != HL_OP_TUPLE && inst->op != HL_OP_GET_TUPLE_ELEMENT &&
        inst->op != HL_OP_PARAMETER)
      return false;
  return has_array(branch->root->shape);
}

static bool is_cheap_branch(const HlComp *branch) {
  for (const HlInst *inst = branch->first; inst; inst = inst->next)
    if (!is_cheap(inst))
      return false;
  return !passes_on(branch);
}

// Arrays with run-time sizes differ in them between the branches.
static bool is_selectable(const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      if (!is_selectable(shape->element[k]))
        return false;
    return true;
  }
  return shape->dtype == HL_TOKEN || (hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape));
}

// Leaf by leaf; the nesting of shapes is limited where they are read. Tuples are for tuple-simplifier to look through.
static HlInst *select_value(HlBuild *b, HlInst *pred, HlInst *on_true, HlInst *on_false) {
  const HlShape *shape = on_false->shape;
  HlInst *both[2] = {on_true, on_false};
  if (shape->dtype == HL_TOKEN)
    return hl_b_op(b, HL_OP_AFTER_ALL, NULL, 2, both, 0, NULL, 0, NULL);
  if (!hl_shape_is_tuple(shape)) {
    HlInst *select = hl_b_select(b, pred, on_true, on_false);
    if (select)
      hl_set_shape(select, shape);
    return select;
  }
  HlInst **element = HL_ARRAY(hl_b_module(b)->arena, HlInst *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = select_value(b, pred, read_element(b->comp, on_true, k),
                              read_element(b->comp, on_false, k));
  return hl_b_tuple(b, shape->rank, element);
}

static bool compute_both(HlPass *p, HlInst *cond) {
  HlComp *on_true = hl_called(cond, 0), *on_false = hl_called(cond, 1);
  const HlMetadata *metadata = hl_metadata(cond);
  HlInst **map[2];
  HlBuild b;
  hl_begin(p, "both-branches", cond, &b);
  HlInst *t = inline_body(p, cond, on_true, 1, &cond->operands[1], &map[0]);
  HlInst *f = inline_body(p, cond, on_false, 1, &cond->operands[2], &map[1]);
  if (!hl_commit(p, select_value(&b, cond->operands[0], t, f)))
    return false;
  inline_finish(p, metadata, on_true, map[0]);
  inline_finish(p, metadata, on_false, map[1]);
  return true;
}

// The branch that is taken in any case, or -1.
static int known_branch(const HlInst *cond) {
  const HlInst *index = cond->operands[0];
  if (cond->n_calls == 1)
    return 0;
  if (!hl_is_constant(index))
    return -1;
  const int64_t value = hl_literal_i64(hl_constant(index), 0);
  if (index->shape->dtype == HL_PRED)
    return value ? 0 : 1;
  return value < 0 || value >= cond->n_calls ? cond->n_calls - 1 : (int)value;
}

static bool remove_conditional(HlPass *p, HlInst *cond) {
  if (hl_has_control(cond))
    return false;
  const int known = known_branch(cond);
  if (known >= 0)
    return inline_call(p, cond->n_calls == 1 ? "one-branch" : "known-branch", cond,
                       hl_called(cond, known), 1, &cond->operands[known + 1]) != NULL;
  return cond->n_calls == 2 && cond->operands[0]->shape->dtype == HL_PRED &&
         is_selectable(cond->shape) && is_cheap_branch(hl_called(cond, 0)) &&
         is_cheap_branch(hl_called(cond, 1)) && compute_both(p, cond);
}

// --- All conditionals ----------------------------------------------------------------------------

static bool has_conditionals(const HlComp *comp) {
  return !comp->is_fusion && hl_comp_may_have(comp, HL_OP_CONDITIONAL);
}

static HlInst **find_conditionals(HlPass *p, int *n) {
  const bool *channels = find_channels(p);
  InstVec found = {0};
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = has_conditionals(comp) ? comp->first : NULL; inst; inst = inst->next) {
      bool skip = inst->op != HL_OP_CONDITIONAL || inst->n_calls == 0 || hl_sharding(inst);
      for (int k = 0; !skip && k < inst->n_calls; k++)
        skip = channels[hl_called(inst, k)->id];
      if (!skip)
        vec_push_in(p->arena, &found, inst);
    }
  *n = found.n;
  return found.at;
}

bool pass_simplify_conditional(HlPass *p) {
  const HlComp *comp = p->m->first;
  while (comp && !has_conditionals(comp))
    comp = comp->next;
  if (!comp)
    return true;
  int n;
  const bool *effects = effects_find(p);
  HlInst **conds = find_conditionals(p, &n);
  for (int k = 0; k < n; k++) {
    HlMark mark = hl_arena_mark(p->arena);
    const bool has_effects = effects_has(effects, conds[k]);
    merge_results(p, conds[k]);
    drop_results(p, conds[k]);
    drop_all_results(p, conds[k]);
    if (!has_effects)
      remove_conditional(p, conds[k]);
    hl_arena_release(p->arena, mark);
  }
  for (int k = 0; k < n; k++)
    for (int b = 0; hl_alive(conds[k]) && b < conds[k]->n_calls; b++)
      drop_arguments(p, conds[k], b);
  return true;
}
