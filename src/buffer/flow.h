// buffer/flow.h: what the files of the value analysis share.
//
// slots.c     positions: numbering, tuple indices
// flow.c      the values at every position, to a fixed point
// phi.c       which phi values are needless
// alias.c     values that must share memory
// in_place.c  what instructions write over their operands, and what they may
// block_share.c  what a kernel of blocks of threads may
#ifndef HILO_BUFFER_FLOW_H
#define HILO_BUFFER_FLOW_H

#include "hilo/buffers.h"

// How a computation is called.
typedef enum CallContext { CALLED_NEVER, CALLED_AS_STEP, CALLED_EMBEDDED, CALLED_BOTH } CallContext;
CallContext flow_context(const HlComp *comp);

void flow_number_slots(HlFlow *flow, bool fusions);
// Whether the user looks at a value that stands at the slot of its operand, or returns it.
bool flow_is_use(const HlFlow *flow, const HlUse *use, uint32_t slot, const HlValue *value);
// Ops that ever write in place.
bool flow_may_be_in_place(HlOp op);
// Element i of the result needs only element i of this operand.
bool flow_elementwise_on(const HlInst *inst, int64_t number);
// Whether a fusion that runs as a kernel of blocks may write its output at `user_slot` over its operand `number` at `slot`.
bool flow_block_shares(const HlFlow *flow, HlArena *arena, uint32_t slot, uint32_t user_slot,
                       uint32_t number);
// Visits the called computations that run as steps, a while's condition first, in the order they run.
int flow_n_steps(const HlInst *inst);
HlComp *flow_step(const HlInst *inst, int k);

// Values while they are found: a growing table by id.
typedef struct Draft {
  uint32_t slot;
  bool is_phi, deleted;
  uint32_t by;      // what a needless phi was replaced with, or itself
  uint32_t *input;  // of a phi
  int n_inputs;
} Draft;
typedef struct Drafts {  // a list that knows its arena
  Draft *at;
  int n, capacity;
  HlArena *arena;
} Drafts;
uint32_t draft_add(Drafts *d, uint32_t slot, bool is_phi);
void draft_set_inputs(Drafts *d, uint32_t phi, int n, const uint32_t *input);
bool draft_inputs_are(const Drafts *d, uint32_t phi, int n, const uint32_t *input);
// Sets `by` of every phi that is always one other value.
void draft_optimise(Drafts *d);
uint32_t draft_find(Drafts *d, uint32_t value);

void flow_merge(HlFlow *flow, HlArena *scratch);  // fills buffers
void flow_split(HlFlow *flow);                    // one buffer a value

#endif
