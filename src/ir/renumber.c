// ir/renumber.c: orders that a reader knows better than the order in which it built things.

#include <string.h>

#include "ir/state.h"

static void note_numbers(HlComp *comp) {
  const CompState *state = ir_comp_state(comp);
  BaseUndo *undo = ir_undo_comp(comp);
  ir_note_comp(comp);
  if (!undo)
    return;
  base_undo_bytes(undo, state->by_id.at, state->by_id.n);
  base_undo_bytes(undo, state->op.at, state->op.n);
  base_undo_bytes(undo, state->label.at, state->label.n);
}

void hl_set_creation_order(HlComp *comp, HlInst *const *order) {
  bool as_listed = true;
  CompState *state = ir_comp_state(comp);
  note_numbers(comp);
  memset(comp->by_id, 0, sizeof *comp->by_id * comp->next_id);
  const HlInst *listed = comp->first;
  for (uint32_t k = 0; k < comp->n_insts; k++, listed = listed->next) {
    as_listed &= listed == order[k];
    BASE_SET(ir_undo_of(order[k]), order[k]->id, k);
    BASE_SET(ir_undo_of(order[k]), order[k]->order, k);
    comp->by_id[k] = order[k];
  }
  comp->next_id = comp->next_order = comp->n_insts;
  state->op.n = 0;
  for (uint32_t k = 0; k < comp->n_insts; k++)
    ir_op_note(order[k]);
  state->by_id.n = sizeof(HlInst *) * comp->n_insts;
  state->label.n = 0;
  if (!as_listed)
    ir_relabel(comp);
}
