// buffer/assign.c: gives every value a place in memory, as XLA's buffer assignment does.
//
// Constants, parameters and tuple tables get allocations of their own. The other buffers are tried,
// the largest first, in the allocations of their operands and then in those that earlier buffers got;
// one that must outlive the program gets a new allocation, the rest is packed into one heap. What
// computations applied in parallel need (reducers and the like) is thread-local: one allocation a value.

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "buffer/flow.h"
#include "buffer/heap.h"

typedef struct Stay {  // a value in an allocation, for some time
  HlRange range;
  uint32_t value;
} Stay;

typedef struct Draw {  // an allocation being filled
  HlAllocation out;
  VEC(Stay) stays;  // by start
} Draw;

typedef struct Assign {
  HlArena *arena, *scratch;
  const HlFlow *flow;
  const HlLive *live;
  HlBuffersOptions options;
  VEC(Draw) draws;
  int32_t *draw_of;   // by value, -1: none
  int32_t *reusable;  // allocations that later buffers may go into
  int n_reusable;
  bool *deferred;       // by value: for the heap
  uint32_t **position;  // [comp->id][inst->id]
  int64_t *buffer_size;
  HlHeapEvent *event;
  int n_events;
} Assign;

enum { OUTSIDE, GLOBAL, THREAD_LOCAL };

// --- Which computations -------------------------------------------------------------------------

static bool is_embedded_call(const HlInst *inst) {
  return flow_n_steps(inst) == 0;
}

// OUTSIDE, GLOBAL or THREAD_LOCAL of each computation, by id.
static uint8_t *sort_computations(const Assign *a) {
  const HlModule *m = a->flow->m;
  uint8_t *kind = HL_ARRAY(a->scratch, uint8_t, m->next_comp_id + 1);
  const HlComp **list = HL_ARRAY(a->scratch, const HlComp *, m->n_comps + 1);
  int n = 0;
  list[n++] = m->entry;
  kind[m->entry->id] = GLOBAL;
  for (int at = 0; at < n; at++)
    for (const HlInst *inst = list[at]->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++) {
        const HlComp *callee = hl_called(inst, k);
        if (kind[callee->id] != OUTSIDE)
          continue;
        kind[callee->id] = is_embedded_call(inst) ? THREAD_LOCAL : kind[list[at]->id];
        list[n++] = callee;
      }
  return kind;
}

typedef struct Frame {
  const HlComp *comp;
  uint32_t at;
  int call;
} Frame;

// Callees before callers, by a walk over each computation's instructions in order of creation.
static int visit_order(const Assign *a, const HlComp **out) {
  const HlModule *m = a->flow->m;
  bool *seen = HL_ARRAY(a->scratch, bool, m->next_comp_id + 1);
  Frame *stack = HL_ARRAY(a->scratch, Frame, m->n_comps + 1);
  int n = 0, depth = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    if (comp->first_call || seen[comp->id])
      continue;
    seen[comp->id] = true;
    stack[depth++] = (Frame){comp, 0, 0};
    while (depth > 0) {
      Frame *top = &stack[depth - 1];
      if (top->at == top->comp->next_id) {
        out[n++] = top->comp;
        depth--;
        continue;
      }
      const HlInst *inst = top->comp->by_id[top->at];
      if (!inst || top->call == inst->n_calls) {
        top->at++;
        top->call = 0;
        continue;
      }
      const HlComp *callee = hl_called(inst, top->call++);
      if (!seen[callee->id]) {
        seen[callee->id] = true;
        stack[depth++] = (Frame){callee, 0, 0};
      }
    }
  }
  return n;
}

static void number_positions(Assign *a) {
  const HlFlow *flow = a->flow;
  const HlComp **order = HL_ARRAY(a->scratch, const HlComp *, flow->m->n_comps + 1);
  a->position = HL_ARRAY(a->scratch, uint32_t *, flow->m->next_comp_id + 1);
  int n = visit_order(a, order);
  uint32_t next = 0;
  for (int k = n - 1; k >= 0; k--) {
    const HlComp *comp = order[k];
    a->position[comp->id] = HL_ARRAY(a->scratch, uint32_t, comp->next_id + 1);
    for (uint32_t j = 0; j < comp->n_insts; j++)
      a->position[comp->id][flow->post_order[comp->id][j]->id] = next++;
  }
}

