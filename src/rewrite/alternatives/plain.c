// rewrite/alternatives/plain.c: calls of cuDNN's convolutions become convolutions again, for machines that have kernels for these
// but not cuDNN.
//
//   c = (f32[..], u8[0]) custom-call(x, k), custom_call_target="__cudnn$convForward", window=.., dim_labels=..
//   y = f32[..] get-tuple-element(c), index=0          =>     y = f32[..] convolution(x, k), window=.., dim_labels=..
//
// Gradients, whose calls describe the forward convolution, and convolutions with more in them stay calls.

#include "hilo/custom_calls.h"
#include "rewrite/alternatives/proposals.h"

static bool can_be_plain(const HlInst *call) {
  if (!hl_is_call(call, HL_CALL_CONV) || call->n_operands != 2 || !hl_shape_is_tuple(call->shape) ||
      call->shape->rank < 1 || !hl_shape_is_array(call->shape->element[0]) ||
      hl_has_control(call) || call == call->comp->root)
    return false;
  for (const HlUse *use = call->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(use->user, HL_A_INDEX) != 0 ||
        hl_has_control(use->user))
      return false;
  return call->first_use != NULL;
}

static void make_plain(HlInst *call) {
  static const HlAttrKey kept[] = {HL_A_WINDOW, HL_A_DIM_LABELS, HL_A_FEATURE_GROUP_COUNT,
                                   HL_A_OPERAND_PRECISION};
  HlModule *m = call->comp->module;
  HlInst *conv = hl_inst_new(call->comp, HL_OP_CONVOLUTION, call->shape->element[0],
                             hl_fresh_name(m, "convolution"), 2, call->operands);
  for (int k = 0; k < HL_COUNT_OF(kept); k++)
    if (hl_has_attr(call, kept[k]))
      hl_set_attr(conv, hl_attr(call, kept[k]));
  while (call->first_use) {
    HlInst *element = call->first_use->user;
    hl_replace_uses(element, conv);
    hl_erase(element);
  }
  hl_erase(call);
}

void hl_plain_convolutions(HlModule *m) {
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (inst->op != HL_OP_CUSTOM_CALL || !can_be_plain(inst))
        continue;
      make_plain(inst);
      next = comp->first;  // lists were changed; what has been made plain is no call any more
    }
}
