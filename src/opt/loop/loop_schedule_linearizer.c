// opt/loop/loop_schedule_linearizer.c
//
// loop-schedule-linearizer: where a body overwrites a part of a slot, whatever else reads the slot
// is made to go first, by control edges: the write can then happen in place and no copy of the slot
// is needed.
//
//   r = f(a)                                  r = f(a)
//   w = dynamic-update-slice(a, ...)     =>   w = dynamic-update-slice(a, ...),
//                                                 control-predecessors={r}

#include "opt/ask/loops.h"
#include "opt/passes.h"

// The instruction that writes into slot k in place, or NULL.
static HlInst *writer_of(const HlInst *loop, int k) {
  HlInst *inst = loop_next(loop, k);
  bool writes = inst->op == HL_OP_DYNAMIC_UPDATE_SLICE ||
                (inst->op == HL_OP_SCATTER && hl_shape_is_array(inst->shape));
  return writes && loop_slot_of(inst->operands[0]) == k ? inst : NULL;
}

// What depends on an instruction, by id.
static bool *find_dependents(HlPass *p, HlInst *from) {
  bool *depends = HL_ARRAY(p->arena, bool, from->comp->next_id);
  HlInst **waiting = HL_ARRAY(p->arena, HlInst *, from->comp->n_insts + 1);
  int n = 0;
  waiting[n++] = from;
  depends[from->id] = true;
  while (n > 0) {
    HlInst *inst = waiting[--n];
    for (HlUse *use = inst->first_use; use; use = use->next)
      if (!depends[use->user->id]) {
        depends[use->user->id] = true;
        waiting[n++] = use->user;
      }
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      if (!depends[inst->control->succs[k]->id]) {
        depends[inst->control->succs[k]->id] = true;
        waiting[n++] = inst->control->succs[k];
      }
  }
  return depends;
}

static bool goes_before(const HlInst *first, const HlInst *then) {
  for (uint32_t k = 0; k < then->n_operands; k++)
    if (then->operands[k] == first)
      return true;
  for (int k = 0; then->control && k < then->control->n_preds; k++)
    if (then->control->preds[k] == first)
      return true;
  return false;
}

// The readers of slot k beside its writer and the root. -1: one of them needs what is written, so
// that a copy cannot be helped.
static int find_readers(const LoopElements *elements, int k, const HlInst *writer,
                        const bool *depends, HlInst **out) {
  int n = 0;
  for (HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    for (HlUse *read = inst->first_use; read; read = read->next) {
      HlInst *reader = read->user;
      if (reader == writer && read->number == 0)
        continue;
      if (depends[reader->id])
        return -1;
      if (n == 0 || out[n - 1] != reader)
        out[n++] = reader;
    }
  return n;
}

static int count_readers(const LoopElements *elements, int k) {
  int n = 0;
  for (HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    for (HlUse *read = inst->first_use; read; read = read->next)
      n++;
  return n;
}

// A slot whose only reader is its writer needs no order, and no search.
static void order_slot(HlPass *p, const HlInst *loop, const LoopElements *elements, int k) {
  HlInst *writer = writer_of(loop, k);
  int most = writer ? count_readers(elements, k) : 0;
  if (most < 2)
    return;
  const bool *depends = find_dependents(p, writer);
  HlInst **readers = HL_ARRAY(p->arena, HlInst *, most);
  int n = find_readers(elements, k, writer, depends, readers), n_new = 0;
  for (int j = 0; j < n; j++)
    if (!goes_before(readers[j], writer))
      readers[n_new++] = readers[j];
  if (n_new == 0 || !hl_change(p, "read-first", writer, readers[0]))
    return;
  for (int j = 0; j < n_new; j++)
    hl_add_control(readers[j], writer);
  hl_changed(p);
}

static void order_loop(HlPass *p, const HlInst *loop) {
  LoopElements elements = loop_elements(p, hl_while_body(loop));
  for (int k = 0; !elements.has_other && k < loop_slots(loop); k++) {
    HlMark mark = hl_arena_mark(p->arena);
    order_slot(p, loop, &elements, k);
    hl_arena_release(p->arena, mark);
  }
}

bool pass_loop_schedule_linearizer(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++)
    if (loop_is_plain(loops[k]))
      order_loop(p, loops[k]);
  return true;
}
