// opt/call/conditional_to_select.c: conditional-to-select: computes both branches of conditionals inside
// scalar functions.
//
//   c = f32[] conditional(p, x, y), true_computation=f, false_computation=g
//                                                            =>
//   t = ... f of x
//   f = ... g of y
//   c = f32[] select(p, t, f)
//
// What map, reduce, sort and their like call is run on many elements at once; there is no jumping
// for each.

#include "opt/ask/inline.h"
#include "opt/passes.h"

static bool is_control_flow(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL | HL_T_ASYNC);
}

// By computation: whether it is only ever run inside such a function. Callers come after callees.
static bool *find_embedded(HlPass *p) {
  bool *embedded = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->last; comp; comp = comp->prev) {
    embedded[comp->id] = comp->first_call && comp != p->m->entry;
    for (const HlCall *call = comp->first_call; call; call = call->next)
      if (is_control_flow(call->caller) && !embedded[call->caller->comp->id])
        embedded[comp->id] = false;
  }
  return embedded;
}

static bool is_candidate(const HlInst *inst) {
  if (inst->op != HL_OP_CONDITIONAL || inst->n_calls != 2 || inst->n_operands != 3 ||
      !hl_shape_is_array(inst->shape) || hl_shape_is_dynamic(inst->shape))
    return false;
  const HlShape *index = inst->operands[0]->shape;
  return (index->dtype == HL_PRED || index->dtype == HL_S32) && hl_is_pure(inst);
}

static void select_result(HlPass *p, HlInst *cond) {
  const HlMetadata *metadata = hl_metadata(cond);
  HlComp *branch[2] = {hl_called(cond, 0), hl_called(cond, 1)};
  HlInst **map[2], *value[2];
  HlBuild b;
  hl_begin(p, "select", cond, &b);
  for (int k = 0; k < 2; k++)
    value[k] = inline_body(p, cond, branch[k], 1, &cond->operands[k + 1], &map[k]);
  HlInst *index = cond->operands[0], *by;
  if (index->shape->dtype == HL_PRED)
    by = hl_b_select(&b, index, value[0], value[1]);
  else  // any number but 0 means the second branch
    by = hl_b_select(&b, hl_b_convert(&b, index, HL_PRED), value[1], value[0]);
  if (!hl_commit(p, by))
    return;
  for (int k = 0; k < 2; k++)
    inline_finish(p, metadata, branch[k], map[k]);
}

bool pass_conditional_to_select(HlPass *p) {
  const bool *embedded = find_embedded(p);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    if (!embedded[comps[k]->id])
      continue;
    for (HlInst *inst = comps[k]->first, *next; inst; inst = next) {
      next = inst->next;
      if (is_candidate(inst))
        select_result(p, inst);
    }
  }
  return true;
}
