// opt/collective/async_collective_replacer.c: async-collective-replacer: makes started collectives ordinary
// ones, for machines that have nothing to do meanwhile.
//
//   s = f32[4] all-reduce-start(x), ...
//   d = f32[4] all-reduce-done(s)                =>   d = f32[4] all-reduce(x), ...

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/passes.h"

static bool finishes_collective(HlOp op) {
  return hl_op_half(op) == HL_HALF_DONE && hl_op_is(hl_op_plain(op), HL_T_COLLECTIVE);
}

// A computation that is one collective of its parameters: that collective; else NULL.
static const HlInst *lone_collective(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (!(hl_op_info[root->op].traits & HL_T_COLLECTIVE) ||
      comp->n_insts != (uint32_t)comp->n_params + 1)
    return NULL;
  return root;
}

static HlInst *sync_form(HlPass *p, HlInst *start, const HlInst *done) {
  if (start->op != HL_OP_ASYNC_START) {
    HlInst *sync = hl_inst_new(start->comp, hl_op_plain((HlOp)done->op), done->shape,
                               hl_fresh_name(p->m, start->name->text), (int)start->n_operands,
                               start->operands);
    hl_copy_attrs(sync, start);
    HlComp *called = start->n_calls == 1 ? hl_called(start, 0) : NULL;
    if (called)
      hl_set_calls(sync, 1, &called);
    return sync;
  }
  const HlInst *wrapped = lone_collective(hl_called(start, 0));
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, wrapped->n_operands + 1);
  for (uint32_t k = 0; k < wrapped->n_operands; k++)
    operands[k] = start->operands[hl_parameter_number(wrapped->operands[k])];
  return hl_inst_copy(start->comp, wrapped, done->shape, (int)wrapped->n_operands, operands);
}

// The start of a collective that this instruction waits for, or NULL.
static HlInst *start_of(const HlInst *done) {
  if (finishes_collective((HlOp)done->op))
    return done->operands[0];
  if (done->op != HL_OP_ASYNC_DONE)
    return NULL;
  HlInst *at = done->operands[0];
  while (at->op == HL_OP_ASYNC_UPDATE)
    at = at->operands[0];
  return at->op == HL_OP_ASYNC_START && at->n_calls == 1 && lone_collective(hl_called(at, 0))
             ? at
             : NULL;
}

// Marks of order between the halves of a collective have no meaning for the whole.
static void erase_order_marks(HlPass *p, HlInst *inst) {
  for (HlUse *use = inst->first_use, *next; use; use = next) {
    HlInst *user = use->user;
    next = use->next;
    while (next && next->user == user)
      next = next->next;
    if (user->op == HL_OP_CUSTOM_CALL && !user->first_use && user != user->comp->root &&
        hl_is_call(user, HL_CALL_CONTROL_DEP))
      hl_remove(p, "order-mark", user);
  }
}

// Erases the start and the updates of it once nobody waits for them.
static void erase_chain(HlInst *from) {
  while (hl_alive(from) && !from->first_use && from != from->comp->root) {
    HlInst *before = from->op == HL_OP_ASYNC_UPDATE ? from->operands[0] : NULL;
    hl_erase(from);
    if (!before)
      return;
    from = before;
  }
}

static void replace(HlPass *p, HlInst *done) {
  HlInst *start = done->n_operands == 1 ? start_of(done) : NULL;
  if (!start)
    return;
  HlInst *last = done->operands[0];
  erase_order_marks(p, start);
  erase_order_marks(p, done);
  HlBuild b;
  hl_begin(p, "sync", done, &b);
  HlInst *sync = sync_form(p, start, done);
  for (int k = 0; start->control && k < start->control->n_preds; k++)
    hl_add_control(start->control->preds[k], sync);
  if (hl_commit(p, sync))
    erase_chain(last);
}

bool pass_async_collective_replacer(HlPass *p) {
  p->relay_control = true;
  p->keep_operands = true;
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, replace);
  return true;
}