// --- Order of buffers ----------------------------------------------------------------------------

typedef struct Candidate {
  int64_t size;
  uint32_t position, buffer;
  bool live_out;
} Candidate;

static int by_size(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (x->size != y->size)
    return x->size > y->size ? -1 : 1;
  if (x->live_out != y->live_out)
    return x->live_out ? -1 : 1;
  if (x->position != y->position)
    return x->position < y->position ? -1 : 1;
  return x->buffer < y->buffer ? -1 : 1;
}

static Candidate candidate(const Assign *a, uint32_t b) {
  const HlFlow *flow = a->flow;
  const HlBuffer *buffer = &flow->buffer[b];
  Candidate c = {a->buffer_size[b], UINT32_MAX, b, buffer->live_out};
  for (uint32_t k = 0; k < buffer->n; k++) {
    const HlInst *inst = hl_value_inst(flow, flow->buffer_value[buffer->first + k]);
    const uint32_t *position = a->position[inst->comp->id];
    if (position && position[inst->id] < c.position)
      c.position = position[inst->id];
  }
  return c;
}

// --- Allocations ---------------------------------------------------------------------------------

static void add_place(Assign *a, int draw, uint32_t value, int64_t offset, int64_t size) {
  HlAllocation *out = &a->draws.at[draw].out;
  if ((out->n_places & (out->n_places - 1)) == 0) {  // full at every power of two
    HlPlace *place = HL_ARRAY(a->arena, HlPlace, out->n_places > 0 ? 2 * out->n_places : 1);
    if (out->n_places > 0)
      memcpy(place, out->place, sizeof *place * (size_t)out->n_places);
    out->place = place;
  }
  out->place[out->n_places++] = (HlPlace){value, offset, size};
  a->draw_of[value] = draw;
}

