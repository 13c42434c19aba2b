// ir/edit.c: changes instructions and their edges: uses, calls, control edges, root, names,
// erasing.

#include <assert.h>
#include <string.h>

#include "ir/state.h"
#include "ir/users.h"

// A change of the graph makes a schedule void.
static void graph_changed(HlComp *comp) {
  if (comp->schedule)
    hl_set_schedule(comp, NULL);
}

// --- Uses ---------------------------------------------------------------------------------------

// Notes what says that `next` comes after `prev` in the list of an instruction's uses; either may be none: at an end.
static HL_RARE void note_uses(HlInst *used, HlUse *prev, HlUse *next) {
  if (prev)
    BASE_NOTE(ir_undo_of(prev->user), prev->next);
  else
    BASE_NOTE(ir_undo_of(used), used->first_use);
  if (next)
    BASE_NOTE(ir_undo_of(next->user), next->prev);
  else
    BASE_NOTE(ir_undo_of(used), used->last_use);
}

static inline void use_add(HlInst *user, int number, HlInst *used) {
  HlUse *use = &user->uses_made[number], *last = used->last_use;
  user->operands[number] = used;
  *use = (HlUse){.user = user, .prev = last, .number = number};
  *(last ? &last->next : &used->first_use) = use;
  used->last_use = use;
}

static HL_RARE void note_use_add(HlInst *user, int number, HlInst *used) {
  BASE_NOTE(ir_undo_of(user), user->operands[number]);
  BASE_NOTE(ir_undo_of(user), user->uses_made[number]);
  note_uses(used, used->last_use, NULL);
  use_add(user, number, used);
}

void ir_use_add(HlInst *user, int number, HlInst *used) {
  assert(used->comp == user->comp);
  if (HL_UNLIKELY(ir_undo(user->comp->module) != NULL))
    note_use_add(user, number, used);
  else
    use_add(user, number, used);
}

static void use_unlink(HlInst *user, int number) {
  HlUse *use = &user->uses_made[number];
  HlInst *used = user->operands[number];
  if (HL_UNLIKELY(ir_undo(user->comp->module) != NULL))
    note_uses(used, use->prev, use->next);
  *(use->prev ? &use->prev->next : &used->first_use) = use->next;
  *(use->next ? &use->next->prev : &used->last_use) = use->prev;
}

static void use_remove(HlInst *user, int number) {
  use_unlink(user, number);
  ir_touch_used(user->operands[number]);
}

void hl_set_operand(HlInst *inst, int number, HlInst *to) {
  assert(number >= 0 && (uint32_t)number < inst->n_operands);
  if (inst->operands[number] == to)
    return;
  graph_changed(inst->comp);
  hl_touch(inst);
  use_remove(inst, number);
  ir_use_add(inst, number, to);
  ir_put_before(to, inst);
}

// Tells of the operands that are used less often than before.
static void touch_lost(HlInst *inst, int n, HlInst *const *operands) {
  for (int k = 0; k < n; k++)
    operands[k]->flags |= IR_MARKED;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    if (!(inst->operands[k]->flags & IR_MARKED))
      ir_touch_used(inst->operands[k]);
    inst->operands[k]->flags &= (uint16_t)~IR_MARKED;
  }
  for (int k = 0; k < n; k++)
    operands[k]->flags &= (uint16_t)~IR_MARKED;
}

void hl_set_operands(HlInst *inst, int n, HlInst *const *operands) {
  graph_changed(inst->comp);
  hl_touch(inst);
  touch_lost(inst, n, operands);
  HlArena *arena = inst->comp->module->arena;
  HlInst **old = inst->operands;
  BaseUndo *undo = ir_undo_of(inst);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    use_unlink(inst, (int)k);
  bool fits = (uint32_t)n <= inst->n_operands;
  if (fits && n > 0 && operands != old) {
    if (undo)
      base_undo_bytes(undo, old, sizeof *old * (size_t)n);
    memmove(old, operands, sizeof *old * (size_t)n);
  }
  if (!fits) {
    BASE_SET(undo, inst->uses_made, HL_ARRAY(arena, HlUse, n));
    BASE_SET(undo, inst->operands, hl_arena_copy(arena, operands, sizeof *operands * (size_t)n));
  }
  BASE_SET(undo, inst->n_operands, (uint32_t)n);
  for (int k = 0; k < n; k++) {
    ir_use_add(inst, k, inst->operands[k]);
    ir_put_before(inst->operands[k], inst);
  }
}

