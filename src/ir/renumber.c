// ir/renumber.c: orders that a reader knows better than the order in which it built things.

#include <string.h>

#include "ir/state.h"

void hl_set_creation_order(HlComp *comp, HlInst *const *order) {
  bool as_listed = true;
  memset(comp->by_id, 0, sizeof *comp->by_id * comp->next_id);
  const HlInst *listed = comp->first;
  for (uint32_t k = 0; k < comp->n_insts; k++, listed = listed->next) {
    as_listed &= listed == order[k];
    order[k]->id = order[k]->order = k;
    comp->by_id[k] = order[k];
  }
  comp->next_id = comp->next_order = comp->n_insts;
  CompState *state = ir_comp_state(comp);
  state->op.n = 0;
  for (uint32_t k = 0; k < comp->n_insts; k++)
    ir_op_note(order[k]);
  state->by_id.n = sizeof(HlInst *) * comp->n_insts;
  state->label.n = 0;
  if (!as_listed)
    ir_relabel(comp);
}
