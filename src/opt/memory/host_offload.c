// opt/memory/host_offload.c: the marks MoveToHost and MoveToDevice, and what may stand between them and what they are for.

#include "opt/memory/host_offload.h"
#include "ir/vecs.h"

#include <string.h>

#include "opt/ask/layouts.h"

bool host_is_mark(const HlInst *inst, HlCallTarget target) {
  return hl_is_call(inst, target) && inst->n_operands == 1 && hl_shape_is_array(inst->shape) &&
         hl_shape_compatible(inst->shape, inst->operands[0]->shape);
}

bool host_forwards(HlOp op) {
  return hl_op_is(op, HL_T_WIRE | HL_T_CONTROL);
}

bool host_is_free_reshape(const HlInst *inst) {
  return inst->op == HL_OP_RESHAPE && hl_reshape_is_bitcast(inst->operands[0]->shape, inst->shape);
}

bool host_is_transparent(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) &&
         (inst->op == HL_OP_BITCAST || inst->op == HL_OP_COPY || host_is_free_reshape(inst));
}

bool host_is_step(const HlComp *comp) {
  if (comp->is_fusion || (!comp->first_call && comp != comp->module->entry))
    return false;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op != HL_OP_WHILE && call->caller->op != HL_OP_CALL &&
        call->caller->op != HL_OP_CONDITIONAL)
      return false;
  return true;
}

bool host_leads_only(HlInst *from, bool (*is_end)(const HlUse *use),
                     void (*visit)(void *user, HlInst *end), void *user) {
  InstVec todo = {0};
  bool only = true;
  vec_push(&todo, from);
  while (only && todo.n > 0) {
    HlInst *inst = vec_pop(&todo);
    only = inst->first_use != NULL && inst != inst->comp->root;
    for (const HlUse *use = inst->first_use; only && use; use = use->next) {
      if (!is_end(use)) {
        only = host_is_transparent(use->user);
        vec_push(&todo, use->user);
      } else if (visit) {
        visit(user, use->user);
      }
    }
  }
  vec_free(&todo);
  return only;
}

bool host_is_part_of_update(const HlUse *use) {
  return use->user->op == HL_OP_DYNAMIC_UPDATE_SLICE && use->number == 1;
}
