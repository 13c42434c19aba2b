// ir/journal.c: what has been touched since when, by computation.

#include <string.h>

#include "ir/state.h"

void hl_journal(HlModule *m, bool keep) {
  ir_module_state(m)->keeps_journal = keep;
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    ir_note_comp(comp);
    ir_buf_drop(ir_undo_comp(comp), &ir_comp_state(comp)->touched);
    ir_comp_state(comp)->n_seen = 0;
  }
}

static HlTouched entries(const HlBuf *touched) {
  return (HlTouched){(const uint32_t *)(const void *)touched->at, touched->n / sizeof(uint32_t)};
}

HlTouched hl_touched(const HlComp *comp) {
  const HlTouched all = entries(&ir_comp_state(comp)->touched);
  ir_note_comp((HlComp *)comp);
  ir_comp_state(comp)->n_seen = all.n;
  return all;
}

void hl_touched_cut(HlComp *comp, size_t n) {
  HlBuf *touched = &ir_comp_state(comp)->touched;
  const size_t size = n * sizeof(uint32_t);
  if (size >= touched->n)
    return;
  ir_note_comp(comp);
  if (ir_undo_comp(comp))
    base_undo_bytes(ir_undo_comp(comp), touched->at + size, touched->n - size);
  touched->n = size;
}

// What happens to one instruction several times in a row is told once, unless somebody has read on
// meanwhile.
static void tell(const HlInst *inst, uint32_t what) {
  CompState *state = ir_comp_state(inst->comp);
  const HlTouched before = entries(&state->touched);
  if (before.n > state->n_seen && before.id[before.n - 1] == what)
    return;
  ir_note_comp(inst->comp);
  memcpy(base_undo_push(ir_undo_comp(inst->comp), &state->touched, sizeof what), &what,
         sizeof what);
}

static bool keeps_journal(const HlInst *inst) {
  return ir_module_state(inst->comp->module)->keeps_journal;
}

void hl_touch(HlInst *inst) {
  if (keeps_journal(inst))
    tell(inst, inst->id);
}

void ir_touch_used(HlInst *used) {
  if (keeps_journal(used))
    tell(used, used->id | HL_LOST_USE);
}
