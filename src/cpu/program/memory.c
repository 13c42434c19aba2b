// cpu/program/memory.c: what stands behind each allocation of the buffer assignment when a program runs.

#include "base/memory.h"
#include "cpu/program/program.h"
#include "op/kernel.h"

enum { ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes) {
  return (bytes + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
}

// Whether elements stand as in a literal: dimensions of size 1 may lie anywhere.
bool cpu_is_row_major(const HlShape *shape) {
  if (!shape->layout)
    return true;
  const HlI64s order = shape->layout->minor_to_major;
  int64_t last = INT64_MAX;
  for (int k = 0; k < order.n; k++) {
    if (shape->dim[order.at[k]] == 1)
      continue;
    if (order.at[k] > last)
      return false;
    last = order.at[k];
  }
  return true;
}

void cpu_carry(HlCx *cx, const HlShape *shape, void *memory, void *dense, bool out) {
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  int64_t *row_major = HL_ARRAY(scratch, int64_t, shape->rank + 1);
  hl_strides(shape->rank, shape->dim, row_major);
  const Side here = {memory, cpu_strides(scratch, shape)}, there = {dense, row_major};
  if (cpu_bytes(shape) > 0)
    move_box(cx, hl_dtype_bytes(shape->dtype), shape->rank, shape->dim, out ? here : there,
             out ? there : here);
  hl_arena_release(scratch, mark);
}

// --- Leaves ----------------------------------------------------------------------------------------

static CpuLeaf leaf_of(HlCpuProgram *p, const HlShape *shape) {
  const CpuLeaf leaf = {.shape = shape,
                        .bytes = cpu_bytes(shape),
                        .row_major = cpu_is_row_major(shape),
                        .stage = p->stage_bytes,
                        .donor = -1};
  if (!leaf.row_major)
    p->stage_bytes += aligned(leaf.bytes);
  return leaf;
}

void cpu_list_leaves(HlCpuProgram *p) {
  const HlComp *entry = p->m->entry;
  for (int k = 0; k < entry->n_params; k++)
    p->n_arguments += cpu_leaf_count(entry->params[k]->shape);
  p->argument = HL_ARRAY(p->arena, CpuLeaf, p->n_arguments + 1);
  for (int k = 0, n = 0; k < entry->n_params; k++)
    for (int j = 0; j < cpu_leaf_count(entry->params[k]->shape); j++)
      p->argument[n++] = leaf_of(p, cpu_leaf(entry->params[k]->shape, j));
  p->n_results = cpu_leaf_count(entry->root->shape);
  p->result = HL_ARRAY(p->arena, CpuLeaf, p->n_results + 1);
  for (int k = 0; k < p->n_results; k++)
    p->result[k] = leaf_of(p, cpu_leaf(entry->root->shape, k));
  for (int k = 0; k < p->n_arguments; k++)
    p->leaf_bytes += p->argument[k].bytes;
  for (int k = 0; k < p->n_results; k++)
    p->leaf_bytes += p->result[k].bytes;
}

// The number of the argument that an entry parameter's slot is.
static int argument_at(const HlFlow *flow, uint32_t slot) {
  const HlInst *parameter = flow->slot_inst[slot];
  int n = 0;
  for (int k = 0; k < hl_parameter_number(parameter); k++)
    n += cpu_leaf_count(parameter->comp->params[k]->shape);
  for (uint32_t s = hl_slot(flow, parameter); s < slot; s++)
    n += flow->slot_shape[s]->dtype != HL_TUPLE;
  return n;
}

// --- Allocations -----------------------------------------------------------------------------------

// The elements of a constant in the layout of its shape.
static void *constant_memory(HlCx *cx, HlCpuProgram *p, const HlInst *inst, HlLiteral *value) {
  if (cpu_is_row_major(inst->shape))
    return value->data;
  char *room = hl_arena_alloc(p->arena, (size_t)cpu_bytes(inst->shape) + ALIGNMENT);
  room += ALIGNMENT - (uintptr_t)room % ALIGNMENT;
  cpu_carry(cx, inst->shape, room, value->data, true);
  return room;
}

static bool place_constant(HlCx *cx, HlCpuProgram *p, const HlInst *inst, CpuMemory *out) {
  HlLiteral *value = eval_constant(cx, inst, &p->constants, true);
  if (!value)
    return false;
  p->held[p->n_held++] = value;
  out->kind = MEMORY_CONSTANT;
  out->constant = constant_memory(cx, p, inst, value);
  return true;
}

// The value of an allocation that is a constant or a parameter of the entry.
static uint32_t given_value(const HlFlow *flow, const HlAllocation *a) {
  for (int k = 0; k < a->n_places; k++) {
    const HlInst *inst = hl_value_inst(flow, a->place[k].value);
    if (inst->op == (a->is_constant ? HL_OP_CONSTANT : HL_OP_PARAMETER) &&
        (a->is_constant || inst->comp == flow->m->entry))
      return a->place[k].value;
  }
  return HL_NO_VALUE;
}

static bool place_given(HlCx *cx, HlCpuProgram *p, const HlBuffers *buffers, const HlAllocation *a,
                        CpuMemory *out) {
  const uint32_t value = given_value(buffers->flow, a);
  const HlShape *shape = hl_value_shape(buffers->flow, value);
  out->bytes = cpu_bytes(shape);
  if (!hl_is_array_dtype(shape->dtype))
    return true;
  if (a->is_constant)
    return place_constant(cx, p, hl_value_inst(buffers->flow, value), out);
  const int32_t leaf = argument_at(buffers->flow, buffers->flow->value[value].slot);
  out->kind = a->parameter_aliased ? MEMORY_FRAME : MEMORY_ARGUMENT;
  *(a->parameter_aliased ? &out->donor : &out->leaf) = leaf;
  return true;
}

// A result that is alone in an allocation of its size makes that the caller's memory.
static bool take_for_result(HlCpuProgram *p, const HlAllocation *a, CpuMemory *m, int result,
                            int64_t offset) {
  if (m->kind != MEMORY_FRAME || !a->live_out || offset != 0 || a->size != p->result[result].bytes)
    return false;
  m->kind = MEMORY_RESULT;
  m->leaf = result;
  p->result[result].donor = m->donor;
  return true;
}

static void place_results(HlCpuProgram *p, const HlBuffers *buffers, const CpuPlace *place_of) {
  const HlFlow *flow = buffers->flow;
  const uint32_t first = hl_slot(flow, p->m->entry->root);
  p->ending = HL_ARRAY(p->arena, CpuEnding, p->n_results + 1);
  for (uint32_t s = first, k = 0; s < first + flow->slot_size[first]; s++) {
    if (flow->slot_shape[s]->dtype == HL_TUPLE)
      continue;
    const uint32_t value = flow->value_at[s];
    const int result = (int)k++;
    if (p->result[result].bytes == 0 || value == HL_NO_VALUE)
      continue;
    const CpuPlace place = place_of[value];
    if (!take_for_result(p, &buffers->allocation[place.allocation], &p->memory[place.allocation],
                         result, place.offset))
      p->ending[p->n_endings++] = (CpuEnding){place, result};
  }
}

bool cpu_place_memory(HlCx *cx, HlCpuProgram *p, const HlBuffers *buffers,
                      const CpuPlace *place_of) {
  p->n_memories = buffers->n + p->n_kept;
  p->memory = HL_ARRAY(p->arena, CpuMemory, p->n_memories + 1);
  p->held = HL_ARRAY(p->arena, HlLiteral *, buffers->n + 1);
  for (int k = 0; k < buffers->n; k++) {
    const HlAllocation *a = &buffers->allocation[k];
    CpuMemory *m = &p->memory[k];
    m->donor = -1;
    if (a->is_constant || a->is_parameter) {
      if (!place_given(cx, p, buffers, a, m))
        return false;
      p->constant_bytes += a->is_constant ? m->bytes : 0;
    } else if (!a->is_thread_local && (a->is_temp || !a->is_tuple)) {
      m->kind = MEMORY_FRAME;
    }
  }
  place_results(p, buffers, place_of);
  for (int k = 0; k < p->n_kept; k++)
    p->memory[buffers->n + k] = (CpuMemory){.kind = MEMORY_FRAME, .donor = -1};
  for (int k = 0; k < p->n_memories; k++)
    if (p->memory[k].kind == MEMORY_FRAME) {
      p->memory[k].offset = p->frame_bytes;
      p->frame_bytes +=
          aligned(k < buffers->n ? buffers->allocation[k].size : p->kept[k - buffers->n]);
    }
  return true;
}
