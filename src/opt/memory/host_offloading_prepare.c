// opt/memory/host_offloading_prepare.c: before what the host computes is compiled for it.
//
// host-offloading-prepare-elide-move-to-host: the marks around it go, since it takes its inputs from
// wherever they are, and leaves its result where it is told to.
//
//   h = f32[8] custom-call(x), target="MoveToHost"
//   s = async-start(h), thread="host", calls=work         s = async-start(x), thread="host", calls=work
//   d = f32[8] async-done(s)                         =>   d = f32[8] async-done(s)
//   y = f32[8] custom-call(d), target="MoveToDevice"
//
// host-offloading-prepare-convert-to-custom-call: its call becomes a custom call, of which nobody
// asks that operands and parameters have the same layouts.
//
//   work (p) { c = call(p), to_apply=f }   =>   work (p) { c = custom-call(p), called_computations={f},
//                                                          custom_call_target="HostExecute" }

#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/ask/layouts.h"
#include "opt/memory/host_offload.h"
#include "opt/passes.h"

// The start of a call that runs on the host.
static bool starts_on_host(const HlInst *inst) {
  return inst->op == HL_OP_ASYNC_START && inst->n_calls == 1 &&
         strcmp(hl_attr_text(inst, HL_A_ASYNC_EXECUTION_THREAD), "host") == 0 &&
         hl_called(inst, 0)->root->op == HL_OP_CALL;
}

// --- elide-move-to-host -------------------------------------------------------------------------

static bool passes_on(const HlInst *inst) {
  return inst->op == HL_OP_OPT_BARRIER || inst->op == HL_OP_BITCAST || inst->op == HL_OP_RESHAPE;
}

// Takes away the marks behind the operands. `seen` is by id: from there on somebody has looked.
static void take_from_host(HlPass *p, const HlInst *start, bool *seen) {
  for (uint32_t k = 0; k < start->n_operands; k++) {
    HlInst *at = start->operands[k];
    while (passes_on(at) && at->n_operands == 1 && !seen[at->id]) {
      seen[at->id] = true;
      at = at->operands[0];
    }
    if (host_is_to_host(at))
      hl_replace(p, "to-host", at, at->operands[0]);
  }
}

// The result is in that memory, and the start says so, too.
static void put_result(HlInst *start, HlInst *done, int64_t space) {
  HlShapes *shapes = start->comp->module->shapes;
  const HlShape *whole = start->shape, **part = NULL;
  HlArena *arena = hl_arena_new();
  part = hl_arena_copy(arena, whole->element, sizeof *part * (size_t)whole->rank);
  part[1] = hl_with_memory_space(shapes, done->shape, space);
  hl_set_shape(done, part[1]);
  hl_set_shape(start, hl_shape_tuple(shapes, whole->rank, part));
  hl_arena_free(arena);
}

static void leave_on_device(HlPass *p, HlInst *start, HlInst *done) {
  int n = 0;
  for (const HlUse *use = done->first_use; use; use = use->next)
    n += host_is_to_device(use->user);
  HlInst **mark = HL_ARRAY(p->arena, HlInst *, n + 1);
  n = 0;
  for (const HlUse *use = done->first_use; use; use = use->next)
    if (host_is_to_device(use->user))
      mark[n++] = use->user;
  for (int k = 0; k < n; k++) {
    const int64_t space = hl_memory_space(mark[k]->shape);
    if (hl_replace(p, "to-device", mark[k], done) && space != hl_memory_space(done->shape))
      put_result(start, done, space);
  }
}

bool pass_host_prepare_elide(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    bool *seen = NULL;
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (!starts_on_host(inst))
        continue;
      if (!seen)
        seen = HL_ARRAY(p->arena, bool, comp->next_id + 1);
      take_from_host(p, inst, seen);
      HlInst *done = inst->first_use ? inst->first_use->user : NULL;
      if (done && done->op == HL_OP_ASYNC_DONE)
        leave_on_device(p, inst, done);
    }
  }
  return true;
}

// --- convert-to-custom-call ---------------------------------------------------------------------

// What the first custom call inside says of itself is said of the whole.
static void tell_frontend(HlInst *custom, const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    const HlAttr *said =
        inst->op == HL_OP_CUSTOM_CALL ? hl_attr(inst, HL_A_FRONTEND_ATTRIBUTES) : NULL;
    if (!said)
      continue;
    hl_set_attr(custom, said);
    return;
  }
}

static void execute_on_host(HlInst *call) {
  HlComp *work = call->comp, *comp = hl_to_apply(call);
  HlInst *custom = hl_inst_new(work, HL_OP_CUSTOM_CALL, call->shape, NULL, (int)call->n_operands,
                               call->operands);
  hl_set_calls(custom, 1, &comp);
  hl_set_call_target(custom, HL_CALL_HOST_EXECUTE);
  hl_set_loc(custom, call->loc);
  const HlAttr *aliasing = hl_attr(call, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  if (aliasing)
    hl_set_attr(custom, aliasing);
  tell_frontend(custom, comp);
  hl_set_root(work, custom);
  hl_erase(call);
}

bool pass_host_prepare_convert(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      HlInst *call = starts_on_host(inst) ? hl_called(inst, 0)->root : NULL;
      if (call && !call->first_use && !hl_has_control(call) && !call->comp->schedule &&
          hl_change(p, "host-execute", call, inst)) {
        execute_on_host(call);
        hl_changed(p);
      }
    }
  return true;
}
