// opt/call/propagate_call_metadata.c: propagate-call-metadata: names of operations inside what is called
// get the name of the call in front.
//
//   c = f32[] call(x), to_apply=f, metadata={op_name="step"}
//   f { n = f32[] negate(p), metadata={op_name="neg"} }      =>  op_name="step/neg"
//
// So a name tells where an operation ran, as it would after inlining. Bodies of loops and
// conditionals in what is called belong to it; other calls have names of their own, and callers
// come before callees.

#include "ir/vecs.h"
#include "opt/ask/inline.h"
#include "opt/passes.h"

// A body that is reached again need not be gone into: it has the prefix by then.
static void prefix_body(HlPass *p, const HlInst *call, HlComp *body, CompVec *waiting) {
  const HlSym *prefix = hl_metadata(call)->op_name;
  bool changed = false;
  for (HlInst *inst = body->first; inst; inst = inst->next)
    if (inline_needs_prefix(inst, prefix) && hl_change(p, "prefix", inst, call)) {
      inline_prefix(inst, prefix);
      changed |= hl_changed(p);
    }
  for (HlInst *inst = changed ? body->first : NULL; inst; inst = inst->next)
    for (int k = 0; k < inst->n_calls; k++)
      if (inst->op == HL_OP_WHILE || inst->op == HL_OP_CONDITIONAL)
        vec_push(waiting, hl_called(inst, k));
}

static void propagate(HlPass *p, const HlInst *call) {
  CompVec waiting = {0};
  vec_push(&waiting, hl_to_apply(call));
  while (waiting.n > 0)
    prefix_body(p, call, vec_pop(&waiting), &waiting);
  vec_free(&waiting);
}

bool pass_propagate_call_metadata(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = n - 1; k >= 0; k--)
    for (const HlInst *inst = comps[k]->first; inst; inst = inst->next)
      if (inst->op == HL_OP_CALL && hl_metadata(inst) && hl_metadata(inst)->op_name)
        propagate(p, inst);
  return true;
}
