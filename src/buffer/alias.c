// buffer/alias.c: which values must share memory.
//
// A loop's state stays where it is: initial value, parameters of condition and body, the body's result and
// the loop's result are one buffer, element by element. The results of a conditional's branches are
// where its own result is. What is written in place shares with what it was written over, and an
// output that the module's header ties to an input shares with that.

#include <string.h>

#include "base/vec.h"
#include "buffer/flow.h"

typedef struct Merge {
  HlFlow *flow;
  HlArena *scratch;
  uint32_t *set;       // by value: the set it belongs to (a value, found by union-find)
  uint32_t *size;      // of a set
  VEC(uint32_t) list;  // values that must share with the one at hand
  HlInPlace **pairs;   // by first slot of an instruction, once asked for
  int *n_pairs;
} Merge;

static uint32_t find_set(Merge *m, uint32_t value) {
  while (m->set[value] != value) {
    m->set[value] = m->set[m->set[value]];
    value = m->set[value];
  }
  return value;
}

static void add(Merge *m, uint32_t value) {
  if (value == HL_NO_VALUE)
    return;
  vec_push_in(m->scratch, &m->list, value);
}

static void add_at(Merge *m, const HlInst *inst, uint32_t offset) {
  const HlFlow *flow = m->flow;
  uint32_t first = hl_slot(flow, inst);
  if (offset < flow->slot_size[first])
    add(m, flow->value_at[first + offset]);
}

static const HlInPlace *pairs_of(Merge *m, const HlInst *inst, int *n) {
  *n = 0;
  if (!flow_may_be_in_place((HlOp)inst->op))
    return NULL;
  uint32_t slot = hl_slot(m->flow, inst);
  if (m->n_pairs[slot] < 0)
    m->pairs[slot] = hl_in_place(m->scratch, inst, &m->n_pairs[slot]);
  *n = m->n_pairs[slot];
  return m->pairs[slot];
}

// What the position says: the root of a body or branch, an in-place result.
static void look_at_position(Merge *m, uint32_t slot) {
  const HlFlow *flow = m->flow;
  const HlInst *inst = flow->slot_inst[slot];
  uint32_t offset = slot - hl_slot(flow, inst);
  int n;
  const HlInPlace *pair = pairs_of(m, inst, &n);
  for (int k = 0; k < n; k++) {
    uint32_t operand_slot = hl_slot_at(flow, inst->operands[pair[k].number], pair[k].index);
    if (slot == hl_slot_at(flow, inst, pair[k].output) && operand_slot != HL_NO_VALUE)
      add(m, flow->value_at[operand_slot]);
  }
  if (inst != inst->comp->root)
    return;
  for (const HlCall *call = inst->comp->first_call; call; call = call->next) {
    if (call->caller->op == HL_OP_CONDITIONAL)
      add_at(m, call->caller, offset);
    if (call->caller->op == HL_OP_WHILE && hl_while_body(call->caller) == inst->comp)
      add_at(m, call->caller, offset);
  }
  if (inst->comp != flow->m->entry)
    return;
  for (int k = 0; k < flow->m->input_output_alias.n; k++) {
    const HlAlias *alias = &flow->m->input_output_alias.at[k];
    if (hl_slot_at(flow, inst, alias->output) != slot || alias->number >= inst->comp->n_params ||
        !inst->comp->params[alias->number])
      continue;
    uint32_t parameter = hl_slot_at(flow, inst->comp->params[alias->number], alias->index);
    if (parameter != HL_NO_VALUE)
      add(m, flow->value_at[parameter]);
  }
}

static void look_at_use(Merge *m, const HlUse *use, uint32_t slot) {
  const HlFlow *flow = m->flow;
  if (use->user->op == HL_OP_WHILE)
    add_at(m, use->user, slot - hl_slot(flow, use->user->operands[0]));
  int n;
  const HlInPlace *pair = pairs_of(m, use->user, &n);
  for (int k = 0; k < n; k++) {
    if (pair[k].number != use->number ||
        hl_slot_at(flow, use->user->operands[use->number], pair[k].index) != slot)
      continue;
    uint32_t output = hl_slot_at(flow, use->user, pair[k].output);
    if (output != HL_NO_VALUE)
      add(m, flow->value_at[output]);
  }
}

