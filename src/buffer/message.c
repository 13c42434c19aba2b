// buffer/message.c: a buffer assignment as XLA's message: the values, which of them share memory,
// the allocations with the place of each value, and what happened in the memory of temporaries.
//
// Values are called logical buffers there, and known by their ids; instructions by the numbers
// that the module's message gives them.

#include "hilo/buffers.h"
#include "hilo/proto.h"
#include "proto/wire.h"
#include "proto/xla.pb-c.h"

enum { LOGICAL_BUFFERS = 1, BUFFER_ALIASES, BUFFER_ALLOCATIONS, HEAP_TRACES, PEAK_BUFFERS };

typedef struct Writer {
  HlBuf *out;
  const HlBuffers *buffers;
  const HlFlow *flow;
  HlArena *arena;
  int64_t *comp_ids;
} Writer;

// --- Values --------------------------------------------------------------------------------------

static Xla__BufferLocation *location(Writer *w, uint32_t value) {
  const HlFlow *flow = w->flow;
  Xla__BufferLocation *out = HL_NEW(w->arena, Xla__BufferLocation);
  xla__buffer_location__init(out);
  HlI64s index = hl_slot_index(w->arena, flow, flow->value[value].slot);
  out->n_shape_index = (size_t)index.n;
  out->shape_index = (int64_t *)(uintptr_t)index.at;
  out->instruction_id = hl_proto_inst_id(w->comp_ids, hl_value_inst(flow, value));
  return out;
}

// What the arena holds for a message is needed until the message is packed.
static void put(Writer *w, uint32_t field, const ProtobufCMessage *message, HlMark mark) {
  wire_put_message(w->out, field, message);
  hl_arena_release(w->arena, mark);
}

static void put_value(Writer *w, uint32_t value) {
  HlMark mark = hl_arena_mark(w->arena);
  Xla__LogicalBufferProto message = XLA__LOGICAL_BUFFER_PROTO__INIT;
  message.id = w->flow->value[value].id;
  message.size = hl_value_bytes(w->flow, value);
  message.defined_at = location(w, value);
  put(w, LOGICAL_BUFFERS, &message.base, mark);
}

// The other values that must share its memory. Of very many that would be too much to read, let
// alone to write: then the first of them alone, which all have in common.
static void put_aliases(Writer *w, uint32_t value) {
  enum { MAX_VALUES = 500 };
  const HlFlow *flow = w->flow;
  const HlBuffer *buffer = &flow->buffer[flow->value[value].buffer];
  uint32_t n = buffer->n <= MAX_VALUES ? buffer->n : 1;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t other = flow->buffer_value[buffer->first + k];
    if (other == value)
      continue;
    HlMark mark = hl_arena_mark(w->arena);
    Xla__BufferAliasProto message = XLA__BUFFER_ALIAS_PROTO__INIT;
    message.source_buffer_id = flow->value[value].id;
    message.location = location(w, other);
    put(w, BUFFER_ALIASES, &message.base, mark);
  }
}

static void put_values(Writer *w) {
  const HlBuffers *b = w->buffers;
  uint32_t n = w->flow->n_values;
  bool *placed = HL_ARRAY(w->arena, bool, n + 1);
  for (int k = 0; k < b->n; k++)
    for (int j = 0; j < b->allocation[k].n_places; j++)
      placed[b->allocation[k].place[j].value] = true;
  for (uint32_t v = 0; v < n; v++)
    if (placed[v])
      put_value(w, v);
  for (uint32_t v = 0; v < n; v++)
    if (placed[v])
      put_aliases(w, v);
}

// --- Allocations ---------------------------------------------------------------------------------

static Xla__AssignedBuffer *assigned(Writer *w, const HlPlace *place) {
  Xla__AssignedBuffer *out = HL_NEW(w->arena, Xla__AssignedBuffer);
  xla__assigned_buffer__init(out);
  out->logical_buffer_id = w->flow->value[place->value].id;
  out->offset = place->offset;
  out->size = place->size;
  HlDtype type = hl_value_shape(w->flow, place->value)->dtype;
  out->element_type = (Xla__PrimitiveType)hl_dtype_info[type].proto;
  return out;
}

