// ir/journal.c: what has been touched since when, by computation.

#include "ir/state.h"

void hl_journal(HlModule *m, bool keep) {
  ir_module_state(m)->keeps_journal = keep;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    hl_buf_free(&ir_comp_state(comp)->touched);
}

HlTouched hl_touched(const HlComp *comp) {
  const HlBuf *touched = &ir_comp_state(comp)->touched;
  return (HlTouched){(const uint32_t *)(const void *)touched->at, touched->n / sizeof(uint32_t)};
}

void hl_touched_cut(HlComp *comp, size_t n) {
  HlBuf *touched = &ir_comp_state(comp)->touched;
  if (n * sizeof(uint32_t) < touched->n)
    touched->n = n * sizeof(uint32_t);
}

// What happens to one instruction several times in a row is told once.
static void tell(const HlInst *inst, uint32_t what) {
  if (!ir_module_state(inst->comp->module)->keeps_journal)
    return;
  HlBuf *touched = &ir_comp_state(inst->comp)->touched;
  const HlTouched before = hl_touched(inst->comp);
  if (before.n == 0 || before.id[before.n - 1] != what)
    hl_buf_add(touched, &what, sizeof what);
}

void hl_touch(HlInst *inst) {
  tell(inst, inst->id);
}

void ir_touch_used(HlInst *used) {
  tell(used, used->id | HL_LOST_USE);
}
