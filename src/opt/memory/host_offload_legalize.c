// opt/memory/host_offload_legalize.c
//
// host-offload-legalize: prepares a program, once layouts are chosen, for host-offloader.
//
// Each use of a broadcast constant gets a broadcast of its own, so that each array that is filled on
// the host is a buffer of its own. And a copy that changes the order of dimensions of what comes from the
// host, which would have to compute there, moves to where it still is on the device:
//
//   h = f32[4,3]{1,0} custom-call(x), "MoveToHost"      c = f32[4,3]{0,1} copy(x)
//   t = (f32[4,3]{1,0}) tuple(h)                        h = f32[4,3]{0,1} custom-call(c), "MoveToHost"
//   e = f32[4,3]{1,0} get-tuple-element(t)         =>   t = (f32[4,3]{0,1}) tuple(h)
//   c = f32[4,3]{0,1} copy(e)                           e = f32[4,3]{0,1} get-tuple-element(t)
//   d = f32[4,3]{0,1} custom-call(c), "MoveToDevice"    d = f32[4,3]{0,1} custom-call(e), "MoveToDevice"
//
// All that shares memory with the copied value changes its layout with it: tuples, loops' states, arrays
// that parts are written into, whose parts are copied then.

#include <string.h>

#include "hilo/custom_calls.h"
#include "ir/vecs.h"
#include "opt/ask/layouts.h"
#include "opt/memory/host_offload.h"
#include "opt/passes.h"

// --- Broadcasts ---------------------------------------------------------------------------------

static void split_broadcast(HlPass *p, HlInst *inst) {
  if (inst->op != HL_OP_BROADCAST || inst->operands[0]->op != HL_OP_CONSTANT ||
      inst->first_use == inst->last_use || !hl_change(p, "split", inst, NULL))
    return;
  for (HlUse *use = inst->first_use->next, *next; use; use = next) {
    next = use->next;
    HlInst *own = hl_inst_copy(inst->comp, inst, NULL, 1, inst->operands);
    hl_set_operand(use->user, use->number, own);
  }
  hl_changed(p);
}

static void split_broadcasts(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    HlInst *last = comps[k]->last;
    for (HlInst *inst = comps[k]->first, *next; inst; inst = next) {
      next = inst == last ? NULL : inst->next;
      split_broadcast(p, inst);
    }
  }
}

// --- Copies ---------------------------------------------------------------------------------------

typedef struct Job {
  HlPass *p;
  HlFlow *flow;
  bool *tried;   // by buffer
  HlInst *mark;  // what brought us here
} Job;

// The buffer at hand: one array shape everywhere, and the copies of it.
typedef struct Array {
  const HlShape *shape;
  HlInst *copy;  // the first; others are to the same shape
} Array;

static bool is_zeros(const HlInst *inst) {
  return (inst->op == HL_OP_BROADCAST && inst->operands[0]->op == HL_OP_CONSTANT) ||
         (hl_is_call(inst, HL_CALL_ALLOCATE));
}

// Its layout follows its operand's, or can be chosen.
static bool is_flexible(const HlInst *inst) {
  return host_forwards(inst->op) || inst->op == HL_OP_DYNAMIC_UPDATE_SLICE ||
         host_is_to_host(inst) || is_zeros(inst) ||
         (inst->op == HL_OP_PARAMETER && inst->comp != inst->comp->module->entry);
}

static bool uses_fit(Array *array, const HlInst *inst, bool is_array) {
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    HlInst *user = use->user;
    if (host_forwards(user->op) || (user->op == HL_OP_DYNAMIC_UPDATE_SLICE && use->number == 0))
      continue;
    if (!is_array || user->op != HL_OP_COPY || !hl_shape_same_dims(user->shape, array->shape) ||
        hl_shape_same_order(user->shape, array->shape) ||
        (array->copy && array->copy->shape != user->shape))
      return false;
    array->copy = array->copy ? array->copy : user;
  }
  return true;
}

static bool find_array(const Job *job, const HlBuffer *buffer, Array *array) {
  const HlFlow *flow = job->flow;
  if (buffer->live_out)
    return false;
  for (uint32_t k = buffer->first; k < buffer->first + buffer->n; k++) {
    const HlValue *value = &flow->value[flow->buffer_value[k]];
    for (uint32_t j = 0; j < value->n_positions; j++) {
      const uint32_t slot = flow->position[value->first_position + j];
      const HlShape *shape = flow->slot_shape[slot];
      const HlInst *inst = flow->slot_inst[slot];
      array->shape = array->shape ? array->shape : shape;
      if (shape != array->shape || !hl_shape_is_array(shape) || !shape->layout ||
          !is_flexible(inst) || !host_is_step(inst->comp) ||
          !uses_fit(array, inst, slot == hl_slot(flow, inst)))
        return false;
    }
  }
  return array->copy != NULL;
}