// The user of `of`, other than `by`, that stands first in the list.
static HlInst *first_user(const HlInst *of, const HlInst *by) {
  HlInst *first = NULL;
  for (HlUse *use = of->first_use; use; use = use->next)
    if (use->user != by && (!first || ir_label(use->user) < ir_label(first)))
      first = use->user;
  return first;
}

void hl_replace_uses(HlInst *of, HlInst *by) {
  assert(of->comp == by->comp);
  if (of == by)
    return;
  HlInst *first = first_user(of, by);
  if (first) {
    graph_changed(of->comp);
    for (HlUse *use = of->first_use, *next; use; use = next) {
      next = use->next;
      if (use->user == by)
        continue;
      hl_touch(use->user);
      use_remove(use->user, use->number);
      ir_use_add(use->user, use->number, by);
    }
    ir_put_before(by, first);
  }
  if (of->comp->root == of)
    hl_set_root(of->comp, by);
}

static bool are_in_order(const HlInst *of, int n, HlInst *const *users) {
  const HlUse *use = of->first_use;
  for (int k = 0; k < n; k++)
    for (uint32_t i = 0; i < users[k]->n_operands; i++)
      if (users[k]->operands[i] == of) {
        if (!use || use->user != users[k] || use->number != (int)i)
          return false;
        use = use->next;
      }
  return !use;
}

void ir_order_users(HlInst *of, int n, HlInst *const *users) {
  if (are_in_order(of, n, users))
    return;
  for (int k = 0; k < n; k++)
    for (uint32_t i = 0; i < users[k]->n_operands; i++)
      if (users[k]->operands[i] == of) {
        use_unlink(users[k], (int)i);
        ir_use_add(users[k], (int)i, of);
      }
}

// --- Calls --------------------------------------------------------------------------------------

// As link_uses, of the calls of a computation.
static void link_calls(HlComp *comp, HlCall *prev, HlCall *next) {
  ir_note_comp(comp);
  if (prev)
    BASE_SET(ir_undo_of(prev->caller), prev->next, next);
  else
    comp->first_call = next;
  if (next)
    BASE_SET(ir_undo_of(next->caller), next->prev, prev);
  else
    comp->last_call = prev;
}

uint64_t hl_calls_made(const HlModule *m) {
  return ir_module_state(m)->calls_made;
}

void ir_call_add(HlInst *caller, int number, HlComp *comp) {
  ir_module_state(comp->module)->calls_made++;
  HlCall *call = &caller->calls[number];
  BASE_SET(ir_undo_of(caller), *call,
           ((HlCall){.caller = caller, .prev = comp->last_call, .comp = comp, .number = number}));
  link_calls(comp, comp->last_call, call);
  comp->last_call = call;
}

void ir_calls_alloc(HlInst *inst, int n) {
  if (n > inst->n_calls)
    BASE_SET(ir_undo_of(inst), inst->calls, HL_ARRAY(inst->comp->module->arena, HlCall, n));
  if (n != inst->n_calls)
    BASE_SET(ir_undo_of(inst), inst->n_calls, (uint16_t)n);
}

static void call_remove(const HlCall *call) {
  link_calls(call->comp, call->prev, call->next);
}

