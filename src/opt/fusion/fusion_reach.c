// opt/fusion/fusion_reach.c: does one instruction depend on another? Backwards, over what stands between
// them.

#include "hilo/edit.h"
#include "opt/fusion/fusion.h"

enum { MAX_BETWEEN = 4000 };

static void reserve(FusionReach *r, uint32_t n_ids) {
  if (n_ids <= r->n_ids)
    return;
  r->n_ids = n_ids * 2;
  r->seen = HL_ARRAY(r->arena, uint32_t, r->n_ids);
  r->round = 0;
}

// True if it is what is looked for.
static bool meet(FusionReach *r, const HlInst *inst, const HlInst *wanted) {
  if (inst == wanted)
    return true;
  if (r->seen[inst->id] == r->round || hl_stands_before(inst, wanted))
    return false;
  r->seen[inst->id] = r->round;
  vec_push(&r->stack, inst);
  return false;
}

bool fusion_reaches(FusionReach *r, const HlInst *a, const HlInst *b, bool direct_allowed) {
  if (hl_stands_before(b, a))
    return false;
  reserve(r, a->comp->next_id);
  r->round++;
  r->stack.n = 0;
  int n = 0;
  for (const HlInst *inst = b; inst; n++) {
    if (n > MAX_BETWEEN)
      return true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (!(direct_allowed && inst == b && inst->operands[k] == a) && meet(r, inst->operands[k], a))
        return true;
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      if (meet(r, inst->control->preds[k], a))
        return true;
    inst = r->stack.n > 0 ? vec_pop(&r->stack) : NULL;
  }
  return false;
}
