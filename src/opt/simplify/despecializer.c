// opt/simplify/despecializer.c: passes that make of a module for one target what any reference can run:
// despecializer, AssumeGatherIndicesInBoundRewriteToCopy, ReduceWindowToReduceAndBroadcast.
//
// A window that, wherever it stands, covers the whole dimension sums it up anew for each element:
//
//   w = f32[4,5] reduce-window(x, 0), window={size=1x9 pad=0_0x4_4}
//     =>   r = f32[4] reduce(x, 0), dimensions={1}
//          w = f32[4,5] broadcast(r), dimensions={0}

#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/ask/reducers.h"
#include "opt/ask/windows.h"
#include "opt/passes.h"

// --- despecializer -------------------------------------------------------------------------------

// Back to what a front end might have written.
bool pass_despecializer(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    if (comp->schedule && hl_change(p, "schedule", comp->root, NULL)) {
      hl_set_schedule(comp, NULL);
      hl_changed(p);
    }
  return pass_control_dep_remover(p) && pass_defuser(p) && pass_bf16_mixed_precision_removal(p) &&
         pass_sub_byte_size(p);
}

// --- AssumeGatherIndicesInBoundRewriteToCopy ----------------------------------------------------

static HlInst *drop_hint(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (!hl_is_call(inst, HL_CALL_IN_BOUND) || inst->n_operands == 0 ||
      !hl_shape_compatible(inst->shape, inst->operands[0]->shape))
    return NULL;
  return hl_b_unary(b, HL_OP_COPY, inst->operands[0]);
}

const HlRule rules_gather_hint[] = {
    {HL_OP_CUSTOM_CALL, drop_hint, "gather-hint", "AssumeGatherIndicesInBound(x) => copy(x)", ""},
    {0}};

// --- ReduceWindowToReduceAndBroadcast -----------------------------------------------------------

// The one dimension that every window covers whole; -1: another kind of window.
static int covered_dim(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  const HlShape *x = inst->operands[0]->shape;
  int found = -1;
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    if (w->stride != 1 || w->lhs_dilate != 1 || w->rhs_dilate != 1 || w->reversal)
      return -1;
    int64_t reach = x->dim[d] - 1;
    if (w->size == 1 && w->pad_low == 0 && w->pad_high == 0)
      continue;
    if (found >= 0 || w->size != 2 * reach + 1 || w->pad_low != reach || w->pad_high != reach)
      return -1;
    found = d;
  }
  return found;
}

static HlInst *reduce_and_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (inst->n_operands != 2 || !hl_shape_is_array(inst->shape) || hl_shape_is_dynamic(x->shape) ||
      hl_window(inst).n != x->shape->rank || !hl_shape_compatible(x->shape, inst->shape))
    return NULL;
  int64_t dim = covered_dim(inst), *kept = HL_ARRAY(p->arena, int64_t, x->shape->rank + 1);
  HlComp *reducer = hl_to_apply(inst);
  if (dim < 0 || !reducer_may_repeat(reducer, inst->operands[1]))
    return NULL;
  HlAttr attr = {.key = HL_A_DIMENSIONS,
                 .ints = hl_i64s_copy(hl_b_module(b)->arena, (HlI64s){&dim, 1})};
  HlInst *reduce = hl_b_op(b, HL_OP_REDUCE, NULL, 2, inst->operands, 1, &attr, 1, &reducer);
  int n = 0;
  for (int d = 0; d < x->shape->rank; d++)
    if (d != dim)
      kept[n++] = d;
  return reduce ? hl_b_broadcast(b, reduce, inst->shape->rank, inst->shape->dim, (HlI64s){kept, n})
                : NULL;
}

const HlRule rules_covering_window[] = {
    {HL_OP_REDUCE_WINDOW, reduce_and_broadcast, "covering-window",
     "reduce-window(x, init) => broadcast(reduce(x, init))",
     "one dimension is covered whole wherever the window stands; init is the identity"},
    {0}};