void hl_set_calls(HlInst *inst, int n, HlComp *const *comps) {
  hl_touch(inst);
  for (int k = 0; k < inst->n_calls; k++)
    call_remove(&inst->calls[k]);
  if (n > HL_MAX_CALLS)
    n = HL_MAX_CALLS;
  ir_calls_alloc(inst, n);
  for (int k = 0; k < n; k++)
    ir_call_add(inst, k, comps[k]);
}

// --- Control edges ------------------------------------------------------------------------------

static HlControl *control_of(HlInst *inst) {
  if (!inst->control)
    BASE_SET(ir_undo_of(inst), inst->control, HL_NEW(inst->comp->module->arena, HlControl));
  return inst->control;
}

static int list_find(HlInst *const *list, int n, const HlInst *inst) {
  for (int k = 0; k < n; k++)
    if (list[k] == inst)
      return k;
  return -1;
}

// Lists grow at powers of two. `of`: whose list it is.
static void list_push(const HlInst *of, HlInst ***list, int *n, HlInst *inst) {
  BaseUndo *undo = ir_undo_of(of);
  if ((*n & (*n - 1)) == 0) {
    HlInst **grown = HL_ARRAY(of->comp->module->arena, HlInst *, *n ? 2 * *n : 1);
    if (*n > 0)
      memcpy(grown, *list, sizeof *grown * (size_t)*n);
    BASE_SET(undo, *list, grown);
  }
  BASE_SET(undo, (*list)[*n], inst);
  BASE_SET(undo, *n, *n + 1);
}

static void list_cut(const HlInst *of, HlInst **list, int *n, const HlInst *inst) {
  BaseUndo *undo = ir_undo_of(of);
  int at = list_find(list, *n, inst);
  if (at < 0)
    return;
  const size_t size = sizeof *list * (size_t)(*n - at - 1);
  if (undo)
    base_undo_bytes(undo, list + at, size);
  memmove(list + at, list + at + 1, size);
  BASE_SET(undo, *n, *n - 1);
}

static bool has_control(const HlInst *pred, const HlInst *succ) {
  if (!pred->control || !succ->control)
    return false;
  if (pred->control->n_succs < succ->control->n_preds)
    return list_find(pred->control->succs, pred->control->n_succs, succ) >= 0;
  return list_find(succ->control->preds, succ->control->n_preds, pred) >= 0;
}

void hl_add_control(HlInst *pred, HlInst *succ) {
  assert(pred->comp == succ->comp && pred != succ);
  if (has_control(pred, succ))
    return;
  graph_changed(pred->comp);
  hl_touch(pred);
  hl_touch(succ);
  HlControl *from = control_of(pred), *to = control_of(succ);
  list_push(pred, &from->succs, &from->n_succs, succ);
  list_push(succ, &to->preds, &to->n_preds, pred);
  ir_put_before(pred, succ);
}

void hl_remove_control(HlInst *pred, HlInst *succ) {
  if (!pred->control || !succ->control)
    return;
  graph_changed(pred->comp);
  hl_touch(pred);
  hl_touch(succ);
  list_cut(pred, pred->control->succs, &pred->control->n_succs, succ);
  list_cut(succ, succ->control->preds, &succ->control->n_preds, pred);
}

// --- Single fields ------------------------------------------------------------------------------

void hl_set_shape(HlInst *inst, const HlShape *shape) {
  hl_touch(inst);
  BASE_SET(ir_undo_of(inst), inst->shape, shape);
}

void hl_set_root(HlComp *comp, HlInst *root) {
  assert(!root || root->comp == comp);
  if (comp->root)
    hl_touch(comp->root);
  ir_note_comp(comp);
  comp->root = root;
  if (root)
    hl_touch(root);
}

bool hl_stands_before(const HlInst *a, const HlInst *b) {
  assert(a->comp == b->comp);
  return ir_label(a) < ir_label(b);
}

uint64_t hl_place(const HlInst *inst) {
  return ir_label(inst);
}

bool hl_listed_by_id(const HlComp *comp) {
  return ir_comp_state(comp)->label.n == 0;
}

