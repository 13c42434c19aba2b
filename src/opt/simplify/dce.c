// opt/simplify/dce.c: erases what nobody needs: instructions, outputs and inputs of fusions, computations.
//
// An instruction is dead when nobody uses it, it is not its computation's root, and running it has
// no effect that anybody could see. Going from the last instruction to the first meets every user
// before what it uses, and going from callers to callees meets every call before what it calls, so
// one walk over the module finds all of it.
//
//   x = f32[4] parameter(0)            x = f32[4] parameter(0)
//   a = f32[4] add(x, x)          =>   ROOT n = f32[4] negate(x)
//   ROOT n = f32[4] negate(x)
//
// A fusion with several outputs loses those that nobody reads, and then what made them; a parameter
// of a fusion's body that nobody reads goes together with the fusion's operand. With
// use_call_analysis so do parameters of computations that only calls run.

#include "opt/simplify/dce.h"
#include "hilo/custom_calls.h"

#include <string.h>

#include "opt/ask/effects.h"
#include "opt/passes.h"

// A marker of sharding on a root, a parameter or a value with other users tells where that value
// lives, though nobody reads the marker.
static bool marks_sharding(const HlInst *inst) {
  if (inst->op != HL_OP_CUSTOM_CALL || inst->n_operands == 0 || !hl_is_call(inst, HL_CALL_SHARDING))
    return false;
  const HlInst *operand = inst->operands[0];
  return operand == inst->comp->root || operand->op == HL_OP_PARAMETER || !hl_one_user(operand);
}

static bool may_go(const HlInst *inst, const bool *effects) {
  return inst->comp->root != inst && inst->op != HL_OP_PARAMETER && !hl_has_control(inst) &&
         !marks_sharding(inst) && !effects_has(effects, inst);
}

// The link before this one of a chain of asynchronous operations, or NULL.
static HlInst *link_before(const HlInst *inst) {
  const bool is_last = hl_awaits((HlOp)inst->op) && hl_n_users(inst->operands[0]) <= 1;
  return is_last ? inst->operands[0] : NULL;
}

static bool is_dead(const HlInst *inst, const bool *effects) {
  if (inst->first_use || !may_go(inst, effects))
    return false;
  for (const HlInst *link = link_before(inst); link; link = link_before(link))
    if (!may_go(link, effects))
      return false;
  return true;
}

// A chain goes as a whole: a start without an end would not be valid.
static void erase_chain(HlInst *inst) {
  while (inst) {
    HlInst *before = link_before(inst);
    hl_erase(inst);
    inst = before;
  }
}

// Erases the instruction if it is dead, and returns the one with which the walk backwards goes on.
static HlInst *visit(HlPass *p, HlInst *inst, const bool *effects) {
  HlInst *prev = inst->prev;
  if (!is_dead(inst, effects) || !hl_change(p, "dead", inst, NULL))
    return prev;
  const bool is_alone = !link_before(inst);
  HlInst *next = inst->next;
  HlComp *comp = inst->comp;
  erase_chain(inst);
  if (!hl_changed(p) || is_alone)
    return prev;
  return next ? next->prev : comp->last;
}

// --- Inputs of fusions --------------------------------------------------------------------------

