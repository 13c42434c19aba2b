// tool/shrink/reduce_clean.c: takes out of a module what nobody needs any more.
//
// Dead instructions, computations that nobody calls, parameters without a use (of the entry, of fusions and calls, with the
// operands), elements of tuples that a fusion, call or branch gives and nobody takes, and those that a loop carries for
// themselves only. All of it by the edit door; what it cannot see through it leaves.

#include <string.h>

#include "base/vec.h"
#include "hilo/build.h"
#include "hilo/pass.h"
#include "tool/shrink/reduce.h"

// --- Dead instructions ----------------------------------------------------------------------------------

static bool is_dead(const HlInst *inst) {
  return !inst->first_use && inst != inst->comp->root && inst->op != HL_OP_PARAMETER &&
         hl_is_pure(inst);
}

static bool sweep_comp(HlComp *comp) {
  bool changed = false;
  for (HlInst *inst = comp->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (!is_dead(inst))
      continue;
    hl_erase(inst);
    changed = true;
  }
  return changed;
}

// Callers come after callees, so a walk back erases whole chains of computations.
static bool sweep(HlModule *m) {
  bool changed = false;
  for (HlComp *comp = m->last, *prev; comp; comp = prev) {
    prev = comp->prev;
    if (comp != m->entry && !comp->first_call) {
      hl_comp_erase(comp);
      changed = true;
    } else {
      changed |= sweep_comp(comp);
    }
  }
  return changed;
}

// element(tuple(a, b), 1) is b.
static bool see_through_tuples(HlModule *m) {
  bool changed = false;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->op != HL_OP_GET_TUPLE_ELEMENT || inst->operands[0]->op != HL_OP_TUPLE)
        continue;
      HlInst *value = inst->operands[0]->operands[hl_attr_int(inst, HL_A_INDEX)];
      if (value->shape != inst->shape || (!inst->first_use && inst != comp->root))
        continue;
      hl_replace_uses(inst, value);
      changed = true;
    }
  return changed;
}

// --- Parameters -----------------------------------------------------------------------------------------

static void drop_operand(HlInst *inst, int k) {
  VEC(HlInst *) rest = {0};
  for (int i = 0; i < (int)inst->n_operands; i++)
    if (i != k)
      vec_push(&rest, inst->operands[i]);
  hl_set_operands(inst, rest.n, rest.at);
  vec_free(&rest);
}

static bool only_called_as(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if ((call->caller->op != HL_OP_FUSION && call->caller->op != HL_OP_CALL) ||
        hl_has_attr(call->caller, HL_A_OUTPUT_TO_OPERAND_ALIASING))
      return false;
  return comp->first_call != NULL;
}

static bool drop_parameters(HlModule *m) {
  bool changed = false;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (int k = comp->n_params - 1; k >= 0; k--) {
      HlInst *param = comp->params[k];
      if (param->first_use || param == comp->root || (comp != m->entry && !only_called_as(comp)))
        continue;
      for (const HlCall *call = comp->first_call; call; call = call->next)
        drop_operand(call->caller, k);
      hl_parameter_drop(param);
      changed = true;
    }
  return changed;
}

// --- Tuples that callees give -----------------------------------------------------------------------------

// Whether all uses are elements taken; which, by number.
static bool marks_elements(const HlInst *tuple, bool *taken) {
  if (tuple == tuple->comp->root)
    return false;
  for (const HlUse *use = tuple->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
    taken[hl_attr_int(use->user, HL_A_INDEX)] = true;
  }
  return true;
}

static bool has_own_callees(const HlInst *inst) {
  for (int k = 0; k < inst->n_calls; k++) {
    const HlComp *callee = hl_called(inst, k);
    if (callee->first_call != callee->last_call)
      return false;
  }
  return true;
}

static const HlShape *kept_shape(HlModule *m, const HlShape *shape, const bool *kept,
                                 HlArena *arena) {
  const HlShape **element = HL_ARRAY(arena, const HlShape *, shape->rank + 1);
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    if (kept[k])
      element[n++] = shape->element[k];
  return hl_shape_tuple(m->shapes, n, element);
}

// A tuple of those elements of another that are kept; the old one, if it was written as a tuple, is dead afterwards.
static HlInst *kept_tuple(HlInst *tuple, const bool *kept, HlArena *arena) {
  HlComp *comp = tuple->comp;
  HlModule *m = comp->module;
  HlInst **element = HL_ARRAY(arena, HlInst *, tuple->shape->rank + 1);
  int n = 0;
  for (int k = 0; k < tuple->shape->rank; k++) {
    if (!kept[k])
      continue;
    if (tuple->op == HL_OP_TUPLE) {
      element[n++] = tuple->operands[k];
      continue;
    }
    element[n] = hl_inst_new(comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k],
                             hl_fresh_name(m, "element"), 1, &tuple);
    hl_set_int(element[n++], HL_A_INDEX, k);
  }
  return hl_inst_new(comp, HL_OP_TUPLE, kept_shape(m, tuple->shape, kept, arena),
                     hl_fresh_name(m, tuple->name->text), n, element);
}

