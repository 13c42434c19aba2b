// hilo/cost.h: what a module costs: flops, transcendentals, bytes, memory, collectives.
#ifndef HILO_COST_H
#define HILO_COST_H

#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlCost {
  double flops;                // multiply and add count one each
  double transcendentals;
  double bytes_read, bytes_written;
  double collective_bytes;     // sent into collectives by one device
} HlCost;

// Of one instruction, with what it calls (a while body counts its known trip count, else once).
HlCost hl_cost_inst(const HlInst *inst);
HlCost hl_cost_comp(const HlComp *comp);
HlCost hl_cost_module(const HlModule *m);
// Of every computation, by comp->id (m->next_comp_id of them), in the arena.
HlCost *hl_cost_comps(HlArena *arena, const HlModule *m);
// Of one instruction, given those: for asking about many.
HlCost hl_cost_inst_by(const HlInst *inst, const HlCost *comps);
// A module's cost as XLA's HloCostAnalysis names it: "flops", "bytes accessed", "bytes accessed0{}" (of the first operands of all
// instructions), "bytes accessedout{}", "utilization0{}", ...; a loop counts once. In the arena; what is 0 is left out.
typedef struct HlCostProperty {
  const char *name;
  double value;
} HlCostProperty;
int hl_cost_properties(HlArena *arena, const HlModule *m, const HlCostProperty **out);
// How long instructions take on a target, by its roofline: computing at its peaks, moving bytes at its bandwidth, the part of
// the shorter one that it does not hide, its links, and the time between two kernels. Where it does not say a peak, nothing.
typedef struct HlTimes {
  const HlTarget *target;
  const HlCost *comps;         // hl_cost_comps
  double *computing;           // seconds of arithmetic of each computation, by comp->id
  double *seconds;             // of each computation run once
} HlTimes;
HlTimes hl_times(HlArena *arena, const HlModule *m, const HlTarget *target, const HlCost *comps);
// Seconds of one run, with what it calls: 0 of what runs nothing of its own, and of what stands in a fusion.
double hl_time_of(const HlTimes *times, const HlInst *inst);
// A kernel by the roofline: arithmetic of so many seconds and traffic of so many bytes, as far as they do not hide each other, and a
// launch. Seconds.
double hl_kernel_seconds(const HlTarget *target, double computing, double bytes);
// How often a while runs its body: what its backend config says, or found from a counter that starts
// at a constant, grows by a constant and is compared with a constant; -1: not known.
int64_t hl_trip_count(const HlInst *loop);
// Bytes of all arrays in a shape; INT64_MAX where they do not fit or a size is not known.
int64_t hl_leaf_bytes(const HlShape *shape);
// Largest sum of bytes of values alive at one time in the entry (print order, or the schedule),
// called computations included.
int64_t hl_peak_memory(HlCx *cx, const HlModule *m);

#ifdef __cplusplus
}
#endif
#endif