// Whether the body's parameters without uses may go: it has one caller, a fusion whose operands
// nothing else counts.
HlInst *dce_caller_with_loose_inputs(const HlComp *body) {
  if (!body->is_fusion || !body->first_call || body->first_call != body->last_call)
    return NULL;
  HlInst *fusion = body->first_call->caller;
  if (fusion->op != HL_OP_FUSION || (int)fusion->n_operands != body->n_params ||
      hl_has_attr(fusion, HL_A_OUTPUT_TO_OPERAND_ALIASING) ||
      hl_attr_int(fusion, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM)
    return NULL;
  return fusion;
}

static bool is_unread(const HlInst *param) {
  return !param->first_use && param != param->comp->root && !hl_has_control(param);
}

// All at once, so that a long list of operands is written once.
void dce_drop_unread_inputs(HlPass *p, HlInst *fusion) {
  HlComp *body = hl_to_apply(fusion);
  const int n = body->n_params;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n), **params = HL_ARRAY(p->arena, HlInst *, n);
  int kept = 0;
  for (int k = 0; k < n; k++) {
    if (is_unread(body->params[k]))
      continue;
    params[kept] = body->params[k];
    operands[kept++] = fusion->operands[k];
  }
  for (int k = n - 1; k >= 0; k--)
    if (is_unread(body->params[k]))
      hl_erase(body->params[k]);
  for (int k = 0; k < kept; k++)
    if (hl_parameter_number(params[k]) != k)
      hl_set_int(params[k], HL_A_PARAMETER_NUMBER, k);
  hl_finish_params(p->cx, body);
  hl_set_operands(fusion, kept, operands);
}

static int n_unread(const HlComp *body) {
  int n = 0;
  for (int k = 0; k < body->n_params; k++)
    n += is_unread(body->params[k]);
  return n;
}

static void drop_inputs(HlPass *p, HlComp *body) {
  HlInst *fusion = dce_caller_with_loose_inputs(body);
  if (!fusion || n_unread(body) == 0 || !hl_change(p, "unread-input", fusion, NULL))
    return;
  dce_drop_unread_inputs(p, fusion);
  hl_changed(p);
}

// What made an output that is gone, and what only that read, goes in the same step: in a valid
// fusion everything is read.
static void clean_body(HlPass *p, HlInst *fusion, const bool *effects) {
  HlComp *body = hl_to_apply(fusion);
  for (HlInst *inst = body->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (is_dead(inst, effects))
      hl_erase(inst);
  }
  if (dce_caller_with_loose_inputs(body) && n_unread(body) > 0)
    dce_drop_unread_inputs(p, fusion);
}

// --- Outputs of fusions -------------------------------------------------------------------------

// Whether outputs of the fusion may be left out: everybody takes single elements, and nothing else
// counts them.
static bool has_loose_outputs(const HlInst *fusion) {
  const HlComp *body = hl_to_apply(fusion);
  if (!hl_shape_is_tuple(fusion->shape) || body->root->op != HL_OP_TUPLE ||
      fusion == fusion->comp->root || hl_has_control(fusion) || hl_has_control(body->root) ||
      hl_sharding(fusion) || hl_sharding(body->root) || body->first_call != body->last_call ||
      body->root->first_use || hl_has_attr(fusion, HL_A_OUTPUT_TO_OPERAND_ALIASING) ||
      hl_attr_int(fusion, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM)
    return false;
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || hl_has_control(use->user))
      return false;
  return true;
}

// Whether what has effects in the body reads an output: it would, were that the body's result.
static bool is_read_inside(HlPass *p, const HlInst *output, const bool *effects) {
  const HlComp *body = output->comp;
  bool *stays = HL_ARRAY(p->arena, bool, body->next_id);
  for (const HlInst *inst = body->last; inst; inst = inst->prev) {
    for (const HlUse *use = inst->first_use; use; use = use->next)
      stays[inst->id] |= stays[use->user->id];
    if (inst == output)
      return stays[inst->id];
    stays[inst->id] |= inst != body->root && effects_has(effects, inst);
  }
  return false;
}

// The output may be a tuple itself: those who take parts of it read the fusion afterwards.
static void keep_one_output(HlPass *p, HlInst *fusion, int kept) {
  HlComp *body = hl_to_apply(fusion);
  HlInst *root = body->root;
  hl_set_shape(fusion, fusion->shape->element[kept]);
  hl_set_root(body, root->operands[kept]);
  hl_erase(root);
  int n = 0;
  HlInst **element = HL_ARRAY(p->arena, HlInst *, hl_n_users(fusion) + 1);
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    element[n++] = use->user;
  for (int k = 0; k < n; k++) {
    hl_set_operands(element[k], 0, NULL);
    hl_replace_uses(element[k], fusion);
    hl_erase(element[k]);
  }
}

