// opt/gpu/queue_wrappers.c: work that the program or an earlier pass has put into a queue of its own starts, and is waited for
// later.
//
// explicit-stream-annotation-async-wrapper: what the program marked, frontend_attributes={_xla_stream_annotation="1"}
//
//   y = f32[8] sine(x)        called { ROOT sine(p) }   work { ROOT y' = call(p), to_apply=called }
//                        =>   s = ((f32[8]), f32[8]) async-start(x), calls=work      y = f32[8] async-done(s)
//
// A call is started as it is. The mark, and that of a scheduling group, stay on the two halves alone.
//
// async-stream-attribute-wrapper: what its configuration puts into another queue than 0 ("operation_queue_id").
//
// Neither looks into bodies of fusions, what these call, nor bodies of asynchronous operations, which have started already.

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

// --- What may start -----------------------------------------------------------------------------

// Marks bodies of fusions and what is called there, however deep. Callers stand behind what they call.
static bool *find_fused(HlPass *p) {
  bool *fused = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->last; comp; comp = comp->prev) {
    fused[comp->id] = comp->is_fusion;
    for (const HlCall *call = comp->first_call; call && !fused[comp->id]; call = call->next)
      fused[comp->id] = fused[call->caller->comp->id];
  }
  return fused;
}

static bool is_half(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return hl_is_async(op) || hl_op_half(op) != HL_HALF_NONE;
}

// All that `is` says may start, callers first: what a call brings along loses its marks before it is looked at.
static void start_all(HlPass *p, bool (*is)(HlPass *p, const HlInst *inst),
                      void (*start)(HlPass *p, HlInst *inst)) {
  p->relay_control = true;
  int n, n_insts;
  const bool *fused = find_fused(p);
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = n; c-- > 0;) {
    if (comps[c]->schedule || fused[comps[c]->id] || async_is_body(comps[c]))
      continue;
    HlInst **insts = hl_pass_insts(p, comps[c], &n_insts);
    for (int k = 0; k < n_insts; k++)
      if (hl_alive(insts[k]) && !is_half(insts[k]) && is(p, insts[k]))
        start(p, insts[k]);
  }
}

// --- explicit-stream-annotation-async-wrapper ---------------------------------------------------

static const char mark[] = "_xla_stream_annotation";

static bool is_marked(HlPass *p, const HlInst *inst) {
  (void)p;
  return frontend_has(inst, mark) && !hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE);
}

static void remove_marks(HlInst *inst) {
  frontend_remove(inst, mark);
  frontend_remove(inst, "_scheduling_group_id");
}

static HlInst *call_alone(HlPass *p, HlBuild *b, const HlInst *inst) {
  HlBuild inner = hl_b_nested(b, "called_computation");
  HlInst **param = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    param[k] =
        hl_b_parameter(&inner, inst->operands[k]->shape, hl_arena_printf(p->arena, "param_%u", k));
  HlInst *copy = hl_inst_copy(inner.comp, inst, NULL, (int)inst->n_operands, param);
  hl_remove_attr(copy, HL_A_FRONTEND_ATTRIBUTES);
  hl_set_root(inner.comp, copy);
  return hl_b_call(b, inner.comp, (int)inst->n_operands, inst->operands);
}

static void start_marked(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "stream", inst, &b);
  const bool is_call = inst->op == HL_OP_CALL;
  HlInst *call = is_call ? inst : call_alone(p, &b, inst);
  HlInst *start = async_start(p, &b, call, NULL);
  HlInst *done = hl_inst_new(b.comp, HL_OP_ASYNC_DONE, inst->shape, NULL, 1, &start);
  HlInst *started = hl_called(start, 0)->root;
  async_inherit(start, inst);
  async_inherit(done, inst);
  remove_marks(started);
  if (!is_call) {  // what the configuration says is said of the work itself
    hl_erase(call);
    hl_remove_attr(start, HL_A_BACKEND_CONFIG);
    hl_remove_attr(done, HL_A_BACKEND_CONFIG);
  }
  async_wait_late(p, done);
  if (!async_commit(p, inst, start, done))
    return;
  for (HlInst *inner = hl_to_apply(started)->first; inner; inner = inner->next)
    remove_marks(inner);
}

bool pass_stream_annotation_wrapper(HlPass *p) {
  start_all(p, is_marked, start_marked);
  return true;
}

// --- async-stream-attribute-wrapper -------------------------------------------------------------

static bool has_own_queue(HlPass *p, const HlInst *inst) {
  return hl_queue_config(p->arena, inst).queue.value != 0;
}

static void start_queued(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "queue", inst, &b);
  async_finish(p, &b, inst, async_start(p, &b, inst, NULL));
}

bool pass_stream_attribute_wrapper(HlPass *p) {
  start_all(p, has_own_queue, start_queued);
  return true;
}
