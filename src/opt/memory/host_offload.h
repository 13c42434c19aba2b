// opt/memory/host_offload.h: the marks that send values to the memory of the host and fetch them, and what may stand between them.
#ifndef HILO_OPT_HOST_OFFLOAD_H
#define HILO_OPT_HOST_OFFLOAD_H

#include "hilo/buffers.h"
#include "hilo/custom_calls.h"
#include "hilo/pass.h"

// A custom call of this target with one array in and one out.
bool host_is_mark(const HlInst *inst, HlCallTarget target);
static inline bool host_is_to_host(const HlInst *inst) {
  return host_is_mark(inst, HL_CALL_MOVE_TO_HOST);
}
static inline bool host_is_to_device(const HlInst *inst) {
  return host_is_mark(inst, HL_CALL_MOVE_TO_DEVICE);
}
// The user moves no bytes: its result is the operand, or holds it.
bool host_forwards(HlOp op);
// A reshape that leaves all bytes in place.
bool host_is_free_reshape(const HlInst *inst);
// A reshape or bitcast that leaves all bytes in place, or a copy.
bool host_is_transparent(const HlInst *inst);
// The computation runs as a step of the program: the entry, or called by loops, calls and conditionals alone.
bool host_is_step(const HlComp *comp);
// All paths from the instruction lead, through transparent ones, to uses of which `is_end` holds; visits
// their users, unless `visit` is NULL.
bool host_leads_only(HlInst *from, bool (*is_end)(const HlUse *use),
                     void (*visit)(void *user, HlInst *end), void *user);
// The use is the part that dynamic-update-slice writes.
bool host_is_part_of_update(const HlUse *use);

#endif