// The first stay that ends at `time` or later; stays of one allocation hardly overlap, so that ends
// grow along with starts.
static int first_stay(const Draw *d, int64_t time) {
  int low = 0, high = d->stays.n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (d->stays.at[middle].range.end < time)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void add_stay(Assign *a, Draw *d, uint32_t value) {
  const Stay stay = {a->live->range[value], value};
  vec_push_in(a->scratch, &d->stays, stay);
  Stay *at = &vec_last(&d->stays);
  for (; at > d->stays.at && at[-1].range.start > stay.range.start; at--)
    at[0] = at[-1];
  *at = stay;
}

static void add_buffer(Assign *a, int draw, uint32_t b) {
  const HlBuffer *buffer = &a->flow->buffer[b];
  for (uint32_t k = 0; k < buffer->n; k++) {
    uint32_t value = a->flow->buffer_value[buffer->first + k];
    add_place(a, draw, value, 0, hl_value_bytes(a->flow, value));
    add_stay(a, &a->draws.at[draw], value);
  }
}

static Draw *new_draw(Assign *a, int64_t size) {
  vec_push_in(a->scratch, &a->draws, ((Draw){.out = {.size = size}}));
  return &vec_last(&a->draws);
}

static Draw *new_for_buffer(Assign *a, uint32_t b) {
  new_draw(a, a->buffer_size[b]);
  add_buffer(a, a->draws.n - 1, b);
  HlAllocation *out = &a->draws.at[a->draws.n - 1].out;
  out->peak =
      hl_arena_copy(a->arena, &a->flow->buffer_value[a->flow->buffer[b].first], sizeof *out->peak);
  out->n_peak = 1;
  return &a->draws.at[a->draws.n - 1];
}

// --- Reuse ---------------------------------------------------------------------------------------

static bool uses(const HlInst *user, const HlInst *operand) {
  for (uint32_t k = 0; k < user->n_operands; k++)
    if (user->operands[k] == operand)
      return true;
  return false;
}

// Whether `user`, defined when `operand` dies, may take its memory.
static bool may_follow(const Assign *a, uint32_t operand, uint32_t user) {
  const HlFlow *flow = a->flow;
  const HlInst *inst = hl_value_inst(flow, user);
  if (inst->op == HL_OP_COPY)
    return false;
  const HlValue *v = &flow->value[operand];
  for (uint32_t k = 0; k < v->n_positions; k++) {
    uint32_t slot = flow->position[v->first_position + k];
    if (uses(inst, flow->slot_inst[slot]) &&
        hl_can_share(flow, a->scratch, slot, flow->value[user].slot))
      return true;
  }
  return false;
}

static bool interfere(const Assign *a, uint32_t x, uint32_t y) {
  HlRange rx = a->live->range[x], ry = a->live->range[y];
  if (rx.start > ry.end || ry.start > rx.end)
    return false;
  if (rx.end == ry.start)
    return !may_follow(a, x, y);
  if (ry.end == rx.start)
    return !may_follow(a, y, x);
  return true;
}

static bool copies_from(const Assign *a, int draw, uint32_t value) {
  const HlInst *inst = hl_value_inst(a->flow, value);
  if (inst->op != HL_OP_COPY)
    return false;
  uint32_t slot = hl_slot(a->flow, inst->operands[0]);
  for (uint32_t k = 0; k < a->flow->slot_size[slot]; k++) {
    uint32_t source = a->flow->value_at[slot + k];
    if (source != HL_NO_VALUE && a->draw_of[source] == draw)
      return true;
  }
  return false;
}

static bool fits(const Assign *a, int draw, uint32_t value) {
  const Draw *d = &a->draws.at[draw];
  HlRange range = a->live->range[value];
  if (copies_from(a, draw, value))
    return false;
  for (int k = first_stay(d, range.start);
       k < d->stays.n && d->stays.at[k].range.start <= range.end; k++)
    if (interfere(a, value, d->stays.at[k].value))
      return false;
  return true;
}

static bool try_draw(Assign *a, int draw, uint32_t b) {
  const HlAllocation *out = &a->draws.at[draw].out;
  const HlBuffer *buffer = &a->flow->buffer[b];
  if (a->buffer_size[b] > out->size || (out->is_parameter && !out->parameter_aliased) ||
      out->is_constant || out->is_thread_local || out->is_tuple ||
      (buffer->live_out && out->size != a->buffer_size[b]))
    return false;
  for (uint32_t k = 0; k < buffer->n; k++)
    if (!fits(a, draw, a->flow->buffer_value[buffer->first + k]))
      return false;
  add_buffer(a, draw, b);
  return true;
}

static bool try_operands(Assign *a, uint32_t b) {
  const HlFlow *flow = a->flow;
  const HlBuffer *buffer = &flow->buffer[b];
  for (uint32_t k = 0; k < buffer->n; k++) {
    const HlValue *v = &flow->value[flow->buffer_value[buffer->first + k]];
    const HlInst *inst = flow->slot_inst[v->slot];
    if (v->slot != hl_slot(flow, inst) || hl_shape_is_tuple(inst->shape))
      continue;
    for (uint32_t j = 0; j < inst->n_operands; j++) {
      uint32_t operand = hl_value_of(flow, inst->operands[j]);
      if (operand != HL_NO_VALUE && a->draw_of[operand] >= 0 && try_draw(a, a->draw_of[operand], b))
        return true;
    }
  }
  return false;
}

// --- One buffer ----------------------------------------------------------------------------------

static bool is_aliased_parameter(const HlFlow *flow, const HlInst *parameter, uint32_t slot) {
  HlAliases aliases = flow->m->input_output_alias;
  for (int k = 0; k < aliases.n; k++)
    if (aliases.at[k].number == hl_parameter_number(parameter) &&
        hl_slot_at(flow, parameter, aliases.at[k].index) == slot)
      return true;
  return false;
}

static void assign_parameter(Assign *a, uint32_t b, uint32_t value) {
  const HlFlow *flow = a->flow;
  const HlInst *inst = hl_value_inst(flow, value);
  Draw *d = new_for_buffer(a, b);
  d->out.is_parameter = true;
  d->out.parameter = hl_parameter_number(inst);
  d->out.parameter_index = hl_slot_index(a->arena, flow, flow->value[value].slot);
  d->out.parameter_aliased = is_aliased_parameter(flow, inst, flow->value[value].slot);
  if (d->out.parameter_aliased)
    a->reusable[a->n_reusable++] = a->draws.n - 1;
}

// Constants, parameters, thread-local values, tuple tables.
static bool assign_special(Assign *a, uint32_t b, bool thread_local) {
  const HlFlow *flow = a->flow;
  const HlBuffer *buffer = &flow->buffer[b];
  const uint32_t *value = &flow->buffer_value[buffer->first];
  for (uint32_t k = 0; k < buffer->n; k++) {
    const HlInst *inst = hl_value_inst(flow, value[k]);
    if (inst->op == HL_OP_CONSTANT) {
      if (!a->options.no_constants)
        new_for_buffer(a, b)->out.is_constant = true;
      return true;
    }
    if (inst->op == HL_OP_PARAMETER && inst->comp == flow->m->entry) {
      assign_parameter(a, b, value[k]);
      return true;
    }
  }
  if (thread_local) {
    new_for_buffer(a, b)->out.is_thread_local = true;
    return true;
  }
  for (uint32_t k = 0; k < buffer->n; k++)
    if (hl_shape_is_tuple(hl_value_shape(flow, value[k]))) {
      new_for_buffer(a, b)->out.is_tuple = true;
      return true;
    }
  return false;
}

static void assign_buffer(Assign *a, uint32_t b) {
  const HlBuffer *buffer = &a->flow->buffer[b];
  if (try_operands(a, b))
    return;
  for (int k = a->n_reusable - 1; k >= 0; k--)
    if (try_draw(a, a->reusable[k], b))
      return;
  if (!buffer->live_out) {
    for (uint32_t k = 0; k < buffer->n; k++)
      a->deferred[a->flow->buffer_value[buffer->first + k]] = true;
    return;
  }
  new_for_buffer(a, b);
  a->reusable[a->n_reusable++] = a->draws.n - 1;
}

static void assign_computations(Assign *a, const uint8_t *kind, uint8_t wanted) {
  const HlFlow *flow = a->flow;
  Candidate *list = HL_ARRAY(a->scratch, Candidate, flow->n_buffers + 1);
  size_t n = 0;
  for (uint32_t b = 0; b < flow->n_buffers; b++) {
    const HlComp *comp = hl_value_inst(flow, flow->buffer_value[flow->buffer[b].first])->comp;
    if (kind[comp->id] == wanted && !(wanted == THREAD_LOCAL && comp->is_fusion))
      list[n++] = candidate(a, b);
  }
  qsort(list, n, sizeof *list, by_size);
  for (size_t k = 0; k < n; k++)
    if (!assign_special(a, list[k].buffer, wanted == THREAD_LOCAL))
      assign_buffer(a, list[k].buffer);
}

static void assign_heap(Assign *a) {
  bool any = false;
  for (uint32_t v = 0; v < a->flow->n_values && !any; v++)
    any = a->deferred[v];
  if (!any)
    return;
  HeapResult heap = heap_place(a->arena, a->live, a->deferred, a->options.alignment);
  Draw *d = new_draw(a, heap.size);
  d->out.peak = heap.peak;
  d->out.n_peak = heap.n_peak;
  a->event = heap.event;
  a->n_events = heap.n_events;
  for (int k = 0; k < heap.n; k++)
    add_place(a, a->draws.n - 1, heap.place[k].value, heap.place[k].offset, heap.place[k].size);
}

// --- The result ----------------------------------------------------------------------------------

static void mark_live_out(Assign *a) {
  const HlFlow *flow = a->flow;
  for (uint32_t b = 0; b < flow->n_buffers; b++) {
    int32_t draw = a->draw_of[flow->buffer_value[flow->buffer[b].first]];
    if (flow->buffer[b].live_out && draw >= 0)
      a->draws.at[draw].out.live_out = true;
  }
  for (int k = 0; k < a->draws.n; k++) {
    HlAllocation *out = &a->draws.at[k].out;
    out->is_temp =
        !out->is_parameter && !out->live_out && !out->is_thread_local && !out->is_constant;
  }
}

// Moves temporaries to the end, swapping from both ends as XLA does; how many others there are.
static int partition(Assign *a) {
  int first = 0, last = a->draws.n;
  for (;;) {
    while (first < last && !a->draws.at[first].out.is_temp)
      first++;
    do {
      if (first == last)
        return first;
      last--;
    } while (a->draws.at[last].out.is_temp && first != last);
    if (first == last)
      return first;
    Draw swap = a->draws.at[first];
    a->draws.at[first++] = a->draws.at[last];
    a->draws.at[last] = swap;
  }
}

static void combine_temps(Assign *a) {
  int first = partition(a), n = a->draws.n;
  if (first == n)
    return;
  HlAllocation *into = &a->draws.at[first].out;
  int n_peak = 0;
  for (int k = first; k < n; k++)
    n_peak += a->draws.at[k].out.n_peak;
  uint32_t *peak = HL_ARRAY(a->arena, uint32_t, n_peak + 1);
  n_peak = 0;
  for (int k = first; k < n; k++)
    for (int j = 0; j < a->draws.at[k].out.n_peak; j++)
      peak[n_peak++] = a->draws.at[k].out.peak[j];
  into->peak = peak;
  into->n_peak = n_peak;
  for (int k = first + 1; k < n; k++) {
    const HlAllocation *from = &a->draws.at[k].out;
    int64_t base =
        (into->size + a->options.alignment - 1) / a->options.alignment * a->options.alignment;
    into->size = base + from->size;
    for (int j = 0; j < from->n_places; j++)
      add_place(a, first, from->place[j].value, base + from->place[j].offset, from->place[j].size);
  }
  a->draws.n = first + 1;
}

static int by_value(const void *a, const void *b) {
  const HlPlace *x = a, *y = b;
  return x->value < y->value ? -1 : x->value > y->value;
}

static HlBuffers *finish(Assign *a) {
  mark_live_out(a);
  combine_temps(a);
  HlBuffers *out = HL_NEW(a->arena, HlBuffers);
  *out = (HlBuffers){.flow = a->flow, .live = a->live, .n = a->draws.n};
  out->event = a->event;
  out->n_events = a->n_events;
  out->heap =
      a->n_events > 0 ? a->draws.n - 1 : -1;  // what was packed is with the temporaries, at the end
  out->allocation = HL_ARRAY(a->arena, HlAllocation, a->draws.n + 1);
  for (int k = 0; k < a->draws.n; k++) {
    HlAllocation *allocation = &out->allocation[k];
    *allocation = a->draws.at[k].out;
    if (allocation->n_places > 0)
      qsort(allocation->place, (size_t)allocation->n_places, sizeof *allocation->place, by_value);
    out->total += allocation->size;
  }
  return out;
}

HlBuffers *hl_buffers_new(HlCx *cx, HlArena *arena, const HlModule *m,
                          const HlBuffersOptions *options) {
  static const HlBuffersOptions usual = {0};
  const HlBuffersOptions *how = options ? options : &usual;
  const HlFlow *flow = hl_flow_new(cx, arena, m,
                                   HL_FLOW_MERGE | (how->blocks ? HL_FLOW_BLOCKS : 0) |
                                       (how->whole_bytes ? HL_FLOW_WHOLE_BYTES : 0));
  if (!flow)
    return NULL;
  HlArena *scratch = hl_arena_new();
  Assign a = {.arena = arena, .scratch = scratch, .flow = flow, .options = *how};
  if (a.options.alignment == 0)
    a.options.alignment = 64;
  a.live = hl_live_new(arena, flow, NULL);
  a.draw_of = HL_ARRAY(scratch, int32_t, flow->n_values + 1);
  memset(a.draw_of, 0xff, sizeof *a.draw_of * flow->n_values);
  a.reusable = HL_ARRAY(scratch, int32_t, flow->n_buffers + 1);
  a.deferred = HL_ARRAY(scratch, bool, flow->n_values + 1);
  a.buffer_size = HL_ARRAY(scratch, int64_t, flow->n_buffers + 1);
  for (uint32_t v = 0; v < flow->n_values; v++) {
    int64_t bytes = hl_value_bytes(flow, v), *size = &a.buffer_size[flow->value[v].buffer];
    *size = bytes > *size ? bytes : *size;
  }
  const uint8_t *kind = sort_computations(&a);
  number_positions(&a);
  assign_computations(&a, kind, GLOBAL);
  assign_heap(&a);
  assign_computations(&a, kind, THREAD_LOCAL);
  HlBuffers *out = finish(&a);
  hl_arena_free(scratch);
  return out;
}

// Bytes to which XLA:GPU aligns the temporaries in their allocation.
enum { GPU_ALIGNMENT = 256 };

HlBuffers *hl_buffers_new_for(HlCx *cx, HlArena *arena, const HlModule *m, const HlTarget *target) {
  const bool blocks = target && hl_target_has_blocks(target);
  const HlBuffersOptions how = {.alignment = blocks ? GPU_ALIGNMENT : 0, .blocks = blocks};
  return hl_buffers_new(cx, arena, m, &how);
}