void hl_set_name(HlInst *inst, const HlSym *name) {
  BASE_SET(ir_undo_of(inst), inst->name, name);
  ir_inst_name_note(inst->comp->module, name);
}

void hl_comp_set_name(HlComp *comp, const HlSym *name) {
  ir_note_comp(comp);
  comp->name = name;
  ir_comp_name_note(comp->module, name);
}

void hl_comp_set_fusion(HlComp *comp) {
  ir_note_comp(comp);
  comp->is_fusion = true;
}

void hl_comp_set_thread(HlComp *comp, const HlSym *thread) {
  ir_note_comp(comp);
  comp->execution_thread = thread;
}

void hl_comp_set_loc(HlComp *comp, HlLoc loc) {
  ir_note_comp(comp);
  comp->loc = loc;
}

static HL_RARE void note_loc(HlInst *inst, HlLoc loc) {
  BASE_SET(ir_undo_of(inst), inst->loc, loc);
}

void hl_set_loc(HlInst *inst, HlLoc loc) {
  if (HL_UNLIKELY(ir_undo(inst->comp->module) != NULL))
    note_loc(inst, loc);
  else
    inst->loc = loc;
}

void hl_set_schedule(HlComp *comp, HlInst *const *order) {
  ir_note_comp(comp);
  if (order) {
    comp->schedule = hl_arena_copy(comp->module->arena, order, sizeof *order * comp->n_insts);
  } else if (comp->schedule) {
    comp->schedule = NULL;
    comp->module->is_scheduled = false;
  }
}

// --- Erasing ------------------------------------------------------------------------------------

// What had to come before the instruction now comes before what had to come after it.
static void join_control(HlInst *inst) {
  HlControl *control = inst->control;
  for (int p = 0; p < control->n_preds; p++)
    for (int s = 0; s < control->n_succs; s++)
      hl_add_control(control->preds[p], control->succs[s]);
  while (control->n_preds > 0)
    hl_remove_control(control->preds[control->n_preds - 1], inst);
  while (control->n_succs > 0)
    hl_remove_control(inst, control->succs[control->n_succs - 1]);
}

void hl_erase(HlInst *inst) {
  assert(!inst->first_use);
  HlComp *comp = inst->comp;
  BaseUndo *undo = ir_undo_of(inst);
  graph_changed(comp);
  ir_note_comp(comp);
  if (inst->control)
    join_control(inst);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    use_remove(inst, (int)k);
  BASE_SET(undo, inst->n_operands, 0);
  hl_set_calls(inst, 0, NULL);
  if (inst->op == HL_OP_PARAMETER)
    ir_params_note(inst, -1);
  while (comp->n_params > 0 && !comp->params[comp->n_params - 1])
    comp->n_params--;
  ir_list_remove(comp, inst);
  BASE_SET(undo, inst->prev, NULL);
  BASE_SET(undo, inst->next, NULL);
  BASE_SET(undo, comp->by_id[inst->id], NULL);
  BASE_SET(undo, ir_comp_state(comp)->op.at[inst->id], (char)HL_OP_COUNT);
  comp->n_insts--;
  if (comp->root == inst)
    comp->root = NULL;
}

void hl_parameter_drop(HlInst *param) {
  HlComp *comp = param->comp;
  int number = (int)hl_parameter_number(param);
  hl_erase(param);
  if (number >= comp->n_params)
    return;
  BaseUndo *undo = ir_undo_comp(comp);
  for (; number + 1 < comp->n_params; number++) {
    HlInst *next = comp->params[number + 1];
    HlAttr *own = (HlAttr *)hl_attr(next, HL_A_PARAMETER_NUMBER);
    hl_touch(next);
    BASE_SET(ir_undo_of(next), own->i, number);
    BASE_SET(undo, comp->params[number], next);
  }
  BASE_SET(undo, comp->params[number], NULL);
  comp->n_params = number;
}
