// buffer/slots.c: numbers every subshape of every instruction, and how computations are called.

#include "buffer/flow.h"

#include "base/vec.h"

// --- Calls --------------------------------------------------------------------------------------

static bool runs_as_step(const HlInst *caller) {
  return hl_op_is((HlOp)caller->op, HL_T_CONTROL | HL_T_ASYNC);
}

CallContext flow_context(const HlComp *comp) {
  bool step = comp == comp->module->entry, embedded = false;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    *(runs_as_step(call->caller) ? &step : &embedded) = true;
  if (step && embedded)
    return CALLED_BOTH;
  return step ? CALLED_AS_STEP : embedded ? CALLED_EMBEDDED : CALLED_NEVER;
}

int flow_n_steps(const HlInst *inst) {
  return runs_as_step(inst) ? inst->n_calls : 0;
}

HlComp *flow_step(const HlInst *inst, int k) {
  if (inst->op == HL_OP_WHILE)
    return k == 0 ? hl_while_condition(inst) : hl_while_body(inst);
  return hl_called(inst, k);
}

// --- Slots --------------------------------------------------------------------------------------

static uint32_t count_slots(const HlShape *shape) {
  uint32_t n = 1;
  if (hl_shape_is_tuple(shape))
    for (int k = 0; k < shape->rank; k++)
      n += count_slots(shape->element[k]);
  return n;
}

static uint32_t fill_slots(HlFlow *flow, HlInst *inst, const HlShape *shape, uint32_t slot) {
  uint32_t next = slot + 1;
  if (hl_shape_is_tuple(shape))
    for (int k = 0; k < shape->rank; k++)
      next = fill_slots(flow, inst, shape->element[k], next);
  flow->slot_inst[slot] = inst;
  flow->slot_shape[slot] = shape;
  flow->slot_size[slot] = next - slot;
  return next;
}

// A fusion that runs other computations as steps passes values on to them.
static bool may_run_steps(const HlComp *comp) {
  static const HlOp ops[] = {HL_OP_CALL, HL_OP_WHILE, HL_OP_CONDITIONAL, HL_OP_ASYNC_START};
  for (size_t k = 0; k < HL_COUNT_OF(ops); k++)
    if (hl_comp_may_have(comp, ops[k]))
      return true;
  return false;
}

// In the order XLA walks a module: list order of computations, creation order of instructions.
void flow_number_slots(HlFlow *flow, bool fusions) {
  const HlModule *m = flow->m;
  flow->first_slot = HL_ARRAY(flow->arena, uint32_t *, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    if (comp->is_fusion && !fusions && !may_run_steps(comp))
      continue;
    uint32_t *first = flow->first_slot[comp->id] =
        HL_ARRAY(flow->arena, uint32_t, comp->next_id + 1);
    for (uint32_t id = 0; id < comp->next_id; id++) {
      first[id] = flow->n_slots;
      if (comp->by_id[id])
        flow->n_slots += count_slots(comp->by_id[id]->shape);
    }
  }
  flow->slot_inst = HL_ARRAY(flow->arena, HlInst *, flow->n_slots + 1);
  flow->slot_shape = HL_ARRAY(flow->arena, const HlShape *, flow->n_slots + 1);
  flow->slot_size = HL_ARRAY(flow->arena, uint32_t, flow->n_slots + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (uint32_t id = 0; flow->first_slot[comp->id] && id < comp->next_id; id++)
      if (comp->by_id[id])
        fill_slots(flow, comp->by_id[id], comp->by_id[id]->shape, flow->first_slot[comp->id][id]);
}

uint32_t hl_slot_child(const HlFlow *flow, uint32_t slot, int64_t k) {
  const HlShape *shape = flow->slot_shape[slot];
  if (!hl_shape_is_tuple(shape) || k < 0 || k >= shape->rank)
    return HL_NO_VALUE;
  if (flow->slot_size[slot] == 1 + (uint32_t)shape->rank)  // no tuples inside
    return slot + 1 + (uint32_t)k;
  uint32_t child = slot + 1;
  for (int64_t j = 0; j < k; j++)
    child += flow->slot_size[child];
  return child;
}

uint32_t hl_slot_at(const HlFlow *flow, const HlInst *inst, HlI64s index) {
  uint32_t slot = hl_slot(flow, inst);
  for (int k = 0; k < index.n && slot != HL_NO_VALUE; k++)
    slot = hl_slot_child(flow, slot, index.at[k]);
  return slot;
}

HlI64s hl_slot_index(HlArena *arena, const HlFlow *flow, uint32_t slot) {
  uint32_t at = hl_slot(flow, flow->slot_inst[slot]);
  VEC(int64_t) index = {0};
  while (at != slot) {
    int64_t k = 0;
    uint32_t child = at + 1;
    if (flow->slot_size[at] == 1 + (uint32_t)flow->slot_shape[at]->rank) {
      k = slot - child;
      child = slot;
    }
    for (; child + flow->slot_size[child] <= slot; k++)
      child += flow->slot_size[child];
    vec_push_in(arena, &index, k);
    at = child;
  }
  return (HlI64s){index.at, index.n};
}

int64_t hl_value_bytes(const HlFlow *flow, uint32_t value) {
  const HlShape *shape = hl_value_shape(flow, value);
  if (flow->whole_bytes && hl_is_array_dtype(shape->dtype))
    return hl_shape_elements(shape) * hl_dtype_bytes(shape->dtype);
  return hl_shape_buffer_bytes(shape, 8);
}