// `place`: where each output goes, or -1.
static void keep_outputs(HlPass *p, HlInst *fusion, const int *place, int n) {
  HlInst *root = hl_to_apply(fusion)->root;
  const int old_n = fusion->shape->rank;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n);
  const HlShape **outer = HL_ARRAY(p->arena, const HlShape *, n);
  const HlShape **inner = HL_ARRAY(p->arena, const HlShape *, n);
  for (int k = 0; k < old_n; k++) {
    if (place[k] < 0)
      continue;
    operands[place[k]] = root->operands[k];
    outer[place[k]] = fusion->shape->element[k];
    inner[place[k]] = root->shape->element[k];
  }
  hl_set_operands(root, n, operands);
  hl_set_shape(root, hl_shape_tuple(p->m->shapes, n, inner));
  hl_set_shape(fusion, hl_shape_tuple(p->m->shapes, n, outer));
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    hl_set_int(use->user, HL_A_INDEX, place[hl_attr_int(use->user, HL_A_INDEX)]);
}

static void drop_outputs(HlPass *p, HlInst *fusion, const bool *effects) {
  if (!has_loose_outputs(fusion))
    return;
  const int n = fusion->shape->rank;
  int *place = HL_ARRAY(p->arena, int, n), kept = 0, last = -1;
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    place[hl_attr_int(use->user, HL_A_INDEX)] = 1;
  for (int k = 0; k < n; k++) {
    last = place[k] ? k : last;
    place[k] = place[k] ? kept++ : -1;
  }
  const HlInst *root = hl_to_apply(fusion)->root;
  if (kept == n || kept == 0 || (kept == 1 && is_read_inside(p, root->operands[last], effects)) ||
      !hl_change(p, "unread-output", fusion, NULL))
    return;
  if (kept == 1)
    keep_one_output(p, fusion, last);
  else
    keep_outputs(p, fusion, place, kept);
  clean_body(p, fusion, effects);
  hl_changed(p);
}

// --- The walk -----------------------------------------------------------------------------------

// Erases what is dead in one computation, users before what they use.
static void sweep_body(HlPass *p, HlComp *body, const bool *effects) {
  for (HlInst *inst = body->last; inst;)
    inst = visit(p, inst, effects);
}

// The same where there may be fusions, of the changes alone. What is no longer read stands before what read it.
static void sweep_inst(HlPass *p, HlInst *inst, const bool *effects) {
  if (inst->op == HL_OP_FUSION) {
    drop_outputs(p, inst, effects);
    sweep_body(p, hl_to_apply(inst), effects);
    drop_inputs(p, hl_to_apply(inst));
  }
  visit(p, inst, effects);
}

// A marker of sharding may go once it is the last to use a value.
static void visit_last_marker(HlPass *p, HlInst *inst, const bool *effects) {
  if (hl_one_user(inst) && inst->first_use->user->op == HL_OP_CUSTOM_CALL)
    visit(p, inst->first_use->user, effects);
}

// What had uses before others were erased counts as changed again.
static void sweep(HlPass *p, HlComp *comp, const bool *effects) {
  int n = 1;
  while (n > 0) {
    HlInst **insts = hl_pass_changes(p, comp, 0, &n);
    for (int k = n - 1; k >= 0; k--)
      if (hl_alive(insts[k])) {
        visit_last_marker(p, insts[k], effects);
        sweep_inst(p, insts[k], effects);
      }
  }
}

// A schedule is void once the graph changes; what is left of it is still in order.
static void restore_schedule(HlPass *p, HlComp *comp, HlInst *const *old, uint32_t n) {
  if (!old || comp->schedule)
    return;
  HlInst **order = HL_ARRAY(p->arena, HlInst *, n);
  uint32_t kept = 0;
  for (uint32_t k = 0; k < n; k++)
    if (hl_alive(old[k]))
      order[kept++] = old[k];
  hl_set_schedule(comp, order);
}

