// opt/memory/host_compute.c
//
// host_compute_asyncifier: calls that are marked to run on the host start there, and are waited for later, so that
// the GPU goes on meanwhile.
//
//   y = f32[8] call(x, c), to_apply=f,               work { ROOT y = call(p), to_apply=f' }   thread "host"
//     backend_config={"device_type":            =>   s = ((f32[8]), f32[8], u32[]) async-start(x), calls=work
//                       "DEVICE_TYPE_HOST"}          y = f32[8] async-done(s)
//
// Constants go along into f', and tuples are sent by their elements.

#include <string.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/loops.h"
#include "opt/memory/host_offload.h"
#include "opt/passes.h"

static bool runs_on_host(HlPass *p, const HlInst *call) {
  return hl_queue_config(p->arena, call).device == HL_DEVICE_HOST;
}

// What is sent, and the computation that gets it.
typedef struct Parcel {
  HlBuild *b;     // where the call stands
  HlBuild inner;  // f'
  HlInst **sent;
  int n, room;
} Parcel;

static void send(HlPass *p, Parcel *parcel, HlInst *array) {
  if (parcel->n == parcel->room) {
    parcel->room = 2 * parcel->room + 8;
    HlInst **grown = HL_ARRAY(p->arena, HlInst *, parcel->room);
    if (parcel->n > 0)
      memcpy(grown, parcel->sent, (size_t)parcel->n * sizeof *grown);
    parcel->sent = grown;
  }
  parcel->sent[parcel->n++] = array;
}

// What stands inside for a value outside. Goes as deep as tuples are nested.
static HlInst *inside(HlPass *p, Parcel *parcel, HlInst *value) {
  const HlInst *constant = host_is_to_host(value) ? value->operands[0] : value;
  if (constant->op == HL_OP_CONSTANT)
    return hl_inst_copy(parcel->inner.comp, constant, NULL, 0, NULL);
  if (!hl_shape_is_tuple(value->shape)) {
    send(p, parcel, value);
    return hl_b_parameter(&parcel->inner, value->shape, NULL);
  }
  const int n = value->shape->rank;
  HlInst **part = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    part[k] = inside(p, parcel, hl_b_element(parcel->b, value, k));
  return hl_b_tuple(&parcel->inner, n, part);
}

// The call alone in a computation.
static HlComp *call_alone(HlPass *p, const Parcel *parcel, const HlInst *call) {
  HlBuild b = hl_b_nested(parcel->b, "async_computation");
  HlInst **param = HL_ARRAY(p->arena, HlInst *, parcel->n + 1);
  for (int k = 0; k < parcel->n; k++)
    param[k] = hl_b_parameter(&b, parcel->sent[k]->shape, hl_arena_printf(p->arena, "param_%d", k));
  HlInst *copy = hl_inst_copy(b.comp, call, NULL, parcel->n, param);
  hl_set_calls(copy, 1, &(HlComp *){parcel->inner.comp});
  hl_set_root(b.comp, copy);
  return b.comp;
}

static void set_thread(HlComp *comp) {
  hl_comp_set_thread(comp, hl_sym(comp->module, "host"));
}

static HlInst *start(HlPass *p, HlBuild *b, HlInst *call) {
  HlComp *callee = hl_to_apply(call);
  Parcel parcel = {.b = b, .inner = hl_b_nested(b, callee->name->text)};
  HlInst **arg = HL_ARRAY(p->arena, HlInst *, call->n_operands + 1);
  for (uint32_t k = 0; k < call->n_operands; k++)
    arg[k] = inside(p, &parcel, call->operands[k]);
  // What it calls may be called by the device, too, which is another thread.
  HlComp *own = hl_comp_copy(p->m, callee, "host", true, NULL);
  hl_set_root(parcel.inner.comp,
              hl_graft(parcel.inner.comp, own, (int)call->n_operands, arg, NULL));
  hl_comp_erase(own);
  HlComp *work = call_alone(p, &parcel, call);
  set_thread(parcel.inner.comp);
  set_thread(work);
  const HlShape **shape = HL_ARRAY(p->arena, const HlShape *, parcel.n + 1);
  for (int k = 0; k < parcel.n; k++)
    shape[k] = parcel.sent[k]->shape;
  const HlShape *parts[3] = {hl_shape_tuple(p->m->shapes, parcel.n, shape), call->shape,
                             hl_shape_scalar(p->m->shapes, HL_U32)};
  HlInst *made = hl_inst_new(b->comp, HL_OP_ASYNC_START, hl_shape_tuple(p->m->shapes, 3, parts),
                             NULL, parcel.n, parcel.sent);
  hl_set_calls(made, 1, &work);
  hl_set_text(made, HL_A_ASYNC_EXECUTION_THREAD, "host");
  async_inherit(made, call);
  return made;
}

static void run_on_host(HlPass *p, HlInst *call) {
  HlBuild b;
  hl_begin(p, "host", call, &b);
  HlInst *started = start(p, &b, call);
  HlInst *done = hl_inst_new(b.comp, HL_OP_ASYNC_DONE, call->shape, NULL, 1, &started);
  async_inherit(done, call);
  async_commit(p, call, started, done);
}

bool pass_host_compute_asyncifier(HlPass *p) {
  p->relay_control = true;
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++) {
    if (comps[c]->schedule || async_is_body(comps[c]))
      continue;
    HlInst **insts = hl_pass_insts(p, comps[c], &n_insts);
    for (int k = 0; k < n_insts; k++)
      if (hl_alive(insts[k]) && insts[k]->op == HL_OP_CALL && runs_on_host(p, insts[k]))
        run_on_host(p, insts[k]);
  }
  return true;
}
