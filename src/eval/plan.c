// eval/plan.c: makes the plan of a computation: which instructions run, and when values die.

#include "eval/plan.h"
#include "hilo/custom_calls.h"

#include <string.h>

// --- Checking -----------------------------------------------------------------------------------

// Whether the result may have another float type than the rule says: these kernels round to it.
static bool rounds_to_result(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTRACTS | HL_T_ELEMENTWISE);
}

// Kernels trust that shapes obey the rules: here is where an unverified module is found out.
static bool check_shape(Interp *in, const HlInst *inst) {
  HlCx *cx = in->ev.cx;
  if (hl_shape_is_unbounded(inst->shape))
    return hl_error_kind(cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s has an unbounded shape and cannot be evaluated", inst->name->text);
  if (!hl_has_infer((HlOp)inst->op))
    return true;
  const HlMark mark = hl_arena_mark(in->frames);
  const HlShape **shapes = HL_ARRAY(in->frames, const HlShape *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    shapes[k] = inst->operands[k]->shape;
  const HlInfer q = {cx, in->shapes, inst, shapes, (int)inst->n_operands, inst->shape};
  const HlShape *shape = hl_infer(&q);
  hl_arena_release(in->frames, mark);
  if (!shape)
    return false;
  if (rounds_to_result(inst) ? hl_shape_compatible_ignoring_precision(shape, inst->shape)
                             : hl_shape_compatible(shape, inst->shape))
    return true;
  return hl_inst_error(cx, inst, "the shape is %s but should be %s", hl_shape_text(cx, inst->shape),
                       hl_shape_text(cx, shape));
}

static bool check_arity(Interp *in, const HlInst *inst) {
  const int n = hl_op_info[inst->op].n_operands;
  if (n != HL_ANY && inst->n_operands != (uint32_t)n)
    return hl_inst_error(in->ev.cx, inst, "expected %d operands, got %u", n, inst->n_operands);
  return true;
}

// The operands from `first` on as arguments of a computation; an async-start may leave the last to its updates.
static bool check_arguments(Interp *in, const HlInst *inst, int call, uint32_t first, uint32_t n) {
  if (call >= inst->n_calls)
    return hl_inst_error(in->ev.cx, inst, "a called computation is missing");
  const HlComp *comp = hl_called(inst, call);
  const bool few = (int)n < comp->n_params && inst->op == HL_OP_ASYNC_START;
  if ((comp->n_params != (int)n && !few) || first + n > inst->n_operands)
    return hl_inst_error(in->ev.cx, inst, "computation %s takes %d arguments, got %u",
                         comp->name->text, comp->n_params, n);
  for (uint32_t k = 0; k < n; k++)
    if (!comp->params[k] ||
        !hl_shape_compatible(comp->params[k]->shape, inst->operands[first + k]->shape))
      return hl_inst_error(in->ev.cx, inst, "argument %u does not have the shape that %s takes", k,
                           comp->name->text);
  return true;
}

static bool check_calls(Interp *in, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CALL:
  case HL_OP_FUSION:
  case HL_OP_ASYNC_START: return check_arguments(in, inst, 0, 0, inst->n_operands);
  case HL_OP_WHILE: return check_arguments(in, inst, 0, 0, 1) && check_arguments(in, inst, 1, 0, 1);
  case HL_OP_CONDITIONAL:
    for (int k = 0; k < inst->n_calls; k++)
      if (!check_arguments(in, inst, k, (uint32_t)k + 1, 1))
        return false;
    return true;
  default: return true;
  }
}

// --- Which instructions run ---------------------------------------------------------------------

static bool runs_computations(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_FUSION ||
         inst->op == HL_OP_ASYNC_START || hl_is_call(inst, HL_CALL_HOST_EXECUTE);
}

// Whether the instruction must run though nobody uses it. *failed: a computation of it has no plan.
static bool has_effects(Interp *in, const HlInst *inst, bool *failed) {
  if (hl_has_side_effect(inst) || (inst->op == HL_OP_ASYNC_DONE && transfer_is_awaited(inst)))
    return true;
  for (int k = 0; runs_computations(inst) && k < inst->n_calls; k++) {
    const CompPlan *plan = plan_of(in, hl_called(inst, k));
    *failed = *failed || !plan;
    if (plan && plan->effects)
      return true;
  }
  return false;
}

// All instructions in the order in which they run, of which effects take notice: users stand after operands.
static HlInst *const *find_order(Interp *in, const HlComp *comp) {
  if (comp->schedule)
    return comp->schedule;
  HlInst **order = HL_ARRAY(in->frames, HlInst *, comp->n_insts + 1);
  uint32_t n = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    order[n++] = inst;
  return order;
}

// Marks what the root and the effects need: one walk backwards does.
static bool *find_needed(Interp *in, CompPlan *plan, HlInst *const *order, bool *failed) {
  const HlComp *comp = plan->comp;
  bool *needed = HL_ARRAY(in->arena, bool, comp->next_id + 1);
  needed[comp->root->id] = true;
  for (uint32_t at = comp->n_insts; at > 0 && !*failed; at--) {
    const HlInst *inst = order[at - 1];
    const bool effects = has_effects(in, inst, failed);
    plan->effects = plan->effects || effects;
    if (!effects && !needed[inst->id])
      continue;
    needed[inst->id] = true;
    plan->n++;
    if (inst->n_operands > plan->max_operands)
      plan->max_operands = inst->n_operands;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  }
  return needed;
}

// --- Lanes --------------------------------------------------------------------------------------

// Scalars of one type, or tuples of them.
static bool is_scalar_value(const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return hl_shape_is_scalar(shape);
  for (int k = 0; k < shape->rank; k++)
    if (!hl_shape_is_scalar(shape->element[k]))
      return false;
  return true;
}

// Whether an instruction of scalars is a copy of its operand.
static bool is_scalar_copy(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_REARRANGES) && inst->n_operands == 1 &&
         hl_shape_is_scalar(inst->shape) && hl_shape_is_scalar(inst->operands[0]->shape) &&
         inst->shape->dtype == inst->operands[0]->shape->dtype;
}

