// opt/loop/loop_schedule_linearizer.c
//
// loop-schedule-linearizer: whatever reads a slot is made to go before what makes the slot's next value, by control edges: the
// write can then happen in place and no copy of the slot is needed.
//
//   r = f(a)                                  r = f(a)
//   w = dynamic-update-slice(a, ...)     =>   w = dynamic-update-slice(a, ...),
//                                                 control-predecessors={r}

#include "base/vec.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// What makes the next value of slot k, or NULL where nothing does or something called does. A tuple's element is made with it.
static HlInst *writer_of(const HlInst *loop, int k) {
  HlInst *inst = loop_next(loop, k);
  while (inst->op == HL_OP_BITCAST || inst->op == HL_OP_GET_TUPLE_ELEMENT)
    inst = inst->operands[0];
  const bool hands_on = inst->op == HL_OP_PARAMETER || inst->op == HL_OP_TUPLE ||
                        inst->op == HL_OP_CALL || inst->op == HL_OP_OPT_BARRIER ||
                        hl_op_half((HlOp)inst->op) != HL_HALF_NONE;
  return hands_on ? NULL : inst;
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
  for (int k = 0; then->control && k < then->control->n_preds; k++)
    if (then->control->preds[k] == first)
      return true;
  return false;
}

typedef struct Readers {
  const HlInst *writer;
  const bool *depends;  // on the writer
  VEC(HlInst *) all;
} Readers;

// Those of a value that have no edge to the writer yet. What needs what is written cannot go first: the copy cannot be helped.
static void find_readers(HlPass *p, Readers *readers, const HlInst *value) {
  for (const HlUse *use = value->first_use; use; use = use->next) {
    HlInst *reader = use->user;
    bool is_new = reader != readers->writer && !readers->depends[reader->id] &&
                  !goes_before(reader, readers->writer);
    for (int k = 0; is_new && k < readers->all.n; k++)
      is_new = readers->all.at[k] != reader;
    if (is_new)
      vec_push_in(p->arena, &readers->all, reader);
  }
}

// A slot whose only reader is its writer needs no order, and no search.
static bool has_other_reader(const LoopElements *elements, int k, const HlInst *writer) {
  for (HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    for (const HlUse *use = inst->first_use; use; use = use->next)
      if (use->user != writer && use->user != inst->comp->root)
        return true;
  return false;
}

static void order_slot(HlPass *p, const HlInst *loop, const LoopElements *elements, int k) {
  HlInst *writer = writer_of(loop, k);
  if (!writer || !has_other_reader(elements, k, writer))
    return;
  Readers readers = {.writer = writer, .depends = find_dependents(p, writer)};
  for (HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    find_readers(p, &readers, inst);
  for (int j = 0; j < readers.all.n; j++)
    if (readers.all.at[j]->op == HL_OP_BITCAST)
      find_readers(p, &readers, readers.all.at[j]);
  if (readers.all.n == 0 || !hl_change(p, "read-first", writer, readers.all.at[0]))
    return;
  for (int j = 0; j < readers.all.n; j++)
    hl_add_control(readers.all.at[j], writer);
  hl_changed(p);
}

static bool is_async_collective(const HlInst *inst) {
  if (hl_op_half((HlOp)inst->op) == HL_HALF_NONE)
    return false;
  const HlOp op = hl_op_is((HlOp)inst->op, HL_T_ASYNC) && inst->n_calls > 0
                      ? (HlOp)inst->calls[0].comp->root->op
                      : hl_op_plain((HlOp)inst->op);
  return hl_op_is(op, HL_T_COLLECTIVE) || op == HL_OP_SEND || op == HL_OP_RECV;
}

// There the edges would keep computation from going on beside communication.
static bool has_async_collectives(const HlComp *body) {
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    if (is_async_collective(inst))
      return true;
  return false;
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
    if (loop_is_plain(loops[k]) && !has_async_collectives(hl_while_body(loops[k])))
      order_loop(p, loops[k]);
  return true;
}