static void put_allocation(Writer *w, int number) {
  HlMark mark = hl_arena_mark(w->arena);
  const HlAllocation *a = &w->buffers->allocation[number];
  Xla__BufferAllocationProto message = XLA__BUFFER_ALLOCATION_PROTO__INIT;
  message.index = number;
  message.size = a->size;
  message.is_thread_local = a->is_thread_local;
  message.is_entry_computation_parameter = a->is_parameter;
  message.parameter_number = a->is_parameter ? a->parameter : 0;
  message.n_parameter_shape_index = a->is_parameter ? (size_t)a->parameter_index.n : 0;
  message.parameter_shape_index = (int64_t *)(uintptr_t)a->parameter_index.at;
  message.is_parameter_aliased_with_output = a->parameter_aliased;
  message.maybe_live_out = a->live_out;
  message.is_tuple = a->is_tuple;
  message.is_constant = a->is_constant;
  message.n_assigned = (size_t)a->n_places;
  message.assigned = HL_ARRAY(w->arena, Xla__AssignedBuffer *, a->n_places + 1);
  for (int k = 0; k < a->n_places; k++)
    message.assigned[k] = assigned(w, &a->place[k]);
  put(w, BUFFER_ALLOCATIONS, &message.base, mark);
}

static void put_peak(Writer *w, int number) {
  HlMark mark = hl_arena_mark(w->arena);
  const HlAllocation *a = &w->buffers->allocation[number];
  Xla__PeakBuffers message = XLA__PEAK_BUFFERS__INIT;
  message.allocation_index = number;
  message.n_logical_buffer_ids = (size_t)a->n_peak;
  message.logical_buffer_ids = HL_ARRAY(w->arena, int64_t, a->n_peak + 1);
  for (int k = 0; k < a->n_peak; k++)
    message.logical_buffer_ids[k] = w->flow->value[a->peak[k]].id;
  put(w, PEAK_BUFFERS, &message.base, mark);
}

// --- Temporaries ---------------------------------------------------------------------------------

static void put_event(Writer *w, const HlHeapEvent *event, HlBuf *out) {
  static const Xla__HeapEvent__Kind kinds[] = {
      [HL_HEAP_ALLOCATE] = XLA__HEAP_EVENT__KIND__ALLOC,
      [HL_HEAP_FREE] = XLA__HEAP_EVENT__KIND__FREE,
      [HL_HEAP_SHARE] = XLA__HEAP_EVENT__KIND__SHARE_WITH,
  };
  const HlInst *inst = hl_value_inst(w->flow, event->value);
  Xla__HeapEvent message = XLA__HEAP_EVENT__INIT;
  message.kind = kinds[event->kind];
  message.buffer_id = w->flow->value[event->value].id;
  message.computation_name = (char *)inst->comp->name->text;
  message.instruction_name = (char *)inst->name->text;
  if (event->kind == HL_HEAP_SHARE)
    message.share_with_canonical_id = w->flow->value[event->with].id;
  wire_put_message(out, 1, &message.base);
}

static void put_trace(Writer *w) {
  const HlBuffers *b = w->buffers;
  if (b->heap < 0)
    return;
  HlBuf trace = {0};
  for (int k = 0; k < b->n_events; k++)
    put_event(w, &b->event[k], &trace);
  Xla__HeapSimulatorTrace message = XLA__HEAP_SIMULATOR_TRACE__INIT;
  message.whole_module_simulation = true;
  message.buffer_allocation_index = b->heap;
  wire_put_packed(&trace, &message.base);
  wire_put_bytes(w->out, HEAP_TRACES, trace.at, trace.n);
  hl_buf_free(&trace);
}

void hl_buffers_write(HlBuf *out, const HlBuffers *buffers) {
  Writer w = {.out = out, .buffers = buffers, .flow = buffers->flow, .arena = hl_arena_new()};
  w.comp_ids = hl_proto_comp_ids(w.arena, buffers->flow->m);
  put_values(&w);
  for (int k = 0; k < buffers->n; k++)
    put_allocation(&w, k);
  put_trace(&w);
  for (int k = 0; k < buffers->n; k++)
    put_peak(&w, k);
  hl_arena_free(w.arena);
}
