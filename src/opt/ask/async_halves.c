// opt/ask/async_halves.c: the start and the end of an instruction that is taken apart.
#include "opt/ask/async_halves.h"

#include "hilo/edit.h"

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

bool async_commit(HlPass *p, const HlInst *whole, HlInst *start, HlInst *done) {
  for (int k = 0; whole->control && k < whole->control->n_preds; k++)
    hl_add_control(whole->control->preds[k], start);
  if (!hl_commit(p, done))
    return false;
  for (int k = done->control ? done->control->n_preds : 0; k-- > 0;)
    hl_remove_control(done->control->preds[k], done);
  return true;
}
