// opt/gpu/stream_attribute_annotator.c
//
// stream-attribute-annotator: notes on instructions in which of a GPU's queues they are put. Queue 0 takes
// what runs one after the other.
//
//   calls={ ROOT all-reduce(..),                     f = fusion(x), calls=...,
//     backend_config={"operation_queue_id":"1"} }  =>    backend_config={"operation_queue_id":"1"}
//
// A fusion goes where its root says. With a schedule, copies that are started and then waited for, and
// slices inside asynchronous computations, get a queue of their own; such a slice becomes a fusion, since
// it is fusions that become kernels.

#include <stdlib.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/loops.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

static int64_t queue_of(HlPass *p, const HlInst *inst) {
  return hl_queue_config(p->arena, inst).queue.value;
}

static void set_queue(HlPass *p, HlInst *inst, int64_t queue) {
  HlQueueConfig config = hl_queue_config(p->arena, inst);
  config.queue = (HlMaybeInt){true, queue};
  hl_set_queue_config(p->arena, inst, &config);
}

// The queue of the root, if nothing before it is to run in yet another one; 0: none.
static int64_t queue_of_root(HlPass *p, const HlComp *body) {
  const int64_t queue = body->root->op == HL_OP_TUPLE ? 0 : queue_of(p, body->root);
  for (const HlInst *inst = body->first; inst && queue != 0; inst = inst->next) {
    const int64_t other = queue_of(p, inst);
    if (other != 0 && other != queue)
      return 0;
  }
  return queue;
}

static void annotate(HlPass *p, HlInst *inst, int64_t queue) {
  if (queue == 0 || queue_of(p, inst) != 0 || !hl_change(p, "annotate", inst, NULL))
    return;
  set_queue(p, inst, queue);
  hl_changed(p);
}

static void wrap(HlPass *p, HlInst *slice, int64_t queue) {
  if (!hl_change(p, "wrap", slice, NULL))
    return;
  const char *name = hl_arena_printf(p->arena, "wrapped_%s", hl_op_text((HlOp)slice->op));
  const char *body = hl_arena_printf(p->arena, "%s_computation", name);
  set_queue(p,
            fusion_wrap(p->arena, slice, gpu_kind(gpu_emitter(gpu_target(p), slice)), name, body),
            queue);
  hl_changed(p);
}

static void visit(HlPass *p, HlInst *inst) {
  const int64_t queue = *(const int64_t *)p->user;
  switch (inst->op) {
  case HL_OP_FUSION: annotate(p, inst, queue_of_root(p, hl_called(inst, 0))); break;
  case HL_OP_COPY_START:
    if (p->m->is_scheduled)
      annotate(p, inst, queue);
    break;
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_DYNAMIC_UPDATE_SLICE:
    if (p->m->is_scheduled && async_is_body(inst->comp) && !hl_has_control(inst))
      wrap(p, inst, queue);
    break;
  default: break;
  }
}

bool pass_stream_attribute_annotator(HlPass *p) {
  // The channels that collectives use have queues, too.
  int64_t queue = hl_free_channel(p->m);
  p->user = &queue;
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, visit);
  return true;
}
