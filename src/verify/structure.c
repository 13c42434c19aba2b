// verify/structure.c: that a module is a graph: edges stay inside their computation and go upwards,
// parameters are dense, names are unique, computations do not call themselves, schedules are
// orders.

#include "hilo/custom_calls.h"
#include "verify/verify.h"

#include <string.h>

#include <inttypes.h>

static bool comp_error(Verify *v, const HlComp *comp, const char *text) {
  return hl_error(v->cx, hl_comp_pos(comp), "computation %s %s", comp->name->text, text);
}

// --- One computation ----------------------------------------------------------------------------

static bool check_operands(Verify *v, const HlInst *inst, const bool *seen) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (operand == NULL)
      return hl_inst_error(v->cx, inst, "operand %u (out of %u) is missing", (unsigned)k,
                           (unsigned)inst->n_operands);
    if (operand->comp != inst->comp)
      return hl_inst_error(v->cx, inst, "operand %u (%s) is in a different computation: %s vs %s",
                           (unsigned)k, operand->name->text, operand->comp->name->text,
                           inst->comp->name->text);
    if (!seen[operand->id])
      return hl_inst_error(v->cx, inst, "operand %u (%s) is defined after its use", (unsigned)k,
                           operand->name->text);
  }
  const HlControl *control = inst->control;
  for (int k = 0; control != NULL && k < control->n_preds; k++)
    if (control->preds[k]->comp != inst->comp || !seen[control->preds[k]->id])
      return hl_inst_error(v->cx, inst, "control predecessor %s does not come before it",
                           control->preds[k]->name->text);
  return true;
}

static bool check_parameter(Verify *v, const HlInst *inst) {
  int64_t number = hl_parameter_number(inst);
  const HlComp *comp = inst->comp;
  if (number < 0)
    return hl_inst_error(v->cx, inst, "unexpected negative parameter number %" PRId64, number);
  if (number < comp->n_params && comp->params[number] != NULL && comp->params[number] != inst)
    return hl_inst_error(v->cx, inst, "parameter number %" PRId64 " is taken already by %s", number,
                         comp->params[number]->name->text);
  return true;
}

// How many computations an op must call: -1 means any number.
static int n_calls_wanted(HlOp op) {
  switch (op) {
  case HL_OP_WHILE:
  case HL_OP_SELECT_AND_SCATTER: return 2;
  case HL_OP_CUSTOM_CALL:
  case HL_OP_CONDITIONAL: return -1;
  default: return (hl_op_info[op].traits & HL_T_CALLS) != 0 ? 1 : 0;
  }
}

static bool check_calls(Verify *v, const HlInst *inst) {
  int wanted = n_calls_wanted((HlOp)inst->op);
  if (wanted == 0 && inst->n_calls > 0 && (hl_op_info[inst->op].traits & HL_T_ASYNC) == 0)
    return hl_inst_error(v->cx, inst, "called computations specified for non-caller instruction %s",
                         hl_op_text((HlOp)inst->op));
  if (wanted > 0 && inst->n_calls != wanted)
    return hl_inst_error(v->cx, inst, "expected %d called computations for %s instruction, got %d",
                         wanted, hl_op_text((HlOp)inst->op), inst->n_calls);
  for (int k = 0; k < inst->n_calls; k++)
    if (inst->calls[k].comp->module != v->m)
      return hl_inst_error(v->cx, inst, "called computation %s is in another module",
                           inst->calls[k].comp->name->text);
  return true;
}

// How many parameters what it calls must have: -1 means any number.
static int n_params_wanted(const HlInst *inst) {
  const int n = (int)inst->n_operands;
  switch (inst->op) {
  case HL_OP_FUSION:
  case HL_OP_CALL:
  case HL_OP_MAP:
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return n;
  case HL_OP_SCATTER: return n - 1;
  case HL_OP_SORT: return 2 * n;
  case HL_OP_WHILE:
  case HL_OP_CONDITIONAL: return 1;
  case HL_OP_SELECT_AND_SCATTER: return 2;
  default: return -1;
  }
}

bool verify_params(Verify *v, const HlInst *inst) {
  const int wanted = n_params_wanted(inst);
  for (int k = 0; k < inst->n_calls && wanted >= 0; k++)
    if (hl_called(inst, k)->n_params != wanted)
      return hl_inst_error(v->cx, inst, "arguments of computation %s: it takes %d, %s gives %d",
                           hl_called(inst, k)->name->text, hl_called(inst, k)->n_params,
                           hl_op_text((HlOp)inst->op), wanted);
  return true;
}

// What is found on the one walk over all instructions.
typedef struct Walk {
  const HlInst **named;  // who has a name, by index of the symbol
  bool *comp_seen;       // computations walked already, by id
  bool calls_forward;    // some call goes to a computation further down the list
} Walk;

static bool is_grid(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_RUN_PARALLEL);
}

static void note_kind(Verify *v, const HlInst *inst) {
  v->has_grids |= is_grid(inst);
  v->is_laid_out |= inst->op == HL_OP_BITCAST;
  switch ((HlOp)inst->op) {
  case HL_OP_ASYNC_START: v->has_async = true; break;
  case HL_OP_SEND:
  case HL_OP_RECV: v->has_channels = true; break;
  case HL_OP_ALL_REDUCE:
  case HL_OP_ALL_REDUCE_START: v->has_all_reduce = true; break;
  case HL_OP_PARAMETER:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_BITCAST: v->has_buffers |= verify_has_buffer(inst->shape); break;
  default: v->has_buffers |= inst->shape->dtype == HL_BUFFER;
  }
}