static bool runs_on_lanes(Interp *in, const HlInst *inst) {
  if (!is_scalar_value(inst->shape))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_scalar_value(inst->operands[k]->shape))
      return false;
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_TUPLE:
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_COPY:
  case HL_OP_OPT_BARRIER:
  case HL_OP_BITCAST_CONVERT:
  case HL_OP_BITCAST: return true;
  case HL_OP_CONSTANT: return inst->shape->dtype != HL_TUPLE;
  case HL_OP_CALL:
  case HL_OP_FUSION:
  case HL_OP_MAP: {
    const CompPlan *plan = inst->n_calls > 0 ? plan_of(in, hl_called(inst, 0)) : NULL;
    return plan && plan->vector;
  }
  default: return is_scalar_copy(inst) || (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE) != 0;
  }
}

// --- Steps --------------------------------------------------------------------------------------

static bool choose_kind(Interp *in, PlanStep *step) {
  const HlInst *inst = step->inst;
  const HlOp op = (HlOp)inst->op;
  step->taking = taking_op(op);
  step->driven = driven_op(op);
  step->kernel = hl_kernel(op);
  if (op == HL_OP_PARAMETER)
    step->kind = STEP_PARAMETER;
  else if (op == HL_OP_CONSTANT)
    step->kind = STEP_CONSTANT;
  else if (is_scalar_copy(inst))
    step->kind = STEP_SAME;
  else if (step->taking)
    step->kind = STEP_TAKING;
  else if (step->driven)
    step->kind = STEP_DRIVEN;
  else if (step->kernel)
    step->kind = STEP_KERNEL;
  else
    return hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst), "%s: %s cannot be evaluated",
                         inst->name->text, hl_op_text(op));
  return true;
}

