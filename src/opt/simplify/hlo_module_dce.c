// opt/simplify/hlo_module_dce.c: hlo-module-dce: finds what a whole module does not need, through calls,
// loops and conditionals, element by element of tuples.
//
//   body { p = (s32[], f32[4]) parameter(0) ... ROOT t = (s32[], f32[4]) tuple(i, expensive) }
//   w = (s32[], f32[4]) while(init), body=body, condition=cond
//   ROOT r = s32[] get-tuple-element(w), index=0
//                                                            =>
//   body { ... e = f32[4] get-tuple-element(p), index=1      ROOT t = (s32[], f32[4]) tuple(i, e) }
//
// A slot of a loop that neither the condition nor, however indirectly, a result depends on is
// passed on unchanged; what computed it is then dead. dce cleans up.

#include "base/vec.h"
#include "opt/ask/effects.h"
#include "opt/passes.h"
#include "opt/simplify/dce.h"

// What is needed of an instruction: one element of its tuple, all of it, or that it is there.
enum { WHOLE = -1, ANY = -2 };
typedef struct Need {
  HlInst *inst;
  int element;
} Need;
typedef VEC(Need) Needs;

typedef struct Liveness {
  HlPass *p;
  bool ***live;  // by id of computation and instruction: per element; behind these: anything at all
  Needs todo;    // element ANY or of a tuple
} Liveness;

static int n_elements(const HlInst *inst) {
  return hl_shape_is_tuple(inst->shape) ? inst->shape->rank : 0;
}

static bool *live_of(Liveness *l, const HlInst *inst) {
  bool ***comp = &l->live[inst->comp->id];
  if (!*comp)
    *comp = HL_ARRAY(l->p->arena, bool *, inst->comp->next_id);
  bool **live = &(*comp)[inst->id];
  if (!*live)
    *live = HL_ARRAY(l->p->arena, bool, n_elements(inst) + 1);
  return *live;
}

static void note(Liveness *l, HlInst *inst, bool *live, int element) {
  if (*live)
    return;
  *live = true;
  vec_push(&l->todo, ((Need){inst, element}));
}

static void need(Liveness *l, HlInst *inst, int element) {
  bool *live = live_of(l, inst);
  const int n = n_elements(inst);
  note(l, inst, &live[n], ANY);
  if (element >= 0 && element < n)
    note(l, inst, &live[element], element);
  for (int k = 0; element == WHOLE && k < n; k++)
    note(l, inst, &live[k], k);
}

// --- What a need calls for -----------------------------------------------------------------------

// What a caller passes for a parameter of a computation it calls.
static void need_argument(Liveness *l, const HlCall *call, int64_t number, int element) {
  HlInst *caller = call->caller;
  if (caller->op == HL_OP_WHILE) {
    need(l, caller, element);  // of the iteration before, or at the start
  } else if (caller->op == HL_OP_CALL || caller->op == HL_OP_FUSION) {
    need(l, caller->operands[number], element);
  } else if (caller->op == HL_OP_CONDITIONAL) {
    need(l, caller->operands[call->number + 1], element);
  }  // others need all of their operands
}

static void need_results(Liveness *l, const HlInst *inst, int element) {
  for (int k = 0; k < inst->n_calls; k++)
    need(l, hl_called(inst, k)->root, element);
}

static void need_all_operands(Liveness *l, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    need(l, inst->operands[k], WHOLE);
}

static void follow_while(Liveness *l, const HlInst *loop, int element) {
  need(l, loop->operands[0], element);
  need(l, hl_while_body(loop)->root, element);
  if (element == ANY)
    need(l, hl_while_condition(loop)->root, WHOLE);
}

static void follow_parameter(Liveness *l, const HlInst *inst, int element) {
  for (const HlCall *call = inst->comp->first_call; call; call = call->next)
    need_argument(l, call, hl_parameter_number(inst), element);
}

static void follow_element(Liveness *l, const HlInst *inst, int element) {
  need(l, inst->operands[0], (int)hl_attr_int(inst, HL_A_INDEX));
}

static void follow_tuple(Liveness *l, const HlInst *inst, int element) {
  if (element != ANY)
    need(l, inst->operands[element], WHOLE);
}

static void follow_conditional(Liveness *l, const HlInst *inst, int element) {
  need(l, inst->operands[0], WHOLE);
  need_results(l, inst, element);
}

static void (*const follow_of[HL_OP_COUNT])(Liveness *, const HlInst *, int) = {
    [HL_OP_PARAMETER] = follow_parameter,
    [HL_OP_GET_TUPLE_ELEMENT] = follow_element,
    [HL_OP_TUPLE] = follow_tuple,
    [HL_OP_WHILE] = follow_while,
    [HL_OP_CONDITIONAL] = follow_conditional,
    [HL_OP_CALL] = need_results,
    [HL_OP_FUSION] = need_results,
};

static void follow(Liveness *l, HlInst *inst, int element) {
  for (int k = 0; element == ANY && inst->control && k < inst->control->n_preds; k++)
    need(l, inst->control->preds[k], WHOLE);
  if (follow_of[inst->op]) {
    follow_of[inst->op](l, inst, element);
    return;
  }
  need_all_operands(l, inst);
  need_results(l, inst, WHOLE);
}

// Everything starts from the entry's result and from what has side effects.
static void find_needs(Liveness *l) {
  const bool *effects = effects_find(l->p);
  if (l->p->m->entry)
    need(l, l->p->m->entry->root, WHOLE);
  for (HlComp *comp = l->p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_has_side_effect(inst)) {
        need(l, inst, WHOLE);
        need_all_operands(l, inst);
      } else if (inst->n_calls > 0 && effects_has(effects, inst)) {
        need(l, inst, ANY);
      }
  while (l->todo.n > 0) {
    const Need next = vec_pop(&l->todo);
    follow(l, next.inst, next.element);
  }
}

// --- Loops --------------------------------------------------------------------------------------

static bool passes_on(const HlInst *root, int k) {
  const HlInst *value = root->operands[k];
  return value->op == HL_OP_GET_TUPLE_ELEMENT && value->operands[0] == root->comp->params[0] &&
         hl_attr_int(value, HL_A_INDEX) == k;
}

// Slots of a loop that nobody needs are passed on from iteration to iteration.
static void pass_slots_on(Liveness *l, HlInst *loop) {
  HlComp *body = hl_while_body(loop);
  HlInst *root = body->root;
  const bool *live = live_of(l, loop);
  if (root->op != HL_OP_TUPLE || body->first_call != body->last_call || root->first_use ||
      !live[n_elements(loop)])
    return;
  for (int k = 0; k < n_elements(loop); k++) {
    if (live[k] || passes_on(root, k) || live_of(l, root)[k] ||
        !hl_change(l->p, "dead-slot", loop, NULL))
      continue;
    HlInst *param = body->params[0];
    HlInst *slot =
        hl_inst_new(body, HL_OP_GET_TUPLE_ELEMENT, param->shape->element[k], NULL, 1, &param);
    hl_set_int(slot, HL_A_INDEX, k);
    hl_set_operand(root, k, slot);
    hl_changed(l->p);
  }
}

bool pass_hlo_module_dce(HlPass *p) {
  Liveness l = {.p = p, .live = HL_ARRAY(p->arena, bool **, p->m->next_comp_id + 1)};
  find_needs(&l);
  vec_free(&l.todo);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->first; inst; inst = inst->next)
      if (inst->op == HL_OP_WHILE && hl_shape_is_tuple(inst->shape))
        pass_slots_on(&l, inst);
  return pass_dce(p);
}