static const HlShape *with_element(HlPass *p, const HlShape *shape, HlI64s index,
                                   const HlShape *element) {
  if (index.n == 0)
    return element;
  const HlShape **part = HL_ARRAY(p->arena, const HlShape *, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    part[k] = shape->element[k];
  const int64_t at = index.at[0];
  part[at] = with_element(p, shape->element[at], (HlI64s){index.at + 1, index.n - 1}, element);
  return hl_shape_tuple(p->m->shapes, shape->rank, part);
}

// `x` in the order of dimensions of `like`.
static HlInst *reordered(HlInst *x, const HlShape *like) {
  HlModule *m = x->comp->module;
  const HlShape *shape = hl_shape_with_layout(
      m->shapes, x->shape,
      &(HlLayout){like->layout->minor_to_major, x->shape->layout ? x->shape->layout->extra : NULL});
  return hl_inst_new(x->comp, HL_OP_COPY, shape, NULL, 1, &x);
}

static void reorder_position(Job *job, uint32_t slot, const HlShape *to) {
  HlPass *p = job->p;
  HlInst *inst = job->flow->slot_inst[slot];
  HlMark mark = hl_arena_mark(p->arena);
  hl_set_shape(inst, with_element(p, inst->shape, hl_slot_index(p->arena, job->flow, slot), to));
  hl_arena_release(p->arena, mark);
  if (host_is_to_host(inst))
    hl_set_operand(inst, 0, reordered(inst->operands[0], to));
  else if (inst->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    hl_set_operand(inst, 1, reordered(inst->operands[1], to));
}

static void drop_copies(HlInst *inst, const HlShape *to) {
  for (HlUse *use = inst->first_use; use;) {
    HlInst *copy = use->user;
    use = use->next;
    if (copy->op != HL_OP_COPY || copy->shape != to)
      continue;
    hl_replace_uses(copy, inst);
    hl_erase(copy);
    use = inst->first_use;
  }
}

static void move_copies(Job *job, uint32_t buffer) {
  const HlFlow *flow = job->flow;
  const HlBuffer *all = &flow->buffer[buffer];
  Array array = {0};
  if (job->tried[buffer])
    return;
  job->tried[buffer] = true;
  if (!find_array(job, all, &array) || !hl_change(job->p, "move-copy", job->mark, array.copy))
    return;
  const HlShape *to = array.copy->shape;
  for (int drop = 0; drop < 2; drop++)
    for (uint32_t k = all->first; k < all->first + all->n; k++) {
      const HlValue *value = &flow->value[flow->buffer_value[k]];
      for (uint32_t j = 0; j < value->n_positions; j++) {
        const uint32_t slot = flow->position[value->first_position + j];
        HlInst *inst = flow->slot_inst[slot];
        if (!drop)
          reorder_position(job, slot, to);
        else if (slot == hl_slot(flow, inst))
          drop_copies(inst, to);
      }
    }
  hl_changed(job->p);
}

static void move_from(void *user, HlInst *inst) {
  Job *job = user;
  const uint32_t value = job->flow->value_at[hl_slot(job->flow, inst)];
  if (value != HL_NO_VALUE)
    move_copies(job, job->flow->value[value].buffer);
}

static HlInst **find_marks(HlPass *p, int *n) {
  InstVec found = {0};
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (host_is_to_host(inst) && host_is_step(comp))
        vec_push_in(p->arena, &found, inst);
  *n = found.n;
  return found.at;
}

bool pass_host_offload_legalize(HlPass *p) {
  int n;
  HlInst **marks = find_marks(p, &n);
  if (n == 0)
    return true;
  split_broadcasts(p);
  Job job = {.p = p, .flow = hl_flow_new(p->cx, p->arena, p->m, true)};
  if (!job.flow)
    return false;
  job.tried = HL_ARRAY(p->arena, bool, job.flow->n_buffers + 1);
  for (int k = 0; k < n; k++) {
    job.mark = marks[k];
    if (!host_leads_only(marks[k], host_is_part_of_update, NULL, NULL))
      move_from(&job, marks[k]);
    else
      host_leads_only(marks[k], host_is_part_of_update, move_from, &job);
  }
  return true;
}
