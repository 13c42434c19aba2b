// opt/ask/async_halves.c: the start and the end of an instruction that is taken apart.
#include "opt/ask/async_halves.h"

#include "hilo/edit.h"
#include "ir/backend_config.h"

bool async_is_body(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (hl_op_info[call->caller->op].traits & HL_T_ASYNC)
      return true;
  return false;
}

void async_inherit(HlInst *half, const HlInst *whole) {
  const HlAttr *config = hl_attr(whole, HL_A_BACKEND_CONFIG);
  hl_inherit(half, whole);
  hl_remove_attr(half, HL_A_SHARDING);
  if (config)
    hl_set_attr(half, config);
}

const HlShape *async_operand_shapes(HlPass *p, const HlInst *inst) {
  const HlShape **shape = HL_ARRAY(p->arena, const HlShape *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    shape[k] = inst->operands[k]->shape;
  return hl_shape_tuple(p->m->shapes, (int)inst->n_operands, shape);
}

HlInst *async_start(HlPass *p, HlBuild *b, const HlInst *inst, const HlShape *context) {
  HlBuild inner = hl_b_nested(b, "async_computation");
  HlInst **param = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    param[k] =
        hl_b_parameter(&inner, inst->operands[k]->shape, hl_arena_printf(p->arena, "param_%u", k));
  hl_set_root(inner.comp, hl_inst_copy(inner.comp, inst, NULL, (int)inst->n_operands, param));
  const HlShape *parts[3] = {async_operand_shapes(p, inst), inst->shape, context};
  HlInst *start =
      hl_inst_new(b->comp, HL_OP_ASYNC_START, hl_shape_tuple(p->m->shapes, context ? 3 : 2, parts),
                  NULL, (int)inst->n_operands, inst->operands);
  hl_set_calls(start, 1, &inner.comp);
  return start;
}

void async_wait_late(HlPass *p, HlInst *done) {
  HlQueueConfig config = hl_queue_config(p->arena, done);
  config.earliest = HL_OFF;
  hl_set_queue_config(p->arena, done, &config);
}

static void wait_for_nothing(HlInst *inst) {
  for (int k = inst->control ? inst->control->n_preds : 0; k-- > 0;)
    hl_remove_control(inst->control->preds[k], inst);
}

void async_hand_on(HlInst *from, HlInst *to) {
  wait_for_nothing(from);
  for (int k = from->control ? from->control->n_succs : 0; k-- > 0;) {
    HlInst *succ = from->control->succs[k];
    hl_remove_control(from, succ);
    hl_add_control(to, succ);
  }
}

bool async_commit(HlPass *p, const HlInst *whole, HlInst *start, HlInst *done) {
  for (int k = 0; whole->control && k < whole->control->n_preds; k++)
    hl_add_control(whole->control->preds[k], start);
  if (!hl_commit(p, done))
    return false;
  wait_for_nothing(done);
  return true;
}

bool async_finish(HlPass *p, HlBuild *b, const HlInst *whole, HlInst *start) {
  HlInst *done = hl_inst_new(b->comp, HL_OP_ASYNC_DONE, whole->shape, NULL, 1, &start);
  async_inherit(start, whole);
  async_inherit(done, whole);
  async_wait_late(p, done);
  return async_commit(p, whole, start, done);
}