static void look_at_definition(Merge *m, uint32_t slot) {
  const HlInst *inst = m->flow->slot_inst[slot];
  if (inst->op != HL_OP_PARAMETER)
    return;
  for (const HlCall *call = inst->comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_WHILE)
      add_at(m, call->caller, slot - hl_slot(m->flow, inst));
}

// The largest of the sets takes the others in; among equals that of the lowest value.
static void unite(Merge *m) {
  uint32_t best = m->list.at[0];
  for (int k = 1; k < m->list.n; k++) {
    uint32_t a = m->size[find_set(m, m->list.at[k])], b = m->size[find_set(m, best)];
    if (a > b || (a == b && m->list.at[k] < best))
      best = m->list.at[k];
  }
  uint32_t into = find_set(m, best);
  for (int k = 0; k < m->list.n; k++) {
    uint32_t set = find_set(m, m->list.at[k]);
    if (set == into)
      continue;
    m->set[set] = into;
    m->size[into] += m->size[set];
  }
}

// Buffers in the order of their sets, values in each by id.
static void list_buffers(Merge *m) {
  HlFlow *flow = m->flow;
  flow->buffer = HL_ARRAY(flow->arena, HlBuffer, flow->n_values + 1);
  flow->buffer_value = HL_ARRAY(flow->arena, uint32_t, flow->n_values + 1);
  uint32_t *number = HL_ARRAY(m->scratch, uint32_t, flow->n_values + 1), next = 0;
  for (uint32_t v = 0; v < flow->n_values; v++) {
    if (find_set(m, v) != v)
      continue;
    number[v] = flow->n_buffers;
    flow->buffer[flow->n_buffers++].first = next;
    next += m->size[v];
  }
  for (uint32_t v = 0; v < flow->n_values; v++) {
    flow->value[v].buffer = number[find_set(m, v)];
    HlBuffer *buffer = &flow->buffer[flow->value[v].buffer];
    flow->buffer_value[buffer->first + buffer->n++] = v;
    buffer->live_out |= flow->value[v].live_out;
  }
}

void flow_merge(HlFlow *flow, HlArena *scratch) {
  Merge m = {.flow = flow, .scratch = scratch};
  m.set = HL_ARRAY(scratch, uint32_t, flow->n_values + 1);
  m.size = HL_ARRAY(scratch, uint32_t, flow->n_values + 1);
  m.pairs = HL_ARRAY(scratch, HlInPlace *, flow->n_slots + 1);
  m.n_pairs = HL_ARRAY(scratch, int, flow->n_slots + 1);
  memset(m.n_pairs, 0xff, sizeof *m.n_pairs * flow->n_slots);
  for (uint32_t v = 0; v < flow->n_values; v++) {
    m.set[v] = v;
    m.size[v] = 1;
  }
  for (uint32_t v = 0; v < flow->n_values; v++) {
    const HlValue *value = &flow->value[v];
    m.list.n = 0;
    add(&m, v);
    look_at_definition(&m, value->slot);
    for (uint32_t k = 0; k < value->n_positions; k++)
      look_at_position(&m, flow->position[value->first_position + k]);
    for (uint32_t k = 0; k < value->n_positions; k++) {
      uint32_t slot = flow->position[value->first_position + k];
      for (const HlUse *use = flow->slot_inst[slot]->first_use; use; use = use->next)
        if (flow_is_use(flow, use, slot, value))
          look_at_use(&m, use, slot);
    }
    if (m.list.n > 1)
      unite(&m);
  }
  list_buffers(&m);
}

void flow_split(HlFlow *flow) {
  flow->buffer = HL_ARRAY(flow->arena, HlBuffer, flow->n_values + 1);
  flow->buffer_value = HL_ARRAY(flow->arena, uint32_t, flow->n_values + 1);
  flow->n_buffers = flow->n_values;
  for (uint32_t v = 0; v < flow->n_values; v++) {
    flow->value[v].buffer = v;
    flow->buffer_value[v] = v;
    flow->buffer[v] = (HlBuffer){v, 1, flow->value[v].live_out};
  }
}
