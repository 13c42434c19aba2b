// tool/lockstep/side.c: runs a program, on the interpreter or compiled, and tells of what it makes.
#include "tool/lockstep/side.h"

#include "spmd/local.h"

static void tell(StepSide *side, int device, const HlInst *inst, const HlLiteral *value) {
  __atomic_store_n(&side->seen[inst->serial], true, __ATOMIC_RELAXED);
  side->told(side->user, device, inst, value);
}

static void tell_elements(StepSide *side, int device, const HlInst *inst, const HlLiteral *value) {
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    const HlInst *user = use->user;
    if (user->op != HL_OP_GET_TUPLE_ELEMENT)
      continue;
    const HlLiteral *element = value->element[hl_attr_int(user, HL_A_INDEX)];
    tell(side, device, user, element);
    if (element->shape->dtype == HL_TUPLE)
      tell_elements(side, device, user, element);
  }
}

static void see(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  StepSide *side = user;
  tell(side, device, inst, value);
  if (side->by_steps && value->shape->dtype == HL_TUPLE)
    tell_elements(side, device, inst, value);
}

typedef struct Run {
  StepSide *side;
  const HlEvalOptions *eval;
} Run;

static void keep_args(StepSide *side, const HlEvalOptions *eval,
                      const HlLiteral *const *const *args) {
  const int devices = hl_eval_devices(side->m, eval), n = side->m->entry->n_params;
  if (!side->whole || side->args)
    return;
  side->args = HL_ARRAY(side->arena, HlLiteral **, devices + 1);
  for (int d = 0; d < devices; d++) {
    side->args[d] = HL_ARRAY(side->arena, HlLiteral *, n + 1);
    for (int k = 0; k < n; k++)
      side->args[d][k] = hl_literal_ref(args[d][k]);
  }
}

static bool run(HlCx *cx, void *user, const HlLiteral *const *const *args, HlLiteral **results) {
  const Run *r = user;
  keep_args(r->side, r->eval, args);
  return r->side->program ? hl_cpu_run(cx, r->side->program, r->eval, args, results)
                          : hl_eval(cx, r->side->m, r->eval, args, results);
}

void side_init(StepSide *side) {
  side->seen = HL_ARRAY(side->arena, bool, (size_t)side->m->next_serial + 1);
  side->by_steps =
      side->program && !hl_cpu_report(side->arena, side->program).interpreted_whole;
}

bool side_run(HlCx *cx, StepSide *side, const HlLiteral *const *const *args, HlLiteral **results) {
  HlEvalOptions eval = side->eval;
  eval.trace = see;
  eval.user = side;
  Run r = {side, &eval};
  return side->whole
             ? sp_run_local(cx, side->m, side->whole, &eval, run, &r, args, results)
             : run(cx, &r, args, results);
}

void side_free(StepSide *side) {
  const int devices = side->args ? hl_eval_devices(side->m, &side->eval) : 0;
  for (int d = 0; d < devices; d++)
    for (int k = 0; k < side->m->entry->n_params; k++)
      hl_literal_unref(side->args[d][k]);
  side->args = NULL;
}

// --- What was not seen ------------------------------------------------------------------------------

// A computation runs if something in it was seen, or if a fusion of it was.
static bool ran(const StepSide *side, const HlComp *comp, const bool *runs) {
  if (comp == side->m->entry)
    return true;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (side->seen[inst->serial])
      return true;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_FUSION && runs[call->caller->comp->id])
      return true;
  return false;
}

static bool computes(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) &&
         !hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_WIRE | HL_T_CONTROL);
}

int64_t side_unseen(const StepSide *side, bool *unseen) {
  int64_t n = 0;
  bool *runs = HL_ARRAY(side->arena, bool, side->m->next_comp_id + 1);
  for (bool more = true; more;) {
    more = false;
    for (const HlComp *comp = side->m->first; comp; comp = comp->next)
      if (!runs[comp->id] && ran(side, comp, runs))
        more = runs[comp->id] = true;
  }
  for (const HlComp *comp = side->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (runs[comp->id] && !side->seen[inst->serial] && computes(inst))
        n += unseen[inst->serial] = true;
  return n;
}
