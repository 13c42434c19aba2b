// hilo/buffers.h: which values a program has, which of them share memory, how long they live, and where
// each is put.
//
//   HlFlow      what XLA calls HloDataflowAnalysis and HloAliasAnalysis: the values at every position
//               of every instruction, and the buffers: sets of values that must share memory
//   HlLive      the flattened schedule and the live range of every value
//   HlBuffers   XLA's buffer assignment: allocations, and the place of every value in one
//
// Positions are numbered: a *slot* is one subshape of one instruction's shape (tuples count, and come before
// their elements). Values are numbered as XLA numbers them, so that reports read the same.
#ifndef HILO_BUFFERS_H
#define HILO_BUFFERS_H

#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Values and buffers --------------------------------------------------------------------------

#define HL_NO_VALUE 0xffffffffu

typedef struct HlValue {
  uint32_t id;                 // as XLA prints it; ids have holes
  uint32_t slot;               // where it is defined
  uint32_t first_position, n_positions;  // in flow->position; the first is `slot`
  uint32_t buffer;             // index into flow->buffer
  bool is_phi;                 // of a while, conditional, or a parameter they call
  bool live_out;               // appears in the result of the module
} HlValue;

typedef struct HlBuffer {      // values that must share memory
  uint32_t first, n;           // in flow->buffer_value, by value index
  bool live_out;
} HlBuffer;

typedef struct HlFlow {
  const HlModule *m;
  HlArena *arena;
  uint32_t n_slots;
  HlInst **slot_inst;
  const HlShape **slot_shape;
  uint32_t *slot_size;         // slots of the subtree, itself included
  uint32_t **first_slot;       // [comp->id][inst->id]
  uint32_t *value_at;          // by slot: index into value, or HL_NO_VALUE
  HlValue *value;              // by ascending id
  uint32_t n_values;
  uint32_t *position;
  HlBuffer *buffer;
  uint32_t n_buffers;
  uint32_t *buffer_value;
  HlComp **comp;               // callees before callers: the order values are numbered in
  HlInst ***post_order;        // by comp->id: hl_post_order
  bool blocks;                 // HL_FLOW_BLOCKS
  bool whole_bytes;            // HL_FLOW_WHOLE_BYTES
} HlFlow;

// Values alone (one buffer each), or with the buffers; without the bodies of fusions first_slot and post_order are NULL
// there. NULL after reporting: a computation that is called both as a step of the program and by a reduction, say.
// Fusions may be kernels of blocks of threads (hl_target_has_blocks), which may write over other operands than loops may.
// Elements smaller than a byte may take one each, as they do in literals.
enum { HL_FLOW_MERGE = 1, HL_FLOW_NO_FUSIONS = 2, HL_FLOW_BLOCKS = 4, HL_FLOW_WHOLE_BYTES = 8 };
HlFlow *hl_flow_new(HlCx *cx, HlArena *arena, const HlModule *m, int what);
static inline uint32_t hl_slot(const HlFlow *flow, const HlInst *inst) {
  return flow->first_slot[inst->comp->id][inst->id];
}
uint32_t hl_slot_child(const HlFlow *flow, uint32_t slot, int64_t k);
uint32_t hl_slot_at(const HlFlow *flow, const HlInst *inst, HlI64s index);  // HL_NO_VALUE: no such index
// The tuple index of a slot, in the arena.
HlI64s hl_slot_index(HlArena *arena, const HlFlow *flow, uint32_t slot);
// The value at an instruction's own slot, or HL_NO_VALUE.
static inline uint32_t hl_value_of(const HlFlow *flow, const HlInst *inst) {
  return flow->value_at[hl_slot(flow, inst)];
}
static inline HlInst *hl_value_inst(const HlFlow *flow, uint32_t value) {
  return flow->slot_inst[flow->value[value].slot];
}
static inline const HlShape *hl_value_shape(const HlFlow *flow, uint32_t value) {
  return flow->slot_shape[flow->value[value].slot];
}
int64_t hl_value_bytes(const HlFlow *flow, uint32_t value);

// A use of a value: operand `number` of `user`, the value standing at `slot` of that operand.
typedef struct HlValueUse {
  HlInst *user;
  uint32_t number, slot;
} HlValueUse;
// All uses of a value, in XLA's order, in the arena.
HlValueUse *hl_value_uses(HlArena *arena, const HlFlow *flow, uint32_t value, int *n);

// --- Writing in place ------------------------------------------------------------------------------