static bool make_step(Interp *in, CompPlan *plan, PlanStep *step, const HlInst *inst,
                      const uint32_t *slot_of) {
  *step = (PlanStep){.inst = inst};
  if (!check_arity(in, inst) || !check_shape(in, inst) || !check_calls(in, inst) ||
      !choose_kind(in, step))
    return false;
  step->operand = HL_ARRAY(in->arena, uint32_t, inst->n_operands + 1);
  step->last = HL_ARRAY(in->arena, bool, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    step->operand[k] = slot_of[inst->operands[k]->id];
  if (plan->vector)
    plan->vector = runs_on_lanes(in, inst);
  return true;
}

// Marks for each value its last use, at one operand only.
static void find_last_uses(CompPlan *plan, bool *dead) {
  for (uint32_t s = 0; s < plan->n; s++)
    dead[s] = s != plan->root;
  for (uint32_t s = plan->n; s-- > 0;) {
    PlanStep *step = &plan->step[s];
    for (uint32_t k = step->inst->n_operands; k-- > 0;) {
      step->last[k] = dead[step->operand[k]];
      dead[step->operand[k]] = false;
    }
  }
}

// An element may be moved out of a tuple that lives on when only get-tuple-elements use the tuple
// and this is the last one of its index.
static void find_steals(Interp *in, CompPlan *plan) {
  bool *only_parts = HL_ARRAY(in->frames, bool, plan->n + 1);
  bool **taken = HL_ARRAY(in->frames, bool *, plan->n + 1);
  for (uint32_t s = 0; s < plan->n; s++)
    only_parts[s] = s != plan->root && plan->step[s].inst->shape->dtype == HL_TUPLE;
  for (uint32_t s = 0; s < plan->n; s++)
    for (uint32_t k = 0; k < plan->step[s].inst->n_operands; k++)
      if (plan->step[s].inst->op != HL_OP_GET_TUPLE_ELEMENT)
        only_parts[plan->step[s].operand[k]] = false;
  for (uint32_t s = plan->n; s-- > 0;) {
    PlanStep *step = &plan->step[s];
    if (step->inst->op != HL_OP_GET_TUPLE_ELEMENT || !only_parts[step->operand[0]])
      continue;
    const int64_t index = hl_attr_int(step->inst, HL_A_INDEX);
    const uint32_t of = step->operand[0];
    const int n = plan->step[of].inst->shape->rank;
    if (index < 0 || index >= n)
      continue;
    if (!taken[of])
      taken[of] = HL_ARRAY(in->frames, bool, n);
    step->steals = !taken[of][index];
    taken[of][index] = true;
  }
}

static CompPlan *make_plan(Interp *in, const HlComp *comp) {
  if (!comp->root) {
    hl_error(in->ev.cx, hl_comp_pos(comp), "computation %s has no root", comp->name->text);
    return NULL;
  }
  CompPlan *plan = HL_NEW(in->arena, CompPlan);
  plan->comp = comp;
  bool failed = false;
  HlInst *const *order = find_order(in, comp);
  const bool *needed = find_needed(in, plan, order, &failed);
  if (failed)
    return NULL;
  plan->step = HL_ARRAY(in->arena, PlanStep, plan->n + 1);
  plan->vector = true;
  uint32_t *slot_of = HL_ARRAY(in->arena, uint32_t, comp->next_id + 1), s = 0;
  for (uint32_t at = 0; at < comp->n_insts; at++) {
    const HlInst *inst = order[at];
    if (!needed[inst->id])
      continue;
    if (!make_step(in, plan, &plan->step[s], inst, slot_of))
      return NULL;
    slot_of[inst->id] = s++;
  }
  plan->root = slot_of[comp->root->id];
  find_last_uses(plan, HL_ARRAY(in->frames, bool, plan->n + 1));
  find_steals(in, plan);
  return plan;
}

const CompPlan *plan_of(Interp *in, const HlComp *comp) {
  if (in->plans[comp->id])
    return in->plans[comp->id];
  if (in->depth >= hl_cx_limits(in->ev.cx)->nesting) {
    hl_error_kind(in->ev.cx, HL_LIMIT, hl_comp_pos(comp),
                  "computations call each other too deeply (limit nesting)");
    return NULL;
  }
  const HlMark mark = hl_arena_mark(in->frames);
  in->depth++;
  CompPlan *plan = make_plan(in, comp);
  in->depth--;
  hl_arena_release(in->frames, mark);
  in->plans[comp->id] = plan;
  return plan;
}

void plan_free(CompPlan *plan) {
  for (uint32_t s = 0; plan && s < plan->n; s++) {
    hl_literal_unref(plan->step[s].constant);
    hl_literal_unref(plan->step[s].spread);
  }
}
