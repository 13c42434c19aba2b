// opt/memory/host_regions.h: what host-offloader finds out before it changes anything.
#ifndef HILO_OPT_HOST_REGIONS_H
#define HILO_OPT_HOST_REGIONS_H

#include "ir/vecs.h"
#include "opt/memory/host_offload.h"
#include "opt/ask/layouts.h"

typedef enum HostState {
  OUTSIDE,
  ENTERED,  // shares memory with a value on the host, but is made on the device: copied
  MADE      // comes to be on the host
} HostState;

// What is to be done: MoveToHost becomes a copy, or goes because an update writes to the host itself;
// MoveToDevice becomes a copy, or goes because a slice reads from there itself; a slice becomes one that
// does; an operation is left to the host; what an update writes is copied.
typedef enum HostActionKind {
  HOSTED,
  UPDATED,
  FETCHED,
  FREED,
  SLICED,
  COMPUTED,
  WRITTEN
} HostActionKind;
typedef struct HostAction {
  HostActionKind kind;
  HlInst *inst;
  uint32_t buffer;  // of its region
  uint32_t next;    // of the same region
} HostAction;

typedef struct Offload {
  HlPass *p;
  HlArena *arena;
  HlFlow *flow;
  uint64_t newest;  // serials from here on are not in `flow`
  // What lies on the host.
  uint8_t *state;    // by value
  uint32_t *parent;  // by buffer: another of its region, itself for one; HL_NO_VALUE: on the device
  bool *bad;         // by buffer: the region it is the first of stays
  HlInst **seed;     // by buffer: what asked for it
  bool *on_host;     // by slot
  bool *acted;       // by first slot: there is an action for it
  bool *is_state;    // by buffer: some computation's parameter is there
  uint32_t *queue;   // values whose state has changed
  uint32_t n_queue;
  VEC(HostAction) actions;
  uint32_t *next_buffer;   // by buffer: the next one of its region, or HL_NO_VALUE
  uint32_t *first_action;  // by the first buffer of a region, or HL_NO_VALUE
  // What was changed.
  bool *placed;      // by slot: its region was changed; of a tuple's first one: its shape was set
  InstVec tuples;    // with elements that were put on the host
  HlInst **instead;  // by first slot: what replaced the instruction
} Offload;

static inline bool host_is_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && hl_memory_space(shape) == HL_SPACE_HOST;
}

// Finds the regions and what is to be done in them. False after reporting; the caller frees o->actions.
bool host_find_regions(Offload *o, HlPass *p);

#endif