static bool check_inst(Verify *v, const HlInst *inst, bool *seen, Walk *walk) {
  if (inst->op >= HL_OP_COUNT || inst->shape == NULL || inst->name == NULL)
    return hl_error(v->cx, hl_pos(inst), "instruction without opcode, shape or name");
  bool ok = check_operands(v, inst, seen);
  seen[inst->id] = true;
  note_kind(v, inst);
  const HlInst **owner = &walk->named[inst->name->index];
  if (*owner != NULL)
    ok = hl_inst_error(v->cx, inst, "name is not unique within module: also in computation %s",
                       (*owner)->comp->name->text);
  *owner = inst;
  if (inst->op == HL_OP_PARAMETER)
    ok &= check_parameter(v, inst);
  ok &= check_calls(v, inst);
  for (int k = 0; ok && k < inst->n_calls; k++)
    walk->calls_forward |= !walk->comp_seen[inst->calls[k].comp->id];
  return ok;
}

static bool check_comp(Verify *v, const HlComp *comp, Walk *walk) {
  if (comp->first == NULL)
    return comp_error(v, comp, "has no instructions");
  if (comp->root == NULL || comp->root->comp != comp)
    return comp_error(v, comp, "has no root instruction");
  HlMark mark = hl_arena_mark(v->scratch);
  bool ok = true, *seen = HL_ARRAY(v->scratch, bool, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
    if (inst->comp != comp)
      return hl_inst_error(v->cx, inst, "does not know that it is in computation %s",
                           comp->name->text);
    ok &= check_inst(v, inst, seen, walk);
  }
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k] == NULL)
      ok = hl_error(v->cx, hl_comp_pos(comp),
                    "computation %s has no parameter %d, though it has parameters up to %d",
                    comp->name->text, k, comp->n_params - 1);
  hl_arena_release(v->scratch, mark);
  walk->comp_seen[comp->id] = true;
  return ok;
}

// --- Names, recursion, schedules ----------------------------------------------------------------

static bool check_comp_names(Verify *v) {
  bool ok = true, *taken = HL_ARRAY(v->scratch, bool, hl_syms_count(v->m->syms) + 1);
  for (const HlComp *comp = v->m->first; comp != NULL; comp = comp->next) {
    if (taken[comp->name->index])
      ok = comp_error(v, comp, "has a name that is not unique within module");
    taken[comp->name->index] = true;
  }
  return ok;
}

// Computations sorted so that callers come last exist only without recursion (Kahn's algorithm).
static bool check_recursion(Verify *v) {
  const HlModule *m = v->m;
  uint32_t *n_callers = HL_ARRAY(v->scratch, uint32_t, m->next_comp_id + 1);
  const HlComp **ready = HL_ARRAY(v->scratch, const HlComp *, m->n_comps + 1);
  uint32_t n_ready = 0, n_done = 0;
  for (const HlComp *comp = m->first; comp != NULL; comp = comp->next) {
    for (const HlCall *call = comp->first_call; call != NULL; call = call->next)
      n_callers[comp->id]++;
    if (n_callers[comp->id] == 0)
      ready[n_ready++] = comp;
  }
  while (n_done < n_ready) {
    const HlComp *comp = ready[n_done++];
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        if (--n_callers[inst->calls[k].comp->id] == 0)
          ready[n_ready++] = inst->calls[k].comp;
  }
  if (n_done == m->n_comps)
    return true;
  for (const HlComp *comp = m->first; comp != NULL; comp = comp->next)
    if (n_callers[comp->id] != 0)
      return comp_error(v, comp, "calls itself, directly or through others");
  return true;
}

static bool check_schedule(Verify *v, const HlComp *comp) {
  bool *seen = HL_ARRAY(v->scratch, bool, comp->next_id + 1);
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    const HlInst *inst = comp->schedule[k];
    if (inst == NULL || inst->comp != comp)
      return comp_error(v, comp, "has a schedule with an instruction that is not in it");
    if (seen[inst->id])
      return hl_inst_error(v->cx, inst,
                           "appears more than once in the schedule of its computation");
    for (uint32_t j = 0; j < inst->n_operands; j++)
      if (!seen[inst->operands[j]->id])
        return hl_inst_error(v->cx, inst, "is scheduled before its operand %s",
                             inst->operands[j]->name->text);
    for (int j = 0; inst->control != NULL && j < inst->control->n_preds; j++)
      if (!seen[inst->control->preds[j]->id])
        return hl_inst_error(v->cx, inst, "is scheduled before its control predecessor %s",
                             inst->control->preds[j]->name->text);
    seen[inst->id] = true;
  }
  return true;
}

bool verify_structure(Verify *v) {
  const HlModule *m = v->m;
  if (m->entry == NULL)
    return hl_error(v->cx, hl_module_pos(m), "module has no entry computation");
  if (m->name == NULL || m->name->n == 0)
    return hl_error(v->cx, hl_module_pos(m), "module has no name");
  Walk walk = {HL_ARRAY(v->scratch, const HlInst *, hl_syms_count(m->syms) + 1),
               HL_ARRAY(v->scratch, bool, m->next_comp_id + 1), false};
  bool ok = true;
  for (const HlComp *comp = m->first; comp != NULL; comp = comp->next)
    ok &= check_comp(v, comp, &walk);
  ok = ok && check_comp_names(v);
  // The list holds callees before callers, so only a call down the list can close a circle.
  if (ok && walk.calls_forward)
    ok = check_recursion(v);
  for (const HlComp *comp = m->first; ok && comp != NULL; comp = comp->next)
    if (comp->schedule != NULL)
      ok = check_schedule(v, comp);
  for (const HlCall *call = m->entry->first_call; ok && call != NULL; call = call->next)
    if (call->caller->op == HL_OP_FUSION)
      return comp_error(v, m->entry, "is the module's entry and cannot be a fusion computation");
  return ok;
}