// Elements that are taken of what has fewer now.
static void renumber(const HlInst *tuple, const bool *kept) {
  for (const HlUse *use = tuple->first_use; use; use = use->next) {
    const int64_t old = hl_attr_int(use->user, HL_A_INDEX);
    int now = 0;
    for (int64_t k = 0; k < old; k++)
      now += kept[k];
    if (kept[old])
      hl_set_int(use->user, HL_A_INDEX, now);
  }
}

static int count(const bool *kept, int n) {
  int sum = 0;
  for (int k = 0; k < n; k++)
    sum += kept[k];
  return sum;
}

static bool give_less(HlInst *inst, HlArena *arena) {
  const int n = inst->shape->rank;
  bool *kept = HL_ARRAY(arena, bool, n + 1);
  if (!hl_shape_is_tuple(inst->shape) || inst->n_calls == 0 || !has_own_callees(inst) ||
      !marks_elements(inst, kept) || hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    return false;
  for (int k = 0; k < inst->n_calls; k++)
    if (hl_called(inst, k)->root->op != HL_OP_TUPLE || hl_called(inst, k)->root->first_use)
      return false;
  if (count(kept, n) == n || count(kept, n) == 0)
    return false;
  for (int k = 0; k < inst->n_calls; k++) {
    HlInst *root = hl_called(inst, k)->root;
    hl_set_root(root->comp, kept_tuple(root, kept, arena));
  }
  hl_remove_attr(inst, HL_A_SHARDING);
  hl_set_shape(inst, kept_shape(inst->comp->module, inst->shape, kept, arena));
  renumber(inst, kept);
  return true;
}

// A tuple of one element is that element.
static bool give_plain(HlInst *inst, HlArena *arena) {
  if (!hl_shape_is_tuple(inst->shape) || inst->shape->rank != 1 || inst->n_calls == 0 ||
      !has_own_callees(inst) || !marks_elements(inst, HL_ARRAY(arena, bool, 2)) || !inst->first_use)
    return false;
  for (int k = 0; k < inst->n_calls; k++)
    if (hl_called(inst, k)->root->op != HL_OP_TUPLE)
      return false;
  for (int k = 0; k < inst->n_calls; k++)
    hl_set_root(hl_called(inst, k), hl_called(inst, k)->root->operands[0]);
  hl_remove_attr(inst, HL_A_SHARDING);
  hl_set_shape(inst, inst->shape->element[0]);
  for (HlUse *use = inst->first_use, *next; use; use = next) {
    next = use->next;
    hl_replace_uses(use->user, inst);
  }
  return true;
}

// --- Loops ----------------------------------------------------------------------------------------------

typedef struct Loop {
  HlInst *inst, *body_in, *cond_in, *root;
  bool *kept;
  int n;
  HlArena *arena;
} Loop;

static bool read_loop(HlInst *inst, HlArena *arena, Loop *out) {
  if (inst->op != HL_OP_WHILE || !hl_shape_is_tuple(inst->shape) || !has_own_callees(inst) ||
      hl_while_body(inst)->n_params != 1 || hl_while_condition(inst)->n_params != 1)
    return false;
  *out = (Loop){inst,
                hl_while_body(inst)->params[0],
                hl_while_condition(inst)->params[0],
                hl_while_body(inst)->root,
                HL_ARRAY(arena, bool, inst->shape->rank + 1),
                inst->shape->rank,
                arena};
  bool *ignored = HL_ARRAY(arena, bool, out->n + 1);
  return out->root->op == HL_OP_TUPLE && !out->root->first_use && out->body_in != out->root &&
         marks_elements(inst, out->kept) && marks_elements(out->cond_in, out->kept) &&
         marks_elements(out->body_in, ignored);
}

// What the kept elements are computed from is kept; whether that made more of them.
static bool keep_sources(Loop *l) {
  const HlComp *body = l->root->comp;
  const int before = count(l->kept, l->n);
  bool *needed = HL_ARRAY(l->arena, bool, body->next_id + 1);
  for (int k = 0; k < l->n; k++)
    needed[l->root->operands[k]->id] |= l->kept[k];
  for (const HlInst *inst = body->last; inst; inst = inst->prev) {
    needed[inst->id] |= inst != l->root && !inst->first_use && !hl_is_pure(inst);
    for (uint32_t k = 0; needed[inst->id] && k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
    if (needed[inst->id] && inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0] == l->body_in)
      l->kept[hl_attr_int(inst, HL_A_INDEX)] = true;
  }
  return count(l->kept, l->n) > before;
}

static bool carry_less(HlInst *inst, HlArena *arena) {
  Loop l;
  if (!read_loop(inst, arena, &l))
    return false;
  while (keep_sources(&l))
    continue;
  const int n = count(l.kept, l.n);
  if (n == l.n || n == 0)
    return false;
  const HlShape *shape = kept_shape(inst->comp->module, inst->shape, l.kept, arena);
  hl_set_root(l.root->comp, kept_tuple(l.root, l.kept, arena));
  hl_set_operand(inst, 0, kept_tuple(inst->operands[0], l.kept, arena));
  sweep_comp(l.root->comp);
  HlInst *const changed[] = {inst, l.body_in, l.cond_in};
  for (int k = 0; k < HL_COUNT_OF(changed); k++) {
    hl_remove_attr(changed[k], HL_A_SHARDING);
    hl_set_shape(changed[k], shape);
    renumber(changed[k], l.kept);
  }
  hl_remove_attr(inst, HL_A_BACKEND_CONFIG);  // what it says of the loop may hold no more
  return true;
}

// All uses of a tuple of one element take it.
static void make_plain(HlInst *tuple) {
  hl_remove_attr(tuple, HL_A_SHARDING);
  hl_set_shape(tuple, tuple->shape->element[0]);
  for (HlUse *use = tuple->first_use, *next; use; use = next) {
    next = use->next;
    hl_replace_uses(use->user, tuple);
  }
}

static HlInst *only_element(HlInst *tuple) {
  if (tuple->op == HL_OP_TUPLE)
    return tuple->operands[0];
  HlInst *element = hl_inst_new(tuple->comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[0],
                                hl_fresh_name(tuple->comp->module, "element"), 1, &tuple);
  hl_set_int(element, HL_A_INDEX, 0);
  return element;
}

// A loop over a tuple of one element is one over that.
static bool carry_plain(HlInst *inst, HlArena *arena) {
  Loop l;
  if (!read_loop(inst, arena, &l) || l.n != 1)
    return false;
  hl_set_root(l.root->comp, only_element(l.root));
  hl_set_operand(inst, 0, only_element(inst->operands[0]));
  make_plain(inst);
  make_plain(l.body_in);
  make_plain(l.cond_in);
  return true;
}

// --- Tuples that callees take -------------------------------------------------------------------------------

// What a callee has no use for of a tuple that it gets is not given to it.
static bool take_less(HlInst *inst, int operand, HlInst *param, HlArena *arena) {
  const int n = param->shape->rank;
  bool *kept = HL_ARRAY(arena, bool, n + 1);
  if (!hl_shape_is_tuple(param->shape) || !marks_elements(param, kept) || count(kept, n) == 0)
    return false;
  if (n == 1) {
    hl_set_operand(inst, operand, only_element(inst->operands[operand]));
    make_plain(param);
    return true;
  }
  if (count(kept, n) == n)
    return false;
  hl_set_operand(inst, operand, kept_tuple(inst->operands[operand], kept, arena));
  hl_remove_attr(param, HL_A_SHARDING);
  hl_set_shape(param, kept_shape(inst->comp->module, param->shape, kept, arena));
  renumber(param, kept);
  return true;
}

static bool take_all(HlInst *inst, HlArena *arena) {
  bool changed = false;
  if (!has_own_callees(inst) || hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    return false;
  for (int k = 0; inst->op == HL_OP_CONDITIONAL && k < inst->n_calls; k++)
    if (hl_called(inst, k)->n_params == 1 && k + 1 < (int)inst->n_operands)
      changed |= take_less(inst, k + 1, hl_called(inst, k)->params[0], arena);
  if (inst->op == HL_OP_CALL || inst->op == HL_OP_FUSION)
    for (int k = 0; k < hl_called(inst, 0)->n_params && k < (int)inst->n_operands; k++)
      changed |= take_less(inst, k, hl_called(inst, 0)->params[k], arena);
  return changed;
}

static bool shrink_tuples(HlModule *m) {
  HlArena *arena = hl_arena_new();
  bool changed = false;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->op == HL_OP_WHILE)
        changed |= carry_less(inst, arena) || carry_plain(inst, arena);
      else if (inst->op == HL_OP_FUSION || inst->op == HL_OP_CALL || inst->op == HL_OP_CONDITIONAL)
        changed |= give_less(inst, arena) || give_plain(inst, arena) || take_all(inst, arena);
    }
  hl_arena_free(arena);
  return changed;
}

void reduce_schedule(HlModule *m) {
  if (!m->is_scheduled)
    return;
  HlArena *arena = hl_arena_new();
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    if (comp->is_fusion || comp->schedule)
      continue;
    HlInst **order = HL_ARRAY(arena, HlInst *, comp->n_insts + 1);
    int n = 0;
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      order[n++] = inst;
    hl_set_schedule(comp, order);
  }
  hl_arena_free(arena);
}

void reduce_clean(HlModule *m) {
  for (bool changed = true; changed;) {
    changed = see_through_tuples(m);
    changed |= sweep(m);
    changed |= shrink_tuples(m);
    changed |= drop_parameters(m);
  }
}
