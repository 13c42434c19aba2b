// hilo/isolate.h: instructions as programs of their own.
#ifndef HILO_ISOLATE_H
#define HILO_ISOLATE_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// A module that computes this one instruction, its operands being parameters; what it calls comes along. The caller's;
// NULL after reporting.
HlModule *hl_isolate(HlCx *cx, const HlInst *inst);
// Whether there is something to see in running it alone: no parameter, constant, tuple or element of one, nothing
// that stands for a loop, branch or call (their bodies do), no half of an asynchronous or host transfer.
bool hl_is_worth_isolating(const HlInst *inst);
// The computations that control flow reaches from the entry, which is first: bodies and conditions, branches, calls.
HlComp **hl_control_flow_comps(HlArena *arena, const HlModule *m, int *n);

#ifdef __cplusplus
}
#endif
#endif