// The body of a fusion was swept with the fusion; it is worth a walk of its own only where it holds
// fusions itself.
static bool was_swept(const HlComp *comp) {
  if (!comp->is_fusion)
    return false;
  if (!hl_comp_may_have(comp, HL_OP_FUSION))
    return true;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (inst->op == HL_OP_FUSION)
      return false;
  return true;
}

static void sweep_comp(HlPass *p, HlComp *comp, const bool *effects) {
  HlInst *const *schedule = comp->schedule;
  const uint32_t n = comp->n_insts;
  HlMark mark = hl_arena_mark(p->arena);
  sweep(p, comp, effects);
  restore_schedule(p, comp, schedule, n);
  hl_arena_release(p->arena, mark);
}

// --- Inputs of calls ----------------------------------------------------------------------------

static bool has_loose_callers(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op != HL_OP_CALL || (int)call->caller->n_operands != comp->n_params ||
        hl_has_attr(call->caller, HL_A_OUTPUT_TO_OPERAND_ALIASING) ||
        hl_attr_int(call->caller, HL_A_IS_COMPOSITE))
      return false;
  return comp->first_call && !comp->is_fusion;
}

// Takes the parameters that nobody reads from a computation, and the operands from its calls.
static void drop_call_inputs(HlPass *p, HlComp *comp) {
  if (!has_loose_callers(comp) || n_unread(comp) == 0 ||
      !hl_change(p, "unread-call-input", comp->first_call->caller, NULL))
    return;
  const int n = comp->n_params;
  bool *unread = HL_ARRAY(p->arena, bool, n);
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n);
  for (int k = 0; k < n; k++)
    unread[k] = is_unread(comp->params[k]);
  for (const HlCall *call = comp->first_call; call; call = call->next) {
    int kept = 0;
    for (int k = 0; k < n; k++)
      if (!unread[k])
        operands[kept++] = call->caller->operands[k];
    hl_set_operands(call->caller, kept, operands);
  }
  HlInst **params = hl_arena_copy(p->arena, comp->params, sizeof *params * (size_t)n);
  for (int k = 0, kept = 0; k < n; k++) {
    if (unread[k])
      hl_erase(params[k]);
    else
      hl_set_int(params[k], HL_A_PARAMETER_NUMBER, kept++);
  }
  hl_finish_params(p->cx, comp);
  hl_changed(p);
}

// Callees first: what a call no longer takes is dead in its caller, which comes later.
static void drop_all_call_inputs(HlPass *p, HlComp *const *comps, int n, const bool *effects) {
  for (int k = 0; k < n; k++) {
    if (!has_loose_callers(comps[k]))
      continue;
    HlInst *const *schedule = comps[k]->schedule;
    const uint32_t n_insts = comps[k]->n_insts;
    sweep(p, comps[k], effects);
    drop_call_inputs(p, comps[k]);
    restore_schedule(p, comps[k], schedule, n_insts);
  }
}

bool pass_dce(HlPass *p) {
  const bool was_scheduled = p->m->is_scheduled;
  const bool *effects = effects_find(p);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  if (p->info->run == pass_dce && hl_pass_flag(p, "use_call_analysis"))
    drop_all_call_inputs(p, comps, n, effects);
  for (int k = n - 1; k >= 0; k--) {
    if (!hl_comp_alive(comps[k]))
      continue;
    if (comps[k] == p->m->entry || comps[k]->first_call) {
      if (!was_swept(comps[k]))
        sweep_comp(p, comps[k], effects);
    } else if (hl_change(p, "uncalled", comps[k]->root, NULL)) {
      hl_comp_erase(comps[k]);
      hl_changed(p);
    }
  }
  hl_set_scheduled(p->m, was_scheduled);
  return true;
}