// Output `output` of the instruction is written over operand `number` at `index`.
typedef struct HlInPlace {
  int64_t number;
  HlI64s index, output;
} HlInPlace;
// What an instruction must do in place (passes.md 4.1): dynamic-update-slice, scatter, fusions that end in
// such, aliased custom calls. In the arena.
HlInPlace *hl_in_place(HlArena *arena, const HlInst *inst, int *n);
// Whether the buffer of `operand` at `slot` may become that of `user` at `user_slot`: no element is written before it is read for the last time.
bool hl_can_share(const HlFlow *flow, HlArena *arena, uint32_t slot, uint32_t user_slot);

// --- Live ranges -----------------------------------------------------------------------------------

typedef struct HlRange {
  int64_t start, end;          // times in the flattened schedule, both included; start < 0: none
} HlRange;

typedef struct HlLive {
  const HlFlow *flow;
  HlInst **sequence;           // the flattened schedule
  int64_t n;
  HlRange *range;              // by value index
  bool total;                  // everything reachable is scheduled
} HlLive;
// Orders of execution are taken from `order`, by comp->id, where that is given, else from the schedules, and where there
// are none from hl_print_order.
HlLive *hl_live_new(HlArena *arena, const HlFlow *flow, HlInst **const *order);

// --- Assignment --------------------------------------------------------------------------------------

typedef struct HlPlace {       // of a value in its allocation
  uint32_t value;
  int64_t offset, size;
} HlPlace;

typedef struct HlAllocation {
  int64_t size;
  bool is_parameter, is_constant, is_thread_local, is_tuple, live_out, is_temp;
  bool parameter_aliased;
  int64_t parameter;           // number
  HlI64s parameter_index;
  HlPlace *place;              // by ascending value id
  int n_places;
  uint32_t *peak;              // values that hold the most of it at one time
  int n_peak;
} HlAllocation;

// What happened in the memory of temporaries, in order of time.
typedef enum HlHeapKind { HL_HEAP_ALLOCATE, HL_HEAP_FREE, HL_HEAP_SHARE } HlHeapKind;
typedef struct HlHeapEvent {
  HlHeapKind kind;
  uint32_t value, with;        // with: whose place the value takes over or shares
} HlHeapEvent;

typedef struct HlBuffersOptions {
  int64_t alignment;           // of temporaries; 0: 64, as XLA:CPU
  bool no_constants;           // they get no allocations (on the CPU they do)
  bool blocks;                 // HL_FLOW_BLOCKS
  bool whole_bytes;            // HL_FLOW_WHOLE_BYTES
} HlBuffersOptions;

typedef struct HlBuffers {
  const HlFlow *flow;
  const HlLive *live;
  HlAllocation *allocation;
  int n;
  int64_t total;               // bytes of all allocations
  HlHeapEvent *event;          // of the temporaries that were packed
  int n_events;
  int heap;                    // the allocation that holds them, -1: none
} HlBuffers;
// NULL after reporting. Options may be NULL.
HlBuffers *hl_buffers_new(HlCx *cx, HlArena *arena, const HlModule *m, const HlBuffersOptions *options);
// The same as a program for this target has them; NULL: a CPU.
HlBuffers *hl_buffers_new_for(HlCx *cx, HlArena *arena, const HlModule *m, const HlTarget *target);

// The reports, as XLA dumps them.
void hl_buffers_print(HlBuf *out, const HlBuffers *buffers);                  // -buffer-assignment.txt
void hl_buffers_print_values(HlCx *cx, HlBuf *out, const HlBuffers *buffers); // -buffer-assignment-values.txt
void hl_buffers_print_usage(HlBuf *out, const HlBuffers *buffers);            // -memory-usage-report.txt
void hl_buffers_print_live(HlBuf *out, const HlBuffers *buffers);             // -live-range.txt

// All of it as XLA's BufferAssignmentProto, appended. Instructions have the numbers of hl_proto_write.
void hl_buffers_write(HlBuf *out, const HlBuffers *buffers);

// The allocations by falling size, in the arena, and the table of one of them, as the usage report has it.
int *hl_buffers_by_size(HlArena *arena, const HlBuffers *buffers);
void hl_buffers_print_table(HlBuf *out, const HlBuffers *buffers, int allocation);

// Bytes of temporaries if memory never fragmented: the most that values of the flow need at one time.
int64_t hl_minimum_memory(HlArena *arena, const HlLive *live);

#ifdef __cplusplus
}
#endif
#endif
